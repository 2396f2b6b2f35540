// The tile IR: op table, builder, verifier, text. Every row of ops.def stands in some text here that parses, verifies and round-trips; hostile
// text never crashes.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "lang/format_name.h"
#include "lang/ir_text.h"
#include "lang/layout.h"
#include "lang/scalar.h"
#include "lang/target.h"
#include "lower/lower.h"

using namespace tegula;
using ir::Op;

namespace {

struct Parsed {
    std::unique_ptr<ir::Function> fn;
    std::string problems;
};

Parsed parse(const std::string& text, TypeTable& types) {
    SourceMap sources;
    DiagSink diags;
    Parsed out;
    out.fn = ir::parse_ir(sources, sources.add("test.ir", text), types, diags);
    for (const Diagnostic& d : diags.all()) out.problems += render_text(d, sources, false);
    EXPECT_EQ(out.fn == nullptr, diags.has_errors());
    return out;
}

/// A kernel around `body`, with parameters of most kinds.
std::string kernel(const std::string& body) {
    return "kernel @k(%x: tensor<f32>[?, 4] in, %y: tensor<f32>[?, 4] inout, %z: tensor<i32>[?] out, %p: ptr<f32>, %a: f32, %n: i64, %M: extent) "
           "{\n" +
           body + "  ret\n}\n";
}

/// A function after the GPU passes: placements, a channel, and what was decided for instructions.
const char* const kGpuText = R"(kernel @k(%x: tensor<f16>[?, 64] in, %y: tensor<f32>[?, 64] out, %n: i64) gpu {
  arch = sm_90a, warps = 4, specialised, cluster = [2, 1, 1], shared = 9216, workspace = 64,
  p1 = shared [16, 64] "contiguous 1 swizzle 128 bytes 2",
  p2 = registers [16, 64] "[16, 64] reg 1:1 0:8 1:8 lane 1:2 1:4 0:1 0:2 0:4 warp 1:16 1:32",
  p3 = registers [16, 64] "[16, 64] reg 1:1 1:2 1:4 lane 1:8 1:16 1:32 0:1 0:2 warp 0:4 0:8",
  p4 = registers [48] "[3*16] reg lane 0:1 0:2 0:4 0:8 0 warp 0 0"
} {
  %0 = channel {stages = 4} : channel<f16>[16, 64] @ {ring = [16, 64] "contiguous 1 swizzle 128 bytes 2", stages = 4, offset = 1024, map = 0, multicast = 1}
  specialise {
    channel_put %x, %n, %n, %0 {flags = 0, axes = [1, 16, 1, 0, 1, 64, 1, 0]}
    yield
  } {
    %1 = channel_get %0 : tile<f16>[16, 64] @ p1
    %2 = convert %1 : tile<f16>[16, 64] @ p2 @ {scratch = 0:2048, sync, fence}
    channel_release %0
    %3 = cast %2 {round = rne, overflow = automatic} : tile<f32>[16, 64] @ p2
    %4 = convert %3 : tile<f32>[16, 64] @ p3 @ {scratch = 0:4096, sync}
    store %y[%n +: 16, :] = %4 @ {sync}
    %5 = constant 0 : i64
    %6 = constant 0 : tile<f32>[48] @ p4
    %7, %8 = for_loop %5, %n, %5, %6, %5 @ unroll(2) : tile<f32>[48] @ p4, i64 @ {scratch = 64:128, global} (%9: i64, %10: tile<f32>[48] @ p4, %11: i64) {
      yield %10, %11
    }
    yield
  }
  ret
}
)";

/// A persistent form with an own ring.
const char* const kPersistentText = R"(kernel @k(%x: tensor<f16>[?, 1024] in, %y: tensor<f16>[?, 1024] out) gpu {
  arch = sm_90a, warps = 4, persistent, shared = 4096,
  p1 = registers [1024] "[1024] reg 0:1 0:2 0:4 lane 0:8 0:16 0:32 0:64 0:128 warp 0:256 0:512"
} {
  %0 = channel {stages = 2} : channel<f16>[1024] @ {ring = [1024] "contiguous 0 swizzle 0 bytes 2", stages = 2, offset = 0, own = "[1024] reg 0:1 0:2 0:4 lane 0:8 0:16 0:32 0:64 0:128 warp 0:256 0:512", fill = 64512}
  %1 = cta_id : i64
  %2 = num_ctas : i64
  %3 = program_id %1 {axis = 0} : i64
  channel_put %x, %3, %0 {flags = 0, axes = [0, 1, 1, 0, 3, 1024, 1, 0]}
  %4 = channel_get %0 : tile<f16>[1024] @ p1
  store %y[%2, :] = %4
  ret
}
)";

