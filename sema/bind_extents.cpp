// Extents of a launch: from the first tensor dimension that is just their name, else from one that is a sum, difference or product with it and
// in which everything else is known. What a dimension says beyond that is checked in launch.cpp.
#include <algorithm>

#include "sema/binder.h"
#include "sema/flow.h"
#include "sema/walk.h"

namespace tegula::sema {

void Binder::bind_dims(const ast::Param& p, const ast::IndexExpr& form, const ArgumentType& a) {
    if (form.items.size() != a.extents.rank) return;
    for (size_t d = 0; d < form.items.size(); ++d) {
        const ast::IndexItem& item = form.items[d];
        if (item.kind != ast::IndexItem::value || item.start->kind != ast::ExprKind::name) continue;
        const std::string_view name = ast::as<ast::NameExpr>(item.start).name;
        if (const ast::GenericParam* g = generic(name); g && !plan_.generics.count(name)) {
            set_generic(*g, StaticValue{a.extents[d]}, p.name.text);
        } else {
            bind_extent(p, item, name, a.extents[d]);
        }
    }
}

/// Extents that are given by name, out of what is given: those that follow from no tensor, or that tensors shall have.
void Binder::take_extents(StaticValues& given) {
    for (const std::string_view name : extent_names_) {
        const auto it = given.find(name);
        if (it == given.end()) continue;
        const __int128* value = std::get_if<__int128>(&it->second.v);
        if (value && *value >= 0 && *value <= INT64_MAX) {
            plan_.extents.emplace(name, static_cast<int64_t>(*value));
            define_index(name, static_cast<int64_t>(*value));
        } else {
            note(name, "an extent is an integer from 0 up, got " + to_string(it->second, types_));
        }
        given.erase(it);
    }
}

/// True when `name` is an extent that had no value.
bool Binder::bind_extent(const ast::Param& p, const ast::IndexItem& item, std::string_view name, int64_t value) {
    if (std::find(extent_names_.begin(), extent_names_.end(), name) == extent_names_.end() || plan_.extents.count(name)) return false;
    plan_.extents[std::string(name)] = value;
    extent_from_[name] = p.name.text;
    define_index(name, value, item.span);
    return true;
}

/// Gives the one extent without a value in a sum, difference or product the value that makes it `extent`, B in `[B + 1]`, or the nearest one
/// from 0 up: where that is another extent, check_tensor says so. True when it found one.
bool Binder::solve_dim(const ast::Param& p, const ast::IndexItem& item, int64_t extent) {
    const ast::Expr* e = item.start;
    if (item.kind != ast::IndexItem::value || e->kind != ast::ExprKind::binary || !is_open(*e)) return false;
    __int128 solved = extent;
    while (e->kind == ast::ExprKind::binary) {
        const auto& b = ast::as<ast::BinaryExpr>(e);
        const bool left = is_open(*b.lhs);
        if (left == is_open(*b.rhs)) return false;
        const auto other = e_.folded_int(value(left ? *b.rhs : *b.lhs, nullptr));
        if (!other) return false;
        if (b.op == ast::BinaryOp::add)
            solved -= *other;
        else if (b.op == ast::BinaryOp::sub)
            solved = left ? solved + *other : *other - solved;
        else if (b.op == ast::BinaryOp::mul && *other != 0)
            solved /= *other;
        else
            return false;
        solved = std::clamp<__int128>(solved, INT64_MIN, INT64_MAX);
        e = left ? b.lhs : b.rhs;
    }
    return e->kind == ast::ExprKind::name &&
           bind_extent(p, item, ast::as<ast::NameExpr>(e).name, static_cast<int64_t>(std::max<__int128>(solved, 0)));
}

void Binder::solve_extents(std::span<const ArgumentType> arguments) {
    for (bool found = true; found;) {
        found = false;
        for (size_t i = 0; i < std::min(arguments.size(), kernel_.params.size()); ++i) {
            const ast::IndexExpr* form = tensor_form(*kernel_.params[i].type);
            if (!form || arguments[i].kind != ArgumentType::tensor || form->items.size() != arguments[i].extents.rank) continue;
            for (size_t d = 0; d < form->items.size(); ++d) found |= solve_dim(kernel_.params[i], form->items[d], arguments[i].extents[d]);
        }
    }
}

}  // namespace tegula::sema
