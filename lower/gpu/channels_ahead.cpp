// Software pipelining without a producer (channels.h): the threads that compute start the copies of later trips themselves. A loop
//     for k in lo .. hi step s { t = load x[k]; use t }      becomes, with D = stages - 1,
//     if 0 < n { put x[lo] }  ..  if (D - 1) * s < n { put x[lo + (D - 1) * s] }        where n = max(hi, lo) - lo
//     for k in lo .. hi step s { t = get; if D * s < hi - k { put x[k + D * s] }; use t; release }
// for a constant s > 0 and lo >= 0, so that nothing overflows. A copy goes to the stage that the trip before has released. A stage of an own ring is
// free when it has been taken: D = stages, and no release.
#include <algorithm>
#include <map>

#include "lang/access_operands.h"
#include "lower/bounds.h"
#include "lower/gpu/channels.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int64_t kMaxStep = int64_t{1} << 32;

}  // namespace

LoopParts parts_of(const Function& fn, InstId loop) {
    const Inst& inst = fn.inst(loop);
    LoopParts p{loop, fn.blocks(inst)[0], fn.operands(inst)[0], fn.operands(inst)[1], {}, 0};
    p.counter = fn.block(p.body).args[0];
    if (!constant_int(fn, fn.operands(inst)[2], p.step) || p.step <= 0 || p.step > kMaxStep) p.step = 0;
    return p;
}

namespace {

bool starts_at_zero_or_more(const Function& fn, const LaunchFacts& facts, ValueId lo) {
    PassOptions options;
    static_cast<LaunchFacts&>(options) = facts;
    Bounds bounds(fn, options);
    return bounds.at_least(lo, 0);
}

}  // namespace

bool index_slice(const Function& fn, const LoopParts& loop, InstId load, std::vector<InstId>& out) {
    const std::vector<InstId>& list = fn.block(loop.body).insts;
    std::vector<bool> wanted(fn.value_count());
    bool good = true;
    const auto want = [&](ValueId v) {
        const Value& value = fn.value(v);
        wanted[v.v] = true;
        good = good && (value.def.valid() || value.block != loop.body || v == loop.counter);
    };
    for (size_t i = 1; i < AccessOperands(fn, fn.inst(load)).first; ++i) want(fn.operands(fn.inst(load))[i]);
    for (auto it = std::find(list.rbegin(), list.rend(), load); it != list.rend(); ++it) {
        const Inst& inst = fn.inst(*it);
        bool needed = false;
        for (uint32_t r = 0; r < inst.results.count; ++r) needed = needed || wanted[fn.result(inst, r).v];
        if (!needed) continue;
        good = good && (op_row(inst.op).traits & (PURE | REGIONS)) == PURE && inst.results.count == 1 && fn.type(fn.result(inst)).shape.rank == 0;
        for (ValueId v : fn.operands(inst)) {
            want(v);
            good = good && (fn.type(v).kind == Type::tensor || fn.type(v).shape.rank == 0);
        }
        out.push_back(*it);
    }
    std::reverse(out.begin(), out.end());
    return good;
}

namespace {

/// Emits scalars in front of an instruction, or at the end of a block.
class Scalars {
public:
    Scalars(Function& fn, InstId before, BlockId at, Span span) : fn_(fn), before_(before), at_(at), span_(span) {}
    InstId place(Op op, const std::vector<ValueId>& operands, const std::vector<TypeId>& types, const std::vector<int64_t>& attrs = {},
                 const std::vector<BlockId>& blocks = {}) {
        const InstId made = fn_.make(op, operands, types, attrs, span_, blocks);
        before_.valid() ? fn_.insert_before(before_, made) : fn_.append(at_, made);
        return made;
    }
    ValueId index(Op op, ValueId a, ValueId b) { return fn_.result(place(op, {a, b}, {fn_.types().tile(Fmt::i64)})); }
    ValueId constant(int64_t v) { return fn_.result(place(Op::constant, {}, {fn_.types().tile(Fmt::i64)}, {v})); }
    /// An `if` without results whose first block is `then`.
    void branch(ValueId less, ValueId than, BlockId then) {
        const ValueId condition = fn_.result(place(Op::lt, {less, than}, {fn_.types().tile(Fmt::boolean)}));
        const BlockId other = fn_.add_block();
        for (BlockId b : {then, other}) fn_.append(b, fn_.make(Op::yield, {}, {}, {}, span_));
        place(Op::if_else, {condition}, {}, {}, {then, other});
    }

private:
    Function& fn_;
    InstId before_;
    BlockId at_;
    Span span_;
};

/// One loop and the loads in it whose copies are issued together.
class AheadLoop {
public:
    AheadLoop(Function& fn, InstId loop) : fn_(fn), parts_(parts_of(fn, loop)), span_(fn.inst(loop).span) {}

