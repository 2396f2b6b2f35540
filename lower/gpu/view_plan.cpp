// Which accesses through pointers become views (view_plan.h).
#include "lower/gpu/view_plan.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "lang/access_operands.h"
#include "lang/gpu/wide_access.h"
#include "lang/launch_value.h"
#include "lower/bounds.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

/// The elements that satisfy `wanted` come first; both kinds keep their order.
template <class T, class Wanted>
void put_first(std::vector<T>& list, const Wanted& wanted) {
    std::vector<T> out;
    for (const bool first : {true, false})
        for (T& element : list)
            if (wanted(std::as_const(element)) == first) out.push_back(element);
    list = std::move(out);
}

constexpr size_t kMaxAxes = 5;  ///< of a tensor map

using Factors = std::vector<uint32_t>;

/// all \ part, where part is contained in all with its repetitions.
std::optional<Factors> without(const Factors& all, const Factors& part) {
    if (!std::includes(all.begin(), all.end(), part.begin(), part.end())) return std::nullopt;
    Factors rest;
    std::set_difference(all.begin(), all.end(), part.begin(), part.end(), std::back_inserter(rest));
    return rest;
}

PassOptions with(const LaunchFacts& facts) {
    PassOptions out;
    static_cast<LaunchFacts&>(out) = facts;
    return out;
}

/// A condition of a mask: sum > 0.
using Condition = OffsetSum;

class Planner {
public:
    Planner(const Function& fn, const LaunchFacts& facts) : fn_(fn), options_(with(facts)), bounds_(fn, options_), forms_(fn) {}

    std::vector<ViewPlan> run() {
        fn_.walk([&](InstId i) {
            const Op op = fn_.inst(i).op;
            if (op == Op::ptr_load || op == Op::ptr_store) plans_.push_back(consider(i));
        });
        settle();
        return std::move(plans_);
    }

private:
    ViewPlan consider(InstId id);
    std::string plan(const Inst& inst, ViewPlan& out);
    std::string strides(const Inst& inst, ViewPlan& out);
    std::string masks(ValueId mask, const Shape& shape, ViewPlan& out);
    bool conditions(ValueId mask, std::vector<Condition>& out, int depth);
    std::string limit(const Condition& condition, ViewPlan& out);
    void starts(ViewPlan& out);
    std::string order(const Inst& inst, ViewPlan& out);
    std::string nonnegative(const ViewPlan& plan);
    void settle();
    bool known(uint32_t factor);
    bool known(const OffsetTerm& term) {
        return std::all_of(term.factors.begin(), term.factors.end(), [&](uint32_t f) { return known(f); });
    }
    Factors known_factors(const Factors& all) {
        Factors out;
        std::copy_if(all.begin(), all.end(), std::back_inserter(out), [&](uint32_t f) { return known(f); });
        return out;
    }

    const Function& fn_;
    const PassOptions options_;
    Bounds bounds_;
    PointerForms forms_;
    std::vector<ViewPlan> plans_;
    std::map<uint32_t, bool> known_;
    std::vector<OffsetSum> compared_;
    std::set<int> floors_;  ///< dimensions whose start a condition gives exactly: elements in front of it are masked away
};

bool Planner::known(uint32_t factor) {
    const auto it = known_.find(factor);
    if (it != known_.end()) return it->second;
    return known_.emplace(factor, known_at_launch(fn_, ValueId{factor})).first->second;
}

ViewPlan Planner::consider(InstId id) {
    ViewPlan out;
    out.access = id;
    out.why_not = plan(fn_.inst(id), out);
    return out;
}

std::string Planner::plan(const Inst& inst, ViewPlan& out) {
    const auto operands = fn_.operands(inst);
    if (is_bit_addressed(fn_.elem(operands[0]))) return "its elements are no whole bytes";
    auto form = forms_.form_of(operands[0]);
    if (!form) return forms_.why();
    out.root = form->root;
    out.offset = std::move(form->offset);
    floors_.clear();
    if (std::string why = strides(inst, out); !why.empty()) return why;
    const AccessOperands access(fn_, inst);
    if (access.mask)
        if (std::string why = masks(access.mask.value, fn_.type(operands[0]).shape, out); !why.empty()) return why;
    uint64_t code = 0;
    if (access.other && !splat_code(fn_, access.other.value, code)) return "masked lanes read different values";
    starts(out);
    if (std::string why = order(inst, out); !why.empty()) return why;
    return nonnegative(out);
}

