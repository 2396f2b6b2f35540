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

std::string Emitter::clamped(ir::ValueId v, size_t d, const std::string& r) {
    const TileLayout& l = layout(v);
    const std::string c = coordinate(l, static_cast<int>(d), r), last = std::to_string(l.shape[d] - 1);
    return l.padded(static_cast<int>(d)) == l.shape[d] ? c : "(" + c + " > " + last + " ? " + last + " : " + c + ")";
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
    const std::string count = std::to_string(per), last = std::to_string(shape[k]);
    const auto number = [&](const std::vector<std::string>& c) {
        std::vector<std::string> at(c.begin(), c.end() - 2);
        const std::string from_first = whole ? c[k] : "(" + c[k] + " - " + first + ")";
        at.push_back(per == 1 ? from_first : "(" + from_first + ") / " + count);
        at.push_back(c[other]);
        return per == 1 ? number_of(laid, at) : "(" + number_of(laid, at) + ") * " + count + " + (" + from_first + ") % " + count;
    };
    if (!in_registers(v)) {
        const std::string e = fresh("e"), kk = fresh("k");
        open_elements(e, laid.elements() * per);
        std::vector<std::string> c(shape.rank);
        int64_t below = per;
        for (size_t d = shape.rank; d-- > 0;) {
            const size_t from = d + 2 < shape.rank ? d : d + 1 == shape.rank ? other : k;
            c[from] = "(" + e + " / " + std::to_string(below) + " % " + std::to_string(laid[d]) + ")";
            below *= laid[d];
        }
        line("const int " + kk + " = " + first + " + " + c[k] + (per == 1 ? "" : " * " + count + " + " + e + " % " + count) + ";");
        c[k] = kk;
        const std::string element = value("*(const " + type_of(v) + "*)(" + name(v) + " + " + shared_address(fn_.placement(v).smem, c) + ")");
        line(pointer + "[" + e + "] = " + (filled ? kk + " < " + last + " ? " + element + " : 0" : element) + ";");
        return close();
    }
    const auto mine = [&](const std::string& r, const std::string& kk) {
        std::string own = owns(layout(v), r);
        if (!whole) own = (own == "true" ? "" : own + " && ") + ("(unsigned)(" + kk + " - " + first + ") < " + std::to_string(slab) + "u");
        return own == "true" ? "" : "if (" + own + ") ";
    };
    if (per == 4 && vector_width(layout(v), static_cast<int>(k)) >= 4 && shape[k] % 4 == 0) {
        each(registers(v) / 4, [&](const std::string& group) {
            const std::string r = group + " * 4";
            const std::vector<std::string> c = coordinates_of(v, r);
            const std::string word = word_of({at(v, r), at(v, r + " + 1"), at(v, r + " + 2"), at(v, r + " + 3")});
            line(mine(r, c[k]) + "*(unsigned*)(" + pointer + " + " + number(c) + ") = " + word + ";");
        });
        return;
    }
    each_register(v, [&](const std::string& r) {
        const std::vector<std::string> c = coordinates_of(v, r);
        line(mine(r, c[k]) + pointer + "[" + number(c) + "] = " + value(at(v, r)) + ";");
    });
    const int64_t beyond = (per - shape[k] % per) % per;
    if (beyond == 0) return;
    if (!whole) open("if (" + first + " + " + std::to_string(slab) + " >= " + last + ")");
    const std::string e = fresh("e");
    open_elements(e, laid.elements() / laid[laid.rank - 2u] * beyond);
    std::vector<std::string> c(shape.rank);
    int64_t below = beyond;
    for (size_t d = shape.rank; d-- > 0;) {
        if (d + 2 == shape.rank) continue;
        const size_t to = d + 1 == shape.rank ? other : d;
        c[to] = "(" + e + " / " + std::to_string(below) + " % " + std::to_string(shape[to]) + ")";
        below *= shape[to];
    }
    c[k] = "(" + last + " + " + e + " % " + std::to_string(beyond) + ")";
    line(pointer + "[" + number(c) + "] = 0;");
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
    const auto taken = [&](size_t i, const std::string& r) {
        std::vector<std::string> c;
        for (size_t d = 0; d < rank; ++d) c.push_back(clamped(to, d, r));
        const size_t other = rank - 2 + i;
        if (areas[i].empty()) {
            c[rank - 1 - i] = first + " + " + kk + " * 4";
            return "*(const unsigned*)(" + name(in[i]) + " + " + shared_address(fn_.placement(in[i]).smem, c) + ")";
        }
        Shape laid;
        for (size_t d = 0; d + 2 < rank; ++d) laid.push(fn_.type(to).shape[d]);
        laid.push(steps);
        laid.push(fn_.type(to).shape[other]);
        std::vector<std::string> place(c.begin(), c.end() - 2);
        place.push_back(kk);
        place.push_back(c[other]);
        return areas[i] + "[" + number_of(laid, place) + "]";
    };
    each_register(to, [&](const std::string& r) {
        const std::string x = taken(0, r), y = taken(1, r), sum = at(to, r);
        assign_to(to, r, words ? dp4a_function(row) + "(" + x + ", " + y + ", " + sum + ")" : prelude_.fma(f, x, y, sum));
    });
    close();
    if (slab < k) close();
    close();
}

}  // namespace tegula::cuda
