// Running the test and bench blocks of a module.
#include <algorithm>
#include <chrono>
#include <new>

#include "jit/engine/host.h"
#include "jit/engine/host_check.h"
#include "jit/engine/kept_prints.h"

namespace tegula {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool selected(const ast::Item& item, std::string_view filter) { return filter.empty() || item.name.text.find(filter) != std::string_view::npos; }

/// An internal error inside one block becomes that block's failure, so that the others still run.
template <class Fn>
Status guarded(DiagSink& diags, Span span, Fn&& fn) {
    try {
        return fn();
    } catch (const HostStopped& stopped) {
        return stopped.status;
    } catch (const Cancelled&) {
        diags.report(Diag::run_cancelled, span);
        return Status::cancelled;
    } catch (const InternalError& error) {
        diags.report(Diag::internal, span, {error.what()});
        return Status::run;
    } catch (const std::bad_alloc&) {
        diags.report(Diag::host_memory, span);
        return Status::run;
    }
}

/// A block with wrong names does not run, and all of its errors are told.
Status checked_names(Engine& engine, LoadedModule& module, const ast::Item& item, DiagSink& diags) {
    if (sema::check_host_block(module, item, diags)) return Status::ok;
    check_host_block(engine, module, item, diags);
    return Status::source;
}

constexpr int kBenchRuns = 5;

/// One test on options.machine; what failed is in the result's diagnostics, with the machine's name where there are several.
Status run_test(Engine& engine, LoadedModule& module, const ast::TestItem& test, const LaunchOptions& options, bool one_of_several,
                TestResult& result) {
    DiagSink diags(engine.options().max_errors);
    Status status = guarded(diags, test.name.span, [&] { return checked_names(engine, module, test, diags); });
    if (status == Status::ok) {
        status = guarded(diags, test.name.span, [&] { return HostRunner(engine, module, options, diags).run(test.body); });
        // The run ended at its first error: the others are found without it.
        if (status == Status::source || status == Status::arguments)
            guarded(diags, test.name.span, [&] { return check_host_block(engine, module, test, diags), status; });
    }
    for (Diagnostic& d : diags.take()) {
        if (one_of_several && status != Status::ok) d.notes.push_back("on the machine `" + options.machine->name() + "`");
        result.diagnostics.push_back(std::move(d));
    }
    return status;
}

}  // namespace

Status run_tests(Engine& engine, LoadedModule& module, std::string_view filter, const LaunchOptions& options,
                 const std::function<void(TestResult&)>& report) {
    const std::vector<Machine*> machines = options.unnamed ? engine.machines() : std::vector<Machine*>{options.machine};
    Status all = Status::ok;
    for (const ast::Item* item : module.ast->items) {
        if (item->kind != ast::ItemKind::test || !selected(*item, filter)) continue;
        TestResult result;
        result.name = item->name.text;
        auto start = std::chrono::steady_clock::now();
        LaunchOptions on = options;
        for (size_t i = 0; i < machines.size() && result.status == Status::ok; ++i) {
            on.machine = machines[i];
            result.machines += (i ? "," : "") + (machines[i] ? machines[i]->name() : "interp");
            KeptPrints said;
            if (i && options.print) on.print = said.keeper();  // what all machines print is shown once
            result.status = run_test(engine, module, ast::as<ast::TestItem>(item), on, machines.size() > 1, result);
            if (result.status != Status::ok) said.show(options.print);
        }
        result.seconds = seconds_since(start);
        if (result.status != Status::ok) all = result.status;
        report(result);
        if (result.status == Status::cancelled) return Status::cancelled;
    }
    return all;
}

