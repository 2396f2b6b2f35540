// Range proofs (bounds.h). To prove a form non-negative, atoms are replaced one after the other by their worst bound, first quotients and the larger
// or smaller of two values (which are forms over atoms of all kinds), then counters and program ids (forms over outer atoms), until only numbers are
// left.
#include "lower/bounds.h"

#include <algorithm>
#include <bit>

#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kMaxDepth = 64;
constexpr int kMaxSteps = 64;
constexpr int kMaxNested = 16;
constexpr int kMaxWork = 4096;
constexpr int64_t kSafe = int64_t{1} << 61;  ///< forms within +-kSafe do not wrap
constexpr int64_t kMaxExtent = int64_t{1} << 56;
constexpr int64_t kMaxPrograms = (int64_t{1} << 31) - 1;

/// form += scale * other; false on overflow.
bool add_scaled(LinearForm& form, const LinearForm& other, int64_t scale) {
    int64_t v = 0;
    if (__builtin_mul_overflow(other.constant, scale, &v) || __builtin_add_overflow(form.constant, v, &form.constant)) return false;
    for (const auto& [atom, coefficient] : other.terms) {
        if (__builtin_mul_overflow(coefficient, scale, &v)) return false;
        int64_t& mine = form.terms[atom];
        if (__builtin_add_overflow(mine, v, &mine)) return false;
        if (mine == 0) form.terms.erase(atom);
    }
    return true;
}

