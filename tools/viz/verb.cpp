// The verb `viz`.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/files.h"
#include "tools/terminal.h"
#include "tools/tool.h"
#include "tools/viz/drawing.h"
#include "tools/viz/viz.h"

namespace tegula_tool {

namespace {

int columns() {
    struct winsize size {};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// The form that the file's ending asks for where none is named.
std::string form_of(const Options& o) {
    if (!o.form.empty()) return o.form;
    for (const char* form : {"svg", "html", "json"})
        if (o.out.ends_with(std::string(".") + form)) return form;
    return o.json ? "json" : "text";
}

/// The model of a kernel's stages with its machine code, where that can be shown; else a note says why not.
std::string with_machine_code(const tegula::Module& module, const viz::Request& request, const std::string& model) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(model);
    const nlohmann::ordered_json* cuda = nullptr;
    for (const auto& figure : json["figures"])
        if (figure.value("language", "") == "cuda") cuda = &figure;
    const std::string title = json["title"];
    auto compiled = module.compile(title.substr(0, title.find(' ')), request.sets);
    if (!compiled || !cuda) return model;
    auto cubin = compiled.value().artifact("cubin-lines" + (request.arch.empty() ? "" : "@" + request.arch));
    Exit code = ok;
    std::string error = "there is no cubin";
    std::optional<std::string> text;
    if (cubin) text = disassembly(cubin.value(), true, code, error);
    if (text)
        json["figures"].push_back(viz::machine_code(*text, (*cuda)["places"]));
    else
        json["notes"].push_back("no machine code: " + error);
    return json.dump() + "\n";
}

}  // namespace

int draw_picture(Session& session) {
    const Options& o = session.options;
    const auto sets = session.generics();
    if (!sets) return usage;
    tegula::Module module;
    int code = ok;
    if (!session.load(o.file, module, code)) return code;
    const viz::Request request{o.picture, o.kernel, *sets, o.arch, o.of};
    auto model = viz::model(module, request);
    session.show(model.diagnostics());
    if (!model) return session.exit_code(model.status());
    const std::string form = form_of(o);
    const bool printed = o.out.empty() || o.out == "-";
    const std::string json = o.picture == "source" ? with_machine_code(module, request, model.value()) : model.value();
    const std::string drawn = viz::render(json, form, printed ? columns() : 80, printed && form == "text" && session.colour_output());
    if (printed) {
        std::fputs(drawn.c_str(), stdout);
        return ok;
    }
    std::string error;
    return write_file(o.out, drawn, error) ? int{ok} : session.fail(io, error);
}

}  // namespace tegula_tool
