// Packed storage against a bit-by-bit model: every width, every bit offset, canaries in all neighbouring bits and bytes.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "lang/format.h"

using namespace tegula;

namespace {

bool bit(const std::vector<uint8_t>& bytes, uint64_t at) { return bytes[at / 8] >> (at % 8) & 1; }

uint64_t read_bits(const std::vector<uint8_t>& bytes, uint64_t at, unsigned width, bool is_signed) {
    uint64_t value = 0;
    for (unsigned i = 0; i < width; ++i) value |= uint64_t{bit(bytes, at + i)} << i;
    if (is_signed && bit(bytes, at + width - 1))
        for (unsigned i = width; i < 64; ++i) value |= uint64_t{1} << i;
    return value;
}

/// The container as the contract states it: extended to its own width only.
uint64_t container(const void* data, size_t i, unsigned bytes) {
    uint64_t value = 0;
    std::memcpy(&value, static_cast<const uint8_t*>(data) + i * bytes, bytes);
    return value;
}

uint64_t truncated(uint64_t value, unsigned bytes) { return bytes == 8 ? value : value & ((uint64_t{1} << 8 * bytes) - 1); }

TEST(storage, every_width_and_offset) {
    std::mt19937_64 random(1);
    for (unsigned width = 1; width <= 64; ++width) {
        for (unsigned offset = 0; offset < 24; ++offset) {
            Format f = int_format(width, offset % 2);
            uint64_t count = 1 + random() % 40, bits = offset + count * width;
            // An exact-size heap block, so that the sanitizers see any access outside the element bytes.
            std::vector<uint8_t> stream((bits + 7) / 8);
            for (uint8_t& byte : stream) byte = uint8_t(random());
            unsigned bytes = f.container_bytes();
            std::vector<uint64_t> out(count + 1, 0xA5A5A5A5A5A5A5A5);
            unpack_bits(f, stream.data(), offset, count, out.data());
            for (uint64_t i = 0; i < count; ++i) {
                uint64_t want = read_bits(stream, offset + i * width, width, f.is_signed);
                ASSERT_EQ(container(out.data(), i, bytes), truncated(want, bytes)) << f.name << " offset " << offset << " element " << i;
                ASSERT_EQ(load_bits(f, stream.data(), offset + i * width), want);
            }
            ASSERT_EQ(container(out.data(), count, bytes), truncated(0xA5A5A5A5A5A5A5A5, bytes)) << "wrote past the containers";

            for (uint64_t& word : out) word = random();  // stray bits above the width must not leak
            std::vector<uint8_t> packed = stream;
            pack_bits(f, out.data(), count, packed.data(), offset);
            for (uint64_t at = 0; at < 8 * stream.size(); ++at) {
                bool inside = at >= offset && at < bits;
                uint64_t i = inside ? (at - offset) / width : 0;
                bool want = inside ? container(out.data(), i, bytes) >> ((at - offset) % width) & 1 : bit(stream, at);
                ASSERT_EQ(bit(packed, at), want) << f.name << " offset " << offset << " bit " << at;
            }
        }
    }
}

TEST(storage, one_element_keeps_its_neighbours) {
    for (unsigned width = 1; width <= 64; ++width) {
        Format f = int_format(width, true);
        for (unsigned offset = 0; offset < 8; ++offset) {
            for (uint8_t canary : {uint8_t{0}, uint8_t{0xFF}}) {
                std::vector<uint8_t> bytes((offset + width + 7) / 8, canary);
                uint64_t code = 0x9E3779B97F4A7C15u;
                store_bits(f, code, bytes.data(), offset);
                ASSERT_EQ(read_bits(bytes, offset, width, false), code & (~uint64_t{0} >> (64 - width)));
                for (uint64_t at = 0; at < 8 * bytes.size(); ++at) {
                    bool own = at >= offset && at < offset + width;
                    ASSERT_TRUE(own || bit(bytes, at) == (canary != 0)) << width << " " << offset << " " << at;
                }
            }
        }
    }
}

TEST(storage, known_streams) {
    // 1, 2, 3, .. in 3-bit elements: 001 010 011 100 101 110 111 000 from the low end.
    const uint8_t three[] = {0xD1, 0x58, 0x1F};
    uint8_t out[8];
    unpack_bits(int_format(3, false), three, 0, 8, out);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(out[i], (i + 1) % 8);
    // The first 4-bit element is the low nibble; signed elements are extended.
    const uint8_t four[] = {0x8F};
    unpack_bits(int_format(4, true), four, 0, 2, out);
    EXPECT_EQ(int8_t(out[0]), -1);
    EXPECT_EQ(int8_t(out[1]), -8);
    uint8_t packed[1] = {0};
    pack_bits(int_format(4, true), out, 2, packed, 0);
    EXPECT_EQ(packed[0], 0x8F);
    unpack_bits(int_format(4, true), nullptr, 0, 0, nullptr);  // nothing is touched
    pack_bits(int_format(4, true), nullptr, 0, nullptr, 0);
}

TEST(storage, floats_are_not_extended_and_fixed_point_is) {
    Format f4 = builtin_formats()[size_t(Fmt::f4e2m1)];
    const uint8_t byte[] = {0xFF};
    EXPECT_EQ(load_bits(f4, byte, 4), 15u);
    Format fixed;
    fixed.kind = FormatKind::fixed;
    fixed.bits = 4, fixed.int_bits = 2, fixed.frac_bits = 2;
    EXPECT_EQ(int64_t(load_bits(fixed, byte, 4)), -1);
    const uint8_t bytes[] = {0xFF, 0xFF};
    for (const uint8_t bits : {4, 7}) {
        fixed.bits = bits, fixed.int_bits = static_cast<uint8_t>(bits - 2);
        int8_t run[2] = {};
        unpack_bits(fixed, bytes, 0, 2, run);
        EXPECT_TRUE(run[0] == -1 && run[1] == -1) << int{bits};
    }
}

}  // namespace
