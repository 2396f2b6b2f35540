// What a text that is being typed declares itself. See session_names.h.
#include "jit/engine/session_names.h"

namespace tegula {

namespace {

class Locals {
public:
    Locals(uint32_t end, const std::function<void(Meaning)>& add) : end_(end), add_(add) {}

    /// A block that is still open declares what it declares; of its statements only the last one can be open.
    void block(std::span<const ast::Stmt* const> statements) {
        if (!statements.empty()) inside(*statements.back());
        for (size_t i = statements.size(); i-- > 0;)
            if (statements[i]->kind == ast::StmtKind::let) pattern(ast::as<ast::LetStmt>(statements[i]).pattern, sema::NameKind::local);
    }
    void pattern(const ast::Pattern& names, sema::NameKind kind) {
        for (const ast::Name& name : names.names) add(name, kind);
    }
    void add(const ast::Name& name, sema::NameKind kind, std::string type = {}) {
        if (name.text != "_") add_({std::string(name.text), kind, std::move(type), {}, name.span, nullptr, {}});
    }
    bool is_open(Span span) const { return span.end >= end_; }

private:
    uint32_t end_;
    const std::function<void(Meaning)>& add_;

    void inside(const ast::Stmt& last) {
        if (!is_open(last.span)) return;
        switch (last.kind) {
            case ast::StmtKind::if_: {
                const auto& branch = ast::as<ast::IfStmt>(&last);
                block(branch.has_else ? branch.else_block.stmts : branch.then_block.stmts);
                break;
            }
            case ast::StmtKind::for_:
                block(ast::as<ast::ForStmt>(&last).body.stmts);
                pattern(ast::as<ast::ForStmt>(&last).pattern, sema::NameKind::local);
                break;
            case ast::StmtKind::while_:
                block(ast::as<ast::WhileStmt>(&last).body.stmts);
                break;
            case ast::StmtKind::block:
                block(ast::as<ast::BlockStmt>(&last).block.stmts);
                break;
            default:
                break;
        }
    }
};

}  // namespace

void local_meanings(const ast::Module& items, std::span<const ast::Stmt* const> statements, uint32_t end, const std::function<void(Meaning)>& add) {
    Locals locals(end, add);
    const ast::Item* item = items.items.empty() ? nullptr : items.items.back();
    if (item && locals.is_open(item->span)) {
        const auto generics = [&](std::span<const ast::GenericParam> params) {
            for (const ast::GenericParam& p : params) locals.add(p.name, sema::NameKind::generic);
        };
        const auto parameters = [&](std::span<const ast::Param> params) {
            for (const ast::Param& p : params) locals.add(p.name, sema::NameKind::parameter);
        };
        switch (item->kind) {
            case ast::ItemKind::fn:
                locals.block(ast::as<ast::FnItem>(item).body.stmts);
                parameters(ast::as<ast::FnItem>(item).params);
                generics(ast::as<ast::FnItem>(item).generics);
                return;
            case ast::ItemKind::kernel:
                locals.block(ast::as<ast::KernelItem>(item).body.stmts);
                parameters(ast::as<ast::KernelItem>(item).params);
                generics(ast::as<ast::KernelItem>(item).generics);
                return;
            case ast::ItemKind::test:
                return locals.block(ast::as<ast::TestItem>(item).body.stmts);
            case ast::ItemKind::bench:
                locals.block(ast::as<ast::BenchItem>(item).body.stmts);
                return locals.pattern(ast::as<ast::BenchItem>(item).pattern, sema::NameKind::local);
            default:
                return;
        }
    }
    locals.block(statements);
}

}  // namespace tegula
