// The producer's share of a function (channels.h): the scalars that the control around copies and their indices depend on, and the function
// split in two. The producer reads memory ahead of the consumer, so only memory that no earlier write may reach counts as computable.
#include <algorithm>
#include <map>

#include "lang/access_operands.h"
#include "lower/gpu/channels.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

// ---- writes ----

Writes::Writes(const Function& fn, bool may_alias) : fn_(fn), may_alias_(may_alias), order_(fn.inst_count(), UINT32_MAX) {
    uint32_t next = 0;
    fn.walk([&](InstId i) {
        order_[i.v] = next++;
        const Inst& inst = fn.inst(i);
        if (!has_trait(inst.op, WRITES)) return;
        // An atomic may be what tells this program that another one has written.
        writes_.push_back({order_[i.v], i, inst.op == Op::store ? fn.operands(inst)[0] : ValueId{}});
    });
}

bool Writes::common_loop(InstId a, InstId b) const {
    std::vector<InstId> loops;
    const auto outward = [&](InstId i, const auto& visit) {
        for (BlockId block = fn_.inst(i).parent; block.valid();) {
            const InstId owner = fn_.block(block).owner;
            if (!owner.valid()) return;
            const Op op = fn_.inst(owner).op;
            if (op == Op::for_loop || op == Op::while_loop) visit(owner);
            block = fn_.inst(owner).parent;
        }
    };
    outward(a, [&](InstId loop) { loops.push_back(loop); });
    bool common = false;
    outward(b, [&](InstId loop) { common = common || std::find(loops.begin(), loops.end(), loop) != loops.end(); });
    return common;
}

bool Writes::may_precede(ValueId tensor, InstId at) const {
    return std::any_of(writes_.begin(), writes_.end(),
                       [&](const Write& w) { return may_meet(w, tensor) && (w.order < order_[at.v] || common_loop(w.inst, at)); });
}

bool Writes::may_reach(ValueId tensor) const {
    return std::any_of(writes_.begin(), writes_.end(), [&](const Write& w) { return may_meet(w, tensor); });
}

// ---- what the producer needs ----

std::string Slice::add(InstId load) {
    problem_.clear();
    const auto operands = fn_.operands(fn_.inst(load));
    for (size_t i = 1; i < operands.size(); ++i) want(operands[i]);
    want_control(fn_.inst(load).parent);
    while (!work_.empty() && problem_.empty()) {
        const ValueId v = work_.back();
        work_.pop_back();
        spread(v);
    }
    return problem_;
}

bool Slice::keeps(const Inst& loop, uint32_t k) const {
    if (needs(fn_.result(loop, k))) return true;
    const size_t skip = loop.op == Op::for_loop ? 1 : 0;
    const auto blocks = fn_.blocks(loop);
    return std::any_of(blocks.begin(), blocks.end(), [&](BlockId b) { return needs(fn_.block(b).args[k + skip]); });
}

void Slice::want(ValueId v) {
    if (value_[v.v]) return;
    value_[v.v] = true;
    work_.push_back(v);
}

void Slice::want_control(BlockId block) {
    while (fn_.block(block).owner.valid()) {
        const InstId owner = fn_.block(block).owner;
        const Inst& inst = fn_.inst(owner);
        block = inst.parent;
        if (inst_[owner.v]) continue;
        inst_[owner.v] = true;
        const auto operands = fn_.operands(inst);
        if (inst.op == Op::for_loop)
            for (size_t i = 0; i < 3; ++i) want(operands[i]);
        else if (inst.op == Op::while_loop)
            want(fn_.operands(fn_.inst(fn_.block(fn_.blocks(inst)[0]).insts.back()))[0]);
        else if (inst.op == Op::if_else)
            want(operands[0]);
        else if (inst.op != Op::specialise)
            problem_ = std::string("it stands inside `") + op_row(inst.op).name + "`";
    }
}

void Slice::spread(ValueId v) {
    const Value& value = fn_.value(v);
    const Type& type = fn_.type(v);
    if (type.kind == Type::tensor || type.kind == Type::channel) return;
    if (type.kind != Type::tile || type.shape.rank != 0) {
        problem_ = "its address or control depends on a tile, which only the threads that compute have";
        return;
    }
    if (!value.def.valid()) return spread_argument(value);
    const Inst& inst = fn_.inst(value.def);
    want_control(inst.parent);
    if (inst.op == Op::for_loop || inst.op == Op::while_loop || inst.op == Op::if_else) return spread_result(inst, value.index);
    inst_[value.def.v] = true;
    const bool pure = (op_row(inst.op).traits & (PURE | REGIONS)) == PURE;
    if (inst.op == Op::load && writes_.may_precede(value.def)) {
        problem_ = "its address or control is read from memory that may have been written before";
    } else if (!pure && inst.op != Op::load) {
        problem_ = std::string("its address or control depends on `") + op_row(inst.op).name + "`";
    } else {
        for (ValueId o : fn_.operands(inst)) want(o);
    }
}

