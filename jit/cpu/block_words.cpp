// Analysis of layouts for block_words.h. An expression is split into a part that is the same all over a block, of which a divisor is known, and one
// that only the place in the block decides, tabulated.
#include "jit/cpu/block_words.h"

#include <algorithm>
#include <compare>
#include <map>
#include <numeric>

#include "lang/type.h"

namespace tegula::cpu {

namespace {

constexpr unsigned kWord = 32;

/// same + part[point]: `multiple` divides the first, which is 0 where it is 0. One part stands for all points.
struct Split {
    int64_t multiple = 0;
    std::vector<int64_t> part{0};
    bool alike() const { return part.size() == 1; }
    bool constant() const { return multiple == 0 && alike(); }
};
using MaybeSplit = std::optional<Split>;
/// Nothing is known of it, but that it is the same all over the block.
const Split kSame{1, {0}};

int64_t floor_rem(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

class Splitter {
public:
    Splitter(std::span<const int64_t> extents, const BlockShape& shape, int64_t count) : extents_(extents), shape_(shape), count_(count) {}

    MaybeSplit operator()(const LayoutExpr& e) const {
        using E = LayoutExpr;
        if (e.op == E::constant) return Split{0, {e.value}};
        if (e.op == E::extent) {
            const int64_t known = extents_[static_cast<size_t>(e.value)];
            return known == kDynamic ? kSame : Split{0, {known}};
        }
        if (e.op == E::index) return index(static_cast<size_t>(e.value));
        if (!e.a || !e.b) return {};
        const MaybeSplit a = (*this)(*e.a), b = (*this)(*e.b);
        if (!a || !b) return {};
        MaybeSplit out = combined(e.op, *a, *b);
        if (out && std::adjacent_find(out->part.begin(), out->part.end(), std::not_equal_to<>()) == out->part.end()) out->part.resize(1);
        // What only the run knows may be anything, as long as it is the same.
        if (!out && a->alike() && b->alike()) return kSame;
        return out;
    }

private:
    MaybeSplit index(size_t i) const {
        if (i != shape_.n && i != shape_.k) return kSame;
        Split out{i == shape_.n ? int64_t{shape_.lanes} : count_, {}};
        for (int64_t n = 0; n < shape_.lanes; ++n)
            for (int64_t k = 0; k < count_; ++k) out.part.push_back(i == shape_.n ? n : k);
        return out;
    }

    /// of(x, y) of both parts; nothing on overflow.
    template <class Of>
    static bool each(const Split& a, const Split& b, std::vector<int64_t>& out, const Of& of) {
        const size_t size = std::max(a.part.size(), b.part.size());
        out.resize(size);
        for (size_t p = 0; p < size; ++p)
            if (of(a.part[a.alike() ? 0 : p], b.part[b.alike() ? 0 : p], &out[p])) return false;
        return true;
    }

    MaybeSplit combined(LayoutExpr::Op op, const Split& a, const Split& b) const {
        using E = LayoutExpr;
        Split out{std::gcd(a.multiple, b.multiple), {}};
        switch (op) {
            case E::add:
                return each(a, b, out.part, [](auto x, auto y, auto* z) { return __builtin_add_overflow(x, y, z); }) ? MaybeSplit(out) : std::nullopt;
            case E::sub:
                return each(a, b, out.part, [](auto x, auto y, auto* z) { return __builtin_sub_overflow(x, y, z); }) ? MaybeSplit(out) : std::nullopt;
            case E::mul:
                if (a.constant()) return product(b, a.part[0]);
                return b.constant() ? product(a, b.part[0]) : std::nullopt;
            case E::div:
            case E::rem:
                return b.constant() && b.part[0] > 0 ? divided(op == E::div, a, b.part[0]) : std::nullopt;
            case E::bit_xor:
            case E::bit_and:
            case E::bit_or:
                return bitwise(op, a, b);
            default:
                return a.multiple == 0 && b.multiple == 0 ? tabulated(op, a, b) : std::nullopt;
        }
    }

    static MaybeSplit product(const Split& a, int64_t by) {
        Split out;
        if (__builtin_mul_overflow(a.multiple, by, &out.multiple) || out.multiple == INT64_MIN) return {};
        out.multiple = std::abs(out.multiple);
        if (!each(a, Split{0, {by}}, out.part, [](auto x, auto y, auto* z) { return __builtin_mul_overflow(x, y, z); })) return {};
        return out;
    }

    static bool within(const Split& a, int64_t below) {
        return std::all_of(a.part.begin(), a.part.end(), [&](int64_t p) { return p >= 0 && p < below; });
    }

    /// Parts are taken apart where the divisor divides what is the same, and stay below it where they are less than a multiple that divides the
    /// divisor.
    static MaybeSplit divided(bool quotient, const Split& a, int64_t by) {
        Split out;
        if (a.multiple % by == 0) {
            out.multiple = quotient ? a.multiple / by : 0;
            for (int64_t p : a.part) out.part.push_back(quotient ? floor_div(p, by) : floor_rem(p, by));
            out.part.erase(out.part.begin());
            return out;
        }
        const int64_t shared = std::gcd(a.multiple, by);
        if (!within(a, shared)) return {};
        if (quotient) return kSame;
        out.multiple = shared;
        out.part = a.part;
        return out;
    }

    /// Bits of the parts lie below all of what is the same.
    static MaybeSplit bitwise(LayoutExpr::Op op, const Split& a, const Split& b) {
        const int64_t multiple = std::gcd(a.multiple, b.multiple), low = multiple & -multiple;
        if (multiple != 0 && !(within(a, low) && within(b, low))) return {};
        Split out{low, {}};
        each(a, b, out.part, [&](int64_t x, int64_t y, int64_t* z) {
            *z = op == LayoutExpr::bit_xor ? x ^ y : op == LayoutExpr::bit_and ? x & y : x | y;
            return false;
        });
        return out;
    }

    static MaybeSplit tabulated(LayoutExpr::Op op, const Split& a, const Split& b) {
        Split out;
        bool overflow = false;
        each(a, b, out.part, [&](int64_t x, int64_t y, int64_t* z) {
            const int64_t at[] = {x, y};
            *z = LayoutExpr::make(op, LayoutExpr::make_index(0), LayoutExpr::make_index(1)).eval(at, {}, &overflow);
            return false;
        });
        return overflow ? std::nullopt : MaybeSplit(out);
    }

    std::span<const int64_t> extents_;
    const BlockShape& shape_;
    const int64_t count_;
};

/// By member of the physical tuple: its extent where large tensors all have the same, else 0.
std::vector<int64_t> fixed_extents(const Layout& layout, size_t rank) {
    // Beyond what physical_extents() enumerates.
    const std::vector<int64_t> large(rank, int64_t{1} << 22), larger(rank, int64_t{1} << 23);
    std::vector<int64_t> out = layout.physical_extents(large);
    const std::vector<int64_t> other = layout.physical_extents(larger);
    for (size_t m = 0; m < out.size(); ++m)
        if (out[m] != other[m] || out[m] == INT64_MAX) out[m] = 0;
    return out;
}

using Region = std::pair<BlockPlace, int64_t>;  ///< from there on so many bits

/// Where the elements of a block lie, and what is known to be in storage with them.
struct Places {
    std::vector<BlockPlace> at;   ///< [lanes, count]
    std::vector<Region> regions;  ///< in order, apart from each other
};

class Analysis {
public:
    Analysis(const Layout& layout, std::span<const int64_t> extents, unsigned bits, const BlockShape& shape)
        : members_(layout.physical(static_cast<int>(extents.size()))), extents_(extents), shape_(shape), bits_(bits) {
        const std::vector<int64_t> fixed = fixed_extents(layout, extents.size());
        pitches_.resize(members_.size());
        int64_t pitch = bits;
        for (size_t m = members_.size(); m-- > 0;) {
            pitches_[m] = pitch;
            if (__builtin_mul_overflow(pitch, fixed[m], &pitch)) pitch = 0;
            if (m + 1 == members_.size()) pitch = (pitch + 7) / 8 * 8;
            if (fixed[m] == 0 && outer_ == SIZE_MAX) outer_ = m;
        }
    }

    /// The best block of `count`.
    std::optional<BlockWords> block(int64_t count) const {
        if (outer_ == SIZE_MAX) return {};
        BlockWords out;
        out.lanes = shape_.lanes;
        out.bits = bits_;
        out.count = count;
        out.pitches.assign(members_.size(), 0);
        const std::optional<Places> places = this->places(out);
        if (!places) return {};
        choose_step(out, places->at);
        choose_pieces(out, places->regions);
        return out;
    }

private:
    std::optional<Places> places(BlockWords& out) const {
        const Splitter split(extents_, shape_, out.count);
        std::vector<Split> parts;
        for (const LayoutExpr& e : members_) {
            MaybeSplit part = split(e);
            if (!part) return {};
            parts.push_back(std::move(*part));
        }
        // Places count from the region that the block's first element proves to be in storage, if that is known, else from the element.
        bool known = true;
        for (size_t m = outer_ + 1; m < parts.size(); ++m) known = known && parts[m].multiple == 0;
        if (known)
            for (size_t m = outer_ + 1; m < parts.size(); ++m) out.origin += parts[m].part[0] * pitches_[m];
        const bool from_element = !known || outer_ + 1 == parts.size();
        out.phase = (parts.back().multiple | (from_element ? parts.back().part[0] : 0)) * bits_ % 8 != 0;
        Places places;
        std::map<std::vector<int64_t>, uint32_t> lines;
        std::vector<Region> regions;
        std::vector<int64_t> line(members_.size());
        for (size_t p = 0; p < static_cast<size_t>(shape_.lanes * out.count); ++p) {
            int64_t outer = 0, inner = 0;
            for (size_t m = 0; m < members_.size(); ++m) {
                const Split& s = parts[m];
                const int64_t from = known && m > outer_ ? 0 : s.part[0], by = (s.alike() ? s.part[0] : s.part[p]) - from;
                if (pitches_[m] == 0) {
                    line[m] = by;
                    continue;
                }
                if (by != 0) out.pitches[m] = pitches_[m];
                int64_t bit;
                if (__builtin_mul_overflow(by, pitches_[m], &bit) || std::abs(bit) > kFarthest) return {};
                (m > outer_ ? inner : outer) += bit;
            }
            const auto number = lines.emplace(line, static_cast<uint32_t>(lines.size())).first->second;
            if (number == out.lines.size()) out.lines.push_back(line);
            places.at.push_back({number, outer + inner});
            const int64_t whole = known ? pitches_[outer_] : bits_;
            regions.push_back({{number, known ? outer : outer + inner}, whole});
        }
        if (known) out.pitches[outer_] = pitches_[outer_];
        std::sort(regions.begin(), regions.end());
        for (const auto& r : regions) {
            const bool next = !places.regions.empty() && places.regions.back().first.line == r.first.line &&
                              r.first.bit <= places.regions.back().first.bit + places.regions.back().second;
            if (!next)
                places.regions.push_back(r);
            else
                places.regions.back().second = std::max(places.regions.back().second, r.first.bit + r.second - places.regions.back().first.bit);
        }
        return places;
    }

    /// Fields that keep their distance in all lanes and steps share a word. Small steps are better, as long as their words are well filled.
    void choose_step(BlockWords& out, const std::vector<BlockPlace>& at) const {
        constexpr int64_t kFilled = 4;
        const int64_t most = std::min(out.count, shape_.most_step);
        const BlockWords none = out;
        for (int64_t step = std::min(most, shape_.least_step); step <= most; step *= 2) {
            BlockWords trial = none;
            slots(trial, at, step);
            const auto words = [](const BlockWords& b) { return static_cast<double>(b.slots()) / static_cast<double>(b.step); };
            if (out.step && words(trial) >= words(out)) continue;
            out = std::move(trial);
            if (out.slots() * kFilled <= static_cast<size_t>(step)) break;
        }
    }

    void slots(BlockWords& out, const std::vector<BlockPlace>& at, int64_t step) const {
        struct Slot {
            int64_t anchor, low, high;  // an element of the step; bits from it on
        };
        std::vector<Slot> slots;
        std::vector<std::pair<size_t, int64_t>> found;
        const auto place = [&](int64_t lane, int64_t k) -> const BlockPlace& { return at[static_cast<size_t>(lane * out.count + k)]; };
        const auto distance = [&](int64_t from, int64_t to) -> std::optional<int64_t> {
            const int64_t bits = place(0, to).bit - place(0, from).bit;
            for (int64_t lane = 0; lane < shape_.lanes; ++lane)
                for (int64_t k = 0; k < out.count; k += step) {
                    const BlockPlace &x = place(lane, k + from), &y = place(lane, k + to);
                    if (x.line != y.line || y.bit - x.bit != bits) return {};
                }
            return bits;
        };
        const int64_t word = kWord - (out.phase ? 7 : 0);
        for (int64_t j = 0; j < step; ++j) {
            bool put = false;
            for (size_t s = 0; s < slots.size() && !put; ++s) {
                const auto bits = distance(slots[s].anchor, j);
                if (!bits) continue;
                const int64_t low = std::min(slots[s].low, *bits), high = std::max(slots[s].high, *bits + bits_);
                if (high - low > word) continue;
                slots[s].low = low, slots[s].high = high;
                found.emplace_back(s, *bits);
                put = true;
            }
            if (put) continue;
            found.emplace_back(slots.size(), 0);
            slots.push_back({j, 0, bits_});
        }
        out.step = step;
        for (const auto& [s, bit] : found) out.fields.push_back({static_cast<uint32_t>(s), static_cast<uint32_t>(bit - slots[s].low)});
        for (const Slot& s : slots) out.widths.push_back(static_cast<unsigned>(s.high - s.low));
        for (int64_t k = 0; k < out.count; k += step)
            for (const Slot& s : slots)
                for (int64_t lane = 0; lane < shape_.lanes; ++lane) {
                    const BlockPlace& from = place(lane, k + s.anchor);
                    out.words.push_back({from.line, from.bit + s.low});
                }
    }

    /// As long as all that is read is in storage.
    void choose_pieces(BlockWords& out, const std::vector<Region>& regions) const {
        const auto covers = [&](uint32_t line, int64_t piece, unsigned words) {
            const int64_t from = piece * words * kWord, to = from + int64_t{words} * kWord;
            auto after = std::upper_bound(regions.begin(), regions.end(), BlockPlace{line, from},
                                          [](const BlockPlace& p, const auto& r) { return p < r.first; });
            if (after == regions.begin()) return false;
            const auto& [first, bits] = *--after;
            // A byte is in storage with any of its bits.
            return first.line == line && floor_div(first.bit, 8) * 8 <= from && (first.bit + bits + 7) / 8 * 8 >= to;
        };
        for (unsigned words : {4u, 2u, 1u}) {
            out.piece = words;
            out.covered = !out.phase;
            each_word(out, [&](uint32_t line, int64_t word) { out.covered = out.covered && covers(line, floor_div(word, words), words); });
            if (out.covered) break;
        }
        if (!out.covered) out.piece = 4;
        const int64_t bytes = out.piece * kWord / 8;
        out.low = INT64_MAX, out.high = INT64_MIN;
        each_word(out, [&](uint32_t, int64_t word) {
            const int64_t from = floor_div(word, out.piece) * bytes;
            out.low = std::min(out.low, from);
            out.high = std::max(out.high, from + bytes);
        });
    }

    template <class Body>
    static void each_word(const BlockWords& block, const Body& body) {
        for (size_t w = 0; w < block.words.size(); ++w) {
            const BlockPlace& p = block.words[w];
            const WordRange range = words_at(block, p.bit, block.widths[w / block.lanes % block.slots()]);
            for (unsigned i = 0; i < range.count; ++i) body(p.line, range.first + i);
        }
    }

public:
    /// Instructions for an element, roughly.
    static double cost(const BlockWords& block) {
        std::vector<std::pair<uint32_t, int64_t>> pieces;
        each_word(block, [&](uint32_t line, int64_t word) { pieces.emplace_back(line, floor_div(word, block.piece)); });
        std::sort(pieces.begin(), pieces.end());
        const auto distinct = std::unique(pieces.begin(), pieces.end()) - pieces.begin();
        return (static_cast<double>(distinct) + 3.0 * static_cast<double>(block.vectors())) / static_cast<double>(block.count) +
               (block.covered ? 0 : 4);
    }

private:
    static constexpr int64_t kFarthest = int64_t{1} << 31;  ///< bits within a block
    const std::vector<LayoutExpr> members_;
    const std::span<const int64_t> extents_;
    const BlockShape& shape_;
    const unsigned bits_;
    std::vector<int64_t> pitches_;  ///< by member, in bits, of large tensors; 0: not always the same
    size_t outer_ = SIZE_MAX;       ///< the last member with as many values as the tensor has: with one, all of what follows is in storage
};

}  // namespace

WordRange words_at(const BlockWords& block, int64_t bit, unsigned width) {
    const int64_t first = floor_div(bit, kWord);
    const auto shift = static_cast<unsigned>(bit - first * kWord);
    return {first, shift + width + (block.phase ? 7 : 0) > kWord ? 2u : 1u};
}

std::optional<BlockWords> block_words(const Layout& layout, std::span<const int64_t> extents, unsigned bits, const BlockShape& shape) {
    constexpr size_t kMostVectors = 64;  ///< whose code is written down
    const Analysis analysis(layout, extents, bits, shape);
    std::optional<BlockWords> best;
    for (int64_t count = shape.least; count <= shape.most; count *= 2) {
        std::optional<BlockWords> block = analysis.block(count);
        if (!block || block->vectors() > kMostVectors) continue;
        if (!best || Analysis::cost(*block) <= Analysis::cost(*best)) best = std::move(block);
    }
    return best;
}

}  // namespace tegula::cpu
