// A picture as SVG and HTML: no script, no font but what the viewer has for monospace, colours by prefers-color-scheme.
#include <algorithm>
#include <array>
#include <cmath>

#include "tools/viz/drawing.h"

namespace tegula_tool::viz {

namespace {

constexpr double kAdvance = 7.5;  ///< of a character of 12 pixels, with room for wide fonts
constexpr double kLine = 17, kMargin = 16, kCell = 20, kWidth = 760;

struct Shade {
    const char *light, *dark;
};
/// Of areas, by tone.
constexpr std::array<Shade, kTones> kFills = {{{"#f1f1ee", "#24282d"},
                                               {"#cbe2f8", "#1d4870"},
                                               {"#fcdbb3", "#6d4513"},
                                               {"#caebcb", "#22572c"},
                                               {"#e5d4f6", "#4d3070"},
                                               {"#f9cfd7", "#702d3d"},
                                               {"#c5eae7", "#195a55"},
                                               {"#eee6a9", "#5e5611"},
                                               {"#dcd5cd", "#4c463e"},
                                               {"#ffffff", "#14171a"},
                                               {"#f59a97", "#98292e"},
                                               {"#93d6a4", "#24703a"}}};
/// Of lines and marks.
constexpr std::array<Shade, kTones> kStrokes = {{{"#555555", "#b5b5b5"},
                                                 {"#1f77c4", "#62b0f2"},
                                                 {"#c96a00", "#f0a04b"},
                                                 {"#2a8a35", "#6fcf7b"},
                                                 {"#7e42b8", "#bd92ea"},
                                                 {"#c0345a", "#f0849f"},
                                                 {"#0e857e", "#54cfc6"},
                                                 {"#8a7a00", "#d6c645"},
                                                 {"#6b6257", "#b3a898"},
                                                 {"#9a9a9a", "#6b6b6b"},
                                                 {"#c62828", "#ff7b75"},
                                                 {"#1b7f3b", "#5fd080"}}};

std::string rules(bool dark) {
    std::string out = dark ? ".bg{fill:#14171a}text,.tick{fill:#e8e8e6}.dim{fill:#a2a6aa}.rule{stroke:#4a5056}"
                           : ".bg{fill:#ffffff}text,.tick{fill:#1b1d1f}.dim{fill:#62676c}.rule{stroke:#c3c6c9}";
    for (size_t t = 0; t < kTones; ++t) {
        const std::string n = std::to_string(t);
        out += ".t" + n + "{fill:" + (dark ? kFills[t].dark : kFills[t].light) + "}.s" + n +
               "{stroke:" + (dark ? kStrokes[t].dark : kStrokes[t].light) + "}";
    }
    return out;
}

/// Coordinates with at most two digits behind the point.
std::string px(double v) {
    char text[32];
    char* end = std::to_chars(text, std::end(text), v, std::chars_format::fixed, 2).ptr;
    while (end[-1] == '0') --end;
    if (end[-1] == '.') --end;
    return {text, end};
}

class SvgPainter {
public:
    std::string picture(const Json& model) {
        y_ = kMargin + 14;
        paragraph(kMargin, text_of(model, "title"), "h", 1.3);
        y_ += 8;
        size_t names = 0;
        const Json facts = model.value("facts", Json::array());
        for (const Json& fact : facts) names = std::max(names, length(text_of(fact, "name")));
        for (const Json& fact : facts) {
            y_ += kLine;
            text(kMargin, y_, text_of(fact, "name"), "dim");
            paragraph(kMargin + double(names + 2) * kAdvance, text_of(fact, "value"));
        }
        for (const Json& figure : model.at("figures")) paint(figure);
        for (const Json& note : model.value("notes", Json::array())) {
            y_ += kLine + 4;
            paragraph(kMargin, "note: " + note.get<std::string>());
        }
        y_ += kMargin;
        const std::string size = px(right_ + kMargin) + " " + px(y_);
        return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\" width=\"" + px(right_ + kMargin) + "\" height=\"" + px(y_) +
               "\" role=\"img\" aria-label=\"" + escaped(text_of(model, "title")) + "\">\n<style>" + theme() +
               "</style>\n<rect class=\"bg\" width=\"" + px(right_ + kMargin) + "\" height=\"" + px(y_) + "\"/>\n" + out_ + "</svg>\n";
    }

private:
    std::string out_;
    double y_ = 0;  ///< down to which is drawn
    double right_ = kWidth - kMargin;

