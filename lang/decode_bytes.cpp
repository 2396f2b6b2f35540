#include "lang/decode_bytes.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "lang/type.h"

namespace tegula {

namespace {

constexpr int kWordBits = 32, kByteBits = 8, kNibbleBits = 4;
constexpr int kMostDistances = 8;        ///< distances that words are shifted by in one plan
constexpr int kMostTable = 4;         ///< bits of codes that are looked up
constexpr uint32_t kInPlace = 0x3210;  ///< selector of a word's own bytes
constexpr uint32_t kSplit = 0x32321010;

Format format_of(Fmt f) { return builtin_formats()[static_cast<size_t>(f)]; }
int floored(int v, int by) { return v >= 0 ? v / by : -((by - 1 - v) / by); }
uint32_t repeated(uint32_t byte) { return byte * 0x01010101u; }

/// Values of the plan under one set of distances that words may be shifted by.
class ByteSearch {
public:
    ByteSearch(const Format& from, Fmt to, int words, std::vector<int> shifts, std::span<const int> moved)
        : from_(from), to_(format_of(to)), shifts_(std::move(shifts)), span_(moved.empty() ? 0 : moved.back() / kByteBits) {
        plan_.target = to;
        plan_.words = words;
        if (from.bits <= kMostTable)
            for (uint64_t code = 0; code < uint64_t{1} << from.bits; ++code)
                table_[code] = static_cast<uint32_t>(convert(to_, from, extend_code(from, code)));
    }

    std::optional<DecodePlan> quads(std::span<const std::array<int, 4>> quads, bool by_table) {
        for (const std::array<int, 4>& q : quads) {
            const std::optional<int> v = by_table ? looked_up(q, 0) : integers(q);
            if (!v) return std::nullopt;
            plan_.pairs.push_back(*v);
        }
        return std::move(plan_);
    }

    /// Two pairs at a time: neighbours that are a byte each, or the upper and lower nibbles of two bytes.
    std::optional<DecodePlan> pairs(std::span<const std::array<int, 2>> pairs) {
        plan_.pairs.assign(pairs.size(), -1);
        for (size_t p = 0; p < pairs.size(); ++p) {
            if (plan_.pairs[p] >= 0) continue;
            size_t q = pairs.size();
            for (size_t i = p + 1; i < pairs.size() && q == pairs.size(); ++i)
                if (plan_.pairs[i] < 0 && pairs[i][0] == pairs[p][0] + from_.bits && pairs[i][1] == pairs[p][1] + from_.bits) q = i;
            const bool crossed = q < pairs.size();
            for (size_t i = p + 1; i < pairs.size() && q == pairs.size(); ++i)
                if (plan_.pairs[i] < 0) q = i;
            const std::array<int, 2>& a = pairs[p];
            const std::array<int, 2>& b = pairs[q < pairs.size() ? q : p];
            const std::array<int, 4> codes = crossed ? std::array{a[0], b[0], a[1], b[1]} : std::array{a[0], a[1], b[0], b[1]};
            const std::optional<int> low = looked_up(codes, 0), high = looked_up(codes, 1);
            if (!low || !high) return std::nullopt;
            const auto word = [&](uint32_t i, uint32_t j) {
                return add({DecodeStep::pick, *low, *high, i | (i + 4) << 4 | j << 8 | (j + 4) << 12, 0});
            };
            plan_.pairs[p] = crossed ? word(0, 2) : word(0, 1);
            if (q < pairs.size()) plan_.pairs[q] = crossed ? word(1, 3) : word(2, 3);
        }
        return std::move(plan_);
    }