void Slice::want_carried(const Inst& loop, uint32_t k) {
    const bool counted = loop.op == Op::for_loop;
    want(fn_.operands(loop)[k + (counted ? 3 : 0)]);
    const auto blocks = fn_.blocks(loop);
    for (size_t b = 0; b < blocks.size(); ++b) {
        const Block& block = fn_.block(blocks[b]);
        const auto end = fn_.operands(fn_.inst(block.insts.back()));
        want(end[k + (!counted && b == 0 ? 1 : 0)]);
        want(block.args[k + (counted ? 1 : 0)]);
    }
}

void Slice::spread_argument(const Value& value) {
    const InstId owner = fn_.block(value.block).owner;
    if (!owner.valid()) return;  // a parameter
    const Inst& inst = fn_.inst(owner);
    want_control(value.block);
    if (inst.op == Op::for_loop && value.index == 0) return;
    want_carried(inst, value.index - (inst.op == Op::for_loop ? 1 : 0));
}

void Slice::spread_result(const Inst& inst, uint32_t index) {
    want_control(fn_.blocks(inst)[0]);
    if (inst.op != Op::if_else) return want_carried(inst, index);
    for (BlockId b : fn_.blocks(inst)) want(fn_.operands(fn_.inst(fn_.block(b).insts.back()))[index]);
}

// ---- the split ----

namespace {

/// Copies the needed part of blocks, with puts in place of loads.
class Producer {
public:
    Producer(Function& fn, const Slice& slice, std::vector<ValueId> put_into) : fn_(fn), slice_(slice), put_into_(std::move(put_into)) {}

