// Loads that feed tensor-core products become channels: rings of tiles in shared memory, filled ahead of the arithmetic. Which loads, how many
// stages, and the two rewrites' common parts (channels.h). Runs after choose_instructions, whose rows say which products count.
#include <algorithm>

#include "lang/access_operands.h"
#include "lang/gpu/bulk_boxes.h"
#include "lang/layout.h"
#include "lang/program_order.h"
#include "lang/uses.h"
#include "lower/gpu/channels.h"
#include "lower/gpu/place.h"
#include "lower/lower.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kStages = 4;  ///< of a channel in a loop, when nothing is said and it fits
constexpr int kMaxStages = 64;
constexpr int64_t kOtherShared = 32 << 10;  ///< left for everything else in shared memory
constexpr int64_t kStageOverhead = 64;      ///< barriers of a stage
constexpr int64_t kMinDecoded = 2 << 10;    ///< bytes from which a tile that is decoded in registers first is worth a channel
constexpr size_t kMaxChannels = 16;

/// Does a reshape only add or drop dimensions of extent 1?
bool only_units(const Shape& from, const Shape& to) {
    std::vector<int64_t> a, b;
    std::copy_if(from.begin(), from.end(), std::back_inserter(a), [](int64_t e) { return e != 1; });
    std::copy_if(to.begin(), to.end(), std::back_inserter(b), [](int64_t e) { return e != 1; });
    return a == b;
}

/// Whatever layout the loaded tile gets in shared memory, can the result be read there? Asked before tiles are placed, where Function::is_view
/// knows nothing yet: a reshape that mixes dimensions is a view of some layouts only, and a convert asks for none of its own.
bool stays_as_loaded(const Function& fn, const Inst& inst) {
    if (inst.op == Op::permute || inst.op == Op::convert) return true;
    return inst.op == Op::reshape && only_units(fn.type(fn.operands(inst)[0]).shape, fn.type(fn.result(inst)).shape);
}

bool is_pointwise(const Inst& inst) { return ir::is_pointwise(inst.op) || inst.op == Op::broadcast || inst.op == Op::reshape; }

/// Where a load's tile goes.
struct Destination {
    bool product = false;  ///< some product takes it
    bool direct = true;    ///< as it was loaded
    std::string problem;
};

class Planner {
public:
    Planner(const Function& fn, const GpuOptions& options)
        : fn_(fn), options_(options), uses_(fn), writes_(fn, options.may_alias), seen_(fn.value_count()) {}

    std::vector<ChannelPlan> run() {
        fn_.walk([&](InstId i) {
            if (fn_.inst(i).op == Op::load && fn_.type(fn_.result(i)).shape.rank > 0) {
                poll(options_.cancel);  // of many loads each looks through what all others compute
                consider(i);
            }
        });
        if (plans_.empty() && fn_.gpu->persistent) return plan_own_rings(fn_, options_, writes_);
        choose_form();
        choose_stages();
        return std::move(plans_);
    }

private:
    Destination uses_of(ValueId tile);
    void follow(ValueId v, bool as_loaded, Destination& uses);
    void consider(InstId load);
    std::string check_shape(InstId load, const Destination& uses) const;
    bool place(ChannelPlan& plan) const;
    bool tma_fits(const ChannelPlan& plan) const;
    InstId last_use(InstId load) const;
    InstId loop_of(InstId i) const;
    int wanted_stages(const ChannelPlan& plan) const;
    void choose_form();
    void choose_stages();
    void drop(const std::string& why, bool (*which)(const ChannelPlan&));

    const Function& fn_;
    const GpuOptions& options_;
    ir::Uses uses_;
    Writes writes_;
    std::vector<bool> seen_;
    std::vector<std::pair<ValueId, bool>> reached_;  ///< from the load at hand; as it was loaded?
    std::vector<ChannelPlan> plans_;
};

void Planner::follow(ValueId v, bool as_loaded, Destination& uses) {
    for (const Use& use : uses_.of(v)) {
        const InstId i = use.inst;
        const Inst& inst = fn_.inst(i);
        if (const auto in = fn_.operands(inst); is_product(inst.op) && std::find(in.begin(), in.begin() + 3, v) != in.begin() + 3) {
            const bool chosen = i.v < fn_.gpu->of_inst.size() && product_row(fn_, i).kind != MmaRow::fma;
            if (in[2] == v)
                uses.problem = "it is what a product adds to";
            else if (!chosen)
                uses.problem = "its product is computed without tensor cores";
            uses.product = true;
            uses.direct = uses.direct && as_loaded;
        } else if (stays_as_loaded(fn_, inst) || is_pointwise(inst)) {
            const ValueId next = fn_.result(inst);
            if (seen_[next.v]) continue;
            seen_[next.v] = true;
            reached_.emplace_back(next, as_loaded && stays_as_loaded(fn_, inst));
        } else if (uses.problem.empty()) {
            uses.problem = std::string("it is also used by `") + op_row(inst.op).name + "`";
        }
    }
}

