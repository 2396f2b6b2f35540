// Gathers by start + step * iota are ranges; extracts at constant places are slices (recognise.h). Index arithmetic is the same modulo 2^64
// either way, and an element outside reads `else` or zero either way.
#include <algorithm>

#include "lang/access_operands.h"
#include "lower/recognise.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kMaxOffsetDepth = 32;
constexpr int64_t kMaxStep = int64_t{1} << 31;

/// sum(coefficient * scalar) + constant, plus step * (position along dimension `dim` of the tile; -1: the same everywhere).
struct AffineTile {
    std::vector<std::pair<ValueId, int64_t>> terms;
    int64_t constant = 0;
    int dim = -1;
    int64_t step = 0;
};
using MaybeAffine = std::optional<AffineTile>;

AffineTile scaled(AffineTile t, int64_t by) {
    for (auto& term : t.terms) term.second *= by;
    t.constant *= by;
    t.step *= by;
    if (t.step == 0) t.dim = -1;
    return t;
}

MaybeAffine sum(MaybeAffine a, const MaybeAffine& b, int64_t sign) {
    if (!a || !b || (a->dim >= 0 && b->dim >= 0 && a->dim != b->dim)) return std::nullopt;
    const AffineTile other = scaled(*b, sign);
    a->terms.insert(a->terms.end(), other.terms.begin(), other.terms.end());
    a->constant += other.constant;
    a->step += other.step;
    a->dim = a->step == 0 ? -1 : std::max(a->dim, other.dim);
    return a;
}

MaybeAffine affine(const Function& fn, ValueId v, int depth, int& work);

/// The operand's form with its dimension renumbered by the shape op.
MaybeAffine through_shape(const Function& fn, const Inst& def, const Shape& to, int depth, int& work) {
    const ValueId operand = fn.operands(def)[0];
    const Shape& from = fn.type(operand).shape;
    MaybeAffine inner = affine(fn, operand, depth + 1, work);
    if (!inner || inner->dim < 0) return inner;
    const auto d = static_cast<size_t>(inner->dim);
    if (def.op == Op::broadcast) {
        inner->dim += to.rank - from.rank;
    } else if (def.op == Op::permute) {
        const auto axes = fn.attrs(def);
        inner->dim = static_cast<int>(std::find(axes.begin(), axes.end(), inner->dim) - axes.begin());
    } else {
        int nonunit = 0, seen = 0;
        for (size_t i = 0; i < d; ++i) nonunit += from[i] != 1;
        const auto units_only = [](const Shape& a, const Shape& b) {
            std::vector<int64_t> x, y;
            std::copy_if(a.begin(), a.end(), std::back_inserter(x), [](int64_t e) { return e != 1; });
            std::copy_if(b.begin(), b.end(), std::back_inserter(y), [](int64_t e) { return e != 1; });
            return x == y;
        };
        if (!units_only(from, to)) return std::nullopt;
        for (size_t i = 0; i < to.rank; ++i)
            if (to[i] != 1 && seen++ == nonunit) inner->dim = static_cast<int>(i);
    }
    return inner;
}

MaybeAffine affine(const Function& fn, ValueId v, int depth, int& work) {
    const Type& t = fn.type(v);
    if (depth > kMaxOffsetDepth || ++work > 256) return std::nullopt;
    AffineTile out;
    if (constant_int(fn, v, out.constant)) return out;
    const Inst* def = fn.def(v);
    const auto leaf = [&]() -> MaybeAffine {
        if (t.shape.rank != 0) return std::nullopt;
        out.terms.push_back({v, 1});
        return out;
    };
    if (!def || t.shape.rank == 0) return leaf();
    const std::span<const ValueId> operands = fn.operands(*def);
    int64_t c = 0;
    switch (def->op) {
        case Op::iota:
            if (t.shape[static_cast<size_t>(fn.attrs(*def)[0])] == 1) return out;
            out.dim = static_cast<int>(fn.attrs(*def)[0]);
            out.step = 1;
            return out;
        case Op::broadcast:
        case Op::reshape:
        case Op::permute:
            return through_shape(fn, *def, t.shape, depth, work);
        case Op::add:
            return sum(affine(fn, operands[0], depth + 1, work), affine(fn, operands[1], depth + 1, work), 1);
        case Op::sub:
            return sum(affine(fn, operands[0], depth + 1, work), affine(fn, operands[1], depth + 1, work), -1);
        case Op::mul: {
            const bool left = constant_int(fn, operands[0], c);
            if (!left && !constant_int(fn, operands[1], c)) return std::nullopt;
            const MaybeAffine inner = affine(fn, operands[left ? 1 : 0], depth + 1, work);
            return inner ? MaybeAffine(scaled(*inner, c)) : std::nullopt;
        }
        default:
            return std::nullopt;
    }
}

