// Expressions as C text. Parentheses stand where C needs them, and where compilers and readers ask for them: sums that
// are shifted or masked, masks within other bit operations, && within ||.
#include <algorithm>

#include "lang/kernel/expr.h"

namespace tegula::kernel {

namespace {

struct Spelling {
    const char* text;
    int strength;  ///< C's precedence: larger binds tighter
};

constexpr int kPrimary = 16, kUnary = 14, kProduct = 13, kSum = 12, kShift = 11, kAnd = 8, kXor = 7, kOr = 6,
              kConditional = 3, kComma = 1;

Spelling spelling(Op op) {
    switch (op) {
        case Op::add:
            return {"+", kSum};
        case Op::sub:
            return {"-", kSum};
        case Op::mul:
            return {"*", kProduct};
        case Op::div:
            return {"/", kProduct};
        case Op::rem:
            return {"%", kProduct};
        case Op::shl:
            return {"<<", kShift};
        case Op::shr:
            return {">>", kShift};
        case Op::bit_and:
            return {"&", kAnd};
        case Op::bit_or:
            return {"|", kOr};
        case Op::bit_xor:
            return {"^", kXor};
        case Op::lt:
            return {"<", 10};
        case Op::le:
            return {"<=", 10};
        case Op::gt:
            return {">", 10};
        case Op::ge:
            return {">=", 10};
        case Op::eq:
            return {"==", 9};
        case Op::ne:
            return {"!=", 9};
        case Op::both:
            return {"&&", 5};
        case Op::either:
            return {"||", 4};
        default:
            return {"", kPrimary};
    }
}

std::string constant_text(Type type, int64_t v) {
    switch (type) {
        case Type::pred:
            return v ? "true" : "false";
        case Type::i32:
            return v == INT32_MIN ? "(-2147483647 - 1)" : std::to_string(v);
        case Type::u32:
            return std::to_string(v) + "u";
        case Type::u64:
            return std::to_string(static_cast<uint64_t>(v)) + "ull";
        default:
            return v == INT64_MIN ? "(-9223372036854775807ll - 1)" : std::to_string(v) + "ll";
    }
}

bool is_negative(const Node& n) {
    const int64_t least = n.type == Type::i32 ? INT32_MIN : INT64_MIN;
    return n.op == Op::constant && is_signed(n.type) && n.value < 0 && n.value != least;
}

int strength(const Node& n) {
    switch (n.op) {
        case Op::constant:
            return is_negative(n) ? kUnary : kPrimary;
        case Op::text:
            return n.value ? kPrimary : kComma;
        case Op::call:
        case Op::uniform:
        case Op::index:
            return kPrimary;
        case Op::cast:
        case Op::pointee:
        case Op::negate:
        case Op::invert:
            return kUnary;
        case Op::select:
            return kConditional;
        default:
            return spelling(n.op).strength;
    }
}

class Printer {
public:
    void print(const Node& n) {
        switch (n.op) {
            case Op::constant:
                out_ += constant_text(n.type, n.value);
                break;
            case Op::text:
                out_ += n.text;
                break;
            case Op::call:
            case Op::uniform:
                out_ += n.text;
                out_ += '(';
                for (size_t i = 0; i < n.operands.size(); ++i) {
                    if (i) out_ += ", ";
                    operand(*n.operands[i], kComma + 1);
                }
                out_ += ')';
                break;
            case Op::index:
                operand(*n.operands[0], kPrimary);
                out_ += '[';
                print(*n.operands[1]);
                out_ += ']';
                break;
            case Op::pointee:
                out_ += '*';
                if (!n.text.empty()) out_ += "(" + std::string(n.text) + "*)";
                operand(*n.operands[0], kUnary);
                break;
            case Op::cast:
                out_ += std::string("(") + c_type(n.type) + ")";
                operand(*n.operands[0], kUnary);
                break;
            case Op::negate:
            case Op::invert:
                out_ += n.op == Op::negate ? '-' : '!';
                operand(*n.operands[0],
                        n.operands[0]->op == Op::negate || is_negative(*n.operands[0]) ? kPrimary : kUnary);
                break;
            case Op::select:
                operand(*n.operands[0], kConditional + 1);
                out_ += " ? ";
                operand(*n.operands[1], kConditional);
                out_ += " : ";
                operand(*n.operands[2], kConditional);
                break;
            default:
                binary(n);
        }
    }
    void operand(const Node& n, int least) {
        const bool enclosed = strength(n) < least;
        if (enclosed) out_ += '(';
        print(n);
        if (enclosed) out_ += ')';
    }
    std::string take() { return std::move(out_); }

private:
    /// What an operand needs to stand without parentheses.
    static int needed(Op op, const Node& side, bool right) {
        const int own = spelling(op).strength, its = strength(side);
        if (side.op == op && !right) return own;
        if (side.op == op &&
            (op == Op::bit_and || op == Op::bit_or || op == Op::bit_xor || op == Op::both || op == Op::either))
            return own;
        const bool sum = its == kSum;
        if ((own == kShift || own == kAnd || own == kXor || own == kOr) && sum) return kPrimary;
        if ((own == kXor || own == kOr) && its >= kOr && its <= kAnd) return kPrimary;
        if (op == Op::either && side.op == Op::both) return kPrimary;
        return own + (right ? 1 : 0);
    }
    /// The text of a constant beside an operand that gives the operation its type: an int means the same there.
    static std::string beside(const Node& constant, int64_t value, const Node& other) {
        const bool typed =
            other.op != Op::constant && other.type != Type::other && std::max(other.type, constant.type) == other.type;
        const bool is_int =
            value <= INT32_MAX && value >= (is_signed(constant.type) && is_signed(other.type) ? -INT32_MAX : 0);
        return constant_text(typed && is_int ? Type::i32 : constant.type, value);
    }
    void binary(const Node& n) {
        const Node &a = *n.operands[0], &b = *n.operands[1];
        operand(a, needed(n.op, a, false));
        if (n.op == Op::add && is_negative(b)) {
            out_ += " - " + beside(b, -b.value, a);
            return;
        }
        out_ += std::string(" ") + spelling(n.op).text + " ";
        if (b.op != Op::constant || b.type == Type::pred) return operand(b, needed(n.op, b, true));
        out_ += beside(b, b.value, a);
    }

    std::string out_;
};

}  // namespace

std::string Ex::text() const {
    Printer p;
    p.print(*node_);
    return p.take();
}

std::string Ex::atom() const {
    Printer p;
    p.operand(*node_, kPrimary);
    return p.take();
}

}  // namespace tegula::kernel
