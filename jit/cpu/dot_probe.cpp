// The instruction beside fma (dot_probe.h): conversions, and sums that tell the order of the two steps, where they round and how, and what they make
// of infinities.
#include "jit/cpu/dot_probe.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tegula::cpu {

#if defined(__x86_64__)

namespace {

constexpr int kLanes = 16;
constexpr int kRounds = 256;

struct Sums {
    float start[kLanes];
    uint32_t a[kLanes], b[kLanes];  ///< pairs of bf16
};

float upper(uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }
float lower(uint32_t pair) { return std::bit_cast<float>(pair << 16); }

/// Numbers with few exponents, so that sums cancel, tie and lose bits; now and then one at the end of what the row is used for, or not finite.
uint32_t bf16_of(uint64_t random) {
    static constexpr uint32_t kRare[] = {0x7f7f, 0x7f80, 0x7fc0, 0x2380, 0x2381, 0x0000};
    const uint32_t sign = static_cast<uint32_t>(random) & 0x8000;
    if ((random >> 16 & 31) == 0) return sign | kRare[(random >> 21) % 6];
    return sign | static_cast<uint32_t>(121 + (random >> 21) % 13) << 7 | (static_cast<uint32_t>(random) & 0x7f);
}

Sums draw(uint64_t& state) {
    const auto next = [&] {  // splitmix64
        uint64_t z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
    };
    Sums out;
    for (int l = 0; l < kLanes; ++l) {
        const uint64_t x = next();
        out.a[l] = bf16_of(next()) << 16 | bf16_of(next());
        out.b[l] = bf16_of(next()) << 16 | bf16_of(next());
        const float product = upper(out.a[l]) * upper(out.b[l]);
        const float random = std::bit_cast<float>((static_cast<uint32_t>(x) & 0x807fffffu) | static_cast<uint32_t>(110 + (x >> 32) % 35) << 23);
        out.start[l] = (x >> 60) < 4 ? -product : (x >> 60) < 6 ? (x >> 59 & 1 ? 0.0f : -0.0f) : random;
        // The largest products leave the range in one step and come back in none.
        if ((x >> 60) == 15) out.start[l] = x >> 59 & 1 ? 0x1.fffffep127f : -0x1.fffffep127f;
    }
    return out;
}

bool equal(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b); }

__attribute__((target("fma"))) float two_fmas(float start, uint32_t a, uint32_t b) {
    return __builtin_fmaf(lower(a), lower(b), __builtin_fmaf(upper(a), upper(b), start));
}

__attribute__((target("avx512f,avx512bf16"))) void by_instruction(const Sums& s, float* out) {
    const __m512i a = _mm512_loadu_si512(s.a), b = _mm512_loadu_si512(s.b);
    _mm512_storeu_ps(out, _mm512_dpbf16_ps(_mm512_loadu_ps(s.start), reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b)));
}

/// Nearest even, of floats with a normal value or zero.
__attribute__((target("avx512f,avx512bf16"))) bool rounds(const float* values) {
    uint16_t got[kLanes];
    const __m256bh codes = _mm512_cvtneps_pbh(_mm512_loadu_ps(values));
    __builtin_memcpy(got, &codes, sizeof got);
    for (int l = 0; l < kLanes; ++l) {
        const auto bits = std::bit_cast<uint32_t>(values[l]);
        if (got[l] != static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)) return false;
    }
    return true;
}

}  // namespace

bool dot_bf16_is_two_fmas() {
    if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("fma")) return false;
    uint64_t state = 1;
    for (int round = 0; round < kRounds; ++round) {
        const Sums sums = draw(state);
        float got[kLanes];
        by_instruction(sums, got);
        if (!rounds(sums.start)) return false;
        for (int l = 0; l < kLanes; ++l)
            if (!equal(got[l], two_fmas(sums.start[l], sums.a[l], sums.b[l]))) return false;
    }
    return true;
}

namespace {

/// Seconds of a hundred steps on each of twelve sums.
template <bool dot>
__attribute__((target("avx512f,avx512bf16"))) double seconds() {
    __m512 sums[12] = {};
    const __m512 one = _mm512_set1_ps(1);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i)
#pragma GCC unroll 12
        for (__m512& sum : sums) {
            if constexpr (dot)
                sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(one), reinterpret_cast<__m512bh>(one));
            else
                sum = _mm512_fmadd_ps(one, one, sum);
            __asm__ volatile("" : "+v"(sum));  // neither merged nor left out
        }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

bool dot_bf16_is_quick() {
    if (!__builtin_cpu_supports("avx512bf16")) return false;
    double dots = 1, fmas = 1;
    for (int round = 0; round < 9; ++round) {
        dots = std::min(dots, seconds<true>());
        fmas = std::min(fmas, seconds<false>());
    }
    return dots < 2 * fmas * 0.8;
}

bool may_use_tiles() {
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#else

bool dot_bf16_is_two_fmas() { return false; }
bool dot_bf16_is_quick() { return false; }
bool may_use_tiles() { return false; }

#endif

}  // namespace tegula::cpu
