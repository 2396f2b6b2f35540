// Text tests of sema: every tests/sema/*.tile is parsed, checked and, for each `// kernel: NAME [A=v ..]` line, elaborated. A line that ends in
// `//! CODE text` must get exactly that error; no other errors may appear. `//> text` lines must appear in the IR of the kernel above, in order.
// `// bind: NAME given=v .. : argument ..` lines launch: argument is f32[4, 8], f32[4, 8]@col, i64=3, or - (absent).
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "lang/ir_text.h"
#include "lang/layout.h"
#include "parser/parse.h"
#include "sema/sema.h"
#include "tests/unit/test_files.h"

namespace tegula {
namespace {

namespace fs = std::filesystem;
using test::read;

sema::StaticValue parse_value(TypeTable& types, const std::string& text) {
    if (text == "true" || text == "false") return {text == "true"};
    if (const auto f = types.builtin(text)) return {*f};
    if (text.find('.') != std::string::npos) return {std::stod(text)};
    return {static_cast<int64_t>(std::stoll(text))};
}

sema::StaticValues parse_values(TypeTable& types, const std::string& text) {
    sema::StaticValues out;
    std::istringstream words(text);
    for (std::string w; words >> w;) {
        const size_t at = w.find('=');
        if (at != std::string::npos) out[w.substr(0, at)] = parse_value(types, w.substr(at + 1));
    }
    return out;
}

sema::ArgumentType parse_argument(TypeTable& types, std::string w) {
    sema::ArgumentType a;
    if (w == "-") return a;
    if (const size_t eq = w.find('='); eq != std::string::npos) {
        a.kind = sema::ArgumentType::scalar;
        a.value = parse_value(types, w.substr(eq + 1));
        return a;
    }
    a.kind = sema::ArgumentType::tensor;
    if (w.size() > 4 && w.substr(w.size() - 4) == "@col") {
        a.layout = types.intern(Layout::col());
        w.resize(w.size() - 4);
    }
    const size_t open = w.find('[');
    a.elem = types.builtin(w.substr(0, open)).value_or(FormatId{});
    std::istringstream dims(open == std::string::npos ? "" : w.substr(open + 1));
    for (std::string d; std::getline(dims, d, ',');) a.extents.push(std::stoll(d));
    return a;
}

/// One file with its errors: (line, "CODE message").
struct Case {
    std::string text, name;
    std::multimap<unsigned, std::string> expected, found;
};

void record(const SourceMap& sources, DiagSink& diags, Case& c) {
    for (const Diagnostic& d : diags.take()) {
        if (d.severity != Severity::error) continue;
        std::string text = std::string(diag_row(d.id).code) + " " + d.message;
        for (const DiagNote& n : d.notes) text += " | " + n.whole();
        c.found.emplace(d.span.valid() ? sources.line_col(d.span.file, d.span.begin).line : 0, text);
    }
}

void find_expected(Case& c) {
    std::istringstream lines(c.text);
    unsigned n = 0;
    for (std::string line; std::getline(lines, line);) {
        ++n;
        for (size_t at = line.find("//! "); at != std::string::npos;) {
            const size_t next = line.find("//! ", at + 4);
            std::string want = line.substr(at + 4, next == std::string::npos ? next : next - at - 4);
            while (!want.empty() && want.back() == ' ') want.pop_back();
            c.expected.emplace(n, want);
            at = next;
        }
    }
}

bool matches(const std::string& want, const std::string& found) {
    return found.substr(0, 5) == want.substr(0, 5) && (want.size() <= 6 || found.find(want.substr(6)) != std::string::npos);
}

void compare(Case& c) {
    for (const auto& [line, want] : c.expected) {
        const auto [begin, end] = c.found.equal_range(line);
        const auto it = std::find_if(begin, end, [&, w = want](const auto& f) { return matches(w, f.second); });
        if (it == end) {
            ADD_FAILURE() << c.name << ":" << line << ": expected " << want;
            continue;
        }
        c.found.erase(it);
    }
    for (const auto& [line, text] : c.found) ADD_FAILURE() << c.name << ":" << line << ": unexpected " << text;
}

const ast::KernelItem* find_kernel(const sema::Module& m, const std::string& name) {
    const ast::Item* item = m.find(name);
    return item && item->kind == ast::ItemKind::kernel ? static_cast<const ast::KernelItem*>(item) : nullptr;
}

void run_kernel(const sema::Module& m, const std::string& spec, const std::vector<std::string>& golden, TypeTable& types, DiagSink& diags,
                const Case& c) {
    std::istringstream words(spec);
    std::string name, rest;
    words >> name;
    std::getline(words, rest);
    const ast::KernelItem* k = find_kernel(m, name);
    ASSERT_NE(k, nullptr) << c.name << ": no kernel " << name;
    const auto generics = sema::bind_static(m, *k, parse_values(types, rest), types, diags, true);
    if (!generics) return;
    const auto instance = sema::elaborate_kernel(m, *k, *generics, types, {}, diags);
    if (!instance) return;
    const std::vector<std::string> problems = ir::verify(*instance->fn);
    EXPECT_TRUE(problems.empty()) << c.name << ": " << (problems.empty() ? "" : problems.front()) << "\n" << ir::print(*instance->fn);
    const std::string text = ir::print(*instance->fn);
    size_t at = 0;
    for (const std::string& line : golden) {
        const size_t found = text.find(line, at);
        EXPECT_NE(found, std::string::npos) << c.name << ": IR lacks `" << line << "`\n" << text;
        if (found != std::string::npos) at = found + line.size();
    }
}

void run_bind(const sema::Module& m, const std::string& spec, TypeTable& types, DiagSink& diags, const Case& c) {
    const size_t colon = spec.find(" :"), arrow = spec.find(" -> ");
    std::istringstream head(spec.substr(0, colon));
    std::string name, rest;
    head >> name;
    std::getline(head, rest);
    const ast::KernelItem* k = find_kernel(m, name);
    ASSERT_NE(k, nullptr) << c.name << ": no kernel " << name;
    std::vector<sema::ArgumentType> arguments;
    std::istringstream words(spec.substr(colon + 2, arrow == std::string::npos ? arrow : arrow - colon - 2));
    for (std::string w; words >> w;) arguments.push_back(parse_argument(types, w));
    const auto plan = sema::bind_launch(m, *k, parse_values(types, rest), arguments, types, diags);
    if (!plan || arrow == std::string::npos) return;
    std::string text;
    for (const uint64_t g : plan->grid) text += (text.empty() ? "" : ",") + std::to_string(g);
    for (const auto& [key, v] : plan->generics) text += " " + key + "=" + sema::to_string(v, types);
    for (const auto& [key, v] : plan->extents) text += " " + key + "=" + std::to_string(v);
    EXPECT_EQ(text, spec.substr(arrow + 4)) << c.name;
}

void run_file(const fs::path& path) {
    Case c;
    c.text = read(path);
    c.name = path.filename().string();
    find_expected(c);
    SourceMap sources;
    TypeTable types;
    DiagSink diags;
    Arena arena;
    sema::Module m;
    m.name = c.name;
    m.ast = parse_module(sources, sources.add(c.name, c.text), arena, diags);
    sema::check_module(m, types, diags);
    for (const ast::Item* item : m.ast->items)
        if (item->kind == ast::ItemKind::test || item->kind == ast::ItemKind::bench) sema::check_host_block(m, *item, diags);
    const bool ok = !diags.has_errors();
    std::istringstream lines(c.text);
    std::vector<std::pair<std::string, std::vector<std::string>>> kernels;
    for (std::string line; std::getline(lines, line);) {  // errors do not keep kernels from being elaborated, and are not told twice
        if (line.substr(0, 11) == "// kernel: ")
            kernels.push_back({line.substr(11), {}});
        else if (line.substr(0, 4) == "//> " && !kernels.empty())
            kernels.back().second.push_back(line.substr(4));
        else if (ok && line.substr(0, 9) == "// bind: ")
            run_bind(m, line.substr(9, line.find(" //!") == std::string::npos ? line.npos : line.find(" //!") - 9), types, diags, c);
    }
    for (const auto& [spec, golden] : kernels) run_kernel(m, spec.substr(0, spec.find(" //!")), golden, types, diags, c);
    record(sources, diags, c);
    compare(c);
}

class SemaText : public testing::TestWithParam<std::string> {};

TEST_P(SemaText, File) { run_file(fs::path(TEGULA_SOURCE_DIR) / "tests/sema" / (GetParam() + ".tile")); }

std::vector<std::string> files() {
    std::vector<std::string> out;
    for (const fs::path& path : test::tile_files("tests/sema")) out.push_back(path.stem().string());
    return out;
}

INSTANTIATE_TEST_SUITE_P(All, SemaText, testing::ValuesIn(files()), [](const auto& info) {
    std::string name = info.param;
    std::replace_if(name.begin(), name.end(), [](char ch) { return !isalnum(static_cast<unsigned char>(ch)); }, '_');
    return name;
});

}  // namespace
}  // namespace tegula
