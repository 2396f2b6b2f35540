// Syntax questions of walk.h. Walks keep their own stack, because operator chains may be thousands of nodes deep.
#include "sema/walk.h"

#include <algorithm>

namespace tegula::sema {

namespace {

using Exprs = std::vector<const ast::Expr*>;

void push(Exprs& out, const ast::Expr* e) {
    if (e) out.push_back(e);
}

void push_args(Exprs& out, std::span<const ast::Arg> args) {
    for (const ast::Arg& a : args) push(out, a.value);
}

void index_children(const ast::IndexExpr& e, Exprs& out) {
    push(out, e.base);
    for (const ast::IndexItem& item : e.items) {
        if (item.kind == ast::IndexItem::all || item.kind == ast::IndexItem::new_axis) continue;
        push(out, item.start);
        push(out, item.extent);
        push(out, item.step);
    }
}

}  // namespace

void children(const ast::Expr& e, Exprs& out) {
    using K = ast::ExprKind;
    switch (e.kind) {
        case K::int_lit:
        case K::float_lit:
        case K::bool_lit:
        case K::string_lit:
        case K::none_lit:
        case K::name:
            return;
        case K::member:
            return push(out, ast::as<ast::MemberExpr>(&e).base);
        case K::instantiate:
            push(out, ast::as<ast::InstantiateExpr>(&e).base);
            return push_args(out, ast::as<ast::InstantiateExpr>(&e).args);
        case K::index:
            return index_children(ast::as<ast::IndexExpr>(&e), out);
        case K::call:
            push(out, ast::as<ast::CallExpr>(&e).callee);
            return push_args(out, ast::as<ast::CallExpr>(&e).args);
        case K::unary:
            return push(out, ast::as<ast::UnaryExpr>(&e).operand);
        case K::binary:
            push(out, ast::as<ast::BinaryExpr>(&e).lhs);
            return push(out, ast::as<ast::BinaryExpr>(&e).rhs);
        case K::else_value:
            push(out, ast::as<ast::ElseExpr>(&e).access);
            return push(out, ast::as<ast::ElseExpr>(&e).value);
        case K::tuple:
            out.insert(out.end(), ast::as<ast::TupleExpr>(&e).items.begin(), ast::as<ast::TupleExpr>(&e).items.end());
            return;
        case K::array:
            out.insert(out.end(), ast::as<ast::ArrayExpr>(&e).items.begin(), ast::as<ast::ArrayExpr>(&e).items.end());
            return;
        case K::set:
            out.insert(out.end(), ast::as<ast::SetExpr>(&e).items.begin(), ast::as<ast::SetExpr>(&e).items.end());
            return;
        case K::range: {
            const auto& r = ast::as<ast::RangeExpr>(&e);
            push(out, r.lo);
            push(out, r.hi);
            return push(out, r.step);
        }
        case K::index_form: {
            const auto& f = ast::as<ast::IndexFormExpr>(&e);
            push(out, f.reducer);
            for (const ast::IndexBinder& b : f.binders) push(out, b.extent);
            return push(out, f.body);
        }
        case K::lambda:
            return push(out, ast::as<ast::LambdaExpr>(&e).body);
        case K::annotated:
            push(out, ast::as<ast::AnnotatedExpr>(&e).base);
            return push(out, ast::as<ast::AnnotatedExpr>(&e).layout);
    }
}

std::vector<ast::Name> names_in(const ast::Expr& root, bool with_generics) {
    std::vector<ast::Name> out;
    Exprs stack{&root}, kids;
    while (!stack.empty()) {
        const ast::Expr* e = stack.back();
        stack.pop_back();
        if (e->kind == ast::ExprKind::name) out.push_back({ast::as<ast::NameExpr>(e).name, e->span});
        kids.clear();
        if (with_generics || e->kind != ast::ExprKind::instantiate) children(*e, kids);
        const bool has_callee = e->kind == ast::ExprKind::call || e->kind == ast::ExprKind::instantiate;
        if (has_callee && !kids.empty() && kids.front()->kind == ast::ExprKind::name) kids.erase(kids.begin());
        stack.insert(stack.end(), kids.rbegin(), kids.rend());
    }
    return out;
}

const ast::IndexExpr* tensor_form(const ast::Expr& type) {
    const ast::Expr* e = &type;
    if (e->kind == ast::ExprKind::annotated) e = ast::as<ast::AnnotatedExpr>(e).base;
    if (e->kind != ast::ExprKind::index) return nullptr;
    const auto& index = ast::as<ast::IndexExpr>(e);
    return index.base->kind == ast::ExprKind::instantiate && base_name(*index.base) == "tensor" ? &index : nullptr;
}

const ast::Expr* annotation(const ast::Expr& type) {
    return type.kind == ast::ExprKind::annotated ? ast::as<ast::AnnotatedExpr>(&type).layout : nullptr;
}

std::string_view base_name(const ast::Expr& e) {
    const ast::Expr* at = &e;
    while (at->kind == ast::ExprKind::instantiate) at = ast::as<ast::InstantiateExpr>(at).base;
    return at->kind == ast::ExprKind::name ? ast::as<ast::NameExpr>(at).name : std::string_view();
}

bool is_item(const Module& module, std::string_view name) {
    if (module.find(name)) return true;
    for (const Module::Import& i : module.imports)
        if (i.alias == name) return true;
    return std::any_of(module.prelude.begin(), module.prelude.end(), [&](const auto& p) { return p->has(name); });
}

namespace {

/// Is `name` an item that may stand for a number?
bool may_be_number(const Module& module, std::string_view name) {
    if (const ast::Item* item = module.find(name)) return item->kind == ast::ItemKind::const_;
    return std::any_of(module.imports.begin(), module.imports.end(), [&](const auto& i) { return i.alias == name; });
}

}  // namespace

std::vector<std::string_view> extent_names(const Module& module, const ast::KernelItem& kernel) {
    std::vector<std::string_view> out;
    const auto known = [&](std::string_view name, bool alone) {
        const auto same = [&](const auto& p) { return p.name.text == name; };
        return std::any_of(kernel.generics.begin(), kernel.generics.end(), same) || std::any_of(kernel.params.begin(), kernel.params.end(), same) ||
               std::find(out.begin(), out.end(), name) != out.end() || (alone ? may_be_number(module, name) : is_item(module, name));
    };
    for (const ast::Param& p : kernel.params) {
        const ast::IndexExpr* form = p.type ? tensor_form(*p.type) : nullptr;
        if (!form) continue;
        for (const ast::IndexItem& item : form->items) {
            if (item.kind != ast::IndexItem::value) continue;
            for (const ast::Name& n : names_in(*item.start, false))  // what is between < and > is known at compile time: no extent
                if (!known(n.text, item.start->kind == ast::ExprKind::name)) out.push_back(n.text);
        }
    }
    return out;
}

bool determines(const ast::Expr& root, std::string_view name) {
    const auto mentions = [&](const ast::Expr& e) {
        const std::vector<ast::Name> names = names_in(e);
        return std::any_of(names.begin(), names.end(), [&](const ast::Name& n) { return n.text == name; });
    };
    const ast::Expr* e = &root;
    while (e->kind == ast::ExprKind::binary) {
        const auto& b = ast::as<ast::BinaryExpr>(e);
        if (b.op != ast::BinaryOp::add && b.op != ast::BinaryOp::sub && b.op != ast::BinaryOp::mul) return false;
        const bool left = mentions(*b.lhs);
        if (left == mentions(*b.rhs)) return false;
        e = left ? b.lhs : b.rhs;
    }
    return e->kind == ast::ExprKind::name && ast::as<ast::NameExpr>(e).name == name;
}

namespace {

constexpr size_t kLongestText = 160;

/// A work item of the printer: text, or an expression still to print, in parentheses when it binds less tightly than `level`.
struct Piece {
    std::string text;
    const ast::Expr* e = nullptr;
    int level = 0;
};
constexpr int kTightest = 100;

int precedence(ast::BinaryOp op) {
    using B = ast::BinaryOp;
    switch (op) {
        case B::logical_or:
            return 1;
        case B::logical_and:
            return 2;
        case B::eq:
        case B::ne:
        case B::lt:
        case B::le:
        case B::gt:
        case B::ge:
            return 3;
        case B::add:
        case B::sub:
            return 5;
        case B::mul:
        case B::div:
        case B::rem:
            return 6;
        default:
            return 4;
    }
}

void list(std::vector<Piece>& out, const char* open, std::span<const ast::Expr* const> items, const char* close) {
    out.push_back({open});
    for (size_t i = 0; i < items.size(); ++i) {
        if (i) out.push_back({", "});
        out.push_back({"", items[i]});
    }
    out.push_back({close});
}

void args(std::vector<Piece>& out, const char* open, std::span<const ast::Arg> items, const char* close) {
    out.push_back({open});
    for (size_t i = 0; i < items.size(); ++i) {
        if (i) out.push_back({", "});
        if (!items[i].name.text.empty()) out.push_back({std::string(items[i].name.text) + " = "});
        out.push_back({"", items[i].value});
    }
    out.push_back({close});
}

std::vector<Piece> pieces(const ast::Expr& e, int level) {
    using K = ast::ExprKind;
    std::vector<Piece> out;
    switch (e.kind) {
        case K::int_lit:
            out.push_back({std::to_string(ast::as<ast::IntLit>(&e).value)});
            break;
        case K::float_lit:
            out.push_back({std::string(ast::as<ast::FloatLit>(&e).text)});
            break;
        case K::bool_lit:
            out.push_back({ast::as<ast::BoolLit>(&e).value ? "true" : "false"});
            break;
        case K::name:
            out.push_back({std::string(ast::as<ast::NameExpr>(&e).name)});
            break;
        case K::member:
            out.push_back({"", ast::as<ast::MemberExpr>(&e).base, kTightest});
            out.push_back({"." + std::string(ast::as<ast::MemberExpr>(&e).member.text)});
            break;
        case K::instantiate:
            out.push_back({"", ast::as<ast::InstantiateExpr>(&e).base, kTightest});
            args(out, "<", ast::as<ast::InstantiateExpr>(&e).args, ">");
            break;
        case K::call:
            out.push_back({"", ast::as<ast::CallExpr>(&e).callee, kTightest});
            args(out, "(", ast::as<ast::CallExpr>(&e).args, ")");
            break;
        case K::unary:
            out.push_back({ast::spelling(ast::as<ast::UnaryExpr>(&e).op)});
            out.push_back({"", ast::as<ast::UnaryExpr>(&e).operand, kTightest});
            break;
        case K::binary: {
            const auto& b = ast::as<ast::BinaryExpr>(&e);
            const int own = precedence(b.op);
            const bool bits = own == 4;
            if (own < level) out.push_back({"("});
            out.push_back({"", b.lhs, bits ? kTightest : own});
            out.push_back({std::string(" ") + ast::spelling(b.op) + " "});
            out.push_back({"", b.rhs, bits ? kTightest : own + 1});
            if (own < level) out.push_back({")"});
            break;
        }
        case K::tuple:
            list(out, "(", ast::as<ast::TupleExpr>(&e).items, ")");
            break;
        case K::array:
            list(out, "[", ast::as<ast::ArrayExpr>(&e).items, "]");
            break;
        case K::set:
            list(out, "{", ast::as<ast::SetExpr>(&e).items, "}");
            break;
        default:
            out.push_back({".."});
            break;
    }
    return out;
}

}  // namespace

std::string source_text(const ast::Expr& root) {
    std::string out;
    std::vector<Piece> stack{{"", &root, 0}};
    while (!stack.empty()) {
        const Piece p = std::move(stack.back());
        stack.pop_back();
        if (!p.e) {
            out += p.text;
            if (out.size() > kLongestText) return out + " ..";
            continue;
        }
        std::vector<Piece> parts = pieces(*p.e, p.level);
        for (auto it = parts.rbegin(); it != parts.rend(); ++it) stack.push_back(std::move(*it));
    }
    return out;
}

}  // namespace tegula::sema
