// Access in all its uses (access.h): coordinates and masks, then the instructions.
#include "jit/cpu/access.h"

#include <cstddef>

#include "jit/cpu/lane_steps.h"

namespace tegula::cpu {

using ir::Access;
using ir::Op;
using llvm::Value;

AccessEmitter::AccessEmitter(Codegen& g, ir::InstId id)
    : g_(g),
      b_(g.b()),
      fn_(g.fn()),
      id_(id),
      in_(fn_, fn_.inst(id)),
      part_(fn_, in_),
      format_(fn_.elem(in_.object)),
      pointer_(fn_.type(in_.object).pointer),
      tensor_(fn_.type(in_.object).kind == Type::tensor),
      out_bytes_(has_byte_address(format_.bits)),
      order_(memory_order(fn_, g.options_, in_.object)) {}

void AccessEmitter::both(Value*& all, Value* more) {
    if (more) all = all ? b_.CreateAnd(all, more) : more;
}

Value* AccessEmitter::extent(size_t a) {
    if (tensor_) return g_.extent(in_.object, a);
    return g_.i64(fn_.type(in_.object).shape[a]);
}

std::pair<Value*, Value*> AccessEmitter::limits(size_t a, const Line& along) {
    Value *start = along.start, *all = extent(a), *n = g_.i64(along.n), *zero = g_.i64(0);
    const auto least = [&](Value* x, Value* y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, y); };
    const auto up = [&](Value* v, uint64_t by) { return b_.CreateUDiv(v, b_.getInt64(by)); };
    Value* negative = b_.CreateICmpSLT(start, zero);
    Value* beyond = b_.CreateICmpSGE(start, all);
    const uint64_t by = along.step < 0 ? 0 - static_cast<uint64_t>(along.step) : static_cast<uint64_t>(along.step);
    Value *low, *high;
    if (along.step > 0) {
        Value* before = b_.CreateNeg(start);  // unsigned: right for the smallest number as well
        Value* skip = by == 1 ? before : b_.CreateAdd(up(b_.CreateSub(before, g_.i64(1)), by), g_.i64(1));
        Value* room = b_.CreateSub(all, start);
        Value* count = by == 1 ? room : b_.CreateAdd(up(b_.CreateSub(room, g_.i64(1)), by), g_.i64(1));
        const auto* first = llvm::dyn_cast<llvm::ConstantInt>(start);
        low = first && !first->isNegative() ? zero : b_.CreateSelect(negative, least(skip, n), zero);
        high = b_.CreateSelect(beyond, zero, least(count, n));
    } else {
        Value* over = b_.CreateSub(start, all);
        low = b_.CreateSelect(beyond, least(b_.CreateAdd(up(over, by), g_.i64(1)), n), zero);
        high = b_.CreateSelect(negative, zero, least(b_.CreateAdd(up(start, by), g_.i64(1)), n));
    }
    return {low, high};
}

Value* AccessEmitter::inside_until(size_t k, size_t n, const Point& p, int64_t count) {
    Value *inside = b_.getTrue(), *until = nullptr;
    const auto demand = [&](Value* condition) { inside = b_.CreateAnd(inside, condition); };
    for (size_t a = 0; a < in_.access.axes.size(); ++a) {
        const Access::Axis& axis = in_.access.axes[a];
        if (axis.kind == Access::all || axis.in_bounds) continue;
        if (axis.kind == Access::index) {
            demand(b_.CreateICmpULT(g_.scalar(in_.index[a].value), extent(a)));
            continue;
        }
        const auto [low, high] = limits(a);
        Value* const first = part_.shape[dim_of(a)] == 1 ? g_.i64(0) : p.index[dim_of(a)].value;
        demand(b_.CreateICmpSGE(dim_of(a) == k ? g_.i64(0) : first, low));
        if (dim_of(a) == k)
            until = high;
        else
            demand(b_.CreateICmpSLE(b_.CreateAdd(first, g_.i64(dim_of(a) == n ? count : 1)), high));
    }
    return b_.CreateSelect(inside, until ? until : g_.i64(INT64_MAX), g_.i64(0));
}

bool AccessEmitter::ends_with_tensor(size_t along) const {
    for (size_t a = 0; a < in_.access.axes.size(); ++a)
        if (dim_of(a) == along && in_.access.axes[a].kind == Access::range && !in_.access.axes[a].in_bounds) return true;
    return false;
}

