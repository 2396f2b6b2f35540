// Choices for a matrix product (product.h).
#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "jit/cpu/product.h"
#include "jit/cpu/scalar_formats.h"

namespace tegula::cpu {

namespace {

Product::Chain chain_of(const Format& f, FormatId id) {
    if (id == Fmt::f32) return Product::f32;
    if (id == Fmt::f64) return Product::f64;
    if (f.is_int()) return f.container_bytes() == 8 ? Product::i64 : Product::i32;
    return rounds_from_float(f) ? Product::f32 : Product::steps;
}

constexpr int64_t kTileRows = 16, kTileGroups = 16;  ///< of sums, and of groups of k; as many columns as a vector has lanes
constexpr int64_t kNearBytes = 24 << 10;             ///< of the first-level cache, for a panel

bool fits_signed(const Format& f, unsigned bits) { return f.is_bool() || (f.is_int() && f.bits + (f.is_signed ? 0u : 1u) <= bits); }
bool fits_unsigned(const Format& f, unsigned bits) { return f.is_bool() || (f.is_int() && !f.is_signed && f.bits <= bits); }

/// Is every value of the format one of bf16's?
bool fits_bf16(FormatId id, const Format& f) {
    if (id == Fmt::bf16 || fits_signed(f, 9)) return true;
    return f.is_float() && !f.scale_only && f.exp_bits <= 5 && f.man_bits <= 7 && f.bias <= 60 && f.bias >= -60;
}

/// Takes the row if it gives the bits of the chain; else why it does not.
const char* take_row(Product& p, const DotRow& row, const Format& a, FormatId a_id, const Format& b, FormatId b_id) {
    if (p.chain != (row.floats() ? Product::f32 : Product::i32)) return row.floats() ? "for sums in f32" : "for sums of integers in 32 bits";
    if (row.tiles() && p.depth < kTileGroups * row.group()) return "k is less than a tile has bytes in a row";
    p.flip = p.offset = false;
    switch (row.operands) {
        case DotRow::signed_signed:
            if (!fits_signed(a, 8) || !fits_signed(b, 8)) return "for two operands of signed bytes";
            break;
        case DotRow::unsigned_unsigned:
            if (!fits_unsigned(a, 8) || !fits_unsigned(b, 8)) return "for two operands of unsigned bytes";
            break;
        case DotRow::signed_unsigned:
            if (!fits_signed(a, 8) || !fits_unsigned(b, 8)) return "for signed bytes on the left and unsigned ones on the right";
            break;
        case DotRow::unsigned_signed:
            if (fits_unsigned(a, 8) && fits_signed(b, 8)) break;
            if (row.tiles()) return "for unsigned bytes on the left and signed ones on the right";
            p.flip = fits_signed(a, 8) && fits_unsigned(b, 8);
            p.offset = !p.flip && fits_signed(a, 8) && fits_signed(b, 8);
            if (!p.flip && !p.offset) return "for operands of bytes, one of them signed";
            break;
        case DotRow::words:
            if (!fits_signed(a, 16) || !fits_signed(b, 16)) return "for operands of signed words";
            break;
        case DotRow::bf16:
            if (p.tf32) return "operands are rounded to tf32";
            if (!fits_bf16(a_id, a) || !fits_bf16(b_id, b)) return "for operands whose values are bf16's";
    }
    p.row = &row;
    return nullptr;
}

/// Why no row is looked at; null: they are.
const char* without_rows(const Product& p, const VectorUnit& vectors) {
    if (p.rounded) return "one step of k at a time, as each is rounded to the accumulator's format";
    if (p.few) return "one fma or multiplication and addition per step, as the right operand is not packed in groups";
    if (p.lanes * 4 != vectors.bytes) return "one step of k at a time, as n is less than a vector has lanes";
    if (p.stretch() % 2 != 0) return "one step of k at a time, as stretches of k with the same scales are odd";
    if (p.depth < p.lanes) return "one step of k at a time, as k is less than a vector has lanes";
    return nullptr;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// With a vector behind them.
uint64_t aligned(int64_t elements, unsigned bytes) { return (static_cast<uint64_t>(elements) * bytes + 64 + 63) / 64 * 64; }

/// Of one step of k on a vector of sums.
struct StepCost {
    double clocks, latency;
};

/// Those for sums and operands. A step that rounds wants some on its way.
unsigned block_registers(const Product& p, const VectorUnit& vectors) {
    return p.rounded ? vectors.registers - vectors.registers * 3 / 8 : vectors.registers - 2;
}

/// Register blocking by the cost of one step of k: arithmetic against loads at two per clock, fewer from beyond the first-level cache,
/// and never below the step's latency; each block reads and writes its accumulators once per pass.
void choose_blocks(Product& p, const VectorUnit& vectors) {
    const StepCost step = p.rounded ? StepCost{4, 24} : StepCost{0.5, 4};
    const unsigned registers = block_registers(p, vectors);
    const unsigned per_step = std::max(1u, p.lanes * p.bytes / vectors.bytes);
    const int64_t steps = ceil_div(p.n, p.lanes), k = std::min(p.k, p.k_block);
    if (p.tiles()) {  // there are eight: two by two of sums, two of each operand
        p.rows = static_cast<unsigned>(std::min<int64_t>(p.m, 2 * kTileRows));
        p.steps_n = static_cast<unsigned>(std::min<int64_t>(steps, 2));
        return;
    }
    double best = 0;
    for (unsigned rows = 1; rows <= 16 && rows <= p.m; ++rows)
        for (unsigned wide = 1; wide <= 14 && wide <= steps; ++wide) {
            const unsigned sums = rows * wide * per_step;
            if (sums + wide * per_step + 1 > registers) continue;
            ++p.blocks_tried;
            const bool near = k * wide * p.lanes * p.bytes <= kNearBytes;  // the panel of b is read again for each block of rows
            const double loads = rows / 2.0 + wide * per_step * (near ? 0.5 : 2.0), clocks = std::max({sums * step.clocks, loads, step.latency});
            const double blocks = static_cast<double>(ceil_div(p.m, rows) * ceil_div(steps, wide));
            const double cost = blocks * (clocks * static_cast<double>(k) + 2.0 * sums + 12);
            if (best == 0 || cost < best) {
                best = cost;
                p.rows = rows;
                p.steps_n = wide;
            }
        }
}

/// Passes end where stretches do.
void choose_stretches(Product& p, int64_t all_rows) {
    p.left_scaled /= p.group(), p.right_scaled /= p.group();
    const int64_t longest = std::max(p.left_scaled, p.right_scaled);
    p.k_block = std::max<int64_t>(1, p.k_block / longest) * longest;
    p.scale_bytes[0] = aligned(all_rows * (p.k / p.left_scaled), 4);  // those of rows that are not wanted, too
    p.scale_bytes[1] = aligned(p.n * (p.k / p.right_scaled), 4);
}

}  // namespace

Product plan_product(const ir::Function& fn, const ir::Inst& dot, const VectorUnit& vectors, const Plan* plan, int64_t rows) {
    const auto operands = fn.operands(dot);
    const Shape &a = fn.type(operands[0]).shape, &c = fn.type(operands[2]).shape;
    const Format& sum = fn.elem(operands[2]);
    const size_t r = a.rank;
    Product p;
    p.rank = a.rank;
    for (size_t d = 0; d + 2 < r; ++d) p.batch *= a[d];
    p.m = rows ? rows : c[r - 2];
    p.n = c[r - 1];
    p.k = p.depth = a[r - 1];
    const bool scaled = dot.op == ir::Op::dot_scaled, is_f32 = fn.type(operands[2]).elem == Fmt::f32;
    p.chain = scaled ? Product::f32 : chain_of(sum, fn.type(operands[2]).elem);
    if (scaled)
        p.left_scaled = std::max<int64_t>(1, fn.attrs(dot)[0]), p.right_scaled = std::max<int64_t>(1, fn.attrs(dot)[1]);
    else if (p.chain == Product::f32 && !is_f32)
        p.rounded = &sum;
    p.tf32 = !scaled && p.chain == Product::f32 && !p.rounded && static_cast<ir::Precision>(fn.attrs(dot)[0]) == ir::Precision::tf32;
    if (p.chain == Product::steps) return p;
    p.bytes = p.chain == Product::f32 || p.chain == Product::i32 ? 4 : 8;
    p.lanes = static_cast<unsigned>(std::min<int64_t>(vectors.bytes / 4, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(p.n)))));
    if (plan) choose_few(p, fn, dot, *plan, vectors);
    if (!without_rows(p, vectors))
        for (const DotRow& row : kDotRows)
            if (!p.row && vectors.has(row) && vectors.suits(row))
                take_row(p, row, fn.elem(operands[0]), fn.type(operands[0]).elem, fn.elem(operands[1]), fn.type(operands[1]).elem);
    p.k = ceil_div(p.depth, p.group());
    if (p.tiles()) p.k = ceil_div(p.k, kTileGroups) * kTileGroups;
    if (scaled) choose_stretches(p, c[r - 2]);
    if (!p.few) choose_blocks(p, vectors);
    // Whole vectors are written at the ends of rows, and whole squares where operands are turned. Rows at the same distance modulo the size of a way
    // would evict each other.
    const int64_t side = vectors.bytes / 4;
    const auto pitch = [&](int64_t elements) {
        const int64_t whole = ceil_div(elements, side) * side;
        return whole * p.bytes % 1024 ? whole : whole + side;
    };
    p.a_pitch = pitch(p.k);
    p.n_blocks = ceil_div(p.n, p.block());
    p.a_bytes = aligned((p.batch * p.m + side) * p.a_pitch, p.bytes);
    p.b_bytes = p.few ? p.turned.size() * p.steps_n * p.square_bytes() : aligned((p.batch * p.n_blocks * p.k + side) * p.block(), p.bytes);
    for (const bool left : {true, false})
        if (is_turned(fn, plan ? plan->options : CompileOptions{}, operands[left ? 0 : 1], side))
            p.turn_pitch = std::max(p.turn_pitch, pitch(left ? p.m : p.k));
    if (p.turn_pitch > 1) p.turn_bytes = aligned(side * p.turn_pitch, p.bytes);
    if (p.rounded || (scaled && !is_f32) || sum.container_bytes() != p.bytes) p.c_bytes = aligned(p.batch * c[r - 2] * p.n, p.bytes);
    return p;
}

