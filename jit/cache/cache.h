// Compiled artefacts between launches and between processes: a least-recently-used layer in memory over one self-contained file per entry on disk.
// A key is any text that describes everything that can change the bytes; it is stored with the entry and compared, so that no hash collision, swapped
// or damaged file can give a wrong blob. No lock outlives a process; a file appears by one rename, whole or not at all.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "lang/blob_cache.h"

namespace tegula {

struct CacheOptions {
    /// Empty: $TEGULA_CACHE_DIR, else $XDG_CACHE_HOME/tegula, else $HOME/.cache/tegula. "off" (also in the variable): memory only.
    std::string directory;
    uint64_t disk_bytes = uint64_t{1} << 30;  ///< least recently used entries go when the directory is larger
    uint64_t memory_bytes = uint64_t{64} << 20;
    std::function<void(const std::string&)> warn;  ///< at most one call in the cache's life: why the disk is not used (any more)
};
/// Touches the disk on the first use only.
std::shared_ptr<BlobCache> make_cache(CacheOptions options);

/// Where make_cache would keep its files; empty when nowhere.
std::string cache_directory(const CacheOptions& options);

}  // namespace tegula
