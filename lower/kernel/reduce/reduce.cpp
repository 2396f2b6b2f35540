// reduce and contract. In registers, lanes and warps where the layout allows (reduce/joined.cpp); otherwise the operand
// goes row-major through scratch, converted to the result's format, and the fixed tree runs there level by level.
#include <algorithm>

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

std::string to_result(Lowering& ctx, ir::ValueId result, ir::ValueId operand, const std::string& element) {
    if (ctx.fn.type(result).elem == ctx.fn.type(operand).elem) return element;
    return ctx.formats.cast(ctx.fn.elem(result), ctx.fn.elem(operand), element);
}

void lower_reduce(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId from = ctx.fn.operands(inst)[0], to = ctx.fn.result(inst);
    const auto attrs = ctx.fn.attrs(inst);
    const auto kind = static_cast<ReduceKind>(attrs[0]);
    if (is_scalar(ctx, from)) return assign(ctx, to, [&](Ex) { return to_result(ctx, to, from, name(ctx, from)); });
    const bool ordered = reduce_is_ordered(kind, ctx.fn.elem(to)), chain = attrs[1] == 1 && ordered;
    if (scratch_plan(ctx.fn, id).operand[0] >= 0) return chain ? reduce_chain(ctx, id) : reduce_tree(ctx, id);
    if (chain) return reduce_chain(ctx, id);
    reduce_direct(ctx, id,
                  *plan_reduce(layout(ctx, from), static_cast<int>(attrs[2]), ordered,
                               is_scalar(ctx, to) ? nullptr : &layout(ctx, to)));
}

void reduce_direct(Lowering& ctx, ir::InstId id, const ReducePlan& plan) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId from = ctx.fn.operands(inst)[0], to = ctx.fn.result(inst);
    const auto kind = static_cast<ReduceKind>(ctx.fn.attrs(inst)[0]);
    const int64_t axis = ctx.fn.attrs(inst)[2];
    const Format& f = ctx.fn.elem(to);
    declare(ctx, to, Declared::reduced);
    ctx.out.open_block();
    Joined joined;
    joined.names = {ctx.out.fresh("x")};
    joined.types = {type_of(ctx, to)};
    joined.join = [&](const std::vector<std::string>& a, const std::vector<std::string>& b) {
        ctx.out.assign(raw(ctx, a[0]), raw(ctx, ctx.formats.combine(kind, f, a[0], b[0])));
    };
    ctx.out.declare(joined.types[0], joined.names[0], registers(ctx, from));
    if (const std::string pairs = pair_joining(ctx, id, plan); !pairs.empty()) {
        reduce_joined(ctx, id, joined_pairs(ctx, id, plan, pairs, joined), joined);
    } else {
        const std::string identity = plan.fill ? ctx.formats.literal(f, *reduce_identity(kind, f)) : "";
        each_register(ctx, from, [&](Ex r) {
            std::string value = to_result(ctx, to, from, text_at(ctx, from, r));
            if (plan.fill) {
                value = chosen(is_element(ctx, layout(ctx, from), axis, r), value, identity);
            }
            ctx.out.assign(element(ctx, joined.names[0], r), raw(ctx, value));
        });
        reduce_joined(ctx, id, plan, joined);
    }
    each_register(ctx, to, [&](Ex r) {
        assign_to(ctx, to, r,
                  joined.names[0] + "[" +
                      (is_scalar(ctx, to) ? ctx.pool.number(0) : rename(ctx, plan.results, r)).text() + "]");
    });
    ctx.out.close();
}

Ex line_start(Lowering& ctx, const Axis& lines, ir::ValueId to, Ex r) {
    const std::string out = ctx.out.fresh("base");
    ctx.out.let("int", out,
                ctx.pool.select(is_real(ctx, to, r), line_base(lines, number_at(ctx, to, r)), ctx.pool.number(0)));
    return ctx.pool.name(kernel::Type::i32, out);
}

Ex is_element(Lowering& ctx, const TileLayout& l, int64_t axis, Ex r) {
    return axis < 0 ? inside(ctx, l, r)
                    : lt(coordinate(ctx, l, static_cast<int>(axis), r), l.shape[static_cast<size_t>(axis)]);
}

