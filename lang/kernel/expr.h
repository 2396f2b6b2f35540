// Pure expressions of what one thread of a GPU computes: integers, conditions and pointers of emitted kernels. Nodes
// are interned: equal expressions of one pool are one node. They are simplified as they are made: constants fold, and
// what known bits and bounds decide is decided. No rule changes a value, and none moves a mask in front of a shift (see
// Prelude::opaque).
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tegula::kernel {

/// C types. `other`: no number that the pool computes with (pointers, floats, words of narrow elements).
enum class Type : uint8_t { pred, i32, u32, i64, u64, other };
const char* c_type(Type type);
int bits(Type type);
bool is_signed(Type type);

enum class Op : uint8_t {
    constant,
    text,     ///< a name, or an expression that was made as text
    call,     ///< NAME(operands)
    uniform,  ///< the same: a value that the threads of a warp share
    index,    ///< operand 0 [operand 1]
    pointee,  ///< *(TEXT*)operand, *operand without a text
    cast,     ///< to the node's type
    negate,
    invert,  ///< of a condition
    select,  ///< operand 0 ? operand 1 : operand 2
    add,
    sub,
    mul,
    div,
    rem,
    shl,
    shr,
    bit_and,
    bit_or,
    bit_xor,
    lt,
    le,
    gt,
    ge,
    eq,
    ne,
    both,
    either,
};

class Pool;

/// What is known of a number, read as a signed 64-bit value (u64: by its bits).
struct Facts {
    uint64_t bits = ~uint64_t{0};                 ///< those that may be set
    int64_t least = INT64_MIN, most = INT64_MAX;  ///< of u64 as long as bit 63 is known to be clear
    bool never_negative() const { return least >= 0; }
    friend bool operator==(const Facts&, const Facts&) = default;
};

/// Numbers from 0 to count - 1.
Facts below(int64_t count);

struct Node {
    Pool* pool = nullptr;
    Op op = Op::constant;
    Type type = Type::i32;
    int64_t value = 0;  ///< constant: sign- or zero-extended as its type says
    std::string_view text = {};
    std::span<const Node* const> operands = {};
    Facts facts = {};
};

/// A handle of a node; empty by default.
class Ex {
public:
    Ex() = default;
    explicit Ex(const Node* node) : node_(node) {}
    explicit operator bool() const { return node_ != nullptr; }
    const Node* operator->() const { return node_; }
    const Node* node() const { return node_; }
    Type type() const { return node_->type; }
    /// The value, if it is a constant (conditions: 0 or 1).
    std::optional<int64_t> constant() const {
        return node_->op == Op::constant ? std::optional(node_->value) : std::nullopt;
    }
    bool is(int64_t value) const { return node_->op == Op::constant && node_->value == value; }
    bool is_true() const { return type() == Type::pred && is(1); }
    bool is_false() const { return type() == Type::pred && is(0); }
    /// C text with as few parentheses as its meaning and its reader need.
    std::string text() const;
    /// The same as an operand of any operator: in parentheses unless it is a name, a number, a call or an element.
    std::string atom() const;
    friend bool operator==(const Ex&, const Ex&) = default;

private:
    const Node* node_ = nullptr;
};

/// Owns the nodes of one kernel.
class Pool {
public:
    Pool();
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    Ex constant(Type type, int64_t value);
    Ex number(int64_t value) { return constant(Type::i32, value); }
    Ex truth(bool value) { return constant(Type::pred, value); }
    /// A variable. `facts`: what holds of it wherever this node is used; a name of other facts is another node.
    Ex name(Type type, std::string_view name, const Facts& facts = {});
    /// A number from 0 to count - 1, a multiple of the power of two `step`.
    Ex counter(std::string_view name, int64_t count, int64_t step = 1);
    /// An expression that was made as text. `is_operand`: it needs no parentheses beside an operator.
    Ex text(Type type, std::string_view text, bool is_operand);
    Ex call(Type type, std::string_view function, std::initializer_list<Ex> operands, const Facts& facts = {});
    Ex call(Type type, std::string_view function, std::span<const Ex> operands);
    Ex uniform(Type type, std::string_view function, std::initializer_list<Ex> operands);
    Ex index(Type type, Ex array, Ex number);
    /// What lies at an address, read or written as `c_type`; empty: as the address says.
    Ex pointee(Type type, std::string_view c_type, Ex address);
    Ex unary(Op op, Type type, Ex a);
    Ex binary(Op op, Ex a, Ex b);
    Ex select(Ex condition, Ex yes, Ex no);
    size_t size() const;  ///< nodes

private:
    Ex intern(Op op, Type type, int64_t value, std::string_view text, std::span<const Ex> operands, const Facts& facts);

    struct Nodes;
    std::unique_ptr<Nodes> nodes_;
};

// Operators as in C: of numbers of two types the result has the wider one, of two of one width the unsigned one; a
// shift has its first operand's. A C++ number is a constant of the other operand's type.
Ex operator+(Ex a, Ex b);
Ex operator-(Ex a, Ex b);
Ex operator*(Ex a, Ex b);
Ex operator/(Ex a, Ex b);
Ex operator%(Ex a, Ex b);
Ex operator<<(Ex a, Ex b);
Ex operator>>(Ex a, Ex b);
Ex operator&(Ex a, Ex b);
Ex operator|(Ex a, Ex b);
Ex operator^(Ex a, Ex b);
Ex negation(Ex a);  ///< of a condition; ! tells whether a handle is empty
Ex operator-(Ex a);
Ex operator+(Ex a, int64_t b);
Ex operator-(Ex a, int64_t b);
Ex operator*(Ex a, int64_t b);
Ex operator/(Ex a, int64_t b);
Ex operator%(Ex a, int64_t b);
Ex operator<<(Ex a, int64_t b);
Ex operator>>(Ex a, int64_t b);
Ex operator&(Ex a, int64_t b);
Ex operator|(Ex a, int64_t b);
Ex operator^(Ex a, int64_t b);
// Comparisons and the joining of conditions have names: `==` of handles tells whether they are one node, and && would
// not evaluate both.
Ex lt(Ex a, Ex b);
Ex le(Ex a, Ex b);
Ex gt(Ex a, Ex b);
Ex ge(Ex a, Ex b);
Ex eq(Ex a, Ex b);
Ex ne(Ex a, Ex b);
Ex lt(Ex a, int64_t b);
Ex le(Ex a, int64_t b);
Ex gt(Ex a, int64_t b);
Ex ge(Ex a, int64_t b);
Ex eq(Ex a, int64_t b);
Ex ne(Ex a, int64_t b);
Ex both(Ex a, Ex b);
Ex either(Ex a, Ex b);
Ex cast(Type type, Ex a);

}  // namespace tegula::kernel
