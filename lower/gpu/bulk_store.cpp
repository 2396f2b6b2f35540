// Stores of products by TMA, and atomics whose old values nobody takes: the accumulator keeps its layout, warps put boxes of it into shared memory,
// and the hardware leaves out what lies beyond the tensor's edges. Decided while tiles are placed (place.cpp); everything else keeps single accesses.
#include "lang/gpu_scratch.h"
#include "lang/layout.h"
#include "lower/bounds.h"
#include "lower/gpu/place.h"
#include "lower/gpu/place_groups.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

constexpr int64_t kMinBytes = 4 << 10;  ///< below it the copy's own latency counts
constexpr int kMaxMapRank = 5;

bool may_meet(const Function& fn, const GpuOptions& options, ValueId tensor, const Inst& other) {
    const bool named = other.op == Op::store || other.op == Op::atomic;
    return !named || options.may_alias || fn.operands(other)[0] == tensor;
}

bool is_only_write(const Function& fn, const GpuOptions& options, InstId store) {
    const ValueId tensor = fn.operands(fn.inst(store))[0];
    bool only = true;
    for_each_inst(fn, fn.body, [&](InstId id) {
        const Inst& inst = fn.inst(id);
        const bool writes = inst.op == Op::store || inst.op == Op::atomic || inst.op == Op::ptr_store || inst.op == Op::ptr_atomic;
        if (writes && id != store && may_meet(fn, options, tensor, inst)) only = false;
    });
    return only;
}

/// The hardware takes boxes that begin inside the tensor or behind it, on whole 16 bytes; others end the kernel with an illegal instruction (seen on
/// an H200 with a start of -11).
bool starts_well(const Function& fn, const GpuOptions& options, const Inst& store, int bytes) {
    PassOptions facts;
    static_cast<LaunchFacts&>(facts) = options;
    Bounds bounds(fn, facts);
    const Access access = fn.access(store);
    const int contiguous = fn.types().layout(fn.type(fn.operands(store)[0]).layout).innermost_dimension(static_cast<int>(access.axes.size()));
    size_t operand = 1;
    for (size_t d = 0; d < access.axes.size(); ++d) {
        if (access.axes[d].kind == Access::all) continue;
        const auto start = bounds.exact(fn.operands(store)[operand++]);
        if (!start || !bounds.at_least(*start, LinearForm{}, 0)) return false;
        if (static_cast<int>(d) == contiguous && !bounds.divisible(*start, 16 / bytes)) return false;
    }
    return true;
}

bool is_used(const Function& fn, ValueId v) {
    bool used = false;
    for_each_inst(fn, fn.body, [&](InstId id) {
        for (const ValueId o : fn.operands(fn.inst(id))) used = used || o == v;
    });
    return used;
}

/// Does TMA combine elements with those in memory as the atomic asks, and is that all that is asked? Its reductions are relaxed, at the scope of
/// the GPU, and give no old values (PTX ISA, cp.reduce.async.bulk.tensor). Whether it adds subnormal floats as they are is not documented.
bool reduces_as_asked(const Function& fn, const Inst& atomic) {
    const auto attrs = fn.attrs(atomic);
    if (static_cast<MemoryOrder>(attrs[2]) != MemoryOrder::relaxed || static_cast<MemoryScope>(attrs[3]) == MemoryScope::sys) return false;
    const auto kind = static_cast<AtomicKind>(attrs[1]);
    const FormatId elem = fn.type(fn.operands(atomic)[0]).elem;
    const bool whole = elem == Fmt::i32 || elem == Fmt::u32;
    return whole && kind < AtomicKind::xchg && !is_used(fn, fn.result(atomic));
}

}  // namespace

bool stores_in_bulk(const Function& fn, const GpuOptions& options, InstId store, const TileLayout& l) {
    const Inst& inst = fn.inst(store);
    if (!options.arch->tma || l.shape.rank != 2) return false;
    if (inst.op != Op::store && !(inst.op == Op::atomic && reduces_as_asked(fn, inst))) return false;
    const ValueId tensor = fn.operands(inst)[0];
    const Type& type = fn.type(tensor);
    const Layout::Kind kind = fn.types().layout(type.layout).kind();
    if ((kind != Layout::Kind::row && kind != Layout::Kind::col) || type.shape.rank > kMaxMapRank) return false;
    const GpuTensor* fact = tensor_fact(fn, options.tensors, tensor);
    if (!fact || !fact->aligned || fact->strided) return false;
    const Access access = fn.access(inst);
    if (access.flags != 0) return false;
    for (const Access::Axis& a : access.axes)
        if (a.kind == Access::gather || (a.kind == Access::range && a.step != 1)) return false;
    const Format& elem = fn.elem(tensor);
    const int bytes = static_cast<int>(elem.bits / 8);
    if ((elem.bits != 8 && elem.bits != 16 && elem.bits != 32) || elem.is_bool() || l.shape.elements() * bytes < kMinBytes) return false;
    return contiguous_dimension(fn, inst) == 1 && store_boxes(l, bytes) && is_only_write(fn, options, store) && starts_well(fn, options, inst, bytes);
}

}  // namespace tegula
