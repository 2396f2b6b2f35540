// The interpreter's programs: memory, pointers, atomics, effects, checked mode, budgets, threads and program order.
#include <atomic>
#include <bit>
#include <chrono>
#include <thread>

#include "interp_fixture.h"
#include "lang/layout.h"

namespace tegula::testing {
namespace {

class InterpRun : public ::testing::Test {
protected:
    World w;
    std::mt19937_64 rng{11};

    static RunOptions checked() {
        RunOptions o;
        o.checked = true;
        return o;
    }
    static std::vector<std::string> codes(const RunResult& r) {
        std::vector<std::string> out;
        for (const Diagnostic& d : r.diagnostics) out.push_back(diag_row(d.id).code);
        return out;
    }
    static std::string text(const RunResult& r) {
        std::string out;
        for (const Diagnostic& d : r.diagnostics) {
            out += d.message + "\n";
            for (const DiagNote& n : d.notes) out += n.whole() + "\n";
        }
        return out;
    }
};

const char* const kDouble =
    "kernel @k(%x: tensor<f32>[?] in, %y: tensor<f32>[?] out) {\n %p = program_id {axis = 0} : i64\n %c = constant 33 : i64\n %o = mul %p, %c : i64\n"
    " %v = load %x[%o +: 33] : tile<f32>[33]\n %s = add %v, %v : tile<f32>[33]\n store %y[%o +: 33] = %s\n ret\n}\n";

TEST_F(InterpRun, MaskedEdgesThreadsAndOrder) {
    for (int64_t n : {1, 7, 33, 129, 1000}) {
        std::vector<float> x(static_cast<size_t>(n)), want;
        for (float& v : x) v = static_cast<float>(rng() % 1000);
        for (float v : x) want.push_back(v + v);
        for (unsigned threads : {1u, 4u})
            for (uint64_t seed : {0u, 1u, 99u}) {
                std::vector<float> y(static_cast<size_t>(n) + 1, -1);
                Argument out = tensor(y, Fmt::f32, {n});
                out.t.bytes -= 4;
                RunOptions o;
                o.threads = threads;
                o.order_seed = seed;
                const RunResult r = w.run(kDouble, {tensor(x, Fmt::f32, {n}), out}, {static_cast<uint64_t>((n + 32) / 33), 1, 1}, o);
                ASSERT_EQ(r.status, RunResult::ok) << text(r);
                ASSERT_EQ(std::vector<float>(y.begin(), y.end() - 1), want);
                ASSERT_EQ(y.back(), -1);
            }
    }
}

TEST_F(InterpRun, PermutedOrderVisitsEveryProgramOnce) {
    for (uint64_t n : {1u, 2u, 5u, 64u, 1000u}) {
        std::vector<int32_t> seen(n, 0);
        RunOptions o;
        o.order_seed = 3;
        w.run(
            "kernel @k(%y: tensor<i32>[?] inout) {\n %p = program_id {axis = 0} : i64\n %o = constant 1 : i32\n %a = atomic %y[%p] = %o {kind = add, "
            "order = relaxed, scope = gpu} : i32\n ret\n}\n",
            {tensor(seen, Fmt::i32, {static_cast<int64_t>(n)})}, {n, 1, 1}, o);
        EXPECT_EQ(seen, std::vector<int32_t>(n, 1));
    }
}

TEST_F(InterpRun, StridedLoadsWithElseAndMask) {
    std::vector<int16_t> x(20), y(12, 77);
    for (size_t i = 0; i < 20; ++i) x[i] = static_cast<int16_t>(i);
    const RunResult r = w.run(
        "kernel @k(%x: tensor<i16>[?, ?] in, %y: tensor<i16>[3, 4] out) {\n %m = constant -2 : i64\n %z = constant 0 : i64\n %e = constant 9 : "
        "tile<i16>[3, 4]\n"
        " %v = load %x[%m +: 3 step 2, %z +: 4 step 3] else %e : tile<i16>[3, 4]\n %l = constant_tile [true, true, true, true, true, false, true, "
        "true, true, true, true, false] : tile<bool>[3, 4]\n store %y[:, :] = %v mask %l\n ret\n}\n",
        {tensor(x, Fmt::i16, {4, 5}), tensor(y, Fmt::i16, {3, 4})});
    EXPECT_EQ(r.status, RunResult::ok) << text(r);
    EXPECT_EQ(y, (std::vector<int16_t>{9, 9, 9, 9, 0, 77, 9, 9, 10, 13, 9, 77}));
}

TEST_F(InterpRun, LayoutsAndStrides) {
    std::vector<float> x(15), y(15), z(60, -1);
    for (size_t i = 0; i < 15; ++i) x[i] = static_cast<float>(i);
    Argument col = tensor(y, Fmt::f32, {3, 5});
    col.t.layout = w.types.intern(Layout::col());
    Argument strided = tensor(z, Fmt::f32, {3, 5});
    strided.t.has_strides = true;
    strided.t.strides = {2, 10};
    const std::string copy =
        "(%x: tensor<f32>[?, ?] in, %y: tensor<f32>[?, ?] out) {\n %z = constant 0 : i64\n %v = load %x[%z +: 4, %z +: 8] : tile<f32>[4, 8]\n store "
        "%y[%z +: 4, %z +: 8] = %v\n ret\n}\n";
    EXPECT_EQ(w.run("kernel @k" + copy, {tensor(x, Fmt::f32, {3, 5}), col}).status, RunResult::ok);
    EXPECT_EQ(w.run("kernel @k" + copy, {tensor(x, Fmt::f32, {3, 5}), strided}).status, RunResult::ok);
    for (size_t i = 0; i < 3; ++i)
        for (size_t j = 0; j < 5; ++j) {
            EXPECT_EQ(y[j * 3 + i], x[i * 5 + j]);
            EXPECT_EQ(z[i * 2 + j * 10], x[i * 5 + j]);
        }
    EXPECT_EQ(std::count(z.begin(), z.end(), -1.0f), 45);
    // Interleaved: (i, j) -> (j / 2, i, j % 2).
    const auto j = LayoutExpr::make_index(1), two = LayoutExpr::make_constant(2);
    std::vector<float> p(18, -1);
    Argument packed = tensor(p, Fmt::f32, {3, 5});
    packed.t.layout = w.types.intern(Layout::from_exprs(
        "pairs", 2, {LayoutExpr::make(LayoutExpr::div, j, two), LayoutExpr::make_index(0), LayoutExpr::make(LayoutExpr::rem, j, two)}));
    EXPECT_EQ(w.run("kernel @k" + copy, {tensor(x, Fmt::f32, {3, 5}), packed}).status, RunResult::ok);
    for (size_t i = 0; i < 3; ++i)
        for (size_t k = 0; k < 5; ++k) EXPECT_EQ(p[(k / 2 * 3 + i) * 2 + k % 2], x[i * 5 + k]);
}

TEST_F(InterpRun, SubByteStoresKeepNeighbours) {
    // Each program writes one 3-bit element; 8 elements share 3 bytes.
    constexpr int64_t n = 1000;
    for (unsigned threads : {1u, 4u}) {
        std::vector<uint8_t> bytes((n * 3 + 7) / 8, 0);
        RunOptions o;
        o.threads = threads;
        const RunResult r = w.run(
            "kernel @k(%y: tensor<u3>[?] out) {\n %p = program_id {axis = 0} : i64\n %v = cast %p {round = rne, overflow = automatic} : u3\n store "
            "%y[%p] = %v\n ret\n}\n",
            {tensor(bytes, Fmt::u8, {n})}, {n, 1, 1}, o);
        ASSERT_EQ(r.status, RunResult::ok);
        for (int64_t i = 0; i < n; ++i) {
            unsigned code = 0;
            for (int64_t b = 0; b < 3; ++b) code |= static_cast<unsigned>(bytes[static_cast<size_t>((i * 3 + b) / 8)] >> ((i * 3 + b) % 8) & 1) << b;
            ASSERT_EQ(code, i % 8);
        }
    }
}

TEST_F(InterpRun, Pointers) {
    std::vector<float> x(50), y(50, -1);
    for (size_t i = 0; i < 50; ++i) x[i] = static_cast<float>(i);
    const std::string text =
        "kernel @k(%x: ptr<f32>, %y: tensor<f32>[?] inout, %n: i64) {\n %i = iota {axis = 0} : tile<i64>[64]\n %nb = broadcast %n : tile<i64>[64]\n "
        "%m = lt %i, %nb : tile<bool>[64]\n"
        " %xb = broadcast %x : tile<ptr<f32>>[64]\n %p = ptr_add %xb, %i : tile<ptr<f32>>[64]\n %e = constant 7 : tile<f32>[64]\n %v = ptr_load %p, "
        "%m, %e {flags = 3} : tile<f32>[64]\n"
        " %t = tensor_ptr %y : ptr<f32>\n %tb = broadcast %t : tile<ptr<f32>>[64]\n %q = ptr_add %tb, %i : tile<ptr<f32>>[64]\n ptr_store %q, %v, %m "
        "{flags = 2}\n"
        " %w = broadcast %t : tile<ptr<f32>>[2]\n %two = constant 0x40000000 : tile<f32>[2]\n %o = ptr_atomic %w, %two {flags = 0, kind = add, order "
        "= relaxed, scope = gpu} : tile<f32>[2]\n ret\n}\n";
    const RunResult r = w.run(text, {pointer(x, Fmt::f32), tensor(y, Fmt::f32, {50}), scalar(33)}, {1, 1, 1}, checked());
    EXPECT_EQ(r.status, RunResult::ok) << this->text(r);
    EXPECT_EQ(y[0], 4);
    for (size_t i = 1; i < 50; ++i) EXPECT_EQ(y[i], i < 33 ? x[i] : -1.0f);
}

TEST_F(InterpRun, WildPointersAreErrorsInEveryMode) {
    const std::string text =
        "kernel @k(%x: ptr<f32>, %y: ptr<f32>, %n: i64) {\n %p = ptr_add %x, %n : ptr<f32>\n %v = ptr_load %p {flags = 0} : f32\n %q = ptr_add %y, "
        "%n : ptr<f32>\n ptr_store %q, %v {flags = 0}\n ret\n}\n";
    for (const bool check : {false, true})
        for (int64_t n : {int64_t{4}, int64_t{-1}, int64_t{1} << 48, INT64_MIN, INT64_MAX, int64_t{1} << 46}) {
            std::vector<float> x(4, 1), y(4, 2);
            RunOptions o;
            o.checked = check;
            const RunResult r = w.run(text, {pointer(x, Fmt::f32), pointer(y, Fmt::f32), scalar(static_cast<uint64_t>(n))}, {1, 1, 1}, o);
            EXPECT_EQ(r.status, RunResult::failed);
            const bool lost = n >= int64_t{1} << 47 || n < -(int64_t{1} << 47);
            EXPECT_EQ(codes(r), std::vector<std::string>(2, lost ? "T0901" : "T0900")) << n;
            EXPECT_EQ(y, std::vector<float>(4, 2));
        }
    std::vector<float> x(4, 1);
    EXPECT_EQ(codes(w.run("kernel @k(%x: ptr<f32>) {\n %p = constant 0x0 : ptr<f32>\n %v = ptr_load %p {flags = 0} : f32\n ret\n}\n",
                          {pointer(x, Fmt::f32)})),
              std::vector<std::string>{"T0901"});
}

TEST_F(InterpRun, ProgramsMeet) {
    const std::string head = "kernel @k(%y: tensor<u16>[?] inout) @ cooperative() {\n %p = program_id {axis = 0} : i64\n",
                      next = " %o = constant 1 : i64\n %n = num_programs {axis = 0} : i64\n %q = add %p, %o : i64\n %r = rem %q, %n : i64\n",
                      read = " %v = load %y[%r] : u16\n", meet = " grid_barrier\n", write = " store %y[%p] = %v\n";
    for (const uint64_t programs : {1u, 3u, 7u})
        for (const uint64_t seed : {0u, 1u, 5u}) {
            std::vector<uint16_t> y(programs);
            for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<uint16_t>(i);
            RunOptions options = checked();
            options.order_seed = seed;
            const auto run = [&](const std::string& text) {
                return codes(w.run(text, {tensor(y, Fmt::u16, {static_cast<int64_t>(programs)})}, {programs, 1, 1}, options));
            };
            EXPECT_EQ(run(head + next + read + meet + write + meet + " ret\n}\n"), std::vector<std::string>());
            for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], (i + 1) % programs);
            const std::vector<std::string> races = run(head + next + read + write + meet + " ret\n}\n");
            EXPECT_EQ(races.empty(), programs == 1) << "behind both accesses the meeting orders nothing";
        }
}

