// Sessions through the public header: what a console asks for, in the order in which a person would type it, and what hostile input gets.
#include <pthread.h>
#include <time.h>

#include <cstdlib>
#include <fstream>

#include "api_fixture.h"
#include "tests/unit/sample.h"

namespace {

using namespace api_test;

constexpr const char* kScaled = R"(/// Multiplies.
kernel scaled(x: tensor<f32>[N], s: f32, out y: tensor<f32>[N]) grid [cdiv(N, 4)] {
    let n = program_id(0) * 4;
    y[n +: 4] = x[n +: 4] * s;
})";

class Session : public Api {
protected:
    void SetUp() override {
        ASSERT_EQ(tegula_engine_new(nullptr, engine.out(), nullptr), TEGULA_OK);
        ASSERT_EQ(tegula_session_new(engine.get(), nullptr, session.out(), nullptr), TEGULA_OK);
    }
    tegula_status ask(const char* verb, const std::string& text = {}, size_t at = 0) {
        tegula::Ref<tegula_blob> json;
        Diags diags;
        const tegula_status status = tegula_session_do(session.get(), verb, nullptr, text.data(), text.size(), at, &options, json.out(), diags.out());
        answer = json ? tegula_blob_data(json.get(), nullptr) : "";
        said = ::api_test::text(diags);
        EXPECT_EQ(status == TEGULA_OK, json.get() != nullptr);
        if (const char* path = std::getenv("TEGULA_SESSION_ANSWERS"); path && json)  // answers.py compares them with their schema
            std::ofstream(path, std::ios::app) << verb << "\t" << answer;
        return status;
    }
    tegula_status eval(const std::string& text) { return ask("eval", text); }
    /// The text of the value that an input shows.
    std::string shown(const std::string& text) {
        EXPECT_EQ(eval(text), TEGULA_OK) << text << "\n" << said;
        const size_t at = answer.rfind(",\"text\":\"");
        return at == answer.npos ? "" : answer.substr(at + 9, answer.rfind('"') - at - 9);
    }
    std::string state(const std::string& text) {
        ask("is_complete", text);
        const size_t at = answer.find("\"state\":\"") + 9;
        return answer.substr(at, answer.find('"', at) - at);
    }
    tegula::Ref<tegula_session> session;
    tegula_run_options options = [] {
        tegula_run_options o;
        tegula_run_options_init(&o, sizeof o);
        o.machine = "interp";
        return o;
    }();
    std::string answer, said;
};

TEST_F(Session, ItemsStatementsAndExpressionsInOneText) {
    EXPECT_EQ(shown(std::string("let x = arange<f32>[5]();\n") + kScaled + "\nlet y = empty<f32>[5]; scaled(x, 3.0, y); y"), "[ 0   3   6   9  12]");
    EXPECT_TRUE(contains(answer, "\"items\":[{\"kind\":\"kernel\",\"name\":\"scaled\",\"replaced\":false}]")) << answer;
    EXPECT_TRUE(contains(answer, "\"variables\":[\"x\",\"y\"]")) << answer;
    EXPECT_TRUE(contains(
        answer, "\"type\":\"f32[5]\",\"element\":\"f32\",\"layout\":\"row\",\"extents\":[5],\"bytes\":20,\"written\":true,\"elements\":[0,3,6,9,12]"))
        << answer;
    EXPECT_EQ(shown("y[3]"), "9");
    EXPECT_EQ(shown("ans + _1[1]"), "12");
    EXPECT_EQ(shown("x;"), "");
    EXPECT_TRUE(contains(answer, "\"value\":null"));
    EXPECT_EQ(shown("let (a, b) = (7, true)"), "");
    EXPECT_EQ(shown("(a, b, 18446744073709551615, \"q\")"), R"((7, true, 18446744073709551615, \"q\"))");
    EXPECT_EQ(shown("var n = 0; for i in 0 .. 5 { n = n + i; } n"), "10");
    EXPECT_EQ(shown("n = n + 1"), "");  // the end of the text ends a statement
    EXPECT_EQ(shown("n"), "11");
    EXPECT_EQ(eval("var m = 0\nm"), TEGULA_E_SOURCE);  // a line break does not
    EXPECT_EQ(eval("let k = 1; k = 2;"), TEGULA_E_SOURCE);
    EXPECT_EQ(eval("a = 2"), TEGULA_E_SOURCE) << "declared with `let`, in another input";
    EXPECT_TRUE(contains(said, "<input 12>:1:1") && contains(said, "<input 5>:1:6")) << said;
    EXPECT_EQ(shown("let a = a + 1.5; a"), "8.5");
    EXPECT_EQ(shown("import std.nn"), "");
    EXPECT_EQ(shown("nn.relu(full<f16>[2](-1.0))"), "[0  0]");
    EXPECT_EQ(shown("zeros<f32>[40, 50]()").substr(0, 20), "[[0  0  0  ..  0  0 ");
    EXPECT_FALSE(contains(answer, "\"elements\"")) << answer;
    EXPECT_TRUE(contains(answer, "\"type\":\"f32[40, 50]\"")) << answer;
}

TEST_F(Session, ShowTellsCodesAndPlacesAndPutsEverythingBack) {
    ASSERT_EQ(eval(std::string("let y = zeros<f32>[5](); var n = 1;") + kScaled), TEGULA_OK) << said;
    ASSERT_EQ(ask("show", "n = 7; scaled(arange<f32>[5](), 2.0, y); let z = 3; y"), TEGULA_OK) << said;
    EXPECT_TRUE(contains(answer, "\"elements\":[0,2,4,6,8]") && contains(answer, "\"codes\":[0,1073741824,1082130432,1086324736,1090519040]"))
        << answer;
    EXPECT_TRUE(contains(answer, "\"places\":[0,32,64,96,128]")) << answer;
    EXPECT_EQ(shown("(n, y)"), "(1, [0  0  0  0  0])");
    EXPECT_EQ(eval("z"), TEGULA_E_SOURCE);
    EXPECT_EQ(ask("show", "nosuch(2)"), TEGULA_E_SOURCE);
    ASSERT_EQ(ask("show", "let q = 1;"), TEGULA_OK);
    EXPECT_TRUE(contains(answer, "\"value\":null")) << answer;
    // Packed elements in another order, also where nothing is written.
    ASSERT_EQ(ask("show", "empty<u3>[3, 5] @ col"), TEGULA_OK) << said;
    EXPECT_TRUE(contains(answer, "\"places\":[0,16,32,48,64,3,19,35,51,67,6,22,38,54,70]") && contains(answer, "\"written\":false")) << answer;
    EXPECT_FALSE(contains(answer, "\"codes\"")) << answer;
    ASSERT_EQ(ask("show", "full<i3>[2](-3)"), TEGULA_OK) << said;
    EXPECT_TRUE(contains(answer, "\"codes\":[5,5]") && contains(answer, "\"lowest\":-4,\"largest\":3")) << answer;
}

