// The order in which a reduction joins coordinate bits (register_moves.h): the fixed tree takes the highest first wherever it lies; other kinds take
// registers first, then lanes, then warps, because that is the cheapest.
#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "lang/gpu/register_moves.h"

namespace tegula {

namespace {

using Step = ReducePlan::Step;

/// A coordinate bit of the reduced axis and where it lies.
struct Place {
    enum Kind : uint8_t { reg, lane, warp } kind = reg;
    int mask = 0;        ///< register, lane or warp number
    uint64_t basis = 0;  ///< packed point
};

class ReducePlanner {
public:
    ReducePlanner(const TileLayout& l, int axis, bool ordered) : l_(l), axis_(axis), ordered_(ordered) {}

    std::optional<ReducePlan> plan(const TileLayout* result) {
        if (!find_places()) return std::nullopt;
        for (int r = 0; r < l_.registers(); ++r) live_.push_back(r);
        join_digits();
        if (ordered_) std::sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) { return a.basis > b.basis; });
        bool exchanged = false;
        while (!places_.empty()) {
            const Place next = places_.front();
            if (next.kind == Place::warp && std::exchange(exchanged, true)) return std::nullopt;
            if (next.kind == Place::reg) join_register(next.mask);
            if (next.kind == Place::lane) join_lane(next.mask);
            if (next.kind == Place::warp) join_warps();
        }
        if (!find_results(result)) return std::nullopt;
        return std::move(plan_);
    }

private:
    uint64_t axis_mask() const {
        uint64_t mask = 0;
        int shift = 0;
        for (int d = l_.shape.rank - 1; d >= 0; --d) {
            const int bits = l_.bits[static_cast<size_t>(d)];
            if (axis_ < 0 || axis_ == d) mask |= ((uint64_t{1} << bits) - 1) << shift;
            shift += bits;
        }
        return mask;
    }

    bool find_places() {
        const uint64_t mask = axis_mask();
        const auto add = [&](Place::Kind kind, std::span<const uint64_t> bases) {
            for (size_t b = 0; b < bases.size(); ++b) {
                if ((bases[b] & mask) == 0) continue;
                if (bases[b] & ~mask) return false;
                if (ordered_ && !std::has_single_bit(bases[b])) return false;
                places_.push_back({kind, 1 << b, bases[b]});
            }
            return true;
        };
        if (!add(Place::reg, l_.reg) || !add(Place::lane, l_.lane) || !add(Place::warp, l_.warp)) return false;
        for (int d = 0; d < l_.shape.rank; ++d)
            if (reduced(d)) plan_.fill |= l_.padded(d) != l_.shape[static_cast<size_t>(d)];
        return axis_ >= 0 || !ordered_ || linear();
    }

    bool reduced(int d) const { return axis_ < 0 || axis_ == d; }

    /// Do the bits of the row-major number lie one after the other? Then only the slowest dimension may be no power of two.
    bool linear() const {
        bool slower = false;
        for (size_t d = 0; d < l_.shape.rank; ++d) {
            if (slower && (l_.odd[d] != 1 || l_.padded(static_cast<int>(d)) != l_.shape[d])) return false;
            slower |= l_.shape[d] != 1;
        }
        return true;
    }

    void keep(const std::function<bool(int)>& holds) {
        std::erase_if(live_, [&](int r) { return !holds(r); });
    }

    void join_digits() {
        int stride = 1 << l_.reg.size();
        for (size_t d = l_.shape.rank; d-- > 0;) {
            const int count = l_.odd[d];
            if (reduced(static_cast<int>(d)) && count > 1) {
                Step s{Step::digits, stride, count, {}, {}, {}};
                keep([&](int r) { return r / stride % count == 0; });
                s.live = live_;
                plan_.steps.push_back(std::move(s));
            }
            stride *= count;
        }
    }

