// The formatter: writes a file's own tokens and comments again with canonical spaces and line breaks, so that neither can be lost. The
// breaks depend on the tokens alone (except for one blank line kept between statements), which makes the result a fixed point.
// A logical line is what ends in `;`, `{` or `}`; one that is too long breaks at its outermost brackets, then after operators.
#include <algorithm>
#include <utility>

#include "parser/format_pieces.h"
#include "parser/grammar.h"
#include "parser/parse.h"

namespace tegula {

namespace {

using syntax::kForced;
using syntax::Piece;
using syntax::Pieces;
using T = syntax::Grammar::token;

constexpr size_t kColumns = 100;
constexpr size_t kTab = 4;
constexpr size_t kShortItem = 24;  ///< lists of items up to this width are filled, not stacked

class Formatter {
public:
    explicit Formatter(const Pieces& source) : source_(source), pieces_(source.pieces) {}
    std::string run() {
        size_t i = 0;
        while (i < pieces_.size()) i = statement(i);
        if (!out_.empty()) out_ += '\n';
        return std::move(out_);
    }

private:
    const Pieces& source_;
    const std::vector<Piece>& pieces_;
    std::string out_;
    size_t column_ = 0;
    bool pending_ = false;  ///< a line break is due before the next piece
    size_t pending_indent_ = 0;
    size_t depth_ = 0;  ///< open blocks
    bool first_in_block_ = true, blank_due_ = false, in_struct_ = false, kernel_header_ = false;

    void due(size_t indent) {
        pending_ = true;
        pending_indent_ = indent;
    }

    void put(size_t i) {
        const Piece& p = pieces_[i];
        if (pending_) {
            if (!out_.empty()) out_ += '\n';
            out_.append(pending_indent_, ' ');
            column_ = pending_indent_;
            pending_ = false;
        } else if (i > 0 && !out_.empty() && source_.space_before(i)) {
            out_ += ' ';
            ++column_;
        }
        out_ += p.text;
        size_t newline = p.text.rfind('\n');
        column_ = newline == p.text.npos ? column_ + p.text.size() : p.text.size() - newline - 1;
    }

    /// A comment inside a logical line; `indent` is where the line goes on.
    void put_comment(size_t i, size_t indent) {
        const Piece& p = pieces_[i];
        if (!p.line_comment) return put(i);
        if (p.own_line || out_.empty()) {
            if (!pending_) due(indent);
            size_t at = pending_indent_;
            put(i);
            due(at);
        } else {
            out_ += "  ";
            out_ += p.text;
            if (!pending_) due(indent);
        }
    }

    /// Comments on the line where a statement or block brace ended.
    size_t trailing_comments(size_t i) {
        for (; i < pieces_.size() && pieces_[i].comment && !pieces_[i].own_line && i > 0; ++i) {
            out_ += pieces_[i].line_comment ? "  " : " ";
            out_ += pieces_[i].text;
        }
        return i;
    }

    /// Starts a line for piece `i` at the current block depth, with a blank line where one belongs.
    void start_line(size_t i) {
        due(depth_ * kTab);
        bool blank = (pieces_[i].blank_before && !first_in_block_) || blank_due_;
        if (blank && !out_.empty() && pieces_[i].kind != T::RBRACE) out_ += '\n';
        first_in_block_ = blank_due_ = false;
    }

    /// Formats one comment, statement or block boundary; returns the next piece.
    size_t statement(size_t i) {
        if (pieces_[i].comment) {
            start_line(i);
            put(i);
            return i + 1;
        }
        if (pieces_[i].kind == T::RBRACE) return close_block(i);
        start_line(i);
        return logical_line(i);
    }

    size_t close_block(size_t i) {
        depth_ -= depth_ > 0;
        in_struct_ = false;
        start_line(i);
        put(i);
        if (i + 1 < pieces_.size() && pieces_[i + 1].kind == T::ELSE) return logical_line(i + 1);
        blank_due_ = depth_ == 0;
        return trailing_comments(i + 1);
    }

    /// Clauses of a kernel and attributes of a function each start a line of their own; other lines have one part.
    size_t logical_line(size_t i) {
        size_t base = depth_ * kTab;
        kernel_header_ = pieces_[i].kind == T::KERNEL || pieces_[i].kind == T::FN;
        bool is_struct = pieces_[i].kind == T::STRUCT;
        bool clauses = false;
        size_t end = line_end(i), part = i;
        for (size_t k = i + 1; kernel_header_ && k < end; ++k) {
            if (pieces_[k].match > k) {
                k = pieces_[k].match;
                continue;
            }
            if (!is_clause(pieces_[k].kind)) continue;
            range(part, k, base + (clauses ? kTab : 0));
            due(base + kTab);
            part = k;
            clauses = true;
        }
        bool block = end < pieces_.size() && pieces_[end].kind == T::LBRACE;
        range(part, end, base + (clauses ? kTab : 0), block && !clauses ? 2 : 1);
        if (end >= pieces_.size()) return end;
        if (block && clauses) due(base);
        put(end);
        if (!block) return trailing_comments(end + 1);
        return open_block(end, is_struct);
    }

    size_t open_block(size_t end, bool is_struct) {
        if (end + 1 < pieces_.size() && pieces_[end + 1].kind == T::RBRACE) {
            out_ += '}';
            ++column_;
            if (end + 2 < pieces_.size() && pieces_[end + 2].kind == T::ELSE) return logical_line(end + 2);
            blank_due_ = depth_ == 0;
            return trailing_comments(end + 2);
        }
        ++depth_;
        first_in_block_ = true;
        in_struct_ = is_struct;
        return trailing_comments(end + 1);
    }

