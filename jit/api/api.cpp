// The C ABI over the engine: one function per entry of tegula.h, which has the contracts. Values are read in values.cpp.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>
#include <tuple>

#include "jit/api/handles.h"
#include "lang/diag_page.h"
#include "lang/plain_text.h"

using namespace tegula;
using namespace tegula::capi;

namespace {

using TestRunner = std::function<Status(Engine&, LoadedModule&, std::string_view, const LaunchOptions&, const std::function<void(TestResult&)>&)>;

tegula_status run_blocks(const TestRunner& runner, tegula_module* module, const char* filter, const tegula_run_options* options, bool checked,
                         void (*result)(void*, const tegula_test_result*), void* user, tegula_diags** diags) {
    if (const tegula_status wrong = check_handle(module, diags)) return wrong;
    const auto& engine = module->module->engine;
    return border(engine, diags, [&](DiagSink& sink) {
        LaunchOptions launch;
        tegula_status status = TEGULA_OK;
        if (!launch_options(options, launch, sink, status, *engine)) return status;
        if (!options) launch.checked = checked;
        launch.compare = checked;  // tests compare the machine with the interpreter, benches measure it
        launch.compare_expressions = !launch.unnamed;
        launch.measure = !checked;
        Status all = runner(*engine, *module->module, filter ? filter : "", launch, [&](TestResult& r) {
            if (!result) return;
            tegula_test_result out{r.name.c_str(), to_status(r.status), r.seconds, r.metrics.empty() ? nullptr : r.metrics.c_str(),
                                   nullptr,        r.machines.c_str()};
            give_diags(&out.diags, engine, std::move(r.diagnostics));
            const std::unique_ptr<tegula_diags, void (*)(tegula_diags*)> release(out.diags, [](tegula_diags* d) { tegula_release(d); });
            call_host("result", result, user, static_cast<const tegula_test_result*>(&out));
        });
        return to_status(all);
    });
}

/// Arguments by position get the names of their parameters; false: there are more of them.
bool name_all(const ast::KernelItem& kernel, std::vector<LaunchArgument>& args) {
    size_t position = 0;
    for (LaunchArgument& a : args) {
        if (!a.name.empty()) continue;
        if (position == kernel.params.size()) return false;
        a.name = kernel.params[position++].name.text;
    }
    return true;
}

/// What a prepared launch is made of.
struct Preparing {
    explicit Preparing(ModulePtr m) : module(std::move(m)) {}
    const ModulePtr module;
    LoadedModule* home = nullptr;
    const ast::KernelItem* item = nullptr;
    sema::StaticValues generics;
    std::vector<LaunchArgument> args;
    LaunchOptions launch;

