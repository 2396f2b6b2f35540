// The emitter's own promises, on small functions in IR text: layouts as functions of register and thread (checked against TileLayout by evaluating
// the emitted arithmetic), text that user names cannot change, an explicit unroll pragma on every loop, stable results, atomics and effects spelled
// as documented. That emitted kernels compute the right thing is tested by running them (tests/emulate, and every run test on a GPU).
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

#include "jit/cuda/print.h"
#include "lang/kernel/kernel_text.h"
#include "lang/ir_text.h"
#include "lower/gpu/gpu.h"
#include "lower/kernel/lower.h"

using namespace tegula;

namespace {

struct Emitted {
    KernelText text;
    std::string problem;
    TileLayout layout;  ///< of the first tile
};

struct Traits {
    bool aligned = false, strided = false;
    const char* arch = "sm_90a";
    bool whole = false;
    bool passes = true;
};

Emitted emit_ir(const std::string& ir_text, Traits traits = {}, const char* file_name = "k.ir") {
    SourceMap sources;
    TypeTable types;
    DiagSink diags;
    Emitted out;
    auto fn = ir::parse_ir(sources, sources.add(file_name, ir_text), types, diags);
    if (!fn) {
        for (const Diagnostic& d : diags.take()) out.problem += d.message + "\n";
        return out;
    }
    GpuOptions options;
    options.arch = find_arch(traits.arch);
    options.tensors.assign(fn->params.size(), GpuTensor{traits.aligned, traits.strided, traits.whole});
    if (!traits.passes) options.disabled = {"all"};
    run_gpu_passes(*fn, options);
    for (uint32_t v = static_cast<uint32_t>(fn->value_count()); v-- > 0;)
        if (fn->type({v}).kind == Type::tile && fn->type({v}).shape.rank) out.layout = fn->placement({v}).regs;
    out.text = cuda::printed(lower_to_kernel(*fn, &sources));
    return out;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// Integer expressions as emitted for layouts: names, literals, + * << >> & | ^ % / < and parentheses, C precedence.
class Evaluator {
public:
    Evaluator(const std::string& text, int64_t r, int64_t t) : text_(text), r_(r), t_(t) {}
    int64_t value() { return level(0); }

private:
    static constexpr const char* kLevels[] = {"|", "^", "&", "<< >>", "+", "* / %"};
    int64_t level(int n) {
        if (n == 6) return primary();
        int64_t a = level(n + 1);
        for (;;) {
            skip();
            const std::string op = operator_at();
            if (op.empty() || (std::string(" ") + kLevels[n] + " ").find(" " + op + " ") == std::string::npos) return a;
            at_ += op.size();
            const int64_t b = level(n + 1);
            a = op == "|"    ? a | b
                : op == "^"  ? a ^ b
                : op == "&"  ? a & b
                : op == "<<" ? a << b
                : op == ">>" ? a >> b
                : op == "+"  ? a + b
                : op == "*"  ? a * b
                : op == "/"  ? a / b
                             : a % b;
        }
    }
    std::string operator_at() const {
        if (at_ >= text_.size()) return "";
        if (text_.compare(at_, 2, "<<") == 0 || text_.compare(at_, 2, ">>") == 0) return text_.substr(at_, 2);
        return std::string("|^&+*/%").find(text_[at_]) == std::string::npos ? "" : text_.substr(at_, 1);
    }
    int64_t primary() {
        skip();
        if (text_.at(at_) == '(') {
            ++at_;
            const int64_t v = level(0);
            skip();
            EXPECT_EQ(text_.at(at_), ')') << text_;
            ++at_;
            return v;
        }
        if (text_[at_] == 'r' || text_[at_] == 't') return text_[at_++] == 'r' ? r_ : t_;
        size_t end = at_;
        while (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end]))) ++end;
        EXPECT_GT(end, at_) << text_.substr(at_);
        const int64_t v = std::stoll(text_.substr(at_, end - at_));
        at_ = end;
        return v;
    }
    void skip() {
        while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    }
    const std::string& text_;
    int64_t r_, t_;
    size_t at_ = 0;
};