    /// Codes of a pair become a byte, if they are none: for four pairs at a time, the low nibbles of one word and the high ones of another.
    std::optional<DecodePlan> look_ups(std::span<const std::array<int, 2>> pairs) {
        const int none = add({DecodeStep::and_xor, 0, 0, 0, 0});
        const auto entry = [&](int word, int byte, int span) {
            const uint32_t selector = static_cast<uint32_t>(byte) | 0x4440u;
            const int index = span ? add({DecodeStep::pick_by, word, none, number(selector), 0}) : add({DecodeStep::pick, word, none, selector, 0});
            plan_.pairs.push_back(add({DecodeStep::look_up, index, 0, 0, 0}));
        };
        for (size_t p = 0; p < pairs.size(); p += 4) {
            std::array<int, 4> low{}, high{};
            for (size_t i = 0; i < 4; ++i) {
                const std::array<int, 2>& pair = pairs[std::min(p + i, pairs.size() - 1)];
                low[i] = pair[0], high[i] = pair[1];
            }
            const size_t count = std::min<size_t>(4, pairs.size() - p);
            if (const bool bytes = std::equal(low.begin(), low.end(), high.begin(), [](int a, int b) { return b == a + kNibbleBits; }); bytes) {
                for (size_t i = 0; i < count; ++i) {
                    const auto byte = found({low[i], low[i], low[i], low[i]});
                    if (!byte) return std::nullopt;
                    entry(value(byte->window[0]), byte->byte[0], span_);
                }
                continue;
            }
            const std::optional<int> below = gathered(low, 0, false), above = gathered(high, kNibbleBits, false);
            if (!below || !above) return std::nullopt;
            const int both = add({DecodeStep::select, *below, *above, repeated(0xf), 0});
            for (size_t i = 0; i < count; ++i) entry(both, static_cast<int>(i), 0);
        }
        return std::move(plan_);
    }

    /// Bytes of f8e4m3 lie together for a conversion; those of f8e5m2 are the upper ones of halves.
    std::optional<DecodePlan> fp8(std::span<const std::array<int, 2>> pairs) {
        for (const auto& [a, b] : pairs) {
            std::optional<int> v;
            if (from_.man_bits == 3) {
                const bool there = span_ == 0 && a % kWordBits == 0 && b == a + kByteBits;
                v = there ? value(a) : gathered({a, b, a, b}, 0, false);
                if (v) v = add({DecodeStep::halves, *v, 0, 0, 0});
            } else if (v = gathered({a, a, b, b}, 0, false); v) {
                v = add({DecodeStep::and_xor, *v, 0, 0xff00ff00, 0});
            }
            if (!v) return std::nullopt;
            plan_.pairs.push_back(plan_.target == Fmt::bf16 ? add({DecodeStep::brains, *v, 0, 0, 0}) : *v);
        }
        return std::move(plan_);
    }

private:
    using Window = int;  ///< where its word begins in the stream of bits
    /// By byte of a value: the window and the byte in it.
    struct Bytes {
        std::array<Window, 4> window;
        std::array<int, 4> byte;
        friend auto operator<=>(const Bytes&, const Bytes&) = default;
    };

    int add(DecodeStep step) {
        const auto same = std::find(plan_.steps.begin(), plan_.steps.end(), step);
        if (same != plan_.steps.end()) return plan_.words + static_cast<int>(same - plan_.steps.begin());
        plan_.steps.push_back(step);
        return plan_.words + static_cast<int>(plan_.steps.size()) - 1;
    }
    bool is_plain(Window w) const { return w >= 0 && w % kWordBits == 0; }
    bool is_made(Window w) const { return is_plain(w) || made_.count(w); }
    /// Bits of words that there are not are never looked at.
    int value(Window w) {
        if (is_plain(w)) return w / kWordBits;
        made_.insert(w);
        const int word = floored(w, kWordBits);
        const auto by = static_cast<uint32_t>(w - word * kWordBits);
        if (word < 0) return add({DecodeStep::shift_left, 0, 0, kWordBits - by, 0});
        if (word + 1 >= plan_.words) return add({DecodeStep::shift_right, word, 0, by, 0});
        return add({DecodeStep::funnel, word, word + 1, by, 0});
    }

