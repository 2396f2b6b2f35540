// What a back end gets at launch, and what it gives back: nouns shared by the interpreter, the other machines and the engine.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lang/diag.h"
#include "lang/ir.h"

namespace tegula {

enum class Memory : uint8_t { host, cuda };

/// A tensor in memory. Elements of `elem` are packed as layout.h says (sub-byte rows start on a byte).
struct TensorArg {
    FormatId elem{};
    void* data = nullptr;
    uint64_t bytes = 0;            ///< size of the storage behind `data`; addresses outside are errors
    Shape extents{};               ///< logical
    LayoutId layout{};
    bool has_strides = false;      ///< then `strides` (in elements, may be any 64-bit value) replace the layout; whole-byte formats only
    std::array<int64_t, kMaxRank> strides{};
    Memory memory = Memory::host;  ///< where `data` points; machines copy what they cannot reach
    int device = 0;                ///< cuda: ordinal
    uint8_t* initialised = nullptr;  ///< optional shadow for checked mode: one byte per storage byte, non-zero when written
};

/// One argument per ir::Param, in order.
struct Argument {
    enum Kind : uint8_t { tensor, pointer, scalar } kind = scalar;
    TensorArg t;        ///< tensor, pointer (rank-1 storage of `extents[0]` elements that the pointer may reach)
    uint64_t code = 0;  ///< scalar and extent: code in the parameter's format
};

struct RunOptions {
    bool checked = false;        ///< report what numerics.md and language.md call errors, instead of the defined result
    bool trap_floats = false;    ///< checked: also NaN or Inf produced from finite operands
    uint64_t order_seed = 0;     ///< 0: programs in order; else a permutation of the grid
    unsigned threads = 1;        ///< programs in parallel (checked mode uses 1)
    uint64_t step_budget = 0;    ///< tile instructions executed over all programs; 0: none
    uint64_t memory_budget = 0;  ///< bytes of tile storage per program, and of the race shadows of a checked run; 0: none
    uint64_t compile_budget = 0;  ///< cpu: milliseconds of compiling; 0: none
    size_t max_errors = 20;
    const std::atomic<bool>* cancel = nullptr;                ///< polled; set: the run ends with `cancelled`
    std::function<void(std::string_view)> print;              ///< text of `print`, one call per program and statement, in program order
    std::function<bool(uint64_t done, uint64_t all)> progress;  ///< about every 0.1 s; false: end with `cancelled`
    bool compile_only = false;  ///< machines that compile: make what the run needs, and run nothing
    bool measure = false;    ///< time the run on the device (RunResult::seconds), from a cold cache
    void* stream = nullptr;  ///< cuda: CUstream to enqueue on (default stream otherwise); tensors in device memory then are not waited for
};

struct RunResult {
    enum Status : uint8_t { ok, failed, cancelled, out_of_steps, out_of_memory, out_of_time, unavailable } status = ok;
    std::vector<Diagnostic> diagnostics;  ///< T09 rows: source position, program id and element index in the message or notes
    uint64_t steps = 0;
    double seconds = 0;  ///< with RunOptions::measure, on machines that measure themselves: of the kernel alone; else 0
    double copy_seconds = 0;  ///< with RunOptions::measure: of copies between the host and the device
};

/// A tile by value: elements in containers (format.h container_bytes), row-major. Pointers are 8 bytes.
struct TileData {
    FormatId elem{};
    Shape shape{};
    std::vector<uint8_t> bytes;
};

}  // namespace tegula