namespace {

/// One case of a bench: the body once to warm up, then the median launch time of a few runs; metrics evaluated with the case's names.
Status run_case(Engine& engine, LoadedModule& module, const ast::BenchItem& bench, const HostValue* value, const LaunchOptions& options,
                TestResult& result, DiagSink& diags) {
    std::vector<double> times;
    for (int i = 0; i <= kBenchRuns; ++i) {
        HostRunner runner(engine, module, options, diags);
        if (value && !runner.bind(bench.pattern, *value)) return Status::source;
        if (Status status = runner.run(bench.body); status != Status::ok) return status;
        if (i) times.push_back(runner.launch_seconds());
    }
    std::sort(times.begin(), times.end());
    result.seconds = times[times.size() / 2];
    std::string metrics = "{";
    HostRunner runner(engine, module, options, diags);
    if (value && !runner.bind(bench.pattern, *value)) return Status::source;
    const char* separator = "";
    auto add = [&](std::string_view name, const HostValue& v) {
        const std::string number = runner.json_number(v);
        if (number.empty()) return false;
        metrics += separator + json_quote(name) + ":" + number;
        separator = ",";
        return true;
    };
    for (const ast::Name& name : bench.pattern.names)
        if (const HostValue* v = value ? runner.variable(name.text) : nullptr) add(name.text, *v);
    for (const ast::Arg& metric : bench.metrics) {
        auto v = runner.evaluate(*metric.value);
        if (!v) return Status::source;
        if (!add(metric.name.text, *v)) {
            diags.report(Diag::host_kind, metric.value->span,
                         {"a number for the metric `" + std::string(metric.name.text) + "`", host_kind_name(v->kind)});
            return Status::source;
        }
    }
    result.metrics = metrics + "}";
    return Status::ok;
}

/// Each case of the benches, in the order of the text. `measure` fills the result.
using CaseRunner = std::function<Status(const ast::BenchItem& bench, const HostValue* value, TestResult& result, DiagSink& diags)>;
Status run_cases(Engine& engine, LoadedModule& module, std::string_view filter, const LaunchOptions& options, const CaseRunner& measure,
                 const std::function<void(TestResult&)>& report) {
    Status all = Status::ok;
    for (const ast::Item* item : module.ast->items) {
        if (item->kind != ast::ItemKind::bench || !selected(*item, filter)) continue;
        const auto& bench = ast::as<ast::BenchItem>(item);
        DiagSink setup(engine.options().max_errors);
        std::vector<HostValue> cases(1);
        const bool has_cases = bench.iterable != nullptr;
        Status ready = guarded(setup, item->name.span, [&] { return checked_names(engine, module, *item, setup); });
        if (has_cases && ready == Status::ok) {
            std::optional<std::vector<HostValue>> values;
            ready = guarded(setup, item->name.span, [&] {
                values = HostRunner(engine, module, options, setup).iterate(*bench.iterable);
                return values ? Status::ok : Status::source;
            });
            cases = values ? std::move(*values) : std::vector<HostValue>(1);
        }
        for (const HostValue& value : cases) {
            TestResult result;
            result.name = item->name.text;
            result.machines = options.machine ? options.machine->name() : "interp";
            DiagSink diags(engine.options().max_errors);
            result.status = ready != Status::ok
                                ? ready
                                : guarded(diags, item->name.span, [&] { return measure(bench, has_cases ? &value : nullptr, result, diags); });
            result.diagnostics = ready != Status::ok ? setup.take() : diags.take();
            if (result.status != Status::ok) all = result.status;
            report(result);
            if (result.status == Status::cancelled) return Status::cancelled;
        }
    }
    return all;
}

}  // namespace

Status run_benches(Engine& engine, LoadedModule& module, std::string_view filter, const LaunchOptions& options,
                   const std::function<void(TestResult&)>& report) {
    return run_cases(
        engine, module, filter, options,
        [&](const ast::BenchItem& bench, const HostValue* value, TestResult& result, DiagSink& diags) {
            return run_case(engine, module, bench, value, options, result, diags);
        },
        report);
}

Status run_benches_once(Engine& engine, LoadedModule& module, std::string_view filter, const LaunchOptions& options,
                        const std::function<void(TestResult&)>& failed) {
    return run_cases(
        engine, module, filter, options,
        [&](const ast::BenchItem& bench, const HostValue* value, TestResult&, DiagSink& diags) {
            HostRunner runner(engine, module, options, diags);
            return value && !runner.bind(bench.pattern, *value) ? Status::source : runner.run(bench.body);
        },
        [&](TestResult& result) {
            if (result.status != Status::ok) failed(result);
        });
}

Status run_tests_naming(Engine& engine, LoadedModule& module, std::string_view word, const LaunchOptions& options,
                        const std::function<void(TestResult&)>& report) {
    for (const ast::Item* item : module.ast->items) {
        if (item->kind != ast::ItemKind::test || engine.sources().text(item->span).find(word) == std::string_view::npos) continue;
        TestResult result;
        result.name = item->name.text;
        result.status = run_test(engine, module, ast::as<ast::TestItem>(item), options, false, result);
        report(result);
        if (result.status != Status::ok) return result.status;
    }
    return Status::ok;
}

}  // namespace tegula