    void reach(double x) { right_ = std::max(right_, x); }
    /// `anchor`: "start", "middle" or "end".
    void text(double x, double y, const std::string& what, const char* style = "", const char* anchor = "start") {
        if (what.empty()) return;
        out_ += "<text x=\"" + px(x) + "\" y=\"" + px(y) + "\"" + (*style ? std::string(" class=\"") + style + "\"" : "") +
                (anchor[0] == 's' ? "" : std::string(" text-anchor=\"") + anchor + "\"") + ">" + escaped(what) + "</text>\n";
        if (anchor[0] == 's') reach(x + double(length(what)) * kAdvance);
    }
    /// `hint`: shown where the pointer rests.
    void box(double x, double y, double w, double h, int tone, const std::string& hint = "") {
        out_ += "<rect x=\"" + px(x) + "\" y=\"" + px(y) + "\" width=\"" + px(w) + "\" height=\"" + px(h) + "\" class=\"t" + std::to_string(tone) +
                " rule\"" + (tone == kGap ? " stroke-dasharray=\"2 2\"" : "") +
                (hint.empty() ? "/>\n" : "><title>" + escaped(hint) + "</title></rect>\n");
        reach(x + w);
    }
    void stroke(double x0, double y0, double x1, double y1, const std::string& style) {
        out_ += "<line x1=\"" + px(x0) + "\" y1=\"" + px(y0) + "\" x2=\"" + px(x1) + "\" y2=\"" + px(y1) + "\" class=\"" + style + "\"/>\n";
    }
    /// Words from x on, the first line at y_, where it ends up at the last one.
    void paragraph(double x, const std::string& what, const char* style = "", double size = 1) {
        const size_t most = static_cast<size_t>(std::max(20.0, (kWidth - kMargin - x) / kAdvance / size));
        std::string now;
        for (size_t at = 0; at < what.size();) {
            const size_t end = std::min(what.find(' ', at), what.size());
            const std::string word = what.substr(at, end - at);
            if (!now.empty() && length(now) + 1 + length(word) > most) text(x, y_, now, style), y_ += kLine, now.clear();
            now += (now.empty() ? "" : " ") + word;
            at = end + 1;
        }
        text(x, y_, now, style);
    }

    void paint(const Json& figure) {
        y_ += kLine + 10;
        if (const std::string title = text_of(figure, "title"); !title.empty()) text(kMargin, y_, title, "b"), y_ += kLine;
        if (const std::string caption = text_of(figure, "caption"); !caption.empty()) paragraph(kMargin, caption, "dim"), y_ += kLine;
        y_ -= kLine - 6;
        const std::string kind = text_of(figure, "kind");
        if (kind == "grid") grid(figure);
        if (kind == "ruler") ruler(figure);
        if (kind == "gantt") gantt(figure);
        if (kind == "table") table(figure);
        if (kind == "bars") bars(figure);
        if (kind == "plot") plot(figure);
        if (kind == "listing") listing(figure);
        double x = kMargin;
        const Json legend = figure.value("legend", Json::array());
        if (legend.empty()) return;
        y_ += kLine + 4;
        for (const Json& key : legend) {
            const std::string name = text_of(key, "text");
            const double w = double(length(name)) * kAdvance + 34;
            if (x > kMargin && x + w > kWidth) x = kMargin, y_ += kLine + 2;
            box(x, y_ - 10, 12, 12, tone_of(key));
            text(x + 17, y_, name);
            x += w;
        }
    }