/// Texts that between them use every structured op.
const std::vector<std::string>& structured_texts() {
    static const std::vector<std::string> texts = {
        kGpuText,
        kPersistentText,
        kernel(R"(  %0 = iota {axis = 0} : tile<i64>[4]
  %1 = constant 2 : tile<i64>[4]
  %2 = lt %0, %1 : tile<bool>[4]
  %3 = load %x[%n, :] : tile<f32>[4]
  %4 = broadcast %a : tile<f32>[4]
  %5 = select %2, %3, %4 : tile<f32>[4]
  %6 = load %x[%n, %n +: 4 step 2] else %5 mask %2 : tile<f32>[4]
  %7 = load %x[gather %0, %n] : tile<f32>[4]
  %8 = cat %6, %7 {axis = 0} : tile<f32>[8]
  %9 = reshape %8 : tile<f32>[2, 4]
  %10 = permute %9 {axis = [1, 0]} : tile<f32>[4, 2]
  %11 = slice %10 {start_step = [3, -1, 0, 1]} : tile<f32>[4, 1]
  %12 = extract %10[%n +: 3, %n] : tile<f32>[3]
  %13 = deposit %10[%n +: 3, %n] = %12 : tile<f32>[4, 2]
  %14 = constant_tile [0, 1, 0, 1] : tile<i32>[4]
  %15 = reshape %14 : tile<i32>[4, 1]
  %16 = gather %13, %15 {axis = 1} : tile<f32>[4, 1]
  %17 = add %11, %16 : tile<f32>[4, 1]
  store %y[%n +: 4, %n +: 1] = %17
  store %y[%n!, :] = %5 mask %2
)"),
        kernel(R"(  %0 = cast %a {round = rtz, overflow = sat} : f8e4m3
  %1 = bitcast %0 : u8
  %2 = constant 7 : u64
  %3 = cast %a, %2 {round = stochastic, overflow = automatic} : i8
  %4 = cast %3 {round = rne, overflow = automatic} : i32
  store %z[%n] = %4
  %5 = cast %1 {round = rne, overflow = automatic} : i32
  %6 = atomic %z[%n] = %5 {kind = add, order = relaxed, scope = gpu} : i32
  %7 = atomic %z[%n] = %6 expected %5 {kind = cas, order = acq_rel, scope = sys} : i32
  store %z[%n] = %7
)"),
        kernel(R"(  %0 = load %x[%n +: 8, :] : tile<f32>[8, 4]
  %1 = reduce %0 {kind = sum, order = tree, axis = 1} : tile<f32>[8]
  %2 = reduce %0 {kind = max, order = chain, axis = -1} : f32
  %3, %4 = arg_reduce %0 {kind = min, axis = 0} : tile<f32>[4], tile<i32>[4]
  %5 = contract %0, %0 {axis = 0} : tile<f32>[4]
  %6 = scan %0 {kind = prod, axis = 1, reverse = 1} : tile<f32>[8, 4]
  %7, %8 = sort %0 {axis = 0, descending = 1} : tile<f32>[8, 4], tile<i32>[8, 4]
  %9 = constant true : tile<bool>[8, 4]
  %10 = histogram %8, %9 : tile<i32>[16]
  %11 = reduce_region %0, %a {axis = 1} : tile<f32>[8] (%12: f32, %13: f32) {
    %14 = fma %12, %13, %12 : f32
    yield %14
  }
  %15 = scan_region %1 {axis = 0, reverse = 0} : tile<f32>[8] (%16: f32, %17: f32) {
    %18 = max %16, %17 : f32
    yield %18
  }
  store %z[%n +: 16] = %10
)"),
        kernel(R"(  %0 = load %x[%n +: 8, :] : tile<f32>[8, 4]
  %1 = permute %0 {axis = [1, 0]} : tile<f32>[4, 8]
  %2 = constant 0 : tile<f32>[8, 8]
  %3 = dot %0, %1, %2 {precision = tf32} : tile<f32>[8, 8]
  %4 = constant 1 : tile<f8e8m0>[8, 2]
  %5 = constant 0x7e : tile<f8e8m0>[1, 8]
  %6 = dot_scaled %0, %1, %3, %4, %5 {a_block = 2, b_block = 4} : tile<f32>[8, 8]
  %7 = slice %6 {start_step = [0, 1, 0, 2]} : tile<f32>[8, 4]
  store %y[%n +: 8, :] = %7
)"),
        kernel(R"(  %0 = program_id {axis = 0} : i64
  %1 = num_programs {axis = 2} : i64
  %2 = dim %x {axis = 0} : i64
  %3 = tensor_ptr %y : ptr<f32>
  %4 = ptr_add %3, %0 : ptr<f32>
  %5 = lt %0, %2 : bool
  %6 = ptr_load %4, %5, %a {flags = 3} : f32
  ptr_store %p, %6 {flags = 0}
  ptr_store %p, %6, %5 {flags = 2}
  %7 = ptr_atomic %p, %6, %5 {flags = 2, kind = max, order = acquire, scope = cta} : f32
  print "\"{}\" of {}\n\xff", %7, %1
  print "none"
  assert "in range", %5
  assume %5
)"),
        kernel(R"(  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %2, %3 = for_loop %0, %M, %1, %a, %n @ pipeline(4) @ unroll(2, -1) : f32, i64 (%4: i64, %5: f32, %6: i64) {
    %7 = gt %6, %4 : bool
    %8 = if_else %7 : f32 {
      yield %5
    } {
      %9 = neg %5 : f32
      yield %9
    }
    yield %8, %4
  }
  %10 = while_loop %3 : i64 (%11: i64) {
    %12 = lt %11, %M : bool
    condition %12, %11
  } (%13: i64) {
    %14 = add %13, %1 : i64
    yield %14
  }
  while_loop {
    %15 = constant false : bool
    condition %15
  } {
    yield
  }
  store %y[%10, %n] = %2
)"),
        "function @\"two words\"(%t: tile<u3>[2, 2], %c: tile<codebook<2>[-1, 0, 0.5, 1]>[5], %l: tile<lns<4, 3>>[2], %q: fixed<4, 4>, "
        "%g: tile<float<3, 2, bias = 2, nan = none, inf = false>>[3]) @ warps(8) {\n  ret %t, %c, %l, %q, %g\n}\n",
        "kernel @addresses(%p: ptr<f32>, %y: tensor<u64>[?] out, %i: i64) {\n  %0 = ptr_address %p : u64\n  %1 = ptr_at %0 : ptr<f32>\n"
        "  %2 = ptr_address %1 : u64\n  store %y[%i] = %2\n  ret\n}\n",
        "kernel @meets() @ cooperative() {\n  grid_barrier\n  %0 = constant 1 : i32\n  grid_barrier\n  ret\n}\n",
        "function @own(%a: tile<u32>[4], %b: tile<u8>[16]) instruction f64 f64 f64 \"dmma\\n8\\nresult 0 16x8 [16, 8] reg 1:1 0:8 lane 1:2 1:4 0:1 "
        "0:2 0:4 "
        "warp\\na 0 16x4 [16, 4] reg 0:8 lane 1:1 1:2 0:1 0:2 0:4 warp\\nb 0 4x8 [4, 8] reg lane 0:1 0:2 1:1 1:2 1:4 warp\\nc 0 16x8 [16, 8] reg 1:1 "
        "0:8 "
        "lane 1:2 1:4 0:1 0:2 0:4 warp\\nptx sm_90 mma.sync;\\n\" {\n"
        "  %0 = bit_not %a : tile<u32>[4]\n"
        "  %1 = instruction \"not\\n0\\nresult 1\\na 1\\nptx sm_50 not.b32 %result, %a;\\n\", %0, %a : tile<u32>[4]\n"
        "  %2 = ptx \"not\\n0\\nresult 1\\na 1\\nptx sm_50 not.b32 %result, %a;\\n\", %a : tile<u32>[4]\n"
        "  %3 = ptx_tile \"word\\n0\\nresult 1\\nb 4\\nptx sm_50 mov.b32 %result, %b;\\n\", %b : tile<u32>[4]\n  ret %1, %2, %3\n}\n",
        "kernel @layouts(%a: tensor<i4>[?, 128] @ \"col\" in, %b: tensor<f16>[64, 64] @ \"[2]((i0 / 8), ((i0 % 8) * 64) + i1)\" out, "
        "%c: tensor<f16>[?, ?] @ \"strides(1, 4096)\" inout) @ cluster(2, 1) {\n  ret\n}\n",
    };
    return texts;
}

