// Diagnostics, the changes that they offer, formatting, and the kinds of tokens.
#include <algorithm>

#include "members.h"
#include "server.h"

namespace tegula_tool::lsp {

using namespace members;

// ---- diagnostics ----

namespace {

bool offers_changes(const json& diagnostics) {
    return std::ranges::any_of(diagnostics, [](const json& found) { return !found["fixes"].empty(); });
}

}  // namespace

json Server::diagnostic(const Document& d, const json& found) {
    static const std::map<std::string, int> levels = {{"error", 1}, {"warning", 2}, {"note", 3}};
    std::string message = found["message"];
    json related = json::array();
    const bool elsewhere = found.contains("file");
    const auto place_of = [&](const json& at) {
        const std::string file = at.contains("file") ? at["file"].get<std::string>() : d.path;
        return location(file, at["begin"], at["end"]);
    };
    for (const json& note : found["notes"]) message += "\n" + note.get<std::string>();
    json range = d.text.range(0, 0);
    if (!elsewhere) {
        size_t begin = found["begin"], end = found["end"];
        range = d.text.range(begin, end);
    } else {
        if (found.contains("import")) range = d.text.range(found["import"]["begin"], found["import"]["end"]);
        related.push_back({{"location", place_of(found)}, {"message", "here"}});
    }
    for (const json& label : found["labels"]) related.push_back({{"location", place_of(label)}, {"message", label["text"]}});
    json out = {
        {"range", std::move(range)}, {"severity", levels.at(found["level"])}, {"code", found["code"]}, {"source", "tegula"}, {"message", message}};
    if (!related.empty()) out["relatedInformation"] = std::move(related);
    if (const std::string page = page_of(found["code"]); !page.empty()) out["codeDescription"] = {{"href", page}};
    return out;
}

json Server::diagnostics_of(Document& d, bool settled) {
    if (d.found.is_null() || (settled && !d.tried)) {
        d.found = ask("diagnostics", d.path, 0, 0, settled ? "settled" : "")["diagnostics"];
        d.tried = settled;
    }
    json out = json::array();
    for (const json& found : d.found) out.push_back(diagnostic(d, found));
    for (const json& note : d.notes) out.push_back(note);
    return out;
}

/// Sends what is wrong with a document, where the client does not have it yet.
void Server::publish(Document& d, bool settled) {
    json all = diagnostics_of(d, settled);
    d.settle = !d.tried && offers_changes(d.found);
    if (d.sent == all) return;
    if (pulls_) {  // who has never asked does so by itself
        if (d.sent.is_null()) return;
        stale_ |= stale_diagnostics;
        return;
    }
    json params = {{"uri", d.uri}, {"diagnostics", all}};
    if (d.version.is_number_integer()) params["version"] = d.version;
    transport_.notify("textDocument/publishDiagnostics", std::move(params));
    d.sent = std::move(all);
}

json Server::pull_diagnostics(const json& params) {
    Document& d = document(params);
    json items = diagnostics_of(d, false);
    d.settle = !d.tried && offers_changes(d.found);
    d.sent = items;
    return {{"kind", "full"}, {"items", std::move(items)}};
}

namespace {

/// A change in words: "Insert `let`", "Replace `relu` with `nn.relu`", "Convert `a + b` by `cast<f16>(..)`".
std::string title_of(const json& change, const std::string& text) {
    constexpr size_t kLongest = 40;
    const auto shown = [&](std::string s) {
        while (!s.empty() && (s.back() == '\n' || s.back() == ' ')) s.pop_back();
        return "`" + (s.size() > kLongest ? s.substr(0, kLongest) + ".." : s) + "`";
    };
    const auto stretch = [&](size_t from, size_t to) { return text.substr(from, to - from); };
    std::string title;
    for (size_t i = 0; i < change.size(); ++i) {
        const size_t from = change[i]["begin"], to = change[i]["end"];
        const std::string old = stretch(from, to), fresh = change[i]["text"];
        std::string one = fresh.empty() ? "Remove " + shown(old)
                          : old.empty() ? "Insert " + shown(fresh)
                                        : "Replace " + shown(old) + " with " + shown(fresh);
        const bool encloses = old.empty() && fresh.ends_with('(') && i + 1 < change.size() && change[i + 1]["text"] == ")";
        if (encloses) one = "Convert " + shown(stretch(to, change[++i]["begin"])) + " by `" + fresh + "..)`";
        title += (title.empty() ? "" : ", ") + one;
    }
    return title;
}

}  // namespace

json Server::actions(const json& params) {
    Document& d = document(params);
    const auto [begin, end] = stretch(d, params);
    constexpr size_t kSmall = 100'000;  // bytes: of larger texts changes are tried behind the scenes
    diagnostics_of(d, d.text.text().size() < kSmall);
    const json& only = list_at(member(params, "context"), "only");
    const auto wanted = [&](const char* kind) {
        return only.empty() ||
               std::ranges::any_of(only, [&](const json& o) { return o.is_string() && std::string_view(kind).starts_with(o.get<std::string>()); });
    };
    json out = json::array(), all = json::array();
    for (const json& found : d.found) {
        const size_t from = found["begin"], to = found["end"];
        const bool here = begin <= to && from <= end && wanted("quickfix");
        bool first = true;
        const auto offer = [&](const json& change) {
            json edits = json::array();
            bool sure = first;
            for (const json& fix : change) {
                if (fix.contains("file")) return;
                sure = sure && fix["applicability"] == "machine";
                edits.push_back({{"range", d.text.range(fix["begin"], fix["end"])}, {"newText", fix["text"]}});
            }
            if (edits.empty()) return;
            if (sure)
                for (const json& edit : edits) all.push_back(edit);
            if (here)
                out.push_back({{"title", title_of(change, d.text.text())},
                               {"kind", "quickfix"},
                               {"isPreferred", sure},
                               {"diagnostics", {diagnostic(d, found)}},
                               {"edit", {{"changes", {{d.uri, std::move(edits)}}}}}});
            first = false;
        };
        offer(found["fixes"]);
        for (const json& other : list_at(found, "others")) offer(other);
    }
    if (!all.empty() && std::ranges::any_of(only, [](const json& o) { return o == "source.fixAll" || o == "source"; }))
        out.push_back({{"title", "Make all changes that are sure"}, {"kind", "source.fixAll"}, {"edit", {{"changes", {{d.uri, std::move(all)}}}}}});
    return out;
}

/// The page of a code as a file; empty: there is none.
std::string Server::page_of(const std::string& code) {
    const char* text = tegula_explain(code.c_str());
    if (!text) return {};
    const auto known = pages_.find(code);
    if (known != pages_.end()) return known->second;
    const std::string file = write_library(code + ".md", "# " + code + "\n\n" + text + "\n");
    return pages_[code] = file.empty() ? file : uri_of(file);
}

// ---- formatting ----

namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> out;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
        out.push_back(text.substr(at, end - at));
        at = end;
    }
    return out;
}

