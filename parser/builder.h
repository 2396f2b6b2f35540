// What the grammar's actions call: makes AST nodes in the arena and checks what a context-free rule cannot (chained comparisons,
// assignment targets, index-form binders, duplicate clauses, depth). A node is preceded in memory by its Shape, so that limits on the
// tree's depth cost one comparison per node: every consumer of the AST may recurse without a check of its own.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "lang/ast.h"
#include "parser/scanner.h"

namespace tegula::syntax {

/// Nesting of a node. `depth` does not grow along the left operands of binary operators, `height` does.
struct Shape {
    uint32_t height = 1;
    uint16_t depth = 1;
    uint16_t in_parens = 0;
};
using ExprPtr = const ast::Expr*;
using StmtPtr = const ast::Stmt*;
using ItemPtr = const ast::Item*;
using Exprs = std::vector<ExprPtr>;
using Args = std::vector<ast::Arg>;
using Names = std::vector<ast::Name>;
using Stmts = std::vector<StmtPtr>;
using Generics = std::vector<ast::GenericParam>;
using Attributes = std::vector<ast::Attribute>;

struct ElsePart {
    bool has = false;
    ast::Block block{};
};
/// What the clauses between a kernel's parameters and its body collect.
struct Clauses {
    bool has_grid = false;
    Exprs grid, where;
    std::vector<ast::TuneChoice> tune, dispatch;
    ExprPtr schedule = nullptr;
    Attributes attributes;
};
enum class Entry : uint8_t { module, statements, expression };

class Builder {
public:
    Builder(Scanner& scanner, Arena& arena, DiagSink& diags, Entry entry) : scanner(scanner), arena(arena), diags(diags), entry(entry) {}

    // ---- expressions ----
    ExprPtr name(std::string_view text, Span span);
    ExprPtr int_lit(uint64_t value, Span span);
    ExprPtr float_lit(FloatText value, Span span);
    ExprPtr string_lit(std::string_view value, Span span);
    ExprPtr bool_lit(bool value, Span span);
    ExprPtr none_lit(Span span);
    ExprPtr parenthesised(ExprPtr inner);
    ExprPtr member(ExprPtr base, std::string_view member, Span member_span, Span span);
    ExprPtr instantiate(ExprPtr base, const Args& args, Span span);
    ExprPtr call(ExprPtr callee, const Args& args, Span span);
    ExprPtr index(ExprPtr base, const std::vector<ast::IndexItem>& items, Span span);
    ExprPtr unary(ast::UnaryOp op, ExprPtr operand, Span span);
    ExprPtr binary(ast::BinaryOp op, Span op_span, ExprPtr lhs, ExprPtr rhs, Span span);
    ExprPtr else_value(ExprPtr access, ExprPtr value, Span span);
    ExprPtr tuple(const Exprs& items, Span span);
    ExprPtr array(const Exprs& items, Span span);
    ExprPtr set(const Exprs& items, Span span);
    ExprPtr range(ExprPtr lo, ExprPtr hi, ExprPtr step, Span span);
    ExprPtr lambda(const Names& params, ExprPtr body, Span span);
    ExprPtr annotated(ExprPtr base, ExprPtr layout, Span span);
    ExprPtr index_form(const Exprs& items, ExprPtr body, Span span);
    ExprPtr reducing_form(ExprPtr reducer, const std::vector<ast::IndexItem>& items, ExprPtr body, Span span);
    static ast::IndexItem index_value(ExprPtr value);
    ExprPtr condition_with_assign(ExprPtr lhs, Span op, ExprPtr rhs, Span span);

