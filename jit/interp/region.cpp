// reduce_region and scan_region: the body's steps run on up to kLanes elements at once when the body is pointwise, else on one. Elements
// are gathered into the body's arguments and its yields scattered back.
#include <algorithm>
#include <cstring>
#include <utility>

#include "jit/interp/machine.h"
#include "lang/axis.h"
#include "lang/print_text.h"

namespace tegula::interp {

namespace {

/// Runs the body on lanes whose operands lie at element offsets `left` (accumulators) and `right`; results go to `left` or `to`.
class Body {
public:
    Body(Machine& m, const Info& info, size_t n) : m_(m), info_(info), n_(n), lanes_(info.batched ? kLanes : 1) {}
    int64_t lanes() const { return lanes_; }
    /// Accumulators from acc[k] + left[i], operands from x[k] + right[i], results to out[k] + to[i].
    bool run(uint8_t* const* acc, const int64_t* left, uint8_t* const* x, const int64_t* right, uint8_t* const* out, const int64_t* to,
             int64_t count) {
        for (size_t k = 0; k < n_; ++k) {
            move(info_.region_args[k], acc[k], left, count);
            move(info_.region_args[n_ + k], x[k], right, count);
        }
        const int64_t before = m_.lanes;
        const Combining here{&info_, right}, *outer = std::exchange(m_.combining, &here);
        m_.lanes = count;
        const bool ok = m_.execute(info_.begin, info_.end);
        m_.lanes = before;
        m_.combining = outer;
        if (!ok) return false;
        for (size_t k = 0; k < n_; ++k) {
            const Tile& y = info_.region_yields[k];
            const uint8_t* from = m_.at(y);
            const int64_t step = y.n == kPerLane ? y.width : 0;
            for (int64_t i = 0; i < count; ++i) std::memcpy(out[k] + to[i] * y.width, from + i * step, y.width);
        }
        return true;
    }

private:
    void move(const Tile& arg, const uint8_t* from, const int64_t* offsets, int64_t count) {
        uint8_t* to = m_.at(arg);
        for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * arg.width, from + offsets[i] * arg.width, arg.width);
    }
    Machine& m_;
    const Info& info_;
    size_t n_;
    int64_t lanes_;
};

}  // namespace

std::vector<std::string> combined_notes(Machine& m, int64_t lane) {
    const Info& info = *m.combining->info;
    const size_t n = info.out.size();
    std::string sides[2];
    for (size_t k = 0; k < info.region_args.size(); ++k) {
        const Tile& t = info.region_args[k];
        const uint64_t code = t.pointer ? 0 : get_code(*t.format, t.width, m.at(t), t.n == kPerLane ? lane : 0);
        std::string& side = sides[k / n];
        side += (side.empty() ? "" : ", ") + (t.pointer ? std::string("a pointer") : number_text(*t.format, code, {}));
    }
    for (std::string& side : sides)
        if (n > 1) side = "(" + side + ")";
    return {"at element " + point_text(m.combining->elements[lane], info.in[0].shape) + " of the tile",
            "where " + sides[0] + " and " + sides[1] + " are combined"};
}

void step_reduce_region(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const size_t n = info.out.size();
    const Axis axis(info.in[0].shape, info.attrs[0]);
    std::vector<uint8_t*> work(n), inits(n), out(n);
    for (size_t k = 0; k < n; ++k) {
        work[k] = m.at(info.work[k]);
        inits[k] = m.at(info.in[n + k]);
        out[k] = m.at(info.out[k]);
        std::memcpy(work[k], m.at(info.in[k]), static_cast<size_t>(info.in[k].n) * info.in[k].width);
    }
    Body body(m, info, n);
    int64_t left[kLanes], right[kLanes], zero[kLanes] = {};
    const int64_t columns = axis.outer * axis.inner;
    const auto base = [&](int64_t column) { return column / axis.inner * axis.n * axis.inner + column % axis.inner; };
    for (int64_t stride = first_stride(axis.n); stride > 0; stride /= 2) {
        const int64_t pairs = std::min(stride, axis.n - stride), all = pairs * columns;
        for (int64_t at = 0; at < all; at += body.lanes()) {
            const int64_t count = std::min(body.lanes(), all - at);
            for (int64_t i = 0; i < count; ++i) {
                const int64_t column = (at + i) / pairs, row = (at + i) % pairs;
                left[i] = base(column) + row * axis.inner;
                right[i] = left[i] + stride * axis.inner;
            }
            if (!body.run(work.data(), left, work.data(), right, work.data(), left, count)) return;
        }
    }
    for (int64_t at = 0; at < columns; at += body.lanes()) {
        const int64_t count = std::min(body.lanes(), columns - at);
        for (int64_t i = 0; i < count; ++i) {
            right[i] = base(at + i);
            left[i] = at + i;
        }
        if (!body.run(inits.data(), zero, work.data(), right, out.data(), left, count)) return;
    }
    m.pc = info.end;
}

void step_scan_region(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const size_t n = info.out.size();
    const Axis axis(info.in[0].shape, info.attrs[0]);
    const bool reverse = info.attrs[1] != 0;
    std::vector<uint8_t*> in(n), out(n);
    for (size_t k = 0; k < n; ++k) {
        in[k] = m.at(info.in[k]);
        out[k] = m.at(info.out[k]);
        std::memcpy(out[k], in[k], static_cast<size_t>(info.in[k].n) * info.in[k].width);
    }
    Body body(m, info, n);
    int64_t before[kLanes], here[kLanes];
    const int64_t columns = axis.outer * axis.inner;
    for (int64_t k = 1; k < axis.n; ++k) {
        const int64_t row = reverse ? axis.n - 1 - k : k, last = reverse ? row + 1 : row - 1;
        for (int64_t at = 0; at < columns; at += body.lanes()) {
            const int64_t count = std::min(body.lanes(), columns - at);
            for (int64_t i = 0; i < count; ++i) {
                const int64_t base = (at + i) / axis.inner * axis.n * axis.inner + (at + i) % axis.inner;
                before[i] = base + last * axis.inner;
                here[i] = base + row * axis.inner;
            }
            if (!body.run(out.data(), before, in.data(), here, out.data(), here, count)) return;
        }
    }
    m.pc = info.end;
}

}  // namespace tegula::interp
