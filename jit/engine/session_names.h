// What a word in a text that is being typed may mean, in a session or a document (internal to session_*.cpp and workspace_*.cpp).
#pragma once
#include <functional>
#include <string>

#include "jit/engine/engine.h"
#include "parser/word_place.h"
#include "sema/vocabulary.h"

namespace tegula {

/// A meaning of a word.
struct Meaning {
    std::string text;  ///< what stands in the source: "x", "axis = "
    sema::NameKind kind;
    std::string type, doc;
    Span at{};  ///< of its declaration
    const ast::Item* item = nullptr;
    std::string module;  ///< of the item, where it is another
};

/// What a text that is being typed stands in.
class NameWorld {
public:
    virtual ~NameWorld() = default;
    virtual Engine& engine() const = 0;
    virtual LoadedModule& module() const = 0;
    virtual void items(const std::function<void(const ast::Item&)>& add) const = 0;  ///< of its own
    virtual void variables(const std::function<void(Meaning)>&) const {}
    /// Adds the members of what names with points between them stand for; false: nobody knows what that is.
    virtual bool members(std::span<const std::string_view>, const std::function<void(Meaning)>&) const { return false; }
    virtual std::string type_of_local(std::string_view) const { return {}; }
};
struct OfferedNames {
    WordPlace place;  ///< in the text that was given
    std::vector<Meaning> meanings;
    std::shared_ptr<const void> kept;  ///< what they point to
};
/// What the word at byte `at` may become.
OfferedNames names_for(const NameWorld& world, const std::string& text, size_t at);
/// What it is, the most likely meaning first; `file`: of the text.
OfferedNames names_at(const NameWorld& world, const std::string& text, size_t at, uint32_t& file);
/// The item that a name, or a member of an import, stands for; null: none.
const ast::Item* item_named(const NameWorld& world, std::span<const std::string_view> chain);

/// Of an item.
sema::NameKind item_name_kind(ast::ItemKind kind);

/// What the items and statements of a text declare for its end: parameters, generics, extents, variables; the innermost first.
void local_meanings(const ast::Module& items, std::span<const ast::Stmt* const> statements, uint32_t end, const std::function<void(Meaning)>& add);

}  // namespace tegula
