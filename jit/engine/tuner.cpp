// The benches run twice: once to see which launches leave choices open, and once to measure each of these where it stands, with its arguments.
#include "jit/engine/tuner.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "lang/cancel.h"

namespace tegula {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kRuns = 5, kMaxCompilers = 8;
constexpr double kWorthwhile = 0.99;  ///< of the preferred choice's time: less of a gain is noise
constexpr double kHopeless = 1.5;     ///< of the best time: one run shows it
constexpr auto kPoll = std::chrono::milliseconds(10);

std::string first_error(DiagSink& diags) {
    for (const Diagnostic& d : diags.all())
        if (d.severity == Severity::error) return d.message;
    return "it does not run";
}

}  // namespace

class Tuner {
public:
    Tuner(Engine& engine, const LaunchOptions& options, const TuneRequest& request, const std::function<void(TestResult&)>& report)
        : engine_(engine),
          options_(options),
          request_(request),
          report_(report),
          cancel_(options.cancel ? options.cancel : &engine.cancelled_),
          progress_(options.keep_going) {
        options_.measure = true;
        options_.compare = false;
        options_.keep_going = nullptr;
    }
    Status run(LoadedModule& module, std::string_view filter);

private:
    /// A launch with choices, and what is known of them.
    struct Work {
        LaunchStatement& launch;
        const TuneRecorder& found;
        TunedKey key;
        TunedEntry entry;
        double best = 0;     ///< of entry.chosen; 0: nothing runs yet
        size_t resumed = 0;  ///< choices that were measured before
        std::string set(size_t i) const { return settings_text(settings_of(found.candidates[i].chosen, launch.home.types())); }
    };
    template <class Body>
    Status with_choices(LaunchStatement& launch, Body&& body);
    Status tune(Work& work);
    void resume(Work& work);
    void compile(Work& work, std::span<const size_t> batch, Clock::time_point until);
    void measure(Work& work, size_t candidate);
    std::string why_wrong(Work& work, const sema::TuneCandidate& candidate);
    std::string failed_test(Work& work, const sema::TuneCandidate& candidate, size_t& launched);
    std::string failed_launch(Work& work, const sema::TuneCandidate& candidate, bool compare, double* seconds);
    void report(const Work& work, double preferred) const;
    void go_on() const { poll(cancel_); }

    Engine& engine_;
    LaunchOptions options_;
    const TuneRequest& request_;
    const std::function<void(TestResult&)>& report_;
    const std::atomic<bool>* const cancel_;
    const std::function<bool(uint64_t, uint64_t)> progress_;
    std::set<TunedKey> open_, tuned_;
    Clock::time_point end_;
};

/// Calls `body` with the recorder and the key of a launch that leaves choices open.
template <class Body>
Status Tuner::with_choices(LaunchStatement& launch, Body&& body) {
    if (launch.kernel.tune.empty()) return Status::ok;
    std::optional<TuneByEstimate> estimate;
    if (options_.machine->is_gpu())
        estimate.emplace(launch.home.tuned_, launch.home, launch.kernel, launch.home.types(), options_.machine->arch(-1, options_.stream), cancel_);
    TuneRecorder found(estimate ? &*estimate : nullptr);
    DiagSink unheard;  // the launch itself reports
    std::vector<const LaunchArgument*> ordered;
    if (!engine_.bind(launch.home, launch.kernel, launch.generics, launch.args, false, ordered, unheard, launch.at, &found)) return Status::ok;
    if (found.candidates.size() < 2) return Status::ok;
    TunedKey key = engine_.tuned_key(launch.kernel, *options_.machine, launch.args, options_.stream);
    key.launch = launch_text(launch.kernel, found.plan, launch.home.types());
    return body(found, std::move(key));
}

Status Tuner::run(LoadedModule& module, std::string_view filter) {
    LaunchOptions look = options_;
    look.before_launch = [&](LaunchStatement& launch) {
        return with_choices(launch, [&](const TuneRecorder&, TunedKey key) { return open_.insert(std::move(key)), Status::ok; });
    };
    if (const Status status = run_benches_once(engine_, module, filter, look, report_); status != Status::ok) return status;
    if (open_.empty()) return Status::ok;
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(request_.seconds));
    LaunchOptions second = options_;
    second.before_launch = [&](LaunchStatement& launch) {
        return with_choices(launch, [&](const TuneRecorder& found, TunedKey key) {
            if (!tuned_.insert(key).second) return Status::ok;
            Work work{launch, found, std::move(key), {}};
            return tune(work);
        });
    };
    return run_benches_once(engine_, module, filter, second, report_);
}