    void block(BlockId from, BlockId to) {
        const std::vector<InstId> insts = fn_.block(from).insts;
        for (InstId i : insts) {
            if (i.v < put_into_.size() && put_into_[i.v].valid())
                put(i, to);
            else if (slice_.needs(i))
                copy(i, to);
        }
    }

private:
    ValueId of(ValueId v) const {
        const auto it = map_.find(v.v);
        return it == map_.end() ? v : it->second;
    }
    void put(InstId load, BlockId to) {
        const Inst inst = fn_.inst(load);
        std::vector<ValueId> operands;
        const size_t first = AccessOperands(fn_, inst).first;
        for (size_t i = 0; i < first; ++i) operands.push_back(of(fn_.operands(inst)[i]));
        operands.push_back(put_into_[load.v]);
        std::vector<int64_t> attrs(fn_.attrs(inst).begin(), fn_.attrs(inst).end());
        attrs[0] &= kCachingFlags;
        fn_.append(to, fn_.make(Op::channel_put, operands, {}, attrs, inst.span));
    }
    void copy(InstId i, BlockId to) {
        const Inst inst = fn_.inst(i);
        if (inst.op == Op::for_loop || inst.op == Op::while_loop) return copy_loop(i, to);
        if (inst.op == Op::if_else) return copy_branch(i, to);
        std::vector<ValueId> operands;
        for (ValueId v : fn_.operands(inst)) operands.push_back(of(v));
        std::vector<TypeId> types;
        for (uint32_t r = 0; r < inst.results.count; ++r) types.push_back(fn_.type_of(fn_.result(inst, r)));
        const std::vector<int64_t> attrs(fn_.attrs(inst).begin(), fn_.attrs(inst).end());
        const InstId made = fn_.make(inst.op, operands, types, attrs, inst.span);
        fn_.append(to, made);
        for (uint32_t r = 0; r < inst.results.count; ++r) map_[fn_.result(inst, r).v] = fn_.result(made, r);
    }
    /// The copy of a block's end: its first `skip` operands and the kept ones.
    void end_block(BlockId from, BlockId to, size_t skip, const std::vector<uint32_t>& kept) {
        const InstId last = fn_.block(from).insts.back();
        const Inst inst = fn_.inst(last);
        std::vector<ValueId> operands;
        for (size_t i = 0; i < skip; ++i) operands.push_back(of(fn_.operands(inst)[i]));
        for (uint32_t k : kept) operands.push_back(of(fn_.operands(inst)[k + skip]));
        fn_.append(to, fn_.make(inst.op, operands, {}, {}, inst.span));
    }
    void copy_loop(InstId i, BlockId to) {
        const Inst inst = fn_.inst(i);
        const bool counted = inst.op == Op::for_loop;
        std::vector<uint32_t> kept;
        for (uint32_t k = 0; k < inst.results.count; ++k)
            if (slice_.keeps(inst, k)) kept.push_back(k);
        std::vector<ValueId> operands;
        std::vector<TypeId> types;
        for (uint32_t n = 0; counted && n < 3; ++n) operands.push_back(of(fn_.operands(inst)[n]));
        for (uint32_t k : kept) {
            operands.push_back(of(fn_.operands(inst)[k + (counted ? 3 : 0)]));
            types.push_back(fn_.type_of(fn_.result(inst, k)));
        }
        std::vector<BlockId> from(fn_.blocks(inst).begin(), fn_.blocks(inst).end()), blocks;
        for (BlockId b : from) blocks.push_back(copy_arguments(b, counted, kept));
        const std::vector<int64_t> attrs(fn_.attrs(inst).begin(), fn_.attrs(inst).end());
        const InstId made = fn_.make(inst.op, operands, types, attrs, inst.span, blocks);
        fn_.append(to, made);
        for (size_t b = 0; b < from.size(); ++b) {
            block(from[b], blocks[b]);
            end_block(from[b], blocks[b], !counted && b == 0 ? 1 : 0, kept);
        }
        for (size_t n = 0; n < kept.size(); ++n) map_[fn_.result(inst, kept[n]).v] = fn_.result(made, static_cast<uint32_t>(n));
    }
    BlockId copy_arguments(BlockId from, bool counted, const std::vector<uint32_t>& kept) {
        const BlockId made = fn_.add_block();
        const std::vector<ValueId> args = fn_.block(from).args;
        if (counted) map_[args[0].v] = fn_.add_arg(made, fn_.type_of(args[0]));
        for (uint32_t k : kept) {
            const ValueId arg = args[k + (counted ? 1 : 0)];
            map_[arg.v] = fn_.add_arg(made, fn_.type_of(arg));
        }
        return made;
    }
    void copy_branch(InstId i, BlockId to) {
        const Inst inst = fn_.inst(i);
        std::vector<uint32_t> kept;
        std::vector<TypeId> types;
        for (uint32_t r = 0; r < inst.results.count; ++r) {
            if (!slice_.needs(fn_.result(inst, r))) continue;
            kept.push_back(r);
            types.push_back(fn_.type_of(fn_.result(inst, r)));
        }
        const std::vector<BlockId> from(fn_.blocks(inst).begin(), fn_.blocks(inst).end());
        const std::vector<BlockId> blocks = {fn_.add_block(), fn_.add_block()};
        const std::vector<ValueId> condition = {of(fn_.operands(inst)[0])};
        const InstId made = fn_.make(Op::if_else, condition, types, {}, inst.span, blocks);
        fn_.append(to, made);
        for (size_t b = 0; b < 2; ++b) {
            block(from[b], blocks[b]);
            end_block(from[b], blocks[b], 0, kept);
        }
        for (size_t n = 0; n < kept.size(); ++n) map_[fn_.result(inst, kept[n]).v] = fn_.result(made, static_cast<uint32_t>(n));
    }

    Function& fn_;
    const Slice& slice_;
    std::vector<ValueId> put_into_;  ///< by load: the channel
    std::map<uint32_t, ValueId> map_;
};

}  // namespace

void split_producer(Function& fn, const std::vector<ChannelPlan>& plans, const Writes& writes) {
    Slice slice(fn, writes);
    std::vector<ValueId> put_into(fn.inst_count());
    std::vector<InstId> channels;
    for (const ChannelPlan& p : plans) {
        if (!p.why_not.empty()) continue;
        TEGULA_CHECK(slice.add(p.load).empty(), "the producer's part was computable one load at a time");
        channels.push_back(make_channel(fn, p, static_cast<int>(channels.size())));
        put_into[p.load.v] = fn.result(channels.back());
    }
    const BlockId producer = fn.add_block(), consumer = fn.add_block();
    Producer(fn, slice, put_into).block(fn.body, producer);
    for (const ChannelPlan& p : plans)
        if (p.why_not.empty()) take_from_channel(fn, p, put_into[p.load.v], p.load);

    const std::vector<BlockId> blocks = {producer, consumer};
    std::vector<InstId> rest = std::move(fn.block(fn.body).insts);
    fn.block(fn.body).insts.clear();
    const InstId end = rest.back();
    rest.pop_back();
    for (InstId c : channels) fn.append(fn.body, c);
    fn.append(fn.body, fn.make(Op::specialise, {}, {}, {}, fn.inst(end).span, blocks));
    fn.append(fn.body, end);
    for (InstId i : rest) fn.append(consumer, i);
    for (BlockId b : blocks) fn.append(b, fn.make(Op::yield, {}, {}, {}, fn.inst(end).span));
    fn.gpu->specialised = true;
}

}  // namespace tegula