    void grid(const Json& figure) {
        const Json &cells = figure.at("cells"), &rows = figure.at("row_names"), &columns = figure.at("column_names"), &tones = figure.at("tones");
        const std::string row_axis = text_of(figure, "row_axis"), column_axis = text_of(figure, "column_axis");
        size_t head = length(row_axis);
        for (const Json& name : rows) head = std::max(head, length(name.get<std::string>()));
        size_t widest = 1;
        for (size_t c = 0; c < columns.size(); ++c) {
            widest = std::max(widest, length(columns[c].get<std::string>()));
            for (const Json& row : cells) widest = std::max(widest, length(row.at(c).get<std::string>()));
        }
        const double w = std::max(kCell + 2, double(widest) * kAdvance + 8), x0 = kMargin + double(head) * kAdvance + 8;
        y_ += kLine - 4;
        if (!column_axis.empty()) text(x0, y_, column_axis + " \xe2\x86\x92", "dim"), y_ += kLine - 2;
        text(kMargin, y_, row_axis.empty() ? "" : row_axis, "dim");
        for (size_t c = 0; c < columns.size(); ++c) text(x0 + w * (double(c) + 0.5), y_, columns[c].get<std::string>(), "dim", "middle");
        y_ += 6;
        for (size_t r = 0; r < cells.size(); ++r) {
            text(x0 - 6, y_ + 14, rows[r].get<std::string>(), "dim", "end");
            for (size_t c = 0; c < columns.size(); ++c) {
                box(x0 + w * double(c), y_, w, kCell, std::clamp(tones[r][c].get<int>(), 0, kTones - 1));
                text(x0 + w * (double(c) + 0.5), y_ + 14, cells[r][c].get<std::string>(), "", "middle");
            }
            y_ += kCell;
        }
    }

    void ruler(const Json& figure) {
        const int64_t last = figure.value("first_byte", int64_t{0}) + figure.at("bits").get<int64_t>() / 8;
        const double head = double(std::string("byte ").size() + std::to_string(last).size() + 1) * kAdvance;
        const double room = kWidth - 2 * kMargin - head;
        const int64_t per_row = bits_per_row(figure, static_cast<int64_t>(room / kAdvance));
        const std::vector<RulerRow> rows = cut_ruler(figure, per_row);
        const double each = std::floor(room / double(per_row) * 4) / 4, x0 = kMargin + head;
        y_ += kLine - 4;
        text(kMargin, y_, "bit", "dim");
        const int64_t widest = rows.empty() ? 0 : rows[0].bits;
        for (int64_t bit = 0; bit < widest; bit += 4) text(x0 + double(bit) * each, y_, std::to_string(bit), "dim");
        y_ += 6;
        for (const RulerRow& row : rows) {
            text(kMargin, y_ + 15, "byte " + std::to_string(row.byte), "dim");
            for (const Piece& p : row.pieces) {
                const double x = x0 + double(p.begin) * each, w = double(p.size) * each;
                box(x, y_, w, kCell + 2, p.tone, p.text);
                if (double(length(p.text)) * kAdvance <= w) text(x + w / 2, y_ + 15, p.text, "", "middle");
            }
            for (int64_t bit = 8; bit < row.bits; bit += 8)
                stroke(x0 + double(bit) * each, y_ + kCell - 2, x0 + double(bit) * each, y_ + kCell + 6, "s0");
            y_ += kCell + 10;
        }
        y_ -= 4;
    }

    void gantt(const Json& figure) {
        size_t names = length(text_of(figure, "axis"));
        for (const Json& lane : figure.at("lanes")) names = std::max(names, length(text_of(lane, "name")));
        const double x0 = kMargin + double(names + 1) * kAdvance, room = std::max(320.0, kWidth - kMargin - x0);
        const double end = std::max(figure.at("end").get<double>(), 1e-300);
        y_ += 6;
        for (const Json& lane : figure.at("lanes")) {
            text(kMargin, y_ + 15, text_of(lane, "name"));
            for (const Json& bar : lane.at("bars")) {
                const double begin = x0 + std::clamp(bar.at("begin").get<double>() / end, 0.0, 1.0) * room;
                const double w = std::max(2.0, x0 + std::clamp(bar.at("end").get<double>() / end, 0.0, 1.0) * room - begin);
                const std::string label = text_of(bar, "text");
                box(begin, y_, w, kCell + 2, tone_of(bar), label);
                if (double(length(label)) * kAdvance + 2 <= w) text(begin + w / 2, y_ + 15, label, "", "middle");
            }
            y_ += kCell + 6;
        }
        stroke(x0, y_, x0 + room, y_, "s0");
        text(kMargin, y_ + 15, text_of(figure, "axis"), "dim");
        const Json axis = {{"begin", 0.0}, {"end", end}};
        const Scale scale(axis);
        for (const double t : scale.ticks()) {
            const double x = x0 + scale.place(t) * room;
            stroke(x, y_, x, y_ + 4, "s0");
            text(x, y_ + 15, short_number(t), "dim", scale.place(t) > 0.97 ? "end" : "middle");
        }
        y_ += kLine;
    }

