// Layouts as expressions, and as structs of device functions where numbers and tests of several coordinates are asked
// for: the coordinates that register r of thread t holds. Parts of r fold once loops over registers are unrolled; parts
// of t are the same expression everywhere, so that the compiler computes each of them once per kernel. Coordinates are
// no calls: inlining takes NVRTC longer than parsing.
#include <algorithm>
#include <bit>

#include "lang/gpu/wide_access.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

namespace {

/// Per input bit the coordinate bits of one dimension that it flips.
std::vector<uint64_t> columns(const TileLayout& l, std::span<const uint64_t> bases, int d) {
    unsigned shift = 0;
    for (int k = d + 1; k < l.shape.rank; ++k) shift += l.bits[static_cast<size_t>(k)];
    const uint64_t mask = (uint64_t{1} << l.bits[static_cast<size_t>(d)]) - 1;
    std::vector<uint64_t> out;
    for (uint64_t v : bases) out.push_back(v >> shift & mask);
    return out;
}

std::vector<uint64_t> thread_bases(const TileLayout& l) {
    std::vector<uint64_t> out(l.lane.begin(), l.lane.end());
    out.insert(out.end(), l.warp.begin(), l.warp.end());
    return out;
}

bool disjoint(std::span<const uint64_t> columns) {
    uint64_t seen = 0;
    for (uint64_t c : columns) {
        if (seen & c) return false;
        seen |= c;
    }
    return true;
}

/// Shifted up, or down where `by` is negative.
Ex shifted(Ex v, int by) { return by < 0 ? v >> -by : v << by; }

/// XOR of the columns of the set bits of `v`, as few terms as runs of bits allow. Bits move down before they are
/// masked, see Formats::opaque.
Ex linear(std::span<const uint64_t> cols, Ex v) {
    Ex out = v->pool->number(0);
    const bool apart = disjoint(cols);
    const auto term = [&](Ex t) { out = apart ? out | t : out ^ t; };
    for (size_t b = 0; b < cols.size();) {
        if (cols[b] == 0) {
            ++b;
            continue;
        }
        if (!std::has_single_bit(cols[b])) {
            term((v >> static_cast<int64_t>(b) & 1) * static_cast<int64_t>(cols[b]));
            ++b;
            continue;
        }
        size_t end = b + 1;
        while (end < cols.size() && cols[end] == cols[end - 1] << 1 && std::has_single_bit(cols[end])) ++end;
        const int up = std::countr_zero(cols[b]) - static_cast<int>(b),
                  low = up < 0 ? std::countr_zero(cols[b]) : static_cast<int>(b);
        const uint64_t mask = ((uint64_t{1} << (end - b)) - 1) << low;
        term(shifted(shifted(v, std::min(up, 0)) & static_cast<int64_t>(mask), std::max(up, 0)));
        b = end;
    }
    return out;
}

/// Digit of dimension d among the odd factors of register `r`, shifted into place.
Ex digit(const TileLayout& l, int d, Ex r) {
    const auto dim = static_cast<size_t>(d);
    if (l.odd[dim] <= 1) return r->pool->number(0);
    int below = 1;
    for (size_t k = dim + 1; k < l.shape.rank; ++k) below *= l.odd[k];
    return (r >> static_cast<int64_t>(l.reg.size())) / below % l.odd[dim] << l.bits[dim];
}

/// A coordinate where what register and thread decide of it is no sum.
Ex from_both(const TileLayout& l, int d, Ex r, Ex t) {
    return digit(l, d, r) + (linear(columns(l, l.reg, d), r) ^ thread_part(l, d, t));
}

/// The index expression of one dimension as functions of r and t.
std::string dimension_text(const TileLayout& l, int d, bool additive, Ex r, Ex t) {
    const std::string n = std::to_string(d), head = "    static __device__ __forceinline__ int ";
    if (!additive) return head + "at" + n + "(int r, int t) { return " + from_both(l, d, r, t).text() + "; }\n";
    return head + "register" + n + "([[maybe_unused]] int r) { return " + register_part(l, d, r).text() + "; }\n" +
           head + "thread" + n + "([[maybe_unused]] int t) { return " + thread_part(l, d, t).text() + "; }\n" + head +
           "at" + n + "(int r, int t) { return register" + n + "(r) + thread" + n + "(t); }\n";
}

/// A coordinate as the call of the struct's function.
Ex called(const TileLayout& l, int d, Ex r, Ex t) {
    return r->pool->call(kernel::Type::i32, "at" + std::to_string(d), {r, t}, kernel::below(l.padded(d)));
}

Ex number_in(const TileLayout& l, bool padded, Ex r, Ex t) {
    Ex out = r->pool->number(0);
    for (int d = 0; d < l.shape.rank; ++d)
        out = out * (padded ? l.padded(d) : l.shape[static_cast<size_t>(d)]) + called(l, d, r, t);
    return out;
}

Ex is_inside(const TileLayout& l, Ex r, Ex t) {
    Ex out = r->pool->truth(true);
    for (int d = 0; d < l.shape.rank; ++d) out = both(out, lt(called(l, d, r, t), l.shape[static_cast<size_t>(d)]));
    return out;
}

int thread_copies(const TileLayout& l) { return l.lane_copies() | l.warp_copies() << 5; }

int register_copies(const TileLayout& l) {
    int mask = 0;
    for (size_t b = 0; b < l.reg.size(); ++b) mask |= (l.reg[b] == 0) << b;
    return mask;
}

}  // namespace

