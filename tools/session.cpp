// Engine, diagnostics and interruption for all verbs. The signal handler only sets the engine's cancel flag.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "arrays.h"
#include "report.h"
#include "terminal.h"
#include "tool.h"

namespace tegula_tool {

namespace {

// A signal handler can only reach static state; one command is one session.
std::atomic<tegula_engine*> g_engine{nullptr};

constexpr const char* kTimedOut = "stopped: the time given with --timeout is over";
/// How long a command may take to stop by itself: loading and native code do not look at the flag, and what NVRTC is at takes its time to end.
constexpr unsigned kSecondsToStop = 2;
std::atomic<bool> g_timed_out{false};

std::atomic<bool> g_stop{false};

void on_signal(int) {
    g_stop.store(true);
    if (tegula_engine* engine = g_engine.load()) tegula_cancel(engine, 1);
    ::alarm(kSecondsToStop);
}

void on_alarm(int) {
    const bool late = g_timed_out.load();
    const char* const text = late ? kTimedOut : "interrupted";
    erase_progress();
    const bool said = !g_engine.load();  // only the engine's release is still under way
    const bool written = said || (::write(STDERR_FILENO, text, std::strlen(text)) > 0 && ::write(STDERR_FILENO, "\n", 1) > 0);
    ::_exit(!written ? io : late ? timeout : interrupted);
}

/// load_npy and load_safetensors of host statements.
tegula_blob* load_array(void* options, const char* path, const char* name, tegula_tensor* tensor, char* error, size_t capacity) {
    std::string why;
    auto array = read_array(path, name ? name : "", why, static_cast<const Options*>(options)->confined() ? Access::confined : Access::source);
    if (!array) {
        std::snprintf(error, capacity, "%s", why.c_str());
        return nullptr;
    }
    // The blob holds all that the tensor points to, so that it is all that has to be kept.
    std::string storage(array->extents.size() * sizeof(int64_t), '\0');
    std::memcpy(storage.data(), array->extents.data(), storage.size());
    const auto keep = [&](const std::string& bytes) {
        storage.append((16 - storage.size() % 16) % 16, '\0');
        const size_t at = storage.size();
        storage += bytes;
        return at;
    };
    const size_t type_at = keep(array->type + '\0'), layout_at = keep(array->layout_name() + '\0'), data_at = keep(array->data);
    const size_t scales_at = keep(array->scales), scale_at = keep(array->tensor_scale);
    tegula_blob* blob = tegula_blob_new(storage.data(), storage.size());
    if (!blob) return nullptr;
    char* base = const_cast<char*>(tegula_blob_data(blob, nullptr));
    *tensor = {};
    tensor->extents = reinterpret_cast<const int64_t*>(base);
    tensor->rank = static_cast<int32_t>(array->extents.size());
    tensor->type = base + type_at;
    tensor->data = base + data_at;
    tensor->bytes = array->data.size();
    tensor->layout = base + layout_at;
    tensor->layout_hash = array->order;
    if (!array->scales.empty()) tensor->scales = base + scales_at, tensor->scales_bytes = array->scales.size();
    if (!array->tensor_scale.empty()) tensor->tensor_scale = base + scale_at;
    return blob;
}

// The kernel that was launched last, for those who see this process crash.
char g_launched[256];

}  // namespace

const char* launched_kernel() { return g_launched; }

bool stop_requested() { return g_stop.load(); }

std::string json_text(const std::string& text) { return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

std::string decimal(double v, int precision, std::chars_format format) {
    char text[400];
    return {text, std::to_chars(text, text + sizeof text, v, format, precision).ptr};
}

std::string bytes_text(uint64_t bytes) {
    constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB"};
    double value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1024 && unit < 3) value /= 1024, ++unit;
    return (unit ? decimal(value, 1, std::chars_format::fixed) : std::to_string(bytes)) + " " + kUnits[unit];
}

Session::Session(const Options& o) : options(o), colour_(wants_colour(o.colour, STDERR_FILENO)) {
    tegula::EngineOptions engine_options;
    if (!o.tuned.empty()) engine_options.tuned = o.tuned.c_str();
    engine_options.load_array = load_array;
    engine_options.user = const_cast<Options*>(&o);
    engine_options.log = [](void*, int level, const char* text) {
        if (level == TEGULA_LOG_LAUNCH) std::snprintf(g_launched, sizeof g_launched, "%s", text);
    };
    if (!o.import_root.empty()) engine_options.import_root = o.import_root.c_str();
    engine_options.confine_loads = o.confined();
    engine = tegula::Engine::create(engine_options).value();
    g_engine.store(engine.c());
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second Ctrl-C ends the process at once
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
    action.sa_handler = on_alarm;
    ::sigaction(SIGALRM, &action, nullptr);
    std::signal(SIGPIPE, SIG_DFL);
    constexpr double kEndless = 1e9;  // longer waits overflow the clock; nobody sees them end
    if (o.timeout_seconds > 0 && o.timeout_seconds < kEndless)
        timer_ = std::thread([this, seconds = o.timeout_seconds] {
            std::unique_lock lock(timer_mutex_);
            if (timer_wake_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return timer_stop_; })) return;
            g_timed_out.store(true);
            g_stop.store(true);
            engine.cancel();
            ::alarm(kSecondsToStop);
        });
}

