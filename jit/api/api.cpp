// The C ABI over the engine: handles, value conversion, and the border where exceptions end. See tegula.h for the contract.
#include "tegula/tegula.h"

#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "jit/engine/host.h"

using namespace tegula;

namespace {

/// First member of every handle, so that retain and release need no type.
struct Handle {
    std::atomic<int64_t> references{1};
    virtual ~Handle() = default;
};

}  // namespace

struct tegula_engine : Handle {
    std::shared_ptr<Engine> engine;
};
struct tegula_module : Handle {
    ModulePtr module;
};
struct tegula_kernel : Handle {
    ModulePtr module;
    std::shared_ptr<const Executable> exe;
};
struct tegula_blob : Handle {
    std::string data;
};
struct tegula_diags : Handle {
    std::shared_ptr<Engine> engine;  ///< for source excerpts; null for errors before there is one
    std::vector<Diagnostic> diags;
    std::mutex mutex;
    std::string text[2], json;
};

namespace {

constexpr size_t kMinEngineOptions = offsetof(tegula_engine_options, max_errors);
constexpr size_t kMinRunOptions = offsetof(tegula_run_options, user);

tegula_status to_status(Status status) { return static_cast<tegula_status>(status); }

void give_diags(tegula_diags** out, std::shared_ptr<Engine> engine, std::vector<Diagnostic> diags) {
    if (!out || diags.empty()) return;
    auto* handle = new tegula_diags;
    handle->engine = std::move(engine);
    handle->diags = std::move(diags);
    *out = handle;
}

tegula_status usage(tegula_diags** out, std::string text) {
    DiagSink sink;
    sink.report(Diag::api_usage, {}, {std::move(text)});
    give_diags(out, nullptr, sink.take());
    return TEGULA_E_USAGE;
}

/// Runs `fn(sink)`; whatever it throws becomes the internal-error status with a diagnostic.
template <class Fn>
tegula_status border(const std::shared_ptr<Engine>& engine, tegula_diags** out, Fn&& fn) {
    if (out) *out = nullptr;
    DiagSink sink(engine ? engine->options().max_errors : 100);
    tegula_status status;
    try {
        status = fn(sink);
    } catch (const std::bad_alloc&) {
        sink.report(Diag::internal, {}, {"out of memory"});
        status = TEGULA_E_INTERNAL;
    } catch (const std::exception& error) {
        sink.report(Diag::internal, {}, {error.what()});
        status = TEGULA_E_INTERNAL;
    }
    try {
        give_diags(out, engine, sink.take());
    } catch (const std::bad_alloc&) {
        status = TEGULA_E_INTERNAL;
    }
    return status;
}

tegula_blob* make_blob(std::string text) {
    auto* blob = new tegula_blob;
    blob->data = std::move(text);
    return blob;
}

bool read_options(const tegula_run_options* given, tegula_run_options& options) {
    tegula_run_options_init(&options, sizeof options);
    if (!given) return true;
    if (given->struct_size < kMinRunOptions || given->struct_size > sizeof options) return false;
    std::memcpy(&options, given, given->struct_size);
    return true;
}

/// The options of a run; false (reported) for unknown machines.
bool launch_options(const tegula_run_options* given, LaunchOptions& out, DiagSink& sink, tegula_status& status, const std::shared_ptr<Engine>& engine) {
    tegula_run_options o;
    if (!read_options(given, o)) {
        sink.report(Diag::api_usage, {}, {"struct_size of the run options is wrong; call tegula_run_options_init"});
        status = TEGULA_E_USAGE;
        return false;
    }
    if (o.machine && *o.machine && std::string_view(o.machine) != "interp" && std::string_view(o.machine) != "auto") {
        sink.report(Diag::machine_unavailable, {}, {printable(o.machine), "this build has the machine `interp` only"});
        status = TEGULA_E_UNAVAILABLE;
        return false;
    }
    if (o.disable_passes) {
        std::string_view list = o.disable_passes;
        while (!list.empty()) {
            size_t comma = std::min(list.find(','), list.size());
            std::string pass(list.substr(0, comma));
            list.remove_prefix(std::min(comma + 1, list.size()));
            if (!pass.empty()) out.disabled_passes.push_back(std::move(pass));
        }
        if (!engine->check_passes(out.disabled_passes, sink)) {
            status = TEGULA_E_USAGE;
            return false;
        }
    }
    out.checked = o.checked != 0;
    out.trap_floats = o.trap_floats != 0;
    out.order_seed = o.order_seed;
    out.threads = o.threads ? o.threads : std::max(1u, std::thread::hardware_concurrency());
    out.step_budget = o.step_budget;
    out.memory_budget = o.memory_budget;
    out.cancel = &engine->cancelled();
    void* user = o.user;
    if (o.print) out.print = [fn = o.print, user](std::string_view text) { fn(user, text.data(), text.size()); };
    if (o.progress)
        out.progress = [fn = o.progress, user, engine](uint64_t done, uint64_t all) {
            if (fn(user, done, all)) engine->cancelled().store(true);
        };
    return true;
}

bool tensor_view(LoadedModule& module, const tegula_tensor& t, TensorView& view, DiagSink& sink, std::string_view name) {
    auto fail = [&](std::string why) {
        sink.report(Diag::bad_tensor, {}, {printable(name), std::move(why)});
        return false;
    };
    Engine& engine = *module.engine;
    if (!t.type) return fail("the element type is NULL");
    if (t.rank < 0 || t.rank > kMaxRank) return fail("rank " + std::to_string(t.rank) + " is not in 0 .. 8");
    if (t.rank > 0 && !t.extents) return fail("the extents are NULL");
    auto format = engine.parse_type(module, t.type, sink);
    if (!format) return fail("`" + printable(t.type) + "` is not an element type");
    auto layout = engine.parse_layout(module, t.layout ? t.layout : "", sink);
    if (!layout) return fail("`" + printable(t.layout) + "` is not a layout");
    view.elem = *format;
    view.layout = *layout;
    for (int32_t d = 0; d < t.rank; ++d) view.extents.push(t.extents[d]);
    TensorSize size;
    std::string why;
    if (!tensor_size(engine.types(), *format, *layout, view.extents, size, &why)) return fail(why);
    const Format& f = engine.types().format(*format);
    const unsigned bits = f.is_block() ? engine.types().format(f.elem).bits : f.bits;
    if (t.strides) {
        if (bits % 8 || f.is_block()) return fail("strides are for types of whole bytes; use a layout");
        view.has_strides = true;
        __int128 last = 0;
        for (int32_t d = 0; d < t.rank; ++d) {
            view.strides[static_cast<size_t>(d)] = t.strides[d];
            if (t.strides[d] < 0) return fail("stride " + std::to_string(t.strides[d]) + " is negative");
            if (view.extents[static_cast<size_t>(d)] > 0) last += static_cast<__int128>(t.strides[d]) * (view.extents[static_cast<size_t>(d)] - 1);
        }
        __int128 need = view.extents.elements() ? (last + 1) * (bits / 8) : 0;
        if (need > static_cast<__int128>(UINT64_MAX >> 2)) return fail("the strides reach beyond any memory");
        size.bytes = static_cast<uint64_t>(need);
    }
    if (t.bytes < size.bytes) return fail("the storage has " + std::to_string(t.bytes) + " bytes, type, extents and layout need " + std::to_string(size.bytes));
    if (!t.data && size.bytes) return fail("the data pointer is NULL");
    if (size.scales_bytes && (!t.scales || t.scales_bytes < size.scales_bytes))
        return fail("the scales need " + std::to_string(size.scales_bytes) + " bytes, " + std::to_string(t.scales ? t.scales_bytes : 0) + " are given");
    if (size.tensor_scale_bytes && !t.tensor_scale) return fail("the type has a tensor scale, the pointer is NULL");
    view.data = static_cast<uint8_t*>(t.data);
    view.bytes = t.bytes;
    view.scales = static_cast<uint8_t*>(t.scales);
    view.scales_bytes = t.scales_bytes;
    view.tensor_scale = static_cast<uint8_t*>(t.tensor_scale);
    return true;
}

bool read_generics(LoadedModule& module, const tegula_value* values, size_t count, sema::StaticValues& out, DiagSink& sink) {
    if (count && !values) return sink.report(Diag::api_usage, {}, {"the generics are NULL"}), false;
    for (size_t i = 0; i < count; ++i) {
        const tegula_value& v = values[i];
        if (!v.name) return sink.report(Diag::api_usage, {}, {"a generic value needs a name"}), false;
        sema::StaticValue value;
        switch (v.kind) {
            case TEGULA_INT: value.v = v.i; break;
            case TEGULA_REAL: value.v = v.r; break;
            case TEGULA_TYPE: {
                auto format = v.type ? module.engine->parse_type(module, v.type, sink) : std::nullopt;
                if (!format) {
                    sink.report(Diag::api_usage, {}, {"`" + printable(v.type ? v.type : "NULL") + "` is not a type, in generic `" + printable(v.name) + "`"});
                    return false;
                }
                value.v = *format;
                break;
            }
            default: return sink.report(Diag::api_usage, {}, {"generic `" + printable(v.name) + "` is neither number nor type"}), false;
        }
        out[v.name] = value;
    }
    return true;
}

bool read_arguments(LoadedModule& module, const tegula_value* values, size_t count, std::vector<LaunchArgument>& out, DiagSink& sink) {
    if (count && !values) return sink.report(Diag::api_usage, {}, {"the arguments are NULL"}), false;
    bool ok = true;
    for (size_t i = 0; i < count; ++i) {
        const tegula_value& v = values[i];
        LaunchArgument arg;
        if (v.name) arg.name = v.name;
        switch (v.kind) {
            case TEGULA_INT: arg.kind = LaunchArgument::integer, arg.i = v.i; break;
            case TEGULA_REAL: arg.kind = LaunchArgument::real, arg.r = v.r; break;
            case TEGULA_TENSOR: {
                std::string name = v.name ? v.name : "argument " + std::to_string(i);
                if (!v.tensor) {
                    sink.report(Diag::bad_tensor, {}, {printable(name), "the tensor is NULL"});
                    ok = false;
                } else {
                    ok = tensor_view(module, *v.tensor, arg.view, sink, name) && ok;
                }
                break;
            }
            default:
                sink.report(Diag::api_usage, {}, {"a launch argument is a number or a tensor"});
                ok = false;
        }
        out.push_back(std::move(arg));
    }
    return ok;
}

std::shared_ptr<HostTensor> load_array(const tegula_engine_options& options, TypeTable& types, const std::string& path, const std::string& name,
                                       std::string& error) {
    tegula_tensor t{};
    char reason[512] = "";
    tegula_blob* blob = options.load_array(options.user, path.c_str(), name.empty() ? nullptr : name.c_str(), &t, reason, sizeof reason);
    if (!blob) return error.assign(reason, strnlen(reason, sizeof reason)), nullptr;
    std::shared_ptr<HostTensor> out;
    auto format = t.type ? types.builtin(t.type) : std::nullopt;
    Shape extents;
    if (!format || t.rank < 0 || t.rank > kMaxRank) {
        error = "the array has a type or rank that is not supported";
    } else {
        for (int32_t d = 0; d < t.rank; ++d) extents.push(t.extents[d]);
        LayoutId layout = types.intern(t.layout && std::string_view(t.layout) == "col" ? Layout::col() : Layout::row());
        out = make_tensor(types, *format, layout, extents, true, &error);
        if (out && out->data.size() > t.bytes) {
            error = "the array is shorter than its shape";
            out = nullptr;
        } else if (out) {
            std::memcpy(out->data.data(), t.data, out->data.size());
        }
    }
    tegula_release(blob);
    return out;
}

using TestRunner = Status (*)(Engine&, LoadedModule&, std::string_view, const LaunchOptions&, const std::function<void(TestResult&)>&);

tegula_status run_blocks(TestRunner runner, tegula_module* module, const char* filter, const tegula_run_options* options, bool checked,
                         void (*result)(void*, const tegula_test_result*), void* user, tegula_diags** diags) {
    if (!module) return usage(diags, "module is NULL");
    const auto& engine = module->module->engine;
    return border(engine, diags, [&](DiagSink& sink) {
        LaunchOptions launch;
        tegula_status status = TEGULA_OK;
        if (!launch_options(options, launch, sink, status, engine)) return status;
        if (!options) launch.checked = checked;
        Status all = runner(*engine, *module->module, filter ? filter : "", launch, [&](TestResult& r) {
            if (!result) return;
            tegula_test_result out{r.name.c_str(), to_status(r.status), r.seconds, r.metrics.empty() ? nullptr : r.metrics.c_str(), nullptr};
            give_diags(&out.diags, engine, std::move(r.diagnostics));
            result(user, &out);
            tegula_release(out.diags);
        });
        return to_status(all);
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
    if (size > kMinEngineOptions) options->max_errors = 100;
}

tegula_status tegula_engine_new(const tegula_engine_options* given, tegula_engine** engine, tegula_diags** diags) {
    if (diags) *diags = nullptr;
    if (!engine) return usage(diags, "engine is NULL");
    *engine = nullptr;
    tegula_engine_options o;
    tegula_engine_options_init(&o, sizeof o);
    if (given) {
        if (given->struct_size < kMinEngineOptions || given->struct_size > sizeof o)
            return usage(diags, "struct_size of the engine options is wrong; call tegula_engine_options_init");
        std::memcpy(&o, given, given->struct_size);
    }
    return border(nullptr, diags, [&](DiagSink&) {
        EngineOptions options;
        if (o.import_root) options.import_root = o.import_root;
        if (o.max_errors) options.max_errors = o.max_errors;
        if (o.import_)
            options.importer = [fn = o.import_, user = o.user](std::string_view path) -> std::optional<std::string> {
                tegula_blob* blob = fn(user, std::string(path).c_str());
                if (!blob) return std::nullopt;
                std::string text = blob->data;
                tegula_release(blob);
                return text;
            };
        if (o.load_array)
            options.load_array = [o](TypeTable& types, const std::string& path, const std::string& name, std::string& error) {
                return load_array(o, types, path, name, error);
            };
        auto handle = std::make_unique<tegula_engine>();
        handle->engine = Engine::create(std::move(options));
        *engine = handle.release();
        return TEGULA_OK;
    });
}

void tegula_cancel(tegula_engine* engine, int on) {
    if (engine) engine->engine->cancelled().store(on != 0);
}

static tegula_status load_module(tegula_engine* engine, const std::string& name, std::string text, const std::string& directory, tegula_module** module,
                                 tegula_diags** diags) {
    return border(engine->engine, diags, [&](DiagSink& sink) {
        ModulePtr loaded = engine->engine->load(name, std::move(text), directory, sink);
        if (!loaded) return TEGULA_E_SOURCE;
        auto handle = std::make_unique<tegula_module>();
        handle->module = std::move(loaded);
        *module = handle.release();
        return TEGULA_OK;
    });
}

tegula_status tegula_module_from_source(tegula_engine* engine, const char* name, const char* text, size_t size, tegula_module** module,
                                        tegula_diags** diags) {
    if (module) *module = nullptr;
    if (!engine || !module || (!text && size)) return usage(diags, "engine, text or module is NULL");
    return load_module(engine, name ? name : "<memory>", std::string(text ? text : "", size), {}, module, diags);
}

tegula_status tegula_module_from_file(tegula_engine* engine, const char* path, tegula_module** module, tegula_diags** diags) {
    if (module) *module = nullptr;
    if (!engine || !path || !module) return usage(diags, "engine, path or module is NULL");
    std::string text, why;
    tegula_status status = border(engine->engine, diags, [&](DiagSink& sink) {
        constexpr size_t kMaxSource = size_t{16} << 20;
        std::ifstream file(path, std::ios::binary);
        if (file) {
            char buffer[1 << 16];
            while (text.size() <= kMaxSource && (file.read(buffer, sizeof buffer), file.gcount() > 0)) text.append(buffer, static_cast<size_t>(file.gcount()));
            if (file.bad() || (text.empty() && !file.eof())) why = "it cannot be read";
            if (text.size() > kMaxSource) why = "it is larger than 16 MiB";
        } else {
            why = std::strerror(errno);
        }
        if (why.empty()) return TEGULA_OK;
        sink.report(Diag::cannot_read, {}, {printable(path), why});
        return TEGULA_E_IO;
    });
    if (status != TEGULA_OK) return status;
    std::string name = path;
    size_t slash = name.rfind('/');
    return load_module(engine, name, std::move(text), slash == std::string::npos ? "." : slash == 0 ? "/" : name.substr(0, slash), module, diags);
}

tegula_status tegula_module_check(tegula_module* module, tegula_diags** diags) {
    if (!module) return usage(diags, "module is NULL");
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
    if (!module || !kernel || !compiled) return usage(diags, "module, kernel or compiled is NULL");
    const auto& engine = module->module->engine;
    return border(engine, diags, [&](DiagSink& sink) {
        LaunchOptions launch;
        tegula_status status = TEGULA_OK;
        sema::StaticValues given;
        if (!launch_options(options, launch, sink, status, engine)) return status;
        if (!read_generics(*module->module, generics, generic_count, given, sink)) return static_cast<tegula_status>(TEGULA_E_USAGE);
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

static tegula_status launch(const ModulePtr& module, const ast::KernelItem* kernel, const char* name, const sema::StaticValues* fixed,
                            const tegula_value* generics, size_t generic_count, const tegula_value* args, size_t arg_count,
                            const tegula_run_options* options, tegula_diags** diags) {
    const auto& engine = module->engine;
    return border(engine, diags, [&](DiagSink& sink) {
        LaunchOptions launch;
        tegula_status status = TEGULA_OK;
        sema::StaticValues given = fixed ? *fixed : sema::StaticValues();
        std::vector<LaunchArgument> arguments;
        if (!launch_options(options, launch, sink, status, engine)) return status;
        const ast::KernelItem* item = kernel ? kernel : engine->find_kernel(*module, name, sink);
        if (!item || !read_generics(*module, generics, generic_count, given, sink)) return static_cast<tegula_status>(TEGULA_E_USAGE);
        if (!read_arguments(*module, args, arg_count, arguments, sink)) return static_cast<tegula_status>(TEGULA_E_ARGUMENTS);
        return to_status(engine->launch(*module, *item, given, arguments, launch, sink));
    });
}

tegula_status tegula_launch(tegula_module* module, const char* kernel, const tegula_value* generics, size_t generic_count, const tegula_value* args,
                            size_t arg_count, const tegula_run_options* options, tegula_diags** diags) {
    if (!module || !kernel) return usage(diags, "module or kernel is NULL");
    return launch(module->module, nullptr, kernel, nullptr, generics, generic_count, args, arg_count, options, diags);
}

tegula_status tegula_plan(tegula_module* module, const char* kernel, const tegula_value* generics, size_t generic_count, const tegula_value* args,
                          size_t arg_count, tegula_blob** json, tegula_diags** diags) {
    if (json) *json = nullptr;
    if (!module || !kernel || !json) return usage(diags, "module, kernel or json is NULL");
    const auto& engine = module->module->engine;
    return border(engine, diags, [&](DiagSink& sink) {
        sema::StaticValues given;
        std::vector<LaunchArgument> arguments;
        const ast::KernelItem* item = engine->find_kernel(*module->module, kernel, sink);
        if (!item || !read_generics(*module->module, generics, generic_count, given, sink)) return TEGULA_E_USAGE;
        if (!read_arguments(*module->module, args, arg_count, arguments, sink)) return TEGULA_E_ARGUMENTS;
        auto text = engine->plan(*module->module, *item, given, arguments, sink);
        if (!text) return TEGULA_E_ARGUMENTS;
        *json = make_blob(std::move(*text));
        return TEGULA_OK;
    });
}

tegula_status tegula_kernel_launch(tegula_kernel* kernel, const tegula_value* args, size_t arg_count, const tegula_run_options* options,
                                   tegula_diags** diags) {
    if (!kernel) return usage(diags, "kernel is NULL");
    return launch(kernel->module, kernel->exe->kernel, nullptr, &kernel->exe->generics, nullptr, 0, args, arg_count, options, diags);
}

tegula_status tegula_module_artifact(tegula_module* module, const char* kind, tegula_blob** blob, tegula_diags** diags) {
    if (blob) *blob = nullptr;
    if (!module || !kind || !blob) return usage(diags, "module, kind or blob is NULL");
    return border(module->module->engine, diags, [&](DiagSink& sink) {
        auto text = module->module->engine->artifact(*module->module, kind, sink);
        if (!text) return TEGULA_E_USAGE;
        *blob = make_blob(std::move(*text));
        return TEGULA_OK;
    });
}

tegula_status tegula_kernel_artifact(tegula_kernel* kernel, const char* kind, tegula_blob** blob, tegula_diags** diags) {
    if (blob) *blob = nullptr;
    if (!kernel || !kind || !blob) return usage(diags, "kernel, kind or blob is NULL");
    return border(kernel->module->engine, diags, [&](DiagSink& sink) {
        auto text = kernel->module->engine->artifact(*kernel->module, *kernel->exe, kind, sink);
        if (!text) return TEGULA_E_USAGE;
        *blob = make_blob(std::move(*text));
        return TEGULA_OK;
    });
}

tegula_status tegula_dump(tegula_engine* engine, const char* name, const char* text, size_t size, const char* kind, tegula_blob** blob,
                          tegula_diags** diags) {
    if (blob) *blob = nullptr;
    if (!engine || !kind || !blob || (!text && size)) return usage(diags, "engine, text, kind or blob is NULL");
    return border(engine->engine, diags, [&](DiagSink& sink) {
        auto out = engine->engine->dump(name ? name : "<memory>", std::string(text ? text : "", size), kind, sink);
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

tegula_status tegula_tensor_bytes(tegula_module* module, const char* type, const char* layout, const int64_t* extents, int32_t rank, size_t* bytes,
                                  size_t* scales_bytes, tegula_diags** diags) {
    if (!module || !type || !bytes || (rank > 0 && !extents)) return usage(diags, "module, type, extents or bytes is NULL");
    return border(module->module->engine, diags, [&](DiagSink& sink) {
        Engine& engine = *module->module->engine;
        auto format = engine.parse_type(*module->module, type, sink);
        auto id = engine.parse_layout(*module->module, layout ? layout : "", sink);
        Shape shape;
        if (rank < 0 || rank > kMaxRank) return sink.report(Diag::api_usage, {}, {"rank is not in 0 .. 8"}), TEGULA_E_USAGE;
        for (int32_t d = 0; d < rank; ++d) shape.push(extents[d]);
        TensorSize size;
        std::string why = "unknown type or layout";
        if (!format || !id || !tensor_size(engine.types(), *format, *id, shape, size, &why)) {
            sink.report(Diag::bad_tensor, {}, {printable(type), why});
            return TEGULA_E_ARGUMENTS;
        }
        *bytes = size.bytes;
        if (scales_bytes) *scales_bytes = size.scales_bytes;
        return TEGULA_OK;
    });
}

tegula_status tegula_tensor_copy(tegula_module* module, const tegula_tensor* to, const tegula_tensor* from, tegula_diags** diags) {
    if (!module || !to || !from) return usage(diags, "module, to or from is NULL");
    return border(module->module->engine, diags, [&](DiagSink& sink) {
        TensorView target, source;
        if (!tensor_view(*module->module, *to, target, sink, "to") || !tensor_view(*module->module, *from, source, sink, "from")) return TEGULA_E_ARGUMENTS;
        std::string why;
        if (copy_converted(*module->module->engine, *module->module, target, source, sink, &why)) return TEGULA_OK;
        sink.report(Diag::bad_tensor, {}, {"to", why});
        return TEGULA_E_ARGUMENTS;
    });
}

const char* tegula_explain(const char* code) {
    const DiagRow* row = code ? find_diag(code) : nullptr;
    return row ? row->explanation : nullptr;
}

tegula_status tegula_describe(tegula_engine* engine, tegula_blob** blob) {
    if (!engine || !blob) return TEGULA_E_USAGE;
    *blob = nullptr;
    return border(engine->engine, nullptr, [&](DiagSink&) {
        *blob = make_blob(describe_library());
        return TEGULA_OK;
    });
}

size_t tegula_diags_count(const tegula_diags* diags) { return diags ? diags->diags.size() : 0; }

const char* tegula_diags_text(tegula_diags* diags, int colour) {
    if (!diags) return "";
    std::lock_guard lock(diags->mutex);
    std::string& text = diags->text[colour != 0];
    if (text.empty()) {
        static const SourceMap kNone;
        const SourceMap& sources = diags->engine ? diags->engine->sources() : kNone;
        for (const Diagnostic& d : diags->diags) text += render_text(d, sources, colour != 0);
    }
    return text.c_str();
}

const char* tegula_diags_json(tegula_diags* diags) {
    if (!diags) return "";
    std::lock_guard lock(diags->mutex);
    if (diags->json.empty()) {
        static const SourceMap kNone;
        const SourceMap& sources = diags->engine ? diags->engine->sources() : kNone;
        for (const Diagnostic& d : diags->diags) diags->json += render_json(d, sources) + "\n";
    }
    return diags->json.c_str();
}

tegula_blob* tegula_blob_new(const void* data, size_t size) {
    try {
        return make_blob(std::string(static_cast<const char*>(data ? data : ""), data ? size : 0));
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

const char* tegula_blob_data(const tegula_blob* blob, size_t* size) {
    if (size) *size = blob ? blob->data.size() : 0;
    return blob ? blob->data.c_str() : nullptr;
}

void tegula_retain(void* handle) {
    if (handle) static_cast<Handle*>(handle)->references.fetch_add(1, std::memory_order_relaxed);
}

void tegula_release(void* handle) {
    auto* h = static_cast<Handle*>(handle);
    if (h && h->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete h;
}

}  // extern "C"
