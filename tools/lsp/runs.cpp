// What an editor asks to have run or drawn: tests, benches, one kernel with the values that it is given, pictures.
#include <algorithm>

#include "../buffers.h"
#include "../terminal.h"
#include "../viz/viz.h"
#include "instances.h"
#include "members.h"
#include "server.h"

namespace tegula_tool::lsp {

using namespace members;

namespace {

constexpr uint64_t kMostSteps = 1'000'000'000;  ///< of a test or a kernel that an editor runs
constexpr size_t kMostPrinted = size_t{1} << 20;
constexpr size_t kMostElements = 1000;  ///< of a result, as text

/// A run for a request: what it prints, how far it is, and that it ends when nobody waits for it.
struct Run {
    Job& job;
    std::string machine, title;
    size_t blocks = 0;  ///< that are to run; 0: nobody knows
    std::mutex mutex;   ///< guards what follows
    std::string printed;
    json results = json::array();
    size_t failed = 0;

    tegula::RunOptions options(const Session& session) {
        tegula::RunOptions out = session.run_options();
        if (!machine.empty()) out.machine = machine.c_str();
        out.step_budget = kMostSteps;
        out.user = this;
        out.print = [](void* user, const char* text, size_t size) {  // standard output is the protocol's
            auto& run = *static_cast<Run*>(user);
            const std::lock_guard lock(run.mutex);
            run.printed.append(text, std::min(size, kMostPrinted - std::min(run.printed.size(), kMostPrinted)));
        };
        out.progress = [](void* user, uint64_t done, uint64_t all) {
            const auto& run = *static_cast<Run*>(user);
            if (all > 0 && run.blocks == 0) run.job.report(run.title, static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(all)));
            return run.job.ended() ? 1 : 0;
        };
        return out;
    }
};

void take_result(void* user, const tegula_test_result* r) {
    auto& run = *static_cast<Run*>(user);
    json one = {{"name", r->name}, {"passed", r->status == TEGULA_OK}, {"seconds", r->seconds}};
    if (r->diags) one["message"] = tegula_diags_text(r->diags, 0);
    if (r->machines) one["machines"] = r->machines;
    if (r->metrics) one["metrics"] = json::parse(r->metrics, nullptr, false);
    run.failed += r->status != TEGULA_OK;
    run.results.push_back(std::move(one));
    run.job.report(r->name, run.blocks ? static_cast<int>(100 * run.results.size() / run.blocks) : -1);
}

/// How many blocks of a kind have a name that contains `part`.
size_t count_blocks(const tegula::Module& module, std::string_view kind, const std::string& part) {
    auto text = module.artifact("json");
    if (!text) return 0;
    const json all = json::parse(text.value(), nullptr, false);
    const json& blocks = list_at(all, kind == "test" ? "tests" : "benches");
    return static_cast<size_t>(std::ranges::count_if(
        blocks, [&](const json& b) { return (b.is_string() ? b.get<std::string>() : text_at(b, "name")).find(part) != std::string::npos; }));
}

/// A launch whose tensors come from a message.
class Launch {
public:
    Launch(tegula::Module& module, std::string kernel, std::vector<tegula::NamedValue> generics)
        : module_(module), kernel_(std::move(kernel)), generics_(std::move(generics)) {}

    void take(const json& args) {
        if (!args.is_null() && !args.is_object()) throw Failure{invalid_params, "`args` is an object: names of parameters and their values"};
        const json given = args.is_object() ? args : json::object();
        for (const auto& [name, value] : given.items()) {
            if (value.is_boolean())
                args_.emplace_back(name, value.get<bool>() ? 1 : 0);
            else if (value.is_number_unsigned())
                args_.emplace_back(name, value.get<uint64_t>());
            else if (value.is_number_integer())
                args_.emplace_back(name, value.get<int64_t>());
            else if (value.is_number())
                args_.emplace_back(name, value.get<double>());
            else
                take_array(name, value);
        }
    }
    json run(Run& run, const Session& session) {
        const json planned = plan();
        std::vector<std::string> outputs;
        for (const json& p : planned["parameters"]) prepare(p, outputs);
        double seconds = 0;
        tegula::RunOptions options = run.options(session);
        options.run_seconds = &seconds;
        need(module_.launch(kernel_, generics_, args_, options));
        json shown = json::array();
        for (const std::string& name : outputs) {
            Buffer& b = buffers_[name];
            shown.push_back({{"name", name}, {"type", b.type}, {"layout", b.layout}, {"extents", b.extents}});
            shown.back()["text"] = need(elements_text(module_, b, kMostElements, 6));
        }
        return {{"kernel", kernel_}, {"passed", true}, {"seconds", seconds}, {"outputs", std::move(shown)}, {"grid", planned["grid"]}};
    }

private:
    tegula::Module& module_;
    const std::string kernel_;
    const std::vector<tegula::NamedValue> generics_;
    std::vector<tegula::NamedValue> args_;
    std::map<std::string, List> given_;  ///< arrays, in types of their own
    std::map<std::string, Buffer> buffers_;

