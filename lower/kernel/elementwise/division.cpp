// Tiles over a number that all registers of a thread share: multiplied by its reciprocal and corrected once, where
// divisor and dividends are moderate (device/shared_division.cuh), else divided the general way. What tells is scalar
// where the program's shape bounds its dividends, and a test of all elements where it does not.
#include <algorithm>

#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

namespace {

using ir::Op;

constexpr int kDepth = 8;  ///< of scalar expressions looked at

bool is_sum_of(const ir::Function& fn, const ir::Inst& inst, ir::ValueId tile) {
    return inst.op == Op::reduce && fn.operands(inst)[0] == tile &&
           static_cast<ir::ReduceKind>(fn.attrs(inst)[0]) == ir::ReduceKind::sum;
}

/// The sum of the tile's squares among what the scalar `v` is made of: it is there wherever `v` is.
std::optional<ir::ValueId> squares_in(const ir::Function& fn, ir::ValueId v, ir::ValueId tile, int depth) {
    const ir::Inst* def = fn.def(v);
    if (!def || depth == 0 || fn.type(v).shape.rank != 0) return std::nullopt;
    const auto operands = fn.operands(*def);
    if (def->op == Op::reduce) {
        const ir::Inst* product = fn.def(operands[0]);
        const bool square =
            product && product->op == Op::mul && fn.operands(*product)[0] == tile && fn.operands(*product)[1] == tile;
        return square && is_sum_of(fn, *def, operands[0]) ? std::optional(v) : std::nullopt;
    }
    if (!ir::has_trait(def->op, ir::ELEMWISE)) return std::nullopt;
    for (const ir::ValueId o : operands)
        if (const auto found = squares_in(fn, o, tile, depth - 1)) return found;
    return std::nullopt;
}

bool is_zero(const ir::Function& fn, ir::ValueId v) {
    const ir::Inst* def = fn.def(v);
    while (def && def->op == Op::broadcast) def = fn.def(fn.operands(*def)[0]);
    return def && def->op == Op::constant && fn.attrs(*def)[0] == 0;
}

/// The scalar that every element of the tile is a distance from, zeros that a choice puts elsewhere aside.
std::optional<ir::ValueId> origin_of(const ir::Function& fn, ir::ValueId tile) {
    const ir::Inst* def = fn.def(tile);
    if (def && def->op == Op::select && is_zero(fn, fn.operands(*def)[2])) def = fn.def(fn.operands(*def)[1]);
    const ir::Inst* taken = def && def->op == Op::sub ? fn.def(fn.operands(*def)[1]) : nullptr;
    if (!taken || taken->op != Op::broadcast) return std::nullopt;
    const ir::ValueId from = fn.operands(*taken)[0];
    return fn.type(from).shape.rank == 0 ? std::optional(from) : std::nullopt;
}

}  // namespace

/// A condition on scalars under which all elements of the dividend are moderate or zero; empty where none is known. A
/// sum of squares is no less than each of them, however it was rounded, so that a finite one leaves magnitudes below
/// 2^64; and where m is at least 2^-56, an f32 less m is 0 or at least 2^-80: both are multiples of that, or the one is
/// less than half of m.
std::string bounded_dividends(Lowering& ctx, ir::ValueId dividend, ir::ValueId divisor) {
    const auto origin = origin_of(ctx.fn, dividend);
    const ir::Inst* broadcast = ctx.fn.def(divisor);
    if (!origin || !broadcast || broadcast->op != Op::broadcast) return {};
    const auto squares = squares_in(ctx.fn, ctx.fn.operands(*broadcast)[0], dividend, kDepth);
    if (!squares) return {};
    const std::string sum = name(ctx, *squares);
    return "are_moderate_distances(" + name(ctx, *origin) + ", " + sum + ")";
}

