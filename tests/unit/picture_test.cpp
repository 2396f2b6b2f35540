// Pictures against other computations of what they show: bank conflicts, sectors, the order of programs, intervals of rounding.
#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "jit/picture/banks.h"
#include "jit/picture/builders.h"
#include "jit/picture/pipeline.h"
#include "jit/picture/raster.h"
#include "jit/picture/sectors.h"
#include "jit/picture/tiles.h"
#include "lang/plain_text.h"

using namespace tegula;
using namespace tegula::picture;

namespace {

/// Turns that a warp's access takes: lanes go together 128 bytes at a time, and each bank gives one word of 4 bytes a turn.
int turns(const std::array<int64_t, 32>& address, int bytes) {
    const int together = std::min(32, 128 / std::max(bytes, 4));
    int worst = 0;
    for (int first = 0; first < 32; first += together) {
        std::map<int64_t, std::set<int64_t>> words;
        for (int lane = first; lane < first + together; ++lane)
            for (int b = 0; b < bytes; ++b) {
                const int64_t word = (address[static_cast<size_t>(lane)] + b) / 4;
                words[word % 32].insert(word);
            }
        for (const auto& [bank, of] : words) worst = std::max(worst, static_cast<int>(of.size()));
    }
    return worst;
}

TileLayout random_layout(std::mt19937& random, const Shape& shape) {
    const int warps = 1 << random() % 3;
    switch (random() % 3) {
        case 0:
            return mma_accumulator(shape, warps, 1);
        case 1: {
            const int order[] = {0, 1};
            return blocked_layout(shape, warps, 1 << random() % 4, order);
        }
        default: {
            const int order[] = {1, 0};
            return blocked_layout(shape, warps, 1 << random() % 4, order);
        }
    }
}

}  // namespace

TEST(Picture, BankConflictsAreThoseOfASimulator) {
    std::mt19937 random(3);
    int conflicts = 0;
    for (int n = 0; n < 1000; ++n) {
        const int bytes = 1 << random() % 3;
        const Shape shape{int64_t{16} << random() % 3, int64_t{16} << random() % 3};
        const TileLayout l = random_layout(random, shape);
        SharedLayout shared = shared_layout(shape, 1, bytes);
        if (random() % 2) shared.swizzle = 0;
        const int vector = std::max(1, std::min(vector_width(l, 1), 16 / bytes));
        const auto address = [&](const TileLayout::Point& p) { return shared.address(p); };
        const WorstAccess worst = worst_of_tile(l, vector, bytes, address);
        int expected = 0;
        for (int warp = 0; warp < l.warps(); ++warp)
            for (int r = 0; r < l.registers(); ++r) {
                if (address(l.point(r, 0, warp)) % (vector * bytes)) continue;
                std::array<int64_t, 32> places;
                for (int lane = 0; lane < 32; ++lane) places[static_cast<size_t>(lane)] = address(l.point(r, lane, warp));
                expected = std::max(expected, turns(places, vector * bytes));
            }
        ASSERT_EQ(worst.degree, expected) << l.text() << " " << shared.text();
        ASSERT_EQ(turns(worst.address, worst.bytes), expected);
        ASSERT_LE(static_cast<int>(bank_grid(worst).cells.size()), expected);
        conflicts += expected > 1;
    }
    EXPECT_GT(conflicts, 100);
    EXPECT_LT(conflicts, 900);
}

