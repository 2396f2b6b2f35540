// Pictures of what the compiler decided for a kernel: how tiles change hands, what accesses move, how copies overlap with arithmetic.
#include <algorithm>
#include <cmath>
#include <set>

#include "jit/picture/builders.h"
#include "jit/picture/pipeline.h"
#include "jit/picture/sectors.h"
#include "lang/gpu/conversion.h"
#include "lang/gpu/packed_view.h"
#include "lang/gpu/wide_access.h"
#include "lang/plain_text.h"
#include "lang/stable_sort.h"
#include "lower/gpu/estimate.h"
#include "lower/gpu/place.h"
#include "lower/gpu/place_groups.h"
#include "lower/rewrite.h"

namespace tegula::picture {

// ---- convert ----

Picture convert_picture(const KernelView& k) {
    Picture out{"convert", k.name + " on " + k.arch->name + ": how tiles change hands", {}, {}, {}};
    Table table{{"line", "tile", "way", "cost"}, {}, {}};
    int64_t shuffles = 0, scratch = 0;
    int renamed = 0;
    for (const explain::Note& n : k.said->notes) {
        const auto* c = std::get_if<explain::Conversion>(&n.fact);
        if (!c || !k.wants(n.span, c->to_string(c->way))) continue;
        std::string cost;
        const auto side = [](const char* name, const explain::Conversion::Side& s) {
            return std::string(name) + " " + std::to_string(s.access_bits / 8) + " bytes a lane" +
                   (s.bank_accesses > 1 ? " (" + std::to_string(s.bank_accesses) + "-way conflicts)" : "");
        };
        if (c->way == c->renamed) cost = "free: registers get other names", ++renamed;
        if (c->shuffles) cost = std::to_string(c->shuffles) + " shuffles of a thread", shuffles += c->shuffles;
        if (c->scratch_bytes)
            cost += (cost.empty() ? "" : ", ") + std::to_string(c->scratch_bytes) + " bytes of " +
                    (c->global_scratch ? "global memory" : "shared memory"),
                scratch = std::max(scratch, c->scratch_bytes);
        if (c->written) cost += ", " + side("written", *c->written);
        if (c->read) cost += ", " + side("read", *c->read);
        if (!c->layout.empty()) cost += (cost.empty() ? "" : ", ") + c->layout;
        table.rows.push_back({n.span.valid() ? std::to_string(k.line(n.span)) : "-", to_string(c->tile), std::string(c->to_string(c->way)), cost.empty() ? "-" : cost});
        table.tones.push_back(c->way == c->renamed ? int{good} : c->way == c->through_scratch ? (c->global_scratch ? int{bad} : 7) : int{plain});
    }
    if (table.rows.empty()) {
        out.notes.push_back(k.of.empty() ? "no tile changes hands: each operation finds its operands where they are"
                                         : "nothing changes hands at `" + k.of + "`");
        return out;
    }
    out.facts.push_back({"conversions", std::to_string(table.rows.size()) + ", of which " + std::to_string(renamed) + " are free"});
    if (shuffles) out.facts.push_back({"shuffles", std::to_string(shuffles) + " of a thread"});
    if (scratch) out.facts.push_back({"scratch", std::to_string(scratch) + " bytes for the largest"});
    out.figures.push_back({"conversions", "in the order of the program", std::move(table), {}});
    return out;
}

// ---- sectors ----

SectorCount count_sectors(const TileLayout& l, int dimension, int vector, unsigned bits) {
    SectorCount out;
    constexpr int64_t kSectorBits = 256, kMostAccesses = 4096;
    for (int warp = 0; warp < l.warps(); ++warp)
        for (int r = 0; r < l.registers(); ++r) {
            if (dimension >= 0 && l.point(r, 0, warp)[static_cast<size_t>(dimension)] % vector) continue;  // not the first element of an access
            if (out.accesses == kMostAccesses) {
                out.cut = true;
                return out;
            }
            std::set<std::pair<TileLayout::Point, int64_t>> sectors, elements;
            for (int lane = 0; lane < 32; ++lane) {
                TileLayout::Point p = l.point(r, lane, warp);
                if (!l.inside(p)) continue;
                const int64_t along = dimension >= 0 ? p[static_cast<size_t>(dimension)] : 0;
                if (dimension >= 0) p[static_cast<size_t>(dimension)] = 0;
                const int64_t extent = dimension >= 0 ? l.shape[static_cast<size_t>(dimension)] : 1,
                              end = std::min(along + (dimension >= 0 ? vector : 1), extent);
                for (int64_t e = along; e < end; ++e) elements.emplace(p, e);
                for (int64_t s = along * bits / kSectorBits; s <= (end * bits - 1) / kSectorBits; ++s) sectors.emplace(p, s);
            }
            if (elements.empty()) continue;
            ++out.accesses;
            out.asked += static_cast<int64_t>((elements.size() * bits + 7) / 8);
            out.moved += static_cast<int64_t>(sectors.size()) * 32;
            out.worst = std::max(out.worst, static_cast<int64_t>(sectors.size()));
        }
    return out;
}

Picture sectors_picture(const KernelView& k) {
    const ir::Function& fn = *k.form;
    Picture out{"sectors", k.name + " on " + k.arch->name + ": what accesses to memory move", {}, {}, {}};
    Table table{{"line", "access", "tile", "bytes a lane", "asked", "moved", "worst"}, {}, {}};
    Bars bars;
    int64_t asked = 0, moved = 0;
    fn.walk([&](ir::InstId id) {
        const ir::Inst& inst = fn.inst(id);
        if (inst.op != ir::Op::load && inst.op != ir::Op::store && inst.op != ir::Op::atomic) return;
        const ir::ValueId object = fn.operands(inst)[0], like = alike(fn, inst).like;
        const std::string tensor = param_name(fn, object), op = std::string(ir::op_row(inst.op).name) + " " + (tensor.empty() ? "?" : tensor);
        if (!k.wants(inst.span, tensor)) return;
        const std::string line = std::to_string(k.line(inst.span));
        if (fn.placement(like).kind != Placement::registers || fn.gpu_inst(id).bulk) {
            if (fn.type(like).shape.rank > 0)
                table.rows.push_back({line, op, to_string(fn.type(like).shape), "bulk", "all", "all", "whole lines, by TMA"}),
                    table.tones.push_back(good);
            return;
        }
        const TileLayout& l = fn.placement(like).regs;
        const unsigned bits = fn.elem(object).bits;
        if (const auto view = packed_view(fn, inst, l)) {
            table.rows.push_back({line, op, to_string(l.shape), std::to_string(view->grain), "-", "-",
                                  std::to_string(view->loads.size()) + " accesses of a thread, of whole words that it decodes"});
            table.tones.push_back(plain);
            return;
        }
        const int d = contiguous_dimension(fn, inst), vector = d >= 0 ? wide_access(fn, id, like).vector : 1;
        if (d < 0 && fn.types().layout(fn.type(object).layout).kind() == Layout::Kind::exprs) {
            table.rows.push_back({line, op, to_string(l.shape), "words", "-", "-", "in the tensor's own order: see `layout`"});
            table.tones.push_back(plain);
            return;
        }
        const SectorCount n = count_sectors(l, d, vector, bits);
        asked += n.asked, moved += n.moved;
        if (n.cut) out.notes.push_back("line " + line + ", " + op + ": the first " + std::to_string(n.accesses) + " accesses of warps are counted");
        table.rows.push_back({line, op, to_string(l.shape), decimal_text(double(vector) * bits / 8, 4), std::to_string(n.asked),
                              std::to_string(n.moved),
                              std::to_string(n.worst) + " sectors for " + std::to_string(n.accesses ? n.asked / n.accesses : 0) + " bytes"});
        table.tones.push_back(n.moved > 2 * n.asked ? bad : n.moved > n.asked ? 7 : int{good});
        if (n.moved)
            bars.bars.push_back({"line " + line + " " + op, double(n.asked), double(n.moved),
                                 decimal_text(100.0 * double(n.asked) / double(n.moved), 3) + "% of " + std::to_string(n.moved) + " bytes",
                                 n.moved > 2 * n.asked ? int{bad} : 1});
    });
    for (const explain::Note& n : k.said->notes)
        if (const auto* p = std::get_if<explain::PointerAccess>(&n.fact); p && k.wants(n.span, p->op)) {
            table.rows.push_back({std::to_string(k.line(n.span)), p->op, to_string(p->tile), decimal_text(double(p->access_bits) / 8, 4), "-", "-",
                                  "an element an access: " + p->why});
            table.tones.push_back(7);
        }
    if (table.rows.empty()) {
        out.notes.push_back(k.of.empty()
                                ? "the kernel reads and writes no tiles of tensors by its threads: rings are filled by bulk copies of whole lines"
                                : "no access is of `" + k.of + "`");
        return out;
    }
    if (moved) out.facts.push_back({"of all bytes that are moved", decimal_text(100.0 * double(asked) / double(moved), 3) + "% are asked for"});
    out.figures.push_back(
        {"accesses of a tile", "bytes that all warps of a program ask for and that memory moves in sectors of 32 bytes", std::move(table), {}});
    if (!bars.bars.empty()) out.figures.push_back({"bytes asked for, of those moved", "", std::move(bars), {}});
    out.notes.push_back(
        "tiles are taken to begin on a sector, and lines of a tensor on sectors of their own; what a cache gives again is counted again");
    return out;
}

// ---- pipeline ----

std::vector<Trip> run_pipeline(int trips, int stages, double copy, double latency, double compute) {
    std::vector<Trip> out;
    double bus = 0, consumer = 0;  // free from then on
    for (int t = 0; t < trips; ++t) {
        Trip trip;
        const double stage_free = t >= stages ? out[static_cast<size_t>(t - stages)].compute_end : 0;
        trip.copy_begin = std::max(bus, stage_free);
        bus = trip.copy_begin + copy;
        trip.copy_end = trip.copy_begin + std::max(copy, latency);
        trip.compute_begin = std::max(consumer, trip.copy_end);
        trip.compute_end = consumer = trip.compute_begin + compute;
        out.push_back(trip);
    }
    return out;
}

namespace {

/// Clocks of one trip's products, by the notes on them.
double product_clocks(const KernelView& k) {
    double clocks = 0;
    for (const explain::Note& n : k.said->notes)
        if (const auto* p = std::get_if<explain::Product>(&n.fact); p && p->clocks) clocks += *p->clocks;
    return clocks;
}

constexpr int kTrips = 8;

}  // namespace

Picture pipeline_picture(const KernelView& k) {
    const ir::Function& fn = *k.form;
    const Arch& arch = *k.arch;
    Picture out{"pipeline", k.name + " on " + k.arch->name + ": copies beside arithmetic", {}, {}, {}};
    int64_t bytes = 0, loaded = 0;
    int stages = 0;
    bool own = false;
    for (const auto& [value, channel] : fn.gpu->channels) {
        bytes += channel.layout.bytes();
        stages = stages ? std::min(stages, channel.stages) : channel.stages;
        own = own || channel.own;
    }
    fn.walk([&](ir::InstId id) {
        if (fn.inst(id).op == ir::Op::load) loaded += fn.type(fn.result(fn.inst(id))).shape.elements() * fn.elem(fn.result(fn.inst(id))).bits / 8;
    });
    Table table{{"tensor", "copied by", "stages", "bytes", "why not"}, {}, {}};
    for (const explain::Note& n : k.said->notes)
        if (const auto* c = std::get_if<explain::CopyAhead>(&n.fact)) {
            table.rows.push_back({c->tensor, c->by == c->nobody ? "-" : std::string(c->to_string(c->by)), std::to_string(c->stages), std::to_string(c->stage_bytes),
                                  c->refusal.empty() ? "-" : c->refusal});
            table.tones.push_back(c->refusal.empty() ? int{good} : int{plain});
        }
    const double share = double(arch.l2_bytes) / arch.sms, latency = double(bytes_that_hide_latency(arch)) / (double(arch.memory_bytes) / arch.sms);
    const double copy = double(stages ? bytes : loaded) / share, products = product_clocks(k);
    if (products == 0 && stages == 0) {
        out.notes.push_back("the kernel has no ring and no products: each load is waited for");
        if (!table.rows.empty()) out.figures.push_back({"loads that could run ahead", "", std::move(table), {}});
        return out;
    }
    const std::vector<Trip> trips = run_pipeline(kTrips, std::max(stages, 1), copy, latency, std::max(products, 1.0));
    out.facts.push_back(
        {"ring", stages ? std::to_string(stages) + " stages of " + std::to_string(bytes) + " bytes" : "none: a trip's tiles are loaded, then used"});
    out.facts.push_back({"producer", fn.gpu->specialised ? "warps of its own"
                                     : own               ? "each thread copies what it reads"
                                     : stages            ? "the threads that compute"
                                                         : "none"});
    out.facts.push_back(
        {"a trip", "copy " + short_text(copy) + " clocks and " + short_text(latency) + " of latency, products " + short_text(products) + " clocks"});
    const double all = trips.back().compute_end, busy = kTrips * products;
    out.facts.push_back(
        {"products are under way", decimal_text(100 * busy / all, 3) + "% of the time of the first " + std::to_string(kTrips) + " trips"});
    Gantt gantt{"clocks", all, {}};
    for (int s = 0; s < std::max(stages, 1); ++s) {
        Gantt::Lane lane{stages ? "stage " + std::to_string(s) + " copied" : "load", {}},
            held{stages ? "stage " + std::to_string(s) + " in use" : "", {}};
        for (int t = s; t < kTrips; t += std::max(stages, 1)) {
            const Trip& trip = trips[static_cast<size_t>(t)];
            lane.bars.push_back({trip.copy_begin, trip.copy_end, std::to_string(t), tone_of(t)});
            held.bars.push_back({trip.compute_begin, trip.compute_end, std::to_string(t), tone_of(t)});
        }
        gantt.lanes.push_back(std::move(lane));
        if (stages) gantt.lanes.push_back(std::move(held));
    }
    Gantt::Lane consumer{"products", {}};
    for (int t = 0; t < kTrips; ++t)
        consumer.bars.push_back(
            {trips[static_cast<size_t>(t)].compute_begin, trips[static_cast<size_t>(t)].compute_end, std::to_string(t), tone_of(t)});
    gantt.lanes.push_back(std::move(consumer));
    out.figures.push_back({"the first " + std::to_string(kTrips) + " trips",
                           "a bar is a trip; a stage is copied anew when its products have ended",
                           std::move(gantt),
                           {}});
    if (!table.rows.empty()) out.figures.push_back({"loads that could run ahead", "", std::move(table), {}});
    out.notes.push_back("clocks are those of the cost model for one program on an SM, not measured");
    return out;
}

}  // namespace tegula::picture