    void table(const Json& figure) {
        const Json &columns = figure.at("columns"), &rows = figure.at("rows");
        const Json tones = figure.value("tones", Json::array());
        double x = kMargin;
        std::vector<double> begins, widths;
        std::vector<bool> right;
        for (size_t c = 0; c < columns.size(); ++c) {
            size_t w = length(columns[c].get<std::string>());
            bool numbers = !rows.empty();
            for (const Json& row : rows) {
                const std::string cell = row.at(c).get<std::string>();
                w = std::max(w, length(cell));
                numbers = numbers && (cell.empty() || is_number(cell));
            }
            begins.push_back(x), widths.push_back(double(w) * kAdvance), right.push_back(numbers);
            x += double(w) * kAdvance + 18;
        }
        const auto row_of = [&](const Json& cells, const char* style) {
            for (size_t c = 0; c < columns.size(); ++c) {
                const std::string cell = cells.at(c).get<std::string>();
                const bool wraps = c + 1 == columns.size() && begins[c] + double(length(cell)) * kAdvance > kWidth && begins[c] + 160 < kWidth;
                if (wraps)
                    paragraph(begins[c], cell, style);
                else
                    text(right[c] ? begins[c] + widths[c] : begins[c], y_, cell, style, right[c] ? "end" : "start");
            }
        };
        y_ += kLine - 2;
        row_of(columns, "dim");
        stroke(kMargin, y_ + 5, std::min(x - 18, std::max(kWidth - kMargin, right_)), y_ + 5, "s9");
        y_ += 4;
        for (size_t r = 0; r < rows.size(); ++r) {
            y_ += kLine;
            const int tone = r < tones.size() ? std::clamp(tones[r].get<int>(), 0, kTones - 1) : kPlain;
            if (tone != kPlain && tone != kGap) box(kMargin - 8, y_ - 10, 5, 12, tone);
            row_of(rows[r], tone == kGap ? "dim" : "");
        }
    }

    void bars(const Json& figure) {
        size_t names = 0, texts = 0;
        for (const Json& bar : figure.at("bars"))
            names = std::max(names, length(text_of(bar, "name"))), texts = std::max(texts, length(text_of(bar, "text")));
        const double x0 = kMargin + double(names + 1) * kAdvance, room = std::max(200.0, kWidth - kMargin - x0 - double(texts + 1) * kAdvance);
        y_ += 6;
        for (const Json& bar : figure.at("bars")) {
            const double part = std::clamp(bar.at("value").get<double>() / std::max(bar.at("most").get<double>(), 1e-300), 0.0, 1.0);
            text(kMargin, y_ + 13, text_of(bar, "name"));
            box(x0, y_, room, 17, kGap);
            if (part > 0) box(x0, y_, part * room, 17, tone_of(bar));
            text(x0 + room + kAdvance, y_ + 13, text_of(bar, "text"));
            y_ += 23;
        }
    }

    void listing(const Json& figure) {
        constexpr size_t kMostLines = 400;
        const Json &lines = figure.at("lines"), &places = figure.at("places"), &gutter = figure.at("gutter"), &remarks = figure.at("remarks");
        size_t head = 1;
        for (const Json& place : places) head = std::max(head, length(place.get<std::string>()));
        const double x0 = kMargin + double(head) * kAdvance, x1 = x0 + (gutter.empty() ? 0 : 5 * kAdvance) + 12;
        y_ += 4;
        for (size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) {
            y_ += kLine - 2;
            const std::string place = places[i].get<std::string>();
            text(x0, y_, place.empty() ? "-" : place, "dim", "end");
            if (i < gutter.size()) text(x1 - 8, y_, gutter[i].get<std::string>(), "dim", "end");
            if (i < remarks.size() && !remarks[i].get<std::string>().empty()) box(x1 - 6, y_ - 10, 3, 12, 2, remarks[i].get<std::string>());
            text(x1, y_, lines[i].get<std::string>());
        }
        if (lines.size() > kMostLines) y_ += kLine, text(x1, y_, "and " + std::to_string(lines.size() - kMostLines) + " more lines", "dim");
    }