ValueId emit_start(Builder& b, const AffineTile& t) {
    ValueId v;
    for (const auto& [value, coefficient] : t.terms) {
        const ValueId term = coefficient == 1 ? value : b.elementwise(Op::mul, {value, b.index(coefficient)});
        v = v.valid() ? b.elementwise(Op::add, {v, term}) : term;
    }
    if (!v.valid()) return b.index(t.constant);
    return t.constant == 0 ? v : b.elementwise(Op::add, {v, b.index(t.constant)});
}

/// One access with its gathers decided: what each axis becomes, and the result dimension each kept axis stands for.
struct SlicePlan {
    Access access;
    std::vector<MaybeAffine> starts;  ///< per gather axis in order; others empty
    std::vector<int> dims;
    Shape part;
};

std::optional<SlicePlan> plan_slices(const Function& fn, const Inst& inst) {
    const AccessOperands operands(fn, inst);
    if (operands.mask || !operands.access.gathers()) return std::nullopt;
    const AccessPart part(fn, operands);
    SlicePlan plan{operands.access, {}, {}, {}};
    for (size_t a = 0; a < plan.access.axes.size(); ++a) {
        Access::Axis& axis = plan.access.axes[a];
        MaybeAffine start;
        if (axis.kind == Access::gather) {
            const ValueId index = operands.index[a].value;
            int work = 0;
            start = affine(fn, index, 0, work);
            if (!start || start->step > kMaxStep || start->step < -kMaxStep) return std::nullopt;
            axis = {Access::index, 1, 1, false};
            if (start->dim >= 0) {
                const int dim = part.dim[a] + start->dim + part.joint.rank - fn.type(index).shape.rank;
                if (std::find(plan.dims.begin(), plan.dims.end(), dim) != plan.dims.end()) return std::nullopt;
                axis = {Access::range, part.shape[static_cast<size_t>(dim)], start->step, false};
                plan.dims.push_back(dim);
            }
        } else if (axis.kind != Access::index) {
            plan.dims.push_back(part.dim[a]);
        }
        if (axis.kind == Access::range || axis.kind == Access::all) plan.part.push(axis.extent);
        plan.starts.push_back(std::move(start));
    }
    return plan;
}

/// extract with constant starts that stays inside: slice, then the indexed dimensions drop.
ValueId make_static_slice(Builder& b, const Inst& inst) {
    Function& fn = b.fn();
    const AccessOperands operands(fn, inst);
    const Access& access = operands.access;
    const ValueId object = operands.object;
    const Shape from = fn.type(object).shape, result = fn.type(fn.result(inst)).shape;
    if (operands.mask || access.gathers()) return {};
    std::vector<int64_t> attrs;
    Shape kept;
    for (size_t d = 0; d < access.axes.size(); ++d) {
        const Access::Axis& axis = access.axes[d];
        int64_t start = 0;
        if (operands.index[d] && !constant_int(fn, operands.index[d].value, start)) return {};
        const int64_t extent = axis.kind == Access::index ? 1 : axis.extent, step = axis.kind == Access::range ? axis.step : 1;
        int64_t last = 0;
        if (__builtin_mul_overflow(extent - 1, step, &last) || __builtin_add_overflow(last, start, &last)) return {};
        if (start < 0 || start >= from[d] || last < 0 || last >= from[d]) return {};
        attrs.insert(attrs.end(), {start, step});
        kept.push(extent);
    }
    Type t = fn.type(object);
    t.shape = kept;
    const TypeId type = fn.types().intern(t);
    const ValueId part = fn.result(b.emit(Op::slice, {&object, 1}, {&type, 1}, attrs));
    return b.reshape(part, result);
}

}  // namespace

ValueId make_slices(Builder& b, const Inst& inst) {
    Function& fn = b.fn();
    const auto plan = plan_slices(fn, inst);
    if (!plan) return inst.op == Op::extract ? make_static_slice(b, inst) : ValueId{};
    const AccessOperands old(fn, inst);
    const Type object = fn.type(old.object);
    Type part{};
    part.kind = Type::tile;
    part.pointer = object.pointer;
    part.elem = object.elem;
    part.shape = plan->part;
    const TypeId type = fn.types().intern(part);
    uint64_t other = 0;
    if (old.other && !splat_code(fn, old.other.value, other)) return {};
    std::vector<ValueId> operands{old.object};
    for (size_t d = 0; d < plan->starts.size(); ++d) {
        if (plan->starts[d])
            operands.push_back(emit_start(b, *plan->starts[d]));
        else if (old.index[d])
            operands.push_back(old.index[d].value);
    }
    if (old.other) operands.push_back(b.constant(type, other));
    std::vector<int64_t> attrs{plan->access.flags};
    const std::vector<int64_t> axes = plan->access.encode_axes();
    attrs.insert(attrs.end(), axes.begin(), axes.end());
    const ValueId loaded = fn.result(b.emit(inst.op, operands, {&type, 1}, attrs));
    return spread(b, loaded, plan->dims, fn.type(fn.result(inst)).shape);
}

}  // namespace tegula
