// The program generator (generator.h).
#include "tests/diff/generator.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace tegula::diff {

namespace {

constexpr int64_t kMaxElements = 4096;

const std::vector<std::string> kFloats = {"f32", "f32", "f64", "f16", "bf16", "f8e4m3", "f8e5m2", "f6e2m3", "f4e2m1"};
const std::vector<std::string> kInts = {"i32", "u32", "i8", "u8", "i16", "u16", "i64", "u64", "i4", "u4", "i3", "u5", "u1", "i13", "u27", "i50"};

bool is_float(const std::string& t) { return t[0] == 'f' || t[0] == 'b' ? t != "bool" && t.substr(0, 5) != "fixed" : false; }
bool is_int(const std::string& t) { return t[0] == 'i' || t[0] == 'u'; }
bool is_unsigned(const std::string& t) { return t[0] == 'u'; }
int int_bits(const std::string& t) { return std::stoi(t.substr(1)); }

int64_t elements(const std::vector<int64_t>& shape) {
    int64_t n = 1;
    for (int64_t e : shape) n *= e;
    return n;
}

std::string list(const std::vector<int64_t>& v) {
    std::string out;
    for (int64_t e : v) out += (out.empty() ? "" : ", ") + std::to_string(e);
    return out;
}

class Generator {
public:
    explicit Generator(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x1234567) { p_.seed = seed; }
    Program run() {
        p_.grid = {pick({1, 1, 2, 3})};
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
    std::string pick(const std::vector<std::string>& v) { return v[static_cast<size_t>(below(static_cast<int>(v.size())))]; }

    std::string element() {
        const int r = below(20);
        return r < 9 ? pick(kFloats) : r < 18 ? pick(kInts) : r == 18 ? "bool" : "fixed<6, 6>";
    }
    std::vector<int64_t> shape() {
        std::vector<int64_t> s;
        const int rank = 1 + below(3);
        for (int d = 0; d < rank; ++d) s.push_back(pick({1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 32, 33, 48, 64, 127}));
        while (elements(s) > kMaxElements) *std::max_element(s.begin(), s.end()) = pick({1, 2, 3, 4});
        return s;
    }

    void add_input() {
        Input in;
        in.tile = {element(), shape()};
        for (int64_t e : in.tile.shape) {
            const int64_t start = below(3), stride = below(3);
            const int64_t extent = std::max<int64_t>(1, start + stride * (p_.grid[0] - 1) + e - pick({0, 0, 0, 1, 3}));
            const bool whole = chance(30);
            in.tensor.push_back(whole ? e : extent);
            in.index += (in.index.empty() ? "" : ", ") +
                        (whole ? ":" : "pid * " + std::to_string(stride) + " + " + std::to_string(start) + " +: " + std::to_string(e));
        }
        in.col = chance(20) && in.tensor.size() == 2;
        p_.inputs.push_back(in);
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
        static constexpr Make kMakers[] = {&Generator::arithmetic, &Generator::arithmetic,   &Generator::unary,      &Generator::compare,
                                           &Generator::choice,     &Generator::conversion,   &Generator::conversion, &Generator::reduction,
                                           &Generator::reduction,  &Generator::order,        &Generator::reshaping,  &Generator::reshaping,
                                           &Generator::parts,      &Generator::gathering,    &Generator::product,    &Generator::product,
                                           &Generator::looping,    &Generator::broadcasting, &Generator::function,   &Generator::branching,
                                           &Generator::repeating,  &Generator::atomic,       &Generator::exchange,   &Generator::pointers};
        (this->*kMakers[below(static_cast<int>(std::size(kMakers)))])();
    }

    static bool has_arithmetic(const TileType& t) { return t.elem != "bool"; }
    bool arithmetic() {
        const auto a = find(has_arithmetic);
        if (!a) return false;
        const TileType t = type(*a);
        const auto b = find([&](const TileType& o) { return o == t; });
        std::vector<std::string> ops = {"{0} + {1}",     "{0} - {1}",        "{0} * {1}",       "min({0}, {1})",
                                        "max({0}, {1})", "minnum({0}, {1})", "maxnum({0}, {1})"};
        if (is_float(t.elem)) ops.insert(ops.end(), {"{0} / {1}", "copysign({0}, select(isnan({1}), abs({0}), {1}))", "fma({0}, {1}, {0})"});
        if (is_int(t.elem))
            ops.insert(ops.end(), {"{0} / {1}", "{0} % {1}", "{0} & {1}", "{0} | {1}", "{0} ^ {1}", "{0} << {1}", "{0} >> {1}", "div_trunc({0}, {1})",
                                   "rem_trunc({0}, {1})", "div_ceil({0}, {1})", "fma({0}, {1}, {1})"});
        if (is_unsigned(t.elem)) ops.push_back("umulhi({0}, {1})");
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
        const auto a = find([](const TileType& t) { return (t.elem == "f32" || t.elem == "f16" || t.elem == "f64") && elements(t.shape) <= 1024; });
        return a &&
               add(type(*a),
                   pick(std::vector<std::string>{"exp({0})", "log({0})", "sin({0})", "tanh({0})", "rsqrt({0})", "exp2({0})", "sigmoid({0})"}), {*a});
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
            return int_bits(t.elem) > 1 && add({other, t.shape}, "bitcast<" + other + ">({0})", {*a});
        }
        const std::string to = element();
        std::string options;
        if (is_float(to) || to[0] == 'f') {
            if (chance(30)) options += ", round = " + pick(std::vector<std::string>{"rna", "rtz", "ru", "rd"});
            if (chance(30)) options += ", overflow = sat";
            if (chance(10)) options = ", round = stochastic, seed = " + std::to_string(below(1000));
        }
        if (t.elem == "bool" || to == "bool") options.clear();
        return add({to, t.shape}, "cast<" + to + ">({0}" + options + ")", {*a});
    }
    bool reduction() {
        const auto a = find([](const TileType&) { return true; });
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
        } else if (chance(50) && t.elem[1] != 'i') {
            op = chance(80) ? "sum" : "prod";
            if (is_float(t.elem) && t.elem != "f64") out.elem = "f32";
            if (is_int(t.elem) && int_bits(t.elem) < 32) out.elem = is_unsigned(t.elem) ? "u32" : "i32";
        } else {
            op = pick(std::vector<std::string>{"min", "max", "minnum", "maxnum"});
        }
        const bool scalar = out.shape.empty() || all;
        if (scalar) out.shape = {1};
        return add(out, scalar ? "broadcast(" + op + "({0}" + where + "), [1])" : op + "({0}" + where + ")", {*a});
    }
    bool order() {
        const auto a = find([](const TileType& t) { return t.elem != "bool" && t.elem.substr(0, 5) != "fixed" && elements(t.shape) <= 1024; });
        if (!a) return false;
        TileType t = type(*a);
        const std::string axis = ", axis = " + std::to_string(below(static_cast<int>(t.shape.size())));
        switch (below(3)) {
            case 0:
                return add(t, "sort({0}" + axis + (chance(50) ? ", descending = true)" : ")"), {*a});
            case 1:
                t.elem = "i32";
                return add(t, "argsort({0}" + axis + ")", {*a});
            default:
                if (is_float(t.elem) && t.elem != "f64") t.elem = "f32";
                if (is_int(t.elem) && int_bits(t.elem) < 32) t.elem = is_unsigned(t.elem) ? "u32" : "i32";
                return add(t, "cumsum({0}" + axis + (chance(50) ? ", reverse = true)" : ")"), {*a});
        }
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
        const auto a = find([](const TileType& t) { return t.elem.substr(0, 5) != "fixed"; });
        const auto i = a ? find([&](const TileType& t) { return is_int(t.elem) && t.shape == type(*a).shape; }) : std::nullopt;
        if (!i) return false;
        const TileType t = type(*a);
        const int d = below(static_cast<int>(t.shape.size()));
        return add(t, "gather({0}, cast<i64>({1}) % " + std::to_string(t.shape[static_cast<size_t>(d)]) + ", " + std::to_string(d) + ")", {*a, *i});
    }
    bool product() {
        static const std::vector<std::string> kOperands = {"f16", "bf16", "f32", "i8", "u8", "f8e4m3", "f8e5m2", "f64", "i4", "i32", "f4e2m1"};
        const auto a = find([](const TileType& t) {
            return t.shape.size() >= 2 && t.shape.size() <= 3 && std::count(kOperands.begin(), kOperands.end(), t.elem) && elements(t.shape) <= 2048;
        });
        if (!a) return false;
        const TileType t = type(*a);
        const size_t r = t.shape.size();
        const auto b = find([&](const TileType& o) {
            return o.elem == t.elem && o.shape.size() == r && o.shape[r - 1] == t.shape[r - 1] && (r == 2 || o.shape[0] == t.shape[0]);
        });
        if (r == 2 && t.elem != "f64" && t.elem != "i32" && chance(30)) return scaled_product(*a, *b);
        TileType out = t;
        out.elem = is_int(t.elem) ? (is_unsigned(t.elem) ? "u32" : "i32") : t.elem == "f64" ? "f64" : "f32";
        out.shape[r - 1] = type(*b).shape[r - 2];
        const auto c = find([&](const TileType& o) { return o == out; });
        if (c && chance(60)) return add(out, "dot({0}, trans({1}), {2})", {*a, *b, *c});
        return add(out, "dot({0}, trans({1}))", {*a, *b});
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
        const auto a =
            find([](const TileType& t) { return t.elem == "f32" || t.elem == "i32" || t.elem == "u8" || t.elem == "f16" || t.elem == "i64"; });
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
            p_.inputs.push_back({{elem, std::move(tile)}, std::move(tensor), index, chance(40), named ? names : ""});
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

    uint64_t state_;
    Program p_;
};

std::string colons(size_t rank) {
    std::string out;
    for (size_t d = 0; d < rank; ++d) out += d ? ", :" : ":";
    return out;
}

/// Replaces "{k}" by the name of operand k.
std::string fill(const std::string& text, const std::vector<int>& operands) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        const bool hole = text[i] == '{' && i + 2 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '9' && text[i + 2] == '}';
        if (!hole) {
            out += text[i];
            continue;
        }
        out += "v" + std::to_string(operands[static_cast<size_t>(text[i + 1] - '0')]);
        i += 2;
    }
    return out;
}

