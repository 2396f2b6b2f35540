// See serve.h. A thread reads, so that an interrupt is heard while a request is answered; answers come in the order of the requests.
#include "serve.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <thread>

namespace tegula_tool::repl {

namespace {

constexpr size_t kMostLine = size_t{128} << 20;  ///< a text of 16 MiB, each byte of it escaped

// Signal handlers reach static state only.
std::atomic<Core*> g_core{nullptr};
std::atomic<bool> g_busy{false};

void on_interrupt(int signal) {
    if (g_busy.load()) {
        if (Core* core = g_core.load()) core->interrupt();
    } else if (signal == SIGINT) {
        ::_exit(interrupted);
    }
}

/// Says in which kernel this process ends, to a console that lives on.
void on_crash(int signal) {
    char line[400];
    const int size = std::snprintf(line, sizeof line, "{\"event\":\"crash\",\"kernel\":\"%s\",\"schema\":1,\"signal\":%d}\n",
                                   g_busy.load() ? launched_kernel() : "", signal);
    if (::write(STDOUT_FILENO, line, static_cast<size_t>(size)) < 0) ::_exit(internal);
    ::signal(signal, SIG_DFL);
    ::raise(signal);
}

class Server {
public:
    explicit Server(Core& core) : core_(core) {}
    int run() {
        std::thread reader([this] { read(); });
        for (Json request; next(request); g_busy.store(false)) answer(request);
        reader.join();
        return lost_ ? io : ok;
    }

private:
    void write(Json event) {
        const std::string line = line_of(std::move(event));
        const std::lock_guard lock(out_mutex_);
        for (size_t at = 0; at < line.size() && !lost_;) {
            const ssize_t n = ::write(STDOUT_FILENO, line.data() + at, line.size() - at);
            if (n < 0 && errno == EINTR) continue;
            lost_ = n <= 0;  // nobody listens; what is evaluated ends all the same
            if (n > 0) at += static_cast<size_t>(n);
        }
    }
    void answer(const Json& request) {
        const Json id = request.is_object() ? request.value("id", Json()) : Json();
        core_.request(request, [&](Json event) {
            event["id"] = id;
            write(std::move(event));
        });
    }
    bool next(Json& request) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return ended_ || !queue_.empty(); });
        if (queue_.empty()) return false;
        request = std::move(queue_.front());
        queue_.pop_front();
        g_busy.store(true);
        return true;
    }
    void take(const std::string& line) {
        if (line.find_first_not_of(" \t\r") == line.npos) return;
        Json request = Json::parse(line, nullptr, false);
        if (request.is_object() && request.value("op", Json()) == "interrupt") {
            {
                const std::lock_guard lock(mutex_);
                if (g_busy.load() || !queue_.empty()) core_.interrupt();
            }
            return write({{"event", "done"}, {"id", request.value("id", Json())}, {"status", "ok"}, {"code", 0}});
        }
        const std::lock_guard lock(mutex_);
        queue_.push_back(std::move(request));
        wake_.notify_one();
    }
    void read() {
        std::string line;
        bool skipping = false;
        char block[1 << 16];
        for (;;) {
            const ssize_t n = ::read(STDIN_FILENO, block, sizeof block);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) break;
            for (std::string_view rest(block, static_cast<size_t>(n)); !rest.empty();) {
                const size_t end = rest.find('\n');
                if (!skipping) line += rest.substr(0, end);
                if (line.size() > kMostLine) skipping = true, line = "{}";
                if (end == rest.npos) break;
                take(line);
                line.clear();
                skipping = false;
                rest.remove_prefix(end + 1);
            }
        }
        if (!line.empty()) take(line);
        const std::lock_guard lock(mutex_);
        ended_ = true;
        wake_.notify_one();
    }
    Core& core_;
    std::mutex mutex_, out_mutex_;
    std::condition_variable wake_;
    std::deque<Json> queue_;
    bool ended_ = false;
    std::atomic<bool> lost_{false};
};

}  // namespace

std::string line_of(Json event) {
    event["schema"] = 1;
    return event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

int serve(Core& core) {
    g_core.store(&core);
    struct sigaction action {};
    action.sa_handler = on_interrupt;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGUSR1, &action, nullptr);  // of the console that this process works for: never ends it
    ::signal(SIGPIPE, SIG_IGN);
    static char stack[1 << 16];  // also where the stack is what has run out
    const stack_t other{stack, 0, sizeof stack};
    ::sigaltstack(&other, nullptr);
    action.sa_handler = on_crash;
    action.sa_flags = SA_ONSTACK;
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigaction(signal, &action, nullptr);
    const int code = Server(core).run();
    g_core.store(nullptr);
    return code;
}

}  // namespace tegula_tool::repl
