// Matrix products on the CPU against the interpreter, bit for bit: every kind of chain, shapes around the edges of vectors and blocks, transposed
// operands, accumulators that are an operand too, for processors with wide, narrow and hardly any vectors.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "jit/cpu/arguments.h"
#include "jit/cpu/product.h"
#include "jit/cpu/support.h"
#include "jit/interp/interp.h"
#include "lang/ir_text.h"
#include "lang/tensor_strides.h"

using namespace tegula;

namespace {

struct Case {
    const char *a, *b, *c;  ///< formats
    int64_t m, n, k;
    bool turned = false;  ///< b lies transposed in memory
    const char* precision = "ieee";
};

std::string dims(int64_t x, int64_t y) { return "[" + std::to_string(x) + ", " + std::to_string(y) + "]"; }

std::string kernel_text(const Case& t) {
    const std::string b = t.turned ? dims(t.n, t.k) : dims(t.k, t.n);
    std::string out = "kernel @k(%a: tensor<" + std::string(t.a) + ">" + dims(t.m, t.k) + " in, %b: tensor<" + t.b + ">" + b + " in, %c: tensor<" +
                      t.c + ">" + dims(t.m, t.n) + " inout) {\n  %0 = constant 0 : i64\n";
    const auto part = [](int64_t x, int64_t y) { return "[%0 +: " + std::to_string(x) + ", %0 +: " + std::to_string(y) + "]"; };
    const auto tile = [](const char* f, const std::string& d) { return "tile<" + std::string(f) + ">" + d; };
    out += "  %1 = load %a" + part(t.m, t.k) + " : " + tile(t.a, dims(t.m, t.k)) + "\n";
    out += "  %2 = load %b" + (t.turned ? part(t.n, t.k) : part(t.k, t.n)) + " : " + tile(t.b, b) + "\n";
    out += "  %3 = load %c" + part(t.m, t.n) + " : " + tile(t.c, dims(t.m, t.n)) + "\n";
    if (t.turned) out += "  %4 = permute %2 {axis = [1, 0]} : " + tile(t.b, dims(t.k, t.n)) + "\n";
    out += "  %5 = dot %1, " + std::string(t.turned ? "%4" : "%2") + ", %3 {precision = " + t.precision + "} : " + tile(t.c, dims(t.m, t.n)) + "\n";
    return out + "  store %c" + part(t.m, t.n) + " = %5\n  ret\n}\n";
}

struct Storage {
    std::vector<uint8_t> bytes[3];
    std::vector<Argument> args;
};

Storage storage_of(const ir::Function& fn, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    Storage s;
    for (int i = 0; i < 3; ++i) {
        const Type& type = fn.type(fn.params[static_cast<size_t>(i)].value);
        const Format& f = fn.types().format(type.elem);
        const int64_t rows = type.shape[0], columns = type.shape[1], pitch = (columns * f.bits + 7) / 8;
        s.bytes[i].resize(static_cast<size_t>(rows * pitch + 8));
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c)
                store_bits(f, f.is_int() || f.is_bool() ? random() : encode(f, normal(random)), s.bytes[i].data(),
                           static_cast<uint64_t>(r * pitch * 8 + c * f.bits));
        Argument a;
        a.kind = Argument::tensor;
        a.t.elem = type.elem;
        a.t.bytes = static_cast<uint64_t>(rows * pitch);
        a.t.extents = type.shape;
        s.args.push_back(a);
    }
    for (int i = 0; i < 3; ++i) s.args[static_cast<size_t>(i)].t.data = s.bytes[i].data();
    return s;
}

void run_native(const ir::Function& fn, const std::vector<Argument>& args, const char* cpu) {
    cpu::Compiler compiler;
    cpu::CompileOptions options = cpu::variant_options(fn, written_params(fn), args);
    options.cpu = cpu;
    auto object = compiler.compile(fn, options);
    ASSERT_TRUE(object) << object.error;
    auto code = compiler.load(*object);
    ASSERT_TRUE(code) << code.error;
    const std::vector<uint64_t> block = cpu::argument_block(fn, options, args);
    const uint64_t grid[3] = {1, 1, 1};
    const RunOptions run;
    cpu::Launch launch(fn, args, grid, run);
    // Garbage in scratch memory must not matter, and what lies behind it stays.
    std::vector<uint8_t> scratch(code->scratch_bytes + 128, 0xff);
    uint8_t* at = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    {
        cpu::Worker worker(launch, true);
        EXPECT_TRUE(worker.run(code->entry, block.data(), at, 0));
    }
    for (const uint8_t* p = at + code->scratch_bytes; p < scratch.data() + scratch.size(); ++p)
        ASSERT_EQ(*p, 0xff) << "written behind the scratch memory";
}

