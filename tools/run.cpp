// `tegula run`: array files and numbers in, one kernel, array files out.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>

#include "buffers.h"
#include "terminal.h"
#include "tool.h"

namespace tegula_tool {

namespace {

using tegula::NamedValue;
using tegula::Value;

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
    bool read_generics();
    bool read_arguments();
    bool read_tensor(const Spec& spec);
    bool convert_arguments(const nlohmann::json& planned);
    bool make_outputs();
    bool write_outputs();
    bool convert(Buffer& from, const std::string& type, const std::string& layout, Buffer& to) {
        const auto done = tegula_tool::convert(module_, from, type, layout, to);
        return accept(done.status(), done.diagnostics());
    }
    std::string preview(Buffer& buffer);

    Session& session_;
    const Options& o_;
    tegula::Module module_;
    int code_ = ok;
    std::string kernel_;
    nlohmann::json parameters_;  ///< declared, by module JSON
    std::vector<NamedValue> generics_, args_;
    std::map<std::string, Buffer> buffers_;
    std::map<std::string, std::pair<Buffer, std::string>> read_;  ///< array files before conversion, and the element type to give them
    std::map<std::string, Spec> outs_;
    std::vector<std::string> outputs_;  ///< names of out and inout parameters in order
};

bool Run::choose_kernel() {
    const size_t dot = o_.kernel.find('.');  // `alias.name` is a kernel of an import
    const std::string prefix = dot == std::string::npos ? "" : o_.kernel.substr(0, dot + 1);
    auto text = module_.artifact(prefix.empty() ? "json" : "json:" + o_.kernel.substr(0, dot));
    if (!prefix.empty() && !text) return fail(usage, "no kernel `" + o_.kernel + "`: the file imports no `" + o_.kernel.substr(0, dot) + "`");
    if (!accept(text.status(), text.diagnostics())) return false;
    auto json = nlohmann::json::parse(text.value());
    std::string names;
    for (const auto& item : json["items"]) {
        if (item["kind"] != "kernel") continue;
        const std::string name = prefix + std::string(item["name"]);
        names += (names.empty() ? "" : ", ") + name;
        if (o_.kernel.empty() || o_.kernel == name) kernel_ = name, parameters_ = item["parameters"];
    }
    if (o_.kernel.empty() && names.find(", ") != std::string::npos) return fail(usage, "the file has several kernels, name one: " + names);
    if (kernel_.empty()) return fail(usage, names.empty() ? "the file has no kernel" : "no kernel `" + o_.kernel + "`; kernels: " + names);
    return true;
}

bool Run::read_generics() {
    auto generics = session_.generics();
    if (!generics) return code_ = usage, false;
    generics_ = std::move(*generics);
    for (const std::string& out : o_.outs) {
        std::string name, path;
        if (!split(out, name, path) || path.empty()) return fail(usage, "--out " + out + ": write NAME=file.npy");
        const Spec spec = file_spec(name, path);
        if (spec.path == "-") return fail(usage, "--out " + out + ": write /dev/stdout for standard output, or ./- for a file of that name");
        for (const auto& [other, before] : outs_)
            if (before.path == spec.path) return fail(usage, "--out " + out + ": `" + other + "` goes to that file already");
        if (!outs_.emplace(name, spec).second) return fail(usage, "--out " + out + ": `" + name + "` has a file already");
    }
    return true;
}

bool Run::read_tensor(const Spec& spec) {
    std::string error;
    auto array = read_array(spec.path, spec.tensor, error);
    if (!array) return fail(io, error);
    Buffer read = buffer_of(*array);
    const std::string type = spec.type.empty() ? read.type : spec.type;
    if (read.extents.empty()) {  // its value may be what a scalar parameter wants
        Buffer& buffer = buffers_[spec.name];
        if (!convert(read, type, "row", buffer)) return false;
        args_.emplace_back(spec.name, Value(buffer.tensor()));
        return true;
    }
    args_.emplace_back(spec.name, Value(tegula::Tensor(nullptr, 0, type, read.extents).layout("?")));
    read_[spec.name] = {std::move(read), type};
    return true;
}

/// Array files in the type that was asked for and the layout that the launch has for them.
bool Run::convert_arguments(const nlohmann::json& planned) {
    for (const auto& p : planned) {
        auto it = read_.find(p["name"]);
        if (it == read_.end()) continue;
        auto& [name, file] = *it;
        auto& [read, type] = file;
        const std::string layout = p.value("layout", "row");
        Buffer& buffer = buffers_[name];
        if (layout == read.layout && type == read.type)
            buffer = std::move(read);
        else if (!convert(read, type, layout, buffer))
            return false;
        for (NamedValue& arg : args_)
            if (arg.first == name) arg.second = Value(buffer.tensor());
    }
    read_.clear();
    return true;
}

bool Run::read_arguments() {
    for (const std::string& arg : o_.args) {
        std::string name, text;
        if (!split(arg, name, text) || text.empty()) return fail(usage, "--arg " + arg + ": write NAME=NUMBER or NAME=@file.npy");
        const auto is_it = [&](const nlohmann::json& p) { return p["name"] == name; };
        if (std::none_of(parameters_.begin(), parameters_.end(), is_it))
            return fail(usage, "kernel `" + kernel_ + "` has no parameter `" + name + "`");
        if (text[0] == '@') {
            if (!read_tensor(file_spec(name, text.substr(1)))) return false;
            continue;
        }
        Value value(0);
        if (!parse_number(text, value)) {
            const bool digits = text.find_first_not_of("-0123456789") == std::string::npos;
            return fail(usage, "--arg " + arg + ": `" + text + "` " +
                                   (digits ? "lies beyond 64 bits; a real has a point or an exponent" : "is no number; files are written @file.npy"));
        }
        args_.emplace_back(name, value);
    }
    return true;
}

bool Run::make_outputs() {
    auto plan = module_.plan(kernel_, generics_, args_);
    if (!accept(plan.status(), plan.diagnostics())) return false;
    auto json = nlohmann::json::parse(plan.value());
    if (!convert_arguments(json["parameters"])) return false;
    for (const auto& p : json["parameters"]) {
        const std::string name = p["name"];
        if (p["mode"] == "in") continue;
        outputs_.push_back(name);
        if (buffers_.count(name)) continue;
        Buffer& buffer = buffers_[name];
        buffer.type = p["type"];
        buffer.layout = p["layout"];
        buffer.extents = p["extents"].get<std::vector<int64_t>>();
        const auto room = allocate(module_, buffer);
        if (!accept(room.status(), room.diagnostics())) return false;
        args_.emplace_back(name, Value(buffer.tensor()));
    }
    for (const auto& [name, spec] : outs_)
        if (std::find(outputs_.begin(), outputs_.end(), name) == outputs_.end())
            return fail(usage, "--out " + name + ": the kernel has no such output");
    return true;
}

std::string Run::preview(Buffer& buffer) {
    Buffer plain;
    if (!convert(buffer, "f64", "row", plain)) return {};
    const double* values = reinterpret_cast<const double*>(plain.data.data());
    const size_t count = plain.data.size() / sizeof(double);
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(count, 8); ++i) {
        text += (i ? " " : "") + decimal(values[i], 6);
    }
    return text + (count > 8 ? " .." : "");
}

