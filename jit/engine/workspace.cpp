// Documents: their texts, what is known of them, and what of that outlives a change. See workspace.h.
#include "jit/engine/workspace.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>

#include "jit/engine/host_checker.h"
#include "jit/engine/stdlib.h"
#include "jit/engine/tree_walk.h"
#include "jit/engine/workspace_json.h"
#include "lang/stable_sort.h"
#include "parser/scanner.h"
#include "sema/recovery.h"
#include "sema/signature.h"

namespace tegula {

namespace {

uint64_t mixed(uint64_t seed, uint64_t value) { return (seed ^ value) * 0x9e3779b97f4a7c15 + (seed >> 29); }
uint64_t hash_of(std::string_view text) { return std::hash<std::string_view>()(text); }

/// nullopt: there is none, or it is no text of ours.
std::optional<std::string> read_text_file(const std::string& path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
    std::string text;
    char buffer[1 << 14];
    size_t got = 0;
    while (file && text.size() <= syntax::kMaxSource && (got = std::fread(buffer, 1, sizeof buffer, file.get())) > 0) text.append(buffer, got);
    return !file || std::ferror(file.get()) || text.size() > syntax::kMaxSource ? std::nullopt : std::optional(std::move(text));
}

bool is_host_block(const ast::Item& item) { return item.kind == ast::ItemKind::test || item.kind == ast::ItemKind::bench; }

template <class Fn>
void each_span(Diagnostic& d, Fn&& fn) {
    fn(d.span);
    for (Label& label : d.labels) fn(label.span);
    for (FixIt& fix : d.fixes) fn(fix.span);
    for (Proposal& other : d.others)
        for (FixIt& fix : other.edits) fn(fix.span);
}

}  // namespace

/// Collects what is said of one stretch of the text.
class Workspace::Listener : public sema::Recorder {
public:
    std::vector<Use> uses;
    std::vector<std::pair<Span, sema::NameFact>> facts, others;  ///< others: of the rest of the text

    /// From now on what is said of this stretch alone; with `others` of the types in the rest of the text, too.
    void begin(Span stretch, bool rest = false) {
        stretch_ = stretch;
        rest_ = rest;
        uses.clear();
        facts.clear();
        others.clear();
        known_.clear();
    }
    void use(Span at, Span declared) override {
        if (hears(at)) uses.push_back({at, declared});
    }
    bool asks(Span at) override { return (hears(at) || (rest_ && at.file == stretch_.file)) && !known_.contains(at.begin); }
    void fact(Span at, sema::NameFact fact) override {
        if (known_.insert(at.begin).second) (hears(at) ? facts : others).emplace_back(at, std::move(fact));
    }

private:
    Span stretch_;  ///< not valid: everything
    bool rest_ = false;
    std::unordered_set<uint32_t> known_;
    bool hears(Span at) const { return !stretch_.valid() || (at.file == stretch_.file && stretch_.begin <= at.begin && at.end <= stretch_.end); }
};

const Workspace::ItemPlace* Workspace::Tree::at(uint32_t offset) const {
    const auto behind = std::ranges::upper_bound(items, offset, {}, &ItemPlace::begin);
    if (behind == items.begin()) return nullptr;
    const ItemPlace& found = *std::prev(behind);
    return offset <= found.end ? &found : nullptr;
}

void Workspace::set(const std::string& path, std::string text) {
    Document& d = documents_[path];
    if (d.open && d.text == text) return;
    d.path = path;
    const size_t slash = path.rfind('/');
    d.directory = slash == path.npos ? std::string() : path.substr(0, slash);
    d.text = std::move(text);
    d.open = true;
    d.version = ++generation_;
}

void Workspace::add(const std::string& path) {
    Document& d = documents_[path];
    const size_t slash = path.rfind('/');
    d.path = path;
    d.directory = slash == path.npos ? std::string() : path.substr(0, slash);
    d.open = false;
    d.stamp.clear();
    d.version = ++generation_;
}

/// What tells whether a file has changed; empty: there is none.
std::string Workspace::stamp_of(const std::string& path) const {
    if (const auto it = documents_.find(path); it != documents_.end() && it->second.open) return "v" + std::to_string(it->second.version);
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) return {};
    return std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec) + ":" + std::to_string(info.st_size);
}

