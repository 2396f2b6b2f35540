// Constructs of other languages that the grammar does not take: they are told from the tokens around a syntax error and from the text of its line.
// Words and sentences are in lang/foreign.def.
#include <algorithm>

#include "lang/foreign.h"
#include "parser/builder.h"
#include "parser/grammar.h"

namespace tegula::syntax {

namespace {

std::string_view first_word(std::string_view text) {
    text = trimmed(text);
    size_t end = 0;
    while (end < text.size() && is_word_char(text[end])) ++end;
    return text.substr(0, end);
}

/// The operand that the text ends in: a name, number, call or access, with points and brackets.
std::string_view last_operand(std::string_view text) {
    size_t start = text.size();
    for (int depth = 0; start > 0; --start) {
        const char c = text[start - 1];
        depth += c == ')' || c == ']';
        if (depth == 0 && !is_word_char(c) && c != '.') break;
        depth -= c == '(' || c == '[';
    }
    return text.substr(start);
}

/// The text up to the first of `ends` that stands outside of brackets.
std::string_view up_to(std::string_view text, std::string_view ends) {
    int depth = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        if (depth == 0 && ends.find(text[i]) != ends.npos) return trimmed(text.substr(0, i));
        depth += (text[i] == '(' || text[i] == '[') - (text[i] == ')' || text[i] == ']');
    }
    return trimmed(text);
}

}  // namespace

Span Builder::span_of(std::string_view part) const {
    const auto begin = static_cast<uint32_t>(part.data() - scanner.text().data());
    return {scanner.file(), begin, begin + static_cast<uint32_t>(part.size())};
}

/// `1.0 f`, `a == = b`, `assert!(..)`, `std::max`: characters that belong together and are no token here.
bool Builder::report_foreign_operator(const Token& found, std::string_view rest) {
    using T = Grammar::token;
    if (previous.span.end != found.span.begin) return false;
    const Span both{found.span.file, previous.span.begin, found.span.end};
    if (found.kind == T::BANG && previous.kind == T::IDENT && rest.starts_with("!(")) {
        foreign("macro", found.span).propose({{found.span, ""}});
        return true;
    }
    if (found.kind == T::COLON && previous.kind == T::IDENT && rest.starts_with("::")) {
        foreign("path", span_of(rest.substr(0, 2))).propose({{span_of(rest.substr(0, 2)), "."}});
        return true;
    }
    if (found.kind == T::ASSIGN && (previous.kind == T::EQ || previous.kind == T::NE)) {
        foreign("strict_equality", both).propose({{found.span, ""}});
        return true;
    }
    if (found.kind == T::GT && (previous.kind == T::LT || previous.kind == T::SHR)) {
        const bool unequal = previous.kind == T::LT;
        foreign(unequal ? "unequal" : "unsigned_shift", both).propose({{both, unequal ? "!=" : ">>"}});
        return true;
    }
    if (found.kind == T::IDENT && (previous.kind == T::FLOAT || previous.kind == T::INT)) {
        foreign("suffix", found.span).propose({{found.span, ""}});
        return true;
    }
    if (found.kind == T::ASSIGN && previous.kind == T::DOTDOT) {
        const std::string_view end = up_to(rest.substr(1), "{;]");
        Diagnostic& d = foreign("inclusive_range", both);
        if (!end.empty()) d.propose({{{found.span.file, previous.span.begin, span_of(end).end}, ".. " + std::string(end) + " + 1"}});
        return true;
    }
    return false;
}

