// The entry points: source text -> AST, and the token listing.
#include "parser/parse.h"

#include "parser/builder.h"
#include "parser/grammar.h"

namespace tegula {

namespace {

/// Runs the parser over a file. What was parsed before a fatal error stays in the builder.
struct Parse {
    syntax::Scanner scanner;
    syntax::Builder builder;
    Parse(const SourceMap& sources, uint32_t file, Arena& arena, DiagSink& diags, syntax::Entry entry, bool expects_more = false)
        : scanner(sources, file, arena, diags), builder(scanner, arena, diags, entry) {
        if (expects_more) scanner.expect_more();
        if (!scanner.check_text()) return;
        syntax::Grammar(builder).parse();
    }
    const ast::Module* module(uint32_t file, Arena& arena) {
        const std::span<const ast::Item* const> items = arena.copy(builder.items);
        builder.merge_damage();
        const std::span<const Span> damage = arena.copy(builder.damaged);
        const std::span<const ast::Name> lost = arena.copy(builder.lost_names());
        return arena.make<ast::Module>(file, builder.edition_value, scanner.module_docs(), items, damage, lost);
    }
};

}  // namespace

const ast::Module* parse_module(const SourceMap& sources, uint32_t file, Arena& arena, DiagSink& diags) {
    return Parse(sources, file, arena, diags, syntax::Entry::module).module(file, arena);
}

Input parse_input(const SourceMap& sources, uint32_t file, Arena& arena, DiagSink& diags, bool expects_more) {
    const size_t before = diags.error_count();
    Parse parse(sources, file, arena, diags, syntax::Entry::input, expects_more);
    Input input{parse.module(file, arena), parse.builder.statements.stmts, parse.builder.expression};
    const bool ended_early = parse.scanner.ended_open() || parse.builder.failed_at_end;
    input.incomplete = ended_early && parse.scanner.errors_at_end() == before;
    input.open = parse.scanner.open_at_end();
    return input;
}

const ast::Expr* parse_expression(const SourceMap& sources, uint32_t file, Arena& arena, DiagSink& diags) {
    size_t before = diags.error_count();
    Parse parse(sources, file, arena, diags, syntax::Entry::expression);
    return diags.error_count() == before ? parse.builder.expression : nullptr;
}

std::vector<std::string_view> keywords() {
    using K = syntax::Grammar::symbol_kind;
    std::vector<std::string_view> out;
    for (int kind = K::S_IMPORT; kind < K::S_CONST_MOD; ++kind)
        out.emplace_back(syntax::Grammar::symbol_name(syntax::Grammar::symbol_kind_type(kind)));
    return out;
}

std::string dump_tokens(const SourceMap& sources, uint32_t file, DiagSink& diags) {
    using T = syntax::Grammar::token;
    Arena arena;
    syntax::Scanner scanner(sources, file, arena, diags);
    std::string out;
    if (!scanner.check_text()) return out;
    for (syntax::Token token = scanner.next(); token.kind != T::END; token = scanner.next()) {
        if (token.is_virtual) continue;
        std::string_view text = sources.text(token.span);
        bool is_word = !text.empty() && ((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z'));
        const char* kind = token.kind == T::IDENT                                            ? "name"
                           : token.kind == T::INT                                            ? "int"
                           : token.kind == T::FLOAT                                          ? "float"
                           : token.kind == T::STRING                                         ? "string"
                           : token.kind == T::GENERIC_OPEN || token.kind == T::GENERIC_CLOSE ? "generic"
                           : token.kind == T::SET_OPEN                                       ? "set"
                           : token.kind == T::ATTRIBUTE                                      ? "attribute"
                           : is_word                                                         ? "keyword"
                                                                                             : "symbol";
        LineCol at = sources.line_col(file, token.span.begin);
        out += std::to_string(at.line) + ":" + std::to_string(at.column) + " " + kind + " " + printable(text) + "\n";
    }
    return out;
}

}  // namespace tegula
