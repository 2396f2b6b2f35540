// Programs as a whole, and statements element by element (program_generator.h).
#include "tests/diff/program_generator.h"

#include <algorithm>

namespace tegula::diff {

std::string list(const std::vector<int64_t>& extents) {
    std::string out;
    for (int64_t e : extents) out += (out.empty() ? "" : ", ") + std::to_string(e);
    return out;
}

Program Generator::run() {
    p_.grid = {pick({1, 1, 2, 3, 6})};
    const bool loop = chance(20);
    if (loop) p_.grid = {pick({1, 2, 3}), pick({1, 2})};
    const int inputs = loop ? below(2) : 1 + below(3);
    for (int i = 0; i < inputs; ++i) add_input();
    if (loop) add_product_loop();
    if (chance(33)) {
        const std::string stretches = chance(50) ? std::to_string(pick({2, 3, 4})) : "step = " + std::to_string(loop_step_ * pick({1, 1, 2, 3}));
        p_.schedule = loop && chance(60) ? "split_k(" + stretches + ")" : "persistent";
    }
    if (chance(25)) p_.attributes += " @ warps(" + std::to_string(pick({1, 2, 4, 8})) + ")";
    const int count = 3 + below(12);
    for (int tries = 0; static_cast<int>(p_.statements.size()) < count && tries < 10 * count; ++tries) add_statement();
    choose_outputs();
    if (chance(15)) p_.output_layout = " @ col";
    return std::move(p_);
}

std::string Generator::element() {
    const int all = static_cast<int>(diff::elements().size());
    const int row = chance(25) ? kCommon + below(all - kCommon) : chance(50) ? below(kFloats) : below(kCommon);
    return diff::elements()[static_cast<size_t>(row)].name;
}

std::vector<int64_t> Generator::shape() {
    std::vector<int64_t> s;
    const int rank = 1 + below(3);
    for (int d = 0; d < rank; ++d) s.push_back(pick({1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 32, 33, 48, 64, 127}));
    while (elements(s) > kMaxElements) *std::max_element(s.begin(), s.end()) = pick({1, 2, 3, 4});
    if (chance(10)) s = {pick({16, 17, 33, 64, 127}), pick({2, 3, 4, 5})};  // records: complex numbers, pixels
    return s;
}

void Generator::add_input() {
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

std::string Generator::layout(const std::vector<int64_t>& extents) {
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

std::optional<int> Generator::find(const std::function<bool(const TileType&)>& wanted) {
    std::vector<int> fits;
    for (int v = 0; v < values(); ++v)
        if (wanted(type(v))) fits.push_back(v);
    if (fits.empty()) return std::nullopt;
    const int n = static_cast<int>(fits.size());
    return fits[static_cast<size_t>(std::max(below(n), below(n)))];
}

bool Generator::add(const TileType& t, const std::string& text, std::vector<int> operands, std::optional<Memory> memory) {
    if (elements(t.shape) > kMaxElements || t.shape.size() > 4) return false;
    p_.statements.push_back({t, text, std::move(operands), std::move(memory)});
    return true;
}

void Generator::add_statement() {
    using Make = bool (Generator::*)();
    static constexpr Make kMakers[] = {
        &Generator::arithmetic, &Generator::arithmetic, &Generator::unary,      &Generator::compare,      &Generator::choice,
        &Generator::conversion, &Generator::conversion, &Generator::reduction,  &Generator::reduction,    &Generator::order,
        &Generator::reshaping,  &Generator::reshaping,  &Generator::parts,      &Generator::gathering,    &Generator::product,
        &Generator::product,    &Generator::looping,    &Generator::function,   &Generator::broadcasting, &Generator::branching,
        &Generator::repeating,  &Generator::atomic,     &Generator::exchange,   &Generator::pointers,     &Generator::lambda,
        &Generator::lambda,     &Generator::index_form, &Generator::index_form, &Generator::random_words, &Generator::blocks,
        &Generator::pairing,    &Generator::deposit,    &Generator::own_rows,   &Generator::overwriting,  &Generator::picked_rows,
        &Generator::histogram,  &Generator::stepping,   &Generator::named_rows};
    (this->*kMakers[below(static_cast<int>(std::size(kMakers)))])();
}

bool Generator::arithmetic() {
    const auto a = find(has_arithmetic);
    if (!a) return false;
    const TileType t = type(*a);
    const auto b = find([&](const TileType& o) { return o == t; });
    std::vector<std::string> ops = {"{0} + {1}", "{0} - {1}", "{0} * {1}", "min({0}, {1})", "max({0}, {1})", "minnum({0}, {1})", "maxnum({0}, {1})"};
    if (is_float(t.elem)) ops.insert(ops.end(), {"{0} / {1}", "{0} % {1}", "copysign({0}, select(isnan({1}), abs({0}), {1}))", "fma({0}, {1}, {0})", "add({0}, {1}, round = ru)", "mul({0}, {1}, round = rtz)", "div({0}, {1}, round = rd)",
                              "fma({0}, {1}, {1}, round = rd)"});
    const std::vector<std::string> quotients = {"{0} / {1}", "{0} % {1}", "div_trunc({0}, {1})", "rem_trunc({0}, {1})", "div_ceil({0}, {1})"};
    if (is_int(t.elem)) {
        ops.insert(ops.end(), quotients.begin(), quotients.end());
        ops.insert(ops.end(), {"{0} & {1}", "{0} | {1}", "{0} ^ {1}", "{0} << {1}", "{0} >> {1}", "fma({0}, {1}, {1})"});
    }
    if (is_int(t.elem)) ops.push_back("mulhi({0}, {1})");
    if (is_unsigned(t.elem)) ops.push_back("umulhi({0}, {1})");
    if (t.elem[0] == 'l' || t.elem.starts_with("fxp")) ops.push_back("{0} / {1}");
    std::string text = pick(ops);
    if (nan_bits_ && *a == *b && text[0] == 'm') text = "{0} + {1}";  // the NaN of min(x, x) is not promised
    if (is_int(t.elem) && !t.shape.empty() && chance(20)) {           // what compilers know
        if (chance(60)) text = pick(quotients);
        const std::string axis = std::to_string(below(static_cast<int>(t.shape.size())));
        const std::string known = "cast<" + t.elem + ">(iota[" + list(t.shape) + "](axis = " + axis + ") * " +
                                  std::to_string(pick({1, 1, 2, -1, 3})) + " + " + std::to_string(pick({0, 0, -1, 1, -3, 100})) + ")";
        for (size_t at = text.find("{1}"); at != std::string::npos; at = text.find("{1}", at)) text.replace(at, 3, known);
    }
    return add(t, text, {*a, *b});
}

bool Generator::unary() {
    const auto a = find(has_arithmetic);
    if (!a) return false;
    const TileType t = type(*a);
    std::vector<std::string> ops = {"-{0}", "abs({0})"};
    if (is_float(t.elem)) ops.insert(ops.end(), {"sqrt({0})", "floor({0})", "ceil({0})", "trunc({0})", "round({0})"});
    if (is_int(t.elem)) ops.insert(ops.end(), {"~{0}", "popcount({0})", "clz({0})", "ctz({0})"});
    return add(t, pick(ops), {*a});
}

bool Generator::function() {
    const auto a = find([](const TileType& t) { return is_float(t.elem) && bits_of(t.elem) != 50 && elements(t.shape) <= 1024; });
    if (!a) return false;
    return add(type(*a),
               pick({"exp({0})", "log({0})", "sin({0})", "tanh({0})", "rsqrt({0})", "exp2({0})", "sigmoid({0})", "erf({0})", "cbrt({0})",
                     "log1p({0})", "atan({0})", "pow(abs({0}), {0})", "clamp({0}, -{0}, abs({0}))"}),
               {*a});
}

bool Generator::compare() {
    const auto a = find(has_arithmetic);
    if (!a) return false;
    const TileType t = type(*a);
    const auto b = find([&](const TileType& o) { return o == t; });
    std::vector<std::string> ops = {"{0} == {1}", "{0} != {1}", "{0} < {1}", "{0} <= {1}", "{0} > {1}", "{0} >= {1}"};
    if (is_float(t.elem)) ops.insert(ops.end(), {"isnan({0})", "isinf({1})", "isfinite({0})"});
    const std::string op = pick(ops);
    return add({"bool", t.shape}, op, {*a, *b});
}

bool Generator::choice() {
    const auto c = find([](const TileType& t) { return t.elem == "bool"; });
    if (!c) return compare();
    const auto a = find([&](const TileType& t) { return t.shape == type(*c).shape; });
    const TileType t = type(*a);
    const auto b = find([&](const TileType& o) { return o == t; });
    return add(t, "select({0}, {1}, {2})", {*c, *a, *b});
}

bool Generator::conversion() {
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
    if (nan_bits_ && to == t.elem) return false;
    std::string options;
    if (t.elem != "bool" && to != "bool") {
        if (chance(30)) options += ", round = " + pick(std::vector<std::string>{"rne", "rna", "rtz", "ru", "rd"});
        if (chance(10)) options = ", round = stochastic, seed = " + pick(std::vector<std::string>{std::to_string(below(1000)), "pid + shift"});
        if (chance(30)) options += is_int(to) ? ", overflow = sat" : pick(std::vector<std::string>{", overflow = sat", ", overflow = ieee"});
    }
    return add({to, t.shape}, "cast<" + to + ">({0}" + options + ")", {*a});
}

void Generator::choose_outputs() {
    std::vector<bool> used(static_cast<size_t>(values()));
    for (const Statement& s : p_.statements)
        for (int o : s.operands) used[static_cast<size_t>(o)] = true;
    for (int v = static_cast<int>(p_.inputs.size()); v < values(); ++v)
        if (!used[static_cast<size_t>(v)] || chance(15)) p_.outputs.push_back(v);
    if (p_.outputs.empty()) p_.outputs.push_back(values() - 1);
}

Program generate(uint64_t seed, bool nan_bits) { return Generator(seed, nan_bits).run(); }

}  // namespace tegula::diff
