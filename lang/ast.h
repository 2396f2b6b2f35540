// The syntax tree. Types are expressions (tile<f32>[4, 8], ptr<f16>, tensor<T>[M, N] @ col use the same nodes as values), so that one
// grammar serves both and sema decides. Nodes live in an Arena, are immutable after parsing and trivially destructible; string_views
// point into the arena or the SourceMap. `docs` is the text of `///` lines, without markers, newline separated.
#pragma once
#include <span>
#include <string_view>

#include "lang/arena.h"
#include "lang/source.h"

namespace tegula::ast {

enum class ExprKind : uint8_t {
    int_lit, float_lit, bool_lit, string_lit, none_lit, name, member, instantiate, index, call, unary, binary, else_value, tuple, array,
    set, range, index_form, lambda, annotated
};
enum class UnaryOp : uint8_t { neg, logical_not, bit_not };
enum class BinaryOp : uint8_t { add, sub, mul, div, rem, bit_and, bit_or, bit_xor, shl, shr, eq, ne, lt, le, gt, ge, logical_and, logical_or };
const char* spelling(UnaryOp op);   ///< "-", "!", "~"
const char* spelling(BinaryOp op);  ///< "+", "&&", ...

struct Expr {
    ExprKind kind;
    Span span;
};

struct Name {
    std::string_view text;
    Span span;
};
/// One argument of a call or instantiation; `name.text` empty when positional.
struct Arg {
    Name name;
    const Expr* value;
};

struct IntLit : Expr { uint64_t value; };  ///< decimal, 0x, 0b, 0o, with `_` separators; larger than 64 bits is a scanner error
struct FloatLit : Expr { double value; std::string_view text; int rest; };  ///< decimal or hex float; text without separators; literal_rest.h
struct BoolLit : Expr { bool value; };
struct StringLit : Expr { std::string_view value; };  ///< escapes already decoded (\n \t \\ \" \xHH \u{H..})
struct NoneLit : Expr {};
struct NameExpr : Expr { std::string_view name; };
struct MemberExpr : Expr { const Expr* base; Name member; };  ///< a.b, also tuple members a.0 and layout composition A . B
struct InstantiateExpr : Expr { const Expr* base; std::span<const Arg> args; };  ///< base<args>

/// One item of an index list: a plain expression, `:`, `none`, or `start +: extent [step s]`.
struct IndexItem {
    enum Kind : uint8_t { value, all, new_axis, slice } kind;
    Span span;
    const Expr* start;   ///< value, slice
    const Expr* extent;  ///< slice
    const Expr* step;    ///< slice, may be null
};
struct IndexExpr : Expr { const Expr* base; std::span<const IndexItem> items; };  ///< base[items]
struct CallExpr : Expr { const Expr* callee; std::span<const Arg> args; };
struct UnaryExpr : Expr { UnaryOp op; const Expr* operand; };
struct BinaryExpr : Expr { BinaryOp op; Span op_span; const Expr* lhs; const Expr* rhs; };
struct ElseExpr : Expr { const Expr* access; const Expr* value; };  ///< x[..] else value
struct TupleExpr : Expr { std::span<const Expr* const> items; };    ///< (a, b), (a,), ()
struct ArrayExpr : Expr { std::span<const Expr* const> items; };    ///< [a, b]
struct SetExpr : Expr { std::span<const Expr* const> items; };      ///< {a, b}: after `in` only
struct RangeExpr : Expr { const Expr* lo; const Expr* hi; const Expr* step; };  ///< lo .. hi [step s]: after `in` only
struct IndexBinder {
    Name name;
    const Expr* extent;
};
/// [i < M, j < N] => body, or reducer[k < K] => body with reducer a name such as sum, prod, max, min, any, all.
struct IndexFormExpr : Expr { const Expr* reducer; std::span<const IndexBinder> binders; const Expr* body; };
struct LambdaExpr : Expr { std::span<const Name> params; const Expr* body; };
/// `type @ layout`: layout is a name, a call (`strides(..)`, `shared(swizzle<..>)`) or an instantiation.
struct AnnotatedExpr : Expr { const Expr* base; const Expr* layout; };

// ---- statements ----
enum class StmtKind : uint8_t { let, assign, expr, if_, for_, while_, break_, continue_, return_, block };
struct Stmt {
    StmtKind kind;
    Span span;
};
/// A loop or kernel attribute: `@ pipeline(4)`.
struct Attribute {
    Name name;
    std::span<const Arg> args;
};
/// A name, or a tuple of patterns. `_` ignores.
struct Pattern {
    bool is_tuple;
    std::span<const Name> names;     ///< all of them, those of patterns within it included
    std::span<const Pattern> items;  ///< of a tuple
    Span span;
};
struct Block {
    std::span<const Stmt* const> stmts;
    Span span;
};
/// let, var or const; the type may be null.
struct LetStmt : Stmt { bool is_var; Pattern pattern; const Expr* type; const Expr* init; bool is_const = false; };
enum class AssignOp : uint8_t { set, add, sub, mul, div, rem, bit_and, bit_or, bit_xor, shl, shr };
const char* spelling(AssignOp op);  ///< "=", "+=", ...
BinaryOp binary_of(AssignOp op);    ///< of all but `set`
struct AssignStmt : Stmt { AssignOp op; const Expr* target; const Expr* value; };  ///< target: name, member, index or tuple of names
struct ExprStmt : Stmt { const Expr* expr; };
struct IfStmt : Stmt { bool is_const; const Expr* condition; Block then_block; bool has_else; Block else_block; };  ///< `else if` nests
struct ForStmt : Stmt { bool is_const; Pattern pattern; const Expr* iterable; std::span<const Attribute> attributes; Block body; };
struct WhileStmt : Stmt { const Expr* condition; std::span<const Attribute> attributes; Block body; };
struct BreakStmt : Stmt {};
struct ContinueStmt : Stmt {};
struct ReturnStmt : Stmt { const Expr* value; };  ///< may be null
struct BlockStmt : Stmt { Block block; };

// ---- items ----
enum class ItemKind : uint8_t { import, const_, type, struct_, layout, fn, kernel, test, bench };
struct Item {
    ItemKind kind;
    Span span;
    Name name;  ///< import: the alias or the last path part; test, bench: the string
    std::string_view docs;
};
struct GenericParam {
    Name name;
    const Expr* bound;          ///< trait or `int` (an integer constant), null: any type
    const Expr* default_value;  ///< may be null
};
enum class ParamMode : uint8_t { in, out, inout };
struct Param {
    Name name;
    ParamMode mode;
    const Expr* type;
    const Expr* default_value;  ///< functions and scalar kernel parameters; may be null
};
struct Field {
    Name name;
    const Expr* type;
};
struct ImportItem : Item { bool is_path; std::string_view path; };  ///< import std.quant; or import "dir/f.tile" as f;
struct ConstItem : Item { const Expr* type; const Expr* value; };
struct TypeItem : Item { std::span<const GenericParam> generics; const Expr* value; };
struct StructItem : Item { std::span<const GenericParam> generics; std::span<const Field> fields; };
/// layout f<..>[i: M, j: K] = (e, ..); or layout f<..> = expr; (then `dims` is empty and `value` is the layout expression)
/// `extents`: of the physical tuple, an array, or null where none are declared.
struct LayoutItem : Item { std::span<const GenericParam> generics; std::span<const IndexBinder> dims; const Expr* value; const Expr* extents; };
struct FnItem : Item {
    std::span<const GenericParam> generics;
    std::span<const Param> params;
    const Expr* result;                     ///< may be null
    std::span<const Attribute> attributes;  ///< @ ptx(sm_80, "..") @ cost(8): an instruction
    Block body;
};
struct TuneChoice {
    Name name;
    std::span<const Expr* const> values;
};
struct KernelItem : Item {
    std::span<const GenericParam> generics;
    std::span<const Param> params;
    std::span<const Expr* const> grid;      ///< empty: one program
    std::span<const Expr* const> where;
    std::span<const TuneChoice> tune;
    std::span<const TuneChoice> dispatch;
    const Expr* schedule;                   ///< swizzle(8), persistent, split_k(4), split_k(step = 2048), stream_k; may be null
    std::span<const Attribute> attributes;  ///< @ warps(8)
    Block body;
};
struct TestItem : Item { Block body; };
/// bench "name" for pattern in iterable flops e bytes e { .. }: iterable may be null, metrics are named expressions.
struct BenchItem : Item { Pattern pattern; const Expr* iterable; std::span<const Arg> metrics; Block body; };

struct Module {
    uint32_t file = 0;
    int edition = 0;  ///< 0: not written
    std::string_view docs;
    std::span<const Item* const> items;
    std::span<const Span> damage{};  ///< stretches of text, in order, of which nothing or not all is in the items, since they have syntax errors
    std::span<const Name> lost{};    ///< the words of such stretches, in order: any of them may have been declared there
};

/// How many statements, those within others included, assign to the variable or to a part of it.
size_t assignments(std::span<const Stmt* const> stmts, std::string_view variable);

/// as<IntLit>(e): checked by the caller's look at `kind`.
template <class T, class Node>
const T& as(const Node* node) {
    return *static_cast<const T*>(node);
}

}  // namespace tegula::ast
