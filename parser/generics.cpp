// The look-ahead that tells `a<b>(c)` from `a < b`. A `<` after a name opens generic arguments iff its matching `>` comes before `;`, a brace or
// a logical operator on the same level, and is followed by a token that cannot start the right side of a comparison. Called by the scanner for
// each candidate.
#include <algorithm>
#include <utility>

#include "lang/cancel.h"
#include "parser/scanner.h"

namespace tegula::syntax {

namespace {

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }
/// Does the text begin with a keyword that no expression contains? Then a `;` is missing before it.
bool begins_statement(std::string_view text) {
    constexpr std::string_view kKeywords[] = {"edition", "import", "const", "type", "struct", "layout", "fn",    "kernel",   "test",
                                              "bench",   "let",    "var",   "if",   "for",    "while",  "break", "continue", "return"};
    const auto end = std::find_if_not(text.begin(), text.end(), is_word);
    return std::find(std::begin(kKeywords), std::end(kKeywords), text.substr(0, static_cast<size_t>(end - text.begin()))) != std::end(kKeywords);
}
constexpr size_t kLongestKeyword = 8;
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

bool GenericLookahead::opens(uint32_t at, bool inside) {
    if (at >= settled_) settled_ = scan(at, inside);
    return opens_.count(at) != 0;
}

size_t GenericLookahead::skip_blank(size_t i, size_t end) const {
    while (i < end) {
        if (is_blank(at(i))) {
            ++i;
        } else if (at(i) == '/' && at(i + 1) == '/') {
            while (i < end && at(i) != '\n') ++i;
        } else if (at(i) == '/' && at(i + 1) == '*') {
            i += 2;
            while (i < end && !(at(i) == '*' && at(i + 1) == '/')) ++i;
            i = i + 2 < end ? i + 2 : end;
        } else {
            break;
        }
    }
    return i;
}

/// Pops the angles above the innermost bracket: they have no `>`. False when nothing is left open.
bool GenericLookahead::drop_angles() {
    while (!stack_.empty() && stack_.back().kind == '<') stack_.pop_back();
    return !stack_.empty();
}

bool GenericLookahead::close_bracket(char open) {
    if (!drop_angles() || stack_.back().kind != open) return false;
    stack_.pop_back();
    return true;
}

/// The `>` before `i` closes the top angle; decides it by what follows. False when that was the outermost.
bool GenericLookahead::close_angle(size_t i, bool inside) {
    uint32_t open = stack_.back().at;
    stack_.pop_back();
    size_t next = skip_blank(i, text_.size());
    char c = at(next);
    bool closes_outer = stack_.empty() ? inside : stack_.back().kind == '<';
    bool fits = next >= text_.size() || (c != '\0' && std::string_view("([)],;={}@.:").find(c) != std::string_view::npos);
    if (fits || (c == '>' && closes_outer) || begins_statement(text_.substr(next, kLongestKeyword + 1))) opens_.insert(open);
    return !stack_.empty();
}

/// How many bytes the operator that starts with `>` at `i` has; 1 when it closes the top angle.
size_t GenericLookahead::angle_close_length(size_t i, bool inside) const {
    if (at(i + 1) == '=') return 2;
    size_t angles = 0;
    while (angles < stack_.size() && angles < 2 && stack_[stack_.size() - 1 - angles].kind == '<') ++angles;
    if (at(i + 1) != '>') return 1;
    bool both = angles == 2 || (angles == 1 && stack_.size() == 1 && inside);
    if (both) return 1;
    return at(i + 2) == '=' ? 3 : 2;
}

/// Settles the `<` at `begin` and every one up to the returned offset.
uint32_t GenericLookahead::scan(uint32_t begin, bool inside) {
    stack_.assign(1, {'<', begin});
    size_t end = text_.size(), i = begin + 1;
    bool after_name = false;
    while (i < end) {
        poll();
        size_t next = skip_blank(i, end);
        if (next != i) {
            i = next;
            continue;
        }
        char c = at(i);
        bool was_name = std::exchange(after_name, false);
        bool open = true;
        if (is_word(c)) {
            after_name = c < '0' || c > '9';
            while (i < end && is_word(at(i))) ++i;
            continue;
        }
        if (c == '"') {
            for (++i; i < end && at(i) != '"' && at(i) != '\n'; ++i) i += at(i) == '\\';
            ++i;
            continue;
        }
        size_t length = 1;
        if (c == ';' || c == '{' || c == '}') return uint32_t(i);
        if (c == '(' || c == '[') stack_.push_back({c, uint32_t(i)});
        if (c == ')') open = close_bracket('(');
        if (c == ']') open = close_bracket('[');
        if ((c == '&' || c == '|') && at(i + 1) == c) {
            length = 2;
            open = drop_angles();
        }
        if ((c == '-' || c == '=') && at(i + 1) == '>') length = 2;
        if (c == '<') {
            length = at(i + 1) == '<' || at(i + 1) == '=' ? 2 : 1;
            if (length == 1 && was_name) stack_.push_back({'<', uint32_t(i)});
        }
        if (c == '>') {
            length = angle_close_length(i, inside);
            if (length == 1 && stack_.back().kind == '<') open = close_angle(i + 1, inside);
        }
        i += length;
        if (!open) return uint32_t(i);
    }
    for (const Open& open : stack_)
        if (expects_more_ && open.kind == '<') opens_.insert(open.at);
    return uint32_t(end);
}

}  // namespace tegula::syntax