/// What the first assignment to registers in `source` assigns.
std::string first_assigned(const std::string& source) {
    const size_t at = source.find("] = ", source.find("__global__"));
    return at == std::string::npos ? "" : source.substr(at + 4, source.find(';', at) - at - 4);
}

}  // namespace

TEST(CudaEmit, CoordinatesAreTheLayout) {
    const Shape shapes[] = {Shape{128}, Shape{7}, Shape{33}, Shape{16, 64}, Shape{3, 40}, Shape{5, 1, 12}, Shape{64, 64}, Shape{2, 3, 5, 7}};
    int compared = 0;
    for (const Shape& shape : shapes) {
        std::string dims, all;
        for (size_t d = 0; d < shape.rank; ++d) {
            dims += (d ? ", " : "") + std::to_string(shape[d]);
            all += d ? ", :" : ":";
        }
        for (size_t d = 0; d < shape.rank; ++d) {
            const std::string type = "<i32>[" + dims + "]";
            const Emitted e = emit_ir("kernel @k(%y: tensor" + type + " out) {\n  %0 = iota {axis = " + std::to_string(d) + "} : tile" + type +
                                      "\n  store %y[" + all + "] = %0\n  ret\n}\n");
            ASSERT_EQ(e.problem, "");
            const std::string text = first_assigned(e.text.source);
            ASSERT_FALSE(text.empty()) << e.text.source;
            for (int r = 0; r < e.layout.registers(); ++r)
                for (int t = 0; t < 32 * e.layout.warps(); ++t, ++compared) {
                    const int64_t got = Evaluator(text, r, t).value();
                    ASSERT_EQ(got, e.layout.point(r, t & 31, t >> 5)[d]) << text << " register " << r << ", thread " << t;
                }
        }
    }
    EXPECT_GT(compared, 4000);
}

TEST(CudaEmit, NamesAndFilesCannotChangeTheProgram) {
    const std::string ir_text =
        "kernel @k(%x: tensor<f32>[?] in, %__launch_bounds__: tensor<f32>[?] out, %int: i32) {\n  %0 = constant 0 : i64\n  %1 = load %x[%0] : f32\n"
        "  store %__launch_bounds__[%0] = %1\n  ret\n}\n";
    const Emitted e = emit_ir(ir_text, {}, "a\"\n#error \\ .tile");
    ASSERT_EQ(e.problem, "");
    EXPECT_FALSE(contains(e.text.source, "#error"));
    EXPECT_FALSE(contains(e.text.source, "\\ "));
    EXPECT_TRUE(contains(e.text.source, "a_"));
    EXPECT_FALSE(contains(e.text.source, " int,")) << "a parameter kept its name";
    EXPECT_EQ(e.text.entry.rfind("tegula_", 0), 0u);
}

namespace {

constexpr const char* kLoops = R"(kernel @k(%x: tensor<f32>[?] in, %y: tensor<f32>[?] out, %N: extent, %lo: i64, %step: i64) {
  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %2 = constant 0 : tile<f32>[512]
  %3, %4 = for_loop %0, %N, %1, %2, %2 : tile<f32>[512], tile<f32>[512] (%5: i64, %6: tile<f32>[512], %7: tile<f32>[512]) {
    %8 = load %x[%5 +: 512] : tile<f32>[512]
    %9 = add %6, %8 : tile<f32>[512]
    yield %7, %9
  }
  %10 = for_loop %lo, %N, %step, %3 : tile<f32>[512] (%11: i64, %12: tile<f32>[512]) {
    %13 = add %12, %4 : tile<f32>[512]
    yield %13
  }
  store %y[%0 +: 512] = %10
  ret
}
)";

}  // namespace

TEST(CudaEmit, EveryLoopHasAnUnrollPragma) {
    const Emitted e = emit_ir(kLoops, {true, false, "sm_90a"});
    ASSERT_EQ(e.problem, "");
    std::istringstream in(e.text.source);
    std::string line, before;
    int loops = 0;
    for (; std::getline(in, line); before = line) {
        const size_t at = line.find_first_not_of(' ');
        if (at == std::string::npos || line.compare(at, 5, "for (") != 0) continue;
        ++loops;
        EXPECT_TRUE(contains(before, "#pragma unroll")) << before << "\n" << line;
    }
    EXPECT_GE(loops, 4);
}

