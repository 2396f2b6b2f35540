// The verifier's rules of ops that touch programs, memory and the outside (verify_rules.h): Access in all its uses, pointers, print, assert.
#include <algorithm>

#include "lang/verify_rules.h"

namespace tegula::ir {

namespace {

/// Takes the operands of an Access one after the other.
struct OperandCursor {
    RuleContext& c;
    size_t at = 1;
    const Type* next(const char* what) {
        if (at < c.operand_count()) return &c.operand(at++);
        c.fail(std::string("operand is missing: ") + what);
        return nullptr;
    }
};

bool need_axes(RuleContext& c, size_t first) {
    const size_t rank = c.operand(0).shape.rank;
    if (!c.need(c.attrs().size() == first + 4 * rank, "one access axis per dimension is needed")) return false;
    for (size_t d = 0; d < rank; ++d) {
        const std::span<const int64_t> axis = c.attrs().subspan(first + 4 * d, 4);
        if (!c.need(axis[0] >= Access::index && axis[0] <= Access::all, "unknown kind of access axis")) return false;
        if (!c.need(axis[3] == 0 || axis[3] == 1, "in_bounds is 0 or 1")) return false;
        if (axis[0] == Access::range && !c.need(axis[1] >= 1 && axis[1] <= kMaxTileElements && axis[2] != 0, "bad range")) return false;
        const int64_t extent = c.operand(0).shape[d];
        if (axis[0] == Access::all && !c.need(extent >= 1 && axis[1] == extent, "a whole dimension needs a constant extent")) return false;
    }
    return true;
}

/// The shape of the accessed part; nullopt (reported) when index operands are wrong.
std::optional<Shape> part_shape(RuleContext& c, const Access& access, OperandCursor& cursor) {
    std::vector<int64_t> dims;
    std::optional<Shape> joint;
    size_t joint_at = 0;
    for (const Access::Axis& axis : access.axes) {
        if (axis.kind != Access::all) {
            const Type* index = cursor.next("an index");
            if (!index) return std::nullopt;
            if (!c.need(index->kind == Type::tile && !index->pointer && index->elem == Fmt::i64, "indices are i64")) return std::nullopt;
            if (axis.kind != Access::gather && !c.need(index->shape.rank == 0, "an index or start is a scalar")) return std::nullopt;
            if (axis.kind == Access::gather) {
                if (!joint) joint_at = dims.size();
                const auto shape = joint ? broadcast(*joint, index->shape) : std::optional(index->shape);
                if (!c.need(shape.has_value(), "index tiles do not broadcast together")) return std::nullopt;
                joint = shape;
            }
        }
        if (axis.kind == Access::range || axis.kind == Access::all) dims.push_back(axis.extent);
    }
    if (joint) dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(joint_at), joint->begin(), joint->end());
    if (!c.need(dims.size() <= kMaxRank, "the part has too many dimensions")) return std::nullopt;
    Shape out;
    for (int64_t d : dims) out.push(d);
    return out;
}

/// The access's flags are known ones, and what it asks of caches is no contradiction.
bool need_flags(RuleContext& c, int64_t allowed) {
    const int64_t flags = c.attrs()[0];
    if (!c.need((flags & ~(allowed | (may_ask_caches(c.inst.op) ? kCachingFlags : 0))) == 0, "flag is not allowed here")) return false;
    return c.need(caching_conflict(c.fn.caching(c.inst)).empty(), "its cache and evict contradict each other");
}

struct AccessForm {
    int values;             ///< operands after the indices
    int64_t allowed_flags;  ///< of Access::Flags
    size_t first_axis;      ///< attribute number
};

/// Checks everything of an access but its object and result; gives the type of the part.
std::optional<Type> need_access(RuleContext& c, const AccessForm& form) {
    if (!need_flags(c, form.allowed_flags) || !need_axes(c, form.first_axis)) return std::nullopt;
    OperandCursor cursor{c};
    const Access access = c.fn.access(c.inst);
    const auto shape = part_shape(c, access, cursor);
    if (!shape) return std::nullopt;
    const Type part = tile_type(c.operand(0).elem, *shape, c.operand(0).pointer);
    for (int i = 0; i < form.values; ++i) {
        const Type* value = cursor.next("a value");
        if (!value || !c.need_type(*value, part, "value")) return std::nullopt;
    }
    if (access.flags & Access::has_other) {
        const Type* other = cursor.next("else value");
        if (!other || !c.need_type(*other, part, "else value")) return std::nullopt;
    }
    if (access.flags & Access::has_mask) {
        const Type* mask = cursor.next("mask");
        if (!mask || !c.need_type(*mask, tile_type(Fmt::boolean, *shape), "mask")) return std::nullopt;
    }
    if (!c.need(cursor.at == c.operand_count(), "too many operands")) return std::nullopt;
    return part;
}

bool need_tensor(RuleContext& c, bool writes) {
    if (c.operand_count() < 1 || c.operand(0).kind != Type::tensor) {
        c.fail("operand 0 is a tensor");
        return false;
    }
    return !writes || c.need(c.operand(0).mode != Mode::in, "writes to an `in` tensor");
}

bool need_tile(RuleContext& c) { return c.need(c.operand_count() >= 1 && c.operand(0).kind == Type::tile, "operand 0 is a tile"); }

constexpr int64_t kBothFlags = Access::has_other | Access::has_mask;

/// kind, order and scope of atomics, from attribute 1 on; `elem` is what is updated.
void need_atomic(RuleContext& c, const Format& elem) {
    if (!c.attr_in(1, 0, static_cast<int64_t>(AtomicKind::cas), "unknown kind of atomic")) return;
    c.attr_in(2, 0, static_cast<int64_t>(MemoryOrder::acq_rel), "unknown memory order");
    c.attr_in(3, 0, static_cast<int64_t>(MemoryScope::sys), "unknown memory scope");
    const auto kind = static_cast<AtomicKind>(c.attrs()[1]);
    if (kind >= AtomicKind::bit_and && kind <= AtomicKind::bit_xor) c.need(elem.is_int(), "bit operations need integers");
    if (kind <= AtomicKind::min) c.need(elem.is_int() || elem.is_float(), "arithmetic needs integers or floats");
}

int atomic_values(const RuleContext& c) { return c.attrs()[1] == static_cast<int64_t>(AtomicKind::cas) ? 2 : 1; }

}  // namespace

