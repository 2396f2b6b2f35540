// Pass tests: tests/lower/*.ir hold one input each, the pass on the first line (`// pass: NAME`, or `pass: explain`), facts for it on further
// comment lines, and the expected output behind `//> `. TEGULA_UPDATE=1 rewrites the expectations: read the difference before keeping it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "lang/ir_text.h"
#include "lower/lower.h"

using namespace tegula;

namespace {

struct Case {
    std::string input, expected, pass;
    PassOptions options;
};

/// `// fact: N multiple 64 at_least 1 at_most 128`, `// dim: x 0 M`, `// dim: v 1 N times 2 by 3`, `// grid: 0 M 64` or `// grid: 0 at_most 7`.
void read_fact(std::istringstream& words, const std::string& kind, PassOptions& options) {
    if (kind == "fact:") {
        PassOptions::Fact f;
        words >> f.extent;
        std::string key;
        int64_t v = 0;
        while (words >> key >> v) (key == "multiple" ? f.divisor : key == "at_least" ? f.at_least : f.at_most) = v;
        options.facts.push_back(f);
    } else if (kind == "dim:") {
        PassOptions::DimFact d;
        words >> d.tensor >> d.axis >> d.extent;
        std::string key;
        int64_t v = 0;
        while (words >> key >> v) (key == "times" ? d.times : d.by) = v;
        options.dims.push_back(d);
    } else if (kind == "grid:") {
        PassOptions::GridFact g;
        int64_t v = 0;
        words >> g.axis >> g.extent >> v;
        if (g.extent == "at_most")
            g.extent.clear(), g.at_most = v;
        else
            g.tile = v;
        options.grid.push_back(g);
    }
}

Case read_case(const std::filesystem::path& path) {
    Case c;
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line)) {
        if (line.starts_with("//>")) {
            c.expected += line.substr(std::min<size_t>(line.size(), 4)) + "\n";
            continue;
        }
        c.input += line + "\n";
        std::istringstream words(line);
        std::string slashes, kind;
        words >> slashes >> kind;
        if (slashes != "//") continue;
        if (kind == "pass:")
            words >> c.pass;
        else
            read_fact(words, kind, c.options);
    }
    return c;
}

std::string notes_text(const ir::Function& fn) {
    std::string out;
    for (const explain::Note& n : explain_products(fn)) {
        const auto& found = std::get<explain::Recognition>(n.fact);
        out += std::string(found.recognised() ? "yes: " : "no: ") + found.reason() + "\n";
    }
    return out;
}

std::string run(const Case& c, ir::Function& fn) {
    static const std::map<std::string, bool (*)(ir::Function&)> plain = {{"split_k", split_k}, {"fold", fold},           {"cse", cse},
                                                                         {"licm", licm},       {"recognise", recognise}, {"dce", dce}};
    if (c.pass == "explain") return notes_text(fn);
    bool changed = false;
    const std::string before = print(fn);
    if (c.pass == "masks") {
        changed = masks(fn, c.options);
    } else if (c.pass == "extents") {
        changed = fix_extents(fn, c.options);
    } else if (c.pass == "all") {
        run_passes(fn, c.options);
        return print(fn);
    } else {
        const auto it = plain.find(c.pass);
        if (it == plain.end()) return "no pass " + c.pass;
        changed = it->second(fn);
    }
    const std::string after = print(fn);
    EXPECT_EQ(changed, before != after) << "a pass says whether it changed anything";
    return changed ? after : "unchanged\n";
}

std::vector<std::filesystem::path> files() {
    std::vector<std::filesystem::path> out;
    for (const auto& e : std::filesystem::directory_iterator(TEGULA_SOURCE_DIR "/tests/lower"))
        if (e.path().extension() == ".ir") out.push_back(e.path());
    std::sort(out.begin(), out.end());
    return out;
}

