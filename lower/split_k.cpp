// `schedule split_k(S)`: the loop over K becomes S loops over stretches of it, each summing from zero, and the stretches are added in ascending
// order to what the sum started from. This fixes the order of sums for every machine; one that can runs the stretches at the same time (the outer
// loop is marked `split_k`). First of the passes, so that nothing it depends on was rewritten; meaning, not speed: it cannot be switched off.
#include <algorithm>

#include "lower/lower.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

constexpr int64_t kMaxParts = 64;
constexpr int64_t kMaxSplitStep = int64_t{1} << 32;  ///< where stretches begin stays far below 2^63, however many steps they are short of whole

int64_t parts_of(const Function& fn) { return hint_argument(fn.hints, "split_k").value_or(0); }

class Splitter {
public:
    explicit Splitter(Function& fn) : fn_(fn), uses_(fn.value_count()), user_(fn.value_count()) {
        for_each_inst(fn, fn.body, [&](InstId i) {
            for (ValueId v : fn.operands(fn.inst(i))) {
                ++uses_[v.v];
                user_[v.v] = i;
            }
        });
    }
    /// The loop to split, or why there is none.
    InstId find(std::string& why) const;
    void split(InstId loop, int64_t parts);

private:
    bool has_product(InstId loop) const;
    std::string problem(InstId loop) const;
    bool only_accumulates(const Inst& loop, uint32_t k) const;
    ValueId scalar(InstId before, Op op, std::initializer_list<ValueId> operands);

    Function& fn_;
    std::vector<uint32_t> uses_;
    std::vector<InstId> user_;
};

