// Structured control flow. Conditions and bounds are scalars, equal in all threads. Carried values live in the
// registers of the loop's results: block arguments are other names of them, and the values that end a block are copied
// over, through temporaries where one copy would overwrite what another still needs.
#include <algorithm>

#include "lang/gpu/hints.h"
#include "lang/gpu/tensor_memory.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/packed/packed.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Op;
using kernel::KernelOp;

namespace {

constexpr int kManyWords = 24;    ///< that a loop carries
constexpr int kMostBeside = 64;   ///< registers that it carries beside them
constexpr int kSafeBits = 60;     ///< bounds and step of this size cannot leave 64 bits
constexpr int kManyCarried = 32;  ///< registers

int products_in(const ir::Function& fn, ir::BlockId block) {
    int n = 0;
    for (ir::InstId id : fn.block(block).insts) {
        n += ir::is_product(fn.inst(id).op);
        for (ir::BlockId b : fn.blocks(fn.inst(id))) n += products_in(fn, b);
    }
    return n;
}

ir::ValueId index_of(const Lowering& ctx, const ir::Inst& loop) { return ctx.fn.block(ctx.fn.blocks(loop)[0]).args[0]; }

void copy_array(Lowering& ctx, int size, const std::string& from, const std::string& to) {
    each(ctx, size, [&](Ex r) { ctx.out.assign(element(ctx, to, r), element(ctx, from, r)); });
}

}  // namespace

void copy(Lowering& ctx, ir::ValueId from, const std::string& to) {
    if (ctx.values.sums.count(from.v) || ctx.packed.rings.count(from.v) || in_tensor_memory(ctx.fn, from))
        return;  // stays where it is
    if (is_scalar(ctx, from)) {
        if (const std::string source = name(ctx, from); source != to) ctx.out.assign(named(ctx, to), raw(ctx, source));
        return;
    }
    if (is_words(ctx, from) || is_pairs(ctx, from) || is_quads(ctx, from)) {
        if (const std::string source = name(ctx, from); source != to)
            copy_array(ctx, array_size(ctx, from), source, to);
        return;
    }
    const std::string source = text_at(ctx, from, ctx.pool.number(0));
    if (source == to + "[0]") return;
    each_register(ctx, from, [&](Ex r) { ctx.out.assign(element(ctx, to, r), element_at(ctx, from, r)); });
}

void copy_all(Lowering& ctx, std::span<const ir::ValueId> from, const std::vector<std::string>& to) {
    TEGULA_CHECK(from.size() == to.size());
    std::vector<bool> held(from.size(), false);
    for (size_t i = 0; i < from.size(); ++i)
        for (size_t j = 0; j < i; ++j)
            if (name(ctx, from[i]) == to[j] && name(ctx, from[j]) != to[j]) held[i] = true;
    std::vector<std::string> names(from.size());
    const auto size = [&](size_t i) { return is_scalar(ctx, from[i]) ? 0 : array_size(ctx, from[i]); };
    for (size_t i = 0; i < from.size(); ++i) {
        if (!held[i]) continue;
        names[i] = ctx.out.fresh("held");
        ctx.out.declare(array_type(ctx, from[i]), names[i], size(i));
        copy(ctx, from[i], names[i]);
    }
    for (size_t i = 0; i < from.size(); ++i) {
        if (!held[i])
            copy(ctx, from[i], to[i]);
        else if (is_scalar(ctx, from[i]))
            ctx.out.assign(named(ctx, to[i]), named(ctx, names[i]));
        else
            copy_array(ctx, size(i), names[i], to[i]);
    }
}

/// Declares values and gives their names.
std::vector<std::string> declare_all(Lowering& ctx, std::span<const ir::ValueId> values) {
    std::vector<std::string> out;
    for (ir::ValueId v : values) {
        declare(ctx, v);
        out.push_back(name(ctx, v));
    }
    return out;
}

