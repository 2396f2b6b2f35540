// A picture as text: lines that say all without colour.
#include <algorithm>
#include <array>
#include <cmath>

#include "tools/viz/drawing.h"

namespace tegula_tool::viz {

namespace {

/// Escapes of a terminal by tone: six colours, two of them also bold; what is empty is faint.
constexpr std::array<const char*, kTones> kEscapes = {"", "36", "33", "32", "35", "34", "1;36", "1;33", "1;35", "2", "1;31", "1;32"};

constexpr size_t kLeast = 14;  ///< characters of a column in which words are wrapped

class TextPainter {
public:
    TextPainter(int width, bool colour) : width_(static_cast<size_t>(width)), colour_(colour) {}

    std::string picture(const Json& model) {
        wrap("", text_of(model, "title"));
        if (const auto facts = model.find("facts"); facts != model.end() && !facts->empty()) {
            size_t names = 0;
            for (const Json& fact : *facts) names = std::max(names, length(text_of(fact, "name")));
            for (const Json& fact : *facts) wrap("  " + padded(text_of(fact, "name"), names) + "  ", text_of(fact, "value"));
        }
        for (const Json& figure : model.at("figures")) paint(figure);
        for (const Json& note : model.value("notes", Json::array())) out_ += "\n", wrap("note: ", note.get<std::string>());
        return std::move(out_);
    }

private:
    size_t width_;
    bool colour_;
    std::string out_;

    std::string toned(const std::string& text, int tone) const {
        return colour_ && tone != kPlain && !text.empty() ? std::string("\x1b[") + kEscapes[static_cast<size_t>(tone)] + "m" + text + "\x1b[0m"
                                                          : text;
    }
    /// Ends a line without blanks at its end.
    void line(std::string text) {
        text.erase(text.find_last_not_of(' ') + 1);
        out_ += text + "\n";
    }
    /// Words in lines, all but the first behind as many blanks as `head` has characters.
    void wrap(const std::string& head, const std::string& text) {
        const size_t indent = length(head), room = width_ > indent + kLeast ? width_ - indent : kLeast;
        std::string now = head;
        size_t used = 0;
        for (size_t at = 0; at < text.size();) {
            const size_t end = std::min(text.find(' ', at), text.size());
            const std::string word = text.substr(at, end - at);
            if (used && used + 1 + length(word) > room) line(now), now = std::string(indent, ' '), used = 0;
            now += (used ? " " : "") + word;
            used += length(word) + (used ? 1 : 0);
            at = end + 1;
        }
        line(now);
    }

    void paint(const Json& figure) {
        out_ += "\n";
        if (const std::string title = text_of(figure, "title"); !title.empty()) out_ += title + "\n";
        if (const std::string caption = text_of(figure, "caption"); !caption.empty()) wrap("", caption);
        const std::string kind = text_of(figure, "kind");
        if (kind == "grid") grid(figure);
        if (kind == "ruler") ruler(figure);
        if (kind == "gantt") gantt(figure);
        if (kind == "table") table(figure);
        if (kind == "bars") bars(figure);
        if (kind == "plot") plot(figure);
        if (kind == "listing") listing(figure);
        if (!colour_) return;
        std::string keys;
        for (const Json& key : figure.value("legend", Json::array()))
            keys += (keys.empty() ? "" : "   ") + toned("# " + text_of(key, "text"), tone_of(key));
        if (!keys.empty()) out_ += keys + "\n";
    }

