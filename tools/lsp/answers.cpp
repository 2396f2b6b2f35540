// Requests about names: hover, completion, places, symbols, calls, and what is shown beside the text.
#include <algorithm>

#include "../viz/viz.h"
#include "members.h"
#include "server.h"

namespace tegula_tool::lsp {

using namespace members;

namespace {

json markdown(const std::string& text) { return {{"kind", "markdown"}, {"value", text}}; }

/// CompletionItemKind.
int completion_kind(const std::string& kind) {
    static const std::map<std::string, int> kinds = {
        {"fn", 3},        {"kernel", 3}, {"builtin", 3}, {"host", 3},      {"struct", 22}, {"type", 7},       {"layout", 7},    {"const", 21},
        {"constant", 21}, {"module", 9}, {"import", 9},  {"keyword", 14},  {"local", 6},   {"variable", 6},   {"parameter", 6}, {"generic", 25},
        {"extent", 6},    {"field", 5},  {"member", 5},  {"argument", 10}, {"option", 20}, {"attribute", 20}, {"schedule", 20}};
    const auto it = kinds.find(kind);
    return it == kinds.end() ? 1 : it->second;
}

/// SymbolKind.
int symbol_kind(const std::string& kind) {
    static const std::map<std::string, int> kinds = {{"import", 2}, {"const", 14},  {"type", 26}, {"struct", 23}, {"layout", 26},
                                                     {"fn", 12},    {"kernel", 12}, {"test", 24}, {"bench", 24},  {"field", 8}};
    const auto it = kinds.find(kind);
    return it == kinds.end() ? 13 : it->second;
}

}  // namespace

/// Where the elements of a small tensor of that layout lie; empty: it cannot be shown, as with names of generics among its arguments.
std::string Server::layout_picture(Document& d, const std::string& layout, int rank) {
    static constexpr const char* kExtents[] = {"[8, 8]", "[16]", "[8, 8]", "[2, 4, 8]", "[2, 2, 4, 8]"};
    if (rank < 0 || rank >= static_cast<int>(std::size(kExtents))) return {};
    try {
        if (!d.has_module) d.module = module_of(d), d.has_module = true;
    } catch (const Failure&) {
        return {};  // there is no module of a text with errors
    }
    for (const int shown : rank > 0 ? std::vector<int>{rank} : std::vector<int>{2, 1, 3, 4}) {
        auto model = d.module.artifact("picture:layout:u8" + std::string(kExtents[shown]) + " @ " + layout);
        if (!model) continue;
        json picture = json::parse(model.value());
        json figures = json::array({picture["figures"].at(0)});
        figures[0]["legend"] = json::array();  // of colours, which hovers do not have
        picture["figures"] = std::move(figures);
        json facts = json::array();
        for (const json& fact : picture["facts"])
            if (text_at(fact, "name") != "type") facts.push_back(fact);
        picture["facts"] = std::move(facts);
        return viz::render(picture.dump(), "text");
    }
    return {};
}

json Server::hover(const json& params) {
    Document& d = document(params);
    const json found = ask("hover", d.path, place(d, params))["found"];
    if (found.is_null()) return nullptr;
    const std::string kind = found["kind"], name = found["name"], type = found["type"];
    const bool item = kind == "kernel" || kind == "fn" || kind == "struct" || kind == "type" || kind == "layout" || kind == "const" ||
                      kind == "module" || kind == "import";
    const bool word = kind == "builtin" || kind == "argument" || kind == "keyword" || kind == "option" || kind == "attribute" || kind == "schedule" ||
                      kind == "metric";
    const std::string declares = kind == "let" || kind == "var"                                                                       ? kind + " "
                                 : kind == "parameter" || kind == "field" || kind == "generic" || kind == "extent" || kind == "local" ? ""
                                                                                                                                      : kind + " ";
    std::string code = (item || word) && !type.empty() ? type : declares + name + (type.empty() ? "" : ": " + type);
    std::string text = "```tile\n" + code + "\n```";
    std::string note;
    const auto add = [&](const std::string& more) { note += (note.empty() ? "" : " · ") + more; };
    if (!item && kind != "let" && kind != "var") add(kind);
    if (found.contains("size")) add(found["size"]);
    if (found.contains("module")) add("from `" + found["module"].get<std::string>() + "`");
    if (found.contains("instance")) add("with `" + found["instance"].get<std::string>() + "`");
    if (!note.empty()) text += "\n\n" + note;
    if (!found["doc"].get<std::string>().empty()) text += "\n\n---\n\n" + found["doc"].get<std::string>();
    if (found.contains("layout"))
        if (const std::string drawn = layout_picture(d, found["layout"], found["rank"]); !drawn.empty()) text += "\n\n```text\n" + drawn + "```";
    return {{"contents", markdown(text)}, {"range", d.text.range(found["begin"], found["end"])}};
}

json Server::completion(const json& params) {
    Document& d = document(params);
    const json answer = ask("complete", d.path, place(d, params));
    const json range = d.text.range(answer["begin"], answer["end"]);
    json items = json::array();
    completions_ = json::array();
    for (const json& c : answer["candidates"]) {
        const std::string text = c["text"], kind = c["kind"], type = c["type"];
        json item = {
            {"label", text}, {"kind", completion_kind(kind)}, {"textEdit", {{"range", range}, {"newText", text}}}, {"data", completions_.size()}};
        if (!type.empty()) item["detail"] = type;
        if (c.contains("filter")) item["filterText"] = c["filter"];
        // Names in scope before words of the language, and before what needs an import.
        item["sortText"] = std::string(c.contains("import")                     ? "3"
                                       : kind == "argument"                     ? "0"
                                       : kind == "keyword" || kind == "builtin" ? "2"
                                                                                : "1") +
                           text;
        if (c.contains("import"))
            item["additionalTextEdits"] = {{{"range", d.text.range(c["import"]["at"], c["import"]["at"])}, {"newText", c["import"]["text"]}}};
        completions_.push_back(c["doc"]);
        items.push_back(std::move(item));
    }
    return {{"isIncomplete", false}, {"items", std::move(items)}};
}

json Server::resolve_completion(const json& params) {
    if (!params.is_object()) throw Failure{invalid_params, "a completion item is an object"};
    json item = params;
    const json& number = member(params, "data");
    if (number.is_number_unsigned() && number.get<uint64_t>() < completions_.size())
        if (const std::string doc = completions_[number.get<size_t>()]; !doc.empty()) item["documentation"] = markdown(doc);
    return item;
}

json Server::signature_help(const json& params) {
    Document& d = document(params);
    const json found = ask("signature", d.path, place(d, params))["found"];
    if (found.is_null()) return nullptr;
    const Text label(found["label"], Encoding::utf16);  // whose offsets are UTF-16 whatever positions are
    json parameters = json::array();
    for (const json& p : found["parameters"]) parameters.push_back({{"label", {label.characters(0, p["begin"]), label.characters(0, p["end"])}}});
    json signature = {{"label", found["label"]}, {"parameters", std::move(parameters)}};
    if (!found["doc"].get<std::string>().empty()) signature["documentation"] = markdown(found["doc"]);
    return {{"signatures", {signature}}, {"activeSignature", 0}, {"activeParameter", found["active"]}};
}

json Server::definition(const json& params) {
    Document& d = document(params);
    json out = json::array();
    const json answer = ask("definition", d.path, place(d, params));
    for (const json& p : answer["places"]) out.push_back(location(p["file"], p["begin"], p["end"]));
    return out;
}

json Server::references(const json& params) {
    Document& d = document(params);
    const bool declaration = member(member(params, "context"), "includeDeclaration") != json(false);
    json out = json::array();
    const json answer = ask("references", d.path, place(d, params));
    for (const json& p : answer["places"])
        if (declaration || !p["declaration"].get<bool>()) out.push_back(location(p["file"], p["begin"], p["end"]));
    return out;
}

json Server::highlights(const json& params) {
    Document& d = document(params);
    json out = json::array();
    const json answer = ask("highlights", d.path, place(d, params));
    for (const json& p : answer["places"])
        out.push_back({{"range", d.text.range(p["begin"], p["end"])}, {"kind", p["declaration"].get<bool>() ? 3 : 2}});
    return out;
}

json Server::prepare_rename(const json& params) {
    Document& d = document(params);
    const json answer = ask("rename", d.path, place(d, params));
    if (answer.contains("problem")) throw Failure{request_failed, answer["problem"]};
    return {{"range", d.text.range(answer["begin"], answer["end"])}, {"placeholder", answer["name"]}};
}

json Server::rename(const json& params) {
    Document& d = document(params);
    const std::string name = text_at(params, "newName");
    if (name.empty()) throw Failure{invalid_params, "`newName` is a name"};
    const json answer = ask("rename", d.path, place(d, params), 0, name);
    if (answer.contains("problem")) throw Failure{request_failed, answer["problem"]};
    json changes = json::object();
    for (const json& e : answer["edits"])
        changes[uri_of(e["file"])].push_back({{"range", text_of(e["file"]).range(e["begin"], e["end"])}, {"newText", e["text"]}});
    return {{"changes", std::move(changes)}};
}

json Server::document_symbols(const json& params) {
    Document& d = document(params);
    const std::function<json(const json&)> symbol = [&](const json& s) -> json {
        json children = json::array();
        for (const json& child : s["children"]) children.push_back(symbol(child));
        json out = {{"name", s["name"].get<std::string>().empty() ? json("?") : s["name"]},
                    {"kind", symbol_kind(s["kind"])},
                    {"range", d.text.range(s["begin"], s["end"])},
                    {"selectionRange", d.text.range(s["name_begin"], s["name_end"])},
                    {"children", std::move(children)}};
        if (!s["detail"].get<std::string>().empty()) out["detail"] = s["detail"];
        return out;
    };
    json out = json::array();
    const json answer = ask("symbols", d.path);
    for (const json& s : answer["symbols"]) out.push_back(symbol(s));
    return out;
}

json Server::workspace_symbols(const json& params) {
    // As editors filter: the letters of the query in their order.
    const auto fits = [](std::string_view name, std::string_view query) {
        const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
        size_t at = 0;
        for (const char c : name)
            if (at < query.size() && lower(c) == lower(query[at])) ++at;
        return at == query.size();
    };
    const std::string query = text_at(params, "query");
    std::set<std::string> files = files_;
    for (const auto& [uri, d] : documents_) files.insert(d.path);
    json out = json::array();
    constexpr size_t kMost = 1000;
    for (const std::string& file : files) {
        json answer;
        try {
            answer = ask("symbols", file);
        } catch (const Failure& failure) {
            if (failure.code == request_cancelled) throw;
            continue;  // it is gone
        }
        for (const json& s : answer["symbols"]) {
            const std::string name = s["name"], kind = s["kind"];
            if (kind != "import" && fits(name, query) && out.size() < kMost)
                out.push_back({{"name", name}, {"kind", symbol_kind(kind)}, {"location", location(file, s["name_begin"], s["name_end"])}});
        }
    }
    return out;
}

json Server::call_item(const json& item) {
    const Text& text = text_of(item["file"]);
    return {{"name", item["name"]},
            {"kind", symbol_kind(item["kind"])},
            {"detail", item["kind"]},
            {"uri", uri_of(file_of(item["file"]))},
            {"range", text.range(item["begin"], item["end"])},
            {"selectionRange", text.range(item["name_begin"], item["name_end"])},
            {"data", {{"file", item["file"]}, {"at", item["name_begin"]}}}};
}

json Server::prepare_calls(const json& params) {
    Document& d = document(params);
    const json item = ask("calls", d.path, place(d, params))["item"];
    return item.is_null() ? json(nullptr) : json::array({call_item(item)});
}

json Server::calls(const json& params, const char* direction, const char* end) {
    const json& data = member(member(params, "item"), "data");
    if (!member(data, "file").is_string() || !member(data, "at").is_number_unsigned())
        throw Failure{invalid_params, "the item is none of this server"};
    const std::string file = data["file"];
    const bool incoming = std::string_view(direction) == "incoming";
    text_of(file);  // which is known from now on
    const json answer = ask("calls", file, data["at"]);
    json out = json::array();
    for (const json& call : list_at(answer, direction)) {
        json ranges = json::array();
        const Text& text = text_of(incoming ? call["item"]["file"].get<std::string>() : file);
        for (const json& r : call["ranges"]) ranges.push_back(text.range(r["begin"], r["end"]));
        out.push_back({{end, call_item(call["item"])}, {"fromRanges", std::move(ranges)}});
    }
    return out;
}

json Server::incoming_calls(const json& params) { return calls(params, "incoming", "from"); }
json Server::outgoing_calls(const json& params) { return calls(params, "outgoing", "to"); }

json Server::links(const json& params) {
    Document& d = document(params);
    json out = json::array();
    const json answer = ask("links", d.path);
    for (const json& l : answer["links"]) out.push_back({{"range", d.text.range(l["begin"], l["end"])}, {"target", uri_of(file_of(l["file"]))}});
    return out;
}

json Server::folds(const json& params) {
    Document& d = document(params);
    json out = json::array();
    const json answer = ask("folds", d.path);
    for (const json& f : answer["folds"]) {
        const size_t first = d.text.line_of(f["begin"]);
        size_t last = d.text.line_of(f["end"]);
        if (f["kind"] != "comment" && last > first) --last;  // the line of the closing bracket stays
        if (last > first) out.push_back({{"startLine", first}, {"endLine", last}, {"kind", f["kind"]}});
    }
    return out;
}

json Server::selections(const json& params) {
    Document& d = document(params);
    json out = json::array();
    for (const json& position : list_at(params, "positions")) {
        const json holder = {{"position", position}};
        const size_t at = place(d, holder);
        const json answer = ask("selections", d.path, at);
        json chain;
        const json& ranges = answer["ranges"];
        for (size_t i = ranges.size(); i-- > 0;) {
            json next = {{"range", d.text.range(ranges[i]["begin"], ranges[i]["end"])}};
            if (!chain.is_null()) next["parent"] = std::move(chain);
            chain = std::move(next);
        }
        out.push_back(chain.is_null() ? json{{"range", d.text.range(at, at)}} : std::move(chain));
    }
    return out;
}

json Server::hints(const json& params) {
    Document& d = document(params);
    const auto [begin, end] = stretch(d, params);
    json out = json::array();
    if (!hints_on_) return out;
    const json answer = ask("hints", d.path, begin, end);
    for (const json& h : answer["hints"]) {
        json hint = {{"position", d.text.position(h["at"])}, {"label", h["text"]}, {"kind", h["kind"] == "mode" ? 2 : 1}};
        out.push_back(std::move(hint));
    }
    return out;
}

}  // namespace tegula_tool::lsp
