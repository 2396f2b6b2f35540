// What is compiled or run for an editor: lenses, artefacts, tests. On the third thread, which has modules of its own.
#include "members.h"
#include "server.h"

namespace tegula_tool::lsp {

using namespace members;

namespace {

/// "30 registers, 2.0 KiB shared, no spills" of the artefact `resources`.
std::string resources_line(const json& r) {
    std::string out;
    const auto add = [&](const std::string& part) { out += (out.empty() ? "" : ", ") + part; };
    const auto number = [&](const char* name) -> int64_t {
        const json& value = member(r, name);
        return value.is_number_integer() ? value.get<int64_t>() : -1;
    };
    if (number("registers") >= 0) add(std::to_string(number("registers")) + " registers");
    if (const int64_t bytes = number("shared_bytes"); bytes >= 0)
        add(bytes % 1024 == 0 ? std::to_string(bytes / 1024) + " KiB shared" : std::to_string(bytes) + " bytes shared");
    if (const int64_t stores = number("spill_store_bytes"), loads = number("spill_load_bytes"); stores >= 0 && loads >= 0)
        add(stores + loads ? std::to_string(std::max(stores, loads)) + " bytes spilled" : "no spills");
    return out;
}

/// "T = f16, BLOCK = 1024" as values.
std::vector<tegula::NamedValue> values_of(std::string_view instance) {
    std::vector<tegula::NamedValue> out;
    while (!instance.empty()) {
        size_t end = 0;
        for (int depth = 0; end < instance.size() && (instance[end] != ',' || depth > 0); ++end)
            depth += instance[end] == '<' || instance[end] == '(' ? 1 : instance[end] == '>' || instance[end] == ')' ? -1 : 0;
        std::string name, value;
        if (split(std::string(instance.substr(0, end)), name, value)) {
            const auto trim = [](std::string& s) {
                s.erase(0, std::min(s.find_first_not_of(' '), s.size()));
                s.erase(s.find_last_not_of(' ') + 1);
            };
            trim(name), trim(value);
            int64_t number = 0;
            const auto [last, error] = std::from_chars(value.data(), value.data() + value.size(), number);
            if (value == "true" || value == "false")
                out.emplace_back(name, value == "true" ? 1 : 0);
            else if (error == std::errc() && last == value.data() + value.size())
                out.emplace_back(name, number);
            else
                out.emplace_back(name, value);
        }
        instance.remove_prefix(std::min(end + 1, instance.size()));
    }
    return out;
}

struct Runs {
    json results = json::array();
    int failed = 0;
};

void note_result(void* user, const tegula_test_result* r) {
    auto& runs = *static_cast<Runs*>(user);
    runs.failed += r->status != TEGULA_OK;
    json one = {{"name", r->name}, {"passed", r->status == TEGULA_OK}, {"seconds", r->seconds}};
    if (r->diags) one["message"] = tegula_diags_text(r->diags, 0);
    if (r->machines) one["machines"] = r->machines;
    runs.results.push_back(std::move(one));
}

}  // namespace

tegula::Module Server::module_of(Document& d) {
    auto module = workspace_.module(d.path);
    if (!module) throw Failure{request_failed, module.diagnostics().text()};
    return std::move(module).value();
}

json Server::lenses(const json& params) {
    Document& d = document(params);
    json out = json::array();
    const json answer = ask("symbols", d.path);
    for (const json& s : answer["symbols"]) {
        const std::string kind = s["kind"], name = s["name"];
        const json range = d.text.range(s["name_begin"], s["name_end"]);
        if (kind == "test" || kind == "bench")
            out.push_back(
                {{"range", range},
                 {"command", {{"title", kind == "test" ? "Run test" : "Run bench"}, {"command", "tegula." + kind}, {"arguments", {d.uri, name}}}}});
        if (kind == "kernel") out.push_back({{"range", range}, {"data", {{"uri", d.uri}, {"kernel", name}}}});
    }
    return out;
}

json Server::resolve_lens(const json& params) {
    const json& data = member(params, "data");
    if (!params.is_object() || !data.is_object()) throw Failure{invalid_params, "the lens is none of this server"};
    json lens = params;
    const auto show = [](json lens, const std::string& title) {
        lens["command"] = {{"title", title}, {"command", ""}};
        return lens;
    };
    tegula::Module module;
    std::string instance;
    try {
        Document& d = document({{"textDocument", {{"uri", text_at(data, "uri")}}}});
        module = module_of(d);
        const json found = ask("hover", d.path, place(d, member(params, "range"), "start"))["found"];
        instance = text_at(found, "instance");
    } catch (const Failure&) {
        return show(std::move(lens), "has errors");
    }
    later(
        [=, kernel = text_at(data, "kernel"), arch = arch_]() mutable {
            const std::string of = arch + (instance.empty() ? "" : ", " + instance) + ": ";
            auto compiled = module.compile(kernel, values_of(instance));
            if (!compiled) return show(std::move(lens), "only a launch says which instance");
            auto resources = compiled.value().artifact("resources@" + arch);
            if (!resources) return show(std::move(lens), of + "not compiled here");
            return show(std::move(lens), of + resources_line(json::parse(resources.value(), nullptr, false)));
        },
        true);
    return nullptr;
}

/// tegula/artifact {textDocument, kernel, set: {NAME: VALUE}, kind} -> {text, lineMap}: lineMap has for each line of the text the line of the source
/// that it comes from, or null.
json Server::artifact(const json& params) {
    Document& d = document(params);
    tegula::Module module = module_of(d);
    const std::string kernel = text_at(params, "kernel"), kind = text_at(params, "kind").empty() ? "ir" : text_at(params, "kind");
    std::vector<tegula::NamedValue> generics;
    const json set = member(params, "set").is_object() ? params["set"] : json::object();
    for (const auto& [name, value] : set.items()) {
        if (value.is_number_integer())
            generics.emplace_back(name, value.get<int64_t>());
        else if (value.is_number())
            generics.emplace_back(name, value.get<double>());
        else if (value.is_string())
            generics.emplace_back(name, tegula::Value(value.get<std::string>()));
    }
    later([=]() mutable -> json {
        auto compiled = module.compile(kernel, generics);
        if (!compiled) throw Failure{request_failed, compiled.diagnostics().text()};
        auto text = compiled.value().artifact(kind);
        if (!text) throw Failure{request_failed, text.diagnostics().text()};
        json lines = json::array();
        int64_t line = -1;
        const std::string& all = text.value();
        for (size_t at = 0; at < all.size();) {
            const size_t end = std::min(all.find('\n', at), all.size());
            const std::string_view one = std::string_view(all).substr(at, end - at);
            constexpr std::string_view kMark = "#line ";
            if (const size_t mark = one.find(kMark); mark != one.npos) {
                const std::string_view number = one.substr(mark + kMark.size());
                if (std::from_chars(number.data(), number.data() + number.size(), line).ec == std::errc()) --line;
            }
            lines.push_back(line < 0 ? json(nullptr) : json(line));
            at = end + 1;
        }
        return {{"text", all}, {"lineMap", std::move(lines)}};
    });
    return nullptr;
}

namespace {

/// What an access or a change of layout could do better, of an explanation's note; empty: nothing. `threads`: of a program.
std::string cost_of(const json& note, int64_t threads) {
    constexpr int64_t kWidest = 128;  // bits of one access
    const auto number = [](const json& of, const char* name) {
        const json& value = member(of, name);
        return value.is_number_integer() ? value.get<int64_t>() : int64_t{0};
    };
    if (text_at(note, "kind") == "conversion") {
        const int64_t times = std::max(number(member(note, "written"), "bank_accesses"), number(member(note, "read"), "bank_accesses"));
        return times > 1 ? "bank conflicts: up to " + std::to_string(times) + " accesses of shared memory instead of one" : "";
    }
    const json& elements = member(note, "elements");
    if (text_at(note, "kind") != "access" || !elements.is_object()) return {};
    const int64_t bits = number(elements, "access_bits"), count = std::max<int64_t>(number(elements, "elements"), 1);
    int64_t all = 1;
    for (const json& extent : list_at(note, "tile")) all *= extent.is_number_integer() ? extent.get<int64_t>() : 1;
    const std::string what = text_at(note, "op") + " of `" + text_at(note, "tensor") + "`: ";
    if (member(elements, "whole_sectors") == json(false)) return what + "parts of sectors are moved for nothing";
    const bool could = bits > 0 && threads > 0 && all / threads >= kWidest * count / bits;  // each thread has as many elements
    return bits < kWidest && could ? what + std::to_string(bits / 8) + " of 16 bytes per access" : "";
}

}  // namespace

/// Compiles the kernels of a text without mistakes, in the instances whose types are shown, and says what their accesses cost on `arch`.
void Server::find_notes(Document& d) {
    constexpr size_t kMost = 50;  // kernels
    std::vector<std::pair<std::string, std::string>> kernels;
    const json answer = ask("symbols", d.path);
    for (const json& s : answer["symbols"]) {
        if (s["kind"] != "kernel") continue;
        const json found = ask("hover", d.path, s["name_begin"])["found"];
        kernels.emplace_back(s["name"], text_at(found, "instance"));
    }
    if (kernels.empty() || kernels.size() > kMost) return;
    tegula::Module module = module_of(d);
    const auto work = [=, this, uri = d.uri, path = d.path, edits = d.edits, text = d.text, arch = arch_]() mutable {
        json notes = json::array();
        for (const auto& [kernel, instance] : kernels) {
            auto compiled = module.compile(kernel, values_of(instance));
            if (!compiled) continue;
            auto explained = compiled.value().artifact("explain-json@" + arch);
            if (!explained) continue;
            const json all = json::parse(explained.value(), nullptr, false);
            int64_t threads = 0;
            for (const json& note : list_at(all, "notes")) {
                if (member(note, "threads").is_number_integer()) threads = note["threads"];
                const std::string cost = cost_of(note, threads);
                const json& span = member(note, "span");
                if (cost.empty() || text_at(span, "file") != path) continue;
                notes.push_back({{"range", text.range(span["begin"], span["end"])},
                                 {"severity", 4},
                                 {"code", "cost"},
                                 {"source", "tegula"},
                                 {"message", cost + " on " + arch + (instance.empty() ? "" : " with " + instance)}});
            }
        }
        const std::lock_guard lock(mutex_);
        returned_.push_back([this, uri, edits, notes = std::move(notes)] { take_notes(uri, edits, notes); });
        wake_.notify_all();
    };
    const std::lock_guard lock(tasks_mutex_);
    tasks_.push_back({nullptr, nullptr, nullptr, true, work});
    tasks_wake_.notify_all();
}

void Server::take_notes(const std::string& uri, uint64_t edits, json notes) {
    const auto it = documents_.find(uri);
    if (it == documents_.end() || it->second.edits != edits || it->second.found.is_null()) return;
    it->second.notes = std::move(notes);
    publish(it->second, it->second.tried);
}

json Server::execute(const json& params) {
    const std::string command = text_at(params, "command");
    if (command != "tegula.test" && command != "tegula.bench") throw Failure{invalid_params, "the commands are tegula.test and tegula.bench"};
    const json& arguments = list_at(params, "arguments");
    if (arguments.empty() || !arguments[0].is_string()) throw Failure{invalid_params, "the arguments are a URI and the name of a block"};
    tegula::Module module = module_of(document({{"textDocument", {{"uri", arguments[0]}}}}));
    const std::string name = arguments.size() > 1 && arguments[1].is_string() ? arguments[1].get<std::string>() : std::string();
    later([=, this, bench = command == "tegula.bench"]() mutable -> json {
        Runs runs;
        tegula::RunOptions options = session_.run_options();
        options.checked = !bench;
        constexpr uint64_t kMostSteps = 1'000'000'000;
        options.step_budget = kMostSteps;
        tegula::Ref<tegula_diags> diags;
        const tegula_status status =
            (bench ? tegula_bench : tegula_test)(module.c(), name.empty() ? nullptr : name.c_str(), &options, note_result, &runs, diags.out());
        std::string text;
        for (const json& r : runs.results)
            text += std::string(r["passed"].get<bool>() ? "ok   " : "FAIL ") + r["name"].get<std::string>() +
                    (r.contains("message") ? "\n" + r["message"].get<std::string>() : "") + "\n";
        if (status != TEGULA_OK && diags.get()) text += tegula_diags_text(diags.get(), 0);
        const bool good = status == TEGULA_OK && runs.failed == 0;
        transport_.notify("window/logMessage", {{"type", good ? 3 : 1}, {"message", text}});
        transport_.notify("window/showMessage", {{"type", good ? 3 : 1},
                                                 {"message", std::to_string(runs.results.size() - static_cast<size_t>(runs.failed)) + " passed, " +
                                                                 std::to_string(runs.failed) + " failed"}});
        return {{"results", std::move(runs.results)}, {"passed", good}};
    });
    return nullptr;
}

}  // namespace tegula_tool::lsp
