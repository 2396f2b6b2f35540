// The library in the language as programs see it without an import: which names it has, that a program pays only for the modules whose items it
// uses, and that nothing else tells when a module was loaded (suggestions, snippets, threads, modules that outlive each other).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "jit/engine/engine.h"
#include "jit/engine/stdlib.h"

namespace tegula {
namespace {

constexpr const char* kPlain = "kernel k(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [1] { y[0 +: 4] = x[0 +: 4] + 1.0; }\n";
constexpr const char* kExp = "kernel k(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [1] { y[0 +: 4] = exp(x[0 +: 4]); }\n";
constexpr const char* kTiled = "kernel k(x: tensor<f32>[N, N] @ tiled<4, 4>, out y: tensor<f32>[N]) grid [1] { y[0 +: 4] = x[0, 0 +: 4]; }\n";

/// All files that the engine has, in order: items of the library are sources of their own.
std::vector<SourcePtr> sources(Engine& engine) {
    std::vector<SourcePtr> out;
    for (uint32_t file = 1; file < 1000; ++file)
        if (SourcePtr source = engine.sources().find(file)) out.push_back(std::move(source));
    return out;
}

/// Their names, each once.
std::string files(Engine& engine) {
    std::string out;
    std::set<std::string> known;
    for (const SourcePtr& source : sources(engine))
        if (known.insert(source->name).second) out += (out.empty() ? "" : " ") + source->name;
    return out;
}

ModulePtr load(Engine& engine, const std::string& text, const std::string& name = "t.tile") {
    DiagSink diags;
    ModulePtr module = engine.load(name, text, "", diags);
    for (const Diagnostic& d : diags.all()) ADD_FAILURE() << d.message;
    return module;
}

/// Code and first note of the first diagnostic.
std::string first(const DiagSink& diags) {
    if (diags.all().empty()) return "";
    const Diagnostic& d = diags.all()[0];
    return std::string(diag_row(d.id).code) + (d.notes.empty() ? "" : " " + d.notes[0].text);
}

std::string errors_of(const std::string& text) {
    const auto engine = Engine::create({});
    DiagSink diags;
    EXPECT_EQ(engine->load("t.tile", text, "", diags), nullptr);
    EXPECT_EQ(files(*engine), "t.tile") << text;
    return first(diags);
}

TEST(Library, EmbeddedNamesAreThoseOfTheItems) {
    const auto engine = Engine::create({});
    for (const StdlibFile& file : stdlib_files()) {
        const ModulePtr module = load(*engine, std::string(file.text), std::string(file.name) + ".tile");
        ASSERT_TRUE(module) << file.name;
        std::vector<std::string_view> names;
        for (const auto& [name, item] : module->names) names.push_back(name);
        std::ranges::sort(names);
        EXPECT_EQ(names, std::vector<std::string_view>(file.names.begin(), file.names.end())) << file.name;
    }
}

TEST(Library, OnlyModulesWhoseItemsAreUsedAreLoaded) {
    for (const auto& [text, expected] : {std::pair{kPlain, "t.tile"}, {kExp, "t.tile std.math"}, {kTiled, "t.tile std.layouts"}}) {
        const auto engine = Engine::create({});
        const ModulePtr module = load(*engine, text);
        ASSERT_TRUE(module);
        DiagSink diags;
        Status status{};
        EXPECT_TRUE(engine->compile_named(*module, "k", {}, {}, diags, status)) << first(diags);
        EXPECT_EQ(files(*engine), expected);
    }
}

TEST(Library, OnlyItemsThatAreUsedAreParsedWhereTheyStand) {
    const auto engine = Engine::create({});
    const ModulePtr module = load(*engine, kExp);
    ASSERT_TRUE(module);
    DiagSink diags;
    Status status{};
    EXPECT_TRUE(engine->compile_named(*module, "k", {}, {}, diags, status)) << first(diags);
    const StdlibFile& math = *std::ranges::find(stdlib_files(), "math", &StdlibFile::name);
    size_t parsed = 0;
    for (const SourcePtr& source : sources(*engine))
        if (source->name == "std.math") parsed += static_cast<size_t>(std::ranges::count_if(source->text, [](char c) { return c != '\n'; }));
    EXPECT_GT(parsed, 500U);
    EXPECT_LT(parsed, math.text.size() / 4);
    const ast::Item* exp = module->prelude[0]->module().find("exp");
    ASSERT_TRUE(exp);
    const auto before = math.text.substr(0, math.text.find("\nfn exp<") + 1);
    EXPECT_EQ(engine->sources().line_col(exp->span.file, exp->span.begin).line, std::ranges::count(before, '\n') + 1);
    EXPECT_EQ(module->prelude[0]->module().find("no_such_item"), nullptr);
}

TEST(Library, ItemsOfTheProgramHideThoseOfTheLibrary) {
    const auto engine = Engine::create({});
    const ModulePtr module =
        load(*engine, "fn exp(a: f32, b: f32) -> f32 { return a + b; }\nfn f(tiled: f32) -> f32 { return exp(tiled, tiled); }\n");
    EXPECT_TRUE(module);
    EXPECT_EQ(files(*engine), "t.tile");
}

TEST(Library, SuggestionsNameItsItemsWithoutLoadingIt) {
    EXPECT_EQ(errors_of("fn f(x: f32) -> f32 { return sigmodi(x); }\n"), "T0200 did you mean `sigmoid`?");
    EXPECT_EQ(errors_of("kernel k(out y: tensor<f32>[4, 4] @ tield<2, 2>) { y[0, 0] = 1.0; }\n"), "T0200 did you mean `tiled`?");
    EXPECT_EQ(errors_of("fn f(x: f32) -> f32 { return nothing_like_it(x); }\n"), "T0200");
}

TEST(Library, ItsSignaturesAreChecked) {
    const auto engine = Engine::create({});
    DiagSink diags;
    EXPECT_EQ(engine->load("t.tile", "fn f(x: f32) -> f32 { return atan2(x); }\n", "", diags), nullptr);
    EXPECT_EQ(first(diags), "T0204");
    EXPECT_EQ(files(*engine), "t.tile std.math");
}

TEST(Library, SnippetsUseItWhereTheProgramDoesNot) {
    const auto engine = Engine::create({});
    const ModulePtr module = load(*engine, kPlain);
    DiagSink diags;
    EXPECT_TRUE(engine->parse_layout(*module, "tiled<8, 8>", diags)) << first(diags);
    EXPECT_EQ(files(*engine), "t.tile std.layouts");
    EXPECT_FALSE(engine->parse_layout(*module, "tield<8, 8>", diags));
    EXPECT_EQ(files(*engine), "t.tile std.layouts <layout>");  // with what was reported of it
    EXPECT_EQ(first(diags), "T0200 did you mean `tiled`?");
}

TEST(Library, ModulesOfAnEngineShareItAndKeepIt) {
    const auto engine = Engine::create({});
    ModulePtr a = load(*engine, kExp), b = load(*engine, kExp, "u.tile");
    const ModulePtr c = load(*engine, std::string("import std.math;\n") + kPlain, "v.tile");
    ASSERT_TRUE(a && b && c);
    EXPECT_EQ(files(*engine), "t.tile std.math u.tile v.tile");
    const ast::Item* exp = a->prelude[0]->module().find("exp");
    ASSERT_TRUE(exp);
    EXPECT_EQ(exp, b->prelude[0]->module().find("exp"));
    EXPECT_EQ(exp, c->imports[0].module->find("exp"));
    a.reset();
    DiagSink diags;
    Status status{};
    EXPECT_TRUE(engine->compile_named(*b, "k", {}, {}, diags, status)) << first(diags);
    EXPECT_EQ(files(*engine), "std.math u.tile v.tile");
}

TEST(Library, GoesWithItsLastModule) {
    const auto engine = Engine::create({});
    for (const char* text : {kExp, kTiled}) {
        ASSERT_TRUE(load(*engine, text));
        EXPECT_EQ(files(*engine), "");
    }
}

TEST(Library, ModulesOfThePreludeSeeThoseBeforeThem) {
    const auto engine = Engine::create({});
    const ModulePtr module = load(*engine, "import std.layouts;\nimport std.math;\nimport std.nn;\n");
    ASSERT_TRUE(module);
    ASSERT_EQ(module->prelude.size(), 2U);
    EXPECT_EQ(module->prelude[0]->module().prelude.size(), 0U);
    EXPECT_EQ(module->prelude[1]->module().prelude.size(), 1U);
    EXPECT_EQ(module->imports[2].module->prelude.size(), 2U);
}

TEST(Library, ThreadsLoadItOnce) {
    const auto engine = Engine::create({});
    const ModulePtr shared = load(*engine, kPlain);
    std::vector<std::thread> threads;
    std::vector<const ast::Item*> seen(16);
    std::vector<ModulePtr> own(seen.size());
    for (size_t i = 0; i < seen.size(); ++i)
        threads.emplace_back([&, i] {
            DiagSink diags;
            own[i] = engine->load("t.tile", i % 2 ? kTiled : kExp, "", diags);
            const bool layout = engine->parse_layout(*shared, "tiled<" + std::to_string(i + 1) + ", 8>", diags).has_value();
            if (own[i] && layout && !diags.has_errors()) seen[i] = own[i]->prelude[i % 2]->module().find(i % 2 ? "tiled" : "exp");
        });
    for (std::thread& t : threads) t.join();
    for (size_t i = 0; i < seen.size(); ++i) {
        ASSERT_NE(seen[i], nullptr);
        EXPECT_EQ(seen[i], shared->prelude[i % 2]->module().find(i % 2 ? "tiled" : "exp"));
    }
    std::set<std::string_view> texts;
    const std::vector<SourcePtr> all = sources(*engine);
    for (const SourcePtr& source : all)
        if (source->name.starts_with("std.")) {
            EXPECT_TRUE(texts.insert(source->text).second);
        }
}

}  // namespace
}  // namespace tegula
