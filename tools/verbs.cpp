// The verbs that look at source files and at the installation.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "files.h"
#include "report.h"
#include "terminal.h"
#include "tool.h"

namespace tegula_tool {

namespace {

/// The worst of several files' codes: internal errors first, then the order of the table.
int worse(int a, int b) { return a == ok || b == internal ? b : a; }

/// The words of a list with commas.
std::vector<std::string> names_between(std::string_view list) {
    std::vector<std::string> out;
    while (!list.empty()) {
        const size_t comma = std::min(list.find(','), list.size());
        out.emplace_back(list.substr(0, comma));
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return out;
}

struct TestTally {
    Session* session;
    std::string file;
    bool bench;
    int passed = 0, failed = 0;
    std::map<std::string, std::pair<int, int>> machines;  ///< passed and failed on each
};

void report_test(void* user, const tegula_test_result* r) {
    auto& tally = *static_cast<TestTally*>(user);
    const bool good = r->status == TEGULA_OK;
    ++(good ? tally.passed : tally.failed);
    const std::vector<std::string> machines = names_between(r->machines);
    for (size_t i = 0; i < machines.size(); ++i) {  // all but the last one were passed
        auto& [passed, failed] = tally.machines[machines[i]];
        ++(good || i + 1 < machines.size() ? passed : failed);
    }
    erase_progress();
    if (tally.session->options.json) {
        std::printf("{\"schema\":1,\"file\":%s,\"%s\":%s,\"status\":\"%s\",\"machines\":%s,\"seconds\":%s%s%s}\n", json_text(tally.file).c_str(),
                    tally.bench ? "bench" : "test", json_text(r->name).c_str(), good ? "ok" : "failed",
                    nlohmann::json(names_between(r->machines)).dump().c_str(), decimal(r->seconds, 9).c_str(), r->metrics ? ",\"metrics\":" : "",
                    r->metrics ? r->metrics : "");
        if (r->diags) std::fputs(tegula_diags_json(r->diags), stdout);
        std::fflush(stdout);
        return;
    }
    std::printf("%s\n", result_line(*r, visible(tally.file) + ": ").c_str());
    std::fflush(stdout);
    if (r->diags) std::fputs(tegula_diags_text(r->diags, tally.session->colour_output()), stderr);
}

}  // namespace

std::string result_line(const tegula_test_result& r, const std::string& place) {
    std::string line =
        (r.status == TEGULA_OK ? "ok   " : "FAIL ") + place + visible(r.name) + "  " + decimal(r.seconds * 1e3, 3, std::chars_format::fixed) + " ms";
    const auto metrics = nlohmann::json::parse(r.metrics ? r.metrics : "{}", nullptr, false);
    for (const auto& [name, value] : metrics.items()) {
        if (!value.is_number()) continue;
        const double v = value.get<double>();
        if (name == "flops" || name == "bytes")
            line += "  " + decimal(v / r.seconds * 1e-9, 3) + (name == "flops" ? " GFLOP/s" : " GB/s");
        else
            line += "  " + visible(name) + "=" + decimal(v, 6);
    }
    return line;
}

int check_files(Session& session) {
    int code = ok;
    for (const std::string& file : session.options.files) {
        tegula::Module module;
        int one = ok;
        if (session.load(file, module, one)) {
            auto checked = module.check();
            session.show(checked.diagnostics());
            one = session.exit_code(checked.status());
        }
        code = worse(code, one);
    }
    if (session.options.format == "sarif") std::fputs(sarif_text(session.kept_, tegula_build_id()).c_str(), stdout);
    return code;
}

/// Ends the launches of a test that would run for ever; far above what tests need.
constexpr uint64_t kTestSteps = 1'000'000'000;

namespace {

/// Nothing ran, though nothing is wrong with the files: which blocks there are.
int nothing_ran(Session& session, const std::vector<std::string>& names, bool bench) {
    const Options& o = session.options;
    const std::string kind = bench ? "bench" : "test", what = o.files.size() == 1 ? o.files[0] : "the files";
    if (names.empty()) return session.fail(usage, what + (o.files.size() == 1 ? " has" : " have") + " no " + kind + " blocks");
    std::string list;
    constexpr size_t kMost = 10;
    for (size_t i = 0; i < std::min(names.size(), kMost); ++i) list += (i ? ", `" : "`") + names[i] + "`";
    const std::vector<std::string_view> views(names.begin(), names.end());
    return session.fail(usage, "no " + kind + "'s name contains `" + o.filter + "`; there " + (names.size() == 1 ? "is " : "are ") + list +
                                   (names.size() > kMost ? ", .." : "") + did_you_mean(o.filter, views));
}

int run_blocks(Session& session, bool bench) {
    int code = ok;
    TestTally tally{&session, {}, bench, 0, 0, {}};
    std::vector<std::string> names;  // of the blocks that there are
    for (const std::string& file : session.options.files) {
        tegula::Module module;
        int one = ok;
        if (!session.load(file, module, one)) {
            code = worse(code, one);
            ++tally.failed;
            continue;
        }
        tally.file = file;
        if (auto text = module.artifact("json")) {
            const auto json = nlohmann::json::parse(text.value());
            for (const auto& item : json["items"])
                if (item["kind"] == (bench ? "bench" : "test")) names.push_back(item["name"]);
        }
        tegula::RunOptions run = session.run_options();
        run.checked = !bench;
        if (!bench) run.step_budget = session.options.steps.value_or(kTestSteps);
        tegula::Ref<tegula_diags> diags;
        const char* filter = session.options.filter.empty() ? nullptr : session.options.filter.c_str();
        tegula_status status = (bench ? tegula_bench : tegula_test)(module.c(), filter, &run, report_test, &tally, diags.out());
        session.show(tegula::Diagnostics(std::move(diags)));
        // A block whose statements are wrong is a failed test, whatever the reason.
        code = worse(code, status == TEGULA_E_SOURCE || status == TEGULA_E_ARGUMENTS ? run_failed : session.exit_code(status));
        if (status == TEGULA_E_CANCELLED) break;
    }
    if (!session.options.json) {
        std::printf("%d passed, %d failed\n", tally.passed, tally.failed);
        if (tally.machines.size() > 1)
            for (const auto& [machine, counts] : tally.machines)
                std::printf("  on %s: %d passed, %d failed\n", machine.c_str(), counts.first, counts.second);
    }
    return code == ok && tally.passed + tally.failed == 0 ? nothing_ran(session, names, bench) : code;
}

}  // namespace

int test_files(Session& session) { return run_blocks(session, false); }
int bench_files(Session& session) { return run_blocks(session, true); }

namespace {

/// Bytes that are no text, as RFC 4648 writes them.
std::string base64(std::string_view bytes) {
    static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    for (size_t i = 0; i < bytes.size(); i += 3) {
        uint32_t three = 0;
        for (size_t k = 0; k < 3; ++k) three = three << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0u);
        for (size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? kDigits[three >> (18 - 6 * k) & 63] : '=';
    }
    return out;
}

/// A stage as an object: what is JSON by itself as its `value`, machine code as base64, all else as `text`.
void print_json_artifact(const std::string& file, const std::string& kernel, const std::string& stage, const std::string& text) {
    nlohmann::json out = {{"schema", 1}, {"file", file}, {"stage", stage}};
    if (!kernel.empty()) out["kernel"] = kernel;
    const std::string_view kind = std::string_view(stage).substr(0, stage.find('@'));
    if (kind == "json" || kind == "kernel-json" || kind == "resources" || kind == "explain-json") {
        out["value"] = nlohmann::json::parse(text, nullptr, false);
    } else if (kind == "cubin" || kind == "cubin-lines") {
        out["base64"] = base64(text);
    } else {
        out["text"] = text;
    }
    std::printf("%s\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace

int dump_file(Session& session) {
    const Options& o = session.options;
    std::string kernel = o.kernel;
    auto print = [&](tegula::Result<std::string> text) {
        session.show(text.diagnostics());
        if (text && o.json)
            print_json_artifact(o.file, kernel, o.emit, text.value());
        else if (text)
            print_artifact(text.value());
        return session.exit_code(text.status());
    };
    if (o.emit == "tokens" || o.emit == "ast" || o.emit == "fmt") {
        std::string error;
        auto text = read_file(o.file == "-" ? "/dev/stdin" : o.file, uint64_t{16} << 20, error);
        return text ? print(session.engine.dump(*text, o.file, o.emit)) : session.fail(io, error);
    }
    tegula::Module module;
    int code = ok;
    if (!session.load(o.file, module, code)) return code;
    if (o.emit == "json" || o.emit == "doc") return print(module.artifact(o.emit));
    if (kernel.empty()) {
        auto json = nlohmann::json::parse(module.artifact("json").value());
        for (const auto& item : json["items"])
            if (item["kind"] == "kernel" && kernel.empty()) kernel = item["name"];
        if (kernel.empty()) return session.fail(usage, "the file has no kernel");
    }
    const auto generics = session.generics();
    if (!generics) return usage;
    auto compiled = module.compile(kernel, *generics);
    session.show(compiled.diagnostics());
    if (!compiled) return session.exit_code(compiled.status());
    if (o.emit == "sass" || o.emit.starts_with("sass@")) {
        auto cubin = compiled.value().artifact("cubin" + o.emit.substr(4));
        session.show(cubin.diagnostics());
        std::string text;
        if (!cubin) return session.exit_code(cubin.status());
        const int shown = show_sass(session, cubin.value(), o.json ? &text : nullptr);
        return shown == ok && o.json ? print({TEGULA_OK, {}, std::move(text)}) : shown;
    }
    return print(compiled.value().artifact(o.emit == "kernel-json" ? "json" : o.emit));
}

int format_files(Session& session) {
    int code = ok;
    for (const std::string& file : session.options.files) {
        std::string error;
        auto text = read_file(file == "-" ? "/dev/stdin" : file, uint64_t{16} << 20, error);
        if (!text) {
            code = worse(code, session.fail(io, error));
            continue;
        }
        auto formatted = session.engine.dump(*text, file == "-" ? "<stdin>" : file, "fmt");
        session.show(formatted.diagnostics());
        if (!formatted) {
            code = worse(code, session.exit_code(formatted.status()));
            continue;
        }
        const bool same = formatted.value() == *text, shows = file == "-" && !session.options.check_only;
        if (session.options.check_only && !same)
            code = worse(code, session.fail(source, file + " is not formatted"));
        else if (!session.options.check_only && !shows && !same && !write_file(file, formatted.value(), error))
            code = worse(code, session.fail(io, error));
        else if (shows && !session.options.json)
            print_artifact(formatted.value());
        if (session.options.json)
            std::printf("{\"schema\":1,\"file\":%s,\"formatted\":%s%s%s}\n", json_text(file).c_str(), same ? "true" : "false",
                        shows ? ",\"text\":" : "", shows ? json_text(formatted.value()).c_str() : "");
    }
    return code;
}

int document_file(Session& session) {
    tegula::Module module;
    int code = ok;
    if (!session.load(session.options.file, module, code)) return code;
    auto text = module.artifact("doc");
    session.show(text.diagnostics());
    if (text && session.options.json)
        print_json_artifact(session.options.file, {}, "doc", text.value());
    else if (text)
        print_lines(text.value(), stdout);
    return session.exit_code(text.status());
}

int explain_code(Session& session) {
    const char* text = tegula_explain(session.options.code.c_str());
    if (!text) return session.fail(usage, "no diagnostic has the code `" + session.options.code + "`; codes look like T0301");
    if (session.options.json)
        std::printf("{\"schema\":1,\"code\":%s,\"explanation\":%s}\n", json_text(session.options.code).c_str(), json_text(text).c_str());
    else
        std::printf("%s\n", text);
    return ok;
}

int doctor(Session& session) {
    struct utsname system {};
    ::uname(&system);
    auto library = nlohmann::json::parse(session.engine.describe());
    if (session.options.json) {
        nlohmann::json out = {{"schema", 1},
                              {"version", tegula_build_id()},
                              {"abi", tegula_abi_version()},
                              {"system", std::string(system.sysname) + " " + system.release},
                              {"cpu", system.machine},
                              {"cores", std::thread::hardware_concurrency()},
                              {"machines", library["machines"]},
                              {"directories", library["directories"]}};
        std::printf("%s\n", out.dump().c_str());
        return ok;
    }
    std::fputs(doctor_text(session.engine).c_str(), stdout);
    return ok;
}

std::string doctor_text(const tegula::Engine& engine) {
    struct utsname system {};
    ::uname(&system);
    const auto library = nlohmann::json::parse(engine.describe());
    const auto text = [](const nlohmann::json& value) { return visible(value.get<std::string>()); };
    std::string out = std::string(tegula_build_id()) + ", ABI " + std::to_string(tegula_abi_version()) + "\nsystem   " + system.sysname + " " +
                      system.release + ", " + system.machine + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores\n";
    const auto line = [&](const std::string& words) { out += "         " + words + "\n"; };
    for (const auto& m : library["machines"]) {
        out += "machine  " + text(m["name"]) + ": " + (m["available"].get<bool>() ? "available" : "not available") + " (" + text(m["doc"]) + ")\n";
        if (m.contains("cpu")) line(text(m["cpu"]) + ", vectors of " + std::to_string(m["vector_bytes"].get<int>()) + " bytes");
        for (const auto& d : m.value("devices", nlohmann::json::array()))
            line(text(d["name"]) + ", " + text(d["arch"]) + ", " + std::to_string(d["sms"].get<int>()) + " SMs");
        if (m.contains("problem") && m["problem"] != "") line(text(m["problem"]));
        for (const auto& looked : m.value("looked_for", nlohmann::json::array())) line(text(looked));
    }
    const auto directory = [&](const char* key, const char* without) {
        const auto& value = library["directories"][key];
        return value.is_string() ? text(value) : std::string(without);
    };
    return out + "cache    " + directory("cache", "in memory only: TEGULA_CACHE_DIR is off, or there is no home directory") +
           "\nimports  beside each file, then " + directory("import_root", "nowhere: --import-root names a directory") + "\n";
}

int targets(Session& session) {
    const std::string text = session.engine.describe();
    if (session.options.json) {
        std::fputs(text.c_str(), stdout);
        return ok;
    }
    auto library = nlohmann::json::parse(text);
    for (const char* section : {"machines", "architectures", "formats"}) {
        std::printf("%s:", section);
        for (const auto& item : library[section]) std::printf(" %s", item["name"].get<std::string>().c_str());
        std::printf("\n");
    }
    std::printf("passes:");
    for (const auto& pass : library["passes"]) std::printf(" %s", pass.get<std::string>().c_str());
    std::printf("\n");
    return ok;
}

}  // namespace tegula_tool
