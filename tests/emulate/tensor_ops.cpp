// Matrix loads and products of the CPU machine. Which thread holds which element is written from PTX ISA 8.0 ("Matrix fragments for
// mma", "Asynchronous wgmma", "Swizzling modes"), not from the emitter; the sums are lang/tensor_core.h, measured on hardware.
#include "tests/emulate/product.h"

namespace tegula::on_cpu {

namespace {

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

Operand wgmma_operand(uint64_t descriptor) {
    static constexpr unsigned kBytes[] = {0, 128, 64, 32};
    return {descriptor, kBytes[descriptor >> 62]};
}

}  // namespace

void wgmma(const Instruction& in, Context& context) {
    Machine& m = Machine::get();
    if (!m.special()) m.fail("wgmma on an architecture without it");
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
        std::vector<unsigned> numbers;
        for (const std::string& name_of_sum : d) numbers.push_back(m.number(name_of_sum));
        const unsigned bytes = builtin(p.a).bits / 8u;
        size_t tail = 3 + (integers ? 1 : 3);
        const bool a_k_major = !sixteen || a_registers || context.read(in.operands.at(tail++)) == 0;
        const bool b_k_major = !sixteen || context.read(in.operands.at(tail)) == 0;
        const bool keep = context.read(in.operands[3]) != 0;
        const Operand b = wgmma_operand(context.read(in.operands[2])), from = a_registers ? b : wgmma_operand(context.read(in.operands[1]));
        // Registers by thread. Where all of them outlive the statement, the product is computed when it has been waited for: it may have run until
        // then, and must not find that anything which it reads has been overwritten.
        bool later = true;
        std::vector<std::vector<CpuOperand*>> sums(128), factors(128);
        for (int t = 0; t < 128; ++t) {
            Context& c = thread(t);
            const auto take = [&](const std::string& operand, unsigned number, bool sum) {
                CpuOperand* kept = c.kept->find(number);
                later = later && kept;
                if (kept || sum) c.sums->start(number);
                return kept ? kept : &c.operand(operand, number);
            };
            for (size_t r = 0; r < d.size(); ++r) sums[static_cast<size_t>(t)].push_back(take(d[r], numbers[r], true));
            for (size_t r = 0; r < a.size() && a_registers; ++r) factors[static_cast<size_t>(t)].push_back(take(a[r], m.number(a[r]), false));
        }
        const auto work = std::make_shared<std::function<void()>>([=]() mutable {
            const int per_reg = 4 / static_cast<int>(bytes);
            for (int i = 0; i < p.m; ++i)
                for (int k = 0; k < p.k; ++k) {
                    if (!a_registers) {
                        p.av.push_back(shared_code(from.address(i, k, bytes, a_k_major), bytes));
                        continue;
                    }
                    const Place at = place_a(i % 16, k, 16, per_reg);
                    const CpuOperand& word = *factors[static_cast<size_t>(i / 16 * 32 + at.lane)][static_cast<size_t>(at.reg)];
                    p.av.push_back(part(Context::read(word), at.position, static_cast<int>(bytes) * 8));
                }
            for (int k = 0; k < p.k; ++k)
                for (int j = 0; j < p.n; ++j) p.bv.push_back(shared_code(b.address(j, k, bytes, b_k_major), bytes));
            const bool packed = p.acc == Fmt::f16;
            const auto cell = [&](int i, int j) -> CpuOperand& {
                const int r = packed ? j / 8 * 2 + i % 16 / 8 : j / 8 * 4 + i % 16 / 8 * 2 + j % 2;
                return *sums[static_cast<size_t>(i / 16 * 32 + i % 8 * 4 + j % 8 / 2)][static_cast<size_t>(r)];
            };
            for (int i = 0; i < p.m; ++i)
                for (int j = 0; j < p.n; ++j) {
                    const uint64_t word = keep ? Context::read(cell(i, j)) : 0;
                    p.cv.push_back(packed ? part(word, j % 2, 16) : word);
                }
            p.convert_operands();
            for (int i = 0; i < p.m; ++i)
                for (int j = 0; j < p.n; ++j) {
                    uint64_t value = p.element(i, j);
                    if (packed) value = (Context::read(cell(i, j)) & ~(uint64_t{0xffff} << (j % 2 * 16))) | value << (j % 2 * 16);
                    Context::write(cell(i, j), value);
                }
        });
        for (int t = 0; t < 128; ++t) later ? thread(t).sums->later(work) : thread(t).sums->compute();
        if (!later) (*work)();
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

/// cvt.rn.bf16x2.f32 d, high, low
void widen(const Instruction& in, Context& c) {
    const uint64_t from = c.read(in.operands[1]);
    if (in.name == "cvt.f32.f16") return c.write(in.operands[0], encode(builtin(Fmt::f32), decode(builtin(Fmt::f16), from & 0xffff)));
    const auto half = [&](int shift) { return encode(builtin(Fmt::f16), decode(builtin(Fmt::f8e4m3), from >> shift & 0xff)); };
    c.write(in.operands[0], half(0) | half(8) << 16);
}

void convert_pair(const Instruction& in, Context& c) {
    const Format& to = builtin(in.name == "cvt.rn.bf16x2.f32" ? Fmt::bf16 : Fmt::f16);
    const auto code = [&](int operand) {
        return encode(to, decode(builtin(Fmt::f32), c.read(in.operands[static_cast<size_t>(operand)]) & 0xffffffffu));
    };
    c.write(in.operands[0], code(2) | code(1) << 16);
}

/// {add, sub, mul, fma}.rn.{f16x2, bf16x2} d, a, b[, c]: both halves, with one rounding each.
void pair_arithmetic(const Instruction& in, Context& c) {
    const Format& f = builtin(in.name.find("bf16") != std::string::npos ? Fmt::bf16 : Fmt::f16);
    const std::string op = in.name.substr(0, 3);
    uint64_t out = 0;
    for (unsigned shift = 0; shift < 32; shift += 16) {
        const auto value = [&](size_t operand) { return decode(f, c.read(in.operands[operand]) >> shift & 0xffff); };
        __extension__ using Wide = __float128;  // holds sums of products of 16-bit floats exactly
        const Wide x = value(1), y = value(2);
        const Wide exact = op == "fma" ? x * y + Wide(value(3)) : op == "mul" ? x * y : op == "sub" ? x - y : x + y;
        auto rounded = static_cast<double>(exact);
        if (Wide(rounded) != exact && exact == exact) {  // to odd, so that the next rounding sees what was cut off
            const bool away = (exact < 0 ? -exact : exact) < Wide(rounded < 0 ? -rounded : rounded);
            uint64_t bits = 0;
            std::memcpy(&bits, &rounded, 8);
            bits = (bits - away) | 1;
            std::memcpy(&rounded, &bits, 8);
        }
        out |= encode(f, rounded) << shift;
    }
    c.write(in.operands[0], out);
}

void stmatrix(const Instruction& in, Context& context) {
    Machine& m = Machine::get();
    const bool transposed = in.name.find(".trans") != std::string::npos;
    m.meet(m.thread() & ~31u, 32, ~0u, &in, &context, [&](void** members) {
        const std::vector<std::string> values = list_of(in.operands[1]);
        std::vector<unsigned> rows;
        for (int l = 0; l < 32; ++l) rows.push_back(static_cast<Context*>(members[l])->address(in.operands[0]));
        for (size_t i = 0; i < values.size(); ++i)
            for (unsigned lane = 0; lane < 32; ++lane) {
                const uint64_t word = static_cast<Context*>(members[lane])->read(values[i]);
                for (unsigned h = 0; h < 2; ++h) {
                    const unsigned row = transposed ? lane % 4 * 2 + h : lane / 4, column = transposed ? lane / 4 : lane % 4 * 2 + h;
                    const unsigned address = rows[i * 8 + row];
                    if (address % 16) m.fail("stmatrix writes a row that is not aligned");
                    const auto element = static_cast<uint16_t>(word >> (16 * h));
                    std::memcpy(m.shared(address + column * 2, 2), &element, 2);
                }
            }
    });
}

}  // namespace tegula::on_cpu