/// The document, with the text that counts now; null: there is none.
Workspace::Document* Workspace::find(const std::string& path) {
    const auto it = documents_.find(path);
    if (it == documents_.end()) return nullptr;
    Document& d = it->second;
    if (d.open) return &d;
    const std::string stamp = stamp_of(path);
    if (stamp.empty()) return nullptr;
    if (stamp == d.stamp) return &d;
    auto text = read_text_file(path);
    if (!text) return nullptr;
    d.text = std::move(*text);
    d.stamp = stamp;
    d.version = ++generation_;
    return &d;
}

/// Forgets imports that have changed. True: there were some.
bool Workspace::refresh(Document& d) {
    bool changed = d.tree && d.tree->lacks_imports && d.tree->generation != generation_;
    for (const auto& [path, stamp] : d.stamps) changed |= stamp_of(path) != stamp;
    if (!changed) return false;
    std::erase_if(d.imports, [](const auto& known) { return !known.first.starts_with("std."); });
    d.paths.clear();
    d.stamps.clear();
    return true;
}

Workspace::TreePtr Workspace::read(Document& d, const std::atomic<bool>* cancel) {
    auto out = std::make_shared<Tree>();
    out->names = DiagSink(engine_->options().max_errors);
    out->listener = std::make_unique<Listener>();
    out->generation = generation_;
    Engine::Loading state;
    state.types = d.types;
    state.done = d.imports;
    state.paths = d.paths;
    state.stack.push_back(d.path);
    state.texts = [this](const std::string& path) -> std::optional<std::string> {
        const auto it = documents_.find(path);
        return it != documents_.end() && it->second.open ? std::optional(it->second.text) : std::nullopt;
    };
    out->module = engine_->read_module(state, d.path, d.text, d.directory, out->names, {}, out->listener.get(), cancel);
    LoadedModule& module = *out->module;
    d.imports = std::move(state.done);
    std::erase_if(d.imports, [](const auto& known) { return !known.second; });
    d.paths = std::move(state.paths);
    for (const auto& [file, path] : d.paths) d.stamps.emplace(path, stamp_of(path));
    for (const sema::Module::Import& import : module.imports) out->lacks_imports |= !import.module;
    for (const ast::Item* item : module.ast->items) {
        poll(cancel);
        out->listener->use(item->name.span, item->name.span);
        if (!is_host_block(*item)) continue;
        auto found = std::make_shared<DiagSink>(engine_->options().max_errors);
        for (const Span& text : module.ast->damage) found->settle(text);
        sema::check_host_block(module, *item, *found);
        out->blocks[item] = std::move(found);
    }
    std::erase_if(out->listener->uses, [&](const Use& use) { return use.at.file != module.source->id; });
    out->uses = std::move(out->listener->uses);
    stable_sort(out->uses, [](const Use& use) { return use.at.begin; });
    const auto same = [](const Use& a, const Use& b) { return a.at == b.at; };  // what was said first
    out->uses.erase(std::unique(out->uses.begin(), out->uses.end(), same), out->uses.end());
    for (auto& [at, fact] : out->listener->facts)
        if (at.file == module.source->id) out->facts.push_back({at.begin, at.end, d.text.substr(at.begin, at.end - at.begin), std::move(fact)});
    out->listener->begin({module.source->id, 0, 0});
    std::map<std::pair<ast::ItemKind, std::string_view>, uint64_t> numbers;
    for (const ast::Item* item : module.ast->items) {
        const uint64_t number = numbers[{item->kind, item->name.text}]++;
        const uint64_t id = mixed(mixed(hash_of(item->name.text), static_cast<uint64_t>(item->kind) + 1), number);
        out->items.push_back({item->span.begin, item->span.end, id ? id : 1, 0, item});
    }
    return out;
}

