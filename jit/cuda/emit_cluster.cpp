// Clusters of programs (GpuForm::cluster): a program's place in its cluster, and what rings that several programs share need beside their own. The
// CTAs of a cluster follow one another in the launch, axis 0 fastest within it. Shared rings lie at the same place in every CTA: a multicast copy
// writes there and reports to the full barrier there, and who takes a tile gives it back to the empty barriers of all that copy.
#include <algorithm>

#include "jit/cuda/emitter.h"

namespace tegula::cuda {

using ir::Op;

bool Emitter::clustered() const { return fn_.gpu->cluster_size() > 1; }

std::string Emitter::cluster_rank() {
    const auto [it, added] = param_names_.emplace("cluster rank", "");
    if (!added) return it->second;
    it->second = fresh("rank");
    prologue_ += "    const unsigned " + it->second + " = blockIdx.x % " + number(fn_.gpu->cluster_size()) + ";\n";
    return it->second;
}

std::string Emitter::cluster_place(int axis) {
    int below = 1;
    for (int d = 0; d < axis; ++d) below *= fn_.gpu->cluster[static_cast<size_t>(d)];
    return "(" + cluster_rank() + (below > 1 ? " / " + number(below) : "") + " % " + number(fn_.gpu->cluster[static_cast<size_t>(axis)]) + ")";
}

std::string Emitter::cluster_number() { return clustered() ? "program / " + number(fn_.gpu->cluster_size()) : "program"; }

std::string Emitter::clusters_along(int axis) {
    const std::string programs = parameter(KernelParam::grid, 0, axis, "const unsigned long long", "programs");
    const int extent = fn_.gpu->cluster[static_cast<size_t>(axis)];
    return extent > 1 ? "(" + programs + " / " + number(extent) + ")" : programs;
}

/// Everything that depends on which programs share the ring.
void Emitter::share_ring(Ring& r) {
    prelude_.need("cluster");
    prelude_.need("tma");
    const GpuForm& gpu = *fn_.gpu;
    unsigned mask = 1;
    std::string part, own, peer, lane = "(t & 31)";
    int stride = 1, inside = 1;
    for (int d = 0; d < 3; ++d) {
        const int extent = gpu.cluster[static_cast<size_t>(d)];
        if (r.form->multicast >> d & 1) {
            const auto plus = [](std::string& sum, const std::string& term) { sum += (sum.empty() ? "" : " + ") + term; };
            const auto times = [](int factor) { return factor > 1 ? " * " + number(factor) : std::string(); };
            plus(part, cluster_place(d) + times(inside));
            plus(own, cluster_place(d) + times(stride));
            plus(peer, lane + (inside > 1 ? " / " + number(inside) : "") + " % " + number(extent) + times(stride));
            unsigned all = 0;
            for (int i = 0; i < extent; ++i) all |= mask << (i * stride);
            mask = all;
            inside *= extent;
        }
        stride *= extent;
    }
    r.sharers = inside;
    const std::string first = fresh("first_sharer");
    r.part = fresh("part");
    r.mask = fresh("sharers");
    r.peer_empty = fresh("peer_empty");
    line("[[maybe_unused]] const unsigned " + first + " = " + cluster_rank() + " - (" + own + "), " + r.part + " = " + part + ";");
    line("[[maybe_unused]] const unsigned short " + r.mask + " = (unsigned short)(" + number(mask) + "u << " + first + ");");
    line("[[maybe_unused]] const unsigned " + r.peer_empty + " = address_in_cluster(" + r.empty + ", " + first + " + " + peer + ");");
}

/// Emits the part that computes, which says behind the last use of a ring that it is done with the memory of its peers.
void Emitter::block_in_cluster(ir::BlockId id) {
    const std::vector<ir::InstId>& insts = fn_.block(id).insts;
    const auto uses_ring = [&](ir::InstId inst) {
        const Op op = fn_.inst(inst).op;
        return op == Op::channel_get || op == Op::channel_release ||
               std::any_of(rings_.begin(), rings_.end(), [&](const auto& ring) { return touches(inst, ir::ValueId{ring.first}); });
    };
    size_t last = insts.size() - 1;
    while (last > 0 && !uses_ring(insts[last])) --last;
    for (size_t i = 0; i < insts.size(); ++i) {
        instruction(insts[i]);
        if (i == last) line("cluster_arrive();");
    }
}

}  // namespace tegula::cuda
