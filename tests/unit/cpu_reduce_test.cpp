// Reductions, scans, ordering and scaled products of the CPU JIT equal the interpreter's bit for bit: formats, shapes around the vector's width,
// axes, operands in memory and operands made on the way.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "jit/cpu/cpu.h"
#include "tests/unit/interp_fixture.h"
#include "tests/unit/sample.h"

namespace tegula::testing {
namespace {

class CpuReduce : public ::testing::Test {
protected:
    World w;
    cpu::Backend backend;
    std::mt19937_64 rng{11};

    struct Array {
        FormatId elem;
        Shape shape;
        std::vector<uint8_t> bytes;
        bool is_scalar = false;  ///< one element, of a value of rank 0
    };

    Array random(const std::string& elem, const Shape& shape, int values = 0) {
        const Format& f = w.types.format(w.format(elem));
        Array a{w.format(elem), shape, std::vector<uint8_t>(static_cast<size_t>(shape.elements()) * f.container_bytes())};
        for (int64_t i = 0; i < shape.elements(); ++i) {
            uint64_t code = rng();
            if (values)
                code = f.is_float() ? encode(f, static_cast<double>(rng() % static_cast<uint64_t>(values)) - values / 2.0)
                                    : rng() % static_cast<uint64_t>(values);
            // Mostly numbers of a moderate size, some of every kind.
            else if (f.is_float() && rng() % 64)
                code = encode(f, (static_cast<double>(rng() % 20001) - 10000) / 1024);
            std::memcpy(a.bytes.data() + static_cast<size_t>(i) * f.container_bytes(), &code, f.container_bytes());
        }
        return a;
    }
    Array empty(const std::string& elem, const Shape& shape) {
        Array a = random(elem, shape);
        std::fill(a.bytes.begin(), a.bytes.end(), uint8_t{0xa5});
        return a;
    }

    static std::string all(const Shape& s) {
        std::string out = "[";
        for (size_t d = 0; d < s.rank; ++d) out += d ? ", :" : ":";
        return out + "]";
    }

    /// Kernel over arrays %a, %b, .. (loaded as %x0, %x1, ..), results %r0, .. stored to arrays; both machines.
    void compare(const std::vector<Array>& in, const std::vector<Array>& out, const std::string& body, const std::string& what) {
        static uint64_t number = 0;
        if (!test::is_sampled(number++)) return;
        std::string text = "kernel @k(";
        const auto param = [&](const Array& a, const std::string& name, const char* mode) {
            std::string dims;
            for (int64_t d : a.shape) dims += (dims.empty() ? "" : ", ") + std::to_string(d);
            text += std::string(text.ends_with("(") ? "" : ", ") + "%" + name + ": tensor<" + w.types.format(a.elem).name + ">[" + dims + "] " + mode;
        };
        for (size_t i = 0; i < in.size(); ++i) param(in[i], "in" + std::to_string(i), "in");
        for (size_t i = 0; i < out.size(); ++i) param(out[i], "out" + std::to_string(i), "out");
        text += ") {\n %zero = constant 0 : i64\n";
        for (size_t i = 0; i < in.size(); ++i)
            text += " %x" + std::to_string(i) + " = load %in" + std::to_string(i) + all(in[i].shape) + " : " +
                    w.types.name(w.types.tile(in[i].elem, in[i].shape)) + "\n";
        text += body + "\n";
        for (size_t i = 0; i < out.size(); ++i) {
            text += " store %out" + std::to_string(i) + (out[i].is_scalar ? "[%zero]" : all(out[i].shape)) + " = %r" + std::to_string(i) + "\n";
        }
        text += " ret\n}\n";
        const auto fn = w.parse(text);
        std::vector<Array> results[2] = {out, out};
        for (int machine = 0; machine < 2; ++machine) {
            std::vector<Argument> args;
            std::vector<Array> inputs = in;
            for (auto* list : {&inputs, &results[machine]})
                for (Array& a : *list) {
                    Argument arg;
                    arg.kind = Argument::tensor;
                    arg.t.elem = a.elem;
                    arg.t.data = a.bytes.data();
                    arg.t.bytes = a.bytes.size();
                    arg.t.extents = a.shape;
                    args.push_back(arg);
                }
            const std::array<uint64_t, 3> grid = {1, 1, 1};
            const RunResult r = machine ? backend.prepare(*fn)->run(args, grid, {}) : interp::Program::prepare(*fn)->run(args, grid, {});
            ASSERT_EQ(r.status, RunResult::ok) << what << (r.diagnostics.empty() ? "" : r.diagnostics[0].message) << "\n" << text;
        }
        for (size_t k = 0; k < out.size(); ++k) {
            const unsigned width = w.types.format(out[k].elem).container_bytes();
            for (size_t i = 0; i < results[0][k].bytes.size(); i += width) {
                uint64_t want = 0, got = 0;
                std::memcpy(&want, results[0][k].bytes.data() + i, width);
                std::memcpy(&got, results[1][k].bytes.data() + i, width);
                ASSERT_EQ(got, want) << what << ": result " << k << ", element " << i / width << "\n" << text;
            }
        }
    }

