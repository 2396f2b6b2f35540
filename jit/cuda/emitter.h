// Tile IR with a GpuForm -> CUDA C++ text that a person can read. One member function per structured op, declared from the op table (a forgotten one
// fails to link by name); elementwise ops and conversions are expressions from prelude.h. Tiles are arrays of registers, `v12[r]`, in the
// register order of their layout; scalars are plain variables, equal in all threads of the group. User text appears only as sanitised
// identifiers and in #line directives.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jit/cuda/kernel_text.h"
#include "jit/cuda/prelude.h"
#include "jit/cuda/text.h"
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
#include "lang/kernel/expr.h"
#include "lang/layout.h"
#include "lang/source.h"
#include "lang/target.h"
#include "lang/uses.h"

namespace tegula::cuda {

// ---- emit_residency.cpp ----
bool has_constant_indices(const ir::Function& fn, const ir::Inst& load);  ///< its elements are the same in all programs: they come from caches

struct AsmRegister;
struct AsmFunction;

class Emitter {
public:
    Emitter(const ir::Function& fn, const SourceMap* sources);
    KernelText run();

private:
    // ---- text (emit_text.cpp) ----
    void line(const std::string& text);  ///< one line at the current depth
    void open(const std::string& head);  ///< "head {"
    void close(const std::string& tail = "}");
    std::string fresh(const std::string& stem);  ///< unused identifier
    void mark(Span span);                        ///< #line, when the line changes
    void unroll(int64_t iterations);             ///< "#pragma unroll" up to unroll_limit_ iterations, else "#pragma unroll 1"
    /// Text before the kernel (functions, tables), once per key; a "$" in it stands for the name that is returned.
    std::string support(const std::string& key, const std::string& stem, const std::string& text);

    // ---- values (emit.cpp) ----
    const TileLayout& layout(ir::ValueId v) const;  ///< of a tile in registers
    bool in_registers(ir::ValueId v) const;
    bool is_scalar(ir::ValueId v) const;                  ///< rank 0: a plain variable
    int registers(ir::ValueId v) const;                   ///< 1 for scalars, 0 in tensor memory
    std::vector<int> all_registers(ir::ValueId v) const;  ///< 0, 1, ..
    int group_threads() const;                            ///< threads that hold tiles; the variable `t` is the number of a thread among them
    std::string type_of(ir::ValueId v);                   ///< C type of one element (pointers: unsigned long long, see bit_addressed)
    /// Identifier of a value. A tile in shared memory: an `unsigned char*` to the first byte of its SharedLayout (views: the same pointer).
    std::string name(ir::ValueId v);
    std::string at(ir::ValueId v, Ex r);                  ///< "v12[r]", or the scalar; an expression for constants, to be read only
    Ex element_at(ir::ValueId v, Ex r);                   ///< the same as an expression; integers of 32 and 64 bits and conditions with their type
    std::string zero(ir::ValueId v);                      ///< literal of the element with code 0
    void declare(ir::ValueId v);                          ///< "float v12[8];"; nothing after take_over
    std::string declaration(ir::ValueId v);               ///< of a value with registers of its own
    std::string array_type(ir::ValueId v);                ///< of the elements of its array: words and pairs are unsigned
    int array_size(ir::ValueId v) const;
    int uses(ir::ValueId v) const { return static_cast<int>(uses_.count(v)); }  ///< by operands
    /// Lets `result` live in the registers of `operand` when nothing else uses that one: declare(result) then does nothing. Both have one layout.
    bool take_over(ir::ValueId result, ir::ValueId operand);
    /// `for` over the registers of v with an explicit unroll pragma; the body gets the index. Scalars: once, the empty index.
    void each_register(ir::ValueId v, const std::function<void(Ex r)>& body);
    void each(int count, const std::function<void(Ex r)>& body);  ///< 0 .. count - 1

    // ---- layouts (emit_layout.cpp) ----
    /// Name of the struct that describes a layout: registers; at0(r, t), at1(r, t) .. coordinates; inside(r, t); owner(t). t: thread in the group.
    /// at<d> = register<d>(r) + thread<d>(t) when additive(l, d), so that sums with a hoisted thread part fold.
    std::string layout_name(const TileLayout& l);
    bool additive(const TileLayout& l, int d) const;
    /// Of register `r`, of thread t, and of both.
    Ex register_part(const TileLayout& l, int d, Ex r);
    Ex thread_part(const TileLayout& l, int d) { return thread_part(l, d, thread_); }
    static Ex thread_part(const TileLayout& l, int d, Ex t);
    Ex coordinate(const TileLayout& l, int d, Ex r);
    /// Row-major element number of register r in the *padded* / *logical* shape.
    Ex padded_number(const TileLayout& l, Ex r);
    Ex logical_number(const TileLayout& l, Ex r);
    Ex owns(const TileLayout& l, Ex r);    ///< holds for one thread among those with copies of register r, and not for ghosts
    Ex inside(const TileLayout& l, Ex r);  ///< no ghost
    /// map[r] as an expression that folds once r is a constant.
    Ex rename(const std::vector<int>& map, Ex r);

