// The program generator (generator.h).
#include "tests/diff/generator.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace tegula::diff {

std::string list(const std::vector<int64_t>& extents) {
    std::string out;
    for (int64_t e : extents) out += (out.empty() ? "" : ", ") + std::to_string(e);
    return out;
}

namespace {

constexpr int64_t kMaxElements = 4096;

int64_t elements(const std::vector<int64_t>& shape) {
    int64_t n = 1;
    for (int64_t e : shape) n *= e;
    return n;
}

class Generator {
public:
    Generator(uint64_t seed, bool nan_bits) : nan_bits_(nan_bits), state_(seed) {
        state_ = next();  // else the numbers of the next seed would be these, less the first
        p_.seed = seed;
    }
    Program run() {
        p_.grid = {pick({1, 1, 2, 3, 6})};
        const bool loop = chance(20);
        if (loop) p_.grid = {pick({1, 2, 3}), pick({1, 2})};
        const int inputs = loop ? below(2) : 1 + below(3);
        for (int i = 0; i < inputs; ++i) add_input();
        if (loop) add_product_loop();
        if (chance(33)) p_.schedule = loop && chance(60) ? "split_k(" + std::to_string(pick({2, 3, 4})) + ")" : "persistent";
        if (chance(25)) p_.attributes += " @ warps(" + std::to_string(pick({1, 2, 4, 8})) + ")";
        const int count = 3 + below(12);
        for (int tries = 0; static_cast<int>(p_.statements.size()) < count && tries < 10 * count; ++tries) add_statement();
        choose_outputs();
        if (chance(15)) p_.output_layout = " @ col";
        return std::move(p_);
    }

private:
    uint64_t next() {  // splitmix64
        uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    int below(int n) { return static_cast<int>(next() % static_cast<uint64_t>(n)); }
    bool chance(int percent) { return below(100) < percent; }
    int64_t pick(std::initializer_list<int64_t> v) { return v.begin()[below(static_cast<int>(v.size()))]; }
    std::string pick(std::initializer_list<const char*> v) { return v.begin()[below(static_cast<int>(v.size()))]; }
    std::string pick(const std::vector<std::string>& v) { return v[static_cast<size_t>(below(static_cast<int>(v.size())))]; }

    std::string element() {
        const int all = static_cast<int>(diff::elements().size());
        const int row = chance(25) ? kCommon + below(all - kCommon) : chance(50) ? below(kFloats) : below(kCommon);
        return diff::elements()[static_cast<size_t>(row)].name;
    }
    std::vector<int64_t> shape() {
        std::vector<int64_t> s;
        const int rank = 1 + below(3);
        for (int d = 0; d < rank; ++d) s.push_back(pick({1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 32, 33, 48, 64, 127}));
        while (elements(s) > kMaxElements) *std::max_element(s.begin(), s.end()) = pick({1, 2, 3, 4});
        if (chance(10)) s = {pick({16, 17, 33, 64, 127}), pick({2, 3, 4, 5})};  // records: complex numbers, pixels
        return s;
    }

    void add_input() {
        Input in;
        in.tile = {element(), shape()};
        for (int64_t e : in.tile.shape) {
            const int64_t start = below(3), stride = below(3), step = pick({1, 1, 1, 1, 2, 3});
            const int64_t extent = std::max<int64_t>(1, start + stride * (p_.grid[0] - 1) + (e - 1) * step + 1 - pick({0, 0, 0, 1, 3}));
            const bool whole = chance(30);
            in.tensor.push_back(whole ? e : extent);
            in.index += (in.index.empty() ? "" : ", ") +
                        (whole ? ":" : "pid * " + std::to_string(stride) + " + " + std::to_string(start) + " +: " + std::to_string(e)) +
                        (whole || step == 1 ? "" : " step " + std::to_string(step));
        }
        if (chance(30)) in.layout = layout(in.tensor);
        if (chance(15)) in.otherwise = " else cast<" + in.tile.elem + ">(shift)";
        in.all_codes = chance(30) && in.tile.elem != "tf32";  // whose lowest bits are no part of the value
        p_.inputs.push_back(in);
    }
    /// One of the orders of storage that fit.
    std::string layout(const std::vector<int64_t>& extents) {
        std::vector<std::string> fit = {" @ col"};
        std::string strides;
        int64_t next = pick({1, 2, 3});
        for (size_t d = extents.size(); d-- > 0; next = next * extents[d] + pick({0, 1, 5}))
            strides = std::to_string(next) + (strides.empty() ? "" : ", ") + strides;
        fit.push_back(" @ strides(" + strides + ")");
        if (extents.size() == 1) fit.push_back(" @ spread");
        if (extents.size() == 2) fit.insert(fit.end(), {" @ col", " @ panels<4>", " @ skewed", " @ tiled<4, 8>"});
        if (extents.size() == 3) fit.push_back(" @ turned");
        return pick(fit);
    }

    int values() const { return static_cast<int>(p_.inputs.size() + p_.statements.size()); }
    const TileType& type(int v) const { return p_.type(v); }
    /// A random value for which `wanted` holds, later ones more often.
    std::optional<int> find(const std::function<bool(const TileType&)>& wanted) {
        std::vector<int> fits;
        for (int v = 0; v < values(); ++v)
            if (wanted(type(v))) fits.push_back(v);
        if (fits.empty()) return std::nullopt;
        const int n = static_cast<int>(fits.size());
        return fits[static_cast<size_t>(std::max(below(n), below(n)))];
    }
    bool add(const TileType& t, const std::string& text, std::vector<int> operands, std::optional<Memory> memory = {}) {
        if (elements(t.shape) > kMaxElements || t.shape.size() > 4) return false;
        p_.statements.push_back({t, text, std::move(operands), std::move(memory)});
        return true;
    }

    void add_statement() {
        using Make = bool (Generator::*)();
        static constexpr Make kMakers[] = {&Generator::arithmetic,   &Generator::arithmetic,  &Generator::unary,        &Generator::compare,
                                           &Generator::choice,       &Generator::conversion,  &Generator::conversion,   &Generator::reduction,
                                           &Generator::reduction,    &Generator::order,       &Generator::reshaping,    &Generator::reshaping,
                                           &Generator::parts,        &Generator::gathering,   &Generator::product,      &Generator::product,
                                           &Generator::looping,      &Generator::function,    &Generator::broadcasting, &Generator::branching,
                                           &Generator::repeating,    &Generator::atomic,      &Generator::exchange,     &Generator::pointers,
                                           &Generator::lambda,       &Generator::lambda,      &Generator::index_form,   &Generator::index_form,
                                           &Generator::random_words, &Generator::blocks,      &Generator::pairing,      &Generator::deposit,
                                           &Generator::own_rows,     &Generator::overwriting, &Generator::picked_rows,  &Generator::histogram};
        (this->*kMakers[below(static_cast<int>(std::size(kMakers)))])();
    }

    static bool has_arithmetic(const TileType& t) { return element_of(t.elem).kind != Kind::boolean && element_of(t.elem).kind != Kind::table; }
    bool arithmetic() {
        const auto a = find(has_arithmetic);
        if (!a) return false;
        const TileType t = type(*a);
        const auto b = find([&](const TileType& o) { return o == t; });
        std::vector<std::string> ops = {"{0} + {1}",     "{0} - {1}",        "{0} * {1}",       "min({0}, {1})",
                                        "max({0}, {1})", "minnum({0}, {1})", "maxnum({0}, {1})"};
        if (is_float(t.elem))
            ops.insert(ops.end(), {"{0} / {1}", "{0} % {1}", "copysign({0}, select(isnan({1}), abs({0}), {1}))", "fma({0}, {1}, {0})"});
        if (is_int(t.elem))
            ops.insert(ops.end(), {"{0} / {1}", "{0} % {1}", "{0} & {1}", "{0} | {1}", "{0} ^ {1}", "{0} << {1}", "{0} >> {1}", "div_trunc({0}, {1})",
                                   "rem_trunc({0}, {1})", "div_ceil({0}, {1})", "fma({0}, {1}, {1})"});
        if (is_unsigned(t.elem)) ops.push_back("umulhi({0}, {1})");
        if (t.elem[0] == 'l' || t.elem.starts_with("fxp")) ops.push_back("{0} / {1}");
        return add(t, pick(ops), {*a, *b});
    }
    bool unary() {
        const auto a = find(has_arithmetic);
        if (!a) return false;
        const TileType t = type(*a);
        std::vector<std::string> ops = {"-{0}", "abs({0})"};
        if (is_float(t.elem)) ops.insert(ops.end(), {"sqrt({0})", "floor({0})", "ceil({0})", "trunc({0})", "round({0})"});
        if (is_int(t.elem)) ops.insert(ops.end(), {"~{0}", "popcount({0})", "clz({0})", "ctz({0})"});
        return add(t, pick(ops), {*a});
    }
    bool function() {
        const auto a = find([](const TileType& t) { return is_float(t.elem) && bits_of(t.elem) != 50 && elements(t.shape) <= 1024; });
        if (!a) return false;
        return add(type(*a),
                   pick({"exp({0})", "log({0})", "sin({0})", "tanh({0})", "rsqrt({0})", "exp2({0})", "sigmoid({0})", "erf({0})", "cbrt({0})",
                         "log1p({0})", "atan({0})", "pow(abs({0}), {0})", "clamp({0}, -{0}, abs({0}))"}),
                   {*a});
    }
    bool compare() {
        const auto a = find(has_arithmetic);
        if (!a) return false;
        const TileType t = type(*a);
        const auto b = find([&](const TileType& o) { return o == t; });
        std::vector<std::string> ops = {"{0} == {1}", "{0} != {1}", "{0} < {1}", "{0} <= {1}", "{0} > {1}", "{0} >= {1}"};
        if (is_float(t.elem)) ops.insert(ops.end(), {"isnan({0})", "isinf({1})", "isfinite({0})"});
        const std::string op = pick(ops);
        return add({"bool", t.shape}, op, {*a, *b});
    }
    bool choice() {
        const auto c = find([](const TileType& t) { return t.elem == "bool"; });
        if (!c) return compare();
        const auto a = find([&](const TileType& t) { return t.shape == type(*c).shape; });
        const TileType t = type(*a);
        const auto b = find([&](const TileType& o) { return o == t; });
        return add(t, "select({0}, {1}, {2})", {*c, *a, *b});
    }
    bool conversion() {
        const auto a = find([](const TileType&) { return true; });
        const TileType t = type(*a);
        if (is_int(t.elem) && chance(25)) {  // same width, other sign
            const std::string other = (is_unsigned(t.elem) ? "i" : "u") + t.elem.substr(1);
            return bits_of(t.elem) > 1 && add({other, t.shape}, "bitcast<" + other + ">({0})", {*a});
        }
        const Element from = element_of(t.elem);
        if (from.kind != Kind::boolean && (nan_bits_ || from.kind == Kind::fixed) && t.elem != "tf32" && chance(15)) {
            const std::string code = "u" + std::to_string(from.bits);
            return add({code, t.shape}, "bitcast<" + code + ">({0})", {*a});
        }
        const std::string to = element();
        std::string options;
        if (t.elem != "bool" && to != "bool") {
            if (chance(30)) options += ", round = " + pick(std::vector<std::string>{"rne", "rna", "rtz", "ru", "rd"});
            if (chance(10)) options = ", round = stochastic, seed = " + pick(std::vector<std::string>{std::to_string(below(1000)), "pid + shift"});
            if (chance(30)) options += is_int(to) ? ", overflow = sat" : pick(std::vector<std::string>{", overflow = sat", ", overflow = ieee"});
        }
        return add({to, t.shape}, "cast<" + to + ">({0}" + options + ")", {*a});
    }
    bool reduction() {
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
    bool order() {
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
    bool histogram() {
        const auto a = find([](const TileType& t) { return is_int(t.elem); });
        if (!a) return false;
        const int64_t bins = pick({1, 3, 8, 100});
        const std::string mask = chance(50) ? ", mask = cast<bool>({1}))" : ")";
        return add({"i32", {bins}}, "histogram({0}, " + std::to_string(bins) + mask, {*a, *find_mask(type(*a))});
    }
    /// Reductions and scans by functions of the program's own, which need not commute; over one tile, or two whose members go along.
    bool lambda() {
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
    static std::string with(std::string text, char hole, int64_t value) {
        for (size_t at; (at = text.find(hole)) != std::string::npos;) text.replace(at, 1, std::to_string(value));
        return text;
    }
    /// Tiles by their indices: permuted, shifted out of range, and sums that are no products, or not quite.
    bool index_form() {
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
    bool random_words() {
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
    /// Through a block format and back, or to its parts.
    bool blocks() {
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
    bool pairing() {
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
                return add(t, "split({0}, " + std::to_string(pieces) + ", axis = " + axis + ")." + std::to_string(below(static_cast<int>(pieces))),
                           {*a});
            }
            default:
                if (extent != 1 || t.shape.size() < 2) return false;
                t.shape.erase(t.shape.begin() + d);
                return add(t, "squeeze({0}, " + axis + ")", {*a});
        }
    }
    /// Part of a tile is replaced by a part of another, in strides of either sign.
    bool deposit() {
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
    /// A row of memory per program, read and written in parts that overlap.
    bool own_rows() {
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
    /// Writes what an input tensor was read from: its values stay what they were. Several programs would race.
    bool overwriting() {
        if (programs() != 1 || p_.inputs.empty()) return false;
        const auto i = static_cast<size_t>(below(static_cast<int>(p_.inputs.size())));
        const Input& in = p_.inputs[i];
        const auto v = find([&](const TileType& t) { return t.elem == in.tile.elem && t.shape.size() == in.tensor.size(); });
        std::string at;
        for (int64_t e : type(*v).shape) at += (at.empty() ? "" : ", ") + std::to_string(below(3)) + " +: " + std::to_string(e);
        return add(type(*v), "{ var acc = {0}; mem[" + at + "] = {0}; acc = mem[" + at + "]; acc }", {*v},
                   Memory{{in.tile.elem, in.tensor}, false, "", i});
    }
    /// Rows of a matrix that nobody writes, by numbers some of which are outside.
    bool picked_rows() {
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
    bool reshaping() {
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
    bool broadcasting() {
        const auto a = find([](const TileType& t) { return std::count(t.shape.begin(), t.shape.end(), 1) || t.shape.size() < 3; });
        if (!a) return false;
        TileType t = type(*a);
        for (int64_t& e : t.shape)
            if (e == 1) e = pick({2, 5, 8, 33});
        if (t.shape.size() < 3 && chance(60)) t.shape.insert(t.shape.begin(), pick({1, 2, 3, 8}));
        return add(t, "broadcast({0}, [" + list(t.shape) + "])", {*a});
    }
    bool parts() {
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
    std::string window(const std::vector<int64_t>& shape, int d) {
        std::string items;
        for (size_t i = 0; i < shape.size(); ++i) {
            const int64_t start = static_cast<int>(i) == d ? below(static_cast<int>(shape[i]) + 1) : 0;
            items += (items.empty() ? "" : ", ") + std::to_string(start) + " +: " + std::to_string(shape[i]);
        }
        return items;
    }
    bool gathering() {
        const auto a = find([](const TileType&) { return true; });
        const auto i = find([&](const TileType& t) { return is_int(t.elem) && t.shape == type(*a).shape; });
        if (!i) return false;
        const TileType t = type(*a);
        const int d = below(static_cast<int>(t.shape.size()));
        return add(t, "gather({0}, cast<i64>({1}) % " + std::to_string(t.shape[static_cast<size_t>(d)]) + ", " + std::to_string(d) + ")", {*a, *i});
    }
    bool product() {
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
    /// Scales are elements of the operands themselves; blocks need not nest.
    bool scaled_product(int a, int b) {
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
    bool looping() {
        const auto a = find(has_arithmetic);
        if (!a) return false;
        const TileType t = type(*a);
        const auto b = find([&](const TileType& o) { return o == t; });
        const std::string trips = pick(std::vector<std::string>{"3", "shift", "0", "pid + 1"});
        return add(t, "{ var acc = {0}; for i in 0 .. " + trips + " { acc = acc * cast<" + t.elem + ">(i) + {1}; } acc }", {*a, *b});
    }
    bool branching() {
        const auto a = find(has_arithmetic);
        if (!a) return false;
        const TileType t = type(*a);
        const auto b = find([&](const TileType& o) { return o == t; });
        return add(t, "{ var acc = {0}; if (pid + shift) % 2 == 0 { acc = acc + {1}; } else { acc = {1} - acc; } acc }", {*a, *b});
    }

    /// A loop whose end depends on the data, with a bound on its passes.
    bool repeating() {
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
    std::optional<int> find_mask(const TileType& t) {
        return find([&](const TileType& o) { return o.shape == t.shape; });
    }
    /// "0, 1, .." in the shape of t, forward or backward: one place per element.
    std::string places(const TileType& t) {
        const std::string n = std::to_string(elements(t.shape));
        return "reshape(" + std::string(chance(30) ? n + " - 1 - " : "") + "iota[" + n + "], [" + list(t.shape) + "])";
    }
    std::string program() const { return p_.grid.size() == 1 ? "pid" : "(pid * num_programs(1) + program_id(1))"; }
    int64_t programs() const { return elements(p_.grid); }

    /// Programs and lanes meet in the same elements, by an operation whose order cannot matter; the old values are not looked at.
    bool atomic() {
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
    /// Every lane has an element of its own, so that the old value is known.
    bool exchange() {
        const auto v = find([](const TileType& t) { return is_int(t.elem); });
        if (!v) return false;
        const TileType t = type(*v);
        const auto w = find([&](const TileType& o) { return o == t; });
        const std::string at = "(mem[" + program() + ", " + places(t) + "], ", mask = ", mask = cast<bool>({2}))";
        const std::string text = pick(std::vector<std::string>{"atomic_xchg" + at + "{0}" + mask, "atomic_cas" + at + "{1}, {0}" + mask,
                                                               "atomic_add" + at + "{0}" + mask, "atomic_max" + at + "{0}" + mask});
        return add(t, text, {*v, *w, *find_mask(t)}, Memory{{t.elem, {programs(), elements(t.shape)}}});
    }
    /// Loads from anywhere, scatters whose last value stays, stores to an element per lane.
    bool pointers() {
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
    /// A matrix product over K: tiles of two more inputs meet in a loop.
    void add_product_loop() {
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
        const int64_t k = std::max<int64_t>(1, step * pick({1, 2, 3, 4}) - pick({0, 0, 1, 8}));
        const auto number = [](int64_t v) { return std::to_string(v); };
        const auto a = static_cast<int>(p_.inputs.size());
        const bool named = chance(50);
        const auto input = [&](const char* elem, std::vector<int64_t> tile, std::vector<int64_t> tensor, const std::string& index,
                               const char* names) {
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
        add({o.sum, {m, n}},
            "{ var acc = " + (chance(80) ? "zeros" + sum : "full" + sum + "(3)") + "; for acck in 0 .. " + (named ? "K" : number(k)) + " step " +
                number(step) + (chance(30) ? " @ pipeline(" + number(pick({1, 2, 3})) + ")" : "") + " { acc = " + body + "; } acc }",
            {});
        if (p_.grid[0] * p_.grid[1] > 1 && chance(50)) p_.attributes += pick(std::vector<std::string>{" @ cluster(2, 1, 1)", " @ cluster(1, 2, 1)"});
        if (*o.decoded && chance(60)) p_.attributes += pick(std::vector<std::string>{" @ decode(shared)", " @ decode(register)"});
    }

    void choose_outputs() {
        std::vector<bool> used(static_cast<size_t>(values()));
        for (const Statement& s : p_.statements)
            for (int o : s.operands) used[static_cast<size_t>(o)] = true;
        for (int v = static_cast<int>(p_.inputs.size()); v < values(); ++v)
            if (!used[static_cast<size_t>(v)] || chance(15)) p_.outputs.push_back(v);
        if (p_.outputs.empty()) p_.outputs.push_back(values() - 1);
    }

    bool nan_bits_;
    uint64_t state_;
    Program p_;
};

}  // namespace

Program generate(uint64_t seed, bool nan_bits) { return Generator(seed, nan_bits).run(); }

}  // namespace tegula::diff
