// Inputs that the rows of the benchmark share.
#pragma once
#include <cstddef>
#include <random>
#include <vector>

/// `n` standard normal numbers.
inline std::vector<float> normal(size_t n, unsigned seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> distribution;
    std::vector<float> v(n);
    for (float& x : v) x = distribution(engine);
    return v;
}
