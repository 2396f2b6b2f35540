// dot: the micro-kernel and what goes around it (product_emitter.h). Per element one chain of fma in the order of k, across passes too: partial sums
// go through memory exactly as they are.
#include "jit/cpu/product_emitter.h"

#include <algorithm>
#include <cstddef>

#include <llvm/IR/IntrinsicsX86.h>

#include "jit/cpu/product_few.h"

namespace tegula::cpu {

using ir::Op;
using llvm::Value;

namespace {

Fmt format_of(Product::Chain chain) {
    static constexpr Fmt kFormats[] = {Fmt::f32, Fmt::f64, Fmt::i32, Fmt::i64};
    return kFormats[chain];
}

}  // namespace

ProductEmitter::ProductEmitter(Codegen& g, ir::InstId id, const Product& p, Value* live)
    : g_(g),
      b_(g.b()),
      id_(id),
      p_(p),
      live_(live),
      chain_(g.fn().types().format(id_of(format_of(p.chain)))),
      element_(g.scalars().type(chain_, 0)),
      vector_(g.scalars().type(chain_, p.lanes)),
      next_(g, id, g.fn().operands(g.fn().inst(id)).first(2), p.work_bytes() + static_cast<uint64_t>(p.batch * p.m * p.n) * p.bytes) {}

void ProductEmitter::run() {
    const ir::Inst& inst = g_.fn().inst(id_);
    const auto operands = g_.fn().operands(inst);
    if (p_.watched())
        for (Value*& least : least_) {
            llvm::Type* type = llvm::FixedVectorType::get(b_.getInt16Ty(), g_.width());
            least = g_.local(type);
            b_.CreateAlignedStore(llvm::Constant::getAllOnesValue(type), least, llvm::Align(2 * g_.width()));
        }
    const Operand a = left(operands[0]);
    if (p_.stretch()) pack_scales();
    if (p_.few) return few(a, operands);
    const Operand b = right(operands[1]);
    const Buffer c = accumulators(operands[2]);
    if (p_.watched()) safe_ = products_are_safe();
    next_.begin(p_.batch * ((p_.k + p_.k_block - 1) / p_.k_block) * p_.n_blocks * ((p_.m + p_.rows - 1) / p_.rows));
    if (p_.tiles() && p_.same_tiles()) configure_tiles(p_.rows, p_.block());
    g_.loop(0, p_.batch, 1, [&](Value* z) { passes(z, a, b, c); });
    if (p_.tiles()) b_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
    finish(c);
}

/// Nothing is packed on the right.
void ProductEmitter::few(const Operand& a, std::span<const ir::ValueId> operands) {
    const ir::ValueId right = operands[1];
    const Buffer c = accumulators(operands[2]);
    const auto factor = [&](Value* v, unsigned lanes) { return to_chain(v, g_.fn().elem(right), lanes); };
    const auto steps = [&](Value* sum, Value* x, Value* y) { return step(sum, x, y); };
    const auto add = [&](Value* k, Value* column, Values sums, const Values& stretch) {
        return add_scaled(k, g_.i64(0), column, std::move(sums), stretch, p_.m);
    };
    const auto scale = p_.stretch() ? add : decltype(FewRows::scale){};
    g_.loop(0, p_.batch, 1, [&](Value* z) {
        Value *rows = at(a.base, b_.CreateMul(z, g_.i64(a.batch))), *sums = at(c.base, b_.CreateMul(z, g_.i64(p_.m * p_.n)));
        few_rows(g_, id_, p_, {chain_, batch_point(z, g_.fn().type(right).shape), rows, a.row, sums, factor, steps, scale});
    });
    finish(c);
}

/// The results' buffer, or one of wider elements. The accumulators are put into it, or left to the blocks that add to them, each its own, which the
/// first-level cache holds: not those that read tensors, whose masks only whole rows can do without.
Buffer ProductEmitter::accumulators(ir::ValueId acc) {
    const ir::ValueId result = g_.fn().result(g_.fn().inst(id_));
    const Shape& shape = g_.fn().type(acc).shape;
    const Buffer c = p_.c_bytes ? g_.work(id_, p_.a_bytes + p_.b_bytes, chain_, shape) : g_.buffer(result);
    if (!p_.c_bytes && g_.shares_buffer(acc, result)) return c;
    const auto reads_tensor = [](const ir::Inst& inst) { return inst.op == Op::load || inst.op == Op::ptr_load; };
    in_blocks_ = !p_.few && p_.lanes == g_.width() && !g_.evaluates(acc, reads_tensor);
    if (!in_blocks_) g_.nest(shape, [&](const Point& p) { put_accumulator(c, p); });
    return c;
}

void ProductEmitter::put_accumulator(const Buffer& c, const Point& p) {
    const ir::ValueId acc = g_.fn().operands(g_.fn().inst(id_))[2];
    Value* v = g_.lanes(acc, p);
    const Format& f = g_.fn().elem(acc);
    g_.write(c, p, !p_.c_bytes ? v : p_.stretch() ? g_.scalars().cast(v, f, chain_) : to_chain(v, f, p.lanes));
}

/// Those of one block, from the point of its first element on.
void ProductEmitter::put_accumulators(const Buffer& c, Point first, int64_t rows, int64_t width) {
    Index &row = first.index[first.rank - 2u], &column = first.index[first.rank - 1u];
    Value *top = row.value, *left = column.value;
    first.lanes = p_.lanes;
    g_.loop(0, rows, 1, [&](Value* r) {
        row = g_.uniform(b_.CreateAdd(top, r));
        for (int64_t v = 0; v < width; v += p_.lanes) {
            column = {Index::consecutive, b_.CreateAdd(left, g_.i64(v)), p_.lanes};
            first.active = v + p_.lanes > width ? below(column.value, p_.n, p_.lanes) : nullptr;
            put_accumulator(c, first);
        }
    });
}

/// Integers go back to the width of their format, and floats that hold values of another to its codes.
void ProductEmitter::finish(const Buffer& c) {
    const ir::ValueId result = g_.fn().result(g_.fn().inst(id_));
    const Format& f = g_.fn().elem(result);
    if (!p_.c_bytes && (!f.is_int() || f.bits == p_.bytes * 8)) return;
    const Buffer to = g_.buffer(result);
    g_.nest(to.shape, [&](const Point& p) { g_.write(to, p, g_.scalars().cast(g_.read(c, p), chain_, f)); });
}

void ProductEmitter::passes(Value* z, const Operand& a, const Operand& b, const Buffer& c) {
    Value* left = at(a.base, b_.CreateMul(z, g_.i64(a.batch)));
    Value* right = at(b.base, b_.CreateMul(z, g_.i64(b.batch)));
    Value* sums = at(c.base, b_.CreateMul(z, g_.i64(p_.m * p_.n)));
    g_.loop(0, p_.k, p_.k_block, [&](Value* k) {
        Value* depth = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateSub(g_.i64(p_.k), k), g_.i64(p_.k_block));
        first_.k = k;
        const int64_t full = p_.n / p_.block(), rest = p_.n - full * p_.block();
        const auto columns = [&](Value* block, int64_t width) {
            const Panel panel{at(at(right, b_.CreateMul(block, g_.i64(b.panel))), b_.CreateMul(k, g_.i64(b.row))), b.row};
            first_.column = b_.CreateMul(block, g_.i64(p_.block()));
            Value* out = at(sums, first_.column);
            const Values less = p_.offset ? shifted_products(panel, depth, (width + p_.lanes - 1) / p_.lanes) : Values{};
            const auto start = [&](Value* row, int64_t count) {
                if (!in_blocks_) return;
                Point first = batch_point(z, c.shape);
                first.index[first.rank - 2u] = g_.uniform(row);
                first.index[first.rank - 1u] = g_.uniform(first_.column);
                g_.when(b_.CreateICmpEQ(k, g_.i64(0)), [&] { put_accumulators(c, first, count, width); });
            };
            rows({at(left, k), a.row}, panel, out, depth, width, less, start);
        };
        if (full) g_.loop(0, full, 1, [&](Value* block) { columns(block, p_.block()); });
        if (rest) columns(g_.i64(full), rest);
    });
}

