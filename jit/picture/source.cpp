// Listings of a kernel's stages (source.h).
#include "jit/picture/source.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace tegula::picture {

namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> out;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        out.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
}

std::string place_text(std::string_view name, int64_t line, std::string_view file) {
    if (line <= 0) return "";
    return (name == file ? "" : std::string(name) + ":") + std::to_string(line);
}

int64_t number(std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t,"), text.size()));
    int64_t v = 0;
    const char* end = std::from_chars(text.data(), text.data() + text.size(), v).ptr;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return v;
}

std::string_view quoted(std::string_view text) {
    const size_t open = text.find('"'), close = text.rfind('"');
    return open == text.npos || close <= open ? std::string_view() : text.substr(open + 1, close - open - 1);
}

/// Is a line of PTX an instruction?
bool is_instruction(std::string_view line) {
    const size_t at = line.find_first_not_of(" \t");
    if (at == line.npos) return false;
    const char c = line[at];
    return line.find(';') != line.npos && (c == '@' || (c >= 'a' && c <= 'z'));
}

}  // namespace

Listing ir_listing(const std::string& text, std::span<const Span> spans, const SourceMap& sources, std::string_view file) {
    Listing out{"ir", {}, {}, {}, {}};
    const std::vector<std::string_view> lines = lines_of(text);
    for (size_t i = 0; i < lines.size(); ++i) {
        const Span span = i < spans.size() ? spans[i] : Span();
        out.lines.emplace_back(lines[i]);
        out.places.push_back(span.valid() ? place_text(sources.name(span.file), sources.line_col(span.file, span.begin).line, file) : "");
    }
    return out;
}

Listing cuda_listing(std::string_view text, std::string_view file) {
    Listing out{"cuda", {}, {}, {}, {}};
    std::string name;
    int64_t line = 0;
    for (const std::string_view l : lines_of(text)) {
        std::string_view rest = l;
        if (const size_t at = rest.find_first_not_of(' '); at != rest.npos) rest.remove_prefix(at);
        if (rest.starts_with("#line ")) {
            name = quoted(rest);
            rest.remove_prefix(6);
            line = number(rest);
            continue;
        }
        out.lines.emplace_back(l);
        out.places.push_back(place_text(name, line, file));
    }
    return out;
}

Listing ptx_listing(std::string_view text, const Listing& cuda) {
    Listing out{"ptx", {}, {}, {}, {}};
    const auto place_of = [&](std::string_view loc) {  // "F L C"
        number(loc);
        const auto line = static_cast<size_t>(number(loc));
        return line >= 1 && line <= cuda.places.size() ? cuda.places[line - 1] : std::string();
    };
    std::string place;
    for (std::string_view l : lines_of(text)) {
        const size_t at = std::min(l.find_first_not_of(" \t"), l.size());
        if (l.substr(at).starts_with(".loc")) {
            // `.loc F L C, function_name .., inlined_at F L C`.
            place = place_of(l.substr(at + 4));
            if (const size_t inlined = l.find("inlined_at"); place.empty() && inlined != l.npos) place = place_of(l.substr(inlined + 10));
            continue;
        }
        out.lines.emplace_back(l);
        out.places.push_back(is_instruction(l) ? place : "");
    }
    return out;
}

namespace {

/// The text of the last string in quotes: of `.file 1 "folder" "name"`.
std::string_view last_quoted(std::string_view text) {
    const size_t close = text.rfind('"'), open = close == text.npos || close == 0 ? text.npos : text.rfind('"', close - 1);
    return open == text.npos ? std::string_view() : text.substr(open + 1, close - open - 1);
}

std::string_view without_blanks(std::string_view line) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    return line;
}

/// Is a line of assembly an instruction? What is none: labels, directives, comments.
bool is_machine_instruction(std::string_view line) {
    const std::string_view text = without_blanks(line);
    return text.size() < line.size() && !text.empty() && text[0] != '.' && text[0] != '#' && text[0] != '/' && text[0] != ';' && text.back() != ':';
}

/// A label that only debug information refers to.
bool is_debug_label(std::string_view line) {
    for (const std::string_view name : {".Ltmp", ".Lfunc_begin", ".Lfunc_end", ".Lsec_end"})
        if (line.starts_with(name)) return line.back() == ':';
    return false;
}

/// The metadata of a text of LLVM as far as it says where something stands.
class DebugLines {
public:
    explicit DebugLines(std::span<const std::string_view> lines) {
        for (const std::string_view line : lines)
            if (line.starts_with('!'))
                if (const size_t equals = line.find(" = "); equals != line.npos) nodes_[line.substr(0, equals)] = line.substr(equals + 3);
    }
    /// Of "!12".
    std::string place(std::string_view node, std::string_view file) const {
        const std::string_view text = find(node);
        std::string_view line = after(text, "line: ");
        const int64_t at = number(line);
        return place_text(file_of(node), at, file);
    }
    static std::string_view reference(std::string_view text) {
        return text.starts_with('!') ? text.substr(0, std::min(text.find_first_not_of("0123456789", 1), text.size())) : std::string_view();
    }

private:
    std::map<std::string_view, std::string_view> nodes_;

