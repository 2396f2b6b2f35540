// Products, and statements with loops and branches (program_generator.h).
#include "tests/diff/program_generator.h"

#include <algorithm>

namespace tegula::diff {

bool Generator::product() {
    const auto a =
        find([](const TileType& t) { return t.shape.size() >= 2 && t.shape.size() <= 3 && t.elem != "bool" && elements(t.shape) <= 2048; });
    if (!a) return false;
    const TileType t = type(*a);
    const size_t r = t.shape.size();
    const auto b = find([&](const TileType& o) {
        return o.elem == t.elem && o.shape.size() == r && o.shape[r - 1] == t.shape[r - 1] && (r == 2 || o.shape[0] == t.shape[0]);
    });
    static const std::vector<std::string> kScaled = {"f16", "bf16", "f32", "i8", "u8", "f8e4m3", "f8e5m2", "i4", "f4e2m1"};
    if (r == 2 && std::count(kScaled.begin(), kScaled.end(), t.elem) && chance(30)) return scaled_product(*a, *b);
    TileType out = t;
    out.elem = accumulator(t.elem);
    out.shape[r - 1] = type(*b).shape[r - 2];
    const auto c = find([&](const TileType& o) { return o == out; });
    if (c && chance(50)) return add(out, "dot({0}, trans({1}), {2})", {*a, *b, *c});
    if (chance(50)) return add(out, "dot({0}, trans({1}))", {*a, *b});
    const Kind kind = element_of(t.elem).kind;
    if (kind == Kind::fixed || kind == Kind::logarithm)
        out.elem = t.elem;
    else
        out.elem = kind == Kind::integer ? pick({"i64", "i16", "i8", "i50"}) : pick({"f16", "bf16", "f64", "flt16", "f8e5m2"});
    return add(out, "dot({0}, trans({1}), broadcast(cast<" + out.elem + ">(shift), [" + list(out.shape) + "]))", {*a, *b});
}

bool Generator::scaled_product(int a, int b) {
    const TileType &x = type(a), &y = type(b);
    const int64_t k = x.shape[1];
    const auto scale = [&](const char* of) {
        int64_t blocks = pick({1, 2, 3, 4});
        if (k % blocks) blocks = 1;
        return "cast<" + pick(std::vector<std::string>{"f8e8m0", "f8e4m3", "f32"}) + ">(cast<f32>(" + of + "[:, 0 +: " + std::to_string(blocks) +
               "]))";
    };
    const TileType out{"f32", {x.shape[0], y.shape[0]}};
    const std::string factors = "dot_scaled({0}, " + scale("{0}") + ", trans({1}), trans(" + scale("{1}") + ")";
    const auto c = find([&](const TileType& o) { return o == out; });
    if (c && chance(60)) return add(out, factors + ", {2})", {a, b, *c});
    return add(out, factors + ")", {a, b});
}

bool Generator::looping() {
    const auto a = find(has_arithmetic);
    if (!a) return false;
    const TileType t = type(*a);
    const auto b = find([&](const TileType& o) { return o == t; });
    const std::string trips = pick(std::vector<std::string>{"3", "shift", "0", "pid + 1"});
    return add(t, "{ var acc = {0}; for i in 0 .. " + trips + " { acc = acc * cast<" + t.elem + ">(i) + {1}; } acc }", {*a, *b});
}

bool Generator::branching() {
    const auto a = find(has_arithmetic);
    if (!a) return false;
    const TileType t = type(*a);
    const auto b = find([&](const TileType& o) { return o == t; });
    return add(t, "{ var acc = {0}; if (pid + shift) % 2 == 0 { acc = acc + {1}; } else { acc = {1} - acc; } acc }", {*a, *b});
}

bool Generator::repeating() {
    const auto a = find([](const TileType& t) { return has_arithmetic(t) && elements(t.shape) <= 1024; });
    if (!a) return false;
    const TileType t = type(*a);
    const auto b = find([&](const TileType& o) { return o == t; });
    const std::string condition = pick(std::vector<std::string>{"any(acc < {1})", "all(acc != {1})", "accn != shift"});
    const std::string body = pick(std::vector<std::string>{"acc = max(acc, {1}) - {0};", "acc = acc + {1}; if all(acc == {0}) { break; }",
                                                           "if accn == 2 { continue; } acc = acc * {1};",
                                                           "var acci = pid; while acci > 0 { acc = {1} - acc; acci = acci - 1; }"});
    return add(t, "{ var acc = {0}; var accn = 0; while accn < 5 && " + condition + " { accn += 1; " + body + " } acc }", {*a, *b});
}

void Generator::add_product_loop() {
    struct Operands {
        const char *a, *b, *decoded, *sum, *precision;
    };
    static constexpr Operands kOperands[] = {
        {"f16", "f16", "", "f32", ""},       {"bf16", "bf16", "", "f32", ""},     {"f32", "f32", "", "f32", ", precision = tf32"},
        {"f32", "f32", "", "f32", ""},       {"i8", "i8", "", "i32", ""},         {"u8", "u8", "", "u32", ""},
        {"f8e4m3", "f8e4m3", "", "f32", ""}, {"f8e5m2", "f8e5m2", "", "f32", ""}, {"f16", "i4", "f16", "f32", ""},
        {"bf16", "u4", "bf16", "f32", ""},   {"f16", "f8e4m3", "f16", "f32", ""}, {"i8", "i4", "i8", "i32", ""},
        {"f64", "f64", "", "f64", ""},
    };
    const Operands& o = kOperands[below(static_cast<int>(std::size(kOperands)))];
    const int64_t m = pick({16, 17, 32, 64}), n = pick({8, 16, 33, 64}), step = pick({16, 32, 64});
    loop_step_ = step;
    const int64_t k = std::max<int64_t>(1, step * pick({1, 2, 3, 4}) - pick({0, 0, 1, 8}));
    const auto number = [](int64_t v) { return std::to_string(v); };
    const auto a = static_cast<int>(p_.inputs.size());
    const bool named = chance(50);
    const auto input = [&](const char* elem, std::vector<int64_t> tile, std::vector<int64_t> tensor, const std::string& index, const char* names) {
        const std::string order = chance(40) ? " @ col" : chance(10) ? layout(tensor) : "";
        p_.inputs.push_back({{elem, std::move(tile)}, std::move(tensor), index, order, named ? names : ""});
    };
    const std::string rows = "pid * " + number(m) + " +: " + number(m), columns = "program_id(1) * " + number(n) + " +: " + number(n);
    input(o.a, {m, step}, {m * p_.grid[0] - pick({0, 0, 1, 8}), k}, rows + ", 0 +: " + number(step), "M, K");
    input(o.b, {step, n}, {k, n * p_.grid[1] - pick({0, 0, 1, 4})}, "0 +: " + number(step) + ", " + columns, "K, N");
    const std::string range = "acck +: " + number(step);
    std::string right = "x" + number(a + 1) + "[" + range + ", " + columns + "]";
    if (*o.decoded) right = std::string("cast<") + o.decoded + ">(" + right + ")";
    const std::string left = "x" + number(a) + "[" + rows + ", " + range + "]";
    const std::string factors = "dot(" + left + ", " + right;
    const std::string body = chance(80) ? factors + ", acc" + o.precision + ")" : "acc + " + factors + o.precision + ")";
    const std::string sum = std::string("<") + o.sum + ">[" + list({m, n}) + "]";
    // Rounds may store what they have so far, each at a place of its own, and nobody else see it.
    std::optional<Memory> memory;
    std::string before, behind;
    if (chance(25)) {
        memory = Memory{{o.sum, {programs(), m + pick({0, 3, 20}), n}}, false, ""};
        const std::string at = pick(std::vector<std::string>{"acck", "20 - acck", "shift + acck - 40", "acck % 3", number(k - 1) + " - acck"});
        (chance(30) ? before : behind) = "mem[" + program() + ", " + at + " +: " + number(m) + ", 0 +: " + number(n) + "] = acc; ";
    }
    add({o.sum, {m, n}},
        "{ var acc = " + (chance(80) ? "zeros" + sum : "full" + sum + "(3)") + "; for acck in 0 .. " + (named ? "K" : number(k)) + " step " +
            number(step) + (chance(30) ? " @ pipeline(" + number(pick({1, 2, 3})) + ")" : "") + " { " + before + "acc = " + body + "; " + behind +
            "} " + (memory && chance(60) ? "acc = zeros" + sum + "; " : "") + "acc }",
        {}, memory);
    if (p_.grid[0] * p_.grid[1] > 1 && chance(50)) p_.attributes += pick(std::vector<std::string>{" @ cluster(2, 1, 1)", " @ cluster(1, 2, 1)"});
    if (*o.decoded && chance(60)) p_.attributes += pick(std::vector<std::string>{" @ decode(shared)", " @ decode(register)"});
}

}  // namespace tegula::diff
