// `tegula repl`: puts together what evaluates (core.h, or worker.h for a process of its own) and what a person, a script or a program sees.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "front.h"
#include "serve.h"
#include "tools/terminal.h"
#include "worker.h"

namespace tegula_tool {

namespace {

/// The file that is evaluated before all else; empty: there is none.
std::string init_file(const Options& o, bool person) {
    if (o.init == "none") return {};
    if (!o.init.empty()) return o.init;
    if (!person) return {};  // what a script does is the same for everybody
    const char* config = std::getenv("XDG_CONFIG_HOME");
    const char* home = std::getenv("HOME");
    if (!(config && *config) && !(home && *home)) return {};
    const std::string path = (config && *config ? std::string(config) : std::string(home) + "/.config") + "/tegula/init.tile";
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 ? path : std::string();
}

/// The command line of a process that evaluates for another one.
std::vector<std::string> worker_words(const Options& o, bool colour) {
    std::vector<std::string> out = {"tegula", "repl", "--json", "--init=none", colour ? "--color=always" : "--color=never"};
    const auto add = [&](const char* flag, const std::string& value) {
        if (!value.empty()) out.push_back(std::string(flag) + "=" + value);
    };
    add("--machine", o.machine);
    add("--model", o.model);
    add("--import-root", o.import_root);
    add("--disable-passes", o.disable_passes);
    for (const auto& [flag, value] : {std::pair("--threads", o.threads),
                                      {"--seed", o.seed},
                                      {"--memory", o.memory},
                                      {"--steps", o.steps.value_or(0)},
                                      {"--compile-budget", o.compile_budget}})
        if (value) add(flag, std::to_string(value));
    if (o.checked) out.emplace_back("--checked");
    if (o.checked_native) out.emplace_back("--checked-native");
    if (o.trap_floats) out.emplace_back("--trap-floats");
    if (o.confined()) out.emplace_back("--confine-loads");
    return out;
}

int run_console(Session& session, repl::Evaluator& evaluator, bool colour) {
    const Options& o = session.options;
    const bool scripted = !o.files.empty() || !o.texts.empty(), terminal = ::isatty(STDIN_FILENO) != 0;
    const bool person = terminal && (!scripted || o.interactive);
    repl::Front front(session, evaluator, colour);
    int code = ok;
    const auto take = [&](int one) {
        if (code == ok) code = one;
        return front.going_on(one) || (person && !front.quitting());
    };
    bool going = true;
    if (person && !o.quiet) {
        const std::string version = tegula_build_id();
        std::printf("%s. :help lists the commands, Ctrl-D ends.\n", version.substr(0, version.find(" (")).c_str());
    }
    if (const std::string init = init_file(o, person); !init.empty()) going = take(front.run_file(init));
    for (size_t i = 0; going && i < o.files.size(); ++i) going = take(front.run_file(o.files[i]));
    for (size_t i = 0; going && i < o.texts.size(); ++i) going = take(front.run(o.texts[i]));
    if (going && (!scripted || o.interactive)) {
        const int read = front.read(STDIN_FILENO, person);
        code = person || code == ok ? read : code;
    }
    return code;
}

}  // namespace

int start_repl(Session& session) {
    const Options& o = session.options;
    if (o.json) {
        repl::Core core(session);
        return repl::serve(core);
    }
    const bool colour = wants_colour(o.colour, STDOUT_FILENO);
    if (o.untrusted && o.shell_commands) return session.fail(usage, "--untrusted and --shell exclude one another");
    if (o.isolate || o.untrusted || o.machine == "cuda") {
        repl::Worker worker(session, worker_words(o, colour), colour);
        return run_console(session, worker, colour);
    }
    repl::Core core(session);
    return run_console(session, core, colour);
}

}  // namespace tegula_tool
