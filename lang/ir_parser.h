// The recursive-descent parser of IR text, shared by its two files: ir_parse.cpp (functions, lines, types) and ir_parse_gpu.cpp (what a GpuForm
// adds). Every method that reads gives false once an error has been reported.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lang/ir_lexer.h"
#include "lang/ir_literal.h"

namespace tegula::ir {

/// What one instruction line says, before it becomes an instruction.
struct Line {
    Op op{};
    Span span;
    std::vector<std::string_view> results;
    std::vector<ValueId> operands;
    std::vector<int64_t> attrs;
    std::vector<TypeId> types;
    std::vector<uint32_t> placements;  ///< of the results
    std::vector<std::string_view> codes;
};

class Parser {
public:
    Parser(std::string_view text, uint32_t file, TypeTable& types, DiagSink& diags)
        : file_(file), diags_(diags), lexer_(text), fn_(std::make_unique<Function>(types)) {}

    std::unique_ptr<Function> run() { return function() && expect_end() && gpu_finish() ? std::move(fn_) : nullptr; }

private:
    // tokens
    bool is(std::string_view text) const {
        const Token& t = lexer_.token();
        return (t.kind == Token::punct || t.kind == Token::word) && t.text == text;
    }
    bool take(std::string_view text) {
        if (!is(text)) return false;
        lexer_.advance();
        return true;
    }
    bool expect(std::string_view text) { return take(text) || fail_expected("`" + std::string(text) + "`"); }
    bool expect_end() { return lexer_.token().kind == Token::end || fail_expected("the end of the text"); }
    Span span() const { return {file_, lexer_.token().begin, lexer_.token().finish}; }
    std::string found() const {
        const Token& t = lexer_.token();
        return t.kind == Token::end ? "the end of the text" : "`" + printable(lexer_.rest().substr(0, t.finish - t.begin)) + "`";
    }
    bool fail_expected(const std::string& what) { return diags_.report(Diag::ir_syntax, span(), {what, found()}), false; }
    bool fail_unknown(const char* what, std::string_view name) {
        return diags_.report(Diag::ir_unknown_name, span(), {what, printable(name)}), false;
    }
    bool text_of(Token::Kind kind, const char* what, std::string_view& out) {
        if (lexer_.token().kind != kind) return fail_expected(what);
        out = lexer_.token().text;
        lexer_.advance();
        return true;
    }
    bool integer(int64_t& out);
    bool own_rows();
    bool quoted(std::string& out);

    // parts
    bool shape(Shape& out);
    bool element(FormatId& out, bool& pointer);
    bool type(TypeId& out);
    bool tensor_rest(Type& t);
    bool use(ValueId& out);
    bool use_list(std::vector<ValueId>& out);
    bool define(std::string_view name, ValueId value);
    bool hint_list(std::vector<Hint>& out);

    // structure
    bool function();
    bool parameter();
    bool block_body(BlockId block, int depth);
    bool line(BlockId block, int depth);
    bool operands(Line& l);
    bool access(Line& l);
    bool caching(Op op, Caching& out);
    bool axis(Line& l, size_t dimension, std::vector<int64_t>& axes);
    bool attributes(Line& l);
    bool attribute_value(Attr attr, int64_t& out);
    bool finish(Line& l, BlockId block, int depth);
    bool regions(std::vector<BlockId>& out, int depth);
    bool fill_codes(Line& l);

    // the GpuForm: `gpu {arch = .., p1 = ..}` in the header, `@ p1` behind a value's type, `@ {row = .., scratch = ..}` behind a line's types
    bool gpu_form();
    bool gpu_field(std::string_view name);
    bool gpu_layout();
    bool gpu_shared(SharedLayout& out);
    bool gpu_cluster();
    bool gpu_placement(TypeId type, uint32_t& out);
    bool gpu_range(const char* what, int64_t least, int64_t most, int64_t& out);
    bool gpu_inst_ahead() const;
    bool gpu_registers(const Shape& shape, TileLayout& out);
    bool gpu_inst(Op op, GpuInst& out, std::optional<GpuChannel>& channel);
    bool gpu_inst_field(Op op, std::string_view name, GpuInst& out, std::optional<GpuChannel>& channel);
    bool gpu_row(int& out);
    bool gpu_finish();
    void gpu_place(ValueId value, uint32_t placement);
    void gpu_record(InstId inst, const GpuInst& facts, const std::optional<GpuChannel>& channel);

    uint32_t file_;
    DiagSink& diags_;
    IrLexer lexer_;
    std::unique_ptr<Function> fn_;
    std::map<std::string_view, ValueId> values_;
};

}  // namespace tegula::ir
