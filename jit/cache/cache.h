// Compiled artefacts between launches and between processes: a least-recently-used layer in memory over one self-contained file per entry on disk.
// A key is any text that describes everything that can change the bytes; it is stored with the entry and compared, so that no hash collision, swapped
// or damaged file can give a wrong blob. No lock outlives a process; a file appears by one rename, whole or not at all.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

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

/// What lies in the directory, and what was done to it.
struct CacheReport {
    std::string directory, problem;  ///< problem: why there is nothing
    uint64_t limit = 0;
    struct Entry {
        std::string name, what;  ///< what: the first words of the key, where entries were read
        uint64_t bytes = 0;
        int64_t used = 0;  ///< seconds since 1970
        bool damaged = false;
    };
    std::vector<Entry> entries;  ///< that are left, least recently used first
    uint64_t removed = 0, removed_bytes = 0;
};
enum class CacheTask { stats, list, verify, trim, clear };
/// `list` and `verify` read every entry, and `verify` removes damaged ones; `trim` removes what the limit does not allow, `clear` everything.
CacheReport tend_cache(const CacheOptions& options, CacheTask task);

/// Where make_cache would keep its files; empty when nowhere.
std::string cache_directory(const CacheOptions& options);

}  // namespace tegula