/// One kernel per elementwise row and kind of element in its domain.
std::vector<std::string> elementwise_texts() {
    struct Kind {
        uint32_t domain;
        const char* type;
    };
    static constexpr Kind kinds[] = {{ir::B, "bool"}, {ir::S, "i5"}, {ir::U, "u64"}, {ir::F, "bf16"}, {ir::X, "fixed<3, 5>"}, {ir::P, "ptr<f32>"}};
    std::vector<std::string> out;
    for (size_t i = 0; i < static_cast<size_t>(Op::count_); ++i) {
        const ir::OpRow& row = ir::op_row(static_cast<Op>(i));
        if (!(row.traits & ir::ELEMWISE)) continue;
        for (const Kind& k : kinds) {
            if (!(row.domain & k.domain)) continue;
            const std::string elem = k.type, tile = "tile<" + elem + ">[3, 5]";
            std::string body = "  %0 = " + std::string(row.name), params;
            for (int n = 0; n < row.operands; ++n)
                body += (n ? ", %v" : " %v") + std::to_string(n), params += (n ? ", %v" : "%v") + std::to_string(n) + ": " + tile;
            if (k.domain == ir::P) continue;  // tiles of pointers are no parameters: covered below
            const std::string result = row.result == ir::ResultRule::boolean ? "tile<bool>[3, 5]"
                                       : row.result == ir::ResultRule::i32   ? "tile<i32>[3, 5]"
                                                                             : tile;
            out.push_back("function @f(" + params + ") {\n" + body + " : " + result + "\n  ret %0\n}\n");
        }
    }
    out.push_back(
        "kernel @f(%p: ptr<f32>, %q: ptr<f32>, %b: tensor<bool>[?] out, %i: i64) {\n  %0 = eq %p, %q : bool\n  store %b[%i] = %0\n  ret\n}\n");
    return out;
}

TEST(OpTable, NamesAreUniqueAndFound) {
    std::set<std::string> names;
    for (size_t i = 0; i < static_cast<size_t>(Op::count_); ++i) {
        const auto op = static_cast<Op>(i);
        EXPECT_EQ(ir::find_op(ir::op_row(op).name), op);
        EXPECT_TRUE(names.insert(ir::op_row(op).name).second);
        EXPECT_GT(std::string(ir::op_row(op).doc).size(), 3u);
    }
    EXPECT_EQ(ir::find_op("no_such_op"), Op::count_);
}

