// The proof for copies that are issued ahead by the threads that compute (channels_ahead.cpp). It knows the one pattern: a get in every trip of a
// loop, a put under `D * s < hi - k` behind it, and D puts under `j * s < max(hi, lo) - lo` in front of the loop, j = 0 .. D - 1. With lo >= 0 and a
// constant s > 0 nothing overflows, so with T trips put j runs when j < T, and the put of trip t when t + D < T: the puts that run are those of
// trips 0, 1, .. T - 1, in order. In trip t the tiles t .. t + D are under way or taken: D + 1 stages are enough.
// Of an own ring tile t is free before the put of trip t: there D are.
#include <algorithm>
#include <map>

#include "lower/bounds.h"
#include "lower/gpu/channels.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

class AheadProof {
public:
    AheadProof(const Function& fn, const GpuOptions& options, const Writes& writes) : fn_(fn), options_(options), writes_(writes) {}

    /// Empty, or why the channel's copies do not meet its gets.
    std::string channel(InstId made) {
        const ValueId channel = fn_.result(made);
        own_ = fn_.gpu->is_own(channel.v);
        InstId get, put;
        std::vector<InstId> early;
        fn_.walk([&](InstId i) {
            const Inst& inst = fn_.inst(i);
            if (inst.op == Op::channel_get && fn_.operands(inst)[0] == channel) gets_ += 1, get = i;
            if (inst.op == Op::channel_put && fn_.operands(inst).back() == channel) early.push_back(i);
        });
        if (gets_ != 1 || early.empty()) return "is not taken at one place and copied into";
        put = early.back();
        early.pop_back();
        if (!find_loop(get)) return "is not taken in a loop with a constant step that starts at 0 or more";
        for (InstId p : early)
            if (writes_.may_precede(fn_.operands(fn_.inst(p))[0], get)) return "is filled from memory that may have been written before";
        if (writes_.may_precede(fn_.operands(fn_.inst(put))[0], get)) return "is filled from memory that may have been written before";
        return check_puts(get, put, early, fn_.attrs(fn_.inst(made))[0]);
    }

private:
    bool find_loop(InstId get) {
        loop_ = fn_.block(fn_.inst(get).parent).owner;
        if (!loop_.valid() || fn_.inst(loop_).op != Op::for_loop) return false;
        const auto operands = fn_.operands(fn_.inst(loop_));
        lo_ = operands[0];
        hi_ = operands[1];
        counter_ = fn_.block(fn_.inst(get).parent).args[0];
        if (!constant_int(fn_, operands[2], step_) || step_ <= 0 || step_ > (int64_t{1} << 32)) return false;
        PassOptions facts;
        static_cast<LaunchFacts&>(facts) = options_;
        Bounds bounds(fn_, facts);
        return bounds.at_least(lo_, 0);
    }
    /// The `if` whose first block holds `put`; invalid when there is none.
    InstId guard_of(InstId put) const {
        const BlockId block = fn_.inst(put).parent;
        const InstId owner = fn_.block(block).owner;
        return owner.valid() && fn_.inst(owner).op == Op::if_else && fn_.blocks(fn_.inst(owner))[0] == block ? owner : InstId{};
    }
    size_t place_of(InstId i) const {
        const std::vector<InstId>& list = fn_.block(fn_.inst(i).parent).insts;
        return static_cast<size_t>(std::find(list.begin(), list.end(), i) - list.begin());
    }
    /// The guard's condition is c < b: sets c and gives b.
    ValueId bound_of(InstId guard, int64_t& c) const {
        const Inst* test = fn_.def(fn_.operands(fn_.inst(guard))[0]);
        if (!test || test->op != Op::lt || !constant_int(fn_, fn_.operands(*test)[0], c)) return {};
        return fn_.operands(*test)[1];
    }
    bool is(ValueId v, Op op, ValueId a, ValueId b) const {
        const Inst* def = v.valid() ? fn_.def(v) : nullptr;
        return def && def->op == op && fn_.operands(*def)[0] == a && fn_.operands(*def)[1] == b;
    }
    /// Is `v` max(hi, lo) - lo?
    bool is_span(ValueId v) const {
        const Inst* def = v.valid() ? fn_.def(v) : nullptr;
        return def && def->op == Op::sub && fn_.operands(*def)[1] == lo_ && is(fn_.operands(*def)[0], Op::max, hi_, lo_);
    }
    std::string check_puts(InstId get, InstId put, const std::vector<InstId>& early, int64_t stages) const {
        const auto distance = static_cast<int64_t>(early.size());
        const InstId guard = guard_of(put);
        int64_t c = 0;
        if (!guard.valid() || fn_.inst(guard).parent != fn_.inst(get).parent || place_of(guard) < place_of(get))
            return "is not copied into once in every trip, behind the place where it is taken";
        if (!is(bound_of(guard, c), Op::sub, hi_, counter_) || c != distance * step_) return "is not copied into while trips are left, and only then";
        if (distance + !own_ > stages) return "has fewer stages than tiles under way";
        int64_t trip = 0;
        size_t last = 0;
        for (InstId p : early) {
            const InstId test = guard_of(p);
            if (!test.valid() || fn_.inst(test).parent != fn_.inst(loop_).parent || place_of(test) >= place_of(loop_) ||
                (trip && place_of(test) <= last))
                return "is not copied into in order before its loop";
            if (!is_span(bound_of(test, c)) || c != trip * step_) return "is not copied into for every first trip, and only then";
            last = place_of(test);
            ++trip;
        }
        return {};
    }

    const Function& fn_;
    const GpuOptions& options_;
    const Writes& writes_;
    int gets_ = 0;
    bool own_ = false;
    InstId loop_;
    ValueId lo_, hi_, counter_;
    int64_t step_ = 0;
};

}  // namespace

void prove_ahead(const Function& fn, const GpuOptions& options, const Writes& writes,
                 const std::function<void(InstId, const std::string&)>& problem) {
    fn.walk([&](InstId i) {
        if (fn.inst(i).op != Op::channel) return;
        const std::string text = AheadProof(fn, options, writes).channel(i);
        if (!text.empty()) problem(i, text);
    });
}

}  // namespace tegula