/// Ascending: over registers that one thread holds, or over scratch, by every thread that needs the result.
void reduce_chain(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId from = ctx.fn.operands(inst)[0], to = ctx.fn.result(inst);
    const auto kind = static_cast<ReduceKind>(ctx.fn.attrs(inst)[0]);
    const int64_t axis = ctx.fn.attrs(inst)[2];
    const Format& f = ctx.fn.elem(to);
    const ScratchPlan plan = scratch_plan(ctx.fn, id);
    declare(ctx, to, Declared::reduced);
    if (plan.operand[0] < 0) {
        const AxisRegisters rows = *axis_registers(layout(ctx, from), static_cast<int>(axis));
        const std::vector<int> results = plan_reduce(layout(ctx, from), static_cast<int>(axis), false,
                                                     is_scalar(ctx, to) ? nullptr : &layout(ctx, to))
                                             ->results;
        for (size_t r = 0; r < results.size(); ++r) {
            const auto row =
                static_cast<size_t>(std::find(rows.first.begin(), rows.first.end(), results[r]) - rows.first.begin());
            TEGULA_CHECK(row < rows.along.size());
            const std::string acc = text_at(ctx, to, ctx.pool.number(static_cast<int64_t>(r)));
            for (size_t k = 0; k < rows.along[row].size(); ++k) {
                const std::string x = to_result(ctx, to, from, text_at(ctx, from, ctx.pool.number(rows.along[row][k])));
                ctx.out.assign(raw(ctx, acc), raw(ctx, k ? ctx.formats.combine(kind, f, acc, x) : x));
            }
        }
        return;
    }
    const Axis lines(ctx.fn.type(from).shape, axis);
    ctx.out.open_block();
    const std::string s = scratch_area(ctx, id, type_of(ctx, to), plan.operand[0]);
    stage(ctx, from, s, [&](const std::string& x) { return to_result(ctx, to, from, x); });
    sync(ctx);
    each_register(ctx, to, [&](Ex r) {
        const std::string acc = ctx.out.fresh("acc"), k_name = ctx.out.fresh("k");
        const Ex base = line_start(ctx, lines, to, r);
        ctx.out.var(type_of(ctx, to), acc, element(ctx, s, base));
        const Ex k = open_rolled(ctx, k_name, ctx.pool.number(1), ctx.pool.number(lines.n));
        const std::string next = element(ctx, s, base + k * lines.inner).text();
        ctx.out.assign(named(ctx, acc), raw(ctx, ctx.formats.combine(kind, f, acc, next)));
        ctx.out.close();
        assign_to(ctx, to, r, acc);
    });
    ctx.out.close();
}

Ex open_halves(Lowering& ctx, const std::string& name, int64_t half) {
    const Ex counter = int32(ctx, name);
    ctx.out.open_for({"int",
                      name,
                      ctx.pool.number(half),
                      gt(counter, 0),
                      {{counter, ctx.pool.number(1), kernel::AssignOp::shift_right}},
                      1});
    return counter;
}

/// Level by level in place: x[i] = op(x[i], x[i + s]) where i + s < n.
void reduce_tree(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId from = ctx.fn.operands(inst)[0], to = ctx.fn.result(inst);
    const auto kind = static_cast<ReduceKind>(ctx.fn.attrs(inst)[0]);
    const Format& f = ctx.fn.elem(to);
    const Axis lines(ctx.fn.type(from).shape, ctx.fn.attrs(inst)[2]);
    declare(ctx, to, Declared::reduced);
    ctx.out.open_block();
    const std::string s = scratch_area(ctx, id, type_of(ctx, to), scratch_plan(ctx.fn, id).operand[0]);
    stage(ctx, from, s, [&](const std::string& x) { return to_result(ctx, to, from, x); });
    sync(ctx);
    int64_t half = 1;
    while (half * 2 < lines.n) half *= 2;
    if (lines.n > 1) {
        const std::string h_name = ctx.out.fresh("half"), pairs_name = ctx.out.fresh("pairs"),
                          e_name = ctx.out.fresh("e"), a_name = ctx.out.fresh("a");
        const Ex pairs = int32(ctx, pairs_name), e = int32(ctx, e_name), a = int32(ctx, a_name),
                 h = open_halves(ctx, h_name, half);
        ctx.out.let("int", pairs_name, joined_at(h, lines));
        ctx.out.open_for(
            {"int", e_name, ctx.thread, lt(e, pairs * lines.lines()), {counted(e, group_threads(ctx))}, 1});
        // Neighbouring threads take neighbouring elements: the inner dimension first, then the axis.
        ctx.out.let("int", a_name, first_of_pair(lines, e, pairs));
        const Ex x = element(ctx, s, a), other = element(ctx, s, a + h * lines.inner);
        ctx.out.assign(x, raw(ctx, ctx.formats.combine(kind, f, x.text(), other.text())));
        ctx.out.close();
        sync(ctx);
        ctx.out.close();
    }
    fill(ctx, to, [&](Ex r) { return s + "[" + line_base(lines, number_at(ctx, to, r)).text() + "]"; });
    ctx.out.close();
}

