// sort and histogram through scratch. sort: a bitonic network over (key, index) pairs, which are all different, so that
// it is stable; lines are padded to a power of two with pairs that come last.
#include <bit>

#include "lang/gpu/scratch.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/reduce/lines.h"
#include "lower/kernel/reduce/reduce.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

void lower_sort(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId from = ctx.fn.operands(inst)[0];
    const bool descending = ctx.fn.attrs(inst)[1] != 0;
    const Format& f = ctx.fn.elem(from);
    const Axis lines(ctx.fn.type(from).shape, ctx.fn.attrs(inst)[0]);
    const auto width = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(lines.n)));
    const ScratchPlan plan = scratch_plan(ctx.fn, id);
    for (uint32_t n = 0; n < 2; ++n) declare(ctx, ctx.fn.result(inst, n));
    ctx.out.open("");
    const std::string s = stage_operands(ctx, id)[0], type = key_type(f), key = order_key(ctx, f, false);
    const std::string keys = scratch_area(ctx, id, type, plan.work[0]),
                      order = scratch_area(ctx, id, "int", plan.work[1]);
    sync(ctx);
    // Pairs of line c are [c * width, (c + 1) * width).
    const std::string e = ctx.out.fresh("e"), k = ctx.out.fresh("k");
    open_elements(ctx, e, width * lines.lines());
    ctx.out.line("const int " + k + " = " + e + " % " + std::to_string(width) + ";");
    const Ex place = line_base(lines, int32(ctx, e) / width) + int32(ctx, k) * lines.inner;
    const std::string element = s + "[" + place.text() + "]";
    ctx.out.line(keys + "[" + e + "] = " + k + " < " + std::to_string(lines.n) + " ? " + (descending ? "~" : "") + key +
                 "(" + element + ") : ~(" + type + ")0;");
    ctx.out.line(order + "[" + e + "] = " + k + ";");
    ctx.out.close();
    sync(ctx);
    if (width > 1) sort_network(ctx, width, lines.lines(), keys, order, type);
    for (uint32_t n = 0; n < 2; ++n) {
        const ir::ValueId to = ctx.fn.result(inst, n);
        fill(ctx, to, [&](Ex r) {
            const Ex i = number_at(ctx, to, r), column = i / (lines.n * lines.inner) * lines.inner + i % lines.inner;
            const Ex place = ctx.pool.index(kernel::Type::i32, ctx.pool.name(kernel::Type::other, order),
                                            column * width + i / lines.inner % lines.n);
            return n ? place.text() : s + "[" + (line_base(lines, column) + place * lines.inner).text() + "]";
        });
    }
    ctx.out.close();
}

/// Ascending by (key, index) in every line of `width` pairs.
void sort_network(Lowering& ctx, int64_t width, int64_t columns, const std::string& keys, const std::string& order,
                  const std::string& type) {
    const std::string size = ctx.out.fresh("size"), step = ctx.out.fresh("step"), e = ctx.out.fresh("e");
    ctx.out.line("#pragma unroll 1");
    ctx.out.open("for (int " + size + " = 2; " + size + " <= " + std::to_string(width) + "; " + size + " *= 2)");
    ctx.out.line("#pragma unroll 1");
    ctx.out.open("for (int " + step + " = " + size + " / 2; " + step + " > 0; " + step + " /= 2)");
    open_elements(ctx, e, width / 2 * columns);
    // a: the pair whose bit `step` is clear.
    ctx.out.line("const int a = (" + e + " & ~(" + step + " - 1)) * 2 + (" + e + " & (" + step + " - 1)), b = a + " +
                 step + ";");
    ctx.out.line("const " + type + " x = " + keys + "[a], y = " + keys + "[b];");
    ctx.out.line("const int i = " + order + "[a], j = " + order + "[b];");
    ctx.out.line("const bool up = (a & " + size + ") == 0 || " + size + " == " + std::to_string(width) +
                 ", after = (x > y) | ((x == y) & (i > j));");
    ctx.out.open("if (up == after)");
    ctx.out.line(keys + "[a] = y;");
    ctx.out.line(keys + "[b] = x;");
    ctx.out.line(order + "[a] = j;");
    ctx.out.line(order + "[b] = i;");
    ctx.out.close();
    ctx.out.close();
    sync(ctx);
    ctx.out.close();
    ctx.out.close();
}

void lower_histogram(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const auto in = ctx.fn.operands(inst);
    const ir::ValueId to = ctx.fn.result(inst);
    const int64_t bins = ctx.fn.type(to).shape.elements();
    declare(ctx, to);
    ctx.out.open("");
    const std::vector<std::string> pointers = stage_operands(ctx, id);
    const std::string counts = scratch_area(ctx, id, "int", scratch_plan(ctx.fn, id).work[0]), e = ctx.out.fresh("e");
    open_elements(ctx, e, bins);
    ctx.out.line(counts + "[" + e + "] = 0;");
    ctx.out.close();
    sync(ctx);
    each_register(ctx, in[0], [&](Ex r) {
        Ex condition = stores(ctx, in[0], r);
        if (in.size() > 1)
            condition = both(condition, staged(ctx, in[1], pointers[1], in[0], r, number_at(ctx, in[0], r)));
        const std::string v = ctx.out.fresh("v");
        // Negative values are huge.
        const bool sign = ctx.fn.elem(in[0]).is_signed;
        ctx.out.line("const unsigned long long " + v + " = (unsigned long long)" + (sign ? "(long long)" : "") +
                     at(ctx, in[0], r) + ";");
        line_if(ctx, both(condition, lt(ctx.pool.name(kernel::Type::u64, v), bins)),
                "atomicAdd(&" + counts + "[(unsigned)" + v + "], 1);");
    });
    sync(ctx);
    fill(ctx, to, [&](Ex r) { return counts + "[" + number_at(ctx, to, r).text() + "]"; });
    ctx.out.close();
}

}  // namespace tegula::lower
