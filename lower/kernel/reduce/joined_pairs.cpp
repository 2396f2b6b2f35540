// Maxima and minima of f32 that are decoded 16-bit elements: decoding keeps their order, so that pairs are joined as
// they were loaded, by one instruction for two elements, and only what is left of them is decoded.
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/packed/packed.h"
#include "lower/kernel/reduce/reduce.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::ReduceKind;

namespace {

constexpr const char* kJoin = R"(__device__ __forceinline__ unsigned $(unsigned a, unsigned b) {
    unsigned two;
    asm("INSTRUCTION.FORMATx2 %0, %1, %2;" : "=r"(two) : "r"(a), "r"(b));
    return two;
}
)";
/// For architectures before sm_80, which have no such instruction.
constexpr const char* kJoinDecoded = R"(__device__ __forceinline__ unsigned $(unsigned a, unsigned b) {
    return encode_two_FORMAT(FUNCTION(decode_FORMAT(low_short(a)), decode_FORMAT(low_short(b))),
                             FUNCTION(decode_FORMAT(high_short(a)), decode_FORMAT(high_short(b))));
}
)";

/// How both device functions and PTX order floats.
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
std::string pair_joining(Lowering& ctx, ir::InstId id, const ReducePlan& plan) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId from = ctx.fn.operands(inst)[0], to = ctx.fn.result(inst);
    const ir::Inst* cast = ctx.plan.runs(KernelPass::pairs) ? ctx.fn.def(from) : nullptr;
    if (!cast || cast->op != ir::Op::cast || ctx.fn.type(from).elem != Fmt::f32 || ctx.fn.type(to).elem != Fmt::f32 ||
        plan.fill)
        return {};
    if (!keeps_infinities(ctx, *cast)) return {};
    const ir::ValueId narrow = ctx.fn.operands(*cast)[0];
    const bool bf16 = ctx.fn.type(narrow).elem == Fmt::bf16;
    const ir::Inst* load = ctx.fn.def(narrow);  // its registers lie there for all to read
    if ((!bf16 && ctx.fn.type(narrow).elem != Fmt::f16) || !in_registers(ctx, narrow) || !load ||
        load->op != ir::Op::load)
        return {};
    if (plan.steps.empty() || plan.steps[0].kind != ReducePlan::Step::reg || plan.steps[0].a != 1) return {};
    const auto kind = static_cast<ReduceKind>(ctx.fn.attrs(inst)[0]);
    for (const Order& order : kOrders) {
        if (order.kind != kind) continue;
        ctx.formats.need("pairs");
        ctx.formats.need("float_order");
        const std::string name = order.function + std::string(bf16 ? "_two_bf16" : "_two_f16");
        return support(ctx, name, name,
                       replaced(replaced(replaced(ctx.formats.arch() >= 80 ? kJoin : kJoinDecoded, "INSTRUCTION",
                                                  order.instruction),
                                         "FORMAT", bf16 ? "bf16" : "f16"),
                                "FUNCTION", order.function));
    }
    return {};
}

/// Joins the registers of undecoded pairs, decodes what is left into the array of `joined`, and gives the plan's other
/// steps.
ReducePlan joined_pairs(Lowering& ctx, ir::InstId id, const ReducePlan& plan, const std::string& function,
                        const Joined& joined) {
    const ir::ValueId from = ctx.fn.operands(ctx.fn.inst(id))[0], narrow = ctx.fn.operands(*ctx.fn.def(from))[0];
    const Ex two = array(ctx, "unsigned", "two", registers(ctx, from) / 2);
    each(ctx, registers(ctx, from) / 2, [&](Ex r) {
        ctx.out.assign(element(two, r), raw(ctx, "two_shorts(" + text_at(ctx, narrow, r * 2) + ", " +
                                                     text_at(ctx, narrow, r * 2 + 1) + ")"));
    });
    ReducePlan rest = plan;
    std::vector<int> live = plan.steps[0].live;
    for (rest.steps.erase(rest.steps.begin()); !rest.steps.empty() && rest.steps[0].kind == ReducePlan::Step::reg;
         rest.steps.erase(rest.steps.begin())) {
        live = rest.steps[0].live;
        std::vector<int> pairs;
        for (const int r : live) pairs.push_back(r / 2);
        each_of(ctx, pairs, [&](Ex r) {
            const Ex own = element(two, r), other = element(two, r + rest.steps[0].a / 2);
            ctx.out.assign(own, ctx.pool.call(kernel::Type::other, function, {own, other}));
        });
    }
    const auto decoded = [&](const std::string& half, int r) {
        return ctx.formats.cast(ctx.fn.elem(from), ctx.fn.elem(narrow),
                                half + "(" + two + "[" + std::to_string(r / 2) + "])");
    };
    for (const int r : live) {
        const Ex x = element(ctx, joined.names[0], ctx.pool.number(r));
        const std::string other = ctx.out.fresh("high");
        ctx.out.assign(x, raw(ctx, decoded("low_short", r)));
        ctx.out.let("float", other, raw(ctx, decoded("high_short", r)));
        joined.join({x.text()}, {other});
    }
    return rest;
}

}  // namespace tegula::lower
