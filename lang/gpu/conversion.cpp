// Moving a tile between two register layouts: a renaming of registers, exchanges within warps (selects and shuffles, planned by linear algebra
// over GF(2)), or shared memory (exchange.cpp), whichever costs least.
#include "lang/gpu/conversion.h"

#include <algorithm>
#include <bit>

#include "lang/check.h"
#include "lang/gf2.h"

namespace tegula {

namespace {

constexpr size_t kLaneBits = 5;

bool same_padding(const TileLayout& a, const TileLayout& b) { return a.shape == b.shape && a.bits == b.bits && a.odd == b.odd; }

/// Does source register r hold what destination register d needs, in every thread?
bool serves(const TileLayout& from, const TileLayout& to, int r, int d) {
    for (int w = 0; w < to.warps(); ++w) {
        for (int t = 0; t < 32; ++t) {
            const TileLayout::Point p = to.point(d, t, w);
            if (to.inside(p) && from.point(r, t, w) != p) return false;
        }
    }
    return true;
}

/// Registers for layouts of one padding: the map of the threads must be the same, then every destination basis is solved for.
bool rename_linear(const TileLayout& from, const TileLayout& to, std::vector<int>& rename) {
    if (from.lane != to.lane || from.warp != to.warp) return false;
    const gf2::Space space(from.reg);
    std::vector<uint64_t> source(to.reg.size());
    for (size_t b = 0; b < to.reg.size(); ++b) {
        if (!space.solve(to.reg[b], source[b])) return false;
    }
    const int low = (1 << to.reg.size()) - 1;
    for (int d = 0; d < to.registers(); ++d) {
        const auto digits = static_cast<uint64_t>(d) >> to.reg.size();
        rename.push_back(static_cast<int>(digits << from.reg.size() | gf2::combine(source, static_cast<uint64_t>(d & low))));
    }
    return true;
}

bool rename_general(const TileLayout& from, const TileLayout& to, std::vector<int>& rename) {
    for (int d = 0; d < to.registers(); ++d) {
        int source = -1;
        const TileLayout::Point p = to.point(d, 0, 0);
        if (to.inside(p)) {
            source = from.find_register(p, 0, 0);
            if (source < 0 || !serves(from, to, source, d)) return false;
        } else {
            for (int r = 0; r < from.registers() && source < 0; ++r) {
                if (serves(from, to, r, d)) source = r;
            }
            if (source < 0) return false;
        }
        rename.push_back(source);
    }
    return true;
}

/// For every destination bit, the source register and lane bits that hold its basis vector. Source copies are read from the thread's own place.
struct Sources {
    std::vector<uint64_t> reg_of_reg, lane_of_reg;  ///< by destination register bit
    std::array<uint64_t, kLaneBits> reg_of_lane{}, lane_of_lane{};
    std::vector<uint64_t> reg_of_warp, lane_of_warp;
};

class ShufflePlan {
public:
    ShufflePlan(const TileLayout& from, const TileLayout& to) : from_(from), to_(to) {}

    bool plan(Conversion& c) {
        if (!find_sources()) return false;
        if (!spread()) return false;
        return emit(c);
    }

private:
    /// Vectors reg bits, then lane bits of the source; a vector splits into (register, lane) parts.
    bool solve(uint64_t v, uint64_t& reg, uint64_t& lane) const {
        uint64_t from = 0;
        if (!space_.solve(v, from)) return false;
        reg = from & ((uint64_t{1} << from_.reg.size()) - 1);
        lane = from >> from_.reg.size();
        return true;
    }

    bool find_sources() {
        if (from_.warp.size() != to_.warp.size()) return false;
        space_.insert(from_.reg);
        space_.insert(from_.lane);
        s_.reg_of_reg.resize(to_.reg.size());
        s_.lane_of_reg.resize(to_.reg.size());
        for (size_t b = 0; b < to_.reg.size(); ++b) {
            if (!solve(to_.reg[b], s_.reg_of_reg[b], s_.lane_of_reg[b])) return false;
        }
        for (size_t b = 0; b < kLaneBits; ++b) {
            if (!solve(to_.lane[b], s_.reg_of_lane[b], s_.lane_of_lane[b])) return false;
            if (from_.lane[b] == 0) s_.lane_of_lane[b] |= uint64_t{1} << b;
        }
        s_.reg_of_warp.resize(to_.warp.size());
        s_.lane_of_warp.resize(to_.warp.size());
        for (size_t b = 0; b < to_.warp.size(); ++b) {
            if (!solve(to_.warp[b] ^ from_.warp[b], s_.reg_of_warp[b], s_.lane_of_warp[b])) return false;
            if (s_.lane_of_warp[b]) return false;  // the lane to read from would depend on the warp
        }
        return true;
    }

    uint64_t lane_map(uint64_t x) const { return gf2::combine(s_.lane_of_lane, x) ^ gf2::combine(s_.lane_of_reg, gf2::combine(keep_, x)); }
    uint64_t give_map(uint64_t x) const { return gf2::combine(s_.reg_of_lane, x) ^ gf2::combine(s_.reg_of_reg, gf2::combine(keep_, x)); }

