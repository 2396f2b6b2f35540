// What AArch64 would get: the kernels of the examples as LLVM IR for it hold nothing of x86 and are compiled by clang, products into fused
// multiply-adds of vectors. Nothing of it runs here.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "jit/cpu/cpu.h"
#include "lang/instruction.h"
#include "tests/unit/example_kernels.h"

namespace tegula {
namespace {

std::string llvm_text(const std::string& ir_text, const std::string& features = {}) {
    TypeTable types;
    SourceMap sources;
    DiagSink diags;
    const auto fn = ir::parse_ir(sources, sources.add("example.ir", ir_text), types, diags);
    if (!fn) return {};
    cpu::CompileOptions options;
    options.tensors.resize(fn->params.size());
    options.triple = "aarch64-linux-gnu";
    options.features = features;
    forget_instructions(*fn);
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

/// Blocks of sums fill the 32 registers; products of bytes take the instructions that the features name, and no others.
TEST(AArch64, RowsOfProductsAreCompiledByClang) {
    const bool has_clang = std::system("clang-19 --version >/dev/null 2>&1") == 0;
    char folder[] = "/tmp/tegula_aarch64_XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    const std::string file = std::string(folder) + "/k.ll", assembly = std::string(folder) + "/k.s";
    const auto product = [](const std::string& a, const std::string& b) {
        return "kernel @k(%a: tensor<" + a + ">[?, ?] in, %b: tensor<" + b +
               ">[?, ?] in, %c: tensor<i32>[?, ?] inout) {\n %0 = constant 0 : i64\n %1 = load %a[%0 +: 33, %0 +: 70] : tile<" + a +
               ">[33, 70]\n %2 = load %b[%0 +: 70, %0 +: 30] : tile<" + b + ">[70, 30]\n %3 = load %c[%0 +: 33, %0 +: 30] : tile<i32>[33, 30]\n" +
               " %4 = dot %1, %2, %3 {precision = ieee} : tile<i32>[33, 30]\n store %c[%0 +: 33, %0 +: 30] = %4\n ret\n}\n";
    };
    for (const cpu::DotRow& row : cpu::kDotRows) {
        if (row.isa() != cpu::Isa::aarch64) continue;
        SCOPED_TRACE(std::string(row.name));
        const std::string a = row.operands == cpu::DotRow::signed_signed ? "i8" : "u8",
                          b = row.operands == cpu::DotRow::unsigned_unsigned ? "u8" : "i8";
        EXPECT_EQ(llvm_text(product(a, b)).find("llvm.aarch64"), std::string::npos) << "not every AArch64 has it";
        const std::string text = llvm_text(product(a, b), "+" + std::string(row.feature));
        EXPECT_NE(text.find("llvm.aarch64.neon." + std::string(row.name)), std::string::npos);
        if (!has_clang) continue;
        std::ofstream(file) << text;
        ASSERT_EQ(std::system(("clang-19 --target=aarch64-linux-gnu -Wno-override-module -O2 -S -o " + assembly + " " + file).c_str()), 0);
        EXPECT_NE(test::read(assembly).find("\t" + std::string(row.name) + "\tv"), std::string::npos);
    }
    std::filesystem::remove_all(folder);
    if (!has_clang) GTEST_SKIP() << "no clang-19 here: the text alone was looked at";
}

}  // namespace
}  // namespace tegula
