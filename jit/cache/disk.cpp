// Files of the disk layer. All access is relative to the descriptor of a directory that was checked once, without following links.
#include "jit/cache/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "jit/cache/entry.h"
#include "lang/plain_text.h"

namespace tegula::cache {

namespace {

constexpr std::string_view kTemporary = ".tmp-";
constexpr std::string_view kSuffix = ".entry";
constexpr int64_t kTemporaryLife = 3600;  ///< seconds that a writer of another machine may take
constexpr int64_t kTouchAfter = 600;      ///< seconds between updates of an entry's time of use
constexpr uint64_t kTrimsPerLimit = 8;
constexpr uint64_t kLargestFile = uint64_t{1} << 30;

class Descriptor {
public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return fd_; }
    int close() {
        const int fd = fd_;
        fd_ = -1;
        return ::close(fd);
    }

private:
    int fd_;
};

/// mkdir -p; what exists is left as it is.
void make_folders(const std::string& path) {
    for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) ::mkdir(path.substr(0, at).c_str(), 0700);
    ::mkdir(path.c_str(), 0700);
}

/// A limit on file sizes shall give EFBIG, not a signal that ends the host: SIGXFSZ is blocked for this thread and taken away again.
class NoFileSizeSignal {
public:
    NoFileSizeSignal() {
        sigemptyset(&set_);
        sigaddset(&set_, SIGXFSZ);
        blocked_ = ::pthread_sigmask(SIG_BLOCK, &set_, &before_) == 0;
    }
    ~NoFileSizeSignal() {
        if (!blocked_ || sigismember(&before_, SIGXFSZ) == 1) return;
        const timespec now{};
        while (::sigtimedwait(&set_, nullptr, &now) == SIGXFSZ) {
        }
        ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    NoFileSizeSignal(const NoFileSizeSignal&) = delete;
    NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;

private:
    sigset_t set_, before_;
    bool blocked_ = false;
};

bool write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return errno = n == 0 ? ENOSPC : errno, false;
        bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
}

/// Reads on until `bytes` has `size` of them.
bool read_on(int fd, std::string& bytes, uint64_t size) {
    size_t at = bytes.size();
    bytes.resize(size);
    while (at < bytes.size()) {
        const ssize_t n = ::read(fd, bytes.data() + at, bytes.size() - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += static_cast<size_t>(n);
    }
    return true;
}

/// Process ids mean something within one boot and one pid namespace only.
std::string host_name() {
    char text[256] = "";
    Descriptor boot(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
    const ssize_t n = boot.get() < 0 ? 0 : ::read(boot.get(), text, 36);
    std::string id(text, static_cast<size_t>(std::max<ssize_t>(n, 0)));
    const ssize_t m = ::readlink("/proc/self/ns/pid", text, sizeof text);
    id.append(text, static_cast<size_t>(std::max<ssize_t>(m, 0)));
    return key_name(id).substr(0, 16);
}

}  // namespace

Disk::Disk(std::string directory, uint64_t limit, std::function<void(const std::string&)> warn)
    : directory_(std::move(directory)), limit_(limit), warn_(std::move(warn)) {}

Disk::~Disk() {
    if (folder_ >= 0) ::close(folder_);
}

void Disk::fail(const std::string& why) {
    if (folder_ < 0) problem_ = why;
    writable_.store(false, std::memory_order_relaxed);
    if (!warned_.exchange(true) && warn_) warn_("the cache in " + directory_ + " is not used: " + why);
}

std::string Disk::problem_of_directory() const {
    struct stat info {};
    if (::fstat(folder_, &info) != 0) return error_text(errno);
    if (info.st_uid != ::geteuid()) return "it belongs to another user";
    if (info.st_mode & 022) return "other users may write to it";
    return {};
}

bool Disk::open() {
    std::call_once(opened_, [&] {
        if (directory_.empty()) return;
        const auto try_open = [&] { return ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); };
        folder_ = try_open();
        if (folder_ < 0 && errno == ENOENT) {
            make_folders(directory_);
            folder_ = try_open();
        }
        if (folder_ < 0) return fail(errno == ELOOP || errno == ENOTDIR ? "it is no directory" : error_text(errno));
        if (const std::string problem = problem_of_directory(); !problem.empty()) {
            ::close(folder_);
            folder_ = -1;
            return fail(problem);
        }
        host_ = host_name();
        uint64_t start = 0;
        if (::getrandom(&start, sizeof start, GRND_NONBLOCK) != sizeof start) start = static_cast<uint64_t>(::getpid());
        counter_.store(start);
        written_.store(start % trim_every());  // so that processes that write little, each, trim in time together
    });
    return folder_ >= 0;
}

