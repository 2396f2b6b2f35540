#include "report.h"

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

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

json region(const json& span) {
    return {{"startLine", span["line"]}, {"startColumn", span["column"]}, {"endLine", span["end_line"]}, {"endColumn", span["end_column"]}};
}

/// A path as a relative or `file` URI: all but the characters that need no escape is escaped.
std::string uri(const std::string& path) {
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

json location(const json& span) { return {{"physicalLocation", {{"artifactLocation", {{"uri", uri(span["file"])}}}, {"region", region(span)}}}}; }

}  // namespace

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
        if (const json* at = primary(d)) result["locations"].push_back(location(*at));
        for (const json& span : d["spans"]) {
            if (span["primary"].get<bool>()) continue;
            json related = location(span);
            related["message"] = {{"text", span["label"]}};
            result["relatedLocations"].push_back(related);
        }
        for (const json& fix : d["fixes"])
            result["fixes"].push_back({{"description", {{"text", "replace with `" + fix["text"].get<std::string>() + "`"}}},
                                       {"artifactChanges",
                                        {{{"artifactLocation", {{"uri", uri(fix["file"])}}},
                                          {"replacements", {{{"deletedRegion", region(fix)}, {"insertedContent", {{"text", fix["text"]}}}}}}}}}});
        results.push_back(std::move(result));
    }
    json run = {{"tool", {{"driver", {{"name", "tegula"}, {"version", version}, {"rules", rules}}}}},
                {"columnKind", "unicodeCodePoints"},
                {"results", results}};
    const json out = {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}, {"runs", {run}}};
    return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace tegula_tool
