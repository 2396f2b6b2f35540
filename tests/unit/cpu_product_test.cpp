// Matrix products on the CPU against the interpreter, bit for bit: every kind of chain, shapes around the edges of vectors and blocks, transposed
// operands, accumulators that are an operand too, for processors with wide, narrow and hardly any vectors.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "jit/cpu/plan.h"
#include "jit/cpu/product.h"
#include "jit/interp/interp.h"
#include "lang/ir_text.h"
#include "lang/tensor_strides.h"
#include "tests/unit/native_run.h"
#include "tests/unit/sample.h"

namespace tegula::testing {
namespace {

/// What floats are like: around 1; with zeros of both signs, subnormals, the largest, infinities and NaN among them; with exponents whose products
/// are around the smallest normal number of f32; far below 1 on the left and above on the right; such that all sums are -0; products below the
/// smallest normal number up to the middle of k and usual ones behind it; with exponents whose products are all over the format's
/// range, and few bits, the highest or the lowest ones, so that sums come close to the middle between two values.
enum class Data { usual, special, tiny, skewed, zeros, growing, wide };

struct Case {
    const char *a, *b, *c;  ///< formats
    int64_t m, n, k;
    bool turned = false;  ///< b lies transposed in memory
    const char* precision = "ieee";
    Data data = Data::usual;
    bool left_turned = false;
    int64_t k_step = 0;                ///< the sum goes through a loop over stretches of k
    bool bounds = false;               ///< every element is checked against its tensor's storage
    bool doubled = false;              ///< each stretch of the loop adds to twice the sum
    int64_t a_block = 0, b_block = 0;  ///< dot_scaled, by scales of f8e8m0
};

std::string dims(int64_t x, int64_t y) { return "[" + std::to_string(x) + ", " + std::to_string(y) + "]"; }

/// Stretches of k, the last one reaching out of the tensors.
std::string loop_text(const Case& t) {
    const auto tile = [](const char* f, const std::string& d) { return " : tile<" + std::string(f) + ">" + d + "\n"; };
    const std::string m = std::to_string(t.m), n = std::to_string(t.n), k = std::to_string(t.k), s = std::to_string(t.k_step), c = dims(t.m, t.n);
    return "kernel @k(%a: tensor<" + std::string(t.a) + ">[" + m + ", " + k + "] in, %b: tensor<" + t.b + ">[" + k + ", " + n + "] in, %c: tensor<" +
           t.c + ">" + c + " inout) {\n  %0 = constant 0 : i64\n  %1 = constant " + k + " : i64\n  %2 = constant " + s +
           " : i64\n  %3 = load %c[%0 +: " + m + ", %0 +: " + n + "]" + tile(t.c, c) + "  %4 = for_loop %0, %1, %2, %3 : tile<" + t.c + ">" + c +
           " (%5: i64, %6: tile<" + t.c + ">" + c + ") {\n    %7 = load %a[%0 +: " + m + ", %5 +: " + s + "]" + tile(t.a, dims(t.m, t.k_step)) +
           "    %8 = load %b[%5 +: " + s + ", %0 +: " + n + "]" + tile(t.b, dims(t.k_step, t.n)) + "    %10 = add %6, %6" + tile(t.c, c) +
           "    %9 = dot %7, %8, " + (t.doubled ? "%10" : "%6") + " {precision = ieee}" + tile(t.c, c) + "    yield %9\n  }\n  store %c[%0 +: " + m +
           ", %0 +: " + n + "] = %4\n  ret\n}\n";
}

std::string scaled_text(const Case& t) {
    const std::string b = t.turned ? dims(t.n, t.k) : dims(t.k, t.n), m = std::to_string(t.m), n = std::to_string(t.n);
    const std::string extents[] = {dims(t.m, t.k), b, dims(t.m, t.n), dims(t.m, t.k / t.a_block), dims(t.k / t.b_block, t.n)};
    const char* const formats[] = {t.a, t.b, t.c, "f8e8m0", "f8e8m0"};
    std::string params, body = "  %0 = constant 0 : i64\n";
    for (int i = 0; i < 5; ++i) {
        const std::string name = "%p" + std::to_string(i), type = "<" + std::string(formats[i]) + ">" + extents[i];
        params += (i ? ", " : "") + name + ": tensor" + type + (i == 2 ? " inout" : " in");
        const size_t comma = extents[i].find(',');
        body += "  %" + std::to_string(i + 1) + " = load " + name + "[%0 +: " + extents[i].substr(1, comma - 1) +
                ", %0 +: " + extents[i].substr(comma + 2) + " : tile" + type + "\n";
    }
    if (t.turned) body += "  %6 = permute %2 {axis = [1, 0]} : tile<" + std::string(t.b) + ">" + dims(t.k, t.n) + "\n";
    return "kernel @k(" + params + ") {\n" + body + "  %7 = dot_scaled %1, " + (t.turned ? "%6" : "%2") +
           ", %3, %4, %5 {a_block = " + std::to_string(t.a_block) + ", b_block = " + std::to_string(t.b_block) + "} : tile<" + t.c + ">" +
           dims(t.m, t.n) + "\n  store %p2[%0 +: " + m + ", %0 +: " + n + "] = %7\n  ret\n}\n";
}

std::string kernel_text(const Case& t) {
    if (t.a_block) return scaled_text(t);
    if (t.k_step) return loop_text(t);
    const std::string b = t.turned ? dims(t.n, t.k) : dims(t.k, t.n), a = t.left_turned ? dims(t.k, t.m) : dims(t.m, t.k);
    std::string out = "kernel @k(%a: tensor<" + std::string(t.a) + ">" + a + " in, %b: tensor<" + t.b + ">" + b + " in, %c: tensor<" + t.c + ">" +
                      dims(t.m, t.n) + " inout) {\n  %0 = constant 0 : i64\n";
    const auto part = [](int64_t x, int64_t y) { return "[%0 +: " + std::to_string(x) + ", %0 +: " + std::to_string(y) + "]"; };
    const auto tile = [](const char* f, const std::string& d) { return "tile<" + std::string(f) + ">" + d; };
    out += "  %1 = load %a" + (t.left_turned ? part(t.k, t.m) : part(t.m, t.k)) + " : " + tile(t.a, a) + "\n";
    out += "  %2 = load %b" + (t.turned ? part(t.n, t.k) : part(t.k, t.n)) + " : " + tile(t.b, b) + "\n";
    out += "  %3 = load %c" + part(t.m, t.n) + " : " + tile(t.c, dims(t.m, t.n)) + "\n";
    if (t.turned) out += "  %4 = permute %2 {axis = [1, 0]} : " + tile(t.b, dims(t.k, t.n)) + "\n";
    if (t.left_turned) out += "  %6 = permute %1 {axis = [1, 0]} : " + tile(t.a, dims(t.m, t.k)) + "\n";
    out += "  %5 = dot " + std::string(t.left_turned ? "%6, " : "%1, ") + (t.turned ? "%4" : "%2") + ", %3 {precision = " + t.precision +
           "} : " + tile(t.c, dims(t.m, t.n)) + "\n";
    return out + "  store %c" + part(t.m, t.n) + " = %5\n  ret\n}\n";
}

struct Storage {
    std::vector<uint8_t> bytes[5];
    std::vector<Argument> args;
};

/// `late`: behind the middle of k.
double number(std::mt19937& random, const Format& f, Data data, int operand, bool late) {
    if (operand > 2) return std::ldexp(1, static_cast<int>(random() % 16) - 8);  // a scale
    const double x = std::normal_distribution<double>()(random);
    switch (data) {
        case Data::usual:
            return x;
        case Data::special: {
            constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
            static constexpr double kSpecial[] = {0, -0.0, 0x1p-126, -0x1p-133, 0x1.8p-127, 0x1.fep127, -0x1.fep127, kInf, -kInf, kNan};
            return random() % 64 ? x : kSpecial[random() % std::size(kSpecial)];
        }
        case Data::tiny:  // some sums stay clear of subnormals, some become one, some start from one
            return std::ldexp(x, operand == 2 ? -120 - static_cast<int>(random() % 20) : -50 - static_cast<int>(random() % 24));
        case Data::skewed:
            return operand == 2 ? 0 : std::ldexp(x, operand == 0 ? -85 : 10);
        case Data::zeros:
            return operand == 1 ? std::fabs(x) : -0.0;
        case Data::growing:
            return late ? x : std::ldexp(x, operand == 2 ? -140 : -68);
        case Data::wide: {
            const int least = std::ilogb(decode(f, 1)), most = std::ilogb(decode(f, max_code(f)));
            const int exponent = (least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1))) / (operand == 2 ? 1 : 2);
            const double part = random() % 2 ? 0.125 : std::ldexp(1, -int{f.man_bits}), size = 1 + part * (static_cast<int>(random() % 8) - 4);
            return std::ldexp(x < 0 ? -size : size, exponent);
        }
    }
    return 0;
}

