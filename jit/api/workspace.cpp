// The C ABI of workspaces; tegula.h has the contracts.
#include "jit/engine/workspace.h"
#include "jit/api/turn.h"

using namespace tegula;
using namespace tegula::capi;

struct tegula_workspace : HandleOf<Handle::Kind::workspace> {
    explicit tegula_workspace(std::shared_ptr<Engine> engine) : workspace(engine), flag(engine->job_flags().take()) {}
    Workspace workspace;             ///< keeps the engine, which has the flag
    std::atomic<bool> busy{false};   ///< a call is in progress
    std::atomic<bool> ended{false};  ///< tegula_cancel
    CancelFlags::Taken flag;
};

namespace tegula::capi {

bool cancel_workspace(void* handle, bool on) {
    auto* workspace = static_cast<tegula_workspace*>(handle);
    if (!is_right(workspace)) return false;
    workspace->ended.store(on);
    workspace->flag.flag().store(on);
    return true;
}

}  // namespace tegula::capi

namespace {

/// A call with its turn; `fn(sink)` returns the status.
template <class Fn>
tegula_status in_workspace(tegula_workspace* handle, tegula_diags** diags, Fn&& fn) {
    if (const tegula_status wrong = check_handle(handle, diags)) return wrong;
    const Turn turn(handle);
    if (!turn) return usage(diags, "the workspace is busy: one call at a time; tegula_cancel ends it");
    return border(handle->workspace.engine(), diags, [&](DiagSink& sink) -> tegula_status {
        try {
            return fn(sink);
        } catch (const Cancelled&) {
            sink.report(Diag::run_cancelled, {});
            return TEGULA_E_CANCELLED;
        }
    });
}

}  // namespace

extern "C" {

tegula_status tegula_workspace_new(tegula_engine* engine, tegula_workspace** workspace, tegula_diags** diags) {
    if (workspace) *workspace = nullptr;
    if (const tegula_status wrong = check_handle(engine, diags)) return wrong;
    if (!workspace) return usage(diags, "workspace is NULL");
    return border(engine->engine, diags, [&](DiagSink&) {
        *workspace = new tegula_workspace(engine->engine);
        return TEGULA_OK;
    });
}

tegula_status tegula_workspace_set(tegula_workspace* workspace, const char* path, const char* text, size_t size, tegula_diags** diags) {
    return in_workspace(workspace, diags, [&](DiagSink& sink) -> tegula_status {
        if (!path || !*path) return sink.report(Diag::api_usage, {}, {"path is NULL or empty"}), TEGULA_E_USAGE;
        constexpr size_t kMost = size_t{16} << 20;
        if (size > kMost) {
            sink.report(Diag::source_too_large, {}, {std::to_string(size), std::to_string(kMost)});
            return TEGULA_E_SOURCE;
        }
        text ? workspace->workspace.set(path, std::string(text, size)) : workspace->workspace.add(path);
        return TEGULA_OK;
    });
}

tegula_status tegula_workspace_ask(tegula_workspace* workspace, const char* verb, const char* path, size_t begin, size_t end, const char* text,
                                   tegula_blob** json, tegula_diags** diags) {
    if (json) *json = nullptr;
    return in_workspace(workspace, diags, [&](DiagSink& sink) -> tegula_status {
        if (!verb || !path) return sink.report(Diag::api_usage, {}, {"verb or path is NULL"}), TEGULA_E_USAGE;
        std::string out;
        const Status status =
            workspace->workspace.ask({verb, path, begin, end, text ? text : ""}, cancel_flag(*workspace, *workspace->workspace.engine()), sink, out);
        if (status == Status::ok && json) *json = make_blob(std::move(out));
        return to_status(status);
    });
}

tegula_status tegula_workspace_module(tegula_workspace* workspace, const char* path, tegula_module** module, tegula_diags** diags) {
    if (module) *module = nullptr;
    return in_workspace(workspace, diags, [&](DiagSink& sink) -> tegula_status {
        if (!path || !module) return sink.report(Diag::api_usage, {}, {"path or module is NULL"}), TEGULA_E_USAGE;
        auto handle = std::make_unique<tegula_module>();
        handle->module = workspace->workspace.module(path, sink);
        if (!handle->module && !sink.has_errors())
            return sink.report(Diag::api_usage, {}, {"the workspace has no file `" + printable(path) + "`"}), TEGULA_E_USAGE;
        if (!handle->module) return TEGULA_E_SOURCE;
        *module = handle.release();
        return TEGULA_OK;
    });
}

}  // extern "C"