    // ---- scratch and barriers (emit.cpp) ----
    void sync();  ///< all threads of the group meet
    /// "((float*)(shared + 1024))" for the instruction's scratch, elements of `type`; checks that `bytes` fit the annotation.
    std::string scratch(ir::InstId inst, const std::string& type, int64_t bytes);

    // ---- memory (emit_memory.cpp, emit_address.cpp) ----
    /// Of a tensor parameter's element at coordinates (i64): a bit offset for sub-byte formats, an element offset otherwise (u64).
    Ex offset(ir::ValueId tensor, const std::vector<Ex>& coordinates);
    Ex extent(ir::ValueId tensor, int d);                      ///< i64: parameter or constant
    Ex stride(ir::ValueId tensor, int d);                      ///< i64 of an affine tensor, see KernelParam::stride
    Ex pitch(ir::ValueId tensor, int member, bool innermost);  ///< i64, of a layout by expressions
    Ex int64(int64_t v) { return pool_.constant(kernel::Type::i64, v); }
    Ex int32(const std::string& name) { return pool_.name(kernel::Type::i32, name); }  ///< a variable
    bool affine(ir::ValueId tensor) const;                        ///< row, col or the host's strides
    int contiguous_dimension(ir::ValueId tensor) const;           ///< of stride 1 whatever the launch; -1: none
    int param_number(ir::ValueId v) const;
    std::string parameter(KernelParam::Kind kind, int param, int dim, const std::string& type,
                          const std::string& stem);  ///< its name; added on first use
    Ex layout_value(const LayoutExpr& e, ir::ValueId tensor, const std::vector<Ex>& coordinates);  ///< i64
    Ex opaque(Ex integer);                                                                         ///< Prelude::opaque
    int magnitude(ir::ValueId v, int depth = 0);  ///< bits that hold every |value| of an i64 scalar; 64: unknown
    int magnitude_anew(const ir::Inst& def, int depth);
    int reach(ir::ValueId v, int depth = 0);  ///< bits that hold every positive value

    struct Part;                      ///< one load, store or atomic of a tensor while it is emitted (emit_access.h)
    Part part_access(ir::InstId id);  ///< without the variables that part_of declares
    Part part_of(ir::InstId id);
    void part_axis(Part& part, size_t axis);
    Ex is_whole(const Part& part, size_t number);  ///< a range leaves the tensor nowhere
    void part_bounds(Part& part, size_t axis);
    Shape joint_shape(const Part& part);
    Ex joint_number(const Part& part, Ex r);
    Ex joint_index(const Part& part, size_t axis, Ex j);
    void part_last(Part& part);
    void part_base(Part& part);
    bool part_pieces(Part& part);
    /// Of the indices that access_pieces speaks of: starts, then what thread `t` adds, then what register `r` does (if there is one).
    std::vector<Ex> piece_indices(const Part& part, Ex t, Ex r = {});
    void find_carried_loads();
    struct WordRing;
    void find_word_rings();
    bool plan_ring(WordRing& ring);
    int64_t member_bits(ir::ValueId tensor, size_t member, size_t members);
    void issue_words(const WordRing& ring, const std::string& stage);
    bool start_ring(ir::InstId load);
    void take_words(ir::InstId load);
    void declare_walk(ir::InstId load);
    Ex declare_base(ir::InstId access, Ex sum, Ex grows);
    Ex piece_growth(ir::InstId access, std::span<const LayoutPieces> members, std::span<const Ex> pitches);
    void part_vector(Part& part);
    Ex part_index(const Part& part, size_t axis, Ex r);
    Ex part_condition(const Part& part, Ex r, bool checked, int except = -1);
    Ex part_offset(const Part& part, Ex r);
    void load_element(const Part& part, Ex r, const std::string& to, bool checked);
    void load_elements(const Part& part, const std::string& to, bool checked);
    bool has_one_path(const Part& part) const;  ///< the same vectors in tiles inside and at the edge
    static bool is_whole(const Part& part);     ///< vectors without conditions
    static bool is_vectors(const Part& part);   ///< vectors, at the edge under a condition or in part
    bool stores_vectors(ir::InstId id);         ///< is it a store that is that?
    std::string load_vector(const Part& part, Ex r, bool checked, const std::string& otherwise);
    void load_vectors(const Part& part, const std::string& wide, bool checked);
    void load_wide(const Part& part);
    void load_shifted(const Part& part, const std::string& wide);
    void store_shifted(const Part& part);
    std::string funnel();
    void store_elements(const Part& part, bool checked);
    std::string stored_vector(const Part& part, Ex r);  ///< a declared array
    void store_vector(const Part& part, Ex r, const std::string& wide, bool checked);
    void store_vectors(const Part& part, bool checked);
    void by_vectors(const Part& part, const std::function<void(Ex r)>& body);
    Ex group_inside(const Part& part, int first, int count);
    Ex any_group_inside(const Part& part, Ex first);
    void by_groups_in_loop(const Part& part, bool checked, bool groups, const std::function<void(Ex r, bool bounds)>& body);
    void by_groups(const Part& part, bool checked, const std::function<void(Ex r, bool bounds)>& body);
    std::string other_text(const Part& part, Ex r);
    Ex first_bytes(const Part& part, Ex r);
    /// (from[, inside, otherwise]) or (to, value[, inside]) of a C type, "uint2" or "uint4" (emit_access.cpp).
    std::string access_function(const std::string& type, bool load, bool conditional, const CachingText& caching = {});
    /// (from, bytes) or (to, value, bytes): the first bytes of an aligned vector of 8 or 16 bytes.
    std::string first_function(size_t bytes, size_t element, bool load, const CachingText& caching = {});
    std::string read(const Format& f, const std::string& base, const std::string& offset, const CachingText& caching = {});
    std::string write(const Format& f, const std::string& base, const std::string& offset, const std::string& value, const CachingText& caching = {});

