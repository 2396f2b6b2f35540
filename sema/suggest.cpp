// Suggestions for names (suggest.h). Changes are made of the text of the file, which the module knows; whether they are right is found out by who
// offers them, by checking the changed text.
#include "sema/suggest.h"

#include <algorithm>
#include <string>

#include "lang/foreign.h"
#include "lang/print_text.h"
#include "sema/elaborate.h"
#include "sema/walk.h"

namespace tegula::sema {

namespace {

/// A name, or a path of names with points between them, and how it is used.
struct Used {
    std::string_view word;                ///< "exp", "tl.exp"
    Span span;                            ///< of the word
    const ast::CallExpr* call = nullptr;  ///< whose callee is the word
};

class Suggester {
public:
    Suggester(Diagnostic& d, const Module* module) : d_(d), module_(module) {}

    /// The text of an expression as the file has it.
    std::string text(const ast::Expr& e) const {
        if (module_ && module_->ast && module_->ast->file == e.span.file && e.span.end <= module_->text.size())
            return std::string(module_->text.substr(e.span.begin, e.span.end - e.span.begin));
        return source_text(e);
    }
    ForeignUseText use_text(std::string self, const ast::CallExpr* call) const {
        ForeignUseText out{std::move(self)};
        if (call)
            for (const ast::Arg& a : call->args) out.arguments.emplace_back(std::string(a.name.text), text(*a.value));
        return out;
    }
    /// Offers the rewrites of `rows` for `whole`, and says what they say. False: there are no rows.
    bool offer(const std::vector<const ForeignRow*>& rows, std::string_view shown, Span whole, const ForeignUseText& with) {
        for (const ForeignRow* row : rows) {
            if (!row->note.empty()) note(std::string(row->note));
            const auto change = rewritten(*row, with);
            if (!change) continue;
            if (row->note.empty() && d_.fixes.empty()) note("`" + std::string(shown) + "` is `" + *change + "` here");
            d_.propose({{whole, *change}});
        }
        return !rows.empty();
    }
    /// `word` of another language, spelled differently here. False: unknown.
    bool foreign_word(const Used& use, std::string_view shown) {
        const Span whole = use.call ? use.call->span : use.span;
        if (use.call) {
            const auto rows = foreign(ForeignUse::call, use.word);
            if (offer(rows, std::string(shown) + "(..)", whole, use_text({}, use.call))) return true;
        }
        const auto types = foreign(ForeignUse::type, use.word);
        if (use.call && use.call->args.size() == 1 && !types.empty() && !types.front()->rewrite.empty()) {
            note("values are converted by `cast<" + std::string(types.front()->rewrite) + ">(x)`");
            d_.propose({{whole, "cast<" + std::string(types.front()->rewrite) + ">(" + text(*use.call->args[0].value) + ")"}});
            return true;
        }
        if (!types.empty()) return offer(types, shown, use.span, {});
        const auto values = foreign(ForeignUse::value, use.word);
        if (!values.empty()) return offer(values, shown, use.span, {});
        // A function where no call is, and rows whose arguments are others: at least the word is known.
        const auto calls = foreign(ForeignUse::call, use.word);
        return !use.call && offer(calls, shown, use.span, {});
    }
    /// An item of a library module that the file does not import.
    bool in_library(std::string_view word, Span span, std::string_view guess = {}) {
        if (!module_) return false;
        bool found = false;
        for (const LibraryModule& m : module_->library) {
            if (word.starts_with('_') || !std::ranges::binary_search(m.names, word)) continue;
            found = true;
            const std::string path = "std." + std::string(m.name);
            if (guess.empty()) note("`" + std::string(word) + "` is in " + path);
            const std::string said = guess.empty() ? "" : std::string(guess) + std::string(word) + "` of " + path + "?";
            const auto import = std::ranges::find_if(module_->imports, [&](const auto& i) { return i.module && i.module->name == path; });
            if (import != module_->imports.end()) {
                d_.propose({{span, std::string(import->alias) + "." + std::string(word)}}, said);
            } else if (const auto at = import_place()) {
                d_.propose({{{span.file, *at, *at}, import_line(m.name)}, {span, std::string(m.name) + "." + std::string(word)}}, said);
            }
        }
        return found;
    }
    /// `t.relu()` for a function of a library module.
    bool library_method(std::string_view word, const ast::CallExpr& call, const ForeignUseText& with) {
        if (!module_ || word.starts_with('_')) return false;
        bool found = false;
        for (const LibraryModule& m : module_->library) {
            if (!std::ranges::binary_search(m.names, word)) continue;
            found = true;
            const std::string path = "std." + std::string(m.name), arguments = call.args.empty() ? "({self})" : "({self}, {*})";
            note("there are no methods, and `" + std::string(word) + "` is in " + path);
            const auto import = std::ranges::find_if(module_->imports, [&](const auto& i) { return i.module && i.module->name == path; });
            const bool imported = import != module_->imports.end();
            const std::string pattern = std::string(imported ? import->alias : m.name) + "." + std::string(word) + arguments;
            const auto change = rewritten({ForeignUse::method, word, pattern, {}}, with);
            const auto at = imported ? std::nullopt : import_place();
            if (change && imported) d_.propose({{call.span, *change}});
            if (change && at) d_.propose({{{call.span.file, *at, *at}, import_line(m.name)}, {call.span, *change}});
        }
        return found;
    }
    /// Known names and items of the library that the name may be a misspelling of.
    void misspelt(std::string_view name, Span span, const std::vector<std::string_view>& known) {
        std::vector<std::string_view> all = known;
        if (module_)
            for (const LibraryModule& m : module_->library)
                for (const std::string_view n : m.names)
                    if (!n.starts_with('_')) all.push_back(n);
        for (const std::string_view near : similar(name, all)) {
            if (std::find(known.begin(), known.end(), near) != known.end())
                d_.propose({{span, std::string(near)}}, "did you mean `" + std::string(near) + "`?");
            else
                in_library(near, span, "did you mean `");
        }
    }
    /// `nn.relu` without the import of std.nn.
    bool unimported(std::string_view alias) {
        if (!module_ || std::ranges::find(module_->library, alias, &LibraryModule::name) == module_->library.end()) return false;
        note("std." + std::string(alias) + " is not imported");
        if (const auto at = import_place()) d_.propose({{{d_.span.file, *at, *at}, import_line(alias)}});
        return true;
    }
    void note(std::string text) {
        if (std::find(d_.notes.begin(), d_.notes.end(), text) == d_.notes.end()) d_.notes.push_back(std::move(text));
    }

private:
    Diagnostic& d_;
    const Module* module_;

