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
    ctx.out.open_block();
    const std::string s = stage_operands(ctx, id)[0], type = key_type(f), key = order_key(ctx, f, false);
    const std::string keys = scratch_area(ctx, id, type, plan.work[0]),
                      order = scratch_area(ctx, id, "int", plan.work[1]);
    sync(ctx);
    // Pairs of line c are [c * width, (c + 1) * width).
    const std::string e_name = ctx.out.fresh("e"), k_name = ctx.out.fresh("k");
    const Ex e = open_elements(ctx, e_name, width * lines.lines()), k = int32(ctx, k_name);
    ctx.out.let("int", k_name, e % width);
    const Ex place = line_base(lines, e / width) + k * lines.inner;
    ctx.out.assign(
        element(ctx, keys, e),
        raw(ctx, chosen(lt(k, lines.n), (descending ? "~" : "") + key + "(" + element(ctx, s, place).text() + ")",
                        "~(" + type + ")0")));
    ctx.out.assign(element(ctx, order, e), k);
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
    const std::string size_name = ctx.out.fresh("size"), step_name = ctx.out.fresh("step"), e_name = ctx.out.fresh("e");
    const Ex size = int32(ctx, size_name), step = int32(ctx, step_name);
    ctx.out.open_for({"int",
                      size_name,
                      ctx.pool.number(2),
                      le(size, width),
                      {{size, ctx.pool.number(2), kernel::AssignOp::multiply}},
                      1});
    ctx.out.open_for(
        {"int", step_name, size / 2, gt(step, 0), {{step, ctx.pool.number(2), kernel::AssignOp::divide}}, 1});
    const std::string e = open_elements(ctx, e_name, width / 2 * columns).text();
    // a: the pair whose bit `step` is clear.
    ctx.out.let("int", "a", raw(ctx, "(" + e + " & ~(" + step + " - 1)) * 2 + (" + e + " & (" + step + " - 1))"));
    const Ex a = int32(ctx, "a"), b = int32(ctx, "b");
    ctx.out.let("int", "b", a + step);
    const auto load = [&](const std::string& of, const char* name, const std::string& array, Ex at) {
        ctx.out.let(of, name, element(ctx, array, at));
    };
    load(type, "x", keys, a);
    load(type, "y", keys, b);
    load("int", "i", order, a);
    load("int", "j", order, b);
    ctx.out.let("bool", "up", raw(ctx, "(a & " + size + ") == 0 || " + size + " == " + std::to_string(width)));
    ctx.out.let("bool", "after", raw(ctx, "(x > y) | ((x == y) & (i > j))"));
    ctx.out.open_if(raw(ctx, "up == after"));
    ctx.out.assign(element(ctx, keys, a), named(ctx, "y"));
    ctx.out.assign(element(ctx, keys, b), named(ctx, "x"));
    ctx.out.assign(element(ctx, order, a), named(ctx, "j"));
    ctx.out.assign(element(ctx, order, b), named(ctx, "i"));
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
    ctx.out.open_block();
    const std::vector<std::string> pointers = stage_operands(ctx, id);
    const std::string counts = scratch_area(ctx, id, "int", scratch_plan(ctx.fn, id).work[0]);
    const Ex e = open_elements(ctx, ctx.out.fresh("e"), bins);
    ctx.out.assign(element(ctx, counts, e), ctx.pool.number(0));
    ctx.out.close();
    sync(ctx);
    each_register(ctx, in[0], [&](Ex r) {
        Ex condition = stores(ctx, in[0], r);
        if (in.size() > 1)
            condition = both(condition, staged(ctx, in[1], pointers[1], in[0], r, number_at(ctx, in[0], r)));
        const std::string v = ctx.out.fresh("v");
        // Negative values are huge.
        const bool sign = ctx.fn.elem(in[0]).is_signed;
        ctx.out.let(
            "unsigned long long", v,
            raw(ctx, std::string("(unsigned long long)") + (sign ? "(long long)" : "") + text_at(ctx, in[0], r)));
        const Ex bin = ctx.pool.name(kernel::Type::u64, v);
        ctx.out.when(both(condition, lt(bin, bins)));
        ctx.out.call(kernel::KernelOp::atomic,
                     {named(ctx, "atomicAdd"), raw(ctx, "&" + element(ctx, counts, u32(bin))), ctx.pool.number(1)});
    });
    sync(ctx);
    fill(ctx, to, [&](Ex r) { return counts + "[" + number_at(ctx, to, r).text() + "]"; });
    ctx.out.close();
}

}  // namespace tegula::lower
