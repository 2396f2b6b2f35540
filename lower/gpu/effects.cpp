// The table of effects (effects.h).
#include "lower/gpu/effects.h"

#include <algorithm>

#include "lang/gpu/tensor_memory.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

bool overlap(const Touch& a, const Touch& b) { return a.begin < b.end && b.begin < a.end; }

bool is_shared(const Function& fn, ValueId v) { return fn.placement(v).kind == Placement::shared; }

/// A put or get of a ring whose stages only one thread touches.
bool is_own(const Function& fn, const Inst& inst) {
    return (inst.op == Op::channel_put || inst.op == Op::channel_get) && fn.gpu->is_own(fn.operands(inst).back().v);
}

/// Atomics whose old values nobody uses and whose operations commute: the number of the operation, else 0.
int64_t commuting(const Function& fn, const Inst& inst, const Uses& uses) {
    const auto attrs = fn.attrs(inst);
    const auto kind = static_cast<AtomicKind>(attrs[1]);
    if (kind == AtomicKind::xchg || kind == AtomicKind::cas || static_cast<MemoryOrder>(attrs[2]) != MemoryOrder::relaxed) return 0;
    return uses.count(fn.result(inst)) ? 0 : attrs[1] + 1;
}

}  // namespace

Touch scratch_of(const ir::Function& fn, InstId id) {
    const GpuInst& gpu = fn.gpu_inst(id);
    Touch t;
    t.space = gpu.global_scratch ? Touch::workspace : Touch::shared;
    t.by = id;
    if (gpu.scratch_offset >= 0) t.begin = gpu.scratch_offset, t.end = gpu.scratch_offset + gpu.scratch_bytes;
    return t;
}

EffectTable::EffectTable(const Function& fn, const GpuOptions& options)
    : fn_(fn), options_(options), products_(fn), uses_(fn), table_(fn.inst_count()), specialised_(fn.gpu->specialised) {
    fn.walk([&](InstId id) {
        const Inst& inst = fn.inst(id);
        const bool pointers = inst.op == Op::ptr_store || inst.op == Op::ptr_atomic;
        anywhere_ = anywhere_ || (pointers && !root_of_pointer(fn.operands(inst)[0]).valid());
    });
    fn.walk([&](InstId id) { add(id); });
}

void EffectTable::add(InstId id) {
    const Inst& inst = fn_.inst(id);
    Effects& e = table_[id.v];
    Touch scratch = scratch_of(fn_, id);
    const bool has_scratch = scratch.end > scratch.begin;
    std::vector<Touch> others;
    add_global(id, others);
    add_reads_of_tiles(id, others);
    if (!specialised_ && inst.op == Op::channel_release) e.releases = fn_.operands(inst)[0];
    const bool own = is_own(fn_, inst);
    if (!specialised_ && inst.op == Op::channel_put && !own) {
        Touch t;
        t.space = Touch::ring;
        t.object = fn_.operands(inst).back();
        t.writes = true;
        t.by = id;
        others.push_back(t);
    }
    e.meets = has_scratch || inst.op == Op::grid_barrier || (inst.op == Op::channel_get && !specialised_ && !own);
    if (inst.op == Op::convert && is_shared(fn_, fn_.result(inst))) e.meets = false;
    if (fn_.gpu_inst(id).bulk) e.meets = false;  // every warp sends its own part
    add_tensor_memory(id, others);
    e.before = e.after = others;
    if (inst.op == Op::convert && products_.waits(fn_, id)) {
        e.meets = true;
        e.before.clear();
    }
    const bool product = inst.op == Op::dot && in_tensor_memory(fn_, fn_.result(inst));
    const bool stored = inst.op == Op::convert && in_tensor_memory(fn_, fn_.result(inst)) && !is_skipped_zero(fn_, uses_, id);
    if (stored || product) {
        e.meets = stored || !products_.overlapped(id);
        e.after.clear();
    }
    if (!has_scratch) return;
    scratch.writes = true;
    e.before.push_back(scratch);
    if (e.meets) scratch.writes = false;
    e.after.push_back(scratch);
}

void EffectTable::add_global(InstId id, std::vector<Touch>& to) const {
    const Inst& inst = fn_.inst(id);
    const uint32_t traits = op_row(inst.op).traits;
    if (!(traits & (READS | WRITES))) return;
    if (inst.op == Op::grid_barrier) return;  // all threads meet in it, twice
    const ValueId first = fn_.operands(inst)[0];
    Touch t;
    t.space = Touch::global;
    t.by = id;
    t.object = fn_.type(first).kind == Type::tensor ? first : root_of_pointer(first);
    t.writes = (traits & WRITES) != 0;
    if (inst.op == Op::atomic || inst.op == Op::ptr_atomic) {
        t.orders = static_cast<MemoryOrder>(fn_.attrs(inst)[2]) != MemoryOrder::relaxed;
        t.commutes = commuting(fn_, inst, uses_);
    }
    if (!t.writes && never_written(t.object)) return;
    to.push_back(t);
}

