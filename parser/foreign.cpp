// Constructs of other languages. The grammar takes those that it can tell apart, so that one error says what they are here and parsing goes on as if
// it stood there; the others are recognised by what stands around a syntax error. Words and sentences are in lang/foreign.def.
#include "lang/foreign.h"

#include <algorithm>

#include "parser/builder.h"
#include "parser/grammar.h"

namespace tegula::syntax {

using namespace tegula::ast;

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
    return text;
}

namespace {

/// An operand as an argument of an operator: in parentheses unless it is a name, number, call or access.
std::string operand_text(std::string_view text) {
    int depth = 0;
    for (const char c : text) {
        depth += c == '(' || c == '[';
        depth -= c == ')' || c == ']';
        if (depth == 0 && !is_word_char(c) && c != '.' && c != ')' && c != ']') return "(" + std::string(text) + ")";
    }
    return std::string(text);
}

}  // namespace

Diagnostic& Builder::foreign(std::string_view form, Span span) {
    return diags.report(Diag::foreign_form, span, {std::string(foreign_form(form).note)});
}

ExprPtr Builder::pointer_prefix(std::string_view form, Span op, ExprPtr operand, Span operand_span, Span span) {
    const bool literal = operand->kind == ExprKind::int_lit || operand->kind == ExprKind::float_lit;
    if (literal) {  // an operand is missing before it
        diags.report(Diag::syntax_error, op, {"an expression", "`" + std::string(text(op)) + "`"});
    } else if (form == "dereference") {
        foreign(form, op).propose({{span, "load(" + std::string(text(operand_span)) + ")"}});
    } else {
        foreign(form, op).propose({{op, ""}});
    }
    return operand;
}

ExprPtr Builder::power(ExprPtr base, Span base_span, Span op, Span exponent, Span span) {
    Diagnostic& d = foreign("power", op);
    const std::string x(text(base_span)), y(text(exponent));
    const bool simple = std::all_of(x.begin(), x.end(), is_word_char);
    if (y == "2" && simple) d.propose({{span, x + " * " + x}});
    d.propose({{span, "pow(" + x + ", " + y + ")"}});
    return base;
}

ExprPtr Builder::ternary(ExprPtr yes, Span condition, Span op, Span yes_span, Span no, Span span) {
    const ForeignUseText with{{}, {{"", std::string(text(condition))}, {"", std::string(text(yes_span))}, {"", std::string(text(no))}}};
    foreign("ternary", op).propose({{span, *rewritten(foreign_form("ternary"), with)}});
    return yes;
}

ExprPtr Builder::product(ExprPtr lhs, Span lhs_span, Span op, Span rhs, Span span) {
    const std::string_view left = text(lhs_span), right = text(rhs);
    if (left.starts_with("tensor<") || left.starts_with("tile<")) {
        Diagnostic& d = foreign("layout_brackets", rhs);
        const size_t open = right.find('[');
        if (open != right.npos)
            d.propose({{rhs, std::string(right.substr(0, open)) + "<" + std::string(right.substr(open + 1, right.size() - open - 2)) + ">"}});
        return lhs;
    }
    foreign("product", op).propose({{span, *rewritten(foreign_form("product"), {{}, {{"", std::string(left)}, {"", std::string(right)}}})}});
    return call(name("dot", op), append(list(Arg{Name{}, lhs}), Arg{Name{}, lhs}), span);
}

ExprPtr Builder::where_call(Args args, Span word, Span span) {
    foreign("where", word).propose({{word, "select"}});
    return call(name("select", word), args, span);
}

ExprPtr Builder::arrow_member(ExprPtr base, Span arrow, std::string_view member_name, Span member_span, Span span) {
    foreign("arrow_member", arrow).propose({{arrow, "."}});
    return member(base, member_name, member_span, span);
}

