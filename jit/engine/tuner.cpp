// The benches run once to see which launches leave choices open, and then in rounds, in which each of these is measured where it stands, with its
// arguments. The first round takes half of the time, in equal parts; what is left goes to launches by what each may still gain.
#include "jit/engine/tuner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include "lang/cancel.h"
#include "lang/stable_sort.h"

namespace tegula {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kRuns = 5, kMaxCompilers = 8;
constexpr double kWorthwhile = 0.99;  ///< of the preferred choice's time: less of a gain is noise
constexpr double kHopeless = 1.5;     ///< of the best time: one run shows it
constexpr double kLeastGain = 0.02;   ///< of the best time, that trying a choice may bring where nothing promises any
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
    /// What is known of a launch's choices from round to round.
    struct State {
        TunedEntry entry;
        double best = 0;     ///< of entry.chosen; 0: nothing runs yet
        size_t resumed = 0;  ///< choices that were measured before
        double weight = 1;   ///< of its share in a round; 0: no choice is left to try
        bool visited = false, in_round = false;
        std::map<std::string, std::string> shown;  ///< settings as JSON, by their text
    };
    /// A launch where it stands.
    struct Work {
        LaunchStatement& launch;
        const TuneRecorder& found;
        const TunedKey& key;
        State& state;
        std::string set(size_t i) const { return settings_text(settings_of(found.candidates[i].chosen, launch.home.types())); }
    };
    template <class Body>
    Status with_choices(LaunchStatement& launch, Body&& body);
    Status round(LoadedModule& module, std::string_view filter, Clock::time_point until);
    void tune(Work& work, Clock::time_point until);
    void resume(Work& work);
    std::vector<size_t> order(const Work& work) const;
    double weight(const Work& work, std::span<const size_t> order) const;
    void compile(Work& work, std::span<const size_t> batch, Clock::time_point until);
    void measure(Work& work, size_t candidate);
    std::string why_wrong(Work& work, const sema::TuneCandidate& candidate);
    std::string failed_test(Work& work, const sema::TuneCandidate& candidate, size_t& launched);
    std::string failed_launch(Work& work, const sema::TuneCandidate& candidate, bool compare, double* seconds);
    void report(const TunedKey& key, const State& state) const;
    void go_on() const { poll(cancel_); }

    Engine& engine_;
    LaunchOptions options_;
    const TuneRequest& request_;
    const std::function<void(TestResult&)>& report_;
    const std::atomic<bool>* const cancel_;
    const std::function<bool(uint64_t, uint64_t)> progress_;
    std::map<TunedKey, State> launches_;
    std::vector<TunedKey> order_;  ///< of launches as the benches have them
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
        return with_choices(launch, [&](const TuneRecorder&, TunedKey key) {
            if (launches_.try_emplace(key).second) order_.push_back(std::move(key));
            return Status::ok;
        });
    };
    if (const Status status = run_benches_once(engine_, module, filter, look, report_); status != Status::ok) return status;
    if (launches_.empty()) return Status::ok;
    const Clock::time_point begin = Clock::now();
    const auto all = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(request_.seconds));
    Status status = round(module, filter, begin + (launches_.size() > 1 ? all / 2 : all));
    const auto is_open = [](const auto& l) { return l.second.weight > 0; };
    const auto tried = [&] {
        size_t n = 0;
        for (const auto& [key, state] : launches_) n += state.entry.tried.size();
        return n;
    };
    for (size_t before = 0; status == Status::ok && tried() > before && std::ranges::any_of(launches_, is_open) && Clock::now() < begin + all;) {
        before = tried();
        status = round(module, filter, begin + all);
    }
    for (const TunedKey& key : order_)
        if (launches_[key].visited) report(key, launches_[key]);
    return status;
}

/// Tries choices of each launch that has some left, in shares by weight: what one does not need is left to those after it.
Status Tuner::round(LoadedModule& module, std::string_view filter, Clock::time_point until) {
    for (auto& [key, state] : launches_) state.in_round = state.weight > 0;
    LaunchOptions options = options_;
    options.before_launch = [&](LaunchStatement& launch) {
        return with_choices(launch, [&](const TuneRecorder& found, const TunedKey& key) {
            const auto it = launches_.find(key);
            if (it == launches_.end() || !it->second.in_round) return Status::ok;
            State& state = it->second;
            const Clock::time_point now = Clock::now();
            if (state.visited && now >= until) return Status::ok;
            double all = 0;
            for (const auto& [k, s] : launches_) all += s.in_round ? s.weight : 0;
            const auto share = std::chrono::duration<double>(until - now) * std::clamp(state.weight / all, 0.0, 1.0);
            state.in_round = false;
            Work work{launch, found, it->first, state};
            if (!std::exchange(state.visited, true)) resume(work);
            tune(work, now + std::chrono::duration_cast<Clock::duration>(share));
            return Status::ok;
        });
    };
    return run_benches_once(engine_, module, filter, options, report_);
}