/// `let`, or for a text in braces (`{ var acc = ..; ..; acc }`) a variable written by its statements.
std::string statement_text(int value, const Statement& s) {
    const std::string name = "v" + std::to_string(value);
    const auto replace = [](std::string text, const std::string& what, const std::string& by) {
        for (size_t at; (at = text.find(what)) != std::string::npos;) text.replace(at, what.size(), by);
        return text;
    };
    const std::string text = replace(fill(s.text, s.operands), "mem", "m" + std::to_string(value));
    if (text[0] != '{') return "    let " + name + " = " + text + ";\n";
    return "    " + replace(text.substr(2, text.size() - 4 - 4), "acc", name) + "\n";  // without "{ " and " acc }"
}

/// Host text that makes the data of a tensor: every bit pattern of narrow types, moderate numbers and some special ones of wide floats.
std::string data_text(const std::string& t, const std::vector<int64_t>& extents, uint64_t seed) {
    const std::string shape = "[" + list(extents) + "]", key = "(seed = " + std::to_string(seed) + ")";
    if (t == "f32" || t == "f64" || t == "f16" || t == "bf16") {
        const std::string wide = t == "f64" ? "f64" : "f32";
        return "cast<" + t + ">(select(rand<f32>" + shape + "(seed = " + std::to_string(seed + 1) + ") < 0.9, randn<" + wide + ">" + shape + key +
               " * 4.0, randn<" + wide + ">" + shape + "(seed = " + std::to_string(seed + 2) + ") * 1e30 - select(rand<f32>" + shape +
               "(seed = " + std::to_string(seed + 3) + ") < 0.3, inf, 0.0)))";
    }
    return "cast<" + t + ">(randint<i64>" + shape + "(-300, 300, seed = " + std::to_string(seed) + "))";
}

}  // namespace

