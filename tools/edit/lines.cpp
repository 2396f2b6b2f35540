// See lines.h.
#include "lines.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "tty.h"

namespace tegula_tool::edit {

namespace {

int g_wake[2] = {-1, -1};  ///< Ctrl-C writes into it: a wait that has not begun yet sees it, too, and on whatever thread the handler runs

/// Ctrl-C is noticed while lines are read from a terminal, whatever the signal does otherwise.
class Interruptible {
public:
    explicit Interruptible(bool wanted) {
        if (wanted && g_wake[0] < 0 && ::pipe2(g_wake, O_CLOEXEC | O_NONBLOCK) != 0) g_wake[0] = g_wake[1] = -1;
        wanted_ = wanted && g_wake[0] >= 0;
        if (!wanted_) return;
        char old[64];
        while (::read(g_wake[0], old, sizeof old) > 0) {
        }
        struct sigaction action {};
        action.sa_handler = [](int) {
            const int kept = errno;
            (void)!::write(g_wake[1], "c", 1);
            errno = kept;
        };
        action.sa_flags = SA_RESTART;
        ::sigaction(SIGINT, &action, &before_);
    }
    ~Interruptible() {
        if (wanted_) ::sigaction(SIGINT, &before_, nullptr);
    }
    Interruptible(const Interruptible&) = delete;
    int wake() const { return wanted_ ? g_wake[0] : -1; }

private:
    bool wanted_ = false;
    struct sigaction before_ {};
};

}  // namespace

LineReader::Got LineReader::next(std::string& line, int wake) {
    for (size_t seen = at_;;) {
        const size_t end = kept_.find('\n', seen);
        if (end != std::string::npos || (ended_ && at_ < kept_.size())) {
            line = kept_.substr(at_, end == std::string::npos ? end : end - at_);
            if (!line.empty() && line.back() == '\r') line.pop_back();
            at_ = end == std::string::npos ? kept_.size() : end + 1;
            return Got::line;
        }
        if (ended_) {
            ended_ = ::isatty(fd_) == 0;  // a terminal goes on after Ctrl-D
            return Got::ended;
        }
        seen = kept_.size();
        pollfd waits[] = {{fd_, POLLIN, 0}, {wake, POLLIN, 0}};
        if (::poll(waits, 2, -1) < 0) {
            ended_ = errno != EINTR;
            continue;
        }
        if (waits[1].revents) return Got::interrupted;
        char block[1 << 14];
        const ssize_t got = ::read(fd_, block, sizeof block);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        ended_ = got <= 0;
        if (at_ > kept_.size() / 2) kept_.erase(0, std::exchange(at_, 0)), seen = kept_.size();
        if (got > 0) kept_.append(block, static_cast<size_t>(got));
    }
}

std::string dots(const std::string& prompt) {
    constexpr std::string_view kDots = "...> ";
    return std::string(prompt.size() > kDots.size() ? prompt.size() - kDots.size() : 0, ' ') + std::string(kDots);
}

Line read_plain(LineReader& lines, Client& client, const std::string& prompt, int out) {
    const Interruptible interruptible(out >= 0);
    Line all;
    std::string line;
    size_t blank = 0;
    for (bool first = true;; first = false) {
        if (out >= 0) write_all(out, first ? prompt : dots(prompt));
        if (const auto got = lines.next(line, interruptible.wake()); got != LineReader::Got::line) {
            if (out >= 0) write_all(out, "\n");
            return got == LineReader::Got::interrupted ? Line{Line::Kind::interrupted, {}} : all;
        }
        blank = line.find_first_not_of(" \t") == std::string::npos ? blank + 1 : 0;
        all.kind = Line::Kind::text;
        if (!first) all.text += "\n";
        all.text += line;
        // Two blank lines end what a person types; in a script they are just blank lines.
        if ((out >= 0 && blank >= 2) || client.is_complete(all.text).complete) return all;
    }
}

}  // namespace tegula_tool::edit