TEST(CudaEmit, LoopsThatCannotOverflowCountUpAndOthersCountWhatIsLeft) {
    const Emitted e = emit_ir(kLoops);
    EXPECT_TRUE(contains(e.text.source, "for (long long "));           // 0 .. extent step 1
    EXPECT_TRUE(contains(e.text.source, "> 0 && "));                   // a run-time step may be negative: zero trips
    EXPECT_TRUE(contains(e.text.source, "for (unsigned long long "));  // and its end may be near the largest number
}

TEST(CudaEmit, SwappedCarriedValuesGoThroughATemporary) {
    const Emitted e = emit_ir(kLoops);
    // The first result gets the second argument while that is overwritten: exactly one of the two is held.
    size_t held = 0;
    for (size_t at = e.text.source.find("float held"); at != std::string::npos; at = e.text.source.find("float held", at + 1)) ++held;
    EXPECT_EQ(held, 0u) << "yield (b, new) copies b before it is overwritten, in order";
    const Emitted swapped = emit_ir(R"(kernel @k(%x: tensor<f32>[?] in, %y: tensor<f32>[?] out, %N: extent) {
  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %2 = load %x[%0] : f32
  %3 = load %x[%1] : f32
  %4, %5 = for_loop %0, %N, %1, %2, %3 : f32, f32 (%6: i64, %7: f32, %8: f32) {
    yield %8, %7
  }
  store %y[%0] = %4
  store %y[%1] = %5
  ret
}
)");
    ASSERT_EQ(swapped.problem, "");
    EXPECT_TRUE(contains(swapped.text.source, "float held"));
}

TEST(CudaEmit, SignChangesOfIntegersAreHiddenFromTheAssembler) {
    // ptxas loses them next to minima and maxima of three (VIMNMX3), whoever writes them: -a, 0 - a and a * -1.
    for (const char* type : {"i32", "u32", "i16", "i64"}) {
        const std::string t = "tile<" + std::string(type) + ">[256]", tensor = "tensor<" + std::string(type) + ">[256]";
        const Emitted out =
            emit_ir("kernel @k(%x: " + tensor + " in, %y: " + tensor + " out) {\n  %0 = load %x[:] : " + t + "\n  %1 = neg %0 : " + t +
                    "\n  %2 = constant 0 : " + t + "\n  %3 = sub %2, %0 : " + t + "\n  %4 = constant " +
                    std::string(type[0] == 'u' ? "4294967295" : "-1") + " : " + t + "\n  %5 = mul %0, %4 : " + t + "\n  %6 = mul %4, %0 : " + t +
                    "\n  %7 = min %1, %3 : " + t + "\n  %8 = min %5, %6 : " + t + "\n  %9 = min %7, %8 : " + t + "\n  store %y[:] = %9\n  ret\n}\n");
        const std::string& text = out.text.source;
        ASSERT_TRUE(contains(text, "__global__")) << out.problem;
        const std::string kernel = text.substr(text.find("__global__"));
        size_t changes = 0;
        for (size_t at = 0; (at = kernel.find("opposite(", at)) != std::string::npos; ++at) ++changes;
        EXPECT_EQ(changes, 4u) << type << "\n" << kernel;
        EXPECT_FALSE(contains(kernel, "(-(unsigned")) << kernel;
    }
}

