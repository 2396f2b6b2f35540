// Groups of programs (raster.h). Plain order sweeps axis 0 first; when some operand depends on axis 0 only and another on axis 1 only, programs that
// run at the same time share more of both if groups of rows are swept together: fewer bytes come from memory.
#include "lang/raster.h"

#include <algorithm>
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
    for (uint32_t b = 0; b < fn.block_count(); ++b)
        for (InstId id : fn.block(BlockId{b}).insts) {
            const Inst& inst = fn.inst(id);
            product = product || inst.op == Op::dot;
            if (inst.op != Op::load && inst.op != Op::channel_put) continue;
            const unsigned axes = axes_behind(fn, inst);
            first = first || axes == 1;
            second = second || axes == 2;
        }
    return product && first && second;
}

}  // namespace

int program_groups(const Function& form, std::string* why) {
    const auto plain = [&](const char* reason) {
        if (why) *why = reason;
        return 0;
    };
    if (form.gpu && form.gpu->grid_axes < 2) return plain("the grid has one axis");
    for (uint32_t b = 0; b < form.block_count(); ++b)
        for (InstId id : form.block(BlockId{b}).insts)
            if (const Op op = form.inst(id).op; op == Op::print || op == Op::assert)
                return plain("what it prints or asserts names programs by their place in the plain order");
    for (const Hint& h : form.hints)
        if (h.name == "swizzle" && h.args.size() == 1 && h.args[0] >= 1) return static_cast<int>(std::min(h.args[0], kMaxGroup));
    return shares_operands(form) ? kGroup : 0;
}

}  // namespace tegula
