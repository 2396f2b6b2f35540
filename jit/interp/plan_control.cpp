// Control flow as jumps (planner.h). A loop's results share the storage of its carried values; copies into block arguments happen all at
// once, and vanish where the new value can be made in the argument's storage.
#include <algorithm>
#include <utility>

#include "jit/interp/planner.h"

namespace tegula::interp {

using ir::Op;

namespace {
constexpr int kMaxDepth = 1000;  ///< nesting that the planner's recursion takes
}

std::vector<Tile> Planner::yielded(ir::BlockId block, size_t skip) const {
    std::vector<Tile> out;
    const auto operands = fn_.operands(fn_.inst(fn_.block(block).insts.back()));
    for (size_t i = skip; i < operands.size(); ++i) out.push_back(tiles_[operands[i].v]);
    return out;
}

std::vector<Tile> Planner::define_args(ir::BlockId block, size_t skip) {
    std::vector<Tile> out;
    const auto& args = fn_.block(block).args;
    for (size_t i = 0; i < args.size(); ++i) {
        const Tile t = fresh(fn_.type_of(args[i]));
        define(args[i], t);
        if (i >= skip) out.push_back(t);
    }
    return out;
}

void Planner::emit_copy(const Info& cause, const Tile& from, const Tile& to) {
    Info& info = plan_.infos.emplace_back();
    info.id = cause.id;
    info.op = Op::yield;
    info.span = cause.span;
    info.in.push_back(from);
    info.out.push_back(to);
    if (to.n != 1 && from.n == 1) info.in[0].splat = true;
    emit(step_copy, info);
}

void Planner::copy_values(const Info& cause, std::vector<Tile> from, const std::vector<Tile>& to, uint32_t begin) {
    TEGULA_CHECK(from.size() == to.size());
    for (const Tile& t : from) slots_.read(t.slot, now());
    const auto is_target = [&](uint32_t slot, size_t except) {
        for (size_t j = 0; j < to.size(); ++j)
            if (j != except && slots_.find(to[j].slot) == slots_.find(slot)) return true;
        return false;
    };
    for (size_t i = 0; i < from.size(); ++i) {
        const Tile& f = from[i];
        if (f.splat || slots_.first(f.slot) < begin || slots_.permanent(f.slot) || is_target(f.slot, to.size())) continue;
        const auto maker =
            std::lower_bound(in_place_.begin(), in_place_.end(), slots_.first(f.slot), [](const auto& e, uint32_t at) { return e.first < at; });
        const bool over = maker != in_place_.end() && maker->first == slots_.first(f.slot) && takes_in_place(*maker->second, to[i].slot);
        slots_.merge(f.slot, to[i].slot, over);
    }
    for (size_t i = 0; i < from.size(); ++i) {
        if (slots_.find(from[i].slot) == slots_.find(to[i].slot) || !is_target(from[i].slot, i)) continue;
        const Tile held = fresh_like(from[i]);
        emit_copy(cause, from[i], held);
        from[i] = held;
    }
    for (size_t i = 0; i < from.size(); ++i)
        if (slots_.find(from[i].slot) != slots_.find(to[i].slot)) emit_copy(cause, from[i], to[i]);
}

void Planner::plan_for_loop(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    Info& info = info_for(id);
    TEGULA_CHECK(++depth_ < kMaxDepth, "loops nested too deeply");
    const ir::BlockId body = fn_.blocks(inst)[0];
    const std::vector<Tile> inits(info.in.begin() + 3, info.in.end());
    info.in.resize(3);
    const std::vector<Tile> carried = define_args(body, 1);
    copy_values(info, inits, carried, UINT32_MAX);
    for (uint32_t r = 0; r < inst.results.count; ++r) define(fn_.result(inst, r), carried[r]);

    const Tile index = tiles_[fn_.block(body).args[0].v];
    Tile trips = index;
    trips.slot = slots_.add(8, false);
    info.out = {index, trips};
    const uint32_t begin = now();
    emit(step_for_begin, info);
    plan_block(body);
    copy_values(info, yielded(body), carried, begin + 1);
    Info& next = plan_.infos.emplace_back(info);
    next.in = {tiles_[fn_.operands(inst)[2].v]};
    emit(step_for_next, next);
    steps_.back().target = begin + 1;
    steps_[begin].target = now();
    slots_.close_loop(begin, now() - 1);
    --depth_;
}

void Planner::plan_while_loop(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    Info& info = info_for(id);
    TEGULA_CHECK(++depth_ < kMaxDepth, "loops nested too deeply");
    const ir::BlockId head = fn_.blocks(inst)[0], body = fn_.blocks(inst)[1];
    const std::vector<Tile> carried = define_args(head), passed = define_args(body);
    copy_values(info, info.in, carried, UINT32_MAX);
    info.in.clear();
    for (uint32_t r = 0; r < inst.results.count; ++r) define(fn_.result(inst, r), passed[r]);

    const uint32_t begin = now();
    plan_block(head);
    Info& test = plan_.infos.emplace_back(info);
    test.in = {tiles_[fn_.operands(fn_.inst(fn_.block(head).insts.back()))[0].v]};
    copy_values(info, yielded(head, 1), passed, begin);
    const uint32_t leave = now();
    emit(step_jump_if_false, test);
    plan_block(body);
    copy_values(info, yielded(body), carried, leave + 1);
    emit(step_jump, info);
    steps_.back().target = begin;
    steps_[leave].target = now();
    slots_.close_loop(begin, now() - 1);
    --depth_;
}

void Planner::plan_if_else(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    Info& info = info_for(id);
    TEGULA_CHECK(++depth_ < kMaxDepth, "branches nested too deeply");
    std::vector<Tile> results;
    for (uint32_t r = 0; r < inst.results.count; ++r) {
        results.push_back(fresh(fn_.type_of(fn_.result(inst, r))));
        define(fn_.result(inst, r), results.back());
    }
    Info& plain = plan_.infos.emplace_back(info);
    plain.in.clear();
    const uint32_t test = now();
    emit(step_jump_if_false, info);
    const auto blocks = fn_.blocks(inst);
    plan_block(blocks[0]);
    copy_values(plain, yielded(blocks[0]), results, test + 1);
    const uint32_t skip = now();
    emit(step_jump, plain);
    steps_[test].target = now();
    plan_block(fn_.blocks(inst)[1]);
    copy_values(plain, yielded(fn_.blocks(inst)[1]), results, skip + 1);
    steps_[skip].target = now();
    --depth_;
}

bool Planner::batchable(ir::BlockId block) const {
    for (ir::InstId id : fn_.block(block).insts) {
        const ir::Inst& inst = fn_.inst(id);
        const bool pointwise = ir::is_pointwise(inst.op) || inst.op == Op::constant || inst.op == Op::ptr_add || inst.op == Op::yield;
        if (!pointwise) return false;
        for (uint32_t r = 0; r < inst.results.count; ++r)
            if (fn_.type(fn_.result(inst, r)).shape.elements() != 1) return false;
    }
    return true;
}

void Planner::plan_region(ir::InstId id, Run run) {
    const ir::Inst& inst = fn_.inst(id);
    Info& info = info_for(id);
    TEGULA_CHECK(++depth_ < kMaxDepth, "regions nested too deeply");
    for (Tile& t : info.in) t = dense(t, info);
    const bool outer = std::exchange(batched_, false);
    for (uint32_t r = 0; r < inst.results.count; ++r) {
        info.out.push_back(fresh(fn_.type_of(fn_.result(inst, r))));
        define(fn_.result(inst, r), info.out.back());
        if (inst.op == Op::reduce_region) info.work.push_back(fresh_like(info.in[r]));
    }
    const ir::BlockId body = fn_.blocks(inst)[0];
    batched_ = info.batched = batchable(body);
    info.region_args = define_args(body);
    const uint32_t at = now();
    emit(run, info);
    info.begin = now();
    plan_block(body);
    info.region_yields = yielded(body);
    info.end = now();
    const uint32_t last = std::max(at, info.end - 1);
    touch(info, last);
    // Read after the body's last step, which must not write its result over one of them.
    for (const Tile& t : info.region_yields) slots_.read(t.slot, info.end);
    slots_.close_loop(at + 1, last);
    batched_ = outer;
    --depth_;
}

}  // namespace tegula::interp
