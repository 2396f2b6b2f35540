// `tegula run`: array files and numbers in, one kernel, array files out.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "buffers.h"
#include "terminal.h"
#include "tool.h"

namespace tegula_tool {

namespace {

using tegula::NamedValue;
using tegula::Value;

/// An array before it has the type and layout that the launch wants.
struct Given {
    std::string text;  ///< as it was written, for messages
    Buffer read;
    std::string type;        ///< to convert to
    bool open_type = false;  ///< numbers of the command line: the parameter's type, else `type`
    bool asked = false;      ///< somebody named the type
};

class Run {
public:
    explicit Run(Session& session) : session_(session), o_(session.options) {}
    int operator()();

private:
    bool fail(Exit code, const std::string& message) {
        code_ = session_.fail(code, message);
        return false;
    }
    bool accept(tegula_status status, const tegula::Diagnostics& diagnostics) {
        session_.show(diagnostics);
        if (status != TEGULA_OK) code_ = session_.exit_code(status);
        return status == TEGULA_OK;
    }
    bool choose_kernel();
    bool read_outs();
    bool read_arguments();
    bool read_argument(const std::string& arg);
    bool read_tensor(const std::string& name, const std::string& text);
    bool plan(nlohmann::json& planned);
    std::vector<NamedValue> plan_arguments(bool own_types) const;
    void advise();
    bool convert_arguments(const nlohmann::json& planned);
    bool make_outputs(const nlohmann::json& planned);
    bool launch();
    bool write_outputs();
    void report(const nlohmann::json& planned);
    std::string call_text() const;
    bool convert(Buffer& from, const std::string& type, const std::string& layout, Buffer& to) {
        const auto done = tegula_tool::convert(module_, from, type, layout, to);
        return accept(done.status(), done.diagnostics());
    }

