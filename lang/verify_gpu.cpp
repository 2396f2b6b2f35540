// The verifier's rules of the ops that GPU passes make: types only. That they are used in a safe order is proved by lower/gpu/prove.cpp.
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
