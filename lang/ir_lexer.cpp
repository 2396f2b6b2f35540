// The tokens of IR text (ir_lexer.h). Every call moves forward; unknown bytes become `bad` tokens of one byte.
#include "lang/ir_lexer.h"

namespace tegula::ir {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c); }

size_t word_end(std::string_view text, size_t at) {
    while (at < text.size() && is_word(text[at])) ++at;
    return at;
}

/// A number's spelling: digits, letters, dots, and signs behind an exponent letter.
size_t number_end(std::string_view text, size_t at) {
    const bool hex = text.substr(at).starts_with("0x");
    for (; at < text.size(); ++at) {
        const char c = text[at];
        const bool exponent_sign = !hex && (c == '+' || c == '-') && (text[at - 1] == 'e' || text[at - 1] == 'E');
        if (!is_word(c) && c != '.' && !exponent_sign) break;
    }
    return at;
}

}  // namespace

void IrLexer::skip_blanks() {
    while (at_ < text_.size()) {
        const char c = text_[at_];
        if (c == '/' && text_.substr(at_, 2) == "//") {
            while (at_ < text_.size() && text_[at_] != '\n') ++at_;
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            ++at_;
        } else {
            return;
        }
    }
}

void IrLexer::advance() {
    skip_blanks();
    const size_t begin = at_;
    size_t from = begin;
    Token::Kind kind = Token::punct;
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    size_t finish = at_ + 1;
    if (at_ >= text_.size()) {
        kind = Token::end;
        finish = at_;
    } else if (c == '%' || (c == '@' && is_word(next))) {
        kind = c == '%' ? Token::value : Token::symbol;
        from = begin + 1;
        finish = word_end(text_, from);
        if (finish == from) kind = Token::bad;
    } else if (is_digit(c) || (c == '-' && is_word(next))) {
        kind = Token::number;
        finish = number_end(text_, at_ + 1);
        if (text_.substr(begin).starts_with("0x")) finish = word_end(text_, begin);
    } else if (is_word(c)) {
        kind = Token::word;
        finish = word_end(text_, at_);
    } else if (c == '"') {
        while (finish < text_.size() && text_[finish] != '"' && text_[finish] != '\n') finish += text_[finish] == '\\' ? 2 : 1;
        kind = finish < text_.size() && text_[finish] == '"' ? Token::string : Token::bad;
        from = begin + 1;
        at_ = std::min(finish + 1, text_.size());
        token_ = {kind, text_.substr(from, std::min(finish, text_.size()) - from), static_cast<uint32_t>(begin), static_cast<uint32_t>(at_)};
        return;
    } else if (c == '+' && next == ':') {
        finish = at_ + 2;
    } else if (std::string_view("=,:[]{}()<>!@?").find(c) == std::string_view::npos) {
        kind = Token::bad;
    }
    at_ = finish;
    token_ = {kind, text_.substr(from, finish - from), static_cast<uint32_t>(begin), static_cast<uint32_t>(finish)};
}

}  // namespace tegula::ir
