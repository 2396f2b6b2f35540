// Completion, and questions about a word: both go through the meanings that a word may have at its place. See session.h and session_names.h.
#include <algorithm>

#include "jit/engine/session.h"
#include "jit/engine/session_names.h"
#include "parser/word_place.h"
#include "sema/signature.h"
#include "sema/vocabulary.h"
#include "sema/walk.h"

namespace tegula {

namespace {

constexpr size_t kMostCandidates = 1000;

// Keywords by where they stand; the others follow an expression.
constexpr std::string_view kStatementWords[] = {"let",   "var",  "for",    "while",  "if", "return", "break", "continue", "import",
                                                "const", "type", "struct", "layout", "fn", "kernel", "test",  "bench",    "edition"};
constexpr std::string_view kOperandWords[] = {"true", "false", "none", "in", "out", "inout", "if"};

/// The meanings of words at one place of a text, in the order in which they hide one another.
class Names {
public:
    Names(const NameWorld& world, const std::string& text, size_t at) : world_(world), place_(word_place(text, at)) {
        parse(before_, text.substr(0, place_.begin));
        parse(whole_, text);
    }
    const WordPlace& place() const { return place_; }
    uint32_t file() const { return whole_.source->id; }

    /// Those that the word may take here, whose text begins with `prefix`.
    std::vector<Meaning> fitting(std::string_view prefix) {
        begin(prefix, false);
        switch (place_.kind) {
            case WordPlace::nothing:
                break;
            case WordPlace::imports:
                imports();
                break;
            case WordPlace::members:
                members();
                break;
            case WordPlace::layouts:
                items([](const ast::Item& item) { return item.kind == ast::ItemKind::layout || item.kind == ast::ItemKind::import; });
                words([](const sema::Word& w) { return w.kind == sema::NameKind::layout; });
                break;
            case WordPlace::attributes:
                words([](const sema::Word& w) { return w.kind == sema::NameKind::attribute; });
                break;
            case WordPlace::schedules:
                words([](const sema::Word& w) { return w.kind == sema::NameKind::schedule; });
                break;
            case WordPlace::types:
                arguments();
                locals();
                items([](const ast::Item& item) { return item.kind != ast::ItemKind::fn && item.kind != ast::ItemKind::kernel; });
                words([](const sema::Word& w) { return w.kind == sema::NameKind::type; });
                break;
            case WordPlace::names:
                arguments();
                everything();
                keywords();
                break;
        }
        return std::move(found_);
    }
    /// All of exactly this text.
    std::vector<Meaning> of(std::string_view word) {
        begin(word, true);
        if (place_.kind == WordPlace::members || place_.kind == WordPlace::imports) {
            place_.kind == WordPlace::members ? members() : imports();
            return std::move(found_);
        }
        for (const ast::Item* item : whole_.parsed.items->items) add_item(*item, {});  // of this text
        everything();
        words([](const sema::Word& w) {
            return !sema::is_builtin_function(w.kind) && w.kind != sema::NameKind::type && w.kind != sema::NameKind::constant;
        });
        keywords();
        return std::move(found_);
    }

private:
    struct Typed {
        SourcePtr source;
        Arena arena;
        Input parsed;
    };
    const NameWorld& world_;
    DiagSink diags_{1};
    const WordPlace place_;
    Typed before_, whole_;
    std::string_view wanted_;
    bool exact_ = false;
    std::vector<Meaning> found_;
    std::set<std::string, std::less<>> known_;

    void parse(Typed& typed, std::string text) {
        typed.source = world_.engine().sources().share("<input>", std::move(text));
        typed.parsed = parse_input(world_.engine().sources(), typed.source->id, typed.arena, diags_);
    }
    void begin(std::string_view wanted, bool exact) {
        wanted_ = wanted;
        exact_ = exact;
        found_.clear();
        known_.clear();
    }
    bool is_wanted(std::string_view text) const { return exact_ ? text == wanted_ : text.starts_with(wanted_) && found_.size() < kMostCandidates; }
    void add(Meaning meaning) {
        if (is_wanted(meaning.text) && known_.insert(meaning.text).second) found_.push_back(std::move(meaning));
    }
    std::string_view text_of(const ast::Expr* e) const { return e ? world_.engine().sources().text(e->span) : std::string_view(); }

