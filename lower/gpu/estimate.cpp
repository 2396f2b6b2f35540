// The cost model behind `tune` (estimate.h). A program is a tree of loops; for each the clocks that one program needs alone (copies waited for
// where no ring hides them), and the clocks of each unit that all programs of an SM share. A launch takes the larger of both: shared units times
// programs per SM, or rounds of resident programs times the time of one.
#include "lower/gpu/estimate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "lang/gpu/raster.h"
#include "lang/gpu/split_loop.h"
#include "lang/launch_value.h"
#include "lang/layout.h"
#include "lang/tensor_core.h"
#include "lower/gpu/place.h"
#include "lower/gpu/rows.h"
#include "lower/lower.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

// Clocks and bytes per clock and SM, measured on an H200 and taken for all.
constexpr double kLatency = 900;         ///< of a copy to shared memory, barrier included
constexpr double kLoadedLatency = 1500;  ///< of one among the many that keep a ring full
constexpr double kIteration = 90;        ///< waiting and signalling around one step of a ring
constexpr double kDecoded = 400;         ///< of a step whose wgmma takes a factor decoded in registers, beside the longer of the two
constexpr double kScaled = 400;          ///< of a step whose sums are scaled before they are added, where no other warp group multiplies meanwhile
constexpr double kScales = 300;          ///< issue slots of four warps that bring a step's scales to where they are used
constexpr double kAhead = 1200;          ///< that a trip takes at least when its narrow tiles were loaded a trip before
constexpr double kDecoding = 2.4;        ///< elementwise operations that taking a narrow code out of its word and casting it is worth
constexpr double kUncopied = 250;        ///< two meetings of the group and shared memory, per trip of a loop without a ring
constexpr double kProgram = 1200;        ///< start of a program, its scalars and barriers
constexpr double kLaunch = 3500;         ///< of a grid
constexpr double kSmBytes = 64;          ///< that one SM takes from L2 at best
constexpr double kStoreBytes = 32;
constexpr double kLanes = 64;    ///< elementwise results, mixed operations
constexpr double kIssued = 128;  ///< operations of threads: four warps issue one each
constexpr double kSmThreads = 2048;
constexpr double kSpill = 4;                        ///< factor of accumulators in local memory
constexpr double kSmallParts = 1.3, kFewSums = 96;  ///< factor of short sums made in pieces, beside more registers of accumulators than that
constexpr int64_t kShortStretch = 64;
constexpr double kMeeting = 2000;                                    ///< of the programs that run the stretches of one sum
constexpr double kCachedSums = 24 << 20;                             ///< bytes of such sums that stay in L2
constexpr int64_t kSharedReserve = 16 << 10, kStoreBoxes = 4 << 10;  ///< boxes: of a warp that stores sums by TMA
constexpr int64_t kUnknownTrips = 16;
constexpr double kMostPrograms = 0x1p62;  ///< that a launch has; estimates may be asked for more
constexpr int kDefaultStages = 4, kGroupRows = 16, kGroupWarps = 4, kMaxPrograms = 32, kMaxWalk = 200;

/// Clocks of the units that programs share, bytes from L2, and clocks of a program that has the SM to itself.
struct Cost {
    double tensor = 0, lanes = 0, bytes = 0, memory = 0, alone = 0;
    double codes = 0;       ///< of narrow elements that are cast
    double multiplies = 0;  ///< and adds, of products
    void add(const Cost& o, double times) {
        tensor += times * o.tensor;
        lanes += times * o.lanes;
        bytes += times * o.bytes;
        memory += times * o.memory;
        alone += times * o.alone;
        codes += times * o.codes;
        multiplies += times * o.multiplies;
    }
};

class Estimator {
public:
    Estimator(const Function& fn, const GpuOptions& options, const LaunchScale& scale);
    GpuEstimate run();

private:
    std::optional<int64_t> scalar(ValueId v);
    std::optional<int64_t> given(ValueId v);
    int64_t trips(const Inst& loop);
    Cost block(BlockId id);
    Cost loop(const Inst& inst);
    Cost instruction(const Inst& inst);
    Cost product(const Inst& inst);
    bool decodes_for_group(const Inst& dot) const;
    bool comes_in_words(const Inst& load) const;
    Cost access(const Inst& inst);
    unsigned axes_behind(const Inst& access) const;
    double distinct(unsigned axes) const;
    int sharers(unsigned axes) const;
    bool spreads(const Inst& loop) const;
    void add_exchange(Cost& program);
    void find_resources();
    bool take_programs();

