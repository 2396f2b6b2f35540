// The system's description of caches (cache_size.h): one folder per core and cache, which names the cores that share the cache. What sysconf says is
// the whole package's, also in a virtual machine that owns a part of it.
#include "jit/cpu/cache_size.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <set>

namespace tegula::cpu {

namespace {

/// The first line of a file.
bool read(const std::string& path, std::string& line) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
    char text[1 << 12];
    line.assign(text, file ? std::fread(text, 1, sizeof text, file.get()) : 0);
    line.resize(std::min(line.find_first_of(" \n"), line.size()));
    return !line.empty();
}

/// The number that it begins with.
template <class T>
bool read_count(const std::string& path, T& value) {
    std::string line;
    return read(path, line) && std::from_chars(line.data(), line.data() + line.size(), value).ec == std::errc();
}

/// "0-3,8" as numbers, up to what is no such list.
std::set<int> cores_of(const std::string& list) {
    constexpr int kMostCores = 1 << 16;
    std::set<int> out;
    const char *at = list.data(), *const end = at + list.size();
    for (int first = 0; at < end; at += at < end && *at == ',') {
        const char* const begin = at;
        at = std::from_chars(at, end, first).ptr;
        if (at == begin || first < 0 || first >= kMostCores) break;
        int last = first;
        if (at < end && *at == '-') at = std::from_chars(at + 1, end, last).ptr;
        for (int core = first; core <= std::min(last, kMostCores); ++core) out.insert(core);
    }
    return out;
}

struct Cache {
    int level = 0;
    uint64_t bytes = 0;
    std::string cores;
};

/// The last one that a core's data goes through; level 0: nothing is known.
Cache last_cache(const std::string& core) {
    Cache last;
    for (int index = 0;; ++index) {
        const std::string at = core + "/cache/index" + std::to_string(index) + "/";
        Cache cache;
        std::string type;
        if (!read_count(at + "level", cache.level) || !read(at + "type", type)) return last;
        if (type == "Instruction" || cache.level <= last.level) continue;
        if (!read_count(at + "size", cache.bytes) || !read(at + "shared_cpu_list", cache.cores)) return last;
        cache.bytes <<= 10;
        last = cache;
    }
}

}  // namespace

uint64_t last_level_cache_bytes(const std::string& root) {
    constexpr uint64_t kUsual = 32 << 20;
    std::string online;
    read(root + "/online", online);
    std::set<int> cores = cores_of(online);
    std::map<int, uint64_t> levels;  // bytes
    while (!cores.empty()) {
        const Cache cache = last_cache(root + "/cpu" + std::to_string(*cores.begin()));
        levels[cache.level] += cache.bytes;
        cores.erase(cores.begin());
        for (const int core : cores_of(cache.cores)) cores.erase(core);
    }
    const uint64_t bytes = levels.empty() ? 0 : levels.rbegin()->second;
    return bytes ? bytes : kUsual;
}

}  // namespace tegula::cpu