    // ---- narrow codes in whole words (emit_packed.cpp) ----
    struct Words {
        PackedView view;
        bool only;               ///< nothing else holds the tile
        Ex moved = {};           ///< of a load: how many bits further than the view says the codes of this thread lie
        bool loaded = false;     ///< words stay as they are loaded, and what decodes them knows how far their codes lie in each thread
    };
    void find_words();
    bool is_words(ir::ValueId v) const;
    std::string words_name(ir::ValueId v);
    std::string field(ir::ValueId v, Ex r);
    std::vector<Ex> member_pitches(ir::ValueId tensor, size_t members);
    Ex whole_periods(const PackedView& view, Ex thread, Ex& shift);
    std::string storage_bytes(ir::ValueId tensor);
    bool load_words(ir::InstId id);  ///< false: it is no such load
    void load_all_words(const Part& part, const PackedView& view, const std::string& array, const std::function<Ex(const PackedView::Load&)>& offset,
                        bool guarded);
    void clear_outside(const Part& part, const PackedView& view, const std::string& array, Ex moved);
    std::vector<std::string> inside_masks(const Part& part, const PackedView& view, size_t number_of_axis, std::set<std::string>& solid);
    void move_masks(const PackedView& view, std::vector<std::string>& masks, const std::set<std::string>& solid, const std::string& by);
    void keep_inside(const PackedView& view, const std::string& array, int w, const std::string& mask);
    void find_unshifted();
    Ex moved_bits(ir::ValueId v);
    void shift_words(const PackedView& view, const std::string& from, const std::string& to, Ex shift);
    bool can_decode(const ir::Inst& cast);
    const Decoding& decoding(const ir::Inst& cast);  ///< no calls: not this way
    void place_pair_table();
    void fill_pair_table();
    std::string decode_function(const DecodePlan& plan);
    void decode_words(const ir::Inst& cast, const std::function<std::string(int pair)>& to);

    // ---- 16-bit floats in pairs (emit_pairs.cpp) ----
    void find_pairs();
    bool is_pairs(ir::ValueId v) const { return pairs_[v.v]; }
    bool is_quads(ir::ValueId v) const { return quads_[v.v]; }
    std::string part_of_word(const std::string& words, int per, Ex r, const Format& f);
    std::vector<int> moved_pairs(ir::InstId id) const;
    bool make_pairs(ir::InstId id);              ///< false: it makes none
    bool decode_elements(const ir::Inst& cast);  ///< the same
    std::string fragment_word(ir::ValueId v, Ex first);  ///< 32 bits of consecutive registers of a product's operand
    std::string pair_at(ir::ValueId v, Ex first);        ///< the word of registers first (even) and first + 1

    // ---- what accesses ask of caches (emit_caching.cpp) ----
    CachingText plain_caching(ir::InstId access);  ///< of ld and st
    std::string policy(ir::Evict order);           ///< expression: a policy for the second cache
    /// copy_async<width> as the put asks for it.
    std::string copy_function(ir::InstId put);
    enum class Bulk { load, multicast, store };
    /// tma_load, tma_multicast or tma_store, as the access of so many dimensions asks for it.
    std::string bulk_function(ir::InstId access, Bulk kind, size_t rank);

    // ---- atomics (emit_atomic.cpp) ----
    std::string atomic_function(const Format& f, ir::AtomicKind kind, ir::MemoryScope scope);
    void atomic_fences(ir::InstId id, bool before);
    void atomic_elements(ir::InstId id, const std::string& function, const std::function<Ex(Ex r)>& condition,
                         const std::function<std::vector<std::string>(Ex r)>& operands);

    // ---- pointers (emit_pointer.cpp) ----
    std::string pointee(const Format& f, const std::string& pointer);
    std::vector<std::string> stage_lanes(ir::InstId id);  ///< stage_operands, and a meeting if there were any