void Tuner::resume(Work& work) {
    work.entry.build = request_.build;
    work.entry.choices = work.found.candidates.size();
    work.entry.preferred = work.set(work.found.preferred);
    work.entry.chosen = work.entry.preferred;
    const auto before = engine_.tuned().find(work.key);
    if (!before || before->build != work.entry.build) return;
    for (size_t i = 0; i < work.found.candidates.size(); ++i)
        if (const auto it = before->tried.find(work.set(i)); it != before->tried.end()) work.entry.tried.insert(*it), ++work.resumed;
    const auto chosen = work.entry.tried.find(before->chosen);
    if (chosen == work.entry.tried.end() || chosen->second.seconds <= 0) return;
    work.entry.chosen = before->chosen;
    work.entry.checked = before->checked;
    work.best = chosen->second.seconds;
}

Status Tuner::tune(Work& work) try {
    resume(work);
    const std::vector<size_t> order = work.found.order(request_.seed);
    const double share = std::chrono::duration<double>(end_ - Clock::now()).count() / static_cast<double>(open_.size() - tuned_.size() + 1);
    const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::max(share, 0.0)));
    const size_t at_a_time = std::clamp<size_t>(request_.compilers ? request_.compilers : std::thread::hardware_concurrency(), 1, kMaxCompilers);
    const auto told = [&] {
        if (progress_ && !progress_(work.entry.tried.size(), order.size())) throw Cancelled();
    };
    for (size_t next = 0; next < order.size() && (next == 0 || Clock::now() < until);) {
        std::vector<size_t> batch;
        for (; next < order.size() && batch.size() < (batch.empty() || work.best > 0 ? at_a_time : 1); ++next)
            if (!work.entry.tried.count(work.set(order[next]))) batch.push_back(order[next]);
        told();
        compile(work, batch, work.best > 0 ? until : Clock::time_point::max());
        for (size_t candidate : batch) {
            go_on();
            if (candidate != work.found.preferred && Clock::now() >= until) break;
            measure(work, candidate);
            told();
        }
        engine_.tuned().add(work.key, work.entry);
    }
    double preferred = 0;
    if (const auto it = work.entry.tried.find(work.entry.preferred); it != work.entry.tried.end()) preferred = it->second.seconds;
    if (preferred > 0 && work.best > preferred * kWorthwhile && work.entry.chosen != work.entry.preferred) {
        work.entry.chosen = work.entry.preferred;
        work.entry.checked.clear();
        engine_.tuned().add(work.key, work.entry);
    }
    report(work, preferred);
    return Status::ok;
} catch (const Cancelled&) {
    if (!work.entry.tried.empty()) engine_.tuned().add(work.key, work.entry);
    throw;
}

/// Makes the code of several candidates at a time, so that measuring them waits for nothing. What cannot be made is found out again there.
void Tuner::compile(Work& work, std::span<const size_t> batch, Clock::time_point until) {
    if (batch.size() < 2) return;
    std::atomic<bool> stop{false};
    std::atomic<size_t> left{batch.size()};
    std::vector<std::jthread> threads;
    for (size_t candidate : batch)
        threads.emplace_back([&, candidate] {
            DiagSink unheard;
            LaunchOptions options = options_;
            options.cancel = &stop;
            options.compile_only = true;
            try {
                engine_.launch(work.launch.home, work.launch.kernel, work.found.candidates[candidate].generics, work.launch.args, options, unheard);
            } catch (const std::exception&) {  // measuring reports it
            }
            --left;
        });
    while (left) {
        std::this_thread::sleep_for(kPoll);
        if (is_set(cancel_) || Clock::now() >= until) stop = true;
    }
}

/// Empty: it ran.
std::string Tuner::failed_launch(Work& work, const sema::TuneCandidate& candidate, bool compare, double* seconds) {
    DiagSink diags;
    LaunchOptions options = options_;
    options.cancel = cancel_;
    options.compare = compare;
    const Status status =
        engine_.launch(work.launch.home, work.launch.kernel, candidate.generics, work.launch.args, options, diags, work.launch.at, seconds);
    if (status == Status::cancelled) throw Cancelled();
    return status == Status::ok ? "" : first_error(diags);
}

