// Reductions without row-major scratch: the steps of a ReducePlan on arrays of registers. Joins commute, so both lanes
// of a shuffle compute the same bits.
#include <algorithm>

#include "lang/gpu/scratch.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/reduce/reduce.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

namespace {

std::vector<std::string> elements(const std::vector<std::string>& arrays, Ex r) {
    std::vector<std::string> out;
    for (const std::string& a : arrays) out.push_back(a + "[" + r.text() + "]");
    return out;
}

}  // namespace

void reduce_joined(Lowering& ctx, ir::InstId id, const ReducePlan& plan, const Joined& joined) {
    for (const ReducePlan::Step& step : plan.steps) {
        switch (step.kind) {
            case ReducePlan::Step::digits:
                join_digits(ctx, step, joined);
                break;
            case ReducePlan::Step::reg:
                each_of(ctx, step.live,
                        [&](Ex r) { joined.join(elements(joined.names, r), elements(joined.names, r + step.a)); });
                break;
            case ReducePlan::Step::lane:
            case ReducePlan::Step::scatter:
                join_lanes(ctx, step, joined);
                break;
            case ReducePlan::Step::warps:
                join_warps(ctx, id, step, joined);
                break;
            case ReducePlan::Step::spread:
                join_spread(ctx, id, step, joined);
                break;
        }
    }
}

/// The tree over digits; registers of digit 0 are the live ones.
void join_digits(Lowering& ctx, const ReducePlan::Step& step, const Joined& joined) {
    int half = 1;
    while (half * 2 < step.b) half *= 2;
    for (; half > 0; half /= 2)
        for (int digit = 0; digit < half && digit + half < step.b; ++digit)
            each_of(ctx, step.live, [&](Ex r) {
                joined.join(elements(joined.names, r + digit * step.a),
                            elements(joined.names, r + (digit + half) * step.a));
            });
}

void join_lanes(Lowering& ctx, const ReducePlan::Step& step, const Joined& joined) {
    const bool scatter = step.kind == ReducePlan::Step::scatter;
    const Ex upper = ctx.pool.name(kernel::Type::pred, ctx.out.fresh("upper"));
    if (scatter) ctx.out.let("bool", upper.text(), ne(ctx.thread & step.a, 0));
    each_of(ctx, step.live, [&](Ex r) {
        std::vector<std::string> sent = elements(joined.names, r);
        for (size_t i = 0; i < sent.size() && scatter; ++i) {
            const Ex mine = raw(ctx, sent[i]), second = element(ctx, joined.names[i], r + step.b);
            sent[i] =
                constant(ctx, joined.types[i], "sent", raw(ctx, upper + " ? " + mine.text() + " : " + second.text()))
                    .text();
            assign_if(ctx, upper, mine, second);
        }
        joined.join(elements(joined.names, r), from_lane(ctx, sent, step.a, joined));
    });
}

std::vector<std::string> from_lane(Lowering& ctx, const std::vector<std::string>& sent, int mask,
                                   const Joined& joined) {
    std::vector<std::string> other;
    converge(ctx);
    for (size_t i = 0; i < sent.size(); ++i) {
        const std::string& type = joined.types[i];
        other.push_back(constant(ctx, type, "o",
                                 raw(ctx, "(" + type + ")__shfl_xor_sync(0xffffffffu, " + sent[i] + ", " +
                                              std::to_string(mask) + ")"))
                            .text());
    }
    return other;
}

