#include "lang/gpu/carried_load.h"

#include <algorithm>
#include <bit>

#include "lang/access_operands.h"
#include "lang/divisor.h"

namespace tegula {

using namespace ir;

namespace {

constexpr uint64_t kMostDivisor = uint64_t{1} << 62;
constexpr int64_t kMostGrowth = int64_t{1} << 40;  ///< sums and products of a few stay far below 2^63
constexpr int kMostDepth = 16;                     ///< of the scalars behind an index

uint64_t lowest_bit(int64_t v) { return v == 0 ? kMostDivisor : uint64_t{1} << std::min(std::countr_zero(static_cast<uint64_t>(v)), 62); }

std::optional<Growth> sum(const Growth& a, const Growth& b, int sign) { return Growth{a.by + sign * b.by, std::min(a.divisor, b.divisor)}; }

std::optional<Growth> times(const Growth& a, int64_t by) {
    if (by > kMostGrowth || by < -kMostGrowth || (a.by != 0 && std::abs(by) > kMostGrowth / std::abs(a.by))) return std::nullopt;
    const uint64_t more = lowest_bit(by);
    return Growth{a.by * by, a.divisor > kMostDivisor / more ? kMostDivisor : a.divisor * more};
}

/// Floor quotients by a power of two, which divides before and after.
std::optional<Growth> over(const Growth& a, int64_t by) {
    if (by <= 0 || !std::has_single_bit(static_cast<uint64_t>(by)) || a.divisor < static_cast<uint64_t>(by)) return std::nullopt;
    return Growth{a.by / by, a.divisor / static_cast<uint64_t>(by)};
}

std::optional<Growth> growth_of(const LayoutExpr& e, std::span<const Growth> indices) {
    switch (e.op) {
        case LayoutExpr::constant:
            return Growth{0, lowest_bit(e.value)};
        case LayoutExpr::extent:
            return Growth{};
        case LayoutExpr::index:
            return static_cast<size_t>(e.value) < indices.size() ? std::optional(indices[static_cast<size_t>(e.value)]) : std::nullopt;
        default:
            break;
    }
    if (!e.a || !e.b) return std::nullopt;
    const auto a = growth_of(*e.a, indices), b = growth_of(*e.b, indices);
    if (!a || !b) return std::nullopt;
    const bool constant = e.b->op == LayoutExpr::constant;
    switch (e.op) {
        case LayoutExpr::add:
            return sum(*a, *b, 1);
        case LayoutExpr::sub:
            return sum(*a, *b, -1);
        case LayoutExpr::mul:
            if (constant) return times(*a, e.b->value);
            break;
        case LayoutExpr::div:
            if (constant) return over(*a, e.b->value);
            break;
        case LayoutExpr::rem:
            if (constant && over(*a, e.b->value)) return Growth{0, kMostDivisor};
            break;
        default:
            break;
    }
    return a->by == 0 && b->by == 0 ? std::optional(Growth{}) : std::nullopt;
}

class Finder {
public:
    Finder(const Function& fn, InstId loop) : fn_(fn), loop_(fn.inst(loop)), body_(fn.block(fn.blocks(loop_)[0])) {}

    std::vector<CarriedLoad> find() {
        std::vector<CarriedLoad> out;
        const auto next = fn_.operands(fn_.inst(body_.insts.back()));
        if (loop_.op != Op::for_loop || !constant(fn_.operands(loop_)[2], step_) || step_ <= 0 || step_ > kMostGrowth) return out;
        for (uint32_t r = 0; r < loop_.results.count; ++r)
            if (auto load = match(fn_.operands(loop_)[r + 3], next[r])) {
                load->carried = body_.args[r + 1];
                out.push_back(std::move(*load));
            }
        return out;
    }

private:
    bool constant(ValueId v, int64_t& value) const {
        const Inst* def = fn_.def(v);
        if (!def || def->op != Op::constant || fn_.type(v).shape.rank) return false;
        value = fn_.attrs(*def)[0];
        return true;
    }