    tegula_status read(const char* kernel, const tegula_value* given, size_t count, const tegula_value* values, size_t arg_count,
                       const tegula_run_options* options, DiagSink& sink) {
        Engine& engine = *module->engine;
        tegula_status status = TEGULA_OK;
        if (!launch_options(options, launch, sink, status, engine)) return status;
        std::tie(home, item) = engine.find_kernel(*module, kernel, sink);
        if (!item || !read_generics(*module, *item, given, count, generics, sink)) return TEGULA_E_USAGE;
        return read_arguments(*module, values, arg_count, true, args, sink) ? TEGULA_OK : TEGULA_E_USAGE;
    }
    tegula_status make(tegula_prepared** prepared, DiagSink& sink) {
        auto handle = std::make_unique<tegula_prepared>();
        handle->module = module;
        const Status made = module->engine->prepare(*home, *item, generics, args, launch, sink, handle->launch);
        if (made != Status::ok) return to_status(made);
        name_all(*item, args);
        handle->home = home;
        handle->kernel = item;
        handle->generics = std::move(generics);
        handle->args = std::move(args);
        handle->options = std::move(launch);
        handle->options.cancel = &module->engine->cancelled();
        handle->options.print = {};
        handle->options.progress = {};
        handle->options.keep_going = {};
        *prepared = handle.release();
        return TEGULA_OK;
    }
};

bool reported(const DiagSink& sink, Diag id) {
    return std::any_of(sink.all().begin(), sink.all().end(), [id](const Diagnostic& d) { return d.id == id; });
}

std::string cache_json(const CacheReport& report) {
    uint64_t bytes = 0;
    std::string entries;
    for (const CacheReport::Entry& e : report.entries) {
        bytes += e.bytes;
        entries += (entries.empty() ? "{" : ",{") + ("\"name\":" + json_quote(e.name)) + ",\"what\":" + json_quote(e.what) +
                   ",\"bytes\":" + std::to_string(e.bytes) + ",\"used\":" + std::to_string(e.used) +
                   ",\"damaged\":" + (e.damaged ? "true" : "false") + "}";
    }
    return "{\"schema\":1,\"directory\":" + json_quote(report.directory) + ",\"problem\":" + json_quote(report.problem) +
           ",\"limit\":" + std::to_string(report.limit) + ",\"bytes\":" + std::to_string(bytes) + ",\"removed\":" + std::to_string(report.removed) +
           ",\"removed_bytes\":" + std::to_string(report.removed_bytes) + ",\"entries\":[" + entries + "]}\n";
}

/// Rendered once and kept, so that the text lives as long as the handle.
template <class Render>
const char* rendered(tegula_diags* diags, std::string& text, Render&& render) noexcept {
    try {
        std::lock_guard lock(diags->mutex);
        if (text.empty()) {
            const SourceMap none;
            const SourceMap& sources = diags->engine ? diags->engine->sources() : none;
            std::string all;
            for (const Diagnostic& d : diags->diags) all += render(d, sources);
            text = std::move(all);
        }
        return text.c_str();
    } catch (...) {
        return "out of memory\n";
    }
}

/// `read(text, directory, sink)` brings the text and where its imports lie; what it returns unless TEGULA_OK is the status of the call.
template <class Read>
tegula_status load_module(tegula_engine* engine, const char* name, tegula_module** module, tegula_diags** diags, Read&& read) {
    return border(engine->engine, diags, [&](DiagSink& sink) -> tegula_status {
        std::string text, directory;
        if (tegula_status status = read(text, directory, sink); status != TEGULA_OK) return status;
        ModulePtr loaded = engine->engine->load(name, std::move(text), directory, sink);
        if (!loaded) return TEGULA_E_SOURCE;
        auto handle = std::make_unique<tegula_module>();
        handle->module = std::move(loaded);
        *module = handle.release();
        return TEGULA_OK;
    });
}

constexpr size_t kMaxSource = size_t{16} << 20;

/// A text of the caller, copied; a size that no source has is not believed.
tegula_status copy_source(const char* text, size_t size, std::string& out, DiagSink& sink) {
    if (size > kMaxSource) {
        sink.report(Diag::source_too_large, {}, {std::to_string(size), std::to_string(kMaxSource)});
        return TEGULA_E_SOURCE;
    }
    out.assign(text ? text : "", size);
    return TEGULA_OK;
}

tegula_status read_source(const char* path, std::string& text, DiagSink& sink) {
    std::string why;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "rbe"), std::fclose);
    if (file) {
        char buffer[1 << 14];
        while (text.size() <= kMaxSource)
            if (const size_t got = std::fread(buffer, 1, sizeof buffer, file.get()); got)
                text.append(buffer, got);
            else
                break;
        if (std::ferror(file.get())) why = "it cannot be read";
        if (text.size() > kMaxSource) why = "it is larger than 16 MiB";
    } else {
        why = error_text(errno);
    }
    if (why.empty()) return TEGULA_OK;
    sink.report(Diag::cannot_read, {}, {printable(path), why});
    return TEGULA_E_IO;
}

/// Why the elements of a tensor have no places of their own; empty: they have. What is only read may have strides that repeat elements.
std::string misplaced(TypeTable& types, const TensorView& view, bool written) {
    if (view.has_strides && !written) return {};
    const auto n = static_cast<size_t>(view.extents.rank);
    const Layout layout =
        view.has_strides ? Layout::with_strides({view.strides.begin(), view.strides.begin() + view.extents.rank}) : types.layout(view.layout);
    const LayoutCheck check = layout.check({view.extents.begin(), n});
    if (check.result == Injectivity::proved || (check.result == Injectivity::unknown && view.has_strides)) return {};
    return "layout `" + layout.name() +
           "` does not keep elements apart: " + (check.result == Injectivity::refuted ? check.conflict.text() : check.reason);
}

