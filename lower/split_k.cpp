// `schedule split_k(n)` and `split_k(step = S)`: the loop over K becomes loops over n stretches of it, or over stretches of S elements, each summing
// from zero, and the stretches are added in ascending order to what the sum started from. This fixes the order of sums for every machine; one that
// can runs the stretches at the same time (the outer loop is marked `split_k`). First of the passes, so that nothing it depends on was rewritten;
// meaning, not speed: it cannot be switched off. How many stretches of S elements there are is computed when the kernel runs; where it is one, the
// bits are those of the loop as it stands: that stretch starts from what the sum starts from, and nothing is added to it.
#include <algorithm>

#include "lang/uses.h"
#include "lower/lower.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

constexpr int64_t kMaxParts = 64;
constexpr int64_t kMaxSplitStep = int64_t{1} << 32;  ///< where stretches begin stays far below 2^63, however many steps they are short of whole

constexpr int64_t kMaxStretches = 1 << 16;  ///< of S elements; the last one of so many takes what is left

/// What the schedule asks for; both 0: nothing.
struct Wanted {
    int64_t parts = 0, step = 0;  ///< number of stretches, or elements of one
    bool by_step = false;
};
Wanted wanted(const Function& fn) {
    const auto step = hint_argument(fn.hints, "split_k", "step");
    return {hint_argument(fn.hints, "split_k").value_or(0), step.value_or(0), step.has_value()};
}

class Splitter {
public:
    explicit Splitter(Function& fn) : fn_(fn), uses_(fn) {}
    /// The loop to split, or why there is none.
    InstId find(const Wanted& wanted, std::string& why) const;
    void split(InstId loop, const Wanted& wanted);

private:
    bool has_product(InstId loop) const;
    std::string problem(InstId loop, const Wanted& wanted) const;
    bool only_accumulates(const Inst& loop, uint32_t k) const;
    /// Where stretches lie: how many there are, the elements of one, and, where that is not known, whether there is only one.
    struct Cut {
        ValueId zero, one, count, length, single;
    };
    Cut cut(InstId before, std::span<const ValueId> bounds, const Wanted& wanted);
    /// Bounds of one of them, from inside the loop over stretches.
    std::pair<ValueId, ValueId> stretch(InstId before, std::span<const ValueId> bounds, const Cut& cut, ValueId part);
    ValueId start(InstId before, const Cut& cut, ValueId from);
    ValueId next(BlockId body, const Cut& cut, ValueId total, ValueId partial, ValueId from, Span span);
    ValueId scalar(InstId before, Op op, std::initializer_list<ValueId> operands, FormatId type = id_of(Fmt::i64));
    ValueId value(InstId before, Op op, std::span<const ValueId> operands, TypeId type);
    ValueId number(InstId before, int64_t n) { return insert_constant(fn_, before, fn_.types().tile(Fmt::i64), static_cast<uint64_t>(n)); }
    ValueId choose(InstId before, ValueId condition, ValueId yes, ValueId no);

    Function& fn_;
    Uses uses_;
};

bool Splitter::has_product(InstId loop) const {
    bool found = false;
    fn_.walk(fn_.blocks(fn_.inst(loop))[0], [&](InstId i) {
        const Op op = fn_.inst(i).op;
        found = found || is_product(op) || op == Op::contract;
    });
    return found;
}

/// Does carried value k only take part in sums, each of which adds something that does not depend on it?
bool Splitter::only_accumulates(const Inst& loop, uint32_t k) const {
    const Block& body = fn_.block(fn_.blocks(loop)[0]);
    const InstId end = body.insts.back();
    ValueId v = body.args[k + 1];
    if (fn_.type(v).kind != Type::tile || fn_.type(v).pointer || fn_.elem(v).is_bool()) return false;
    for (bool summed = false;; summed = true) {
        const InstId user = uses_.only_user(v);
        if (!user.valid()) return false;
        const auto operands = fn_.operands(fn_.inst(user));
        if (user == end) return summed && operands[k] == v;
        const Op op = fn_.inst(user).op;
        const bool sum = op == Op::add || (op == Op::sub && operands[0] == v) || ((is_product(op) || op == Op::fma) && operands[2] == v);
        if (!sum || fn_.inst(user).parent != fn_.inst(end).parent) return false;
        v = fn_.result(fn_.inst(user));
    }
}

/// What is wrong with stretches of that many elements in a loop with this step, and what would be right.
std::string step_problem(int64_t length, int64_t step) {
    const std::string elements = length == 1 ? " element" : " elements", nearest = "; the nearest is ";
    if (length <= 0) return "a stretch of " + std::to_string(length) + elements + " is none" + nearest + std::to_string(step);
    if (length % step == 0) return {};
    const int64_t below = length / step * step;
    const bool up = below == 0 || (length - below > step / 2 && below <= INT64_MAX - step);
    return "its stretches of " + std::to_string(length) + elements + " are no whole steps of the loop over its product, which are of " +
           std::to_string(step) + nearest + std::to_string(up ? below + step : below);
}

