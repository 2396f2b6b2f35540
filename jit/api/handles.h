// What stands behind the handles of tegula.h, and the border of the C ABI: nothing thrown leaves it, every call ends in a status and
// diagnostics. Sees the engine; api.cpp and values.cpp see this.
#pragma once
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "jit/engine/host.h"
#include "jit/engine/session.h"
#include "jit/engine/tuner.h"
#include "lang/float_environment.h"
#include "tegula/tegula.h"

namespace tegula::capi {

/// First member of every handle, so that retain and release need no type, and so that a function knows a handle of another kind.
struct Handle {
    enum class Kind : uint64_t { engine = 0x5467'6c61'0000'0001, module, kernel, prepared, blob, diags, job, session, workspace };
    explicit Handle(Kind k) : kind(k) {}
    virtual ~Handle() = default;
    const Kind kind;
    std::atomic<int64_t> references{1};
};

/// A handle whose kind its type says.
template <Handle::Kind kKind>
struct HandleOf : Handle {
    static constexpr Kind kOwn = kKind;
    HandleOf() : Handle(kKind) {}
};

}  // namespace tegula::capi

struct tegula_engine : tegula::capi::HandleOf<tegula::capi::Handle::Kind::engine> {
    std::shared_ptr<tegula::Engine> engine;
};
struct tegula_module : tegula::capi::HandleOf<tegula::capi::Handle::Kind::module> {
    tegula::ModulePtr module;
};
struct tegula_kernel : tegula::capi::HandleOf<tegula::capi::Handle::Kind::kernel> {
    tegula::ModulePtr module;
    std::shared_ptr<const tegula::Executable> exe;
};
struct tegula_prepared : tegula::capi::HandleOf<tegula::capi::Handle::Kind::prepared> {
    tegula::ModulePtr module;
    std::shared_ptr<const tegula::PreparedLaunch> launch;
    // What it was made of, for tegula_rebind.
    tegula::LoadedModule* home = nullptr;  ///< of `kernel`; `module` keeps it
    const tegula::ast::KernelItem* kernel = nullptr;
    tegula::sema::StaticValues generics;
    std::vector<tegula::LaunchArgument> args;  ///< each with its name
    tegula::LaunchOptions options;             ///< without callbacks
};
/// A launch that is being prepared on a thread of its own.
struct tegula_job : tegula::capi::HandleOf<tegula::capi::Handle::Kind::job> {
    explicit tegula_job(tegula::ModulePtr m) : module(std::move(m)), flag(module->engine->job_flags().take()) {}
    tegula::ModulePtr module;  ///< keeps the engine, which has the flag
    tegula::CancelFlags::Taken flag;
};
struct tegula_session : tegula::capi::HandleOf<tegula::capi::Handle::Kind::session> {
    tegula_session(std::shared_ptr<tegula::Engine> engine, std::string directory)
        : session(engine, std::move(directory)), flag(engine->job_flags().take()) {}
    tegula::Session session;         ///< keeps the engine, which has the flag
    std::atomic<bool> busy{false};   ///< a call is in progress
    std::atomic<bool> ended{false};  ///< tegula_cancel
    tegula::CancelFlags::Taken flag;
};
struct tegula_blob : tegula::capi::HandleOf<tegula::capi::Handle::Kind::blob> {
    std::string data;
};
struct tegula_diags : tegula::capi::HandleOf<tegula::capi::Handle::Kind::diags> {
    std::shared_ptr<tegula::Engine> engine;  ///< for source excerpts; null for errors before there is one
    std::vector<tegula::Diagnostic> diags;
    std::mutex mutex;
    std::string text[2], json;  ///< rendered on first use
};

namespace tegula::capi {

inline tegula_status to_status(Status status) { return static_cast<tegula_status>(status); }

/// Hands diagnostics to the caller; with nothing to say, or nobody to tell, `*out` stays as it is.
inline void give_diags(tegula_diags** out, std::shared_ptr<Engine> engine, std::vector<Diagnostic> diags) {
    if (!out || diags.empty()) return;
    auto handle = std::make_unique<tegula_diags>();
    if (engine)
        for (Diagnostic& d : diags) keep_texts(d, engine->sources());
    handle->engine = std::move(engine);
    handle->diags = std::move(diags);
    *out = handle.release();
}

/// A callback of the host threw, or returned what it must not, on the way to the border. It is no std::exception, so that nothing in between takes
/// it for a failure of ours.
struct HostMistake {
    std::string what;
};

/// Calls a function of the host; `name` is what tegula.h calls it.
template <class Fn, class... Args>
auto call_host(const char* name, Fn* fn, Args... args) {
    const auto threw = [&](const std::string& text) { return HostMistake{"the callback `" + std::string(name) + "` threw an exception" + text}; };
    try {
        return fn(args...);
    } catch (const std::exception& error) {
        throw threw(": " + printable(error.what()));
    } catch (...) {
        throw threw("");
    }
}

/// Runs `fn(sink)`, which returns a status; whatever it throws becomes a status with a diagnostic: the host's where one of its callbacks threw,
/// else an internal error. What it computes does not depend on the caller's floating-point environment.
template <class Fn>
tegula_status border(std::shared_ptr<Engine> engine, tegula_diags** out, Fn&& fn) noexcept {
    if (out) *out = nullptr;
    const DefaultFloats floats;
    try {
        DiagSink sink(engine ? engine->options().max_errors : 100);
        tegula_status status = TEGULA_E_INTERNAL;
        try {
            status = fn(sink);
        } catch (const std::bad_alloc&) {
            sink.report(Diag::internal, {}, {"out of memory"});
        } catch (const std::exception& error) {
            sink.report(Diag::internal, {}, {printable(error.what())});
        } catch (const HostMistake& mistake) {
            sink.report(Diag::api_usage, {}, {mistake.what});
            status = TEGULA_E_USAGE;
        } catch (...) {
            sink.report(Diag::internal, {}, {"an exception of no known type"});
        }
        give_diags(out, std::move(engine), sink.take());
        return status;
    } catch (...) {
        return TEGULA_E_INTERNAL;
    }
}

/// The call broke the contract: TEGULA_E_USAGE with one diagnostic.
inline tegula_status usage(tegula_diags** out, std::string_view text) noexcept {
    return border(nullptr, out, [&](DiagSink& sink) {
        sink.report(Diag::api_usage, {}, {std::string(text)});
        return static_cast<tegula_status>(TEGULA_E_USAGE);
    });
}

/// Is it a handle of the type that it was given as? Callers from C and from other languages cast.
template <class T>
bool is_right(const T* handle) {
    return handle && static_cast<const Handle*>(handle)->kind == T::kOwn;
}

/// "module is NULL", "module is an engine's handle", ..: what is wrong with a handle; empty: nothing.
std::string handle_problem(const Handle* handle, Handle::Kind wanted);
/// tegula_cancel of a workspace (workspace.cpp); false: it is none.
bool cancel_workspace(void* handle, bool on);

/// TEGULA_OK for a handle of the right kind, else a status with its diagnostic.
template <class T>
tegula_status check_handle(const T* handle, tegula_diags** out) noexcept {
    if (is_right(handle)) return TEGULA_OK;
    return border(nullptr, out, [&](DiagSink& sink) {
        sink.report(Diag::api_usage, {}, {handle_problem(handle, T::kOwn)});
        return static_cast<tegula_status>(TEGULA_E_USAGE);
    });
}

inline tegula_blob* make_blob(std::string text) {
    auto blob = std::make_unique<tegula_blob>();
    blob->data = std::move(text);
    return blob.release();
}

// ---- values.cpp: what callers hand in ----

/// The caller's options over the defaults; false (reported, with a status) for a wrong struct_size, unknown or missing machines and unknown
/// passes. Without `runs` a known machine is not looked for: nothing is going to run.
bool launch_options(const tegula_run_options* given, LaunchOptions& out, DiagSink& sink, tegula_status& status, Engine& engine, bool runs = true);
/// The caller's engine options over the defaults; what is wrong with them, or empty.
std::string engine_options(const tegula_engine_options* given, EngineOptions& out);
/// Reads the options of a search for tuned values; empty, or what is wrong with them.
std::string tune_request(const tegula_tune_options* given, TuneRequest& out);
/// A type or layout (NULL: row) written as text; nullopt with the reason in `why`.
std::optional<FormatId> read_type(LoadedModule& module, const char* text, std::string& why);
std::optional<LayoutId> read_layout(LoadedModule& module, const char* text, std::string& why);
uint64_t order_hash(const Layout& layout);  ///< what tegula_layout_hash gives
/// Enumerators that come from C may hold anything; loading them as the enum would be undefined.
int kind_of(const tegula_value& value);
/// The view of a tensor; a reason when its members do not fit together. With `storage` off, data and sizes are not looked at.
/// view.elem stays 0 unless type, layout and extents are known.
std::string read_tensor(LoadedModule& module, const tegula_tensor& tensor, bool storage, TensorView& view);
/// An array of the host, copied into storage of ours: as a launch of the module would take it. Host memory, no strides.
Made<HostTensor> copy_array(LoadedModule& module, const tegula_tensor& t);
/// Generic values by name; false (reported) for anything that is no constant.
/// For a kernel that a host names in `module`.
bool read_generics(LoadedModule& module, const ast::KernelItem& kernel, const tegula_value* values, size_t count, sema::StaticValues& out,
                   DiagSink& sink);
/// Launch arguments; what is wrong with one stands in its `problem`. False (reported) when the list itself is missing.
bool read_arguments(LoadedModule& module, const tegula_value* values, size_t count, bool storage, std::vector<LaunchArgument>& out, DiagSink& sink);

}  // namespace tegula::capi
