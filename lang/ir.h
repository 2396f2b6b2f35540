// The tile IR: one representation for all levels. SSA values of static tile types, fixed-size instructions in blocks, structured control
// flow (for_loop, while_loop, if_else own blocks). Ops and their facts are rows of ops.def. Text (ir_text.h) prints deterministically
// and parses back; the verifier (verify.h) runs after every pass.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lang/caching.h"
#include "lang/diag.h"
#include "lang/gpu_form.h"
#include "lang/type.h"

namespace tegula::ir {

enum class Op : uint8_t {
#define ELEMENTWISE(name, ...) name,
#define STRUCTURED(name, ...) name,
#include "lang/ops.def"
    count_
};

enum Trait : uint32_t {
    PURE = 1,
    READS = 2,
    WRITES = 4,
    TERMINATOR = 8,
    REGIONS = 16,
    EFFECT = 32,
    ELEMWISE = 64,
    FREE = 128,
    VIEW = 256,
    MEETS = 512,
    POINTWISE = 1024,
    APART = 2048,
    WHOLE = 4096,
    DIVERGES = 8192,
    COMPUTES = 16384
};
enum Domain : uint32_t { B = 1, S = 2, U = 4, F = 8, X = 16, P = 32 };
enum class ResultRule : uint8_t { same, boolean, i32, structured };

/// What an integer attribute says.
enum class Attr : uint8_t {
#define ATTR(id, ...) id,
#include "lang/attrs.def"
#undef ATTR
};
struct Attrs {
    std::array<Attr, 5> all = {};
    size_t count = 0;
    bool repeats = false;  ///< the last one stands for all from its place on
    std::span<const Attr> list() const { return {all.data(), count}; }
    bool fits(size_t given) const { return repeats ? given + 1 >= count : given == count; }
};

struct OpRow {
    const char* name;
    int operands;  ///< -1: any
    int results;   ///< -1: any
    uint32_t traits;
    uint32_t cost;    ///< instructions of an element, roughly
    uint32_t domain;  ///< elementwise: legal element kinds
    ResultRule result;
    Attrs attrs;
    const char* doc;
};
const OpRow& op_row(Op op);
/// Looks an op up by name; Op::count_ when there is none.
Op find_op(std::string_view name);
/// The elementwise row that is a function of the language by this name; Op::count_ when there is none.
Op find_function(std::string_view name);
/// Has its row one of the traits?
inline bool has_trait(Op op, uint32_t traits) { return (op_row(op).traits & traits) != 0; }
/// Does it read memory, and nothing else happens?
inline bool only_reads(Op op) { return (op_row(op).traits & (READS | WRITES | EFFECT)) == READS; }
/// dot and dot_scaled: operands 0, 1 and 2 are the factors and what their product is added to.
inline bool is_product(Op op) { return op == Op::dot || op == Op::dot_scaled; }
/// Is each element of the result made from the operands' elements at its own place?
inline bool is_pointwise(Op op) { return has_trait(op, POINTWISE); }
/// load, store, ptr_load, ptr_store, channel_put: their flags hold a Caching.
bool may_ask_caches(Op op);
/// Is `format` (or, for pointers, `pointer`) in an elementwise op's domain?
bool in_domain(Op op, const Format& format, bool pointer);

struct ValueId {
    uint32_t v = UINT32_MAX;
    bool valid() const { return v != UINT32_MAX; }
    friend bool operator==(ValueId, ValueId) = default;
};
struct InstId {
    uint32_t v = UINT32_MAX;
    bool valid() const { return v != UINT32_MAX; }
    friend bool operator==(InstId, InstId) = default;
};
struct BlockId {
    uint32_t v = UINT32_MAX;
    bool valid() const { return v != UINT32_MAX; }
    friend bool operator==(BlockId, BlockId) = default;
};

/// Ranges into the pools of Function.
struct Range {
    uint32_t begin = 0, count = 0;
};
struct Inst {
    Op op{};
    Range operands;   ///< into Function::operand_pool
    Range attrs;      ///< into Function::attr_pool, named by the op's row
    Range results;    ///< consecutive ValueIds
    Range blocks;     ///< into Function::block_pool (owned regions)
    BlockId parent;   ///< block that holds it
    Span span;        ///< source position, for diagnostics at run time
};
struct Value {
    TypeId type;
    InstId def;       ///< defining instruction; invalid for block arguments
    BlockId block;    ///< block argument: its block
    uint32_t index = 0;  ///< result or argument number
};
struct Block {
    std::vector<InstId> insts;   ///< the last one is a terminator
    std::vector<ValueId> args;
    InstId owner;                ///< invalid for the body
};

// Attribute encodings (int64) of ops.def columns.
enum class ReduceKind : int64_t { sum, prod, min, max, minnum, maxnum, any, all, bit_and, bit_or, bit_xor };
enum class AtomicKind : int64_t { add, max, min, bit_and, bit_or, bit_xor, xchg, cas };
enum class MemoryOrder : int64_t { relaxed, acquire, release, acq_rel };
enum class MemoryScope : int64_t { gpu, cta, sys };
enum class Precision : int64_t { ieee, tf32, fast };
const char* to_string(ReduceKind kind);
const char* to_string(AtomicKind kind);

/// How load, store, atomic, extract and deposit address their operand 0 (a tensor or a tile), one entry per dimension of it.
/// Operands: object; then one i64 index per axis in order (scalar start for `index` and `range`, i64 tile for `gather`, none for `all`);
/// then, as `flags` say: value (store, deposit: always; atomic: value, and expected for cas), other (load, extract), mask (bool).
/// The accessed part has one dimension per `range` and `all` axis, in order; the gather tiles broadcast together and their joint shape
/// stands where the first gather axis stands. Values and masks have exactly that shape. An element is touched only when every index
/// is in [0, extent) of its axis and the mask holds.
struct Access {
    enum Kind : int64_t { index, range, gather, all };
    struct Axis {
        Kind kind = index;
        int64_t extent = 1, step = 1;  ///< range: tile extent and stride; all: extent = the constant extent
        bool in_bounds = false;        ///< proved by a pass: no check needed on this axis
    };
    enum Flags : int64_t { has_other = 1, has_mask = 2 };
    int64_t flags = 0;  ///< and what is asked of caches (caching.h): of tensors, by loads and stores
    bool plain() const { return !(flags & (has_other | has_mask)); }
    bool gathers() const;                      ///< has it index tiles?
    bool steps() const;                        ///< does a range leave elements out, or go backwards?
    std::vector<Axis> axes;
    std::vector<int64_t> encode_axes() const;  ///< 4 numbers per axis: kind, extent, step, in_bounds
};

/// A tensor parameter that no caller gives: a part of what another parameter reaches, whose geometry follows from scalars that a host knows at
/// launch. The values are of instructions that may be in no block any more (launch_value.h computes them).
struct PointerView {
    size_t of = 0;                     ///< number of the pointer (or tensor) parameter
    ValueId offset;                    ///< elements in front of the part; invalid: none
    std::vector<ValueId> extents;      ///< by dimension; invalid: as far as `of` reaches
    std::vector<ValueId> strides;      ///< by dimension, in elements: positive, or the launch has no such view
    std::vector<ValueId> nonnegative;  ///< what else must not be negative
    bool may_turn = false;             ///< a matrix by rows that may be one by columns where a launch's strides say so
};
struct Param {
    std::string name;
    ValueId value;
    enum Kind : uint8_t { tensor, pointer, scalar, extent } kind = scalar;  ///< extent: a named extent (M, N), i64, after all others but views
    std::shared_ptr<const PointerView> view = {};                           ///< behind all others, in functions that the GPU passes get
    bool holds_addresses = false;                                           ///< tensor of u64: of memory that the launch may reach through it
};
/// Attributes of a kernel or loop (schedule hints), kept for back ends: name and integer arguments.
struct Hint {
    std::string name;
    std::vector<int64_t> args;
    std::string key = {};  ///< name of the one argument, where the source gives it by name: split_k(step = 64)
};
/// The first hint of that name; null if there is none.
const Hint* find_hint(std::span<const Hint> hints, std::string_view name);
/// The argument of the first hint of that name; nothing if there is none, it does not have exactly one, or that is given by another name.
std::optional<int64_t> hint_argument(std::span<const Hint> hints, std::string_view name, std::string_view key = {});

/// An instruction of the program that multiplies as a row of targets.def does: mma.sync's fragments, and PTX of its own.
struct OwnRow {
    std::string text;  ///< instruction.h
    std::string name;
    MmaRow row;
};

/// One kernel instance (body = programs of a grid) or expression function (host statements; results through `ret`).
class Function {
public:
    explicit Function(TypeTable& types) : types_(&types) {}
    std::string name;
    Span span;  ///< of the name where the kernel is declared; of expressions and IR text: none
    bool is_kernel = true;
    std::vector<Param> params;
    std::vector<Hint> hints;                    ///< kernel attributes and schedule clause
    std::vector<std::vector<Hint>> loop_hints;  ///< indexed by the `attrs` attribute of loops; entry 0 is empty
    std::span<const Hint> hints_of(const Inst& loop) const;
    std::vector<std::string> strings;           ///< texts of print, assert and instructions
    std::vector<OwnRow> own_rows;               ///< instructions of the program that products may take
    BlockId body;
    std::optional<GpuForm> gpu;                 ///< after the GPU passes

