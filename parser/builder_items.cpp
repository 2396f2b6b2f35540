// Items of the Builder: import, const, type, struct, layout, fn, kernel, test, bench, edition.
#include <algorithm>

#include "parser/builder.h"

namespace tegula::syntax {

using namespace tegula::ast;

namespace {

template <class T, class... Fields>
const T* make_item(Builder& b, ItemKind kind, Span span, const Name& name, const Fields&... fields) {
    return b.arena.make<T>(Item{kind, span, name, b.scanner.docs_at(span.begin)}, fields...);
}

}  // namespace

ItemPtr Builder::import_module(Names path, const Name& alias, Span span) {
    std::string text;
    for (const Name& part : path) {
        if (!text.empty()) text += '.';
        text += part.text;
    }
    const Name& name = alias.text.empty() ? path.back() : alias;
    return make_item<ImportItem>(*this, ItemKind::import, span, name, false, arena.copy(std::string_view(text)));
}

ItemPtr Builder::import_path(std::string_view path, const Name& alias, Span span) {
    return make_item<ImportItem>(*this, ItemKind::import, span, alias, true, path);
}

ItemPtr Builder::const_item(const Name& name, ExprPtr type, ExprPtr value, Span span) {
    return make_item<ConstItem>(*this, ItemKind::const_, span, name, type, value);
}

ItemPtr Builder::type_item(const Name& name, Generics generics, ExprPtr value, Span span) {
    return make_item<TypeItem>(*this, ItemKind::type, span, name, generics, value);
}

ItemPtr Builder::struct_item(const Name& name, Generics generics, std::span<const Field> fields, Span span) {
    return make_item<StructItem>(*this, ItemKind::struct_, span, name, generics, fields);
}

ItemPtr Builder::layout_item(const Name& name, Generics generics, std::span<const IndexBinder> dims, ExprPtr value, ExprPtr extents,
                              Span span) {
    return make_item<LayoutItem>(*this, ItemKind::layout, span, name, generics, dims, value, extents);
}

ItemPtr Builder::fn_item(const Name& name, Generics generics, std::span<const Param> params, ExprPtr result, Attributes attributes,
                         const Block& body, Span span) {
    return make_item<FnItem>(*this, ItemKind::fn, span, name, generics, params, result, attributes, body);
}

ItemPtr Builder::kernel_item(const Name& name, Generics generics, std::span<const Param> params, const Clauses& clauses, const Block& body,
                             Span span) {
    return make_item<KernelItem>(*this, ItemKind::kernel, span, name, generics, params, clauses.grid, arena.copy(clauses.where),
                                 arena.copy(clauses.tune), arena.copy(clauses.dispatch), clauses.schedule, arena.copy(clauses.attributes), body);
}

ItemPtr Builder::test_item(const Name& name, const Block& body, Span span) { return make_item<TestItem>(*this, ItemKind::test, span, name, body); }

ItemPtr Builder::bench_item(const Name& name, const Pattern& pattern, ExprPtr iterable, Args metrics, const Block& body, Span span) {
    return make_item<BenchItem>(*this, ItemKind::bench, span, name, pattern, iterable, metrics, body);
}

TuneChoice Builder::choice(const Name& name, Exprs values) { return {name, values}; }
Attribute Builder::attribute(const Name& name, Args args) { return {name, args}; }

Clauses* Builder::grid(Clauses* clauses, Exprs extents, Span span) {
    if (std::exchange(clauses->has_grid, true)) diags.report(Diag::duplicate_clause, span, {"grid"});
    clauses->grid = extents;
    return clauses;
}

Clauses* Builder::where(Clauses* clauses, Exprs conditions) {
    clauses->where.insert(clauses->where.end(), conditions.begin(), conditions.end());
    return clauses;
}

Clauses* Builder::tune(Clauses* clauses, std::span<const TuneChoice> choices) {
    clauses->tune.insert(clauses->tune.end(), choices.begin(), choices.end());
    return clauses;
}

Clauses* Builder::dispatch(Clauses* clauses, std::span<const TuneChoice> choices) {
    clauses->dispatch.insert(clauses->dispatch.end(), choices.begin(), choices.end());
    return clauses;
}

Clauses* Builder::schedule(Clauses* clauses, ExprPtr value, Span span) {
    if (clauses->schedule != nullptr) diags.report(Diag::duplicate_clause, span, {"schedule"});
    clauses->schedule = value;
    return clauses;
}

void Builder::edition(uint64_t value, Span value_span, Span span) {
    if (std::exchange(any_item_, true)) {
        diags.report(Diag::misplaced_edition, span);
    } else if (value != 1) {
        diags.report(Diag::unknown_edition, value_span, {std::to_string(value)});
    } else {
        edition_value = 1;
    }
}

void Builder::add_item(ItemPtr item) {
    any_item_ = true;
    skipping_items_ = false;
    if (item != nullptr) items.push_back(item);
}

}  // namespace tegula::syntax
