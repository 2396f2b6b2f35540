// Launch facts of a kernel instance: which tensor axes are which extents, what `where` says of extents, how far the grid reaches.
#include <algorithm>

#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/walk.h"

namespace tegula::sema {

namespace {

class Collector {
public:
    Collector(Elaborator& elaborator, const Module& module, const std::vector<std::string_view>& extents, const std::shared_ptr<Scope>& scope)
        : e_(elaborator), module_(module), extents_(extents), scope_(scope) {}
    LaunchFacts out;

    void dims(const ast::Param& p) {
        const ast::IndexExpr* form = tensor_form(*p.type);
        if (!form) return;
        for (size_t d = 0; d < form->items.size(); ++d)
            if (const auto name = form->items[d].start ? extent(*form->items[d].start) : std::string_view(); !name.empty())
                out.dims.push_back({std::string(p.name.text), static_cast<int>(d), std::string(name)});
    }

    void where(const ast::Expr& clause) {
        if (clause.kind != ast::ExprKind::binary) return;
        const auto& b = ast::as<ast::BinaryExpr>(&clause);
        if (b.op == ast::BinaryOp::logical_and) {
            where(*b.lhs);
            where(*b.rhs);
            return;
        }
        LaunchFacts::Fact fact;
        if (b.op == ast::BinaryOp::eq && b.lhs->kind == ast::ExprKind::binary && ast::as<ast::BinaryExpr>(b.lhs).op == ast::BinaryOp::rem) {
            const auto& rem = ast::as<ast::BinaryExpr>(b.lhs);
            const auto divisor = number(*rem.rhs), zero = number(*b.rhs);
            fact.extent = extent(*rem.lhs);
            if (!divisor || *divisor < 1 || !zero || *zero != 0) return;
            fact.divisor = *divisor;
        } else {
            const auto limit = number(*b.rhs);
            fact.extent = extent(*b.lhs);
            if (!limit) return;
            const bool upper = b.op == ast::BinaryOp::le || b.op == ast::BinaryOp::lt || b.op == ast::BinaryOp::eq;
            const bool lower = b.op == ast::BinaryOp::ge || b.op == ast::BinaryOp::gt || b.op == ast::BinaryOp::eq;
            if (upper) fact.at_most = *limit - (b.op == ast::BinaryOp::lt);
            if (lower) fact.at_least = *limit + (b.op == ast::BinaryOp::gt);
            if (!upper && !lower) return;
        }
        if (!fact.extent.empty()) out.facts.push_back(std::move(fact));
    }

    void grid(int axis, const ast::Expr& e) {
        LaunchFacts::GridFact fact;  // one per axis, even when nothing is known of it
        fact.axis = axis;
        if (const auto n = number(e)) {
            fact.at_most = *n - 1;
        } else if (const auto name = extent(e); !name.empty()) {
            fact.extent = name;
        } else if (is_cdiv(e)) {
            const auto& args = ast::as<ast::CallExpr>(&e).args;
            const auto tile = number(*args[1].value);
            const auto name_of = extent(*args[0].value);
            if (tile && *tile >= 1 && !name_of.empty()) {
                fact.extent = name_of;
                fact.tile = *tile;
            }
        }
        out.grid.push_back(std::move(fact));
    }

private:
    std::string_view extent(const ast::Expr& e) const {
        if (e.kind != ast::ExprKind::name) return {};
        const std::string_view name = ast::as<ast::NameExpr>(&e).name;
        return std::find(extents_.begin(), extents_.end(), name) == extents_.end() ? std::string_view() : name;
    }
    /// The built-in cdiv(a, b), not a function of that name.
    bool is_cdiv(const ast::Expr& e) const {
        if (e.kind != ast::ExprKind::call) return false;
        const auto& call = ast::as<ast::CallExpr>(&e);
        const bool plain = std::all_of(call.args.begin(), call.args.end(), [](const ast::Arg& a) { return a.name.text.empty(); });
        return call.callee->kind == ast::ExprKind::name && base_name(*call.callee) == "cdiv" && plain && call.args.size() == 2 &&
               !scope_->find("cdiv") && !is_item(module_, "cdiv");
    }
    /// The value of an expression of constants and generics only, in the arithmetic of its types.
    std::optional<int64_t> number(const ast::Expr& e) {
        const auto n = e_.folded_int(e_.clause(e, scope_));
        constexpr int64_t kFar = int64_t{1} << 62;  // leaves room for the +-1 above
        return n && *n <= kFar && *n >= -kFar ? std::optional(static_cast<int64_t>(*n)) : std::nullopt;
    }
    Elaborator& e_;
    const Module& module_;
    const std::vector<std::string_view>& extents_;
    std::shared_ptr<Scope> scope_;
};

}  // namespace

/// `scope` holds the generics only: a clause that also needs a scalar parameter tells nothing here, and its errors are found elsewhere.
LaunchFacts launch_facts(const Module& module, const ast::KernelItem& kernel, const std::shared_ptr<Scope>& scope, TypeTable& types,
                         const Limits& limits) {
    DiagSink scratch;
    Elaborator static_only(types, limits, scratch);
    const std::vector<std::string_view> extents = extent_names(module, kernel);
    const std::shared_ptr<Scope> inner = make_scope(scope);  // what only a launch knows hides items of its name
    for (const ast::Param& p : kernel.params) define(*inner, p.name.text, Value{});
    for (const std::string_view name : extents) define(*inner, name, Value{});
    Collector c(static_only, module, extents, inner);
    for (const ast::Param& p : kernel.params) c.dims(p);
    for (const ast::Expr* w : kernel.where) c.where(*w);
    for (size_t i = 0; i < kernel.grid.size() && i < 3; ++i) c.grid(static_cast<int>(i), *kernel.grid[i]);
    return std::move(c.out);
}

}  // namespace tegula::sema