std::vector<Product> smaller_products(const Product& p, const ir::Function& fn, const ir::Inst& dot, const VectorUnit& vectors, const Plan* plan) {
    constexpr int64_t kMostProducts = 4;  // of a kernel, whose code grows by half with each form
    std::vector<Product> out;
    int64_t products = 0;
    for (uint32_t i = 0; i < fn.inst_count(); ++i)
        products += fn.inst(ir::InstId{i}).op == ir::Op::dot || fn.inst(ir::InstId{i}).op == ir::Op::dot_scaled;
    for (int64_t rows : {1, 4, 8})
        if ((rows <= 4 || products == 1) && 2 * rows <= p.m && p.batch == 1 && products <= kMostProducts)
            if (Product some = plan_product(fn, dot, vectors, plan, rows); some.few) out.push_back(std::move(some));
    return out;
}

uint64_t product_bytes(const ir::Function& fn, const ir::Inst& dot, const Plan* plan) {
    uint64_t most = 0;
    for (VectorUnit vectors : {VectorUnit{Isa::x86, 16, 16}, {Isa::x86, 32, 16}, {Isa::x86, 64, 32}, {Isa::aarch64, 16, 32}}) {
        const auto with = [&](DotRows rows) {
            vectors.dot_rows = rows;
            const Product all = plan_product(fn, dot, vectors, plan);
            most = std::max(most, all.work_bytes());
            for (const Product& some : smaller_products(all, fn, dot, vectors, plan)) most = std::max(most, some.work_bytes());
        };
        with(0);
        for (const DotRow& row : kDotRows)
            if (vectors.suits(row)) with(DotRows{1} << (&row - kDotRows));
    }
    return most;
}

