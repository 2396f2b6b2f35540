// The order in which a launch walks a grid of products. Plain order sweeps axis 0 first; when some operand depends on axis 0 only and another on
// axis 1 only, programs that run at the same time share more of both if groups of rows are swept together: fewer bytes come from memory. Any order
// of programs is right: none may wait for another.
#include <algorithm>

#include "jit/cuda/emitter.h"

namespace tegula::cuda {

using ir::Op;

namespace {

constexpr int kGroup = 16;  ///< programs of axis 0 in a group; best of the measured sizes on an H200 at 8192 x 8192
constexpr int kMaxWalk = 200;

/// Bit d: an index of the access depends on the program's number along axis d. 8: on something else that is not the same for all programs.
unsigned axes_behind(const ir::Function& fn, const ir::Inst& access) {
    std::vector<ir::ValueId> work(fn.operands(access).begin() + 1, fn.operands(access).end());
    unsigned out = 0;
    for (size_t n = 0; n < work.size(); ++n) {
        if (n == kMaxWalk) return 8;
        const ir::Inst* def = fn.def(work[n]);
        if (!def || fn.type(work[n]).kind != Type::tile || fn.type(work[n]).shape.rank > 0) continue;
        if (def->op == Op::program_id)
            out |= 1u << fn.attrs(*def)[0];
        else if (!ir::has_trait(def->op, ir::PURE) || ir::has_trait(def->op, ir::REGIONS))
            out |= 8;
        else
            for (ir::ValueId v : fn.operands(*def)) work.push_back(v);
    }
    return out;
}

}  // namespace

bool Emitter::walks_in_groups() const {
    bool product = false, first = false, second = false;
    for (uint32_t b = 0; b < fn_.block_count(); ++b)
        for (ir::InstId id : fn_.block(ir::BlockId{b}).insts) {
            const ir::Inst& inst = fn_.inst(id);
            if (inst.op == Op::print || inst.op == Op::assert) return false;  // records name the program by its place in the plain order
            product = product || inst.op == Op::dot;
            if (inst.op != Op::load && inst.op != Op::channel_put) continue;
            const unsigned axes = axes_behind(fn_, inst);
            first = first || axes == 1;
            second = second || axes == 2;
        }
    return product && first && second;
}

std::string Emitter::grouped_program() {
    const auto extent_of = [&](int d) { return parameter(KernelParam::grid, 0, d, "const unsigned long long", "programs"); };
    const std::string rows = extent_of(0), columns = extent_of(1);
    const auto [it, added] = param_names_.emplace("program in groups", "");
    if (!added) return it->second;
    const std::string group = std::to_string(kGroup);
    const std::string order = support(
        "program in groups", "in_groups",
        "// Program of the plain order (axis 0 fastest) that comes at place `at` when groups of " + group +
            " rows are swept along axis 1. Huge grids stay as\n"
            "// they are: 64-bit divisions are long sequences.\n"
            "__device__ __forceinline__ unsigned long long $(unsigned long long at, unsigned long long all_rows, unsigned long long all_columns) {\n"
            "    if ((at | all_rows | all_columns) >> 32 || (all_rows * all_columns) >> 28) return at;\n"
            "    const unsigned rows = all_rows, columns = all_columns, plane = rows * columns, z = (unsigned)at / plane, rest = (unsigned)at - z * "
            "plane;\n"
            "    const unsigned first = rest / (" +
            group + " * columns) * " + group + ", height = rows - first < " + group + " ? rows - first : " + group +
            ";\n"
            "    const unsigned in = rest - first * columns;\n"
            "    return z * plane + in / height * rows + first + in % height;\n}\n");
    it->second = fresh("place");
    prologue_ += "    const unsigned long long " + it->second + " = " + order + "(program, " + rows + ", " + columns + ");\n";
    return it->second;
}

}  // namespace tegula::cuda
