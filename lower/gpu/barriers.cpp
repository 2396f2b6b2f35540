// Where all threads of a program must meet before an instruction. Forward over the structured program: what may be pending (done by some thread
// since the last meeting) before each instruction, joined over branches, zero trips and back edges; a conflict with what the instruction touches
// asks for a barrier there. Afterwards every barrier that the others make needless is taken out again. `prove` checks the result another way.
#include <algorithm>
#include <map>

#include "lower/gpu/effects.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

constexpr size_t kThinningWork = 2'000'000;  ///< barriers times instructions: beyond it needless barriers stay

/// A set of touches by number.
class Pending {
public:
    explicit Pending(size_t n = 0) : words_((n + 63) / 64) {}
    void add(size_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
    void clear() { std::fill(words_.begin(), words_.end(), 0); }
    bool join(const Pending& other) {
        bool grew = false;
        for (size_t i = 0; i < words_.size(); ++i) {
            grew = grew || (other.words_[i] & ~words_[i]);
            words_[i] |= other.words_[i];
        }
        return grew;
    }
    template <class Visit>
    void each(const Visit& visit) const {
        for (size_t w = 0; w < words_.size(); ++w)
            for (uint64_t rest = words_[w]; rest; rest &= rest - 1) visit(w * 64 + static_cast<size_t>(__builtin_ctzll(rest)));
    }

private:
    std::vector<uint64_t> words_;
};

/// unmet: since the last meeting; released: ring reads among them whose stage was given back since; unfenced: generic writes of shared memory
/// that the async proxy does not see yet, meetings notwithstanding.
struct State {
    explicit State(size_t n = 0) : unmet(n), released(n), unfenced(n) {}
    Pending unmet, released, unfenced;
    bool join(const State& o) {
        const bool a = unmet.join(o.unmet), b = released.join(o.released), c = unfenced.join(o.unfenced);
        return a || b || c;
    }
    void meet() {
        unmet.clear();
        released.clear();
    }
};

class BarrierPlacer {
public:
    BarrierPlacer(Function& fn, const EffectTable& effects) : fn_(fn), effects_(effects), first_(fn.inst_count() + 1) {
        for (uint32_t i = 0; i < fn.inst_count(); ++i) {
            first_[i] = touches_.size();
            for (const Touch& t : effects.of(InstId{i}).after) touches_.push_back(t);
        }
        first_[fn.inst_count()] = touches_.size();
    }
    /// Places barriers until nothing conflicts.
    void place() {
        checking_ = false;
        settle();
    }
    /// Is every conflict met with the barriers as they are?
    bool sound() {
        checking_ = true;
        broken_ = false;
        settle();
        return !broken_;
    }

private:
    void settle() {
        heads_.clear();
        do {
            grew_ = false;
            walk(fn_.body, State(touches_.size()));
        } while (grew_ && !broken_);
    }
    State walk(BlockId block, State s) {
        for (const InstId id : fn_.block(block).insts) {
            step(id, s);
            if (fn_.inst(id).blocks.count) s = enter(fn_.inst(id), std::move(s));
        }
        return s;
    }
    /// The state at a block that a back edge reaches: grows until `settle` finds it fixed.
    State& at_head(BlockId block, const State& s) {
        State& head = heads_.try_emplace(block.v, touches_.size()).first->second;
        head.join(s);
        return head;
    }
    State enter(const Inst& inst, State s) {
        const auto blocks = fn_.blocks(inst);
        switch (inst.op) {
            case Op::for_loop: {
                State& head = at_head(blocks[0], s);
                const State out = walk(blocks[0], head);
                grew_ = head.join(out) || grew_;
                s.join(out);
                return s;
            }
            case Op::while_loop: {
                State& head = at_head(blocks[0], s);
                State tested = walk(blocks[0], head);
                grew_ = head.join(walk(blocks[1], tested)) || grew_;
                return tested;
            }
            case Op::if_else: {
                State out = walk(blocks[0], s);
                out.join(walk(blocks[1], std::move(s)));
                return out;
            }
            case Op::specialise:
                return walk(blocks[1], std::move(s));
            default: {  // a combining function runs again and again while its owner does
                State& head = at_head(blocks[0], s);
                grew_ = head.join(walk(blocks[0], head)) || grew_;
                return head;
            }
        }
    }
    void step(InstId id, State& s) {
        const Effects& e = effects_.of(id);
        GpuInst& gpu = fn_.gpu->of_inst[id.v];
        const auto [meet, fence] = wanted(e, s);
        if (checking_) {
            broken_ = broken_ || (meet && !gpu.sync_before) || (fence && !gpu.fence_before);
        } else {
            gpu.sync_before = gpu.sync_before || meet || fence;
            gpu.fence_before = gpu.fence_before || fence;
        }
        if (gpu.fence_before) s.unfenced.clear();
        if (gpu.sync_before || e.meets) s.meet();
        const auto own = [&](const auto& visit) {
            for (size_t i = first_[id.v]; i < first_[id.v + 1]; ++i) visit(i);
        };
        own([&](size_t i) {
            const Touch& t = touches_[i];
            s.unmet.add(i);
            // Scratch was written before the meeting and is listed as read after it; the async proxy has not seen those writes either.
            const bool written = t.writes || (e.meets && t.space == Touch::shared);
            if (written && !t.async && (t.space == Touch::shared || t.space == Touch::ring)) s.unfenced.add(i);
        });
        if (!e.releases.valid()) return;
        s.unmet.each([&](size_t i) {
            if (touches_[i].space == Touch::ring && touches_[i].object == e.releases) s.released.add(i);
        });
    }
    std::pair<bool, bool> wanted(const Effects& e, const State& s) const {
        bool meet = false, fence = false;
        for (const Touch& t : e.before) {
            (t.space == Touch::ring ? s.released : s.unmet).each([&](size_t i) { meet = meet || effects_.conflict(touches_[i], t); });
            if (!t.async) continue;
            s.unfenced.each([&](size_t i) {
                Touch written = touches_[i];
                written.writes = true;
                fence = fence || EffectTable::needs_fence(written, t);
            });
        }
        return {meet, fence};
    }

