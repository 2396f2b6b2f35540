// Tile IR -> one LLVM function. A root (stored value, effect, reduction, product) emits a loop nest over its points; inside, `lanes` evaluates fused
// values at a Point, recursively, each once per body. Shape ops only map points. Everything is loops: code size does not depend on a tile's extents.
// Structured ops are member functions declared from the op table: cpu_NAME makes the results of a root where it stands in the program; a forgotten
// one fails to link by name.
#pragma once
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "jit/cpu/dot_rows.h"
#include "jit/cpu/kept_rows.h"
#include "jit/cpu/line_table.h"
#include "jit/cpu/nest_order.h"
#include "jit/cpu/parts.h"
#include "jit/cpu/plan.h"
#include "jit/cpu/scalars.h"

namespace tegula::cpu {

/// One coordinate of a point.
struct Index {
    enum Kind : uint8_t {
        uniform,      ///< i64, the same in all lanes
        consecutive,  ///< i64 of lane 0; lane l is l more
        vector        ///< <lanes x i32>
    } kind = uniform;
    llvm::Value* value = nullptr;
    int64_t multiple = 1;  ///< divides the (lane 0) value of uniform and consecutive ones
    /// Of uniform ones, may be null: the value lies in [run, run + run_length), and run is a multiple of run_length. What depends on quotients by
    /// multiples of run_length is the same all over the run, and made once.
    llvm::Value* run = nullptr;
    int64_t run_length = 1;
    /// Of vectors, may be null: the i64 of lane 0, where lane l is l * step more.
    llvm::Value* first = nullptr;
    int64_t step = 0;
    /// .. may be null: a consecutive coordinate's value; first is step * counter + plus.
    llvm::Value* counter = nullptr;
    int64_t plus = 0;
};

/// Elements of a load or a stored tile for lanes that run across the rows of its memory: the rows are read as they lie and turned (turned.cpp).
struct TurnedRun {
    ir::ValueId value;
    bool stored;                      ///< words are of the stored tile, not of what is loaded
    std::vector<Index> at;            ///< what the value's point must be; of dimension `k` one of `steps`
    size_t k = 0;                     ///< the value's dimension along memory
    std::vector<llvm::Value*> steps;  ///< consecutive coordinates
    std::vector<llvm::Value*> words;  ///< <lanes x i32>: the elements' bits from steps[0] on
    std::vector<uint64_t> bits{};     ///< of declared layouts: by step, the first bit in these; else the elements lie one behind the other
};

/// A row of elements of a tile, one per lane; lanes 0: one element, and values at the point are LLVM scalars.
struct Point {
    unsigned lanes = 0;
    uint8_t rank = 0;
    std::array<Index, kMaxRank> index{};
    llvm::Value* active = nullptr;  ///< <lanes x i1>: lanes inside the nest's shape; null: all. Others compute on whatever memory holds.
};

/// A stored tile (plan.h): dense, row-major.
struct Buffer {
    const Format* format = nullptr;  ///< elements in memory are to_memory(format)
    bool pointer = false;            ///< 64-bit pointer values
    Shape shape{};
    llvm::Value* base = nullptr;                         ///< ptr
    llvm::MDNode *scope = nullptr, *no_alias = nullptr;  ///< put on every access
};

struct TargetFacts {
    VectorUnit vectors;
    std::string vector_reason;  ///< why they have so many bytes, for `explain`
    unsigned lanes = 4;         ///< of an inner loop: vectors.bytes / 4
    bool avx512 = false, avx2 = false;
    bool f16c = false;  ///< converts f16 itself
    bool fma = false;   ///< of doubles
    bool bf16 = false;  ///< converts to bf16 itself, subnormal numbers aside
    llvm::DataLayout data_layout{""};
    std::string triple, cpu, features;
};

/// How a loop nest goes over its points.
struct NestOptions {
    const NestOrder* order = nullptr;  ///< null: row-major
    /// How many elements (i64) of the row that begins at a point come before its first whole vector; then whole vectors go as far as `least` of them
    /// at a time can.
    std::function<llvm::Value*(const Point& first)> head;
    int64_t least = 1;
    /// Vectors that no access of the body reaches: like the others, in a loop of their own where every load is what stands in for it, or not at
    /// all.
    enum Unreached : uint8_t { masked, apart, skipped } unreached = masked;
    bool mixed = false;  ///< no point reads what another one writes: several vectors may be worked on at a time
    /// Nothing shows in which order points are made (there is no head): what whole vectors leave comes first, and goes on while they are worked on.
    bool any_order = false;
    unsigned vectors = 1;  ///< that a point's lanes fill at most
};

class Codegen {
public:
    Codegen(llvm::Module& module, const ir::Function& fn, const Plan& plan, const CompileOptions& options, const TargetFacts& target);
    /// Emits the function "kernel".
    void run();