/// Gathered indices that grow by a constant from lane to lane, as those of `base + iota`, are a range; j is the first lane's position on it. In
/// whole vectors it is the whole row's, made in front of them. Nothing: they do not, or are not seen to.
std::optional<AccessEmitter::Line> AccessEmitter::gathered_line(size_t a, const Point& p, Index& j) {
    const int dimension = LaneSteps::dimension(p);
    if (!p.lanes || dimension < 0) return {};
    const auto d = static_cast<size_t>(dimension);
    const bool ahead = g_.in_whole_vectors(p.index[d]) && g_.made_in_front(p);
    Line out{nullptr, 0, ahead ? fn_.type(in_.index[a].value).shape[d] : int64_t{p.lanes}};
    Value* holds = nullptr;
    const auto make = [&] {
        Point row = p;
        if (ahead) row.index[d].value = g_.i64(0);
        LaneSteps steps(g_, out.n, ahead);
        const auto* step = llvm::dyn_cast_or_null<llvm::ConstantInt>(steps.of(in_.index[a].value, row));
        if (!step || step->isZero() || step->getValue().abs().getActiveBits() > 31) return;
        holds = steps.sound();
        out.step = step->getSExtValue();
        if (ahead || holds == b_.getTrue()) out.start = g_.lanes(in_.index[a].value, LaneSteps::first(row));
    };
    ahead ? g_.in_front(make) : make();
    if (!out.start) return {};
    if (ahead && holds != b_.getTrue()) g_.always(nullptr, [&] { return holds; });
    j = ahead ? p.index[d] : Index{Index::consecutive, g_.i64(0), 1};
    return out;
}

Coordinate AccessEmitter::gathered(size_t a, const Point& p, Place& place) {
    const Shape& own = fn_.type(in_.index[a].value).shape;
    Point q = p;
    q.rank = own.rank;
    bool same = true;
    const size_t skip = dim_of(a) + part_.joint.rank - own.rank;
    for (size_t d = 0; d < own.rank; ++d) {
        q.index[d] = own[d] == 1 ? g_.uniform(0) : p.index[d + skip];
        same = same && q.index[d].kind == Index::uniform;
    }
    if (same) q.lanes = 0, q.active = nullptr;
    Index j;
    if (const auto along = gathered_line(a, q, j)) {
        if (!in_.access.axes[a].in_bounds) in_range(a, *along, j, q.lanes, place);
        return {Index::consecutive, b_.CreateAdd(along->start, b_.CreateMul(j.value, g_.i64(along->step))), along->step};
    }
    Value* v = g_.lanes(in_.index[a].value, q);
    if (!in_.access.axes[a].in_bounds) {
        Value* in = b_.CreateICmpULT(v, g_.splat(extent(a), q.lanes));
        both(q.lanes ? place.lane : place.row, in);
    }
    return {q.lanes ? Index::vector : Index::uniform, v, 1};
}

/// A coordinate that all lanes share. Outside the mask is off, yet processors take hundreds of clocks for masked accesses to pages that are not
/// there.
Value* AccessEmitter::inside_or_first(Value* coordinate, Value* inside, Place& place) {
    both(place.row, inside);
    return b_.CreateSelect(inside, coordinate, g_.i64(0));
}

/// Adds to the place what keeps position j of an axis, which differs from lane to lane, inside.
void AccessEmitter::in_range(size_t a, const Line& along, const Index& j, unsigned lanes, Place& place) {
    if (g_.all_inside(j, [&] { return limits(a, along); })) return;
    if (g_.all_outside(j)) {
        place.nowhere = true;
        return;
    }
    const auto [low, high] = limits(a, along);
    Value* base = j.kind == Index::vector ? g_.i64(0) : j.value;
    Value* lane = j.kind == Index::vector ? j.value : g_.lane_numbers(lanes);
    const auto from_base = [&](Value* limit) { return g_.splat(b_.CreateTrunc(b_.CreateSub(limit, base), b_.getInt32Ty()), lanes); };
    const auto* zero = llvm::dyn_cast<llvm::ConstantInt>(low);
    if (!zero || !zero->isZero()) both(place.lane, b_.CreateICmpSGE(lane, from_base(low)));
    both(place.lane, b_.CreateICmpSLT(lane, from_base(high)));
}

