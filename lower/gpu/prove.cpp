// The check that nothing unordered is emitted. The program as a graph of instructions (zero-trip exits and back edges are edges); from every
// access to shared, workspace or global memory a search along the edges that ends where all threads meet; a conflicting access that it reaches is
// reported. Nothing of the barrier pass's reasoning is used here, only the table of effects.
#include <algorithm>
#include <set>

#include "lower/gpu/effects.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

/// Successors of every instruction within one thread group. Node 2i: before instruction i; node 2i + 1: after the whole of it, blocks included.
class Graph {
public:
    explicit Graph(const Function& fn) : fn_(fn), next_(2 * fn.inst_count()) { block(fn.body); }
    std::span<const uint32_t> next(uint32_t node) const { return next_[node]; }
    static uint32_t enter(InstId i) { return 2 * i.v; }
    static uint32_t leave(InstId i) { return 2 * i.v + 1; }

private:
    void edge(uint32_t from, uint32_t to) { next_[from].push_back(to); }
    uint32_t first(BlockId b) const { return enter(fn_.block(b).insts.front()); }
    uint32_t last(BlockId b) const { return leave(fn_.block(b).insts.back()); }
    void block(BlockId id) {
        const std::vector<InstId>& insts = fn_.block(id).insts;
        for (size_t i = 0; i < insts.size(); ++i) {
            instruction(insts[i]);
            if (i + 1 < insts.size()) edge(leave(insts[i]), enter(insts[i + 1]));
        }
    }
    void instruction(InstId id) {
        const Inst& inst = fn_.inst(id);
        const auto blocks = fn_.blocks(inst);
        for (const BlockId b : blocks) block(b);
        switch (inst.op) {
            case Op::for_loop:
                edge(enter(id), first(blocks[0]));
                edge(last(blocks[0]), first(blocks[0]));
                edge(last(blocks[0]), leave(id));
                edge(enter(id), leave(id));
                break;
            case Op::while_loop:
                edge(enter(id), first(blocks[0]));
                edge(last(blocks[0]), first(blocks[1]));
                edge(last(blocks[1]), first(blocks[0]));
                edge(last(blocks[0]), leave(id));
                break;
            case Op::if_else:
                for (const BlockId b : blocks) {
                    edge(enter(id), first(b));
                    edge(last(b), leave(id));
                }
                break;
            case Op::specialise:  // block 0 belongs to other threads
                edge(enter(id), first(blocks[1]));
                edge(last(blocks[1]), leave(id));
                break;
            default:  // blocks: a combining function, run any number of times
                edge(enter(id), leave(id));
                for (const BlockId b : blocks) {
                    edge(enter(id), first(b));
                    edge(last(b), first(b));
                    edge(last(b), leave(id));
                }
        }
    }

    const Function& fn_;
    std::vector<std::vector<uint32_t>> next_;
};

class Prover {
public:
    Prover(const Function& fn, const GpuOptions& options) : fn_(fn), effects_(fn, options), graph_(fn), seen_(4 * fn.inst_count()) {}

    std::vector<std::string> run() {
        fn_.walk([&](InstId id) {
            const GpuInst& g = fn_.gpu_inst(id);
            if (g.fence_before && !g.sync_before) problem(place(id) + "a fence without a meeting orders nothing between threads");
            check_scratch(id);
            const Effects& e = effects_.of(id);
            for (const Touch& t : e.after) follow(id, t);
            for (const Touch& t : e.before) follow_to_async(id, t);
        });
        check_producers();
        return std::move(problems_);
    }

private:
    void problem(const std::string& text) {
        if (problems_.size() < kMaxProblems && std::find(problems_.begin(), problems_.end(), text) == problems_.end()) problems_.push_back(text);
    }
    std::string place(InstId id) const {
        const Inst& inst = fn_.inst(id);
        return "inst " + std::to_string(id.v) + " (" + op_row(inst.op).name + ", source " + std::to_string(inst.span.file) + ":" +
               std::to_string(inst.span.begin) + "): ";
    }
    void conflict(const Touch& from, const Touch& to) {
        problem(place(to.by) + effects_.text(to) + " is not ordered after " + place(from.by) + effects_.text(from));
    }

