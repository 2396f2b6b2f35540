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

Picture source_picture(const KernelView& k, std::string_view file, std::string_view source, std::vector<Figure> stages) {
    Picture out{"source", k.name + " on " + k.arch->name, {}, {}, {}};
    Listing text{"tile", {}, {}, {}, {}};
    std::map<std::string, size_t> counts;
    size_t instructions = 0, mapped = 0;
    for (const Figure& f : stages)
        if (const auto* l = std::get_if<Listing>(&f.body); l && l->language == "ptx")
            for (size_t i = 0; i < l->lines.size(); ++i) {
                if (!is_instruction(l->lines[i])) continue;
                ++instructions;
                if (l->places[i].empty()) continue;
                ++mapped, ++counts[l->places[i]];
            }
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
        text.gutter.push_back(counts.contains(place) ? std::to_string(counts[place]) : "");
        text.remarks.push_back(remarks.contains(static_cast<int>(i) + 1) ? remarks[static_cast<int>(i) + 1] : "");
    }
    if (instructions) {
        out.facts.push_back({"PTX", std::to_string(instructions) + " instructions, " + std::to_string(mapped) +
                                        " of lines of the source, the others are the compiler's"});
        out.notes.push_back("the gutter counts the PTX instructions of a line");
    }
    out.figures.push_back({"source", std::string(file), std::move(text), {}});
    for (Figure& f : stages) out.figures.push_back(std::move(f));
    return out;
}

}  // namespace tegula::picture
