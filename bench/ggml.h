// ggml's products of quantised weights, opened when the program runs: of the Python package `libggml-python`, where python3 has it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace cpu_bench {

class Ggml {
public:
    Ggml();
    ~Ggml();
    Ggml(const Ggml&) = delete;
    Ggml& operator=(const Ggml&) = delete;
    bool found() const { return impl_ != nullptr; }
    /// y = x[m, k] @ transpose(w[n, k]), x and y in f32, w of the first of `types` (names of ggml, separated by spaces) that the library has, on
    /// `threads` threads. Each call of what comes back is one product; empty: there is no such type. `type`: its name.
    std::function<void()> product(const std::string& types, int64_t m, int64_t n, int64_t k, int threads, std::string& type) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace cpu_bench
