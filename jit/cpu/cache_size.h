// How much the processor's caches hold.
#pragma once
#include <cstdint>
#include <string>

namespace tegula::cpu {

/// Bytes of the last-level caches of all cores that are on, together, as the system describes them below `root`; 32 MiB where it does not. Reads some
/// files per cache, not per core.
uint64_t last_level_cache_bytes(const std::string& root = "/sys/devices/system/cpu");

}  // namespace tegula::cpu
