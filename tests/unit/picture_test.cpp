// Pictures against other computations of what they show: bank conflicts, sectors, the order of programs, intervals of rounding.
#include <gtest/gtest.h>

#include <cmath>
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

/// "[-5, -3.5]": does the interval hold v? Its ends have six digits.
bool holds(const std::string& interval, double v) {
    const size_t comma = interval.find(", ");
    double low = -HUGE_VAL, high = HUGE_VAL;
    const std::string left = interval.substr(1, comma - 1), right = interval.substr(comma + 2, interval.size() - comma - 3);
    EXPECT_TRUE(left == "-inf" || left == "overflow" || read_number(left, low)) << interval;
    EXPECT_TRUE(right == "inf" || right == "overflow" || read_number(right, high)) << interval;
    return (interval[0] == '[' ? v >= low : v > low) && (interval.back() == ']' ? v <= high : v < high);
}

}  // namespace

TEST(Picture, IntervalsAreThoseOfTheCast) {
    TypeTable types;
    std::vector<FormatId> formats = {id_of(Fmt::f4e2m1), types.intern(int_format(3, true)), types.intern(int_format(4, false)),
                                     types.intern(int_format(1, false))};
    std::mt19937 random(17);
    for (const FormatId id : formats) {
        const Format& f = types.format(id);
        const Subject s{"", f.name, id, {}, {}};
        const Picture made = format_picture(std::span(&s, 1), types);
        const Table* table = nullptr;
        for (const Figure& figure : made.figures)
            if (figure.title == "by value") table = &std::get<Table>(figure.body);
        ASSERT_TRUE(table) << f.name;
        for (int n = 0; n < 2000; ++n) {
            const double v = (static_cast<double>(random() % 4001) - 2000) / 128;  // ends of intervals among them
            const double rounded = decode(f, extend_code(f, encode(f, v)));
            int found = 0;
            for (const std::vector<std::string>& row : table->rows) {
                double value = 0;
                if (row[4][0] != '[' && row[4][0] != '(') continue;
                ASSERT_TRUE(read_number(row[2], value)) << row[2];
                if (!holds(row[4], v)) continue;
                ++found;
                EXPECT_EQ(value, rounded) << f.name << ": " << v << " in " << row[4];
            }
            EXPECT_EQ(found, 1) << f.name << ": " << v;
        }
    }
}
