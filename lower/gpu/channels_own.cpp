// Own rings (gpu_form.h): loads of a persistent form that every thread copies ahead for itself, from sm_80 on. The next program's rows are on their
// way while this one's are reduced and stored, without a barrier: a thread waits for its own copies only. Runs as part of plan_channels.
#include <algorithm>

#include "lang/access_operands.h"
#include "lang/layout.h"
#include "lower/gpu/channels.h"
#include "lower/gpu/place_groups.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int64_t kOwnStages = 2;            ///< one being read or waited for, one on its way
constexpr int64_t kOnTheWay = 64 << 10;      ///< bytes that keep memory busy: where one stage holds them, others only take room from the first cache
constexpr int64_t kForExchanges = 48 << 10;  ///< left for exchanges between threads
constexpr int64_t kElements = 32768;         ///< of tiles that programs on one multiprocessor work on at a time
constexpr int64_t kMostResident = 32;        ///< on a multiprocessor
constexpr int64_t kCopyBytes = 16;

/// Does the load stand in the loop over programs itself, always, at an address that differs from program to program and is known early?
bool is_early(const Function& fn, const GpuOptions& options, const ChannelPlan& plan) {
    if (!plan.loop.valid() || !(fn.inst(plan.loop).parent == fn.body) || fn.inst(plan.loop).op != Op::for_loop) return false;
    return !reads_the_same(fn, fn.inst(plan.load)) && ahead_problem(fn, options, plan).empty();
}

/// Whole vectors of a tensor with rows of whole vectors: none straddles its edge.
std::optional<TileLayout> own_layout(const Function& fn, const GpuOptions& options, InstId load) {
    const Inst& inst = fn.inst(load);
    const ValueId tensor = fn.operands(inst)[0], tile = fn.result(inst);
    const GpuTensor* fact = tensor_fact(fn, options.tensors, tensor);
    const Layout::Kind kind = fn.types().layout(fn.type(tensor).layout).kind();
    const AccessOperands access(fn, inst);
    uint64_t other = 0;
    if (!fact || !fact->whole || fact->strided || (kind != Layout::Kind::row && kind != Layout::Kind::col)) return std::nullopt;
    if (access.mask || fn.type(tile).shape.rank == 0 || access.access.gathers() || access.access.steps()) return std::nullopt;
    if (access.other && !splat_code(fn, access.other.value, other)) return std::nullopt;
    const int d = contiguous_dimension(fn, inst);
    if (d < 0 || d < fn.type(tile).shape.rank - 2) return std::nullopt;
    TileLayout l = memory_layout(fn, inst);
    return suits_own_ring(fn, tile, l, d, kCopyBytes) ? std::optional(std::move(l)) : std::nullopt;
}

}  // namespace

bool suits_own_ring(const Function& fn, ValueId tile, const TileLayout& l, int d, int64_t bytes) {
    const Format& elem = fn.elem(tile);
    const bool whole = elem.bits == 8 || elem.bits == 16 || elem.bits == 32 || elem.bits == 64;
    return whole && vector_width(l, d) * int64_t{elem.container_bytes()} >= bytes &&
           int64_t{l.registers()} * 32 * l.warps() == fn.type(tile).shape.elements();
}

std::vector<ChannelPlan> plan_own_rings(const Function& fn, const GpuOptions& options, const Writes& writes) {
    constexpr int kAsyncCopies = 80;  ///< the first architecture with cp.async
    std::vector<ChannelPlan> plans;
    if (options.arch->number < kAsyncCopies) return plans;
    fn.walk([&](InstId i) {
        if (fn.inst(i).op != Op::load) return;
        ChannelPlan plan;
        plan.load = i;
        plan.loop = fn.block(fn.inst(i).parent).owner;
        plan.own = own_layout(fn, options, i);
        if (!plan.own || !is_early(fn, options, plan) || writes.may_precede(i)) return;
        plan.layout = {plan.own->shape, contiguous_dimension(fn, fn.inst(i)), 0, static_cast<int>(fn.elem(fn.result(i)).container_bytes())};
        plans.push_back(std::move(plan));
    });
    // Programs that share a multiprocessor share its memory; a tile that leaves no room for that stays a load.
    std::sort(plans.begin(), plans.end(), [](const ChannelPlan& a, const ChannelPlan& b) {
        return std::pair(a.layout.bytes(), a.load.v) < std::pair(b.layout.bytes(), b.load.v);
    });
    for (; !plans.empty(); plans.pop_back()) {
        int64_t bytes = 0, elements = 1;
        for (const ChannelPlan& p : plans) {
            bytes += p.layout.bytes();
            elements = std::max(elements, p.own->shape.elements());
        }
        const int64_t programs = std::clamp<int64_t>(kElements / elements, 1, kMostResident);
        const int64_t stages = (options.arch->shared_bytes - kForExchanges) / programs / bytes;
        const int64_t wanted = std::min(kOwnStages, (kOnTheWay + programs * bytes - 1) / (programs * bytes));
        for (ChannelPlan& p : plans) p.stages = static_cast<int>(std::min(stages, wanted));
        if (stages > 0) break;
    }
    std::sort(plans.begin(), plans.end(), [](const ChannelPlan& a, const ChannelPlan& b) { return a.load.v < b.load.v; });
    return plans;
}

}  // namespace tegula
