// Where tiles of pointers lead, as sums of products of scalars and of lane numbers: what views (views.h) are made from. Sums are modulo 2^64, as the
// arithmetic is, so that two that are equal are the same number whatever wrapped on the way.
#pragma once
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lang/ir.h"

namespace tegula {

/// coefficient * product of scalars (sorted, with repetitions) * the lane's number along `dim` (-1: of none).
struct OffsetTerm {
    std::vector<uint32_t> factors;
    int dim = -1;
    friend auto operator<=>(const OffsetTerm&, const OffsetTerm&) = default;
};
using OffsetSum = std::map<OffsetTerm, int64_t>;

void add_scaled(OffsetSum& to, const OffsetSum& from, int64_t by);

/// A tile of pointers: `offset` elements behind where parameter `root` begins.
struct PointerForm {
    size_t root = 0;
    OffsetSum offset;
};

/// The i64 scalars of which `assume` says, in front of all branches and loops, that they are not negative. Not for proofs that accesses stay inside
/// of memory, which an author's mistake must not undo.
std::set<uint32_t> assumed_nonnegative(const ir::Function& fn);

class PointerForms {
public:
    explicit PointerForms(const ir::Function& fn) : fn_(fn), assumed_(assumed_nonnegative(fn)) {}
    /// Of an i64 scalar or tile; dims are those of its shape.
    std::optional<OffsetSum> sum_of(ir::ValueId v);
    /// nullopt: `why()` says why not.
    std::optional<PointerForm> form_of(ir::ValueId pointers);
    const std::string& why() const { return why_; }
    /// The sum of a shape op's operand as one of its result.
    std::optional<OffsetSum> renumbered(const OffsetSum& sum, const ir::Inst& shape_op);
    bool is_assumed_nonnegative(ir::ValueId v) const { return assumed_.contains(v.v); }
    /// The parameter that pointers were made from, whatever was added; nothing where that is not known.
    std::optional<size_t> root_of(ir::ValueId pointers) const;

private:
    struct Carried {
        ir::ValueId start, next;
        const ir::Inst* loop = nullptr;
    };
    std::optional<OffsetSum> sum_of(ir::ValueId v, int depth);
    std::optional<PointerForm> form_of(ir::ValueId v, int depth);
    std::optional<OffsetSum> product(const OffsetSum& a, const OffsetSum& b);
    std::optional<OffsetSum> widened(const ir::Inst& cast, int depth);
    std::optional<OffsetSum> carried_sum(ir::ValueId v, int depth);
    std::optional<PointerForm> carried_form(ir::ValueId v, int depth);
    std::optional<OffsetSum> moved(OffsetSum start, const OffsetSum& step, const ir::Inst& loop, int depth);
    std::optional<Carried> carried(ir::ValueId v) const;
    bool is_open(ir::ValueId v) const { return std::find(open_.begin(), open_.end(), v) != open_.end(); }
    std::nullopt_t no(std::string why) {
        if (why_.empty()) why_ = std::move(why);
        return std::nullopt;
    }

    const ir::Function& fn_;
    const std::set<uint32_t> assumed_;  ///< such numbers stay what they are, as that is known of them and not of their parts
    std::string why_;
    std::vector<ir::ValueId> open_;  ///< carried values that are looked through: they stand for themselves
    int work_ = 0;
};

}  // namespace tegula