    void join_register(int mask) {
        places_.erase(places_.begin());
        keep([&](int r) { return (r & mask) == 0; });
        plan_.steps.push_back({Step::reg, mask, 0, live_, {}, {}});
    }

    /// With lower coordinate bits still in registers, half of the registers go to either lane: half the shuffles from there on.
    void join_lane(int mask) {
        places_.erase(places_.begin());
        const auto pending = std::find_if(places_.begin(), places_.end(), [](const Place& p) { return p.kind == Place::reg; });
        if (pending == places_.end()) {
            plan_.steps.push_back({Step::lane, mask, 0, live_, {}, {}});
            return;
        }
        const int bit = pending->mask;
        keep([&](int r) { return (r & bit) == 0; });
        plan_.steps.push_back({Step::scatter, mask, bit, live_, {}, {}});
        *pending = {Place::lane, mask, pending->basis};
    }

    void join_warps() {
        Step s{Step::warps, 0, 0, live_, {}, {}};
        while (!places_.empty() && places_.front().kind == Place::warp) {
            s.masks.push_back(places_.front().mask);
            places_.erase(places_.begin());
        }
        if (worth_spreading(s)) {
            s.kind = Step::spread;
            for (size_t b = 0; b < l_.lane.size(); ++b) s.lanes.push_back(places_[b].mask);
            places_.erase(places_.begin(), places_.begin() + static_cast<int>(l_.lane.size()));
        }
        plan_.steps.push_back(std::move(s));
    }

    /// Where lower coordinate bits wait in registers, every warp would read the partial results of all warps in all registers. With a second exchange
    /// each warp does so for a share of the registers only; that needs parts of one result in all threads, and all lane bits next.
    bool worth_spreading(const Step& warps) const {
        constexpr size_t kFewest = 4;  // registers, and parts
        const size_t parts = size_t{1} << warps.masks.size();
        if (!ordered_ || live_.size() < kFewest || !std::has_single_bit(live_.size()) || parts < kFewest) return false;
        if (warps.masks.size() != l_.warp.size() || places_.size() < l_.lane.size()) return false;
        return std::all_of(places_.begin(), places_.begin() + static_cast<int>(l_.lane.size()), [](const Place& p) { return p.kind == Place::lane; });
    }

    /// Result register -> the live register with its coordinates; lanes and warps must agree as well.
    bool find_results(const TileLayout* result) {
        if (!result) {
            plan_.results = {0};
            return axis_ < 0 || l_.shape.rank == 1;
        }
        if (result->warp.size() != l_.warp.size()) return false;
        const auto dropped = [&](TileLayout::Point p) {
            for (size_t d = static_cast<size_t>(axis_); d + 1 < kMaxRank; ++d) p[d] = p[d + 1];
            p[kMaxRank - 1] = 0;
            return p;
        };
        for (int b = 0; b < 5; ++b)
            if (dropped(l_.point(0, 1 << b, 0)) != result->point(0, 1 << b, 0)) return false;
        for (int b = 0; b < static_cast<int>(l_.warp.size()); ++b)
            if (dropped(l_.point(0, 0, 1 << b)) != result->point(0, 0, 1 << b)) return false;
        for (int r = 0; r < result->registers(); ++r) {
            const TileLayout::Point p = result->point(r, 0, 0);
            const auto holder = std::find_if(live_.begin(), live_.end(), [&](int x) { return dropped(l_.point(x, 0, 0)) == p; });
            if (holder == live_.end()) return false;
            plan_.results.push_back(*holder);
        }
        return true;
    }

    const TileLayout& l_;
    int axis_;
    bool ordered_;
    std::vector<Place> places_;
    std::vector<int> live_;
    ReducePlan plan_;
};

}  // namespace

std::optional<ReducePlan> plan_reduce(const TileLayout& l, int axis, bool ordered, const TileLayout* result) {
    return ReducePlanner(l, axis, ordered).plan(result);
}

}  // namespace tegula
