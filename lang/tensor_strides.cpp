// Strides of tensors, written parameters (tensor_strides.h).
#include "lang/tensor_strides.h"

#include <utility>

namespace tegula {

std::vector<int64_t> host_strides(const TensorArg& t, unsigned bits) {
    std::vector<int64_t> out(t.extents.rank);
    for (size_t d = 0; d < t.extents.rank; ++d)
        if (__builtin_mul_overflow(t.strides[d], static_cast<int64_t>(bits), &out[d])) out[d] = t.extents[d] > 1 ? INT64_MAX : 0;
    return out;
}

std::vector<int64_t> bit_pitches(const Layout& layout, const TensorArg& t, unsigned bits) {
    std::vector<int64_t> out = layout.physical_extents(extents_of(t));
    int64_t pitch = bits;
    for (size_t m = out.size(); m-- > 0;) {
        const int64_t extent = std::exchange(out[m], pitch);
        if (__builtin_mul_overflow(pitch, extent, &pitch) || pitch > INT64_MAX - 7) pitch = 0;  // such storage does not exist
        if (m + 1 == out.size()) pitch = (pitch + 7) / 8 * 8;
    }
    return out;
}

std::vector<int64_t> bounded_extents(const Layout& layout, int rank) {
    constexpr int64_t kLarge = int64_t{1} << 24;  // too large for members to be enumerated
    const std::vector<int64_t> some(static_cast<size_t>(rank), kLarge), more(static_cast<size_t>(rank), 2 * kLarge);
    std::vector<int64_t> out = layout.physical_extents(some);
    const std::vector<int64_t> larger = layout.physical_extents(more);
    for (size_t m = 0; m < out.size(); ++m)
        if (out[m] != larger[m]) out[m] = 0;
    return out;
}

bool fills_members(const Layout& layout, std::span<const int64_t> extents) {
    if (layout.kind() == Layout::Kind::row || layout.kind() == Layout::Kind::col) return false;
    const std::vector<int64_t> bounded = bounded_extents(layout, static_cast<int>(extents.size())), actual = layout.physical_extents(extents);
    for (size_t m = bounded.size(); m-- > 0 && bounded[m];)
        if (actual[m] != bounded[m]) return false;
    return true;
}

uint8_t word_grain(const Layout& layout, std::span<const int64_t> extents, unsigned bits, uint64_t address) {
    const auto inner = static_cast<uint64_t>(layout.physical_extents(extents).back());
    for (unsigned grain = 16; grain >= 4 && inner > 0; grain /= 2)
        if (address % grain == 0 && inner % (8 * grain) * bits % (8 * grain) == 0) return static_cast<uint8_t>(grain);
    return 0;
}

bool is_strided(const Layout& layout, const TensorArg& t, unsigned bits) {
    if (!t.has_strides) return false;
    const auto natural = layout.bit_strides(extents_of(t), bits);
    if (!natural) return true;
    const std::vector<int64_t> given = host_strides(t, bits);
    for (size_t d = 0; d < t.extents.rank; ++d)
        if (t.extents[d] > 1 && (*natural)[d] != given[d]) return true;
    return false;
}

std::vector<bool> written_params(const ir::Function& fn) {
    std::vector<bool> stored(fn.value_count()), taken(fn.value_count());
    bool through_pointers = false;
    fn.walk([&](ir::InstId id) {
        const ir::Inst& inst = fn.inst(id);
        const auto operands = fn.operands(inst);
        through_pointers = through_pointers || inst.op == ir::Op::ptr_store || inst.op == ir::Op::ptr_atomic;
        if (inst.op == ir::Op::store || inst.op == ir::Op::atomic) stored[operands[0].v] = true;
        if (inst.op == ir::Op::tensor_ptr) taken[operands[0].v] = true;
    });
    const bool anywhere = through_pointers && follows_addresses(fn);
    std::vector<bool> out;
    for (const ir::Param& p : fn.params)
        if (anywhere && fn.type(p.value).kind == Type::tensor && !p.holds_addresses)
            out.push_back(true);
        else
            out.push_back(stored[p.value.v] || (through_pointers && (taken[p.value.v] || p.kind == ir::Param::pointer)));
    return out;
}

bool follows_addresses(const ir::Function& fn) {
    bool found = false;
    fn.walk([&](ir::InstId id) { found = found || fn.inst(id).op == ir::Op::ptr_at; });
    return found;
}

}  // namespace tegula