/// What left bytes that are 128 too large add to the sums of each column.
ProductEmitter::Values ProductEmitter::shifted_products(Panel b, Value* depth, int64_t vectors) {
    Values zeros(static_cast<size_t>(vectors), llvm::Constant::getNullValue(vector_));
    return g_.loop(g_.i64(0), depth, 1, std::move(zeros), [&](Value* k, Values now) {
        Value* row = at(b.base, b_.CreateMul(k, g_.i64(b.row)));
        for (int64_t v = 0; v < vectors; ++v) {
            Value*& sum = now[static_cast<size_t>(v)];
            sum = step(sum, g_.splat(g_.i32(0x80808080), p_.lanes), b_.CreateAlignedLoad(vector_, at(row, v * p_.lanes), llvm::Align(p_.bytes)));
        }
        return now;
    });
}

/// The end of rows below `to` that somebody sees.
Value* ProductEmitter::live(int64_t to) { return live_ ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, live_, g_.i64(to)) : g_.i64(to); }

/// All rows of a block of columns, in stretches that differ by at most one row.
void ProductEmitter::rows(Panel a, Panel b, Value* c, Value* depth, int64_t width, const Values& less, const Start& start) {
    const int64_t count = (p_.m + p_.rows - 1) / p_.rows, large = (p_.m + count - 1) / count, many = p_.m - (large - 1) * count;
    const auto stretch = [&](int64_t from, int64_t to, int64_t rows) {
        if (from == to) return;
        if (p_.tiles() && !p_.same_tiles()) configure_tiles(rows, width);
        g_.loop(g_.i64(from), live(to), rows, {}, [&](Value* i, Values) {
            next_.fetch_some();
            start(i, rows);
            first_.row = i;
            const Panel left{at(a.base, b_.CreateMul(i, g_.i64(a.row))), a.row};
            Value* sums = at(c, b_.CreateMul(i, g_.i64(p_.n)));
            if (p_.tiles())
                tiles(left, b, sums, depth, rows, width);
            else if (p_.stretch())
                scaled_block(left, b, sums, depth, rows, width);
            else
                block(left, b, sums, depth, rows, width, less);
            return Values{};
        });
    };
    stretch(0, many * large, large);
    stretch(many * large, p_.m, large - 1);
}

