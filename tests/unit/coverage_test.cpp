// Every row of the tables is hit by some test (testing.md 2): operations, on at least three element types each, and formats by what the blocks
// of tests/run and examples really elaborate; built-ins, host calls and library items by name; diagnostics by their codes under tests/.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "jit/engine/host.h"
#include "tests/unit/test_files.h"

namespace tegula {
namespace {

namespace fs = std::filesystem;
using test::read, test::tile_files;

std::string joined(const std::set<std::string>& names) {
    std::string text;
    for (const std::string& n : names) text += " " + n;
    return text;
}

/// Element types seen per operation, and all element types seen.
struct Seen {
    std::map<ir::Op, std::set<std::string>> types;
    std::set<std::string> formats;

    /// What an instruction works on: its first operand (of a select, the first value), or its result where it has no operands.
    void add(const ir::Function& fn, const ir::Inst& inst) {
        std::set<std::string>& set = types[inst.op];
        const auto operands = fn.operands(inst);
        if (operands.empty() && inst.results.count == 0) return;
        set.insert(fn.elem(operands.empty() ? fn.result(inst) : operands[inst.op == ir::Op::select ? 1 : 0]).name);
    }
    void add(const ir::Function& fn) {
        for (uint32_t v = 0; v < fn.value_count(); ++v) formats.insert(fn.elem(ir::ValueId{v}).name);
        for (uint32_t b = 0; b < fn.block_count(); ++b)
            for (const ir::InstId id : fn.block(ir::BlockId{b}).insts) add(fn, fn.inst(id));
    }
};

Seen run_everything() {
    Seen seen;
    for (const char* folder : {"tests/run", "examples"}) {
        for (const fs::path& path : tile_files(folder)) {
            EngineOptions options;
            options.on_elaborated = [&](const ir::Function& fn) { seen.add(fn); };
            options.import_root = path.parent_path().string();
            const auto engine = Engine::create(options);
            DiagSink diags;
            const ModulePtr module = engine->load(path.string(), read(path), path.parent_path().string(), diags);
            EXPECT_TRUE(module != nullptr) << path << ": " << (diags.all().empty() ? "" : diags.all()[0].message);
            if (!module) continue;
            LaunchOptions launch;
            launch.threads = 1;
            launch.disabled_passes = {"all"};
            launch.checked = path.filename().string().rfind("unchecked_", 0) != 0;
            const auto report = [&](TestResult& r) {
                EXPECT_EQ(r.status, Status::ok) << path << ": " << r.name << ": " << (r.diagnostics.empty() ? "" : r.diagnostics[0].message);
            };
            (launch.checked ? run_tests : run_benches)(*engine, *module, "", launch, report);
        }
    }
    return seen;
}

const Seen& seen() {
    static const Seen everything = run_everything();
    return everything;
}

/// Rows that have no element type of their own, or only one by their nature.
bool untyped(ir::Op op) {
    using ir::Op;
    static const std::set<Op> kOps = {Op::program_id,   Op::num_programs, Op::dim,        Op::print,   Op::assert, Op::assume,    Op::ptr_at,
                                      Op::grid_barrier, Op::for_loop,     Op::while_loop, Op::if_else, Op::yield,  Op::condition, Op::ret};
    return kOps.count(op) != 0;
}

TEST(Coverage, EveryOperationOnThreeElementTypes) {
    for (int i = 0; i < static_cast<int>(ir::Op::count_); ++i) {
        const auto op = static_cast<ir::Op>(i);
        if (op == ir::Op::dim) continue;     // of IR text only: sema names every extent
        if (op >= ir::Op::cta_id) continue;  // made by the GPU passes
        const auto it = seen().types.find(op);
        ASSERT_NE(it, seen().types.end()) << "no test under tests/run or examples produces `" << ir::op_row(op).name << "`";
        if (untyped(op)) continue;
        EXPECT_GE(it->second.size(), 3u) << "`" << ir::op_row(op).name << "` runs on only:" << joined(it->second);
    }
}

TEST(Coverage, EveryFormat) {
    std::set<std::string> missing;
#define FORMAT(id, kind, is_signed, bits, exp, man, bias, has_inf, nan, negative_zero, doc) \
    if (!seen().formats.count(std::string(#id) == "boolean" ? "bool" : #id)) missing.insert(#id);
#include "lang/formats.def"
#undef FORMAT
    EXPECT_TRUE(missing.empty()) << "formats that no test computes with:" << joined(missing);
}

/// The names in a source text, comments and strings left out.
void collect_names(const std::string& text, std::set<std::string>& names) {
    for (size_t i = 0; i < text.size();) {
        if (text.compare(i, 2, "//") == 0) {
            i = std::min(text.find('\n', i), text.size());
        } else if (text[i] == '"') {
            for (++i; i < text.size() && text[i] != '"'; ++i)
                if (text[i] == '\\') ++i;
            ++i;
        } else if (isalpha(static_cast<unsigned char>(text[i])) || text[i] == '_') {
            const size_t begin = i;
            while (i < text.size() && (isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_')) ++i;
            names.insert(text.substr(begin, i - begin));
        } else {
            ++i;
        }
    }
}

const std::set<std::string>& names_in_tests() {
    static const std::set<std::string> all = [] {
        std::set<std::string> names;
        for (const char* folder : {"tests/run", "examples"})
            for (const fs::path& path : tile_files(folder)) collect_names(read(path), names);
        return names;
    }();
    return all;
}

TEST(Coverage, EveryBuiltin) {
    std::set<std::string> missing;
#define BUILTIN(name, signature, doc) \
    if (!names_in_tests().count(#name)) missing.insert(#name);
#include "sema/builtins.def"
    EXPECT_TRUE(missing.empty()) << "built-ins that no test calls:" << joined(missing);
}

TEST(Coverage, EveryHostCall) {
    std::set<std::string> names = names_in_tests(), missing;
    // Array files exist only where a host reads them: the transcripts of the command.
    for (const auto& e : fs::directory_iterator(fs::path(TEGULA_SOURCE_DIR) / "tests/cli"))
        if (e.path().extension() == ".txt") collect_names(read(e.path()), names);
#define HOST_CALL(name, signature, doc) \
    if (!names.count(#name)) missing.insert(#name);
#include "lang/host_calls.def"
    EXPECT_TRUE(missing.empty()) << "host calls that no test makes:" << joined(missing);
}

/// Items of a library file with the names in their text: those that tests name, and those that these name in turn, are covered.
TEST(Coverage, EveryLibraryFunction) {
    std::set<std::string> missing;
    for (const fs::path& path : tile_files("stdlib")) {
        std::map<std::string, std::set<std::string>> items;
        std::set<std::string> covered = names_in_tests();
        std::istringstream lines(read(path));
        std::set<std::string>* into = nullptr;
        for (std::string line; std::getline(lines, line);) {
            if (line.rfind("test ", 0) == 0) into = &covered;
            for (const std::string word : {"fn ", "kernel "})
                if (line.rfind(word, 0) == 0) into = &items[line.substr(word.size(), line.find_first_of("<(") - word.size())];
            if (into) collect_names(line, *into);
            if (line.rfind("}", 0) == 0) into = nullptr;
        }
        for (bool grew = true; grew;) {
            const size_t before = covered.size();
            for (const auto& [item, names] : items)
                if (covered.count(item)) covered.insert(names.begin(), names.end());
            grew = covered.size() != before;
        }
        for (const auto& [item, names] : items)
            if (!covered.count(item)) missing.insert(path.stem().string() + "." + item);
    }
    EXPECT_TRUE(missing.empty()) << "library items that no test uses:" << joined(missing);
}

TEST(Coverage, EveryDiagnostic) {
    std::string text;
    for (const auto& e : fs::recursive_directory_iterator(fs::path(TEGULA_SOURCE_DIR) / "tests")) {
        const fs::path& p = e.path();
        if (e.is_regular_file() && p.string().find("/corpus/") == std::string::npos && p.filename() != "coverage_test.cpp") text += read(p);
    }
    std::string missing;
#define DIAG(code, name, severity, message, explanation) \
    if (text.find(code) == std::string::npos && text.find("\"" #name "\"") == std::string::npos) missing += "\n  " code " " #name;
#include "lang/diags.def"
#undef DIAG
    EXPECT_TRUE(missing.empty()) << "diagnostics that no test expects:" << missing;
}

}  // namespace
}  // namespace tegula
