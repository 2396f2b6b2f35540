// Products on mma.sync: each warp multiplies fragments of 16 rows and 8 columns in registers, K ascending. A fragment
// of operand A or B is a run of consecutive registers (mma_operand_a, mma_operand_b of tile_layout.h); older
// instructions take a part of it. Elements beyond K are zero, and steps that lie wholly beyond it are not done: the sum
// is that of the instruction's own steps. dot_scaled sums anew wherever scales change.
#include <algorithm>

#include "lower/kernel/access/access.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/formats/text.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/packed/packed.h"
#include "lower/kernel/product/fragments.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

const char* ptx_type(Fmt f) {
    switch (f) {
        case Fmt::f16:
            return "f16";
        case Fmt::bf16:
            return "bf16";
        case Fmt::tf32:
            return "tf32";
        case Fmt::f32:
            return "f32";
        case Fmt::f64:
            return "f64";
        case Fmt::f8e4m3:
            return "e4m3";
        case Fmt::f8e5m2:
            return "e5m2";
        case Fmt::i8:
            return "s8";
        case Fmt::u8:
            return "u8";
        case Fmt::i32:
            return "s32";
        default:
            break;
    }
    TEGULA_CHECK(false, "no product takes this format");
    return "";
}

namespace {

/// "%0, %1" ..
std::string holes(int first, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += (i ? ", %" : "%") + std::to_string(first + i);
    return out;
}

std::string list(const std::string& constraint, const std::vector<std::string>& values) {
    std::string out;
    for (const std::string& v : values) out += (out.empty() ? "" : ", ") + ("\"" + constraint + "\"(" + v + ")");
    return out;
}

/// One asm statement: rows `half` (or both, -1) and the k registers from `k` on of the fragments.
std::string mma_statement(const MmaRow& row, const Fragment& f, int half, int k) {
    const int ks = std::max(f.k_registers * row.k / f.k, 1), rows = half < 0 ? 2 : 1;
    const bool packed = row.acc == Fmt::f16;
    std::vector<std::string> d, a, b;
    for (int h = 0; h < 2; ++h) {
        if (half >= 0 && h != half) continue;
        if (packed) {
            d.push_back("c" + std::to_string(h));
        } else {
            for (int i = 0; i < 2; ++i) d.push_back("d[" + std::to_string(2 * h + i) + "]");
        }
    }
    for (int x = 0; x < ks; ++x) {
        for (int h = 0; h < 2; ++h)
            if (half < 0 || h == half) a.push_back("a[" + std::to_string(2 * (k + x) + h) + "]");
        b.push_back("b[" + std::to_string(k + x) + "]");
    }
    const int nd = static_cast<int>(d.size()), na = rows * ks;
    const std::string acc = ptx_type(row.acc), ta = ptx_type(row.a), tb = ptx_type(row.b);
    const std::string constraint = row.acc == Fmt::f32   ? "+f"
                                   : row.acc == Fmt::f64 ? "+d"
                                                         : "+r",
                      in = row.a == Fmt::f64 ? "d" : "r";
    return "asm volatile(\"mma.sync.aligned.m" + std::to_string(row.m) + "n8k" + std::to_string(row.k) + ".row.col." +
           acc + "." + ta + "." + tb + "." + acc + " {" + holes(0, nd) + "}, {" + holes(nd, na) + "}, {" +
           holes(nd + na, ks) + "}, {" + holes(0, nd) + "};\"\n                 : " + list(constraint, d) +
           "\n                 : " + list(in, a) + ", " + list(in, b) + ");\n";
}

}  // namespace

Fragment fragment_of(const MmaRow& row) {
    const auto least = [&]() -> Fragment {
        switch (row.a) {
            case Fmt::f64:
                return {4, 1, 1};
            case Fmt::tf32:
            case Fmt::f32:
            case Fmt::i32:
            case Fmt::u32:
                return {8, 2, 1};
            case Fmt::f16:
            case Fmt::bf16:
            case Fmt::i16:
            case Fmt::u16:
                return {16, 2, 2};
            default:
                return {32, 2, 4};
        }
    };
    Fragment f = least();
    const int more = std::max(row.k / f.k, 1);  // an instruction of the program takes more at once
    f.k *= more;
    f.k_registers *= more;
    return f;
}

WarpSplit warp_split(const TileLayout& accumulator, int warps) {
    for (int m = 1; m <= warps; m *= 2)
        if (mma_accumulator(accumulator.shape, m, warps / m) == accumulator) return {m, warps / m};
    TEGULA_CHECK(false, "an accumulator in another layout than its instruction's: " + accumulator.text());
    return {};
}

