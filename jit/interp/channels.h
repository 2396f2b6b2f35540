// Channels as the interpreter runs them: a model of copies that land late and of a producer that runs ahead, to find what a GPU would get wrong.
// Owned by the worker that runs a program in GPU form.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "jit/interp/draws.h"
#include "jit/interp/machine.h"

namespace tegula::interp {

/// A copy that was started and has not landed: where from, with the indices it was given.
struct Flight {
    Machine* machine;
    const Info* put;
    std::vector<int64_t> indices;
    uint64_t number;  ///< of the copy in its ring
};

struct Taken {
    const Info* get;
    uint64_t number;
};

struct Ring {
    const Info* made = nullptr;
    uint64_t stages = 1;
    uint64_t put = 0, taken_count = 0, released = 0;
    std::vector<std::vector<uint8_t>> stage;  ///< by number % stages
    std::vector<bool> landed;
    std::vector<Flight> flying;
    std::deque<Taken> taken;               ///< and not released, oldest first
    std::map<uint32_t, Span> released_at;  ///< by instruction of the get: its last release
    const Info* last_put = nullptr;
};

struct Rings {
    std::vector<Ring> rings;
    Draws random;            ///< the schedule's
    bool two_sides = false;  ///< inside `specialise`: puts and gets wait for each other
    /// Lets copy `f` of `ring` land.
    void land(Ring& ring, size_t f);
    /// Lets one copy in flight land, any one; false when there is none.
    bool land_any();
};

}  // namespace tegula::interp
