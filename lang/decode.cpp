#include "lang/decode.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <tuple>

namespace tegula {

namespace {

constexpr int kWord = 32, kHalf = 16, kByte = 8;
constexpr int kMostShifts = 8;     ///< distances that words are shifted by in one plan
constexpr int kMissing = 1 << 16;  ///< cost of a pair that cannot be had: the search goes on to where there are fewer of them

struct Half {
    int mantissa, bias;
};
Half half_of(Fmt to) { return to == Fmt::f16 ? Half{10, 15} : Half{7, 127}; }

/// A stretch of a code's bits and the bits of a half that it may lie at.
struct Part {
    int from, width;
    int first, last;  ///< places of its lowest bit
};

std::vector<Part> parts_of(const Format& f, Half half) {
    const int bits = f.bits;
    if (!f.is_float()) return {{0, bits, 0, half.mantissa - bits}};
    const int sign = f.is_signed ? 1 : 0, place = half.mantissa - f.man_bits;
    std::vector<Part> out = {{0, bits - sign, place, place}};
    if (sign) out.push_back({bits - 1, 1, kHalf - 1, kHalf - 1});
    return out;
}

uint32_t in_both(uint32_t low, uint32_t high) { return low | high << kHalf; }

/// A word of the stream of bits that begins `at` bits behind its start, beyond which nothing is asked of it.
struct Window {
    int at;
    friend auto operator<=>(const Window&, const Window&) = default;
};

/// Where the two fields of a part of a pair come to lie in their halves, and what brings them there.
struct Source {
    bool picked = false;
    Window a{0}, b{0};      ///< in place: a only
    uint32_t selector = 0;  ///< bytes of b:a
    int low = 0, high = 0;  ///< places in the halves
    int shift = 0;          ///< of what was picked, to the left
};

int window_floor(int v, int by) { return v >= 0 ? v / by : -((by - 1 - v) / by); }

/// Plans under one set of distances (bits modulo 32) that words may be shifted by.
class DecodeSearch {
public:
    DecodeSearch(const Format& from, Fmt to, int words, std::span<const std::array<int, 2>> pairs)
        : from_(from), half_(half_of(to)), parts_(parts_of(from, half_)), words_(words), pairs_(pairs) {
        plan_.target = to;
        plan_.words = words;
    }

    /// Operations, and kMissing for every pair that cannot be had.
    int cost(const std::vector<int>& shifts) { return run(shifts, false); }
    DecodePlan plan(const std::vector<int>& shifts) {
        run(shifts, true);
        return std::move(plan_);
    }

private:
    static constexpr int kNone = std::numeric_limits<int>::max();
    bool is_plain(Window w) const { return w.at >= 0 && w.at % kWord == 0 && w.at / kWord < words_; }
    int price(Window w) const { return is_plain(w) || made_.count(w) ? 0 : 1; }
    int price(const Source& s) const {
        if (!s.picked) return price(s.a);
        int n = picks_.count({s.a, s.b, s.selector}) ? 0 : 1;
        n += price(s.a);
        if (s.b != s.a) n += price(s.b);
        return n + (s.shift != 0 && !moved_.count({s.a, s.b, s.selector, s.shift}) ? 1 : 0);
    }

    int run(const std::vector<int>& shifts, bool keep) {
        made_.clear();
        picks_.clear();
        moved_.clear();
        plan_.steps.clear();
        plan_.pairs.clear();
        shifts_ = shifts;
        keep_ = keep;
        int total = 0;
        for (const auto& pair : pairs_) {
            std::vector<Source> sources;
            for (const Part& part : parts_) {
                const std::optional<Source> best = best_source(part, pair[0] + part.from, pair[1] + part.from);
                if (!best) {
                    total += kMissing;
                    continue;
                }
                total += price(*best) + 1;
                take(*best);
                sources.push_back(*best);
            }
            ++total;
            if (keep && sources.size() == parts_.size()) finish(sources);
        }
        return total;
    }

    /// The cheapest way to bring `width` bits at `low` and at `high` of the stream to places that the part allows.
    std::optional<Source> best_source(const Part& part, int low, int high) {
        std::optional<Source> best;
        int least = kNone;
        const auto consider = [&](const Source& s) {
            if (const int p = price(s); p < least) least = p, best = s;
        };
        for (const int shift : shifts_) {
            if (high - low != kHalf) break;
            const int place = ((low - shift) % kWord + kWord) % kWord;
            if (place >= part.first && place <= part.last && place < kHalf) consider({false, {low - place}, {low - place}, 0, place, place, 0});
        }
        for (const int sa : shifts_) {
            const auto a = picks_of(part, low, sa);
            for (const int sb : shifts_)
                for (const Pick& h : picks_of(part, high, sb))
                    for (const Pick& l : a) join(part, l, h, consider);
        }
        return best;
    }

