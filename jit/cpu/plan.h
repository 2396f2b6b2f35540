// Where each tile lives while a program runs: fused into the loop nests of its consumers, or stored in the worker's scratch. Decided on the IR alone
// (no LLVM), once per variant; codegen.h follows it. Buffers are dense row-major containers (bool: a byte), the storage goes on for 64 bytes after
// the last element, so that whole vectors may be read anywhere inside.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "jit/cpu/cpu.h"
#include "lang/ir.h"

namespace tegula::cpu {

constexpr unsigned kMostTreeVectors = 4;  ///< of lanes with sums of their own that `reduce` works on at a time

struct Home {
    enum Kind : uint8_t {
        none,    ///< tensors; results nobody wants
        scalar,  ///< rank 0: a register
        fused,   ///< evaluated at points where it is wanted
        stored   ///< in buffer `slot`
    } kind = none;
    uint32_t slot = UINT32_MAX;
    const char* why = nullptr;  ///< stored: for `explain`
    ir::InstId heaviest;        ///< fused: the last instruction that evaluates it, where that is much arithmetic
    bool unseen_nans = false;   ///< bits of a float whose NaN may be any (plan_nans.cpp)
    bool unsettled = false;     ///< stored results of arithmetic, whose NaNs are any: readers settle those that can be seen (scalars.h)
};

struct BlockWords;
struct BlockShape;

struct Plan {
    CompileOptions options;       ///< what it was made for
    std::vector<Home> values;     ///< by value
    std::vector<uint64_t> slots;  ///< bytes offset in scratch, by slot; values with one slot share it in place or at different times
    std::vector<uint64_t> work;   ///< by instruction: offset of its work area (work_bytes > 0)
    /// By instruction that hands values to block arguments or results (loops their inits, yield, condition): values that go through a buffer of their
    /// own first, because others are still to be made from what they replace. Number of the value, slot of its buffer.
    std::vector<std::vector<std::pair<uint32_t, uint32_t>>> held;
    uint64_t scratch_bytes = 0;
    mutable std::map<std::array<int64_t, 8>, std::shared_ptr<const BlockWords>> blocks;  ///< known_block
};

/// The block of the tensor that an instruction loads from (block_words.h), looked for once; null: there is none.
std::shared_ptr<const BlockWords> known_block(const ir::Function& fn, const Plan& plan, ir::InstId load, const BlockShape& shape);

Plan make_plan(const ir::Function& fn, const CompileOptions& options);

// ---- rules by op (plan_rules.cpp) ----

/// Must operand k be stored (or a scalar) when the instruction runs? Else its function evaluates it at points of its choice, each point at most once
/// or twice: what is read more often is to be stored.
bool wants_stored(const ir::Function& fn, const ir::Inst& inst, size_t k);
/// Is a reduce of values that one quick instruction joins in any order?
bool joins_in_any_order(const ir::Function& fn, const ir::Inst& inst);
/// Bytes of private memory that the instruction's function needs while it runs.
uint64_t work_bytes(const ir::Function& fn, const ir::Inst& inst, const Plan& plan);
/// Dimensions of two shapes of as many elements with equal products: each group is renumbered by itself in a reshape.
struct ReshapeGroup {
    size_t to, to_end, from, from_end;  ///< the group's dimensions of both shapes
};
std::vector<ReshapeGroup> reshape_groups(const Shape& to, const Shape& from);

/// The number of the only parameter that all pointers of a tile are made from, where that can be seen; else -1.
int pointer_root(const ir::Function& fn, ir::ValueId v);

/// Can the result be evaluated at a point from its operands at points (codegen.h, `at_`)?
bool fusable(const ir::Function& fn, const ir::Inst& inst);
/// Does the `checked` variant look at its operands (checks.cpp)? Then it is evaluated where it stands, over its whole tile.
bool checks(const ir::Function& fn, const ir::Inst& inst);
/// May the instruction write its (first) result over operand k, if that is stored and nobody wants it afterwards? It then reads every element of k
/// before or when it writes that element.
bool in_place(const ir::Function& fn, const ir::Inst& inst, size_t k);
/// By parameter: may a launch stream the tensor, if it is larger than the caches? What the kernel reads, unless products read it again; what one
/// store writes and nothing reads, unless there are atomics, which such stores are not ordered with.
std::vector<bool> streamable_params(const ir::Function& fn);

}  // namespace tegula::cpu
