// Known bits and bounds (facts.h). A fact of u64 with bit 63 perhaps set says nothing of bounds: they are read as
// signed numbers.
#include "lang/kernel/facts.h"

#include <algorithm>
#include <bit>

namespace tegula::kernel {

namespace {

using Wide = __int128;

uint64_t unsigned_of(int64_t v) { return static_cast<uint64_t>(v); }

/// Bits up to the highest one of a number that is not negative.
uint64_t bits_up_to(int64_t most) { return most == 0 ? 0 : ~uint64_t{0} >> std::countl_zero(unsigned_of(most)); }

/// Bounds bound bits, and bits bounds.
Facts agreed(Facts f) {
    if (f.never_negative()) f.bits &= bits_up_to(f.most);
    if (!(f.bits >> 63)) {
        f.least = std::max<int64_t>(f.least, 0);
        f.most = std::min(f.most, static_cast<int64_t>(f.bits));
    }
    return f;
}

/// The facts of exact bounds, or of the type where they leave it: C's signed overflow is undefined, unsigned numbers
/// wrap.
Facts bounded(Type type, Wide least, Wide most) {
    const Facts all = facts_of(type);
    if (least < all.least || most > all.most) return all;
    return agreed({all.bits, static_cast<int64_t>(least), static_cast<int64_t>(most)});
}

/// A multiple of 2^zeros.
Facts aligned(Facts f, int zeros) {
    f.bits &= zeros >= 64 ? 0 : ~uint64_t{0} << zeros;
    return agreed(f);
}

int low_zeros(const Facts& f) { return std::countr_zero(f.bits); }

Facts product(Type type, const Facts& a, const Facts& b) {
    const Wide ends[] = {Wide{a.least} * b.least, Wide{a.least} * b.most, Wide{a.most} * b.least,
                         Wide{a.most} * b.most};
    const auto [least, most] = std::minmax_element(std::begin(ends), std::end(ends));
    return aligned(bounded(type, *least, *most), std::min(64, low_zeros(a) + low_zeros(b)));
}

Facts shifted(Op op, Type type, const Facts& a, const Facts& by) {
    if (by.least != by.most || by.least < 0 || by.least >= bits(type)) return facts_of(type);
    const int n = static_cast<int>(by.least);
    if (op == Op::shl) return product(type, a, facts_of(Type::i64, n < 63 ? int64_t{1} << n : INT64_MIN));
    if (type == Type::u64 && !a.never_negative()) return n == 0 ? a : agreed({a.bits >> n, INT64_MIN, INT64_MAX});
    Facts out{a.never_negative() ? a.bits >> n : ~uint64_t{0}, a.least >> n, a.most >> n};
    return agreed(out);
}

Facts divided(Op op, Type type, const Facts& a, const Facts& by) {
    if (!a.never_negative() || by.least < 1) return facts_of(type);
    if (op == Op::div) return bounded(type, a.least / by.most, a.most / by.least);
    Facts out = bounded(type, 0, std::min(a.most, by.most - 1));
    const bool power = by.least == by.most && std::has_single_bit(unsigned_of(by.least));
    if (power) out.bits &= a.bits;
    return agreed(out);
}

Facts masked(const Facts& a, const Facts& b) {
    Facts out{a.bits & b.bits, INT64_MIN, INT64_MAX};
    if (a.never_negative()) out.most = a.most;
    if (b.never_negative()) out.most = std::min(out.most, b.most);
    if (a.never_negative() || b.never_negative()) out.least = 0;
    return agreed(out);
}

}  // namespace

Facts facts_of(Type type) {
    switch (type) {
        case Type::pred:
            return {1, 0, 1};
        case Type::i32:
            return {~uint64_t{0}, INT32_MIN, INT32_MAX};
        case Type::u32:
            return {UINT32_MAX, 0, UINT32_MAX};
        default:
            return {};
    }
}

Facts facts_of(Type, int64_t constant) { return {unsigned_of(constant), constant, constant}; }

Facts below(int64_t count) { return agreed({~uint64_t{0}, 0, count - 1}); }

Facts within(Type type, const Facts& facts) {
    const Facts all = facts_of(type);
    return agreed({facts.bits & all.bits, std::max(facts.least, all.least), std::min(facts.most, all.most)});
}

Facts converted(const Facts& facts, Type type) {
    const Facts all = facts_of(type);
    if (type == Type::u64 ? facts.never_negative() : facts.least >= all.least && facts.most <= all.most) return facts;
    return all;
}

Facts facts_of(Op op, Type of, const Facts& a, const Facts& b) {
    switch (op) {
        case Op::add: {
            Facts out = bounded(of, Wide{a.least} + b.least, Wide{a.most} + b.most);
            if (!(a.bits & b.bits)) out.bits &= a.bits | b.bits;
            return aligned(out, std::min(low_zeros(a), low_zeros(b)));
        }
        case Op::sub:
            return aligned(bounded(of, Wide{a.least} - b.most, Wide{a.most} - b.least),
                           std::min(low_zeros(a), low_zeros(b)));
        case Op::mul:
            return product(of, a, b);
        case Op::div:
        case Op::rem:
            return divided(op, of, a, b);
        case Op::shl:
        case Op::shr:
            return shifted(op, of, a, b);
        case Op::bit_and:
            return masked(a, b);
        case Op::bit_or:
        case Op::bit_xor: {
            Facts out = facts_of(of);
            out.bits &= a.bits | b.bits;
            return agreed(out);
        }
        default:
            return facts_of(Type::pred);
    }
}

Facts joined(const Facts& a, const Facts& b) {
    return {a.bits | b.bits, std::min(a.least, b.least), std::max(a.most, b.most)};
}

std::optional<bool> decided(Op op, Type of, const Facts& a, const Facts& b) {
    if (of == Type::other || (of == Type::u64 && !(a.never_negative() && b.never_negative()))) return std::nullopt;
    switch (op) {
        case Op::lt:
            return a.most < b.least ? std::optional(true) : a.least >= b.most ? std::optional(false) : std::nullopt;
        case Op::le:
            return a.most <= b.least ? std::optional(true) : a.least > b.most ? std::optional(false) : std::nullopt;
        case Op::gt:
            return decided(Op::lt, of, b, a);
        case Op::ge:
            return decided(Op::le, of, b, a);
        case Op::eq:
            if (a.least == a.most && b.least == b.most && a.least == b.least) return true;
            return a.most < b.least || b.most < a.least ? std::optional(false) : std::nullopt;
        case Op::ne: {
            const std::optional<bool> same = decided(Op::eq, of, a, b);
            return same ? std::optional(!*same) : std::nullopt;
        }
        default:
            return std::nullopt;
    }
}

int64_t wrapped(Type type, int64_t value) {
    switch (type) {
        case Type::pred:
            return value != 0;
        case Type::i32:
            return static_cast<int32_t>(unsigned_of(value));
        case Type::u32:
            return static_cast<int64_t>(static_cast<uint32_t>(unsigned_of(value)));
        default:
            return value;
    }
}

std::optional<int64_t> computed(Op op, Type of, int64_t a, int64_t b) {
    const uint64_t x = unsigned_of(a), y = unsigned_of(b);
    const bool plain = is_signed(of) ||
                       of == Type::u32;  // signed comparisons and quotients of the 64-bit values are those of the type
    const auto number = [&](uint64_t v) { return std::optional(wrapped(of, static_cast<int64_t>(v))); };
    switch (op) {
        case Op::add:
            return number(x + y);
        case Op::sub:
            return number(x - y);
        case Op::mul:
            return number(x * y);
        case Op::div:
        case Op::rem: {
            if (b == 0 || (is_signed(of) && b == -1)) return std::nullopt;
            if (!plain) return number(op == Op::div ? x / y : x % y);
            return wrapped(of, op == Op::div ? a / b : a % b);
        }
        case Op::shl:
        case Op::shr:
            if (b < 0 || b >= bits(of)) return std::nullopt;
            if (op == Op::shl) return number(x << b);
            return plain ? wrapped(of, a >> b) : number(x >> b);
        case Op::bit_and:
            return number(x & y);
        case Op::bit_or:
            return number(x | y);
        case Op::bit_xor:
            return number(x ^ y);
        case Op::lt:
            return plain ? a < b : x < y;
        case Op::le:
            return plain ? a <= b : x <= y;
        case Op::gt:
            return plain ? a > b : x > y;
        case Op::ge:
            return plain ? a >= b : x >= y;
        case Op::eq:
            return a == b;
        case Op::ne:
            return a != b;
        default:
            return std::nullopt;
    }
}

}  // namespace tegula::kernel
