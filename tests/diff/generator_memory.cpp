// Statements that read and write memory of their own (program_generator.h).
#include "tests/diff/program_generator.h"

#include <algorithm>

namespace tegula::diff {

bool Generator::own_rows() {
    const auto a = find(has_arithmetic);
    if (!a) return false;
    const TileType t = type(*a);
    const int64_t n = elements(t.shape);
    const std::string length = std::to_string(n), row = "mem[" + program() + ", ", value = "reshape({0}, [" + length + "])";
    const std::vector<std::string> steps = {row + "3 +: " + length + "] += " + value + "; ",
                                            row + "0 +: " + length + "] = " + row + "2 +: " + length + "]; ",
                                            row + "1 +: " + length + "] = flip(" + row + "shift +: " + length + "], 0); ",
                                            row + "2 +: " + length + " step 2] = " + row + "1 +: " + length + "] * " + value + "; "};
    std::string text = "{ var acc = {0}; ";
    for (int i = 1 + below(3); i > 0; --i) text += pick(steps);
    text += "acc = reshape(" + row + "shift +: " + length + " step " + std::to_string(pick({1, 2})) + "], [" + list(t.shape) + "]); acc }";
    const std::vector<int64_t> extents = {programs(), n + pick({0, 3, 5, 40})};
    return add(t, text, {*a}, Memory{{t.elem, extents}, false, chance(30) ? layout(extents) : ""});
}

bool Generator::named_rows() {
    const auto a = find([](const TileType& t) { return has_arithmetic(t) && elements(t.shape) <= 300; });
    if (!a) return false;
    const TileType t = type(*a);
    const int64_t n = elements(t.shape), by = pick({1, n, n, 2 * n, 4, 3}), extent = (n / by + 1 + below(3)) * by;
    const std::string length = std::to_string(n), last = "memn - " + length;
    const auto number = [&] { return std::to_string(pick({by, n, 4, 1, 2 * by})); };
    const auto index = [&]() -> std::string {
        const std::string c = number(), i = "acci + " + std::to_string(pick({0, 0, 0, 1, -1}));
        return pick(std::vector<std::string>{i, i, last, last + " - acci", "acci / " + c + " * " + c, "min(" + i + ", " + last + ")",
                                             "max(acci - " + c + ", 0)", "(" + i + ") % " + c, "min(max(" + i + ", 0), " + last + ")",
                                             "shift / 2 * " + c, "memn / " + c + " * " + c + " - " + length});
    };
    const auto part = [&] { return "mem[" + program() + ", " + index() + " +: " + length + "]"; };
    const int64_t step = extent / by > 24 ? n : by;
    const std::string text = "{ var acc = {0}; for acci in " + std::to_string(pick({0, 0, by, 1, -by})) + " .. memn step " + std::to_string(step) +
                             " { " + part() + " = reshape({0}, [" + length + "]); acc = reshape(" + part() + ", [" + list(t.shape) + "]); } acc }";
    std::string where = "memn % " + std::to_string(by) + " == 0, memn >= " + std::to_string(pick({0, n, extent}));
    if (chance(40)) where += ", memn <= " + std::to_string(extent + below(2) * by);
    return add(t, text, {*a}, Memory{{t.elem, {programs(), extent}}, false, "", {}, where});
}

bool Generator::overwriting() {
    if (programs() != 1 || p_.inputs.empty()) return false;
    const auto i = static_cast<size_t>(below(static_cast<int>(p_.inputs.size())));
    const Input& in = p_.inputs[i];
    const auto v = find([&](const TileType& t) { return t.elem == in.tile.elem && t.shape.size() == in.tensor.size(); });
    std::string at;
    for (int64_t e : type(*v).shape) at += (at.empty() ? "" : ", ") + std::to_string(below(3)) + " +: " + std::to_string(e);
    const bool again = type(*v) == in.tile && chance(70), rounds = chance(40);  // the input is read again, behind the store
    const std::string read = again ? "x" + std::to_string(i) + "[" + in.index + "]" + in.otherwise : "mem[" + at + "]";
    return add(type(*v),
               "{ var acc = {0}; " + std::string(rounds ? "for acci in 0 .. 3 { " : "") + "mem[" + at + "] = acc; acc = " + read + "; " +
                   (rounds ? "} " : "") + "acc }",
               {*v}, Memory{{in.tile.elem, in.tensor}, false, "", i});
}

bool Generator::picked_rows() {
    const auto a = find([](const TileType& t) { return is_int(t.elem) && t.shape.size() <= 2 && elements(t.shape) <= 256; });
    if (!a) return false;
    TileType t = type(*a);
    const int64_t rows = pick({3, 17, 64}), columns = pick({1, 4, 7, 16}), step = pick({1, 1, 2, 3});
    t.elem = element();
    t.shape.push_back(columns);
    const std::vector<int64_t> extents = {rows, columns * step + pick({0, 0, 1, 3})};
    const std::string other = chance(40) ? " else cast<" + t.elem + ">(pid)" : "";
    const std::string part = std::to_string(below(2)) + " +: " + std::to_string(columns) + (step == 1 ? "" : " step " + std::to_string(step));
    return add(t, "mem[cast<i64>({0}) % " + std::to_string(rows + 3) + " - 1, " + part + "]" + other, {*a},
               Memory{{t.elem, extents}, false, chance(40) ? layout(extents) : ""});
}

std::optional<int> Generator::find_mask(const TileType& t) {
    return find([&](const TileType& o) { return o.shape == t.shape; });
}

std::string Generator::places(const TileType& t) {
    const std::string n = std::to_string(elements(t.shape));
    return "reshape(" + std::string(chance(30) ? n + " - 1 - " : "") + "iota[" + n + "], [" + list(t.shape) + "])";
}

bool Generator::stepping() {
    const auto a = find([](const TileType& t) { return elements(t.shape) <= 512; });
    if (!a) return false;
    const TileType t = type(*a);
    std::vector<int64_t> extents = {programs(), elements(t.shape) * pick({1, 1, 2}) + below(9)};
    const bool both = chance(25);  // two axes step, one of them of few elements
    if (both) extents.insert(extents.begin() + 1 + below(2), pick({1, 1, 2, 5}));
    const std::string row = "mem[" + program() + ", ";
    const auto base = [&] { return pick(std::vector<std::string>{"0", "shift", "shift - 6", "-2", "5 * shift", std::to_string(extents[1] - 1)}); };
    const auto index = [&] { return base() + " + " + std::to_string(pick({1, 1, 1, 2, 3, 7, -1, -2, 0})) + " * " + places(t); };
    const auto at = [&] { return row + index() + (both ? ", " + index() : "") + "]"; };
    std::string text = "{ var acc = {0}; ";
    for (int i = 1 + below(3); i > 0; --i)
        text += chance(50) ? at() + " = acc; " : "acc = " + at() + (chance(40) ? " else cast<" + t.elem + ">(pid); " : "; ");
    if (!both && t.shape.size() == 2 && has_arithmetic(t) && chance(50))
        text += "acc = [i < " + std::to_string(t.shape[0]) + ", j < " + std::to_string(t.shape[1]) + "] => " +
                pick(std::vector<std::string>{"max", "min"}) + "[r < 3, s < 2] => " + row + "i * " + std::to_string(t.shape[1]) + " + j + r - " +
                pick(std::vector<std::string>{"s", "2 * s", "shift"}) + "]; ";
    return add(t, text + "acc }", {*a}, Memory{{t.elem, extents}, false, chance(30) ? layout(extents) : ""});
}

bool Generator::atomic() {
    const auto v = find([](const TileType& t) { return is_int(t.elem) || t.elem == "f32"; });
    const auto i = v ? find([&](const TileType& t) { return is_int(t.elem) && t.shape == type(*v).shape; }) : std::nullopt;
    if (!i) return false;
    const TileType t = type(*v);
    const auto op =
        is_float(t.elem) ? pick(std::vector<std::string>{"min", "max"}) : pick(std::vector<std::string>{"add", "min", "max", "and", "or", "xor"});
    const int64_t n = pick({1, 7, 40, 300});
    const bool pointer = chance(30);
    const std::string at = "cast<i64>({1}) % " + std::to_string(n);
    return add(t, "{ var acc = {0}; atomic_" + op + "(" + (pointer ? "mem + " + at : "mem[" + at + "]") + ", {0}, mask = cast<bool>({2})); acc }",
               {*v, *i, *find_mask(t)}, Memory{{t.elem, {n}}, pointer});
}

bool Generator::exchange() {
    const auto v = find([](const TileType& t) { return is_int(t.elem); });
    if (!v) return false;
    const TileType t = type(*v);
    const auto w = find([&](const TileType& o) { return o == t; });
    const std::string at = "(mem[" + program() + ", " + places(t) + "], ", mask = ", mask = cast<bool>({2}))";
    const std::string text = pick(std::vector<std::string>{"atomic_xchg" + at + "{0}" + mask, "atomic_cas" + at + "{1}, {0}" + mask,
                                                           "atomic_add" + at + "{0}" + mask, "atomic_max" + at + "{0}" + mask});
    return add(t, text, {*v, *w, *find_mask(t)}, Memory{{t.elem, {programs(), elements(t.shape)}}});
}

bool Generator::pointer_rows() {
    const auto a = find([](const TileType& t) { return elements(t.shape) <= 512; });
    if (!a) return false;
    TileType t = type(*a);
    t.elem = element();
    const int64_t n = pick({7, 64, 500});
    const auto along = [&](size_t d) { return "iota[" + list(t.shape) + "](axis = " + std::to_string(d) + ")"; };
    std::string o = "(" + pick(std::vector<std::string>{"0", "shift", "shift - 6", "-2", "pid"});
    for (size_t d = 0; d < t.shape.size(); ++d) o += " + " + std::to_string(pick({0, 1, 1, 2, -1, 17})) + " * " + along(d);
    o += ")";
    std::string mask = "(" + o + " >= 0) & (" + o + " < " + std::to_string(n) + ")";
    if (chance(50))
        mask += " & (" + along(static_cast<size_t>(below(static_cast<int>(t.shape.size())))) + pick(std::vector<std::string>{" < ", " >= ", " != "}) +
                std::to_string(below(9)) + ")";
    const std::string other = chance(50) ? ", other = cast<" + t.elem + ">(shift)" : "";
    return add(t, "load(mem + " + o + ", mask = " + mask + other + ")", {*a}, Memory{{t.elem, {n}}, true});
}

bool Generator::pointers() {
    if (chance(30)) return pointer_rows();
    const auto v = find([](const TileType& t) { return is_int(t.elem); });
    if (!v) return false;
    TileType t = type(*v);
    const int64_t n = elements(t.shape);
    const std::string mask = "cast<bool>({1})";
    if (chance(50)) {
        t.elem = element();
        const std::string m = std::to_string(pick({3, 64, 500}));
        return add(t, "load(mem + cast<i64>({0}) % " + m + ", mask = " + mask + (chance(50) ? ")" : ", other = cast<" + t.elem + ">(shift))"),
                   {*v, *find_mask(t)}, Memory{{t.elem, {std::stoll(m)}}, true});
    }
    const int w = *find_mask(t);
    const TileType stored = type(w);
    if (chance(50))
        return add(stored, "{ var acc = {1}; mem[" + program() + ", cast<i64>({0}) % " + std::to_string(n) + "] = {1}; acc }", {*v, w},
                   Memory{{stored.elem, {programs(), n}}});
    const int64_t step = pick({1, 1, 2, 3});
    return add(stored,
               "{ var acc = {1}; store(mem + " + program() + " * " + std::to_string(n * step) + " + " + std::to_string(step) + " * " +
                   places(stored) + ", {1}, mask = cast<bool>({0})); acc }",
               {*v, w}, Memory{{stored.elem, {programs() * n * step}}, true});
}

}  // namespace tegula::diff