Workspace::Tree& Workspace::tree(Document& d, const std::atomic<bool>* cancel) {
    const bool imports_changed = refresh(d);
    if (d.tree && d.tree_version == d.version && !imports_changed) return *d.tree;
    TreePtr fresh = read(d, cancel);
    rebase(d, d.tree.get(), *fresh, imports_changed);
    d.tree = std::move(fresh);
    d.tree_version = d.version;
    d.checked = nullptr;
    return *d.tree;
}

namespace {

std::unordered_set<size_t> words_of(std::string_view text) {
    std::unordered_set<size_t> out;
    for (size_t i = 0; i < text.size();) {
        size_t end = i;
        while (end < text.size() && syntax::is_word_char(text[end])) ++end;
        if (end > i) out.insert(hash_of(text.substr(i, end - i)));
        i = end + 1;
    }
    return out;
}

/// Is a change offered that is made elsewhere, such as an import that is added? Its place depends on the rest of the text.
bool offers_elsewhere(std::span<const Diagnostic> diags, uint32_t begin, uint32_t end) {
    const auto outside = [&](const FixIt& fix) { return fix.span.begin < begin || fix.span.end > end; };
    return std::ranges::any_of(diags, [&](const Diagnostic& one) {
        return std::ranges::any_of(one.fixes, outside) ||
               std::ranges::any_of(one.others, [&](const Proposal& other) { return std::ranges::any_of(other.edits, outside); });
    });
}

}  // namespace

/// What elaboration depends on of an item itself: its text, and what is wrong with it.
uint64_t Workspace::state_of(const Tree& tree, const ItemPlace& place, uint64_t hash) {
    const sema::Recovery& recovery = tree.module->recovery;
    uint64_t state = mixed(hash, hash_of(place.item->docs));
    state = mixed(state, recovery.broken.contains(place.item) + 2 * recovery.without_instance.contains(place.item));
    const auto add = [&](const DiagSink& sink) {
        for (const Diagnostic& one : sink.all())
            if (one.span.file == tree.module->source->id && place.begin <= one.span.begin && one.span.begin < place.end)
                state = mixed(mixed(state, one.span.begin - place.begin), static_cast<uint64_t>(one.id));
    };
    add(tree.names);
    if (const auto block = tree.blocks.find(place.item); block != tree.blocks.end()) add(*block->second);
    return state;
}

/// Its spans lie in the new text from now on.
void Workspace::move_result(std::shared_ptr<const Result>& result, const Tree& old, const Tree& fresh, const Places& now) {
    auto moved = std::make_shared<Result>(*result);
    for (Diagnostic& one : moved->diags)
        each_span(one, [&](Span& span) {
            if (span.file != old.module->source->id) return;
            const ItemPlace* was = old.at(span.begin);
            const auto is = was ? now.find(was->id) : now.end();
            const uint32_t shift = is == now.end() ? 0 : is->second->begin - was->begin;
            span = {fresh.module->source->id, span.begin + shift, span.end + shift};
        });
    result = std::move(moved);
}