/// Why this loop over products cannot be cut; empty when it can.
std::string Splitter::problem(InstId id, const Wanted& wanted) const {
    const Inst& loop = fn_.inst(id);
    if (has_trait_within(fn_, id, WRITES | EFFECT)) return "the loop over its product writes memory, prints or asserts";
    int64_t step = 0;
    if (!constant_int(fn_, fn_.operands(loop)[2], step) || step <= 0) return "the step of the loop over its product is no positive constant";
    if (step > kMaxSplitStep) return "the step of the loop over its product is too large";
    for (uint32_t k = 0; k < loop.results.count; ++k)
        if (!only_accumulates(loop, k)) return "the loop over its product carries more than sums of products";
    if (loop.results.count == 0) return "the loop over its product sums nothing";
    return wanted.by_step ? step_problem(wanted.step, step) : std::string();
}

InstId Splitter::find(const Wanted& wanted, std::string& why) const {
    InstId found;
    bool effects = false;
    why = "it has no loop over a product";
    for (InstId i : fn_.block(fn_.body).insts) {
        const Inst& inst = fn_.inst(i);
        if (inst.op == Op::for_loop && has_product(i)) {
            if (found.valid()) return why = "it has several loops over products", InstId{};
            why = effects ? "something before the loop over its product writes memory, prints or asserts" : problem(i, wanted);
            if (!why.empty()) return {};
            found = i;
        }
        effects = effects || (inst.op != Op::assume && has_trait_within(fn_, i, WRITES | EFFECT));
    }
    return found;
}

ValueId Splitter::value(InstId before, Op op, std::span<const ValueId> operands, TypeId type) {
    const InstId made = fn_.make(op, operands, {&type, 1}, {}, fn_.inst(before).span);
    fn_.insert_before(before, made);
    return fn_.result(made);
}

ValueId Splitter::scalar(InstId before, Op op, std::initializer_list<ValueId> operands, FormatId type) {
    return value(before, op, std::span(operands.begin(), operands.size()), fn_.types().tile(type));
}

/// One of two values of a type, by a scalar.
ValueId Splitter::choose(InstId before, ValueId condition, ValueId yes, ValueId no) {
    const Shape& shape = fn_.type(yes).shape;
    const ValueId all = shape.rank == 0 ? condition : value(before, Op::broadcast, {&condition, 1}, fn_.types().tile(id_of(Fmt::boolean), shape));
    const ValueId operands[] = {all, yes, no};
    return value(before, Op::select, operands, fn_.type_of(yes));
}

Splitter::Cut Splitter::cut(InstId before, std::span<const ValueId> bounds, const Wanted& wanted) {
    Cut cut;
    cut.zero = number(before, 0);
    cut.one = number(before, 1);
    const ValueId given = number(before, wanted.by_step ? wanted.step : wanted.parts);
    const ValueId length = scalar(before, Op::max, {scalar(before, Op::sub, {bounds[1], bounds[0]}), cut.zero});
    if (wanted.by_step) {
        cut.length = given;
        const ValueId stretches = scalar(before, Op::min, {scalar(before, Op::div_ceil, {length, given}), number(before, kMaxStretches)});
        cut.count = scalar(before, Op::max, {stretches, cut.one});
        cut.single = scalar(before, Op::eq, {cut.count, cut.one}, id_of(Fmt::boolean));
        return cut;
    }
    cut.count = given;
    // Whole steps per stretch; the last stretches may be short or empty.
    const ValueId trips = scalar(before, Op::div_ceil, {scalar(before, Op::div_ceil, {length, bounds[2]}), given});
    cut.length = scalar(before, Op::mul, {trips, bounds[2]});
    return cut;
}

std::pair<ValueId, ValueId> Splitter::stretch(InstId before, std::span<const ValueId> bounds, const Cut& cut, ValueId part) {
    const ValueId lo = bounds[0], hi = bounds[1];
    // The maximum and the minimum change nothing but what can be proved of the counter.
    const ValueId begin = scalar(before, Op::max, {lo, scalar(before, Op::add, {lo, scalar(before, Op::mul, {part, cut.length})})});
    ValueId end = scalar(before, Op::add, {begin, cut.length});
    if (cut.single.valid()) {  // the last one of the most there can be takes all that is left
        const ValueId behind = scalar(before, Op::add, {part, cut.one});
        end = choose(before, scalar(before, Op::eq, {behind, cut.count}, id_of(Fmt::boolean)), hi, end);
    }
    return {begin, scalar(before, Op::min, {hi, end})};
}

