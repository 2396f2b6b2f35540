// Elementwise tiles that follow each other become one loop over registers. What only the loop itself reads is a
// variable of its body and no array: NVRTC unrolls every loop and takes every array apart, which costs it several times
// what the arithmetic does. Loads that come from caches join the loop vector by vector, and so does the store of what
// it computes: tiles that were loaded whole, or waited for all loads to be stored, would take registers that the
// programs of a multiprocessor want.
#include <algorithm>
#include <utility>

#include "lang/gpu/wide_access.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/access/part.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/formats/text.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/packed/packed.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Op;

namespace {

constexpr const char* kRegister = "r";
/// Instructions of an unrolled loop, roughly. Compilers give up full unrolling at 16384, and the arrays would lie in
/// memory.
constexpr int64_t kMaxWork = 12288;
/// Instructions of emulated arithmetic in a loop that is unrolled: half a second of compiling.
constexpr int64_t kMostEmulation = 8192;

/// Instructions of one element: few for what the machine has, many for what device functions spell out.
constexpr int64_t kLight = 4, kHeavy = 64;
int64_t work(const ir::Function& fn, const ir::Inst& inst) {
    const auto plain = [&](ir::ValueId v) {
        const Format& f = fn.elem(v);
        return fn.type(v).pointer || f.is_bool() || f.is_int() || text::is_native_float(f) ||
               fn.type(v).elem == Fmt::bf16 || fn.type(v).elem == Fmt::f16;
    };
    bool light = plain(fn.result(inst));
    for (ir::ValueId v : fn.operands(inst)) light = light && plain(v);
    // Not every row of a high cost: truncated quotients and square roots, as long as these on a CPU, are short enough
    // here to be unrolled.
    const bool division = inst.op == Op::div || inst.op == Op::rem;
    return light && !division ? kLight : kHeavy;
}

}  // namespace

/// Instructions of one element that device functions spell out, roughly, where neither the machine nor a table has the
/// operation.
int64_t emulation(const Lowering& ctx, const ir::Inst& inst) {
    if (inst.op == Op::cast) {  // a few instructions, or looked up
        const auto& to = ctx.fn.type(ctx.fn.result(inst)).elem;
        if (ctx.fn.elem(ctx.fn.operands(inst)[0]).bits <= 8 || to == Fmt::f8e4m3 || to == Fmt::f8e5m2) return 0;
    }
    if (!ir::has_trait(inst.op, ir::ELEMWISE) && inst.op != Op::cast) return 0;
    int64_t most = 0;
    const auto look_at = [&](ir::ValueId v) {
        most = std::max(most, ctx.fn.type(v).pointer ? 0 : Formats::emulation(ctx.fn.elem(v)));
    };
    look_at(ctx.fn.result(inst));
    for (const ir::ValueId v : ctx.fn.operands(inst)) look_at(v);
    return most;
}

/// Do threads of a warp go different ways for long in it: paths of single elements? ptxas 13.0 has taken a warp behind
/// such for one that has come together again where it has not (docs/internals/gpu.md). So such a warp is told to, there
/// and in front of what it does together.
bool parts(const Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    switch (inst.op) {
        case Op::atomic:
            return !ctx.fn.gpu_inst(id).bulk;
        case Op::store:
        case Op::ptr_store:
            return is_bit_addressed(ctx.fn.elem(ctx.fn.operands(inst)[inst.op == Op::store ? 0 : 1]));
        default: {
            if (ir::has_trait(inst.op, ir::DIVERGES)) return true;
            if (inst.results.count == 0 || is_scalar(ctx, ctx.fn.result(inst))) return false;
            const bool quotient = inst.op == Op::div &&
                                  text::is_native_float(ctx.fn.elem(ctx.fn.result(inst)));  // one call where it is slow
            return (ir::has_trait(inst.op, ir::ELEMWISE) || inst.op == Op::cast) && !quotient &&
                   work(ctx.fn, inst) == kHeavy;
        }
    }
}

