// See screen.h.
#include "screen.h"

#include <algorithm>

#include "clusters.h"
#include "lines.h"

namespace tegula_tool::edit {

namespace {

constexpr const char* kDress[] = {"", "35", "36", "33", "32", "90", "", "34", "36", "31", "1;32", "90", "31", "7", "7"};
constexpr size_t kTab = 4;

void add_cell(Row& row, std::string_view bytes, size_t columns, Style style, bool uncertain = false) {
    row.cells.push_back(
        {static_cast<uint32_t>(row.bytes.size()), static_cast<uint32_t>(bytes.size()), static_cast<uint16_t>(columns), style, uncertain});
    row.bytes += bytes;
    row.columns += columns;
}

std::string escaped(char c) {
    constexpr char kHex[] = "0123456789abcdef";
    const auto byte = static_cast<uint8_t>(c);
    return {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
}

/// One line of the text as rows, the first of them with what stands before it.
class LineRows {
public:
    LineRows(const View& view, size_t width) : view_(view), width_(width) {}
    std::vector<Row> rows;
    size_t cursor_row = 0, cursor_column = 0;
    bool has_cursor = false;

    void lay(size_t begin, size_t end, std::string_view before, Style style) {
        rows.assign(1, {});
        rows[0].add(before, style, width_);
        // The rows of a line that is wrapped are indented as its first, where that leaves room.
        indent_ = rows[0].columns * 3 < width_ ? rows[0].columns : 0;
        if (rows[0].columns + 4 > width_) wrap();
        const size_t first = rows.back().columns;
        auto span = std::ranges::upper_bound(view_.colours, begin, {}, &Span::end);
        for (size_t at = begin; at < end;) {
            while (span != view_.colours.end() && span->end <= at) ++span;
            Style look = span != view_.colours.end() && span->begin <= at ? style_of(span->colour) : Style::plain;
            for (const Mark& mark : view_.marks)
                if (mark.begin <= at && at < mark.end) look = mark.style;
            const Cluster cluster = cluster_at(view_.text, at);
            if (view_.cursor >= at && view_.cursor < at + cluster.bytes) put_cursor(cluster.as_bytes ? 4 : cluster.columns);
            if (view_.text[at] == '\t') {
                const size_t column = rows.size() == 1 ? rows.back().columns - first : rows.back().columns;
                for (size_t n = kTab - column % kTab; n > 0; --n) add(" ", 1, look);
            } else if (cluster.as_bytes) {
                for (const char c : view_.text.substr(at, cluster.bytes)) add(escaped(c), 4, look == Style::plain ? Style::escape : look);
            } else {
                add(view_.text.substr(at, cluster.bytes), cluster.columns, look, cluster.uncertain);
            }
            at += cluster.bytes;
        }
        if (view_.cursor == end) put_cursor(1);
        if (end == view_.text.size() && !view_.hint.empty() && rows.back().columns + 2 < width_)
            rows.back().add(view_.hint, Style::faint, width_ - 1);
    }

private:
    const View& view_;
    size_t width_, indent_ = 0;

    void wrap() {
        rows.emplace_back();
        rows.back().add(std::string(indent_, ' '), Style::plain, width_);
    }
    void put_cursor(size_t columns) {
        if (rows.back().columns + columns > width_) wrap();
        cursor_row = rows.size() - 1;
        cursor_column = rows.back().columns;
        has_cursor = true;
    }
    void add(std::string_view bytes, size_t columns, Style style, bool uncertain = false) {
        // What may be wider than it should must not reach the edge, where it would wrap by itself.
        const size_t needs = uncertain ? std::min(bytes.size(), width_ - indent_) : columns;
        if (rows.back().columns + needs > width_ && rows.back().columns > indent_) wrap();
        add_cell(rows.back(), bytes, columns, style, uncertain);
    }
};

}  // namespace

void Row::add(std::string_view text, Style style, size_t width) {
    for (size_t at = 0; at < text.size();) {
        const Cluster cluster = cluster_at(text, at);
        if (columns + cluster.most_columns() > width) return;
        if (text[at] == '\t' || text[at] == '\n')
            add_cell(*this, " ", 1, style);
        else if (cluster.as_bytes)
            for (const char c : text.substr(at, cluster.bytes)) add_cell(*this, escaped(c), 4, style);
        else
            add_cell(*this, text.substr(at, cluster.bytes), cluster.columns, style, cluster.uncertain);
        at += cluster.bytes;
    }
}

Frame Layout::frame(const View& view, size_t width, size_t height) {
    width = std::max<size_t>(width, 12);
    height = std::max<size_t>(height, 1);
    const std::string_view text = view.text;
    const size_t below = std::min(view.below.size(), height - 1), room = height - below;
    const size_t cursor_line = static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(view.cursor), '\n'));
    // Lines that can be seen together with the cursor: none is less than a row.
    size_t line = cursor_line, begin = line_begin(text, view.cursor);
    for (; line > 0 && cursor_line - line < room; --line) begin = line_begin(text, begin - 1);
    std::vector<Row> rows;
    std::vector<Place> places;
    size_t cursor_row = 0, column = 0, top = 0;
    const std::string further = dots(view.prompt);
    for (;; ++line) {
        LineRows laid(view, width);
        const size_t end = line_end(text, begin);
        laid.lay(begin, end, line == 0 ? view.prompt : further, line == 0 ? Style::prompt : Style::faint);
        if (line == cursor_line) cursor_row = rows.size() + laid.cursor_row, column = laid.cursor_column;
        for (size_t part = 0; part < laid.rows.size(); ++part) {
            places.push_back({line, part});
            rows.push_back(std::move(laid.rows[part]));
        }
        if (end == text.size() || line > cursor_line + room) break;
        begin = end + 1;
    }
    const auto kept = std::ranges::find(places, Place{top_line_, top_part_});
    if (kept != places.end())
        top = static_cast<size_t>(kept - places.begin());
    else if (places[0].line > top_line_)
        top = 0;
    else
        top = cursor_row;
    top = std::min(top, cursor_row);
    if (cursor_row >= top + room) top = cursor_row + 1 - room;
    if (rows.size() > room)
        top = std::min(top, rows.size() - room);  // no empty rows under the text
    else if (places[0].line == 0)
        top = 0;
    top_line_ = places[top].line;
    top_part_ = places[top].part;
    Frame frame;
    const size_t bottom = std::min(rows.size(), top + room);
    frame.rows.assign(std::make_move_iterator(rows.begin() + static_cast<std::ptrdiff_t>(top)),
                      std::make_move_iterator(rows.begin() + static_cast<std::ptrdiff_t>(bottom)));
    frame.rows.insert(frame.rows.end(), view.below.begin(), view.below.begin() + static_cast<std::ptrdiff_t>(below));
    frame.row = cursor_row - top;
    frame.column = column;
    return frame;
}

