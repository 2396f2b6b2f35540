// Control flow: loops and branches as basic blocks, scalars as phis, tiles through the storage that plan.h gave the block arguments (codegen.h).
#include <cstddef>

#include "jit/cpu/codegen.h"

namespace tegula::cpu {

using ir::Op;
using llvm::BasicBlock;
using llvm::Value;

/// to[point] = from[point], unless they lie in one place.
void Codegen::store_value(ir::ValueId from, const Buffer& to) {
    if (is_stored(from) && buffer(from).base == to.base) return;
    const NestOrder order = plan_copy(fn_, plan_, options_, from, width());
    NestOptions options;
    options.order = &order;
    const auto copy = [&](const Point& p) {
        const std::vector<Point> points = points_of(order, to.shape, p);
        std::vector<Value*> values;
        for (const Point& q : points) values.push_back(lanes(from, q));
        write(to, points, values);
    };
    nest(to.shape, copy, options);
}

std::vector<Value*> Codegen::scalars_of(std::span<const ir::ValueId> values) {
    std::vector<Value*> out;
    for (ir::ValueId v : values)
        if (is_scalar(v)) out.push_back(scalar(v));
    return out;
}

/// Hands tiles to block arguments or results, one after the other; those that would be overwritten too early go through buffers (plan.h, held).
void Codegen::transfer(ir::InstId at, std::span<const ir::ValueId> from, std::span<const ir::ValueId> to) {
    const auto& held = plan_.held[at.v];
    const auto buffer_of = [&](size_t i, uint32_t slot) {
        const Buffer target = buffer(to[i]);
        return slot_buffer(slot, *target.format, target.pointer, target.shape);
    };
    for (size_t i = 0; i < from.size(); ++i) {
        if (!is_stored(to[i])) continue;
        Buffer target = buffer(to[i]);
        for (const auto& [number, slot] : held)
            if (number == i) target = buffer_of(i, slot);
        bodies_.emplace_back();
        store_value(from[i], target);
        bodies_.pop_back();
    }
    for (const auto& [number, slot] : held) {
        const Buffer source = buffer_of(number, slot), target = buffer(to[number]);
        nest(target.shape, [&](const Point& p) { write(target, p, read(source, p)); });
    }
}

void Codegen::back_edge(ir::BlockId body, Value* left) {
    count_down(offsetof(State, steps_left), static_cast<int64_t>(fn_.block(body).insts.size()), left);
}

void Codegen::poll(Value* left) {
    call_support(offsetof(Support, tick), b_.getVoidTy(), {i32(emitted_.v), left ? left : i64(-1)});
    leave_if_stopped();
}

void Codegen::leave_if_stopped() {
    Value* stop = b_.CreateAlignedLoad(b_.getPtrTy(), b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), state_, offsetof(State, stop)), llvm::Align(8));
    auto* flag = b_.CreateAlignedLoad(b_.getInt32Ty(), stop, llvm::Align(4));
    flag->setAtomic(llvm::AtomicOrdering::Monotonic);
    auto* on = BasicBlock::Create(context_, "on", function_);
    b_.CreateCondBr(b_.CreateICmpNE(flag, i32(0)), leave_, on);
    b_.SetInsertPoint(on);
}

void Codegen::count_down(size_t field, int64_t by, Value* left_trips) {
    Value* at = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), state_, field);
    Value* left = b_.CreateSub(b_.CreateAlignedLoad(b_.getInt64Ty(), at, llvm::Align(8)), i64(by));
    b_.CreateAlignedStore(left, at, llvm::Align(8));
    auto* late = BasicBlock::Create(context_, "tick", function_);
    auto* on = BasicBlock::Create(context_, "on", function_);
    b_.CreateCondBr(b_.CreateICmpSLT(left, i64(0)), late, on,
                    llvm::MDNode::get(context_, {llvm::MDString::get(context_, "branch_weights"), llvm::ConstantAsMetadata::get(b_.getInt32(1)),
                                                 llvm::ConstantAsMetadata::get(b_.getInt32(2000))}));
    b_.SetInsertPoint(late);
    poll(left_trips);
    b_.CreateBr(on);
    b_.SetInsertPoint(on);
}

namespace {

/// Phis for the scalars among block arguments.
std::vector<llvm::PHINode*> phis_for(Codegen& g, std::span<const ir::ValueId> args, std::span<Value* const> inits, BasicBlock* before) {
    std::vector<llvm::PHINode*> out;
    for (ir::ValueId v : args) {
        if (!g.is_scalar(v)) continue;
        llvm::PHINode* phi = g.b().CreatePHI(g.type_of(v, 0), 2);
        phi->addIncoming(inits[out.size()], before);
        g.define(v, phi);
        out.push_back(phi);
    }
    return out;
}

}  // namespace

