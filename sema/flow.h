// What inlined functions and loops keep while their bodies are elaborated (internal to sema's statements).
//
// An early exit sets a flag. A flag is a Local that holds a boolean: static while the exit is decided at compile time, a run-time bool
// after it was set under a run-time condition. Whatever follows in the body is guarded by the flags that may be set.
#pragma once
#include "sema/elaborate.h"
#include "sema/signature.h"

namespace tegula::sema {

/// "1 dimension", "2 dimensions".
inline std::string count_text(size_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

/// A fresh flag, statically false.
std::shared_ptr<Local> make_flag();
Value flag_value(bool set);

struct Frame {
    enum Kind : uint8_t { function, loop };
    Frame(Kind k, std::string_view n) : kind(k), name(n), stop(make_flag()), skip(make_flag()) {}
    Kind kind;
    std::string_view name;        ///< function
    std::shared_ptr<Local> stop;  ///< loop: `break` was taken; function: `return` was taken
    std::shared_ptr<Local> skip;  ///< loop: `continue` was taken in this iteration
    std::optional<Value> result;  ///< function: value of the returns so far
    const ast::Expr* declared_result = nullptr;
    bool is_kernel = false;
    bool fits_all = true;  ///< false once two returns disagreed (reported)
    bool unknown = false;  ///< function: whether and what it returns depends on a condition without meaning
};

/// Saves and clears the builder and sets the scope: what is evaluated meanwhile is compile-time.
class StaticMode {
public:
    StaticMode(Elaborator& e, std::shared_ptr<Scope> scope);
    ~StaticMode();
    StaticMode(const StaticMode&) = delete;

private:
    Elaborator& e_;
    std::unique_ptr<ir::Builder> builder_;
    std::shared_ptr<Scope> scope_;
};

/// Sets the current scope for its lifetime.
class ScopeSwitch {
public:
    ScopeSwitch(std::shared_ptr<Scope>& slot, std::shared_ptr<Scope> scope) : slot_(slot), saved_(std::move(slot)) { slot_ = std::move(scope); }
    ~ScopeSwitch() { slot_ = std::move(saved_); }
    ScopeSwitch(const ScopeSwitch&) = delete;

private:
    std::shared_ptr<Scope>& slot_;
    std::shared_ptr<Scope> saved_;
};

std::shared_ptr<Scope> make_scope(std::shared_ptr<Scope> parent);
/// Adds or replaces a constant name.
void define(Scope& scope, std::string_view name, Value v);
Value integer_value(__int128 i, Span span = {});
Value real_value(double r, Span span = {});
Value real_of_integer(__int128 i, Span span);
/// T0320 with its cure: `verb` is what a parameter of that mode does not allow.
void report_mode(DiagSink& diags, Span span, std::string_view verb, std::string_view name, ast::ParamMode mode);
/// Has no run-time part: numbers, text, types, layouts, functions and bundles of these.
bool holds_tile(const Value& v);
/// Names that begin a type form or type constructor: tile, tensor, ptr, float, fixed, ufixed, lns, codebook, block.
bool is_type_constructor(std::string_view name);
/// Layout words that are not items: row, col, strides, shared, reg, mma_a, ..
std::span<const std::string_view> layout_words();
bool is_layout_call(std::string_view name);  ///< strides, compose, product, inverse
/// Words that a hint takes instead of numbers; their position is the number kept. Empty: it takes numbers.
std::span<const std::string_view> hint_words(std::string_view hint);

}  // namespace tegula::sema
