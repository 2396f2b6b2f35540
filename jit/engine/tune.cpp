// The cost model asked about every candidate of a launch (tune.h). A candidate is elaborated, not lowered: some 50 us each, once per module; an
// estimate takes a few more, once per extents.
#include "jit/engine/tune.h"

#include <algorithm>
#include <random>
#include <set>

#include "lower/gpu/views.h"
#include "lower/lower.h"
#include "sema/walk.h"

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

bool leaves_choices(const ast::KernelItem& kernel, const sema::StaticValues& given) {
    return std::any_of(kernel.tune.begin(), kernel.tune.end(), [&](const auto& c) { return given.find(c.name.text) == given.end(); });
}

std::string launch_text(const ast::KernelItem& kernel, const sema::LaunchPlan& plan, const TypeTable& types) {
    std::string text = text_of(plan.generics, types);
    const auto add = [&](std::string_view name, const std::string& value) { text += (text.empty() ? "" : ", ") + std::string(name) + " = " + value; };
    for (const auto& [name, extent] : plan.extents) add(name, std::to_string(extent));
    std::set<std::string_view> named;
    const auto look = [&](const ast::Expr& e) {
        for (const ast::Name& name : sema::names_in(e)) named.insert(name.text);
    };
    for (const ast::Expr* e : kernel.grid) look(*e);
    for (const ast::Expr* e : kernel.where) look(*e);
    for (const ast::TuneChoice& choice : kernel.tune)
        for (const ast::Expr* e : choice.values) look(*e);
    size_t scalar = 0;
    for (const ast::Param& p : kernel.params) {
        if (sema::tensor_form(*p.type) || sema::base_name(*p.type) == "ptr") continue;
        if (scalar < plan.scalars.size() && named.count(p.name.text))
            add(p.name.text, std::to_string(static_cast<int64_t>(plan.scalars[scalar].code)));
        ++scalar;
    }
    return text;
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

std::vector<std::optional<GpuEstimate>> TuneByEstimate::estimates(std::span<const sema::TuneCandidate> candidates,
                                                                  const sema::LaunchPlan& plan) const {
    std::vector<std::optional<GpuEstimate>> out(candidates.size());
    for (size_t i = 0; i < candidates.size(); ++i) {
        const auto instance = store_.instance(module_, kernel_, candidates[i].generics, types_, cancel_);
        if (!instance) continue;
        GpuOptions options;
        static_cast<LaunchFacts&>(options) = instance->facts;
        options.arch = &arch_;
        out[i] = estimate_gpu(*instance->fn, options, scale_of(*instance->fn, candidates[i].grid, plan));
        const auto room = static_cast<uint64_t>(out[i]->per_sm) * static_cast<uint64_t>(arch_.sms);
        if (ir::find_hint(instance->fn->hints, "cooperative") && out[i]->programs > room) out[i].reset();  // the launch would be refused
    }
    return out;
}

std::vector<bool> competing(std::span<const std::optional<GpuEstimate>> estimates) {
    int64_t chunk = 0;
    for (const auto& e : estimates)
        if (e) chunk = std::max(chunk, e->chunk);
    std::vector<bool> out;
    for (const auto& e : estimates) out.push_back(e && e->chunk == chunk);
    return out;
}

std::vector<size_t> TuneRecorder::order(uint64_t seed) const {
    const std::vector<bool> competes = estimates.empty() ? std::vector<bool>(candidates.size(), true) : competing(estimates);
    std::vector<size_t> out;
    for (size_t i = 0; i < candidates.size(); ++i)
        if (i != preferred && competes[i]) out.push_back(i);
    std::mt19937_64 random(seed);
    for (size_t i = out.size(); i > 1; --i) std::swap(out[i - 1], out[random() % i]);
    if (!estimates.empty()) std::sort(out.begin(), out.end(), [&](size_t a, size_t b) { return is_quicker(*estimates[a], *estimates[b]); });
    out.insert(out.begin(), preferred);
    return out;
}

size_t TuneByEstimate::choose(std::span<const sema::TuneCandidate> candidates, const sema::LaunchPlan& plan) {
    const std::vector<std::optional<GpuEstimate>> estimated = estimates(candidates, plan);
    const std::vector<bool> competes = competing(estimated);
    size_t best = candidates.size();
    for (size_t i = 0; i < candidates.size(); ++i)
        if (competes[i] && (best == candidates.size() || is_quicker(*estimated[i], *estimated[best]))) best = i;
    if (best == candidates.size()) return 0;
    if (told_) {
        explain::Tune& tune = told_->emplace(explain::Tune{extents_of(plan), {}, best});
        for (size_t i = 0; i < candidates.size(); ++i) tune.candidates.push_back({settings_of(candidates[i].chosen, types_), estimated[i]});
    }
    store_.add(key(plan), candidates[best].chosen);
    return best;
}

std::string TuneByMeasurement::measured(const sema::LaunchPlan& plan) {
    key_.launch = launch_text(kernel_, plan, types_);
    return database_.chosen(key_);
}

std::optional<sema::StaticValues> TuneByMeasurement::known(const sema::LaunchPlan& plan) {
    const std::string settings = measured(plan);
    if (settings.empty()) return otherwise_ ? otherwise_->known(plan) : std::nullopt;
    const auto values = store_.find(stored_as(settings));
    return values ? std::optional(*values) : std::nullopt;  // else `choose` finds the candidate that the text means
}

size_t TuneByMeasurement::choose(std::span<const sema::TuneCandidate> candidates, const sema::LaunchPlan& plan) {
    const std::string settings = measured(plan);
    for (size_t i = 0; i < candidates.size() && !settings.empty(); ++i)
        if (settings_text(settings_of(candidates[i].chosen, types_)) == settings) return store_.add(stored_as(settings), candidates[i].chosen), i;
    return otherwise_ ? otherwise_->choose(candidates, plan) : 0;
}

}  // namespace tegula
