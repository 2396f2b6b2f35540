// Whole engines on one cache directory: many processes of many threads compile the same and different kernels, die at random moments, and find
// entries with flipped bits and cut ends. What they compute is right, and none says more than one warning.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include "tegula/tegula.hpp"
#include "tests/unit/sample.h"

namespace {

namespace fs = std::filesystem;

constexpr int kUnavailable = 77, kWrong = 1, kTooManyWarnings = 2;
constexpr int64_t kElements = 100;
constexpr uint64_t kShared = 10, kOthers = 100000;  ///< kernels that everybody compiles, and that nobody may have met yet

uint64_t processes() { return tegula::test::is_long() ? 32 : 6; }

std::string kernel_text(uint64_t n) {
    return "edition 1;\nkernel k(x: tensor<i32>[N], out y: tensor<i32>[N]) grid [cdiv(N, 32)] {\n    let at = program_id(0) * 32;\n    y[at +: 32] = "
           "x[at +: 32] * " +
           std::to_string(2 * n + 3) + " + " + std::to_string(n) + ";\n}\n";
}

struct Counts {
    std::atomic<int> wrong{0}, warnings{0}, unavailable{0};
};

/// Kernel `n` on an engine that knows nothing yet.
void compile_and_run(uint64_t n, const char* machine, Counts& counts) {
    auto engine = tegula::Engine::create();
    auto module = engine.value().load(kernel_text(n), "k.tile");
    std::vector<int32_t> x(kElements), y(kElements, -1);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int32_t>(i * 7 + n);
    tegula::api::RunOptions options;
    options.machine = machine;
    const auto ran = module.value().launch("k", {}, {tegula::Tensor(x.data(), {kElements}), tegula::Tensor(y.data(), {kElements})}, options);
    if (ran.status() == TEGULA_E_UNAVAILABLE) ++counts.unavailable;
    counts.warnings += ran.diagnostics().text().find("T1044") != std::string::npos;
    bool right = static_cast<bool>(ran);
    for (size_t i = 0; i < x.size(); ++i) right = right && y[i] == static_cast<int32_t>(static_cast<uint64_t>(x[i]) * (2 * n + 3) + n);
    counts.wrong += !right;
}

int exit_status(const Counts& counts) {
    if (counts.unavailable) return kUnavailable;
    if (counts.wrong) return kWrong;
    return counts.warnings > 1 ? kTooManyWarnings : 0;
}

/// The kernels that everybody compiles.
int compile_shared(const char* machine) {
    Counts counts;
    for (uint64_t n = 0; n < kShared; ++n) compile_and_run(n, machine, counts);
    return exit_status(counts);
}

/// On 8 threads, half shared kernels, half others.
int compile_many(const char* machine, int rounds, uint64_t seed) {
    Counts counts;
    {
        std::vector<std::jthread> threads;
        for (uint64_t t = 0; t < 8; ++t)
            threads.emplace_back([&, t] {
                std::mt19937_64 random(seed * 8 + t);
                for (int round = 0; round < rounds; ++round) compile_and_run(random() % (random() % 2 ? kShared : kOthers), machine, counts);
            });
    }
    return exit_status(counts);
}

class CacheOfEngines : public testing::Test {
protected:
    void SetUp() override {
        folder_ = testing::TempDir() + "tegula_cache_engines_XXXXXX";
        ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
        ::setenv("TEGULA_CACHE_DIR", (folder_ + "/cache").c_str(), 1);
        for (const char* machine : {"cuda", "cpu"}) {
            machine_ = machine;
            if (wait(start([&] { return compile_shared(machine); })) != 0) continue;
            for (const auto& item : fs::directory_iterator(folder_ + "/cache")) shared_.push_back(item.path());
            ASSERT_FALSE(shared_.empty());
            return;
        }
        GTEST_SKIP() << "neither a GPU nor LLVM: nothing is compiled here";
    }
    void TearDown() override { fs::remove_all(folder_); }

    /// A process that ends with what `work` gives.
    template <class Work>
    static pid_t start(Work work) {
        const pid_t pid = ::fork();
        if (pid == 0) ::_exit(work());
        return pid;
    }
    pid_t start_many(int rounds, uint64_t seed) const {
        return start([&] { return compile_many(machine_, rounds, seed); });
    }
    /// Its exit status, or 1000 and the signal that ended it; -1 where it is asked for at once (`WNOHANG`) and still runs.
    static int wait(pid_t pid, int options = 0) {
        int status = 0;
        if (::waitpid(pid, &status, options) != pid) return -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    }
    /// Turns a bit of an entry that everybody reads, or cuts its end.
    void damage(std::mt19937_64& random) const {
        const int file = ::open(shared_[random() % shared_.size()].c_str(), O_RDWR | O_CLOEXEC);
        if (file < 0) return;
        const auto size = static_cast<uint64_t>(std::max<off_t>(::lseek(file, 0, SEEK_END), 1));
        const auto at = static_cast<off_t>(random() % size);
        char byte = 0;
        if (random() % 8 == 0)
            EXPECT_EQ(::ftruncate(file, at), 0);
        else if (::pread(file, &byte, 1, at) == 1) {
            byte = static_cast<char>(byte ^ 1 << random() % 8);
            EXPECT_EQ(::pwrite(file, &byte, 1, at), 1);
        }
        ::close(file);
    }

    std::string folder_;
    std::vector<fs::path> shared_;  ///< entries of the shared kernels
    const char* machine_ = nullptr;
};

TEST_F(CacheOfEngines, many_processes_of_many_threads) {
    const int rounds = tegula::test::is_long() ? 20 : 4;
    std::vector<pid_t> children;
    for (uint64_t p = 0; p < processes(); ++p) children.push_back(start_many(rounds, p));
    for (const pid_t pid : children) EXPECT_EQ(wait(pid), 0);
}

TEST_F(CacheOfEngines, processes_that_die_among_entries_that_rot) {
    const int kills = tegula::test::is_long() ? 1000 : 25;
    std::mt19937_64 random(11);
    std::set<pid_t> victims, spared, dying;  // one process in 16 ends by itself, however slow the machine is
    int killed = 0, ended = 0;
    // What has ended by now, or all of it; a driver takes its time with the killed, so that nobody waits for one of them.
    const auto reap = [&](int options) {
        for (std::set<pid_t>* running : {&victims, &spared, &dying})
            std::erase_if(*running, [&](pid_t pid) {
                const int status = wait(pid, options);
                if (status < 0) return false;
                EXPECT_TRUE(status == 0 || (status == 1000 + SIGKILL && running == &dying)) << status;
                (status == 0 ? ended : killed) += 1;
                return true;
            });
    };
    uint64_t seed = 0;
    while (killed < kills) {
        for (; victims.size() + spared.size() + dying.size() < processes(); ++seed) (seed % 16 ? victims : spared).insert(start_many(4, 100 + seed));
        ::usleep(static_cast<useconds_t>(random() % 20000));
        damage(random);
        if (!victims.empty() && random() % 2) {
            const auto victim = std::next(victims.begin(), static_cast<long>(random() % victims.size()));
            ::kill(*victim, SIGKILL);
            dying.insert(*victim);
            victims.erase(victim);
        }
        reap(WNOHANG);
    }
    reap(0);
    const auto torn = std::count_if(fs::directory_iterator(folder_ + "/cache"), fs::directory_iterator(),
                                    [](const auto& item) { return item.path().filename().string().starts_with(".tmp-"); });
    std::printf("%d processes killed, which left %d entries half written; %d ended\n", killed, static_cast<int>(torn), ended);
}

}  // namespace
