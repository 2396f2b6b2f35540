// Loads and stores through tiles of pointers. Those whose lanes are seen to lie side by side (lane_steps.h) take one address and one access of a
// whole vector, in loops over whole vectors without checks; others check each pointer, and gather.
#pragma once
#include <optional>

#include "jit/cpu/codegen.h"

namespace tegula::cpu {

class PointerEmitter {
public:
    PointerEmitter(Codegen& g, ir::InstId id);
    llvm::Value* load(const Point& p);
    void store(const Point& p);
    /// Where one pointer leads: body(data, bit) if it reaches an element, else reported and `otherwise`.
    llvm::Value* reach(llvm::Value* pointer, llvm::Value* lane, const std::function<llvm::Value*(llvm::Value* data, llvm::Value* bit)>& body,
                       llvm::Value* otherwise);
    const Shape& shape() const { return fn_.type(pointers_).shape; }
    llvm::Value* element(const Point& p);  ///< its number in the tile, of a point without lanes
    /// Of the instruction and the point; null: all.
    llvm::Value* mask(const Point& p);
    bool whole_bytes() const { return whole_; }

private:
    std::function<llvm::Value*(llvm::Value* lane)> elements(const Point& p);
    /// Lanes that lie side by side.
    struct Run {
        llvm::Value* element;  ///< of lane 0
        llvm::Value* holds;    ///< i1: it is so
    };
    struct Lanes {
        llvm::Value *first, *offset, *on;  ///< ptr of lane 0, byte offsets of the others from the data, mask
        llvm::Value* together;             ///< i1: lanes lie side by side
    };
    struct Whole {
        llvm::Value *first, *on;  ///< ptr of lane 0, mask or null
    };
    std::optional<Run> run(const Point& p, int64_t count, bool ahead);
    std::optional<Whole> in_whole(const Point& p);
    llvm::Value* reachable();
    llvm::Value* pointer_to(llvm::Value* element);
    llvm::Value* number(llvm::Value* pointers);
    void report(llvm::Value* bad, const Point& p);
    Lanes resolve(llvm::Value* mask, const Point& p);
    llvm::Value* within(const Run& run, llvm::Value* mask, const Point& p);
    llvm::Value* each(llvm::Value* mask, const std::optional<Run>& run, const Point& p,
                      const std::function<llvm::Value*(llvm::Value* first, llvm::Value* on)>& side_by_side,
                      const std::function<llvm::Value*(llvm::Value* pointers, llvm::Value* on)>& apart);
    llvm::Value* load_one_by_one(llvm::Value* mask, llvm::Value* other, const Point& p);
    void store_one_by_one(llvm::Value* mask, llvm::Value* value, const Point& p);
    llvm::Value* load_one(llvm::Value* data, llvm::Value* bit);
    llvm::Value* store_one(llvm::Value* value, llvm::Value* data, llvm::Value* bit);
    llvm::Value* slot_at(llvm::Value* slot);
    const ParamSlots& slots() const { return g_.args_layout_.params[static_cast<size_t>(root_)]; }

    Codegen& g_;
    llvm::IRBuilder<>& b_;
    const ir::Function& fn_;
    ir::InstId id_;
    ir::ValueId pointers_, value_{}, mask_{}, other_{};
    const Format& format_;
    int root_;  ///< the only parameter that the pointers can reach, or -1
    bool whole_;
};

}  // namespace tegula::cpu