std::string Product::text() const {
    static constexpr const char* kChains[] = {"f32", "f64", "i32", "i64"};
    if (chain == steps) return "row by row, one rounding to the accumulator's format per step of k";
    std::string sums = rounded ? "f32, each step rounded to " + rounded->name : kChains[chain];
    if (stretch()) sums += ", scaled after each " + std::to_string(std::min(left_scaled, right_scaled) * group()) + " of k";
    const auto blocks = std::count_if(turned.begin(), turned.end(), [](const TurnedLoad& t) { return t.block != nullptr; });
    const bool squares = std::cmp_less(blocks, turned.size());
    if (few)
        return std::to_string(m) + " x " + std::to_string(block()) + " accumulators (" + sums +
               ", k ascending); the right operand is evaluated in registers, " + std::to_string(step) + " of k at a time" +
               (squares ? "; rows of memory are turned in squares, " + std::to_string(chunk) + " of k each" : "") +
               (blocks ? "; a declared layout is read by words, in blocks of " + std::to_string(lanes) + " x " + std::to_string(chunk) : "") +
               (kept ? ", which stay in registers" : "");
    std::string how = ", k ascending";
    if (row) {
        how = ", " + std::string(row->name) + " of " + std::to_string(group()) + " neighbours along k";
        if (offset) how += ", left ones shifted by 128";
        if (watched()) how += "; where a subnormal could appear, fma";
    }
    return "micro-kernel of " + std::to_string(rows) + " x " + std::to_string(block()) + " accumulators (" + sums + how + "), " +
           std::to_string((m + rows - 1) / rows) + " x " + std::to_string(n_blocks) + " blocks, k in stretches of " +
           std::to_string(std::min(k, k_block) * group()) + ", operands packed into " + std::to_string((a_bytes + b_bytes) / 1024) + " KiB";
}

