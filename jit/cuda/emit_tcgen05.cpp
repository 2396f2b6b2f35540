// Products on tcgen05: one thread asks for all steps of a product, A and B straight from swizzled shared memory, the sum in tensor memory (PTX ISA,
// "TensorCore 5th Generation Instructions"). To wait, that thread commits what it asked for to an mbarrier, where every warp arrives, too: the phase
// ends when the products are done and all warps have come, so that nobody can miss it, and it is a meeting of all threads. Who need not be waited
// for at once is lang/overlapped_products.h. Tensor memory is taken when the program starts and given back when it ends; `convert` moves tiles
// between it and registers.
#include <algorithm>

#include "jit/cuda/emitter.h"
#include "lang/gpu/tensor_memory.h"

namespace tegula::cuda {

namespace {

constexpr int64_t kRows = 128, kMaxColumns = 256;  ///< of one instruction
constexpr int kMaxMoved = 32;                      ///< registers that one statement loads or stores

std::string plus(const std::string& v, int64_t n) { return n ? v + " + " + number(n) : v; }

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
    /// Of element (x, k), x along M or N: 16 bytes are one in a descriptor.
    int64_t at(int64_t x, int64_t k) const { return layout->address(is_a ? point(x, k) : point(k, x)) / 16; }
    std::string descriptor(const std::string& pointer) const {
        const int swizzle = layout->swizzle == 128 ? 2 : layout->swizzle == 64 ? 4 : 6;
        return "tensor_descriptor(shared_address(" + pointer + "), " + number(k_major() ? 16 : layout->panel_bytes()) + ", " +
               number(8 * layout->row_bytes()) + ", " + number(swizzle) + ")";
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
    return sum << 4 | format_code(row.a) << 7 | format_code(row.b) << 10 | uint32_t{!a.k_major()} << 15 | uint32_t{!b.k_major()} << 16 |
           static_cast<uint32_t>(columns / 8) << 17 | static_cast<uint32_t>(kRows / 16) << 24;
}

/// All instructions of a product: per 128 rows and up to 256 columns every step of k, ascending. %0 sum, %1 and %2 descriptors.
std::string statements(const MmaRow& row, const Operand& a, const Operand& b, const Shape& sum, int64_t k, bool from_zero) {
    std::string text;
    for (int64_t m = 0; m < sum[0]; m += kRows)
        for (int64_t n = 0; n < sum[1]; n += kMaxColumns) {
            const int64_t columns = std::min(kMaxColumns, sum[1] - n);
            text += "        \"mov.b32 what, " + number(instruction_descriptor(row, a, b, columns)) + "; add.s32 sum, %0, " +
                    number(m / kRows * sum[1] + n) + ";\\n\"\n";
            for (int64_t s = 0; s < k; s += row.k)
                text += "        \"add.s64 a, %1, " + number(a.at(m, s)) + "; add.s64 b, %2, " + number(b.at(n, s)) + ";\\n\"\n" +
                        "        \"tcgen05.mma.cta_group::1.kind::" + kind_of(row.a) + " [sum], a, b, what, " + (from_zero && s == 0 ? "no" : "yes") +
                        ";\\n\"\n";
        }
    return text;
}

}  // namespace

// ---- the program's columns ----

void Emitter::take_tensor_memory() {
    const int columns = allocated_columns(*fn_.gpu);
    if (!columns) return;
    for (const char* section : {"shared", "mbarrier", "tcgen05"}) prelude_.need(section);
    const int64_t at = take_shared("barriers", "products", 16, 8);  // the barrier, and where the columns' address is put
    TEGULA_CHECK(kernel_.shared_bytes <= fn_.gpu->arch->shared_bytes, "no room for the barrier of products");
    products_ = fresh("products");
    product_phase_ = fresh("product_phase");
    tensor_memory_ = fresh("tensor_memory");
    line("const unsigned " + products_ + " = shared_address(shared + " + number(at) + ");");
    line("unsigned " + product_phase_ + " = 0;");
    open("if (t == 0)");
    line("mbarrier_init(" + products_ + ", " + number(fn_.gpu->warps + 1) + ");");
    line("mbarrier_init_fence();");
    close();
    line("if (t < 32) take_tensor_memory<" + number(columns) + ">(" + products_ + " + 8);");
    line("tensor_fence_before();");
    line("__syncthreads();");
    line("tensor_fence_after();");
    line("const unsigned " + tensor_memory_ + " = *(const volatile unsigned*)(shared + " + number(at + 8) + ");");
}

void Emitter::end_tensor_memory() {
    if (tensor_memory_.empty()) return;
    if (fn_.gpu->specialised) open("if (t < " + number(group_threads()) + ")");
    if (overlapped_.any())
        wait_for_products();
    else
        sync();
    give_tensor_memory();
    if (fn_.gpu->specialised) close();
}

void Emitter::give_tensor_memory() {
    if (!tensor_memory_.empty()) line("if (t < 32) give_tensor_memory<" + number(allocated_columns(*fn_.gpu)) + ">(" + tensor_memory_ + ");");
}

// ---- products ----

void Emitter::tcgen05_product(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const MmaRow& row = product_row(fn_, id);
    const ir::ValueId va = fn_.operands(inst)[0], vb = fn_.operands(inst)[1], result = fn_.result(inst);
    const Operand a{&fn_.placement(va).smem, true}, b{&fn_.placement(vb).smem, false};
    const TensorLayout& sum = fn_.placement(result).tmem;
    const int64_t k = fn_.type(va).shape[1];
    TEGULA_CHECK(fn_.type(va).elem == row.a && fn_.type(vb).elem == row.b && in_tensor_memory(fn_, result),
                 "a product that its instruction does not compute");
    TEGULA_CHECK(sum.shape[0] % kRows == 0 && sum.shape[1] % row.n == 0 && k % row.k == 0, "extents that tcgen05 does not have");
    for (const Operand* o : {&a, &b}) TEGULA_CHECK(o->layout->swizzle != 0 && o->layout->shape.rank == 2, "tcgen05 reads swizzled tiles only");
    const std::string text = statements(row, a, b, sum.shape, k, starts_from_zero(fn_, uses_, id));
    const std::string function =
        support(text, "tcgen05_m" + number(sum.shape[0]) + "n" + number(sum.shape[1]) + "k" + number(k) + "_",
                "// " + std::string(row.name) + ", " + number(k / row.k) +
                    " steps of k\n__device__ __forceinline__ void $(unsigned sum, unsigned long long a, unsigned long long b) {\n"
                    "    asm volatile(\n        \"{\\n.reg .pred no, yes;\\n.reg .b32 sum, what;\\n.reg .b64 a, b;\\n\"\n"
                    "        \"setp.ne.b32 no, 0, 0;\\nsetp.ne.b32 yes, 1, 0;\\ntcgen05.fence::after_thread_sync;\\n\"\n" +
                    text + "        \"}\" ::\"r\"(sum), \"l\"(a), \"l\"(b)\n        : \"memory\");\n}\n");
    line("if (t == 0) " + function + "(" + plus(tensor_memory_, sum.column) + ", " + a.descriptor(name(va)) + ", " + b.descriptor(name(vb)) + ");");
    if (!overlapped_.overlapped(id)) wait_for_products();
}

void Emitter::wait_for_products() {
    line("products_wait(t, " + products_ + ", " + product_phase_ + ");");
    line(product_phase_ + " ^= 1;");
}

// ---- tiles between tensor memory and registers ----

/// Calls body(first register, address) for every run of columns that one statement moves.
void Emitter::each_tensor_run(const TileLayout& l, const TensorLayout& place, const std::function<void(Ex r, const std::string& at)>& body) {
    TEGULA_CHECK(l == tensor_memory_rows(place.shape, fn_.gpu->warps), "registers that tensor memory is not read into");
    const auto offset = [&](const TileLayout::Point& p) { return static_cast<int>(p[0] / kTensorLanes * place.shape[1] + p[1]); };
    std::string base = plus(tensor_memory_, place.column) + " + ((t >> 5 & 3) << 21)";  // a warp reads the 32 lanes of its number
    for (size_t b = 2; b < l.warp.size(); ++b)
        base += " + (t >> " + number(static_cast<int64_t>(b) + 5) + " & 1) * " + number(offset(l.point(0, 0, 1 << b)));
    const int run = tensor_run(l);
    std::vector<int> offsets;
    for (int r = 0; r < l.registers(); r += run) offsets.push_back(offset(l.point(r, 0, 0)));
    const std::string at = fresh("at");
    line("const unsigned " + at + " = " + base + ";");
    each(static_cast<int>(offsets.size()), [&](Ex i) { body(i * run, at + " + " + rename(offsets, i)); });
}

/// Registers of consecutive columns that one statement moves.
int Emitter::tensor_run(const TileLayout& l) {
    int run = 1;
    for (size_t b = 0; b < l.reg.size() && run < kMaxMoved && l.reg[b] == uint64_t{1} << b && b < l.bits[1]; ++b) run *= 2;
    return run;
}

/// Name of a function (registers, address) that loads or stores a run.
std::string Emitter::tensor_move(const std::string& type, int run, bool load) {
    std::string holes, operands;
    const int first = load ? 0 : 1;
    const std::string letter = type == "float" ? "f" : "r";
    for (int i = 0; i < run; ++i) {
        holes += (i ? ", %" : "%") + number(first + i);
        operands += (i ? ", \"" : "\"") + std::string(load ? "=" : "") + letter + "\"(v[" + number(i) + "])";
    }
    const std::string shape = ".sync.aligned.32x32b.x" + number(run) + ".b32 ";
    const std::string head =
        "__device__ __forceinline__ void $(" + std::string(load ? "" : "const ") + type + "* v, unsigned at) {\n    asm volatile(\"";
    // Registers that are being loaded must not be touched: the wait is part of the statement.
    const std::string text =
        load ? head + "tcgen05.ld" + shape + "{" + holes + "}, [%" + number(run) +
                   "];\\ntcgen05.wait::ld.sync.aligned;\"\n                 : " + operands +
                   "\n                 : \"r\"(at)\n                 : \"memory\");\n}\n"
             : head + "tcgen05.st" + shape + "[%0], {" + holes + "};\" ::\"r\"(at), " + operands + "\n                 : \"memory\");\n}\n";
    return support(text, load ? "load_tensor_x" : "store_tensor_x", text);
}

void Emitter::from_tensor_memory(ir::InstId id) {
    const ir::ValueId from = fn_.operands(fn_.inst(id))[0], to = fn_.result(id);
    converge();
    const std::string function = tensor_move(type_of(to), tensor_run(layout(to)), true);
    if (overlapped_.waits(fn_, id)) wait_for_products();
    declare(to);
    open("");
    each_tensor_run(layout(to), fn_.placement(from).tmem,
                    [&](Ex r, const std::string& at) { line(function + "(" + name(to) + " + " + r + ", " + at + ");"); });
    line("tensor_fence_before();");
    close();
}

void Emitter::to_tensor_memory(ir::InstId id) {
    if (is_skipped_zero(fn_, uses_, id)) return;
    const ir::ValueId from = fn_.operands(fn_.inst(id))[0], to = fn_.result(id);
    converge();
    const std::string function = tensor_move(type_of(from), tensor_run(layout(from)), false);
    if (overlapped_.waits(fn_, id)) wait_for_products();
    open("");
    each_tensor_run(layout(from), fn_.placement(to).tmem,
                    [&](Ex r, const std::string& at) { line(function + "(" + name(from) + " + " + r + ", " + at + ");"); });
    line("tensor_stored();");
    sync();
    close();
}

}  // namespace tegula::cuda
