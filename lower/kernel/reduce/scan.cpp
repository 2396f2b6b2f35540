// scan: ascending (or descending) chains along an axis, in a thread's registers where it holds whole lines, otherwise
// one thread per line in scratch.
#include <algorithm>

#include "lang/gpu/scratch.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/reduce/lines.h"
#include "lower/kernel/reduce/reduce.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

void lower_scan(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId from = ctx.fn.operands(inst)[0], to = ctx.fn.result(inst);
    const auto attrs = ctx.fn.attrs(inst);
    const auto kind = static_cast<ir::ReduceKind>(attrs[0]);
    const bool reverse = attrs[2] != 0;
    const Format& f = ctx.fn.elem(to);
    const ScratchPlan plan = scratch_plan(ctx.fn, id);
    declare(ctx, to);
    if (plan.operand[0] < 0) {
        each_register(ctx, to, [&](Ex r) { assign_to(ctx, to, r, to_result(ctx, to, from, text_at(ctx, from, r))); });
        const AxisRegisters rows = *axis_registers(layout(ctx, from), static_cast<int>(attrs[1]));
        for (std::vector<int> row : rows.along) {
            if (reverse) std::reverse(row.begin(), row.end());
            for (size_t k = 1; k < row.size(); ++k) {
                const std::string x = text_at(ctx, to, ctx.pool.number(row[k])),
                                  before = text_at(ctx, to, ctx.pool.number(row[k - 1]));
                ctx.out.assign(raw(ctx, x), raw(ctx, ctx.formats.combine(kind, f, before, x)));
            }
        }
        return;
    }
    const Axis lines(ctx.fn.type(from).shape, attrs[1]);
    ctx.out.open_block();
    const std::string s = scratch_area(ctx, id, type_of(ctx, to), plan.operand[0]);
    stage(ctx, from, s, [&](const std::string& x) { return to_result(ctx, to, from, x); });
    sync(ctx);
    const std::string c_name = ctx.out.fresh("c"), base_name = ctx.out.fresh("base"), acc = ctx.out.fresh("acc"),
                      k_name = ctx.out.fresh("k"), place_name = ctx.out.fresh("place");
    const Ex c = open_elements(ctx, c_name, lines.lines()), base = int32(ctx, base_name);
    ctx.out.let("int", base_name, line_base(lines, c));
    ctx.out.var(type_of(ctx, to), acc, element(ctx, s, base + (reverse ? (lines.n - 1) * lines.inner : 0)));
    const Ex k = open_rolled(ctx, k_name, ctx.pool.number(1), ctx.pool.number(lines.n)),
             number = reverse ? ctx.pool.number(lines.n - 1) - k : k;
    ctx.out.let("int", place_name, base + number * lines.inner);
    const Ex place = element(ctx, s, int32(ctx, place_name));
    ctx.out.assign(named(ctx, acc), raw(ctx, ctx.formats.combine(kind, f, acc, place.text())));
    ctx.out.assign(place, named(ctx, acc));
    ctx.out.close();
    ctx.out.close();
    sync(ctx);
    fill(ctx, to, [&](Ex r) { return s + "[" + number_at(ctx, to, r).text() + "]"; });
    ctx.out.close();
}

}  // namespace tegula::lower
