// Tuned values: which of the choices of `tune` a launch takes when the host names none. What was measured of such launches goes first (tuned.h),
// then, on a GPU, the cost model, then the order in which they are written. Equal launches choose alike, whatever ran before.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "jit/engine/tuned.h"
#include "lang/explanation.h"
#include "lang/target.h"
#include "lower/gpu/estimate.h"
#include "sema/sema.h"

namespace tegula {

/// What was chosen for a module's kernels, and their candidates as IR. Bounded; thread-safe.
class TuneStore {
public:
    std::shared_ptr<const sema::StaticValues> find(const std::string& key);
    void add(const std::string& key, sema::StaticValues choice);
    /// The candidate as estimates take it, elaborated once; null when it does not elaborate. Throws Cancelled.
    std::shared_ptr<const sema::Instance> instance(const sema::Module& module, const ast::KernelItem& kernel, const sema::StaticValues& generics,
                                                   TypeTable& types, const std::atomic<bool>* cancel);

private:
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<const sema::StaticValues>> choices_;
    std::map<std::string, std::shared_ptr<const sema::Instance>> instances_;
};

/// Chooses for one binding of one kernel.
class TuneByEstimate : public sema::TuneChooser {
public:
    static constexpr int64_t kNominalExtent = 4096;  ///< of extents that nobody gave, for artefacts

    /// `told`: becomes what was chosen and why, which then is found out anew.
    TuneByEstimate(TuneStore& store, const sema::Module& module, const ast::KernelItem& kernel, TypeTable& types, const Arch& arch,
                   const std::atomic<bool>* cancel = nullptr, std::optional<explain::Tune>* told = nullptr)
        : store_(store), module_(module), kernel_(kernel), types_(types), arch_(arch), cancel_(cancel), told_(told) {}
    std::optional<sema::StaticValues> known(const sema::LaunchPlan& plan) override;
    size_t choose(std::span<const sema::TuneCandidate> candidates, const sema::LaunchPlan& plan) override;

    /// Of each candidate; nullopt: it does not compile.
    std::vector<std::optional<GpuEstimate>> estimates(std::span<const sema::TuneCandidate> candidates, const sema::LaunchPlan& plan) const;

private:
    std::string key(const sema::LaunchPlan& plan) const;

    TuneStore& store_;
    const sema::Module& module_;
    const ast::KernelItem& kernel_;
    TypeTable& types_;
    const Arch& arch_;
    const std::atomic<bool>* cancel_;
    std::optional<explain::Tune>* told_;
};

/// Takes the choice that was measured to be the quickest for such launches; `otherwise` (may be null: the first one) chooses where none was.
class TuneByMeasurement : public sema::TuneChooser {
public:
    /// `key`: of the kernel's launches, but for `launch`.
    TuneByMeasurement(const TunedDatabase& database, TunedKey key, TuneStore& store, const ast::KernelItem& kernel, TypeTable& types,
                      sema::TuneChooser* otherwise)
        : database_(database), key_(std::move(key)), store_(store), kernel_(kernel), types_(types), otherwise_(otherwise) {}
    std::optional<sema::StaticValues> known(const sema::LaunchPlan& plan) override;
    size_t choose(std::span<const sema::TuneCandidate> candidates, const sema::LaunchPlan& plan) override;

private:
    /// What was measured of such a launch, as text; empty: nothing.
    std::string measured(const sema::LaunchPlan& plan);
    std::string stored_as(const std::string& settings) const { return key_.kernel + "@" + key_.machine + ": " + key_.launch + "; " + settings; }

    const TunedDatabase& database_;
    TunedKey key_;
    TuneStore& store_;
    const ast::KernelItem& kernel_;
    TypeTable& types_;
    sema::TuneChooser* otherwise_;
};

/// Keeps what a launch has to choose from; `estimate` (null: none) is the cost model that would choose.
class TuneRecorder : public sema::TuneChooser {
public:
    explicit TuneRecorder(TuneByEstimate* estimate) : estimate_(estimate) {}
    std::optional<sema::StaticValues> known(const sema::LaunchPlan&) override { return std::nullopt; }
    size_t choose(std::span<const sema::TuneCandidate> all, const sema::LaunchPlan& before) override {
        candidates.assign(all.begin(), all.end());
        plan = before;
        if (estimate_) estimates = estimate_->estimates(all, before);
        return preferred = estimate_ ? estimate_->choose(all, before) : 0;
    }
    /// The preferred candidate, then the others that may be chosen: the most promising first, else in an order that follows from `seed`.
    std::vector<size_t> order(uint64_t seed) const;

    std::vector<sema::TuneCandidate> candidates;
    std::vector<std::optional<GpuEstimate>> estimates;  ///< of GPUs
    sema::LaunchPlan plan;
    size_t preferred = 0;

private:
    TuneByEstimate* estimate_;
};

/// Which candidates may be chosen: where bits depend on the tile (fp8), extents must not choose among them, and only tiles that sum the longest
/// stretches compete.
std::vector<bool> competing(std::span<const std::optional<GpuEstimate>> estimates);
/// Does `tune` choose something, with what the host named?
bool leaves_choices(const ast::KernelItem& kernel, const sema::StaticValues& given);
/// What is bound of a launch before tuned values are chosen, as far as its time depends on it: generics, extents, and integers that its clauses name
/// (numbers that only the body reads are left out: they change from launch to launch).
std::string launch_text(const ast::KernelItem& kernel, const sema::LaunchPlan& plan, const TypeTable& types);

std::vector<explain::Setting> settings_of(const sema::StaticValues& values, const TypeTable& types);
std::vector<explain::Extent> extents_of(const sema::LaunchPlan& plan);
/// Of a launch of `fn`, one instance of the kernel that `plan` launches with that grid.
LaunchScale scale_of(const ir::Function& fn, std::span<const uint64_t, 3> grid, const sema::LaunchPlan& plan);

}  // namespace tegula
