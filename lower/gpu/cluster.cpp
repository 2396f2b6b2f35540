// Clusters: neighbouring programs whose producers copy parts of a tile for each other (multicast), so that it leaves L2 once. Which axes of the
// attribute `cluster` are worth it, which channels are shared, and the proof that sharing is safe (channels.h; the protocol is in docs/decisions.md).
#include <algorithm>

#include "lang/gpu/bulk_boxes.h"
#include "lang/gpu/raster.h"
#include "lang/gpu/split_loop.h"
#include "lang/program_order.h"
#include "lower/gpu/channels.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

constexpr unsigned kAllAxes = 7;

bool has_split_loop(const Function& fn) {
    bool any = false;
    fn.walk([&](InstId i) { any = any || is_split_loop(fn, fn.inst(i)); });
    return any;
}

/// What forbids clusters of that size whatever the loads are; empty: nothing.
std::string kernel_problem(const Function& fn, const std::array<int, 3>& size) {
    for (size_t d = 0; d < size.size(); ++d)
        if (size[d] > 1 && static_cast<int>(d) >= fn.gpu->grid_axes) return "the grid has no such axis";
    if (!fn.gpu->arch->multicast) return "programs do not share tiles on this architecture";
    if (program_order(fn).together) return "its programs run at the same time, which no launch in clusters promises";
    if (reports_programs(fn)) return "what it prints or asserts names programs by their place in the plain order";
    if (has_split_loop(fn)) return "its sum is split";
    if (fn.gpu->persistent) return "it is persistent: a CTA may run one program less than its neighbours, which would wait for it";
    return {};
}

int parts_of(const std::array<int, 3>& size, unsigned axes) {
    int parts = 1;
    for (size_t d = 0; d < size.size(); ++d) parts *= axes >> d & 1 ? size[d] : 1;
    return parts;
}

}  // namespace

unsigned differing_axes(const Function& fn, const Writes& writes, InstId copy) {
    Slice slice(fn, writes);
    if (!slice.add(copy).empty()) return kAllAxes;
    unsigned axes = 0;
    fn.walk([&](InstId i) {
        const Inst& inst = fn.inst(i);
        if (!slice.needs(i)) return;
        if (inst.op == Op::program_id) axes |= 1u << fn.attrs(inst)[0];
        // Two programs may read what a third one is writing at different times.
        if (inst.op == Op::load && writes.may_reach(fn.operands(inst)[0])) axes = kAllAxes;
    });
    return axes;
}

std::array<int, 3> plan_cluster(const Function& fn, const GpuOptions& options, std::vector<ChannelPlan>& plans) {
    constexpr std::array<int, 3> kNone = {1, 1, 1};
    const std::array<int, 3> wanted = wanted_cluster(fn);
    if (wanted == kNone || !options.whole_clusters || !kernel_problem(fn, wanted).empty()) return kNone;
    const Writes writes(fn, options.may_alias);
    std::array<int, 3> size = kNone;
    for (ChannelPlan& p : plans) {
        if (!p.why_not.empty() || !p.tma) continue;
        unsigned axes = ~differing_axes(fn, writes, p.load) & kAllAxes;
        for (size_t d = 0; d < wanted.size(); ++d)
            if (wanted[d] == 1) axes &= ~(1u << d);
        if (axes == 0 || !bulk_boxes(p.layout, parts_of(wanted, axes))) continue;
        p.multicast = axes;
        for (size_t d = 0; d < wanted.size(); ++d)
            if (axes >> d & 1) size[d] = wanted[d];
    }
    return size;
}

std::string cluster_problem(const Function& form) {
    std::string why;
    const std::array<int, 3> wanted = wanted_cluster(form, &why);
    if (why.empty()) why = kernel_problem(form, wanted);
    if (why.empty() && !form.gpu->specialised) why = "no load of the kernel is a bulk copy in a loop";
    if (why.empty()) why = "no bulk copy brings neighbouring programs along these axes the same tiles, in equal parts";
    return why;
}

/// Every program of a cluster puts the same sequence of tiles into a shared ring. Nothing waits for ever then: order all puts and gets of a
/// cluster by their trips of the loops around them and their places in the text. The order is one for all programs, since control around a shared
/// put is the same in those that share it. What waits and comes first in it: a put needs releases of gets that come earlier, which all of its
/// sharers have done or are free to do (prove_channels shows that each holds fewer stages than there are); a get needs puts at its own place.
void prove_cluster(const Function& fn, const GpuOptions& options, const Writes& writes,
                   const std::function<void(InstId, const std::string&)>& problem) {
    const GpuForm& gpu = *fn.gpu;
    const auto form_problem = [&](const std::string& text) { problem(fn.block(fn.body).insts.front(), text); };
    if (gpu.cluster_size() > 1) {
        const std::string why = kernel_problem(fn, gpu.cluster);
        if (!why.empty()) form_problem("a cluster cannot be, because " + why);
        if (!gpu.specialised || !options.whole_clusters) form_problem("a cluster without producers, or of a grid that has no whole ones");
    }
    for (const auto& [value, channel] : gpu.channels) {
        if (!channel.multicast) continue;
        for (size_t d = 0; d < gpu.cluster.size(); ++d)
            if ((channel.multicast >> d & 1) && gpu.cluster[d] == 1) form_problem("a channel is shared along an axis without a cluster");
        if (channel.tensor_map < 0 || !bulk_boxes(channel.layout, gpu.sharers(channel))) form_problem("a shared channel cannot be copied in parts");
    }
    fn.walk([&](InstId i) {
        const Inst& inst = fn.inst(i);
        if (inst.op != Op::channel_put) return;
        for (const auto& [value, channel] : gpu.channels)
            if (value == fn.operands(inst).back().v && (channel.multicast & differing_axes(fn, writes, i)))
                problem(i, "may bring the programs that share the channel different tiles");
    });
}

}  // namespace tegula
