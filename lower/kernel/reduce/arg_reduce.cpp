// arg_reduce, and the order that it and sort see: unsigned keys, -0 below +0, NaN at one end. The lowest index wins
// among equals, so that parts may be joined in any order.
#include "lang/gpu/scratch.h"
#include "lang/joining.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/reduce/lines.h"
#include "lower/kernel/reduce/reduce.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::ReduceKind;

std::string key_type(const Format& f) { return wide_key(f) ? "unsigned long long" : "unsigned"; }

std::string order_key(Lowering& ctx, const Format& f, bool nan_first) {
    const bool wide = wide_key(f);
    const std::string type = key_type(f), top = wide ? "0x8000000000000000ull" : "0x80000000u";
    std::string body;
    if (f.is_int() || f.is_bool() || f.kind == FormatKind::fixed) {
        const bool sign = f.is_signed && !f.is_bool();
        body = "return (" + type + ")" + (sign ? (wide ? "(long long)" : "(int)") : "") + "v" +
               (sign ? " ^ " + top : "") + ";";
    } else {
        ctx.formats.need("bits");
        const Format& real = ctx.fn.types().format(id_of(wide ? Fmt::f64 : Fmt::f32));
        const std::string value = f == real ? "v" : ctx.formats.cast(real, f, "v");
        body = std::string(wide ? "const double" : "const float") + " x = " + value + "; const " + type +
               " b = " + (wide ? "double_bits" : "float_bits") + "(x); return x != x ? " +
               (nan_first ? "0" : "~(" + type + ")0") + " : b & " + top + " ? ~b : b | " + top + ";";
    }
    return support(ctx, "key " + f.name + (nan_first ? " first" : " last"), "key",
                   "__device__ __forceinline__ " + type + " $(" + ctx.formats.type(f) + " v) { " + body + " }\n");
}

void lower_arg_reduce(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId from = ctx.fn.operands(inst)[0], value = ctx.fn.result(inst), index = ctx.fn.result(inst, 1);
    if (is_scalar(ctx, from)) {
        assign(ctx, value, [&](Ex) { return name(ctx, from); });
        return assign(ctx, index, [&](Ex) { return std::string("0"); });
    }
    if (scratch_plan(ctx.fn, id).operand[0] >= 0) return arg_reduce_staged(ctx, id);
    arg_reduce_direct(ctx, id,
                      *plan_reduce(layout(ctx, from), static_cast<int>(ctx.fn.attrs(inst)[1]), false,
                                   is_scalar(ctx, value) ? nullptr : &layout(ctx, value)));
}

void arg_reduce_direct(Lowering& ctx, ir::InstId id, const ReducePlan& plan) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId from = ctx.fn.operands(inst)[0], value = ctx.fn.result(inst), index = ctx.fn.result(inst, 1);
    const auto kind = static_cast<ReduceKind>(ctx.fn.attrs(inst)[0]);
    const int64_t axis = ctx.fn.attrs(inst)[1];
    const Format& f = ctx.fn.elem(from);
    const TileLayout& l = layout(ctx, from);
    const bool is_min = kind == ReduceKind::min;
    const std::string key = order_key(ctx, f, is_min), type = key_type(f);
    declare(ctx, value, Declared::reduced);
    declare(ctx, index, Declared::reduced);
    ctx.out.open_block();
    Joined joined;
    joined.names = {ctx.out.fresh("x"), ctx.out.fresh("at")};
    joined.types = {type_of(ctx, from), "int"};
    joined.join = [&](const std::vector<std::string>& a, const std::vector<std::string>& b) {
        ctx.out.open_block();
        ctx.out.let(type, "mine", raw(ctx, key + "(" + a[0] + ")"));
        ctx.out.let(type, "other", raw(ctx, key + "(" + b[0] + ")"));
        ctx.out.let("bool", "take",
                    raw(ctx, std::string("(other ") + (is_min ? "<" : ">") + " mine) | ((other == mine) & (" + b[1] +
                                 " < " + a[1] + "))"));
        for (size_t i = 0; i < 2; ++i) ctx.out.assign(raw(ctx, a[i]), raw(ctx, "take ? " + b[i] + " : " + a[i]));
        ctx.out.close();
    };
    for (size_t i = 0; i < 2; ++i) ctx.out.declare(joined.types[i], joined.names[i], registers(ctx, from));
    each_register(ctx, from, [&](Ex r) {
        const Ex i = axis < 0 ? logical_number(ctx, l, r) : coordinate(ctx, l, static_cast<int>(axis), r),
                 x = element(ctx, joined.names[0], r), place = element(ctx, joined.names[1], r);
        // A ghost may tie with an element, which then has the lower index.
        const Ex real = plan.fill ? is_element(ctx, l, axis, r) : ctx.pool.truth(true);
        const std::string rest = plan.fill ? ctx.formats.literal(f, *reduce_identity(kind, f)) : "";
        ctx.out.assign(x, raw(ctx, chosen(real, text_at(ctx, from, r), rest)));
        ctx.out.assign(place, raw(ctx, chosen(real, i.text(), "0x7fffffff")));
    });
    reduce_joined(ctx, id, plan, joined);
    each_register(ctx, value, [&](Ex r) {
        const std::string from_register =
            "[" + (is_scalar(ctx, value) ? ctx.pool.number(0) : rename(ctx, plan.results, r)).text() + "]";
        assign_to(ctx, value, r, joined.names[0] + from_register);
        assign_to(ctx, index, r, joined.names[1] + from_register);
    });
    ctx.out.close();
}

/// Every thread looks through the lines of its results.
void arg_reduce_staged(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId from = ctx.fn.operands(inst)[0];
    const bool is_min = static_cast<ReduceKind>(ctx.fn.attrs(inst)[0]) == ReduceKind::min;
    const Axis lines(ctx.fn.type(from).shape, ctx.fn.attrs(inst)[1]);
    const std::string key = order_key(ctx, ctx.fn.elem(from), is_min), type = key_type(ctx.fn.elem(from));
    for (uint32_t n = 0; n < 2; ++n) declare(ctx, ctx.fn.result(inst, n), Declared::reduced);
    ctx.out.open_block();
    const std::string s = stage_operands(ctx, id)[0];
    sync(ctx);
    for (uint32_t n = 0; n < 2; ++n) {
        const ir::ValueId to = ctx.fn.result(inst, n);
        each_register(ctx, to, [&](Ex r) {
            const Ex base = line_start(ctx, lines, to, r);
            const std::string best_name = ctx.out.fresh("best"), chosen_name = ctx.out.fresh("chosen");
            const Ex best = int32(ctx, best_name), chosen = named(ctx, chosen_name);
            const auto key_at = [&](Ex i) { return ctx.pool.call(kernel::Type::other, key, {element(ctx, s, i)}); };
            ctx.out.var("int", best_name, ctx.pool.number(0));
            ctx.out.var(type, chosen_name, key_at(base));
            const Ex k = open_rolled(ctx, ctx.out.fresh("k"), ctx.pool.number(1), ctx.pool.number(lines.n));
            ctx.out.let(type, "other", key_at(base + k * lines.inner));
            ctx.out.open_if(raw(ctx, std::string("other ") + (is_min ? "<" : ">") + " " + chosen_name));
            ctx.out.assign(chosen, named(ctx, "other"));
            ctx.out.assign(best, k);
            ctx.out.close();
            ctx.out.close();
            assign_to(ctx, to, r, (n ? best : element(ctx, s, base + best * lines.inner)).text());
        });
    }
    ctx.out.close();
}

}  // namespace tegula::lower