std::vector<int64_t> column_tiles(const TileLayout& accumulator, int warps_n) {
    const size_t d = accumulator.shape.rank - 1u;
    const int64_t run = (int64_t{1} << accumulator.bits[d]) / warps_n;
    std::vector<int64_t> out;
    for (int64_t digit = 0; digit < accumulator.odd[d]; ++digit)
        for (int64_t c = 0; c < run; c += 8)
            if (const int64_t column = (digit << accumulator.bits[d]) + c; column < accumulator.shape[d])
                out.push_back(column);
    return out;
}

std::vector<int64_t> row_tiles(const TileLayout& accumulator, int warps_m) {
    const int64_t extent = accumulator.shape[accumulator.shape.rank - 2u];
    std::vector<int64_t> out;
    for (int64_t m = 0; m < extent; m += 16 * warps_m) out.push_back(m);
    return out;
}

std::vector<TileLayout::Point> batch_points(const Shape& shape) {
    std::vector<TileLayout::Point> out;
    int64_t n = 1;
    for (size_t d = 0; d + 2 < shape.rank; ++d) n *= shape[d];
    for (int64_t i = 0; i < n; ++i) {
        TileLayout::Point p{};
        int64_t rest = i;
        for (size_t d = std::max<size_t>(shape.rank, 2) - 2; d-- > 0;) {
            p[d] = rest % shape[d];
            rest /= shape[d];
        }
        out.push_back(p);
    }
    return out;
}

std::string packed(Lowering& ctx, const std::string& array, const Format& f, Ex first) {
    const std::string x = array + "[" + first.text() + "]";
    if (f.bits == 32) return text::is_native_float(f) ? ctx.formats.to_bits(f, x) : x;
    if (f.container_bytes() == 2) {  // in exchanges also of fewer bits
        const std::string pack = support(ctx, "pack 16", "pack",
                                                 "__device__ __forceinline__ unsigned $(unsigned short low, unsigned "
                                                 "short high) { return low | (unsigned)high << 16; }\n");
        return pack + "(" + x + ", " + array + "[" + (first + 1).text() + "])";
    }
    const auto element = [&](int i) { return array + "[" + (first + i).text() + "]"; };
    return word_of(ctx, {x, element(1), element(2), element(3)});
}

std::string fragment_word(Lowering& ctx, ir::ValueId v, Ex first) {
    if (is_quads(ctx, v)) return name(ctx, v) + "[" + (first / 4).text() + "]";
    return is_pairs(ctx, v) ? pair_at(ctx, v, first) : packed(ctx, name(ctx, v), ctx.fn.elem(v), first);
}

std::string word_of(Lowering& ctx, const std::array<std::string, 4>& bytes) {
    const std::string pack = support(ctx, 
        "pack 8", "pack",
        "__device__ __forceinline__ unsigned $(unsigned char a, unsigned char b, unsigned char c, unsigned char d) {\n"
        "    return a | (unsigned)b << 8 | (unsigned)c << 16 | (unsigned)d << 24;\n}\n");
    return pack + "(" + bytes[0] + ", " + bytes[1] + ", " + bytes[2] + ", " + bytes[3] + ")";
}

void accumulate_in(Lowering& ctx, ir::ValueId result, ir::ValueId acc, bool* from_zero) {
    TEGULA_CHECK(layout(ctx, result) == layout(ctx, acc), "an accumulator and its sum lie in different registers");
    const ir::Inst* def = ctx.fn.def(acc);
    if (from_zero && def && def->op == ir::Op::constant && ctx.fn.attrs(*def)[0] == 0) {
        *from_zero = true;
        return declare(ctx, result);
    }
    if (take_over(ctx, result, acc)) return;
    declare(ctx, result);
    each_register(ctx, result,
                  [&](Ex r) { ctx.out.line(name(ctx, result) + "[" + r + "] = " + at(ctx, acc, r) + ";"); });
}

