// Tile IR -> the form a GPU kernel is emitted from (ir::Function::gpu): instructions chosen, copies overlapped with arithmetic, every tile placed,
// scratch memory and barriers assigned and proved. `run_gpu_passes` is the list, in order; it runs after run_passes.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lang/cancel.h"
#include "lang/explanation.h"
#include "lang/facts.h"
#include "lang/ir.h"
#include "lang/target.h"

namespace tegula {

struct GpuOptions : LaunchFacts {
    const Arch* arch = nullptr;
    std::vector<GpuTensor> tensors;     ///< by parameter (entries of non-tensors unused), part of the key of the compiled kernel; empty: nothing known
    bool may_alias = true;              ///< tensors of a launch may overlap
    bool whole_clusters = true;         ///< the launch's grid consists of whole clusters of the size that the kernel asks for
    bool spread = true;                 ///< stretches of a split sum become CTAs where the form allows it
    std::vector<std::string> disabled;  ///< pass names (or "all"): may not change a result bit
    std::function<void(std::string_view pass, bool changed, const ir::Function&)> after;
    const std::atomic<bool>* cancel = nullptr;  ///< polled before every pass and in those that take long
};
/// The fact of a tensor parameter among `facts` by parameter; null: nothing is known of it.
const GpuTensor* tensor_fact(const ir::Function& fn, std::span<const GpuTensor> facts, ir::ValueId tensor);
/// views (views.h; not one of run_gpu_passes), spread, instructions, orient, choose, persist, channels, prefetch, place, convert_cleanup, scratch,
/// barriers, defer (the required ones run even when disabled, in their simplest form).
std::vector<std::string_view> gpu_pass_names();
/// Throws InternalError when a pass breaks the IR, and when `prove` finds a missing barrier: nothing unproved is emitted; Cancelled.
/// Gives the options that held in the end: where shared memory was short, `disabled` has grown by what had to go ("channels", "wgmma").
GpuOptions run_gpu_passes(ir::Function& fn, const GpuOptions& options);

// Single passes.
/// PTX takes the place of instructions that programs declare, unless `off` (instructions.cpp).
bool take_instructions(ir::Function& fn, const GpuOptions& options, bool off);
/// Products whose second factor is decoded are turned, so that it is the first one (orient.cpp).
bool orient_products(ir::Function& fn);
/// Sets arch and warps; picks a row for every product. Does not change any other instruction.
void choose_instructions(ir::Function& fn, const GpuOptions& options);
/// Does a chosen row sum in a way that no other row of the architecture does (fp8 in wgmma)?
bool has_own_sums(const ir::Function& fn);
/// A loop over programs around the body, where `schedule persistent` asks for it or rows that are reduced are so wide that it pays (persist.cpp).
bool make_persistent(ir::Function& fn, const GpuOptions& options);
/// What in a kernel forbids that; empty: nothing.
std::string persist_problem(const ir::Function& fn);
/// Loads that only feed products (through permute, trans, reshape of unit dimensions, narrow decodes) become channels; with TMA the function
/// body is split into a producer and a consumer (`specialise`).
bool make_channels(ir::Function& fn, const GpuOptions& options);
/// Why a function in GPU form has no cluster, or a smaller one than its attribute asks for.
std::string cluster_problem(const ir::Function& form);
/// Loads of narrow operands, and of what scales them, run one trip ahead of the loop around their product: it carries their tiles (prefetch.cpp).
bool prefetch_loads(ir::Function& fn, const GpuOptions& options);
/// Gives every tile a placement and inserts `convert` where placements meet.
void place_tiles(ir::Function& fn, const GpuOptions& options);
/// Offsets of channels and scratch in shared memory.
void assign_scratch(ir::Function& fn, const GpuOptions& options);
/// sync_before and fence_before of every instruction.
void place_barriers(ir::Function& fn, const GpuOptions& options);
/// Products that wgmma adds up in a loop, with operand A made in registers, are waited for one trip later (defer.cpp).
bool defer_products(ir::Function& fn);

/// Every pair of conflicting accesses (shared memory, and global memory that may alias) of different threads is ordered on every path, channels are
/// taken and released in step on both sides. Empty, or what is not proved, one line each with the two source positions.
std::vector<std::string> prove(const ir::Function& fn, const GpuOptions& options);
constexpr size_t kMaxProblems = 20;  ///< lines that each part reports
/// The part of `prove` about channels (prove_channels.cpp).
std::vector<std::string> prove_channels(const ir::Function& fn, const GpuOptions& options);
/// The part of `prove` about sums that are overwritten in place (prove_tensor_memory.cpp).
std::vector<std::string> prove_tensor_memory(const ir::Function& fn);

/// `explain`: per product the instruction, what else was considered and why not; per access vector width, coalescing and conflicts.
std::vector<explain::Note> explain_gpu(const ir::Function& fn, const GpuOptions& options);
/// Per load of a product's operand: the channel it became or why it did not. `fn` is in its final form.
std::vector<explain::Note> explain_channels(const ir::Function& fn, const GpuOptions& options);
/// Where in memory the final form keeps rings, tiles and scratch, and how long.
std::vector<explain::Buffer> explain_memory(const ir::Function& fn);
/// The parameter's number, of a view that of what it shows; -1: it is none.
int param_number(const ir::Function& fn, ir::ValueId v);
/// The parameter's name; empty: it is none.
std::string param_name(const ir::Function& fn, ir::ValueId v);

}  // namespace tegula