/// The axes that lanes run along; `offset` keeps what lanes share.
std::string Planner::strides(const Inst& inst, ViewPlan& out) {
    const Shape& shape = fn_.type(fn_.operands(inst)[0]).shape;
    for (int d = 0; d < shape.rank; ++d) {
        if (shape[static_cast<size_t>(d)] == 1) continue;
        ViewAxis axis;
        axis.dim = d;
        for (const auto& [term, coefficient] : out.offset) {
            if (term.dim != d) continue;
            if (!axis.stride.empty()) return "a stride is a sum";
            if (!known(term)) return "a stride is only known in the kernel";
            if (coefficient < 0) return "lanes go back";
            axis.stride[{term.factors, -1}] = coefficient;
        }
        std::erase_if(out.offset, [&](const auto& term) { return term.first.dim == d; });
        if (!axis.stride.empty())
            out.axes.push_back(std::move(axis));
        else if (inst.op == Op::ptr_store)
            return "several lanes write one element";
    }
    return {};
}

/// The conditions whose conjunction a mask is; false: it is something else.
bool Planner::conditions(ValueId mask, std::vector<Condition>& out, int depth) {
    uint64_t code = 0;
    if (splat_code(fn_, mask, code) && code) return true;
    const Inst* def = fn_.def(mask);
    if (!def || depth > 32) return false;
    const auto operands = fn_.operands(*def);
    switch (def->op) {
        case Op::broadcast:
        case Op::reshape:
        case Op::permute: {
            std::vector<Condition> inner;
            if (!conditions(operands[0], inner, depth + 1)) return false;
            for (const Condition& c : inner) {
                const auto here = forms_.renumbered(c, *def);
                if (!here) return false;
                out.push_back(*here);
            }
            return true;
        }
        case Op::bit_and:
            return conditions(operands[0], out, depth + 1) && conditions(operands[1], out, depth + 1);
        case Op::lt:
        case Op::le:
        case Op::gt:
        case Op::ge:
            break;
        default:
            return false;
    }
    if (!(fn_.type(operands[0]).elem == Fmt::i64)) return false;
    const auto a = forms_.sum_of(operands[0]), b = a ? forms_.sum_of(operands[1]) : std::nullopt;
    if (!b) return false;
    const bool less = def->op == Op::lt || def->op == Op::le;
    compared_.push_back(*a);
    compared_.push_back(*b);
    Condition sum = less ? *b : *a;
    add_scaled(sum, less ? *a : *b, -1);
    if (def->op == Op::le || def->op == Op::ge) add_scaled(sum, {{{}, 1}}, 1);
    out.push_back(std::move(sum));
    return true;
}

std::string Planner::masks(ValueId mask, const Shape& shape, ViewPlan& out) {
    std::vector<Condition> all;
    compared_.clear();
    const bool understood = conditions(mask, all, 0);
    out.compared = std::exchange(compared_, {});
    if (!understood) return "its mask is no conjunction of comparisons of i64 numbers";
    for (Condition& c : all)
        std::erase_if(c, [&](const auto& term) { return term.first.dim >= 0 && shape[static_cast<size_t>(term.first.dim)] == 1; });
    // What elements in front are masked by says where the axis starts, which upper limits count from.
    const auto is_floor = [](const Condition& c) {
        return std::any_of(c.begin(), c.end(), [](const auto& term) { return term.first.dim >= 0 && term.second > 0; });
    };
    put_first(all, is_floor);
    for (const Condition& c : all)
        if (std::string why = limit(c, out); !why.empty()) return why;
    return {};
}

/// lane < bound, or lane + start >= 0.
std::string Planner::limit(const Condition& condition, ViewPlan& out) {
    OffsetSum bound = condition;
    int dim = -1;
    int64_t slope = 0;
    for (const auto& [term, coefficient] : condition) {
        if (term.dim < 0) continue;
        if (dim >= 0 || !term.factors.empty()) return "its mask compares more than a lane's number with a limit";
        dim = term.dim;
        slope = coefficient;
    }
    if (dim < 0) return "its mask has a condition that all lanes share";
    if (slope != 1 && slope != -1) return "its mask compares multiples of a lane's number";
    std::erase_if(bound, [](const auto& term) { return term.first.dim >= 0; });
    const auto axis = std::find_if(out.axes.begin(), out.axes.end(), [&](const ViewAxis& a) { return a.dim == dim; });
    if (axis == out.axes.end()) return "its mask tells apart lanes with equal pointers";
    if (slope == 1) {
        add_scaled(bound, {{{}, 1}}, -1);  // lane + bound > 0
        if (!floors_.insert(dim).second && axis->start != bound) return "its mask has two lower limits";
        axis->start = std::move(bound);
        return {};
    }
    if (!floors_.contains(dim) && !axis->extent)
        for (const auto& [term, coefficient] : bound)
            if (!known(term)) axis->start[term] = -coefficient;
    add_scaled(bound, axis->start, 1);
    for (const auto& [term, coefficient] : bound)
        if (!known(term)) return "a limit of its mask is only known in the kernel";
    if (axis->extent && *axis->extent != bound) return "its mask has two upper limits";
    axis->extent = std::move(bound);
    return {};
}