    template <class T>
    static T need(tegula::Result<T> result) {
        if (!result) throw Failure{result.status() == TEGULA_E_CANCELLED ? request_cancelled : request_failed, result.diagnostics().text()};
        return std::move(result).value();
    }
    /// [[1, 2], [3, 4]], or the same as text with a type: "1, 2, 3 : f16".
    void take_array(const std::string& name, const json& value) {
        std::string error = "write a number, an array of numbers, or a text of these with `:TYPE` behind them", where = visible(name.substr(0, 100));
        if (!value.is_array() && !value.is_string()) throw Failure{invalid_params, "`" + where + "`: " + error};
        auto list = read_list(value.is_string() ? value.get<std::string>() : value.dump(), error);
        if (!list) throw Failure{invalid_params, "`" + where + "`: " + error};
        given_.emplace(name, std::move(*list));
    }
    json plan() {
        std::vector<tegula::NamedValue> args = args_;
        for (const auto& [name, list] : given_)
            args.emplace_back(name, tegula::Tensor(nullptr, 0, list.typed ? list.type : "?", list.values.extents).layout("?"));
        return json::parse(need(module_.plan(kernel_, generics_, args)));
    }
    /// The tensor of a parameter: what was given in the type and layout that the launch has for it, or room for what it writes.
    void prepare(const json& p, std::vector<std::string>& outputs) {
        const std::string name = p["name"], mode = p["mode"];
        const auto given = given_.find(name);
        if (mode != "in") outputs.push_back(name);
        if (given == given_.end() && mode == "in") return;
        Buffer& buffer = buffers_[name];
        const std::string type = p.value("type", "f32"), layout = p.value("layout", "row");
        if (given != given_.end()) {
            need(convert(module_, given->second.values, type, layout, buffer));
        } else {
            buffer.type = type;
            buffer.layout = layout;
            buffer.extents = p["extents"].get<std::vector<int64_t>>();
            need(allocate(module_, buffer));
        }
        args_.emplace_back(name, tegula::Value(buffer.tensor()));
    }
};

}  // namespace

json Server::run_blocks(const std::string& uri, bool bench, const std::string& part, const std::string& machine, bool tell) {
    tegula::Module module = module_of(document({{"uri", uri}}));
    later(
        [=, this](Job& job) mutable -> json {
            Run run{job, machine, bench ? "bench" : "test", count_blocks(module, bench ? "bench" : "test", part), {}, {}, json::array(), 0};
            tegula::RunOptions options = run.options(session_);
            options.checked = !bench;
            tegula::Ref<tegula_diags> diags;
            const tegula_status status =
                (bench ? tegula_bench : tegula_test)(module.c(), part.empty() ? nullptr : part.c_str(), &options, take_result, &run, diags.out());
            if (job.ended()) return nullptr;
            const bool good = status == TEGULA_OK && run.failed == 0;
            std::string text = run.printed;
            for (const json& r : run.results)
                text += std::string(r["passed"].get<bool>() ? "ok   " : "FAIL ") + r["name"].get<std::string>() +
                        (r.contains("message") ? "\n" + r["message"].get<std::string>() : "") + "\n";
            if (status != TEGULA_OK && diags.get()) text += tegula_diags_text(diags.get(), 0);
            const size_t count = run.results.size();
            if (tell) {
                transport_.notify("window/logMessage", {{"type", good ? 3 : 1}, {"message", text}});
                transport_.notify(
                    "window/showMessage",
                    {{"type", good ? 3 : 1}, {"message", std::to_string(count - run.failed) + " passed, " + std::to_string(run.failed) + " failed"}});
            }
            json out = {{"results", std::move(run.results)}, {"passed", good}, {"printed", run.printed}};
            if (status != TEGULA_OK && diags.get()) out["message"] = tegula_diags_text(diags.get(), 0);
            return out;
        },
        {.alone = bench});
    return nullptr;
}

