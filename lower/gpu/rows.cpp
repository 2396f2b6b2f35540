// Judging rows of targets.def for a product (rows.h). What is legal depends on element formats; extents only decide between rows that are.
#include "lower/gpu/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lang/gpu/tensor_memory.h"
#include "lang/instruction.h"
#include "lang/tensor_core.h"

namespace tegula {

namespace {

using namespace ir;

constexpr double kMultiplyAddLanes = 128;      ///< operations of f32 per clock
constexpr int64_t kMostSums = 128 * 256;       ///< of a product with batches on wgmma: 128 registers of each thread of 8 warps
constexpr int64_t kMostSumsOfOne = 512 * 256;  ///< of any other on wgmma: spelt out, more compile for seconds; mma.sync has loops
constexpr double kCastFactor = 2;              ///< operands of another format: wider registers, and the casts themselves

constexpr double kOwnFactor = 0.999;  ///< of equal rows the one that the author names

int64_t tiles_of(int64_t extent, int64_t step) { return (extent + step - 1) / step; }

/// Largest power of two that divides v.
int64_t even_part(int64_t v) { return v & -v; }

/// Every code of a format of at most 8 bits, compared value by value.
bool exact_by_codes(const Format& from, const Format& to) {
    for (uint64_t c = 0; c < uint64_t{1} << from.bits; ++c) {
        const uint64_t code = extend_code(from, c);
        const double value = decode(from, code);
        const double there = decode(to, convert(to, from, code));
        if (std::isnan(value) ? !std::isnan(there) : value != there || std::signbit(value) != std::signbit(there)) return false;
    }
    return true;
}

/// May an operand of format `have` be given to an instruction that takes `want`?
bool operand_fits(const Format& have, const Format& want, Precision precision) {
    if (have == want || exact_in(have, want)) return true;
    return want.bits == 32 && want.man_bits == 10 && have.is_float() && have.bits == 32 && precision != Precision::ieee;
}

/// Does a row of integers multiply the codes of this fixed-point format? The places behind the point are made up for in its sum.
bool codes_fit(const Format& have, const Format& want) {
    return have.kind == FormatKind::fixed && want.is_int() && want.is_signed && have.bits == want.bits;
}

/// Why an instruction cannot sum the stretches of K between scales; empty when it can.
RowRefusal scaled_refusal(const Function& fn, const Inst& dot, const MmaRow& row) {
    const auto number = [](int64_t v) { return std::to_string(v); };
    if (row.kind == MmaRow::tcgen05) return {explain::Rejected::scales, "its sum is not scaled in tensor memory"};
    if (row.kind == MmaRow::dp4a) return {explain::Rejected::scales, "its sum is not scaled"};
    const int64_t stretch = scale_stretch(fn, dot), step = std::max<int64_t>(row.k, 256 / fn.types().format(id_of(row.a)).bits);
    if (stretch == 0)
        return {explain::Rejected::scales, "blocks of " + number(fn.attrs(dot)[0]) + " and " + number(fn.attrs(dot)[1]) + " elements do not nest"};
    if (stretch % step)
        return {explain::Rejected::scales, "scales change every " + number(stretch) + " elements of K, no multiple of " + number(step)};
    const auto largest_bits = [&](size_t which) { return fn.elem(fn.operands(dot)[which]).bits - fn.elem(fn.operands(dot)[which]).is_signed; };
    if (row.acc == Fmt::i32 && stretch > (int64_t{1} << 24) >> (largest_bits(0) + largest_bits(1)))
        return {explain::Rejected::sums, "sums of " + number(stretch) + " products may exceed 2^24, what f32 counts to"};
    if (promotes(row) && stretch > kPromotion)
        return {explain::Rejected::sums, "keeps " + number(row.result_bits) + " bits of a sum, of " + number(kPromotion) + " elements at most"};
    return {};
}

/// wgmma's columns, dealt out to warp groups. Sums of batches must find registers: what the largest single product has, whatever the number of warps
/// is, since that is a hint's.
RowRefusal wgmma_refusal(const ProductShape& s, const MmaRow& row, const RowContext& c) {
    const WarpGrid grid = warp_grid(s, row, c.warps, true);
    if (const int64_t sums = s.batch * s.m * s.n, most = s.batch > 1 ? kMostSums : kMostSumsOfOne; sums > most)
        return {explain::Rejected::registers,
                std::to_string(sums) + " sums" + (s.batch > 1 ? " of all batches" : "") + ", more than registers hold: " + std::to_string(most)};
    if (grid.n > 1 && (s.n & (s.n - 1) || s.n / grid.n < 8))
        return {explain::Rejected::extents, "N = " + std::to_string(s.n) + " cannot be shared by warp groups"};
    return {};
}

/// The sum of tcgen05: there are columns for it, and warps read them without ghosts.
RowRefusal tcgen05_refusal(const ProductShape& s, const RowContext& c) {
    if (s.m > kTensorLanes * kTensorColumns || s.m / kTensorLanes * s.n > kTensorColumns || !c.allow_tensor_memory)
        return {explain::Rejected::tensor_memory, "its sum does not fit in tensor memory"};
    const TileLayout rows = tensor_memory_rows(Shape{s.m, s.n}, c.warps);
    if (rows.has_ghosts())
        return {explain::Rejected::extents, std::to_string(s.m) + " x " + std::to_string(s.n) + " is no power of two times 1, 3, 5 or 7 each way"};
    return {};
}

RowRefusal shared_refusal(const ProductShape& s, const MmaRow& row, const RowContext& c) {
    const auto no_multiple = [](const char* name, int64_t extent, int64_t of) {
        return RowRefusal{explain::Rejected::extents,
                          std::string(name) + " = " + std::to_string(extent) + " is no multiple of " + std::to_string(of)};
    };
    if (!c.allow_shared) return {explain::Rejected::shared_memory, "no room for its operands in shared memory"};
    if (c.warps % 4) return {explain::Rejected::warps, "needs a multiple of 4 warps, the program has " + std::to_string(c.warps)};
    if (s.batch != 1 && row.kind == MmaRow::tcgen05) return {explain::Rejected::extents, "sums in tensor memory are matrices, no batches of them"};
    if (s.m % row.m) return no_multiple("M", s.m, row.m);
    if (s.n % row.n) return no_multiple("N", s.n, row.n);
    if (s.k % row.k) return no_multiple("K", s.k, row.k);
    if (RowRefusal why = row.kind == MmaRow::wgmma ? wgmma_refusal(s, row, c) : tcgen05_refusal(s, c); !why.empty()) return why;
    if (shared_operand_bytes(s, row) > c.shared_left) return {explain::Rejected::shared_memory, "its operands do not fit in shared memory"};
    return {};
}

double cost_of(const ProductShape& s, const MmaRow& row, const RowContext& c) {
    const double per_instruction = double(row.m) * row.n * row.k / row.rate;
    const double batch = static_cast<double>(s.batch);
    if (row.kind == MmaRow::fma) return batch * double(s.m) * double(s.n) * double(s.k) / row.rate;
    if (row.kind == MmaRow::wgmma) {
        // Measured: N columns take N / 2 clocks, but not less than reading the operands (16 + N / 4).
        const double columns = double(s.n) / warp_grid(s, row, c.warps, true).n;
        const double full = double(row.m) * columns * row.k / row.rate;
        const double least = (16 + columns / 4) * (2048.0 / row.rate) * row.k / 16;
        return batch * double(s.m) / row.m * double(s.n) / columns * double(s.k) / row.k * std::max(full, least);
    }
    // Operands pass through registers; of dp4a every word of both is read from shared memory, which halves its rate.
    const double loads = row.kind == MmaRow::mma ? 1.1 : row.kind == MmaRow::dp4a ? 2 : 1;
    return loads * batch * double(tiles_of(s.m, row.m) * tiles_of(s.n, row.n) * tiles_of(s.k, row.k)) * per_instruction;
}

/// Does the row sum in the product's accumulator, or, between scales, exactly or in f32?
bool accumulates(const Function& fn, const Inst& dot, Fmt want) {
    if (dot.op == Op::dot_scaled) return want == Fmt::f32 || want == Fmt::i32;
    const Format& acc = fn.elem(fn.result(dot));
    return fn.type(fn.result(dot)).elem == want || (want == Fmt::i32 && acc.is_int() && acc.bits == 32);
}

/// The product of scales, its fma, and waiting for sums and scales, per stretch and element, on the lanes of f32: measured on an H200.
double scaling_cost(const Function& fn, const Inst& dot, const ProductShape& s) {
    constexpr double kOperations = 3.5;
    const auto [a, b] = std::pair{fn.attrs(dot)[0], fn.attrs(dot)[1]};
    return kOperations / kMultiplyAddLanes * double(s.m) * double(s.n) * double(s.k) / double(std::min(a, b));
}

}  // namespace

bool exact_in(const Format& from, const Format& to) {
    if (from == to) return true;
    if (from.kind == FormatKind::block || to.kind == FormatKind::block || from.is_bool() || to.is_bool()) return false;
    if (to.is_int()) {
        if (!from.is_int()) return false;
        return from.is_signed == to.is_signed ? from.bits <= to.bits : to.is_signed && from.bits < to.bits;
    }
    if (!to.is_float()) return false;
    if (from.bits <= 8 && from.kind != FormatKind::lns) return exact_by_codes(from, to);
    if (!from.is_float() || !from.is_signed || !from.subnormal || !from.negative_zero || from.scale_only) return false;
    // Same bias convention: the exponents of `from`, subnormals included, lie among those of `to`.
    const int lowest_from = 1 - from.bias - from.man_bits, lowest_to = 1 - to.bias - to.man_bits;
    const int highest_from = (1 << from.exp_bits) - 1 - from.bias, highest_to = (1 << to.exp_bits) - 1 - to.bias;
    return from.man_bits <= to.man_bits && lowest_from >= lowest_to && highest_from <= highest_to && (!from.has_inf || to.has_inf) && has_nan(to) &&
           to.subnormal && to.negative_zero;
}

ProductShape product_shape(const ir::Function& fn, const ir::Inst& dot) {
    const Shape& a = fn.type(fn.operands(dot)[0]).shape;
    const Shape& acc = fn.type(fn.result(dot)).shape;
    ProductShape s;
    const size_t r = acc.rank;
    for (size_t d = 0; d + 2 < r; ++d) s.batch *= acc[d];
    s.m = acc[r - 2];
    s.n = acc[r - 1];
    s.k = a[r - 1u];
    return s;
}

WarpGrid warp_grid(const ProductShape& s, const MmaRow& row, int warps, bool rows_first) {
    if (row.kind == MmaRow::wgmma) {
        const int m = static_cast<int>(std::clamp<int64_t>(even_part(s.m) / 16, 4, warps));
        return {m, warps / m};
    }
    WarpGrid best;
    std::pair<int64_t, int64_t> least{INT64_MAX, 0};
    for (int m = 1; m <= warps; m *= 2) {
        const int n = warps / m;
        const int64_t blocks_m = tiles_of(tiles_of(s.m, 16), m), blocks_n = tiles_of(tiles_of(s.n, 8), n);
        const int64_t traffic = rows_first ? n : blocks_m * 16 + blocks_n * 8;
        if (const std::pair cost{blocks_m * blocks_n, traffic}; cost < least) {
            least = cost;
            best = {m, n};
        }
    }
    return best;
}

bool rows_stay_together(const ir::Function& fn, const ir::Inst& dot) {
    // Forward from the result through elementwise ops and loop-carried values, a bounded way.
    std::vector<bool> seen(fn.value_count());
    std::vector<ValueId> reached{fn.result(dot)};
    seen[reached[0].v] = true;
    const Shape shape = fn.type(reached[0]).shape;
    for (bool grew = true; grew;) {
        grew = false;
        for (uint32_t i = 0; i < fn.inst_count(); ++i) {
            const Inst& inst = fn.inst(InstId{i});
            if (!inst.parent.valid()) continue;
            const auto operands = fn.operands(inst);
            for (size_t o = 0; o < operands.size(); ++o) {
                if (!seen[operands[o].v]) continue;
                if (inst.op == Op::reduce && fn.attrs(inst)[2] == shape.rank - 1) return true;
                if (is_product(inst.op) && o == 0) return true;
                const bool carries = has_trait(inst.op, ELEMWISE) || inst.op == Op::select || inst.op == Op::cast || inst.op == Op::convert;
                if (!carries || seen[fn.result(inst).v]) continue;
                seen[fn.result(inst).v] = grew = true;
            }
        }
    }
    return false;
}

int64_t shared_operand_bytes(const ProductShape& s, const MmaRow& row) {
    const int64_t bytes = row.a == Fmt::tf32 ? 4 : row.a == Fmt::f16 || row.a == Fmt::bf16 ? 2 : 1;
    const auto rounded = [](int64_t v) { return (v + 1023) / 1024 * 1024; };
    return rounded(s.batch * s.m * s.k * bytes) + rounded(s.batch * s.k * s.n * bytes);
}

std::vector<RowVerdict> judge_rows(const ir::Function& fn, const ir::Inst& dot, const RowContext& context) {
    std::vector<RowVerdict> out;
    const TypeTable& types = fn.types();
    const Format &a = fn.elem(fn.operands(dot)[0]), &b = fn.elem(fn.operands(dot)[1]);
    const bool scaled = dot.op == Op::dot_scaled;
    const Precision precision = dot.op == Op::dot ? static_cast<Precision>(fn.attrs(dot)[0]) : Precision::ieee;
    const ProductShape shape = product_shape(fn, dot);
    for (int r = 0; r < fn.row_count(); ++r) {
        const MmaRow& row = fn.row(r);
        if (fn.is_own_row(r) && !(context.allow_own && parse_instruction(fn.own_row(r).text)->form(*context.arch))) continue;
        RowVerdict v;
        v.row = r;
        v.a = fn.type(fn.operands(dot)[0]).elem;
        v.b = fn.type(fn.operands(dot)[1]).elem;
        if (r > 0) {
            const Format &want_a = types.format(id_of(row.a)), &want_b = types.format(id_of(row.b));
            if (!has_row(*context.arch, row) || !accumulates(fn, dot, row.acc)) continue;
            const bool codes_a = scaled && codes_fit(a, want_a), codes_b = scaled && codes_fit(b, want_b);
            if (!(codes_a || operand_fits(a, want_a, precision)) || !(codes_b || operand_fits(b, want_b, precision))) {
                v.refusal = {explain::Rejected::formats, "takes " + want_a.name + " x " + want_b.name + ", given " + a.name + " x " + b.name};
                if (precision == Precision::ieee && a.is_float() && a.bits == 32 && row.a == Fmt::tf32)
                    v.refusal.text += " (precision = tf32 allows it)";
            } else if (row.fraction_bits < 0) {
                v.refusal = {explain::Rejected::unmeasured, kUnmeasured};
            } else if (row.kind == MmaRow::tcgen05 && row.a == Fmt::tf32 && a == b && a.bits == 16) {
                v.refusal = {explain::Rejected::sums, "sums 8 products at a time, what multiplies its format 16"};  // extents must not show
            } else {
                if (scaled) v.refusal = scaled_refusal(fn, dot, row);
                if (v.refusal.empty() && row.from_shared()) v.refusal = shared_refusal(shape, row, context);
                if (fn.is_own_row(r) && shape.k % row.k != 0)
                    v.refusal = {explain::Rejected::extents,
                                 "takes " + std::to_string(row.k) + " elements of K at a time, which do not fill " + std::to_string(shape.k)};
                if (fn.is_own_row(r) && scaled) v.refusal = {explain::Rejected::scales, "takes no scales"};
            }
            if (v.refusal.empty() && !codes_a) v.a = id_of(row.a);
            if (v.refusal.empty() && !codes_b) v.b = id_of(row.b);
        }
        v.legal = v.refusal.empty();
        if (v.legal) v.cost = cost_of(shape, row, context) * (fn.is_own_row(r) ? kOwnFactor : 1);
        if (v.legal && (v.a != fn.type(fn.operands(dot)[0]).elem || v.b != fn.type(fn.operands(dot)[1]).elem)) v.cost *= kCastFactor;
        if (v.legal && scaled) v.cost += scaling_cost(fn, dot, shape);
        out.push_back(std::move(v));
    }
    return out;
}

}  // namespace tegula