void verify_extract(RuleContext& c) {
    if (!need_tile(c)) return;
    if (const auto part = need_access(c, {0, kBothFlags, 1})) c.need_type(c.result(), *part, "result");
}

void verify_deposit(RuleContext& c) {
    if (!need_tile(c)) return;
    if (need_access(c, {1, Access::has_mask, 1})) c.need_type(c.result(), c.operand(0), "result");
}

void verify_load(RuleContext& c) {
    if (!need_tensor(c, false)) return;
    if (const auto part = need_access(c, {0, kBothFlags, 1})) c.need_type(c.result(), *part, "result");
}

void verify_store(RuleContext& c) {
    if (need_tensor(c, true)) need_access(c, {1, Access::has_mask, 1});
}

void verify_atomic(RuleContext& c) {
    if (!need_tensor(c, true)) return;
    need_atomic(c, c.elem(c.operand(0)));
    if (const auto part = need_access(c, {atomic_values(c), Access::has_mask, 4})) c.need_type(c.result(), *part, "result");
}

// ---- programs, tensors, pointers ----

void verify_program_id(RuleContext& c) {
    c.attr_in(0, 0, 2, "a grid has axes 0, 1 and 2");
    c.need(is_scalar(c.result(), Fmt::i64), "result is a scalar i64");
    if (c.operand_count() == 0) return;
    c.need(c.fn.gpu.has_value() && c.fn.gpu->persistent, "the number of a program is legal in a persistent form only");
    c.need(c.operand_count() == 1 && is_scalar(c.operand(0), Fmt::i64), "the operand is the i64 number of a program");
}

void verify_num_programs(RuleContext& c) {
    c.attr_in(0, 0, 2, "a grid has axes 0, 1 and 2");
    c.need(is_scalar(c.result(), Fmt::i64), "result is a scalar i64");
}

