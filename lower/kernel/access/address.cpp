// Where elements of tensors lie: extents and strides as parameters or constants, layouts as expressions, and the little
// arithmetic on i64 scalars that decides whether accesses may be wide.
#include <algorithm>
#include <bit>

#include "lang/gpu/wide_access.h"
#include "lang/tensor_strides.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Op;

namespace {

constexpr int kUnknownBits = 64, kExtentBits = 57;  ///< of magnitudes of i64

bool power_of_two(int64_t v) { return v > 0 && std::has_single_bit(static_cast<uint64_t>(v)); }

/// Does it clear bits that a shift to the right drops: x & c, x % c, x / c * c?
bool masks_low_bits(const LayoutExpr& e) {
    const bool scales = e.op == LayoutExpr::mul || e.op == LayoutExpr::shl;
    return e.op == LayoutExpr::bit_and || e.op == LayoutExpr::rem ||
           (scales && (e.a->op == LayoutExpr::div || e.a->op == LayoutExpr::shr));
}

const Layout& layout_of(const ir::Function& fn, ir::ValueId tensor) {
    return fn.types().layout(fn.type(tensor).layout);
}

/// The product of the extents inside dimension d for a row or col layout; -1 when one is dynamic. Sub-byte rows start
/// on a byte.
int64_t constant_stride(const ir::Function& fn, ir::ValueId tensor, int d) {
    const Type& type = fn.type(tensor);
    const Format& f = fn.elem(tensor);
    const bool col = layout_of(fn, tensor).kind() == Layout::Kind::col, bits = is_bit_addressed(f);
    const int rank = type.shape.rank, inner = col ? 0 : rank - 1;
    int64_t n = bits ? f.bits : 1;
    for (int k = inner; k != d; k += col ? 1 : -1) {
        const int64_t e = type.shape[static_cast<size_t>(k)];
        if (e == kDynamic || __builtin_mul_overflow(n, e, &n)) return -1;
        if (bits && k == inner) n = (n + 7) / 8 * 8;
    }
    return n;
}

}  // namespace

Ex extent(Lowering& ctx, ir::ValueId tensor, int d) {
    const int64_t e = ctx.fn.type(tensor).shape[static_cast<size_t>(d)];
    if (e != kDynamic) return int64(ctx, e);
    const int p = param_number(ctx, tensor);
    const std::string name = parameter(ctx, KernelParam::extent, p, d, "const long long",
                                       ctx.fn.params[static_cast<size_t>(p)].name + "_extent");
    return ctx.pool.name(kernel::Type::i64, name, kernel::below(int64_t{1} << kExtentBits));
}

bool affine(const Lowering& ctx, ir::ValueId tensor) {
    const Layout::Kind kind = layout_of(ctx.fn, tensor).kind();
    const auto p = static_cast<size_t>(param_number(ctx, tensor));
    const bool strided = p < ctx.fn.gpu->tensors.size() && ctx.fn.gpu->tensors[p].strided;
    return strided || kind == Layout::Kind::row || kind == Layout::Kind::col;
}

int contiguous_dimension(const Lowering& ctx, ir::ValueId tensor) {
    const auto p = static_cast<size_t>(param_number(ctx, tensor));
    if (!affine(ctx, tensor) || (p < ctx.fn.gpu->tensors.size() && ctx.fn.gpu->tensors[p].strided)) return -1;
    const int rank = ctx.fn.type(tensor).shape.rank;
    return rank == 0 ? -1 : layout_of(ctx.fn, tensor).kind() == Layout::Kind::col ? 0 : rank - 1;
}

Ex stride(Lowering& ctx, ir::ValueId tensor, int d) {
    const int p = param_number(ctx, tensor);
    const bool pitched =
        static_cast<size_t>(p) < ctx.fn.gpu->tensors.size() && ctx.fn.gpu->tensors[static_cast<size_t>(p)].pitched;
    if (const int contiguous = contiguous_dimension(ctx, tensor); contiguous >= 0 && (!pitched || contiguous == d)) {
        if (const int64_t n = constant_stride(ctx.fn, tensor, d); n >= 0) return int64(ctx, n);
    }
    return ctx.pool.name(kernel::Type::i64, parameter(ctx, KernelParam::stride, p, d, "const long long",
                                                      ctx.fn.params[static_cast<size_t>(p)].name + "_stride"));
}