TEST_F(InterpRun, PointersOfAddresses) {
    const std::string text =
        "kernel @k(%x: tensor<f32>[?] inout, %a: u64) {\n %p = ptr_at %a : ptr<f32>\n %v = ptr_load %p {flags = 0} : f32\n"
        " %b = ptr_address %p : u64\n %o = constant 1 : i64\n %r = ptr_at %b : ptr<f32>\n %q = ptr_add %r, %o : ptr<f32>\n"
        " ptr_store %q, %v {flags = 0}\n ret\n}\n";
    std::vector<float> x(4, 1), behind(4, 5);
    const auto run = [&](const void* at, int64_t by, bool named) {
        std::vector<Argument> args = {tensor(x, Fmt::f32, {4}), scalar(reinterpret_cast<uint64_t>(at) + static_cast<uint64_t>(by))};
        if (named) args.push_back(tensor(behind, Fmt::f32, {4}));
        return codes(w.run(text, args, {1, 1, 1}, checked()));
    };
    x[2] = 7;
    EXPECT_EQ(run(x.data(), 8, false), std::vector<std::string>());
    EXPECT_EQ(x, (std::vector<float>{1, 1, 7, 7}));
    EXPECT_EQ(run(x.data(), 12, false), std::vector<std::string>{"T0900"});  // the store, behind the end
    EXPECT_EQ(run(x.data(), 2, false), (std::vector<std::string>(2, "T0901")));
    EXPECT_EQ(run(behind.data(), 0, false), (std::vector<std::string>(2, "T0901")));
    EXPECT_EQ(run(behind.data(), 4, true), std::vector<std::string>());
    EXPECT_EQ(run(nullptr, 0, true), (std::vector<std::string>(2, "T0901")));
    EXPECT_EQ(run(nullptr, -1, true), (std::vector<std::string>(2, "T0901")));
    EXPECT_EQ(behind, std::vector<float>(4, 5));
}

