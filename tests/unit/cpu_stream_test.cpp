// Variants of kernels that stream tensors (jit/cpu/plan.h, streamable_params) give the interpreter's bits, at every alignment and around every edge,
// and write nothing else; which tensors are streamed, and that such code differs.
#include <gtest/gtest.h>

#include "jit/cpu/plan.h"
#include "lang/tensor_strides.h"
#include "tests/unit/interp_fixture.h"
#include "tests/unit/native_run.h"

namespace tegula::testing {
namespace {

struct Streams : ::testing::Test {
    World w;

    /// What a launch would choose if the caches held nothing.
    static cpu::CompileOptions streamed(const ir::Function& fn, const std::vector<Argument>& args) {
        cpu::CompileOptions options = cpu::variant_options(fn, written_params(fn), args);
        cpu::mark_streamed(fn, cpu::streamable_params(fn), args, 0, options);
        return options;
    }

    /// Two tensors of `shape`, input and output, `from` and `to` bytes behind multiples of 64.
    void compare(const std::string& text, const Shape& shape, uint64_t from, uint64_t to, uint64_t programs) {
        SCOPED_TRACE(text + "input at " + std::to_string(from) + ", output at " + std::to_string(to));
        const auto fn = w.parse(text);
        const FormatId elem = fn->type(fn->params[0].value).elem;
        const uint64_t bytes = static_cast<uint64_t>(shape.elements()) * fn->types().format(elem).bits / 8, room = (bytes + 191) / 64 * 64;
        std::vector<uint8_t> noise(2 * room + 64);
        std::mt19937_64 random(bytes);
        for (uint8_t& b : noise) b = static_cast<uint8_t>(random());
        const std::array<uint64_t, 3> grid = {programs, 1, 1};
        for (const char* cpu : {"", "x86-64-v3", "x86-64"}) {
            std::vector<uint8_t> results[2] = {noise, noise};
            for (int native = 0; native < 2; ++native) {
                uint8_t* base = results[native].data();
                base += (64 - reinterpret_cast<uintptr_t>(base) % 64) % 64;
                std::copy(noise.begin(), noise.end() - 64, base);
                std::vector<Argument> args(2);
                for (Argument& a : args) a.kind = Argument::tensor, a.t.elem = elem, a.t.bytes = bytes, a.t.extents = shape;
                args[0].t.data = base + from;
                args[1].t.data = base + room + to;
                if (native) {
                    cpu::CompileOptions options = streamed(*fn, args);
                    for (const cpu::TensorTrait& t : options.tensors) EXPECT_TRUE(t.streamed);
                    options.cpu = cpu;
                    ASSERT_NO_FATAL_FAILURE(run_native(*fn, options, args, grid));
                } else {
                    ASSERT_EQ(interp::Program::prepare(*fn)->run(args, grid, {}).status, RunResult::ok);
                }
                results[native] = std::vector<uint8_t>(base, base + 2 * room);
            }
            EXPECT_EQ(results[1], results[0]) << cpu;
        }
    }

