// The GPU passes over every kernel of examples, stdlib and tests/run, for every architecture: verified, proved, printed and read back; no barrier is
// one too many, and the proof misses each one that is taken away. Barriers also on small functions with known answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include "jit/engine/host.h"
#include "lang/gpu/packed_view.h"
#include "lang/gpu/tensor_memory.h"
#include "lang/ir_text.h"
#include "lang/kernel/text.h"
#include "lang/tensor_strides.h"
#include "lower/gpu/gpu.h"
#include "lower/gpu/rows.h"
#include "lower/kernel/lower.h"
#include "lower/lower.h"
#include "lower/rewrite.h"
#include "tests/unit/gpu_function.h"
#include "tests/unit/sample.h"
#include "tests/unit/test_files.h"

using namespace tegula;

namespace {

namespace fs = std::filesystem;

std::vector<ir::InstId> barriers(const ir::Function& fn) {
    std::vector<ir::InstId> out;
    fn.walk([&](ir::InstId id) {
        if (fn.gpu_inst(id).sync_before) out.push_back(id);
    });
    return out;
}

/// Waits for products that are not waited for in their trip, in turn: without one, with one that leaves a product more, and with a stage given back
/// in its own trip the proof must notice.
void expect_each_wait_needed(ir::Function& fn, const GpuOptions& options) {
    fn.walk([&](ir::InstId id) {
        GpuInst& g = fn.gpu->of_inst[id.v];
        const GpuInst kept = g;
        const std::string at = fn.name + ": inst " + std::to_string(id.v) + " (" + ir::op_row(fn.inst(id).op).name + ")";
        for (const int wait : {-1, kept.wait + 1}) {
            if (kept.wait < 0) break;
            g.wait = wait;
            EXPECT_FALSE(prove(fn, options).empty()) << at << " need not wait until " << kept.wait << " products are left";
        }
        g = kept;
        if (!kept.late || fn.inst(id).op != ir::Op::channel_release) return;
        g.late = false;
        EXPECT_FALSE(prove(fn, options).empty()) << at << " need not be late";
        g = kept;
    });
}

/// Takes every barrier and every fence away in turn: the proof must notice.
void expect_each_needed(ir::Function& fn, const GpuOptions& options) {
    for (const ir::InstId id : barriers(fn)) {
        GpuInst& g = fn.gpu->of_inst[id.v];
        const GpuInst kept = g;
        g.sync_before = g.fence_before = false;
        EXPECT_FALSE(prove(fn, options).empty()) << fn.name << ": a barrier before inst " << id.v << " (" << ir::op_row(fn.inst(id).op).name
                                                 << ") is needless";
        g = kept;
        if (!g.fence_before) continue;
        g.fence_before = false;
        EXPECT_FALSE(prove(fn, options).empty()) << fn.name << ": a fence before inst " << id.v << " is needless";
        g = kept;
    }
    expect_each_wait_needed(fn, options);
    EXPECT_EQ(prove(fn, options), std::vector<std::string>());
}

void expect_text_survives(const ir::Function& fn) {
    const std::string text = ir::print(fn);
    TypeTable types;
    SourceMap sources;
    DiagSink diags;
    const auto again = ir::parse_ir(sources, sources.add("again.ir", text), types, diags);
    ASSERT_TRUE(again != nullptr) << (diags.all().empty() ? "" : render_text(diags.all()[0], sources, false)) << "\n" << text;
    EXPECT_EQ(ir::print(*again), text);
}

/// Every instance that the tests of the shipped files elaborate, after the shared passes, as text.
const std::set<std::string>& kernels() {
    static const std::set<std::string> all = [] {
        std::set<std::string> texts;
        std::mutex mutex;
        for (const char* folder : {"examples", "stdlib", "tests/run"}) {
            for (const fs::path& path : test::tile_files(folder)) {
                EngineOptions options;
                options.on_elaborated = [&](const ir::Function& fn) {
                    if (!fn.is_kernel) return;
                    ir::Function copy = fn;
                    run_passes(copy, {});
                    const std::lock_guard lock(mutex);
                    texts.insert(ir::print(copy));
                };
                options.import_root = path.parent_path().string();
                const auto engine = Engine::create(options);
                DiagSink diags;
                const ModulePtr module = engine->load(path.string(), test::read(path), path.parent_path().string(), diags);
                EXPECT_TRUE(module != nullptr) << path;
                if (!module) continue;
                LaunchOptions launch;
                run_tests(*engine, *module, "", launch, [](TestResult&) {});
            }
        }
        return texts;
    }();
    return all;
}

TEST(GpuPasses, EveryKernelForEveryArchitecture) {
    ASSERT_GT(kernels().size(), 150u);
    uint64_t n = 0;
    for (const std::string& text : kernels()) {
        for (const Arch& arch : all_archs()) {
            if (!test::is_sampled(n++)) continue;
            Parsed p(text);
            ASSERT_TRUE(p.fn != nullptr);
            const GpuOptions options = options_for(arch.name, *p.fn);
            ASSERT_NO_THROW(run_gpu_passes(*p.fn, options)) << arch.name << "\n" << text;
            EXPECT_LE(p.fn->gpu->shared_bytes, arch.shared_bytes);
            expect_each_needed(*p.fn, options);
            expect_text_survives(*p.fn);
        }
    }
}

TEST(GpuPasses, EveryKernelWithPassesOff) {
    uint64_t n = 0;
    for (const std::string& text : kernels()) {
        for (const char* off : {"all", "channels", "place", "convert_cleanup", "barriers"}) {
            if (!test::is_sampled(n++)) continue;
            Parsed p(text);
            GpuOptions options = options_for("sm_90a", *p.fn, std::string(off) != "channels");
            options.disabled = {off};
            ASSERT_NO_THROW(run_gpu_passes(*p.fn, options)) << off << "\n" << text;
        }
    }
}

std::string lowered(const ir::Function& form, std::vector<std::string> disabled) {
    const KernelText kernel = lower_to_kernel(form, nullptr, {std::move(disabled)});
    return kernel.head + kernel::dump(kernel.form);
}

TEST(GpuPasses, EveryKernelIsLoweredWithEachPassOff) {
    std::vector<std::string> passes{"all"};
    for (const std::string_view name : kernel_pass_names()) passes.emplace_back(name);
    std::set<std::string> changing;
    uint64_t n = 0, forms = 0;
    for (const std::string& text : kernels()) {
        for (const char* arch : {"sm_75", "sm_80", "sm_90a", "sm_100a"}) {
            if (!test::is_sampled(forms++)) continue;
            Parsed p(text);
            ASSERT_TRUE(p.fn != nullptr);
            run_gpu_passes(*p.fn, options_for(arch, *p.fn));
            const std::string with = lowered(*p.fn, {});
            for (const std::string& off : passes) {
                if (off != "all" && !test::is_sampled(n++)) continue;
                std::string without;
                ASSERT_NO_THROW(without = lowered(*p.fn, {off})) << off << " on " << arch << "\n" << text;
                if (without != with) changing.insert(off);
            }
        }
    }
    EXPECT_TRUE(changing.count("all"));
    if (test::is_long()) {
        EXPECT_EQ(changing, std::set<std::string>(passes.begin(), passes.end()));
    }
}

TEST(GpuPasses, ThePlanSaysWhatIsDecided) {
    Parsed p(
        "kernel @share(%x: tensor<f32>[64] in, %y: tensor<f32>[64] out) {\n  %0 = constant 0 : i64\n  %1 = load %x[%0 +: 64!] : tile<f32>[64]\n  %2 = reduce "
        "%1 {kind = sum, order = tree, axis = -1} : f32\n  %3 = broadcast %2 : tile<f32>[64]\n  %4 = div %1, %3 : tile<f32>[64]\n  store %y[%0 +: 64!] = "
        "%4\n  ret\n}\n");
    ASSERT_TRUE(p.fn != nullptr);
    run_gpu_passes(*p.fn, options_for("sm_90a", *p.fn));
    std::map<std::string, std::string> plans;
    const auto take = [&](std::string_view pass, const std::string& plan) { plans[std::string(pass)] = plan; };
    lower_to_kernel(*p.fn, nullptr, {{"prefixes"}, take});
    EXPECT_EQ(plans.size(), kernel_pass_names().size());
    EXPECT_NE(plans["shared_division"].find("shared_division: %4 multiplies by a reciprocal\n"), std::string::npos) << plans["shared_division"];
    EXPECT_EQ(plans["words"], "");
    EXPECT_NE(plans["edge_groups"].find("prefixes: off: "), std::string::npos);
}

TEST(GpuPasses, PassesOfLoweringAreDocumented) {
    const std::string page = test::read(std::filesystem::path(TEGULA_SOURCE_DIR) / "docs/internals/gpu.md");
    for (const std::string_view name : kernel_pass_names()) EXPECT_NE(page.find("| `" + std::string(name) + "` |"), std::string::npos) << name;
}

TEST(GpuPasses, PassesAreDeterministic) {
    uint64_t n = 0;
    for (const std::string& text : kernels()) {
        if (!test::is_sampled(n++)) continue;
        Parsed a(text), b(text);
        run_gpu_passes(*a.fn, options_for("sm_90a", *a.fn));
        run_gpu_passes(*b.fn, options_for("sm_90a", *b.fn));
        EXPECT_EQ(ir::print(*a.fn), ir::print(*b.fn));
    }
}

/// The bits of every register of every thread lie where the storage order puts the element.
TEST(GpuPasses, WordsHoldWhatTheStorageOrderSays) {
    const std::string orders[] = {"",
                                  "@ \"[2](i0 / 16, i1 / 64, ((i0 % 8) * 4) + ((i1 % 8) / 2), (((((i1 / 16) % 4) * 8) + ((i1 % 2) * 4)) + (((i0 / 8) "
                                  "% 2) * 2)) + ((i1 / 8) % 2))\" ",
                                  "@ \"[2](i1 / 32, i0, i1 % 32)\" ", "@ \"[2](i0, ((i1 % 8) * 16) + (i1 / 8))\" "};
    int views = 0;
    for (int bits = 1; bits <= 8; ++bits)
        for (const std::string& order : orders) {
            const std::string type = "i" + std::to_string(bits), tile = "tile<" + type + ">[64, 128]";
            Parsed p(
                "kernel @k(%x: tensor<f16>[16, 128] in, %w: tensor<" + type + ">[64, 128] " + order +
                "in, %y: tensor<f32>[16, 64] out) {\n  %0 = load %x[:, :] : tile<f16>[16, 128]\n  %1 = load %w[:, :] : " + tile +
                "\n  %2 = cast %1 {round = rne, overflow = automatic} : tile<f16>[64, 128]\n  %3 = permute %2 {axis = [1, 0]} : tile<f16>[128, 64]\n"
                "  %4 = constant 0 : tile<f32>[16, 64]\n  %5 = dot %0, %3, %4 {precision = ieee} : tile<f32>[16, 64]\n  store %y[:, :] = %5\n  "
                "ret\n}\n");
            ASSERT_TRUE(p.fn != nullptr);
            GpuOptions options = options_for("sm_80", *p.fn);
            for (GpuTensor& fact : options.tensors) fact.grain = 16;
            run_gpu_passes(*p.fn, options);
            const ir::Function& fn = *p.fn;
            fn.walk([&](ir::InstId id) {
                const ir::Inst& load = fn.inst(id);
                if (load.op != ir::Op::load || fn.elem(fn.result(load)).bits != static_cast<unsigned>(bits)) return;
                const TileLayout& l = fn.placement(fn.result(load)).regs;
                const auto view = packed_view(fn, load, l);
                if (!view) return;
                ++views;
                const auto members = *access_pieces(fn, load, l);
                TensorArg arg;
                arg.extents = Shape{64, 128};
                const Layout& layout = fn.types().layout(fn.type(fn.operands(load)[0]).layout);
                const BoundLayout bound(layout, extents_of(arg), view->bits);
                const std::vector<int64_t> pitches = bit_pitches(layout, arg, view->bits);
                for (int t = 0; t < 32 * l.warps(); t += 5)
                    for (int r = 0; r < l.registers(); ++r) {
                        const int unit = 8 * view->grain, bit = view->bit[static_cast<size_t>(r)];
                        const PackedView::Load& access = view->loads[static_cast<size_t>(bit / unit)];
                        const TileLayout::Point thread = l.point(0, t % 32, t / 32), own = l.point(access.reg, 0, 0),
                                                whole = l.point(r, t % 32, t / 32);
                        const int64_t at[] = {0, 0, thread[0], thread[1], own[0], own[1]}, point[] = {whole[0], whole[1]};
                        int64_t found = access.offset * 8 + bit % unit;
                        for (size_t m = 0; m < members.size(); ++m) {
                            found += members[m].part[LayoutPieces::thread].eval(at, extents_of(arg)) * pitches[m];
                            if (m + 1 < members.size()) found += members[m].part[LayoutPieces::register_].eval(at, extents_of(arg)) * pitches[m];
                        }
                        ASSERT_EQ(found, bound.bit_offset(point)) << type << order << " thread " << t << " register " << r;
                    }
            });
        }
    EXPECT_GE(views, 20);
}

// ---- barriers on functions with known answers ----

size_t barriers_of(const std::string& body, bool may_alias = true) {
    Parsed p("kernel @f(%a: tensor<f32>[256] inout, %b: tensor<f32>[256] inout, %c: tensor<f32>[256] in, %n: extent) {\n" + body + "  ret\n}\n");
    if (!p.fn) return 999;
    GpuOptions options = options_for("sm_80", *p.fn);
    options.may_alias = may_alias;
    run_gpu_passes(*p.fn, options);
    expect_each_needed(*p.fn, options);
    return barriers(*p.fn).size();
}

constexpr const char* kIndices = "  %0 = constant 0 : i64\n  %1 = constant 64 : i64\n  %2 = constant 0 : tile<f32>[64]\n";

TEST(GpuBarriers, StoreThenLoad) {
    const std::string both =
        std::string(kIndices) + "  store %a[%0 +: 64] = %2\n  %3 = load %a[%1 +: 64] : tile<f32>[64]\n  store %b[%0 +: 64] = %3\n";
    EXPECT_EQ(barriers_of(both), 2u) << "before the load; before the second store, which may reach what others read or wrote";
    EXPECT_EQ(barriers_of(both, false), 1u);
    const std::string only_read = std::string(kIndices) + "  %3 = load %c[%1 +: 64] : tile<f32>[64]\n  store %a[%0 +: 64] = %3\n";
    EXPECT_EQ(barriers_of(only_read), 1u) << "what a program only reads, it may write through another tensor";
    EXPECT_EQ(barriers_of(only_read, false), 0u);
}

TEST(GpuBarriers, BackEdgesAndZeroTrips) {
    const std::string loop =
        std::string(kIndices) +
        "  for_loop %0, %n, %1 (%i: i64) {\n    %3 = load %a[%i +: 64] : tile<f32>[64]\n    store %a[%0 +: 64] = %3\n    yield\n  }\n";
    EXPECT_EQ(barriers_of(loop), 2u) << "load to store, and store to the next trip's load";
    const std::string skipped =
        std::string(kIndices) +
        "  store %a[%0 +: 64] = %2\n  for_loop %0, %n, %1 (%i: i64) {\n    %3 = load %c[%i +: 64] : tile<f32>[64]\n    yield\n  }\n"
        "  %4 = load %a[%0 +: 64] : tile<f32>[64]\n  store %b[%0 +: 64] = %4\n";
    EXPECT_EQ(barriers_of(skipped, false), 1u) << "around the loop";
}

TEST(GpuBarriers, Branches) {
    const std::string one = std::string(kIndices) +
                            "  %3 = gt %n, %1 : bool\n  if_else %3 {\n    store %a[%0 +: 64] = %2\n    yield\n  } {\n    yield\n  }\n"
                            "  %4 = load %a[%1 +: 64] : tile<f32>[64]\n  store %b[%0 +: 64] = %4\n";
    EXPECT_EQ(barriers_of(one, false), 1u);
    const std::string exclusive = std::string(kIndices) +
                                  "  %3 = gt %n, %1 : bool\n  if_else %3 {\n    store %a[%0 +: 64] = %2\n    yield\n  } {\n"
                                  "    %5 = load %a[%1 +: 64] : tile<f32>[64]\n    store %b[%0 +: 64] = %5\n    yield\n  }\n";
    EXPECT_EQ(barriers_of(exclusive, false), 0u) << "the two never happen in one program";
    const std::string other = std::string(kIndices) +
                              "  %3 = gt %n, %1 : bool\n  if_else %3 {\n    yield\n  } {\n    store %a[%0 +: 64] = %2\n    yield\n  }\n"
                              "  %4 = load %a[%1 +: 64] : tile<f32>[64]\n  store %b[%0 +: 64] = %4\n";
    EXPECT_EQ(barriers_of(other, false), 1u);
}

TEST(GpuBarriers, ScratchInTurn) {
    // Three exchanges in a row: neighbours lie apart, so none waits for the one before it; in a loop the first meets the last of the trip before.
    const std::string sorts =
        "  %0 = constant 0 : i64\n  %1 = load %c[%0 +: 256] : tile<f32>[256]\n  %2, %3 = sort %1 {axis = 0, descending = 0} : tile<f32>[256], "
        "tile<i32>[256]\n"
        "  %4, %5 = sort %2 {axis = 0, descending = 1} : tile<f32>[256], tile<i32>[256]\n"
        "  %6, %7 = sort %4 {axis = 0, descending = 0} : tile<f32>[256], tile<i32>[256]\n  store %a[%0 +: 256] = %6\n";
    EXPECT_EQ(barriers_of(sorts), 0u);
    const std::string loop =
        "  %0 = constant 0 : i64\n  %1 = constant 1 : i64\n  %2 = load %c[%0 +: 256] : tile<f32>[256]\n"
        "  %3 = for_loop %0, %n, %1, %2 : tile<f32>[256] (%i: i64, %t: tile<f32>[256]) {\n"
        "    %4, %5 = sort %t {axis = 0, descending = 0} : tile<f32>[256], tile<i32>[256]\n    yield %4\n  }\n  store %a[%0 +: 256] = %3\n";
    EXPECT_EQ(barriers_of(loop, false), 1u) << "what one trip reads the next one writes";
}

TEST(GpuBarriers, SharedOperandsAreFenced) {
    // Operand B of wgmma comes from a loop-carried value: it is copied to shared memory in every trip.
    Parsed p(
        "kernel @f(%a: tensor<f16>[64, 64] in, %c: tensor<f32>[64, 64] out, %n: extent) {\n  %0 = constant 0 : i64\n  %1 = constant 1 : i64\n"
        "  %2 = load %a[:, :] : tile<f16>[64, 64]\n  %3 = constant 0 : tile<f32>[64, 64]\n"
        "  %4, %5 = for_loop %0, %n, %1, %2, %3 : tile<f16>[64, 64], tile<f32>[64, 64] (%i: i64, %x: tile<f16>[64, 64], %s: tile<f32>[64, 64]) {\n"
        "    %6 = dot %2, %x, %s {precision = ieee} : tile<f32>[64, 64]\n    %7 = add %x, %x : tile<f16>[64, 64]\n    yield %7, %6\n  }\n"
        "  store %c[:, :] = %5\n  ret\n}\n");
    ASSERT_TRUE(p.fn != nullptr);
    const GpuOptions options = options_for("sm_90a", *p.fn);
    run_gpu_passes(*p.fn, options);
    size_t fences = 0, shared = 0;
    p.fn->walk([&](ir::InstId id) {
        const ir::Inst& inst = p.fn->inst(id);
        fences += p.fn->gpu_inst(id).fence_before;
        shared += inst.op == ir::Op::convert && p.fn->placement(p.fn->result(inst)).kind == Placement::shared;
    });
    EXPECT_EQ(fences, 1u);
    EXPECT_GE(shared, 1u);
    expect_each_needed(*p.fn, options);
}

// ---- tensor memory ----

/// d = a b + c, stored; then e = a b + d.
const char* const kHandedOn =
    "kernel @f(%a: tensor<f16>[128, 16] in, %b: tensor<f16>[16, 32] in, %d: tensor<f32>[128, 32] out, %e: tensor<f32>[128, 32] out) {\n"
    "  %0 = load %a[:, :] : tile<f16>[128, 16]\n  %1 = load %b[:, :] : tile<f16>[16, 32]\n  %2 = constant 0 : tile<f32>[128, 32]\n"
    "  %3 = dot %0, %1, %2 {precision = ieee} : tile<f32>[128, 32]\n  %4 = dot %0, %1, %3 {precision = ieee} : tile<f32>[128, 32]\n"
    "  store %d[:, :] = %3\n  store %e[:, :] = %4\n  ret\n}\n";

std::vector<ir::InstId> all_of(const ir::Function& fn, ir::Op op) {
    std::vector<ir::InstId> out;
    fn.walk([&](ir::InstId id) {
        if (fn.inst(id).op == op) out.push_back(id);
    });
    return out;
}

TEST(GpuTensorMemory, SumsAreHandedOnInPlace) {
    Parsed p(kHandedOn);
    const GpuOptions options = options_for("sm_100a", *p.fn);
    run_gpu_passes(*p.fn, options);
    const auto dots = all_of(*p.fn, ir::Op::dot);
    ASSERT_EQ(dots.size(), 2u);
    EXPECT_EQ(p.fn->placement(p.fn->result(dots[0])), p.fn->placement(p.fn->result(dots[1])));
    EXPECT_TRUE(starts_from_zero(*p.fn, ir::Uses(*p.fn), dots[0]));
    EXPECT_FALSE(starts_from_zero(*p.fn, ir::Uses(*p.fn), dots[1]));
    EXPECT_EQ(allocated_columns(*p.fn->gpu), 32);
}

TEST(GpuTensorMemory, AReadBehindTheNextProductIsRefused) {
    Parsed p(kHandedOn);
    const GpuOptions options = options_for("sm_100a", *p.fn);
    run_gpu_passes(*p.fn, options);
    ASSERT_EQ(prove(*p.fn, options), std::vector<std::string>());
    const auto dots = all_of(*p.fn, ir::Op::dot);
    auto& list = p.fn->block(p.fn->body).insts;
    const auto read = std::find_if(list.begin(), list.end(), [&](ir::InstId id) {
        return p.fn->inst(id).op == ir::Op::convert && p.fn->operands(p.fn->inst(id))[0] == p.fn->result(dots[0]);
    });
    ASSERT_NE(read, list.end());
    std::rotate(read, read + 1, std::find(list.begin(), list.end(), dots[1]) + 1);
    const auto problems = prove(*p.fn, options);
    ASSERT_FALSE(problems.empty());
    EXPECT_NE(problems[0].find("may have been overwritten in tensor memory"), std::string::npos) << problems[0];
}

TEST(GpuTensorMemory, AProductWithoutAMeetingIsRefused) {
    // The sum is read in every trip, and the next trip's product overwrites it.
    Parsed p(
        "kernel @f(%a: tensor<f16>[128, 16] in, %b: tensor<f16>[16, 32] in, %d: tensor<f32>[128, 32] out, %n: extent) {\n"
        "  %0 = load %a[:, :] : tile<f16>[128, 16]\n  %1 = load %b[:, :] : tile<f16>[16, 32]\n  %2 = load %d[:, :] : tile<f32>[128, 32]\n"
        "  %3 = constant 0 : i64\n  %4 = constant 1 : i64\n"
        "  %5 = for_loop %3, %n, %4, %2 : tile<f32>[128, 32] (%i: i64, %s: tile<f32>[128, 32]) {\n"
        "    %6 = dot %0, %1, %s {precision = ieee} : tile<f32>[128, 32]\n    store %d[:, :] = %6\n    yield %6\n  }\n"
        "  store %d[:, :] = %5\n  ret\n}\n");
    ASSERT_TRUE(p.fn != nullptr);
    const GpuOptions options = options_for("sm_100a", *p.fn);
    run_gpu_passes(*p.fn, options);
    const auto dots = all_of(*p.fn, ir::Op::dot);
    ASSERT_EQ(dots.size(), 1u);
    EXPECT_TRUE(p.fn->gpu_inst(dots[0]).sync_before);
    p.fn->gpu->of_inst[dots[0].v].sync_before = p.fn->gpu->of_inst[dots[0].v].fence_before = false;
    std::string problems;
    for (const std::string& problem : prove(*p.fn, options)) problems += problem + "\n";
    EXPECT_NE(problems.find("write of tensor memory [0, 32) is not ordered after"), std::string::npos) << problems;
}

// ---- text: tests/lower/gpu/*.ir, `// gpu: ARCH [aligned] [whole] [apart] [off PASS]` on the first line, the result behind `//> `; TEGULA_UPDATE=1
// rewrites it ----

/// Texts leave such out, so that a row for an instruction that is not taken changes none of them.
bool only_slower(const explain::Rejected& r) { return r.clocks && r.why.empty(); }

TEST(GpuPasses, TextOfSmallFunctions) {
    size_t files = 0;
    for (const fs::path& path : test::source_files("tests/lower/gpu", ".ir")) {
        ++files;
        std::string input, expected, head;
        std::istringstream lines(test::read(path));
        for (std::string line; std::getline(lines, line);) {
            if (head.empty()) head = line;
            if (line.rfind("//>", 0) == 0)
                expected += line.substr(std::min<size_t>(line.size(), 4)) + "\n";
            else
                input += line + "\n";
        }
        std::istringstream words(head);
        std::string slashes, gpu, arch, word;
        words >> slashes >> gpu >> arch;
        Parsed p(input);
        ASSERT_TRUE(p.fn && find_arch(arch)) << path;
        GpuOptions options = options_for(arch.c_str(), *p.fn, false);
        while (words >> word) {
            if (word == "aligned") options = options_for(arch.c_str(), *p.fn);
            if (word == "whole")
                for (GpuTensor& fact : options.tensors) fact.whole = true;
            if (word == "words")
                for (GpuTensor& fact : options.tensors) fact.grain = 16;
            if (word == "apart") options.may_alias = false;
            if (word == "off") words >> options.disabled.emplace_back();
        }
        run_gpu_passes(*p.fn, options);
        if (options.disabled.empty()) expect_each_needed(*p.fn, options);
        std::string found = ir::print(*p.fn);
        for (explain::Note& note : explain_gpu(*p.fn, options)) {
            if (auto* product = std::get_if<explain::Product>(&note.fact)) std::erase_if(product->rejected, only_slower);
            found += explain::text(note.fact) + "\n";
        }
        if (std::getenv("TEGULA_UPDATE")) {
            std::ofstream out(path);
            out << input;
            std::istringstream text(found);
            for (std::string line; std::getline(text, line);) out << "//> " << line << "\n";
        } else {
            EXPECT_EQ(found, expected) << path;
        }
    }
    EXPECT_GE(files, 5u);
}

}  // namespace