    static bool is_clause(int kind) {
        return kind == T::GRID || kind == T::WHERE || kind == T::TUNE || kind == T::DISPATCH || kind == T::SCHEDULE || kind == T::ATTRIBUTE;
    }

    /// The piece that ends the logical line from `i`: `;`, `{`, in a struct `,`; or the `}` (or end) in front of which it stops.
    size_t line_end(size_t i) const {
        for (; i < pieces_.size(); ++i) {
            int kind = pieces_[i].kind;
            if (pieces_[i].match > i) {
                i = pieces_[i].match;
            } else if (kind == T::SEMI || kind == T::LBRACE || (in_struct_ && kind == T::COMMA)) {
                return i;
            } else if (kind == T::RBRACE) {
                return stop_before(i);
            }
        }
        return i;
    }

    /// The last field of a struct has no `,`: its line ends with its last piece.
    size_t stop_before(size_t i) const {
        for (--i; pieces_[i].comment;) --i;
        return i;
    }

    size_t width(size_t from, size_t to) const { return to <= from ? 0 : pieces_[to - 1].width_to - (from > 0 ? pieces_[from - 1].width_to : 0); }

    /// Writes [i, end) of one bracket level; `tail` is the width of what must follow on the last line.
    void range(size_t i, size_t end, size_t indent, size_t tail = 0) {
        for (; i < end; ++i) {
            const Piece& p = pieces_[i];
            if (p.comment) {
                put_comment(i, indent + kTab);
            } else if (p.match > i && p.match < end) {
                bracket(i, end, indent, tail);
                i = p.match;
            } else {
                put(i);
                if (p.binary || p.kind == T::FAT_ARROW) break_after_operator(i + 1, end, indent, tail);
            }
        }
    }

    /// Goes to a new line when the operand from `i` up to the next operator fits there but not here.
    void break_after_operator(size_t i, size_t end, size_t indent, size_t tail) {
        size_t next = i, opener = end;
        while (next < end && !pieces_[next].binary) {
            if (pieces_[next].match > next) {
                opener = std::min(opener, next + 1);
                next = pieces_[next].match;
            }
            ++next;
        }
        size_t whole = width(i, std::min(next + 1, end)) + (next >= end ? tail : 0);
        size_t shortest = opener < end ? width(i, opener) : whole;
        bool fits_there = indent + kTab + whole <= kColumns;
        if (column_ + (fits_there ? whole : shortest) > kColumns) due(indent + kTab);
    }

    /// Writes a bracket with its content, in one line if that fits with what must follow it, else broken at its commas.
    void bracket(size_t open, size_t end, size_t indent, size_t tail) {
        size_t close = pieces_[open].match, stop = close + 1;
        while (stop < end && pieces_[stop].match <= stop && !pieces_[stop].binary && pieces_[stop].kind != T::COMMA) ++stop;
        // Parameters give way before the result type behind them, if that then fits.
        bool result = close + 1 < end && pieces_[close + 1].kind == T::ARROW;
        if (result && indent + width(close, end) + tail <= kColumns) stop = end;
        bool at_end = stop >= end;
        size_t follow = width(close, std::min(stop + 1, end)) + (at_end ? tail : 0);
        if (follow >= kForced) follow = 1;
        size_t flat = width(open, close) + follow, column = pending_ ? pending_indent_ : column_;
        if (close == open + 1 || column + flat <= kColumns) {
            for (size_t k = open; k <= close; ++k) put(k);
            return;
        }
        size_t inner = (pending_ ? pending_indent_ : indent) + kTab;
        put(open);
        bool fill = fills(open, close);
        due(inner);
        for (size_t from = open + 1; from < close;) {
            size_t to = element_end(from, close);
            bool comma = to < close;
            if (fill && !pending_ && column_ + 1 + width(from, to) + 1 > kColumns) due(inner);
            range(from, to, inner, 1);
            if (comma) put(to);
            from = to + comma;
            // A comment behind the comma belongs to the element before it.
            while (from < close && pieces_[from].line_comment && !pieces_[from].own_line) put_comment(from++, inner);
            if (!fill) due(inner);
        }
        due(inner - kTab);
        put(close);
    }

    size_t element_end(size_t from, size_t close) const {
        for (; from < close && pieces_[from].kind != T::COMMA; ++from) {
            if (pieces_[from].match > from) from = pieces_[from].match;
        }
        return from;
    }

    bool fills(size_t open, size_t close) const {
        if (pieces_[open].kind != T::LBRACKET && pieces_[open].kind != T::SET_OPEN) return false;
        size_t count = 0;
        for (size_t from = open + 1; from < close; ++count) {
            size_t to = element_end(from, close);
            if (width(from, to) > kShortItem) return false;
            from = to + 1;
        }
        return count > 4;
    }
};

std::string dump_file(const SourceMap& sources, uint32_t file, DiagSink& diags) {
    Arena arena;
    return dump_ast(*parse_module(sources, file, arena, diags));
}

}  // namespace

std::optional<std::string> format_source(const SourceMap& sources, uint32_t file, DiagSink& diags) {
    size_t before = diags.error_count();
    std::string meaning = dump_file(sources, file, diags);
    if (diags.error_count() != before) return std::nullopt;
    DiagSink none;
    std::string out = Formatter(Pieces(sources, file, none)).run();
    // Spaces can move a `>` out of the scanner's look-ahead; such a file stays as it is.
    SourceMap check;
    uint32_t formatted = check.add(std::string(sources.name(file)), out);
    if (dump_file(check, formatted, none) != meaning || none.has_errors()) return std::string(sources.text(file));
    return out;
}

}  // namespace tegula
