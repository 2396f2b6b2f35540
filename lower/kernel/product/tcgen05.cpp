// Products on tcgen05: one thread asks for all steps of a product, A and B straight from swizzled shared memory, the
// sum in tensor memory (PTX ISA, "TensorCore 5th Generation Instructions"). To wait, that thread commits what it asked
// for to an mbarrier, where every warp arrives, too: the phase ends when the products are done and all warps have come,
// so that nobody can miss it, and it is a meeting of all threads. Who need not be waited for at once is
// lang/overlapped_products.h. Tensor memory is taken when the program starts and given back when it ends; `convert`
// moves tiles between it and registers.
#include <algorithm>

#include "lang/gpu/tensor_memory.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using kernel::KernelOp;

namespace {

constexpr int64_t kRows = 128, kMaxColumns = 256;  ///< of one instruction
constexpr int kMaxMoved = 32;                      ///< registers that one statement loads or stores

TileLayout::Point point(int64_t x, int64_t y) {
    TileLayout::Point p{};
    p[0] = x;
    p[1] = y;
    return p;
}

/// An operand in shared memory.
struct Operand {
    const SharedLayout* layout = nullptr;
    bool is_a = false;
    bool k_major() const { return layout->contiguous == (is_a ? 1 : 0); }
    /// The offset of element (x, k), x along M or N: 16 bytes are one in a descriptor.
    int64_t at(int64_t x, int64_t k) const { return layout->address(is_a ? point(x, k) : point(k, x)) / 16; }
    Ex descriptor(Lowering& ctx, ir::ValueId tile) const {
        kernel::Pool& pool = ctx.pool;
        const int swizzle = layout->swizzle == 128 ? 2 : layout->swizzle == 64 ? 4 : 6;
        const Ex address = address_of(pool.name(kernel::Type::other, name(ctx, tile)));
        return pool.call(kernel::Type::u64, "tensor_descriptor",
                         {address, pool.number(k_major() ? 16 : layout->panel_bytes()),
                          pool.number(8 * layout->row_bytes()), pool.number(swizzle)});
    }
};

const char* kind_of(Fmt f) {
    switch (f) {
        case Fmt::f16:
        case Fmt::bf16:
            return "f16";
        case Fmt::tf32:
            return "tf32";
        case Fmt::i8:
        case Fmt::u8:
            return "i8";
        default:
            return "f8f6f4";
    }
}

/// An operand's format as the instruction descriptor numbers it, within its kind.
uint32_t format_code(Fmt f) {
    switch (f) {
        case Fmt::f16:
        case Fmt::f8e4m3:
        case Fmt::u8:
            return 0;
        case Fmt::bf16:
        case Fmt::f8e5m2:
        case Fmt::i8:
            return 1;
        case Fmt::tf32:
            return 2;
        default:
            break;
    }
    TEGULA_CHECK(false, "no product in tensor memory takes this format");
    return 0;
}

/// PTX ISA, "Instruction descriptor": formats, which operands are contiguous along M or N, extents.
uint32_t instruction_descriptor(const MmaRow& row, const Operand& a, const Operand& b, int64_t columns) {
    const uint32_t sum = row.acc == Fmt::i32 ? 2 : 1;
    return sum << 4 | format_code(row.a) << 7 | format_code(row.b) << 10 | uint32_t{!a.k_major()} << 15 |
           uint32_t{!b.k_major()} << 16 | static_cast<uint32_t>(columns / 8) << 17 |
           static_cast<uint32_t>(kRows / 16) << 24;
}

/// All instructions of a product: per 128 rows and up to 256 columns every step of k, ascending. %0 sum, %1 and %2
/// descriptors.
std::string statements(const MmaRow& row, const Operand& a, const Operand& b, const Shape& sum, int64_t k,
                       bool from_zero) {
    std::string text;
    for (int64_t m = 0; m < sum[0]; m += kRows)
        for (int64_t n = 0; n < sum[1]; n += kMaxColumns) {
            const int64_t columns = std::min(kMaxColumns, sum[1] - n);
            text += "        \"mov.b32 what, " + number(instruction_descriptor(row, a, b, columns)) +
                    "; add.s32 sum, %0, " + number(m / kRows * sum[1] + n) + ";\\n\"\n";
            for (int64_t s = 0; s < k; s += row.k)
                text += "        \"add.s64 a, %1, " + number(a.at(m, s)) + "; add.s64 b, %2, " + number(b.at(n, s)) +
                        ";\\n\"\n" + "        \"tcgen05.mma.cta_group::1.kind::" + kind_of(row.a) +
                        " [sum], a, b, what, " + (from_zero && s == 0 ? "no" : "yes") + ";\\n\"\n";
        }
    return text;
}

}  // namespace

// ---- the program's columns ----