    /// Windows for the bytes that begin at `at`, so that few are new and few words are put together.
    std::optional<Bytes> found(const std::array<int, 4>& at) const {
        std::array<std::vector<Window>, 4> candidates;
        for (size_t i = 0; i < 4; ++i) {
            for (const int s : shifts_) {
                const Window w = floored(at[i] - s, kWordBits) * kWordBits + s;
                const bool known = floored(w, kWordBits) < plan_.words && (at[i] - w) / kByteBits + span_ < 4;
                if (known && (at[i] - s) % kByteBits == 0) candidates[i].push_back(w);
            }
            if (candidates[i].empty()) return std::nullopt;
        }
        std::optional<Bytes> best;
        int least = 0;
        for (const Window a : candidates[0])
            for (const Window b : candidates[1])
                for (const Window c : candidates[2])
                    for (const Window d : candidates[3]) {
                        Bytes bytes{{a, b, c, d}, {}};
                        for (size_t i = 0; i < 4; ++i) bytes.byte[i] = (at[i] - bytes.window[i]) / kByteBits;
                        const std::vector<Window> windows = distinct(bytes);
                        if (span_ > 0 && windows.size() > 2) continue;  // what was picked lies in one place in all threads
                        int cost = static_cast<int>(windows.size());
                        for (const Window w : windows) cost += is_made(w) ? 0 : 1;
                        if (!best || cost < least) best = bytes, least = cost;
                    }
        return best;
    }
    static std::vector<Window> distinct(const Bytes& b) {
        std::vector<Window> out;
        for (const Window w : b.window)
            if (std::find(out.begin(), out.end(), w) == out.end()) out.push_back(w);
        return out;
    }

    /// Bytes out of values that `of` makes of their windows; with `signs`, each is its top bit in all places.
    template <class Of>
    int gathered(const Bytes& b, bool signs, int span, const Of& of) {
        std::vector<Window> windows = distinct(b);
        std::vector<int> values;
        for (const Window w : windows) values.push_back(of(w));
        std::array<uint32_t, 4> from{}, byte{};
        for (size_t i = 0; i < 4; ++i) {
            from[i] = static_cast<uint32_t>(std::find(windows.begin(), windows.end(), b.window[i]) - windows.begin());
            byte[i] = static_cast<uint32_t>(b.byte[i]);
        }
        // Two words become one as long as there are more than two; what was taken lies in its own place then.
        while (values.size() > 2) {
            uint32_t selector = 0;
            for (size_t i = 0; i < 4; ++i) {
                if (from[i] < 2) selector |= (byte[i] + 4 * from[i]) << 4 * i, byte[i] = static_cast<uint32_t>(i);
                from[i] = from[i] < 2 ? 0 : from[i] - 1;
            }
            values[1] = add({DecodeStep::pick, values[0], values[1], selector, 0});
            values.erase(values.begin());
        }
        uint32_t selector = 0;
        for (size_t i = 0; i < 4; ++i) selector |= (byte[i] + 4 * from[i] + (signs ? 8u : 0u)) << 4 * i;
        if (span > 0) return add({DecodeStep::pick_by, values[0], values.back(), number(selector), 0});
        if (selector == kInPlace) return values[0];
        return add({DecodeStep::pick, values[0], values.back(), selector, 0});
    }
    uint32_t number(uint32_t selector) {
        const ThreadNumber n{true, selector};
        const auto it = std::find(plan_.numbers.begin(), plan_.numbers.end(), n);
        if (it != plan_.numbers.end()) return static_cast<uint32_t>(it - plan_.numbers.begin());
        plan_.numbers.push_back(n);
        return static_cast<uint32_t>(plan_.numbers.size() - 1);
    }
    std::optional<int> gathered(const std::array<int, 4>& codes, int place, bool signs) {
        std::array<int, 4> at = codes;
        for (int& a : at) a -= place;
        const std::optional<Bytes> bytes = found(at);
        if (!bytes) return std::nullopt;
        return gathered(*bytes, signs, span_, [&](Window w) { return value(w); });
    }