/// Text that is true where all of the thread's dividends are moderate.
std::string moderate_dividends(Lowering& ctx, ir::ValueId dividend, const std::string& type) {
    const Ex dividends = array(ctx, type, "dividends", 0);
    each_register(ctx, dividend, [&](Ex r) {
        ctx.out.call(kernel::KernelOp::add_dividend, {dividends, element_at(ctx, dividend, r)});
    });
    return dividends + ".moderate()";
}

/// Zeros lie where a tile is wider than its row: somewhere in most single warps. Elsewhere they are rare, and a cheaper
/// test declines them first.
void test_dividends(Lowering& ctx, ir::InstId id, Ex moderate) {
    const auto in = ctx.fn.operands(ctx.fn.inst(id));
    const ir::Inst* divisor = ctx.fn.def(in[1]);
    while (divisor && (divisor->op == Op::broadcast || divisor->op == Op::reshape || divisor->op == Op::convert))
        divisor = ctx.fn.def(ctx.fn.operands(*divisor)[0]);
    const bool shares = divisor && is_sum_of(ctx.fn, *divisor, in[0]);
    // What are divided by their sum are hardly ever below zero.
    const std::string sign = shares ? "Positive" : "", without = sign + "Dividends", with_zeros = without + "OrZeros";
    const auto test = [&](kernel::AssignOp op) {
        const Ex all = raw(ctx, moderate_dividends(ctx, in[0], with_zeros));
        ctx.out.assign(moderate, all, op);
    };
    const std::string bounded = bounded_dividends(ctx, in[0], in[1]);
    if (bounded.empty() && ctx.fn.gpu->warps == 1) return test(kernel::AssignOp::bit_and);
    Ex known = raw(ctx, bounded);
    if (bounded.empty()) {
        const std::string name = ctx.out.fresh("without_zeros");
        const Ex all = raw(ctx, moderate_dividends(ctx, in[0], without));
        ctx.out.let("bool", name, all);
        known = named(ctx, name);
    }
    ctx.out.open_if(raw(ctx, moderate + " && !" + known.text()));
    test(kernel::AssignOp::set);
    ctx.out.close();
}

void find_shared_divisions(Lowering& ctx) {
    ctx.fn.walk([&](ir::InstId id) {
        const ir::Inst& inst = ctx.fn.inst(id);
        if (inst.op != Op::div || ctx.fn.type(ctx.fn.result(inst)).elem != Fmt::f32) return;
        const ir::Inst* divisor = ctx.fn.def(ctx.fn.operands(inst)[1]);
        if (divisor && divisor->op == Op::broadcast && !is_scalar(ctx, ctx.fn.result(inst)))
            ctx.plan.decide(KernelPass::shared_division, ctx.fn.result(inst));
    });
}

void divide_by_shared(Lowering& ctx, ir::InstId id) {
    const ir::ValueId to = ctx.fn.result(ctx.fn.inst(id));
    const auto in = ctx.fn.operands(ctx.fn.inst(id));
    ctx.formats.need("shared_division");
    const Ex moderate = variable(ctx, "bool", "moderate", ctx.pool.truth(true));
    each_register(ctx, to, [&](Ex r) {
        ctx.out.assign(moderate, raw(ctx, "is_shared_divisor(" + text_at(ctx, in[1], r) + ")"),
                       kernel::AssignOp::bit_and);
    });
    test_dividends(ctx, id, moderate);
    declare(ctx, to);
    ctx.out.open_if(moderate);
    each_register(ctx, to, [&](Ex r) {
        const std::string a = text_at(ctx, in[0], r), b = text_at(ctx, in[1], r);
        ctx.out.assign(element_at(ctx, to, r),
                       raw(ctx, "reciprocal_division(" + a + ", " + b + ", nearest_reciprocal(" + b + "))"));
    });
    ctx.out.otherwise();
    each_register(ctx, to, [&](Ex r) {
        ctx.out.assign(element_at(ctx, to, r),
                       raw(ctx, "any_division(" + text_at(ctx, in[0], r) + ", " + text_at(ctx, in[1], r) + ")"));
    });
    ctx.out.close();
}

}  // namespace tegula::lower
