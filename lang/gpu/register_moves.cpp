// Renamed registers (register_moves.h): every result register must be one register of one operand in all threads. Layouts are linear over
// bits, so the maps of lanes and warps are compared bit by bit; slices and joins shift coordinates and are compared point by point.
#include "lang/gpu/conversion.h"
#include "lang/gpu/register_moves.h"

#include <algorithm>
#include <functional>

namespace tegula {

namespace {

using ir::Op;
using Point = TileLayout::Point;

const TileLayout* tile_registers(const ir::Function& fn, ir::ValueId v) {
    const Placement& p = fn.placement(v);
    return p.kind == Placement::registers && fn.type(v).shape.rank > 0 ? &p.regs : nullptr;
}

/// Sources when `map` takes result points to operand points coordinate by coordinate (a coordinate is kept or dropped).
std::optional<std::vector<RegisterSource>> projected_sources(const TileLayout& from, const TileLayout& to,
                                                             const std::function<Point(const Point&)>& map) {
    if (from.warp.size() != to.warp.size()) return std::nullopt;
    for (int b = 0; b < 5; ++b)
        if (from.point(0, 1 << b, 0) != map(to.point(0, 1 << b, 0))) return std::nullopt;
    for (int b = 0; b < static_cast<int>(to.warp.size()); ++b)
        if (from.point(0, 0, 1 << b) != map(to.point(0, 0, 1 << b))) return std::nullopt;
    std::vector<RegisterSource> out;
    for (int r = 0; r < to.registers(); ++r) {
        const int source = from.find_register(map(to.point(r, 0, 0)), 0, 0);
        if (source < 0) return std::nullopt;
        out.push_back({0, source});
    }
    return out;
}

std::optional<std::vector<RegisterSource>> reshape_sources(const TileLayout& from, const TileLayout& to) {
    const std::optional<TileLayout> carried = reshape_layout(from, to.shape);
    if (!carried || carried->warp.size() != to.warp.size()) return std::nullopt;
    const Conversion c = plan_conversion(*carried, to);
    if (c.kind != Conversion::none && c.kind != Conversion::registers) return std::nullopt;
    std::vector<RegisterSource> out;
    for (int r = 0; r < to.registers(); ++r) out.push_back({0, c.kind == Conversion::none ? r : c.rename[static_cast<size_t>(r)]});
    return out;
}

struct ElementSource {
    size_t operand = 0;
    Point point{};
};

/// Any map of elements, compared in every thread; ghosts of the result may be anything.
std::optional<std::vector<RegisterSource>> compared_sources(std::span<const TileLayout* const> from, const TileLayout& to,
                                                            const std::function<ElementSource(const Point&)>& map) {
    constexpr int kMaxRegisters = 256;
    if (to.registers() > kMaxRegisters) return std::nullopt;
    std::vector<RegisterSource> out;
    for (int r = 0; r < to.registers(); ++r) {
        RegisterSource source{0, -1};
        for (int w = 0; w < to.warps(); ++w)
            for (int l = 0; l < 32; ++l) {
                const Point p = to.point(r, l, w);
                if (!to.inside(p)) continue;
                const ElementSource e = map(p);
                if (source.reg < 0) source = {static_cast<int>(e.operand), from[e.operand]->find_register(e.point, l, w)};
                if (source.reg < 0 || source.operand != static_cast<int>(e.operand)) return std::nullopt;
                if (from[e.operand]->point(source.reg, l, w) != e.point) return std::nullopt;
            }
        out.push_back({source.operand, std::max(source.reg, 0)});
    }
    return out;
}

std::optional<std::vector<RegisterSource>> slice_sources(const TileLayout& from, const TileLayout& to, std::span<const int64_t> start_step) {
    const TileLayout* all[] = {&from};
    return compared_sources(all, to, [&](const Point& p) {
        ElementSource e;
        for (size_t d = 0; d < to.shape.rank; ++d) e.point[d] = start_step[2 * d] + p[d] * start_step[2 * d + 1];
        return e;
    });
}

std::optional<std::vector<RegisterSource>> cat_sources(std::span<const TileLayout* const> from, const TileLayout& to, size_t axis) {
    return compared_sources(from, to, [&](const Point& p) {
        ElementSource e{0, p};
        while (e.point[axis] >= from[e.operand]->shape[axis]) e.point[axis] -= from[e.operand++]->shape[axis];
        return e;
    });
}

}  // namespace

std::optional<std::vector<RegisterSource>> register_sources(const ir::Function& fn, ir::InstId id) {
    const ir::Inst& inst = fn.inst(id);
    const TileLayout* to = tile_registers(fn, fn.result(inst));
    std::vector<const TileLayout*> from;
    for (ir::ValueId v : fn.operands(inst)) {
        from.push_back(tile_registers(fn, v));
        if (!from.back()) return std::nullopt;
        if (to && from.back()->warp.size() != to->warp.size()) return std::nullopt;
    }
    if (!to || from.empty()) return std::nullopt;
    const auto attrs = fn.attrs(inst);
    switch (inst.op) {
        case Op::broadcast: {
            const Shape& shape = from[0]->shape;
            const size_t skip = to->shape.rank - shape.rank;
            return projected_sources(*from[0], *to, [&](const Point& p) {
                Point q{};
                for (size_t d = 0; d < shape.rank; ++d) q[d] = shape[d] == 1 && to->shape[d + skip] != 1 ? 0 : p[d + skip];
                return q;
            });
        }
        case Op::permute:
            return projected_sources(*from[0], *to, [&](const Point& p) {
                Point q{};
                for (size_t d = 0; d < attrs.size(); ++d) q[static_cast<size_t>(attrs[d])] = p[d];
                return q;
            });
        case Op::reshape:
            return reshape_sources(*from[0], *to);
        case Op::slice:
            return slice_sources(*from[0], *to, attrs);
        case Op::cat:
            return cat_sources(from, *to, static_cast<size_t>(attrs[0]));
        default:
            return std::nullopt;
    }
}

std::optional<AxisRegisters> axis_registers(const TileLayout& l, int axis) {
    constexpr int kMaxRegisters = 256;
    if (l.registers() > kMaxRegisters) return std::nullopt;
    const auto along = [&](const Point& p) {
        int64_t n = 0;
        for (size_t d = 0; d < l.shape.rank; ++d) n = axis < 0 ? n * l.shape[d] + p[d] : static_cast<int>(d) == axis ? p[d] : n;
        return n;
    };
    for (int b = 0; b < 5; ++b)
        if (along(l.point(0, 1 << b, 0)) != 0) return std::nullopt;
    for (int b = 0; b < static_cast<int>(l.warp.size()); ++b)
        if (along(l.point(0, 0, 1 << b)) != 0) return std::nullopt;
    AxisRegisters out;
    const int64_t extent = axis < 0 ? l.shape.elements() : l.shape[static_cast<size_t>(axis)];
    for (int r = 0; r < l.registers(); ++r) {
        const Point p = l.point(r, 0, 0);
        if (axis < 0 ? p != Point{} : p[static_cast<size_t>(axis)] != 0) continue;
        out.first.push_back(r);
        std::vector<int>& row = out.along.emplace_back();
        for (int64_t k = 0; k < extent; ++k) {
            Point q = p;
            if (axis >= 0) {
                q[static_cast<size_t>(axis)] = k;
            } else {
                int64_t rest = k;
                for (size_t d = l.shape.rank; d-- > 0; rest /= l.shape[d]) q[d] = rest % l.shape[d];
            }
            row.push_back(l.find_register(q, 0, 0));
            if (row.back() < 0) return std::nullopt;
        }
    }
    return out;
}

}  // namespace tegula
