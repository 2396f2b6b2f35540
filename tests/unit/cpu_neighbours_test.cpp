// Elements of the machine `cpu` that share bytes: who writes or updates one of them leaves the others alone, whatever threads of one launch, or
// launches of two engines at a time, do to those.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tegula/tegula.hpp"

namespace {

/// Run p has `length` elements; programs of one parity write every other run.
constexpr const char* kSource = R"(edition 1;
kernel single<T: number>(inout x: tensor<T>[N], parity: i64, value: i64) grid [1] {
    x[2 * cast<i64>(iota[120]) + parity] = cast<T>(full<i64>[120](value));
}
kernel runs<T: number, LENGTH: int>(inout x: tensor<T>[N], parity: i64, value: i64) grid [cdiv(N, 2 * LENGTH)] {
    x[(2 * program_id(0) + parity) * LENGTH +: LENGTH] = cast<T>(full<i64>[LENGTH](value));
}
kernel pointers<T: number>(x: ptr<T>, n: i64, parity: i64, value: i64) grid [cdiv(n, 64)] {
    let at = program_id(0) * 64 + 2 * cast<i64>(iota[32]) + parity;
    store(x + at, cast<T>(full<i64>[32](value)), at < n);
}
kernel count<T: number>(inout x: tensor<T>[N], parity: i64, value: i64) grid [N / 2] {
    atomic_add(x[2 * program_id(0) + parity], cast<T>(1));
}
kernel count_all<T: number>(inout x: tensor<T>[N], parity: i64, value: i64) grid [N] {
    atomic_add(x[program_id(0)], cast<T>(1));
}
)";

constexpr int64_t kElements = 240, kRounds = 300;

struct Host {
    Host() {
        setenv("TEGULA_CACHE_DIR", "off", 1);
        run.machine = "cpu";
        module = engine.load(kSource, "neighbours.tile").value();
    }
    tegula::Engine engine = tegula::Engine::create().value();
    tegula::Module module;
    tegula::RunOptions run;
};

class Neighbours : public testing::Test {
protected:
    uint64_t element(size_t i) {
        uint64_t out = 0;
        for (size_t k = 0; k < bits_; ++k) {
            const size_t bit = i * bits_ + k;
            out |= (uint64_t{std::atomic_ref(x_[bit / 8]).load(std::memory_order_relaxed)} >> bit % 8 & 1) << k;
        }
        return out;
    }
    /// Both parities at the same time, each by an engine of its own, on `threads` threads; `length` elements in a run.
    void both(const std::string& kernel, size_t bits, int64_t length, uint32_t threads, bool looks = true) {
        bits_ = bits;
        const std::string type = "u" + std::to_string(bits);
        x_.assign((kElements * bits + 7) / 8, 0);
        const auto work = [&](Host& host, int64_t parity) {
            host.run.threads = threads;
            for (int64_t round = 1; round <= kRounds; ++round) {
                std::vector<tegula::NamedValue> generics{{"T", type}};
                if (kernel == "runs") generics.push_back({"LENGTH", length});
                std::vector<tegula::NamedValue> args{{"", tegula::Tensor(x_.data(), x_.size(), type, {kElements})}};
                if (kernel == "pointers") args.push_back({"", kElements});
                args.insert(args.end(), {{"", parity}, {"", round}});
                const auto result = host.module.launch(kernel, generics, args, host.run);
                ASSERT_TRUE(result) << result.diagnostics().text();
                for (int64_t i = 0; looks && i < kElements; ++i) {
                    if (i / length % 2 != parity) continue;
                    ASSERT_EQ(element(static_cast<size_t>(i)), static_cast<uint64_t>(round) & ((uint64_t{1} << bits) - 1))
                        << kernel << " of " << type << ", element " << i << ", round " << round;
                }
            }
        };
        std::thread other(work, std::ref(hosts_[1]), 1);
        work(hosts_[0], 0);
        other.join();
    }
    std::vector<uint8_t> x_;
    size_t bits_ = 0;
    Host hosts_[2];
};

TEST_F(Neighbours, OddAndEvenElements) {
    for (const size_t bits : {1, 3, 4, 6, 12, 13, 24, 31}) {
        both("single", bits, 1, 1);
        both("pointers", bits, 1, 1);
    }
}

TEST_F(Neighbours, Runs) {
    for (const size_t bits : {1, 3, 4, 12, 20})
        for (const int64_t length : {1, 3, 15, 17, 40}) both("runs", bits, length, 2);
}

TEST_F(Neighbours, Counts) {
    for (const size_t bits : {3, 4, 12, 13, 24, 40}) both("count", bits, 1, 2);
}

TEST_F(Neighbours, CountsOfOneElement) {
    for (const size_t bits : {4, 16}) {  // within one word, wherever it lies
        both("count_all", bits, 1, 2, false);
        for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(element(i), (2 * kRounds) & ((uint64_t{1} << bits) - 1)) << i;
    }
}

}  // namespace
