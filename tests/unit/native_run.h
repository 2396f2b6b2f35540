// A kernel's native code on arguments of a test: no pool, no cache, and scratch memory that is watched.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "jit/cpu/arguments.h"
#include "jit/cpu/support.h"
#include "tests/unit/guarded.h"

namespace tegula::testing {

/// Compiles `fn` and runs the programs of `grid` in order on this thread. Scratch memory starts as garbage; nothing behind it is touched.
inline void run_native(const ir::Function& fn, const cpu::CompileOptions& options, const std::vector<Argument>& args,
                       std::array<uint64_t, 3> grid = {1, 1, 1}) {
    cpu::Compiler compiler;
    auto object = compiler.compile(fn, options);
    ASSERT_TRUE(object) << object.error;
    auto code = compiler.load(*object);
    ASSERT_TRUE(code) << code.error;
    const std::vector<uint64_t> block = cpu::argument_block(fn, options, args);
    const RunOptions run;
    cpu::Launch launch(fn, args, grid, run);
    Guarded scratch(code->scratch_bytes + 64);
    std::fill(scratch.begin(), scratch.end(), uint8_t{0xff});
    uint8_t* const at = scratch.end() - (code->scratch_bytes + 63) / 64 * 64;
    {
        cpu::Worker worker(launch, true);
        for (uint64_t program = 0; program < launch.total; ++program) ASSERT_TRUE(worker.run(code->entry, block.data(), at, program, program));
    }
    for (const uint8_t* p = at + code->scratch_bytes; p < scratch.end(); ++p) ASSERT_EQ(*p, 0xff) << "written behind the scratch memory";
}

}  // namespace tegula::testing
