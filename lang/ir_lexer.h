// Tokens of IR text, one ahead. A token is a view of the source; numbers keep their spelling, since their meaning depends on a type.
#pragma once
#include <string_view>

#include "lang/source.h"

namespace tegula::ir {

struct Token {
    enum Kind : uint8_t { end, word, value, symbol, number, string, punct, bad } kind = end;
    std::string_view text;  ///< value, symbol: without % or @; string: without the quotes, escapes unread
    uint32_t begin = 0, finish = 0;
};

class IrLexer {
public:
    explicit IrLexer(std::string_view text) : text_(text) { advance(); }
    const Token& token() const { return token_; }
    void advance();
    /// The text from the current token on, and a way to go on behind what someone else read of it.
    std::string_view rest() const { return text_.substr(token_.begin); }
    void resume(std::string_view rest) {
        at_ = text_.size() - rest.size();
        advance();
    }

private:
    void skip_blanks();
    std::string_view text_;
    size_t at_ = 0;
    Token token_;
};

}  // namespace tegula::ir
