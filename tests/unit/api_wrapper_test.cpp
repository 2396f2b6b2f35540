// What tegula.hpp adds to the C ABI: spans, braces, tests and benches, DLPack.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <vector>

#include "tegula/tegula.hpp"

namespace {

constexpr const char* kSource = R"(
kernel add<T: number>(x: tensor<T>[N], y: tensor<T>[N], out z: tensor<T>[N]) grid [1] { z[0 +: 8] = x[0 +: 8] + y[0 +: 8]; }
test "passes" { assert_equal(1, 1); }
test "fails" { assert_equal(1, 2); }
bench "adds" {
    let x = ones<f32>[8];
    add(x, x, empty<f32>[8]);
}
)";

class Wrapper : public testing::Test {
protected:
    void SetUp() override {
        setenv("TEGULA_CACHE_DIR", "off", 1);
        module = tegula::Engine::create().value().load(kSource, "wrapper.tile").value();
        run.machine = "interp";
    }
    tegula::Module module;
    tegula::api::RunOptions run;
};

TEST_F(Wrapper, SpansBringTheirSize) {
    std::vector<float> x = {1, 2, 3}, y = {10, 20, 30}, z(3);
    ASSERT_TRUE(
        module.launch("add", {}, {tegula::Tensor(std::span(x)), tegula::Tensor(std::span<const float>(y)), tegula::Tensor(std::span(z))}, run));
    EXPECT_EQ(z, (std::vector<float>{11, 22, 33}));
    const auto plan = module.plan("add", {}, {tegula::Tensor(std::span(x)), tegula::Tensor(std::span(y))});
    ASSERT_TRUE(plan);
    const auto refused =
        module.launch("add", {}, {tegula::Tensor(std::span(x), {4}), tegula::Tensor(std::span(y), {4}), tegula::Tensor(std::span(z), {4})}, run);
    EXPECT_EQ(refused.status(), TEGULA_E_ARGUMENTS);
    EXPECT_NE(refused.diagnostics().text().find("12 bytes"), std::string::npos) << refused.diagnostics().text();
}

TEST_F(Wrapper, TestsAndBenches) {
    const auto all = module.test({}, run);
    EXPECT_EQ(all.status(), TEGULA_E_MISMATCH);
    ASSERT_EQ(all.partial().size(), 2u);
    EXPECT_EQ(all.partial()[0].name, "passes");
    EXPECT_EQ(all.partial()[0].status, TEGULA_OK);
    EXPECT_TRUE(all.partial()[0].diagnostics.empty());
    EXPECT_EQ(all.partial()[1].status, TEGULA_E_MISMATCH);
    EXPECT_NE(all.partial()[1].diagnostics.text().find("T1028"), std::string::npos) << all.partial()[1].diagnostics.text();
    EXPECT_EQ(module.test("passes", run).value().size(), 1u);
    const auto benches = module.bench({}, run);
    ASSERT_EQ(benches.partial().size(), 1u);
    EXPECT_EQ(benches.partial()[0].name, "adds");
}

TEST_F(Wrapper, DlpackBothWays) {
    const auto kept = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
    const std::weak_ptr<std::vector<float>> watched = kept;
    auto given = module.to_dlpack(tegula::Tensor(std::span(*kept), {2, 3}), false, kept);
    ASSERT_TRUE(given) << given.diagnostics().text();
    EXPECT_EQ(watched.use_count(), 2);
    auto back = module.from_dlpack(given.value());
    ASSERT_TRUE(back) << back.diagnostics().text();
    const tegula_tensor t = back.value().c();
    EXPECT_EQ(t.data, kept->data());
    ASSERT_EQ(t.rank, 2);
    EXPECT_EQ(t.extents[1], 3);
    EXPECT_STREQ(t.type, "f32");
    struct Managed {  // of DLPack 0.8
        void* data;
        int32_t device[2], rank;
        uint8_t code, bits;
        uint16_t lanes;
        int64_t *shape, *strides;
        uint64_t offset;
        void* context;
        void (*deleter)(Managed*);
    };
    auto* const managed = static_cast<Managed*>(given.value());
    managed->deleter(managed);
    EXPECT_EQ(watched.use_count(), 1);
    const auto refused = module.to_dlpack(tegula::Tensor(kept->data(), 4, "i3", {2, 3}), false, kept);
    EXPECT_FALSE(refused);
    EXPECT_EQ(watched.use_count(), 1) << "after an error nothing is kept";
}

}  // namespace
