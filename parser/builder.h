// What the grammar's actions call: makes AST nodes in the arena and checks what a context-free rule cannot (chained comparisons,
// assignment targets, index-form binders, duplicate clauses, depth). A node is preceded in memory by its Shape, so that limits on the
// tree's depth cost one comparison per node: every consumer of the AST may recurse without a check of its own.
#pragma once
#include <algorithm>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
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
using Exprs = std::span<const ExprPtr>;
using Args = std::span<const ast::Arg>;
using Names = std::span<const ast::Name>;
using Stmts = std::span<const StmtPtr>;
using Generics = std::span<const ast::GenericParam>;
using Attributes = std::span<const ast::Attribute>;
using IndexItems = std::span<const ast::IndexItem>;

/// What rules collect item by item, in the arena. Handles are copied freely, since only the newest one is appended to.
template <class T>
struct List {
    T* items;
    uint32_t count, room;
    operator std::span<const T>() const { return {items, count}; }
};

struct ElsePart {
    bool has;
    ast::Block block;
};
/// What the clauses between a kernel's parameters and its body collect.
struct Clauses {
    bool has_grid = false;
    Exprs grid;
    std::vector<ExprPtr> where;
    std::vector<ast::TuneChoice> tune, dispatch;
    ExprPtr schedule = nullptr;
    std::vector<ast::Attribute> attributes;
};
/// What the parser's stack holds of a symbol: the member that the grammar names for it.
union Value {
    Value() : integer(0) {}
    std::string_view text;
    uint64_t integer;
    FloatText number;
    ExprPtr expr;
    List<ExprPtr> exprs;
    ast::Arg arg;
    List<ast::Arg> args;
    ast::IndexItem index_item;
    List<ast::IndexItem> index_items;
    ast::Name name;
    List<ast::Name> names;
    ast::Pattern pattern;
    List<ast::Pattern> patterns;
    ast::Block block;
    StmtPtr stmt;
    List<StmtPtr> stmts;
    ElsePart else_part;
    bool flag;
    ast::AssignOp assign_op;
    ast::Attribute attribute;
    List<ast::Attribute> attributes;
    ItemPtr item;
    ast::GenericParam generic;
    List<ast::GenericParam> generics;
    ast::Param param;
    List<ast::Param> params;
    ast::ParamMode mode;
    ast::Field field;
    List<ast::Field> fields;
    ast::IndexBinder dim;
    List<ast::IndexBinder> dims;
    Clauses* clauses;
    ast::TuneChoice choice;
    List<ast::TuneChoice> choices;
};
static_assert(std::is_trivially_copyable_v<Value>);
enum class Entry : uint8_t { module, input, expression };

/// Without blanks at its ends.
std::string_view trimmed(std::string_view text);

class Builder {
public:
    Builder(Scanner& scanner, Arena& arena, DiagSink& diags, Entry entry) : scanner(scanner), arena(arena), diags(diags), entry(entry) {}

    // ---- lists ----
    template <class T>
    List<T> list(const T& first, std::type_identity_t<std::span<const T>> rest = {}) {
        const auto count = static_cast<uint32_t>(rest.size()) + 1;
        List<T> out{arena.room<T>(count), count, count};
        out.items[0] = first;
        std::copy(rest.begin(), rest.end(), out.items + 1);
        return out;
    }
    template <class T>
    List<T> append(List<T> list, const std::type_identity_t<T>& item) {
        if (list.count == list.room) {
            T* more = arena.room<T>(list.room = 2 * list.room + 2);
            std::copy(list.items, list.items + list.count, more);
            list.items = more;
        }
        list.items[list.count++] = item;
        return list;
    }

    // ---- expressions ----
    ExprPtr name(std::string_view text, Span span);
    ExprPtr int_lit(uint64_t value, Span span);
    ExprPtr float_lit(FloatText value, Span span);
    ExprPtr string_lit(std::string_view value, Span span);
    ExprPtr bool_lit(bool value, Span span);
    ExprPtr none_lit(Span span);
    ExprPtr parenthesised(ExprPtr inner);
    ExprPtr member(ExprPtr base, std::string_view member, Span member_span, Span span);
    ExprPtr instantiate(ExprPtr base, Args args, Span span);
    ExprPtr call(ExprPtr callee, Args args, Span span);
    ExprPtr index(ExprPtr base, IndexItems items, Span span);
    ExprPtr unary(ast::UnaryOp op, ExprPtr operand, Span span);
    ExprPtr binary(ast::BinaryOp op, Span op_span, ExprPtr lhs, ExprPtr rhs, Span span);
    ExprPtr else_value(ExprPtr access, ExprPtr value, Span span);
    ExprPtr tuple(Exprs items, Span span);
    ExprPtr array(Exprs items, Span span);
    ExprPtr set(Exprs items, Span span);
    ExprPtr range(ExprPtr lo, ExprPtr hi, ExprPtr step, Span span);
    ExprPtr lambda(Names params, ExprPtr body, Span span);
    ExprPtr annotated(ExprPtr base, ExprPtr layout, Span span);
    ExprPtr index_form(Exprs items, ExprPtr body, Span span);
    ExprPtr reducing_form(ExprPtr reducer, IndexItems items, ExprPtr body, Span span);
    static ast::IndexItem index_value(ExprPtr value);
    ExprPtr condition_with_assign(ExprPtr lhs, Span op, ExprPtr rhs, Span span);

