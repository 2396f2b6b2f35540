// What a Backend and its programs share: the opened compiler and driver, each opened on first need.
#pragma once
#include <mutex>
#include <unordered_map>

#include "jit/cuda/cuda.h"
#include "jit/cuda/driver.h"
#include "jit/cuda/nvrtc.h"

namespace tegula::cuda {

struct Backend::State {
    explicit State(BackendOptions o) : options(std::move(o)) {}
    const BackendOptions options;

    const Nvrtc* compiler();  ///< null: not to be had
    Driver* driver();         ///< null: not to be had
    const Availability& availability();
    Result<CompiledKernel> compile(const KernelText& text, const Arch& arch, const CompileOptions& options);

private:
    /// Held while a text is compiled: another thread with the same text waits for the result instead of compiling it too.
    std::shared_ptr<std::mutex> flight(const std::string& key);

    std::mutex flights_mutex_;
    std::unordered_map<size_t, std::weak_ptr<std::mutex>> flights_;  ///< by hash of the key: a collision only waits longer
    std::once_flag compiler_once_, driver_once_, availability_once_;
    std::unique_ptr<Nvrtc> compiler_;
    std::unique_ptr<Driver> driver_;
    std::vector<std::string> compiler_log_, driver_log_;
    Availability availability_;
};

/// CompiledKernel <-> the blob that caches hold. Reading checks every length; nullopt for anything that is no such blob.
std::string to_blob(const CompiledKernel& kernel);
std::optional<CompiledKernel> from_blob(std::string_view blob);
/// The text without #line directives: what is compiled when no line information is asked for, so that moving a kernel in its file changes no key.
std::string without_marks(const KernelText& text);

}  // namespace tegula::cuda