    const Function& fn_;
    const LaunchScale& scale_;
    const Arch& arch_;
    RowContext rows_;
    double programs_ = 1, at_once_ = 1, sm_bytes_ = kSmBytes;
    double stretches_ = 1;  ///< of a split sum, that are programs of the launch
    double apart_ = 1;      ///< stretches whose programs read other bytes of the same tensor where the walk is
    double sum_bytes_ = 0;  ///< of a stretch
    const bool spread_;     ///< stretches of split sums are programs where launches know how many there are
    std::array<int, 3> cluster_ = {1, 1, 1};
    int64_t ring_bytes_ = 0;              ///< shared memory of the largest ring
    int64_t scratch_bytes_ = 0;           ///< shared memory beside it: scales, boxes of stores
    double threads_ = 0, registers_ = 0;  ///< of a program
    double longest_ = 0;
    bool small_parts_ = false;
    ScalarValues scalars_;  ///< in a program in the middle of the grid, in a trip in the middle of a loop
    GpuEstimate out_;
};

double bytes_of(const Function& fn, ValueId v) { return double(fn.type(v).shape.elements()) * fn.elem(v).bits / 8; }

Estimator::Estimator(const Function& fn, const GpuOptions& options, const LaunchScale& scale)
    : fn_(fn), scale_(scale), arch_(*options.arch), spread_(options.spread), scalars_(fn, [this](ValueId v) { return given(v); }) {
    rows_.arch = options.arch;
    rows_.shared_left = arch_.shared_bytes - kSharedReserve;
    rows_.warps = chosen_warps(fn, rows_);
    for (uint64_t g : scale.grid) programs_ *= static_cast<double>(g);
    bool cut = false;
    fn.walk([&](InstId i) {
        const Inst& loop = fn.inst(i);
        cut = cut || (is_split_loop(fn, loop) && spread_);
        if (!spreads(loop)) return;
        stretches_ = static_cast<double>(std::max<int64_t>(scalar(fn.operands(loop)[1]).value_or(1), 1));
        for (uint32_t r = 0; r < loop.results.count; ++r) sum_bytes_ += bytes_of(fn, fn.result(loop, r));
    });
    const bool persistent = find_hint(fn.hints, "persistent") || find_hint(fn.hints, "cooperative");  // neither is launched in clusters
    if (const std::array<int, 3> wanted = wanted_cluster(fn);
        arch_.multicast && !cut && !persistent && !reports_programs(fn) && has_whole_clusters(wanted, scale.grid))
        cluster_ = wanted;
    programs_ *= stretches_;
    sm_bytes_ = std::min(kSmBytes, arch_.l2_bytes / std::min(std::max(programs_, 1.0), double(arch_.sms)));
}

/// Are the trips of the loop programs of their own?
bool Estimator::spreads(const Inst& loop) const { return spread_ && is_split_loop(fn_, loop) && known_at_launch(fn_, fn_.operands(loop)[1]); }

/// A program leaves its stretch, and one for all of them reads what each has left.
void Estimator::add_exchange(Cost& program) {
    if (stretches_ == 1) return;
    program.bytes += 2 * sum_bytes_;
    program.alone += kMeeting + 2 * sum_bytes_ / kStoreBytes;
    if (at_once_ * sum_bytes_ > kCachedSums) program.memory += 2 * sum_bytes_ * at_once_;
}

std::optional<int64_t> Estimator::scalar(ValueId v) {
    const auto code = scalars_.code(v);
    return code ? std::optional(static_cast<int64_t>(*code)) : std::nullopt;
}

