// See source_tokens.h.
#include "parser/source_tokens.h"

#include <algorithm>

#include "lang/diag.h"
#include "parser/grammar.h"
#include "parser/scanner.h"

namespace tegula {

namespace {

using T = syntax::Grammar::token;

SourceToken::Kind kind_of(const syntax::Token& token, std::string_view text) {
    switch (token.kind) {
        case T::IDENT:
            return SourceToken::name;
        case T::INT:
        case T::FLOAT:
            return SourceToken::number;
        case T::STRING:
            return SourceToken::string;
        case T::ATTRIBUTE:
            return SourceToken::attribute;
        case T::GENERIC_OPEN:
        case T::GENERIC_CLOSE:
        case T::SET_OPEN:
            return SourceToken::bracket;
        default:
            if (syntax::is_word_char(text[0])) return SourceToken::keyword;
            return std::string_view("()[]{}").find(text[0]) != std::string_view::npos ? SourceToken::bracket : SourceToken::operation;
    }
}

/// What lies between tokens: comments and strings that are not closed yet, and what is part of nothing.
void add_gap(std::string_view text, uint32_t begin, uint32_t end, std::vector<SourceToken>& out) {
    constexpr std::string_view kBlank = " \t\r\n";
    while (begin < end && kBlank.find(text[begin]) != std::string_view::npos) ++begin;
    while (begin < end && kBlank.find(text[end - 1]) != std::string_view::npos) --end;
    if (begin == end) return;
    const std::string_view gap = text.substr(begin, end - begin);
    out.push_back({gap.starts_with("/*") ? SourceToken::comment : SourceToken::invalid, begin, end});
}

}  // namespace

std::vector<SourceToken> source_tokens(std::string text) {
    // The scanner refuses texts with such bytes as a whole; in their places stand others that belong to no token.
    constexpr char kNoToken = '\x01';
    std::ranges::replace(text, '\0', kNoToken);
    for (size_t bad = 0; (bad = syntax::find_invalid_utf8(text, bad)) != std::string::npos;) text[bad] = kNoToken;
    SourceMap sources;
    const uint32_t file = sources.add("", std::move(text));
    const std::string_view kept = sources.text(file);
    Arena arena;
    DiagSink unheard(1);
    syntax::Scanner scanner(sources, file, arena, unheard);
    std::vector<SourceToken> found, out;
    if (!scanner.check_text()) return out;
    bool after_attribute = false;
    for (syntax::Token token = scanner.next(); token.kind != T::END; token = scanner.next()) {
        if (token.is_virtual || token.span.begin == token.span.end) continue;
        SourceToken::Kind kind = kind_of(token, kept.substr(token.span.begin));
        if (after_attribute && (kind == SourceToken::name || kind == SourceToken::keyword)) kind = SourceToken::attribute;
        after_attribute = token.kind == T::ATTRIBUTE;
        found.push_back({kind, token.span.begin, token.span.end});
    }
    for (const syntax::Comment& comment : scanner.comments()) found.push_back({SourceToken::comment, comment.span.begin, comment.span.end});
    std::ranges::sort(found, {}, &SourceToken::begin);
    uint32_t end = 0;
    for (const SourceToken& token : found) {
        if (token.begin < end) continue;
        add_gap(kept, end, token.begin, out);
        out.push_back(token);
        end = token.end;
    }
    add_gap(kept, end, static_cast<uint32_t>(kept.size()), out);
    return out;
}

}  // namespace tegula
