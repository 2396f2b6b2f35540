// Asks for the memory that a product's operands come from in the next iteration of the loop around it, a few lines at a time between its
// micro-kernels: packing then finds it in the second-level cache, where it would otherwise wait for each line. No result depends on it.
#pragma once
#include <vector>

#include "jit/cpu/codegen.h"

namespace tegula::cpu {

class NextTiles {
public:
    /// Looks for loads among what `operands` of the instruction are made of, in the same body of a for loop and at places that move with it. None
    /// where they are small, or together with `busy_bytes` too large for the cache.
    NextTiles(Codegen& g, ir::InstId user, std::span<const ir::ValueId> operands, uint64_t busy_bytes);
    /// To be called where the instruction starts, and then about `times` times while it runs.
    void begin(int64_t times);
    void fetch_some();

private:
    struct Tile {
        ir::InstId load;
        int64_t lines, row_runs, runs;  ///< neighbouring lines that share an address; such runs of a row, of the tile
        int64_t at_once = 1;            ///< runs
    };
    void find(ir::ValueId v, int depth);
    bool moves(ir::ValueId v) const;
    llvm::Value* next(ir::ValueId v);
    void fetch(const Tile& tile, llvm::Value* run);

    Codegen& g_;
    llvm::IRBuilder<>& b_;
    const ir::Function& fn_;
    const ir::BlockId body_;
    std::vector<Tile> tiles_;
    llvm::Value* count_ = nullptr;  ///< calls of fetch_some
};

}  // namespace tegula::cpu
