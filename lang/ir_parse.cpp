// The IR parser (ir_text.h): recursive descent over the tokens of ir_lexer.h, depth-limited. It stops at the first error of the text, makes
// whatever the text says without judging it, and lets the verifier judge the result before anyone sees it.
#include <algorithm>

#include "lang/format_name.h"
#include "lang/instruction.h"
#include "lang/ir_parser.h"
#include "lang/ir_text.h"
#include "lang/layout_text.h"

namespace tegula::ir {

namespace {

constexpr int kMaxBlockDepth = 200;
constexpr size_t kMaxText = size_t{16} << 20;

}  // namespace

bool Parser::integer(int64_t& out) {
    const Format& i64 = fn_->types().format(id_of(Fmt::i64));
    const auto code = lexer_.token().kind == Token::number ? parse_code(i64, false, lexer_.token().text) : std::nullopt;
    if (!code) return fail_expected("an integer");
    out = static_cast<int64_t>(*code);
    lexer_.advance();
    return true;
}

/// Any number of `instruction f16 f16 f32 "text"`: formats of the factors and the sum.
bool Parser::own_rows() {
    while (take("instruction")) {
        FormatId formats[3];
        bool pointer = false;
        std::string text, why;
        for (FormatId& f : formats)
            if (!element(f, pointer) || pointer) return fail_expected("a format");
        if (!quoted(text)) return false;
        const std::optional<Instruction> i = parse_instruction(text);
        std::optional<OwnRow> row = i ? own_row(*i, formats, fn_->types(), why) : std::nullopt;
        if (!row) return fail_unknown("instruction that multiplies", text);
        fn_->own_rows.push_back(std::move(*row));
    }
    return true;
}

bool Parser::quoted(std::string& out) {
    const auto text = lexer_.token().kind == Token::string ? unquote_text(lexer_.token().text) : std::nullopt;
    if (!text) return fail_expected("a quoted text");
    out = *text;
    lexer_.advance();
    return true;
}

bool Parser::shape(Shape& out) {
    if (!expect("[")) return false;
    if (take("]")) return true;
    do {
        int64_t extent = kDynamic;
        if (!take("?") && (!integer(extent) || extent < 0)) return fail_expected("an extent");
        if (out.rank == kMaxRank) return fail_expected("at most 8 extents");
        out.push(extent);
    } while (take(","));
    return expect("]");
}

/// A format name, or ptr<name>.
bool Parser::element(FormatId& out, bool& pointer) {
    pointer = take("ptr");
    if (pointer && !expect("<")) return false;
    std::string_view rest = lexer_.rest();
    const auto format = parse_format_name(rest, fn_->types());
    if (!format) return fail_unknown("number format", lexer_.token().text);
    out = *format;
    lexer_.resume(rest);
    return !pointer || expect(">");
}

/// Behind "tensor<..>[..]": layout and mode.
bool Parser::tensor_rest(Type& t) {
    if (take("@")) {
        std::string text;
        if (!quoted(text)) return false;
        const auto layout = parse_layout_text(text);
        if (!layout) return fail_unknown("layout", text);
        t.layout = fn_->types().intern(*layout);
    }
    if (take("in"))
        t.mode = Mode::in;
    else if (take("out"))
        t.mode = Mode::out;
    else if (take("inout"))
        t.mode = Mode::inout;
    else
        return fail_expected("`in`, `out` or `inout`");
    return true;
}

bool Parser::type(TypeId& out) {
    Type t;
    t.kind = Type::tile;
    const bool tensor = take("tensor"), channel = !tensor && take("channel");
    if (tensor || channel || take("tile")) {
        if (!expect("<") || !element(t.elem, t.pointer) || !expect(">") || !shape(t.shape)) return false;
        if (tensor || channel) t.kind = tensor ? Type::tensor : Type::channel;
        if (tensor && !tensor_rest(t)) return false;
    } else if (!element(t.elem, t.pointer)) {
        return false;
    }
    out = fn_->types().intern(t);
    return true;
}

bool Parser::use(ValueId& out) {
    if (lexer_.token().kind != Token::value) return fail_expected("a value");
    const auto it = values_.find(lexer_.token().text);
    if (it == values_.end()) return fail_unknown("value", lexer_.token().text);
    out = it->second;
    lexer_.advance();
    return true;
}

bool Parser::use_list(std::vector<ValueId>& out) {
    do {
        ValueId v;
        if (!use(v)) return false;
        out.push_back(v);
    } while (take(","));
    return true;
}

bool Parser::define(std::string_view name, ValueId value) {
    if (values_.emplace(name, value).second) return true;
    return diags_.report(Diag::ir_redefined, span(), {printable(name)}), false;
}

/// Any number of `@ name(1, 2)` and `@ name(key = 1)`.
bool Parser::hint_list(std::vector<Hint>& out) {
    while (is("@") && !gpu_inst_ahead() && take("@")) {
        Hint hint;
        std::string_view name;
        if (!text_of(Token::word, "a name", name) || !expect("(")) return false;
        hint.name = name;
        if (std::string_view key; lexer_.token().kind == Token::word) {
            if (!text_of(Token::word, "a name", key) || !expect("=")) return false;
            hint.key = key;
        }
        while (!is(")")) {
            int64_t arg = 0;
            if (!integer(arg)) return false;
            hint.args.push_back(arg);
            if (!hint.key.empty()) break;
            if (!is(")") && !expect(",")) return false;
        }
        if (!expect(")")) return false;
        out.push_back(std::move(hint));
    }
    return true;
}

bool Parser::function() {
    fn_->is_kernel = take("kernel");
    if (!fn_->is_kernel && !expect("function")) return false;
    std::string_view name;
    if (take("@")) {
        if (!quoted(fn_->name)) return false;
    } else if (text_of(Token::symbol, "@name", name)) {
        fn_->name = name;
    } else {
        return false;
    }
    fn_->body = fn_->add_block();
    if (!expect("(")) return false;
    while (!is(")"))
        if (!parameter() || (!is(")") && !expect(","))) return false;
    return expect(")") && hint_list(fn_->hints) && own_rows() && (!is("gpu") || gpu_form()) && expect("{") && block_body(fn_->body, 0) && expect("}");
}

bool Parser::parameter() {
    std::string_view name;
    if (!text_of(Token::value, "a parameter", name) || !expect(":")) return false;
    Param p;
    p.name = name;
    TypeId id = fn_->types().tile(Fmt::i64);
    if (take("extent")) {
        p.kind = Param::extent;
    } else {
        if (!type(id)) return false;
        const Type& t = fn_->types().type(id);
        p.kind = t.kind == Type::tensor ? Param::tensor : t.pointer ? Param::pointer : Param::scalar;
    }
    p.value = fn_->add_arg(fn_->body, id);
    fn_->params.push_back(p);
    return define(name, p.value);
}

bool Parser::block_body(BlockId block, int depth) {
    while (!is("}")) {
        if (lexer_.token().kind == Token::end) return fail_expected("an instruction or `}`");
        if (!line(block, depth)) return false;
    }
    return true;
}

bool Parser::line(BlockId block, int depth) {
    Line l;
    l.span = span();
    while (lexer_.token().kind == Token::value) {
        l.results.push_back(lexer_.token().text);
        lexer_.advance();
        if (!take(",") && !is("=")) return fail_expected("`,` or `=`");
    }
    if (!l.results.empty() && !expect("=")) return false;
    const Token op_token = lexer_.token();
    if (op_token.kind != Token::word) return fail_expected("an op");
    l.op = find_op(op_token.text);
    if (l.op == Op::count_) return fail_unknown("op", op_token.text);
    lexer_.advance();
    const Attrs& attrs = op_row(l.op).attrs;
    l.attrs.assign(attrs.count - attrs.repeats, 0);
    Caching asked;
    if (!operands(l) || !caching(l.op, asked) || !attributes(l)) return false;
    if (asked.any()) l.attrs[0] |= asked.flags();
    if (l.op == Op::for_loop || l.op == Op::while_loop) {
        std::vector<Hint> hints;
        if (!hint_list(hints)) return false;
        if (fn_->loop_hints.empty()) fn_->loop_hints.emplace_back();
        if (!hints.empty()) {
            l.attrs[0] = static_cast<int64_t>(fn_->loop_hints.size());
            fn_->loop_hints.push_back(std::move(hints));
        }
    }
    return finish(l, block, depth);
}

bool Parser::operands(Line& l) {
    if (l.op == Op::constant || l.op == Op::constant_tile) {
        const bool list = l.op == Op::constant_tile;
        if (list && !expect("[")) return false;
        do {
            const Token& t = lexer_.token();
            if (t.kind != Token::number && t.kind != Token::word) return fail_expected("a constant");
            l.codes.push_back(t.text);
            lexer_.advance();
        } while (list && take(","));
        return !list || expect("]");
    }
    if (is_indexed(l.op)) return access(l);
    if (has_text(l.op)) {
        std::string text;
        if (!quoted(text)) return false;
        l.attrs[0] = fn_->add_string(std::move(text));
        if (!take(",")) return true;
    }
    if (op_row(l.op).operands == 0) return true;  // a value that follows is the result of the next instruction
    return lexer_.token().kind != Token::value || use_list(l.operands);
}

bool Parser::axis(Line& l, size_t dimension, std::vector<int64_t>& axes) {
    Access::Axis a;
    if (take(":")) {
        const Shape& object = fn_->type(l.operands[0]).shape;
        a.kind = Access::all;
        a.extent = dimension < object.rank ? object[dimension] : 0;
    } else {
        a.kind = take("gather") ? Access::gather : Access::index;
        ValueId start;
        if (!use(start)) return false;
        l.operands.push_back(start);
        if (a.kind == Access::index && take("+:")) {
            a.kind = Access::range;
            if (!integer(a.extent) || (take("step") && !integer(a.step))) return false;
        }
    }
    a.in_bounds = take("!");
    for (int64_t v : {int64_t{a.kind}, a.extent, a.step, int64_t{a.in_bounds}}) axes.push_back(v);
    return true;
}

/// object[axes] [= value] [expected value] [else value] [mask value]; the axes end the attributes.
bool Parser::access(Line& l) {
    ValueId v;
    const auto tail = [&](bool present) {
        if (present && use(v))
            l.operands.push_back(v);
        else if (present)
            return false;
        return true;
    };
    if (!tail(true) || !expect("[")) return false;
    std::vector<int64_t> axes;
    while (!is("]"))
        if (!axis(l, axes.size() / 4, axes) || (!is("]") && !expect(","))) return false;
    if (!expect("]")) return false;
    if (access_has_value(l.op) && (!expect("=") || !tail(true))) return false;
    if (l.op == Op::atomic && !tail(take("expected"))) return false;
    const bool other = take("else");
    if (!tail(other)) return false;
    const bool mask = take("mask");
    if (!tail(mask)) return false;
    l.attrs[0] = other * int64_t{Access::has_other} | mask * int64_t{Access::has_mask};
    l.attrs.insert(l.attrs.end(), axes.begin(), axes.end());
    return true;
}

/// [cache word] [evict word] of an access.
bool Parser::caching(Op op, Caching& out) {
    const auto word = [&](const char* name, std::span<const std::string_view> words, auto& value) {
        if (!may_ask_caches(op) || !take(name)) return true;
        const auto at = std::find_if(words.begin(), words.end(), [&](std::string_view w) { return is(w); });
        if (at == words.end()) return fail_unknown(name, lexer_.token().text);
        lexer_.advance();
        value = static_cast<std::remove_reference_t<decltype(value)>>(at - words.begin() + 1);
        return true;
    };
    return word("cache", cache_words(), out.cache) && word("evict", evict_words(), out.evict);
}

bool Parser::attribute_value(Attr attr, int64_t& out) {
    if (lexer_.token().kind == Token::number) return integer(out);
    const std::span<const std::string_view> names = attr_value_names(attr);
    for (size_t i = 0; i < names.size(); ++i)
        if (take(names[i])) return out = static_cast<int64_t>(i), true;
    return fail_unknown("value of attribute", attr_name(attr));
}

bool Parser::attributes(Line& l) {
    const bool hinted = l.op == Op::for_loop || l.op == Op::while_loop;  // their one attribute is spelled as hints
    if (!is("{") || hinted || op_row(l.op).attrs.count == 0 || !take("{")) return true;
    const Attrs& row = op_row(l.op).attrs;
    do {
        std::string_view name;
        if (!text_of(Token::word, "an attribute", name)) return false;
        const auto found = std::ranges::find(row.list(), name, attr_name);
        const auto index = static_cast<size_t>(found - row.list().begin());
        if (index == row.count) return fail_unknown("attribute", name);
        if (!expect("=")) return false;
        const Attr attr = row.all[index];
        if (!row.repeats || index + 1 < row.count) {
            if (!attribute_value(attr, l.attrs[index])) return false;
            continue;
        }
        if (!expect("[")) return false;
        l.attrs.resize(index);
        do {
            int64_t v = 0;
            if (!attribute_value(attr, v)) return false;
            l.attrs.push_back(v);
        } while (take(","));
        if (!expect("]")) return false;
    } while (take(","));
    return expect("}");
}

/// Constants become codes once the result's type is known.
bool Parser::fill_codes(Line& l) {
    if (l.codes.empty()) return true;
    if (l.types.size() != 1) return fail_expected("one result type");
    const Type& t = fn_->types().type(l.types[0]);
    l.attrs.clear();
    for (std::string_view text : l.codes) {
        const auto code = parse_code(fn_->types().format(t.elem), t.pointer, text);
        if (!code) return diags_.report(Diag::ir_bad_literal, l.span, {printable(text), "a constant of " + fn_->types().name(l.types[0])}), false;
        l.attrs.push_back(static_cast<int64_t>(*code));
    }
    return true;
}

bool Parser::regions(std::vector<BlockId>& out, int depth) {
    if (!is("(") && !is("{")) return true;
    if (depth >= kMaxBlockDepth) return diags_.report(Diag::ir_too_deep, span(), {std::to_string(kMaxBlockDepth)}), false;
    for (;;) {
        const BlockId block = fn_->add_block();
        out.push_back(block);
        if (take("(")) {
            do {
                std::string_view name;
                TypeId id;
                if (!text_of(Token::value, "a block argument", name) || !expect(":") || !type(id)) return false;
                uint32_t placement = 0;
                if (!gpu_placement(id, placement)) return false;
                const ValueId arg = fn_->add_arg(block, id);
                if (!define(name, arg)) return false;
                gpu_place(arg, placement);
            } while (take(","));
            if (!expect(")")) return false;
        }
        if (!expect("{") || !block_body(block, depth + 1) || !expect("}")) return false;
        if (!is("(") && !is("{")) return true;
    }
}

bool Parser::finish(Line& l, BlockId block, int depth) {
    if (take(":")) {
        do {
            TypeId id;
            if (!type(id)) return false;
            l.types.push_back(id);
            l.placements.push_back(0);
            if (!gpu_placement(id, l.placements.back())) return false;
        } while (take(","));
    }
    if (l.types.size() != l.results.size()) return fail_expected("one type per result");
    GpuInst facts;
    std::optional<GpuChannel> channel;
    if (gpu_inst_ahead() && !gpu_inst(l.op, facts, channel)) return false;
    std::vector<BlockId> blocks;
    if (!fill_codes(l) || ((op_row(l.op).traits & REGIONS) && !regions(blocks, depth))) return false;
    const InstId inst = fn_->make(l.op, l.operands, l.types, l.attrs, l.span, blocks);
    fn_->append(block, inst);
    for (uint32_t n = 0; n < l.results.size(); ++n) {
        if (!define(l.results[n], fn_->result(inst, n))) return false;
        gpu_place(fn_->result(inst, n), l.placements[n]);
    }
    gpu_record(inst, facts, channel);
    return true;
}

std::unique_ptr<Function> parse_ir(const SourceMap& sources, uint32_t file, TypeTable& types, DiagSink& diags) {
    const std::string_view text = sources.text(file);
    if (text.size() > kMaxText) {
        diags.report(Diag::ir_syntax, {file, 0, 0}, {"at most 16 MiB of text", "more"});
        return nullptr;
    }
    auto fn = Parser(text, file, types, diags).run();
    if (!fn) return nullptr;
    const std::vector<std::string> problems = verify(*fn);
    for (const std::string& p : problems) diags.report(Diag::ir_invalid, {file, 0, 0}, {p});
    return problems.empty() ? std::move(fn) : nullptr;
}

}  // namespace tegula::ir
