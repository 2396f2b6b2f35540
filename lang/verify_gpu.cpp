// The verifier's rules of the ops that GPU passes make: types only. That they are used in a safe order is proved by lower/gpu/prove.cpp.
#include "lang/verify_rules.h"

namespace tegula::ir {

namespace {

bool need_gpu(RuleContext& c) { return c.need(c.fn.gpu.has_value(), "is legal after the GPU passes only"); }

}  // namespace

void verify_convert(RuleContext& c) {
    if (!need_gpu(c)) return;
    c.need_type(c.result(), c.operand(0), "result");
}

void verify_channel(RuleContext& c) {
    if (!need_gpu(c)) return;
    c.need(c.result().kind == Type::channel, "result is a channel");
    c.attr_in(0, 1, 64, "1 to 64 stages");
}

void verify_channel_put(RuleContext& c) {
    if (!need_gpu(c)) return;
    if (!c.need(c.operand_count() >= 2 && c.operand(c.operand_count() - 1).kind == Type::channel, "the last operand is a channel")) return;
    if (!c.need(c.operand(0).kind == Type::tensor, "operand 0 is a tensor")) return;
    c.need(c.attrs()[0] == 0, "a copy has no mask and no other value");
    c.need(c.operand(0).elem == c.operand(c.operand_count() - 1).elem, "tensor and channel have one element type");
}

void verify_channel_get(RuleContext& c) {
    if (!need_gpu(c)) return;
    if (!c.need(c.operand(0).kind == Type::channel, "operand 0 is a channel")) return;
    c.need_type(c.result(), tile_type(c.operand(0).elem, c.operand(0).shape), "result");
}

void verify_channel_release(RuleContext& c) {
    if (!need_gpu(c)) return;
    c.need(c.operand(0).kind == Type::channel, "operand 0 is a channel");
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
