// Packed storage (format.h): a little-endian bit stream of elements, any width, any bit offset. No byte outside those that hold the
// requested elements is read or written; bits of neighbours in the first and the last byte are preserved.
#include <algorithm>
#include <bit>
#include <cstring>

#include "lang/format.h"

namespace tegula {

namespace {

static_assert(std::endian::native == std::endian::little);
__extension__ using Wide = unsigned __int128;

bool extends_sign(const Format& f) { return f.is_signed && (f.kind == FormatKind::integer || f.kind == FormatKind::fixed); }

/// The low `width` bits, extended to the container.
template <class Container, bool kSigned>
Container extend(uint64_t code, unsigned width) {
    unsigned spare = 64 - width;
    if constexpr (kSigned) return static_cast<Container>(static_cast<int64_t>(code << spare) >> spare);
    return static_cast<Container>(code << spare >> spare);
}

uint64_t load_code(const uint8_t* data, uint64_t bit_offset, unsigned width) {
    const uint8_t* at = data + (bit_offset >> 3);
    unsigned shift = bit_offset & 7, bytes = (shift + width + 7) / 8;
    uint64_t low = 0;
    std::memcpy(&low, at, std::min(bytes, 8u));
    low >>= shift;
    return bytes == 9 ? low | uint64_t{at[8]} << (64 - shift) : low;
}

template <class Container, bool kSigned>
void unpack(const uint8_t* data, uint64_t bit_offset, uint64_t count, unsigned width, Container* out) {
    uint64_t i = 0, at = bit_offset;
    if (8 % width == 0 && bit_offset % width == 0) {  // 1, 2, 4: elements never straddle bytes
        unsigned per_byte = 8 / width;
        for (; i < count && (at & 7); ++i, at += width) out[i] = extend<Container, kSigned>(uint64_t{data[at >> 3]} >> (at & 7), width);
        const uint8_t* byte = data + (at >> 3);
        for (; i + per_byte <= count; i += per_byte, at += 8, ++byte)
            for (unsigned j = 0; j < per_byte; ++j) out[i + j] = extend<Container, kSigned>(uint64_t{*byte} >> (j * width), width);
    } else if (width <= 57) {
        uint64_t end_byte = (bit_offset + count * width + 7) >> 3;
        for (; i < count && (at >> 3) + 8 <= end_byte; ++i, at += width) {
            uint64_t window;
            std::memcpy(&window, data + (at >> 3), 8);
            out[i] = extend<Container, kSigned>(window >> (at & 7), width);
        }
    }
    for (; i < count; ++i, at += width) out[i] = extend<Container, kSigned>(load_code(data, at, width), width);
}

/// Streams codes through an accumulator that holds at least 7 + width bits.
template <class Container, class Accumulator>
void pack(const Container* in, uint64_t count, unsigned width, uint8_t* data, uint64_t bit_offset) {
    uint8_t* at = data + (bit_offset >> 3);
    unsigned held = bit_offset & 7;
    uint64_t mask = ~uint64_t{0} >> (64 - width);
    Accumulator window = held ? *at & ((1u << held) - 1) : 0;
    for (uint64_t i = 0; i < count; ++i) {
        window |= static_cast<Accumulator>(static_cast<uint64_t>(in[i]) & mask) << held;
        held += width;
        for (; held >= 8; held -= 8, window >>= 8) *at++ = static_cast<uint8_t>(window);
    }
    if (held) *at = static_cast<uint8_t>(static_cast<uint8_t>(window) | (*at & (0xFFu << held)));
}

template <class Container>
void unpack_as(const Format& f, const uint8_t* data, uint64_t bit_offset, uint64_t count, void* out) {
    if (extends_sign(f))
        unpack<Container, true>(data, bit_offset, count, f.bits, static_cast<Container*>(out));
    else
        unpack<Container, false>(data, bit_offset, count, f.bits, static_cast<Container*>(out));
}

template <class Container>
void pack_as(const Format& f, const void* in, uint64_t count, uint8_t* data, uint64_t bit_offset) {
    if (f.bits <= 56)
        pack<Container, uint64_t>(static_cast<const Container*>(in), count, f.bits, data, bit_offset);
    else
        pack<Container, Wide>(static_cast<const Container*>(in), count, f.bits, data, bit_offset);
}

bool is_plain(const Format& f, uint64_t bit_offset) { return bit_offset % 8 == 0 && f.bits == 8 * f.container_bytes(); }

}  // namespace

void unpack_bits(const Format& format, const uint8_t* data, uint64_t bit_offset, uint64_t count, void* out) {
    if (count == 0) return;
    if (is_plain(format, bit_offset)) {
        std::memcpy(out, data + bit_offset / 8, count * format.container_bytes());
        return;
    }
    switch (format.container_bytes()) {
        case 1:
            return unpack_as<uint8_t>(format, data, bit_offset, count, out);
        case 2:
            return unpack_as<uint16_t>(format, data, bit_offset, count, out);
        case 4:
            return unpack_as<uint32_t>(format, data, bit_offset, count, out);
        default:
            return unpack_as<uint64_t>(format, data, bit_offset, count, out);
    }
}

void pack_bits(const Format& format, const void* containers, uint64_t count, uint8_t* data, uint64_t bit_offset) {
    if (count == 0) return;
    if (is_plain(format, bit_offset)) {
        std::memcpy(data + bit_offset / 8, containers, count * format.container_bytes());
        return;
    }
    switch (format.container_bytes()) {
        case 1:
            return pack_as<uint8_t>(format, containers, count, data, bit_offset);
        case 2:
            return pack_as<uint16_t>(format, containers, count, data, bit_offset);
        case 4:
            return pack_as<uint32_t>(format, containers, count, data, bit_offset);
        default:
            return pack_as<uint64_t>(format, containers, count, data, bit_offset);
    }
}

uint64_t load_bits(const Format& format, const uint8_t* data, uint64_t bit_offset) {
    return extend_code(format, load_code(data, bit_offset, format.bits));
}

void store_bits(const Format& format, uint64_t code, uint8_t* data, uint64_t bit_offset) {
    pack<uint64_t, Wide>(&code, 1, format.bits, data, bit_offset);
}

}  // namespace tegula
