// Diagnostics as text for people and as JSON for tools (diag.h). Source text is hostile here: control characters, bidirectional
// overrides and bad UTF-8 come out as visible escapes, and only a window of an overlong line is shown.
#include <algorithm>
#include <tuple>

#include "lang/diag.h"

namespace tegula {

namespace {

constexpr uint32_t kBadByte = 0xFFFFFFFF;

/// The code point at `at` and its length in bytes; kBadByte with length 1 when the bytes are not UTF-8.
uint32_t decode_utf8(std::string_view text, size_t at, size_t& length) {
    auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
    uint8_t first = byte(0);
    length = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0x80) return first;
    uint32_t smallest = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
    bool good = first >= 0xC2 && first <= 0xF4 && at + length <= text.size();
    uint32_t point = first & (0x7F >> length);
    for (size_t i = 1; good && i < length; ++i) {
        good = (byte(i) & 0xC0) == 0x80;
        point = point << 6 | (byte(i) & 0x3F);
    }
    if (good && point >= smallest && point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF)) return point;
    length = 1;
    return kBadByte;
}

struct Interval {
    uint32_t first, last;
};
template <size_t N>
bool in_any(const Interval (&intervals)[N], uint32_t point) {
    return std::any_of(std::begin(intervals), std::end(intervals), [=](Interval i) { return point >= i.first && point <= i.last; });
}

/// Characters that could hide or reorder text on a terminal.
bool is_deceptive(uint32_t point) {
    static constexpr Interval kBad[] = {{0x00, 0x1F},     {0x7F, 0x9F},     {0xAD, 0xAD},     {0x61C, 0x61C},   {0x180E, 0x180E},  {0x200B, 0x200F},
                                        {0x2028, 0x202E}, {0x2060, 0x206F}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};
    return in_any(kBad, point);
}

