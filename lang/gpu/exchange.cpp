// How a tile goes from one register layout to another through shared memory: where each element lies, so that writes and reads are wide and free
// of bank conflicts. For power-of-two tiles this is a choice of subspaces over GF(2) (arXiv 2505.23819 section 5.4): vectors V that both sides
// hold in registers lie lowest, one side may go on (X), then come the banks, and the segments S above them must meet neither side's lanes.
#include <algorithm>
#include <bit>

#include "lang/check.h"
#include "lang/gf2.h"
#include "lang/gpu/conversion.h"

namespace tegula {

namespace {

using Vectors = std::vector<uint64_t>;
constexpr int kLineBytes = 128;   // one wavefront: 32 banks of 4 bytes
constexpr int kVectorBytes = 16;  // widest access of a thread

int log2_exact(int v) { return std::countr_zero(static_cast<unsigned>(v)); }
int container_bytes(int elem_bits) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(elem_bits, 8)))) / 8; }

void append(Vectors& to, const Vectors& from) { to.insert(to.end(), from.begin(), from.end()); }

Vectors joined(std::initializer_list<const Vectors*> parts) {
    Vectors r;
    for (const Vectors* p : parts) append(r, *p);
    return r;
}

/// Lanes that are served in one wavefront: an access of 8 or 16 bytes goes half or quarter warp by half or quarter warp.
int lanes_together(int access_bytes) { return 5 - std::max(0, log2_exact(access_bytes) - 2); }

/// One side of the exchange.
struct Side {
    Vectors reg, lane, threads;  ///< threads: lanes and warps
    explicit Side(const TileLayout& l) : reg(l.reg), lane(l.lane.begin(), l.lane.end()), threads(lane) { append(threads, l.warp); }
    Vectors phase(int access_bytes) const { return {lane.begin(), lane.begin() + lanes_together(access_bytes)}; }
};

/// Vectors of span(a) that lie in span(b) too.
Vectors intersection(const Vectors& a, const Vectors& b) {
    gf2::Space space(b);
    const size_t first = b.size();
    Vectors r;
    for (size_t i = 0; i < a.size(); ++i) {
        uint64_t from = 0;
        if (a[i] && space.solve(a[i], from)) {
            // a[i] is a sum of vectors of b and of earlier ones of a: the part from a is common.
            uint64_t v = a[i];
            for (size_t j = 0; j < i; ++j) v ^= from >> (first + j) & 1 ? a[j] : 0;
            r.push_back(v);
        }
        space.insert(a[i]);
    }
    return r;
}

/// One choice of the low address bits: both sides access `common` at once, one of them also `more`, and `fill` completes a 32-bit word.
struct Choice {
    Vectors common, more, fill;
    bool writer = true;  ///< whose `more` is
};

class Search {
public:
    Search(const TileLayout& from, const TileLayout& to, int elem_bytes)
        : n_(from.total_bits()), bytes_(elem_bytes), write_(from), read_(to), threads_(joined({&write_.threads, &read_.threads})) {
        for (int b = 0; b < n_; ++b) units_.push_back(uint64_t{1} << b);
    }

    Exchange run() {
        Choice c;
        for (uint64_t v : intersection(write_.reg, read_.reg)) {
            if (static_cast<int>(c.common.size()) == max_vector()) break;
            c.common.push_back(v);
            if (!aligned(c, {})) c.common.pop_back();
        }
        for (bool writer : {true, false}) {
            c.writer = writer;
            c.more.clear();
            consider(c);
            for (uint64_t v : (writer ? write_ : read_).reg) {
                if (static_cast<int>(c.common.size() + c.more.size()) == max_vector()) break;
                c.more.push_back(v);
                if (aligned(c, {}))
                    consider(c);
                else
                    c.more.pop_back();
            }
        }
        return best_;
    }

private:
    int max_vector() const { return log2_exact(kVectorBytes / bytes_); }
    int line_bits() const { return log2_exact(kLineBytes / bytes_); }
    int word_bits() const { return std::max(0, 2 - log2_exact(bytes_)); }
    const Side& own(const Choice& c) const { return c.writer ? write_ : read_; }
    const Side& other(const Choice& c) const { return c.writer ? read_ : write_; }

    /// With `rest` among the higher address bits: are there higher bits such that no thread number touches the low bits of its side's accesses?
    bool aligned(const Choice& c, const Vectors& rest) const {
        const Vectors low = joined({&c.common, &c.more});
        if (gf2::Space(low).dimension() != static_cast<int>(low.size())) return false;
        return gf2::common_dimension(low, joined({&own(c).threads, &rest})) == 0 &&
               gf2::common_dimension(c.common, joined({&c.more, &threads_, &rest})) == 0;
    }