TEST_F(InterpRun, StridesThatLeaveTheStorage) {
    std::vector<float> x(10, 1), y(4, 5);
    Argument bad = tensor(x, Fmt::f32, {4});
    bad.t.has_strides = true;
    bad.t.strides = {int64_t{1} << 61};
    const RunResult r = w.run(
        "kernel @k(%x: tensor<f32>[?] in, %y: tensor<f32>[?] out) {\n %z = constant 0 : i64\n %v = load %x[%z +: 4] : tile<f32>[4]\n store %y[%z +: "
        "4] = %v\n ret\n}\n",
        {bad, tensor(y, Fmt::f32, {4})});
    EXPECT_EQ(codes(r), std::vector<std::string>{"T0902"});
    EXPECT_EQ(y, (std::vector<float>{1, 0, 0, 0}));
}

TEST_F(InterpRun, Atomics) {
    for (unsigned threads : {1u, 4u}) {
        std::vector<int32_t> sums(8, 0);
        sums[1] = 1000, sums[3] = -1;
        RunOptions o;
        o.threads = threads;
        std::string text =
            "kernel @k(%y: tensor<i32>[8] inout) {\n %p = program_id {axis = 0} : i64\n %v = cast %p {round = rne, overflow = automatic} : i32\n";
        const char* kinds[] = {"add", "min", "max", "and", "or", "xor"};
        for (int i = 0; i < 6; ++i)
            text += " %i" + std::to_string(i) + " = constant " + std::to_string(i) + " : i64\n %r" + std::to_string(i) + " = atomic %y[%i" +
                    std::to_string(i) + "] = %v {kind = " + kinds[i] + ", order = relaxed, scope = gpu} : i32\n";
        text +=
            " %s = constant 7 : i64\n %zero = constant 0 : i32\n %c = atomic %y[%s] = %v expected %zero {kind = cas, order = relaxed, scope = gpu} : "
            "i32\n ret\n}\n";
        const RunResult r = w.run(text, {tensor(sums, Fmt::i32, {8})}, {200, 1, 1}, o);
        ASSERT_EQ(r.status, RunResult::ok) << this->text(r);
        int32_t want_xor = 0, want_or = 0;
        for (int32_t i = 0; i < 200; ++i) want_xor ^= i, want_or |= i;
        EXPECT_EQ((std::vector<int32_t>(sums.begin(), sums.begin() + 6)), (std::vector<int32_t>{19900, 0, 199, 0, want_or, want_xor}));
        EXPECT_NE(sums[7], 0);
    }
}

