// Pictures as data: what `tegula viz` shows. A picture is facts and figures of a few kinds; how they are drawn is the business of who shows them.
// Every struct names its members once, in `fields`, under the names that they have in JSON (share/tegula/schema/picture.json).
//
// Colour never says what text does not: a tone repeats what the text of a cell or the name of a bar says.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tegula::picture {

/// 0: plain; 1 to 8: groups that are told apart; then what is empty, wrong, and good.
enum Tone : int { plain = 0, groups = 8, gap = 9, bad = 10, good = 11 };
/// The tone of the group of this number; they repeat.
constexpr int tone_of(int64_t group) { return 1 + static_cast<int>(group % groups); }

struct Fact {
    std::string name, value;
    void fields(auto&& f) const { f("name", name), f("value", value); }
};
struct Key {  ///< what a tone means
    int tone = 0;
    std::string text;
    void fields(auto&& f) const { f("tone", tone), f("text", text); }
};

/// Cells in rows and columns that have names.
struct Grid {
    static constexpr const char* kind = "grid";
    std::string row_axis, column_axis;
    std::vector<std::string> row_names, column_names;
    std::vector<std::vector<std::string>> cells;  ///< by row
    std::vector<std::vector<int>> tones;          ///< by row
    /// A row of as many cells as there are columns.
    void add_row(std::string name, std::vector<std::string> texts, std::vector<int> row_tones) {
        row_names.push_back(std::move(name)), cells.push_back(std::move(texts)), tones.push_back(std::move(row_tones));
    }
    void fields(auto&& f) const {
        f("row_axis", row_axis), f("column_axis", column_axis), f("row_names", row_names), f("column_names", column_names);
        f("cells", cells), f("tones", tones);
    }
};

/// Bits of memory, lowest first, and the fields that they hold.
struct Ruler {
    static constexpr const char* kind = "ruler";
    struct Field {
        int64_t begin = 0, size = 0;
        std::string text;
        int tone = 0;
        void fields(auto&& f) const { f("begin", begin), f("size", size), f("text", text), f("tone", tone); }
    };
    int64_t bits = 0;   ///< of the whole
    int64_t first = 0;  ///< the byte that bit 0 lies in
    std::vector<Field> parts;
    void fields(auto&& f) const { f("bits", bits), f("first_byte", first), f("fields", parts); }
};

/// Bars along an axis, in lanes.
struct Gantt {
    static constexpr const char* kind = "gantt";
    struct Bar {
        double begin = 0, end = 0;
        std::string text;
        int tone = 0;
        void fields(auto&& f) const { f("begin", begin), f("end", end), f("text", text), f("tone", tone); }
    };
    struct Lane {
        std::string name;
        std::vector<Bar> bars;
        void fields(auto&& f) const { f("name", name), f("bars", bars); }
    };
    std::string axis;
    double end = 0;
    std::vector<Lane> lanes;
    void fields(auto&& f) const { f("axis", axis), f("end", end), f("lanes", lanes); }
};

struct Table {
    static constexpr const char* kind = "table";
    std::vector<std::string> columns;
    std::vector<std::vector<std::string>> rows;
    std::vector<int> tones;  ///< of rows; empty: all plain
    void fields(auto&& f) const { f("columns", columns), f("rows", rows), f("tones", tones); }
};

/// Quantities beside each other, each a part of `most`.
struct Bars {
    static constexpr const char* kind = "bars";
    struct Bar {
        std::string name;
        double value = 0, most = 1;
        std::string text;  ///< the value, with its unit
        int tone = 0;
        void fields(auto&& f) const { f("name", name), f("value", value), f("most", most), f("text", text), f("tone", tone); }
    };
    std::vector<Bar> bars;
    void fields(auto&& f) const { f("bars", bars); }
};

/// Points and lines over two axes of numbers.
struct Plot {
    static constexpr const char* kind = "plot";
    struct Axis {
        std::string name;
        bool logarithmic = false;
        double begin = 0, end = 1;
        void fields(auto&& f) const { f("name", name), f("logarithmic", logarithmic), f("begin", begin), f("end", end); }
    };
    struct Series {
        std::string name, mark;  ///< mark: a character that stands for a point; empty: the points are joined by a line
        std::vector<double> x, y;
        int tone = 0;
        void fields(auto&& f) const { f("name", name), f("mark", mark), f("x", x), f("y", y), f("tone", tone); }
    };
    Axis x, y;
    std::vector<Series> series;
    void fields(auto&& f) const { f("x", x), f("y", y), f("series", series); }
};

/// Lines of a text, each with the place in the source that it came from.
struct Listing {
    static constexpr const char* kind = "listing";
    std::string language;  ///< "tile", "ir", "cuda", "ptx", "sass", "llvm", "asm"
    std::vector<std::string> lines;
    std::vector<std::string> places;   ///< by line: "12" of the file that is shown, "std.math:319" of another one, "": the compiler's own
    std::vector<std::string> gutter;   ///< by line: what it costs; empty: nothing is said of any
    std::vector<std::string> remarks;  ///< by line: what `explain` says there; empty: nothing
    void fields(auto&& f) const { f("language", language), f("lines", lines), f("places", places), f("gutter", gutter), f("remarks", remarks); }
};

struct Figure {
    std::string title, caption;
    std::variant<Grid, Ruler, Gantt, Table, Bars, Plot, Listing> body;
    std::vector<Key> legend;
    void fields(auto&& f) const {
        f("title", title), f("caption", caption);
        std::visit(
            [&](const auto& b) {
                f("kind", b.kind);
                b.fields(f);
            },
            body);
        f("legend", legend);
    }
};

struct Picture {
    std::string kind, title;
    std::vector<Fact> facts;
    std::vector<Figure> figures;
    std::vector<std::string> notes;  ///< what is left out, and why
    std::string json() const;
};

}  // namespace tegula::picture