Storage storage_of(const ir::Function& fn, Data data) {
    std::mt19937 random(7);
    Storage s;
    const int count = static_cast<int>(fn.params.size());
    for (int i = 0; i < count; ++i) {
        const Type& type = fn.type(fn.params[static_cast<size_t>(i)].value);
        const Format& f = fn.types().format(type.elem);
        const int64_t rows = type.shape[0], columns = type.shape[1], pitch = (columns * f.bits + 7) / 8;
        s.bytes[i].resize(static_cast<size_t>(rows * pitch + 8));
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c)
                store_bits(
                    f,
                    f.is_int() || f.is_bool() ? random() : encode(f, number(random, f, data, i, i == 0 ? 2 * c >= columns : i == 1 && 2 * r >= rows)),
                    s.bytes[i].data(), static_cast<uint64_t>(r * pitch * 8 + c * f.bits));
        Argument a;
        a.kind = Argument::tensor;
        a.t.elem = type.elem;
        a.t.bytes = static_cast<uint64_t>(rows * pitch);
        a.t.extents = type.shape;
        s.args.push_back(a);
    }
    for (int i = 0; i < count; ++i) s.args[static_cast<size_t>(i)].t.data = s.bytes[i].data();
    return s;
}

/// A processor as "name+feature", "" for the one at hand.
void choose(cpu::CompileOptions& options, const std::string& processor) {
    const size_t plus = processor.find('+');
    options.cpu = processor.substr(0, plus);
    if (plus != std::string::npos) options.features = processor.substr(plus);
}

