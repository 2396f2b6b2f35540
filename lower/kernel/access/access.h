// Accesses to parts of tensors: addresses, conditions, vectors, caches, atomics, pointers.
#pragma once
#include "lower/kernel/lowering.h"

namespace tegula::lower {

/// What an access asks of caches, as text (caching.cpp).
struct CachingText {
    std::string suffix;  ///< behind ld.global or st.global: ".cg.L2::cache_hint"
    std::string policy;  ///< expression of a policy for the second cache; empty: none
    std::string stem;    ///< tells functions apart; empty: nothing is asked
    std::string operand(int number) const { return policy.empty() ? "" : ", %" + std::to_string(number); }
    std::string input() const { return policy.empty() ? "" : ", \"l\"(" + policy + ")"; }
};

// ---- memory ----
/// The offset of a tensor parameter's element at coordinates (i64): of bits for sub-byte formats, of elements otherwise
/// (u64).
Ex offset(Lowering& ctx, ir::ValueId tensor, const std::vector<Ex>& coordinates);
Ex extent(Lowering& ctx, ir::ValueId tensor, int d);  ///< i64: parameter or constant
Ex stride(Lowering& ctx, ir::ValueId tensor, int d);  ///< i64 of an affine tensor, see KernelParam::stride
Ex pitch(Lowering& ctx, ir::ValueId tensor, int member, bool innermost);  ///< i64, of a layout by expressions
inline Ex int64(Lowering& ctx, int64_t v) { return ctx.pool.constant(kernel::Type::i64, v); }
/// A variable.
inline Ex int32(Lowering& ctx, const std::string& name) { return ctx.pool.name(kernel::Type::i32, name); }
bool affine(const Lowering& ctx, ir::ValueId tensor);               ///< row, col or the host's strides
int contiguous_dimension(const Lowering& ctx, ir::ValueId tensor);  ///< of stride 1 whatever the launch; -1: none
int param_number(const Lowering& ctx, ir::ValueId v);
/// The name of a parameter of the kernel, which is added on its first use.
std::string parameter(Lowering& ctx, KernelParam::Kind kind, int param, int dim, const std::string& type,
                      const std::string& stem);
Ex layout_value(Lowering& ctx, const LayoutExpr& e, ir::ValueId tensor, const std::vector<Ex>& coordinates);  ///< i64
Ex opaque(Lowering& ctx, Ex integer);  ///< Prelude::opaque
/// Bits that hold every |value| of an i64 scalar; 64: unknown.
int magnitude(Lowering& ctx, ir::ValueId v, int depth = 0);
int magnitude_anew(Lowering& ctx, const ir::Inst& def, int depth);
int reach(Lowering& ctx, ir::ValueId v, int depth = 0);  ///< bits that hold every positive value
struct Part;  ///< one load, store or atomic of a tensor while it is emitted (access/part.h)
Part part_access(Lowering& ctx, ir::InstId id);  ///< without the variables that part_of declares
Part part_of(Lowering& ctx, ir::InstId id);
void part_axis(Lowering& ctx, Part& part, size_t axis);
Ex is_whole(Lowering& ctx, const Part& part, size_t number);  ///< a range leaves the tensor nowhere
void part_bounds(Lowering& ctx, Part& part, size_t axis);
Shape joint_shape(Lowering& ctx, const Part& part);
Ex joint_number(Lowering& ctx, const Part& part, Ex r);
Ex joint_index(Lowering& ctx, const Part& part, size_t axis, Ex j);
void part_last(Lowering& ctx, Part& part);
void part_base(Lowering& ctx, Part& part);
bool part_pieces(Lowering& ctx, Part& part);
/// The indices that access_pieces speaks of: starts, then what thread `t` adds, then what register `r` does (if there
/// is one).
std::vector<Ex> piece_indices(Lowering& ctx, const Part& part, Ex t, Ex r = {});
void find_carried_loads(Lowering& ctx);
struct WordRing;
void find_word_rings(Lowering& ctx);
bool plan_ring(Lowering& ctx, WordRing& ring);
int64_t member_bits(Lowering& ctx, ir::ValueId tensor, size_t member, size_t members);
void issue_words(Lowering& ctx, const WordRing& ring, const std::string& stage);
bool start_ring(Lowering& ctx, ir::InstId load);
void take_words(Lowering& ctx, ir::InstId load);
void declare_walk(Lowering& ctx, ir::InstId load);
Ex declare_base(Lowering& ctx, ir::InstId access, Ex sum, Ex grows);
Ex piece_growth(Lowering& ctx, ir::InstId access, std::span<const LayoutPieces> members, std::span<const Ex> pitches);
void part_vector(Lowering& ctx, Part& part);
Ex part_index(Lowering& ctx, const Part& part, size_t axis, Ex r);
Ex part_condition(Lowering& ctx, const Part& part, Ex r, bool checked, int except = -1);
Ex part_offset(Lowering& ctx, const Part& part, Ex r);
void load_element(Lowering& ctx, const Part& part, Ex r, Ex to, bool checked);
void load_elements(Lowering& ctx, const Part& part, Ex to, bool checked);
bool has_one_path(const Lowering& ctx, const Part& part);  ///< the same vectors in tiles inside and at the edge
bool is_whole(const Part& part);                           ///< vectors without conditions
bool is_vectors(const Part& part);                         ///< vectors, at the edge under a condition or in part
bool stores_vectors(Lowering& ctx, ir::InstId id);         ///< is it a store that is that?
void load_vector(Lowering& ctx, const Part& part, Ex r, Ex to, bool checked, Ex otherwise = {});
void load_vectors(Lowering& ctx, const Part& part, Ex wide, bool checked);
void load_wide(Lowering& ctx, const Part& part);
void load_shifted(Lowering& ctx, const Part& part, Ex wide);
void store_shifted(Lowering& ctx, const Part& part);
std::string funnel(Lowering& ctx);
void store_elements(Lowering& ctx, const Part& part, bool checked);
Ex stored_vector(Lowering& ctx, const Part& part, Ex r);  ///< a declared array
void store_vector(Lowering& ctx, const Part& part, Ex r, Ex wide, bool checked);
void store_vectors(Lowering& ctx, const Part& part, bool checked);
void by_vectors(Lowering& ctx, const Part& part, const std::function<void(Ex r)>& body);
Ex group_inside(Lowering& ctx, const Part& part, int first, int count);
Ex any_group_inside(Lowering& ctx, const Part& part, Ex first);
void by_groups_in_loop(Lowering& ctx, const Part& part, bool checked, bool groups,
                       const std::function<void(Ex r, bool bounds)>& body);
void by_groups(Lowering& ctx, const Part& part, bool checked, const std::function<void(Ex r, bool bounds)>& body);
std::string other_text(Lowering& ctx, const Part& part, Ex r);
Ex first_bytes(Lowering& ctx, const Part& part, Ex r);
/// (from[, inside, otherwise]) or (to, value[, inside]) of a C type, "uint2" or "uint4" (access/functions.cpp).
std::string access_function(Lowering& ctx, const std::string& type, bool load, bool conditional,
                            const CachingText& caching = {});
/// (from, bytes) or (to, value, bytes): the first bytes of an aligned vector of 8 or 16 bytes.
std::string first_function(Lowering& ctx, size_t bytes, size_t element, bool load, const CachingText& caching = {});
std::string read(Lowering& ctx, const Format& f, const std::string& base, const std::string& offset,
                 const CachingText& caching = {});
/// Writes an element of a format that is addressed by bits, under a condition.
void write_bits(Lowering& ctx, Ex condition, const Format& f, const std::string& base, const std::string& offset,
                const std::string& value);

// ---- what accesses ask of caches ----
CachingText plain_caching(Lowering& ctx, ir::InstId access);  ///< of ld and st
std::string policy(Lowering& ctx, ir::Evict order);           ///< expression: a policy for the second cache
/// The function that copies so many bytes as the put asks caches; empty: copy_async.
std::string copy_function(Lowering& ctx, ir::InstId put, int bytes);
enum class Bulk { load, multicast, store };
/// tma_load, tma_multicast or tma_store, as the access of so many dimensions asks for it.
std::string bulk_function(Lowering& ctx, ir::InstId access, Bulk kind, size_t rank);

// ---- atomics ----
std::string atomic_function(Lowering& ctx, const Format& f, ir::AtomicKind kind, ir::MemoryScope scope);
void atomic_fences(Lowering& ctx, ir::InstId id, bool before);
void atomic_elements(Lowering& ctx, ir::InstId id, const std::string& function,
                     const std::function<Ex(Ex r)>& condition,
                     const std::function<std::vector<std::string>(Ex r)>& operands);

// ---- pointers ----
std::string pointee(Lowering& ctx, const Format& f, const std::string& pointer);
/// stage_operands, and a meeting if there were any.
std::vector<std::string> stage_lanes(Lowering& ctx, ir::InstId id);

}  // namespace tegula::lower