struct Change {
    size_t first, last;  ///< lines of the old text, without the last one
    size_t new_first, new_last;
};

/// Stretches of lines that differ, by the longest common subsequence where that is affordable.
std::vector<Change> changes_between(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b) {
    size_t head = 0, tail = 0;
    while (head < std::min(a.size(), b.size()) && a[head] == b[head]) ++head;
    while (tail < std::min(a.size(), b.size()) - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
    const size_t n = a.size() - head - tail, m = b.size() - head - tail;
    if (n == 0 && m == 0) return {};
    constexpr size_t kMost = 4'000'000;
    if (n == 0 || m == 0 || n > kMost / m) return {{head, head + n, head, head + m}};
    std::vector<uint32_t> longest((n + 1) * (m + 1));
    const auto at = [&](size_t i, size_t j) -> uint32_t& { return longest[i * (m + 1) + j]; };
    for (size_t i = n; i-- > 0;)
        for (size_t j = m; j-- > 0;) at(i, j) = a[head + i] == b[head + j] ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
    std::vector<Change> out;
    for (size_t i = 0, j = 0; i < n || j < m;) {
        if (i < n && j < m && a[head + i] == b[head + j]) {
            ++i, ++j;
            continue;
        }
        Change change{head + i, head + i, head + j, head + j};
        while ((i < n || j < m) && !(i < n && j < m && a[head + i] == b[head + j])) {
            if (j == m || (i < n && at(i + 1, j) >= at(i, j + 1)))
                ++i;
            else
                ++j;
        }
        change.last = head + i;
        change.new_last = head + j;
        out.push_back(change);
    }
    return out;
}

}  // namespace

/// The edits of the formatter that touch these lines. A text that does not parse stays as it is.
json Server::formatted(Document& d, size_t first_line, size_t last_line) {
    auto text = engine_.dump(d.text.text(), d.path, "fmt");
    json out = json::array();
    if (!text) return out;
    const std::string& now = text.value();
    const auto before = lines_of(d.text.text()), after = lines_of(now);
    const auto offset = [&](size_t line) {
        return line < before.size() ? static_cast<size_t>(before[line].data() - d.text.text().data()) : d.text.text().size();
    };
    for (const Change& c : changes_between(before, after)) {
        if (c.last < first_line || c.first > last_line) continue;
        std::string replacement;
        for (size_t line = c.new_first; line < c.new_last; ++line) replacement += after[line];
        out.push_back({{"range", d.text.range(offset(c.first), offset(c.last))}, {"newText", std::move(replacement)}});
    }
    return out;
}

