// The verifier on products of four warps as they are lowered: kernels whose products run into the next trip of their
// loop pass, and with one thing changed they do not.
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "lang/ir_text.h"
#include "lang/kernel/kernel_text.h"
#include "lang/kernel/text.h"
#include "lang/kernel/verify.h"
#include "lower/gpu/gpu.h"
#include "lower/kernel/lower.h"
#include "tests/unit/gpu_function.h"
#include "tests/unit/test_files.h"

namespace tegula {
namespace {

using kernel::Body;
using kernel::Call;
using kernel::KernelOp;
using kernel::Statement;

/// A kernel of tests/lower/gpu, whose first line says what is known of its tensors and which passes are off.
KernelText lowered(const std::string& name) {
    std::string text, head, word;
    std::istringstream lines(test::read(std::filesystem::path(TEGULA_SOURCE_DIR) / "tests/lower/gpu" / (name + ".ir")));
    for (std::string line; std::getline(lines, line);) {
        if (head.empty()) head = line;
        if (!line.starts_with("//")) text += line + "\n";
    }
    SourceMap sources;
    DiagSink diags;
    TypeTable types;
    const auto fn = ir::parse_ir(sources, sources.add(name, text), types, diags);
    for (const Diagnostic& d : diags.take()) ADD_FAILURE() << d.message;
    GpuOptions options = options_for("sm_90a", *fn, head.find("aligned") != std::string::npos);
    options.may_alias = head.find("apart") == std::string::npos;
    for (GpuTensor& fact : options.tensors) {
        fact.whole = head.find("whole") != std::string::npos;
        if (head.find("words") != std::string::npos) fact.grain = 16;
    }
    std::istringstream words(head);
    while (words >> word)
        if (word == "off") words >> options.disabled.emplace_back();
    run_gpu_passes(*fn, options);
    return lower_to_kernel(*fn, nullptr);
}

/// What the verifier says of products; of what else is on its way it says more once all of it are operations.
std::string problems(const kernel::Kernel& kernel) {
    std::string out;
    for (const kernel::Problem& p : verify(kernel))
        for (const char* about : {"product", "fence", "committed", "wgmma"})
            if ((p.statement + p.reason).find(about) != std::string::npos) {
                out += p.statement + ": " + p.reason + "\n";
                break;
            }
    return out;
}

/// Calls `body` with the place of each operation `op`, in order, until it returns true.
bool each_call(Body& statements, KernelOp op, const std::function<bool(Body&, size_t)>& body) {
    for (size_t i = 0; i < statements.size(); ++i) {
        Statement& s = statements[i];
        if (const Call* call = std::get_if<Call>(&s.is); call && call->row->op == op && body(statements, i)) return true;
        std::vector<Body*> inner;
        if (auto* text = std::get_if<kernel::TextBlocks>(&s.is))
            for (auto& part : text->parts) inner.push_back(&part.body);
        if (auto* roles = std::get_if<kernel::Roles>(&s.is))
            for (auto& part : roles->parts) inner.push_back(&part.body);
        if (auto* loop = std::get_if<kernel::For>(&s.is)) inner.push_back(&loop->body);
        if (auto* block = std::get_if<kernel::Block>(&s.is)) inner.push_back(&block->body);
        if (auto* choice = std::get_if<kernel::If>(&s.is)) inner.insert(inner.end(), {&choice->yes, &choice->no});
        for (Body* nested : inner)
            if (each_call(*nested, op, body)) return true;
    }
    return false;
}

int count(KernelText& kernel, KernelOp op) {
    int n = 0;
    each_call(kernel.form.body, op, [&](Body&, size_t) { return ++n < 0; });
    return n;
}

constexpr const char* kKernels[] = {"gemm_wgmma_tma", "gemm_wgmma_copied", "gemm_wgmma_cluster", "batched_wgmma",
                                    "scaled_wgmma",   "late_products",     "product_added",      "persistent_gemm"};

TEST(LoweredProducts, Pass) {
    for (const char* name : kKernels) {
        KernelText kernel = lowered(name);
        EXPECT_GT(count(kernel, KernelOp::wgmma_issue) + count(kernel, KernelOp::wgmma_start), 0) << name;
        EXPECT_EQ(count(kernel, KernelOp::wgmma_fence), count(kernel, KernelOp::wgmma_commit)) << name;
        EXPECT_EQ(problems(kernel.form), "") << name << "\n" << dump(kernel.form);
    }
}

/// Every operation of that kind, one at a time: without it there is a problem, among whose reasons is that one.
void expect_needed(const char* name, KernelOp op, const char* reason, const std::function<void(Body&, size_t)>& change) {
    KernelText whole = lowered(name);
    const int all = count(whole, op);
    EXPECT_GT(all, 0) << name;
    for (int skip = 0; skip < all; ++skip) {
        KernelText kernel = lowered(name);
        int at = skip;
        each_call(kernel.form.body, op, [&](Body& body, size_t i) {
            if (at-- > 0) return false;
            change(body, i);
            return true;
        });
        const std::string found = problems(kernel.form);
        EXPECT_NE(found, "") << name << ", number " << skip << "\n" << dump(kernel.form);
        EXPECT_NE(found.find(reason), std::string::npos) << name << ", number " << skip << ":\n" << found << dump(kernel.form);
    }
}

void erase(Body& body, size_t at) { body.erase(body.begin() + static_cast<std::ptrdiff_t>(at)); }

TEST(LoweredProducts, Fences) {
    for (const char* name : {"gemm_wgmma_copied", "late_products", "batched_wgmma"})
        expect_needed(name, KernelOp::wgmma_fence, "no fence stands", erase);
}

TEST(LoweredProducts, Commits) {
    expect_needed("gemm_wgmma_tma", KernelOp::wgmma_commit, "waits for work that has not been committed", erase);
    // With other groups on their way the next commit takes the work along, and a wait leaves it among the newest.
    expect_needed("late_products", KernelOp::wgmma_commit, "", erase);
    expect_needed("scaled_wgmma", KernelOp::wgmma_commit, "", erase);
}

TEST(LoweredProducts, Waits) {
    expect_needed("gemm_wgmma_copied", KernelOp::wgmma_wait, "on its way", erase);
    expect_needed("scaled_wgmma", KernelOp::wgmma_wait, "on its way", erase);
}

/// One group more than may be: the registers that are read or written next belong to it.
TEST(LoweredProducts, OneTooMany) {
    const auto more = [](Body& body, size_t at) {
        kernel::Ex& newer = std::get<Call>(body[at].is).operands[0];
        newer = newer->pool->number(newer->value + 1);
    };
    expect_needed("gemm_wgmma_copied", KernelOp::wgmma_wait, "on its way", more);
    expect_needed("scaled_wgmma", KernelOp::wgmma_wait, "on its way", more);
}

/// A sum that is read where its products may still be on their way.
TEST(LoweredProducts, ReadTooEarly) {
    for (const char* name : {"late_products", "scaled_wgmma"}) {
        KernelText kernel = lowered(name);
        Statement read;
        ASSERT_TRUE(each_call(kernel.form.body, KernelOp::named_get, [&](Body& body, size_t at) {
            read = body[at];
            return true;
        }));
        ASSERT_TRUE(each_call(kernel.form.body, KernelOp::wgmma_commit, [&](Body& body, size_t at) {
            body.insert(body.begin() + static_cast<std::ptrdiff_t>(at) + 1, read);
            return true;
        }));
        EXPECT_NE(problems(kernel.form).find("belongs to a product that is on its way"), std::string::npos) << name;
    }
}

}  // namespace
}  // namespace tegula
