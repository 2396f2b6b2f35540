// Products without tensor cores: operands go through scratch in slabs of K, already in the accumulator's format, and every thread runs the ascending
// fma chains of its accumulator registers.
#include "jit/cuda/emitter.h"
#include "lang/gpu_scratch.h"

namespace tegula::cuda {

void Emitter::cuda_dot(ir::InstId id) {
    const MmaRow& row = mma_rows()[static_cast<size_t>(fn_.gpu_inst(id).row)];
    if (row.kind == MmaRow::mma) return mma_product(id);
    if (row.kind == MmaRow::wgmma) return wgmma_product(id);
    if (row.kind == MmaRow::tcgen05) return tcgen05_product(id);
    fma_product(id);
}

void Emitter::cuda_dot_scaled(ir::InstId id) {
    const MmaRow& row = mma_rows()[static_cast<size_t>(fn_.gpu_inst(id).row)];
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

void Emitter::stage_slab(ir::ValueId v, const std::string& pointer, size_t k, const std::string& first, int64_t slab,
                         const std::function<std::string(const std::string&)>& value) {
    const Shape& shape = fn_.type(v).shape;
    Shape laid;  // [batch .., slab, other]
    for (size_t d = 0; d + 2 < shape.rank; ++d) laid.push(shape[d]);
    const size_t other = 2 * shape.rank - 3u - k;
    laid.push(slab);
    laid.push(shape[other]);
    const bool whole = slab == shape[k];
    const auto number = [&](std::vector<std::string> c) {
        std::vector<std::string> at(c.begin(), c.end() - 2);
        at.push_back(whole ? c[k] : "(" + c[k] + " - " + first + ")");
        at.push_back(c[other]);
        return number_of(laid, at);
    };
    if (!in_registers(v)) {
        const std::string e = fresh("e"), kk = fresh("k");
        open_elements(e, laid.elements());
        std::vector<std::string> c(shape.rank);
        int64_t below = 1;
        for (size_t d = shape.rank; d-- > 0;) {
            const size_t from = d + 2 < shape.rank ? d : d + 1 == shape.rank ? other : k;
            c[from] = "(" + e + " / " + std::to_string(below) + " % " + std::to_string(laid[d]) + ")";
            below *= laid[d];
        }
        line("const int " + kk + " = " + first + " + " + c[k] + ";");
        c[k] = kk;
        const std::string element = "*(const " + type_of(v) + "*)(" + name(v) + " + " + shared_address(fn_.placement(v).smem, c) + ")";
        line((whole ? "" : "if (" + kk + " < " + std::to_string(shape[k]) + ") ") + pointer + "[" + e + "] = " + value(element) + ";");
        return close();
    }
    each_register(v, [&](const std::string& r) {
        const std::vector<std::string> c = coordinates_of(v, r);
        std::string mine = owns(layout(v), r);
        if (!whole) mine = (mine == "true" ? "" : mine + " && ") + ("(unsigned)(" + c[k] + " - " + first + ") < " + std::to_string(slab) + "u");
        line((mine == "true" ? "" : "if (" + mine + ") ") + pointer + "[" + number(c) + "] = " + value(at(v, r)) + ";");
    });
}

void Emitter::fma_product(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto in = fn_.operands(inst);
    const ir::ValueId to = fn_.result(inst);
    const Format& f = fn_.elem(to);
    const size_t rank = fn_.type(to).shape.rank;
    const int64_t k = fn_.type(in[0]).shape[rank - 1], m = fn_.type(to).shape[rank - 2], n = fn_.type(to).shape[rank - 1];
    const bool tf32 = static_cast<ir::Precision>(fn_.attrs(inst)[0]) == ir::Precision::tf32 && f == fn_.types().format(id_of(Fmt::f32));
    const int64_t slab = dot_slab(fn_, id);
    const ScratchPlan plan = scratch_plan(fn_, id);
    TEGULA_CHECK(layout(in[2]) == layout(to), "a product's accumulator lies like its result");
    if (!take_over(to, in[2])) assign(to, [&](const std::string& r) { return at(in[2], r); });
    open("");
    const std::string a = scratch_area(id, type_of(to), plan.work[0]), b = scratch_area(id, type_of(to), plan.work[1]), type = type_of(to);
    const std::string first = fresh("first"), kk = fresh("k"), count = fresh("count"), slab_text = std::to_string(slab);
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
    stage_slab(in[0], a, rank - 1, first, slab, [&](const std::string& x) { return factor(in[0], f, tf32, x); });
    stage_slab(in[1], b, rank - 2, first, slab, [&](const std::string& x) { return factor(in[1], f, tf32, x); });
    sync();
    line("#pragma unroll 1");
    open("for (int " + kk + " = 0; " + kk + " < " + count + "; ++" + kk + ")");
    each_register(to, [&](const std::string& r) {
        std::vector<std::string> c;
        Shape batch;
        for (size_t d = 0; d + 2 < rank; ++d) {
            c.push_back(clamped(to, d, r));
            batch.push(fn_.type(to).shape[d]);
        }
        const std::string line_of_k = batch.rank ? "((" + number_of(batch, c) + ") * " + slab_text + " + " + kk + ")" : kk;
        const std::string x = a + "[" + line_of_k + " * " + std::to_string(m) + " + " + clamped(to, rank - 2, r) + "]";
        const std::string y = b + "[" + line_of_k + " * " + std::to_string(n) + " + " + clamped(to, rank - 1, r) + "]";
        assign_to(to, r, prelude_.fma(f, x, y, at(to, r)));
    });
    close();
    if (slab < k) close();
    close();
}

}  // namespace tegula::cuda
