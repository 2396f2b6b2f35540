// Arithmetic of all number formats as LLVM IR: rows of ops.def, conversions, packed storage. Values are single elements or vectors of them in
// register types: f32 float, f64 double, bool i1, all others the integer container, which holds the code sign- or zero-extended as format.h says.
// Bits equal lang/scalar.h and lang/format.h. Nothing branches, so that any lane may hold anything; common cases are a few instructions.
// Which NaN a float operation gives is fixed (the canonical one), yet settled only where it can be seen: every result is a selection whose
// unsettled operand the next operation uses instead (`raw`), and what nobody sees is dead code.
#pragma once
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include <llvm/IR/IRBuilder.h>

#include "jit/cpu/speculation.h"
#include "lang/format.h"
#include "lang/ir.h"

namespace tegula::cpu {

/// Instructions beyond the plain vectors of the target that give exactly the same bits.
struct ScalarFeatures {
    bool f16c = false;
    bool fma = false;  ///< of doubles
    bool avx2 = false;
    bool avx512 = false;      ///< F, BW, DQ, VL
    bool bf16 = false;        ///< converts to bf16, as far as nothing is subnormal
    unsigned inlined = 2000;  ///< instructions of heavy rows, casts and runs in a kernel, at which further ones become calls (scalars_called.cpp)
};

/// A C function that emitted code calls by name; the code's linker must know them all.
struct HostFunction {
    const char* name;
    const void* address;
};
std::span<const HostFunction> host_functions();

/// Of a vector; 0: it is none.
inline unsigned lanes_of(const llvm::Value* v) {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
    return vector ? vector->getNumElements() : 0;
}

class Scalars {
public:
    using Value = llvm::Value;
    explicit Scalars(llvm::IRBuilderBase& builder, ScalarFeatures features = {}) : b_(builder), features_(features) {}

    // Types; lanes 0 is a single element. In memory a bool is a byte, all else is as in registers.
    llvm::Type* type(const Format& f, unsigned lanes) const;
    llvm::Type* memory_type(const Format& f, unsigned lanes) const;
    Value* constant(const Format& f, uint64_t code, unsigned lanes) const;
    Value* to_memory(Value* v, const Format& f);
    Value* from_memory(Value* v, const Format& f);

    /// Row `op` on operands of one format; result: the same type, or i1.
    Value* elementwise(ir::Op op, const Format& f, std::span<Value* const> operands);
    /// A quotient or remainder of integers, in place.
    Value* divide_row(ir::Op op, const Format& f, Value* a, Value* b);
    /// How many rows, casts and runs have become calls so far.
    size_t calls() const { return calls_; }
    /// What is emitted next seldom runs: it becomes calls earlier. What was said before.
    bool expect_seldom(bool seldom) { return std::exchange(seldom_, seldom); }
    /// Quick forms may be emitted, for as long as operands are as `allowed` then says; null: not. What was allowed before.
    Speculation* speculate(Speculation* allowed) { return std::exchange(speculation_, allowed); }
    /// One step of a reduction or scan in the result's format.
    Value* join(ir::ReduceKind kind, const Format& f, Value* a, Value* b);
    /// `random`: i64 per lane, for modes that random bits decide.
    Value* cast(Value* v, const Format& from, const Format& to, Round round = Round::rne, Overflow overflow = Overflow::automatic,
                Value* random = nullptr);
    /// Equal widths.
    Value* bitcast(Value* v, const Format& from, const Format& to);
    /// Random bits of stochastic rounding: i64 per lane from a seed (i64, scalar or per lane) and element numbers (i64 per lane).
    Value* stochastic_bits(Value* seed, Value* index);

    /// A result of a float operation before its NaN is settled (else `v` itself): for chains of arithmetic, which end in `settle`.
    Value* raw(Value* v) const;
    Value* settle(const Format& f, Value* v);
    Value* select(const Format& f, Value* condition, Value* a, Value* b);
    /// fma(a, b, c) or a * b of native floats without settling the NaN; integers wrap.
    Value* raw_fma(const Format& f, Value* a, Value* b, Value* c);
    /// fma in a format that rounds_from_float, on floats that are values of it, as is the result. What the format lacks of a float's bits is zero in
    /// NaNs too, given ones and the result.
    Value* float_step(const Format& f, Value* a, Value* b, Value* c);

