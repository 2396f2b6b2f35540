// Bounds on registers and copies of loops (hints.h).
#include "lang/gpu/hints.h"

#include <algorithm>

#include "lang/gpu/packed_view.h"
#include "lang/gpu/tensor_memory.h"

namespace tegula {

namespace {

using namespace ir;

constexpr int kExchanges[][3] = {{8, 40, 232}, {16, 24, 112}};  ///< warps that compute: of the producer, of the others
/// Late products want every register; the producer of such a form, which does little, does with the fewest that there are.
constexpr int kLateExchange[] = {8, 24, 240};
constexpr int kLeast = 24, kMost = 255;              ///< registers of a thread: what ptxas takes on all architectures
constexpr int64_t kLeastStream = 72;                 ///< registers of a thread beside sums, whatever the width of words
constexpr int64_t kBesideStream = 8, kStreamed = 4;  ///< registers of a thread, measured: for addresses; times those of tiles that are loaded ahead
constexpr int64_t kBesideShared = 24;                ///< the same: for what decodes words that lanes share
constexpr int kMostPrograms = 4;
constexpr int64_t kMaxUnroll = 64;
/// Elements that the copies of a body compute in a thread. Compilers give up unrolling at 16384 instructions, also of the loops over registers
/// inside, whose arrays would then lie in memory.
constexpr int64_t kMaxCopied = 8192;

std::optional<int64_t> constant_of(const Function& fn, ValueId v) {
    const Inst* def = fn.def(v);
    return def && def->op == Op::constant ? std::optional(fn.attrs(*def)[0]) : std::nullopt;
}

/// Trips of a loop with constant bounds.
std::optional<int64_t> constant_trips(const Function& fn, const Inst& loop) {
    if (loop.op != Op::for_loop) return std::nullopt;
    const auto lo = constant_of(fn, fn.operands(loop)[0]), hi = constant_of(fn, fn.operands(loop)[1]), step = constant_of(fn, fn.operands(loop)[2]);
    if (!lo || !hi || !step) return std::nullopt;
    if (*step <= 0 || *hi <= *lo) return 0;
    const uint64_t distance = static_cast<uint64_t>(*hi) - static_cast<uint64_t>(*lo);
    return static_cast<int64_t>(std::min<uint64_t>((distance - 1) / static_cast<uint64_t>(*step), INT64_MAX - 1)) + 1;
}

/// Elements that a thread computes in one pass.
int64_t work_of(const Function& fn, BlockId block) {
    int64_t work = 0;
    for (const InstId id : fn.block(block).insts) {
        const Inst& inst = fn.inst(id);
        ++work;
        for (uint32_t r = 0; r < inst.results.count; ++r) {
            const Placement& p = fn.placement(fn.result(inst, r));
            if (p.kind == Placement::registers) work += p.regs.registers();
        }
        for (const BlockId inner : fn.blocks(inst)) work += work_of(fn, inner);
    }
    return work;
}

/// 32-bit registers of a thread.
int64_t register_words(const Function& fn, ValueId v) {
    const Placement& p = fn.placement(v);
    return p.kind == Placement::registers ? (int64_t{p.regs.registers()} * fn.elem(v).bits + 31) / 32 : 0;
}

/// Registers for a loop's trips: what it carries, and of tiles that are loaded a trip ahead those that come, those that are decoded, and the pairs
/// they become on their way to products. 0: no narrow tile is loaded ahead.
int64_t streaming_registers(const Function& fn, const Inst& loop) {
    const auto next = fn.operands(fn.inst(fn.block(fn.blocks(loop)[0]).insts.back()));
    int64_t needed = kBesideStream, others = kLeastStream;
    bool narrow = false;
    for (uint32_t r = 0; r < loop.results.count; ++r) {
        const Inst* def = fn.def(next[r]);
        const bool ahead = def && def->op == Op::load;
        const int64_t words = register_words(fn, fn.result(loop, r));
        if (!ahead || fn.elem(next[r]).bits > 8) {
            needed += (ahead ? kStreamed : 1) * words;
            others += words;
            continue;
        }
        narrow = true;
        // Words that come and words that are decoded, and half of the pairs.
        const int64_t elements = fn.placement(next[r]).regs.registers();
        needed += 2 * words + elements / 4;
        // Lanes that share a row hold words for all of them; what is no words is elements.
        const auto view = packed_view(fn, *def, fn.placement(next[r]).regs);
        const int64_t held = view ? view->words() : elements;
        if (held > words) needed += 2 * (held - words) + kBesideShared;
    }
    return narrow ? std::max(needed, others) : 0;
}

}  // namespace

int shared_programs(const Function& fn) {
    if (!fn.gpu->specialised) return 1;
    int64_t needed = 0;
    for (uint32_t b = 0; b < fn.block_count(); ++b)
        for (const InstId id : fn.block(BlockId{b}).insts) {
            if (is_product(fn.inst(id).op) && product_row(fn, id).kind != MmaRow::mma) return 1;
            if (fn.inst(id).op == Op::for_loop) needed = std::max(needed, streaming_registers(fn, fn.inst(id)));
        }
    if (needed == 0) return 1;
    const int warps = fn.gpu->warps + kProducerThreads / 32;
    int programs = kMostPrograms;
    // Each of a multiprocessor's four parts deals its registers out to whole warps, eight at a time.
    while (programs > 1 && fn.gpu->arch->registers / 4 / 32 / ((programs * warps + 3) / 4) / 8 * 8 < needed) --programs;
    return programs;
}

int kernel_threads(const Function& fn) {
    return 32 * fn.gpu->warps + (!fn.gpu->specialised ? 0 : register_exchange(fn) ? kProducerGroup : kProducerThreads);
}

std::optional<RegisterExchange> register_exchange(const Function& fn) {
    const std::vector<GpuInst>& facts = fn.gpu->of_inst;
    return register_exchange(fn, std::any_of(facts.begin(), facts.end(), [](const GpuInst& i) { return i.late; }));
}

std::optional<RegisterExchange> register_exchange(const Function& fn, bool late) {
    if (!fn.gpu->specialised || !fn.gpu->arch->exchange || shared_programs(fn) > 1) return std::nullopt;
    if (late && fn.gpu->warps == kLateExchange[0]) return RegisterExchange{kLateExchange[1], kLateExchange[2]};
    for (const auto& [warps, producer, others] : kExchanges) {
        if (warps != fn.gpu->warps) continue;
        const bool spills = warps == 8 && allocated_columns(*fn.gpu) > 0;  // beside tensor memory ptxas spills more with an exchange than without
        return spills ? std::nullopt : std::optional(RegisterExchange{producer, others});
    }
    return std::nullopt;
}

RegisterBound register_bound(const Function& fn) {
    const auto asked = hint_argument(fn.hints, "registers");
    if (!asked) return {};
    if (*asked < 1) return {0, "it takes a positive number"};
    if (register_exchange(fn)) return {0, "its warps give registers to one another"};
    const int room = std::min(kMost, fn.gpu->arch->registers / kernel_threads(fn) / 8 * 8);
    if (*asked < kLeast) return {kLeast, "compilers leave a thread no fewer"};
    if (*asked > room)
        return {room, room == kMost ? "a thread has no more" : "a multiprocessor has no more for " + std::to_string(kernel_threads(fn)) + " threads"};
    return {static_cast<int>(*asked), ""};
}

Unrolling unrolling(const Function& fn, const Inst& loop) {
    const Hint* hint = find_hint(fn.hints_of(loop), "unroll");
    if (!hint) return {};
    if (!hint->args.empty()) {
        const int64_t n = hint->args[0];
        if (n < 1) return {1, "it takes 1 to 64"};
        return n > kMaxUnroll ? Unrolling{kMaxUnroll, "more copies of a loop's body do not fit in the instruction cache"} : Unrolling{n, ""};
    }
    const auto trips = constant_trips(fn, loop);
    if (!trips) return {1, "the number of its trips is not known when it is compiled"};
    if (*trips > kMaxUnroll) return {1, "it makes " + std::to_string(*trips) + " trips, and loops of at most 64 are unrolled as a whole"};
    const int64_t work = work_of(fn, fn.blocks(loop)[0]);
    if (*trips > 1 && work > kMaxCopied / *trips)
        return {1, std::to_string(*trips) + " copies of its body, of " + std::to_string(work) + " elements in a thread, would be too much code"};
    return {std::max<int64_t>(*trips, 1), ""};
}

}  // namespace tegula
