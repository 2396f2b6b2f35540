// Index expressions of layouts: construction with folding, evaluation with overflow detection, substitution, text. Every walk is
// bounded by the depth and size limits that `make` enforces, so recursion here is safe on hostile input.
#include <algorithm>
#include <bit>

#include "lang/layout.h"

namespace tegula {
namespace {

int64_t divide(int64_t a, int64_t b, bool& overflow) {
    if (b == 0) return 0;
    if (a == INT64_MIN && b == -1) {
        overflow = true;
        return a;
    }
    return floor_div(a, b);
}

int64_t remainder(int64_t a, int64_t b) {
    if (b == 0) return a;
    if (b == -1) return 0;
    return a - floor_div(a, b) * b;
}

int64_t shift_left(int64_t a, int64_t b, bool& overflow) {
    if (a == 0) return 0;
    if (b < 0 || b > 62) {
        overflow = true;
        return 0;
    }
    int64_t r = 0;
    overflow |= __builtin_mul_overflow(a, int64_t{1} << b, &r);
    return r;
}

int64_t apply(LayoutExpr::Op op, int64_t a, int64_t b, bool& overflow) {
    int64_t r = 0;
    switch (op) {
        case LayoutExpr::add:
            overflow |= __builtin_add_overflow(a, b, &r);
            return r;
        case LayoutExpr::sub:
            overflow |= __builtin_sub_overflow(a, b, &r);
            return r;
        case LayoutExpr::mul:
            overflow |= __builtin_mul_overflow(a, b, &r);
            return r;
        case LayoutExpr::div:
            return divide(a, b, overflow);
        case LayoutExpr::rem:
            return remainder(a, b);
        case LayoutExpr::bit_xor:
            return a ^ b;
        case LayoutExpr::bit_and:
            return a & b;
        case LayoutExpr::bit_or:
            return a | b;
        case LayoutExpr::shl:
            return shift_left(a, b, overflow);
        case LayoutExpr::shr:
            overflow |= b < 0;
            return a >> std::clamp<int64_t>(b, 0, 63);
        case LayoutExpr::min:
            return std::min(a, b);
        case LayoutExpr::max:
            return std::max(a, b);
        default:
            overflow = true;
            return 0;
    }
}

/// Algebraic identities that hold for every value; nullopt when none applies. Canonical text and short inverses rest on them.
std::optional<LayoutExpr> simplify(LayoutExpr::Op op, const LayoutExpr& a, const LayoutExpr& b) {
    using E = LayoutExpr;
    if (b.op == E::constant) {
        const int64_t c = b.value;
        const bool neutral =
            (c == 0 && (op == E::add || op == E::sub || op == E::bit_xor || op == E::bit_or || op == E::shl || op == E::shr || op == E::rem)) ||
            (c == 1 && (op == E::mul || op == E::div));
        if (neutral) return a;
        if ((c == 0 && (op == E::mul || op == E::div || op == E::bit_and)) || (op == E::rem && (c == 1 || c == -1))) return E::make_constant(0);
        if (op == E::shl && c > 0 && c < 62) return E::make(E::mul, a, E::make_constant(int64_t{1} << c));
        if (op == E::shr && c > 0 && c < 62) return E::make(E::div, a, E::make_constant(int64_t{1} << c));
        if (op == E::bit_and && c > 0 && c < INT64_MAX && std::has_single_bit(static_cast<uint64_t>(c) + 1)) {
            return E::make(E::rem, a, E::make_constant(c + 1));
        }
        const bool nested = a.op == op && a.b && a.b->op == E::constant && a.b->value > 0 && c > 0;
        int64_t product = 0;
        if (nested && (op == E::mul || op == E::div) && !__builtin_mul_overflow(a.b->value, c, &product)) {
            return E::make(op, *a.a, E::make_constant(product));
        }
        if (nested && op == E::rem && a.b->value % c == 0) return E::make(op, *a.a, b);
    }
    const bool commutes = op == E::add || op == E::mul || op == E::bit_xor || op == E::bit_and || op == E::bit_or || op == E::min || op == E::max;
    if (commutes && a.op == E::constant && b.op != E::constant) return E::make(op, b, a);
    return std::nullopt;
}

const char* spelling(LayoutExpr::Op op) {
    static constexpr const char* kSpelling[] = {"", "", "", " + ", " - ", " * ", " / ", " % ", " ^ ", " & ", " | ", " << ", " >> ", "min", "max", ""};
    return kSpelling[op];
}

void append_text(const LayoutExpr& e, bool nested, std::string& out) {
    switch (e.op) {
        case LayoutExpr::constant:
            out += std::to_string(e.value);
            return;
        case LayoutExpr::index:
            out += "i" + std::to_string(e.value);
            return;
        case LayoutExpr::extent:
            out += "e" + std::to_string(e.value);
            return;
        case LayoutExpr::too_deep:
            out += "...";
            return;
        default:
            break;
    }
    const bool call = e.op == LayoutExpr::min || e.op == LayoutExpr::max;
    if (call) out += spelling(e.op);
    if (call || nested) out += '(';
    append_text(*e.a, !call, out);
    out += call ? ", " : spelling(e.op);
    append_text(*e.b, !call, out);
    if (call || nested) out += ')';
}

}  // namespace

LayoutExpr LayoutExpr::make_constant(int64_t v) {
    LayoutExpr e;
    e.value = v;
    return e;
}

LayoutExpr LayoutExpr::make_index(int i) {
    LayoutExpr e;
    e.op = index;
    e.value = i;
    return e;
}

LayoutExpr LayoutExpr::make_extent(int i) {
    LayoutExpr e;
    e.op = extent;
    e.value = i;
    return e;
}

LayoutExpr LayoutExpr::make(Op op, LayoutExpr a, LayoutExpr b) {
    LayoutExpr e;
    e.op = too_deep;
    if (a.op == too_deep || b.op == too_deep) return e;
    if (a.op == constant && b.op == constant) {
        bool overflow = false;
        const int64_t v = apply(op, a.value, b.value, overflow);
        if (!overflow) return make_constant(v);
    } else if (auto simpler = simplify(op, a, b)) {
        return *simpler;
    }
    const int depth = 1 + std::max(a.depth, b.depth);
    const uint32_t nodes = 1 + a.nodes + b.nodes;
    if (depth > kMaxLayoutDepth || nodes > kMaxLayoutNodes) return e;
    e.op = op;
    e.depth = static_cast<uint16_t>(depth);
    e.nodes = nodes;
    e.a = std::make_shared<const LayoutExpr>(std::move(a));
    e.b = std::make_shared<const LayoutExpr>(std::move(b));
    return e;
}

int64_t LayoutExpr::eval(std::span<const int64_t> indices, std::span<const int64_t> extents, bool* overflow) const {
    bool bad = false;
    const int64_t v = LayoutProgram(*this, extents)(indices.data(), bad);
    if (overflow && bad) *overflow = true;
    return v;
}

LayoutExpr LayoutExpr::substitute(std::span<const LayoutExpr> indices, std::span<const LayoutExpr> extents) const {
    const auto k = static_cast<size_t>(value);
    if (op == index) return k < indices.size() ? indices[k] : *this;
    if (op == extent) return k < extents.size() ? extents[k] : *this;
    if (op == constant || op == too_deep) return *this;
    return make(op, a->substitute(indices, extents), b->substitute(indices, extents));
}

std::string LayoutExpr::text() const {
    std::string out;
    append_text(*this, false, out);
    return out;
}

LayoutProgram::LayoutProgram(const LayoutExpr& expr, std::span<const int64_t> extents) {
    steps_.reserve(expr.nodes);
    emit(expr, extents);
}

void LayoutProgram::emit(const LayoutExpr& expr, std::span<const int64_t> extents) {
    if (expr.op == LayoutExpr::extent) {
        TEGULA_CHECK(static_cast<size_t>(expr.value) < extents.size());
        steps_.push_back({LayoutExpr::constant, extents[static_cast<size_t>(expr.value)]});
        return;
    }
    if (expr.a) {
        emit(*expr.a, extents);
        emit(*expr.b, extents);
    }
    steps_.push_back({expr.op, expr.value});
}

int64_t LayoutProgram::operator()(const int64_t* index, bool& overflow) const {
    int64_t stack[kMaxLayoutDepth + 2];
    int top = 0;
    for (const Step& s : steps_) {
        switch (s.op) {
            case LayoutExpr::constant:
                stack[top++] = s.value;
                break;
            case LayoutExpr::index:
                stack[top++] = index[s.value];
                break;
            case LayoutExpr::too_deep:
                overflow = true;
                stack[top++] = 0;
                break;
            default:
                --top;
                stack[top - 1] = apply(s.op, stack[top - 1], stack[top], overflow);
        }
    }
    return stack[0];
}

}  // namespace tegula