    // ---- what emit_*.cpp builds on ----

    llvm::IRBuilder<>& b() { return b_; }
    Scalars& scalars() { return scalars_; }
    const ir::Function& fn() const { return fn_; }
    const Plan& plan() const { return plan_; }
    const TargetFacts& target() const { return target_; }
    unsigned width() const { return target_.lanes; }

    // Types of elements in registers and in memory. A pointer's element is an i64.
    llvm::Type* type_of(ir::ValueId v, unsigned lanes);
    llvm::Type* memory_type(const Format& f, bool pointer, unsigned lanes);
    llvm::Value* i64(int64_t v) { return b_.getInt64(static_cast<uint64_t>(v)); }
    llvm::Value* i32(int64_t v) { return b_.getInt32(static_cast<uint32_t>(v)); }
    llvm::Value* splat(llvm::Value* scalar, unsigned lanes);  ///< itself when lanes == 0
    llvm::Value* lane_numbers(unsigned lanes);                ///< <0, 1, ..> i32

    // Values.
    /// The element(s) of a tile (fused, stored or scalar) at a point of its shape: type_of(v, p.lanes). Uniform points in vector bodies are splats.
    llvm::Value* lanes(ir::ValueId v, const Point& p);
    llvm::Value* scalar(ir::ValueId v);  ///< of rank 0
    bool is_scalar(ir::ValueId v) const { return plan_.values[v.v].kind == Home::scalar; }
    bool is_fused(ir::ValueId v) const { return plan_.values[v.v].kind == Home::fused; }
    /// Does evaluating v at a point, with what is fused into it, execute such an instruction?
    bool evaluates(ir::ValueId v, const std::function<bool(const ir::Inst& inst)>& such) const;
    /// Does evaluating v follow pointers, some of which may lead nowhere?
    bool reports(ir::ValueId v) const {
        return evaluates(v, [](const ir::Inst& inst) { return inst.op == ir::Op::ptr_load; });
    }
    bool is_stored(ir::ValueId v) const { return plan_.values[v.v].kind == Home::stored; }
    bool shares_buffer(ir::ValueId a, ir::ValueId b) const {
        return is_stored(a) && is_stored(b) && plan_.values[a.v].slot == plan_.values[b.v].slot;
    }
    /// Will v be evaluated once more, together with much arithmetic?
    bool returns_heavier(ir::ValueId v) const {
        const Home& home = plan_.values[v.v];
        return home.kind == Home::fused && home.heaviest.valid() && home.heaviest != emitted_;
    }
    bool wanted(ir::ValueId v) const { return plan_.values[v.v].kind != Home::none; }
    void define(ir::ValueId v, llvm::Value* scalar);  ///< result of rank 0
    Buffer buffer(ir::ValueId v);                     ///< of a stored value
    /// Reads and writes at a point, in register types. Writes leave out inactive lanes; the point's last index with an extent > 1 is best
    /// consecutive. `guarded`: inactive lanes (a scalar p.active too) touch no memory and give 0.
    llvm::Value* read(const Buffer& buffer, const Point& p, bool guarded = false);
    void write(const Buffer& buffer, const Point& p, llvm::Value* value);
    /// Of points that differ in the few elements of one dimension (NestOrder::few).
    void write(const Buffer& buffer, const std::vector<Point>& points, const std::vector<llvm::Value*>& values);
    /// The points that a nest's body at p stands for.
    std::vector<Point> points_of(const NestOrder& order, const Shape& shape, const Point& p);
    /// A part of scratch seen as a dense tile (work areas of an instruction, plan.h work_bytes), `offset` bytes into it.
    Buffer work(ir::InstId inst, uint64_t offset, const Format& format, const Shape& shape);
    llvm::Value* work_pointer(ir::InstId inst, uint64_t offset = 0);

