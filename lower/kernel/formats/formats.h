// The scalar side of emitted CUDA C++: C types of elements, expressions for elementwise ops and conversions, and the
// device functions that those need. Text only, without toolkit headers; a kernel gets exactly the functions it uses.
// One definition of each number format: equal to lang/format.h on all codes (tested on the host, where the same text
// compiles as C++).
#pragma once
#include <deque>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lang/ir.h"
#include "lower/kernel/text.h"

namespace tegula::lower {

/// How a conversion rounds (RoundSpec), with u64 expressions of what is random in it.
struct Rounding {
    Round round = Round::rne;
    Overflow overflow = Overflow::automatic;
    std::string random = {};  ///< the seed of stochastic rounding, or what rounding by bits adds
    std::string index = {};   ///< stochastic rounding: the number of the element
};

class Formats {
public:
    /// For an architecture, 90 for sm_90a; 0: for any.
    explicit Formats(int arch) : arch_(arch) {}
    int arch() const { return arch_; }
    /// C type of a register: float, double, bool, and for all other formats the integer container of their code (signed
    /// char, unsigned short, ..), sign- or zero-extended as format.h says.
    std::string type(const Format& f) const;
    /// A code as a literal of type(f): "1.5f" spelled exactly (hexadecimal floats, or bit patterns for NaN and Inf).
    std::string literal(const Format& f, uint64_t code);
    /// The expression of an elementwise op on operands, all of format f; the result is f, or bool.
    std::string elementwise(ir::Op op, const Format& f, std::span<const Known> operands);
    /// One rounding from format to format.
    std::string cast(const Format& to, const Format& from, const std::string& value, const Rounding& rounding = {});
    std::string bitcast(const Format& to, const Format& from, const std::string& value);
    /// Value of an element as double or float (exact) and back by rne, for reductions and products that work in an
    /// accumulator type.
    std::string combine(ir::ReduceKind kind, const Format& f, const std::string& a, const std::string& b);
    /// a * b + c in format f (the products' chain; a and b already cast to f).
    std::string fma(const Format& f, const std::string& a, const std::string& b, const std::string& c);
    /// Expression that reads the element at bit offset (i64) from `base` (const unsigned char*): any width; and a
    /// statement that writes one without touching its neighbours' bits, atomically where a byte is shared.
    std::string load_bits(const Format& f, const std::string& base, const std::string& bit);
    std::string store_bits(const Format& f, const std::string& base, const std::string& bit, const std::string& code);
    /// An integer of whose value the compiler below knows nothing. NVRTC 13.0 takes "the bits shifted out are zero" of
    /// (x & 24) >> 2 for true of x >> 2 where loops count x in steps and the rest of the mask changes nothing; for odd
    /// x it then takes the shift for no shift.
    std::string opaque(const std::string& integer);
    /// A register from the code in an unsigned integer.
    std::string from_bits(const Format& f, const std::string& code);
    /// The code of a register, zero-extended from the container.
    std::string to_bits(const Format& f, const std::string& value);
    /// Instructions of an operation that the text spells out, roughly; 0: the machine has the format.
    static int64_t emulation(const Format& f);
    /// Asks for a section of device text, a file below jit/cuda/device: "barrier", "mbarrier", "tma", "wgmma",
    /// "ldmatrix", ..
    void need(std::string_view section);
    /// Adds a function's text, of which `key` is the name and what tells it from others of that name, unless it is
    /// there.
    void define(const std::string& key, const std::string& text);
    const std::vector<std::string>& sections() const { return sections_; }  ///< those asked for, each once
    const std::string& functions() const { return functions_; }             ///< those added

private:
    /// What a format computes in: float and double are native or exact for every value, the others have rules of their
    /// own.
    enum class Work : uint8_t { real32, real64, integer, fixed, boolean };
    static Work work(const Format& f);
    const std::string& tag(const Format& f);                      ///< identifier part, unique per format
    bool first(const std::string& function);                      ///< is this the first request for the function?
    std::string value(const Format& f, const std::string& code);  ///< the exact value as float, double or integer
    std::string nearest(const Format& f, const std::string& value,
                        bool value_is_float);                      ///< to a code by rne and automatic overflow
    std::string number(const Format& f, const std::string& code);  ///< the exact value as `Number`
    std::string rounded(const Format& to, const std::string& number, Round round, Overflow overflow,
                        const std::string& random);
    std::string decode_by_table(const Format& f, const std::string& head);
    static bool has_long_value(const Format& f);  ///< is `value` more than a few instructions?
    std::string cast_name(const Format& to, const Format& from, Round round, Overflow overflow);
    std::string table_cast(const Format& to, const Format& from, const std::string& value, Round round,
                           Overflow overflow);
    std::string integer_cast(const Format& to, const Format& from, const std::string& value);
    std::string float_to_integer(const Format& to, const Format& from, const std::string& value, Round round);
    std::string float_cast(const Format& to, const Format& from, const std::string& value, Round round,
                           Overflow overflow);
    std::string int_expression(ir::Op op, const Format& f, std::span<const Known> operands);
    std::string prefix_cast(const Format& to, const std::string& value, const Rounding& rounding);
    std::string directed_expression(ir::Op op, const Format& f, std::span<const Known> operands);
    std::string float_expression(ir::Op op, const Format& f, std::span<const Known> operands);
    std::string fixed_expression(ir::Op op, const Format& f, std::span<const Known> operands);

    int arch_;
    std::vector<std::string> sections_;
    std::set<std::string, std::less<>> defined_;
    std::string functions_;                            ///< generated per format
    std::deque<std::pair<Format, std::string>> tags_;  // `tag` gives references
};

}  // namespace tegula::lower
