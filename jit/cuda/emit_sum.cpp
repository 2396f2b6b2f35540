// Sums of wgmma products that a loop only adds to. Such a sum stays in registers that PTX knows by name, from before the loop until after it: as
// operands of an asm statement in a loop, every one of them would be carried through all of the compiler's passes.
#include "jit/cuda/emitter.h"
#include "jit/cuda/prelude_text.h"
#include "lang/tensor_core.h"

namespace tegula::cuda {

namespace {

constexpr int kMany = 32;  ///< registers; fewer are carried along as operands, unless threads do other things while they are added to

}  // namespace

/// Is the loop's carried value only the accumulator of one wgmma product, whose sum is only handed on?
bool Emitter::kept_sum(const ir::Inst& loop, size_t carried) const {
    const ir::Block& body = fn_.block(fn_.blocks(loop)[0]);
    const ir::ValueId sum = body.args[carried + 1], next = fn_.operands(fn_.inst(body.insts.back()))[carried];
    const ir::Inst* dot = fn_.def(next);
    if (!dot || dot->op != ir::Op::dot || !(dot->parent == fn_.blocks(loop)[0]) || uses(sum) != 1 || uses(next) != 1) return false;
    const MmaRow& row = product_row(fn_, fn_.value(next).def);
    const bool in_place = row.acc == Fmt::i32 || (row.acc == Fmt::f32 && !promotes(row));
    return row.kind == MmaRow::wgmma && in_place && fn_.operands(*dot)[2] == sum && layout(next) == layout(sum) &&
           (registers(sum) >= kMany || fn_.gpu_inst(fn_.value(next).def).late);
}

void Emitter::enter_sum(ir::ValueId initial, ir::ValueId carried, ir::ValueId result) {
    const std::string sum = fresh("sum") + "_";
    const int count = registers(result);
    prologue_ += "    asm volatile(\".reg .b32 " + sum + "<" + std::to_string(count) + ">;\");\n";
    const ir::Inst* def = fn_.def(initial);
    const bool zero = def && def->op == ir::Op::constant && fn_.attrs(*def)[0] == 0;
    std::string moves, operands;
    for (int r = 0; r < count; ++r) {
        const std::string n = std::to_string(r);
        moves += "mov.b32 " + sum + n + (zero ? ", 0; " : ", %" + n + "; ");
        if (!zero)
            operands += (r ? ", \"" : " :: \"") + std::string(text::is_native_float(fn_.elem(result)) ? "f" : "r") + "\"(" + at(initial, pool_.number(r)) + ")";
    }
    line("asm volatile(\"" + moves + "\"" + operands + ");");
    sums_[carried.v] = sums_[result.v] = sum;
}

/// Is the loop's sum only rounded to 16 bits by a bulk store in the same block? That one reads its registers by name.
bool Emitter::stored_as_sum(ir::ValueId result) const {
    if (uses(result) != 1) return false;
    for (const ir::InstId id : fn_.block(fn_.def(result)->parent).insts) {
        const ir::Inst& inst = fn_.inst(id);
        if (inst.op == ir::Op::cast && fn_.operands(inst)[0] == result) return rounded_by_store(inst);
    }
    return false;
}

void Emitter::leave_sum(ir::ValueId result) {
    const auto kept = sums_.find(result.v);
    if (kept == sums_.end() || stored_as_sum(result)) return;
    std::string moves, operands;
    for (int r = 0; r < registers(result); ++r) {
        const std::string n = std::to_string(r);
        moves += "mov.b32 %" + n + ", " + kept->second + n + "; ";
        operands += (r ? ", \"=" : "\"=") + std::string(text::is_native_float(fn_.elem(result)) ? "f" : "r") + "\"(" + name(result) + "[" + n + "])";
    }
    line("asm volatile(\"" + moves + "\" : " + operands + ");");
    sums_.erase(kept);
}

}  // namespace tegula::cuda