/// What the launch at hand says, in the middle of what has several values.
std::optional<int64_t> Estimator::given(ValueId v) {
    const Inst* def = fn_.def(v);
    if (def && def->op == Op::program_id) return static_cast<int64_t>(scale_.grid[fn_.attrs(*def)[0]] / 2);
    if (def && def->op == Op::num_programs) return static_cast<int64_t>(scale_.grid[fn_.attrs(*def)[0]]);
    if (def) return std::nullopt;
    for (size_t i = 0; i < fn_.params.size() && i < scale_.scalars.size(); ++i)
        if (fn_.params[i].value == v) return scale_.scalars[i];
    const Block& block = fn_.block(fn_.value(v).block);
    if (!block.owner.valid() || fn_.inst(block.owner).op != Op::for_loop || fn_.value(v).index != 0) return std::nullopt;
    const auto bounds = fn_.operands(fn_.inst(block.owner));
    const auto lo = scalar(bounds[0]), hi = scalar(bounds[1]);
    return lo && hi ? std::optional(*lo + (*hi - *lo) / 2) : std::nullopt;
}

int64_t Estimator::trips(const Inst& inst) {
    const auto o = fn_.operands(inst);
    const auto lo = scalar(o[0]), hi = scalar(o[1]), step = scalar(o[2]);
    if (!lo || !hi || !step || *step <= 0 || *lo < INT64_MIN / 4 || *hi > INT64_MAX / 4) return kUnknownTrips;
    return *hi <= *lo ? 0 : (*hi - *lo - 1) / *step + 1;
}

/// Bit d: where the access starts depends on program_id(d); all where that is not known.
unsigned Estimator::axes_behind(const Inst& access) const {
    std::vector<ValueId> work(fn_.operands(access).begin() + 1, fn_.operands(access).end());
    unsigned axes = 0;
    for (size_t n = 0; n < work.size(); ++n) {
        const Inst* def = fn_.def(work[n]);
        if (n == kMaxWalk || (def && !has_trait(def->op, PURE))) return 7;
        if (def && def->op == Op::program_id) axes |= 1u << fn_.attrs(*def)[0];
        if (def)
            for (ValueId v : fn_.operands(*def)) work.push_back(v);
    }
    return axes;
}

/// Programs of a cluster that fetch a tile once.
int Estimator::sharers(unsigned axes) const {
    int n = 1;
    for (size_t d = 0; d < cluster_.size(); ++d) n *= axes >> d & 1 ? 1 : cluster_[d];
    return n;
}

/// Of the programs that run at the same time, how many read different bytes by this access: programs are swept in groups of rows, and each stretch of
/// a split sum has bytes of its own.
double Estimator::distinct(unsigned axes) const {
    const double together = std::max(at_once_ / apart_, 1.0);
    const double rows = std::max(std::min({double(scale_.grid[0]), double(kGroupRows), together}), 1.0);  // grids may be empty
    double programs = together;
    if (axes == 0)
        programs = 1;
    else if (axes == 1)
        programs = std::min(double(scale_.grid[0]), scale_.grid[1] * scale_.grid[2] == 1 ? together : rows);
    else if (axes == 2)
        programs = std::clamp(together / rows, 1.0, std::max(double(scale_.grid[1]), 1.0));
    return std::min(programs * apart_, at_once_);
}

Cost Estimator::access(const Inst& inst) {
    Cost c;
    const bool store = inst.op == Op::store || inst.op == Op::ptr_store;
    const size_t value = fn_.operands(inst).size() - 1;  // of a store without mask; a mask has fewer bits, which does not matter here
    const double bytes = inst.results.count ? bytes_of(fn_, fn_.result(inst)) : bytes_of(fn_, fn_.operands(inst)[value]);
    if (store) {
        c.memory = bytes * at_once_;
        c.alone = 400 + bytes / kStoreBytes;
        return c;
    }
    const unsigned axes = axes_behind(inst);
    c.bytes = fn_.type(fn_.result(inst)).shape.rank < 2 ? bytes : bytes / sharers(axes);
    c.memory = bytes * distinct(axes);
    c.alone = fn_.type(fn_.result(inst)).shape.rank == 0 ? 0 : kLatency + c.bytes / sm_bytes_;
    return c;
}

