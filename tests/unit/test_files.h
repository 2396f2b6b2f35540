// Files of the source tree that tests read.
#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tegula::test {

inline std::string read(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

/// Files of `folder` of the source tree, and below it, whose names end so; sorted.
inline std::vector<std::filesystem::path> source_files(const std::string& folder, const std::string& extension) {
    std::vector<std::filesystem::path> out;
    const std::filesystem::path root = std::filesystem::path(TEGULA_SOURCE_DIR) / folder;
    if (!std::filesystem::exists(root)) return out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
        if (entry.path().extension() == extension) out.push_back(entry.path());
    std::sort(out.begin(), out.end());
    return out;
}
inline std::vector<std::filesystem::path> tile_files(const std::string& folder) { return source_files(folder, ".tile"); }

}  // namespace tegula::test
