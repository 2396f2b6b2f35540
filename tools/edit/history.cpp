// See history.h.
#include "history.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "editor.h"
#include "tty.h"

namespace tegula_tool::edit {

namespace {

constexpr std::string_view kNoHome = "$HOME";
constexpr off_t kMostBytes = 64 << 20;  ///< of a file that is read: more is no history of a person

/// A descriptor that closes itself.
struct File {
    int fd;
    explicit File(int opened) : fd(opened) {}
    ~File() {
        if (fd >= 0) ::close(fd);
    }
    File(const File&) = delete;
};

/// The lines that are JSON strings; others are damage, and are passed over.
std::vector<std::string> parse(const std::string& bytes) {
    std::vector<std::string> out;
    for (size_t at = 0; at < bytes.size();) {
        const size_t end = std::min(bytes.find('\n', at), bytes.size());
        const auto value =
            nlohmann::json::parse(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
        if (value.is_string() && !value.get_ref<const std::string&>().empty()) out.push_back(value.get<std::string>());
        at = end + 1;
    }
    return out;
}

std::string line_of(const std::string& text) { return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n"; }

bool read_all(int fd, std::string& bytes) {
    struct stat about {};
    if (::fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) return errno = EINVAL, false;
    if (about.st_size > kMostBytes) ::lseek(fd, about.st_size - kMostBytes, SEEK_SET);
    char block[1 << 16];
    for (ssize_t got = 0; (got = ::read(fd, block, sizeof block)) != 0;) {
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return false;
        bytes.append(block, static_cast<size_t>(got));
    }
    return true;
}

void make_directories(const std::string& path) {
    for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) ::mkdir(path.substr(0, at).c_str(), 0700);
}

/// Opens and locks the file. A lock that another one does not give back within a second is not waited for.
int open_locked(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    for (int tries = 0; fd >= 0; ++tries) {
        if (::flock(fd, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR)) break;
        if (tries == 100) break;
        ::usleep(10'000);
    }
    return fd;
}

}  // namespace

std::string default_history() {
    const char* state = std::getenv("XDG_STATE_HOME");
    if (state && *state == '/') return std::string(state) + "/tegula/history";
    const char* home = std::getenv("HOME");
    return (home && *home == '/' ? std::string(home) : std::string(kNoHome)) + "/.local/state/tegula/history";
}

History::History(std::string path) : path_(std::move(path)) {
    if (path_.starts_with(kNoHome)) give_up("HOME is not set");
    if (!path_.empty()) read();
}

std::string History::take_note() { return std::exchange(note_, {}); }

void History::give_up(const std::string& why) {
    note_ = "the history is not kept: " + path_ + ": " + why;
    path_.clear();
}

void History::read() {
    make_directories(path_);
    const File file(open_locked(path_));
    std::string bytes;
    if (file.fd < 0 || !read_all(file.fd, bytes)) return give_up(error_text(errno));
    entries_ = parse(bytes);
    if (entries_.size() <= kMost) return;
    // Rewritten where it lies, under the lock that all who append take. A full disk leaves what was there: the new text is shorter.
    entries_.erase(entries_.begin(), entries_.end() - kMost);
    std::string kept;
    for (const std::string& entry : entries_) kept += line_of(entry);
    if (kept.size() < bytes.size() && ::ftruncate(file.fd, 0) == 0) write_all(file.fd, kept);
}

void History::add(std::string_view text) {
    if (text.find_first_not_of(" \t\n") == std::string_view::npos || text[0] == ' ' || (!entries_.empty() && entries_.back() == text)) return;
    entries_.emplace_back(text);
    if (entries_.size() > kMost) entries_.erase(entries_.begin());
    if (!path_.empty()) append(line_of(entries_.back()));
}

void History::append(const std::string& line) {
    const File file(open_locked(path_));
    if (file.fd < 0) return give_up(error_text(errno));
    struct stat about {};
    if (::fstat(file.fd, &about) != 0) return give_up(error_text(errno));
    // A line that another process could not end is damage of one line, not of the next one, too.
    char last = '\n';
    if (about.st_size > 0 && ::pread(file.fd, &last, 1, about.st_size - 1) != 1) last = '\n';
    if (write_all(file.fd, last == '\n' ? line : "\n" + line)) return;
    const int why = errno;
    if (::ftruncate(file.fd, about.st_size) != 0) return give_up(error_text(errno));
    give_up(error_text(why));
}

}  // namespace tegula_tool::edit