TEST_F(InterpRun, PrintInProgramOrder) {
    const std::string text =
        "kernel @k(%n: extent) {\n %p = program_id {axis = 0} : i64\n %g = num_programs {axis = 0} : i64\n %t = constant_tile [1, 2, 3, 4] : "
        "tile<i8>[2, 2]\n print \"program {} of {}: {}\", %p, %g, %t\n ret\n}\n";
    for (unsigned threads : {1u, 3u})
        for (uint64_t seed : {0u, 5u}) {
            std::vector<std::string> lines;
            RunOptions o;
            o.threads = threads;
            o.order_seed = seed;
            o.print = [&](std::string_view line) { lines.emplace_back(line); };
            w.run(text, {scalar(0)}, {20, 1, 1}, o);
            ASSERT_EQ(lines.size(), 20u);
            for (size_t i = 0; i < 20; ++i) EXPECT_EQ(lines[i], "program " + std::to_string(i) + " of 20: [[1, 2], [3, 4]]");
        }
}

TEST_F(InterpRun, AssertAndAssume) {
    const std::string text =
        "kernel @k(%x: tensor<i32>[4] in) {\n %v = load %x[:] : tile<i32>[4]\n %z = constant 0 : tile<i32>[4]\n %c = gt %v, %z : tile<bool>[4]\n "
        "assert \"positive\", %c\n"
        " %d = dim %x {axis = 0} : i64\n %f = constant 5 : i64\n %e = eq %d, %f : bool\n assume %e\n ret\n}\n";
    std::vector<int32_t> x = {1, 2, 0, 4};
    const RunResult plain = w.run(text, {tensor(x, Fmt::i32, {4})});
    EXPECT_EQ(codes(plain), std::vector<std::string>{"T0911"});
    EXPECT_EQ(this->text(plain), "assertion failed: positive\nin program (0, 0, 0)\nat element (2) of the tile\n");
    EXPECT_TRUE(plain.diagnostics[0].span.valid());
    EXPECT_EQ(codes(w.run(text, {tensor(x, Fmt::i32, {4})}, {1, 1, 1}, checked())), (std::vector<std::string>{"T0911", "T0912"}));
}

