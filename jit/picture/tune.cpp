// Pictures of tuned values: what the cost model says of each choice of `tune`, and what was measured of it.
#include <algorithm>
#include <cmath>

#include "jit/picture/builders.h"
#include "lang/plain_text.h"
#include "lang/stable_sort.h"

namespace tegula::picture {

namespace {

using Candidate = WeighedLaunch::Candidate;

constexpr size_t kMostLaunches = 3, kMostRows = 20, kMostOthers = 6;
constexpr size_t kLeastPoints = 4;  ///< of estimates against measurements

std::string text_of(const std::vector<explain::Setting>& values) {
    std::string s;
    for (const explain::Setting& v : values) s += (s.empty() ? "" : ", ") + v.name + " = " + v.value;
    return s;
}

/// Microseconds; infinity: there is no such time, or it must not be taken.
double estimated(const Candidate& c) { return c.estimate ? c.estimate->microseconds : HUGE_VAL; }
double measured(const Candidate& c) { return c.seconds > 0 && c.refused.empty() ? c.seconds * 1e6 : HUGE_VAL; }
using Time = double (*)(const Candidate&);

double least(const std::vector<Candidate>& all, Time time) {
    double out = HUGE_VAL;
    for (const Candidate& c : all) out = std::min(out, time(c));
    return out;
}
bool any(const std::vector<Candidate>& all, Time time) { return std::isfinite(least(all, time)); }

/// A parameter and its values, numbers in their order.
struct Axis {
    std::string name;
    std::vector<std::string> values;
};

/// Those with the most values first.
std::vector<Axis> axes_of(const std::vector<Candidate>& all) {
    std::vector<Axis> axes;
    for (const Candidate& c : all)
        for (const explain::Setting& v : c.values) {
            auto axis = std::ranges::find(axes, v.name, &Axis::name);
            if (axis == axes.end()) axes.push_back({v.name, {}}), axis = axes.end() - 1;
            if (std::ranges::find(axis->values, v.value) == axis->values.end()) axis->values.push_back(v.value);
        }
    for (Axis& axis : axes) {
        const auto is_number = [](const std::string& v) { return !v.empty() && v.find_first_not_of("0123456789") == v.npos; };
        if (std::ranges::all_of(axis.values, is_number))
            std::ranges::sort(axis.values, {}, [](const std::string& v) { return std::pair(v.size(), v); });
    }
    stable_sort(
        axes, [](const Axis& a) { return a.values.size(); }, std::greater<>());
    return axes;
}

int tone_of_ratio(double ratio) { return ratio < 1.02 ? int{good} : ratio < 1.25 ? 3 : ratio < 2 ? 7 : ratio < 4 ? 2 : int{bad}; }

/// Times over the two parameters with the most values, each cell the least over the others; `missing` says why a candidate has no time.
Figure map_figure(const std::string& title, const WeighedLaunch& launch, const std::vector<Axis>& axes, Time time,
                  std::string (*missing)(const Candidate&), const std::string& signs) {
    const double best = least(launch.candidates, time);
    Grid map{axes[0].name, axes[1].name, {}, axes[1].values, {}, {}};
    for (const std::string& row : axes[0].values) {
        std::vector<std::string> cells;
        std::vector<int> tones;
        for (const std::string& column : axes[1].values) {
            double here = HUGE_VAL;
            const Candidate* one = nullptr;
            for (const Candidate& c : launch.candidates) {
                const auto is = [&](const std::string& name, const std::string& v) {
                    return std::ranges::any_of(c.values, [&](const explain::Setting& s) { return s.name == name && s.value == v; });
                };
                if (!is(axes[0].name, row) || !is(axes[1].name, column)) continue;
                one = &c, here = std::min(here, time(c));
            }
            cells.push_back(!one ? "." : std::isinf(here) ? missing(*one) : (here == best ? "*" : "") + short_text(here));
            tones.push_back(!one ? int{gap} : std::isinf(here) ? int{plain} : tone_of_ratio(here / best));
        }
        map.add_row(row, std::move(cells), std::move(tones));
    }
    return {title,
            "`*`: the best; each over the other parameters; `.`: a `where` clause forbids it, " + signs,
            std::move(map),
            {{good, "within 2% of the best"}, {3, "25%"}, {7, "twice"}, {2, "four times"}, {bad, "more"}}};
}

/// Estimates against what was measured, with the line where they agree.
std::optional<Figure> agreement(const std::string& title, const WeighedLaunch& launch) {
    Plot::Series points{"a candidate", "o", {}, {}, 1};
    for (const Candidate& c : launch.candidates)
        if (std::isfinite(estimated(c)) && std::isfinite(measured(c))) points.x.push_back(estimated(c)), points.y.push_back(measured(c));
    if (points.x.size() < kLeastPoints) return std::nullopt;
    const auto [x0, x1] = std::ranges::minmax(points.x);
    const auto [y0, y1] = std::ranges::minmax(points.y);
    Plot plot;
    plot.x = {"us estimated", true, x0 / 1.2, x1 * 1.2};
    plot.y = {"us measured", true, y0 / 1.2, y1 * 1.2};
    const double from = std::max(plot.x.begin, plot.y.begin), to = std::min(plot.x.end, plot.y.end);
    if (from < to) plot.series.push_back({"where both are equal", "", {from, to}, {from, to}, 2});
    plot.series.push_back(std::move(points));
    return Figure{title, "", std::move(plot), {}};
}

/// What is said of a candidate behind its values.
std::string remark(const WeighedLaunch& launch, size_t i) {
    std::string out;
    if (launch.chosen == i) out += "  <- chosen";
    if (launch.preferred == i && launch.chosen != i) out += "  <- default";
    if (!launch.candidates[i].refused.empty()) out += "  refused: " + launch.candidates[i].refused;
    return out;
}

Figure table_figure(const std::string& title, const WeighedLaunch& launch, std::span<const size_t> order) {
    const bool times = !launch.machine.empty(), model = any(launch.candidates, estimated);
    Table table;
    if (times) table.columns = {"us measured", "of the best"};
    if (model) table.columns.insert(table.columns.end(), {times ? "us estimated" : "us", "of the best", "bound by"});
    if (!times) table.columns.push_back("programs of an SM");
    table.columns.push_back("values");
    const double quickest = least(launch.candidates, measured), best = least(launch.candidates, estimated);
    for (const size_t i : order) {
        const Candidate& c = launch.candidates[i];
        std::vector<std::string> row;
        const auto time = [&](double us, double of) {
            row.push_back(std::isfinite(us) ? short_text(us) : "-");
            row.push_back(std::isfinite(us) ? decimal_text(us / of, 3) : "-");
        };
        if (times) time(measured(c), quickest);
        if (model) time(estimated(c), best), row.push_back(c.estimate ? c.estimate->bound : "no instance");
        if (!times) row.push_back(c.estimate ? std::to_string(c.estimate->per_sm) : "-");
        row.push_back(text_of(c.values) + remark(launch, i));
        table.rows.push_back(std::move(row));
        table.tones.push_back(launch.chosen == i ? int{good} : c.refused.empty() ? int{plain} : int{bad});
    }
    return {title, "", std::move(table), {}};
}

void tell(const std::string& of, const WeighedLaunch& launch, Picture& out) {
    const auto fact = [&](const std::string& name, const std::string& value) { out.facts.push_back({of + name, value}); };
    const std::vector<Candidate>& all = launch.candidates;
    if (!launch.launch.empty()) fact(launch.machine.empty() ? "extents" : "launch", launch.launch);
    if (!launch.machine.empty()) fact("measured on", launch.machine + (launch.hardware.empty() ? "" : ": " + launch.hardware));
    const auto tried = std::ranges::count_if(all, [](const Candidate& c) { return c.seconds > 0 || !c.refused.empty(); });
    fact("candidates", std::to_string(all.size()) + (launch.machine.empty() ? "" : ", of which " + std::to_string(tried) + " were measured"));
    const auto choice = [&](size_t i) {
        const Candidate& c = all[i];
        const double us = launch.machine.empty() ? estimated(c) : measured(c);
        return text_of(c.values) + (std::isinf(us) ? "" : ", " + short_text(us) + (launch.machine.empty() ? " us estimated" : " us"));
    };
    if (launch.chosen)
        fact("chosen", choice(*launch.chosen) + (launch.checked.empty()      ? ""
                                                 : launch.checked == "tests" ? "; equal to the interpreter in the tests"
                                                                             : "; equal to the interpreter on the arguments of the bench"));
    if (launch.preferred && launch.preferred != launch.chosen) fact("default", choice(*launch.preferred));
}

void show(const std::string& of, const WeighedLaunch& launch, Picture& out) {
    const std::vector<Candidate>& all = launch.candidates;
    tell(of, launch, out);
    const std::vector<Axis> axes = axes_of(all);
    if (axes.size() >= 2 && axes[1].values.size() > 1) {
        if (any(all, estimated))
            out.figures.push_back(map_figure(
                of + "microseconds, estimated", launch, axes, estimated, [](const Candidate&) { return std::string("!"); },
                "`!`: there is no instance"));
        if (!launch.machine.empty())
            out.figures.push_back(map_figure(
                of + "microseconds, measured", launch, axes, measured, [](const Candidate& c) { return std::string(c.refused.empty() ? "?" : "x"); },
                "`?`: it was not measured, `x`: it was refused"));
    }
    if (auto plot = agreement(of + "estimates against measurements", launch)) out.figures.push_back(std::move(*plot));
    std::vector<size_t> order(all.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    stable_sort(order, [&](size_t i) { return std::pair(measured(all[i]), estimated(all[i])); });
    const size_t rows = std::min(order.size(), kMostRows);
    out.figures.push_back(table_figure(of + "candidates, best first", launch, std::span(order).first(rows)));
    if (order.size() > rows) out.notes.push_back(of + std::to_string(order.size() - rows) + " slower candidates are left out");
}

/// What the cost model said when it chose.
WeighedLaunch weighed(const explain::Tune& tune) {
    WeighedLaunch out;
    for (const explain::Extent& e : tune.extents) out.launch += (out.launch.empty() ? "" : ", ") + e.name + " = " + std::to_string(e.value);
    for (const explain::Candidate& c : tune.candidates) out.candidates.push_back({c.values, c.estimate, 0, {}});
    if (tune.chosen < tune.candidates.size()) out.chosen = tune.chosen;
    return out;
}

}  // namespace

Picture tune_picture(const KernelView& k) {
    Picture out{"tune", {}, {}, {}, {}};
    std::vector<WeighedLaunch> launches = k.measured;
    if (launches.empty())
        for (const explain::Note& n : k.said->notes)
            if (const auto* t = std::get_if<explain::Tune>(&n.fact)) launches = {weighed(*t)};
    const bool estimates = std::ranges::any_of(launches, [](const WeighedLaunch& l) { return any(l.candidates, estimated); });
    out.title = k.name + (estimates || launches.empty() ? std::string(" on ") + k.arch->name : "") + ": candidates of `tune`";
    if (launches.empty()) {
        out.notes.push_back("nothing is left to choose: the kernel has no `tune` clause, or all its parameters are given with -s");
        return out;
    }
    if (k.measured.empty() && k.other_launches.empty())
        out.notes.push_back("none of these was measured: `tegula tune` measures what launches of benches leave open");
    const size_t shown = std::min(launches.size(), kMostLaunches);
    for (size_t i = 0; i < shown; ++i) show(shown > 1 ? std::to_string(i + 1) + ": " : "", launches[i], out);
    std::vector<std::string> others = k.other_launches;
    for (size_t i = shown; i < launches.size(); ++i) others.push_back(launches[i].launch + " on " + launches[i].machine);
    std::string list;
    for (size_t i = 0; i < std::min(others.size(), kMostOthers); ++i) list += (i ? "; " : "") + others[i];
    if (!others.empty())
        out.notes.push_back("measured, too: " + list +
                            (others.size() > kMostOthers ? "; and " + std::to_string(others.size() - kMostOthers) + " more" : "") +
                            ": -s names generics and extents, --of a machine");
    return out;
}

}  // namespace tegula::picture
