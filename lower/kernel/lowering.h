// From a function with a GpuForm to a kernel: the state that the families of operations share. There is one function
// per structured op, declared from the op table (a forgotten one fails to link by name); elementwise ops and
// conversions are expressions from formats/formats.h. Tiles are arrays of registers, `v12[r]`, in the register order of
// their layout; scalars are plain variables, equal in all threads of the group. User text appears only as sanitised
// identifiers and in #line directives.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lang/access_operands.h"
#include "lang/axis.h"
#include "lang/gpu/carried_load.h"
#include "lang/gpu/conversion.h"
#include "lang/gpu/overlapped_products.h"
#include "lang/gpu/packed_view.h"
#include "lang/gpu/register_moves.h"
#include "lang/gpu/scratch.h"
#include "lang/gpu/split_loop.h"
#include "lang/instruction.h"
#include "lang/ir.h"
#include "lang/kernel/builder.h"
#include "lang/kernel/expr.h"
#include "lang/kernel/kernel_text.h"
#include "lang/layout.h"
#include "lang/source.h"
#include "lang/target.h"
#include "lang/uses.h"
#include "lower/kernel/formats/formats.h"
#include "lower/kernel/plan.h"
#include "lower/kernel/text.h"

namespace tegula::lower {

struct Part;
struct WordRing;

/// A mask that is true for the first counts along an axis.
struct Prefix {
    int axis = 0;
    std::function<std::string(int count)> holds;  ///< text: is it true there, counting from the thread's first element?
};

/// Where values live.
struct Values {
    explicit Values(const ir::Function& fn)
        : uses(fn), names(fn.value_count()), aliased(fn.value_count()), array_constant(fn.value_count()) {}

    ir::Uses uses;
    std::vector<std::string> names;             ///< by ValueId
    std::vector<bool> aliased, array_constant;  ///< by ValueId
    std::map<uint32_t, int> magnitudes;         ///< by value; sums of themselves would be followed on both sides each
    std::map<std::string, std::string> layout_names;  ///< text of the layout -> struct name
    /// By ValueId: what PTX calls the registers that a sum stays in during a loop.
    std::map<uint32_t, std::string> sums;
    std::map<uint32_t, Prefix> prefixes;  ///< by ValueId
    int loops = 0;                        ///< over registers, that are open
    int64_t unroll_limit = 0;             ///< iterations; a tile with more registers is in local memory
};

/// Functions and tables in front of the kernel.
struct Support {
    std::map<std::string, std::string> names;  ///< by key
    std::string text;
};

/// Parameters of the kernel.
struct Parameters {
    std::map<std::string, std::string> names;  ///< key -> name
    std::vector<std::string> texts;
};

/// Codes of a tile in whole words.
struct Words {
    PackedView view;
    bool only;      ///< nothing else holds the tile
    Ex moved = {};  ///< of a load: how many bits further than the view says the codes of this thread lie
    /// Words stay as they are loaded; what decodes them knows how far their codes lie in each thread.
    bool loaded = false;
};

/// A load of the next trip: the sum of its uniform and thread parts is added up.
struct Walk {
    CarriedLoad load;
    std::string name;  ///< empty: not declared
};

struct Packed {
    std::map<uint32_t, Words> words;  ///< by ValueId
    /// By ValueId of what the first load and the one in the loop give.
    std::map<uint32_t, std::shared_ptr<WordRing>> rings;
    std::map<uint32_t, std::shared_ptr<Walk>> walks;  ///< by InstId of the first load, and of those in the loop
    std::map<uint32_t, Decoding> decodings;           ///< by ValueId of the cast's result
    std::optional<PairTable> pair_table;
    bool looks_up = false;   ///< in the table of pairs
    int64_t pairs_at = 0;    ///< where it lies in dynamic shared memory
    std::string lane_pairs;  ///< variable of the address of the lane's copies in it
};

/// A tile of the pending loop. Every other line ends the loop first.
struct Fused {
    ir::ValueId value;
    std::string mark, text;  ///< #line, and the element
    int uses = 0;            ///< by operands of later tiles of the loop
    bool read = false;       ///< by the tile that is joining it
    int vector = 1;          ///< of a load: elements that one access takes
    /// Of a load: fills `to` with the vector that starts at register r.
    std::function<void(Ex r, Ex to)> load = {};
};

/// The loop over registers that neighbouring elementwise tiles share.
struct Fusing {
    std::vector<Fused> pending;
    int64_t work = 0, emulation = 0;
    bool joining = false;  ///< is the text of a tile made that joins the pending loop?
};

/// A channel while it is emitted.
struct Ring {
    const GpuChannel* form = nullptr;
    int64_t pitch = 0;    ///< bytes from stage to stage
    bool paired = false;  ///< every get is released in its block before the next one
    size_t number = 0;    ///< in Kernel::rings
    Ex full, empty;       ///< TMA: addresses of the first barriers
    Ex put, put_phase;    ///< stage to be filled next
    Ex get, get_phase;    ///< stage to be taken next
    Ex release;           ///< oldest taken stage, unless paired
    Ex ahead;             ///< threads: stages filled and not yet taken
    int sharers = 1;      ///< programs of a cluster that copy a part of every tile each
    Ex part, mask;        ///< number of this one's, who gets it
    Ex peer_empty;        ///< by lane: address of the first empty barrier of a sharer
};

struct Channels {
    std::map<uint32_t, Ring> rings;  ///< by ValueId of the channel
    std::set<uint32_t> released;     ///< by InstId: channel_release that a product has emitted already
};

struct Control {
    std::map<uint32_t, std::vector<std::string>> targets;  ///< by BlockId
    bool diverges = false;  ///< do threads of a warp go different ways for long (find_parting)?
};

/// A sum whose stretches CTAs of their own run.
struct Split {
    std::optional<SplitLoop> sum;
    int64_t shared = 0;      ///< of shared memory: how many have come
    std::string part, head;  ///< the number of the stretch; what says which program and stretch this is
};

/// Products that run into the next trip of their loop.
struct Late {
    explicit Late(const ir::Function& fn) : products(fn) {}

    const OverlappedProducts products;
    std::map<std::pair<uint32_t, bool>, std::string> factors;  ///< by InstId of the product and copy of its loop's body
    bool second_copy = false;                                  ///< of the body of a loop with late products
    Ex later_trip;                                             ///< is this one not the first? Empty: it is not
};

/// Tensor memory.
struct Tensor {
    Ex memory, products, phase;  ///< address of the columns; the barrier of products and its parity
};

/// One kernel while it is lowered.
struct Lowering {
    Lowering(const ir::Function& fn, const SourceMap* sources);

    const ir::Function& fn;
    const SourceMap* const sources;
    KernelText kernel;
    kernel::Pool& pool;  ///< of its expressions
    const Ex thread;     ///< `t`
    Formats formats;
    kernel::Builder out;
    Plan plan;
    Support support;
    std::string prologue;
    Values values;
    Parameters parameters;
    Packed packed;
    Fusing fusing;
    Channels channels;
    Control control;
    Split split;
    Late late;
    Tensor tensor;
};

#define STRUCTURED(op, ...) void lower_##op(Lowering& ctx, ir::InstId id);
#include "lang/ops.def"

}  // namespace tegula::lower
