// Range proofs over i64 index arithmetic: values as linear forms over atoms (parameters, program ids, loop counters), atoms with bounds that are
// linear forms again. Extents are taken to be at most 2^56 (kMaxLayoutElements), and every step checks for overflow: what cannot be
// computed exactly is not proved.
#pragma once
#include <map>
#include <optional>

#include "lower/lower.h"

namespace tegula {

/// constant + sum of coefficient * atom.
struct LinearForm {
    int64_t constant = 0;
    std::map<uint32_t, int64_t> terms;
};

class Bounds {
public:
    Bounds(const ir::Function& fn, const PassOptions& options);

    /// A scalar i64 value exactly; or, for a tile, one element of it, any (elements of different visits are independent).
    std::optional<LinearForm> exact(ir::ValueId v);
    /// The extent of a tensor's or tile's axis.
    std::optional<LinearForm> extent(ir::ValueId object, size_t axis);
    /// Is a - b >= slack for every launch the facts allow?
    bool at_least(const LinearForm& a, const LinearForm& b, int64_t slack);
    /// Is the scalar itself, which may have wrapped on the way, >= low?
    bool at_least(ir::ValueId v, int64_t low);
    /// Is the scalar itself, or every element of the tile, a multiple of `by`?
    bool divisible(ir::ValueId v, int64_t by);
    /// Are all elements of a bool tile surely true?
    bool always_true(ir::ValueId v);

private:
    struct Atom {
        enum Kind : uint8_t { opaque, parameter, programs, program, counter, lane, remainder, quotient, largest, smallest } kind = opaque;
        int64_t low = 0, high = INT64_MAX;  ///< bounds of parameter, programs, lane, remainder; `low` of program
        bool has_low = false, has_high = false;
        int64_t divisor = 1;  ///< every value is a multiple of it
        ir::InstId inst;      ///< the loop of a counter; what computes a quotient, the largest or smallest of two
        int axis = 0;         ///< program, programs
        int64_t by = 1;       ///< what a quotient is divided by
    };
    std::optional<LinearForm> exact(ir::ValueId v, int depth);
    std::optional<LinearForm> form_of(ir::ValueId v, int depth);
    bool divisible(const LinearForm& form, int64_t by) const;
    bool divisible(ir::ValueId v, int64_t by, int depth);
    bool always_true(ir::ValueId v, int depth);
    bool cannot_wrap(const LinearForm& form);
    std::optional<LinearForm> actual(ir::ValueId v, int depth = 0);
    std::optional<LinearForm> product(ir::ValueId a, ir::ValueId b, int depth);
    std::optional<LinearForm> atom_of(ir::ValueId v, int depth);
    LinearForm single(uint32_t atom) const { return {0, {{atom, 1}}}; }
    Atom classify(ir::ValueId v, int depth);
    bool substitute(LinearForm& form, uint32_t atom, int64_t coefficient);
    bool substitute_counter(LinearForm& form, const Atom& atom, int64_t coefficient);
    bool substitute_program(LinearForm& form, const Atom& atom, int64_t coefficient);
    bool nonnegative(LinearForm form, int steps);
    bool nonnegative_with_quotient(LinearForm form, const Atom& atom, int64_t coefficient, int steps);
    ir::ValueId parameter(std::string_view name) const;

    const ir::Function& fn_;
    const PassOptions& options_;
    std::map<uint32_t, Atom> atoms_;
    std::map<uint32_t, std::optional<LinearForm>> known_;
    std::map<uint32_t, bool> safe_;  ///< is the form of this scalar its value?
    int nested_ = 0;                 ///< proofs for such forms that wait for each other
    uint32_t next_lane_;
    int work_ = 0;
};

}  // namespace tegula
