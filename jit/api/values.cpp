// Values that cross the C ABI: options, tensors, generics and launch arguments, checked member by member before the engine sees them.
#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "jit/api/handles.h"

namespace tegula::capi {

namespace {

constexpr size_t kMinEngineOptions = offsetof(tegula_engine_options, max_errors);
constexpr size_t kMinRunOptions = offsetof(tegula_run_options, user);
constexpr unsigned kMaxThreads = 1024;

/// Structures grow by whole members at their end; a size that cuts a member is not one of ours.
bool legal_size(size_t size, size_t least, size_t most) { return size >= least && size <= most && size % alignof(void*) == 0; }

/// What a caller wrote, as far as a message shows it.
std::string shown(std::string_view text) {
    constexpr size_t kMost = 100;
    return "`" + printable(text.substr(0, kMost)) + (text.size() > kMost ? "..`" : "`");
}

std::string first_message(const DiagSink& sink) { return sink.all().empty() ? std::string() : ": " + sink.all().front().message; }

/// What is offered in place of a text, where `is_right` takes it: a type for a type.
template <class IsRight>
std::string offered(DiagSink& sink, const std::string& text, IsRight&& is_right) {
    std::vector<Diagnostic> reported = sink.take();
    for (Diagnostic& d : reported) {
        do {
            if (d.fixes.size() != 1 || d.fixes[0].span.end > text.size()) continue;
            std::string changed = text;
            changed.replace(d.fixes[0].span.begin, d.fixes[0].span.end - d.fixes[0].span.begin, d.fixes[0].text);
            if (is_right(changed)) return "; did you mean `" + changed + "`?";
        } while (d.next_proposal());
        if (!d.notes.empty()) return "; " + d.notes.front().whole();  // where it is, which nothing in one place can mend
    }
    return {};
}

/// Storage of explicit strides, in bytes; a reason when they are not usable.
std::string strided_bytes(const tegula_tensor& t, unsigned bits, bool block, TensorView& view, uint64_t& bytes) {
    if (bits % 8 || block) return "strides are for types of whole bytes; use a layout";
    view.has_strides = true;
    __int128 last = 0;
    for (int32_t d = 0; d < t.rank; ++d) {
        const size_t at = static_cast<size_t>(d);
        if (t.strides[d] < 0) return "stride " + std::to_string(t.strides[d]) + " is negative";
        view.strides[at] = t.strides[d];
        if (view.extents[at] > 0 && last <= INT64_MAX) last += static_cast<__int128>(t.strides[d]) * (view.extents[at] - 1);
    }
    const bool empty = std::count(view.extents.begin(), view.extents.end(), 0) != 0;
    const __int128 need = empty ? 0 : (last + 1) * (bits / 8);
    if (need > static_cast<__int128>(INT64_MAX)) return "the strides reach beyond any memory";
    bytes = static_cast<uint64_t>(need);
    return {};
}

std::string check_storage(const tegula_tensor& t, const TensorSize& need) {
    if (t.bytes < need.bytes)
        return "the storage has " + std::to_string(t.bytes) + " bytes, type, extents and layout need " + std::to_string(need.bytes);
    if (!t.data && need.bytes) return "the data pointer is NULL";
    if (need.scales_bytes && (!t.scales || t.scales_bytes < need.scales_bytes))
        return "the scales need " + std::to_string(need.scales_bytes) + " bytes, " + std::to_string(t.scales ? t.scales_bytes : 0) + " are given";
    if (need.tensor_scale_bytes && !t.tensor_scale) return "the type has a tensor scale, the pointer is NULL";
    return {};
}

/// What plans leave to the parameter.
bool is_open(const char* name) { return name && std::string_view(name) == "?"; }

LaunchArgument read_argument(LoadedModule& module, const tegula_value& v, bool storage) {
    LaunchArgument arg;
    if (v.name) arg.name = v.name;
    switch (kind_of(v)) {
        case TEGULA_INT:
            arg.kind = LaunchArgument::integer, arg.i = v.i, arg.no_bools = true;
            break;
        case TEGULA_UINT:
            arg.kind = LaunchArgument::integer, arg.i = static_cast<uint64_t>(v.i), arg.no_bools = true;
            break;
        case TEGULA_REAL:
            arg.kind = LaunchArgument::real, arg.r = v.r;
            break;
        case TEGULA_TENSOR:
            if (!v.tensor) {
                arg.problem = "the tensor is NULL";
                break;
            }
            if (storage) {
                arg.problem = read_tensor(module, *v.tensor, true, arg.view);
                break;
            }
            {
                tegula_tensor known = *v.tensor;
                arg.open_layout = is_open(known.layout);
                arg.open_type = is_open(known.type);
                if (arg.open_layout) known.layout = nullptr;
                if (arg.open_type) known.type = "u8";  // any: only the extents count
                arg.problem = read_tensor(module, known, false, arg.view);
                if (arg.open_type) arg.view.elem = {};
            }
            break;
        case TEGULA_TYPE:
            arg.problem = "expected a number or a tensor, got a type";
            break;
        default:
            arg.problem = "the kind " + std::to_string(kind_of(v)) + " is none of tegula_value_kind";
    }
    return arg;
}

using OwnedBlob = std::unique_ptr<tegula_blob, void (*)(tegula_blob*)>;

/// What a callback returned; another handle than a blob is the host's mistake.
OwnedBlob take_blob(const char* callback, tegula_blob* blob) {
    OwnedBlob owned(blob, [](tegula_blob* b) { tegula_release(b); });
    if (blob && !is_right(blob))
        throw HostMistake{"the callback `" + std::string(callback) + "` returned no blob: " + handle_problem(blob, tegula_blob::kOwn)};
    return owned;
}

Made<HostTensor> load_array(tegula_array_fn read, void* user, LoadedModule& module, const std::string& path, const std::string& name) {
    tegula_tensor t{};
    char reason[512] = "";
    const OwnedBlob blob = take_blob("load_array", call_host("load_array", read, user, path.c_str(), name.empty() ? nullptr : name.c_str(), &t,
                                                             static_cast<char*>(reason), sizeof reason));
    if (blob) return copy_array(module, t);
    return Made<HostTensor>::failed(std::string(reason, strnlen(reason, sizeof reason)));
}

std::optional<std::string> import_text(tegula_import_fn import, void* user, std::string_view path) {
    const OwnedBlob blob = take_blob("import_", call_host("import_", import, user, std::string(path).c_str()));
    return blob ? std::optional(blob->data) : std::nullopt;
}

/// A structure of another version of the header.
std::string unknown_size(const char* structure, size_t size, size_t least, size_t most) {
    return "struct_size of the " + std::string(structure) + " options is " + std::to_string(size) + ", and this library (ABI " +
           std::to_string(TEGULA_ABI_VERSION) + ") knows " + std::to_string(least) + " to " + std::to_string(most) + "; call tegula_" + structure +
           "_options_init, and compare TEGULA_ABI_VERSION with tegula_abi_version()";
}

std::vector<std::string> split_names(std::string_view list) {
    std::vector<std::string> names;
    while (!list.empty()) {
        const size_t comma = std::min(list.find(','), list.size());
        if (comma) names.emplace_back(list.substr(0, comma));
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return names;
}

}  // namespace

int kind_of(const tegula_value& value) {
    static_assert(sizeof(int) == sizeof(tegula_value_kind));
    int kind;
    std::memcpy(&kind, &value.kind, sizeof kind);
    return kind;
}

Made<HostTensor> copy_array(LoadedModule& module, const tegula_tensor& t) {
    const auto fail = [](std::string why) { return Made<HostTensor>::failed(std::move(why)); };
    if (t.strides || t.device_type != TEGULA_HOST) return fail("its storage is not in memory of the host, or has strides");
    TensorView view;
    if (std::string why = read_tensor(module, t, true, view); !why.empty()) return fail(std::move(why));
    TypeTable& types = module.types();
    const Layout& map = types.layout(view.layout);
    if (const auto conflict = map.find_conflict({view.extents.begin(), view.extents.rank}))
        return fail("layout `" + map.name() + "` does not keep elements apart: " + conflict->text());
    std::shared_ptr<HostTensor> out;
    std::string error;
    if (!make_tensor(types, view.elem, view.layout, view.extents, true).into(out, error)) return fail(std::move(error));
    const auto copy = [](std::vector<uint8_t>& to, const uint8_t* from) {
        if (!to.empty()) std::memcpy(to.data(), from, to.size());
    };
    copy(out->data, view.data);
    copy(out->scales, view.scales);
    copy(out->tensor_scale, view.tensor_scale);
    return out;
}

std::string handle_problem(const Handle* handle, Handle::Kind wanted) {
    static constexpr const char* kNames[] = {"engine", "module", "kernel", "prepared", "blob", "diags", "job", "session", "workspace"};
    static constexpr const char* kWhat[] = {"an engine", "a module", "a kernel", "a prepared launch", "a blob", "diagnostics", "a job", "a session", "a workspace"};
    const auto number = [](Handle::Kind kind) { return static_cast<uint64_t>(kind) - static_cast<uint64_t>(Handle::Kind::engine); };
    const std::string name = kNames[number(wanted)];
    if (!handle) return name + " is NULL";
    const uint64_t found = number(handle->kind);
    return found < std::size(kWhat) ? name + " is the handle of " + kWhat[found] : name + " is no handle of this library";
}

std::string engine_options(const tegula_engine_options* given, EngineOptions& out) {
    tegula_engine_options o;
    tegula_engine_options_init(&o, sizeof o);
    if (given) {
        if (!legal_size(given->struct_size, kMinEngineOptions, sizeof o))
            return unknown_size("engine", given->struct_size, kMinEngineOptions, sizeof o);
        std::memcpy(&o, given, given->struct_size);
    }
    if (o.executor && !o.executor->run) return "the executor has no `run`";
    if (o.import_root) out.import_root = o.import_root;
    if (o.max_errors) out.max_errors = o.max_errors;
    out.pool.max_threads = o.cpu_threads;
    out.pool.pin = o.pin_threads != 0;
    out.cpu_debug = o.cpu_debug != 0;
    if (o.cache_dir) out.cache.directory = o.cache_dir;
    if (o.tuned) out.tuned = o.tuned;
    if (o.cache_bytes) out.cache.disk_bytes = o.cache_bytes;
    if (o.log)
        out.log = [fn = o.log, user = o.user](LogLevel level, const std::string& text) {
            try {
                fn(user, static_cast<int>(level), text.c_str());
            } catch (...) {  // may come from any thread, where nobody could be told
            }
        };
    if (o.executor)
        out.pool.executor = [e = *o.executor](uint32_t count, void (*call)(void*, uint32_t), void* task) {
            call_host("executor.run", e.run, e.user, count, call, task);
        };
    if (o.import_) out.importer = [fn = o.import_, user = o.user](std::string_view path) { return import_text(fn, user, path); };
    if (o.load_array)
        out.load_array = [fn = o.load_array, user = o.user](LoadedModule& module, const std::string& path, const std::string& name) {
            return load_array(fn, user, module, path, name);
        };
    out.confine_loads = o.confine_loads != 0;
    return {};
}

std::string tune_request(const tegula_tune_options* given, TuneRequest& out) {
    constexpr size_t kLeast = offsetof(tegula_tune_options, compilers) + sizeof(uint32_t);
    tegula_tune_options o;
    tegula_tune_options_init(&o, sizeof o);
    if (given) {
        if (!legal_size(given->struct_size, kLeast, sizeof o)) return unknown_size("tune", given->struct_size, kLeast, sizeof o);
        std::memcpy(&o, given, given->struct_size);
    }
    if (!(o.seconds >= 0 && o.seconds < 1e9)) return "`seconds` is no number from 0 to 10^9";
    out.seconds = o.seconds;
    out.seed = o.seed;
    out.compilers = o.compilers;
    out.build = tegula_build_id();
    return {};
}

bool launch_options(const tegula_run_options* given, LaunchOptions& out, DiagSink& sink, tegula_status& status, Engine& engine, bool runs) {
    tegula_run_options o;
    tegula_run_options_init(&o, sizeof o);
    status = TEGULA_E_USAGE;
    if (given) {
        if (!legal_size(given->struct_size, kMinRunOptions, sizeof o)) {
            sink.report(Diag::api_usage, {}, {unknown_size("run", given->struct_size, kMinRunOptions, sizeof o)});
            return false;
        }
        std::memcpy(&o, given, given->struct_size);
    }
    std::string_view name = o.machine ? o.machine : "";
    out.unnamed = name.empty() || name == "auto";
    const bool known = out.unnamed || name == "interp" || name == "cpu" || name == "cuda";
    if (out.unnamed && o.model && *o.model) name = "interp", out.unnamed = false;  // only the interpreter has models
    if ((runs || !known) && !engine.find_machine(name, out.machine, sink)) {
        status = TEGULA_E_UNAVAILABLE;
        return false;
    }
    if (o.model && *o.model && !(out.model = find_arch(o.model))) {
        sink.report(Diag::api_usage, {}, {"no GPU architecture is named `" + printable(o.model) + "`"});
        return false;
    }
    out.stream = o.stream;
    if (o.disable_passes) out.disabled_passes = split_names(o.disable_passes);
    if (!engine.check_passes(out.disabled_passes, sink)) return false;
    if (o.checked < 0 || o.checked > 2) {
        sink.report(Diag::api_usage, {}, {"checked is " + std::to_string(o.checked) + ", not 0, 1 or 2"});
        return false;
    }
    out.checked = o.checked != 0;
    out.native_checks = o.checked == 2;
    out.trap_floats = o.trap_floats != 0;
    out.order_seed = o.order_seed;
    out.threads = o.threads ? std::min(o.threads, kMaxThreads) : std::max(1u, std::thread::hardware_concurrency());
    out.step_budget = o.step_budget;
    out.memory_budget = o.memory_budget;
    out.compile_budget = o.compile_budget;
    out.run_seconds = o.run_seconds;
    out.copy_seconds = o.copy_seconds;
    out.measure = o.run_seconds || o.copy_seconds;
    for (size_t i = 0; o.reachable && i < o.reachable_count; ++i) {
        const tegula_tensor& t = o.reachable[i];
        if (t.bytes > INT64_MAX || (t.bytes && !t.data) || (t.device_type != TEGULA_HOST && t.device_type != TEGULA_CUDA)) {
            sink.report(Diag::api_usage, {}, {"reachable memory " + std::to_string(i) + " has no data, too many bytes or an unknown device_type"});
            return false;
        }
        TensorView& view = out.reachable.emplace_back();
        view.elem = id_of(Fmt::u8);
        view.extents.push(static_cast<int64_t>(t.bytes));
        view.data = static_cast<uint8_t*>(t.data);
        view.bytes = t.bytes;
        view.memory = t.device_type == TEGULA_CUDA ? Memory::cuda : Memory::host;
        view.device = t.device_id;
    }
    out.cancel = &engine.cancelled();
    if (o.print) out.print = [fn = o.print, user = o.user](std::string_view text) { call_host("print", fn, user, text.data(), text.size()); };
    if (o.progress)
        out.keep_going = [fn = o.progress, user = o.user](uint64_t done, uint64_t all) { return call_host("progress", fn, user, done, all) == 0; };
    status = TEGULA_OK;
    return true;
}

std::optional<FormatId> read_type(LoadedModule& module, const char* text, std::string& why) {
    if (!text) return why = "the element type is NULL", std::nullopt;
    DiagSink own;
    auto format = module.engine->parse_type(module, text, own);
    if (format) return format;
    why = shown(text) + " is not an element type" + first_message(own);
    DiagSink unheard;
    why += offered(own, text, [&](const std::string& other) { return module.engine->parse_type(module, other, unheard).has_value(); });
    return format;
}

std::optional<LayoutId> read_layout(LoadedModule& module, const char* text, std::string& why) {
    DiagSink own;
    auto layout = module.engine->parse_layout(module, text ? text : "", own);
    if (layout) return layout;
    why = shown(text ? text : "") + " is not a layout" + first_message(own);
    DiagSink unheard;
    why += offered(own, text ? text : "", [&](const std::string& other) { return module.engine->parse_layout(module, other, unheard).has_value(); });
    return layout;
}

uint64_t order_hash(const Layout& layout) { return std::max<uint64_t>(layout.hash(), 1); }

std::string read_tensor(LoadedModule& module, const tegula_tensor& t, bool storage, TensorView& view) {
    if (t.rank < 0 || t.rank > kMaxRank) return "rank " + std::to_string(t.rank) + " is not in 0 .. 8";
    if (t.rank > 0 && !t.extents) return "the extents are NULL";
    std::string why;
    const std::string_view text = t.type ? t.type : "";
    constexpr std::string_view kPointer = "ptr<";
    const bool pointers = text.starts_with(kPointer) && text.ends_with('>');  // stored as addresses
    auto format = read_type(module, pointers ? std::string(text.substr(4, text.size() - 5)).c_str() : t.type, why);
    if (format && pointers) view.pointee = std::exchange(*format, id_of(Fmt::u64));
    const auto layout = format ? read_layout(module, t.layout, why) : std::nullopt;
    if (!layout) return why;
    for (int32_t d = 0; d < t.rank; ++d) view.extents.push(t.extents[d]);
    TypeTable& types = module.types();
    if (t.layout_hash && t.layout_hash != order_hash(types.layout(*layout)))
        return "it was packed in another order than `" + printable(t.layout ? t.layout : "row") + "` is here";
    TensorSize size;
    if (!tensor_size(types, *format, *layout, view.extents, size, &why)) return why;
    view.layout = *layout;
    const Format& f = types.format(*format);
    if (t.strides) why = strided_bytes(t, f.is_block() ? types.format(f.elem).bits : f.bits, f.is_block(), view, size.bytes);
    if (!why.empty()) return why;
    if (!f.is_block() && (t.scales || t.tensor_scale)) return "scales are given, and `" + f.name + "` has none";
    view.elem = *format;
    view.data = static_cast<uint8_t*>(t.data);
    view.bytes = t.bytes;
    view.scales = static_cast<uint8_t*>(t.scales);
    view.scales_bytes = t.scales_bytes;
    view.tensor_scale = static_cast<uint8_t*>(t.tensor_scale);
    if (t.device_type != TEGULA_HOST && t.device_type != TEGULA_CUDA) return "device_type " + std::to_string(t.device_type) + " is unknown";
    view.memory = t.device_type == TEGULA_CUDA ? Memory::cuda : Memory::host;
    view.device = t.device_id;
    return storage ? check_storage(t, size) : std::string();
}

bool read_generics(LoadedModule& module, const ast::KernelItem& kernel, const tegula_value* values, size_t count, sema::StaticValues& out,
                   DiagSink& sink) {
    const auto fail = [&](std::string why) {
        sink.report(Diag::api_usage, {}, {std::move(why)});
        return false;
    };
    if (count && !values) return fail("the generics are NULL");
    for (size_t i = 0; i < count; ++i) {
        const tegula_value& v = values[i];
        if (!v.name) return fail("a generic value needs a name");
        const std::string name = printable(v.name);
        sema::StaticValue value;
        switch (kind_of(v)) {
            case TEGULA_INT:
                value.v = v.i;
                break;
            case TEGULA_UINT:
                value.v = static_cast<uint64_t>(v.i);
                break;
            case TEGULA_REAL:
                value.v = v.r;
                break;
            case TEGULA_TYPE: {
                std::string why;
                if (auto choice = v.type ? choice_for(module, kernel, v.name, printable(v.type)) : std::nullopt) {
                    value.v = std::move(*choice);
                    break;
                }
                const auto format = read_type(module, v.type, why);
                if (!format) return fail("generic `" + name + "`: " + why);
                value.v = *format;
                break;
            }
            default:
                return fail("generic `" + name + "` is neither number, type nor word");
        }
        if (!out.emplace(name, value).second) return fail("generic `" + name + "` is given twice");
    }
    return true;
}

bool read_arguments(LoadedModule& module, const tegula_value* values, size_t count, bool storage, std::vector<LaunchArgument>& out, DiagSink& sink) {
    if (count && !values) return sink.report(Diag::api_usage, {}, {"the arguments are NULL"}), false;
    for (size_t i = 0; i < count; ++i) out.push_back(read_argument(module, values[i], storage));
    return true;
}

}  // namespace tegula::capi
