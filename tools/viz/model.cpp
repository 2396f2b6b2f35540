// Asks the library for the model of a picture.
#include <nlohmann/json.hpp>

#include "tools/viz/viz.h"

namespace tegula_tool::viz {

namespace {

constexpr Kind kKinds[] = {
    {"layout", "where each index of a tensor lies in memory, and what lies at each place", true, true},
    {"bits", "how the bits of narrow elements fill bytes and words", true, true},
    {"format", "the numbers of a format: every code, gaps, and what is rounded to each", true, true},
    {"fragment", "which thread holds which element of the operands of tensor-core instructions", true, true},
    {"place", "which thread and register, or byte of shared memory, holds each element of a tile", false, true},
    {"banks", "conflicts of accesses to shared memory, in rows and as stored", true, true},
    {"sectors", "bytes that accesses to memory ask for and move", false, true},
    {"convert", "how tiles change hands between threads, and what it costs", false, true},
    {"pipeline", "copies, the stages of rings and products in time", false, true},
    {"smem", "where buffers lie in shared memory, and when they are in use", false, true},
    {"resources", "what the programs of an SM take, the limit, and what one change gives", false, true},
    {"roofline", "time, bandwidth and arithmetic of a launch below their roof", false, true},
    {"grid", "the order of the programs of a launch, and what those at the same time share", false, true},
    {"tune", "the candidates of `tune` with their estimates", false, true},
    {"source", "the source beside its IR, CUDA, PTX and machine code, line by line", false, true},
};

/// The names of items of a kind: "kernel", "import".
std::vector<std::string> names_of(const tegula::Module& module, std::string_view kind) {
    std::vector<std::string> out;
    auto text = module.artifact("json");
    if (!text) return out;
    const auto json = nlohmann::json::parse(text.value());
    for (const auto& item : json["items"])
        if (item["kind"] == kind) out.push_back(item["name"]);
    return out;
}

bool has(const std::vector<std::string>& names, const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); }

}  // namespace

std::span<const Kind> kinds() { return kKinds; }

tegula::Result<std::string> model(tegula::Module& module, const Request& request) {
    const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.name == request.kind; });
    std::string artifact = "picture:" + request.kind + (request.arch.empty() ? "" : "@" + request.arch), kernel = request.what;
    const std::vector<std::string> names = names_of(module, "kernel");
    if (kernel.empty() && !names.empty()) kernel = names[0];
    const bool known = has(names, kernel) || has(names_of(module, "import"), kernel.substr(0, kernel.find('.')));  // alias.kernel
    if (kind == std::end(kKinds) || (kind->of_types && !known)) return module.artifact(artifact + ":" + request.what);
    auto compiled = module.compile(kernel, request.sets);
    if (!compiled) return {compiled.status(), compiled.diagnostics(), {}};
    return compiled.value().artifact(artifact + (request.of.empty() ? "" : ":" + request.of));
}

}  // namespace tegula_tool::viz
