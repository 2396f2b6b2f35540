// Changes that diagnostics offer (jit/engine/changes.cpp, lang/foreign.def, lang/diag_examples.def): every change that is called sure is made and
// checked, for all diagnostics of tests/parse and tests/sema, and for the words of other languages in tests/words.txt. Every page of `tegula explain`
// shows a file that has its error and one that has none.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "jit/engine/engine.h"
#include "tests/unit/test_files.h"

namespace tegula {
namespace {

namespace fs = std::filesystem;
using test::read;
using test::tile_files;

/// What `tegula check` reports, errors only.
std::vector<Diagnostic> errors_of(Engine& engine, const std::string& text) {
    DiagSink diags;
    if (const ModulePtr module = engine.load("t.tile", text, "", diags)) engine.check_instances(*module, diags);
    std::vector<Diagnostic> all = diags.take();
    std::erase_if(all, [](const Diagnostic& d) { return d.severity != Severity::error; });
    return all;
}

std::string changed(std::string text, std::vector<FixIt> edits) {
    std::sort(edits.begin(), edits.end(), [](const FixIt& a, const FixIt& b) { return a.span.begin > b.span.begin; });
    for (const FixIt& e : edits) text.replace(e.span.begin, e.span.end - e.span.begin, e.text);
    return text;
}

bool is_sure(const Diagnostic& d) {
    return !d.fixes.empty() && std::all_of(d.fixes.begin(), d.fixes.end(), [](const FixIt& f) { return f.applicability == Applicability::machine; });
}

std::string shown(const Diagnostic& d) {
    std::string out = std::string(diag_row(d.id).code) + " " + d.message;
    for (const DiagNote& note : d.notes) out += "\n    " + note.whole();
    return out;
}

std::multiset<std::string> messages(const std::vector<Diagnostic>& diags) {
    std::multiset<std::string> out;
    for (const Diagnostic& d : diags) out.insert(std::string(diag_row(d.id).code) + " " + d.message);
    return out;
}

TEST(changes, sure_ones_mend_what_they_say) {
    const auto engine = Engine::create({});
    size_t made = 0, unsure = 0;
    for (const char* folder : {"tests/parse", "tests/sema"})
        for (const fs::path& path : tile_files(folder)) {
            const std::string text = read(path);
            const std::vector<Diagnostic> before = errors_of(*engine, text);
            for (const Diagnostic& d : before) {
                unsure += !d.fixes.empty() && !is_sure(d);
                if (!is_sure(d)) continue;
                ++made;
                const std::string fixed = changed(text, d.fixes);
                EXPECT_NE(fixed, text);
                const std::multiset<std::string> left = messages(errors_of(*engine, fixed)), had = messages(before);
                EXPECT_LT(left.size(), had.size()) << path << "\n" << shown(d);
                EXPECT_TRUE(std::includes(had.begin(), had.end(), left.begin(), left.end())) << path << "\n" << shown(d);
            }
        }
    EXPECT_GE(made, 25u);
    std::printf("changes made and checked: %zu, offered as possible: %zu\n", made, unsure);
}

// ---- words of other languages ----

struct Case {
    std::string file, text, fixed, said;
};

std::string replaced(std::string text, std::string_view from, std::string_view to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
    return text;
}

std::string around(char kind, const std::string& text) {
    static const std::string kKernel = "kernel f(out y: tensor<f32>[N]) grid [N] { y[program_id(0)] = 0.0; }\n";
    if (kind == 'B')
        return "kernel f(x: tensor<f32>[N], w: tensor<f32>[M, K], n: i64, p: ptr<f32>, inout y: tensor<f32>[N]) grid [N] {\n"
               "    let i = program_id(0);\n    let t = x[0 +: 16];\n    let a = w[0 +: 4, 0 +: 4];\n    let b = a;\n    " +
               text + "\n    y[i] = 1.0;\n}\n";
    if (kind == 'T')
        return "kernel f(x: tensor<" + text + ">[N], out y: tensor<f32>[N]) grid [N] { y[program_id(0)] = cast<f32>(x[program_id(0)]); }\n";
    return text + "\n" + kKernel;
}

/// Lines `KIND text => text after the change` or `KIND text -- what is said`; KIND is B for statements of a kernel, T for an element type, I for
/// items.
std::vector<Case> words() {
    std::vector<Case> out;
    const std::string all = read(fs::path(TEGULA_SOURCE_DIR) / "tests/words.txt");
    for (size_t at = 0; at < all.size();) {
        const size_t end = std::min(all.find('\n', at), all.size());
        const std::string line = replaced(all.substr(at, end - at), "\\n", "\n");
        at = end + 1;
        if (line.size() < 3 || line[0] == '#') continue;
        const size_t arrow = line.find(" => "), dashes = line.find(" -- "), cut = std::min(arrow, dashes);
        Case c{around(line[0], line.substr(2, cut - 2)), line.substr(0, cut), {}, {}};
        if (arrow != line.npos)
            c.fixed = around(line[0], line.substr(arrow + 4));
        else if (dashes != line.npos)
            c.said = line.substr(dashes + 4);
        out.push_back(std::move(c));
    }
    return out;
}

TEST(changes, words_of_other_languages_are_understood) {
    const auto engine = Engine::create({});
    size_t one = 0, mended = 0;
    const std::vector<Case> all = words();
    for (const Case& c : all) {
        const std::vector<Diagnostic> errors = errors_of(*engine, c.file);
        one += errors.size() == 1;
        ASSERT_FALSE(errors.empty()) << c.text;
        EXPECT_EQ(errors.size(), 1u) << c.text << "\n" << shown(errors[0]) << "\n" << shown(errors.back());
        const auto cured = std::find_if(errors.begin(), errors.end(), [&](const Diagnostic& e) {
            return c.fixed.empty() ? shown(e).find(c.said) != std::string::npos : is_sure(e);
        });
        const Diagnostic& d = cured == errors.end() ? errors[0] : *cured;
        if (!c.fixed.empty()) {
            std::string fixed = changed(c.file, d.fixes);
            EXPECT_TRUE(is_sure(d)) << c.text << "\n" << shown(d);
            // An import that is added stands first.
            EXPECT_TRUE(fixed.ends_with(c.fixed)) << c.text << "\n" << fixed;
            EXPECT_TRUE(errors_of(*engine, fixed).empty()) << fixed;
            ++mended;
        } else {
            EXPECT_NE(shown(d).find(c.said), std::string::npos) << c.text << "\n" << shown(d);
            if (errors.size() == 1 && is_sure(d)) ADD_FAILURE() << c.text << ": it has a change, " << changed(c.file, d.fixes);
        }
    }
    EXPECT_GE(all.size(), 120u);
    std::printf("words of other languages: %zu, one error: %zu, with a change that checks: %zu\n", all.size(), one, mended);
}

// ---- what one check finds: tests/check/*.tile, whose lines name their errors behind `//!` ----

TEST(check, finds_the_errors_that_lines_name) {
    const auto engine = Engine::create({});
    size_t files = 0;
    for (const fs::path& path : tile_files("tests/check")) {
        ++files;
        const std::string text = read(path);
        const auto line_of = [&](size_t at) {
            return static_cast<unsigned>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n')) + 1;
        };
        std::multimap<unsigned, std::string> found;
        for (const Diagnostic& d : errors_of(*engine, text)) found.emplace(line_of(d.span.begin), shown(d));
        for (size_t at = 0; (at = text.find("//! ", at)) != text.npos;) {
            at += 4;
            std::string want = text.substr(at, std::min(text.find('\n', at), text.find(" //! ", at)) - at);
            const size_t space = want.find(' ');
            const std::string part = space == want.npos ? std::string() : want.substr(space + 1);
            const auto [begin, end] = found.equal_range(line_of(at));
            const auto it = std::find_if(
                begin, end, [&](const auto& f) { return f.second.starts_with(want.substr(0, space)) && f.second.find(part) != std::string::npos; });
            EXPECT_NE(it, end) << path.filename() << ":" << line_of(at) << ": no " << want;
            if (it != end) found.erase(it);
        }
        for (const auto& [line, d] : found) ADD_FAILURE() << path.filename() << ":" << line << ": " << d;
    }
    EXPECT_GE(files, 2u);
}

TEST(changes, nothing_is_offered_that_does_not_check) {
    const auto engine = Engine::create({});
    // The nearest names are of another kind, or fit nowhere.
    for (const char* text : {"kernel k(x: tensor<lag>[N]) { }", "fn f(x: f32) -> f32 { return i3 + x; }", "kernel k(x: tensor<f32>[N] @ exp2x) { }"})
        for (const Diagnostic& d : errors_of(*engine, text)) EXPECT_TRUE(d.fixes.empty()) << text << "\n" << shown(d);
    // Of two near names the one that fits.
    const std::vector<Diagnostic> errors = errors_of(*engine,
                                                     "fn value(v: f32) -> f32 { let summ = 1.0; return sums + v; }\n"
                                                     "kernel k(out y: tensor<f32>[N]) { y[0] = value(1.0); }\n");
    ASSERT_EQ(errors.size(), 1u);
    ASSERT_FALSE(errors[0].fixes.empty());
    EXPECT_EQ(errors[0].fixes[0].text, "summ");
}

TEST(changes, a_name_without_end_is_not_tried) {
    const auto engine = Engine::create({});
    const std::string name(1'000'000, 'a');
    const std::vector<Diagnostic> errors = errors_of(*engine, "fn f() -> f32 { return " + name + "; }");
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_TRUE(errors[0].fixes.empty());
    EXPECT_LT(render_text(errors[0], engine->sources(), false).size(), 5000u);
}

// ---- pages of diagnostics ----

struct Page {
    Diag id;
    const char *wrong, *right;
};
constexpr Page kPages[] = {
#define EXAMPLE(name, wrong, right) {Diag::name, wrong, right},
#include "lang/diag_examples.def"
#undef EXAMPLE
};

TEST(explain_pages, wrong_and_right) {
    const auto engine = Engine::create({});
    std::set<Diag> seen;
    for (const Page& page : kPages) {
        const std::string code = diag_row(page.id).code;
        EXPECT_TRUE(seen.insert(page.id).second) << code << " has two examples";
        const std::vector<Diagnostic> wrong = errors_of(*engine, page.wrong), right = errors_of(*engine, page.right);
        EXPECT_EQ(wrong.size(), 1u) << code << "\n" << page.wrong << (wrong.size() > 1 ? shown(wrong[1]) : "");
        if (!wrong.empty()) {
            EXPECT_EQ(wrong[0].id, page.id) << code << "\n" << shown(wrong[0]);
        }
        EXPECT_TRUE(right.empty()) << code << "\n" << page.right << shown(right[0]);
    }
    std::printf("pages with examples: %zu\n", seen.size());
}

}  // namespace
}  // namespace tegula
