// Number formats: what the bits of one element mean. One description drives decode, encode and storage on every
// machine. Formats are values interned in a TypeTable; FormatId is how types and IR name them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tegula {

struct FormatId {
    uint32_t v = 0;
    friend bool operator==(FormatId, FormatId) = default;
};

enum class FormatKind : uint8_t { boolean, integer, floating, fixed, lns, codebook, block };
/// How a minifloat writes NaN: IEEE (top exponent, non-zero mantissa), the all-ones code only, the code of -0, not at all.
enum class NanCode : uint8_t { ieee, all_ones, negative_zero, none };
/// How a block's scale exponent is chosen from its largest magnitude (OCP MX default: floor).
enum class ScaleRule : uint8_t { floor, ceil, even, rceil };

/// rne: nearest, ties to even; rna: nearest, ties away; rtz/ru/rd: toward zero/+inf/-inf; stochastic: keyed by (seed, element index); bits: by an
/// integer that is given for each element.
enum class Round : uint8_t { rne, rna, rtz, ru, rd, stochastic, bits };
/// Do random bits decide?
constexpr bool is_random(Round round) { return round >= Round::stochastic; }
/// ieee: Inf if the format has it, else NaN, else clamp; sat: finite clamp, Inf -> max, NaN -> NaN or +max; trap: as ieee, reported in
/// checked mode. automatic: ieee where the format has Inf, else sat.
enum class Overflow : uint8_t { automatic, ieee, sat, trap };

struct Format {
    FormatKind kind = FormatKind::integer;
    bool is_signed = true;
    uint8_t bits = 0;  ///< element width in storage, 1..64 (block: the element's)

    // floating: value = (-1)^s * 2^(E - bias) * 1.M, or 2^(1 - bias) * 0.M for E = 0 when subnormal
    uint8_t exp_bits = 0, man_bits = 0;
    int32_t bias = 0;
    bool has_inf = false, subnormal = true, negative_zero = true;
    bool scale_only = false;  ///< f8e8m0: no zero, E = 0 is 2^-bias
    NanCode nan = NanCode::none;

    uint8_t int_bits = 0, frac_bits = 0;  ///< fixed, lns: bits = int_bits + frac_bits (sign in int_bits); lns adds a sign bit
    std::vector<double> table;            ///< codebook: 2^bits values

    FormatId elem{}, scale{}, tensor_scale{};  ///< block; tensor_scale.v == 0 means none
    uint32_t block_size = 0;
    ScaleRule scale_rule = ScaleRule::floor;

    std::string name;  ///< canonical spelling: "f16", "u3", "float<3, 2>", "codebook<4>[...]"
    friend bool operator==(const Format&, const Format&) = default;

    bool is_int() const { return kind == FormatKind::integer; }
    bool is_float() const { return kind == FormatKind::floating; }
    bool is_bool() const { return kind == FormatKind::boolean; }
    bool is_block() const { return kind == FormatKind::block; }
    /// Bytes of the container an unpacked element lives in: 1, 2, 4 or 8.
    unsigned container_bytes() const { return bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8; }
};

/// Formats with fixed ids, in the order of formats.def; id 0 is "no format".
enum class Fmt : uint32_t {
    none_,
#define FORMAT(id, ...) id,
#include "lang/formats.def"
#undef FORMAT
    builtin_count_
};
constexpr FormatId id_of(Fmt f) { return FormatId{static_cast<uint32_t>(f)}; }
constexpr bool operator==(FormatId a, Fmt b) { return a.v == static_cast<uint32_t>(b); }

/// The built-in formats in id order, entry 0 empty.
std::vector<Format> builtin_formats();
/// The built-in format with the same fields; none_: there is none.
Fmt builtin_of(const Format& format);
Format int_format(unsigned bits, bool is_signed);
/// The defaults of `float<E, M>`: bias 2^(E-1) - 1 (1 when E = 0), subnormals, a sign; Inf and NaN as in IEEE 754 when E >= 2 and M >= 1, else none.
Format float_format(unsigned exp_bits, unsigned man_bits);
/// The same format with the fields that its kind does not use cleared; interned formats are canonical.
Format canonical(const Format& format);
/// Empty string, or why `format` is not legal (used for user declarations).
std::string format_problem(const Format& format);
/// The spelling that error messages use, from the fields alone: "u3", "f16", "float<3, 2, nan = none>", "fixed<4, 4>", "codebook<2>[..]".
/// Equal formats have equal names. A block's name needs its element's: TypeTable::intern makes it.
std::string canonical_name(const Format& format);

/// The lowest `n` bits set.
inline uint64_t low_bits(unsigned n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }

// ---- special codes. Block formats have none of these. ----