/// Gives every term of the offset that only the kernel knows to an axis.
void Planner::starts(ViewPlan& out) {
    for (const ViewAxis& axis : out.axes) {
        const auto& [stride, step] = *axis.stride.begin();
        for (const auto& [term, coefficient] : axis.start) {
            OffsetTerm moved{term.factors, -1};
            moved.factors.insert(moved.factors.end(), stride.factors.begin(), stride.factors.end());
            std::sort(moved.factors.begin(), moved.factors.end());
            add_scaled(out.offset, {{std::move(moved), coefficient}}, -step);
        }
    }
    std::map<Factors, OffsetSum> others;  // what is left, by the factors that are known at launch
    for (auto it = out.offset.begin(); it != out.offset.end();) {
        const auto& [term, coefficient] = *it;
        if (known(term)) {
            ++it;
            continue;
        }
        ViewAxis* best = nullptr;
        Factors rest;
        for (ViewAxis& axis : out.axes) {
            const auto& [stride, step] = *axis.stride.begin();
            const auto left = without(term.factors, stride.factors);
            if (axis.extent || floors_.contains(axis.dim) || !left || coefficient % step || !known_factors(*left).empty()) continue;
            const auto size = [](const ViewAxis& a) { return std::pair(a.stride.begin()->first.factors.size(), a.stride.begin()->second); };
            if (!best || size(axis) > size(*best)) best = &axis, rest = *left;
        }
        if (best) {
            add_scaled(best->start, {{{std::move(rest), -1}, coefficient / best->stride.begin()->second}}, 1);
        } else {
            const Factors scale = known_factors(term.factors);
            others[scale][{*without(term.factors, scale), -1}] = coefficient;
        }
        it = out.offset.erase(it);
    }
    for (auto& [factors, sum] : others) {
        int64_t step = 0;
        for (const auto& term : sum) step = std::gcd(step, term.second);
        ViewAxis axis;
        axis.stride[{factors, -1}] = std::max<int64_t>(step, 1);
        for (auto& term : sum) axis.start[term.first] = term.second / std::max<int64_t>(step, 1);
        out.axes.push_back(std::move(axis));
    }
}

/// Single indices stand in front, the dimension whose neighbours lie side by side comes last; or, of a matrix, first.
std::string Planner::order(const Inst& inst, ViewPlan& out) {
    if (out.axes.empty()) {
        ViewAxis one;
        one.stride[{}] = 1;
        out.axes.push_back(std::move(one));
    }
    if (out.axes.size() > kMaxAxes) return "it would be a tensor of more than " + std::to_string(kMaxAxes) + " dimensions";
    put_first(out.axes, [](const ViewAxis& a) { return a.dim < 0; });
    const OffsetSum one{{{}, 1}};
    const auto unit = std::find_if(out.axes.begin(), out.axes.end(), [&](const ViewAxis& a) { return a.dim >= 0 && a.stride == one; });
    const bool both = out.axes.size() == 2 && out.axes.front().dim >= 0 && fn_.type(fn_.operands(inst)[0]).shape.rank == 2;
    out.may_turn = both && unit == out.axes.end();
    if (unit == out.axes.end() || out.axes.back().stride == one) return {};
    const bool matrix = both && unit == out.axes.begin();
    if (matrix)
        out.col = true;
    else
        std::rotate(unit, unit + 1, out.axes.end());
    return {};
}

