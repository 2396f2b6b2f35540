// Plans of decoding (lang/decode.h) that work on bytes: narrow codes to 8-bit formats, tables of up to 16 values of 8 or 16 bits, which PRMT looks up
// in registers, four at a time, and 8-bit floats.
#pragma once
#include "lang/decode.h"

namespace tegula {

/// Formats of 8 bits that codes of `from` become: integers that hold all of them, and whatever formats 16 values come from.
bool has_byte_decoding(const Format& from, Fmt to);
/// Can codes be looked up, their values rounded to nearest as casts do?
bool has_table(const Format& from, Fmt to);
bool table_is_exact(const Format& from, Fmt to);

/// Can plans pick the codes of threads where they lie `moved` bits further?
bool moves_by_bytes(std::span<const int> moved);

/// `quads`: bit positions among `words` words of the codes in the four bytes of a word, lowest first. nullopt: some quad has no recipe.
std::optional<DecodePlan> plan_bytes(const Format& from, Fmt to, int words, std::span<const std::array<int, 4>> quads,
                                     std::span<const int> moved = {});

/// plan_decoding for pairs of 16-bit floats by tables.
std::optional<DecodePlan> plan_tables(const Format& from, Fmt to, int words, std::span<const std::array<int, 2>> pairs,
                                      std::span<const int> moved = {});

/// The same out of a table of all pairs in shared memory, a word for each: of codes a and b entry 16 b + a. Every lane has a copy in its own bank, so
/// that an entry has kPairCopies words.
constexpr int kPairEntries = 256, kPairCopies = 32;
constexpr int64_t kPairTableBytes = 4 * kPairEntries * kPairCopies;
bool has_pair_table(const Format& from, Fmt to);
std::optional<DecodePlan> plan_look_ups(const Format& from, Fmt to, int words, std::span<const std::array<int, 2>> pairs,
                                        std::span<const int> moved = {});

/// f8e4m3 and f8e5m2, whose Inf and NaN the machine's conversions know.
bool is_fp8(const Format& f);
std::optional<DecodePlan> plan_fp8(const Format& from, Fmt to, int words, std::span<const std::array<int, 2>> pairs,
                                   std::span<const int> moved = {});

}  // namespace tegula
