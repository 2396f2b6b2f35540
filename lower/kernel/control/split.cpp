// Split sums: the stretches of a kernel program's loop over K are programs of the launch, neighbours in its order. Each
// puts its sums into global memory; the one that comes last adds them all, in ascending order as if the stretches had
// been run one after the other, and alone goes on. Nobody waits for anybody. How many stretches there are may be known
// at the launch only; where it is one, nothing is put anywhere.
#include <algorithm>

#include "lower/kernel/access/access.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Op;
using kernel::KernelOp;

namespace {

constexpr int64_t kSharedBytes = 16;        ///< for the number of those that came before
constexpr int kAhead = 64, kMostAhead = 8;  ///< registers and stretches that are fetched at the same time, small sums

}  // namespace

/// How many stretches there are.
Ex split_parts(Lowering& ctx) {
    if (ctx.split.sum->parts) return ctx.pool.number(ctx.split.sum->parts);
    return ctx.pool.name(kernel::Type::u64,
                         parameter(ctx, KernelParam::split, 0, 0, "const unsigned long long", "stretches"));
}

/// Before anything is emitted: the launch's shape, and memory of the exchange.
void prepare_split(Lowering& ctx) {
    ctx.split.sum = parallel_split(ctx.fn);
    if (!ctx.split.sum) return;
    ctx.kernel.split = std::max<int64_t>(ctx.split.sum->parts, 1);
    if (ctx.split.sum->parts == 0) ctx.kernel.split_count = ctx.split.sum->count;
    ctx.kernel.sum_bytes = ctx.split.sum->bytes;
    ctx.split.shared = take_shared(ctx, explain::Buffer::exchange, "stretches", kSharedBytes, 16);
    ctx.split.part = ctx.out.fresh("stretch");
    const std::string place = ctx.parameters.names.at("first") + " + blockIdx.x", parts = split_parts(ctx).text();
    std::string program = "(" + place + ") / " + parts;
    if (!ctx.split.sum->parts) {
        const std::string reciprocal =
            parameter(ctx, KernelParam::split_reciprocal, 0, 0, "const unsigned long long", "by_stretches");
        program = quotient_by_reciprocal(ctx) + "(" + place + ", " + parts + ", " + reciprocal + ")";
    }
    ctx.split.head = "    [[maybe_unused]] const unsigned long long program = " + program + ";\n    const unsigned " +
                     ctx.split.part + " = " + place + " - program * " + parts + ";\n";
}

/// The stretch of this program; the loop's body once.
void split_loop(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::Block& body = ctx.fn.block(ctx.fn.blocks(inst)[0]);
    std::vector<ir::ValueId> results;
    for (uint32_t r = 0; r < inst.results.count; ++r) results.push_back(ctx.fn.result(inst, r));
    const std::vector<std::string> totals = declare_all(ctx, results);
    ctx.out.open_block();
    ctx.out.let("long long", name(ctx, body.args[0]), named(ctx, ctx.split.part));
    for (ir::InstId i : body.insts)
        if (ctx.fn.inst(i).op != Op::yield &&
            std::find(ctx.split.sum->tail.begin(), ctx.split.sum->tail.end(), i) == ctx.split.sum->tail.end())
            instruction(ctx, i);
    if (id == ctx.split.sum->loop) {
        const bool several = ctx.split.sum->parts > 1;
        if (!several) ctx.out.open_if(ne(split_parts(ctx), 1));
        split_publish(ctx);
        copy_all(ctx, ctx.fn.operands(inst).subspan(3), totals);
        for (size_t k = 0; k < totals.size(); ++k) ctx.values.names[body.args[k + 1].v] = totals[k];
        split_add(ctx, body, totals);
        if (!several) {
            ctx.out.otherwise();
            copy_all(ctx, ctx.fn.operands(inst).subspan(3), totals);
            split_tail(ctx, body, totals);
            ctx.out.close();
        }
    }
    ctx.out.close();
}

/// Where the threads' registers of a stretch's sum k lie, as text.
std::string split_sums(Lowering& ctx, size_t k, const std::string& stretch) {
    return "(stretches_of + " + stretch + " * " + std::to_string(ctx.split.sum->bytes) + "ull + " +
           std::to_string(ctx.split.sum->offsets[k]) + ")";
}

