// Cache operations, eviction priorities and policies by instruction (caching.h), from the PTX ISA: "Cache Operators", "Cache Eviction Priority
// Hints", "ld", "st", "cp.async", "cp.async.bulk.tensor". An operation and a priority exclude each other in ld and st; either goes with a policy.
#include "lang/gpu/caching.h"

namespace tegula {

namespace {

using namespace ir;

constexpr int kPolicies = 80;  ///< the first architecture that takes policies for the second cache
constexpr CacheOp kLoad[] = {CacheOp::usual, CacheOp::ca, CacheOp::cg, CacheOp::cs, CacheOp::cv};
constexpr CacheOp kStore[] = {CacheOp::usual, CacheOp::wb, CacheOp::cg, CacheOp::cs, CacheOp::wt};

/// The order that is asked for; nothing where it is the usual one.
Evict unusual(const Caching& asked) { return asked.evict == Evict::normal ? Evict::open : asked.evict; }

/// Copies go past the first cache, and their operations are none that stream.
Evict in_second(const Caching& asked) { return asked.cache == Cache::stream ? Evict::first : unusual(asked); }

CachingForm by_bulk_copy(const Caching& asked, bool load) {
    CachingForm out;
    out.second = in_second(asked);
    if (asked.cache == Cache::through) out.cache_problem = "copies by TMA go through the second cache";
    if (asked.cache == Cache::all && load) out.cache_problem = "copies by TMA pass the first cache by";
    return out;
}

/// Without policies: ptxas of CUDA 13.0 puts them into the registers that hold the address (an illegal instruction on an H200).
CachingForm by_async_copy(const Caching& asked, const GpuChannel& ring) {
    CachingForm out;
    const char* const kNoPolicy = "what threads copy ahead takes no policy for the second cache";
    if (asked.cache == Cache::stream) out.cache_problem = kNoPolicy;
    if (unusual(asked) != Evict::open) out.evict_problem = kNoPolicy;
    if (asked.cache == Cache::all) out.operation = CacheOp::ca;
    if (asked.cache == Cache::through) out.cache_problem = "what is copied ahead goes through the second cache";
    const int64_t vector = 16 / ring.layout.elem_bytes;
    if (asked.cache == Cache::l2 && ring.own && ring.own->shape[static_cast<size_t>(ring.layout.contiguous)] % vector)
        out.cache_problem = "copies of less than 16 bytes go through the first cache";
    return out;
}

}  // namespace

CachingForm plain_caching_form(const Function& fn, InstId access) {
    const Inst& inst = fn.inst(access);
    const Caching asked = fn.caching(inst);
    CachingForm out;
    if (!asked.any()) return out;
    const bool load = inst.op != Op::store && inst.op != Op::ptr_store, policies = fn.gpu->arch->number >= kPolicies;
    const int bits = fn.elem(fn.operands(inst)[0]).bits;
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64) {
        const std::string why = "elements of " + std::to_string(bits) + (bits == 1 ? " bit" : " bits") + " are taken out of bytes that others share";
        if (asked.cache != Cache::open && asked.cache != Cache::all) out.cache_problem = why;
        if (unusual(asked) != Evict::open) out.evict_problem = why;
        return out;
    }
    const Evict evict = unusual(asked);
    if (policies) out.second = evict;
    const bool in_first = asked.cache == Cache::open || asked.cache == Cache::all;
    if (evict != Evict::open && in_first)
        out.first = evict;
    else
        out.operation = (load ? kLoad : kStore)[static_cast<size_t>(asked.cache)];
    if (evict != Evict::open && asked.cache == Cache::l2 && !policies) out.evict_problem = "the second cache of this architecture takes no policies";
    return out;
}

CachingForm caching_form(const Function& fn, InstId access) {
    const Inst& inst = fn.inst(access);
    const Caching asked = fn.caching(inst);
    if (!asked.any()) return {};
    if (fn.gpu_inst(access).bulk) return by_bulk_copy(asked, false);
    if (inst.op != Op::channel_put) return plain_caching_form(fn, access);
    const GpuChannel* ring = fn.gpu->channel(fn.operands(inst).back().v);
    TEGULA_CHECK(ring, "a copy into no ring");
    if (ring->tensor_map >= 0) return by_bulk_copy(asked, true);
    return fn.gpu->arch->cp_async ? by_async_copy(asked, *ring) : plain_caching_form(fn, access);
}

}  // namespace tegula