    void add(const ChannelPlan& plan) {
        Copy c{&plan, {}, {}};
        TEGULA_CHECK(index_slice(fn_, parts_, plan.load, c.slice), "copies ahead were possible when they were planned");
        const int64_t distance = plan.own ? plan.stages : plan.stages - 1;
        distance_ = copies_.empty() ? distance : std::min(distance_, distance);
        copies_.push_back(std::move(c));
    }
    void rewrite() {
        for (Copy& c : copies_) {
            const InstId made = make_channel(fn_, *c.plan, -1);
            fn_.insert_before(fn_.block(fn_.body).insts.front(), made);
            c.channel = fn_.result(made);
        }
        before_loop();
        in_loop();
    }

private:
    struct Copy {
        const ChannelPlan* plan;
        std::vector<InstId> slice;
        ValueId channel;
    };

    void before_loop() {
        Scalars s(fn_, parts_.loop, {}, span_);
        const ValueId span = s.index(Op::sub, s.index(Op::max, parts_.hi, parts_.lo), parts_.lo);
        for (int64_t trip = 0; trip < distance_; ++trip) {
            const BlockId then = fn_.add_block();
            Scalars inner(fn_, {}, then, span_);
            puts(then, inner.index(Op::add, parts_.lo, inner.constant(trip * parts_.step)));
            s.branch(s.constant(trip * parts_.step), span, then);
        }
    }
    void in_loop() {
        const InstId first = fn_.block(parts_.body).insts.front();
        Scalars s(fn_, first, {}, span_);
        const ValueId further = s.constant(distance_ * parts_.step);
        const BlockId then = fn_.add_block();
        puts(then, Scalars(fn_, {}, then, span_).index(Op::add, parts_.counter, further));
        const ValueId left = s.index(Op::sub, parts_.hi, parts_.counter);
        std::vector<InstId> gets;
        s.branch(further, left, then);
        const std::vector<InstId>& list = fn_.block(parts_.body).insts;
        // The tiles of this trip first: waiting for them also tells that everybody has done with the trip before.
        for (Copy& c : copies_) take_from_channel(fn_, *c.plan, c.channel, first_of(list));
    }
    /// The first instruction that is no get.
    InstId first_of(const std::vector<InstId>& list) const {
        return *std::find_if(list.begin(), list.end(), [&](InstId i) { return fn_.inst(i).op != Op::channel_get; });
    }
    /// The puts of all copies with the counter being `at`.
    void puts(BlockId to, ValueId at) {
        std::map<uint32_t, ValueId> map = {{parts_.counter.v, at}};
        const auto of = [&](ValueId v) {
            const auto it = map.find(v.v);
            return it == map.end() ? v : it->second;
        };
        for (const Copy& c : copies_) {
            for (InstId i : c.slice) {
                const Inst inst = fn_.inst(i);
                if (map.contains(fn_.result(inst).v)) continue;
                std::vector<ValueId> operands;
                for (ValueId v : fn_.operands(inst)) operands.push_back(of(v));
                const TypeId type = fn_.type_of(fn_.result(inst));
                const std::vector<int64_t> attrs(fn_.attrs(inst).begin(), fn_.attrs(inst).end());
                const InstId made = fn_.make(inst.op, operands, {&type, 1}, attrs, inst.span);
                fn_.append(to, made);
                map[fn_.result(inst).v] = fn_.result(made);
            }
        }
        for (const Copy& c : copies_) {
            const Inst inst = fn_.inst(c.plan->load);
            std::vector<ValueId> operands;
            for (size_t i = 0; i < AccessOperands(fn_, inst).first; ++i) operands.push_back(of(fn_.operands(inst)[i]));
            operands.push_back(c.channel);
            std::vector<int64_t> attrs(fn_.attrs(inst).begin(), fn_.attrs(inst).end());
            attrs[0] &= kCachingFlags;
            fn_.append(to, fn_.make(Op::channel_put, operands, {}, attrs, inst.span));
        }
    }

    Function& fn_;
    LoopParts parts_;
    Span span_;
    std::vector<Copy> copies_;
    int64_t distance_ = 0;
};

}  // namespace

std::string ahead_problem(const Function& fn, const GpuOptions& options, const ChannelPlan& plan) {
    if (fn.inst(plan.loop).op != Op::for_loop) return "its loop is a `while`, whose next trip is not known";
    const LoopParts loop = parts_of(fn, plan.loop);
    if (fn.inst(plan.load).parent != loop.body) return "it does not run in every trip of its loop";
    if (loop.step == 0) return "the step of its loop is not a constant";
    if (!starts_at_zero_or_more(fn, options, loop.lo)) return "its loop may start below zero";
    std::vector<InstId> slice;
    if (!index_slice(fn, loop, plan.load, slice)) return "its address depends on more than the counter of its loop";
    return {};
}

void issue_ahead(Function& fn, const std::vector<ChannelPlan>& plans) {
    std::vector<InstId> loops;
    for (const ChannelPlan& p : plans)
        if (p.why_not.empty() && std::find(loops.begin(), loops.end(), p.loop) == loops.end()) loops.push_back(p.loop);
    for (InstId loop : loops) {
        AheadLoop ahead(fn, loop);
        for (const ChannelPlan& p : plans)
            if (p.why_not.empty() && p.loop == loop) ahead.add(p);
        ahead.rewrite();
    }
}

}  // namespace tegula
