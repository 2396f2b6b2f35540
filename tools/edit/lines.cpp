// See lines.h.
#include "lines.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "tty.h"

namespace tegula_tool::edit {

namespace {

volatile bool g_interrupted = false;

/// Ctrl-C is noticed while lines are read from a terminal, whatever the signal does otherwise.
class Interruptible {
public:
    explicit Interruptible(bool wanted) : wanted_(wanted) {
        g_interrupted = false;
        struct sigaction action {};
        action.sa_handler = [](int) { g_interrupted = true; };
        if (wanted_) ::sigaction(SIGINT, &action, &before_);  // without SA_RESTART: the wait ends
    }
    ~Interruptible() {
        if (wanted_) ::sigaction(SIGINT, &before_, nullptr);
    }
    Interruptible(const Interruptible&) = delete;

private:
    bool wanted_;
    struct sigaction before_ {};
};

}  // namespace

bool LineReader::next(std::string& line, const volatile bool& interrupted) {
    for (size_t seen = at_;;) {
        const size_t end = kept_.find('\n', seen);
        if (end != std::string::npos || (ended_ && at_ < kept_.size())) {
            line = kept_.substr(at_, end == std::string::npos ? end : end - at_);
            if (!line.empty() && line.back() == '\r') line.pop_back();
            at_ = end == std::string::npos ? kept_.size() : end + 1;
            return true;
        }
        if (ended_) return ended_ = ::isatty(fd_) == 0, false;  // a terminal goes on after Ctrl-D
        seen = kept_.size();
        char block[1 << 14];
        const ssize_t got = ::read(fd_, block, sizeof block);
        if (got < 0 && errno == EINTR && !interrupted) continue;
        if (got < 0 && errno == EINTR) return false;
        if (got < 0 && errno == EAGAIN) {
            pollfd wait{fd_, POLLIN, 0};
            ::poll(&wait, 1, -1);
            if (interrupted) return false;
            continue;
        }
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
        if (!lines.next(line, g_interrupted)) {
            if (out >= 0) write_all(out, "\n");
            if (g_interrupted) return {Line::Kind::interrupted, {}};
            return all;
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