Destination Planner::uses_of(ValueId tile) {
    Destination uses;
    reached_ = {{tile, true}};
    for (size_t n = 0; n < reached_.size(); ++n) {
        const auto [v, as_loaded] = reached_[n];
        follow(v, as_loaded, uses);
    }
    for (const auto& [v, as_loaded] : reached_) seen_[v.v] = false;
    return uses;
}

InstId Planner::loop_of(InstId i) const {
    for (BlockId block = fn_.inst(i).parent; block.valid();) {
        const InstId owner = fn_.block(block).owner;
        if (!owner.valid()) break;
        const Op op = fn_.inst(owner).op;
        if (op == Op::for_loop || op == Op::while_loop) return owner;
        block = fn_.inst(owner).parent;
    }
    return {};
}

/// The instruction of the load's block that uses the tile, or a view of it, last.
InstId Planner::last_use(InstId load) const {
    const BlockId home = fn_.inst(load).parent;
    const std::vector<InstId>& list = fn_.block(home).insts;
    std::vector<ValueId> views = {fn_.result(load)};
    size_t last = 0;
    for (size_t n = 0; n < views.size(); ++n)
        for (const Use& use : uses_.of(views[n])) {
            InstId at = use.inst;
            if (stays_as_loaded(fn_, fn_.inst(at))) views.push_back(fn_.result(at));
            while (fn_.inst(at).parent != home) at = fn_.block(fn_.inst(at).parent).owner;
            last = std::max(last, static_cast<size_t>(std::find(list.begin(), list.end(), at) - list.begin()));
        }
    return list[last];
}

std::string Planner::check_shape(InstId load, const Destination& uses) const {
    const Inst& inst = fn_.inst(load);
    const Format& elem = fn_.elem(fn_.result(inst));
    const AccessOperands access(fn_, inst);
    if (fn_.type(fn_.result(inst)).shape.rank < 2) return "its tile is no matrix";
    if (elem.bits != 8 && elem.bits != 16 && elem.bits != 32 && elem.bits != 64) return "its elements are not 8, 16, 32 or 64 bits wide";
    if (access.mask) return "it is masked";
    uint64_t other = 0;
    if (access.other && !(splat_code(fn_, access.other.value, other) && other == 0)) return "what is out of range is not 0";
    if (access.access.gathers() || access.access.steps()) return "it gathers or strides";
    const int64_t bytes = fn_.type(fn_.result(inst)).shape.elements() * (elem.bits / 8);
    if (!uses.direct && bytes < kMinDecoded) return "the tile is too small to be copied apart from its decoding";
    return {};
}

/// Sets the tile's place in shared memory; false when the tensor has no contiguous dimension in the tile.
bool Planner::place(ChannelPlan& plan) const {
    const Inst& inst = fn_.inst(plan.load);
    const Type& tensor = fn_.type(fn_.operands(inst)[0]);
    const Access access = fn_.access(inst);
    const Layout::Kind kind = fn_.types().layout(tensor.layout).kind();
    const Shape& shape = fn_.type(fn_.result(inst)).shape;
    if (kind != Layout::Kind::row && (kind != Layout::Kind::col || shape.rank > 2)) return false;
    const Access::Axis& fastest = kind == Layout::Kind::row ? access.axes.back() : access.axes.front();
    if (fastest.kind == Access::index) return false;
    const Format& elem = fn_.elem(fn_.result(inst));
    plan.layout = shared_layout(shape, kind == Layout::Kind::row ? shape.rank - 1 : 0, static_cast<int>(elem.bits / 8));
    return true;
}

bool Planner::tma_fits(const ChannelPlan& plan) const {
    const ValueId tensor = fn_.operands(fn_.inst(plan.load))[0];
    const GpuTensor* fact = tensor_fact(fn_, options_.tensors, tensor);
    return options_.arch->tma && fact && fact->aligned && fn_.type(tensor).shape.rank <= 5 && bulk_boxes(plan.layout).has_value() &&
           starts_on_16_bytes(fn_, options_, fn_.inst(plan.load));
}

