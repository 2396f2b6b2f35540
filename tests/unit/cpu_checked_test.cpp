// Checks in native code (`checked` = 2): the same diagnostics as the checked interpreter, at the same place, and nothing that the interpreter lets
// pass.
#include <gtest/gtest.h>

#include "tegula/tegula.hpp"

namespace {

constexpr const char* kSource = R"(edition 1;
kernel quotients<B: int = 21>(x: tensor<i32>[N], y: tensor<i32>[N], out z: tensor<i32>[N]) grid [cdiv(N, B)] {
    let i = program_id(0) * B;
    let divisor = select(i + iota[B] < N, y[i +: B], 1);
    z[i +: B] = x[i +: B] / divisor + x[i +: B] % divisor;
}
kernel narrow(x: tensor<i8>[N], y: tensor<i8>[N], out z: tensor<i8>[N]) grid [N] {
    let i = program_id(0);
    z[i] = x[i] / y[i];
}
kernel pick(x: tensor<f32>[N], at: tensor<i32>[M], out y: tensor<f32>[M]) grid [1] {
    let rows = x[0 +: 16];
    y[0 +: 37] = gather(rows, at[0 +: 37], axis = 0);
}
kernel shorten(x: tensor<f32>[N], out y: tensor<i8>[N]) grid [cdiv(N, 24)] {
    let i = program_id(0) * 24;
    y[i +: 24] = cast<i8>(x[i +: 24], overflow = trap);
}
kernel believe(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [N] {
    let i = program_id(0);
    assume(x[i] >= 0.0);
    y[i] = sqrt(x[i]);
}
kernel trust(out y: tensor<f32>[N], at: i64) grid [1] {
    assume(at >= 0 && at + 16 <= N);
    y[at +: 16] = full<f32>[16](1.0);
}
kernel prefix(x: tensor<i32>[N], out y: tensor<i32>[N]) grid [1] {
    y[0 +: 16] = scan(x[0 +: 16], 0, |a, b| b / a);
}
kernel through(p: ptr<f32>, q: ptr<f32>, n: i64) grid [1] {
    let i = iota[16];
    store(q + i, load(p + i) * 2.0, i < n);
}
kernel turned(p: ptr<f32>, out y: tensor<f32>[16, 8]) grid [1] {
    let i = iota[8, 16](axis = 0) * 16 + iota[8, 16](axis = 1);
    y[:, :] = permute(load(p + i), [1, 0]);
}
)";

class Checked : public testing::Test {
protected:
    void SetUp() override {
        setenv("TEGULA_CACHE_DIR", "off", 1);
        auto loaded = engine.load(kSource, "checked.tile");
        ASSERT_TRUE(loaded) << loaded.diagnostics().text();
        module = std::move(loaded.value());
    }
    /// What a launch says on a machine under `checked`, empty when all is well.
    std::string said(const char* machine, int checked, const std::string& kernel, std::initializer_list<tegula::Value> args) {
        tegula::RunOptions run;
        run.machine = machine;
        run.checked = checked;
        const auto result = module.launch(kernel, {}, args, run);
        EXPECT_TRUE(result.status() == TEGULA_OK || result.status() == TEGULA_E_RUN) << result.diagnostics().text();
        EXPECT_EQ(result.status() == TEGULA_OK, result.diagnostics().text().empty());
        return result.diagnostics().text();
    }
    /// Native code says what the interpreter says, which holds `code` (empty: nothing); unchecked it says nothing.
    void expect(const std::string& code, const std::string& kernel, std::initializer_list<tegula::Value> args) {
        const std::string wanted = said("interp", 1, kernel, args);
        EXPECT_EQ(wanted.find(code.empty() ? "T0" : code) != std::string::npos, !code.empty()) << wanted;
        EXPECT_EQ(said("cpu", 2, kernel, args), wanted) << kernel;
        if (code >= "T0903") {
            EXPECT_EQ(said("cpu", 0, kernel, args), "") << kernel;
        }
    }
    template <class T>
    static tegula::Tensor whole(std::vector<T>& v) {
        return tegula::Tensor(v.data(), {static_cast<int64_t>(v.size())});
    }
    tegula::Engine engine = tegula::Engine::create().value();
    tegula::Module module;
};

TEST_F(Checked, Divisions) {
    std::vector<int32_t> x(100, 7), y(100, 2), z(100);
    expect("", "quotients", {whole(x), whole(y), whole(z)});
    EXPECT_EQ(z[99], 4);
    y[37] = y[55] = 0;
    expect("T0907", "quotients", {whole(x), whole(y), whole(z)});
    y[37] = y[55] = -1;
    expect("", "quotients", {whole(x), whole(y), whole(z)});
    x[55] = INT32_MIN;
    expect("T0908", "quotients", {whole(x), whole(y), whole(z)});
    std::vector<int8_t> a(9, -128), b(9, 1), c(9);
    b[3] = -1;
    expect("T0908", "narrow", {whole(a), whole(b), whole(c)});
    b[2] = 0;
    expect("T0907", "narrow", {whole(a), whole(b), whole(c)});
}

TEST_F(Checked, Gathers) {
    std::vector<float> x(16, 1.0f), y(37);
    std::vector<int32_t> at(37, 15);
    expect("", "pick", {whole(x), whole(at), whole(y)});
    for (int32_t bad : {16, -1, INT32_MIN}) {
        at[29] = bad;
        expect("T0903", "pick", {whole(x), whole(at), whole(y)});
    }
}

TEST_F(Checked, CastsThatTrap) {
    std::vector<float> x(50, 100.0f);
    std::vector<int8_t> y(50);
    expect("", "shorten", {whole(x), whole(y)});
    x[49] = 128.0f;
    expect("T0910", "shorten", {whole(x), whole(y)});
}

TEST_F(Checked, AssumptionsAndRegions) {
    std::vector<float> x(5, 4.0f), y(5);
    expect("", "believe", {whole(x), whole(y)});
    x[3] = -1.0f;
    expect("T0912", "believe", {whole(x), whole(y)});
    std::vector<float> z(32);
    expect("T0912", "trust", {tegula::Tensor(z.data(), {20}), tegula::Value(int64_t{10})});
    EXPECT_EQ(z[20], 0.0f);
    std::fill(z.begin(), z.end(), 0.0f);
    said("cpu", 2, "trust", {tegula::Tensor(z.data(), {20}), tegula::Value(int64_t{10})});
    EXPECT_EQ(z, std::vector<float>(32)) << "what relied on it does not run";
    expect("", "trust", {tegula::Tensor(z.data(), {26}), tegula::Value(int64_t{10})});
    EXPECT_EQ(z[25], 1.0f);
    std::vector<int32_t> a(16, 1), b(16);
    expect("", "prefix", {whole(a), whole(b)});
    a[7] = 0;
    expect("T0907", "prefix", {whole(a), whole(b)});
}

TEST_F(Checked, PointersStayInside) {
    std::vector<float> x(16, 1.0f), y(17, -1.0f);
    const auto out = [&](int64_t n) { return tegula::Tensor(y.data(), {n}); };
    expect("", "through", {whole(x), out(16), tegula::Value(16)});
    expect("T0900", "through", {whole(x), out(12), tegula::Value(16)});
    expect("T0900", "through", {tegula::Tensor(x.data(), {9}), out(16), tegula::Value(16)});
    EXPECT_EQ(y[16], -1.0f);
    std::vector<float> many(128), all(128);  // lanes run along the pointers' first dimension
    expect("", "turned", {whole(many), tegula::Tensor(all.data(), {16, 8})});
    expect("T0900", "turned", {tegula::Tensor(many.data(), {118}), tegula::Tensor(all.data(), {16, 8})});
}

/// What native code cannot know stays with the interpreter: checked = 1 finds the race, 2 does not look for it.
TEST_F(Checked, RacesAreTheInterpreters) {
    auto racing = engine.load("kernel race(out y: tensor<f32>[N]) grid [4] { y[0 +: 4] = full<f32>[4](1.0); }", "race.tile");
    ASSERT_TRUE(racing) << racing.diagnostics().text();
    module = std::move(racing.value());
    std::vector<float> y(4);
    EXPECT_NE(said("cpu", 1, "race", {whole(y)}).find("T0905"), std::string::npos);
    EXPECT_EQ(said("cpu", 2, "race", {whole(y)}), "");
}

}  // namespace