Cost Estimator::product(const Inst& inst) {
    Cost c;
    const RowVerdict best = best_row(judge_rows(fn_, inst, rows_));
    const MmaRow& row = fn_.row(best.row);
    const ProductShape shape = product_shape(fn_, inst);
    c.multiplies = double(shape.batch) * double(shape.m) * double(shape.n) * double(shape.k);
    c.tensor = c.alone = best.cost * (out_.spills ? kSpill : small_parts_ ? kSmallParts : 1);
    for (const size_t o : {0, 1}) {  // operands that are cast for the instruction
        const Format& given = fn_.elem(fn_.operands(inst)[o]);
        const bool widened = given.bits <= 8 && fn_.types().format(o ? best.b : best.a).bits > given.bits;
        if (widened) c.codes += double(fn_.type(fn_.operands(inst)[o]).shape.elements());
    }
    if (row.fraction_bits == 13) {
        const int64_t chunk = std::min<int64_t>(inst.op == Op::dot_scaled ? scale_stretch(fn_, inst) : shape.k, 128);
        out_.chunk = out_.chunk ? std::min(out_.chunk, chunk) : chunk;
    }
    if (best.cost > longest_) {
        longest_ = best.cost;
        out_.row = fn_.row_name(best.row);
    }
    return c;
}

/// Is a tile loaded by words that are decoded? Whole bytes of plain rows are copied as they are.
bool Estimator::comes_in_words(const Inst& load) const {
    const unsigned bits = fn_.elem(fn_.result(load)).bits;
    const Layout::Kind kind = fn_.types().layout(fn_.type(fn_.operands(load)[0]).layout).kind();
    return bits < 8 || (bits == 8 && kind != Layout::Kind::row && kind != Layout::Kind::col);
}

/// Does a warp group multiply a factor that its threads decode?
bool Estimator::decodes_for_group(const Inst& dot) const {
    return fn_.row(best_row(judge_rows(fn_, dot, rows_)).row).kind == MmaRow::wgmma && is_decoded(fn_, dot, 0);
}

Cost Estimator::instruction(const Inst& inst) {
    Cost c;
    switch (inst.op) {
        case Op::for_loop:
        case Op::while_loop:
            return loop(inst);
        case Op::if_else:
            for (BlockId b : fn_.blocks(inst)) c.add(block(b), 0.5);
            return c;
        case Op::dot:
        case Op::dot_scaled:
            return product(inst);
        case Op::load:
        case Op::store:
        case Op::atomic:
        case Op::ptr_load:
        case Op::ptr_store:
        case Op::ptr_atomic:
            return access(inst);
        default:
            break;
    }
    if (has_trait(inst.op, FREE | VIEW) || inst.results.count == 0 || fn_.type(fn_.result(inst)).kind != Type::tile) return c;
    const ValueId of = inst.op == Op::reduce || inst.op == Op::contract ? fn_.operands(inst)[0] : fn_.result(inst);
    const unsigned bits = inst.op == Op::cast ? fn_.elem(fn_.operands(inst)[0]).bits : 0;
    const bool decodes = bits > 0 && bits < 8;
    if (bits > 0 && bits <= 8 && !fn_.elem(fn_.operands(inst)[0]).is_bool()) c.codes = double(fn_.type(of).shape.elements());
    c.lanes = (decodes ? kDecoding : 1) * double(fn_.type(of).shape.elements()) / kLanes *
              (inst.op == Op::contract ? double(fn_.type(of).shape[fn_.type(of).shape.rank - 1]) : 1);
    c.alone = c.lanes + (inst.op == Op::reduce ? kUncopied : 0);
    return c;
}

