// Weights of few bits are multiplied as soon as they come, so that nothing would be on its way while a trip of the loop decodes and multiplies. A
// loop
//     for k in lo .. hi step s { t = load w[k]; use t }      becomes
//     first = load w[lo]
//     for k in lo .. hi step s, t = first { next = load w[k + s < hi ? k + s : k]; use t; yield next }
// with the tiles in registers. The last trip loads its own tile again, which the caches hold, so that every index is one of the loop's and what was
// proved of it still holds; of the first load nothing is, as the loop may have no trip. Runs after make_channels: what a ring holds is ahead already.
#include <algorithm>
#include <map>

#include "lang/gpu/split_loop.h"
#include "lower/gpu/channels.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int64_t kMostWords = 32;  ///< registers of a thread that the tiles of a loop take, each of its own

/// Is the tile made of elements that are decoded on their way to a product?
bool is_narrow(const Function& fn, ValueId tile) { return fn.elem(tile).bits <= 8 && !fn.elem(tile).is_bool(); }

class Prefetcher {
public:
    Prefetcher(Function& fn, const GpuOptions& options) : fn_(fn), options_(options), writes_(fn, options.may_alias) {}

    bool run() {
        std::vector<InstId> loops;
        fn_.walk([&](InstId i) {
            if (fn_.inst(i).op == Op::for_loop && !is_split_loop(fn_, fn_.inst(i))) loops.push_back(i);
        });
        bool changed = false;
        for (const InstId loop : loops) changed = rewrite(loop) || changed;
        return changed;
    }

private:
    struct Load {
        InstId inst;
        std::vector<InstId> slice;
    };

    bool rewrite(InstId loop) {
        const LoopParts parts = parts_of(fn_, loop);
        const std::vector<InstId>& list = fn_.block(parts.body).insts;
        const bool product = std::any_of(list.begin(), list.end(), [&](InstId i) {
            return is_product(fn_.inst(i).op) && i.v < fn_.gpu->of_inst.size() && product_row(fn_, i).tensor_core();
        });
        if (!product || parts.step == 0) return false;
        std::vector<Load> loads;
        int64_t words = 0;
        bool narrow = false;
        for (const InstId i : list) {
            Load load{i, {}};
            if (!may_run_ahead(parts, load)) continue;
            const Type& tile = fn_.type(fn_.result(i));
            const int64_t bits = tile.shape.elements() * fn_.elem(fn_.result(i)).bits, threads = int64_t{32} * fn_.gpu->warps;
            const int64_t more = std::max<int64_t>((bits + 32 * threads - 1) / (32 * threads), 1);
            if (words + more > kMostWords) continue;
            words += more;
            narrow = narrow || is_narrow(fn_, fn_.result(i));
            loads.push_back(std::move(load));
        }
        if (!narrow) return false;
        carry(parts, loads);
        return true;
    }

    bool may_run_ahead(const LoopParts& loop, Load& load) {
        const Inst& inst = fn_.inst(load.inst);
        if (inst.op != Op::load || fn_.type(fn_.result(inst)).shape.rank == 0 || (fn_.access(inst).flags & Access::has_mask)) return false;
        const auto operands = fn_.operands(inst);
        const auto known = [&](ValueId v) {  // in front of the loop, too
            const Inst* def = fn_.def(v);
            return fn_.type(v).shape.rank == 0 || (def && def->op == Op::constant && !(def->parent == loop.body));
        };
        const bool scalars = std::all_of(operands.begin() + 1, operands.end(), known);
        // Narrow tiles that are no words would take a register for every element.
        const GpuTensor* fact = tensor_fact(fn_, options_.tensors, operands[0]);
        if (is_narrow(fn_, fn_.result(inst)) && (!fact || fact->grain < 4)) return false;
        return scalars && !writes_.may_reach(operands[0]) && index_slice(fn_, loop, load.inst, load.slice);
    }

    /// A load with the counter being `at`, in front of an instruction. `proved`: `at` is a value that the counter takes.
    ValueId load_at(const LoopParts& loop, const Load& load, ValueId at, InstId before, bool proved, std::map<uint32_t, ValueId>& map) {
        map[loop.counter.v] = at;
        const auto of = [&](ValueId v) {
            const auto it = map.find(v.v);
            return it == map.end() ? v : it->second;
        };
        const auto clone = [&](InstId i, const std::vector<int64_t>& attrs) {
            const Inst inst = fn_.inst(i);
            std::vector<ValueId> operands;
            for (const ValueId v : fn_.operands(inst)) operands.push_back(of(v));
            const TypeId type = fn_.type_of(fn_.result(inst));
            const InstId made = fn_.make(inst.op, operands, {&type, 1}, attrs, inst.span);
            fn_.insert_before(before, made);
            return fn_.result(made);
        };
        for (const InstId i : load.slice) {
            const ValueId result = fn_.result(i);
            if (map.contains(result.v)) continue;
            const std::vector<int64_t> attrs(fn_.attrs(fn_.inst(i)).begin(), fn_.attrs(fn_.inst(i)).end());
            map[result.v] = clone(i, attrs);
        }
        std::vector<int64_t> attrs(fn_.attrs(fn_.inst(load.inst)).begin(), fn_.attrs(fn_.inst(load.inst)).end());
        if (!proved) {
            Access access = fn_.access(fn_.inst(load.inst));
            for (Access::Axis& axis : access.axes) axis.in_bounds = false;
            const std::vector<int64_t> axes = access.encode_axes();
            std::copy(axes.begin(), axes.end(), attrs.begin() + 1);
        }
        return clone(load.inst, attrs);
    }

