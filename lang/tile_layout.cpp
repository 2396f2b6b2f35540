// TileLayout itself: evaluating the map, its invariants, and its text. The constructors are in tile_layout_make.cpp.
#include "lang/tile_layout.h"

#include <bit>
#include <charconv>

#include "lang/gf2.h"

namespace tegula {

namespace {

constexpr int64_t kMaxRegisters = int64_t{1} << 24;
constexpr size_t kMaxWarpBits = 5;

int odd_product(const TileLayout& l) {
    int n = 1;
    for (int d = 0; d < l.shape.rank; ++d) n *= l.odd[static_cast<size_t>(d)];
    return n;
}

}  // namespace

int TileLayout::registers() const { return odd_product(*this) << reg.size(); }

int TileLayout::total_bits() const {
    int n = 0;
    for (size_t d = 0; d < shape.rank; ++d) n += bits[d];
    return n;
}

TileLayout::Point TileLayout::point(int reg_number, int lane_number, int warp_number) const {
    const auto r = static_cast<uint64_t>(reg_number);
    const uint64_t low = r & ((uint64_t{1} << reg.size()) - 1);
    uint64_t packed = gf2::combine(reg, low) ^ gf2::combine(lane, static_cast<uint64_t>(lane_number) & 31);
    packed ^= gf2::combine(warp, static_cast<uint64_t>(warp_number) & ((uint64_t{1} << warp.size()) - 1));
    uint64_t digits = r >> reg.size();
    Point p{};
    for (size_t d = shape.rank; d-- > 0;) {
        p[d] = static_cast<int64_t>((digits % odd[d]) << bits[d] | (packed & ((uint64_t{1} << bits[d]) - 1)));
        digits /= odd[d];
        packed >>= bits[d];
    }
    return p;
}

bool TileLayout::inside(const Point& p) const {
    for (size_t d = 0; d < shape.rank; ++d) {
        if (p[d] < 0 || p[d] >= shape[d]) return false;
    }
    return true;
}

int TileLayout::find_register(const Point& p, int lane_number, int warp_number) const {
    uint64_t packed = 0, digits = 0;
    for (size_t d = 0; d < shape.rank; ++d) {
        if (p[d] < 0 || p[d] >= padded(static_cast<int>(d))) return -1;
        packed = packed << bits[d] | (static_cast<uint64_t>(p[d]) & ((uint64_t{1} << bits[d]) - 1));
        digits = digits * odd[d] + static_cast<uint64_t>(p[d] >> bits[d]);
    }
    packed ^= gf2::combine(lane, static_cast<uint64_t>(lane_number) & 31);
    packed ^= gf2::combine(warp, static_cast<uint64_t>(warp_number) & ((uint64_t{1} << warp.size()) - 1));
    uint64_t low = 0;
    if (!gf2::Space(reg).solve(packed, low)) return -1;
    return static_cast<int>(digits << reg.size() | low);
}

int TileLayout::lane_copies() const {
    int mask = 0;
    for (size_t b = 0; b < lane.size(); ++b) mask |= (lane[b] == 0) << b;
    return mask;
}

int TileLayout::warp_copies() const {
    int mask = 0;
    for (size_t b = 0; b < warp.size(); ++b) mask |= (warp[b] == 0) << b;
    return mask;
}

bool TileLayout::has_ghosts() const {
    for (size_t d = 0; d < shape.rank; ++d) {
        if (padded(static_cast<int>(d)) != shape[d]) return true;
    }
    return false;
}

bool TileLayout::valid() const {
    int64_t registers_used = 1;
    for (size_t d = 0; d < shape.rank; ++d) {
        if (odd[d] % 2 == 0 || bits[d] > 30 || padded(static_cast<int>(d)) < shape[d]) return false;
        registers_used *= odd[d];
        if (registers_used > kMaxRegisters) return false;
    }
    const int n = total_bits();
    if (n > 40 || reg.size() > 24 || registers_used << reg.size() > kMaxRegisters || warp.size() > kMaxWarpBits) return false;
    gf2::Space space;
    const auto independent = [&](uint64_t v) { return v >> n == 0 && (v == 0 || space.insert(v)); };
    for (uint64_t v : reg) {
        if (!independent(v)) return false;
    }
    for (uint64_t v : lane) {
        if (!independent(v)) return false;
    }
    for (uint64_t v : warp) {
        if (!independent(v)) return false;
    }
    return space.dimension() == n;
}

namespace {

/// "1:8", "0:1+1:2" (dimension:coordinate), "0" for copies.
void basis_text(const TileLayout& l, uint64_t v, std::string& out) {
    out += ' ';
    if (v == 0) {
        out += '0';
        return;
    }
    std::string text;
    for (size_t d = l.shape.rank; d-- > 0;) {
        const uint64_t c = v & ((uint64_t{1} << l.bits[d]) - 1);
        v >>= l.bits[d];
        if (c) text = std::to_string(d) + ":" + std::to_string(c) + (text.empty() ? "" : "+") + text;
    }
    out += text;
}

/// Reads what text() writes; every method leaves the cursor behind what it read or reports false.
class LayoutReader {
public:
    explicit LayoutReader(std::string_view text) : rest_(text) {}
    bool word(std::string_view w) {
        skip();
        if (!rest_.starts_with(w)) return false;
        rest_.remove_prefix(w.size());
        return true;
    }
    bool number(uint64_t& n) {
        skip();
        const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), n);
        if (error != std::errc{}) return false;
        rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
        return true;
    }
    bool at_digit() {
        skip();
        return !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9';
    }
    bool done() {
        skip();
        return rest_.empty();
    }

private:
    void skip() {
        while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
    }
    std::string_view rest_;
};