    Session& session_;
    const Options& o_;
    tegula::Module module_;
    int code_ = ok;
    std::string kernel_;
    nlohmann::json parameters_;  ///< declared, by module JSON
    std::vector<NamedValue> generics_, args_;
    std::map<std::string, Buffer> buffers_;
    std::map<std::string, Given> given_;
    std::map<std::string, Spec> outs_;
    std::vector<std::string> outputs_, inouts_;  ///< names of parameters that are written, and of those that are read, too
    std::vector<double> runs_;                   ///< seconds of each
    double compile_seconds_ = 0;
    std::vector<double> copies_;  ///< seconds of each run that copies to and from a GPU took beside it
    size_t shown_ = 0;            ///< elements of an output without a file; 0: all
    bool to_stdout_ = false;      ///< an output goes there
};

bool Run::choose_kernel() {
    const size_t dot = o_.kernel.find('.');  // `alias.name` is a kernel of an import
    const std::string prefix = dot == std::string::npos ? "" : o_.kernel.substr(0, dot + 1);
    auto text = module_.artifact(prefix.empty() ? "json" : "json:" + o_.kernel.substr(0, dot));
    if (!prefix.empty() && !text) return fail(usage, "no kernel `" + o_.kernel + "`: the file imports no `" + o_.kernel.substr(0, dot) + "`");
    if (!accept(text.status(), text.diagnostics())) return false;
    auto json = nlohmann::json::parse(text.value());
    std::vector<std::string> names;
    for (const auto& item : json["items"]) {
        if (item["kind"] != "kernel") continue;
        names.push_back(prefix + std::string(item["name"]));
        if (o_.kernel.empty() || o_.kernel == names.back()) kernel_ = names.back(), parameters_ = item["parameters"];
    }
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    if (o_.kernel.empty() && names.size() > 1) return fail(usage, "the file has several kernels, name one: " + list);
    if (kernel_.empty()) return fail(usage, names.empty() ? "the file has no kernel" : "no kernel `" + o_.kernel + "`; kernels: " + list);
    return true;
}

/// What a pointer leads to may be written as well as read.
static bool may_be_written(const nlohmann::json& parameter) {
    return parameter["mode"] != "in" || std::string(parameter["type"]).starts_with("ptr<");
}

bool Run::read_outs() {
    bool good = true;
    for (const std::string& out : o_.outs) {
        std::string name, path;
        Spec spec;
        if (!split(out, name, path) || path.empty()) {
            good = fail(usage, "--out " + out + ": write NAME=file.npy");
            continue;
        }
        if (const std::string why = read_spec(path, spec); !why.empty() || spec.is_view)
            good = fail(usage, "--out " + out + ": " + (why.empty() ? "bytes of a file are viewed as a type where they are read" : why));
        for (const auto& [other, before] : outs_)
            if (before.path == spec.path && other != name) good = fail(usage, "--out " + out + ": `" + other + "` goes to that file already");
        if (spec.path == "-") to_stdout_ = true;
        if (spec.path == "-" && o_.json) good = fail(usage, "--out " + out + ": with --json standard output holds JSON; name a file");
        if (!outs_.emplace(name, spec).second) good = fail(usage, "--out " + out + ": `" + name + "` has a file already");
    }
    return good;
}

bool Run::read_tensor(const std::string& name, const std::string& text) {
    const std::string where = "--arg " + name + "=" + text + ": ";
    Given given{text, {}, {}, false, false};
    std::string error;
    if (text[0] == '@') {
        Spec spec;
        error = read_spec(text.substr(1), spec);
        if (!error.empty()) return fail(usage, where + error);
        if (spec.path == "-" && o_.file == "-") return fail(usage, where + "standard input is the source already");
        if (spec.extents && !spec.is_view) return fail(usage, where + "a file has its extents; `as` views its bytes as a tensor of others");
        auto array = read_array(spec.path, spec.tensor, error);
        if (!array) return fail(io, error);
        given.read = buffer_of(*array);
        const auto viewed = view(module_, spec, given.read, error);
        if (!error.empty()) return fail(run_failed, error);
        if (!accept(viewed.status(), viewed.diagnostics())) return false;
        given.asked = !spec.type.empty();
        given.type = given.asked ? spec.type : given.read.type;
    } else {
        auto list = read_list(text, error);
        if (!list) return fail(usage, where + error);
        given.read = std::move(list->values);
        given.type = list->type;
        given.asked = list->typed;
        given.open_type = !list->typed;
    }
    if (given.read.extents.empty()) {  // its value may be what a scalar parameter wants
        Buffer& buffer = buffers_[name];
        if (!convert(given.read, given.type, "row", buffer)) return false;
        args_.emplace_back(name, Value(buffer.tensor()));
        return true;
    }
    given_[name] = std::move(given);
    return true;
}

bool Run::read_argument(const std::string& arg) {
    std::string name, text;
    if (!split(arg, name, text) || text.empty()) return fail(usage, "--arg " + arg + ": write NAME=NUMBER or NAME=@file.npy");
    std::vector<std::string> names;
    for (const auto& p : parameters_) names.push_back(p["name"]);
    const std::vector<std::string_view> views(names.begin(), names.end());
    if (std::find(names.begin(), names.end(), name) == names.end())
        return fail(usage, "kernel `" + kernel_ + "` has no parameter `" + name + "`" + did_you_mean(name, views));
    if (given_.count(name) || std::any_of(args_.begin(), args_.end(), [&](const NamedValue& a) { return a.first == name; }))
        return fail(usage, "--arg " + arg + ": `" + name + "` has a value already");
    if (text[0] == '@' || text[0] == '[' || text.find(',') != text.npos) return read_tensor(name, text);
    Value value(0);
    if (!parse_number(text, value)) {
        const bool digits = text.find_first_not_of("-0123456789") == std::string::npos;
        return fail(usage, "--arg " + arg + ": `" + text + "` " +
                               (digits ? "lies beyond 64 bits; a real has a point or an exponent" : "is no number; files are written @file.npy"));
    }
    args_.emplace_back(name, value);
    return true;
}

bool Run::read_arguments() {
    bool good = true;
    int first = ok;  // of several that are wrong
    for (const std::string& arg : o_.args)
        if (!read_argument(arg)) good = false, first = first == ok ? code_ : first;
    if (!good) code_ = first;
    return good;
}

/// A call with a place for everything that it needs, to be typed.
std::string Run::call_text() const {
    std::string call = "tegula run " + o_.file + " " + kernel_, types;
    for (const auto& p : parameters_) {
        const std::string name = p["name"], type = p["type"];
        const bool tensor = type.starts_with("tensor") || type.starts_with("ptr");
        types += (types.empty() ? "" : ", ") + name + ": " + type;
        if (p["mode"] != "out" && !p.contains("default")) call += " --arg " + name + (tensor ? "=@" + name + ".npy" : "=NUMBER");
        if (p["mode"] != "in") call += " --out " + name + "=" + name + ".npy";
    }
    return call + "   with " + types;
}

/// Names for a plan: arrays in the types and layouts that their parameters have, where those are open.
std::vector<NamedValue> Run::plan_arguments(bool own_types) const {
    std::vector<NamedValue> out = args_;
    for (const auto& [name, g] : given_)
        out.emplace_back(name, Value(tegula::Tensor(nullptr, 0, g.open_type && !own_types ? "?" : g.type, g.read.extents).layout("?")));
    for (const auto& [name, spec] : outs_)
        if (spec.extents && !given_.count(name))
            out.emplace_back(name, Value(tegula::Tensor(nullptr, 0, own_types ? spec.type : "?", *spec.extents).layout("?")));
    return out;
}

bool Run::plan(nlohmann::json& planned) {
    for (const auto& [name, spec] : outs_)
        if (std::none_of(parameters_.begin(), parameters_.end(), [&, n = name](const auto& p) { return p["name"] == n && may_be_written(p); }))
            return fail(usage, "--out " + name + ": the kernel has no such output");
    auto plan = module_.plan(kernel_, generics_, plan_arguments(false));
    if (!plan)
        if (auto own = module_.plan(kernel_, generics_, plan_arguments(true))) plan = std::move(own);
    if (!accept(plan.status(), plan.diagnostics())) return advise(), false;
    planned = nlohmann::json::parse(plan.value());
    return true;
}

/// What would cure a launch that was refused.
void Run::advise() {
    bool complete = true;
    for (const auto& p : parameters_) {
        const std::string name = p["name"], type = p["type"];
        const bool absent = !given_.count(name) && std::none_of(args_.begin(), args_.end(), [&](const NamedValue& a) { return a.first == name; });
        if (p["mode"] != "out" && absent && !p.contains("default")) complete = false;
        const auto it = given_.find(name);
        if (it == given_.end() || it->second.asked || !type.starts_with("tensor<")) continue;
        const Given& g = it->second;
        const std::string element = type.substr(7, type.rfind(">[") - 7);
        auto wanted = module_.tensor_bytes(element, "row", std::vector<int64_t>{8});
        auto has = module_.tensor_bytes(g.type, "row", std::vector<int64_t>{8});
        if (g.open_type || element == g.type || !wanted || !has) continue;
        session_.hint("--arg " + name + "=" + g.text + ":" + element + " converts " + g.type + " to " + element);
        const bool integer = g.type[0] == 'i' || g.type[0] == 'u';
        if (integer && wanted.value().elements < 8 && wanted.value().elements < has.value().elements)
            session_.hint("where its bytes are packed elements: --arg '" + name + "=" + g.text + " as " + element +
                          type.substr(type.rfind(">[") + 1) + "' with numbers for the extents");
    }
    if (!complete) session_.hint("type: " + call_text());
}

/// Arrays in the type that was asked for and the layout that the launch has for them.
bool Run::convert_arguments(const nlohmann::json& planned) {
    for (const auto& p : planned) {
        auto it = given_.find(p["name"]);
        if (it == given_.end()) continue;
        auto& [name, given] = *it;
        const std::string layout = p.value("layout", "row"), type = given.open_type ? p.value("type", given.type) : given.type;
        Buffer& buffer = buffers_[name];
        if (layout == given.read.layout && type == given.read.type)
            buffer = std::move(given.read);
        else if (!convert(given.read, type, layout, buffer))
            return false;
        else if (given.open_type && (given.read.type != "f64" || is_integer(type))) {  // numbers of the command line must be the parameter's
            Buffer back;
            if (!convert(buffer, given.read.type, "row", back)) return false;
            if (back.data != given.read.data)
                return fail(run_failed, "--arg " + name + "=" + given.text + ": not all of these are values of " + type + "; `:" + type +
                                            "` behind them converts");
        }
        args_.emplace_back(name, Value(buffer.tensor()));
    }
    return true;
}

bool Run::make_outputs(const nlohmann::json& planned) {
    for (const auto& p : planned) {
        const std::string name = p["name"];
        const bool pointer = p["mode"] == "in" && outs_.count(name);
        if (p["mode"] == "in" && !pointer) continue;
        outputs_.push_back(name);
        if (buffers_.count(name)) {
            if (p["mode"] == "inout" || pointer) inouts_.push_back(name);
            continue;
        }
        Buffer& buffer = buffers_[name];
        buffer.type = p["type"];
        buffer.layout = p["layout"];
        buffer.extents = p["extents"].get<std::vector<int64_t>>();
        const auto room = allocate(module_, buffer);
        if (!accept(room.status(), room.diagnostics())) return false;
        args_.emplace_back(name, Value(buffer.tensor()));
    }
    return true;
}

bool Run::launch() {
    tegula::RunOptions run = session_.run_options();
    if (to_stdout_) run.print = [](void*, const char* text, size_t size) { print_lines({text, size}, stderr); };
    std::map<std::string, std::vector<uint8_t>> before;  // each of several runs begins with the same values
    const uint64_t reps = std::max<uint64_t>(o_.reps, 1);
    if (reps > 1)
        for (const std::string& name : inouts_) before[name] = buffers_[name].data;
    for (uint64_t i = 0; i < reps; ++i) {
        for (const auto& [name, data] : before) std::copy(data.begin(), data.end(), buffers_[name].data.begin());
        double seconds = 0;
        double copies = 0;
        run.run_seconds = &seconds;
        run.copy_seconds = &copies;
        const auto start = std::chrono::steady_clock::now();
        auto launched = module_.launch(kernel_, generics_, args_, run);
        const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        erase_progress();
        if (!accept(launched.status(), launched.diagnostics())) return false;
        if (i == 0) compile_seconds_ = std::max(all - seconds - copies, 0.0);
        runs_.push_back(seconds);
        copies_.push_back(copies);
    }
    return true;
}

bool Run::write_outputs() {
    std::signal(SIGALRM, SIG_IGN);  // a write that has begun is finished; a second signal still ends it
    for (const std::string& name : outputs_) {
        Buffer& buffer = buffers_[name];
        const std::string head = name + ": " + buffer.type + "[" + shape_text(buffer) + "]";
        auto it = outs_.find(name);
        if (it == outs_.end()) {
            if (o_.json || o_.quiet) continue;
            auto text = elements_text(module_, buffer, shown_, static_cast<int>(std::min<uint64_t>(o_.digits, 17)));
            if (!accept(text.status(), text.diagnostics())) return false;
            std::fprintf(to_stdout_ ? stderr : stdout, "%s  %s\n", head.c_str(), text.value().c_str());
            continue;
        }
        const Spec& spec = it->second;
        Buffer plain;
        const std::string type = spec.type.empty() ? buffer.type : spec.type;
        if (!is_safetensors(spec.path) && !has_dtype(type, buffer.extents, false))
            return fail(io, (spec.path == "-" ? "standard output" : spec.path) + ": type " + type +
                                " has no .npy type; write .safetensors, or convert it: --out " + name + "=" + spec.path + ":f32");
        if (!convert(buffer, type, "row", plain)) return false;
        auto array = array_of(module_, plain, false, spec.path);
        if (!accept(array.status(), array.diagnostics())) return false;
        std::string error;
        if (!write_array(spec.path, spec.tensor.empty() ? name : spec.tensor, array.value(), error)) return fail(io, error);
        if (!o_.json) session_.note(head + " -> " + (spec.path == "-" ? "standard output" : spec.path));
    }
    return true;
}

/// The value below which this share of sorted numbers lies, between two of them in proportion.
double quantile(const std::vector<double>& sorted, double share) {
    const double at = share * static_cast<double>(sorted.size() - 1);
    const size_t low = static_cast<size_t>(at), high = std::min(low + 1, sorted.size() - 1);
    return sorted[low] + (sorted[high] - sorted[low]) * (at - static_cast<double>(low));
}

void Run::report(const nlohmann::json& planned) {
    std::vector<double> sorted = runs_;
    std::sort(sorted.begin(), sorted.end());
    constexpr std::pair<const char*, double> kQuantiles[] = {
        {"min", 0}, {"lower_quartile", 0.25}, {"median", 0.5}, {"upper_quartile", 0.75}, {"max", 1}};
    const double median = quantile(sorted, 0.5);
    std::sort(copies_.begin(), copies_.end());
    const double copies = quantile(copies_, 0.5);
    const double share = copies > 0 ? copies / (copies + median) : 0;
    uint64_t bytes = 0;  // that a launch moves at least: each tensor once
    for (const auto& p : planned["parameters"]) bytes += p.value("bytes", uint64_t{0}) + p.value("scales_bytes", uint64_t{0});
    if (o_.json) {
        nlohmann::json out = {{"schema", 1},
                              {"kernel", kernel_},
                              {"status", "ok"},
                              {"seconds", compile_seconds_ + runs_.front()},
                              {"compile_seconds", compile_seconds_},
                              {"run_seconds", median},
                              {"copy_seconds", copies},
                              {"copy_share", share},
                              {"machine", session_.machine_name()},
                              {"generics", planned["generics"]},
                              {"extents", planned["extents"]},
                              {"grid", planned["grid"]},
                              {"bytes", bytes}};
        for (const std::string& name : outputs_) {
            const Buffer& b = buffers_[name];
            nlohmann::json one = {{"name", name}, {"type", b.type}, {"layout", b.layout}, {"extents", b.extents}};
            if (const auto it = outs_.find(name); it != outs_.end()) one["file"] = it->second.path;
            out["outputs"].push_back(one);
        }
        if (!out.contains("outputs")) out["outputs"] = nlohmann::json::array();
        if (o_.reps) {
            out["runs"]["count"] = runs_.size();
            for (const auto& [name, share] : kQuantiles) out["runs"][name] = quantile(sorted, share);
        }
        std::printf("%s\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
        return;
    }
    if (!o_.time && !o_.reps) return;
    const auto ms = [](double seconds) { return decimal(seconds * 1e3, seconds < 1e-3 ? 4 : 3, std::chars_format::fixed) + " ms"; };
    std::string line = kernel_ + ": compile " + ms(compile_seconds_) + ", run " + ms(median);
    const std::string copied = copies > 0 ? ", copies " + ms(copies) + " (" + decimal(share * 100, 0, std::chars_format::fixed) + " % of both)" : "";
    if (o_.reps) {
        line += " (median of " + std::to_string(runs_.size()) + "; min " + ms(sorted.front()) + ", quartiles " + ms(quantile(sorted, 0.25)) +
                " and " + ms(quantile(sorted, 0.75)) + ", max " + ms(sorted.back()) + ")";
        if (bytes && median > 0) line += ", " + decimal(static_cast<double>(bytes) / median * 1e-9, 3) + " GB/s";
    }
    line += copied;
    std::fprintf(to_stdout_ ? stderr : stdout, "%s\n", line.c_str());
}

int Run::operator()() {
    if (!session_.load(o_.file, module_, code_)) return code_;
    if (!choose_kernel()) return code_;
    const char* const end = o_.show.data() + o_.show.size();
    if (o_.show != "all" && (std::from_chars(o_.show.data(), end, shown_).ptr != end || shown_ == 0))
        return session_.fail(usage, "--show: `" + o_.show + "` is no number from 1 up, nor all");
    auto generics = session_.generics();
    const bool outs = read_outs();
    const int first = code_;
    if (!generics) return usage;
    generics_ = std::move(*generics);
    if (!read_arguments() || !outs) return outs ? code_ : first;
    nlohmann::json planned;
    if (!plan(planned)) return code_;
    if (!convert_arguments(planned["parameters"]) || !make_outputs(planned["parameters"]) || !launch() || !write_outputs()) return code_;
    report(planned);
    return ok;
}

}  // namespace

int run_kernel(Session& session) { return Run(session)(); }

}  // namespace tegula_tool
