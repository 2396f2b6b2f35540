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
        return t == f ? x : ctx.formats.cast(t, f, x, round, Overflow::automatic);
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

void stage_slab(Lowering& ctx, ir::ValueId v, const std::string& pointer, size_t k, const std::string& first,
                int64_t slab, int per, const std::function<std::string(const std::string&)>& value) {
    const Shape& shape = ctx.fn.type(v).shape;
    const size_t other = 2 * shape.rank - 3u - k;
    Shape laid;  // [batch .., slab / per, other], of `per` elements each
    for (size_t d = 0; d + 2 < shape.rank; ++d) laid.push(shape[d]);
    laid.push((slab + per - 1) / per);
    laid.push(shape[other]);
    const bool whole = slab == shape[k], filled = slab % per != 0 || !whole;
    const Ex start = whole ? ctx.pool.number(0) : int32(ctx, first), last = ctx.pool.number(shape[k]);
    const auto number = [&](const std::vector<Ex>& c) {
        std::vector<Ex> at(c.begin(), c.end() - 2);
        const Ex from_first = c[k] - start;
        at.push_back(from_first / per);
        at.push_back(c[other]);
        return number_of(ctx, laid, at) * per + from_first % per;
    };
    if (!in_registers(ctx, v)) {
        const std::string e = ctx.out.fresh("e"), kk = ctx.out.fresh("k");
        open_elements(ctx, e, laid.elements() * per);
        const Ex number_of_element = ctx.pool.counter(e, laid.elements() * per);
        const std::vector<Ex> in_slab = coordinates_in(laid, number_of_element / per);
        std::vector<Ex> c(in_slab.begin(), in_slab.end());
        c[other] = in_slab[shape.rank - 1u];
        ctx.out.line("const int " + kk + " = " +
                     (int32(ctx, first) + in_slab[shape.rank - 2u] * per + number_of_element % per).text() + ";");
        c[k] = int32(ctx, kk);
        const std::string element = value("*(const " + type_of(ctx, v) + "*)(" + name(ctx, v) + " + " +
                                          shared_address(ctx, ctx.fn.placement(v).smem, c).atom() + ")");
        ctx.out.line(pointer + "[" + e + "] = " + chosen(filled ? lt(c[k], last) : ctx.pool.truth(true), element, "0") +
                     ";");
        return ctx.out.close();
    }
    const auto mine = [&](Ex r, Ex in_k) {
        return whole ? owns(ctx, layout(ctx, v), r) : both(owns(ctx, layout(ctx, v), r), lt(u32(in_k - start), slab));
    };
    if (per == 4 && vector_width(layout(ctx, v), static_cast<int>(k)) >= 4 && shape[k] % 4 == 0) {
        each(ctx, registers(ctx, v) / 4, [&](Ex group) {
            const Ex r = group * 4;
            const std::vector<Ex> c = coordinates_of(ctx, v, r);
            const std::string word =
                word_of(ctx, {at(ctx, v, r), at(ctx, v, r + 1), at(ctx, v, r + 2), at(ctx, v, r + 3)});
            line_if(ctx, mine(r, c[k]), "*(unsigned*)(" + pointer + " + " + number(c) + ") = " + word + ";");
        });
        return;
    }
    each_register(ctx, v, [&](Ex r) {
        const std::vector<Ex> c = coordinates_of(ctx, v, r);
        line_if(ctx, mine(r, c[k]), pointer + "[" + number(c).text() + "] = " + value(at(ctx, v, r)) + ";");
    });
    const int64_t beyond = (per - shape[k] % per) % per;
    if (beyond == 0) return;
    if (!whole) ctx.out.open("if (" + ge(start + slab, last).text() + ")");
    const std::string e = ctx.out.fresh("e");
    open_elements(ctx, e, laid.elements() / laid[laid.rank - 2u] * beyond);
    std::vector<Ex> c(shape.rank);
    const Ex number_of_element = int32(ctx, e);
    int64_t below = beyond;
    for (size_t d = shape.rank; d-- > 0;) {
        if (d + 2 == shape.rank) continue;
        const size_t to = d + 1 == shape.rank ? other : d;
        c[to] = number_of_element / below % shape[to];
        below *= shape[to];
    }
    c[k] = number_of_element % beyond + last;
    ctx.out.line(pointer + "[" + number(c).text() + "] = 0;");
    ctx.out.close();
    if (!whole) ctx.out.close();
}