/// The micro-kernel: `rows` x `width` accumulators.
void ProductEmitter::block(Panel a, Panel b, Value* c, Value* depth, int64_t rows, int64_t width, const Values& less) {
    const int64_t vectors = (width + p_.lanes - 1) / p_.lanes;
    Values sums;
    each_sums(c, rows, width, [&](size_t i, Value* at, Value* mask) {
        sums.push_back(load_sums(at, mask));
        if (p_.offset) sums.back() = b_.CreateSub(sums.back(), less[i % static_cast<size_t>(vectors)]);
    });
    sums = products(a, b, depth, rows, std::move(sums));
    each_sums(c, rows, width, [&](size_t i, Value* at, Value* mask) { store_sums(sums[i], at, mask); });
}

/// The vectors of a block, the last of each row masked if it is not whole.
void ProductEmitter::each_sums(Value* c, int64_t rows, int64_t width, const std::function<void(size_t i, Value* at, Value* mask)>& body) {
    const int64_t vectors = (width + p_.lanes - 1) / p_.lanes, tail = width % p_.lanes;
    Value* mask = tail ? b_.CreateICmpSLT(g_.lane_numbers(p_.lanes), g_.splat(g_.i32(tail), p_.lanes)) : nullptr;
    for (int64_t i = 0; i < rows * vectors; ++i) {
        const int64_t v = i % vectors;
        body(static_cast<size_t>(i), at(c, i / vectors * p_.n + v * p_.lanes), v + 1 == vectors ? mask : nullptr);
    }
}