    // Packed storage (format.h): a stream of `bits` wide codes. No byte outside those of the wanted elements is read or written.
    /// Elements whose first bits are `bit` (i64: scalar, or per lane) from `base`; mask (i1 per lane, may be null) off: unspecified, not touched.
    Value* load_at(const Format& f, Value* base, Value* bit, Value* mask, unsigned lanes);
    void store_at(const Format& f, Value* value, Value* base, Value* bit, Value* mask);
    /// Lanes l at bit + l * bits; those before `count` (i64; null: all) and from `first` on (i64; null: 0) exist, others are unspecified;
    /// none exists where `any` (i1; null: true) is off.
    Value* load_run(const Format& f, Value* base, Value* bit, Value* count, unsigned lanes, Value* first = nullptr, Value* any = nullptr);
    /// The same lanes, those that are on (i1 per lane; null: all).
    void store_run(const Format& f, Value* value, Value* base, Value* bit, Value* mask);
    /// All of them, where they begin with a byte and are whole bytes.
    void store_bytes(const Format& f, Value* value, Value* base, Value* bit);

    /// Elements from integers per lane, whose low bits are the codes (at most 32 bits wide) and whose others are anything. What leaves here is a code
    /// as any other, extended in its container.
    Value* from_words(const Format& f, Value* words);
    /// mask ? v : other, knowing of the result what was known of both.
    Value* select(Value* mask, Value* v, Value* other);

    /// The value of each code of a format that is not whole numbers: float or double per `value_is_float`; NaNs are any NaN.
    Value* decode(const Format& f, Value* v);
    /// The value rounded once to float.
    Value* decode_to_float(const Format& f, Value* v);
    static bool value_is_float(const Format& f);

private:
    struct Number;
    struct Cut;
    struct Log;

    // scalars_called.cpp
    using Make = llvm::function_ref<Value*(std::span<Value* const>)>;
    enum class Touches : uint8_t { nothing, reads, writes };  ///< memory that operands point to
    Value* here_or_called(const std::string& what, llvm::Type* result, Touches touches, std::span<Value* const> x, Make make);
    Value* called(const std::string& what, llvm::Type* result, Touches touches, std::span<Value* const> x, Make make);

    // scalars.cpp
    Value* row(ir::Op op, const Format& f, std::span<Value* const> operands);
    llvm::Type* like(llvm::Type* element, Value* v) const;  ///< as many lanes as v
    Value* i(Value* like, uint64_t value) const;            ///< integer constant of v's type
    Value* real(Value* like, double value) const;
    Value* truth(Value* like, bool value) const;
    Value* resize(Value* v, unsigned bits, bool is_signed);  ///< of integers
    Value* call(llvm::Intrinsic::ID id, std::initializer_list<Value*> args);
    Value* bits_of(Value* v);                 ///< of a float
    Value* as_real(Value* v, unsigned bits);  ///< integer bits to float or double
    Value* wrap(Value* v, const Format& f);   ///< keeps the low bits of a container, extended
    /// Results are of the first operand's type; scalars among the others are the same for all lanes.
    Value* per_lane(const char* function, std::initializer_list<Value*> args);
    /// One of 2^n entries (integers of 8 .. 64 bits; missing ones are 0), by the low n bits of `index`, whose others may be anything: no place
    /// outside of the table is read whatever a lane holds.
    Value* table_at(llvm::ArrayRef<uint64_t> entries, unsigned bits, Value* index, const char* name);
    Value* low_code(Value* v, const Format& f);              ///< zero-extended container of the code's bits
    Value* known_words(const Format& f, Value* code) const;  ///< i32 whose low f.bits are the code's, others anything; or null
    Value* table_index(const Format& f, Value* code);        ///< the same for `table_at`, of any width
    Value* whole_to_float(const Format& f, Value* v);
    Value* float_of_few(const Format& f, Value* v);
    Value* saturated(Value* v, bool v_signed, const Format& f);