    // ---- statements: null when the statement was dropped ----
    ast::Block block(const Stmts& stmts, Span span);
    ast::Pattern pattern(bool is_tuple, const Names& names, Span span);
    StmtPtr let(bool is_var, const ast::Pattern& pattern, ExprPtr type, ExprPtr init, Span span);
    StmtPtr assign(ast::AssignOp op, ExprPtr target, ExprPtr value, Span span);
    StmtPtr expr_stmt(ExprPtr expr, Span span);
    StmtPtr if_stmt(bool is_const, ExprPtr condition, const ast::Block& then_block, const ElsePart& else_part, Span span);
    ElsePart else_if(StmtPtr inner, Span span);
    StmtPtr for_stmt(bool is_const, const ast::Pattern& pattern, ExprPtr iterable, const Attributes& attributes, const ast::Block& body, Span span);
    StmtPtr while_stmt(ExprPtr condition, const Attributes& attributes, const ast::Block& body, Span span);
    StmtPtr jump(ast::StmtKind kind, Span span);
    StmtPtr return_stmt(ExprPtr value, Span span);
    StmtPtr block_stmt(const ast::Block& block, Span span);
    void stray_semicolon(Span span);

    // ---- items ----
    ItemPtr import_module(const Names& path, const ast::Name& alias, Span span);
    ItemPtr import_path(std::string_view path, const ast::Name& alias, Span span);
    ItemPtr const_item(const ast::Name& name, ExprPtr type, ExprPtr value, Span span);
    ItemPtr type_item(const ast::Name& name, const Generics& generics, ExprPtr value, Span span);
    ItemPtr struct_item(const ast::Name& name, const Generics& generics, const std::vector<ast::Field>& fields, Span span);
    ItemPtr layout_item(const ast::Name& name, const Generics& generics, const std::vector<ast::IndexBinder>& dims, ExprPtr value, Span span);
    ItemPtr fn_item(const ast::Name& name, const Generics& generics, const std::vector<ast::Param>& params, ExprPtr result, const ast::Block& body,
                    Span span);
    ItemPtr kernel_item(const ast::Name& name, const Generics& generics, const std::vector<ast::Param>& params, const Clauses& clauses,
                        const ast::Block& body, Span span);
    ItemPtr test_item(const ast::Name& name, const ast::Block& body, Span span);
    ItemPtr bench_item(const ast::Name& name, const ast::Pattern& pattern, ExprPtr iterable, const Args& metrics, const ast::Block& body, Span span);
    ast::TuneChoice choice(const ast::Name& name, const Exprs& values);
    ast::Attribute attribute(const ast::Name& name, const Args& args);
    Clauses* clauses() { return &clauses_.emplace_back(); }
    Clauses* grid(Clauses* clauses, const Exprs& extents, Span span);
    Clauses* where(Clauses* clauses, const Exprs& conditions);
    Clauses* tune(Clauses* clauses, const std::vector<ast::TuneChoice>& choices);
    Clauses* dispatch(Clauses* clauses, const std::vector<ast::TuneChoice>& choices);
    Clauses* schedule(Clauses* clauses, ExprPtr value, Span span);
    void edition(uint64_t value, Span value_span, Span span);
    void add_item(ItemPtr item);

    // ---- errors ----
    /// False (with a diagnostic, once) when the parser's stack shows nesting beyond every limit.
    bool allow_stack(size_t symbols, Span span);
    void syntax_error(const Token& found, const std::vector<int>& expected);
    /// After an unexpected token that can only follow a missing `;`: parsing goes on in front of it.
    bool missing_semicolon() const { return missing_semicolon_; }

    Scanner& scanner;
    Arena& arena;
    DiagSink& diags;
    Entry entry;
    bool started = false;
    bool failed_at_end = false;  ///< a syntax error at the end of the text: more text could mend it
    Token last, previous;        ///< the newest token given to the parser, and the one before

    // ---- results ----
    std::vector<ItemPtr> items;
    int edition_value = 0;
    ast::Block statements{};
    ExprPtr expression = nullptr;

private:
    bool missing_semicolon_ = false, reported_depth_ = false, reported_chain_ = false, any_item_ = false;
    uint32_t syntax_errors_ = 0;
    std::deque<Clauses> clauses_;

    bool fits(const Shape& shape, Span span);
    std::vector<ast::IndexBinder> binders(const Exprs& items);
    ExprPtr form(ExprPtr reducer, const Exprs& items, ExprPtr body, Span span);
    const char* foreign_spelling(std::string_view word) const;
    bool report_foreign_keyword(const Token& found);
};

}  // namespace tegula::syntax
