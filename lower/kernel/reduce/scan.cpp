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
        each_register(ctx, to, [&](Ex r) { assign_to(ctx, to, r, to_result(ctx, to, from, at(ctx, from, r))); });
        const AxisRegisters rows = *axis_registers(layout(ctx, from), static_cast<int>(attrs[1]));
        for (std::vector<int> row : rows.along) {
            if (reverse) std::reverse(row.begin(), row.end());
            for (size_t k = 1; k < row.size(); ++k) {
                const std::string x = at(ctx, to, ctx.pool.number(row[k]));
                ctx.out.line(x + " = " + ctx.formats.combine(kind, f, at(ctx, to, ctx.pool.number(row[k - 1])), x) +
                             ";");
            }
        }
        return;
    }
    const Axis lines(ctx.fn.type(from).shape, attrs[1]);
    ctx.out.open("");
    const std::string s = scratch_area(ctx, id, type_of(ctx, to), plan.operand[0]);
    stage(ctx, from, s, [&](const std::string& x) { return to_result(ctx, to, from, x); });
    sync(ctx);
    const std::string c = ctx.out.fresh("c"), base = ctx.out.fresh("base"), acc = ctx.out.fresh("acc"),
                      k = ctx.out.fresh("k"), place = ctx.out.fresh("place");
    open_elements(ctx, c, lines.lines());
    ctx.out.line("const int " + base + " = " + line_base(lines, int32(ctx, c)).text() + ";");
    const std::string first = reverse ? std::to_string((lines.n - 1) * lines.inner) : "0";
    ctx.out.line(type_of(ctx, to) + " " + acc + " = " + s + "[" + base + " + " + first + "];");
    ctx.out.line("#pragma unroll 1");
    ctx.out.open("for (int " + k + " = 1; " + k + " < " + std::to_string(lines.n) + "; ++" + k + ")");
    const std::string number = reverse ? "(" + std::to_string(lines.n - 1) + " - " + k + ")" : k;
    ctx.out.line("const int " + place + " = " + base + " + " + number + " * " + std::to_string(lines.inner) + ";");
    ctx.out.line(acc + " = " + ctx.formats.combine(kind, f, acc, s + "[" + place + "]") + ";");
    ctx.out.line(s + "[" + place + "] = " + acc + ";");
    ctx.out.close();
    ctx.out.close();
    sync(ctx);
    fill(ctx, to, [&](Ex r) { return s + "[" + number_at(ctx, to, r).text() + "]"; });
    ctx.out.close();
}

}  // namespace tegula::lower