TEST(IrText, EveryOpRoundTrips) {
    std::set<Op> seen;
    std::vector<std::string> texts = structured_texts();
    for (std::string& t : elementwise_texts()) texts.push_back(std::move(t));
    for (const std::string& text : texts) {
        TypeTable types;
        const Parsed first = parse(text, types);
        ASSERT_TRUE(first.fn) << first.problems << text;
        for (uint32_t i = 0; i < first.fn->inst_count(); ++i) seen.insert(first.fn->inst(ir::InstId{i}).op);
        const std::string printed = print(*first.fn);
        TypeTable fresh;
        const Parsed second = parse(printed, fresh);
        ASSERT_TRUE(second.fn) << second.problems << printed;
        EXPECT_EQ(print(*second.fn), printed);
        if (text.find("layouts") == text.npos && text.find("two words") == text.npos && text.find("0x7e") == text.npos) {
            EXPECT_EQ(printed, text);
        }
    }
    for (size_t i = 0; i < static_cast<size_t>(Op::count_); ++i)
        EXPECT_TRUE(seen.contains(static_cast<Op>(i))) << "no text uses " << ir::op_row(static_cast<Op>(i)).name;
}

TEST(IrText, GpuFormIsRead) {
    TypeTable types;
    const Parsed p = parse(kGpuText, types);
    ASSERT_TRUE(p.fn) << p.problems;
    const GpuForm& g = *p.fn->gpu;
    EXPECT_STREQ(g.arch->name, "sm_90a");
    EXPECT_TRUE(g.specialised);
    EXPECT_EQ(g.cluster, (std::array<int, 3>{2, 1, 1}));
    EXPECT_EQ(g.shared_bytes, 9216);
    EXPECT_EQ(g.workspace_bytes, 64);
    ASSERT_EQ(g.placements.size(), 5u);
    EXPECT_EQ(g.placements[2].regs, mma_accumulator(Shape{16, 64}, 1, 4));
    EXPECT_EQ(g.of_value.size(), p.fn->value_count());
    ASSERT_EQ(g.channels.size(), 1u);
    EXPECT_EQ(g.channels[0].second.layout, shared_layout(Shape{16, 64}, 1, 2));
    EXPECT_EQ(g.channels[0].second.offset, 1024);
    EXPECT_EQ(g.channels[0].second.tensor_map, 0);
    EXPECT_EQ(g.channels[0].second.multicast, 1u);
    EXPECT_EQ(g.sharers(g.channels[0].second), 2);
    for (uint32_t i = 0; i < p.fn->inst_count(); ++i) {
        const GpuInst& facts = g.of_inst[i];
        const Op op = p.fn->inst(ir::InstId{i}).op;
        EXPECT_EQ(facts.sync_before, op == Op::convert || op == Op::store);
        EXPECT_EQ(facts.global_scratch, op == Op::for_loop);
        EXPECT_EQ(facts.scratch_offset, op == Op::for_loop ? 64 : op == Op::convert ? 0 : -1);
    }
}

TEST(IrText, BrokenGpuFormsAreDiagnosed) {
    const std::string text = kGpuText;
    const auto problems = [&](const std::string& what, const std::string& by) {
        std::string t = text;
        const size_t at = t.find(what);
        EXPECT_NE(at, t.npos) << what;
        TypeTable types;
        return parse(t.replace(at, what.size(), by), types).problems;
    };
    EXPECT_NE(problems("warps = 4", "warps = 3").find("a power of two"), std::string::npos);
    EXPECT_NE(problems("warps = 4", "warps = 64").find("T0705"), std::string::npos);
    EXPECT_NE(problems("warps = 4", "warps = 2").find("unknown layout"), std::string::npos);
    EXPECT_NE(problems("warp 1:16 1:32", "warp 1:16 1:16").find("unknown layout"), std::string::npos);
    EXPECT_NE(problems("[2, 1, 1]", "[3, 1, 1]").find("1, 2, 4 or 8"), std::string::npos);
    EXPECT_NE(problems("[2, 1, 1]", "[9223372036854775807, 1, 1]").find("1, 2, 4 or 8"), std::string::npos);
    EXPECT_NE(problems("[2, 1, 1]", "[?, 1, 1]").find("1, 2, 4 or 8"), std::string::npos);
    EXPECT_NE(problems("[2, 1, 1]", "[4, 4, 1]").find("at most 8 programs"), std::string::npos);
    EXPECT_NE(problems("[2, 1, 1]", "[2, 1]").find("three axes"), std::string::npos);
    EXPECT_NE(problems("multicast = 1", "multicast = 8").find("T0705"), std::string::npos);
    EXPECT_NE(problems("swizzle 128", "swizzle 100").find("unknown layout"), std::string::npos);
    EXPECT_NE(problems("[16, 64] @ p1", "[16, 64] @ p4").find("a placement of"), std::string::npos);
    EXPECT_NE(problems("[16, 64] @ p1", "[16, 64] @ p9").find("unknown placement"), std::string::npos);
    EXPECT_NE(problems("0:2048", "-1:2048").find("T0705"), std::string::npos);
    EXPECT_NE(problems(", sync, fence}", ", sink = 1}").find("unknown field"), std::string::npos);
    EXPECT_NE(problems("p2 = registers", "p3 = registers").find("unknown field"), std::string::npos);
    EXPECT_NE(problems("%4 = convert", "%4 = add").find("T07"), std::string::npos);
}

