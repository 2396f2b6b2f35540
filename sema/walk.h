// Questions about syntax alone, without evaluation (internal to sema): children of expressions, names used, text for messages.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sema/sema.h"

namespace tegula::sema {

/// Appends the direct sub-expressions of `e`, callees and types included.
void children(const ast::Expr& e, std::vector<const ast::Expr*>& out);
/// Free-standing names below `e` in order of appearance, repeats included; callees of calls and bases of `<..>` are left out, on request also
/// what stands between `<` and `>`.
std::vector<ast::Name> names_in(const ast::Expr& e, bool with_generics = true);
/// The tensor type form below an optional `@ layout`: `tensor<T>[dims]`, or null.
const ast::IndexExpr* tensor_form(const ast::Expr& type);
/// The layout of `type @ layout`, or null.
const ast::Expr* annotation(const ast::Expr& type);
/// The name under instantiations, or empty: `f` of f<..>.
std::string_view base_name(const ast::Expr& e);
/// Extent names of a kernel in order of first appearance: free names of tensor shapes that are no generics, parameters or items. Where the name
/// is a whole dimension only constants and imports count as items: a struct or function of that name cannot be an extent.
std::vector<std::string_view> extent_names(const Module& module, const ast::KernelItem& kernel);
/// Does the value of `e` give that of `name`, which stands in it once, below `+`, `-` and `*` alone?
bool determines(const ast::Expr& e, std::string_view name);
/// Is `name` an item or import of the module, or of its prelude?
bool is_item(const Module& module, std::string_view name);
/// The expression as it would be written, shortened in the middle when long.
std::string source_text(const ast::Expr& e);

}  // namespace tegula::sema
