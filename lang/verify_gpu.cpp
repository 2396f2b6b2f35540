// The verifier's rules of the ops that GPU passes make: types only. That they are used in a safe order is proved by lower/gpu/prove.cpp.
#include "lang/instruction.h"
#include "lang/verify_rules.h"

namespace tegula::ir {

namespace {

bool need_gpu(RuleContext& c) { return c.need(c.fn.gpu.has_value(), "is legal after the GPU passes only"); }

const GpuChannel* ring(const RuleContext& c, ValueId channel) { return c.fn.gpu->channel(channel.v); }

void verify_cta(RuleContext& c) {
    if (!need_gpu(c)) return;
    c.need(c.fn.gpu->persistent, "is legal in a persistent form only");
    c.need(is_scalar(c.result(), Fmt::i64), "result is a scalar i64");
}

}  // namespace

void verify_cta_id(RuleContext& c) { verify_cta(c); }

void verify_num_ctas(RuleContext& c) { verify_cta(c); }

void verify_convert(RuleContext& c) {
    if (!need_gpu(c)) return;
    c.need_type(c.result(), c.operand(0), "result");
}

namespace {

/// The instruction that `ptx` and `ptx_tile` name, if it takes the operands.
std::optional<Instruction> checked_instruction(RuleContext& c, size_t first) {
    if (!c.attr_in(0, 0, static_cast<int64_t>(c.fn.strings.size()) - 1, "text is not a string of the function")) return std::nullopt;
    std::optional<Instruction> out = parse_instruction(c.fn.strings[static_cast<size_t>(c.attrs()[0])]);
    if (!c.need(out.has_value(), "its text is no instruction")) return std::nullopt;
    if (!c.need(c.operand_count() == out->operands.size() + first, "an operand for each of the instruction's")) return std::nullopt;
    for (size_t i = 0; i < c.operand_count(); ++i)
        if (!c.need(c.operand(i).kind == Type::tile && !c.operand(i).pointer, "operands are tiles of numbers")) return std::nullopt;
    return out;
}

/// `groups`: of the result; each of `tile` has so many elements as the operand takes at once.
bool has_groups(const Shape& groups, const Instruction::Operand& operand, const Shape& tile) {
    Shape wanted = groups;
    if (operand.group > 1) wanted.dims[wanted.rank - 1u] *= operand.group;
    return wanted == tile;
}

}  // namespace

void verify_instruction(RuleContext& c) {
    if (!c.need(c.operand_count() > 1, "operand 0 and those of the instruction")) return;
    c.need_type(c.result(), c.operand(0), "result");
    checked_instruction(c, 1);
}

void verify_ptx(RuleContext& c) {
    const std::optional<Instruction> i = checked_instruction(c, 0);
    if (!i || !c.need(!i->on_tiles() && !i->grouped(), "takes single elements")) return;
    for (size_t o = 0; o < c.operand_count(); ++o) c.need(c.operand(o).shape == c.result().shape, "operands have the result's shape");
}

void verify_ptx_tile(RuleContext& c) {
    const std::optional<Instruction> i = checked_instruction(c, 0);
    if (!i || !c.need(i->on_tiles() || i->grouped(), "takes tiles or groups of elements")) return;
    if (i->on_tiles()) {
        for (size_t o = 0; o < c.operand_count(); ++o) c.need(c.operand(o).shape == i->operands[o].fragment->shape, "operands have the fragments' shapes");
        c.need(c.result().shape == i->result.fragment->shape, "result has its fragment's shape");
        return;
    }
    Shape groups = c.result().shape;
    if (!c.need(groups.rank > 0 && groups[groups.rank - 1u] % i->result.group == 0, "the last extent is a multiple of the group")) return;
    groups.dims[groups.rank - 1u] /= i->result.group;
    for (size_t o = 0; o < c.operand_count(); ++o) c.need(has_groups(groups, i->operands[o], c.operand(o).shape), "operands have the result's groups");
}

void verify_channel(RuleContext& c) {
    if (!need_gpu(c)) return;
    c.need(c.result().kind == Type::channel, "result is a channel");
    c.attr_in(0, 1, 64, "1 to 64 stages");
    const GpuChannel* own = ring(c, c.fn.result(c.inst));
    if (!own || !own->own) return;
    c.need(!c.fn.gpu->specialised && own->tensor_map < 0, "an own ring is filled by the threads that read it");
    c.need(own->own->shape == c.result().shape && own->own->warps() == c.fn.gpu->warps, "an own ring has the layout of its tile");
    const int64_t held = int64_t{own->own->registers()} * 32 * c.fn.gpu->warps * c.elem(c.result()).container_bytes();
    c.need(held == own->layout.bytes(), "an own ring holds every element once");
}

void verify_channel_put(RuleContext& c) {
    if (!need_gpu(c)) return;
    if (!c.need(c.operand_count() >= 2 && c.operand(c.operand_count() - 1).kind == Type::channel, "the last operand is a channel")) return;
    if (!c.need(c.operand(0).kind == Type::tensor, "operand 0 is a tensor")) return;
    c.need((c.attrs()[0] & ~kCachingFlags) == 0, "a copy has no mask and no other value");
    c.need(caching_conflict(c.fn.caching(c.inst)).empty(), "its cache and evict contradict each other");
    c.need(c.operand(0).elem == c.operand(c.operand_count() - 1).elem, "tensor and channel have one element type");
}

void verify_channel_get(RuleContext& c) {
    if (!need_gpu(c)) return;
    if (!c.need(c.operand(0).kind == Type::channel, "operand 0 is a channel")) return;
    c.need_type(c.result(), tile_type(c.operand(0).elem, c.operand(0).shape), "result");
}

void verify_channel_release(RuleContext& c) {
    if (!need_gpu(c)) return;
    if (!c.need(c.operand(0).kind == Type::channel, "operand 0 is a channel")) return;
    const GpuChannel* own = ring(c, c.operands()[0]);
    c.need(!own || !own->own, "stages of an own ring are free when they have been read");
}

void verify_specialise(RuleContext& c) {
    if (!need_gpu(c)) return;
    if (!c.need(c.inst.blocks.count == 2, "wrong number of blocks")) return;
    for (size_t b = 0; b < 2; ++b) {
        const Block& block = c.fn.block(c.fn.blocks(c.inst)[b]);
        c.need(block.args.empty(), "blocks take no arguments");
        c.need(!block.insts.empty() && c.fn.inst(block.insts.back()).op == Op::yield, "blocks end in `yield`");
    }
}

}  // namespace tegula::ir