    void plot(const Json& figure) {
        const Scale x(figure.at("x")), y(figure.at("y"));
        constexpr double kHeight = 300;
        const double x0 = kMargin + 60, room = kWidth - kMargin - x0;
        y_ += kLine - 4;
        text(kMargin, y_, text_of(figure.at("y"), "name"), "dim");
        y_ += 8;
        const double top = y_;
        const auto across = [&](double v) { return x0 + x.place(v) * room; };
        const auto down = [&](double v) { return top + (1 - y.place(v)) * kHeight; };
        for (const double t : y.ticks()) stroke(x0, down(t), x0 + room, down(t), "grid"), text(x0 - 6, down(t) + 4, short_number(t), "dim", "end");
        for (const double t : x.ticks())
            stroke(across(t), top, across(t), top + kHeight, "grid"), text(across(t), top + kHeight + 15, short_number(t), "dim", "middle");
        stroke(x0, top + kHeight, x0 + room, top + kHeight, "s0"), stroke(x0, top, x0, top + kHeight, "s0");
        for (const Json& series : figure.at("series")) {
            const std::string tone = std::to_string(tone_of(series));
            const Json &xs = series.at("x"), &ys = series.at("y");
            if (text_of(series, "mark").empty()) {
                std::string points;
                for (size_t i = 0; i < xs.size(); ++i) points += (i ? " " : "") + px(across(xs[i])) + "," + px(down(ys[i]));
                out_ += "<polyline points=\"" + points + "\" class=\"line s" + tone + "\"><title>" + escaped(text_of(series, "name")) +
                        "</title></polyline>\n";
            } else {
                for (size_t i = 0; i < xs.size(); ++i)
                    out_ += "<circle cx=\"" + px(across(xs[i])) + "\" cy=\"" + px(down(ys[i])) + "\" r=\"" + (xs.size() > 40 ? "2" : "4") +
                            "\" class=\"t" + tone + " s" + tone + "\"><title>" + escaped(text_of(series, "name")) + "</title></circle>\n";
            }
        }
        y_ = top + kHeight + kLine + 14;
        text(x0, y_, text_of(figure.at("x"), "name"), "dim");
        for (const Json& series : figure.at("series")) {
            y_ += kLine;
            const std::string tone = std::to_string(tone_of(series));
            if (text_of(series, "mark").empty())
                stroke(x0, y_ - 4, x0 + 14, y_ - 4, "line s" + tone);
            else
                out_ += "<circle cx=\"" + px(x0 + 7) + "\" cy=\"" + px(y_ - 4) + "\" r=\"4\" class=\"t" + tone + " s" + tone + "\"/>\n";
            text(x0 + 20, y_, text_of(series, "name"));
        }
    }
};

}  // namespace

std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '&')
            out += "&amp;";
        else if (c == '<')
            out += "&lt;";
        else if (c == '>')
            out += "&gt;";
        else if (c == '"')
            out += "&quot;";
        else if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')
            out += ' ';  // which XML has no reference for
        else
            out += c;
    }
    return out;
}

std::string theme() {
    return "text{font:12px ui-monospace,Menlo,Consolas,\"DejaVu Sans "
           "Mono\",monospace;white-space:pre}.h{font-size:15px;font-weight:bold}.b{font-weight:bold}"
           ".rule{stroke-width:.6}.line{fill:none;stroke-width:2}.grid{stroke:#888;stroke-opacity:.25;stroke-width:.6}" +
           rules(false) + "@media (prefers-color-scheme:dark){" + rules(true) + "}";
}

std::string paint_svg(const Json& model) { return SvgPainter().picture(model); }

std::string paint_html(const Json& model) {
    return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
           escaped(text_of(model, "title")) +
           "</title>\n<style>body{margin:1em auto;max-width:60em;font-family:ui-monospace,Menlo,Consolas,monospace;background:#fff;color:#1b1d1f}"
           "svg{max-width:100%;height:auto}pre{font-size:12px;overflow-x:auto}@media "
           "(prefers-color-scheme:dark){body{background:#14171a;color:#e8e8e6}}"
           "</style></head>\n<body>\n" +
           paint_svg(model) + "<details><summary>As text</summary>\n<pre>" + escaped(paint_text(model, 100, false)) +
           "</pre></details>\n</body></html>\n";
}

}  // namespace tegula_tool::viz
