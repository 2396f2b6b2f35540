// The part of `prove` about channels: every copy meets the tile that is taken for it, no stage is used after its release, and nobody waits for ever.
//
// No deadlock: puts and gets stand in the same order on both sides (MatchSides, or the pattern of copies issued ahead), so let the first side to
// wait for ever be the producer, at the put number n of a channel with S stages. It waits for the release of get number n - S. All gets before
// the place of that put have been passed or are being waited for; their puts came earlier in the same order, so the consumer arrives at that place
// itself, and there it holds fewer than S stages (WalkConsumer proves at most S with the next one and what a late release keeps): get n - S has been
// released. A contradiction. Were it the consumer, its put would be the producer's next act or an earlier one, which the first half shows to happen.
#include <algorithm>
#include <set>

#include "lower/gpu/late.h"
#include "lower/gpu/twins.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

class Problems {
public:
    explicit Problems(const Function& fn) : fn_(fn) {}
    void add(InstId at, const std::string& text, InstId other = {}) {
        if (list.size() >= kMaxProblems) return;
        list.push_back(place(at) + ": " + text + (other.valid() ? " " + place(other) : ""));
    }
    std::vector<std::string> list;

private:
    std::string place(InstId id) const {
        const Inst& inst = fn_.inst(id);
        return "inst " + std::to_string(id.v) + " (" + op_row(inst.op).name + ", source " + std::to_string(inst.span.file) + ":" +
               std::to_string(inst.span.begin) + ")";
    }
    const Function& fn_;
};

bool is_loop(Op op) { return op == Op::for_loop || op == Op::while_loop; }

/// Takes and releases, on every path: which stages are held when.
class WalkConsumer {
public:
    WalkConsumer(const Function& fn, Problems& problems) : fn_(fn), problems_(problems), root_(fn.value_count()) {
        fn.walk([&](InstId i) {
            if (fn.inst(i).op == Op::channel_release && fn.gpu_inst(i).late) late_.insert(fn.operands(fn.inst(i))[0].v);
        });
    }

    void run(BlockId body) {
        Held held;
        walk(body, held);
        for (const auto& [channel, stages] : held)
            if (!stages.empty()) problems_.add(stages.front(), "is never released");
    }

private:
    using Held = std::map<uint32_t, std::vector<InstId>>;  ///< by channel: gets not released, oldest first; no empty entries

    void walk(BlockId block, Held& held) {
        for (InstId i : fn_.block(block).insts) {
            check_uses(i, held);
            step(i, held);
        }
    }
    void check_uses(InstId i, const Held& held) {
        const Inst& inst = fn_.inst(i);
        for (ValueId v : fn_.operands(inst)) {
            const InstId get = root_[v.v];
            if (!get.valid()) continue;
            const auto it = held.find(fn_.operands(fn_.inst(get))[0].v);
            if (it == held.end() || std::find(it->second.begin(), it->second.end(), get) == it->second.end())
                problems_.add(i, "uses a stage after its release; it was taken at", get);
            if (has_trait(inst.op, TERMINATOR) || is_loop(inst.op)) problems_.add(i, "carries a stage out of its block; it was taken at", get);
        }
        if (holds(inst)) root_[fn_.result(inst).v] = i;
        if (has_trait(inst.op, VIEW) && !in_registers(fn_.result(inst))) root_[fn_.result(inst).v] = root_[fn_.operands(inst)[0].v];
    }
    bool in_registers(ValueId v) const {
        const GpuForm& gpu = *fn_.gpu;
        return v.v < gpu.of_value.size() && gpu.of_value[v.v] < gpu.placements.size() &&
               gpu.placements[gpu.of_value[v.v]].kind == Placement::registers;
    }
    /// Does the get hold a stage? What comes out of an own ring is a copy.
    bool holds(const Inst& inst) const { return inst.op == Op::channel_get && !fn_.gpu->is_own(fn_.operands(inst)[0].v); }
    void step(InstId i, Held& held) {
        const Inst& inst = fn_.inst(i);
        const std::vector<BlockId> blocks(fn_.blocks(inst).begin(), fn_.blocks(inst).end());
        if (holds(inst)) {
            std::vector<InstId>& stages = held[fn_.operands(inst)[0].v];
            stages.push_back(i);
            const Inst* channel = fn_.def(fn_.operands(inst)[0]);
            const int64_t taken = static_cast<int64_t>(stages.size() + late_.count(fn_.operands(inst)[0].v));
            if (!channel || taken > fn_.attrs(*channel)[0]) problems_.add(i, "takes more stages than the channel has");
        } else if (inst.op == Op::channel_release) {
            const auto it = held.find(fn_.operands(inst)[0].v);
            if (it == held.end()) return problems_.add(i, "releases a stage that was not taken");
            it->second.erase(it->second.begin());
            if (it->second.empty()) held.erase(it);
        } else if (inst.op == Op::if_else) {
            Held other = held;
            walk(blocks[0], held);
            walk(blocks[1], other);
            if (held != other) problems_.add(i, "its branches leave different stages taken");
        } else if (is_loop(inst.op)) {
            Held state = held;
            walk(blocks[0], state);
            if (inst.op == Op::while_loop) {
                const Held leaving = state;
                walk(blocks[1], state);
                if (state != held) problems_.add(i, "a trip does not release what it takes");
                held = leaving;
            } else if (state != held) {
                problems_.add(i, "a trip does not release what it takes");
            }
        }
    }

    const Function& fn_;
    Problems& problems_;
    std::vector<InstId> root_;  ///< by value: the get in whose stage it lies
    std::set<uint32_t> late_;   ///< channels of which the trip before may hold one more stage
};

