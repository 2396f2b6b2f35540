// Products without tensor cores: operands go through scratch in slabs of K, and every thread sums into its accumulator
// registers: ascending chains of fma, of elements that are already in the accumulator's format, or dp4a, of words of
// four bytes along K.
#include "lang/gpu/scratch.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

void lower_dot(Lowering& ctx, ir::InstId id) {
    const MmaRow& row = product_row(ctx.fn, id);
    if (row.kind == MmaRow::mma) return mma_product(ctx, id);
    if (row.kind == MmaRow::wgmma) return wgmma_product(ctx, id);
    if (row.kind == MmaRow::tcgen05) return tcgen05_product(ctx, id);
    thread_product(ctx, id);
}

void lower_dot_scaled(Lowering& ctx, ir::InstId id) {
    const MmaRow& row = product_row(ctx.fn, id);
    if (row.kind == MmaRow::mma) return mma_product(ctx, id);
    if (row.kind == MmaRow::wgmma) return wgmma_product(ctx, id);
    TEGULA_CHECK(row.kind == MmaRow::fma, "no scales in tensor memory");
    scaled_fma_product(ctx, id);
}

/// An element as the chain takes it: in the accumulator's format. What f64 does not hold exactly is rounded to it
/// first, as the interpreter does.
std::string factor(Lowering& ctx, ir::ValueId v, const Format& to, bool tf32, const std::string& element) {
    const auto cast = [&](const Format& t, const Format& f, const std::string& x, Round round = Round::rne) {
        return t == f ? x : ctx.formats.cast(t, f, x, {.round = round});
    };
    const Format& f = ctx.fn.elem(v);
    std::string x;
    if (to.is_float() && ((f.is_int() && f.bits > 53) || f.kind == FormatKind::lns)) {
        const Format& f64 = ctx.fn.types().format(id_of(Fmt::f64));
        x = cast(to, f64, cast(f64, f, element));
    } else {
        x = cast(to, f, element);
    }
    if (!tf32) return x;
    const Format& narrow = ctx.fn.types().format(id_of(Fmt::tf32));
    return cast(to, narrow, cast(narrow, to, x, Round::rna));
}

Ex clamped(Lowering& ctx, ir::ValueId v, size_t d, Ex r) {
    const Ex c = coordinate(ctx, layout(ctx, v), static_cast<int>(d), r),
             last = ctx.pool.number(layout(ctx, v).shape[d] - 1);
    return ctx.pool.select(gt(c, last), last, c);
}

namespace {

/// A slab while it is filled.
class SlabWriter {
public:
    SlabWriter(Lowering& ctx, const Slab& slab, Ex first)
        : ctx_(ctx), slab_(slab), shape_(ctx.fn.type(slab.tile).shape), other_(2 * shape_.rank - 3u - slab.k) {
        for (size_t d = 0; d + 2 < shape_.rank; ++d) laid_.push(shape_[d]);
        laid_.push((slab.count + slab.per - 1) / slab.per);
        laid_.push(shape_[other_]);
        whole_ = slab.count == shape_[slab.k];
        start_ = whole_ ? ctx.pool.number(0) : first;
    }
    using Value = std::function<std::string(const std::string&)>;

