// dot_scaled: operands and scales are packed as f32; each stretch of k with one pair of scales is a chain of fma from zero, which the product of the
// scales carries into the accumulator, whose format is rounded to after each stretch.
#include <numeric>

#include "jit/cpu/codegen.h"

namespace tegula::cpu {

using llvm::Value;

namespace {

class ScaledProduct {
public:
    ScaledProduct(Codegen& g, ir::InstId id)
        : g_(g),
          b_(g.b()),
          id_(id),
          inst_(g.fn().inst(id)),
          f32_(g.fn().types().format(id_of(Fmt::f32))),
          format_(g.fn().elem(g.fn().result(inst_))) {
        const Shape &a = shape(0), &c = shape(2);
        m_ = c[0], n_ = c[1], k_ = a[1];
        a_block_ = std::max<int64_t>(1, g.fn().attrs(inst_)[0]);
        b_block_ = std::max<int64_t>(1, g.fn().attrs(inst_)[1]);
        step_ = std::gcd(a_block_, b_block_);  // both divide k
        every_step_ = a_block_ % b_block_ == 0 || b_block_ % a_block_ == 0;
    }

    void run() {
        for (const size_t k : {0u, 1u, 3u, 4u}) packed_.push_back(pack(k));
        const ir::ValueId result = g_.fn().result(inst_);
        if (!g_.wanted(result)) return;
        const int64_t blocks = m_ / kRows * kRows;
        rows(0, blocks, kRows);
        rows(blocks, m_, 1);
    }

private:
    static constexpr int64_t kRows = 4;

    const Shape& shape(size_t k) const { return g_.fn().type(g_.fn().operands(inst_)[k]).shape; }

    Buffer pack(size_t k) {
        const ir::ValueId v = g_.fn().operands(inst_)[k];
        const Buffer to = g_.work(id_, offset_, f32_, shape(k));
        offset_ += (static_cast<uint64_t>(shape(k).elements()) * 4 + 255) / 64 * 64;
        g_.nest(shape(k), [&](const Point& p) { g_.write(to, p, to_f32(g_.lanes(v, p), g_.fn().elem(v))); });
        return to;
    }

    /// The value in double, rounded to float.
    Value* to_f32(Value* v, const Format& f) {
        if (f == f32_) return v;
        if (f.is_int() || f.is_bool()) return g_.scalars().cast(v, f, f32_);
        return g_.scalars().decode_to_float(f, v);
    }

    void rows(int64_t from, int64_t to, int64_t count) {
        g_.loop(from, to, count, [&](Value* i) {
            g_.nest(Shape{1, n_}, [&](const Point& p) { tile(i, count, p); });
        });
    }

    Value* element(const Buffer& buffer, Value* row, const Index& column, const Point& like) {
        Point p = like;
        p.index[0] = g_.uniform(row);
        p.index[1] = column;
        return g_.read(buffer, p);
    }

    /// `count` rows from i on, the columns of p.
    void tile(Value* i, int64_t count, const Point& p) {
        const ir::ValueId c = g_.fn().operands(inst_)[2];
        std::vector<Value*> sums;
        std::vector<Point> points;
        for (int64_t r = 0; r < count; ++r) {
            points.push_back(p);
            points.back().index[0] = g_.uniform(b_.CreateAdd(i, g_.i64(r)));
            sums.push_back(g_.scalars().cast(g_.lanes(c, points.back()), format_, f32_));
        }
        Value* zero = g_.scalars().constant(f32_, 0, p.lanes);
        const std::vector<Value*> none(sums.size(), zero);
        std::vector<Value*> carried = none;
        carried.insert(carried.end(), sums.begin(), sums.end());
        carried =
            g_.loop(g_.i64(0), g_.i64(k_), step_, carried, [&](Value* k, std::vector<Value*> now) { return stretch(k, points, std::move(now)); });
        const Buffer to = g_.buffer(g_.fn().result(inst_));
        for (size_t r = 0; r < points.size(); ++r) g_.write(to, points[r], g_.scalars().cast(carried[points.size() + r], f32_, format_));
    }

    /// Partial sums then sums, over `step_` of k from `start` on.
    std::vector<Value*> stretch(Value* start, const std::vector<Point>& points, std::vector<Value*> now) {
        const size_t n = points.size();
        const Point& p = points[0];
        Value* end = b_.CreateAdd(start, g_.i64(step_));
        const std::vector<Value*> partial = g_.loop(start, end, 1, std::vector<Value*>(now.begin(), now.begin() + static_cast<ptrdiff_t>(n)),
                                                    [&](Value* k, std::vector<Value*> chain) {
                                                        Value* right = element(packed_[1], k, p.index[1], p);
                                                        for (size_t r = 0; r < n; ++r) {
                                                            Value* left = element(packed_[0], points[r].index[0].value, g_.uniform(k), p);
                                                            chain[r] = g_.scalars().raw_fma(f32_, left, right, chain[r]);
                                                        }
                                                        return chain;
                                                    });
        Value* right = element(packed_[3], b_.CreateUDiv(start, g_.i64(b_block_)), p.index[1], p);
        Value* left_block = b_.CreateUDiv(start, g_.i64(a_block_));
        for (size_t r = 0; r < n; ++r) {
            Value* left = element(packed_[2], points[r].index[0].value, g_.uniform(left_block), p);
            Value* sum = g_.scalars().raw_fma(f32_, partial[r], b_.CreateFMul(left, right), now[n + r]);
            // What the next stretch starts from is a number of the accumulator's format.
            if (format_ != f32_) sum = g_.scalars().cast(g_.scalars().cast(g_.scalars().settle(f32_, sum), f32_, format_), format_, f32_);
            Value* zero = llvm::Constant::getNullValue(sum->getType());
            if (every_step_) {
                now[r] = zero;
                now[n + r] = g_.scalars().raw(sum);
                continue;
            }
            const auto ends = [&](int64_t size) { return b_.CreateICmpEQ(b_.CreateURem(end, g_.i64(size)), g_.i64(0)); };
            Value* flush = b_.CreateOr(ends(a_block_), ends(b_block_));
            now[r] = b_.CreateSelect(flush, zero, partial[r]);
            now[n + r] = b_.CreateSelect(flush, g_.scalars().raw(sum), now[n + r]);
        }
        return now;
    }

    Codegen& g_;
    llvm::IRBuilder<>& b_;
    ir::InstId id_;
    const ir::Inst& inst_;
    const Format &f32_, &format_;
    int64_t m_, n_, k_, a_block_, b_block_, step_;
    bool every_step_;
    uint64_t offset_ = 0;
    std::vector<Buffer> packed_;  ///< a, b, a_scale, b_scale
};

}  // namespace

void Codegen::cpu_dot_scaled(ir::InstId id) { ScaledProduct(*this, id).run(); }

}  // namespace tegula::cpu