/// `start : end` as start and length. Where the end is written as the start plus something, that is the length.
IndexItem Builder::colon_slice(ExprPtr start, Span start_span, Span colon, ExprPtr end, Span end_span, Span span) {
    Diagnostic& d = foreign("slice", colon);
    const std::string first = start ? std::string(text(start_span)) : "0", last = end ? std::string(text(end_span)) : "";
    if (end) {
        std::string length = last;
        if (last.starts_with(first + " + ") || last.starts_with(first + "+"))
            length = trimmed(std::string_view(last).substr(last.find('+', first.size()) + 1));
        else if (first != "0")
            length = last + " - " + operand_text(first);
        d.propose({{span, first + " +: " + length}});
    } else {
        d.propose({{span, first + " +: ..", Applicability::placeholder}});
    }
    if (start && !end) return index_value(start);
    return {IndexItem::all, span, nullptr, nullptr, nullptr};
}

Exprs Builder::grid_in_parens(Exprs extents, Span open, Span close) {
    foreign("grid", join(open, close)).propose({{open, "["}, {close, "]"}});
    return extents;
}

namespace {

/// The format that a word of another language names, or the word.
std::string type_spelling(std::string_view word) {
    const auto rows = tegula::foreign(ForeignUse::type, word);
    return std::string(rows.empty() || rows.front()->rewrite.empty() ? word : rows.front()->rewrite);
}

}  // namespace

ExprPtr Builder::type_first(const Name& type, const Name& param, bool pointer) {
    const std::string spelled = pointer ? "ptr<" + type_spelling(type.text) + ">" : type_spelling(type.text);
    foreign("type_first", type.span).propose({{join(type.span, param.span), std::string(param.text) + ": " + spelled}});
    return name(arena.copy(std::string_view(type_spelling(type.text))), type.span);
}

ItemPtr Builder::const_type_first(const Name& type, const Name& constant, ExprPtr value, Span span) {
    Diagnostic& d = foreign("type_first", type.span);
    const Span both = join(type.span, constant.span);
    d.propose({{both, std::string(constant.text)}});
    d.propose({{both, std::string(constant.text) + ": " + type_spelling(type.text)}});
    return const_item(constant, nullptr, value, span);
}

StmtPtr Builder::declared_type_first(const Name& type, const Name& variable, ExprPtr init, Span span) {
    const auto words = tegula::foreign(ForeignUse::keyword, type.text);
    if (!words.empty() && (words.front()->rewrite == "let" || words.front()->rewrite == "var")) {
        const std::string word(words.front()->rewrite), other = word == "let" ? "var" : "let";
        Diagnostic& d = diags.report(Diag::foreign_keyword, type.span, {std::string(type.text), word});
        if (!words.front()->note.empty()) d.notes.push_back(std::string(words.front()->note));
        d.propose({{type.span, word}});
        d.propose({{type.span, other}});
    } else {
        Diagnostic& d = foreign("type_first", type.span);
        const Span declared = join(type.span, variable.span);
        const std::string spelled = type_spelling(type.text), with_type = " " + std::string(variable.text) + ": " + spelled;
        // What is assigned again later is a variable; the type is left out where the value does not have it.
        for (const char* word : {"let", "var"}) d.propose({{declared, word + with_type}});
        for (const char* word : {"let", "var"}) d.propose({{declared, std::string(word) + " " + std::string(variable.text)}});
    }
    return let(true, name_pattern(variable), nullptr, init, span);
}

StmtPtr Builder::walrus(ExprPtr target, Span op, ExprPtr value, Span span) {
    Diagnostic& d = foreign("walrus", op);
    if (target->kind != ExprKind::name) {
        d.propose({{op, "="}});
        return assign(AssignOp::set, target, value, span);
    }
    const Span here{span.file, span.begin, span.begin};
    for (const char* word : {"let ", "var "}) d.propose({{here, word}, {op, "="}});
    d.propose({{op, "="}});
    return let(true, name_pattern(Name{as<NameExpr>(target).name, target->span}), nullptr, value, span);
}

StmtPtr Builder::increment(ExprPtr target, Span target_span, Span op, Span span) {
    const std::string_view shown = text(target_span);
    foreign("increment", op).propose({{join(target_span, op), std::string(shown) + " += 1"}});
    return assign(AssignOp::add, target, int_lit(1, op), span);
}