    // ---- control (emit_control.cpp) ----
    std::vector<std::string> declare_all(std::span<const ir::ValueId> values);
    void block(ir::BlockId id);
    bool turns_words(const ir::Inst& loop);
    struct LoopText {
        std::string start, test, next;  ///< of a for statement, in whose body `counter` declares the counter unless `start` does
        std::string counter;
    };
    LoopText count_trips(const ir::Inst& loop);
    void for_loop_text(ir::InstId loop);
    void trip(ir::BlockId body);
    // Loops with products that run into the next trip (emit_late.cpp).
    std::vector<std::string> other_places(const ir::Inst& loop, const std::vector<std::string>& places);
    void late_loop(ir::InstId loop, const LoopText& text);
    /// Where the `yield` (or the values of the `condition`) that ends a block puts its values; without an entry a yield emits nothing and its owner
    /// reads the operands.
    void set_targets(ir::BlockId block, std::vector<std::string> names) { targets_[block.v] = std::move(names); }
    void copy_all(std::span<const ir::ValueId> from, const std::vector<std::string>& to);  ///< at once, through temporaries where they overlap
    void copy(ir::ValueId from, const std::string& to);
    /// "const float v3 = ..;" for a scalar, declaration and loop for a tile, with its neighbours where that can be (emit_fuse.cpp).
    void assign(ir::ValueId result, const std::function<std::string(Ex r)>& value);

    // ---- elementwise tiles in one loop (emit_fuse.cpp) ----
    /// A tile of the pending loop. Every other line ends the loop first.
    struct Fused {
        ir::ValueId value;
        std::string mark, text;  ///< #line, and the element
        int uses = 0;            ///< by operands of later tiles of the loop
        bool read = false;       ///< by the tile that is joining it
        int vector = 1;          ///< of a load: elements that one access takes
        /// Of a load: the vector that starts at register r.
        std::function<std::string(Ex r)> load = {};
    };
    void fuse(ir::ValueId result, const std::function<std::string(Ex r)>& value);
    void fused_group(const std::vector<Fused>& all, Ex first, int count, const Part* store);
    void fused_elements(const std::vector<Fused>& all);
    bool may_join(ir::InstId id);
    Part part_ahead(ir::InstId id);
    bool join_load(ir::InstId id);   ///< false: it is to be emitted by itself
    bool join_store(ir::InstId id);  ///< false: so is that
    void end_fused(const Part* store = nullptr);
    bool chosen_by_floats(const ir::Inst& select);
    Fused* fused(ir::ValueId v);
    std::optional<std::string> fused_at(ir::ValueId v, Ex r);
    std::optional<ir::ValueId> splat(ir::ValueId v) const;  ///< a broadcast scalar that needs no registers

    // ---- instructions that programs declare (emit_instruction.cpp) ----
    AsmFunction asm_function(const Instruction& i, std::string_view ptx, std::span<const ir::ValueId> values, std::span<const PtxRegisters> registers);
    std::string to_asm(const AsmRegister& r, ir::ValueId v, const std::function<std::string(int)>& element);
    std::string from_asm(const AsmRegister& r, ir::ValueId v, int i, const std::string& from);
    void call_instruction(ir::InstId id);
    void note_instruction(const std::string& name);
    /// The asm statement of a product on the arrays a, b and d of mma_function, k registers from `k` on.
    std::string own_statement(const ir::OwnRow& own, int k, const std::string& indent);

    // ---- tiles through scratch (emit_scratch.cpp) ----
    /// Declares a pointer to an area of the instruction's scratch and gives its name.
    std::string scratch_area(ir::InstId id, const std::string& type, int64_t offset);
    /// Writes a tile's elements to row-major scratch, each by one thread; `value` makes the stored text from the element's.
    void stage(ir::ValueId v, const std::string& pointer, const std::function<std::string(const std::string& element)>& value = {});
    /// Stages what scratch_plan says, each operand in its own type; pointers by operand ("": read from registers).
    std::vector<std::string> stage_operands(ir::InstId id);
    /// Element `number` (row-major) of a staged operand, or its register r where it lies like `of`, whose register r asks for it.
    Ex staged(ir::ValueId v, const std::string& pointer, ir::ValueId of, Ex r, Ex number);
    /// result[r] = value(r), zero for ghosts; `value` may use the thread's coordinates.
    void fill(ir::ValueId result, const std::function<std::string(Ex r)>& value);
    /// "for (int e = t; e < n; e += threads)"; ends with close().
    void open_elements(const std::string& e, int64_t n);
    /// Coordinates in `shape` of a row-major number, and back.
    static std::vector<Ex> coordinates_in(const Shape& shape, Ex number);
    Ex number_of(const Shape& shape, const std::vector<Ex>& coordinates);
    std::vector<Ex> coordinates_of(ir::ValueId v, Ex r);  ///< of a tile's register; none for scalars
    Ex number_at(ir::ValueId v, Ex r);                    ///< logical number, 0 for scalars
    Ex stores(ir::ValueId v, Ex r);                       ///< is this the one thread that stores the register, or the scalar?
    Ex is_real(ir::ValueId v, Ex r);                      ///< no ghost
    void line_if(Ex condition, const std::string& statement);
    static std::string chosen(Ex condition, const std::string& yes, const std::string& no);  ///< "condition ? yes : no", or what is known
    /// Calls body for each of the registers: a loop where their numbers are evenly spaced.
    void each_of(const std::vector<int>& registers, const std::function<void(Ex r)>& body);
    void assign_to(ir::ValueId v, Ex r, const std::string& value);  ///< of a declared value

