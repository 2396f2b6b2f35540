// The CPU back end: tile IR (before the GPU passes) -> LLVM IR -> machine code -> programs of a grid on a few threads. No LLVM header here.
// Results are bit-equal with the interpreter's. One Backend per engine; no globals; thread-safe.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "jit/cpu/abi.h"
#include "jit/cpu/dot_rows.h"
#include "jit/cpu/pool.h"
#include "jit/cpu/watch.h"
#include "lang/blob_cache.h"
#include "lang/log.h"
#include "lang/program.h"
#include "lang/source.h"

namespace tegula::cpu {

/// A result or why there is none (the world is wrong: no memory for code, a target without vectors). Our own faults are InternalError.
template <class T>
struct Result {
    std::optional<T> value;
    std::string error;
    explicit operator bool() const { return value.has_value(); }
    T& operator*() { return *value; }
    T* operator->() { return &*value; }
};

/// What one variant of a kernel is compiled for.
struct CompileOptions {
    std::vector<TensorTrait> tensors;  ///< by parameter; empty: the declared layouts
    bool may_alias = false;            ///< tensors of different parameters may overlap
    bool bounds = false;               ///< some view leaves its storage: every element is checked against `bytes`
    bool checked = false;              ///< what checked mode looks at (plan_rules.cpp, checks) is reported
    const SourceMap* lines = nullptr;  ///< line tables for debuggers; null: none
    std::string cpu, features;         ///< empty: the host's
    Watch* watch = nullptr;            ///< asked whether to go on; null: to the end
    std::string triple;                ///< empty: the host's; "aarch64-linux-gnu": text of kind "llvm" only, where the host is another machine
};

/// Machine code of one variant, as an object file: can be kept in a cache.
struct ObjectCode {
    std::string object;
    uint64_t scratch_bytes = 0;
};

/// Code in executable memory; freed with the last copy of `keep`.
struct LoadedCode {
    Entry entry = nullptr;
    uint64_t scratch_bytes = 0;
    std::shared_ptr<void> keep;
};

/// What code is made for and how it was laid out, for `explain` and cache keys.
struct TargetInfo {
    std::string cpu, features, llvm_version;
    std::string host;  ///< the processor's own name
    /// `cpu`, and where that was asked for the host.
    std::string cpu_text() const { return cpu == host ? cpu : cpu + " (TEGULA_CPU, on " + host + ")"; }
    VectorUnit vectors;
    std::string vector_reason;  ///< why they have so many bytes
};

/// The LLVM side (session.cpp). Object code is a function of the instance's IR, the options and TargetInfo.
class Compiler {
public:
    /// `cpu`: what code is made for by default, one of LLVM's names; empty: the host.
    explicit Compiler(const std::string& cpu = {});
    ~Compiler();
    Compiler(const Compiler&) = delete;
    Compiler& operator=(const Compiler&) = delete;
    const TargetInfo& target() const;
    /// Why nothing is compiled by default: there is no such `cpu`, or the host does not run its code. Empty: all is well.
    const std::string& problem() const;
    /// Neither a result nor an error: `options.watch` is over.
    Result<ObjectCode> compile(const ir::Function& fn, const CompileOptions& options);
    /// `shown_as`: the name by which gdb and perf get to know the code, which then stays in memory as long as the process; empty: they do not.
    Result<LoadedCode> load(const ObjectCode& code, const std::string& shown_as = {});
    /// Text: "llvm" (before optimisation), "llvm-opt" or "asm".
    Result<std::string> text(const ir::Function& fn, const CompileOptions& options, std::string_view kind);

private:
    struct State;
    std::shared_ptr<State> state_;
};

/// The run-time side (launch.cpp): variants by traits of the arguments, compiled on first need.
class Backend {
public:
    /// `lines`: kernels are compiled with line tables from it and shown to gdb and perf; they then do without the cache. Outlives the back end.
    /// `cpu`: that of the compiler.
    explicit Backend(std::shared_ptr<BlobCache> cache = {}, PoolOptions pool = {}, const SourceMap* lines = nullptr, const std::string& cpu = {},
                     Log log = {});
    ~Backend();
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;
    /// `fn` is verified and outlives the program, which shares the back end's state. Nothing is compiled before the first run.
    std::unique_ptr<Program> prepare(const ir::Function& fn);
    Compiler& compiler();

    struct State;  ///< shared with programs

private:
    std::shared_ptr<State> state_;
};

}  // namespace tegula::cpu
