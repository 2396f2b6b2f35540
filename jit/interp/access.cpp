// Access walking (access.h) and the steps on it: load, store, atomic of tensors; extract and deposit of tiles.
#include "jit/interp/access.h"

#include <cstring>

#include "lang/joining.h"
#include "lang/scalar.h"

namespace tegula::interp {

using ir::Access;

AccessWalk::AccessWalk(Machine& m, const Info& info, const View& view) : m_(m), info_(info), view_(view) {
    axes_ = static_cast<int>(info.access->access.axes.size());
    std::vector<const Tile*> tiles(static_cast<size_t>(axes_), nullptr);
    for (int a = 0; a < axes_; ++a) {
        axis_[a] = info.access->access.axes[static_cast<size_t>(a)];
        if (axis_[a].kind == Access::all) {
            axis_[a].step = 1;
            continue;
        }
        const Tile& t = info.in[info.access->index[static_cast<size_t>(a)].at];
        tiles[static_cast<size_t>(a)] = &t;
        if (axis_[a].kind == Access::gather) {
            gather_[a] = reinterpret_cast<const int64_t*>(m.at(t));
            joint_ = *broadcast(joint_, t.shape);
        } else {
            start_[a] = index_[a] = m.scalar<int64_t>(t);
        }
    }
    bool placed = false;
    const auto push = [&](int64_t extent, int axis) {
        result_.push(extent);
        dims_[rank_++] = {extent, axis};
    };
    for (int a = 0; a < axes_; ++a) {
        if (axis_[a].kind == Access::index) {
            fixed_valid_ = fixed_valid_ && in_range(a);
        } else if (axis_[a].kind != Access::gather) {
            push(axis_[a].extent, a);
        } else {
            for (size_t d = 0; !placed && d < joint_.rank; ++d) push(joint_[d], -1);
            placed = true;
            const Shape& own = tiles[static_cast<size_t>(a)]->shape;
            int64_t stride = 1;
            for (size_t d = own.rank; d-- > 0; stride *= own[d]) gather_stride_[a][d + joint_.rank - own.rank] = own[d] == 1 ? 0 : stride;
        }
    }
}

void AccessWalk::place_gather(int64_t joint) {
    int64_t point[kMaxRank];
    for (size_t d = joint_.rank; d-- > 0;) {
        point[d] = joint % joint_[d];
        joint /= joint_[d];
    }
    gather_valid_ = true;
    for (int a = 0; a < axes_; ++a) {
        if (axis_[a].kind != Access::gather) continue;
        int64_t at = 0;
        for (size_t d = 0; d < joint_.rank; ++d) at += point[d] * gather_stride_[a][d];
        index_[a] = gather_[a][at];
        gather_valid_ = gather_valid_ && in_range(a);
    }
}

/// Places every axis but the row's for row number `row`.
void AccessWalk::place_outer(int64_t row) {
    valid_ = fixed_valid_;
    int64_t joint = 0, scale = 1;
    bool gathers = joint_.rank == 0;
    const bool inner_gather = rank_ > 0 && dims_[rank_ - 1].axis == -1;
    if (inner_gather) scale = dims_[rank_ - 1].extent;
    for (int d = rank_ - 2; d >= 0; --d) {
        const int64_t at = row % dims_[d].extent;
        row /= dims_[d].extent;
        if (dims_[d].axis < 0) {
            joint += at * scale;
            scale *= dims_[d].extent;
            gathers = true;
            continue;
        }
        const int a = dims_[d].axis;
        int64_t moved;
        if (__builtin_mul_overflow(at, axis_[a].step, &moved) || __builtin_add_overflow(start_[a], moved, &index_[a]))
            valid_ = false;
        else
            valid_ = valid_ && in_range(a);
    }
    joint_row_ = joint;
    if (inner_gather || !gathers) return;
    place_gather(joint);
    valid_ = valid_ && gather_valid_;
}

int64_t AccessWalk::affine_bit() const {
    int64_t bit = 0;
    for (int a = 0; a < axes_; ++a) bit += index_[a] * view_.stride[a];
    return bit;
}

void AccessWalk::report_outside() {
    const std::string name = view_.param >= 0 ? object_name(m_, static_cast<uint64_t>(view_.param)) : std::string("tile");
    report(m_, info_, Diag::outside_storage, {name, std::to_string(view_.bytes)});
}

View tile_view(Machine& m, const Tile& t) {
    View v;
    v.data = m.at(t);
    v.width = t.width;
    v.bits = t.width * 8u;
    v.bytes = static_cast<uint64_t>(t.n) * t.width;
    v.extents = t.shape;
    int64_t stride = v.bits;
    for (size_t d = t.shape.rank; d-- > 0; stride *= t.shape[d]) v.stride[d] = stride;
    return v;
}

namespace {

/// Serialises whole accesses where the storage needs it.
std::unique_lock<std::mutex> guard(Machine& m, const View& view, bool atomic) {
    std::unique_lock<std::mutex> lock(m.shared.memory, std::defer_lock);
    if (view.locked || (atomic && m.shared.parallel)) lock.lock();
    return lock;
}

struct LoadSink {
    Machine& m;
    Memory& memory;
    uint8_t* out;
    const uint8_t* other;
    unsigned width;
    void run(int64_t at, int64_t bit, int64_t stride, int64_t count) {
        if (m.shared.checked) memory.trace(bit, stride, count, at);
        memory.load(bit, stride, count, out + at * width);
    }
    void skip(int64_t at, int64_t count) {
        const size_t bytes = static_cast<size_t>(count) * width;
        if (other)
            std::memcpy(out + at * width, other + at * width, bytes);
        else
            std::memset(out + at * width, 0, bytes);
    }
};

struct StoreSink {
    Machine& m;
    Memory& memory;
    const uint8_t* in;
    unsigned width;
    void run(int64_t at, int64_t bit, int64_t stride, int64_t count) {
        if (m.shared.checked) memory.trace(bit, stride, count, at);
        memory.store(bit, stride, count, in + at * width);
    }
    void skip(int64_t, int64_t) {}
};

void read_part(Machine& m, const Info& info, const View& view) {
    AccessWalk walk(m, info, view);
    Memory memory(m, info, view, true, false, false);
    LoadSink sink{m, memory, m.at(info.out[0]), elements_of(m, info, info.access->other), info.out[0].width};
    const auto lock = guard(m, view, false);
    walk.each(elements_of(m, info, info.access->mask), sink);
}

void write_part(Machine& m, const Info& info, const View& view) {
    AccessWalk walk(m, info, view);
    Memory memory(m, info, view, false, true, false);
    const Tile& value = info.in[info.access->value.at];
    StoreSink sink{m, memory, m.at(value), value.width};
    const auto lock = guard(m, view, false);
    walk.each(elements_of(m, info, info.access->mask), sink);
}

}  // namespace

Ordering::Ordering(Machine& m, const Info& info) : m_(m) {
    const auto order = static_cast<ir::MemoryOrder>(info.attrs[2]);
    if (!m.shared.history || static_cast<ir::MemoryScope>(info.attrs[3]) == ir::MemoryScope::cta) return;
    acquires_ = order == ir::MemoryOrder::acquire || order == ir::MemoryOrder::acq_rel;
    releases_ = order == ir::MemoryOrder::release || order == ir::MemoryOrder::acq_rel;
    if (releases_) handed_over_ = History::released(m.strand);
}

Ordering::~Ordering() {
    if (released_) m_.shared.history->go_on(m_.strand);
}

void AtomicSink::run(int64_t at, int64_t bit, int64_t stride, int64_t count) {
    for (int64_t i = 0; i < count; ++i, bit += stride) {
        ordering.before(memory, bit);
        if (m.shared.checked) memory.trace(bit, 0, 1, at + i);
        const uint64_t old = memory.load_code(bit);
        const uint64_t v = get_code(*value.format, value.width, m.at(value), at + i);
        set_code(value.width, out, at + i, old);
        bool written = true;
        m.watched.polled = true;
        if (kind == ir::AtomicKind::xchg) {
            memory.store_code(bit, v);
        } else if (kind == ir::AtomicKind::cas) {
            written = old == get_code(*value.format, value.width, expected, at + i);
            if (written) memory.store_code(bit, v);
        } else {
            const uint64_t codes[2] = {old, v};
            memory.store_code(bit, scalar::eval_elementwise(ir::joining_op(kind), *value.format, codes));
        }
        ordering.after(memory, bit, written);
        if (m.shared.watches && memory.load_code(bit) != old) m.changed();
    }
}

void AtomicSink::skip(int64_t at, int64_t count) { std::memset(out + at * value.width, 0, static_cast<size_t>(count) * value.width); }

void step_load(Machine& m, const Step& s) { read_part(m, *s.info, m.shared.views[static_cast<size_t>(s.info->in[0].param)]); }

void step_store(Machine& m, const Step& s) {
    write_part(m, *s.info, m.shared.views[static_cast<size_t>(s.info->in[0].param)]);
    m.changed();
}

void step_extract(Machine& m, const Step& s) { read_part(m, *s.info, tile_view(m, s.info->in[0])); }

void step_deposit(Machine& m, const Step& s) {
    const Info& info = *s.info;
    std::memmove(m.at(info.out[0]), m.at(info.in[0]), static_cast<size_t>(info.out[0].n) * info.out[0].width);
    write_part(m, info, tile_view(m, info.out[0]));
}

void step_atomic(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const View& view = m.shared.views[static_cast<size_t>(info.in[0].param)];
    AccessWalk walk(m, info, view);
    Memory memory(m, info, view, true, true, true);
    Ordering ordering(m, info);
    AtomicSink sink(m, info, memory, ordering);
    const auto lock = guard(m, view, true);
    walk.each(elements_of(m, info, info.access->mask), sink);
}

}  // namespace tegula::interp
