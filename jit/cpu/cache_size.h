// How much the processor's caches hold.
#pragma once
#include <cstdint>

namespace tegula::cpu {

/// Bytes of the last-level caches of all cores together, as the system describes them; 32 MiB where it does not.
uint64_t last_level_cache_bytes();

}  // namespace tegula::cpu
