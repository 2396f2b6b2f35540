// The file of measured choices (tuned.h). It is written beside itself and renamed, under a lock, so that readers see all of it or what was there
// before.
#include "jit/engine/tuned.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lang/diag.h"
#include "lang/json_reader.h"
#include "lang/plain_text.h"
#include "lang/stable_sort.h"

namespace tegula {

namespace {

constexpr uintmax_t kMaxTunedBytes = 64 << 20;

void read_tried(JsonReader& json, TunedEntry& entry) {
    json.array([&] {
        std::string set;
        TunedEntry::Tried one;
        json.object([&](std::string_view name) {
            if (name == "set") json.string(set);
            if (name == "refused") json.string(one.refused);
            if (name == "seconds") json.number(one.seconds);
        });
        entry.tried[set] = one;
    });
}

/// The texts of an entry by their names in the file. `Key` and `Entry` may be const.
template <class Key, class Entry>
auto texts_of(Key& key, Entry& entry) {
    return std::array{std::pair("kernel", &key.kernel),     std::pair("source", &key.source),         std::pair("machine", &key.machine),
                      std::pair("hardware", &key.hardware), std::pair("launch", &key.launch),         std::pair("build", &entry.build),
                      std::pair("chosen", &entry.chosen),   std::pair("preferred", &entry.preferred), std::pair("checked", &entry.checked)};
}

void read_entry(JsonReader& json, TunedKey& key, TunedEntry& entry) {
    json.object([&](std::string_view name) {
        double number = 0;
        for (const auto& [field, text] : texts_of(key, entry))
            if (name == field) json.string(*text);
        if (name == "choices" && json.number(number) && number >= 0 && number < 1e9) entry.choices = static_cast<size_t>(number);
        if (name == "tried") read_tried(json, entry);
    });
}

std::string json_text(const TunedKey& key, const TunedEntry& entry) {
    std::string out = "  {";
    for (const auto& [field, text] : texts_of(key, entry)) out += json_quote(field) + ": " + json_quote(*text) + ", ";
    out += "\"choices\": " + std::to_string(entry.choices) + ",\n   \"tried\": [";
    for (const auto& [set, t] : entry.tried) {
        out += (out.back() == '[' ? "\n    {" : ",\n    {") + ("\"set\": " + json_quote(set));
        if (t.seconds > 0) out += ", \"seconds\": " + decimal_text(t.seconds, 6);
        out += (t.refused.empty() ? "" : ", \"refused\": " + json_quote(t.refused)) + "}";
    }
    return out + "]}";
}

/// Holds an exclusive lock on a file beside the database while it lives.
class FileLock {
public:
    explicit FileLock(const std::string& path) : fd_(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
        if (fd_ >= 0) ::flock(fd_, LOCK_EX);
    }
    ~FileLock() {
        if (fd_ >= 0) ::close(fd_);
    }
    FileLock(const FileLock&) = delete;
    FileLock& operator=(const FileLock&) = delete;

private:
    const int fd_;
};

bool read_file(const std::string& path, std::string& out) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    char block[1 << 16];
    ssize_t n = fd < 0 ? -1 : ::read(fd, block, sizeof block);
    for (; n > 0 && out.size() <= kMaxTunedBytes; n = ::read(fd, block, sizeof block)) out.append(block, static_cast<size_t>(n));
    if (fd >= 0) ::close(fd);
    return n == 0;
}

/// Empty: it stands at `path`.
std::string replace_file(const std::string& path, const std::string& text) {
    const std::string beside = path + "." + std::to_string(::getpid());
    const int fd = ::open(beside.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0) return error_text(errno);
    size_t done = 0;
    for (ssize_t n = 0; done < text.size() && (n = ::write(fd, text.data() + done, text.size() - done)) > 0;) done += static_cast<size_t>(n);
    const bool whole = done == text.size() && ::fsync(fd) == 0;
    int code = whole ? 0 : errno;
    ::close(fd);
    if (whole && ::rename(beside.c_str(), path.c_str()) == 0) return {};
    if (whole) code = errno;
    ::unlink(beside.c_str());
    return error_text(code);
}

}  // namespace

std::string text_hash(std::string_view text) {
    char digits[17];
    uint64_t hash = XXH3_64bits(text.data(), text.size());
    for (int i = 15; i >= 0; --i, hash >>= 4) digits[i] = "0123456789abcdef"[hash & 15];
    return {digits, 16};
}

std::string settings_text(const std::vector<explain::Setting>& settings) {
    std::string out;
    for (const explain::Setting& s : settings) out += (out.empty() ? "" : ", ") + s.name + " = " + s.value;
    return out;
}

std::vector<explain::Setting> read_settings(std::string_view text) {
    std::vector<explain::Setting> out;
    while (!text.empty()) {
        size_t end = 0;
        for (int depth = 0; end < text.size() && (depth > 0 || !text.substr(end).starts_with(", ")); ++end) {
            depth += text[end] == '<' || text[end] == '[' || text[end] == '(';
            depth -= text[end] == '>' || text[end] == ']' || text[end] == ')';
        }
        const std::string_view item = text.substr(0, end);
        const size_t equals = std::min(item.find(" = "), item.size());
        out.push_back({std::string(item.substr(0, equals)), std::string(item.substr(std::min(equals + 3, item.size())))});
        text.remove_prefix(std::min(end + 2, text.size()));
    }
    return out;
}

