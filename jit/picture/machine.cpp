// Pictures of what a kernel takes of a GPU: an SM's registers and memory, the roof over its time, and the order of its programs.
#include <algorithm>
#include <cmath>
#include <set>

#include "jit/picture/builders.h"
#include "jit/picture/raster.h"
#include "lang/gpu/raster.h"
#include "lang/plain_text.h"
#include "lang/stable_sort.h"
#include "lower/gpu/estimate.h"

namespace tegula::picture {

namespace {

template <class Fact>
std::vector<const explain::Note*> notes_of(const KernelView& k) {
    std::vector<const explain::Note*> out;
    for (const explain::Note& n : k.said->notes)
        if (std::holds_alternative<Fact>(n.fact)) out.push_back(&n);
    return out;
}
template <class Fact>
const Fact* fact_of(const KernelView& k) {
    const auto all = notes_of<Fact>(k);
    return all.empty() ? nullptr : &std::get<Fact>(all[0]->fact);
}

std::string bytes_text(int64_t n) { return n >= 10240 && n % 1024 == 0 ? std::to_string(n / 1024) + " KiB" : std::to_string(n) + " bytes"; }
std::string large_text(double v) {
    for (const auto& [unit, name] : {std::pair{1e12, " T"}, std::pair{1e9, " G"}, std::pair{1e6, " M"}, std::pair{1e3, " k"}})
        if (v >= unit) return decimal_text(v / unit, 3) + name;
    return decimal_text(v, 3) + " ";
}

void tell_extents(const KernelView& k, Picture& out) {
    std::string list;
    for (const auto& [name, value] : k.extents) list += (list.empty() ? "" : ", ") + name + " = " + std::to_string(value);
    if (!list.empty()) out.facts.push_back({"extents", list});
    if (k.assumed.empty()) return;
    std::string assumed, cure;
    for (const std::string& name : k.assumed) assumed += (assumed.empty() ? "" : ", ") + name, cure += " -s " + name + "=..";
    out.notes.push_back("nobody gave " + assumed + ": the value is assumed; give it with" + cure);
}

constexpr double kSmThreads = 2048, kSmPrograms = 32;
constexpr int64_t kDriverBytes = 1024;  ///< of shared memory, of each program

}  // namespace

// ---- resources ----

Picture resources_picture(const KernelView& k) {
    Picture out{"resources", k.name + " on " + k.arch->name + ": what an SM holds", {}, {}, {}};
    const auto* r = fact_of<explain::Resources>(k);
    if (!r) return out;
    const Arch& arch = *k.arch;
    const double registers = double(r->threads) * r->registers;
    const auto programs = [&](double threads, double regs, int64_t shared) { return occupancy(arch, threads, regs, shared); };
    out.facts.push_back({"a program", std::to_string(r->warps) + " warps that compute, " + std::to_string(r->threads) + " threads in all"});
    out.facts.push_back({"registers", std::to_string(r->registers) + " of a thread, " + std::string(r->to_string(r->registers_are))});
    out.facts.push_back({"shared memory", bytes_text(r->shared_bytes)});
    if (r->workspace_bytes) out.facts.push_back({"workspace", bytes_text(r->workspace_bytes) + " of global memory"});
    if (r->tensor_columns) out.facts.push_back({"tensor memory", std::to_string(r->tensor_columns) + " of 512 columns"});
    out.facts.push_back({"programs of an SM", std::to_string(r->per_sm) + ", limited by " + r->limit});
    out.facts.push_back({"occupancy", std::to_string(r->per_sm * r->threads / 32) + " of 64 warps"});
    Bars bars;
    const auto bar = [&](const std::string& name, double value, double most, const std::string& unit) {
        bars.bars.push_back({name, value, most, short_text(value) + " of " + short_text(most) + unit, r->limit == name ? int{bad} : 1});
    };
    bar("threads", r->per_sm * double(r->threads), kSmThreads, "");
    bar("registers", r->per_sm * registers, arch.registers, "");
    bar("shared memory", double(r->per_sm) * double(r->shared_bytes + kDriverBytes) / 1024, double(arch.shared_bytes + kDriverBytes) / 1024, " KiB");
    bar("programs", r->per_sm, kSmPrograms, "");
    out.figures.push_back({"what the programs of an SM take", "the limit is `" + r->limit + "`", std::move(bars), {{bad, "the limit"}}});
    // The least change of one thing that lets an SM hold another program, and what comes of usual changes.
    Table table{{"change", "programs", "warps of 64", "then limited by"}, {}, {}};
    const auto row = [&](const std::string& what, double threads, const Occupancy& o) {
        table.rows.push_back({what, std::to_string(o.per_sm), std::to_string(int(o.per_sm * threads / 32)), o.limit});
        table.tones.push_back(o.per_sm > r->per_sm ? int{good} : int{plain});
    };
    const Occupancy now = programs(r->threads, registers, r->shared_bytes);
    row("none", r->threads, now);
    for (int regs = r->registers - 1; regs >= 16; --regs)
        if (const Occupancy o = programs(r->threads, double(r->threads) * regs, r->shared_bytes); o.per_sm > now.per_sm) {
            row(std::to_string(regs) + " registers of a thread", r->threads, o);
            break;
        }
    for (int64_t shared = (r->shared_bytes - 1) / 256 * 256; shared >= 0; shared -= 256)
        if (const Occupancy o = programs(r->threads, registers, shared); o.per_sm > now.per_sm) {
            row(bytes_text(shared) + " of shared memory", r->threads, o);
            break;
        }
    for (int threads = r->threads / 2 / 32 * 32; threads >= 32; threads /= 2)
        if (const Occupancy o = programs(threads, double(threads) * r->registers, r->shared_bytes); o.per_sm > now.per_sm) {
            row(std::to_string(threads) + " threads", threads, o);
            break;
        }
    row("twice the shared memory", r->threads, programs(r->threads, registers, 2 * r->shared_bytes));
    out.figures.push_back(
        {"what one change gives", "of one thing, the others as they are; the first that an SM holds more programs with", std::move(table), {}});
    return out;
}

// ---- smem ----

Picture smem_picture(const KernelView& k) {
    Picture out{"smem", k.name + " on " + k.arch->name + ": shared memory", {}, {}, {}};
    const auto* r = fact_of<explain::Resources>(k);
    if (!r) return out;
    out.facts.push_back({"shared memory", bytes_text(r->shared_bytes) + " of " + bytes_text(k.arch->shared_bytes) + " that a program may use"});
    std::vector<explain::Buffer> buffers = r->buffers;
    stable_sort(buffers, [](const explain::Buffer& b) { return std::pair(b.where, b.offset); });
    if (buffers.empty()) {
        out.notes.push_back("the kernel keeps nothing there");
        return out;
    }
    double end = 1;
    for (const explain::Buffer& b : buffers)
        if (b.live) end = std::max(end, double((*b.live)[1]) + 1);
    constexpr size_t kMostBuffers = 60;
    if (buffers.size() > kMostBuffers) {
        out.notes.push_back(std::to_string(buffers.size() - kMostBuffers) + " more buffers are left out");
        buffers.resize(kMostBuffers);
    }
    Gantt map{"bytes", 0, {}}, live{"instructions of the form", end, {}};
    Table table{{"buffer", "offset", "bytes", "stages", "line", "where"}, {}, {}};
    int number = 0;
    for (const explain::Buffer& b : buffers) {
        const std::string name =
            std::to_string(++number) + " " + std::string(b.to_string(b.use)) + " " + (b.of.size() > 24 ? b.of.substr(0, 22) + ".." : b.of);
        const int tone = tone_of(number - 1);
        const std::string bytes = std::to_string(b.bytes * b.stages);
        if (b.where == explain::Buffer::shared_memory && b.offset >= 0) {
            Gantt::Lane lane{name, {}};
            for (int s = 0; s < b.stages; ++s)
                lane.bars.push_back(
                    {double(b.offset + s * b.bytes), double(b.offset + (s + 1) * b.bytes), b.stages > 1 ? std::to_string(s) : bytes, tone});
            map.end = std::max(map.end, double(b.offset + b.stages * b.bytes));
            map.lanes.push_back(std::move(lane));
        }
        live.lanes.push_back(
            {name, {{b.live ? double((*b.live)[0]) : 0, b.live ? double((*b.live)[1]) + 1 : end, b.live ? bytes : "all the time", tone}}});
        table.rows.push_back({name, std::to_string(b.offset), std::to_string(b.bytes), std::to_string(b.stages),
                              b.first.valid() ? std::to_string(k.line(b.first)) : "-", std::string(b.to_string(b.where))});
    }
    if (!map.lanes.empty())
        out.figures.push_back({"where buffers lie", "buffers that are not in use at the same time share bytes", std::move(map), {}});
    out.figures.push_back(
        {"when they are in use", "from the first instruction to the last one, numbered in the order of the program", std::move(live), {}});
    out.figures.push_back({"buffers", "", std::move(table), {}});
    return out;
}

// ---- roofline ----

Picture roofline_picture(const KernelView& k) {
    Picture out{"roofline", k.name + " on " + k.arch->name + ": the roof over its time", {}, {}, {}};
    const auto* estimated = fact_of<explain::Estimated>(k);
    if (!estimated) {
        out.notes.push_back("what a launch would take is not known: it needs more extents");
        return out;
    }
    const GpuEstimate& e = estimated->estimate;
    const Arch& arch = *k.arch;
    tell_extents(k, out);
    const double seconds = e.microseconds * 1e-6, bandwidth = double(arch.memory_bytes) * arch.clock_mhz * 1e6, flops = 2 * e.multiplies;
    double rate = 0;
    for (const MmaRow& row : mma_rows())
        if (row.name == e.row && row.min_arch <= arch.number && arch.number <= row.max_arch) rate = std::max(rate, double(row.rate));
    if (rate == 0) rate = mma_rows()[0].rate;
    const double peak = 2 * rate * arch.sms * arch.clock_mhz * 1e6;
    out.facts.push_back({"estimated", short_text(e.microseconds) + " us, bound by " + e.bound});
    Bars parts;
    for (const GpuEstimate::Part& p : e.parts)
        parts.bars.push_back(
            {p.name, p.microseconds, e.microseconds, short_text(p.microseconds) + " us", std::string_view(p.name) == e.bound ? int{bad} : 1});
    if (e.memory_bytes > 0 && seconds > 0)
        out.facts.push_back({"memory", large_text(e.memory_bytes) + "B, " + decimal_text(e.memory_bytes / seconds / 1e12, 3) + " of " +
                                           decimal_text(bandwidth / 1e12, 3) + " TB/s"});
    if (flops > 0 && e.memory_bytes > 0) {
        const double intensity = flops / e.memory_bytes, reached = flops / seconds, ridge = peak / bandwidth;
        out.facts.push_back({"arithmetic", large_text(flops) + "FLOP, " + decimal_text(reached / 1e12, 3) + " of " + decimal_text(peak / 1e12, 3) +
                                               " TFLOP/s" + (e.row.empty() ? "" : " of `" + e.row + "`")});
        out.facts.push_back(
            {"intensity", decimal_text(intensity, 3) + " FLOP per byte; memory and arithmetic are in balance at " + decimal_text(ridge, 3)});
        Plot plot;
        const double low = std::min(intensity, ridge) / 8, high = std::max(intensity, ridge) * 8;
        plot.x = {"FLOP per byte of memory", true, low, high};
        plot.y = {"TFLOP/s", true, std::min(low * bandwidth, reached) / 2e12, peak * 2 / 1e12};
        plot.series.push_back({"roof: " + decimal_text(bandwidth / 1e12, 3) + " TB/s, " + decimal_text(peak / 1e12, 3) + " TFLOP/s",
                               "",
                               {low, ridge, high},
                               {low * bandwidth / 1e12, peak / 1e12, peak / 1e12},
                               2});
        plot.series.push_back({"this launch: " + decimal_text(reached / 1e12, 3) + " TFLOP/s", "x", {intensity}, {reached / 1e12}, 1});
        out.figures.push_back({"roofline", "", std::move(plot), {}});
    } else {
        out.notes.push_back("the kernel has no products: its roof is memory");
    }
    out.figures.push_back({"what a launch waits for",
                           "the time that it would take for each part alone, the start of the grid included; the longest bounds it",
                           std::move(parts),
                           {{bad, "the bound"}}});
    out.notes.push_back("times are those of the cost model, not measured; whole tiles are counted, with what lies beyond the tensors");
    return out;
}

// ---- grid ----

uint64_t program_at(uint64_t at, uint64_t rows, uint64_t columns, uint64_t group) {
    if (group == 0 || columns > 0xffffffffu / group) return at;
    const uint64_t below = at / (rows * columns) * (rows * columns), rest = at - below, first = rest / columns / group * group;
    const uint64_t height = std::min(rows - first, group), in = rest - first * columns, column = in / height;
    return below + column * rows + first + (in - column * height);
}

Picture grid_picture(const KernelView& k) {
    Picture out{"grid", k.name + " on " + k.arch->name + ": the order of its programs", {}, {}, {}};
    tell_extents(k, out);
    const auto* r = fact_of<explain::Resources>(k);
    const uint64_t rows = k.grid[0], columns = k.grid[1], planes = k.grid[2];
    out.facts.push_back({"grid", std::to_string(rows) + " x " + std::to_string(columns) + " x " + std::to_string(planes)});
    if (rows == 0 || columns == 0 || planes == 0) {
        out.notes.push_back("the grid is empty: nothing runs");
        return out;
    }
    std::string why;
    const ir::Function& form = *k.form;
    const int hinted = program_groups(form, &why);
    const auto& cluster = form.gpu->cluster;
    const uint64_t group = static_cast<uint64_t>(std::max(hinted ? std::max(hinted / cluster[0], 1) : 0, 0));
    const int clustered = form.gpu->cluster_size();
    out.facts.push_back({"order", hinted ? "rows of " + std::to_string(hinted) + " programs of axis 0 are swept along axis 1"
                                         : "axis 0 is fastest" + (why.empty() ? "" : ": " + why)});
    if (clustered > 1)
        out.facts.push_back({"clusters", std::to_string(cluster[0]) + " x " + std::to_string(cluster[1]) + " x " + std::to_string(cluster[2]) +
                                             " programs, swept as a whole"});
    const uint64_t at_once = static_cast<uint64_t>(std::max(r ? r->per_sm : 1, 1)) * static_cast<uint64_t>(k.arch->sms);
    out.facts.push_back({"at the same time", std::to_string(at_once) + " programs: " + std::to_string(r ? r->per_sm : 1) + " on each of " +
                                                 std::to_string(k.arch->sms) + " SMs"});
    // In clusters, whose programs stand together.
    const auto along = [&](size_t d, uint64_t n) { return (n + static_cast<uint64_t>(cluster[d]) - 1) / static_cast<uint64_t>(cluster[d]); };
    const uint64_t cr = along(0, rows), cc = along(1, columns), wave = std::max<uint64_t>(1, at_once / static_cast<uint64_t>(clustered));
    constexpr uint64_t kShown = 24, kMostWave = 1 << 16;
    const uint64_t shown_rows = std::min(cr, kShown), shown_columns = std::min(cc, kShown);
    Grid grid{"axis 0", "axis 1", {}, {}, {}, {}};
    for (uint64_t c = 0; c < shown_columns; ++c) grid.column_names.push_back(std::to_string(c * static_cast<uint64_t>(cluster[1])));
    grid.cells.assign(shown_rows, std::vector<std::string>(shown_columns, "."));
    grid.tones.assign(shown_rows, std::vector<int>(shown_columns, gap));
    for (uint64_t x = 0; x < shown_rows; ++x) grid.row_names.push_back(std::to_string(x * static_cast<uint64_t>(cluster[0])));
    const uint64_t all = cr * cc, looked = std::min<uint64_t>(all, group ? (shown_rows + group) * cc : cr * shown_columns);
    for (uint64_t at = 0; at < std::min<uint64_t>(looked, 1 << 22); ++at) {
        const uint64_t program = program_at(at, cr, cc, group), x = program % cr, y = program / cr;
        if (x >= shown_rows || y >= shown_columns) continue;
        grid.cells[x][y] = std::to_string(at / wave) + (all <= 9999 ? ":" + std::to_string(at) : std::string());
        grid.tones[x][y] = tone_of(static_cast<int64_t>(at / wave));
    }
    const std::string unit = clustered > 1 ? "cluster" : "program";
    out.figures.push_back({"when each " + unit + " runs",
                           all <= 9999 ? "wave:number in the order of the launch" : "the wave that it runs in",
                           std::move(grid),
                           {{1, "cells of a colour run at about the same time"}}});
    if (shown_rows < cr || shown_columns < cc)
        out.notes.push_back("the first " + std::to_string(shown_rows) + " x " + std::to_string(shown_columns) + " of " + std::to_string(cr) + " x " +
                            std::to_string(cc) + " are shown");
    if (planes > 1) out.notes.push_back("axis 2 is slowest: the first of " + std::to_string(planes) + " planes is shown");
    // What a wave touches of operands that depend on one axis each.
    Table table{{"order", "rows touched", "columns touched", "together"}, {}, {}};
    const auto touched = [&](const char* name, uint64_t by) {
        std::set<uint64_t> xs, ys;
        for (uint64_t at = 0; at < std::min({all, wave, kMostWave}); ++at) {
            const uint64_t program = program_at(at, cr, cc, by);
            xs.insert(program % cr), ys.insert(program / cr);
        }
        table.rows.push_back({name, std::to_string(xs.size()), std::to_string(ys.size()), std::to_string(xs.size() + ys.size())});
    };
    touched("axis 0 fastest", 0);
    if (group) touched("as launched", group);
    out.figures.push_back({"what the first wave reads", "different numbers along each axis: fewer, and more is shared in L2", std::move(table), {}});
    return out;
}

}  // namespace tegula::picture