bool Run::write_outputs() {
    std::signal(SIGALRM, SIG_IGN);  // a write that has begun is finished; a second signal still ends it
    for (const std::string& name : outputs_) {
        Buffer& buffer = buffers_[name];
        const std::string head = name + ": " + buffer.type + "[" + shape_text(buffer) + "]";
        auto it = outs_.find(name);
        if (it == outs_.end()) {
            if (!o_.json && !o_.quiet) std::printf("%s  %s\n", head.c_str(), preview(buffer).c_str());
            continue;
        }
        const Spec& spec = it->second;
        Buffer plain;
        const std::string type = spec.type.empty() ? buffer.type : spec.type;
        if (!convert(buffer, type, "row", plain)) return false;
        auto array = array_of(module_, plain, false, spec.path);
        if (!accept(array.status(), array.diagnostics())) return false;
        std::string error;
        if (!write_array(spec.path, spec.tensor.empty() ? name : spec.tensor, array.value(), error)) return fail(io, error);
        if (!o_.json) session_.note(head + " -> " + spec.path);
    }
    return true;
}

int Run::operator()() {
    if (!session_.load(o_.file, module_, code_)) return code_;
    if (!choose_kernel() || !read_generics() || !read_arguments() || !make_outputs()) return code_;
    tegula::RunOptions run = session_.run_options();
    auto start = std::chrono::steady_clock::now();
    auto launched = module_.launch(kernel_, generics_, args_, run);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    erase_progress();
    if (!accept(launched.status(), launched.diagnostics()) || !write_outputs()) return code_;
    if (o_.json)
        std::printf("{\"schema\":1,\"kernel\":%s,\"status\":\"ok\",\"seconds\":%s}\n", json_text(kernel_).c_str(), decimal(seconds, 9).c_str());
    else if (o_.time)
        std::printf("%s: %s ms (compile and run)\n", kernel_.c_str(), decimal(seconds * 1e3, 3, std::chars_format::fixed).c_str());
    return ok;
}

}  // namespace

int run_kernel(Session& session) { return Run(session)(); }

}  // namespace tegula_tool