std::optional<LinearForm> sum(const std::optional<LinearForm>& a, const std::optional<LinearForm>& b, int64_t scale) {
    if (!a || !b) return std::nullopt;
    LinearForm out = *a;
    return add_scaled(out, *b, scale) ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace

Bounds::Bounds(const Function& fn, const PassOptions& options) : fn_(fn), options_(options), next_lane_(static_cast<uint32_t>(fn.value_count())) {}

ValueId Bounds::parameter(std::string_view name) const {
    for (const Param& p : fn_.params)
        if (p.name == name) return p.value;
    return {};
}

Bounds::Atom Bounds::classify(ValueId v, int depth) {
    Atom atom;
    const Inst* def = fn_.def(v);
    if (!def) {
        const Value& value = fn_.value(v);
        const InstId owner = fn_.block(value.block).owner;
        if (owner.valid() && fn_.inst(owner).op == Op::for_loop && value.index == 0) {
            atom.kind = Atom::counter;
            atom.inst = owner;
            int64_t step = 1;
            const std::span<const ValueId> operands = fn_.operands(fn_.inst(owner));
            if (!constant_int(fn_, operands[2], step) || step <= 1) return atom;
            if (divisible(operands[0], step, depth + 1)) atom.divisor = step;
        }
        if (owner.valid()) return atom;
        for (const Param& p : fn_.params) {
            if (p.value != v || p.kind != Param::extent) continue;
            atom = {Atom::parameter, 0, kMaxExtent, true, true, 1, {}, 0};
            for (const PassOptions::Fact& f : options_.facts) {
                if (f.extent != p.name) continue;
                if (f.divisor > 1 && atom.divisor % f.divisor != 0) atom.divisor = f.divisor % atom.divisor == 0 ? f.divisor : atom.divisor;
                atom.low = std::max(atom.low, f.at_least);
                atom.high = std::min(atom.high, f.at_most);
            }
        }
        return atom;
    }
    int64_t by = 0;
    switch (def->op) {
        case Op::program_id:
            atom.kind = Atom::program;
            atom.has_low = true;
            atom.axis = static_cast<int>(fn_.attrs(*def)[0]);
            break;
        case Op::num_programs:
            atom = {Atom::programs, 1, kMaxPrograms, true, true, 1, {}, static_cast<int>(fn_.attrs(*def)[0])};
            break;
        case Op::dim:
            atom = {Atom::parameter, 0, kMaxExtent, true, true, 1, {}, 0};
            break;
        case Op::rem:
            if (constant_int(fn_, fn_.operands(*def)[1], by) && by > 0) atom = {Atom::remainder, 0, by - 1, true, true, 1, {}, 0};
            break;
        case Op::div:
            if (constant_int(fn_, fn_.operands(*def)[1], by) && by > 0)
                atom = {Atom::quotient, 0, INT64_MAX, false, false, 1, fn_.value(v).def, 0, by};
            break;
        case Op::max:
        case Op::min:
            atom.kind = def->op == Op::max ? Atom::largest : Atom::smallest;
            atom.inst = fn_.value(v).def;
            break;
        default:
            break;
    }
    return atom;
}

std::optional<LinearForm> Bounds::atom_of(ValueId v, int depth) {
    const Inst* def = fn_.def(v);
    if (def && def->op == Op::dim) {
        if (auto known = extent(fn_.operands(*def)[0], static_cast<size_t>(fn_.attrs(*def)[0]))) return known;
    }
    if (fn_.type(v).shape.rank != 0) return std::nullopt;  // elements of an unknown tile
    if (!atoms_.contains(v.v)) {
        Atom a = classify(v, depth);
        atoms_.emplace(v.v, a);
    }
    return single(v.v);
}

std::optional<LinearForm> Bounds::product(ValueId a, ValueId b, int depth) {
    int64_t c = 0;
    if (constant_int(fn_, a, c))
        std::swap(a, b);
    else if (!constant_int(fn_, b, c))
        return std::nullopt;
    const auto form = exact(a, depth);
    LinearForm out;
    if (!form || !add_scaled(out, *form, c)) return std::nullopt;
    return out;
}

std::optional<LinearForm> Bounds::exact(ValueId v) {
    work_ = 0;
    return exact(v, 0);
}

/// Scalars are remembered; tiles are not, since each visit of a lane stands for another element.
std::optional<LinearForm> Bounds::exact(ValueId v, int depth) {
    const Type& t = fn_.type(v);
    if (depth > kMaxDepth || ++work_ > kMaxWork || t.kind != Type::tile || t.pointer || !(t.elem == Fmt::i64)) return std::nullopt;
    if (t.shape.rank != 0) return form_of(v, depth);
    if (const auto it = known_.find(v.v); it != known_.end()) return it->second;
    auto form = form_of(v, depth);
    if (work_ <= kMaxWork) known_.emplace(v.v, form);
    return form;
}

std::optional<LinearForm> Bounds::form_of(ValueId v, int depth) {
    const Type& t = fn_.type(v);
    int64_t c = 0;
    if (constant_int(fn_, v, c)) return LinearForm{c, {}};
    const Inst* def = fn_.def(v);
    if (!def) return atom_of(v, depth);
    const std::span<const ValueId> operands = fn_.operands(*def);
    switch (def->op) {
        case Op::add:
            return sum(exact(operands[0], depth + 1), exact(operands[1], depth + 1), 1);
        case Op::sub:
            return sum(exact(operands[0], depth + 1), exact(operands[1], depth + 1), -1);
        case Op::mul:
            if (auto form = product(operands[0], operands[1], depth + 1)) return form;
            break;
        case Op::shl:
            if (constant_int(fn_, operands[1], c) && c >= 0 && c < 62) {
                const auto form = exact(operands[0], depth + 1);
                LinearForm out;
                if (form && add_scaled(out, *form, int64_t{1} << c)) return out;
            }
            break;
        case Op::div:
            if (t.shape.rank == 0 && constant_int(fn_, operands[1], c) && c > 0) {
                const auto whole = [c](int64_t n) { return n % c == 0; };
                auto form = actual(operands[0], depth + 1);
                if (!form || !whole(form->constant) ||
                    !std::all_of(form->terms.begin(), form->terms.end(), [&](const auto& term) { return whole(term.second); }))
                    break;
                form->constant /= c;
                for (auto& term : form->terms) term.second /= c;
                return form;
            }
            break;
        case Op::broadcast:
        case Op::reshape:
        case Op::permute:
            return exact(operands[0], depth + 1);
        case Op::iota: {
            const uint32_t lane = next_lane_++;
            atoms_[lane] = {Atom::lane, 0, t.shape[static_cast<size_t>(fn_.attrs(*def)[0])] - 1, true, true, 1, {}, 0};
            return single(lane);
        }
        default:
            break;
    }
    return atom_of(v, depth);
}

std::optional<LinearForm> Bounds::extent(ValueId object, size_t axis) {
    const Type& t = fn_.type(object);
    if (t.shape[axis] != kDynamic) return LinearForm{t.shape[axis], {}};
    for (const Param& p : fn_.params) {
        if (p.value != object) continue;
        for (const PassOptions::DimFact& d : options_.dims) {
            const ValueId known = parameter(d.extent);
            if (d.tensor != p.name || static_cast<size_t>(d.axis) != axis || !known.valid() || d.by != 1) continue;
            return sum(LinearForm{0, {}}, exact(known, 0), d.times);
        }
    }
    return std::nullopt;
}

bool Bounds::divisible(const LinearForm& form, int64_t by) const {
    if (form.constant % by != 0) return false;
    return std::all_of(form.terms.begin(), form.terms.end(), [&](const auto& term) {
        const auto it = atoms_.find(term.first);
        const int64_t divisor = it == atoms_.end() ? 1 : it->second.divisor;
        return term.second % by == 0 || divisor % by == 0 || (by % divisor == 0 && term.second % (by / divisor) == 0);
    });
}

/// A counter i of lo .. hi step s: lo <= i <= hi - 1, and i <= hi - s when s divides hi - lo.
bool Bounds::substitute_counter(LinearForm& form, const Atom& atom, int64_t coefficient) {
    const std::span<const ValueId> operands = fn_.operands(fn_.inst(atom.inst));
    const auto lo = actual(operands[0]), hi = actual(operands[1]);
    if (!lo || !hi) return false;
    if (coefficient > 0) return add_scaled(form, *lo, coefficient);
    int64_t step = 1;
    LinearForm bound = *hi;
    const bool known = constant_int(fn_, operands[2], step) && step > 1;
    LinearForm trip = *hi;
    const bool aligned = known && add_scaled(trip, *lo, -1) && divisible(trip, step);
    if (__builtin_sub_overflow(bound.constant, aligned ? step : 1, &bound.constant)) return false;
    return add_scaled(form, bound, coefficient);
}

/// p <= number of programs - 1 where the form counts those, too. Else c * p <= extent - tile when tile divides extent and c <= tile; else <= extent -
/// 1; or <= c * at_most; no grid has 2^31 programs along an axis.
bool Bounds::substitute_program(LinearForm& form, const Atom& atom, int64_t coefficient) {
    if (coefficient > 0) return true;
    for (const auto& [other, count] : form.terms) {
        const Atom& programs = atoms_.at(other);
        if (programs.kind != Atom::programs || programs.axis != atom.axis || count < -coefficient) continue;
        LinearForm last = single(other);
        last.constant = -1;
        return add_scaled(form, last, coefficient);
    }
    for (const PassOptions::GridFact& g : options_.grid) {
        if (g.axis != atom.axis) continue;
        const ValueId name = parameter(g.extent);
        if (name.valid() && g.tile >= 1 && coefficient >= -g.tile) {
            auto bound = exact(name, 0);
            if (!bound) continue;
            const bool aligned = divisible(*bound, g.tile);
            bound->constant -= aligned ? g.tile : 1;
            return add_scaled(form, *bound, -1);
        }
        if (g.at_most != INT64_MAX) return add_scaled(form, {g.at_most, {}}, coefficient);
    }
    return add_scaled(form, {kMaxPrograms - 1, {}}, coefficient);
}

/// Replaces coefficient * atom (already taken out of the form) by its smallest value.
bool Bounds::substitute(LinearForm& form, uint32_t id, int64_t coefficient) {
    const Atom atom = atoms_.at(id);
    switch (atom.kind) {
        case Atom::opaque:
            return false;
        case Atom::counter:
            return substitute_counter(form, atom, coefficient);
        case Atom::program:
            return substitute_program(form, atom, coefficient);
        default:
            return add_scaled(form, {coefficient > 0 ? atom.low : atom.high, {}}, coefficient);
    }
}

/// A quotient q = floor(x / d): x - d < d q <= x, and 0 <= q where x is.
bool Bounds::nonnegative_with_quotient(LinearForm form, const Atom& atom, int64_t coefficient, int steps) {
    const auto x = actual(fn_.operands(fn_.inst(atom.inst))[0]);
    if (!x) return false;
    const int64_t d = atom.by, c = coefficient / d;
    const bool whole = coefficient % d == 0, positive = nonnegative(*x, steps);
    if (coefficient < 0) return (whole || positive) && add_scaled(form, *x, c - !whole) && nonnegative(std::move(form), steps);
    if (positive && nonnegative(form, steps)) return true;
    return whole && add_scaled(form, *x, c) && add_scaled(form, {1 - d, {}}, c) && nonnegative(std::move(form), steps);
}

bool Bounds::nonnegative(LinearForm form, int steps) {
    const auto rank = [&](const auto& term) {
        const Atom::Kind kind = atoms_.at(term.first).kind;
        return kind >= Atom::quotient ? 2 : kind == Atom::counter || kind == Atom::program ? 1 : 0;
    };
    while (!form.terms.empty()) {
        if (--steps < 0 || ++work_ > kMaxWork) return false;
        const auto [id, coefficient] =
            *std::max_element(form.terms.rbegin(), form.terms.rend(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
        const Atom atom = atoms_.at(id);
        form.terms.erase(id);
        if (atom.kind == Atom::quotient) return nonnegative_with_quotient(std::move(form), atom, coefficient, steps);
        if (atom.kind == Atom::largest || atom.kind == Atom::smallest) {
            const std::span<const ValueId> operands = fn_.operands(fn_.inst(atom.inst));
            const auto with = [&](ValueId v) {
                const auto value = actual(v);
                LinearForm sum = form;
                return value && add_scaled(sum, *value, coefficient) && nonnegative(std::move(sum), steps);
            };
            const bool either = (atom.kind == Atom::largest) == (coefficient > 0);
            return either ? with(operands[0]) || with(operands[1]) : with(operands[0]) && with(operands[1]);
        }
        if (!substitute(form, id, coefficient)) return false;
    }
    return form.constant >= 0;
}

bool Bounds::at_least(const LinearForm& a, const LinearForm& b, int64_t slack) {
    LinearForm form = a;
    if (!add_scaled(form, b, -1) || __builtin_sub_overflow(form.constant, slack, &form.constant)) return false;
    return nonnegative(std::move(form), kMaxSteps);
}

/// Is the form's value surely what 64-bit arithmetic computes?
bool Bounds::cannot_wrap(const LinearForm& form) { return at_least({kSafe, {}}, form, 0) && at_least(form, {-kSafe, {}}, 0); }

/// The form of a scalar where it surely is the scalar's value.
std::optional<LinearForm> Bounds::actual(ValueId v, int depth) {
    auto form = exact(v, depth);
    if (!form || form->terms.empty()) return form;
    const auto& [atom, coefficient] = *form->terms.begin();
    if (form->terms.size() == 1 && form->constant == 0 && coefficient == 1 && atom == v.v) return form;
    auto it = safe_.find(v.v);
    if (it == safe_.end()) {
        if (nested_ == kMaxNested) return std::nullopt;
        ++nested_;
        it = safe_.emplace(v.v, cannot_wrap(*form)).first;
        --nested_;
    }
    return it->second ? form : std::nullopt;
}

bool Bounds::at_least(ValueId v, int64_t low) {
    work_ = 0;
    const auto form = actual(v);
    return form && at_least(*form, {low, {}}, 0);
}

bool Bounds::divisible(ValueId v, int64_t by) {
    work_ = 0;
    return divisible(v, by, 0);
}

/// What wraps is still a multiple of a power of two.
bool Bounds::divisible(ValueId v, int64_t by, int depth) {
    const auto form = std::has_single_bit(static_cast<uint64_t>(by)) ? exact(v, depth) : actual(v, depth);
    return form && divisible(*form, by);
}

bool Bounds::always_true(ValueId v) { return always_true(v, 0); }

bool Bounds::always_true(ValueId v, int depth) {
    uint64_t code = 0;
    if (depth > kMaxDepth / 8) return false;
    if (splat_code(fn_, v, code)) return code != 0;
    const Inst* def = fn_.def(v);
    if (!def) return false;
    const std::span<const ValueId> operands = fn_.operands(*def);
    switch (def->op) {
        case Op::broadcast:
        case Op::reshape:
        case Op::permute:
            return always_true(operands[0], depth + 1);
        case Op::bit_and:
            return always_true(operands[0], depth + 1) && always_true(operands[1], depth + 1);
        case Op::lt:
        case Op::le:
        case Op::gt:
        case Op::ge:
            break;
        default:
            return false;
    }
    const auto a = exact(operands[0]), b = exact(operands[1]);
    if (!a || !b || !cannot_wrap(*a) || !cannot_wrap(*b)) return false;
    const bool less = def->op == Op::lt || def->op == Op::le;
    return at_least(less ? *b : *a, less ? *a : *b, def->op == Op::lt || def->op == Op::gt);
}

}  // namespace tegula
