// What may be typed next in a document, and the parameters of the call that is being typed. Both look at the item around the cursor alone, which
// need not parse. See workspace.h.
#include <algorithm>

#include "jit/engine/session_names.h"
#include "jit/engine/tree_walk.h"
#include "jit/engine/workspace.h"
#include "jit/engine/workspace_json.h"
#include "sema/vocabulary.h"

namespace tegula {

namespace {

/// A parameter in the text of a signature.
struct Written {
    size_t begin, end;
    std::string_view name;
    bool repeats;  ///< "..": any number of them
};

/// The name in "out y: tensor<f32>[N]", "axis = -1".
std::string_view name_of(std::string_view parameter) {
    for (const std::string_view mode : {"out ", "inout "})
        if (parameter.starts_with(mode)) parameter.remove_prefix(mode.size());
    return parameter.substr(0, parameter.find_first_of(":= "));
}

/// The parameters in the text of a signature.
std::vector<Written> parameters_in(std::string_view label, char open) {
    std::vector<Written> out;
    const size_t begin = label.find(open);
    if (begin == label.npos) return out;
    int depth = 0;
    size_t from = begin + 1;
    for (size_t i = begin + 1; i < label.size(); ++i) {
        const char c = label[i];
        const bool opens = c == '(' || c == '[' || c == '<' || c == '{', arrow = c == '>' && label[i - 1] == '-';
        const bool closes = c == ')' || c == ']' || (c == '>' && !arrow) || c == '}';
        if ((c == ',' || closes) && depth == 0) {
            while (from < i && label[from] == ' ') ++from;
            size_t to = i;
            while (to > from && label[to - 1] == ' ') --to;
            if (to > from)
                out.push_back({from, to, name_of(label.substr(from, to - from)), to - from >= 2 && label[from] == '.' && label[from + 1] == '.'});
            from = i + 1;
            if (closes) break;
        }
        depth += opens ? 1 : closes ? -1 : 0;
    }
    return out;
}

}  // namespace

/// What a document has, for names_for.
class Workspace::World : public NameWorld {
public:
    World(const Workspace& workspace, const Document& d, size_t at) : workspace_(workspace), d_(d), at_(at) {}
    Engine& engine() const override { return *workspace_.engine_; }
    LoadedModule& module() const override { return *d_.tree->module; }
    void items(const std::function<void(const ast::Item&)>& add) const override {
        for (const ItemPlace& place : d_.tree->items) add(*place.item);
    }
    /// Of a struct by its name, of a tuple by the number of its commas.
    bool members(std::span<const std::string_view> chain, const std::function<void(Meaning)>& add) const override {
        std::string type = type_of_local(chain[0]);
        for (size_t i = 1; i < chain.size() && !type.empty(); ++i) {
            const ast::Item* item = struct_named(type);
            type.clear();
            for (const ast::Field& field : item ? fields_of(*item) : std::span<const ast::Field>())
                if (field.name.text == chain[i]) type = engine().sources().text(field.type->span);
        }
        if (const ast::Item* item = struct_named(type)) {
            for (const ast::Field& field : fields_of(*item))
                add({std::string(field.name.text),
                     sema::NameKind::field,
                     std::string(engine().sources().text(field.type->span)),
                     {},
                     field.name.span,
                     nullptr,
                     {}});
            return true;
        }
        if (!type.starts_with('(')) return !type.empty();
        const auto items = parameters_in(type, '(');
        for (size_t i = 0; i < items.size(); ++i)
            add({std::to_string(i), sema::NameKind::member, type.substr(items[i].begin, items[i].end - items[i].begin), {}, {}, nullptr, {}});
        return true;
    }
    std::string type_of_local(std::string_view name) const override { return workspace_.fact_near(d_, name, at_).text; }

private:
    const Workspace& workspace_;
    const Document& d_;
    const size_t at_;
    const ast::Item* struct_named(std::string_view type) const {
        const std::string_view name = type.substr(0, type.find_first_of("<["));
        if (const ast::Item* item = module().find(name); item && item->kind == ast::ItemKind::struct_) return item;
        for (const sema::Module::Import& import : module().imports)
            if (const ast::Item* item = import.module ? import.module->find(name) : nullptr; item && item->kind == ast::ItemKind::struct_)
                return item;
        return nullptr;
    }
};

/// The stretch of the item around `at`, or of what stands between items there.
std::pair<size_t, size_t> Workspace::stretch_at(const Document& d, size_t at) {
    const ItemPlace* place = d.tree->at(static_cast<uint32_t>(at));
    if (place && place->item->kind != ast::ItemKind::import) return {place->begin, place->end};
    size_t begin = 0, end = d.text.size();
    for (const ItemPlace& p : d.tree->items) {
        if (p.end <= at && (p.item->kind != ast::ItemKind::import || p.end < at)) begin = std::max<size_t>(begin, p.end);
        if (p.begin > at) end = std::min<size_t>(end, p.begin);
    }
    if (place && place->begin >= begin) begin = place->begin;
    return {begin, end};
}

std::string Workspace::complete(Document& d, size_t at, const std::atomic<bool>* cancel) {
    tree(d, cancel);
    const auto [begin, end] = stretch_at(d, at);
    const std::string text = d.text.substr(begin, end - begin);
    const OfferedNames offered = names_for(World(*this, d, at), text, at - begin);
    Json out;
    out.begin('{').member("schema", 1).member("begin", begin + offered.place.begin).member("end", at).key("candidates").begin('[');
    std::set<std::string_view> known;
    for (const Meaning& m : offered.meanings) {
        known.insert(m.text);
        out.begin('{').member("text", m.text).member("kind", sema::kind_text(m.kind)).member("type", m.type).member("doc", m.doc).end('}');
    }
    // Items of the library that need an import, or its name.
    const std::string_view prefix = std::string_view(text).substr(offered.place.begin, at - begin - offered.place.begin);
    constexpr size_t kShortest = 2;
    if (offered.place.kind == WordPlace::names && prefix.size() >= kShortest) {
        size_t line = 0;  // behind the imports there are, or what the file begins with
        for (const ItemPlace& p : d.tree->items)
            if (p.item->kind == ast::ItemKind::import) line = std::min(d.text.find('\n', p.end), d.text.size() - 1) + 1;
        for (const sema::LibraryModule& module : d.tree->module->library) {
            std::string alias(module.name);
            bool imported = false;
            for (const sema::Module::Import& import : d.tree->module->imports)
                if (import.module && import.module->name == "std." + alias) alias = import.alias, imported = true;
            for (const std::string_view name : module.names) {
                if (!name.starts_with(prefix) || name.starts_with('_') || known.contains(name)) continue;
                out.begin('{').member("text", alias + "." + std::string(name)).member("kind", "fn").member("type", "std." + std::string(module.name));
                out.member("doc", "").member("filter", name);
                if (!imported)
                    out.key("import").begin('{').member("at", line).member("text", "import std." + std::string(module.name) + ";\n").end('}');
                out.end('}');
            }
        }
    }
    return out.end(']').end('}').take();
}

std::string Workspace::signature(Document& d, size_t at, const std::atomic<bool>* cancel) {
    tree(d, cancel);
    const auto [begin, end] = stretch_at(d, at);
    const std::string text = d.text.substr(begin, end - begin);
    const WordPlace place = word_place(text, at - begin);
    Json out;
    out.begin('{').member("schema", 1).key("found");
    const World world(*this, d, at);
    std::string label, doc;
    char open = place.instantiates ? '<' : '(';
    if (const ast::Item* item = place.callee.empty() ? nullptr : item_named(world, place.callee)) {
        label = item_signature(*item, engine_->sources());
        doc = item->docs;
        if (item->kind == ast::ItemKind::struct_ && !place.instantiates) open = '{';
    } else if (place.callee.size() == 1) {
        for (const sema::Word& w : sema::vocabulary())
            if (w.name == place.callee[0] && !w.signature.empty() && label.empty())
                label = w.signature.starts_with(w.name) ? std::string(w.signature) : std::string(w.name) + std::string(w.signature), doc = w.doc;
    }
    const auto parameters = parameters_in(label, open);
    if (label.empty()) return out.null().end('}').take();
    size_t active = place.argument;
    for (size_t i = 0; i < parameters.size(); ++i)
        if (parameters[i].name == place.argument_name) active = i;
    if (!parameters.empty() && active >= parameters.size() && parameters.back().repeats) active = parameters.size() - 1;
    out.begin('{').member("label", label).member("doc", doc).member("active", active).key("parameters").begin('[');
    for (const Written& p : parameters) out.begin('{').member("begin", p.begin).member("end", p.end).end('}');
    return out.end(']').end('}').end('}').take();
}

/// Is the word the name of an argument of something that is built in?
bool Workspace::find_argument(Document& d, Found& found) const {
    size_t behind = found.at.end;
    while (behind < d.text.size() && d.text[behind] == ' ') ++behind;
    if (d.text.substr(behind, 1) != "=" || d.text.substr(behind, 2) == "==") return false;
    const auto [begin, end] = stretch_at(d, found.at.begin);
    const std::string text = d.text.substr(begin, end - begin);
    const WordPlace place = word_place(text, found.at.begin - begin);
    if (!place.begins_argument || place.callee.size() != 1) return false;
    for (const sema::Word& w : sema::vocabulary()) {
        if (w.name != place.callee[0] || w.signature.empty()) continue;
        for (const Written& p : parameters_in(w.signature, place.instantiates ? '<' : '(')) {
            if (p.name != found.name) continue;
            found.kind = sema::NameKind::argument;
            found.type = std::string(w.name) + std::string(w.signature);
            found.doc = w.doc;
            return true;
        }
    }
    return false;
}

}  // namespace tegula