/// Puts of the producer and gets of the consumer stand in the same control flow, in the same order.
class MatchSides {
public:
    MatchSides(const Function& fn, const Writes& writes, Problems& problems)
        : fn_(fn), writes_(writes), problems_(problems), twins_(fn, writes), has_event_(fn.inst_count()) {}

    void run(InstId specialise) {
        const auto blocks = fn_.blocks(fn_.inst(specialise));
        find_events(blocks[0], Op::channel_put);
        find_events(blocks[1], Op::channel_get);
        check_producer(blocks[0]);
        check_places(blocks[0], blocks[1]);
        match(blocks[0], blocks[1], specialise);
    }

private:
    bool find_events(BlockId block, Op op) {
        bool any = false;
        for (InstId i : fn_.block(block).insts) {
            bool here = fn_.inst(i).op == op;
            for (BlockId b : fn_.blocks(fn_.inst(i))) here = find_events(b, op) || here;
            has_event_[i.v] = here;
            any = any || here;
        }
        return any;
    }
    /// Copies stand in the producer only, takes and releases in the consumer only.
    void check_places(BlockId producer, BlockId consumer) {
        fn_.walk([&](InstId i) {
            const Op op = fn_.inst(i).op;
            if (op == Op::channel_put && !inside(i, producer)) problems_.add(i, "copies outside of the producer");
            if ((op == Op::channel_get || op == Op::channel_release) && !inside(i, consumer)) problems_.add(i, "takes tiles outside of the consumer");
        });
    }
    void check_producer(BlockId block) {
        fn_.walk(block, [&](InstId i) {
            const Inst& inst = fn_.inst(i);
            if ((op_row(inst.op).traits & (WRITES | EFFECT)) && inst.op != Op::channel_put) problems_.add(i, "has an effect in the producer");
        });
    }
    bool inside(InstId i, BlockId block) const {
        for (BlockId b = fn_.inst(i).parent; b.valid();) {
            if (b == block) return true;
            const InstId owner = fn_.block(b).owner;
            b = owner.valid() ? fn_.inst(owner).parent : BlockId{};
        }
        return false;
    }
    std::vector<InstId> events(BlockId block) const {
        std::vector<InstId> out;
        for (InstId i : fn_.block(block).insts)
            if (has_event_[i.v]) out.push_back(i);
        return out;
    }
    void match(BlockId producer, BlockId consumer, InstId owner) {
        const std::vector<InstId> puts = events(producer), gets = events(consumer);
        if (puts.size() != gets.size()) return problems_.add(owner, "the producer and the consumer do not meet equally often inside of");
        for (size_t n = 0; n < puts.size(); ++n) match(puts[n], gets[n]);
    }
    void match(InstId put, InstId get) {
        const Inst &a = fn_.inst(put), &b = fn_.inst(get);
        if (a.op == Op::channel_put) {
            if (b.op != Op::channel_get || !(fn_.operands(a).back() == fn_.operands(b)[0]))
                return problems_.add(put, "does not meet its channel at", get);
            if (writes_.may_precede(fn_.operands(a)[0], get)) problems_.add(put, "reads memory that may have been written before", get);
            return;
        }
        if (a.op != b.op) return problems_.add(put, "does not run in step with", get);
        const bool in_step = a.op == Op::if_else ? twins_.same(fn_.operands(a)[0], fn_.operands(b)[0]) : is_loop(a.op) && twins_.pair_loops(put, get);
        if (!in_step) return problems_.add(put, "is not proved to run in step with", get);
        for (size_t n = 0; n < a.blocks.count; ++n) match(fn_.blocks(a)[n], fn_.blocks(b)[n], put);
    }

    const Function& fn_;
    const Writes& writes_;
    Problems& problems_;
    Twins twins_;
    std::vector<bool> has_event_;
};

/// The part of the tensor that is copied has the channel's shape.
void check_shapes(const Function& fn, Problems& problems) {
    fn.walk([&](InstId i) {
        const Inst& inst = fn.inst(i);
        if (inst.op != Op::channel_put) return;
        Shape part;
        for (const Access::Axis& a : fn.access(inst).axes)
            if (a.kind == Access::range || a.kind == Access::all) part.push(a.extent);
        if (!(part == fn.type(fn.operands(inst).back()).shape)) problems.add(i, "copies another shape than the channel's");
    });
}

}  // namespace

std::vector<std::string> prove_channels(const Function& fn, const GpuOptions& options) {
    Problems problems(fn);
    if (!fn.gpu) return {};
    const Writes writes(fn, options.may_alias);
    check_shapes(fn, problems);
    InstId specialise;
    fn.walk([&](InstId i) {
        const Inst& inst = fn.inst(i);
        const bool top = inst.parent == fn.body;
        if (inst.op == Op::channel && !top) problems.add(i, "makes a channel more than once");
        if (inst.op != Op::specialise) return;
        if (specialise.valid() || !top) problems.add(i, "splits the threads a second time");
        if (!specialise.valid()) specialise = i;
    });
    if (specialise.valid() != fn.gpu->specialised) problems.list.push_back("the function and its form do not agree on a producer");
    prove_late(fn, [&](InstId at, const std::string& text) { problems.add(at, text); });
    prove_cluster(fn, options, writes, [&](InstId at, const std::string& text) { problems.add(at, text); });
    WalkConsumer(fn, problems).run(specialise.valid() ? fn.blocks(fn.inst(specialise))[1] : fn.body);
    if (specialise.valid()) {
        MatchSides(fn, writes, problems).run(specialise);
    } else {
        prove_ahead(fn, options, writes, [&](InstId at, const std::string& text) { problems.add(at, text); });
    }
    return std::move(problems.list);
}

}  // namespace tegula
