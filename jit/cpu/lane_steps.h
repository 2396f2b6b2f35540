// How values move along the lanes of a point, read off the instructions that make them: what indices, pointers and masks made of `base + iota`
// are proved to be consecutive with. Arithmetic wraps, so a step is a number modulo the type's; what must hold beyond that is a condition at run time.
#pragma once
#include "jit/cpu/codegen.h"

namespace tegula::cpu {

class LaneSteps {
public:
    /// Of `count` neighbours from the first lane on. `ahead`: in front of the loop over them, where nothing may be evaluated that reports.
    LaneSteps(Codegen& g, int64_t count, bool ahead) : g_(g), b_(g.b()), fn_(g.fn()), count_(count), ahead_(ahead) {}

    /// By how much v grows from lane to lane, an integer of its type (pointers: elements, i64). Null: not known.
    llvm::Value* of(ir::ValueId v, const Point& p);
    /// i1: where it does not hold, what `of` said is wrong.
    llvm::Value* sound() const { return sound_ ? sound_ : b_.getTrue(); }

    /// The scalar point of lane 0.
    static Point first(Point p);
    /// The dimension along which lanes run, if they do along one only; -1: none.
    static int dimension(const Point& p);
    /// Do the lanes of `p`, a point of the reshape's result, run along a dimension that the operand has, too?
    static bool keeps_lanes(const ir::Function& fn, const ir::Inst& reshape, const Point& p);
    /// An integer whose bits fill its container, so that wrapping is the processor's.
    static bool is_plain(const Format& f) { return f.is_int() && f.bits == f.container_bytes() * 8; }

private:
    llvm::Value* product(const ir::Inst& inst, const Point& p);
    llvm::Value* widened(const ir::Inst& inst, const Point& p);
    llvm::Value* moved(const ir::Inst& inst, const Point& p);
    void need(llvm::Value* condition) { sound_ = sound_ ? b_.CreateAnd(sound_, condition) : condition; }

    Codegen& g_;
    llvm::IRBuilder<>& b_;
    const ir::Function& fn_;
    int64_t count_;
    bool ahead_;
    int left_ = 64;  ///< instructions that are looked at
    llvm::Value* sound_ = nullptr;
};

/// In whole vectors (Codegen::row): makes limits of the loop of what a mask says, as far as it compares consecutive numbers with one that lanes
/// share. What is left of the mask at p; null: nothing.
llvm::Value* mask_beside_limits(Codegen& g, ir::ValueId mask, const Point& p);

}  // namespace tegula::cpu