/// A product in GPU form, for `arch`, with what stands behind its type, and an instruction of the function's own as often as `own` says.
std::string placed_product(const char* arch, const std::string& row, int own = 0) {
    std::string text = "function @product(%a: tile<f64>[16, 4], %b: tile<f64>[4, 8], %c: tile<f64>[16, 8])";
    for (int n = 0; n < own; ++n)
        text += " instruction f64 f64 f64 \"fma\\n" + std::to_string(8 + n) +
                "\\nresult 0 16x8 [16, 8] reg 1:1 0:8 lane 1:2 1:4 0:1 0:2 0:4 warp\\na 0 16x4 [16, 4] reg 0:8 lane 1:1 1:2 0:1 0:2 0:4 warp"
                "\\nb 0 4x8 [4, 8] reg lane 0:1 0:2 1:1 1:2 1:4 warp\\nc 0 16x8 [16, 8] reg 1:1 0:8 lane 1:2 1:4 0:1 0:2 0:4 warp"
                "\\nptx sm_50 mma.sync;\\n\"";
    return text + " gpu {\n  arch = " + arch + ", warps = 4\n} {\n  %0 = dot %a, %b, %c {precision = ieee} : tile<f64>[16, 8]" + row +
           "\n  ret %0\n}\n";
}

/// Text names the instruction that computes a product, so that a new row of targets.def changes no text.
TEST(IrText, RowsAreReadByName) {
    for (const Arch& arch : all_archs())
        for (const MmaRow& row : mma_rows()) {
            if (!has_row(arch, row) || row.kind == MmaRow::fma) continue;
            TypeTable types;
            const std::string text = placed_product(arch.name, std::string(" @ {row = \"") + row.name + "\"}");
            const Parsed p = parse(text, types);
            ASSERT_TRUE(p.fn) << p.problems << text;
            EXPECT_EQ(&p.fn->row(p.fn->gpu->of_inst[0].row), &row) << arch.name << " has two rows called " << row.name;
            EXPECT_EQ(print(*p.fn), text);
        }
    // Own rows may share a name with each other, and with a row of the table.
    for (const char* name : {"\"fma\" 2", "\"fma\" 3", "\"mma.sync.f64\""}) {
        TypeTable types;
        const std::string text = placed_product("sm_80", std::string(" @ {row = ") + name + "}", 2);
        const Parsed p = parse(text, types);
        ASSERT_TRUE(p.fn) << p.problems << text;
        EXPECT_EQ(print(*p.fn), text);
        EXPECT_EQ(p.fn->is_own_row(p.fn->gpu->of_inst[0].row), name[1] == 'f');
    }
    const std::pair<const char*, const char*> broken[] = {
        {"38", "a quoted text"},
        {"\"wgmma.f16.f32\"", "unknown instruction of the architecture"},  // of sm_90a
        {"\"mma.sync.f64\" 2", "unknown instruction of the architecture"},
        {"\"mma.sync.f64\" 0", "T0705"},
        {"\"mma.sync.f64\" 9223372036854775807", "T0705"},
        {"\"\"", "unknown instruction of the architecture"},
        {"\"mma.sync.f64", "T07"},
    };
    for (const auto& [name, wanted] : broken) {
        TypeTable types;
        const std::string problems = parse(placed_product("sm_80", std::string(" @ {row = ") + name + "}"), types).problems;
        EXPECT_NE(problems.find(wanted), std::string::npos) << name << problems;
    }
    TypeTable types;
    EXPECT_NE(parse(kernel("  %0 = neg %a : f32 @ {row = \"fma\"}\n"), types).problems.find("a function with a GPU form"), std::string::npos);
}

TEST(IrText, ConstantsKeepTheirCodes) {
    TypeTable types;
    for (const char* name : {"bool", "i3", "u4", "f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e8m0", "f6e3m2", "f4e2m1", "fixed<2, 4>", "lns<3, 3>",
                             "float<3, 3>", "codebook<3>[0, 1, 2, 3, -1, -2, -3, 0]"}) {
        std::string_view spelling = name;
        const auto format = parse_format_name(spelling, types);
        ASSERT_TRUE(format) << name;
        const Format f = types.format(*format);
        for (uint64_t raw = 0; raw < uint64_t{1} << f.bits; ++raw) {
            ir::Function fn(types);
            fn.name = "f";
            fn.is_kernel = false;
            fn.body = fn.add_block();
            ir::Builder b(fn, fn.body);
            const ir::ValueId c = b.constant(types.tile(*format), extend_code(f, raw));
            b.emit(Op::ret, {&c, 1}, {});
            const std::string text = print(fn);
            const Parsed again = parse(text, types);
            ASSERT_TRUE(again.fn) << again.problems << text;
            EXPECT_EQ(static_cast<uint64_t>(again.fn->attr_pool[0]), extend_code(f, raw)) << text;
        }
    }
}

