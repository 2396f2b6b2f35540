// What was measured of a kernel's launches, beside what the cost model says of them: for pictures of `tune`.
#include <algorithm>
#include <charconv>

#include "jit/engine/engine.h"
#include "jit/engine/tune.h"
#include "jit/picture/builders.h"
#include "lang/stable_sort.h"

namespace tegula {

namespace {

using picture::WeighedLaunch;

/// A launch as it was measured: what the host named, and what the measured one had beside it. nullopt: it had something else.
class MeasuredLaunch {
public:
    MeasuredLaunch(Engine& engine, LoadedModule& module, const ast::KernelItem& kernel) : engine_(engine), module_(module), kernel_(kernel) {}

    std::optional<sema::StaticValues> values(const sema::StaticValues& given, const std::string& launch) const {
        const std::vector<explain::Setting> bound = read_settings(launch);
        const auto text = [&](std::string_view name) {
            const auto it = std::ranges::find(bound, name, &explain::Setting::name);
            return it == bound.end() ? nullptr : &it->value;
        };
        for (const auto& [name, value] : given)
            if (const std::string* there = text(name); !there || *there != sema::key_text(value, module_.types())) return std::nullopt;
        sema::StaticValues all = given;
        for (const explain::Setting& s : bound)
            if (auto value = all.contains(s.name) ? std::nullopt : read(s)) all.emplace(s.name, std::move(*value));
        return all;
    }

private:
    Engine& engine_;
    LoadedModule& module_;
    const ast::KernelItem& kernel_;

    /// nullopt: its text does not say it, as of functions and of scalar parameters, which are none of the generics.
    std::optional<sema::StaticValue> read(const explain::Setting& s) const {
        int64_t v = 0;
        const auto [end, error] = std::from_chars(s.value.data(), s.value.data() + s.value.size(), v);
        const bool parameter = std::ranges::any_of(kernel_.params, [&](const ast::Param& p) { return p.name.text == s.name; });
        if (parameter || s.name.starts_with("dispatch.")) return std::nullopt;
        if (error == std::errc() && end == s.value.data() + s.value.size()) return sema::StaticValue{static_cast<__int128>(v)};
        if (s.value == "true" || s.value == "false") return sema::StaticValue{s.value == "true"};
        DiagSink unheard;
        if (const auto type = engine_.parse_type(module_, s.value, unheard)) return sema::StaticValue{*type};
        return std::nullopt;
    }
};

/// The candidates of a launch, in the order in which they are chosen from, with their estimates and times.
WeighedLaunch weighed(const TunedKey& key, const TunedEntry& entry, const TuneRecorder& found, const TypeTable& types) {
    WeighedLaunch out{key.launch, key.machine, key.hardware, entry.chosen == entry.preferred ? "" : entry.checked, {}, {}, {}};
    std::map<std::string, TunedEntry::Tried> left = entry.tried;
    const auto add = [&](std::vector<explain::Setting> values, std::optional<GpuEstimate> estimate) {
        const std::string set = settings_text(values);
        WeighedLaunch::Candidate c{std::move(values), std::move(estimate), 0, {}};
        if (const auto it = left.find(set); it != left.end()) c.seconds = it->second.seconds, c.refused = it->second.refused, left.erase(it);
        if (set == entry.chosen) out.chosen = out.candidates.size();
        if (set == entry.preferred) out.preferred = out.candidates.size();
        out.candidates.push_back(std::move(c));
    };
    for (size_t i = 0; i < found.candidates.size(); ++i)
        add(settings_of(found.candidates[i].chosen, types), found.estimates.empty() ? std::nullopt : found.estimates[i]);
    while (!left.empty()) add(read_settings(left.begin()->first), std::nullopt);
    return out;
}

}  // namespace

void Engine::add_measured(LoadedModule& module, const Executable& exe, const Arch& arch, picture::KernelView& view) {
    if (!exe.given || !leaves_choices(*exe.kernel, *exe.given)) return;
    const std::string source = text_hash(sources_.text(exe.kernel->span));
    const MeasuredLaunch launches(*this, module, *exe.kernel);
    for (const auto& [key, entry] : tuned().launches_of(exe.kernel->name.text, source)) {
        const auto values = view.of.empty() || view.of == key.machine ? launches.values(*exe.given, key.launch) : std::nullopt;
        if (!values) {
            view.other_launches.push_back(key.launch + " on " + key.machine);
            continue;
        }
        TuneByEstimate estimate(module.tuned_, module, *exe.kernel, module.types(), arch, &cancelled_);
        TuneRecorder found(key.machine == "cuda" ? &estimate : nullptr);
        DiagSink unheard;  // what the file says of another version of the kernel may no longer fit it
        sema::bind_static(module, *exe.kernel, *values, module.types(), unheard, true, &found, TuneByEstimate::kNominalExtent);
        view.measured.push_back(weighed(key, entry, found, module.types()));
    }
    stable_sort(view.measured, [](const WeighedLaunch& l) { return l.machine != "cuda"; });
}

}  // namespace tegula