unsigned Product::registers(const VectorUnit& vectors) const {
    const unsigned per_step = std::max(1u, lanes * bytes / vectors.bytes);
    return (rows + 1) * steps_n * per_step + 1;
}

std::string product_reasons(const Product& p, const ir::Function& fn, const ir::Inst& dot, const VectorUnit& vectors) {
    if (p.chain == Product::steps)
        return "sums of `" + fn.elem(fn.operands(dot)[2]).name + "` are rounded after each step, which no vector of sums along k would be";
    const auto operands = fn.operands(dot);
    std::vector<std::pair<std::string, std::string>> refused;  // reason, instructions
    const char* const none = without_rows(p, vectors);
    for (size_t r = 0; !none && r < std::size(kDotRows) && &kDotRows[r] != p.row; ++r) {
        const DotRow& row = kDotRows[r];
        if (!vectors.suits(row)) continue;
        Product trial = p;
        const char* why = take_row(trial, row, fn.elem(operands[0]), fn.type(operands[0]).elem, fn.elem(operands[1]), fn.type(operands[1]).elem);
        const std::string reason = why ? why
                                   : vectors.has(row)
                                       ? ""
                                       : "the processor lacks " + std::string(row.feature) + (row.floats() ? ", or is no quicker with it" : "");
        const auto known = std::find_if(refused.begin(), refused.end(), [&](const auto& x) { return x.first == reason; });
        if (known == refused.end())
            refused.emplace_back(reason, row.name);
        else
            known->second += ", " + std::string(row.name);
    }
    std::string out;
    if (none) out = none;
    for (const auto& [reason, names] : refused) out += (out.empty() ? "not " : "; not ") + names + ": " + reason;
    const auto add = [&](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
    const unsigned few = most_few_rows(p, vectors);
    if (p.few) {
        add(std::to_string(p.m) + " rows are few (at most " + std::to_string(few) +
            "): each element on the right is used once per row, and packing it would cost more");
        return out;
    }
    add(p.m > static_cast<int64_t>(few) ? "operands are packed, as " + std::to_string(p.m) + " rows are more than " + std::to_string(few)
                                        : "operands are packed, as the right one lies transposed or has few columns");
    if (p.tiles())
        add("sums in two by two of the eight tiles, so that each tile of an operand is used twice");
    else
        add("block of least cost of " + std::to_string(p.blocks_tried) + ", in " + std::to_string(p.registers(vectors)) + " of " +
            std::to_string(block_registers(p, vectors)) + " registers");
    const int64_t panel = p.panel_bytes();
    add("its panel of the right operand, " + std::to_string(panel) + " bytes, " + (panel <= kNearBytes ? "stays in" : "is more than") + " the " +
        std::to_string(kNearBytes >> 10) + " KiB counted on of the first-level cache");
    if (p.k > p.k_block) add("k is cut so that panels stay small");
    return out;
}

}  // namespace tegula::cpu
