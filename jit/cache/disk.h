// The disk layer: one file per entry in a private directory that any number of processes share.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tegula::cache {

/// Thread-safe, and safe against other processes, kill -9 and damaged files: readers see whole entries or none, because an entry is written to a
/// temporary file and renamed. Opens its directory on first use. The first failure that matters is told once; then that part goes off.
class Disk {
public:
    Disk(std::string directory, uint64_t limit, std::function<void(const std::string&)> warn);
    ~Disk();
    Disk(const Disk&) = delete;
    Disk& operator=(const Disk&) = delete;

    std::optional<std::string> find(std::string_view key);
    void put(std::string_view key, std::string_view blob);
    /// Removes what dead writers left behind and, when the entries take more than the limit, the least recently used ones down to three quarters.
    void trim();

    struct Entry {
        std::string name;
        uint64_t bytes = 0;
        int64_t used_s = 0, used_ns = 0;  ///< since 1970
        std::string key = {};             ///< where it was read; empty: damaged
    };
    /// What lies there, least recently used first; with `read` each is read whole and proved.
    std::vector<Entry> entries(bool read = false);
    /// Removes entries; how many were there.
    size_t remove(const std::vector<Entry>& entries);
    /// Why the directory is not used; empty: it is.
    std::string problem();

private:
    bool open();
    void fail(const std::string& why);
    std::string problem_ = {};  ///< why it was not opened
    /// Why the opened directory is not to be trusted; empty when it is.
    std::string problem_of_directory() const;
    std::optional<std::string> read_entry(std::string_view key) const;
    /// errno of the first step that failed, 0.
    int write_file(const std::string& temporary, std::string_view bytes) const;
    std::string temporary_name();
    /// Bytes written between trims, which look at every entry: at most some entries per entry that is written, however small they are.
    uint64_t trim_every() const;
    bool is_stale(const char* name, int64_t age) const;

    const std::string directory_;
    const uint64_t limit_;
    const std::function<void(const std::string&)> warn_;
    std::once_flag opened_;
    int folder_ = -1;
    std::string host_;  ///< this boot and process-id space, as in names of temporary files
    std::atomic<bool> writable_{true}, warned_{false};
    std::atomic<uint64_t> counter_{0}, written_{0};
};

}  // namespace tegula::cache
