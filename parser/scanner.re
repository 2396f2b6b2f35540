// The token rules (re2c). Everything with a memory (brackets, docs, literals) is in scanner_state.cpp; a rule here is one call.
// `text_` is checked UTF-8 and NUL-terminated. Built into generated/parser/scanner.cpp.
#include "lang/cancel.h"
#include "parser/grammar.h"
#include "parser/scanner.h"

namespace tegula::syntax {

using T = Grammar::token;

Token Scanner::scan() {
    const unsigned char *marker = cursor_, *context = cursor_, *start = cursor_;
    for (;;) {
        poll();
        start = cursor_;
        /*!re2c
        re2c:define:YYCTYPE = "unsigned char";
        re2c:define:YYCURSOR = cursor_;
        re2c:define:YYLIMIT = limit_;
        re2c:define:YYMARKER = marker;
        re2c:define:YYCTXMARKER = context;
        re2c:yyfill:enable = 0;
        re2c:eof = 0;

        word    = [A-Za-z0-9_];
        digits  = [0-9] [0-9_]*;
        exp     = [eE] [+-]? digits;
        hex     = [0-9a-fA-F] [0-9a-fA-F_]*;

        $               { return make(T::END, start); }
        [ \t\r\n]+      { continue; }
        "//" [^\n]*     { comment(start, true); continue; }
        "/*"            { block_comment(start); continue; }
        "#" [^\n]*      { foreign_comment(start); continue; }

        "import"   { return make(T::IMPORT, start); }
        "as"       { return word(T::AS, start); }
        "const"    { return make(const_kind(), start); }
        "type"     { return word(T::TYPE, start); }
        "struct"   { return make(T::STRUCT, start); }
        "layout"   { return word(T::LAYOUT, start); }
        "fn"       { return make(T::FN, start); }
        "kernel"   { return make(T::KERNEL, start); }
        "test"     { return word(T::TEST, start); }
        "bench"    { return word(T::BENCH, start); }
        "let"      { return make(T::LET, start); }
        "var"      { return make(T::VAR, start); }
        "if"       { return make(T::IF, start); }
        "else"     { return make(T::ELSE, start); }
        "for"      { return make(T::FOR, start); }
        "in"       { return word(T::IN, start); }
        "while"    { return make(T::WHILE, start); }
        "break"    { return make(T::BREAK, start); }
        "continue" { return make(T::CONTINUE, start); }
        "return"   { return make(T::RETURN, start); }
        "step"     { return word(T::STEP, start); }
        "grid"     { return word(T::GRID, start); }
        "where"    { return make(T::WHERE, start); }
        "tune"     { return word(T::TUNE, start); }
        "dispatch" { return word(T::DISPATCH, start); }
        "schedule" { return word(T::SCHEDULE, start); }
        "true"     { return make(T::TRUE, start); }
        "false"    { return make(T::FALSE, start); }
        "none"     { return make(T::NONE, start); }
        "out"      { return word(T::OUT, start); }
        "inout"    { return word(T::INOUT, start); }
        "edition"  { return word(T::EDITION, start); }
        [A-Za-z_] word* { return make(T::IDENT, start); }

        digits                              { return integer(start, 10); }
        "0x" hex                            { return integer(start, 16); }
        "0b" [01] [01_]*                    { return integer(start, 2); }
        "0o" [0-7] [0-7_]*                  { return integer(start, 8); }
        digits "." digits exp? | digits exp { return decimal_float(start); }
        "0x" hex ("." hex)? [pP] [+-]? digits { return hex_float(start); }
        [0-9] word*                         { return bad_number(start); }
        digits "." digits word+             { return bad_number(start); }
        ["]                                 { return string(start); }
        ['] [^'\n]* [']                     { return quoted(start); }

        "("   { return make(T::LPAREN, start); }
        ")"   { return make(T::RPAREN, start); }
        "["   { return make(T::LBRACKET, start); }
        "]"   { return make(T::RBRACKET, start); }
        "{"   { return brace(start); }
        "}"   { return make(T::RBRACE, start); }
        ","   { return make(T::COMMA, start); }
        ";"   { return make(T::SEMI, start); }
        ":"   { return make(T::COLON, start); }
        ":="  { return make(T::WALRUS, start); }
        "++"  { return make(T::INCREMENT, start); }
        "**"  { return make(T::POWER, start); }
        "?"   { return make(T::QUESTION, start); }
        "+:"  { return make(T::PLUS_COLON, start); }
        "."   { return make(T::DOT, start); }
        ".."  { return make(T::DOTDOT, start); }
        "->"  { return make(T::ARROW, start); }
        "=>"  { return make(T::FAT_ARROW, start); }
        "@" / ([ \t\r\n]* ("ptx" | "cost") [ \t\r\n]* "(") { return make(T::ATTRIBUTE, start); }
        "@"   { return make(frames_.back().attributes ? T::ATTRIBUTE : T::AT, start); }
        "="   { return make(T::ASSIGN, start); }
        "+="  { return make(T::ADD_ASSIGN, start); }
        "-="  { return make(T::SUB_ASSIGN, start); }
        "*="  { return make(T::MUL_ASSIGN, start); }
        "/="  { return make(T::DIV_ASSIGN, start); }
        "%="  { return make(T::REM_ASSIGN, start); }
        "&="  { return make(T::AND_ASSIGN, start); }
        "|="  { return make(T::OR_ASSIGN, start); }
        "^="  { return make(T::XOR_ASSIGN, start); }
        "<<=" { return make(T::SHL_ASSIGN, start); }
        ">>=" { return close_or_greater(start, T::SHR_ASSIGN); }
        "||"  { return make(T::OR_OR, start); }
        "&&"  { return make(T::AND_AND, start); }
        "=="  { return make(T::EQ, start); }
        "!="  { return make(T::NE, start); }
        "<"   { return open_or_less(start); }
        "<="  { return make(T::LE, start); }
        ">"   { return close_or_greater(start, T::GT); }
        ">="  { return close_or_greater(start, T::GE); }
        "|"   { return make(T::BAR, start); }
        "^"   { return make(T::CARET, start); }
        "&"   { return make(T::AMP, start); }
        "<<"  { return make(T::SHL, start); }
        ">>"  { return close_or_greater(start, T::SHR); }
        "+"   { return make(T::PLUS, start); }
        "-"   { return make(T::MINUS, start); }
        "*"   { return make(T::STAR, start); }
        "/"   { return make(T::SLASH, start); }
        "%"   { return make(T::PERCENT, start); }
        "!"   { return make(T::BANG, start); }
        "~"   { return make(T::TILDE, start); }

        [^]   { unexpected(start); continue; }
        *     { unexpected(start); continue; }
        */
    }
}

}  // namespace tegula::syntax