    // Loops. Values made inside are forgotten afterwards; results of `loop` are what the last iteration returned.
    /// for (i = lo; i < hi; i += step) (signed, step > 0, known not to wrap).
    std::vector<llvm::Value*> loop(llvm::Value* lo, llvm::Value* hi, int64_t step, std::vector<llvm::Value*> carried,
                                   const std::function<std::vector<llvm::Value*>(llvm::Value* i, std::vector<llvm::Value*> carried)>& body);
    void loop(int64_t lo, int64_t hi, int64_t step, const std::function<void(llvm::Value* i)>& body);
    using PointBody = std::function<void(const Point& p)>;
    /// All points of a shape, `width()` lanes along the order's last dimension (scalar points when no extent is > 1). The body is emitted several
    /// times: for whole vectors, where accesses may leave out their masks (`all_inside`), for what is left, and for what is not reached.
    void nest(const Shape& shape, const PointBody& body, const NestOptions& options = {});
    /// One row of a nest: dimension `along` of the point goes from 0 to its extent, p.lanes at a time.
    void row(Point p, size_t along, int64_t extent, const PointBody& body, const NestOptions& options = {});
    /// In the whole vectors of a nest: is position j between two limits wherever the vector is executed, once the nest has taken these limits as its
    /// own? They are made by `limits` in front of the nest.
    bool all_inside(const Index& j, const std::function<std::pair<llvm::Value*, llvm::Value*>()>& limits);
    /// The same for a condition that all lanes share: `value` is what `condition` is made from (null: constants).
    bool always(llvm::Value* value, const std::function<llvm::Value*()>& condition);
    bool in_whole_vectors() const { return whole_ != nullptr; }
    bool in_whole_vectors(const Index& j) const {  ///< j counts them
        return whole_ && j.kind == Index::consecutive && counted_by(j).index == whole_->index;
    }
    /// make() where the loop over whole vectors is not yet entered. Nothing that reports may be evaluated there.
    void in_front(const std::function<void()>& make);
    /// Do the coordinates that all lanes share exist there?
    bool made_in_front(const Point& p) const;
    /// In vectors behind everything that accesses reach: is position j one of them?
    bool all_outside(const Index& j) const { return beyond_ && counted_by(j).index == beyond_; }
    /// for (i = lo; i < hi; ++i), lo < hi, in two loops: as long as all accesses whose positions are counted by i (`counts`) are inside, without
    /// their masks, and the rest.
    void loop_inside(int64_t lo, int64_t hi, const std::function<void(llvm::Value* i)>& body);
    /// Positions from `first` on, as many as one step of the loop's `index` stands for, are in groups of `size`: (index + offset) *
    /// size is the first of them, or of those beside them.
    void counts(llvm::Value* first, llvm::Value* index, int64_t size, int64_t offset = 0);
    /// The same over single elements (lanes 0), in row-major order.
    void nest_elements(const Shape& shape, const std::function<void(const Point& p)>& body);
    /// Asks the run-time side whether the run is over (Support::tick) and leaves the kernel then. Loops over many elements do so by themselves.
    /// `left` as in Support::tick.
    void poll(llvm::Value* left = nullptr);
    void leave_if_stopped();
    /// Where the kernel leaves, early or at its end, the tiles of the processor are released.
    void leave_without_tiles();
    /// Takes `by` from a field of the state, and polls when it falls below zero.
    void count_long_loop(llvm::Value* from_start, int64_t step, int64_t elements, int64_t trips);
    void count_down(size_t field, int64_t by, llvm::Value* left = nullptr);
    /// if (condition) body(); values made inside are forgotten.
    void when(llvm::Value* condition, const std::function<void()>& body);
    /// `when` for each lane (i64) of a mask (null: all lanes), in ascending order.
    void each_lane(llvm::Value* mask, unsigned lanes, const std::function<void(llvm::Value* lane)>& body);
    /// condition ? then() : otherwise(), as branches.
    llvm::Value* choose(llvm::Value* condition, const std::function<llvm::Value*()>& then, const std::function<llvm::Value*()>& otherwise);
    /// Makes result v element by element: body(point) is its value; stored, or the scalar.
    void each_result(ir::ValueId v, const std::function<llvm::Value*(const Point& p)>& body, const NestOptions& options = {});