std::string mma_function(Lowering& ctx, const MmaRow& row, const std::string& type, const ir::OwnRow* own) {
    const Fragment f = fragment_of(row);
    const std::string operand = row.a == Fmt::f64 ? "double" : "unsigned";
    std::string body;
    const bool packed_sum = row.acc == Fmt::f16;
    if (packed_sum)
        for (const char* h : {"0", "1"}) {
            const std::string i = h[0] == '0' ? "0" : "2", j = h[0] == '0' ? "1" : "3";
            body += "    unsigned c" + std::string(h) + " = d[" + i + "] | (unsigned)d[" + j + "] << 16;\n";
        }
    const int steps = f.k / row.k, k_registers = std::max(f.k_registers / steps, 1);
    for (int s = 0; s < steps; ++s) {
        const std::string indent = s ? "        " : "    ";
        if (s) body += "    if (left > " + std::to_string(s * row.k) + ") {\n";
        if (own) {
            body += own_statement(ctx, *own, s * k_registers, indent);
        } else if (row.m == 16) {
            body += indent + mma_statement(row, f, -1, s * k_registers);
        } else {
            for (int half = 0; half < 2; ++half) body += indent + mma_statement(row, f, half, s * k_registers);
        }
        if (s) body += "    }\n";
    }
    if (packed_sum)
        for (const char* h : {"0", "1"}) {
            const std::string i = h[0] == '0' ? "0" : "2", j = h[0] == '0' ? "1" : "3";
            body += "    d[" + i + "] = (unsigned short)c" + h + ";\n    d[" + j + "] = (unsigned short)(c" + h +
                    " >> 16);\n";
        }
    const std::string name = own ? own->name : row.name;
    return support(ctx, name + " " + type + (own ? own->text : ""), "mma",
                           "// " + name + ": d (rows g, g + 8) += a b over " + std::to_string(f.k) +
                               " elements of k, of which `left` are needed.\n" + "__device__ __forceinline__ void $(" +
                               type + "* d, const " + operand + "* a, const " + operand +
                               "* b, [[maybe_unused]] int left) {\n" + body + "}\n");
}

namespace {

/// What the loops of one mma product run over, and where its fragments start.
struct Loops {
    size_t batch, rows, columns, steps;
    std::vector<int> a, b, acc;
};

Loops plan_loops(const TileLayout& a, const TileLayout& b, const TileLayout& acc, const WarpSplit& split,
                 int64_t k_extent, int64_t k_step) {
    const std::vector<int64_t> rows = row_tiles(acc, split.m), columns = column_tiles(acc, split.n);
    const std::vector<TileLayout::Point> batch = batch_points(acc.shape);
    Loops l{batch.size(), rows.size(), columns.size(), static_cast<size_t>((k_extent + k_step - 1) / k_step), {},
            {},           {}};
    const size_t m = acc.shape.rank - 2u, n = m + 1;
    const auto find = [](const TileLayout& t, TileLayout::Point p, size_t d, int64_t x, size_t e, int64_t y) {
        p[d] = x;
        p[e] = y;
        return t.find_register(p, 0, 0);
    };
    for (const TileLayout::Point& z : batch) {
        for (int64_t row : rows)
            for (size_t s = 0; s < l.steps; ++s) l.a.push_back(find(a, z, m, row, n, static_cast<int64_t>(s) * k_step));
        for (int64_t column : columns)
            for (size_t s = 0; s < l.steps; ++s)
                l.b.push_back(find(b, z, m, static_cast<int64_t>(s) * k_step, n, column));
        for (int64_t row : rows)
            for (int64_t column : columns) l.acc.push_back(find(acc, z, m, row, n, column));
    }
    return l;
}

Ex index(Ex i, size_t count, Ex j) { return i * static_cast<int64_t>(count) + j; }

}  // namespace

void mma_fragment(Lowering& ctx, ir::ValueId v, const std::string& to, int count, Ex start, int64_t k_extent,
                  bool k_last) {
    const Format& f = ctx.fn.elem(v);
    const int per = f.bits >= 32 ? 1 : 32 / f.bits;
    const std::string from = name(ctx, v);
    if (k_extent < 0) {
        for (int i = 0; i < count; ++i) {
            const Ex at_i = start + i * per;
            ctx.out.line(to + "[" + std::to_string(i) +
                         "] = " + (f.bits == 64 ? from + "[" + at_i.text() + "]" : fragment_word(ctx, v, at_i)) + ";");
        }
        return;
    }
    // Elements beyond K are zero, whatever the padding holds.
    const std::string type = type_of(ctx, v), kept = ctx.out.fresh("kept");
    const int n = count * per, d = ctx.fn.type(v).shape.rank - (k_last ? 1 : 2);
    ctx.out.line(type + " " + kept + "[" + std::to_string(n) + "];");
    each(ctx, n, [&](Ex r) {
        const Ex reg = start + r;
        ctx.out.line(kept + "[" + r + "] = " +
                     chosen(lt(coordinate(ctx, layout(ctx, v), d, reg), k_extent), at(ctx, v, reg), zero(ctx, v)) +
                     ";");
    });
    for (int i = 0; i < count; ++i) {
        const Ex at_i = ctx.pool.number(i * per);
        ctx.out.line(to + "[" + std::to_string(i) +
                     "] = " + (f.bits == 64 ? kept + "[" + at_i.text() + "]" : packed(ctx, kept, f, at_i)) + ";");
    }
}