void take_tensor_memory(Lowering& ctx) {
    const int columns = allocated_columns(*ctx.fn.gpu);
    if (!columns) return;
    for (const char* section : {"shared", "mbarrier", "tcgen05"}) ctx.formats.need(section);
    // The barrier, and where the address of the columns is put.
    const int64_t at = take_shared(ctx, explain::Buffer::barriers, "products", 16, 8);
    TEGULA_CHECK(ctx.kernel.shared_bytes <= ctx.fn.gpu->arch->shared_bytes, "no room for the barrier of products");
    const auto variable = [&](const char* stem) { return ctx.pool.name(kernel::Type::u32, ctx.out.fresh(stem)); };
    ctx.tensor.products = variable("products");
    ctx.tensor.phase = variable("product_phase");
    ctx.tensor.memory = variable("tensor_memory");
    const Ex shared = ctx.pool.name(kernel::Type::other, "shared");
    ctx.out.let("unsigned", ctx.tensor.products.text(), address_of(shared + at));
    ctx.out.var("unsigned", ctx.tensor.phase.text(), ctx.pool.number(0));
    ctx.out.open_if(eq(ctx.thread, 0));
    ctx.out.call(KernelOp::mbarrier_init, {ctx.tensor.products, ctx.pool.number(ctx.fn.gpu->warps + 1)});
    ctx.out.call(KernelOp::mbarrier_init_fence);
    ctx.out.close();
    ctx.out.when(lt(ctx.thread, 32));
    ctx.out.call(KernelOp::tensor_take, {ctx.pool.number(columns), ctx.tensor.products + 8});
    ctx.out.call(KernelOp::tensor_fence_before);
    ctx.out.call(KernelOp::meet_cta);
    ctx.out.call(KernelOp::tensor_fence_after);
    const std::string address = "*(const volatile unsigned*)" + (shared + (at + 8));
    ctx.out.let("unsigned", ctx.tensor.memory.text(), ctx.pool.text(kernel::Type::u32, address, false));
}

void end_tensor_memory(Lowering& ctx) {
    if (!ctx.tensor.memory) return;
    if (ctx.fn.gpu->specialised) ctx.out.open_if(lt(ctx.thread, group_threads(ctx)));
    if (ctx.late.products.any())
        wait_for_products(ctx);
    else
        sync(ctx);
    give_tensor_memory(ctx);
    if (ctx.fn.gpu->specialised) ctx.out.close();
}

void give_tensor_memory(Lowering& ctx) {
    if (!ctx.tensor.memory) return;
    ctx.out.when(lt(ctx.thread, 32));
    ctx.out.call(KernelOp::tensor_give, {ctx.pool.number(allocated_columns(*ctx.fn.gpu)), ctx.tensor.memory});
}

// ---- products ----

void tcgen05_product(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const MmaRow& row = product_row(ctx.fn, id);
    const ir::ValueId va = ctx.fn.operands(inst)[0], vb = ctx.fn.operands(inst)[1], result = ctx.fn.result(inst);
    const Operand a{&ctx.fn.placement(va).smem, true}, b{&ctx.fn.placement(vb).smem, false};
    const TensorLayout& sum = ctx.fn.placement(result).tmem;
    const int64_t k = ctx.fn.type(va).shape[1];
    TEGULA_CHECK(ctx.fn.type(va).elem == row.a && ctx.fn.type(vb).elem == row.b && in_tensor_memory(ctx.fn, result),
                 "a product that its instruction does not compute");
    TEGULA_CHECK(sum.shape[0] % kRows == 0 && sum.shape[1] % row.n == 0 && k % row.k == 0,
                 "extents that tcgen05 does not have");
    for (const Operand* o : {&a, &b})
        TEGULA_CHECK(o->layout->swizzle != 0 && o->layout->shape.rank == 2, "tcgen05 reads swizzled tiles only");
    const std::string text = statements(row, a, b, sum.shape, k, starts_from_zero(ctx.fn, ctx.values.uses, id));
    const std::string function = support(
        ctx, text, "tcgen05_m" + number(sum.shape[0]) + "n" + number(sum.shape[1]) + "k" + number(k) + "_",
        "// " + std::string(row.name) + ", " + number(k / row.k) +
            " steps of k\n__device__ __forceinline__ void $(unsigned sum, unsigned long long a, unsigned long long b) "
            "{\n"
            "    asm volatile(\n        \"{\\n.reg .pred no, yes;\\n.reg .b32 sum, what;\\n.reg .b64 a, b;\\n\"\n"
            "        \"setp.ne.b32 no, 0, 0;\\nsetp.ne.b32 yes, 1, 0;\\ntcgen05.fence::after_thread_sync;\\n\"\n" +
            text + "        \"}\" ::\"r\"(sum), \"l\"(a), \"l\"(b)\n        : \"memory\");\n}\n");
    ctx.out.when(eq(ctx.thread, 0));
    ctx.out.call(KernelOp::tensor_product,
                 {ctx.pool.name(kernel::Type::other, function), ctx.tensor.memory + sum.column, a.descriptor(ctx, va),
                  b.descriptor(ctx, vb)});
    if (!ctx.late.products.overlapped(id)) wait_for_products(ctx);
}

void wait_for_products(Lowering& ctx) {
    ctx.out.call(KernelOp::products_wait, {ctx.thread, ctx.tensor.products, ctx.tensor.phase});
    ctx.out.call(KernelOp::advance_phase, {ctx.tensor.phase});
}

