// Index expressions as mixed-radix forms: construction, with digits cut where a division or an XOR needs it. See layout_form.h.
#include "lang/layout_form.h"

#include <algorithm>
#include <bit>

namespace tegula {
namespace {

constexpr size_t kMaxDigits = 96, kMaxAtoms = 512;
constexpr int kMaxWork = 100000;

/// Smallest 2^k - 1 that covers v >= 0.
int64_t mask_over(int64_t v) { return v == 0 ? 0 : static_cast<int64_t>((~uint64_t{0}) >> std::countl_zero(static_cast<uint64_t>(v))); }

bool power_of_two(int64_t c) { return c > 0 && std::has_single_bit(static_cast<uint64_t>(c)); }

}  // namespace

MixedRadix::MixedRadix(const std::vector<LayoutExpr>& members, int rank, std::span<const int64_t> extents)
    : rank_(rank), extents_(extents.begin(), extents.end()) {
    for (int i = 0; i < rank; ++i) digits_.push_back({i, 1, extents_.empty() ? kUnbounded : extents_[static_cast<size_t>(i)]});
    for (;;) {
        split_digit_ = -1;
        ok_ = build(members);
        if (ok_ || split_digit_ < 0 || digits_.size() >= kMaxDigits) return;
        Digit& low = digits_[static_cast<size_t>(split_digit_)];
        Digit high{low.index, 0, low.extent == kUnbounded ? kUnbounded : (low.extent - 1) / split_at_ + 1};
        if (__builtin_mul_overflow(low.stride, split_at_, &high.stride)) return;
        low.extent = split_at_;
        digits_.push_back(high);
    }
}

bool MixedRadix::build(const std::vector<LayoutExpr>& members) {
    atoms_.clear();
    forms_.clear();
    for (size_t d = 0; d < digits_.size(); ++d) {
        Atom atom;
        atom.digit = static_cast<int>(d);
        atom.extent = digits_[d].extent;
        atoms_.push_back(std::move(atom));
    }
    for (const LayoutExpr& m : members) {
        auto form = form_of(m);
        if (!form) return false;
        forms_.push_back(std::move(*form));
    }
    return true;
}

bool MixedRadix::request_split(int digit, int64_t at) {
    split_digit_ = digit;
    split_at_ = at;
    return false;
}

std::optional<MixedRadix::Form> MixedRadix::form_of(const LayoutExpr& e) {
    if (++work_ > kMaxWork) return std::nullopt;
    Form f;
    switch (e.op) {
        case LayoutExpr::constant:
            f.constant = e.value;
            return f;
        case LayoutExpr::extent:
            if (extents_.empty()) return std::nullopt;
            f.constant = extents_[static_cast<size_t>(e.value)];
            return f;
        case LayoutExpr::index:
            for (size_t d = 0; d < digits_.size(); ++d) {
                if (digits_[d].index == e.value && digits_[d].extent > 1) f.terms.push_back({static_cast<int>(d), digits_[d].stride});
            }
            return f;
        case LayoutExpr::too_deep:
            return std::nullopt;
        default:
            break;
    }
    auto a = form_of(*e.a);
    if (!a) return std::nullopt;
    auto b = form_of(*e.b);
    if (!b) return std::nullopt;
    const bool constant = b->terms.empty();
    const int64_t c = b->constant;
    switch (e.op) {
        case LayoutExpr::add:
            return add(*a, *b, 1);
        case LayoutExpr::sub:
            return add(*a, *b, -1);
        case LayoutExpr::mul:
            return constant ? scaled(*a, c) : a->terms.empty() ? scaled(*b, a->constant) : std::nullopt;
        case LayoutExpr::div:
            return constant && c > 0 ? divide(*a, c, false) : std::nullopt;
        case LayoutExpr::rem:
            return constant && c > 0 ? divide(*a, c, true) : std::nullopt;
        case LayoutExpr::shl:
            return constant && c >= 0 && c < 62 ? scaled(*a, int64_t{1} << c) : std::nullopt;
        case LayoutExpr::shr:
            return constant && c >= 0 && c < 62 ? divide(*a, int64_t{1} << c, false) : std::nullopt;
        case LayoutExpr::bit_xor:
            return exclusive_or(*a, *b);
        case LayoutExpr::bit_or:
            return inclusive_or(*a, *b);
        case LayoutExpr::min:
        case LayoutExpr::max: {
            const auto ra = bounds(*a), rb = bounds(*b);
            if (!ra || !rb) return std::nullopt;
            const bool smaller = ra->second <= rb->first, larger = ra->first >= rb->second;
            if (!smaller && !larger) return std::nullopt;
            return smaller == (e.op == LayoutExpr::min) ? a : b;
        }
        default:
            return std::nullopt;
    }
}

std::optional<MixedRadix::Form> MixedRadix::add(const Form& a, const Form& b, int64_t scale) const {
    Form r = a;
    int64_t v = 0;
    if (__builtin_mul_overflow(b.constant, scale, &v) || __builtin_add_overflow(r.constant, v, &r.constant)) return std::nullopt;
    for (const auto& [atom, coefficient] : b.terms) {
        if (__builtin_mul_overflow(coefficient, scale, &v)) return std::nullopt;
        auto same = std::find_if(r.terms.begin(), r.terms.end(), [atom = atom](const Term& t) { return t.first == atom; });
        if (same == r.terms.end()) {
            r.terms.push_back({atom, v});
        } else if (__builtin_add_overflow(same->second, v, &same->second)) {
            return std::nullopt;
        }
    }
    std::erase_if(r.terms, [](const Term& t) { return t.second == 0; });
    return r;
}

std::optional<std::pair<int64_t, int64_t>> MixedRadix::bounds(const Form& f) const {
    int64_t lo = f.constant, hi = f.constant;
    for (const auto& [atom, coefficient] : f.terms) {
        const int64_t extent = atoms_[static_cast<size_t>(atom)].extent;
        int64_t span = 0;
        if (extent == kUnbounded || __builtin_mul_overflow(coefficient, extent - 1, &span)) return std::nullopt;
        int64_t& end = span < 0 ? lo : hi;
        if (__builtin_add_overflow(end, span, &end)) return std::nullopt;
    }
    return std::pair{lo, hi};
}

/// f / c or f % c: terms that are multiples of c against the rest, which must stay within [0, c).
std::optional<MixedRadix::Form> MixedRadix::divide(const Form& f, int64_t c, bool remainder) {
    if (++work_ > kMaxWork) return std::nullopt;
    Form high, low;
    low.constant = ((f.constant % c) + c) % c;
    high.constant = (f.constant - low.constant) / c;
    for (const Term& t : f.terms) {
        if (t.second % c == 0) {
            high.terms.push_back({t.first, t.second / c});
        } else {
            low.terms.push_back(t);
        }
    }
    const auto range = bounds(low);
    if (range && range->first >= 0 && range->second < c) return remainder ? low : high;
    for (const Term& t : low.terms) {
        const Atom atom = atoms_[static_cast<size_t>(t.first)];
        const int64_t at = t.second > 0 && c % t.second == 0 ? c / t.second : 0;
        if (at == 0 || atom.extent <= at) continue;
        if (atom.digit >= 0) {
            request_split(atom.digit, at);
            return std::nullopt;
        }
        if (!power_of_two(at)) continue;
        // XOR works bit by bit, so it passes through / and % by a power of two.
        auto a_high = divide(atom.a, at, false), a_low = divide(atom.a, at, true);
        auto b_high = divide(atom.b, at, false), b_low = divide(atom.b, at, true);
        if (!a_high || !a_low || !b_high || !b_low) return std::nullopt;
        auto x_high = exclusive_or(*a_high, *b_high), x_low = exclusive_or(*a_low, *b_low);
        if (!x_high || !x_low) return std::nullopt;
        Form rest = f;
        std::erase_if(rest.terms, [&](const Term& u) { return u.first == t.first; });
        auto with_low = add(rest, *x_low, t.second);
        auto whole = with_low ? add(*with_low, *x_high, c) : std::nullopt;
        return whole ? divide(*whole, c, remainder) : std::nullopt;
    }
    return std::nullopt;
}

/// Whether `low` < 2^k while everything in `high` is a multiple of 2^k, so that +, | and ^ are the same.
bool MixedRadix::disjoint_bits(const Form& low, const Form& high) const {
    const auto range = bounds(low);
    if (!range || range->first < 0 || range->second > INT64_MAX / 2) return false;
    for (const Term& t : high.terms) {
        if (t.second < 0 || (t.second & mask_over(range->second)) != 0) return false;
    }
    return high.constant >= 0 && (high.constant & mask_over(range->second)) == 0;
}

std::optional<MixedRadix::Form> MixedRadix::inclusive_or(const Form& a, const Form& b) const {
    return disjoint_bits(a, b) || disjoint_bits(b, a) ? add(a, b, 1) : std::nullopt;
}

std::optional<MixedRadix::Form> MixedRadix::exclusive_or(const Form& a, const Form& b) {
    if (++work_ > kMaxWork) return std::nullopt;
    if (disjoint_bits(a, b) || disjoint_bits(b, a)) return add(a, b, 1);
    int64_t boundary = 1;
    for (const Form* f : {&a, &b}) {
        for (const Term& t : f->terms) {
            if (power_of_two(t.second)) boundary = std::max(boundary, t.second);
        }
    }
    // Field by field from the top: a swizzle then becomes the XOR of two digits.
    if (boundary > 1) {
        auto a_high = divide(a, boundary, false), b_high = divide(b, boundary, false);
        auto a_low = divide(a, boundary, true), b_low = divide(b, boundary, true);
        if (a_high && a_low && b_high && b_low) {
            auto high = exclusive_or(*a_high, *b_high), low = exclusive_or(*a_low, *b_low);
            return high && low ? add(*low, *high, boundary) : std::nullopt;
        }
        if (split_digit_ >= 0) return std::nullopt;
    }
    Atom atom;
    const auto ra = bounds(a), rb = bounds(b);
    if ((ra && ra->first < 0) || (rb && rb->first < 0) || atoms_.size() >= kMaxAtoms) return std::nullopt;
    for (const Form* f : {&a, &b}) {  // unbounded forms: not negative when nothing in them is
        if (f->constant < 0 || std::any_of(f->terms.begin(), f->terms.end(), [](const Term& t) { return t.second < 0; })) return std::nullopt;
    }
    const int64_t mask = ra && rb ? mask_over(std::max(ra->second, rb->second)) : INT64_MAX;
    atom.extent = mask > INT64_MAX / 2 ? kUnbounded : mask + 1;
    atom.a = a;
    atom.b = b;
    atoms_.push_back(std::move(atom));
    Form f;
    f.terms.push_back({static_cast<int>(atoms_.size()) - 1, 1});
    return f;
}

/// Digits reach every combination when each ends where the next begins; of a digit that is cut short the value 0 still comes with all
/// combinations of the others, which is enough for a form that does not use it.
std::optional<int64_t> MixedRadix::attained_largest(size_t member) const {
    if (extents_.empty()) return std::nullopt;
    const Form& f = forms_[member];
    for (const Term& t : f.terms) {
        const Atom& atom = atoms_[static_cast<size_t>(t.first)];
        if (atom.digit < 0) return std::nullopt;
        const Digit& used = digits_[static_cast<size_t>(atom.digit)];
        for (const Digit& d : digits_) {
            if (d.index != used.index) continue;
            const int64_t end = d.stride * d.extent;  // at most twice the extent, or it was refused when split
            const bool top = std::none_of(digits_.begin(), digits_.end(), [&](const Digit& e) { return e.index == d.index && e.stride > d.stride; });
            const bool whole =
                top ? end == extents_[static_cast<size_t>(d.index)]
                    : std::any_of(digits_.begin(), digits_.end(), [&](const Digit& e) { return e.index == d.index && e.stride == end; });
            if (!whole && std::any_of(f.terms.begin(), f.terms.end(), [&](const Term& u) {
                    const int other = atoms_[static_cast<size_t>(u.first)].digit;
                    return other >= 0 && digits_[static_cast<size_t>(other)].index == d.index &&
                           digits_[static_cast<size_t>(other)].stride == d.stride;
                })) {
                return std::nullopt;
            }
        }
    }
    const auto range = bounds(f);
    return range ? std::optional(range->second) : std::nullopt;
}

bool MixedRadix::non_negative() const {
    return std::all_of(forms_.begin(), forms_.end(), [&](const Form& f) {
        const auto range = bounds(f);
        return range && range->first >= 0;
    });
}

/// The known part of a form as an expression, and what is left of it.
std::pair<LayoutExpr, MixedRadix::Form> MixedRadix::resolve(const Form& f, const Known& known) const {
    std::pair<LayoutExpr, Form> result{LayoutExpr::make_constant(f.constant), {}};
    for (const Term& t : f.terms) {
        if (const auto& k = known[static_cast<size_t>(t.first)]) {
            result.first =
                LayoutExpr::make(LayoutExpr::add, result.first, LayoutExpr::make(LayoutExpr::mul, *k, LayoutExpr::make_constant(t.second)));
        } else {
            result.second.terms.push_back(t);
        }
    }
    return result;
}

/// Reads the unknown atoms of `f` off `value` when their strides nest (each larger than all below it can reach); false when they do not.
bool MixedRadix::peel(Form f, LayoutExpr value, Known& known, std::vector<Equation>& equations) const {
    using E = LayoutExpr;
    LayoutExpr constant = E::make_constant(0);
    std::vector<bool> mirrored;
    std::sort(f.terms.begin(), f.terms.end(), [](const Term& a, const Term& b) { return std::abs(a.second) < std::abs(b.second); });
    int64_t reach = 0, shift = 0;
    for (auto& [atom, coefficient] : f.terms) {
        const int64_t extent = atoms_[static_cast<size_t>(atom)].extent;
        if (coefficient == INT64_MIN || std::abs(coefficient) <= reach) return false;
        mirrored.push_back(coefficient < 0);
        coefficient = std::abs(coefficient);
        const bool last = &atom == &f.terms.back().first;
        int64_t span = 0;
        if (extent == kUnbounded || __builtin_mul_overflow(coefficient, extent - 1, &span) || __builtin_add_overflow(reach, span, &reach)) {
            if (!last || mirrored.back()) return false;
        } else if (mirrored.back() && __builtin_add_overflow(shift, span, &shift)) {
            return false;
        }
    }
    value = E::make(E::add, value, E::make_constant(shift));
    for (size_t k = f.terms.size(); k-- > 0;) {
        const auto [atom, coefficient] = f.terms[k];
        const Atom& a = atoms_[static_cast<size_t>(atom)];
        const LayoutExpr stride = E::make_constant(coefficient);
        LayoutExpr digit = E::make(E::div, value, stride);
        value = E::make(E::rem, value, stride);
        if (mirrored[k]) digit = E::make(E::sub, E::make_constant(a.extent - 1), digit);
        known[static_cast<size_t>(atom)] = digit;
        if (a.digit < 0) {
            Form self;
            self.terms.push_back({atom, 1});
            equations.push_back({self, digit});
        }
    }
    return true;
}

/// Uses one equation; false when it gives nothing yet.
bool MixedRadix::solve_step(const Equation& eq, Known& known, std::vector<Equation>& equations) const {
    using E = LayoutExpr;
    const int first = eq.form.terms.size() == 1 && eq.form.terms[0].second == 1 && eq.form.constant == 0 ? eq.form.terms[0].first : -1;
    if (first < 0 || atoms_[static_cast<size_t>(first)].digit >= 0 || !known[static_cast<size_t>(first)]) {
        const auto [part, rest] = resolve(eq.form, known);
        return rest.terms.empty() || peel(rest, E::make(E::sub, eq.value, part), known, equations);
    }
    const Atom& atom = atoms_[static_cast<size_t>(first)];
    for (const bool swap : {false, true}) {
        const auto [part, rest] = resolve(swap ? atom.a : atom.b, known);
        if (!rest.terms.empty()) continue;
        equations.push_back({swap ? atom.b : atom.a, E::make(E::bit_xor, eq.value, part)});
        return true;
    }
    return false;
}

std::optional<std::vector<LayoutExpr>> MixedRadix::solve() const {
    using E = LayoutExpr;
    if (!ok_) return std::nullopt;
    Known known(atoms_.size());
    std::vector<Equation> equations;
    for (size_t m = 0; m < forms_.size(); ++m) equations.push_back({forms_[m], E::make_index(static_cast<int>(m))});
    for (size_t e = 0; e < equations.size();) {
        const Equation eq = equations[e];
        if (solve_step(eq, known, equations)) {
            equations.erase(equations.begin() + static_cast<std::ptrdiff_t>(e));
            e = 0;
        } else {
            ++e;
        }
    }
    std::vector<LayoutExpr> logical(static_cast<size_t>(rank_), E::make_constant(0));
    for (size_t d = 0; d < digits_.size(); ++d) {
        if (digits_[d].extent <= 1) continue;
        if (!known[d]) return std::nullopt;
        LayoutExpr& index = logical[static_cast<size_t>(digits_[d].index)];
        index = E::make(E::add, index, E::make(E::mul, *known[d], E::make_constant(digits_[d].stride)));
    }
    return logical;
}

}  // namespace tegula
