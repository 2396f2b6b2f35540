// Loads of narrow elements by whole words: which aligned words of memory a thread reads for its registers of a tile, and where in them each
// register's bits lie. One rule for placement, the emitter and `explain`.
#pragma once
#include <memory>

#include "lang/decode.h"
#include "lang/gpu/layout_pieces.h"

namespace tegula {

/// The words of one thread. Registers that differ only in the innermost member of the storage order lie in a run of memory; an access is 4, 8 or 16
/// aligned bytes of a run. What a thread adds to the innermost member beyond whole multiples of `period`, it shifts away: afterwards all registers
/// lie where `bit` says, in every thread.
struct PackedView {
    unsigned bits = 0;  ///< of an element
    int grain = 0;      ///< bytes of an access
    struct Load {
        int reg = 0;         ///< a register of its run
        int64_t offset = 0;  ///< bytes from where the innermost member is what start and thread (rounded down to `period`) make it
    };
    std::vector<Load> loads;  ///< ascending in a run, run after run; access k fills the words from k * grain / 4 on
    std::vector<int> bit;     ///< by register: its lowest bit among the words, 32 to a word
    int64_t period = 1;       ///< elements that fill whole accesses
    uint64_t outside = 0;     ///< the code of elements that the tensor has not
    int64_t most_shift = 0;   ///< bits, below 64; 0: no thread shifts
    std::vector<int> moved;   ///< the bits that threads shift by, ascending
    int words() const { return static_cast<int>(loads.size()) * grain / 4; }
    friend bool operator==(const PackedView& a, const PackedView& b) {
        return a.bits == b.bits && a.grain == b.grain && a.bit == b.bit && a.loads.size() == b.loads.size() && a.most_shift == b.most_shift &&
               a.outside == b.outside;
    }
};

/// Of a load whose part lies in registers of layout `l`; nullopt: single elements, or vectors (wide_access.h), do as well or are all that is legal.
std::optional<PackedView> packed_view(const ir::Function& form, const ir::Inst& load, const TileLayout& l);

/// The view of a tile that such a load gives, or that a loop carries from one.
std::optional<PackedView> words_of(const ir::Function& form, ir::ValueId tile);

/// By axis of an access: the dimension of its part that it stands for; -1: none.
std::vector<int> part_dimensions(const ir::Access& access);
/// What the registers or the threads add to a member at one place of a tile's layout. `dims` are those of part_dimensions.
int64_t piece_value(const LayoutPieces& member, LayoutPieces::Part part, std::span<const int> dims, const TileLayout::Point& at);

/// The members of the physical tuple of a load's part, taken apart.
std::optional<std::vector<LayoutPieces>> access_pieces(const ir::Function& form, const ir::Inst& load, const TileLayout& l);

/// A cast of the view's registers to words of two or four codes: 2p and 2p + 1 to pair p, 4p .. 4p + 3 to four bytes p, for some of them and the
/// words of the view that hold these.
struct DecodeCall {
    std::vector<int> pairs, words;
    std::shared_ptr<const DecodePlan> plan;  ///< over these words, giving these pairs; equal calls share one
};
struct Decoding {
    bool shifts = false;                          ///< words are shifted into place first
    std::vector<DecodeCall> calls;                ///< of all pairs of a view; none where some pair has no recipe
    int64_t logic(const PackedView& view) const;  ///< operations on words
    int64_t arithmetic() const;                   ///< of floats
    std::vector<explain::Operations> operations(const PackedView& view) const;
};
/// `loaded`: words are as they were loaded, where threads shift; else they are in place. `pairs`: there is a table of pairs for this cast.
Decoding decode_view(const PackedView& view, const Format& from, Fmt to, bool loaded, bool pairs);

/// The formats of the kernel's first cast of words for which a table of all pairs of codes in shared memory is worth its room, if there is some.
struct PairTable {
    FormatId from;
    Fmt to;
    bool is_of(const ir::Function& form, const ir::Inst& cast) const;
};
std::optional<PairTable> pair_table(const ir::Function& form);

}  // namespace tegula
