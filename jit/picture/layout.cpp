// Pictures of storage orders: where each index lies, what lies at each place, and how the bits of narrow elements fill bytes.
#include <algorithm>

#include "jit/picture/builders.h"
#include "lang/plain_text.h"
#include "lang/print_text.h"

namespace tegula::picture {

namespace {

constexpr int64_t kRows = 16, kColumns = 32;       ///< of a tensor, that are shown
constexpr int64_t kPlaces = 256;                   ///< of memory
constexpr int64_t kMostPoints = int64_t{1} << 21;  ///< that are looked at
constexpr int64_t kPieceBits = 128;                ///< that share a tone: what a thread loads at once at best

int64_t product(std::span<const int64_t> extents) {
    int64_t n = 1;
    for (const int64_t e : extents)
        if (__builtin_mul_overflow(n, e, &n)) return INT64_MAX;
    return n;
}

/// The point of a row-major number.
std::vector<int64_t> coordinates(int64_t number, std::span<const int64_t> extents) {
    std::vector<int64_t> out(extents.size());
    for (size_t d = extents.size(); d-- > 0;) out[d] = number % extents[d], number /= extents[d];
    return out;
}

std::string list(std::span<const int64_t> values, const char* between = ", ") {
    std::string out;
    for (const int64_t v : values) out += (out.empty() ? "" : between) + std::to_string(v);
    return out;
}

std::string count(int64_t n, const std::string& one) { return std::to_string(n) + " " + one + (n == 1 ? "" : "s"); }

const char* contiguity(const Layout& layout, size_t rank) {
    const int d = layout.innermost_dimension(static_cast<int>(rank));
    return d < 0 ? nullptr : static_cast<size_t>(d) + 1 == rank ? "the last index" : d == 0 ? "the first index" : "an index between";
}

/// What is said of a tensor beside its figures.
void tell(const Subject& s, const Layout& layout, const Format& f, const LayoutCheck& check, Picture& out) {
    const std::string of = s.name.empty() ? "" : s.name + ": ";
    const BoundLayout bound(layout, s.extents, f.bits, false);
    out.facts.push_back({of + "type", s.type});
    const std::vector<LayoutExpr> members = layout.physical(static_cast<int>(s.extents.size()));
    std::string map;
    for (const LayoutExpr& e : members) map += (map.empty() ? "" : ", ") + e.text();
    out.facts.push_back({of + "order", layout.name() + " = (" + map + ")"});
    out.facts.push_back({of + "physical extents", "[" + list(bound.physical_extents()) + "]"});
    const int64_t logical = product(s.extents), stored = bound.elements();
    const std::string bytes = bound.storage_bytes() < 0 ? "too large" : count(bound.storage_bytes(), "byte");
    out.facts.push_back({of + "storage", bytes + " for " + count(logical, "element") +
                                             (stored > logical ? ", " + count(stored - logical, "place") + " of padding" : std::string())});
    if (const auto strides = layout.bit_strides(s.extents, f.bits)) {
        const bool whole = std::ranges::all_of(*strides, [&](int64_t v) { return v % f.bits == 0; });
        std::vector<int64_t> shown = *strides;
        if (whole)
            for (int64_t& v : shown) v /= f.bits;
        out.facts.push_back({of + "strides", list(shown) + (whole ? " elements" : " bits")});
    } else {
        out.facts.push_back({of + "strides", "none: places are no linear function of the indices"});
    }
    if (const char* dimension = contiguity(layout, s.extents.size())) out.facts.push_back({of + "contiguous along", dimension});
    if (check.result == Injectivity::proved)
        out.facts.push_back({of + "apart", "proved: no two elements share a place"});
    else
        out.facts.push_back({of + "apart", check.result == Injectivity::refuted ? "NO: " + check.conflict.text() : "not known: " + check.reason});
}

/// Of a tensor whose leading dimensions are read as one: rows, columns, and how a row is called.
struct Matrix {
    std::vector<int64_t> outer;
    int64_t rows = 1, columns = 1;
    explicit Matrix(std::span<const int64_t> extents) {
        if (!extents.empty()) outer.assign(extents.begin(), extents.end() - 1), columns = extents.back();
        rows = product(outer);
    }
};

std::string axis_of(size_t begin, size_t end) {
    std::string out;
    for (size_t d = begin; d < end; ++d) out += (out.empty() ? "i" : ",i") + std::to_string(d);
    return out;
}

Figure places_of_indices(const Subject& s, const Layout& layout, const Format& f, const LayoutCheck& check, Picture& out) {
    const Matrix m(s.extents);
    const BoundLayout bound(layout, s.extents, f.bits, false);
    const int64_t rows = std::min(m.rows, kRows), columns = std::min(m.columns, kColumns);
    Grid grid{axis_of(0, m.outer.size()), s.extents.empty() ? "" : axis_of(m.outer.size(), s.extents.size()), {}, {}, {}, {}};
    for (int64_t c = 0; c < columns; ++c) grid.column_names.push_back(s.extents.empty() ? "" : std::to_string(c));
    for (int64_t r = 0; r < rows; ++r) {
        std::vector<int64_t> index = coordinates(r, m.outer);
        const std::string name = list(index, ",");
        if (!s.extents.empty()) index.push_back(0);
        std::vector<std::string> cells;
        std::vector<int> tones;
        for (int64_t c = 0; c < columns; ++c) {
            if (!s.extents.empty()) index.back() = c;
            std::vector<int64_t> physical(std::max<size_t>(1, bound.physical_extents().size()));
            const bool placed = bound.place(index.data(), physical.data());
            const bool conflicts = check.result == Injectivity::refuted && (index == check.conflict.first || index == check.conflict.second);
            cells.push_back((placed ? std::to_string(bound.element_at(physical.data())) : "out") + (conflicts || !placed ? "!" : ""));
            tones.push_back(conflicts || !placed ? bad : tone_of(bound.bit_offset(index.data()) / kPieceBits));
        }
        grid.add_row(name, std::move(cells), std::move(tones));
    }
    if (rows < m.rows || columns < m.columns)
        out.notes.push_back("rows 0 to " + std::to_string(rows - 1) + " of " + std::to_string(m.rows) + " and columns 0 to " +
                            std::to_string(columns - 1) + " of " + std::to_string(m.columns) + " are shown");
    return {(s.name.empty() ? "" : s.name + ": ") + "where each index lies",
            "the number of its place in storage, in elements",
            std::move(grid),
            {{1, "cells of a colour lie in the same 16 bytes"}}};
}

Figure indices_of_places(const Subject& s, const Layout& layout, Picture& out) {
    const std::vector<int64_t> physical = layout.physical_extents(s.extents);
    const int64_t stored = product(physical), row = physical.empty() ? 1 : physical.back();
    const int64_t across = row <= 0 ? 1 : row <= 16 ? row : row % 16 == 0 || row > 32 ? 16 : row <= 32 ? row : 16;
    const int64_t places = std::min({stored, kPlaces, across * kRows});
    Figure figure{(s.name.empty() ? "" : s.name + ": ") + "what lies at each place", "the index that is stored there; `.` is padding", Grid{}, {}};
    const auto points = points_of_places(layout, s.extents, places);
    if (!points) {
        out.notes.push_back("what lies at each place is not shown: the tensor has too many elements to look at all of them");
        return figure;
    }
    Grid grid{"place", "", {}, {}, {}, {}};
    for (int64_t c = 0; c < std::min(across, places); ++c) grid.column_names.push_back("+" + std::to_string(c));
    const Matrix m(s.extents);
    for (int64_t begin = 0; begin < places; begin += across) {
        std::vector<std::string> cells;
        std::vector<int> tones;
        for (int64_t at = begin; at < begin + across; ++at) {
            static const std::vector<int64_t> kNothing;
            const std::vector<int64_t>& here = at < places ? (*points)[static_cast<size_t>(at)] : kNothing;
            cells.push_back(here.empty() ? "." : list(coordinates(here[0], s.extents), ",") + (here.size() > 1 ? "!" : ""));
            tones.push_back(here.empty() ? int{gap} : here.size() > 1 ? int{bad} : tone_of(here[0] / m.columns));
        }
        grid.add_row(std::to_string(begin), std::move(cells), std::move(tones));
    }
    if (places < stored) out.notes.push_back("places 0 to " + std::to_string(places - 1) + " of " + std::to_string(stored) + " are shown");
    figure.body = std::move(grid);
    figure.legend = {{1, "cells of a colour are of one row"}, {gap, "padding"}};
    return figure;
}

}  // namespace

std::string point(std::span<const int64_t> index) { return "(" + list(index) + ")"; }

std::optional<std::vector<std::vector<int64_t>>> points_of_places(const Layout& layout, std::span<const int64_t> extents, int64_t places) {
    std::vector<std::vector<int64_t>> out(static_cast<size_t>(places));
    const int64_t points = product(extents);
    const BoundLayout bound(layout, extents, 8, points <= kMostPoints);
    const auto place_of = [&](const std::vector<int64_t>& index) {
        std::vector<int64_t> physical(std::max<size_t>(1, bound.physical_extents().size()));
        return bound.place(index.data(), physical.data()) ? bound.element_at(physical.data()) : -1;
    };
    if (points <= kMostPoints) {
        for (int64_t n = 0; n < points; ++n)
            if (const int64_t at = place_of(coordinates(n, extents)); at >= 0 && at < places) out[static_cast<size_t>(at)].push_back(n);
        return out;
    }
    std::string why;
    const auto inverse = Layout::inverse(layout, extents, &why);
    if (!inverse) return std::nullopt;
    const std::vector<int64_t>& physical = bound.physical_extents();
    const std::vector<LayoutExpr> back = inverse->physical(static_cast<int>(physical.size()));
    for (int64_t at = 0; at < places; ++at) {
        const std::vector<int64_t> place = coordinates(at, physical);
        std::vector<int64_t> index;
        bool inside = back.size() == extents.size();
        for (size_t d = 0; inside && d < extents.size(); ++d) {
            index.push_back(back[d].eval(place, physical));
            inside = index[d] >= 0 && index[d] < extents[d];
        }
        if (!inside || place_of(index) != at) continue;  // padding, which the inverse maps anywhere
        int64_t number = 0;
        for (size_t d = 0; d < extents.size(); ++d) number = number * extents[d] + index[d];
        out[static_cast<size_t>(at)].push_back(number);
    }
    return out;
}

Picture layout_picture(std::span<const Subject> subjects, const TypeTable& types) {
    Picture out{"layout", {}, {}, {}, {}};
    for (const Subject& s : subjects) {
        const Layout& layout = types.layout(s.layout);
        const Format& f = types.format(s.format);
        const Format& element = f.is_block() ? types.format(f.elem) : f;
        out.title += (out.title.empty() ? "" : "; ") + (s.name.empty() ? "" : s.name + ": ") + s.type;
        const LayoutCheck check = layout.check(s.extents);
        tell(s, layout, element, check, out);
        if (product(s.extents) == 0) {
            out.notes.push_back((s.name.empty() ? "the tensor" : s.name) + " has no elements");
            continue;
        }
        out.figures.push_back(places_of_indices(s, layout, element, check, out));
        if (Figure there = indices_of_places(s, layout, out); !std::get<Grid>(there.body).cells.empty()) out.figures.push_back(std::move(there));
    }
    return out;
}

namespace {

constexpr int64_t kRulerBits = 256;  ///< that are shown

/// Elements in the first bytes of storage, by the bit that each begins at.
struct Stored {
    int64_t bit, number;
};

std::vector<Stored> stored_first(const Layout& layout, std::span<const int64_t> extents, unsigned bits, Picture& out) {
    std::vector<Stored> found;
    const auto points = points_of_places(layout, extents, std::min(product(layout.physical_extents(extents)), kRulerBits));
    if (!points) {
        out.notes.push_back("the tensor has too many elements to look at all of them");
        return found;
    }
    for (const auto& here : *points)
        for (const int64_t number : here)
            if (const int64_t bit = layout.bit_offset(coordinates(number, extents), extents, bits); bit < kRulerBits) found.push_back({bit, number});
    std::ranges::sort(found, {}, &Stored::bit);
    return found;
}

/// `(b[1] >> 4) & 0xf`: how a byte-wise reader gets at the element.
std::string extraction(int64_t bit, unsigned bits) {
    const int64_t first = bit / 8, last = (bit + bits - 1) / 8;
    std::string bytes;
    if (last - first + 1 > 2)
        bytes = "b[" + std::to_string(first) + " .. " + std::to_string(last) + "]";
    else if (last > first)
        bytes = "(b[" + std::to_string(first) + "] | b[" + std::to_string(last) + "] << 8)";
    else
        bytes = "b[" + std::to_string(first) + "]";
    if (bit % 8) bytes += " >> " + std::to_string(bit % 8);
    if (bits % 8 == 0 && bit % 8 == 0) return bytes;
    return (bit % 8 && last == first  ? "(" + bytes + ")"
            : last > first && bit % 8 ? "(" + bytes + ")"
                                      : bytes) +
           " & 0x" + hex_text(bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1);
}

}  // namespace

Picture bits_picture(std::span<const Subject> subjects, const TypeTable& types) {
    Picture out{"bits", {}, {}, {}, {}};
    for (const Subject& s : subjects) {
        const Layout& layout = types.layout(s.layout);
        const Format& whole = types.format(s.format);
        const Format& f = whole.is_block() ? types.format(whole.elem) : whole;
        const std::string of = s.name.empty() ? "" : s.name + ": ";
        out.title += (out.title.empty() ? "" : "; ") + of + s.type;
        const BoundLayout bound(layout, s.extents, f.bits, false);
        out.facts.push_back({of + "element", f.name + ", " + count(f.bits, "bit")});
        if (whole.is_block())
            out.facts.push_back({of + "scales", "a " + types.format(whole.scale).name + " for each " + count(whole.block_size, "element") +
                                                    " of a row, stored apart"});
        const int64_t row = bound.physical_extents().empty() ? 1 : bound.physical_extents().back();
        const int64_t row_bits = row > kMaxLayoutElements ? 0 : row * f.bits, pad = (8 - row_bits % 8) % 8;
        out.facts.push_back({of + "innermost row", count(row, "element") + " in " + count((row_bits + 7) / 8, "byte") +
                                                       (pad ? ", " + count(pad, "bit") + " of padding at its end" : std::string())});
        out.facts.push_back({of + "storage", bound.storage_bytes() < 0 ? "too large" : count(bound.storage_bytes(), "byte")});
        if (product(s.extents) == 0 || bound.storage_bytes() <= 0) {
            out.notes.push_back((s.name.empty() ? "the tensor" : s.name) + " has no elements");
            continue;
        }
        const std::vector<Stored> stored = stored_first(layout, s.extents, f.bits, out);
        if (stored.empty()) continue;
        Ruler ruler;
        ruler.bits = std::min(kRulerBits, bound.storage_bytes() * 8);
        Table table{{"element", "first bit", "byte", "of 32-bit word", "lane", "read as"}, {}, {}};
        const Matrix m(s.extents);
        for (const Stored& e : stored) {
            const std::string name = list(coordinates(e.number, s.extents), ",");
            ruler.parts.push_back({e.bit, f.bits, name, tone_of(e.number / m.columns)});
            if (table.rows.size() < 16)
                table.rows.push_back({name, std::to_string(e.bit), std::to_string(e.bit / 8), std::to_string(e.bit / 32),
                                      std::to_string(e.bit / 32 % 32), extraction(e.bit, f.bits)});
        }
        out.figures.push_back({of + "bits in memory",
                               "each field is an element, named by its index; the lowest bit of a byte is at the left",
                               std::move(ruler),
                               {{1, "fields of a colour are of one row"}, {gap, "no element"}}});
        out.figures.push_back({of + "elements", "lane: the thread of a warp that reads the word, where each reads one", std::move(table), {}});
        if (bound.storage_bytes() * 8 > kRulerBits)
            out.notes.push_back(of + "bytes 0 to " + std::to_string(kRulerBits / 8 - 1) + " of " + std::to_string(bound.storage_bytes()) +
                                " are shown");
    }
    return out;
}

}  // namespace tegula::picture
