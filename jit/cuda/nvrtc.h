// NVRTC, opened at run time: CUDA C++ text -> cubin for one architecture, and what ptxas said about it. Thread-safe: compilations run in parallel.
#pragma once
#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "jit/cuda/cuda.h"

namespace tegula::cuda {

/// What the log of a compilation says.
struct CompilerLog {
    Resources resources;
    std::vector<std::string> remarks;  ///< "C7510: Potential Performance Loss: ..", one line each
};
/// Reads `entry`'s figures (spills: of all functions) and all warnings of ptxas out of a log made with -v. Warnings of the C++ front end are left
/// out: nobody wrote that text.
CompilerLog parse_log(std::string_view log, std::string_view entry);

/// Versions of ptxas that are known to make wrong code, by architecture. Versions are major, minor, build.
struct BadCompiler {
    std::array<int, 3> first, last;
    int min_arch, max_arch;
    const char* reason;
};
std::span<const BadCompiler> bad_compilers();
/// The row of `rows` that a version falls under; null: none is known to be wrong for `arch`.
const BadCompiler* find_bad_compiler(std::span<const BadCompiler> rows, const std::array<int, 3>& version, const Arch& arch);
/// "V13.0.88" in a cubin's tool note -> {13, 0, 88}; zeros when there is none.
std::array<int, 3> compiler_of(std::string_view cubin);

/// Is an instruction of this kind in its code?
bool has_opcode(std::string_view cubin, uint64_t opcode);
/// A convergence barrier from a register (BMOV; 0x355, to a register, also clears one on sm_75). ptxas 13.0 keeps them there for functions with many
/// at a time, and relies on warps that have come together again where they have not: uniform registers are then written by some threads while others
/// still need them.
inline constexpr uint64_t kMovesBarrier = 0x356;
/// Lets threads that wait for others of their warp go on without them (YIELD), as ptxas wants in loops around atomics: it, too, takes them for one
/// warp afterwards. Emitted text has no such loop.
inline constexpr uint64_t kYield = 0x946;
inline constexpr const char* kNotOptimised = "convergence barriers in registers: compiled by -O0";  ///< the remark of what is compiled once more

/// What ptxas says of text that it does not take, in the log of a compilation; empty: nothing.
std::string refused_ptx(std::string_view log);

struct NvrtcJob {
    std::string_view source, entry;
    const Arch* arch = nullptr;
    std::span<const std::string> options;  ///< beyond those that every kernel gets
    CompileOptions compile;
};

class Nvrtc {
public:
    /// `path` empty: $TEGULA_NVRTC, then libnvrtc.so.13, .12 and libnvrtc.so in the loader's places and below /usr/local/cuda. Null when none opens.
    static std::unique_ptr<Nvrtc> open(const std::string& path, std::vector<std::string>& looked_for);

    const std::string& version() const { return version_; }    ///< "13.0"
    const std::string& identity() const { return identity_; }  ///< version and build: part of every cache key
    /// The flags that this job is compiled with, in order: part of the cache key.
    std::vector<std::string> flags(const NvrtcJob& job) const;
    /// Numbers of the architectures that it compiles for: 75, 80, ..
    const std::vector<int>& archs() const { return archs_; }
    /// InternalError when the text is refused. Cancelled within some 10 ms once compile.cancel is set; what NVRTC is at then ends behind the scenes,
    /// and the destructor waits for it. What has kMovesBarrier is compiled once more, without ptxas' optimisations.
    Result<CompiledKernel> compile(const NvrtcJob& job) const;

private:
    struct Functions;
    struct Work;
    Nvrtc() = default;
    std::shared_ptr<const Functions> functions_;
    std::string version_, identity_;
    std::vector<int> archs_;
    bool has_no_cache_ = false;
    mutable std::mutex abandoned_mutex_;
    mutable std::vector<std::future<Result<CompiledKernel>>> abandoned_;  ///< by calls that were cancelled
};

}  // namespace tegula::cuda