/// Finds out what elaboration has said of items that are as they were, and moves it to where they are now.
void Workspace::rebase(Document& d, const Tree* old, Tree& fresh, bool imports_changed) {
    Places before, now;
    if (old)
        for (const ItemPlace& place : old->items) before[place.id] = &place;
    std::vector<size_t> changed;  // names
    std::unordered_map<uint64_t, std::shared_ptr<const Words>> words;
    std::vector<const Words*> words_in;  // of each item
    for (ItemPlace& place : fresh.items) {
        const std::string_view text = std::string_view(d.text).substr(place.begin, place.end - place.begin);
        const uint64_t hash = hash_of(text);
        std::shared_ptr<const Words>& own = words[hash];
        if (const auto known = d.words.find(hash); !own && known != d.words.end()) own = known->second;
        if (!own) own = std::make_shared<const Words>(words_of(text));
        words_in.push_back(own.get());
        place.state = state_of(fresh, place, hash);
        now[place.id] = &place;
        const auto was = before.find(place.id);
        const bool is_import = place.item->kind == ast::ItemKind::import;
        if (was != before.end() && was->second->state == place.state && !(is_import && imports_changed)) continue;
        changed.push_back(hash_of(place.item->name.text));
        d.dirty.insert(place.id);
    }
    for (const auto& [id, place] : before) {
        if (now.contains(id)) continue;
        changed.push_back(hash_of(place->item->name.text));
        d.dirty.erase(id);
        if (const auto result = d.results.find(id); result != d.results.end()) {
            constexpr size_t kMostLost = 64;
            if (d.lost.size() >= kMostLost) d.lost.clear();
            d.lost[id] = result->second;
            d.results.erase(result);
        }
    }
    for (size_t i = 0; i < changed.size(); ++i)
        for (size_t k = 0; k < fresh.items.size(); ++k)
            if (words_in[k]->contains(changed[i]) && d.dirty.insert(fresh.items[k].id).second)
                changed.push_back(hash_of(fresh.items[k].item->name.text));
    for (const ItemPlace& place : fresh.items) d.lost.erase(place.id);
    for (auto& [id, result] : d.results) {
        if (result->diags.empty() || d.dirty.contains(id)) continue;
        const ItemPlace* was = before.at(id);
        if (offers_elsewhere(result->diags, was->begin, was->end))
            d.dirty.insert(id);
        else
            move_result(result, *old, fresh, now);
    }
    d.words = std::move(words);
}

/// What its names are in the instance that the documentation of a kernel asks for: `/// set: T = f16, BLOCK = 1024`.
void Workspace::listen_to_instance(Document& d, const ast::KernelItem& kernel, const sema::Limits& limits) {
    LoadedModule& module = *d.tree->module;
    constexpr std::string_view kSet = "set:";
    size_t at = kernel.docs.find(kSet);
    while (at != kernel.docs.npos && at > 0 && kernel.docs[at - 1] != '\n') at = kernel.docs.find(kSet, at + 1);
    if (at == kernel.docs.npos) return;
    std::string_view line = kernel.docs.substr(at + kSet.size());
    line = line.substr(0, line.find('\n'));
    DiagSink unheard;
    sema::StaticValues given;
    const auto trimmed = [](std::string_view s) {
        while (!s.empty() && (s.front() == ' ' || s.front() == '\r')) s.remove_prefix(1);
        while (!s.empty() && (s.back() == ' ' || s.back() == '\r')) s.remove_suffix(1);
        return s;
    };
    while (!line.empty()) {
        size_t end = 0;
        for (int depth = 0; end < line.size() && (line[end] != ',' || depth > 0); ++end)
            depth += line[end] == '<' || line[end] == '(' || line[end] == '[' ? 1 : line[end] == '>' || line[end] == ')' || line[end] == ']' ? -1 : 0;
        const std::string_view one = line.substr(0, end);
        line.remove_prefix(std::min(end + 1, line.size()));
        const size_t equals = one.find('=');
        if (equals == one.npos) continue;
        const std::string name(trimmed(one.substr(0, equals))), value(trimmed(one.substr(equals + 1)));
        const auto param = std::ranges::find(kernel.generics, name, [](const ast::GenericParam& p) { return p.name.text; });
        if (param == kernel.generics.end()) continue;
        if (sema::bound_of(*param) == "int") {
            __int128 number = 0;
            for (const char c : value) number = c >= '0' && c <= '9' && number < (__int128{1} << 62) ? 10 * number + (c - '0') : -1;
            if (!value.empty() && number >= 0) given[name] = {number};
        } else if (const auto choice = choice_for(module, kernel, name, value)) {
            given[name] = {*choice};
        } else if (const auto type = engine_->parse_type(module, value, unheard)) {
            given[name] = {*type};
        }
    }
    const auto generics = given.empty() ? std::nullopt : sema::bind_static(module, kernel, given, module.types(), unheard, false);
    if (generics) sema::elaborate_kernel(module, kernel, *generics, module.types(), limits, unheard);
}

