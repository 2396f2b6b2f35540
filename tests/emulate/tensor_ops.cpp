// Matrix loads and products of the CPU machine. Which thread holds which element is written from PTX ISA 8.0 ("Matrix fragments for
// mma", "Asynchronous wgmma", "Swizzling modes"), not from the emitter; the sums are lang/tensor_core.h, measured on hardware.
#include <cmath>
#include <cstring>

#include "lang/tensor_core.h"
#include "tests/emulate/ptx.h"

namespace tegula::on_cpu {

std::vector<std::string> parts_of(const std::string& name) {
    std::vector<std::string> out;
    for (size_t at = 0; at <= name.size();) {
        const size_t end = std::min(name.find('.', at), name.size());
        out.push_back(name.substr(at, end - at));
        at = end + 1;
    }
    return out;
}

const Format& builtin(Fmt f) {
    static const std::vector<Format> all = builtin_formats();
    return all[static_cast<size_t>(f)];
}

unsigned xor_swizzle(unsigned address, unsigned bytes) {
    const unsigned bits = bytes == 128 ? 7 : bytes == 64 ? 3 : bytes == 32 ? 1 : 0;
    return address ^ ((address >> 7 & bits) << 4);
}

namespace {

Fmt format_of(const std::string& ptx) {
    static const std::map<std::string, Fmt> names = {{"f16", Fmt::f16}, {"bf16", Fmt::bf16},   {"tf32", Fmt::tf32},   {"f64", Fmt::f64},
                                                     {"f32", Fmt::f32}, {"e4m3", Fmt::f8e4m3}, {"e5m2", Fmt::f8e5m2}, {"s8", Fmt::i8},
                                                     {"u8", Fmt::u8},   {"s32", Fmt::i32}};
    const auto it = names.find(ptx);
    if (it == names.end()) Machine::get().fail("an operand type that is not known: " + ptx);
    return it->second;
}

/// The shape "m16n8k16" of a mnemonic.
struct Dims {
    int m = 0, n = 0, k = 0;
    explicit Dims(const std::string& text) { std::sscanf(text.c_str(), "m%dn%dk%d", &m, &n, &k); }
};

/// One product with everything that its elements need.
struct Product {
    const MmaRow* row = nullptr;
    Fmt a, b, acc;
    int m, n, k;
    std::vector<uint64_t> av, bv, cv;        ///< codes, row-major [m][k], [k][n], [m][n]
    std::vector<CoreOperand> rows, columns;  ///< of a and b, k contiguous

