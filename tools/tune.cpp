// `tegula tune`: measured choices of tuned values.
#include <charconv>
#include <nlohmann/json.hpp>

#include "terminal.h"
#include "tool.h"

namespace tegula_tool {

namespace {

using Json = nlohmann::ordered_json;

/// Seconds of a text such as 20s, 5m, 1h or 2.5; negative: it is none.
double read_seconds(std::string_view text) {
    double value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
    if (error != std::errc() || !(value >= 0 && value < 1e6)) return -1;
    return unit.empty() || unit == "s" ? value : unit == "m" ? value * 60 : unit == "h" ? value * 3600 : -1;
}

struct Tally {
    Session* session;
    std::string file;
    int launches = 0, failed = 0;
};

std::string set_text(const Json& set) {
    std::string out;
    for (const auto& [name, value] : set.items()) out += (out.empty() ? "" : ", ") + name + " = " + value.get<std::string>();
    return out;
}

std::string time_text(const Json& seconds) { return seconds.is_number() ? decimal(seconds.get<double>() * 1e6, 4) + " us" : "no time"; }

void report_launch(void* user, const tegula_test_result* r) {
    auto& tally = *static_cast<Tally*>(user);
    const bool good = r->status == TEGULA_OK;
    ++(good ? tally.launches : tally.failed);
    erase_progress();
    if (tally.session->options.json) {
        std::printf("{\"schema\":1,\"file\":%s,\"%s\":%s,\"status\":\"%s\",\"machine\":%s%s%s}\n", json_text(tally.file).c_str(),
                    good ? "kernel" : "bench", json_text(r->name).c_str(), good ? "ok" : "failed", json_text(r->machines).c_str(),
                    r->metrics ? ",\"tuned\":" : "", r->metrics ? r->metrics : "");
        if (r->diags) std::fputs(tegula_diags_json(r->diags), stdout);
    } else if (!good) {
        std::printf("FAIL %s\n", visible(tally.file + ": " + r->name).c_str());
        if (r->diags) std::fputs(tegula_diags_text(r->diags, tally.session->colour_output()), stderr);
    } else {
        const Json m = Json::parse(r->metrics, nullptr, false);
        std::string line = visible(tally.file + ": " + r->name + " (" + m["launch"].get<std::string>() + ")") + "\n  ";
        if (m["chosen"] == m["preferred"])
            line += "stays at " + set_text(m["preferred"]) + ", " + time_text(m["preferred_seconds"]);
        else
            line += set_text(m["chosen"]) + ", " + time_text(m["seconds"]) + ", in place of " + set_text(m["preferred"]) + ", " +
                    time_text(m["preferred_seconds"]) + "; equal to the interpreter " +
                    (m["checked"] == "tests" ? "in the tests" : "on the arguments of the bench");
        line += "\n  " + std::to_string(m["tried"].size()) + " of " + m["choices"].dump() + " choices measured";
        if (const size_t n = m["resumed"]) line += ", " + std::to_string(n) + " of them before";
        if (const size_t n = m["refused"]) line += ", " + std::to_string(n) + " refused";
        std::printf("%s\n", line.c_str());
        for (const Json& t : m["tried"])
            if (t.contains("refused"))
                std::printf("  refused: %s: %s\n", set_text(t["set"]).c_str(), visible(t["refused"].get<std::string>()).c_str());
    }
    std::fflush(stdout);
}

}  // namespace

int tune_files(Session& session) {
    const Options& o = session.options;
    tegula_tune_options tune;
    tegula_tune_options_init(&tune, sizeof tune);
    tune.seconds = read_seconds(o.budget);
    tune.seed = o.seed;
    tune.compilers = static_cast<uint32_t>(std::min<uint64_t>(o.jobs, UINT32_MAX));
    if (tune.seconds < 0) return session.fail(usage, "--budget " + o.budget + ": write a time such as 20s, 5m or 1h");
    if (o.machine == "interp") return session.fail(usage, "the interpreter has no choices to measure; name cpu or cuda");
    int code = ok;
    Tally tally{&session, {}};
    tune.seconds /= static_cast<double>(std::max<size_t>(o.files.size(), 1));
    for (const std::string& file : o.files) {
        tegula::Module module;
        int one = ok;
        if (session.load(file, module, one)) {
            tally.file = file;
            tegula::RunOptions run = session.run_options();
            run.checked = 0;
            run.order_seed = 0;
            if (!o.quiet)
                run.progress = [](void*, uint64_t done, uint64_t all) {
                    if (all) show_count(done, all, "choices");
                    return 0;
                };
            tegula::Ref<tegula_diags> diags;
            const tegula_status status =
                tegula_tune(module.c(), o.filter.empty() ? nullptr : o.filter.c_str(), &run, &tune, report_launch, &tally, diags.out());
            session.show(tegula::Diagnostics(std::move(diags)));
            one = status == TEGULA_E_SOURCE || status == TEGULA_E_ARGUMENTS ? run_failed : session.exit_code(status);
            if (status == TEGULA_E_CANCELLED) return worse(code, one);
        }
        code = worse(code, one);
    }
    if (code == ok && tally.launches + tally.failed == 0)
        return session.fail(
            usage, "no launch of a bench" + (o.filter.empty() ? "" : " whose name contains `" + o.filter + "`") + " leaves a choice of `tune` open");
    return code;
}

}  // namespace tegula_tool