/// What a stretch sums from. The only one there is sums from what the sum starts from, unless that makes no difference.
ValueId Splitter::start(InstId before, const Cut& cut, ValueId from) {
    const uint64_t code = encode(fn_.elem(from), 0.0);
    const ValueId zeros = insert_constant(fn_, before, fn_.type_of(from), code);
    uint64_t given = 0;
    const bool same = fn_.elem(from).is_int() || (splat_code(fn_, from, given) && given == code);
    return cut.single.valid() && !same ? choose(before, cut.single, from, zeros) : zeros;
}

/// The total with a stretch's sum. Integers give the same sum wherever it starts.
ValueId Splitter::next(BlockId body, const Cut& cut, ValueId total, ValueId partial, ValueId from, Span span) {
    const ValueId both[] = {total, partial};
    const TypeId type = fn_.type_of(from);
    const InstId add = fn_.make(Op::add, both, {&type, 1}, {}, span);
    fn_.append(body, add);
    if (!cut.single.valid() || fn_.elem(from).is_int()) return fn_.result(add);
    const Shape& shape = fn_.type(from).shape;
    const TypeId mask = fn_.types().tile(id_of(Fmt::boolean), shape);
    const InstId all = fn_.make(Op::broadcast, {&cut.single, 1}, {&mask, 1}, {}, span);
    fn_.insert_before(add, all);
    const ValueId operands[] = {fn_.result(all), partial, fn_.result(add)};
    const InstId chosen = fn_.make(Op::select, operands, {&type, 1}, {}, span);
    fn_.append(body, chosen);
    return fn_.result(chosen);
}

void Splitter::split(InstId loop, const Wanted& wanted) {
    const Span span = fn_.inst(loop).span;
    const std::vector<ValueId> in(fn_.operands(fn_.inst(loop)).begin(), fn_.operands(fn_.inst(loop)).end());
    const Cut stretches = cut(loop, in, wanted);
    std::vector<TypeId> types;
    std::vector<ValueId> operands{stretches.zero, stretches.count, stretches.one};
    const BlockId body = fn_.add_block();
    const ValueId part = fn_.add_arg(body, fn_.types().tile(Fmt::i64));
    for (size_t k = 3; k < in.size(); ++k) {
        operands.push_back(in[k]);
        types.push_back(fn_.type_of(in[k]));
        fn_.add_arg(body, types.back());
    }
    fn_.loop_hints.resize(std::max<size_t>(fn_.loop_hints.size(), 1));
    fn_.loop_hints.push_back({*find_hint(fn_.hints, "split_k")});
    const int64_t hint = static_cast<int64_t>(fn_.loop_hints.size() - 1);
    const InstId outer = fn_.make(Op::for_loop, operands, types, {&hint, 1}, span, {&body, 1});
    fn_.insert_before(loop, outer);
    for (uint32_t k = 0; k < types.size(); ++k) fn_.replace_uses(fn_.result(loop, k), fn_.result(outer, k));
    std::erase(fn_.block(fn_.body).insts, loop);

    fn_.append(body, loop);
    const auto [begin, end] = stretch(loop, in, stretches, part);
    std::vector<ValueId> inner{begin, end, in[2]}, sums;
    for (size_t k = 0; k < types.size(); ++k) inner.push_back(start(loop, stretches, in[k + 3]));
    fn_.set_operands(loop, inner);
    for (uint32_t k = 0; k < types.size(); ++k)
        sums.push_back(next(body, stretches, fn_.block(body).args[k + 1], fn_.result(loop, k), in[k + 3], span));
    fn_.append(body, fn_.make(Op::yield, sums, {}, {}, span));
}

/// What no loop could give; empty when there may be one.
std::string range_problem(const Wanted& wanted) {
    return wanted.by_step || (wanted.parts >= 1 && wanted.parts <= kMaxParts) ? std::string() : "it takes 1 to 64 parts";
}

}  // namespace

bool split_k(ir::Function& fn) {
    const Wanted wants = wanted(fn);
    if (!fn.is_kernel || !range_problem(wants).empty() || wants.parts == 1) return false;
    Splitter splitter(fn);
    std::string why;
    const InstId loop = splitter.find(wants, why);
    if (!loop.valid()) return false;
    splitter.split(loop, wants);
    return true;
}

std::string split_k_problem(const ir::Function& fn) {
    const Wanted wants = wanted(fn);
    if (std::string why = range_problem(wants); !why.empty() || wants.parts == 1) return why;
    ir::Function copy = fn;
    std::string why;
    Splitter(copy).find(wants, why);
    return why;
}

}  // namespace tegula