    /// A half made of two bytes of windows: the bit of the stream that its lowest bit is.
    struct Pick {
        int origin;  ///< of the half in the stream
        int place;
        Window first, second;  ///< of its two bytes; equal where one is enough
    };
    std::vector<Pick> picks_of(const Part& part, int at, int shift) const {
        std::vector<Pick> out;
        for (int place = 0; place + part.width <= kHalf; ++place) {
            const int origin = at - place;
            if (((origin - shift) % kByte + kByte) % kByte) continue;
            const auto window = [&](int byte) { return Window{window_floor(origin + kByte * byte - shift, kWord) * kWord + shift}; };
            const int from = place / kByte, to = (place + part.width - 1) / kByte;
            out.push_back({origin, place, window(from), window(to)});
        }
        return out;
    }

    template <class Consider>
    void join(const Part& part, const Pick& low, const Pick& high, const Consider& consider) const {
        const auto legal = [&](int place) { return place >= part.first && place <= part.last; };
        const bool direct = legal(low.place) && legal(high.place);
        if (!direct && low.place != high.place) return;
        std::vector<Window> windows;
        for (const Window w : {low.first, low.second, high.first, high.second})
            if (std::find(windows.begin(), windows.end(), w) == windows.end()) windows.push_back(w);
        if (windows.size() > 2 || windows.size() == 0) return;
        std::sort(windows.begin(), windows.end());
        const Window a = windows[0], b = windows.back();
        uint32_t selector = 0;
        const auto put = [&](const Pick& p, int half) {
            const int from = p.place / kByte, to = (p.place + part.width - 1) / kByte;
            for (int byte = 0; byte < 2; ++byte) {
                const int taken = std::clamp(byte, from, to);  // a byte that nobody needs repeats one that is there
                const Window w = taken == from ? p.first : p.second;
                const int in = (p.origin + kByte * taken - w.at) / kByte;
                selector |= static_cast<uint32_t>(w == a ? in : in + 4) << 4 * (2 * half + byte);
            }
        };
        put(low, 0);
        put(high, 1);
        const int shift = direct ? 0 : std::clamp(low.place, part.first, part.last) - low.place;
        consider({true, a, b, selector, low.place + shift, high.place + shift, shift});
    }

    int add(DecodeStep step) {
        if (!keep_) return 0;
        plan_.steps.push_back(step);
        return words_ + static_cast<int>(plan_.steps.size()) - 1;
    }
    /// The value that holds a window. Bits of words that there are not are never looked at.
    int value(Window w) {
        if (is_plain(w)) return w.at / kWord;
        const auto [it, added] = made_.emplace(w, 0);
        if (!added) return it->second;
        const int word = window_floor(w.at, kWord);
        const auto by = static_cast<uint32_t>(w.at - word * kWord);
        if (word < 0) return it->second = add({DecodeStep::shift_left, 0, 0, kWord - by, 0});
        if (word + 1 >= words_) return it->second = add({DecodeStep::shift_right, word, 0, by, 0});
        return it->second = add({DecodeStep::funnel, word, word + 1, by, 0});
    }
    int take(const Source& s) {
        const int a = value(s.a), b = s.picked ? value(s.b) : a;
        if (!s.picked) return a;
        const auto [it, added] = picks_.emplace(std::tuple(s.a, s.b, s.selector), 0);
        if (added) it->second = add({DecodeStep::pick, a, b, s.selector, 0});
        if (s.shift == 0) return it->second;
        const auto [to, fresh] = moved_.emplace(std::tuple(s.a, s.b, s.selector, s.shift), 0);
        const auto by = static_cast<uint32_t>(std::abs(s.shift));
        if (fresh) to->second = add({s.shift > 0 ? DecodeStep::shift_left : DecodeStep::shift_right, it->second, 0, by, 0});
        return to->second;
    }