/// Largest and most negative finite value (the latter 0, or the smallest value of f8e8m0, when unsigned); codebook: their lowest index.
uint64_t max_code(const Format& format);
uint64_t lowest_code(const Format& format);
/// Smallest positive normal value of a floating format.
uint64_t min_normal_code(const Format& format);
bool has_nan(const Format& format);  ///< floating with a NaN code, lns
/// The canonical (positive) NaN; max_code where there is none, 0 for integers and fixed point.
uint64_t nan_code(const Format& format);
/// Infinity of a floating format with has_inf.
uint64_t inf_code(const Format& format, bool negative);
/// The low `bits` of `code`, sign-extended to 64 bits for signed integers and fixed point, else zero-extended.
uint64_t extend_code(const Format& format, uint64_t code);

// ---- exact arithmetic: see numerics.md. Codes are right-aligned in 64 bits; integers and fixed point are sign- or zero-extended to 64. ----

/// A finite value (-1)^negative * significand * 2^exponent, plus a sticky bit for a lower non-zero tail; or Inf/NaN.
struct Exact {
    enum Class : uint8_t { finite, infinite, nan } cls = finite;
    bool negative = false, sticky = false;
    uint64_t significand = 0;
    int32_t exponent = 0;
};
Exact exact_from_double(double value);
Exact exact_from_int(uint64_t code, bool is_signed);
/// The exact value of a code (lns: the nearest value with 64 significant bits, sticky set).
Exact decode_exact(const Format& format, uint64_t code);
/// The value as double: exact for every format of at most 32 bits and f64; i64/u64/lns round to nearest.
double decode(const Format& format, uint64_t code);
/// decode of `n` containers (their bits above the element width are ignored).
void decode_many(const Format& format, const void* containers, size_t n, double* out);

struct RoundSpec {
    Round round = Round::rne;
    Overflow overflow = Overflow::automatic;
    uint64_t random = 0;  ///< stochastic, bits: added to what lies below the last bit as a fraction of 2^64, a carry rounds up
};
/// The one rounding. Returns the code; integers sign- or zero-extended to 64 bits. `overflowed`, if given, is set when the
/// rounded value lies outside the format's finite range or was NaN without a code (an Inf that stays Inf is no overflow).
/// What the tables leave open: a tie between two powers of two of a float without mantissa bits goes to the larger (IEEE 754, precision 1).
/// Directed modes that round an overflow toward zero give the largest finite value. Without subnormals, a result below the smallest normal
/// becomes zero after rounding. Unsigned floats: a negative value that does not round to zero is 0 (f8e8m0: any one is 2^-127) under sat, NaN where
/// there is one under ieee; f8e8m0 has no zero, what lies below 2^-127 becomes 2^-127. Integers and fixed point always saturate, NaN gives 0; bool
/// is x != 0. lns rounds its logarithm and saturates at both ends, except that modes toward zero reach zero; within 2^-60 of a boundary it may take
/// the neighbour. Codebook: the nearest entry under every mode, ties to the lower index.
uint64_t round_exact(const Exact& value, const Format& format, RoundSpec spec, bool* overflowed = nullptr);
/// round_exact of a double (fast path of the interpreter).
uint64_t encode(const Format& format, double value, RoundSpec spec = {}, bool* overflowed = nullptr);
/// encode with rne and automatic overflow of `n` values into containers.
void encode_many(const Format& format, const double* in, size_t n, void* containers);
/// Code to code, one rounding. float -> int saturates, NaN -> 0; int -> int wraps under `automatic`; bool <- x is x != 0.
uint64_t convert(const Format& to, const Format& from, uint64_t code, RoundSpec spec = {}, bool* overflowed = nullptr);

/// Random bits of stochastic rounding for element `index` under `seed` (Philox 4x32-10).
uint64_t stochastic_bits(uint64_t seed, uint64_t index);
/// The same of a given number: its N bits stand for a fraction of 2^N.
inline uint64_t given_bits(const Format& number, uint64_t code) { return code << (64 - number.bits); }
/// Philox 4x32-10 block function: 4 words from a 128-bit counter and a 64-bit key.
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

// ---- packed storage: little-endian bit stream, element j at bits [j*w, (j+1)*w), rows start on a byte ----

/// Unpacks `count` codes starting at bit `bit_offset` of `data` into containers (sign- or zero-extended to container width).
void unpack_bits(const Format& format, const uint8_t* data, uint64_t bit_offset, uint64_t count, void* out_containers);
/// Packs containers; neighbours' bits are preserved. Not atomic.
void pack_bits(const Format& format, const void* containers, uint64_t count, uint8_t* data, uint64_t bit_offset);
/// One element, and the container <-> 64-bit code conversions used everywhere.
uint64_t load_bits(const Format& format, const uint8_t* data, uint64_t bit_offset);
void store_bits(const Format& format, uint64_t code, uint8_t* data, uint64_t bit_offset);

}  // namespace tegula
