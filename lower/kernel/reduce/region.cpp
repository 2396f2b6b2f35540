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
std::vector<std::string> elements(std::span<const std::string> arrays, const std::string& number) {
    std::vector<std::string> out;
    for (const std::string& array : arrays) out.push_back(array + "[" + number + "]");
    return out;
}

/// The block's statements with its arguments standing for variables; its yields go to `results`.
void region_body(Lowering& ctx, ir::BlockId id, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& results) {
    const ir::Block& body = ctx.fn.block(id);
    TEGULA_CHECK(body.args.size() == arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) ctx.values.names[body.args[i].v] = arguments[i];
    block(ctx, id);
    const auto yields = ctx.fn.operands(ctx.fn.inst(body.insts.back()));
    for (size_t i = 0; i < results.size(); ++i) ctx.out.assign(named(ctx, results[i]), raw(ctx, name(ctx, yields[i])));
}

/// A strided loop over `count` elements; in a region that meets, threads beyond the end repeat element 0 and
/// keep nothing.
void region_loop(Lowering& ctx, Ex count, bool together,
                 const std::function<void(const std::string& e, const std::string& keeps)>& body) {
    const std::string e = ctx.out.fresh("e");
    const auto open = [&](const std::string& counter, Ex start) {
        const Ex i = int32(ctx, counter);
        ctx.out.open_for({"int", counter, start, lt(i, count), {counted(i, group_threads(ctx))}, 1});
    };
    if (!together) {
        open(e, ctx.thread);
        body(e, "");
        return ctx.out.close();
    }
    const std::string first = ctx.out.fresh("first"), on = ctx.out.fresh("on");
    open(first, ctx.pool.number(0));
    ctx.out.line("const bool " + on + " = " + first + " + t < " + count.text() + ";");
    ctx.out.line("const int " + e + " = " + on + " ? " + first + " + t : 0;");
    body(e, on);
    ctx.out.close();
}

/// The author's function, and the tiles that it joins.
struct Region {
    ir::BlockId body;
    std::span<const ir::ValueId> tiles;
};

/// One application: arguments from these texts, results through temporaries to these places.
void region_step(Lowering& ctx, const Region& region, const std::vector<std::string>& left,
                 const std::vector<std::string>& right, const std::vector<std::string>& to, const std::string& keeps) {
    const auto& [body, tiles] = region;
    std::vector<std::string> arguments, values;
    for (const auto* side : {&left, &right})
        for (size_t i = 0; i < tiles.size(); ++i) {
            arguments.push_back(ctx.out.fresh("a"));
            ctx.out.line("const " + type_of(ctx, tiles[i]) + " " + arguments.back() + " = " + (*side)[i] + ";");
        }
    for (size_t i = 0; i < tiles.size(); ++i) {
        values.push_back(ctx.out.fresh("y"));
        ctx.out.line(type_of(ctx, tiles[i]) + " " + values[i] + ";");
    }
    region_body(ctx, body, arguments, values);
    if (!keeps.empty()) ctx.out.open_if(raw(ctx, keeps));
    for (size_t i = 0; i < tiles.size(); ++i) ctx.out.line(to[i] + " = " + values[i] + ";");
    if (!keeps.empty()) ctx.out.close();
}

}  // namespace

void lower_reduce_region(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const size_t n = inst.results.count;
    const auto tiles = ctx.fn.operands(inst).subspan(0, n), inits = ctx.fn.operands(inst).subspan(n);
    const Region region{ctx.fn.blocks(inst)[0], tiles};
    std::vector<std::string> init, scalar, results;
    for (size_t i = 0; i < n; ++i) {
        declare(ctx, ctx.fn.result(inst, static_cast<uint32_t>(i)), Declared::reduced);
        init.push_back(name(ctx, inits[i]));
        scalar.push_back(name(ctx, tiles[i]));
        results.push_back(name(ctx, ctx.fn.result(inst, static_cast<uint32_t>(i))));
    }
    ctx.out.open_block();
    if (is_scalar(ctx, tiles[0])) {
        region_step(ctx, region, init, scalar, results, "");
        return ctx.out.close();
    }
    const bool together = meets_inside(ctx.fn, region.body);
    const Axis lines(ctx.fn.type(tiles[0]).shape, ctx.fn.attrs(inst)[0]);
    const std::vector<std::string> s = stage_operands(ctx, id);
    const auto places = [&](const std::string& number) { return elements(std::span(s).first(n), number); };
    sync(ctx);
    int64_t half = 1;
    while (half * 2 < lines.n) half *= 2;
    if (lines.n > 1) {
        const std::string h = ctx.out.fresh("half"), pairs = ctx.out.fresh("pairs"),
                          inner = std::to_string(lines.inner);
        const Ex counter = int32(ctx, h);
        ctx.out.open_for({"int",
                          h,
                          ctx.pool.number(half),
                          gt(counter, 0),
                          {{counter, ctx.pool.number(1), kernel::AssignOp::shift_right}},
                          1});
        ctx.out.line("const int " + pairs + " = " + h + " < " + std::to_string(lines.n) + " - " + h + " ? " + h +
                     " : " + std::to_string(lines.n) + " - " + h + ";");
        region_loop(ctx, int32(ctx, pairs) * lines.lines(), together,
                    [&](const std::string& e, const std::string& keeps) {
                        const std::string a = ctx.out.fresh("at"), row = "(" + pairs + " * " + inner + ")";
                        ctx.out.line("const int " + a + " = " + e + " / " + row + " * " +
                                     std::to_string(lines.n * lines.inner) + " + " + e + " % " + row + ";");
                        region_step(ctx, region, places(a), places(a + " + " + h + " * " + inner), places(a), keeps);
                    });
        sync(ctx);
        ctx.out.close();
    }
    region_loop(ctx, ctx.pool.number(lines.lines()), together, [&](const std::string& e, const std::string& keeps) {
        const std::string a = ctx.out.fresh("at");
        ctx.out.line("const int " + a + " = " + line_base(lines, int32(ctx, e)).text() + ";");
        region_step(ctx, region, init, places(a), places(a), keeps);
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
    const auto places = [&](const std::string& number) { return elements(std::span(s).first(n), number); };
    sync(ctx);
    region_loop(ctx, ctx.pool.number(lines.lines()), together, [&](const std::string& e, const std::string& keeps) {
        const std::string base = ctx.out.fresh("base"), k = ctx.out.fresh("k"), at = ctx.out.fresh("at"),
                          stride = std::to_string(lines.inner);
        ctx.out.line("const int " + base + " = " + line_base(lines, int32(ctx, e)).text() + ";");
        open_rolled(ctx, k, ctx.pool.number(1), ctx.pool.number(lines.n));
        ctx.out.line("const int " + at + " = " + base + " + " +
                     (reverse ? "(" + std::to_string(lines.n - 1) + " - " + k + ")" : k) + " * " + stride + ";");
        region_step(ctx, region, places(at + (reverse ? " + " : " - ") + stride), places(at), places(at), keeps);
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
