// What was measured of tuned values, kept between processes: one JSON file, which launches ask before the cost model (docs/command.md). It says how
// fast choices are, never what a kernel computes, so that a damaged, old or foreign file costs speed at most.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lang/explanation.h"
#include "lang/log.h"

namespace tegula {

/// A launch with open choices, as the database tells such launches apart.
struct TunedKey {
    std::string kernel, source;  ///< name, and hash of its text
    std::string machine, hardware;
    std::string launch;  ///< generics, extents and scalars that are bound before `tune` chooses
    auto operator<=>(const TunedKey&) const = default;
};

struct TunedEntry {
    struct Tried {
        double seconds = 0;   ///< of the median launch; 0: it did not run to its end
        std::string refused;  ///< why it cannot be taken: what compiling, running or the comparison with the interpreter said
    };
    std::string build;              ///< tegula_build_id() of who measured
    std::string chosen, preferred;  ///< settings as text; `preferred` is what launches take without the database
    std::string checked;            ///< what compared `chosen` with the interpreter: "tests", "arguments"; "": it is `preferred`, or nothing could
    std::map<std::string, Tried> tried;  ///< by settings
    size_t choices = 0;                  ///< that there are
};

/// 16 hexadecimal digits.
std::string text_hash(std::string_view text);
/// "BM = 64, BN = 128"
std::string settings_text(const std::vector<explain::Setting>& settings);
/// The same read again, also the text of a launch: names and texts of values, whose commas may stand in brackets.
std::vector<explain::Setting> read_settings(std::string_view text);
/// TEGULA_TUNED, else tegula/tuned.json below XDG_DATA_HOME or ~/.local/share; `path` goes before. Empty: none ("off", or there is no HOME).
std::string tuned_path(const std::string& path);

/// Thread-safe.
class TunedDatabase {
public:
    TunedDatabase(std::string path, Log log);
    bool empty() const;
    std::string chosen(const TunedKey& key) const;  ///< empty: nothing was measured
    std::optional<TunedEntry> find(const TunedKey& key) const;
    /// All launches of a kernel, on whatever machine, in the order of their keys; `source` is the hash of its text.
    std::vector<std::pair<TunedKey, TunedEntry>> launches_of(std::string_view kernel, std::string_view source) const;
    /// What was chosen for launches of the kernel that differ from this one in nothing but numbers, on the same machine; the nearest first.
    std::vector<std::string> chosen_nearby(const TunedKey& key) const;
    /// Into the file, too, where entries that other processes have added stay. What goes wrong is logged; false.
    bool add(const TunedKey& key, TunedEntry entry);
    const std::string& path() const { return path_; }

private:
    using Entries = std::map<TunedKey, TunedEntry>;
    Entries read() const;

    const std::string path_;
    const Log log_;
    mutable std::mutex mutex_;
    Entries entries_;
};

}  // namespace tegula