    // Points.
    Point scalar_point(std::initializer_list<llvm::Value*> uniform) const;
    Index uniform(llvm::Value* i64, int64_t multiple = 1) const { return {Index::uniform, i64, multiple}; }
    Index uniform(int64_t v) { return {Index::uniform, i64(v), v ? v : int64_t{1} << 40}; }
    llvm::Value* as_vector(const Index& i, unsigned lanes);  ///< <lanes x i32>, or i64 when lanes == 0
    Index add(const Index& a, int64_t by, unsigned lanes);
    Index scale_add(const Index& a, int64_t scale, int64_t by, unsigned lanes);
    /// Row-major number in `shape` of a point; and back.
    Index linear(const Point& p, const Shape& shape);
    Point delinear(const Index& i, const Shape& shape, const Point& like);
    /// The operand's point that a broadcast, permute, slice or reshape (of no stored tile) reads at a point of its result.
    Point source_point(ir::InstId id, const Point& p);

    // Memory.
    /// A vector, element by element.
    llvm::Value* load_lanes(llvm::Type* type, const std::function<llvm::Value*(unsigned lane)>& place);
    llvm::Value* masked_load(llvm::Type* type, llvm::Value* pointer, llvm::Value* mask, llvm::Value* other, llvm::Align align);
    /// Has the target masked stores of this vector that touch nothing where they are off, as cheap as others?
    bool has_masks(llvm::Type* vector) const;
    void masked_store(llvm::Value* value, llvm::Value* pointer, llvm::Value* mask, llvm::Align align);
    /// The rows of memory behind `count` coordinates k of a load's part from p.index[k] on, one per lane of dimension `n` from p.index[n] on (p has
    /// no lanes): turned into words of 32 bits at `to`, one vector of `lanes` per 32 bits. Only where the tensor's memory runs along k.
    bool can_turn_rows(ir::InstId load, size_t k);
    void turn_rows(ir::InstId load, size_t k, size_t n, const Point& p, int64_t count, unsigned lanes, llvm::Value* to);
    /// Elements of declared layouts (block_words.h), p as above. Do all blocks of the part lie as the analysis says (i1)? Is the block at p in
    /// storage (i1)? Its words, at `to`.
    llvm::Value* in_blocks(ir::InstId load, const TurnedLoad& at);
    llvm::Value* block_in_storage(ir::InstId load, const BlockWords& block, const Point& p);
    void load_block(ir::InstId load, const BlockWords& block, const Point& p, llvm::Value* to);
    /// The same as words in registers, of rows as long as a vector that all are in range.
    std::vector<llvm::Value*> turned_rows(ir::InstId load, size_t n, const Point& p, unsigned lanes);
    /// The same of a stored tile, k being its last dimension with an extent > 1.
    void turn_tile(ir::ValueId tile, size_t n, const Point& p, int64_t count, unsigned lanes, llvm::Value* to);
    /// Values among them give their elements from words while `body` is emitted.
    void with_turned(std::vector<TurnedRun> runs, const std::function<void()>& body);
    /// How many coordinates of a load's part along dimension k, from 0 on, are in range together with `count` of dimension n from p.index[n] on (p
    /// has no lanes; dimensions that the part lacks: its rank); 0 where those are not. While such a stretch is emitted in `inside`, the load is not
    /// masked.
    llvm::Value* inside_until(ir::InstId load, size_t k, size_t n, const Point& p, int64_t count);
    void inside(const std::vector<ir::InstId>& loads, const std::function<void()>& body);
    bool is_inside(ir::InstId load) const { return std::find(inside_.begin(), inside_.end(), load) != inside_.end(); }
    /// Asks for the elements of lanes that find them side by side along dimension n, where that is so.
    void ask_for(ir::InstId load, size_t n, const Point& p);
    /// Calls a field of Support; the state comes first.
    llvm::Value* call_support(size_t field_offset, llvm::Type* result, std::vector<llvm::Value*> args);
    llvm::Value* argument_slot(uint32_t slot);  ///< i64, read once at the function's start
    void convert_pointers(ir::InstId id);
    llvm::AllocaInst* local(llvm::Type* type, unsigned count = 1);

    /// Finds the first point of a shape, in row-major order, at which `bad` (i1 per lane) holds, and emits `report` with its number (i64) for it.
    void first_bad(const Shape& shape, const std::function<llvm::Value*(const Point& p)>& bad,
                   const std::function<void(llvm::Value* element)>& report);

