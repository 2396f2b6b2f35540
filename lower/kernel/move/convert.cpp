// convert between register layouts: the same registers under other numbers, or shuffles within warps as plan_conversion
// lays them out. What crosses warps is in move/exchange.cpp, shared memory in move/shared.cpp.
#include <algorithm>
#include <bit>
#include <optional>

#include "lang/gpu/scratch.h"
#include "lang/gpu/tensor_memory.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/formats/text.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

void lower_convert(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId from = ctx.fn.operands(inst)[0], to = ctx.fn.result(inst);
    const bool shared_from = ctx.fn.placement(from).kind == Placement::shared,
               shared_to = ctx.fn.placement(to).kind == Placement::shared;
    if (ctx.plan.has(KernelPass::fragments_from_shared, ctx.fn.result(id))) return;
    if (in_tensor_memory(ctx.fn, to)) return to_tensor_memory(ctx, id);
    if (in_tensor_memory(ctx.fn, from)) return from_tensor_memory(ctx, id);
    if (shared_from && shared_to) return between_shared(ctx, id);
    if (shared_to) return to_shared(ctx, id);
    if (shared_from) return from_shared(ctx, id);
    if (is_scalar(ctx, to)) return assign(ctx, to, [&](Ex) { return name(ctx, from); });
    const Conversion c = plan_conversion(layout(ctx, from), layout(ctx, to));
    if (convert_exchanges(c, layout(ctx, to))) return exchange(ctx, id);
    if (c.kind == Conversion::shuffle) return shuffle(ctx, id, c);
    if (c.kind == Conversion::none && take_over(ctx, to, from)) return;
    assign(ctx, to,
           [&](Ex r) { return text_at(ctx, from, c.kind == Conversion::none ? r : rename(ctx, c.rename, r)); });
}

/// A tile whose register r is register r ^ (XOR of by_bit[b] over the set bits b of t) of `tile`: one select per
/// register and independent vector.
std::string selected(Lowering& ctx, const std::string& tile, const std::string& type, int count,
                     std::span<const int> by_bit) {
    struct Basis {
        unsigned vector, bits;
    };
    std::vector<Basis> basis;
    for (size_t b = 0; b < by_bit.size(); ++b) {
        auto v = static_cast<unsigned>(by_bit[b]);
        for (Basis& e : basis)
            if (v & std::bit_floor(e.vector)) {
                v ^= e.vector;
                e.bits ^= 1u << b;
            }
        if (v) basis.push_back({v, 1u << b});
    }
    Ex current = named(ctx, tile);
    for (const Basis& e : basis) {
        const std::string name = ctx.out.fresh("x"), bits = "(t & " + std::to_string(e.bits) + ")";
        const Ex next = named(ctx, name),
                 on =
                     constant(ctx, "bool", "on",
                              raw(ctx, std::has_single_bit(e.bits) ? bits + " != 0" : "(__popc" + bits + " & 1) != 0"));
        ctx.out.declare(type, name, count);
        each(ctx, count, [&](Ex r) {
            ctx.out.assign(element(next, r), ctx.pool.select(on, element(current, r ^ e.vector), element(current, r)));
        });
        current = next;
    }
    return current.text();
}

namespace {

/// The conversion of 16-bit values two at a time, in 32-bit registers; nullopt unless neighbouring registers stay
/// neighbours.
std::optional<Conversion> in_pairs(const Conversion& c) {
    const auto even = [](std::span<const int> numbers) {
        return std::all_of(numbers.begin(), numbers.end(), [](int n) { return n % 2 == 0; });
    };
    if (!even(c.give_thread) || !even(c.keep_lane)) return std::nullopt;
    Conversion out = c;
    out.rounds.clear();
    for (int& n : out.give_thread) n /= 2;
    for (int& n : out.keep_lane) n /= 2;
    for (const Conversion::Round& r : c.rounds) {
        if (r.give % 2) continue;
        const auto is_partner = [&](const Conversion::Round& o) {
            return o.give == r.give + 1 && o.keep == r.keep + 1 && o.lane == r.lane;
        };
        if (r.keep % 2 || std::none_of(c.rounds.begin(), c.rounds.end(), is_partner)) return std::nullopt;
        out.rounds.push_back({r.give / 2, r.lane, r.keep / 2});
    }
    return out.rounds.size() * 2 == c.rounds.size() ? std::optional(out) : std::nullopt;
}

}  // namespace

void shuffle(Lowering& ctx, ir::InstId id, const Conversion& c) {
    const ir::ValueId from = ctx.fn.operands(ctx.fn.inst(id))[0], to = ctx.fn.result(id);
    const Format& f = ctx.fn.elem(to);
    const bool shorts = !ctx.fn.type(to).pointer && f.container_bytes() == 2 && !f.is_bool() && !text::extends_sign(f);
    const auto pairs = shorts ? in_pairs(c) : std::nullopt;
    declare(ctx, to);
    ctx.out.open_block();
    if (!pairs) {
        const std::string placed =
            exchanged(ctx, c, name(ctx, from), type_of(ctx, to), registers(ctx, from), registers(ctx, to));
        each_register(ctx, to, [&](Ex r) { assign_to(ctx, to, r, placed + "[" + r + "]"); });
        return ctx.out.close();
    }
    ctx.formats.need("pairs");
    const int half = registers(ctx, from) / 2;
    const Ex two = array(ctx, "unsigned", "two", half);
    each(ctx, half, [&](Ex r) {
        ctx.out.assign(element(two, r), raw(ctx, packed(ctx, name(ctx, from), ctx.fn.elem(from), r * 2)));
    });
    const std::string placed = exchanged(ctx, *pairs, two.text(), "unsigned", half, registers(ctx, to) / 2);
    each(ctx, registers(ctx, to) / 2, [&](Ex r) {
        assign_to(ctx, to, r * 2, "low_short(" + placed + "[" + r + "])");
        assign_to(ctx, to, r * 2 + 1, "high_short(" + placed + "[" + r + "])");
    });
    ctx.out.close();
}

/// The array of `count` registers after the conversion's rounds.
std::string exchanged(Lowering& ctx, const Conversion& c, const std::string& from, const std::string& type,
                      int given_count, int count) {
    const std::string given = selected(ctx, from, type, given_count, c.give_thread);
    const Ex kept = array(ctx, type, "x", count);
    bool same = true;
    std::string lane;
    for (size_t b = 0; b < c.lane_map.size(); ++b) {
        same = same && c.lane_map[b] == 1 << b;
        if (c.lane_map[b])
            lane += (lane.empty() ? "" : " ^ ") +
                    ("(t >> " + std::to_string(b) + " & 1) * " + std::to_string(c.lane_map[b]));
    }
    const std::string base = ctx.out.fresh("lane");
    converge(ctx);
    if (!same) ctx.out.let("int", base, raw(ctx, lane.empty() ? "0" : lane));
    for (const Conversion::Round& round : c.rounds) {
        const std::string value = given + "[" + std::to_string(round.give) + "]";
        std::string got;
        if (same)
            got = round.lane
                      ? "(" + type + ")__shfl_xor_sync(0xffffffffu, " + value + ", " + std::to_string(round.lane) + ")"
                      : value;
        else
            got = "(" + type + ")__shfl_sync(0xffffffffu, " + value + ", " + base + " ^ " + std::to_string(round.lane) +
                  ")";
        ctx.out.assign(element(kept, ctx.pool.number(round.keep)), raw(ctx, got));
    }
    return selected(ctx, kept.text(), type, count, c.keep_lane);
}

}  // namespace tegula::lower