Coordinate AccessEmitter::axis(size_t a, const Point& p, Place& place, bool known_in) {
    const Access::Axis& axis = in_.access.axes[a];
    known_in = known_in || g_.is_inside(id_);
    if (axis.kind == Access::gather) return gathered(a, p, place);
    if (axis.kind == Access::index) {
        Value* v = g_.scalar(in_.index[a].value);
        const auto inside = [&] { return b_.CreateICmpULT(v, extent(a)); };
        if (!axis.in_bounds && !known_in && !g_.always(v, inside)) v = inside_or_first(v, inside(), place);
        return {Index::uniform, v, 1};
    }
    const Index j = part_.shape[dim_of(a)] == 1 ? g_.uniform(0) : p.index[dim_of(a)];
    const unsigned n = p.lanes;
    const bool ranged = axis.kind == Access::range;
    Value* start = ranged ? g_.scalar(in_.index[a].value) : g_.i64(0);
    const int64_t step = ranged ? axis.step : 1;
    const bool looked_at = ranged && !axis.in_bounds && !known_in;
    if (looked_at && j.kind == Index::uniform) {
        Value* at = b_.CreateAdd(start, b_.CreateMul(j.value, g_.i64(step)));
        const auto inside = [&] {
            const auto [low, high] = limits(a);
            return b_.CreateAnd(b_.CreateICmpSGE(j.value, low), b_.CreateICmpSLT(j.value, high));
        };
        return {Index::uniform, g_.always(j.value, inside) ? at : inside_or_first(at, inside(), place), step};
    }
    if (looked_at) in_range(a, range_line(a), j, n, place);
    if (j.kind == Index::vector && j.first) return {Index::consecutive, b_.CreateAdd(start, b_.CreateMul(j.first, g_.i64(step))), step * j.step};
    if (j.kind == Index::vector) {
        Value* wide = b_.CreateZExt(j.value, llvm::FixedVectorType::get(b_.getInt64Ty(), n));
        return {Index::vector, b_.CreateAdd(b_.CreateMul(wide, g_.splat(g_.i64(step), n)), g_.splat(start, n)), 1};
    }
    return {j.kind, b_.CreateAdd(start, b_.CreateMul(j.value, g_.i64(step))), step};
}

Place AccessEmitter::place(const Point& p) {
    Place out;
    out.lanes = p.lanes;
    for (size_t a = 0; a < in_.access.axes.size(); ++a) out.at.push_back(axis(a, p, out));
    return out;
}

Value* AccessEmitter::mask(const Place& place, const Point& p) {
    if (place.nowhere) return g_.splat(b_.getFalse(), p.lanes);
    Value* all = nullptr;
    if (place.row) all = g_.splat(place.row, p.lanes);
    both(all, place.lane);
    both(all, p.active);
    if (in_.mask) both(all, g_.lanes(in_.mask.value, p));
    if (!place.inside) return all;
    Value* out = b_.CreateNot(place.inside);
    if (all) out = b_.CreateAnd(out, all);
    g_.when(p.lanes ? b_.CreateOrReduce(out) : out,
            [&] { g_.call_support(offsetof(Support, outside), b_.getVoidTy(), {g_.i32(id_.v), g_.i32(g_.param_of_[in_.object.v])}); });
    both(all, place.inside);
    return all;
}

Point AccessEmitter::object_point(const Place& place, Value* mask, const Point& p) {
    Point q = p;
    q.rank = fn_.type(in_.object).shape.rank;
    q.active = mask;
    llvm::Type* narrow = p.lanes ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(b_.getInt32Ty(), p.lanes)) : nullptr;
    for (size_t a = 0; a < place.at.size(); ++a) {
        const Coordinate& c = place.at[a];
        if (c.kind == Index::uniform) {
            Value* safe = p.lanes ? place.row : mask;
            q.index[a] = g_.uniform(safe ? b_.CreateSelect(safe, c.value, g_.i64(0)) : c.value);
        } else if (c.kind == Index::consecutive && c.step == 1) {
            q.index[a] = {Index::consecutive, c.value, 1};
        } else {
            Value* v = b_.CreateTrunc(wide(c, p.lanes), narrow);
            q.index[a] = {Index::vector, mask ? b_.CreateSelect(mask, v, llvm::Constant::getNullValue(narrow)) : v, 1};
            if (!mask && c.kind == Index::consecutive) q.index[a].first = c.value, q.index[a].step = c.step;
        }
    }
    return q;
}