    // ---- one function per structured op ----
#define ELEMENTWISE(...)
#define STRUCTURED(name, ...) void cpu_##name(ir::InstId id);
#include "lang/ops.def"

    // ---- regions and control ----
    /// Is every instruction of the block elementwise on scalars (also select, cast, bitcast, constant, ptr_add)? Then `region` takes vectors.
    bool batchable(ir::BlockId body) const;
    /// Evaluates a region's block on its arguments; values from outside are splat. lanes 0: scalars, any block; else batchable ones only.
    std::vector<llvm::Value*> region(ir::BlockId body, std::span<llvm::Value* const> args, unsigned lanes);
    /// Emits a block's instructions in order (without what its terminator's owner does).
    void emit_block(ir::BlockId block);
    /// One elementwise instruction, select, cast, bitcast or ptr_add on register values. `element`: row-major numbers (<lanes x i32> or i32), for
    /// stochastic rounding; may be null otherwise.
    llvm::Value* apply(ir::InstId id, std::span<llvm::Value* const> operands, unsigned lanes, llvm::Value* element);
    /// Inclusive running values along an axis (lower/kernel/reduce/scan.cpp).
    void scan_lines(std::span<const ir::ValueId> in, ir::ValueId first, size_t n, int64_t axis, bool reverse, bool pointwise, int64_t together,
                    const std::function<std::vector<llvm::Value*>(const std::vector<llvm::Value*>& acc, const std::vector<llvm::Value*>& x,
                                                                  unsigned lanes)>& step);

private:
    // Evaluation at a point (at_shape.cpp, at_memory.cpp): ops that `fusable` names.
    llvm::Value* evaluate(ir::ValueId v, const Point& p);
    llvm::Value* evaluate_here(ir::InstId id, const Point& p);
    llvm::Value* compare_iota(ir::InstId id, const Point& p);
    llvm::Value* at_pointwise(ir::InstId id, const Point& p);
    llvm::Value* at_constant_tile(ir::InstId id, const Point& p);
    llvm::Value* at_iota(ir::InstId id, const Point& p);
    llvm::Value* at_reshape(ir::InstId id, const Point& p);
    llvm::Value* at_cat(ir::InstId id, const Point& p);
    llvm::Value* at_gather(ir::InstId id, const Point& p);
    llvm::Value* at_extract(ir::InstId id, const Point& p);
    llvm::Value* at_load(ir::InstId id, const Point& p);
    llvm::Value* at_ptr_load(ir::InstId id, const Point& p);
    llvm::Value* at_turned(ir::ValueId v, const Point& p);  ///< null: not turned there
    llvm::Value* quotient(const Index& i, int64_t by);
    void emit_root(ir::InstId id);
    void emit_inst(ir::InstId id);

    friend class AccessEmitter;
    friend class PointerEmitter;
    // control.cpp
    void transfer(ir::InstId at, std::span<const ir::ValueId> from, std::span<const ir::ValueId> to);
    std::vector<llvm::Value*> scalars_of(std::span<const ir::ValueId> values);
    void back_edge(ir::BlockId body, llvm::Value* left = nullptr);
    void emit_transfer(ir::InstId at);
    void store_value(ir::ValueId from, const Buffer& to);
    Buffer slot_buffer(uint32_t slot, const Format& format, bool pointer, const Shape& shape);
    // checks.cpp
    void check(ir::InstId id);
    void check_division(ir::InstId id);
    void check_gather(ir::InstId id);
    void check_cast(ir::InstId id);
    void check_assumption(ir::InstId id);
    void report_check(ir::InstId id, Failure failure, llvm::Value* element, llvm::Value* code);
    // atomic.cpp
    llvm::Value* to_code(llvm::Value* v, const Format& f);
    llvm::Value* from_code(llvm::Value* code, const Format& f);
    llvm::Value* joined_atomic(ir::AtomicKind kind, ir::MemoryOrder order, const Format& f, llvm::Value* at, llvm::Value* operand);
    llvm::Value* native_atomic(ir::AtomicKind kind, ir::MemoryOrder order, const Format& f, llvm::Value* at, llvm::Value* code, llvm::Value* expected);
    void atomic_elements(ir::InstId id, const Shape& shape, const std::function<llvm::Value*(const Point& p)>& update);
    llvm::Value* atomic_element(ir::InstId id, llvm::Value* data, llvm::Value* bit, ir::ValueId value, ir::ValueId expected, const Point& p);
    // access.cpp, address.cpp
    const ParamSlots& param(ir::ValueId tensor);
    llvm::Value* param_data(const ParamSlots& p);
    llvm::Value* extent(ir::ValueId tensor, size_t d);
    llvm::Value* live_rows(ir::InstId dot, int64_t m);