/// Live registers in order are rows of one element per thread of the group.
void each_row(Lowering& ctx, const ReducePlan::Step& step, const std::function<void(Ex r, Ex row)>& body) {
    std::vector<int> rows(step.live.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int>(i);
    each_of(ctx, rows, [&](Ex row) { body(rename(ctx, step.live, row), row); });
}

/// Every thread writes its partial results; gives the areas, by array.
std::vector<std::string> write_partials(Lowering& ctx, ir::InstId id, const ReducePlan::Step& step,
                                        const Joined& joined) {
    const ScratchPlan plan = scratch_plan(ctx.fn, id);
    std::vector<std::string> areas;
    for (size_t i = 0; i < joined.names.size(); ++i)
        areas.push_back(scratch_area(ctx, id, joined.types[i], plan.work[i]));
    each_row(ctx, step, [&](Ex r, Ex row) {
        for (size_t i = 0; i < areas.size(); ++i)
            ctx.out.assign(element(ctx, areas[i], row * group_threads(ctx) + ctx.thread),
                           element(ctx, joined.names[i], r));
    });
    sync(ctx);
    return areas;
}

/// Joins the partial results of all warps that hold other parts, first mask first; gives the variables, by array.
std::vector<std::string> join_parts(Lowering& ctx, const std::vector<std::string>& areas, const std::string& base,
                                    const ReducePlan::Step& step, const Joined& joined) {
    const int parts = 1 << step.masks.size();
    std::vector<std::vector<std::string>> part;
    for (int p = 0; p < parts; ++p) {
        int warp = 0;  // the first mask is the highest bit of the part number
        for (size_t m = 0; m < step.masks.size(); ++m)
            if (p >> (step.masks.size() - 1 - m) & 1) warp |= step.masks[m];
        std::vector<std::string>& names = part.emplace_back();
        for (size_t i = 0; i < areas.size(); ++i) {
            const std::string place = areas[i] + "[" + base + " + " + std::to_string(warp * 32) + "]";
            names.push_back(variable(ctx, joined.types[i], "p", raw(ctx, place)).text());
        }
    }
    for (int half = parts / 2; half > 0; half /= 2)
        for (int p = 0; p < half; ++p) joined.join(part[static_cast<size_t>(p)], part[static_cast<size_t>(p + half)]);
    return part[0];
}

/// Every thread joins the partial results of all warps in all of its registers.
void join_warps(Lowering& ctx, ir::InstId id, const ReducePlan::Step& step, const Joined& joined) {
    const std::vector<std::string> areas = write_partials(ctx, id, step, joined);
    int all = 0;
    for (int m : step.masks) all |= m;
    const std::string base = ctx.out.fresh("base");
    ctx.out.let("int", base, raw(ctx, "t & " + std::to_string(~(all * 32) & (group_threads(ctx) - 1))));
    each_row(ctx, step, [&](Ex r, Ex row) {
        const std::vector<std::string> part =
            join_parts(ctx, areas, (row * group_threads(ctx) + int32(ctx, base)).text(), step, joined);
        for (size_t i = 0; i < areas.size(); ++i) ctx.out.assign(element(ctx, joined.names[i], r), named(ctx, part[i]));
    });
}

/// Each warp joins the rows of its share over warps and lanes; one lane then writes them for all threads. With fewer
/// rows than warps, several warps compute the same row.
void join_spread(Lowering& ctx, ir::InstId id, const ReducePlan::Step& step, const Joined& joined) {
    const ScratchPlan plan = scratch_plan(ctx.fn, id);
    const int warps = ctx.fn.gpu->warps, rows = static_cast<int>(step.live.size()), share = std::max(1, rows / warps);
    const std::vector<std::string> areas = write_partials(ctx, id, step, joined);
    std::vector<std::string> results, shares;
    for (size_t i = 0; i < joined.names.size(); ++i) {
        results.push_back(scratch_area(ctx, id, joined.types[i], plan.work[joined.names.size() + i]));
        shares.push_back(array(ctx, joined.types[i], "share", share).text());
    }
    const std::string first = ctx.out.fresh("first");
    const std::string warp = rows < warps ? "(t >> 5 & " + std::to_string(rows - 1) + ")" : "(t >> 5)";
    ctx.out.let("int", first, raw(ctx, warp + (share > 1 ? " * " + std::to_string(share) : "")));
    std::vector<int> own;
    for (int k = 0; k < share; ++k) own.push_back(k);
    each_of(ctx, own, [&](Ex k) {
        const Ex base = (int32(ctx, first) + k) * group_threads(ctx) + (ctx.thread & 31);
        const std::vector<std::string> part = join_parts(ctx, areas, base.text(), step, joined);
        for (size_t i = 0; i < part.size(); ++i) ctx.out.assign(element(ctx, shares[i], k), named(ctx, part[i]));
    });
    for (int lane : step.lanes)
        each_of(ctx, own,
                [&](Ex k) { joined.join(elements(shares, k), from_lane(ctx, elements(shares, k), lane, joined)); });
    const Ex first_lane = eq(ctx.thread & 31, 0);
    ctx.out.open_if(rows < warps ? both(first_lane, lt(ctx.thread, rows * 32)) : first_lane);
    each_of(ctx, own, [&](Ex k) {
        for (size_t i = 0; i < shares.size(); ++i)
            ctx.out.assign(element(ctx, results[i], int32(ctx, first) + k), element(ctx, shares[i], k));
    });
    ctx.out.close();
    sync(ctx);
    each_row(ctx, step, [&](Ex r, Ex row) {
        for (size_t i = 0; i < results.size(); ++i)
            ctx.out.assign(element(ctx, joined.names[i], r), element(ctx, results[i], row));
    });
}

}  // namespace tegula::lower
