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

namespace {

constexpr int64_t kSharedBytes = 16;        ///< for the number of those that came before
constexpr int kAhead = 64, kMostAhead = 8;  ///< registers and stretches that are fetched at the same time, small sums

}  // namespace

/// How many stretches there are, as text.
std::string split_parts(Lowering& ctx) {
    if (ctx.split.sum->parts) return std::to_string(ctx.split.sum->parts);
    return parameter(ctx, KernelParam::split, 0, 0, "const unsigned long long", "stretches");
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
    const std::string place = ctx.parameters.names.at("first") + " + blockIdx.x", parts = split_parts(ctx);
    const std::string program =
        ctx.split.sum->parts
            ? "(" + place + ") / " + parts
            : quotient_by_reciprocal(ctx) + "(" + place + ", " + parts + ", " +
                  parameter(ctx, KernelParam::split_reciprocal, 0, 0, "const unsigned long long", "by_stretches") + ")";
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
    ctx.out.open("");
    ctx.out.line("const long long " + name(ctx, body.args[0]) + " = " + ctx.split.part + ";");
    for (ir::InstId i : body.insts)
        if (ctx.fn.inst(i).op != Op::yield &&
            std::find(ctx.split.sum->tail.begin(), ctx.split.sum->tail.end(), i) == ctx.split.sum->tail.end())
            instruction(ctx, i);
    if (id == ctx.split.sum->loop) {
        const bool several = ctx.split.sum->parts > 1;
        if (!several) ctx.out.open("if (" + split_parts(ctx) + " != 1)");
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
    const std::string threads = std::to_string(group_threads(ctx));
    ctx.out.line("unsigned char* const stretches_of = " + sums + " + (blockIdx.x - " + ctx.split.part + ") * " +
                 std::to_string(ctx.split.sum->bytes) + "ull;");
    for (size_t k = 0; k < ctx.split.sum->partials.size(); ++k) {
        const ir::ValueId v = ctx.split.sum->partials[k];
        const std::string own = ctx.out.fresh("own"), type = type_of(ctx, v);
        ctx.out.line(type + "* const " + own + " = (" + type + "*)" + split_sums(ctx, k, ctx.split.part) + ";");
        each_register(ctx, v,
                      [&](Ex r) { ctx.out.line(own + "[" + r + " * " + threads + " + t] = " + at(ctx, v, r) + ";"); });
    }
    ctx.out.line("__threadfence();");
    sync(ctx);
    ctx.out.line("unsigned* const arrived = (unsigned*)(shared + " + std::to_string(ctx.split.shared) + ");");
    ctx.out.line("unsigned* const counter = " + arrivals + " + (blockIdx.x - " + ctx.split.part + ");");
    ctx.out.line("if (t == 0) *arrived = atomicAdd(counter, 1u);");
    sync(ctx);
    ctx.out.open("if (*arrived != (unsigned)" + split_parts(ctx) + " - 1)");
    give_tensor_memory(ctx);  // what it held was read before the meeting
    ctx.out.line("return;");
    ctx.out.close();
    ctx.out.line("__threadfence();");
    ctx.out.line("if (t == 0) *counter = 0;  // for the next launch");
}

/// The next totals of the totals and a stretch's sums.
void split_tail(Lowering& ctx, const ir::Block& body, const std::vector<std::string>& totals) {
    for (const ir::InstId i : ctx.split.sum->tail) instruction(ctx, i);
    copy_all(ctx, ctx.fn.operands(ctx.fn.inst(body.insts.back())), totals);
}

/// Several stretches of few registers are on their way at the same time.
void split_add(Lowering& ctx, const ir::Block& body, const std::vector<std::string>& totals) {
    const std::string threads = std::to_string(group_threads(ctx)), s = ctx.out.fresh("s"), j = ctx.out.fresh("j"),
                      parts = split_parts(ctx);
    int held = 0;
    for (ir::ValueId v : ctx.split.sum->partials) held += registers(ctx, v);
    const int ahead = std::clamp(kAhead / held, 1, kMostAhead);
    const std::string each = "for (unsigned " + j + " = 0; " + j + " < " + std::to_string(ahead) + "; ++" + j + ")",
                      is_one = "if (" + s + " + " + j + " < " + parts + ")";
    std::vector<std::string> own, fetched;
    ctx.out.line("#pragma unroll 1");
    ctx.out.open("for (unsigned " + s + " = 0; " + s + " < " + parts + "; " + s + " += " + std::to_string(ahead) + ")");
    for (ir::ValueId v : ctx.split.sum->partials) {
        fetched.push_back(ctx.out.fresh("partial"));
        ctx.out.line(type_of(ctx, v) + " " + fetched.back() + "[" + std::to_string(ahead) + "][" +
                     std::to_string(registers(ctx, v)) + "];");
    }
    ctx.out.line("#pragma unroll");
    ctx.out.open(each);
    ctx.out.open(is_one);
    for (size_t k = 0; k < ctx.split.sum->partials.size(); ++k) {
        const ir::ValueId v = ctx.split.sum->partials[k];
        const std::string from = ctx.out.fresh("from"), type = type_of(ctx, v), to = fetched[k] + "[" + j + "]";
        ctx.out.line("const " + type + "* const " + from + " = (const " + type + "*)" +
                     split_sums(ctx, k, "(" + s + " + " + j + ")") + ";");
        each_register(ctx, v,
                      [&](Ex r) { ctx.out.line(to + "[" + r + "] = " + from + "[" + r + " * " + threads + " + t];"); });
        own.push_back(std::exchange(ctx.values.names[v.v], to));
    }
    ctx.out.close();
    ctx.out.close();
    ctx.out.line("#pragma unroll");
    ctx.out.open(each);
    ctx.out.open(is_one);
    split_tail(ctx, body, totals);
    ctx.out.close();
    ctx.out.close();
    ctx.out.close();
    for (size_t k = 0; k < own.size(); ++k) ctx.values.names[ctx.split.sum->partials[k].v] = own[k];
}

}  // namespace tegula::lower
