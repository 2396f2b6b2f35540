// The verifier on products of four warps as they are lowered: kernels whose products run into the next trip of their
// loop pass, and with one thing changed they do not.
#include "tests/unit/lowered_kernels.h"

namespace tegula {
namespace {

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
