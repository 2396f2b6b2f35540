// What products of the CPU machine have in common: formats by their PTX names, elements of an operand in swizzled shared memory, and the sum of one
// instruction (lang/tensor_core.h, measured on hardware). Written from the PTX ISA ("Swizzling modes", "Shared memory layout"), not from the emitter.
#pragma once
#include <cmath>
#include <cstring>

#include "lang/tensor_core.h"
#include "tests/emulate/ptx.h"

namespace tegula::on_cpu {

/// "mma.sync.aligned" -> mma, sync, aligned.
inline std::vector<std::string> parts_of(const std::string& name) {
    std::vector<std::string> out;
    for (size_t at = 0; at <= name.size();) {
        const size_t end = std::min(name.find('.', at), name.size());
        out.push_back(name.substr(at, end - at));
        at = end + 1;
    }
    return out;
}

inline Fmt format_of(const std::string& ptx) {
    static const std::map<std::string, Fmt> names = {{"f16", Fmt::f16}, {"bf16", Fmt::bf16},   {"tf32", Fmt::tf32},   {"f64", Fmt::f64},
                                                     {"f32", Fmt::f32}, {"e4m3", Fmt::f8e4m3}, {"e5m2", Fmt::f8e5m2}, {"s8", Fmt::i8},
                                                     {"u8", Fmt::u8},   {"s32", Fmt::i32}};
    const auto it = names.find(ptx);
    if (it == names.end()) Machine::get().fail("an operand type that is not known: " + ptx);
    return it->second;
}

inline const Format& builtin(Fmt f) {
    static const std::vector<Format> all = builtin_formats();
    return all[static_cast<size_t>(f)];
}

/// Where TMA and products look for what lies at `address` without a swizzle of that many bytes.
inline unsigned xor_swizzle(unsigned address, unsigned bytes) {
    const unsigned bits = bytes == 128 ? 7 : bytes == 64 ? 3 : bytes == 32 ? 1 : 0;
    return address ^ ((address >> 7 & bits) << 4);
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
        // Instructions that programs declare take other extents than those of the table; the sum of its formats is theirs.
        for (const MmaRow& r : mma_rows())
            if (r.kind == kind && r.a == a && r.b == b && r.acc == acc && r.min_arch <= arch && arch <= r.max_arch && (!row || r.k == k)) row = &r;
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

/// An operand in shared memory, as descriptors say it: where it starts, and the distances of its patterns.
struct Operand {
    unsigned start, leading, stride, swizzle;
    /// Fields that descriptors of wgmma and tcgen05 share; `swizzle` in bytes.
    Operand(uint64_t d, unsigned swizzle_bytes)
        : start(static_cast<unsigned>(d & 0x3fff) << 4),
          leading(static_cast<unsigned>(d >> 16 & 0x3fff) << 4),
          stride(static_cast<unsigned>(d >> 32 & 0x3fff) << 4),
          swizzle(swizzle_bytes) {
        if (swizzle == 0) Machine::get().fail("operands without swizzle are not emulated");
    }
    /// Address of element (x, k), x along M or N.
    unsigned address(int x, int k, unsigned bytes, bool k_major) const {
        const unsigned ux = static_cast<unsigned>(x), uk = static_cast<unsigned>(k), row = swizzle / bytes;
        // 8 rows of `swizzle` bytes are one pattern; rows are x where k is contiguous, and k otherwise.
        const unsigned offset =
            k_major ? ux / 8 * stride + ux % 8 * swizzle + uk * bytes : ux / row * leading + uk / 8 * stride + uk % 8 * swizzle + ux % row * bytes;
        if (k_major && (start % swizzle) + (uk + 1) * bytes > swizzle) Machine::get().fail("a step of a product leaves its panel");
        return xor_swizzle(start + offset, swizzle);
    }
};

inline uint64_t shared_code(unsigned address, unsigned bytes) {
    uint64_t v = 0;
    std::memcpy(&v, Machine::get().shared(address, bytes), bytes);
    return v;
}

}  // namespace tegula::on_cpu