    std::optional<CarriedLoad> match(ValueId before, ValueId after) {
        const Inst *first = fn_.def(before), *next = fn_.def(after);
        if (!first || !next || first->op != Op::load || next->op != Op::load || first->parent != loop_.parent) return std::nullopt;
        if (next->parent != fn_.inst(body_.insts.back()).parent) return std::nullopt;
        const AccessOperands from(fn_, *first), to(fn_, *next);
        const Access& access = to.access;
        const bool alike = first->operands.count == next->operands.count && from.object == to.object;
        if (!alike || !access.plain() || access.gathers()) return std::nullopt;
        following_ = more_ = {};
        CarriedLoad out;
        out.first = fn_.value(before).def;
        out.next = fn_.value(after).def;
        out.counter = body_.args[0];
        out.lo = fn_.operands(loop_)[0];
        out.hi = fn_.operands(loop_)[1];
        out.step = step_;
        for (size_t a = 0; a < access.axes.size(); ++a) {
            if (!to.index[a]) {
                out.starts.push_back({0, kMostDivisor});
                continue;
            }
            if (!from.index[a]) return std::nullopt;
            const auto grows = scalar(from.index[a].value, to.index[a].value, 0);
            if (!grows) return std::nullopt;
            out.starts.push_back(*grows);
            out.from_zero = out.from_zero && never_negative(from.index[a].value, 0);
        }
        out.following = following_;
        out.more = more_;
        return more_.valid() ? std::optional(std::move(out)) : std::nullopt;
    }

    /// As far as sums and products of scalars tell; what they wrap to is another matter.
    bool never_negative(ValueId v, int depth) const {
        const Inst* def = fn_.def(v);
        if (depth > kMostDepth || fn_.type(v).kind != Type::tile || fn_.type(v).shape.rank) return false;
        if (!def) {
            for (const Param& p : fn_.params)
                if (p.value == v) return p.kind == Param::extent;
            const Block& block = fn_.block(fn_.value(v).block);
            if (!block.owner.valid() || fn_.inst(block.owner).op != Op::for_loop || fn_.value(v).index != 0) return false;
            const auto bounds = fn_.operands(fn_.inst(block.owner));
            int64_t step = 0;
            return constant(bounds[2], step) && step > 0 && never_negative(bounds[0], depth + 1);
        }
        const auto in = fn_.operands(*def);
        switch (def->op) {
            case Op::constant:
                return fn_.attrs(*def)[0] >= 0;
            case Op::program_id:
            case Op::num_programs:
            case Op::dim:
                return true;
            case Op::max:
                return never_negative(in[0], depth + 1) || never_negative(in[1], depth + 1);
            case Op::add:
            case Op::mul:
            case Op::div:
            case Op::div_ceil:
            case Op::min:
                return never_negative(in[0], depth + 1) && never_negative(in[1], depth + 1);
            default:
                return false;
        }
    }

    /// Of an index that is `from` in front of the loop and `to` for the trip after the one at hand.
    std::optional<Growth> scalar(ValueId from, ValueId to, int depth) {
        if (depth > kMostDepth) return std::nullopt;
        if (from == to) return Growth{0, static_cast<uint64_t>(std::max<int64_t>(power_of_two_divisor(fn_, from), 1))};
        const Inst *a = fn_.def(from), *b = fn_.def(to);
        if (from == fn_.operands(loop_)[0] && b && b->op == Op::select) {
            const auto in = fn_.operands(*b);
            const Inst* sum = fn_.def(in[1]);
            int64_t by = 0;
            if (!(in[2] == body_.args[0]) || !sum || sum->op != Op::add || !(fn_.operands(*sum)[0] == body_.args[0])) return std::nullopt;
            if (!constant(fn_.operands(*sum)[1], by) || by != step_ || (more_.valid() && !(more_ == in[0]))) return std::nullopt;
            more_ = in[0];
            following_ = to;
            return Growth{step_, std::min(lowest_bit(step_), static_cast<uint64_t>(std::max<int64_t>(power_of_two_divisor(fn_, from), 1)))};
        }
        if (!a || !b || a->op != b->op || fn_.operands(*a).size() != 2 || fn_.type(to).shape.rank ||
            !(fn_.elem(to) == fn_.elem(fn_.operands(loop_)[0])))
            return std::nullopt;
        const auto x = fn_.operands(*a), y = fn_.operands(*b);
        const auto left = scalar(x[0], y[0], depth + 1), right = scalar(x[1], y[1], depth + 1);
        if (!left || !right) return std::nullopt;
        int64_t by = 0;
        switch (b->op) {
            case Op::add:
                return sum(*left, *right, 1);
            case Op::sub:
                return sum(*left, *right, -1);
            case Op::mul:
                return constant(y[1], by) ? times(*left, by) : std::nullopt;
            case Op::div:
                return constant(y[1], by) ? over(*left, by) : std::nullopt;
            default:
                return std::nullopt;
        }
    }

    const Function& fn_;
    const Inst& loop_;
    const Block& body_;
    int64_t step_ = 0;
    ValueId following_, more_;
};

}  // namespace

std::vector<CarriedLoad> carried_loads(const Function& fn, InstId loop) { return Finder(fn, loop).find(); }

std::optional<int64_t> growth(const LayoutExpr& e, std::span<const Growth> indices) {
    const auto out = growth_of(e, indices);
    return out ? std::optional(out->by) : std::nullopt;
}

}  // namespace tegula
