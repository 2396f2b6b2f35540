// The size of last-level caches out of the system's description, on trees of files made up here.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "jit/cpu/cache_size.h"

namespace tegula::testing {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kKilo = 1 << 10, kMega = 1 << 20;

class CacheSize : public ::testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/tegula_cache_size_XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        root_ = name;
    }
    void TearDown() override { fs::remove_all(root_); }

    void write(const std::string& path, const std::string& text) {
        fs::create_directories(fs::path(root_ + path).parent_path());
        std::ofstream(root_ + path) << text << "\n";
    }
    void cache(int core, int index, int level, const std::string& type, const std::string& size, const std::string& cores) {
        const std::string at = "/cpu" + std::to_string(core) + "/cache/index" + std::to_string(index) + "/";
        write(at + "level", std::to_string(level));
        write(at + "type", type);
        write(at + "size", size);
        write(at + "shared_cpu_list", cores);
    }
    /// Caches of its own in two levels, and one of `megabytes` that it shares with `cores`; 0: none.
    void core(int n, int megabytes, const std::string& cores) {
        const std::string own = std::to_string(n);
        cache(n, 0, 1, "Data", "48K", own);
        cache(n, 1, 1, "Instruction", "32K", own);
        cache(n, 2, 2, "Unified", "1024K", own);
        if (megabytes) cache(n, 3, 3, "Unified", std::to_string(megabytes * 1024) + "K", cores);
    }
    uint64_t bytes() const { return cpu::last_level_cache_bytes(root_); }

    std::string root_;
};

TEST_F(CacheSize, WhatCoresShareCountsOnce) {
    write("/online", "0-3,6-7");  // 4 and 5 are off, and have no caches
    for (int n : {0, 1, 6}) core(n, 32, "0-1,6");
    for (int n : {2, 3, 7}) core(n, 16, "2-3,7");
    EXPECT_EQ(bytes(), 48 * kMega);
}

TEST_F(CacheSize, OneCoreTellsOfAllThatShareItsCache) {
    write("/online", "0-255");
    for (int n = 0; n < 256; n += 64) core(n, 96, std::to_string(n) + "-" + std::to_string(n + 63));
    EXPECT_EQ(bytes(), 4 * 96 * kMega) << "the other cores have no files at all";
}

TEST_F(CacheSize, CoresWithoutTheLastLevel) {
    write("/online", "0-2");
    core(0, 0, "");
    core(1, 24, "1-2");
    core(2, 24, "1-2");
    EXPECT_EQ(bytes(), 24 * kMega);
}

TEST_F(CacheSize, CachesOfOneCoreEach) {
    write("/online", "0,1");
    for (int n : {0, 1}) {
        cache(n, 0, 2, "Unified", "512K", std::to_string(n));  // in no order
        cache(n, 1, 1, "Data", "32K", std::to_string(n));
        cache(n, 2, 3, "Instruction", "9999K", std::to_string(n));
    }
    EXPECT_EQ(bytes(), 2 * 512 * kKilo);
}

TEST_F(CacheSize, WhereNothingIsSaid) {
    EXPECT_EQ(bytes(), 32 * kMega);
    for (const char* online : {"", "no list", "0", "0-3", "5-2", "0-", "-3", "99999999999", "0-99999999999"}) {
        write("/online", online);
        EXPECT_EQ(bytes(), 32 * kMega) << online;
    }
    write("/online", "0");
    cache(0, 0, 2, "Unified", "none", "0");
    EXPECT_EQ(bytes(), 32 * kMega);
}

TEST_F(CacheSize, OfThisMachine) {
    EXPECT_GE(cpu::last_level_cache_bytes(), uint64_t{1} << 18);
    EXPECT_LE(cpu::last_level_cache_bytes(), (uint64_t{1} << 30) * std::thread::hardware_concurrency());
}

}  // namespace
}  // namespace tegula::testing
