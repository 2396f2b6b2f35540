// What AArch64 would get: the kernels of the examples as LLVM IR for it hold nothing of x86 and are compiled by clang, products into fused
// multiply-adds of vectors. Nothing of it runs here.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "jit/cpu/cpu.h"
#include "tests/unit/example_kernels.h"

namespace tegula {
namespace {

std::string llvm_text(const std::string& ir_text) {
    TypeTable types;
    SourceMap sources;
    DiagSink diags;
    const auto fn = ir::parse_ir(sources, sources.add("example.ir", ir_text), types, diags);
    if (!fn) return {};
    cpu::CompileOptions options;
    options.tensors.resize(fn->params.size());
    options.triple = "aarch64-linux-gnu";
    cpu::Compiler compiler;
    const auto text = compiler.text(*fn, options, "llvm");
    EXPECT_TRUE(text) << text.error;
    const auto assembly = compiler.text(*fn, options, "asm");
    EXPECT_FALSE(assembly) << "no code generator for it is linked";
    return text ? *text.value : "";
}

TEST(AArch64, examplesAreCompiledByClang) {
    char folder[] = "/tmp/tegula_aarch64_XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    const std::filesystem::path root = folder;
    std::map<std::string, std::filesystem::path> files;  // one per kernel
    for (const test::Example& e : test::examples()) {
        const std::filesystem::path file = root / (e.name() + ".ll");
        if (!files.emplace(e.name(), file).second) continue;
        const std::string text = llvm_text(e.text);
        EXPECT_EQ(text.find("llvm.x86"), std::string::npos) << e.name();
        std::ofstream(file) << text;
    }
    EXPECT_GT(files.size(), 50u);
    int compiled = 0, fused = 0;
    if (std::system("clang-19 --version >/dev/null 2>&1") == 0)
        for (const auto& [name, file] : files) {
            const std::string assembly = file.string() + ".s";
            const std::string command = "clang-19 --target=aarch64-linux-gnu -Wno-override-module -O1 -S -o " + assembly + " " + file.string();
            EXPECT_EQ(std::system(command.c_str()), 0) << name;
            ++compiled;
            fused += name.starts_with("matmul.") && test::read(assembly).find("fmla\tv") != std::string::npos;
        }
    std::filesystem::remove_all(root);
    if (compiled == 0) GTEST_SKIP() << "no clang-19 here: the text alone was looked at";
    EXPECT_GT(fused, 0);
}

}  // namespace
}  // namespace tegula
