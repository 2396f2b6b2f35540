// Sums that pointers are moved by (pointer_form.h).
#include "lower/gpu/pointer_form.h"

#include <algorithm>

#include "lang/made_in.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kMaxDepth = 64;
constexpr int kMaxWork = 2048;
constexpr size_t kMaxTerms = 24;
constexpr size_t kMaxFactors = 6;

/// The dimension of `to` that dimension `d` of `from` becomes in a reshape that adds and drops dimensions of extent 1 only; -1: it does more.
int reshaped_dimension(const Shape& from, const Shape& to, int d) {
    std::vector<int64_t> a, b;
    const auto longer = [](int64_t e) { return e != 1; };
    std::copy_if(from.begin(), from.end(), std::back_inserter(a), longer);
    std::copy_if(to.begin(), to.end(), std::back_inserter(b), longer);
    if (a != b) return -1;
    auto left = std::count_if(from.begin(), from.begin() + d, longer);
    for (int i = 0; i < to.rank; ++i)
        if (longer(to[static_cast<size_t>(i)]) && left-- == 0) return i;
    return -1;
}

void add_nonnegative(const Function& fn, ValueId condition, int depth, std::set<uint32_t>& out) {
    const Inst* def = fn.def(condition);
    if (!def || depth > 32) return;
    const auto in = fn.operands(*def);
    if (def->op == Op::bit_and) {
        add_nonnegative(fn, in[0], depth + 1, out);
        add_nonnegative(fn, in[1], depth + 1, out);
    } else if (in.size() == 2 && fn.type(in[0]).elem == Fmt::i64 && fn.type(in[0]).shape.rank == 0) {
        int64_t c = 0;
        if ((def->op == Op::ge || def->op == Op::gt) && constant_int(fn, in[1], c) && c >= 0 - (def->op == Op::gt)) out.insert(in[0].v);
        if ((def->op == Op::le || def->op == Op::lt) && constant_int(fn, in[0], c) && c >= 0 - (def->op == Op::lt)) out.insert(in[1].v);
    }
}

}  // namespace

std::set<uint32_t> assumed_nonnegative(const Function& fn) {
    std::set<uint32_t> out;
    for (const InstId i : fn.block(fn.body).insts)
        if (fn.inst(i).op == Op::assume) add_nonnegative(fn, fn.operands(fn.inst(i))[0], 0, out);
    return out;
}

void add_scaled(OffsetSum& to, const OffsetSum& from, int64_t by) {
    for (const auto& [term, coefficient] : from) {
        const auto more = static_cast<int64_t>(static_cast<uint64_t>(coefficient) * static_cast<uint64_t>(by));
        int64_t& mine = to[term];
        mine = static_cast<int64_t>(static_cast<uint64_t>(mine) + static_cast<uint64_t>(more));
        if (mine == 0) to.erase(term);
    }
}

std::optional<OffsetSum> PointerForms::product(const OffsetSum& a, const OffsetSum& b) {
    OffsetSum out;
    for (const auto& [x, m] : a)
        for (const auto& [y, n] : b) {
            if (x.dim >= 0 && y.dim >= 0) return no("offsets are products of two lane numbers");
            OffsetTerm term{x.factors, std::max(x.dim, y.dim)};
            term.factors.insert(term.factors.end(), y.factors.begin(), y.factors.end());
            std::sort(term.factors.begin(), term.factors.end());
            if (term.factors.size() > kMaxFactors) return no("offsets are products of too many numbers");
            add_scaled(out, {{std::move(term), m}}, n);
        }
    if (out.size() > kMaxTerms) return no("offsets are sums of too many terms");
    return out;
}

std::optional<OffsetSum> PointerForms::renumbered(const OffsetSum& sum, const Inst& shape_op) {
    const Shape &from = fn_.type(fn_.operands(shape_op)[0]).shape, &to = fn_.type(fn_.result(shape_op)).shape;
    OffsetSum out;
    for (const auto& [term, coefficient] : sum) {
        OffsetTerm at = term;
        for (const uint32_t factor : at.factors)
            if (fn_.type(ValueId{factor}).shape.rank != 0) return no("a loop carries a tile of offsets and changes its shape");
        if (at.dim >= 0 && shape_op.op == Op::broadcast) at.dim += to.rank - from.rank;
        if (at.dim >= 0 && shape_op.op == Op::permute) {
            const auto axes = fn_.attrs(shape_op);
            at.dim = static_cast<int>(std::find(axes.begin(), axes.end(), at.dim) - axes.begin());
        }
        if (at.dim >= 0 && shape_op.op == Op::reshape) {
            at.dim = reshaped_dimension(from, to, at.dim);
            if (at.dim < 0) return no("tiles of offsets are reshaped");
        }
        add_scaled(out, {{std::move(at), coefficient}}, 1);
    }
    return out;
}

