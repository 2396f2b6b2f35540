// Operands of a product -> panels (product_emitter.h). An element of a panel is of the chain's type, or a group of neighbours along k, each a part
// of its bits, for the instruction that multiplies them.
#include <bit>

#include "jit/cpu/product_emitter.h"
#include "jit/cpu/turned.h"

namespace tegula::cpu {

using llvm::Value;

namespace {
constexpr uint64_t kLeastProduct = 142;  ///< sum of two biased exponents of bf16 from which on products are multiples of 2^-126
}

Value* ProductEmitter::to_chain(Value* v, const Format& from, unsigned lanes) {
    Scalars& s = g_.scalars();
    if (p_.chain == Product::i32 || p_.chain == Product::i64) {
        llvm::Type* type = s.type(chain_, lanes);
        return from.is_signed && !from.is_bool() ? b_.CreateSExtOrTrunc(v, type) : b_.CreateZExtOrTrunc(v, type);
    }
    llvm::Type* type = s.type(chain_, lanes);
    if (from.is_int() || from.is_bool()) {  // through double where that rounds, as the interpreter
        llvm::Type* real = from.bits <= 24 ? type : s.type(g_.fn().types().format(id_of(Fmt::f64)), lanes);
        v = from.is_signed && !from.is_bool() ? b_.CreateSIToFP(v, real) : b_.CreateUIToFP(v, real);
    } else {
        v = p_.chain == Product::f32 && !p_.rounded ? s.decode_to_float(from, v) : s.decode(from, v);
    }
    if (p_.rounded && from != *p_.rounded) {
        const Fmt real = v->getType()->getScalarType()->isFloatTy() ? Fmt::f32 : Fmt::f64;
        v = s.decode(*p_.rounded, s.cast(v, g_.fn().types().format(id_of(real)), *p_.rounded));
    }
    if (v->getType() != type) v = p_.chain == Product::f32 ? b_.CreateFPTrunc(v, type) : b_.CreateFPExt(v, type);
    if (!p_.tf32) return v;
    const Format& tf32 = g_.fn().types().format(id_of(Fmt::tf32));
    v = s.cast(v, chain_, tf32, Round::rna);
    v = s.decode(tf32, v);
    return v->getType() == type ? v : b_.CreateFPTrunc(v, type);
}

bool ProductEmitter::direct(ir::ValueId v) const {
    const ir::ValueId result = g_.fn().result(g_.fn().inst(id_));  // an operand may be the accumulator, too
    return g_.is_stored(v) && !g_.shares_buffer(v, result) && !p_.tf32 && !p_.rounded && !p_.row && is_chain_operand(g_.fn(), v, p_.chain);
}

ProductEmitter::Operand ProductEmitter::left(ir::ValueId v) {
    if (direct(v)) return {g_.buffer(v).base, p_.m * p_.k, 0, p_.k};
    const Buffer to = g_.work(id_, 0, chain_, Shape{p_.batch, p_.m, p_.a_pitch});
    pack(v, true, to, [&](Value* z, Value* row, Value* column) {
        return b_.CreateAdd(b_.CreateMul(b_.CreateAdd(b_.CreateMul(z, g_.i64(p_.m)), row), g_.i64(p_.a_pitch)), column);
    });
    return {to.base, p_.m * p_.a_pitch, 0, p_.a_pitch};
}

ProductEmitter::Operand ProductEmitter::right(ir::ValueId v) {
    const bool narrow = p_.k * p_.n * p_.bytes <= 32 << 10;
    if (direct(v) && narrow) return {g_.buffer(v).base, p_.k * p_.n, p_.block(), p_.n};
    const Buffer to = g_.work(id_, p_.a_bytes, chain_, Shape{p_.batch, p_.n_blocks, p_.k, p_.block()});
    pack(v, false, to, [&](Value* z, Value* row, Value* column) {
        Value* block = b_.CreateAdd(b_.CreateMul(z, g_.i64(p_.n_blocks)), b_.CreateUDiv(column, g_.i64(p_.block())));
        row = b_.CreateAdd(b_.CreateMul(block, g_.i64(p_.k)), row);
        return b_.CreateAdd(b_.CreateMul(row, g_.i64(p_.block())), b_.CreateURem(column, g_.i64(p_.block())));
    });
    return {to.base, p_.n_blocks * p_.k * p_.block(), p_.k * p_.block(), p_.block()};
}

void ProductEmitter::pack(ir::ValueId v, bool is_left, const Buffer& to, const Placing& place) {
    if (is_turned(g_.fn(), g_.plan().options, v, g_.width()))
        pack_squares(v, is_left, to, place);
    else
        pack_rows(v, is_left, to, place);
}

/// The vectors of one line of matrix z of an operand, and where in the line they begin: of all groups of k at one place of the other dimension, or
/// the other way round. Whole vectors are given: what lies beyond the line is any.
void ProductEmitter::each_vector(ir::ValueId v, bool is_left, bool lanes_along_k, Value* z, Value* line,
                                 const std::function<void(Value* at, Value* value)>& put) {
    const Shape& shape = g_.fn().type(v).shape;
    const size_t k_dim = is_left ? shape.rank - 1u : shape.rank - 2u, other = is_left ? shape.rank - 2u : shape.rank - 1u;
    const size_t dim = lanes_along_k ? k_dim : other;
    const int64_t extent = lanes_along_k ? p_.k : is_left ? p_.m : p_.n;
    Point p = batch_point(z, shape);
    p.lanes = static_cast<unsigned>(
        std::min<uint64_t>(g_.width(), std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(2, lanes_along_k ? p_.depth : extent)))));
    if (lanes_along_k) p.index[other] = g_.uniform(line);
    g_.row(p, dim, extent,
           [&](const Point& q) { put(q.index[dim].value, lanes_along_k ? along(v, is_left, q, q.index[dim]) : across(v, is_left, q, line)); });
}

