// Statements that join, order, move and take apart elements of tiles (program_generator.h).
#include "tests/diff/program_generator.h"

#include <algorithm>

namespace tegula::diff {

bool Generator::reduction() {
    const auto a = find([](const TileType& t) { return element_of(t.elem).kind != Kind::table; });
    if (!a) return false;
    const TileType t = type(*a);
    const bool all = chance(15);
    const int axis = below(static_cast<int>(t.shape.size()));
    TileType out = t;
    if (all)
        out.shape = {1};
    else
        out.shape.erase(out.shape.begin() + axis);
    std::string where = all ? "" : ", axis = " + std::to_string(axis);
    std::string op;
    if (t.elem == "bool") {
        op = pick(std::vector<std::string>{"any", "all"});
    } else if (chance(20)) {
        op = pick(std::vector<std::string>{"argmin", "argmax"});
        out.elem = "i32";
    } else if (chance(50)) {
        op = chance(80) ? "sum" : "prod";
        out.elem = widened(t.elem);
    } else {
        op = pick(std::vector<std::string>{"min", "max", "minnum", "maxnum"});
    }
    const bool scalar = out.shape.empty() || all;
    if (scalar) out.shape = {1};
    return add(out, scalar ? "broadcast(" + op + "({0}" + where + "), [1])" : op + "({0}" + where + ")", {*a});
}

bool Generator::order() {
    const auto a = find([](const TileType& t) { return has_arithmetic(t) && elements(t.shape) <= 1024; });
    if (!a) return false;
    TileType t = type(*a);
    const int d = below(static_cast<int>(t.shape.size()));
    const std::string axis = ", axis = " + std::to_string(d);
    switch (below(4)) {
        case 0:
            return add(t, "sort({0}" + axis + (chance(50) ? ", descending = true)" : ")"), {*a});
        case 1:
            t.elem = "i32";
            return add(t, "argsort({0}" + axis + (chance(50) ? ", descending = true)" : ")"), {*a});
        case 2: {
            int64_t& extent = t.shape[static_cast<size_t>(d)];
            extent = 1 + below(static_cast<int>(extent));
            const std::string text = "topk({0}, " + std::to_string(extent) + axis + ")";
            if (chance(50)) return add(t, text + ".0", {*a});
            t.elem = "i32";
            return add(t, text + ".1", {*a});
        }
        default: {
            t.elem = widened(t.elem);
            const std::string name = chance(70) ? "cumsum" : "cumprod";
            return add(t, name + "({0}" + axis + (chance(50) ? ", reverse = true)" : ")"), {*a});
        }
    }
}

bool Generator::histogram() {
    const auto a = find([](const TileType& t) { return is_int(t.elem); });
    if (!a) return false;
    const int64_t bins = pick({1, 3, 8, 100});
    const std::string mask = chance(50) ? ", mask = cast<bool>({1}))" : ")";
    return add({"i32", {bins}}, "histogram({0}, " + std::to_string(bins) + mask, {*a, *find_mask(type(*a))});
}

bool Generator::lambda() {
    const auto a = find([](const TileType& t) { return has_arithmetic(t) && elements(t.shape) <= 1024; });
    if (!a) return false;
    TileType t = type(*a);
    const auto b = find([&](const TileType& o) { return o.shape == t.shape && has_arithmetic(o); });
    const TileType u = type(*b);
    const int d = below(static_cast<int>(t.shape.size()));
    const bool pair = chance(40), scanned = chance(50);
    const int member = pair ? below(2) : 0;
    std::vector<std::string> ops = {"a + b", "max(a, b)", "b - a", "a", "select(b < a, b, a)", "a * a - b"};
    if (is_int(t.elem)) ops.insert(ops.end(), {"a ^ b", "a << 1 | b & 1", "a / b"});
    const std::string first = pick(ops), second = pick({"i + j", "select(b < a, j, i)", "j - i"});
    const std::string body = pair ? "|a, i, b, j| (" + first + ", " + second + ")" : "|a, b| " + first;
    const std::string init = pair ? "(cast<" + t.elem + ">(shift), cast<" + u.elem + ">(1))" : "cast<" + t.elem + ">(shift)";
    std::string text = std::string(scanned ? "scan(" : "reduce(") + (pair ? "({0}, {1})" : "{0}") + ", " + std::to_string(d) +
                       (scanned ? "" : ", " + init) + ", " + body + (scanned && chance(40) ? ", reverse = true)" : ")");
    if (pair) text += "." + std::to_string(member);
    TileType out{member ? u.elem : t.elem, t.shape};
    if (!scanned) out.shape.erase(out.shape.begin() + d);
    if (!out.shape.empty()) return add(out, text, {*a, *b});
    out.shape = {1};
    return add(out, "broadcast(" + text + ", [1])", {*a, *b});
}

std::string Generator::with(std::string text, char hole, int64_t value) {
    for (size_t at; (at = text.find(hole)) != std::string::npos;) text.replace(at, 1, std::to_string(value));
    return text;
}

bool Generator::index_form() {
    const auto a = find([](const TileType& t) { return t.shape.size() == 2 && element_of(t.elem).kind != Kind::boolean; });
    if (!a) return false;
    const TileType t = type(*a);
    const int64_t m = t.shape[0], n = t.shape[1];
    const auto number = [](int64_t v) { return std::to_string(v); };
    const std::string rows = "i < " + number(m), columns = "j < " + number(n), q = "q < " + number(n);
    if (!has_arithmetic(t) || chance(40)) {
        const int form = below(4);
        if (form == 0) return add({t.elem, {n, m}}, "[j < " + number(n) + ", i < " + number(m) + "] => {0}[i, j]", {*a});
        const char* const forms[] = {"{0}[i - 1, j + shift]", "{0}[i, (j * 3 + shift) % N]",
                                     "select((i + j) % 2 == 0, {0}[i, j], {0}[M - i, N - 1 - j])"};
        return add(t, "[" + rows + ", " + columns + "] => " + with(with(forms[form - 1], 'M', m), 'N', n), {*a});
    }
    if (chance(30)) {
        const std::string op = pick({"max", "min", "minnum", "sum"});
        return add({op == "sum" ? widened(t.elem) : t.elem, {m}},
                   "[" + rows + "] => " + op + "[" + q + "] => {0}[i, (q * q + 1) % " + number(n) + "]", {*a});
    }
    const auto b = find([&](const TileType& o) { return o.elem == t.elem && o.shape.size() == 2 && o.shape[1] == n; });
    const int64_t p = type(*b).shape[0];
    if (m * p * n > 4 * kMaxElements) return false;
    const std::string end = "] => sum[" + q + "] => ", shape = "[" + rows + ", j < " + number(p);
    if (chance(20)) return add({widened(t.elem), {m, p}}, shape + end + "{0}[i, q] - {1}[j, q]", {*a, *b});
    const std::string body = pick({"{0}[i, q] * {1}[j, q]", "{0}[i, q] * {1}[j, N - q]", "{0}[i, (q + i) % N] * {1}[j, q]",
                                   "{0}[i, q] * {1}[j, q - 1]", "({0}[i, q] + {1}[j, q]) * {1}[j, q]"});
    return add({accumulator(t.elem), {m, p}}, shape + end + with(body, 'N', n), {*a, *b});
}

bool Generator::random_words() {
    const auto a = find([](const TileType& t) { return is_int(t.elem) && elements(t.shape) <= 1024; });
    if (!a) return false;
    const std::string of = "(cast<u64>(shift + pid), cast<i64>({0})";
    const std::vector<int64_t> shape = type(*a).shape;
    switch (below(4)) {
        case 0:
            return add({"f32", shape}, "random." + pick({"uniform", "normal"}) + of + ")", {*a});
        case 1:
            return add({"i64", shape}, "random.integers" + of + ", -7, 1000)", {*a});
        case 2:
            return add({"bool", shape}, "random.bernoulli" + of + ", 0.25)", {*a});
        default:
            return add({"u32", shape}, "random.words" + of + ")." + std::to_string(below(4)), {*a});
    }
}

bool Generator::blocks() {
    struct Block {
        const char *name, *element, *scale;
        int64_t size;
    };
    static constexpr Block kBlocks[] = {{"bmx", "f4e2m1", "f8e8m0", 8},
                                        {"bnv", "f4e2m1", "f8e4m3", 16},
                                        {"bceil", "f8e4m3", "f32", 5},
                                        {"beven", "f6e2m3", "flt5", 3},
                                        {"bint", "fxp2", "f8e8m0", 32}};
    const auto a = find([](const TileType& t) { return has_arithmetic(t); });
    if (!a) return false;
    TileType t = type(*a);
    const Block& block = kBlocks[below(static_cast<int>(std::size(kBlocks)))];
    const std::string value = "cast<" + std::string(block.name) + ">(cast<f32>({0}))";
    switch (below(3)) {
        case 0:
            t.elem = block.element;
            return add(t, "block_elements(" + value + ")", {*a});
        case 1:
            t.elem = block.scale;
            t.shape.back() = (t.shape.back() + block.size - 1) / block.size;
            return add(t, "block_scales(" + value + ")", {*a});
        default:
            t.elem = "f32";
            return add(t, "cast<f32>(" + value + ")", {*a});
    }
}

bool Generator::pairing() {
    const auto a = find([](const TileType&) { return true; });
    TileType t = type(*a);
    const int d = below(static_cast<int>(t.shape.size()));
    const std::string axis = std::to_string(d);
    int64_t& extent = t.shape[static_cast<size_t>(d)];
    const auto b = find([&](const TileType& o) { return o == t; });
    switch (below(5)) {
        case 0:
            t.shape.push_back(2);
            return add(t, "join({0}, {1})", {*a, *b});
        case 1:
            if (t.shape.back() != 2 || t.shape.size() < 2) return false;
            t.shape.pop_back();
            return add(t, "unjoin({0})." + std::to_string(below(2)), {*a});
        case 2:
            t.shape.insert(t.shape.begin() + d, 2);
            return add(t, "stack({0}, {1}, axis = " + axis + ")", {*a, *b});
        case 3: {
            const int64_t pieces = pick({2, 3, 4});
            if (extent % pieces) return false;
            extent /= pieces;
            return add(t, "split({0}, " + std::to_string(pieces) + ", axis = " + axis + ")." + std::to_string(below(static_cast<int>(pieces))), {*a});
        }
        default:
            if (extent != 1 || t.shape.size() < 2) return false;
            t.shape.erase(t.shape.begin() + d);
            return add(t, "squeeze({0}, " + axis + ")", {*a});
    }
}

bool Generator::deposit() {
    const auto a = find([](const TileType&) { return true; });
    const TileType t = type(*a);
    const auto b = find([&](const TileType& o) { return o == t; });
    std::string to, from;
    for (const int64_t e : t.shape) {
        const int64_t step = pick({1, 2, -1, -2, 3}), stride = std::abs(step), n = 1 + below(static_cast<int>((e + stride - 1) / stride));
        const int64_t first = below(static_cast<int>(e - (n - 1) * stride)), start = step < 0 ? first + (n - 1) * stride : first;
        const std::string part = std::to_string(n) + (step == 1 ? "" : " step " + std::to_string(step));
        to += (to.empty() ? "" : ", ") + (chance(30) ? "shift + " + std::to_string(start) : std::to_string(start)) + " +: " + part;
        from += (from.empty() ? "" : ", ") + std::string("pid - ") + std::to_string(below(2)) + " +: " + std::to_string(n);
    }
    return add(t, "{ var acc = {0}; acc[" + to + "] = {1}[" + from + "]; acc }", {*a, *b});
}

bool Generator::reshaping() {
    const auto a = find([](const TileType&) { return true; });
    TileType t = type(*a);
    const int rank = static_cast<int>(t.shape.size()), d = below(rank);
    switch (below(6)) {
        case 0:
            if (rank < 2) return false;
            std::swap(t.shape[static_cast<size_t>(rank) - 1], t.shape[static_cast<size_t>(rank) - 2]);
            return add(t, "trans({0})", {*a});
        case 1: {
            std::vector<int64_t> axes;
            for (int i = 0; i < rank; ++i) axes.push_back(i);
            for (int i = rank - 1; i > 0; --i) std::swap(axes[static_cast<size_t>(i)], axes[static_cast<size_t>(below(i + 1))]);
            const std::vector<int64_t> old = t.shape;
            for (int i = 0; i < rank; ++i) t.shape[static_cast<size_t>(i)] = old[static_cast<size_t>(axes[static_cast<size_t>(i)])];
            return add(t, "permute({0}, [" + list(axes) + "])", {*a});
        }
        case 2: {
            const int64_t n = elements(t.shape);
            std::vector<int64_t> shape;
            int64_t left = n;
            for (int64_t f : {pick({2, 3, 4, 7, 8, 16}), pick({2, 3, 5, 8, 32})})
                if (left % f == 0 && left > f) shape.push_back(f), left /= f;
            shape.push_back(left);
            t.shape = shape;
            return add(t, "reshape({0}, [" + list(shape) + "])", {*a});
        }
        case 3:
            t.shape.insert(t.shape.begin() + d, 1);
            return add(t, "expand({0}, " + std::to_string(d) + ")", {*a});
        case 4:
            return add(t, "flip({0}, " + std::to_string(d) + ")", {*a});
        default: {
            const int64_t times = pick({2, 3});
            t.shape[static_cast<size_t>(d)] *= times;
            return add(t, "repeat({0}, " + std::to_string(times) + ", axis = " + std::to_string(d) + ")", {*a});
        }
    }
}

bool Generator::broadcasting() {
    const auto a = find([](const TileType& t) { return std::count(t.shape.begin(), t.shape.end(), 1) || t.shape.size() < 3; });
    if (!a) return false;
    TileType t = type(*a);
    for (int64_t& e : t.shape)
        if (e == 1) e = pick({2, 5, 8, 33});
    if (t.shape.size() < 3 && chance(60)) t.shape.insert(t.shape.begin(), pick({1, 2, 3, 8}));
    return add(t, "broadcast({0}, [" + list(t.shape) + "])", {*a});
}

bool Generator::parts() {
    const auto a = find([](const TileType& t) { return !t.shape.empty(); });
    TileType t = type(*a);
    const int rank = static_cast<int>(t.shape.size()), d = below(rank);
    const auto at = static_cast<size_t>(d);
    switch (below(4)) {
        case 0: {
            const auto b = find([&](const TileType& o) {
                if (o.elem != t.elem || o.shape.size() != t.shape.size()) return false;
                for (size_t i = 0; i < o.shape.size(); ++i)
                    if (i != at && o.shape[i] != t.shape[i]) return false;
                return true;
            });
            t.shape[at] += type(*b).shape[at];
            return add(t, "cat({0}, {1}, axis = " + std::to_string(d) + ")", {*a, *b});
        }
        case 1: {  // static part
            std::string items;
            for (size_t i = 0; i < t.shape.size(); ++i) {
                const int64_t e = 1 + below(static_cast<int>(t.shape[i])), start = below(static_cast<int>(t.shape[i] - e + 1));
                items += (items.empty() ? "" : ", ") + std::to_string(start) + " +: " + std::to_string(e);
                t.shape[i] = e;
            }
            return add(t, "{0}[" + items + "]", {*a});
        }
        case 2: {  // part at a place known at run time, perhaps out of range
            std::string items;
            for (size_t i = 0; i < t.shape.size(); ++i) {
                const int64_t e = 1 + below(static_cast<int>(t.shape[i]));
                items += (items.empty() ? "" : ", ") + std::string("shift - ") + std::to_string(below(3)) + " +: " + std::to_string(e);
                t.shape[i] = e;
            }
            return add(t, "{0}[" + items + "]", {*a});
        }
        default: {
            const auto b = find([&](const TileType& o) { return o == t; });
            return add(t, "cat({0}, {1}, axis = " + std::to_string(d) + ")[" + window(t.shape, d) + "]", {*a, *b});
        }
    }
}

std::string Generator::window(const std::vector<int64_t>& shape, int d) {
    std::string items;
    for (size_t i = 0; i < shape.size(); ++i) {
        const int64_t start = static_cast<int>(i) == d ? below(static_cast<int>(shape[i]) + 1) : 0;
        items += (items.empty() ? "" : ", ") + std::to_string(start) + " +: " + std::to_string(shape[i]);
    }
    return items;
}

bool Generator::gathering() {
    const auto a = find([](const TileType&) { return true; });
    const auto i = find([&](const TileType& t) { return is_int(t.elem) && t.shape == type(*a).shape; });
    if (!i) return false;
    const TileType t = type(*a);
    const int d = below(static_cast<int>(t.shape.size()));
    return add(t, "gather({0}, cast<i64>({1}) % " + std::to_string(t.shape[static_cast<size_t>(d)]) + ", " + std::to_string(d) + ")", {*a, *i});
}

}  // namespace tegula::diff