/// Narrow lane numbers that do not wrap, made of constants only, keep their values.
std::optional<OffsetSum> PointerForms::widened(const Inst& cast, int depth) {
    const ValueId from = fn_.operands(cast)[0];
    const Format& f = fn_.elem(from);
    if (fn_.operands(cast).size() != 1 || !f.is_int() || f.bits > 64) return no("offsets are cast from another type");
    auto sum = sum_of(from, depth + 1);
    if (!sum) return std::nullopt;
    __extension__ using Wide = __int128;
    Wide low = 0, high = 0;
    for (const auto& [term, coefficient] : *sum) {
        if (!term.factors.empty()) return no("narrow offsets may wrap: compute them in i64");
        const Shape& shape = fn_.type(from).shape;
        const Wide reach = term.dim < 0 ? Wide(coefficient) : Wide(coefficient) * (shape[static_cast<size_t>(term.dim)] - 1);
        (reach < 0 ? low : high) += reach;
    }
    const Wide most = (Wide(1) << (f.bits - f.is_signed)) - 1, least = f.is_signed ? -most - 1 : 0;
    if (low < least || high > most) return no("narrow offsets may wrap: compute them in i64");
    return sum;
}

std::optional<PointerForms::Carried> PointerForms::carried(ValueId v) const {
    const Value& value = fn_.value(v);
    if (value.def.valid() || value.index == 0) return std::nullopt;
    const InstId owner = fn_.block(value.block).owner;
    if (!owner.valid() || fn_.inst(owner).op != Op::for_loop) return std::nullopt;
    const Inst& loop = fn_.inst(owner);
    return Carried{fn_.operands(loop)[2 + value.index], fn_.operands(fn_.inst(fn_.block(value.block).insts.back()))[value.index - 1], &loop};
}

/// start + trip * step, where the trip's number is (counter - lo) / step of the loop.
std::optional<OffsetSum> PointerForms::moved(OffsetSum start, const OffsetSum& step, const Inst& loop, int depth) {
    const auto operands = fn_.operands(loop);
    int64_t by = 0;
    if (!constant_int(fn_, operands[2], by) || by <= 0) return no("a loop's step is only known in the kernel");
    const Block& body = fn_.block(fn_.blocks(loop)[0]);
    const InstId owner = body.owner;
    OffsetSum each;
    for (const auto& [term, coefficient] : step) {
        for (const uint32_t factor : term.factors)
            if (made_in(fn_, ValueId{factor}, owner)) return no("a loop moves them by another number each time");
        if (term.dim >= 0) return no("a loop moves the lanes apart");
        if (coefficient % by != 0) return no("a loop's step does not divide what it moves them by");
        each[term] = coefficient / by;
    }
    OffsetSum trips{{{{body.args[0].v}, -1}, 1}};
    const auto low = sum_of(operands[0], depth + 1);
    if (!low) return std::nullopt;
    add_scaled(trips, *low, -1);
    const auto way = product(trips, each);
    if (!way) return std::nullopt;
    add_scaled(start, *way, 1);
    return start;
}

std::optional<OffsetSum> PointerForms::sum_of(ValueId v) {
    work_ = 0;
    return sum_of(v, 0);
}

std::optional<OffsetSum> PointerForms::sum_of(ValueId v, int depth) {
    const Type& t = fn_.type(v);
    if (depth > kMaxDepth || ++work_ > kMaxWork) return no("offsets are made in too many steps");
    int64_t c = 0;
    if (constant_int(fn_, v, c)) return c == 0 ? OffsetSum{} : OffsetSum{{{}, c}};
    const auto leaf = [&]() -> std::optional<OffsetSum> {
        if (t.shape.rank == 0) return OffsetSum{{{{v.v}, -1}, 1}};
        return no("lanes read their offsets, or compute them otherwise than by sums and products");
    };
    if (t.shape.rank == 0 && assumed_.contains(v.v)) return leaf();
    const bool wide = t.kind == Type::tile && !t.pointer && t.elem == Fmt::i64;
    const Inst* def = fn_.def(v);
    if (!def) {
        if (is_open(v)) return OffsetSum{{{{v.v}, -1}, 1}};
        const std::string why = why_;
        auto out = wide ? carried_sum(v, depth) : std::nullopt;
        if (!out && t.shape.rank == 0) why_ = why;
        return out || t.shape.rank != 0 ? out : leaf();
    }
    const std::span<const ValueId> operands = fn_.operands(*def);
    const auto operand = [&](size_t i) { return sum_of(operands[i], depth + 1); };
    const auto total = [&](int64_t sign) -> std::optional<OffsetSum> {
        auto a = operand(0);
        const auto b = a ? operand(1) : std::nullopt;
        if (!b) return std::nullopt;
        add_scaled(*a, *b, sign);
        if (a->size() > kMaxTerms) return no("offsets are sums of too many terms");
        return a;
    };
    switch (def->op) {
        case Op::iota:
            if (t.shape[static_cast<size_t>(fn_.attrs(*def)[0])] == 1) return OffsetSum{};
            return OffsetSum{{{{}, static_cast<int>(fn_.attrs(*def)[0])}, 1}};
        case Op::broadcast:
        case Op::reshape:
        case Op::permute: {
            auto inner = operand(0);
            return inner ? renumbered(std::move(*inner), *def) : std::nullopt;
        }
        case Op::convert:
            return operand(0);
        case Op::add:
            return total(1);
        case Op::sub:
            return total(-1);
        case Op::mul: {
            const auto a = operand(0), b = a ? operand(1) : std::nullopt;
            if (!b) return std::nullopt;
            const std::string why = why_;
            auto out = product(*a, *b);
            if (out || t.shape.rank != 0) return out;
            why_ = why;
            return leaf();
        }
        case Op::shl:
            if (!constant_int(fn_, operands[1], c) || c < 0 || c > 62) return leaf();
            if (auto inner = operand(0)) return product(*inner, {{{}, int64_t{1} << c}});
            return std::nullopt;
        case Op::cast:
            if (t.shape.rank == 0) return leaf();
            return widened(*def, depth);
        default:
            return leaf();
    }
}

