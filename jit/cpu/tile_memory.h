// Memory that tiles lie in and sorts work in. Large blocks ask for huge pages: to touch and give back memory by pages of 4 KiB takes some 100 ms per
// GiB, at the end of a run, too, which then ends that much later than it was cancelled.
#pragma once
#include <cstddef>
#include <memory>

namespace tegula::cpu {

constexpr size_t kTileAlignment = 64;

/// At least `bytes`, not initialised, aligned to kTileAlignment; throws std::bad_alloc.
void* allocate_tiles(size_t bytes);
void free_tiles(void* memory) noexcept;

struct FreeTiles {
    void operator()(void* memory) const noexcept { free_tiles(memory); }
};

}  // namespace tegula::cpu
