// Differential fuzzing: random programs on a machine and on the interpreter, bit for bit. A difference is shrunk to a small program and written as a
// test file that `tegula test` runs.
//   diff_fuzz [--machine cuda] [--seeds FIRST:END] [--seconds S] [--jobs N] [--out DIR] [--show SEED]: prints a program instead
//             --constants sample|all: the programs of constants.h instead of random ones; on `interp` against operands from memory
// Exit code 1 when programs differed or were refused, 4 when the machine is not there.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "jit/engine/host.h"
#include "tests/diff/constants.h"
#include "tests/diff/generator.h"

using namespace tegula;
using Clock = std::chrono::steady_clock;

namespace {

struct Settings {
    std::string machine = "cuda", out = ".";
    uint64_t first = 0, end = 1000;
    double seconds = 1e9;
    unsigned jobs = 1;
    std::optional<uint64_t> show;
    std::string constants;  ///< "", "sample" or "all"
    std::string constant_text(uint64_t number) const { return diff::constant_program(number, constants == "all", machine == "interp"); }
    diff::Program program(uint64_t seed) const { return diff::generate(seed, machine == "cpu"); }  // GPUs promise no bits of NaN
};

/// ok; refused: sema rejects the program (the generator's fault); differs: the machine is wrong, or fails.
struct Outcome {
    enum Kind { ok, refused, differs } kind = ok;
    std::string text;
};

std::string render_all(const std::vector<Diagnostic>& diagnostics, const SourceMap& sources) {
    std::string out;
    for (const Diagnostic& d : diagnostics) out += render_text(d, sources, false);
    return out;
}

class Runner {
public:
    explicit Runner(const Settings& settings) : settings_(settings) {}
    bool available(std::string& why) {
        auto engine = make();
        DiagSink diags;
        Machine* machine = nullptr;
        const bool there = engine->find_machine(settings_.machine, machine, diags);
        why = render_all(diags.take(), engine->sources());
        return there;
    }
    Outcome run(const diff::Program& program) { return run(program.text(), program.seed); }
    Outcome run(const std::string& text, uint64_t seed) {
        if (!engine_) engine_ = make();
        DiagSink diags;
        LaunchOptions options;
        if (!engine_->find_machine(settings_.machine, options.machine, diags)) return {Outcome::differs, "no machine"};
        ModulePtr module = engine_->load("program.tile", text, "", diags);
        if (!module) return {Outcome::refused, render_all(diags.take(), engine_->sources())};
        options.compare = options.machine;
        options.compare_elaborated = true;  // what passes make wrong differs, too
        options.compare_expressions = false;
        options.order_free = true;
        if (seed % 4 == 3) options.disabled_passes = {"all"};
        options.threads = 1 + static_cast<unsigned>(seed / 4 % 4);
        Outcome outcome;
        const Status status = run_tests(*engine_, *module, "", options, [&](TestResult& r) {
            if (r.status == Status::ok) return;
            const bool refused = r.status == Status::source || r.status == Status::arguments;
            outcome = {refused ? Outcome::refused : Outcome::differs, render_all(r.diagnostics, engine_->sources())};
        });
        if (status != Status::ok && outcome.kind == Outcome::ok) outcome = {Outcome::differs, "status " + std::to_string(static_cast<int>(status))};
        return outcome;
    }

private:
    std::shared_ptr<Engine> make() { return Engine::create({}); }
    const Settings& settings_;
    std::shared_ptr<Engine> engine_;
};

diff::Program shrink(Runner& runner, diff::Program program, std::string& text) {
    for (bool progress = true; progress;) {
        progress = false;
        for (const diff::Program& candidate : diff::smaller(program)) {
            const Outcome outcome = runner.run(candidate);
            if (outcome.kind != Outcome::differs) continue;
            program = candidate;
            text = outcome.text;
            progress = true;
            break;
        }
    }
    return program;
}

Settings parse(int argc, char** argv) {
    Settings s;
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        if (i + 1 >= argc) std::exit((std::fprintf(stderr, "diff_fuzz: %s needs a value\n", argv[i]), 2));
        const std::string value = argv[++i];
        if (name == "--machine")
            s.machine = value;
        else if (name == "--constants")
            s.constants = value, s.end = std::min(s.end, diff::constant_programs(value == "all"));
        else if (name == "--show")
            s.show = std::strtoull(value.c_str(), nullptr, 10);
        else if (name == "--seeds")
            s.first = std::strtoull(value.c_str(), nullptr, 10), s.end = std::strtoull(value.c_str() + value.find(':') + 1, nullptr, 10);
        else if (name == "--seconds")
            s.seconds = std::atof(value.c_str());
        else if (name == "--jobs")
            s.jobs = static_cast<unsigned>(std::atoi(value.c_str()));
        else if (name == "--out")
            s.out = value;
        else
            std::exit((std::fprintf(stderr, "diff_fuzz: unknown option %s\n", name.c_str()), 2));
    }
    return s;
}

}  // namespace

int main(int argc, char** argv) {
    const Settings settings = parse(argc, argv);
    const bool constants = !settings.constants.empty();
    if (settings.show)
        return std::fputs((constants ? settings.constant_text(*settings.show) : settings.program(*settings.show).text()).c_str(), stdout) < 0;
    std::string why;
    if (!Runner(settings).available(why)) {
        std::printf("skipped: diff.%s (%s)\n", settings.machine.c_str(), why.c_str());
        return 4;
    }
    std::error_code ignored;
    std::filesystem::create_directories(settings.out, ignored);
    const auto start = Clock::now();
    std::atomic<uint64_t> next{settings.first}, done{0}, refused{0}, wrong{0};
    std::mutex print;
    const auto work = [&] {
        Runner runner(settings);
        while (std::chrono::duration<double>(Clock::now() - start).count() < settings.seconds) {
            const uint64_t seed = next++;
            if (seed >= settings.end || wrong > 20) return;
            diff::Program program;
            if (!constants) program = settings.program(seed);
            Outcome outcome = constants ? runner.run(settings.constant_text(seed), seed) : runner.run(program);
            ++done;
            if (outcome.kind == Outcome::ok) continue;
            if (outcome.kind == Outcome::refused) {
                ++refused;
                const std::lock_guard lock(print);
                std::printf("seed %llu was refused:\n%s", static_cast<unsigned long long>(seed), outcome.text.c_str());
                continue;
            }
            ++wrong;
            if (!constants) program = shrink(runner, std::move(program), outcome.text);
            const std::string path = settings.out + "/differs_" + std::to_string(seed) + ".tile";
            const std::string text = constants ? settings.constant_text(seed) : program.text();
            std::ofstream(path) << text;
            const std::lock_guard lock(print);
            std::printf("seed %llu differs, shrunk to %s:\n%s\n%s", static_cast<unsigned long long>(seed), path.c_str(),
                        text.substr(0, constants ? 0 : text.size()).c_str(), outcome.text.c_str());
            std::fflush(stdout);
        }
    };
    std::vector<std::thread> threads;
    for (unsigned j = 1; j < settings.jobs; ++j) threads.emplace_back(work);
    work();
    for (std::thread& t : threads) t.join();
    std::printf("%llu programs on %s, %llu differed, %llu refused, %.1f s\n", static_cast<unsigned long long>(done.load()), settings.machine.c_str(),
                static_cast<unsigned long long>(wrong.load()), static_cast<unsigned long long>(refused.load()),
                std::chrono::duration<double>(Clock::now() - start).count());
    return wrong || refused ? 1 : 0;
}