TEST(CudaEmit, MaskedCountsAreHiddenFromTheCompilerBeforeTheyAreShifted) {
    // NVRTC drops the mask of (x & 24) >> 2 in loops, but not the claim that no bit is lost.
    const auto kernel = [](const std::string& masks) {
        const std::string text =
            emit_ir(
                "kernel @k(%x: tensor<i64>[?] in, %y: tensor<i64>[?] out, %N: extent) {\n  %0 = constant 0 : i64\n  %1 = constant 8 : i64\n"
                "  %2 = constant 24 : i64\n  %3 = constant 2 : i64\n  %9 = load %x[%0] : i64\n  for_loop %0, %N, %1 (%4: i64) {\n" +
                masks + "    store %y[%4] = %7\n    yield\n  }\n  ret\n}\n")
                .text.source;
        return text.substr(std::min(text.find("__global__"), text.size()));
    };
    for (const char* masks : {"    %5 = add %4, %3 : i64\n    %6 = bit_and %5, %2 : i64\n    %7 = shr %6, %3 : i64\n",
                              "    %5 = rem %4, %1 : i64\n    %6 = add %5, %9 : i64\n    %7 = div %6, %3 : i64\n",
                              "    %5 = div %4, %1 : i64\n    %6 = mul %5, %1 : i64\n    %7 = div %6, %3 : i64\n"})
        EXPECT_TRUE(contains(kernel(masks), "opaque(")) << masks << kernel(masks);
    // What comes from memory, and what is shifted before it is masked, stays open to it.
    for (const char* masks : {"    %6 = bit_and %9, %2 : i64\n    %7 = shr %6, %3 : i64\n",
                              "    %6 = shr %4, %3 : i64\n    %7 = bit_and %6, %2 : i64\n", "    %6 = mul %4, %1 : i64\n    %7 = div %6, %3 : i64\n"})
        EXPECT_TRUE(contains(kernel(masks), "for (") && !contains(kernel(masks), "opaque(")) << masks << kernel(masks);
}

TEST(CudaEmit, TilesBeyondRegistersKeepTheirLoops) {
    const auto source = [](const std::string& n) {
        const std::string t = "tile<f32>[" + n + "]";
        return emit_ir("kernel @k(%x: tensor<f32>[" + n + "] in, %y: tensor<f32>[" + n + "] out) {\n  %0 = load %x[:] : " + t +
                           "\n  %1 = mul %0, %0 : " + t + "\n  %2, %3 = sort %1 {axis = 0, descending = 0} : " + t + ", tile<i32>[" + n +
                           "]\n  %4 = sub %2, %0 : " + t + "\n  store %y[:] = %4\n  ret\n}\n",
                       Traits{true, false, "sm_90a", true})
            .text.source;
    };
    const std::string large = source("262144"), huge = source("1048576");
    ASSERT_TRUE(contains(large, "__global__") && contains(huge, "__global__"));
    EXPECT_TRUE(contains(large, "#pragma unroll\n"));
    EXPECT_TRUE(contains(huge, "[1024];")) << huge;
    EXPECT_FALSE(contains(huge.substr(huge.find("__global__")), "#pragma unroll\n        for (int r = 0; r < 1024"));
    EXPECT_LT(huge.size(), large.size() + 500) << "the text does not grow with the tile";
    // No loop of more than a few iterations is unrolled.
    std::istringstream lines(huge.substr(huge.find("__global__")));
    for (std::string line, before; std::getline(lines, line); before = line) {
        const size_t bound = line.find(" < ");
        if (before.find("#pragma unroll") == std::string::npos || before.back() == '1' || bound == std::string::npos) continue;
        EXPECT_LE(std::atoi(line.c_str() + bound + 3), 4) << line;
    }
}

TEST(CudaEmit, TheSameFunctionGivesTheSameText) { EXPECT_EQ(emit_ir(kLoops).text.source, emit_ir(kLoops).text.source); }

namespace {

const std::string kBy8 = " @ \"[2](i0 / 8, i1, i0 % 8)\"", kBy3 = " @ \"[2](i0 / 3, i1, i0 % 3)\"";

std::string copy_kernel(const std::string& elem, const std::string& layout, const std::string& start) {
    return "kernel @k(%x: tensor<" + elem + ">[?, ?]" + layout + " in, %y: tensor<" + elem + ">[?, ?] out, %i: i64) {\n  %0 = constant " + start +
           " : i64\n  %1 = mul %i, %0 : i64\n  %2 = load %x[%1 +: 16, %1 +: 64] : tile<" + elem +
           ">[16, 64]\n  store %y[%1 +: 16, %1 +: 64] = %2\n  ret\n}\n";
}

}  // namespace

