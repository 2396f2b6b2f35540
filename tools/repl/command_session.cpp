// Commands about the session: its variables, items and settings, files, what is installed. See commands.h.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "commands.h"
#include "tools/files.h"

namespace tegula_tool::repl {

namespace {

/// `~` and `~/..` as a shell reads them.
std::string path_of(const std::string& text) {
    const char* home = std::getenv("HOME");
    if (!home || !(text == "~" || text.starts_with("~/"))) return text;
    return home + text.substr(1);
}

struct Count {
    const char* name;
    uint64_t Settings::*member;
    const char* unset;  ///< what 0 means
};
constexpr Count kCounts[] = {
    {"print.digits", &Settings::digits, "as many as are needed"},
    {"print.edge", &Settings::edge, nullptr},
    {"print.threshold", &Settings::threshold, nullptr},
    {"threads", &Settings::threads, "all cores"},
    {"seed", &Settings::seed, "programs in order"},
    {"steps", &Settings::steps, "no budget"},
    {"memory", &Settings::memory, "no budget"},
};

int choose(Core& core, std::string& setting, const std::string& name, const std::string& value, std::string_view known, const char* none) {
    const auto words = words_of(known);
    if (!value.empty() && std::ranges::find(words, value) == words.end()) {
        std::string all;
        for (const std::string_view word : words) all += (all.empty() ? "" : ", ") + std::string(word);
        return core.fail(usage, "`" + value + "` is none of " + all + did_you_mean(value, words));
    }
    if (!value.empty()) setting = value == "none" ? "" : value;
    core.say(name + " is " + (setting.empty() ? none : setting));
    return ok;
}

}  // namespace

int show_variables(Core& core, const std::string&) {
    int code = ok;
    const auto answer = core.ask("variables", {}, code);
    if (!answer) return code;
    std::vector<std::vector<std::string>> rows;
    for (const Json& v : (*answer)["variables"]) {
        if (v["automatic"].get<bool>() && v["name"] != "ans") continue;
        std::string what = v.contains("bytes") ? bytes_text(v["bytes"]) : "";
        if (v.contains("text") && (v["kind"] != "tensor" || v["extents"].empty())) what = v["text"].get<std::string>();
        if (v.contains("written") && !v["written"].get<bool>()) what += ", not all of it is written";
        rows.push_back({v["name"], v["mutable"].get<bool>() ? "var" : "", v["type"],
                        v.contains("input") ? "[" + std::to_string(v["input"].get<uint64_t>()) + "]" : "", what});
    }
    core.say(rows.empty() ? "no variables" : table_text(rows));
    return ok;
}

int show_items(Core& core, const std::string&) {
    int code = ok;
    const auto answer = core.ask("items", {}, code);
    if (!answer) return code;
    std::vector<std::vector<std::string>> rows;
    for (const Json& item : (*answer)["items"]) rows.push_back({"[" + std::to_string(item["input"].get<uint64_t>()) + "]", item["signature"]});
    core.say(rows.empty() ? "no items" : table_text(rows));
    return ok;
}

std::string signature_of(const Json& found) {
    const std::string type = found["type"];
    return (type.empty() || std::string("<([").find(type[0]) == std::string::npos ? "" : found["name"].get<std::string>()) + type;
}

int show_documentation(Core& core, const std::string& name) {
    if (name.empty()) return core.fail(usage, ":doc needs a name");
    std::string problem;
    if (name.starts_with(':')) return show_help(core, name);
    int code = ok;
    const auto answer = core.ask("inspect", name, code, name.size());
    if (!answer) return code;
    const Json& found = (*answer)["found"];
    if (found.is_null()) {
        std::vector<std::string> names = core.names("");
        const std::vector<std::string_view> views(names.begin(), names.end());
        return core.fail(usage, "nothing is known of `" + name + "`" + did_you_mean(name, views));
    }
    std::string out = found["kind"].get<std::string>() + " " + found["name"].get<std::string>();
    if (const std::string module = found.value("module", ""); !module.empty()) out += "  of " + module;
    if (const std::string text = signature_of(found); !text.empty()) out += "\n" + text;
    if (const std::string doc = found["doc"]; !doc.empty()) out += "\n" + doc;
    if (found.contains("at"))
        out += "\nsee " + found["at"]["name"].get<std::string>() + ":" + std::to_string(found["at"]["line"].get<int64_t>()) + ":" +
               std::to_string(found["at"]["column"].get<int64_t>());
    core.say(out);
    return ok;
}

int show_history(Core& core, const std::string&) {
    int code = ok;
    const auto answer = core.ask("history", {}, code);
    if (!answer) return code;
    std::string out;
    for (const Json& input : (*answer)["inputs"]) {
        const std::string number = "[" + std::to_string(input["input"].get<uint64_t>()) + "] ";
        out += number;
        for (const char c : input["text"].get<std::string>()) out += c == '\n' ? "\n" + std::string(number.size(), ' ') : std::string(1, c);
        out += input["status"] == "ok" ? "\n" : "    (" + input["status"].get<std::string>() + ")\n";
    }
    core.say(out.empty() ? "no inputs" : out);
    return ok;
}

int show_error(Core& core, const std::string&) {
    if (core.last_diagnostics().empty()) return core.say("no diagnostics so far"), ok;
    std::string out;
    for (const Json& d : core.last_diagnostics()) {
        out += d.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
        const std::string code = d.value("code", "");
        if (const char* text = code.empty() ? nullptr : tegula_explain(code.c_str())) out += code + ": " + text + "\n";
    }
    core.say(out);
    return ok;
}

int show_doctor(Core& core, const std::string&) { return core.say(doctor_text(core.tool().engine)), ok; }

int show_cache(Core& core, const std::string& task) {
    auto text = core.tool().engine.cache(task.empty() ? "stats" : task);
    const int code = core.show(text.diagnostics(), text.status());
    if (text) core.say(cache_text(task.empty() ? "stats" : task, text.value()));
    return code;
}

int undo(Core& core, const std::string&) {
    int code = ok;
    const auto answer = core.ask("undo", {}, code);
    if (!answer) return code;
    core.say((*answer)["undone"].is_null() ? "there is nothing to take back"
                                           : "input " + std::to_string((*answer)["undone"].get<uint64_t>()) + " is taken back");
    return ok;
}

int reset(Core& core, const std::string&) {
    int code = ok;
    if (core.ask("reset", {}, code)) core.forget_files();
    return code;
}

int load_file(Core& core, const std::string& path) { return path.empty() ? core.fail(usage, ":load needs a file") : core.load(path_of(path)); }

int reload_files(Core& core, const std::string&) {
    if (core.loaded().empty()) return core.fail(usage, "no file has been loaded");
    int code = ok;
    for (const std::string& path : std::vector<std::string>(core.loaded()))
        if (const int one = core.load(path); one != ok) code = one;
    return code;
}

int watch_file(Core& core, const std::string& path) {
    if (path.empty()) return core.fail(usage, ":watch needs a file");
    core.watch(path_of(path));
    return core.load(path_of(path));
}

int save_file(Core& core, const std::string& operand) {
    if (operand.empty()) return core.fail(usage, ":save needs a file");
    int code = ok;
    const auto answer = core.ask("items", {}, code);
    if (!answer) return code;
    std::string error;
    const std::string path = path_of(operand), text = (*answer)["text"];
    if (!write_file(path, text, error)) return core.fail(io, error);
    core.say(path + ": " + std::to_string((*answer)["items"].size()) + " items");
    return ok;
}

int change_folder(Core& core, const std::string& folder) {
    const std::string path = folder.empty() ? path_of("~") : path_of(folder);
    if (::chdir(path.c_str()) != 0) return core.fail(io, path + ": " + system_error(errno));
    char* now = ::getcwd(nullptr, 0);
    core.say(now ? now : path);
    std::free(now);
    return ok;
}

int set_machine(Core& core, const std::string& name) {
    if (name == "cuda" || name == "cpu") {
        const Json library = Json::parse(core.tool().engine.describe());
        for (const Json& m : library["machines"])
            if (m["name"] == name && !m["available"].get<bool>())
                return core.fail(unavailable,
                                 "the machine `" + name + "` is not here" + (m.value("problem", "").empty() ? "" : ": " + m.value("problem", "")));
    }
    std::string setting = core.settings().machine == "auto" ? "" : core.settings().machine;
    const int code = choose(core, setting, "machine", name, "interp cpu cuda auto", core.machine_name().c_str());
    core.settings().machine = setting == "auto" ? "" : setting;
    return code;
}

int set_model(Core& core, const std::string& name) {
    return choose(core, core.settings().model, "model", name, "none sm_75 sm_80 sm_86 sm_89 sm_90a sm_100a sm_120a", "none");
}

int set_checked(Core& core, const std::string& how) { return choose(core, core.settings().checked, "checked", how, "on native off", "off"); }

int set_setting(Core& core, const std::string& operands) {
    const std::vector<std::string> words = words_in(operands);
    if (words.size() == 2 && words[0] == "machine") return set_machine(core, words[1]);
    if (words.size() == 2 && words[0] == "model") return set_model(core, words[1]);
    if (words.size() == 2 && words[0] == "checked") return set_checked(core, words[1]);
    std::vector<std::vector<std::string>> rows;
    std::vector<std::string_view> names;
    for (const Count& c : kCounts) {
        uint64_t& setting = core.settings().*c.member;
        names.push_back(c.name);
        if (!words.empty() && words[0] != c.name) continue;
        if (words.size() > 2) return core.fail(usage, ":set takes a name and a number");
        if (words.size() == 2) {
            uint64_t value = 0;
            const auto [end, error] = std::from_chars(words[1].data(), words[1].data() + words[1].size(), value);
            if (error != std::errc() || end != words[1].data() + words[1].size() || value > INT64_MAX)
                return core.fail(usage, std::string(c.name) + " is a whole number from 0 up, not `" + words[1] + "`");
            if (!value && !c.unset) return core.fail(usage, std::string(c.name) + " is at least 1");
            setting = value;
        }
        rows.push_back({c.name, setting || !c.unset ? std::to_string(setting) : c.unset});
    }
    if (rows.empty()) return core.fail(usage, "there is no setting `" + words[0] + "`" + did_you_mean(words[0], names));
    if (words.empty()) {
        rows.push_back({"machine", core.machine_name()});
        rows.push_back({"model", core.settings().model.empty() ? "none" : core.settings().model});
        rows.push_back({"checked", core.settings().checked});
    }
    core.say(table_text(rows));
    return ok;
}

}  // namespace tegula_tool::repl
