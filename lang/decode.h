// How packed narrow codes become pairs of 16-bit floats, or four bytes: a list of machine operations on 32-bit words, found by a small search. The list
// is data: it is run by tests, counted by `explain` and the cost model, and printed as PTX by the emitter.
//
// Integers and fixed point: a field is masked into the mantissa of a power of two large enough that the field counts ones, signed ones with the top
// bit flipped, and what was added is subtracted exactly. Minifloats without Inf and NaN: sign and magnitude move to where the wider float has them,
// and a multiplication by a power of two corrects the bias, exactly or with the one rounding that the cast has. Codes of up to 4 bits of any format
// are looked up in tables, integers become 8-bit integers by masks, 8-bit floats are converted by the machine (lang/decode_bytes.h).
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lang/explanation.h"
#include "lang/format.h"

namespace tegula {

struct DecodeStep {
    enum Op : uint8_t {
        shift_left,   ///< a << x
        shift_right,  ///< a >> x
        funnel,       ///< the low half of (b:a) >> x
        pick,         ///< bytes of b:a, by the nibbles of x, lowest first (PRMT)
        funnel_by,    ///< funnel and pick by the plan's number x, which is the thread's
        pick_by,
        and_xor,  ///< (a & x) ^ y
        and_or,   ///< (a & x) | b
        select,   ///< (a & x) | (b & ~x)
        table,    ///< bytes of y:x, by the nibbles of a
        choose,   ///< bytes of b:a, by the nibbles of c
        look_up,  ///< entry a of the table of pairs in shared memory: an address and a load
        add,      ///< of both halves of a and the constants in x, in the target format
        mul,
        halves,  ///< the two lowest bytes, f8e4m3, as f16
        brains,  ///< two f16 as bf16
    } op;
    int a = 0, b = 0;
    uint32_t x = 0, y = 0;
    int c = 0;
    friend bool operator==(const DecodeStep&, const DecodeStep&) = default;
};

/// A number of a plan whose fields lie `moved` bits further in some threads: a distance of (moved - residue) mod 8 + constant bits, or a selector of
/// bytes that begins as many whole bytes further.
struct ThreadNumber {
    bool selects = false;
    uint32_t constant = 0;
    friend bool operator==(const ThreadNumber&, const ThreadNumber&) = default;
};

struct DecodePlan {
    Fmt target = Fmt::f16;
    int words = 0;  ///< values 0 .. words - 1 are the input; step k makes value words + k
    std::vector<DecodeStep> steps;
    std::vector<int> pairs;  ///< by pair of 16-bit floats or four bytes: the value that holds it
    int residue = 0, first_byte = 0;
    std::vector<ThreadNumber> numbers;
    uint32_t number_of(size_t n, int moved) const;
    bool looks_up() const;
    int logic() const;       ///< operations on words
    int arithmetic() const;  ///< of floats
    std::vector<explain::Operations> operations() const;
    std::string text() const;  ///< "2 PRMT, 8 LOP3, 8 HADD2"
    friend bool operator==(const DecodePlan&, const DecodePlan&) = default;
};

/// The format among those that codes are decoded to.
std::optional<Fmt> decode_target(FormatId to);
/// How many codes a word of them holds: 2 or 4.
int codes_per_word(Fmt to);

/// Can codes of `from` be cast to `to` this way, whatever the rounding mode (integers, fixed point, exact tables) or to nearest?
bool decodes_exactly(const Format& from, Fmt to);
bool has_decoding(const Format& from, Fmt to);

/// `pairs`: bit positions among `words` words of the code in the low half and of that in the high half. `moved`: by how many bits the codes of a
/// thread lie further than that. nullopt: some pair has no recipe.
std::optional<DecodePlan> plan_decoding(const Format& from, Fmt to, int words, std::span<const std::array<int, 2>> pairs,
                                        std::span<const int> moved = {});

}  // namespace tegula
