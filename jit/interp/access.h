// Walks an ir::Access: turns the accessed part into runs of elements at regular bit distances, with what lies out of range left out.
#pragma once
#include <algorithm>

#include "jit/interp/machine.h"

namespace tegula::interp {

/// The elements of an operand of the access; null where it has none.
inline const uint8_t* elements_of(const Machine& m, const Info& info, const ir::AccessOperands::Operand& operand) {
    return operand ? m.at(info.in[operand.at]) : nullptr;
}

class AccessWalk {
public:
    AccessWalk(Machine& m, const Info& info, const View& view);
    /// Calls sink.run(at, bit, stride, count) for elements that are touched and sink.skip(at, count) for those out of range or masked away;
    /// `at` numbers the part's elements in row-major order, and calls come in that order.
    template <class Sink>
    void each(const uint8_t* mask, Sink& sink);

private:
    struct Dim {
        int64_t extent = 1;
        int axis = -1;  ///< -1: a dimension of the joint gather shape
    };
    void place_outer(int64_t row);
    void place_gather(int64_t joint);
    bool in_range(int axis) const { return index_[axis] >= 0 && index_[axis] < view_.extents[static_cast<size_t>(axis)]; }
    template <class Sink>
    void row(int64_t at, const uint8_t* mask, Sink& sink);
    template <class Sink>
    void one(int64_t at, Sink& sink);
    template <class Sink>
    void masked(const uint8_t* mask, int64_t at, int64_t bit, int64_t stride, int64_t count, Sink& sink);
    int64_t affine_bit() const;
    void report_outside();