void Planner::consider(InstId load) {
    const Destination uses = uses_of(fn_.result(load));
    if (!uses.product) return;
    ChannelPlan plan;
    plan.load = load;
    plan.loop = loop_of(load);
    plan.why_not = !uses.problem.empty() ? uses.problem : check_shape(load, uses);
    const GpuTensor* fact = tensor_fact(fn_, options_.tensors, fn_.operands(fn_.inst(load))[0]);
    if (plan.why_not.empty() && program_order(fn_).together) plan.why_not = "its kernel is cooperative";
    if (plan.why_not.empty() && (!fact || fact->strided)) plan.why_not = "the strides of its tensor are not known";
    if (plan.why_not.empty() && !place(plan)) plan.why_not = "no dimension of the tile is contiguous in the tensor's layout";
    if (plan.why_not.empty() && writes_.may_precede(load)) plan.why_not = "a write before it may reach the same memory";
    if (plan.why_not.empty()) plan.why_not = Slice(fn_, writes_).add(load);
    if (plan.why_not.empty()) {
        plan.tma = tma_fits(plan);
        plan.last_use = last_use(load);
    }
    plans_.push_back(std::move(plan));
}

void Planner::drop(const std::string& why, bool (*which)(const ChannelPlan&)) {
    for (ChannelPlan& p : plans_)
        if (p.why_not.empty() && which(p)) p.why_not = why;
}

bool hint_off(const Function& fn) { return hint_argument(fn.hints, "specialise") == 2; }

/// With a bulk copy for some load in a loop, the loads that have one get a producer; else copies are issued ahead by the threads that compute.
void Planner::choose_form() {
    const bool off = hint_off(fn_);
    const bool split =
        fn_.gpu->specialised ||  // explained after the fact
        (!off && std::any_of(plans_.begin(), plans_.end(), [](const ChannelPlan& p) { return p.why_not.empty() && p.tma && p.loop.valid(); }));
    if (split) {
        drop("its tensor or its start is not known to lie on whole 16 bytes, or the tile cannot be cut into boxes of a bulk copy",
             [](const ChannelPlan& p) { return !p.tma; });
    } else {
        drop("it stands in no loop, so that there is nothing to overlap it with", [](const ChannelPlan& p) { return !p.loop.valid(); });
        for (ChannelPlan& p : plans_) {
            p.tma = false;
            if (p.why_not.empty() && p.layout.shape.rank != 2) p.why_not = "threads copy tiles of two dimensions only";
            if (p.why_not.empty()) p.why_not = ahead_problem(fn_, options_, p);
        }
    }
    size_t accepted = 0;
    for (ChannelPlan& p : plans_)
        if (p.why_not.empty() && ++accepted > kMaxChannels) p.why_not = "there are " + std::to_string(kMaxChannels) + " channels already";
}

int Planner::wanted_stages(const ChannelPlan& plan) const {
    for (InstId loop = plan.loop; loop.valid(); loop = loop_of(loop)) {
        if (const auto stages = hint_argument(fn_.hints_of(fn_.inst(loop)), "pipeline"))
            return static_cast<int>(std::clamp<int64_t>(*stages, 1, kMaxStages));
    }
    const Op holder = fn_.inst(plan.last_use).op;
    const bool held = holder == Op::for_loop || holder == Op::while_loop;
    return plan.loop.valid() && !held ? kStages : 1;
}

/// As many stages as wanted; fewer, and at last fewer channels, when shared memory is short.
void Planner::choose_stages() {
    std::vector<ChannelPlan*> accepted;
    for (ChannelPlan& p : plans_) {
        if (!p.why_not.empty()) continue;
        p.stages = wanted_stages(p);
        accepted.push_back(&p);
    }
    const auto stage_bytes = [](const ChannelPlan& p) { return (p.layout.bytes() + 1023) / 1024 * 1024 + kStageOverhead; };
    while (!accepted.empty()) {
        int64_t total = 0;
        for (const ChannelPlan* p : accepted) total += stage_bytes(*p) * p->stages;
        if (total <= options_.arch->shared_bytes - kOtherShared) break;
        int most = 1;
        for (const ChannelPlan* p : accepted) most = std::max(most, p->stages);
        if (most > 1) {
            for (ChannelPlan* p : accepted) p->stages -= p->stages == most;
            continue;
        }
        const auto largest = std::max_element(accepted.begin(), accepted.end(),
                                              [&](const ChannelPlan* a, const ChannelPlan* b) { return stage_bytes(*a) < stage_bytes(*b); });
        (*largest)->why_not = "shared memory has no room for its tile";
        accepted.erase(largest);
    }
    drop("a ring of one stage leaves nothing to copy ahead into", [](const ChannelPlan& p) { return !p.tma && p.stages == 1; });
}

bool is_accepted(const ChannelPlan& p) { return p.why_not.empty(); }

/// Why the programs of a cluster do not take the tiles of a copy together; empty where they do, and without a cluster.
std::string unshared(const Function& fn, const GpuChannel& channel, const Writes& writes, InstId put) {
    if (fn.gpu->cluster_size() == 1 || fn.gpu->sharers(channel) > 1) return {};
    const unsigned axes = differing_axes(fn, writes, put);
    for (size_t d = 0; d < fn.gpu->cluster.size(); ++d)
        if (fn.gpu->cluster[d] > 1 && !(axes >> d & 1)) return "its tile cannot be cut into equal parts";
    return "its tiles differ between them";
}

}  // namespace

