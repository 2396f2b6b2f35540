// Pointwise steps: elementwise rows, select, casts. Operands are dense or splats; large tiles go chunk by chunk so that splats are spread
// into a small buffer once and cancellation is seen in time.
#include <algorithm>
#include <cstring>

#include "jit/interp/machine.h"

namespace tegula::interp {

namespace {

void spread(void* out, const void* one, unsigned width, int64_t n) {
    switch (width) {
        case 1:
            std::memset(out, *static_cast<const uint8_t*>(one), static_cast<size_t>(n));
            break;
        case 2:
            std::fill_n(static_cast<uint16_t*>(out), n, *static_cast<const uint16_t*>(one));
            break;
        case 4:
            std::fill_n(static_cast<uint32_t*>(out), n, *static_cast<const uint32_t*>(one));
            break;
        default:
            std::fill_n(static_cast<uint64_t*>(out), n, *static_cast<const uint64_t*>(one));
            break;
    }
}

/// Walks up to three operands of one step in chunks.
class Operands {
public:
    Operands(Machine& m, const Info& info, int64_t n) : info_(info) {
        const size_t arity = std::min<size_t>(info.in.size(), 3);
        for (size_t k = 0; k < 3; ++k) {
            const Tile& t = info.in[k < arity ? k : 0];
            splat_[k] = t.splat && n > 1;
            at_[k] = m.at(t);
            if (!splat_[k] || k >= arity) continue;
            spread(m.chunks.splat[k], at_[k], t.width, std::min(n, kChunk));
            at_[k] = m.chunks.splat[k];
        }
        for (size_t k = arity; k < 3; ++k) at_[k] = at_[0], splat_[k] = splat_[0];
    }
    const uint8_t* operator[](size_t k) const { return at_[k]; }
    void advance(int64_t n) {
        for (size_t k = 0; k < 3; ++k)
            if (!splat_[k]) at_[k] += n * info_.in[k < info_.in.size() ? k : 0].width;
    }

private:
    const Info& info_;
    const uint8_t* at_[3];
    bool splat_[3];
};

template <class F>
void in_chunks(Machine& m, const Info& info, F f) {
    const Tile& out = info.out[0];
    const int64_t n = m.count(out);
    Operands in(m, info, n);
    uint8_t* dst = m.at(out);
    for (int64_t i = 0; i < n; i += kChunk) {
        const int64_t now = std::min(kChunk, n - i);
        f(dst, in, i, now);
        dst += now * out.width;
        in.advance(now);
        if (n > kChunk && m.poll()) return;
    }
}

}  // namespace

void step_elementwise(Machine& m, const Step& s) {
    const Row& row = s.info->row;
    in_chunks(m, *s.info, [&](uint8_t* dst, const Operands& in, int64_t, int64_t n) { row.apply_chunk(m.chunks, dst, in[0], in[1], in[2], n); });
}

void step_select(Machine& m, const Step& s) {
    const auto fn = kernels().select[width_index(s.info->out[0].width)];
    in_chunks(m, *s.info, [&](uint8_t* dst, const Operands& in, int64_t, int64_t n) { fn(dst, in[0], in[1], in[2], n); });
}

void step_cast(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const bool watch = m.shared.checked && info.cast.overflow == Overflow::trap;
    Conversion::Random random;
    if (info.cast.round == Round::stochastic) random.seed = m.scalar<uint64_t>(info.in[1]);
    if (info.cast.round == Round::bits) random.bits_format = info.in[1].format;
    in_chunks(m, info, [&](uint8_t* dst, const Operands& in, int64_t i, int64_t n) {
        random.index = i;
        random.bits = in[1];
        const int64_t bad = info.cast.apply_chunk(m.chunks, dst, in[0], n, random, watch);
        if (bad >= 0)
            report(m, info, Diag::cast_overflow, {m.plan.fn->types().format(info.in[0].elem).name, m.plan.fn->types().format(info.out[0].elem).name},
                   i + bad, &info.out[0].shape);
    });
}

void step_bitcast(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const Format& to = *info.out[0].format;
    const bool extend = to.is_signed && (to.is_int() || to.kind == FormatKind::fixed);
    const auto wrap = kernels().wrap[(extend ? I8 : U8) + width_index(info.out[0].width)];
    in_chunks(m, info, [&](uint8_t* dst, const Operands& in, int64_t, int64_t n) {
        std::memmove(dst, in[0], static_cast<size_t>(n) * info.out[0].width);
        if (to.bits != info.out[0].width * 8) wrap(dst, n, to.bits);
    });
}

void step_ptr_add(Machine& m, const Step& s) {
    // Bits 0..47 hold the offset, biased by 2^47; leaving them would forge another argument, so the result then belongs to none.
    constexpr uint64_t kOffset = (uint64_t{1} << 48) - 1;
    in_chunks(m, *s.info, [&](uint8_t* dst, const Operands& in, int64_t, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
            uint64_t p;
            int64_t by, moved;
            std::memcpy(&p, in[0] + i * 8, 8);
            std::memcpy(&by, in[1] + i * 8, 8);
            const bool lost =
                __builtin_add_overflow(static_cast<int64_t>(p & kOffset), by, &moved) || moved < 0 || static_cast<uint64_t>(moved) > kOffset;
            p = lost ? 0 : (p & ~kOffset) | static_cast<uint64_t>(moved);
            std::memcpy(dst + i * 8, &p, 8);
        }
    });
}

}  // namespace tegula::interp
