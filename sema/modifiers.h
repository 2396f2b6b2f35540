// Modifiers of accesses to memory, `x[..] @ cache(stream) @ evict(first)` (internal to sema): the checker judges their words, the elaborator what
// they are written behind.
#pragma once
#include <functional>
#include <string_view>

#include "lang/ast.h"
#include "lang/caching.h"
#include "lang/diag.h"

namespace tegula::sema {

/// Is what stands behind `@` a modifier: cache(..) or evict(..)? No layout is called so.
bool is_modifier(const ast::Expr& annotation);
/// What is under the modifiers of `e`: `e` itself where it has none.
const ast::Expr& without_modifiers(const ast::Expr& e);
/// Reports words that are none, modifiers given twice and those that contradict each other. `declared`: is a name one of the program's own?
void check_modifiers(const ast::Expr& e, const std::function<bool(std::string_view)>& declared, DiagSink& diags);

}  // namespace tegula::sema