    void add_item(const ast::Item& item, const std::string& module) {
        if (item.kind == ast::ItemKind::test || item.kind == ast::ItemKind::bench || !is_wanted(item.name.text)) return;
        add({std::string(item.name.text), item_name_kind(item.kind), item_signature(item, world_.engine().sources()), std::string(item.docs),
             item.name.span, &item, module});
    }
    void locals() {
        local_meanings(*before_.parsed.items, before_.parsed.statements, before_.source->text.size(), [&](Meaning m) {
            if (!is_wanted(m.text)) return;
            describe_parameter(m);
            add(std::move(m));
        });
        // Extents have no declaration of their own.
        if (const ast::Item* item = before_.parsed.items->items.empty() ? nullptr : before_.parsed.items->items.back();
            item && item->kind == ast::ItemKind::kernel && item->span.end >= before_.source->text.size())
            for (const std::string_view extent : sema::extent_names(world_.module(), ast::as<ast::KernelItem>(item)))
                add({std::string(extent), sema::NameKind::extent, "int", {}, {}, nullptr, {}});
    }
    void describe_parameter(Meaning& m) const {
        static constexpr const char* kModes[] = {"", "out ", "inout "};
        if (m.type.empty()) m.type = world_.type_of_local(m.text);
        if (m.kind != sema::NameKind::parameter && m.kind != sema::NameKind::generic) return;
        const ast::Item* item = before_.parsed.items->items.back();
        for (const ast::Param& p : parameters_of(item))
            if (p.name.text == m.text && m.kind == sema::NameKind::parameter)
                m.type = kModes[static_cast<int>(p.mode)] + std::string(text_of(p.type));
        for (const ast::GenericParam& g : generics_of(item))
            if (g.name.text == m.text && m.kind == sema::NameKind::generic) m.type = text_of(g.bound);
    }
    static std::span<const ast::Param> parameters_of(const ast::Item* item) {
        if (item->kind == ast::ItemKind::fn) return ast::as<ast::FnItem>(item).params;
        if (item->kind == ast::ItemKind::kernel) return ast::as<ast::KernelItem>(item).params;
        return {};
    }
    static std::span<const ast::GenericParam> generics_of(const ast::Item* item) {
        switch (item->kind) {
            case ast::ItemKind::fn:
                return ast::as<ast::FnItem>(item).generics;
            case ast::ItemKind::kernel:
                return ast::as<ast::KernelItem>(item).generics;
            case ast::ItemKind::type:
                return ast::as<ast::TypeItem>(item).generics;
            case ast::ItemKind::struct_:
                return ast::as<ast::StructItem>(item).generics;
            case ast::ItemKind::layout:
                return ast::as<ast::LayoutItem>(item).generics;
            default:
                return {};
        }
    }
    void variables() {
        world_.variables([&](Meaning m) { add(std::move(m)); });
    }
    void items(const std::function<bool(const ast::Item&)>& fits) {
        world_.items([&](const ast::Item& item) {
            if (fits(item)) add_item(item, {});
        });
        for (const auto& prelude : world_.module().prelude)
            for (const std::string_view name : prelude->names())
                if (is_wanted(name) && !name.starts_with('_'))
                    if (const ast::Item* item = prelude->module().find(name); item && fits(*item)) add_item(*item, prelude->module().name);
    }
    void words(const std::function<bool(const sema::Word&)>& fits) {
        for (const sema::Word& w : sema::vocabulary())
            if (is_wanted(w.name) && fits(w)) add({std::string(w.name), w.kind, std::string(w.signature), std::string(w.doc), {}, nullptr, {}});
    }
    void everything() {
        locals();
        variables();
        items([](const ast::Item&) { return true; });
        words([](const sema::Word& w) {
            return sema::is_builtin_function(w.kind) || w.kind == sema::NameKind::type || w.kind == sema::NameKind::constant;
        });
    }
    void keywords() {
        const auto among = [](std::span<const std::string_view> words, std::string_view word) {
            return std::ranges::find(words, word) != words.end();
        };
        for (const std::string_view word : tegula::keywords()) {
            const bool begins = among(kStatementWords, word), operand = among(kOperandWords, word);
            const bool fits =
                (begins && place_.begins_statement) || (operand && !place_.follows_operand) || (!begins && !operand && place_.follows_operand);
            if (exact_ || fits) add({std::string(word), sema::NameKind::keyword, {}, {}, {}, nullptr, {}});
        }
    }
    void imports() {
        if (place_.chain.empty()) add({"std", sema::NameKind::module, {}, "the library", {}, nullptr, {}});
        if (place_.chain != std::vector<std::string_view>{"std"}) return;
        for (const sema::LibraryModule& m : world_.module().library)
            add({std::string(m.name), sema::NameKind::module, {}, {}, {}, nullptr, "std." + std::string(m.name)});
    }
    void members() {
        if (place_.chain.empty()) return fields();
        if (place_.chain.size() == 1)
            if (const LoadedModule* module = world_.module().imported(place_.chain[0])) {
                for (const std::string_view name : module->item_names())
                    if (is_wanted(name) && !name.starts_with('_'))
                        if (const ast::Item* item = module->find(name)) add_item(*item, module->name);
                return;
            }
        if (!world_.members(place_.chain, [&](Meaning m) { add(std::move(m)); })) fields();
    }
    /// Of the structures there are: of which one the value is, nobody knows before it is elaborated.
    void fields() {
        world_.items([&](const ast::Item& item) { fields(item); });
        for (const ast::Item* item : whole_.parsed.items->items) fields(*item);
    }
    void fields(const ast::Item& item) {
        if (item.kind != ast::ItemKind::struct_) return;
        for (const ast::Field& field : ast::as<ast::StructItem>(&item).fields)
            add({std::string(field.name.text), sema::NameKind::field, std::string(text_of(field.type)), {}, field.name.span, nullptr, {}});
    }
    void arguments() {
        if (place_.callee.empty() || !place_.begins_argument) return;
        const auto argument = [&](std::string_view name, std::string_view type) {
            if (!name.empty()) add({std::string(name) + " = ", sema::NameKind::argument, std::string(type), {}, {}, nullptr, {}});
        };
        if (const ast::Item* item = item_named(world_, place_.callee)) {
            if (place_.instantiates)
                for (const ast::GenericParam& g : generics_of(item)) argument(g.name.text, text_of(g.bound));
            else
                for (const ast::Param& p : parameters_of(item)) argument(p.name.text, text_of(p.type));
            return;
        }
        if (place_.callee.size() != 1 || place_.instantiates) return;
        for (const sema::Word& w : sema::vocabulary())
            if (w.name == place_.callee[0] && !w.signature.empty() && sema::is_builtin_function(w.kind))
                for (const auto& p : sema::parse_signature(w.signature).parameters) argument(p.name, {});
    }
};

}  // namespace

const ast::Item* item_named(const NameWorld& world, std::span<const std::string_view> chain) {
    const sema::Module* module = &world.module();
    if (chain.size() == 2) module = world.module().imported(chain[0]);
    if (!module || chain.empty() || chain.size() > 2) return nullptr;
    if (const ast::Item* item = module->find(chain.back()); item || chain.size() == 2) return item;
    for (const auto& prelude : module->prelude)
        if (prelude->has(chain[0])) return prelude->module().find(chain[0]);
    return nullptr;
}

OfferedNames names_for(const NameWorld& world, const std::string& text, size_t at) {
    const auto names = std::make_shared<Names>(world, text, at);
    const size_t begin = names->place().begin;
    return {names->place(), names->fitting(std::string_view(text).substr(begin, at - begin)), names};
}

OfferedNames names_at(const NameWorld& world, const std::string& text, size_t at, uint32_t& file) {
    const auto names = std::make_shared<Names>(world, text, at);
    file = names->file();
    const size_t begin = names->place().begin, end = names->place().end;
    return {names->place(),
            begin == end || names->place().in_text ? std::vector<Meaning>() : names->of(std::string_view(text).substr(begin, end - begin)), names};
}

/// What a session has, for names_for and names_at.
class Session::World : public NameWorld {
public:
    explicit World(const Session& session) : session_(session) {}
    Engine& engine() const override { return *session_.engine_; }
    LoadedModule& module() const override { return *session_.now_.module; }
    void items(const std::function<void(const ast::Item&)>& add) const override {
        for (const OwnItem& own : session_.now_.items) add(*own.item);
    }
    void variables(const std::function<void(Meaning)>& add) const override {
        for (const auto& [name, variable] : session_.now_.variables)
            add({name, sema::NameKind::variable, session_.type_text(*variable.value), {}, variable.name.span, nullptr, {}});
    }
    bool members(std::span<const std::string_view> chain, const std::function<void(Meaning)>& add) const override {
        const HostValue* value = session_.find(chain[0]);
        for (size_t i = 1; value && i < chain.size(); ++i) value = member_of(*value, chain[i]);
        if (!value) return false;
        for (size_t i = 0; i < std::min(value->items.size(), kMostCandidates); ++i) {
            const ast::Field* field = value->of ? &value->of->fields[i] : nullptr;
            add({field ? std::string(field->name.text) : std::to_string(i),
                 field ? sema::NameKind::field : sema::NameKind::member,
                 session_.type_text(value->items[i]),
                 {},
                 field ? field->name.span : Span{},
                 nullptr,
                 {}});
        }
        return true;
    }

private:
    const Session& session_;
};

std::string Session::complete(const std::string& text, size_t at) {
    const OfferedNames names = names_for(World(*this), text, at);
    const size_t begin = names.place.begin;
    std::string out = "{\"schema\":1,\"begin\":" + std::to_string(begin) + ",\"end\":" + std::to_string(at) + ",\"candidates\":[";
    const char* separator = "";
    for (const Meaning& m : names.meanings) {
        out += separator + ("{\"text\":" + json_quote(m.text)) + ",\"kind\":" + json_quote(sema::kind_text(m.kind)) +
               ",\"type\":" + json_quote(m.type) + ",\"doc\":" + json_quote(m.doc) + "}";
        separator = ",";
    }
    return out + "]}\n";
}

std::string Session::inspect(const std::string& text, size_t at) {
    uint32_t file = 0;
    const OfferedNames names = names_at(World(*this), text, at, file);
    const size_t begin = names.place.begin, end = names.place.end;
    const std::string word = text.substr(begin, end - begin);
    std::string out = "{\"schema\":1,\"begin\":" + std::to_string(begin) + ",\"end\":" + std::to_string(end) + ",\"found\":";
    const std::vector<Meaning>& found = names.meanings;
    if (found.empty()) return out + "null}\n";
    const Meaning& m = found.front();
    out += "{\"kind\":" + json_quote(sema::kind_text(m.kind)) + ",\"name\":" + json_quote(m.text) + ",\"type\":" + json_quote(m.type) +
           ",\"doc\":" + json_quote(m.doc);
    if (!m.module.empty()) out += ",\"module\":" + json_quote(m.module);
    if (m.item && m.item->kind == ast::ItemKind::kernel) {
        out += ",\"attributes\":[";
        const char* separator = "";
        for (const ast::Attribute& a : ast::as<ast::KernelItem>(m.item).attributes) {
            std::string shown(a.name.text);
            for (const ast::Arg& arg : a.args) shown += (&arg == &a.args.front() ? "(" : ", ") + sema::source_text(*arg.value);
            out += separator + json_quote(shown + (a.args.empty() ? "" : ")"));
            separator = ",";
        }
        out += "]";
    }
    const auto variable = m.kind == sema::NameKind::variable ? now_.variables.find(word) : now_.variables.end();
    if (variable != now_.variables.end() && variable->second.name.span == m.at) {
        DiagSink unheard;
        HostRunner runner(*engine_, *now_.module, {}, unheard);
        out += ",\"value\":" + value_json(runner, *variable->second.value, ShownAs::kind);
    }
    if (m.at.valid() && m.at.file != file && !engine_->sources().name(m.at.file).empty()) out += ",\"at\":" + place_json(m.at);
    return out + "}}\n";
}

}  // namespace tegula
