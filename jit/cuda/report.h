// What a kernel tells the host besides its tensors: texts of `print` and failed `assert`s, as records in a buffer that the launcher reads after
// the launch. This is the contract between emission (lower/kernel/control/control.cpp writes the device side) and the launcher.
//
// The buffer is an array of 64-bit words; the pointer is null when nobody listens (kernels then skip the work).
//   word 0: cursor, words handed out so far, kReportHeader at first; an atomic add of the record's size by one thread of the program takes a place.
//   word 1: capacity in words. A record that does not fit (place + size > capacity) is dropped; the cursor then says so.
// Record: word 0 = instruction number (ir::InstId of the print or assert in the function that was emitted) | size in words << 32
//         word 1 = linear number of the program (axis 0 fastest, over the whole grid)
//         print:  for each value in order min(elements, kPrintElements of lang/print_text.h) words: codes in row-major logical order, zero- or
//                 sign-extended to 64 bits (pointers: as registers hold them, bytes or, for bit-addressed elements, bits)
//         grid_barrier, which the program passes without another one: one word, the number of that
//         assert: one word, the row-major number of the first element that does not hold (0 for a scalar)
// All records of one program are taken by the same thread (threadIdx.x == 0), so that their order in the buffer is the program's order.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "lang/ir.h"
#include "lang/runtime.h"

namespace tegula::cuda {

constexpr uint64_t kReportHeader = 2;                 ///< words
constexpr uint64_t kReportWords = uint64_t{1} << 21;  ///< 16 MB

/// What may the function report? `asserts`: anything that must be reported even when nobody listens to prints.
struct Reports {
    bool prints = false, asserts = false;
};
Reports find_reports(const ir::Function& fn);

/// Memory that printed pointers may point to.
struct PrintedRange {
    uint64_t address = 0, bytes = 0;
    int param = 0;
};

/// Hands the prints in `words` (the whole buffer) to options.print in program order and adds a T0911 row per assert, a T0926
/// row per missed meeting to `result`, as the interpreter does: those of the first program that fails, once per instruction. Malformed records end
/// the reading.
void read_report(const ir::Function& fn, std::span<const uint64_t> words, std::span<const uint64_t, 3> grid, std::span<const PrintedRange> ranges,
                 const RunOptions& options, RunResult& result);

}  // namespace tegula::cuda
