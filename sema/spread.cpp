// Spread (spread.h): what becomes of each operation of one element when it is done for all.
#include "sema/spread.h"

#include <algorithm>
#include <utility>

namespace tegula::sema {

using ir::Access;
using ir::BlockId;
using ir::Inst;
using ir::InstId;
using ir::Op;
using ir::ReduceKind;
using ir::ValueId;

namespace {

/// Integer operations for which a divisor of 0 is an error in checked mode; of floats, the quotient may be infinite.
bool has_divisor(Op op) { return op == Op::div || op == Op::rem || op == Op::div_trunc || op == Op::rem_trunc || op == Op::div_ceil; }
/// Functions of one number that are infinite or NaN for some finite ones, and finite for 1.
bool has_poles(Op op) { return op == Op::sqrt || op == Op::fast_log2 || op == Op::fast_rcp || op == Op::fast_rsqrt; }

/// Does the instruction, or one in its blocks, do what has an order?
const Inst* ordered_effect(const ir::Function& fn, const Inst& inst) {
    if (ir::has_trait(inst.op, ir::WRITES) || inst.op == Op::print) return &inst;
    for (const BlockId b : fn.blocks(inst))
        for (const InstId id : fn.block(b).insts)
            if (const Inst* found = ordered_effect(fn, fn.inst(id))) return found;
    return nullptr;
}

/// Takes a block out of the function.
void empty(ir::Function& fn, BlockId block) {
    const std::vector<InstId> insts = std::exchange(fn.block(block).insts, {});
    for (const InstId id : insts)
        for (const BlockId b : fn.blocks(fn.inst(id))) empty(fn, b);
}

}  // namespace

bool Spread::fail(Span span, const std::string& why) {
    if (!failed_) refuse_(span, why);
    failed_ = true;
    return false;
}

ValueId Spread::of(ValueId v) const {
    const auto it = made_.find(v.v);
    return it == made_.end() ? v : it->second;
}

void Spread::set(ValueId from, ValueId to, bool varies) {
    made_[from.v] = to;
    if (varies)
        varying_.insert(from.v);
    else
        varying_.erase(from.v);
}

TypeId Spread::wide_type(ValueId v) const {
    Type type = fn_.type(v);
    type.shape = shape_;
    return fn_.types().intern(type);
}

/// A scalar's value in every element.
ValueId Spread::wide(ValueId v) {
    if (fn_.type(v).shape == shape_) return v;
    const Inst* def = fn_.def(v);
    if (def && def->op == Op::constant) return to_.constant(wide_type(v), static_cast<uint64_t>(fn_.attrs(*def)[0]));
    return to_.broadcast(v, shape_);
}

/// The number n in the type of `like`.
ValueId Spread::number(ValueId like, int64_t n) {
    const Format& f = fn_.elem(like);
    const uint64_t code = f.is_int() || f.is_bool() ? static_cast<uint64_t>(f.bits == 1 && f.is_signed ? -n : n) : encode(f, static_cast<double>(n));
    return to_.constant(fn_.type_of(like), code);
}

ValueId Spread::both(ValueId a, ValueId b) { return a.valid() ? to_.elementwise(Op::bit_and, {a, b}) : b; }

ValueId Spread::any_element() { return to_.reduce(mask_, ReduceKind::any, -1, false, id_of(Fmt::boolean)); }

/// Where a value of this shape is wanted: its own elements, or, of what is computed once, all of them when any element gets here.
ValueId Spread::mask_of(const Shape& shape, bool varying) { return varying ? mask_ : to_.broadcast(any_element(), shape); }

/// v where it is wanted, and a number for which nothing fails elsewhere.
ValueId Spread::harmless(ValueId v, int64_t instead, bool varying) {
    const ValueId other = number(v, instead);
    return to_.select(mask_of(fn_.type(v).shape, varying), v, other);
}

std::vector<ValueId> Spread::operands(const Inst& inst, bool varying) {
    std::vector<ValueId> out;
    for (const ValueId v : fn_.operands(inst)) out.push_back(of(v));
    for (size_t i = 0; varying && i < out.size(); ++i) out[i] = wide(out[i]);
    return out;
}

void Spread::guard_operands(const Inst& inst, std::vector<ValueId>& operands, bool varying) {
    if (!mask_.valid()) return;
    if (has_divisor(inst.op)) {
        const Format& f = fn_.elem(operands[1]);
        if (f.is_int() && f.is_signed && f.bits == 1) operands[0] = harmless(operands[0], 0, varying);  // -1 / -1 has no value there
        operands[1] = harmless(operands[1], 1, varying);
    }
    if (has_poles(inst.op)) operands[0] = harmless(operands[0], 1, varying);
    if (inst.op == Op::cast && fn_.attrs(inst)[1] == static_cast<int64_t>(Overflow::trap)) operands[0] = harmless(operands[0], 0, varying);
}

BlockId Spread::cloned_block(BlockId from) {
    const BlockId outer = to_.block(), made = fn_.add_block();
    const std::vector<ValueId> args = fn_.block(from).args;
    for (const ValueId arg : args) set(arg, fn_.add_arg(made, fn_.type_of(arg)), false);
    to_.set_block(made);
    const std::vector<InstId> insts = fn_.block(from).insts;
    const ValueId mask = std::exchange(mask_, ValueId{});
    for (const InstId id : insts) clone(Inst(fn_.inst(id)));
    mask_ = mask;
    to_.set_block(outer);
    return made;
}

/// The same operation, on values that do not vary.
void Spread::clone(const Inst& inst) {
    std::vector<ValueId> in = operands(inst, false);
    guard_operands(inst, in, false);
    std::vector<TypeId> types;
    for (uint32_t r = 0; r < inst.results.count; ++r) types.push_back(fn_.type_of(fn_.result(inst, r)));
    std::vector<int64_t> attrs(fn_.attrs(inst).begin(), fn_.attrs(inst).end());
    const std::vector<BlockId> from(fn_.blocks(inst).begin(), fn_.blocks(inst).end());
    std::vector<BlockId> blocks;
    for (const BlockId b : from) blocks.push_back(cloned_block(b));
    to_.set_span(inst.span);
    const Inst made = fn_.inst(to_.emit(inst.op, in, types, attrs, blocks));
    for (uint32_t r = 0; r < inst.results.count; ++r) set(fn_.result(inst, r), fn_.result(made, r), false);
}

/// A branch, loop or combining function without varying values: as it is, and where only some elements get here, only if one does.
void Spread::once(const Inst& inst) {
    if (!mask_.valid()) return clone(inst);
    const ValueId any = any_element();
    const BlockId outer = to_.block();
    const BlockId blocks[2] = {fn_.add_block(), fn_.add_block()};
    const ValueId mask = std::exchange(mask_, ValueId{});
    std::vector<TypeId> types;
    for (uint32_t r = 0; r < inst.results.count; ++r) types.push_back(fn_.type_of(fn_.result(inst, r)));
    for (int side = 0; side < 2; ++side) {
        to_.set_block(blocks[side]);
        std::vector<ValueId> out;
        if (side == 0) clone(inst);
        for (uint32_t r = 0; r < types.size(); ++r) out.push_back(side == 0 ? of(fn_.result(inst, r)) : to_.constant(types[r], 0));
        to_.emit(Op::yield, out, {});
    }
    mask_ = mask;
    to_.set_block(outer);
    const Inst made = fn_.inst(to_.emit(Op::if_else, {&any, 1}, types, {}, blocks));
    for (uint32_t r = 0; r < types.size(); ++r) set(fn_.result(inst, r), fn_.result(made, r), false);
}

/// Does a varying value take part in the instruction or in what its blocks do?
bool Spread::depends(const Inst& inst) const {
    const auto operands = fn_.operands(inst);
    if (std::any_of(operands.begin(), operands.end(), [&](ValueId v) { return varies(v); })) return true;
    for (const BlockId b : fn_.blocks(inst))
        for (const InstId id : fn_.block(b).insts)
            if (depends(fn_.inst(id))) return true;
    return false;
}

void Spread::pointwise(const Inst& inst) {
    if (inst.op == Op::cast && fn_.operands(inst).size() > 1) {
        fail(inst.span, "round with `stochastic`, whose random bits come from places in a tile: round what `map` gives");
        return;
    }
    std::vector<ValueId> in = operands(inst, true);
    guard_operands(inst, in, true);
    const TypeId type = wide_type(fn_.result(inst));
    const std::vector<int64_t> attrs(fn_.attrs(inst).begin(), fn_.attrs(inst).end());
    set(fn_.result(inst), fn_.result(to_.emit(inst.op, in, {&type, 1}, attrs)), true);
}

/// One element x[i, j] of a tile or tensor: a gather where an index varies.
void Spread::access(const Inst& inst) {
    Access access = fn_.access(inst);
    const std::vector<ValueId> from(fn_.operands(inst).begin(), fn_.operands(inst).end());
    const bool load = inst.op == Op::load;
    if (!load && varies(from[0])) {
        fail(inst.span, "index a tile that is made of an element");
        return;
    }
    const bool varying = std::any_of(from.begin(), from.end(), [&](ValueId v) { return varies(v); });
    std::vector<ValueId> in{of(from[0])};
    size_t at = 1;
    bool gathers = false;
    for (Access::Axis& axis : access.axes) {
        if (axis.kind == Access::all) continue;
        if (varies(from[at])) {
            axis.kind = Access::gather;
            axis.in_bounds = false;
            gathers = true;
        }
        in.push_back(of(from[at++]));
    }
    if (varying && !gathers) {  // only what is read out of range varies
        for (size_t d = 0, k = 1; d < access.axes.size() && !gathers; ++d) {
            if (access.axes[d].kind != Access::index) continue;
            access.axes[d].kind = Access::gather;
            in[k] = wide(in[k]);
            gathers = true;
        }
    }
    const TypeId type = varying ? wide_type(fn_.result(inst)) : fn_.type_of(fn_.result(inst));
    const Shape part = fn_.types().type(type).shape;
    if (access.flags & Access::has_other) in.push_back(varying ? wide(of(from[at++])) : of(from[at++]));
    ValueId mask;
    if (access.flags & Access::has_mask) mask = varying ? wide(of(from[at])) : of(from[at]);
    if (load && mask_.valid()) mask = both(mask, mask_of(part, varying));
    if (mask.valid()) {
        access.flags |= Access::has_mask;
        in.push_back(mask);
    }
    std::vector<int64_t> attrs{access.flags};
    const std::vector<int64_t> axes = access.encode_axes();
    attrs.insert(attrs.end(), axes.begin(), axes.end());
    set(fn_.result(inst), fn_.result(to_.emit(inst.op, in, {&type, 1}, attrs)), varying);
}

void Spread::pointers(const Inst& inst) {
    const std::vector<ValueId> from(fn_.operands(inst).begin(), fn_.operands(inst).end());
    const bool varying = std::any_of(from.begin(), from.end(), [&](ValueId v) { return varies(v); });
    std::vector<ValueId> in = operands(inst, varying);
    int64_t flags = fn_.attrs(inst)[0];
    const TypeId type = varying ? wide_type(fn_.result(inst)) : fn_.type_of(fn_.result(inst));
    if (mask_.valid()) {
        const ValueId mask = mask_of(fn_.types().type(type).shape, varying);
        if (flags & Access::has_mask)
            in[1] = both(in[1], mask);
        else
            in.insert(in.begin() + 1, mask);
        flags |= Access::has_mask;
    }
    set(fn_.result(inst), fn_.result(to_.emit(inst.op, in, {&type, 1}, {&flags, 1})), varying);
}

/// assert and assume: where the predicate is false, they hold.
void Spread::claim(const Inst& inst) {
    ValueId condition = of(fn_.operands(inst)[0]);
    const bool varying = varies(fn_.operands(inst)[0]);
    if (mask_.valid()) {
        const ValueId not_here = to_.elementwise(Op::bit_not, {mask_of(fn_.type(condition).shape, varying)});
        condition = to_.elementwise(Op::bit_or, {condition, not_here});
    }
    if (inst.op == Op::assume && varying) condition = to_.reduce(condition, ReduceKind::all, -1, false, id_of(Fmt::boolean));
    const std::vector<int64_t> attrs(fn_.attrs(inst).begin(), fn_.attrs(inst).end());
    to_.emit(inst.op, {&condition, 1}, {}, attrs);
}

void Spread::choice(const Inst& inst) {
    const ValueId condition = wide(of(fn_.operands(inst)[0]));
    const ValueId outer = mask_;
    const BlockId blocks[2] = {fn_.blocks(inst)[0], fn_.blocks(inst)[1]};
    std::vector<ValueId> ways[2];
    for (int side = 0; side < 2; ++side) {
        const ValueId here = side == 0 ? condition : to_.elementwise(Op::bit_not, {condition});
        ways[side] = body(blocks[side], both(outer, here));
        if (failed_) return;
    }
    mask_ = outer;
    to_.set_span(inst.span);
    for (uint32_t r = 0; r < inst.results.count; ++r) {
        const ValueId result = fn_.result(inst, r);
        if (ways[0][r] == ways[1][r]) {
            set(result, ways[0][r], fn_.type(ways[0][r]).shape == shape_ && fn_.type(result).shape.rank == 0);
            continue;
        }
        if (fn_.type(result).shape.rank != 0) {
            fail(inst.span, "change a tile in a branch that elements take differently");
            return;
        }
        set(result, to_.select(condition, wide(ways[0][r]), wide(ways[1][r])), true);
    }
}

/// What a loop starts from, as tiles of the common shape: after a pass that some elements take, all carried values vary.
std::vector<ValueId> Spread::carried(const Inst& inst, size_t skip) {
    std::vector<ValueId> out;
    const std::vector<ValueId> from(fn_.operands(inst).begin(), fn_.operands(inst).end());
    for (size_t i = skip; i < from.size(); ++i) {
        if (fn_.type(from[i]).shape.rank != 0) {
            fail(inst.span, "change a tile in a loop that elements leave at different times");
            return {};
        }
        out.push_back(wide(of(from[i])));
    }
    return out;
}

/// Elements that are not `where` keep what they had.
void Spread::kept(const std::vector<ValueId>& before, std::vector<ValueId>& next, ValueId where) {
    for (size_t i = 0; i < next.size(); ++i) {
        const ValueId v = wide(next[i]);
        next[i] = v == before[i] ? v : to_.select(where, v, before[i]);
    }
}

void Spread::while_loop(const Inst& inst) {
    std::vector<ValueId> inits = carried(inst, 0);
    if (failed_) return;
    const size_t n = inits.size();
    const TypeId bools = fn_.types().tile(id_of(Fmt::boolean), shape_);
    const ValueId outer_mask = mask_;
    inits.push_back(outer_mask.valid() ? outer_mask : to_.constant(bools, 1));
    std::vector<TypeId> types;
    for (const ValueId v : inits) types.push_back(fn_.type_of(v));
    const BlockId outer = to_.block(), from[2] = {fn_.blocks(inst)[0], fn_.blocks(inst)[1]};
    const BlockId blocks[2] = {fn_.add_block(), fn_.add_block()};
    std::vector<ValueId> args[2];
    for (int side = 0; side < 2; ++side) {
        for (const TypeId t : types) args[side].push_back(fn_.add_arg(blocks[side], t));
        const std::vector<ValueId> own = fn_.block(from[side]).args;
        for (size_t i = 0; i < n; ++i) set(own[i], args[side][i], true);
        to_.set_block(blocks[side]);
        std::vector<ValueId> out = body(from[side], args[side][n]);
        if (failed_) return;
        to_.set_span(inst.span);
        const std::vector<ValueId> before(args[side].begin(), args[side].begin() + static_cast<ptrdiff_t>(n));
        if (side == 0) {
            mask_ = to_.elementwise(Op::bit_and, {args[0][n], wide(out[0])});
            out.erase(out.begin());
            kept(before, out, args[0][n]);
            out.push_back(mask_);
            out.insert(out.begin(), any_element());
            to_.emit(Op::condition, out, {});
        } else {
            kept(before, out, args[1][n]);
            out.push_back(args[1][n]);
            to_.emit(Op::yield, out, {});
        }
    }
    mask_ = outer_mask;
    to_.set_block(outer);
    const std::vector<int64_t> attrs(fn_.attrs(inst).begin(), fn_.attrs(inst).end());
    const Inst made = fn_.inst(to_.emit(Op::while_loop, inits, types, attrs, blocks));
    for (uint32_t r = 0; r < n; ++r) set(fn_.result(inst, r), fn_.result(made, r), true);
}

/// A range whose bounds are the same for all elements: the loop stays, and carries tiles.
void Spread::counted(const Inst& inst) {
    std::vector<ValueId> in = operands(inst, false), inits = carried(inst, 3);
    if (failed_) return;
    std::copy(inits.begin(), inits.end(), in.begin() + 3);
    std::vector<TypeId> types;
    for (const ValueId v : inits) types.push_back(fn_.type_of(v));
    const BlockId outer = to_.block(), from = fn_.blocks(inst)[0], made_block = fn_.add_block();
    const std::vector<ValueId> own = fn_.block(from).args;
    set(own[0], fn_.add_arg(made_block, fn_.type_of(own[0])), false);
    for (size_t i = 0; i < inits.size(); ++i) set(own[i + 1], fn_.add_arg(made_block, types[i]), true);
    to_.set_block(made_block);
    std::vector<ValueId> out = body(from, mask_);
    if (failed_) return;
    for (ValueId& v : out) v = wide(v);
    to_.set_span(inst.span);
    to_.emit(Op::yield, out, {});
    to_.set_block(outer);
    const std::vector<int64_t> attrs(fn_.attrs(inst).begin(), fn_.attrs(inst).end());
    const Inst made = fn_.inst(to_.emit(Op::for_loop, in, types, attrs, {&made_block, 1}));
    for (uint32_t r = 0; r < types.size(); ++r) set(fn_.result(inst, r), fn_.result(made, r), true);
}

/// A range of each element's own: passes go on while any element has one left. The distance to the end is unsigned, so that no index runs over.
void Spread::passes(const Inst& inst) {
    std::vector<ValueId> in = operands(inst, false), inits = carried(inst, 3);
    if (failed_) return;
    const ValueId lo = wide(in[0]), hi = wide(in[1]), step = wide(in[2]), zero = number(lo, 0);
    ValueId active = both(to_.elementwise(Op::lt, {lo, hi}), to_.elementwise(Op::gt, {step, zero}));
    const ValueId outer_mask = mask_;
    if (outer_mask.valid()) active = both(outer_mask, active);
    inits.push_back(lo);
    inits.push_back(active);
    const size_t n = inits.size() - 2;
    std::vector<TypeId> types;
    for (const ValueId v : inits) types.push_back(fn_.type_of(v));
    const BlockId outer = to_.block(), from = fn_.blocks(inst)[0];
    const BlockId blocks[2] = {fn_.add_block(), fn_.add_block()};
    std::vector<ValueId> args[2];
    for (int side = 0; side < 2; ++side)
        for (const TypeId t : types) args[side].push_back(fn_.add_arg(blocks[side], t));
    to_.set_block(blocks[0]);
    mask_ = args[0].back();
    std::vector<ValueId> tested = args[0];
    tested.insert(tested.begin(), any_element());
    to_.emit(Op::condition, tested, {});

    to_.set_block(blocks[1]);
    const std::vector<ValueId> own = fn_.block(from).args;
    const ValueId i = args[1][n], here = args[1][n + 1];
    set(own[0], i, true);
    for (size_t k = 0; k < n; ++k) set(own[k + 1], args[1][k], true);
    std::vector<ValueId> out = body(from, here);
    if (failed_) return;
    to_.set_span(inst.span);
    kept(args[1], out, here);
    const FormatId unsigned_ = id_of(Fmt::u64);
    const ValueId left = to_.bitcast(to_.elementwise(Op::sub, {hi, i}), unsigned_);
    out.push_back(to_.elementwise(Op::add, {i, step}));
    out.push_back(both(here, to_.elementwise(Op::gt, {left, to_.bitcast(step, unsigned_)})));
    to_.emit(Op::yield, out, {});
    mask_ = outer_mask;
    to_.set_block(outer);
    const std::vector<int64_t> attrs(fn_.attrs(inst).begin(), fn_.attrs(inst).end());
    const Inst made = fn_.inst(to_.emit(Op::while_loop, inits, types, attrs, blocks));
    for (uint32_t r = 0; r < n; ++r) set(fn_.result(inst, r), fn_.result(made, r), true);
}

void Spread::inst(InstId id) {
    const Inst inst = fn_.inst(id);
    to_.set_span(inst.span);
    const std::vector<ValueId> in(fn_.operands(inst).begin(), fn_.operands(inst).end());
    const bool ends = inst.op == Op::yield || inst.op == Op::condition;
    if (ends) return;
    if (const Inst* effect = ordered_effect(fn_, inst)) {
        const bool prints = effect->op == Op::print;
        fail(effect->span, prints ? "print: elements have no order" : "write memory: elements have no order");
        return;
    }
    if (inst.op == Op::assert || inst.op == Op::assume) return claim(inst);
    if (inst.op == Op::load || inst.op == Op::extract) {
        const bool one = fn_.type(fn_.result(inst)).shape.rank == 0;
        if (one || !depends(inst)) return access(inst);
    } else if (inst.op == Op::ptr_load) {
        return pointers(inst);
    } else if (!depends(inst)) {
        return inst.blocks.count ? once(inst) : clone(inst);
    } else if (inst.op == Op::if_else) {
        return choice(inst);
    } else if (inst.op == Op::while_loop) {
        return while_loop(inst);
    } else if (inst.op == Op::for_loop) {
        return varies(in[0]) || varies(in[1]) || varies(in[2]) ? passes(inst) : counted(inst);
    } else if ((inst.op == Op::reshape || inst.op == Op::broadcast) && fn_.type(fn_.result(inst)) == fn_.type(in[0])) {
        return set(fn_.result(inst), of(in[0]), true);
    } else if (ir::is_pointwise(inst.op) || inst.op == Op::ptr_add || inst.op == Op::instruction) {
        if (fn_.type(fn_.result(inst)).shape.rank == 0) return pointwise(inst);
    }
    fail(inst.span, "make a tile of an element");
}

/// What the block yields, spread over the elements of `mask` (invalid: all of them).
std::vector<ValueId> Spread::body(BlockId block, ValueId mask) {
    mask_ = mask;
    const std::vector<InstId> insts = fn_.block(block).insts;
    for (const InstId id : insts) {
        inst(id);
        mask_ = mask;
        if (failed_) return {};
    }
    const std::vector<ValueId> yields(fn_.operands(fn_.inst(insts.back())).begin(), fn_.operands(fn_.inst(insts.back())).end());
    std::vector<ValueId> out;
    for (const ValueId v : yields) out.push_back(of(v));
    return out;
}

std::vector<ValueId> Spread::run(BlockId block, const std::vector<ValueId>& tiles) {
    const std::vector<ValueId> args = fn_.block(block).args;
    for (size_t i = 0; i < args.size(); ++i) set(args[i], tiles[i], true);
    std::vector<ValueId> out = body(block, {});
    for (ValueId& v : out) v = wide(v);
    empty(fn_, block);
    return out;
}

}  // namespace tegula::sema
