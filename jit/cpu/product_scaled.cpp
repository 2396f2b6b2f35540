// dot_scaled on the machinery of dot (product_emitter.h): sums of each stretch of k with one pair of scales start from zero, and the product of the
// scales carries them into the accumulators, whose format is rounded to after each stretch.
#include "jit/cpu/product_emitter.h"

namespace tegula::cpu {

using llvm::Value;

/// As f32 in the work area.
void ProductEmitter::pack_scales() {
    uint64_t offset = p_.scales_at();
    for (size_t side = 0; side < 2; ++side) {
        const ir::ValueId v = g_.fn().operands(g_.fn().inst(id_))[3 + side];
        const Buffer to = g_.work(id_, offset, chain_, g_.fn().type(v).shape);
        g_.nest(to.shape, [&](const Point& p) { g_.write(to, p, to_chain(g_.lanes(v, p), g_.fn().elem(v), p.lanes)); });
        scales_[side] = to.base;
        offset += p_.scale_bytes[side];
    }
}

/// The micro-kernel, stretch after stretch. Where neither side's blocks divide the other's, sums go on until either ends.
void ProductEmitter::scaled_block(Panel a, Panel b, Value* c, Value* depth, int64_t rows, int64_t width) {
    const int64_t vectors = (width + p_.lanes - 1) / p_.lanes;
    const Values zeros(static_cast<size_t>(rows * vectors), llvm::Constant::getNullValue(vector_));
    g_.loop(g_.i64(0), depth, p_.stretch(), p_.every_stretch() ? Values{} : zeros, [&](Value* from, Values begun) {
        const Panel left{at(a.base, from), a.row}, right{at(b.base, b_.CreateMul(from, g_.i64(b.row))), b.row};
        Value* k = b_.CreateAdd(first_.k, from);
        Values sums = products(left, right, g_.i64(p_.stretch()), rows, p_.every_stretch() ? zeros : std::move(begun));
        if (p_.every_stretch()) {
            add_stretch(k, c, sums, rows, width);
            return Values{};
        }
        const auto ends = [&](int64_t block) {
            return b_.CreateICmpEQ(b_.CreateURem(b_.CreateAdd(k, g_.i64(p_.stretch())), g_.i64(block)), g_.i64(0));
        };
        Value* end = b_.CreateOr(ends(p_.left_scaled), ends(p_.right_scaled));
        g_.when(end, [&] { add_stretch(k, c, sums, rows, width); });
        for (Value*& sum : sums) sum = b_.CreateSelect(end, zeros[0], sum);
        return sums;
    });
}

void ProductEmitter::add_stretch(Value* k, Value* c, const Values& stretch, int64_t rows, int64_t width) {
    Values sums;
    each_sums(c, rows, width, [&](size_t, Value* at, Value* mask) { sums.push_back(load_sums(at, mask)); });
    sums = add_scaled(k, first_.row, first_.column, std::move(sums), stretch, rows);
    each_sums(c, rows, width, [&](size_t i, Value* at, Value* mask) { store_sums(sums[i], at, mask); });
}

/// sums + stretch * scales, of a block whose first element is (row, column).
ProductEmitter::Values ProductEmitter::add_scaled(Value* k, Value* row, Value* column, Values sums, const Values& stretch, int64_t rows) {
    Scalars& s = g_.scalars();
    const Format& f = g_.fn().elem(g_.fn().result(g_.fn().inst(id_)));
    const llvm::Align align(p_.bytes);
    const int64_t groups = p_.k / p_.left_scaled;
    const size_t vectors = sums.size() / static_cast<size_t>(rows);
    Value* lefts = at(scales_[0], b_.CreateAdd(b_.CreateMul(row, g_.i64(groups)), b_.CreateUDiv(k, g_.i64(p_.left_scaled))));
    Value* rights = at(scales_[1], b_.CreateAdd(b_.CreateMul(b_.CreateUDiv(k, g_.i64(p_.right_scaled)), g_.i64(p_.n)), column));
    for (size_t i = 0; i < sums.size(); ++i) {
        Value* left = b_.CreateAlignedLoad(element_, at(lefts, static_cast<int64_t>(i / vectors) * groups), align);
        Value* right = b_.CreateAlignedLoad(vector_, at(rights, static_cast<int64_t>(i % vectors) * p_.lanes), align);
        sums[i] = s.raw_fma(chain_, stretch[i], b_.CreateFMul(g_.splat(left, p_.lanes), right), sums[i]);
        // What the next stretch starts from is a number of the accumulators' format.
        if (p_.c_bytes) sums[i] = s.raw(s.cast(s.cast(s.settle(chain_, sums[i]), chain_, f), f, chain_));
    }
    return sums;
}

void Codegen::cpu_dot_scaled(ir::InstId id) { cpu_dot(id); }

}  // namespace tegula::cpu