TEST(Picture, SectorsAreThoseOfAddresses) {
    std::mt19937 random(5);
    for (int n = 0; n < 300; ++n) {
        const unsigned bits = 4u << random() % 4;
        const Shape shape{1 + static_cast<int64_t>(random() % 40), 1 + static_cast<int64_t>(random() % 90)};
        const int d = static_cast<int>(random() % 2), vector = 1 << random() % 3, order[] = {d, 1 - d};
        const TileLayout l = blocked_layout(shape, 1 << random() % 3, vector, order);
        const SectorCount got = count_sectors(l, d, vector, bits);
        SectorCount expected;
        constexpr int64_t kPitch = 1 << 20;  // bits
        for (int warp = 0; warp < l.warps(); ++warp)
            for (int r = 0; r < l.registers(); ++r) {
                if (l.point(r, 0, warp)[static_cast<size_t>(d)] % vector) continue;
                std::set<int64_t> asked, sectors;
                for (int lane = 0; lane < 32; ++lane)
                    for (int e = 0; e < vector; ++e) {
                        TileLayout::Point p = l.point(r, lane, warp);
                        if (!l.inside(p)) break;
                        p[static_cast<size_t>(d)] += e;
                        if (p[static_cast<size_t>(d)] >= shape[static_cast<size_t>(d)]) break;
                        const int64_t bit = p[static_cast<size_t>(1 - d)] * kPitch + p[static_cast<size_t>(d)] * bits;
                        asked.insert(bit);
                        sectors.insert(bit / 256), sectors.insert((bit + bits - 1) / 256);
                    }
                if (asked.empty()) continue;
                ++expected.accesses;
                expected.asked += static_cast<int64_t>((asked.size() * bits + 7) / 8);
                expected.moved += static_cast<int64_t>(sectors.size()) * 32;
            }
        ASSERT_EQ(got.accesses, expected.accesses);
        ASSERT_EQ(got.asked, expected.asked);
        ASSERT_EQ(got.moved, expected.moved) << to_string(shape) << " along " << d << " by " << vector << " of " << bits;
    }
}

TEST(Picture, EveryElementHasAHolderThatHoldsIt) {
    std::mt19937 random(7);
    for (int n = 0; n < 50; ++n) {
        const Shape shape{1 + static_cast<int64_t>(random() % 20), 1 + static_cast<int64_t>(random() % 20)};
        const TileLayout l = random_layout(random, shape);
        Picture out;
        const Grid grid = std::get<Grid>(element_holders("tile", l, out).body);
        for (int64_t i = 0; i < std::min<int64_t>(shape[0], 16); ++i)
            for (int64_t j = 0; j < std::min<int64_t>(shape[1], 16); ++j) {
                const auto holder = holder_of(l, {i, j});
                ASSERT_TRUE(holder);
                const TileLayout::Point p = l.point(holder->reg, holder->thread % 32, holder->thread / 32);
                ASSERT_EQ(p[0], i);
                ASSERT_EQ(p[1], j);
                ASSERT_EQ(grid.cells[static_cast<size_t>(i)][static_cast<size_t>(j)],
                          std::to_string(holder->thread) + ":" + std::to_string(holder->reg));
                int holding = 0;
                for (int t = 0; t < 32 * l.warps(); ++t) holding += l.find_register({i, j}, t % 32, t / 32) >= 0;
                ASSERT_EQ(holding, holders(l));
            }
    }
}

TEST(Picture, EveryProgramRunsOnce) {
    std::mt19937 random(11);
    for (int n = 0; n < 200; ++n) {
        const uint64_t rows = 1 + random() % 40, columns = 1 + random() % 40, planes = 1 + random() % 3, group = random() % 20;
        std::set<uint64_t> seen;
        for (uint64_t at = 0; at < rows * columns * planes; ++at) seen.insert(program_at(at, rows, columns, group));
        ASSERT_EQ(seen.size(), rows * columns * planes);
        ASSERT_EQ(*seen.rbegin(), rows * columns * planes - 1);
    }
    EXPECT_EQ(program_at(5, 7, 0x1'0000'0000, 16), 5u);  // very long rows stay as they are
}

TEST(Picture, RingsKeepTheirOrder) {
    std::mt19937 random(13);
    for (int n = 0; n < 200; ++n) {
        const int stages = 1 + static_cast<int>(random() % 6);
        const double copy = 1 + random() % 300, latency = 1 + random() % 2000, compute = 1 + random() % 900;
        const std::vector<Trip> trips = run_pipeline(12, stages, copy, latency, compute);
        for (size_t t = 0; t < trips.size(); ++t) {
            ASSERT_GE(trips[t].copy_end - trips[t].copy_begin, std::max(copy, latency) - 1e-9);
            ASSERT_GE(trips[t].compute_begin, trips[t].copy_end);
            if (t >= 1) {
                ASSERT_GE(trips[t].copy_begin, trips[t - 1].copy_begin + copy - 1e-9);
                ASSERT_GE(trips[t].compute_begin, trips[t - 1].compute_end);
            }
            if (t >= static_cast<size_t>(stages)) {
                ASSERT_GE(trips[t].copy_begin, trips[t - static_cast<size_t>(stages)].compute_end);
            }
        }
    }
}

