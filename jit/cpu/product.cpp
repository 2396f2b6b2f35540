// dot: operands are packed once into panels of the chain's type (product.h), then a micro-kernel keeps a block of accumulators in registers while k
// ascends. Per element one chain of fma in the order of k, across passes too: partial sums go through memory exactly as they are.
#include "jit/cpu/codegen.h"

#include <cstddef>
#include <numeric>

#include <llvm/IR/IntrinsicsX86.h>

#include "jit/cpu/product.h"
#include "jit/cpu/product_few.h"
#include "jit/cpu/turned.h"

namespace tegula::cpu {

using ir::Op;
using llvm::Value;

namespace {

Fmt format_of(Product::Chain chain) {
    static constexpr Fmt kFormats[] = {Fmt::f32, Fmt::f64, Fmt::i32, Fmt::i64};
    return kFormats[chain];
}

}  // namespace

/// One dot with native chains.
class ProductEmitter {
public:
    ProductEmitter(Codegen& g, ir::InstId id, const Product& p)
        : g_(g),
          b_(g.b()),
          id_(id),
          p_(p),
          chain_(g.fn().types().format(id_of(format_of(p.chain)))),
          element_(g.scalars().type(chain_, 0)),
          vector_(g.scalars().type(chain_, p.lanes)) {}

    void run() {
        const ir::Inst& inst = g_.fn().inst(id_);
        const auto operands = g_.fn().operands(inst);
        const Operand a = left(operands[0]);
        if (p_.few) {
            const Buffer c = accumulators(operands[2]);
            const auto factor = [&](Value* v, unsigned lanes) { return to_chain(v, g_.fn().elem(operands[1]), lanes); };
            g_.loop(0, p_.batch, 1, [&](Value* z) {
                few_rows(g_, id_, p_, {chain_, batch_point(z, g_.fn().type(operands[1]).shape), at(a.base, b_.CreateMul(z, g_.i64(a.batch))), a.row,
                                       at(c.base, b_.CreateMul(z, g_.i64(p_.m * p_.n))), factor});
            });
            return finish(c);
        }
        const Operand b = right(operands[1]);
        const Buffer c = accumulators(operands[2]);
        g_.loop(0, p_.batch, 1, [&](Value* z) { passes(z, a, b, c); });
        finish(c);
    }

private:
    /// Element (outer.., x, y) lies at base + x * row + y from the start of its panel; panels of b: one per block of columns.
    struct Operand {
        Value* base;
        int64_t batch, panel, row;
    };

    Value* at(Value* base, Value* elements) { return b_.CreateGEP(element_, base, elements); }
    Value* at(Value* base, int64_t elements) { return b_.CreateConstGEP1_64(element_, base, static_cast<uint64_t>(elements)); }

    Value* to_chain(Value* v, const Format& from, unsigned lanes) {
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
            v = s.decode(from, v);
        }
        if (v->getType() != type) v = p_.chain == Product::f32 ? b_.CreateFPTrunc(v, type) : b_.CreateFPExt(v, type);
        if (!p_.tf32) return v;
        const Format& tf32 = g_.fn().types().format(id_of(Fmt::tf32));
        v = s.cast(v, chain_, tf32, Round::rna);
        v = s.decode(tf32, v);
        return v->getType() == type ? v : b_.CreateFPTrunc(v, type);
    }

    bool direct(ir::ValueId v) const {
        const ir::ValueId result = g_.fn().result(g_.fn().inst(id_));  // an operand may be the accumulator, too
        return g_.is_stored(v) && !g_.shares_buffer(v, result) && !p_.tf32 && is_chain_operand(g_.fn(), v, p_.chain);
    }

    Operand left(ir::ValueId v) {
        if (direct(v)) return {g_.buffer(v).base, p_.m * p_.k, 0, p_.k};
        Shape shape = g_.fn().type(v).shape;
        const Shape walked = shape;
        shape[shape.rank - 1u] = p_.a_pitch;
        const Buffer to = g_.work(id_, 0, chain_, shape);
        const auto place = [&](Value* z, Value* row, Value* column) {
            return b_.CreateAdd(b_.CreateMul(b_.CreateAdd(b_.CreateMul(z, g_.i64(p_.m)), row), g_.i64(p_.a_pitch)), column);
        };
        if (p_.pairs) {
            shape[shape.rank - 1u] = 2 * p_.a_pitch;
            const Buffer halves = g_.work(id_, 0, g_.fn().types().format(id_of(Fmt::i16)), shape);
            g_.nest(walked, [&](const Point& p) { pack(v, p, halves, p); });
        } else if (turns(v))
            turn(v, to, place);
        else
            g_.nest(walked, [&](const Point& p) { pack(v, p, to, p); });
        return {to.base, p_.m * p_.a_pitch, 0, p_.a_pitch};
    }