TEST_F(InterpRun, CheckedArithmetic) {
    RunResult r;
    const auto run = [&](const std::string& body, const std::vector<TileData>& args, RunOptions o) {
        w.eval(body, args, o, &r);
        return codes(r);
    };
    const auto a = w.ints("i8", {3}, {5, -128, 1}), b = w.ints("i8", {3}, {2, -1, 0});
    EXPECT_EQ(run(" %r = div %a, %b : tile<i8>[3]\n ret %r", {a, b}, checked()), (std::vector<std::string>{"T0908", "T0907"}));
    EXPECT_EQ(r.diagnostics[1].notes, (std::vector<DiagNote>{"at element (2) of the tile"}));
    EXPECT_EQ(run(" %r = rem_trunc %a, %b : tile<i8>[3]\n ret %r", {a, b}, checked()), (std::vector<std::string>{"T0907"}));
    EXPECT_TRUE(run(" %r = div %a, %b : tile<i8>[3]\n %s = shl %a, %b : tile<i8>[3]\n ret %r, %s", {a, b}, {}).empty());
    EXPECT_EQ(run(" %r = gather %a, %b {axis = 0} : tile<i8>[3]\n ret %r", {a, b}, checked()), (std::vector<std::string>{"T0903"}));
    const auto x = w.f32s({3}, {1, INFINITY, 300}), y = w.f32s({3}, {2, 1, 0});
    EXPECT_EQ(run(" %c = cast %a {round = rne, overflow = trap} : tile<i8>[3]\n ret %c", {x}, checked()), (std::vector<std::string>{"T0910"}));
    RunOptions traps = checked();
    EXPECT_TRUE(run(" %r = div %a, %b : tile<f32>[3]\n ret %r", {x, y}, traps).empty());
    traps.trap_floats = true;
    EXPECT_EQ(run(" %r = div %a, %b : tile<f32>[3]\n ret %r", {x, y}, traps), (std::vector<std::string>{"T0909"}));
    EXPECT_EQ(r.diagnostics[0].notes, (std::vector<DiagNote>{"at element (2) of the tile"}));
    EXPECT_TRUE(
        run(" %r = mul %a, %b : tile<f32>[3]\n %s = add %r, %a : tile<f32>[3]\n ret %s", {w.f32s({3}, {1, INFINITY, NAN}), y}, traps).empty());
}