/// Constructs within expressions: `x as f16`, `if c { a } else { b }`, `x[a..b]`, `|x: f32|`.
bool Builder::report_foreign_expression(const Token& found, std::string_view before, std::string_view rest, bool expression_expected) {
    using T = Grammar::token;
    if (found.kind == T::AS) {
        const std::string_view value = last_operand(trimmed(before)), type = first_word(rest.substr(2));
        Diagnostic& d = foreign("as_cast", found.span);
        if (!value.empty() && !type.empty())
            d.propose({{join(span_of(value), span_of(type)), "cast<" + std::string(type) + ">(" + std::string(value) + ")"}});
        return true;
    }
    if (found.kind == T::IF && expression_expected) {
        Diagnostic& d = foreign("if_expression", found.span);
        const size_t open = rest.find('{'), close = rest.find('}'), other = rest.find("else"), last = rest.rfind('}');
        if (open < close && close < other && other < last && rest.find("else", other + 4) == rest.npos) {
            const size_t begin = rest.find('{', other);
            const auto part = [&](size_t from, size_t to) { return std::string(trimmed(rest.substr(from, to - from))); };
            if (begin < last)
                d.propose({{span_of(rest.substr(0, last + 1)),
                            "select(" + part(2, open) + ", " + part(open + 1, close) + ", " + part(begin + 1, last) + ")"}});
        }
        return true;
    }
    if (found.kind == T::DOTDOT && before.find('[') != before.npos) {
        foreign("slice", found.span);
        return true;
    }
    if (found.kind == T::COLON && before.find('|') != before.npos && previous.kind == T::IDENT) {
        const std::string_view type = up_to(rest.substr(1), ",|");
        foreign("lambda_type", found.span).propose({{join(found.span, span_of(type)), ""}});
        return true;
    }
    if (found.kind == T::SEMI && before.rfind('[') != before.npos && before.rfind('[') + 1 > before.rfind(']') + 1) {
        foreign("array_of", found.span);
        return true;
    }
    return false;
}

/// Statements: `if (c) return;`, `let a, b = ..`, `for a, b in ..`.
bool Builder::report_foreign_statement(const Token& found, std::string_view before, std::string_view rest) {
    using T = Grammar::token;
    const std::string_view word = first_word(before);
    const bool head = word == "if" || word == "while";
    if (head && previous.kind == T::RPAREN &&
        (found.kind == T::RETURN || found.kind == T::BREAK || found.kind == T::CONTINUE || found.kind == T::IDENT)) {
        const size_t end = rest.find(';');
        Diagnostic& d = foreign("block", found.span);
        if (end != rest.npos) {
            const Span whole = span_of(rest.substr(0, end + 1));
            d.propose({{{whole.file, whole.begin, whole.begin}, "{ "}, {{whole.file, whole.end, whole.end}, " }"}});
        }
        return true;
    }
    if (word == "for" && (found.kind == T::COMMA || found.kind == T::ASSIGN)) {
        foreign("loop_head", found.span);
        return true;
    }
    if (found.kind != T::COMMA || previous.kind != T::IDENT || before.find_first_of("([=") != before.npos) return false;
    const std::string_view line = trimmed(before), last = up_to(rest, "=");
    const std::string_view names = word == "let" || word == "var" ? trimmed(line.substr(3)) : line;
    if (rest.find('=') == rest.npos || last.empty()) return false;
    const Span all = join(span_of(names), span_of(last));
    foreign("tuple", found.span).propose({{all, "(" + std::string(text(all)) + ")"}});
    return true;
}

/// What stands between items, and heads of items.
bool Builder::report_foreign_item(const Token& found, std::string_view before, std::string_view rest, bool item_expected) {
    using T = Grammar::token;
    if (item_expected) {
        const bool declares = found.kind == T::LET || found.kind == T::VAR;
        if (declares || (found.kind == T::IDENT && trimmed(rest.substr(found.text.size())).starts_with("= "))) {
            const Span at{found.span.file, found.span.begin, declares ? found.span.end : found.span.begin};
            foreign("global", found.span).propose({{at, declares ? "const" : "const "}});
            return true;
        }
        if (found.kind == T::IF || found.kind == T::FOR || found.kind == T::WHILE || found.kind == T::RETURN ||
            (found.kind == T::IDENT && trimmed(rest.substr(found.text.size())).starts_with('('))) {
            foreign("statement_outside", found.span);
            return true;
        }
        return false;
    }
    if (first_word(before) != "fn" || previous.kind != T::RPAREN) return false;
    if (found.kind != T::COLON && found.kind != T::IDENT && found.kind != T::FAT_ARROW) return false;
    Diagnostic& d = foreign("result", found.span);
    if (found.kind == T::IDENT)
        d.propose({{{found.span.file, found.span.begin, found.span.begin}, "-> "}});
    else
        d.propose({{found.span, found.kind == T::COLON ? " ->" : "->"}});
    return true;
}

}  // namespace tegula::syntax
