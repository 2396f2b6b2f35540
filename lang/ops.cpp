// The op table: rows of ops.def as data (ir.h op_row), and look-up by name. Nothing here knows a single op.
#include <algorithm>
#include <array>
#include <utility>

#include "lang/directed.h"

namespace tegula::ir {

namespace {

constexpr Attrs none = {};
constexpr Attrs listed(auto... attrs) { return {{attrs...}, sizeof...(attrs), false}; }
constexpr Attrs repeated(auto... attrs) { return {{attrs...}, sizeof...(attrs), true}; }

using enum Attr;
constexpr std::array<OpRow, static_cast<size_t>(Op::count_)> kOpRows = {{
#define ELEMENTWISE(name, arity, domain, result, cost, int_expr, float_expr, doc) \
    {#name, arity, 1, PURE | ELEMWISE | POINTWISE | APART, cost, static_cast<uint32_t>(domain), ResultRule::result, none, doc},
#define STRUCTURED(name, operands, results, attrs, traits, cost, until, doc) \
    {#name, operands, results, traits, cost, 0, ResultRule::structured, attrs, doc},
#define ANY -1
#include "lang/ops.def"
#undef ANY
}};

}  // namespace

const OpRow& op_row(Op op) {
    TEGULA_CHECK(op < Op::count_);
    return kOpRows[static_cast<size_t>(op)];
}

Op find_op(std::string_view name) {
    static constexpr auto kByName = [] {
        std::array<std::pair<std::string_view, Op>, kOpRows.size()> names;
        for (size_t i = 0; i < names.size(); ++i) names[i] = {kOpRows[i].name, static_cast<Op>(i)};
        std::ranges::sort(names);
        return names;
    }();
    const auto it = std::ranges::lower_bound(kByName, name, {}, &std::pair<std::string_view, Op>::first);
    return it != kByName.end() && it->first == name ? it->second : Op::count_;
}

Op find_function(std::string_view name) {
    const Op op = find_op(name);
    return op != Op::count_ && has_trait(op, ELEMWISE) && !is_directed(op) ? op : Op::count_;
}

bool may_ask_caches(Op op) { return op == Op::load || op == Op::store || op == Op::ptr_load || op == Op::ptr_store || op == Op::channel_put; }

bool in_domain(Op op, const Format& format, bool pointer) {
    const uint32_t domain = op_row(op).domain;
    if (pointer) return domain & P;
    switch (format.kind) {
        case FormatKind::boolean:
            return domain & B;
        case FormatKind::integer:
            return domain & (format.is_signed ? S : U);
        case FormatKind::floating:
            return domain & F;
        case FormatKind::fixed:
        case FormatKind::lns:
            return domain & X;
        case FormatKind::codebook:
        case FormatKind::block:
            return false;
    }
    return false;
}

const char* to_string(ReduceKind kind) {
    static constexpr const char* names[] = {"sum", "prod", "min", "max", "minnum", "maxnum", "any", "all", "and", "or", "xor"};
    const auto i = static_cast<size_t>(kind);
    return i < std::size(names) ? names[i] : "?";
}

const char* to_string(AtomicKind kind) {
    static constexpr const char* names[] = {"add", "max", "min", "and", "or", "xor", "xchg", "cas"};
    const auto i = static_cast<size_t>(kind);
    return i < std::size(names) ? names[i] : "?";
}

}  // namespace tegula::ir