    void grid(const Json& figure) {
        const Json &cells = figure.at("cells"), &rows = figure.at("row_names"), &columns = figure.at("column_names"), &tones = figure.at("tones");
        const std::string corner =
            text_of(figure, "row_axis") + (text_of(figure, "column_axis").empty() ? "" : " \\ " + text_of(figure, "column_axis"));
        size_t head = length(corner);
        for (const Json& name : rows) head = std::max(head, length(name.get<std::string>()));
        std::vector<size_t> widths;
        for (size_t c = 0; c < columns.size(); ++c) {
            size_t w = length(columns[c].get<std::string>());
            for (const Json& row : cells) w = std::max(w, length(row.at(c).get<std::string>()));
            widths.push_back(w);
        }
        // As few parts as the width allows, of about the same number of columns.
        size_t parts = 1;
        const auto fits = [&](size_t each) {
            for (size_t begin = 0; begin < columns.size(); begin += each) {
                size_t used = head;
                for (size_t c = begin; c < std::min(begin + each, columns.size()); ++c) used += 1 + widths[c];
                if (used > width_) return false;
            }
            return true;
        };
        const auto columns_of = [&] { return (columns.size() + parts - 1) / parts; };
        while (parts < columns.size() && !fits(columns_of())) ++parts;
        for (size_t begin = 0; begin < columns.size();) {
            const size_t end = std::min(begin + columns_of(), columns.size());
            std::string text = padded(corner, head);
            for (size_t c = begin; c < end; ++c) text += " " + padded(columns[c].get<std::string>(), widths[c], true);
            line((begin ? "\n" : "") + text);
            for (size_t r = 0; r < cells.size(); ++r) {
                text = padded(rows[r].get<std::string>(), head, true);
                for (size_t c = begin; c < end; ++c) {
                    const std::string cell = cells[r][c].get<std::string>();
                    text += " " + padded("", widths[c] - length(cell)) + toned(cell, std::clamp(tones[r][c].get<int>(), 0, kTones - 1));
                }
                line(text);
            }
            begin = end;
        }
    }

    void ruler(const Json& figure) {
        const int64_t last = figure.value("first_byte", int64_t{0}) + figure.at("bits").get<int64_t>() / 8;
        const size_t head = std::string("byte ").size() + std::to_string(last).size() + 1;
        const int64_t room = static_cast<int64_t>(width_ - head - 1), per_row = bits_per_row(figure, room),
                      each = std::max<int64_t>(1, room / per_row);
        const std::vector<RulerRow> rows = cut_ruler(figure, per_row);
        std::string ticks = padded("bit", head);
        const int64_t widest = rows.empty() ? 0 : rows[0].bits, step = each >= 3 ? 4 : 8;
        for (int64_t bit = 0; bit < widest; bit += step)
            ticks += padded(std::to_string(bit), static_cast<size_t>(each * std::min(step, widest - bit)));
        line(ticks);
        for (const RulerRow& row : rows) {
            std::string text = padded("byte " + std::to_string(row.byte), head);
            for (const Piece& p : row.pieces) {
                const size_t room_of = static_cast<size_t>(p.size * each) - 1;
                const std::string shown = p.tone == kGap && p.text.empty() ? std::string(room_of, '.')
                                          : length(p.text) <= room_of      ? p.text
                                                                           : std::string();
                text += (p.continues ? "<" : "|") + toned(padded(shown, room_of), p.tone);
            }
            line(text + (row.pieces.empty() || !row.pieces.back().goes_on ? "|" : ">"));
        }
    }

    void gantt(const Json& figure) {
        size_t head = length(text_of(figure, "axis"));
        for (const Json& lane : figure.at("lanes")) head = std::max(head, length(text_of(lane, "name")));
        head += 1;
        const double end = std::max(figure.at("end").get<double>(), 1e-300);
        const double room = double(width_ > head + 20 ? width_ - head : 20);
        for (const Json& lane : figure.at("lanes")) {
            std::string text = padded(text_of(lane, "name"), head);
            size_t used = 0;
            for (const Json& bar : lane.at("bars")) {
                const auto column = [&](const char* name) {
                    return static_cast<size_t>(std::lround(std::clamp(bar.at(name).get<double>() / end, 0.0, 1.0) * room));
                };
                const size_t begin = std::max(std::min(column("begin"), static_cast<size_t>(room) - 1), used),
                             until = std::max(column("end"), begin + 1);
                const std::string label = text_of(bar, "text");
                std::string shown = "#";
                if (until - begin >= 2) {
                    const size_t inner = until - begin - 2;
                    shown = "[" + (length(label) <= inner ? label + std::string(inner - length(label), '=') : std::string(inner, '=')) + "]";
                }
                text += std::string(begin - used, ' ') + toned(shown, tone_of(bar));
                used = until;
            }
            line(text);
        }
        const std::string right = short_number(end);
        line(padded(text_of(figure, "axis"), head) + padded("0", static_cast<size_t>(room) - right.size()) + right);
    }

