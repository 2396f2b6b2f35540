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

using kernel::KernelOp;

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
    const std::string constraint = std::string("+") + register_kind(row.acc).constraint,
                      in = row.a == Fmt::f64 ? "d" : "r";
    return "asm volatile(\"mma.sync.aligned.m" + std::to_string(row.m) + "n8k" + std::to_string(row.k) + ".row.col." +
           acc + "." + ta + "." + tb + "." + acc + " {" + holes(0, nd) + "}, {" + holes(nd, na) + "}, {" +
           holes(nd + na, ks) + "}, {" + holes(0, nd) + "};\"\n                 : " + list(constraint, d) +
           "\n                 : " + list(in, a) + ", " + list(in, b) + ");\n";
}

}  // namespace

RegisterKind register_kind(Fmt f) {
    if (f == Fmt::f64) return {"d", "double"};
    if (f == Fmt::f32) return {"f", "float"};
    return {"r", "unsigned"};
}

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
    return is_pairs(ctx, v) ? pair_at(ctx, v, first).text() : packed(ctx, name(ctx, v), ctx.fn.elem(v), first);
}

std::string word_of(Lowering& ctx, const std::array<std::string, 4>& bytes) {
    const std::string pack = support(
        ctx, "pack 8", "pack",
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
    const Ex to = ctx.pool.name(kernel::Type::other, name(ctx, result));
    each_register(ctx, result, [&](Ex r) {
        ctx.out.assign(ctx.pool.index(kernel::Type::other, to, r), spelled(ctx, text_at(ctx, acc, r)));
    });
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
                       " elements of k, of which `left` are needed.\n" + "__device__ __forceinline__ void $(" + type +
                       "* d, const " + operand + "* a, const " + operand + "* b, [[maybe_unused]] int left) {\n" +
                       body + "}\n");
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

void mma_fragment(Lowering& ctx, ir::ValueId v, const FragmentWords& words, int64_t k_extent, bool k_last) {
    const Format& f = ctx.fn.elem(v);
    const int per = f.bits >= 32 ? 1 : 32 / f.bits;
    const auto put = [&](int i, const std::string& word) {
        ctx.out.assign(ctx.pool.index(kernel::Type::other, words.to, ctx.pool.number(i)), spelled(ctx, word));
    };
    if (k_extent < 0) {
        const Ex from = ctx.pool.name(kernel::Type::other, name(ctx, v));
        for (int i = 0; i < words.count; ++i) {
            const Ex first = words.start + i * per;
            put(i,
                f.bits == 64 ? ctx.pool.index(kernel::Type::other, from, first).text() : fragment_word(ctx, v, first));
        }
        return;
    }
    // Elements beyond K are zero, whatever the padding holds.
    const int n = words.count * per, d = ctx.fn.type(v).shape.rank - (k_last ? 1 : 2);
    const Ex padded = ctx.pool.name(kernel::Type::other, ctx.out.fresh("kept"));
    ctx.out.declare(type_of(ctx, v), padded.text(), n);
    each(ctx, n, [&](Ex r) {
        const Ex reg = words.start + r, within_k = lt(coordinate(ctx, layout(ctx, v), d, reg), k_extent);
        const std::string none = zero(ctx, v), element = chosen(within_k, text_at(ctx, v, reg), none);
        ctx.out.assign(ctx.pool.index(kernel::Type::other, padded, r), spelled(ctx, element));
    });
    for (int i = 0; i < words.count; ++i) {
        const Ex first = ctx.pool.number(i * per);
        put(i, f.bits == 64 ? ctx.pool.index(kernel::Type::other, padded, first).text()
                            : packed(ctx, padded.text(), f, first));
    }
}

struct FragmentSource {
    ir::ValueId tile;                      ///< in registers, or in shared memory
    const SharedLayout* shared = nullptr;  ///< null: registers
    bool is_a = false;
    Ex lane = {};  ///< the variable of ldmatrix_lane
    bool k_contiguous() const { return shared->contiguous == (is_a ? 1 : 0); }
};

FragmentSource fragment_source(Lowering& ctx, ir::ValueId operand, bool is_a) {
    if (!ctx.plan.has(KernelPass::fragments_from_shared, operand)) return {operand, nullptr, is_a, {}};
    const ir::ValueId tile = ctx.fn.operands(*ctx.fn.def(operand))[0];
    ctx.formats.need("ldmatrix");
    return {tile, &ctx.fn.placement(tile).smem, is_a, {}};
}

/// Where this lane's 16 bytes of four 8 x 8 matrices lie in a fragment at the tile's origin, beginning with the warp's
/// rows or columns `across`.
Ex ldmatrix_lane(Lowering& ctx, const FragmentSource& from, Ex across) {
    const int chunk = 16 / from.shared->elem_bytes;
    // A's matrices: two along the rows, then two along k; B's: two along k, then two along the columns. Transposed ones
    // have rows along k.
    const bool rows_first = from.is_a == from.k_contiguous();
    const Ex low = rows_first ? ctx.thread & 15 : (ctx.thread >> 4 & 1) * 8 + (ctx.thread & 7),
             high = (ctx.thread >> (rows_first ? 4 : 3) & 1) * chunk;
    const Ex x = across + (from.is_a == rows_first ? low : high), k = from.is_a == rows_first ? high : low;
    const std::vector<Ex> c = from.is_a ? std::vector<Ex>{x, k} : std::vector<Ex>{k, x};
    const Ex tile = ctx.pool.name(kernel::Type::other, name(ctx, from.tile));
    return ctx.pool.call(kernel::Type::u32, "shared_address", {tile + shared_address(ctx, *from.shared, c)});
}

/// The lane's address in the fragment at (across, k), which are multiples of 16 rows or columns and of 32 bytes of k.
/// Their address bits are not those of the lane, and of them only those within a swizzled row are exchanged: one XOR
/// for a few constants, and an offset of the instruction.
Ex ldmatrix_address(const FragmentSource& from, Ex across, Ex k) {
    const SharedLayout& l = *from.shared;
    const Ex byte = (from.k_contiguous() ? k : across) * l.elem_bytes;
    const Ex rows = (from.k_contiguous() ? across : k) * l.row_bytes();
    if (!l.swizzle) return from.lane + byte + rows;
    return (from.lane ^ byte % l.row_bytes()) + byte / l.row_bytes() * l.panel_bytes() + rows;
}

namespace {

/// One mma product while it is lowered.
class MmaProduct {
public:
    MmaProduct(Lowering& ctx, ir::InstId id)
        : ctx_(ctx),
          id_(id),
          row_(product_row(ctx.fn, id)),
          a_(ctx.fn.operands(ctx.fn.inst(id))[0]),
          b_(ctx.fn.operands(ctx.fn.inst(id))[1]),
          result_(ctx.fn.result(ctx.fn.inst(id))),
          f_(fragment_of(row_)),
          split_(warp_split(layout(ctx, result_), ctx.fn.gpu->warps)),
          k_(ctx.fn.type(a_).shape[ctx.fn.type(a_).shape.rank - 1u]),
          from_a_(fragment_source(ctx, a_, true)),
          from_b_(fragment_source(ctx, b_, false)) {
        TEGULA_CHECK(takes_codes(ctx, row_.a, a_) && takes_codes(ctx, row_.b, b_),
                     "an operand in another format than its instruction's");
        TEGULA_CHECK(layout(ctx, a_) == mma_operand_a(ctx.fn.type(a_).shape, ctx.fn.elem(a_).bits, split_.m, split_.n),
                     "operand A in another layout than its instruction's");
        TEGULA_CHECK(layout(ctx, b_) == mma_operand_b(ctx.fn.type(b_).shape, ctx.fn.elem(b_).bits, split_.m, split_.n),
                     "operand B in another layout than its instruction's");
        loops_ = plan_loops(layout(ctx, a_), layout(ctx, b_), layout(ctx, result_), split_, k_, f_.k);
        if (from_b_.shared) run_ = (int64_t{1} << layout(ctx, result_).bits[1]) / split_.n;
    }

    void lower() {
        const ir::Inst& inst = ctx_.fn.inst(id_);
        const bool scaled = inst.op == ir::Op::dot_scaled;
        const std::string sums = scaled ? row_.acc == Fmt::i32 ? "int" : "float" : type_of(ctx_, result_);
        const int number = ctx_.fn.gpu_inst(id_).row;
        function_ = ctx_.pool.name(
            kernel::Type::other,
            mma_function(ctx_, row_, sums, ctx_.fn.is_own_row(number) ? &ctx_.fn.own_row(number) : nullptr));
        ctx_.out.open_block();  // the fragments' names end here
        find_lane(from_a_, (ctx_.thread >> 5 & (split_.m - 1)) * 16);
        find_lane(from_b_, ctx_.thread / (32 * split_.m) * run_);
        if (scaled)
            stretches(scale_stretch(ctx_.fn, inst), sums);
        else
            each(ctx_, static_cast<int>(loops_.batch), [&](Ex z) {
                each(ctx_, static_cast<int>(loops_.steps),
                     [&](Ex s) { multiply(sum_named(name(ctx_, result_)), z, s); });
            });
        ctx_.out.close();
    }

private:
    Ex sum_named(const std::string& array) const { return ctx_.pool.name(kernel::Type::other, array); }
    Ex element(Ex array, Ex number) const { return ctx_.pool.index(kernel::Type::other, array, number); }
    Ex element(Ex array, int number) const { return element(array, ctx_.pool.number(number)); }
    const char* word() const { return row_.a == Fmt::f64 ? "double" : "unsigned"; }
    int64_t guard() const { return k_ % f_.k ? k_ : -1; }

    void find_lane(FragmentSource& from, Ex warp) {
        if (!from.shared) return;
        from.lane = ctx_.pool.name(kernel::Type::u32, ctx_.out.fresh("lane"));
        ctx_.out.let("unsigned", from.lane.text(), ldmatrix_lane(ctx_, from, warp));
    }
    /// Matrices of 8 x 8 from shared memory, two for each fragment of B, four for one of A.
    void load(const FragmentSource& from, std::vector<Ex> to, Ex across, Ex s) const {
        const bool x4 = to.size() == 4, plain = from.k_contiguous();
        to.push_back(ldmatrix_address(from, across, s * f_.k));
        ctx_.out.call(x4      ? plain ? KernelOp::ldmatrix_x4 : KernelOp::ldmatrix_x4_trans
                      : plain ? KernelOp::ldmatrix_x2
                              : KernelOp::ldmatrix_x2_trans,
                      std::move(to));
    }
    void columns_of_b(Ex fb, Ex z, Ex s) const {
        if (!from_b_.shared)
            return each(ctx_, static_cast<int>(loops_.columns), [&](Ex n) {
                const Ex start = rename(ctx_, loops_.b, index(index(z, loops_.columns, n), loops_.steps, s));
                mma_fragment(ctx_, b_, {element(fb, n), f_.k_registers, start}, guard(), false);
            });
        const bool pairs = run_ % 16 == 0;  // columns next to one another, two tiles of which one instruction loads
        const std::vector<int64_t> tiles = column_tiles(layout(ctx_, result_), split_.n);
        std::vector<int> first;
        for (size_t n = 0; n < tiles.size(); n += pairs ? 2 : 1) first.push_back(static_cast<int>(tiles[n]));
        each(ctx_, static_cast<int>(first.size()), [&](Ex n) {
            const Ex at = pairs ? n * 2 : n;
            std::vector<Ex> to;
            for (int tile = 0; tile < (pairs ? 2 : 1); ++tile)
                for (int i = 0; i < 2; ++i) to.push_back(element(element(fb, at + tile), i));
            load(from_b_, std::move(to), rename(ctx_, first, n), s);
        });
    }
    void rows_of_a(Ex fa, Ex z, Ex m, Ex s) const {
        if (from_a_.shared)
            return load(from_a_, {element(fa, 0), element(fa, 1), element(fa, 2), element(fa, 3)}, m * (16 * split_.m),
                        s);
        const Ex start = rename(ctx_, loops_.a, index(index(z, loops_.rows, m), loops_.steps, s));
        mma_fragment(ctx_, a_, {fa, 2 * f_.k_registers, start}, guard(), true);
    }
    /// A step of k, added to the array.
    void multiply(Ex to, Ex z, Ex s) const {
        const Ex fb = sum_named(ctx_.out.fresh("b"));
        ctx_.out.declare(word(), fb.text(), static_cast<int64_t>(loops_.columns),
                         "[" + std::to_string(f_.k_registers) + "]");
        columns_of_b(fb, z, s);
        each(ctx_, static_cast<int>(loops_.rows), [&](Ex m) {
            const Ex fa = sum_named(ctx_.out.fresh("a"));
            ctx_.out.declare(word(), fa.text(), 2 * f_.k_registers);
            rows_of_a(fa, z, m, s);
            each(ctx_, static_cast<int>(loops_.columns), [&](Ex n) {
                const Ex first = rename(ctx_, loops_.acc, index(index(z, loops_.rows, m), loops_.columns, n));
                ctx_.out.call(KernelOp::mma,
                              {function_, to + first, fa, element(fb, n), ctx_.pool.number(k_) - s * f_.k});
            });
        });
    }
    /// A new sum wherever scales change.
    void stretches(int64_t stretch, const std::string& sums) const {
        const BlockScales scales = stage_scales(ctx_, id_);
        const auto steps = static_cast<size_t>(stretch) / static_cast<size_t>(f_.k);
        each(ctx_, static_cast<int>(loops_.steps / steps), [&](Ex q) {
            const Ex part = sum_named(ctx_.out.fresh("part"));
            ctx_.out.declare(sums, part.text(), registers(ctx_, result_), " = {}");
            each(ctx_, static_cast<int>(steps), [&](Ex s) { multiply(part, ctx_.pool.number(0), index(q, steps, s)); });
            add_scaled(ctx_, id_, scales, q * stretch, part, all_registers(ctx_, result_));
        });
    }

    Lowering& ctx_;
    const ir::InstId id_;
    const MmaRow& row_;
    const ir::ValueId a_, b_, result_;
    const Fragment f_;
    const WarpSplit split_;
    const int64_t k_;
    FragmentSource from_a_, from_b_;
    Loops loops_;
    int64_t run_ = 0;  ///< columns of B next to one another
    Ex function_;
};

}  // namespace

void mma_product(Lowering& ctx, ir::InstId id) {
    MmaProduct product(ctx, id);
    accumulate_in(ctx, ctx.fn.result(ctx.fn.inst(id)), ctx.fn.operands(ctx.fn.inst(id))[2], nullptr);
    converge(ctx);
    product.lower();
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

bool loaded_by_product(const Lowering& ctx, ir::InstId convert) {
    const ir::Inst& inst = ctx.fn.inst(convert);
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

}  // namespace

void find_shared_fragments(Lowering& ctx) {
    ctx.fn.walk([&](ir::InstId id) {
        if (ctx.fn.inst(id).op == ir::Op::convert && loaded_by_product(ctx, id))
            ctx.plan.decide(KernelPass::fragments_from_shared, ctx.fn.result(id));
    });
}

}  // namespace tegula::lower
