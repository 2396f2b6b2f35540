// The artefact cache against everything that a file system, other processes and a power switch can do to it: what comes back is right or nothing.
#include "jit/cache/cache.h"
#include "tests/unit/sample.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

namespace tegula {
namespace {

namespace fs = std::filesystem;
constexpr uid_t kNobody = 65534;

class CacheTest : public ::testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/tegula_cache_test_XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        root_ = name;
        folder_ = root_ + "/cache";
    }
    void TearDown() override { fs::remove_all(root_); }

    std::shared_ptr<BlobCache> open(uint64_t disk = uint64_t{1} << 30, uint64_t memory = 0) {
        return make_cache({folder_, disk, memory, [this](const std::string& text) { warnings_.push_back(text); }});
    }
    std::vector<fs::path> files(const std::string& suffix = ".entry") const {
        std::vector<fs::path> out;
        std::error_code none;
        for (const auto& item : fs::directory_iterator(folder_, none))
            if (item.path().string().ends_with(suffix)) out.push_back(item.path());
        return out;
    }
    size_t temporaries() const {
        size_t n = 0;
        std::error_code none;  // a writer may have been killed before it made the folder
        for (const auto& item : fs::directory_iterator(folder_, none)) n += item.path().filename().string().starts_with(".tmp-");
        return n;
    }
    static std::string read(const fs::path& path) {
        std::ifstream in(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    static void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes; }

    std::string root_, folder_;
    std::vector<std::string> warnings_;
};

/// Blob number n: a size and bytes that only this n has.
std::string blob_of(uint64_t n, size_t base = 2000) {
    std::mt19937_64 random(n * 7919 + 13);
    std::string out(base + random() % base, '\0');
    for (char& c : out) c = static_cast<char>(random());
    return out;
}
std::string key_of(uint64_t n) { return "kernel " + std::to_string(n) + std::string(n % 97, 'k'); }

/// Runs `work` in a child process and returns its exit status (or 1000 + signal).
template <class Work>
int in_child(const Work& work) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(work());
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST_F(CacheTest, keeps_blobs_between_caches) {
    const std::string binary("\0\xff\n\0", 4);
    open()->put("key", binary);
    open()->put("", "empty key");
    EXPECT_EQ(open()->find("key"), binary);
    EXPECT_EQ(open()->find(""), "empty key");
    EXPECT_EQ(open()->find("kez"), std::nullopt);
    open()->put("key", "newer");
    EXPECT_EQ(open()->find("key"), "newer");
    EXPECT_EQ(files().size(), 2u);
    EXPECT_EQ(temporaries(), 0u);
    EXPECT_TRUE(warnings_.empty());
    struct stat info{};
    ASSERT_EQ(::stat(folder_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(CacheTest, touches_no_disk_before_first_use) {
    const auto cache = open();
    EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(CacheTest, memory_layer_forgets_least_recently_used) {
    const auto cache = make_cache({"off", 0, 1000, nullptr});
    cache->put("a", std::string(300, 'a'));
    cache->put("b", std::string(300, 'b'));
    cache->put("c", std::string(300, 'c'));
    EXPECT_TRUE(cache->find("a"));
    cache->put("d", std::string(300, 'd'));
    EXPECT_TRUE(cache->find("a"));
    EXPECT_FALSE(cache->find("b"));
    cache->put("huge", std::string(2000, 'h'));
    EXPECT_FALSE(cache->find("huge"));
    EXPECT_TRUE(cache->find("d"));
}

TEST_F(CacheTest, directory_comes_from_the_environment) {
    const auto resolved = [](const char* own, const char* xdg, const char* home) {
        own ? ::setenv("TEGULA_CACHE_DIR", own, 1) : ::unsetenv("TEGULA_CACHE_DIR");
        xdg ? ::setenv("XDG_CACHE_HOME", xdg, 1) : ::unsetenv("XDG_CACHE_HOME");
        home ? ::setenv("HOME", home, 1) : ::unsetenv("HOME");
        return cache_directory({});
    };
    const int status = in_child([&] {
        const bool ok = resolved("/own", "/xdg", "/home/me") == "/own" && resolved(nullptr, "/xdg", "/home/me") == "/xdg/tegula" &&
                        resolved(nullptr, "relative", "/home/me") == "/home/me/.cache/tegula" && resolved(nullptr, nullptr, nullptr).empty() &&
                        resolved("off", "/xdg", "/home/me").empty();
        return ok ? 0 : 1;
    });
    EXPECT_EQ(status, 0);
}

TEST_F(CacheTest, every_flipped_bit_is_noticed) {
    open()->put("key", "some blob of bytes");
    const fs::path path = files().at(0);
    const std::string good = read(path);
    for (size_t bit = 0; bit < good.size() * 8; ++bit) {
        std::string bad = good;
        bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
        write(path, bad);
        ASSERT_EQ(open()->find("key"), std::nullopt) << "bit " << bit;
    }
    open()->put("key", "some blob of bytes");
    EXPECT_EQ(open()->find("key"), "some blob of bytes");
    EXPECT_EQ(read(path), good);
}

TEST_F(CacheTest, truncated_and_extended_files_are_no_entries) {
    open()->put("key", blob_of(1, 60));
    const fs::path path = files().at(0);
    const std::string good = read(path);
    for (size_t size = 0; size < good.size(); ++size) {
        write(path, good.substr(0, size));
        ASSERT_EQ(open()->find("key"), std::nullopt) << size;
    }
    for (const std::string& tail : {std::string(1, '\0'), std::string("x"), good}) {
        write(path, good + tail);
        EXPECT_EQ(open()->find("key"), std::nullopt);
    }
    std::mt19937_64 random(5);
    for (int i = 0; i < (test::is_long() ? 100000 : 400); ++i) {
        std::string bad = good;
        const size_t at = random() % bad.size(), n = std::min<size_t>(1 + random() % 64, bad.size() - at);
        if (random() % 2)
            bad.erase(at, n);
        else
            for (size_t k = 0; k < n; ++k) bad[at + k] = static_cast<char>(random());
        write(path, bad);
        if (bad != good) {
            ASSERT_EQ(open()->find("key"), std::nullopt);
        }
    }
}

TEST_F(CacheTest, sparse_files_are_not_read_whole) {
    open()->put("key", "blob");
    const fs::path path = files().at(0);
    const std::string good = read(path);
    const auto touched = [&] {
        rusage before{}, after{};
        ::getrusage(RUSAGE_SELF, &before);
        EXPECT_EQ(open()->find("key"), std::nullopt);
        ::getrusage(RUSAGE_SELF, &after);
        return after.ru_minflt - before.ru_minflt;
    };
    for (const std::string& start : {std::string(), good, good.substr(0, 40)}) {  // nothing, an entry of another size, half of one
        write(path, start);
        if (::truncate(path.c_str(), off_t{1} << 30) != 0) GTEST_SKIP() << "no sparse files here";
        EXPECT_LT(touched(), 4096) << "pages of a quarter of a million";
    }
}

TEST_F(CacheTest, an_entry_serves_its_own_key_only) {
    open()->put("one", "blob of one");
    const std::string one = read(files().at(0));
    fs::remove(files().at(0));
    open()->put("two", "blob of two");
    write(files().at(0), one);
    EXPECT_EQ(open()->find("two"), std::nullopt);
}

TEST_F(CacheTest, planted_things_are_not_followed) {
    open()->put("key", "blob");
    const fs::path path = files().at(0), aside = root_ + "/aside";
    fs::rename(path, aside);
    fs::create_symlink(aside, path);
    EXPECT_EQ(open()->find("key"), std::nullopt) << "symbolic link";
    open()->put("key", "blob");
    EXPECT_FALSE(fs::is_symlink(path));
    EXPECT_EQ(open()->find("key"), "blob");
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(open()->find("key"), std::nullopt) << "pipe";
    fs::remove(path);
    EXPECT_TRUE(warnings_.empty());
    fs::create_directory(path);
    const auto cache = open(uint64_t{1} << 30, 1000);
    EXPECT_EQ(cache->find("key"), std::nullopt) << "directory";
    cache->put("key", "blob");
    cache->put("key", "blob");
    EXPECT_EQ(cache->find("key"), "blob") << "from memory";
    EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(CacheTest, directories_of_others_are_refused) {
    fs::create_directory(folder_);
    for (mode_t mode : {0777u, 0770u, 0702u}) {
        ::chmod(folder_.c_str(), mode);
        warnings_.clear();
        const auto cache = open(uint64_t{1} << 30, 1000);
        cache->put("key", "blob");
        EXPECT_EQ(cache->find("key"), "blob");
        EXPECT_TRUE(files().empty());
        EXPECT_EQ(warnings_.size(), 1u);
    }
    ::chmod(folder_.c_str(), 0700);
    fs::rename(folder_, root_ + "/real");
    fs::create_symlink(root_ + "/real", folder_);
    warnings_.clear();
    open()->put("key", "blob");
    EXPECT_EQ(warnings_.size(), 1u) << "a link in place of the directory";
    fs::remove(folder_);
    write(folder_, "a file");
    warnings_.clear();
    open()->put("key", "blob");
    EXPECT_EQ(warnings_.size(), 1u) << "a file in place of the directory";
    fs::remove(folder_);
    if (::geteuid() == 0) {
        fs::create_directory(folder_);
        ::chmod(folder_.c_str(), 0755);
        ASSERT_EQ(::chown(folder_.c_str(), kNobody, kNobody), 0);
        warnings_.clear();
        open()->put("key", "blob");
        EXPECT_EQ(warnings_.size(), 1u) << "a directory of another user";
    }
}

TEST_F(CacheTest, a_read_only_directory_is_read) {
    open()->put("key", "blob");
    ::chmod(root_.c_str(), 0755);
    if (::geteuid() == 0) {
        ASSERT_EQ(::chown(folder_.c_str(), kNobody, kNobody), 0);
        for (const fs::path& f : files()) ASSERT_EQ(::chown(f.c_str(), kNobody, kNobody), 0);
    }
    ::chmod(folder_.c_str(), 0500);
    const int status = in_child([&] {
        if (::geteuid() == 0 && ::seteuid(kNobody) != 0) return 10;
        const auto cache = open(uint64_t{1} << 30, 1000);
        if (cache->find("key") != "blob") return 1;
        cache->put("other", "other blob");
        cache->put("third", "third blob");
        if (cache->find("other") != "other blob") return 2;
        return warnings_.size() == 1 ? 0 : 3;
    });
    EXPECT_EQ(status, 0);
    ::chmod(folder_.c_str(), 0700);
    EXPECT_EQ(files().size(), 1u);
}

TEST_F(CacheTest, a_limit_on_file_sizes_is_no_signal) {
    const int status = in_child([&] {
        const rlimit limit{100, 100};
        if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 10;
        const auto cache = open(uint64_t{1} << 30, 10000);
        for (int i = 0; i < 3; ++i) cache->put(key_of(static_cast<uint64_t>(i)), std::string(500, 'x'));
        if (cache->find(key_of(1)) != std::string(500, 'x')) return 1;
        return warnings_.size() == 1 ? 0 : 2;
    });
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(files().empty());
    EXPECT_EQ(temporaries(), 0u);
}

TEST_F(CacheTest, a_full_disk_costs_one_warning) {
    fs::create_directory(folder_);
    if (::mount("tegula_test", folder_.c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0) GTEST_SKIP() << "no right to mount a small file system";
    const auto cache = open(uint64_t{1} << 30, uint64_t{1} << 20);
    for (uint64_t i = 0; i < 40; ++i) cache->put(key_of(i), blob_of(i));
    for (uint64_t i = 0; i < 40; ++i) EXPECT_EQ(cache->find(key_of(i)), blob_of(i));
    EXPECT_EQ(warnings_.size(), 1u);
    const auto later = open();
    size_t found = 0;
    for (uint64_t i = 0; i < 40; ++i) {
        const auto blob = later->find(key_of(i));
        found += blob.has_value();
        if (blob) {
            EXPECT_EQ(*blob, blob_of(i));
        }
    }
    EXPECT_GT(found, 0u);
    EXPECT_LT(found, 40u);
    EXPECT_EQ(temporaries(), 0u);
    EXPECT_EQ(::umount2(folder_.c_str(), MNT_DETACH), 0);
}

TEST_F(CacheTest, size_limit_drops_what_was_used_least_recently) {
    constexpr uint64_t kLimit = 200 << 10;
    const auto cache = open(kLimit);
    cache->put(key_of(0), blob_of(0));
    for (uint64_t i = 1; i < 300; ++i) {
        cache->put(key_of(i), blob_of(i));
        const timespec old[2] = {{static_cast<time_t>(1000 + i), 0}, {static_cast<time_t>(1000 + i), 0}};
        for (const fs::path& f : files()) {  // age everything but entry 0, which is used all the time
            struct stat info{};
            if (::stat(f.c_str(), &info) == 0 && info.st_mtim.tv_sec > 100000) ::utimensat(AT_FDCWD, f.c_str(), old, 0);
        }
        ASSERT_EQ(cache->find(key_of(0)), blob_of(0)) << "after " << i;
        uint64_t total = 0;
        for (const fs::path& f : files()) total += fs::file_size(f);
        ASSERT_LE(total, kLimit + kLimit / 8 + 5000);
    }
    EXPECT_EQ(cache->find(key_of(1)), std::nullopt);
    EXPECT_EQ(cache->find(key_of(299)), blob_of(299));
    cache->put("too large", std::string(kLimit, 'x'));
    EXPECT_EQ(cache->find("too large"), std::nullopt);
    EXPECT_TRUE(warnings_.empty());
}

TEST_F(CacheTest, many_that_write_little_keep_the_limit_together) {
    constexpr uint64_t kLimit = 200 << 10;
    for (uint64_t i = 0; i < 600; ++i) open(kLimit)->put(key_of(i), blob_of(i));  // as processes do that compile one kernel each
    uint64_t total = 0;
    for (const fs::path& f : files()) total += fs::file_size(f);
    EXPECT_LE(total, 3 * kLimit) << "200 writes without a trim, once in 10^7 runs";
}

/// Everybody reads and writes keys 0 .. n - 1; false as soon as a blob is not the key's.
bool hammer(BlobCache& cache, uint64_t keys, int rounds, uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < rounds; ++i) {
        const uint64_t n = random() % keys;
        const auto blob = cache.find(key_of(n));
        if (blob && *blob != blob_of(n)) return false;
        if (!blob || random() % 4 == 0) cache.put(key_of(n), blob_of(n));
    }
    return true;
}

TEST_F(CacheTest, many_processes_with_many_threads) {
    const int rounds = test::is_long() ? 1000 : 60;
    std::vector<pid_t> children;
    for (int p = 0; p < 32; ++p) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            const auto cache = open(400 << 10);  // small: trimming goes on all the time
            std::atomic<int> bad{0};
            {
                std::vector<std::jthread> threads;
                for (int t = 0; t < 8; ++t) threads.emplace_back([&, t] { bad += !hammer(*cache, 150, rounds, static_cast<uint64_t>(p * 8 + t)); });
            }
            ::_exit(bad || !warnings_.empty() ? 1 : 0);
        }
        children.push_back(pid);
    }
    for (pid_t pid : children) {
        int status = 0;
        ::waitpid(pid, &status, 0);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    EXPECT_EQ(temporaries(), 0u);
    const auto cache = open();
    for (uint64_t i = 0; i < 150; ++i) {
        const auto blob = cache->find(key_of(i));
        if (blob) {
            EXPECT_EQ(*blob, blob_of(i));
        }
    }
}

TEST_F(CacheTest, killed_writers_leave_nothing_wrong) {
    const int kills = test::is_long() ? 1000 : 50;
    std::mt19937_64 random(3);
    size_t torn = 0;
    for (int k = 0; k < kills || (torn == 0 && k < 40 * kills); ++k) {  // a busy machine kills less often in the right moment
        const pid_t pid = ::fork();
        if (pid == 0) {
            const auto cache = open();
            for (uint64_t i = 0;; ++i) cache->put(key_of((static_cast<uint64_t>(k) + i) % 40), blob_of((static_cast<uint64_t>(k) + i) % 40, 100000));
        }
        ::usleep(static_cast<useconds_t>(1000 + random() % 15000));
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
        torn += temporaries() > 0;
        const auto cache = open();
        for (uint64_t i = 0; i < 40; ++i) {
            const auto blob = cache->find(key_of(i));
            if (blob) {
                ASSERT_EQ(*blob, blob_of(i, 100000));
            }
        }
    }
    EXPECT_GT(torn, 0u) << "no kill hit a write: the test proves nothing";
    const auto cache = open(uint64_t{8} << 20);
    for (uint64_t i = 0; i < 40; ++i) cache->put(key_of(i), blob_of(i, 100000));  // enough to trim
    EXPECT_EQ(temporaries(), 0u) << "files of dead writers are collected";
    EXPECT_TRUE(warnings_.empty());
}

TEST_F(CacheTest, forked_children_use_the_cache_of_their_parent) {
    const auto cache = open(uint64_t{1} << 30, 1000);
    cache->put("a", "blob a");
    EXPECT_EQ(in_child([&] {
                  cache->put("b", "blob b");
                  return cache->find("a") == "blob a" ? 0 : 1;
              }),
              0);
    EXPECT_EQ(cache->find("b"), "blob b");
}

}  // namespace
}  // namespace tegula
