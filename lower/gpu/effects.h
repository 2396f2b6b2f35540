// What an instruction of a function in GPU form touches while it runs, as the barrier pass and its proof see it: shared memory, the launch's
// workspace, rings of channels, global memory. Only what may conflict with something is listed: tensors that nobody writes are not.
//
// The contract with emission: an instruction with scratch writes it first, then all threads meet, then it reads (it may go on so, and ends with
// reads); its accesses to other memory may come before or after the meeting. `convert` to shared memory writes its buffer and does not meet:
// the reader's sync_before (and fence_before for wgmma) does. A bulk store's warps
// write and send their own parts of its scratch, and the copies have ended when it ends. A product in tensor memory is asked for by one thread when
// it begins; unless it is overlapped, all threads meet at its end, where it is done. `convert` meets before it moves what overlapped products may
// work on, and `convert` to tensor memory at its end. In one thread group `channel_get` meets before anything of the stage is read.
// Out of an own ring every thread reads what it has copied itself, so nobody meets and nothing is listed.
#pragma once
#include <string>
#include <vector>

#include "lang/gpu/overlapped_products.h"
#include "lang/uses.h"
#include "lower/gpu/gpu.h"

namespace tegula {

struct Touch {
    enum Space : uint8_t { shared, workspace, ring, global, tensor } space = shared;
    bool writes = false;
    bool async = false;          ///< shared, ring: by the async proxy; tensor: by a product, else by the threads that hold the rows
    bool orders = false;         ///< global: an atomic that acquires or releases: every access to global memory stays on its side
    int64_t begin = 0, end = 0;  ///< shared, workspace: bytes; tensor: columns
    ir::ValueId object;          ///< ring: the channel; global: tensor or pointer parameter, invalid when not known
    int64_t commutes = 0;        ///< global: atomics of one number (not 0) may be done in any order
    ir::InstId by;
};

/// `before` and `after` the point inside the instruction where all threads meet; without one the lists are equal.
struct Effects {
    std::vector<Touch> before, after;
    bool meets = false;
    ir::ValueId releases;  ///< channel, in one thread group
};

class EffectTable {
public:
    EffectTable(const ir::Function& fn, const GpuOptions& options);
    const Effects& of(ir::InstId id) const { return table_[id.v]; }
    /// May two threads that do `a`, then `b` in program order, without meeting in between, change what the program means? A ring's reads count as
    /// those of a released stage.
    bool conflict(const Touch& a, const Touch& b) const;
    /// Must a fence for the async proxy stand between the generic write `a` and the access `b`?
    static bool needs_fence(const Touch& a, const Touch& b);
    std::string text(const Touch& t) const;

private:
    void add(ir::InstId id);
    void add_global(ir::InstId id, std::vector<Touch>& to) const;
    void add_tensor_memory(ir::InstId id, std::vector<Touch>& to) const;
    void add_reads_of_tiles(ir::InstId id, std::vector<Touch>& to) const;
    bool may_alias(ir::ValueId a, ir::ValueId b) const;
    bool never_written(ir::ValueId object) const;
    ir::ValueId root_of_pointer(ir::ValueId v) const;
    ir::InstId home(ir::ValueId v) const;

    const ir::Function& fn_;
    const GpuOptions& options_;
    const OverlappedProducts products_;
    const ir::Uses uses_;
    std::vector<Effects> table_;
    bool specialised_;
    bool anywhere_ = false;  ///< something is written through pointers that may lead to any tensor
};

/// Shared memory or workspace that an instruction's scratch or shared result takes; end == begin: none.
Touch scratch_of(const ir::Function& fn, ir::InstId id);

}  // namespace tegula
