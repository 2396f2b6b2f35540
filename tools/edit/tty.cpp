// See tty.h.
#include "tty.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "editor.h"

namespace tegula_tool::edit {

namespace {

constexpr std::string_view kEnter = "\x1b[?2004h", kLeave = "\x1b[?2004l\x1b[?25h\x1b[0m";  // pastes are marked; the cursor is seen
constexpr int kCollected[] = {SIGWINCH, SIGCONT, SIGTSTP}, kEnding[] = {SIGTERM, SIGHUP, SIGQUIT, SIGINT};
constexpr size_t kSignals = std::size(kCollected) + std::size(kEnding);

// What signal handlers use.
std::atomic<bool> g_raw{false};
std::atomic<int> g_in{-1}, g_out{-1};
int g_pipe[2] = {-1, -1};
termios g_found;

void collect(int signal) {
    const int kept = errno;
    const char byte = signal == SIGWINCH ? 'w' : signal == SIGCONT ? 'c' : 't';
    if (::write(g_pipe[1], &byte, 1) < 0) errno = 0;  // full: as many wait already
    errno = kept;
}

void end_process(int signal) {
    restore_terminal();
    ::signal(signal, SIG_DFL);
    ::raise(signal);
}

struct sigaction g_before[kSignals];

void install() {
    size_t i = 0;
    for (const int signal : kCollected) {
        struct sigaction action {};
        action.sa_handler = collect;
        action.sa_flags = SA_RESTART;
        ::sigaction(signal, &action, &g_before[i++]);
    }
    for (const int signal : kEnding) {
        struct sigaction action {};
        action.sa_handler = end_process;
        ::sigaction(signal, nullptr, &g_before[i]);
        if (g_before[i++].sa_handler == SIG_DFL) ::sigaction(signal, &action, nullptr);  // who has a handler calls restore_terminal
    }
}

void uninstall() {
    size_t i = 0;
    for (const int signal : kCollected) ::sigaction(signal, &g_before[i++], nullptr);
    for (const int signal : kEnding) ::sigaction(signal, &g_before[i++], nullptr);
}

}  // namespace

void restore_terminal() {
    const int kept = errno;
    if (g_raw) {
        sigset_t background, before;  // a process that is not in the foreground would be stopped by SIGTTOU
        ::sigemptyset(&background);
        ::sigaddset(&background, SIGTTOU);
        ::pthread_sigmask(SIG_BLOCK, &background, &before);
        (void)!::write(g_out, kLeave.data(), kLeave.size());
        while (::tcsetattr(g_in, TCSADRAIN, &g_found) != 0 && errno == EINTR) {
        }
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        g_raw = false;  // after it is: a signal in between restores once more, and ends the process
    }
    errno = kept;
}

RawTerminal::RawTerminal(int in, int out) : in_(in) {
    if (g_pipe[0] < 0) {
        if (::pipe2(g_pipe, O_CLOEXEC | O_NONBLOCK) != 0) g_pipe[0] = g_pipe[1] = -1;
        std::atexit(restore_terminal);
    }
    g_in = in;
    g_out = out;
    install();
    enter();
}

RawTerminal::~RawTerminal() {
    restore_terminal();
    uninstall();
}

void RawTerminal::enter() {
    termios found{};
    if (g_raw || ::tcgetattr(in_, &found) != 0) return;
    g_found = found;
    enter_again();
}

void RawTerminal::enter_again() {
    termios raw = g_found;
    raw.c_iflag &= ~static_cast<tcflag_t>(BRKINT | ICRNL | INLCR | IGNCR | INPCK | ISTRIP | IXON);
    raw.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cflag |= CS8;
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    g_raw = true;  // before it is: a signal between the two changes nothing that is not changed back
    while (::tcsetattr(in_, TCSADRAIN, &raw) != 0 && errno == EINTR) {
    }
    write_all(g_out, kEnter);
}

bool RawTerminal::wait(int milliseconds, std::string& bytes, Events& events) {
    pollfd waits[] = {{in_, POLLIN, 0}, {g_pipe[0], POLLIN, 0}};
    const int ready = ::poll(waits, 2, milliseconds);
    if (ready < 0 && errno != EINTR) return false;
    char block[4096];
    for (ssize_t got = 0; (got = ::read(g_pipe[0], block, sizeof block)) > 0;)
        for (const char byte : std::string_view(block, static_cast<size_t>(got))) {
            events.resized |= byte == 'w';
            events.continued |= byte == 'c';
            events.stopped |= byte == 't';
        }
    if (ready <= 0 || !waits[0].revents) return true;
    const ssize_t got = ::read(in_, block, sizeof block);
    if (got > 0) bytes.append(block, static_cast<size_t>(got));
    return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

std::string error_text(int code) { return std::strerror(code); }

bool write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t put = ::write(fd, bytes.data(), bytes.size());
        if (put > 0) {
            bytes.remove_prefix(static_cast<size_t>(put));
        } else if (put < 0 && errno == EAGAIN) {
            pollfd wait{fd, POLLOUT, 0};
            ::poll(&wait, 1, -1);
        } else if (!(put < 0 && errno == EINTR)) {
            return false;
        }
    }
    return true;
}

Size size_of(int fd) {
    winsize size{};
    if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
    return {size.ws_col, size.ws_row};
}

void stop_process() {
    struct sigaction stops {
    }, goes_on{}, usual{};
    usual.sa_handler = SIG_DFL;
    ::sigaction(SIGTSTP, &usual, &stops);
    ::sigaction(SIGCONT, &usual, &goes_on);
    ::kill(0, SIGTSTP);
    ::sigaction(SIGTSTP, &stops, nullptr);
    ::sigaction(SIGCONT, &goes_on, nullptr);
}

}  // namespace tegula_tool::edit