bool Splitter::has_product(InstId loop) const {
    bool found = false;
    for_each_inst(fn_, fn_.blocks(fn_.inst(loop))[0], [&](InstId i) {
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
        if (uses_[v.v] != 1) return false;
        const InstId user = user_[v.v];
        const auto operands = fn_.operands(fn_.inst(user));
        if (user == end) return summed && operands[k] == v;
        const Op op = fn_.inst(user).op;
        const bool sum = (is_product(op) && operands[2] == v) || op == Op::add;
        if (!sum || fn_.inst(user).parent != fn_.inst(end).parent) return false;
        v = fn_.result(fn_.inst(user));
    }
}

/// Why this loop over products cannot be cut; empty when it can.
std::string Splitter::problem(InstId id) const {
    const Inst& loop = fn_.inst(id);
    if (has_trait_within(fn_, id, WRITES | EFFECT)) return "the loop over its product writes memory, prints or asserts";
    int64_t step = 0;
    if (!constant_int(fn_, fn_.operands(loop)[2], step) || step <= 0) return "the step of the loop over its product is no positive constant";
    if (step > kMaxSplitStep) return "the step of the loop over its product is too large";
    for (uint32_t k = 0; k < loop.results.count; ++k)
        if (!only_accumulates(loop, k)) return "the loop over its product carries more than sums of products";
    return loop.results.count ? std::string() : "the loop over its product sums nothing";
}

InstId Splitter::find(std::string& why) const {
    InstId found;
    bool effects = false;
    why = "it has no loop over a product";
    for (InstId i : fn_.block(fn_.body).insts) {
        const Inst& inst = fn_.inst(i);
        if (inst.op == Op::for_loop && has_product(i)) {
            if (found.valid()) return why = "it has several loops over products", InstId{};
            why = effects ? "something before the loop over its product writes memory, prints or asserts" : problem(i);
            if (!why.empty()) return {};
            found = i;
        }
        effects = effects || (inst.op != Op::assume && has_trait_within(fn_, i, WRITES | EFFECT));
    }
    return found;
}

ValueId Splitter::scalar(InstId before, Op op, std::initializer_list<ValueId> operands) {
    const TypeId type = fn_.types().tile(Fmt::i64);
    const InstId made = fn_.make(op, std::span(operands.begin(), operands.size()), {&type, 1}, {}, fn_.inst(before).span);
    fn_.insert_before(before, made);
    return fn_.result(made);
}

void Splitter::split(InstId loop, int64_t parts) {
    const TypeId index = fn_.types().tile(Fmt::i64);
    const Span span = fn_.inst(loop).span;
    const std::vector<ValueId> in(fn_.operands(fn_.inst(loop)).begin(), fn_.operands(fn_.inst(loop)).end());
    const ValueId lo = in[0], hi = in[1], step = in[2];
    const ValueId zero = insert_constant(fn_, loop, index, 0), one = insert_constant(fn_, loop, index, 1),
                  count = insert_constant(fn_, loop, index, static_cast<uint64_t>(parts));
    // Whole steps per stretch; the last stretches may be short or empty.
    const ValueId length = scalar(loop, Op::max, {scalar(loop, Op::sub, {hi, lo}), zero});
    const ValueId trips = scalar(loop, Op::div_ceil, {scalar(loop, Op::div_ceil, {length, step}), count});
    const ValueId stretch = scalar(loop, Op::mul, {trips, step});

    std::vector<TypeId> types;
    std::vector<ValueId> operands{zero, count, one};
    const BlockId body = fn_.add_block();
    const ValueId part = fn_.add_arg(body, index);
    for (size_t k = 3; k < in.size(); ++k) {
        operands.push_back(in[k]);
        types.push_back(fn_.type_of(in[k]));
        fn_.add_arg(body, types.back());
    }
    fn_.loop_hints.resize(std::max<size_t>(fn_.loop_hints.size(), 1));
    fn_.loop_hints.push_back({{"split_k", {parts}}});
    const int64_t hint = static_cast<int64_t>(fn_.loop_hints.size() - 1);
    const InstId outer = fn_.make(Op::for_loop, operands, types, {&hint, 1}, span, {&body, 1});
    fn_.insert_before(loop, outer);
    for (uint32_t k = 0; k < types.size(); ++k) fn_.replace_uses(fn_.result(loop, k), fn_.result(outer, k));
    std::erase(fn_.block(fn_.body).insts, loop);

    fn_.append(body, loop);
    // The maximum changes nothing but what can be proved of the counter.
    const ValueId begin = scalar(loop, Op::max, {lo, scalar(loop, Op::add, {lo, scalar(loop, Op::mul, {part, stretch})})});
    const ValueId end = scalar(loop, Op::min, {hi, scalar(loop, Op::add, {begin, stretch})});
    std::vector<ValueId> inner{begin, end, step}, sums;
    for (uint32_t k = 0; k < types.size(); ++k) inner.push_back(insert_constant(fn_, loop, types[k], encode(fn_.elem(fn_.result(outer, k)), 0.0)));
    fn_.set_operands(loop, inner);
    for (uint32_t k = 0; k < types.size(); ++k) {
        const ValueId both[] = {fn_.block(body).args[k + 1], fn_.result(loop, k)};
        const InstId add = fn_.make(Op::add, both, {&types[k], 1}, {}, span);
        fn_.append(body, add);
        sums.push_back(fn_.result(add));
    }
    fn_.append(body, fn_.make(Op::yield, sums, {}, {}, span));
}

}  // namespace

bool split_k(ir::Function& fn) {
    const int64_t parts = parts_of(fn);
    if (!fn.is_kernel || parts < 2 || parts > kMaxParts) return false;
    Splitter splitter(fn);
    std::string why;
    const InstId loop = splitter.find(why);
    if (!loop.valid()) return false;
    splitter.split(loop, parts);
    return true;
}

std::string split_k_problem(const ir::Function& fn) {
    const int64_t parts = parts_of(fn);
    if (parts < 1 || parts > kMaxParts) return "it takes 1 to 64 parts";
    if (parts == 1) return {};
    ir::Function copy = fn;
    std::string why;
    Splitter(copy).find(why);
    return why;
}

}  // namespace tegula
