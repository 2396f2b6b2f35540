// The passes that every machine shares, in order. The verifier runs before the first and after each one: a broken invariant names its pass.
#include <algorithm>

#include "lang/ir_text.h"
#include "lower/lower.h"

namespace tegula {

namespace {

struct Pass {
    std::string_view name;
    bool (*run)(ir::Function& fn, const PassOptions& options);
};

constexpr std::string_view kRequired = "split_k";
constexpr Pass kPasses[] = {
    {kRequired, [](ir::Function& fn, const PassOptions&) { return split_k(fn); }},
    {"extents", [](ir::Function& fn, const PassOptions& options) { return fix_extents(fn, options); }},
    {"fold", [](ir::Function& fn, const PassOptions&) { return fold(fn); }},
    {"cse", [](ir::Function& fn, const PassOptions&) { return cse(fn); }},
    {"licm", [](ir::Function& fn, const PassOptions&) { return licm(fn); }},
    {"masks", [](ir::Function& fn, const PassOptions& options) { return masks(fn, options); }},
    {"recognise", [](ir::Function& fn, const PassOptions&) { return recognise(fn); }},
    {"fold", [](ir::Function& fn, const PassOptions&) { return fold(fn); }},
    {"cse", [](ir::Function& fn, const PassOptions&) { return cse(fn); }},
    {"licm", [](ir::Function& fn, const PassOptions&) { return licm(fn); }},
    {"masks", [](ir::Function& fn, const PassOptions& options) { return masks(fn, options); }},
    {"dce", [](ir::Function& fn, const PassOptions&) { return dce(fn); }},
};

void check(const ir::Function& fn, std::string_view when) {
    const std::vector<std::string> problems = ir::verify(fn);
    if (problems.empty()) return;
    std::string text = "kernel " + fn.name + ", " + std::string(when);
    for (size_t i = 0; i < std::min<size_t>(problems.size(), 5); ++i) text += "\n  " + problems[i];
    TEGULA_CHECK(problems.empty(), text);
}

bool wants_split(const ir::Function& fn) { return ir::find_hint(fn.hints, "split_k") != nullptr; }

}  // namespace

std::vector<std::string_view> pass_names() {
    std::vector<std::string_view> names;
    for (const Pass& p : kPasses)
        if (std::find(names.begin(), names.end(), p.name) == names.end()) names.push_back(p.name);
    return names;
}

void run_passes(ir::Function& fn, const PassOptions& options) {
    check(fn, "before the passes");
    const auto disabled = [&](std::string_view name) {
        return std::find(options.disabled.begin(), options.disabled.end(), name) != options.disabled.end();
    };
    for (const Pass& p : kPasses) {
        if (p.name == kRequired ? !wants_split(fn) : disabled("all") || disabled(p.name)) continue;
        poll(options.cancel);
        const bool changed = p.run(fn, options);
        check(fn, "after pass " + std::string(p.name));
        if (options.after) options.after(p.name, changed, fn);
    }
}

}  // namespace tegula