/// A number or a tile of them that each trip of a loop moves by the same.
std::optional<OffsetSum> PointerForms::carried_sum(ValueId v, int depth) {
    const auto loop = carried(v);
    if (!loop) return no("offsets come from one of several places");
    open_.push_back(v);
    auto next = sum_of(loop->next, depth + 1);
    open_.pop_back();
    const OffsetTerm self{{v.v}, -1};
    if (!next || !next->contains(self) || next->at(self) != 1) return no("a loop computes them anew each time");
    next->erase(self);
    auto start = sum_of(loop->start, depth + 1);
    return start ? moved(std::move(*start), *next, *loop->loop, depth) : std::nullopt;
}

/// What is carried to the next trip is the carried pointer, moved, which stands for a parameter of its own meanwhile.
std::optional<PointerForm> PointerForms::carried_form(ValueId v, int depth) {
    const auto loop = carried(v);
    if (!loop) return no("they come from memory, or from one of several places");
    open_.push_back(v);
    const size_t own = SIZE_MAX - open_.size();
    const auto next = form_of(loop->next, depth + 1);
    open_.pop_back();
    if (!next || next->root != own) return no("a loop carries them from one place to another");
    auto start = form_of(loop->start, depth + 1);
    auto offset = start ? moved(std::move(start->offset), next->offset, *loop->loop, depth) : std::nullopt;
    return offset ? std::optional(PointerForm{start->root, std::move(*offset)}) : std::nullopt;
}

std::optional<PointerForm> PointerForms::form_of(ValueId pointers) {
    work_ = 0;
    why_.clear();
    return form_of(pointers, 0);
}

std::optional<PointerForm> PointerForms::form_of(ValueId v, int depth) {
    if (depth > kMaxDepth || ++work_ > kMaxWork) return no("they are made in too many steps");
    for (size_t p = 0; p < fn_.params.size(); ++p)
        if (fn_.params[p].value == v) return PointerForm{p, {}};
    const Inst* def = fn_.def(v);
    if (!def) {
        const auto itself = std::find(open_.begin(), open_.end(), v);
        if (itself != open_.end()) return PointerForm{SIZE_MAX - 1 - static_cast<size_t>(itself - open_.begin()), {}};
        return carried_form(v, depth);
    }
    switch (def->op) {
        case Op::tensor_ptr:
        case Op::convert:
            return form_of(fn_.operands(*def)[0], depth + 1);
        case Op::ptr_add: {
            auto from = form_of(fn_.operands(*def)[0], depth + 1);
            const auto by = from ? sum_of(fn_.operands(*def)[1], depth + 1) : std::nullopt;
            if (!by) return std::nullopt;
            add_scaled(from->offset, *by, 1);
            return from;
        }
        case Op::broadcast:
        case Op::reshape:
        case Op::permute: {
            auto from = form_of(fn_.operands(*def)[0], depth + 1);
            if (from && from->root > SIZE_MAX / 2 && fn_.type(fn_.operands(*def)[0]).shape.rank != 0)
                return no("a loop carries them and changes the tile's shape");
            auto offset = from ? renumbered(std::move(from->offset), *def) : std::nullopt;
            return offset ? std::optional(PointerForm{from->root, std::move(*offset)}) : std::nullopt;
        }
        case Op::ptr_at:
            return no("they are made from addresses, which may lie in any tensor");
        default:
            return no("they come from memory, or from one of several places");
    }
}

std::optional<size_t> PointerForms::root_of(ValueId v) const {
    std::vector<ValueId> seen;
    for (;;) {
        for (size_t p = 0; p < fn_.params.size(); ++p)
            if (fn_.params[p].value == v) return p;
        if (std::find(seen.begin(), seen.end(), v) != seen.end()) return std::nullopt;
        seen.push_back(v);
        const Inst* def = fn_.def(v);
        if (!def) {
            const auto loop = carried(v);
            if (!loop) return std::nullopt;
            v = loop->start;  // where the next one comes from another parameter, form_of refuses
            continue;
        }
        switch (def->op) {
            case Op::tensor_ptr:
            case Op::convert:
            case Op::ptr_add:
            case Op::broadcast:
            case Op::reshape:
            case Op::permute:
                v = fn_.operands(*def)[0];
                break;
            default:
                return std::nullopt;
        }
    }
}

}  // namespace tegula