/// A loop whose products read loaded tiles runs through a ring: a step takes what its units take, or its share of the ring's round trip.
Cost Estimator::loop(const Inst& inst) {
    double times = inst.op == Op::for_loop ? static_cast<double>(trips(inst)) : double(kUnknownTrips);
    if (spreads(inst)) times = 1, apart_ = stretches_;
    Cost body, copies;
    int64_t stage_bytes = 0;
    bool product = false, deferred = false, scaled = false, words = false;
    double products = 0;  // clocks of those alone
    for (BlockId b : fn_.blocks(inst))
        for (InstId i : fn_.block(b).insts) {
            const Inst& in = fn_.inst(i);
            const bool tile = in.op == Op::load && fn_.type(fn_.result(in)).shape.rank >= 2;
            const bool ahead = tile && comes_in_words(in);  // in registers, not in a ring
            const bool copied = tile && !ahead;
            Cost cost = instruction(in);
            if (ahead) cost.alone = 0;
            (copied ? copies : body).add(cost, 1);
            if (copied) stage_bytes += static_cast<int64_t>(bytes_of(fn_, fn_.result(in)));
            words = words || ahead;
            if (!is_product(in.op)) continue;
            product = true;
            products += cost.alone;
            deferred = deferred || decodes_for_group(in);
            scaled = scaled || in.op == Op::dot_scaled;
        }
    if (spreads(inst)) apart_ = 1;
    // Decoding of the next trip goes on beside the product; warps that multiply alone wait for words of one trip.
    if (deferred)
        body.alone = std::max(products, body.alone - products) + kDecoded;
    else if (product && words)
        body.alone = std::max(body.alone, kAhead);
    if (scaled) {
        const double scales = kScales * rows_.warps / kGroupWarps;
        body.tensor += scales;
        body.alone += scales + (rows_.warps > kGroupWarps ? 0 : kScaled);
    }
    const int64_t room = arch_.shared_bytes - kSharedReserve;
    int64_t stages = product && stage_bytes > 0 ? std::min<int64_t>(kDefaultStages, room / stage_bytes) : 0;
    if (stages < 2 || !arch_.cp_async) stages = 0;
    Cost out;
    double step = body.alone + copies.alone + (stages ? 0 : kUncopied);
    if (stages) {
        const double copy = copies.bytes / sm_bytes_, round = kLoadedLatency + copy + body.alone;
        step = std::max({body.alone, copy, round / static_cast<double>(stages)}) + kIteration;
        if (stages * stage_bytes > ring_bytes_) ring_bytes_ = stages * stage_bytes, out_.stages = static_cast<int>(stages);
        out.alone = times > 0 ? kLatency + copy : 0;
    }
    body.add(copies, 1);
    body.alone = step;
    out.add(body, times);
    return out;
}

Cost Estimator::block(BlockId id) {
    Cost c;
    for (InstId i : fn_.block(id).insts) c.add(instruction(fn_.inst(i)), 1);
    return c;
}

/// Registers: accumulators of products live side by side, other tiles a few at a time. A product whose sums are made anew on the way has them beside
/// its accumulator, on wgmma a few rows and columns of them.
void Estimator::find_resources() {
    const double threads = 32.0 * rows_.warps;
    double accumulators = 0, part = 0, totals = 0, largest = 0;
    bool streams = false;  // words and two sets of pairs: compilers take all registers that there are
    fn_.walk([&](InstId id) {
        const Inst& inst = fn_.inst(id);
        for (uint32_t r = 0; r < inst.results.count; ++r) {
            const Type& t = fn_.type(fn_.result(inst, r));
            if (t.kind != Type::tile) continue;
            const double words = double(t.shape.elements()) * std::max<int>(fn_.elem(fn_.result(inst, r)).bits, 16) / 32;
            if (is_split_loop(fn_, inst) && !spreads(inst)) totals += words;
            if (inst.op == Op::dot_scaled) {
                scratch_bytes_ += 4 * fn_.type(fn_.operands(inst)[4]).shape.elements();
                small_parts_ = small_parts_ || scale_stretch(fn_, inst) < kShortStretch;
            }
            if (is_product(inst.op)) {
                accumulators += words;
                streams = streams || decodes_for_group(inst);
                const MmaRow& row = fn_.row(best_row(judge_rows(fn_, inst, rows_)).row);
                if (inst.op == Op::dot_scaled || promotes(row))
                    part = std::max(part, row.kind == MmaRow::wgmma ? std::min(words, kPartRegisters * threads) : words);
            } else if (inst.op != Op::load && inst.op != Op::constant && inst.op != Op::broadcast) {
                largest = std::max(largest, words);
            }
        }
    });
    if (accumulators > 0 && arch_.tma) scratch_bytes_ += kStoreBoxes * rows_.warps;
    const double held = (accumulators > 0 ? accumulators + part + totals + double(shared_words(fn_)) : 2 * largest) / threads;
    out_.spills = held > 200;
    small_parts_ = small_parts_ && accumulators > kFewSums * threads;
    const double each = std::min(streams ? 255.0 : held + 64, 255.0);
    threads_ = threads;
    registers_ = each * threads + (accumulators > 0 && arch_.tma ? 128 * 40 : 0);
    out_.warps = rows_.warps;
    out_.registers = static_cast<int>(each);
    take_programs();
}