TEST_F(Session, LongTensorsHaveTheirEndsAndBlocksTheirScales) {
    ASSERT_EQ(eval("arange<f64>[7, 143]()"), TEGULA_OK) << said;
    EXPECT_TRUE(contains(answer, "\"edge\":3,\"edges\":[0,1,2,140,141,142,143,144,145,283,")) << answer;
    EXPECT_TRUE(contains(answer, ",998,999,1000]")) << answer;
    EXPECT_FALSE(contains(answer, "\"elements\"")) << answer;
    ASSERT_EQ(eval("zeros<i8>[3, 3, 3, 3, 3, 3, 3]()"), TEGULA_OK) << said;  // ends that together were more than all of it
    EXPECT_TRUE(contains(answer, "\"edge\":1")) << answer;
    ASSERT_EQ(eval("full<f32>[2](-0.0)"), TEGULA_OK);
    EXPECT_TRUE(contains(answer, "\"elements\":[-0.0,-0.0]")) << answer;
    ASSERT_EQ(eval("type blocks = block<f4e2m1, 4, scale = f8e8m0>; cast<blocks>(arange<f32>[8](start = -6.0, step = 2.0))"), TEGULA_OK) << said;
    EXPECT_TRUE(contains(answer, "\"scales\":{\"type\":\"f8e8m0\",\"extents\":[2],\"elements\":[1,")) << answer;
    EXPECT_TRUE(contains(answer, "\"kind\":\"block\",\"block\":4,\"element\":{\"name\":\"f4e2m1\"")) << answer;
    ASSERT_EQ(eval("blocks"), TEGULA_OK);
    EXPECT_TRUE(contains(answer, "\"kind\":\"type\",\"type\":\"type\",\"format\":{")) << answer;
    ASSERT_EQ(eval("const A = 1; const B = 2;"), TEGULA_OK);
    ASSERT_EQ(eval("const B = 3; const C = 2;"), TEGULA_OK);
    EXPECT_TRUE(contains(answer, "\"name\":\"B\",\"replaced\":true,\"former\":6},{\"kind\":\"const\",\"name\":\"C\",\"replaced\":false}")) << answer;
}

TEST_F(Session, InputsWithErrorsChangeNothing) {
    ASSERT_EQ(eval(std::string("let x = ones<f32>[3](); let y = zeros<f32>[3](); var n = 1;") + kScaled), TEGULA_OK) << said;
    for (const char* text : {
             "n = 5; nosuch(x)",                                     // a name
             "n = 5; let z = n + ones<f32>[2]() + ones<f32>[3]();",  // a shape, seen when it runs
             "scaled(x, 2.0, y); assert(y[0] == 7.0)",               // a failed assertion behind a launch
             "scaled(x, 2.0, y); n = 5; load_npy(\"nosuch.npy\")",
             "fn f(a) { return a; } n = 5; scaled(x, 2.0)",
             "kernel scaled(x: tensor<f32>[N]) grid [1] { nosuch(); } n = 5;",
             "n = 5; let",
             "const N = 4; n = 5; let w = N + true;",
         }) {
        EXPECT_NE(eval(text), TEGULA_OK) << text;
        EXPECT_TRUE(contains(said, "error[T") && contains(said, "<input")) << text << "\n" << said;
        EXPECT_EQ(shown("n"), "1") << text;
        EXPECT_EQ(shown("y"), "[0  0  0]") << text;
        EXPECT_EQ(eval("f"), TEGULA_E_SOURCE);
        EXPECT_EQ(eval("N"), TEGULA_E_SOURCE);
        EXPECT_EQ(shown("scaled(x, 2.0, empty<f32>[3])"), "");
    }
}

TEST_F(Session, ItemsReplaceFormerOnesAndWhatDependsOnThemIsChecked) {
    ASSERT_EQ(eval("fn twice<T: number>(v: T) -> T { return v + v; }"), TEGULA_OK) << said;
    ASSERT_EQ(eval("kernel k(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [N] { let i = program_id(0); y[i] = twice(x[i]); }"), TEGULA_OK) << said;
    ASSERT_EQ(eval("let x = full<f32>[3](5.0); let y = empty<f32>[3]; k(x, y);"), TEGULA_OK) << said;
    EXPECT_EQ(shown("y"), "[10  10  10]");
    ASSERT_EQ(eval("fn twice<T: number>(v: T) -> T { return v + v + v; }"), TEGULA_OK) << said;
    EXPECT_TRUE(contains(answer, "\"replaced\":true"));
    EXPECT_EQ(shown("k(x, y); y"), "[15  15  15]");
    // Other parameters break the kernel, and both together do not.
    const std::string other = "fn twice<T: number>(v: T, w: T) -> T { return v + w; }";
    EXPECT_EQ(eval(other), TEGULA_E_SOURCE);
    EXPECT_TRUE(contains(said, "<input 2>") && contains(said, "kernel `k` depends on what this input replaces")) << said;
    EXPECT_EQ(shown("k(x, y); y"), "[15  15  15]");
    EXPECT_EQ(
        shown(other + "kernel k(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [N] { let i = program_id(0); y[i] = twice(x[i], 1.0); } k(x, y); y"),
        "[6  6  6]");
    // A type of another meaning: values of the former one keep it.
    EXPECT_EQ(shown("type mine = float<3, 4>; let m = full<mine>[2](1.5); m"), "[1.5  1.5]");
    EXPECT_EQ(shown("type mine = float<2, 1>; (m[0], full<mine>[1](3.0))"), "(1.5, [3])");
    // An item takes the place of a variable of its name.
    EXPECT_EQ(shown("let half = 3; half"), "3");
    EXPECT_EQ(shown("fn half(v: f32) -> f32 { return v * 0.5; } half(3.0)"), "1.5");
    ASSERT_EQ(ask("items"), TEGULA_OK);
    tegula::Ref<tegula_module> all;
    EXPECT_TRUE(contains(answer, "\"text\":\"fn twice<T: number>(v: T, w: T)")) << answer;
    tegula::Ref<tegula_blob> source;
    ASSERT_EQ(tegula_session_module(session.get(), all.out(), nullptr), TEGULA_OK);
    ASSERT_EQ(tegula_module_artifact(all.get(), "fmt", source.out(), nullptr), TEGULA_OK);
    size_t size = 0;
    const char* saved = tegula_blob_data(source.get(), &size);
    Diags diags;
    tegula::Ref<tegula_module> loaded;
    EXPECT_EQ(tegula_module_from_source(engine.get(), "saved.tile", saved, size, loaded.out(), diags.out()), TEGULA_OK) << text(diags);
}

TEST_F(Session, UndoAndReset) {
    ASSERT_EQ(eval(kScaled), TEGULA_OK) << said;
    ASSERT_EQ(eval("let x = ones<f32>[4](); let y = zeros<f32>[4](); let alias = y; var n = 1;"), TEGULA_OK) << said;
    ASSERT_EQ(eval("scaled(x, 2.0, y); n = 2; scaled(x, 3.0, x);"), TEGULA_OK) << said;
    ASSERT_EQ(eval("let n = \"text\"; scaled(x, 5.0, y); let z = y[0];"), TEGULA_OK) << said;
    EXPECT_EQ(shown("(n, y[1], x[2], alias[0], z)"), R"((\"text\", 15, 3, 15, 15))");
    for (const char* number : {"5", "4"}) {
        ASSERT_EQ(ask("undo"), TEGULA_OK);
        EXPECT_TRUE(contains(answer, std::string("\"undone\":") + number)) << answer;
    }
    EXPECT_EQ(shown("(n, y[1], x[2], alias[0])"), "(2, 2, 3, 2)");
    EXPECT_EQ(eval("z"), TEGULA_E_SOURCE);
    ask("undo"), ask("undo");
    EXPECT_EQ(shown("(n, y[1], x[2], alias[0])"), "(1, 0, 1, 0)");
    ask("undo"), ask("undo"), ask("undo");
    EXPECT_EQ(eval("scaled"), TEGULA_E_SOURCE);
    ask("undo");
    EXPECT_TRUE(contains(answer, "\"undone\":null")) << answer;
    ASSERT_EQ(eval("let q = 1;"), TEGULA_OK);
    ASSERT_EQ(ask("reset"), TEGULA_OK);
    EXPECT_EQ(eval("q"), TEGULA_E_SOURCE);
    ASSERT_EQ(ask("variables"), TEGULA_OK);
    EXPECT_EQ(answer, "{\"schema\":1,\"variables\":[]}\n");
    ASSERT_EQ(ask("history"), TEGULA_OK);
    EXPECT_TRUE(contains(answer, "\"status\":\"failed\",\"text\":\"q\"")) << answer;
}

