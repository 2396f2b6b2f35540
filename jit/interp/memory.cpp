// Elements of a view: loads and stores of runs, and the shadows of checked mode (machine.h, Memory).
#include <cstring>

#include "jit/interp/machine.h"

namespace tegula::interp {

namespace {

bool whole(unsigned bits) { return bits == 8 || bits == 16 || bits == 32 || bits == 64; }

std::string program_text(const Machine& m, uint64_t linear) {
    const uint64_t* g = m.shared.grid;
    return "(" + std::to_string(linear % g[0]) + ", " + std::to_string(linear / g[0] % g[1]) + ", " + std::to_string(linear / g[0] / g[1]) + ")";
}

std::string param_name(const Machine& m, const View& view) {
    return view.param < 0 ? std::string("tile") : m.plan.params[static_cast<size_t>(view.param)].name;
}

/// The element's indices where the view has them (strides nest), else its number in storage.
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

}  // namespace

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
        if (view_.shadow) trace_race(bit, element + i);
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

void Memory::trace_race(int64_t bit, int64_t element) {
    const int64_t base = (view_.data - view_.shadow->data) * 8;
    const uint64_t at = static_cast<uint64_t>(base + bit) / view_.shadow->unit;
    if (at >= view_.shadow->cells) return;
    Cell* page = view_.shadow->pages[at / Shadow::kPage].get();
    if (!page) page = m_.page_of(*view_.shadow, at, param_name(m_, view_));
    if (!page) return;
    Cell& cell = page[at % Shadow::kPage];
    const uint32_t me = static_cast<uint32_t>(m_.linear % (kAtomicWriter - 2)) + 1;
    const uint32_t writer = cell.writer & ~kAtomicWriter;
    const bool both_atomic = atomic_ && (cell.writer & kAtomicWriter);
    const auto tell = [&](Diag id, uint32_t first, uint32_t second) {
        report(m_, info_, id, {element_text(view_, bit), param_name(m_, view_), program_text(m_, first - 1), program_text(m_, second - 1)}, element);
    };
    if (writes_) {
        if (writer && writer != me && !both_atomic) tell(Diag::write_race, writer, me);
        for (uint32_t reader : cell.readers)
            if (reader && reader != me) {
                tell(Diag::read_write_race, reader, me);
                break;
            }
        cell.writer = me | (atomic_ ? kAtomicWriter : 0);
        return;
    }
    if (writer && writer != me) tell(Diag::read_write_race, me, writer);
    if (cell.readers[0] == 0 || cell.readers[0] == me)
        cell.readers[0] = me;
    else if (cell.readers[1] == 0)
        cell.readers[1] = me;
}

}  // namespace tegula::interp
