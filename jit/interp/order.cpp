// arg_reduce, sort and histogram. Order of floats: by value, -0 below +0; NaN wins an arg_reduce (the first one), sorts last ascending and
// first descending. Among equals the lower index comes first, descending as well.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "jit/interp/machine.h"
#include "lang/axis.h"
#include "lang/scalar.h"

namespace tegula::interp {

namespace {

struct Key {
    uint64_t order = 0;  ///< unsigned order is the order of values
    bool nan = false;
};

/// A key for each element of a tile.
class Keys {
public:
    Keys(Machine& m, const Tile& t) : tile_(t), data_(m.at(t)) {}
    Key operator()(int64_t i) const {
        const Format& f = *tile_.format;
        const uint64_t code = get_code(f, tile_.width, data_, i);
        constexpr uint64_t kTop = uint64_t{1} << 63;
        if (tile_.pointer || f.is_bool() || (f.is_int() && !f.is_signed)) return {code, false};
        if (f.is_int() || f.kind == FormatKind::fixed) return {f.is_signed ? code ^ kTop : code, false};
        const double v = decode(f, code);
        if (std::isnan(v)) return {0, true};
        const uint64_t bits = std::bit_cast<uint64_t>(v);
        return {bits & kTop ? ~bits : bits | kTop, false};
    }

private:
    const Tile& tile_;
    const uint8_t* data_;
};

void store_index(uint8_t* out, int64_t at, int64_t index) {
    const int32_t v = static_cast<int32_t>(index);
    std::memcpy(out + at * 4, &v, 4);
}

}  // namespace

void step_arg_reduce(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const Tile& in = info.in[0];
    const Axis axis(in.shape, info.attrs[1]);
    const bool is_min = static_cast<ir::ReduceKind>(info.attrs[0]) == ir::ReduceKind::min;
    const Keys keys(m, in);
    for (int64_t o = 0; o < axis.outer; ++o)
        for (int64_t i = 0; i < axis.inner; ++i) {
            const int64_t base = o * axis.n * axis.inner + i, to = o * axis.inner + i;
            int64_t best = 0;
            Key chosen = keys(base);
            for (int64_t k = 1; k < axis.n && !chosen.nan; ++k) {
                const Key key = keys(base + k * axis.inner);
                if (!key.nan && (is_min ? key.order >= chosen.order : key.order <= chosen.order)) continue;
                chosen = key;
                best = k;
            }
            std::memcpy(m.at(info.out[0]) + to * in.width, m.at(in) + (base + best * axis.inner) * in.width, in.width);
            store_index(m.at(info.out[1]), to, best);
            if ((to & 255) == 255 && m.poll()) return;
        }
}

void step_sort(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const Tile& in = info.in[0];
    const Axis axis(in.shape, info.attrs[0]);
    const bool descending = info.attrs[1] != 0;
    const Keys keys(m, in);
    std::vector<Key> key(static_cast<size_t>(axis.n));
    std::vector<int32_t> order(static_cast<size_t>(axis.n));
    for (int64_t o = 0; o < axis.outer; ++o)
        for (int64_t i = 0; i < axis.inner; ++i) {
            const int64_t base = o * axis.n * axis.inner + i;
            for (int64_t k = 0; k < axis.n; ++k) key[static_cast<size_t>(k)] = keys(base + k * axis.inner);
            std::iota(order.begin(), order.end(), 0);
            std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
                const Key &x = key[static_cast<size_t>(a)], &y = key[static_cast<size_t>(b)];
                if (x.nan != y.nan) return x.nan == descending;
                if (x.nan || x.order == y.order) return a < b;
                return (x.order < y.order) != descending;
            });
            for (int64_t k = 0; k < axis.n; ++k) {
                const int64_t to = base + k * axis.inner, from = base + order[static_cast<size_t>(k)] * axis.inner;
                std::memcpy(m.at(info.out[0]) + to * in.width, m.at(in) + from * in.width, in.width);
                store_index(m.at(info.out[1]), to, order[static_cast<size_t>(k)]);
            }
            if (m.poll()) return;
        }
}

void step_histogram(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const Tile &in = info.in[0], &out = info.out[0];
    const uint8_t* mask = info.in.size() > 1 ? m.at(info.in[1]) : nullptr;
    int32_t* counts = reinterpret_cast<int32_t*>(m.at(out));
    std::fill_n(counts, out.n, 0);
    for (int64_t i = 0; i < in.n; ++i) {
        const uint64_t v = get_code(*in.format, in.width, m.at(in), i);  // negative values are huge
        if ((!mask || mask[i]) && v < static_cast<uint64_t>(out.n)) ++counts[v];
        if ((i & 0xfffff) == 0xfffff && m.poll()) return;
    }
}

}  // namespace tegula::interp