    /// Codes of integers at the lowest bits of their bytes; above them copies of the sign, which is copied from the top of a byte. Where that takes
    /// more than one operation, codes are shifted down from there.
    std::optional<int> integers(const std::array<int, 4>& codes) {
        const uint32_t mask = repeated((1u << from_.bits) - 1);
        const int above = kByteBits - from_.bits;
        std::optional<int> low, signs;
        if (!from_.is_signed) {
            low = gathered(codes, 0, false);
            return low ? std::optional(add({DecodeStep::and_xor, *low, 0, mask, 0})) : low;
        }
        std::array<int, 4> at = codes;
        for (int& a : at) a -= above;
        const std::optional<Bytes> top = found(at);
        if (!top) return std::nullopt;
        if (distinct(*top).size() > 2 && from_.bits > 1) {
            const int high = gathered(*top, false, span_, [&](Window w) { return value(w); });
            signs = add({DecodeStep::pick, high, high, 0xba98, 0});
            low = add({DecodeStep::shift_right, high, 0, static_cast<uint32_t>(above), 0});
        } else {
            signs = gathered(*top, true, span_, [&](Window w) { return value(w); });
            if (from_.bits > 1) low = gathered(codes, 0, false);
        }
        if (!low) return from_.bits == 1 ? signs : low;
        return add({DecodeStep::select, *low, *signs, mask, 0});
    }

    // ---- tables ----

    /// Selectors: of entries by the low bits of codes, and of one of two halves of the table by the top bit of 4-bit codes.
    struct Selectors {
        int entry = 0, half = 0;
    };
    int halves(int codes, uint32_t places) {
        return add({DecodeStep::and_xor, add({DecodeStep::shift_right, codes, 0, 1, 0}), 0, 0x44444444, places});
    }

    /// The codes as the four lowest nibbles of a word. Codes of 4 bits that lie in two bytes need nothing done to them but picking those.
    std::optional<Selectors> selectors(const std::array<int, 4>& codes) {
        const bool bytes = from_.bits == kNibbleBits && codes[1] == codes[0] + kNibbleBits && codes[3] == codes[2] + kNibbleBits;
        if (const std::optional<Bytes> two = bytes ? found({codes[0], codes[2], codes[0], codes[2]}) : std::nullopt) {
            const int first = two->byte[0], second = two->byte[1];
            const uint32_t wanted = 0x10u << 8 * first | 0x32u << 8 * second;
            const uint32_t ones = 0xffu << 8 * first | 0xffu << 8 * second;
            for (const uint32_t places : {uint32_t{0x32103210}, kSplit}) {
                if (span_ > 0 || two->window[0] != two->window[1] || (places & ones) != wanted) continue;
                // In one word: masks and halves are made for all its codes.
                const int word = value(two->window[0]), entry = add({DecodeStep::and_xor, word, 0, 0x77777777, 0}), half = halves(word, places);
                const auto moved = [&](int v) {
                    if (first == 0 && second == 1) return v;
                    return add({DecodeStep::pick, v, v, static_cast<uint32_t>(first | second << 4 | first << 8 | second << 12), 0});
                };
                return Selectors{moved(entry), moved(half)};
            }
            const int word = gathered(*two, false, span_, [&](Window w) { return value(w); });
            return Selectors{add({DecodeStep::and_xor, word, 0, 0x77777777, 0}), halves(word, 0x32103210)};
        }
        const std::optional<int> low = gathered(codes, 0, false);
        if (!low) return std::nullopt;
        const int alone = add({DecodeStep::and_xor, *low, 0, repeated((1u << from_.bits) - 1), 0});
        const int joined = add({DecodeStep::and_or, add({DecodeStep::shift_right, alone, 0, kNibbleBits, 0}), alone, 0xf0f0f0f0, 0});
        const int word = add({DecodeStep::pick, joined, joined, 0x2020, 0});
        if (from_.bits < kNibbleBits) return Selectors{word, 0};
        return Selectors{add({DecodeStep::and_xor, word, 0, 0x77777777, 0}), halves(word, 0x32103210)};
    }