std::string tuned_path(const std::string& path) {
    if (path == "off") return {};
    if (!path.empty()) return path;
    if (const char* own = std::getenv("TEGULA_TUNED"); own && *own) return std::string(own) == "off" ? std::string() : own;
    if (const char* base = std::getenv("XDG_DATA_HOME"); base && *base == '/') return std::string(base) + "/tegula/tuned.json";
    if (const char* home = std::getenv("HOME"); home && *home == '/') return std::string(home) + "/.local/share/tegula/tuned.json";
    return {};
}

TunedDatabase::TunedDatabase(std::string path, Log log) : path_(tuned_path(path)), log_(std::move(log)) { entries_ = read(); }

TunedDatabase::Entries TunedDatabase::read() const {
    Entries entries;
    std::string text;
    if (path_.empty() || !read_file(path_, text) || text.empty()) return entries;
    JsonReader json(text);
    double schema = 0;
    json.object([&](std::string_view name) {
        if (name == "schema") json.number(schema);
        if (name != "entries") return;
        json.array([&] {
            TunedKey key;
            TunedEntry entry;
            read_entry(json, key, entry);
            if (!key.kernel.empty() && !entry.chosen.empty()) entries[key] = std::move(entry);
        });
    });
    if (json.at_end() && schema == 1) return entries;
    if (log_) log_(LogLevel::warning, "the file of tuned values " + path_ + " is none that this version wrote; launches do without it");
    return {};
}

bool TunedDatabase::empty() const {
    std::lock_guard lock(mutex_);
    return entries_.empty();
}

std::string TunedDatabase::chosen(const TunedKey& key) const {
    std::lock_guard lock(mutex_);
    const auto it = entries_.find(key);
    return it == entries_.end() ? std::string() : it->second.chosen;
}

std::optional<TunedEntry> TunedDatabase::find(const TunedKey& key) const {
    std::lock_guard lock(mutex_);
    const auto it = entries_.find(key);
    return it == entries_.end() ? std::nullopt : std::optional(it->second);
}

std::vector<std::pair<TunedKey, TunedEntry>> TunedDatabase::launches_of(std::string_view kernel, std::string_view source) const {
    std::lock_guard lock(mutex_);
    std::vector<std::pair<TunedKey, TunedEntry>> out;
    for (auto it = entries_.lower_bound(TunedKey{std::string(kernel), std::string(source), {}, {}, {}}); it != entries_.end(); ++it) {
        if (it->first.kernel != kernel || it->first.source != source) break;
        out.push_back(*it);
    }
    return out;
}

namespace {

/// How far apart two launches are, in doublings of their numbers; nullopt: they differ in something else.
std::optional<double> doublings_apart(const std::vector<explain::Setting>& a, const std::vector<explain::Setting>& b) {
    if (a.size() != b.size()) return std::nullopt;
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        if (a[i].name != b[i].name) return std::nullopt;
        if (a[i].value == b[i].value) continue;
        double x = 0, y = 0;
        if (!read_number(a[i].value, x) || !read_number(b[i].value, y)) return std::nullopt;
        sum += std::fabs(std::log2(std::max(x, 1.0)) - std::log2(std::max(y, 1.0)));
    }
    return sum;
}

}  // namespace

std::vector<std::string> TunedDatabase::chosen_nearby(const TunedKey& key) const {
    const std::vector<explain::Setting> here = read_settings(key.launch);
    std::vector<std::pair<double, std::string>> found;
    for (const auto& [other, entry] : launches_of(key.kernel, key.source))
        if (other.machine == key.machine && other.hardware == key.hardware && other.launch != key.launch)
            if (const auto d = doublings_apart(here, read_settings(other.launch))) found.emplace_back(*d, entry.chosen);
    stable_sort(found, &std::pair<double, std::string>::first);
    std::vector<std::string> out;
    for (const auto& [d, set] : found)
        if (std::ranges::find(out, set) == out.end()) out.push_back(set);
    return out;
}

bool TunedDatabase::add(const TunedKey& key, TunedEntry entry) {
    std::lock_guard lock(mutex_);
    entries_[key] = std::move(entry);
    if (path_.empty()) return true;
    std::error_code error;
    if (const auto folder = std::filesystem::path(path_).parent_path(); !folder.empty()) std::filesystem::create_directories(folder, error);
    const FileLock held(path_ + ".lock");
    Entries all = read();
    all[key] = entries_[key];
    std::string text = "{\"schema\": 1, \"entries\": [";
    for (const auto& [k, e] : all) text += (text.back() == '[' ? "\n" : ",\n") + json_text(k, e);
    const std::string why = replace_file(path_, text + "\n]}\n");
    if (!why.empty() && log_) log_(LogLevel::warning, "tuned values cannot be kept in " + path_ + ": " + why);
    return why.empty();
}

}  // namespace tegula