    /// After the GPU passes: where a value lives, and what was decided for an instruction.
    const Placement& placement(ValueId v) const { return gpu->placements[gpu->of_value[v.v]]; }
    const GpuInst& gpu_inst(InstId i) const { return gpu->of_inst[i.v]; }
    /// Is its result the operand's memory, read in another order? A VIEW of a tile in shared memory is, one of registers gives registers of its own.
    bool is_view(const Inst& i) const { return has_trait(i.op, VIEW) && placement(result(i)).kind == Placement::shared; }
    /// What `v` is a view of, through any number of them; `v` itself where it is none.
    ValueId viewed(ValueId v) const {
        for (const Inst* i = def(v); i && is_view(*i); i = def(v)) v = operands(*i)[0];
        return v;
    }
    /// Rows of products: those of targets.def, then the function's own.
    int row_count() const { return static_cast<int>(mma_rows().size() + own_rows.size()); }
    bool is_own_row(int row) const { return static_cast<size_t>(row) >= mma_rows().size(); }
    const OwnRow& own_row(int row) const { return own_rows[static_cast<size_t>(row) - mma_rows().size()]; }
    const MmaRow& row(int number) const { return is_own_row(number) ? own_row(number).row : mma_rows()[static_cast<size_t>(number)]; }
    std::string row_name(int number) const { return is_own_row(number) ? own_row(number).name : row(number).name; }