    // ---- moving tiles (emit_convert.cpp, emit_exchange.cpp, emit_shared.cpp, emit_shape.cpp) ----
    void exchange(ir::InstId id);
    void exchange_side(const TileLayout& l, const struct ExchangeText& e, const std::string& tile, bool write);
    void shuffle(ir::InstId id, const Conversion& c);
    std::string exchanged(const Conversion& c, const std::string& from, const std::string& type, int given_count, int count);
    std::string selected(const std::string& tile, const std::string& type, int count, std::span<const int> by_bit);
    void to_shared(ir::InstId id);
    void from_shared(ir::InstId id);
    void between_shared(ir::InstId id);
    Ex shared_address(const SharedLayout& l, const std::vector<Ex>& coordinates);  ///< bytes, i32
    void move_registers(ir::InstId id);
    void move_through_scratch(ir::InstId id, const std::function<Ex(Ex r)>& number);
    bool view_or_trivial(ir::InstId id);

    // ---- parts of tiles (emit_index.cpp) ----
    struct TilePart;
    TilePart tile_part(const ir::AccessOperands& in, ir::ValueId part, const std::vector<std::string>& pointers);
    Ex place_in_tile(const TilePart& part, Ex r, Ex& condition);

    // ---- reductions (emit_reduce.cpp, emit_joined.cpp, emit_arg_reduce.cpp, emit_scan.cpp, emit_region.cpp) ----
    /// Arrays of registers that are reduced together.
    struct Joined {
        std::vector<std::string> names, types;
        /// Statement(s) that join the elements `b` into the elements `a`, by array.
        std::function<void(const std::vector<std::string>& a, const std::vector<std::string>& b)> join;
    };
    void reduce_joined(ir::InstId id, const ReducePlan& plan, const Joined& joined);
    void join_digits(const ReducePlan::Step& step, const Joined& joined);
    void join_lanes(const ReducePlan::Step& step, const Joined& joined);
    void join_warps(ir::InstId id, const ReducePlan::Step& step, const Joined& joined);
    void join_spread(ir::InstId id, const ReducePlan::Step& step, const Joined& joined);
    void each_row(const ReducePlan::Step& step, const std::function<void(Ex r, Ex row)>& body);
    std::vector<std::string> write_partials(ir::InstId id, const ReducePlan::Step& step, const Joined& joined);
    std::vector<std::string> join_parts(const std::vector<std::string>& areas, const std::string& base, const ReducePlan::Step& step,
                                        const Joined& joined);
    std::vector<std::string> from_lane(const std::vector<std::string>& sent, int mask, const Joined& joined);
    void reduce_direct(ir::InstId id, const ReducePlan& plan);
    std::string pair_joining(ir::InstId id, const ReducePlan& plan);
    ReducePlan joined_pairs(ir::InstId id, const ReducePlan& plan, const std::string& function, const Joined& joined);
    std::string line_start(const Axis& lines, ir::ValueId to, Ex r);  ///< a variable: where the line of a result begins; ghosts: 0
    Ex is_element(const TileLayout& l, int64_t axis, Ex r);           ///< no ghost along the axis, or of all
    void reduce_chain(ir::InstId id);
    void reduce_tree(ir::InstId id);
    void arg_reduce_direct(ir::InstId id, const ReducePlan& plan);
    void arg_reduce_staged(ir::InstId id);
    std::string order_key(const Format& f, bool nan_first);  ///< name of a function: element -> unsigned key in the order of values
    std::string key_type(const Format& f);
    std::string to_result(ir::ValueId result, ir::ValueId operand, const std::string& element);  ///< one rounding, if the formats differ
    void contract_direct(ir::InstId id);
    void sort_network(int64_t width, int64_t columns, const std::string& keys, const std::string& order, const std::string& type);
    void region_body(ir::BlockId block, const std::vector<std::string>& arguments, const std::vector<std::string>& results);
    void region_loop(const std::string& count, bool together, const std::function<void(const std::string& e, const std::string& keeps)>& body);
    void region_step(ir::BlockId body, std::span<const ir::ValueId> tiles, const std::vector<std::string>& left,
                     const std::vector<std::string>& right, const std::vector<std::string>& to, const std::string& keeps);

    // ---- products without tensor cores (emit_dot.cpp, emit_dot_scaled.cpp) ----
    void thread_product(ir::InstId id);
    std::string dp4a_function(const MmaRow& row);
    std::string factor(ir::ValueId v, const Format& to, bool tf32, const std::string& element);  ///< as the chain takes it
    /// Rows or columns [first, first + slab) of an operand along dimension `k`, laid out [batch, slab / per, the other dimension, per]; with per > 1
    /// zeros follow the last ones.
    void stage_slab(ir::ValueId v, const std::string& pointer, size_t k, const std::string& first, int64_t slab, int per,
                    const std::function<std::string(const std::string&)>& value);
    Ex clamped(ir::ValueId v, size_t d, Ex r);  ///< a coordinate; ghosts stand on the last element
    void scaled_fma_product(ir::InstId id);
    struct ScaleSide {           ///< of rows or columns
        std::string array = {};  ///< as f32: in scratch [blocks, M or N]; in registers; empty: ones
        int64_t block = 0;       ///< elements of K
        std::vector<int> own;    ///< in registers: by register of the result, the one of the first block, which others follow; scratch: none
    };
    using BlockScales = std::array<ScaleSide, 2>;
    BlockScales stage_scales(ir::InstId dot_scaled);  ///< all meet behind it where they go through scratch
    /// The given registers of the result: fma(sum[i], a_scale * b_scale, registers[i]), with the scales at element `k` of K. Sums are floats, or
    /// integers of instructions that multiply codes.
    void add_scaled(ir::InstId dot_scaled, const BlockScales& scales, Ex k, const std::string& sum, const std::vector<int>& registers);
    bool takes_codes(Fmt instruction, ir::ValueId operand) const;  ///< as they are

