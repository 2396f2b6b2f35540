// cache(..) and evict(..) behind accesses (modifiers.h).
#include "sema/modifiers.h"

#include <algorithm>

#include "sema/checker.h"
#include "sema/walk.h"
#include "sema/words.h"

namespace tegula::sema {

namespace {

const ast::CallExpr* call_of(const ast::Expr& annotation) {
    return annotation.kind == ast::ExprKind::call ? &ast::as<ast::CallExpr>(&annotation) : nullptr;
}

std::string_view name_of(const ast::Expr& annotation) {
    const ast::CallExpr* call = call_of(annotation);
    return call ? base_name(*call->callee) : std::string_view();
}

/// Has a modifier one name for its argument?
bool named(const ast::Expr& modifier) {
    const ast::CallExpr& call = *call_of(modifier);
    return call.args.size() == 1 && call.args[0].name.text.empty() && call.args[0].value->kind == ast::ExprKind::name;
}

/// The number of a modifier's word, 0 where it is none.
size_t word_number(const ast::Expr& modifier) {
    if (!named(modifier)) return 0;
    const ast::CallExpr& call = *call_of(modifier);
    const auto words = find_word_kind(name_of(modifier))->words;
    const auto at = std::find(words.begin(), words.end(), base_name(*call.args[0].value));
    return at == words.end() ? 0 : static_cast<size_t>(at - words.begin()) + 1;
}

/// What word `number` of a modifier asks for.
void put(const WordKind& kind, size_t number, ir::Caching& out) {
    if (kind.of == WordKind::cache) out.cache = static_cast<ir::Cache>(number);
    if (kind.of == WordKind::evict) out.evict = static_cast<ir::Evict>(number);
}

const ast::AnnotatedExpr* modified(const ast::Expr& e) {
    if (e.kind != ast::ExprKind::annotated) return nullptr;
    const auto& a = ast::as<ast::AnnotatedExpr>(&e);
    return is_modifier(*a.layout) ? &a : nullptr;
}

/// Of all modifiers of `e`, the last one first.
std::vector<const ast::Expr*> modifiers_of(const ast::Expr& e) {
    std::vector<const ast::Expr*> out;
    for (const ast::AnnotatedExpr* a = modified(e); a; a = modified(*a->base)) out.push_back(a->layout);
    return out;
}

}  // namespace

bool is_modifier(const ast::Expr& annotation) {
    const WordKind* kind = find_word_kind(name_of(annotation));
    return kind && kind->of != WordKind::arguments;
}

const ast::Expr& without_modifiers(const ast::Expr& e) {
    const ast::Expr* at = &e;
    for (const ast::AnnotatedExpr* a = modified(*at); a; a = modified(*at)) at = a->base;
    return *at;
}

ir::Caching Elaborator::caching_of(const ast::Expr& e) {
    ir::Caching out;
    const std::vector<const ast::Expr*> all = modifiers_of(e);
    for (const ast::Expr* m : all) {
        const ast::CallExpr& call = *call_of(*m);
        if (call.args.size() != 1 || !call.args[0].name.text.empty()) continue;  // the checker has reported it
        const WordKind& kind = *find_word_kind(name_of(*m));
        const Value v = word(*call.args[0].value, kind);
        if (v.kind != Value::word) continue;
        const auto number = std::ranges::find(kind.words, v.s) - kind.words.begin() + 1;
        put(kind, static_cast<size_t>(number), out);
    }
    if (const std::string why = caching_conflict(out); !why.empty()) {
        error(Diag::bad_modifier, all[0]->span, to_string(out.cache) + "` and `" + to_string(out.evict), why);
        return {};
    }
    return out;
}

void check_modifiers(const ast::Expr& e, const std::function<bool(std::string_view)>& declared, DiagSink& diags) {
    const std::vector<const ast::Expr*> all = modifiers_of(e);
    bool good = true;
    for (size_t i = all.size(); i-- > 0;) {
        const std::string name(name_of(*all[i]));
        const auto same = [&](const ast::Expr* m) { return name_of(*m) == name; };
        const auto first = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end(), same);
        if (first != all.end()) {
            diags.report(Diag::bad_modifier, all[i]->span, {name, "it is given twice"}).labels.push_back({(*first)->span, "first given here"});
            good = false;
        } else if (named(*all[i]) && declared(base_name(*call_of(*all[i])->args[0].value))) {
            good = false;  // which word that is, only an instance knows
        } else if (word_number(*all[i]) == 0) {
            const auto words = find_word_kind(name)->words;
            std::string list;
            for (size_t w = 0; w < words.size(); ++w) list += (w == 0 ? "" : w + 1 < words.size() ? ", " : " or ") + std::string(words[w]);
            Diagnostic& d = diags.report(Diag::bad_modifier, all[i]->span, {name, "it takes " + list + ", found `" + source_text(*all[i]) + "`"});
            const auto& args = call_of(*all[i])->args;
            if (!args.empty()) suggest_spelling(d, base_name(*args[0].value), args[0].value->span, {words.begin(), words.end()});
            good = false;
        }
    }
    ir::Caching asked;
    for (const ast::Expr* m : all) put(*find_word_kind(name_of(*m)), word_number(*m), asked);
    if (const std::string why = caching_conflict(asked); good && !why.empty())
        diags.report(Diag::bad_modifier, all[0]->span, {to_string(asked.cache) + "` and `" + to_string(asked.evict), why});
}

}  // namespace tegula::sema