void EffectTable::add_reads_of_tiles(InstId id, std::vector<Touch>& to) const {
    const Inst& inst = fn_.inst(id);
    if (fn_.is_view(inst)) return;
    for (const ValueId v : fn_.operands(inst)) {
        if (!is_shared(fn_, v)) continue;
        const InstId from = home(v);
        Touch t;
        if (fn_.inst(from).op == Op::channel_get) {
            if (specialised_) continue;
            t.space = Touch::ring;
            t.object = fn_.operands(fn_.inst(from))[0];
        } else {
            t = scratch_of(fn_, from);
        }
        t.async = is_product(inst.op) && product_row(fn_, id).from_shared();
        t.by = id;
        to.push_back(t);
    }
}

void EffectTable::add_tensor_memory(InstId id, std::vector<Touch>& to) const {
    const Inst& inst = fn_.inst(id);
    if ((inst.op != Op::dot && inst.op != Op::convert) || is_skipped_zero(fn_, uses_, id)) return;
    const bool writes = in_tensor_memory(fn_, fn_.result(inst));
    const ValueId v = writes ? fn_.result(inst) : fn_.operands(inst)[0];
    if (!in_tensor_memory(fn_, v)) return;
    const TensorLayout& l = fn_.placement(v).tmem;
    Touch t;
    t.space = Touch::tensor;
    t.writes = writes;
    t.async = inst.op == Op::dot;
    t.begin = l.column;
    t.end = l.column + tensor_columns(l.shape);
    t.by = id;
    to.push_back(t);
}

InstId EffectTable::home(ValueId v) const {
    const InstId def = fn_.value(fn_.viewed(v)).def;
    TEGULA_CHECK(def.valid(), "a block argument lies in shared memory");
    const Op op = fn_.inst(def).op;
    TEGULA_CHECK(op == Op::convert || op == Op::channel_get, "a tile in shared memory comes from convert or channel_get");
    return def;
}

ValueId EffectTable::root_of_pointer(ValueId v) const {
    for (;;) {
        const Inst* def = fn_.def(v);
        if (!def) break;
        const bool passes = has_trait(def->op, VIEW) || def->op == Op::ptr_add || def->op == Op::broadcast || def->op == Op::convert;
        if (!passes && def->op != Op::tensor_ptr) return {};
        v = fn_.operands(*def)[0];
        if (def->op == Op::tensor_ptr) return v;
    }
    for (const Param& p : fn_.params)
        if (p.value == v) return v;
    return {};
}

/// Where tensors may overlap, one that is only read may be written through another.
bool EffectTable::never_written(ValueId object) const {
    return !options_.may_alias && !anywhere_ && object.valid() && fn_.type(object).kind == Type::tensor && fn_.type(object).mode == Mode::in;
}

bool EffectTable::may_alias(ValueId a, ValueId b) const {
    if (a == b || !a.valid() || !b.valid()) return true;
    return options_.may_alias;
}

bool EffectTable::conflict(const Touch& a, const Touch& b) const {
    if (a.space != b.space) return false;
    switch (a.space) {
        case Touch::shared:
        case Touch::workspace:
            return (a.writes || b.writes) && overlap(a, b);
        case Touch::tensor:  // a thread reads and writes its own rows; products follow each other
            return a.async != b.async && (a.writes || b.writes) && overlap(a, b);
        case Touch::ring:
            return a.object == b.object && !a.writes && b.writes;
        case Touch::global:
            if (a.orders || b.orders) return true;
            if (a.commutes && a.commutes == b.commutes) return false;
            return (a.writes || b.writes) && may_alias(a.object, b.object);
    }
    return true;
}

bool EffectTable::needs_fence(const Touch& a, const Touch& b) {
    if (!a.writes || a.async || !b.async || a.space != b.space) return false;
    return a.space == Touch::shared ? overlap(a, b) : a.space == Touch::ring && a.object == b.object;
}

std::string EffectTable::text(const Touch& t) const {
    std::string out = t.writes ? "write of " : "read of ";
    const auto name = [&](ValueId v) {
        for (const Param& p : fn_.params)
            if (p.value == v) return p.name;
        return "%" + std::to_string(v.v);
    };
    if (t.space == Touch::global) return out + (t.object.valid() ? "`" + name(t.object) + "`" : "memory behind a pointer");
    if (t.space == Touch::ring) return out + "channel " + name(t.object);
    return out +
           (t.space == Touch::shared   ? "shared memory ["
            : t.space == Touch::tensor ? "tensor memory ["
                                       : "workspace [") +
           std::to_string(t.begin) + ", " + std::to_string(t.end) + ")";
}

}  // namespace tegula