    /// Chooses in which register each lane keeps the value of a round, so that no lane is asked for two registers in one round.
    bool spread() {
        keep_.fill(0);
        for (size_t step = 0; step <= kLaneBits; ++step) {
            uint64_t clash = 0;
            for (uint64_t x = 1; x < 32 && !clash; ++x) {
                if (lane_map(x) == 0 && give_map(x) != 0) clash = x;
            }
            if (!clash) return true;
            gf2::Space image;
            for (size_t b = 0; b < kLaneBits; ++b) image.insert(lane_map(uint64_t{1} << b));
            size_t e = 0;
            while (e < to_.reg.size() && image.contains(s_.lane_of_reg[e])) ++e;
            if (e == to_.reg.size()) return false;
            keep_[static_cast<size_t>(std::countr_zero(clash))] ^= uint64_t{1} << e;
        }
        return false;
    }

    bool emit(Conversion& c) const {
        gf2::Space image;
        std::array<uint64_t, kLaneBits> gives{};
        for (size_t b = 0; b < kLaneBits; ++b) {
            image.insert(lane_map(uint64_t{1} << b));
            gives[b] = give_map(uint64_t{1} << b);
        }
        // What lane s gives: the register that its reader wants. Lanes that nobody reads follow the nearest that is read.
        gf2::Space full = image;
        c.give_thread.assign(kLaneBits + to_.warp.size(), 0);
        for (size_t b = 0; b < kLaneBits; ++b) {
            uint64_t readers = 0;
            full.insert(uint64_t{1} << b);
            full.solve(uint64_t{1} << b, readers);
            c.give_thread[b] = static_cast<int>(gf2::combine(gives, readers & 31));
        }
        for (size_t b = 0; b < to_.warp.size(); ++b) c.give_thread[kLaneBits + b] = static_cast<int>(s_.reg_of_warp[b]);
        for (size_t b = 0; b < kLaneBits; ++b) {
            c.lane_map[b] = static_cast<int>(lane_map(uint64_t{1} << b));
            c.keep_lane[b] = static_cast<int>(keep_[b]);
        }
        const uint64_t low = (uint64_t{1} << to_.reg.size()) - 1;
        for (int k = 0; k < to_.registers(); ++k) {
            const uint64_t bits = static_cast<uint64_t>(k) & low, digits = static_cast<uint64_t>(k) >> to_.reg.size();
            const uint64_t lane = gf2::combine(s_.lane_of_reg, bits);
            // give_thread speaks of the giving lane, which is lane_map(reader) ^ lane.
            const uint64_t back = static_cast<uint64_t>(gf2::combine(c.give_thread, lane));
            const uint64_t reg = gf2::combine(s_.reg_of_reg, bits) ^ back;
            c.rounds.push_back({static_cast<int>(digits << from_.reg.size() | reg), static_cast<int>(lane), k});
        }
        return true;
    }

    const TileLayout& from_;
    const TileLayout& to_;
    gf2::Space space_;
    Sources s_;
    std::array<uint64_t, kLaneBits> keep_{};
};

/// Selects per register: choosing one of 2^rank of them takes one step per dimension.
template <class Columns>
int selects(const Columns& columns) {
    gf2::Space space;
    for (int v : columns) space.insert(static_cast<uint64_t>(v));
    return space.dimension();
}

/// In selects: a shuffle is worth two, as are a store and a load of shared memory (each for a whole warp); a barrier is some sixteen accesses.
bool worth_shuffling(const Conversion& c, const TileLayout& from, const TileLayout& to) {
    constexpr int kBarrier = 32;
    const int per_value = c.same_lane() ? 0 : 2;
    const int shuffle = from.registers() * selects(c.give_thread) + to.registers() * (per_value + selects(c.keep_lane));
    const int shared = 2 * (from.registers() + to.registers()) + kBarrier;
    // Scratch takes memory from the stages of channels, and shuffles of 16-bit values go in pairs.
    return shuffle <= 2 * shared;
}

}  // namespace

bool Conversion::same_lane() const {
    for (size_t b = 0; b < lane_map.size(); ++b) {
        if (lane_map[b] != 1 << b) return false;
    }
    return std::all_of(rounds.begin(), rounds.end(), [](const Round& r) { return r.lane == 0; });
}

Conversion plan_conversion(const TileLayout& from, const TileLayout& to) {
    TEGULA_CHECK(from.shape == to.shape && from.warps() == to.warps());
    Conversion c;
    if (from == to) return c;
    const bool same = same_padding(from, to);
    if (same ? rename_linear(from, to, c.rename) : rename_general(from, to, c.rename)) {
        c.kind = Conversion::registers;
        return c;
    }
    c.rename.clear();
    if (same && ShufflePlan(from, to).plan(c) && worth_shuffling(c, from, to)) {
        c.kind = Conversion::shuffle;
        c.shuffles = c.same_lane() ? 0 : static_cast<int>(c.rounds.size());
        return c;
    }
    c = {};
    c.kind = Conversion::shared;
    return c;
}

}  // namespace tegula
