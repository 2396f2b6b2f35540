// Operations with constants (constants.h).
#include "tests/diff/constants.h"

#include <algorithm>
#include <random>

#include "tests/diff/generator.h"

namespace tegula::diff {

namespace {

constexpr size_t kElements = 128, kFormatsAtOnce = 12, kSampled = 10;
constexpr size_t kDrawn = 6, kDrawnReals = 24;  ///< constants of each operation, where all are taken: beside those that always are, and of reals
/// Codes that every operation meets on both sides where all are taken: -1 of several widths, and what lies beside it.
constexpr uint64_t kAlways[] = {0, 1, ~uint64_t{0}, 0xff, 0x100, 0xffff, 0x10000, 0x7fffffff, 0xffffffff, uint64_t{1} << 32};

struct Operation {
    const char* text;  ///< of two operands, a and b
    bool compares = false;
};
constexpr Operation kEverywhere[] = {{"a + b"},       {"a - b"},        {"a * b"},        {"a / b"},        {"min(a, b)"},
                                     {"max(a, b)"},   {"minnum(a, b)"}, {"maxnum(a, b)"}, {"a == b", true}, {"a != b", true},
                                     {"a < b", true}, {"a <= b", true}, {"a > b", true},  {"a >= b", true}};
constexpr Operation kIntegers[] = {{"a % b"}, {"div_trunc(a, b)"}, {"rem_trunc(a, b)"}, {"div_ceil(a, b)"}, {"a & b"},
                                   {"a | b"}, {"a ^ b"},           {"a << b"},          {"a >> b"}};

/// A constant as the kernel writes it, and as an element of `codes` or `values`, which hold what is compared with.
struct Constant {
    std::string text;
    bool is_code;
    uint64_t code = 0;
    std::string value = "0.0";
};

class Sweep {
public:
    Sweep(uint64_t number, bool all, bool twins) : random_(number * 1000003 + all), all_(all), twins_(twins) {}
    std::string program(uint64_t number) {
        const std::vector<Element> formats = constant_formats();
        const size_t first = number * (all_ ? 1 : kFormatsAtOnce), end = std::min(first + (all_ ? 1 : kFormatsAtOnce), formats.size());
        for (size_t i = first; i < end; ++i) format(formats[i], std::to_string(i));
        return "// Operations with constants, program " + std::to_string(number) + ".\n\n" + types_ + "\nkernel k(" + parameters_ + ") grid [1] {\n" +
               body_ + "}\n" + twin_kernels_ + "\ntest \"constants " + std::to_string(number) + "\" {\n" + data_ + "    k(" + arguments_ + ");\n" +
               twin_launches_ + "}\n";
    }

private:
    uint64_t below(uint64_t n) { return random_() % n; }
    template <class List>
    auto pick(const List& list) {
        return list[below(std::size(list))];
    }
    static uint64_t mask(int bits) { return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }
    uint64_t random_code(int bits) { return random_() >> below(64) & mask(bits); }

    /// Numbers at which something changes, also those that look like others of a narrower width.
    uint64_t edge(int bits) {
        static constexpr int kWords[] = {1, 7, 8, 15, 16, 24, 31, 32, 33, 48, 63};
        const int k = below(2) ? pick(kWords) % bits : static_cast<int>(below(static_cast<uint64_t>(bits)));
        const uint64_t power = uint64_t{1} << k, top = uint64_t{1} << (bits - 1);
        const uint64_t edges[] = {0, 1, ~uint64_t{0}, power, power - 1, 0 - power, ~power, top, top - 1, top + 1, ~uint64_t{1}, random_code(bits)};
        return pick(edges) & mask(bits);
    }
    static Constant integer(const Element& e, uint64_t code) {
        const bool negative = e.name[0] == 'i' && code >> (e.bits - 1);
        const std::string digits = std::to_string(negative ? (0 - code) & mask(e.bits) : code);
        return {negative ? "(-" + digits + ")" : digits, true, code};
    }
    Constant constant(const Element& e, bool shift) {
        if (e.kind == Kind::integer) return integer(e, shift ? below(static_cast<uint64_t>(e.bits) + 2) & mask(e.bits) : edge(e.bits));
        if (below(3) == 0) {
            const uint64_t code = random_() & mask(e.bits);
            return {"bitcast<" + e.name + ">(cast<u" + std::to_string(e.bits) + ">(" + std::to_string(code) + "))", true, code};
        }
        static constexpr const char* kValues[] = {"0.0", "-0.0", "1.0", "-1.0", "2.0", "0.5", "-0.5", "3.0", "7.0", "255.0", "1024.0", "0.1"};
        const std::string value = pick(kValues);
        return {"cast<" + e.name + ">(" + value + ")", false, 0, value};
    }

