// How much scratch memory an instruction of a function with a GpuForm needs, and what lies where in it: one rule for the pass that assigns it
// and the emitter that uses it.
#pragma once
#include <vector>

#include "lang/ir.h"

namespace tegula {

/// What an instruction keeps in scratch while it runs. Areas start on 16 bytes.
struct ScratchPlan {
    std::vector<int64_t> operand;  ///< by operand: byte offset of its row-major copy; -1: read from registers
    std::vector<int64_t> work;     ///< offsets of further areas, in the order that scratch_plan's op documents
    int64_t bytes = 0;
};
/// Work areas: sort: keys, indices. histogram: counts. deposit: number of the last writer by element (only when writers may meet). reduce and
/// arg_reduce: one area per exchanged array, then one per array for what a spread step gives to everybody. dot: slab of a, slab of b. convert: the exchange. atomic, ptr_atomic: old values. store: a byte per
/// element (per joint index without a mask) that says whether it is the last one for its place (only when writers may meet). print, assert: one word.
ScratchPlan scratch_plan(const ir::Function& fn, ir::InstId inst);

/// Bytes, from the instruction's op, types and placements; 0: none.
int64_t scratch_bytes(const ir::Function& fn, ir::InstId inst);

/// Do the order keys of a format need 64 bits?
bool wide_key(const Format& f);
/// Does a conversion go through scratch?
bool convert_exchanges(const Conversion& c, const TileLayout& to);
/// Elements of K that a product of row 0 keeps in scratch at a time.
int64_t dot_slab(const ir::Function& fn, ir::InstId inst);
/// May two elements of a deposit's value have one place?
bool deposit_collides(const ir::Function& fn, ir::InstId inst);
/// May two elements of a store have one place? The last one in row-major order stays.
bool store_collides(const ir::Function& fn, ir::InstId inst);

}  // namespace tegula