std::string layout_name(Lowering& ctx, const TileLayout& l) {
    auto [it, added] = ctx.values.layout_names.emplace(to_string(l.shape) + l.text(), "");
    if (!added) return it->second;
    it->second = ctx.out.fresh("L");
    const Ex r = ctx.pool.counter("r", l.registers());
    std::string& out = ctx.support.text;
    out += "// " + to_string(l.shape) + ": " + l.text() + "\n";
    out += "struct " + it->second + " {\n    static constexpr int registers = " + std::to_string(l.registers()) + ";\n";
    for (int d = 0; d < l.shape.rank; ++d) out += dimension_text(l, d, is_additive(l, d), r, ctx.thread);
    const std::string unused = "([[maybe_unused]] int r, [[maybe_unused]] int t)";
    const auto function = [&](const char* head, Ex value) {
        out += std::string("    static __device__ __forceinline__ ") + head + unused + " { return " + value.text() +
               "; }\n";
    };
    function("int logical", number_in(l, false, r, ctx.thread));
    function("int padded", number_in(l, true, r, ctx.thread));
    function("bool inside", is_inside(l, r, ctx.thread));
    out += "    static __device__ __forceinline__ bool owner([[maybe_unused]] int t) { return " +
           eq(ctx.thread & thread_copies(l), 0).text() + "; }\n};\n";
    return it->second;
}

Ex register_part(const TileLayout& l, int d, Ex r) { return digit(l, d, r) + linear(columns(l, l.reg, d), r); }

Ex thread_part(const TileLayout& l, int d, Ex t) { return linear(columns(l, thread_bases(l), d), t); }

Ex coordinate(Lowering& ctx, const TileLayout& l, int d, Ex r) {
    return is_additive(l, d) ? register_part(l, d, r) + thread_part(l, d, ctx.thread) : from_both(l, d, r, ctx.thread);
}

Ex logical_number(Lowering& ctx, const TileLayout& l, Ex r) {
    return ctx.pool.call(kernel::Type::i32, layout_name(ctx, l) + "::logical", {r, ctx.thread});
}

Ex inside(Lowering& ctx, const TileLayout& l, Ex r) {
    return l.has_ghosts() ? ctx.pool.call(kernel::Type::pred, layout_name(ctx, l) + "::inside", {r, ctx.thread})
                          : ctx.pool.truth(true);
}

Ex owns(Lowering& ctx, const TileLayout& l, Ex r) {
    Ex out = ctx.pool.truth(true);
    if (thread_copies(l)) out = ctx.pool.call(kernel::Type::pred, layout_name(ctx, l) + "::owner", {ctx.thread});
    return both(both(out, eq(r & register_copies(l), 0)), inside(ctx, l, r));
}

Ex rename(Lowering& ctx, const std::vector<int>& map, Ex r) {
    if (const auto known = r.constant()) return ctx.pool.number(map[static_cast<size_t>(*known)]);
    bool same = true, is_linear = true, consecutive = true;
    std::vector<uint64_t> cols;
    for (size_t b = 1; b < map.size(); b <<= 1) cols.push_back(static_cast<uint64_t>(map[b]));
    for (size_t i = 0; i < map.size(); ++i) {
        uint64_t v = 0;
        for (size_t b = 0; b < cols.size(); ++b)
            if (i >> b & 1) v ^= cols[b];
        same = same && map[i] == static_cast<int>(i);
        consecutive = consecutive && map[i] == map[0] + static_cast<int>(i);
        is_linear = is_linear && map[i] >= 0 && v == static_cast<uint64_t>(map[i]);
    }
    if (same) return r;
    if (is_linear) return linear(cols, r);
    if (consecutive) return r + map[0];
    std::string list;
    for (int m : map) list += (list.empty() ? "" : ", ") + std::to_string(m);
    // A table of the whole program: as an array of the function that looks something up in it, each of the unrolled
    // look-ups would initialise it anew.
    const std::string table =
        support(ctx, "rename " + list, "renamed", "__device__ constexpr int $[] = {" + list + "};\n");
    return ctx.pool.index(kernel::Type::i32, ctx.pool.name(kernel::Type::other, table), r);
}

}  // namespace tegula::lower
