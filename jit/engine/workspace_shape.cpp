// The shape of a document: symbols, stretches that fold, what encloses a place, links, tokens. See workspace.h.
#include <algorithm>

#include "jit/engine/tree_walk.h"
#include "jit/engine/workspace.h"
#include "jit/engine/workspace_json.h"
#include "parser/source_tokens.h"
#include "sema/vocabulary.h"

namespace tegula {

std::string Workspace::symbols(Document& d, const std::atomic<bool>* cancel) {
    const Tree& t = tree(d, cancel);
    Json out;
    out.begin('{').member("schema", 1).key("symbols").begin('[');
    const auto symbol = [&](std::string_view kind, std::string_view name, std::string_view detail, Span whole, Span at) {
        out.begin('{').member("kind", kind).member("name", name).member("detail", detail).member("begin", whole.begin).member("end", whole.end);
        out.member("name_begin", at.begin).member("name_end", at.end).key("children").begin('[');
    };
    for (const ItemPlace& place : t.items) {
        const ast::Item& item = *place.item;
        std::string detail = item_signature(item, engine_->sources());
        constexpr size_t kLongest = 200;
        if (detail.size() > kLongest || item.kind == ast::ItemKind::test || item.kind == ast::ItemKind::bench) detail.clear();
        symbol(item_kind_name(item.kind), item.name.text, detail, item.span, item.name.span);
        for (const ast::Field& field : fields_of(item)) {
            symbol("field", field.name.text, engine_->sources().text(field.type->span), join(field.name.span, field.type->span), field.name.span);
            out.end(']').end('}');
        }
        out.end(']').end('}');
    }
    return out.end(']').end('}').take();
}

/// Brackets over several lines, and runs of line comments: by tokens alone, so that broken text folds, too.
std::string Workspace::folds(Document& d) const {
    Json out;
    out.begin('{').member("schema", 1).key("folds").begin('[');
    const auto fold = [&](const char* kind, uint32_t begin, uint32_t end) {
        const std::string_view text = std::string_view(d.text).substr(begin, end - begin);
        if (text.find('\n') != text.npos) out.begin('{').member("kind", kind).member("begin", begin).member("end", end).end('}');
    };
    std::vector<uint32_t> open;
    const std::vector<SourceToken> tokens = source_tokens(d.text);
    for (size_t i = 0; i < tokens.size(); ++i) {
        const SourceToken& token = tokens[i];
        const char c = d.text[token.begin];
        if (token.kind == SourceToken::comment) {
            size_t last = i;
            const auto joined = [&](size_t next) {
                const std::string_view between = std::string_view(d.text).substr(tokens[next - 1].end, tokens[next].begin - tokens[next - 1].end);
                return tokens[next].kind == SourceToken::comment && std::ranges::count(between, '\n') <= 1;
            };
            while (last + 1 < tokens.size() && joined(last + 1)) ++last;
            fold("comment", token.begin, tokens[last].end);
            i = last;
        } else if (token.kind == SourceToken::bracket && (c == '{' || c == '(' || c == '[')) {
            open.push_back(token.begin);
        } else if (token.kind == SourceToken::bracket && (c == '}' || c == ')' || c == ']') && !open.empty()) {
            fold("region", open.back(), token.begin);
            open.pop_back();
        }
    }
    return out.end(']').end('}').take();
}

/// What encloses a place, from the inside out.
std::string Workspace::selections(Document& d, size_t at, const std::atomic<bool>* cancel) {
    const Tree& t = tree(d, cancel);
    std::vector<Span> around;
    const auto add = [&](Span span) {
        if (span.begin <= at && at <= span.end && span.begin < span.end) around.push_back(span);
    };
    const auto expression = [&](const ast::Expr& e) { each_expression(e, [&](const ast::Expr& inner) { add(inner.span); }); };
    add({0, 0, static_cast<uint32_t>(d.text.size())});
    if (const ItemPlace* place = t.at(static_cast<uint32_t>(at))) {
        add(place->item->span);
        add(place->item->name.span);
        for (const ast::Param& p : parameters_of(*place->item)) {
            if (p.type) add(join(p.name.span, p.type->span)), expression(*p.type);
            add(p.name.span);
        }
        if (const ast::Block* body = body_of(*place->item)) {
            add(body->span);
            each_statement(*body, [&](const ast::Stmt& s) {
                if (at < s.span.begin || s.span.end < at) return;
                add(s.span);
                expressions_of(s, expression);
                blocks_of(s, [&](const ast::Block& b) { add(b.span); });
            });
        }
    }
    add(word_at(d, at));
    std::ranges::sort(around, {}, [](Span s) { return std::pair(s.end - s.begin, s.begin); });
    Json out;
    out.begin('{').member("schema", 1).key("ranges").begin('[');
    Span last{};
    for (const Span span : around) {
        const bool within = last.end == 0 || (span.begin <= last.begin && last.end <= span.end && span.end - span.begin > last.end - last.begin);
        if (!within) continue;
        out.begin('{').member("begin", span.begin).member("end", span.end).end('}');
        last = span;
    }
    return out.end(']').end('}').take();
}

std::string Workspace::links(Document& d, const std::atomic<bool>* cancel) {
    const Tree& t = tree(d, cancel);
    Json out;
    out.begin('{').member("schema", 1).key("links").begin('[');
    for (const sema::Module::Import& import : t.module->imports) {
        if (!import.item || !import.module) continue;
        const auto file = d.imports.find(d.directory + "/" + std::string(import.item->path));
        std::string target = import.module->name;
        if (file != d.imports.end() && file->second && file->second->source)
            if (const auto path = d.paths.find(file->second->source->id); path != d.paths.end()) target = path->second;
        const std::string_view text = std::string_view(d.text).substr(import.item->span.begin, import.item->span.end - import.item->span.begin);
        const size_t at = text.find(import.item->path);
        if (at == text.npos) continue;
        const size_t begin = import.item->span.begin + at;
        out.begin('{').member("begin", begin).member("end", begin + import.item->path.size()).member("file", target).end('}');
    }
    return out.end(']').end('}').take();
}

/// The tokens with what their names stand for.
std::string Workspace::tokens(Document& d, const std::atomic<bool>* cancel) {
    const Tree& t = tree(d, cancel);
    static constexpr const char* kKinds[] = {"keyword", "number", "string", "comment", "operator", "bracket", "name", "attribute", "invalid"};
    static const auto words = [] {
        std::unordered_map<std::string_view, std::string_view> out;
        for (const sema::Word& w : sema::vocabulary())
            if (sema::is_builtin_function(w.kind) || w.kind == sema::NameKind::type || w.kind == sema::NameKind::constant ||
                w.kind == sema::NameKind::layout)
                out.emplace(w.name, sema::kind_text(w.kind));
        return out;
    }();
    // What is declared at a place, by its beginning.
    std::unordered_map<uint32_t, std::string_view> declared;
    for (const ItemPlace& place : t.items) {
        static constexpr std::string_view kItems[] = {"module", "constant", "type", "struct", "layout", "function", "kernel", "string", "string"};
        declared[place.item->name.span.begin] = kItems[static_cast<int>(place.item->kind)];
        for (const ast::Param& p : parameters_of(*place.item)) declared[p.name.span.begin] = "parameter";
        for (const ast::GenericParam& p : generics_of(*place.item)) declared[p.name.span.begin] = "generic";
        for (const ast::Field& f : fields_of(*place.item)) declared[f.name.span.begin] = "field";
    }
    std::unordered_map<uint32_t, const Use*> uses;
    for (const Use& use : t.uses) uses.emplace(use.at.begin, &use);
    const uint32_t file = t.module->source->id;
    const auto kind_of = [&](const SourceToken& token, bool called) -> std::string_view {
        const std::string_view text = std::string_view(d.text).substr(token.begin, token.end - token.begin);
        if (const auto use = uses.find(token.begin); use != uses.end()) {
            if (use->second->declared.file != file) return called ? "function" : "name";
            const auto known = declared.find(use->second->declared.begin);
            return known == declared.end() ? "variable" : known->second;
        }
        if (token.begin > 0 && d.text[token.begin - 1] == '.') return called ? "function" : "field";
        if (const auto word = words.find(text); word != words.end()) return word->second;
        return called ? "function" : "name";
    };
    Json out;
    out.begin('{').member("schema", 1).key("tokens").begin('[');
    const std::vector<SourceToken> tokens = source_tokens(d.text);
    for (size_t i = 0; i < tokens.size(); ++i) {
        const SourceToken& token = tokens[i];
        const bool called = i + 1 < tokens.size() && (d.text[tokens[i + 1].begin] == '(' ||
                                                      (d.text[tokens[i + 1].begin] == '<' && tokens[i + 1].kind == SourceToken::bracket));
        const std::string_view kind = token.kind == SourceToken::name ? kind_of(token, called) : kKinds[token.kind];
        out.begin('{').member("begin", token.begin).member("end", token.end).member("kind", kind);
        if (const auto use = uses.find(token.begin); use != uses.end() && use->second->declared == use->second->at) out.member("declares", true);
        out.end('}');
    }
    return out.end(']').end('}').take();
}

}  // namespace tegula