std::shared_ptr<const Workspace::Result> Workspace::check_item(Document& d, const ItemPlace& place, const std::atomic<bool>* cancel) {
    LoadedModule& module = *d.tree->module;
    Listener& listener = *d.tree->listener;
    const uint32_t file = module.source->id;
    sema::Limits limits;
    limits.cancel = cancel;
    DiagSink found(engine_->options().max_errors);
    listener.begin({file, place.begin, place.end}, place.item->kind != ast::ItemKind::fn);
    if (is_host_block(*place.item)) {
        found = *d.tree->blocks.at(place.item);
        std::set<const ast::KernelItem*> checked;
        if (!module.recovery.broken.contains(place.item) && !found.full()) HostChecker(*engine_, module, found, checked, cancel).run(*place.item);
    } else {
        if (place.item->kind == ast::ItemKind::kernel) listen_to_instance(d, ast::as<ast::KernelItem>(place.item), limits);
        engine_->check_body(module, *place.item, found, limits);
    }
    auto out = std::make_shared<Result>();
    out->diags = found.all();
    for (Diagnostic& one : out->diags) one.kept.clear();  // the tree has what the spans lie in
    for (auto& [at, fact] : listener.facts)
        out->facts.push_back({at.begin - place.begin, at.end - place.begin, d.text.substr(at.begin, at.end - at.begin), std::move(fact)});
    std::ranges::sort(out->facts, {}, &Fact::begin);
    const auto anchored = [&](Span span) {
        const ItemPlace* of = span.file == file ? d.tree->at(span.begin) : nullptr;
        return of ? Anchor{of->id, {file, span.begin - of->begin, span.end - of->begin}} : Anchor{0, span};
    };
    for (const Use& use : listener.uses) out->uses.emplace_back(anchored(use.at), anchored(use.declared));
    std::map<const ItemPlace*, std::shared_ptr<Result>> called;
    for (auto& [at, fact] : listener.others)
        if (const ItemPlace* of = d.tree->at(at.begin); of && body_of(*of->item)) {
            std::shared_ptr<Result>& said = called[of];
            if (!said) said = std::make_shared<Result>();
            said->facts.push_back({at.begin - of->begin, at.end - of->begin, d.text.substr(at.begin, at.end - at.begin), std::move(fact)});
        }
    for (auto& [of, said] : called) {
        std::ranges::sort(said->facts, {}, &Fact::begin);
        out->called[of->id] = said;
    }
    listener.begin({file, 0, 0});
    return out;
}

/// Elaborates what has changed, and puts together what is wrong with the text.
DiagSink& Workspace::check(Document& d, const std::atomic<bool>* cancel) {
    Tree& t = tree(d, cancel);
    if (d.checked) return *d.checked;
    auto out = std::make_shared<DiagSink>(t.names);
    for (const bool blocks : {false, true}) {
        for (const ItemPlace& place : t.items) {
            if (out->full()) break;
            if (is_host_block(*place.item) != blocks) continue;
            std::shared_ptr<const Result>& result = d.results[place.id];
            if (!result || d.dirty.contains(place.id)) {
                poll(cancel);
                result = check_item(d, place, cancel);
                d.dirty.erase(place.id);
            }
            for (const Diagnostic& one : result->diags) out->add(one);
        }
    }
    d.called.clear();
    for (const ItemPlace& place : t.items)
        if (const auto result = d.results.find(place.id); result != d.results.end() && result->second)
            for (const auto& [kernel, said] : result->second->called) d.called.emplace(kernel, said);
    out->sort();
    d.checked = std::move(out);
    return *d.checked;
}