TEST_F(Session, IsComplete) {
    for (const char* text : {"", "x", "let x = 3", "let x = 3;", "fn f(a: f32) -> f32 { return a; }", "if a { f(); }", "/* c */ 1 + 2",
                             "import std.nn", "// comment", "f(1)\n", "kernel k() grid [1] { } k()"})
        EXPECT_EQ(state(text), "complete") << text;
    for (const char* text : {"let x =", "1 +", "f(a,", "/* open", "fn f(a: f32)", "fn f() {", "kernel k()", "kernel k() grid [1] {\n let a = 1;",
                             "[1, 2", "if a {", "import", "x.", "for i in 0 .. 4", "if a { } else", "f<a, ", "f<f32, 3", "let x = f<a, g<b,",
                             "f(1, g<i8,\n    f<", "type t = block<f4e2m1,"})
        EXPECT_EQ(state(text), "incomplete") << text;
    for (const char* text : {"let = 3;", "1 + )", "\"open", "}", "fn f( { ]", "let x = 3 4", "x = = 3; fn f() {", "\xff", "f(\"open, ", "a < b, c)",
                             "f<a, ;", "a < b, c; d"})
        EXPECT_EQ(state(text), "invalid") << text;
    ask("is_complete", "fn f() {\n  if a {");
    EXPECT_TRUE(contains(answer, "\"indent\":8")) << answer;
}

TEST_F(Session, Tokens) {
    // The text with each token as kind:text.
    const auto tokens = [&](const std::string& text) {
        EXPECT_EQ(ask("tokens", text), TEGULA_OK);
        std::string out;
        size_t end = 0;
        for (size_t at = 0; (at = answer.find("{\"begin\":", at)) != answer.npos; ++at) {
            const auto number = [&](const char* key) { return std::stoull(answer.substr(answer.find(key, at) + std::string(key).size())); };
            const size_t begin = number("\"begin\":"), kind = answer.find("\"kind\":\"", at) + 8;
            EXPECT_LE(end, begin);
            EXPECT_EQ(text.substr(end, begin - end).find_first_not_of(" \t\r\n"), text.npos) << text;
            end = number("\"end\":");
            EXPECT_LT(begin, end);
            out += answer.substr(kind, answer.find('"', kind) - kind) + ":" + text.substr(begin, end - begin) + " ";
        }
        EXPECT_EQ(text.find_first_not_of(" \t\r\n", end), text.npos) << text;
        return out;
    };
    EXPECT_EQ(tokens("let x = 0x1F + 1.5;"), "keyword:let name:x operator:= number:0x1F operator:+ number:1.5 operator:; ");
    EXPECT_EQ(tokens("for i in a @unroll(2)"), "keyword:for name:i keyword:in name:a attribute:@ attribute:unroll bracket:( number:2 bracket:) ");
    EXPECT_EQ(tokens("empty<f32>[3]"), "function:empty bracket:< type:f32 bracket:> bracket:[ number:3 bracket:] ");
    EXPECT_EQ(tokens("x @ col // y"), "name:x operator:@ layout:col comment:// y ");
    EXPECT_EQ(tokens("struct P { a: f16 } p.a.b(1)"),
              "keyword:struct type:P bracket:{ name:a operator:: type:f16 bracket:} name:p operator:. name:a operator:. function:b bracket:( "
              "number:1 bracket:) ");
    EXPECT_EQ(tokens("let sum = sum(x); inf"), "keyword:let name:sum operator:= name:sum bracket:( name:x bracket:) operator:; constant:inf ");
    // What is not whole, and what is none.
    EXPECT_EQ(tokens("f(\"open"), "function:f bracket:( string:\"open ");
    EXPECT_EQ(tokens("1 /* open\n x "), "number:1 comment:/* open\n x ");
    EXPECT_EQ(tokens("a \xff\xfe b\n"), "name:a invalid:\xff\xfe name:b ");
    EXPECT_EQ(tokens(std::string("a\0b", 3)), std::string("name:a invalid:\0 name:b ", 24));
    EXPECT_EQ(tokens("\xef\xbb\xbfx \xe2\x82\xac # y"), "invalid:\xef\xbb\xbf name:x invalid:\xe2\x82\xac # y ");
    EXPECT_EQ(tokens(" "), "");
    EXPECT_TRUE(contains(tokens(std::string(300, '(') + "x"), "invalid:(")) << answer.substr(0, 100);
    // What the session knows.
    ASSERT_EQ(eval(std::string(kScaled) + "type word = u8; layout mine[i: M, j: N] = (j, i); const LEN = 3; import std.nn; let v = 1"), TEGULA_OK)
        << said;
    EXPECT_EQ(tokens("scaled word LEN nn mine v relu clamp"),
              "function:scaled type:word constant:LEN module:nn layout:mine name:v name:relu name:clamp ");
}

TEST_F(Session, ValuesGoInAndOut) {
    const auto value = [&](const char* name, const tegula_value* set, tegula_value* get, tegula::Ref<tegula_blob>& storage) {
        Diags diags;
        const tegula_status status = tegula_session_value(session.get(), name, set, get, storage.out(), diags.out());
        said = ::api_test::text(diags);
        return status;
    };
    ASSERT_EQ(eval("type mx = block<f4e2m1, 32, scale = f8e8m0>; layout panels[i: M, j: N] = (i / 2, j, i % 2);"), TEGULA_OK) << said;
    tegula::Ref<tegula_blob> storage;
    tegula_value got{};
    const Owned<float> x("f32", {2, 3}, {1, 2, 3, 4, 5, 6});
    const tegula_value given = tensor(x.c);
    ASSERT_EQ(value("x", &given, &got, storage), TEGULA_OK) << said;
    ASSERT_EQ(got.kind, TEGULA_TENSOR);
    EXPECT_EQ(std::string(got.tensor->type), "f32");
    EXPECT_EQ(got.tensor->rank, 2);
    EXPECT_EQ(got.tensor->extents[1], 3);
    EXPECT_EQ(std::memcmp(got.tensor->data, x.bytes.data(), 24), 0);
    // A copy: later inputs do not reach it, nor what the host does to its own the session.
    static_cast<float*>(got.tensor->data)[0] = 7;
    EXPECT_EQ(shown("x[0, 0]"), "1");
    // Strides, packed codes, another layout, blocks with scales: in and out again.
    const int64_t strides[] = {1, 2};
    tegula_tensor turned = x.c;
    turned.strides = strides;
    const tegula_value columns = tensor(turned);
    ASSERT_EQ(value("c", &columns, nullptr, storage), TEGULA_OK) << said;
    EXPECT_EQ(shown("c"), "[[1  3  5]\\n [2  4  6]]");
    ASSERT_EQ(eval("let i = full<i3>[5](-3); let p = x @ panels; let m = cast<mx>(full<f32>[2, 64](1.5));"), TEGULA_OK) << said;
    for (const char* name : {"i", "p", "m"}) {
        ASSERT_EQ(value(name, nullptr, &got, storage), TEGULA_OK) << name << said;
        tegula::Ref<tegula_blob> again;
        tegula_value back{};
        ASSERT_EQ(value("back", &got, &back, again), TEGULA_OK) << name << said;
        EXPECT_EQ(std::string(back.tensor->type), got.tensor->type);
        EXPECT_EQ(std::string(back.tensor->layout), got.tensor->layout);
        ASSERT_EQ(back.tensor->bytes, got.tensor->bytes);
        EXPECT_EQ(std::memcmp(back.tensor->data, got.tensor->data, got.tensor->bytes), 0);
        EXPECT_EQ(shown("back"), shown(name));
    }
    EXPECT_EQ(got.tensor->scales_bytes, 4u);
    // Another layout by the name of the one that a value has is not taken for it.
    ASSERT_EQ(eval("layout panels[i: M, j: N] = (j, i);"), TEGULA_OK) << said;
    ASSERT_EQ(value("p", nullptr, &got, storage), TEGULA_OK) << said;
    tegula::Ref<tegula_blob> again;
    EXPECT_EQ(value("back", &got, nullptr, again), TEGULA_E_ARGUMENTS);
    const tegula_value big = [] {
        tegula_value v = integer(-1);
        v.kind = TEGULA_UINT;
        return v;
    }();
    ASSERT_EQ(value("u", &big, &got, storage), TEGULA_OK);
    EXPECT_EQ(got.kind, TEGULA_UINT);
    EXPECT_EQ(shown("u"), "18446744073709551615");
    const tegula_value half = real(0.5);
    ASSERT_EQ(value("r", &half, &got, storage), TEGULA_OK);
    EXPECT_EQ(got.r, 0.5);
    ASSERT_EQ(eval("let t = (1, 2); let s = \"text\"; let b = true; let T = mx;"), TEGULA_OK) << said;
    EXPECT_EQ(value("t", nullptr, &got, storage), TEGULA_E_ARGUMENTS);
    EXPECT_TRUE(contains(said, "a tuple")) << said;
    EXPECT_EQ(value("nosuch", nullptr, &got, storage), TEGULA_E_ARGUMENTS);
    ASSERT_EQ(value("T", nullptr, &got, storage), TEGULA_OK);
    EXPECT_EQ(got.kind, TEGULA_TYPE);
    ASSERT_EQ(ask("undo"), TEGULA_OK);
    EXPECT_EQ(value("T", nullptr, &got, storage), TEGULA_E_ARGUMENTS);
    for (const char* name : {"", " a", "a b", "1", "let", "_", "f(x)", "a.b", "\xff", "x // "})
        EXPECT_EQ(value(name, &half, nullptr, storage), TEGULA_E_ARGUMENTS) << name;
}

