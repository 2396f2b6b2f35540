// The cost model asked about every candidate of a launch (tune.h). A candidate is elaborated, not lowered: some 50 us each, once per module; an
// estimate takes a few more, once per extents.
#include "jit/engine/tune.h"

#include "lower/gpu/views.h"
#include "lower/lower.h"

namespace tegula {

namespace {

constexpr size_t kMaxChoices = 4096, kMaxInstances = 1024;

std::string text_of(const sema::StaticValues& values, const TypeTable& types) {
    std::string out;
    for (const auto& [name, value] : values) out += (out.empty() ? "" : ", ") + name + " = " + sema::key_text(value, types);
    return out;
}

bool has_contraction(const ir::Function& fn) {
    for (uint32_t i = 0; i < fn.inst_count(); ++i)
        if (fn.inst(ir::InstId{i}).op == ir::Op::contract) return true;
    return false;
}

}  // namespace

std::vector<explain::Setting> settings_of(const sema::StaticValues& values, const TypeTable& types) {
    std::vector<explain::Setting> out;
    for (const auto& [name, value] : values) out.push_back({name, sema::to_string(value, types)});
    return out;
}

std::vector<explain::Extent> extents_of(const sema::LaunchPlan& plan) {
    std::vector<explain::Extent> out;
    for (const auto& [name, extent] : plan.extents) out.push_back({name, extent});
    return out;
}

LaunchScale scale_of(const ir::Function& fn, std::span<const uint64_t, 3> grid, const sema::LaunchPlan& plan) {
    LaunchScale scale;
    std::copy(grid.begin(), grid.end(), scale.grid);
    size_t scalar = 0;
    for (const ir::Param& p : fn.params) {
        std::optional<int64_t>& value = scale.scalars.emplace_back();
        if (p.kind == ir::Param::extent) {
            if (const auto it = plan.extents.find(p.name); it != plan.extents.end()) value = it->second;
        } else if (p.kind == ir::Param::scalar) {
            if (scalar < plan.scalars.size() && fn.elem(p.value).is_int()) value = static_cast<int64_t>(plan.scalars[scalar].code);
            ++scalar;
        }
    }
    return scale;
}

std::shared_ptr<const sema::StaticValues> TuneStore::find(const std::string& key) {
    std::lock_guard lock(mutex_);
    const auto it = choices_.find(key);
    return it == choices_.end() ? nullptr : it->second;
}

void TuneStore::add(const std::string& key, sema::StaticValues choice) {
    std::lock_guard lock(mutex_);
    if (choices_.size() >= kMaxChoices) choices_.clear();
    choices_[key] = std::make_shared<const sema::StaticValues>(std::move(choice));
}

std::shared_ptr<const sema::Instance> TuneStore::instance(const sema::Module& module, const ast::KernelItem& kernel,
                                                          const sema::StaticValues& generics, TypeTable& types, const std::atomic<bool>* cancel) {
    const std::string key = std::string(kernel.name.text) + ": " + text_of(generics, types);
    std::lock_guard lock(mutex_);
    if (const auto it = instances_.find(key); it != instances_.end()) return it->second;
    if (instances_.size() >= kMaxInstances) instances_.clear();
    DiagSink unheard;  // a launch that takes the candidate reports
    std::shared_ptr<const sema::Instance> made;
    sema::Limits limits;
    limits.cancel = cancel;
    if (auto instance = sema::elaborate_kernel(module, kernel, generics, types, limits, unheard)) {
        if (has_contraction(*instance->fn)) {
            PassOptions options;
            static_cast<LaunchFacts&>(options) = instance->facts;
            options.cancel = cancel;
            run_passes(*instance->fn, options);
        }
        make_views(*instance->fn, instance->facts);
        prepare_for_estimates(*instance->fn);
        made = std::make_shared<const sema::Instance>(std::move(*instance));
    }
    return instances_[key] = std::move(made);
}

std::string TuneByEstimate::key(const sema::LaunchPlan& plan) const {
    std::string key = std::string(kernel_.name.text) + "@" + arch_.name + ": " + text_of(plan.generics, types_) + ";";
    for (const auto& [name, extent] : plan.extents) key += " " + name + "=" + std::to_string(extent);
    for (const Argument& a : plan.scalars) key += " " + std::to_string(a.code);
    return key;
}

std::optional<sema::StaticValues> TuneByEstimate::known(const sema::LaunchPlan& plan) {
    const auto choice = told_ ? nullptr : store_.find(key(plan));
    return choice ? std::optional(*choice) : std::nullopt;
}

size_t TuneByEstimate::choose(std::span<const sema::TuneCandidate> candidates, const sema::LaunchPlan& plan) {
    std::vector<std::optional<GpuEstimate>> estimates(candidates.size());
    int64_t chunk = 0;
    for (size_t i = 0; i < candidates.size(); ++i) {
        const auto instance = store_.instance(module_, kernel_, candidates[i].generics, types_, cancel_);
        if (!instance) continue;
        GpuOptions options;
        static_cast<LaunchFacts&>(options) = instance->facts;
        options.arch = &arch_;
        estimates[i] = estimate_gpu(*instance->fn, options, scale_of(*instance->fn, candidates[i].grid, plan));
        chunk = std::max(chunk, estimates[i]->chunk);
    }
    // Where bits depend on the tile (fp8), extents must not choose among them: only tiles that sum the longest stretches compete.
    size_t best = candidates.size();
    for (size_t i = 0; i < candidates.size(); ++i) {
        if (!estimates[i] || estimates[i]->chunk != chunk) continue;
        if (best == candidates.size() || is_quicker(*estimates[i], *estimates[best])) best = i;
    }
    if (best == candidates.size()) return 0;
    if (told_) {
        explain::Tune& tune = told_->emplace(explain::Tune{extents_of(plan), {}, best});
        for (size_t i = 0; i < candidates.size(); ++i) tune.candidates.push_back({settings_of(candidates[i].chosen, types_), estimates[i]});
    }
    store_.add(key(plan), candidates[best].chosen);
    return best;
}

}  // namespace tegula