/// The bytes of a file that says to be an entry for `key` of its own size: of any other no more than that much is read.
std::optional<std::string> Disk::read_entry(std::string_view key) const {
    const std::string name = key_name(key) + std::string(kSuffix);
    Descriptor file(::openat(folder_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info {};
    if (file.get() < 0 || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) return std::nullopt;
    const uint64_t size = static_cast<uint64_t>(info.st_size);
    if (size > kLargestFile) return std::nullopt;
    std::string bytes;
    if (!read_on(file.get(), bytes, std::min<uint64_t>(size, entry_prefix(key))) || !begins_entry(bytes, key, size)) return std::nullopt;
    if (!read_on(file.get(), bytes, size)) return std::nullopt;
    if (::time(nullptr) - info.st_mtim.tv_sec > kTouchAfter) ::futimens(file.get(), nullptr);  // may fail: a read-only disk has no order of use
    return bytes;
}

std::optional<std::string> Disk::find(std::string_view key) {
    if (!open()) return std::nullopt;
    const auto bytes = read_entry(key);
    return bytes ? decode_entry(*bytes, key) : std::nullopt;  // what is damaged is replaced by the `put` that follows the miss
}

std::string Disk::temporary_name() {
    return std::string(kTemporary) + host_ + "-" + std::to_string(::getpid()) + "-" + std::to_string(counter_.fetch_add(1));
}

int Disk::write_file(const std::string& temporary, std::string_view bytes) const {
    Descriptor file(::openat(folder_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.get() < 0) return errno;
    int code = 0;
    {
        const NoFileSizeSignal guard;
        if (!write_all(file.get(), bytes)) code = errno;
    }
    if (code) return code;
    return file.close() == 0 ? 0 : errno;
}

void Disk::put(std::string_view key, std::string_view blob) {
    const uint64_t size = key.size() + blob.size() + kEntryOverhead;
    if (!writable_.load(std::memory_order_relaxed) || size > limit_ / 2 || size > kLargestFile || !open()) return;
    const std::string temporary = temporary_name(), name = key_name(key) + std::string(kSuffix);
    int code = write_file(temporary, encode_entry(key, blob));
    if (code == EEXIST) return;  // a name that 2^64 random starts did not keep apart
    if (code == 0 && ::renameat(folder_, temporary.c_str(), folder_, name.c_str()) != 0) code = errno;
    if (code != 0) {
        ::unlinkat(folder_, temporary.c_str(), 0);
        if (code != ENOENT) fail(error_text(code));  // ENOENT: swept away while this process slept
        return;
    }
    const uint64_t before = written_.fetch_add(size);
    if (before / trim_every() != (before + size) / trim_every()) trim();
}

uint64_t Disk::trim_every() const { return std::max<uint64_t>(limit_ / kTrimsPerLimit, 1); }

bool Disk::is_stale(const char* name, int64_t age) const {
    const std::string_view rest = std::string_view(name).substr(kTemporary.size());
    if (age > kTemporaryLife) return true;
    if (!rest.starts_with(host_) || rest.size() < host_.size() + 2) return false;
    int pid = 0;
    std::from_chars(rest.data() + host_.size() + 1, rest.data() + rest.size(), pid);
    return pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

std::vector<Disk::Entry> Disk::entries(bool read) {
    std::vector<Entry> found;
    const int again = open() ? ::openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR* list = again < 0 ? nullptr : ::fdopendir(again);
    if (!list) {
        if (again >= 0) ::close(again);
        return found;
    }
    const int64_t now = ::time(nullptr);
    while (const dirent* item = ::readdir(list)) {
        const std::string_view name = item->d_name;
        struct stat info {};
        if (!(name.ends_with(kSuffix) || name.starts_with(kTemporary)) || ::fstatat(folder_, item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (!name.starts_with(kTemporary))
            found.push_back({item->d_name, static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec, info.st_mtim.tv_nsec});
        else if (is_stale(item->d_name, now - info.st_mtim.tv_sec))
            ::unlinkat(folder_, item->d_name, 0);
    }
    ::closedir(list);
    std::sort(found.begin(), found.end(),
              [](const Entry& a, const Entry& b) { return a.used_s != b.used_s ? a.used_s < b.used_s : a.used_ns < b.used_ns; });
    for (Entry& e : found) {
        if (!read) break;
        Descriptor file(::openat(folder_, e.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        struct stat info {};
        std::string bytes;
        if (file.get() < 0 || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || e.bytes > kLargestFile) continue;
        auto key = read_on(file.get(), bytes, e.bytes) ? entry_key(bytes) : std::nullopt;
        if (key && key_name(*key) + std::string(kSuffix) == e.name) e.key = std::move(*key);
    }
    return found;
}

size_t Disk::remove(const std::vector<Entry>& entries) {
    size_t gone = 0;
    for (const Entry& e : entries) gone += ::unlinkat(folder_, e.name.c_str(), 0) == 0;
    return gone;
}

std::string Disk::problem() {
    if (directory_.empty()) return "code is kept in memory only";
    return open() ? std::string() : problem_;
}

void Disk::trim() {
    const std::vector<Entry> all = entries();
    uint64_t total = 0;
    for (const Entry& e : all) total += e.bytes;
    if (total <= limit_) return;
    for (const Entry& e : all) {
        if (total <= limit_ / 4 * 3) break;
        ::unlinkat(folder_, e.name.c_str(), 0);  // somebody else may have been faster
        total -= e.bytes;
    }
}

}  // namespace tegula::cache