TEST(CudaEmit, WideAccessesNeedAlignedStartsAndTensors) {
    const Traits aligned{true, false, "sm_90a"};
    const std::string multiple = emit_ir(copy_kernel("f32", "", "64"), aligned).text.source;
    EXPECT_TRUE(contains(multiple, "ld.global.v4.b32"));
    EXPECT_FALSE(contains(multiple, "& 3) == 0")) << "a start that is a multiple needs no test";
    EXPECT_TRUE(contains(emit_ir(copy_kernel("f32", "", "3"), aligned).text.source, "& 3) == 0")) << "an odd start is tested";
    EXPECT_FALSE(contains(emit_ir(copy_kernel("f32", "", "64")).text.source, "ld.global.v4")) << "nothing known of the tensor";
    EXPECT_FALSE(contains(emit_ir(copy_kernel("f32", "", "64"), Traits{true, true, "sm_90a"}).text.source, "ld.global.v4")) << "nothing contiguous";
    EXPECT_FALSE(contains(emit_ir(copy_kernel("i3", "", "64"), aligned).text.source, "ld.global.v4")) << "elements of no whole bytes";
}

TEST(CudaEmit, EdgesOfAlignedTensors) {
    const auto source = [](const char* elem, const char* start, bool whole) {
        return emit_ir(copy_kernel(elem, "", start), Traits{true, false, "sm_90a", whole}).text.source;
    };
    const std::string whole = source("bf16", "64", true), some = source("bf16", "64", false), odd = source("bf16", "3", true);
    EXPECT_TRUE(contains(whole, "@p ld.global.v4.b32") && contains(whole, "@p st.global.v4.b32")) << "a vector is inside or outside";
    EXPECT_FALSE(contains(whole, "b16") || contains(source("f32", "64", true), "else {")) << "one path for all tiles";
    EXPECT_TRUE(contains(whole, "else {") && contains(whole, "load_uint4_")) << "another one for narrow elements of tiles inside";
    EXPECT_TRUE(contains(some, "load_first_16_2_") && contains(some, "store_first_16_2_")) << "a vector may straddle the edge";
    EXPECT_TRUE(contains(some, "@p2 st.global.u16") && !contains(some, "@p1 ")) << "pieces as small as an element";
    EXPECT_TRUE(contains(odd, "& 7) == 0") && contains(odd, "@p ld.global.b16")) << "vectors of an odd start begin anywhere";
    EXPECT_FALSE(contains(odd, "load_first")) << "these need aligned vectors";
    EXPECT_TRUE(contains(source("i8", "64", false), "@p1 st.global.u8"));
    EXPECT_FALSE(contains(source("f64", "64", false), "p4, n")) << "f64 has no smaller pieces than 8 bytes";
}

TEST(CudaEmit, NarrowElementsOfUnalignedTensorsAreWordsShiftedIntoPlace) {
    const auto source = [](const char* elem, bool strided = false) {
        return emit_ir(copy_kernel(elem, "", "3"), Traits{false, strided, "sm_90a"}).text.source;
    };
    EXPECT_TRUE(contains(source("i8"), "read_words") && contains(source("i8"), "write_words"));
    EXPECT_FALSE(contains(source("i8"), "v4.b32")) << "they may lie anywhere";
    EXPECT_FALSE(contains(source("i8", true), "_words")) << "with strides of the host";
    for (const char* elem : {"bf16", "f32", "f64", "i3"}) EXPECT_FALSE(contains(source(elem), "_words")) << elem;
}

TEST(CudaEmit, StridesAndPitchesAreParametersOnlyWhereTheyAreNotKnown) {
    const auto strides = [](const std::string& text, Traits traits) {
        std::vector<int> dims;
        const Emitted e = emit_ir(text, traits);
        EXPECT_EQ(e.problem, "");
        for (const KernelParam& p : e.text.params)
            if (p.kind == KernelParam::stride && p.param == 0) dims.push_back(p.dim);
        return dims;
    };
    EXPECT_EQ(strides(copy_kernel("f32", "", "64"), {}), std::vector<int>{0});
    EXPECT_EQ(strides(copy_kernel("f32", " @ \"col\"", "64"), {}), std::vector<int>{1});
    EXPECT_EQ(strides(copy_kernel("f32", "", "64"), Traits{false, true, "sm_90a"}).size(), 2u);
    EXPECT_EQ(strides(copy_kernel("f32", kBy8, "64"), {}).size(), 2u) << "all members but the innermost";
}