    void table(const Json& figure) {
        const Json& columns = figure.at("columns");
        const Json& rows = figure.at("rows");
        const Json tones = figure.value("tones", Json::array());
        std::vector<size_t> widths;
        std::vector<bool> right;
        for (size_t c = 0; c < columns.size(); ++c) {
            size_t w = length(columns[c].get<std::string>());
            bool numbers = !rows.empty();
            for (const Json& row : rows) {
                const std::string cell = row.at(c).get<std::string>();
                w = std::max(w, length(cell));
                numbers = numbers && (cell.empty() || is_number(cell));
            }
            widths.push_back(w), right.push_back(numbers);
        }
        size_t before = 0;  // the columns but the last one
        for (size_t c = 0; c + 1 < widths.size(); ++c) before += widths[c] + 2;
        const auto row_of = [&](const Json& cells, int tone) {
            std::string text;
            for (size_t c = 0; c < columns.size(); ++c) {
                const std::string cell = cells.at(c).get<std::string>();
                if (c + 1 == columns.size() && before + length(cell) > width_ && before + kLeast < width_) {
                    const std::string kept = std::exchange(out_, {});
                    wrap(std::string(before, ' '), cell);
                    const std::string wrapped = std::exchange(out_, kept);
                    out_ += toned(text, tone) + wrapped.substr(before);
                    return;
                }
                text += padded(cell, widths[c], right[c]) + (c + 1 < columns.size() ? "  " : "");
            }
            text.erase(text.find_last_not_of(' ') + 1);
            out_ += toned(text, tone) + "\n";
        };
        row_of(columns, kPlain);
        for (size_t r = 0; r < rows.size(); ++r) row_of(rows[r], r < tones.size() ? std::clamp(tones[r].get<int>(), 0, kTones - 1) : kPlain);
    }

    void bars(const Json& figure) {
        size_t head = 0, tail = 0;
        for (const Json& bar : figure.at("bars")) {
            head = std::max(head, length(text_of(bar, "name")));
            tail = std::max(tail, length(text_of(bar, "text")));
        }
        const size_t room = width_ > head + tail + 14 ? width_ - head - tail - 4 : 10;
        for (const Json& bar : figure.at("bars")) {
            const double part = std::clamp(bar.at("value").get<double>() / std::max(bar.at("most").get<double>(), 1e-300), 0.0, 1.0);
            const size_t full = static_cast<size_t>(std::lround(part * double(room)));
            line(padded(text_of(bar, "name"), head) + " |" + toned(std::string(full, '#'), tone_of(bar)) + std::string(room - full, '.') + "| " +
                 text_of(bar, "text"));
        }
    }

