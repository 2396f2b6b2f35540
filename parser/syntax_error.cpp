// Syntax errors in the reader's words: expected tokens as a short list of groups, found tokens as written, and hints for habits from other
// languages. Called by the grammar with the set of tokens that LAC says would do.
#include <algorithm>
#include <iterator>

#include "lang/foreign.h"
#include "parser/builder.h"
#include "parser/grammar.h"

namespace tegula::syntax {

using K = Grammar::symbol_kind;

namespace {

constexpr uint32_t kMaxSyntaxErrors = 100;

constexpr int kExpressionStarts[] = {K::S_IDENT,  K::S_INT,   K::S_FLOAT,    K::S_STRING, K::S_TRUE,  K::S_FALSE, K::S_NONE,
                                     K::S_LPAREN, K::S_MINUS, K::S_LBRACKET, K::S_BANG,   K::S_TILDE, K::S_BAR,
                                     K::S_WHERE,  K::S_STAR,  K::S_AMP,      K::S_PLUS,   K::S_INCREMENT};
constexpr int kOperators[] = {K::S_LPAREN,     K::S_LBRACKET,   K::S_DOT,       K::S_AT,         K::S_GENERIC_OPEN, K::S_ELSE,       K::S_OR_OR,
                              K::S_AND_AND,    K::S_EQ,         K::S_NE,        K::S_LT,         K::S_LE,           K::S_GT,         K::S_GE,
                              K::S_BAR,        K::S_CARET,      K::S_AMP,       K::S_SHL,        K::S_SHR,          K::S_PLUS,       K::S_MINUS,
                              K::S_STAR,       K::S_SLASH,      K::S_PERCENT,   K::S_ADD_ASSIGN, K::S_SUB_ASSIGN,   K::S_MUL_ASSIGN, K::S_DIV_ASSIGN,
                              K::S_REM_ASSIGN, K::S_AND_ASSIGN, K::S_OR_ASSIGN, K::S_XOR_ASSIGN, K::S_SHL_ASSIGN,   K::S_SHR_ASSIGN, K::S_FAT_ARROW,
                              K::S_POWER,      K::S_QUESTION,   K::S_INCREMENT, K::S_WALRUS,     K::S_ARROW};
constexpr int kStatements[] = {K::S_LET, K::S_VAR, K::S_IF, K::S_FOR, K::S_WHILE, K::S_BREAK, K::S_CONTINUE, K::S_RETURN, K::S_LBRACE};
constexpr int kItems[] = {K::S_IMPORT, K::S_CONST, K::S_TYPE, K::S_STRUCT, K::S_LAYOUT, K::S_FN, K::S_KERNEL, K::S_TEST, K::S_BENCH, K::S_EDITION};
constexpr int kClauses[] = {K::S_GRID, K::S_WHERE, K::S_TUNE, K::S_DISPATCH, K::S_SCHEDULE, K::S_ATTRIBUTE};

struct Group {
    const char* name;
    int marks[2];  ///< tokens whose presence shows that the whole group may stand here
    const int *begin, *end;
};
const Group kGroups[] = {
    {"an item", {K::S_KERNEL, K::S_FN}, std::begin(kItems), std::end(kItems)},
    {"a statement", {K::S_LET, K::S_RETURN}, std::begin(kStatements), std::end(kStatements)},
    {"a kernel clause", {K::S_GRID, K::S_WHERE}, std::begin(kClauses), std::end(kClauses)},
    {"an expression", {K::S_IDENT, K::S_INT}, std::begin(kExpressionStarts), std::end(kExpressionStarts)},
    {"an operator", {K::S_SLASH, K::S_PERCENT}, std::begin(kOperators), std::end(kOperators)},
};

std::string shown(int kind) {
    std::string name = Grammar::symbol_name(Grammar::symbol_kind_type(kind));
    if (name.starts_with("a ") || name.starts_with("an ") || name == "end of file") return name;
    // Tokens that share a spelling are told apart by a second word that the reader need not see.
    return "`" + name.substr(0, name.find(' ')) + "`";
}

std::string_view trimmed_end(std::string_view text) {
    while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
    return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string describe(const Token& token) {
    if (token.kind == Grammar::token::END) return "the end of the file";
    std::string text = printable(token.text.substr(0, 40));
    if (token.kind == Grammar::token::STRING) return "a string";
    return "`" + text + "`";
}

/// "`;`, an expression or an operator": single tokens first, groups for the rest, "..." beyond six.
std::string describe_expected(std::vector<int> expected) {
    auto has = [&](int kind) { return std::find(expected.begin(), expected.end(), kind) != expected.end(); };
    std::vector<std::string> groups, words;
    std::vector<int> covered;
    if (has(K::S_ADD_ASSIGN)) covered.push_back(K::S_ASSIGN);
    bool statement = false;
    for (const Group& group : kGroups) {
        if (!has(group.marks[0]) || !has(group.marks[1])) continue;
        covered.insert(covered.end(), group.begin, group.end);
        // A statement may be an expression: one word is enough.
        bool is_expression = std::string_view(group.name) == "an expression";
        if (!(is_expression && statement)) groups.push_back(group.name);
        statement |= std::string_view(group.name) == "a statement";
    }
    std::sort(expected.begin(), expected.end());
    for (int kind : expected) {
        if (std::find(covered.begin(), covered.end(), kind) != covered.end()) continue;
        std::string word = shown(kind);
        if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    }
    if (!groups.empty() && groups[0] == "an item") words.erase(std::remove(words.begin(), words.end(), "end of file"), words.end());
    // A stray `;` parses (with an error of its own), so it is no advice beside statements and items.
    bool no_semicolon = !groups.empty() && (groups[0] == "an item" || groups[0] == "a statement");
    if (no_semicolon) words.erase(std::remove(words.begin(), words.end(), "`;`"), words.end());
    bool cut = words.size() > 6;
    if (cut) words.resize(6);
    words.insert(words.end(), groups.begin(), groups.end());
    if (cut) words.push_back("something else");
    std::string out;
    for (size_t i = 0; i < words.size(); ++i) {
        if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
        out += words[i];
    }
    return out.empty() ? "something else" : out;
}

}  // namespace

/// Without what only constructs of other languages begin with, where that is no expression: `int n` for `n: i32`.
std::vector<int> without_foreign(std::vector<int> expected) {
    const auto may_be = [&](int kind) { return std::find(expected.begin(), expected.end(), kind) != expected.end(); };
    if (may_be(K::S_COLON) && !may_be(K::S_INT)) std::erase_if(expected, [](int kind) { return kind == K::S_IDENT || kind == K::S_STAR; });
    return expected;
}

void Builder::syntax_error(const Token& found, const std::vector<int>& possible) {
    const std::vector<int> expected = without_foreign(possible);
    bool at_end = found.kind == Grammar::token::END;
    if (at_end && !found.is_virtual) failed_at_end = true;
    missing_semicolon_ = false;
    // Whatever lexical error or missing brace lies between the last good token and here is the cause, and has been told.
    if (scanner.halted() || found.is_virtual || scanner.error_since(previous.span.end)) return;
    if (++syntax_errors_ >= kMaxSyntaxErrors) scanner.halt();
    const bool item_expected = std::find(expected.begin(), expected.end(), int(K::S_KERNEL)) != expected.end();
    if (report_foreign_keyword(found, expected == std::vector<int>{int(K::S_ASSIGN)}) || report_foreign_form(found, item_expected)) return;

    std::string_view between = scanner.text().substr(previous.span.end, found.span.begin - previous.span.end);
    bool new_line = between.find('\n') != between.npos || at_end || found.kind == Grammar::token::RBRACE;
    bool wants_semicolon = std::find(expected.begin(), expected.end(), int(K::S_SEMI)) != expected.end();
    bool after_operand = std::find(expected.begin(), expected.end(), int(K::S_SLASH)) != expected.end() || previous.kind == Grammar::token::RETURN ||
                         previous.kind == Grammar::token::BREAK || previous.kind == Grammar::token::CONTINUE;
    missing_semicolon_ = wants_semicolon && after_operand && new_line;
    Span span = found.span;
    if (missing_semicolon_ || (at_end && previous.span.end > 0)) span = {found.span.file, previous.span.end - 1, previous.span.end};
    Diagnostic& d = diags.report(Diag::syntax_error, span, {describe_expected(expected), describe(found)});
    if (missing_semicolon_) {
        uint32_t end = previous.span.end;
        // `a // b;`: what was meant for a division is a comment.
        const std::string_view comment = between.substr(0, between.find('\n'));
        if (const size_t slashes = comment.find("//"); slashes != comment.npos && trimmed_end(comment).ends_with(';')) {
            const ForeignRow& row = foreign_form("floor_division");
            const uint32_t at = end + static_cast<uint32_t>(slashes);
            d.propose({{{span.file, at, at + 2}, std::string(row.rewrite)}}, std::string(row.note));
        }
        d.propose({{{span.file, end, end}, ";"}}, "a statement ends in `;`");
    }
    const auto may_be = [&](int kind) { return std::find(expected.begin(), expected.end(), kind) != expected.end(); };
    const bool is_word = !found.text.empty() && ((found.text[0] | 32) >= 'a' && (found.text[0] | 32) <= 'z');
    if (is_word && may_be(K::S_IDENT) && !may_be(K::S_INT) && !missing_semicolon_)
        d.notes.push_back(describe(found) + " is a keyword and cannot be a name");
    // `.5` and `1.` are floats elsewhere.
    bool after_point = previous.kind == Grammar::token::DOT && previous.span.begin > 0 && is_digit(scanner.text()[previous.span.begin - 1]);
    bool before_point = found.kind == Grammar::token::DOT && found.span.end < scanner.text().size() && is_digit(scanner.text()[found.span.end]);
    if (after_point || before_point) d.notes.push_back("a float needs digits on both sides of the point");
}

}  // namespace tegula::syntax