    Function& fn_;
    const EffectTable& effects_;
    std::vector<Touch> touches_;
    std::vector<size_t> first_;        ///< by instruction: its touches that stay pending
    std::map<uint32_t, State> heads_;  ///< by block that a back edge reaches
    bool grew_ = false, checking_ = false, broken_ = false;
};

/// Barriers in the deepest loops first.
std::vector<InstId> by_depth(const Function& fn) {
    std::vector<std::pair<int, InstId>> found;
    fn.walk([&](InstId id) {
        if (!fn.gpu_inst(id).sync_before) return;
        int depth = 0;
        for (InstId owner = fn.block(fn.inst(id).parent).owner; owner.valid(); owner = fn.block(fn.inst(owner).parent).owner) ++depth;
        found.push_back({depth, id});
    });
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second.v < b.second.v; });
    std::vector<InstId> out;
    for (const auto& [depth, id] : found) out.push_back(id);
    return out;
}

}  // namespace

void place_barriers(ir::Function& fn, const GpuOptions& options) {
    fn.gpu->of_inst.resize(fn.inst_count());
    for (GpuInst& g : fn.gpu->of_inst) g.sync_before = g.fence_before = false;
    const EffectTable effects(fn, options);
    BarrierPlacer placer(fn, effects);
    placer.place();
    const std::vector<InstId> barriers = by_depth(fn);
    if (barriers.size() * fn.inst_count() > kThinningWork) return;
    for (const InstId id : barriers) {
        GpuInst& g = fn.gpu->of_inst[id.v];
        const GpuInst kept = g;
        g.sync_before = g.fence_before = false;
        if (!placer.sound()) g = kept;
    }
}

}  // namespace tegula