    static Shape without(const Shape& s, int64_t axis) {
        Shape out;
        for (size_t d = 0; d < s.rank; ++d)
            if (axis >= 0 && static_cast<int64_t>(d) != axis) out.push(s[d]);
        return out;
    }
    static std::vector<Shape> shapes() {
        return {{1},     {2},     {7},      {16},     {17},       {33},       {100},  {257},     {4099},
                {3, 40}, {40, 3}, {4, 128}, {130, 5}, {5, 16, 7}, {2, 9, 33}, {3, 1}, {1, 19, 1}};
    }
    std::string tile(const std::string& elem, const Shape& s) { return w.types.name(w.types.tile(w.format(elem), s)); }
    Array result(const std::string& elem, const Shape& s) {
        Array a = empty(elem, s.rank ? s : Shape{1});
        a.is_scalar = s.rank == 0;
        return a;
    }
};

TEST_F(CpuReduce, SumsOfAllShapes) {
    for (const Shape& s : shapes())
        for (int64_t axis = -1; axis < s.rank; ++axis)
            for (const char* order : {"tree", "chain"}) {
                const Shape to = without(s, axis);
                const std::string tail = std::string(", order = ") + order + ", axis = " + std::to_string(axis) + "} : " + tile("f32", to);
                const std::string what = to_string(s) + " axis " + std::to_string(axis) + " " + order;
                compare({random("f32", s)}, {result("f32", to)}, " %r0 = reduce %x0 {kind = sum" + tail, what);
                compare({random("f32", s)}, {result("f32", to), result("f32", to), empty("f32", s)},
                        " %y = mul %x0, %x0 : " + tile("f32", s) + "\n %r0 = reduce %y {kind = sum" + tail + "\n %r1 = reduce %x0 {kind = max" +
                            tail + "\n %z = add %y, %x0 : " + tile("f32", s) + "\n %r2 = add %z, %y : " + tile("f32", s),
                        what + " of a square");
            }
}

TEST_F(CpuReduce, KindsAndFormats) {
    for (const char* elem : {"f32", "f64", "f16", "bf16", "f8e4m3", "i8", "u8", "i16", "u32", "i64", "u64"})
        for (const char* kind : {"sum", "prod", "min", "max", "minnum", "maxnum", "and", "or", "xor"}) {
            const bool is_float = w.types.format(w.format(elem)).is_float(),
                       bits = std::string(kind) == "and" || std::string(kind) == "or" || std::string(kind) == "xor";
            if (is_float && bits) continue;
            for (const Shape& s : {Shape{77}, Shape{6, 35}, Shape{35, 6}})
                for (int64_t axis = -1; axis < s.rank; ++axis) {
                    const Shape to = without(s, axis);
                    compare(
                        {random(elem, s)}, {result(elem, to)},
                        std::string(" %r0 = reduce %x0 {kind = ") + kind + ", order = tree, axis = " + std::to_string(axis) + "} : " + tile(elem, to),
                        std::string(kind) + " of " + elem);
                }
        }
    for (const auto& [from, to] : {std::pair{"i8", "i32"}, {"f16", "f32"}, {"bf16", "f32"}, {"u16", "u32"}})
        compare({random(from, Shape{5, 100})}, {result(to, Shape{5})},
                " %r0 = reduce %x0 {kind = sum, order = tree, axis = 1} : " + tile(to, Shape{5}), from);
}

TEST_F(CpuReduce, AnyAndAll) {
    for (const Shape& s : {Shape{5, 40}, Shape{40, 5}})
        for (int64_t axis = -1; axis < 2; ++axis) {
            const Shape to = without(s, axis);
            const std::string tail = ", order = tree, axis = " + std::to_string(axis) + "} : " + tile("bool", to) + "\n";
            compare({random("i32", s, 20)}, {result("i32", to), result("i32", to)},
                    " %c = constant 1 : " + tile("i32", s) + "\n %y = lt %x0, %c : " + tile("bool", s) + "\n %p = reduce %y {kind = any" + tail +
                        " %q = reduce %y {kind = all" + tail + " %r0 = cast %p {round = rne, overflow = automatic} : " + tile("i32", to) +
                        "\n %r1 = cast %q {round = rne, overflow = automatic} : " + tile("i32", to),
                    "any, all");
        }
}

TEST_F(CpuReduce, ArgReduce) {
    for (const char* elem : {"f32", "f64", "f16", "f8e4m3", "i8", "u8", "u32", "i64", "u64"})
        for (const char* kind : {"min", "max"})
            for (const Shape& s : shapes())
                for (int64_t axis = 0; axis < s.rank; ++axis)
                    for (int values : {0, 5}) {
                        const Shape to = without(s, axis);
                        compare({random(elem, s, values)}, {result(elem, to), result("i32", to)},
                                std::string(" %r0, %r1 = arg_reduce %x0 {kind = ") + kind + ", axis = " + std::to_string(axis) +
                                    "} : " + tile(elem, to) + ", " + tile("i32", to),
                                std::string("arg ") + kind + " of " + elem + " " + to_string(s));
                    }
}

TEST_F(CpuReduce, Scans) {
    for (const char* elem : {"f32", "bf16", "i32", "u8"})
        for (const char* kind : {"sum", "prod", "min", "max"})
            for (const Shape& s : shapes())
                for (int64_t axis = 0; axis < s.rank; ++axis)
                    for (int reverse = 0; reverse < 2; ++reverse)
                        compare({random(elem, s)}, {empty(elem, s)},
                                std::string(" %r0 = scan %x0 {kind = ") + kind + ", axis = " + std::to_string(axis) +
                                    ", reverse = " + std::to_string(reverse) + "} : " + tile(elem, s),
                                std::string("scan ") + kind + " of " + elem + " " + to_string(s));
}

TEST_F(CpuReduce, SortAndHistogram) {
    for (const Shape& s : {Shape{50}, Shape{3, 20}, Shape{20, 3}})
        for (int64_t axis = 0; axis < s.rank; ++axis)
            compare({random("f32", s, 9)}, {empty("f32", s), empty("i32", s), empty("i32", s)},
                    " %r0, %r1 = sort %x0 {axis = " + std::to_string(axis) + ", descending = 1} : " + tile("f32", s) + ", " + tile("i32", s) +
                        "\n %v, %r2 = sort %x0 {axis = " + std::to_string(axis) + ", descending = 0} : " + tile("f32", s) + ", " + tile("i32", s),
                    "sort");
    compare({random("i32", Shape{300}, 40)}, {empty("i32", Shape{32})}, " %r0 = histogram %x0 : tile<i32>[32]", "histogram");
}

TEST_F(CpuReduce, Regions) {
    const std::string pointwise =
        "(%p: f32, %i: i32, %q: f32, %j: i32) {\n %b = lt %p, %q : bool\n %v = select %b, %q, %p : f32\n %k = select %b, %j, %i : i32\n yield %v, "
        "%k\n}";
    // Pointwise, and a body with a branch.
    const std::string branching =
        "(%p: f32, %i: i32, %q: f32, %j: i32) {\n %b = lt %p, %q : bool\n %v, %k = if_else %b : f32, i32 {\n yield %q, %j\n } {\n %t = add %p, %q : "
        "f32\n yield %t, %i\n }\n yield %v, %k\n}";
    for (const std::string& body : {pointwise, branching})
        for (const Shape& s : shapes())
            for (int64_t axis = 0; axis < s.rank; ++axis) {
                if (s.elements() > 1000 && body == branching) continue;
                const Shape to = without(s, axis);
                const std::string types = tile("f32", to) + ", " + tile("i32", to);
                compare({random("f32", s, 9), random("i32", s)}, {result("f32", to), result("i32", to)},
                        " %e = constant 0xff800000 : f32\n %f = constant -1 : i32\n %r0, %r1 = reduce_region %x0, %x1, %e, %f {axis = " +
                            std::to_string(axis) + "} : " + types + " " + body,
                        "reduce_region " + to_string(s));
                compare({random("f32", s, 9), random("i32", s)}, {empty("f32", s), empty("i32", s)},
                        " %r0, %r1 = scan_region %x0, %x1 {axis = " + std::to_string(axis) + ", reverse = 0} : " + tile("f32", s) + ", " +
                            tile("i32", s) + " " + body,
                        "scan_region " + to_string(s));
            }
}

TEST_F(CpuReduce, Contractions) {
    for (const char* elem : {"f32", "f16", "i32"})
        for (const Shape& s : {Shape{60}, Shape{5, 40}, Shape{40, 5}, Shape{3, 9, 4}})
            for (int64_t axis = 0; axis < s.rank; ++axis) {
                const Shape to = without(s, axis);
                compare({random(elem, s), random(elem, s)}, {result(elem, to)},
                        " %r0 = contract %x0, %x1 {axis = " + std::to_string(axis) + "} : " + tile(elem, to), std::string("contract ") + elem);
            }
}

TEST_F(CpuReduce, ScaledProducts) {
    struct Case {
        int64_t m, n, k, a, b;
        const char *elem, *scale, *acc;
    };
    for (const Case& c : {Case{5, 20, 64, 32, 32, "f8e4m3", "f8e8m0", "f32"}, Case{4, 16, 96, 32, 16, "i8", "f32", "f32"},
                          Case{3, 33, 24, 6, 4, "f8e5m2", "f16", "f32"}, Case{9, 1, 16, 16, 16, "f8e4m3", "f8e8m0", "bf16"},
                          Case{1, 40, 32, 8, 8, "f16", "bf16", "f16"}}) {
        const int64_t ka = c.k / c.a, kb = c.k / c.b;
        const Shape out{c.m, c.n};
        compare({random(c.elem, Shape{c.m, c.k}), random(c.scale, Shape{c.m, ka}), random(c.elem, Shape{c.k, c.n}), random(c.scale, Shape{kb, c.n}),
                 random(c.acc, out)},
                {empty(c.acc, out)},
                " %r0 = dot_scaled %x0, %x2, %x4, %x1, %x3 {a_block = " + std::to_string(c.a) + ", b_block = " + std::to_string(c.b) +
                    "} : " + tile(c.acc, out),
                "dot_scaled");
    }
}

}  // namespace
}  // namespace tegula::testing
