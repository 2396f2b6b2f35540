// Where an ir::Access finds its elements: coordinates of the object at a point of the accessed part, what is out of range, and addresses. One emitter
// serves load, store, atomic (tensors) and extract, deposit (tiles).
#pragma once
#include <optional>

#include "jit/cpu/block_words.h"
#include "jit/cpu/codegen.h"
#include "jit/cpu/memory_order.h"
#include "lang/access_operands.h"
#include "lang/layout.h"

namespace tegula::cpu {

/// One coordinate of the object: 64 bits wide.
struct Coordinate {
    Index::Kind kind = Index::uniform;
    llvm::Value* value = nullptr;  ///< i64 (of lane 0), or <lanes x i64>
    int64_t step = 1;              ///< consecutive: from lane to lane
};

struct Place {
    unsigned lanes = 0;
    std::vector<Coordinate> at;
    llvm::Value* row = nullptr;     ///< i1 that all lanes share; null: true
    llvm::Value* lane = nullptr;    ///< <lanes x i1>; null: true
    bool nowhere = false;           ///< no lane is in range
    llvm::Value* inside = nullptr;  ///< `bounds` variants, once the address is known: i1 or <lanes x i1>
};

/// Elements in memory: `data` + byte or bit offset; contiguous ones lie side by side from lane 0 on.
struct Address {
    llvm::Value* base = nullptr;    ///< ptr: the tensor's first byte
    llvm::Value* offset = nullptr;  ///< i64, of lane 0 when contiguous, of all lanes when `lanes` is null and not contiguous
    llvm::Value* lanes = nullptr;   ///< <lanes x i64> added to it
    bool contiguous = false;
    bool bytes = true;           ///< offsets in bytes, else in bits
    int64_t step = 0;            ///< elements from lane to lane, of those that are not contiguous; 0: unknown, or not the same everywhere
    llvm::Value* run = nullptr;  ///< i1: contiguous from `first` on, where it holds; null: never
    llvm::Value* first = nullptr;
};

class AccessEmitter {
public:
    AccessEmitter(Codegen& g, ir::InstId id);
    /// At a point of the part. Values of gather indices are evaluated there.
    Place place(const Point& p);
    /// The tensor's elements at a place.
    Address address(Place& place);
    /// mask of the place, the point's and the instruction's own: i1 or <lanes x i1>; null: all. For tensors the address comes first.
    llvm::Value* mask(const Place& place, const Point& p);
    /// The object's point (a tile) at a place; coordinates are safe where the mask is off, except that consecutive ones want guarded accesses.
    Point object_point(const Place& place, llvm::Value* mask, const Point& p);
    /// `run`: the mask in two parts, where that is known, so that what depends on lanes alone leaves loops over rows.
    struct RunMask {
        llvm::Value *row, *lanes;  ///< null: all
    };
    llvm::Value* load(const Address& a, llvm::Value* mask, llvm::Value* other, unsigned lanes, std::optional<RunMask> run = {});
    RunMask run_mask(const Place& place, llvm::Value* mask, const Point& p);
    void store(const Address& a, llvm::Value* mask, llvm::Value* value, unsigned lanes);
    /// At points that differ in the few elements of one dimension (NestOrder::few), or at one.
    void store(const std::vector<Point>& points, const std::vector<llvm::Value*>& values);
    /// Rows of memory behind `count` elements from p on along the part's dimension k (p: one element), for the lanes of dimension n: <lanes x i32>
    /// per 32 bits at `to`. What is outside of the tensor is zeros, but for bits of packed elements along k.
    bool runs_along(size_t k);  ///< does memory run along the part's dimension?
    void turn_rows(size_t k, size_t n, const Point& p, int64_t count, unsigned lanes, llvm::Value* to);
    /// Codegen::turned_rows, inside_until, ask_for.
    std::vector<llvm::Value*> turned_rows(size_t n, const Point& p, unsigned lanes);
    llvm::Value* inside_until(size_t k, size_t n, const Point& p, int64_t count);
    void ask_for(size_t n, const Point& p);
    /// Codegen::in_blocks, block_in_storage, load_block (block_loads.cpp).
    llvm::Value* in_blocks(const TurnedLoad& at);
    struct BlockBase {
        llvm::Value *first, *phase;  ///< byte behind the tensor's data; bits, null: 0
    };
    Place block_place(const Point& p);
    BlockBase block_base(const BlockWords& block, Place first);
    llvm::Value* block_in_storage(const BlockWords& block, const BlockBase& base);
    void load_block(const BlockWords& block, const Point& p, llvm::Value* to);
    /// What a place of a declared layout holds, by words where they lie as analysed; null: nothing is known of it.
    llvm::Value* load_lanes(const Place& place, const Point& p, llvm::Value* other);
    /// What is read there from words: elements of `words`' low bits, masked as the instruction asks. `rows`: by turn_rows.
    llvm::Value* from_words(const Point& p, size_t k, llvm::Value* words, bool rows);
    /// Do lanes along this dimension of the part that run out of the tensor have nothing to do?
    bool ends_with_tensor(size_t along) const;
    /// Is it a tensor that the variant streams (TensorTrait)?
    bool streamed() const;
    llvm::Value* before_aligned(const Point& p);
    int64_t vectors_of_line() const;
    const Format& format() const { return format_; }
    const Shape& part() const { return part_.shape; }
    const ir::AccessOperands& operands() const { return in_; }

private:
    /// The part's dimension of an axis that is no index.
    size_t dim_of(size_t axis) const { return static_cast<size_t>(part_.dim[axis]); }
    bool in_bytes() const { return format_.bits < 8 && 8 % format_.bits == 0; }
    llvm::Value* load_in_bytes(const Address& a, llvm::Value* mask, unsigned lanes);
    llvm::Value* one_by_one(llvm::Value* pointers, llvm::Type* type, llvm::Value* mask, llvm::Value* instead);
    /// `known_in`: nothing keeps positions along a range inside.
    Coordinate axis(size_t a, const Point& p, Place& place, bool known_in = false);
    llvm::Value* inside_or_first(llvm::Value* coordinate, llvm::Value* inside, Place& place);
    size_t axis_of(size_t dim) const;
    llvm::Value* line_offset(const BlockWords& block, size_t line);
    llvm::Value* has_pitches(const BlockWords& block);
    void block_vectors(const BlockWords& block, const BlockBase& base, bool ahead, const std::function<void(size_t, llvm::Value*)>& put);
    std::shared_ptr<const BlockWords> lane_block(const Place& place);
    llvm::Value* row_mask(size_t k_axis, const Point& p, int64_t count, llvm::Value* phase, unsigned bytes);
    /// Positions j = 0, 1, .. n - 1 of an axis at start + j * step.
    struct Line {
        llvm::Value* start;  ///< i64
        int64_t step, n;
    };
    Line range_line(size_t a) { return {g_.scalar(in_.index[a].value), in_.access.axes[a].step, in_.access.axes[a].extent}; }
    std::optional<Line> gathered_line(size_t a, const Point& p, Index& j);
    Coordinate gathered(size_t a, const Point& p, Place& place);
    /// i64, within 0 .. n: the positions from the first to before the second are in range.
    std::pair<llvm::Value*, llvm::Value*> limits(size_t a, const Line& along);
    std::pair<llvm::Value*, llvm::Value*> limits(size_t a) { return limits(a, range_line(a)); }  ///< of a range
    void in_range(size_t a, const Line& along, const Index& j, unsigned lanes, Place& place);
    llvm::Value* lane_bits(const Address& a, unsigned lanes);
    void ask_ahead(llvm::Value* now);
    void prefetch(llvm::Value* pointer, bool to_write, int locality = 3);
    unsigned streamed_bytes(unsigned lanes) const;
    void both(llvm::Value*& all, llvm::Value* more);
    llvm::Value* extent(size_t a);
    llvm::Value* stride(size_t a, int64_t& known);
    llvm::Value* wide(const Coordinate& c, unsigned lanes);
    struct Run {
        llvm::Value* first;  ///< of lane 0
        bool moves;          ///< lane l has l more, else all the same
    };
    std::optional<Run> run_of(const LayoutExpr& e, const Place& place, llvm::Value*& fits);
    llvm::Value* combined(LayoutExpr::Op op, llvm::Value* x, llvm::Value* y, unsigned lanes);
    bool by_run(const std::vector<LayoutExpr>& members, const Place& place, Address& out);
    llvm::Value* pitch(size_t m, size_t members);
    llvm::Value* expression(const LayoutExpr& e, const std::vector<llvm::Value*>& coordinates, unsigned lanes);
    void by_expressions(const Place& place, Address& out);
    void by_strides(const Place& place, Address& out);
    void check_bounds(Place& place, const Address& a);
    int64_t unit() const { return out_bytes_ ? format_.bits / 8 : format_.bits; }

    Codegen& g_;
    llvm::IRBuilder<>& b_;
    const ir::Function& fn_;
    ir::InstId id_;
    ir::AccessOperands in_;
    ir::AccessPart part_;
    const Format& format_;
    bool pointer_, tensor_, out_bytes_;
    MemoryOrder order_;
};

}  // namespace tegula::cpu