TEST_F(InterpRun, UninitialisedReads) {
    std::vector<float> x(40, 0), y(40, 0);
    std::vector<uint8_t> shadow_x(160, 1), shadow_y(160, 0);
    Argument in = tensor(x, Fmt::f32, {40}), out = tensor(y, Fmt::f32, {40});
    in.t.initialised = shadow_x.data();
    out.t.initialised = shadow_y.data();
    EXPECT_EQ(w.run(kDouble, {in, out}, {1, 1, 1}, checked()).status, RunResult::ok);
    EXPECT_EQ(std::count(shadow_y.begin(), shadow_y.end(), 1), 132);
    shadow_x[4 * 35 + 2] = 0;
    const RunResult r = w.run(kDouble, {in, out}, {2, 1, 1}, checked());
    EXPECT_EQ(codes(r), std::vector<std::string>{"T0904"});
    EXPECT_EQ(text(r), "element [35] of `x` is read before anything was written to it\nin program (1, 0, 0)\nat element 2 of the tile\n");
}

TEST_F(InterpRun, Races) {
    std::vector<int32_t> y(8, 0);
    const auto arg = tensor(y, Fmt::i32, {8});
    const std::string head =
        "kernel @k(%y: tensor<i32>[8] inout) {\n %p = program_id {axis = 0} : i64\n %v = cast %p {round = rne, overflow = automatic} : i32\n %z = "
        "constant 3 : i64\n";
    const std::string relaxed = " {kind = add, order = relaxed, scope = gpu} : i32\n";
    RunResult r = w.run(head + " store %y[%z] = %v\n ret\n}\n", {arg}, {3, 1, 1}, checked());
    EXPECT_EQ(text(r),
              "element [3] of `y` is written by program (0, 0, 0) and by program (1, 0, 0)\nin program (1, 0, 0)\nat element 0 of the tile\n");
    EXPECT_EQ(codes(r), std::vector<std::string>{"T0905"});
    r = w.run(head + " %o = load %y[%z] : i32\n store %y[%p] = %o\n ret\n}\n", {arg}, {8, 1, 1}, checked());
    ASSERT_FALSE(r.diagnostics.empty());
    EXPECT_EQ(r.diagnostics[0].message, "element [3] of `y` is read by program (0, 0, 0) and written by program (3, 0, 0)");
    EXPECT_TRUE(codes(w.run(head + " %o = atomic %y[%z] = %v" + relaxed + " ret\n}\n", {arg}, {3, 1, 1}, checked())).empty());
    EXPECT_EQ(codes(w.run(head + " %o = atomic %y[%z] = %v" + relaxed + " store %y[%z] = %v\n ret\n}\n", {arg}, {2, 1, 1}, checked())),
              std::vector<std::string>{"T0905"});
    EXPECT_TRUE(codes(w.run(head + " store %y[%p] = %v\n %o = load %y[%p] : i32\n ret\n}\n", {arg}, {8, 1, 1}, checked())).empty());
    // One storage passed twice: the race is between arguments.
    r = w.run(
        "kernel @k(%x: tensor<i32>[?] in, %y: tensor<i32>[?] out) {\n %p = program_id {axis = 0} : i64\n %o = constant 1 : i64\n %q = add %p, %o : "
        "i64\n %v = load %x[%q] : i32\n store %y[%p] = %v\n ret\n}\n",
        {arg, arg}, {4, 1, 1}, checked());
    EXPECT_EQ(codes(r), std::vector<std::string>{"T0906"});
}

