// The pool of the machine `cpu`: every program runs exactly once whatever the number of threads, however late they come, and whoever owns them.
#include "jit/cpu/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <numeric>
#include <set>
#ifdef __linux__
#include <sched.h>
#endif

#include "lang/grid_order.h"

using namespace tegula;
using namespace tegula::cpu;

namespace {

/// How often each index below `total` is taken when `workers` run on `pool`.
std::vector<int> counts(Pool& pool, uint64_t total, unsigned workers) {
    std::vector<std::atomic<int>> taken(total);
    Chunks chunks(total, workers);
    pool.run(workers, [&](unsigned w) {
        uint64_t begin, end;
        while (chunks.take(w, begin, end))
            for (uint64_t i = begin; i < end; ++i) ++taken.at(i);
    });
    EXPECT_EQ(chunks.taken(), total);
    return {taken.begin(), taken.end()};
}

TEST(Pool, EveryIndexOnce) {
    Pool pool({});
    for (unsigned workers : {1u, 2u, 3u, 8u, 64u})
        for (uint64_t total : {0u, 1u, 2u, 7u, 63u, 1000u, 50000u}) EXPECT_EQ(counts(pool, total, workers), std::vector<int>(total, 1)) << workers;
}

TEST(Pool, RunsFromManyThreadsAtOnce) {
    Pool pool({});
    std::vector<std::thread> callers;
    for (int t = 0; t < 8; ++t)
        callers.emplace_back([&] {
            for (int round = 0; round < 50; ++round) EXPECT_EQ(counts(pool, 200, 4), std::vector<int>(200, 1));
        });
    for (std::thread& t : callers) t.join();
}

TEST(Pool, ThreadsOfThePoolTakePart) {
    Pool pool({});
    // Worker 0 waits for another one: without a second thread this would never end.
    std::atomic<bool> other{false};
    pool.run(2, [&](unsigned w) {
        if (w)
            other = true, other.notify_all();
        else
            other.wait(false);
    });
    EXPECT_TRUE(other);
}

TEST(Pool, NoMoreThreadsThanAllowed) {
    Pool pool({{}, 1, false});
    std::mutex mutex;
    std::set<std::thread::id> ids;
    for (int round = 0; round < 20; ++round)
        pool.run(16, [&](unsigned) {
            std::lock_guard lock(mutex);
            ids.insert(std::this_thread::get_id());
        });
    EXPECT_LE(ids.size(), 2u);
}

#ifdef __linux__

cpu_set_t affinity() {
    cpu_set_t out;
    CPU_ZERO(&out);
    EXPECT_EQ(sched_getaffinity(0, sizeof out, &out), 0);
    return out;
}

std::set<int> cores_of(const cpu_set_t& mask) {
    std::set<int> out;
    for (int core = 0; core < CPU_SETSIZE; ++core)
        if (CPU_ISSET(core, &mask)) out.insert(core);
    return out;
}

/// Of each worker, the caller first, the cores that it may use, all at the same time; and each is where it may be.
std::vector<std::set<int>> cores_of_workers(Pool& pool, unsigned workers) {
    std::vector<std::set<int>> out(workers);
    std::atomic<unsigned> here{0};
    pool.run(workers, [&](unsigned w) {
        out[w] = cores_of(affinity());
        EXPECT_TRUE(out[w].count(sched_getcpu())) << "worker " << w << " is elsewhere";
        ++here;
        while (here < workers) std::this_thread::yield();  // none takes the part of two
    });
    return out;
}

TEST(Pool, PinnedThreadsStayWhereTheyWerePut) {
    const std::set<int> allowed = cores_of(affinity());
    Pool pool({{}, 0, true});
    const auto count = static_cast<unsigned>(allowed.size());
    for (int round = 0; round < 3; ++round) {
        const auto found = cores_of_workers(pool, 2 * count);
        EXPECT_EQ(found[0], allowed) << "the caller's thread is not ours to move";
        std::map<int, unsigned> threads;
        for (unsigned w = 1; w < 2 * count; ++w) {
            ASSERT_EQ(found[w].size(), 1u) << "worker " << w << " is not pinned";
            ASSERT_TRUE(allowed.count(*found[w].begin()));
            ++threads[*found[w].begin()];
        }
        EXPECT_EQ(threads.size(), allowed.size()) << "a core without a thread";
        for (const auto& [core, n] : threads) EXPECT_LE(n, 2u) << "core " << core;
    }
    EXPECT_EQ(counts(pool, 1000, 4), std::vector<int>(1000, 1));
}

TEST(Pool, WithoutPinningThreadsMayMove) {
    const std::set<int> allowed = cores_of(affinity());
    Pool pool({});
    for (const auto& cores : cores_of_workers(pool, 3)) EXPECT_EQ(cores, allowed);
}

/// A process that may use few cores of a machine, as under taskset: none of the others is taken, whatever their numbers.
TEST(Pool, PinsToCoresThatTheProcessMayUse) {
    std::thread([] {
        const int last = *cores_of(affinity()).rbegin();
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(last, &one);
        ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
        Pool pool({{}, 0, true});
        for (const auto& cores : cores_of_workers(pool, 5)) EXPECT_EQ(cores, std::set<int>{last});
    }).join();
}

#endif

TEST(Pool, HostExecutorRunsAll) {
    unsigned calls = 0;
    // One call after the other, the last first: the worst that a host may do.
    Pool pool({[&](uint32_t count, void (*call)(void*, uint32_t), void* task) {
                   calls += count;
                   for (uint32_t i = count; i-- > 0;) call(task, i);
               },
               0, false});
    EXPECT_EQ(counts(pool, 1000, 5), std::vector<int>(1000, 1));
    EXPECT_EQ(calls, 5u);
}

using Call = void (*)(void* task, uint32_t index);

/// Hosts that do not keep what HostExecutor says: each index is taken once all the same.
TEST(Pool, HostExecutorsThatLeaveOutRepeatOrThrow) {
    const std::map<std::string, HostExecutor> hosts = {{"nothing", [](uint32_t, Call, void*) {}},
                                                       {"the last only", [](uint32_t count, Call call, void* task) { call(task, count - 1); }},
                                                       {"each twice, one after the other",
                                                        [](uint32_t count, Call call, void* task) {
                                                            for (uint32_t i = 0; i < 2 * count; ++i) call(task, i / 2);
                                                        }},
                                                       {"too many",
                                                        [](uint32_t count, Call call, void* task) {
                                                            for (uint32_t i = 0; i < count + 100; ++i) call(task, i);
                                                        }},
                                                       {"one index at once", [](uint32_t count, Call call, void* task) {
                                                            std::vector<std::thread> threads;
                                                            for (uint32_t i = 0; i < 4 * count; ++i) threads.emplace_back(call, task, i % 2);
                                                            for (std::thread& t : threads) t.join();
                                                        }}};
    for (const auto& [name, host] : hosts) {
        Pool pool({host, 0, false});
        for (int round = 0; round < 3; ++round) EXPECT_EQ(counts(pool, 1000, 5), std::vector<int>(1000, 1)) << name;
    }
    Pool throws({[](uint32_t, Call call, void* task) {
                     call(task, 0);
                     throw 7;
                 },
                 0, false});
    EXPECT_THROW(counts(throws, 1000, 5), int);
}

/// It returns at once, its threads call when they come to it, in part when another run is on.
TEST(Pool, HostExecutorThatDoesNotWait) {
    std::vector<std::thread> threads;
    {
        Pool pool({[&](uint32_t count, Call call, void* task) {
                       for (uint32_t i = 0; i < count; ++i)
                           threads.emplace_back([=] {
                               std::this_thread::sleep_for(std::chrono::microseconds(100 * i));
                               call(task, i);
                           });
                   },
                   0, false});
        for (int round = 0; round < 20; ++round) EXPECT_EQ(counts(pool, 3000, 4), std::vector<int>(3000, 1));
        for (std::thread& t : threads) t.join();
    }
}

TEST(Chunks, HugeGridsAreCutIntoUnits) {
    constexpr uint64_t kTotal = (uint64_t{1} << 40) + 12345;
    Chunks chunks(kTotal, 2);
    uint64_t begin, end, next = 0;
    for (int i = 0; i < 1000 && chunks.take(0, begin, end); ++i) {
        EXPECT_EQ(begin, next);
        EXPECT_LT(begin, end);
        next = end;
    }
    ASSERT_TRUE(chunks.take(1, begin, end));
    EXPECT_NEAR(static_cast<double>(begin), static_cast<double>(kTotal) / 2, 4096);
}

TEST(Chunks, EndOfAHugeGridIsExact) {
    constexpr uint64_t kTotal = (uint64_t{1} << 31) + 7;  // units of two programs, the last one half empty
    Chunks chunks(kTotal, 3);
    uint64_t begin, end, last = 0, all = 0;
    while (chunks.take(2, begin, end)) {
        last = std::max(last, end);
        all += end - begin;
    }
    EXPECT_EQ(last, kTotal);
    EXPECT_EQ(all, kTotal);
}

TEST(ScratchStore, ReusesAndAligns) {
    ScratchStore store;
    uint8_t* first;
    {
        ScratchStore::Buffer a(store, 1000);
        first = a.data();
        EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
        ScratchStore::Buffer b(store, 1000);
        EXPECT_NE(b.data(), first);
    }
    ScratchStore::Buffer big(store, 1 << 20);
    EXPECT_NE(big.data(), first);
    ScratchStore::Buffer c(store, 900), d(store, 900);
    EXPECT_TRUE(c.data() == first || d.data() == first);
    EXPECT_EQ(ScratchStore::Buffer(store, 0).data(), nullptr);
}

TEST(GridOrder, IsAPermutation) {
    for (uint64_t n : {1u, 2u, 3u, 17u, 256u, 1000u})
        for (uint64_t seed : {1u, 7u, 123456789u}) {
            const GridOrder order(n, seed);
            std::set<uint64_t> seen;
            for (uint64_t i = 0; i < n; ++i) seen.insert(order(i));
            EXPECT_EQ(seen.size(), n);
            EXPECT_LT(*seen.rbegin(), n);
        }
    const GridOrder plain(1000, 0), mixed(1000, 5);
    EXPECT_EQ(plain(3), 3u);
    int moved = 0;
    for (uint64_t i = 0; i < 1000; ++i) moved += mixed(i) != i;
    EXPECT_GT(moved, 900);
}

}  // namespace