json Server::execute(const json& params) {
    const std::string command = text_at(params, "command");
    if (command != "tegula.test" && command != "tegula.bench") throw Failure{invalid_params, "the commands are tegula.test and tegula.bench"};
    const json& arguments = list_at(params, "arguments");
    if (arguments.empty() || !arguments[0].is_string()) throw Failure{invalid_params, "the arguments are a URI and the name of a block"};
    const std::string part = arguments.size() > 1 && arguments[1].is_string() ? arguments[1].get<std::string>() : std::string();
    return run_blocks(arguments[0], command == "tegula.bench", part, {}, true);
}

/// tegula/run {uri, test | bench: a part of its name, machine} -> {results, passed, printed}, or {uri, kernel, set, args: {NAME: number or array},
/// machine} -> {kernel, passed, seconds, outputs: [{name, type, layout, extents, text}], grid, printed}.
json Server::run_request(const json& params) {
    Document& d = document(params);
    const std::string machine = text_at(params, "machine"), kernel = text_at(params, "kernel");
    size_t asked = !kernel.empty();
    for (const char* kind : {"test", "bench"}) asked += member(params, kind).is_string();
    if (asked != 1) throw Failure{invalid_params, "one of `test`, `bench` and `kernel` says what is run: a part of a name, or a kernel"};
    if (kernel.empty()) {
        const bool bench = member(params, "bench").is_string();
        return run_blocks(d.uri, bench, text_at(params, bench ? "bench" : "test"), machine, false);
    }
    tegula::Module module = module_of(d);
    auto generics = values_of(member(params, "set"), instance_of(d, kernel));
    later([=, this, args = member(params, "args")](Job& job) mutable -> json {
        Run run{job, machine, kernel, 0, {}, {}, json::array(), 0};
        Launch launch(module, kernel, generics);
        launch.take(args);
        json out = launch.run(run, session_);
        out["printed"] = run.printed;
        return out;
    });
    return nullptr;
}

/// tegula/viz {uri, kind, kernel or what (a type), set, arch, of, format: "text", "svg", "html" or "json", width} -> {text | svg | html | json}.
json Server::picture(const json& params) {
    Document& d = document(params);
    viz::Request request;
    request.kind = text_at(params, "kind");
    const std::string kernel = text_at(params, "kernel");
    request.what = kernel.empty() ? text_at(params, "what") : kernel;
    request.arch = text_at(params, "arch");
    if (request.arch.empty() && request.kind != "layout") request.arch = arch_;
    request.of = text_at(params, "of");
    const std::string format = text_at(params, "format").empty() ? "text" : text_at(params, "format");
    if (format != "text" && format != "svg" && format != "html" && format != "json")
        throw Failure{invalid_params, "`format` is text, svg, html or json"};
    constexpr int kNarrow = 40, kWide = 1000;
    const json& width = member(params, "width");
    const int columns = width.is_number_integer() ? static_cast<int>(std::clamp<int64_t>(width.get<int64_t>(), kNarrow, kWide)) : 80;
    tegula::Module module = module_of(d);
    request.sets = values_of(member(params, "set"), instance_of(d, request.what));
    later(
        [=](Job&) mutable -> json {
            auto model = viz::model(module, request);
            if (!model) throw Failure{request_failed, model.diagnostics().text()};
            if (format == "json") return {{"json", json::parse(model.value())}};
            const std::string drawn = viz::render(model.value(), format, columns);
            if (drawn.empty()) throw Failure{request_failed, "the picture has no form as " + format};
            return {{format, drawn}};
        },
        {.of_text = false});
    return nullptr;
}

}  // namespace tegula_tool::lsp
