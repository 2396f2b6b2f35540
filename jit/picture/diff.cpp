// The picture of two arrays of one type: how many units in the last place their elements are apart, and where.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "jit/picture/builders.h"
#include "lang/print_text.h"
#include "lang/stable_sort.h"

namespace tegula::picture {

namespace {

constexpr int64_t kMapRows = 16, kMapColumns = 32;
constexpr uint64_t kNaN = UINT64_MAX;  ///< one of both is a NaN, or they are NaNs where the other is none

/// Numbers in the order of their values, one apart for neighbours of the format.
class Order {
public:
    explicit Order(const Format& f) : format_(f) {
        if (f.kind != FormatKind::codebook) return;
        std::vector<uint64_t> codes(size_t{1} << f.bits);
        for (uint64_t c = 0; c < codes.size(); ++c) codes[c] = c;
        stable_sort(codes, [&](uint64_t c) { return decode(f, c); });
        ranks_.resize(codes.size());
        for (size_t i = 0, rank = 0; i < codes.size(); ++i) {
            rank += i > 0 && decode(f, codes[i]) != decode(f, codes[i - 1]);
            ranks_[codes[i]] = rank;
        }
    }
    /// kNaN: exactly one of them is a number.
    uint64_t distance(uint64_t a, uint64_t b) const {
        const double va = decode(format_, a), vb = decode(format_, b);
        if (va != va || vb != vb) return (va != va) == (vb != vb) ? 0 : kNaN;
        const uint64_t ka = key(a), kb = key(b);
        const uint64_t apart = ka < kb ? kb - ka : ka - kb;
        return std::min(apart, kNaN - 1);
    }

private:
    const Format& format_;
    std::vector<uint64_t> ranks_;

    uint64_t key(uint64_t code) const {
        constexpr uint64_t kMiddle = uint64_t{1} << 63;
        if (!ranks_.empty()) return ranks_[code & (ranks_.size() - 1)];
        if (format_.kind != FormatKind::floating && format_.kind != FormatKind::lns) return format_.is_signed ? code + kMiddle : code;
        const int unused = format_.is_float() ? format_.bits - format_.is_signed - format_.exp_bits - format_.man_bits : 0;
        const uint64_t sign = format_.is_signed ? uint64_t{1} << (format_.bits - 1) : 0,
                       size = (code & ~sign & (sign ? sign - 1 : UINT64_MAX)) >> unused;
        return code & sign ? kMiddle - size : kMiddle + size;
    }
};

std::string distance_text(uint64_t d) { return d == kNaN ? "NaN" : std::to_string(d); }
int tone_of_distance(uint64_t d) { return d == 0 ? int{plain} : d == kNaN ? int{bad} : d <= 1 ? int{good} : d <= 16 ? 7 : d <= 1024 ? 2 : 5; }

}  // namespace

Picture diff_picture(const std::string& type, const Format& format, const Shape& shape, const std::function<uint64_t(int64_t)>& a,
                     const std::function<uint64_t(int64_t)>& b) {
    Picture out{"diff", type, {}, {}, {}};
    const Order order(format);
    const int64_t all = shape.elements(), columns = shape.rank ? shape[shape.rank - 1u] : 1, rows = columns ? all / columns : 0;
    const int64_t deep = std::max<int64_t>(1, (rows + kMapRows - 1) / kMapRows),
                  wide = std::max<int64_t>(1, (columns + kMapColumns - 1) / kMapColumns);
    std::vector<std::vector<uint64_t>> map(static_cast<size_t>(rows ? (rows + deep - 1) / deep : 0),
                                           std::vector<uint64_t>(static_cast<size_t>((columns + wide - 1) / wide)));
    std::array<int64_t, 66> histogram{};  // 0, 1, 2 to 3, 4 to 7, ..; the last one: NaN
    Table table{{"index", "first", "second", "ULP", "difference"}, {}, {}};
    int64_t differing = 0, worst_at = -1;
    uint64_t worst = 0;
    double largest = 0;
    const auto add = [&](int64_t i, uint64_t d) {
        const double difference = decode(format, b(i)) - decode(format, a(i));
        table.rows.push_back({point_text(i, shape), number_text(format, a(i)), number_text(format, b(i)), distance_text(d), short_text(difference)});
        table.tones.push_back(d == kNaN ? int{bad} : int{plain});
    };
    for (int64_t i = 0; i < all; ++i) {
        const uint64_t d = order.distance(a(i), b(i));
        ++histogram[d == kNaN ? 65 : static_cast<size_t>(std::bit_width(d))];
        uint64_t& cell = map[static_cast<size_t>(i / columns / deep)][static_cast<size_t>(i % columns / wide)];
        cell = std::max(cell, d);
        if (d == 0) continue;
        if (++differing <= 5) add(i, d);
        if (const double apart = std::fabs(decode(format, b(i)) - decode(format, a(i))); apart == apart) largest = std::max(largest, apart);
        if (d > worst) worst = d, worst_at = i;
    }
    out.facts.push_back({"elements", std::to_string(all) + ", of which " + std::to_string(differing) + " differ"});
    if (!differing) {
        out.notes.push_back(all ? "the arrays are equal; NaNs count as equal, and so do zeros of both signs" : "there are no elements");
        return out;
    }
    out.facts.push_back({"largest distance", worst == kNaN ? "a NaN where the other has a number" : distance_text(worst) + " ULP"});
    out.facts.push_back({"largest difference", short_text(largest)});
    if (differing > 5 && worst_at >= 0) add(worst_at, worst);
    Bars bars;
    for (size_t k = 0; k < histogram.size(); ++k) {
        if (!histogram[k]) continue;
        const uint64_t low = k == 0 ? 0 : uint64_t{1} << (k - 1), high = k <= 1 ? low : low + (low - 1);
        const std::string name = k == 65       ? "NaN"
                                 : low == high ? std::to_string(low) + " ULP"
                                               : std::to_string(low) + " to " + std::to_string(high) + " ULP";
        bars.bars.push_back({name, double(histogram[k]), double(all), std::to_string(histogram[k]), tone_of_distance(k == 65 ? kNaN : low)});
    }
    out.figures.push_back({"how far apart", "elements by their distance in units of the last place", std::move(bars), {}});
    Grid grid{"row", "column", {}, {}, {}, {}};
    for (size_t c = 0; !map.empty() && c < map[0].size(); ++c) grid.column_names.push_back(std::to_string(static_cast<int64_t>(c) * wide));
    for (size_t r = 0; r < map.size(); ++r) {
        std::vector<std::string> cells;
        std::vector<int> tones;
        for (const uint64_t d : map[r])
            cells.push_back(d == 0 ? "." : d >= 100000 && d != kNaN ? short_text(double(d)) : distance_text(d)), tones.push_back(tone_of_distance(d));
        grid.add_row(std::to_string(static_cast<int64_t>(r) * deep), std::move(cells), std::move(tones));
    }
    out.figures.push_back(
        {"where",
         deep * wide == 1 ? "ULP of each element; `.`: equal"
                          : "the largest of each " + std::to_string(deep) + " x " + std::to_string(wide) + " elements, in ULP; `.`: all are equal",
         std::move(grid),
         {{good, "1"}, {7, "up to 16"}, {2, "up to 1024"}, {5, "more"}, {bad, "NaN"}}});
    out.figures.push_back({"the first differences" + std::string(differing > 5 ? ", and the largest" : ""), "", std::move(table), {}});
    return out;
}

}  // namespace tegula::picture