    Operand right(ir::ValueId v) {
        const bool narrow = p_.k * p_.n * p_.bytes <= 32 << 10;
        if (direct(v) && narrow) return {g_.buffer(v).base, p_.k * p_.n, p_.block(), p_.n};
        const Buffer to = g_.work(id_, p_.a_bytes, chain_, Shape{p_.batch, p_.n_blocks, p_.k, p_.block()});
        const Shape& shape = g_.fn().type(v).shape;
        const auto place = [&](Value* z, Value* row, Value* column) {
            Value* block = b_.CreateAdd(b_.CreateMul(z, g_.i64(p_.n_blocks)), b_.CreateUDiv(column, g_.i64(p_.block())));
            row = b_.CreateAdd(b_.CreateMul(block, g_.i64(p_.k)), row);
            return b_.CreateAdd(b_.CreateMul(row, g_.i64(p_.block())), b_.CreateURem(column, g_.i64(p_.block())));
        };
        if (turns(v))
            turn(v, to, place);
        else if (p_.pairs)
            pack_pairs(v, to, place);
        else
            g_.nest(shape, [&](const Point& p) {
                Point packed = p;
                packed.rank = 4;
                packed.index[0] = outer(p, shape);
                packed.index[2] = p.index[shape.rank - 2u];
                const Index& column = p.index[shape.rank - 1u];
                Value* width = column.kind == Index::vector ? g_.splat(g_.i32(p_.block()), p.lanes) : g_.i64(p_.block());
                packed.index[1] = column.kind == Index::consecutive ? Index{Index::uniform, b_.CreateUDiv(column.value, width), 1}
                                                                    : Index{column.kind, b_.CreateUDiv(column.value, width), 1};
                packed.index[3] = {column.kind, b_.CreateURem(column.value, width), p.lanes ? static_cast<int64_t>(p.lanes) : 1};
                pack(v, p, to, packed);
            });
        return {to.base, p_.n_blocks * p_.k * p_.block(), p_.k * p_.block(), p_.block()};
    }

    /// Does memory run along the rows of what is packed along columns?
    bool turns(ir::ValueId v) const {
        const Shape& shape = g_.fn().type(v).shape;
        return fast_dimension(g_.fn(), v) == shape.rank - 2 && shape[shape.rank - 2u] >= g_.width() && shape[shape.rank - 1u] >= g_.width();
    }