void compare(const Case& t, const char* cpu) {
    static uint64_t number = 0;
    if (!test::is_sampled(number++)) return;
    SCOPED_TRACE(kernel_text(t) + "for " + cpu);
    SourceMap sources;
    TypeTable types;
    DiagSink diags;
    const auto fn = ir::parse_ir(sources, sources.add("k.ir", kernel_text(t)), types, diags);
    std::string problems;
    for (const Diagnostic& d : diags.all()) problems += render_text(d, sources, false);
    ASSERT_TRUE(fn) << problems;
    Storage expected = storage_of(*fn, t.data), got = storage_of(*fn, t.data);
    const uint64_t grid[3] = {1, 1, 1};
    ASSERT_EQ(interp::Program::prepare(*fn)->run(expected.args, grid, {}).status, RunResult::ok);
    cpu::CompileOptions options = cpu::variant_options(*fn, written_params(*fn), got.args);
    options.bounds = options.bounds || t.bounds;
    choose(options, cpu);
    ASSERT_NO_FATAL_FAILURE(run_native(*fn, options, got.args));
    EXPECT_EQ(got.bytes[2], expected.bytes[2]);
}

class Products : public ::testing::TestWithParam<const char*> {
protected:
    void SetUp() override {
        const std::string processor = GetParam(), feature = processor.find('+') == std::string::npos ? "" : processor.substr(processor.find('+'));
        if (("," + cpu::Compiler().target().features + ",").find(feature + ",") == std::string::npos) GTEST_SKIP() << "no " << feature << " here";
    }
};

