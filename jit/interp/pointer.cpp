// Pointers: 64-bit values that carry which argument they may reach (lang/pointer_code.h). Every access checks its argument's storage, so that a wild
// pointer is an error and never touches memory.
#include <cstring>

#include "jit/interp/access.h"
#include "lang/pointer_code.h"

namespace tegula::interp {

namespace {

struct Target {
    const View* view = nullptr;
    int64_t element = 0;
    int64_t bit = 0;
};

/// Walks the lanes of a pointer tile in runs of neighbours.
class Lanes {
public:
    Lanes(Machine& m, const Info& info, const char* verb) : m_(m), info_(info), verb_(verb) {
        const Tile& t = info.in[0];
        pointers_ = reinterpret_cast<const uint64_t*>(m.at(t));
        n_ = t.n;
        bits_ = t.format->bits;
        width_ = t.format->container_bytes();
    }
    /// f(view, at, bit, count) for reachable lanes, skip(at, count) for the others.
    template <class F, class G>
    void each(const uint8_t* mask, F f, G skip) {
        for (int64_t i = 0; i < n_;) {
            Target t;
            if ((mask && !mask[i]) || !resolve(i, t)) {
                skip(i, 1);
                ++i;
                continue;
            }
            int64_t end = i + 1;
            const int64_t room = reachable(*t.view) - t.element;
            while (end < n_ && end - i < room && (!mask || mask[end]) && pointers_[end] == pointers_[i] + static_cast<uint64_t>(end - i)) ++end;
            View view = *t.view;
            view.format = info_.in[0].format;
            view.bits = bits_;
            view.width = width_;
            view.affine = true;
            view.extents = Shape{};
            f(view, i, t.bit, end - i);
            i = end;
        }
    }

private:
    int64_t reachable(const View& view) const {
        const uint64_t whole = view.bytes * 8 / bits_;
        return static_cast<int64_t>(view.is_pointer ? std::min<uint64_t>(whole, static_cast<uint64_t>(view.extents.rank ? view.extents[0] : 0))
                                                    : whole);
    }
    bool resolve(int64_t lane, Target& t) {
        const uint64_t p = pointers_[lane], argument = p >> 48;
        if (argument == 0 || argument > m_.shared.views.size() || !m_.shared.views[argument - 1].format) {
            report(m_, info_, Diag::pointer_without_object, {verb_}, lane, &info_.in[0].shape);
            return false;
        }
        t.view = &m_.shared.views[argument - 1];
        t.element = pointer_element(p);
        if (t.element < 0 || t.element >= reachable(*t.view)) {
            report(m_, info_, Diag::pointer_out_of_range,
                   {verb_, std::to_string(t.element), object_name(m_, argument - 1), std::to_string(reachable(*t.view))}, lane, &info_.in[0].shape);
            return false;
        }
        t.bit = t.element * static_cast<int64_t>(bits_);
        return true;
    }
    Machine& m_;
    const Info& info_;
    const char* verb_;
    const uint64_t* pointers_;
    int64_t n_;
    unsigned bits_, width_;
};

/// Sub-byte storage that several workers write, and atomics, are serialised.
std::unique_lock<std::mutex> guard(Machine& m, const Tile& pointers, bool atomic) {
    std::unique_lock<std::mutex> lock(m.shared.memory, std::defer_lock);
    if (m.shared.parallel && (atomic || pointers.format->bits % 8 != 0)) lock.lock();
    return lock;
}

}  // namespace

std::string object_name(const Machine& m, uint64_t number) {
    return number < m.plan.params.size() ? m.plan.params[number].name : unnamed_object(number, m.plan.params.size());
}

void step_tensor_ptr(Machine& m, const Step& s) {
    const uint64_t p = pointer_code(static_cast<size_t>(s.info->in[0].param), 0);
    std::memcpy(m.at(s.info->out[0]), &p, 8);
}

namespace {

/// out = change(in), of each pointer or address.
void each_address(Machine& m, const Step& s, uint64_t (*change)(uint64_t, unsigned, std::span<const Reach>), const Format& pointed_to) {
    const Tile &in = s.info->in[0], &out = s.info->out[0];
    for (int64_t i = 0; i < out.n; ++i) {
        uint64_t v = 0;
        std::memcpy(&v, m.at(in) + i * 8, 8);
        v = change(v, pointed_to.bits, m.shared.objects);
        std::memcpy(m.at(out) + i * 8, &v, 8);
    }
}

}  // namespace

void step_ptr_at(Machine& m, const Step& s) { each_address(m, s, pointer_to, *s.info->out[0].format); }

void step_ptr_address(Machine& m, const Step& s) { each_address(m, s, address_of, *s.info->in[0].format); }

void step_ptr_load(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const uint8_t* mask = elements_of(m, info, info.access->mask);
    const uint8_t* other = elements_of(m, info, info.access->other);
    uint8_t* out = m.at(info.out[0]);
    const unsigned width = info.out[0].width;
    const auto lock = guard(m, info.in[0], false);
    Lanes(m, info, "a read")
        .each(
            mask,
            [&](const View& view, int64_t at, int64_t bit, int64_t count) {
                Memory memory(m, info, view, true, false, false);
                if (m.shared.checked) memory.trace(bit, view.bits, count, at);
                memory.load(bit, view.bits, count, out + at * width);
            },
            [&](int64_t at, int64_t count) {
                if (other)
                    std::memcpy(out + at * width, other + at * width, static_cast<size_t>(count) * width);
                else
                    std::memset(out + at * width, 0, static_cast<size_t>(count) * width);
            });
}

void step_ptr_store(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const uint8_t* mask = elements_of(m, info, info.access->mask);
    const uint8_t* in = elements_of(m, info, info.access->value);
    const auto lock = guard(m, info.in[0], false);
    Lanes(m, info, "a write")
        .each(
            mask,
            [&](const View& view, int64_t at, int64_t bit, int64_t count) {
                Memory memory(m, info, view, false, true, false);
                if (m.shared.checked) memory.trace(bit, view.bits, count, at);
                memory.store(bit, view.bits, count, in + at * view.width);
            },
            [](int64_t, int64_t) {});
    m.changed();
}

void step_ptr_atomic(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const Tile& value = info.in[info.access->value.at];
    const uint8_t* mask = elements_of(m, info, info.access->mask);
    uint8_t* out = m.at(info.out[0]);
    Ordering ordering(m, info);
    const auto lock = guard(m, info.in[0], true);
    Lanes(m, info, "an atomic")
        .each(
            mask,
            [&](const View& view, int64_t at, int64_t bit, int64_t count) {
                Memory memory(m, info, view, true, true, true);
                AtomicSink sink(m, info, memory, ordering);
                sink.run(at, bit, view.bits, count);
            },
            [&](int64_t at, int64_t count) { std::memset(out + at * value.width, 0, static_cast<size_t>(count) * value.width); });
}

}  // namespace tegula::interp