namespace {

/// A real with 256 bits, enough for every sum and half of two values of a format of 8 bits.
class Real {
public:
    Real(double v = 0) { mpfr_init2(v_, 256), mpfr_set_d(v_, v, MPFR_RNDN); }
    Real(const Real& o) : Real() { mpfr_set(v_, o.v_, MPFR_RNDN); }
    Real& operator=(const Real& o) { return mpfr_set(v_, o.v_, MPFR_RNDN), *this; }
    ~Real() { mpfr_clear(v_); }
    /// mantissa * 2^exponent.
    static Real scaled(int64_t mantissa, long exponent) {
        Real r;
        mpfr_set_si_2exp(r.v_, mantissa, exponent, MPFR_RNDN);
        return r;
    }
    /// 2^(n / d).
    static Real power(long n, long d) {
        Real r;
        mpfr_set_si(r.v_, n, MPFR_RNDN), mpfr_div_si(r.v_, r.v_, d, MPFR_RNDN), mpfr_exp2(r.v_, r.v_, MPFR_RNDN);
        return r;
    }
    friend Real middle(const Real& a, const Real& b) {
        Real r;
        mpfr_add(r.v_, a.v_, b.v_, MPFR_RNDN), mpfr_div_2ui(r.v_, r.v_, 1, MPFR_RNDN);
        return r;
    }
    Real operator-() const {
        Real r;
        mpfr_neg(r.v_, v_, MPFR_RNDN);
        return r;
    }
    friend bool operator==(const Real& a, const Real& b) { return mpfr_equal_p(a.v_, b.v_); }
    /// Six digits, as pictures give them, read again.
    double shown() const {
        char text[64];
        mpfr_snprintf(text, sizeof text, "%.6Rg", v_);
        return std::strtod(text, nullptr);
    }

private:
    mpfr_t v_;
};

struct Bound {
    bool infinite = true, closed = false;
    bool exact = true;  ///< else no double is the bound, and neither bracket is wrong
    Real at;
};
/// A number, and the reals that a cast brings to it.
struct Taken {
    Real value;
    Bound low, high;
};

/// Floats by the definition of docs/numerics.md: magnitudes in order, ties to even ones; without mantissa bits to the larger one.
std::vector<Taken> float_numbers(const Format& f) {
    uint64_t finite = uint64_t{1} << (f.exp_bits + f.man_bits);
    if (f.nan == NanCode::ieee)
        finite -= (uint64_t{1} << f.man_bits) - !f.has_inf;
    else
        finite -= f.has_inf + (f.nan == NanCode::all_ones);
    const int64_t one = int64_t{1} << f.man_bits;
    const auto step = [&](uint64_t m) {  // before small ones become zero
        const int64_t exponent = static_cast<int64_t>(m) / one, fraction = static_cast<int64_t>(m) % one;
        return exponent == 0 ? Real::scaled(fraction, 1 - f.bias - f.man_bits) : Real::scaled(one + fraction, exponent - f.bias - f.man_bits);
    };
    std::vector<Taken> up;  // from zero
    for (uint64_t m = 0; m < finite; ++m) {
        const bool even = f.man_bits ? m % 2 == 0 : m == 0;
        Bound high{m + 1 == finite && !f.has_inf, even, true, middle(step(m), step(m + 1))};
        const Real value = m < static_cast<uint64_t>(one) && !f.subnormal ? Real() : step(m);
        if (!up.empty() && up.back().value == value) {
            up.back().high = high;
            continue;
        }
        Bound low;
        if (!up.empty()) low = up.back().high, low.closed = !low.closed;
        up.push_back({value, low, high});
    }
    const auto mirrored = [](Bound b) { return b.at = -b.at, b; };
    std::vector<Taken> out;
    if (f.is_signed)
        for (size_t i = up.size(); i-- > 1;) out.push_back({-up[i].value, mirrored(up[i].high), mirrored(up[i].low)});
    if (f.is_signed) up[0].low = mirrored(up[0].high);
    if (!f.is_signed && f.has_inf && f.nan != NanCode::none) up[0].low = {false, true, true, -middle(step(0), step(1))};  // below lie NaNs
    out.insert(out.end(), up.begin(), up.end());
    return out;
}

/// Numbers between which ties decide; `lower_wins(i)`: the tie of numbers i and i + 1 goes to i.
std::vector<Taken> between_ties(const std::vector<Real>& values, const auto& lower_wins) {
    std::vector<Taken> out;
    for (size_t i = 0; i < values.size(); ++i) {
        Bound low, high;
        if (i > 0) low = out.back().high, low.closed = !low.closed;
        if (i + 1 < values.size()) high = {false, lower_wins(i), true, middle(values[i], values[i + 1])};
        out.push_back({values[i], low, high});
    }
    return out;
}

std::vector<Taken> numbers_of(const Format& f) {
    std::vector<Taken> out;
    std::vector<Real> values;
    if (f.scale_only) {  // 2^-127 to 2^127
        for (long e = -127; e <= 127; ++e) values.push_back(Real::scaled(1, e));
        return between_ties(values, [](size_t) { return false; });
    }
    if (f.is_float()) return float_numbers(f);
    if (f.is_int()) {
        const int low = f.is_signed ? -(1 << (f.bits - 1)) : 0, high = low + (1 << f.bits) - 1;
        for (int v = low; v <= high; ++v) {
            const Bound below{v == low, v < 0, true, Real(v < 0 ? v - 1 : v > 0 ? v : -1)}, above{v == high, false, true, Real(v >= 0 ? v + 1 : v)};
            out.push_back({Real(v), below, above});
            if (v < 0) out.back().low.closed = false, out.back().high.closed = true;
            if (v == 0) out.back().low.closed = false;
            if (v > 0) out.back().low.closed = true;
        }
        return out;
    }
    if (f.kind == FormatKind::fixed) {
        const int low = -(1 << (f.bits - 1));
        for (int v = low; v < -low; ++v) values.push_back(Real::scaled(v, -long{f.frac_bits}));
        return between_ties(values, [&](size_t i) { return (static_cast<int>(i) + low) % 2 == 0; });
    }
    if (f.kind == FormatKind::lns) {
        const long d = 1L << f.frac_bits, most = (1L << (f.int_bits + f.frac_bits - 1)) - 1;
        for (const bool negative : {true, false}) {
            for (long n = negative ? most : -most; negative ? n >= -most : n <= most; n += negative ? -1 : 1) {
                const Bound inner{false, false, n == -most, n == -most ? Real() : Real::power(2 * n - 1, 2 * d)},
                    outer{n == most, false, false, Real::power(2 * n + 1, 2 * d)};
                const auto mirrored = [](Bound b) { return b.at = -b.at, b; };
                out.push_back(negative ? Taken{-Real::power(n, d), mirrored(outer), mirrored(inner)} : Taken{Real::power(n, d), inner, outer});
            }
            if (negative) out.push_back({Real(), {false, true, true, Real()}, {false, true, true, Real()}});
        }
        return out;
    }
    std::map<double, size_t> first;  // of a codebook: the lowest index of each value
    for (size_t i = f.table.size(); i-- > 0;) first[f.table[i] == 0 ? 0.0 : f.table[i]] = i;
    std::vector<size_t> index;
    for (const auto& [value, i] : first) values.push_back(Real(value)), index.push_back(i);
    return between_ties(values, [&](size_t i) { return index[i] < index[i + 1]; });
}

void expect_bound(const std::string& text, bool closed, const char* open_text, const Bound& want, const std::string& where) {
    if (want.infinite) {
        EXPECT_EQ(text, open_text) << where;
        EXPECT_FALSE(closed) << where;
        return;
    }
    double v = 0;
    ASSERT_TRUE(read_number(text, v)) << where << ": " << text;
    EXPECT_EQ(v, want.at.shown()) << where;
    if (want.exact) {
        EXPECT_EQ(closed, want.closed) << where << " at " << text;
    }
}

void check_format(const Format& f, FormatId id, const TypeTable& types) {
    const Subject s{"", f.name, id, {}, {}};
    const Picture made = format_picture(std::span(&s, 1), types);
    const Table* table = nullptr;
    const Grid* codes = nullptr;
    for (const Figure& figure : made.figures) {
        if (figure.title == "by value") table = &std::get<Table>(figure.body);
        if (figure.title == "every code") codes = &std::get<Grid>(figure.body);
    }
    const std::vector<Taken> want = numbers_of(f);
    ASSERT_TRUE(codes) << f.name;
    if (want.size() < 2) return;
    ASSERT_TRUE(table) << f.name;
    ASSERT_LE(want.size(), table->rows.size()) << f.name;
    for (size_t i = 0; i < table->rows.size(); ++i) {
        const std::vector<std::string>& row = table->rows[i];
        const std::string where = f.name + ", code " + row[0];
        const uint64_t code = std::stoull(row[0], nullptr, 16), across = codes->cells[0].size();
        const std::string& cell = codes->cells[code / across][code % across];
        if (i >= want.size()) {  // the other zero, Inf and NaN
            EXPECT_TRUE(row[2] == "-0" || row[2] == "inf" || row[2] == "-inf" || row[2] == "nan") << where << ": " << row[2];
            EXPECT_EQ(cell, row[2]) << where;
            continue;
        }
        double value = 0, listed = 0;
        ASSERT_TRUE(read_number(row[2], value)) << where << ": " << row[2];
        EXPECT_NEAR(value, want[i].value.shown(), 2e-5 * std::fabs(value)) << where;
        ASSERT_TRUE(read_number(cell, listed)) << where << ": " << cell;
        EXPECT_EQ(listed, want[i].value.shown()) << where;
        const std::string& interval = row[4];
        const size_t comma = interval.find(", ");
        ASSERT_NE(comma, interval.npos) << where << ": " << interval;
        expect_bound(interval.substr(1, comma - 1), interval[0] == '[', "-inf", want[i].low, where + " from");
        expect_bound(interval.substr(comma + 2, interval.size() - comma - 3), interval.back() == ']', "inf", want[i].high, where + " to");
    }
}

}  // namespace

