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

constexpr int kExpressionStarts[] = {K::S_IDENT, K::S_INT,    K::S_FLOAT, K::S_STRING,   K::S_TRUE, K::S_FALSE,
                                     K::S_NONE,  K::S_LPAREN, K::S_MINUS, K::S_LBRACKET, K::S_BANG, K::S_TILDE,
                                     K::S_BAR,   K::S_WHERE,  K::S_STAR,  K::S_AMP,      K::S_PLUS, K::S_INCREMENT};
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
    enum Kind { item, statement, clause, expression, operation } kind;
    const char* name;
    int marks[2];  ///< tokens whose presence shows that the whole group may stand here
    const int *begin, *end;
};
const Group kGroups[] = {
    {Group::item, "an item", {K::S_KERNEL, K::S_FN}, std::begin(kItems), std::end(kItems)},
    {Group::statement, "a statement", {K::S_LET, K::S_RETURN}, std::begin(kStatements), std::end(kStatements)},
    {Group::clause, "a kernel clause", {K::S_GRID, K::S_WHERE}, std::begin(kClauses), std::end(kClauses)},
    {Group::expression, "an expression", {K::S_IDENT, K::S_INT}, std::begin(kExpressionStarts), std::end(kExpressionStarts)},
    {Group::operation, "an operator", {K::S_SLASH, K::S_PERCENT}, std::begin(kOperators), std::end(kOperators)},
};

std::string shown(int kind) {
    std::string name = Grammar::symbol_name(Grammar::symbol_kind_type(kind));
    if (kind == K::S_YYEOF || kind == K::S_IDENT || kind == K::S_STRING || kind == K::S_INT || kind == K::S_FLOAT) return name;
    // Tokens that share a spelling are told apart by a second word that the reader need not see.
    return "`" + name.substr(0, name.find(' ')) + "`";
}