    void from_shared(const Value& value) const {
        const std::string e = ctx_.out.fresh("e");
        const Ex kk = int32(ctx_, ctx_.out.fresh("k"));
        open_elements(ctx_, e, laid_.elements() * slab_.per);
        const Ex number = ctx_.pool.counter(e, laid_.elements() * slab_.per);
        const std::vector<Ex> in_slab = coordinates_in(laid_, number / slab_.per);
        std::vector<Ex> c(in_slab.begin(), in_slab.end());
        c[other_] = in_slab[shape_.rank - 1u];
        ctx_.out.let("int", kk.text(), start_ + in_slab[shape_.rank - 2u] * slab_.per + number % slab_.per);
        c[slab_.k] = kk;
        const std::string element =
            value("*(const " + type_of(ctx_, slab_.tile) + "*)(" + name(ctx_, slab_.tile) + " + " +
                  shared_address(ctx_, ctx_.fn.placement(slab_.tile).smem, c).atom() + ")");
        const bool filled = slab_.count % slab_.per != 0 || !whole_;
        const Ex inside = filled ? lt(kk, shape_[slab_.k]) : ctx_.pool.truth(true);
        ctx_.out.assign(at(int32(ctx_, e)), spelled(ctx_, chosen(inside, element, "0")));
        ctx_.out.close();
    }
    void from_registers(const Value& value) const {
        const TileLayout& l = layout(ctx_, slab_.tile);
        if (slab_.per == 4 && vector_width(l, static_cast<int>(slab_.k)) >= 4 && shape_[slab_.k] % 4 == 0) {
            return each(ctx_, registers(ctx_, slab_.tile) / 4, [&](Ex group) {
                const Ex r = group * 4;
                const std::vector<Ex> c = coordinates_of(ctx_, slab_.tile, r);
                const auto byte = [&](int i) { return text_at(ctx_, slab_.tile, r + i); };
                const Ex word = spelled(ctx_, word_of(ctx_, {byte(0), byte(1), byte(2), byte(3)}));
                ctx_.out.when(mine(r, c));
                ctx_.out.assign(pointee("unsigned", pointer() + number(c)), word);
            });
        }
        each_register(ctx_, slab_.tile, [&](Ex r) {
            const std::vector<Ex> c = coordinates_of(ctx_, slab_.tile, r);
            const Ex element = spelled(ctx_, value(text_at(ctx_, slab_.tile, r)));
            ctx_.out.when(mine(r, c));
            ctx_.out.assign(at(number(c)), element);
        });
        add_zeros();
    }

private:
    Ex pointer() const { return ctx_.pool.text(kernel::Type::other, slab_.pointer, true); }
    Ex at(Ex number) const { return ctx_.pool.index(kernel::Type::other, pointer(), number); }
    Ex number(const std::vector<Ex>& c) const {
        std::vector<Ex> place(c.begin(), c.end() - 2);
        const Ex from_first = c[slab_.k] - start_;
        place.push_back(from_first / slab_.per);
        place.push_back(c[other_]);
        return number_of(ctx_, laid_, place) * slab_.per + from_first % slab_.per;
    }
    Ex mine(Ex r, const std::vector<Ex>& c) const {
        const Ex own = owns(ctx_, layout(ctx_, slab_.tile), r);
        return whole_ ? own : both(own, lt(u32(c[slab_.k] - start_), slab_.count));
    }
    /// Behind the last element along k.
    void add_zeros() const {
        const int64_t extent = shape_[slab_.k], beyond = (slab_.per - extent % slab_.per) % slab_.per;
        if (beyond == 0) return;
        if (!whole_) ctx_.out.open_if(ge(start_ + slab_.count, extent));
        const std::string e = ctx_.out.fresh("e");
        open_elements(ctx_, e, laid_.elements() / laid_[laid_.rank - 2u] * beyond);
        std::vector<Ex> c(shape_.rank);
        const Ex element = int32(ctx_, e);
        int64_t below = beyond;
        for (size_t d = shape_.rank; d-- > 0;) {
            if (d + 2 == shape_.rank) continue;
            const size_t to = d + 1 == shape_.rank ? other_ : d;
            c[to] = element / below % shape_[to];
            below *= shape_[to];
        }
        c[slab_.k] = element % beyond + extent;
        ctx_.out.assign(at(number(c)), ctx_.pool.number(0));
        ctx_.out.close();
        if (!whole_) ctx_.out.close();
    }

    Lowering& ctx_;
    const Slab& slab_;
    const Shape& shape_;
    size_t other_;
    Shape laid_;
    bool whole_;
    Ex start_;
};

}  // namespace

void stage_slab(Lowering& ctx, const Slab& slab, Ex first,
                const std::function<std::string(const std::string&)>& value) {
    const SlabWriter writer(ctx, slab, first);
    in_registers(ctx, slab.tile) ? writer.from_registers(value) : writer.from_shared(value);
}

/// Function of one dp4a: sum + the products of four pairs of bytes.
std::string dp4a_function(Lowering& ctx, const MmaRow& row) {
    const std::string a = row.a == Fmt::i8 ? "s32" : "u32", b = row.b == Fmt::i8 ? "s32" : "u32";
    return support(ctx, "dp4a " + a + " " + b, "dp4a",
                   "__device__ __forceinline__ int $(unsigned a, unsigned b, int sum) {\n    asm(\"dp4a." + a + "." +
                       b + " %0, %1, %2, %0;\" : \"+r\"(sum) : \"r\"(a), \"r\"(b));\n    return sum;\n}\n");
}