void compare(const Case& t, const char* cpu) {
    SCOPED_TRACE(kernel_text(t) + "for " + cpu);
    SourceMap sources;
    TypeTable types;
    DiagSink diags;
    const auto fn = ir::parse_ir(sources, sources.add("k.ir", kernel_text(t)), types, diags);
    std::string problems;
    for (const Diagnostic& d : diags.all()) problems += render_text(d, sources, false);
    ASSERT_TRUE(fn) << problems;
    Storage expected = storage_of(*fn, 7), got = storage_of(*fn, 7);
    const uint64_t grid[3] = {1, 1, 1};
    ASSERT_EQ(interp::Program::prepare(*fn)->run(expected.args, grid, {}).status, RunResult::ok);
    ASSERT_NO_FATAL_FAILURE(run_native(*fn, got.args, cpu));
    EXPECT_EQ(got.bytes[2], expected.bytes[2]);
}

class Products : public testing::TestWithParam<const char*> {};

TEST_P(Products, EqualTheInterpreter) {
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 1}, {1, 40, 3}, {7, 5, 9}, {16, 16, 16}, {33, 50, 17}, {20, 100, 300}})
        for (bool turned : {false, true}) {
            compare({"f32", "f32", "f32", m, n, k, turned}, GetParam());
            compare({"f16", "i4", "f32", m, n, k, turned}, GetParam());
            compare({"i8", "i8", "i32", m, n, k, turned}, GetParam());
        }
}

/// Few rows: elements of every width are decoded where they are multiplied, whichever way memory runs; ends of rows, of chunks, of vectors.
TEST_P(Products, OfFewRows) {
    const char* formats[] = {"i1", "u2", "i3", "u4", "i5", "u6", "i7", "u8", "i12", "f4e2m1", "f6e3m2", "f8e4m3", "bf16", "f32", "i29"};
    int64_t number = 0;
    for (const char* f : formats)
        for (bool turned : {false, true}) {
            const int64_t m = std::array<int64_t, 4>{1, 2, 5, 16}[static_cast<size_t>(number++ % 4)];
            compare({"f16", f, "f32", m, 39, 267, turned}, GetParam());
        }
    for (bool turned : {false, true}) {
        compare({"i8", "u7", "i32", 3, 37, 19, turned}, GetParam());
        compare({"f32", "i3", "f64", 3, 21, 40, turned}, GetParam());
        compare({"f32", "i4", "f32", 1, 16, 64, turned, "tf32"}, GetParam());
    }
}

TEST_P(Products, OfEveryChain) {
    for (bool turned : {false, true}) {
        compare({"f64", "f64", "f64", 9, 21, 19, turned}, GetParam());
        compare({"f64", "f32", "f32", 9, 21, 19, turned}, GetParam());
        compare({"bf16", "f8e4m3", "f32", 9, 21, 19, turned}, GetParam());
        compare({"i64", "i32", "i64", 9, 21, 19, turned}, GetParam());
        compare({"u4", "i3", "i16", 9, 21, 19, turned}, GetParam());
        compare({"i20", "u8", "i20", 9, 21, 19, turned}, GetParam());
        compare({"f16", "f16", "f16", 9, 21, 19, turned}, GetParam());
        compare({"i16", "u4", "i32", 9, 21, 35, turned}, GetParam());
        compare({"i8", "u8", "i32", 20, 33, 64, turned}, GetParam());
        compare({"u16", "i8", "i32", 9, 21, 35, turned}, GetParam());
        compare({"f32", "f32", "f32", 9, 21, 19, turned, "tf32"}, GetParam());
    }
}

// "" is the processor at hand. The others are parts of it wherever these tests run on x86.
INSTANTIATE_TEST_SUITE_P(Processors, Products, testing::Values("", "haswell", "x86-64"));

TEST(ProductPlan, KeepsToTheRegisters) {
    SourceMap sources;
    TypeTable types;
    DiagSink diags;
    for (int64_t m : {1, 2, 15, 64, 128})
        for (int64_t n : {1, 16, 31, 128}) {
            const auto fn = ir::parse_ir(sources, sources.add("k.ir", kernel_text({"f32", "f32", "f32", m, n, 64})), types, diags);
            ASSERT_TRUE(fn);
            for (ir::InstId id : fn->block(fn->body).insts) {
                if (fn->inst(id).op != ir::Op::dot) continue;
                for (unsigned bytes : {16u, 32u, 64u}) {
                    const cpu::Product p = cpu::plan_product(*fn, fn->inst(id), bytes);
                    const unsigned per_step = std::max(1u, p.lanes * 4 / bytes);
                    EXPECT_LE(p.rows * p.steps_n * per_step + p.steps_n * per_step + 1, bytes == 64 ? 32u : 16u);
                    EXPECT_GE(p.n_blocks * p.block(), n);
                    EXPECT_LE(p.work_bytes(), cpu::product_bytes(*fn, fn->inst(id)));
                }
            }
        }
}

}  // namespace