Session::~Session() {
    if (timer_.joinable()) {
        {
            std::lock_guard lock(timer_mutex_);
            timer_stop_ = true;
        }
        timer_wake_.notify_all();
        timer_.join();
    }
    g_engine.store(nullptr);
}

bool split(const std::string& text, std::string& name, std::string& value) {
    const size_t eq = text.find('=');
    if (eq == 0 || eq == std::string::npos) return false;
    name = text.substr(0, eq);
    value = text.substr(eq + 1);
    return true;
}

bool parse_number(const std::string& text, tegula::Value& value) {
    if (text == "true" || text == "false") return value = tegula::Value(int64_t{text == "true"}), true;
    const auto read = [&](auto number) {
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        const bool whole = error == std::errc() && end == text.data() + text.size();
        if (whole) value = tegula::Value(number);
        return whole;
    };
    if (read(int64_t{}) || read(uint64_t{})) return true;
    if (text.find_first_not_of("-0123456789") == std::string::npos) return false;  // an integer beyond 64 bits, which a real would round
    double r = 0;
    auto [rend, rerror] = std::from_chars(text.data(), text.data() + text.size(), r);
    if (rerror == std::errc() && rend == text.data() + text.size()) return value = tegula::Value(r), true;
    return false;
}

std::optional<std::vector<tegula::NamedValue>> Session::generics() const {
    std::vector<tegula::NamedValue> out;
    for (const std::string& set : options.sets) {
        std::string name, text;
        if (!split(set, name, text)) return fail(usage, "--set " + set + ": write NAME=VALUE"), std::nullopt;
        tegula::Value value(0);
        if (!parse_number(text, value)) value = tegula::Value(text);
        out.emplace_back(name, value);
    }
    return out;
}

void Session::show(const tegula::Diagnostics& diagnostics) const {
    if (diagnostics.empty()) return;
    erase_progress();
    constexpr size_t kKept = 1 << 16;
    if (said_.size() < kKept) said_ += diagnostics.text(false);
    if (options.json || options.format != "text")
        show_lines(diagnostics.json());
    else
        std::fputs(diagnostics.text(colour_).c_str(), stderr);
}

void Session::show_lines(const std::string& json) const {
    if (options.format == "sarif")
        kept_ += json;
    else if (options.format == "gnu" && !options.json)
        std::fputs(gnu_text(json).c_str(), stderr);
    else
        std::fputs(json.c_str(), stdout);
}