    /// Packs squares: lanes along the rows' dimension, the way memory runs, one column after the other into a square that is then turned. Whole
    /// squares are written: what is too much is padding, or overwritten by what follows.
    void turn(ir::ValueId v, const Buffer& to, const std::function<Value*(Value* z, Value* row, Value* column)>& place) {
        const Shape& shape = g_.fn().type(v).shape;
        const size_t rows = shape.rank - 2u, columns = rows + 1;
        const int64_t side = g_.width();
        const Buffer square = g_.work(id_, p_.work_bytes() - p_.turn_bytes, chain_, Shape{side, side});
        llvm::Type* type = g_.scalars().type(chain_, g_.width());
        const llvm::Align align(p_.bytes);
        g_.loop(0, p_.batch, 1, [&](Value* z) {
            g_.loop(0, shape[columns], side, [&](Value* column) {
                g_.loop(0, shape[rows], p_.pairs ? 2 * side : side, [&](Value* row) {
                    g_.loop(0, side, 1, [&](Value* c) {
                        Point p = batch_point(z, shape);
                        p.lanes = g_.width();
                        p.index[columns] =
                            g_.uniform(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(column, c), g_.i64(shape[columns] - 1)));
                        const auto along = [&](Value* from) {
                            p.index[rows] = {Index::consecutive, from, side};
                            p.active = shape[rows] % (p_.pairs ? 2 * side : side) ? below(from, shape[rows]) : nullptr;
                            return to_chain(g_.lanes(v, p), g_.fn().elem(v), p.lanes);
                        };
                        Value* value = along(row);
                        if (p_.pairs) {
                            Value* next = b_.CreateTrunc(along(b_.CreateAdd(row, g_.i64(side))), half_);
                            std::vector<int> both(static_cast<size_t>(2 * side));
                            std::iota(both.begin(), both.end(), 0);
                            value = b_.CreateBitCast(b_.CreateShuffleVector(b_.CreateTrunc(value, half_), next, both), type);
                        }
                        b_.CreateAlignedStore(value, at(square.base, b_.CreateMul(c, g_.i64(side))), align);
                    });
                    std::vector<Value*> lines;
                    for (int64_t c = 0; c < side; ++c) lines.push_back(b_.CreateAlignedLoad(type, at(square.base, c * side), align));
                    transpose(b_, lines);
                    Value* first = p_.pairs ? b_.CreateLShr(row, g_.i64(1)) : row;
                    for (int64_t r = 0; r < side; ++r)
                        b_.CreateAlignedStore(lines[static_cast<size_t>(r)], at(to.base, place(z, b_.CreateAdd(first, g_.i64(r)), column)), align);
                });
            });
        });
    }

    /// Number of the batch.
    Index outer(const Point& p, const Shape& shape) {
        Point lead = p;
        lead.rank = static_cast<uint8_t>(shape.rank - 2);
        Shape batch;
        for (size_t d = 0; d + 2 < shape.rank; ++d) batch.push(shape[d]);
        return g_.linear(lead, batch);
    }

    /// Where lanes run along the last dimension whole vectors are written: what lies beyond is padding, or written afterwards.
    void pack(ir::ValueId v, const Point& from, const Buffer& to, Point at) {
        Value* value = to_chain(g_.lanes(v, from), g_.fn().elem(v), from.lanes);
        if (p_.pairs) value = b_.CreateTrunc(value, from.lanes ? half_ : half_->getScalarType());
        if (from.active && from.index[from.rank - 1u].kind == Index::consecutive) {
            value = b_.CreateSelect(from.active, value, llvm::Constant::getNullValue(value->getType()));
            at.active = nullptr;
        }
        g_.write(to, at, value);
    }

    /// The results' buffer, or one of wider elements, with the accumulators in it.
    Buffer accumulators(ir::ValueId acc) {
        const ir::ValueId result = g_.fn().result(g_.fn().inst(id_));
        const Shape& shape = g_.fn().type(acc).shape;
        if (p_.c_bytes) {
            const Buffer wide = g_.work(id_, p_.a_bytes + p_.b_bytes, chain_, shape);
            g_.nest(shape, [&](const Point& p) { g_.write(wide, p, to_chain(g_.lanes(acc, p), g_.fn().elem(acc), p.lanes)); });
            return wide;
        }
        const Buffer c = g_.buffer(result);
        if (!g_.shares_buffer(acc, result)) g_.nest(shape, [&](const Point& p) { g_.write(c, p, g_.lanes(acc, p)); });
        return c;
    }

    /// Integers go back to the width of their format.
    void finish(const Buffer& c) {
        const ir::ValueId result = g_.fn().result(g_.fn().inst(id_));
        const Format& f = g_.fn().elem(result);
        if (!f.is_int() || f.bits == p_.bytes * 8) return;
        const Buffer to = g_.buffer(result);
        g_.nest(to.shape, [&](const Point& p) { g_.write(to, p, g_.scalars().cast(g_.read(c, p), chain_, f)); });
    }

    void passes(Value* z, const Operand& a, const Operand& b, const Buffer& c) {
        Value* left = at(a.base, b_.CreateMul(z, g_.i64(a.batch)));
        Value* right = at(b.base, b_.CreateMul(z, g_.i64(b.batch)));
        Value* sums = at(c.base, b_.CreateMul(z, g_.i64(p_.m * p_.n)));
        g_.loop(0, p_.k, p_.k_block, [&](Value* k) {
            Value* depth = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateSub(g_.i64(p_.k), k), g_.i64(p_.k_block));
            const int64_t full = p_.n / p_.block(), rest = p_.n - full * p_.block();
            const auto columns = [&](Value* block, int64_t width) {
                Value* panel = at(at(right, b_.CreateMul(block, g_.i64(b.panel))), b_.CreateMul(k, g_.i64(b.row)));
                Value* out = at(sums, b_.CreateMul(block, g_.i64(p_.block())));
                rows({at(left, k), a.row}, {panel, b.row}, out, depth, width);
            };
            if (full) g_.loop(0, full, 1, [&](Value* block) { columns(block, p_.block()); });
            if (rest) columns(g_.i64(full), rest);
        });
    }

    struct Panel {
        Value* base;
        int64_t row;
    };

    /// All rows of a block of columns, in stretches that differ by at most one row.
    void rows(Panel a, Panel b, Value* c, Value* depth, int64_t width) {
        if (p_.m * width * std::min(p_.k, p_.k_block) * 4 > kQuickProduct) g_.poll();
        const int64_t count = (p_.m + p_.rows - 1) / p_.rows, large = (p_.m + count - 1) / count, many = p_.m - (large - 1) * count;
        const auto stretch = [&](int64_t from, int64_t to, int64_t rows) {
            g_.loop(from, to, rows, [&](Value* i) {
                block({at(a.base, b_.CreateMul(i, g_.i64(a.row))), a.row}, b, at(c, b_.CreateMul(i, g_.i64(p_.n))), depth, rows, width);
            });
        };
        stretch(0, many * large, large);
        if (large > 1) stretch(many * large, p_.m, large - 1);
    }

    /// The micro-kernel: `rows` x `width` accumulators.
    void block(Panel a, Panel b, Value* c, Value* depth, int64_t rows, int64_t width) {
        const int64_t vectors = (width + p_.lanes - 1) / p_.lanes, tail = width % p_.lanes;
        Value* mask = nullptr;
        if (tail && p_.lanes) mask = b_.CreateICmpSLT(g_.lane_numbers(p_.lanes), g_.splat(g_.i32(tail), p_.lanes));
        const llvm::Align align(p_.bytes);
        const auto place = [&](int64_t r, int64_t v) { return at(c, r * p_.n + v * p_.lanes); };
        const auto masked = [&](int64_t v) { return mask && v + 1 == vectors; };
        std::vector<Value*> sums;
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t v = 0; v < vectors; ++v)
                sums.push_back(masked(v) ? g_.masked_load(vector_, place(r, v), mask, llvm::Constant::getNullValue(vector_), align)
                                         : b_.CreateAlignedLoad(vector_, place(r, v), align));
        sums = g_.loop(g_.i64(0), depth, 1, std::move(sums), [&](Value* k, std::vector<Value*> now) {
            std::vector<Value*> right;
            Value* row = at(b.base, b_.CreateMul(k, g_.i64(b.row)));
            for (int64_t v = 0; v < vectors; ++v) right.push_back(b_.CreateAlignedLoad(vector_, at(row, v * p_.lanes), align));
            for (int64_t r = 0; r < rows; ++r) {
                Value* left = g_.splat(b_.CreateAlignedLoad(element_, at(at(a.base, k), r * a.row), align), p_.lanes);
                for (int64_t v = 0; v < vectors; ++v) {
                    Value*& sum = now[static_cast<size_t>(r * vectors + v)];
                    Value* factor = right[static_cast<size_t>(v)];
                    sum = p_.pairs ? b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpdpwssd_512, {}, {sum, left, factor})
                                   : g_.scalars().raw_fma(chain_, left, factor, sum);
                }
            }
            return now;
        });
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t v = 0; v < vectors; ++v) {
                Value* sum = g_.scalars().settle(chain_, sums[static_cast<size_t>(r * vectors + v)]);
                if (masked(v))
                    g_.masked_store(sum, place(r, v), mask, align);
                else
                    b_.CreateAlignedStore(sum, place(r, v), align);
            }
    }

    /// Two neighbours along k in one element, the first below. Past the end there is nothing: the other operand is zero there.
    void pack_pairs(ir::ValueId v, const Buffer& to, const std::function<Value*(Value* z, Value* row, Value* column)>& place) {
        const Shape& shape = g_.fn().type(v).shape;
        const size_t rows = shape.rank - 2u, columns = rows + 1;
        g_.loop(0, p_.batch, 1, [&](Value* z) {
            g_.loop(0, p_.k, 1, [&](Value* pair) {
                g_.loop(0, p_.n, p_.lanes, [&](Value* column) {
                    Point p = batch_point(z, shape);
                    p.lanes = p_.lanes;
                    p.index[columns] = {Index::consecutive, column, p_.lanes};
                    if (p_.n % p_.lanes) p.active = below(column, p_.n);
                    Value* halves[2];
                    for (int64_t h = 0; h < 2; ++h) {
                        Value* k = b_.CreateAdd(b_.CreateMul(pair, g_.i64(2)), g_.i64(h));
                        p.index[rows] = g_.uniform(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, k, g_.i64(p_.depth - 1)));
                        halves[h] = to_chain(g_.lanes(v, p), g_.fn().elem(v), p.lanes);
                    }
                    Value* low = b_.CreateAnd(halves[0], g_.splat(g_.i32(0xffff), p_.lanes));
                    Value* both = b_.CreateOr(low, b_.CreateShl(halves[1], g_.splat(g_.i32(16), p_.lanes)));
                    b_.CreateAlignedStore(both, at(to.base, place(z, pair, column)), llvm::Align(4));
                });
            });
        });
    }

    Point batch_point(Value* z, const Shape& shape) {
        Point p;
        p.rank = shape.rank;
        for (size_t d = shape.rank - 2u; d-- > 0; z = b_.CreateUDiv(z, g_.i64(shape[d]))) p.index[d] = g_.uniform(b_.CreateURem(z, g_.i64(shape[d])));
        return p;
    }

    /// Lanes of a row from `at` on that lie below `extent`.
    Value* below(Value* at, int64_t extent) {
        Value* left = b_.CreateTrunc(b_.CreateSub(g_.i64(extent), at), b_.getInt32Ty());
        return b_.CreateICmpSLT(g_.lane_numbers(g_.width()), g_.splat(left, g_.width()));
    }

    Codegen& g_;
    llvm::IRBuilder<>& b_;
    const ir::InstId id_;
    const Product p_;
    const Format& chain_;
    llvm::Type *element_, *vector_;
    llvm::Type* const half_ = llvm::FixedVectorType::get(b_.getInt16Ty(), p_.lanes);
};

