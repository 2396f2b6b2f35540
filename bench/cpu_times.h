// How long it takes until native code runs: milliseconds beside goals, through the public header and the command.
#pragma once
#include <string>
#include <vector>

#include "bench/cpu.h"

namespace cpu_bench {

/// The first kernel of this process, LLVM's start included: nothing may have asked for the machine `cpu` before. What is compiled goes to no disk.
CpuRow first_kernel(const std::string& source_dir);
/// From the text of a file to machine code, for the kernels of the examples: the median, and the slowest.
std::vector<CpuRow> compile_times(const std::string& source_dir);
/// A prepared launch of one program of 256 elements, and the same as a launch: nanoseconds, medians of a thousand.
std::vector<CpuRow> launch_times(const std::string& source_dir);
/// A whole process of the command `tegula`, whose code lies in the cache on disk.
CpuRow command_start(const std::string& command, const std::string& source_dir);

}  // namespace cpu_bench