void thread_product(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const MmaRow& row = product_row(ctx.fn, id);
    const auto in = ctx.fn.operands(inst);
    const ir::ValueId to = ctx.fn.result(inst);
    const Format& f = ctx.fn.elem(to);
    const size_t rank = ctx.fn.type(to).shape.rank;
    const int64_t k = ctx.fn.type(in[0]).shape[rank - 1];
    const bool words = row.kind == MmaRow::dp4a;
    const bool tf32 = static_cast<ir::Precision>(ctx.fn.attrs(inst)[0]) == ir::Precision::tf32 &&
                      f == ctx.fn.types().format(id_of(Fmt::f32));
    const int64_t slab = dot_slab(ctx.fn, id), steps = (slab + row.k - 1) / row.k;
    const ScratchPlan plan = scratch_plan(ctx.fn, id);
    accumulate_in(ctx, to, in[2], nullptr);
    ctx.out.open_block();
    const Ex first = int32(ctx, ctx.out.fresh("first")), kk = int32(ctx, ctx.out.fresh("k")),
             count = int32(ctx, ctx.out.fresh("count"));
    std::string areas[2];
    for (const size_t i : {0u, 1u})
        if (!reads_words(ctx.fn, id, i))
            areas[i] = scratch_area(ctx, id, words ? "unsigned" : type_of(ctx, to), plan.work[i]);
    if (slab < k) {
        ctx.out.open_for({"int", first.text(), ctx.pool.number(0), lt(first, k), {counted(first, slab)}, 1, {}});
        ctx.out.open_if(gt(first, 0));
        sync(ctx);
        ctx.out.close();
        const Ex left = ctx.pool.number(k) - first;
        ctx.out.let("int", count.text(), ctx.pool.select(lt(left, slab), left, ctx.pool.number(slab)));
    } else {
        ctx.out.let("int", first.text(), ctx.pool.number(0));
        ctx.out.let("int", count.text(), ctx.pool.number(slab));
    }
    for (const size_t i : {0u, 1u}) {
        if (areas[i].empty()) continue;
        const std::string area = words ? "((unsigned char*)" + areas[i] + ")" : areas[i];
        stage_slab(ctx, {in[i], rank - 1 - i, slab, row.k, area}, first,
                   [&](const std::string& x) { return words ? x : factor(ctx, in[i], f, tf32, x); });
    }
    sync(ctx);
    ctx.out.open_for({"int",
                      kk.text(),
                      ctx.pool.number(0),
                      lt(kk, words ? (count + 3) / 4 : count),
                      {kernel::increment(kk)},
                      1,
                      {}});
    // The factor of operand i for a register of the result: an element of it, or a word.
    const auto taken = [&](size_t i, Ex r) {
        std::vector<Ex> c;
        for (size_t d = 0; d < rank; ++d) c.push_back(clamped(ctx, to, d, r));
        const size_t other = rank - 2 + i;
        if (areas[i].empty()) {
            c[rank - 1 - i] = first + kk * 4;
            return "*(const unsigned*)(" + name(ctx, in[i]) + " + " +
                   shared_address(ctx, ctx.fn.placement(in[i]).smem, c).atom() + ")";
        }
        Shape laid;
        for (size_t d = 0; d + 2 < rank; ++d) laid.push(ctx.fn.type(to).shape[d]);
        laid.push(steps);
        laid.push(ctx.fn.type(to).shape[other]);
        std::vector<Ex> place(c.begin(), c.end() - 2);
        place.push_back(kk);
        place.push_back(c[other]);
        return areas[i] + "[" + number_of(ctx, laid, place).text() + "]";
    };
    each_register(ctx, to, [&](Ex r) {
        const std::string x = taken(0, r), y = taken(1, r);
        const Ex sum = element_at(ctx, to, r);
        ctx.out.assign(sum, spelled(ctx, words ? dp4a_function(ctx, row) + "(" + x + ", " + y + ", " + sum + ")"
                                               : ctx.formats.fma(f, x, y, sum.text())));
    });
    ctx.out.close();
    if (slab < k) ctx.out.close();
    ctx.out.close();
}

}  // namespace tegula::lower
