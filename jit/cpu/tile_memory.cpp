// Tile memory (tile_memory.h).
#include "jit/cpu/tile_memory.h"

#include <cstdlib>
#include <new>
#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tegula::cpu {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLarge = 4 * kHugePage;

}  // namespace

void* allocate_tiles(size_t bytes) {
    const size_t align = bytes >= kLarge ? kHugePage : kTileAlignment;
    const size_t whole = (bytes + align - 1) / align * align;
    void* memory = whole >= bytes ? std::aligned_alloc(align, whole) : nullptr;
    if (!memory) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (align == kHugePage) (void)madvise(memory, whole, MADV_HUGEPAGE);  // a wish
#endif
    return memory;
}

void free_tiles(void* memory) noexcept { std::free(memory); }

}  // namespace tegula::cpu
