// What the names of a document stand for: hover, definitions, uses in this and other files, renaming, calls, hints. See workspace.h.
#include <algorithm>

#include "jit/engine/session_names.h"
#include "jit/engine/tree_walk.h"
#include "jit/engine/workspace.h"
#include "jit/engine/workspace_json.h"
#include "lang/stable_sort.h"
#include "parser/parse.h"
#include "parser/scanner.h"
#include "parser/word_place.h"
#include "sema/vocabulary.h"

namespace tegula {

namespace {

bool holds(Span outer, Span inner) { return outer.file == inner.file && outer.begin <= inner.begin && inner.end <= outer.end; }

std::string size_text(uint64_t bits) {
    const uint64_t bytes = (bits + 7) / 8;
    return bytes % 1024 == 0 ? std::to_string(bytes / 1024) + " KiB" : std::to_string(bytes) + " bytes";
}

const ast::Expr& without_layout(const ast::Expr& type) {
    return type.kind == ast::ExprKind::annotated ? *ast::as<ast::AnnotatedExpr>(&type).base : type;
}

/// What a tile of that type takes, where format and extents are written out; 0: they are not, or it is no tile.
uint64_t bits_of(const ast::Expr& type, TypeTable& types) {
    if (type.kind != ast::ExprKind::index) return 0;
    const auto& index = ast::as<ast::IndexExpr>(&type);
    if (index.base->kind != ast::ExprKind::instantiate || sema::base_name(*index.base) != "tile") return 0;
    const auto& tile = ast::as<ast::InstantiateExpr>(index.base);
    const auto format = tile.args.size() == 1 ? types.builtin(sema::base_name(*tile.args[0].value)) : std::nullopt;
    uint64_t bits = format ? types.format(*format).bits : 0;
    for (const ast::IndexItem& item : index.items)
        bits *= item.kind == ast::IndexItem::value && item.start->kind == ast::ExprKind::int_lit ? ast::as<ast::IntLit>(item.start).value : 0;
    return bits;
}

}  // namespace

Span Workspace::word_at(const Document& d, size_t at) const {
    size_t begin = at, end = at;
    while (begin > 0 && syntax::is_word_char(d.text[begin - 1])) --begin;
    while (end < d.text.size() && syntax::is_word_char(d.text[end])) ++end;
    return {d.tree ? d.tree->module->source->id : 0, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

/// All uses of names in the text, those of fields too, in order.
std::vector<Workspace::Use> Workspace::uses_of(Document& d, const std::atomic<bool>* cancel) {
    check(d, cancel);
    const Tree& t = *d.tree;
    std::vector<Use> out = t.uses;
    std::unordered_map<uint64_t, uint32_t> begins;
    for (const ItemPlace& place : t.items) begins[place.id] = place.begin;
    const auto now = [&](const Anchor& a) {
        if (a.item == 0) return a.span;
        const auto it = begins.find(a.item);
        return it == begins.end() ? Span{} : Span{t.module->source->id, it->second + a.span.begin, it->second + a.span.end};
    };
    for (const ItemPlace& place : t.items)
        if (const auto result = d.results.find(place.id); result != d.results.end() && result->second)
            for (const auto& [at, declared] : result->second->uses) out.push_back({now(at), now(declared)});
    std::erase_if(out, [](const Use& use) { return !use.at.valid() || !use.declared.valid(); });
    stable_sort(out, [](const Use& use) { return use.at.begin; });
    out.erase(std::unique(out.begin(), out.end(), [](const Use& a, const Use& b) { return a.at == b.at; }), out.end());
    return out;
}

std::optional<Workspace::Use> Workspace::use_at(Document& d, size_t at, const std::atomic<bool>* cancel) {
    const Span word = (tree(d, cancel), word_at(d, at));
    const auto find = [&](const std::vector<Use>& uses) -> std::optional<Use> {
        const auto it = std::ranges::lower_bound(uses, word.begin, {}, [](const Use& use) { return use.at.begin; });
        return it != uses.end() && it->at == word ? std::optional(*it) : std::nullopt;
    };
    if (word.begin == word.end) return std::nullopt;
    if (const auto found = find(d.tree->uses)) return found;
    return find(uses_of(d, cancel));
}

/// What is known of the names in an item: in the instance that it was checked in, or where that leaves more open, as for kernels whose generics have
/// no defaults and functions that take anything, in that of a launch by a test, or a call. Null: nothing.
const Workspace::Result* Workspace::facts_of(const Document& d, uint64_t item) const {
    const auto checked = d.results.find(item), called = d.called.find(item);
    const Result* own = checked == d.results.end() ? nullptr : checked->second.get();
    const Result* said = called == d.called.end() ? nullptr : called->second.get();
    return !own || (said && said->facts.size() > own->facts.size()) ? said : own;
}

/// What elaboration said of the name there; empty: nothing.
sema::NameFact Workspace::fact_at(const Document& d, Span at) const {
    const Tree& t = *d.tree;
    if (at.file != t.module->source->id) return {};
    const auto among = [&](const std::vector<Fact>& facts, uint32_t begin) -> sema::NameFact {
        const auto it = std::ranges::lower_bound(facts, begin, {}, &Fact::begin);
        return it != facts.end() && it->begin == begin && it->name == std::string_view(d.text).substr(at.begin, at.end - at.begin) ? it->is
                                                                                                                                   : sema::NameFact();
    };
    if (const ItemPlace* place = t.at(at.begin))
        if (const Result* known = facts_of(d, place->id))
            if (sema::NameFact fact = among(known->facts, at.begin - place->begin); !fact.text.empty()) return fact;
    for (const Fact& fact : t.facts)
        if (fact.begin == at.begin && fact.end == at.end) return fact.is;
    return {};
}

/// The same of the nearest use of a name, of a text that may be broken there.
sema::NameFact Workspace::fact_near(const Document& d, std::string_view name, size_t at) const {
    const sema::NameFact* best = nullptr;
    size_t distance = SIZE_MAX;
    const auto look = [&](const Result& result, size_t begin) {
        for (const Fact& fact : result.facts) {
            const size_t there = begin + fact.begin, away = there > at ? there - at : at - there;
            if (fact.name == name && away < distance) distance = away, best = &fact.is;
        }
    };
    if (const ItemPlace* place = d.tree->at(static_cast<uint32_t>(at)))
        if (const Result* known = facts_of(d, place->id)) look(*known, place->begin);
    if (!best)
        for (const auto& [id, result] : d.lost)
            if (result) look(*result, 0);
    return best ? *best : sema::NameFact();
}

/// The instance that the types in an item are those of: "T = f32, BLOCK = 256"; empty: it has no generics.
std::string Workspace::instance_of(const Document& d, const ast::Item& item) const {
    std::string out;
    const ItemPlace* place = d.tree->at(item.span.begin);
    const Result* known = place ? facts_of(d, place->id) : nullptr;
    if (!known) return out;
    for (const ast::GenericParam& p : generics_of(item))
        for (const Fact& fact : known->facts)
            if (fact.begin + place->begin == p.name.span.begin)
                if (!fact.is.value.empty()) out += (out.empty() ? "" : ", ") + fact.name + " = " + fact.is.value;
    return out;
}

void Workspace::describe_item(const Document& d, Found& found) const {
    const ast::Item& item = *found.item;
    found.kind = item_name_kind(item.kind);
    found.doc = item.docs;
    found.type = item_signature(item, engine_->sources());
    if (found.declared && found.declared->file != d.tree->module->source->id) found.module = engine_->sources().name(found.declared->file);
    if (item.kind == ast::ItemKind::import) found.kind = sema::NameKind::module;
    if (item.kind == ast::ItemKind::type) describe_type(found, *ast::as<ast::TypeItem>(&item).value);
    if (found.declared->file == d.tree->module->source->id) found.instance = instance_of(d, item);
}

/// Layout and size of what is declared with a type.
void Workspace::describe_type(Found& found, const ast::Expr& type) const {
    const ast::Expr* layout = sema::annotation(type);
    const ast::Expr& plain = without_layout(type);
    found.layout = layout ? engine_->sources().text(layout->span) : std::string_view();
    found.rank = layout && plain.kind == ast::ExprKind::index ? ast::as<ast::IndexExpr>(&plain).items.size() : 0;
}

/// A name that an item declares: parameter, field, variable.
void Workspace::describe_local(Document& d, Found& found) {
    const Span declared = *found.declared;
    TypeTable& types = d.tree->module->types();
    const SourceMap& sources = engine_->sources();
    const auto text_of = [&](const ast::Expr* e) { return e ? std::string(sources.text(e->span)) : std::string(); };
    const sema::NameFact fact = fact_at(d, found.at), there = fact.text.empty() ? fact_at(d, declared) : fact;
    found.type = there.text;
    found.layout = there.layout;
    found.rank = there.rank;
    found.bits = there.bits;
    found.kind = sema::NameKind::local;
    if (!found.within) return;
    // As it is declared, and then as what is known to be another text.
    const auto typed = [&](const char* mode, const ast::Expr& type, const std::string& known) {
        const std::string text = text_of(&type);
        found.type = mode + text + (known.empty() || known == text ? "" : "  // " + known);
        found.bits = bits_of(type, types);
        describe_type(found, type);
    };
    static constexpr const char* kModes[] = {"", "out ", "inout "};
    for (const ast::Param& p : parameters_of(*found.within))
        if (p.name.span == declared) {
            found.kind = sema::NameKind::parameter;
            if (p.type) typed(kModes[static_cast<int>(p.mode)], *p.type, there.text);
        }
    for (const ast::GenericParam& p : generics_of(*found.within))
        if (p.name.span == declared)
            found.kind = sema::NameKind::generic, found.type = text_of(p.bound) + (there.value.empty() ? "" : " = " + there.value);
    for (const ast::Field& f : fields_of(*found.within))
        if (f.name.span == declared) found.kind = sema::NameKind::field, typed("", *f.type, fact.text);
    if (found.within->kind == ast::ItemKind::kernel && found.kind == sema::NameKind::local)
        for (const std::string_view extent : sema::extent_names(*d.tree->module, ast::as<ast::KernelItem>(found.within)))
            if (extent == found.name && holds({declared.file, found.within->span.begin, body_of(*found.within)->span.begin}, declared))
                found.kind = sema::NameKind::extent, found.type = "i64";
    if (const ast::Block* body = body_of(*found.within); body && found.kind == sema::NameKind::local)
        each_statement(*body, [&](const ast::Stmt& s) {
            if (s.kind != ast::StmtKind::let) return;
            const auto& let = ast::as<ast::LetStmt>(&s);
            for (const ast::Name& n : let.pattern.names)
                if (n.span == declared) found.kind = let.is_var ? sema::NameKind::var : let.is_const ? sema::NameKind::const_ : sema::NameKind::let;
        });
    found.instance = instance_of(d, *found.within);
}

/// What a name stands for.
Workspace::Found Workspace::declared_at(Document& d, const Use& use) {
    Found found;
    found.at = use.at;
    found.declared = use.declared;
    found.name = d.text.substr(use.at.begin, use.at.end - use.at.begin);
    describe(d, found);
    return found;
}

void Workspace::describe(Document& d, Found& found) {
    const Span declared = *found.declared;
    const LoadedModule& module = *d.tree->module;
    const auto look = [&](const sema::Module& in) {
        if (found.item || found.within) return;
        if (const ast::Item* item = in.find(found.name); item && item->name.span == declared) {
            found.item = item;
            return;
        }
        for (const ast::Item* item : in.ast->items)
            if (item->name.span == declared)
                found.item = item;
            else if (holds(item->span, declared))
                found.within = item;
    };
    if (declared.file == module.source->id) {
        look(module);
    } else {
        for (const sema::Module::Import& import : module.imports)
            if (import.module) look(*import.module);
        for (const auto& prelude : module.prelude)
            if (prelude->has(found.name)) look(prelude->module());
    }
    found.item ? describe_item(d, found) : describe_local(d, found);
    if (found.item && found.item->kind == ast::ItemKind::const_)
        if (const std::string fact = fact_at(d, declared).text; !fact.empty()) found.type += "  // " + fact;
}

/// Is the word a metric of a bench?
bool Workspace::find_metric(const Document& d, Found& found) const {
    const ItemPlace* place = d.tree->at(found.at.begin);
    if (!place || place->item->kind != ast::ItemKind::bench) return false;
    for (const ast::Arg& metric : ast::as<ast::BenchItem>(place->item).metrics) {
        if (metric.name.span.begin != found.at.begin || metric.name.span.end != found.at.end) continue;
        found.kind = sema::NameKind::metric;
        found.doc = "a metric of this bench: shown beside its time";
        for (const sema::Word& w : sema::vocabulary())
            if (w.kind == sema::NameKind::metric && w.name == found.name) found.doc = w.doc;
        return true;
    }
    return false;
}

/// Is the word the `std` of an import?
bool Workspace::find_library(const Document& d, Found& found) const {
    const ItemPlace* place = d.tree->at(found.at.begin);
    if (found.name != "std" || !place || place->item->kind != ast::ItemKind::import) return false;
    found.kind = sema::NameKind::module;
    found.type = "std";
    found.doc = "The library:\n";
    for (const sema::LibraryModule& module : d.tree->module->library) {
        std::string names;
        constexpr size_t kShown = 60;  // characters
        for (const std::string_view name : module.names) {
            if (name.starts_with('_')) continue;
            if (names.size() > kShown) {
                names += ", ..";
                break;
            }
            names += (names.empty() ? "`" : ", `") + std::string(name) + "`";
        }
        found.doc += "\n- `std." + std::string(module.name) + "`" + (names.empty() ? "" : ": " + names);
    }
    return true;
}

std::optional<Workspace::Found> Workspace::look_up(Document& d, size_t at, const std::atomic<bool>* cancel) {
    check(d, cancel);
    const Span word = word_at(d, at);
    if (word.begin == word.end) return std::nullopt;
    if (const auto use = use_at(d, at, cancel)) return declared_at(d, *use);
    Found found;
    found.at = word;
    found.name = d.text.substr(word.begin, word.end - word.begin);
    const auto [begin, end] = stretch_at(d, word.begin);
    const std::string around = d.text.substr(begin, end - begin);  // what `place` refers to
    const WordPlace place = word_place(around, word.begin - begin);
    if (find_metric(d, found) || find_library(d, found)) return found;
    if (place.kind == WordPlace::nothing) return std::nullopt;  // of a comment or text
    if (find_argument(d, found)) return found;
    const bool behind_point = word.begin > 0 && d.text[word.begin - 1] == '.';
    if (const auto format = behind_point ? std::nullopt : d.tree->module->types().builtin(found.name)) {
        const Format& f = d.tree->module->types().format(*format);
        const bool integer = found.name != "bool" && f.is_int();
        found.kind = sema::NameKind::type;
        if (integer) found.doc = std::to_string(f.bits) + (found.name[0] == 'i' ? "-bit two's complement" : "-bit unsigned");
        for (const sema::Word& w : sema::vocabulary())
            if (w.kind == sema::NameKind::type && w.name == found.name && !w.doc.empty()) found.doc = w.doc;
        return found;
    }
    // Of a word with several meanings the one that its place asks for.
    const bool modifies = place.callee.size() == 1 && (place.callee[0] == "cache" || place.callee[0] == "evict");
    const sema::NameKind wanted = modifies                              ? sema::NameKind::option
                                  : place.kind == WordPlace::schedules  ? sema::NameKind::schedule
                                  : place.kind == WordPlace::attributes ? sema::NameKind::attribute
                                  : place.kind == WordPlace::layouts    ? sema::NameKind::layout
                                                                        : sema::NameKind::name;
    const sema::Word* best = nullptr;
    const std::vector<sema::Word> words = sema::vocabulary();
    for (const sema::Word& w : words)
        if (w.name == found.name && w.kind != sema::NameKind::metric && (!best || (best->kind != wanted && w.kind == wanted))) best = &w;
    if (best && !behind_point) {
        found.kind = best->kind;
        const bool named = best->signature.empty() || best->signature.starts_with(best->name);
        found.type = (named ? std::string() : std::string(best->name)) + std::string(best->signature);
        found.doc = best->doc;
        return found;
    }
    // A text that does not parse here: what the name was when it did.
    if (const sema::NameFact fact = fact_near(d, found.name, at); !fact.text.empty() && !d.tree->module->ast->damage.empty()) {
        found.kind = sema::NameKind::local;
        found.type = fact.text;
        found.layout = fact.layout;
        found.rank = fact.rank;
        found.bits = fact.bits;
        return found;
    }
    return std::nullopt;
}

/// The layout that a word names, arguments included.
std::string Workspace::named_layout(const Document& d, const Found& found) const {
    size_t begin = found.at.begin, end = found.at.end;
    if (found.item && found.declared == found.at && !generics_of(*found.item).empty()) return {};
    while (begin > 1 && d.text[begin - 1] == '.') {  // of an import
        --begin;
        while (begin > 0 && syntax::is_word_char(d.text[begin - 1])) --begin;
    }
    for (const char open : {'<', '('}) {
        if (end >= d.text.size() || d.text[end] != open || (open == '(' && found.item)) continue;
        int depth = 0;
        do {
            const char c = d.text[end];
            depth += c == '<' || c == '(' || c == '[' ? 1 : c == '>' || c == ')' || c == ']' ? -1 : 0;
        } while (++end < d.text.size() && depth > 0 && d.text[end] != ';' && d.text[end] != '{');
        if (depth > 0) return {};
    }
    return d.text.substr(begin, end - begin);
}

std::string Workspace::hover(Document& d, size_t at, const std::atomic<bool>* cancel) {
    const auto found = look_up(d, at, cancel);
    Json out;
    out.begin('{').member("schema", 1).key("found");
    if (!found) return out.null().end('}').take();
    out.begin('{')
        .member("begin", found->at.begin)
        .member("end", found->at.end)
        .member("kind", sema::kind_text(found->kind))
        .member("name", found->name);
    out.member("type", found->type).member("doc", found->doc);
    if (!found->module.empty()) out.member("module", found->module);
    if (!found->instance.empty()) out.member("instance", found->instance);
    const std::string layout = found->kind == sema::NameKind::layout ? named_layout(d, *found) : found->layout;
    if (!layout.empty()) out.member("layout", layout).member("rank", found->rank);
    if (found->bits) out.member("size", size_text(found->bits));
    return out.end('}').end('}').take();
}

std::string Workspace::definition(Document& d, size_t at, const std::atomic<bool>* cancel) {
    Json out;
    out.begin('{').member("schema", 1).key("places").begin('[');
    const auto add = [&](const Place& place) {
        out.begin('{').member("file", place.file).member("begin", place.begin).member("end", place.end).end('}');
    };
    if (const auto use = use_at(d, at, cancel)) {
        const Found found = declared_at(d, *use);
        const sema::Module* imported = nullptr;
        if (found.item && found.item->kind == ast::ItemKind::import)  // the file, not the line that imports it
            for (const sema::Module::Import& import : d.tree->module->imports)
                if (import.item == found.item) imported = import.module;
        if (imported)
            add(place_of(d, {imported->ast->items.empty() ? imported->ast->file : imported->ast->items.front()->span.file, 0, 0}));
        else
            add(place_of(d, use->declared));
    }
    return out.end(']').end('}').take();
}

/// Is it declared within a body, where no other file sees it?
bool Workspace::is_local(Document& d, const Place& target) const {
    if (target.file != d.path) return false;
    const ItemPlace* place = d.tree->at(target.begin);
    const ast::Block* body = place ? body_of(*place->item) : nullptr;
    return body && body->span.begin <= target.begin && target.end <= body->span.end;
}

std::vector<Workspace::Place> Workspace::references(Document& d, const Place& target, std::string_view name, bool everywhere,
                                                    const std::atomic<bool>* cancel) {
    std::vector<Place> out;
    const auto collect = [&](Document& in) {
        poll(cancel);
        if (in.text.find(name) == in.text.npos) return;
        for (const Use& use : uses_of(in, cancel))
            if (std::string_view(in.text).substr(use.at.begin, use.at.end - use.at.begin) == name && place_of(in, use.declared) == target)
                out.push_back({in.path, use.at.begin, use.at.end});
    };
    collect(d);
    if (everywhere && !is_local(d, target))
        for (auto& [path, other] : documents_)
            if (&other != &d)
                if (Document* in = find(path)) collect(*in);
    return out;
}

std::string Workspace::occurrences(Document& d, size_t at, bool everywhere, const std::atomic<bool>* cancel) {
    Json out;
    out.begin('{').member("schema", 1).key("places").begin('[');
    if (const auto use = use_at(d, at, cancel)) {
        const Place target = place_of(d, use->declared);
        const std::string name = d.text.substr(use->at.begin, use->at.end - use->at.begin);
        for (const Place& place : references(d, target, name, everywhere, cancel)) {
            out.begin('{').member("file", place.file).member("begin", place.begin).member("end", place.end);
            out.member("declaration", place == target).end('}');
        }
    }
    return out.end(']').end('}').take();
}

/// Who calls or launches the function or kernel at `at`, and what it calls.
std::string Workspace::calls(Document& d, size_t at, const std::atomic<bool>* cancel) {
    const auto found = look_up(d, at, cancel);
    Json out;
    out.begin('{').member("schema", 1).key("item");
    const auto is_called = [](const ast::Item* item) { return item && (item->kind == ast::ItemKind::fn || item->kind == ast::ItemKind::kernel); };
    if (!found || !is_called(found->item)) return out.null().end('}').take();
    const auto item_json = [&](const Document& in, const ast::Item& item) {
        const Place whole = place_of(in, item.span), name = place_of(in, item.name.span);
        out.begin('{').member("kind", item_kind_name(item.kind)).member("name", item.name.text).member("file", whole.file);
        out.member("begin", whole.begin).member("end", whole.end).member("name_begin", name.begin).member("name_end", name.end).end('}');
    };
    const auto ranges = [&](const std::vector<Span>& spans) {
        out.key("ranges").begin('[');
        for (const Span span : spans) out.begin('{').member("begin", span.begin).member("end", span.end).end('}');
        out.end(']');
    };
    item_json(d, *found->item);
    const Place target = place_of(d, *found->declared);
    std::map<std::pair<std::string, uint32_t>, std::vector<Span>> callers;
    for (const Place& place : references(d, target, found->name, true, cancel)) {
        Document& in = documents_[place.file];
        const ItemPlace* caller = in.tree->at(place.begin);
        if (place != target && caller) callers[{place.file, caller->begin}].push_back({0, place.begin, place.end});
    }
    out.key("incoming").begin('[');
    for (const auto& [from, spans] : callers) {
        const Document& in = documents_[from.first];
        out.begin('{').key("item");
        item_json(in, *in.tree->at(from.second)->item);
        ranges(spans);
        out.end('}');
    }
    out.end(']').key("outgoing").begin('[');
    std::vector<std::pair<Found, std::vector<Span>>> callees;
    if (const ItemPlace* place = target.file == d.path ? d.tree->at(target.begin) : nullptr)
        for (const Use& use : d.tree->uses) {
            if (use.at.begin < place->begin || use.at.end > place->end || use.at == use.declared || use.at == place->item->name.span) continue;
            const auto known = std::ranges::find_if(callees, [&](const auto& c) { return *c.first.declared == use.declared; });
            if (known != callees.end()) {
                known->second.push_back(use.at);
                continue;
            }
            const Found callee = declared_at(d, use);
            if (is_called(callee.item)) callees.push_back({callee, {use.at}});
        }
    for (const auto& [callee, spans] : callees) {
        out.begin('{').key("item");
        item_json(d, *callee.item);
        ranges(spans);
        out.end('}');
    }
    return out.end(']').end('}').take();
}

/// What the text leaves out: types of variables, generics that calls deduce, modes of what launches write to.
std::string Workspace::hints(Document& d, size_t begin, size_t end, const std::atomic<bool>* cancel) {
    check(d, cancel);
    const Tree& t = *d.tree;
    Json out;
    out.begin('{').member("schema", 1).key("hints").begin('[');
    const auto add = [&](uint32_t at, const char* kind, const std::string& text) {
        if (begin <= at && at <= end) out.begin('{').member("at", at).member("kind", kind).member("text", text).end('}');
    };
    const auto is_literal = [](const ast::Expr& e) {
        return e.kind == ast::ExprKind::int_lit || e.kind == ast::ExprKind::float_lit || e.kind == ast::ExprKind::bool_lit ||
               e.kind == ast::ExprKind::string_lit;
    };
    const auto modes = [&](const ast::Expr& e) {
        if (e.kind != ast::ExprKind::call) return;
        const auto& call = ast::as<ast::CallExpr>(&e);
        const auto [home, kernel] = t.module->launched(*call.callee);
        for (size_t i = 0; kernel && i < std::min(call.args.size(), kernel->params.size()); ++i)
            if (call.args[i].name.text.empty() && kernel->params[i].mode != ast::ParamMode::in)
                add(call.args[i].value->span.begin, "mode", kernel->params[i].mode == ast::ParamMode::out ? "out " : "inout ");
    };
    for (const ItemPlace& place : t.items) {
        const ast::Block* body = body_of(*place.item);
        if (!body || place.end < begin || place.begin > end) continue;
        each_statement(*body, [&](const ast::Stmt& s) {
            expressions_of(s, [&](const ast::Expr& e) { each_expression(e, modes); });
            if (s.kind != ast::StmtKind::let || ast::as<ast::LetStmt>(&s).type || is_literal(*ast::as<ast::LetStmt>(&s).init)) return;
            for (const ast::Name& name : ast::as<ast::LetStmt>(&s).pattern.names)
                if (const std::string type = fact_at(d, name.span).type; !type.empty() && name.text != "_") add(name.span.end, "type", ": " + type);
        });
        const Result* known = facts_of(d, place.id);
        for (const Fact& fact : known ? known->facts : std::vector<Fact>())
            if (fact.begin == fact.end) add(place.begin + fact.begin, "generics", fact.is.text);
    }
    return out.end(']').end('}').take();
}

}  // namespace tegula
