// How packed narrow codes become pairs of 16-bit floats: a list of machine operations on 32-bit words, found by a small search. The list is data: it
// is run by tests, counted by `explain` and the cost model, and printed as PTX by the emitter.
//
// Integers and fixed point: a field is masked into the mantissa of a power of two large enough that the field counts ones, signed ones with the top
// bit flipped, and what was added is subtracted exactly. Minifloats without Inf and NaN: sign and magnitude move to where the wider float has them,
// and a multiplication by a power of two corrects the bias, exactly or with the one rounding that the cast has.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lang/format.h"

namespace tegula {

struct DecodeStep {
    enum Op : uint8_t {
        shift_left,   ///< a << x
        shift_right,  ///< a >> x
        funnel,       ///< the low half of (b:a) >> x
        pick,         ///< bytes of b:a, by the nibbles of x, lowest first (PRMT)
        and_xor,      ///< (a & x) ^ y
        and_or,       ///< (a & x) | b
        add,          ///< of both halves of a and the constants in x, in the target format
        mul,
    } op;
    int a = 0, b = 0;
    uint32_t x = 0, y = 0;
    friend bool operator==(const DecodeStep&, const DecodeStep&) = default;
};

struct DecodePlan {
    Fmt target = Fmt::f16;  ///< f16 or bf16
    int words = 0;          ///< values 0 .. words - 1 are the input; step k makes value words + k
    std::vector<DecodeStep> steps;
    std::vector<int> pairs;    ///< by pair: the value that holds it
    int logic() const;         ///< operations on words
    int arithmetic() const;    ///< of floats
    std::string text() const;  ///< "2 PRMT, 8 LOP3, 8 HADD2"
    friend bool operator==(const DecodePlan&, const DecodePlan&) = default;
};

/// Can codes of `from` be cast to `to` this way, whatever the rounding mode (integers, fixed point) or to nearest (minifloats)?
bool decodes_exactly(const Format& from, Fmt to);
bool has_decoding(const Format& from, Fmt to);

/// `pairs`: bit positions among `words` words of the code in the low half and of that in the high half. nullopt: some pair has no recipe.
std::optional<DecodePlan> plan_decoding(const Format& from, Fmt to, int words, std::span<const std::array<int, 2>> pairs);

}  // namespace tegula