TEST(CudaEmit, LayoutsByExpressionsComeApart) {
    const std::string source = emit_ir(copy_kernel("i8", kBy8, "64")).text.source;
    EXPECT_FALSE(contains(source, "div_floor(")) << "division by a power of two";
    EXPECT_TRUE(contains(source, "const unsigned long long base")) << "what no register changes is computed once";
    EXPECT_TRUE(contains(emit_ir(copy_kernel("i8", kBy3, "64")).text.source, "div_floor("));
}

TEST(CudaEmit, AtomicsAreExact) {
    const auto atomic = [](const std::string& elem, const std::string& kind) {
        return emit_ir("kernel @k(%y: tensor<" + elem + ">[?] inout, %v: " + elem +
                       ") {\n  %0 = constant 0 : i64\n  %1 = atomic %y[%0] = %v {kind = " + kind + ", order = acq_rel, scope = sys} : " + elem +
                       "\n  ret\n}\n")
            .text.source;
    };
    EXPECT_TRUE(contains(atomic("i32", "add"), "atomicAdd_system((unsigned*)at"));
    EXPECT_TRUE(contains(atomic("i32", "min"), "atomicMin_system((int*)at"));
    const std::string f32 = atomic("f32", "add");
    EXPECT_FALSE(contains(f32, "atomicAdd")) << "the hardware's sum flushes subnormals";
    EXPECT_TRUE(contains(f32, "atomicCAS_system"));
    EXPECT_TRUE(contains(f32, "__threadfence_system();"));
    EXPECT_TRUE(contains(atomic("i4", "add"), "at >> 5 << 2")) << "the word around the element";
    EXPECT_TRUE(contains(atomic("i3", "add"), "atomicExch(&lock")) << "an element may lie across two words";
}

TEST(CudaEmit, OnlyOneThreadStoresWhatSeveralHold) {
    const std::string source = emit_ir(R"(kernel @k(%y: tensor<f32>[?] out, %v: f32) {
  %0 = constant 0 : i64
  %1 = broadcast %v : tile<f32>[4]
  store %y[%0 +: 4] = %1
  store %y[%0] = %v
  ret
}
)")
                                   .text.source;
    EXPECT_TRUE(contains(source, "::owner(t)"));
    EXPECT_TRUE(contains(source, "if (t == 0"));
}

/// Integers of at most 8 bits become halves in pairs: the byte is put below the leading one of 1024 (of 1152, with the sign bit turned), and that is
/// taken off again.
TEST(CudaEmit, NarrowIntegersBecomeHalvesInPairs) {
    const auto cast = [](const std::string& from) {
        return emit_ir("kernel @f(%a: tensor<" + from + ">[1024] in, %b: tensor<f16>[1024] out) {\n  %0 = load %a[:] : tile<" + from +
                       ">[1024]\n  %1 = cast %0 {round = rne, overflow = automatic} : tile<f16>[1024]\n  store %b[:] = %1\n  ret\n}\n")
            .text.source;
    };
    for (const char* from : {"i4", "i8", "i3"}) EXPECT_TRUE(contains(cast(from), "^ 0x64806480u")) << from;
    for (const char* from : {"u4", "u8", "u1"}) EXPECT_TRUE(contains(cast(from), "^ 0x64006400u")) << from;
    for (const char* from : {"i9", "u16", "bool"}) EXPECT_FALSE(contains(cast(from), "two_halves")) << from;
    const Format f16 = builtin_formats()[static_cast<size_t>(Fmt::f16)];
    for (int x = 0; x < 256; ++x) {
        EXPECT_EQ(decode(f16, static_cast<uint64_t>(x ^ 0x6400)) - decode(f16, 0x6400), x);
        EXPECT_EQ(decode(f16, static_cast<uint64_t>(x ^ 0x6480)) - decode(f16, 0x6480), static_cast<int8_t>(x));
    }
}