void find_parting(Lowering& ctx) {
    for (uint32_t b = 0; b < ctx.fn.block_count(); ++b)
        for (const ir::InstId id : ctx.fn.block(ir::BlockId{b}).insts)
            ctx.control.diverges = ctx.control.diverges || parts(ctx, id);
}

/// The scalar that all elements are, when it never changes while the tile is alive (carried values do) and every reader
/// asks for single elements.
std::optional<ir::ValueId> splat(const Lowering& ctx, ir::ValueId v) {
    const ir::Inst* def = ctx.fn.def(v);
    if (!def || def->op != Op::broadcast || ctx.values.array_constant[v.v] || is_scalar(ctx, v) ||
        !in_registers(ctx, v))
        return std::nullopt;
    const ir::ValueId from = ctx.fn.operands(*def)[0];
    return is_scalar(ctx, from) && (ctx.fn.def(from) || param_number(ctx, from) >= 0) ? std::optional(from)
                                                                                      : std::nullopt;
}

/// A choice by a comparison of floats in the same loop: such a mask is one of its variables.
bool chosen_by_floats(Lowering& ctx, const ir::Inst& select) {
    const ir::ValueId mask = ctx.fn.operands(select)[0];
    const ir::Inst* def = fused(ctx, mask) ? ctx.fn.def(mask) : nullptr;
    return def && ir::has_trait(def->op, ir::ELEMWISE) && ctx.fn.elem(ctx.fn.operands(*def)[0]).is_float();
}

Fused* fused(Lowering& ctx, ir::ValueId v) {
    const auto it = std::find_if(ctx.fusing.pending.begin(), ctx.fusing.pending.end(),
                                 [&](const Fused& f) { return f.value == v; });
    return it == ctx.fusing.pending.end() ? nullptr : &*it;
}

/// Register r of a tile of the pending loop: for tiles that join it, its variable there. Any other register exists only
/// after the loop.
std::optional<std::string> fused_at(Lowering& ctx, ir::ValueId v, Ex r) {
    Fused* f = fused(ctx, v);
    if (!f) return std::nullopt;
    if (ctx.fusing.joining && r == ctx.pool.counter(kRegister, registers(ctx, v))) {
        f->read = true;
        return ctx.values.names[v.v] + "_" + kRegister;
    }
    end_fused(ctx);
    return std::nullopt;
}

void fuse(Lowering& ctx, ir::ValueId result, const std::function<std::string(Ex r)>& value) {
    const ir::Inst& inst = *ctx.fn.def(result);
    const int64_t more = work(ctx.fn, inst) * registers(ctx, result);
    // After a choice by position a loop ends: masks that are used all at once, compilers compute where they are used,
    // and others they keep in registers, bit by bit.
    const bool ends = !ctx.fusing.pending.empty() && ctx.fn.def(ctx.fusing.pending.back().value)->op == Op::select &&
                      !chosen_by_floats(ctx, *ctx.fn.def(ctx.fusing.pending.back().value));
    if (ends || (!ctx.fusing.pending.empty() && registers(ctx, ctx.fusing.pending[0].value) != registers(ctx, result)))
        end_fused(ctx);
    name(ctx, result);
    ctx.fusing.joining = true;
    const Ex r = ctx.pool.counter(kRegister, registers(ctx, result));
    std::string text = value(r);
    if (ctx.fusing.pending.empty()) text = value(r);  // it may have ended the loop whose variables it named
    ctx.fusing.joining = false;
    // An elementwise operation reads all its operands here; others may read a tile once more elsewhere.
    const auto operands = ctx.fn.operands(inst);
    for (Fused& f : ctx.fusing.pending)
        if (std::exchange(f.read, false))
            f.uses += ir::has_trait(inst.op, ir::ELEMWISE)
                          ? static_cast<int>(std::count(operands.begin(), operands.end(), f.value))
                          : 1;
    if (ctx.fusing.pending.empty()) ctx.fusing.work = ctx.fusing.emulation = 0;
    ctx.fusing.work += more;
    ctx.fusing.emulation += emulation(ctx, inst) * registers(ctx, result);
    ctx.fusing.pending.push_back({result, ctx.out.take_mark(), std::move(text), 0});
    if (!ctx.plan.runs(KernelPass::fuse_tiles)) end_fused(ctx);
}

