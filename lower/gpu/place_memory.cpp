// Which values an op wants in one layout, which layouts suit accesses to memory, and how layouts follow shape ops.
#include <algorithm>
#include <bit>
#include <numeric>

#include "lang/access_operands.h"
#include "lang/layout.h"
#include "lower/gpu/place_groups.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

/// The dimensions of a tile, `first` (unless -1) and then the rest, last one first.
std::vector<int> order_from(const Shape& shape, int first) {
    std::vector<int> order;
    if (first >= 0) order.push_back(first);
    for (int d = shape.rank - 1; d >= 0; --d)
        if (d != first) order.push_back(d);
    return order;
}

uint64_t basis_of(const TileLayout& l, int d, int bit) {
    int shift = bit;
    for (int e = l.shape.rank - 1; e > d; --e) shift += l.bits[static_cast<size_t>(e)];
    return uint64_t{1} << shift;
}

/// Single accesses of neighbouring lanes should touch neighbouring elements: wider ones than this many bits. Bytes are joined into words, as a lane's
/// share of an access would be too small. So are two bytes on their way to a product, which wants vectors in shared memory; elsewhere single elements
/// cost fewer instructions than words that are shifted into place, and stores fewer still.
int narrowest_single(const Function& fn) {
    bool product = false;
    fn.walk([&](InstId i) { product = product || is_product(fn.inst(i).op); });
    return product ? 16 : 8;
}

}  // namespace

bool unaligned(const Function& fn, const Inst& access) {
    const GpuTensor* fact = tensor_fact(fn, fn.gpu->tensors, fn.operands(access)[0]);
    return fact && !fact->aligned;
}

bool keeps_layout(Op op) { return is_pointwise(op) || op == Op::ptr_add || op == Op::ptr_at || op == Op::ptr_address || op == Op::ptx; }

Alike alike(const Function& fn, const Inst& inst) {
    Alike out;
    size_t first = 0;
    switch (inst.op) {
        case Op::load:
        case Op::store:
        case Op::atomic: {
            const AccessOperands access(fn, inst);
            first = access.first;
            out.like = inst.op == Op::store ? access.value.value : fn.result(inst);
            break;
        }
        case Op::ptr_load:
        case Op::ptr_atomic:
        case Op::scan:
        case Op::sort:
            out.like = fn.result(inst);
            break;
        case Op::ptr_store:
            out.like = fn.operands(inst)[0];
            break;
        case Op::dot:
        case Op::dot_scaled:
            return {fn.result(inst), {2}};
        default:
            if (!keeps_layout(inst.op) || inst.operands.count == 0) return out;
            out.like = fn.result(inst);
    }
    const auto operands = fn.operands(inst);
    for (size_t i = first; i < operands.size(); ++i)
        if (fn.type(operands[i]).kind == Type::tile && fn.type(operands[i]).shape == fn.type(out.like).shape) out.operands.push_back(i);
    return out;
}

int contiguous_dimension(const Function& fn, const Inst& inst) {
    const bool tensor = inst.op == Op::load || inst.op == Op::store || inst.op == Op::atomic;
    if (!tensor) return -1;
    const AccessOperands access(fn, inst);
    const size_t rank = access.access.axes.size();
    const int axis = fn.types().layout(fn.type(access.object).layout).innermost_dimension(static_cast<int>(rank));
    if (axis < 0 || static_cast<size_t>(axis) >= rank) return -1;
    const Access::Axis& along = access.access.axes[static_cast<size_t>(axis)];
    const bool contiguous = along.kind == Access::all || (along.kind == Access::range && along.step == 1);
    return contiguous ? AccessPart(fn, access).dim[static_cast<size_t>(axis)] : -1;
}

TileLayout plain_layout(const Shape& shape, int warps) { return blocked_layout(shape, warps, 1, order_from(shape, -1)); }

TileLayout memory_layout(const Function& fn, const Inst& access, int widest) {
    const ValueId like = alike(fn, access).like;
    const Shape& shape = fn.type(like).shape;
    const int d = contiguous_dimension(fn, access);
    const int64_t threads = int64_t{32} * fn.gpu->warps;
    int64_t vector = 1;
    const bool single = fn.elem(like).bits % 8 == 0 && fn.elem(like).bits > narrowest_single(fn) && unaligned(fn, access);
    if (d >= 0 && access.op != Op::atomic && !single) {
        // Odd factors of extents lie in registers: what is left must reach all threads.
        const int64_t dealt = int64_t{1} << plain_layout(shape, fn.gpu->warps).total_bits();
        vector = std::min<int64_t>(128 / std::max<int>({fn.elem(like).bits, widest, 4}), std::max<int64_t>(dealt / threads, 1));
        vector = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::min(vector, shape[static_cast<size_t>(d)]))));
    }
    return blocked_layout(shape, fn.gpu->warps, static_cast<int>(vector), order_from(shape, d));
}