    // scalars_int.cpp
    Value* integer_row(ir::Op op, const Format& f, std::span<Value* const> x);
    Value* integer_bits_row(ir::Op op, const Format& f, std::span<Value* const> x);
    Value* bool_row(ir::Op op, std::span<Value* const> x);
    Value* fixed_row(ir::Op op, const Format& f, std::span<Value* const> x);
    Value* compare(ir::Op op, bool is_signed, Value* a, Value* b);
    Value* fixed_quotient(const Format& f, Value* a, Value* b);
    Value* quotient(const Format& f, Value* a, Value* b);
    Value* high_product(Value* a, Value* b);  ///< of u64

    // scalars_float.cpp
    Value* native_row(ir::Op op, std::span<Value* const> x);
    Value* native_order(ir::Op op, Value* a, Value* b);
    Value* ordered_range(Value* a, Value* b, bool is_min);
    Value* flushed(Value* v, int min_exponent);
    Value* native_test(ir::Op op, Value* a, Value* b);
    Value* truncated_remainder(Value* a, Value* b);
    Value* native_remainder(Value* a, Value* b);
    Value* minifloat_row(ir::Op op, const Format& f, std::span<Value* const> x);
    Value* directed_row(ir::Op op, const Format& f, std::span<Value* const> x);
    Value* rounded_once(ir::Op op, const Format& f, std::span<Value* const> x);
    Value* result_round_odd(ir::Op op, const Format& f, std::span<Value* const> x);
    Value* towards_odd(Value* result, Value* error);
    Value* fma_round_odd(Value* a, Value* b, Value* c);  ///< of reals whose product is exact and far from the ends of the range
    Value* float_fma_round_odd(const Format& f, Value* a, Value* b, Value* c);
    Value* float_step_here(const Format& f, Value* a, Value* b, Value* c);
    Value* directed_fma_round_odd(Value* a, Value* b, Value* c);
    Value* float_round_odd(Value* v);
    Value* fast_row(ir::Op op, Value* a);
    Value* fast_exp2(Value* a);
    Value* fast_log2(Value* a);
    Value* fast_circular(Value* a, bool sine);
    Value* fast_tanh(Value* a);
    Value* polynomial(Value* x, std::initializer_list<double> coefficients);  ///< highest first

    // scalars_quick.cpp
    bool speculates(const Value* v) const;
    Value* twice_less_one(Value* v);
    Value* quotient(Value* a, Value* b);
    Speculation::Divisor divisor(Value* shared, Value* like);
    Value* quick_bf16(Value* v);

    // scalars_decode.cpp
    Value* half_to_float(Value* half);
    Value* decode_short(const Format& f, Value* v);
    Value* decode_any(const Format& f, Value* v);
    Value* positive_nan(Value* v);
    Value* scale_by(Value* v, Value* exponent);
    Value* decode_table(const Format& f, Value* v);

    // scalars_round.cpp
    Value* nearest(const Format& f, Value* v);  ///< code of a float or double, rne and automatic
    Value* nearest_short(const Format& f, Value* v);
    Value* nearest_prefix(const Format& f, Value* bits);
    Number number_of_real(Value* v);
    Number number_of_integer(Value* v, bool is_signed);
    Number number(const Format& f, Value* v);
    Value* rounded(const Format& to, const Number& n, Round round, Overflow overflow, Value* random);
    Value* round_float(const Format& to, const Number& n, Round round, Overflow overflow, Value* random);
    Value* round_integer(const Format& to, const Number& n, Round round, Value* random);
    Value* round_up(const Cut& cut, Value* negative, Round round, Value* random);
    Cut cut_at(Value* significand, Value* sticky, Value* shift);
    Number normalise(const Number& n);
    Value* is_zero(const Number& n);