    Machine& m_;
    const Info& info_;
    const View& view_;
    Shape result_;
    Dim dims_[kMaxRank];
    int rank_ = 0;
    int axes_ = 0;
    ir::Access::Axis axis_[kMaxRank];
    int64_t start_[kMaxRank] = {}, index_[kMaxRank] = {};
    const int64_t* gather_[kMaxRank] = {};
    int64_t gather_stride_[kMaxRank][kMaxRank] = {};  ///< axis, joint dimension
    Shape joint_;
    int64_t joint_row_ = 0;     ///< joint number of the row's first element, when the last dimension is a gather's
    bool fixed_valid_ = true;   ///< `index` axes are in range
    bool gather_valid_ = true;  ///< gather axes are, after place_gather
    bool valid_ = true;         ///< all axes but the row's are
};

template <class Sink>
void AccessWalk::masked(const uint8_t* mask, int64_t at, int64_t bit, int64_t stride, int64_t count, Sink& sink) {
    if (!mask) return sink.run(at, bit, stride, count);
    for (int64_t i = 0; i < count;) {
        int64_t end = i;
        const bool on = mask[at + i] != 0;
        while (end < count && (mask[at + end] != 0) == on) ++end;
        if (on)
            sink.run(at + i, bit + i * stride, stride, end - i);
        else
            sink.skip(at + i, end - i);
        i = end;
    }
}

/// One element, all of whose indices are placed and in range.
template <class Sink>
void AccessWalk::one(int64_t at, Sink& sink) {
    if (view_.affine && view_.contained) return sink.run(at, affine_bit(), 0, 1);
    __extension__ using Wide = __int128;
    Wide bit = 0;
    if (view_.affine)
        for (int a = 0; a < axes_; ++a) bit += Wide(index_[a]) * view_.stride[a];
    else
        bit = view_.bound->bit_offset(index_);
    if (!view_.contained && (bit < 0 || bit + view_.bits > Wide(view_.bytes) * 8)) {
        report_outside();
        return sink.skip(at, 1);
    }
    sink.run(at, static_cast<int64_t>(bit), 0, 1);
}

template <class Sink>
void AccessWalk::row(int64_t at, const uint8_t* mask, Sink& sink) {
    const int64_t n = rank_ ? dims_[rank_ - 1].extent : 1;
    if (!valid_) return sink.skip(at, n);
    const int axis = rank_ ? dims_[rank_ - 1].axis : -2;
    const auto element = [&](int64_t j, bool ok) {
        if (ok && (!mask || mask[at + j]))
            one(at + j, sink);
        else
            sink.skip(at + j, 1);
    };
    if (axis == -2) return element(0, true);
    if (axis == -1) {
        for (int64_t j = 0; j < n; ++j) {
            place_gather(joint_row_ + j);
            element(j, gather_valid_);
        }
        return;
    }
    __extension__ using Wide = __int128;
    const Wide start = start_[axis], step = axis_[axis].step, extent = view_.extents[static_cast<size_t>(axis)];
    Wide lo = 0, hi = n;
    if (step > 0) {
        if (start < 0) lo = (-start + step - 1) / step;
        hi = start >= extent ? 0 : std::min<Wide>(n, (extent - 1 - start) / step + 1);
    } else if (step < 0) {
        if (start >= extent) lo = (start - extent) / -step + 1;
        hi = start < 0 ? 0 : std::min<Wide>(n, start / -step + 1);
    } else if (start < 0 || start >= extent) {
        hi = 0;
    }
    lo = std::min(lo, Wide(n));
    hi = std::max(hi, lo);
    const int64_t from = static_cast<int64_t>(lo), to = static_cast<int64_t>(hi);
    if (from > 0) sink.skip(at, from);
    if (to > from) {
        index_[axis] = static_cast<int64_t>(start + lo * step);
        if (view_.affine && view_.contained) {
            masked(mask, at + from, affine_bit(), view_.stride[axis] * axis_[axis].step, to - from, sink);
        } else {
            for (int64_t j = from; j < to; ++j, index_[axis] += axis_[axis].step) element(j, true);
        }
    }
    if (to < n) sink.skip(at + to, n - to);
}

template <class Sink>
void AccessWalk::each(const uint8_t* mask, Sink& sink) {
    const int64_t inner = rank_ ? dims_[rank_ - 1].extent : 1;
    const int64_t rows = result_.elements() / inner;
    for (int64_t r = 0; r < rows; ++r) {
        place_outer(r);
        row(r * inner, mask, sink);
        if ((r & 255) == 255 && m_.poll()) return;
    }
}

/// What an atomic instruction orders, in a run with race shadows. Its elements release what came before the instruction, not what others of them
/// acquire.
class Ordering {
public:
    Ordering(Machine& m, const Info& info);
    ~Ordering();
    Ordering(const Ordering&) = delete;
    /// In front of the update of an element, and behind it.
    void before(Memory& memory, int64_t bit) {
        if (acquires_) memory.acquire(bit);
    }
    void after(Memory& memory, int64_t bit, bool written) {
        if (!releases_ || !written) return;
        memory.release(bit, handed_over_);
        released_ = true;
    }

private:
    Machine& m_;
    bool acquires_ = false, releases_ = false, released_ = false;
    Clock handed_over_;
};

/// Read-modify-write of each element; old values go to `out`. The caller holds the lock of the run's memory.
struct AtomicSink {
    AtomicSink(Machine& machine, const Info& info, Memory& at, Ordering& order)
        : m(machine),
          memory(at),
          ordering(order),
          kind(static_cast<ir::AtomicKind>(info.attrs[1])),
          value(info.in[info.access->value.at]),
          expected(elements_of(machine, info, info.access->expected)),
          out(machine.at(info.out[0])) {}

    Machine& m;
    Memory& memory;
    Ordering& ordering;
    ir::AtomicKind kind;
    const Tile& value;
    const uint8_t* expected;  ///< null unless it compares
    uint8_t* out;
    void run(int64_t at, int64_t bit, int64_t stride, int64_t count);
    void skip(int64_t at, int64_t count);
};

/// A tile of this machine as memory.
View tile_view(Machine& m, const Tile& t);

}  // namespace tegula::interp