/// Every code and every interval of formats of at most 8 bits, against reals of MPFR: all minifloats of up to 6 bits with every rule for Inf, NaN,
/// subnormals and sign, those of 8 bits that have names, integers, fixed point, log numbers and codebooks.
TEST(Picture, FormatsAreThoseOfMpfr) {
    TypeTable types;
    std::vector<FormatId> formats = {id_of(Fmt::f4e2m1), id_of(Fmt::f6e2m3), id_of(Fmt::f6e3m2),
                                     id_of(Fmt::f8e4m3), id_of(Fmt::f8e5m2), id_of(Fmt::f8e8m0)};
    for (unsigned bits = 1; bits <= 8; ++bits)
        for (const bool sign : {true, false}) formats.push_back(types.intern(int_format(bits, sign)));
    for (unsigned e = 0; e <= 5; ++e)
        for (unsigned m = 0; e + m <= 5; ++m)
            for (unsigned rule = 0; rule < 32; ++rule) {
                Format f = float_format(e, m);
                f.has_inf = rule & 1, f.subnormal = rule & 2, f.is_signed = rule & 4;
                f.nan = static_cast<NanCode>(rule >> 3);
                f.bias += static_cast<int>(rule % 3);
                f.negative_zero = f.is_signed && f.nan != NanCode::negative_zero;
                f.bits = static_cast<uint8_t>(e + m + f.is_signed);
                f.name = canonical_name(f);
                if (f.bits > 0 && format_problem(f).empty()) formats.push_back(types.intern(f));
            }
    for (const char* text : {"fixed<3, 2>", "fixed<1, 7>", "fixed<8, 0>", "fixed<2, 1>", "lns<3, 2>", "lns<2, 5>", "lns<4, 0>", "lns<1, 3>"}) {
        Format f;
        f.kind = text[0] == 'f' ? FormatKind::fixed : FormatKind::lns;
        f.int_bits = static_cast<uint8_t>(text[std::string_view(text).find('<') + 1] - '0');
        f.frac_bits = static_cast<uint8_t>(text[std::string_view(text).find(' ') + 1] - '0');
        f.bits = static_cast<uint8_t>(f.int_bits + f.frac_bits + (text[0] == 'l'));
        f.is_signed = true;
        f.name = text;
        ASSERT_EQ(format_problem(f), "") << text;
        formats.push_back(types.intern(f));
    }
    std::mt19937 random(17);
    for (unsigned bits = 1; bits <= 8; ++bits) {
        Format f;
        f.kind = FormatKind::codebook, f.bits = static_cast<uint8_t>(bits), f.is_signed = true;
        for (int i = 0; i < 1 << bits; ++i) f.table.push_back((static_cast<double>(random() % 301) - 150) / 8);
        f.name = "codebook<" + std::to_string(bits) + ">[..]";
        if (format_problem(f).empty()) formats.push_back(types.intern(f));
    }
    EXPECT_GT(formats.size(), 150u);
    for (const FormatId id : formats) check_format(types.format(id), id, types);
}
