// What a word in a text of a session may mean (internal to session_names.cpp and session_locals.cpp).
#pragma once
#include <functional>
#include <string>

#include "lang/ast.h"
#include "lang/source.h"

namespace tegula {

/// A meaning of a word.
struct Meaning {
    std::string text;  ///< what stands in the source: "x", "axis = "
    std::string kind, type, doc;
    Span at{};  ///< of its declaration
    const ast::Item* item = nullptr;
    std::string module;  ///< of the item, where it is another
};

/// What the items and statements of a text declare for its end: parameters, generics, extents, variables; the innermost first.
void local_meanings(const ast::Module& items, std::span<const ast::Stmt* const> statements, uint32_t end, const std::function<void(Meaning)>& add);

}  // namespace tegula
