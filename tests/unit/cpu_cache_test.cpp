// Object code that comes out of a cache: an entry that is whole but holds something else than code is compiled anew, and code for one set of
// processor features is never taken for another.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "jit/cache/cache.h"
#include "tests/unit/interp_fixture.h"
#include "tests/unit/native_run.h"

namespace tegula::testing {
namespace {

constexpr const char* kKernel =
    "kernel @k(%x: tensor<f32>[?] in, %y: tensor<f32>[?] out) {\n %0 = constant 0 : i64\n %1 = load %x[%0 +: 64] : tile<f32>[64]\n"
    " %2 = add %1, %1 : tile<f32>[64]\n %3 = reduce %2 {axis = 0, kind = sum, order = 0} : f32\n %4 = broadcast %3 : tile<f32>[64]\n"
    " %5 = mul %2, %4 : tile<f32>[64]\n store %y[%0 +: 64] = %5\n ret\n}\n";

/// Holds what a test puts into it, whatever was compiled.
class Planted : public BlobCache {
public:
    std::optional<std::string> find(std::string_view) override { return blob; }
    void put(std::string_view, std::string_view made) override { compiled = made; }
    std::optional<std::string> blob;
    std::string compiled;
};

class CpuCache : public ::testing::Test {
protected:
    static std::vector<Argument> arguments(std::vector<float>& x, std::vector<float>& y) {
        std::vector<Argument> args(2);
        for (size_t i = 0; i < 2; ++i) {
            args[i].kind = Argument::tensor;
            args[i].t.elem = id_of(Fmt::f32);
            args[i].t.data = i ? y.data() : x.data();
            args[i].t.bytes = 256;
            args[i].t.extents = Shape{64};
        }
        return args;
    }
    void run(const std::shared_ptr<BlobCache>& cache) {
        std::vector<float> x(64, 0.5f), y(64, -1);
        const std::vector<Argument> args = arguments(x, y);
        cpu::Backend backend(cache);
        const uint64_t grid[3] = {1, 1, 1};
        ASSERT_EQ(backend.prepare(*fn_)->run(args, grid, {}).status, RunResult::ok);
        EXPECT_EQ(y, std::vector<float>(64, 64));
    }
    World world_;
    const std::unique_ptr<ir::Function> fn_ = world_.parse(kKernel);
};

TEST_F(CpuCache, WhatIsNoObjectFileIsCompiledAnew) {
    const auto cache = std::make_shared<Planted>();
    ASSERT_NO_FATAL_FAILURE(run(cache));
    const std::string good = cache->compiled;
    ASSERT_GT(good.size(), 500u);
    cache->blob = good;
    cache->compiled.clear();
    ASSERT_NO_FATAL_FAILURE(run(cache));
    ASSERT_TRUE(cache->compiled.empty()) << "a good entry serves";
    std::vector<std::string> others = {"", "x", std::string(8, '\0'), "not an object file at all", std::string(5000, '\xff'), good + good};
    others.push_back(good.substr(0, 8) +
                     "\x7f"
                     "ELF");
    others.push_back(std::string(good).replace(8 + 18, 2, "\xb7\0", 2));  // of AArch64
    std::string without_symbol = good;
    for (size_t at = 0; (at = without_symbol.find("kernel", at)) != std::string::npos;) without_symbol[at] = 'K';
    others.push_back(without_symbol);
    for (const std::string& other : others) {
        SCOPED_TRACE(other.size());
        cache->blob = other;
        cache->compiled.clear();
        ASSERT_NO_FATAL_FAILURE(run(cache));
        if (other != good + good) {
            EXPECT_EQ(cache->compiled, good);
        }
    }
}

/// LLVM reads the headers of what it is given: no length may lead it outside.
TEST_F(CpuCache, TruncatedObjectFilesAreCompiledAnew) {
    const auto cache = std::make_shared<Planted>();
    ASSERT_NO_FATAL_FAILURE(run(cache));
    const std::string good = cache->compiled;
    for (size_t size = 0; size < good.size(); size += 1 + size / 12) {
        SCOPED_TRACE(size);
        cache->blob = good.substr(0, size);
        cache->compiled.clear();
        ASSERT_NO_FATAL_FAILURE(run(cache));
        EXPECT_EQ(cache->compiled, good);
    }
}

TEST_F(CpuCache, FeaturesDoNotMix) {
    CacheOptions where;
    where.directory = ::testing::TempDir() + "tegula_cpu_features";
    std::filesystem::remove_all(where.directory);
    cpu::Compiler compiler;
    std::map<std::string, std::string> made;  // by key
    std::vector<std::string> features = {"", "+avx2", "+avx2,+fma", "+avx512f,+avx512vl"};
    for (const std::string& f : features)
        for (const char* cpu : {"x86-64", "znver4"}) {
            cpu::CompileOptions options;
            options.tensors.resize(2);
            options.cpu = cpu;
            options.features = f;
            auto object = compiler.compile(*fn_, options);
            ASSERT_TRUE(object) << object.error;
            cpu::TargetInfo host = compiler.target();
            host.cpu = cpu;
            host.features = f;
            const std::string key = cpu::object_key(*fn_, options, host);
            EXPECT_TRUE(made.emplace(key, object->object).second);
            options.cpu = options.features = "";  // a host that is such a processor
            EXPECT_EQ(cpu::object_key(*fn_, options, host), key);
            make_cache(where)->put(key, object->object);
        }
    for (const auto& [key, object] : made) EXPECT_EQ(make_cache(where)->find(key), object);
    std::set<std::string> codes;
    for (const auto& [key, object] : made) codes.insert(object);
    EXPECT_GE(codes.size(), 3u) << "features change code";
    std::filesystem::remove_all(where.directory);
}

TEST_F(CpuCache, WhateverChangesCodeIsInTheKey) {
    std::vector<cpu::CompileOptions> all(7);
    for (cpu::CompileOptions& o : all) o.tensors.resize(2);
    all[1].may_alias = all[2].bounds = all[3].checked = true;
    all[4].tensors[0].strided = all[5].tensors[1].streamed = true;
    all[6].tensors[0].unit = 0;
    std::set<std::string> keys;
    for (const cpu::CompileOptions& o : all) keys.insert(cpu::object_key(*fn_, o, cpu::Compiler().target()));
    EXPECT_EQ(keys.size(), all.size());
}

/// The program that has run on whole tensors runs on one whose storage ends before its extents do.
TEST_F(CpuCache, CodeForWholeTensorsIsNotForOthers) {
    std::vector<float> x(64, 0.5f), y(64, -1);
    std::vector<Argument> args = arguments(x, y);
    cpu::Backend backend(nullptr);
    const auto program = backend.prepare(*fn_);
    const uint64_t grid[3] = {1, 1, 1};
    ASSERT_EQ(program->run(args, grid, {}).status, RunResult::ok);
    EXPECT_EQ(y, std::vector<float>(64, 64));
    std::fill(y.begin(), y.end(), -1.0f);
    args[1].t.bytes = 37 * 4;
    EXPECT_NE(program->run(args, grid, {}).status, RunResult::ok) << "the store leaves the storage";
    EXPECT_EQ(std::vector<float>(y.begin() + 37, y.end()), std::vector<float>(27, -1));
}

}  // namespace
}  // namespace tegula::testing
