// Maxima and minima of f32 that are decoded 16-bit elements: decoding keeps their order, so that pairs are joined as they were loaded, by one
// instruction for two elements, and only what is left of them is decoded.
#include "jit/cuda/emitter.h"

namespace tegula::cuda {

using ir::ReduceKind;

namespace {

constexpr const char* kJoin = R"(__device__ __forceinline__ unsigned $(unsigned a, unsigned b) {
    unsigned two;
    asm("INSTRUCTION.FORMATx2 %0, %1, %2;" : "=r"(two) : "r"(a), "r"(b));
    return two;
}
)";
/// As architectures before sm_80 have to.
constexpr const char* kJoinDecoded = R"(__device__ __forceinline__ unsigned $(unsigned a, unsigned b) {
    return encode_two_FORMAT(FUNCTION(decode_FORMAT(low_short(a)), decode_FORMAT(low_short(b))),
                             FUNCTION(decode_FORMAT(high_short(a)), decode_FORMAT(high_short(b))));
}
)";

/// How both the prelude and PTX order floats.
struct Order {
    ReduceKind kind;
    const char *function, *instruction;
};
constexpr Order kOrders[] = {{ReduceKind::max, "maximum", "max.NaN"},
                             {ReduceKind::min, "minimum", "min.NaN"},
                             {ReduceKind::maxnum, "maximum_number", "max"},
                             {ReduceKind::minnum, "minimum_number", "min"}};

}  // namespace

/// Function that joins two pairs; empty where the reduction is no such thing, or pairs do not come first.
std::string Emitter::pair_joining(ir::InstId id, const ReducePlan& plan) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId from = fn_.operands(inst)[0], to = fn_.result(inst);
    const ir::Inst* cast = fn_.def(from);
    if (!cast || cast->op != ir::Op::cast || fn_.type(from).elem != Fmt::f32 || fn_.type(to).elem != Fmt::f32 || plan.fill) return {};
    if (!keeps_infinities(*cast)) return {};
    const ir::ValueId narrow = fn_.operands(*cast)[0];
    const bool bf16 = fn_.type(narrow).elem == Fmt::bf16;
    const ir::Inst* load = fn_.def(narrow);  // its registers lie there for all to read
    if ((!bf16 && fn_.type(narrow).elem != Fmt::f16) || !in_registers(narrow) || !load || load->op != ir::Op::load) return {};
    if (plan.steps.empty() || plan.steps[0].kind != ReducePlan::Step::reg || plan.steps[0].a != 1) return {};
    const auto kind = static_cast<ReduceKind>(fn_.attrs(inst)[0]);
    for (const Order& order : kOrders) {
        if (order.kind != kind) continue;
        prelude_.need("pairs");
        prelude_.need("float_order");
        const std::string name = order.function + std::string(bf16 ? "_two_bf16" : "_two_f16");
        return support(
            name, name,
            replaced(replaced(replaced(prelude_.arch() >= 80 ? kJoin : kJoinDecoded, "INSTRUCTION", order.instruction), "FORMAT", bf16 ? "bf16" : "f16"), "FUNCTION", order.function));
    }
    return {};
}

/// Joins the registers of undecoded pairs, decodes what is left into the array of `joined`, and gives the plan's other steps.
ReducePlan Emitter::joined_pairs(ir::InstId id, const ReducePlan& plan, const std::string& function, const Joined& joined) {
    const ir::ValueId from = fn_.operands(fn_.inst(id))[0], narrow = fn_.operands(*fn_.def(from))[0];
    const std::string two = fresh("two");
    line("unsigned " + two + "[" + std::to_string(registers(from) / 2) + "];");
    each(registers(from) / 2, [&](Ex r) { line(two + "[" + r + "] = two_shorts(" + at(narrow, r * 2) + ", " + at(narrow, r * 2 + 1) + ");"); });
    ReducePlan rest = plan;
    std::vector<int> live = plan.steps[0].live;
    for (rest.steps.erase(rest.steps.begin()); !rest.steps.empty() && rest.steps[0].kind == ReducePlan::Step::reg;
         rest.steps.erase(rest.steps.begin())) {
        live = rest.steps[0].live;
        std::vector<int> pairs;
        for (const int r : live) pairs.push_back(r / 2);
        each_of(pairs, [&](Ex r) {
            line(two + "[" + r + "] = " + function + "(" + two + "[" + r + "], " + two + "[" + (r + rest.steps[0].a / 2).text() + "]);");
        });
    }
    const auto decoded = [&](const std::string& half, int r) {
        return prelude_.cast(fn_.elem(from), fn_.elem(narrow), half + "(" + two + "[" + std::to_string(r / 2) + "])", Round::rne,
                             Overflow::automatic);
    };
    for (const int r : live) {
        const std::string x = joined.names[0] + "[" + std::to_string(r) + "]", other = fresh("high");
        line(x + " = " + decoded("low_short", r) + ";");
        line("const float " + other + " = " + decoded("high_short", r) + ";");
        joined.join({x}, {other});
    }
    return rest;
}

}  // namespace tegula::cuda
