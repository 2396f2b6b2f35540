// Files read whole and replaced whole, see files.h.
#include "files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tegula_tool {

std::string system_error(int code) { return std::strerror(code); }

std::optional<std::string> read_file(const std::string& path, uint64_t limit, std::string& error, bool (*begins)(std::string_view text)) {
    auto fail = [&](const char* what) {
        error = path + ": " + what;
        return std::nullopt;
    };
    Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    struct stat info {};
    if (file.fd < 0 || ::fstat(file.fd, &info) != 0) return fail(std::strerror(errno));
    if (S_ISDIR(info.st_mode)) return fail("is a directory");
    if (S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) > limit) return fail("is too large");
    std::string text;
    if (S_ISREG(info.st_mode)) text.reserve(static_cast<size_t>(info.st_size));
    char buffer[1 << 16];
    for (;;) {
        ssize_t n = ::read(file.fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(std::strerror(errno));
        if (n == 0) return text;
        text.append(buffer, static_cast<size_t>(n));
        if (text.size() > limit) return fail("is too large");
        if (begins && text.size() >= 8 && !std::exchange(begins, nullptr)(text)) return text;
    }
}

namespace {

bool write_all(int fd, std::string_view data) {
    for (size_t at = 0; at < data.size();) {
        const ssize_t n = ::write(fd, data.data() + at, data.size() - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        at += static_cast<size_t>(n);
    }
    return true;
}

/// Gives an unnamed file a name. Its number in /proc is the way that needs no privilege.
bool name_file(int fd, const std::string& path) {
    const std::string number = "/proc/self/fd/" + std::to_string(fd);
    return ::linkat(AT_FDCWD, number.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

/// Makes `path`, which must not exist, out of complete data: false (errno says why) with nothing left behind. The file has no name while it is
/// written, so that a process that is killed leaves none; where the file system has no such files, it has its name from the start.
bool make_file(const std::string& path, const std::string& data, std::optional<mode_t> mode) {
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    for (const bool named : {false, true}) {
        Descriptor file{named ? ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)
                              : ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666)};
        if (file.fd < 0 && !named) continue;
        if (file.fd < 0) return false;
        if ((!mode || ::fchmod(file.fd, *mode) == 0) && write_all(file.fd, data) && ::fsync(file.fd) == 0) {
            if (named || name_file(file.fd, path)) return true;
            if (errno == ENOENT) continue;  // no /proc
            return false;
        }
        const int why = errno;
        if (named) ::unlink(path.c_str());
        return errno = why, false;
    }
    return false;
}

}  // namespace

bool write_file(const std::string& path, const std::string& data, std::string& error) {
    if (path == "-") return error = "-: write /dev/stdout for standard output, or ./- for a file of that name", false;
    struct stat info {};
    const auto done = [&](bool good) { return good ? true : (error = path + ": " + std::strerror(errno), false); };
    const bool exists = ::stat(path.c_str(), &info) == 0;
    if (exists && !S_ISREG(info.st_mode)) {  // a device, a pipe: renaming over it would replace it
        Descriptor file{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
        return done(file.fd >= 0 && write_all(file.fd, data));
    }
    // A symbolic link stays one: its target is replaced.
    char* real = exists ? ::realpath(path.c_str(), nullptr) : nullptr;
    const std::string target = real ? real : path, part = target + ".part" + std::to_string(::getpid());
    std::free(real);
    if (!make_file(part, data, exists ? std::optional<mode_t>(info.st_mode & 07777) : std::nullopt)) return done(false);
    if (::rename(part.c_str(), target.c_str()) == 0) return true;
    done(false);
    ::unlink(part.c_str());
    return false;
}

std::string temporary_path(std::string_view name) {
    const char* folder = std::getenv("TMPDIR");
    return std::string(folder && *folder ? folder : "/tmp") + "/" + std::string(name);
}

Temporary::Temporary(std::string_view bytes, std::string_view suffix) : path_(temporary_path("tegula-XXXXXX" + std::string(suffix))) {
    const Descriptor file{::mkstemps(path_.data(), static_cast<int>(suffix.size()))};
    if (file.fd < 0 || !write_all(file.fd, bytes)) error_ = path_ + ": " + std::strerror(errno);
    if (file.fd < 0) path_.clear();
}

Temporary::~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
}

}  // namespace tegula_tool