    // ---- statements: null when the statement was dropped ----
    ast::Block block(Stmts stmts, Span span);
    ast::Pattern name_pattern(const ast::Name& name);
    ast::Pattern tuple_pattern(std::span<const ast::Pattern> items, Span span);
    StmtPtr let(bool is_var, const ast::Pattern& pattern, ExprPtr type, ExprPtr init, Span span, bool is_const = false);
    /// `x: T = e;`, a declaration without its keyword. It is reported when its block is complete and shows which keyword it needs.
    StmtPtr bare_let(const ast::Name& name, ExprPtr type, ExprPtr init, Span span);
    StmtPtr assign(ast::AssignOp op, ExprPtr target, ExprPtr value, Span span);
    StmtPtr expr_stmt(ExprPtr expr, Span span);
    StmtPtr if_stmt(bool is_const, ExprPtr condition, const ast::Block& then_block, const ElsePart& else_part, Span span);
    ElsePart else_if(StmtPtr inner, Span span);
    StmtPtr for_stmt(bool is_const, const ast::Pattern& pattern, ExprPtr iterable, Attributes attributes, const ast::Block& body, Span span);
    StmtPtr while_stmt(ExprPtr condition, Attributes attributes, const ast::Block& body, Span span);
    StmtPtr broken_loop(const ast::Block& body, Span keyword, Span span);  ///< of which only the body is known
    StmtPtr jump(ast::StmtKind kind, Span span);
    StmtPtr return_stmt(ExprPtr value, Span span);
    StmtPtr block_stmt(const ast::Block& block, Span span);
    void stray_semicolon(Span span);

    // ---- items ----
    ItemPtr import_module(Names path, const ast::Name& alias, Span span);
    ItemPtr import_path(std::string_view path, const ast::Name& alias, Span span);
    ItemPtr const_item(const ast::Name& name, ExprPtr type, ExprPtr value, Span span);
    ItemPtr type_item(const ast::Name& name, Generics generics, ExprPtr value, Span span);
    ItemPtr struct_item(const ast::Name& name, Generics generics, std::span<const ast::Field> fields, Span span);
    ItemPtr layout_item(const ast::Name& name, Generics generics, std::span<const ast::IndexBinder> dims, ExprPtr value, ExprPtr extents,
                        Span span);
    ItemPtr fn_item(const ast::Name& name, Generics generics, std::span<const ast::Param> params, ExprPtr result, Attributes attributes,
                    const ast::Block& body, Span span);
    ItemPtr kernel_item(const ast::Name& name, Generics generics, std::span<const ast::Param> params, const Clauses& clauses, const ast::Block& body,
                        Span span);
    ItemPtr test_item(const ast::Name& name, const ast::Block& body, Span span);
    ItemPtr bench_item(const ast::Name& name, const ast::Pattern& pattern, ExprPtr iterable, Args metrics, const ast::Block& body, Span span);
    ast::TuneChoice choice(const ast::Name& name, Exprs values);
    ast::Attribute attribute(const ast::Name& name, Args args);
    Clauses* clauses() { return &clauses_.emplace_back(); }
    Clauses* grid(Clauses* clauses, Exprs extents, Span span);
    Clauses* where(Clauses* clauses, Exprs conditions);
    Clauses* tune(Clauses* clauses, std::span<const ast::TuneChoice> choices);
    Clauses* dispatch(Clauses* clauses, std::span<const ast::TuneChoice> choices);
    Clauses* schedule(Clauses* clauses, ExprPtr value, Span span);
    void edition(uint64_t value, Span value_span, Span span);
    void add_item(ItemPtr item);