/// Terminal columns of a printable character.
size_t width_of(uint32_t point) {
    static constexpr Interval kCombining[] = {{0x300, 0x36F},   {0x483, 0x489},   {0x591, 0x5BD},   {0x610, 0x61A},   {0x64B, 0x65F},
                                              {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x20D0, 0x20F0}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}};
    static constexpr Interval kWide[] = {{0x1100, 0x115F}, {0x2E80, 0x303E},   {0x3041, 0x33FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},
                                         {0xA000, 0xA4CF}, {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
                                         {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
    if (point < 0x300) return 1;
    return in_any(kCombining, point) ? 0 : in_any(kWide, point) ? 2 : 1;
}

void append_hex(std::string& out, uint32_t value, int digits) {
    static constexpr char kDigits[] = "0123456789abcdef";
    for (int i = digits - 1; i >= 0; --i) out += kDigits[value >> (4 * i) & 15];
}

/// Appends the character at `at` as it is shown, and returns the columns it takes.
size_t append_shown(std::string& out, std::string_view text, size_t at, size_t& length) {
    uint32_t point = decode_utf8(text, at, length);
    size_t before = out.size();
    if (point == kBadByte || (point < 0x80 && is_deceptive(point))) {
        if (point == '\n' || point == '\t' || point == '\r') {
            out += point == '\n' ? "\\n" : point == '\t' ? "\\t" : "\\r";
        } else {
            out += "\\x";
            append_hex(out, static_cast<uint8_t>(text[at]), 2);
        }
    } else if (is_deceptive(point)) {
        out += "\\u{";
        append_hex(out, point, point > 0xFFFF ? 5 : 4);
        out += "}";
    } else {
        out += text.substr(at, length);
        return width_of(point);
    }
    return out.size() - before;
}

/// Names, numbers and strings without end, of which the beginning and the end are enough, in the text of a message.
std::string shortened(std::string_view text) {
    constexpr size_t kLongWord = 400, kFirst = 200, kLast = 80;  // bytes
    const auto boundary = [&](size_t at) {                       // not within a character
        for (int back = 0; back < 3 && (text[at] & 0xC0) == 0x80; ++back) --at;
        return at;
    };
    std::string out;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
        if (end - at > kLongWord) {
            const size_t first = boundary(at + kFirst), last = boundary(end - kLast);
            ((out += text.substr(at, first - at)) += "...") += text.substr(last, end - last);
        } else {
            out += text.substr(at, end - at);
        }
        at = std::min(text.find_first_not_of(" \t\n", end), text.size());
        out += text.substr(end, at - end);
    }
    return out;
}

std::string shown_text(std::string_view text) { return printable(shortened(text)); }

// ---- text ----

constexpr size_t kTab = 4;
constexpr size_t kWindowBytes = 240;  // of a longer line only so much is shown
constexpr size_t kMaxLineMarks = 64;

struct Mark {  // an underline on one line, in bytes of that line
    uint32_t file, line, line_offset;
    size_t begin, end;
    bool primary;
    std::string text;
    size_t order;  // as reported
};

struct Paint {
    bool on;
    std::string operator()(const char* code, std::string_view text) const {
        return on ? std::string("\x1b[") + code + "m" + std::string(text) + "\x1b[0m" : std::string(text);
    }
};

const char* level_name(Severity s) { return s == Severity::error ? "error" : s == Severity::warning ? "warning" : "note"; }
const char* level_colour(Severity s) { return s == Severity::error ? "1;31" : s == Severity::warning ? "1;33" : "1;36"; }

/// One mark, or two for a span over several lines (its first and its last line).
void add_marks(std::vector<Mark>& marks, const SourceMap& sources, Span span, bool primary, const std::string& text) {
    LineCol begin = sources.line_col(span.file, span.begin), end = sources.line_col(span.file, std::max(span.begin, span.end));
    if (begin.line == 0) return;
    size_t length = sources.line_text(span.file, span.begin).size();
    bool ends_here = end.line == begin.line || (end.line == begin.line + 1 && end.column == 1);
    size_t first = std::min<size_t>(begin.column - 1, length);
    size_t last = end.line == begin.line ? std::min<size_t>(end.column - 1, length) : length;
    marks.push_back({span.file, begin.line, span.begin, first, std::max(last, first), primary, ends_here ? text : "", marks.size()});
    if (ends_here) return;
    std::string_view tail = sources.line_text(span.file, span.end);
    size_t from = std::min(tail.find_first_not_of(" \t"), tail.size()), to = std::min<size_t>(end.column - 1, tail.size());
    marks.push_back({span.file, end.line, span.end, std::min(from, to), to, primary, text, marks.size()});
}

/// A source line as shown: its text and the column of every byte of it.
struct ShownLine {
    std::string text;
    size_t first_byte = 0;
    std::vector<size_t> columns;  // one more entry than bytes shown
    size_t column(size_t byte) const { return columns[std::clamp(byte, first_byte, first_byte + columns.size() - 1) - first_byte]; }
};

ShownLine show_line(std::string_view line, size_t first_mark) {
    ShownLine shown;
    size_t end = line.size();
    if (line.size() > kWindowBytes) {
        shown.first_byte = first_mark > kWindowBytes / 3 ? std::min(first_mark - kWindowBytes / 3, line.size() - kWindowBytes) : 0;
        while (shown.first_byte > 0 && (line[shown.first_byte] & 0xC0) == 0x80 && first_mark - shown.first_byte < kWindowBytes / 3 + 4)
            --shown.first_byte;
        end = std::min(line.size(), shown.first_byte + kWindowBytes);
        while (end < line.size() && end < shown.first_byte + kWindowBytes + 4 && (line[end] & 0xC0) == 0x80) ++end;
    }
    std::string_view cut = line.substr(0, end);
    size_t column = 0;
    if (shown.first_byte > 0) {
        shown.text = "...";
        column = 3;
    }
    for (size_t at = shown.first_byte, length = 1; at < end; at += length) {
        size_t width;
        if (cut[at] == '\t') {
            length = 1;
            width = kTab - column % kTab;
            shown.text.append(width, ' ');
        } else {
            width = append_shown(shown.text, cut, at, length);
        }
        shown.columns.insert(shown.columns.end(), length, column);
        column += width;
    }
    shown.columns.push_back(column);
    if (end < line.size()) shown.text += "...";
    return shown;
}

/// The rows under a source line: underlines, then one row of text per mark, rightmost first.
std::vector<std::string> underline(const ShownLine& shown, const std::vector<const Mark*>& marks, const Paint& paint, const char* colour) {
    struct Placed {
        size_t begin, end;
        const Mark* mark;
    };
    std::vector<Placed> placed;
    for (const Mark* mark : marks) {
        size_t begin = shown.column(mark->begin);
        placed.push_back({begin, std::max(shown.column(mark->end), begin + 1), mark});
    }
    std::sort(placed.begin(), placed.end(),
              [](const Placed& a, const Placed& b) { return a.begin != b.begin ? a.begin < b.begin : a.mark < b.mark; });
    size_t width = 0;
    for (const Placed& p : placed) width = std::max(width, p.end);
    std::string kinds(width, ' ');
    for (const Placed& p : placed)
        for (size_t i = p.begin; i < p.end; ++i)
            if (kinds[i] != '^') kinds[i] = p.mark->primary ? '^' : '-';
    auto painted = [&](const std::string& row) {
        std::string out;
        for (size_t at = 0; at < row.size();) {
            size_t next = std::min(row.find_first_not_of(row[at], at), row.size());
            std::string_view run = std::string_view(row).substr(at, next - at);
            out += row[at] == '^' ? paint(colour, run) : row[at] == ' ' ? std::string(run) : paint("1;34", run);
            at = next;
        }
        return out;
    };
    auto label = [&](const Mark& mark) { return paint(mark.primary ? colour : "1;34", shown_text(mark.text)); };

    std::vector<Placed> waiting;
    for (const Placed& p : placed)
        if (!p.mark->text.empty()) waiting.push_back(p);
    std::vector<std::string> rows = {painted(kinds)};
    if (!waiting.empty() && waiting.back().end == width && (waiting.size() < 2 || waiting[waiting.size() - 2].begin < waiting.back().begin)) {
        rows[0] += " " + label(*waiting.back().mark);
        waiting.pop_back();
    }
    auto bars = [&](size_t count, size_t before) {
        std::string row;
        for (size_t i = 0; i < count; ++i)
            if (waiting[i].begin < before) row.resize(std::max(row.size(), waiting[i].begin + 1), ' '), row[waiting[i].begin] = '|';
        return row;
    };
    if (!waiting.empty()) rows.push_back(painted(bars(waiting.size(), width)));
    while (!waiting.empty()) {
        Placed p = waiting.back();
        std::string row = bars(waiting.size() - 1, p.begin);
        row.resize(p.begin, ' ');
        rows.push_back(painted(row) + label(*p.mark));
        waiting.pop_back();
    }
    return rows;
}

void render_excerpt(std::string& out, std::vector<Mark>& marks, const SourceMap& sources, const Paint& paint, const char* colour) {
    uint32_t main_file = marks.front().file;
    std::sort(marks.begin(), marks.end(), [&](const Mark& a, const Mark& b) {
        auto key = [&](const Mark& m) { return std::tuple(m.file != main_file, m.file, m.line, m.begin, m.order); };
        return key(a) < key(b);
    });
    uint32_t last_line = 0;
    for (const Mark& m : marks) last_line = std::max(last_line, m.line);
    size_t gutter = std::to_string(last_line).size();
    const std::string margin(gutter + 1, ' ');
    for (size_t i = 0; i < marks.size();) {
        size_t next = i;
        std::vector<const Mark*> on_line;
        while (next < marks.size() && marks[next].file == marks[i].file && marks[next].line == marks[i].line) on_line.push_back(&marks[next++]);
        if (on_line.size() > kMaxLineMarks) on_line.resize(kMaxLineMarks);
        const Mark& first = marks[i];
        bool new_file = i == 0 || marks[i - 1].file != first.file;
        if (new_file) {
            const Mark* head = &first;
            for (const Mark& m : marks)
                if (m.primary && m.file == first.file && !head->primary) head = &m;
            out += std::string(gutter, ' ') + paint("1;34", i == 0 ? "-->" : ":::") + " " + printable(sources.name(first.file)) + ":" +
                   std::to_string(head->line) + ":" + std::to_string(head->begin + 1) + "\n" + margin + paint("1;34", "|") + "\n";
        } else if (marks[i - 1].line + 1 < first.line) {
            out += "...\n";
        }
        size_t leftmost = first.begin;
        for (const Mark* m : on_line) leftmost = std::min(leftmost, m->begin);
        ShownLine shown = show_line(sources.line_text(first.file, first.line_offset), leftmost);
        std::string number = std::to_string(first.line);
        out += std::string(gutter - number.size(), ' ') + paint("1;34", number + " |") + (shown.text.empty() ? "" : " ") + shown.text + "\n";
        for (const std::string& row : underline(shown, on_line, paint, colour)) out += margin + paint("1;34", "|") + " " + row + "\n";
        i = next;
    }
    out += margin + paint("1;34", "|") + "\n";
}

std::string_view one_line(std::string_view text) {
    while (text.ends_with('\n')) text.remove_suffix(1);
    return text;
}

/// What edit `i` and the next one put `f(` and `)` around; empty: they do not, or it is too long to be shown twice.
std::string_view enclosed(const std::vector<FixIt>& edits, size_t i, const SourceMap& sources) {
    if (i + 1 >= edits.size()) return {};
    const Span open = edits[i].span, close = edits[i + 1].span;
    const bool pair = open.begin == open.end && close.begin == close.end && open.file == close.file && open.end < close.begin;
    if (!pair || !edits[i].text.ends_with('(') || edits[i + 1].text != ")") return {};
    constexpr size_t kLongest = 60;
    const std::string_view inner = sources.text({open.file, open.end, close.begin});
    return inner.size() > kLongest || inner.find('\n') != inner.npos ? std::string_view() : inner;
}

/// "insert `import std.nn as nn;` in line 3 and replace `relu` with `nn.relu`"; empty where nothing is offered.
std::string change_text(const Diagnostic& diag, const SourceMap& sources) {
    std::string out;
    const auto sure = [&](Applicability a) {
        return std::any_of(diag.fixes.begin(), diag.fixes.end(), [a](const FixIt& f) { return f.applicability == a; });
    };
    for (size_t i = 0; i < diag.fixes.size(); ++i) {
        const FixIt& fix = diag.fixes[i];
        const std::string old = shown_text(one_line(sources.text(fix.span))), fresh = shown_text(one_line(fix.text));
        const uint32_t line = sources.line_col(fix.span.file, fix.span.begin).line, here = sources.line_col(diag.span.file, diag.span.begin).line;
        const std::string_view inner = enclosed(diag.fixes, i, sources);
        if (i > 0) out += i + (inner.empty() ? 1 : 2) < diag.fixes.size() ? ", " : " and ";
        if (!inner.empty()) {
            out += "replace `" + shown_text(inner) + "` with `" + fresh + shown_text(inner) + ")`";
            ++i;
        } else {
            out += old.empty() ? "insert `" + fresh + "`" : fresh.empty() ? "remove `" + old + "`" : "replace `" + old + "` with `" + fresh + "`";
        }
        if (line != here) out += " in line " + std::to_string(line);
    }
    if (sure(Applicability::placeholder)) return out + ", with what is meant where it says `..`";
    return (sure(Applicability::maybe) ? "perhaps " : "") + out;
}

}  // namespace

