// Commands about kernels: what the compiler makes of them, tests, benches and times. See commands.h.
#include <algorithm>
#include <charconv>
#include <chrono>

#include "commands.h"
#include "tools/files.h"
#include "tools/terminal.h"
#include "tools/viz/viz.h"

namespace tegula_tool::repl {

namespace {

/// What stands behind a command about a kernel: K [WORD] [-s NAME=VALUE].. [@ARCH], in any order but for K.
struct Asked {
    std::string kernel, word, arch;
    std::vector<tegula::NamedValue> generics;
};

/// Empty: `asked` says what is meant.
std::string read_asked(Core& core, const std::string& operands, bool takes_word, Asked& asked) {
    const std::vector<std::string> words = words_in(operands);
    for (size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i];
        if (word.starts_with("-s") || word == "--set") {
            std::string set = word.size() > 2 && word != "--set" ? word.substr(2 + (word[2] == '=')) : i + 1 < words.size() ? words[++i] : "";
            std::string name, text;
            if (!split(set, name, text)) return word + " " + set + ": write -s NAME=VALUE";
            tegula::Value value(0);
            if (!parse_number(text, value)) value = tegula::Value(text);
            asked.generics.emplace_back(name, value);
        } else if (word.starts_with('@')) {
            asked.arch = word;
        } else if (asked.kernel.empty()) {
            asked.kernel = word;
        } else if (takes_word && asked.word.empty()) {
            asked.word = word;
        } else {
            return "`" + word + "` is in the way";
        }
    }
    const std::vector<std::string> kernels = core.names("kernel");
    if (asked.kernel.empty() && kernels.size() == 1) asked.kernel = kernels.front();
    if (!asked.kernel.empty()) return {};
    if (kernels.empty()) return "the session has no kernel";
    std::string list;
    for (const std::string& kernel : kernels) list += (list.empty() ? "`" : ", `") + kernel + "`";
    return "name a kernel: " + list;
}

/// The artefact of a kernel; nothing where it cannot be made, which has been said.
std::optional<std::string> artifact(Core& core, const Asked& asked, const std::string& kind, int& code) {
    const tegula::Module module = core.module(code);
    if (code != ok) return std::nullopt;
    auto compiled = module.compile(asked.kernel, asked.generics);
    code = core.show(compiled.diagnostics(), compiled.status());
    if (!compiled) return std::nullopt;
    auto text = compiled.value().artifact(kind + asked.arch);
    code = core.show(text.diagnostics(), text.status());
    if (!text) return std::nullopt;
    return text.value();
}

int show_artifact(Core& core, const std::string& operands, const std::string& kind) {
    Asked asked;
    if (const std::string problem = read_asked(core, operands, false, asked); !problem.empty()) return core.fail(usage, problem);
    int code = ok;
    if (const auto text = artifact(core, asked, kind, code)) core.say(*text);
    return code;
}

struct Tally {
    Core* core;
    bool bench;
    int passed = 0, failed = 0;
};

int run_blocks(Core& core, const std::string& filter, bool bench) {
    int code = ok;
    const tegula::Module module = core.module(code);
    if (code != ok) return code;
    if (const auto names = core.names(bench ? "bench" : "test");
        std::ranges::none_of(names, [&](const std::string& n) { return n.find(filter) != n.npos; })) {
        const std::vector<std::string_view> views(names.begin(), names.end());
        const std::string kind = bench ? "bench" : "test";
        return core.fail(usage, names.empty() ? "the session has no " + kind + " blocks"
                                              : "no " + kind + "'s name contains `" + filter + "`" + did_you_mean(filter, views));
    }
    tegula::RunOptions run = core.run_options();
    run.checked = !bench;
    constexpr uint64_t kTestSteps = 1'000'000'000;  // ends the launches of a test that would run for ever
    if (!bench && !run.step_budget) run.step_budget = kTestSteps;
    // The callback of results has its own pointer; print and progress have the core's.
    Tally tally{&core, bench};
    const auto report = [](void* user, const tegula_test_result* r) {
        auto& t = *static_cast<Tally*>(user);
        ++(r->status == TEGULA_OK ? t.passed : t.failed);
        t.core->say(result_line(*r));
        tegula_retain(r->diags);
        t.core->show(tegula::Diagnostics(tegula::Ref<tegula_diags>(r->diags)), r->status);
    };
    tegula::Ref<tegula_diags> diags;
    const tegula_status status =
        (bench ? tegula_bench : tegula_test)(module.c(), filter.empty() ? nullptr : filter.c_str(), &run, report, &tally, diags.out());
    code = core.show(tegula::Diagnostics(std::move(diags)), status);
    core.say(std::to_string(tally.passed) + " passed, " + std::to_string(tally.failed) + " failed");
    return status == TEGULA_E_SOURCE || status == TEGULA_E_ARGUMENTS ? run_failed : code;
}

std::string milliseconds(double seconds) { return decimal(seconds * 1e3, 3) + " ms"; }

}  // namespace

