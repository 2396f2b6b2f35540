// Tiles that go through scratch memory: each element written row-major by one of the threads that hold it, read by
// whoever needs it. What lies where is decided by scratch_plan (lang/gpu/scratch.h); loops over elements stay loops
// whatever the tile's size.
#include "lang/gpu/scratch.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

std::string scratch_area(Lowering& ctx, ir::InstId id, const std::string& type, int64_t offset) {
    const std::string base = scratch(ctx, id, "unsigned char", scratch_plan(ctx.fn, id).bytes);
    const std::string at = base + (offset ? " + " + std::to_string(offset) : "");
    return pointer(ctx, type, "s", raw(ctx, "(" + type + "*)(" + at + ")")).text();
}

std::vector<Ex> coordinates_in(const Shape& shape, Ex number) {
    std::vector<Ex> out(shape.rank);
    int64_t below = 1;
    for (size_t d = shape.rank; d-- > 0; below *= shape[d]) out[d] = number / below % shape[d];
    return out;
}

Ex number_of(Lowering& ctx, const Shape& shape, const std::vector<Ex>& coordinates) {
    Ex out = ctx.pool.number(0);
    for (size_t d = 0; d < coordinates.size(); ++d) out = out * shape[d] + coordinates[d];
    return out;
}

std::vector<Ex> coordinates_of(Lowering& ctx, ir::ValueId v, Ex r) {
    std::vector<Ex> out;
    for (int d = 0; d < ctx.fn.type(v).shape.rank; ++d) out.push_back(coordinate(ctx, layout(ctx, v), d, r));
    return out;
}

Ex number_at(Lowering& ctx, ir::ValueId v, Ex r) {
    return is_scalar(ctx, v) ? ctx.pool.number(0) : logical_number(ctx, layout(ctx, v), r);
}

Ex stores(Lowering& ctx, ir::ValueId v, Ex r) {
    return is_scalar(ctx, v) ? eq(ctx.thread, 0) : owns(ctx, layout(ctx, v), r);
}

Ex is_real(Lowering& ctx, ir::ValueId v, Ex r) {
    return is_scalar(ctx, v) ? ctx.pool.truth(true) : inside(ctx, layout(ctx, v), r);
}

std::string chosen(Ex condition, const std::string& yes, const std::string& no) {
    return condition.is_true() ? yes : condition.is_false() ? no : condition.text() + " ? " + yes + " : " + no;
}

void assign_to(Lowering& ctx, ir::ValueId v, Ex r, const std::string& value) {
    ctx.out.assign(is_scalar(ctx, v) ? named(ctx, name(ctx, v)) : element(ctx, name(ctx, v), r), raw(ctx, value));
}

void stage(Lowering& ctx, ir::ValueId v, const std::string& pointer,
           const std::function<std::string(const std::string&)>& value) {
    each_register(ctx, v, [&](Ex r) {
        const std::string text = value ? value(text_at(ctx, v, r)) : text_at(ctx, v, r);
        const Ex place = element(ctx, pointer, number_at(ctx, v, r));
        assign_if(ctx, stores(ctx, v, r), place, raw(ctx, text));
    });
}

std::vector<std::string> stage_operands(Lowering& ctx, ir::InstId id) {
    const ScratchPlan plan = scratch_plan(ctx.fn, id);
    const auto operands = ctx.fn.operands(ctx.fn.inst(id));
    std::vector<std::string> pointers(operands.size());
    for (size_t i = 0; i < operands.size(); ++i) {
        if (plan.operand[i] < 0) continue;
        pointers[i] = scratch_area(ctx, id, type_of(ctx, operands[i]), plan.operand[i]);
        stage(ctx, operands[i], pointers[i]);
    }
    return pointers;
}

Ex staged(Lowering& ctx, ir::ValueId v, const std::string& pointer, ir::ValueId of, Ex r, Ex number) {
    const Ex in_register = element_at(ctx, v, r);
    if (pointer.empty()) return in_register;
    // Ghosts have numbers beyond the staged elements: what they read counts for nothing, but is read.
    const bool beyond = !is_scalar(ctx, of) && layout(ctx, of).has_ghosts();
    const Ex last = ctx.pool.number(ctx.fn.type(v).shape.elements() - 1);
    return ctx.pool.index(in_register.type(), ctx.pool.name(kernel::Type::other, pointer),
                          beyond ? ctx.pool.call(kernel::Type::i32, "min", {number, last}) : number);
}

void fill(Lowering& ctx, ir::ValueId result, const std::function<std::string(Ex)>& value) {
    each_register(ctx, result, [&](Ex r) {
        const std::string element = value(r);
        assign_to(ctx, result, r, chosen(is_real(ctx, result, r), element, zero(ctx, result)));
    });
}

Ex open_elements(Lowering& ctx, const std::string& e, int64_t n) {
    const Ex counter = int32(ctx, e);
    ctx.out.open_for({"int", e, ctx.thread, lt(counter, n), {counted(counter, group_threads(ctx))}, 1});
    return counter;
}

void each_of(Lowering& ctx, const std::vector<int>& registers, const std::function<void(Ex)>& body) {
    constexpr size_t kLines = 4;
    if (registers.empty()) return;
    bool even = true;
    const int step = registers.size() > 1 ? registers[1] - registers[0] : 1;
    for (size_t i = 1; i < registers.size(); ++i) even = even && registers[i] - registers[i - 1] == step;
    if (registers.size() <= kLines && (!even || registers.size() == 1)) {
        for (int r : registers) {
            ctx.out.open_block();
            body(ctx.pool.number(r));
            ctx.out.close();
        }
        return;
    }
    const std::string i = ctx.out.fresh("i");
    const auto count = static_cast<int64_t>(registers.size());
    if (even) {
        const Ex counter = int32(ctx, i);
        ctx.out.open_for({"int",
                          i,
                          ctx.pool.number(registers.front()),
                          le(counter, registers.back()),
                          {counted(counter, step)},
                          unrolled(ctx, count)});
        body(ctx.pool.counter(i, registers.back() + 1));
        return ctx.out.close();
    }
    const Ex number = ctx.out.open_count(i, count, unrolled(ctx, count));
    const std::string r = ctx.out.fresh("r");
    ctx.out.let("int", r, rename(ctx, registers, number));
    body(int32(ctx, r));
    ctx.out.close();
}

}  // namespace tegula::lower