Value* ProductEmitter::load_sums(Value* from, Value* mask) {
    const llvm::Align align(p_.bytes);
    return mask ? g_.masked_load(vector_, from, mask, llvm::Constant::getNullValue(vector_), align) : b_.CreateAlignedLoad(vector_, from, align);
}

void ProductEmitter::store_sums(Value* sums, Value* to, Value* mask) {
    const llvm::Align align(p_.bytes);
    sums = g_.scalars().settle(chain_, sums);
    mask ? g_.masked_store(sums, to, mask, align) : static_cast<void>(b_.CreateAlignedStore(sums, to, align));
}

/// `depth` steps of k, several at once where that gives the same sums.
ProductEmitter::Values ProductEmitter::products(Panel a, Panel b, Value* depth, int64_t rows, Values sums) {
    if (!p_.watched()) return chains(a, b, depth, rows, std::move(sums), true);
    Value* quick = b_.CreateSelect(b_.CreateAnd(safe_, sums_are_safe(sums)), depth, g_.i64(0));
    sums = chains(a, b, quick, rows, std::move(sums), true);
    return chains(a, b, b_.CreateSub(depth, quick), rows, std::move(sums), false);
}

/// `depth` steps of k on rows x vectors sums.
ProductEmitter::Values ProductEmitter::chains(Panel a, Panel b, Value* depth, int64_t rows, Values sums, bool by_row) {
    const int64_t vectors = static_cast<int64_t>(sums.size()) / rows;
    const llvm::Align align(p_.bytes);
    return g_.loop(g_.i64(0), depth, 1, std::move(sums), [&](Value* k, Values now) {
        Values right;
        Value* row = at(b.base, b_.CreateMul(k, g_.i64(b.row)));
        for (int64_t v = 0; v < vectors; ++v) right.push_back(b_.CreateAlignedLoad(vector_, at(row, v * p_.lanes), align));
        for (int64_t r = 0; r < rows; ++r) {
            Value* left = g_.splat(b_.CreateAlignedLoad(element_, at(at(a.base, k), r * a.row), align), p_.lanes);
            for (int64_t v = 0; v < vectors; ++v) {
                Value*& sum = now[static_cast<size_t>(r * vectors + v)];
                sum = by_row ? step(sum, left, right[static_cast<size_t>(v)]) : step_apart(sum, left, right[static_cast<size_t>(v)]);
            }
        }
        return now;
    });
}

/// How many of the m rows of a product's result somebody may see; null: all.
Value* Codegen::live_rows(ir::InstId dot, int64_t m) {
    if (options_.checked) return nullptr;  // checks look at all elements
    if (!kept_rows_) kept_rows_ = std::make_unique<KeptRows>(fn_);
    const auto limits = kept_rows_->of(dot, fn_.type(fn_.result(fn_.inst(dot))).shape.rank - 2u);
    if (!limits) return nullptr;
    Value* live = i64(0);
    for (const RowLimit& limit : *limits)
        live = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, live, b_.CreateSub(extent(limit.tensor, limit.axis), scalar(limit.start)));
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, live, i64(m));
}

void Codegen::cpu_dot(ir::InstId id) {
    const Product p = plan_product(fn_, fn_.inst(id), target_.vectors, &plan_);
    if (p.chain == Product::steps) return product_by_steps(*this, id);
    Value* const live = p.m > 1 ? live_rows(id, p.m) : nullptr;
    Value* done = i64(0);
    if (live)
        for (const Product& some : smaller_products(p, fn_, fn_.inst(id), target_.vectors, &plan_)) {
            when(b_.CreateAnd(b_.CreateICmpSGT(live, done), b_.CreateICmpSLE(live, i64(some.m))), [&] { ProductEmitter(*this, id, some).run(); });
            done = i64(some.m);
        }
    if (done == i64(0)) return ProductEmitter(*this, id, p, live).run();
    when(b_.CreateICmpSGT(live, done), [&] { ProductEmitter(*this, id, p, live).run(); });
}

}  // namespace tegula::cpu