    /// Search from `id` on, the blocks it owns included. For a ring's read the search also knows whether the stage was given back on the way.
    void follow(InstId id, const Touch& from) {
        std::fill(seen_.begin(), seen_.end(), false);
        std::vector<std::pair<uint32_t, bool>> work;
        push_next(Graph::enter(id), false, work);
        while (!work.empty() && problems_.size() < kMaxProblems) {
            auto [node, released] = work.back();
            work.pop_back();
            if (node % 2 == 0 && stops(InstId{node / 2}, from, released)) continue;
            push_next(node, released, work);
        }
    }
    void push_next(uint32_t node, bool released, std::vector<std::pair<uint32_t, bool>>& work) {
        for (const uint32_t n : graph_.next(node)) {
            const size_t key = size_t{n} * 2 + released;
            if (seen_[key]) continue;
            seen_[key] = true;
            work.push_back({n, released});
        }
    }
    /// Do all threads meet in or before `at`? Reports what `at` does before.
    bool stops(InstId at, const Touch& from, bool& released) {
        if (fn_.gpu_inst(at).sync_before) return true;
        const Effects& e = effects_.of(at);
        for (const Touch& to : e.before)
            if (effects_.conflict(from, to) && (from.space != Touch::ring || released)) conflict(from, to);
        released = released || (from.space == Touch::ring && e.releases == from.object);
        return e.meets;
    }

    /// A generic write of shared memory: on every path to an access of the async proxy stands a fence.
    void follow_to_async(InstId id, const Touch& from) {
        if (!from.writes || from.async || (from.space != Touch::shared && from.space != Touch::ring)) return;
        std::fill(seen_.begin(), seen_.end(), false);
        std::vector<std::pair<uint32_t, bool>> work;
        push_next(Graph::enter(id), false, work);
        while (!work.empty() && problems_.size() < kMaxProblems) {
            const uint32_t node = work.back().first;
            work.pop_back();
            if (node % 2 == 0) {
                const InstId at{node / 2};
                if (fn_.gpu_inst(at).fence_before) continue;
                for (const Touch& to : effects_.of(at).before)
                    if (EffectTable::needs_fence(from, to)) problem(place(at) + "no fence after " + place(id) + effects_.text(from));
            }
            push_next(node, false, work);
        }
    }

    /// Annotations lie inside the memory that the launch provides.
    void check_scratch(InstId id) {
        const Touch t = scratch_of(fn_, id);
        if (t.end == t.begin) return;
        if (t.begin < 0 || t.end > (t.space == Touch::shared ? fn_.gpu->shared_bytes : fn_.gpu->workspace_bytes))
            problem(place(id) + "scratch lies outside the launch's memory");
        for (const auto& [value, channel] : fn_.gpu->channels)
            if (t.space == Touch::shared && t.begin < channel.offset + channel.layout.bytes() * channel.stages && channel.offset < t.end)
                problem(place(id) + "scratch lies in a channel");
    }

    /// The producer's warps take no part in meetings. (What they copy may not be written before: prove_channels.)
    void check_producers() {
        fn_.walk([&](InstId id) {
            const Inst& inst = fn_.inst(id);
            if (inst.op != Op::specialise) return;
            fn_.walk(fn_.blocks(inst)[0], [&](InstId i) {
                const GpuInst& g = fn_.gpu_inst(i);
                if (g.sync_before || g.scratch_offset >= 0) problem(place(i) + "a producer cannot meet the other warps");
            });
        });
    }

    const Function& fn_;
    EffectTable effects_;
    Graph graph_;
    std::vector<bool> seen_;
    std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> prove(const ir::Function& fn, const GpuOptions& options) {
    std::vector<std::string> problems = Prover(fn, options).run();
    for (std::string& p : prove_channels(fn, options)) problems.push_back(std::move(p));
    for (std::string& p : prove_tensor_memory(fn)) problems.push_back(std::move(p));
    return problems;
}

}  // namespace tegula