// ---- instructions ----

Value* Codegen::inside_until(ir::InstId load, size_t k, size_t n, const Point& p, int64_t count) {
    return AccessEmitter(*this, load).inside_until(k, n, p, count);
}

void Codegen::inside(const std::vector<ir::InstId>& loads, const std::function<void()>& body) {
    const std::vector<ir::InstId> outer = std::exchange(inside_, loads);
    body();
    inside_ = outer;
}

void Codegen::ask_for(ir::InstId load, size_t n, const Point& p) { AccessEmitter(*this, load).ask_for(n, p); }

Value* Codegen::at_load(ir::InstId id, const Point& p) {
    if (Value* v = at_turned(fn_.result(id), p)) return v;
    AccessEmitter access(*this, id);
    Place place = access.place(p);
    Value* other = access.operands().other ? lanes(access.operands().other.value, p) : nullptr;
    if (Value* v = access.load_lanes(place, p, other)) return v;
    const Address a = access.address(place);
    Value* mask = access.mask(place, p);
    return access.load(a, mask, other, p.lanes, access.run_mask(place, mask, p));
}

Value* Codegen::at_extract(ir::InstId id, const Point& p) {
    AccessEmitter access(*this, id);
    const Place place = access.place(p);
    Value* mask = access.mask(place, p);
    Value* other = access.operands().other ? lanes(access.operands().other.value, p) : nullptr;
    const ir::ValueId object = fn_.operands(fn_.inst(id))[0];
    const Point q = access.object_point(place, mask, p);
    Value* v = is_stored(object) ? read(buffer(object), q, mask != nullptr) : lanes(object, q);
    if (!mask) return v;
    return b_.CreateSelect(mask, v, other ? other : llvm::Constant::getNullValue(v->getType()));
}

void Codegen::cpu_store(ir::InstId id) {
    AccessEmitter access(*this, id);
    const NestOrder order = plan_nest(fn_, plan_, options_, id, width());
    NestOptions options;
    options.order = &order;
    // Following a pointer may fail, and is to be reported, where nothing is stored, too.
    const bool follows = evaluates(access.operands().value.value, [](const ir::Inst& inst) { return inst.op == Op::ptr_load; });
    options.unreached = !order.dims.empty() && access.ends_with_tensor(order.dims.back()) && !follows ? NestOptions::skipped : NestOptions::apart;
    // Neighbours of other widths share bytes, which are read and written again.
    options.mixed = has_byte_address(access.format().bits);
    if (access.streamed() && order.few < 0) {
        options.head = [&](const Point& first) { return access.before_aligned(first); };
        options.least = access.vectors_of_line();
    }
    const auto store = [&](const Point& p) {
        const std::vector<Point> points = points_of(order, access.part(), p);
        std::vector<Value*> values;
        for (const Point& q : points) values.push_back(lanes(access.operands().value.value, q));
        access.store(points, values);
    };
    nest(access.part(), store, options);
}

void Codegen::cpu_deposit(ir::InstId id) {
    AccessEmitter access(*this, id);
    const ir::ValueId result = fn_.result(id), object = fn_.operands(fn_.inst(id))[0];
    if (is_scalar(result)) {
        // A tile of rank 0 has no axes: the part is the element.
        Value* value = lanes(access.operands().value.value, Point{});
        Value* mask = access.mask(access.place(Point{}), Point{});
        return define(result, mask ? b_.CreateSelect(mask, value, scalar(object)) : value);
    }
    const Buffer to = buffer(result);
    store_value(object, to);
    nest(access.part(), [&](const Point& p) {
        Value* value = lanes(access.operands().value.value, p);
        const Place place = access.place(p);
        Value* mask = access.mask(place, p);
        write(to, access.object_point(place, mask, p), value);
    });
}

void Codegen::cpu_load(ir::InstId id) { emit_root(id); }
void Codegen::cpu_extract(ir::InstId id) { emit_root(id); }

void Codegen::cpu_dim(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    define(fn_.result(inst), extent(fn_.operands(inst)[0], static_cast<size_t>(fn_.attrs(inst)[0])));
}

}  // namespace tegula::cpu