/// The candidates at the end of a text, between blanks.
std::string candidates(const std::string& answer) {
    std::string out;
    const std::string key = "{\"text\":\"";
    for (size_t at = answer.find(key); at != answer.npos; at = answer.find(key, at + 1)) {
        const size_t begin = at + key.size();
        out += (out.empty() ? "" : "|") + answer.substr(begin, answer.find('"', begin) - begin);
    }
    return out;
}

TEST_F(Session, Complete) {
    ASSERT_EQ(
        eval(std::string(
                 "import std.nn; const wide = 4; struct Pair { first: f32, second: i32 } layout wavy[i: M, j: N] = (j, i); type wee = float<3, 2>; "
                 "let width = 3; let t = (1, (2.0, true)); let w = ones<f32>[3](); fn wobble<T: number>(wx: T, by: T) -> T { return wx * by; }") +
             kScaled),
        TEGULA_OK)
        << said;
    const auto at_end = [&](const std::string& text) {
        EXPECT_EQ(ask("complete", text, text.size()), TEGULA_OK) << text << said;
        return candidates(answer);
    };
    EXPECT_EQ(at_end("wi"), "width|wide");
    EXPECT_TRUE(contains(answer, "\"begin\":0,\"end\":2,")) << answer;
    EXPECT_TRUE(contains(answer, "{\"text\":\"width\",\"kind\":\"variable\",\"type\":\"int\",\"doc\":\"\"}")) << answer;
    EXPECT_EQ(at_end("w = wob"), "wobble");
    EXPECT_TRUE(contains(answer, "fn wobble<T: number>(wx: T, by: T) -> T")) << answer;
    EXPECT_EQ(at_end("wh"), "while");
    EXPECT_EQ(at_end("1 + wh"), "");
    EXPECT_EQ(at_end("1 + progr"), "program_id");
    EXPECT_TRUE(contains(answer, "\"kind\":\"builtin\"")) << answer;
    EXPECT_EQ(at_end("let x = randi"), "randint");
    EXPECT_EQ(at_end("nn.sof"), "softmax|softmax_rows|softplus");
    EXPECT_EQ(at_end("t."), "0|1");
    EXPECT_TRUE(contains(answer, "\"type\":\"(real, bool)\"")) << answer;
    EXPECT_EQ(at_end("t.1."), "0|1");
    EXPECT_EQ(at_end("f(x).sec"), "second");
    EXPECT_EQ(at_end("import st"), "std");
    EXPECT_EQ(at_end("import std.qua"), "quant");
    EXPECT_EQ(at_end("w @ wa"), "wavy");
    EXPECT_EQ(at_end("w @ ro"), "row");
    EXPECT_EQ(at_end("cast<we"), "wee");
    EXPECT_EQ(at_end("scaled("), at_end("scaled(")) << "the same each time";
    EXPECT_EQ(candidates(answer).substr(0, 24), "x = |s = |y = |t|w|width") << answer;
    EXPECT_EQ(at_end("scaled(w, y = w, s").substr(0, 19), "s = |scaled|sigmoid") << answer;
    EXPECT_EQ(at_end("kernel k() grid [1] wh"), "where");
    EXPECT_EQ(at_end("nn.softmax(w, ax"), "axis = ");
    EXPECT_EQ(at_end("sum(w, ax"), "axis = ");
    // What the text itself declares, as far as it is typed.
    const std::string kernel =
        "kernel k<BLOCK: int>(in_x: tensor<f32>[ROWS], out in_y: tensor<f32>[ROWS]) grid [1] {\n let in_z = in_x[0];\n for in_i in 0 .. 4 { let in_c "
        "= 1; }\n"
        " if in_z > 1.0 { let in_b = 2;\n  ";
    EXPECT_EQ(at_end(kernel + "in_"), "in_b|in_z|in_x|in_y");
    EXPECT_TRUE(contains(answer, "{\"text\":\"in_y\",\"kind\":\"parameter\",\"type\":\"out tensor<f32>[ROWS]\"")) << answer;
    EXPECT_EQ(at_end(kernel + "BLO"), "BLOCK");
    EXPECT_EQ(at_end(kernel + "ROW"), "ROWS");
    EXPECT_EQ(at_end("kernel k() grid [1] @ war"), "warps");
    EXPECT_EQ(at_end("let inner = 3; inn"), "inner");
    for (const char* text : {"let wi", "// wi", "/* wi", "\"wi", "12", "x.5wi", "fn wi", "1wi", "\xff wi"}) EXPECT_EQ(at_end(text), "") << text;
    ASSERT_EQ(ask("complete", "wixyz + 1", 2), TEGULA_OK);
    EXPECT_EQ(candidates(answer), "width|wide");
    EXPECT_EQ(ask("complete", "wi", 3), TEGULA_E_USAGE);
}

