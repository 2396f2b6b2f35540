// Interning and simplification (expr.h).
#include "lang/kernel/expr.h"

#include <algorithm>
#include <bit>
#include <unordered_set>
#include <vector>

#include "lang/arena.h"
#include "lang/check.h"
#include "lang/kernel/facts.h"

namespace tegula::kernel {

namespace {

bool is_comparison(Op op) { return op >= Op::lt && op <= Op::ne; }
bool commutes(Op op) {
    return op == Op::add || op == Op::mul || op == Op::bit_and || op == Op::bit_or || op == Op::bit_xor;
}

/// C's usual arithmetic conversions.
Type common(Type a, Type b) {
    if (a == Type::other || b == Type::other) return Type::other;
    return std::max({a, b, Type::i32});
}

}  // namespace

struct Pool::Nodes {
    struct Hash {
        size_t operator()(const Node* n) const {
            size_t h = (static_cast<size_t>(n->op) << 8 | static_cast<size_t>(n->type)) ^
                       std::hash<std::string_view>()(n->text);
            const auto mix = [&](uint64_t v) { h = (h ^ v) * 0x9E3779B97F4A7C15u; };
            mix(static_cast<uint64_t>(n->value));
            mix(n->facts.bits ^ static_cast<uint64_t>(n->facts.most));
            for (const Node* o : n->operands) mix(reinterpret_cast<uintptr_t>(o) >> 4);
            return h ^ h >> 32;
        }
    };