    std::string_view find(std::string_view node) const {
        const auto it = nodes_.find(node);
        return it == nodes_.end() ? std::string_view() : it->second;
    }
    static std::string_view after(std::string_view text, std::string_view name) {
        const size_t at = text.find(name);
        return at == text.npos ? std::string_view() : text.substr(at + name.size());
    }
    /// A scope has a file, or lies in one that has.
    std::string_view file_of(std::string_view node) const {
        for (int depth = 0; depth < 64; ++depth) {
            const std::string_view text = find(node), file = reference(after(text, "file: "));
            if (!file.empty()) {
                const std::string_view name = after(find(file), "filename: \"");
                return name.substr(0, std::min(name.find('"'), name.size()));
            }
            node = reference(after(text, "scope: "));
            if (node.empty()) return {};
        }
        return {};
    }
};

}  // namespace

Listing asm_listing(std::string_view text, std::string_view file) {
    Listing out{"asm", {}, {}, {}, {}};
    std::map<int64_t, std::string_view> files;
    std::string place;
    bool debug = false;
    for (const std::string_view line : lines_of(text)) {
        std::string_view rest = without_blanks(line);
        if (rest.starts_with(".section")) debug = rest.find(".debug_") != rest.npos;
        if (rest.starts_with(".text")) debug = false;
        if (rest.starts_with(".file\t")) {
            rest.remove_prefix(6);
            if (const int64_t n = number(rest); n > 0 || rest.starts_with(' ')) files[n] = last_quoted(rest);
            continue;
        }
        if (rest.starts_with(".loc\t")) {
            rest.remove_prefix(5);
            const int64_t n = number(rest), at = number(rest);
            place = place_text(files[n], at, file);
            continue;
        }
        if (debug || is_debug_label(line) || rest.starts_with(".cfi_")) continue;
        out.lines.emplace_back(line);
        out.places.push_back(is_machine_instruction(line) ? place : "");
    }
    return out;
}

Listing llvm_listing(std::string_view text, std::string_view file) {
    Listing out{"llvm", {}, {}, {}, {}};
    const std::vector<std::string_view> lines = lines_of(text);
    const DebugLines debug(lines);
    for (const std::string_view line : lines) {
        if (line.starts_with('!')) continue;
        constexpr std::string_view kMark = "!dbg ";
        const size_t at = line.find(kMark);
        const std::string_view node = at == line.npos ? std::string_view() : DebugLines::reference(line.substr(at + kMark.size()));
        std::string shown(line);
        if (!node.empty()) {
            size_t begin = at, size = kMark.size() + node.size();
            while (begin > 0 && (line[begin - 1] == ' ' || line[begin - 1] == ',')) --begin, ++size;
            shown.erase(begin, size);
        }
        out.lines.push_back(std::move(shown));
        out.places.push_back(node.empty() ? "" : debug.place(node, file));
    }
    while (!out.lines.empty() && out.lines.back().empty()) out.lines.pop_back(), out.places.pop_back();
    return out;
}

namespace {

/// The instructions of a stage by the line of the source that they became.
struct Counts {
    std::string stage;  ///< "PTX"; empty: there is none
    std::map<std::string, size_t> by_place;
    size_t all = 0, mapped = 0;
};

Counts count_instructions(std::span<const Figure> stages) {
    struct Stage {
        const char *language, *name;
        bool (*is_one)(std::string_view line);
    };
    for (const auto& [language, name, is_one] : {Stage{"ptx", "PTX", is_instruction}, Stage{"asm", "assembly", is_machine_instruction}})
        for (const Figure& f : stages) {
            const auto* l = std::get_if<Listing>(&f.body);
            if (!l || l->language != language) continue;
            Counts out{name, {}, 0, 0};
            for (size_t i = 0; i < l->lines.size(); ++i) {
                if (!is_one(l->lines[i])) continue;
                ++out.all;
                if (!l->places[i].empty()) ++out.mapped, ++out.by_place[l->places[i]];
            }
            return out;
        }
    return {};
}

}  // namespace

Picture source_picture(const KernelView& k, std::string_view file, std::string_view source, std::vector<Figure> stages) {
    Picture out{"source", k.name + " on " + k.arch->name, {}, {}, {}};
    Listing text{"tile", {}, {}, {}, {}};
    Counts counts = count_instructions(stages);
    std::map<int, std::string> remarks;
    for (const explain::Note& n : k.said->notes) {
        if (!n.span.valid() || k.sources->name(n.span.file) != file) continue;
        std::string& all = remarks[k.line(n.span)];
        all += (all.empty() ? "" : "\n") + explain::text(n.fact);
    }
    const std::vector<std::string_view> lines = lines_of(source);
    for (size_t i = 0; i < lines.size(); ++i) {
        const std::string place = std::to_string(i + 1);
        text.lines.emplace_back(lines[i]);
        text.places.push_back(place);
        text.gutter.push_back(counts.by_place.contains(place) ? std::to_string(counts.by_place[place]) : "");
        text.remarks.push_back(remarks.contains(static_cast<int>(i) + 1) ? remarks[static_cast<int>(i) + 1] : "");
    }
    if (counts.all) {
        out.facts.push_back({counts.stage, std::to_string(counts.all) + " instructions, " + std::to_string(counts.mapped) +
                                               " of lines of the source, the others are the compiler's"});
        out.notes.push_back("the gutter counts the instructions of " + counts.stage + " of a line");
    }
    if (!stages.empty()) out.notes.push_back("lines at `-` are the compiler's: none of the source became them");
    out.figures.push_back({"source", std::string(file), std::move(text), {}});
    for (Figure& f : stages) out.figures.push_back(std::move(f));
    return out;
}

}  // namespace tegula::picture