void verify_dim(RuleContext& c) {
    if (!need_tensor(c, false)) return;
    c.attr_in(0, 0, int64_t{c.operand(0).shape.rank} - 1, "axis is not a dimension of the operand");
    c.need(is_scalar(c.result(), Fmt::i64), "result is a scalar i64");
}

void verify_tensor_ptr(RuleContext& c) {
    if (need_tensor(c, false)) c.need_type(c.result(), tile_type(c.operand(0).elem, {}, true), "result");
}

namespace {

bool need_pointers(RuleContext& c) {
    return c.need(c.operand_count() >= 1 && c.operand(0).kind == Type::tile && c.operand(0).pointer, "operand 0 is a tile of pointers");
}

/// After the pointers: `values` tiles, then what the flags say, mask before other.
bool need_pointer_operands(RuleContext& c, int values, int64_t allowed_flags) {
    const int64_t flags = c.attrs()[0];
    if (!need_flags(c, allowed_flags)) return false;
    const bool mask = flags & Access::has_mask, other = flags & Access::has_other;
    if (!c.need(c.operand_count() == 1 + static_cast<size_t>(values + mask + other), "wrong number of operands")) return false;
    const Type value = tile_type(c.operand(0).elem, c.operand(0).shape);
    size_t at = 1;
    for (int i = 0; i < values; ++i)
        if (!c.need_type(c.operand(at++), value, "value")) return false;
    if (mask && !c.need_type(c.operand(at++), tile_type(Fmt::boolean, value.shape), "mask")) return false;
    return !other || c.need_type(c.operand(at), value, "else value");
}

void need_loaded(RuleContext& c) { c.need_type(c.result(), tile_type(c.operand(0).elem, c.operand(0).shape), "result"); }

}  // namespace

void verify_ptr_add(RuleContext& c) {
    if (!need_pointers(c)) return;
    c.need_type(c.operand(1), tile_type(Fmt::i64, c.operand(0).shape), "offset");
    c.need_type(c.result(), c.operand(0), "result");
}

void verify_ptr_at(RuleContext& c) {
    const Type& from = c.operand(0);
    if (!c.need(from.kind == Type::tile && !from.pointer && from.elem == Fmt::u64, "operand is a tile of u64")) return;
    c.need_type(c.result(), tile_type(c.result().elem, from.shape, true), "result");
}

void verify_ptr_address(RuleContext& c) {
    if (need_pointers(c)) c.need_type(c.result(), tile_type(Fmt::u64, c.operand(0).shape), "result");
}

void verify_ptr_load(RuleContext& c) {
    if (need_pointers(c) && need_pointer_operands(c, 0, kBothFlags)) need_loaded(c);
}

void verify_ptr_store(RuleContext& c) {
    if (need_pointers(c)) need_pointer_operands(c, 1, Access::has_mask);
}

void verify_ptr_atomic(RuleContext& c) {
    if (!need_pointers(c)) return;
    need_atomic(c, c.elem(c.operand(0)));
    if (need_pointer_operands(c, atomic_values(c), Access::has_mask)) need_loaded(c);
}

// ---- effects ----

void verify_print(RuleContext& c) {
    c.attr_in(0, 0, static_cast<int64_t>(c.fn.strings.size()) - 1, "text is not a string of the function");
    for (size_t i = 0; i < c.operand_count(); ++i) c.need(c.operand(i).kind == Type::tile, "operands are tiles");
}

void verify_assert(RuleContext& c) {
    c.need(is_bool_tile(c.operand(0)), "operand is a bool tile");
    c.attr_in(0, 0, static_cast<int64_t>(c.fn.strings.size()) - 1, "text is not a string of the function");
}

void verify_grid_barrier(RuleContext& c) { c.need(c.fn.is_kernel && find_hint(c.fn.hints, "cooperative"), "the kernel is not cooperative"); }

void verify_assume(RuleContext& c) { c.need(is_scalar(c.operand(0), Fmt::boolean), "operand is a scalar bool"); }

}  // namespace tegula::ir
