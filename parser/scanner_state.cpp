// The part of the scanner with a memory: brackets, generics, virtual closers, comments and docs. The token rules are in scanner.re,
// literals in literals.cpp.
#include <algorithm>
#include <utility>

#include "lang/foreign.h"
#include "parser/grammar.h"
#include "parser/scanner.h"

namespace tegula::syntax {

using T = Grammar::token;

size_t find_invalid_utf8(std::string_view text, size_t from) {
    auto tail = [&](size_t i) { return i < text.size() && (uint8_t(text[i]) & 0xC0) == 0x80; };
    for (size_t i = from; i < text.size();) {
        uint8_t c = uint8_t(text[i]);
        size_t extra = c < 0x80 ? 0 : c >= 0xC2 && c < 0xE0 ? 1 : c >= 0xE0 && c < 0xF0 ? 2 : c >= 0xF0 && c < 0xF5 ? 3 : 4;
        if (extra == 4) return i;
        for (size_t k = 1; k <= extra; ++k) {
            if (!tail(i + k)) return i;
        }
        uint8_t second = extra > 0 ? uint8_t(text[i + 1]) : 0;
        if ((c == 0xE0 && second < 0xA0) || (c == 0xED && second > 0x9F) || (c == 0xF0 && second < 0x90) || (c == 0xF4 && second > 0x8F)) return i;
        i += extra + 1;
    }
    return std::string_view::npos;
}

namespace {

bool is_bidi(std::string_view c) {
    if (c.size() != 3 || c[0] != '\xE2') return c == "\xD8\x9C";
    uint8_t b1 = uint8_t(c[1]), b2 = uint8_t(c[2]);
    return (b1 == 0x80 && (b2 == 0x8E || b2 == 0x8F || (b2 >= 0xAA && b2 <= 0xAE))) || (b1 == 0x81 && b2 >= 0xA6 && b2 <= 0xA9);
}

}  // namespace

bool is_item_keyword(int kind) {
    switch (kind) {
        case T::IMPORT:
        case T::CONST:
        case T::TYPE:
        case T::STRUCT:
        case T::LAYOUT:
        case T::FN:
        case T::KERNEL:
        case T::TEST:
        case T::BENCH:
        case T::EDITION:
            return true;
        default:
            return false;
    }
}

Scanner::Scanner(const SourceMap& sources, uint32_t file, Arena& arena, DiagSink& diags)
    : file_(file),
      arena_(arena),
      diags_(diags),
      text_(sources.text(file)),
      begin_(reinterpret_cast<const unsigned char*>(text_.data())),
      cursor_(begin_),
      limit_(begin_ + text_.size()),
      generics_(text_) {
    if (text_.starts_with("\xEF\xBB\xBF")) cursor_ += 3;
}

bool Scanner::check_text() {
    auto at = [&](size_t i) { return Span{file_, uint32_t(i), uint32_t(i + 1)}; };
    if (text_.size() > kMaxSource) {
        error(Diag::source_too_large, at(0), {std::to_string(text_.size()), std::to_string(kMaxSource)});
    } else if (size_t nul = text_.find('\0'); nul != text_.npos) {
        error(Diag::nul_byte, at(nul));
    } else if (size_t bad = find_invalid_utf8(text_); bad != text_.npos) {
        error(Diag::invalid_utf8, at(bad));
    } else {
        return true;
    }
    halted_ = true;
    return false;
}

Span Scanner::span_from(const unsigned char* start) const { return {file_, uint32_t(start - begin_), uint32_t(cursor_ - begin_)}; }

Diagnostic& Scanner::error(Diag id, Span span, std::initializer_list<std::string> args) {
    has_error_ = true;
    last_error_ = span.end;
    return diags_.report(id, span, args);
}

Token Scanner::make(int kind, const unsigned char* start) const {
    Token token;
    token.kind = kind;
    token.span = span_from(start);
    token.text = text_.substr(token.span.begin, token.span.end - token.span.begin);
    return token;
}

bool ends_operand(int kind) {
    switch (kind) {
        case T::IDENT:
        case T::STRING:
        case T::INT:
        case T::FLOAT:
        case T::TRUE:
        case T::FALSE:
        case T::NONE:
        case T::RPAREN:
        case T::RBRACKET:
        case T::GENERIC_CLOSE:
            return true;
        default:
            return false;
    }
}

/// Is a word that has a place of its own in the grammar a keyword here? Anywhere else it is a name as all others.
bool Scanner::stands_for_itself(int kind, const unsigned char* start) const {
    const unsigned char* at = cursor_;
    while (at < limit_ && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) ++at;
    const char next = at < limit_ ? static_cast<char>(*at) : '\0';
    const bool comment = next == '/' && at + 1 < limit_ && (at[1] == '/' || at[1] == '*');
    const bool before_name = comment || (is_word_char(next) && (next < '0' || next > '9'));
    const bool behind_operand = ends_operand(previous_);
    const bool fresh = previous_ == 0 || previous_ == T::SEMI || previous_ == T::LBRACE || previous_ == T::RBRACE;
    const unsigned char* line = start;
    while (line > begin_ && (line[-1] == ' ' || line[-1] == '\t')) --line;
    const bool first = line == begin_ || line[-1] == '\n' || line[-1] == '\r';
    switch (kind) {
        case T::STEP:
        case T::AS:
            return behind_operand;
        case T::IN:
            return behind_operand || ((previous_ == T::LPAREN || previous_ == T::COMMA) && before_name);
        case T::OUT:
        case T::INOUT:
            return before_name && (previous_ == T::LPAREN || previous_ == T::COMMA || previous_ == T::COLON || fresh);
        case T::GRID:
            return frames_.size() == 1 && (behind_operand || (previous_ == T::RBRACE && (next == '[' || next == '(')));
        case T::TUNE:
        case T::DISPATCH:
        case T::SCHEDULE:
            return frames_.size() == 1 && (behind_operand || (previous_ == T::RBRACE && before_name));
        case T::TYPE:
        case T::LAYOUT:
            return before_name && (fresh || behind_operand || first);
        case T::TEST:
        case T::BENCH:
            return next == '"' || next == '\'' || (frames_.size() == 1 && (fresh || first) && (before_name || next == '{'));
        default:  // edition
            return fresh && (before_name || (next >= '0' && next <= '9'));
    }
}

Token Scanner::word(int kind, const unsigned char* start) const { return make(stands_for_itself(kind, start) ? kind : T::IDENT, start); }

/// `const` begins an item, but in a body.
int Scanner::const_kind() const {
    if (previous_ == T::IF || previous_ == T::FOR) return T::CONST_MOD;
    const bool in_body = std::any_of(frames_.begin(), frames_.end(), [](const Frame& f) { return f.kind == '{'; });
    return in_body ? T::CONST_LOCAL : T::CONST;
}

void Scanner::unexpected(const unsigned char* start) {
    Span span = span_from(start);
    std::string_view c = text_.substr(span.begin, span.end - span.begin);
    if (is_bidi(c)) {
        static constexpr char kHex[] = "0123456789ABCDEF";
        uint32_t code = c.size() == 2 ? 0x61C : 0x2000 | (uint32_t(c[1]) & 0x3F) << 6 | (uint32_t(c[2]) & 0x3F);
        std::string name = "U+0000";
        for (int i = 0; i < 4; ++i) name[size_t(5 - i)] = kHex[code >> (4 * i) & 15];
        error(Diag::bidi_control, span, {name});
        return;
    }
    error(Diag::unexpected_character, span, {"`" + printable(c) + "`"});
}

/// A string in single quotes, which is no string here.
Token Scanner::quoted(const unsigned char* start) {
    Token token = make(T::STRING, start);
    const std::string_view inner = text_.substr(token.span.begin + 1, token.span.end - token.span.begin - 2);
    const ForeignRow& row = foreign_form("quotes");
    Diagnostic& d = error(Diag::foreign_form, token.span, {std::string(row.note)});
    if (inner.find('"') == inner.npos) d.propose({{token.span, *rewritten(row, {{}, {{"", std::string(inner)}}})}});
    token.text = inner;
    return token;
}

/// A word that begins an item elsewhere is taken for the one that begins it here, when what follows has the form of such an item.
void Scanner::foreign_item(Token& token) {
    constexpr size_t kLongestLine = 400;  // bytes that are looked at: the cost must not grow with the text
    std::string_view line = text_.substr(token.span.end, kLongestLine);
    if (const size_t end = line.find('\n'); end == line.npos && line.size() == kLongestLine) return;
    line = line.substr(0, line.find('\n'));
    static constexpr std::pair<std::string_view, int> kItems[] = {{"fn", T::FN},     {"kernel", T::KERNEL}, {"struct", T::STRUCT},
                                                                  {"type", T::TYPE}, {"const", T::CONST},   {"import", T::IMPORT}};
    if (token.text == "from") return foreign_import(token, line);
    const auto rows = foreign(ForeignUse::keyword, token.text);
    const auto item = rows.empty() ? std::end(kItems) : std::ranges::find(kItems, rows.front()->rewrite, &std::pair<std::string_view, int>::first);
    if (item == std::end(kItems) || line.ends_with(':') || line.ends_with(": ")) return;
    size_t at = std::min(line.find_first_not_of(' '), line.size());
    const size_t name = at;
    while (at < line.size() && is_word_char(line[at])) ++at;
    const size_t after = line.find_first_not_of(' ', at);
    if (at == name || after == line.npos || std::string_view("(<{=[:").find(line[after]) == std::string_view::npos) return;
    Diagnostic& d = error(Diag::foreign_keyword, token.span, {std::string(token.text), std::string(rows.front()->rewrite)});
    if (!rows.front()->note.empty()) d.notes.push_back(std::string(rows.front()->note));
    d.propose({{token.span, std::string(rows.front()->rewrite)}});
    token.kind = item->second;
}

/// `from A import B` on a line of its own: one error, and the line is passed over.
void Scanner::foreign_import(Token& token, std::string_view line) {
    const size_t word = line.find(" import ");
    if (word == line.npos) return;
    const auto name = [](std::string_view part) {
        part = part.substr(std::min(part.find_first_not_of(' '), part.size()));
        return part.substr(0, part.find_first_of(" ;,\r"));
    };
    const std::string_view module = name(line.substr(0, word)), item = name(line.substr(word + 8));
    if (module.empty() || item.empty()) return;
    const ForeignRow& row = foreign_form("from_import");
    const Span whole{file_, token.span.begin, token.span.end + static_cast<uint32_t>(line.size())};
    const ForeignUseText with{{}, {{"", std::string(module)}, {"", std::string(item)}}};
    Diagnostic& d = error(Diag::foreign_form, whole, {std::string(row.note)});
    d.propose({{whole, *rewritten(row, with)}});
    const std::string_view last = module.substr(module.rfind('.') + 1);  // the item may be a function of the module
    d.propose({{whole, "import " + std::string(module) + " as " + std::string(last) + ";"}});
    cursor_ = begin_ + whole.end;
    token = scan();
    attach_docs(token);
}

/// A comment of Python, or a line for C's preprocessor.
void Scanner::foreign_comment(const unsigned char* start) {
    const Span span = span_from(start);
    const std::string_view word = text_.substr(span.begin + 1, 4);
    const bool directive = word == "incl" || word == "defi" || word == "prag" || word == "ifde" || word == "ifnd" || word == "endi";
    const ForeignRow& row = foreign_form(directive ? "preprocessor" : "comment");
    Diagnostic& d = error(Diag::foreign_form, span, {std::string(row.note)});
    if (!directive) d.propose({{{span.file, span.begin, span.begin + 1}, std::string(row.rewrite)}});
}

// ---- comments and docs ----

void Scanner::comment(const unsigned char* start, bool is_line) {
    Span span = span_from(start);
    comments_.push_back({span, is_line});
    std::string_view text = text_.substr(span.begin, span.end - span.begin);
    if (!is_line) return;
    if (text.starts_with("///") && !text.starts_with("////")) pending_docs_.push_back(span);
    if (!any_token_ && text.starts_with("//!")) module_lines_.push_back(span);
}

void Scanner::block_comment(const unsigned char* start) {
    size_t from = size_t(cursor_ - begin_);
    size_t end = text_.find("*/", from);
    if (end == text_.npos) {
        errors_at_end_ = diags_.error_count();
        open_at_end_ = static_cast<uint32_t>(frames_.size()) - 1;
        error(Diag::unterminated_comment, span_from(start));
        cursor_ = limit_;
        ended_open_ = true;
        halted_ = true;
        return;
    }
    cursor_ = begin_ + end + 2;
    comment(start, false);
}

std::string_view Scanner::join_docs(const std::vector<Span>& lines) {
    std::string out;
    for (Span line : lines) {
        std::string_view text = text_.substr(line.begin + 3, line.end - line.begin - 3);
        if (text.starts_with(" ")) text.remove_prefix(1);
        while (!text.empty() && (text.back() == '\r' || text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
        if (!out.empty() || line.begin != lines.front().begin) out += '\n';
        out += text;
    }
    return arena_.copy(std::string_view(out));
}

void Scanner::attach_docs(const Token& token) {
    if (!any_token_) module_docs_ = join_docs(module_lines_);
    if (pending_docs_.empty()) return;
    if (is_item_keyword(token.kind)) {
        // Only the lines that touch: a blank line ends a block of docs.
        size_t first = pending_docs_.size();
        uint32_t next = token.span.begin;
        while (first > 0) {
            std::string_view gap = text_.substr(pending_docs_[first - 1].end, next - pending_docs_[first - 1].end);
            size_t newline = gap.find('\n');
            if (newline != gap.npos && gap.find('\n', newline + 1) != gap.npos) break;
            next = pending_docs_[--first].begin;
        }
        pending_docs_.erase(pending_docs_.begin(), pending_docs_.begin() + ptrdiff_t(first));
        if (!pending_docs_.empty()) docs_.push_back({token.span.begin, join_docs(pending_docs_)});
    }
    pending_docs_.clear();
}

std::string_view Scanner::docs_at(uint32_t offset) const {
    for (size_t lo = 0, hi = docs_.size(); lo < hi;) {
        size_t mid = (lo + hi) / 2;
        if (docs_[mid].token == offset) return docs_[mid].text;
        (docs_[mid].token < offset ? lo : hi) = docs_[mid].token < offset ? mid + 1 : mid;
    }
    return {};
}

// ---- brackets ----

Token Scanner::open_or_less(const unsigned char* start) {
    uint32_t at = uint32_t(start - begin_);
    if (previous_ != T::IDENT) return make(T::LT, start);
    int b = before_previous_;
    bool certain = b == T::KERNEL || b == T::FN || b == T::STRUCT || b == T::LAYOUT || b == T::TYPE;
    if (!certain && !generics_.opens(at, frames_.back().kind == '<')) return make(T::LT, start);
    frames_.push_back({'<', false, certain, at});
    return make(T::GENERIC_OPEN, start);
}

Token Scanner::close_or_greater(const unsigned char* start, int kind) {
    const Frame& top = frames_.back();
    const Frame& outer = frames_[frames_.size() > 1 ? frames_.size() - 2 : 0];
    bool assigns = kind == T::SHR_ASSIGN && outer.kind == '<' && outer.certain;
    bool closes = top.kind == '<' && (kind == T::GT || kind == T::SHR || assigns || (top.certain && kind == T::GE));
    if (!closes) return make(kind, start);
    cursor_ = start + 1;
    frames_.pop_back();
    return make(T::GENERIC_CLOSE, start);
}

Token Scanner::brace(const unsigned char* start) {
    if (previous_ == T::IN) return make(T::SET_OPEN, start);
    drop_to_block();
    frames_.back().attributes = false;
    return make(T::LBRACE, start);
}

/// Pops the frame that a closing bracket closes, with the unclosed ones inside it; a stray closer changes nothing.
void Scanner::close_frame(char open) {
    for (size_t i = frames_.size(); i-- > 1;) {
        char kind = frames_[i].kind;
        bool matches = kind == open || (open == '{' && kind == 'S');
        if (matches) {
            frames_.resize(i);
            return;
        }
        if (kind == '{' || kind == 'S') return;
    }
}

/// Statements and blocks never stand inside brackets: whatever is still open there stays unclosed.
void Scanner::drop_to_block() {
    while (frames_.back().kind != '{' && frames_.back().kind != 'B') frames_.pop_back();
}

void Scanner::track(Token& token) {
    uint32_t at = token.span.begin;
    switch (token.kind) {
        case T::LPAREN:
            frames_.push_back({'(', false, false, at});
            break;
        case T::LBRACKET:
            frames_.push_back({'[', false, false, at});
            break;
        case T::LBRACE:
            frames_.push_back({'{', false, false, at});
            break;
        case T::SET_OPEN:
            frames_.push_back({'S', false, false, at});
            break;
        case T::RPAREN:
            close_frame('(');
            break;
        case T::RBRACKET:
            close_frame('[');
            break;
        case T::RBRACE:
            close_frame('{');
            break;
        case T::FOR:
        case T::WHILE:
        case T::KERNEL:
            frames_.back().attributes = true;
            break;
        case T::SEMI:
            drop_to_block();
            frames_.back().attributes = false;
            break;
        default:
            break;
    }
    if (frames_.size() > kMaxDepth + 1) {
        error(Diag::nesting_too_deep, token.span, {std::to_string(kMaxDepth)});
        halted_ = true;
        token.kind = T::END;
    }
}

/// Before an item keyword or the end: reports the open blocks and closes them. False when there are none.
bool Scanner::close_blocks_before(const Token& token) {
    uint32_t open = 0, innermost = 0;
    for (const Frame& frame : frames_) {
        if (frame.kind == '{' || frame.kind == 'S') {
            ++open;
            innermost = frame.at;
        }
    }
    if (token.kind == T::END && frames_.size() > 1) ended_open_ = true;
    frames_.resize(1);
    frames_[0].attributes = token.kind == T::KERNEL;
    if (open == 0) return false;
    std::string before = token.kind == T::END ? "the end of the file" : "`" + std::string(token.text) + "`";
    // At the end of the file the last token is what the reader can see.
    Span span = token.kind == T::END && previous_end_ > 0 ? Span{file_, previous_end_ - 1, previous_end_} : token.span;
    Diagnostic& d = error(Diag::missing_brace, span, {before});
    d.labels.push_back({{file_, innermost, innermost + 1}, "this `{` is still open"});
    const size_t line = token.span.begin == 0 ? 0 : text_.rfind('\n', token.span.begin - 1) + 1;
    if (token.kind != T::END && token.span.begin > line) {  // not where items begin
        d.notes.push_back("functions, types and imports stand outside of bodies; a name for a value in a body is declared by `let` or `const`");
    }
    closed_at_ = token.span.begin;
    last_error_ = token.span.end;
    virtual_closers_ = open;
    return true;
}

bool is_keyword(int kind) { return kind >= T::IMPORT && kind <= T::CONST_MOD; }

Token Scanner::next() {
    if (virtual_closers_ > 0) {
        --virtual_closers_;
        Token closer = held_;
        closer.kind = T::RBRACE;
        closer.is_virtual = true;
        closer.span.end = closer.span.begin;
        return closer;
    }
    if (has_held_) {
        has_held_ = false;
        return held_;
    }
    Token token;
    if (!halted_) token = scan();
    if (token.kind == T::END && !halted_ && !errors_at_end_) {
        errors_at_end_ = diags_.error_count();
        open_at_end_ = static_cast<uint32_t>(frames_.size()) - 1;
    }
    if (halted_) {
        cursor_ = limit_;
        return make(T::END, limit_);
    }
    attach_docs(token);
    any_token_ = true;
    // Behind a point stands a member, whatever words it is spelled with: `tl.where`.
    if (previous_ == T::DOT && is_keyword(token.kind))
        token.kind = T::IDENT, token.text = text_.substr(token.span.begin, token.span.end - token.span.begin);
    // Behind a colon it is a bound: `F: fn`.
    if (previous_ == T::COLON && token.kind == T::FN && frames_.size() > 1) token.kind = T::IDENT, token.text = "fn";
    if (frames_.size() == 1 && token.kind == T::IDENT && (previous_ == 0 || previous_ == T::RBRACE || previous_ == T::SEMI)) foreign_item(token);
    track(token);
    before_previous_ = std::exchange(previous_, token.kind);
    uint32_t end = token.span.end;
    bool boundary = is_item_keyword(token.kind) || token.kind == T::END;
    if (boundary && !halted_ && frames_.size() > 1) {
        held_ = token;
        has_held_ = true;
        if (close_blocks_before(token)) return next();
        has_held_ = false;
    }
    previous_end_ = end;
    return token;
}

}  // namespace tegula::syntax