std::string printable(std::string_view text) {
    std::string out;
    for (size_t at = 0, length = 1; at < text.size(); at += length) append_shown(out, text, at, length);
    return out;
}

std::string render_text(const Diagnostic& diag, const SourceMap& sources, bool colour) {
    Paint paint{colour};
    const char* main_colour = level_colour(diag.severity);
    std::string out = paint(main_colour, std::string(level_name(diag.severity)) + "[" + diag_row(diag.id).code + "]") +
                      paint("1", ": " + shown_text(diag.message)) + "\n";
    std::vector<Mark> marks;
    add_marks(marks, sources, diag.span, true, "");
    for (const Label& label : diag.labels) {
        bool same = label.span == diag.span && marks.size() == 1 && marks[0].primary && marks[0].text.empty();
        if (same)
            marks[0].text = label.text;
        else
            add_marks(marks, sources, label.span, false, label.text);
    }
    size_t margin = 1;
    if (!marks.empty()) {
        render_excerpt(out, marks, sources, paint, main_colour);
        for (const Mark& m : marks) margin = std::max(margin, std::to_string(m.line).size());
    }
    auto note = [&](const char* kind, const std::string& text) {
        out += std::string(margin + 1, ' ') + paint("1;34", "=") + " " + paint("1", kind) + ": " + text + "\n";
    };
    for (const DiagNote& line : diag.notes) note(line.kind == DiagNote::help ? "help" : "note", shown_text(line.text));
    if (const std::string change = change_text(diag, sources); !change.empty()) note("help", change);
    return out;
}