TEST_F(InterpRun, SubByteNeighboursAreNoRace) {
    std::vector<uint8_t> y(4, 0);
    const std::string text =
        "kernel @k(%y: tensor<u4>[?] out) {\n %p = program_id {axis = 0} : i64\n %v = cast %p {round = rne, overflow = automatic} : u4\n store "
        "%y[%p] = %v\n ret\n}\n";
    EXPECT_EQ(w.run(text, {tensor(y, Fmt::u8, {8})}, {8, 1, 1}, checked()).status, RunResult::ok);
    EXPECT_EQ(y, (std::vector<uint8_t>{0x10, 0x32, 0x54, 0x76}));
}

const char* const kForever =
    " %t = constant true : bool\n %z = constant 0 : i64\n %r = while_loop %z : i64 (%i: i64) {\n  condition %t, %i\n } (%j: i64) {\n  yield %j\n }\n";

TEST_F(InterpRun, Budgets) {
    RunOptions o;
    o.step_budget = 1000;
    RunResult r = w.run(std::string("kernel @k(%n: extent) {\n") + kForever + " ret\n}\n", {scalar(0)}, {4, 1, 1}, o);
    EXPECT_EQ(r.status, RunResult::out_of_steps);
    EXPECT_EQ(r.steps, 1000u);
    EXPECT_EQ(codes(r), std::vector<std::string>{"T0913"});
    RunOptions small;
    small.memory_budget = 1000;
    w.eval(" %r = add %a, %a : tile<f32>[300]\n ret %r", {w.f32s({300}, std::vector<float>(300, 1))}, small, &r);
    EXPECT_EQ(r.status, RunResult::out_of_memory);
    EXPECT_EQ(codes(r), std::vector<std::string>{"T0914"});
    EXPECT_EQ(r.diagnostics[0].message.find("a program needs "), 0u) << r.diagnostics[0].message;
}

TEST_F(InterpRun, TheRaceShadowCostsWhatIsTouched) {
    // 8 million bits, each of which would have 12 bytes of shadow.
    std::vector<uint8_t> y(1 << 20);
    const char* const text =
        "kernel @k(%y: tensor<u1>[?] out) {\n %p = program_id {axis = 0} : i64\n %v = constant 1 : u1\n store %y[%p] = %v\n ret\n}\n";
    RunOptions o = checked();
    o.memory_budget = 100000;
    EXPECT_EQ(w.run(text, {tensor(y, Fmt::u8, {1 << 23})}, {1000, 1, 1}, o).status, RunResult::ok);
    const RunResult r = w.run(text, {tensor(y, Fmt::u8, {1 << 23})}, {20000, 1, 1}, o);
    EXPECT_EQ(r.status, RunResult::out_of_memory);
    ASSERT_EQ(codes(r), std::vector<std::string>{"T0914"});
    EXPECT_EQ(r.diagnostics[0].message, "the race shadow of `y` needs 147456 bytes, more than the budget of 100000");
    ASSERT_EQ(r.diagnostics[0].notes.size(), 2u);
    EXPECT_EQ(r.diagnostics[0].notes[0].text, "in program (8192, 0, 0) of a grid of (20000, 1, 1)");
}

