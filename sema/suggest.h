// What a name may have been meant for (internal to sema): words of other languages, items of modules that are not imported, misspellings.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "sema/sema.h"

namespace tegula::sema {

/// Adds notes and changes to the report of an unknown name at `span`. `around`: the members, calls and accesses that it stands in, outermost first,
/// of which those that begin with the name count. `known`: every name there is.
void suggest_name(Diagnostic& d, const Module* module, std::string_view name, Span span, std::span<const ast::Expr* const> around,
                  const std::vector<std::string_view>& known);
/// The same for a member that a value lacks: `x.sum()` is `sum(x)`. False where nothing is known of it.
bool suggest_member(Diagnostic& d, const Module* module, const ast::MemberExpr& member, std::span<const ast::Expr* const> around);
/// The same for something that is called or used as a type, and cannot be: `float(x)`, `tensor<float>`.
bool suggest_use(Diagnostic& d, const Module* module, const ast::Expr& use);
/// The same for a word that stands as a type at `at` and is none.
void suggest_type(Diagnostic& d, std::string_view word, Span at);
/// `a @ b` for a matrix product.
void suggest_product(Diagnostic& d, const Module* module, const ast::AnnotatedExpr& e);
/// Text for print with something between its braces, at `literal`.
void suggest_format_text(Diagnostic& d, const Module* module, Span literal);
/// Is it a built-in function, an elementwise operation, or in the prelude of the module?
bool is_function(const Module* module, std::string_view name);

}  // namespace tegula::sema