// ---- tiles between tensor memory and registers ----

/// Calls body(first register, address) for every run of columns that one statement moves.
void each_tensor_run(Lowering& ctx, const TileLayout& l, const TensorLayout& place,
                     const std::function<void(Ex r, Ex at)>& body) {
    TEGULA_CHECK(l == tensor_memory_rows(place.shape, ctx.fn.gpu->warps),
                 "registers that tensor memory is not read into");
    const auto offset = [&](const TileLayout::Point& p) {
        return static_cast<int>(p[0] / kTensorLanes * place.shape[1] + p[1]);
    };
    // A warp reads the 32 lanes of its number.
    Ex base = ctx.tensor.memory + place.column + ((ctx.thread >> 5 & 3) << 21);
    for (size_t b = 2; b < l.warp.size(); ++b)
        base = base + (ctx.thread >> (static_cast<int64_t>(b) + 5) & 1) * offset(l.point(0, 0, 1 << b));
    const int run = tensor_run(l);
    std::vector<int> offsets;
    for (int r = 0; r < l.registers(); r += run) offsets.push_back(offset(l.point(r, 0, 0)));
    const Ex at = ctx.pool.name(kernel::Type::u32, ctx.out.fresh("at"));
    ctx.out.let("unsigned", at.text(), base);
    each(ctx, static_cast<int>(offsets.size()), [&](Ex i) { body(i * run, at + rename(ctx, offsets, i)); });
}

/// Registers of consecutive columns that one statement moves.
int tensor_run(const TileLayout& l) {
    int run = 1;
    for (size_t b = 0; b < l.reg.size() && run < kMaxMoved && l.reg[b] == uint64_t{1} << b && b < l.bits[1]; ++b)
        run *= 2;
    return run;
}

/// Name of a function (registers, address) that loads or stores a run of a tile.
Ex tensor_move(Lowering& ctx, ir::ValueId tile, bool load) {
    const std::string type = type_of(ctx, tile);
    const int run = tensor_run(layout(ctx, tile));
    std::string holes, operands;
    const int first = load ? 0 : 1;
    const std::string letter = ctx.fn.type(tile).elem == Fmt::f32 ? "f" : "r";
    for (int i = 0; i < run; ++i) {
        holes += (i ? ", %" : "%") + number(first + i);
        operands += (i ? ", \"" : "\"") + std::string(load ? "=" : "") + letter + "\"(v[" + number(i) + "])";
    }
    const std::string shape = ".sync.aligned.32x32b.x" + number(run) + ".b32 ";
    const std::string head = "__device__ __forceinline__ void $(" + std::string(load ? "" : "const ") + type +
                             "* v, unsigned at) {\n    asm volatile(\"";
    // Registers that are being loaded must not be touched: the wait is part of the statement.
    const std::string text = load ? head + "tcgen05.ld" + shape + "{" + holes + "}, [%" + number(run) +
                                        "];\\ntcgen05.wait::ld.sync.aligned;\"\n                 : " + operands +
                                        "\n                 : \"r\"(at)\n                 : \"memory\");\n}\n"
                                  : head + "tcgen05.st" + shape + "[%0], {" + holes + "};\" ::\"r\"(at), " + operands +
                                        "\n                 : \"memory\");\n}\n";
    return ctx.pool.name(kernel::Type::other, support(ctx, text, load ? "load_tensor_x" : "store_tensor_x", text));
}

void from_tensor_memory(Lowering& ctx, ir::InstId id) {
    const ir::ValueId from = ctx.fn.operands(ctx.fn.inst(id))[0], to = ctx.fn.result(id);
    converge(ctx);
    const Ex function = tensor_move(ctx, to, true);
    if (ctx.late.products.waits(ctx.fn, id)) wait_for_products(ctx);
    declare(ctx, to);
    ctx.out.open_block();
    const Ex tile = ctx.pool.name(kernel::Type::other, name(ctx, to));
    each_tensor_run(ctx, layout(ctx, to), ctx.fn.placement(from).tmem,
                    [&](Ex r, Ex at) { ctx.out.call(KernelOp::tensor_load, {function, tile + r, at}); });
    ctx.out.call(KernelOp::tensor_fence_before);
    ctx.out.close();
}

void to_tensor_memory(Lowering& ctx, ir::InstId id) {
    if (is_skipped_zero(ctx.fn, ctx.values.uses, id)) return;
    const ir::ValueId from = ctx.fn.operands(ctx.fn.inst(id))[0], to = ctx.fn.result(id);
    converge(ctx);
    const Ex function = tensor_move(ctx, from, false);
    if (ctx.late.products.waits(ctx.fn, id)) wait_for_products(ctx);
    ctx.out.open_block();
    const Ex tile = ctx.pool.name(kernel::Type::other, name(ctx, from));
    each_tensor_run(ctx, layout(ctx, from), ctx.fn.placement(to).tmem,
                    [&](Ex r, Ex at) { ctx.out.call(KernelOp::tensor_store, {function, tile + r, at}); });
    ctx.out.call(KernelOp::tensor_stored);
    sync(ctx);
    ctx.out.close();
}

}  // namespace tegula::lower