json Server::format(const json& params) { return formatted(document(params), 0, SIZE_MAX); }

json Server::format_range(const json& params) {
    Document& d = document(params);
    const auto [begin, end] = stretch(d, params);
    return formatted(d, d.text.line_of(begin), d.text.line_of(end));
}

json Server::format_on_type(const json& params) {
    Document& d = document(params);
    const size_t line = d.text.line_of(place(d, params));
    return formatted(d, line, line);
}

// ---- tokens ----

namespace {

/// Index in the legend, or -1; the modifiers.
int token_type(const std::string& kind, uint32_t& modifiers) {
    static const std::map<std::string, std::pair<int, uint32_t>> types = {
        {"module", {0, 0}},    {"type", {1, 0}},     {"layout", {1, 0}},    {"struct", {2, 0}},    {"generic", {3, 0}},
        {"parameter", {4, 0}}, {"variable", {5, 0}}, {"name", {5, 0}},      {"constant", {5, 2}},  {"field", {6, 0}},
        {"function", {7, 0}},  {"kernel", {7, 0}},   {"builtin", {7, 4}},   {"keyword", {8, 0}},   {"comment", {9, 0}},
        {"string", {10, 0}},   {"number", {11, 0}},  {"operator", {12, 0}}, {"attribute", {13, 0}}};
    const auto it = types.find(kind);
    if (it == types.end()) return -1;
    modifiers = it->second.second;
    return it->second.first;
}

}  // namespace

/// Five numbers a token: lines and characters from the one before, length, type, modifiers.
std::vector<uint32_t> Server::tokens_of(Document& d, size_t begin, size_t end) {
    std::vector<uint32_t> out;
    size_t last_line = 0, last_at = 0;  // in bytes
    const json answer = ask("tokens", d.path);
    for (const json& token : answer["tokens"]) {
        size_t from = token["begin"];
        const size_t to = token["end"];
        if (to <= begin || from >= end) continue;
        uint32_t modifiers = 0;
        const int type = token_type(token["kind"], modifiers);
        if (type < 0) continue;
        if (token.contains("declares")) modifiers |= 1;
        while (from < to) {  // tokens end with their lines
            const size_t line = d.text.line_of(from), stop = std::min(to, d.text.line_end(line));
            if (stop > from) {
                const size_t base = line == last_line ? last_at : d.text.line_begin(line);
                out.insert(out.end(), {static_cast<uint32_t>(line - last_line), static_cast<uint32_t>(d.text.characters(base, from)),
                                       static_cast<uint32_t>(d.text.characters(from, stop)), static_cast<uint32_t>(type), modifiers});
                last_line = line, last_at = from;
            }
            from = line + 1 < d.text.lines() ? d.text.line_begin(line + 1) : to;
        }
    }
    return out;
}

json Server::tokens(const json& params) {
    Document& d = document(params);
    d.tokens = tokens_of(d, 0, SIZE_MAX);
    return {{"resultId", std::to_string(++d.tokens_id)}, {"data", d.tokens}};
}

json Server::tokens_delta(const json& params) {
    Document& d = document(params);
    if (text_at(params, "previousResultId") != std::to_string(d.tokens_id) || d.tokens_id == 0) return tokens(params);
    std::vector<uint32_t> fresh = tokens_of(d, 0, SIZE_MAX);
    const std::vector<uint32_t>& old = d.tokens;
    const size_t shorter = std::min(old.size(), fresh.size());
    size_t head = 0, tail = 0;
    while (head < shorter && old[head] == fresh[head]) ++head;
    while (tail < shorter - head && old[old.size() - 1 - tail] == fresh[fresh.size() - 1 - tail]) ++tail;
    json edits = json::array();
    if (head < old.size() || head < fresh.size())
        edits.push_back({{"start", head},
                         {"deleteCount", old.size() - head - tail},
                         {"data", std::vector(fresh.begin() + static_cast<ptrdiff_t>(head), fresh.end() - static_cast<ptrdiff_t>(tail))}});
    if (!edits.empty() && head + tail == old.size() && head + tail == fresh.size()) edits.clear();
    d.tokens = std::move(fresh);
    return {{"resultId", std::to_string(++d.tokens_id)}, {"edits", std::move(edits)}};
}

json Server::tokens_range(const json& params) {
    Document& d = document(params);
    const auto [begin, end] = stretch(d, params);
    return {{"data", tokens_of(d, begin, end)}};
}

}  // namespace tegula_tool::lsp