/// Function of one dp4a: sum + the products of four pairs of bytes.
std::string dp4a_function(Lowering& ctx, const MmaRow& row) {
    const std::string a = row.a == Fmt::i8 ? "s32" : "u32", b = row.b == Fmt::i8 ? "s32" : "u32";
    return support(ctx, "dp4a " + a + " " + b, "dp4a",
                           "__device__ __forceinline__ int $(unsigned a, unsigned b, int sum) {\n    asm(\"dp4a." + a +
                               "." + b +
                               " %0, %1, %2, %0;\" : \"+r\"(sum) : \"r\"(a), \"r\"(b));\n    return sum;\n}\n");
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
    ctx.out.open("");
    const std::string first = ctx.out.fresh("first"), kk = ctx.out.fresh("k"), count = ctx.out.fresh("count"),
                      slab_text = std::to_string(slab);
    std::string areas[2];
    for (const size_t i : {0u, 1u})
        if (!reads_words(ctx.fn, id, i))
            areas[i] = scratch_area(ctx, id, words ? "unsigned" : type_of(ctx, to), plan.work[i]);
    if (slab < k) {
        ctx.out.line("#pragma unroll 1");
        ctx.out.open("for (int " + first + " = 0; " + first + " < " + std::to_string(k) + "; " + first +
                     " += " + slab_text + ")");
        ctx.out.open("if (" + first + " > 0)");
        sync(ctx);
        ctx.out.close();
        ctx.out.line("const int " + count + " = " + std::to_string(k) + " - " + first + " < " + slab_text + " ? " +
                     std::to_string(k) + " - " + first + " : " + slab_text + ";");
    } else {
        ctx.out.line("const int " + first + " = 0, " + count + " = " + slab_text + ";");
    }
    for (const size_t i : {0u, 1u})
        if (!areas[i].empty())
            stage_slab(ctx, in[i], words ? "((unsigned char*)" + areas[i] + ")" : areas[i], rank - 1 - i, first, slab,
                       row.k, [&](const std::string& x) { return words ? x : factor(ctx, in[i], f, tf32, x); });
    sync(ctx);
    ctx.out.line("#pragma unroll 1");
    ctx.out.open("for (int " + kk + " = 0; " + kk + " < " + (words ? "(" + count + " + 3) / 4" : count) + "; ++" + kk +
                 ")");
    // The factor of operand i for a register of the result: an element of it, or a word.
    const auto taken = [&](size_t i, Ex r) {
        std::vector<Ex> c;
        for (size_t d = 0; d < rank; ++d) c.push_back(clamped(ctx, to, d, r));
        const size_t other = rank - 2 + i;
        if (areas[i].empty()) {
            c[rank - 1 - i] = int32(ctx, first) + int32(ctx, kk) * 4;
            return "*(const unsigned*)(" + name(ctx, in[i]) + " + " +
                   shared_address(ctx, ctx.fn.placement(in[i]).smem, c).atom() + ")";
        }
        Shape laid;
        for (size_t d = 0; d + 2 < rank; ++d) laid.push(ctx.fn.type(to).shape[d]);
        laid.push(steps);
        laid.push(ctx.fn.type(to).shape[other]);
        std::vector<Ex> place(c.begin(), c.end() - 2);
        place.push_back(int32(ctx, kk));
        place.push_back(c[other]);
        return areas[i] + "[" + number_of(ctx, laid, place).text() + "]";
    };
    each_register(ctx, to, [&](Ex r) {
        const std::string x = taken(0, r), y = taken(1, r), sum = at(ctx, to, r);
        assign_to(
            ctx, to, r,
            words ? dp4a_function(ctx, row) + "(" + x + ", " + y + ", " + sum + ")" : ctx.formats.fma(f, x, y, sum));
    });
    ctx.out.close();
    if (slab < k) ctx.out.close();
    ctx.out.close();
}

}  // namespace tegula::lower