TEST(CudaEmit, WritersThatMayMeetAreOrdered) {
    const auto scatter = [](const std::string& index) {
        return emit_ir("kernel @k(%x: tensor<f32>[64] in, %at: tensor<i64>[64] in, %y: tensor<f32>[?] out) {\n  %0 = load %x[:] : tile<f32>[64]\n" +
                       index + "  store %y[gather %1] = %0\n  ret\n}\n")
            .text.source;
    };
    EXPECT_TRUE(contains(scatter("  %1 = load %at[:] : tile<i64>[64]\n"), "bool last"));
    EXPECT_FALSE(contains(scatter("  %1 = iota {axis = 0} : tile<i64>[64]\n"), "bool last"));
}

int count(const std::string& text, std::string_view part) {
    int n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
    return n;
}

/// x, then the lines given, then a store of %9.
std::string elementwise_kernel(const std::string& lines, int extent = 1024) {
    const std::string n = std::to_string(extent);
    return emit_ir("kernel @k(%x: tensor<f32>[" + n + "] in, %y: tensor<f32>[" + n + "] out, %a: f32) {\n  %0 = load %x[:] : tile<f32>[" + n + "]\n" +
                   lines + "  store %y[:] = %9\n  ret\n}\n")
        .text.source;
}

// Registers behind the end of an odd extent read staged indices, too, which must not lie behind the end of shared memory.
TEST(CudaEmit, IndicesBehindOddExtentsStayInSharedMemory) {
    const auto text = [](const std::string& n) {
        return emit_ir("kernel @k(%x: tensor<f32>[?] in, %at: tensor<i64>[" + n + "] in, %y: tensor<f32>[" + n +
                       "] out) {\n  %0 = load %at[:] : tile<i64>[" + n + "]\n  %1 = load %x[gather %0] : tile<f32>[" + n +
                       "]\n  store %y[:] = %1\n  ret\n}\n")
            .text.source;
    };
    EXPECT_NE(text("33").find("[min("), std::string::npos) << text("33");
    EXPECT_EQ(text("64").find("[min("), std::string::npos) << text("64");
}

// ptxas takes a warp for one that has come together behind loops of single elements where it has not.
TEST(CudaEmit, WarpsMeetBeforeTheyWorkTogether) {
    const auto text = [](const std::string& atomic) {
        return emit_ir(
                   "kernel @k(%x: tensor<f16>[32, 16] in, %m: tensor<u16>[32, 16] inout, %y: tensor<f32>[32] out) {\n  %0 = load %x[:, :] : "
                   "tile<f16>[32, "
                   "16]\n  %1 = constant 1 : tile<u16>[32, 16]\n" +
                   atomic +
                   "  %3 = reduce %0 {kind = max, order = tree, axis = 1} : tile<f16>[32]\n  %4 = cast %3 {round = rne, overflow = automatic} : "
                   "tile<f32>[32]\n  store %y[:] = %4\n  ret\n}\n")
            .text.source;
    };
    const std::string parting = text("  %2 = atomic %m[:, :] = %1 {kind = xchg, order = relaxed, scope = gpu} : tile<u16>[32, 16]\n");
    const size_t shuffle = parting.find("__shfl_xor_sync");
    ASSERT_NE(shuffle, std::string::npos) << parting;
    EXPECT_LT(parting.find("__syncwarp();"), shuffle) << parting;
    EXPECT_EQ(text("").find("__syncwarp"), std::string::npos);
}

// Nobody reads the sum, whose registers the product writes all the same.
TEST(CudaEmit, SumsThatNobodyReadsHaveRegisters) {
    const Emitted k = emit_ir(
        "kernel @k(%x: tensor<f32>[32, 32] in, %y: tensor<f32>[32, 32] out) {\n  %0 = load %x[:, :] : tile<f32>[32, 32]\n  %1 = dot %0, %0, %0 "
        "{precision "
        "= ieee} : tile<f32>[32, 32]\n  store %y[:, :] = %0\n  ret\n}\n",
        {.passes = false});
    ASSERT_EQ(k.problem, "");
    const std::string& source = k.text.source;
    const size_t at = source.find("[r] = fmaf(");
    ASSERT_NE(at, std::string::npos) << source;
    const size_t name = source.rfind(' ', at) + 1;
    EXPECT_TRUE(contains(source, "float " + source.substr(name, at - name) + "[")) << source;
}

