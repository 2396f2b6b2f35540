// Elementwise tiles that follow each other become one loop over registers. What only the loop itself reads is a variable of its body and no array:
// NVRTC unrolls every loop and takes every array apart, which costs it several times what the arithmetic does. Loads that come from caches join the
// loop vector by vector, and so does the store of what it computes: tiles that were loaded whole, or waited for all loads to be stored, would take
// registers that the programs of a multiprocessor want.
#include <algorithm>
#include <utility>

#include "jit/cuda/emit_access.h"
#include "jit/cuda/prelude_text.h"

namespace tegula::cuda {

using ir::Op;

namespace {

constexpr const char* kRegister = "r";
/// Instructions of an unrolled loop, roughly. Compilers give up full unrolling at 16384, and the arrays would lie in memory.
constexpr int64_t kMaxWork = 12288;
/// Instructions of emulated arithmetic in a loop that is unrolled: half a second of compiling.
constexpr int64_t kMostEmulation = 8192;

/// Instructions of one element: few for what the machine has, many for what the prelude spells out.
constexpr int64_t kLight = 4, kHeavy = 64;
int64_t work(const ir::Function& fn, const ir::Inst& inst) {
    const auto plain = [&](ir::ValueId v) {
        const Format& f = fn.elem(v);
        return fn.type(v).pointer || f.is_bool() || f.is_int() || text::is_native_float(f) || fn.type(v).elem == Fmt::bf16 ||
               fn.type(v).elem == Fmt::f16;
    };
    bool light = plain(fn.result(inst));
    for (ir::ValueId v : fn.operands(inst)) light = light && plain(v);
    // Not every row of a high cost: truncated quotients and square roots, as long as these on a CPU, are short enough here to be unrolled.
    const bool division = inst.op == Op::div || inst.op == Op::rem;
    return light && !division ? kLight : kHeavy;
}

}  // namespace

/// Instructions of one element that the prelude spells out, roughly, where neither the machine nor a table has the operation.
int64_t Emitter::emulation(const ir::Inst& inst) const {
    if (inst.op == Op::cast) {  // a few instructions, or looked up
        const auto& to = fn_.type(fn_.result(inst)).elem;
        if (fn_.elem(fn_.operands(inst)[0]).bits <= 8 || to == Fmt::f8e4m3 || to == Fmt::f8e5m2) return 0;
    }
    if (!ir::has_trait(inst.op, ir::ELEMWISE) && inst.op != Op::cast) return 0;
    int64_t most = 0;
    const auto look_at = [&](ir::ValueId v) { most = std::max(most, fn_.type(v).pointer ? 0 : Prelude::emulation(fn_.elem(v))); };
    look_at(fn_.result(inst));
    for (const ir::ValueId v : fn_.operands(inst)) look_at(v);
    return most;
}

/// Do threads of a warp go different ways for long in it: paths of single elements? ptxas 13.0 has taken a warp behind such for one that has come
/// together again where it has not (docs/internals/gpu.md). So such a warp is told to, there and in front of what it does together.
bool Emitter::parts(ir::InstId id) const {
    const ir::Inst& inst = fn_.inst(id);
    switch (inst.op) {
        case Op::atomic:
            return !fn_.gpu_inst(id).bulk;
        case Op::ptr_atomic:
        case Op::deposit:
        case Op::histogram:
        case Op::sort:
            return true;
        case Op::store:
        case Op::ptr_store:
            return bit_addressed(fn_.elem(fn_.operands(inst)[inst.op == Op::store ? 0 : 1]));
        default: {
            if (inst.results.count == 0 || is_scalar(fn_.result(inst))) return false;
            const bool quotient = inst.op == Op::div && text::is_native_float(fn_.elem(fn_.result(inst)));  // one call where it is slow
            return (ir::has_trait(inst.op, ir::ELEMWISE) || inst.op == Op::cast) && !quotient && work(fn_, inst) == kHeavy;
        }
    }
}

void Emitter::find_parting() {
    for (uint32_t b = 0; b < fn_.block_count(); ++b)
        for (const ir::InstId id : fn_.block(ir::BlockId{b}).insts) parts_ = parts_ || parts(id);
}

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
std::optional<std::string> Emitter::fused_at(ir::ValueId v, Ex r) {
    Fused* f = fused(v);
    if (!f) return std::nullopt;
    if (joining_ && r == pool_.counter(kRegister, registers(v))) {
        f->read = true;
        return names_[v.v] + "_" + kRegister;
    }
    end_fused();
    return std::nullopt;
}

void Emitter::fuse(ir::ValueId result, const std::function<std::string(Ex r)>& value) {
    const ir::Inst& inst = *fn_.def(result);
    const int64_t more = work(fn_, inst) * registers(result);
    // After a choice by position a loop ends: masks that are used all at once, compilers compute where they are used, and others they keep in
    // registers, bit by bit.
    const bool ends = !fused_.empty() && fn_.def(fused_.back().value)->op == Op::select && !chosen_by_floats(*fn_.def(fused_.back().value));
    if (ends || (!fused_.empty() && registers(fused_[0].value) != registers(result))) end_fused();
    name(result);
    joining_ = true;
    const Ex r = pool_.counter(kRegister, registers(result));
    std::string text = value(r);
    if (fused_.empty()) text = value(r);  // it may have ended the loop whose variables it named
    joining_ = false;
    // An elementwise operation reads all its operands here; others may read a tile once more elsewhere.
    const auto operands = fn_.operands(inst);
    for (Fused& f : fused_)
        if (std::exchange(f.read, false))
            f.uses += ir::has_trait(inst.op, ir::ELEMWISE) ? static_cast<int>(std::count(operands.begin(), operands.end(), f.value)) : 1;
    if (fused_.empty()) fused_work_ = fused_emulation_ = 0;
    fused_work_ += more;
    fused_emulation_ += emulation(inst) * registers(result);
    fused_.push_back({result, std::exchange(mark_, {}), std::move(text), 0});
}

/// `store`: of a tile that the loop computes, vector by vector as the last thing of every step.
void Emitter::end_fused(const Part* store) {
    if (fused_.empty()) return;
    const std::vector<Fused> all = std::exchange(fused_, {});
    const std::string mark = std::exchange(mark_, {});
    for (const Fused& f : all)
        if (uses(f.value) > f.uses) declare(f.value);
    int group = store ? store->vector : 1;  // registers that a step of the loop takes: a vector of the widest access
    for (const Fused& f : all) group = std::max(group, f.vector);
    // What is too much for one unrolled loop are several, over parts of the registers: cut by operations, all tiles alive at the cut would be arrays.
    // Tiles that no register file holds stay one loop, and so does arithmetic of formats that the machine does not know: unrolled, it would take
    // seconds to compile, and beside its instructions those that reach arrays in local memory do not count.
    const int64_t n = registers(all[0].value);
    const bool rolled = n > unroll_limit_ || fused_emulation_ > kMostEmulation;
    const int64_t loops = rolled ? 1 : std::min((fused_work_ + kMaxWork - 1) / kMaxWork, n);
    const int64_t step = ((n + loops - 1) / loops + group - 1) / group * group;
    for (int64_t from = 0; from < n; from += step) {
        const int64_t to = std::min(from + step, n);
        if (rolled)
            line("#pragma unroll 1");
        else
            unroll(to - from);
        const std::string r = group > 1 ? "g" : kRegister;
        open("for (int " + r + " = " + std::to_string(from) + "; " + r + " < " + std::to_string(to) + "; " +
             (group > 1 ? r + " += " + std::to_string(group) : "++" + r) + ")");
        if (group > 1)
            fused_group(all, pool_.counter(r, n, group), group, store);
        else
            fused_elements(all);
        close();
    }
    mark_ = mark;
}

/// Loads the vectors of `count` registers from `first` on, computes their elements and stores them.
void Emitter::fused_group(const std::vector<Fused>& all, Ex first, int count, const Part* store) {
    for (const Fused& f : all) {
        if (!f.load) continue;
        const std::string wide = names_[f.value.v] + "_w";
        const std::string type = wide_type(static_cast<size_t>(f.vector) * fn_.elem(f.value).container_bytes());
        line("alignas(16) " + type_of(f.value) + " " + wide + "[" + std::to_string(count) + "];");
        for (int i = 0; i < count; i += f.vector) {
            line("*(" + type + "*)(" + wide + " + " + number(i) + ") = " + f.load(first + i) + ";");
        }
    }
    unroll(count);
    open("for (int r = " + first + "; r < " + first + " + " + std::to_string(count) + "; ++r)");
    fused_elements(all);
    close();
    for (int i = 0; store && i < count; i += store->vector) {
        const Ex r = first + i;
        store_vector(*store, r, stored_vector(*store, r), true);
    }
}

/// Register r of all tiles of a loop.
void Emitter::fused_elements(const std::vector<Fused>& all) {
    for (const Fused& f : all) {
        mark_ = f.mark;
        const std::string& tile = names_[f.value.v];
        const bool array = uses(f.value) > f.uses;
        if (f.uses || !array) line("[[maybe_unused]] const " + type_of(f.value) + " " + tile + "_r = " + f.text + ";");
        if (array) line(tile + "[r] = " + (f.uses ? tile + "_r" : f.text) + ";");
    }
}

/// Is the tile what only an elementwise operation of its block reads, behind a reduction, and do several programs share the multiprocessor? Elements
/// that differ between programs come from memory, and are to be under way as early as can be; so are all loads of a program that is alone.
bool Emitter::may_join(ir::InstId id) {
    const ir::Inst& load = fn_.inst(id);
    const ir::ValueId v = fn_.result(load);
    if (loops_ || is_scalar(v) || !in_registers(v) || uses(v) != 1 || !has_constant_indices(fn_, load)) return false;
    if (!is_plain(fn_.access(load))) return false;
    bool reduced = false;
    for (const ir::InstId other : fn_.block(load.parent).insts) {
        if (other == id && !reduced) return false;
        const ir::Inst& inst = fn_.inst(other);
        const auto operands = fn_.operands(inst);
        if (std::find(operands.begin(), operands.end(), v) != operands.end()) {
            if (!ir::has_trait(inst.op, ir::ELEMWISE) || resident_programs_ == 1) return false;
            const Part part = part_access(id);
            return is_vectors(part) && (is_whole(part) || fn_.elem(part.tensor).bits >= 32);
        }
        reduced = reduced || (ir::has_trait(inst.op, ir::MEETS) && !is_scalar(operands[0]));
    }
    return false;
}

/// The variables of an access stand in front of the pending loop: bounds and addresses are made of scalars, of which the loop makes none.
Emitter::Part Emitter::part_ahead(ir::InstId id) {
    std::vector<Fused> pending = std::exchange(fused_, {});
    const std::string mark = std::exchange(mark_, {});
    Part part = part_of(id);
    fused_ = std::move(pending);
    mark_ = mark;
    return part;
}

/// Lets a load join the pending loop. Every store, barrier and branch is a line and ends the loop first: a load passes elementwise tiles only.
bool Emitter::join_load(ir::InstId id) {
    if (!may_join(id)) return false;
    const Part part = part_ahead(id);
    const ir::ValueId v = part.value;
    fuse(v, [&](Ex r) { return names_[v.v] + "_w[" + r + " - g]"; });
    fused_.back().vector = part.vector;
    fused_.back().load = [this, part](Ex r) { return load_vector(part, r, true, ""); };
    return true;
}

/// Lets the store of a tile that the pending loop computes, rounded or not, join it where vectors are loaded there. It passes loads of later
/// registers: a store that may reach what they read has a barrier before it, which has ended the loop.
bool Emitter::join_store(ir::InstId id) {
    if (std::none_of(fused_.begin(), fused_.end(), [](const Fused& f) { return f.load != nullptr; })) return false;
    const ir::ValueId v = fn_.operands(fn_.inst(id)).back();
    if (!fused(encoded_by_store(v) ? fn_.operands(*fn_.def(v))[0] : v) || !stores_vectors(id)) return false;
    const Part part = part_ahead(id);
    end_fused(&part);
    return true;
}

}  // namespace tegula::cuda
