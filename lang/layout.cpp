// The Layout value: construction, composition, inversion, text and hash. Placement of points is in layout_bound.cpp, proofs of
// injectivity in layout_check.cpp.
#include "lang/layout.h"

#include <algorithm>
#include <numeric>

#include "lang/layout_form.h"

namespace tegula {
namespace {

std::string expr_problem(const LayoutExpr& e, int rank) {
    if (e.op == LayoutExpr::too_deep) {
        return "an index expression is nested deeper than " + std::to_string(kMaxLayoutDepth) + " levels or has more than " +
               std::to_string(kMaxLayoutNodes) + " terms";
    }
    if ((e.op == LayoutExpr::index || e.op == LayoutExpr::extent) && (e.value < 0 || e.value >= rank)) {
        return "an index expression uses dimension " + std::to_string(e.value) + " of a layout of rank " + std::to_string(rank);
    }
    if (!e.a) return {};
    std::string problem = expr_problem(*e.a, rank);
    return problem.empty() ? expr_problem(*e.b, rank) : problem;
}

bool uses_index(const LayoutExpr& e) { return e.op == LayoutExpr::index || (e.a && (uses_index(*e.a) || uses_index(*e.b))); }

bool uses_extents(const LayoutExpr& e) { return e.op == LayoutExpr::extent || (e.a && (uses_extents(*e.a) || uses_extents(*e.b))); }

/// Largest value of an expression plus one, as an expression of the extents: for sums and multiples of distinct indices, divided or
/// reduced by constants last. Nullopt for anything whose physical extent is not that.
std::optional<LayoutExpr> largest(const LayoutExpr& e) {
    using E = LayoutExpr;
    if (e.op == E::constant) return e;
    if (e.op == E::index) return E::make(E::sub, E::make_extent(static_cast<int>(e.value)), E::make_constant(1));
    if (e.op == E::div && e.b->op == E::constant && e.b->value > 0 && e.a->op == E::index) return E::make(E::div, *largest(*e.a), *e.b);
    if (e.op == E::rem && e.b->op == E::constant && e.b->value > 0 && e.a->op == E::index) {
        return E::make(E::min, *largest(*e.a), E::make_constant(e.b->value - 1));
    }
    return std::nullopt;
}

std::vector<LayoutExpr> indices(int rank) {
    std::vector<LayoutExpr> r;
    for (int i = 0; i < rank; ++i) r.push_back(LayoutExpr::make_index(i));
    return r;
}

}  // namespace

Layout Layout::row() { return {}; }

Layout Layout::col() {
    Layout l;
    l.kind_ = Kind::col;
    l.name_ = "col";
    return l;
}

Layout Layout::with_strides(std::vector<int64_t> strides) {
    Layout l;
    l.kind_ = Kind::strides;
    l.name_ = "strides(";
    for (size_t d = 0; d < strides.size(); ++d) l.name_ += (d ? ", " : "") + std::to_string(strides[d]);
    l.name_ += ")";
    l.rank_ = static_cast<int>(strides.size());
    l.strides_ = std::move(strides);
    if (l.rank_ > kMaxLayoutMembers) l.problem_ = "a layout has at most " + std::to_string(kMaxLayoutMembers) + " dimensions";
    return l;
}

Layout Layout::from_exprs(std::string name, int logical_rank, std::vector<LayoutExpr> physical, Pins pins) {
    Layout l;
    l.kind_ = Kind::exprs;
    l.name_ = std::move(name);
    l.rank_ = logical_rank;
    l.exprs_ = std::move(physical);
    if (logical_rank < 0 || logical_rank > kMaxLayoutMembers || l.exprs_.size() > kMaxLayoutMembers) {
        l.problem_ = "a layout has at most " + std::to_string(kMaxLayoutMembers) + " dimensions on either side";
    }
    for (const LayoutExpr& e : l.exprs_) {
        if (l.problem_.empty()) l.problem_ = expr_problem(e, logical_rank);
    }
    if (std::any_of(pins.begin(), pins.end(), [](const auto& pin) { return pin.has_value(); })) l.pins_ = std::move(pins);
    if (!l.pins_.empty() && l.pins_.size() != l.exprs_.size() && l.problem_.empty())
        l.problem_ = "it has " + std::to_string(l.exprs_.size()) + " physical indices and declares " + std::to_string(l.pins_.size()) + " extents";
    for (const auto& pin : l.pins_) {
        if (l.problem_.empty() && pin) l.problem_ = expr_problem(*pin, logical_rank);
        if (l.problem_.empty() && pin && uses_index(*pin)) l.problem_ = "a declared extent uses an index";
    }
    return l;
}

Layout Layout::compose(const Layout& outer, const Layout& inner) {
    const std::string name = outer.name_ + " . " + inner.name_;
    const auto failed = [&](std::string why) {
        Layout l = from_exprs(name, std::max(inner.rank_, 0), {});
        l.problem_ = std::move(why);
        return l;
    };
    if (!outer.problem_.empty()) return failed(outer.problem_);
    if (!inner.problem_.empty()) return failed(inner.problem_);
    if (outer.kind_ == Kind::row) return inner;
    if (inner.kind_ == Kind::row) return outer;
    if (outer.kind_ == Kind::col && inner.kind_ == Kind::col) return row();
    const int rank = inner.rank_ >= 0 ? inner.rank_ : outer.rank_;  // col fits the rank of the other one
    const std::vector<LayoutExpr> members = inner.physical(rank);
    const int middle = static_cast<int>(members.size());
    if (outer.rank_ >= 0 && outer.rank_ != middle) {
        return failed("the outer layout takes " + std::to_string(outer.rank_) + " indices, the inner one gives " + std::to_string(middle));
    }
    const std::vector<LayoutExpr> outer_exprs = outer.physical(middle);
    std::vector<LayoutExpr> extents, result;
    Pins pins = outer.pins_;
    const bool pin_uses = std::any_of(pins.begin(), pins.end(), [](const auto& pin) { return pin && uses_extents(*pin); });
    if (pin_uses || std::any_of(outer_exprs.begin(), outer_exprs.end(), uses_extents)) {
        for (size_t m = 0; m < members.size(); ++m) {
            if (m < inner.pins_.size() && inner.pins_[m]) {
                extents.push_back(*inner.pins_[m]);
                continue;
            }
            const auto top = largest(members[m]);
            if (!top) return failed("the outer layout uses its extents, and the extents of the inner one cannot be written as expressions");
            extents.push_back(LayoutExpr::make(LayoutExpr::add, *top, LayoutExpr::make_constant(1)));
        }
    }
    for (const LayoutExpr& e : outer_exprs) result.push_back(e.substitute(members, extents));
    for (auto& pin : pins)
        if (pin) pin = pin->substitute({}, extents);
    // An outer layout that only permutes hands the declared extents of the inner one on.
    if (pins.empty() && !inner.pins_.empty()) pins.resize(result.size());
    for (size_t m = 0; m < pins.size(); ++m)
        if (const LayoutExpr& e = outer_exprs[m]; !pins[m] && e.op == LayoutExpr::index && static_cast<size_t>(e.value) < inner.pins_.size())
            pins[m] = inner.pins_[static_cast<size_t>(e.value)];
    return from_exprs(name, rank, std::move(result), std::move(pins));
}

Layout Layout::product(const Layout& first, const Layout& second) {
    const std::string name = "product(" + first.name_ + ", " + second.name_ + ")";
    Layout failed = from_exprs(name, 0, {});
    for (const Layout* l : {&first, &second}) {
        failed.problem_ = l->rank_ < 0 && l->problem_.empty()
                              ? "`" + l->name_ + "` fits any rank, so nothing says how many of the indices are its own"
                              : l->problem_;
        if (!failed.problem_.empty()) return failed;
    }
    std::vector<LayoutExpr> members = first.physical(first.rank_), index, extent;
    for (int i = 0; i < second.rank_; ++i) {
        index.push_back(LayoutExpr::make_index(first.rank_ + i));
        extent.push_back(LayoutExpr::make_extent(first.rank_ + i));
    }
    Pins pins;
    if (first.is_pinned() || second.is_pinned()) {
        pins = first.pins_;
        pins.resize(members.size());
        for (const auto& pin : second.pins_) pins.push_back(pin ? std::optional(pin->substitute(index, extent)) : std::nullopt);
    }
    for (const LayoutExpr& e : second.physical(second.rank_)) members.push_back(e.substitute(index, extent));
    if (!pins.empty()) pins.resize(members.size());
    return from_exprs(name, first.rank_ + second.rank_, std::move(members), std::move(pins));
}

std::optional<Layout> Layout::inverse(const Layout& layout, std::string* why) { return inverse(layout, {}, why); }

std::optional<Layout> Layout::inverse(const Layout& layout, std::span<const int64_t> extents, std::string* why) {
    const auto refuse = [&](std::string text) {
        if (why) *why = std::move(text);
        return std::nullopt;
    };
    if (!layout.problem_.empty()) return refuse(layout.problem_);
    if (layout.kind_ == Kind::row || layout.kind_ == Kind::col) return layout;
    const std::vector<LayoutExpr> members = layout.physical(layout.rank_);
    TEGULA_CHECK(extents.empty() || static_cast<int>(extents.size()) == layout.rank_);
    const std::string name = "inverse(" + layout.name_ + ")";
    const MixedRadix form(members, layout.rank_, extents);
    if (auto logical = form.solve()) {
        Layout l = from_exprs(name, static_cast<int>(members.size()), std::move(*logical));
        if (l.problem_.empty()) return l;
        return refuse("the inverse is too large an expression");
    }
    if (extents.empty()) return refuse("it cannot be inverted for every extent; it may be for given ones");
    const auto linear = to_linear(layout, extents);
    const auto back = linear ? linear->inverse() : std::nullopt;
    if (!back) return refuse("its index expressions are neither a split and permutation of the indices nor an invertible map of their bits");
    const auto bits = [](const std::vector<int64_t>& e) {  // address bit -> (member, bit), lowest first; members read from the last
        std::vector<std::pair<int, int>> r;
        for (size_t m = e.size(); m-- > 0;) {
            for (int b = 0; (int64_t{1} << b) < e[m]; ++b) r.push_back({static_cast<int>(m), b});
        }
        return r;
    };
    const auto from = bits(layout.physical_extents(extents)), to = bits({extents.begin(), extents.end()});
    std::vector<LayoutExpr> logical(extents.size(), LayoutExpr::make_constant(0));
    for (size_t in = 0; in < from.size(); ++in) {
        using E = LayoutExpr;
        const E shifted = E::make(E::shr, E::make_index(from[in].first), E::make_constant(from[in].second));
        const E bit = E::make(E::rem, shifted, E::make_constant(2));
        std::vector<int64_t> column(extents.size(), 0);
        for (size_t out = 0; out < to.size(); ++out) {
            if (back->columns[in] >> out & 1) column[static_cast<size_t>(to[out].first)] |= int64_t{1} << to[out].second;
        }
        for (size_t d = 0; d < column.size(); ++d) {
            if (column[d]) logical[d] = E::make(E::bit_xor, logical[d], E::make(E::mul, bit, E::make_constant(column[d])));
        }
    }
    Layout l = from_exprs(name, static_cast<int>(members.size()), std::move(logical));
    if (!l.problem_.empty()) return refuse("the inverse is too large an expression");
    return l;
}

std::string Layout::problem() const { return problem_; }

std::string Layout::text() const {
    if (!problem_.empty()) return "invalid(" + problem_ + ")";
    if (kind_ == Kind::row) return "row";
    if (kind_ == Kind::col) return "col";
    std::string out = kind_ == Kind::strides ? "strides(" : "[" + std::to_string(rank_) + "](";
    const size_t count = kind_ == Kind::strides ? strides_.size() : exprs_.size();
    for (size_t i = 0; i < count; ++i) {
        if (i) out += ", ";
        out += kind_ == Kind::strides ? std::to_string(strides_[i]) : exprs_[i].text();
        if (i < pins_.size() && pins_[i]) out += ": " + pins_[i]->text();
    }
    return out + ")";
}

uint64_t Layout::hash() const {
    uint64_t h = 14695981039346656037u;
    for (const char c : text()) h = (h ^ static_cast<uint8_t>(c)) * 1099511628211u;
    return h;
}

std::vector<LayoutExpr> Layout::physical(int logical_rank) const {
    using E = LayoutExpr;
    TEGULA_CHECK(rank_ < 0 || rank_ == logical_rank);
    TEGULA_CHECK(logical_rank >= 0 && logical_rank <= kMaxLayoutMembers);
    if (kind_ == Kind::exprs) return exprs_;
    std::vector<E> r = indices(logical_rank);
    if (kind_ == Kind::col) std::reverse(r.begin(), r.end());
    if (kind_ != Kind::strides) return r;
    E sum = E::make_constant(0);
    for (size_t i = 0; i < r.size(); ++i) sum = E::make(E::add, sum, E::make(E::mul, r[i], E::make_constant(strides_[i])));
    return {sum};
}

int Layout::innermost_dimension(int logical_rank) const {
    if (logical_rank == 0) return -1;
    if (kind_ == Kind::row) return logical_rank - 1;
    if (kind_ == Kind::col) return 0;
    if (kind_ == Kind::strides) {
        const auto it = std::find(strides_.begin(), strides_.end(), 1);
        return it == strides_.end() ? -1 : static_cast<int>(it - strides_.begin());
    }
    if (exprs_.empty() || exprs_.back().op != LayoutExpr::index) return -1;
    const LayoutExpr& last = exprs_.back();
    const auto uses = [&](auto&& self, const LayoutExpr& e) -> bool {
        return (e.op == LayoutExpr::index && e.value == last.value) || (e.a && (self(self, *e.a) || self(self, *e.b)));
    };
    const bool elsewhere = std::any_of(exprs_.begin(), exprs_.end() - 1, [&](const LayoutExpr& e) { return uses(uses, e); });
    return elsewhere ? -1 : static_cast<int>(last.value);
}

}  // namespace tegula
