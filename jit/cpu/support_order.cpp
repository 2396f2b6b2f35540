// sort and histogram (support_order.h). Order of floats: by value, -0 below +0; NaN last ascending and first descending; among equals the lower index
// comes first, descending as well.
#include "jit/cpu/support_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "lang/axis.h"

namespace tegula::cpu {

namespace {

struct Key {
    uint64_t order = 0;  ///< unsigned order is the order of values
    bool nan = false;
    int32_t index = 0;
};

uint64_t code_at(const Format& f, unsigned width, const void* data, int64_t i) {
    uint64_t code = 0;
    std::memcpy(&code, static_cast<const uint8_t*>(data) + i * width, width);
    return extend_code(f, code);
}

Key key_of(const Format& f, bool pointer, uint64_t code, int32_t index) {
    constexpr uint64_t kTop = uint64_t{1} << 63;
    if (pointer || f.is_bool() || (f.is_int() && !f.is_signed)) return {code, false, index};
    if (f.is_int() || f.kind == FormatKind::fixed) return {f.is_signed ? code ^ kTop : code, false, index};
    const double v = decode(f, code);
    if (std::isnan(v)) return {0, true, index};
    const uint64_t bits = std::bit_cast<uint64_t>(v);
    return {bits & kTop ? ~bits : bits | kTop, false, index};
}

}  // namespace

void sort_tile(const ir::Function& fn, uint32_t inst, const void* in, void* values, int32_t* indices, const std::function<bool()>& poll) {
    const ir::Inst& i = fn.inst(ir::InstId{inst});
    const ir::ValueId operand = fn.operands(i)[0];
    const Format& f = fn.elem(operand);
    const bool pointer = fn.type(operand).pointer;
    const unsigned width = pointer ? 8 : f.container_bytes();
    const Axis axis(fn.type(operand).shape, fn.attrs(i)[0]);
    const bool descending = fn.attrs(i)[1] != 0;
    std::vector<Key> keys(static_cast<size_t>(axis.n));
    for (int64_t line = 0; line < axis.lines(); ++line) {
        const int64_t base = line / axis.inner * axis.n * axis.inner + line % axis.inner;
        for (int64_t k = 0; k < axis.n; ++k)
            keys[static_cast<size_t>(k)] = key_of(f, pointer, code_at(f, width, in, base + k * axis.inner), static_cast<int32_t>(k));
        std::sort(keys.begin(), keys.end(), [descending](const Key& a, const Key& b) {
            if (a.nan != b.nan) return a.nan == descending;
            if (a.nan || a.order == b.order) return a.index < b.index;
            return (a.order < b.order) != descending;
        });
        for (int64_t k = 0; k < axis.n; ++k) {
            const int64_t to = base + k * axis.inner, from = base + keys[static_cast<size_t>(k)].index * axis.inner;
            std::memcpy(static_cast<uint8_t*>(values) + to * width, static_cast<const uint8_t*>(in) + from * width, width);
            indices[to] = keys[static_cast<size_t>(k)].index;
        }
        if (poll()) return;
    }
}

void count_tile(const ir::Function& fn, uint32_t inst, const void* in, const uint8_t* mask, int32_t* counts, const std::function<bool()>& poll) {
    const ir::Inst& i = fn.inst(ir::InstId{inst});
    const ir::ValueId operand = fn.operands(i)[0];
    const Format& f = fn.elem(operand);
    const int64_t n = fn.type(operand).shape.elements(), bins = fn.type(fn.result(i)).shape.elements();
    std::fill_n(counts, bins, 0);
    for (int64_t e = 0; e < n; ++e) {
        const uint64_t v = code_at(f, f.container_bytes(), in, e);  // negative values are huge
        if ((!mask || mask[e]) && v < static_cast<uint64_t>(bins)) ++counts[v];
        if ((e & 0xfffff) == 0xfffff && poll()) return;
    }
}

}  // namespace tegula::cpu