void lower_for_loop(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    if (ctx.split.sum && is_split_loop(ctx.fn, inst)) return split_loop(ctx, id);
    const auto in = ctx.fn.operands(inst);
    const ir::BlockId body = ctx.fn.blocks(inst)[0];
    const auto& args = ctx.fn.block(body).args;
    std::vector<ir::ValueId> results;
    for (uint32_t r = 0; r < inst.results.count; ++r) results.push_back(ctx.fn.result(inst, r));
    std::vector<ir::ValueId> copied;
    std::vector<std::string> carried, targets;
    for (size_t i = 0; i < results.size(); ++i) {
        const bool kept = ctx.plan.has(KernelPass::keep_sums, results[i]);
        if (!kept || !stored_as_sum(ctx, results[i])) declare(ctx, results[i]);
        carried.push_back(ctx.values.names[args[i + 1].v] = name(ctx, results[i]));
        if (kept) {
            enter_sum(ctx, in[i + 3], args[i + 1], results[i]);
        } else {
            copied.push_back(in[i + 3]);
            targets.push_back(carried[i]);
        }
    }
    copy_all(ctx, copied, targets);
    set_targets(ctx, body, carried);
    for_loop_text(ctx, id);
    for (ir::ValueId v : results) leave_sum(ctx, v);
}

namespace {

/// Does the loop carry many words to its next trip? Two trips at a time take them where they are instead of copying
/// them, where registers allow.
bool carries_many_words(const Lowering& ctx, const ir::Inst& loop) {
    int words = 0, others = 0;
    for (uint32_t r = 0; r < loop.results.count; ++r) {
        const auto it = ctx.packed.words.find(ctx.fn.result(loop, r).v);
        if (ctx.packed.rings.count(ctx.fn.operands(loop)[r + 3].v)) continue;  // taken anew in each trip
        if (it != ctx.packed.words.end())
            words += it->second.view.words();
        else
            others += registers(ctx, ctx.fn.result(loop, r));
    }
    return words >= kManyWords && others <= kMostBeside && unrolling(ctx.fn, loop).copies == 1;
}

}  // namespace

void find_turned_loops(Lowering& ctx) {
    ctx.fn.walk([&](ir::InstId id) {
        const ir::Inst& loop = ctx.fn.inst(id);
        if (loop.op == Op::for_loop && carries_many_words(ctx, loop))
            ctx.plan.decide(KernelPass::turn_words, index_of(ctx, loop));
    });
}

/// How the trips of a loop are counted.
Trips count_trips(Lowering& ctx, const ir::Inst& inst) {
    using kernel::Type;
    const auto in = ctx.fn.operands(inst);
    const std::string i = name(ctx, index_of(ctx, inst));
    const Ex lo = element_at(ctx, in[0], {}), hi = element_at(ctx, in[1], {}), step = element_at(ctx, in[2], {});
    const ir::Inst* by = ctx.fn.def(in[2]);
    const bool positive = by && by->op == Op::constant && ctx.fn.attrs(*by)[0] > 0;
    if (positive && reach(ctx, in[1]) <= kSafeBits && magnitude(ctx, in[2]) <= kSafeBits) {
        const Ex counter = ctx.pool.name(Type::i64, i);
        return {"long long", i, lo, lt(counter, hi), {{counter, step, kernel::AssignOp::add}}};
    }
    // The distance left is counted, so that stepping beyond the end cannot overflow.
    const Ex none = ctx.pool.constant(Type::u64, 0), counter = ctx.pool.name(Type::u64, i + "_"),
             left = ctx.pool.name(Type::u64, ctx.out.fresh("left"));
    const Ex some = positive ? lt(lo, hi) : both(gt(step, 0), lt(lo, hi));
    ctx.out.var("unsigned long long", left.text(), ctx.pool.select(some, u64(hi) - u64(lo), none));
    return {
        "unsigned long long",
        i + "_",
        lo,
        ne(left, 0),
        {{counter, step, kernel::AssignOp::add}, {left, ctx.pool.select(gt(left, u64(step)), left - u64(step), none)}},
        kernel::cast(Type::i64, counter)};
}

void declare_index(Lowering& ctx, const ir::Inst& loop, const Trips& trips) {
    if (trips.index) ctx.out.let("long long", name(ctx, index_of(ctx, loop)), trips.index);
}

void next_trip(Lowering& ctx, const Trips& trips) {
    for (const kernel::Assign& a : trips.next) ctx.out.assign(a);
}

