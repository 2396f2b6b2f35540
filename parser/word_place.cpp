// Where a word stands in a text that is being typed (word_place.h): from the tokens before it, since such texts seldom parse.
#include "parser/word_place.h"
#include <algorithm>

#include "lang/diag.h"
#include "parser/grammar.h"
#include "parser/scanner.h"

namespace tegula {

namespace {

using T = syntax::Grammar::token;
using Tokens = std::vector<syntax::Token>;

bool is_word(int kind) { return kind == T::IDENT; }
bool closes_angle(int kind) { return kind == T::GENERIC_CLOSE || kind == T::GT; }
bool opens_angle(int kind) { return kind == T::GENERIC_OPEN || kind == T::LT; }

/// The names with points between them that end before token `end`.
std::vector<std::string_view> chain_before(const Tokens& tokens, size_t end) {
    std::vector<std::string_view> out;
    const auto is_member = [&](size_t i) { return tokens[i].kind == T::INT && i > 0 && tokens[i - 1].kind == T::DOT; };
    while (end > 0 && (is_word(tokens[end - 1].kind) || is_member(end - 1))) {
        out.push_back(tokens[end - 1].text);
        if (end < 3 || tokens[end - 2].kind != T::DOT) break;
        end -= 2;
    }
    std::ranges::reverse(out);
    return out;
}

/// The first token of the bracketed list that ends before token `end`; `end` where there is none.
size_t before_list(const Tokens& tokens, size_t end, bool (*closes)(int), bool (*opens)(int)) {
    if (end == 0 || !closes(tokens[end - 1].kind)) return end;
    size_t open = 0;
    for (size_t i = end; i-- > 0;) {
        if (closes(tokens[i].kind)) ++open;
        if (opens(tokens[i].kind) && --open == 0) return i;
    }
    return end;
}

/// The innermost bracket that is open behind the last token, or tokens.size(). A `<` behind a name without a blank counts, since its `>` may be
/// missing.
size_t innermost_open(const Tokens& tokens) {
    std::vector<size_t> open;
    const auto drop = [&](bool (*opens)(int)) {
        for (size_t i = open.size(); i-- > 0;)
            if (opens(tokens[open[i]].kind)) return open.resize(i);
    };
    for (size_t i = 0; i < tokens.size(); ++i) {
        const int kind = tokens[i].kind;
        const bool joined = i > 0 && is_word(tokens[i - 1].kind) && tokens[i - 1].span.end == tokens[i].span.begin;
        if (kind == T::LPAREN || kind == T::LBRACKET || kind == T::LBRACE || kind == T::SET_OPEN || kind == T::GENERIC_OPEN ||
            (kind == T::LT && joined))
            open.push_back(i);
        else if (closes_angle(kind) && !open.empty() && opens_angle(tokens[open.back()].kind))
            open.pop_back();
        else if (kind == T::RPAREN)
            drop([](int k) { return k == T::LPAREN; });
        else if (kind == T::RBRACKET)
            drop([](int k) { return k == T::LBRACKET; });
        else if (kind == T::RBRACE)
            drop([](int k) { return k == T::LBRACE || k == T::SET_OPEN; });
        else if (kind == T::SEMI)  // ends what is open in its block
            while (!open.empty() && tokens[open.back()].kind != T::LBRACE) open.pop_back();
    }
    return open.empty() ? tokens.size() : open.back();
}

void find_callee(const Tokens& tokens, WordPlace& place) {
    const size_t open = innermost_open(tokens);
    if (open == tokens.size() || (tokens[open].kind != T::LPAREN && !opens_angle(tokens[open].kind))) return;
    place.instantiates = opens_angle(tokens[open].kind);
    size_t end = open;
    end = before_list(
        tokens, end, [](int k) { return k == T::RBRACKET; }, [](int k) { return k == T::LBRACKET; });
    end = before_list(tokens, end, closes_angle, opens_angle);
    place.callee = chain_before(tokens, end);
    place.begins_argument = open + 1 == tokens.size() || tokens.back().kind == T::COMMA;
    size_t first = open + 1;
    int depth = 0;
    for (size_t i = open + 1; i < tokens.size(); ++i) {
        const int kind = tokens[i].kind;
        const bool opens = kind == T::LPAREN || kind == T::LBRACKET || kind == T::LBRACE || kind == T::SET_OPEN || kind == T::GENERIC_OPEN;
        const bool closes = kind == T::RPAREN || kind == T::RBRACKET || kind == T::RBRACE || kind == T::GENERIC_CLOSE;
        depth += opens ? 1 : closes ? -1 : 0;
        if (kind == T::COMMA && depth == 0) ++place.argument, first = i + 1;
    }
    if (first + 1 < tokens.size() && is_word(tokens[first].kind) && tokens[first + 1].kind == T::ASSIGN) place.argument_name = tokens[first].text;
}

WordPlace::Kind kind_behind(const Tokens& tokens, const WordPlace& place) {
    if (tokens.empty()) return WordPlace::names;
    switch (tokens.back().kind) {
        case T::DOT:
            return WordPlace::members;
        case T::IMPORT:
            return WordPlace::imports;
        case T::AT:
            return WordPlace::layouts;
        case T::ATTRIBUTE:
            return WordPlace::attributes;
        case T::SCHEDULE:
            return WordPlace::schedules;
        case T::COLON:
        case T::ARROW:
            return WordPlace::types;
        case T::LET:
        case T::VAR:
        case T::FN:
        case T::KERNEL:
        case T::STRUCT:
        case T::TYPE:
        case T::LAYOUT:
        case T::CONST:
        case T::AS:
        case T::FOR:
        case T::TEST:
        case T::BENCH:
        case T::INT:
        case T::FLOAT:
        case T::STRING:
            return WordPlace::nothing;
        default:
            return place.instantiates ? WordPlace::types : WordPlace::names;
    }
}

}  // namespace

WordPlace word_place(std::string_view text, size_t at) {
    WordPlace place;
    place.begin = place.end = at;
    while (place.begin > 0 && syntax::is_word_char(text[place.begin - 1])) --place.begin;
    while (place.end < text.size() && syntax::is_word_char(text[place.end])) ++place.end;
    SourceMap sources;
    Arena arena;
    DiagSink diags;
    const auto scan = [&](std::string_view part, Tokens& tokens) {
        syntax::Scanner scanner(sources, sources.add("", std::string(part)), arena, diags);
        if (!scanner.check_text()) return false;
        for (syntax::Token t = scanner.next(); t.kind != T::END; t = scanner.next()) {
            if (t.is_virtual) continue;
            t.text = text.substr(t.span.begin, t.span.end - t.span.begin);  // which outlives this scan
            tokens.push_back(t);
        }
        const auto in_comment = [&](const syntax::Comment& c) { return c.is_line && c.span.end == part.size(); };
        return !std::ranges::any_of(scanner.comments(), in_comment);
    };
    Tokens tokens;
    const auto unfinished = [](const Diagnostic& d) { return d.id == Diag::unterminated_string || d.id == Diag::unterminated_comment; };
    if (!scan(text.substr(0, place.begin), tokens) || std::ranges::any_of(diags.all(), unfinished)) {
        place.kind = WordPlace::nothing;
        place.in_text = true;
        return place;
    }
    const size_t after = tokens.empty() ? 0 : tokens.back().span.end;
    const bool digit = place.begin < text.size() && text[place.begin] >= '0' && text[place.begin] <= '9';
    find_callee(tokens, place);
    place.kind = kind_behind(tokens, place);
    if (place.kind == WordPlace::members) {
        place.chain = chain_before(tokens, tokens.size() - 1);
        const size_t first = tokens.size() - 1 - std::min(tokens.size() - 1, 2 * place.chain.size() - (place.chain.empty() ? 0 : 1));
        if (first > 0 && tokens[first - 1].kind == T::IMPORT) place.kind = WordPlace::imports;
    } else if (digit || (!tokens.empty() && after == place.begin && tokens.back().kind == T::INT)) {
        place.kind = WordPlace::nothing;
    }
    const int last = tokens.empty() ? T::SEMI : tokens.back().kind;
    place.begins_statement = last == T::SEMI || last == T::LBRACE || last == T::RBRACE;
    constexpr int kOperandEnds[] = {T::IDENT,  T::INT,           T::FLOAT, T::STRING, T::RPAREN, T::RBRACKET,
                                    T::RBRACE, T::GENERIC_CLOSE, T::TRUE,  T::FALSE,  T::NONE};
    place.follows_operand = std::ranges::find(kOperandEnds, last) != std::end(kOperandEnds);
    return place;
}

}  // namespace tegula
