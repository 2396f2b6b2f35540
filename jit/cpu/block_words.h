// Blocks of declared layouts, as weights in the order of a tensor core's registers: where the elements of an aligned block lie behind its first one,
// as constants, and which words of memory hold them. Whatever its name, a layout of quotients, remainders and sums that repeats itself from block to
// block is read so: words become vectors by constant shuffles (block_loads.cpp), elements by shifts. No LLVM.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lang/layout.h"

namespace tegula::cpu {

struct BlockPlace {
    uint32_t line = 0;  ///< BlockWords::lines
    int64_t bit = 0;
    friend auto operator<=>(const BlockPlace&, const BlockPlace&) = default;
};

/// A block of `lanes` indices of one dimension and `count` of another one, from multiples of these on. `count` goes in steps whose elements lie in
/// the same way: each a field, at the same bit for all lanes, of one of the step's words, which begin where `words` says.
struct BlockWords {
    unsigned lanes = 0, bits = 0;
    int64_t count = 0, step = 0;
    std::vector<int64_t> pitches;             ///< by member of the physical tuple, in bits: what it must be when the kernel runs; 0: anything
    std::vector<std::vector<int64_t>> lines;  ///< that begin at sums of pitches: by member, how often each is taken
    int64_t origin = 0;                       ///< bits from where places count to the block's first element
    bool phase = false;                       ///< the bit of the origin in its byte is known when the kernel runs only
    bool covered = false;                     ///< all that is read lies in storage where the block's elements do
    unsigned piece = 4;                       ///< words of 32 bits that are read at a time
    int64_t low = 0, high = 0;                ///< bytes of lines that are read
    struct Field {
        uint32_t slot, bit;
    };
    std::vector<Field> fields;      ///< by element of a step
    std::vector<unsigned> widths;   ///< by slot: bits of its words that hold fields
    std::vector<BlockPlace> words;  ///< [steps of the block, slots, lanes]
    size_t slots() const { return widths.size(); }
    size_t vectors() const { return words.size() / lanes; }
};

/// What a block is asked for.
struct BlockShape {
    size_t n, k;  ///< indices of the layout: along lanes, and along steps
    unsigned lanes;
    int64_t least, most;            ///< of `count`, powers of two
    int64_t least_step, most_step;  ///< powers of two
};
/// Of all blocks the one that takes the fewest instructions for an element; nothing where the layout does not repeat itself. `extents`: kDynamic
/// where unknown.
std::optional<BlockWords> block_words(const Layout& layout, std::span<const int64_t> extents, unsigned bits, const BlockShape& shape);

/// Words of 32 bits, counted from the origin, that hold `width` bits of a lane from its place on; one or two.
struct WordRange {
    int64_t first;
    unsigned count;
};
WordRange words_at(const BlockWords& block, int64_t bit, unsigned width);

}  // namespace tegula::cpu