int show_ir(Core& core, const std::string& operands) {
    Asked asked;
    if (const std::string problem = read_asked(core, operands, true, asked); !problem.empty()) return core.fail(usage, problem);
    if (!asked.arch.empty() && !asked.word.starts_with("gpu")) asked.word = "gpu" + (asked.word.empty() ? "" : ":" + asked.word);
    int code = ok;
    if (const auto text = artifact(core, asked, asked.word.empty() ? "ir" : "ir:" + asked.word, code)) core.say(*text);
    return code;
}

int show_cuda(Core& core, const std::string& operands) { return show_artifact(core, operands, "cuda"); }
int show_ptx(Core& core, const std::string& operands) { return show_artifact(core, operands, "ptx"); }
int show_asm(Core& core, const std::string& operands) { return show_artifact(core, operands, "asm"); }

int show_llvm(Core& core, const std::string& operands) {
    Asked asked;
    if (const std::string problem = read_asked(core, operands, true, asked); !problem.empty()) return core.fail(usage, problem);
    if (!asked.word.empty() && asked.word != "opt") return core.fail(usage, "`" + asked.word + "` is in the way; `opt` shows the optimised code");
    int code = ok;
    if (const auto text = artifact(core, asked, asked.word == "opt" ? "llvm-opt" : "llvm", code)) core.say(*text);
    return code;
}

int show_sass_of(Core& core, const std::string& operands) {
    Asked asked;
    if (const std::string problem = read_asked(core, operands, false, asked); !problem.empty()) return core.fail(usage, problem);
    int code = ok;
    const auto cubin = artifact(core, asked, "cubin", code);
    if (!cubin) return code;
    std::string problem;
    Exit why = ok;
    const auto text = disassembly(*cubin, false, why, problem);
    if (!text) return core.fail(why, problem);
    core.say(*text);
    return ok;
}

int show_resources(Core& core, const std::string& operands) {
    Asked asked;
    if (const std::string problem = read_asked(core, operands, false, asked); !problem.empty()) return core.fail(usage, problem);
    int code = ok;
    const auto text = artifact(core, asked, "resources", code);
    if (!text) return code;
    std::vector<std::vector<std::string>> rows;
    const Json resources = Json::parse(*text);
    for (const auto& [name, value] : resources.items())
        if (name != "schema") rows.push_back({name, value.is_string() ? value.get<std::string>() : value.dump()});
    core.say(table_text(rows));
    return ok;
}