    struct Body {
        std::map<std::pair<uint32_t, uint32_t>, llvm::Value*> known;         ///< (value, point) -> what it is there
        std::map<std::pair<llvm::Value*, int64_t>, llvm::Value*> quotients;  ///< of runs (Index)
    };
    uint32_t intern(const Point& p);

    /// The loop over whole vectors that is being emitted (nest.cpp).
    struct Whole {
        llvm::BasicBlock *before, *inside;  ///< before: not terminated yet
        size_t bodies = 0;                  ///< that are open there
        llvm::Value* index;                 ///< of lane 0
        llvm::Value *low = nullptr, *high;  ///< positions in [low, high) are inside for all accesses; low null: 0
        llvm::Value* reach = nullptr;       ///< from here on no access is inside; null: none has limits
    };
    llvm::Value* whole_vectors(Whole& whole, const Point& p, size_t along, llvm::Value* from, int64_t extent, const PointBody& body, int64_t most,
                               bool mixed, const std::function<void(llvm::Value* behind, llvm::Value* reach)>& first);
    void repeat_odd_step(Whole& whole, const Speculation& speculation, llvm::Value* from, int64_t step, int64_t lanes,
                         const std::function<void(llvm::Value* index)>& body);
    void nest_blocks(Point p, const Shape& shape, const NestOrder& order, const PointBody& body);
    void square(const Point& p, const NestOrder& order, llvm::Value* k, int64_t count, const PointBody& body);
    void single_vector(Point p, size_t along, const Index& at, llvm::Value* end, const PointBody& body);
    bool made_before(const llvm::Value* value) const;

    llvm::Module& module_;
    const ir::Function& fn_;
    const Plan& plan_;
    const CompileOptions& options_;
    const TargetFacts& target_;
    ArgLayout args_layout_;
    llvm::LLVMContext& context_;
    llvm::IRBuilder<> b_;
    Scalars scalars_;
    Parts parts_;
    llvm::Function* function_ = nullptr;
    std::unique_ptr<KeptRows> kept_rows_;  ///< made for the first product
    std::unique_ptr<LineTable> lines_;     ///< where options ask for one
    llvm::BasicBlock *entry_ = nullptr, *leave_ = nullptr;
    llvm::Value *args_ = nullptr, *program_ = nullptr, *scratch_ = nullptr, *state_ = nullptr, *support_ = nullptr;
    std::vector<llvm::Value*> scalar_of_;                   ///< by value
    std::vector<llvm::Value*> slot_of_;                     ///< by argument slot
    std::vector<llvm::Value*> base_of_;                     ///< by scratch slot
    std::vector<int> param_of_;                             ///< by value: parameter number, -1
    std::unordered_map<uint32_t, llvm::Constant*> tables_;  ///< constant_tile: by instruction
    std::vector<Body> bodies_;
    int64_t elements_ = 0;  ///< that the body of the loop being emitted handles between two polls, as far as it is known
    ir::InstId emitted_;    ///< the last instruction whose code was begun
    std::vector<TurnedRun> turned_;
    std::vector<ir::InstId> inside_;          ///< loads all of whose elements are in range
    std::vector<llvm::AllocaInst*> squares_;  ///< turned words of a nest's loads, by number
    Whole* whole_ = nullptr;
    struct Counted {
        llvm::Value* index = nullptr;  ///< of a loop
        int64_t size = 1, offset = 0;
    };
    std::map<llvm::Value*, Counted> counted_;
    Counted counted_by(const Index& j) const;
    llvm::Value* beyond_ = nullptr;  ///< index of lane 0 in vectors that no access reaches
    std::map<std::vector<uint64_t>, uint32_t> points_;
    std::vector<llvm::MDNode*> scopes_, no_alias_;  ///< by scratch slot
};

}  // namespace tegula::cpu