    // ---- effects (emit_effect.cpp) ----
    std::string report();  ///< the report buffer parameter
    std::string code_text(ir::ValueId v, const std::string& element);

    // ---- products on tensor cores (emit_mma.cpp, emit_wgmma.cpp) ----
    struct WarpGroups;                  ///< one wgmma product while it is emitted
    struct WarpGroupsPart;              ///< what one statement adds of it
    void mma_product(ir::InstId id);    ///< a product whose row is mma.sync
    void wgmma_product(ir::InstId id);  ///< a product whose row is wgmma
    /// The result's registers, holding the accumulator: in place where it dies here. `from_zero`, if given, is set and the registers are left alone
    /// when the accumulator is a zero constant.
    void accumulate_in(ir::ValueId result, ir::ValueId acc, bool* from_zero);
    std::string mma_function(const MmaRow& row, const std::string& type, const ir::OwnRow* own);
    /// Packs `count` 32-bit registers from element register `start` on; k_extent >= 0: elements beyond it along K are zero.
    void mma_fragment(ir::ValueId v, const std::string& to, int count, Ex start, int64_t k_extent, bool k_last);
    /// Is this `convert` of a shared tile to registers left to the one mma product that takes it, which loads fragments as it goes (ldmatrix)?
    bool loaded_by_product(ir::InstId convert) const;
    struct FragmentSource;  ///< an operand of an mma product: registers or shared memory
    FragmentSource fragment_source(ir::ValueId operand, bool is_a);
    std::string ldmatrix_lane(const FragmentSource& from, Ex across);
    Ex ldmatrix_address(const FragmentSource& from, Ex across, Ex k);
    // Sums that a loop keeps in registers with names of their own (emit_sum.cpp).
    bool kept_sum(const ir::Inst& loop, size_t carried) const;
    void enter_sum(ir::ValueId initial, ir::ValueId carried, ir::ValueId result);
    void leave_sum(ir::ValueId result);
    bool stored_as_sum(ir::ValueId result) const;  ///< left to the bulk store that rounds it
    void wgmma_issue(const WarpGroups& w, const WarpGroupsPart& p, std::string& text) const;
    void wgmma_run(const WarpGroups& w, const std::string& to, const WarpGroupsPart& p);
    int part_registers(const WarpGroups& w) const;
    std::vector<WarpGroupsPart> wgmma_cut(const WarpGroups& w, int64_t size, int most) const;
    using AddPart = std::function<void(const std::string& part, const std::vector<int>& registers, int64_t k)>;
    void wgmma_parts(WarpGroups& w, ir::InstId id, int64_t size, const std::function<void()>& meanwhile, const AddPart& add);
    void wgmma_scaled(WarpGroups& w, ir::InstId id);
    void wgmma_promoted(WarpGroups& w, ir::InstId id);
    void release_early(ir::InstId product);
    void wgmma_fragments(WarpGroups& w);
    void wgmma_hold(WarpGroups& w, const std::string& registers);
    std::string held_factor(const WarpGroups& w, ir::InstId product);  ///< (emit_late.cpp)
    void wgmma_descriptors(WarpGroups& w);
    std::string word_of(const std::array<std::string, 4>& bytes);
    std::string packed(const std::string& array, const Format& f, Ex first);  ///< 32 bits of consecutive registers

    // ---- products in tensor memory (emit_tcgen05.cpp) ----
    void take_tensor_memory();  ///< at the program's start, if it needs any
    void give_tensor_memory();  ///< where all threads of the group have met and will not use it any more
    void end_tensor_memory();   ///< at the program's end
    void end_meetings();        ///< at the program's end
    void wait_for_products();   ///< all threads meet there, too
    void tcgen05_product(ir::InstId id);
    void from_tensor_memory(ir::InstId id);
    void to_tensor_memory(ir::InstId id);
    void each_tensor_run(const TileLayout& l, const TensorLayout& place, const std::function<void(Ex r, const std::string& at)>& body);
    static int tensor_run(const TileLayout& l);
    std::string tensor_move(const std::string& type, int run, bool load);

    // ---- bulk stores (emit_tma_store.cpp) ----
    struct BulkStore;
    void bulk_store(ir::InstId id);
    std::string bulk_reduction(ir::AtomicKind kind, size_t rank);
    void bulk_addresses(BulkStore& s, ir::InstId id);
    void bulk_box(const BulkStore& s, int64_t row, int64_t column, int64_t slab);
    bool reads_memory(ir::BlockId block, size_t from) const;  ///< does an instruction of the block, from that place on?
    bool is_last_access(ir::InstId store) const;              ///< nothing in the program waits for what it writes