TEST_P(Products, EqualTheInterpreter) {
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 1}, {1, 40, 3}, {7, 5, 9}, {16, 16, 16}, {33, 50, 17}, {20, 100, 300}})
        for (bool turned : {false, true}) {
            compare({"f32", "f32", "f32", m, n, k, turned}, GetParam());
            compare({"f16", "i4", "f32", m, n, k, turned}, GetParam());
            compare({"i8", "i8", "i32", m, n, k, turned}, GetParam());
        }
}

/// Few rows: elements of every width are decoded where they are multiplied, whichever way memory runs; ends of rows, of chunks, of vectors.
TEST_P(Products, OfFewRows) {
    const char* formats[] = {"i1", "u2", "i3", "u4", "i5", "u6", "i7", "u8", "i12", "f4e2m1", "f6e3m2", "f8e4m3", "bf16", "f32", "i29"};
    int64_t number = 0;
    for (const char* f : formats)
        for (bool turned : {false, true}) {
            const int64_t m = std::array<int64_t, 4>{1, 2, 5, 16}[static_cast<size_t>(number++ % 4)];
            compare({"f16", f, "f32", m, 39, 267, turned}, GetParam());
        }
    for (bool turned : {false, true}) {
        compare({"i8", "u7", "i32", 3, 37, 19, turned}, GetParam());
        compare({"f32", "i3", "f64", 3, 21, 40, turned}, GetParam());
        compare({"f32", "i4", "f32", 1, 16, 64, turned, "tf32"}, GetParam());
    }
}

TEST_P(Products, OfEveryChain) {
    for (bool turned : {false, true}) {
        compare({"f64", "f64", "f64", 9, 21, 19, turned}, GetParam());
        compare({"f64", "f32", "f32", 9, 21, 19, turned}, GetParam());
        compare({"bf16", "f8e4m3", "f32", 9, 21, 19, turned}, GetParam());
        compare({"i64", "i32", "i64", 9, 21, 19, turned}, GetParam());
        compare({"u4", "i3", "i16", 9, 21, 19, turned}, GetParam());
        compare({"i20", "u8", "i20", 9, 21, 19, turned}, GetParam());
        compare({"f16", "f16", "f16", 9, 21, 19, turned}, GetParam());
        compare({"i16", "u4", "i32", 9, 21, 35, turned}, GetParam());
        compare({"i8", "u8", "i32", 20, 33, 64, turned}, GetParam());
        compare({"u16", "i8", "i32", 9, 21, 35, turned}, GetParam());
        compare({"f32", "f32", "f32", 9, 21, 19, turned, "tf32"}, GetParam());
    }
}

/// Rows enough not to be few.
TEST_P(Products, OfNarrowOperandsInGroups) {
    static constexpr const char* kFormats[][3] = {{"i8", "i8", "i32"},   {"u8", "i8", "i32"},        {"i8", "u8", "i32"},  {"u8", "u8", "i32"},
                                                  {"u4", "i3", "i16"},   {"i16", "i16", "i32"},      {"i16", "i8", "u32"}, {"bf16", "bf16", "f32"},
                                                  {"bf16", "i8", "f32"}, {"f8e5m2", "f8e4m3", "f32"}};
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{23, 33, 17}, {33, 16, 64}, {19, 47, 1101}, {70, 81, 130}})
        for (bool turned : {false, true})
            for (const auto& f : kFormats) compare({f[0], f[1], f[2], m, n, k, turned, "ieee", Data::usual, turned}, GetParam());
}

/// An instruction that takes subnormals as zero may not show.
TEST_P(Products, OfFloatsThatAreNotOrdinary) {
    for (Data data : {Data::special, Data::tiny, Data::skewed, Data::zeros})
        for (const auto& [m, n, k] : {std::array<int64_t, 3>{7, 33, 17}, {23, 33, 17}, {40, 70, 64}, {19, 48, 1101}})
            for (bool turned : {false, true}) {
                compare({"bf16", "bf16", "f32", m, n, k, turned, "ieee", data, turned}, GetParam());
                compare({"f8e5m2", "bf16", "f32", m, n, k, turned, "ieee", data}, GetParam());
                compare({"f32", "bf16", "f32", m, n, k, turned, "ieee", data}, GetParam());
            }
}