void Codegen::cpu_for_loop(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::BlockId body = fn_.blocks(inst)[0];
    const auto operands = fn_.operands(inst);
    const std::span<const ir::ValueId> inits = operands.subspan(3), args(fn_.block(body).args.data() + 1, fn_.block(body).args.size() - 1);
    transfer(id, inits, args);
    const std::vector<Value*> first = scalars_of(inits);
    Value *lo = scalar(operands[0]), *hi = scalar(operands[1]), *step = scalar(operands[2]);
    Value* runs = b_.CreateAnd(b_.CreateICmpSGT(step, i64(0)), b_.CreateICmpSLT(lo, hi));
    Value* safe = b_.CreateSelect(runs, step, i64(1));
    Value* trips = b_.CreateAdd(b_.CreateUDiv(b_.CreateSub(b_.CreateSub(hi, lo), i64(1)), safe), i64(1));
    BasicBlock* before = b_.GetInsertBlock();
    auto* inside = BasicBlock::Create(context_, "for", function_);
    auto* after = BasicBlock::Create(context_, "done", function_);
    b_.CreateCondBr(runs, inside, after);
    b_.SetInsertPoint(inside);
    llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
    llvm::PHINode* left = b_.CreatePHI(b_.getInt64Ty(), 2);
    i->addIncoming(lo, before);
    left->addIncoming(trips, before);
    const std::vector<llvm::PHINode*> phis = phis_for(*this, args, first, before);
    define(fn_.block(body).args[0], i);
    emit_block(body);
    const ir::InstId yield = fn_.block(body).insts.back();
    const std::span<const ir::ValueId> yielded = fn_.operands(fn_.inst(yield));
    transfer(yield, yielded, args);
    const std::vector<Value*> next = scalars_of(yielded);
    Value* rest = b_.CreateSub(left, i64(1));
    back_edge(body, rest);
    BasicBlock* latch = b_.GetInsertBlock();
    i->addIncoming(b_.CreateAdd(i, step), latch);
    left->addIncoming(rest, latch);
    for (size_t k = 0; k < phis.size(); ++k) phis[k]->addIncoming(next[k], latch);
    b_.CreateCondBr(b_.CreateICmpNE(rest, i64(0)), inside, after);
    b_.SetInsertPoint(after);
    size_t k = 0;
    for (uint32_t r = 0; r < inst.results.count; ++r) {
        const ir::ValueId v = fn_.result(inst, r);
        if (!is_scalar(v)) continue;
        llvm::PHINode* phi = b_.CreatePHI(type_of(v, 0), 2);
        phi->addIncoming(first[k], before);
        phi->addIncoming(next[k], latch);
        define(v, phi);
        ++k;
    }
}

void Codegen::cpu_while_loop(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::BlockId head = fn_.blocks(inst)[0], body = fn_.blocks(inst)[1];
    const auto inits = fn_.operands(inst);
    transfer(id, inits, fn_.block(head).args);
    const std::vector<Value*> first = scalars_of(inits);
    BasicBlock* before = b_.GetInsertBlock();
    auto* test = BasicBlock::Create(context_, "while", function_);
    auto* inside = BasicBlock::Create(context_, "do", function_);
    auto* after = BasicBlock::Create(context_, "done", function_);
    b_.CreateBr(test);
    b_.SetInsertPoint(test);
    const std::vector<llvm::PHINode*> phis = phis_for(*this, fn_.block(head).args, first, before);
    emit_block(head);
    const ir::InstId condition = fn_.block(head).insts.back();
    const auto passed = fn_.operands(fn_.inst(condition)).subspan(1);
    Value* go = scalar(fn_.operands(fn_.inst(condition))[0]);
    const auto& args = fn_.block(body).args;
    transfer(condition, passed, args);
    for (size_t k = 0; k < args.size(); ++k)
        if (is_scalar(args[k])) {
            define(args[k], scalar(passed[k]));
            define(fn_.result(inst, static_cast<uint32_t>(k)), scalar(passed[k]));
        }
    b_.CreateCondBr(go, inside, after);
    b_.SetInsertPoint(inside);
    emit_block(body);
    const ir::InstId yield = fn_.block(body).insts.back();
    const auto yielded = fn_.operands(fn_.inst(yield));
    transfer(yield, yielded, fn_.block(head).args);
    const std::vector<Value*> next = scalars_of(yielded);
    back_edge(body);
    for (size_t k = 0; k < phis.size(); ++k) phis[k]->addIncoming(next[k], b_.GetInsertBlock());
    b_.CreateBr(test);
    b_.SetInsertPoint(after);
}