    // ---- channels (emit_channel.cpp, emit_copy.cpp) ----
    struct Ring {  ///< one channel while it is emitted
        const GpuChannel* form = nullptr;
        int64_t pitch = 0;           ///< bytes from stage to stage
        bool paired = false;         ///< every get is released in its block before the next one
        std::string full, empty;     ///< TMA: addresses of the first barriers
        std::string put, put_phase;  ///< stage to be filled next
        std::string get, get_phase;  ///< stage to be taken next
        std::string release;         ///< oldest taken stage, unless paired
        std::string ahead;           ///< threads: stages filled and not yet taken
        int sharers = 1;             ///< programs of a cluster that copy a part of every tile each
        std::string part, mask;      ///< number of this one's, who gets it
        std::string peer_empty;      ///< by lane: address of the first empty barrier of a sharer
    };
    Ring& ring(ir::ValueId channel) { return rings_.at(channel.v); }
    bool always_paired(ir::ValueId channel) const;
    bool touches(ir::InstId region, ir::ValueId channel) const;
    void wait_for_copies(ir::InstId id);
    std::vector<Ex> put_coordinates(ir::InstId id, const SharedLayout& l, Ex row, Ex column);
    Ex put_condition(ir::InstId id, const std::vector<Ex>& coordinates, int except);
    void ring_state(bool producer, bool consumer);  ///< declares the counters of all rings
    void advance(const std::string& stage, const std::string& phase, int stages);
    void give_back(ir::InstId release);  ///< the oldest stage taken
    std::string stage_address(const Ring& ring, const std::string& stage);
    /// C int coordinates of a part's first element, by tensor dimension.
    std::vector<std::string> bulk_start(const ir::Inst& access);
    /// Name of the tensor map that cuts the access's tensor into boxes of `box` elements: contiguous dimension, then across (-1: none).
    std::string bulk_map(const ir::Inst& access, size_t slot, std::array<int, 2> dims, std::array<int64_t, 2> box, int swizzle);
    void tma_put(ir::InstId id, Ring& ring);
    void thread_put(ir::InstId id, Ring& ring);
    // Own rings (emit_own.cpp).
    void own_put(ir::InstId id, const Ring& ring, const std::string& to);
    void own_vectors(const Part& part, bool checked, const std::string& to, const std::string& fill);
    void own_get(ir::InstId id, Ring& ring);
    std::string own_slot(ir::ValueId tile, const std::string& stage, Ex r);
    ir::ValueId taken_from(ir::ValueId channel) const;  ///< the tile that the channel's one get gives
    void shared_put(ir::InstId id, const Ring& ring, const std::string& to);
    void copy_chunks(ir::InstId id, const Ring& ring, const std::string& to);
    void copy_elements(ir::InstId id, const Ring& ring, const std::string& to);
    bool continues(ir::InstId id, bool forward) const;  ///< does the same op on a copied channel stand next to it?

    // ---- clusters (emit_cluster.cpp) ----
    bool clustered() const;
    std::string cluster_rank();           ///< of the program
    std::string cluster_place(int axis);  ///< along a grid axis
    std::string cluster_number();         ///< of its cluster in the launch
    std::string clusters_along(int axis);
    std::string clusters_reciprocal(int axis);                       ///< KernelParam::grid_reciprocal (emit_raster.cpp)
    std::string quotient_by_reciprocal();                            ///< the function that divides by such a number
    std::string over_clusters(const std::string& number, int axis);  ///< the number divided by the clusters along an axis
    void share_ring(Ring& ring);
    void block_in_cluster(ir::BlockId id);

    // ---- instructions ----
    void instruction(ir::InstId id);
    Known known_at(ir::ValueId v, Ex r);
    void elementwise(ir::InstId id);
    // ---- tiles over shared numbers (emit_division.cpp) ----
    void divide_by_shared(ir::InstId id);
    void test_dividends(ir::InstId id, const std::string& moderate);
    std::string bounded_dividends(ir::ValueId dividend, ir::ValueId divisor);
    std::string moderate_dividends(ir::ValueId dividend, const std::string& type);
    bool compare_counts(ir::InstId id);  ///< a comparison of an iota with a scalar (emit_compare.cpp); false: something else
    bool select_by_counts(ir::InstId id);
    void cast_pairs(ir::ValueId to, ir::ValueId from, const std::string& function);
    /// Are infinities of a cast to a wider float infinities there, too?
    bool keeps_infinities(const ir::Inst& cast) const;
    std::string pair_function(const ir::Inst& cast) const;  ///< that rounds two f32 to 16 bits each; empty: none does what the cast does
    bool rounded_by_store(const ir::Inst& cast) const;      ///< is the cast left to the bulk store that alone uses it?
    bool encoded_by_store(ir::ValueId cast);                ///< is it left to the store of vectors right behind it?
    void decode_pairs(ir::ValueId to, ir::ValueId from);
    std::string fp8_function(const ir::Inst& cast);
    std::string two_halves(const Format& from);  ///< function (int, int) -> packed pair
    std::string kernel_head() const;
    /// The place of so many bytes for each of the stages in shared memory, behind all that was taken before.
    int64_t take_shared(const char* use, std::string of, int64_t bytes, int64_t align, int stages = 1);
    /// Programs that should be on a multiprocessor at once, as far as registers go (emit_residency.cpp).
    int find_resident_programs() const;
    void find_arrays();
    void find_unroll_limit();
    int64_t emulation(const ir::Inst& inst) const;
    bool parts(ir::InstId id) const;
    void find_parting();
    void converge();  ///< in front of what whole warps execute together
    std::string scalar_param(int param);
    std::string program_axis(int axis);
    /// The index along `axis` of a program, declared by lines given to `put`. `place`: its number in a grid of plain order.
    std::string index_of_program(const std::string& place, int axis, const std::function<void(const std::string&)>& put);
    // ---- split sums (emit_split.cpp) ----
    void prepare_split();
    std::string split_parts();
    std::string split_sums(size_t k, const std::string& stretch);
    void split_loop(ir::InstId id);
    void split_publish();
    void split_add(const ir::Block& body, const std::vector<std::string>& totals);
    void split_tail(const ir::Block& body, const std::vector<std::string>& totals);