bool read_padding(LayoutReader& in, TileLayout& l) {
    if (!in.word("[")) return false;
    for (size_t d = 0; d < l.shape.rank; ++d) {
        uint64_t odd = 1, power = 0;
        if ((d && !in.word(",")) || !in.number(power)) return false;
        if (in.word("*")) {
            odd = power;
            if (!in.number(power)) return false;
        }
        if (odd > 255 || !std::has_single_bit(power) || power >> 30) return false;
        l.odd[d] = static_cast<uint8_t>(odd);
        l.bits[d] = static_cast<uint8_t>(std::countr_zero(power));
    }
    return in.word("]");
}

bool read_basis(LayoutReader& in, const TileLayout& l, uint64_t& v) {
    v = 0;
    do {
        uint64_t d = 0, c = 0;
        if (!in.number(d)) return false;
        if (!in.word(":")) return d == 0 && v == 0;
        if (d >= l.shape.rank || !in.number(c) || c >> l.bits[d]) return false;
        for (size_t e = d + 1; e < l.shape.rank; ++e) c <<= l.bits[e];
        v ^= c;
    } while (in.word("+"));
    return true;
}

bool read_bases(LayoutReader& in, const TileLayout& l, std::string_view name, size_t most, std::vector<uint64_t>& to) {
    if (!in.word(name)) return false;
    while (in.at_digit()) {
        if (to.size() == most) return false;
        to.push_back(0);
        if (!read_basis(in, l, to.back())) return false;
    }
    return true;
}

}  // namespace

std::string TileLayout::text() const {
    std::string out = "[";
    for (size_t d = 0; d < shape.rank; ++d) {
        if (d) out += ", ";
        if (odd[d] != 1) out += std::to_string(odd[d]) + "*";
        out += std::to_string(int64_t{1} << bits[d]);
    }
    out += "] reg";
    for (uint64_t v : reg) basis_text(*this, v, out);
    out += " lane";
    for (uint64_t v : lane) basis_text(*this, v, out);
    out += " warp";
    for (uint64_t v : warp) basis_text(*this, v, out);
    return out;
}

std::optional<TileLayout> parse_tile_layout(std::string_view text, const Shape& shape) {
    TileLayout l;
    l.shape = shape;
    LayoutReader in(text);
    if (!read_padding(in, l) || l.total_bits() > 40) return std::nullopt;
    std::vector<uint64_t> lanes;
    if (!read_bases(in, l, "reg", 24, l.reg) || !read_bases(in, l, "lane", 5, lanes) || !read_bases(in, l, "warp", kMaxWarpBits, l.warp))
        return std::nullopt;
    if (lanes.size() != 5 || !in.done()) return std::nullopt;
    std::copy(lanes.begin(), lanes.end(), l.lane.begin());
    if (!l.valid()) return std::nullopt;
    return l;
}

}  // namespace tegula