Ex layout_value(Lowering& ctx, const LayoutExpr& e, ir::ValueId tensor, const std::vector<Ex>& coordinates) {
    using kernel::Type;
    switch (e.op) {
        case LayoutExpr::constant:
            return int64(ctx, e.value);
        case LayoutExpr::index:
            return kernel::cast(Type::i64, coordinates[static_cast<size_t>(e.value)]);
        case LayoutExpr::extent:
            return extent(ctx, tensor, static_cast<int>(e.value));
        default:
            break;
    }
    TEGULA_CHECK(e.op != LayoutExpr::too_deep && e.a && e.b, "a layout without a problem");
    const auto power = [](const LayoutExpr& c) { return c.op == LayoutExpr::constant && power_of_two(c.value); };
    const auto log = [](const LayoutExpr& c) { return std::countr_zero(static_cast<uint64_t>(c.value)); };
    if (e.op == LayoutExpr::div && power(*e.b) && e.a->op == LayoutExpr::rem &&
        power(*e.a->b)) {  // moved before it is masked, see Formats::opaque
        const int64_t digits = std::max<int64_t>(e.a->b->value / e.b->value, 1);
        return layout_value(ctx, *e.a->a, tensor, coordinates) >> log(*e.b) & (digits - 1);
    }
    Ex a = layout_value(ctx, *e.a, tensor, coordinates);
    const Ex b = layout_value(ctx, *e.b, tensor, coordinates);
    if ((e.op == LayoutExpr::div || e.op == LayoutExpr::shr) && masks_low_bits(*e.a) && !a.constant())
        a = opaque(ctx, a);
    const auto called = [&](const char* function, std::initializer_list<Ex> operands) {
        return ctx.pool.call(Type::i64, function, operands);
    };
    switch (e.op) {
        case LayoutExpr::add:
            return a + b;
        case LayoutExpr::sub:
            return a - b;
        case LayoutExpr::mul:
            return a * b;
        case LayoutExpr::div:
            if (power(*e.b)) return a >> log(*e.b);
            ctx.formats.need("divide");
            return called("div_floor", {a, b});
        case LayoutExpr::rem:
            if (power(*e.b)) return a & (e.b->value - 1);
            ctx.formats.need("divide");
            return called("rem_floor", {a, b});
        case LayoutExpr::bit_xor:
            return a ^ b;
        case LayoutExpr::bit_and:
            return a & b;
        case LayoutExpr::bit_or:
            return a | b;
        case LayoutExpr::shl:
            return kernel::cast(Type::i64, u64(a) << (b & 63));
        case LayoutExpr::shr:
            return a >> called("min", {called("max", {b, int64(ctx, 0)}), int64(ctx, 63)});
        case LayoutExpr::min:
            return called("min", {a, b});
        default:
            return called("max", {a, b});
    }
}

Ex opaque(Lowering& ctx, Ex integer) {
    ctx.formats.need("opaque");
    return ctx.pool.call(integer.type(), "opaque", {integer}, integer->facts);
}

Ex pitch(Lowering& ctx, ir::ValueId tensor, int member, bool innermost) {
    const Format& f = ctx.fn.elem(tensor);
    if (innermost) return int64(ctx, is_bit_addressed(f) ? f.bits : 1);
    const int p = param_number(ctx, tensor);
    if (static_cast<size_t>(p) < ctx.fn.gpu->tensors.size() && ctx.fn.gpu->tensors[static_cast<size_t>(p)].filled) {
        const Type& type = ctx.fn.type(tensor);
        const std::vector<int64_t> extents = bounded_extents(ctx.fn.types().layout(type.layout), type.shape.rank);
        int64_t by = is_bit_addressed(f) ? f.bits : 1;
        size_t m = extents.size();
        for (; m > static_cast<size_t>(member) + 1 && extents[m - 1]; --m)
            by = is_bit_addressed(f) ? (by * extents[m - 1] + 7) / 8 * 8 : by * extents[m - 1];
        if (m == static_cast<size_t>(member) + 1) return int64(ctx, by);
    }
    return ctx.pool.name(kernel::Type::i64, parameter(ctx, KernelParam::stride, p, member, "const long long",
                                                      ctx.fn.params[static_cast<size_t>(p)].name + "_pitch"));
}