/// Carried sums that subnormals have been added to, or are; tiles so large that those of the next stretch are fetched ahead.
TEST_P(Products, InALoopOverStretchesOfK) {
    for (const Data data : {Data::usual, Data::growing, Data::special}) {
        compare({"bf16", "bf16", "f32", 19, 40, 150, false, "ieee", data, false, 32}, GetParam());
        compare({"bf16", "i8", "f32", 70, 64, 301, false, "ieee", data, false, 64}, GetParam());
    }
    compare({"f32", "f32", "f32", 70, 64, 301, false, "ieee", Data::usual, false, 64}, GetParam());
    compare({"i8", "i8", "i32", 130, 130, 301, false, "ieee", Data::usual, false, 64}, GetParam());
}

/// Sums that start from an expression: put into each block of the micro-kernel, before the first of several passes, or row by row.
TEST_P(Products, AddedToWhatALoopCarriesTimesTwo) {
    const auto doubled = [&](Case t) {
        t.doubled = true;
        compare(t, GetParam());
    };
    for (const auto& [m, n] : {std::array<int64_t, 2>{3, 40}, {19, 33}, {21, 7}, {34, 100}}) {
        doubled({"f32", "f32", "f32", m, n, 700, false, "ieee", Data::special, false, 300});
        doubled({"bf16", "bf16", "f32", m, n, 130, false, "ieee", Data::growing, false, 32});
        doubled({"f64", "f64", "f64", m, n, 40, false, "ieee", Data::usual, false, 24});
        doubled({"i8", "i8", "i8", m, n, 100, false, "ieee", Data::usual, false, 64});
    }
}

/// Stretches that end with the blocks of either side, or of both; whole blocks of sums, parts, and few rows.
TEST_P(Products, ScaledStretchByStretch) {
    static constexpr const char* kFormats[][3] = {{"f8e4m3", "f8e5m2", "f32"}, {"f4e2m1", "f4e2m1", "f32"}, {"fixed<2, 6>", "i8", "f32"},
                                                  {"f32", "f16", "bf16"},      {"bf16", "bf16", "f32"},     {"i4", "f6e3m2", "f64"}};
    static constexpr int64_t kBlocks[][3] = {{96, 32, 32},    {96, 32, 16},  {96, 16, 48}, {7, 7, 1},
                                             {600, 300, 100}, {320, 10, 64}, {64, 64, 64}, {1, 1, 1}};
    static constexpr int64_t kShapes[][2] = {{1, 40}, {7, 33}, {16, 17}, {33, 7}, {20, 130}, {9, 1}};
    int64_t number = 0;
    for (const auto& f : kFormats)
        for (const auto& [k, a_block, b_block] : kBlocks) {
            const auto& [m, n] = kShapes[(number + number / 8) % 6];
            Case t{f[0], f[1], f[2], m, n, k, number % 3 == 0, "ieee", ++number % 5 ? Data::usual : Data::special};
            t.a_block = a_block, t.b_block = b_block;
            compare(t, GetParam());
        }
}

