// See core.h.
#include "core.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>

#include "commands.h"
#include "prompts.h"
#include "tools/files.h"
#include "tools/terminal.h"

namespace tegula_tool::repl {

namespace {

constexpr const char* kStatus[] = {"ok", "failed", "cancelled"};

}  // namespace

int64_t changed_at(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 ? info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec : -1;
}

int64_t now() { return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

Core::Core(Session& tool) : tool_(tool), session_(tool.engine.session(".").value()) {
    const Options& o = tool.options;
    settings_.machine = o.machine;
    settings_.model = o.model;
    settings_.checked = o.checked ? "on" : o.checked_native ? "native" : "off";
    settings_.colour = wants_colour(o.json && o.colour == "auto" ? "never" : o.colour, 1);
    settings_.threads = o.threads;
    settings_.seed = o.seed;
    settings_.steps = o.steps.value_or(0);
    settings_.memory = o.memory;
}

void Core::interrupt() {
    session_.cancel();
    tool_.engine.cancel();
}

void Core::event(Json event) {
    const std::lock_guard lock(hear_mutex_);
    if (hear_) (*hear_)(std::move(event));
}

void Core::say(const std::string& text) {
    if (!text.empty()) event({{"event", "print"}, {"of", "command"}, {"text", text.ends_with('\n') ? text : text + "\n"}});
}

int Core::fail(Exit code, const std::string& message) {
    last_ = Json::array();
    report("error", message);
    return code;
}

void Core::report(const std::string& level, const std::string& message) {
    const Json d = {{"schema", 1},           {"level", level},         {"code", ""},
                    {"message", message},    {"spans", Json::array()}, {"notes", Json::array()},
                    {"fixes", Json::array()}};
    last_.push_back(d);
    const bool colour = style().colour;
    const char* begin = !colour ? "" : level == "error" ? "\033[1;31m" : "\033[1m";
    event({{"event", "diagnostic"}, {"diagnostic", d}, {"text", begin + level + (colour ? "\033[0m" : "") + ": " + visible(message, true) + "\n"}});
}

int Core::show(const tegula::Diagnostics& diagnostics, tegula_status status) {
    if (!diagnostics.empty()) {
        last_ = Json::array();
        std::string text = diagnostics.text(style().colour);
        const std::string lines = diagnostics.json();
        for (size_t at = 0; at < lines.size();) {
            const size_t end = std::min(lines.find('\n', at), lines.size());
            Json d = Json::parse(lines.begin() + static_cast<ptrdiff_t>(at), lines.begin() + static_cast<ptrdiff_t>(end), nullptr, false);
            at = end + 1;
            if (d.is_discarded()) continue;
            last_.push_back(d);
            event({{"event", "diagnostic"}, {"diagnostic", std::move(d)}, {"text", std::move(text)}});
            text.clear();  // the first one brings the text of all
        }
    }
    return exit_of(status);
}

Style Core::style() const {
    Style s;
    s.width = width_;
    s.colour = settings_.colour;
    s.digits = settings_.digits;
    s.edge = static_cast<int64_t>(settings_.edge);
    s.threshold = static_cast<int64_t>(settings_.threshold);
    return s;
}

tegula::RunOptions Core::run_options() {
    tegula::RunOptions run = tool_.run_options();
    run.machine = settings_.machine.empty() ? nullptr : settings_.machine.c_str();
    run.model = settings_.model.empty() ? nullptr : settings_.model.c_str();
    run.checked = settings_.checked == "on" ? 1 : settings_.checked == "native" ? 2 : 0;
    run.order_seed = settings_.seed;
    run.threads = static_cast<uint32_t>(std::min<uint64_t>(settings_.threads, UINT32_MAX));
    run.step_budget = settings_.steps;
    run.memory_budget = settings_.memory;
    run.user = this;
    run.print = [](void* user, const char* text, size_t size) {
        static_cast<Core*>(user)->event({{"event", "print"}, {"text", std::string(text, size)}});
    };
    run.progress = [](void* user, uint64_t done, uint64_t all) {
        if (all) static_cast<Core*>(user)->event({{"event", "progress"}, {"done", done}, {"all", all}});
        return 0;
    };
    return run;
}

std::string Core::machine_name() {
    if (!settings_.machine.empty() && settings_.machine != "auto") return settings_.machine;
    if (!settings_.model.empty()) return "interp";
    if (machine_.empty()) machine_ = tool_.machine_name();
    return machine_;
}

void Core::value(const Json& value, double seconds, const Style& style, const std::string& name) {
    std::string suffix;
    if (seconds > 0) suffix = "  " + machine_name() + " " + decimal(seconds * 1e3, 3) + " ms";
    Json e = {{"event", "value"}, {"value", value}, {"text", value_block(value, style, suffix)}};
    if (!name.empty()) e["name"] = name;
    event(std::move(e));
}

int Core::evaluate(const std::string& text, const std::string& name) {
    const uint64_t number = next_++;
    auto answer = session_.eval(text, run_options(), name.empty() ? "[" + std::to_string(number) + "]" : name);
    const int code = show(answer.diagnostics(), answer.status());
    if (!answer) return code;
    Json json = Json::parse(answer.value());
    next_ = json["input"].get<uint64_t>() + 1;
    for (const Json& item : json["items"])
        if (item["replaced"].get<bool>())
            say(item["kind"].get<std::string>() + " " + item["name"].get<std::string>() + " replaced (input " +
                std::to_string(item["former"].get<uint64_t>()) + ")");
    if (!json["value"].is_null()) value(json["value"], json["launch_seconds"], style(), "_" + std::to_string(json["input"].get<uint64_t>()));
    result_ = std::move(json);
    result_.erase("value");
    return code;
}

std::optional<Json> Core::ask(const std::string& verb, const std::string& text, int& code, size_t at) {
    auto answer = session_.ask(verb, text, at);
    code = show(answer.diagnostics(), answer.status());
    if (!answer) return std::nullopt;
    return Json::parse(answer.value());
}

std::optional<Json> Core::look(const std::string& text, int& code) {
    auto answer = session_.show(text, run_options(), "[" + std::to_string(next_) + "]");
    code = show(answer.diagnostics(), answer.status());
    if (!answer) return std::nullopt;
    return Json::parse(answer.value());
}

tegula::Module Core::module(int& code) {
    auto module = session_.module();
    code = show(module.diagnostics(), module.status());
    return module ? module.value() : tegula::Module();
}

std::vector<std::string> Core::names(std::string_view kind) {
    std::vector<std::string> out;
    auto answer = session_.ask("items");
    if (!answer) return out;
    const Json json = Json::parse(answer.value());
    for (const Json& item : json["items"])
        if (kind.empty() || item["kind"] == kind) out.push_back(item["name"]);
    return out;
}

int Core::load(const std::string& path) {
    std::string error;
    if (const auto it = watched_.find(path); it != watched_.end()) it->second = changed_at(path);  // before it is read: later changes are seen
    const auto text = read_file(path, kMostFile, error);
    if (!text) return fail(io, error);
    const int code = evaluate(*text, path);
    if (code == ok && std::ranges::find(loaded_, path) == loaded_.end()) loaded_.push_back(path);
    return code;
}

void Core::watch(const std::string& path) { watched_[path] = changed_at(path); }

void Core::reload_changed() {
    for (auto& [path, time] : watched_) {
        const int64_t now = changed_at(path);
        if (now < 0 || now == time) continue;
        say(path + " has changed");
        reloaded_.push_back({{"path", path}, {"good", load(path) == ok}});
    }
}

/// An input that is wrong may be a command whose colon is missing. Words that begin items are none.
void Core::note_colon(std::string_view input) {
    constexpr std::string_view kItems[] = {"type", "layout", "test", "bench", "import"};
    const auto in_word = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
    std::string_view word = input.substr(std::min(input.find_first_not_of(" \t\n"), input.size()));
    word = word.substr(0, static_cast<size_t>(std::ranges::find_if_not(word, in_word) - word.begin()));
    if (word == "exit") word = "quit";
    const bool is_name = std::ranges::any_of(commands(), [&](const Command& c) { return c.name == word; });
    if (is_name && std::ranges::find(kItems, word) == std::end(kItems))
        report("note", "commands begin with a colon: `:" + std::string(word) + "`; `:help` lists them");
}

Json Core::is_complete(const std::string& given) {
    const std::string text = inputs_of(given).back();
    const std::string_view rest = command_operand(text);
    if (is_command(text) && rest.empty()) return {{"schema", 1}, {"state", "complete"}, {"indent", 0}};
    auto answer = session_.ask("is_complete", is_command(text) ? rest : std::string_view(text));
    if (!answer) return {{"schema", 1}, {"state", "invalid"}, {"indent", 0}};
    Json out = Json::parse(answer.value());
    // Words may stand behind the expression of a command, so that nothing but an open bracket keeps it open.
    if (is_command(text) && out["indent"] == 0) out["state"] = "complete";
    return out;
}

Json Core::complete(const std::string& text, size_t at) {
    if (is_command(text)) {
        const Json own = complete_command(*this, text, at);
        if (!own.is_null()) return own;
        const std::string_view rest = command_operand(text);
        const size_t begin = text.size() - rest.size();
        if (rest.empty() || at < begin) return {{"schema", 1}, {"begin", at}, {"end", at}, {"candidates", Json::array()}};
        auto answer = session_.ask("complete", rest, at - begin);
        if (!answer) return nullptr;
        Json out = Json::parse(answer.value());
        for (const char* key : {"begin", "end"}) out[key] = out[key].get<size_t>() + begin;
        return out;
    }
    auto answer = session_.ask("complete", text, at);
    return answer ? Json::parse(answer.value()) : Json();
}

int Core::answer(const std::string& op, const Json& request) {
    const auto text_of = [&](const char* key) {
        return request.contains(key) && request[key].is_string() ? request[key].get<std::string>() : std::string();
    };
    std::string text = text_of("text");
    const size_t at = request.contains("pos") && request["pos"].is_number_unsigned() ? request["pos"].get<size_t>() : text.size();
    int code = ok;
    if (op == "eval") {
        reload_changed();
        for (const std::string& input : inputs_of(text))
            if (!is_blank(input) && code == ok) {
                code = is_command(input) ? run_command(*this, input) : evaluate(input);
                if (code == source && !is_command(input)) note_colon(input);
            }
        return code;
    }
    if (at > text.size())
        return fail(usage, "the position is " + std::to_string(at) + ", behind the text's " + std::to_string(text.size()) + " bytes");
    if (op == "is_complete") {
        result_ = is_complete(text);
    } else if (op == "complete") {
        result_ = complete(text, at);
    } else if (op == "inspect" || op == "tokens") {
        if (is_command(text)) return ok;
        if (auto found = ask(op, text, code, at)) result_ = std::move(*found);
    } else if (op == "vars") {
        if (auto found = ask("variables", {}, code)) result_ = std::move(*found);
    } else if (op == "history" || op == "items") {
        if (auto found = ask(op, {}, code)) result_ = std::move(*found);
    } else if (op == "reset") {
        if (ask("reset", {}, code)) forget_files();
    } else if (op != "interrupt") {  // which came when nothing ran
        return fail(usage, "there is no op `" + op + "`: eval, complete, inspect, is_complete, tokens, vars, items, history, reset or interrupt");
    }
    return code;
}

Json Core::request(const Json& request, const Hear& hear) {
    hear_ = &hear;
    result_ = nullptr;
    reloaded_ = Json::array();
    if (request.contains("width") && request["width"].is_number_unsigned()) width_ = std::clamp<size_t>(request["width"].get<size_t>(), 20, 1000);
    int code = ok;
    try {
        const bool good = request.is_object() && request.contains("op") && request["op"].is_string();
        code = good ? answer(request["op"].get<std::string>(), request) : fail(usage, "a request is an object with an `op`");
    } catch (const std::exception& e) {
        code = fail(internal, std::string("internal error: ") + e.what());
    }
    Json done = {{"event", "done"}, {"status", kStatus[code == ok ? 0 : code == interrupted ? 2 : 1]}, {"code", code}, {"next", next_}};
    if (!reloaded_.empty()) done["reloaded"] = std::move(reloaded_);
    for (const auto& [path, time] : watched_) done["watched"].push_back({{"path", path}, {"changed", time}});
    Json told = done;
    if (!result_.is_null()) told["result"] = std::move(result_);
    event(std::move(told));
    session_.cancel(false);
    tool_.engine.cancel(false);
    hear_ = nullptr;
    return done;
}

}  // namespace tegula_tool::repl
