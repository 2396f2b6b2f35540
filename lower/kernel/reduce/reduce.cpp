// reduce and contract. In registers, lanes and warps where the layout allows (reduce/joined.cpp); otherwise the operand
// goes row-major through scratch, converted to the result's format, and the fixed tree runs there level by level.
#include <algorithm>

#include "lang/gpu/scratch.h"
#include "lang/joining.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/reduce/lines.h"
#include "lower/kernel/reduce/reduce.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::ReduceKind;

std::string to_result(Lowering& ctx, ir::ValueId result, ir::ValueId operand, const std::string& element) {
    if (ctx.fn.type(result).elem == ctx.fn.type(operand).elem) return element;
    return ctx.formats.cast(ctx.fn.elem(result), ctx.fn.elem(operand), element, Round::rne, Overflow::automatic);
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
    declare(ctx, to);
    ctx.out.open("");
    Joined joined;
    joined.names = {ctx.out.fresh("x")};
    joined.types = {type_of(ctx, to)};
    joined.join = [&](const std::vector<std::string>& a, const std::vector<std::string>& b) {
        ctx.out.line(a[0] + " = " + ctx.formats.combine(kind, f, a[0], b[0]) + ";");
    };
    ctx.out.line(joined.types[0] + " " + joined.names[0] + "[" + std::to_string(registers(ctx, from)) + "];");
    if (const std::string pairs = pair_joining(ctx, id, plan); !pairs.empty()) {
        reduce_joined(ctx, id, joined_pairs(ctx, id, plan, pairs, joined), joined);
    } else {
        const std::string identity = plan.fill ? ctx.formats.literal(f, *reduce_identity(kind, f)) : "";
        each_register(ctx, from, [&](Ex r) {
            std::string value = to_result(ctx, to, from, at(ctx, from, r));
            if (plan.fill) {
                value = chosen(is_element(ctx, layout(ctx, from), axis, r), value, identity);
            }
            ctx.out.line(joined.names[0] + "[" + r + "] = " + value + ";");
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

std::string line_start(Lowering& ctx, const Axis& lines, ir::ValueId to, Ex r) {
    const std::string out = ctx.out.fresh("base");
    ctx.out.line(
        "const int " + out + " = " +
        ctx.pool.select(is_real(ctx, to, r), line_base(lines, number_at(ctx, to, r)), ctx.pool.number(0)).text() + ";");
    return out;
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
    declare(ctx, to);
    if (plan.operand[0] < 0) {
        const AxisRegisters rows = *axis_registers(layout(ctx, from), static_cast<int>(axis));
        const std::vector<int> results = plan_reduce(layout(ctx, from), static_cast<int>(axis), false,
                                                     is_scalar(ctx, to) ? nullptr : &layout(ctx, to))
                                             ->results;
        for (size_t r = 0; r < results.size(); ++r) {
            const auto row =
                static_cast<size_t>(std::find(rows.first.begin(), rows.first.end(), results[r]) - rows.first.begin());
            TEGULA_CHECK(row < rows.along.size());
            const std::string acc = at(ctx, to, ctx.pool.number(static_cast<int64_t>(r)));
            for (size_t k = 0; k < rows.along[row].size(); ++k) {
                const std::string x = to_result(ctx, to, from, at(ctx, from, ctx.pool.number(rows.along[row][k])));
                ctx.out.line(acc + " = " + (k ? ctx.formats.combine(kind, f, acc, x) : x) + ";");
            }
        }
        return;
    }
    const Axis lines(ctx.fn.type(from).shape, axis);
    ctx.out.open("");
    const std::string s = scratch_area(ctx, id, type_of(ctx, to), plan.operand[0]);
    stage(ctx, from, s, [&](const std::string& x) { return to_result(ctx, to, from, x); });
    sync(ctx);
    each_register(ctx, to, [&](Ex r) {
        const std::string acc = ctx.out.fresh("acc"), k = ctx.out.fresh("k"), base = line_start(ctx, lines, to, r);
        ctx.out.line(type_of(ctx, to) + " " + acc + " = " + s + "[" + base + "];");
        ctx.out.line("#pragma unroll 1");
        ctx.out.open("for (int " + k + " = 1; " + k + " < " + std::to_string(lines.n) + "; ++" + k + ")");
        ctx.out.line(
            acc + " = " +
            ctx.formats.combine(kind, f, acc, s + "[" + base + " + " + k + " * " + std::to_string(lines.inner) + "]") +
            ";");
        ctx.out.close();
        assign_to(ctx, to, r, acc);
    });
    ctx.out.close();
}

/// Level by level in place: x[i] = op(x[i], x[i + s]) where i + s < n.
void reduce_tree(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId from = ctx.fn.operands(inst)[0], to = ctx.fn.result(inst);
    const auto kind = static_cast<ReduceKind>(ctx.fn.attrs(inst)[0]);
    const Format& f = ctx.fn.elem(to);
    const Axis lines(ctx.fn.type(from).shape, ctx.fn.attrs(inst)[2]);
    declare(ctx, to);
    ctx.out.open("");
    const std::string s = scratch_area(ctx, id, type_of(ctx, to), scratch_plan(ctx.fn, id).operand[0]);
    stage(ctx, from, s, [&](const std::string& x) { return to_result(ctx, to, from, x); });
    sync(ctx);
    int64_t half = 1;
    while (half * 2 < lines.n) half *= 2;
    if (lines.n > 1) {
        const std::string h = ctx.out.fresh("half"), pairs = ctx.out.fresh("pairs"), e = ctx.out.fresh("e"),
                          a = ctx.out.fresh("a");
        const std::string columns = std::to_string(lines.lines());
        ctx.out.line("#pragma unroll 1");
        ctx.out.open("for (int " + h + " = " + std::to_string(half) + "; " + h + " > 0; " + h + " >>= 1)");
        ctx.out.line("const int " + pairs + " = " + h + " < " + std::to_string(lines.n) + " - " + h + " ? " + h +
                     " : " + std::to_string(lines.n) + " - " + h + ";");
        ctx.out.line("#pragma unroll 1");
        ctx.out.open("for (int " + e + " = t; " + e + " < " + pairs + " * " + columns + "; " + e +
                     " += " + std::to_string(group_threads(ctx)) + ")");
        // Neighbouring threads take neighbouring elements: the inner dimension first, then the axis.
        const std::string inner = std::to_string(lines.inner);
        ctx.out.line("const int " + a + " = " + e + " / (" + pairs + " * " + inner + ") * " +
                     std::to_string(lines.n * lines.inner) + " + " + e + " % (" + pairs + " * " + inner + ");");
        const std::string x = s + "[" + a + "]";
        ctx.out.line(x + " = " + ctx.formats.combine(kind, f, x, s + "[" + a + " + " + h + " * " + inner + "]") + ";");
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
    declare(ctx, to);
    for (size_t r = 0; r < results.size(); ++r) {
        const auto row =
            static_cast<size_t>(std::find(rows.first.begin(), rows.first.end(), results[r]) - rows.first.begin());
        TEGULA_CHECK(row < rows.along.size());
        const std::string acc = at(ctx, to, ctx.pool.number(static_cast<int64_t>(r)));
        ctx.out.line(acc + " = " + zero + ";");
        for (int k : rows.along[row]) {
            const std::string a = to_result(ctx, to, in[0], at(ctx, in[0], ctx.pool.number(k))),
                              b = to_result(ctx, to, in[1], at(ctx, in[1], ctx.pool.number(k)));
            ctx.out.line(acc + " = " + ctx.formats.fma(ctx.fn.elem(to), a, b, acc) + ";");
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
    declare(ctx, to);
    ctx.out.open("");
    std::string s[2];
    for (size_t i = 0; i < 2; ++i) {
        s[i] = scratch_area(ctx, id, type_of(ctx, to), plan.operand[i]);
        stage(ctx, in[i], s[i], [&](const std::string& x) { return to_result(ctx, to, in[i], x); });
    }
    sync(ctx);
    each_register(ctx, to, [&](Ex r) {
        const std::string acc = ctx.out.fresh("acc"), k = ctx.out.fresh("k"), base = line_start(ctx, lines, to, r);
        ctx.out.line(type_of(ctx, to) + " " + acc + " = " +
                     ctx.formats.literal(ctx.fn.elem(to), encode(ctx.fn.elem(to), 0.0)) + ";");
        ctx.out.line("#pragma unroll 1");
        ctx.out.open("for (int " + k + " = 0; " + k + " < " + std::to_string(lines.n) + "; ++" + k + ")");
        const std::string at = "[" + base + " + " + k + " * " + std::to_string(lines.inner) + "]";
        ctx.out.line(acc + " = " + ctx.formats.fma(ctx.fn.elem(to), s[0] + at, s[1] + at, acc) + ";");
        ctx.out.close();
        assign_to(ctx, to, r, acc);
    });
    ctx.out.close();
}

}  // namespace tegula::lower
