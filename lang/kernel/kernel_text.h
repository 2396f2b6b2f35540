// A kernel as text, and what the launcher passes to it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "lang/explanation.h"
#include "lang/ir.h"
#include "lang/kernel/kernel.h"
#include "lang/kernel/text.h"

namespace tegula {

/// What the launcher passes, in the order of the kernel's parameters. Only what the kernel uses is in the list.
struct KernelParam {
    enum Kind : uint8_t {
        pointer,  ///< base address of tensor or pointer parameter `param`
        extent,   ///< i64 extent `dim` of tensor `param`
        /// i64 stride of tensor `param`, in elements (formats of 8, 16, 32 or 64 bits) or in bits.
        /// TensorArg::has_strides (GpuTensor::strided) or a row or col layout: of logical dimension `dim`. A layout by
        /// expressions: pitch of member `dim` of the physical tuple, row-major within BoundLayout::physical_extents()
        /// (the innermost row padded to whole bytes).
        stride,
        bytes,       ///< i64 storage size of `param`
        scalar,      ///< code of parameter `param`, 8 bytes
        tensor_map,  ///< 128-byte CUtensorMap number `dim`, __grid_constant__
        grid,        ///< u64 grid extent `dim` (the launch is one-dimensional over programs)
        /// u64 (2^64 - 1) / n rounded down, n being grid extent `dim` in clusters of `param` programs: what divisions
        /// by n multiply with.
        grid_reciprocal,
        first,             ///< u64 number of the first program of this launch
        workspace,         ///< base of global scratch: workspace_bytes per CTA of this launch
        split,             ///< u64 CTAs of one program of the grid
        split_reciprocal,  ///< u64 (2^64 - 1) / that, rounded down
        sums,  ///< base of what the stretches of split sums come to: sum_bytes per CTA of this launch; null where there
               ///< is one each
        arrivals,  ///< u32 per CTA of this launch: zero before it, and zero again after it
        meeting,   ///< words at which the programs of a launch meet: zero, but for the highest bit, before it and after
                   ///< it
        report,    ///< buffer of asserts and prints (report.h), null when nobody listens
    } kind;
    int param = 0, dim = 0;
};
/// A TMA descriptor: tensor parameter, box in elements per dimension, fastest dimension first in `order`.
struct TensorMap {
    int param = 0;
    std::vector<int> order;
    std::vector<uint32_t> box;
    int swizzle = 0;  ///< bytes
    bool operator==(const TensorMap&) const = default;
};
/// Words of a meeting: one that counts who has come; where some program might not come, also how many have ended, and 1
/// more than the number of one.
constexpr int kPlainMeeting = 1, kWatchedMeeting = 3;

/// A kernel that has not been printed.
struct Unprinted {
    kernel::Kernel form;                                                    ///< the statements
    std::shared_ptr<kernel::Pool> pool = std::make_shared<kernel::Pool>();  ///< of their expressions
    std::string head;  ///< what stands in front of them, from functions of number formats to the prologue
    std::vector<std::string> sections;  ///< of device text, files below jit/cuda/device
};

struct KernelText : Unprinted {
    /// CUDA C++, once it has been printed (jit/cuda/print.h); what it was printed from is gone then.
    std::string source;
    std::vector<kernel::Stretch> marks;  ///< where #line directives stand in the source
    std::string entry;
    int arch = 0;  ///< 90 for sm_90a
    std::vector<KernelParam> params;
    std::vector<TensorMap> tensor_maps;
    int threads = 128;
    /// Any number of CTAs from 1 on runs all programs of the grid: there are no pieces, and `first` is 0.
    bool persistent = false;
    /// CTAs of one program of the grid, one for each stretch of its split sum: a constant, or, when valid, a scalar of
    /// the form whose value the launch knows (lang/launch_value.h). `first` and workspaces count CTAs.
    int64_t split = 1;
    ir::ValueId split_count;
    int64_t sum_bytes = 0;  ///< of global memory that a CTA keeps its stretch in, where a program has several
    bool may_split() const { return split_count.valid() || split > 1; }
    bool together = false;  ///< all CTAs run at the same time (a cooperative launch); there are no pieces
    /// u32 at KernelParam::meeting: 0, where its programs do not meet, kPlainMeeting or kWatchedMeeting.
    int meeting_words = 0;
    int cluster = 1;  ///< CTAs that follow one another in the launch and form a cluster; divides the number of programs
    int64_t shared_bytes = 0, workspace_bytes = 0;
    std::vector<explain::Buffer> areas;     ///< of shared memory beyond those of the form, used all the time
    int resident_programs = 1;              ///< for which a multiprocessor is to have registers
    std::vector<std::string> instructions;  ///< of the program whose PTX is in the text
    std::vector<std::string> options;       ///< NVRTC flags beyond architecture ("--fmad=false")
};

}  // namespace tegula
