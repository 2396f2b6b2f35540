// Elementwise tiles that follow each other become one loop over registers. What only the loop itself reads is a variable of its body and no array:
// NVRTC unrolls every loop and takes every array apart, which costs it several times what the arithmetic does.
#include <algorithm>
#include <utility>

#include "jit/cuda/emitter.h"
#include "jit/cuda/prelude_text.h"

namespace tegula::cuda {

using ir::Op;

namespace {

constexpr const char* kRegister = "r";
/// Instructions of an unrolled loop, roughly. Compilers give up full unrolling at 16384, and the arrays would lie in memory.
constexpr int64_t kMaxWork = 12288;

/// Instructions of one element: few for what the machine has, many for what the prelude spells out.
int64_t work(const ir::Function& fn, const ir::Inst& inst) {
    constexpr int64_t kLight = 4, kHeavy = 64;
    const auto plain = [&](ir::ValueId v) {
        const Format& f = fn.elem(v);
        return fn.type(v).pointer || f.is_bool() || f.is_int() || text::is_native_float(f) || fn.type(v).elem == Fmt::bf16 ||
               fn.type(v).elem == Fmt::f16;
    };
    bool light = plain(fn.result(inst));
    for (ir::ValueId v : fn.operands(inst)) light = light && plain(v);
    const bool division = inst.op == Op::div || inst.op == Op::rem;
    return light && !division ? kLight : kHeavy;
}

}  // namespace

/// The scalar that all elements are, when it never changes while the tile is alive (carried values do) and every reader asks for single elements.
std::optional<ir::ValueId> Emitter::splat(ir::ValueId v) const {
    const ir::Inst* def = fn_.def(v);
    if (!def || def->op != Op::broadcast || array_constant_[v.v] || is_scalar(v) || !in_registers(v)) return std::nullopt;
    const ir::ValueId from = fn_.operands(*def)[0];
    return is_scalar(from) && (fn_.def(from) || param_number(from) >= 0) ? std::optional(from) : std::nullopt;
}

/// A choice by a comparison of floats in the same loop: such a mask is one of its variables.
bool Emitter::chosen_by_floats(const ir::Inst& select) {
    const ir::ValueId mask = fn_.operands(select)[0];
    const ir::Inst* def = fused(mask) ? fn_.def(mask) : nullptr;
    return def && ir::has_trait(def->op, ir::ELEMWISE) && fn_.elem(fn_.operands(*def)[0]).is_float();
}

Emitter::Fused* Emitter::fused(ir::ValueId v) {
    const auto it = std::find_if(fused_.begin(), fused_.end(), [&](const Fused& f) { return f.value == v; });
    return it == fused_.end() ? nullptr : &*it;
}

/// Register r of a tile of the pending loop: for tiles that join it, its variable there. Any other register exists only after the loop.
std::optional<std::string> Emitter::fused_at(ir::ValueId v, const std::string& r) {
    Fused* f = fused(v);
    if (!f) return std::nullopt;
    if (joining_ && r == kRegister) {
        f->read = true;
        return names_[v.v] + "_" + kRegister;
    }
    end_fused();
    return std::nullopt;
}

void Emitter::fuse(ir::ValueId result, const std::function<std::string(const std::string& r)>& value) {
    const ir::Inst& inst = *fn_.def(result);
    const int64_t more = work(fn_, inst) * registers(result);
    // After a choice by position a loop ends: masks that are used all at once, compilers compute where they are used, and others they keep in
    // registers, bit by bit.
    const bool ends = !fused_.empty() && fn_.def(fused_.back().value)->op == Op::select && !chosen_by_floats(*fn_.def(fused_.back().value));
    if (ends || (!fused_.empty() && registers(fused_[0].value) != registers(result))) end_fused();
    name(result);
    joining_ = true;
    std::string text = value(kRegister);
    if (fused_.empty()) text = value(kRegister);  // it may have ended the loop whose variables it named
    joining_ = false;
    // An elementwise operation reads all its operands here; others may read a tile once more elsewhere.
    const auto operands = fn_.operands(inst);
    for (Fused& f : fused_)
        if (std::exchange(f.read, false))
            f.uses += ir::has_trait(inst.op, ir::ELEMWISE) ? static_cast<int>(std::count(operands.begin(), operands.end(), f.value)) : 1;
    if (fused_.empty()) fused_work_ = 0;
    fused_work_ += more;
    fused_.push_back({result, std::exchange(mark_, {}), std::move(text), 0});
}

void Emitter::end_fused() {
    if (fused_.empty()) return;
    const std::vector<Fused> all = std::exchange(fused_, {});
    const std::string mark = std::exchange(mark_, {});
    for (const Fused& f : all)
        if (uses(f.value) > f.uses) declare(f.value);
    // What is too much for one unrolled loop are several, over parts of the registers: cut by operations, all tiles alive at the cut would be arrays.
    const int64_t n = registers(all[0].value), loops = std::min((fused_work_ + kMaxWork - 1) / kMaxWork, n), step = (n + loops - 1) / loops;
    for (int64_t from = 0; from < n; from += step) {
        const int64_t to = std::min(from + step, n);
        unroll(static_cast<int>(to - from));
        open("for (int r = " + std::to_string(from) + "; r < " + std::to_string(to) + "; ++r)");
        for (const Fused& f : all) {
            mark_ = f.mark;
            const std::string& tile = names_[f.value.v];
            const bool array = uses(f.value) > f.uses;
            if (f.uses || !array) line("[[maybe_unused]] const " + type_of(f.value) + " " + tile + "_r = " + f.text + ";");
            if (array) line(tile + "[r] = " + (f.uses ? tile + "_r" : f.text) + ";");
        }
        close();
    }
    mark_ = mark;
}

}  // namespace tegula::cuda
