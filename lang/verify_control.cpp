// The verifier's rules of ops that own blocks, and of the terminators that end those (verify_rules.h).
#include <algorithm>

#include "lang/verify_rules.h"

namespace tegula::ir {

namespace {

const Inst* terminator(const RuleContext& c, BlockId id) {
    const Block& b = c.fn.block(id);
    return b.insts.empty() ? nullptr : &c.fn.inst(b.insts.back());
}

bool need_blocks(RuleContext& c, size_t count) { return c.need(c.inst.blocks.count == count, "wrong number of blocks"); }

bool need_args(RuleContext& c, BlockId block, std::span<const Type> wanted) {
    const std::vector<ValueId>& args = c.fn.block(block).args;
    if (!c.need(args.size() == wanted.size(), "wrong number of block arguments")) return false;
    for (size_t i = 0; i < args.size(); ++i)
        if (!c.need_type(c.fn.type(args[i]), wanted[i], "block argument")) return false;
    return true;
}

/// The block ends in `op` whose operands after the first `skip` have these types.
bool need_end(RuleContext& c, BlockId block, Op op, std::span<const Type> wanted, size_t skip = 0) {
    const Inst* end = terminator(c, block);
    if (!end || end->op != op) {
        c.fail(std::string("block does not end in `") + op_row(op).name + "`");
        return false;
    }
    const std::span<const ValueId> values = c.fn.operands(*end);
    if (!c.need(values.size() == wanted.size() + skip, "block ends with the wrong number of values")) return false;
    for (size_t i = 0; i < wanted.size(); ++i)
        if (!c.need_type(c.fn.type(values[i + skip]), wanted[i], "value that ends the block")) return false;
    return true;
}

std::vector<Type> operand_types(const RuleContext& c, size_t first) {
    std::vector<Type> out;
    for (size_t i = first; i < c.operand_count(); ++i) out.push_back(c.operand(i));
    return out;
}

bool need_results(RuleContext& c, std::span<const Type> wanted) {
    if (!c.need(c.inst.results.count == wanted.size(), "wrong number of results")) return false;
    for (uint32_t i = 0; i < wanted.size(); ++i)
        if (!c.need_type(c.result(i), wanted[i], "result")) return false;
    return true;
}

bool need_carried_tiles(RuleContext& c) {
    for (size_t i = 0; i < c.operand_count(); ++i)
        if (!c.need(c.operand(i).kind == Type::tile, "operands are tiles")) return false;
    return true;
}

}  // namespace

void verify_for_loop(RuleContext& c) {
    c.attr_in(0, 0, std::max<int64_t>(static_cast<int64_t>(c.fn.loop_hints.size()) - 1, 0), "loop hints are not in the function's table");
    if (!c.need(c.operand_count() >= 3, "lower bound, upper bound and step are needed") || !need_carried_tiles(c)) return;
    for (size_t i = 0; i < 3; ++i)
        if (!c.need(is_scalar(c.operand(i), Fmt::i64), "bounds and step are scalar i64")) return;
    const std::vector<Type> carried = operand_types(c, 3);
    std::vector<Type> args = carried;
    args.insert(args.begin(), tile_type(Fmt::i64, {}));
    if (!need_results(c, carried) || !need_blocks(c, 1)) return;
    if (need_args(c, c.fn.blocks(c.inst)[0], args)) need_end(c, c.fn.blocks(c.inst)[0], Op::yield, carried);
}

void verify_while_loop(RuleContext& c) {
    c.attr_in(0, 0, std::max<int64_t>(static_cast<int64_t>(c.fn.loop_hints.size()) - 1, 0), "loop hints are not in the function's table");
    if (!need_carried_tiles(c) || !need_blocks(c, 2)) return;
    const std::vector<Type> carried = operand_types(c, 0);
    if (!need_results(c, carried)) return;
    const std::span<const BlockId> blocks = c.fn.blocks(c.inst);
    if (need_args(c, blocks[0], carried)) need_end(c, blocks[0], Op::condition, carried, 1);
    if (need_args(c, blocks[1], carried)) need_end(c, blocks[1], Op::yield, carried);
}

void verify_if_else(RuleContext& c) {
    c.need(is_scalar(c.operand(0), Fmt::boolean), "condition is a scalar bool");
    if (!need_blocks(c, 2)) return;
    std::vector<Type> types;
    for (uint32_t i = 0; i < c.inst.results.count; ++i) types.push_back(c.result(i));
    for (BlockId b : c.fn.blocks(c.inst))
        if (need_args(c, b, {})) need_end(c, b, Op::yield, types);
}

void verify_reduce_region(RuleContext& c) {
    const size_t n = c.operand_count() / 2;
    if (!c.need(n >= 1 && c.operand_count() == 2 * n, "takes n tiles, then n inits") || !need_carried_tiles(c) || !need_blocks(c, 1)) return;
    const Shape shape = c.operand(0).shape;
    if (!c.attr_in(0, -1, int64_t{shape.rank} - 1, "axis is not a dimension of the operand")) return;
    std::vector<Type> scalars, results;
    for (size_t i = 0; i < n; ++i) {
        if (!c.need(c.operand(i).shape == shape, "tiles have the same shape")) return;
        scalars.push_back(tile_type(c.operand(i).elem, {}, c.operand(i).pointer));
        if (!c.need_type(c.operand(n + i), scalars[i], "init")) return;
        results.push_back(tile_type(c.operand(i).elem, drop_axis(shape, c.attrs()[0]), c.operand(i).pointer));
    }
    std::vector<Type> args = scalars;
    args.insert(args.end(), scalars.begin(), scalars.end());
    const BlockId block = c.fn.blocks(c.inst)[0];
    if (need_results(c, results) && need_args(c, block, args)) need_end(c, block, Op::yield, scalars);
}

void verify_scan_region(RuleContext& c) {
    const size_t n = c.operand_count();
    if (!c.need(n >= 1, "operands are missing") || !need_carried_tiles(c) || !need_blocks(c, 1)) return;
    const Shape shape = c.operand(0).shape;
    if (!c.attr_in(0, 0, int64_t{shape.rank} - 1, "axis is not a dimension of the operand") || !c.attr_in(1, 0, 1, "reverse is 0 or 1")) return;
    std::vector<Type> scalars;
    for (size_t i = 0; i < n; ++i) {
        if (!c.need(c.operand(i).shape == shape, "tiles have the same shape")) return;
        scalars.push_back(tile_type(c.operand(i).elem, {}, c.operand(i).pointer));
    }
    std::vector<Type> args = scalars;
    args.insert(args.end(), scalars.begin(), scalars.end());
    const BlockId block = c.fn.blocks(c.inst)[0];
    if (need_results(c, operand_types(c, 0)) && need_args(c, block, args)) need_end(c, block, Op::yield, scalars);
}

// ---- terminators: their operands are checked with the op that owns the block ----

void verify_yield(RuleContext& c) {
    const InstId owner = c.fn.block(c.inst.parent).owner;
    c.need(owner.valid(), "ends a block that no op owns");
}

void verify_condition(RuleContext& c) {
    const InstId owner = c.fn.block(c.inst.parent).owner;
    const bool placed = owner.valid() && c.fn.inst(owner).op == Op::while_loop && c.fn.blocks(c.fn.inst(owner))[0] == c.inst.parent;
    c.need(placed, "ends the first block of a while_loop only");
    c.need(c.operand_count() >= 1 && is_scalar(c.operand(0), Fmt::boolean), "operand 0 is a scalar bool");
}

void verify_ret(RuleContext& c) {
    c.need(c.inst.parent == c.fn.body, "ends the function body only");
    c.need(!c.fn.is_kernel || c.operand_count() == 0, "a kernel returns no values");
    for (size_t i = 0; i < c.operand_count(); ++i) c.need(c.operand(i).kind == Type::tile, "operands are tiles");
}

}  // namespace tegula::ir
