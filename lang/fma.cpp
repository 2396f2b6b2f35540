// fma_round_odd: a * b + c rounded to odd (the last bit is set when anything was lost), so that one more rounding to a format of at
// most 32 bits gives the correctly rounded result. A short path for products that are exact in double, 128-bit integers for the rest.
#include <bit>
#include <cmath>

#include "lang/format.h"

namespace tegula {

namespace {

__extension__ using Wide = unsigned __int128;

constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1;

unsigned exponent_field(uint64_t bits) { return static_cast<unsigned>(bits >> 52 & 0x7FF); }

/// magnitude * 2^exponent with the top bit of magnitude at 126, so that a sum fits into 128 bits.
struct Term {
    Wide magnitude;
    int exponent;
    bool negative;
};

int leading_zeros(Wide v) {
    uint64_t high = static_cast<uint64_t>(v >> 64);
    return high ? std::countl_zero(high) : 64 + std::countl_zero(static_cast<uint64_t>(v));
}

Term normalise(Wide magnitude, int exponent, bool negative) {
    if (magnitude == 0) return {0, -100000, negative};
    int shift = leading_zeros(magnitude) - 1;
    return {magnitude << shift, exponent - shift, negative};
}

double to_odd(Term sum, bool sticky) {
    if (sum.magnitude == 0) return 0.0;
    uint64_t sign = uint64_t{sum.negative} << 63;
    int exponent = sum.exponent + 127 - leading_zeros(sum.magnitude);  // of the value
    if (exponent > 1023) return std::bit_cast<double>(sign | ((uint64_t{2047} << 52) - 1));
    int quantum = (exponent < -1022 ? -1022 : exponent) - 52;
    int shift = quantum - sum.exponent;
    uint64_t kept = shift > 127 ? 0 : static_cast<uint64_t>(shift < 0 ? sum.magnitude << -shift : sum.magnitude >> shift);
    bool lost = sticky || shift > 127 || (shift > 0 && (sum.magnitude & ((Wide{1} << shift) - 1)) != 0);
    uint64_t field = exponent < -1022 ? 0 : static_cast<uint64_t>(exponent + 1022) << 52;  // the implicit bit adds one
    return std::bit_cast<double>(sign | (field + kept) | uint64_t{lost});
}

uint64_t significand(uint64_t bits) { return (bits & kMantissa) | (exponent_field(bits) ? uint64_t{1} << 52 : 0); }
int quantum_of(uint64_t bits) { return static_cast<int>(exponent_field(bits) ? exponent_field(bits) : 1) - 1075; }

double general(uint64_t a, uint64_t b, uint64_t c) {
    Term product = normalise(Wide{significand(a)} * significand(b), quantum_of(a) + quantum_of(b), (a ^ b) >> 63);
    Term addend = normalise(significand(c), quantum_of(c), c >> 63);
    bool swap = product.exponent < addend.exponent || (product.exponent == addend.exponent && product.magnitude < addend.magnitude);
    const Term &large = swap ? addend : product, &small = swap ? product : addend;
    int distance = large.exponent - small.exponent;
    Wide shifted = distance > 127 ? 0 : small.magnitude >> distance;
    bool sticky = small.magnitude != 0 && (distance > 127 || (shifted << distance) != small.magnitude);
    bool subtract = large.negative != small.negative;
    Wide magnitude = subtract ? large.magnitude - shifted - sticky : large.magnitude + shifted;
    return to_odd({magnitude, large.exponent, large.negative}, sticky);
}

}  // namespace

double fma_round_odd(double a, double b, double c) {
    uint64_t abits = std::bit_cast<uint64_t>(a), bbits = std::bit_cast<uint64_t>(b), cbits = std::bit_cast<uint64_t>(c);
    double product = a * b;
    unsigned product_field = exponent_field(std::bit_cast<uint64_t>(product)), c_field = exponent_field(cbits);
    constexpr uint64_t kHalf = (uint64_t{1} << 27) - 1;
    if (((abits | bbits) & kHalf) == 0 && product_field - 100 < 1900 && c_field < 2000) {
        // The product of two 26-bit significands is exact; so is the error of the sum (Knuth's two-sum).
        double sum = product + c, part = sum - product, error = (product - (sum - part)) + (c - part);
        uint64_t bits = std::bit_cast<uint64_t>(sum);
        if (error == 0 || (bits & 1)) return sum;
        bool away = (error > 0) == (sum > 0);
        return std::bit_cast<double>(away ? bits + 1 : bits - 1);
    }
    bool special = exponent_field(abits) == 2047 || exponent_field(bbits) == 2047 || c_field == 2047 || a == 0 || b == 0;
    return special ? std::fma(a, b, c) : general(abits, bbits, cbits);
}

}  // namespace tegula
