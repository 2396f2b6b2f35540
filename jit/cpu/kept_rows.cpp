// Follows a tile's rows to all that sees them (kept_rows.h). Operations that keep rows apart hand them on; anything else sees all.
#include "jit/cpu/kept_rows.h"

#include <set>

#include "jit/cpu/plan.h"
#include "lang/access_operands.h"
#include "lang/made_in.h"

namespace tegula::cpu {

using ir::Access;
using ir::Op;

KeptRows::KeptRows(const ir::Function& fn) : fn_(fn), uses_(fn), place_(fn.inst_count()) {
    size_t place = 0;
    fn.walk([&](ir::InstId id) { place_[id.v] = place++; });
}

class KeptRows::Walk {
public:
    explicit Walk(const KeptRows& rows) : rows_(rows), fn_(rows.fn_) {}
    std::vector<RowLimit> limits;
    std::set<uint32_t> loops;  ///< that hand something to their next round

    /// False: somebody sees all rows.
    bool value(ir::ValueId v, size_t dim) {
        if (!seen_.insert({v.v, dim}).second) return true;
        for (const ir::Use& use : rows_.uses_.of(v))
            if (!this->use(use, v, dim)) return false;
        const ir::Value& about = fn_.value(v);  // what a loop carries is its result in the end
        if (about.def.valid()) return true;
        const ir::InstId owner = fn_.block(about.block).owner;
        return !owner.valid() || fn_.inst(owner).op != Op::for_loop || value(fn_.result(fn_.inst(owner), about.index - 1), dim);
    }

private:
    bool use(const ir::Use& use, ir::ValueId v, size_t dim) {
        const ir::Inst& inst = fn_.inst(use.inst);
        const size_t rank = fn_.type(v).shape.rank;
        if (inst.op == Op::yield || inst.op == Op::condition) return handed(inst, use.operand, dim);
        if (inst.op == Op::for_loop) return use.operand >= 3 && value(argument(inst, 0, use.operand - 2), dim);
        if (inst.op == Op::while_loop) return value(argument(inst, 0, use.operand), dim);
        if (inst.op == Op::store) return stored(inst, use.operand, dim);
        const bool product = inst.op == Op::dot || inst.op == Op::dot_scaled;
        if (product && use.operand != 2)  // left and right operands, then their scales
            return (use.operand % 3 == 0 ? dim + 1 < rank : dim + 1 == rank) && value(fn_.result(inst), dim);
        if (inst.op == Op::reshape || inst.op == Op::broadcast) return spread(inst, dim);
        if (inst.op == Op::permute) {
            const auto axes = fn_.attrs(inst);
            for (size_t d = 0; d < axes.size(); ++d)
                if (axes[d] == static_cast<int64_t>(dim)) return value(fn_.result(inst), d);
        }
        if (inst.op == Op::reduce) {
            const int64_t axis = fn_.attrs(inst)[2];
            return axis >= 0 && axis != static_cast<int64_t>(dim) && value(fn_.result(inst), dim - (axis < static_cast<int64_t>(dim)));
        }
        return (ir::is_pointwise(inst.op) || product) && fn_.type(fn_.result(inst)).shape.rank == rank && value(fn_.result(inst), dim);
    }

    ir::ValueId argument(const ir::Inst& owner, size_t block, size_t number) const { return fn_.block(fn_.blocks(owner)[block]).args[number]; }

    /// From inside of a loop or branch to its next round, or out.
    bool handed(const ir::Inst& inst, size_t k, size_t dim) {
        const ir::InstId id = fn_.block(inst.parent).owner;
        if (!id.valid()) return false;
        const ir::Inst& owner = fn_.inst(id);
        if (inst.op == Op::yield && owner.op != Op::if_else) loops.insert(id.v);
        if (inst.op == Op::condition)
            return k > 0 && value(argument(owner, 1, k - 1), dim) && value(fn_.result(owner, static_cast<uint32_t>(k - 1)), dim);
        if (owner.op == Op::for_loop) return value(argument(owner, 0, k + 1), dim);
        if (owner.op == Op::while_loop) return value(argument(owner, 0, k), dim);
        return owner.op == Op::if_else && value(fn_.result(owner, static_cast<uint32_t>(k)), dim);
    }

    bool stored(const ir::Inst& inst, size_t k, size_t dim) {
        const ir::AccessOperands operands(fn_, inst);
        if (k != operands.value.at) return false;  // an index, or the mask
        const ir::AccessPart part(fn_, operands);
        for (size_t axis = 0; axis < operands.access.axes.size(); ++axis) {
            const Access::Axis& a = operands.access.axes[axis];
            if (a.kind == Access::gather) return false;
            if (part.dim[axis] != static_cast<int>(dim)) continue;
            if (a.kind != Access::range || a.step != 1 || a.in_bounds) return false;
            limits.push_back({operands.object, operands.index[axis].value, axis});
            return true;
        }
        return false;
    }

    /// The dimension as it is, among others.
    bool spread(const ir::Inst& inst, size_t dim) {
        const Shape &from = fn_.type(fn_.operands(inst)[0]).shape, &to = fn_.type(fn_.result(inst)).shape;
        if (inst.op == Op::broadcast) {
            const size_t d = dim + to.rank - from.rank;
            return from[dim] == to[d] && value(fn_.result(inst), d);
        }
        for (const ReshapeGroup& g : reshape_groups(to, from)) {
            if (dim < g.from || dim >= g.from_end) continue;
            for (size_t d = g.to; d < g.to_end; ++d)
                if (to[d] == from[dim] && extents(to, g.to, g.to_end) == to[d] && extents(from, g.from, g.from_end) == to[d])
                    return value(fn_.result(inst), d);
        }
        return false;
    }

    static int64_t extents(const Shape& shape, size_t from, size_t end) {
        int64_t product = 1;
        for (size_t d = from; d < end; ++d) product *= shape[d];
        return product;
    }

    const KeptRows& rows_;
    const ir::Function& fn_;
    std::set<std::pair<uint32_t, size_t>> seen_;
};

/// Is the value made in front of the instruction, in its block or one around it?
bool KeptRows::known_at(ir::ValueId v, ir::InstId at) const {
    const ir::Value& about = fn_.value(v);
    const ir::BlockId home = about.def.valid() ? fn_.inst(about.def).parent : about.block;
    for (;;) {
        const ir::BlockId block = fn_.inst(at).parent;
        if (block == home) return !about.def.valid() || place_[about.def.v] < place_[at.v];
        at = fn_.block(block).owner;
        if (!at.valid()) return !about.def.valid() && !fn_.block(home).owner.valid();
    }
}

std::optional<std::vector<RowLimit>> KeptRows::of(ir::InstId at, size_t dim) const {
    Walk walk(*this);
    if (!walk.value(fn_.result(fn_.inst(at)), dim) || walk.limits.empty()) return std::nullopt;
    for (const RowLimit& limit : walk.limits) {
        if (!known_at(limit.start, at)) return std::nullopt;
        for (uint32_t loop : walk.loops)  // whose next round may store at another start
            if (ir::made_in(fn_, limit.start, ir::InstId{loop})) return std::nullopt;
    }
    return std::move(walk.limits);
}

}  // namespace tegula::cpu