    TypeTable& types() const { return *types_; }
    const Inst& inst(InstId id) const { return insts_[id.v]; }
    Inst& inst(InstId id) { return insts_[id.v]; }
    const Value& value(ValueId id) const { return values_[id.v]; }
    Value& value(ValueId id) { return values_[id.v]; }
    const Block& block(BlockId id) const { return blocks_[id.v]; }
    Block& block(BlockId id) { return blocks_[id.v]; }
    size_t inst_count() const { return insts_.size(); }
    size_t value_count() const { return values_.size(); }
    size_t block_count() const { return blocks_.size(); }

    std::span<const ValueId> operands(const Inst& i) const { return {operand_pool.data() + i.operands.begin, i.operands.count}; }
    std::span<ValueId> operands(const Inst& i) { return {operand_pool.data() + i.operands.begin, i.operands.count}; }
    std::span<const int64_t> attrs(const Inst& i) const { return {attr_pool.data() + i.attrs.begin, i.attrs.count}; }
    std::span<const BlockId> blocks(const Inst& i) const { return {block_pool.data() + i.blocks.begin, i.blocks.count}; }
    ValueId result(const Inst& i, uint32_t n = 0) const { return ValueId{i.results.begin + n}; }
    ValueId result(InstId i, uint32_t n = 0) const { return result(inst(i), n); }
    TypeId type_of(ValueId v) const { return values_[v.v].type; }
    const Type& type(ValueId v) const { return types_->type(type_of(v)); }
    const Format& elem(ValueId v) const { return types_->format(type(v).elem); }
    /// The defining instruction, or null for block arguments.
    const Inst* def(ValueId v) const { return values_[v.v].def.valid() ? &insts_[values_[v.v].def.v] : nullptr; }
    /// What an access asks of caches; nothing where it is none.
    Caching caching(const Inst& i) const { return may_ask_caches(i.op) ? Caching::of(attrs(i)[0]) : Caching(); }
    /// The Access of load, store, atomic, extract or deposit, decoded from attributes.
    Access access(const Inst& i) const;