void Painter::go(size_t row, size_t column, std::string& out) {
    if (row == row_ && column == column_) return;
    if (row < row_)
        out += "\x1b[" + std::to_string(row_ - row) + "A";
    else if (row < made_ && row > row_)
        out += "\x1b[" + std::to_string(row - row_) + "B";
    else
        for (size_t r = row_; r < row; ++r) {
            dress(Style::plain, out);  // rows that scroll in take the colour of the background
            out += "\r\n", column_ = 0;
        }
    made_ = std::max(made_, row + 1);
    row_ = row;
    // A return also ends the state that a terminal is in behind its last column.
    if (column != column_ || column == 0) {
        out += "\r";
        if (column > 0) out += "\x1b[" + std::to_string(column) + "C";
    }
    column_ = column;
}

void Painter::dress(Style style, std::string& out) {
    if (style == style_ || !colour_) return;
    style_ = style;
    const std::string_view code = kDress[static_cast<size_t>(style)];
    ((out += code.empty() ? "\x1b[0" : "\x1b[0;") += code) += 'm';
}

void Painter::paint_row(const Row& old, const Row& next, size_t index, std::string& out) {
    const auto same = [&](size_t i, size_t k) {
        const Cell &a = old.cells[i], &b = next.cells[k];
        return a.style == b.style && a.columns == b.columns && a.bytes == b.bytes && !a.uncertain && !b.uncertain &&
               old.bytes.compare(a.at, a.bytes, next.bytes, b.at, b.bytes) == 0;
    };
    const size_t most = std::min(old.cells.size(), next.cells.size());
    size_t first = 0, last = 0, column = 0;  // cells that stay at the beginning and at the end
    while (first < most && same(first, first)) column += next.cells[first++].columns;
    // What is behind a cell of uncertain width may be written over, or more than its columns.
    const bool uncertain = std::ranges::any_of(old.cells, &Cell::uncertain) || std::ranges::any_of(next.cells, &Cell::uncertain);
    if (old.columns == next.columns && !uncertain)
        while (last < most - first && same(old.cells.size() - 1 - last, next.cells.size() - 1 - last)) ++last;
    if (first + last == next.cells.size() && old.columns == next.columns) return;
    go(index, column, out);
    if (uncertain) {
        dress(Style::plain, out);
        out += "\x1b[K";
    }
    for (size_t i = first; i + last < next.cells.size(); ++i) {
        const Cell& cell = next.cells[i];
        dress(cell.style, out);
        out += std::string_view(next.bytes).substr(cell.at, cell.bytes);
        column_ += cell.columns;
        if (!cell.uncertain) continue;
        const size_t behind = column_;
        column_ = SIZE_MAX;  // nobody knows
        go(row_, behind, out);
    }
    if (old.columns <= next.columns || uncertain) return;
    dress(Style::plain, out);
    out += "\x1b[K";
}

