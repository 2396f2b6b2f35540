// convert between register layouts: the same registers under other numbers, or shuffles within warps as plan_conversion lays them out. What crosses
// warps is in emit_exchange.cpp, shared memory in emit_shared.cpp.
#include <algorithm>
#include <bit>
#include <optional>

#include "jit/cuda/emitter.h"
#include "jit/cuda/prelude_text.h"
#include "lang/gpu/scratch.h"
#include "lang/gpu/tensor_memory.h"

namespace tegula::cuda {

void Emitter::cuda_convert(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId from = fn_.operands(inst)[0], to = fn_.result(inst);
    const bool shared_from = fn_.placement(from).kind == Placement::shared, shared_to = fn_.placement(to).kind == Placement::shared;
    if (loaded_by_product(id)) return;
    if (in_tensor_memory(fn_, to)) return to_tensor_memory(id);
    if (in_tensor_memory(fn_, from)) return from_tensor_memory(id);
    if (shared_from && shared_to) return between_shared(id);
    if (shared_to) return to_shared(id);
    if (shared_from) return from_shared(id);
    if (is_scalar(to)) return assign(to, [&](Ex) { return name(from); });
    const Conversion c = plan_conversion(layout(from), layout(to));
    if (convert_exchanges(c, layout(to))) return exchange(id);
    if (c.kind == Conversion::shuffle) return shuffle(id, c);
    if (c.kind == Conversion::none && take_over(to, from)) return;
    assign(to, [&](Ex r) { return at(from, c.kind == Conversion::none ? r : rename(c.rename, r)); });
}

/// A tile whose register r is register r ^ (XOR of by_bit[b] over the set bits b of t) of `tile`: one select per register and independent vector.
std::string Emitter::selected(const std::string& tile, const std::string& type, int count, std::span<const int> by_bit) {
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
    std::string current = tile;
    for (const Basis& e : basis) {
        const std::string next = fresh("x"), on = fresh("on"), bits = "(t & " + std::to_string(e.bits) + ")";
        line("const bool " + on + " = " + (std::has_single_bit(e.bits) ? bits + " != 0" : "(__popc" + bits + " & 1) != 0") + ";");
        line(type + " " + next + "[" + std::to_string(count) + "];");
        each(count,
             [&](Ex r) { line(next + "[" + r + "] = " + on + " ? " + current + "[" + (r ^ e.vector).text() + "] : " + current + "[" + r + "];"); });
        current = next;
    }
    return current;
}

namespace {

/// The conversion of 16-bit values two at a time, in 32-bit registers; nullopt unless neighbouring registers stay neighbours.
std::optional<Conversion> in_pairs(const Conversion& c) {
    const auto even = [](std::span<const int> numbers) { return std::all_of(numbers.begin(), numbers.end(), [](int n) { return n % 2 == 0; }); };
    if (!even(c.give_thread) || !even(c.keep_lane)) return std::nullopt;
    Conversion out = c;
    out.rounds.clear();
    for (int& n : out.give_thread) n /= 2;
    for (int& n : out.keep_lane) n /= 2;
    for (const Conversion::Round& r : c.rounds) {
        if (r.give % 2) continue;
        const auto is_partner = [&](const Conversion::Round& o) { return o.give == r.give + 1 && o.keep == r.keep + 1 && o.lane == r.lane; };
        if (r.keep % 2 || std::none_of(c.rounds.begin(), c.rounds.end(), is_partner)) return std::nullopt;
        out.rounds.push_back({r.give / 2, r.lane, r.keep / 2});
    }
    return out.rounds.size() * 2 == c.rounds.size() ? std::optional(out) : std::nullopt;
}

}  // namespace

void Emitter::shuffle(ir::InstId id, const Conversion& c) {
    const ir::ValueId from = fn_.operands(fn_.inst(id))[0], to = fn_.result(id);
    const Format& f = fn_.elem(to);
    const bool shorts = !fn_.type(to).pointer && f.container_bytes() == 2 && !f.is_bool() && !text::extends_sign(f);
    const auto pairs = shorts ? in_pairs(c) : std::nullopt;
    declare(to);
    open("");
    if (!pairs) {
        const std::string placed = exchanged(c, name(from), type_of(to), registers(from), registers(to));
        each_register(to, [&](Ex r) { assign_to(to, r, placed + "[" + r + "]"); });
        return close();
    }
    prelude_.need("pairs");
    const std::string two = fresh("two"), half = std::to_string(registers(from) / 2);
    line("unsigned " + two + "[" + half + "];");
    each(registers(from) / 2, [&](Ex r) { line(two + "[" + r + "] = " + packed(name(from), fn_.elem(from), r * 2) + ";"); });
    const std::string placed = exchanged(*pairs, two, "unsigned", registers(from) / 2, registers(to) / 2);
    each(registers(to) / 2, [&](Ex r) {
        assign_to(to, r * 2, "low_short(" + placed + "[" + r + "])");
        assign_to(to, r * 2 + 1, "high_short(" + placed + "[" + r + "])");
    });
    close();
}

/// The array of `count` registers after the conversion's rounds.
std::string Emitter::exchanged(const Conversion& c, const std::string& from, const std::string& type, int given_count, int count) {
    const std::string given = selected(from, type, given_count, c.give_thread);
    const std::string kept = fresh("x");
    line(type + " " + kept + "[" + std::to_string(count) + "];");
    bool same = true;
    std::string lane;
    for (size_t b = 0; b < c.lane_map.size(); ++b) {
        same = same && c.lane_map[b] == 1 << b;
        if (c.lane_map[b]) lane += (lane.empty() ? "" : " ^ ") + ("(t >> " + std::to_string(b) + " & 1) * " + std::to_string(c.lane_map[b]));
    }
    const std::string base = fresh("lane");
    converge();
    if (!same) line("const int " + base + " = " + (lane.empty() ? "0" : lane) + ";");
    for (const Conversion::Round& round : c.rounds) {
        const std::string value = given + "[" + std::to_string(round.give) + "]";
        std::string got;
        if (same)
            got = round.lane ? "(" + type + ")__shfl_xor_sync(0xffffffffu, " + value + ", " + std::to_string(round.lane) + ")" : value;
        else
            got = "(" + type + ")__shfl_sync(0xffffffffu, " + value + ", " + base + " ^ " + std::to_string(round.lane) + ")";
        line(kept + "[" + std::to_string(round.keep) + "] = " + got + ";");
    }
    return selected(kept, type, count, c.keep_lane);
}

}  // namespace tegula::cuda