std::unique_ptr<ir::Function> parse(const std::string& text, TypeTable& types, std::string& problems) {
    SourceMap sources;
    DiagSink diags;
    auto fn = ir::parse_ir(sources, sources.add("test.ir", text), types, diags);
    for (const Diagnostic& d : diags.all()) problems += render_text(d, sources, false);
    return fn;
}

void rewrite(const std::filesystem::path& path, const Case& c, const std::string& found) {
    std::ofstream out(path);
    out << c.input;
    std::istringstream lines(found);
    for (std::string line; std::getline(lines, line);) out << "//> " << line << "\n";
}

class PassFile : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(PassFile, GivesTheExpectedText) {
    const Case c = read_case(GetParam());
    TypeTable types;
    std::string problems;
    const auto fn = parse(c.input, types, problems);
    ASSERT_TRUE(fn) << problems;
    const std::string found = run(c, *fn);
    for (const std::string& p : ir::verify(*fn)) ADD_FAILURE() << p;
    const std::string text = print(*fn);
    const auto again = parse(text, types, problems);
    ASSERT_TRUE(again) << problems << text;
    EXPECT_EQ(print(*again), text);
    if (std::getenv("TEGULA_UPDATE") && found != c.expected)
        rewrite(GetParam(), c, found);
    else
        EXPECT_EQ(found, c.expected);
}

INSTANTIATE_TEST_SUITE_P(Lower, PassFile, testing::ValuesIn(files()), [](const auto& info) {
    std::string name = info.param.stem().string();
    std::replace_if(name.begin(), name.end(), [](char ch) { return !std::isalnum(static_cast<unsigned char>(ch)); }, '_');
    return name;
});

TEST(Pipeline, EveryPassHasATestFile) {
    std::set<std::string> tested;
    for (const auto& f : files()) tested.insert(read_case(f).pass);
    for (std::string_view name : pass_names()) EXPECT_TRUE(tested.contains(std::string(name))) << name;
    EXPECT_GE(files().size(), 40u);
}

constexpr const char* kDemo = R"(kernel @demo(%x: tensor<f32>[8] out) {
  %0 = constant 1 : i64
  %1 = constant 2 : i64
  %2 = add %0, %1 : i64
  %3 = constant 4 : f32
  store %x[%2] = %3
  ret
}
)";

TEST(Pipeline, DisabledPassesDoNotRun) {
    TypeTable types;
    std::string problems;
    const auto fn = parse(kDemo, types, problems);
    ASSERT_TRUE(fn) << problems;
    PassOptions options;
    options.disabled = {"all"};
    int calls = 0;
    options.after = [&](std::string_view, bool, const ir::Function&) { ++calls; };
    run_passes(*fn, options);
    EXPECT_EQ(calls, 0);
    EXPECT_EQ(print(*fn), kDemo);
    options.disabled = {"fold"};
    options.after = [&](std::string_view name, bool, const ir::Function&) { EXPECT_NE(name, "fold"); };
    run_passes(*fn, options);
    EXPECT_NE(print(*fn).find("add"), std::string::npos);
}

TEST(Pipeline, SaysWhetherAPassChangedAnything) {
    TypeTable types;
    std::string problems;
    const auto fn = parse(kDemo, types, problems);
    ASSERT_TRUE(fn) << problems;
    PassOptions options;
    std::string before = print(*fn);
    options.after = [&](std::string_view name, bool changed, const ir::Function& now) {
        EXPECT_EQ(changed, print(now) != before) << name;
        before = print(now);
    };
    run_passes(*fn, options);
    EXPECT_EQ(before.find("add"), std::string::npos);
}

TEST(Pipeline, BrokenIrIsNamed) {
    TypeTable types;
    std::string problems;
    const auto fn = parse(kDemo, types, problems);
    ASSERT_TRUE(fn) << problems;
    fn->block(fn->body).insts.pop_back();
    try {
        run_passes(*fn, {});
        FAIL() << "the verifier let it pass";
    } catch (const InternalError& e) {
        EXPECT_NE(std::string(e.what()).find("before the passes"), std::string::npos) << e.what();
    }
}

}  // namespace
