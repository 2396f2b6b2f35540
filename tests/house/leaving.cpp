// A host may leave by exit() or from main while its threads compile and launch: nothing of the library that they use goes before them. Each round is
// a process that leaves at another moment.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tegula/tegula.hpp"

namespace {

[[noreturn]] void compile_for_ever(int thread) {
    auto engine = tegula::Engine::create();
    tegula::RunOptions options;
    options.machine = "cpu";
    for (int i = 0;; ++i) {
        const std::string text =
            "kernel k(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [cdiv(N, 64)] { let at = program_id(0) * 64; y[at +: 64] = exp(x[at +: 64]) + " +
            std::to_string(thread * 100000 + i) + ".0; }\n";
        auto module = engine.value().load(text, "own.tile");
        std::vector<float> x(2000, 1), y(2000);
        auto ran = module.value().launch("k", {}, {tegula::Tensor(x.data(), {2000}), tegula::Tensor(y.data(), {2000})}, options);
        if (!ran) std::fprintf(stderr, "%s\n", ran.diagnostics().text().c_str()), std::abort();
    }
}

}  // namespace

int main() {
    setenv("TEGULA_CACHE_DIR", "off", 1);
    constexpr int kRounds = 100;
    int bad = 0;
    for (int round = 0; round < kRounds; ++round) {
        const pid_t child = fork();
        if (child == 0) {
            for (int t = 0; t < 4; ++t) std::thread(compile_for_ever, t).detach();
            usleep(static_cast<useconds_t>(10000 + round * 1100));
            return 0;
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) std::fprintf(stderr, "round %d: status %d\n", round, status), ++bad;
    }
    std::printf("%d passed, %d failed\n", kRounds - bad, bad);
    return bad != 0;
}