/// Lanes along the last dimension.
void ProductEmitter::pack_rows(ir::ValueId v, bool is_left, const Buffer& to, const Placing& place) {
    g_.loop(0, p_.batch, 1, [&](Value* z) {
        Value* end = g_.i64(is_left ? p_.m : p_.k);
        if (is_left && live_)  // whole blocks of rows are read
            end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, b_.CreateAdd(live_, g_.i64(p_.rows - 1)));
        g_.loop(g_.i64(0), end, 1, {}, [&](Value* row, Values) {
            each_vector(v, is_left, is_left, z, row, [&](Value* column, Value* value) {
                b_.CreateAlignedStore(value, at(to.base, place(z, row, column)), llvm::Align(p_.bytes));
            });
            return Values{};
        });
    });
}

/// Squares: lanes along the rows' dimension, the way memory runs, into as many lines as there are lanes, whose squares are then turned. Whole squares
/// are written: what is too much is padding, or overwritten by what follows.
void ProductEmitter::pack_squares(ir::ValueId v, bool is_left, const Buffer& to, const Placing& place) {
    const int64_t height = is_left ? p_.m : p_.k, width = is_left ? p_.k : p_.n, side = g_.width();
    const Buffer lines = g_.work(id_, p_.turn_at(), chain_, Shape{side, p_.turn_pitch});
    llvm::Type* type = g_.scalars().type(chain_, g_.width());
    const llvm::Align align(p_.bytes);
    g_.loop(0, p_.batch, 1, [&](Value* z) {
        g_.loop(0, width, side, [&](Value* column) {
            Value* count = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateSub(g_.i64(width), column), g_.i64(side));
            g_.loop(g_.i64(0), count, 1, {}, [&](Value* c, Values) {
                Value* line = at(lines.base, b_.CreateMul(c, g_.i64(p_.turn_pitch)));
                each_vector(v, is_left, !is_left, z, b_.CreateAdd(column, c),
                            [&](Value* row, Value* value) { b_.CreateAlignedStore(value, at(line, row), align); });
                return Values{};
            });
            g_.loop(0, height, side, [&](Value* row) {
                Values square;
                for (int64_t c = 0; c < side; ++c) square.push_back(b_.CreateAlignedLoad(type, at(at(lines.base, row), c * p_.turn_pitch), align));
                transpose(b_, square);
                for (int64_t r = 0; r < side; ++r)
                    b_.CreateAlignedStore(square[static_cast<size_t>(r)], at(to.base, place(z, b_.CreateAdd(row, g_.i64(r)), column)), align);
            });
        });
    });
}

/// Elements of a panel at one group of k; lanes run along the other dimension.
Value* ProductEmitter::across(ir::ValueId v, bool is_left, Point p, Value* group) {
    const Shape& shape = g_.fn().type(v).shape;
    const size_t k_dim = is_left ? shape.rank - 1u : shape.rank - 2u;
    const auto n = static_cast<int64_t>(p_.group());
    if (n == 1) {
        p.index[k_dim] = g_.uniform(group);
        return to_chain(g_.lanes(v, p), g_.fn().elem(v), p.lanes);
    }
    Values parts(static_cast<size_t>(n));
    for (int64_t h = 0; h < n; ++h) {
        Value* k = b_.CreateAdd(b_.CreateMul(group, g_.i64(n)), g_.i64(h));
        Value* exists = p_.k * n != p_.depth ? g_.splat(b_.CreateICmpSLT(k, g_.i64(p_.depth)), p.lanes) : nullptr;
        p.index[k_dim] = g_.uniform(exists ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, k, g_.i64(p_.depth - 1)) : k);
        parts[static_cast<size_t>(p_.watched() ? n - 1 - h : h)] = part(v, is_left, p, exists);
    }
    std::vector<int> turned;
    for (unsigned lane = 0; lane < p.lanes; ++lane)
        for (int64_t h = 0; h < n; ++h) turned.push_back(static_cast<int>(h * p.lanes + lane));
    return b_.CreateBitCast(b_.CreateShuffleVector(joined(b_, std::move(parts)), turned), g_.scalars().type(chain_, p.lanes));
}