    /// The elements that a wavefront of each side touches (subspaces that the segments should not meet).
    Vectors own_footprint(const Choice& c) const {
        const Vectors phase = own(c).phase(bytes_ << (c.common.size() + c.more.size()));
        return joined({&c.common, &c.more, &c.fill, &phase});
    }
    Vectors other_footprint(const Choice& c) const {
        Vectors word = joined({&c.common, &c.more, &c.fill});
        word.resize(std::min(word.size(), std::max(c.common.size(), static_cast<size_t>(word_bits()))));
        const Vectors phase = other(c).phase(bytes_ << c.common.size());
        return joined({&word, &phase});
    }

    /// Vectors within a word that no access covers; lanes of both sides first (they then share words).
    void fill_word(Choice& c) const {
        Vectors candidates = intersection(own(c).phase(bytes_), other(c).phase(bytes_));
        append(candidates, units_);
        gf2::Space taken(joined({&c.common, &c.more}));
        for (uint64_t v : candidates) {
            if (static_cast<int>(c.common.size() + c.more.size() + c.fill.size()) >= std::min(word_bits(), n_)) return;
            if (taken.contains(v)) continue;
            c.fill.push_back(v);
            if (aligned(c, c.fill))
                taken.insert(v);
            else
                c.fill.pop_back();
        }
    }

    /// Candidates: unit and thread vectors outside both footprints, then sums of one inside the one and one inside the other, then all.
    Vectors segment_candidates(const gf2::Space& a, const gf2::Space& b) const {
        Vectors base = joined({&units_, &threads_, &write_.reg, &read_.reg}), first, second, third;
        std::sort(base.begin(), base.end());
        base.erase(std::unique(base.begin(), base.end()), base.end());
        for (size_t i = 0; i < base.size(); ++i) {
            const bool in_a = a.contains(base[i]), in_b = b.contains(base[i]);
            if (!in_a && !in_b) first.push_back(base[i]);
            for (size_t j = i + 1; j < base.size(); ++j) {
                const bool crossed = in_a != in_b && a.contains(base[j]) == in_b && b.contains(base[j]) == in_a;
                (crossed ? second : third).push_back(base[i] ^ base[j]);
            }
        }
        return joined({&first, &second, &third, &base});
    }

    Vectors segments(const Choice& c, size_t count) const {
        const Vectors low = joined({&c.common, &c.more, &c.fill});
        const gf2::Space a(own_footprint(c)), b(other_footprint(c));
        gf2::Space with_a = a, with_b = b, with_low(low);
        const Vectors candidates = segment_candidates(a, b);
        Vectors s;
        for (bool conflict_free : {true, false}) {
            for (uint64_t v : candidates) {
                if (s.size() == count) return s;
                if (with_low.contains(v) || (conflict_free && (with_a.contains(v) || with_b.contains(v)))) continue;
                Vectors rest = joined({&c.fill, &s});
                rest.push_back(v);
                if (!aligned(c, rest)) continue;
                s.push_back(v);
                with_a.insert(v);
                with_b.insert(v);
                with_low.insert(v);
            }
        }
        return s;
    }

    void consider(Choice c) {
        c.fill.clear();
        fill_word(c);
        const int above = std::max(0, n_ - line_bits());
        const Vectors s = segments(c, static_cast<size_t>(above));
        if (static_cast<int>(s.size()) != above) return;
        const size_t own_vector = c.common.size() + c.more.size(), other_vector = c.common.size();
        const int64_t total = cost(own(c), own_vector, gf2::common_dimension(s, own_footprint(c))) +
                              cost(other(c), other_vector, gf2::common_dimension(s, other_footprint(c)));
        if (total >= best_cost_) return;
        best_cost_ = total;
        best_.columns = columns(c, s);
        best_.write_vector = 1 << (c.writer ? own_vector : other_vector);
        best_.read_vector = 1 << (c.writer ? other_vector : own_vector);
    }

    /// Wavefronts count twice, instructions once.
    int64_t cost(const Side& side, size_t vector, int conflicts) const {
        const int64_t accesses = int64_t{1} << (side.reg.size() - vector);
        const int64_t wavefronts = int64_t{1} << (5 - lanes_together(bytes_ << vector) + conflicts);
        return accesses * (2 * wavefronts + 1);
    }

    /// The inverse of [common | more | fill | banks | segments].
    Vectors columns(const Choice& c, const Vectors& s) const {
        Vectors low = joined({&c.common, &c.more, &c.fill}), banks;
        gf2::Space taken(joined({&low, &s}));
        for (uint64_t v : joined({&own(c).threads, &threads_, &units_})) {
            if (taken.insert(v)) banks.push_back(v);
        }
        const gf2::Space basis(joined({&low, &banks, &s}));
        TEGULA_CHECK(basis.dimension() == n_);
        Vectors r;
        for (uint64_t v : units_) basis.solve(v, r.emplace_back());
        return r;
    }

    int n_, bytes_;
    Side write_, read_;
    Vectors threads_, units_;
    Exchange best_;
    int64_t best_cost_ = INT64_MAX;
};

