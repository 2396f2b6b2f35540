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
#include "lang/float_environment.h"
#include "tegula/tegula.h"

namespace tegula::capi {

/// First member of every handle, so that retain and release need no type.
struct Handle {
    std::atomic<int64_t> references{1};
    virtual ~Handle() = default;
};

}  // namespace tegula::capi

struct tegula_engine : tegula::capi::Handle {
    std::shared_ptr<tegula::Engine> engine;
};
struct tegula_module : tegula::capi::Handle {
    tegula::ModulePtr module;
};
struct tegula_kernel : tegula::capi::Handle {
    tegula::ModulePtr module;
    std::shared_ptr<const tegula::Executable> exe;
};
struct tegula_prepared : tegula::capi::Handle {
    tegula::ModulePtr module;
    std::shared_ptr<const tegula::PreparedLaunch> launch;
};
struct tegula_blob : tegula::capi::Handle {
    std::string data;
};
struct tegula_diags : tegula::capi::Handle {
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

/// Runs `fn(sink)`, which returns a status; whatever it throws, exceptions of the host's callbacks included, becomes the internal-error status
/// with a diagnostic. What it computes does not depend on the caller's floating-point environment.
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
        } catch (...) {
            sink.report(Diag::internal, {}, {"a callback threw an exception"});
        }
        give_diags(out, std::move(engine), sink.take());
        return status;
    } catch (...) {
        return TEGULA_E_INTERNAL;
    }
}

/// The call broke the contract: TEGULA_E_USAGE with one diagnostic.
inline tegula_status usage(tegula_diags** out, const char* text) noexcept {
    return border(nullptr, out, [&](DiagSink& sink) {
        sink.report(Diag::api_usage, {}, {text});
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
/// The caller's engine options over the defaults; what is wrong with them, or null.
const char* engine_options(const tegula_engine_options* given, EngineOptions& out);
/// A type or layout (NULL: row) written as text; nullopt with the reason in `why`.
std::optional<FormatId> read_type(LoadedModule& module, const char* text, std::string& why);
std::optional<LayoutId> read_layout(LoadedModule& module, const char* text, std::string& why);
uint64_t order_hash(const Layout& layout);  ///< what tegula_layout_hash gives
/// The view of a tensor; a reason when its members do not fit together. With `storage` off, data and sizes are not looked at.
/// view.elem stays 0 unless type, layout and extents are known.
std::string read_tensor(LoadedModule& module, const tegula_tensor& tensor, bool storage, TensorView& view);
/// Generic values by name; false (reported) for anything that is no constant.
bool read_generics(LoadedModule& module, const tegula_value* values, size_t count, sema::StaticValues& out, DiagSink& sink);
/// Launch arguments; what is wrong with one stands in its `problem`. False (reported) when the list itself is missing.
bool read_arguments(LoadedModule& module, const tegula_value* values, size_t count, bool storage, std::vector<LaunchArgument>& out, DiagSink& sink);

}  // namespace tegula::capi
