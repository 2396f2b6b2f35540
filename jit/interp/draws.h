// The generator of schedules that are drawn: which program or copy goes on, and how far. The same seed gives the same schedule everywhere.
#pragma once
#include <cstdint>

namespace tegula::interp {

struct Draws {
    uint64_t state = 0;
    /// A pseudo-random number below n (splitmix64).
    uint64_t below(uint64_t n) {
        state += 0x9e3779b97f4a7c15u;
        uint64_t z = state;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return (z ^ z >> 31) % n;
    }
};

}  // namespace tegula::interp