TEST(IrText, FormatNamesRoundTrip) {
    TypeTable types;
    for (std::string name :
         {"f16", "i1", "u64", "float<4, 7>", "float<2, 1, inf = false, nan = none>", "float<5, 2, nan = negative_zero, inf = false>",
          "float<8, 0, signed = false>", "float<4, 3, bias = 11, subnormal = false>", "fixed<8, 8>", "ufixed<0, 8>", "lns<5, 2>"}) {
        std::string_view text = name;
        const auto id = parse_format_name(text, types);
        ASSERT_TRUE(id) << name;
        EXPECT_TRUE(text.empty());
        const std::string out = format_text(types.format(*id));
        std::string_view again = out;
        EXPECT_EQ(parse_format_name(again, types), id) << name << " as " << out;
    }
    for (std::string name :
         {"", "f17", "i65", "float<12, 3>", "float<3>", "codebook<2>[1, 2]", "codebook<17>[0]", "fixed<40, 40>", "lns<9, 9>", "block<i4, 32>"}) {
        std::string_view text = name;
        EXPECT_FALSE(parse_format_name(text, types) && text.empty()) << name;
    }
}

/// What is wrong with each text: a part of the diagnostic must say so.
TEST(Verifier, NamesBrokenRules) {
    const std::pair<const char*, const char*> cases[] = {
        {"  %0 = add %a, %n : f32\n", "operand is i64, not f32"},
        {"  %0 = add %a, %a : f16\n", "result is f16, not f32"},
        {"  %0 = bit_and %a, %a : f32\n", "is not defined on f32"},
        {"  %0 = add %a : f32\n", "wrong number of operands"},
        {"  %0 = iota {axis = 1} : tile<i64>[4]\n", "axis is not a dimension"},
        {"  %0 = load %x[%n, %n +: 4] : tile<f32>[5]\n", "result is tile<f32>[5], not tile<f32>[4]"},
        {"  %0 = load %x[%n] : f32\n", "one access axis per dimension"},
        {"  %0 = load %x[:, %n] : f32\n", "constant extent"},
        {"  store %x[%n, %n] = %a\n", "writes to an `in` tensor"},
        {"  store %y[%n, %n] = %n\n", "value is i64, not f32"},
        {"  %0 = constant 0 : tile<f32>[4, 3]\n  %1 = dot %0, %0, %0 {precision = ieee} : tile<f32>[4, 3]\n", "shapes do not multiply"},
        {"  %0 = broadcast %a : tile<f32>[4]\n  %1 = reshape %0 : tile<f32>[5]\n", "number of elements changes"},
        {"  %0 = constant 0 : tile<f32>[4]\n  %1 = slice %0 {start_step = [1, 1]} : tile<f32>[4]\n", "leaves the operand"},
        {"  %0 = constant 0 : tile<f32>[4]\n  %1 = permute %0 {axis = [1]} : tile<f32>[4]\n", "not a permutation"},
        {"  %0 = cast %a {round = stochastic, overflow = sat} : i8\n", "a seed or bits go with stochastic rounding"},
        {"  %0 = bitcast %a : i16\n", "element width changes"},
        {"  %0 = for_loop %n, %n, %n, %a : f32 (%1: i64) {\n    yield %a\n  }\n", "wrong number of block arguments"},
        {"  %0 = for_loop %n, %n, %n, %a : f32 (%1: i64, %2: f32) {\n    yield %n\n  }\n", "value that ends the block is i64"},
        {"  for_loop %n, %n, %n (%1: i64) {\n    %2 = neg %a : f32\n  }\n", "is a terminator"},
        {"  ret\n", "a terminator stands before the end"},
        {"  %0 = constant true : bool\n  %1 = if_else %0 : f32 {\n    %2 = neg %a : f32\n    yield %2\n  } {\n    %3 = neg %2 : f32\n    yield %3\n  "
         "}\n",
         "not defined here"},
        {"  %0 = constant 0 : tile<f32>[4]\n  %1 = reduce_region %0, %a {axis = 0} : f32 (%2: f32, %3: f32) {\n    %4 = load %x[%n, %n] : f32\n    "
         "yield %4\n  }\n",
         "touches memory inside a pure op"},
        {"  %0 = constant 0 : tile<f32>[9999, 9999]\n", "too many elements"},
        {"  %0 = neg %x : f32\n", "operand is a tensor"},
        {"  %0 = program_id {axis = 3} : i64\n", "axes 0, 1 and 2"},
        {"  %0 = constant 300 : i8\n", "is not a constant of i8"},
    };
    for (const auto& [body, wanted] : cases) {
        TypeTable types;
        const Parsed p = parse(kernel(body), types);
        EXPECT_FALSE(p.fn) << body;
        EXPECT_NE(p.problems.find(wanted), std::string::npos) << body << p.problems;
    }
}

