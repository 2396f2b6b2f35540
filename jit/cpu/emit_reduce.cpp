// reduce and contract: the fixed tree or an ascending chain in the result's format. Along the last dimension lanes are leaves next to each other,
// joined lane by lane first, which is the tree's own order; across other dimensions each lane has a tree of its own. What joins in any order needs no
// tree: one loop over vectors, which is a fraction of its code, and none where rows have few.
#include "jit/cpu/emit_tree.h"
#include "lang/joining.h"

namespace tegula::cpu {

using ir::Op;
using llvm::Value;

namespace {

class Reduction {
public:
    Reduction(Codegen& g, ir::InstId id)
        : g_(g),
          id_(id),
          inst_(g.fn().inst(id)),
          in_(g.fn().operands(inst_)[0]),
          kind_(static_cast<ir::ReduceKind>(g.fn().attrs(inst_)[0])),
          chain_(g.fn().attrs(inst_)[1] == 1),
          view_(g.fn().type(in_).shape, g.fn().attrs(inst_)[2]),
          format_(g.fn().elem(g.fn().result(inst_))) {}

    void run() {
        const ir::ValueId v = g_.fn().result(inst_);
        if (!view_.along_lanes()) {
            // Lines of memory are read as a whole, where several vectors' sums are little code.
            NestOptions options;
            options.vectors = light(in_) && format_.container_bytes() <= 4 ? kMostTreeVectors : 1;
            return g_.each_result(
                v, [&](const Point& p) { return settled(across(p)); }, options);
        }
        if (g_.is_scalar(v)) return g_.define(v, settled(along(Point{})));
        if (!g_.wanted(v)) return;
        const Buffer to = g_.buffer(v);
        g_.nest_elements(to.shape, [&](const Point& p) { g_.write(to, p, settled(along(p))); });
    }

private:
    /// Is an element made by so few instructions that code may contain several of them?
    bool light(ir::ValueId v) const {
        constexpr size_t kFewest = 8;  ///< a product of two operands, each loaded, cast, reshaped
        std::vector<ir::ValueId> all{v};
        for (size_t k = 0; k < all.size() && all.size() <= kFewest; ++k)
            if (const ir::Inst* def = g_.fn().def(all[k]); def && g_.is_fused(all[k]))
                for (ir::ValueId o : g_.fn().operands(*def)) {
                    const Format& f = g_.fn().elem(o);
                    if (f.bits < 16 && !f.is_int() && !f.is_bool()) return false;  // takes code to decode
                    if (g_.is_fused(o) && !g_.fn().operands(*g_.fn().def(o)).empty()) all.push_back(o);
                }
        return all.size() <= kFewest;
    }

    bool is_extremum() const {
        using enum ir::ReduceKind;
        return kind_ == min || kind_ == max || kind_ == minnum || kind_ == maxnum;
    }

    Value* settled(Value* v) { return g_.scalars().settle(format_, v); }
    Value* join(Value* a, Value* b) { return g_.scalars().raw(g_.scalars().join(kind_, format_, a, b)); }
    Values join(const Values& a, const Values& b) { return {join(a[0], b[0])}; }

    Value* element(const Point& p) {
        Value* v = g_.lanes(in_, p);
        const Format& from = g_.fn().elem(in_);
        return g_.fn().type(in_).elem == g_.fn().type(g_.fn().result(inst_)).elem ? v : g_.scalars().cast(v, from, format_);
    }

    TreeEmitter tree(int64_t count, unsigned lanes) {
        TreeEmitter t(g_, id_, count, lanes);
        t.join = [this](const Values& a, const Values& b) { return join(a, b); };
        t.parts = {{&format_, false}};
        t.first_radix = light(in_) ? 8 : 2;
        return t;
    }

    /// One chain over single elements or vectors.
    Value* ascending(const std::function<Value*(Value* k)>& get) {
        return g_.loop(g_.i64(1), g_.i64(view_.n), 1, {get(g_.i64(0))}, [&](Value* k, Values acc) { return Values{join(acc[0], get(k))}; })[0];
    }