const TileType& Program::type(int value) const {
    const auto v = static_cast<size_t>(value);
    return v < inputs.size() ? inputs[v].tile : statements[v - inputs.size()].type;
}

std::string Program::text() const {
    const auto number = [](auto v) { return std::to_string(v); };
    std::string out = "// Program " + number(seed) + " of the differential fuzzer.\n\nkernel k(", data, arguments;
    for (size_t i = 0; i < inputs.size(); ++i) {
        const Input& in = inputs[i];
        const std::string name = "x" + number(i), layout = in.col ? " @ col" : "";
        out += name + ": tensor<" + in.tile.elem + ">[" + (in.names.empty() ? list(in.tensor) : in.names) + "]" + layout + ", ";
        data += "    let " + name + " = " + data_text(in.tile.elem, in.tensor, seed % 1000000 * 10 + i) + layout + ";\n";
        arguments += name + ", ";
    }
    out += "shift: i64";
    arguments += number(seed % 4);
    for (size_t s = 0; s < statements.size(); ++s) {
        if (!statements[s].memory) continue;
        const auto& [tile, pointer] = *statements[s].memory;
        const std::string name = "m" + number(inputs.size() + s);
        out += pointer ? ", " + name + ": ptr<" + tile.elem + ">" : ", inout " + name + ": tensor<" + tile.elem + ">[" + list(tile.shape) + "]";
        data += "    let " + name + " = " + data_text(tile.elem, tile.shape, seed % 1000000 * 10 + 5 + s) + ";\n";
        arguments += ", " + name;
    }
    std::string stores;
    for (size_t o = 0; o < outputs.size(); ++o) {
        const TileType& t = type(outputs[o]);
        std::vector<int64_t> shape = grid;
        shape.insert(shape.end(), t.shape.begin(), t.shape.end());
        const std::string name = "y" + number(o), storage = "<" + t.elem + ">[" + list(shape) + "]";
        out += ", out " + name + ": tensor" + storage;
        data += "    let " + name + " = empty" + storage + ";\n";
        arguments += ", " + name;
        stores +=
            "    " + name + "[pid, " + (grid.size() > 1 ? "program_id(1), " : "") + colons(t.shape.size()) + "] = v" + number(outputs[o]) + ";\n";
    }
    out += ")\n    grid [" + list(grid) + "]" + (schedule.empty() ? "" : "\n    schedule " + schedule) + attributes +
           "\n{\n    let pid = program_id(0);\n";
    for (size_t i = 0; i < inputs.size(); ++i) out += "    let v" + number(i) + " = x" + number(i) + "[" + inputs[i].index + "];\n";
    for (size_t s = 0; s < statements.size(); ++s) out += statement_text(static_cast<int>(inputs.size() + s), statements[s]);
    return out + stores + "}\n\ntest \"program " + number(seed) + "\" {\n" + data + "    k(" + arguments + ");\n}\n";
}