    static std::string dims(std::initializer_list<int64_t> all) {
        std::string out = "[";
        for (int64_t d : all) out += (out.size() > 1 ? ", " : "") + std::to_string(d);
        return out + "]";
    }
};

/// A row per program, `start` columns from its begin.
std::string rows_text(const std::string& f, const std::string& shape, int64_t start, int64_t columns) {
    const std::string tile = "tile<" + f + ">[" + std::to_string(columns) + "]", part = "[%0, %1 +: " + std::to_string(columns) + "]";
    return "kernel @k(%x: tensor<" + f + ">" + shape + " in, %y: tensor<" + f + ">" + shape + " out) {\n  %0 = program_id {axis = 0} : i64\n" +
           "  %1 = constant " + std::to_string(start) + " : i64\n  %2 = load %x" + part + " : " + tile + "\n  %3 = add %2, %2 : " + tile +
           "\n  store %y" + part + " = %3\n  ret\n}\n";
}

TEST_F(Streams, RowsOfEveryWidthAndAlignment) {
    for (const char* f : {"f32", "bf16", "f64", "i8"})
        for (int64_t columns : {1, 16, 31, 64, 100, 257})
            for (int64_t start : {0, -5, 3}) {
                const uint64_t unit = std::string(f) == "f64" ? 8 : std::string(f) == "f32" ? 4 : std::string(f) == "bf16" ? 2 : 1;
                // One row more than there are: its program writes nothing.
                compare(rows_text(f, dims({3, columns}), start, columns), Shape{3, columns}, unit, 5 * unit, 4);
                compare(rows_text(f, dims({3, columns}), start, 130), Shape{3, columns}, 0, 0, 3);
            }
}

TEST_F(Streams, ColumnsThatAreContiguous) {
    for (const char* block : {"[40, 1]", "[40, 3]"}) {
        const std::string tile = std::string("tile<f32>") + block,
                          part = std::string(block) == "[40, 1]" ? "[%1 +: 40, %0 +: 1]" : "[%1 +: 40, %0 +: 3]";
        const std::string text = "kernel @k(%x: tensor<f32>[37, 3] @ \"col\" in, %y: tensor<f32>[37, 3] @ \"col\" out) {\n" +
                                 std::string("  %0 = program_id {axis = 0} : i64\n  %1 = constant -2 : i64\n  %2 = load %x") + part + " : " + tile +
                                 "\n  %3 = mul %2, %2 : " + tile + "\n  store %y" + part + " = %3\n  ret\n}\n";
        for (uint64_t offset : {0, 8}) compare(text, Shape{37, 3}, 4, offset, 3);
    }
}

TEST_F(Streams, BlocksOfTwoDimensions) {
    const std::string text = R"(kernel @k(%x: tensor<f32>[21, 150] in, %y: tensor<f32>[21, 150] out) {
  %0 = program_id {axis = 0} : i64
  %1 = constant 9 : i64
  %2 = constant 0 : i64
  %3 = mul %0, %1 : i64
  %4 = load %x[%3 +: 9, %2 +: 200] : tile<f32>[9, 200]
  %5 = reduce %4 {kind = max, order = tree, axis = 1} : tile<f32>[9]
  %11 = reshape %5 : tile<f32>[9, 1]
  %6 = broadcast %11 : tile<f32>[9, 200]
  %7 = sub %4, %6 : tile<f32>[9, 200]
  %8 = reduce %7 {kind = sum, order = tree, axis = 1} : tile<f32>[9]
  %12 = reshape %8 : tile<f32>[9, 1]
  %9 = broadcast %12 : tile<f32>[9, 200]
  %10 = div %7, %9 : tile<f32>[9, 200]
  store %y[%3 +: 9, %2 +: 200] = %10
  ret
}
)";
    for (uint64_t offset : {0, 4, 60}) compare(text, Shape{21, 150}, offset, 64 - offset, 3);
}

std::vector<bool> streamable(World& w, const std::string& parameters, const std::string& body) {
    return cpu::streamable_params(*w.parse("kernel @k(" + parameters + ") {\n  %0 = constant 0 : i64\n" + body + "  ret\n}\n"));
}

TEST_F(Streams, OnlyWhatIsNotWantedAgain) {
    const std::string x = "%x: tensor<f32>[64] in, ", load = "  %1 = load %x[%0 +: 64] : tile<f32>[64]\n", store = "  store %y[%0 +: 64] = %1\n";
    const std::string y = "%y: tensor<f32>[64] inout";
    EXPECT_EQ(streamable(w, x + y, load + store), (std::vector{true, true}));
    EXPECT_EQ(streamable(w, x + y, load + store + store), (std::vector{true, false}));
    EXPECT_EQ(streamable(w, x + y, load + "  %2 = load %y[%0 +: 64] : tile<f32>[64]\n" + store), (std::vector{true, false}));
    EXPECT_EQ(streamable(w, x + y, load), (std::vector{true, false}));
    EXPECT_EQ(streamable(w, "%x: tensor<i4>[64] in, %y: tensor<i4>[64] out", "  %1 = load %x[%0 +: 64] : tile<i4>[64]\n" + store),
              (std::vector{false, false}));
    // Stores past the caches are in no order with an atomic that tells about them.
    EXPECT_EQ(streamable(w, x + y + ", %n: tensor<i32>[1] inout",
                         load + store + "  %2 = constant 1 : i32\n  %3 = atomic %n[%0] = %2 {kind = add, order = release, scope = gpu} : i32\n"),
              (std::vector{true, false, false}));
    EXPECT_EQ(streamable(w, "%x: tensor<f32>[64] @ \"[1](i0 ^ 3)\" in, " + y, load + store), (std::vector{false, true}));
    // Products read their operands again.
    EXPECT_EQ(streamable(w, "%x: tensor<f32>[8, 8] in, %y: tensor<f32>[8, 8] out",
                         "  %1 = load %x[%0 +: 8, %0 +: 8] : tile<f32>[8, 8]\n  %2 = dot %1, %1, %1 {precision = ieee} : tile<f32>[8, 8]\n"
                         "  store %y[%0 +: 8, %0 +: 8] = %2\n"),
              (std::vector{false, true}));
}

