// Elements of a view: loads and stores of runs, and the shadows of checked mode (machine.h, Memory; races.cpp).
#include <cstring>

#include "jit/interp/machine.h"

namespace tegula::interp {

namespace {

bool whole(unsigned bits) { return bits == 8 || bits == 16 || bits == 32 || bits == 64; }

}  // namespace

std::string param_name(const Machine& m, const View& view) {
    return view.param < 0 ? std::string("tile") : object_name(m, static_cast<uint64_t>(view.param));
}

std::string element_text(const View& view, int64_t bit) {
    if (!view.affine || view.extents.rank == 0) return std::to_string(bit / view.bits);
    int64_t index[kMaxRank] = {}, rest = bit;
    bool used[kMaxRank] = {};
    for (size_t k = 0; k < view.extents.rank; ++k) {
        size_t widest = kMaxRank;
        for (size_t d = 0; d < view.extents.rank; ++d)
            if (!used[d] && (widest == kMaxRank || view.stride[d] > view.stride[widest])) widest = d;
        used[widest] = true;
        if (view.stride[widest] <= 0) continue;
        index[widest] = rest / view.stride[widest];
        rest %= view.stride[widest];
    }
    std::string out = "[";
    for (size_t d = 0; d < view.extents.rank; ++d) out += (d ? ", " : "") + std::to_string(index[d]);
    return out + "]";
}

void Memory::load(int64_t bit, int64_t stride, int64_t count, void* out) const {
    if (whole(view_.bits)) {
        const uint8_t* from = view_.data + bit / 8;
        if (stride == view_.bits)
            std::memcpy(out, from, static_cast<size_t>(count) * view_.width);
        else
            kernels().gather_strided[width_index(view_.width)](from, stride / 8, out, count);
    } else if (stride == view_.bits || count == 1) {
        unpack_bits(*view_.format, view_.data, static_cast<uint64_t>(bit), static_cast<uint64_t>(count), out);
    } else {
        for (int64_t i = 0; i < count; ++i)
            set_code(view_.width, out, i, load_bits(*view_.format, view_.data, static_cast<uint64_t>(bit + i * stride)));
    }
}

void Memory::store(int64_t bit, int64_t stride, int64_t count, const void* in) const {
    if (whole(view_.bits)) {
        uint8_t* to = view_.data + bit / 8;
        if (stride == view_.bits)
            std::memcpy(to, in, static_cast<size_t>(count) * view_.width);
        else
            kernels().scatter_strided[width_index(view_.width)](in, to, stride / 8, count);
    } else if (stride == view_.bits || count == 1) {
        pack_bits(*view_.format, in, static_cast<uint64_t>(count), view_.data, static_cast<uint64_t>(bit));
    } else {
        for (int64_t i = 0; i < count; ++i)
            store_bits(*view_.format, get_code(*view_.format, view_.width, in, i), view_.data, static_cast<uint64_t>(bit + i * stride));
    }
}

uint64_t Memory::load_code(int64_t bit) const {
    if (!whole(view_.bits)) return load_bits(*view_.format, view_.data, static_cast<uint64_t>(bit));
    return get_code(*view_.format, view_.width, view_.data + bit / 8, 0);
}

void Memory::store_code(int64_t bit, uint64_t code) const {
    if (whole(view_.bits))
        set_code(view_.width, view_.data + bit / 8, 0, code);
    else
        store_bits(*view_.format, code, view_.data, static_cast<uint64_t>(bit));
}

void Memory::trace(int64_t bit, int64_t stride, int64_t count, int64_t element) {
    if (!view_.shadow && !view_.initialised) return;
    for (int64_t i = 0; i < count; ++i, bit += stride) {
        if (view_.initialised) trace_initialised(bit, element + i);
        // Cells are as narrow as what the arguments that share the memory have in common: views of other widths, or shifted ones.
        for (unsigned part = 0; view_.shadow && part < view_.bits; part += view_.shadow->unit) trace_race(bit + part, element + i);
    }
}

void Memory::trace_initialised(int64_t bit, int64_t element) {
    const int64_t first = bit / 8, last = (bit + view_.bits - 1) / 8;
    if (reads_) {
        bool written = true;
        for (int64_t b = first; b <= last; ++b) written = written && view_.initialised[b];
        if (!written) report(m_, info_, Diag::uninitialised_read, {element_text(view_, bit), param_name(m_, view_)}, element);
    }
    if (writes_) std::memset(view_.initialised + first, 1, static_cast<size_t>(last - first + 1));
}

}  // namespace tegula::interp
