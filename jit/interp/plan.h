// A function made ready to run: a flat list of steps with jumps, every value at a fixed offset of one arena. Built once by `make_plan`
// (plan.cpp, slots.cpp), read by all workers. A tile is dense (row-major containers) or a splat (one stored element that stands for all).
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "jit/interp/elementwise.h"
#include "lang/access_operands.h"
#include "lang/program_order.h"

namespace tegula::interp {

struct Machine;
struct Step;
using Run = void (*)(Machine&, const Step&);

constexpr int64_t kLanes = 256;   ///< elements that a region body (reduce_region, scan_region) handles at once
constexpr int64_t kPerLane = -1;  ///< Tile::n of values inside a batched region: as many as the machine's lanes

struct Tile {
    uint32_t slot = UINT32_MAX;  ///< while planning: which storage
    uint64_t offset = 0;         ///< in the arena
    int64_t n = 1;               ///< elements, or kPerLane
    uint8_t width = 0;           ///< bytes per element
    bool splat = false, pointer = false;
    int param = -1;  ///< tensors: the parameter; channels: the number of the ring
    const Format* format = nullptr;
    FormatId elem{};
    Shape shape{};
};

/// What a step's function needs to know about its instruction.
struct Info {
    ir::InstId id{};
    ir::Op op{};
    Span span{};
    std::vector<Tile> in, out;
    std::vector<int64_t> attrs;
    std::optional<ir::AccessOperands> access;            ///< of accesses: operands by what they mean; their numbers are those of `in`
    Row row;                                             ///< elementwise: how to apply it; reductions and scans: the combining row
    Conversion cast;                                     ///< cast
    uint32_t begin = 0, end = 0;                         ///< region bodies: their steps
    std::vector<Tile> region_args, region_yields, work;  ///< work: arrays that the region's step needs for itself
    bool batched = false;                                ///< the region body runs kLanes elements at once
};

struct Step {
    Run run = nullptr;
    const Info* info = nullptr;
    uint32_t target = 0;  ///< jumps
};

struct ParamPlan {
    Tile tile;               ///< scalars, pointers and tiles by value
    bool may_write = false;  ///< some store or atomic may reach it
    std::string name;
};

struct Plan {
    const ir::Function* fn = nullptr;
    std::vector<ParamPlan> params;
    std::deque<Info> infos;
    std::vector<Step> steps;  ///< [0, body) run once per worker, the rest once per program
    uint32_t body = 0;
    std::vector<Tile> results;  ///< of expression functions
    uint64_t arena_bytes = 0;
    size_t rings = 0;  ///< channels of a function in GPU form
    ir::ProgramOrder order;
};

std::unique_ptr<Plan> make_plan(const ir::Function& fn);

/// Storage of values: which intervals of steps each is live in, and where it lies.
class Slots {
public:
    /// A storage of `bytes`; permanent ones are never shared.
    uint32_t add(uint64_t bytes, bool permanent);
    void read(uint32_t slot, uint32_t at);
    void write(uint32_t slot, uint32_t at);
    /// Everything live at `begin` and touched since stays live until `end` (a loop's last step).
    void close_loop(uint32_t begin, uint32_t end);
    /// Lets `from` share the storage of `into` if `from` is first written at a step after (or, with `in_place`, at) the last read of `into`
    /// and both have the same size. The caller knows that the old value of `into` is not wanted afterwards.
    bool merge(uint32_t from, uint32_t into, bool in_place);
    uint32_t find(uint32_t slot) const;
    uint32_t first(uint32_t slot) const { return slots_[find(slot)].first; }
    uint32_t last_touch(uint32_t slot) const { return slots_[find(slot)].last; }
    bool permanent(uint32_t slot) const { return slots_[find(slot)].permanent; }
    /// Gives every storage an offset; returns the arena's size.
    uint64_t place();
    uint64_t offset(uint32_t slot) const { return slots_[find(slot)].offset; }

private:
    struct Slot {
        uint64_t bytes = 0, offset = 0;
        uint32_t first = UINT32_MAX, last = 0, last_read = 0, parent = UINT32_MAX;
        bool permanent = false;
    };
    std::vector<Slot> slots_;
};

}  // namespace tegula::interp
