// reduce_region and scan_region: the author's function as inlined statements in loops over scratch. Its joins neither
// commute nor associate, so the fixed tree and the chains are followed as they are.
#include <span>

#include "lang/gpu/scratch.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/reduce/lines.h"
#include "lower/kernel/reduce/reduce.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

namespace {

/// Does the body use scratch or barriers of its own? Then all threads must run it together.
bool meets_inside(const ir::Function& fn, ir::BlockId block) {
    for (ir::InstId id : fn.block(block).insts) {
        const GpuInst& gpu = fn.gpu_inst(id);
        if (gpu.scratch_offset >= 0 || gpu.sync_before) return true;
        for (ir::BlockId b : fn.blocks(fn.inst(id)))
            if (meets_inside(fn, b)) return true;
    }
    return false;
}

/// Element `number` of each array.
std::vector<Ex> elements(Lowering& ctx, std::span<const std::string> arrays, Ex number) {
    std::vector<Ex> out;
    for (const std::string& array : arrays) out.push_back(element(ctx, array, number));
    return out;
}

/// The block's statements with its arguments standing for variables; its yields go to `results`.
void region_body(Lowering& ctx, ir::BlockId id, std::span<const Ex> arguments, std::span<const Ex> results) {
    const ir::Block& body = ctx.fn.block(id);
    TEGULA_CHECK(body.args.size() == arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) ctx.values.names[body.args[i].v] = arguments[i].text();
    block(ctx, id);
    const auto yields = ctx.fn.operands(ctx.fn.inst(body.insts.back()));
    for (size_t i = 0; i < results.size(); ++i) ctx.out.assign(results[i], raw(ctx, name(ctx, yields[i])));
}

/// A strided loop over `count` elements; in a region that meets, threads beyond the end repeat element 0 and
/// keep nothing.
void region_loop(Lowering& ctx, Ex count, bool together, const std::function<void(Ex e, Ex keeps)>& body) {
    const std::string e_name = ctx.out.fresh("e");
    const Ex e = int32(ctx, e_name);
    const auto open = [&](const std::string& counter, Ex start) {
        const Ex i = int32(ctx, counter);
        ctx.out.open_for({"int", counter, start, lt(i, count), {counted(i, group_threads(ctx))}, 1});
    };
    if (!together) {
        open(e_name, ctx.thread);
        body(e, ctx.pool.truth(true));
        return ctx.out.close();
    }
    const std::string first = ctx.out.fresh("first");
    open(first, ctx.pool.number(0));
    const Ex own = int32(ctx, first) + ctx.thread, on = ctx.out.constant("on", lt(own, count));
    ctx.out.let("int", e_name, ctx.pool.select(on, own, ctx.pool.number(0)));
    body(e, on);
    ctx.out.close();
}

/// The author's function, and the tiles that it joins.
struct Region {
    ir::BlockId body;
    std::span<const ir::ValueId> tiles;
};

/// One application: results go through temporaries to their places.
void region_step(Lowering& ctx, const Region& region, std::span<const Ex> left, std::span<const Ex> right,
                 std::span<const Ex> to, Ex keeps) {
    const auto& [body, tiles] = region;
    std::vector<Ex> arguments, values;
    for (const auto side : {left, right})
        for (size_t i = 0; i < tiles.size(); ++i)
            arguments.push_back(constant(ctx, type_of(ctx, tiles[i]), "a", side[i]));
    for (const ir::ValueId tile : tiles) values.push_back(array(ctx, type_of(ctx, tile), "y", 0));
    region_body(ctx, body, arguments, values);
    if (!keeps.is_true()) ctx.out.open_if(keeps);
    for (size_t i = 0; i < tiles.size(); ++i) ctx.out.assign(to[i], values[i]);
    if (!keeps.is_true()) ctx.out.close();
}

}  // namespace