/// The mistake is a foreign keyword: the unexpected word itself, or the one that was taken for a name just before it, on the same line.
bool Builder::report_foreign_keyword(const Token& found, bool after_two_names) {
    const std::string_view between = scanner.text().substr(previous.span.end, found.span.begin - previous.span.end);
    const bool same_line = between.find('\n') == between.npos;
    // Two names in a row are read as a type and a variable.
    for (const Token* token : {static_cast<const Token*>(&before_previous), static_cast<const Token*>(&previous), &found}) {
        if (token->kind != Grammar::token::IDENT || (token != &found && !same_line) || (token == &before_previous && !after_two_names)) continue;
        const auto rows = tegula::foreign(ForeignUse::keyword, token->text);
        if (rows.empty()) continue;
        const ForeignRow& row = *rows.front();
        if (row.rewrite.empty()) {
            Diagnostic& d = diags.report(Diag::foreign_form, token->span, {std::string(row.note)});
            if (token->text == "lambda") lambda(d, token->span);
            return true;
        }
        Diagnostic& d = diags.report(Diag::foreign_keyword, token->span, {std::string(token->text), std::string(row.rewrite)});
        if (!row.note.empty()) d.notes.push_back(std::string(row.note));
        const Token* before = token == &found ? &previous : token == &previous ? &before_previous : nullptr;
        const bool twice = before != nullptr && before->kind == Grammar::token::LET;  // `let mut x`
        d.propose({{twice ? join(before->span, token->span) : token->span, std::string(row.rewrite)}});
        return true;
    }
    if (!after_two_names || previous.kind != Grammar::token::IDENT || found.kind != Grammar::token::SEMI) return false;
    foreign("type_first", before_previous.span);
    return true;
}

/// `lambda x, y: ..` with the parameters between bars.
void Builder::lambda(Diagnostic& d, Span word) const {
    const std::string_view rest = scanner.text().substr(word.end);
    const size_t colon = std::min(rest.find(':'), rest.size());
    const std::string_view names = trimmed(rest.substr(0, colon));
    const bool plain = std::all_of(names.begin(), names.end(), [](char c) { return is_word_char(c) || c == ',' || c == ' '; });
    if (colon < rest.size() && plain && !names.empty())
        d.propose({{{word.file, word.begin, word.end + static_cast<uint32_t>(colon) + 1}, "|" + std::string(names) + "|"}});
}

namespace {

/// f"x = {x}" as text and values; nullopt where the braces hold more than expressions.
std::optional<std::string> plain_string(std::string_view literal) {
    std::string out, values;
    for (size_t at = 0; at < literal.size(); ++at) {
        out += literal[at];
        if (literal[at] != '{') continue;
        const size_t end = literal.find('}', at);
        if (end == literal.npos) return std::nullopt;
        std::string_view value = literal.substr(at + 1, end - at - 1);
        value = trimmed(value.substr(0, value.find(':')));
        if (value.empty() || value.find('{') != value.npos) return std::nullopt;
        (values += ", ") += value;
        out += '}';
        at = end;
    }
    return out + values;
}

/// Does the text end in `word`, as a word of its own?
bool ends_in_word(std::string_view text, std::string_view word) {
    text = trimmed(text);
    return text.ends_with(word) && (text.size() == word.size() || !is_word_char(text[text.size() - word.size() - 1]));
}

}  // namespace

