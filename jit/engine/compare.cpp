// Snapshots of launches (compare.h).
#include "jit/engine/compare.h"

#include <cmath>
#include <cstring>

#include "lang/plain_text.h"
#include "lang/print_text.h"

namespace tegula {

namespace {

bool is_float_sum(const ir::Function& fn, const ir::Inst& inst) {
    const bool pointer = inst.op == ir::Op::ptr_atomic;
    if (!pointer && inst.op != ir::Op::atomic) return false;
    const auto kind = static_cast<ir::AtomicKind>(fn.attrs(inst)[1]);
    const Format& f = fn.elem(fn.operands(inst)[0]);
    return kind == ir::AtomicKind::add && !f.is_int();
}

TensorView view_of(const TensorArg& t, uint8_t* data, uint64_t bytes) {
    TensorView v;
    v.elem = t.elem;
    v.extents = t.extents;
    v.layout = t.layout;
    v.has_strides = t.has_strides;
    v.strides = t.strides;
    v.data = data;
    v.bytes = bytes;
    return v;
}

uint64_t code_at(const TileData& tile, unsigned width, int64_t i) {
    uint64_t code = 0;
    std::memcpy(&code, tile.bytes.data() + i * width, width);
    return code;
}

}  // namespace

bool same_bits_everywhere(const ir::Function& fn) {
    std::vector<uint32_t> uses(fn.value_count());
    for (ir::ValueId v : fn.operand_pool)
        if (v.valid()) ++uses[v.v];
    for (size_t i = 0; i < fn.inst_count(); ++i) {
        const ir::Inst& inst = fn.inst(ir::InstId{static_cast<uint32_t>(i)});
        if (!inst.parent.valid()) continue;
        if (inst.op >= ir::Op::fast_exp2 && inst.op <= ir::Op::fast_rsqrt) return false;
        if (is_float_sum(fn, inst)) return false;
        if ((inst.op == ir::Op::atomic || inst.op == ir::Op::ptr_atomic) && uses[fn.result(inst).v]) return false;
    }
    return true;
}

Snapshot::Snapshot(std::span<const Argument> values) {
    for (const Argument& a : values) {
        const auto* data = static_cast<const uint8_t*>(a.t.data);
        const bool storage = a.kind != Argument::scalar && data;
        bytes_.emplace_back(storage ? std::vector<uint8_t>(data, data + a.t.bytes) : std::vector<uint8_t>());
    }
}

void Snapshot::restore(std::span<const Argument> values) const {
    for (size_t i = 0; i < values.size(); ++i)
        if (!bytes_[i].empty()) std::memcpy(values[i].t.data, bytes_[i].data(), bytes_[i].size());
}

std::string Snapshot::difference(const TypeTable& types, std::span<const Argument> values, size_t i, bool copy_is_got) const {
    if (bytes_[i].empty() || std::memcmp(values[i].t.data, bytes_[i].data(), bytes_[i].size()) == 0) return {};
    const TensorArg& t = values[i].t;
    const Format& format = types.format(t.elem);
    std::vector<uint8_t> kept = bytes_[i];
    TileData expected = read_tile(types, view_of(t, kept.data(), kept.size()));
    TileData got = read_tile(types, view_of(t, static_cast<uint8_t*>(t.data), t.bytes));
    if (copy_is_got) std::swap(expected, got);
    const int64_t all = t.extents.elements();
    const unsigned width = format.container_bytes();
    int64_t different = 0, first = -1;
    for (int64_t e = 0; e < all; ++e) {
        const uint64_t a = code_at(expected, width, e), b = code_at(got, width, e);
        if (a == b) continue;
        if (format.is_float() && std::isnan(decode(format, a)) && std::isnan(decode(format, b))) continue;
        if (!different++) first = e;
    }
    if (!different) {
        return {};
    }
    const auto text = [&](const TileData& tile) {
        const uint64_t code = code_at(tile, width, first);
        return decimal_text(decode(format, code), 9) + " (code " + hex_text(code) + ")";
    };
    return std::to_string(different) + " of " + std::to_string(all) + " elements, first at " + point_text(first, t.extents) + ": " + text(got) +
           " instead of " + text(expected);
}

}  // namespace tegula
