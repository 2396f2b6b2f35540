// decode and encode of many elements: the interpreter's inner loops (format.h). Small formats go through a table built per call,
// floats through loops without calls; all results equal those of the scalar functions.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "lang/fast_float.h"
#include "lang/format.h"

namespace tegula {

namespace {

constexpr size_t kTableWorth = 512;  // elements for which a 256-entry table pays
constexpr double kNan = std::bit_cast<double>(uint64_t{0x7FF8} << 48);

template <class Container>
void decode_small(const Format& f, const Container* in, size_t n, double* out) {
    std::array<double, 256> table{};
    for (unsigned code = 0; code < 1u << f.bits; ++code) table[code] = decode(f, code);
    unsigned mask = (1u << f.bits) - 1;
    for (size_t i = 0; i < n; ++i) out[i] = table[in[i] & mask];
}

template <class Container>
void decode_integers(const Format& f, const Container* in, size_t n, double* out) {
    unsigned spare = 64u - f.bits;
    double quantum = f.kind == FormatKind::fixed ? std::ldexp(1.0, -int{f.frac_bits}) : 1.0;
    if (f.is_signed)
        for (size_t i = 0; i < n; ++i) out[i] = quantum * static_cast<double>(static_cast<int64_t>(uint64_t{in[i]} << spare) >> spare);
    else
        for (size_t i = 0; i < n; ++i) out[i] = quantum * static_cast<double>(uint64_t{in[i]} << spare >> spare);
}

template <class Container>
void decode_floats(const Format& f, const FastFloat& fast, const Container* in, size_t n, double* out) {
    double quantum = std::ldexp(1.0, fast.min_exponent - static_cast<int>(fast.man_bits));
    uint64_t magnitude_mask = (uint64_t{1} << fast.sign_at) - 1, first_normal = uint64_t{1} << fast.man_bits;
    double above = f.has_inf ? HUGE_VAL : kNan;
    for (size_t i = 0; i < n; ++i) {
        uint64_t magnitude = (in[i] & magnitude_mask) >> fast.padding;
        double small = quantum * static_cast<double>(static_cast<int64_t>(magnitude));
        double normal = std::bit_cast<double>((magnitude + fast.rebias) << (52 - fast.man_bits));
        double value = magnitude < first_normal ? small : normal;
        value = magnitude <= fast.max ? value : magnitude == fast.max + 1 ? above : kNan;
        bool nan = value != value;
        out[i] = nan ? value : std::bit_cast<double>(std::bit_cast<uint64_t>(value) | (uint64_t{in[i]} >> fast.sign_at & 1) << 63);
    }
}

template <class Container>
void decode_as(const Format& f, const void* containers, size_t n, double* out) {
    const Container* in = static_cast<const Container*>(containers);
    FastFloat fast(f);
    if (f.is_int() || f.kind == FormatKind::fixed) return decode_integers(f, in, n, out);
    if (f.bits <= 8 && n >= kTableWorth) return decode_small(f, in, n, out);
    if (fast.usable && fast.negative_zero) return decode_floats(f, fast, in, n, out);
    for (size_t i = 0; i < n; ++i) out[i] = decode(f, in[i]);
}

template <class Container>
void encode_as(const Format& f, const double* in, size_t n, void* containers) {
    Container* out = static_cast<Container*>(containers);
    FastFloat fast(f);
    for (size_t i = 0; i < n; ++i) {
        uint64_t code = 0;
        bool done = fast.usable && fast.encode(std::bit_cast<uint64_t>(in[i]), code);
        out[i] = static_cast<Container>(done ? code : encode(f, in[i]));
    }
}

}  // namespace

void decode_many(const Format& f, const void* containers, size_t n, double* out) {
    if (n == 0) return;
    if (is_ieee_binary(f, 64)) {
        std::memcpy(out, containers, n * sizeof(double));
        return;
    }
    if (is_ieee_binary(f, 32)) {
        const float* in = static_cast<const float*>(containers);
        for (size_t i = 0; i < n; ++i) out[i] = in[i];
        return;
    }
    switch (f.container_bytes()) {
        case 1:
            return decode_as<uint8_t>(f, containers, n, out);
        case 2:
            return decode_as<uint16_t>(f, containers, n, out);
        case 4:
            return decode_as<uint32_t>(f, containers, n, out);
        default:
            return decode_as<uint64_t>(f, containers, n, out);
    }
}

void encode_many(const Format& f, const double* in, size_t n, void* containers) {
    if (is_ieee_binary(f, 32)) {
        uint32_t* out = static_cast<uint32_t*>(containers);
        for (size_t i = 0; i < n; ++i) out[i] = in[i] != in[i] ? 0x7FC00000u : std::bit_cast<uint32_t>(static_cast<float>(in[i]));
        return;
    }
    switch (f.container_bytes()) {
        case 1:
            return encode_as<uint8_t>(f, in, n, containers);
        case 2:
            return encode_as<uint16_t>(f, in, n, containers);
        case 4:
            return encode_as<uint32_t>(f, in, n, containers);
        default:
            return encode_as<uint64_t>(f, in, n, containers);
    }
}

}  // namespace tegula