/// A construct that only what stands around a syntax error tells.
bool Builder::report_foreign_form(const Token& found, bool item_expected, bool expression_expected) {
    using T = Grammar::token;
    const std::string_view all = scanner.text();
    const size_t line_begin = previous.span.end == 0 ? 0 : all.rfind('\n', previous.span.end - 1) + 1;
    const std::string_view before = all.substr(line_begin, previous.span.end - line_begin);
    const std::string_view rest = all.substr(found.span.begin, all.find('\n', found.span.begin) - found.span.begin);
    const bool same_line = all.substr(previous.span.end, found.span.begin - previous.span.end).find('\n') == all.npos;
    if (item_expected && (found.kind == T::AT || found.kind == T::ATTRIBUTE)) {
        uint32_t end = static_cast<uint32_t>(std::min(all.find('\n', found.span.begin) + 1, all.size()));
        if (end == 0) end = static_cast<uint32_t>(all.size());
        foreign("decorator", found.span).propose({{{found.span.file, found.span.begin, end}, ""}});
        return true;
    }
    if (found.kind == T::STRING && previous.kind == T::IDENT && previous.text == "f" && previous.span.end == found.span.begin) {
        Diagnostic& d = foreign("f_string", join(previous.span, found.span));
        if (const auto plain = plain_string(text(found.span))) d.propose({{join(previous.span, found.span), *plain}});
        return true;
    }
    if (found.kind == T::COLON && same_line) {
        const std::string_view word = trimmed(before).substr(0, trimmed(before).find_first_of(" ("));
        const bool header = (word == "kernel" || word == "fn") && trimmed(rest) == ":";
        if (header || word == "if" || word == "for" || word == "while" || word == "else" || ends_in_word(before, "else")) {
            foreign("block", found.span);
            return true;
        }
    }
    if (same_line && (before.find("for (") != before.npos || before.find("for(") != before.npos) && found.kind != T::IN) {
        foreign("three_part_for", join(previous.span, found.span));
        return true;
    }
    if (found.kind == T::SEMI && previous.kind == T::MINUS && before.ends_with("--")) {
        const std::string_view name = trimmed(before.substr(0, before.size() - 2));
        const Span op{found.span.file, previous.span.end - 2, previous.span.end};
        const Span whole{found.span.file, static_cast<uint32_t>(line_begin + (name.data() - before.data())), previous.span.end};
        foreign("decrement", op).propose({{whole, std::string(name) + " -= 1"}});
        return true;
    }
    if (found.kind == T::COMMA && trimmed(before).starts_with("return ")) {
        const size_t semicolon = rest.find(';');
        const Span values{found.span.file, static_cast<uint32_t>(line_begin + before.find("return ") + 7),
                          found.span.begin + static_cast<uint32_t>(semicolon)};
        Diagnostic& d = foreign("tuple", found.span);
        if (semicolon != rest.npos) d.propose({{values, "(" + std::string(text(values)) + ")"}});
        return true;
    }
    if (previous.kind == T::RPAREN && before_previous.kind == T::IDENT && same_line &&
        !tegula::foreign(ForeignUse::type, before_previous.text).empty()) {
        foreign("c_cast", join(before_previous.span, previous.span));
        return true;
    }
    if (same_line && found.kind == T::IF && !expression_expected && report_if_else(before, rest)) return true;
    if (report_foreign_item(found, before, rest, item_expected)) return true;
    return same_line && (report_foreign_operator(found, rest) || report_foreign_expression(found, before, rest, expression_expected) ||
                         report_foreign_statement(found, before, rest));
}

/// `a if c else b` on one line. Where the expression begins is read off the text: behind the last `=`, bracket, comma or `return`.
bool Builder::report_if_else(std::string_view before, std::string_view rest) {
    const size_t other = rest.find(" else ");
    if (other == rest.npos || rest.substr(0, other).find('{') != rest.npos) return false;
    size_t start = before.size();
    for (int depth = 0; start > 0; --start) {
        const char c = before[start - 1];
        depth += c == ')' || c == ']';
        if (depth == 0 && (c == '(' || c == '[' || c == '=' || c == ',')) break;
        depth -= c == '(' || c == '[';
    }
    std::string_view value = trimmed(before.substr(start));
    if (value.starts_with("return ")) value = trimmed(value.substr(7));
    std::string_view no = rest.substr(other + 6);
    size_t end = 0;
    for (int depth = 0; end < no.size(); ++end) {
        const char c = no[end];
        if (depth == 0 && (c == ';' || c == ',' || c == ')' || c == ']')) break;
        depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    }
    no = trimmed(no.substr(0, end));
    const std::string_view condition = trimmed(rest.substr(3, other - 3));
    const std::string_view all = scanner.text();
    const auto at = [&](std::string_view part) { return static_cast<uint32_t>(part.data() - all.data()); };
    const uint32_t word = at(rest);
    if (value.empty() || no.empty()) return false;
    const ForeignUseText with{{}, {{"", std::string(value)}, {"", std::string(condition)}, {"", std::string(no)}}};
    foreign("if_else", {scanner.file(), word, word + 2})
        .propose({{{scanner.file(), at(value), at(no) + static_cast<uint32_t>(no.size())}, *rewritten(foreign_form("if_else"), with)}});
    return true;
}

}  // namespace tegula::syntax
