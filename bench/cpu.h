// The machine `cpu` beside OpenBLAS and the bandwidth of memory, all cores, in one run, and times of compiling beside goals. OpenBLAS is looked for
// when the program runs.
#pragma once
#include <string>
#include <vector>

namespace cpu_bench {

struct CpuRow {
    std::string work, unit, peer;
    double ours = 0, theirs = 0, goal = 0;  ///< goal: of the ratio, 0: none
    bool smaller_is_better = false;         ///< the ratio is theirs / ours
    double ratio() const { return smaller_is_better ? theirs / ours : ours / theirs; }
};

/// Empty, with the reason in `why`, where the library has no machine `cpu`.
/// `command`: the path of `tegula`. `only`: of the groups starts, products, bandwidth, interpreter, decode, weights and attention those whose name
/// holds it.
std::vector<CpuRow> cpu_rows(const std::string& source_dir, const std::string& command, bool quick, const std::string& only, std::string& why);
void print_cpu(const std::vector<CpuRow>& rows);
std::string cpu_json(const std::vector<CpuRow>& rows);

}  // namespace cpu_bench
