// Points and what is known at them (codegen.h): arithmetic on coordinates, and evaluation of values with a memo per body.
#include <algorithm>
#include <numeric>

#include "jit/cpu/codegen.h"

namespace tegula::cpu {

using llvm::Value;

namespace {

constexpr int64_t kAny = int64_t{1} << 40;  ///< divides zero

int64_t constant_of(Value* v, bool& known) {
    auto* c = llvm::dyn_cast<llvm::ConstantInt>(v);
    known = c != nullptr;
    return c ? c->getSExtValue() : 0;
}

}  // namespace

Value* Codegen::as_vector(const Index& i, unsigned lanes) {
    if (i.kind == Index::vector || !lanes) return i.value;
    Value* base = splat(b_.CreateTrunc(i.value, b_.getInt32Ty()), lanes);
    return i.kind == Index::uniform ? base : b_.CreateAdd(base, lane_numbers(lanes));
}

Index Codegen::scale_add(const Index& a, int64_t scale, int64_t by, unsigned lanes) {
    if (scale == 1 && by == 0) return a;
    Index out = a;
    out.run = nullptr;
    if (a.kind == Index::vector || (a.kind == Index::consecutive && scale != 1)) {
        Value* v = b_.CreateMul(as_vector(a, lanes), splat(i32(scale), lanes));
        const bool vector = a.kind == Index::vector;
        Value* first = vector ? a.first : a.value;
        const int64_t step = (vector ? a.step : 1) * scale;
        if (first) first = b_.CreateAdd(b_.CreateMul(first, i64(scale)), i64(by));
        if (first && step == 1) return {Index::consecutive, first, 1};  // turned round twice
        Value* sum = b_.CreateAdd(v, splat(i32(by), lanes));
        return {Index::vector, sum, 1, nullptr, 1, first, step, vector ? a.counter : a.value, a.plus * scale + by};
    }
    out.value = b_.CreateAdd(b_.CreateMul(a.value, i64(scale)), i64(by));
    out.multiple = std::gcd(std::min(a.multiple, kAny) * (scale > 0 && scale < (1 << 20) ? scale : 1), by ? by : kAny);
    return out;
}

Index Codegen::add(const Index& a, int64_t by, unsigned lanes) { return scale_add(a, 1, by, lanes); }

/// Sum of two coordinates; a vector where both move from lane to lane.
static Index sum(Codegen& g, const Index& x, const Index& y, unsigned lanes) {
    bool known;
    if (x.kind == Index::uniform && constant_of(x.value, known) == 0 && known) return y;
    if (y.kind == Index::uniform && constant_of(y.value, known) == 0 && known) return x;
    if (x.kind != Index::vector && y.kind != Index::vector && (x.kind == Index::uniform || y.kind == Index::uniform)) {
        Index out{x.kind == Index::consecutive || y.kind == Index::consecutive ? Index::consecutive : Index::uniform,
                  g.b().CreateAdd(x.value, y.value), std::gcd(x.multiple, y.multiple)};
        return out;
    }
    Index out{Index::vector, g.b().CreateAdd(g.as_vector(x, lanes), g.as_vector(y, lanes)), 1};
    const Index &moving = x.kind == Index::uniform ? y : x, &same = x.kind == Index::uniform ? x : y;
    if (moving.kind != Index::vector || same.kind != Index::uniform || !moving.first) return out;
    out.first = g.b().CreateAdd(moving.first, same.value);
    out.step = moving.step;
    const int64_t more = constant_of(same.value, known);
    if (known) out.counter = moving.counter, out.plus = moving.plus + more;
    return out;
}

Index Codegen::linear(const Point& p, const Shape& shape) {
    Index out = uniform(0);
    int64_t stride = 1;
    for (size_t d = shape.rank; d-- > 0; stride *= shape[d])
        if (shape[d] != 1) out = sum(*this, scale_add(p.index[d], stride, 0, p.lanes), out, p.lanes);
    return out;
}

Point Codegen::delinear(const Index& i, const Shape& shape, const Point& like) {
    Point out = like;
    out.rank = shape.rank;
    const auto lanes = static_cast<int64_t>(like.lanes);
    Index rest = i;
    for (size_t d = shape.rank; d-- > 0;) {
        const int64_t extent = shape[d];
        int64_t outer = 1;
        for (size_t o = 0; o < d; ++o) outer *= shape[o];
        if (extent == 1) {
            out.index[d] = uniform(0);
        } else if (outer == 1) {
            out.index[d] = rest;
            rest = uniform(0);
        } else if (rest.kind == Index::uniform || (rest.kind == Index::consecutive && extent % lanes == 0 && rest.multiple % lanes == 0)) {
            // Whole groups of lanes stay within one row.
            const int64_t within = rest.kind == Index::consecutive ? lanes : 1;
            Value* e = i64(extent);
            const bool steady = rest.kind == Index::uniform && rest.run && extent % rest.run_length == 0;
            Value* whole = steady ? quotient(rest, extent) : b_.CreateUDiv(rest.value, e);
            out.index[d] = {rest.kind, b_.CreateURem(rest.value, e), std::max(std::gcd(rest.multiple, extent), within)};
            rest = {Index::uniform, whole, rest.multiple % extent == 0 ? rest.multiple / extent : 1};
        } else {
            Value* v = as_vector(rest, like.lanes);
            Value* e = splat(i32(extent), like.lanes);
            out.index[d] = {Index::vector, b_.CreateURem(v, e), 1};
            rest = {Index::vector, b_.CreateUDiv(v, e), 1};
        }
    }
    return out;
}

/// i.value / by, for `by` a multiple of the run's length: one value for the run.
Value* Codegen::quotient(const Index& i, int64_t by) {
    const std::pair<Value*, int64_t> key{i.run, by};
    for (auto body = bodies_.rbegin(); body != bodies_.rend(); ++body)
        if (const auto known = body->quotients.find(key); known != body->quotients.end()) return known->second;
    return bodies_.back().quotients[key] = b_.CreateUDiv(i.run, i64(by));
}

bool Codegen::evaluates(ir::ValueId v, const std::function<bool(const ir::Inst& inst)>& such) const {
    std::vector<ir::ValueId> tree{v};
    for (size_t k = 0; k < tree.size(); ++k) {
        const ir::Inst* def = fn_.def(tree[k]);
        if (!def || !is_fused(tree[k])) continue;
        if (such(*def)) return true;
        for (ir::ValueId o : fn_.operands(*def))
            if (std::find(tree.begin(), tree.end(), o) == tree.end()) tree.push_back(o);
    }
    return false;
}

Point Codegen::scalar_point(std::initializer_list<Value*> uniform) const {
    Point p;
    for (Value* v : uniform) p.index[p.rank++] = {Index::uniform, v, 1};
    return p;
}

uint32_t Codegen::intern(const Point& p) {
    std::vector<uint64_t> key{p.lanes, p.rank, reinterpret_cast<uintptr_t>(p.active)};
    for (size_t d = 0; d < p.rank; ++d) {
        key.push_back(p.index[d].kind);
        key.push_back(reinterpret_cast<uintptr_t>(p.index[d].value));
    }
    return points_.emplace(std::move(key), static_cast<uint32_t>(points_.size())).first->second;
}

Value* Codegen::lanes(ir::ValueId v, const Point& at) {
    if (is_scalar(v)) return splat(scalar(v), at.lanes);
    const Shape& shape = fn_.type(v).shape;
    TEGULA_CHECK(at.rank == shape.rank, "point of another rank");
    Point p = at;
    bool uniform_all = true;
    for (size_t d = 0; d < shape.rank; ++d) {
        if (shape[d] == 1) p.index[d] = uniform(0);
        uniform_all = uniform_all && p.index[d].kind == Index::uniform;
    }
    const bool one = uniform_all && p.lanes != 0;
    const unsigned lanes = p.lanes;
    if (one) p.lanes = 0, p.active = nullptr;
    const std::pair<uint32_t, uint32_t> key{v.v, intern(p)};
    for (auto body = bodies_.rbegin(); body != bodies_.rend(); ++body) {
        const auto known = body->known.find(key);
        if (known != body->known.end()) return one ? splat(known->second, lanes) : known->second;
    }
    Value* value = is_stored(v) ? at_turned(v, p) : evaluate(v, p);
    if (!value) value = read(buffer(v), p);
    if (plan_.values[v.v].unsettled) value = scalars_.settle(fn_.elem(v), value);
    bodies_.back().known[key] = value;
    return one ? splat(value, lanes) : value;
}

}  // namespace tegula::cpu
