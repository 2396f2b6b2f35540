// Walks over the statements and expressions of items (internal to workspace*.cpp).
#pragma once
#include <span>
#include <vector>

#include "lang/ast.h"
#include "sema/walk.h"

namespace tegula {

inline const ast::Block* body_of(const ast::Item& item) {
    switch (item.kind) {
        case ast::ItemKind::fn:
            return &ast::as<ast::FnItem>(&item).body;
        case ast::ItemKind::kernel:
            return &ast::as<ast::KernelItem>(&item).body;
        case ast::ItemKind::test:
            return &ast::as<ast::TestItem>(&item).body;
        case ast::ItemKind::bench:
            return &ast::as<ast::BenchItem>(&item).body;
        default:
            return nullptr;
    }
}

inline std::span<const ast::Param> parameters_of(const ast::Item& item) {
    if (item.kind == ast::ItemKind::fn) return ast::as<ast::FnItem>(&item).params;
    if (item.kind == ast::ItemKind::kernel) return ast::as<ast::KernelItem>(&item).params;
    return {};
}

inline std::span<const ast::GenericParam> generics_of(const ast::Item& item) {
    switch (item.kind) {
        case ast::ItemKind::fn:
            return ast::as<ast::FnItem>(&item).generics;
        case ast::ItemKind::kernel:
            return ast::as<ast::KernelItem>(&item).generics;
        case ast::ItemKind::type:
            return ast::as<ast::TypeItem>(&item).generics;
        case ast::ItemKind::struct_:
            return ast::as<ast::StructItem>(&item).generics;
        case ast::ItemKind::layout:
            return ast::as<ast::LayoutItem>(&item).generics;
        default:
            return {};
    }
}

inline std::span<const ast::Field> fields_of(const ast::Item& item) {
    return item.kind == ast::ItemKind::struct_ ? ast::as<ast::StructItem>(&item).fields : std::span<const ast::Field>();
}

/// The blocks of a statement, in order.
template <class Fn>
void blocks_of(const ast::Stmt& s, Fn&& fn) {
    switch (s.kind) {
        case ast::StmtKind::if_:
            fn(ast::as<ast::IfStmt>(&s).then_block);
            if (ast::as<ast::IfStmt>(&s).has_else) fn(ast::as<ast::IfStmt>(&s).else_block);
            break;
        case ast::StmtKind::for_:
            fn(ast::as<ast::ForStmt>(&s).body);
            break;
        case ast::StmtKind::while_:
            fn(ast::as<ast::WhileStmt>(&s).body);
            break;
        case ast::StmtKind::block:
            fn(ast::as<ast::BlockStmt>(&s).block);
            break;
        default:
            break;
    }
}

/// The expressions of a statement, those of its blocks not among them.
template <class Fn>
void expressions_of(const ast::Stmt& s, Fn&& fn) {
    const auto optional = [&](const ast::Expr* e) {
        if (e) fn(*e);
    };
    switch (s.kind) {
        case ast::StmtKind::let:
            optional(ast::as<ast::LetStmt>(&s).type);
            optional(ast::as<ast::LetStmt>(&s).init);
            break;
        case ast::StmtKind::assign:
            optional(ast::as<ast::AssignStmt>(&s).target);
            optional(ast::as<ast::AssignStmt>(&s).value);
            break;
        case ast::StmtKind::expr:
            optional(ast::as<ast::ExprStmt>(&s).expr);
            break;
        case ast::StmtKind::if_:
            optional(ast::as<ast::IfStmt>(&s).condition);
            break;
        case ast::StmtKind::for_:
            optional(ast::as<ast::ForStmt>(&s).iterable);
            break;
        case ast::StmtKind::while_:
            optional(ast::as<ast::WhileStmt>(&s).condition);
            break;
        case ast::StmtKind::return_:
            optional(ast::as<ast::ReturnStmt>(&s).value);
            break;
        default:
            break;
    }
}

/// Every statement, outer ones first.
template <class Fn>
void each_statement(const ast::Block& block, const Fn& fn) {
    for (const ast::Stmt* s : block.stmts) {
        fn(*s);
        blocks_of(*s, [&](const ast::Block& b) { each_statement(b, fn); });
    }
}

/// Every expression below `root`, itself first.
template <class Fn>
void each_expression(const ast::Expr& root, const Fn& fn) {
    std::vector<const ast::Expr*> open{&root};
    while (!open.empty()) {
        const ast::Expr* e = open.back();
        open.pop_back();
        fn(*e);
        sema::children(*e, open);
    }
}

}  // namespace tegula
