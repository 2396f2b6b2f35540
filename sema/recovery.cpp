// The text that errors spoil, and the items that they break (recovery.h).
#include "sema/recovery.h"

#include <algorithm>

namespace tegula::sema {

namespace {

bool holds(Span text, Span at) { return text.file == at.file && text.begin <= at.begin && at.begin < text.end; }

/// The text that is spoiled by an error within the statements of a block, or of the blocks in them.
Span spoiled(const ast::Block& block, Span at) {
    const auto behind = std::ranges::upper_bound(block.stmts, at.begin, {}, [](const ast::Stmt* s) { return s->span.begin; });
    if (behind == block.stmts.begin()) return at;
    const ast::Stmt* s = *std::prev(behind);
    if (!holds(s->span, at)) return at;
    const auto below = [&](const ast::Expr* head, std::initializer_list<const ast::Block*> blocks) {
        for (const ast::Block* b : blocks)
            if (holds(b->span, at)) return spoiled(*b, at);
        return head && holds(head->span, at) ? head->span : at;
    };
    switch (s->kind) {
        case ast::StmtKind::if_: {
            const auto& i = ast::as<ast::IfStmt>(s);
            return i.has_else ? below(i.condition, {&i.then_block, &i.else_block}) : below(i.condition, {&i.then_block});
        }
        case ast::StmtKind::for_:
            return below(ast::as<ast::ForStmt>(s).iterable, {&ast::as<ast::ForStmt>(s).body});
        case ast::StmtKind::while_:
            return below(ast::as<ast::WhileStmt>(s).condition, {&ast::as<ast::WhileStmt>(s).body});
        case ast::StmtKind::block:
            return below(nullptr, {&ast::as<ast::BlockStmt>(s).block});
        default:
            return s->span;
    }
}

Span of_params(std::span<const ast::Param> params) {
    if (params.empty()) return {};
    const ast::Param& last = params.back();
    const ast::Expr* end = last.default_value ? last.default_value : last.type;
    return {last.name.span.file, params.front().name.span.begin, end ? end->span.end : last.name.span.end};
}

/// The stretch of `<..>` up to the parameters.
Span of_generics(const ast::Item& item, std::span<const ast::GenericParam> generics, std::span<const ast::Param> params) {
    if (generics.empty()) return {};
    const ast::GenericParam& last = generics.back();
    const ast::Expr* end = last.default_value ? last.default_value : last.bound;
    const uint32_t least = end ? end->span.end : last.name.span.end;
    return {item.span.file, item.name.span.end, params.empty() ? least : std::max(least, params.front().name.span.begin)};
}

Span spoiled(const ast::Item& item, Span at) {
    switch (item.kind) {
        case ast::ItemKind::kernel:
            return spoiled(ast::as<ast::KernelItem>(&item).body, at);
        case ast::ItemKind::fn:
            return spoiled(ast::as<ast::FnItem>(&item).body, at);
        case ast::ItemKind::test:
            return spoiled(ast::as<ast::TestItem>(&item).body, at);
        case ast::ItemKind::bench:
            return spoiled(ast::as<ast::BenchItem>(&item).body, at);
        case ast::ItemKind::const_:
        case ast::ItemKind::type:
            return item.span;
        default:
            return at;
    }
}

/// The last statement of a function is a value without `;`: it may have been meant to be returned.
bool is_unreturned(const ast::FnItem& fn, const Diagnostic& d) {
    if (d.id != Diag::syntax_error || !fn.result || fn.body.stmts.empty()) return false;
    const ast::Stmt& last = *fn.body.stmts.back();
    return last.kind == ast::StmtKind::expr && holds(last.span, d.span);
}

const ast::Item* item_at(const ast::Module& module, Span at) {
    const auto found = std::ranges::find_if(module.items, [at](const ast::Item* i) { return holds(i->span, at); });
    return found == module.items.end() ? nullptr : *found;
}

/// The mistake is one of punctuation: what the statement says is whole, and may have mistakes of its own.
bool is_whole(const Diagnostic& d) { return d.id == Diag::undeclared || d.id == Diag::syntax_error; }

/// Does the item lack text that an error has made unreadable?
bool lacks_text(const ast::Module& module, const ast::Item& item) {
    const auto first = std::ranges::upper_bound(module.damage, item.span.begin, {}, &Span::end);
    return first != module.damage.end() && first->begin < item.span.end;
}

}  // namespace

void settle_errors(const Module& module, DiagSink& diags, size_t first) {
    for (size_t i = first; i < diags.all().size(); ++i) {
        const Diagnostic& d = diags.all()[i];
        if (d.severity != Severity::error || !d.span.valid()) continue;
        diags.settle(d.span);
        if (is_whole(d)) continue;
        if (const ast::Item* item = item_at(*module.ast, d.span)) diags.settle(spoiled(*item, d.span));
    }
}

void note_broken(Module& module, const DiagSink& diags) {
    for (const ast::Item* item : module.ast->items)
        if (lacks_text(*module.ast, *item)) module.recovery.broken.insert(item);
    for (const Diagnostic& d : diags.all()) {
        const bool counts = d.severity == Severity::error && d.span.valid();
        // The brace that is still open shows the item that is cut short.
        const Span at = d.id == Diag::missing_brace && !d.labels.empty() ? d.labels.front().span : d.span;
        const ast::Item* item = counts ? item_at(*module.ast, at) : nullptr;
        if (!item || (item->kind != ast::ItemKind::kernel && item->kind != ast::ItemKind::fn)) continue;
        const bool kernel = item->kind == ast::ItemKind::kernel;
        const auto generics = kernel ? ast::as<ast::KernelItem>(item).generics : ast::as<ast::FnItem>(item).generics;
        const auto params = kernel ? ast::as<ast::KernelItem>(item).params : ast::as<ast::FnItem>(item).params;
        const ast::Expr* result = kernel ? nullptr : ast::as<ast::FnItem>(item).result;
        if (d.id == Diag::missing_brace || (!kernel && is_unreturned(ast::as<ast::FnItem>(item), d))) module.recovery.broken.insert(item);
        const bool in_generics = holds(of_generics(*item, generics, params), d.span);
        if (in_generics || holds(of_params(params), d.span) || (result && holds(result->span, d.span))) module.recovery.broken.insert(item);
        if (in_generics) module.recovery.without_instance.insert(item);
    }
}

}  // namespace tegula::sema