/// Accumulators that each step is rounded to: packed operands and few rows, whole vectors and parts, operands of the format, of less and of more.
TEST_P(Products, RoundedAfterEachStep) {
    static constexpr const char* kFormats[][3] = {{"f16", "f16", "f16"},          {"bf16", "bf16", "bf16"},       {"f32", "f64", "f16"},
                                                  {"f32", "bf16", "bf16"},        {"f8e4m3", "i4", "f16"},        {"tf32", "f32", "tf32"},
                                                  {"f8e5m2", "f8e5m2", "f8e5m2"}, {"f8e4m3", "f16", "f8e4m3"},    {"f4e2m1", "f4e2m1", "f4e2m1"},
                                                  {"i64", "f16", "bf16"},         {"f16", "f16", "float<6, 12>"}, {"bf16", "f32", "float<8, 15>"}};
    int64_t number = 0;
    for (const auto& f : kFormats)
        for (const Data data : {Data::special, Data::zeros, Data::wide}) {
            static constexpr int64_t kShapes[][3] = {{17, 33, 7}, {1, 40, 129}, {33, 7, 17}, {7, 17, 300}, {19, 130, 1}, {16, 1, 20}};
            const auto& [m, n, k] = kShapes[number % 6];
            compare({f[0], f[1], f[2], m, n, k, number % 2 == 0, "ieee", data, number % 3 != 0}, GetParam());
            ++number;
        }
    for (const char* f : {"f16", "bf16", "f8e5m2"})
        for (const Data data : {Data::usual, Data::tiny, Data::wide}) compare({f, f, f, 20, 48, 65, false, "ieee", data}, GetParam());
    compare({"f16", "f16", "f16", 19, 40, 150, false, "ieee", Data::wide, false, 32}, GetParam());
    compare({"bf16", "f16", "bf16", 34, 33, 700, false, "ieee", Data::special, false, 300, false, true}, GetParam());
    compare({"f16", "f16", "f16", 9, 40, 37, true, "ieee", Data::special, true, 0, true}, GetParam());
}

TEST_P(Products, OfTensorsWhoseElementsAreChecked) {
    for (bool turned : {false, true}) {
        compare({"bf16", "bf16", "f32", 9, 40, 37, turned, "ieee", Data::special, turned, 0, true}, GetParam());
        compare({"bf16", "bf16", "f32", 19, 40, 37, turned, "ieee", Data::special, turned, 0, true}, GetParam());
        compare({"i8", "u8", "i32", 17, 33, 40, turned, "ieee", Data::usual, turned, 0, true}, GetParam());
        compare({"i16", "i16", "i32", 17, 33, 40, turned, "ieee", Data::usual, turned, 0, true}, GetParam());
        compare({"f32", "f32", "f32", 17, 3, 40, turned, "ieee", Data::usual, turned, 0, true}, GetParam());
    }
}

// "" is the processor at hand. The first two others are parts of it wherever these tests run on x86.
INSTANTIATE_TEST_SUITE_P(Processors, Products,
                         ::testing::Values("", "haswell", "x86-64", "haswell+avxvnni", "skylake-avx512+avx512bw", "skylake-avx512+avx512vnni",
                                           "skylake-avx512+avx512bf16", "skylake-avx512+amx-int8"));

/// Also on processors that are not at hand.
TEST(DotRows, AreChosenAndEmitted) {
    for (const cpu::DotRow& row : cpu::kDotRows) {
        static constexpr const char* kOperands[][2] = {{"u8", "i8"}, {"u8", "u8"}, {"i8", "i8"}, {"i8", "u8"}, {"i16", "i16"}, {"bf16", "bf16"}};
        if (row.isa() != cpu::Isa::x86) continue;  // cpu_aarch64_test
        const auto& [a, b] = kOperands[row.operands];
        SCOPED_TRACE(std::string(row.name) + " " + std::to_string(row.vector_bytes));
        SourceMap sources;
        TypeTable types;
        DiagSink diags;
        const auto fn = ir::parse_ir(sources, sources.add("k.ir", kernel_text({a, b, row.floats() ? "f32" : "i32", 24, 64, 64})), types, diags);
        ASSERT_TRUE(fn);
        cpu::CompileOptions options;
        options.tensors.resize(3);
        choose(options, std::string(row.vector_bytes == 64   ? "skylake-avx512"
                                    : row.vector_bytes == 32 ? "haswell"
                                                             : "x86-64") +
                            "+" + std::string(row.feature));
        const auto text = cpu::Compiler().text(*fn, options, "asm");
        ASSERT_TRUE(text) << text.error;
        EXPECT_NE(text.value->find("\t" + std::string(row.name) + "\t"), std::string::npos);
    }
}