TEST_F(Session, Inspect) {
    ASSERT_EQ(eval("import std.nn;"), TEGULA_OK);
    ASSERT_EQ(eval(std::string("let x = ones<f32>[3, 5]();\n") + kScaled), TEGULA_OK) << said;
    const auto at = [&](const std::string& text, size_t byte) {
        EXPECT_EQ(ask("inspect", text, byte), TEGULA_OK) << said;
        return answer;
    };
    EXPECT_TRUE(contains(at("1 + scaled(x)", 7), "\"begin\":4,\"end\":10,\"found\":{\"kind\":\"kernel\",\"name\":\"scaled\"")) << answer;
    EXPECT_TRUE(contains(answer, "\"doc\":\"Multiplies.\"") && contains(answer, "grid [cdiv(N, 4)]") &&
                contains(answer, "{\"name\":\"<input 2>\",\"line\":3,\"column\":8}"))
        << answer;
    EXPECT_TRUE(contains(at("x", 1), "\"kind\":\"variable\",\"name\":\"x\",\"type\":\"f32[3, 5]\"")) << answer;
    EXPECT_TRUE(contains(answer, "\"extents\":[3,5],\"bytes\":60") && contains(answer, "{\"name\":\"<input 2>\",\"line\":1,\"column\":5}")) << answer;
    EXPECT_TRUE(contains(at("nn.softmax(x)", 5), "\"module\":\"std.nn\"") && contains(answer, "fn softmax")) << answer;
    EXPECT_TRUE(contains(at("sum(x)", 1), "\"kind\":\"builtin\"") && contains(answer, "fixed-tree sum")) << answer;
    EXPECT_TRUE(contains(at("randn<f32>[3]()", 8), "\"kind\":\"type\",\"name\":\"f32\",\"type\":\"\",\"doc\":\"IEEE binary32\"")) << answer;
    EXPECT_TRUE(contains(at("while", 1), "\"kind\":\"keyword\"")) << answer;
    // Of the text itself: parameters hide variables.
    EXPECT_TRUE(contains(at("fn g(x: i32) -> i32 { return x; }", 30), "\"kind\":\"parameter\",\"name\":\"x\",\"type\":\"i32\"")) << answer;
    EXPECT_TRUE(contains(at("/// Own.\nfn g(x: i32) -> i32 { return x; } g(1)", 43), "\"doc\":\"Own.\"")) << answer;
    for (const char* text : {"", " ", "nosuch", "+", "\"x\"", "7"}) EXPECT_TRUE(contains(at(text, 0), "\"found\":null")) << text << answer;
    // Neither comments nor strings speak of names, also where they are not closed; behind them code goes on.
    for (const auto& [text, byte] : {std::pair("1 // x", 6), std::pair("/* x */ 1", 3), std::pair("/* x", 4), std::pair("\"see x here\"", 5),
                                     std::pair("\"see x", 5), std::pair("1; // x\n2", 6)})
        EXPECT_TRUE(contains(at(text, static_cast<size_t>(byte)), "\"found\":null")) << text << answer;
    EXPECT_TRUE(contains(at("/* x */ x", 9), "\"kind\":\"variable\"")) << answer;
    EXPECT_TRUE(contains(at("// x\nx", 6), "\"kind\":\"variable\"")) << answer;
}

TEST_F(Session, StructsHaveTheirFields) {
    ASSERT_EQ(eval("struct Point { x: f32, y: f32 } struct Box<T: any> { at: Point, what: T } struct Two { first: Point, second: Point }\n"
                   "fn norm(p: Point) -> f32 { return p.x * p.x + p.y * p.y; } fn swap(b: Box<f32>) -> Point { return Point(b.at.y, b.at.x); }"),
              TEGULA_OK)
        << said;
    EXPECT_EQ(shown("let p = Point(3.0, y = 4.0); p"), "Point(x = 3, y = 4)");
    EXPECT_TRUE(contains(answer, "\"names\":[\"x\",\"y\"]") && contains(answer, "\"type\":\"Point\"")) << answer;
    EXPECT_EQ(shown("p.x + p.y"), "7");
    EXPECT_EQ(shown("norm(p)"), "25");
    EXPECT_EQ(shown("let b = Box(p, 0.5); (b.at.x, b.what, swap(b).x)"), "(3, 0.5, 4)");
    EXPECT_EQ(shown("let many = (p, Two(p, p)); (many.0.y, many.1.second.x, norm(many.1.first))"), "(4, 3, 25)");
    EXPECT_EQ(shown("let (px, py) = p; px - py"), "-1");
    EXPECT_EQ(shown("let t = Box(p, arange<f32>[5]()); t.what[2] + t.what"), "[2  3  4  5  6]");
    // A field is what it was made of: a launch writes into it.
    EXPECT_EQ(shown("kernel fill(out z: tensor<f32>[N]) grid [N] { z[program_id(0)] = 7.0; } fill(t.what); t.what"), "[7  7  7  7  7]");
    for (const char* wrong : {"p.z", "p.0", "b.at.z", "many.2", "t.what.x", "p[0]"}) EXPECT_EQ(eval(wrong), TEGULA_E_SOURCE) << wrong;
    EXPECT_TRUE(ask("complete", "b.at.", 5) == TEGULA_OK && contains(answer, "{\"text\":\"x\",\"kind\":\"field\",\"type\":\"f32\"")) << answer;
    EXPECT_TRUE(ask("type", "(p.x, b.at)") == TEGULA_OK && contains(answer, "\"type\":\"(f32, Point)\"")) << answer;
    // Values keep the struct that they were made with, copies of them too.
    EXPECT_EQ(shown("struct Point { x: f32, y: f32, z: f32 } fn norm(p: Point) -> f32 { return p.z; } "
                    "fn swap(b: Box<f32>) -> Point { return b.at; } p.y"),
              "4");
    EXPECT_EQ(shown("let q = (p, 1); let r = q.0; r.x"), "3");
    EXPECT_EQ(eval("norm(p)"), TEGULA_E_SOURCE);
    EXPECT_EQ(shown("norm(Point(1.0, 2.0, 8.0))"), "8");
    ASSERT_EQ(ask("undo"), TEGULA_OK);
    ASSERT_EQ(ask("reset"), TEGULA_OK);
}

TEST_F(Session, StatementsReturnNothing) {
    for (const char* text : {"return 5;", "return 5", "let x = 1; return x + 1;", "if true { return 7; }", "test \"t\" { return 3; }",
                             "for i in 0 .. 3 { return i; }"}) {
        EXPECT_EQ(eval(text), TEGULA_E_SOURCE) << text;
        EXPECT_TRUE(contains(said, "T0227") && contains(said, "host statements cannot return a value")) << said;
    }
    EXPECT_EQ(shown("var n = 1; if n == 1 { return; } n = 2;"), "");
    EXPECT_EQ(shown("n"), "1");
}

TEST_F(Session, TypeRunsNothing) {
    ASSERT_EQ(eval(std::string(kScaled) + "let x = ones<f32>[3, 5](); var n = 1;"), TEGULA_OK) << said;
    EXPECT_EQ(ask("type", "x + 1.0"), TEGULA_OK) << said;
    EXPECT_EQ(answer,
              "{\"schema\":1,\"value\":{\"kind\":\"tensor\",\"type\":\"f32[3, 5]\",\"element\":\"f32\",\"layout\":\"row\",\"extents\":[3,5]}}\n");
    for (const auto& [text, type] :
         {std::pair("n = 7; while true { } (n, sum(x, axis = 0), \"t\")", "\"type\":\"(int, f32[5], text)\""),
          std::pair("let y = cast<i8>(x); (y, 2.5)", "\"type\":\"(i8[3, 5], real)\""), std::pair("x @ col", "\"type\":\"f32[3, 5] @ col\""),
          std::pair("scaled(x[0 +: 1, 0 +: 5], 1.0, x)", ""), std::pair("fn f(a: f32) -> f16 { return cast<f16>(a); } f(1.0)", "\"type\":\"f16\""),
          std::pair("let z = 1;", "null"), std::pair("f32", "\"kind\":\"type\"")})
        if (*type) {
            EXPECT_EQ(ask("type", text), TEGULA_OK) << text << said;
            EXPECT_TRUE(contains(answer, type)) << text << answer;
        } else {
            EXPECT_EQ(ask("type", text), TEGULA_E_SOURCE) << text << "\n" << said;
        }
    for (const char* text : {"x + ones<f32>[4]()", "nosuch", "1 +", "let a = x.y"}) EXPECT_EQ(ask("type", text), TEGULA_E_SOURCE) << text << said;
    EXPECT_EQ(shown("n"), "1");
    for (const char* text : {"f", "y", "z"}) EXPECT_EQ(eval(text), TEGULA_E_SOURCE) << text;
}

