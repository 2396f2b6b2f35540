// How an access of a function with a GpuForm follows what it asks of caches: one rule for the emitter and for what is said of hints.
#pragma once
#include <string>

#include "lang/ir.h"

namespace tegula {

/// Of ld, st and cp.async, as PTX names them; usual: the instruction's own.
enum class CacheOp : uint8_t { usual, ca, cg, cs, cv, wb, wt };

struct CachingForm {
    CacheOp operation = CacheOp::usual;
    ir::Evict first = ir::Evict::open;      ///< `first` or `last`: priority in the first cache (ld and st without an operation)
    ir::Evict second = ir::Evict::open;     ///< `first` or `last`: by a policy for the second cache
    std::string cache_problem, evict_problem;  ///< not empty: what `cache`, `evict` asks for is not done
};
/// Of a load, store, ptr_load, ptr_store or channel_put, done as it will be: by ld and st, by cp.async, or by TMA.
CachingForm caching_form(const ir::Function& fn, ir::InstId access);
/// Of ld and st alone: what a copy that starts nowhere near 16 bytes falls back to.
CachingForm plain_caching_form(const ir::Function& fn, ir::InstId access);

}  // namespace tegula