struct FragmentSource {
    ir::ValueId tile;                      ///< in registers, or in shared memory
    const SharedLayout* shared = nullptr;  ///< null: registers
    bool is_a = false;
    std::string lane;  ///< the variable of ldmatrix_lane
    bool k_contiguous() const { return shared->contiguous == (is_a ? 1 : 0); }
};

FragmentSource fragment_source(Lowering& ctx, ir::ValueId operand, bool is_a) {
    const ir::InstId def = ctx.fn.value(operand).def;
    if (!def.valid() || !loaded_by_product(ctx, def)) return {operand, nullptr, is_a, {}};
    const ir::ValueId tile = ctx.fn.operands(ctx.fn.inst(def))[0];
    ctx.formats.need("ldmatrix");
    return {tile, &ctx.fn.placement(tile).smem, is_a, {}};
}

/// Where this lane's 16 bytes of four 8 x 8 matrices lie in a fragment at the tile's origin, beginning with the warp's
/// rows or columns `across`.
std::string ldmatrix_lane(Lowering& ctx, const FragmentSource& from, Ex across) {
    const int chunk = 16 / from.shared->elem_bytes;
    // A's matrices: two along the rows, then two along k; B's: two along k, then two along the columns. Transposed ones
    // have rows along k.
    const bool rows_first = from.is_a == from.k_contiguous();
    const Ex low = rows_first ? ctx.thread & 15 : (ctx.thread >> 4 & 1) * 8 + (ctx.thread & 7),
             high = (ctx.thread >> (rows_first ? 4 : 3) & 1) * chunk;
    const Ex x = across + (from.is_a == rows_first ? low : high), k = from.is_a == rows_first ? high : low;
    const std::vector<Ex> c = from.is_a ? std::vector<Ex>{x, k} : std::vector<Ex>{k, x};
    return "shared_address(" + name(ctx, from.tile) + " + " + shared_address(ctx, *from.shared, c) + ")";
}

/// The lane's address in the fragment at (across, k), which are multiples of 16 rows or columns and of 32 bytes of k.
/// Their address bits are not those of the lane, and of them only those within a swizzled row are exchanged: one XOR
/// for a few constants, and an offset of the instruction.
Ex ldmatrix_address(Lowering& ctx, const FragmentSource& from, Ex across, Ex k) {
    const SharedLayout& l = *from.shared;
    const Ex lane = ctx.pool.name(kernel::Type::u32, from.lane),
             byte = (from.k_contiguous() ? k : across) * l.elem_bytes;
    const Ex rows = (from.k_contiguous() ? across : k) * l.row_bytes();
    if (!l.swizzle) return lane + byte + rows;
    return (lane ^ byte % l.row_bytes()) + byte / l.row_bytes() * l.panel_bytes() + rows;
}