TEST_F(Session, ImportsAreReadAgain) {
    struct Files {
        std::string lib = "fn f(x: f32) -> f32 { return x + 1.0; }";
        bool missing = false;
    } files;
    tegula_engine_options own;
    tegula_engine_options_init(&own, sizeof own);
    own.user = &files;
    own.import_ = [](void* user, const char* name) -> tegula_blob* {
        const auto& f = *static_cast<Files*>(user);
        return f.missing || std::string(name) != "lib.tile" ? nullptr : tegula_blob_new(f.lib.data(), f.lib.size());
    };
    ASSERT_EQ(tegula_engine_new(&own, engine.out(), nullptr), TEGULA_OK);
    ASSERT_EQ(tegula_session_new(engine.get(), nullptr, session.out(), nullptr), TEGULA_OK);
    const std::string import = "import \"lib.tile\" as lib;";
    files.missing = true;
    EXPECT_EQ(eval(import), TEGULA_E_SOURCE);
    files.missing = false;
    ASSERT_EQ(eval(import + "fn g(x: f32) -> f32 { return lib.f(x); } kernel k(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [N] { y[program_id(0)] "
                            "= g(x[program_id(0)]); }"),
              TEGULA_OK)
        << said;
    EXPECT_EQ(shown("let y = empty<f32>[2]; k(zeros<f32>[2](), y); (lib.f(2.0), y)"), "(3, [1  1])");
    files.lib = "fn f(x: f32) -> f32 { return x + 10.0; }";
    EXPECT_EQ(shown("lib.f(2.0)"), "3");
    EXPECT_EQ(shown(import + "k(zeros<f32>[2](), y); (lib.f(2.0), y)"), "(12, [10  10])");
    // Two steps away: the kernel's function calls what is gone.
    for (const char* lib : {"fn other(x: f32) -> f32 { return x; }", "fn f(x: f32, y: f32) -> f32 { return x; }", "fn f("}) {
        files.lib = lib;
        EXPECT_EQ(eval(import), TEGULA_E_SOURCE) << lib;
        EXPECT_EQ(shown("k(zeros<f32>[2](), y); (lib.f(2.0), y)"), "(12, [10  10])") << lib << said;
    }
    ask("undo"), ask("undo"), ask("undo"), ask("undo");
    EXPECT_EQ(shown("lib.f(2.0)"), "3");
    EXPECT_EQ(shown("fn h(x: f32) -> f32 { return lib.f(x) * 2.0; } h(2.0)"), "6") << "what was imported then, not the file of now";
}

TEST_F(Session, BudgetsAndMachines) {
    ASSERT_EQ(eval(std::string(kScaled) + "let x = ones<f32>[1000](); let y = zeros<f32>[1000](); var n = 1;"), TEGULA_OK) << said;
    options.step_budget = 10'000;
    EXPECT_EQ(eval("n = 2; scaled(x, 2.0, y); while true { n = n + 1; }"), TEGULA_E_RUN);
    EXPECT_TRUE(contains(said, "T0913")) << said;
    EXPECT_EQ(shown("(n, y[7])"), "(1, 0)");
    options.step_budget = 0;
    options.memory_budget = 100'000;  // of all that the session holds: 8 KB so far
    EXPECT_EQ(eval("let z = zeros<f32>[25000]();"), TEGULA_E_SOURCE);
    EXPECT_TRUE(contains(said, "memory budget")) << said;
    // Former values, which undo holds, give way.
    for (int i = 0; i < 40; ++i) ASSERT_EQ(eval("let z = zeros<f32>[5000]();"), TEGULA_OK) << i << said;
    ASSERT_EQ(ask("undo"), TEGULA_OK);
    options.memory_budget = 0;
    EXPECT_EQ(eval("1 + 1"), TEGULA_OK);
    options.machine = "nosuch";
    EXPECT_EQ(eval("1 + 1"), TEGULA_E_UNAVAILABLE);
    options.machine = nullptr;  // the best there is
    EXPECT_EQ(shown("scaled(x, 4.0, y); y[999]"), "4");
    options.checked = 1;
    EXPECT_EQ(eval("scaled(empty<f32>[9], 4.0, empty<f32>[9])"), TEGULA_E_RUN) << "reads what nothing has written";
}

TEST_F(Session, PrintsProgressAndCancel) {
    struct Seen {
        tegula_session* session = nullptr;
        std::string printed;
        int progress = 0;
        std::vector<tegula_status> inner;
        bool stop = false;
    } seen;
    seen.session = session.get();
    options.user = &seen;
    options.print = [](void* user, const char* text, size_t size) {
        auto& s = *static_cast<Seen*>(user);
        s.printed.append(text, size);
        tegula::Ref<tegula_blob> json;
        s.inner.push_back(tegula_session_do(s.session, "variables", nullptr, nullptr, 0, 0, nullptr, json.out(), nullptr));
    };
    options.progress = [](void* user, uint64_t, uint64_t) {
        return static_cast<Seen*>(user)->progress++ > 0 && static_cast<Seen*>(user)->stop ? 1 : 0;
    };
    ASSERT_EQ(eval("kernel says(n: i32) grid [2] { print(\"{}\", n); } let k = 3; print(\"k = {}\", k); says(k)"), TEGULA_OK) << said;
    EXPECT_EQ(seen.printed, "k = 3\n3\n3\n");
    EXPECT_EQ(seen.inner, (std::vector<tegula_status>(3, TEGULA_E_USAGE))) << "a call from a callback";
    EXPECT_NE(eval("print(\"kept\"); nosuch()"), TEGULA_OK);
    EXPECT_EQ(seen.printed, "k = 3\n3\n3\n") << "names are looked up before anything runs";
    const auto heard = options.print;
    options.print = [](void*, const char*, size_t) { throw 1; };
    EXPECT_EQ(eval("let thrown = 5; print(\"x\");"), TEGULA_E_USAGE);
    EXPECT_TRUE(contains(said, "`print`")) << said;
    options.print = heard;
    EXPECT_EQ(eval("thrown"), TEGULA_E_SOURCE);
    seen.stop = true;
    EXPECT_EQ(eval("k = 4; while true { }"), TEGULA_E_SOURCE);
    EXPECT_EQ(eval("var m = 4; while true { m = m + 1; }"), TEGULA_E_CANCELLED);
    EXPECT_EQ(eval("m"), TEGULA_E_SOURCE);
    seen.stop = false;
    // From another thread: host statements, kernels, and constants that take long to compute.
    std::string constants = "fn f(n: int) -> int { var s = 0; for i in 0 .. n { s = s + i; } return s; }";
    for (int i = 0; i < 200; ++i) constants += "const c" + std::to_string(i) + " = f(1000000);";
    for (const std::string& text :
         {std::string("let q = 5; while true { }"),
          std::string("kernel spin(n: i64, out z: tensor<f32>[N]) grid [1] { var i = 0; while i < n { i = i + 1; } z[0] = 1.0; } "
                      "spin(9000000000000, empty<f32>[1])"),
          constants}) {
        using Clock = std::chrono::steady_clock;
        std::atomic<Clock::time_point> at{};
        std::jthread other([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            EXPECT_EQ(tegula_session_do(session.get(), "undo", nullptr, nullptr, 0, 0, nullptr, nullptr, nullptr), TEGULA_E_USAGE) << "it is busy";
            at = Clock::now();
            tegula_cancel(session.get(), 1);
        });
        EXPECT_EQ(eval(text), TEGULA_E_CANCELLED) << text.substr(0, 60) << said;
        EXPECT_LT(Clock::now() - at.load(), std::chrono::seconds(2));
        other.join();
        EXPECT_EQ(eval("1"), TEGULA_E_CANCELLED);
        EXPECT_EQ(ask("is_complete", "1"), TEGULA_OK);
        tegula_cancel(session.get(), 0);
        EXPECT_EQ(shown("k"), "3");
        for (const char* gone : {"q", "spin", "c1"}) EXPECT_EQ(eval(gone), TEGULA_E_SOURCE);
    }
    // Cancelled with the engine, and allowed again with it.
    tegula_cancel(engine.get(), 1);
    EXPECT_EQ(eval("1"), TEGULA_E_CANCELLED);
    tegula_cancel(engine.get(), 0);
    EXPECT_EQ(eval("1"), TEGULA_OK);
}