std::string_view trimmed_end(std::string_view text) {
    while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
    return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_character(char c) { return is_digit(c) || c == '_' || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

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
    if (has(K::S_ADD_ASSIGN)) covered.push_back(K::S_COLON);  // of a declaration without keyword, which is no advice
    const Group* first = nullptr;
    bool statement = false;
    for (const Group& group : kGroups) {
        if (!has(group.marks[0]) || !has(group.marks[1])) continue;
        covered.insert(covered.end(), group.begin, group.end);
        // A statement may be an expression: one word is enough.
        if (group.kind == Group::expression && statement) continue;
        if (!first) first = &group;
        groups.push_back(group.name);
        statement |= group.kind == Group::statement;
    }
    std::sort(expected.begin(), expected.end());
    for (int kind : expected) {
        if (std::find(covered.begin(), covered.end(), kind) != covered.end()) continue;
        std::string word = shown(kind);
        if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    }
    if (first && first->kind == Group::item) words.erase(std::remove(words.begin(), words.end(), "end of file"), words.end());
    // A stray `;` parses (with an error of its own), so it is no advice beside statements and items.
    bool no_semicolon = first && (first->kind == Group::item || first->kind == Group::statement);
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

/// Where a statement may end, and only there, the next token cannot go on: asking the parser costs too much to do it before each token.
bool Builder::may_lack_semicolon() const {
    using T = Grammar::token;
    constexpr int kLast[] = {T::IDENT,  T::INT,      T::FLOAT,         T::STRING, T::TRUE,  T::FALSE,   T::NONE,
                             T::RPAREN, T::RBRACKET, T::GENERIC_CLOSE, T::RETURN, T::BREAK, T::CONTINUE};
    constexpr int kNext[] = {T::IDENT, T::IF, T::FOR, T::WHILE, T::BREAK, T::CONTINUE, T::STRING, T::INT, T::RBRACE, T::END, T::EDITION};
    const auto is = [](std::span<const int> kinds, int kind) { return std::find(kinds.begin(), kinds.end(), kind) != kinds.end(); };
    if (!is(kLast, previous.kind)) return false;
    if (last.kind == T::LET || last.kind == T::VAR || last.kind == T::RETURN || is_item_keyword(last.kind)) return true;
    if (!is(kNext, last.kind)) return false;
    if (last.kind == T::RBRACE || last.kind == T::END) return true;
    const std::string_view between = scanner.text().substr(previous.span.end, last.span.begin - previous.span.end);
    return between.find('\n') != between.npos && scanner.in_block();
}

bool Builder::insert_semicolon(const std::vector<int>& possible) {
    const std::vector<int> expected = without_foreign(possible);
    const auto may_be = [&](int kind) { return std::find(expected.begin(), expected.end(), kind) != expected.end(); };
    if (!may_be(K::S_SEMI) || may_be(Grammar::by_kind(Grammar::token_kind_type(last.kind)).kind())) return false;
    const bool at_end = last.kind == Grammar::token::END;
    const bool ends_input = at_end && entry == Entry::input && !scanner.ended_open();  // which needs no `;`
    if (at_end && !ends_input) failed_at_end = true;
    // In a damaged statement it is no error of its own, and where brackets or characters are amiss that has been told.
    const bool told = damaging_ || previous.span.end <= quiet_until_;
    if (!ends_input && !told && !scanner.halted() && !scanner.error_since(previous.span.end)) {
        if (++syntax_errors_ >= kMaxSyntaxErrors) scanner.halt();
        if (report_foreign_keyword(last, false) || report_foreign_form(last, false, false)) {
            begin_damage(last);
            end_quiet(last);
        } else {
            report_missing_semicolon(expected);
        }
    }
    held_ = std::exchange(last, Token());
    last.kind = Grammar::token::SEMI;
    last.span = {held_->span.file, previous.span.end, previous.span.end};
    last.is_virtual = true;
    return true;
}

void Builder::report_missing_semicolon(const std::vector<int>& expected) {
    const uint32_t end = previous.span.end;
    Diagnostic& d = diags.report(Diag::syntax_error, {last.span.file, end - 1, end}, {describe_expected(expected), describe(last)});
    // `a // b;`: what was meant for a division is a comment.
    std::string_view comment = scanner.text().substr(end, last.span.begin - end);
    comment = comment.substr(0, comment.find('\n'));
    if (const size_t slashes = comment.find("//"); slashes != comment.npos && trimmed_end(comment).ends_with(';')) {
        const ForeignRow& row = foreign_form("floor_division");
        const uint32_t at = end + static_cast<uint32_t>(slashes);
        d.propose({{{last.span.file, at, at + 2}, std::string(row.rewrite)}}, std::string(row.note));
    }
    d.propose({{{last.span.file, end, end}, ";"}}, "a statement ends in `;`");
    if (last.kind != Grammar::token::RBRACE) return;
    uint32_t begin = statement_begin_;
    while (begin < end && (scanner.text()[begin] == ' ' || scanner.text()[begin] == '\n')) ++begin;
    d.propose({{{last.span.file, begin, begin}, "return "}, {{last.span.file, end, end}, ";"}}, "a function gives its value by `return`");
}

void Builder::next_token() {
    before_previous = previous;
    previous = last;
    last = held_ ? *std::exchange(held_, std::nullopt) : scanner.next();
}

void Builder::syntax_error(const Token& found, const std::vector<int>& possible) {
    const std::vector<int> expected = without_foreign(possible);
    bool at_end = found.kind == Grammar::token::END;
    if (at_end && !found.is_virtual) failed_at_end = true;
    const auto may_be = [&](int kind) { return std::find(expected.begin(), expected.end(), kind) != expected.end(); };
    begin_damage(found);
    // Whatever lexical error or missing brace lies between the last good token and here is the cause, and has been told.
    if (scanner.halted() || found.is_virtual || scanner.error_since(previous.span.end)) return;
    const bool between_items = may_be(K::S_KERNEL) && may_be(K::S_FN);
    if (between_items && (std::exchange(skipping_items_, true) || is_rest_of_block(found))) return;
    // What begins within text that is skipped may find no end but that of the file.
    if (found.span.begin < quiet_until_ || (at_end && quiet_until_ > 0)) return;
    end_quiet(found);
    if (++syntax_errors_ >= kMaxSyntaxErrors) scanner.halt();
    const bool item_expected = may_be(K::S_KERNEL);
    if (report_foreign_keyword(found, expected == std::vector<int>{int(K::S_ASSIGN)}) || report_foreign_form(found, item_expected, may_be(K::S_INT)))
        return;
    Span span = found.span;
    if (at_end && previous.span.end > 0) span = {found.span.file, previous.span.end - 1, previous.span.end};
    Diagnostic& d = diags.report(Diag::syntax_error, span, {describe_expected(expected), describe(found)});
    const bool is_word = !found.text.empty() && ((found.text[0] | 32) >= 'a' && (found.text[0] | 32) <= 'z');
    if (is_word && may_be(K::S_IDENT) && !may_be(K::S_INT)) d.notes.push_back(describe(found) + " is a keyword and cannot be a name");
    // `.5` and `1.` are floats elsewhere.
    bool after_point = previous.kind == Grammar::token::DOT && previous.span.begin > 0 && is_digit(scanner.text()[previous.span.begin - 1]);
    bool before_point = found.kind == Grammar::token::DOT && found.span.end < scanner.text().size() && is_digit(scanner.text()[found.span.end]);
    if (after_point || before_point) d.notes.push_back("a float needs digits on both sides of the point");
}

void Builder::end_quiet(const Token& found) {
    const size_t end = scanner.text().find('\n', found.span.begin);
    quiet_until_ = static_cast<uint32_t>(std::min(end, scanner.text().size()));
}

/// An item within a body ends that body, with a missing brace reported: behind that item comes what was left of the body.
bool Builder::is_rest_of_block(const Token& found) const {
    const uint32_t closed = scanner.closed_at();
    const auto behind = [closed](ItemPtr item) { return item->span.begin >= closed; };
    return closed != 0 && found.span.begin > closed && std::count_if(items.begin(), items.end(), behind) <= 1;
}

void Builder::take(const Token& token) {
    using T = Grammar::token;
    if (token.kind == T::SET_OPEN) ++sets_;
    if (token.kind == T::RBRACE && sets_ > 0) {
        --sets_;
        return;
    }
    if (token.kind != T::SEMI && token.kind != T::LBRACE && token.kind != T::RBRACE && token.kind != T::END) return;
    sets_ = 0;
    if (std::exchange(damaging_, false)) damaged.back().end = token.span.end;
    last_statement_begin_ = std::exchange(statement_begin_, token.span.end);
}

void Builder::begin_damage(const Token& found) {
    if (damaging_) return;
    const bool ended = statement_begin_ == found.span.end && found.span.end > found.span.begin;  // the token ends the statement
    damage({found.span.file, ended ? last_statement_begin_ : statement_begin_, found.span.end});
    damaging_ = !ended;
}

void Builder::damage(Span text) {
    if (!damaging_) damaged.push_back(text);
}

void Builder::merge_damage() {
    std::sort(damaged.begin(), damaged.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    std::vector<Span> merged;
    for (const Span& s : damaged) {
        if (!merged.empty() && s.begin <= merged.back().end)
            merged.back().end = std::max(merged.back().end, s.end);
        else
            merged.push_back(s);
    }
    damaged = std::move(merged);
}

std::vector<ast::Name> Builder::lost_names() const {
    constexpr std::string_view kBeforeNames[] = {"fn", "kernel", "struct", "type", "const", "layout", "as"};
    std::vector<ast::Name> out;
    for (const Span& stretch : damaged) {
        const auto behind = std::partition_point(items.begin(), items.end(), [&](ItemPtr i) { return i->span.begin <= stretch.begin; });
        const bool inside = behind != items.begin() && stretch.end <= (*std::prev(behind))->span.end;
        std::string_view before;
        bool of_import = false;
        for (uint32_t at = stretch.begin; at < stretch.end;) {
            uint32_t end = at;
            while (end < stretch.end && is_name_character(scanner.text()[end])) ++end;
            const std::string_view word = scanner.text().substr(at, end - at);
            if (!word.empty()) {
                const bool named = of_import || std::find(std::begin(kBeforeNames), std::end(kBeforeNames), before) != std::end(kBeforeNames);
                if ((inside || named) && !is_digit(word[0])) out.push_back({word, {stretch.file, at, end}});
                of_import = word == "import" || (of_import && !inside);
                before = word;
            }
            at = std::max(end, at + 1);
        }
    }
    return out;
}

}  // namespace tegula::syntax
