// Groups of programs (raster.h). Plain order sweeps axis 0 first; when some operand depends on axis 0 only and another on axis 1 only, programs that
// run at the same time share more of both if groups of rows are swept together: fewer bytes come from memory.
#include "lang/gpu/raster.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace tegula {

using namespace ir;

namespace {

constexpr int kGroup = 16;  ///< best of the measured sizes on an H200 at 8192 x 8192
constexpr int64_t kMaxGroup = 1 << 20;
constexpr size_t kMaxWalk = 200;

/// Bit d: an index of the access depends on the program's number along axis d. 8: on something else that is not the same for all programs.
unsigned axes_behind(const Function& fn, const Inst& access) {
    std::vector<ValueId> work(fn.operands(access).begin() + 1, fn.operands(access).end());
    unsigned out = 0;
    for (size_t n = 0; n < work.size(); ++n) {
        if (n == kMaxWalk) return 8;
        const Inst* def = fn.def(work[n]);
        if (!def || fn.type(work[n]).kind != Type::tile || fn.type(work[n]).shape.rank > 0) continue;
        if (def->op == Op::program_id)
            out |= 1u << fn.attrs(*def)[0];
        else if (!has_trait(def->op, PURE) || has_trait(def->op, REGIONS))
            out |= 8;
        else
            for (ValueId v : fn.operands(*def)) work.push_back(v);
    }
    return out;
}

bool shares_operands(const Function& fn) {
    bool product = false, first = false, second = false;
    fn.walk([&](InstId id) {
        const Inst& inst = fn.inst(id);
        product = product || is_product(inst.op);
        if (inst.op != Op::load && inst.op != Op::channel_put) return;
        const unsigned axes = axes_behind(fn, inst);
        first = first || axes == 1;
        second = second || axes == 2;
    });
    return product && first && second;
}

}  // namespace

bool reports_programs(const Function& fn) {
    bool found = false;
    fn.walk([&](InstId id) { found = found || fn.inst(id).op == Op::print || fn.inst(id).op == Op::assert; });
    return found;
}

std::array<int, 3> wanted_cluster(const Function& fn, std::string* why) {
    std::array<int64_t, 3> wanted = {1, 1, 1};
    if (const Hint* h = find_hint(fn.hints, "cluster")) std::copy_n(h->args.begin(), std::min(h->args.size(), wanted.size()), wanted.begin());
    std::array<int, 3> cluster = {1, 1, 1};
    int programs = 1;
    for (size_t d = 0; d < wanted.size(); ++d) {
        const bool fits = wanted[d] >= 1 && wanted[d] <= kMaxCluster / programs && std::has_single_bit(static_cast<uint64_t>(wanted[d]));
        if (!fits) {
            if (why) *why = "a cluster has 1, 2, 4 or 8 programs along an axis, and at most " + std::to_string(kMaxCluster) + " in all";
            return {1, 1, 1};
        }
        cluster[d] = static_cast<int>(wanted[d]);
        programs *= cluster[d];
    }
    return cluster;
}

bool has_whole_clusters(const std::array<int, 3>& cluster, std::span<const uint64_t, 3> grid) {
    for (size_t d = 0; d < cluster.size(); ++d)
        if (grid[d] % static_cast<uint64_t>(cluster[d]) != 0) return false;
    return true;
}

int program_groups(const Function& form, std::string* why) {
    const auto plain = [&](const char* reason) {
        if (why) *why = reason;
        return 0;
    };
    if (form.gpu && form.gpu->grid_axes < 2) return plain("the grid has one axis");
    if (reports_programs(form)) return plain("what it prints or asserts names programs by their place in the plain order");
    if (const auto group = hint_argument(form.hints, "swizzle"); group && *group >= 1) return static_cast<int>(std::min(*group, kMaxGroup));
    return shares_operands(form) ? kGroup : 0;
}

}  // namespace tegula
