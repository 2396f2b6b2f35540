// The verb `viz`.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/buffers.h"
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

/// A model whose texts cannot command a terminal.
std::string harmless(const std::string& model) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(model);
    const auto clean = [](const auto& self, nlohmann::ordered_json& value) -> void {
        if (value.is_string()) value = visible(value.get_ref<const std::string&>(), true);
        if (value.is_structured())
            for (auto& inner : value) self(self, inner);
    };
    clean(clean, json);
    return json.dump();
}

/// The form that the file's ending asks for where none is named.
std::string form_of(const Options& o) {
    if (!o.form.empty()) return o.form;
    for (const char* form : {"svg", "html", "json"})
        if (o.out.ends_with(std::string(".") + form)) return form;
    return o.json ? "json" : "text";
}

/// Does `--of` name a pane of the source's picture? Without it all are shown.
bool has_pane(const std::string& list, const std::string& name) {
    std::string text = "," + list + ",";
    std::erase(text, ' ');
    return list.empty() || text.find("," + name + ",") != text.npos;
}

/// The places of the lines of the CUDA text.
nlohmann::ordered_json cuda_places(tegula::Module& module, viz::Request request) {
    request.of = "cuda";
    if (auto model = viz::model(module, request))
        for (const auto& figure : nlohmann::ordered_json::parse(model.value())["figures"])
            if (figure.value("language", "") == "cuda") return figure["places"];
    return nlohmann::ordered_json::array();
}

/// The model of a kernel's stages with its machine code, where that can be shown; else a note says why not.
std::string with_machine_code(tegula::Module& module, const viz::Request& request, const std::string& model) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(model);
    const std::string title = json["title"];
    auto compiled = module.compile(title.substr(0, title.find(' ')), request.sets);
    if (!compiled) return model;
    auto cubin = compiled.value().artifact("cubin-lines" + (request.arch.empty() ? "" : "@" + request.arch));
    Exit code = ok;
    std::string error = "there is no cubin";
    std::optional<std::string> text;
    if (cubin) text = disassembly(cubin.value(), true, code, error);
    if (text) {
        auto& figures = json["figures"];  // before the panes of the processor
        const auto processor = std::find_if(figures.begin(), figures.end(),
                                            [](const auto& f) { return f.value("language", "") == "llvm" || f.value("language", "") == "asm"; });
        figures.insert(processor, viz::machine_code(*text, cuda_places(module, request)));
    } else {
        json["notes"].push_back("no sass: " + error);
    }
    return json.dump() + "\n";
}

/// An array of a file, in the type that the text asks for, or in `type`; nullopt: said, `code` is set.
std::optional<Buffer> array_in(Session& session, const tegula::Module& module, const std::string& text, const std::string& type, int& code) {
    Spec spec;
    std::string error = read_spec(text, spec);
    const auto refuse = [&](Exit what, const std::string& why) {
        code = session.fail(what, why);
        return std::nullopt;
    };
    if (!error.empty()) return refuse(usage, text + ": " + error);
    const auto array = read_array(spec.path, spec.tensor, error);
    if (!array) return refuse(io, error);
    Buffer read = buffer_of(*array), out;
    const auto accept = [&](const tegula::Result<tegula::Unit>& done) {
        session.show(done.diagnostics());
        code = session.exit_code(done.status());
        return done.status() == TEGULA_OK;
    };
    if (!accept(view(module, spec, read, error))) {
        if (!error.empty()) return refuse(usage, text + ": " + error);
        return std::nullopt;
    }
    const std::string wanted = !type.empty() ? type : !spec.type.empty() && !spec.is_view ? spec.type : read.scales.empty() ? read.type : "f32";
    if (!accept(convert(module, read, wanted, "row", out))) return std::nullopt;
    return out;
}

/// `viz diff A B`: how the arrays of two files differ, in the type of the first one.
tegula::Result<std::string> difference(Session& session, int& code) {
    const Options& o = session.options;
    const tegula::Result<std::string> none{TEGULA_E_USAGE, {}, {}};
    code = usage;
    if (o.kernel.empty()) return session.fail(usage, "diff takes two arrays: tegula viz diff A.npy B.npy"), none;
    auto module = session.engine.load("edition 1;\n", "<none>");
    if (!module) return session.show(module.diagnostics()), none;
    auto a = array_in(session, module.value(), o.file, "", code);
    if (!a) return none;
    auto b = array_in(session, module.value(), o.kernel, a->type, code);
    if (!b) return none;
    code = ok;
    auto made = module.value().diff(a->tensor(), b->tensor());
    if (!made) return made;
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(made.value());
    json["facts"].insert(json["facts"].begin(), {{{"name", "first"}, {"value", o.file}}, {{"name", "second"}, {"value", o.kernel}}});
    return {TEGULA_OK, made.diagnostics(), json.dump() + "\n"};
}

/// A picture of text of the language.
tegula::Result<std::string> picture(Session& session, int& code) {
    const Options& o = session.options;
    const tegula::Result<std::string> none{TEGULA_E_USAGE, {}, {}};
    const auto sets = session.generics();
    code = usage;
    if (!sets) return none;
    tegula::Module module;
    if (!session.load(o.file, module, code)) return none;
    code = ok;
    const viz::Request request{o.picture, o.kernel, *sets, o.arch, o.of};
    auto model = viz::model(module, request);
    if (!model || o.picture != "source" || !has_pane(o.of, "sass")) return model;
    return {TEGULA_OK, model.diagnostics(), with_machine_code(module, request, model.value())};
}

}  // namespace

int draw_picture(Session& session) {
    const Options& o = session.options;
    int code = ok;
    auto model = o.picture == "diff" ? difference(session, code) : picture(session, code);
    if (code != ok) return code;
    session.show(model.diagnostics());
    if (!model) return session.exit_code(model.status());
    const std::string form = form_of(o);
    const bool printed = o.out.empty() || o.out == "-";
    const std::string shown = printed && form == "text" ? harmless(model.value()) : model.value();
    const std::string drawn = viz::render(shown, form, printed ? columns() : 80, printed && form == "text" && session.colour_output());
    if (printed) {
        std::fputs(drawn.c_str(), stdout);
        return ok;
    }
    std::string error;
    return write_file(o.out, drawn, error) ? int{ok} : session.fail(io, error);
}

}  // namespace tegula_tool
