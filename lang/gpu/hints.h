// Hints that shape the text of GPU kernels: how many registers a thread may have, and how often a loop's body is copied. One rule for the emitter and
// for what is said of hints.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "lang/ir.h"

namespace tegula {

/// Of a specialised form, besides those that compute: a warp, or a group of four where warps give registers to one another, which groups do.
constexpr int kProducerThreads = 32, kProducerGroup = 128;
int kernel_threads(const ir::Function& fn);

/// Of a specialised form that decodes words from memory on their way to products of one warp each: programs for which a multiprocessor is to have
/// registers, as the bytes under way grow with them. 1: nothing is asked for.
int shared_programs(const ir::Function& fn);

/// Registers of a thread in a specialised form whose producer gives some to the others (setmaxnreg). nullopt: all keep what they start with.
struct RegisterExchange {
    int producer, others;
};
std::optional<RegisterExchange> register_exchange(const ir::Function& fn);
std::optional<RegisterExchange> register_exchange(const ir::Function& fn, bool late);  ///< with late products or without, whatever it has

/// What the attribute registers(n) makes of the registers of a thread.
struct RegisterBound {
    int most = 0;     ///< 0: no bound
    std::string why;  ///< the attribute is not followed, or `most` is another number
};
RegisterBound register_bound(const ir::Function& fn);

/// What a loop's `unroll` makes of it.
struct Unrolling {
    int64_t copies = 1;  ///< of the body
    std::string why;     ///< the hint is not followed, or `copies` is another number than it gives
};
Unrolling unrolling(const ir::Function& fn, const ir::Inst& loop);

}  // namespace tegula