std::vector<ChannelPlan> plan_channels(const Function& fn, const GpuOptions& options) {
    if (!fn.is_kernel || !fn.gpu || !options.arch) return {};
    return Planner(fn, options).run();
}

InstId make_channel(Function& fn, const ChannelPlan& plan, int tensor_map) {
    const ValueId tile = fn.result(plan.load);
    const TypeId type = fn.types().channel(fn.type(tile).elem, fn.type(tile).shape);
    const std::vector<int64_t> stages = {plan.stages};
    const InstId made = fn.make(Op::channel, {}, {&type, 1}, stages, fn.inst(plan.load).span);
    GpuChannel channel{plan.layout, plan.stages, 0, tensor_map, plan.multicast, plan.own};
    if (const AccessOperands access(fn, fn.inst(plan.load)); plan.own && access.other) {
        const bool equal = splat_code(fn, access.other.value, channel.fill);
        TEGULA_CHECK(equal, "an own ring has one fill");
    }
    fn.gpu->channels.emplace_back(fn.result(made).v, std::move(channel));
    return made;
}

void take_from_channel(Function& fn, const ChannelPlan& plan, ValueId channel, InstId where) {
    const std::vector<ValueId> operands = {channel};
    const TypeId type = fn.type_of(fn.result(plan.load));
    const InstId get = fn.make(Op::channel_get, operands, {&type, 1}, {}, fn.inst(plan.load).span);
    fn.insert_before(where, get);
    fn.replace_uses(fn.result(plan.load), fn.result(get));
    if (!plan.own) {
        const std::vector<InstId>& list = fn.block(fn.inst(plan.load).parent).insts;
        const InstId after = *(std::find(list.begin(), list.end(), plan.last_use) + 1);
        fn.insert_before(after, fn.make(Op::channel_release, operands, {}, {}, fn.inst(plan.last_use).span));
    }
    std::vector<bool> dead(fn.inst_count());
    dead[plan.load.v] = true;
    fn.remove_if(dead);
}

void grow_form(Function& fn) {
    if (fn.gpu->placements.empty()) fn.gpu->placements.emplace_back();
    fn.gpu->of_value.resize(fn.value_count());
    fn.gpu->of_inst.resize(fn.inst_count());
}

bool make_channels(Function& fn, const GpuOptions& options) {
    const auto off = [&](std::string_view name) {
        return std::find(options.disabled.begin(), options.disabled.end(), name) != options.disabled.end();
    };
    if (off("channels") || off("all") || (fn.gpu && !fn.gpu->channels.empty())) return false;
    std::vector<ChannelPlan> plans = plan_channels(fn, options);
    const auto first = std::find_if(plans.begin(), plans.end(), is_accepted);
    if (first == plans.end()) return false;
    if (first->tma) {
        fn.gpu->cluster = plan_cluster(fn, options, plans);
        split_producer(fn, plans, Writes(fn, options.may_alias));
    } else {
        issue_ahead(fn, plans);
    }
    dce(fn);
    grow_form(fn);
    return true;
}

std::vector<explain::Note> explain_channels(const Function& fn, const GpuOptions& options) {
    std::vector<explain::Note> notes;
    if (!fn.gpu) return notes;
    const Writes writes(fn, options.may_alias);
    std::vector<ValueId> told;
    fn.walk([&](InstId i) {
        const Inst& inst = fn.inst(i);
        if (inst.op != Op::channel_put || std::find(told.begin(), told.end(), fn.operands(inst).back()) != told.end()) return;
        told.push_back(fn.operands(inst).back());
        const GpuChannel& channel = *fn.gpu->channel(told.back().v);
        explain::CopyAhead copy;
        copy.tensor = param_name(fn, fn.operands(inst)[0]);
        copy.by = channel.own ? explain::CopyAhead::own : channel.tensor_map >= 0 ? explain::CopyAhead::tma : explain::CopyAhead::threads;
        copy.stages = channel.stages;
        copy.stage_bytes = channel.layout.bytes();
        copy.swizzle = channel.layout.swizzle;
        copy.sharers = fn.gpu->sharers(channel);
        copy.unshared = unshared(fn, channel, writes, i);
        notes.push_back({inst.span, std::move(copy)});
    });
    const bool made = !fn.gpu->channels.empty();
    for (const ChannelPlan& p : plan_channels(fn, options)) {
        explain::CopyAhead copy;
        copy.tensor = param_name(fn, fn.operands(fn.inst(p.load))[0]);
        copy.refusal = !p.why_not.empty() ? p.why_not : made ? "the others leave no room in shared memory" : "the pass `channels` is off";
        notes.push_back({fn.inst(p.load).span, std::move(copy)});
    }
    return notes;
}

}  // namespace tegula