std::string Painter::paint(const Frame& frame) {
    std::string out;
    const Row none;
    for (size_t i = 0; i < frame.rows.size(); ++i) {
        const Row& old = i < shown_.rows.size() ? shown_.rows[i] : none;
        if (old == frame.rows[i]) {
            if (i >= made_) go(i, 0, out);  // an empty row is a row, too
        } else {
            paint_row(old, frame.rows[i], i, out);
        }
    }
    if (frame.rows.size() < shown_.rows.size()) {
        go(frame.rows.size(), 0, out);
        dress(Style::plain, out);
        out += "\x1b[J";
    }
    dress(Style::plain, out);
    const bool moves = out.find('\x1b') != std::string::npos || out.find('\r') != std::string::npos;
    go(frame.row, frame.column, out);
    shown_ = frame;
    return moves ? "\x1b[?25l" + out + "\x1b[?25h" : out;
}

std::string Painter::leave() {
    std::string out;
    go(shown_.rows.empty() ? 0 : shown_.rows.size() - 1, 0, out);
    forget();
    return out + "\r\n";
}

std::string Painter::erase() {
    std::string out;
    go(0, 0, out);
    forget();
    return out + "\r\x1b[J";
}

std::string Painter::resized(size_t width, size_t height) {
    // Terminals that wrap rows anew make several of those that became too wide.
    size_t above = column_ == SIZE_MAX ? 0 : column_ / std::max<size_t>(width, 1);
    for (size_t i = 0; i < std::min(row_, shown_.rows.size()); ++i) above += std::max<size_t>((shown_.rows[i].columns + width - 1) / width, 1);
    above = std::min(above, height > 0 ? height - 1 : 0);
    forget();
    return (above ? "\x1b[" + std::to_string(above) + "A" : std::string()) + "\r\x1b[J";
}

void Painter::forget() {
    shown_ = {};
    row_ = column_ = 0;
    made_ = 1;
    style_ = Style::plain;
}

}  // namespace tegula_tool::edit
