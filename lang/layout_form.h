// Inside of the layout code: index expressions as mixed-radix forms. Each logical index is cut into digits (i = d0 + 8 d1 + 64 d2) until
// every / and % by a constant takes whole digits; an expression is then a sum of digits, and of XORs of such sums, times constants.
// Digits are treated as independent over their boxes, a superset of the real points, so what is proved here holds for the points.
#pragma once
#include <utility>

#include "lang/layout.h"

namespace tegula {

constexpr int64_t kUnbounded = INT64_MAX;  ///< extent of a digit that holds for any logical extent

/// An interval that contains all values of an expression over a box of indices.
struct LayoutRange {
    int64_t lo = 0, hi = 0;
    bool exact = true;      ///< both ends are attained
    bool dense = true;      ///< every value between is attained
    bool overflow = false;  ///< some intermediate may leave 64 bits; lo and hi then say nothing
    uint64_t uses = 0;      ///< bit k: index k matters
};
LayoutRange layout_range(const LayoutExpr& expr, std::span<const int64_t> extents);

class MixedRadix {
public:
    struct Digit {
        int index;
        int64_t stride, extent;
    };
    using Term = std::pair<int, int64_t>;  ///< atom, coefficient
    struct Form {
        int64_t constant = 0;
        std::vector<Term> terms;
    };
    /// A digit, or the XOR of two forms whose values are not negative.
    struct Atom {
        int digit = -1;
        int64_t extent = 1;
        Form a, b;
    };
    /// `extents`: of the logical indices; empty means any extents.
    MixedRadix(const std::vector<LayoutExpr>& members, int rank, std::span<const int64_t> extents);
    /// Whether all members have a form.
    bool ok() const { return ok_; }
    const std::vector<Form>& forms() const { return forms_; }
    const std::vector<Atom>& atoms() const { return atoms_; }
    const std::vector<Digit>& digits() const { return digits_; }
    /// Largest value of a member, when it is sure to be attained.
    std::optional<int64_t> attained_largest(size_t member) const;
    /// Every member is proved not to be negative.
    bool non_negative() const;
    /// The logical indices as expressions of the physical tuple, when every digit can be recovered from it; this proves injectivity.
    std::optional<std::vector<LayoutExpr>> solve() const;

private:
    struct Equation {
        Form form;
        LayoutExpr value;
    };
    using Known = std::vector<std::optional<LayoutExpr>>;
    bool build(const std::vector<LayoutExpr>& members);
    std::optional<Form> form_of(const LayoutExpr& e);
    std::optional<Form> add(const Form& a, const Form& b, int64_t scale) const;
    std::optional<Form> scaled(const Form& a, int64_t c) const { return add({}, a, c); }
    std::optional<Form> divide(const Form& f, int64_t c, bool remainder);
    std::optional<Form> exclusive_or(const Form& a, const Form& b);
    std::optional<Form> inclusive_or(const Form& a, const Form& b) const;
    std::optional<std::pair<int64_t, int64_t>> bounds(const Form& f) const;
    bool disjoint_bits(const Form& low, const Form& high) const;
    bool request_split(int digit, int64_t at);
    std::pair<LayoutExpr, Form> resolve(const Form& f, const Known& known) const;
    bool solve_step(const Equation& eq, Known& known, std::vector<Equation>& equations) const;
    bool peel(Form f, LayoutExpr value, Known& known, std::vector<Equation>& equations) const;
    int rank_;
    bool ok_ = false;
    std::vector<int64_t> extents_;
    std::vector<Digit> digits_;
    std::vector<Atom> atoms_;
    std::vector<Form> forms_;
    int split_digit_ = -1;
    int64_t split_at_ = 0;
    int work_ = 0;  ///< steps spent, so that nested XORs and divisions end
};

}  // namespace tegula