    /// Codes of 1 and 2 bits: every nibble of a word, shifted by what is below 4, looks up the code in its lowest bits, four nibbles at a time, and
    /// the bytes of four codes come from what holds them.
    std::optional<int> by_nibbles(const std::array<int, 4>& codes, uint32_t low, uint32_t high) {
        Bytes bytes{};
        for (size_t i = 0; i < 4; ++i) {
            if (codes[i] % from_.bits) return std::nullopt;
            bytes.window[i] = codes[i] / 16 * kNibbleBits + codes[i] % kNibbleBits;
            bytes.byte[i] = codes[i] % 16 / kNibbleBits;
        }
        return gathered(bytes, false, 0, [&](int nibbles) {
            const int half = nibbles / kNibbleBits;
            const uint32_t mask = ((1u << from_.bits) - 1) * 0x11111111u;
            const int word = add({DecodeStep::and_xor, value(half / 2 * kWordBits + nibbles % kNibbleBits), 0, mask, 0});
            return add({DecodeStep::table, half % 2 ? add({DecodeStep::shift_right, word, 0, 16, 0}) : word, 0, low, high});
        });
    }

    /// Byte `plane` of the values of four codes.
    std::optional<int> looked_up(const std::array<int, 4>& codes, int plane) {
        std::array<uint32_t, 4> quarters{};
        bool same = true;
        const uint32_t count = 1u << from_.bits, first = table_[0] >> kByteBits * plane & 0xff;
        for (uint32_t code = 0; code < 16; ++code) {
            const uint32_t byte = table_[code % count] >> kByteBits * plane & 0xff;
            quarters[code / 4] |= byte << kByteBits * (code % 4);
            same = same && byte == first;
        }
        if (same) return add({DecodeStep::and_xor, 0, 0, 0, repeated(first)});
        if (from_.bits <= 2 && span_ == 0)
            if (const std::optional<int> bytes = by_nibbles(codes, quarters[0], quarters[1])) return bytes;
        const bool neighbours = codes[1] == codes[0] + kNibbleBits && codes[3] == codes[2] + kNibbleBits;
        const bool aligned = std::all_of(codes.begin(), codes.end(), [](int c) { return c % kNibbleBits == 0; });
        if (from_.bits == kNibbleBits && aligned && !neighbours && span_ == 0) {
            // Codes that lie together are looked up together, and bytes come from what holds them.
            Bytes bytes{};
            for (size_t i = 0; i < 4; ++i) bytes.window[i] = codes[i] / 16 * 16, bytes.byte[i] = codes[i] % 16 / kNibbleBits;
            return gathered(bytes, false, 0, [&](int w) { return *looked_up({w, w + 4, w + 8, w + 12}, plane); });
        }
        const std::optional<Selectors> s = selectors(codes);
        if (!s) return std::nullopt;
        const int low = add({DecodeStep::table, s->entry, 0, quarters[0], quarters[1]});
        if (quarters[0] == quarters[2] && quarters[1] == quarters[3]) return low;
        const int high = add({DecodeStep::table, s->entry, 0, quarters[2], quarters[3]});
        return add({DecodeStep::choose, low, high, 0, 0, s->half});
    }