/// `name` or `compiled` says which kernel.
tegula_status launch(const ModulePtr& module, const char* name, const Executable* compiled, const tegula_value* generics, size_t generic_count,
                     const tegula_value* args, size_t arg_count, const tegula_run_options* options, tegula_diags** diags) {
    const auto& engine = module->engine;
    return border(engine, diags, [&](DiagSink& sink) -> tegula_status {
        LaunchOptions launch;
        tegula_status status = TEGULA_OK;
        sema::StaticValues given;
        std::vector<LaunchArgument> arguments;
        if (!launch_options(options, launch, sink, status, *engine)) return status;
        const auto [home, kernel] = compiled ? std::pair(compiled->home, compiled->kernel) : engine->find_kernel(*module, name, sink);
        if (!kernel || !read_generics(*module, *kernel, generics, generic_count, given, sink)) return TEGULA_E_USAGE;
        if (compiled) {
            given = compiled->generics;
            launch.disabled_passes = compiled->disabled_passes;
        }
        if (!read_arguments(*module, args, arg_count, true, arguments, sink)) return TEGULA_E_USAGE;
        double seconds = 0;
        const Status done = engine->launch(*home, *kernel, given, arguments, launch, sink, {}, &seconds);
        if (launch.run_seconds) *launch.run_seconds = seconds;
        return to_status(done);
    });
}

}  // namespace