/// The loop itself, once the registers of what it carries are filled.
void for_loop_text(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::BlockId body = ctx.fn.blocks(inst)[0];
    const Trips trips = count_trips(ctx, inst);
    if (ctx.fn.gpu_inst(id).wait >= 0) return late_loop(ctx, id, trips);
    int carried_registers = 0;
    for (uint32_t r = 0; r < inst.results.count; ++r) carried_registers += registers(ctx, ctx.fn.result(inst, r));
    const bool counted = trips.index || carried_registers < kManyCarried || products_in(ctx.fn, body) != 1;
    const bool twice = !trips.index && ctx.plan.has(KernelPass::turn_words, index_of(ctx, inst));
    const auto leave = [&] {
        if (!counted) ctx.out.call(KernelOp::meet_warp);
        ctx.out.break_if(negation(trips.test));
    };
    // Compilers would test before a loop with one product, too, and join both ways out of it: a second life of every
    // sum. Not across a convergence. Where several products share the registers, the copies would be in the loop.
    const bool heads = counted && !twice;
    ctx.out.open_for({trips.type, trips.counter, trips.start, heads ? trips.test : Ex(), trips.next,
                      static_cast<int>(unrolling(ctx.fn, inst).copies)});
    if (!heads) leave();
    declare_index(ctx, inst, trips);
    const size_t start = ctx.out.position();
    if (twice) ctx.out.open_block();
    trip(ctx, body);
    if (twice) {
        ctx.out.close();
        const kernel::Body again = ctx.out.copy_since(start);
        next_trip(ctx, trips);
        leave();
        ctx.out.append(again);
    }
    ctx.out.close();
}

/// A trip of a loop. Words of rings are taken when it begins, wherever the load of the next trip's stands.
void trip(Lowering& ctx, ir::BlockId body) {
    for (const ir::InstId id : ctx.fn.block(body).insts) take_words(ctx, id);
    block(ctx, body);
}

void lower_while_loop(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::BlockId head = ctx.fn.blocks(inst)[0], body = ctx.fn.blocks(inst)[1];
    const auto &carried_args = ctx.fn.block(head).args, &passed_args = ctx.fn.block(body).args;
    const auto passed_values = ctx.fn.operands(ctx.fn.inst(ctx.fn.block(head).insts.back())).subspan(1);
    const std::vector<std::string> carried = declare_all(ctx, carried_args);
    copy_all(ctx, ctx.fn.operands(inst), carried);
    std::vector<std::string> passed;
    for (size_t i = 0; i < passed_args.size(); ++i) {
        // What the condition hands on unchanged needs no second place.
        if (passed_values[i] == carried_args[i])
            ctx.values.names[passed_args[i].v] = carried[i];
        else
            declare(ctx, passed_args[i]);
        passed.push_back(name(ctx, passed_args[i]));
        ctx.values.names[ctx.fn.result(inst, static_cast<uint32_t>(i)).v] = passed.back();
    }
    set_targets(ctx, head, passed);
    set_targets(ctx, body, carried);
    kernel::For loop;
    loop.unroll = static_cast<int>(unrolling(ctx.fn, inst).copies);
    ctx.out.open_for(std::move(loop));
    block(ctx, head);
    block(ctx, body);
    ctx.out.close();
}

void lower_if_else(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    std::vector<ir::ValueId> results;
    for (uint32_t r = 0; r < inst.results.count; ++r) results.push_back(ctx.fn.result(inst, r));
    const std::vector<std::string> names = declare_all(ctx, results);
    const auto blocks = ctx.fn.blocks(inst);
    set_targets(ctx, blocks[0], names);
    set_targets(ctx, blocks[1], names);
    ctx.out.open_if(element_at(ctx, ctx.fn.operands(inst)[0], {}));
    block(ctx, blocks[0]);
    if (ctx.fn.block(blocks[1]).insts.size() > 1 || !results.empty()) {
        ctx.out.otherwise();
        block(ctx, blocks[1]);
    }
    ctx.out.close();
}

void lower_yield(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const auto it = ctx.control.targets.find(inst.parent.v);
    if (it != ctx.control.targets.end()) copy_all(ctx, ctx.fn.operands(inst), it->second);
}

void lower_condition(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const auto values = ctx.fn.operands(inst);
    // Before a copy overwrites what it is made of.
    const Ex go_on = ctx.out.constant("go_on", element_at(ctx, values[0], {}));
    copy_all(ctx, values.subspan(1), ctx.control.targets.at(inst.parent.v));
    ctx.out.break_if(negation(go_on));
}

void lower_ret(Lowering&, ir::InstId) {}

}  // namespace tegula::lower