/// Milliseconds that a thread has computed: other programs do not count.
double computed(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

TEST_F(Session, InterruptsAreHeardWhileATextIsReadAndChecked) {
    // Each text takes some tenths of a second, most of them in one phase. Whenever the flag is set, little is computed from then on.
    const auto many = [](const char* before, auto&& one, const char* behind) {
        std::string out = before;
        for (int i = 0; out.size() < 1'200'000; ++i) out += one(std::to_string(i));
        return out + behind;
    };
    const std::pair<const char*, std::string> texts[] = {
        {"kernels", many(
                        "",
                        [](const std::string& i) {
                            return "kernel k" + i + "(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [N] { y[0] = x[0] * " + i + ".0; }\n";
                        },
                        "")},
        {"structs", many(
                        "", [](const std::string& i) { return "struct s" + i + " { a: f32, b: i32 }\n"; }, "")},
        {"constants", many(
                          "", [](const std::string& i) { return "const c" + i + " = " + i + " * 3 + 1;\n"; }, "")},
        {"a body", many(
                       "fn f() -> int { var x = 0;", [](const std::string& i) { return "if x == " + i + " { x = x + 1; }\n"; }, " return x; } f()")},
        {"statements", many(
                           "", [](const std::string& i) { return "let v" + i + " = " + i + " * 3 + 1;\n"; }, "")},
        {"a sum", many(
                      "let s = 0", [](const std::string&) { return " + 1"; }, ";")},
        {"a tuple", many(
                        "let s = (0", [](const std::string&) { return ", 1"; }, ");")},
        {"angles", many(
                       "", [](const std::string&) { return "a<"; }, "")},
        {"unknown names", many(
                              "", [](const std::string& i) { return "fn f" + i + "(x: f32) -> f32 { return g" + i + "(x); }\n"; }, "")},
        {"noise", many(
                      "", [](const std::string&) { return "# $ ` ? \n"; }, "")},
    };
    ASSERT_EQ(eval("let kept = 3;"), TEGULA_OK);
    clockid_t clock{};
    ASSERT_EQ(::pthread_getcpuclockid(::pthread_self(), &clock), 0);
    const double allowed = tegula::test::is_sanitized() ? 300 : 50;  // the most that a user may wait; some 10 on an idle machine
    for (const auto& [what, text] : texts) {
        int heard = 0;
        double worst = 0;
        for (const double after : {4.0, 60.0, 130.0}) {
            std::atomic<double> at{-1};
            std::atomic<bool> over{false};
            const double begin = computed(clock);
            std::jthread other([&, after = tegula::test::is_sanitized() ? 8 * after : after] {
                while (!over && computed(clock) - begin < after) std::this_thread::sleep_for(std::chrono::microseconds(300));
                if (over) return;
                at = computed(clock);
                tegula_cancel(session.get(), 1);
            });
            const tegula_status status = eval(text);
            over = true;
            other.join();
            tegula_cancel(session.get(), 0);
            if (status != TEGULA_E_CANCELLED) continue;
            ++heard;
            worst = std::max(worst, computed(clock) - at.load());
        }
        std::printf("%s: heard %d times, at most %.1f ms later\n", what, heard, worst);
        EXPECT_TRUE(heard > 0) << what;
        EXPECT_LT(worst, allowed) << what;
    }
    EXPECT_EQ(shown("kept"), "3");
}

TEST_F(Session, ThreadsAndRelease) {
    std::atomic<int> done{0}, busy{0};
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&] {
                for (int i = 0; i < 50; ++i) {
                    const std::string text = "let x = arange<f32>[100](); sum(x)";
                    const tegula_status status = tegula_session_do(session.get(), i % 3 ? "eval" : "variables", nullptr, text.data(), text.size(), 0,
                                                                   &options, nullptr, nullptr);
                    (status == TEGULA_OK ? done : busy)++;
                    EXPECT_TRUE(status == TEGULA_OK || status == TEGULA_E_USAGE) << status;
                }
            });
    }
    EXPECT_EQ(done + busy, 200);
    EXPECT_GT(done, 0);
    EXPECT_EQ(shown("x[99]"), "99");
    // The last reference goes while it evaluates: the call keeps it. What it gave outlives it, and the engine.
    struct Last {
        tegula::Ref<tegula_session> session;
        tegula::Ref<tegula_engine> engine;
    } last{std::move(session), std::move(engine)};
    tegula_session* const raw = last.session.get();
    options.user = &last;
    options.print = [](void* user, const char*, size_t) { *static_cast<Last*>(user) = {}; };
    tegula::Ref<tegula_blob> json;
    const std::string text = "print(\"now\"); let y = x + 1.0; y[1]";
    EXPECT_EQ(tegula_session_do(raw, "eval", nullptr, text.data(), text.size(), 0, &options, json.out(), nullptr), TEGULA_OK);
    EXPECT_TRUE(contains(tegula_blob_data(json.get(), nullptr), "\"text\":\"2\""));
}

TEST_F(Session, WrongCalls) {
    Diags diags;
    tegula::Ref<tegula_blob> json;
    tegula::Ref<tegula_session> other;
    tegula::Ref<tegula_module> made;
    tegula_value got{};
    const tegula_value one = integer(1);
    const auto usage = [&](tegula_status status) {
        const std::string why = text(diags);
        return status == TEGULA_E_USAGE && (why.empty() || contains(why, "T10")) && !json && !other && !made;
    };
    auto* const wrong = reinterpret_cast<tegula_session*>(engine.get());
    EXPECT_TRUE(usage(tegula_session_new(nullptr, nullptr, other.out(), diags.out())));
    EXPECT_TRUE(usage(tegula_session_new(reinterpret_cast<tegula_engine*>(session.get()), nullptr, other.out(), diags.out())));
    EXPECT_TRUE(contains(text(diags), "the handle of a session")) << text(diags);
    EXPECT_TRUE(usage(tegula_session_new(engine.get(), nullptr, nullptr, diags.out())));
    for (tegula_session* s : {static_cast<tegula_session*>(nullptr), wrong}) {
        EXPECT_TRUE(usage(tegula_session_do(s, "eval", nullptr, "1", 1, 0, nullptr, json.out(), diags.out())));
        EXPECT_TRUE(usage(tegula_session_value(s, "x", &one, nullptr, nullptr, diags.out())));
        EXPECT_TRUE(usage(tegula_session_module(s, made.out(), diags.out())));
    }
    EXPECT_TRUE(usage(tegula_session_do(session.get(), nullptr, nullptr, "1", 1, 0, nullptr, json.out(), diags.out())));
    EXPECT_TRUE(usage(tegula_session_do(session.get(), "evaluate", nullptr, "1", 1, 0, nullptr, json.out(), diags.out())));
    EXPECT_TRUE(contains(text(diags), "eval, show, type, is_complete, tokens")) << text(diags);
    EXPECT_TRUE(usage(tegula_session_do(session.get(), "eval", nullptr, nullptr, 1, 0, nullptr, json.out(), diags.out())));
    EXPECT_TRUE(usage(tegula_session_value(session.get(), nullptr, &one, nullptr, nullptr, diags.out())));
    EXPECT_TRUE(usage(tegula_session_value(session.get(), "x", nullptr, nullptr, nullptr, diags.out())));
    EXPECT_TRUE(usage(tegula_session_value(session.get(), "x", nullptr, &got, nullptr, diags.out())));
    EXPECT_TRUE(usage(tegula_session_module(session.get(), nullptr, diags.out())));
    options.struct_size = 3;
    EXPECT_TRUE(usage(tegula_session_do(session.get(), "eval", nullptr, "1", 1, 0, &options, json.out(), diags.out())));
    options.struct_size = sizeof options;
    EXPECT_EQ(tegula_session_do(session.get(), "eval", nullptr, nullptr, 0, 0, nullptr, nullptr, nullptr), TEGULA_OK);
    tegula_value strange = one;
    strange.kind = static_cast<tegula_value_kind>(77);
    tegula_value no_tensor{};
    no_tensor.kind = TEGULA_TENSOR;
    const Owned<float> small("f32", {3}, {1, 2, 3});
    tegula_tensor bad = small.c, far = small.c, longer = small.c;
    bad.type = "nosuch";
    far.device_type = TEGULA_CUDA;
    longer.bytes = 8;
    for (const tegula_value& v : {strange, no_tensor, tensor(bad), tensor(far), tensor(longer)})
        EXPECT_EQ(tegula_session_value(session.get(), "x", &v, nullptr, nullptr, diags.out()), TEGULA_E_ARGUMENTS) << text(diags);
    EXPECT_EQ(eval("x"), TEGULA_E_SOURCE);
}

