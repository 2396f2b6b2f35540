// The two layers put together.
#include "jit/cache/cache.h"

#include <cstdlib>
#include <list>
#include <mutex>
#include <set>
#include <unordered_map>

#include "jit/cache/disk.h"
#include "lang/diag.h"

namespace tegula {

namespace {

/// Least recently used blobs go first when their bytes (keys included) exceed the limit.
class MemoryLayer {
public:
    explicit MemoryLayer(uint64_t limit) : limit_(limit) {}

    std::optional<std::string> find(std::string_view key) {
        std::lock_guard lock(mutex_);
        const auto it = index_.find(key);
        if (it == index_.end()) return std::nullopt;
        items_.splice(items_.begin(), items_, it->second);
        return it->second->blob;
    }

    void put(std::string_view key, std::string_view blob) {
        std::lock_guard lock(mutex_);
        if (const auto it = index_.find(key); it != index_.end()) erase(it->second);
        if (key.size() + blob.size() > limit_) return;
        items_.push_front({std::string(key), std::string(blob)});
        index_.emplace(items_.front().key, items_.begin());
        bytes_ += key.size() + blob.size();
        while (bytes_ > limit_) erase(std::prev(items_.end()));
    }

private:
    struct Item {
        std::string key, blob;
    };
    void erase(std::list<Item>::iterator item) {
        bytes_ -= item->key.size() + item->blob.size();
        index_.erase(item->key);
        items_.erase(item);
    }
    const uint64_t limit_;
    std::mutex mutex_;
    std::list<Item> items_;                                                  ///< most recently used first
    std::unordered_map<std::string_view, std::list<Item>::iterator> index_;  ///< keys are views of the items'
    uint64_t bytes_ = 0;
};

class Cache final : public BlobCache {
public:
    explicit Cache(CacheOptions options)
        : memory_(options.memory_bytes), disk_(cache_directory(options), options.disk_bytes, std::move(options.warn)) {}

    std::optional<std::string> find(std::string_view key) override {
        if (auto blob = memory_.find(key)) return blob;
        auto blob = disk_.find(key);
        if (blob) memory_.put(key, *blob);
        return blob;
    }
    void put(std::string_view key, std::string_view blob) override {
        memory_.put(key, blob);
        disk_.put(key, blob);
    }

private:
    MemoryLayer memory_;
    cache::Disk disk_;
};

}  // namespace

std::string cache_directory(const CacheOptions& options) {
    if (options.directory == "off") return {};
    if (!options.directory.empty()) return options.directory;
    if (const char* own = std::getenv("TEGULA_CACHE_DIR"); own && *own) return std::string(own) == "off" ? std::string() : own;
    if (const char* base = std::getenv("XDG_CACHE_HOME"); base && *base == '/') return std::string(base) + "/tegula";
    if (const char* home = std::getenv("HOME"); home && *home == '/') return std::string(home) + "/.cache/tegula";
    return {};
}

std::shared_ptr<BlobCache> make_cache(CacheOptions options) { return std::make_shared<Cache>(std::move(options)); }

CacheReport tend_cache(const CacheOptions& options, CacheTask task) {
    CacheReport out;
    out.directory = cache_directory(options);
    out.limit = options.disk_bytes;
    cache::Disk disk(out.directory, options.disk_bytes, {});
    out.problem = disk.problem();
    if (!out.problem.empty()) return out;
    const bool read = task == CacheTask::list || task == CacheTask::verify;
    std::vector<cache::Disk::Entry> before = disk.entries(read), gone;
    if (task == CacheTask::trim) {
        disk.trim();
        std::set<std::string> left;
        for (const auto& e : disk.entries()) left.insert(e.name);
        for (const auto& e : before)
            if (!left.count(e.name)) gone.push_back(e);
        out.removed = gone.size();
    } else {
        for (const auto& e : before)
            if (task == CacheTask::clear || (task == CacheTask::verify && e.key.empty())) gone.push_back(e);
        out.removed = disk.remove(gone);
    }
    std::set<std::string> names;
    for (const auto& e : gone) out.removed_bytes += e.bytes, names.insert(e.name);
    for (const auto& e : before) {
        if (names.count(e.name)) continue;
        std::string what = e.key.substr(0, e.key.find('\n'));
        out.entries.push_back({e.name, printable(what), e.bytes, e.used_s, read && e.key.empty()});
    }
    return out;
}

}  // namespace tegula
