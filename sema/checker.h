// check_module's walk over names (internal to sema): lexical scopes of what is declared, no values and no types.
#pragma once
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sema/elaborate.h"
#include "sema/host_statements.h"

namespace tegula::sema {

/// After so many errors unknown names get no suggestion: comparing each of them with every name there is would be quadratic.
constexpr size_t kSuggestionErrors = 100;

class Checker {
public:
    /// `recovery`: takes what errors leave for later phases; null for host statements, which leave nothing.
    Checker(const Module& module, Recovery* recovery, DiagSink& diags) : module_(module), recovery_(recovery), diags_(diags) {}
    void items();                            ///< all but tests and benches
    void host_block(const ast::Item& item);  ///< a test or bench
    void host_statements(std::span<const HostVariable> variables, std::span<const ast::Stmt* const> statements);

private:
    /// constant: generics, extents, scalar parameters, counters of loops. value: what may be a tensor, parameters of functions that take any value and
    /// members that a loop goes through. lost: declared in text that an error has made unreadable, or reported before.
    enum class Symbol : uint8_t { constant, value, let, variable, in, out, inout, lost };
    struct Known {
        Symbol symbol;
        Span span;
        const WordKind* words = nullptr;  ///< of a generic that takes words
    };
    using Names = std::unordered_map<std::string_view, Known>;

    // check_module.cpp
    void item(const ast::Item& item);
    void lost_names(const ast::Item* item);
    void enter(const ast::Item& item);
    void generics(std::span<const ast::GenericParam> params);
    void extents(const ast::KernelItem& k);
    void kernel(const ast::KernelItem& k);
    void kernel_clauses(const ast::KernelItem& k);
    void clause(const char* name, const ast::Expr& e, const ast::KernelItem& k);
    void function(const ast::FnItem& f);
    void layout(const ast::LayoutItem& l);
    void bench(const ast::BenchItem& b);
    bool shape_without_tensor(const ast::Param& p);
    void parameters(std::span<const ast::Param> params, bool kernel);
    void declare(const ast::Name& name, Symbol symbol, bool fresh);
    void pattern(const ast::Pattern& p, Symbol symbol);
    void block(const ast::Block& b);
    void statement(const ast::Stmt& s);
    void assignment(const ast::AssignStmt& s);
    bool undeclared(const ast::AssignStmt& s);
    void assign_target(const ast::Expr& target, ast::AssignOp op);
    bool is_view(const ast::Expr& e) const;
    void attributes(std::span<const ast::Attribute> list, const char* what);
    // check_expr.cpp
    void expr(const ast::Expr& e);
    void optional(const ast::Expr* e) {
        if (e) expr(*e);
    }
    void name(std::string_view text, Span span);
    void call(const ast::CallExpr& e);
    void call_signature(const ast::CallExpr& e);
    void unknown(std::string_view text, Span span);
    void used(std::string_view text, Span at) const;
    void used_names(const ast::Item& item, std::span<const ast::Arg> args) const;
    void record(Span at, Span declared) const {
        if (module_.recorder) module_.recorder->use(at, declared);
    }
    void launch(const ast::KernelItem& kernel, const ast::CallExpr& e);
    void arguments(std::span<const ast::Arg> args);
    void arguments(std::span<const ast::Arg> args, std::span<const ast::GenericParam> params);
    void word(const ast::Expr& e, const WordKind* kind);
    const WordKind* words_of(const ast::Expr& e) const;
    void equality(const ast::BinaryExpr& e);
    bool is_word_here(const ast::Expr& e) const;
    void match_arguments(std::string_view owner, const std::vector<std::pair<std::string_view, bool>>& params, const ast::CallExpr& e, bool variadic);
    void member(const ast::MemberExpr& e);
    void index(const ast::IndexExpr& e);
    void index_items(const ast::IndexExpr& e);
    void index_callee(const ast::IndexExpr& e);
    void index_form(const ast::IndexFormExpr& e);
    void layout_expr(const ast::Expr& e);
    void modified(const ast::Expr& e);
    void type(const ast::Expr& e);  ///< a type whose free shape names are declared by it
    const Known* find(std::string_view name) const;
    bool known(std::string_view name) const;
    const ast::Item* item_of(const ast::Expr& callee) const;

    const Module& module_;
    Recovery* recovery_;
    DiagSink& diags_;
    std::vector<Names> scopes_;
    std::vector<const ast::Expr*> around_;           ///< members, calls and accesses that the walk is in, outermost first
    std::vector<const ast::Block*> blocks_;          ///< that are open, of the current body
    std::unordered_set<std::string_view> reported_;  ///< unknown names of the current item: one declaration would mend all their uses
    size_t item_scope_ = 0;
    unsigned loops_ = 0, failing_ = 0;  ///< failing: within a launch that a test wants to fail
    bool in_kernel_ = false, in_host_ = false;
    std::string_view kernel_;  ///< in_kernel_: its name
};

}  // namespace tegula::sema