Ex offset(Lowering& ctx, ir::ValueId tensor, const std::vector<Ex>& coordinates) {
    Ex out = ctx.pool.constant(kernel::Type::u64, 0);
    if (affine(ctx, tensor)) {
        for (size_t d = 0; d < coordinates.size(); ++d)
            out = out + u64(coordinates[d]) * stride(ctx, tensor, static_cast<int>(d));
        return out;
    }
    const std::vector<LayoutExpr> members = layout_of(ctx.fn, tensor).physical(ctx.fn.type(tensor).shape.rank);
    for (size_t m = 0; m < members.size(); ++m) {
        const Ex by = pitch(ctx, tensor, static_cast<int>(m), m + 1 == members.size());
        out = out + u64(layout_value(ctx, members[m], tensor, coordinates)) * by;
    }
    return out;
}

// ---- what is known of i64 scalars ----

int magnitude(Lowering& ctx, ir::ValueId v, int depth) {
    constexpr int kMaxDepth = 40;
    const ir::Inst* def = ctx.fn.def(v);
    if (!def) {
        const int p = param_number(ctx, v);
        return p >= 0 && ctx.fn.params[static_cast<size_t>(p)].kind == ir::Param::extent ? kExtentBits : kUnknownBits;
    }
    if (const auto it = ctx.values.magnitudes.find(v.v); it != ctx.values.magnitudes.end()) return it->second;
    return depth > kMaxDepth ? kUnknownBits : ctx.values.magnitudes[v.v] = magnitude_anew(ctx, *def, depth);
}

int magnitude_anew(Lowering& ctx, const ir::Inst& def, int depth) {
    const auto in = [&](size_t k) { return magnitude(ctx, ctx.fn.operands(def)[k], depth + 1); };
    switch (def.op) {
        case Op::constant: {
            const int64_t c = ctx.fn.attrs(def)[0];
            return c == INT64_MIN ? kUnknownBits : std::bit_width(static_cast<uint64_t>(c < 0 ? -c : c));
        }
        case Op::dim:
            return kExtentBits;
        case Op::cast:
            return ctx.fn.elem(ctx.fn.operands(def)[0]).is_int() && ctx.fn.elem(ctx.fn.operands(def)[0]).bits <= 32
                       ? 33
                       : kUnknownBits;
        case Op::add:
        case Op::sub:
            return std::min(kUnknownBits, std::max(in(0), in(1)) + 1);
        case Op::mul:
            return std::min(kUnknownBits, in(0) + in(1));
        case Op::div:
        case Op::div_ceil:
        case Op::div_trunc:
            return std::min(kUnknownBits, in(0) + 1);
        case Op::min:
        case Op::max:
            return std::max(in(0), in(1));
        case Op::select:
            return std::max(in(1), in(2));
        default:
            return kUnknownBits;
    }
}

/// A minimum is no larger than what is known of either.
int reach(Lowering& ctx, ir::ValueId v, int depth) {
    constexpr int kMaxDepth = 8;  // both sides are followed
    const ir::Inst* def = depth < kMaxDepth ? ctx.fn.def(v) : nullptr;
    const auto in = [&](size_t k) { return reach(ctx, ctx.fn.operands(*def)[k], depth + 1); };
    if (def && def->op == Op::min) return std::min(in(0), in(1));
    if (def && def->op == Op::max) return std::max(in(0), in(1));
    return def && def->op == Op::select ? std::max(in(1), in(2)) : magnitude(ctx, v);
}

}  // namespace tegula::lower