/// Every thread keeps its registers; whoever counts to the end goes on.
void split_publish(Lowering& ctx) {
    const std::string sums = parameter(ctx, KernelParam::sums, 0, 0, "unsigned char*", "sums");
    const std::string arrivals = parameter(ctx, KernelParam::arrivals, 0, 0, "unsigned*", "arrivals");
    const std::string first = "(blockIdx.x - " + ctx.split.part + ")";
    ctx.out.let_pointer("unsigned char", "stretches_of",
                        raw(ctx, sums + " + " + first + " * " + std::to_string(ctx.split.sum->bytes) + "ull"));
    for (size_t k = 0; k < ctx.split.sum->partials.size(); ++k) {
        const ir::ValueId v = ctx.split.sum->partials[k];
        const std::string type = type_of(ctx, v);
        const Ex own = pointer(ctx, type, "own", raw(ctx, "(" + type + "*)" + split_sums(ctx, k, ctx.split.part)));
        each_register(ctx, v, [&](Ex r) {
            ctx.out.assign(element(own, r * group_threads(ctx) + ctx.thread), element_at(ctx, v, r));
        });
    }
    ctx.out.call(KernelOp::fence_gpu);
    sync(ctx);
    const Ex arrived = pointee("", named(ctx, "arrived")), counter = named(ctx, "counter"),
             first_thread = eq(ctx.thread, 0);
    ctx.out.let_pointer("unsigned", "arrived",
                        raw(ctx, "(unsigned*)(shared + " + std::to_string(ctx.split.shared) + ")"));
    ctx.out.let_pointer("unsigned", "counter", raw(ctx, arrivals + " + " + first));
    ctx.out.when(first_thread);
    ctx.out.call(KernelOp::atomic_get, {arrived, named(ctx, "atomicAdd"), counter, raw(ctx, "1u")});
    sync(ctx);
    ctx.out.open_if(raw(ctx, arrived + " != (unsigned)" + split_parts(ctx) + " - 1"));
    give_tensor_memory(ctx);  // what it held was read before the meeting
    ctx.out.leave();
    ctx.out.close();
    ctx.out.call(KernelOp::fence_gpu);
    assign_if(ctx, first_thread, pointee("", counter), ctx.pool.number(0));  // for the next launch
}

/// The next totals of the totals and a stretch's sums.
void split_tail(Lowering& ctx, const ir::Block& body, const std::vector<std::string>& totals) {
    for (const ir::InstId i : ctx.split.sum->tail) instruction(ctx, i);
    copy_all(ctx, ctx.fn.operands(ctx.fn.inst(body.insts.back())), totals);
}

/// Several stretches of few registers are on their way at the same time.
void split_add(Lowering& ctx, const ir::Block& body, const std::vector<std::string>& totals) {
    using kernel::Type;
    const std::string s_name = ctx.out.fresh("s"), j_name = ctx.out.fresh("j");
    const Ex s = ctx.pool.name(Type::u32, s_name), j = ctx.pool.name(Type::u32, j_name), none = ctx.pool.number(0),
             parts = split_parts(ctx);
    int held = 0;
    for (ir::ValueId v : ctx.split.sum->partials) held += registers(ctx, v);
    const int ahead = std::clamp(kAhead / held, 1, kMostAhead);
    const auto open_each = [&] {
        ctx.out.open_for({"unsigned", j_name, none, lt(j, ahead), {kernel::increment(j)}, kernel::kUnrollAll});
        ctx.out.open_if(lt(s + j, parts));
    };
    std::vector<std::string> own;
    std::vector<Ex> fetched;
    ctx.out.open_for({"unsigned", s_name, none, lt(s, parts), {counted(s, ahead)}, 1});
    for (ir::ValueId v : ctx.split.sum->partials)
        fetched.push_back(array(ctx, type_of(ctx, v), "partial", ahead, "[" + std::to_string(registers(ctx, v)) + "]"));
    open_each();
    for (size_t k = 0; k < ctx.split.sum->partials.size(); ++k) {
        const ir::ValueId v = ctx.split.sum->partials[k];
        const std::string type = "const " + type_of(ctx, v);
        const Ex from =
            pointer(ctx, type, "from", raw(ctx, "(" + type + "*)" + split_sums(ctx, k, "(" + s + " + " + j + ")")));
        const Ex to = element(fetched[k], j);
        each_register(
            ctx, v, [&](Ex r) { ctx.out.assign(element(to, r), element(from, r * group_threads(ctx) + ctx.thread)); });
        own.push_back(std::exchange(ctx.values.names[v.v], to.text()));
    }
    ctx.out.close();
    ctx.out.close();
    open_each();
    split_tail(ctx, body, totals);
    ctx.out.close();
    ctx.out.close();
    ctx.out.close();
    for (size_t k = 0; k < own.size(); ++k) ctx.values.names[ctx.split.sum->partials[k].v] = own[k];
}

}  // namespace tegula::lower