    void find_row(MmaRow::Kind kind, int arch) {
        for (const MmaRow& r : mma_rows())
            if (r.kind == kind && r.a == a && r.b == b && r.acc == acc && r.k == k && r.min_arch <= arch && arch <= r.max_arch) row = &r;
        if (!row) Machine::get().fail("there is no such product on this architecture");
    }
    void convert_operands() {
        if (acc == Fmt::i32 || acc == Fmt::f64) return;
        for (uint64_t code : av) rows.push_back(core_operand(builtin(a), code));
        columns.resize(bv.size());
        for (int x = 0; x < k; ++x)
            for (int j = 0; j < n; ++j) columns[static_cast<size_t>(j * k + x)] = core_operand(builtin(b), bv[static_cast<size_t>(x * n + j)]);
    }
    uint64_t element(int i, int j) const {
        uint64_t c = cv[static_cast<size_t>(i * n + j)];
        const auto at_a = [&](int x) { return av[static_cast<size_t>(i * k + x)]; };
        const auto at_b = [&](int x) { return bv[static_cast<size_t>(x * n + j)]; };
        if (acc == Fmt::i32) {
            uint32_t sum = static_cast<uint32_t>(c);
            for (int x = 0; x < k; ++x) sum += static_cast<uint32_t>(extend_code(builtin(a), at_a(x)) * extend_code(builtin(b), at_b(x)));
            return sum;
        }
        if (acc == Fmt::f64) {
            double sum = decode(builtin(acc), c);
            for (int x = 0; x < k; ++x) sum = std::fma(decode(builtin(a), at_a(x)), decode(builtin(b), at_b(x)), sum);
            uint64_t code;
            std::memcpy(&code, &sum, 8);
            return code;
        }
        const auto length = static_cast<size_t>(k);
        return core_step(*row, {rows.data() + static_cast<size_t>(i) * length, length}, {columns.data() + static_cast<size_t>(j) * length, length},
                         c);
    }
};

uint64_t part(uint64_t word, int i, int bits) { return bits >= 64 ? word : word >> (i * bits) & ((uint64_t{1} << bits) - 1); }

/// Element (row, k) of an A fragment: register, position in it and lane.
struct Place {
    int reg, position, lane;
};
Place place_a(int row, int k, int rows, int per_reg) {
    return {k / (4 * per_reg) * (rows / 8) + row / 8, k % per_reg, row % 8 * 4 + k / per_reg % 4};
}
Place place_b(int k, int column, int per_reg) { return {k / (4 * per_reg), k % per_reg, column * 4 + k / per_reg % 4}; }

struct Fragments {
    std::vector<std::string> d, a, b, c;
    Context* context;
};

}  // namespace

void mma_sync(const Instruction& in, Context& context) {
    Machine& m = Machine::get();
    const std::vector<std::string> name = parts_of(in.name);  // mma sync aligned m16n8k16 row col f32 f16 f16 f32
    if (name.size() < 10) m.fail("an mma.sync in a form that is not known: " + in.name);
    Fragments mine{list_of(in.operands[0]), list_of(in.operands[1]), list_of(in.operands[2]), list_of(in.operands[3]), &context};
    m.meet(m.thread() & ~31u, 32, ~0u, &in, &mine, [&](void** members) {
        const Dims dims(name[3]);
        Product p;
        p.acc = format_of(name[6]), p.a = format_of(name[7]), p.b = format_of(name[8]);
        p.m = dims.m, p.n = dims.n, p.k = dims.k;
        p.find_row(MmaRow::mma, m.arch());
        const auto lane = [&](int l) -> Fragments& { return *static_cast<Fragments*>(members[l]); };
        const int abits = builtin(p.a).bits, bbits = builtin(p.b).bits, per_reg = abits >= 32 ? 1 : 32 / abits;
        for (int i = 0; i < p.m; ++i)
            for (int k = 0; k < p.k; ++k) {
                const Place at = place_a(i, k, p.m, per_reg);
                Fragments& f = lane(at.lane);
                p.av.push_back(part(f.context->read(f.a.at(static_cast<size_t>(at.reg))), at.position, abits));
            }
        for (int k = 0; k < p.k; ++k)
            for (int j = 0; j < p.n; ++j) {
                const Place at = place_b(k, j, per_reg);
                Fragments& f = lane(at.lane);
                p.bv.push_back(part(f.context->read(f.b.at(static_cast<size_t>(at.reg))), at.position, bbits));
            }
        const bool packed = p.acc == Fmt::f16;
        const auto cell = [&](int i, int j) { return static_cast<size_t>(packed ? i / 8 : i / 8 * 2 + j % 2); };
        for (int i = 0; i < p.m; ++i)
            for (int j = 0; j < p.n; ++j) {
                Fragments& f = lane(i % 8 * 4 + j / 2);
                const uint64_t word = f.context->read(f.c.at(cell(i, j)));
                p.cv.push_back(packed ? part(word, j % 2, 16) : word);
            }
        p.convert_operands();
        for (int i = 0; i < p.m; ++i)
            for (int j = 0; j < p.n; ++j) {
                Fragments& f = lane(i % 8 * 4 + j / 2);
                const std::string& reg = f.d.at(cell(i, j));
                uint64_t value = p.element(i, j);
                if (packed) value = (f.context->read(reg) & ~(uint64_t{0xffff} << (j % 2 * 16))) | value << (j % 2 * 16);
                f.context->write(reg, value);
            }
    });
}

namespace {

/// An operand of wgmma in shared memory.
struct Descriptor {
    unsigned start, leading, stride, swizzle;
    explicit Descriptor(uint64_t d)
        : start(static_cast<unsigned>(d & 0x3fff) << 4),
          leading(static_cast<unsigned>(d >> 16 & 0x3fff) << 4),
          stride(static_cast<unsigned>(d >> 32 & 0x3fff) << 4) {
        static constexpr unsigned kBytes[] = {0, 128, 64, 32};
        swizzle = kBytes[d >> 62];
        if (swizzle == 0) Machine::get().fail("wgmma operands without swizzle are not emulated");
    }
    /// Address of element (x, k), x along M or N.
    unsigned address(int x, int k, unsigned bytes, bool k_major) const {
        const unsigned ux = static_cast<unsigned>(x), uk = static_cast<unsigned>(k), row = swizzle / bytes;
        // 8 rows of `swizzle` bytes are one pattern; rows are x where k is contiguous, and k otherwise.
        const unsigned offset =
            k_major ? ux / 8 * stride + ux % 8 * swizzle + uk * bytes : ux / row * leading + uk / 8 * stride + uk % 8 * swizzle + ux % row * bytes;
        if (k_major && (start % swizzle) + (uk + 1) * bytes > swizzle) Machine::get().fail("a step of wgmma leaves its panel");
        return xor_swizzle(start + offset, swizzle);
    }
};

uint64_t shared_code(unsigned address, unsigned bytes) {
    uint64_t v = 0;
    std::memcpy(&v, Machine::get().shared(address, bytes), bytes);
    return v;
}

}  // namespace

void wgmma(const Instruction& in, Context& context) {
    Machine& m = Machine::get();
    m.meet(m.thread() & ~127u, 128, ~0u, &in, &context, [&](void** members) {
        const std::vector<std::string> name = parts_of(in.name);  // wgmma mma_async sync aligned m64n64k16 f32 f16 f16
        const Dims dims(name[4]);
        Product p;
        p.acc = format_of(name[5]), p.a = format_of(name[6]), p.b = format_of(name[7]);
        p.m = dims.m, p.n = dims.n, p.k = dims.k;
        p.find_row(MmaRow::wgmma, m.arch());
        const auto thread = [&](int t) -> Context& { return *static_cast<Context*>(members[t]); };
        const std::vector<std::string> d = list_of(in.operands[0]), a = list_of(in.operands[1]);
        const bool a_registers = in.operands[1][0] == '{', sixteen = builtin(p.a).bits == 16, integers = p.acc == Fmt::i32;
        const unsigned bytes = builtin(p.a).bits / 8u;
        size_t tail = 3 + (integers ? 1 : 3);
        const bool a_k_major = !sixteen || a_registers || context.read(in.operands.at(tail++)) == 0;
        const bool b_k_major = !sixteen || context.read(in.operands.at(tail)) == 0;
        const bool keep = context.read(in.operands[3]) != 0;
        const Descriptor b(context.read(in.operands[2]));
        const int per_reg = 4 / static_cast<int>(bytes);
        for (int i = 0; i < p.m; ++i)
            for (int k = 0; k < p.k; ++k) {
                if (!a_registers) {
                    p.av.push_back(shared_code(Descriptor(context.read(in.operands[1])).address(i, k, bytes, a_k_major), bytes));
                    continue;
                }
                const Place at = place_a(i % 16, k, 16, per_reg);
                p.av.push_back(part(thread(i / 16 * 32 + at.lane).read(a.at(static_cast<size_t>(at.reg))), at.position, static_cast<int>(bytes) * 8));
            }
        for (int k = 0; k < p.k; ++k)
            for (int j = 0; j < p.n; ++j) p.bv.push_back(shared_code(b.address(j, k, bytes, b_k_major), bytes));
        const bool packed = p.acc == Fmt::f16;
        const auto owner = [](int i, int j) { return i / 16 * 32 + i % 8 * 4 + j % 8 / 2; };
        const auto cell = [&](int i, int j) { return static_cast<size_t>(packed ? j / 8 * 2 + i % 16 / 8 : j / 8 * 4 + i % 16 / 8 * 2 + j % 2); };
        for (int i = 0; i < p.m; ++i)
            for (int j = 0; j < p.n; ++j) {
                const uint64_t word = keep ? thread(owner(i, j)).read(d.at(cell(i, j))) : 0;
                p.cv.push_back(packed ? part(word, j % 2, 16) : word);
            }
        p.convert_operands();
        for (int i = 0; i < p.m; ++i)
            for (int j = 0; j < p.n; ++j) {
                Context& t = thread(owner(i, j));
                const std::string& reg = d.at(cell(i, j));
                uint64_t value = p.element(i, j);
                if (packed) value = (t.read(reg) & ~(uint64_t{0xffff} << (j % 2 * 16))) | value << (j % 2 * 16);
                t.write(reg, value);
            }
    });
}

void ldmatrix(const Instruction& in, Context& context) {
    Machine& m = Machine::get();
    const bool transposed = in.name.find(".trans") != std::string::npos;
    m.meet(m.thread() & ~31u, 32, ~0u, &in, &context, [&](void** members) {
        const std::vector<std::string> out = list_of(in.operands[0]);
        std::vector<unsigned> rows;
        for (int l = 0; l < 32; ++l) rows.push_back(static_cast<Context*>(members[l])->address(in.operands[1]));
        for (size_t i = 0; i < out.size(); ++i)
            for (unsigned lane = 0; lane < 32; ++lane) {
                uint64_t word = 0;
                for (unsigned h = 0; h < 2; ++h) {
                    const unsigned row = transposed ? lane % 4 * 2 + h : lane / 4, column = transposed ? lane / 4 : lane % 4 * 2 + h;
                    const unsigned address = rows[i * 8 + row];
                    if (address % 16) m.fail("ldmatrix reads a row that is not aligned");
                    word |= shared_code(address + column * 2, 2) << (16 * h);
                }
                static_cast<Context*>(members[lane])->write(out[i], word);
            }
    });
}

void stmatrix(const Instruction& in, Context& context) {
    Machine& m = Machine::get();
    m.meet(m.thread() & ~31u, 32, ~0u, &in, &context, [&](void** members) {
        const std::vector<std::string> values = list_of(in.operands[1]);
        std::vector<unsigned> rows;
        for (int l = 0; l < 32; ++l) rows.push_back(static_cast<Context*>(members[l])->address(in.operands[0]));
        for (size_t i = 0; i < values.size(); ++i)
            for (unsigned lane = 0; lane < 32; ++lane) {
                const uint64_t word = static_cast<Context*>(members[lane])->read(values[i]);
                const unsigned address = rows[i * 8 + lane / 4];
                if (address % 16) m.fail("stmatrix writes a row that is not aligned");
                std::memcpy(m.shared(address + lane % 4 * 4, 4), &word, 4);
            }
    });
}

}  // namespace tegula::on_cpu
