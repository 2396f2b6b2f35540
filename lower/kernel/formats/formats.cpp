// Formats: elementwise ops as C++ expressions, straight from the columns of ops.def. A row of operators and calls in
// which each operand stands once is substituted into the expression; the others become a device function of the kernel,
// one per op and format. Formats: formats/values.cpp and formats/cast.cpp.
#include "lower/kernel/formats/formats.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lang/check.h"
#include "lang/joining.h"
#include "lang/one_rounding.h"
#include "lang/plain_text.h"
#include "lang/scalar.h"
#include "lower/kernel/formats/text.h"

namespace tegula::lower {

using text::is_identifier;
using text::replace_all;
using text::replace_word;

namespace {

constexpr int uses(std::string_view expression, char operand) {
    int n = 0;
    for (size_t i = 0; i < expression.size(); ++i)
        n += expression[i] == operand && (i == 0 || !is_identifier(expression[i - 1])) &&
             (i + 1 == expression.size() || !is_identifier(expression[i + 1]));
    return n;
}

/// Each operand stands at most once and nothing else is named that only a function body has.
constexpr bool substitutes(std::string_view expression) {
    return uses(expression, 'a') <= 1 && uses(expression, 'b') <= 1 && uses(expression, 'c') <= 1 &&
           uses(expression, 'T') == 0 && uses(expression, 'N') == 0;
}

/// May the row be computed on unsigned containers, whatever the sign? (Only sums, products and bit operations on
/// operands.)
constexpr bool is_ring(std::string_view expression) {
    return std::all_of(expression.begin(), expression.end(), [](char c) {
        return c == 'a' || c == 'b' || c == 'c' || c == ' ' || c == '+' || c == '-' || c == '*' || c == '&' ||
               c == '|' || c == '^' || c == '~';
    });
}

/// A row's expressions, and what they allow.
struct OpText {
    std::string_view integer, real;
    bool ring, substitutes;  ///< of the integers' expression
    constexpr OpText(std::string_view of_integers, std::string_view of_floats)
        : integer(of_integers),
          real(of_floats),
          ring(is_ring(of_integers)),
          substitutes(lower::substitutes(of_integers)) {}
};
constexpr OpText kTexts[] = {
#define ELEMENTWISE(name, arity, domain, result, cost, int_expr, float_expr, doc) OpText(#int_expr, #float_expr),
#define STRUCTURED(...) OpText("", ""),
#include "lang/ops.def"
};

/// Is it the constant whose code in integers of this width is `code`?
bool is_constant(const Known& operand, const Format& f, uint64_t code) {
    return operand.code && scalar::wrap(*operand.code, f.bits, false) == scalar::wrap(code, f.bits, false);
}
bool is_zero(const Known& operand, const Format& f) { return is_constant(operand, f, 0); }
/// -1 modulo the powers of two that products wrap at: all ones, of unsigned integers, too.
bool is_minus_one(const Known& operand, const Format& f) { return is_constant(operand, f, ~uint64_t{0}); }

/// The exponent of a positive power of two; -1: the operand is something else.
int power_of_two(const Known& operand, const Format& f) {
    if (!operand.code || !f.is_int()) return -1;
    const auto code = static_cast<uint64_t>(scalar::wrap(*operand.code, f.bits, false));
    const int shift = std::countr_zero(code);
    return std::has_single_bit(code) && !(f.is_signed && shift == f.bits - 1) ? shift : -1;
}

std::string substitute(std::string_view expression, std::span<const std::string> operands) {
    std::string out;
    for (size_t i = 0; i < expression.size(); ++i) {
        const size_t k = static_cast<size_t>(expression[i] - 'a');
        const bool word = (i == 0 || !is_identifier(expression[i - 1])) &&
                          (i + 1 == expression.size() || !is_identifier(expression[i + 1]));
        if (word && k < operands.size())
            out += operands[k];
        else
            out += expression[i];
    }
    return out;
}

/// Is the whole text one call, so that parentheses around it would only be noise?
bool is_call(std::string_view e) {
    size_t i = 0;
    while (i < e.size() && is_identifier(e[i])) ++i;
    if (i == 0 || i >= e.size() || e[i] != '(') return false;
    int depth = 0;
    for (; i < e.size(); ++i) {
        depth += e[i] == '(' ? 1 : e[i] == ')' ? -1 : 0;
        if (depth == 0) return i + 1 == e.size();
    }
    return false;
}

std::string in_parentheses(std::string e) { return is_call(e) ? e : "(" + std::move(e) + ")"; }

/// Functions of the standard library in the rows: what kernels call for them, of floats and of doubles.
struct RealName {
    std::string_view row, of_float, of_double;
};
#define MATH(name) {"std::" #name "(", #name "f(", #name "("}
#define TEST(name, test) {"std::" #name "(", #test "(", #test "("}
constexpr RealName kRealNames[] = {
    MATH(fabs),
    MATH(fma),
    MATH(sqrt),
    MATH(floor),
    MATH(ceil),
    MATH(trunc),
    MATH(nearbyint),
    MATH(copysign),
    MATH(exp2),
    MATH(log2),
    MATH(sin),
    MATH(cos),
    MATH(tanh),
    TEST(isnan, is_nan),
    TEST(isinf, is_inf),
    TEST(isfinite, is_finite),
    TEST(signbit, sign_bit),
};
#undef MATH
#undef TEST

std::string real_names(std::string_view expression, bool is_float) {
    std::string out(expression);
    for (const RealName& name : kRealNames) replace_all(out, name.row, is_float ? name.of_float : name.of_double);
    return out;
}

/// Sections of device text that the functions of a row live in; null: it calls none of ours.
const char* integer_section(ir::Op op) {
    switch (op) {
        case ir::Op::abs:
            return "integer";
        case ir::Op::div:
        case ir::Op::rem:
        case ir::Op::div_trunc:
        case ir::Op::rem_trunc:
        case ir::Op::div_ceil:
            return "divide";
        case ir::Op::umulhi:
        case ir::Op::mulhi:
        case ir::Op::shl:
        case ir::Op::shr:
        case ir::Op::popcount:
        case ir::Op::clz:
        case ir::Op::ctz:
            return "integer_bits";
        default:
            return nullptr;
    }
}
const char* real_section(ir::Op op) {
    switch (op) {
        case ir::Op::min:
        case ir::Op::max:
        case ir::Op::minnum:
        case ir::Op::maxnum:
            return "float_order";
        case ir::Op::isnan:
        case ir::Op::isinf:
        case ir::Op::isfinite:
        case ir::Op::signbit:
            return "float_tests";
        case ir::Op::flush_subnormal:
            return "flush";
        default:
            return nullptr;
    }
}

}  // namespace

// ---- sections ----

std::string Formats::opaque(const std::string& integer) {
    need("opaque");
    return "opaque(" + integer + ")";
}

bool Formats::first(const std::string& function) { return defined_.insert(function).second; }

void Formats::need(std::string_view section) {
    if (std::ranges::find(sections_, section) == sections_.end()) sections_.emplace_back(section);
}

void Formats::define(const std::string& key, const std::string& text) {
    if (first(key)) functions_ += text;
}

// ---- elementwise ----

std::string Formats::elementwise(ir::Op op, const Format& f, std::span<const Known> operands) {
    const ir::OpRow& row = ir::op_row(op);
    TEGULA_CHECK((row.traits & ir::ELEMWISE) && operands.size() == static_cast<size_t>(row.operands) &&
                     ir::in_domain(op, f, false),
                 row.name);
    switch (work(f)) {
        case Work::real32:
        case Work::real64:
            return float_expression(op, f, operands);
        case Work::fixed:
            return fixed_expression(op, f, operands);
        case Work::integer:
        case Work::boolean:
            break;
    }
    return int_expression(op, f, operands);
}

std::string Formats::int_expression(ir::Op op, const Format& f, std::span<const Known> operands) {
    const OpText& row = kTexts[static_cast<size_t>(op)];
    std::string e(row.integer);
    const bool boolean = ir::op_row(op).result == ir::ResultRule::boolean, is_signed = f.is_signed && !f.is_bool(),
               wide = f.bits > 32;
    const std::string U = wide ? "unsigned long long" : "unsigned", T = !is_signed ? U : wide ? "long long" : "int";
    // Differences from zero and products with -1 would become sign changes in the compiler.
    const bool from_zero = op == ir::Op::sub && is_zero(operands[0], f);
    const int changed = op == ir::Op::neg                                                  ? 0
                        : from_zero || (op == ir::Op::mul && is_minus_one(operands[0], f)) ? 1
                                                                                           : -1;
    if (changed >= 0 || (op == ir::Op::mul && is_minus_one(operands[1], f))) {
        need("integer");
        return from_bits(
            f, "opposite((" + U + ")" + text::atom(operands[static_cast<size_t>(std::max(changed, 0))].text) + ")");
    }
    if ((op == ir::Op::max || op == ir::Op::maxnum) && is_signed && !wide &&
        (is_zero(operands[0], f) || is_zero(operands[1], f))) {
        need("integer");
        return from_bits(f, "positive_part(" + operands[is_zero(operands[0], f)].text + ")");
    }
    if (const int shift = power_of_two(operands.back(), f); shift >= 0 && (op == ir::Op::div || op == ir::Op::rem)) {
        const std::string by = op == ir::Op::div
                                   ? " >> " + std::to_string(shift)
                                   : " & " + std::to_string((uint64_t{1} << shift) - 1) + (wide ? "ull" : "u");
        return from_bits(f, "((" + T + ")" + text::atom(operands[0].text) + by + ")");
    }
    if (row.ring && row.substitutes) {
        std::vector<std::string> as_unsigned;
        const bool plain = type(f) == U;
        for (const Known& o : operands) as_unsigned.push_back((plain ? "" : "(" + U + ")") + text::atom(o.text));
        return from_bits(f, "(" + substitute(e, as_unsigned) + ")");
    }
    if (boolean && row.substitutes) {
        std::vector<std::string> atoms;
        for (const Known& o : operands) atoms.push_back(text::atom(o.text));
        return in_parentheses(substitute(e, atoms));
    }
    const std::string name = std::string(ir::op_row(op).name) + "_" + tag(f);
    std::string call = name + "(";
    for (size_t i = 0; i < operands.size(); ++i) call += (i ? ", " : "") + operands[i].text;
    call += ")";
    if (!first(name)) return call;
    // A sign change of the most negative number must wrap.
    replace_all(e, "-a", "negate(a)");
    replace_word(e, "N", std::to_string(f.bits));
    if (!is_signed) replace_all(e, "a < 0", "false");  // compilers warn of it
    if (const char* section = integer_section(op)) need(section);
    std::string parameters;
    for (size_t i = 0; i < operands.size(); ++i) parameters += (i ? ", " : "") + T + " " + static_cast<char>('a' + i);
    functions_ += "__device__ __forceinline__ " + (boolean ? "bool" : type(f)) + " " + name + "(" + parameters +
                  ") { return " + (boolean ? e : from_bits(f, "(" + e + ")")) + "; }\n";
    return call;
}

/// By the machine's instructions on float or double, and rounded the same way to the format.
std::string Formats::directed_expression(ir::Op op, const Format& f, std::span<const Known> operands) {
    need("directed");
    std::string call = std::string(ir::op_row(op).name) + "(";
    for (size_t i = 0; i < operands.size(); ++i) call += (i ? ", " : "") + value(f, operands[i].text);
    call += ")";
    if (text::is_native_float(f)) return call;
    Format wide = work(f) == Work::real32 ? float_format(8, 23) : float_format(11, 52);
    wide.name = canonical_name(wide);
    return cast(f, wide, call, {.round = ir::rounded_op(op).round});
}

std::string Formats::float_expression(ir::Op op, const Format& f, std::span<const Known> operands) {
    if (ir::is_directed(op)) return directed_expression(op, f, operands);
    if (op == ir::Op::flush_subnormal && !text::is_native_float(f)) {
        need("flush");
        const bool in_float = work(f) == Work::real32;
        const std::string least = hex_float_text(std::ldexp(1.0, Grid(f).min_exponent)) + (in_float ? "f" : "");
        return nearest(f, "flush_below(" + value(f, operands[0].text) + ", " + least + ")", in_float);
    }
    const bool native = text::is_native_float(f), boolean = ir::op_row(op).result == ir::ResultRule::boolean,
               is_float = work(f) == Work::real32;
    const std::string T = is_float ? "float" : "double", op_name = ir::op_row(op).name;
    std::string e = real_names(kTexts[static_cast<size_t>(op)].real, is_float);
    std::string call = op_name + "_" + tag(f) + "(";
    for (size_t i = 0; i < operands.size(); ++i) call += (i ? ", " : "") + operands[i].text;
    call += ")";
    if (text::has_instruction(op, f)) {
        need(text::own_section(f));
        return call;
    }
    if (scalar::wide_f32(op) && is_float) {  // the hardware's approximations
        need("fast");
        e = op_name + "(a)";
    } else if (!native && rounds_twice(op, f)) {
        const Grid grid(f);
        if (grid.rounds_from_double()) {
            need("fma_odd");
            e = "fma_round_odd(a, b, c)";
        } else {
            need("one_rounding");
            e = op_name + "_once(" + std::string("a, b, c, ").substr(0, operands.size() * 3) +
                std::to_string(grid.man_bits) + ", " + std::to_string(grid.min_exponent) + ")";
        }
    } else if (op == ir::Op::rem) {
        need("float_remainder");
    }
    const bool wide_fma = op == ir::Op::fma && !native;
    if (const char* section = real_section(op)) need(section);
    if (substitutes(e)) {
        std::vector<std::string> values;
        for (const Known& o : operands) values.push_back(native ? text::atom(o.text) : value(f, o.text));
        const std::string r = in_parentheses(substitute(e, values));
        return native || boolean ? r : nearest(f, r, is_float && !wide_fma);
    }
    if (!first(op_name + "_" + tag(f))) return call;
    std::string parameters, locals;
    for (size_t i = 0; i < operands.size(); ++i) {
        const std::string v(1, static_cast<char>('a' + i));
        parameters += (i ? ", " : "") + type(f) + " " + v + (native ? "" : "_code");
        if (!native) locals += "const " + T + " " + v + " = " + value(f, v + "_code") + "; ";
    }
    replace_word(e, "T", T);
    const std::string result = native || boolean ? e : nearest(f, in_parentheses(e), is_float);
    functions_ += "__device__ __forceinline__ " + (boolean ? "bool" : type(f)) + " " + op_name + "_" + tag(f) + "(" +
                  parameters + ") { " + locals + "return " + result + "; }\n";
    return call;
}

std::string Formats::fixed_expression(ir::Op op, const Format& f, std::span<const Known> operands) {
    const std::string width = std::to_string(f.bits), sign = f.is_signed ? "true" : "false";
    const auto raw = [&](size_t i) { return "(long long)" + text::atom(operands[i].text); };
    const auto saturated = [&](const std::string& e) {
        need("fixed");
        return "(" + type(f) + ")fixed_saturate(" + e + ", " + width + ", " + sign + ")";
    };
    switch (op) {
        case ir::Op::add:
            return saturated(raw(0) + " + " + raw(1));
        case ir::Op::sub:
            return saturated(raw(0) + " - " + raw(1));
        case ir::Op::neg:
            return saturated("-" + raw(0));
        case ir::Op::abs:
            return saturated("fixed_magnitude(" + raw(0) + ")");
        case ir::Op::mul:
        case ir::Op::div:
            need("fixed");
            return "(" + type(f) + ")" + (op == ir::Op::mul ? "fixed_mul(" : "fixed_div(") + operands[0].text + ", " +
                   operands[1].text + ", " + width + ", " + std::to_string(f.frac_bits) + ", " + sign + ")";
        default:
            return int_expression(op, f, operands);
    }
}

std::string Formats::combine(ir::ReduceKind kind, const Format& f, const std::string& a, const std::string& b) {
    const Known operands[2] = {a, b};
    return elementwise(ir::joining_op(kind, f), f, operands);
}

std::string Formats::fma(const Format& f, const std::string& a, const std::string& b, const std::string& c) {
    const Known operands[3] = {a, b, c};
    if (f.is_int() || f.is_float()) return elementwise(ir::Op::fma, f, operands);
    const Known sum[2] = {c, elementwise(ir::Op::mul, f, {operands, 2})};
    return elementwise(ir::Op::add, f, sum);
}

}  // namespace tegula::lower