/// Empty where no start is negative, if what is known at launch is not.
std::string Planner::nonnegative(const ViewPlan& plan) {
    for (const OffsetSum& sum : plan.compared)
        for (const auto& [term, coefficient] : sum)
            for (const uint32_t factor : term.factors)
                if (!visit_magnitude(fn_, ValueId{factor}, [](ValueId) {})) return "a number that its mask compares may be any";
    for (const ViewAxis& axis : plan.axes) {
        if (axis.dim >= 0 && floors_.contains(axis.dim)) continue;
        for (const auto& [term, coefficient] : axis.start) {
            if (coefficient < 0 && !known(term)) return "a limit of its mask, or where it starts, is only known in the kernel";
            for (const uint32_t factor : term.factors)
                if (!known(factor) && !forms_.is_assumed_nonnegative(ValueId{factor}) && !bounds_.at_least(ValueId{factor}, 0))
                    return "where it starts might be negative: `assume` that it is not";
        }
    }
    return {};
}

/// What is written through a pointer is reached through one view only, or through none.
void Planner::settle() {
    std::map<size_t, bool> written;
    std::set<size_t> elsewhere;  // roots that other accesses reach
    fn_.walk([&](InstId i) {
        const Inst& inst = fn_.inst(i);
        const bool pointers = inst.op == Op::ptr_load || inst.op == Op::ptr_store || inst.op == Op::ptr_atomic;
        const bool tensors = inst.op == Op::store || inst.op == Op::atomic;
        if (!pointers && !tensors) return;
        const auto root = forms_.root_of(fn_.operands(inst)[0]);
        if (!root) return;  // may be anywhere, for everyone
        if (inst.op != Op::ptr_load) written[*root] = true;
        if (inst.op == Op::ptr_atomic || tensors) elsewhere.insert(*root);
    });
    // What a tensor's own accesses read is apart from a view as long as nobody writes it.
    for (const auto& [root, is] : written)
        if (fn_.type(fn_.params[root].value).kind == Type::tensor) elsewhere.insert(root);
    for (const auto& [root, is] : written) {
        const ViewPlan* first = nullptr;
        std::string why = elsewhere.contains(root) ? "the kernel writes there otherwise, too" : "";
        for (const ViewPlan& p : plans_) {
            const auto own = forms_.root_of(fn_.operands(fn_.inst(p.access))[0]);
            if (!own || *own != root) continue;
            if (!p.why_not.empty()) why = "another access to what the kernel writes there is none";
            if (first && !first->is_same_view(p)) why = "the kernel writes there, and reaches it in several ways";
            if (!first) first = &p;
        }
        for (ViewPlan& p : plans_)
            if (p.why_not.empty() && p.root == root) p.why_not = why;
    }
}

}  // namespace

bool visit_magnitude(const Function& fn, ValueId v, const std::function<void(ValueId)>& visit, int depth) {
    if (known_at_launch(fn, v)) return visit(v), true;
    const Inst* def = fn.def(v);
    if (depth > 16) return false;
    if (!def) {
        const Value& value = fn.value(v);
        const InstId owner = fn.block(value.block).owner;
        if (!owner.valid() || fn.inst(owner).op != Op::for_loop || value.index != 0) return false;
        const auto bounds = fn.operands(fn.inst(owner));  // of a counter
        return visit_magnitude(fn, bounds[0], visit, depth + 1) && visit_magnitude(fn, bounds[1], visit, depth + 1);
    }
    switch (def->op) {
        case Op::program_id:
            return true;
        case Op::rem:
        case Op::div:
        case Op::div_ceil:
        case Op::div_trunc:
        case Op::rem_trunc:
        case Op::min:
        case Op::max:
            return visit_magnitude(fn, fn.operands(*def)[0], visit, depth + 1) && visit_magnitude(fn, fn.operands(*def)[1], visit, depth + 1);
        case Op::cast:
            return fn.elem(fn.operands(*def)[0]).is_int() && fn.elem(fn.operands(*def)[0]).bits <= 32;
        default:
            return false;
    }
}

bool ViewPlan::is_same_view(const ViewPlan& other) const {
    return root == other.root && col == other.col && offset == other.offset &&
           std::equal(axes.begin(), axes.end(), other.axes.begin(), other.axes.end(),
                      [](const ViewAxis& a, const ViewAxis& b) { return same_axis(a, b); });
}

std::vector<ViewPlan> plan_views(const Function& fn, const LaunchFacts& facts) {
    return fn.is_kernel ? Planner(fn, facts).run() : std::vector<ViewPlan>();
}

std::string view_refusal(const Function& fn, const LaunchFacts& facts, InstId access) {
    for (const ViewPlan& p : plan_views(fn, facts))
        if (p.access == access) return p.why_not;
    return {};
}

}  // namespace tegula
