// The GPU passes in order. The verifier runs after each, and nothing leaves that `prove` does not accept. Shared memory decides last: when tiles that
// must lie there do not fit, the passes start over with fewer of them.
#include <algorithm>

#include "lang/ir_text.h"
#include "lower/gpu/place.h"
#include "lower/gpu/views.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

constexpr std::string_view kSpread = "spread";

struct Pass {
    std::string_view name;
    bool optional;
    bool (*run)(ir::Function& fn, const GpuOptions& options);
};

bool is_off(const GpuOptions& options, std::string_view name) {
    return std::any_of(options.disabled.begin(), options.disabled.end(), [&](const std::string& d) { return d == name || d == "all"; });
}

/// Stretches of a split sum that no CTAs of their own shall run are a loop like any other.
bool keep_together(ir::Function& fn, const GpuOptions& options) {
    if (options.spread && !is_off(options, kSpread)) return false;
    size_t marks = 0;
    for (std::vector<ir::Hint>& hints : fn.loop_hints) marks += std::erase_if(hints, [](const ir::Hint& h) { return h.name == "split_k"; });
    return marks > 0;
}

constexpr Pass kPasses[] = {
    {kSpread, false, keep_together},
    {"instructions", false, [](ir::Function& fn, const GpuOptions& o) { return take_instructions(fn, o, is_off(o, "instructions")); }},
    {"orient", true, [](ir::Function& fn, const GpuOptions&) { return orient_products(fn); }},
    {"choose", false, [](ir::Function& fn, const GpuOptions& o) { return choose_instructions(fn, o), true; }},
    {"persist", true, [](ir::Function& fn, const GpuOptions& o) { return make_persistent(fn, o); }},
    {"channels", true, [](ir::Function& fn, const GpuOptions& o) { return make_channels(fn, o); }},
    {"prefetch", true, [](ir::Function& fn, const GpuOptions& o) { return prefetch_loads(fn, o); }},
    {"place", false, [](ir::Function& fn, const GpuOptions& o) { return place_tiles(fn, o), true; }},
    {"convert_cleanup", true, [](ir::Function& fn, const GpuOptions&) { return clean_converts(fn); }},
    {"scratch", false, [](ir::Function& fn, const GpuOptions& o) { return assign_scratch(fn, o), true; }},
    {"barriers", false, [](ir::Function& fn, const GpuOptions& o) { return place_barriers(fn, o), true; }},
    {"defer", true, [](ir::Function& fn, const GpuOptions&) { return defer_products(fn); }},
};

void fail_on(const std::vector<std::string>& problems, const ir::Function& fn, std::string_view when) {
    if (problems.empty()) return;
    std::string text = "kernel " + fn.name + ", " + std::string(when);
    for (size_t i = 0; i < std::min<size_t>(problems.size(), 5); ++i) text += "\n  " + problems[i];
    TEGULA_CHECK(problems.empty(), text);
}

/// Do channels and the tiles that products read from shared memory lie there?
bool fits(const ir::Function& fn, const GpuOptions& options) {
    bool fits = fn.gpu->shared_bytes <= options.arch->shared_bytes;
    fn.walk([&](ir::InstId id) {
        const ir::Inst& inst = fn.inst(id);
        const bool tile = inst.op == ir::Op::convert && fn.placement(fn.result(inst)).kind == Placement::shared;
        fits = fits && !(tile && fn.gpu_inst(id).global_scratch);
    });
    return fits;
}

void run_once(ir::Function& fn, const GpuOptions& options) {
    for (const Pass& p : kPasses) {
        if (p.optional && is_off(options, p.name)) continue;
        poll(options.cancel);
        const bool changed = p.run(fn, options);
        fail_on(ir::verify(fn), fn, "after GPU pass " + std::string(p.name));
        if (options.after) options.after(p.name, changed, fn);
    }
}

}  // namespace

std::vector<std::string_view> gpu_pass_names() {
    std::vector<std::string_view> names{kViewsPass};  // made before the others, with the parameters that they get
    for (const Pass& p : kPasses) names.push_back(p.name);
    return names;
}

GpuOptions run_gpu_passes(ir::Function& fn, const GpuOptions& options) {
    fail_on(ir::verify(fn), fn, "before the GPU passes");
    const ir::Function before = fn;
    run_once(fn, options);
    GpuOptions fewer = options;
    for (const char* without : {"channels", "wgmma"}) {
        if (fits(fn, options)) break;
        fewer.disabled.push_back(without);
        fn = before;
        run_once(fn, fewer);
    }
    TEGULA_CHECK(fits(fn, options), "kernel " + fn.name + " does not fit in shared memory");
    poll(options.cancel);
    fail_on(check_placements(fn), fn, "after placement");
    fail_on(prove(fn, options), fn, "not proved");
    return fewer;
}

}  // namespace tegula
