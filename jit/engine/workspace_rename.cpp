// Renaming: edits of all files, tried before anybody sees them. See workspace.h.
#include <algorithm>

#include "jit/engine/tree_walk.h"
#include "jit/engine/workspace.h"
#include "jit/engine/workspace_json.h"
#include "parser/parse.h"
#include "parser/scanner.h"

namespace tegula {

/// Texts with a name replaced, for as long as it lives: whether every name in them stands for what it stood for.
class Workspace::Renaming {
public:
    using Uses = std::vector<std::pair<Place, Place>>;  ///< where a name is, and what it stands for

    Renaming(Workspace& workspace, const std::vector<Place>& places, const std::string& old, const std::string& name, const std::atomic<bool>* cancel)
        : workspace_(workspace), old_(old), name_(name), cancel_(cancel) {
        for (const Place& place : places) begins_[place.file].push_back(place.begin);
        for (auto& [file, begins] : begins_) std::ranges::sort(begins);
    }
    ~Renaming() {
        for (auto& [file, saved] : saved_) workspace_.documents_[file] = std::move(saved);
        ++workspace_.generation_;
    }
    Renaming(const Renaming&) = delete;

    /// What another thing would be meant by, or empty.
    std::string clash() {
        std::map<std::string, std::pair<Uses, size_t>> before;  // and the number of diagnostics
        for (const auto& [file, begins] : begins_) {
            Document* in = workspace_.find(file);
            if (!in) return file + " cannot be read";
            Uses uses = uses_in(*in);
            for (auto& [at, declared] : uses) at = moved(at), declared = moved(declared);
            before[file] = {std::move(uses), workspace_.check(*in, cancel_).all().size()};
        }
        for (const auto& [file, begins] : begins_) {
            Document& in = workspace_.documents_[file];
            saved_.emplace(file, in);
            for (size_t i = begins.size(); i-- > 0;) in.text.replace(begins[i], old_.size(), name_);
            in.open = true;
            in.version = ++workspace_.generation_;
        }
        for (const auto& [file, known] : before) {
            Document& in = workspace_.documents_[file];
            const Uses after = uses_in(in);
            const auto differ = std::ranges::mismatch(known.first, after);
            const bool same = differ.in1 == known.first.end() && differ.in2 == after.end();
            if (same && workspace_.check(in, cancel_).all().size() == known.second) continue;
            const uint32_t at = differ.in1 != known.first.end() ? differ.in1->first.begin : differ.in2 != after.end() ? differ.in2->first.begin : 0;
            const LineCol line = workspace_.engine_->sources().line_col(in.tree->module->source->id, at);
            return "`" + name_ + "` clashes: a name would mean another thing, or nothing, in line " + std::to_string(line.line) + " of " + file;
        }
        return {};
    }

private:
    Workspace& workspace_;
    const std::string &old_, &name_;
    const std::atomic<bool>* cancel_;
    std::map<std::string, std::vector<uint32_t>> begins_;
    std::map<std::string, Document> saved_;

    Uses uses_in(Document& in) const {
        Uses out;
        for (const Use& use : workspace_.uses_of(in, cancel_))
            out.emplace_back(Place{in.path, use.at.begin, use.at.end}, workspace_.place_of(in, use.declared));
        return out;
    }
    /// Where a place is in the changed text.
    Place moved(Place place) const {
        const auto it = begins_.find(place.file);
        if (it == begins_.end()) return place;
        const auto before = std::ranges::lower_bound(it->second, place.begin) - it->second.begin();
        const bool renamed = std::ranges::binary_search(it->second, place.begin);
        const auto shift = before * (static_cast<ptrdiff_t>(name_.size()) - static_cast<ptrdiff_t>(old_.size()));
        place.end = static_cast<uint32_t>(place.begin + shift + (renamed ? static_cast<ptrdiff_t>(name_.size()) : place.end - place.begin));
        place.begin = static_cast<uint32_t>(place.begin + shift);
        return place;
    }
};

/// Why what was found cannot have the name, whatever else there is; empty: nothing is known against it.
std::string Workspace::rename_problem(const Found& found, const Place& target, const std::string& name) const {
    const std::string& old = found.name;
    if (!library_text(target.file).empty()) return "`" + old + "` is declared in the library, in " + target.file;
    if (found.item && found.item->kind == ast::ItemKind::import) return "an import gets another name by `import .. as NAME;`";
    if (!documents_.contains(target.file)) return "`" + old + "` is declared in " + target.file + ", which is not in the workspace";
    if (name.empty()) return {};
    const bool letters = std::ranges::all_of(name, syntax::is_word_char) && !(name[0] >= '0' && name[0] <= '9') && name != "_";
    if (!letters) return "`" + printable(name) + "` is no name";
    for (const std::string_view keyword : keywords())
        if (keyword == name) return "`" + name + "` is a keyword";
    return {};
}

/// A member of that name of a value of which nobody knows what it is: it may be the field, or not. Empty: there is none.
std::string Workspace::unknown_member(std::string_view name, const std::atomic<bool>* cancel) {
    for (auto& [path, document] : documents_) {
        Document* in = document.text.find(name) == std::string::npos ? nullptr : find(path);
        if (!in) continue;
        const std::vector<Use> uses = uses_of(*in, cancel);
        const Tree& t = *in->tree;
        std::optional<Span> unknown;
        const auto look = [&](const ast::Expr& e) {
            if (e.kind != ast::ExprKind::member || ast::as<ast::MemberExpr>(&e).member.text != name) return;
            const Span at = ast::as<ast::MemberExpr>(&e).member.span;
            const auto use = std::ranges::lower_bound(uses, at.begin, {}, [](const Use& u) { return u.at.begin; });
            if (use == uses.end() || use->at != at) unknown = at;
        };
        for (const ItemPlace& place : t.items)
            if (const ast::Block* body = body_of(*place.item))
                each_statement(*body, [&](const ast::Stmt& s) { expressions_of(s, [&](const ast::Expr& e) { each_expression(e, look); }); });
        if (unknown)
            return "nobody knows whose `." + std::string(name) + "` stands in line " +
                   std::to_string(engine_->sources().line_col(unknown->file, unknown->begin).line) + " of " + path;
    }
    return {};
}

std::string Workspace::rename(Document& d, size_t at, const std::string& name, const std::atomic<bool>* cancel) {
    const auto refuse = [](const std::string& why) { return Json().begin('{').member("schema", 1).member("problem", why).end('}').take(); };
    const auto found = look_up(d, at, cancel);
    if (!found) return refuse("there is no name here");
    if (!found->declared) return refuse("`" + found->name + "` is no name of this program");
    const Place target = place_of(d, *found->declared);
    if (const std::string problem = rename_problem(*found, target, name); !problem.empty()) return refuse(problem);
    Json out;
    out.begin('{').member("schema", 1);
    if (name.empty()) return out.member("begin", found->at.begin).member("end", found->at.end).member("name", found->name).end('}').take();
    if (found->kind == sema::NameKind::field)
        if (const std::string problem = unknown_member(found->name, cancel); !problem.empty()) return refuse(problem);
    const std::vector<Place> places = references(d, target, found->name, true, cancel);
    if (const std::string problem = Renaming(*this, places, found->name, name, cancel).clash(); !problem.empty()) return refuse(problem);
    out.key("edits").begin('[');
    for (const Place& place : places)
        out.begin('{').member("file", place.file).member("begin", place.begin).member("end", place.end).member("text", name).end('}');
    return out.end(']').end('}').take();
}

}  // namespace tegula
