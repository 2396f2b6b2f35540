// The fixed tree (emit_tree.h).
#include "jit/cpu/emit_tree.h"

namespace tegula::cpu {

using llvm::Value;

uint64_t TreeEmitter::bytes(int64_t count, unsigned lanes, unsigned element_bytes) {
    if (count < 3) return 0;
    return std::bit_ceil(static_cast<uint64_t>(count)) / 2 * std::max(lanes, 1u) * element_bytes + 64;
}

Buffer TreeEmitter::area(size_t part) {
    uint64_t offset = 0;
    for (size_t k = 0; k < part; ++k) offset += (bytes(count_, lanes_, parts[k].pointer ? 8 : parts[k].format->container_bytes()) + 63) / 64 * 64;
    const int64_t rows = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count_)) / 2);
    Buffer to = g_.work(inst_, offset, *parts[part].format, lanes_ ? Shape{rows, lanes_} : Shape{rows});
    to.pointer = parts[part].pointer;
    return to;
}

Point TreeEmitter::at(Value* number) {
    Point p;
    p.lanes = lanes_;
    p.rank = lanes_ ? 2 : 1;
    p.index[0] = g_.uniform(number);
    if (lanes_) p.index[1] = {Index::consecutive, g_.i64(0), lanes_};
    return p;
}

Leaf TreeEmitter::load(Value* number) {
    Leaf out;
    for (size_t k = 0; k < parts.size(); ++k) out.values.push_back(g_.read(area(k), at(number)));
    return out;
}

void TreeEmitter::save(Value* number, const Values& values) {
    for (size_t k = 0; k < parts.size(); ++k) g_.write(area(k), at(number), values[k]);
}

Leaf TreeEmitter::joined(const Leaf& a, const Leaf& b) {
    Leaf out{join(a.values, b.values), a.active};
    if (b.active)
        for (size_t k = 0; k < out.values.size(); ++k) out.values[k] = g_.b().CreateSelect(b.active, out.values[k], a.values[k]);
    return out;
}

/// Joins `present` leaves, `distance` apart from `number` on.
Values TreeEmitter::column(Value* number, int64_t distance, int64_t present, const std::function<Leaf(Value*, int64_t)>& get) {
    // What two leaves give is joined before the next are made: few are in registers at a time.
    const std::function<Leaf(int64_t, int64_t)> from = [&](int64_t first, int64_t step) {
        if (first + step >= present) return get(number, first * distance);
        Leaf one = from(first, 2 * step);
        return joined(one, from(first + step, 2 * step));
    };
    return from(0, 1).values;
}

/// Level by level, each in place: column j ends up in row j.
Values TreeEmitter::by_neighbours() {
    int64_t left = count_, together = first_radix;
    const auto again = [&](Value* first, int64_t offset) { return load(g_.b().CreateAdd(first, g_.i64(offset))); };
    for (bool first_level = true; left > together; first_level = false, together = radix) {
        const std::function<Leaf(Value*, int64_t)> get = first_level ? leaf : again;
        const auto whole = [&](Value* first, int64_t offset) { return Leaf{get(first, offset).values, nullptr}; };
        const bool lacks = first_level && ragged;  // lanes of a leaf, which must be joined to another one
        const int64_t full = (left - 2 * lacks) / together, rest = left - full * together;
        const auto make = [&](Value* j, int64_t present, const std::function<Leaf(Value*, int64_t)>& from) {
            Value* first = g_.b().CreateMul(j, g_.i64(together));
            if (first_level && counts) g_.counts(first, j, together);
            save(j, column(first, 1, present, from));
        };
        const auto whole_column = [&](Value* j) { make(j, together, whole); };
        if (first_level && counts && full > 1)
            g_.loop_inside(0, full, whole_column);
        else
            g_.loop(0, full, 1, whole_column);
        if (rest) make(g_.i64(full), rest, get);
        left = full + (rest > 0);
    }
    const std::function<Leaf(Value*, int64_t)> get = left == count_ ? leaf : again;
    return column(g_.i64(0), 1, left, get);
}

