// Layouts as expressions, and as structs of device functions where numbers and tests of several coordinates are asked for: the coordinates that
// register r of thread t holds. Parts of r fold once loops over registers are unrolled; parts of t are the same expression everywhere, so that the
// compiler computes each of them once per kernel. Coordinates are no calls: inlining takes NVRTC longer than parsing.
#include <algorithm>
#include <bit>

#include "jit/cuda/emitter.h"
#include "jit/cuda/prelude_text.h"

namespace tegula::cuda {

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

/// In parentheses, but for names and numbers.
std::string operand(const std::string& v) { return std::ranges::all_of(v, text::is_identifier) ? v : "(" + v + ")"; }

std::string shifted(const std::string& v, int by) {
    if (by == 0) return v;
    return "(" + v + (by > 0 ? " << " : " >> ") + std::to_string(by > 0 ? by : -by) + ")";
}

/// XOR of the columns of the set bits of `v`, as few terms as runs of bits allow. Bits move down before they are masked, see Prelude::opaque.
std::string linear_text(std::span<const uint64_t> cols, const std::string& v) {
    std::string out;
    const char* join = disjoint(cols) ? " | " : " ^ ";
    const auto term = [&](const std::string& text) { out += (out.empty() ? "" : join) + text; };
    for (size_t b = 0; b < cols.size();) {
        if (cols[b] == 0) {
            ++b;
            continue;
        }
        if (!std::has_single_bit(cols[b])) {
            term("(" + v + " >> " + std::to_string(b) + " & 1) * " + std::to_string(cols[b]));
            ++b;
            continue;
        }
        size_t end = b + 1;
        while (end < cols.size() && cols[end] == cols[end - 1] << 1 && std::has_single_bit(cols[end])) ++end;
        const int up = std::countr_zero(cols[b]) - static_cast<int>(b), low = up < 0 ? std::countr_zero(cols[b]) : static_cast<int>(b);
        const uint64_t mask = ((uint64_t{1} << (end - b)) - 1) << low;
        term(shifted("(" + shifted(v, std::min(up, 0)) + " & " + std::to_string(mask) + ")", std::max(up, 0)));
        b = end;
    }
    return out.empty() ? "0" : out;
}

/// Digit of dimension d among the odd factors of register `r`, shifted into place; "" when there is none.
std::string digit_text(const TileLayout& l, int d, const std::string& r) {
    const auto dim = static_cast<size_t>(d);
    if (l.odd[dim] <= 1) return "";
    int below = 1;
    for (size_t k = dim + 1; k < l.shape.rank; ++k) below *= l.odd[k];
    std::string digit = shifted(r, -static_cast<int>(l.reg.size()));
    if (below > 1) digit = "(" + digit + " / " + std::to_string(below) + ")";
    return shifted("(" + digit + " % " + std::to_string(l.odd[dim]) + ")", l.bits[dim]);
}

/// What register `r` (an operand) decides of a coordinate, what thread t does, and both: the sum where they are additive.
std::string from_register(const TileLayout& l, int d, const std::string& r) {
    const std::string low = linear_text(columns(l, l.reg, d), r), digit = digit_text(l, d, r);
    return digit.empty() ? low : low == "0" ? digit : digit + " + (" + low + ")";
}

std::string from_thread(const TileLayout& l, int d) { return linear_text(columns(l, thread_bases(l), d), "t"); }

std::string from_both(const TileLayout& l, int d, const std::string& r) {
    const std::string digit = digit_text(l, d, r);
    return (digit.empty() ? "" : digit + " + ") + "((" + linear_text(columns(l, l.reg, d), r) + ") ^ (" + from_thread(l, d) + "))";
}

/// The index expression of one dimension as functions of r and t.
std::string dimension_text(const TileLayout& l, int d, bool additive) {
    const std::string n = std::to_string(d), head = "    static __device__ __forceinline__ int ";
    if (!additive) return head + "at" + n + "(int r, int t) { return " + from_both(l, d, "r") + "; }\n";
    return head + "register" + n + "([[maybe_unused]] int r) { return " + from_register(l, d, "r") + "; }\n" + head + "thread" + n +
           "([[maybe_unused]] int t) { return " + from_thread(l, d) + "; }\n" + head + "at" + n + "(int r, int t) { return register" + n +
           "(r) + thread" + n + "(t); }\n";
}

std::string number_text(const TileLayout& l, bool padded) {
    std::string out;
    for (int d = 0; d < l.shape.rank; ++d) {
        const int64_t extent = padded ? l.padded(d) : l.shape[static_cast<size_t>(d)];
        const std::string at = "at" + std::to_string(d) + "(r, t)";
        out = out.empty() ? at : "(" + out + ") * " + std::to_string(extent) + " + " + at;
    }
    return out.empty() ? "0" : out;
}

std::string inside_text(const TileLayout& l) {
    std::string out;
    for (int d = 0; d < l.shape.rank; ++d) {
        const auto dim = static_cast<size_t>(d);
        if (l.padded(d) == l.shape[dim]) continue;
        out += (out.empty() ? "" : " && ") + ("at" + std::to_string(d)) + "(r, t) < " + std::to_string(l.shape[dim]);
    }
    return out.empty() ? "true" : out;
}

int thread_copies(const TileLayout& l) { return l.lane_copies() | l.warp_copies() << 5; }

int register_copies(const TileLayout& l) {
    int mask = 0;
    for (size_t b = 0; b < l.reg.size(); ++b) mask |= (l.reg[b] == 0) << b;
    return mask;
}

}  // namespace