/// As many programs of an SM as its registers and threads, and the rings that are known, leave room for. Did that change?
bool Estimator::take_programs() {
    const Occupancy fits = occupancy(arch_, threads_, registers_, ring_bytes_ + scratch_bytes_);
    const bool changed = fits.per_sm != out_.per_sm;
    out_.per_sm = fits.per_sm;
    out_.limit = fits.limit;
    at_once_ = std::max(std::min(programs_, double(arch_.sms) * fits.per_sm), 1.0);
    return changed;
}

GpuEstimate Estimator::run() {
    out_.stretches = static_cast<uint64_t>(stretches_);
    out_.programs = static_cast<uint64_t>(std::min(programs_, kMostPrograms));
    find_resources();
    Cost one = block(fn_.body);
    // What is copied ahead limits how many programs fit; shares of memory traffic follow from that and need a second look.
    if (take_programs()) one = block(fn_.body);
    out_.ring_bytes = ring_bytes_;
    out_.codes = programs_ * one.codes;
    out_.multiplies = programs_ * one.multiplies;
    out_.memory_bytes = programs_ / at_once_ * one.memory;
    one.alone += kProgram;
    add_exchange(one);
    const double each = std::ceil(programs_ / arch_.sms), rounds = std::ceil(each / out_.per_sm);
    const auto part = [&](const char* name, double clocks) { return GpuEstimate::Part{name, (clocks + kLaunch) / arch_.clock_mhz}; };
    out_.parts = {part("latency", rounds * one.alone), part("tensor cores", each * one.tensor), part("issue slots", each * one.lanes),
                  part("L2", programs_ * one.bytes / arch_.l2_bytes), part("memory", out_.memory_bytes / arch_.memory_bytes)};
    const auto most = std::ranges::max_element(out_.parts, {}, &GpuEstimate::Part::microseconds);
    out_.bound = most->name;
    out_.microseconds = most->microseconds;
    return out_;
}

}  // namespace

bool is_quicker(const GpuEstimate& a, const GpuEstimate& b) {
    const auto longest_first = [](const GpuEstimate& e) {
        std::vector<double> times;
        for (const GpuEstimate::Part& p : e.parts) times.push_back(p.microseconds);
        std::ranges::sort(times, std::greater());
        return times;
    };
    return longest_first(a) < longest_first(b);
}

int64_t bytes_that_hide_latency(const Arch& arch) { return static_cast<int64_t>(kLoadedLatency * arch.memory_bytes / arch.sms); }

double issue_microseconds(const Arch& arch, double operations) { return (operations / (kIssued * arch.sms) + kLaunch) / arch.clock_mhz; }

Occupancy occupancy(const Arch& arch, double threads, double registers, int64_t shared_bytes) {
    const std::pair<double, const char*> bounds[] = {{kMaxPrograms, "programs"},
                                                     {kSmThreads / threads, "threads"},
                                                     {arch.registers / registers, "registers"},
                                                     {double(arch.shared_bytes + 1024) / double(shared_bytes + 1024), "shared memory"}};
    const auto* least = &bounds[0];
    for (const auto& bound : bounds)
        if (std::floor(bound.first) < std::floor(least->first)) least = &bound;
    return {std::max(static_cast<int>(least->first), 1), least->second};
}

void prepare_for_estimates(Function& fn) {
    bool split = false;
    fn.walk([&](InstId i) { split = split || is_split_loop(fn, fn.inst(i)); });
    if (!split) split_k(fn);
    orient_products(fn);
}

GpuEstimate estimate_gpu(const Function& fn, const GpuOptions& options, const LaunchScale& scale) {
    InstId split;
    fn.walk([&](InstId i) { split = is_split_loop(fn, fn.inst(i)) ? i : split; });
    GpuEstimate best = Estimator(fn, options, scale).run();
    best.spread = options.spread;
    const bool counted = split.valid() && hint_argument(fn.hints_of(fn.inst(split)), "split_k").has_value();
    if (!options.spread || !split.valid() || counted || best.stretches == 1) return best;
    GpuOptions together = options;
    together.spread = false;
    GpuEstimate other = Estimator(fn, together, scale).run();
    other.spread = false;
    return is_quicker(other, best) ? other : best;
}

}  // namespace tegula
