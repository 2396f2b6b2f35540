#include "lang/decode.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <tuple>

#include "lang/decode_bytes.h"

namespace tegula {

namespace {

constexpr int kWord = 32, kHalf = 16, kByte = 8;
constexpr int kMostShifts = 8;     ///< distances that words are shifted by in one plan
constexpr int kLookUp = 2;         ///< machine operations of a look-up
constexpr int kBrains = 3;         ///< machine operations of two f16 as bf16
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

/// Plans under one set of distances (bits modulo 32) that words may be shifted by. Where codes lie further in some threads, words are shifted by what
/// remains of that modulo 8, less `residue`, and whole bytes are left to what picks them.
class DecodeSearch {
public:
    DecodeSearch(const Format& from, Fmt to, int words, std::span<const std::array<int, 2>> pairs, std::span<const int> moved, int residue)
        : from_(from), half_(half_of(to)), parts_(parts_of(from, half_)), words_(words), pairs_(pairs) {
        plan_.target = to;
        plan_.words = words;
        if (moved.empty()) return;
        const auto [least, most] = std::minmax_element(moved.begin(), moved.end());
        plan_.residue = residue;
        plan_.first_byte = window_floor(*least - residue, kByte);
        span_ = window_floor(*most - residue, kByte) - plan_.first_byte;
        for (const int m : moved) most_ = std::max(most_, (m - residue) & (kByte - 1));
        origin_ = residue + kByte * plan_.first_byte;
    }
    bool allows(int shift) const { return shift + most_ < kWord; }