/// `store`: of a tile that the loop computes, vector by vector as the last thing of every step.
void end_fused(Lowering& ctx, const Part* store) {
    if (ctx.fusing.pending.empty()) return;
    const std::vector<Fused> all = std::exchange(ctx.fusing.pending, {});
    const std::string mark = ctx.out.take_mark();
    for (const Fused& f : all) {
        if (all.size() > 1) ctx.plan.decide(KernelPass::fuse_tiles, f.value);
        if (uses(ctx, f.value) > f.uses) declare(ctx, f.value);
    }
    // Registers that a step of the loop takes: a vector of the widest access.
    int group = store ? store->vectors.length : 1;
    for (const Fused& f : all) group = std::max(group, f.vector);
    // What is too much for one unrolled loop are several, over parts of the registers: cut by operations, all tiles
    // alive at the cut would be arrays. Tiles that no register file holds stay one loop, and so does arithmetic of
    // formats that the machine does not know: unrolled, it would take seconds to compile, and beside its instructions
    // those that reach arrays in local memory do not count.
    const int64_t n = registers(ctx, all[0].value);
    const bool rolled = n > ctx.values.unroll_limit || ctx.fusing.emulation > kMostEmulation;
    const int64_t loops = rolled ? 1 : std::min((ctx.fusing.work + kMaxWork - 1) / kMaxWork, n);
    const int64_t step = ((n + loops - 1) / loops + group - 1) / group * group;
    for (int64_t from = 0; from < n; from += step) {
        const int64_t to = std::min(from + step, n);
        const std::string r = group > 1 ? "g" : kRegister;
        const Ex counter = int32(ctx, r);
        ctx.out.open_for({"int",
                          r,
                          ctx.pool.number(from),
                          lt(counter, to),
                          {group > 1 ? counted(counter, group) : kernel::increment(counter)},
                          rolled ? 1 : unrolled(ctx, to - from)});
        if (group > 1)
            fused_group(ctx, all, ctx.pool.counter(r, n, group), group, store);
        else
            fused_elements(ctx, all);
        ctx.out.close();
    }
    ctx.out.put_mark(mark);
}

/// Loads the vectors of `count` registers from `first` on, computes their elements and stores them.
void fused_group(Lowering& ctx, const std::vector<Fused>& all, Ex first, int count, const Part* store) {
    for (const Fused& f : all) {
        if (!f.load) continue;
        const std::string wide = ctx.values.names[f.value.v] + "_w";
        const std::string type = wide_type(static_cast<size_t>(f.vector) * ctx.fn.elem(f.value).container_bytes());
        ctx.out.declare("alignas(16) " + type_of(ctx, f.value), wide, count);
        for (int i = 0; i < count; i += f.vector) f.load(first + i, pointee(type, raw(ctx, wide + " + " + number(i))));
    }
    ctx.out.open_for({"int",
                      kRegister,
                      first,
                      lt(int32(ctx, kRegister), first + count),
                      {kernel::increment(int32(ctx, kRegister))},
                      unrolled(ctx, count)});
    fused_elements(ctx, all);
    ctx.out.close();
    for (int i = 0; store && i < count; i += store->vectors.length) {
        const Ex r = first + i;
        store_vector(ctx, *store, r, stored_vector(ctx, *store, r), true);
    }
}

