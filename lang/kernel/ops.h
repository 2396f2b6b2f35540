// The rows of kernel_ops.def.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace tegula::kernel {

enum class KernelOp : uint8_t {
#define KERNEL_OP(name, ...) name,
#include "lang/kernel/kernel_ops.def"
};

/// What an operand is to its operation.
enum class Operand : uint8_t {
    any,        ///< read
    number,     ///< a 32-bit integer that is read
    wide,       ///< an integer that is read
    constant,   ///< a number that the compiler knows
    newer,      ///< such a number: groups that may be on their way; -1: all. Printed only by texts that name it
    count,      ///< such a number: threads that meet
    results,    ///< such a number: so many of the operands behind it are results, whatever their word is; not printed
    result,     ///< a variable or registers, written
    sum,        ///< the same, read and written
    counter,    ///< a variable of a ring, read and written
    area_from,  ///< an address of shared or tensor memory that is read
    area_to,    ///< the same, written
    barrier,    ///< the address of a barrier in shared memory
    peer,       ///< the same, of a CTA of the cluster
    map,        ///< a tensor map
    function,   ///< the name of a device function
    type,       ///< a C type
    named,      ///< registers that PTX knows by name, read by the text that another operand is; not printed
    form,       ///< an instruction's shape and formats, with its immediate operands: m64n8k16.f32.f16.f16(1, 1, 0)
};

enum Effect : uint16_t {
    READS_SHARED = 1,
    WRITES_SHARED = 2,
    READS_GLOBAL = 4,
    WRITES_GLOBAL = 8,
    MEETS = 16,          ///< all threads that it names have to come
    ORDERS = 32,         ///< what threads did before it is seen by those that follow
    VARIES = 64,         ///< its result is not the same in all threads
    ISSUES = 128,        ///< work into its queue
    COMMITS = 256,       ///< closes a group of the queue
    AWAITS = 512,        ///< groups of the queue
    INITIALISES = 1024,  ///< a barrier
    SHOWS = 2048,        ///< initialised barriers to bulk copies
    ARRIVES = 4096,      ///< at a barrier
    WAITS = 8192,        ///< for a barrier
    EXCHANGES = 16384,   ///< registers with other warps
    COUNTS = 32768,      ///< moves a counter of a ring
};

/// What asynchronous work goes through. `barrier`: whoever waits for its barrier waits for it.
enum class Queue : uint8_t { none, copy, bulk, wgmma, tensor, tensor_store, columns, cluster, barrier };
constexpr int kQueues = 9;
constexpr int kAll = 1024;  ///< threads of a row that all threads execute

constexpr size_t kMostOperands = 8;

/// The operands that a row asks for.
struct Signature {
    std::array<Operand, kMostOperands> word = {};
    uint8_t size = 0;
    int8_t open = -1;  ///< the one that may be left out or come several times
    bool many = false;

    bool takes(size_t count) const {
        if (open < 0) return count == size;
        return count + 1 >= size && (many || count <= size);
    }
    /// Of operand `i` of `count`.
    Operand of(size_t i, size_t count) const {
        const auto at = static_cast<size_t>(open);
        if (open < 0 || i < at) return word[i];
        const size_t extra = count + 1 - size;  // operands that the open word stands for
        return i < at + extra ? word[at] : word[i + 1 - extra];
    }
};

struct Row {
    KernelOp op;
    std::string_view name;
    Signature operands;
    uint16_t effects;
    int threads;
    Queue queue;
    int first, last;
    std::string_view cuda, section, doc;
    bool has(Effect effect) const { return effects & effect; }
};

std::span<const Row> all_rows();
inline const Row& row(KernelOp op) { return all_rows()[static_cast<size_t>(op)]; }
inline bool is_printed(Operand o) { return o != Operand::newer && o != Operand::named && o != Operand::results; }

}  // namespace tegula::kernel
