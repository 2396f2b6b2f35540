// convert through scratch: the order of plan_exchange, in accesses as wide as each side's registers allow. Addresses
// are XORs of a part that the thread knows and a part that the register knows; tiles with odd factors use a padded
// row-major order.
#include <map>

#include "lang/gpu/scratch.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

/// How the elements of one exchange are addressed.
struct ExchangeText {
    const Exchange& plan;
    std::string pointer, type, function;  ///< function: element number -> element address
    int bytes;                            ///< of an element
};

namespace {

/// What one access moves: by address the registers that hold the element (several hold copies), and the address of the
/// first in thread 0.
struct WordAccess {
    std::vector<std::vector<int>> elements;
    int64_t first = 0;
};

std::vector<WordAccess> accesses(const TileLayout& l, const Exchange& plan, int vector) {
    std::map<int64_t, std::vector<int>> placed;
    for (int r = 0; r < l.registers(); ++r) placed[plan.address(plan.number(l.point(r, 0, 0)))].push_back(r);
    std::vector<WordAccess> out;
    for (const auto& [address, registers] : placed) {
        if (out.empty() || out.back().elements.size() == static_cast<size_t>(vector)) out.push_back({{}, address});
        TEGULA_CHECK(address == out.back().first + static_cast<int64_t>(out.back().elements.size()),
                     "an access is not consecutive");
        out.back().elements.push_back(registers);
    }
    return out;
}

std::string function_text(const Exchange& plan) {
    std::string out;
    if (!plan.columns.empty()) {
        for (size_t k = 0; k < plan.columns.size();) {
            // Neighbouring bits that move alike are one term.
            size_t end = k + 1;
            while (end < plan.columns.size() && plan.columns[end] == plan.columns[end - 1] << 1) ++end;
            const std::string run =
                "(n >> " + std::to_string(k) + " & " + std::to_string((uint64_t{1} << (end - k)) - 1) + ")";
            out += out.empty() ? "" : " ^ ";
            // Multiplying by a column with several bits would carry where runs overlap: one term per bit of the column.
            bool first = true;
            for (int b = 0; b < 40; ++b) {
                if (!(plan.columns[k] >> b & 1)) continue;
                out += (first ? "" : " ^ ") + ("(" + run + " << " + std::to_string(b) + ")");
                first = false;
            }
            if (first) out += "0";
            k = end;
        }
        return out;
    }
    return plan.period ? "n + n / " + std::to_string(plan.period) + " * " + std::to_string(plan.pad) : "n";
}

}  // namespace

void exchange_side(Lowering& ctx, const TileLayout& l, const ExchangeText& e, const std::string& tile, bool write) {
    const auto number = [&](Ex r) {
        std::vector<Ex> c;
        for (int d = 0; d < l.shape.rank; ++d) c.push_back(coordinate(ctx, l, d, r));
        return number_of(ctx, e.plan.extents, c);
    };
    const int vector = write ? e.plan.write_vector : e.plan.read_vector;
    const bool one_of_copies = write && (l.lane_copies() || l.warp_copies());
    const Ex mine = one_of_copies ? ctx.pool.call(kernel::Type::pred, layout_name(ctx, l) + "::owner", {ctx.thread})
                                  : ctx.pool.truth(true);
    if (l.registers() > ctx.values.unroll_limit || vector == 1) {
        each(ctx, l.registers(), [&](Ex r) {
            const Ex place = element(ctx, e.pointer, ctx.pool.call(kernel::Type::i32, e.function, {number(r)})),
                     own = element(ctx, tile, r);
            assign_if(ctx, mine, write ? place : own, write ? own : place);
        });
        return;
    }
    const bool linear = !e.plan.columns.empty();
    const std::string base = ctx.out.fresh("a"), word = wide_type(static_cast<size_t>(vector * e.bytes));
    if (linear) ctx.out.let("int", base, ctx.pool.call(kernel::Type::i32, e.function, {number(ctx.pool.number(0))}));
    for (const WordAccess& a : accesses(l, e.plan, vector)) {
        const std::string address = linear ? base + " ^ " + std::to_string(a.first)
                                           : e.function + "(" + number(ctx.pool.number(a.elements[0][0])).text() + ")";
        const Ex place = pointee(word, raw(ctx, e.pointer + " + (" + address + ")"));
        if (one_of_copies)
            ctx.out.open_if(mine);
        else
            ctx.out.open_block();
        std::string list;
        for (const std::vector<int>& r : a.elements)
            list += (list.empty() ? "" : ", ") + tile + "[" + std::to_string(r[0]) + "]";
        ctx.out.declare("alignas(16) " + e.type, "p", vector, write ? " = {" + list + "}" : "");
        if (write)
            ctx.out.assign(place, pointee("const " + word, named(ctx, "p")));
        else
            ctx.out.assign(pointee(word, named(ctx, "p")), place);
        for (size_t i = 0; i < a.elements.size() && !write; ++i)
            for (int r : a.elements[i])
                ctx.out.assign(element(ctx, tile, ctx.pool.number(r)),
                               element(ctx, "p", ctx.pool.number(static_cast<int64_t>(i))));
        ctx.out.close();
    }
}

void exchange(Lowering& ctx, ir::InstId id) {
    const ir::ValueId from = ctx.fn.operands(ctx.fn.inst(id))[0], to = ctx.fn.result(id);
    const int bytes = ctx.fn.type(to).pointer ? 8 : static_cast<int>(ctx.fn.elem(to).container_bytes());
    const Exchange plan = plan_exchange(layout(ctx, from), layout(ctx, to), bytes * 8);
    const std::string type = type_of(ctx, to), text = function_text(plan);
    declare(ctx, to);
    ctx.out.open_block();
    ExchangeText e{plan, scratch_area(ctx, id, type, scratch_plan(ctx.fn, id).work[0]), type, "", bytes};
    e.function =
        support(ctx, "exchange " + text, "place", "__device__ __forceinline__ int $(int n) { return " + text + "; }\n");
    exchange_side(ctx, layout(ctx, from), e, name(ctx, from), true);
    sync(ctx);
    exchange_side(ctx, layout(ctx, to), e, name(ctx, to), false);
    ctx.out.close();
}

}  // namespace tegula::lower