void Tuner::resume(Work& work) {
    State& state = work.state;
    state.entry.build = request_.build;
    state.entry.choices = work.found.candidates.size();
    state.entry.preferred = work.set(work.found.preferred);
    state.entry.chosen = state.entry.preferred;
    for (size_t i = 0; i < work.found.candidates.size(); ++i) {
        std::string json;
        for (const explain::Setting& s : settings_of(work.found.candidates[i].chosen, work.launch.home.types()))
            json += (json.empty() ? "" : ",") + json_quote(s.name) + ":" + json_quote(s.value);
        state.shown[work.set(i)] = "{" + json + "}";
    }
    const auto before = engine_.tuned().find(work.key);
    if (!before || before->build != state.entry.build) return;
    for (size_t i = 0; i < work.found.candidates.size(); ++i)
        if (const auto it = before->tried.find(work.set(i)); it != before->tried.end()) state.entry.tried.insert(*it), ++state.resumed;
    const auto chosen = state.entry.tried.find(before->chosen);
    if (chosen == state.entry.tried.end() || chosen->second.seconds <= 0) return;
    state.entry.chosen = before->chosen;
    state.entry.checked = before->checked;
    state.best = chosen->second.seconds;
}

/// The preferred choice, then what launches of neighbouring extents chose, then as TuneRecorder says.
std::vector<size_t> Tuner::order(const Work& work) const {
    std::vector<size_t> out = work.found.order(request_.seed);
    const std::vector<std::string> near = engine_.tuned().chosen_nearby(work.key);
    stable_sort(out, [&](size_t i) { return i == work.found.preferred ? -1 : std::ranges::find(near, work.set(i)) - near.begin(); });
    return out;
}

/// Of the launch's share in the next round. A launch of which nothing runs yet has little but some.
double Tuner::weight(const Work& work, std::span<const size_t> order) const {
    constexpr double kLittle = 1e-9;
    const State& state = work.state;
    const auto estimate = [&](size_t i) {
        return work.found.estimates.empty() || !work.found.estimates[i] ? 1.0 : std::max(work.found.estimates[i]->microseconds, 1e-3);
    };
    std::vector<std::pair<double, double>> tried;
    std::optional<double> next;
    size_t left = 0;
    for (const size_t i : order) {
        const auto it = state.entry.tried.find(work.set(i));
        if (it == state.entry.tried.end()) {
            ++left;
            next = std::min(next.value_or(HUGE_VAL), estimate(i));
        } else if (it->second.seconds > 0 && it->second.refused.empty()) {
            tried.emplace_back(it->second.seconds, estimate(i));
        }
    }
    if (!next) return 0;
    if (state.best <= 0 || tried.empty()) return kLittle;
    return std::max(kLittle, expected_gain(state.best, tried, *next, double(left) / double(order.size())));
}