Program generate(uint64_t seed) { return Generator(seed).run(); }

namespace {

/// Without statement `s`, whose uses become `other`; nullopt when other comes later.
Program without(const Program& p, size_t s, int other) {
    Program q = p;
    const int gone = static_cast<int>(p.inputs.size() + s);
    q.statements.erase(q.statements.begin() + static_cast<long>(s));
    const auto moved = [&](int v) { return v == gone ? other : v > gone ? v - 1 : v; };
    for (Statement& t : q.statements)
        for (int& o : t.operands) o = moved(o);
    for (int& o : q.outputs) o = moved(o);
    return q;
}

}  // namespace

std::vector<Program> smaller(const Program& p) {
    std::vector<Program> out;
    for (size_t o = 0; p.outputs.size() > 1 && o < p.outputs.size(); ++o) {
        out.push_back(p);
        out.back().outputs.erase(out.back().outputs.begin() + static_cast<long>(o));
    }
    for (size_t s = p.statements.size(); s-- > 0;) {
        const int value = static_cast<int>(p.inputs.size() + s);
        bool used = std::count(p.outputs.begin(), p.outputs.end(), value) != 0;
        for (const Statement& t : p.statements) used |= std::count(t.operands.begin(), t.operands.end(), value) != 0;
        if (!used) {
            out.push_back(without(p, s, 0));
            continue;
        }
        for (int v = 0; v < value; ++v)
            if (p.type(v) == p.type(value)) {
                out.push_back(without(p, s, v));
                break;
            }
        const TileType& t = p.type(value);
        const std::string zeros = "zeros<" + t.elem + ">[" + list(t.shape) + "]";
        if (p.statements[s].text != zeros && t.elem != "bool") {
            out.push_back(p);
            out.back().statements[s].text = zeros;
            out.back().statements[s].operands.clear();
            out.back().statements[s].memory.reset();
        }
    }
    for (size_t axis = 0; axis < p.grid.size(); ++axis) {
        if (p.grid[axis] == 1) continue;
        out.push_back(p);
        out.back().grid[axis] = 1;
    }
    for (std::string Program::* clause : {&Program::schedule, &Program::attributes}) {
        if ((p.*clause).empty()) continue;
        out.push_back(p);
        (out.back().*clause).clear();
    }
    return out;
}

}  // namespace tegula::diff