    /// PLACE  GUTTER  LINE, with remarks behind.
    void listing(const Json& figure) {
        const Json &lines = figure.at("lines"), &places = figure.at("places"), &gutter = figure.at("gutter"), &remarks = figure.at("remarks");
        size_t head = 1, counts = 0;
        for (const Json& place : places) head = std::max(head, length(place.get<std::string>()));
        for (const Json& count : gutter) counts = std::max(counts, length(count.get<std::string>()));
        for (size_t i = 0; i < lines.size(); ++i) {
            const std::string place = places[i].get<std::string>();
            line(padded(place.empty() ? "-" : place, head, true) +
                 (counts ? " " + padded(i < gutter.size() ? gutter[i].get<std::string>() : "", counts, true) : "") + " | " +
                 lines[i].get<std::string>());
            if (i >= remarks.size()) continue;
            const std::string all = remarks[i].get<std::string>();
            for (size_t at = 0; at < all.size();) {
                const size_t end = std::min(all.find('\n', at), all.size());
                wrap(std::string(head + (counts ? counts + 1 : 0), ' ') + " ^ ", all.substr(at, end - at));
                at = end + 1;
            }
        }
    }

    void plot(const Json& figure) {
        const Scale x(figure.at("x")), y(figure.at("y"));
        constexpr size_t kHead = 9, kHeight = 18;
        const size_t across = width_ - kHead - 2;
        std::vector<std::string> canvas(kHeight, std::string(across, ' '));
        std::vector<std::vector<int>> tones(kHeight, std::vector<int>(across, kPlain));
        const auto column = [&](double v) { return static_cast<size_t>(std::lround(x.place(v) * double(across - 1))); };
        const auto height = [&](double v) { return kHeight - 1 - static_cast<size_t>(std::lround(y.place(v) * double(kHeight - 1))); };
        for (const bool marks : {false, true})  // over the lines
            for (const Json& series : figure.at("series")) {
                const std::string mark = text_of(series, "mark");
                if (marks == mark.empty()) continue;
                const Json &xs = series.at("x"), &ys = series.at("y");
                const auto put = [&](size_t c, size_t r, char sign) { canvas[r][c] = sign, tones[r][c] = tone_of(series); };
                for (size_t i = 0; i < xs.size(); ++i) {
                    if (marks) put(column(xs[i]), height(ys[i]), mark[0]);
                    if (marks || i == 0) continue;
                    const double c0 = double(column(xs[i - 1])), c1 = double(column(xs[i])), r0 = double(height(ys[i - 1])),
                                 r1 = double(height(ys[i]));
                    const double steps = std::max({1.0, std::abs(c1 - c0), std::abs(r1 - r0)});
                    for (double t = 0; t <= steps; ++t)
                        put(static_cast<size_t>(std::lround(c0 + (c1 - c0) * t / steps)),
                            static_cast<size_t>(std::lround(r0 + (r1 - r0) * t / steps)), '.');
                }
            }
        std::vector<std::string> labels(kHeight);
        for (const double t : y.ticks()) labels[height(t)] = short_number(t);
        line(text_of(figure.at("y"), "name"));
        for (size_t r = 0; r < kHeight; ++r) {
            std::string text = padded(labels[r], kHead - 1, true) + (labels[r].empty() ? " |" : " +");
            for (size_t c = 0; c < across; ++c) text += toned(std::string(1, canvas[r][c]), canvas[r][c] == ' ' ? kPlain : tones[r][c]);
            line(text);
        }
        line(std::string(kHead, ' ') + "+" + std::string(across, '-'));
        std::string below(width_, ' ');
        for (const double t : x.ticks()) {
            const std::string label = short_number(t);
            const size_t at = std::min(kHead + 1 + column(t), width_ - label.size());
            if (at > 0 && below[at - 1] != ' ') continue;
            if (below.substr(at, label.size()).find_first_not_of(' ') == std::string::npos) below.replace(at, label.size(), label);
        }
        line(below);
        line(std::string(kHead + 1, ' ') + text_of(figure.at("x"), "name"));
        for (const Json& series : figure.at("series")) {
            const std::string mark = text_of(series, "mark");
            wrap("  " + (mark.empty() ? "." : mark) + "  ", text_of(series, "name"));
        }
    }
};

}  // namespace

std::string paint_text(const Json& model, int width, bool colour) { return TextPainter(width, colour).picture(model); }

}  // namespace tegula_tool::viz
