// Text -> AST. The scanner is re2c, the grammar Bison (LALR(1), no conflicts). Recovers at `;`, `}` and item keywords, so that one file
// yields many errors. Limits: 16 MiB of source, nesting 256, each with its own diagnostic; long operator chains are no recursion problem.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lang/ast.h"
#include "lang/diag.h"

namespace tegula {

/// Parses file `file` of `sources`. Always returns a module (the items that parsed); errors go to `diags`. The module and its nodes
/// live in `arena`.
const ast::Module* parse_module(const SourceMap& sources, uint32_t file, Arena& arena, DiagSink& diags);

/// What is typed into a session: items and statements in any order. The end of the text ends a statement too.
struct Input {
    const ast::Module* items = nullptr;
    std::span<const ast::Stmt* const> statements;
    const ast::Expr* shown = nullptr;  ///< the last statement, where it is an expression without `;`: its value is to be seen
    bool incomplete = false;           ///< nothing is wrong but that the text ends too early: more of it could mend that
    uint32_t open = 0;                 ///< brackets and blocks that are open at the end
};
/// `expects_more`: the text is being typed, and a `<` that it does not close begins generic arguments.
Input parse_input(const SourceMap& sources, uint32_t file, Arena& arena, DiagSink& diags, bool expects_more = false);

/// Parses one expression or type, e.g. the value of `--set T=f16`.
const ast::Expr* parse_expression(const SourceMap& sources, uint32_t file, Arena& arena, DiagSink& diags);

/// The language's keywords.
std::vector<std::string_view> keywords();
/// One line per token: line:col kind text. For `dump --emit=tokens`.
std::string dump_tokens(const SourceMap& sources, uint32_t file, DiagSink& diags);
/// Deterministic S-expression text, without positions. Two sources with equal dumps mean the same.
std::string dump_ast(const ast::Module& module);
std::string dump_ast(const ast::Expr& expr);
/// The canonical formatting of a file: idempotent, keeps comments and the AST. nullopt (with diagnostics) when it does not parse.
std::optional<std::string> format_source(const SourceMap& sources, uint32_t file, DiagSink& diags);

}  // namespace tegula
