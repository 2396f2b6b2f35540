// Tokens and comments -> pieces: commas that mean nothing are dropped, unary and binary operators told apart, widths summed up.
#include "parser/format_pieces.h"

#include <algorithm>
#include <utility>

#include "parser/grammar.h"

namespace tegula::syntax {

using T = Grammar::token;

namespace {

bool is_opener(int kind) { return kind == T::LPAREN || kind == T::LBRACKET || kind == T::SET_OPEN || kind == T::GENERIC_OPEN; }

bool is_operator(int kind) {
    switch (kind) {
        case T::PLUS:
        case T::MINUS:
        case T::STAR:
        case T::SLASH:
        case T::PERCENT:
        case T::AMP:
        case T::BAR:
        case T::CARET:
        case T::SHL:
        case T::SHR:
        case T::AND_AND:
        case T::OR_OR:
        case T::EQ:
        case T::NE:
        case T::LT:
        case T::LE:
        case T::GT:
        case T::GE:
            return true;
        default:
            return false;
    }
}

}  // namespace

Pieces::Pieces(const SourceMap& sources, uint32_t file, DiagSink& diags) : text_(sources.text(file)), scanner_(sources, file, arena_, diags) {
    if (!scanner_.check_text()) return;
    std::vector<std::pair<Span, Token>> tokens;
    for (Token token = scanner_.next(); token.kind != T::END; token = scanner_.next()) tokens.push_back({token.span, token});
    size_t c = 0;
    const std::vector<Comment>& comments = scanner_.comments();
    for (const auto& [span, token] : tokens) {
        for (; c < comments.size() && comments[c].span.begin < span.begin; ++c) add_comment(comments[c]);
        add(span, {token.kind, slice(span)});
    }
    for (; c < comments.size(); ++c) add_comment(comments[c]);
    drop_trailing_commas();
    mark();
}

void Pieces::add(Span span, Piece piece) {
    std::string_view gap = text_.substr(end_, span.begin - end_);
    auto newlines = std::count(gap.begin(), gap.end(), '\n');
    piece.own_line = newlines > 0;
    piece.blank_before = newlines > 1;
    end_ = span.end;
    pieces.push_back(piece);
}

void Pieces::add_comment(const Comment& comment) {
    std::string_view text = slice(comment.span);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
    Piece piece{0, text};
    piece.comment = true;
    piece.line_comment = comment.is_line;
    add(comment.span, piece);
}

size_t Pieces::next_token(size_t i) const {
    for (++i; i < pieces.size() && pieces[i].comment;) ++i;
    return i;
}

/// A comma before a closing bracket means nothing, except in (a,).
void Pieces::drop_trailing_commas() {
    struct Open {
        int bracket, commas;
        bool is_tuple;  ///< not a list of arguments or parameters
    };
    std::vector<Open> open{{0, 0, false}};
    int previous = 0;
    std::vector<Piece> kept;
    for (size_t i = 0; i < pieces.size(); ++i) {
        int kind = pieces[i].kind;
        if (is_opener(kind) || kind == T::LBRACE) open.push_back({kind, 0, kind == T::LPAREN && !ends_operand(previous)});
        if (!pieces[i].comment) previous = kind;
        bool closes = kind == T::RPAREN || kind == T::RBRACKET || kind == T::RBRACE || kind == T::GENERIC_CLOSE;
        if (closes && open.size() > 1) open.pop_back();
        if (kind == T::COMMA) {
            size_t next = next_token(i);
            int after = next < pieces.size() ? pieces[next].kind : 0;
            bool last =
                after == T::RPAREN || after == T::RBRACKET || after == T::GENERIC_CLOSE || (after == T::RBRACE && open.back().bracket == T::SET_OPEN);
            bool needed = open.back().is_tuple && open.back().commas == 0;
            ++open.back().commas;
            if (last && !needed) continue;
        }
        kept.push_back(pieces[i]);
    }
    pieces = std::move(kept);
}

void Pieces::mark() {
    std::vector<size_t> open;
    int previous = 0;
    bool in_bars = false;
    for (size_t i = 0; i < pieces.size(); ++i) {
        Piece& p = pieces[i];
        if (!p.comment) {
            mark_operator(p, previous, in_bars);
            previous = p.kind == T::RBRACE && !open.empty() ? T::RBRACKET : p.kind;
            if (p.closing_bar) previous = T::COMMA;
            if (is_opener(p.kind)) open.push_back(i);
            bool closes = p.kind == T::RPAREN || p.kind == T::RBRACKET || p.kind == T::GENERIC_CLOSE || p.kind == T::RBRACE;
            if (closes && !open.empty()) {
                p.match = open.back();
                pieces[open.back()].match = i;
                open.pop_back();
            }
        }
    }
    size_t width = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
        Piece& p = pieces[i];
        bool forced = p.line_comment || (p.comment && p.text.find('\n') != p.text.npos);
        width += forced ? kForced : p.text.size() + (i > 0 && space_before(i) ? 1 : 0);
        p.width_to = width;
    }
}

void Pieces::mark_operator(Piece& p, int previous, bool& in_bars) {
    bool after_operand = ends_operand(previous);
    if (p.kind == T::BAR && in_bars) {
        in_bars = false;
        p.closing_bar = true;
    } else if (p.kind == T::BAR && !after_operand) {
        in_bars = p.prefix = true;
    } else if (p.kind == T::BANG || p.kind == T::TILDE || (p.kind == T::MINUS && !after_operand)) {
        p.prefix = true;
    } else {
        p.binary = is_operator(p.kind);
    }
}

/// Whether a space stands before piece `i` when both are on one line.
bool Pieces::space_before(size_t i) const {
    const Piece &a = pieces[i - 1], &b = pieces[i];
    if (is_opener(a.kind) || a.prefix) return false;
    switch (b.kind) {
        case T::COMMA:
        case T::SEMI:
        case T::RPAREN:
        case T::RBRACKET:
        case T::GENERIC_CLOSE:
            return false;
        case T::RBRACE:
            return b.match == 0;
        case T::DOT:
            return a.comment;
        case T::COLON:
            return a.comment || a.kind == T::COMMA;
        case T::LPAREN:
        case T::LBRACKET:
            return !ends_operand(a.kind) || a.comment || a.kind == T::STRING;
        case T::GENERIC_OPEN:
            return a.comment;
        default:
            break;
    }
    return a.kind != T::DOT && !b.closing_bar;
}

}  // namespace tegula::syntax