// ---- JSON ----

std::string json_quote(std::string_view text) {
    std::string out = "\"";
    for (size_t at = 0, length = 1; at < text.size(); at += length) {
        uint32_t point = decode_utf8(text, at, length);
        if (point == kBadByte) {
            out += "\xEF\xBF\xBD";
        } else if (point == '"' || point == '\\') {
            out += '\\';
            out += static_cast<char>(point);
        } else if (point == '\n' || point == '\t' || point == '\r') {
            out += point == '\n' ? "\\n" : point == '\t' ? "\\t" : "\\r";
        } else if (point < 0x20 || point == 0x7F) {
            out += "\\u";
            append_hex(out, point, 4);
        } else {
            out += text.substr(at, length);
        }
    }
    return out + "\"";
}

namespace {

std::string json_span(Span span, const SourceMap& sources) {
    LineCol begin = sources.line_col(span.file, span.begin), end = sources.line_col(span.file, span.end);
    auto field = [](const char* name, uint32_t value) { return std::string(",\"") + name + "\":" + std::to_string(value); };
    return "\"file\":" + json_quote(sources.name(span.file)) + field("begin", span.begin) + field("end", span.end) + field("line", begin.line) +
           field("column", begin.column) + field("end_line", end.line) + field("end_column", end.column);
}

template <class Items, class Print>
std::string json_list(const Items& items, Print print) {
    std::string out = "[";
    for (const auto& item : items) {
        if (out.size() > 1) out += ",";
        out += print(item);
    }
    return out + "]";
}

}  // namespace

