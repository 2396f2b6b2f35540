// The machine `cpu` beside OpenBLAS and the bandwidth of memory, all cores, in one run. OpenBLAS is looked for when the program runs.
#pragma once
#include <string>
#include <vector>

namespace cpu_bench {

struct CpuRow {
    std::string work, unit, peer;
    double ours = 0, theirs = 0, goal = 0;  ///< goal: of ours / theirs, 0: none; larger is better in all units
};

/// Empty, with the reason in `why`, where the library has no machine `cpu`.
std::vector<CpuRow> cpu_rows(const std::string& source_dir, bool quick, std::string& why);
void print_cpu(const std::vector<CpuRow>& rows);
std::string cpu_json(const std::vector<CpuRow>& rows);

}  // namespace cpu_bench