void mma_product(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const MmaRow& row = product_row(ctx.fn, id);
    const ir::ValueId a = ctx.fn.operands(inst)[0], b = ctx.fn.operands(inst)[1], acc = ctx.fn.operands(inst)[2],
                      result = ctx.fn.result(inst);
    const Fragment f = fragment_of(row);
    const WarpSplit split = warp_split(layout(ctx, result), ctx.fn.gpu->warps);
    const int64_t k = ctx.fn.type(a).shape[ctx.fn.type(a).shape.rank - 1u];
    const bool scaled = inst.op == ir::Op::dot_scaled;
    TEGULA_CHECK(takes_codes(ctx, row.a, a) && takes_codes(ctx, row.b, b),
                 "an operand in another format than its instruction's");
    TEGULA_CHECK(layout(ctx, a) == mma_operand_a(ctx.fn.type(a).shape, ctx.fn.elem(a).bits, split.m, split.n),
                 "operand A in another layout than its instruction's");
    TEGULA_CHECK(layout(ctx, b) == mma_operand_b(ctx.fn.type(b).shape, ctx.fn.elem(b).bits, split.m, split.n),
                 "operand B in another layout than its instruction's");
    accumulate_in(ctx, result, acc, nullptr);
    converge(ctx);

    const Loops l = plan_loops(layout(ctx, a), layout(ctx, b), layout(ctx, result), split, k, f.k);
    const std::string sums = scaled ? row.acc == Fmt::i32 ? "int" : "float" : type_of(ctx, result);
    const int number = ctx.fn.gpu_inst(id).row;
    const std::string function =
                          mma_function(ctx, row, sums, ctx.fn.is_own_row(number) ? &ctx.fn.own_row(number) : nullptr),
                      operand = row.a == Fmt::f64 ? "double " : "unsigned ";
    const int64_t guard = k % f.k ? k : -1;
    FragmentSource from_a = fragment_source(ctx, a, true), from_b = fragment_source(ctx, b, false);
    // Columns of B next to one another, two tiles of which one instruction loads.
    const int64_t run = from_b.shared ? (int64_t{1} << layout(ctx, result).bits[1]) / split.n : 0;
    const bool pairs = run % 16 == 0;
    const auto load = [&](const FragmentSource& from, const std::string& to, const char* count, Ex across, Ex s) {
        ctx.out.line("ldmatrix_" + std::string(count) + (from.k_contiguous() ? "(" : "_trans(") + to + ", " +
                     ldmatrix_address(ctx, from, across, s * f.k).text() + ");");
    };
    const auto columns_of_b = [&](const std::string& fb, Ex z, Ex s) {
        if (!from_b.shared)
            return each(ctx, static_cast<int>(l.columns), [&](Ex n) {
                mma_fragment(ctx, b, fb + "[" + n + "]", f.k_registers,
                             rename(ctx, l.b, index(index(z, l.columns, n), l.steps, s)), guard, false);
            });
        const std::vector<int64_t> tiles = column_tiles(layout(ctx, result), split.n);
        std::vector<int> first;
        for (size_t n = 0; n < tiles.size(); n += pairs ? 2 : 1) first.push_back(static_cast<int>(tiles[n]));
        each(ctx, static_cast<int>(first.size()), [&](Ex n) {
            const Ex at = pairs ? n * 2 : n;
            const std::string one = fb + "[" + at.text() + "]", other = fb + "[" + (at + 1).text() + "]";
            std::string to = one + "[0], " + one + "[1]";
            if (pairs) to += ", " + other + "[0], " + other + "[1]";
            load(from_b, to, pairs ? "x4" : "x2", rename(ctx, first, n), s);
        });
    };
    const auto rows_of_a = [&](const std::string& fa, Ex z, Ex m, Ex s) {
        if (!from_a.shared)
            return mma_fragment(ctx, a, fa, 2 * f.k_registers, rename(ctx, l.a, index(index(z, l.rows, m), l.steps, s)),
                                guard, true);
        load(from_a, fa + "[0], " + fa + "[1], " + fa + "[2], " + fa + "[3]", "x4", m * (16 * split.m), s);
    };
    const auto multiply = [&](const std::string& to, Ex z, Ex s) {
        const std::string fb = ctx.out.fresh("b");
        ctx.out.line(operand + fb + "[" + std::to_string(l.columns) + "][" + std::to_string(f.k_registers) + "];");
        columns_of_b(fb, z, s);
        each(ctx, static_cast<int>(l.rows), [&](Ex m) {
            const std::string fa = ctx.out.fresh("a");
            ctx.out.line(operand + fa + "[" + std::to_string(2 * f.k_registers) + "];");
            rows_of_a(fa, z, m, s);
            each(ctx, static_cast<int>(l.columns), [&](Ex n) {
                ctx.out.line(function + "(" + to + " + " +
                             rename(ctx, l.acc, index(index(z, l.rows, m), l.columns, n)) + ", " + fa + ", " + fb +
                             "[" + n + "], " + (ctx.pool.number(k) - s * f.k).text() + ");");
            });
        });
    };
    ctx.out.open("");  // the fragments' names end here
    const auto find_lane = [&](FragmentSource& from, Ex warp) {
        if (!from.shared) return;
        from.lane = ctx.out.fresh("lane");
        ctx.out.line("const unsigned " + from.lane + " = " + ldmatrix_lane(ctx, from, warp) + ";");
    };
    find_lane(from_a, (ctx.thread >> 5 & (split.m - 1)) * 16);
    find_lane(from_b, ctx.thread / (32 * split.m) * run);
    if (!scaled) {
        each(ctx, static_cast<int>(l.batch),
             [&](Ex z) { each(ctx, static_cast<int>(l.steps), [&](Ex s) { multiply(name(ctx, result), z, s); }); });
        return ctx.out.close();
    }
    const BlockScales scales = stage_scales(ctx, id);
    const auto stretch = static_cast<size_t>(scale_stretch(ctx.fn, inst)), steps = stretch / static_cast<size_t>(f.k);
    each(ctx, static_cast<int>(l.steps / steps), [&](Ex q) {
        const std::string part = ctx.out.fresh("part");
        ctx.out.line(sums + " " + part + "[" + std::to_string(registers(ctx, result)) + "] = {};");
        each(ctx, static_cast<int>(steps), [&](Ex s) { multiply(part, ctx.pool.number(0), index(q, steps, s)); });
        add_scaled(ctx, id, scales, q * static_cast<int64_t>(stretch), part, all_registers(ctx, result));
    });
    ctx.out.close();
}