    /// Operations, and kMissing for every pair that cannot be had.
    int cost(const std::vector<int>& shifts) { return run(shifts, false); }
    DecodePlan plan(const std::vector<int>& shifts) {
        run(shifts, true);
        return std::move(plan_);
    }

private:
    static constexpr int kNone = std::numeric_limits<int>::max();
    bool is_plain(Window w) const { return most_ == 0 && w.at >= 0 && w.at % kWord == 0 && w.at / kWord < words_; }
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
        plan_.numbers.clear();
        shifts_ = shifts;
        keep_ = keep;
        int total = 0;
        for (const auto& pair : pairs_) {
            std::vector<Source> sources;
            for (const Part& part : parts_) {
                const std::optional<Source> best = best_source(part, origin_ + pair[0] + part.from, origin_ + pair[1] + part.from);
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
            if (high - low != kHalf || span_ > 0) break;
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
        Window first, second;  ///< of its first byte and of its last one where that is furthest; equal where one is enough
    };
    std::vector<Pick> picks_of(const Part& part, int at, int shift) const {
        std::vector<Pick> out;
        for (int place = 0; place + part.width <= kHalf; ++place) {
            const int origin = at - place;
            if (((origin - shift) % kByte + kByte) % kByte) continue;
            const auto window = [&](int byte) { return Window{window_floor(origin + kByte * byte - shift, kWord) * kWord + shift}; };
            const int from = place / kByte, to = (place + part.width - 1) / kByte;
            const Window first = window(from), second = window(to + span_);
            if (second.at - first.at <= kWord) out.push_back({origin, place, first, second});
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
        if (windows.size() > 2) return;
        std::sort(windows.begin(), windows.end());
        const Window a = windows[0], b = windows.back();
        uint32_t selector = 0;
        const auto put = [&](const Pick& p, int half) {
            const int from = p.place / kByte, to = (p.place + part.width - 1) / kByte;
            for (int byte = 0; byte < 2; ++byte) {
                const int taken = std::clamp(byte, from, to);  // a byte that nobody needs repeats one that is there
                const int at = p.origin + kByte * taken;
                const Window w = at < p.second.at ? p.first : p.second;
                const int in = (at - w.at) / kByte;
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
    uint32_t number(ThreadNumber n) {
        const auto it = std::find(plan_.numbers.begin(), plan_.numbers.end(), n);
        if (it != plan_.numbers.end()) return static_cast<uint32_t>(it - plan_.numbers.begin());
        plan_.numbers.push_back(n);
        return static_cast<uint32_t>(plan_.numbers.size() - 1);
    }
    /// The value that holds a window. Bits of words that there are not are never looked at.
    int value(Window w) {
        if (is_plain(w)) return w.at / kWord;
        const auto [it, added] = made_.emplace(w, 0);
        if (!added) return it->second;
        const int word = window_floor(w.at, kWord);
        const auto by = static_cast<uint32_t>(w.at - word * kWord);
        if (most_ > 0 && keep_) {
            const auto near = [&](int n) { return std::clamp(n, 0, words_ - 1); };
            return it->second = add({DecodeStep::funnel_by, near(word), near(word + 1), number({false, by}), 0});
        }
        if (word < 0) return it->second = add({DecodeStep::shift_left, 0, 0, kWord - by, 0});
        if (word + 1 >= words_) return it->second = add({DecodeStep::shift_right, word, 0, by, 0});
        return it->second = add({DecodeStep::funnel, word, word + 1, by, 0});
    }
    int take(const Source& s) {
        const int a = value(s.a), b = s.picked ? value(s.b) : a;
        if (!s.picked) return a;
        const auto [it, added] = picks_.emplace(std::tuple(s.a, s.b, s.selector), 0);
        if (added && span_ > 0 && keep_)
            it->second = add({DecodeStep::pick_by, a, b, number({true, s.selector}), 0});
        else if (added)
            it->second = add({DecodeStep::pick, a, b, s.selector, 0});
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
    int origin_ = 0;  ///< of the stream, by what all threads' codes lie further
    int span_ = 0;    ///< bytes that some lie further than others
    int most_ = 0;    ///< bits below a byte that words are shifted by in some thread
    std::vector<int> shifts_;
    bool keep_ = false;
    std::map<Window, int> made_;
    std::map<std::tuple<Window, Window, uint32_t>, int> picks_;
    std::map<std::tuple<Window, Window, uint32_t, int>, int> moved_;  ///< picks, shifted
    DecodePlan plan_;
};

}  // namespace

std::optional<Fmt> decode_target(FormatId to) {
    for (const Fmt f : {Fmt::f16, Fmt::bf16, Fmt::i8, Fmt::u8, Fmt::f8e4m3, Fmt::f8e5m2})
        if (to == f) return f;
    return std::nullopt;
}

int codes_per_word(Fmt to) { return to == Fmt::f16 || to == Fmt::bf16 ? 2 : 4; }

namespace {

/// By arithmetic in the target.
bool has_arithmetic(const Format& from, Fmt to) {
    if (to != Fmt::f16 && to != Fmt::bf16) return false;
    const Half half = half_of(to);
    const bool whole = from.is_int() || from.kind == FormatKind::fixed;
    if (whole) return from.bits <= half.mantissa && from.bits <= 8 && half.bias - from.frac_bits > 0;
    if (!from.is_float() || from.bits > 8 || from.has_inf || from.nan != NanCode::none || from.scale_only || !from.subnormal) return false;
    if (from.is_signed && !from.negative_zero) return false;
    const int factor = 2 * half.bias - from.bias;  // a power of two, as the exponent of the target
    return from.man_bits <= half.mantissa && (1 << from.exp_bits) <= 2 * half.bias && factor > 0 && factor <= 2 * half.bias;
}

}  // namespace

bool has_decoding(const Format& from, Fmt to) {
    if (is_fp8(from) && codes_per_word(to) == 2) return true;
    return has_arithmetic(from, to) || has_table(from, to) || has_byte_decoding(from, to);
}

bool decodes_exactly(const Format& from, Fmt to) {
    if (!from.is_float() && has_arithmetic(from, to)) return true;
    return from.bits <= 8 && has_decoding(from, to) && table_is_exact(from, to);
}

namespace {

/// The best distances; {} where some pair cannot be had. `cost` in and out: what is to be improved on.
std::vector<int> best_shifts(DecodeSearch& search, bool by_two, int& cost) {
    std::vector<int> shifts = {0}, found;
    int now = search.cost(shifts);
    if (now < cost) cost = now, found = shifts;
    // Distances are added one by one as long as that saves operations, or two at a time where no single one does.
    while (static_cast<int>(shifts.size()) <= kMostShifts) {
        std::vector<int> best;
        const auto consider = [&](std::initializer_list<int> added) {
            if (!std::all_of(added.begin(), added.end(), [&](int s) { return search.allows(s); })) return;
            std::vector<int> more = shifts;
            more.insert(more.end(), added);
            if (const int c = search.cost(more); c < now) now = c, best = more;
        };
        for (int s = 1; s < kWord; ++s) consider({s});
        for (int s = 1; by_two && best.empty() && s < kWord; ++s)
            for (int u = s + 1; u < kWord; ++u) consider({s, u});
        if (best.empty()) break;
        shifts = best;
        if (now < cost) cost = now, found = shifts;
    }
    return found;
}

}  // namespace

std::optional<DecodePlan> plan_decoding(const Format& from, Fmt to, int words, std::span<const std::array<int, 2>> pairs,
                                        std::span<const int> moved) {
    if (is_fp8(from)) return plan_fp8(from, to, words, pairs, moved);
    std::optional<DecodePlan> plan;
    if (!from.is_int() && from.kind != FormatKind::fixed) plan = plan_tables(from, to, words, pairs, moved);
    if (!has_arithmetic(from, to)) return plan;
    int cost = plan ? static_cast<int>(plan->steps.size()) : kMissing;
    for (int residue = 0; residue < (moved.empty() ? 1 : kByte); ++residue) {
        DecodeSearch search(from, to, words, pairs, moved, residue);
        const std::vector<int> shifts = best_shifts(search, moved.empty(), cost);
        if (!shifts.empty()) plan = search.plan(shifts);
    }
    return plan;
}

uint32_t DecodePlan::number_of(size_t n, int moved) const {
    const int by = moved - residue;
    const ThreadNumber& number = numbers[n];
    if (!number.selects) return number.constant + static_cast<uint32_t>(by & (kByte - 1));
    return number.constant + static_cast<uint32_t>(window_floor(by, kByte) - first_byte) * 0x1111u;
}

int DecodePlan::arithmetic() const {
    int out = 0;
    for (const DecodeStep& s : steps)
        out += s.op == DecodeStep::brains ? kBrains : s.op == DecodeStep::add || s.op == DecodeStep::mul || s.op == DecodeStep::halves;
    return out;
}

int DecodePlan::logic() const {
    int out = 0;
    for (const DecodeStep& s : steps) {
        const bool floats = s.op == DecodeStep::add || s.op == DecodeStep::mul || s.op == DecodeStep::halves || s.op == DecodeStep::brains;
        out += floats ? 0 : s.op == DecodeStep::look_up ? kLookUp : 1;
    }
    return out;
}

bool DecodePlan::looks_up() const {
    return std::any_of(steps.begin(), steps.end(), [](const DecodeStep& s) { return s.op == DecodeStep::look_up; });
}

std::vector<explain::Operations> DecodePlan::operations() const {
    int shifts = 0, picks = 0, masks = 0, loads = 0;
    for (const DecodeStep& s : steps) {
        loads += s.op == DecodeStep::look_up;
        shifts += s.op <= DecodeStep::funnel || s.op == DecodeStep::funnel_by;
        picks += s.op == DecodeStep::pick || s.op == DecodeStep::pick_by || s.op == DecodeStep::table || s.op == DecodeStep::choose;
        masks += s.op == DecodeStep::and_xor || s.op == DecodeStep::and_or || s.op == DecodeStep::select;
    }
    const bool converts = std::any_of(steps.begin(), steps.end(), [](const DecodeStep& s) { return s.op >= DecodeStep::halves; });
    const bool multiplies = std::any_of(steps.begin(), steps.end(), [](const DecodeStep& s) { return s.op == DecodeStep::mul; });
    std::vector<explain::Operations> out;
    const auto put = [&](const char* name, const char* pipe, int n) {
        if (n) out.push_back({name, pipe, n});
    };
    put("shifts", "alu", shifts);
    put("PRMT", "alu", picks);
    put("LOP3", "alu", masks);
    put("IMAD", "alu", loads);
    put("LDS", "lsu", loads);
    put(converts ? "conversions" : multiplies ? "HMUL2" : "HADD2", converts ? "conversion" : "fma", arithmetic());
    return out;
}

std::string DecodePlan::text() const {
    std::string out;
    for (const explain::Operations& o : operations()) out += (out.empty() ? "" : ", ") + std::to_string(o.count) + " " + o.name;
    return out;
}

}  // namespace tegula