    static std::string import_line(std::string_view module) { return "import std." + std::string(module) + " as " + std::string(module) + ";\n"; }
    /// Where a line with an import goes: before the other imports, or before the first item and what documents it.
    std::optional<uint32_t> import_place() const {
        if (!module_->ast || module_->ast->file != d_.span.file || module_->text.empty()) return std::nullopt;
        std::optional<uint32_t> own;  // the text may have no item, where others bring them
        for (const ast::Item* item : module_->ast->items)
            if (item->span.file == module_->ast->file) own = std::min(own.value_or(item->span.begin), item->span.begin);
        const uint32_t first = own.value_or(0);
        const auto line_start = [&](size_t at) { return at == 0 ? 0 : module_->text.rfind('\n', at - 1) + 1; };
        size_t at = line_start(first);
        while (at > 0 && module_->text.substr(line_start(at - 1)).starts_with("///")) at = line_start(at - 1);
        return static_cast<uint32_t>(at);
    }
};

}  // namespace

bool is_function(const Module* module, std::string_view name) {
    if (find_builtin(name)) return true;
    if (ir::find_function(name) != ir::Op::count_) return true;
    return module && std::ranges::any_of(module->prelude, [&](const auto& p) { return p->has(name); });
}

void suggest_name(Diagnostic& d, const Module* module, std::string_view name, Span span, std::span<const ast::Expr* const> around,
                  const std::vector<std::string_view>& known) {
    Suggester suggest(d, module);
    // The path that begins with the name, and the call of it.
    Used use{name, span};
    std::string path(name);
    std::string_view last;
    for (size_t i = around.size(); i-- > 0;) {
        if (around[i]->span.begin != span.begin || around[i]->span.file != span.file) break;
        if (around[i]->kind == ast::ExprKind::member && !use.call) {
            const auto& m = ast::as<ast::MemberExpr>(around[i]);
            if (m.base->span.end != use.span.end) continue;
            last = m.member.text;
            (path += '.') += last;
            use.span = m.span;
        } else if (around[i]->kind == ast::ExprKind::call && ast::as<ast::CallExpr>(around[i]).callee->span == use.span) {
            use.call = &ast::as<ast::CallExpr>(around[i]);
            break;
        } else {
            break;
        }
    }
    if (!last.empty()) {
        Used whole = use;
        whole.word = path;
        if (suggest.offer(foreign(ForeignUse::value, path), path, use.span, {})) return;
        if (const auto modules = foreign(ForeignUse::module, name); !modules.empty()) {
            whole.word = last;
            if (suggest.foreign_word(whole, path) && !(d.notes.empty() && d.fixes.empty())) return;
            suggest.note(std::string(modules.front()->note));
            if (std::find(known.begin(), known.end(), last) != known.end()) return d.propose({{use.span, std::string(last)}});
            if (suggest.in_library(last, use.span)) return;
            return suggest.misspelt(last, use.span, known);
        }
        if (suggest.offer(foreign(ForeignUse::value, name), name, span, {})) return;
        if (suggest.unimported(name)) return;
        return suggest_spelling(d, name, span, known);
    }
    if (suggest.foreign_word(use, name)) return;
    if (suggest.in_library(name, span)) return;
    suggest.misspelt(name, span, known);
}

bool suggest_member(Diagnostic& d, const Module* module, const ast::MemberExpr& member, std::span<const ast::Expr* const> around) {
    Suggester suggest(d, module);
    const std::string_view word = member.member.text;
    const ast::Expr* outer = around.empty() ? nullptr : around.back();
    if (outer == &member) outer = around.size() < 2 ? nullptr : around[around.size() - 2];
    const std::string self = suggest.text(*member.base), shown = "x." + std::string(word);
    if (outer && outer->kind == ast::ExprKind::call && ast::as<ast::CallExpr>(outer).callee == &member) {
        const auto& call = ast::as<ast::CallExpr>(outer);
        const ForeignUseText with = suggest.use_text(self, &call);
        if (suggest.offer(foreign(ForeignUse::method, word), shown + "(..)", call.span, with)) return true;
        if (!is_function(module, word)) return suggest.library_method(word, call, with);
        const std::string pattern = std::string(word) + (call.args.empty() ? "({self})" : "({self}, {*})");
        suggest.note("there are no methods: `" + shown + "(..)` is `" + std::string(word) + "(x, ..)`");
        d.propose({{call.span, *rewritten({ForeignUse::method, word, pattern, {}}, with)}});
        return true;
    }
    if (outer && outer->kind == ast::ExprKind::index && ast::as<ast::IndexExpr>(outer).base == &member) {
        ForeignUseText with{self};
        for (const ast::IndexItem& item : ast::as<ast::IndexExpr>(outer).items)
            if (item.kind == ast::IndexItem::value) with.arguments.emplace_back("", suggest.text(*item.start));
        if (suggest.offer(foreign(ForeignUse::part, word), shown + "[..]", outer->span, with)) return true;
    }
    return suggest.offer(foreign(ForeignUse::member, word), shown, member.span, {self});
}

void suggest_type(Diagnostic& d, std::string_view word, Span at) { Suggester(d, nullptr).foreign_word({word, at}, word); }

void suggest_product(Diagnostic& d, const Module* module, const ast::AnnotatedExpr& e) {
    Suggester suggest(d, module);
    const ForeignRow& row = foreign_form("product");
    suggest.note(std::string(row.note));
    d.propose({{e.span, *rewritten(row, {{}, {{"", suggest.text(*e.base)}, {"", suggest.text(*e.layout)}}})}});
}

namespace {

/// What stands in a hole for what Python or Rust has there: ":.3f" is `:.3`, ":08x" is `:x`, a name or number nothing.
std::string hole_spec(std::string_view written) {
    const size_t colon = written.find(':');
    if (colon == written.npos) return {};
    const std::string_view spec = written.substr(colon + 1);
    if (const size_t point = spec.find('.'); point != spec.npos) {
        const size_t end = std::min(spec.find_first_not_of("0123456789", point + 1), spec.size());
        const std::string digits(spec.substr(point, end - point));
        if (hole_at("{:" + digits + "}", 0)) return ":" + digits;
    }
    const char last = spec.empty() ? ' ' : static_cast<char>(spec.back() | 32);
    return last == 'x' ? ":x" : last == 'b' ? ":b" : "";
}

}  // namespace

void suggest_format_text(Diagnostic& d, const Module* module, Span literal) {
    if (!module || !module->ast || module->ast->file != literal.file || literal.end > module->text.size()) return;
    std::string plain;
    const std::string_view old = module->text.substr(literal.begin, literal.end - literal.begin);
    for (size_t at = 0; at < old.size(); ++at) {
        plain += old[at];
        if (old[at] != '{') continue;
        const size_t end = old.find_first_of("{}", at + 1);
        if (end == old.npos) return;
        if (old[end] == '}') plain += hole_spec(old.substr(at + 1, end - at - 1));
        plain += old[end];
        at = end;
    }
    if (plain == old) return;
    d.notes.push_back(std::string(foreign_form("format").note));
    d.propose({{literal, plain}});
}

bool suggest_use(Diagnostic& d, const Module* module, const ast::Expr& use) {
    Suggester suggest(d, module);
    if (use.kind == ast::ExprKind::call) {
        const auto& call = ast::as<ast::CallExpr>(&use);
        if (call.callee->kind != ast::ExprKind::name) return false;
        return suggest.foreign_word({ast::as<ast::NameExpr>(call.callee).name, call.callee->span, &call}, ast::as<ast::NameExpr>(call.callee).name);
    }
    if (use.kind != ast::ExprKind::name) return false;
    return suggest.foreign_word({ast::as<ast::NameExpr>(&use).name, use.span}, ast::as<ast::NameExpr>(&use).name);
}

}  // namespace tegula::sema