TEST(CudaEmit, ElementwiseTilesShareALoop) {
    const std::string source = elementwise_kernel(
        "  %1 = broadcast %a : tile<f32>[1024]\n  %2 = mul %0, %1 : tile<f32>[1024]\n  %3 = add %2, %2 : tile<f32>[1024]\n  %9 = sub %3, %2 : "
        "tile<f32>[1024]\n");
    EXPECT_EQ(count(source, "_r = "), 2) << "two tiles that only the loop reads";
    EXPECT_TRUE(contains(source, " * a_")) << "the scalar itself, no registers full of it";
    EXPECT_FALSE(contains(source, "_r[")) << source;
}

TEST(CudaEmit, TilesThatAreReadLaterKeepTheirRegisters) {
    const std::string source = elementwise_kernel(
        "  %1 = mul %0, %0 : tile<f32>[1024]\n  %2 = add %1, %0 : tile<f32>[1024]\n  %3 = reduce %2 {kind = max, axis = 0} : f32\n"
        "  %4 = broadcast %3 : tile<f32>[1024]\n  %9 = sub %1, %4 : tile<f32>[1024]\n");
    EXPECT_EQ(count(source, "_r = "), 1) << "computed once, for the loop";
    EXPECT_EQ(count(source, "_r;"), 1) << "and kept for the subtraction";
}

/// Is what stands behind a choice by this mask in a loop of its own?
bool ends_loop(const std::string& mask) {
    const std::string source = elementwise_kernel("  %1 = mul %0, %0 : tile<f32>[1024]\n" + mask +
                                                  "  %3 = select %2, %0, %1 : tile<f32>[1024]\n  %9 = add %3, %3 : tile<f32>[1024]\n");
    const size_t choice = source.find(" ? v"), next = source.find("for (int r = 0", choice), sum = source.find(" + v", choice);
    EXPECT_NE(choice, std::string::npos) << source;
    EXPECT_NE(sum, std::string::npos) << source;
    return next < sum;
}

TEST(CudaEmit, ALoopEndsWithAChoiceByPosition) {
    EXPECT_TRUE(ends_loop("  %4 = iota {axis = 0} : tile<i64>[1024]\n  %5 = mul %4, %4 : tile<i64>[1024]\n  %2 = lt %4, %5 : tile<bool>[1024]\n"));
    EXPECT_FALSE(ends_loop("  %2 = lt %0, %1 : tile<bool>[1024]\n"));
}

TEST(CudaEmit, LongChainsAreCutByRegistersNotByOperations) {
    std::string lines = "  %10 = add %0, %0 : tile<f32>[8192]\n";
    for (int i = 11; i < 500; ++i) lines += "  %" + std::to_string(i) + " = add %" + std::to_string(i - 1) + ", %0 : tile<f32>[8192]\n";
    const std::string source = elementwise_kernel(lines + "  %9 = add %499, %0 : tile<f32>[8192]\n", 8192);
    int from = 0, to = 0, covered = 0, longest = 0, in_loop = 0;
    std::istringstream text(source);
    for (std::string line; std::getline(text, line);) {
        if (std::sscanf(line.c_str(), " for (int r = %d; r < %d", &from, &to) == 2) in_loop = 0;
        in_loop += contains(line, " + v");
        longest = std::max(longest, in_loop * (to - from));
        if (contains(line, "[r] = (v") && contains(line, " + v")) covered += to - from;
    }
    EXPECT_GT(longest, 1000);
    EXPECT_LT(longest, 16384 / 4);
    EXPECT_EQ(count(source, "[r] = (v"), count(source, "_r + v") / 490) << "only the last sum is kept";
    EXPECT_GT(covered, 0);
    EXPECT_EQ(covered % 32, 0) << "every register once";
}
