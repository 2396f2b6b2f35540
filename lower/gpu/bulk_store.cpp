// Stores of products by TMA, and atomics whose old values nobody takes: the accumulator keeps its layout, warps put boxes of it into shared memory,
// and the hardware leaves out what lies beyond the tensor's edges. Decided while tiles are placed (place.cpp); everything else keeps single accesses.
#include <algorithm>

#include "lang/divisor.h"
#include "lang/gpu/scratch.h"
#include "lang/layout.h"
#include "lang/program_order.h"
#include "lower/bounds.h"
#include "lower/gpu/place.h"
#include "lower/gpu/place_groups.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

constexpr int64_t kMinBytes = 4 << 10;  ///< below it the copy's own latency counts
constexpr int kMaxMapRank = 5;
constexpr int kMaxElements = 1024;  ///< of a thread: boxes are spelt out one by one

bool may_meet(const Function& fn, const GpuOptions& options, ValueId tensor, const Inst& other) {
    const bool named = other.op == Op::store || other.op == Op::atomic;
    return !named || options.may_alias || fn.operands(other)[0] == tensor;
}

bool is_only_write(const Function& fn, const GpuOptions& options, InstId store) {
    const ValueId tensor = fn.operands(fn.inst(store))[0];
    bool only = true;
    fn.walk([&](InstId id) {
        const Inst& inst = fn.inst(id);
        const bool writes = inst.op == Op::store || inst.op == Op::atomic || inst.op == Op::ptr_store || inst.op == Op::ptr_atomic;
        if (writes && id != store && may_meet(fn, options, tensor, inst)) only = false;
    });
    return only;
}

/// Boxes begin on whole 16 bytes (starts_on_16_bytes), and where stores are concerned, inside the tensor or behind it.
bool starts_well(const Function& fn, const GpuOptions& options, const Inst& store) {
    PassOptions facts;
    static_cast<LaunchFacts&>(facts) = options;
    Bounds bounds(fn, facts);
    const Access access = fn.access(store);
    const ValueId tensor = fn.operands(store)[0];
    const bool view = std::any_of(fn.params.begin(), fn.params.end(), [&](const Param& p) { return p.value == tensor && p.view; });
    size_t operand = 1;
    for (size_t d = 0; d < access.axes.size() && !view; ++d) {  // a view has been proved to start inside
        if (access.axes[d].kind == Access::all) continue;
        if (!bounds.at_least(fn.operands(store)[operand++], 0)) return false;
    }
    return starts_on_16_bytes(fn, options, store);
}

bool is_used(const Function& fn, ValueId v) {
    bool used = false;
    fn.walk([&](InstId id) {
        for (const ValueId o : fn.operands(fn.inst(id))) used = used || o == v;
    });
    return used;
}

/// What TMA does not do of an atomic. Its reductions are relaxed, at the scope of the GPU, and give no old values (PTX ISA,
/// cp.reduce.async.bulk.tensor); they add floats as IEEE 754 says, subnormals included, where Arch::bulk_adds says so, and what their maxima make of
/// NaN and -0 is not documented.
std::string atomic_refusal(const Function& fn, const Arch& arch, const Inst& atomic) {
    const auto attrs = fn.attrs(atomic);
    const auto kind = static_cast<AtomicKind>(attrs[1]);
    if (static_cast<MemoryOrder>(attrs[2]) != MemoryOrder::relaxed) return "its order is relaxed";
    if (static_cast<MemoryScope>(attrs[3]) == MemoryScope::sys) return "its scope is the GPU";
    if (is_used(fn, fn.result(atomic))) return "it gives no old values";
    if (kind >= AtomicKind::xchg) return std::string("it does no ") + to_string(kind);
    const Type& type = fn.type(fn.operands(atomic)[0]);
    if (type.elem == Fmt::i32 || type.elem == Fmt::u32) return "";
    if (type.elem != Fmt::f32 && type.elem != Fmt::f16 && type.elem != Fmt::bf16) return "it combines no " + fn.elem(fn.operands(atomic)[0]).name;
    if (kind != AtomicKind::add) return std::string("nothing says what its ") + to_string(kind) + " of floats makes of NaN and -0";
    return arch.bulk_adds ? "" : "nobody has measured whether it adds subnormal floats on " + std::string(arch.name);
}

}  // namespace

bool starts_on_16_bytes(const Function& fn, const GpuOptions& options, const Inst& inst) {
    const ValueId tensor = fn.operands(inst)[0];
    const Access access = fn.access(inst);
    const int contiguous = fn.types().layout(fn.type(tensor).layout).innermost_dimension(static_cast<int>(access.axes.size()));
    const int64_t elements = 128 / fn.elem(tensor).bits;  // of 16 bytes
    size_t operand = 1;
    for (size_t d = 0; d < access.axes.size(); ++d) {
        if (access.axes[d].kind == Access::all) continue;
        const ValueId index = fn.operands(inst)[operand++];
        if (static_cast<int>(d) != contiguous || power_of_two_divisor(fn, index) % elements == 0) continue;
        PassOptions facts;
        static_cast<LaunchFacts&>(facts) = options;
        Bounds bounds(fn, facts);
        return bounds.divisible(index, elements);
    }
    return true;
}

std::string bulk_refusal(const Function& fn, const GpuOptions& options, InstId store, const TileLayout& l) {
    const Inst& inst = fn.inst(store);
    const ValueId tensor = fn.operands(inst)[0];
    const Type& type = fn.type(tensor);
    const Format& elem = fn.elem(tensor);
    const int bytes = static_cast<int>(elem.bits / 8);
    const Access access = fn.access(inst);
    if (!options.arch->tma) return std::string(options.arch->name) + " has none";
    if (!access.plain()) return "it takes no mask";
    if (access.gathers() || access.steps()) return "it takes neither gathers nor steps";
    if (inst.op == Op::atomic)
        if (std::string why = atomic_refusal(fn, *options.arch, inst); !why.empty()) return why;
    if (l.shape.rank != 2 || l.shape.elements() * bytes < kMinBytes)
        return "the tile is no matrix of " + std::to_string(kMinBytes) + " bytes or more";
    if (l.registers() > kMaxElements) return "a thread holds " + std::to_string(l.registers()) + " of its elements, more than registers hold";
    const Layout::Kind kind = fn.types().layout(type.layout).kind();
    if ((kind != Layout::Kind::row && kind != Layout::Kind::col) || type.shape.rank > kMaxMapRank) return "it knows no tensors that lie so";
    const GpuTensor* fact = tensor_fact(fn, options.tensors, tensor);
    if (!fact || !fact->aligned || fact->strided) return "the tensor is not aligned to 16 bytes";
    const int contiguous = contiguous_dimension(fn, inst);
    if (contiguous < 0) return "no dimension of the tile is contiguous in memory";
    if (program_order(fn).orders) return "programs hand over what they write by atomics or meetings, which do not wait for TMA";
    if (!is_only_write(fn, options, store)) return "the program writes the tensor in other places, too";
    if (!starts_well(fn, options, inst)) return "the part is not known to start inside the tensor, at whole 16 bytes";
    // Last, so that `explain` finds the other reasons even where the tile was moved to be stored by vectors.
    const bool sums = elem.bits % 8 == 0 && !elem.is_bool() && store_boxes(l, bytes, contiguous);
    return sums ? "" : "the tile does not lie as sums of products do";
}

}  // namespace tegula