bool Emitter::additive(const TileLayout& l, int d) const { return is_additive(l, d); }

std::string Emitter::layout_name(const TileLayout& l) {
    auto [it, added] = layout_names_.emplace(to_string(l.shape) + l.text(), "");
    if (!added) return it->second;
    it->second = fresh("L");
    std::string& out = layouts_;
    out += "// " + to_string(l.shape) + ": " + l.text() + "\n";
    out += "struct " + it->second + " {\n    static constexpr int registers = " + std::to_string(l.registers()) + ";\n";
    for (int d = 0; d < l.shape.rank; ++d) out += dimension_text(l, d, additive(l, d));
    const std::string unused = "([[maybe_unused]] int r, [[maybe_unused]] int t)";
    out += "    static __device__ __forceinline__ int logical" + unused + " { return " + number_text(l, false) + "; }\n";
    out += "    static __device__ __forceinline__ int padded" + unused + " { return " + number_text(l, true) + "; }\n";
    out += "    static __device__ __forceinline__ bool inside" + unused + " { return " + inside_text(l) + "; }\n";
    const int copies = thread_copies(l);
    out += "    static __device__ __forceinline__ bool owner([[maybe_unused]] int t) { return " +
           (copies ? "(t & " + std::to_string(copies) + ") == 0" : std::string("true")) + "; }\n};\n";
    return it->second;
}

std::string Emitter::register_part(const TileLayout& l, int d, const std::string& r) { return operand(from_register(l, d, operand(r))); }

std::string Emitter::thread_part(const TileLayout& l, int d) { return operand(from_thread(l, d)); }

std::string Emitter::coordinate(const TileLayout& l, int d, const std::string& r) {
    if (!additive(l, d)) return operand(from_both(l, d, operand(r)));
    const std::string own = register_part(l, d, r), shared = thread_part(l, d);
    return own == "0" ? shared : shared == "0" ? own : "(" + own + " + " + shared + ")";
}

std::string Emitter::padded_number(const TileLayout& l, const std::string& r) { return layout_name(l) + "::padded(" + r + ", t)"; }

std::string Emitter::logical_number(const TileLayout& l, const std::string& r) { return layout_name(l) + "::logical(" + r + ", t)"; }

std::string Emitter::inside(const TileLayout& l, const std::string& r) { return l.has_ghosts() ? layout_name(l) + "::inside(" + r + ", t)" : "true"; }

std::string Emitter::owns(const TileLayout& l, const std::string& r) {
    std::string out;
    const auto also = [&](const std::string& text) { out += (out.empty() ? "" : " && ") + text; };
    if (thread_copies(l)) also(layout_name(l) + "::owner(t)");
    if (const int copies = register_copies(l)) also("(" + r + " & " + std::to_string(copies) + ") == 0");
    if (l.has_ghosts()) also(inside(l, r));
    return out.empty() ? "true" : out;
}

std::string Emitter::rename(const std::vector<int>& map, const std::string& r) {
    bool same = true, linear = true, consecutive = true;
    std::vector<uint64_t> cols;
    for (size_t b = 1; b < map.size(); b <<= 1) cols.push_back(static_cast<uint64_t>(map[b]));
    for (size_t i = 0; i < map.size(); ++i) {
        uint64_t v = 0;
        for (size_t b = 0; b < cols.size(); ++b)
            if (i >> b & 1) v ^= cols[b];
        same = same && map[i] == static_cast<int>(i);
        consecutive = consecutive && map[i] == map[0] + static_cast<int>(i);
        linear = linear && map[i] >= 0 && v == static_cast<uint64_t>(map[i]);
    }
    if (same) return r;
    if (linear) return "(" + linear_text(cols, "(" + r + ")") + ")";
    if (consecutive) return "(" + r + " + " + std::to_string(map[0]) + ")";
    std::string list;
    for (int m : map) list += (list.empty() ? "" : ", ") + std::to_string(m);
    // A table of the whole program: as an array of the function that looks something up in it, each of the unrolled look-ups would initialise it
    // anew.
    return support("rename " + list, "renamed", "__device__ constexpr int $[] = {" + list + "};\n") + "[" + r + "]";
}

}  // namespace tegula::cuda
