// Products without tensor cores: operands go through scratch in slabs of K, and every thread sums into its accumulator registers: ascending chains of
// fma, of elements that are already in the accumulator's format, or dp4a, of words of four bytes along K.
#include "jit/cuda/emitter.h"
#include "lang/gpu/scratch.h"

namespace tegula::cuda {

void Emitter::cuda_dot(ir::InstId id) {
    const MmaRow& row = product_row(fn_, id);
    if (row.kind == MmaRow::mma) return mma_product(id);
    if (row.kind == MmaRow::wgmma) return wgmma_product(id);
    if (row.kind == MmaRow::tcgen05) return tcgen05_product(id);
    thread_product(id);
}

void Emitter::cuda_dot_scaled(ir::InstId id) {
    const MmaRow& row = product_row(fn_, id);
    if (row.kind == MmaRow::mma) return mma_product(id);
    if (row.kind == MmaRow::wgmma) return wgmma_product(id);
    TEGULA_CHECK(row.kind == MmaRow::fma, "no scales in tensor memory");
    scaled_fma_product(id);
}

/// An element as the chain takes it: in the accumulator's format. What f64 does not hold exactly is rounded to it first, as the interpreter does.
std::string Emitter::factor(ir::ValueId v, const Format& to, bool tf32, const std::string& element) {
    const auto cast = [&](const Format& t, const Format& f, const std::string& x, Round round = Round::rne) {
        return t == f ? x : prelude_.cast(t, f, x, round, Overflow::automatic);
    };
    const Format& f = fn_.elem(v);
    std::string x;
    if (to.is_float() && ((f.is_int() && f.bits > 53) || f.kind == FormatKind::lns)) {
        const Format& f64 = fn_.types().format(id_of(Fmt::f64));
        x = cast(to, f64, cast(f64, f, element));
    } else {
        x = cast(to, f, element);
    }
    if (!tf32) return x;
    const Format& narrow = fn_.types().format(id_of(Fmt::tf32));
    return cast(to, narrow, cast(narrow, to, x, Round::rna));
}

Ex Emitter::clamped(ir::ValueId v, size_t d, Ex r) {
    const Ex c = coordinate(layout(v), static_cast<int>(d), r), last = pool_.number(layout(v).shape[d] - 1);
    return pool_.select(gt(c, last), last, c);
}

void Emitter::stage_slab(ir::ValueId v, const std::string& pointer, size_t k, const std::string& first, int64_t slab, int per,
                         const std::function<std::string(const std::string&)>& value) {
    const Shape& shape = fn_.type(v).shape;
    const size_t other = 2 * shape.rank - 3u - k;
    Shape laid;  // [batch .., slab / per, other], of `per` elements each
    for (size_t d = 0; d + 2 < shape.rank; ++d) laid.push(shape[d]);
    laid.push((slab + per - 1) / per);
    laid.push(shape[other]);
    const bool whole = slab == shape[k], filled = slab % per != 0 || !whole;
    const Ex start = whole ? pool_.number(0) : int32(first), last = pool_.number(shape[k]);
    const auto number = [&](const std::vector<Ex>& c) {
        std::vector<Ex> at(c.begin(), c.end() - 2);
        const Ex from_first = c[k] - start;
        at.push_back(from_first / per);
        at.push_back(c[other]);
        return number_of(laid, at) * per + from_first % per;
    };
    if (!in_registers(v)) {
        const std::string e = fresh("e"), kk = fresh("k");
        open_elements(e, laid.elements() * per);
        const Ex number_of_element = pool_.counter(e, laid.elements() * per);
        const std::vector<Ex> in_slab = coordinates_in(laid, number_of_element / per);
        std::vector<Ex> c(in_slab.begin(), in_slab.end());
        c[other] = in_slab[shape.rank - 1u];
        line("const int " + kk + " = " + (int32(first) + in_slab[shape.rank - 2u] * per + number_of_element % per).text() + ";");
        c[k] = int32(kk);
        const std::string element = value("*(const " + type_of(v) + "*)(" + name(v) + " + " + shared_address(fn_.placement(v).smem, c).atom() + ")");
        line(pointer + "[" + e + "] = " + chosen(filled ? lt(c[k], last) : pool_.truth(true), element, "0") + ";");
        return close();
    }
    const auto mine = [&](Ex r, Ex in_k) { return whole ? owns(layout(v), r) : both(owns(layout(v), r), lt(u32(in_k - start), slab)); };
    if (per == 4 && vector_width(layout(v), static_cast<int>(k)) >= 4 && shape[k] % 4 == 0) {
        each(registers(v) / 4, [&](Ex group) {
            const Ex r = group * 4;
            const std::vector<Ex> c = coordinates_of(v, r);
            const std::string word = word_of({at(v, r), at(v, r + 1), at(v, r + 2), at(v, r + 3)});
            line_if(mine(r, c[k]), "*(unsigned*)(" + pointer + " + " + number(c) + ") = " + word + ";");
        });
        return;
    }
    each_register(v, [&](Ex r) {
        const std::vector<Ex> c = coordinates_of(v, r);
        line_if(mine(r, c[k]), pointer + "[" + number(c).text() + "] = " + value(at(v, r)) + ";");
    });
    const int64_t beyond = (per - shape[k] % per) % per;
    if (beyond == 0) return;
    if (!whole) open("if (" + ge(start + slab, last).text() + ")");
    const std::string e = fresh("e");
    open_elements(e, laid.elements() / laid[laid.rank - 2u] * beyond);
    std::vector<Ex> c(shape.rank);
    const Ex number_of_element = int32(e);
    int64_t below = beyond;
    for (size_t d = shape.rank; d-- > 0;) {
        if (d + 2 == shape.rank) continue;
        const size_t to = d + 1 == shape.rank ? other : d;
        c[to] = number_of_element / below % shape[to];
        below *= shape[to];
    }
    c[k] = number_of_element % beyond + last;
    line(pointer + "[" + number(c).text() + "] = 0;");
    close();
    if (!whole) close();
}

/// Function of one dp4a: sum + the products of four pairs of bytes.
std::string Emitter::dp4a_function(const MmaRow& row) {
    const std::string a = row.a == Fmt::i8 ? "s32" : "u32", b = row.b == Fmt::i8 ? "s32" : "u32";
    return support("dp4a " + a + " " + b, "dp4a",
                   "__device__ __forceinline__ int $(unsigned a, unsigned b, int sum) {\n    asm(\"dp4a." + a + "." + b +
                       " %0, %1, %2, %0;\" : \"+r\"(sum) : \"r\"(a), \"r\"(b));\n    return sum;\n}\n");
}

void Emitter::thread_product(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const MmaRow& row = product_row(fn_, id);
    const auto in = fn_.operands(inst);
    const ir::ValueId to = fn_.result(inst);
    const Format& f = fn_.elem(to);
    const size_t rank = fn_.type(to).shape.rank;
    const int64_t k = fn_.type(in[0]).shape[rank - 1];
    const bool words = row.kind == MmaRow::dp4a;
    const bool tf32 = static_cast<ir::Precision>(fn_.attrs(inst)[0]) == ir::Precision::tf32 && f == fn_.types().format(id_of(Fmt::f32));
    const int64_t slab = dot_slab(fn_, id), steps = (slab + row.k - 1) / row.k;
    const ScratchPlan plan = scratch_plan(fn_, id);
    accumulate_in(to, in[2], nullptr);
    open("");
    const std::string first = fresh("first"), kk = fresh("k"), count = fresh("count"), slab_text = std::to_string(slab);
    std::string areas[2];
    for (const size_t i : {0u, 1u})
        if (!reads_words(fn_, id, i)) areas[i] = scratch_area(id, words ? "unsigned" : type_of(to), plan.work[i]);
    if (slab < k) {
        line("#pragma unroll 1");
        open("for (int " + first + " = 0; " + first + " < " + std::to_string(k) + "; " + first + " += " + slab_text + ")");
        line("if (" + first + " > 0)");
        ++depth_;
        sync();
        --depth_;
        line("const int " + count + " = " + std::to_string(k) + " - " + first + " < " + slab_text + " ? " + std::to_string(k) + " - " + first +
             " : " + slab_text + ";");
    } else {
        line("const int " + first + " = 0, " + count + " = " + slab_text + ";");
    }
    for (const size_t i : {0u, 1u})
        if (!areas[i].empty())
            stage_slab(in[i], words ? "((unsigned char*)" + areas[i] + ")" : areas[i], rank - 1 - i, first, slab, row.k,
                       [&](const std::string& x) { return words ? x : factor(in[i], f, tf32, x); });
    sync();
    line("#pragma unroll 1");
    open("for (int " + kk + " = 0; " + kk + " < " + (words ? "(" + count + " + 3) / 4" : count) + "; ++" + kk + ")");
    // The factor of operand i for a register of the result: an element of it, or a word.
    const auto taken = [&](size_t i, Ex r) {
        std::vector<Ex> c;
        for (size_t d = 0; d < rank; ++d) c.push_back(clamped(to, d, r));
        const size_t other = rank - 2 + i;
        if (areas[i].empty()) {
            c[rank - 1 - i] = int32(first) + int32(kk) * 4;
            return "*(const unsigned*)(" + name(in[i]) + " + " + shared_address(fn_.placement(in[i]).smem, c).atom() + ")";
        }
        Shape laid;
        for (size_t d = 0; d + 2 < rank; ++d) laid.push(fn_.type(to).shape[d]);
        laid.push(steps);
        laid.push(fn_.type(to).shape[other]);
        std::vector<Ex> place(c.begin(), c.end() - 2);
        place.push_back(int32(kk));
        place.push_back(c[other]);
        return areas[i] + "[" + number_of(laid, place).text() + "]";
    };
    each_register(to, [&](Ex r) {
        const std::string x = taken(0, r), y = taken(1, r), sum = at(to, r);
        assign_to(to, r, words ? dp4a_function(row) + "(" + x + ", " + y + ", " + sum + ")" : prelude_.fma(f, x, y, sum));
    });
    close();
    if (slab < k) close();
    close();
}

}  // namespace tegula::cuda