    /// One vector takes in all others. A whole tile goes row by row where rows fill vectors, so that no lane divides to find its coordinates.
    Value* gathered(const Point& p) {
        const Shape& shape = view_.shape;
        const size_t last = static_cast<size_t>(shape.rank) - 1;
        const bool by_rows = view_.axis < 0 && shape[last] >= g_.width();
        const AxisView line = by_rows ? AxisView(shape, shape.rank - 1) : view_;
        const unsigned lanes = line.lanes(g_.width());
        const int64_t whole = line.n - line.n % lanes;
        const auto take = [&](const Point& at, Value* from, const Values& acc) {
            Point q = line.run(g_, at, from, lanes);
            const auto* number = llvm::dyn_cast<llvm::ConstantInt>(from);
            if (!number || number->getSExtValue() < whole) q.active = nullptr;
            Value* both = join(acc[0], element(q));
            return Values{q.active ? g_.b().CreateSelect(q.active, both, acc[0]) : both};
        };
        const bool is_short = line.n <= (by_rows || !light(in_) ? 2 : 4) * int64_t{lanes};  // two are as much code as a loop and what it leaves
        const auto row = [&](const Point& at, Values acc) {
            for (int64_t from = 0; is_short && from < line.n; from += lanes) acc = take(at, g_.i64(from), acc);
            if (is_short) return acc;
            for (const auto& [lo, hi] : {std::pair(int64_t{0}, whole), std::pair(whole, line.n)})
                acc = g_.loop(g_.i64(lo), g_.i64(hi), lanes, acc, [&](Value* from, const Values& now) { return take(at, from, now); });
            return acc;
        };
        const std::function<Values(const Point&, Values)> rows = [&](const Point& at, Values acc) {
            const auto d = static_cast<size_t>(at.rank);
            if (!by_rows || d == last) return row(at, std::move(acc));
            return g_.loop(g_.i64(0), g_.i64(shape[d]), 1, std::move(acc), [&](Value* i, Values now) {
                Point inner = at;
                inner.index[d] = g_.uniform(i);
                inner.rank = at.rank + 1;
                return rows(inner, std::move(now));
            });
        };
        const auto identity = [&](unsigned n) { return g_.scalars().constant(format_, *reduce_identity(kind_, format_), n); };
        return join(all_lanes(rows(p, {identity(lanes)})[0]), identity(0));
    }

    /// All lanes of what joins in any order, joined in vector registers; sums are not wrapped.
    Value* all_lanes(Value* v) {
        llvm::IRBuilder<>& b = g_.b();
        using enum ir::ReduceKind;
        switch (kind_) {
            case any:
            case bit_or:
                return b.CreateOrReduce(v);
            case all:
            case bit_and:
                return b.CreateAndReduce(v);
            case bit_xor:
                return b.CreateXorReduce(v);
            default:
                return b.CreateAddReduce(v);
        }
    }

    Value* across(const Point& p) {
        const auto get = [&](Value* k) { return element(view_.point(g_, p, g_.uniform(k), p.lanes)); };
        if (chain_ || joins_in_any_order(g_.fn(), inst_)) return ascending(get);
        TreeEmitter t = tree(view_.n, p.lanes);
        t.leaf = [&](Value* first, int64_t offset) { return Leaf{{get(g_.b().CreateAdd(first, g_.i64(offset)))}, nullptr}; };
        return t.run()[0];
    }

    Value* along(const Point& p) {
        const unsigned lanes = view_.lanes(g_.width());
        if (chain_ || lanes == 1) return ascending([&](Value* k) { return element(view_.point(g_, p, g_.uniform(k), 0)); });
        if (joins_in_any_order(g_.fn(), inst_)) return gathered(p);
        const int64_t count = (view_.n + lanes - 1) / lanes;
        TreeEmitter t = tree(count, lanes);
        t.counts = true;
        t.any_order = is_extremum();
        t.ragged = view_.n % lanes != 0;
        t.leaf = [&](Value* first, int64_t offset) {
            const Point at = view_.leaf(g_, p, first, offset, lanes);
            return Leaf{{element(at)}, at.active};
        };
        return join_lanes(g_, t.run(), lanes, std::min<int64_t>(view_.n, lanes), t.join)[0];
    }

    Codegen& g_;
    ir::InstId id_;
    const ir::Inst& inst_;
    ir::ValueId in_;
    ir::ReduceKind kind_;
    bool chain_;
    AxisView view_;
    const Format& format_;
};

}  // namespace

void Codegen::cpu_reduce(ir::InstId id) { Reduction(*this, id).run(); }

void Codegen::cpu_contract(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId v = fn_.result(inst), a = fn_.operands(inst)[0], b = fn_.operands(inst)[1];
    const Format& f = fn_.elem(v);
    const AxisView view(fn_.type(a).shape, fn_.attrs(inst)[0]);
    const bool fused = f.is_int() || f.is_float();
    const auto chain = [&](const Point& p) -> Value* {
        const auto element = [&](ir::ValueId x, Value* k) {
            return scalars_.cast(lanes(x, view.point(*this, p, uniform(k), p.lanes)), fn_.elem(x), f);
        };
        Value* zero = scalars_.constant(f, encode(f, 0.0), p.lanes);
        Value* sum = loop(i64(0), i64(view.n), 1, {zero}, [&](Value* k, Values acc) {
            Value* x = fn_.elem(a) == f ? lanes(a, view.point(*this, p, uniform(k), p.lanes)) : element(a, k);
            Value* y = fn_.elem(b) == f ? lanes(b, view.point(*this, p, uniform(k), p.lanes)) : element(b, k);
            if (fused) return Values{scalars_.raw_fma(f, x, y, acc[0])};
            Value* factors[] = {x, y};
            Value* terms[] = {acc[0], scalars_.elementwise(Op::mul, f, factors)};
            return Values{scalars_.elementwise(Op::add, f, terms)};
        })[0];
        return scalars_.settle(f, sum);
    };
    each_result(v, chain);
}

}  // namespace tegula::cpu