    const Format& from_;
    Format to_;
    std::vector<int> shifts_;
    int span_;  ///< bytes that codes lie further in some threads
    std::array<uint32_t, 16> table_{};
    std::set<Window> made_;
    DecodePlan plan_;
};

/// Distances are added one by one as long as that saves operations, or up to four at a time where less gives no plan.
template <class Plan>
std::optional<DecodePlan> best_plan(const Plan& plan_with) {
    std::vector<int> shifts = {0};
    std::optional<DecodePlan> best = plan_with(shifts);
    // Below the first byte of a word lies the last one of that before, which a shift from there has first.
    for (const int step : {4, 2, 1})
        for (const int last : {0, kWordBits - kByteBits}) {
            if (best) break;
            shifts.clear();
            for (int s = 0; s < kByteBits; s += step) {
                shifts.push_back(s);
                if (s && last) shifts.push_back(last + s);
            }
            best = plan_with(shifts);
        }
    if (!best) return best;
    for (bool better = true; better && static_cast<int>(shifts.size()) <= kMostDistances;) {
        better = false;
        std::vector<int> found;
        for (int s = 1; s < kWordBits; ++s) {
            std::vector<int> more = shifts;
            more.push_back(s);
            std::optional<DecodePlan> plan = plan_with(more);
            if (!plan || plan->steps.size() >= best->steps.size()) continue;
            best = std::move(plan);
            found = std::move(more);
            better = true;
        }
        if (better) shifts = std::move(found);
    }
    return best;
}

bool is_byte(Fmt to) { return to == Fmt::i8 || to == Fmt::u8 || to == Fmt::f8e4m3 || to == Fmt::f8e5m2; }

bool fits_byte(const Format& from, Fmt to) { return from.is_int() && from.bits < 8 && (to == Fmt::i8 || (to == Fmt::u8 && !from.is_signed)); }

}  // namespace

bool has_pair_table(const Format& from, Fmt to) {
    return from.bits == kNibbleBits && !from.is_int() && from.kind != FormatKind::fixed && has_table(from, to) && !is_byte(to);
}

std::optional<DecodePlan> plan_look_ups(const Format& from, Fmt to, int words, std::span<const std::array<int, 2>> pairs,
                                        std::span<const int> moved) {
    if (!has_pair_table(from, to) || !moves_by_bytes(moved)) return std::nullopt;
    return best_plan([&](const std::vector<int>& shifts) { return ByteSearch(from, to, words, shifts, moved).look_ups(pairs); });
}

bool is_fp8(const Format& f) { return f == format_of(Fmt::f8e4m3) || f == format_of(Fmt::f8e5m2); }

std::optional<DecodePlan> plan_fp8(const Format& from, Fmt to, int words, std::span<const std::array<int, 2>> pairs, std::span<const int> moved) {
    if (codes_per_word(to) != 2 || !moves_by_bytes(moved)) return std::nullopt;
    return ByteSearch(from, to, words, {0}, moved).fp8(pairs);
}

bool has_table(const Format& from, Fmt to) {
    const bool values = from.is_int() || from.is_float() || from.kind == FormatKind::fixed || from.kind == FormatKind::codebook ||
                        from.kind == FormatKind::lns;
    return values && from.bits <= kMostTable && (is_byte(to) || to == Fmt::f16 || to == Fmt::bf16);
}

bool table_is_exact(const Format& from, Fmt to) {
    const Format f = format_of(to);
    for (uint64_t code = 0; code < uint64_t{1} << from.bits; ++code) {
        const uint64_t whole = extend_code(from, code);
        const double value = decode(from, whole), there = decode(f, convert(f, from, whole));
        if (!(value == there && std::signbit(value) == std::signbit(there)) && !(std::isnan(value) && std::isnan(there))) return false;
    }
    return true;
}

bool has_byte_decoding(const Format& from, Fmt to) { return is_byte(to) && (fits_byte(from, to) || has_table(from, to)); }

bool moves_by_bytes(std::span<const int> moved) {
    return std::all_of(moved.begin(), moved.end(), [](int m) { return m % kByteBits == 0 && m < kWordBits; });
}

std::optional<DecodePlan> plan_bytes(const Format& from, Fmt to, int words, std::span<const std::array<int, 4>> quads, std::span<const int> moved) {
    if (!has_byte_decoding(from, to) || !moves_by_bytes(moved)) return std::nullopt;
    std::optional<DecodePlan> best;
    for (const bool by_table : {false, true}) {
        if (by_table ? !has_table(from, to) : !fits_byte(from, to)) continue;
        auto plan = best_plan([&](const std::vector<int>& shifts) { return ByteSearch(from, to, words, shifts, moved).quads(quads, by_table); });
        if (plan && (!best || plan->steps.size() < best->steps.size())) best = std::move(plan);
    }
    return best;
}

std::optional<DecodePlan> plan_tables(const Format& from, Fmt to, int words, std::span<const std::array<int, 2>> pairs, std::span<const int> moved) {
    if (!has_table(from, to) || is_byte(to) || !moves_by_bytes(moved)) return std::nullopt;
    return best_plan([&](const std::vector<int>& shifts) { return ByteSearch(from, to, words, shifts, moved).pairs(pairs); });
}

}  // namespace tegula
