// Layout expressions taken apart: the index of an access is a start (uniform), a thread part and a register part whose bits do not meet, and division
// and remainder by powers of two, shifts, sums and XOR go through to the pieces. Then all but the register part is computed once per access, and the
// register part is a constant after unrolling. Expressions that do not come apart are evaluated per element.
#include <bit>

#include "jit/cuda/emit_access.h"
#include "lang/divisor.h"

namespace tegula::cuda {

using ir::Access;

namespace {

constexpr uint64_t kAll = ~uint64_t{0};

/// The sum of three texts (i64), "" for nothing. Bits outside a mask are zero; a mask of all ones: nothing is known.
struct Pieces {
    std::string text[3];
    uint64_t mask[3] = {0, 0, 0};
    bool only_uniform() const { return text[1].empty() && text[2].empty(); }
    bool disjoint() const { return (mask[0] & mask[1]) == 0 && (mask[0] & mask[2]) == 0 && (mask[1] & mask[2]) == 0; }
};

class Taker {
public:
    std::vector<Pieces> indices;
    std::function<std::string(const LayoutExpr&)> uniform;  ///< text of an expression of uniform indices and extents

    std::optional<Pieces> take(const LayoutExpr& e) const {
        if (e.op == LayoutExpr::index) return indices[static_cast<size_t>(e.value)];
        if (e.op == LayoutExpr::constant) return Pieces{{e.value ? int64_text(e.value) : "", "", ""}, {static_cast<uint64_t>(e.value), 0, 0}};
        if (e.op == LayoutExpr::extent) return Pieces{{uniform(e), "", ""}, {kAll, 0, 0}};
        if (!e.a || !e.b) return std::nullopt;
        const auto a = take(*e.a), b = take(*e.b);
        if (!a || !b) return std::nullopt;
        if (a->only_uniform() && b->only_uniform()) return Pieces{{uniform(e), "", ""}, {kAll, 0, 0}};
        const bool constant = e.b->op == LayoutExpr::constant;
        switch (e.op) {
            case LayoutExpr::add:
            case LayoutExpr::sub:
                return sum(*a, *b, e.op == LayoutExpr::add);
            case LayoutExpr::bit_xor:
                return exclusive(*a, *b);
            case LayoutExpr::mul:
                return constant ? std::optional(product(*a, e.b->value)) : std::nullopt;
            case LayoutExpr::div:
            case LayoutExpr::rem:
                if (!constant || e.b->value <= 0 || !std::has_single_bit(static_cast<uint64_t>(e.b->value)) || !a->disjoint()) return std::nullopt;
                return e.op == LayoutExpr::div ? quotient(*a, std::countr_zero(static_cast<uint64_t>(e.b->value))) : low(*a, e.b->value - 1);
            case LayoutExpr::bit_and:
                return constant && a->disjoint() ? std::optional(low(*a, e.b->value)) : std::nullopt;
            default:
                return std::nullopt;
        }
    }

private:
    static Pieces quotient(Pieces p, int by) {
        for (int k = 0; k < 3; ++k) {
            p.mask[k] = static_cast<uint64_t>(static_cast<int64_t>(p.mask[k]) >> by);
            p.text[k] = p.text[k].empty() || p.mask[k] == 0 ? "" : "(" + p.text[k] + " >> " + std::to_string(by) + ")";
        }
        return p;
    }
    static Pieces low(Pieces p, int64_t keep) {
        for (int k = 0; k < 3; ++k) {
            p.mask[k] &= static_cast<uint64_t>(keep);
            p.text[k] = p.text[k].empty() || p.mask[k] == 0 ? "" : "(" + p.text[k] + " & " + int64_text(keep) + ")";
        }
        return p;
    }
    static Pieces product(Pieces p, int64_t by) {
        const bool shift = by > 0 && std::has_single_bit(static_cast<uint64_t>(by));
        for (int k = 0; k < 3; ++k) {
            if (p.text[k].empty()) continue;
            p.text[k] = "(" + p.text[k] + " * " + int64_text(by) + ")";
            p.mask[k] = shift ? p.mask[k] << std::countr_zero(static_cast<uint64_t>(by)) : kAll;
        }
        return p;
    }
    static Pieces sum(const Pieces& a, const Pieces& b, bool plus) {
        Pieces out;
        for (int k = 0; k < 3; ++k) {
            out.mask[k] = b.text[k].empty() ? a.mask[k] : plus && (a.mask[k] & b.mask[k]) == 0 ? a.mask[k] | b.mask[k] : kAll;
            out.text[k] = a.text[k];
            if (b.text[k].empty()) continue;
            out.text[k] =
                a.text[k].empty() && plus ? b.text[k] : "(" + (a.text[k].empty() ? "0ll" : a.text[k]) + (plus ? " + " : " - ") + b.text[k] + ")";
        }
        return out;
    }
    static std::optional<Pieces> exclusive(const Pieces& a, const Pieces& b) {
        if (!a.disjoint() || !b.disjoint()) return std::nullopt;
        Pieces out;
        for (int k = 0; k < 3; ++k) {
            for (int m = 0; m < 3; ++m)
                if (m != k && (a.mask[k] & b.mask[m])) return std::nullopt;
            out.mask[k] = a.mask[k] | b.mask[k];
            out.text[k] = a.text[k].empty() ? b.text[k] : b.text[k].empty() ? a.text[k] : "(" + a.text[k] + " ^ " + b.text[k] + ")";
        }
        return out;
    }
};

/// Coordinate bits that registers or threads of a layout set along d.
uint64_t coordinate_bits(const TileLayout& l, int d, bool threads) {
    unsigned shift = 0;
    for (int k = d + 1; k < l.shape.rank; ++k) shift += l.bits[static_cast<size_t>(k)];
    const auto dim = static_cast<size_t>(d);
    uint64_t out = 0;
    const auto add = [&](uint64_t v) { out |= v >> shift & ((uint64_t{1} << l.bits[dim]) - 1); };
    if (threads) {
        for (uint64_t v : l.lane) add(v);
        for (uint64_t v : l.warp) add(v);
        return out;
    }
    for (uint64_t v : l.reg) add(v);
    return out | (std::bit_ceil(uint64_t{l.odd[dim]}) - 1) << l.bits[dim];
}

}  // namespace

bool Emitter::part_pieces(Part& part) {
    Taker taker;
    std::vector<std::string> starts;
    for (size_t a = 0; a < part.axes.size(); ++a) {
        const Access::Axis& kind = part.access.axes[a];
        const Part::Axis& axis = part.axes[a];
        if (kind.kind == Access::gather || (kind.kind == Access::range && kind.step != 1)) return false;
        Pieces p;
        starts.push_back(axis.start.text);
        if (axis.index.valid()) {
            p.text[0] = axis.start.text;
            p.mask[0] = ~static_cast<uint64_t>(power_of_two_divisor(fn_, axis.index) - 1);
        }
        if (kind.kind != Access::index) {
            const TileLayout& l = layout(part.value);
            if (!additive(l, axis.dim)) return false;
            const std::string name = "(long long)" + layout_name(l) + "::", d = std::to_string(axis.dim);
            p.mask[1] = coordinate_bits(l, axis.dim, true);
            p.mask[2] = coordinate_bits(l, axis.dim, false);
            if (p.mask[1]) p.text[1] = name + "thread" + d + "(t)";
            if (p.mask[2]) p.text[2] = name + "register" + d + "(R)";
        }
        taker.indices.push_back(std::move(p));
    }
    taker.uniform = [&](const LayoutExpr& e) { return layout_text(e, part.tensor, starts); };
    std::string sum;
    std::vector<std::pair<std::string, std::string>> terms;
    const std::vector<LayoutExpr> members = fn_.types().layout(fn_.type(part.tensor).layout).physical(fn_.type(part.tensor).shape.rank);
    for (size_t m = 0; m < members.size(); ++m) {
        const auto pieces = taker.take(members[m]);
        if (!pieces) return false;
        const std::string by = pitch(part.tensor, static_cast<int>(m), m + 1 == members.size()).text;
        for (int k = 0; k < 2; ++k)
            if (!pieces->text[k].empty()) sum += (sum.empty() ? "" : " + ") + ("(unsigned long long)" + pieces->text[k]) + " * " + by;
        if (!pieces->text[2].empty()) terms.emplace_back(pieces->text[2], by);
    }
    part.base = fresh("base");
    line("const unsigned long long " + part.base + " = " + (sum.empty() ? "0" : sum) + ";");
    part.terms = std::move(terms);
    part.in_pieces = true;
    return true;
}

}  // namespace tegula::cuda