namespace {

/// Neither writes shared memory nor gives a stage back. (Puts fill free stages only.)
bool keeps_shared(const ir::Function& fn, ir::InstId id) {
    const ir::Inst& inst = fn.inst(id);
    const GpuInst& gpu = fn.gpu_inst(id);
    if (gpu.scratch_offset >= 0 || gpu.sync_before) return false;
    if (inst.op == ir::Op::channel_get || inst.op == ir::Op::channel_put || inst.op == ir::Op::yield) return true;
    if (inst.op == ir::Op::if_else) {
        for (ir::BlockId b : fn.blocks(inst))
            for (ir::InstId inner : fn.block(b).insts)
                if (!keeps_shared(fn, inner)) return false;
        return true;
    }
    return ir::has_trait(inst.op, ir::PURE) && !ir::has_trait(inst.op, ir::REGIONS);
}

/// A tile of a ring, or a view of one: no scratch lies where it does.
bool in_ring(const ir::Function& fn, ir::ValueId tile) {
    const ir::Inst* def = fn.def(tile);
    while (def && ir::has_trait(def->op, ir::VIEW)) def = fn.def(fn.operands(*def)[0]);
    return def && def->op == ir::Op::channel_get;
}

}  // namespace

bool loaded_by_product(const Lowering& ctx, ir::InstId convert) {
    const ir::Inst& inst = ctx.fn.inst(convert);
    if (inst.op != ir::Op::convert) return false;
    const ir::ValueId tile = ctx.fn.operands(inst)[0], v = ctx.fn.result(inst);
    if (ctx.fn.placement(tile).kind != Placement::shared || !in_registers(ctx, v) || uses(ctx, v) != 1 ||
        ctx.fn.type(v).shape.rank != 2)
        return false;
    const std::vector<ir::InstId>& list = ctx.fn.block(inst.parent).insts;
    auto it = std::find(list.begin(), list.end(), convert) + 1;
    const auto takes = [&](const ir::Inst& i) {
        return ir::is_product(i.op) && (ctx.fn.operands(i)[0] == v || ctx.fn.operands(i)[1] == v);
    };
    for (; it != list.end() && !takes(ctx.fn.inst(*it)); ++it)
        if (!keeps_shared(ctx.fn, *it)) return false;
    if (it == list.end()) return false;
    const ir::Inst& dot = ctx.fn.inst(*it);
    const MmaRow& row = product_row(ctx.fn, *it);
    const bool is_a = ctx.fn.operands(dot)[0] == v;
    if (ctx.fn.gpu_inst(*it).scratch_offset >= 0 && !in_ring(ctx.fn, tile)) return false;
    if (row.kind != MmaRow::mma || row.a == Fmt::f64 || ctx.fn.operands(dot)[0] == ctx.fn.operands(dot)[1])
        return false;
    const SharedLayout& l = ctx.fn.placement(tile).smem;
    const TileLayout& sum = layout(ctx, ctx.fn.result(dot));
    const WarpSplit split = warp_split(sum, ctx.fn.gpu->warps);
    const int64_t k = l.shape[is_a ? 1 : 0], across = l.shape[is_a ? 0 : 1];
    const bool k_contiguous = l.contiguous == (is_a ? 1 : 0);
    if (k % fragment_of(row).k || l.elem_bytes > 4 || (!k_contiguous && l.elem_bytes != 2)) return false;
    if (is_a) return across % (16 * split.m) == 0;
    const int64_t run = (int64_t{1} << sum.bits[1]) / split.n;
    return across % ((run % 16 ? 8 : 16) * split.n) == 0 && run % 8 == 0;
}

}  // namespace tegula::lower