/// Wavefronts of a side under a padded row-major order, over some of its registers (they repeat).
int64_t padded_cost(const Exchange& e, const TileLayout& l, int vector, int bytes) {
    int64_t cost = 0;
    const int registers = std::min(l.registers(), 16 * vector);
    for (int r = 0; r < registers; r += vector) {
        std::array<int64_t, 32> address;
        for (int t = 0; t < 32; ++t) address[static_cast<size_t>(t)] = e.address(e.number(l.point(r, t, 0))) * bytes;
        cost += bank_conflicts(address, vector * bytes) << (5 - lanes_together(vector * bytes));
    }
    return cost * l.registers() / registers;
}

Exchange padded_exchange(const TileLayout& from, const TileLayout& to, Exchange e, int bytes) {
    const int last = from.shape.rank - 1;
    const auto row = static_cast<int>(e.extents[static_cast<size_t>(last)]);
    const auto vector = [&](const TileLayout& l) {
        return std::min({vector_width(l, last), kVectorBytes / bytes, 1 << std::countr_zero(static_cast<unsigned>(row))});
    };
    e.write_vector = vector(from);
    e.read_vector = vector(to);
    const int step = std::max(e.write_vector, e.read_vector);
    int64_t best = INT64_MAX;
    Exchange chosen = e;
    const int line = kLineBytes / bytes;
    for (int period : {0, row, 2 * row, 4 * row, 8 * row, line, 2 * line, 4 * line}) {
        for (int pad : {step, 2 * step, 3 * step, 4 * step, std::max(step, 4 / bytes)}) {
            if (period == 0 ? pad != step : period % step != 0 || pad > std::max(step, period) || period > e.extents.elements()) continue;
            e.period = period;
            e.pad = period ? pad : 0;
            const int64_t cost = padded_cost(e, from, e.write_vector, bytes) + padded_cost(e, to, e.read_vector, bytes);
            if (cost >= best) continue;
            best = cost;
            chosen = e;
        }
    }
    chosen.elements = chosen.address(chosen.extents.elements() - 1) + 1;
    return chosen;
}

}  // namespace

int64_t Exchange::number(const TileLayout::Point& p) const {
    int64_t n = 0;
    for (size_t d = 0; d < extents.rank; ++d) n = n * extents[d] + p[d];
    return n;
}

int64_t Exchange::address(int64_t element) const {
    if (!columns.empty()) return static_cast<int64_t>(gf2::combine(columns, static_cast<uint64_t>(element)));
    return period ? element + element / period * pad : element;
}

Exchange plan_exchange(const TileLayout& from, const TileLayout& to, int elem_bits) {
    TEGULA_CHECK(from.shape == to.shape && elem_bits >= 1 && elem_bits <= 64);
    const int bytes = container_bytes(elem_bits);
    Shape extents;
    bool powers = true;
    for (int d = 0; d < from.shape.rank; ++d) {
        extents.push(std::max(from.padded(d), to.padded(d)));
        powers = powers && from.padded(d) == to.padded(d) && from.odd[static_cast<size_t>(d)] == 1 && to.odd[static_cast<size_t>(d)] == 1;
    }
    Exchange e;
    if (powers) {
        if (extents.elements() > 1) e = Search(from, to, bytes).run();
        e.elements = extents.elements();
        e.extents = extents;
        return e;
    }
    e.extents = extents;
    return padded_exchange(from, to, e, bytes);
}

int exchange_conflicts(const Exchange& e, const TileLayout& l, int vector, int elem_bits) {
    const int bytes = container_bytes(elem_bits);
    int worst = 1;
    for (int r = 0; r < l.registers(); ++r) {
        if (e.address(e.number(l.point(r, 0, 0))) % vector) continue;  // not the first element of an access
        std::array<int64_t, 32> address;
        for (int t = 0; t < 32; ++t) address[static_cast<size_t>(t)] = e.address(e.number(l.point(r, t, 0))) * bytes;
        worst = std::max(worst, bank_conflicts(address, vector * bytes));
    }
    return worst;
}

int bank_conflicts(std::span<const int64_t> address, int access_bytes) {
    const size_t together = size_t{1} << lanes_together(access_bytes);
    size_t worst = 1;
    for (size_t first = 0; first < address.size(); first += together) {
        std::array<std::vector<int64_t>, 32> words;
        for (size_t t = first; t < std::min(first + together, address.size()); ++t) {
            for (int64_t w = address[t] / 4; w <= (address[t] + access_bytes - 1) / 4; ++w) {
                std::vector<int64_t>& bank = words[static_cast<size_t>(w % 32)];
                if (std::find(bank.begin(), bank.end(), w) == bank.end()) bank.push_back(w);
                worst = std::max(worst, bank.size());
            }
        }
    }
    return static_cast<int>(worst);
}

}  // namespace tegula