/// Register r of all tiles of a loop.
void fused_elements(Lowering& ctx, const std::vector<Fused>& all) {
    for (const Fused& f : all) {
        ctx.out.put_mark(f.mark);
        const std::string& tile = ctx.values.names[f.value.v];
        const Ex value = raw(ctx, f.text), own = named(ctx, tile + "_" + kRegister);
        const bool array = uses(ctx, f.value) > f.uses;
        if (f.uses || !array) ctx.out.let(type_of(ctx, f.value), own.text(), value, true);
        if (array) ctx.out.assign(element(ctx, tile, int32(ctx, kRegister)), f.uses ? own : value);
    }
}

/// Is the tile what only an elementwise operation of its block reads, behind a reduction, and do several programs share
/// the multiprocessor? Elements that differ between programs come from memory, and are to be under way as early as can
/// be; so are all loads of a program that is alone.
bool may_join(Lowering& ctx, ir::InstId id) {
    const ir::Inst& load = ctx.fn.inst(id);
    const ir::ValueId v = ctx.fn.result(load);
    if (ctx.values.loops || is_scalar(ctx, v) || !in_registers(ctx, v) || uses(ctx, v) != 1 ||
        !has_constant_indices(ctx.fn, load))
        return false;
    if (!is_plain(ctx.fn.access(load))) return false;
    bool reduced = false;
    for (const ir::InstId other : ctx.fn.block(load.parent).insts) {
        if (other == id && !reduced) return false;
        const ir::Inst& inst = ctx.fn.inst(other);
        const auto operands = ctx.fn.operands(inst);
        if (std::find(operands.begin(), operands.end(), v) != operands.end()) {
            if (!ir::has_trait(inst.op, ir::ELEMWISE) || ctx.kernel.resident_programs == 1) return false;
            const Part part = part_access(ctx, id);
            return is_vectors(part) && (is_whole(part) || ctx.fn.elem(part.tensor).bits >= 32);
        }
        reduced = reduced || (ir::has_trait(inst.op, ir::MEETS) && !is_scalar(ctx, operands[0]));
    }
    return false;
}

/// The variables of an access stand in front of the pending loop: bounds and addresses are made of scalars, of which
/// the loop makes none.
Part part_ahead(Lowering& ctx, ir::InstId id) {
    std::vector<Fused> pending = std::exchange(ctx.fusing.pending, {});
    const std::string mark = ctx.out.take_mark();
    Part part = part_of(ctx, id);
    ctx.fusing.pending = std::move(pending);
    ctx.out.put_mark(mark);
    return part;
}

/// Lets a load join the pending loop. Every store, barrier and branch is a line and ends the loop first: a load passes
/// elementwise tiles only.
bool join_load(Lowering& ctx, ir::InstId id) {
    if (!ctx.plan.runs(KernelPass::fuse_tiles) || !may_join(ctx, id)) return false;
    const Part part = part_ahead(ctx, id);
    const ir::ValueId v = part.value;
    fuse(ctx, v, [&](Ex r) { return ctx.values.names[v.v] + "_w[" + r + " - g]"; });
    ctx.fusing.pending.back().vector = part.vectors.length;
    ctx.fusing.pending.back().load = [&ctx, part](Ex r, Ex to) { load_vector(ctx, part, r, to, true); };
    return true;
}

/// Lets the store of a tile that the pending loop computes, rounded or not, join it where vectors are loaded there. It
/// passes loads of later registers: a store that may reach what they read has a barrier before it, which has ended the
/// loop.
bool join_store(Lowering& ctx, ir::InstId id) {
    if (std::none_of(ctx.fusing.pending.begin(), ctx.fusing.pending.end(),
                     [](const Fused& f) { return f.load != nullptr; }))
        return false;
    const ir::ValueId v = ctx.fn.operands(ctx.fn.inst(id)).back();
    const bool rounded = ctx.plan.has(KernelPass::round_in_store, v);
    if (!fused(ctx, rounded ? ctx.fn.operands(*ctx.fn.def(v))[0] : v) || !stores_vectors(ctx, id)) return false;
    const Part part = part_ahead(ctx, id);
    end_fused(ctx, &part);
    return true;
}

}  // namespace tegula::lower
