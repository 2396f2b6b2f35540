// What emitted code and the run-time side agree on: the argument block, the state of a worker, and the functions that emitted code calls back.
// No LLVM here. A kernel is called once per program: entry(args, program, scratch, state).
#pragma once
#include <cstdint>
#include <vector>

#include "lang/ir.h"
#include "lang/pointer_code.h"

namespace tegula::cpu {

struct State;

/// args: Slots as make_arg_layout says. program: ids along x, y, z, then the grid's extents. scratch: `scratch_bytes` of the kernel, 64-byte aligned,
/// contents undefined, one per worker.
using Entry = void (*)(const uint64_t* args, const int64_t* program, uint8_t* scratch, State* state);

/// Elements of such a width lie at whole bytes and count in them (ParamSlots); all others count in bits.
constexpr bool has_byte_address(unsigned bits) { return bits == 8 || bits == 16 || bits == 32 || bits == 64; }

/// A tensor argument's traits that code is specialised on.
struct TensorTrait {
    bool strided = false;   ///< the host's strides replace the layout
    int8_t unit = -1;       ///< strided: the dimension with an element stride of 1 (extent > 1, or the last such), -1: none known
    bool streamed = false;  ///< more than the caches hold: reads are asked for ahead, writes go past the caches (plan.h, streamable_params)
    friend bool operator==(const TensorTrait&, const TensorTrait&) = default;
};

/// Where a parameter lies in the argument block, in 8-byte slots.
///   scalar, extent: 1 slot, the code extended to 64 bits (format.h extend_code).
///   pointer, tensor: data (address of element 0's storage), bytes (of the storage), limit (elements that a pointer may reach: a pointer argument's
///   extent; INT64_MAX for tensors), then for tensors extents[rank] and
///     affine (row, col, strides, a user's permutation of the indices, or strided): strides[rank], in bytes when elements are 8, 16, 32 or 64 bits
///     wide, else in bits. As BoundLayout and
///       views: row-major rows of sub-byte elements start on a byte. A stride of an extent <= 1 may be anything that fits; use 0.
///     by expressions: pitches[members] of the physical tuple, in the same unit (row-major over physical_extents, rows start on a byte).
struct ParamSlots {
    enum Kind : uint8_t { scalar, pointer, tensor } kind = scalar;
    bool affine = true;
    uint32_t first = 0, count = 1;
    uint32_t extents = 0, strides = 0;  ///< first slot of each; strides also for pitches
    uint32_t members = 0;               ///< slots at `strides`
    static constexpr uint32_t data = 0, bytes = 1, limit = 2;
};
struct ArgLayout {
    std::vector<ParamSlots> params;
    uint32_t slots = 0;
};
/// Behind the slots of parameters, where the function follows addresses: how many objects a launch names behind its arguments, then of each the first
/// three slots of a tensor.
ArgLayout make_arg_layout(const ir::Function& fn, const std::vector<TensorTrait>& traits);

/// What the `checked` variant reports of an instruction.
enum class Failure : uint32_t { division_by_zero, division_overflow, gather_out_of_range, assumption };

/// Functions of the run-time side that code calls: fields of State, so that objects hold no addresses and can be cached.
/// Tile operands are passed as dense row-major containers without padding (bool: one byte, 0 or 1), scalars as one container.
struct Support {
    /// Polled at back edges when steps_left < 0, in loops over tiles when elements_left < 0, and refills both; sets `stop` when the run is over.
    /// `inst`: whose code polls; `left`: at the end of a `for` body, how often it runs again, else -1.
    void (*tick)(State*, uint32_t inst, int64_t left);
    /// print and assert of instruction `inst`; operands in order.
    void (*print)(State*, uint32_t inst, const void* const* operands);
    /// assert: `element` is the row-major number of the first false element.
    void (*failed_assert)(State*, uint32_t inst, int64_t element);
    /// A pointer lane that reaches no element: lane number and pointer value.
    void (*bad_pointer)(State*, uint32_t inst, int64_t lane, uint64_t pointer);
    /// `bounds` variant: instruction touched bytes outside of parameter `param`'s storage (the element is treated as out of range).
    void (*outside)(State*, uint32_t inst, uint32_t param);
    /// One element of an atomic that is no aligned word: `data` + `bit` is its place, formats and kind from the instruction; returns the old code.
    /// `expected` for cas.
    uint64_t (*atomic)(State*, uint32_t inst, uint8_t* data, uint64_t bit, uint64_t value, uint64_t expected);
    /// sort: operand, values and indices, of which the first `wanted` along the axis are; histogram: operand, mask or null, counts. Dense.
    void (*sort)(State*, uint32_t inst, const void* in, void* values, int32_t* indices, int64_t wanted);
    void (*histogram)(State*, uint32_t inst, const void* in, const uint8_t* mask, int32_t* counts);
    /// All programs meet; sets `stop` when they do not.
    void (*grid_barrier)(State*, uint32_t inst);
    /// `checked` variant: element number `element` (-1: the whole instruction) fails; `code` is the operand that the message names.
    void (*failed_check)(State*, uint32_t inst, uint32_t failure, int64_t element, uint64_t code);
    /// `checked` variant: reports `code`, which a cast with `overflow = trap` converts, when it does not fit. `random`: seed or bits of stochastic
    /// rounding.
    void (*check_cast)(State*, uint32_t inst, int64_t element, uint64_t code, uint64_t random);
    /// ptr_at, ptr_address: addresses to pointers, or back; dense.
    void (*convert_pointers)(State*, uint32_t inst, const uint64_t* in, uint64_t* out);
};

/// One worker. Emitted code knows the offsets of the first fields (static_asserts in codegen.cpp).
struct State {
    const uint32_t* stop = nullptr;  ///< non-zero: leave the kernel soon; read with relaxed order at back edges
    const Support* support = nullptr;
    int64_t steps_left = 0;     ///< counted down at back edges by the instructions of the body
    int64_t elements_left = 0;  ///< counted down in loops over tiles by the elements of what is inside
    const ir::Function* fn = nullptr;
    void* owner = nullptr;  ///< of the run-time side
};

}  // namespace tegula::cpu
