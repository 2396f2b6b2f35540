#include "report.h"

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "files.h"
#include "terminal.h"

namespace tegula_tool {

namespace {

using nlohmann::json;

std::vector<json> lines_of(const std::string& text) {
    std::vector<json> out;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        json value = json::parse(text.substr(at, end - at), nullptr, false);
        if (value.is_object()) out.push_back(std::move(value));
        at = end + 1;
    }
    return out;
}

/// The span that a diagnostic is about; null: it has none.
const json* primary(const json& diagnostic) {
    for (const json& span : diagnostic["spans"])
        if (span["primary"].get<bool>()) return &span;
    return nullptr;
}

std::string place(const json& span) {
    return span["file"].get<std::string>() + ":" + std::to_string(span["line"].get<int64_t>()) + ":" + std::to_string(span["column"].get<int64_t>()) +
           ": ";
}

/// The texts that places lie in, which SARIF counts characters of; we count bytes.
class Texts {
public:
    json region(const json& span) {
        const std::string file = span["file"];
        return {{"startLine", span["line"]},
                {"startColumn", character(file, span["line"], span["column"])},
                {"endLine", span["end_line"]},
                {"endColumn", character(file, span["end_line"], span["end_column"])}};
    }
    json location(const json& span) {
        return {{"physicalLocation", {{"artifactLocation", {{"uri", uri_of(span["file"])}}}, {"region", region(span)}}}};
    }

private:
    std::map<std::string, std::vector<std::string>> lines_;

    const std::vector<std::string>& lines_of_file(const std::string& file) {
        const auto [at, is_new] = lines_.try_emplace(file);
        std::string error;
        constexpr uint64_t kMost = uint64_t{16} << 20;
        const auto text = is_new ? read_file(file, kMost, error) : std::nullopt;
        for (size_t begin = 0; text && begin <= text->size();) {
            const size_t end = std::min(text->find('\n', begin), text->size());
            at->second.push_back(text->substr(begin, end - begin));
            begin = end + 1;
        }
        return at->second;
    }
    /// The column in characters; in bytes where the text cannot be read again.
    int64_t character(const std::string& file, int64_t line, int64_t column) {
        const std::vector<std::string>& lines = lines_of_file(file);
        if (line < 1 || static_cast<size_t>(line) > lines.size()) return column;
        const std::string& text = lines[static_cast<size_t>(line - 1)];
        int64_t count = 1;
        for (size_t i = 0; i < std::min(text.size(), static_cast<size_t>(column - 1)); ++i)
            count += (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
        return count;
    }
};

}  // namespace

std::string uri_of(const std::string& path) {
    static constexpr char kHex[] = "0123456789ABCDEF";
    std::string out = path.starts_with('/') ? "file://" : "";
    for (const char c : path) {
        const bool plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || std::string_view("/._-~").find(c) != std::string_view::npos;
        const auto byte = static_cast<unsigned char>(c);
        if (plain)
            out += c;
        else
            ((out += '%') += kHex[byte >> 4]) += kHex[byte & 15];
    }
    return out;
}

std::string gnu_text(const std::string& json_lines) {
    std::string out;
    for (const json& d : lines_of(json_lines)) {
        const json* at = primary(d);
        const std::string where = at ? place(*at) : "tegula: ", code = d["code"];
        out += where + d["level"].get<std::string>() + ": " + d["message"].get<std::string>() + (code.empty() ? "" : " [" + code + "]") + "\n";
        for (const json& span : d["spans"])
            if (const std::string label = span["label"]; !label.empty()) out += place(span) + "note: " + label + "\n";
        for (const json& note : d["notes"]) out += where + "note: " + note.get<std::string>() + "\n";
    }
    return visible(out, true);
}

std::string sarif_text(const std::string& json_lines, const std::string& version) {
    json results = json::array(), rules = json::array();
    Texts texts;
    std::map<std::string, size_t> known;
    for (const json& d : lines_of(json_lines)) {
        const std::string code = d["code"].get<std::string>().empty() ? "tegula" : d["code"].get<std::string>();
        const auto [rule, is_new] = known.emplace(code, rules.size());
        if (is_new) {
            json about = {{"id", code}};
            if (d.contains("name")) about["name"] = d["name"];
            rules.push_back(about);
        }
        std::string text = d["message"];
        for (const json& note : d["notes"]) text += "\n" + note.get<std::string>();
        json result = {{"ruleId", code}, {"ruleIndex", rule->second}, {"level", d["level"]}, {"message", {{"text", text}}}};
        result["locations"] = json::array();
        if (const json* at = primary(d)) result["locations"].push_back(texts.location(*at));
        for (const json& span : d["spans"]) {
            if (span["primary"].get<bool>()) continue;
            json related = texts.location(span);
            related["message"] = {{"text", span["label"]}};
            result["relatedLocations"].push_back(related);
        }
        std::map<std::string, json> edits;  // of one change, by file
        std::string description;
        for (const json& fix : d["fixes"]) {
            edits[fix["file"]].push_back({{"deletedRegion", texts.region(fix)}, {"insertedContent", {{"text", fix["text"]}}}});
            description += (description.empty() ? "write `" : ", `") + fix["text"].get<std::string>() + "`";
        }
        json changes = json::array();
        for (const auto& [file, replacements] : edits)
            changes.push_back({{"artifactLocation", {{"uri", uri_of(file)}}}, {"replacements", replacements}});
        if (!changes.empty()) result["fixes"] = {{{"description", {{"text", description}}}, {"artifactChanges", changes}}};
        results.push_back(std::move(result));
    }
    json run = {{"tool", {{"driver", {{"name", "tegula"}, {"version", version}, {"rules", rules}}}}},
                {"columnKind", "unicodeCodePoints"},
                {"results", results}};
    const json out = {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}, {"runs", {run}}};
    return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace tegula_tool
