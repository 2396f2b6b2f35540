// The order in which the programs of a grid start: 0, 1, 2 .. or, for a seed, a fixed pseudo-random permutation, the same on every machine.
#pragma once
#include <cstdint>

namespace tegula {

/// A permutation of [0, n): a four-round Feistel network with cycle walking.
class GridOrder {
public:
    GridOrder(uint64_t n, uint64_t seed) : n_(n), seed_(seed) {
        while (half_ < 32 && (uint64_t{1} << (2 * half_)) < n) ++half_;
    }
    uint64_t operator()(uint64_t i) const {
        if (seed_ == 0) return i;
        do i = once(i);
        while (i >= n_);
        return i;
    }

private:
    uint64_t once(uint64_t v) const {
        const uint64_t mask = (uint64_t{1} << half_) - 1;
        uint64_t left = v >> half_, right = v & mask;
        for (uint64_t round = 0; round < 4; ++round) {
            uint64_t h = (right + 1) * 0x9e3779b97f4a7c15u + seed_ * 0xbf58476d1ce4e5b9u + round;
            h = (h ^ h >> 31) * 0x94d049bb133111ebu;
            const uint64_t next = (left ^ h >> 29) & mask;
            left = right;
            right = next;
        }
        return left << half_ | right;
    }
    uint64_t n_, seed_;
    unsigned half_ = 1;
};

}  // namespace tegula
