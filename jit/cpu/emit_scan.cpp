// scan and scan_region: ascending chains along an axis. Lanes run across the chains where an inner dimension allows it; a chain along the last
// dimension is a loop over single elements.
#include "jit/cpu/emit_tree.h"
#include "lang/joining.h"

namespace tegula::cpu {

using llvm::Value;

namespace {

/// A scan along the last dimension whose joins may be regrouped: within a vector by doubling distances, then with the last value so far.
class RegroupedScan {
public:
    RegroupedScan(Codegen& g, ir::InstId id, const AxisView& view)
        : g_(g),
          b_(g.b()),
          inst_(g.fn().inst(id)),
          in_(g.fn().operands(inst_)[0]),
          result_(g.fn().result(inst_)),
          format_(g.fn().elem(result_)),
          kind_(static_cast<ir::ReduceKind>(g.fn().attrs(inst_)[0])),
          reverse_(g.fn().attrs(inst_)[2] != 0),
          view_(view),
          lanes_(view.lanes(g.width())) {}

    /// One line; `p` is a point of the tile without the axis.
    void line(const Point& p) {
        const int64_t vectors = (view_.n + lanes_ - 1) / lanes_;
        Value* first = within(p, g_.i64(0));
        const auto last = [&](Value* v) { return b_.CreateExtractElement(v, reverse_ ? 0 : lanes_ - 1); };
        write(p, g_.i64(0), first);
        g_.loop(g_.i64(1), g_.i64(vectors), 1, {last(first)}, [&](Value* j, Values so_far) {
            Value* v = join(g_.splat(so_far[0], lanes_), within(p, j));
            write(p, j, v);
            return Values{last(v)};
        });
    }

private:
    Value* join(Value* a, Value* b) { return g_.scalars().join(kind_, format_, a, b); }

    /// Vector number j in scan order starts here.
    Value* start(Value* j) {
        const int64_t vectors = (view_.n + lanes_ - 1) / lanes_;
        return b_.CreateMul(reverse_ ? b_.CreateSub(g_.i64(vectors - 1), j) : j, g_.i64(lanes_));
    }

    Value* within(const Point& p, Value* j) {
        Value* from = start(j);
        const Point at = view_.run(g_, p, from, lanes_);
        Value* v = g_.lanes(in_, at);
        if (g_.fn().type(in_).elem != g_.fn().type(result_).elem) v = g_.scalars().cast(v, g_.fn().elem(in_), format_);
        Value* valid = g_.splat(b_.CreateTrunc(b_.CreateSub(g_.i64(view_.n), from), b_.getInt32Ty()), lanes_);
        for (unsigned d = 1; d < lanes_; d *= 2) {
            std::vector<int> moved;
            for (unsigned l = 0; l < lanes_; ++l) moved.push_back(static_cast<int>(reverse_ ? std::min(l + d, lanes_ - 1) : l < d ? 0 : l - d));
            Value *number = g_.lane_numbers(lanes_), *distance = g_.splat(g_.i32(d), lanes_);
            Value* some = reverse_ ? b_.CreateAnd(b_.CreateICmpSLT(b_.CreateAdd(number, distance), valid),
                                                  b_.CreateICmpSLT(number, g_.splat(g_.i32(lanes_ - d), lanes_)))
                                   : b_.CreateICmpSGE(number, distance);
            v = b_.CreateSelect(some, join(b_.CreateShuffleVector(v, moved), v), v);
        }
        return v;
    }

    void write(const Point& p, Value* j, Value* v) { g_.write(g_.buffer(result_), view_.run(g_, p, start(j), lanes_), v); }

