// The tokens of a text with what its words mean to the session, for colouring it. See session.h and parser/source_tokens.h.
#include "parser/source_tokens.h"

#include <unordered_map>

#include "jit/engine/session.h"
#include "sema/vocabulary.h"

namespace tegula {

namespace {

using sema::NameKind;
using Kinds = std::unordered_map<std::string_view, NameKind>;

const char* kind_name(SourceToken::Kind kind) {
    constexpr const char* kNames[] = {"keyword", "number", "string", "comment", "operator", "bracket", "name", "attribute", "invalid"};
    return kNames[kind];
}

NameKind kind_of(ast::ItemKind kind) {
    switch (kind) {
        case ast::ItemKind::fn:
        case ast::ItemKind::kernel:
            return NameKind::function;
        case ast::ItemKind::type:
        case ast::ItemKind::struct_:
            return NameKind::type;
        case ast::ItemKind::layout:
            return NameKind::layout;
        case ast::ItemKind::const_:
            return NameKind::constant;
        case ast::ItemKind::import:
            return NameKind::module;
        default:
            return NameKind::name;
    }
}

/// What the language says of words by themselves. Those of which it says several things are named by where they stand.
const Kinds& language() {
    static const Kinds kinds = [] {
        Kinds out;
        for (const sema::Word& w : sema::vocabulary())
            if (w.kind == NameKind::type || w.kind == NameKind::constant) out.emplace(w.name, w.kind);
        return out;
    }();
    return kinds;
}

/// What a declaration gives the name behind its first word.
std::optional<NameKind> declared_by(std::string_view word) {
    static const Kinds kinds = {{"fn", NameKind::function}, {"kernel", NameKind::function}, {"struct", NameKind::type},
                                {"type", NameKind::type},   {"layout", NameKind::layout},   {"const", NameKind::constant},
                                {"let", NameKind::name},    {"var", NameKind::name},        {"for", NameKind::name}};
    const auto found = kinds.find(word);
    return found == kinds.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::string Session::tokens(const std::string& text) const {
    const std::vector<SourceToken> tokens = source_tokens(text);
    const auto text_of = [&](size_t i) {
        return i < tokens.size() && tokens[i].kind != SourceToken::comment
                   ? std::string_view(text).substr(tokens[i].begin, tokens[i].end - tokens[i].begin)
                   : std::string_view();
    };
    Kinds known;
    for (const OwnItem& own : now_.items) known[own.item->name.text] = kind_of(own.item->kind);
    for (const auto& [name, variable] : now_.variables) known[name] = NameKind::name;
    for (size_t i = 1; i < tokens.size(); ++i)  // items of this text, in whatever order
        if (const auto kind = declared_by(text_of(i - 1)); tokens[i].kind == SourceToken::name && kind) known[text_of(i)] = *kind;
    const auto meaning = [&](size_t i) {
        const std::string_view word = text_of(i), before = i ? text_of(i - 1) : std::string_view(), behind = text_of(i + 1);
        if (const auto declared = declared_by(before); declared) return *declared;
        const bool called = behind == "(" || (behind == "<" && tokens[i + 1].kind == SourceToken::bracket);
        const NameKind plain = called ? NameKind::function : NameKind::name;
        if (before == ".") return plain;
        if (before == "@") return NameKind::layout;
        if (const auto found = known.find(word); found != known.end()) return found->second;
        NameKind kind = plain;
        if (const auto found = language().find(word); found != language().end()) kind = found->second;
        for (const auto& prelude : now_.module->prelude)
            if (prelude->has(word))
                if (const ast::Item* item = prelude->module().find(word)) kind = kind_of(item->kind);
        return known[word] = called || kind != NameKind::function ? kind : NameKind::name;
    };
    std::string out = "{\"schema\":1,\"tokens\":[";
    out.reserve(out.size() + 48 * tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
        const std::string_view kind = tokens[i].kind == SourceToken::name ? sema::kind_text(meaning(i)) : kind_name(tokens[i].kind);
        (out += i ? ",{\"begin\":" : "{\"begin\":") += std::to_string(tokens[i].begin);
        ((out += ",\"end\":") += std::to_string(tokens[i].end)) += ",\"kind\":\"";
        (out += kind) += "\"}";
    }
    return out + "]}\n";
}

}  // namespace tegula