TEST_F(Session, HostileTexts) {
    options.step_budget = 20'000;
    ASSERT_EQ(eval(std::string(kScaled) + "let x = ones<f32>[8]();"), TEGULA_OK);
    const auto many = [](const char* part, size_t count) {
        std::string out;
        for (size_t i = 0; i < count; ++i) out += part;
        return out;
    };
    const std::string long_sum = "1" + many(" + 1", 100'000);
    for (const std::string& text : {std::string("\0", 1),
                                    std::string("\xff\xfe"),
                                    std::string("let x = \"abc"),
                                    std::string("/* "),
                                    many("(", 10'000),
                                    many("[", 10'000),
                                    many("{", 10'000),
                                    many("if x {", 10'000),
                                    many("-", 100'000) + "1",
                                    many("f(", 5'000) + many(")", 5'000),
                                    many("a.", 50'000),
                                    many("tile<", 10'000),
                                    long_sum,
                                    many(";", 100'000),
                                    many("let = ;", 20'000),
                                    many("\n", 1'000'000),
                                    many("kernel ", 50'000),
                                    std::string("fn r(n: i32) -> i32 { return r(n); } r(1)"),
                                    std::string("let x = x; let x = x.0.0.0"),
                                    std::string("scaled(x, x, x)"),
                                    std::string("scaled(y = x)"),
                                    std::string("break"),
                                    std::string("x[0] = 1.0"),
                                    std::string("let v: i32 = 1"),
                                    std::string("import \"../../etc/passwd\" as p;"),
                                    std::string("import \"/etc/passwd\" as p"),
                                    std::string("load_npy(\"/etc/passwd\")"),
                                    std::string("type T = T; let a = full<T>[3](1)"),
                                    std::string("const A = B; const B = A;"),
                                    std::string("var t = (1, 2); while true { t = (t, t); }"),
                                    std::string("zeros<f32>[1000000, 1000000, 1000000]()")}) {
        const tegula_status status = eval(text);
        EXPECT_TRUE(status == TEGULA_OK || contains(said, "error[T")) << text.substr(0, 40) << status << said.substr(0, 200);
        EXPECT_FALSE(contains(said, "internal error")) << said.substr(0, 400);
        EXPECT_EQ(ask("is_complete", text), TEGULA_OK);
        EXPECT_EQ(ask("tokens", text), TEGULA_OK);
        for (const size_t at : {size_t{0}, text.size() / 2, text.size()}) {
            EXPECT_EQ(ask("complete", text, at), TEGULA_OK);
            EXPECT_EQ(ask("inspect", text, at), TEGULA_OK);
        }
    }
    const std::string large(size_t{17} << 20, ' ');
    for (const char* verb : {"eval", "is_complete", "complete"}) EXPECT_EQ(ask(verb, large), TEGULA_E_SOURCE);
    EXPECT_EQ(shown("scaled(x, 2.0, x); x[7]"), "2");
    // Pieces of the language in random order.
    constexpr const char* kPieces[] = {"x",
                                       " ",
                                       "let ",
                                       "= ",
                                       "1",
                                       "(",
                                       ")",
                                       "[",
                                       "]",
                                       "{",
                                       "}",
                                       "<",
                                       ">",
                                       ";",
                                       ", ",
                                       ".",
                                       "@ ",
                                       "\"",
                                       "/*",
                                       "fn ",
                                       "kernel ",
                                       "f32",
                                       "+ ",
                                       "scaled",
                                       "import ",
                                       "nn",
                                       "ones",
                                       ":",
                                       "\n",
                                       "if ",
                                       "for i in 0 .. 3 ",
                                       "-",
                                       "\xc3\xa9",
                                       "\xff",
                                       "// ",
                                       "ans",
                                       "var ",
                                       "std.nn"};
    uint32_t random = 1;
    for (int round = 0; round < 600; ++round) {
        std::string text;
        for (int i = 0; i < 12; ++i) text += kPieces[(random = random * 1664525u + 1013904223u) / 65536 % std::size(kPieces)];
        const tegula_status status = eval(text);
        EXPECT_TRUE(status == TEGULA_OK || contains(said, "error[T")) << text;
        EXPECT_FALSE(contains(said, "internal error")) << text << said;
        for (const char* verb : {"is_complete", "tokens", "complete", "inspect"})
            EXPECT_EQ(ask(verb, text, text.size() * static_cast<size_t>(round % 5) / 4), TEGULA_OK) << text;
        if (round % 100 == 0) ask("undo");
    }
    EXPECT_EQ(ask("variables"), TEGULA_OK);
    EXPECT_EQ(ask("history"), TEGULA_OK);
    EXPECT_EQ(ask("items"), TEGULA_OK);
}

TEST(SessionWrapper, ATypedSession) {
    const auto engine = tegula::Engine::create().value();
    const auto session = engine.session().value();
    tegula::RunOptions options;
    options.machine = "interp";
    (void)session.eval(kScaled, options, "lib.tile").value();
    const std::vector<float> x{1, 2, 3};
    (void)session.set("x", tegula::Tensor(std::span(x))).value();
    (void)session.set("n", uint64_t{1} << 63).value();
    EXPECT_TRUE(contains(session.eval("let y = empty<f32>[3]; scaled(x, 2.0, y); (y, n)", options).value(), "([2  4  6], 9223372036854775808)"));
    const auto y = session.get("y").value();
    std::vector<float> out(3);
    const auto module = session.module().value();
    (void)module.copy(tegula::Tensor(std::span(out)), y.tensor()).value();
    EXPECT_EQ(out, (std::vector<float>{2, 4, 6}));
    EXPECT_TRUE(contains(module.artifact("json").value(), "\"name\":\"scaled\""));
    EXPECT_TRUE(contains(module.compile("scaled").value().artifact("ir").value(), "kernel @scaled"));
    EXPECT_TRUE(contains(session.ask("inspect", "scaled", 2).value(), "\"name\":\"lib.tile\",\"line\":2"));
    EXPECT_TRUE(contains(session.ask("undo").value(), "\"undone\":2"));
    const auto wrong = session.eval("nosuch", options);
    EXPECT_EQ(wrong.status(), TEGULA_E_SOURCE);
    EXPECT_TRUE(contains(wrong.diagnostics().text(), "<input 3>:1:1"));
    session.cancel();
    EXPECT_EQ(session.eval("1", options).status(), TEGULA_E_CANCELLED);
    session.cancel(false);
    EXPECT_EQ(session.eval("1", options).status(), TEGULA_OK);
}

}  // namespace
