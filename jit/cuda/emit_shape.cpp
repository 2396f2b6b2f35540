// broadcast, reshape, permute, slice, cat and gather. Where every result register is an operand's register (lang/register_moves.h) nothing moves;
// otherwise the operands go through row-major scratch and each result register reads its element.
#include "jit/cuda/emitter.h"
#include "lang/gpu/register_moves.h"
#include "lang/gpu/scratch.h"

namespace tegula::cuda {

using ir::Op;

/// Views of shared memory, scalars, and tiles of one element.
bool Emitter::view_or_trivial(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId from = fn_.operands(inst)[0], to = fn_.result(inst);
    if (fn_.placement(to).kind == Placement::shared) {
        TEGULA_CHECK(fn_.placement(from).kind == Placement::shared, "a tile gets into shared memory by convert only");
        line("unsigned char* const " + name(to) + " = " + name(from) + ";");
        return true;
    }
    if (!scratch_plan(fn_, id).bytes && (is_scalar(from) || is_scalar(to))) {
        assign(to, [&](Ex) { return at(from, pool_.number(0)); });
        return true;
    }
    return false;
}

void Emitter::move_registers(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId to = fn_.result(inst);
    const auto sources = register_sources(fn_, id);
    TEGULA_CHECK(sources.has_value());
    const auto operands = fn_.operands(inst);
    if (operands.size() == 1) {
        std::vector<int> from;
        for (const auto& source : *sources)
            if (source.operand == 0) from.push_back(source.reg);
        if (from.size() == sources->size()) return assign(to, [&](Ex r) { return at(operands[0], rename(from, r)); });
    }
    declare(to);
    for (size_t i = 0; i < operands.size(); ++i) {
        std::vector<int> mine, from;
        for (size_t r = 0; r < sources->size(); ++r) {
            if ((*sources)[r].operand != static_cast<int>(i)) continue;
            mine.push_back(static_cast<int>(r));
            from.push_back((*sources)[r].reg);
        }
        if (mine.empty()) continue;
        each(static_cast<int>(mine.size()), [&](Ex r) { assign_to(to, rename(mine, r), at(operands[i], rename(from, r))); });
    }
}

void Emitter::move_through_scratch(ir::InstId id, const std::function<Ex(Ex)>& number) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId to = fn_.result(inst);
    declare(to);
    open("");
    const std::string pointer = stage_operands(id)[0];
    sync();
    fill(to, [&](Ex r) { return pointer + "[" + number(r).text() + "]"; });
    close();
}

void Emitter::cuda_broadcast(ir::InstId id) {
    if (splat(fn_.result(id)) || view_or_trivial(id)) return;
    if (!scratch_plan(fn_, id).bytes) return move_registers(id);
    const ir::ValueId from = fn_.operands(fn_.inst(id))[0], to = fn_.result(id);
    const Shape &in = fn_.type(from).shape, &out = fn_.type(to).shape;
    move_through_scratch(id, [&](Ex r) {
        std::vector<Ex> c = coordinates_of(to, r);
        c.erase(c.begin(), c.begin() + (out.rank - in.rank));
        for (size_t d = 0; d < in.rank; ++d)
            if (in[d] == 1) c[d] = pool_.number(0);
        return number_of(in, c);
    });
}

void Emitter::cuda_reshape(ir::InstId id) {
    if (view_or_trivial(id)) return;
    if (!scratch_plan(fn_, id).bytes) return move_registers(id);
    move_through_scratch(id, [&](Ex r) { return number_at(fn_.result(id), r); });
}

void Emitter::cuda_permute(ir::InstId id) {
    if (view_or_trivial(id)) return;
    if (!scratch_plan(fn_, id).bytes) return move_registers(id);
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId to = fn_.result(inst);
    const auto axes = fn_.attrs(inst);
    move_through_scratch(id, [&](Ex r) {
        const std::vector<Ex> c = coordinates_of(to, r);
        std::vector<Ex> from(c.size());
        for (size_t d = 0; d < c.size(); ++d) from[static_cast<size_t>(axes[d])] = c[d];
        return number_of(fn_.type(fn_.operands(inst)[0]).shape, from);
    });
}

void Emitter::cuda_slice(ir::InstId id) {
    if (view_or_trivial(id)) return;
    if (!scratch_plan(fn_, id).bytes) return move_registers(id);
    const ir::Inst& inst = fn_.inst(id);
    const auto start_step = fn_.attrs(inst);
    move_through_scratch(id, [&](Ex r) {
        std::vector<Ex> c = coordinates_of(fn_.result(inst), r);
        for (size_t d = 0; d < c.size(); ++d) c[d] = c[d] * start_step[2 * d + 1] + start_step[2 * d];
        return number_of(fn_.type(fn_.operands(inst)[0]).shape, c);
    });
}

void Emitter::cuda_cat(ir::InstId id) {
    if (!scratch_plan(fn_, id).bytes) return move_registers(id);
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId to = fn_.result(inst);
    const auto axis = static_cast<size_t>(fn_.attrs(inst)[0]);
    declare(to);
    open("");
    const std::string pointer = scratch_area(id, type_of(to), 0);
    int64_t begin = 0;
    for (ir::ValueId v : fn_.operands(inst)) {
        each_register(v, [&](Ex r) {
            std::vector<Ex> c = coordinates_of(v, r);
            c[axis] = c[axis] + begin;
            line_if(owns(layout(v), r), pointer + "[" + number_of(fn_.type(to).shape, c).text() + "] = " + at(v, r) + ";");
        });
        begin += fn_.type(v).shape[axis];
    }
    sync();
    fill(to, [&](Ex r) { return pointer + "[" + number_at(to, r).text() + "]"; });
    close();
}

void Emitter::cuda_gather(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId from = fn_.operands(inst)[0], index = fn_.operands(inst)[1], to = fn_.result(inst);
    const auto axis = static_cast<size_t>(fn_.attrs(inst)[0]);
    const Shape& shape = fn_.type(from).shape;
    declare(to);
    open("");
    const std::vector<std::string> pointers = stage_operands(id);
    sync();
    each_register(to, [&](Ex r) {
        const std::string i = fresh("i");
        const Ex value = kernel::cast(kernel::Type::i64, staged(index, pointers[1], to, r, number_at(to, r)));
        line("const long long " + i + " = " + pool_.select(inside(layout(to), r), value, int64(-1)).text() + ";");
        std::vector<Ex> c = coordinates_of(to, r);
        const Ex at = pool_.name(kernel::Type::i64, i);
        c[axis] = u32(at);
        assign_to(to, r, chosen(both(ge(at, 0), lt(at, shape[axis])), pointers[0] + "[" + number_of(shape, c).text() + "]", zero(to)));
    });
    close();
}

}  // namespace tegula::cuda