std::string render_json(const Diagnostic& diag, const SourceMap& sources) {
    struct Shown {
        Label label;
        bool primary;
    };
    std::vector<Shown> spans;
    if (diag.span.valid()) spans.push_back({{diag.span, ""}, true});
    for (const Label& label : diag.labels)
        if (label.span.valid()) spans.push_back({label, false});
    return std::string("{\"schema\":1,\"level\":\"") + level_name(diag.severity) + "\",\"code\":" + json_quote(diag_row(diag.id).code) +
           ",\"name\":" + json_quote(diag_row(diag.id).name) + ",\"message\":" + json_quote(shortened(diag.message)) + ",\"spans\":" +
           json_list(spans,
                     [&](const Shown& s) {
                         return "{" + json_span(s.label.span, sources) + ",\"primary\":" + (s.primary ? "true" : "false") +
                                ",\"label\":" + json_quote(shortened(s.label.text)) + "}";
                     }) +
           ",\"notes\":" + json_list(diag.notes, [](const DiagNote& note) { return json_quote(shortened(note.whole())); }) + ",\"fixes\":" +
           json_list(diag.fixes,
                     [&](const FixIt& fix) {
                         return "{" + json_span(fix.span, sources) + ",\"text\":" + json_quote(fix.text) + ",\"applicability\":\"" +
                                to_string(fix.applicability) + "\"}";
                     }) +
           "}";
}

}  // namespace tegula