    // scalars_lns.cpp
    Number lns_number(const Format& f, Value* v);
    Value* lns_code(const Format& to, Value* base, Cut cut, Value* negative, Round round, Value* random);
    Value* lns_round(const Format& to, const Number& n, Round round, Value* random);
    Value* lns_convert(const Format& to, const Format& from, Value* v, Round round, Value* random);
    Value* logarithm(const Format& f, Value* code);
    Value* as_double(const Format& from, Value* v);
    Value* nearest_entry(const Format& to, const Format& from, Value* v);
    Value* count_thresholds(Value* x, llvm::ArrayRef<uint64_t> limits);

    // scalars_log.cpp
    Log log_parts(const Format& f, Value* v);
    Value* log_code(const Format& f, Value* log, Value* sign);
    Value* log_product(const Format& f, const Log& a, const Log& b, bool divides);
    Value* log_order(const Format& f, const Log& a);
    Value* log_extremum(ir::Op op, const Format& f, const Log& a, const Log& b);
    Value* log_test(ir::Op op, const Format& f, const Log& a, const Log& b);
    Value* log_row(ir::Op op, const Format& f, std::span<Value* const> x);
    Value* decode_log(const Format& f, Value* v);
    Value* nearest_log(const Format& f, Value* x);

    // scalars_cast.cpp
    Value* cast_here(Value* v, const Format& from, const Format& to, Round round, Overflow overflow, Value* random);
    Value* cast_to_bool(Value* v, const Format& from);
    Value* cast_integers(Value* v, const Format& from, const Format& to);
    Value* cast_to_integer(Value* v, const Format& from, const Format& to, Round round);
    Value* cast_to_float(Value* v, const Format& from, const Format& to);
    Value* cast_to_prefix(Value* v, const Format& to, Round round, bool saturates, Value* random);
    Value* cast_by_table(Value* v, const Format& from, const Format& to, Round round, Overflow overflow);

    // scalars_packed.cpp
    Value* load_at_here(const Format& f, Value* base, Value* bit, Value* mask, unsigned lanes);
    void store_at_here(const Format& f, Value* value, Value* base, Value* bit, Value* mask);
    Value* load_run_here(const Format& f, Value* base, Value* bit, Value* count, unsigned lanes, Value* first, Value* any);
    void store_run_here(const Format& f, Value* value, Value* base, Value* bit, Value* mask);
    void store_bytes_here(const Format& f, Value* value, Value* base, Value* bit);
    Value* lane(Value* v, unsigned l);
    Value* numbers_to(unsigned count, unsigned step = 1);
    Value* byte_of(Value* base, Value* bit);
    Value* packed_bytes(int bits, Value* codes, unsigned bytes);
    Value* moved_up(Value* bytes, Value* shift);
    void store_whole_run(const Format& f, Value* value, Value* base, Value* bit);
    void store_some(const Format& f, Value* value, Value* base, Value* bit, Value* mask);

    llvm::IRBuilderBase& b_;
    ScalarFeatures features_;
    std::unordered_map<const Value*, Value*> raw_;
    // What is known of a code besides itself holds for one format: casts and bitcasts to another may be no instruction (u1 to u4), and what the other
    // format takes for the code's bits may not be the code's.
    struct Known {
        const Format* format;
        Value* value;
    };
    using KnownOf = std::unordered_map<const Value*, Known>;
    static void know(KnownOf& of, const Format& f, Value* code, Value* value);
    static Value* known(const KnownOf& of, const Format& f, Value* code);  ///< or null
    KnownOf words_;                                                        ///< of codes: what from_words made them of
    KnownOf values_;                                                       ///< of codes: what `decode` gives, where that is known without the code
    std::unordered_map<std::string, size_t> weights_;                      ///< of rows, casts and runs: instructions
    size_t inlined_ = 0, calls_ = 0;                                       ///< instructions of heavy ones; calls
    bool seldom_ = false;
    Speculation* speculation_ = nullptr;
};

}  // namespace tegula::cpu
