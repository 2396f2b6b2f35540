// The pieces of the formatter: a file's tokens and comments in order of position, with what the spacing rules need to know about each.
// Made from the scanner alone; used by format.cpp only.
#pragma once
#include <string_view>
#include <vector>

#include "parser/scanner.h"

namespace tegula::syntax {

constexpr size_t kForced = 1 << 20;  ///< width of what cannot stand in a line with anything after it

struct Piece {
    int kind;
    std::string_view text;
    bool comment = false, line_comment = false;
    bool own_line = false;      ///< the source has a line break before it
    bool blank_before = false;  ///< ... and a blank line
    bool prefix = false;        ///< unary operator or opening bar of a lambda
    bool closing_bar = false;
    bool binary = false;
    size_t match = 0;     ///< the other bracket; 0: none
    size_t width_to = 0;  ///< flat width of the text up to and including this piece
};

class Pieces {
public:
    /// The file must parse without errors.
    Pieces(const SourceMap& sources, uint32_t file, DiagSink& diags);
    /// Whether a space stands before piece `i` when both are on one line.
    bool space_before(size_t i) const;
    std::vector<Piece> pieces;

private:
    Arena arena_;
    std::string_view text_;
    Scanner scanner_;
    uint32_t end_ = 0;

    std::string_view slice(Span span) const { return text_.substr(span.begin, span.end - span.begin); }
    void add(Span span, Piece piece);
    void add_comment(const Comment& comment);
    size_t next_token(size_t i) const;
    void drop_trailing_commas();
    void mark();
    static void mark_operator(Piece& piece, int previous, bool& in_bars);
};

}  // namespace tegula::syntax