/// The same with every offered change tried, as for files: slower.
DiagSink Workspace::settled(Document& d, const std::atomic<bool>* cancel) {
    DiagSink out = check(d, cancel);
    Document trial = d;
    const Engine::CheckText check_text = [&](const std::string& text, DiagSink& found) {
        poll(cancel);
        trial.text = text;
        ++trial.version;
        DiagSink& checked = check(trial, cancel);
        for (const Diagnostic& one : checked.all()) found.add(one);
        return trial.tree->module->source;
    };
    engine_->settle_changes(d.tree->module->source, check_text, out, 0, true);
    out.sort();
    return out;
}

/// Where a span lies; of modules of the library in their whole text.
Workspace::Place Workspace::place_of(const Document& d, Span span) const {
    if (!span.valid()) return {d.path, 0, 0};
    if (d.tree && span.file == d.tree->module->source->id) return {d.path, span.begin, span.end};
    if (const auto it = d.paths.find(span.file); it != d.paths.end()) return {it->second, span.begin, span.end};
    const SourceMap& sources = engine_->sources();
    const std::string name(sources.name(span.file));
    const std::string text = library_text(name);
    if (text.empty()) return {name, span.begin, span.end};
    const LineCol at = sources.line_col(span.file, span.begin);
    size_t begin = 0;
    for (uint32_t line = 1; line < at.line && begin < text.size(); ++line) begin = std::min(text.find('\n', begin), text.size() - 1) + 1;
    begin += at.column - 1;
    return {name, static_cast<uint32_t>(begin), static_cast<uint32_t>(begin + (span.end - span.begin))};
}

std::string Workspace::library_text(std::string_view name) const {
    if (name.starts_with("std."))
        for (const StdlibFile& file : stdlib_files())
            if (file.name == name.substr(4)) return std::string(file.text);
    return {};
}

std::string Workspace::diagnostics(Document& d, bool settle, const std::atomic<bool>* cancel) {
    const DiagSink found = settle ? settled(d, cancel) : check(d, cancel);
    Json out;
    out.begin('{').member("schema", 1).key("diagnostics").begin('[');
    const auto place = [&](Span span) {
        const Place at = place_of(d, span);
        if (at.file != d.path) out.member("file", at.file);
        out.member("begin", at.begin).member("end", at.end);
    };
    for (const Diagnostic& one : found.all()) {
        static constexpr const char* kLevels[] = {"error", "warning", "note"};
        out.begin('{').member("level", kLevels[static_cast<int>(one.severity)]).member("code", diag_row(one.id).code);
        out.member("message", one.message);
        place(one.span);
        if (one.span.valid() && one.span.file != d.tree->module->source->id)  // of an import: where this file asks for it
            for (const sema::Module::Import& import : d.tree->module->imports)
                if (import.item && !import.module)
                    out.key("import").begin('{').member("begin", import.item->span.begin).member("end", import.item->span.end).end('}');
        out.key("labels").begin('[');
        for (const Label& label : one.labels) {
            if (!label.span.valid()) continue;
            out.begin('{');
            place(label.span);
            out.member("text", label.text).end('}');
        }
        out.end(']').key("notes").begin('[');
        for (const DiagNote& note : one.notes) out.value(note.whole());
        const auto edits = [&](const std::vector<FixIt>& of) {
            out.begin('[');
            for (const FixIt& fix : of) {
                out.begin('{');
                place(fix.span);
                out.member("text", fix.text).member("applicability", to_string(fix.applicability)).end('}');
            }
            out.end(']');
        };
        out.end(']').key("fixes");
        edits(one.fixes);
        if (settle && !one.others.empty()) {
            out.key("others").begin('[');
            for (const Proposal& other : one.others) edits(other.edits);
            out.end(']');
        }
        out.end('}');
    }
    return out.end(']').end('}').take();
}

