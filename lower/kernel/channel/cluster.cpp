// Clusters of programs (GpuForm::cluster): a program's place in its cluster, and what rings that several programs share
// need beside their own. The CTAs of a cluster follow one another in the launch, axis 0 fastest within it. Shared rings
// lie at the same place in every CTA: a multicast copy writes there and reports to the full barrier there, and who
// takes a tile gives it back to the empty barriers of all that copy.
#include <algorithm>

#include "lower/kernel/access/access.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Op;
using kernel::KernelOp;

bool clustered(const Lowering& ctx) { return ctx.fn.gpu->cluster_size() > 1; }

std::string cluster_rank(Lowering& ctx) {
    const auto [it, added] = ctx.parameters.names.emplace("cluster rank", "");
    if (!added) return it->second;
    it->second = ctx.out.fresh("rank");
    ctx.prologue +=
        "    const unsigned " + it->second + " = blockIdx.x % " + number(ctx.fn.gpu->cluster_size()) + ";\n";
    return it->second;
}

namespace {

Ex place_in_cluster(Lowering& ctx, int axis) {
    int below = 1;
    for (int d = 0; d < axis; ++d) below *= ctx.fn.gpu->cluster[static_cast<size_t>(d)];
    return ctx.pool.name(kernel::Type::u32, cluster_rank(ctx)) / below % ctx.fn.gpu->cluster[static_cast<size_t>(axis)];
}

}  // namespace

std::string cluster_place(Lowering& ctx, int axis) { return "(" + place_in_cluster(ctx, axis).text() + ")"; }

std::string cluster_number(Lowering& ctx) {
    return clustered(ctx) ? "program / " + number(ctx.fn.gpu->cluster_size()) : "program";
}

std::string clusters_along(Lowering& ctx, int axis) {
    const std::string programs = parameter(ctx, KernelParam::grid, 0, axis, "const unsigned long long", "programs");
    const int extent = ctx.fn.gpu->cluster[static_cast<size_t>(axis)];
    return extent > 1 ? "(" + programs + " / " + number(extent) + ")" : programs;
}

/// Everything that depends on which programs share the ring.
void share_ring(Lowering& ctx, Ring& r) {
    ctx.formats.need("cluster");
    ctx.formats.need("tma");
    const GpuForm& gpu = *ctx.fn.gpu;
    const Ex lane = ctx.thread & 31;
    unsigned mask = 1;
    Ex part, own, peer;
    int stride = 1, inside = 1;
    for (int d = 0; d < 3; ++d) {
        const int extent = gpu.cluster[static_cast<size_t>(d)];
        if (r.form->multicast >> d & 1) {
            const auto add = [](Ex& sum, Ex term) { sum = sum ? sum + term : term; };
            const Ex place = place_in_cluster(ctx, d);
            add(part, place * inside);
            add(own, place * stride);
            add(peer, lane / inside % extent * stride);
            unsigned all = 0;
            for (int i = 0; i < extent; ++i) all |= mask << (i * stride);
            mask = all;
            inside *= extent;
        }
        stride *= extent;
    }
    r.sharers = inside;
    const auto variable = [&](kernel::Type of, const char* stem) { return ctx.pool.name(of, ctx.out.fresh(stem)); };
    const Ex first = variable(kernel::Type::u32, "first_sharer");
    r.part = variable(kernel::Type::u32, "part");
    r.mask = variable(kernel::Type::other, "sharers");
    r.peer_empty = variable(kernel::Type::u32, "peer_empty");
    const std::string type = "unsigned";
    ctx.out.let(type, first.text(), ctx.pool.name(kernel::Type::u32, cluster_rank(ctx)) - own, true);
    ctx.out.let(type, r.part.text(), part, true);
    ctx.out.let(type + " short", r.mask.text(), ctx.pool.constant(kernel::Type::u32, mask) << first, true);
    ctx.out.let(type, r.peer_empty.text(),
                ctx.pool.call(kernel::Type::u32, "address_in_cluster", {r.empty, first + peer}), true);
    ctx.kernel.form.rings[r.number].peer_empty = r.peer_empty.text();
}

/// Emits the part that computes, which says behind the last use of a ring that it is done with the memory of its peers.
void block_in_cluster(Lowering& ctx, ir::BlockId id) {
    const std::vector<ir::InstId>& insts = ctx.fn.block(id).insts;
    const auto uses_ring = [&](ir::InstId inst) {
        const Op op = ctx.fn.inst(inst).op;
        return op == Op::channel_get || op == Op::channel_release ||
               std::any_of(ctx.channels.rings.begin(), ctx.channels.rings.end(),
                           [&](const auto& ring) { return touches(ctx, inst, ir::ValueId{ring.first}); });
    };
    size_t last = insts.size() - 1;
    while (last > 0 && !uses_ring(insts[last])) --last;
    for (size_t i = 0; i < insts.size(); ++i) {
        instruction(ctx, insts[i]);
        if (i == last) ctx.out.call(KernelOp::cluster_arrive);
    }
}

}  // namespace tegula::lower
