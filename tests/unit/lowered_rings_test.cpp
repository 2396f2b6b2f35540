// The verifier on rings, meetings, fences and tensor memory as they are lowered: kernels pass, and with one thing changed they do not.
#include "tests/unit/lowered_kernels.h"

namespace tegula {
namespace {

using K = KernelOp;
using kernel::Ex;

struct Lowered {
    const char *name, *arch;  ///< "": the one that the file names
};
constexpr Lowered kTma{"gemm_wgmma_tma", ""}, kCluster{"gemm_wgmma_cluster", ""}, kCopied{"gemm_wgmma_tma", "sm_80"},
    kPersistent{"persistent_gemm", ""}, kOwn{"persistent_rows", ""}, kTensor{"gemm_tcgen05_tma", ""}, kChain{"chain_tcgen05", ""},
    kLate{"late_products", ""};

TEST(LoweredRings, Pass) {
    for (const Lowered& l : {kTma, kCluster, kCopied, kPersistent, kOwn, kTensor, kChain, kLate}) {
        const KernelText kernel = lowered(l.name, l.arch);
        EXPECT_EQ(problems(kernel.form), "") << l.name << "\n" << dump(kernel.form);
        EXPECT_GE(kernel.form.rings.size(), 1u) << l.name;
    }
}

/// All operations of a kind in turn.
void needed(const Lowered& l, K op, const char* reason) { expect_needed(l.name, op, reason, erase, l.arch); }

TEST(LoweredRings, StagesAreWaitedFor) {
    for (const Lowered& l : {kTma, kPersistent, kTensor}) needed(l, K::mbarrier_wait, "(ring channel");
    needed(kCopied, K::copy_wait, "takes a stage whose copies are not awaited");
    needed(kCopied, K::copy_commit, "waits for work that has not been committed");
    needed(kOwn, K::copy_wait, "takes a stage whose copies are not awaited");
}

TEST(LoweredRings, StagesAreGivenBack) {
    for (const Lowered& l : {kTma, kPersistent}) needed(l, K::mbarrier_arrive, "moves on before the stage is given back");
    needed(kCluster, K::mbarrier_arrive_at, "moves on before the stage is given back");
}

/// A stage that is taken twice, and one that is never left.
TEST(LoweredRings, CountersMove) {
    for (const Lowered& l : {kTma, kCluster, kPersistent, kTensor}) {
        needed(l, K::advance, "(ring channel");
        expect_needed(
            l.name, K::advance, "(ring channel",
            [](Body& body, size_t at) {
                const Statement again = body[at];
                body.insert(body.begin() + static_cast<std::ptrdiff_t>(at), again);
            },
            l.arch);
    }
    needed(kCopied, K::advance_stage, "");
    needed(kCopied, K::count_put, "moves on from a stage that is not filled");
    needed(kCopied, K::count_get, "moves on from a stage that is not taken");
}

/// One stage less than there are.
TEST(LoweredRings, StagesAreCounted) {
    const auto fewer = [](Body& body, size_t at) {
        Ex& stages = std::get<Call>(body[at].is).operands[1];
        stages = stages->pool->number(stages->value - 1);
    };
    for (const Lowered& l : {kTma, kCluster, kPersistent, kTensor})
        expect_needed(l.name, K::advance, "counts to another number of stages", fewer, l.arch);
    expect_needed(kCopied.name, K::advance_stage, "counts to another number of stages", fewer, kCopied.arch);
}

/// A stage is filled before it is empty: the wait behind the copy.
TEST(LoweredRings, FilledTooEarly) {
    KernelText kernel = lowered(kTma.name);
    ASSERT_TRUE(each_call(kernel.form.body, K::mbarrier_expect, [&](Body& body, size_t at) {
        std::swap(body.at(at - 1), body[at]);
        return true;
    }));
    EXPECT_NE(problems(kernel.form).find("fills a stage that may not be empty"), std::string::npos) << dump(kernel.form);
}

TEST(LoweredRings, BarriersAreInitialised) {
    for (const Lowered& l : {kTma, kCluster, kPersistent, kTensor}) {
        needed(l, K::mbarrier_init, "the barrier has not been initialised");
        // The last one is for the barriers of all rings.
        KernelText kernel = lowered(l.name, l.arch);
        int last = count(kernel, K::mbarrier_init_fence);
        ASSERT_TRUE(each_call(kernel.form.body, K::mbarrier_init_fence, [&](Body& body, size_t at) {
            if (--last > 0) return false;
            erase(body, at);
            return true;
        }));
        EXPECT_NE(problems(kernel.form).find("bulk copies may not see yet that the barrier is initialised"), std::string::npos) << l.name;
    }
    needed(kCluster, K::cluster_arrive, "");
    needed(kCluster, K::cluster_wait, "");
}

/// Of meetings, the first one: those behind it may be there for what threads have written.
TEST(LoweredRings, ThreadsMeet) {
    const auto without_first = [](const Lowered& l, K op) {
        KernelText kernel = lowered(l.name, l.arch);
        EXPECT_TRUE(each_call(kernel.form.body, op, [&](Body& body, size_t at) {
            erase(body, at);
            return true;
        }));
        return problems(kernel.form);
    };
    for (const Lowered& l : {kTma, kPersistent})
        EXPECT_NE(without_first(l, K::meet_cta).find("threads have not met since the barrier was initialised"), std::string::npos) << l.name;
    EXPECT_NE(without_first(kCopied, K::meet_cta).find("takes a stage before threads have met"), std::string::npos);
}

/// Meetings under a condition that differs by thread, and in a role that is not theirs.
TEST(LoweredRings, MeetingsOfOthers) {
    const auto in_a_branch = [](Body& body, size_t at) {
        Statement inner = body[at];
        kernel::Pool& pool = *std::get<Call>(inner.is).operands[0]->pool;
        kernel::If choice;
        choice.condition = lt(pool.name(kernel::Type::i32, "t") & 31, 7);
        choice.yes.push_back(std::move(inner));
        body[at] = {std::move(choice)};
    };
    expect_needed(kTensor.name, K::products_wait, "threads that have to meet have gone different ways", in_a_branch, kTensor.arch);
    expect_needed(kTensor.name, K::meet_group, "threads that have to meet have gone different ways", in_a_branch, kTensor.arch);
    expect_needed(
        kTensor.name, K::meet_group, "threads come here",
        [](Body& body, size_t at) {
            Ex& count = std::get<Call>(body[at].is).operands[0];
            count = count->pool->number(count->value / 2);
        },
        kTensor.arch);
}

TEST(LoweredRings, TensorMemory) {
    needed(kTensor, K::tensor_give, "is not awaited before the kernel ends");
    needed(kChain, K::tensor_give, "is not awaited before the kernel ends");
    needed(kTensor, K::tensor_take, "gives back what has not been taken");
    needed(kChain, K::products_wait, "");
}

/// Boxes on their way out of shared memory.
TEST(LoweredRings, StoresOnTheirWay) {
    for (const Lowered& l : {kTma, kPersistent}) needed(l, K::tma_store_read, "");
}

}  // namespace
}  // namespace tegula