TEST_F(InterpRun, CancelEndsAnEndlessRun) {
    std::atomic<bool> cancel{false};
    RunOptions o;
    o.cancel = &cancel;
    o.threads = 2;
    std::jthread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        cancel = true;
    });
    const RunResult r = w.run(std::string("kernel @k(%n: extent) {\n") + kForever + " ret\n}\n", {scalar(0)}, {4, 1, 1}, o);
    EXPECT_EQ(r.status, RunResult::cancelled);
    EXPECT_EQ(codes(r), std::vector<std::string>{"T0915"});
}

TEST_F(InterpRun, MaxErrors) {
    std::string text = "kernel @k(%n: extent) {\n %f = constant false : bool\n";
    for (int i = 0; i < 30; ++i) text += " assert \"a\", %f\n";
    RunOptions o;
    o.max_errors = 5;
    const RunResult r = w.run(text + " ret\n}\n", {scalar(0)}, {10, 1, 1}, o);
    EXPECT_EQ(r.status, RunResult::failed);
    EXPECT_EQ(r.diagnostics.size(), 5u);
}

TEST_F(InterpRun, Matmul) {
    constexpr int64_t m = 37, n = 29, k = 33;
    std::vector<float> a(m * k), b(k * n);
    for (float& v : a) v = static_cast<float>(rng() % 200) / 7 - 10;
    for (float& v : b) v = static_cast<float>(rng() % 200) / 3 - 30;
    const std::string text =
        "kernel @mm(%x: tensor<f32>[?, ?] in, %y: tensor<f32>[?, ?] in, %z: tensor<f32>[?, ?] out) {\n %p = program_id {axis = 0} : i64\n %q = "
        "program_id {axis = 1} : i64\n %c = constant 16 : i64\n"
        " %m = mul %p, %c : i64\n %n = mul %q, %c : i64\n %zero = constant 0 : i64\n %K = dim %x {axis = 1} : i64\n %acc0 = constant 0 : "
        "tile<f32>[16, 16]\n"
        " %acc = for_loop %zero, %K, %c, %acc0 : tile<f32>[16, 16] (%k: i64, %ac: tile<f32>[16, 16]) {\n  %a = load %x[%m +: 16, %k +: 16] : "
        "tile<f32>[16, 16]\n"
        "  %b = load %y[%k +: 16, %n +: 16] : tile<f32>[16, 16]\n  %d = dot %a, %b, %ac {precision = ieee} : tile<f32>[16, 16]\n  yield %d\n }\n "
        "store %z[%m +: 16, %n +: 16] = %acc\n ret\n}\n";
    for (unsigned threads : {1u, 3u})
        for (const bool check : {false, true}) {
            std::vector<float> c(m * n, -1);
            RunOptions o;
            o.threads = threads;
            o.checked = check;
            o.order_seed = threads;
            ASSERT_EQ(w.run(text, {tensor(a, Fmt::f32, {m, k}), tensor(b, Fmt::f32, {k, n}), tensor(c, Fmt::f32, {m, n})}, {3, 2, 1}, o).status,
                      RunResult::ok);
            for (size_t i = 0; i < m; ++i)
                for (size_t j = 0; j < n; ++j) {
                    float want = 0;
                    for (size_t p = 0; p < k; ++p) want = std::fma(a[i * k + p], b[p * n + j], want);
                    ASSERT_EQ(c[i * n + j], want);
                }
        }
}

[[maybe_unused]] const auto* const kRowsRun = ::testing::AddGlobalTestEnvironment(new RowsRun(RunBy::programs));

}  // namespace
}  // namespace tegula::testing