void Codegen::cpu_if_else(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    std::vector<ir::ValueId> results;
    for (uint32_t r = 0; r < inst.results.count; ++r) results.push_back(fn_.result(inst, r));
    auto* yes = BasicBlock::Create(context_, "if", function_);
    auto* no = BasicBlock::Create(context_, "else", function_);
    auto* after = BasicBlock::Create(context_, "endif", function_);
    b_.CreateCondBr(scalar(fn_.operands(inst)[0]), yes, no);
    std::vector<Value*> values[2];
    BasicBlock* ends[2];
    for (int side = 0; side < 2; ++side) {
        b_.SetInsertPoint(side ? no : yes);
        const ir::BlockId block = fn_.blocks(inst)[static_cast<size_t>(side)];
        emit_block(block);
        const ir::InstId yield = fn_.block(block).insts.back();
        const auto yielded = fn_.operands(fn_.inst(yield));
        transfer(yield, yielded, results);
        values[side] = scalars_of(yielded);
        ends[side] = b_.GetInsertBlock();
        b_.CreateBr(after);
    }
    b_.SetInsertPoint(after);
    size_t k = 0;
    for (ir::ValueId v : results) {
        if (!is_scalar(v)) continue;
        llvm::PHINode* phi = b_.CreatePHI(type_of(v, 0), 2);
        for (int side = 0; side < 2; ++side) phi->addIncoming(values[side][k], ends[side]);
        define(v, phi);
        ++k;
    }
}

// Their owners read them.
void Codegen::cpu_yield(ir::InstId) {}
void Codegen::cpu_condition(ir::InstId) {}
void Codegen::cpu_ret(ir::InstId) {}

// ---- the program and its grid ----

static Value* word(llvm::IRBuilder<>& b, Value* base, int64_t at) {
    return b.CreateAlignedLoad(b.getInt64Ty(), b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), base, static_cast<uint64_t>(at)), llvm::Align(8));
}

void Codegen::cpu_program_id(ir::InstId id) { define(fn_.result(id), word(b_, program_, fn_.attrs(fn_.inst(id))[0])); }
void Codegen::cpu_num_programs(ir::InstId id) { define(fn_.result(id), word(b_, program_, 3 + fn_.attrs(fn_.inst(id))[0])); }

// ---- effects ----

void Codegen::cpu_print(ir::InstId id) {
    const auto operands = fn_.operands(fn_.inst(id));
    llvm::Type* ptr = b_.getPtrTy();
    Value* list = local(ptr, static_cast<unsigned>(operands.size() + 1));
    for (size_t k = 0; k < operands.size(); ++k) {
        Value* at;
        if (is_stored(operands[k])) {
            at = buffer(operands[k]).base;
        } else {
            Value* v = scalar(operands[k]);
            if (!fn_.type(operands[k]).pointer) v = scalars_.to_memory(v, fn_.elem(operands[k]));
            at = local(v->getType());
            b_.CreateStore(v, at);
        }
        b_.CreateStore(at, b_.CreateConstInBoundsGEP1_64(ptr, list, k));
    }
    call_support(offsetof(Support, print), b_.getVoidTy(), {i32(id.v), list});
}

void Codegen::cpu_assert(ir::InstId id) {
    const ir::ValueId v = fn_.operands(fn_.inst(id))[0];
    first_bad(
        fn_.type(v).shape, [&](const Point& p) { return b_.CreateNot(is_scalar(v) ? scalar(v) : lanes(v, p)); },
        [&](Value* element) { call_support(offsetof(Support, failed_assert), b_.getVoidTy(), {i32(id.v), element}); });
}

void Codegen::cpu_grid_barrier(ir::InstId id) {
    call_support(offsetof(Support, grid_barrier), b_.getVoidTy(), {i32(id.v)});
    leave_if_stopped();
}

void Codegen::cpu_assume(ir::InstId) {}  // looked at in the `checked` variant (checks.cpp)

// ---- the GPU passes' ops never come here ----

static void only_gpu() { TEGULA_CHECK(false, "an op of the GPU passes in a function for the CPU"); }
void Codegen::cpu_cta_id(ir::InstId) { only_gpu(); }
void Codegen::cpu_num_ctas(ir::InstId) { only_gpu(); }
void Codegen::cpu_convert(ir::InstId) { only_gpu(); }
void Codegen::cpu_instruction(ir::InstId) { only_gpu(); }
void Codegen::cpu_ptx(ir::InstId) { only_gpu(); }
void Codegen::cpu_ptx_tile(ir::InstId) { only_gpu(); }
void Codegen::cpu_channel(ir::InstId) { only_gpu(); }
void Codegen::cpu_channel_put(ir::InstId) { only_gpu(); }
void Codegen::cpu_channel_get(ir::InstId) { only_gpu(); }
void Codegen::cpu_channel_release(ir::InstId) { only_gpu(); }
void Codegen::cpu_specialise(ir::InstId) { only_gpu(); }

}  // namespace tegula::cpu