    /// The number of the program at `place` of the launch's order, which may be one that shares operands more (emit_raster.cpp). `scope`: where it
    /// is declared, once, and what it is the number of.
    std::string in_groups(const std::string& place, const std::string& scope, const std::function<void(const std::string&)>& put);
#define STRUCTURED(op, ...) void cuda_##op(ir::InstId id);
#include "lang/ops.def"

    const ir::Function& fn_;
    const SourceMap* sources_;
    kernel::Pool pool_;
    const Ex thread_;  ///< `t`
    Prelude prelude_;
    KernelText kernel_;
    std::string body_, layouts_, prologue_;
    std::string mark_;  ///< #line directive that the next line gets
    int depth_ = 1, loops_ = 0;
    std::map<uint32_t, int> magnitudes_;  ///< by value; sums of themselves would be followed on both sides each
    std::map<std::string, std::string> layout_names_;  ///< text of the layout -> struct name
    std::map<std::string, std::string> support_names_;
    std::map<uint32_t, std::vector<std::string>> targets_;  ///< by BlockId
    std::map<std::string, std::string> param_names_;        ///< key -> name
    std::vector<std::string> param_texts_;
    std::set<std::string> taken_;
    std::vector<std::string> names_;
    std::optional<SplitLoop> split_;  ///< stretches that CTAs of their own run
    int64_t split_shared_ = 0;        ///< of shared memory: how many have come
    std::string split_part_, split_head_;  ///< the number of the stretch; what says which program and stretch this is
    std::map<uint32_t, Ring> rings_;                                 ///< by ValueId of the channel
    std::set<uint32_t> released_;                                    ///< by InstId: channel_release that a product has emitted already
    std::map<std::pair<uint32_t, bool>, std::string> held_factors_;  ///< by InstId of the product and copy of its loop's body
    bool second_copy_ = false;                                       ///< of the body of a loop with late products
    std::string later_trip_;                                         ///< is this one not the first? Empty: it is not
    const OverlappedProducts overlapped_;
    std::string tensor_memory_, products_, product_phase_;  ///< address of the columns; the barrier of products and its parity
    int resident_programs_ = 1;
    int64_t unroll_limit_ = 0;  ///< iterations; a tile with more registers is in local memory, where loops over it need not be unrolled
    bool parts_ = false;        ///< do threads of a warp go different ways for long (find_parting)?
    ir::Uses uses_;
    std::vector<bool> aliased_, array_constant_;
    std::map<uint32_t, std::string> sums_;  ///< by ValueId: what PTX calls the registers that a sum stays in during a loop
    std::map<uint32_t, Words> words_;       ///< by ValueId
    /// A load of the next trip: the sum of its uniform and thread parts is added up.
    struct Walk {
        CarriedLoad load;
        std::string name;  ///< empty: not declared
    };
    std::map<uint32_t, std::shared_ptr<WordRing>> word_rings_;  ///< by ValueId of what the first load and the one in the loop give
    std::map<uint32_t, std::shared_ptr<Walk>> walks_;        ///< by InstId of the first load, and of those in the loop
    std::optional<PairTable> pair_table_;
    bool looks_up_ = false;        ///< in the table of pairs
    int64_t pairs_at_ = 0;         ///< where it lies in dynamic shared memory
    std::string lane_pairs_;       ///< variable of the address of the lane's copies in it
    std::map<uint32_t, Decoding> decodings_;  ///< by ValueId of the cast's result
    std::vector<bool> pairs_, quads_;         ///< by ValueId
    std::vector<Fused> fused_;
    int64_t fused_work_ = 0, fused_emulation_ = 0;
    bool joining_ = false;  ///< is the text of a tile made that joins the pending loop?
    struct Prefix {         ///< a mask that is true for the first counts along an axis
        int axis = 0;
        std::function<std::string(int count)> holds;  ///< text: is it true there, counting from the thread's first element?
    };
    std::map<uint32_t, Prefix> prefixes_;  ///< by ValueId
    int counter_ = 0;
    uint32_t line_ = 0, file_ = 0;
};

}  // namespace tegula::cuda