    static std::string replaced(const std::string& text, const std::string& a, const std::string& b) {
        std::string out;
        for (size_t i = 0; i < text.size(); ++i) {  // operands stand between blanks, parentheses and commas
            const bool word = (i == 0 || std::string_view(" (").find(text[i - 1]) != std::string_view::npos) &&
                              (i + 1 == text.size() || std::string_view(" ),").find(text[i + 1]) != std::string_view::npos);
            out += word && text[i] == 'a' ? a : word && text[i] == 'b' ? b : std::string(1, text[i]);
        }
        return out;
    }

    /// Adds "v op constant" or "constant op v" as the next row.
    void row(const std::string& n, const Operation& op, bool left, const Constant& c) {
        const bool first = below(2);
        const std::string v = (first ? "v" : "w") + n, other = (first ? "w" : "v") + n;
        const auto text = [&](const std::string& by) {
            const std::string result = left ? replaced(op.text, by, v) : replaced(op.text, v, by);
            return op.compares ? "select(" + result + ", " + v + ", " + other + ")" : result;
        };
        const std::string r = std::to_string(rows_++);
        body_ += "    y" + n + "[" + r + ", :] = " + text(c.text) + ";\n";
        twin_ += "    y" + n + "[" + r + ", :] = " + text((c.is_code ? "codes[" : "values[") + r + "]") + ";\n";
        codes_ += (codes_.empty() ? "" : ", ") + std::to_string(static_cast<int64_t>(c.code));
        values_ += (values_.empty() ? "" : ", ") + c.value;
    }

    void rows(const Element& e, const std::string& n) {
        std::vector<Operation> ops(std::begin(kEverywhere), std::end(kEverywhere));
        if (e.kind == Kind::integer) ops.insert(ops.end(), std::begin(kIntegers), std::end(kIntegers));
        if (e.kind == Kind::floating) ops.push_back({"a % b"});
        const auto is_shift = [](const Operation& op) { return std::string_view(op.text) == "a << b" || std::string_view(op.text) == "a >> b"; };
        for (size_t o = 0; all_ && o < ops.size(); ++o) {
            const bool whole = e.kind == Kind::integer;
            for (size_t k = 0; whole && k < 2 * std::size(kAlways); ++k) row(n, ops[o], k % 2, integer(e, kAlways[k / 2] & mask(e.bits)));
            for (size_t k = 0; k < (whole ? kDrawn : kDrawnReals); ++k) row(n, ops[o], k % 2, constant(e, k % 2 == 0 && is_shift(ops[o])));
        }
        if (all_) return;
        if (e.kind == Kind::integer)  // products with what is -1 in this width, and in half of it
            for (const int bits : {e.bits, e.bits > 32 ? 32 : (e.bits + 1) / 2}) row(n, kEverywhere[2], below(2), integer(e, mask(bits)));
        for (size_t k = 0; k < kSampled; ++k) {
            const Operation op = pick(ops);
            const bool left = below(2);
            row(n, op, left, constant(e, !left && is_shift(op)));
        }
    }

    /// Host text: a tensor of the codes.
    static std::string of_codes(const Element& e, const std::string& list) {
        return "bitcast<" + e.name + ">(cast<u" + std::to_string(e.bits) + ">(bitcast<u64>(tile_of<i64>([" + list + "]))))";
    }