void Tuner::measure(Work& work, size_t index) {
    const sema::TuneCandidate& candidate = work.found.candidates[index];
    const std::string set = work.set(index);
    TunedEntry::Tried& tried = work.entry.tried[set];
    std::vector<double> times;
    for (size_t run = 0; run < kRuns && tried.refused.empty(); ++run) {
        double seconds = 0;
        tried.refused = failed_launch(work, candidate, false, &seconds);
        if (tried.refused.empty()) times.push_back(seconds);
        if (work.best > 0 && seconds > kHopeless * work.best) break;
    }
    if (!tried.refused.empty()) return;
    std::sort(times.begin(), times.end());
    tried.seconds = times[times.size() / 2];
    if (index == work.found.preferred) {
        if (work.best == 0) work.best = tried.seconds;
        return;
    }
    if (work.best > 0 && tried.seconds >= work.best) return;
    tried.refused = why_wrong(work, candidate);
    if (!tried.refused.empty()) return;
    work.best = tried.seconds;
    work.entry.chosen = set;
}

/// Compares a candidate with the interpreter: in the tests that launch the kernel, which are small, else on the arguments. Empty: it is right.
std::string Tuner::why_wrong(Work& work, const sema::TuneCandidate& candidate) {
    size_t launched = 0;
    std::string why = failed_test(work, candidate, launched);
    work.entry.checked = "tests";
    if (launched || !why.empty()) return why;
    work.entry.checked = "arguments";
    return failed_launch(work, candidate, true, nullptr);
}

std::string Tuner::failed_test(Work& work, const sema::TuneCandidate& candidate, size_t& launched) {
    LaunchOptions options = options_;
    options.cancel = cancel_;
    options.compare = true;
    options.measure = false;
    options.before_launch = [&](LaunchStatement& launch) {
        if (&launch.kernel != &work.launch.kernel) return Status::ok;
        return with_choices(launch, [&](const TuneRecorder& found, const TunedKey&) {
            for (const sema::TuneCandidate& c : found.candidates)
                if (c.chosen == candidate.chosen) {
                    launch.generics.insert(c.chosen.begin(), c.chosen.end());
                    ++launched;
                    break;
                }
            return Status::ok;
        });
    };
    std::string why;
    run_tests_naming(engine_, work.launch.home, work.launch.kernel.name.text, options, [&](TestResult& r) {
        if (r.status == Status::cancelled) throw Cancelled();
        if (r.status != Status::ok && why.empty())
            why = "test \"" + r.name + "\": " + (r.diagnostics.empty() ? "it fails" : r.diagnostics.front().message);
    });
    return why;
}

void Tuner::report(const Work& work, double preferred) const {
    const auto settings = [&](const std::string& set) {
        for (const sema::TuneCandidate& c : work.found.candidates)
            if (settings_text(settings_of(c.chosen, work.launch.home.types())) == set) {
                std::string json = "{";
                for (const explain::Setting& s : settings_of(c.chosen, work.launch.home.types()))
                    json += (json.size() > 1 ? "," : "") + json_quote(s.name) + ":" + json_quote(s.value);
                return json + "}";
            }
        return std::string("{}");
    };
    const auto seconds = [](double s) { return s > 0 ? HostRunner::number_text(s) : std::string("null"); };
    TestResult result;
    result.name = work.key.kernel;
    result.machines = work.key.machine;
    result.seconds = work.best;
    size_t refused = 0;
    std::string list;
    for (const auto& [set, tried] : work.entry.tried) {
        list += (list.empty() ? "{\"set\":" : ",{\"set\":") + settings(set) + ",\"seconds\":" + seconds(tried.seconds) +
                (tried.refused.empty() ? "" : ",\"refused\":" + json_quote(tried.refused)) + "}";
        refused += !tried.refused.empty();
    }
    result.metrics = "{\"launch\":" + json_quote(work.key.launch) + ",\"hardware\":" + json_quote(work.key.hardware) +
                     ",\"chosen\":" + settings(work.entry.chosen) + ",\"seconds\":" + seconds(work.best) +
                     ",\"preferred\":" + settings(work.entry.preferred) + ",\"preferred_seconds\":" + seconds(preferred) +
                     ",\"checked\":" + json_quote(work.entry.chosen == work.entry.preferred ? "" : work.entry.checked) +
                     ",\"choices\":" + std::to_string(work.entry.choices) + ",\"refused\":" + std::to_string(refused) +
                     ",\"resumed\":" + std::to_string(work.resumed) + ",\"tried\":[" + list + "]}";
    report_(result);
}

Status run_tunes(Engine& engine, LoadedModule& module, std::string_view filter, const LaunchOptions& options, const TuneRequest& request,
                 const std::function<void(TestResult&)>& report) {
    return Tuner(engine, options, request, report).run(module, filter);
}

}  // namespace tegula