/// Accumulators in a format of their own: rounded after every step, element by element along the rows.
static void product_by_steps(Codegen& g, ir::InstId id) {
    const ir::Function& fn = g.fn();
    const auto operands = fn.operands(fn.inst(id));
    const ir::ValueId result = fn.result(fn.inst(id));
    const Format& f = fn.elem(result);
    const Shape shape = fn.type(result).shape;
    const size_t r = shape.rank;
    g.nest(shape, [&](const Point& p) {
        const auto sums = g.loop(g.i64(0), g.i64(fn.type(operands[0]).shape[r - 1]), 1, {g.lanes(operands[2], p)},
                                 [&](Value* k, std::vector<Value*> now) -> std::vector<Value*> {
                                     Point a = p, b = p;
                                     a.index[r - 1] = b.index[r - 2] = g.uniform(k);
                                     Value* left = g.scalars().cast(g.lanes(operands[0], a), fn.elem(operands[0]), f);
                                     Value* right = g.scalars().cast(g.lanes(operands[1], b), fn.elem(operands[1]), f);
                                     if (f.is_float()) return {g.scalars().elementwise(Op::fma, f, std::array{left, right, now[0]})};
                                     Value* product = g.scalars().elementwise(Op::mul, f, std::array{left, right});
                                     return {g.scalars().elementwise(Op::add, f, std::array{now[0], product})};
                                 });
        g.write(g.buffer(result), p, sums[0]);
    });
}

void Codegen::poll() {
    call_support(offsetof(Support, tick), b_.getVoidTy(), {});
    Value* stop = b_.CreateAlignedLoad(b_.getPtrTy(), b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), state_, offsetof(State, stop)), llvm::Align(8));
    auto* flag = b_.CreateAlignedLoad(b_.getInt32Ty(), stop, llvm::Align(4));
    flag->setAtomic(llvm::AtomicOrdering::Monotonic);
    auto* on = llvm::BasicBlock::Create(context_, "on", function_);
    b_.CreateCondBr(b_.CreateICmpNE(flag, i32(0)), leave_, on);
    b_.SetInsertPoint(on);
}

void Codegen::cpu_dot(ir::InstId id) {
    const Product p = plan_product(fn_, fn_.inst(id), target_.vector_bytes, &plan_, target_.vnni && target_.vector_bytes == 64);
    if (p.chain == Product::steps) return product_by_steps(*this, id);
    ProductEmitter(*this, id, p).run();
}

}  // namespace tegula::cpu