void lower_reduce_region(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const size_t n = inst.results.count;
    const auto tiles = ctx.fn.operands(inst).subspan(0, n), inits = ctx.fn.operands(inst).subspan(n);
    const Region region{ctx.fn.blocks(inst)[0], tiles};
    std::vector<Ex> init, scalar, results;
    for (size_t i = 0; i < n; ++i) {
        declare(ctx, ctx.fn.result(inst, static_cast<uint32_t>(i)), Declared::reduced);
        init.push_back(raw(ctx, name(ctx, inits[i])));
        scalar.push_back(raw(ctx, name(ctx, tiles[i])));
        results.push_back(named(ctx, name(ctx, ctx.fn.result(inst, static_cast<uint32_t>(i)))));
    }
    ctx.out.open_block();
    if (is_scalar(ctx, tiles[0])) {
        region_step(ctx, region, init, scalar, results, ctx.pool.truth(true));
        return ctx.out.close();
    }
    const bool together = meets_inside(ctx.fn, region.body);
    const Axis lines(ctx.fn.type(tiles[0]).shape, ctx.fn.attrs(inst)[0]);
    const std::vector<std::string> s = stage_operands(ctx, id);
    const auto places = [&](Ex number) { return elements(ctx, std::span(s).first(n), number); };
    sync(ctx);
    int64_t half = 1;
    while (half * 2 < lines.n) half *= 2;
    if (lines.n > 1) {
        const Ex h = open_halves(ctx, ctx.out.fresh("half"), half),
                 pairs = ctx.out.constant("pairs", joined_at(h, lines));
        region_loop(ctx, pairs * lines.lines(), together, [&](Ex e, Ex keeps) {
            const std::string inner = std::to_string(lines.inner), row = "(" + pairs + " * " + inner + ")",
                              first = e + " / " + row + " * " + std::to_string(lines.n * lines.inner) + " + " + e +
                                      " % " + row;
            const Ex at = constant(ctx, "int", "at", raw(ctx, first)), other = raw(ctx, at + " + " + h + " * " + inner);
            region_step(ctx, region, places(at), places(other), places(at), keeps);
        });
        sync(ctx);
        ctx.out.close();
    }
    region_loop(ctx, ctx.pool.number(lines.lines()), together, [&](Ex e, Ex keeps) {
        const Ex at = constant(ctx, "int", "at", line_base(lines, e));
        region_step(ctx, region, init, places(at), places(at), keeps);
    });
    sync(ctx);
    for (uint32_t i = 0; i < n; ++i) {
        const ir::ValueId to = ctx.fn.result(inst, i);
        fill(ctx, to, [&](Ex r) { return s[i] + "[" + line_base(lines, number_at(ctx, to, r)).text() + "]"; });
    }
    ctx.out.close();
}

void lower_scan_region(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const size_t n = inst.results.count;
    const auto tiles = ctx.fn.operands(inst);
    const Region region{ctx.fn.blocks(inst)[0], tiles};
    const bool reverse = ctx.fn.attrs(inst)[1] != 0, together = meets_inside(ctx.fn, region.body);
    const Axis lines(ctx.fn.type(tiles[0]).shape, ctx.fn.attrs(inst)[0]);
    for (uint32_t i = 0; i < n; ++i) declare(ctx, ctx.fn.result(inst, i));
    ctx.out.open_block();
    const std::vector<std::string> s = stage_operands(ctx, id);
    const auto places = [&](Ex number) { return elements(ctx, std::span(s).first(n), number); };
    sync(ctx);
    region_loop(ctx, ctx.pool.number(lines.lines()), together, [&](Ex e, Ex keeps) {
        const std::string base = ctx.out.fresh("base"), k_name = ctx.out.fresh("k"), at_name = ctx.out.fresh("at");
        ctx.out.let("int", base, line_base(lines, e));
        const Ex k = open_rolled(ctx, k_name, ctx.pool.number(1), ctx.pool.number(lines.n)), at = int32(ctx, at_name);
        const Ex number = reverse ? ctx.pool.number(lines.n - 1) - k : k;
        ctx.out.let("int", at_name, raw(ctx, base + " + " + number + " * " + std::to_string(lines.inner)));
        const Ex before = reverse ? at + lines.inner : at - lines.inner;
        region_step(ctx, region, places(before), places(at), places(at), keeps);
        ctx.out.close();
    });
    sync(ctx);
    for (uint32_t i = 0; i < n; ++i) {
        const ir::ValueId to = ctx.fn.result(inst, i);
        fill(ctx, to, [&](Ex r) { return s[i] + "[" + number_at(ctx, to, r).text() + "]"; });
    }
    ctx.out.close();
}

}  // namespace tegula::lower
