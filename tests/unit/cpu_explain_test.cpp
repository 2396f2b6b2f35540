// What `explain` says of a kernel is what the compiler decides, and why: the same kernels for processors that differ, shapes that decide otherwise.
#include <gtest/gtest.h>

#include "jit/cpu/explain.h"
#include "jit/cpu/plan.h"
#include "jit/cpu/product.h"
#include "tests/unit/interp_fixture.h"

namespace tegula::testing {
namespace {

cpu::DotRows rows_of(std::initializer_list<std::string_view> features) {
    cpu::DotRows out = 0;
    for (size_t r = 0; r < std::size(cpu::kDotRows); ++r)
        for (std::string_view f : features)
            if (cpu::kDotRows[r].feature == f) out |= cpu::DotRows{1} << r;
    return out;
}

cpu::VectorUnit unit(unsigned bytes, cpu::DotRows rows = 0) { return {cpu::Isa::x86, bytes, bytes == 64 ? 32u : 16u, rows}; }

cpu::TargetInfo target(unsigned vector_bytes, cpu::DotRows rows) {
    cpu::TargetInfo out;
    out.cpu = "some";
    out.vectors = unit(vector_bytes, rows);
    out.vector_reason = "somebody says so";
    return out;
}

class CpuExplain : public ::testing::Test {
protected:
    World w;
    std::string text;
    void explain(const std::string& ir, const cpu::TargetInfo& to, const LaunchFacts& facts = {}, const cpu::PoolOptions& pool = {}) {
        text = Explanation{"k", "cpu", {}, cpu::explain(*w.parse(ir), facts, to, pool)}.text(w.sources);
    }
    void says(const std::string& part) const { EXPECT_NE(text.find(part), std::string::npos) << "not said: " << part << "\n" << text; }
    void says_not(const std::string& part) const { EXPECT_EQ(text.find(part), std::string::npos) << "said: " << part << "\n" << text; }
};

std::string product(const std::string& a, const std::string& b, const std::string& c, int m, int n, int k) {
    const auto tile = [](const std::string& f, int rows, int columns) {
        return " : tile<" + f + ">[" + std::to_string(rows) + ", " + std::to_string(columns) + "]\n";
    };
    const auto part = [](int rows, int columns) { return "[%0 +: " + std::to_string(rows) + ", %0 +: " + std::to_string(columns) + "]"; };
    return "kernel @k(%a: tensor<" + a + ">[?, ?] in, %b: tensor<" + b + ">[?, ?] in, %c: tensor<" + c +
           ">[?, ?] inout) {\n %0 = constant 0 : i64\n %1 = load %a" + part(m, k) + tile(a, m, k) + " %2 = load %b" + part(k, n) + tile(b, k, n) +
           " %3 = load %c" + part(m, n) + tile(c, m, n) + " %4 = dot %1, %2, %3 {precision = ieee}" + tile(c, m, n) + " store %c" + part(m, n) +
           " = %4\n ret\n}\n";
}

TEST_F(CpuExplain, InstructionsOfProducts) {
    const std::string bf16 = product("bf16", "bf16", "f32", 64, 64, 64);
    explain(bf16, target(64, rows_of({"avx512bf16", "avx512vnni", "avx512bw"})));
    says("vdpbf16ps of 2 neighbours along k");
    says("not tdpbssd, tdpbuud, tdpbusd, tdpbsud, vpdpbusd, vpdpwssd, vpmaddwd: for sums of integers in 32 bits");
    says_not("lacks");
    explain(bf16, target(64, 0));
    says("(f32, k ascending)");
    says("not vdpbf16ps: the processor lacks avx512bf16");
    explain(product("f32", "f32", "f32", 64, 64, 64), target(64, rows_of({"avx512bf16"})));
    says("not vdpbf16ps: for operands whose values are bf16's");
    const std::string bytes = product("i8", "i8", "i32", 64, 64, 64);
    explain(bytes, target(32, rows_of({"avx2"})));
    says("vpmaddwd of 2 neighbours");
    says("not vpdpbssd: the processor lacks avxvnniint8; not vpdpbuud: for two operands of unsigned bytes");
    explain(bytes, target(32, rows_of({"avx2", "avxvnniint8"})));
    says("vpdpbssd of 4 neighbours");
    says_not("lacks");
    explain(bytes, target(64, rows_of({"amx-int8", "avx512vnni", "avx512bw"})));
    says("micro-kernel of 32 x 32 accumulators (i32, tdpbssd of 4 neighbours along k)");
    says("two by two of the eight tiles");
    explain(product("i8", "i8", "i32", 64, 64, 63), target(64, rows_of({"amx-int8", "avx512vnni", "avx512bw"})));
    says("not tdpbssd, tdpbuud, tdpbusd, tdpbsud: k is less than a tile has bytes in a row");
    says("vpdpbusd of 4 neighbours");
    explain(product("f16", "f16", "f16", 32, 32, 32), target(64, 0));
    says("f32, each step rounded to f16");
    explain(product("f16", "f16", "lns<5, 10>", 32, 32, 32), target(64, 0));
    says("sums of `lns<5, 10>` are rounded after each step");
}

TEST_F(CpuExplain, FewColumnsAreFewRows) {
    explain(product("f32", "f32", "f32", 64, 1, 64), target(64, 0));
    says("dot: tile<f32>[1, 64] is stored");
    says("computed as the transposed product, as there are few columns; 1 x 16 accumulators");
    for (const auto& [m, n] : {std::pair(64, 5), {4, 4}, {1, 1}}) {
        explain(product("f32", "f32", "f32", m, n, 64), target(64, 0));
        says_not("transposed product");
    }
}

TEST(CpuProduct, OperandsThatRunAlongColumnsAreTurned) {
    World w;
    const std::string part = "[%0 +: 64, %0 +: 32]", tile = " : tile<f32>[64, 32]\n";
    const auto fn = w.parse(
        "kernel @k(%a: tensor<f32>[?, ?] in, %b: tensor<f32>[?, ?] @ \"col\" in, %c: tensor<f32>[?, ?] @ \"strides(1, 100)\" in, "
        "%d: tensor<f32>[?, ?] in) {\n %0 = constant 0 : i64\n %1 = load %a" +
        part + tile + " %2 = load %b" + part + tile + " %3 = load %c" + part + tile + " %4 = load %d[%0 +: 64, %0 +: 32 step 2]" + tile +
        " ret\n}\n");
    std::vector<ir::ValueId> loads;
    for (ir::InstId i : fn->block(fn->body).insts)
        if (fn->inst(i).op == ir::Op::load) loads.push_back(fn->result(i));
    ASSERT_EQ(loads.size(), 4u);
    cpu::CompileOptions options;
    const auto turned = [&] {
        std::string out;
        for (ir::ValueId v : loads) out += cpu::is_turned(*fn, options, v, 16) ? 't' : '.';
        return out;
    };
    EXPECT_EQ(turned(), ".tt.");
    options.tensors.resize(4);
    options.tensors[0] = {.strided = true, .unit = 0};  // the host's strides replace the layout
    options.tensors[1] = {.strided = true, .unit = 1};
    EXPECT_EQ(turned(), "t.t.");
}

TEST(CpuProduct, LooksAtEachValueOnceForWhereMemoryRuns) {
    World w;
    const std::string tile = " : tile<f32>[64, 32]\n";
    std::string ir = "kernel @k() {\n %0 = constant 0" + tile;
    for (int last = 0; last < 60; ++last)
        ir += " %" + std::to_string(last + 1) + " = add %" + std::to_string(last) + ", %" + std::to_string(last) + tile;
    const auto fn = w.parse(ir + " ret\n}\n");
    EXPECT_EQ(cpu::fast_dimension(*fn, {}, ir::ValueId{static_cast<uint32_t>(fn->value_count() - 1)}), -1);
}

TEST_F(CpuExplain, BlocksRegistersAndRows) {
    for (const auto& [m, n, k, vector_bytes] :
         {std::array{64, 64, 64, 32}, std::array{64, 64, 64, 64}, std::array{40, 16, 3, 64}, std::array{64, 300, 300, 32}, std::array{4, 64, 64, 32},
          std::array{8, 64, 64, 32}, std::array{9, 64, 64, 32}, std::array{16, 64, 64, 64}}) {
        const std::string ir = product("f32", "f32", "f32", m, n, k);
        const auto fn = w.parse(ir);
        explain(ir, target(static_cast<unsigned>(vector_bytes), 0));
        cpu::CompileOptions usual;
        usual.tensors.resize(3);
        const cpu::Plan plan = cpu::make_plan(*fn, usual);
        for (ir::InstId id : fn->block(fn->body).insts) {
            if (fn->inst(id).op != ir::Op::dot) continue;
            const cpu::Product p = cpu::plan_product(*fn, fn->inst(id), unit(static_cast<unsigned>(vector_bytes)), &plan);
            EXPECT_EQ(p.few, m <= (vector_bytes == 64 ? 16 : 8));
            if (p.few) {
                says(std::to_string(m) + " rows are few");
                says_not("operands are packed");
                continue;
            }
            const unsigned all = vector_bytes == 64 ? 30 : 14;
            says(std::to_string(m) + " rows are more than " + std::to_string(vector_bytes == 64 ? 16 : 8));
            EXPECT_LE(p.registers(unit(static_cast<unsigned>(vector_bytes))), all);
            EXPECT_GT(p.blocks_tried, 5u);
            says("of " + std::to_string(p.blocks_tried) + ", in " + std::to_string(p.registers(unit(static_cast<unsigned>(vector_bytes)))) + " of " +
                 std::to_string(all) + " registers");
            says(std::to_string(p.panel_bytes()) + " bytes, " + (p.panel_bytes() <= 24 << 10 ? "stays in" : "is more than"));
            if (k < vector_bytes / 4) says("as k is less than a vector has lanes");
            EXPECT_EQ(text.find("k is cut") != std::string::npos, k > 256);
        }
    }
}

/// Weights whose memory runs along k: of 16 bits and more squares stay in registers, as long as those hold them beside the sums.
TEST_F(CpuExplain, SquaresOfFewRows) {
    const auto weights = [](const std::string& f, int m, const std::string& layout = "") {
        const std::string rows = std::to_string(m), sums = " : tile<f32>[" + rows + ", 64]\n";
        return "kernel @k(%x: tensor<f32>[?, ?] in, %w: tensor<" + f + ">[?, ?]" + layout +
               " in, %y: tensor<f32>[?, ?] inout) {\n %0 = constant 0 : i64\n %1 = load %x[%0 +: " + rows + ", %0 +: 128] : tile<f32>[" + rows +
               ", 128]\n %2 = load %w[%0 +: 64, %0 +: 128] : tile<" + f + ">[64, 128]\n %3 = cast %2 {round = rne} : tile<f32>[64, 128]\n" +
               " %4 = permute %3 {axis = [1, 0]} : tile<f32>[128, 64]\n %5 = load %y[%0 +: " + rows + ", %0 +: 64]" + sums +
               " %6 = dot %1, %4, %5 {precision = ieee}" + sums + " store %y[%0 +: " + rows + ", %0 +: 64] = %6\n ret\n}\n";
    };
    for (const char* f : {"bf16", "f16", "i16", "i32"}) {
        explain(weights(f, 1), target(64, 0));
        says("which stay in registers");
        says("1 x 16 accumulators");
    }
    explain(weights("bf16", 12), target(64, 0));
    says("which stay in registers");
    for (const auto& [f, m, bytes] : {std::tuple("bf16", 13, 64u), {"i8", 1, 64u}, {"bf16", 5, 32u}}) {
        explain(weights(f, m), target(bytes, 0));
        says("rows of memory are turned in squares");
        says_not("which stay in registers");
    }
    for (const char* f : {"i4", "u3", "f8e4m3", "f16"}) {
        explain(weights(f, 4, " @ \"[2](i0 / 16, i1 / 64, i0 % 16, ((i1 % 8) * 8) + ((i1 / 8) % 8))\""), target(64, 0));
        says("a declared layout is read by words, in blocks of 16 x ");
        explain(weights(f, 4, " @ \"[2](i0 / 3, i1 / 64, i0 % 3, i1 % 64)\""), target(64, 0));
        says_not("declared layout");
    }
}

TEST_F(CpuExplain, WhyATileIsStored) {
    const std::string begin =
        "kernel @k(%x: tensor<f32>[?] in, %y: tensor<f32>[?] inout) {\n %0 = constant 0 : i64\n %1 = load %x[%0 +: 64] : tile<f32>[64]\n";
    explain(begin + " %2 = add %1, %1 : tile<f32>[64]\n store %y[%0 +: 64] = %2\n ret\n}\n", target(64, 0));
    says_not("is stored");
    explain(begin + " store %y[%0 +: 64] = %1\n ret\n}\n", target(64, 0));
    says_not("is stored");
    explain(begin + " %2 = load %y[%0 +: 64] : tile<f32>[64]\n store %y[%0 +: 64] = %1\n %3 = constant 1 : i64\n store %y[%3 +: 64] = %2\n ret\n}\n",
            target(64, 0));
    says("load: tile<f32>[64] is stored (256 bytes), read where it stands, as memory changes before its use");
    explain(begin +
                " %2 = constant 9 : i64\n %3 = constant 1 : i64\n %4 = for_loop %0, %2, %3, %1 : tile<f32>[64] (%5: i64, %6: tile<f32>[64]) {\n"
                "  %7 = mul %1, %6 : tile<f32>[64]\n  yield %7\n }\n store %y[%0 +: 64] = %4\n ret\n}\n",
            target(64, 0));
    says("used inside of a loop or branch, which would make it again");
}

TEST_F(CpuExplain, VectorsAndThreads) {
    const std::string copy =
        "kernel @k(%x: tensor<f8e4m3>[?] in, %y: tensor<f64>[?] out) {\n %0 = program_id {axis = 0} : i64\n %1 = load %x[%0 +: 64] : "
        "tile<f8e4m3>[64]\n %2 = cast %1 {overflow = automatic, round = rne} : tile<f64>[64]\n store %y[%0 +: 64] = %2\n ret\n}\n";
    explain(copy, target(32, 0));
    says(
        "vectors of 32 bytes, as somebody says so; 8 lanes per step of an inner loop, of 32 bits whatever the elements, here `f8e4m3` to `f64`, "
        "which takes two registers");
    says("at most `threads` of the launch");
    LaunchFacts facts;
    facts.grid.push_back({0, "", 1, 0});
    explain(copy, target(16, 0), facts);
    says("4 lanes per step");
    says("the grid has one program, which runs on the calling thread");
    facts.grid.push_back({1, "", 1, 6});
    explain(copy, target(16, 0), facts);
    says("programs of the grid (1 x 7) run on the threads of the pool");
    facts.grid = {{0, "N", 64, INT64_MAX}, {1, "M", 1, INT64_MAX}, {2, "", 1, INT64_MAX}};
    explain(copy, target(16, 0), facts);
    says("programs of the grid (cdiv(N, 64) x M x ?) run on");
    says_not("one program");
    explain(copy, target(16, 0), facts, {{}, 3, true});
    says("run on the calling thread and 3 of the pool, each pinned to a core, as many as");
    explain(copy, target(16, 0), facts, {[](uint32_t, void (*)(void*, uint32_t), void*) {}, 0, false});
    says("run on threads of the host's executor");
    const cpu::Compiler compiler;  // what is said of this processor
    EXPECT_NE(compiler.target().vector_reason.find(compiler.target().vectors.bytes > 16 ? "the processor has" : "no avx2"), std::string::npos);
}

TEST_F(CpuExplain, PointersSideBySideAndApart) {
    const auto follow = [&](const std::string& format, const std::string& offsets) {
        const std::string i = " : tile<i64>[4, 64]\n", p = " : tile<ptr<" + format + ">>[4, 64]\n";
        explain("kernel @k(%x: ptr<" + format + ">, %y: tensor<" + format +
                    ">[4, 64] out, %n: i64) {\n %0 = constant 0 : i64\n %i = iota {axis = 0}" + i + " %j = iota {axis = 1}" + i +
                    " %b = broadcast %n" + i + " %t = constant 3" + i + " %o = " + offsets + i + " %xb = broadcast %x" + p + " %p = ptr_add %xb, %o" +
                    p + " %v = ptr_load %p {flags = 0} : tile<" + format + ">[4, 64]\n store %y[%0 +: 4, %0 +: 64] = %v\n ret\n}\n",
                target(64, 0));
    };
    follow("f32", "add %i, %j");
    says("ptr_load: fused into another's loops; pointers: side by side along dimension 1: one access per vector, checked once per row");
    follow("f32", "mul %j, %b");
    says("side by side along dimension 1 where the stride is 1, which each row tests");
    follow("f32", "mul %j, %t");
    says("each is checked, and vectors of others than neighbours are gathered, as lanes are 3 elements apart");
    follow("f32", "sub %i, %j");
    says("as they go back from lane to lane");
    follow("f32", "bit_xor %i, %j");
    says("as offsets are made by `bit_xor`");
    follow("f32", "mul %i, %b");
    says("as all are equal along dimension 1");
    follow("i12", "add %i, %j");
    says("followed one by one, as elements are no whole bytes");
}

}  // namespace
}  // namespace tegula::testing
