// What became of a kernel on a machine, and why, as data: `explain`. The phases that decide fill in facts, each with its place in the source. The
// text of `explain` (explanation_text.cpp) and its JSON (explanation_json.cpp, share/tegula/schema/explanation.json) are made of these facts alone.
//
// Every struct names its members once, in `fields`, under the names that they have in JSON. What is empty or not set is left out there.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lang/source.h"
#include "lang/type.h"

namespace tegula {

/// How long a launch would take on a GPU, found by lower/gpu/estimate.h.
struct GpuEstimate {
    /// The time that a launch takes if it waits for this alone, its start included.
    struct Part {
        const char* name = "";
        double microseconds = 0;
        void fields(auto&& f) const { f("name", name), f("microseconds", microseconds); }
    };
    double microseconds = 0;
    uint64_t programs = 0, stretches = 1;  ///< the stretches of split sums that are programs counted as such
    int per_sm = 1;                        ///< programs that an SM holds at the same time
    const char* limit = "";                ///< why not more: "registers", "threads", "shared memory", "programs" (no SM takes more)
    int warps = 0;                         ///< of a program, that compute
    int registers = 0;                     ///< of a thread
    int stages = 0;                        ///< of the ring before the largest product; 0: no ring
    int64_t ring_bytes = 0;                ///< of that ring
    bool spills = false;                   ///< accumulators do not fit in registers
    bool spread = true;                    ///< the stretches of a split sum are CTAs of their own, rather than one after the other in each program
    int64_t chunk = 0;  ///< elements of K that a tensor core sums on its own before it rounds (fp8), smallest of all products; 0: no such product
    double memory_bytes = 0;  ///< that memory, rather than a cache, gives and takes
    double multiplies = 0;    ///< and adds, of products, in whole tiles
    double codes = 0;         ///< elements of at most 8 bits that the launch casts, each as often as a program does
    const char* bound = "";   ///< the part that takes longest
    std::string row = {};     ///< instruction of the product that takes longest; empty: no product
    enum : size_t { latency, tensor_cores, issue_slots, l2, memory, parts_count };
    std::array<Part, parts_count> parts;
    /// "32 programs on 132 SMs, 1 each at a time, wgmma.bf16.f32, bound by latency".
    std::string text() const;
    void fields(auto&& f) const {
        f("microseconds", microseconds), f("programs", programs), f("stretches", stretches), f("per_sm", per_sm), f("limit", limit);
        f("warps", warps), f("registers", registers), f("stages", stages), f("ring_bytes", ring_bytes), f("spills", spills), f("spread", spread);
        f("fp8_chunk", chunk), f("memory_bytes", memory_bytes), f("multiplies", multiplies);
        f("codes", codes), f("bound", bound), f("instruction", row), f("parts", parts);
    }
};

namespace explain {

struct Setting {  ///< of a generic parameter
    std::string name, value;
    void fields(auto&& f) const { f("name", name), f("value", value); }
};
struct Extent {
    std::string name;
    int64_t value = 0;
    void fields(auto&& f) const { f("name", name), f("value", value); }
};

struct Candidate {
    std::vector<Setting> values;
    std::optional<GpuEstimate> estimate;  ///< none: the kernel has no instance for these values
    void fields(auto&& f) const { f("values", values), f("estimate", estimate); }
};
/// The choice among the values of `tune`, by estimates of a launch with these extents.
struct Tune {
    static constexpr const char* kind = "tune";
    std::vector<Extent> extents;
    std::vector<Candidate> candidates;
    size_t chosen = 0;
    void fields(auto&& f) const { f("extents", extents), f("candidates", candidates), f("chosen", chosen); }
};

/// What the time of a launch goes to.
struct Estimated {
    static constexpr const char* kind = "estimate";
    std::vector<Extent> extents;
    GpuEstimate estimate;
    void fields(auto&& f) const { f("extents", extents), f("estimate", estimate); }
};

/// What a sum over products of elements became.
struct Recognition {
    static constexpr const char* kind = "recognition";
    std::string op;                        ///< the product that stands in its place
    int rows = 0, columns = 0, batch = 0;  ///< indices of a contraction that could be one
    std::string refusal;                   ///< why it is none
    bool recognised() const { return refusal.empty(); }
    std::string reason() const;
    void fields(auto&& f) const { f("op", op), f("rows", rows), f("columns", columns), f("batch", batch), f("refusal", refusal); }
};
struct NoProducts {
    static constexpr const char* kind = "no products";
    void fields(auto&&) const {}
};

/// A sum that is cut into stretches, a CTA each.
struct Split {
    static constexpr const char* kind = "split";
    int64_t parts = 0;            ///< 0: as many as K has
    std::optional<int64_t> step;  ///< elements of K
    int64_t bytes = 0;            ///< of workspace, each
    void fields(auto&& f) const { f("parts", parts), f("step", step), f("workspace_bytes", bytes); }
};
struct Persistent {
    static constexpr const char* kind = "persistent";
    void fields(auto&&) const {}
};
/// All programs run at the same time.
struct Cooperative {
    static constexpr const char* kind = "cooperative";
    int64_t meetings = 0;  ///< places where they meet
    bool watched = false;  ///< it depends on memory whether programs come there
    void fields(auto&& f) const { f("meetings", meetings), f("watched", watched); }
};

struct Instruction {
    std::string name;
    bool tensor_core = false;
    int m = 1, n = 1, k = 1;  ///< n 0: as many columns as the tile has
    bool fma = false;         ///< none for products: what multiplies where none is found
    std::string text() const;
    void fields(auto&& f) const { f("name", name), f("tensor_core", tensor_core), f("m", m), f("n", n), f("k", k); }
};
/// An instruction that does not compute a product.
struct Rejected {
    /// It takes other formats; its sums are unmeasured, or not those of the product; scales that it cannot apply; extents of the tile; what it lacks;
    /// it takes more clocks; or it takes fewer, but another product has what it needs.
    enum Code : uint8_t { formats, unmeasured, sums, scales, extents, warps, registers, shared_memory, tensor_memory, more_clocks, room };
    static constexpr std::string_view to_string(Code code) {
        constexpr std::string_view kNames[] = {"formats",   "unmeasured",    "sums",          "scales", "extents", "warps",
                                               "registers", "shared memory", "tensor memory", "clocks", "room"};
        return kNames[code];
    }
    Instruction row;
    Code code = formats;
    std::string why;
    std::optional<double> clocks;
    void fields(auto&& f) const { f("instruction", row), f("code", to_string(code)), f("why", why), f("clocks", clocks); }
};
struct Product {
    static constexpr const char* kind = "product";
    std::string op, a, b, accumulator;  ///< formats as the instruction gets them
    int64_t batch = 1, m = 1, n = 1, k = 1;
    Instruction row;
    std::optional<double> clocks;       ///< of an SM, once
    std::vector<int64_t> scale_blocks;  ///< of dot_scaled: of the left and the right operand, along K
    int tensor_columns = 0;             ///< of tensor memory, for the sum
    bool late = false;                  ///< under way while the next trip makes its first factor
    std::string arch;
    std::vector<Rejected> rejected;
    /// Those that the text names: what takes other formats only where no tensor core was found.
    std::vector<const Rejected*> told() const;
    void fields(auto&& f) const {
        f("op", op), f("a", a), f("b", b), f("accumulator", accumulator), f("batch", batch), f("m", m), f("n", n), f("k", k), f("instruction", row);
        f("clocks", clocks), f("scale_blocks", scale_blocks), f("tensor_columns", tensor_columns), f("late", late), f("arch", arch);
        f("rejected", rejected);
    }
};

/// A load, store or atomic of a tile of a tensor.
/// An instruction of the program, computed by its text.
struct OwnInstruction {
    static constexpr const char* kind = "instruction";
    std::string name, form;  ///< "lop3<150>", "sm_80"
    int elements = 1;        ///< at once, of its result; 0: a tile, in every warp
    void fields(auto&& f) const { f("name", name), f("form", form), f("elements", elements); }
};

struct Access {
    static constexpr const char* kind = "access";
    struct Boxes {  ///< of bulk copies by a warp
        int64_t lines = 0, columns = 0, shared_bytes = 0;
        void fields(auto&& f) const { f("lines", lines), f("columns", columns), f("shared_bytes", shared_bytes); }
    };
    struct Words {  ///< of a thread
        int64_t words = 0, accesses = 0, access_bits = 0;
        void fields(auto&& f) const { f("words", words), f("accesses", accesses), f("access_bits", access_bits); }
    };
    struct Elements {  ///< side by side in memory, of a thread and access
        int elements = 1;
        int64_t access_bits = 0;
        bool shifted = false;        ///< words are shifted into place
        bool whole_sectors = false;  ///< a warp's accesses fill the sectors of 32 bytes that they touch
        void fields(auto&& f) const {
            f("elements", elements), f("access_bits", access_bits), f("shifted", shifted), f("whole_sectors", whole_sectors);
        }
    };
    std::string op, tensor;
    Shape tile;
    std::optional<Boxes> boxes;
    std::optional<Words> words;
    std::optional<Elements> elements;  ///< nothing of these three: single elements, as no dimension of the tile is contiguous
    bool copies = false;               ///< some threads hold what others hold
    std::string not_tma;               ///< why TMA does not do it where it does such things
    void fields(auto&& f) const {
        f("op", op), f("tensor", tensor), f("tile", tile), f("boxes", boxes), f("words", words), f("elements", elements), f("copies", copies);
        f("not_tma", not_tma);
    }
};

/// An access by pointers.
struct PointerAccess {
    static constexpr const char* kind = "pointers";
    std::string op;
    Shape tile;
    std::string element;
    int64_t accesses = 0, access_bits = 0;  ///< of a thread, an element each
    bool masked = false, copies = false;
    std::string why;  ///< it is no access to a tensor, wide where that can be
    void fields(auto&& f) const {
        f("op", op), f("tile", tile), f("element", element), f("accesses", accesses), f("access_bits", access_bits), f("masked", masked);
        f("copies", copies), f("why", why);
    }
};

/// Machine operations of one name, and the units of an SM that do them: "alu" (integers and logic), "fma" (floats), "conversion", "lsu" (loads).
struct Operations {
    std::string name, pipe;
    int64_t count = 0;
    void fields(auto&& f) const { f("name", name), f("pipe", pipe), f("count", count); }
};
/// A cast of codes in words.
struct Decoding {
    static constexpr const char* kind = "decoding";
    std::string from, to;
    int64_t codes = 0;                   ///< of a thread
    std::vector<Operations> operations;  ///< of a thread, for all of them
    int64_t recipe_codes = 0;            ///< that the recipe takes at a time
    std::vector<Operations> recipe;
    bool shifted = false;                           ///< words are shifted into place first
    double each(const char* pipe = nullptr) const;  ///< operations per code, of a pipe or all
    void fields(auto&& f) const {
        f("from", from), f("to", to), f("codes", codes), f("operations", operations), f("recipe_codes", recipe_codes), f("recipe", recipe);
        f("shifted", shifted);
    }
};

/// How a tile changes hands.
struct Conversion {
    static constexpr const char* kind = "conversion";
    enum Way : uint8_t { to_shared, to_tensor_memory, no_zeros, from_tensor_memory, from_shared, shuffled, through_scratch, renamed };
    static constexpr std::string_view to_string(Way way) {
        constexpr std::string_view kNames[] = {"to shared",   "to tensor memory", "no zeros", "from tensor memory",
                                               "from shared", "shuffles",         "scratch",  "renamed"};
        return kNames[way];
    }
    Way way = renamed;
    Shape tile;
    std::string layout;  ///< in shared memory
    int shuffles = 0;    ///< of a thread
    int64_t scratch_bytes = 0;
    struct Side {
        int64_t access_bits = 0;
        int bank_accesses = 1;  ///< to the busiest bank, times what one access needs; 1: no bank conflicts
        void fields(auto&& f) const { f("access_bits", access_bits), f("bank_accesses", bank_accesses); }
    };
    std::optional<Side> written, read;  ///< of scratch
    bool global_scratch = false;
    void fields(auto&& f) const {
        f("way", to_string(way)), f("tile", tile), f("layout", layout), f("shuffles", shuffles), f("scratch_bytes", scratch_bytes),
            f("written", written);
        f("read", read), f("global_scratch", global_scratch);
    }
};

/// A tile in local memory.
struct LocalTile {
    static constexpr const char* kind = "local tile";
    std::string type;
    int64_t elements = 0, bytes = 0;  ///< of each thread
    void fields(auto&& f) const { f("type", type), f("elements", elements), f("bytes", bytes); }
};

/// A load that could run ahead of the arithmetic.
struct CopyAhead {
    static constexpr const char* kind = "copy ahead";
    std::string tensor;
    enum Mover : uint8_t { nobody, tma, threads, own };  ///< threads that compute, or each for itself; nobody: `refusal` says why
    static constexpr std::string_view to_string(Mover by) {
        constexpr std::string_view kNames[] = {"", "TMA", "threads", "own"};
        return kNames[by];
    }
    Mover by = nobody;
    int stages = 0;
    int64_t stage_bytes = 0;
    int swizzle = 0;       ///< bytes
    int sharers = 1;       ///< programs of a cluster that take the copies together
    std::string unshared;  ///< why those of a cluster do not
    std::string refusal;
    void fields(auto&& f) const {
        f("tensor", tensor), f("by", to_string(by)), f("stages", stages), f("stage_bytes", stage_bytes), f("swizzle", swizzle), f("sharers", sharers);
        f("unshared", unshared), f("refusal", refusal);
    }
};

/// A hint or schedule that is not followed.
struct Hint {
    static constexpr const char* kind = "hint";
    std::string hint, instead, arch, why;  ///< instead: what it counts as; empty: it has no effect
    void fields(auto&& f) const { f("hint", hint), f("instead", instead), f("arch", arch), f("why", why); }
};

/// A place in the memory of a program.
struct Buffer {
    enum Use : uint8_t { ring, tile, scratch, table, barriers, exchange };
    enum Where : uint8_t { shared_memory, workspace };
    static constexpr std::string_view to_string(Use use) {
        constexpr std::string_view kNames[] = {"ring", "tile", "scratch", "table", "barriers", "exchange"};
        return kNames[use];
    }
    static constexpr std::string_view to_string(Where where) { return where == shared_memory ? "shared memory" : "workspace"; }
    Use use = scratch;
    Where where = shared_memory;
    std::string of;  ///< the tensor or the operation
    int param = -1;  ///< number of the tensor among the parameters
    int64_t offset = 0, bytes = 0;
    int stages = 1;
    /// From the first instruction to the last, numbered in the order of the form, and where these stand; none: all the time.
    std::optional<std::array<uint32_t, 2>> live;
    Span first, last;
    void fields(auto&& f) const {
        f("use", to_string(use)), f("where", to_string(where)), f("of", of), f("offset", offset), f("bytes", bytes), f("stages", stages),
            f("live", live), f("first", first);
        f("last", last);
    }
};
/// What a program takes of an SM.
struct Resources {
    static constexpr const char* kind = "resources";
    int warps = 0;    ///< that compute
    int threads = 0;  ///< with those that copy
    std::array<int, 3> cluster = {1, 1, 1};
    int registers = 0;                                           ///< of a thread that computes
    enum Source : uint8_t { unknown, set, bounded, estimated };  ///< set: by the kernel
    static constexpr std::string_view to_string(Source source) {
        constexpr std::string_view kNames[] = {"", "set", "bounded", "estimated"};
        return kNames[source];
    }
    Source registers_are = unknown;
    int64_t shared_bytes = 0, workspace_bytes = 0;
    int tensor_columns = 0;
    int per_sm = 1;
    std::string limit;  ///< of programs that an SM holds: as in GpuEstimate
    std::vector<Buffer> buffers;
    void fields(auto&& f) const {
        f("warps", warps), f("threads", threads), f("cluster", cluster), f("registers", registers), f("registers_are", to_string(registers_are));
        f("shared_bytes", shared_bytes), f("workspace_bytes", workspace_bytes), f("tensor_columns", tensor_columns), f("per_sm", per_sm);
        f("limit", limit), f("buffers", buffers);
    }
};

/// Narrow weights on their way to a product: what their time goes to.
struct Stream {
    static constexpr const char* kind = "stream";
    std::string tensor;
    int64_t bytes_in_flight = 0, bytes_needed = 0;  ///< of an SM: on their way, and what the latency of memory asks for
    double operations = 0;                          ///< to decode a code of the tensor, by all threads that hold it
    double memory_us = 0, decode_us = 0, tensor_us = 0, estimated_us = 0;
    std::string bound;  ///< "memory", "issue slots", "tensor cores", or what the estimate adds to these: "latency", "L2"
    void fields(auto&& f) const {
        f("tensor", tensor), f("bytes_in_flight", bytes_in_flight), f("bytes_needed", bytes_needed), f("operations", operations);
        f("memory_us", memory_us), f("decode_us", decode_us), f("tensor_us", tensor_us), f("estimated_us", estimated_us), f("bound", bound);
    }
};
/// Another storage order with which threads would load or decode less.
struct BetterLayout {
    static constexpr const char* kind = "better layout";
    struct Cost {  ///< of a tile, by all threads
        int64_t words = 0, accesses = 0;
        double operations = 0;  ///< per code
        void fields(auto&& f) const { f("words", words), f("accesses", accesses), f("operations", operations); }
    };
    std::string tensor, layout, better;
    Cost now, then;
    void fields(auto&& f) const { f("tensor", tensor), f("layout", layout), f("better", better), f("now", now), f("then", then); }
};

// ---- processors ----

struct CpuCode {
    static constexpr const char* kind = "cpu code";
    std::string cpu, reason;  ///< why vectors are that wide
    unsigned vector_bytes = 0;
    std::string narrowest, widest;  ///< formats of elements in vectors; empty: there are none
    bool two_registers = false;     ///< for the widest
    void fields(auto&& f) const {
        f("cpu", cpu), f("reason", reason), f("vector_bytes", vector_bytes), f("narrowest", narrowest), f("widest", widest);
        f("two_registers", two_registers);
    }
};
struct CpuPrograms {
    static constexpr const char* kind = "cpu programs";
    bool single = false;
    std::vector<std::string> grid;                         ///< by axis: what the kernel says of it
    enum Threads : uint8_t { none, executor, pool, own };  ///< executor: of the host; own: of each program, as of cooperative ones
    static constexpr std::string_view to_string(Threads threads) {
        constexpr std::string_view kNames[] = {"", "executor", "pool", "own"};
        return kNames[threads];
    }
    Threads threads = none;
    unsigned most_of_pool = 0;  ///< 0: no bound
    bool pinned = false;
    unsigned cores = 1;
    uint64_t scratch_bytes = 0;  ///< of a thread
    void fields(auto&& f) const {
        f("single", single), f("grid", grid), f("threads", to_string(threads)), f("most_of_pool", most_of_pool), f("pinned", pinned),
            f("cores", cores);
        f("scratch_bytes", scratch_bytes);
    }
};
/// Tensors larger than the caches, read ahead and written past these.
struct CpuStreams {
    static constexpr const char* kind = "cpu streams";
    std::vector<std::string> read, written;
    void fields(auto&& f) const { f("read", read), f("written", written); }
};
struct CpuOperation {
    static constexpr const char* kind = "cpu operation";
    struct Stored {
        std::string type;
        uint64_t bytes = 0;
        std::string why;
        void fields(auto&& f) const { f("type", type), f("bytes", bytes), f("why", why); }
    };
    struct MatrixProduct {
        int64_t m = 0, n = 0, k = 0;
        std::string instruction;         ///< of neighbours along k; empty: multiplies and adds
        unsigned rows = 0, columns = 0;  ///< of the micro-kernel
        uint64_t packed_bytes = 0;
        bool transposed = false;  ///< computed as the transposed product
        std::string way, why;
        bool kept_rows = false;  ///< rows that no store keeps are left out
        int64_t few_kept = 0;    ///< as many kept ones are multiplied as few rows are
        void fields(auto&& f) const {
            f("m", m), f("n", n), f("k", k), f("instruction", instruction), f("rows", rows), f("columns", columns), f("packed_bytes", packed_bytes);
            f("transposed", transposed), f("way", way), f("why", why), f("kept_rows", kept_rows), f("few_kept", few_kept);
        }
    };
    std::string op;
    std::vector<Stored> stored;
    bool nest = false;               ///< has loops of its own; else it is fused into another's
    std::vector<std::string> fused;  ///< operations in its loops
    std::string order, pointers;     ///< of its loops; how pointers move along them
    std::optional<MatrixProduct> product;
    void fields(auto&& f) const {
        f("op", op), f("stored", stored), f("nest", nest), f("fused", fused), f("order", order), f("pointers", pointers), f("product", product);
    }
};

using Fact =
    std::variant<Tune, Estimated, NoProducts, Recognition, Split, Persistent, Cooperative, Product, OwnInstruction, Access, PointerAccess, Decoding,
                 Conversion, LocalTile, CopyAhead, Hint, Resources, Stream, BetterLayout, CpuCode, CpuPrograms, CpuStreams, CpuOperation>;
struct Note {
    Span span;  ///< not valid: of the kernel as a whole
    Fact fact;
};
/// What the text says of a fact, without its place.
std::string text(const Fact& fact);

}  // namespace explain

/// Of one kernel for one architecture or processor.
struct Explanation {
    std::string kernel, machine;  ///< "sm_90a"; "cpu"
    std::vector<explain::Setting> generics;
    std::vector<explain::Note> notes;  ///< in the order of the text
    /// Lines of "FILE:LINE:COLUMN: text".
    std::string text(const SourceMap& sources) const;
    std::string json(const SourceMap& sources) const;
};

}  // namespace tegula
