// `tegula pack`: an array file in another type and storage order, and back.
#include <cstdio>

#include "buffers.h"
#include "tool.h"

namespace tegula_tool {

int pack_file(Session& session) {
    const Options& o = session.options;
    const auto accept = [&](const auto& result) {
        session.show(result.diagnostics());
        return static_cast<bool>(result);
    };
    tegula::Module module;
    int code = ok;
    if (!o.with.empty() && !session.load(o.with, module, code)) return code;
    if (o.with.empty()) {
        auto empty = session.engine.load("edition 1;\n", "<none>");
        if (!accept(empty)) return session.exit_code(empty.status());
        module = empty.value();
    }
    const Spec in = file_spec("", o.in), out = file_spec("", o.out);
    if (!out.type.empty()) return session.fail(usage, "the type is given by --type");
    if (!o.layout.empty() && !is_safetensors(out.path)) return session.fail(usage, out.path + ": packed arrays are written to .safetensors");
    std::string error;
    const auto array = read_array(in.path, in.tensor, error);
    if (!array) return session.fail(io, error);
    Buffer from = buffer_of(*array), to;
    const std::string type = !o.type.empty() ? o.type : !in.type.empty() ? in.type : from.type;
    if (const auto done = convert(module, from, type, o.layout.empty() ? "row" : o.layout, to); !accept(done))
        return session.exit_code(done.status());
    auto packed = array_of(module, to, !o.layout.empty(), out.path);
    if (!accept(packed)) return session.exit_code(packed.status());
    if (!write_array(out.path, out.tensor, packed.value(), error)) return session.fail(io, error);
    const std::string shape = shape_text(to);
    if (o.json)
        std::printf("{\"schema\":1,\"file\":%s,\"type\":%s,\"extents\":[%s],\"layout\":%s}\n", json_text(out.path).c_str(), json_text(type).c_str(),
                    shape.c_str(), json_text(to.layout).c_str());
    else
        session.note(type + "[" + shape + "] @ " + to.layout + " -> " + out.path);
    return ok;
}

}  // namespace tegula_tool