int draw(Core& core, const std::string& operands) {
    // KIND [WHAT] [-s NAME=VALUE].. [@ARCH] [FILE]; WHAT may be a type, in which spaces and `@ LAYOUT` stand.
    std::vector<std::string> words = words_in(operands);
    std::vector<std::string_view> kinds;
    for (const viz::Kind& kind : viz::kinds()) kinds.push_back(kind.name);
    if (words.empty() || std::ranges::find(kinds, words[0]) == kinds.end()) {
        std::string all;
        for (const std::string_view kind : kinds) all += (all.empty() ? "" : ", ") + std::string(kind);
        return core.fail(usage,
                         (words.empty() ? "name a picture" : "there is no picture `" + words[0] + "`" + did_you_mean(words[0], kinds)) + ": " + all);
    }
    viz::Request request;
    request.kind = words[0];
    std::string file, form = "text";
    for (size_t i = 1; i < words.size(); ++i) {
        const std::string& word = words[i];
        std::string name, text;
        if (word == "-s" || word == "--set") {
            if (i + 1 == words.size() || !split(words[++i], name, text)) return core.fail(usage, "write -s NAME=VALUE");
            tegula::Value value(0);
            if (!parse_number(text, value)) value = tegula::Value(text);
            request.sets.emplace_back(name, value);
        } else if (word.starts_with("@sm_")) {
            request.arch = word.substr(1);
        } else if (i + 1 == words.size() && (word.ends_with(".svg") || word.ends_with(".html") || word.ends_with(".json"))) {
            file = word, form = word.substr(word.rfind('.') + 1);
        } else {
            request.what += (request.what.empty() ? "" : " ") + word;
        }
    }
    int code = ok;
    tegula::Module module = core.module(code);
    if (code != ok) return code;
    auto model = viz::model(module, request);
    code = core.show(model.diagnostics(), model.status());
    if (!model) return code;
    if (!file.empty()) {
        std::string error;
        if (!write_file(file, viz::render(model.value(), form), error)) return core.fail(io, error);
        return core.say(file + " is written"), ok;
    }
    const Style style = core.style();
    core.event({{"event", "picture"},
                {"kind", request.kind},
                {"text", viz::render(model.value(), "text", static_cast<int>(style.width), style.colour)},
                {"svg", viz::render(model.value(), "svg")}});
    return ok;
}

int explain(Core& core, const std::string& operands) {
    const bool code_like = operands.size() == 5 && operands[0] == 'T' && operands.find_first_not_of("0123456789", 1) == operands.npos;
    if (!code_like) return show_artifact(core, operands, "explain");
    const char* text = tegula_explain(operands.c_str());
    if (!text) return core.fail(usage, "no diagnostic has the code `" + operands + "`");
    core.say(text);
    return ok;
}

int run_tests(Core& core, const std::string& filter) { return run_blocks(core, filter, false); }
int run_benches(Core& core, const std::string& filter) { return run_blocks(core, filter, true); }

int measure(Core& core, const std::string& operands) {
    using Clock = std::chrono::steady_clock;
    constexpr double kLong = 0.5;  // seconds for which statements are repeated
    constexpr uint64_t kMost = 1'000'000;
    std::string text = operands;
    uint64_t wanted = 0;
    // A count stands behind a space and behind something that ends a statement or an expression.
    if (const size_t space = text.find_last_of(" \t\n"); space != text.npos && text.find_first_not_of("0123456789", space + 1) == text.npos) {
        const std::string before = trimmed(text.substr(0, space)), count = text.substr(space + 1);
        if (!before.empty() && !count.empty() && count.size() < 8 && std::string_view(")]};").find(before.back()) != std::string_view::npos)
            text = before, std::from_chars(count.data(), count.data() + count.size(), wanted);
    }
    if (text.empty()) return core.fail(usage, ":time needs statements");
    if (text.back() != ';' && text.back() != '}') text += ';';  // a value that is told would be told each time
    std::vector<double> launches, walls;
    double spent = 0;
    for (uint64_t i = 0; wanted ? i <= wanted : i <= 3 || (spent < kLong && i < kMost); ++i) {
        int code = ok;
        const auto start = Clock::now();
        const auto answer = core.look(text, code);
        const double wall = std::chrono::duration<double>(Clock::now() - start).count();
        if (!answer) return code;
        if (i == 0) continue;  // which also compiles
        spent += wall;
        walls.push_back(wall);
        launches.push_back((*answer)["launch_seconds"]);
        if (!wanted && i >= 3 && wall > kLong) break;
    }
    const bool launched = std::ranges::any_of(launches, [](double s) { return s > 0; });
    std::vector<double>& times = launched ? launches : walls;
    if (times.empty()) return core.fail(usage, ":time runs statements at least once");
    std::ranges::sort(times);
    const auto at = [&](double share) { return milliseconds(times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))]); };
    core.say((launched ? "launches on " + core.machine_name() : std::string("no launch; all of it")) + ": median " + at(0.5) + ", quartiles " +
             at(0.25) + " and " + at(0.75) + ", least " + at(0) + ", of " + std::to_string(times.size()) + (times.size() == 1 ? " run" : " runs"));
    return ok;
}

}  // namespace tegula_tool::repl