    Codegen& g_;
    llvm::IRBuilder<>& b_;
    const ir::Inst& inst_;
    ir::ValueId in_, result_;
    const Format& format_;
    ir::ReduceKind kind_;
    bool reverse_;
    const AxisView& view_;
    unsigned lanes_;
};

}  // namespace

/// Results first .. first + n - 1 get the running values of n tiles; `step` joins the last ones with the next elements. Chains wait for themselves:
/// where one is a loop of its own, `together` of them share it.
void Codegen::scan_lines(std::span<const ir::ValueId> in, ir::ValueId first, size_t n, int64_t axis, bool reverse, bool pointwise, int64_t together,
                         const std::function<Values(const Values& acc, const Values& x, unsigned lanes)>& step) {
    const AxisView view(fn_.type(in[0]).shape, axis);
    Shape lines;
    for (size_t d = 0; d < view.shape.rank; ++d)
        if (static_cast<int64_t>(d) != axis && axis >= 0) lines.push(view.shape[d]);
    const auto place = [&](const Point& p, Value* k) {
        Value* at = reverse ? b_.CreateSub(i64(view.n - 1), k) : k;
        return view.point(*this, p, uniform(at), p.lanes);
    };
    const auto load = [&](const Point& at) {
        Values out;
        for (size_t k = 0; k < n; ++k) {
            const ir::ValueId result{first.v + static_cast<uint32_t>(k)};
            Value* v = lanes(in[k], at);
            const bool same = fn_.type(result).pointer || fn_.type(result).elem == fn_.type(in[k]).elem;
            out.push_back(same ? v : scalars_.cast(v, fn_.elem(in[k]), fn_.elem(result)));
        }
        return out;
    };
    const auto save = [&](const Point& at, const Values& v) {
        for (size_t k = 0; k < n; ++k) {
            const ir::ValueId result{first.v + static_cast<uint32_t>(k)};
            if (wanted(result)) write(buffer(result), at, v[k]);
        }
    };
    const auto run = [&](std::span<const Point> chains) {
        const auto each = [&](Value* k, const Values& acc) {
            Values all;
            for (size_t c = 0; c < chains.size(); ++c) {
                const Point at = place(chains[c], k);
                Values v = load(at);
                if (!acc.empty()) v = step(Values(acc.begin() + c * n, acc.begin() + (c + 1) * n), v, at.lanes);
                save(at, v);
                all.insert(all.end(), v.begin(), v.end());
            }
            return all;
        };
        loop(i64(1), i64(view.n), 1, each(i64(0), {}), each);
    };
    if (pointwise && !view.along_lanes()) return nest(lines, [&](const Point& p) { run({&p, 1}); });
    if (lines.rank == 0 || lines[lines.rank - 1u] % together != 0) together = 1;
    if (lines.rank > 0) lines[lines.rank - 1u] /= together;
    nest_elements(lines, [&](const Point& p) {
        std::vector<Point> chains(static_cast<size_t>(together), p);
        for (int64_t c = 0; together > 1 && c < together; ++c) {
            Index& last = chains[static_cast<size_t>(c)].index[lines.rank - 1u];
            last = uniform(b_.CreateAdd(b_.CreateMul(last.value, i64(together)), i64(c)));
        }
        run(chains);
    });
}

void Codegen::cpu_scan(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto attrs = fn_.attrs(inst);
    const auto kind = static_cast<ir::ReduceKind>(attrs[0]);
    const ir::ValueId result = fn_.result(inst);
    const AxisView view(fn_.type(result).shape, attrs[1]);
    if (view.along_lanes() && view.n >= 8 && !reduce_is_ordered(kind, fn_.elem(result))) {
        Shape lines;
        for (int64_t d = 0; d < view.shape.rank; ++d)
            if (d != attrs[1] && attrs[1] >= 0) lines.push(view.shape[static_cast<size_t>(d)]);
        RegroupedScan scan(*this, id, view);
        return nest_elements(lines, [&](const Point& p) { scan.line(p); });
    }
    scan_lines(fn_.operands(inst), result, 1, attrs[1], attrs[2] != 0, true, 4,
               [&](const Values& acc, const Values& x, unsigned) { return Values{scalars_.join(kind, fn_.elem(result), acc[0], x[0])}; });
}

}  // namespace tegula::cpu