Values TreeEmitter::run() {
    if (any_order) return by_neighbours();
    const auto slots = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count_)));
    int64_t columns = slots / std::min<int64_t>(first_radix, slots);
    const auto whole = [&](Value* first, int64_t offset) {
        Leaf l = leaf(first, offset);
        l.active = nullptr;
        return l;
    };
    if (columns == 1) return column(g_.i64(0), 1, count_, leaf);
    // Columns with one leaf more come first; the last of those ends in the last leaf.
    const int64_t most = (count_ + columns - 1) / columns, longer = count_ - (most - 1) * columns;
    const auto loop = [&](int64_t lo, int64_t hi, const std::function<void(Value*)>& body) {
        if (counts && hi - lo > 1)
            g_.loop_inside(lo, hi, body);
        else
            g_.loop(lo, hi, 1, body);
    };
    loop(0, longer, [&](Value* j) { save(j, column(j, columns, most, leaf)); });
    loop(longer, columns, [&](Value* j) { save(j, column(j, columns, most - 1, whole)); });
    const auto again = [&](Value* first, int64_t offset) { return load(g_.b().CreateAdd(first, g_.i64(offset))); };
    while (columns > radix) {
        const int64_t fewer = columns / radix;
        g_.loop(0, fewer, 1, [&](Value* j) { save(j, column(j, fewer, radix, again)); });
        columns = fewer;
    }
    return column(g_.i64(0), 1, columns, again);
}

Values join_lanes(Codegen& g, Values v, unsigned lanes, int64_t count, const std::function<Values(const Values& a, const Values& b)>& join) {
    llvm::IRBuilder<>& b = g.b();
    if (lanes == 0) return v;
    for (unsigned s = lanes / 2; s > 0; s /= 2) {
        Values low, high;
        std::vector<int> first, second;
        for (unsigned l = 0; l < s; ++l) first.push_back(static_cast<int>(l)), second.push_back(static_cast<int>(l + s));
        for (Value* x : v) {
            low.push_back(s == 1 ? b.CreateExtractElement(x, uint64_t{0}) : b.CreateShuffleVector(x, first));
            high.push_back(s == 1 ? b.CreateExtractElement(x, uint64_t{1}) : b.CreateShuffleVector(x, second));
        }
        Values both = join(low, high);
        if (count < 2 * int64_t{s}) {
            llvm::SmallVector<llvm::Constant*> some;
            for (unsigned l = 0; l < s; ++l) some.push_back(b.getInt1(l + s < count));
            for (size_t k = 0; k < both.size(); ++k) both[k] = b.CreateSelect(s == 1 ? some[0] : llvm::ConstantVector::get(some), both[k], low[k]);
        }
        v = both;
        count = s;
    }
    if (lanes == 1)
        for (Value*& x : v) x = b.CreateExtractElement(x, uint64_t{0});
    return v;
}

Point AxisView::point(Codegen& g, const Point& p, const Index& index, unsigned lanes) const {
    Point out = p;
    out.lanes = lanes;
    if (axis < 0) return g.delinear(index, shape, out);
    out.rank = shape.rank;
    for (int64_t d = shape.rank - 1; d >= 0; --d) {
        const size_t to = static_cast<size_t>(d);
        out.index[to] = d == axis ? index : d > axis ? p.index[to - 1] : p.index[to];
    }
    return out;
}

Point AxisView::run(Codegen& g, const Point& p, Value* from, unsigned lanes) const {
    Point out = point(g, p, {Index::consecutive, from, lanes}, lanes);
    if (n % lanes) {
        Value* left = g.b().CreateTrunc(g.b().CreateSub(g.i64(n), from), g.b().getInt32Ty());
        out.active = g.b().CreateICmpSLT(g.lane_numbers(lanes), g.splat(left, lanes));
    }
    return out;
}

Point AxisView::leaf(Codegen& g, const Point& p, Value* first, int64_t offset, unsigned lanes) const {
    Value* from = g.b().CreateMul(g.b().CreateAdd(first, g.i64(offset)), g.i64(lanes));
    g.counts(from, first, lanes, offset);
    return run(g, p, from, lanes);
}

}  // namespace tegula::cpu