void Session::say(const char* level, const char* colour, const std::string& message) const {
    erase_progress();
    if (options.json || options.format != "text")
        show_lines("{\"schema\":1,\"level\":\"" + std::string(level) + "\",\"code\":\"\",\"message\":" + json_text(message) +
                   ",\"spans\":[],\"notes\":[],\"fixes\":[]}\n");
    else
        std::fprintf(stderr, "%s%s%s: %s\n", colour_ ? colour : "", level, colour_ ? "\033[0m" : "", visible(message).c_str());
}

int Session::fail(Exit code, const std::string& message) const {
    say("error", "\033[1;31m", message);
    return code;
}

void Session::warn(const std::string& message) const { say("warning", "\033[1;33m", message); }

void Session::hint(const std::string& message) const { say("note", "\033[1;36m", message); }

int exit_of(tegula_status status) {
    switch (status) {
        case TEGULA_OK:
            return ok;
        case TEGULA_E_SOURCE:
            return source;
        case TEGULA_E_USAGE:
            return usage;
        case TEGULA_E_ARGUMENTS:
        case TEGULA_E_RUN:
        case TEGULA_E_MISMATCH:
            return run_failed;
        case TEGULA_E_UNAVAILABLE:
            return unavailable;
        case TEGULA_E_IO:
            return io;
        case TEGULA_E_CANCELLED:
            return g_timed_out.load() ? timeout : interrupted;
        default:
            return internal;
    }
}

int Session::exit_code(tegula_status status) const {
    const int code = exit_of(status);
    if (status == TEGULA_E_CANCELLED) note(code == timeout ? kTimedOut : "interrupted");
    return code;
}

bool Session::load(const std::string& path, tegula::Module& module, int& code) const {
    if (path == "-") {
        std::string error;
        auto text = read_file("/dev/stdin", uint64_t{16} << 20, error);
        if (!text) return code = fail(io, error), false;
        auto loaded = engine.load(*text, "<stdin>");
        show(loaded.diagnostics());
        code = exit_code(loaded.status());
        if (loaded) module = loaded.value();
        return static_cast<bool>(loaded);
    }
    auto loaded = engine.load_file(path);
    show(loaded.diagnostics());
    code = exit_code(loaded.status());
    if (loaded) module = loaded.value();
    return static_cast<bool>(loaded);
}

tegula::RunOptions Session::run_options() const {
    tegula::RunOptions run;
    run.machine = options.machine.empty() ? nullptr : options.machine.c_str();
    run.model = options.model.empty() ? nullptr : options.model.c_str();
    run.disable_passes = options.disable_passes.empty() ? nullptr : options.disable_passes.c_str();
    run.checked = options.checked ? 1 : options.checked_native ? 2 : 0;
    run.trap_floats = options.trap_floats;
    run.order_seed = options.seed;
    run.threads = static_cast<uint32_t>(std::min<uint64_t>(options.threads, UINT32_MAX));
    run.step_budget = options.steps.value_or(0);
    run.memory_budget = options.memory;
    run.compile_budget = options.compile_budget;
    // With --json standard output holds objects only.
    run.print =
        options.json ? [](void*, const char* text, size_t size) { print_lines({text, size}, stderr); } : [](void*, const char* text, size_t size) {
            print_lines({text, size}, stdout);
        };
    if (!options.quiet)
        run.progress = [](void*, uint64_t done, uint64_t all) {
            if (all) show_count(done, all);  // 0: statements of a test
            return 0;
        };
    return run;
}

std::string Session::machine_name() const {
    if (!options.machine.empty() && options.machine != "auto") return options.machine;
    if (!options.model.empty()) return "interp";  // only the interpreter has models
    const auto library = nlohmann::json::parse(engine.describe());
    for (const char* name : {"cuda", "cpu"})
        for (const auto& m : library["machines"])
            if (m["name"] == name && m["available"].get<bool>()) return name;
    return "interp";
}

void Session::note(const std::string& line) const {
    if (options.quiet) return;
    erase_progress();
    std::fprintf(stderr, "%s\n", visible(line).c_str());
}

}  // namespace tegula_tool
