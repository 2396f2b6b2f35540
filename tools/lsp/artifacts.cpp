// What is compiled for an editor: lenses, artefacts, what accesses cost. By the pool, on modules of its own.
#include <charconv>

#include "instances.h"
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
    const std::string kernel = text_at(data, "kernel");
    try {
        Document& d = document(data);
        if (!d.has_module) d.module = module_of(d), d.has_module = true;
        module = d.module;
        instance = text_at(ask("hover", d.path, place(d, member(params, "range"), "start"))["found"], "instance");
    } catch (const Failure& failure) {
        if (failure.code == request_cancelled) throw;
        return show(std::move(lens), "has errors");
    }
    later(
        [=, arch = arch_](Job&) mutable {
            const std::string of = arch + (instance.empty() ? "" : ", " + instance) + ": ";
            auto compiled = module.compile(kernel, values_of(instance));
            if (!compiled) return show(std::move(lens), "only a launch says which instance");
            auto resources = compiled.value().artifact("resources@" + arch);
            if (!resources) return show(std::move(lens), of + "not compiled here");
            return show(std::move(lens), of + resources_line(json::parse(resources.value(), nullptr, false)));
        },
        {.of_text = true});
    return nullptr;
}

/// The instance of a kernel of the file that editors show the types of; empty: it is none, or has no generics.
std::string Server::instance_of(Document& d, const std::string& kernel) {
    const json answer = ask("symbols", d.path);
    for (const json& s : answer["symbols"])
        if (s["kind"] == "kernel" && s["name"] == kernel) return text_at(ask("hover", d.path, s["name_begin"])["found"], "instance");
    return {};
}

namespace {

/// For each line of a text with `#line N "FILE"` directives the line of `path` that it comes from, counted from 0, or null.
json lines_of_directives(std::string_view text, const std::string& path) {
    json lines = json::array();
    int64_t line = -1;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view one = text.substr(at, end - at);
        constexpr std::string_view kMark = "#line ";
        if (const size_t mark = one.find(kMark); mark != one.npos) {
            const std::string_view number = one.substr(mark + kMark.size());
            const bool here = one.find("\"" + path + "\"") != one.npos;
            if (!here || std::from_chars(number.data(), number.data() + number.size(), line).ec != std::errc()) line = 0;
            --line;
        }
        lines.push_back(line < 0 ? json(nullptr) : json(line));
        at = end + 1;
    }
    return lines;
}

/// The places of a stage's lines, of the picture of the source; of PTX its text as well, which has no others.
void take_listing(const json& picture, const std::string& stage, json& out) {
    for (const json& figure : list_at(picture, "figures")) {
        if (text_at(figure, "title") != stage) continue;
        std::string text;
        json lines = json::array();
        for (const json& line : list_at(figure, "lines")) text += line.get<std::string>() + "\n";
        for (const json& place : list_at(figure, "places")) {
            int64_t line = 0;
            const std::string at = place.get<std::string>();
            const auto [end, error] = std::from_chars(at.data(), at.data() + at.size(), line);
            lines.push_back(error == std::errc() && end == at.data() + at.size() && line > 0 ? json(line - 1) : json(nullptr));
        }
        if (stage == "ptx") out["text"] = text;
        if (out["text"] == text) out["lineMap"] = std::move(lines);
    }
}

}  // namespace

/// tegula/artifact {uri, kernel, set: {NAME: VALUE}, kind} -> {text, lineMap}: lineMap has for each line of the text the line of the source that it
/// comes from, counted from 0, or null.
json Server::artifact(const json& params) {
    Document& d = document(params);
    tegula::Module module = module_of(d);
    const std::string kernel = text_at(params, "kernel"), kind = text_at(params, "kind").empty() ? "ir" : text_at(params, "kind");
    auto generics = values_of(member(params, "set"), instance_of(d, kernel));
    later([=, path = d.path, arch = arch_](Job&) mutable -> json {
        auto compiled = module.compile(kernel, generics);
        if (!compiled) throw Failure{request_failed, compiled.diagnostics().text()};
        auto text = compiled.value().artifact(kind);
        if (!text) throw Failure{request_failed, text.diagnostics().text()};
        json out = {{"text", text.value()}, {"lineMap", lines_of_directives(text.value(), path)}};
        const size_t at = std::min(kind.find('@'), kind.size());
        if (const std::string stage = kind.substr(0, at); !stage.starts_with("cuda"))
            if (auto model = compiled.value().artifact("picture:source" + (at < kind.size() ? kind.substr(at) : "@" + arch) + ":" + stage))
                take_listing(json::parse(model.value(), nullptr, false), stage, out);
        return out;
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
    const auto work = [=, this, uri = d.uri, path = d.path, edits = d.edits, text = d.text, arch = arch_](Job& job) mutable -> json {
        json notes = json::array();
        for (const auto& [kernel, instance] : kernels) {
            if (job.ended()) return nullptr;
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
        return nullptr;
    };
    (void)pool_.add({std::make_shared<Job>(transport_, json(json::value_t::discarded), nullptr), work, {.of_text = true}});
}

void Server::take_notes(const std::string& uri, uint64_t edits, json notes) {
    const auto it = documents_.find(uri);
    if (it == documents_.end() || it->second.edits != edits || it->second.found.is_null()) return;
    it->second.notes = std::move(notes);
    publish(it->second, it->second.tried);
    refresh();
}

}  // namespace tegula_tool::lsp