    void carry(const LoopParts& parts, const std::vector<Load>& loads) {
        const Inst old = fn_.inst(parts.loop);
        std::vector<ValueId> operands(fn_.operands(old).begin(), fn_.operands(old).end());
        std::vector<TypeId> types;
        for (uint32_t r = 0; r < old.results.count; ++r) types.push_back(fn_.type_of(fn_.result(old, r)));
        std::map<uint32_t, ValueId> at_first;
        for (const Load& load : loads) {
            operands.push_back(load_at(parts, load, parts.lo, parts.loop, false, at_first));
            types.push_back(fn_.type_of(fn_.result(load.inst)));
        }
        // The next trip's tiles are asked for before anything of this one is done.
        const InstId first = fn_.block(parts.body).insts.front();
        const TypeId index[] = {fn_.types().tile(Fmt::i64)}, flag[] = {fn_.types().tile(Fmt::boolean)};
        const auto scalar = [&](Op op, std::vector<ValueId> of, std::span<const TypeId> type, std::vector<int64_t> attrs = {}) {
            const InstId made = fn_.make(op, of, type, attrs, old.span);
            fn_.insert_before(first, made);
            return fn_.result(made);
        };
        const ValueId step = scalar(Op::constant, {}, index, {parts.step});
        const ValueId left = scalar(Op::sub, {parts.hi, parts.counter}, index), more = scalar(Op::lt, {step, left}, flag);
        const ValueId next = scalar(Op::select, {more, scalar(Op::add, {parts.counter, step}, index), parts.counter}, index);
        std::map<uint32_t, ValueId> at_next;
        std::vector<ValueId> following;
        for (const Load& load : loads) following.push_back(load_at(parts, load, next, first, true, at_next));
        std::vector<bool> dead(fn_.inst_count());
        for (const Load& load : loads) {
            fn_.replace_uses(fn_.result(load.inst), fn_.add_arg(parts.body, fn_.type_of(fn_.result(load.inst))));
            dead[load.inst.v] = true;
        }
        wait_early(parts.body, first);
        const InstId yield = fn_.block(parts.body).insts.back();
        std::vector<ValueId> values(fn_.operands(fn_.inst(yield)).begin(), fn_.operands(fn_.inst(yield)).end());
        values.insert(values.end(), following.begin(), following.end());
        fn_.set_operands(yield, values);
        const std::vector<int64_t> attrs(fn_.attrs(old).begin(), fn_.attrs(old).end());
        const BlockId blocks[] = {parts.body};
        const InstId made = fn_.make(Op::for_loop, operands, types, attrs, old.span, blocks);
        fn_.insert_before(parts.loop, made);
        for (uint32_t r = 0; r < old.results.count; ++r) fn_.replace_uses(fn_.result(old, r), fn_.result(made, r));
        dead.resize(fn_.inst_count());
        dead[parts.loop.v] = true;
        fn_.remove_if(dead);
        grow_form(fn_);
    }

    /// Waits for tiles of rings come before what is decoded, in their order: behind them, decoding and products take turns, with few registers
    /// between.
    void wait_early(BlockId body, InstId before) {
        std::vector<InstId>& list = fn_.block(body).insts;
        std::vector<InstId> gets;
        std::vector<uint32_t> released;
        for (const InstId i : list) {
            const Inst& inst = fn_.inst(i);
            if (inst.op == Op::channel_release) released.push_back(fn_.operands(inst)[0].v);
            if (inst.op != Op::channel_get) continue;
            if (std::find(released.begin(), released.end(), fn_.operands(inst)[0].v) != released.end()) return;
            gets.push_back(i);
        }
        const auto is_get = [&](InstId i) { return std::find(gets.begin(), gets.end(), i) != gets.end(); };
        const InstId anchor = *std::find_if_not(std::find(list.begin(), list.end(), before), list.end(), is_get);
        std::erase_if(list, is_get);
        for (const InstId get : gets) fn_.insert_before(anchor, get);
    }

    Function& fn_;
    const GpuOptions& options_;
    Writes writes_;
};

}  // namespace

bool prefetch_loads(Function& fn, const GpuOptions& options) { return Prefetcher(fn, options).run(); }

}  // namespace tegula