extern "C" {

uint32_t tegula_abi_version(void) { return TEGULA_ABI_VERSION; }

const char* tegula_build_id(void) { return "tegula " TEGULA_VERSION " (" __VERSION__ ")"; }

void tegula_engine_options_init(tegula_engine_options* options, size_t size) {
    if (!options || size < sizeof(size_t)) return;
    std::memset(options, 0, size);
    options->struct_size = size;
    if (size >= offsetof(tegula_engine_options, max_errors) + sizeof options->max_errors) options->max_errors = 100;
}

tegula_status tegula_engine_new(const tegula_engine_options* given, tegula_engine** engine, tegula_diags** diags) {
    if (engine) *engine = nullptr;
    if (!engine) return usage(diags, "engine is NULL");
    return border(nullptr, diags, [&](DiagSink& sink) {
        EngineOptions options;
        if (const std::string problem = engine_options(given, options); !problem.empty()) {
            sink.report(Diag::api_usage, {}, {problem});
            return TEGULA_E_USAGE;
        }
        auto handle = std::make_unique<tegula_engine>();
        handle->engine = Engine::create(std::move(options));
        *engine = handle.release();
        return TEGULA_OK;
    });
}

void tegula_cancel(void* handle, int on) {
    if (const auto* engine = static_cast<tegula_engine*>(handle); is_right(engine)) {
        engine->engine->cancelled().store(on != 0);
        if (on) engine->engine->job_flags().set_all();
    } else if (const auto* job = static_cast<tegula_job*>(handle); is_right(job) && on) {
        job->flag.flag().store(true);
    } else if (auto* session = static_cast<tegula_session*>(handle); is_right(session)) {
        session->ended.store(on != 0);
        session->flag.flag().store(on != 0);
    } else {
        cancel_workspace(handle, on != 0);
    }
}

tegula_status tegula_module_from_source(tegula_engine* engine, const char* name, const char* text, size_t size, tegula_module** module,
                                        tegula_diags** diags) {
    if (module) *module = nullptr;
    if (const tegula_status wrong = check_handle(engine, diags)) return wrong;
    if (!module || (!text && size)) return usage(diags, "text or module is NULL");
    return load_module(engine, name ? name : "<memory>", module, diags,
                       [&](std::string& out, std::string&, DiagSink& sink) { return copy_source(text, size, out, sink); });
}

tegula_status tegula_module_from_file(tegula_engine* engine, const char* path, tegula_module** module, tegula_diags** diags) {
    if (module) *module = nullptr;
    if (const tegula_status wrong = check_handle(engine, diags)) return wrong;
    if (!path || !module) return usage(diags, "path or module is NULL");
    return load_module(engine, path, module, diags, [&](std::string& text, std::string& directory, DiagSink& sink) {
        const char* slash = std::strrchr(path, '/');
        directory = !slash ? "." : slash == path ? "/" : std::string(path, slash);
        return read_source(path, text, sink);
    });
}

tegula_status tegula_module_check(tegula_module* module, tegula_diags** diags) {
    if (const tegula_status wrong = check_handle(module, diags)) return wrong;
    return border(module->module->engine, diags, [&](DiagSink& sink) {
        module->module->engine->check_instances(*module->module, sink);
        return sink.has_errors() ? TEGULA_E_SOURCE : TEGULA_OK;
    });
}

void tegula_run_options_init(tegula_run_options* options, size_t size) {
    if (!options || size < sizeof(size_t)) return;
    std::memset(options, 0, size);
    options->struct_size = size;
}

tegula_status tegula_compile(tegula_module* module, const char* kernel, const tegula_value* generics, size_t generic_count,
                             const tegula_run_options* options, tegula_kernel** compiled, tegula_diags** diags) {
    if (compiled) *compiled = nullptr;
    if (const tegula_status wrong = check_handle(module, diags)) return wrong;
    if (!kernel || !compiled) return usage(diags, "kernel or compiled is NULL");
    const auto& engine = module->module->engine;
    return border(engine, diags, [&](DiagSink& sink) {
        LaunchOptions launch;
        tegula_status status = TEGULA_OK;
        sema::StaticValues given;
        if (!launch_options(options, launch, sink, status, *engine, false)) return status;
        const auto item = engine->find_kernel(*module->module, kernel, sink).second;
        if (!item || !read_generics(*module->module, *item, generics, generic_count, given, sink)) return static_cast<tegula_status>(TEGULA_E_USAGE);
        Status result;
        auto exe = engine->compile_named(*module->module, kernel, given, launch.disabled_passes, sink, result);
        if (!exe) return to_status(result);
        auto handle = std::make_unique<tegula_kernel>();
        handle->module = module->module;
        handle->exe = std::move(exe);
        *compiled = handle.release();
        return static_cast<tegula_status>(TEGULA_OK);
    });
}

tegula_status tegula_launch(tegula_module* module, const char* kernel, const tegula_value* generics, size_t generic_count, const tegula_value* args,
                            size_t arg_count, const tegula_run_options* options, tegula_diags** diags) {
    if (const tegula_status wrong = check_handle(module, diags)) return wrong;
    if (!kernel) return usage(diags, "kernel is NULL");
    return launch(module->module, kernel, nullptr, generics, generic_count, args, arg_count, options, diags);
}

tegula_status tegula_plan(tegula_module* module, const char* kernel, const tegula_value* generics, size_t generic_count, const tegula_value* args,
                          size_t arg_count, tegula_blob** json, tegula_diags** diags) {
    if (json) *json = nullptr;
    if (const tegula_status wrong = check_handle(module, diags)) return wrong;
    if (!kernel || !json) return usage(diags, "kernel or json is NULL");
    const auto& engine = module->module->engine;
    return border(engine, diags, [&](DiagSink& sink) {
        sema::StaticValues given;
        std::vector<LaunchArgument> arguments;
        const auto [home, item] = engine->find_kernel(*module->module, kernel, sink);
        if (!item || !read_generics(*module->module, *item, generics, generic_count, given, sink)) return TEGULA_E_USAGE;
        if (!read_arguments(*module->module, args, arg_count, false, arguments, sink)) return TEGULA_E_USAGE;
        auto text = engine->plan(*home, *item, given, arguments, sink);
        if (!text) return TEGULA_E_ARGUMENTS;
        *json = make_blob(std::move(*text));
        return TEGULA_OK;
    });
}

tegula_status tegula_kernel_launch(tegula_kernel* kernel, const tegula_value* args, size_t arg_count, const tegula_run_options* options,
                                   tegula_diags** diags) {
    if (const tegula_status wrong = check_handle(kernel, diags)) return wrong;
    return launch(kernel->module, nullptr, kernel->exe.get(), nullptr, 0, args, arg_count, options, diags);
}

tegula_status tegula_prepare(tegula_module* module, const char* kernel, const tegula_value* generics, size_t generic_count, const tegula_value* args,
                             size_t arg_count, const tegula_run_options* options, tegula_prepared** prepared, tegula_diags** diags) {
    if (prepared) *prepared = nullptr;
    if (const tegula_status wrong = check_handle(module, diags)) return wrong;
    if (!kernel || !prepared) return usage(diags, "kernel or prepared is NULL");
    return border(module->module->engine, diags, [&](DiagSink& sink) -> tegula_status {
        Preparing what(module->module);
        if (const tegula_status wrong = what.read(kernel, generics, generic_count, args, arg_count, options, sink)) return wrong;
        return what.make(prepared, sink);
    });
}

tegula_status tegula_prepare_async(tegula_module* module, const char* kernel, const tegula_value* generics, size_t generic_count,
                                   const tegula_value* args, size_t arg_count, const tegula_run_options* options,
                                   void (*done)(void* user, tegula_status status, tegula_prepared* prepared, tegula_diags* diags), void* user,
                                   tegula_job** job, tegula_diags** diags) {
    if (job) *job = nullptr;
    if (const tegula_status wrong = check_handle(module, diags)) return wrong;
    if (!kernel || !done) return usage(diags, "kernel or done is NULL");
    return border(module->module->engine, diags, [&](DiagSink& sink) -> tegula_status {
        auto what = std::make_shared<Preparing>(module->module);
        if (const tegula_status wrong = what->read(kernel, generics, generic_count, args, arg_count, options, sink)) return wrong;
        const std::shared_ptr<tegula_job> handle(new tegula_job(module->module), [](tegula_job* j) { tegula_release(j); });
        what->launch.cancel = &handle->flag.flag();
        const auto work = [what, handle, done, user] {
            tegula_prepared* prepared = nullptr;
            tegula_diags* said = nullptr;
            const tegula_status status = border(what->module->engine, &said, [&](DiagSink& own) { return what->make(&prepared, own); });
            try {
                done(user, status, prepared, said);
            } catch (...) {  // no call of ours is there to report it
            }
            tegula_release(prepared);
            tegula_release(said);
        };
        std::thread(work).detach();
        if (job) tegula_retain(*job = handle.get());
        return TEGULA_OK;
    });
}

tegula_status tegula_rebind(tegula_prepared* prepared, const tegula_value* args, size_t arg_count, tegula_diags** diags) {
    if (const tegula_status wrong = check_handle(prepared, diags)) return wrong;
    const auto& engine = prepared->module->engine;
    return border(engine, diags, [&](DiagSink& sink) -> tegula_status {
        std::vector<LaunchArgument> given;
        if (!read_arguments(*prepared->module, args, arg_count, true, given, sink)) return TEGULA_E_USAGE;
        if (!name_all(*prepared->kernel, given))
            return sink.report(Diag::api_usage, {},
                               {"`" + std::string(prepared->kernel->name.text) + "` takes " + std::to_string(prepared->kernel->params.size()) +
                                " arguments, got " + std::to_string(given.size())}),
                   TEGULA_E_USAGE;
        for (const LaunchArgument& kept : prepared->args)
            if (std::none_of(given.begin(), given.end(), [&](const LaunchArgument& a) { return a.name == kept.name; })) given.push_back(kept);
        std::shared_ptr<const PreparedLaunch> made;
        const Status status = engine->prepare(*prepared->home, *prepared->kernel, prepared->generics, given, prepared->options, sink, made);
        if (status != Status::ok) return to_status(status);
        prepared->launch = std::move(made);
        prepared->args = std::move(given);
        return TEGULA_OK;
    });
}

tegula_status tegula_enqueue(tegula_prepared* prepared, void* stream) {
    if (!is_right(prepared)) return TEGULA_E_USAGE;
    switch (prepared->launch->launch(stream)) {
        case 0:
            return TEGULA_OK;
        case PreparedLaunch::kCancelled:
            return TEGULA_E_CANCELLED;
        case PreparedLaunch::kHasNoStreams:
            return TEGULA_E_USAGE;
        default:
            return TEGULA_E_RUN;
    }
}

tegula_status tegula_collect(tegula_prepared* prepared, void* stream, const tegula_run_options* options, tegula_diags** diags) {
    if (const tegula_status wrong = check_handle(prepared, diags)) return wrong;
    const auto& engine = prepared->module->engine;
    return border(engine, diags, [&](DiagSink& sink) -> tegula_status {
        LaunchOptions launch;
        tegula_status status = TEGULA_OK;
        if (!launch_options(options, launch, sink, status, *engine, false)) return status;
        RunResult result = prepared->launch->collect(stream, launch);
        for (Diagnostic& d : result.diagnostics) sink.add(std::move(d));
        return result.status == RunResult::ok ? TEGULA_OK : TEGULA_E_RUN;
    });
}

tegula_status tegula_module_artifact(tegula_module* module, const char* kind, tegula_blob** blob, tegula_diags** diags) {
    if (blob) *blob = nullptr;
    if (const tegula_status wrong = check_handle(module, diags)) return wrong;
    if (!kind || !blob) return usage(diags, "kind or blob is NULL");
    return border(module->module->engine, diags, [&](DiagSink& sink) {
        auto text = module->module->engine->artifact(*module->module, kind, sink);
        if (!text) return TEGULA_E_USAGE;
        *blob = make_blob(std::move(*text));
        return TEGULA_OK;
    });
}

tegula_status tegula_kernel_artifact(tegula_kernel* kernel, const char* kind, tegula_blob** blob, tegula_diags** diags) {
    if (blob) *blob = nullptr;
    if (const tegula_status wrong = check_handle(kernel, diags)) return wrong;
    if (!kind || !blob) return usage(diags, "kind or blob is NULL");
    return border(kernel->module->engine, diags, [&](DiagSink& sink) {
        auto text = kernel->module->engine->artifact(*kernel->exe->home, *kernel->exe, kind, sink);
        if (!text)
            return reported(sink, Diag::machine_unavailable) ? TEGULA_E_UNAVAILABLE
                   : reported(sink, Diag::run_cancelled)     ? TEGULA_E_CANCELLED
                                                             : TEGULA_E_USAGE;
        *blob = make_blob(std::move(*text));
        return TEGULA_OK;
    });
}

tegula_status tegula_dump(tegula_engine* engine, const char* name, const char* text, size_t size, const char* kind, tegula_blob** blob,
                          tegula_diags** diags) {
    if (blob) *blob = nullptr;
    if (const tegula_status wrong = check_handle(engine, diags)) return wrong;
    if (!kind || !blob || (!text && size)) return usage(diags, "text, kind or blob is NULL");
    return border(engine->engine, diags, [&](DiagSink& sink) -> tegula_status {
        const std::string_view stage = kind;
        if (stage != "tokens" && stage != "ast" && stage != "fmt") {
            sink.report(Diag::no_such_artifact, {}, {printable(stage), "tokens, ast, fmt"});
            return TEGULA_E_USAGE;
        }
        std::string source;
        if (tegula_status status = copy_source(text, size, source, sink); status != TEGULA_OK) return status;
        auto out = engine->engine->dump(name ? name : "<memory>", std::move(source), kind, sink);
        if (!out || sink.has_errors()) return TEGULA_E_SOURCE;
        *blob = make_blob(std::move(*out));
        return TEGULA_OK;
    });
}

tegula_status tegula_test(tegula_module* module, const char* filter, const tegula_run_options* options,
                          void (*result)(void* user, const tegula_test_result* result), void* user, tegula_diags** diags) {
    return run_blocks(run_tests, module, filter, options, true, result, user, diags);
}

tegula_status tegula_bench(tegula_module* module, const char* filter, const tegula_run_options* options,
                           void (*result)(void* user, const tegula_test_result* result), void* user, tegula_diags** diags) {
    return run_blocks(run_benches, module, filter, options, false, result, user, diags);
}

void tegula_tune_options_init(tegula_tune_options* options, size_t size) {
    if (!options || size < sizeof(size_t)) return;
    std::memset(options, 0, size);
    options->struct_size = size;
    if (size >= offsetof(tegula_tune_options, seconds) + sizeof options->seconds) options->seconds = 20;
}

tegula_status tegula_tune(tegula_module* module, const char* filter, const tegula_run_options* options, const tegula_tune_options* tune,
                          void (*result)(void* user, const tegula_test_result* result), void* user, tegula_diags** diags) {
    TuneRequest request;
    if (const std::string wrong = tune_request(tune, request); !wrong.empty()) return usage(diags, wrong);
    const TestRunner run = [&](Engine& engine, LoadedModule& m, std::string_view which, const LaunchOptions& launch, const auto& report) {
        return run_tunes(engine, m, which, launch, request, report);
    };
    return run_blocks(run, module, filter, options, false, result, user, diags);
}

tegula_status tegula_tensor_bytes(tegula_module* module, const char* type, const char* layout, const int64_t* extents, int32_t rank, size_t* bytes,
                                  size_t* scales_bytes, tegula_diags** diags) {
    if (const tegula_status wrong = check_handle(module, diags)) return wrong;
    if (!type || !bytes || (rank > 0 && !extents)) return usage(diags, "type, extents or bytes is NULL");
    if (rank < 0 || rank > kMaxRank) return usage(diags, "rank is not in 0 .. 8");
    return border(module->module->engine, diags, [&](DiagSink& sink) {
        std::string why;
        TensorSize size;
        Shape shape;
        for (int32_t d = 0; d < rank; ++d) shape.push(extents[d]);
        const auto format = read_type(*module->module, type, why);
        const auto id = format ? read_layout(*module->module, layout, why) : std::nullopt;
        if (!id || !tensor_size(module->module->types(), *format, *id, shape, size, &why)) {
            sink.report(Diag::bad_tensor, {}, {printable(type), why});
            return TEGULA_E_ARGUMENTS;
        }
        *bytes = size.bytes;
        if (scales_bytes) *scales_bytes = size.scales_bytes;
        return TEGULA_OK;
    });
}

tegula_status tegula_layout_hash(tegula_module* module, const char* layout, uint64_t* hash, tegula_diags** diags) {
    if (const tegula_status wrong = check_handle(module, diags)) return wrong;
    if (!hash) return usage(diags, "hash is NULL");
    return border(module->module->engine, diags, [&](DiagSink& sink) {
        std::string why;
        const auto id = read_layout(*module->module, layout, why);
        if (!id) {
            sink.report(Diag::bad_tensor, {}, {"layout", why});
            return TEGULA_E_ARGUMENTS;
        }
        *hash = order_hash(module->module->types().layout(*id));
        return TEGULA_OK;
    });
}

tegula_status tegula_tensor_copy(tegula_module* module, const tegula_tensor* to, const tegula_tensor* from, tegula_diags** diags) {
    if (const tegula_status wrong = check_handle(module, diags)) return wrong;
    if (!to || !from) return usage(diags, "to or from is NULL");
    return border(module->module->engine, diags, [&](DiagSink& sink) {
        TensorView target, source;
        std::string bad_target = read_tensor(*module->module, *to, true, target), bad_source = read_tensor(*module->module, *from, true, source);
        TypeTable& types = module->module->types();
        if (bad_target.empty()) bad_target = misplaced(types, target, true);
        if (bad_source.empty()) bad_source = misplaced(types, source, false);
        const char* const kDevice = "it lies in device memory; copies convert host memory";
        if (!bad_target.empty()) sink.report(Diag::bad_tensor, {}, {"to", bad_target});
        if (!bad_source.empty()) sink.report(Diag::bad_tensor, {}, {"from", bad_source});
        if (bad_target.empty() && target.memory != Memory::host) sink.report(Diag::bad_tensor, {}, {"to", kDevice});
        if (bad_source.empty() && source.memory != Memory::host) sink.report(Diag::bad_tensor, {}, {"from", kDevice});
        if (sink.has_errors()) return TEGULA_E_ARGUMENTS;
        Engine& engine = *module->module->engine;
        std::string why;
        if (copy_converted(engine, *module->module, target, source, sink, &why)) return TEGULA_OK;
        if (engine.cancelled().load()) return TEGULA_E_CANCELLED;
        sink.report(Diag::bad_tensor, {}, {"to", why});
        return TEGULA_E_ARGUMENTS;
    });
}

tegula_status tegula_tensor_diff(tegula_module* module, const tegula_tensor* a, const tegula_tensor* b, tegula_blob** json, tegula_diags** diags) {
    if (json) *json = nullptr;
    if (const tegula_status wrong = check_handle(module, diags)) return wrong;
    if (!a || !b || !json) return usage(diags, "a, b or json is NULL");
    return border(module->module->engine, diags, [&](DiagSink& sink) {
        TensorView views[2];
        const tegula_tensor* const tensors[] = {a, b};
        for (size_t i = 0; i < 2; ++i) {
            std::string bad = read_tensor(*module->module, *tensors[i], true, views[i]);
            if (bad.empty()) bad = misplaced(module->module->types(), views[i], false);
            if (bad.empty() && views[i].memory != Memory::host) bad = "it lies in device memory";
            if (!bad.empty()) sink.report(Diag::bad_tensor, {}, {i ? "b" : "a", bad});
        }
        std::string text;
        if (sink.has_errors() || !module->module->engine->diff(*module->module, views[0], views[1], text, sink)) return TEGULA_E_ARGUMENTS;
        *json = make_blob(std::move(text));
        return TEGULA_OK;
    });
}

const char* tegula_explain(const char* code) {
    const DiagRow* row = code ? find_diag(code) : nullptr;
    try {
        return row ? diag_page(*row).c_str() : nullptr;
    } catch (...) {
        return row->explanation;  // no memory for more
    }
}

tegula_status tegula_describe(tegula_engine* engine, tegula_blob** blob) {
    if (blob) *blob = nullptr;
    if (!is_right(engine) || !blob) return TEGULA_E_USAGE;
    return border(engine->engine, nullptr, [&](DiagSink&) {
        *blob = make_blob(describe_library(*engine->engine));
        return TEGULA_OK;
    });
}

tegula_status tegula_cache(tegula_engine* engine, const char* task, tegula_blob** json, tegula_diags** diags) {
    if (json) *json = nullptr;
    if (const tegula_status wrong = check_handle(engine, diags)) return wrong;
    if (!task || !json) return usage(diags, "task or json is NULL");
    static constexpr std::string_view kTasks[] = {"stats", "list", "verify", "trim", "clear"};
    const auto at = std::find(std::begin(kTasks), std::end(kTasks), std::string_view(task));
    if (at == std::end(kTasks)) return usage(diags, "the task is none of stats, list, verify, trim, clear");
    return border(engine->engine, diags, [&](DiagSink&) {
        *json = make_blob(cache_json(tend_cache(engine->engine->options().cache, static_cast<CacheTask>(at - std::begin(kTasks)))));
        return TEGULA_OK;
    });
}

size_t tegula_diags_count(const tegula_diags* diags) { return is_right(diags) ? diags->diags.size() : 0; }

const char* tegula_diags_text(tegula_diags* diags, int colour) {
    if (!is_right(diags)) return "";
    return rendered(diags, diags->text[colour != 0],
                    [&](const Diagnostic& d, const SourceMap& sources) { return render_text(d, sources, colour != 0); });
}

const char* tegula_diags_json(tegula_diags* diags) {
    if (!is_right(diags)) return "";
    return rendered(diags, diags->json, [](const Diagnostic& d, const SourceMap& sources) { return render_json(d, sources) + "\n"; });
}

tegula_blob* tegula_blob_new(const void* data, size_t size) {
    if (!data && size) return nullptr;
    try {
        return make_blob(std::string(static_cast<const char*>(data ? data : ""), size));
    } catch (...) {
        return nullptr;
    }
}

const char* tegula_blob_data(const tegula_blob* blob, size_t* size) {
    if (size) *size = is_right(blob) ? blob->data.size() : 0;
    return is_right(blob) ? blob->data.c_str() : nullptr;
}

void tegula_retain(void* handle) {
    if (handle) static_cast<Handle*>(handle)->references.fetch_add(1, std::memory_order_relaxed);
}

void tegula_release(void* handle) {
    auto* h = static_cast<Handle*>(handle);
    if (h && h->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete h;
}

}  // extern "C"