    struct Same {
        bool operator()(const Node* a, const Node* b) const {
            return a->op == b->op && a->type == b->type && a->value == b->value && a->text == b->text &&
                   a->facts == b->facts && std::ranges::equal(a->operands, b->operands);
        }
    };
    Arena arena;
    std::unordered_set<const Node*, Hash, Same> known;
};

Pool::Pool() : nodes_(std::make_unique<Nodes>()) {}
Pool::~Pool() = default;
size_t Pool::size() const { return nodes_->known.size(); }

const char* c_type(Type type) {
    switch (type) {
        case Type::pred:
            return "bool";
        case Type::i32:
            return "int";
        case Type::u32:
            return "unsigned";
        case Type::i64:
            return "long long";
        case Type::u64:
            return "unsigned long long";
        case Type::other:
            break;
    }
    return "auto";
}

int bits(Type type) { return type == Type::pred ? 1 : type == Type::i32 || type == Type::u32 ? 32 : 64; }
bool is_signed(Type type) { return type == Type::i32 || type == Type::i64; }

Ex Pool::intern(Op op, Type type, int64_t value, std::string_view text, std::span<const Ex> operands,
                const Facts& facts) {
    std::vector<const Node*> nodes;
    for (const Ex& o : operands) {
        TEGULA_CHECK(o && o->pool == this, "operands are of one pool");
        nodes.push_back(o.node());
    }
    const Node wanted{this, op, type, value, text, nodes, facts};
    if (const auto it = nodes_->known.find(&wanted); it != nodes_->known.end()) return Ex(*it);
    Node* made = nodes_->arena.make<Node>(wanted);
    made->text = nodes_->arena.copy(text);
    made->operands = nodes_->arena.copy(nodes);
    nodes_->known.insert(made);
    return Ex(made);
}

Ex Pool::constant(Type type, int64_t value) {
    const int64_t v = wrapped(type, value);
    return intern(Op::constant, type, v, {}, {}, facts_of(type, v));
}

Ex Pool::name(Type type, std::string_view name, const Facts& facts) {
    return intern(Op::text, type, 1, name, {}, within(type, facts));
}

Ex Pool::counter(std::string_view counter, int64_t count, int64_t step) {
    Facts facts = below(count);
    facts.bits &= ~static_cast<uint64_t>(step - 1);
    return count <= step ? number(0) : name(Type::i32, counter, facts);
}

Ex Pool::text(Type type, std::string_view text, bool is_operand) {
    return intern(Op::text, type, is_operand, text, {}, facts_of(type));
}

Ex Pool::call(Type type, std::string_view function, std::initializer_list<Ex> operands, const Facts& facts) {
    return intern(Op::call, type, 0, function, std::span(operands.begin(), operands.size()), within(type, facts));
}

Ex Pool::uniform(Type type, std::string_view function, std::initializer_list<Ex> operands) {
    return intern(Op::uniform, type, 0, function, std::span(operands.begin(), operands.size()), facts_of(type));
}

Ex Pool::call(Type type, std::string_view function, std::span<const Ex> operands) {
    return intern(Op::call, type, 0, function, operands, facts_of(type));
}

Ex Pool::index(Type type, Ex array, Ex number) {
    const Ex operands[] = {array, number};
    return intern(Op::index, type, 0, {}, operands, facts_of(type));
}

Ex Pool::pointee(Type type, std::string_view c_type, Ex address) {
    const Ex operands[] = {address};
    return intern(Op::pointee, type, 0, c_type, operands, facts_of(type));
}

Ex Pool::unary(Op op, Type type, Ex a) {
    const std::optional<int64_t> known = a.constant();
    const Ex operands[] = {a};
    switch (op) {
        case Op::cast:
            if (a.type() == type) return a;
            if (known && type != Type::other && a.type() != Type::other)
                return constant(type, type == Type::pred ? *known != 0 : *known);
            return intern(op, type, 0, {}, operands,
                          a.type() == Type::other ? facts_of(type) : converted(a->facts, type));
        case Op::invert:
            if (known) return truth(!*known);
            if (a->op == Op::invert) return Ex(a->operands[0]);
            return intern(op, Type::pred, 0, {}, operands, facts_of(Type::pred));
        default:
            if (known && a.type() != Type::other)
                if (const auto v = computed(Op::sub, type, 0, *known)) return constant(type, *v);
            return intern(op, type, 0, {}, operands,
                          type == Type::other ? Facts{} : facts_of(Op::sub, type, facts_of(type, 0), a->facts));
    }
}

Ex Pool::select(Ex condition, Ex yes, Ex no) {
    const Type of = yes.type() == no.type() ? yes.type() : common(yes.type(), no.type());
    if (condition.constant()) return cast(of, condition.is_true() ? yes : no);
    if (yes == no) return yes;
    const Ex operands[] = {condition, yes, no};
    return intern(Op::select, of, 0, {}, operands, joined(converted(yes->facts, of), converted(no->facts, of)));
}

namespace {

/// What `a op b` is without the operation, as far as one operand or the facts say; empty: it has to be computed. `of`:
/// the type computed in.
Ex simplified(Op op, Type of, const Facts& fa, Ex a, Ex b) {
    Pool& pool = *a->pool;
    const auto as = [&](Ex e) { return e.type() == of ? e : pool.unary(Op::cast, of, e); };
    const std::optional<int64_t> c = b.constant();
    switch (op) {
        case Op::add:
        case Op::sub:
        case Op::bit_or:
        case Op::bit_xor:
        case Op::shl:
        case Op::shr:
            if (c == 0) return as(a);
            if (op != Op::shl && op != Op::add && op != Op::shr && a == b)
                return op == Op::bit_or ? as(a) : pool.constant(of, 0);
            break;
        case Op::mul:
            if (c == 1) return as(a);
            if (c == 0) return pool.constant(of, 0);
            break;
        case Op::div:
        case Op::rem:
            if (c == 1) return op == Op::div ? as(a) : pool.constant(of, 0);
            if (c && *c > 0 && fa.never_negative() && fa.most < *c) return op == Op::rem ? as(a) : pool.constant(of, 0);
            break;
        case Op::bit_and: {
            if (a == b) return as(a);
            const uint64_t mask = static_cast<uint64_t>(c.value_or(-1));
            if (c && !(fa.bits & ~mask)) return as(a);
            if (c && !(fa.bits & mask)) return pool.constant(of, 0);
            break;
        }
        default:
            break;
    }
    return {};
}

}  // namespace

Ex Pool::binary(Op op, Ex a, Ex b) {
    if (op == Op::both || op == Op::either) {
        const bool ends = op == Op::either;  // the value that decides
        const auto decides = [&](Ex e) { return ends ? e.is_true() : e.is_false(); };
        const auto says_nothing = [&](Ex e) { return ends ? e.is_false() : e.is_true(); };
        if (decides(a) || says_nothing(b) || a == b) return a;
        if (decides(b) || says_nothing(a)) return b;
        const Ex operands[] = {a, b};
        return intern(op, Type::pred, 0, {}, operands, facts_of(Type::pred));
    }
    if (commutes(op) && a.constant() && !b.constant()) std::swap(a, b);
    const bool shift = op == Op::shl || op == Op::shr;
    const Type of = shift ? common(a.type(), Type::i32) : common(a.type(), b.type());
    const Type result = is_comparison(op) ? Type::pred : of;
    Facts facts = facts_of(result);
    if (of != Type::other) {
        const Facts fa = converted(a->facts, of), fb = shift ? b->facts : converted(b->facts, of);
        const std::optional<int64_t> x = a.constant(), y = b.constant();
        if (x && y)
            if (const auto v = computed(op, of, wrapped(of, *x), shift ? *y : wrapped(of, *y)))
                return constant(result, *v);
        if (is_comparison(op)) {
            if (const auto known = decided(op, of, fa, fb)) return truth(*known);
        } else {
            if (const Ex simple = simplified(op, of, fa, a, b)) return simple;
            facts = facts_of(op, of, fa, fb);
            if (facts.least == facts.most) return constant(result, facts.least);
        }
        // (a & x) >> y: bits move down before they are masked.
        const bool down =
            op == Op::shr || (op == Op::div && y && *y > 0 && std::has_single_bit(static_cast<uint64_t>(*y)));
        const Ex masked = a->op == Op::cast ? Ex(a->operands[0]) : a;
        if (down && y && masked->op == Op::bit_and && masked->facts.never_negative() && a->facts == masked->facts) {
            const int64_t by = op == Op::shr ? *y : std::countr_zero(static_cast<uint64_t>(*y));
            const Ex value(masked->operands[0]), mask(masked->operands[1]);
            if (mask.constant() && by >= 0 && by < bits(masked.type()))
                return cast(of,
                            binary(Op::bit_and, binary(Op::shr, value, number(by)), binary(Op::shr, mask, number(by))));
        }
        // (a + x) + y: one constant.
        if (op == Op::add && y && a->op == Op::add && a.type() == of && Ex(a->operands[1]).constant()) {
            int64_t sum = 0;
            const bool overflows = __builtin_add_overflow(*Ex(a->operands[1]).constant(), *y, &sum);
            if (!overflows && wrapped(of, sum) == sum) return binary(op, Ex(a->operands[0]), constant(of, sum));
        }
    } else if ((op == Op::add || op == Op::sub) && b.is(0)) {
        return a;
    }
    const Ex operands[] = {a, b};
    return intern(op, result, 0, {}, operands, facts);
}

namespace {

Ex made(Op op, Ex a, Ex b) { return a->pool->binary(op, a, b); }
Ex made(Op op, Ex a, int64_t b) {
    return a->pool->binary(
        op, a, a->pool->constant(a.type() == Type::pred || a.type() == Type::other ? Type::i32 : a.type(), b));
}

}  // namespace

#define TEGULA_OPERATOR(symbol, op)                               \
    Ex operator symbol(Ex a, Ex b) { return made(Op::op, a, b); } \
    Ex operator symbol(Ex a, int64_t b) { return made(Op::op, a, b); }
TEGULA_OPERATOR(+, add)
TEGULA_OPERATOR(-, sub)
TEGULA_OPERATOR(*, mul)
TEGULA_OPERATOR(/, div)
TEGULA_OPERATOR(%, rem)
TEGULA_OPERATOR(&, bit_and)
TEGULA_OPERATOR(|, bit_or)
TEGULA_OPERATOR(^, bit_xor)
#undef TEGULA_OPERATOR
#define TEGULA_COMPARISON(op)                        \
    Ex op(Ex a, Ex b) { return made(Op::op, a, b); } \
    Ex op(Ex a, int64_t b) { return made(Op::op, a, b); }
TEGULA_COMPARISON(lt)
TEGULA_COMPARISON(le)
TEGULA_COMPARISON(gt)
TEGULA_COMPARISON(ge)
TEGULA_COMPARISON(eq)
TEGULA_COMPARISON(ne)
#undef TEGULA_COMPARISON

Ex operator<<(Ex a, Ex b) { return made(Op::shl, a, b); }
Ex operator>>(Ex a, Ex b) { return made(Op::shr, a, b); }
Ex operator<<(Ex a, int64_t b) { return made(Op::shl, a, a->pool->number(b)); }
Ex operator>>(Ex a, int64_t b) { return made(Op::shr, a, a->pool->number(b)); }
Ex negation(Ex a) { return a->pool->unary(Op::invert, Type::pred, a); }
Ex operator-(Ex a) { return a->pool->unary(Op::negate, a.type(), a); }
Ex both(Ex a, Ex b) { return made(Op::both, a, b); }
Ex either(Ex a, Ex b) { return made(Op::either, a, b); }
Ex cast(Type type, Ex a) { return a->pool->unary(Op::cast, type, a); }

}  // namespace tegula::kernel