    void format(const Element& e, const std::string& n) {
        if (*e.declared) types_ += "type " + e.name + " = " + e.declared + ";\n";
        std::string codes, values;
        for (size_t i = 0; i < kElements; ++i) {
            codes += (i ? ", " : "") + std::to_string(static_cast<int64_t>(below(3) ? random_code(e.bits) : edge(e.bits)));
            const int64_t halves = static_cast<int64_t>(below(160)) - (e.name[0] == 'u' ? 0 : 80);
            values += (i ? ", " : "") + std::to_string(halves) + " / 2.0";
        }
        const std::string whole = "[" + std::to_string(kElements) + "]", out = "[" + std::to_string(kElements) + "], ";
        parameters_ += (parameters_.empty() ? "x" : ", x") + n + ": tensor<" + e.name + ">" + out + "z" + n + ": tensor<" + e.name + ">" + whole;
        arguments_ += (arguments_.empty() ? "x" : ", x") + n + ", z" + n + ", y" + n;
        const std::string loads = "    let (v" + n + ", w" + n + ") = (x" + n + "[:], z" + n + "[:]);\n";
        body_ += loads;
        rows_ = 0;
        twin_.clear(), codes_.clear(), values_.clear();
        rows(e, n);
        const std::string shape = "[" + std::to_string(rows_) + ", " + std::to_string(kElements) + "]";
        parameters_ += ", out y" + n + ": tensor<" + e.name + ">" + shape;
        data_ += "    let x" + n + " = " + of_codes(e, codes) + ";\n    let z" + n + " = cast<" + e.name + ">(tile_of<f64>([" + values +
                 "]));\n    let y" + n + " = empty<" + e.name + ">" + shape + ";\n";
        if (twins_) twin(e, n, shape, loads);
    }

    /// The same operations with operands from memory, and that their results have the same bits. Which NaN they are is not promised: an operation
    /// without effect may leave its operand.
    void twin(const Element& e, const std::string& n, const std::string& shape, const std::string& loads) {
        const std::string t = "tensor<" + e.name + ">", x = "[" + std::to_string(kElements) + "]", c = "[" + std::to_string(rows_) + "]";
        twin_kernels_ += "\nkernel twin" + n + "(x" + n + ": " + t + x + ", z" + n + ": " + t + x + ", codes: " + t + c + ", values: " + t + c +
                         ", out y" + n + ": " + t + shape + ") grid [1] {\n" + loads + twin_ + "}\n";
        const auto bits = [&](const std::string& v) {
            const std::string u = "u" + std::to_string(e.bits), code = "bitcast<" + u + ">(" + v + n + ")";
            return e.kind == Kind::floating ? "select(isnan(" + v + n + "), cast<" + u + ">(0), " + code + ")" : code;
        };
        twin_launches_ += "    let t" + n + " = empty<" + e.name + ">" + shape + ";\n    twin" + n + "(x" + n + ", z" + n + ", " +
                          of_codes(e, codes_) + ", cast<" + e.name + ">(tile_of<f64>([" + values_ + "])), t" + n + ");\n    assert_equal(" +
                          bits("y") + ", " + bits("t") + ");\n";
    }

    std::mt19937_64 random_;
    bool all_, twins_;
    int rows_ = 0;
    std::string types_, parameters_, body_, data_, arguments_, twin_, codes_, values_, twin_kernels_, twin_launches_;
};

}  // namespace

std::vector<Element> constant_formats() {
    std::vector<Element> out;
    for (int bits = 1; bits <= 64; ++bits)
        for (const char* sign : {"i", "u"}) out.push_back({sign + std::to_string(bits), Kind::integer, bits});
    for (const Element& e : elements())
        if (e.kind == Kind::floating || e.kind == Kind::fixed || e.kind == Kind::logarithm) out.push_back(e);
    return out;
}

uint64_t constant_programs(bool all) { return all ? constant_formats().size() : (constant_formats().size() + kFormatsAtOnce - 1) / kFormatsAtOnce; }

std::string constant_program(uint64_t number, bool all, bool twins) { return Sweep(number, all, twins).program(number); }

}  // namespace tegula::diff