    // ---- errors ----
    /// False (with a diagnostic, once) when the parser's stack shows nesting beyond every limit.
    bool allow_stack(size_t symbols, Span span);
    // Constructs of other languages, reported (foreign.cpp). What is returned has the type of what is meant, so that nothing else is wrong with it.
    Diagnostic& foreign(std::string_view form, Span span);
    std::string_view text(Span span) const { return scanner.text().substr(span.begin, span.end - span.begin); }
    ExprPtr pointer_prefix(std::string_view form, Span op, ExprPtr operand, Span operand_span, Span span);
    ExprPtr power(ExprPtr base, Span base_span, Span op, Span exponent, Span span);
    ExprPtr ternary(ExprPtr yes, Span condition, Span op, Span yes_span, Span no, Span span);
    ExprPtr product(ExprPtr lhs, Span lhs_span, Span op, Span rhs, Span span);
    ExprPtr where_call(Args args, Span word, Span span);
    ExprPtr arrow_member(ExprPtr base, Span arrow, std::string_view member, Span member_span, Span span);
    ast::IndexItem colon_slice(ExprPtr start, Span start_span, Span colon, ExprPtr end, Span end_span, Span span);
    Exprs grid_in_parens(Exprs extents, Span open, Span close);
    ExprPtr type_first(const ast::Name& type, const ast::Name& name, bool pointer);
    ItemPtr const_type_first(const ast::Name& type, const ast::Name& name, ExprPtr value, Span span);
    StmtPtr declared_type_first(const ast::Name& type, const ast::Name& name, ExprPtr init, Span span);
    StmtPtr walrus(ExprPtr target, Span op, ExprPtr value, Span span);
    StmtPtr increment(ExprPtr target, Span target_span, Span op, Span span);
    void syntax_error(const Token& found, const std::vector<int>& expected);
    void next_token();
    /// May the newest token follow a missing `;`? Then, with what the parser takes in its place, a `;` (with a diagnostic) comes before it.
    bool may_lack_semicolon() const;
    bool insert_semicolon(const std::vector<int>& expected);
    /// The parser takes the token: ends of statements bound what an error damages.
    void take(const Token& token);
    /// Not all of this text is in the tree.
    void damage(Span text);
    std::vector<Span> damaged;
    void merge_damage();  ///< puts the stretches in order, without overlaps
    /// The words in them; of stretches outside of items the names that an item may have had.
    std::vector<ast::Name> lost_names() const;

    Scanner& scanner;
    Arena& arena;
    DiagSink& diags;
    Entry entry;
    bool started = false;
    bool failed_at_end = false;  ///< a syntax error at the end of the text: more text could mend it
    Token last, previous, before_previous;  ///< the newest tokens given to the parser, the newest first
    const void* parser = nullptr;

    // ---- results ----
    std::vector<ItemPtr> items;
    int edition_value = 0;
    ast::Block statements{};
    ExprPtr expression = nullptr;

private:
    std::optional<Token> held_;  ///< comes behind an inserted `;`
    bool reported_depth_ = false, reported_chain_ = false, any_item_ = false;
    bool skipping_items_ = false;                              ///< after an error between items: the text up to the next item is told of once
    bool damaging_ = false;                                    ///< the last stretch of `damaged` goes on
    uint32_t sets_ = 0;                                        ///< that are open
    uint32_t statement_begin_ = 0, last_statement_begin_ = 0;  ///< behind the last token that ended a statement or opened a block, and the one before
    std::vector<const ast::LetStmt*> bare_lets_;               ///< of blocks that are not complete
    uint32_t syntax_errors_ = 0;
    uint32_t quiet_until_ = 0;  ///< the end of the line of an error that damaged its statement: what else the parser does not understand there is an echo
    std::deque<Clauses> clauses_;

    bool fits(const Shape& shape, Span span);
    std::vector<ast::IndexBinder> binders(Exprs items);
    ExprPtr form(ExprPtr reducer, Exprs items, ExprPtr body, Span span);
    bool report_foreign_keyword(const Token& found, bool after_two_names);
    bool report_foreign_form(const Token& found, bool item_expected, bool expression_expected);
    bool report_foreign_operator(const Token& found, std::string_view rest);
    bool report_foreign_expression(const Token& found, std::string_view before, std::string_view rest, bool expression_expected);
    bool report_foreign_statement(const Token& found, std::string_view before, std::string_view rest);
    bool report_foreign_item(const Token& found, std::string_view before, std::string_view rest, bool item_expected);
    Span span_of(std::string_view part) const;  ///< of a part of the text
    void end_quiet(const Token& found);
    bool is_rest_of_block(const Token& found) const;
    bool report_if_else(std::string_view before, std::string_view rest);
    void lambda(Diagnostic& d, Span word) const;
    void report_bare_lets(Stmts stmts, Span block);
    void begin_damage(const Token& found);
    void report_missing_semicolon(const std::vector<int>& expected);
};

}  // namespace tegula::syntax
