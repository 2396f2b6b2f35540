// The parser against tests/parse/*.tile (AST in trailing `//>` lines, errors as `//! CODE text` on their line), the formatter's
// properties over every .tile file of the project, and hostile input. TEGULA_UPDATE=1 rewrites the `//>` lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "lang/literal_rest.h"
#include "parser/parse.h"
#include "tests/unit/test_files.h"

namespace tegula {
namespace {

namespace fs = std::filesystem;
using test::read, test::tile_files;

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> out;
    std::stringstream in(text);
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
}

struct Parsed {
    SourceMap sources;
    uint32_t file;
    Arena arena;
    DiagSink diags{10'000};
    const ast::Module* module;
    explicit Parsed(const std::string& text) : file(sources.add("test.tile", text)), module(parse_module(sources, file, arena, diags)) {}
    std::string dump() const { return dump_ast(*module); }
    std::set<std::string> codes() const {
        std::set<std::string> out;
        for (const Diagnostic& d : diags.all()) out.insert(diag_row(d.id).code);
        return out;
    }
};

struct Expected {
    size_t line;
    std::string code, text;
};

std::vector<Expected> expected_errors(const std::string& source) {
    std::vector<Expected> out;
    std::vector<std::string> lines = lines_of(source);
    for (size_t i = 0; i < lines.size(); ++i) {
        for (size_t at = lines[i].find("//! T"); at != std::string::npos; at = lines[i].find("//! T", at + 1)) {
            size_t end = std::min(lines[i].find(" //! T", at), lines[i].size());
            std::string body = lines[i].substr(at + 4, end - at - 4);
            out.push_back({i + 1, body.substr(0, 5), body.size() > 6 ? body.substr(6) : ""});
        }
    }
    return out;
}

void check_errors(const Parsed& parsed, std::vector<Expected> expected) {
    for (const Diagnostic& d : parsed.diags.all()) {
        size_t line = parsed.sources.line_col(d.span.file, d.span.begin).line;
        auto found = std::find_if(expected.begin(), expected.end(), [&](const Expected& e) {
            return e.line == line && e.code == diag_row(d.id).code && d.message.find(e.text) != std::string::npos;
        });
        if (found == expected.end()) {
            ADD_FAILURE() << "unexpected: " << render_text(d, parsed.sources, false);
        } else {
            expected.erase(found);
        }
    }
    for (const Expected& e : expected) ADD_FAILURE() << "line " << e.line << ": missing " << e.code << " " << e.text;
}

void check_ast(const fs::path& path, const std::string& source, const std::string& dump) {
    std::string code, expected;
    for (const std::string& line : lines_of(source)) {
        if (line.starts_with("//>")) {
            expected += line.substr(std::min<size_t>(4, line.size())) + "\n";
        } else {
            code += line + "\n";
        }
    }
    if (std::getenv("TEGULA_UPDATE") != nullptr && expected != dump) {
        std::ofstream out(path, std::ios::binary);
        out << code;
        for (const std::string& line : lines_of(dump)) out << "//> " << line << "\n";
        return;
    }
    EXPECT_EQ(expected, dump);
}

TEST(parse_files, ast_and_errors_are_as_written) {
    std::vector<fs::path> files = tile_files("tests/parse");
    EXPECT_GE(files.size(), 40u);
    for (const fs::path& path : files) {
        SCOPED_TRACE(path.filename().string());
        std::string source = read(path);
        Parsed parsed(source);
        std::vector<Expected> expected = expected_errors(source);
        check_errors(parsed, expected);
        if (expected.empty() || source.find("\n//>") != std::string::npos) check_ast(path, source, parsed.dump());
    }
}

TEST(parse_files, every_text_diagnostic_has_a_test) {
    std::set<std::string> seen{"T0112", "T0113", "T0114"};  // the limits, in the hostile tests below
    for (const fs::path& path : tile_files("tests/parse")) {
        for (const Expected& e : expected_errors(read(path))) seen.insert(e.code);
    }
    for (size_t i = 0; i < size_t(Diag::count_); ++i) {
        std::string code = diag_row(Diag(i)).code;
        if (code.starts_with("T01") && code < "T0150") {
            EXPECT_TRUE(seen.count(code)) << code;
        }
    }
}

/// Comments in order, without the space around them.
std::vector<std::string> comments_of(const std::string& text) {
    std::vector<std::string> out;
    bool in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
        if (in_string) {
            if (text[i] == '\\')
                ++i;
            else if (text[i] == '"')
                in_string = false;
            continue;
        }
        if (text[i] == '"') in_string = true;
        if (text[i] != '/' || i + 1 >= text.size() || (text[i + 1] != '/' && text[i + 1] != '*')) continue;
        size_t end = text[i + 1] == '/' ? text.find('\n', i) : text.find("*/", i) + 2;
        std::string comment = text.substr(i, end == std::string::npos ? end : end - i);
        while (!comment.empty() && (comment.back() == ' ' || comment.back() == '\r' || comment.back() == '\t')) comment.pop_back();
        out.push_back(comment);
        i = end == std::string::npos ? text.size() : end - 1;
    }
    return out;
}

std::optional<std::string> format(const std::string& text) {
    SourceMap sources;
    DiagSink diags;
    return format_source(sources, sources.add("test.tile", text), diags);
}

TEST(formatter, keeps_meaning_and_comments_and_is_a_fixed_point) {
    size_t formatted = 0;
    for (const char* folder : {"tests", "examples", "stdlib"}) {
        for (const fs::path& path : tile_files(folder)) {
            SCOPED_TRACE(path.string());
            std::string source = read(path);
            Parsed before(source);
            std::optional<std::string> once = format(source);
            EXPECT_EQ(once.has_value(), !before.diags.has_errors());
            if (!once) continue;
            ++formatted;
            EXPECT_EQ(Parsed(*once).dump(), before.dump());
            EXPECT_EQ(comments_of(*once), comments_of(source));
            EXPECT_EQ(format(*once), once);
        }
    }
    EXPECT_GE(formatted, 20u);
}

TEST(formatter, canonical_text) {
    EXPECT_EQ(*format("const  a=1+2 * -3 ;const b=f (x [i,0+:4 ,:], k=|a,b|a+b);"),
              "const a = 1 + 2 * -3;\nconst b = f(x[i, 0 +: 4, :], k = |a, b| a + b);\n");
    EXPECT_EQ(*format("fn f(a:T,)->R{if a<b{return a;}else{return x else 0;}}"),
              "fn f(a: T) -> R {\n    if a < b {\n        return a;\n    } else {\n        return x else 0;\n    }\n}\n");
    EXPECT_EQ(*format("kernel k(x:t)grid[4]@warps(8){}const a=1;"), "kernel k(x: t)\n    grid [4]\n    @ warps(8)\n{}\n\nconst a = 1;\n");
    EXPECT_EQ(*format("test \"t\"{ // why\n\n\n  f();// a\n\n\n  // b\n  g(1,/* c */2);\n\n}\n"),
              "test \"t\" {  // why\n    f();  // a\n\n    // b\n    g(1, /* c */ 2);\n}\n");
}

TEST(formatter, long_lists_stand_one_per_line) {
    std::string name(40, 'a');
    EXPECT_EQ(*format("const x = f(" + name + ", " + name + ", " + name + ");"),
              "const x = f(\n    " + name + ",\n    " + name + ",\n    " + name + "\n);\n");
    std::string sum = *format("const x = " + name + " + " + name + " + " + name + ";");
    EXPECT_EQ(sum, "const x = " + name + " + " + name + " +\n    " + name + ";\n");
}

TEST(entries, statements_and_expressions) {
    auto statements = [](const char* text, bool& incomplete, size_t& errors) {
        SourceMap sources;
        Arena arena;
        DiagSink diags;
        const Input input = parse_input(sources, sources.add("repl", text), arena, diags);
        const size_t count = input.statements.size();
        incomplete = input.incomplete;
        errors = diags.error_count();
        return count;
    };
    bool incomplete = false;
    size_t errors = 0;
    EXPECT_EQ(statements("let x = 1; x + 1", incomplete, errors), 2u);
    EXPECT_FALSE(incomplete);
    EXPECT_EQ(errors, 0u);
    for (const char* text : {"for i in 0 .. 4 {", "let x =", "f(a,", "/* open", "if x { f();"}) {
        statements(text, incomplete, errors);
        EXPECT_TRUE(incomplete) << text;
        EXPECT_GT(errors, 0u) << text;
    }
    statements("let = 3;", incomplete, errors);
    EXPECT_FALSE(incomplete);
    EXPECT_EQ(errors, 1u);

    SourceMap sources;
    Arena arena;
    DiagSink diags;
    const ast::Expr* type = parse_expression(sources, sources.add("set", "tile<f16>[4, 8]"), arena, diags);
    ASSERT_NE(type, nullptr);
    EXPECT_EQ(dump_ast(*type), "(index (inst tile f16) 4 8)");
    EXPECT_EQ(parse_expression(sources, sources.add("set", "1 +"), arena, diags), nullptr);
    EXPECT_EQ(diags.error_count(), 1u);
}

TEST(entries, tokens_show_how_angles_were_read) {
    SourceMap sources;
    DiagSink diags;
    EXPECT_EQ(dump_tokens(sources, sources.add("t", "a<b>(0..K) >> 2"), diags),
              "1:1 name a\n1:2 generic <\n1:3 name b\n1:4 generic >\n1:5 symbol (\n1:6 int 0\n1:7 symbol ..\n1:9 name K\n1:10 symbol )\n"
              "1:12 symbol >>\n1:15 int 2\n");
}

// ---- hostile input ----

std::string repeat(const std::string& text, size_t count) {
    std::string out;
    out.reserve(text.size() * count);
    for (size_t i = 0; i < count; ++i) out += text;
    return out;
}

// Processor time; the promise of one second is for release builds.
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
constexpr double kSecondLimit = 1.0;
#else
constexpr double kSecondLimit = 20.0;
#endif

/// Parses within a second (more in slow builds) and reports `code`, or nothing when `code` is null.
void hostile(const std::string& text, const char* code) {
    std::clock_t start = std::clock();
    Parsed parsed(text);
    parsed.dump();
    double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, kSecondLimit);
    EXPECT_LT(parsed.arena.bytes(), 100 * text.size() + 100'000);
    std::set<std::string> expected, found = parsed.codes();
    found.erase("T0600");
    if (code != nullptr) expected.insert(code);
    EXPECT_EQ(found, expected) << text.substr(0, 60);
}

TEST(notes, a_keyword_is_no_name) {
    const Parsed wrong("kernel k(n: i32, while: i32) {}"), right("kernel k(step: i32, out: i32, grid: i32) grid [step] {}"), other("const A = 2 + ;");
    ASSERT_EQ(wrong.diags.all().size(), 1u);
    EXPECT_EQ(wrong.diags.all()[0].notes, std::vector<DiagNote>{"`while` is a keyword and cannot be a name"});
    EXPECT_TRUE(right.diags.all().empty());
    ASSERT_EQ(other.diags.all().size(), 1u);
    EXPECT_TRUE(other.diags.all()[0].notes.empty());
}

TEST(hostile, long_chains) {
    hostile("const x = 1" + repeat(" + 1", 10'000) + ";", nullptr);
    hostile("const x = 1" + repeat(" + 1", 1'000'000) + ";", "T0114");
    hostile("const x = a" + repeat(" && a * a", 500'000) + ";", "T0114");
    hostile("const x = [" + repeat("1,", 1'000'000) + "];", nullptr);
}

TEST(hostile, deep_nesting) {
    constexpr size_t kDeep = 100'000;
    hostile("const x = " + repeat("(", 200) + "1" + repeat(")", 200) + ";", nullptr);
    hostile("const x = " + repeat("(", kDeep) + "1" + repeat(")", kDeep) + ";", "T0113");
    hostile("const x = " + repeat("[", kDeep), "T0113");
    hostile("const x = " + repeat("-", kDeep) + "1;", "T0113");
    hostile("const x = " + repeat("-", 1'000) + "1;", "T0113");
    hostile("const x = " + repeat("|a| ", kDeep) + "1;", "T0113");
    hostile("const x = " + repeat("[i < 4] => ", kDeep) + "1;", "T0113");
    hostile("const x = f" + repeat("(1)", kDeep) + ";", "T0113");
    hostile("const x = a" + repeat(".b", kDeep) + ";", "T0113");
    hostile("fn f() " + repeat("{", kDeep) + repeat("}", kDeep), "T0113");
    hostile("fn f() { " + repeat("if a { } else ", kDeep) + "{ } }", "T0113");
    hostile("fn f() { " + repeat("if a { ", kDeep), "T0113");
    hostile("type t = " + repeat("a<", kDeep) + "b" + repeat(">", kDeep) + ";", "T0113");
    hostile("type t = " + repeat("a<", 200) + "b" + repeat(">", 200) + ";", nullptr);
}

TEST(hostile, wide_garbage) {
    hostile(repeat("a<", 1'000'000), "T0101");
    hostile("const x = " + repeat("a<b>(", 100'000), "T0113");
    hostile("const x = " + repeat("a<b+", 100'000) + "1;", "T0115");
    // Generics that end far away, and comparisons that look as if they began such: each byte is looked at once.
    hostile("type t = a<" + repeat("b, ", 1'000'000) + "c>;", nullptr);
    hostile("const x = [" + repeat("a < b, ", 500'000) + "c];", nullptr);
    hostile("const x = [" + repeat("a < b /* > */, ", 200'000) + "c > d];", nullptr);
    hostile("const x = " + repeat("f(a < (", 100'000), "T0113");
    hostile(repeat("$", 100'000), "T0102");
    hostile(repeat("//! a\n/// b\n", 100'000), nullptr);
    hostile("fn f() { " + repeat("a b ", 200'000) + "}", "T0101");
    hostile(std::string((16 << 20) + 1, ' '), "T0112");
    std::string bytes;
    for (size_t i = 0; i < 100'000; ++i) bytes += char(" (){}[];<>=|&+-ab0\"/"[(i * i * 31 + i / 7) % 20]);
    Parsed soup(bytes);
    EXPECT_TRUE(soup.diags.has_errors());
}

TEST(hostile, every_prefix_of_a_program_is_handled) {
    std::string text = read(fs::path(TEGULA_SOURCE_DIR) / "tests/parse/kernel_taste.tile");
    ASSERT_FALSE(text.empty());
    for (size_t n = 0; n < text.size(); ++n) Parsed(text.substr(0, n)).dump();
}

}  // namespace
// Numbers of few digits are compared as integers, all others as digits: with an exponent, which keeps the number, the other way is taken.
TEST(Literals, BothWaysOfComparingAgree) {
    std::mt19937_64 random(5);
    int signs[3] = {};
    for (int i = 0; i < 20'000; ++i) {
        std::string text = std::to_string(random() % (i % 3 ? 1'000'000'007 : 10));
        if (i % 5) text += "." + std::string(random() % 6, '0') + std::to_string(random() % 100'000);
        double value = 0;
        std::from_chars(text.data(), text.data() + text.size(), value);
        const int rest = literal_rest(text, value);
        ++signs[rest + 1];
        ASSERT_EQ(rest, literal_rest(text + "e0", value)) << text;
    }
    for (const int count : signs) EXPECT_GT(count, 1000);
}

}  // namespace tegula