/// A run that is cancelled leaves from the midst of a product. Only looked at: tiles are rare.
TEST(Tiles, AreReleasedWhereverTheKernelLeaves) {
    for (const auto& [feature, used] : {std::pair{"amx-int8", true}, {"avx512vnni", false}})
        for (const char* kind : {"llvm", "llvm-opt"}) {
            SCOPED_TRACE(std::string(feature) + " " + kind);
            SourceMap sources;
            TypeTable types;
            DiagSink diags;
            const auto fn = ir::parse_ir(sources, sources.add("k.ir", kernel_text({"i8", "i8", "i32", 45, 70, 256})), types, diags);
            ASSERT_TRUE(fn);
            cpu::CompileOptions options;
            options.tensors.resize(3);
            choose(options, std::string("skylake-avx512+") + feature);
            const auto text = cpu::Compiler().text(*fn, options, kind);
            ASSERT_TRUE(text) << text.error;
            const std::string& code = *text.value;
            EXPECT_EQ(code.find("call void @llvm.x86.ldtilecfg(") != std::string::npos, used);
            const size_t kernel = code.find("@kernel("), end = code.find("\n}", kernel);
            ASSERT_NE(kernel, std::string::npos);
            int exits = 0;
            for (size_t at = code.find("  ret void", kernel); at < end; at = code.find("  ret void", at + 1), ++exits) {
                const size_t before = code.rfind('\n', at - 2) + 1;
                EXPECT_EQ(code.find("@llvm.x86.tilerelease()", before) < at, used) << code.substr(before, at - before);
            }
            EXPECT_GT(exits, 0);
        }
}

TEST(ProductPlan, KeepsToTheRegisters) {
    SourceMap sources;
    TypeTable types;
    DiagSink diags;
    cpu::CompileOptions options;
    options.tensors.resize(3);
    for (int64_t m : {1, 2, 15, 64, 128})
        for (int64_t n : {1, 16, 31, 128}) {
            for (const auto& [f, sum] : {std::pair{"f32", "f32"}, {"bf16", "f32"}, {"i8", "i32"}, {"f16", "f16"}}) {
                const auto fn = ir::parse_ir(sources, sources.add("k.ir", kernel_text({f, f, sum, m, n, 64})), types, diags);
                ASSERT_TRUE(fn);
                for (ir::InstId id : fn->block(fn->body).insts) {
                    if (fn->inst(id).op != ir::Op::dot) continue;
                    const cpu::Plan plan = cpu::make_plan(*fn, options);
                    for (const auto& [isa, bytes, registers] :
                         {std::tuple{cpu::Isa::x86, 16u, 16u}, {cpu::Isa::x86, 32u, 16u}, {cpu::Isa::x86, 64u, 32u}, {cpu::Isa::aarch64, 16u, 32u}})
                        for (const cpu::Plan* fused : {static_cast<const cpu::Plan*>(nullptr), &plan}) {
                            const cpu::Product p = cpu::plan_product(*fn, fn->inst(id), {isa, bytes, registers, ~cpu::DotRows{0}}, fused);
                            const unsigned per_step = std::max(1u, p.lanes * 4 / bytes);
                            if (p.tiles()) {
                                EXPECT_TRUE(p.rows <= 32 && p.block() <= 32 && p.k % 16 == 0) << p.rows << " x " << p.block();
                            } else {
                                const unsigned right = p.few ? 1 : p.steps_n;  // few rows evaluate one vector at a time
                                EXPECT_LE(p.rows * p.steps_n * per_step + right * per_step + 1, registers);
                            }
                            EXPECT_GE(p.n_blocks * p.block(), n);
                            EXPECT_LE(p.work_bytes(), cpu::product_bytes(*fn, fn->inst(id), fused));
                            EXPECT_EQ(p.few, fused && p.lanes >= 4 && m <= registers / 2 / per_step);
                        }
                }
            }
        }
}

}  // namespace
}  // namespace tegula::testing
