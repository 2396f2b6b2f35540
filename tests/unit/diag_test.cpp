// Source positions, the diagnostic sink and its rendering. The expected pictures are drawn by hand.
#include "lang/diag.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

using namespace tegula;

namespace {

/// A diagnostic with a fixed code, whatever the table says next to it.
Diagnostic make(Span span, std::string message) {
    Diagnostic d;
    d.id = Diag::too_many_errors;
    d.span = span;
    d.message = std::move(message);
    return d;
}

Span find(const SourceMap& sources, uint32_t file, std::string_view what) {
    size_t at = sources.text(file).find(what);
    EXPECT_NE(at, std::string_view::npos) << what;
    return {file, uint32_t(at), uint32_t(at + what.size())};
}

TEST(source, lines_and_columns) {
    SourceMap sources;
    uint32_t f = sources.add("a.tile", "one\r\ntwo\n\nfour");
    EXPECT_EQ(f, 1u);
    auto at = [&](uint32_t offset) {
        LineCol lc = sources.line_col(f, offset);
        return std::pair(lc.line, lc.column);
    };
    EXPECT_EQ(at(0), std::pair(1u, 1u));
    EXPECT_EQ(at(4), std::pair(1u, 5u));
    EXPECT_EQ(at(5), std::pair(2u, 1u));
    EXPECT_EQ(at(9), std::pair(3u, 1u));
    EXPECT_EQ(at(14), std::pair(4u, 5u));
    EXPECT_EQ(at(4000), std::pair(4u, 5u));
    EXPECT_EQ(sources.line_text(f, 1), "one");
    EXPECT_EQ(sources.line_text(f, 9), "");
    EXPECT_EQ(sources.line_text(f, 14), "four");
    EXPECT_EQ(sources.text(Span{f, 5, 8}), "two");
    EXPECT_EQ(sources.text(Span{f, 12, 900}), "ur");
    EXPECT_EQ(sources.text(Span{f, 800, 3}), "");
    EXPECT_EQ(sources.text(Span{77, 0, 3}), "");
    EXPECT_EQ(sources.line_col(0, 3).line, 0u);
    EXPECT_EQ(join({1, 5, 6}, {1, 2, 3}), (Span{1, 2, 6}));
    EXPECT_EQ(join({}, {1, 2, 3}), (Span{1, 2, 3}));
    EXPECT_EQ(join({1, 5, 6}, {2, 2, 3}), (Span{1, 5, 6}));
}

TEST(source, files_live_as_long_as_their_owners) {
    std::optional<SourceMap> sources(std::in_place);
    const uint32_t kept = sources->add("kept", "a");
    SourcePtr first = sources->share("first", "b"), second = sources->share("second", "c\nd");
    const uint32_t gone = first->id;
    EXPECT_EQ(sources->text(gone), "b");
    first.reset();
    EXPECT_EQ(sources->find(gone), nullptr);
    EXPECT_EQ(sources->text(gone), "");
    EXPECT_EQ(sources->line_text(gone, 0), "");
    EXPECT_EQ(sources->line_col(gone, 0).line, 0u);
    EXPECT_EQ(sources->text(kept), "a");
    EXPECT_EQ(sources->line_col(second->id, 2).line, 2u);
    EXPECT_NE(sources->share("third", "")->id, gone);
    sources.reset();
    EXPECT_EQ(second->text, "c\nd");
}

TEST(diag, reports_keep_their_texts) {
    SourceMap sources;
    std::vector<Diagnostic> taken;
    {
        DiagSink diags;
        { const Snippet silent(sources, "silent", "x", diags); }
        const Snippet module(sources, "module", "fn f", diags), wrong(sources, "wrong", "y z", diags);
        diags.report(Diag::too_many_errors, {wrong.file(), 2, 3}).labels.push_back({{module.file(), 3, 4}, "here"});
        taken = diags.take();
    }
    EXPECT_EQ(sources.text(1), "");
    EXPECT_EQ(sources.text(taken[0].span), "z");
    EXPECT_EQ(sources.text(taken[0].labels[0].span), "f");
    taken[0].labels.clear();
    keep_texts(taken[0], sources);
    EXPECT_EQ(sources.name(2), "");
    EXPECT_EQ(sources.text(taken[0].span), "z");
}

TEST(diag, one_label) {
    SourceMap sources;
    uint32_t f = sources.add("k.tile", "fn f() {\n    let x: f32 = y;\n}\n");
    Diagnostic d = make(find(sources, f, "f32"), "no such thing");
    d.notes = {"while instantiating f<8>"};
    d.help("write f16");
    d.fixes = {{find(sources, f, "y"), "z"}, {{f, 0, 0}, "pub "}};
    EXPECT_EQ(render_text(d, sources, false),
              "error[T0600]: no such thing\n"
              " --> k.tile:2:12\n"
              "  |\n"
              "2 |     let x: f32 = y;\n"
              "  |            ^^^\n"
              "  |\n"
              "  = note: while instantiating f<8>\n"
              "  = help: write f16\n"
              "  = help: perhaps replace `y` with `z` and insert `pub ` in line 1\n");
    for (FixIt& fix : d.fixes) fix.applicability = Applicability::machine;
    EXPECT_TRUE(render_text(d, sources, false).ends_with("  = help: replace `y` with `z` and insert `pub ` in line 1\n"));
    d.fixes[0].applicability = Applicability::placeholder;
    EXPECT_TRUE(render_text(d, sources, false).ends_with("in line 1, with what is meant where it says `..`\n"));
}

TEST(diag, several_labels_on_one_line) {
    SourceMap sources;
    uint32_t f = sources.add("k.tile", "let c = aa + bb;\n");
    Diagnostic d = make(find(sources, f, "+"), "types differ");
    d.labels = {{find(sources, f, "aa"), "this is i8"}, {find(sources, f, "bb"), "this is u8"}, {d.span, "in this sum"}};
    EXPECT_EQ(render_text(d, sources, false),
              "error[T0600]: types differ\n"
              " --> k.tile:1:12\n"
              "  |\n"
              "1 | let c = aa + bb;\n"
              "  |         -- ^ -- this is u8\n"
              "  |         |  |\n"
              "  |         |  in this sum\n"
              "  |         this is i8\n"
              "  |\n");
}

TEST(diag, labels_on_far_lines_and_in_other_files) {
    SourceMap sources;
    std::string text = "first\n";
    for (int i = 2; i < 12; ++i) text += "\n";
    text += "twelfth";
    uint32_t a = sources.add("a.tile", text), b = sources.add("b.tile", "other");
    Diagnostic d = make(find(sources, a, "twelfth"), "again");
    d.severity = Severity::warning;
    d.labels = {{find(sources, b, "other"), "and here"}, {find(sources, a, "first"), "before"}};
    EXPECT_EQ(render_text(d, sources, false),
              "warning[T0600]: again\n"
              "  --> a.tile:12:1\n"
              "   |\n"
              " 1 | first\n"
              "   | ----- before\n"
              "...\n"
              "12 | twelfth\n"
              "   | ^^^^^^^\n"
              "  ::: b.tile:1:1\n"
              "   |\n"
              " 1 | other\n"
              "   | ----- and here\n"
              "   |\n");
}

TEST(diag, tabs_wide_characters_and_hostile_text) {
    SourceMap sources;
    uint32_t f = sources.add("\x1b[2Jevil", "\tab\tX // \xE6\xBC\xA2\xE5\xAD\x97 e\xCC\x81 Y \x1b[31m Z \xFF W \xE2\x80\xAE V\n");
    auto caret_under = [&](std::string_view what) {
        std::string out = render_text(make(find(sources, f, what), "m"), sources, false);
        size_t caret = out.find('^');
        return caret - (out.rfind('\n', caret) + 1) - 4;  // columns after "  | "
    };
    std::string out = render_text(make(find(sources, f, "X"), "m\x1b]0;title\x07"), sources, false);
    EXPECT_EQ(out,
              "error[T0600]: m\\x1b]0;title\\x07\n"
              " --> \\x1b[2Jevil:1:5\n"
              "  |\n"
              "1 |     ab  X // \xE6\xBC\xA2\xE5\xAD\x97 e\xCC\x81 Y \\x1b[31m Z \\xff W \\u{202e} V\n"
              "  |         ^\n"
              "  |\n");
    EXPECT_EQ(caret_under("X"), 8u);
    EXPECT_EQ(caret_under("Y"), 20u);  // two ideographs take two columns each, the accent none
    EXPECT_EQ(caret_under("Z"), 31u);
    EXPECT_EQ(caret_under("W"), 38u);
    EXPECT_EQ(caret_under("V"), 49u);
}

TEST(diag, spans_over_lines_ends_and_nothing) {
    SourceMap sources;
    uint32_t f = sources.add("k.tile", "a (b\n  c) d");
    Diagnostic d = make({f, 2, 9}, "open");
    d.labels = {{d.span, "until here"}};
    EXPECT_EQ(render_text(d, sources, false),
              "error[T0600]: open\n"
              " --> k.tile:1:3\n"
              "  |\n"
              "1 | a (b\n"
              "  |   ^^\n"
              "2 |   c) d\n"
              "  |   ^^ until here\n"
              "  |\n");
    EXPECT_EQ(render_text(make({f, 11, 11}, "end"), sources, false),
              "error[T0600]: end\n"
              " --> k.tile:2:7\n"
              "  |\n"
              "2 |   c) d\n"
              "  |       ^\n"
              "  |\n");
    EXPECT_EQ(render_text(make({}, "no place"), sources, false), "error[T0600]: no place\n");
    EXPECT_NE(render_text(make({f, 900, 20}, "wild"), sources, false), "");
    EXPECT_NE(render_text(make({99, 1, 2}, "wild"), sources, false), "");
}

TEST(diag, only_a_window_of_a_long_line) {
    SourceMap sources;
    std::string line(1'000'000, 'x');
    line[500'000] = '!';
    uint32_t f = sources.add("k.tile", line);
    std::string out = render_text(make({f, 500'000, 500'001}, "m"), sources, false);
    EXPECT_LT(out.size(), 1000u);
    size_t bang = out.find('!'), caret = out.find('^');
    ASSERT_NE(bang, std::string::npos);
    EXPECT_EQ(bang - out.rfind('\n', bang), caret - out.rfind('\n', caret));
}

TEST(diag, random_spans_in_random_bytes_render_safely) {
    std::mt19937 random(1);
    for (int round = 0; round < 3000; ++round) {
        SourceMap sources;
        std::string text;
        for (size_t n = random() % 600; n > 0; --n) text += "a \n\t\x1b\xE6\xBC\xA2\xCC\x81\xFF\xE2\x80\xAE"[random() % (round % 2 ? 5 : 14)];
        uint32_t f = sources.add("k.tile", text);
        auto span = [&] { return Span{f, uint32_t(random() % 620), uint32_t(random() % 620)}; };
        Diagnostic d = make(span(), "m");
        for (unsigned n = random() % 6; n > 0; --n) d.labels.push_back({span(), n % 2 ? "label" : ""});
        std::string out = render_text(d, sources, false);
        ASSERT_EQ(out.find('\x1b'), std::string::npos);
        ASSERT_EQ(out.find("\xE2\x80\xAE"), std::string::npos);
        ASSERT_EQ(out.find('\xFF'), std::string::npos);
        ASSERT_NE(out.find('^'), std::string::npos);
        ASSERT_EQ(render_json(d, sources).find('\n'), std::string::npos);
    }
}

TEST(diag, colour_only_when_asked) {
    SourceMap sources;
    uint32_t f = sources.add("k.tile", "abc");
    Diagnostic d = make({f, 0, 1}, "m");
    EXPECT_EQ(render_text(d, sources, false).find('\x1b'), std::string::npos);
    std::string out = render_text(d, sources, true), plain;
    for (size_t i = 0; i < out.size(); ++i) {
        if (out[i] == '\x1b')
            i = out.find('m', i);
        else
            plain += out[i];
    }
    EXPECT_EQ(plain, render_text(d, sources, false));
    EXPECT_LT(plain.size(), out.size());
}

TEST(diag, json) {
    SourceMap sources;
    uint32_t f = sources.add("k.tile", "a\nbcd");
    Diagnostic d = make({f, 2, 4}, "say \"hi\"");
    d.labels = {{{f, 0, 1}, "a\tb"}};
    d.notes = {"n1"};
    d.fixes = {{{f, 4, 5}, ""}};
    EXPECT_EQ(render_json(d, sources),
              R"({"schema":1,"level":"error","code":"T0600","name":"too_many_errors","message":"say \"hi\"","spans":[)"
              R"({"file":"k.tile","begin":2,"end":4,"line":2,"column":1,"end_line":2,"end_column":3,"primary":true,"label":""},)"
              R"({"file":"k.tile","begin":0,"end":1,"line":1,"column":1,"end_line":1,"end_column":2,"primary":false,"label":"a\tb"}],)"
              R"("notes":["n1"],"fixes":[{"file":"k.tile","begin":4,"end":5,"line":2,"column":3,"end_line":2,"end_column":4,"text":"","applicability":"maybe"}]})");
    EXPECT_EQ(json_quote("\x01\x7F\xC3\xA9\xFF\xC0\x80"), "\"\\u0001\\u007f\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    EXPECT_EQ(json_quote("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");  // a lone surrogate is not UTF-8
}

TEST(diag, sink_drops_repeats_and_stops_at_the_limit) {
    DiagSink sink(3);
    sink.report(Diag::too_many_errors, {1, 0, 1});
    sink.report(Diag::too_many_errors, {1, 0, 1}).notes.push_back("goes nowhere");
    EXPECT_EQ(sink.all().size(), 1u);
    EXPECT_TRUE(sink.all()[0].notes.empty());
    for (uint32_t i = 1; i < 50; ++i) sink.report(Diag::too_many_errors, {1, i, i + 1});
    ASSERT_EQ(sink.all().size(), 4u);
    EXPECT_EQ(sink.all().back().span, (Span{1, 3, 4}));
    EXPECT_TRUE(sink.has_errors());
    EXPECT_EQ(sink.take().size(), 4u);
    EXPECT_FALSE(sink.has_errors());
    EXPECT_TRUE(sink.all().empty());
}

/// Two instances of one kernel may both spill; one mistake is one error.
TEST(diag, warnings_repeat_with_other_text) {
    DiagSink sink;
    for (const char* bytes : {"200", "300", "200"}) sink.report(Diag::registers_spilled, {1, 0, 1}, {"k", "sm_90a", bytes, "0"});
    EXPECT_EQ(sink.all().size(), 2u);
    for (const char* name : {"a", "b"}) sink.report(Diag::no_such_pass, {1, 0, 1}, {name});
    EXPECT_EQ(sink.all().size(), 3u);
}

TEST(diag, errors_that_are_not_kept_still_count) {
    DiagSink sink(2);
    for (uint32_t i = 0; i < 4; ++i) sink.report(Diag::too_many_errors, {1, i, i + 1});
    sink.report(Diag::too_many_errors, {1, 0, 1});
    EXPECT_EQ(sink.error_count(), 5u);
    EXPECT_EQ(sink.all().size(), 3u);  // two, and the row that says so
    EXPECT_EQ(sink.take().size(), 3u);
    EXPECT_FALSE(sink.has_errors());
}

TEST(diag, context_notes_and_arguments) {
    DiagSink sink;
    sink.push_context("outer");
    sink.push_context("inner");
    EXPECT_EQ(sink.report(Diag::too_many_errors, {}).notes, (std::vector<DiagNote>{"inner", "outer"}));
    sink.pop_context();
    EXPECT_EQ(sink.report(Diag::too_many_errors, {1, 2, 3}).notes, (std::vector<DiagNote>{"outer"}));
    EXPECT_ANY_THROW(sink.report(Diag::too_many_errors, {1, 4, 5}, {"one too many"}));
}

TEST(diag, rows_are_well_formed) {
    ASSERT_NE(find_diag("t0600"), nullptr);
    EXPECT_STREQ(find_diag("T0600")->name, "too_many_errors");
    EXPECT_EQ(find_diag("T06"), nullptr);
    EXPECT_EQ(find_diag(""), nullptr);
    for (uint16_t i = 0; i < uint16_t(Diag::count_); ++i) {
        const DiagRow& row = diag_row(Diag(i));
        EXPECT_EQ(find_diag(row.code), &row) << row.code << " is used twice";
        EXPECT_GT(std::string_view(row.explanation).size(), std::string_view(row.message).size() / 2) << row.code;
    }
}

TEST(diag, spelling) {
    std::vector<std::string_view> words = {"softmax", "sum", "max", "maximum"};
    EXPECT_EQ(closest("sotfmax", words), "softmax");
    EXPECT_EQ(closest("sofmx", words), "softmax");
    EXPECT_EQ(closest("mx", words), "");
    EXPECT_EQ(closest("mxa", words), "max");
    EXPECT_EQ(closest("banana", words), "");
    EXPECT_EQ(closest("SUM", words), "sum") << "another case";
    EXPECT_EQ(closest("smu", words), "sum") << "neighbours that changed places";
    EXPECT_EQ(closest("gellu", {"geglu", "gelu"}), "gelu") << "a doubled letter is nearer than another one";
    EXPECT_EQ(similar("sums", {"sum", "summ", "sun", "nothing"}), (std::vector<std::string_view>{"sum", "summ"}));
    EXPECT_EQ(closest("", words), "");
    EXPECT_EQ(closest(std::string(100000, 'a'), words), "");
}

TEST(diag, changes_are_offered_in_turn) {
    Diagnostic d;
    d.notes = {"in instance `f`"};
    d.propose({{{1, 0, 1}, "a"}}, "did you mean `a`?");
    d.propose({{{1, 0, 1}, "b"}});
    EXPECT_EQ(d.notes.size(), 2u);
    EXPECT_TRUE(d.next_proposal());
    EXPECT_EQ(d.fixes.at(0).text, "b");
    EXPECT_EQ(d.notes, std::vector<DiagNote>{"in instance `f`"}) << "a note goes with its change";
    EXPECT_FALSE(d.next_proposal());
    EXPECT_TRUE(d.fixes.empty());
}

TEST(render, names_without_end_are_shortened) {
    SourceMap sources;
    const std::string word(1 << 20, 'w'), path(300, 'p');
    std::string wide;
    for (int i = 0; i < 1000; ++i) wide += "\xC3\xA4";  // never cut in the middle
    Diagnostic d = make({sources.add("a.tile", "x"), 0, 1}, "unknown name `" + word + "` at " + path + " and " + wide);
    d.labels.push_back({d.span, "label " + word});
    d.help(word);
    d.notes.emplace_back("did you mean `" + word + "`?");
    d.fixes.push_back({d.span, word});
    const std::string text = render_text(d, sources, false);
    EXPECT_LT(text.size(), 5000u);
    EXPECT_NE(text.find("unknown name `www"), std::string::npos);
    EXPECT_NE(text.find("www...www"), std::string::npos);
    EXPECT_NE(text.find("ww` at " + path), std::string::npos) << "a long path stays whole";
    EXPECT_EQ(text.find("\\x"), std::string::npos) << "half a character";
    const std::string json = render_json(d, sources);
    EXPECT_LT(json.size(), word.size() + 5000) << "fixes are texts for tools, not for people";
    EXPECT_EQ(json.find("\xEF\xBF\xBD"), std::string::npos);
}

}  // namespace