ModulePtr Workspace::module(const std::string& path, DiagSink& diags) {
    Document* d = find(path);
    if (!d) return nullptr;
    Engine::Loading state;
    state.stack.push_back(d->path);
    state.texts = [this](const std::string& file) -> std::optional<std::string> {
        const auto it = documents_.find(file);
        return it != documents_.end() && it->second.open ? std::optional(it->second.text) : std::nullopt;
    };
    return engine_->load_file(state, d->path, d->text, d->directory, diags);
}

Status Workspace::ask(const Question& q, const std::atomic<bool>* cancel, DiagSink& diags, std::string& json) {
    poll(cancel);
    if (q.verb == "text")
        if (const std::string text = library_text(q.path); !text.empty())
            return json = Json().begin('{').member("schema", 1).member("text", text).end('}').take() + "\n", Status::ok;
    Document* d = find(q.path);
    if (!d) return diags.report(Diag::api_usage, {}, {"the workspace has no file `" + printable(q.path) + "`"}), Status::usage;
    if (q.begin > d->text.size() || q.end > d->text.size())
        return diags.report(Diag::api_usage, {}, {"the position lies behind the text's " + std::to_string(d->text.size()) + " bytes"}), Status::usage;
    struct Row {
        std::string_view verb;
        std::string (*answer)(Workspace&, Document&, const Question&, const std::atomic<bool>*);
    };
    using W = Workspace;
    using D = Document;
    using Q = Question;
    using C = const std::atomic<bool>*;
    static constexpr Row kRows[] = {
        {"diagnostics", [](W& w, D& d, const Q& q, C c) { return w.diagnostics(d, q.text == "settled", c); }},
        {"hover", [](W& w, D& d, const Q& q, C c) { return w.hover(d, q.begin, c); }},
        {"complete", [](W& w, D& d, const Q& q, C c) { return w.complete(d, q.begin, c); }},
        {"signature", [](W& w, D& d, const Q& q, C c) { return w.signature(d, q.begin, c); }},
        {"definition", [](W& w, D& d, const Q& q, C c) { return w.definition(d, q.begin, c); }},
        {"references", [](W& w, D& d, const Q& q, C c) { return w.occurrences(d, q.begin, true, c); }},
        {"highlights", [](W& w, D& d, const Q& q, C c) { return w.occurrences(d, q.begin, false, c); }},
        {"rename", [](W& w, D& d, const Q& q, C c) { return w.rename(d, q.begin, q.text, c); }},
        {"calls", [](W& w, D& d, const Q& q, C c) { return w.calls(d, q.begin, c); }},
        {"hints", [](W& w, D& d, const Q& q, C c) { return w.hints(d, q.begin, q.end, c); }},
        {"symbols", [](W& w, D& d, const Q&, C c) { return w.symbols(d, c); }},
        {"folds", [](W& w, D& d, const Q&, C) { return w.folds(d); }},
        {"selections", [](W& w, D& d, const Q& q, C c) { return w.selections(d, q.begin, c); }},
        {"links", [](W& w, D& d, const Q&, C c) { return w.links(d, c); }},
        {"tokens", [](W& w, D& d, const Q&, C c) { return w.tokens(d, c); }},
        {"text", [](W&, D& d, const Q&, C) { return Json().begin('{').member("schema", 1).member("text", d.text).end('}').take(); }},
    };
    const auto row = std::ranges::find(kRows, q.verb, &Row::verb);
    if (row == std::end(kRows)) {
        std::string list;
        for (const Row& r : kRows) list += (list.empty() ? "" : ", ") + std::string(r.verb);
        return diags.report(Diag::api_usage, {}, {"the verb is none of " + list}), Status::usage;
    }
    json = row->answer(*this, *d, q, cancel) + "\n";
    return Status::ok;
}

}  // namespace tegula