bool whole_sectors(const Function& fn, const Inst& access, const TileLayout& l) {
    const ValueId like = alike(fn, access).like;
    const int d = contiguous_dimension(fn, access);
    if (d < 0) return true;  // nothing to lose
    int64_t run = 1;
    bool vector = true;  // so far, consecutive registers
    for (int bit = 0; bit < l.bits[static_cast<size_t>(d)]; ++bit, run *= 2) {
        const uint64_t wanted = basis_of(l, d, bit);
        const bool lanes = std::find(l.lane.begin(), l.lane.end(), wanted) != l.lane.end();
        vector = vector && !lanes;
        const bool near = lanes || ((vector || bit < 4) && std::find(l.reg.begin(), l.reg.end(), wanted) != l.reg.end());
        if (!near) break;
    }
    return run * fn.elem(like).bits >= 256 || run >= l.shape[static_cast<size_t>(d)];
}

std::optional<TileLayout> exchanged_layout(const Function& fn, const Inst& store, const TileLayout& l) {
    const ValueId like = alike(fn, store).like;
    const int d = contiguous_dimension(fn, store);
    const int bits = fn.elem(like).bits;
    if (store.op != Op::store || d < 0 || (bits != 8 && bits != 16) || unaligned(fn, store)) return std::nullopt;
    if (l.shape[static_cast<size_t>(d)] % (128 / bits)) return std::nullopt;
    const int vector_bits = std::countr_zero(static_cast<unsigned>(128 / bits));
    TileLayout to = l;
    std::vector<uint64_t> low;
    int moved = 0;
    for (int b = 0; b < vector_bits; ++b) {
        if (b >= l.bits[static_cast<size_t>(d)]) return std::nullopt;
        low.push_back(basis_of(l, d, b));
        const auto lane = std::find(to.lane.begin(), to.lane.end(), low.back());
        if (lane == to.lane.end()) continue;
        ++moved;
        // The lane bit takes over the lowest register bit beyond the vector.
        auto given = to.reg.end();
        for (int high = vector_bits; high < l.bits[static_cast<size_t>(d)] && given == to.reg.end(); ++high)
            given = std::find(to.reg.begin(), to.reg.end(), basis_of(l, d, high));
        if (given == to.reg.end()) return std::nullopt;
        std::swap(*lane, *given);
    }
    for (const uint64_t v : low)
        if (std::find(to.reg.begin(), to.reg.end(), v) == to.reg.end()) return std::nullopt;
    // The vector's registers come first.
    std::erase_if(to.reg, [&](uint64_t v) { return std::find(low.begin(), low.end(), v) != low.end(); });
    to.reg.insert(to.reg.begin(), low.begin(), low.end());
    // Halves are not worth it: a shuffle and three choices for every two registers, to save one store of four.
    return moved > 1 ? std::optional(to) : std::nullopt;
}

std::optional<TileLayout> operand_layout(const Function& fn, const Inst& inst, const TileLayout& l) {
    const Shape& from = fn.type(fn.operands(inst)[0]).shape;
    switch (inst.op) {
        case Op::broadcast:
            return broadcast_source_layout(l, from);
        case Op::reshape:
            return reshape_layout(l, from);
        case Op::permute: {
            const auto axes = fn.attrs(inst);
            std::vector<int64_t> inverse(axes.size());
            for (size_t d = 0; d < axes.size(); ++d) inverse[static_cast<size_t>(axes[d])] = static_cast<int64_t>(d);
            return permute_layout(l, inverse);
        }
        default:
            return std::nullopt;
    }
}

std::optional<TileLayout> result_layout(const Function& fn, const Inst& inst, const TileLayout& l) {
    const Shape& to = fn.type(fn.result(inst)).shape;
    switch (inst.op) {
        case Op::reshape:
            return reshape_layout(l, to);
        case Op::permute:
            return permute_layout(l, fn.attrs(inst));
        case Op::reduce:
        case Op::arg_reduce:
        case Op::reduce_region: {
            const int64_t axis = fn.attrs(inst)[inst.op == Op::reduce ? 2 : inst.op == Op::arg_reduce ? 1 : 0];
            if (axis < 0) return std::nullopt;
            return reduce_layout(l, static_cast<int>(axis));
        }
        default:
            return std::nullopt;
    }
}

}  // namespace tegula