    /// Calls `visit(InstId)` for every instruction of `block` in program order: each before those of its own blocks. The visitor may make instructions and
    /// change the visited one, but no list of a block.
    template <class Visit>
    void walk(BlockId block, const Visit& visit) const {
        for (const InstId id : blocks_[block.v].insts) {
            visit(id);
            const Range owned = insts_[id.v].blocks;
            for (uint32_t b = 0; b < owned.count; ++b) walk(block_pool[owned.begin + b], visit);
        }
    }
    /// The same for the whole function.
    template <class Visit>
    void walk(const Visit& visit) const {
        walk(body, visit);
    }

    BlockId add_block(InstId owner = {});
    ValueId add_arg(BlockId block, TypeId type);
    /// Makes an instruction and its results; it is in no block until placed.
    InstId make(Op op, std::span<const ValueId> operands, std::span<const TypeId> results, std::span<const int64_t> attrs = {}, Span span = {},
                std::span<const BlockId> blocks = {});
    void append(BlockId block, InstId inst);
    void insert_before(InstId where, InstId inst);
    void set_operands(InstId inst, std::span<const ValueId> operands);
    void set_attrs(InstId inst, std::span<const int64_t> attrs);
    /// Every use of `from` (in any live instruction) becomes `to`.
    void replace_uses(ValueId from, ValueId to);
    /// Takes instructions for which `dead` holds out of their blocks (their ids stay, unused).
    void remove_if(const std::vector<bool>& dead);
    uint32_t add_string(std::string text);

    std::vector<ValueId> operand_pool;
    std::vector<int64_t> attr_pool;
    std::vector<BlockId> block_pool;

private:
    TypeTable* types_;
    std::vector<Inst> insts_;
    std::vector<Value> values_;
    std::vector<Block> blocks_;
};

/// The row that computes a product, after the choice.
inline const MmaRow& product_row(const Function& fn, InstId dot) { return fn.row(fn.gpu_inst(dot).row); }

/// Elements of K that share one pair of scales in a dot_scaled whose blocks nest; 0 where they do not.
int64_t scale_stretch(const Function& fn, const Inst& dot_scaled);

/// Convenience for producers: appends to a current block, infers result types. Type errors are TEGULA_CHECKs: callers (sema, passes) have
/// checked already. On request single elements that are known become constants at once (evaluate.h), equal ones the same wherever they were
/// made: for functions that never run.
class Builder {
public:
    Builder(Function& fn, BlockId at, bool folds = false) : fn_(&fn), block_(at), folds_(folds) {}
    bool folds() const { return folds_; }
    Function& fn() const { return *fn_; }
    BlockId block() const { return block_; }
    void set_block(BlockId b) { block_ = b; }
    void set_span(Span s) { span_ = s; }
    Span span() const { return span_; }

    InstId emit(Op op, std::span<const ValueId> operands, std::span<const TypeId> results, std::span<const int64_t> attrs = {},
                std::span<const BlockId> blocks = {});
    ValueId value(Op op, std::initializer_list<ValueId> operands, TypeId result, std::initializer_list<int64_t> attrs = {});
    ValueId constant(TypeId type, uint64_t code);            ///< splat
    ValueId index(int64_t v);                                ///< scalar i64
    ValueId elementwise(Op op, std::initializer_list<ValueId> operands);  ///< same shapes; result type by the row
    ValueId broadcast(ValueId v, const Shape& shape);        ///< identity when already there
    ValueId reshape(ValueId v, const Shape& shape);
    ValueId permute(ValueId v, std::span<const int64_t> axes);
    ValueId cast(ValueId v, FormatId to, Round round = Round::rne, Overflow overflow = Overflow::automatic);
    ValueId bitcast(ValueId v, FormatId to);
    ValueId select(ValueId c, ValueId a, ValueId b);
    ValueId iota(FormatId elem, const Shape& shape, int axis);
    ValueId reduce(ValueId v, ReduceKind kind, int axis, bool chain, FormatId result);
    ValueId dot(ValueId a, ValueId b, ValueId acc, Precision precision);

private:
    std::optional<uint64_t> folded(Op op, std::span<const ValueId> operands, TypeId result, std::span<const int64_t> attrs) const;

    Function* fn_;
    BlockId block_;
    Span span_;
    bool folds_;
    std::map<std::pair<uint32_t, uint64_t>, ValueId> constants_;  ///< scalars, by type and code, where `folds_`
};

}  // namespace tegula::ir