/// Elements of a panel at consecutive groups of k, one per lane.
Value* ProductEmitter::along(ir::ValueId v, bool is_left, Point p, const Index& group) {
    const Shape& shape = g_.fn().type(v).shape;
    const size_t k_dim = is_left ? shape.rank - 1u : shape.rank - 2u;
    const auto n = static_cast<int64_t>(p_.group());
    p.index[k_dim] = group;
    if (n == 1) return to_chain(g_.lanes(v, p), g_.fn().elem(v), p.lanes);
    Values parts;
    for (int64_t h = 0; h < n; ++h) {
        Value* k = b_.CreateAdd(b_.CreateMul(group.value, g_.i64(n)), g_.i64(h * p.lanes));
        g_.counts(k, group.value, n);
        p.index[k_dim] = {Index::consecutive, k, p.lanes};
        p.active = p_.depth % (n * p.lanes) ? below(k, p_.depth, p.lanes) : nullptr;
        parts.push_back(part(v, is_left, p, p.active));
    }
    llvm::Type* dwords = llvm::FixedVectorType::get(b_.getInt32Ty(), p.lanes);
    Value* all = b_.CreateBitCast(joined(b_, std::move(parts)), dwords);
    if (p_.watched()) all = b_.CreateIntrinsic(llvm::Intrinsic::fshl, {dwords}, {all, all, g_.splat(g_.i32(16), p.lanes)});
    return b_.CreateBitCast(all, g_.scalars().type(chain_, p.lanes));
}

/// Parts of groups: the operand's values as the row's instruction takes them. Where there is no element (`exists`, null: everywhere) the product of
/// both operands is to change no sum: zero, of floats -0 times 0, because -0 alone leaves a -0 alone.
Value* ProductEmitter::part(ir::ValueId v, bool is_left, const Point& p, Value* exists) {
    llvm::Type* type = llvm::FixedVectorType::get(b_.getIntNTy(32 / p_.group()), p.lanes);
    Value* value = to_chain(g_.lanes(v, p), g_.fn().elem(v), p.lanes);
    if (p_.watched()) value = b_.CreateLShr(b_.CreateBitCast(value, llvm::FixedVectorType::get(b_.getInt32Ty(), p.lanes)), 16);
    value = b_.CreateTrunc(value, type);
    if (p_.offset && is_left) value = b_.CreateXor(value, llvm::ConstantInt::get(type, 0x80));
    if (exists) value = b_.CreateSelect(exists, value, llvm::ConstantInt::get(type, p_.watched() && is_left ? 0x8000 : 0));
    if (p_.watched()) watch(is_left, p.active && p.active != exists ? b_.CreateSelect(p.active, value, llvm::Constant::getNullValue(type)) : value);
    return value;
}

/// Takes codes of bf16 into the smallest magnitude, less one so that zeros count as the largest.
void ProductEmitter::watch(bool is_left, Value* codes) {
    llvm::Type* type = codes->getType();
    Value* least = least_[is_left ? 0 : 1];
    const llvm::Align align(2 * g_.width());
    Value* magnitude = b_.CreateSub(b_.CreateAnd(codes, llvm::ConstantInt::get(type, 0x7fff)), llvm::ConstantInt::get(type, 1));
    b_.CreateAlignedStore(b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b_.CreateAlignedLoad(type, least, align), magnitude), least, align);
}

/// i1: is every product of packed elements a multiple of 2^-126, and no element subnormal?
Value* ProductEmitter::products_are_safe() {
    Value* exponent[2];
    for (int side = 0; side < 2; ++side) {
        Value* least =
            b_.CreateAlignedLoad(llvm::cast<llvm::AllocaInst>(least_[side])->getAllocatedType(), least_[side], llvm::Align(2 * g_.width()));
        Value* code = b_.CreateAdd(b_.CreateZExt(b_.CreateIntMinReduce(least, false), b_.getInt32Ty()), g_.i32(1));
        exponent[side] = b_.CreateLShr(code, 7);
    }
    Value* normal = b_.CreateAnd(b_.CreateICmpNE(exponent[0], g_.i32(0)), b_.CreateICmpNE(exponent[1], g_.i32(0)));
    return b_.CreateAnd(normal, b_.CreateICmpUGE(b_.CreateAdd(exponent[0], exponent[1]), b_.getInt32(kLeastProduct)));
}

Point ProductEmitter::batch_point(Value* z, const Shape& shape) {
    Point p;
    p.rank = shape.rank;
    for (size_t d = shape.rank - 2u; d-- > 0; z = b_.CreateUDiv(z, g_.i64(shape[d]))) p.index[d] = g_.uniform(b_.CreateURem(z, g_.i64(shape[d])));
    return p;
}

/// Lanes of a row from `at` on that lie below `extent`.
Value* ProductEmitter::below(Value* at, int64_t extent, unsigned lanes) {
    Value* left = b_.CreateTrunc(b_.CreateSub(g_.i64(extent), at), b_.getInt32Ty());
    return b_.CreateICmpSLT(g_.lane_numbers(lanes), g_.splat(left, lanes));
}

}  // namespace tegula::cpu
