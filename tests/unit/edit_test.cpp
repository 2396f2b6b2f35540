// The console's editor without a terminal: keys from bytes, texts from keys, and screens from texts. A small model of a terminal shows what is
// painted.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <utf8proc.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tegula/tegula.hpp"
#include "tests/repl/toy_client.h"
#include "tests/unit/sample.h"
#include "tests/unit/screen_model.h"
#include "tools/edit/dialogue.h"
#include "tools/edit/history.h"
#include "tools/edit/keys.h"
#include "tools/edit/lines.h"

namespace tegula_tool::edit {
namespace {

std::string shown(const std::vector<Press>& presses) {
    static constexpr const char* kNames[] = {"",   "paste", "enter", "tab", "backspace", "erase",     "left",  "right",
                                             "up", "down",  "home",  "end", "page_up",   "page_down", "escape"};
    std::string out;
    for (const Press& p : presses) {
        if (!out.empty()) out += ' ';
        out += p.ctrl ? "C-" : "";
        out += p.alt ? "M-" : "";
        out += p.shift ? "S-" : "";
        out += kNames[static_cast<size_t>(p.key)];
        out += p.key == Key::paste ? "(" + p.text + ")" : p.text;
    }
    return out;
}

TEST(EditKeys, Sequences) {
    constexpr std::pair<std::string_view, const char*> kCases[] = {
        {"a\x01\x1f\x7f\r\n\t\x08", "a C-a C-_ backspace enter enter tab backspace"},
        {"\x1b[A\x1b[B\x1b[C\x1b[D\x1b[H\x1b[F", "up down right left home end"},
        {"\x1bOA\x1bOD\x1bOH\x1bOF\x1bOM", "up left home end enter"},
        {"\x1b[1~\x1b[4~\x1b[7~\x1b[8~\x1b[3~\x1b[5~\x1b[6~", "home end home end erase page_up page_down"},
        {"\x1b[1;5C\x1b[1;3D\x1b[1;2A\x1b[3;5~\x1b[1;6H", "C-right M-left S-up C-erase C-S-home"},
        {"\x1bOd\x1bOc\x1b[a\x1b[3^\x1b[7$\x1b[8@\x1b\x1b[D\x1bO5C", "C-left C-right S-up C-erase S-home C-S-end M-left C-right"},  // rxvt
        {"\x1b"
         "b\x1b\x7f\x1b\r\x1b\x1b",
         "M-b M-backspace M-enter"},
        {"\x1b[97;5u\x1b[13;2u\x1b[127;3u\x1b[97;1:3u\x1b[57414u\x1b[57417;5u\x1b[57358u\x1b[233u\x1b[57400u\x1b[97;2u",
         "C-a S-enter M-backspace enter C-left \u00e9 1 S-A"},
        {"\x1b[27;5;99~\x1b[27;2;13~\x1b[Z", "C-c S-enter S-tab"},
        {"\x1b[[A\x1b[11~\x1b[15;5~\x1b[I\x1b[O\x1b[?1;2c\x1b[<0;3;4M\x1b[M !!\x1b]0;title\a\x1bP1$r\x1b\\\x1b_x\x1b\\z", "z"},
        {"\x1b[200~a\r\n\x1b[A\x03\x1b[201~b", "paste(a\r\n\x1b[A\x03) b"},
        {"\x1b[200~\x1b[201~\x1b[20\x03x\x1b[1\x1b[A", "paste() C-c x up"},
        {"\xc3\xa9\xf0\x9f\x98\x80\xe2\x82\xac", "\u00e9 \U0001f600 \u20ac"},
        {"\xff\xc3"
         "a\xe2\x82"
         "b\xc0\x80",
         "\xff \xc3 a \xe2 \x82 b \xc0 \x80"},
    };
    for (const auto& [bytes, expected] : kCases) {
        std::vector<Press> whole, pieces;
        Decoder decoder, slow;
        decoder.feed(bytes, whole);
        for (const char c : bytes) slow.feed(std::string_view(&c, 1), pieces);
        EXPECT_EQ(shown(whole), expected);
        EXPECT_EQ(shown(pieces), expected);
    }
}

TEST(EditKeys, WhatNothingFollows) {
    constexpr std::pair<std::string_view, const char*> kCases[] = {{"\x1b", "escape"},        {"\x1b[", "M-["}, {"\x1bO", "M-O"}, {"\x1b[1;", ""},
                                                                   {"\xe2\x82", "\xe2 \x82"}, {"\x1b]0;x", ""}, {"\x1b]", "M-]"}, {"a", "a"}};
    for (const auto& [bytes, expected] : kCases) {
        std::vector<Press> out;
        Decoder decoder;
        decoder.feed(bytes, out);
        EXPECT_EQ(decoder.waits(), bytes != "a");
        decoder.settle(out);
        EXPECT_FALSE(decoder.waits());
        decoder.feed("z", out);
        EXPECT_EQ(shown(out), std::string(expected) + (*expected ? " z" : "z")) << bytes;
    }
    Decoder pasting;  // however long it takes
    std::vector<Press> out;
    pasting.feed("\x1b[200~abc\x1b[20", out);
    EXPECT_FALSE(pasting.waits());
    pasting.settle(out);
    pasting.feed("1~", out);
    EXPECT_EQ(shown(out), "paste(abc)");
}

TEST(EditClusters, Widths) {
    constexpr std::tuple<std::string_view, size_t, size_t> kCases[] = {{"a", 1, 1},
                                                                       {"\u00e9", 2, 1},
                                                                       {"e\u0301x", 3, 1},
                                                                       {"\u4e16", 3, 2},
                                                                       {"\U0001f600", 4, 2},
                                                                       {"\U0001f468\u200d\U0001f469\u200d\U0001f467z", 18, 2},  // a family
                                                                       {"\U0001f1e9\U0001f1ea\U0001f1eb", 8, 2},  // a flag, and half of one
                                                                       {"\U0001f44d\U0001f3fd", 8, 2},
                                                                       {"\u2764\ufe0f", 6, 2},
                                                                       {"\u0301", 2, 8},
                                                                       {"\u200b", 3, 12},
                                                                       {"\u202e", 3, 12},
                                                                       {"\xff", 1, 4},
                                                                       {"\xe2\x82", 1, 4},
                                                                       {"\x01", 1, 4},
                                                                       {"\x7f", 1, 4},
                                                                       {"\u0085", 2, 8},
                                                                       {"\n", 1, 0},
                                                                       {"\xed\xa0\x80", 1, 4}};
    for (const auto& [text, bytes, columns] : kCases) {
        const Cluster cluster = cluster_at(text, 0);
        EXPECT_EQ(cluster.bytes, bytes) << text;
        EXPECT_EQ(cluster.columns, columns) << text;
        EXPECT_EQ(before(text.substr(0, bytes), bytes), 0u) << text;
    }
}

/// Types into an editor; the text then, with `|` at the cursor.
class Typist {
public:
    explicit Typist(std::vector<std::string> past = {}) {
        for (const std::string& text : past) history.add(text);
    }
    std::string type(std::string_view bytes) {
        std::vector<Press> presses;
        decoder.feed(bytes, presses);
        for (const Press& press : presses) {
            const Action action = dialogue.press(press);
            if (action == Action::none) continue;
            asked.push_back(action);
            if (action == Action::submit) read.push_back(std::string(dialogue.submitted().text));
            if (action == Action::submit || action == Action::interrupt) dialogue.begin("tegula[2]> ");
        }
        std::string out = dialogue.text();
        return out.insert(dialogue.view(80, 24).cursor, "|");
    }
    ToyClient client;
    History history;
    Dialogue dialogue = [&] {
        Dialogue d(client, history, true);
        d.begin("tegula[1]> ");
        return d;
    }();
    Decoder decoder;
    std::vector<Action> asked;
    std::vector<std::string> read;
};

TEST(EditBuffer, Keys) {
    constexpr std::pair<std::string_view, const char*> kCases[] = {
        {"abc\x01"
         "x",
         "x|abc"},
        {"abc\x02\x02x", "ax|bc"},
        {"abc\x01\x06x", "ax|bc"},
        {"abc\x01\x05x", "abcx|"},
        {"a b\x01\x0b", "|"},
        {"abc\x02\x15", "|c"},
        {"foo.bar baz\x17", "foo.bar |"},
        {"foo.bar\x17", "|"},
        {"foo.bar\x1b\x7f", "foo.|"},
        {"foo bar\x01\x1b"
         "d",
         "| bar"},
        {"foo bar\x1b"
         "bx",
         "foo x|bar"},
        {"foo bar\x01\x1b"
         "fx",
         "foox| bar"},
        {"foo bar\x1b[1;5Dx", "foo x|bar"},
        {"abc\x01\x04", "|bc"},
        {"abc\x7f", "ab|"},
        {"abc\x1b[D\x1b[3~", "ab|"},
        {"ab\x14", "ba|"},
        {"abc\x02\x14", "acb|"},
        {"a\x14", "a|"},
        {"a b c\x17\x17\x19", "a b c|"},
        {"a b\x17"
         "c\x17\x19\x1by",
         "a b|"},
        {"one two\x1f", "one |"},
        {"one two\x1f\x1f\x1f", "|"},
        {"abc\x15\x1f", "abc|"},
        {"abc\x18\x15", "|"},
        {"abc\x1b[H\x1b[Fx", "abcx|"},
        {"\u4e16\u754c\x02x", "\u4e16x|\u754c"},
        {"e\u0301\x7f", "|"},
        {"a\U0001f468\u200d\U0001f469\u200d\U0001f467\x7f", "a|"},
        {"\xff\xfe\x7f", "\xff|"},
        {"ab\x18zc", "abc|"},
        {"a\x1b\rb", "a\nb|"},
        {"f(\rx", "f(\n    x|"},
        {"f(\r)", "f(\n)|"},
        {"f({\rx\r}\r)", "f({\n        x\n    }\n)|"},
        {"{\r\r\rx", "{|\n\n    x"},
        {"f(a)\x02\x02\rb", "f(\n    b|a)"},
        {"{\r\x7f", "{\n|"},
        {"{{\r\x7f", "{{\n    |"},
        {"abc\rd", "d|"},
        {"long line\x1b\rab\x1b\rlong again\x1b[A\x1b[Ax", "long line\x78|\nab\nlong again"},
        {"abcd\x1b\re\x1b\rfghi\x1b[A\x1b[Ax", "abcdx|\ne\nfghi"},
        {"ab\x1b\rcd\x10\x10\x0ex", "ab\ncdx|"},
        {"ab\x1b\rcd\x1b<x\x1b>y", "xab\ncdy|"},
        {"let x\x03y", "y|"},
        {"a\x1b[3~\x1b[99;99~\x1b[Ib", "ab|"},
        {"(\t", "(    |"}};
    for (const auto& [keys, expected] : kCases) {
        Typist typist;
        std::string want = expected;
        if (keys == "{\r\r\rx") want = "x|";  // two blank lines end the input
        if (keys == "(\t") want = "(|";       // everything begins with nothing: there is no common beginning
        EXPECT_EQ(typist.type(keys), want) << testing::PrintToString(keys);
    }
}

TEST(EditDialogue, EnterAsks) {
    Typist typist;
    EXPECT_EQ(typist.type("kernel f() {\rlet y = (1,\r2);\r}\rz"), "z|");
    EXPECT_EQ(typist.read, (std::vector<std::string>{"kernel f() {\n    let y = (1,\n        2);\n}"}));
    typist.type("\x15(\r\r\r  \x15\r");
    EXPECT_EQ(typist.read.at(1), "(");  // by two blank lines
    EXPECT_EQ(typist.read.at(2), "");
    typist.type("a b\x01\r\x05\r");
    EXPECT_EQ(typist.read.at(3), "\na b");  // Enter in the text is a newline
    typist.type("\x04");
    EXPECT_EQ(typist.asked.back(), Action::end);
    typist.type("x\x04\x1a\x18\x05\x0c");
    EXPECT_EQ(std::vector<Action>(typist.asked.end() - 3, typist.asked.end()),
              (std::vector<Action>{Action::suspend, Action::external, Action::clear}));
    EXPECT_EQ(typist.type("y\x03\x19"), "xy|");  // what was taken away can be yanked
}

TEST(EditDialogue, History) {
    const std::vector<std::string> past{"let x = 1", "kernel f() {\n    a\n}", "let y = 2", "let y = 2", "z"};
    Typist typist(past);
    EXPECT_EQ(typist.history.entries().size(), 4u);
    EXPECT_EQ(typist.type("\x1b[A"), "z|");
    EXPECT_EQ(typist.type("\x1b[A\x1b[A"), "kernel f() {|\n    a\n}");
    EXPECT_EQ(typist.type("\x1b[A\x1b[A\x1b[A"), "let x = 1|");
    EXPECT_EQ(typist.type("\x1b[B"), "kernel f() {\n    a\n}|");
    EXPECT_EQ(typist.type("\x1b[B\x1b[B\x1b[B\x1b[B"), "|");
    EXPECT_EQ(typist.type("let\x1b[A"), "let| y = 2");  // what begins so
    EXPECT_EQ(typist.type("\x1b[A\x1b[A"), "let| x = 1");
    EXPECT_EQ(typist.type("\x10\x0e\x0e"), "let|");
    EXPECT_EQ(typist.type("\x1b[A!\x1b[A"), "let!| y = 2");  // what was changed is a text of its own
    typist.type("\x03");
    EXPECT_EQ(typist.type("draft\x12"
                          "F()"),
              "draft|");  // a capital matters
    EXPECT_EQ(typist.type("\x7f\x7f\x7f"
                          "f()"),
              "kernel |f() {\n    a\n}");
    EXPECT_EQ(typist.type("\x07"), "draft|");
    EXPECT_EQ(typist.type("\x12let\x12"), "|let x = 1");
    EXPECT_EQ(typist.type("\x13"), "|let y = 2");
    EXPECT_EQ(typist.type("\x12\x12\x12\r"), "let x = 1|");
    EXPECT_TRUE(typist.read.empty());
    EXPECT_EQ(typist.type("\x15\x12none\x1b[D!"), "ke!|rnel f() {\n    a\n}");
    EXPECT_EQ(typist.type("\x03let\x1b[A\r"), "|");  // Enter runs what was found
    EXPECT_EQ(typist.type("kern\x1b[A\r"), "|");
    EXPECT_EQ(typist.read, (std::vector<std::string>{"let y = 2", "kernel f() {\n    a\n}"}));
    EXPECT_EQ(typist.type("kern\x1b[A\x1b[C\r"), "kerne\n|l f() {\n    a\n}");
    Typist fresh;
    EXPECT_EQ(fresh.type("\x12\x12x\x7f\x7f\x13\x1b[A\x1b[B\x10\x0e!"), "!|");
}

TEST(EditDialogue, Completion) {
    Typist typist;
    const auto below = [&] {
        std::string out;
        for (const Row& row : typist.dialogue.view(30, 24).below) out += row.bytes + "\n";
        return out;
    };
    EXPECT_EQ(typist.type("1 + so\t"), "1 + softmax|");
    EXPECT_EQ(below(), "");
    EXPECT_EQ(typist.type("\t"), "1 + softmax|");
    EXPECT_EQ(below(), "softmax\nsoftmax: word  what softmax do\n");  // a second Tab says what it is
    EXPECT_EQ(typist.type("\x15s\t"), "s|");
    EXPECT_EQ(below(), "");
    EXPECT_EQ(typist.type("\t"), "s|");
    EXPECT_EQ(below(), "scaled      scatter\nscale_rows  softmax\nscaled: word  what scaled does\n");
    EXPECT_EQ(typist.type("\t\t\t"), "scatter|");
    EXPECT_EQ(typist.type("\x1b[Z"), "scale_rows|");
    EXPECT_EQ(below(), "scaled      scatter\nscale_rows  softmax\nscale_rows: word  what scale_r\n");
    EXPECT_EQ(typist.type("\r("), "scale_rows(|");
    EXPECT_EQ(below(), "");
    EXPECT_EQ(typist.type("\x15sca\t\t\t\x07"), "sca|");
    EXPECT_EQ(typist.type("\t\t\tx"), "scaledx|");
    EXPECT_EQ(typist.type("\x15qqq\t"), "qqq|");
    EXPECT_EQ(below(), "nothing completes this\n");
    EXPECT_EQ(typist.type("\x1b\r\t"), "qqq\n    |");
    typist.type("\x03\t\t");  // at the beginning of a text: everything
    EXPECT_EQ(below().substr(0, 15), "scaled      sof");
}

TEST(EditDialogue, Pastes) {
    Typist typist;
    EXPECT_EQ(typist.type("a\x1b[200~b\r\nc\rd\n\n\x1b[201~"), "ab\nc\nd|");
    EXPECT_TRUE(typist.asked.empty());
    EXPECT_EQ(typist.type("\x1f"), "a|");
    EXPECT_EQ(transcript_inputs("let tegula = 1\ntegula[x]> 1", "tegula[3]> "), std::vector<std::string>{});
    EXPECT_EQ(transcript_inputs("output\n  tegula[12]> f(\n      ...>     1)  \n      ...>\nf32[3]\n      ...> no\ntegula[13]>\ntegula[14]> x",
                                "tegula[3]> "),
              (std::vector<std::string>{"f(\n    1)", "x"}));
    EXPECT_EQ(typist.type("\x15\x1b[200~tegula[1]> let x = 1\ntegula[2]> x\n1\ntegula[3]> y\x1b[201~"), "let x = 1|");
    EXPECT_EQ(typist.type("\r"), "x|");
    EXPECT_EQ(typist.type("+1\r"), "y|");
    EXPECT_EQ(typist.type("\r"), "|");
    EXPECT_EQ(typist.read, (std::vector<std::string>{"let x = 1", "x+1", "y"}));
    EXPECT_EQ(typist.type("\x1b[200~tegula[1]> a\ntegula[2]> b\x1b[201~\x03"), "|");
}

TEST(EditDialogue, Marks) {
    Typist typist;
    const auto marks = [&] {
        std::string out;
        for (const Mark& m : typist.dialogue.view(80, 24).marks) out += std::to_string(m.begin) + (m.style == Style::error ? "!" : " ");
        return out;
    };
    const std::pair<std::string_view, const char*> cases[] = {{"f(a[1])", "1 "}, {"f(a])", "4!"},        {"f(\"(\")", "1 "},
                                                              {")", "0!"},       {"(// )\x1b\r)", "0 "}, {"a", ""}};
    for (const auto& [keys, expected] : cases) {
        typist.type("\x03");
        typist.type(keys);
        EXPECT_EQ(marks(), expected) << keys;
    }
    typist.type("\x03[x]\x01");
    EXPECT_EQ(marks(), "2 ");
    typist.type("\x03scaled(");
    EXPECT_EQ(typist.dialogue.view(80, 24).hint, "  x, s, out y");
    typist.type("\x02");
    EXPECT_EQ(typist.dialogue.view(80, 24).hint, "");
}

TEST(EditHistory, File) {
    const std::string path = testing::TempDir() + "edit_history_test/" + std::to_string(::getpid()) + "/history";
    {
        History one(path), other(path);  // two sessions
        one.add("let x = 1");
        other.add("f(\n\xff\t\"\\)");
        one.add(" secret");
        one.add("let x = 1");
        one.add("  ");
        one.add("\u4e16");
        EXPECT_EQ(one.entries().size(), 2u);
        EXPECT_EQ(one.take_note() + other.take_note(), "");
    }
    EXPECT_EQ(History(path).entries(), (std::vector<std::string>{"let x = 1", "f(\n\ufffd\t\"\\)", "\u4e16"}));
    std::ofstream(path, std::ios::app) << "{\"no\": 1}\n\"unfinished\n\x01\xff\n\"\"\n[[[[\n\"last\"\n\"cut";
    History damaged(path);
    EXPECT_EQ(damaged.entries().size(), 4u);
    damaged.add("after");
    EXPECT_EQ(History(path).entries().back(), "after");
    {
        std::ofstream many(path, std::ios::trunc);
        for (int i = 0; i < 12'000; ++i) many << "\"entry " << i << "\"\n";
    }
    EXPECT_EQ(History(path).entries().size(), History::kMost);
    EXPECT_EQ(History(path).entries()[0], "entry 2000");
    std::ifstream kept(path);
    EXPECT_EQ(std::count(std::istreambuf_iterator<char>(kept), {}, '\n'), static_cast<long>(History::kMost));
    // A disk that is full: what was there stays whole.
    rlimit found{}, full{};
    ::getrlimit(RLIMIT_FSIZE, &found);
    full = {std::filesystem::file_size(path) + 3, found.rlim_max};
    const auto before = ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &full);
    {
        History crowded(path);
        crowded.add("too much");
        EXPECT_TRUE(crowded.take_note().find("large") != std::string::npos);
        crowded.add("more");
        EXPECT_EQ(crowded.take_note(), "");
        EXPECT_EQ(crowded.entries().back(), "more");
    }
    ::setrlimit(RLIMIT_FSIZE, &found);
    ::signal(SIGXFSZ, before);
    EXPECT_EQ(History(path).entries().back(), "entry 11999");
    for (const char* bad : {"/proc/no/history", "/dev/null", "/"}) {
        History none(bad);
        EXPECT_NE(none.take_note(), "") << bad;
        EXPECT_EQ(none.take_note(), "");
        none.add("x");
        EXPECT_EQ(none.entries().size(), 1u);
    }
}

// ---- screens ----

/// The model shows the frame, with the cursor where it belongs, nothing below it, and what was above as it was.
void expect_shows(const ScreenModel& screen, const Frame& frame, const std::string& what) {
    ASSERT_GE(screen.row, frame.row) << what;
    const size_t top = screen.row - frame.row;
    ASSERT_EQ(screen.column, frame.column) << what;
    for (size_t r = 0; r < frame.rows.size(); ++r) {
        ASSERT_LT(top + r, screen.height) << what;
        size_t column = 0;
        bool uncertain = false;
        for (const Cell& cell : frame.rows[r].cells) {
            const auto text = std::string_view(frame.rows[r].bytes).substr(cell.at, cell.bytes);
            uncertain |= cell.uncertain;
            std::string there;
            for (size_t c = column; c < column + cell.columns; ++c) there += screen.rows[top + r][c];
            if (!cell.uncertain) {
                ASSERT_EQ(there, text) << what << " row " << r << " column " << column;
            }
            column += cell.columns;
        }
        ASSERT_LE(column, screen.width) << what;
        for (; !uncertain && column < screen.width; ++column)
            ASSERT_EQ(screen.rows[top + r][column], " ") << what << " row " << r << " column " << column;
    }
    for (size_t r = top + frame.rows.size(); r < screen.height; ++r) ASSERT_TRUE(screen.is_blank(r)) << what << " row " << r;
    if (top > 0) {
        ASSERT_EQ(screen.rows[top - 1][0], "m") << what;
    }
}

TEST(EditScreen, RowsOfAText) {
    View view;
    view.text = "let a\n\tb\xff\u4e16";
    view.prompt = "tegula[1]> ";
    view.cursor = view.text.size();
    Layout layout;
    const auto rows = [&](size_t width, size_t height) {
        std::string out;
        const Frame frame = layout.frame(view, width, height);
        for (const Row& row : frame.rows) out += row.bytes + "\n";
        return out + std::to_string(frame.row) + "," + std::to_string(frame.column);
    };
    EXPECT_EQ(rows(80, 24), "tegula[1]> let a\n      ...>     b\\xff\u4e16\n1,22");
    EXPECT_EQ(rows(20, 24), "tegula[1]> let a\n      ...>     b\\xff\n\u4e16\n2,2");  // a wide one does not fit into the last column
    EXPECT_EQ(rows(80, 1), "      ...>     b\\xff\u4e16\n0,22");
    view.cursor = 0;
    EXPECT_EQ(rows(80, 1), "tegula[1]> let a\n0,11");
}

TEST(EditScreen, RepaintsLittle) {
    Typist typist;
    typist.type("kernel f() {\rlet x = 1;\rlet y = 2;");
    Painter painter(true);
    Layout layout;
    const auto paint = [&] { return painter.paint(layout.frame(typist.dialogue.view(80, 24), 80, 24)); };
    paint();
    typist.type(" ");
    EXPECT_EQ(paint(), " ");
    typist.type("z");
    EXPECT_EQ(paint(), "z");
    typist.type("\x02");
    EXPECT_LE(paint().size(), 10u);
    typist.type(
        "\x1b[A\x01"
        "7");  // a line is moved to the right by one
    EXPECT_LE(paint().size(), 90u);
    EXPECT_EQ(paint(), "");
}

/// One editor on one screen; everything random.
class Chaos {
public:
    explicit Chaos(uint64_t seed) : random(seed), screen(12 + random() % 60, 1 + random() % 20) {
        for (std::string& cell : screen.rows[0]) cell = "m";
        if (screen.height > 1)
            screen.row = 1;
        else
            screen.rows[0].assign(screen.width, " ");
    }
    std::string bytes() {
        constexpr std::string_view kPieces[] = {"\x1b[A",
                                                "\x1b[B",
                                                "\x1b[C",
                                                "\x1b[D",
                                                "\x1b[H",
                                                "\x1b[F",
                                                "\x1b[3~",
                                                "\r",
                                                "\x1b\r",
                                                "\t",
                                                "\x7f",
                                                "\x1b[200~",
                                                "\x1b[201~",
                                                "kernel f() {",
                                                "let x = 12",
                                                "(",
                                                ")",
                                                "}",
                                                "\"",
                                                "// ",
                                                "\u4e16\u754c",
                                                "e\u0301",
                                                "\U0001f468\u200d\U0001f469",
                                                "\u2764\ufe0f",
                                                "\u0301",
                                                "\xff",
                                                "\x1b",
                                                "\x1b[1;5",
                                                "s\t\t",
                                                "\t",
                                                "\x12",
                                                "\x0b",
                                                "\x19",
                                                "\x1f",
                                                "\x15",
                                                "\x17",
                                                "\x10",
                                                "\x0e",
                                                "a fairly long piece of text that wraps on most of the screens",
                                                "\x18",
                                                "\n",
                                                "\x1b[200~a\nb\tc\x1b[201~"};
        std::string out;
        for (size_t n = random() % 6 + 1; n > 0; --n) {
            if (random() % 4 == 0)
                out += static_cast<char>(random());
            else
                out += kPieces[random() % std::size(kPieces)];
        }
        return out;
    }
    std::mt19937_64 random;
    ScreenModel screen;
};

TEST(EditScreen, AnyKeysOnAnyScreen) {
    constexpr uint64_t kSeeds = tegula::test::is_sanitized() ? 200 : 2'000;  // 100,000 streams of bytes; every screen is compared
    const std::vector<std::string> past{"let x = 1", "kernel f() {\n    a\n}", "\u4e16 \x01 \xff"};
    for (uint64_t seed = 0; seed < kSeeds && !HasFailure(); ++seed) {
        Chaos chaos(seed);
        Typist typist(past);
        Painter painter(seed % 8 != 0);
        Layout layout;
        for (int stream = 0; stream < 50 && !HasFailure(); ++stream) {
            const std::string bytes = chaos.bytes();
            const size_t asked = typist.asked.size();
            typist.type(bytes);
            if (stream % 10 == 9) {
                std::vector<Press> out;
                typist.decoder.settle(out);
                for (const Press& press : out) typist.dialogue.press(press);
            }
            if (typist.asked.size() != asked) {
                chaos.screen.feed(chaos.random() % 2 ? painter.erase() : painter.leave() + "mmm\r\n");
                layout.reset();
            }
            const Frame frame = layout.frame(typist.dialogue.view(chaos.screen.width, chaos.screen.height), chaos.screen.width, chaos.screen.height);
            chaos.screen.feed(painter.paint(frame));
            const bool erased = chaos.screen.row > frame.row && chaos.screen.rows[chaos.screen.row - frame.row - 1][0] != "m";
            if (erased) chaos.screen.rows[chaos.screen.row - frame.row - 1][0] = "m";  // rows of texts that were left
            expect_shows(chaos.screen, frame, "seed " + std::to_string(seed) + " stream " + std::to_string(stream));
        }
    }
}

// ---- time ----

/// Colours by the library's scanner, as the console has them.
struct SessionClient : Client {
    tegula::Engine engine = tegula::Engine::create().value();
    tegula::Session session = engine.session().value();
    std::vector<Span> colours(std::string_view text) override {
        std::vector<Span> out;
        const auto answer = nlohmann::json::parse(session.ask("tokens", text).value());
        for (const auto& token : answer["tokens"])
            if (token["kind"] != "name") out.push_back({token["begin"], token["end"], Colour::keyword});
        return out;
    }
};

/// Of this thread: other programs do not count.
double own_milliseconds() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

TEST(EditScreen, KeyToScreen) {
    std::ifstream file(std::string(TEGULA_SOURCE_DIR) + "/stdlib/nn.tile");
    std::string text, line;
    for (int n = 0; n < 200 && std::getline(file, line); ++n) text += line + "\n";
    SessionClient client;
    History history;
    Dialogue dialogue(client, history, true);
    dialogue.begin("tegula[1]> ");
    dialogue.take(text);
    Painter painter(true);
    Layout layout;
    std::vector<double> times;
    for (int n = 0; n < 40; ++n) {
        std::vector<Press> presses;
        Decoder decoder;
        const double begin = own_milliseconds();
        decoder.feed(n % 2 ? "\x1b[A" : "x", presses);
        for (const Press& press : presses) dialogue.press(press);
        const std::string bytes = painter.paint(layout.frame(dialogue.view(120, 40), 120, 40));
        if (n % 2 == 0) times.push_back(own_milliseconds() - begin);
    }
    std::ranges::sort(times);
    std::printf("a key to the screen at 200 lines: %d us (median), %d us (most)\n", static_cast<int>(1000 * times[times.size() / 2]),
                static_cast<int>(1000 * times.back()));
#if !defined(__SANITIZE_ADDRESS__)
    EXPECT_LT(times[times.size() / 2], tegula::test::is_sanitized() ? 100 : 5);
#endif
}

}  // namespace
}  // namespace tegula_tool::edit
