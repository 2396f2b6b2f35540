// The console's editor on a real pseudo-terminal: whatever keys come, and however a read ends, the terminal is as it was found.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>

#include "tests/repl/toy_client.h"
#include "tests/unit/sample.h"

namespace tegula_tool::edit {
namespace {

/// Everything that `stty -g` shows.
std::string modes(int fd) {
    termios t{};
    if (::tcgetattr(fd, &t) != 0) return "no terminal";
    std::string out;
    for (const tcflag_t flags : {t.c_iflag, t.c_oflag, t.c_cflag, t.c_lflag, t.c_ispeed, t.c_ospeed}) out += std::to_string(flags) + ":";
    for (const cc_t c : t.c_cc) out += std::to_string(c) + ":";
    return out;
}

/// A terminal of this process's session, with somebody who reads what it is sent.
class PseudoTerminal {
public:
    PseudoTerminal() {
        EXPECT_EQ(::openpty(&keys, &end, nullptr, nullptr, nullptr), 0);
        ::ioctl(end, TIOCSCTTY, 0);
        reader_ = std::jthread([this](const std::stop_token& stop) {
            char block[1 << 14];
            while (!stop.stop_requested()) (void)!::read(keys, block, sizeof block);
        });
    }
    ~PseudoTerminal() {
        ::signal(SIGHUP, SIG_IGN);  // the end of its terminal would end this process
        reader_.request_stop();
        (void)!::write(end, "\n", 1);
        reader_.join();
        ::close(keys);
        ::close(end);
    }
    /// Some of the modes that a terminal may be found in, none that holds keys or output back.
    void vary(std::mt19937_64& random) const {
        termios t{};
        ::tcgetattr(end, &t);
        const auto toss = [&](tcflag_t& flags, tcflag_t bit) { flags = random() % 2 ? flags | bit : flags & ~bit; };
        t.c_iflag &= ~static_cast<tcflag_t>(IXON);
        for (const tcflag_t bit : {BRKINT, ICRNL, INLCR, IGNCR, ISTRIP}) toss(t.c_iflag, bit);
        for (const tcflag_t bit : {ECHO, ICANON, IEXTEN, ISIG, ECHOE, NOFLSH}) toss(t.c_lflag, bit);
        t.c_cc[VINTR] = random() % 2 ? 3 : 24;
        if (!(t.c_lflag & ICANON)) t.c_cc[VMIN] = static_cast<cc_t>(random() % 3), t.c_cc[VTIME] = static_cast<cc_t>(random() % 2);
        ::tcsetattr(end, TCSANOW, &t);
        const winsize size{static_cast<unsigned short>(1 + random() % 40), static_cast<unsigned short>(1 + random() % 120), 0, 0};
        if (random() % 4 == 0) ::ioctl(end, TIOCSWINSZ, &size);
    }
    int keys = -1, end = -1;  ///< what a person types into, and what the program has

private:
    std::jthread reader_;
};

/// Sends its keys once the editor waits for them, when the terminal is raw; then those that end whatever is open, and the read.
struct Typing : ToyClient {
    explicit Typing(int keys) : keys(keys) {}
    int idle_after() override { return sent ? -1 : 0; }
    bool is_due() override {
        sent = true;
        const std::string all = stream + "\a\x1b\\\x1b[201~\x03\x03\x03";
        EXPECT_EQ(::write(keys, all.data(), all.size()), static_cast<ssize_t>(all.size()));
        return false;
    }
    std::vector<Span> colours(std::string_view text) override {
        if (signal && sent && questions-- == 0) ::raise(signal);
        return ToyClient::colours(text);
    }
    std::string edit_outside(std::string&) override { return "none"; }
    int keys, signal = 0, questions = 0;
    bool sent = false;
    std::string stream;
};

/// Bytes of any kind: keys, halves of keys, text, pastes, noise.
std::string some_bytes(std::mt19937_64& random) {
    constexpr std::string_view kPieces[] = {"\x1b[A", "\x1b[1;5C", "\x1b[200~",    "\x1b[201~", "\x1b",         "\x1bO",        "\t",
                                            "\t\t",   "\r",        "\x12",         "\x18\x05",  "kernel f() {", "scal",         "\x04",
                                            "\x1a",   "\x1f",      "\xe4\xb8\x96", "(\"",       "\x1b]0;",      "\x1b[<0;3;4M", "tegula[3]> a\r\n",
                                            "\x03",   "\x1c",      "\x13",         "\x11",      "\x1b[13;2u"};
    std::string out;
    for (uint64_t n = random() % 12; n-- > 0;) {
        if (random() % 2)
            out += kPieces[random() % std::size(kPieces)];
        else
            for (uint64_t k = random() % 6; k-- > 0;) out += static_cast<char>(random());
    }
    return out;
}

/// Runs in a process that is alone in a new session, so that Ctrl-Z stops nobody else; its exit code.
template <class Fn>
int alone(Fn&& fn) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        ::setsid();
        ::setenv("TERM", "xterm", 1);
        ::alarm(tegula::test::is_long() || tegula::test::is_sanitized() ? 600 : 120);
        fn();
        std::fflush(nullptr);
        ::_exit(::testing::Test::HasFailure());
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(EditTerminal, RandomBytes) {
    const uint64_t streams = tegula::test::is_long() ? 100'000 : tegula::test::is_sanitized() ? 300 : 3'000;
    const int code = alone([&] {
        for (const int signal : {SIGINT, SIGQUIT}) ::signal(signal, SIG_IGN);  // of keys that come where the terminal is not raw
        PseudoTerminal terminal;
        Typing client(terminal.keys);
        std::mt19937_64 random(1);
        std::unique_ptr<Editor> editor;
        constexpr uint64_t kReads = 100;  // of one editor, whose history grows
        for (uint64_t n = 0; n < streams && !::testing::Test::HasFailure(); ++n) {
            if (n % kReads == 0) editor = std::make_unique<Editor>(client, Options{terminal.end, terminal.end, false, random() % 2 == 0, {}});
            client.stream = some_bytes(random);
            terminal.vary(random);
            const std::string found = modes(terminal.end);
            for (client.sent = false; !client.sent;) editor->read("tegula[1]> ");
            EXPECT_EQ(modes(terminal.end), found) << "stream " << n;
        }
    });
    EXPECT_EQ(code, 0);
}

TEST(EditTerminal, Signals) {
    const int times = tegula::test::is_long() ? 500 : tegula::test::is_sanitized() ? 5 : 40;
    const int code = alone([&] {
        PseudoTerminal terminal;
        std::mt19937_64 random(2);
        for (const int signal : {SIGTERM, SIGHUP, SIGINT, SIGQUIT})
            for (int n = 0; n < times && !::testing::Test::HasFailure(); ++n) {
                terminal.vary(random);
                const std::string found = modes(terminal.end), stream = some_bytes(random);
                const int questions = static_cast<int>(random() % 4);
                const pid_t child = ::fork();
                if (child == 0) {
                    Typing client(terminal.keys);
                    client.signal = signal;
                    client.questions = questions;
                    client.stream = stream + "abc";
                    Editor(client, Options{terminal.end, terminal.end, false, true, {}}).read("tegula[1]> ");
                    ::raise(signal);
                    ::_exit(9);
                }
                int status = 0;
                ::waitpid(child, &status, 0);
                EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
                EXPECT_EQ(modes(terminal.end), found) << "signal " << signal << ", time " << n;
                ::tcflush(terminal.end, TCIFLUSH);
            }
    });
    EXPECT_EQ(code, 0);
}

/// Ctrl-Z, and the signal from elsewhere, stop the process with the terminal given back; when it goes on the terminal is raw again.
TEST(EditTerminal, Stops) {
    const int code = alone([&] {
        ::signal(SIGTTOU, SIG_IGN);
        PseudoTerminal terminal;
        const std::string found = modes(terminal.end);
        const auto wait_for = [&](auto&& holds) {
            for (int n = 0; n < 10'000 && !holds(); ++n) ::usleep(1000);
            return holds();
        };
        const pid_t child = ::fork();
        if (child == 0) {
            ::setpgid(0, 0);
            ::tcsetpgrp(terminal.end, ::getpid());
            ToyClient client;
            const Line line = Editor(client, Options{terminal.end, terminal.end, false, true, {}}).read("tegula[1]> ");
            ::_exit(line.text == "typed" ? 0 : 9);
        }
        int status = 0;
        for (const bool key : {true, false}) {
            EXPECT_TRUE(wait_for([&] { return modes(terminal.end) != found; }));
            EXPECT_TRUE(key ? ::write(terminal.keys, "typed\x1a", 6) == 6 : ::kill(child, SIGTSTP) == 0);
            EXPECT_EQ(::waitpid(child, &status, WUNTRACED), child);
            EXPECT_TRUE(WIFSTOPPED(status)) << status;
            EXPECT_EQ(modes(terminal.end), found) << (key ? "Ctrl-Z" : "SIGTSTP");
            ::kill(child, SIGCONT);
        }
        EXPECT_TRUE(wait_for([&] { return modes(terminal.end) != found; }));
        (void)!::write(terminal.keys, "\r", 1);
        EXPECT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
        EXPECT_EQ(modes(terminal.end), found);
    });
    EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace tegula_tool::edit
