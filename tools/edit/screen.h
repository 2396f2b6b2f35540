// Text with colours and a cursor -> rows of a terminal -> the bytes that bring the terminal from what it shows to them. What is written moves the
// cursor by what it knows of its own rows only: where on the screen they stand is the terminal's matter.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "editor.h"

namespace tegula_tool::edit {

/// How a cell looks: the colours of text, and then what the editor itself shows.
enum class Style : uint8_t {
    plain,
    keyword,
    type,
    number,
    string,
    comment,
    operation,
    function,
    attribute,
    error,
    prompt,
    faint,
    escape,
    match,
    chosen
};
inline Style style_of(Colour colour) { return static_cast<Style>(colour); }

struct Cell {
    uint32_t at, bytes;  ///< in the row's bytes
    uint16_t columns;
    Style style;
    bool uncertain;  ///< the cursor is placed anew behind it
    bool operator==(const Cell&) const = default;
};
struct Row {
    std::string bytes;
    std::vector<Cell> cells;
    size_t columns = 0;
    /// A text of one line, as far as it fits into `width` columns.
    void add(std::string_view text, Style style, size_t width);
    bool operator==(const Row&) const = default;
};
struct Frame {
    std::vector<Row> rows;
    size_t row = 0, column = 0;  ///< of the cursor
};

struct Mark {
    size_t begin, end;
    Style style;
};
/// What is to be seen.
struct View {
    std::string_view text;
    size_t cursor = 0;
    std::string prompt;
    std::vector<Span> colours;
    std::vector<Mark> marks;  ///< over the colours
    std::string hint;         ///< behind the end
    std::vector<Row> below;   ///< under the text, cut to the height
};

/// Lays out rows. Of a text that is longer than the screen a part with the cursor is shown, and it moves no more than it must.
class Layout {
public:
    Frame frame(const View& view, size_t width, size_t height);
    void reset() { top_line_ = top_part_ = 0; }

private:
    struct Place {
        size_t line, part;  ///< a line of the text, and the row of it
        bool operator==(const Place&) const = default;
    };
    size_t top_line_ = 0, top_part_ = 0;
};

class Painter {
public:
    explicit Painter(bool colour) : colour_(colour) {}
    /// The terminal shows `frame` then.
    std::string paint(const Frame& frame);
    /// The cursor goes below the frame, which stays and is forgotten.
    std::string leave();
    /// The frame goes; the cursor is where it began.
    std::string erase();
    /// The terminal has another width now: goes to where the frame began, as far as terminals agree, and clears from there.
    std::string resized(size_t width, size_t height);
    /// The cursor stands at the beginning of an empty row.
    void forget();

private:
    const bool colour_;
    Frame shown_;
    size_t row_ = 0, column_ = 0;  ///< of the cursor
    size_t made_ = 1;              ///< rows that are the frame's on the screen
    Style style_ = Style::plain;

    void go(size_t row, size_t column, std::string& out);
    void dress(Style style, std::string& out);
    void paint_row(const Row& old, const Row& next, size_t index, std::string& out);
};

}  // namespace tegula_tool::edit
