// Text -> tokens. The scanner knows enough of the structure (a stack of open brackets and generics) to settle what LALR(1) cannot:
// whether `<` opens generic arguments, whether `>>` closes two, whether `{` is a block or a set, and whether `@` starts an attribute.
// It also closes blocks that are still open when the next item starts, so that one missing `}` is one error.
#pragma once
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "lang/arena.h"
#include "lang/diag.h"
#include "lang/source.h"

namespace tegula::syntax {

constexpr uint32_t kMaxSource = 16u << 20;
constexpr uint32_t kMaxDepth = 256;
constexpr uint32_t kMaxChain = 10'000;

/// The offset of the first byte from `from` on that is not valid UTF-8 (shortest form, no surrogates), or npos.
size_t find_invalid_utf8(std::string_view text, size_t from = 0);
/// Can an operand end with a token of this kind? Then neither a name nor a prefix operator follows it.
bool ends_operand(int kind);

struct FloatText {
    double value;
    std::string_view text;  ///< without separators
};
struct Token {
    int kind = 0;  ///< Grammar::token::*
    Span span;
    std::string_view text;  ///< names: the name; strings: the decoded value
    uint64_t integer = 0;
    FloatText number{};
    bool is_virtual = false;  ///< a `}` that the text lacks
};
struct Comment {
    Span span;
    bool is_line;  ///< ends at the line's end
};

/// Decides whether a `<` after a name opens generic arguments, by looking ahead. One scan settles every `<` that it passes and the next one begins
/// where it ended, so hostile text costs linear time.
class GenericLookahead {
public:
    explicit GenericLookahead(std::string_view text) : text_(text) {}
    /// `at`: offset of `<`; `inside`: the innermost open bracket is a generic one, so that a following `>` may close it.
    bool opens(uint32_t at, bool inside);
    /// What is open at the end of the text may be closed by what follows it: then it opens generic arguments, too.
    void expect_more() { expects_more_ = true; }

private:
    struct Open {
        char kind;
        uint32_t at;
    };
    std::string_view text_;
    uint32_t settled_ = 0;
    bool expects_more_ = false;
    std::unordered_set<uint32_t> opens_;
    std::vector<Open> stack_;

    char at(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
    uint32_t scan(uint32_t begin, bool inside);
    size_t skip_blank(size_t i, size_t end) const;
    bool close_angle(size_t i, bool inside);
    bool drop_angles();
    bool close_bracket(char open);
    size_t angle_close_length(size_t i, bool inside) const;
};

class Scanner {
public:
    Scanner(const SourceMap& sources, uint32_t file, Arena& arena, DiagSink& diags);
    /// False (with a diagnostic) when the text as a whole cannot be scanned: too large, not UTF-8, NUL bytes.
    bool check_text();
    /// The next token; END for ever at the end, after `halt`, and when brackets nest too deep.
    Token next();
    void halt() { halted_ = true; }
    void expect_more() { generics_.expect_more(); }  ///< the text is being typed
    bool halted() const { return halted_; }
    bool in_block() const { return frames_.back().kind == '{' || frames_.back().kind == 'B'; }
    /// The end of the text came inside a bracket, block or comment.
    bool ended_open() const { return ended_open_; }
    /// The errors that were known when the text ended, what is still open then not among them; empty: scanning stopped before.
    std::optional<size_t> errors_at_end() const { return errors_at_end_; }
    uint32_t open_at_end() const { return open_at_end_; }
    /// A lexical error was reported at or after this offset.
    uint32_t closed_at() const { return closed_at_; }  ///< the last item before which a missing brace was reported; 0: none
    bool error_since(uint32_t offset) const { return has_error_ && last_error_ >= offset; }
    const std::vector<Comment>& comments() const { return comments_; }
    /// Text of the `///` lines directly before the token at `offset`, or empty.
    std::string_view docs_at(uint32_t offset) const;
    std::string_view module_docs() const { return module_docs_; }
    std::string_view text() const { return text_; }
    uint32_t file() const { return file_; }

private:
    struct Frame {
        char kind;        ///< B: base, { block, S set, ( [ <
        bool attributes;  ///< `@` on this level starts an attribute: between for/while/kernel and the body
        bool certain;     ///< a generic list that needed no look-ahead
        uint32_t at;
    };
    struct Docs {
        uint32_t token;
        std::string_view text;
    };
    uint32_t file_;
    Arena& arena_;
    DiagSink& diags_;
    std::string_view text_;
    const unsigned char *begin_, *cursor_, *limit_;
    GenericLookahead generics_;
    std::vector<Frame> frames_{{'B', false, false, 0}};
    std::vector<Comment> comments_;
    std::vector<Docs> docs_;
    std::vector<Span> pending_docs_, module_lines_;
    std::string_view module_docs_;
    int previous_ = 0, before_previous_ = 0;
    bool any_token_ = false, halted_ = false, ended_open_ = false, has_error_ = false;
    uint32_t last_error_ = 0, previous_end_ = 0;
    uint32_t closed_at_ = 0;
    uint32_t open_at_end_ = 0;
    std::optional<size_t> errors_at_end_;
    uint32_t virtual_closers_ = 0;
    bool has_held_ = false;
    Token held_;

    Token scan();
    Span span_from(const unsigned char* start) const;
    Diagnostic& error(Diag id, Span span, std::initializer_list<std::string> args = {});
    Token make(int kind, const unsigned char* start) const;
    Token word(int kind, const unsigned char* start) const;
    bool stands_for_itself(int kind, const unsigned char* start) const;
    int const_kind() const;
    Token integer(const unsigned char* start, int base);
    Token decimal_float(const unsigned char* start);
    Token hex_float(const unsigned char* start);
    Token bad_number(const unsigned char* start);
    Token string(const unsigned char* start);
    Token quoted(const unsigned char* start);
    void foreign_comment(const unsigned char* start);
    void foreign_item(Token& token);
    void foreign_import(Token& token, std::string_view line);
    bool escape(std::string& out);
    void comment(const unsigned char* start, bool is_line);
    void block_comment(const unsigned char* start);
    void unexpected(const unsigned char* start);
    std::string_view join_docs(const std::vector<Span>& lines);
    void attach_docs(const Token& token);
    Token open_or_less(const unsigned char* start);
    Token close_or_greater(const unsigned char* start, int kind);
    Token brace(const unsigned char* start);
    void track(Token& token);
    void close_frame(char open);
    void drop_to_block();
    bool close_blocks_before(const Token& token);
};

bool is_item_keyword(int kind);
inline bool is_word_char(char c) { return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace tegula::syntax
