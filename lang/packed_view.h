// Loads of narrow elements by whole words: which aligned words of memory a thread reads for its registers of a tile, and where in them each
// register's bits lie. One rule for placement, the emitter and `explain`.
#pragma once
#include <memory>

#include "lang/decode.h"
#include "lang/layout_pieces.h"

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
    int64_t most_shift = 0;   ///< bits, below 64; 0: no thread shifts
    int words() const { return static_cast<int>(loads.size()) * grain / 4; }
    friend bool operator==(const PackedView& a, const PackedView& b) {
        return a.bits == b.bits && a.grain == b.grain && a.bit == b.bit && a.loads.size() == b.loads.size() && a.most_shift == b.most_shift;
    }
};

/// Of a load whose part lies in registers of layout `l`; nullopt: single elements, or vectors (wide_access.h), do as well or are all that is legal.
std::optional<PackedView> packed_view(const ir::Function& form, const ir::Inst& load, const TileLayout& l);

/// The view of a tile that such a load gives, or that a loop carries from one.
std::optional<PackedView> words_of(const ir::Function& form, ir::ValueId tile);

/// The members of the physical tuple of a load's part, taken apart.
std::optional<std::vector<LayoutPieces>> access_pieces(const ir::Function& form, const ir::Inst& load, const TileLayout& l);

/// A cast of the view's registers 2p and 2p + 1 to the halves of pair p, for some pairs and the words that hold them.
struct DecodeCall {
    std::vector<int> pairs, words;
    std::shared_ptr<const DecodePlan> plan;  ///< over these words, giving these pairs; equal calls share one
};
/// All pairs of a view; none where some pair has no recipe.
std::vector<DecodeCall> decode_calls(const PackedView& view, const Format& from, Fmt to);

}  // namespace tegula