    /// Masks and the arithmetic that makes the value.
    void finish(const std::vector<Source>& sources) {
        const auto mask = [&](size_t i) {
            const auto ones = static_cast<uint32_t>(low_bits(static_cast<unsigned>(parts_[i].width)));
            return in_both(ones << sources[i].low, ones << sources[i].high);
        };
        if (from_.is_float()) {
            int v = take(sources[0]);
            v = add({DecodeStep::and_xor, v, 0, mask(0), 0});
            if (sources.size() > 1) v = add({DecodeStep::and_or, take(sources[1]), v, mask(1), 0});
            const auto factor = static_cast<uint32_t>(2 * half_.bias - from_.bias) << half_.mantissa;
            plan_.pairs.push_back(add({DecodeStep::mul, v, 0, in_both(factor, factor), 0}));
            return;
        }
        const auto top = static_cast<uint32_t>(from_.is_signed ? 1u << (from_.bits - 1) : 0u);
        const auto magic = [&](int place) {
            return static_cast<uint32_t>(half_.bias + half_.mantissa - place - from_.frac_bits) << half_.mantissa | top << place;
        };
        const uint32_t added = in_both(magic(sources[0].low), magic(sources[0].high));
        const int v = add({DecodeStep::and_xor, take(sources[0]), 0, mask(0), added});
        plan_.pairs.push_back(add({DecodeStep::add, v, 0, added ^ 0x80008000u, 0}));
    }

    const Format& from_;
    Half half_;
    std::vector<Part> parts_;
    int words_;
    std::span<const std::array<int, 2>> pairs_;
    std::vector<int> shifts_;
    bool keep_ = false;
    std::map<Window, int> made_;
    std::map<std::tuple<Window, Window, uint32_t>, int> picks_;
    std::map<std::tuple<Window, Window, uint32_t, int>, int> moved_;  ///< picks, shifted
    DecodePlan plan_;
};

}  // namespace

bool decodes_exactly(const Format& from, Fmt to) { return !from.is_float() && has_decoding(from, to); }

bool has_decoding(const Format& from, Fmt to) {
    if (to != Fmt::f16 && to != Fmt::bf16) return false;
    const Half half = half_of(to);
    const bool whole = from.is_int() || from.kind == FormatKind::fixed;
    if (whole) return from.bits <= half.mantissa && from.bits <= 8 && half.bias - from.frac_bits > 0;
    if (!from.is_float() || from.bits > 8 || from.has_inf || from.nan != NanCode::none || from.scale_only || !from.subnormal) return false;
    if (from.is_signed && !from.negative_zero) return false;
    const int factor = 2 * half.bias - from.bias;  // a power of two, as the exponent of the target
    return from.man_bits <= half.mantissa && (1 << from.exp_bits) <= 2 * half.bias && factor > 0 && factor <= 2 * half.bias;
}

std::optional<DecodePlan> plan_decoding(const Format& from, Fmt to, int words, std::span<const std::array<int, 2>> pairs) {
    if (!has_decoding(from, to)) return std::nullopt;
    DecodeSearch search(from, to, words, pairs);
    std::vector<int> shifts = {0};
    int cost = search.cost(shifts);
    // Distances are added one by one as long as that saves operations, or two at a time where no single one does.
    while (static_cast<int>(shifts.size()) <= kMostShifts) {
        std::vector<int> best;
        for (int s = 1; s < kWord; ++s) {
            std::vector<int> more = shifts;
            more.push_back(s);
            if (const int c = search.cost(more); c < cost) cost = c, best = more;
        }
        for (int s = 1; best.empty() && s < kWord; ++s)
            for (int u = s + 1; u < kWord; ++u) {
                std::vector<int> more = shifts;
                more.insert(more.end(), {s, u});
                if (const int c = search.cost(more); c < cost) cost = c, best = more;
            }
        if (best.empty()) break;
        shifts = best;
    }
    if (cost >= kMissing) return std::nullopt;
    return search.plan(shifts);
}

int DecodePlan::arithmetic() const {
    return static_cast<int>(
        std::count_if(steps.begin(), steps.end(), [](const DecodeStep& s) { return s.op == DecodeStep::add || s.op == DecodeStep::mul; }));
}

int DecodePlan::logic() const { return static_cast<int>(steps.size()) - arithmetic(); }

std::string DecodePlan::text() const {
    int shifts = 0, picks = 0, masks = 0;
    for (const DecodeStep& s : steps) {
        shifts += s.op <= DecodeStep::funnel;
        picks += s.op == DecodeStep::pick;
        masks += s.op == DecodeStep::and_xor || s.op == DecodeStep::and_or;
    }
    std::string out;
    const auto put = [&](int n, const char* what) {
        if (n) out += (out.empty() ? "" : ", ") + std::to_string(n) + " " + what;
    };
    put(shifts, "shifts");
    put(picks, "PRMT");
    put(masks, "LOP3");
    put(arithmetic(), std::any_of(steps.begin(), steps.end(), [](const DecodeStep& s) { return s.op == DecodeStep::mul; }) ? "HMUL2" : "HADD2");
    return out;
}

}  // namespace tegula