TEST(Verifier, JudgesBuiltIr) {
    TypeTable types;
    ir::Function fn(types);
    fn.name = "f";
    EXPECT_FALSE(verify(fn).empty()) << "no body";
    fn.body = fn.add_block();
    EXPECT_FALSE(verify(fn).empty()) << "empty body";
    ir::Builder b(fn, fn.body);
    const ir::ValueId one = b.index(1);
    const ir::InstId ret = b.emit(Op::ret, {}, {});
    EXPECT_TRUE(verify(fn).empty());
    const ir::ValueId wild{12345};
    const TypeId i64 = types.tile(Fmt::i64);
    const ir::InstId bad = fn.make(Op::neg, {&wild, 1}, {&i64, 1});
    fn.insert_before(ret, bad);
    EXPECT_FALSE(verify(fn).empty()) << "operand that does not exist";
    fn.set_operands(bad, {&one, 1});
    EXPECT_TRUE(verify(fn).empty());
    fn.append(fn.body, bad);
    EXPECT_FALSE(verify(fn).empty()) << "instruction in two places";
    fn.block(fn.body).insts.pop_back();
    fn.inst(bad).op = static_cast<Op>(250);
    EXPECT_FALSE(verify(fn).empty()) << "unknown op";
    fn.inst(bad).op = Op::neg;
    fn.inst(bad).operands.begin = 1u << 30;
    EXPECT_FALSE(verify(fn).empty()) << "range outside the pool";
}

TEST(Builder, InfersResultTypes) {
    TypeTable types;
    ir::Function fn(types);
    fn.name = "f";
    fn.is_kernel = false;
    fn.body = fn.add_block();
    ir::Builder b(fn, fn.body);
    const ir::ValueId x = b.constant(types.tile(Fmt::f32, {4, 3}), 0);
    EXPECT_EQ(types.name(fn.type_of(b.elementwise(Op::lt, {x, x}))), "tile<bool>[4, 3]");
    EXPECT_EQ(types.name(fn.type_of(b.reduce(x, ir::ReduceKind::sum, 0, false, id_of(Fmt::f32)))), "tile<f32>[3]");
    const int64_t axes[] = {1, 0};
    const ir::ValueId t = b.permute(x, axes);
    EXPECT_EQ(types.name(fn.type_of(t)), "tile<f32>[3, 4]");
    const ir::ValueId acc = b.constant(types.tile(Fmt::f32, {4, 4}), 0);
    EXPECT_EQ(types.name(fn.type_of(b.dot(x, t, acc, ir::Precision::ieee))), "tile<f32>[4, 4]");
    EXPECT_EQ(b.broadcast(x, {4, 3}), x);
    EXPECT_EQ(b.cast(x, id_of(Fmt::f32)), x);
    EXPECT_EQ(types.name(fn.type_of(b.bitcast(x, id_of(Fmt::u32)))), "tile<u32>[4, 3]");
    EXPECT_THROW(b.reshape(x, {5}), InternalError);
    EXPECT_THROW(b.elementwise(Op::bit_and, {x, x}), InternalError);
    b.emit(Op::ret, {}, {});
    EXPECT_TRUE(verify(fn).empty());
}

uint64_t eval(Op op, const Format& f, std::initializer_list<uint64_t> codes) {
    return scalar::eval_elementwise(op, f, {codes.begin(), codes.size()});
}

/// All pairs of 5-bit integers against arithmetic in plain int.
TEST(Scalar, NarrowIntegersWrap) {
    for (const bool sign : {false, true}) {
        const Format f = int_format(5, sign);
        const int low = sign ? -16 : 0, high = low + 32;
        const auto wrapped = [&](int v) { return ((v - low) % 32 + 32) % 32 + low; };
        for (int a = low; a < high; ++a) {
            for (int b = low; b < high; ++b) {
                const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
                const auto value = [&](Op op) { return static_cast<int>(static_cast<int64_t>(eval(op, f, {x, y}))); };
                const double q = b ? static_cast<double>(a) / b : 0;
                EXPECT_EQ(value(Op::add), wrapped(a + b));
                EXPECT_EQ(value(Op::mul), wrapped(a * b));
                EXPECT_EQ(value(Op::div), wrapped(static_cast<int>(std::floor(q))));
                EXPECT_EQ(value(Op::div_ceil), wrapped(static_cast<int>(std::ceil(q))));
                EXPECT_EQ(value(Op::div_trunc), wrapped(static_cast<int>(std::trunc(q))));
                EXPECT_EQ(value(Op::rem), wrapped(b ? a - b * static_cast<int>(std::floor(q)) : a)) << a << " " << b;
                EXPECT_EQ(value(Op::rem_trunc), wrapped(b ? a - b * static_cast<int>(std::trunc(q)) : a));
                const bool out = b < 0 || b >= 5;
                EXPECT_EQ(value(Op::shl), out ? 0 : wrapped(a << b));
                EXPECT_EQ(value(Op::shr), out ? (a < 0 ? -1 : 0) : a >> b);
                if (!sign) {
                    EXPECT_EQ(value(Op::umulhi), a * b / 32);
                }
            }
        }
    }
}

