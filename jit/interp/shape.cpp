// Steps that move elements within and between tiles. All go by strided copies: an odometer over the outer dimensions, an inner loop by
// element width over the last one.
#include <algorithm>
#include <cstring>

#include "jit/interp/machine.h"
#include "lang/scalar.h"

namespace tegula::interp {

namespace {

struct Strides {
    int64_t v[kMaxRank] = {};
};

Strides row_major(const Shape& shape) {
    Strides s;
    int64_t stride = 1;
    for (size_t d = shape.rank; d-- > 0; stride *= shape[d]) s.v[d] = stride;
    return s;
}

template <class U>
void copy_row(U* out, int64_t to, const U* in, int64_t from, int64_t n) {
    if (to == 1 && from == 1)
        std::memcpy(out, in, static_cast<size_t>(n) * sizeof(U));
    else if (to == 1 && from == 0)
        std::fill_n(out, n, *in);
    else
        for (int64_t i = 0; i < n; ++i) out[i * to] = in[i * from];
}

template <class U>
void copy_strided(Machine& m, U* out, const Strides& to, const U* in, const Strides& from, const Shape& shape) {
    if (shape.rank == 0) {
        *out = *in;
        return;
    }
    const size_t last = shape.rank - 1u;
    int64_t point[kMaxRank] = {};
    const int64_t rows = shape.elements() / shape[last];
    for (int64_t r = 0; r < rows; ++r) {
        copy_row(out, to.v[last], in, from.v[last], shape[last]);
        for (size_t d = last; d-- > 0;) {
            out += to.v[d], in += from.v[d];
            if (++point[d] < shape[d]) break;
            out -= to.v[d] * shape[d], in -= from.v[d] * shape[d];
            point[d] = 0;
        }
        if ((r & 4095) == 4095 && m.poll()) return;
    }
}

/// out[at `to`] = in[at `from`] for every point of `shape`; strides in elements.
void copy(Machine& m, unsigned width, uint8_t* out, const Strides& to, const uint8_t* in, const Strides& from, const Shape& shape) {
    switch (width) {
        case 1:
            return copy_strided(m, out, to, in, from, shape);
        case 2:
            return copy_strided(m, reinterpret_cast<uint16_t*>(out), to, reinterpret_cast<const uint16_t*>(in), from, shape);
        case 4:
            return copy_strided(m, reinterpret_cast<uint32_t*>(out), to, reinterpret_cast<const uint32_t*>(in), from, shape);
        default:
            return copy_strided(m, reinterpret_cast<uint64_t*>(out), to, reinterpret_cast<const uint64_t*>(in), from, shape);
    }
}

}  // namespace

void step_constant(Machine& m, const Step& s) { set_code(s.info->out[0].width, m.at(s.info->out[0]), 0, static_cast<uint64_t>(s.info->attrs[0])); }

void step_constant_tile(Machine& m, const Step& s) {
    const Tile& out = s.info->out[0];
    for (int64_t i = 0; i < out.n; ++i) set_code(out.width, m.at(out), i, static_cast<uint64_t>(s.info->attrs[static_cast<size_t>(i)]));
}

void step_iota(Machine& m, const Step& s) {
    const Tile& out = s.info->out[0];
    const size_t axis = static_cast<size_t>(s.info->attrs[0]);
    int64_t inner = 1;
    for (size_t d = axis + 1; d < out.shape.rank; ++d) inner *= out.shape[d];
    const int64_t extent = out.shape[axis];
    const bool extend = out.format->is_int() && out.format->is_signed;
    for (int64_t i = 0; i < out.n; ++i)
        set_code(out.width, m.at(out), i, scalar::wrap(static_cast<uint64_t>(i / inner % extent), out.format->bits, extend));
}

void step_broadcast(Machine& m, const Step& s) {
    const Tile &in = s.info->in[0], &out = s.info->out[0];
    const Strides own = row_major(in.shape);
    Strides from;
    const size_t skip = out.shape.rank - in.shape.rank;
    for (size_t d = 0; d < in.shape.rank; ++d) from.v[d + skip] = in.shape[d] == 1 ? 0 : own.v[d];
    copy(m, out.width, m.at(out), row_major(out.shape), m.at(in), from, out.shape);
}

void step_permute(Machine& m, const Step& s) {
    const Tile &in = s.info->in[0], &out = s.info->out[0];
    const Strides own = row_major(in.shape);
    Strides from;
    for (size_t d = 0; d < out.shape.rank; ++d) from.v[d] = own.v[s.info->attrs[d]];
    copy(m, out.width, m.at(out), row_major(out.shape), m.at(in), from, out.shape);
}

void step_slice(Machine& m, const Step& s) {
    const Tile &in = s.info->in[0], &out = s.info->out[0];
    const Strides own = row_major(in.shape);
    Strides from;
    int64_t start = 0;
    for (size_t d = 0; d < out.shape.rank; ++d) {
        start += s.info->attrs[2 * d] * own.v[d];
        from.v[d] = s.info->attrs[2 * d + 1] * own.v[d];
    }
    copy(m, out.width, m.at(out), row_major(out.shape), m.at(in) + start * in.width, from, out.shape);
}

void step_cat(Machine& m, const Step& s) {
    const Tile& out = s.info->out[0];
    const size_t axis = static_cast<size_t>(s.info->attrs[0]);
    const Strides to = row_major(out.shape);
    int64_t at = 0;
    for (const Tile& in : s.info->in) {
        copy(m, out.width, m.at(out) + at * to.v[axis] * out.width, to, m.at(in), row_major(in.shape), in.shape);
        at += in.shape[axis];
    }
}

void step_gather(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const Tile &a = info.in[0], &index = info.in[1], &out = info.out[0];
    const size_t axis = static_cast<size_t>(info.attrs[0]);
    const Strides own = row_major(a.shape);
    int64_t point[kMaxRank] = {};
    const bool wide_unsigned = index.format->is_int() && !index.format->is_signed;
    for (int64_t i = 0; i < out.n; ++i) {
        const uint64_t code = get_code(*index.format, index.width, m.at(index), i);
        const int64_t at = static_cast<int64_t>(code);
        if (at < 0 || at >= a.shape[axis]) {
            set_code(out.width, m.at(out), i, 0);
            if (m.shared.checked)
                report(m, info, Diag::gather_out_of_range, {wide_unsigned ? std::to_string(code) : std::to_string(at), std::to_string(a.shape[axis])},
                       i, &out.shape);
        } else {
            int64_t from = 0;
            for (size_t d = 0; d < out.shape.rank; ++d) from += (d == axis ? at : point[d]) * own.v[d];
            std::memcpy(m.at(out) + i * out.width, m.at(a) + from * a.width, a.width);
        }
        for (size_t d = out.shape.rank; d-- > 0;) {
            if (++point[d] < out.shape[d]) break;
            point[d] = 0;
        }
        if ((i & 0xffff) == 0xffff && m.poll()) return;
    }
}

}  // namespace tegula::interp