void Tuner::tune(Work& work, Clock::time_point until) try {
    State& state = work.state;
    const std::vector<size_t> order = this->order(work);
    const size_t at_a_time = std::clamp<size_t>(request_.compilers ? request_.compilers : std::thread::hardware_concurrency(), 1, kMaxCompilers);
    const auto told = [&] {
        if (progress_ && !progress_(state.entry.tried.size(), order.size())) throw Cancelled();
    };
    for (size_t next = 0; next < order.size() && (next == 0 || Clock::now() < until);) {
        std::vector<size_t> batch;
        for (; next < order.size() && batch.size() < (batch.empty() || state.best > 0 ? at_a_time : 1); ++next)
            if (!state.entry.tried.count(work.set(order[next]))) batch.push_back(order[next]);
        told();
        compile(work, batch, state.best > 0 ? until : Clock::time_point::max());
        for (size_t candidate : batch) {
            go_on();
            if (candidate != work.found.preferred && Clock::now() >= until) break;
            measure(work, candidate);
            told();
        }
        engine_.tuned().add(work.key, state.entry);
    }
    const auto preferred = state.entry.tried.find(state.entry.preferred);
    const double usual = preferred == state.entry.tried.end() ? 0 : preferred->second.seconds;
    if (usual > 0 && state.best > usual * kWorthwhile && state.entry.chosen != state.entry.preferred) {
        state.entry.chosen = state.entry.preferred;
        state.entry.checked.clear();
        state.best = usual;
        engine_.tuned().add(work.key, state.entry);
    }
    state.weight = weight(work, order);
} catch (const Cancelled&) {
    if (!work.state.entry.tried.empty()) engine_.tuned().add(work.key, work.state.entry);
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
    TunedEntry::Tried& tried = work.state.entry.tried[set];
    std::vector<double> times;
    for (size_t run = 0; run < kRuns && tried.refused.empty(); ++run) {
        double seconds = 0;
        tried.refused = failed_launch(work, candidate, false, &seconds);
        if (tried.refused.empty()) times.push_back(seconds);
        if (work.state.best > 0 && seconds > kHopeless * work.state.best) break;
    }
    if (!tried.refused.empty()) return;
    std::sort(times.begin(), times.end());
    tried.seconds = times[times.size() / 2];
    if (index == work.found.preferred) {
        if (work.state.best == 0) work.state.best = tried.seconds;
        return;
    }
    if (work.state.best > 0 && tried.seconds >= work.state.best) return;
    tried.refused = why_wrong(work, candidate);
    if (!tried.refused.empty()) return;
    work.state.best = tried.seconds;
    work.state.entry.chosen = set;
}

/// Compares a candidate with the interpreter: in the tests that launch the kernel, which are small, else on the arguments. Empty: it is right.
std::string Tuner::why_wrong(Work& work, const sema::TuneCandidate& candidate) {
    size_t launched = 0;
    std::string why = failed_test(work, candidate, launched);
    work.state.entry.checked = "tests";
    if (launched || !why.empty()) return why;
    work.state.entry.checked = "arguments";
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

void Tuner::report(const TunedKey& key, const State& state) const {
    const auto settings = [&](const std::string& set) {
        const auto it = state.shown.find(set);
        return it == state.shown.end() ? std::string("{}") : it->second;
    };
    const auto seconds = [](double s) { return s > 0 ? HostRunner::number_text(s) : std::string("null"); };
    const TunedEntry& entry = state.entry;
    TestResult result;
    result.name = key.kernel;
    result.machines = key.machine;
    result.seconds = state.best;
    size_t refused = 0;
    std::string list;
    for (const auto& [set, tried] : entry.tried) {
        list += (list.empty() ? "{\"set\":" : ",{\"set\":") + settings(set) + ",\"seconds\":" + seconds(tried.seconds) +
                (tried.refused.empty() ? "" : ",\"refused\":" + json_quote(tried.refused)) + "}";
        refused += !tried.refused.empty();
    }
    const auto preferred = entry.tried.find(entry.preferred);
    result.metrics = "{\"launch\":" + json_quote(key.launch) + ",\"hardware\":" + json_quote(key.hardware) + ",\"chosen\":" + settings(entry.chosen) +
                     ",\"seconds\":" + seconds(state.best) + ",\"preferred\":" + settings(entry.preferred) +
                     ",\"preferred_seconds\":" + seconds(preferred == entry.tried.end() ? 0 : preferred->second.seconds) +
                     ",\"checked\":" + json_quote(entry.chosen == entry.preferred ? "" : entry.checked) +
                     ",\"choices\":" + std::to_string(entry.choices) + ",\"refused\":" + std::to_string(refused) +
                     ",\"resumed\":" + std::to_string(state.resumed) + ",\"tried\":[" + list + "]}";
    report_(result);
}

double expected_gain(double best, std::span<const std::pair<double, double>> tried, double next, double left) {
    double mean = 0, square = 0;
    for (const auto& [seconds, estimate] : tried) {
        const double ratio = std::log(seconds / estimate);
        mean += ratio, square += ratio * ratio;
    }
    mean /= static_cast<double>(tried.size()), square /= static_cast<double>(tried.size());
    const double deviation = std::sqrt(std::max(0.0, square - mean * mean));
    const double lucky = std::exp(mean - 2 * deviation) * next;
    return std::max(best - lucky, kLeastGain * best) * left;
}

Status run_tunes(Engine& engine, LoadedModule& module, std::string_view filter, const LaunchOptions& options, const TuneRequest& request,
                 const std::function<void(TestResult&)>& report) {
    return Tuner(engine, options, request, report).run(module, filter);
}

}  // namespace tegula