TEST(Scalar, EdgesOfWideIntegers) {
    const Format i64 = int_format(64, true);
    const uint64_t min = uint64_t{1} << 63;
    EXPECT_EQ(eval(Op::div, i64, {min, ~uint64_t{0}}), min);
    EXPECT_EQ(eval(Op::rem, i64, {min, ~uint64_t{0}}), 0u);
    EXPECT_EQ(eval(Op::neg, i64, {min}), min);
    EXPECT_EQ(eval(Op::umulhi, int_format(64, false), {~uint64_t{0}, ~uint64_t{0}}), ~uint64_t{1});
    EXPECT_EQ(eval(Op::clz, int_format(7, true), {1}), 6u);
    EXPECT_EQ(eval(Op::ctz, int_format(7, false), {0}), 7u);
    EXPECT_EQ(eval(Op::bit_not, builtin_formats()[static_cast<size_t>(Fmt::boolean)], {1}), 0u);
}

TEST(Scalar, FloatsOrderZerosAndPropagateNaN) {
    const Format f = builtin_formats()[static_cast<size_t>(Fmt::f32)];
    const uint64_t minus_zero = 0x80000000u, nan = 0x7fc00000u, one = 0x3f800000u;
    EXPECT_EQ(eval(Op::min, f, {0, minus_zero}), minus_zero);
    EXPECT_EQ(eval(Op::max, f, {minus_zero, 0}), 0u);
    EXPECT_EQ(eval(Op::min, f, {one, nan}), nan);
    EXPECT_EQ(eval(Op::minnum, f, {one, nan}), one);
    EXPECT_EQ(eval(Op::maxnum, f, {nan, one}), one);
    EXPECT_EQ(eval(Op::add, f, {0x3f800000u, 0x33800000u}), one) << "1 + 2^-24 ties to even";
    EXPECT_EQ(eval(Op::rem, f, {0xbf800000u, 0x40400000u}), 0x40000000u) << "-1 mod 3 is 2";
    EXPECT_EQ(eval(Op::isnan, f, {nan}), 1u);
}

TEST(Scalar, FixedPointSaturatesAndRoundsToEven) {
    TypeTable types;
    std::string_view name = "fixed<4, 4>";
    const Format f = types.format(*parse_format_name(name, types));
    const auto q = [](double v) { return static_cast<uint64_t>(static_cast<int64_t>(v * 16)); };
    EXPECT_EQ(eval(Op::add, f, {q(7), q(7)}), q(7.9375));
    EXPECT_EQ(eval(Op::sub, f, {q(-8), q(1)}), q(-8));
    EXPECT_EQ(eval(Op::mul, f, {q(0.0625), q(0.5)}), 0u) << "1/32 ties to 0";
    EXPECT_EQ(eval(Op::mul, f, {q(0.1875), q(0.5)}), q(0.125)) << "3/32 ties to 2/16";
    EXPECT_EQ(eval(Op::div, f, {q(1), q(3)}), q(0.3125));
    EXPECT_EQ(eval(Op::div, f, {q(-1), 0}), q(-8));
    EXPECT_EQ(eval(Op::neg, f, {q(-8)}), q(7.9375));
}

std::vector<std::string> corpus() {
    std::vector<std::string> out = structured_texts();
    for (const auto& e : std::filesystem::recursive_directory_iterator(TEGULA_SOURCE_DIR "/tests/lower")) {
        if (!e.is_regular_file()) continue;
        std::ostringstream text;
        text << std::ifstream(e.path()).rdbuf();
        out.push_back(text.str());
    }
    return out;
}

/// Parses; what survives must print and parse again, and live through every pass.
void torture(const std::string& text) {
    TypeTable types;
    SourceMap sources;
    DiagSink diags;
    const auto fn = ir::parse_ir(sources, sources.add("x", text), types, diags);
    if (!fn) {
        EXPECT_TRUE(diags.has_errors()) << text;
        return;
    }
    const std::string printed = print(*fn);
    const Parsed again = parse(printed, types);
    ASSERT_TRUE(again.fn) << again.problems << printed;
    EXPECT_EQ(print(*again.fn), printed);
    EXPECT_NO_THROW(run_passes(*fn, {})) << text;
}

TEST(HostileText, Truncations) {
    for (const std::string& text : corpus())
        for (size_t n = 0; n < text.size(); n += 7) torture(text.substr(0, n));
}

TEST(HostileText, ByteFlips) {
    uint64_t state = 1;
    const auto random = [&] { return state = state * 6364136223846793005u + 1442695040888963407u, static_cast<uint32_t>(state >> 33); };
    static constexpr std::string_view kBytes = "0123456789%@[]{}()<>,:=!?+-\"\\ \nfi";
    for (const std::string& text : corpus()) {
        for (int round = 0; round < 60; ++round) {
            std::string t = text;
            t[random() % t.size()] = round % 4 ? kBytes[random() % kBytes.size()] : static_cast<char>(random());
            torture(t);
        }
    }
}

TEST(HostileText, DeepNesting) {
    std::string text = "kernel @k(%c: bool) {\n";
    for (int i = 0; i < 100000; ++i) text += "if_else %c {\n";
    TypeTable types;
    EXPECT_NE(parse(text, types).problems.find("nesting is deeper"), std::string::npos);
    std::string layout = "kernel @k(%x: tensor<f32>[?] @ \"[1](" + std::string(100000, '(') + "\" in) { ret }";
    EXPECT_FALSE(parse(layout, types).fn);
}

}  // namespace