void contract_direct(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const auto in = ctx.fn.operands(inst);
    const ir::ValueId to = ctx.fn.result(inst);
    const int axis = static_cast<int>(ctx.fn.attrs(inst)[0]);
    const AxisRegisters rows = *axis_registers(layout(ctx, in[0]), axis);
    const std::vector<int> results =
        plan_reduce(layout(ctx, in[0]), axis, false, is_scalar(ctx, to) ? nullptr : &layout(ctx, to))->results;
    const std::string zero = ctx.formats.literal(ctx.fn.elem(to), encode(ctx.fn.elem(to), 0.0));
    declare(ctx, to, Declared::reduced);
    for (size_t r = 0; r < results.size(); ++r) {
        const auto row =
            static_cast<size_t>(std::find(rows.first.begin(), rows.first.end(), results[r]) - rows.first.begin());
        TEGULA_CHECK(row < rows.along.size());
        const std::string acc = text_at(ctx, to, ctx.pool.number(static_cast<int64_t>(r)));
        ctx.out.assign(raw(ctx, acc), raw(ctx, zero));
        for (int k : rows.along[row]) {
            const std::string a = to_result(ctx, to, in[0], text_at(ctx, in[0], ctx.pool.number(k))),
                              b = to_result(ctx, to, in[1], text_at(ctx, in[1], ctx.pool.number(k)));
            ctx.out.assign(raw(ctx, acc), raw(ctx, ctx.formats.fma(ctx.fn.elem(to), a, b, acc)));
        }
    }
}

void lower_contract(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const auto in = ctx.fn.operands(inst);
    const ir::ValueId to = ctx.fn.result(inst);
    const ScratchPlan plan = scratch_plan(ctx.fn, id);
    if (plan.operand[0] < 0) return contract_direct(ctx, id);
    const Axis lines(ctx.fn.type(in[0]).shape, ctx.fn.attrs(inst)[0]);
    declare(ctx, to, Declared::reduced);
    ctx.out.open_block();
    std::string s[2];
    for (size_t i = 0; i < 2; ++i) {
        s[i] = scratch_area(ctx, id, type_of(ctx, to), plan.operand[i]);
        stage(ctx, in[i], s[i], [&](const std::string& x) { return to_result(ctx, to, in[i], x); });
    }
    sync(ctx);
    each_register(ctx, to, [&](Ex r) {
        const std::string acc = ctx.out.fresh("acc"), k_name = ctx.out.fresh("k");
        const Ex base = line_start(ctx, lines, to, r);
        ctx.out.var(type_of(ctx, to), acc,
                    raw(ctx, ctx.formats.literal(ctx.fn.elem(to), encode(ctx.fn.elem(to), 0.0))));
        const Ex k = open_rolled(ctx, k_name, ctx.pool.number(0), ctx.pool.number(lines.n)),
                 at = base + k * lines.inner;
        ctx.out.assign(named(ctx, acc), raw(ctx, ctx.formats.fma(ctx.fn.elem(to), element(ctx, s[0], at).text(),
                                                                 element(ctx, s[1], at).text(), acc)));
        ctx.out.close();
        assign_to(ctx, to, r, acc);
    });
    ctx.out.close();
}

}  // namespace tegula::lower