/// A row that a maximum reads first, and `steps` additions, whose result is stored, behind it.
std::string twice_read(int steps) {
    const std::string tile = " : tile<f32>[256]\n";
    std::string out =
        "kernel @k(%x: tensor<f32>[4, 256] in, %y: tensor<f32>[4, 256] out) {\n  %0 = program_id {axis = 0} : i64\n  %1 = constant 0 : i64\n";
    out += "  %2 = load %x[%0, %1 +: 256]" + tile + "  %3 = reduce %2 {kind = max, order = tree, axis = 0} : f32\n  %4 = broadcast %3" + tile;
    const auto name = [](int i) { return i < 0 ? std::string("%2") : "%" + std::to_string(10 + i); };
    for (int i = 0; i < steps; ++i) out += "  " + name(i) + " = add " + name(i - 1) + ", %4" + tile;
    const std::string last = name(steps - 1);
    return out + "  %5 = reduce " + last + " {kind = sum, order = tree, axis = 0} : f32\n  %6 = broadcast %5" + tile + "  %7 = div " + last + ", %6" +
           tile + "  store %y[%0, %1 +: 256] = %7\n  ret\n}\n";
}

TEST_F(Streams, AskedForWhereMostIsComputed) {
    for (const int steps : {3, 20}) {
        compare(twice_read(steps), Shape{4, 256}, 0, 0, 4);
        const auto fn = w.parse(twice_read(steps));
        cpu::CompileOptions options;
        options.tensors.resize(2);
        const cpu::Plan plan = cpu::make_plan(*fn, options);
        ir::InstId load, last;
        for (ir::InstId id : fn->block(fn->body).insts) {
            if (fn->inst(id).op == ir::Op::load) load = id;
            if (fn->inst(id).op == ir::Op::add) last = id;
        }
        const cpu::Home& home = plan.values[fn->result(load).v];
        EXPECT_EQ(home.kind, cpu::Home::fused);
        EXPECT_EQ(home.heaviest, steps > 10 ? last : ir::InstId{}) << steps;
    }
}

TEST_F(Streams, LargerThanTheCachesAndAligned) {
    const auto fn = w.parse(rows_text("f32", "[4, 256]", 0, 256));
    std::vector<float> memory(3072);
    std::vector<Argument> args(2);
    for (size_t i = 0; i < 2; ++i) {
        args[i].kind = Argument::tensor;
        args[i].t.elem = fn->type(fn->params[i].value).elem;
        args[i].t.data = memory.data() + 1024 * i;
        args[i].t.bytes = 4096;
        args[i].t.extents = Shape{4, 256};
    }
    const auto marked = [&](uint64_t cache_bytes) {
        cpu::CompileOptions options = cpu::variant_options(*fn, written_params(*fn), args);
        cpu::mark_streamed(*fn, cpu::streamable_params(*fn), args, cache_bytes, options);
        return std::vector{options.tensors[0].streamed, options.tensors[1].streamed};
    };
    EXPECT_EQ(marked(4095), (std::vector{true, true}));
    EXPECT_EQ(marked(4096), (std::vector{false, false}));
    args[1].t.data = reinterpret_cast<uint8_t*>(memory.data()) + 4097;  // no vector of whole elements is ever aligned
    EXPECT_EQ(marked(0), (std::vector{true, false}));
    args[1].t.data = memory.data() + 512;  // overlaps what is read
    EXPECT_EQ(marked(0), (std::vector{false, false}));

    args[1].t.data = memory.data() + 1024;
    cpu::Compiler compiler;
    for (bool streams : {false, true}) {
        const cpu::CompileOptions options = streams ? streamed(*fn, args) : cpu::variant_options(*fn, written_params(*fn), args);
        const auto text = compiler.text(*fn, options, "llvm");
        ASSERT_TRUE(text) << text.error;
        EXPECT_EQ(text.value->find("!nontemporal") != std::string::npos, streams);
        EXPECT_EQ(text.value->find("llvm.prefetch") != std::string::npos, streams);
    }
}

}  // namespace
}  // namespace tegula::testing
