// The system's description of caches (cache_size.h): one folder per core and level, which names the cores that share the cache. What sysconf says is
// the whole package's, also in a virtual machine that owns a part of it.
#include "jit/cpu/cache_size.h"

#include <fstream>
#include <map>
#include <string>

namespace tegula::cpu {

uint64_t last_level_cache_bytes() {
    constexpr uint64_t kUsual = 32 << 20;
    std::map<int, std::map<std::string, uint64_t>> levels;  // bytes by the cores that share them
    const auto read = [](const std::string& path, auto& value) { return static_cast<bool>(std::ifstream(path) >> value); };
    for (int core = 0, found = 1; found; ++core) {
        found = 0;
        for (int index = 0;; ++index, ++found) {
            const std::string at = "/sys/devices/system/cpu/cpu" + std::to_string(core) + "/cache/index" + std::to_string(index) + "/";
            int level;
            uint64_t kilobytes;
            std::string type, cores;
            if (!read(at + "level", level) || !read(at + "type", type) || !read(at + "size", kilobytes) || !read(at + "shared_cpu_list", cores))
                break;
            if (type != "Instruction") levels[level][cores] = kilobytes << 10;
        }
    }
    uint64_t sum = 0;
    if (!levels.empty())
        for (const auto& [cores, bytes] : levels.rbegin()->second) sum += bytes;
    return sum ? sum : kUsual;
}

}  // namespace tegula::cpu
