// See worker.h.
#include "worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "commands.h"
#include "serve.h"
#include "tools/files.h"

namespace tegula_tool::repl {

namespace {

constexpr int kSoon = 700;          ///< milliseconds that a console waits for what is done once more, before it shows its prompt again
constexpr int64_t kStuck = 1000;    ///< milliseconds after which a second interrupt ends a process that has not heard the first
constexpr size_t kMostCrashes = 3;  ///< of new processes over the same inputs

std::string signal_text(int signal) {
    const char* name = ::sigabbrev_np(signal);
    return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

}  // namespace

Worker::Worker(Session& tool, std::vector<std::string> words, bool colour)
    : syntax_(tool.engine.session().value()), words_(std::move(words)), colour_(colour) {
    if (!start()) throw std::runtime_error(std::string("a process for --isolate cannot be started: ") + system_error(errno));
}

Worker::~Worker() { stop(SIGKILL); }

bool Worker::start() {
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0) return false;
    if (::pipe2(from, O_CLOEXEC) != 0) return ::close(to[0]), ::close(to[1]), false;
    std::vector<char*> arguments;
    for (std::string& word : words_) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t parent = ::getpid(), child = ::fork();
    if (child == 0) {     // nothing but system calls: other threads may hold locks
        ::setpgid(0, 0);  // Ctrl-C is the console's
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(ok);
        ::dup2(to[0], STDIN_FILENO);
        ::dup2(from[1], STDOUT_FILENO);
        ::execv("/proc/self/exe", arguments.data());
        ::_exit(internal);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = to[1];
    out_ = from[0];
    ::fcntl(in_, F_SETFL, O_NONBLOCK);
    process_.store(child);
    outbox_.clear();
    inbox_.clear();
    seen_ = 0;
    return child > 0;
}

void Worker::stop(int signal) {
    const pid_t process = process_.exchange(-1);
    if (process > 0) {
        if (signal) ::kill(process, signal);
        int status = 0;
        while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
        }
        signal_name_ = WIFSIGNALED(status) ? signal_text(WTERMSIG(status)) : "exit code " + std::to_string(WEXITSTATUS(status));
    }
    for (int* fd : {&in_, &out_})
        if (*fd >= 0) ::close(std::exchange(*fd, -1));
}

void Worker::interrupt() {
    const pid_t process = process_.load();
    const int64_t before = interrupted_at_.load(), at = now();
    if (process <= 0) return;
    ::kill(process, before && at - before > kStuck ? SIGKILL : SIGUSR1);
    if (!before) interrupted_at_.store(at);
}

void Worker::send(const Json& request, uint64_t id) {
    Json with = request;
    with["id"] = id;
    outbox_ += line_of(std::move(with));
}

bool Worker::pump(int milliseconds) {
    pollfd fds[2] = {{out_, POLLIN, 0}, {in_, POLLOUT, 0}};
    if (::poll(fds, outbox_.empty() ? 1 : 2, milliseconds) <= 0) return true;
    if (!outbox_.empty() && fds[1].revents) {
        const ssize_t n = ::write(in_, outbox_.data(), outbox_.size());
        if (n > 0) outbox_.erase(0, static_cast<size_t>(n));
        if (n < 0 && errno != EINTR && errno != EAGAIN) outbox_.clear();  // it is gone, which reading tells
    }
    if (!fds[0].revents) return true;
    char block[1 << 16];
    const ssize_t n = ::read(out_, block, sizeof block);
    if (n > 0) inbox_.append(block, static_cast<size_t>(n));
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

bool Worker::take_line(std::string& line) {
    const size_t end = inbox_.find('\n', seen_);
    if (end == inbox_.npos) return seen_ = inbox_.size(), false;
    line = inbox_.substr(0, end);
    inbox_.erase(0, end + 1);
    seen_ = 0;
    return true;
}

void Worker::forget() {
    std::vector<Done> kept;
    for (Done& d : journal_) {
        std::string unheard;
        const Command* command = d.number ? nullptr : find_command(command_word(d.text), unheard);
        const bool counts = d.number || (command && command->takes == Operands::file && command->name != "import");
        if (counts)
            kept.push_back({{}, next_ - 1, true});
        else if (command && command->takes == Operands::words)  // settings stay
            kept.push_back(std::move(d));
    }
    journal_ = std::move(kept);
}

void Worker::remember(const Json& request, const Json& done) {
    const std::string op = request.value("op", ""), text = request.value("text", "");
    const uint64_t next = done.value("next", next_);
    const bool good = done["code"] == ok;
    for (const Json& file : done.value("reloaded", Json::array())) {  // before the input
        const bool loaded = file["good"].get<bool>();
        journal_.push_back({loaded ? ":load " + file["path"].get<std::string>() : std::string(), next_++, !loaded});
    }
    std::string unheard;
    const Command* command = op == "eval" && is_command(text) ? find_command(command_word(text), unheard) : nullptr;
    if (good && (op == "reset" || (command && command->name == "reset"))) {
        forget();
    } else if (good && command && command->changes) {
        journal_.push_back({text, 0, false});
        const size_t space = text.find_first_of(" \t");
        if (command->run == change_folder && space != text.npos && ::chdir(trimmed(text.substr(space)).c_str()) != 0) errno = 0;
    } else if (op == "eval" && next != next_) {
        journal_.push_back({good ? text : std::string(), next - 1, !good});
    }
    next_ = next;
}

void Worker::replay() {
    for (size_t i = 0; i < journal_.size(); ++i) {
        // An input that failed changed nothing but the count.
        send({{"op", "eval"}, {"text", journal_[i].failed ? std::string(")") : journal_[i].text}}, ++id_);
        replaying_[id_] = i;
    }
}

std::string Worker::ending() {
    const std::string who = crashed_in_.empty() ? "the process that evaluates" : "native code of `" + crashed_in_ + "`";
    return who + " ended with " + signal_name_;
}

bool Worker::is_old(const Json& event, const Hear& hear) {
    if (!event.is_object()) return true;
    const std::string what = event.value("event", "");
    if (what == "crash") return crashed_in_ = event.value("kernel", ""), true;
    const Json id = event.value("id", Json());
    if (!id.is_number_unsigned() || id.get<uint64_t>() > id_) return true;
    const auto it = replaying_.find(id.get<uint64_t>());
    if (it == replaying_.end()) return id.get<uint64_t>() != id_;
    if (what == "done") {
        Done& d = journal_[it->second];
        if (!d.failed && event["code"] != ok) {
            d.failed = true;
            hear({{"event", "print"}, {"of", "command"}, {"text", "`" + d.text.substr(0, 60) + "` could not be replayed\n"}});
        }
        next_ = event.value("next", next_);
        replaying_.erase(it);
    }
    return true;
}

void Worker::look_at_old(const Hear& hear) {
    for (std::string line; take_line(line);) (void)is_old(Json::parse(line, nullptr, false), hear);
}

bool Worker::recover(const Hear& hear) {
    std::string text;
    bool alive = false;
    for (size_t attempt = 0; attempt < kMostCrashes && !alive; ++attempt) {
        look_at_old(hear);  // what it said last
        stop(0);
        text += (text.empty() ? "" : "\n") + ending();
        if (!replaying_.empty()) {  // what it was doing once more would end the next one, too
            Done& guilty = journal_[replaying_.begin()->second];
            text += " while `" + guilty.text.substr(0, 60) + "` was done once more, which is left out";
            guilty.failed = true;
        }
        replaying_.clear();
        crashed_in_.clear();
        if (!start()) break;
        replay();
        alive = true;
        for (const int64_t end = now() + kSoon; alive && !replaying_.empty() && now() < end;) {
            alive = pump(static_cast<int>(std::max<int64_t>(end - now(), 1)));
            look_at_old(hear);
        }
    }
    const auto inputs = std::ranges::count_if(journal_, [](const Done& d) { return !d.failed; });
    const std::string count = std::to_string(inputs) + (inputs == 1 ? " input" : " inputs");
    text += !alive               ? "; the session begins anew"
            : replaying_.empty() ? "; " + count + " replayed, variables kept"
                                 : "; " + count + " are being replayed, variables kept";
    if (!alive) journal_.clear(), replaying_.clear(), stop(SIGKILL), start();
    const Json d = {{"schema", 1},           {"level", "error"}, {"code", ""}, {"message", text}, {"spans", Json::array()}, {"notes", Json::array()},
                    {"fixes", Json::array()}};
    hear({{"event", "diagnostic"},
          {"diagnostic", d},
          {"text", std::string(colour_ ? "\033[1;31m" : "") + "error" + (colour_ ? "\033[0m" : "") + ": " + text + "\n"}});
    return alive;
}

Json Worker::answer(const Json& request, const Hear& hear) {
    send(request, ++id_);
    for (;;) {
        const bool alive = pump(-1);
        for (std::string line; take_line(line);) {
            Json event = Json::parse(line, nullptr, false);
            if (is_old(event, hear)) continue;
            event.erase("id");
            event.erase("schema");
            if (event["event"] != "done") {
                hear(std::move(event));
                continue;
            }
            Json result = event.contains("result") ? std::move(event["result"]) : Json();
            event.erase("result");
            const Json done = event;
            remember(request, done);
            if (!result.is_null()) event["result"] = std::move(result);
            hear(std::move(event));
            return done;
        }
        if (alive) continue;
        if (request.value("op", "") == "eval") journal_.push_back({{}, next_++, true});
        recover(hear);
        Json done = {{"event", "done"}, {"status", "failed"}, {"code", run_failed}, {"next", next_}};
        hear(done);
        return done;
    }
}

Json Worker::request(const Json& request, const Hear& hear) {
    const std::string op = request.value("op", ""), text = request.value("text", "");
    const auto answered = [&](bool good, Json result) {
        const Json done = {{"event", "done"}, {"status", good ? "ok" : "failed"}, {"code", good ? ok : run_failed}, {"next", next_}};
        Json told = done;
        if (!result.is_null()) told["result"] = std::move(result);
        hear(std::move(told));
        return done;
    };
    if ((op == "is_complete" || op == "tokens") && !is_command(text)) {
        auto found = syntax_.ask(op, text);
        return answered(static_cast<bool>(found), found ? Json::parse(found.value()) : Json());
    }
    interrupted_at_.store(0);
    bool alive = pump(0);
    for (size_t before = 0; alive && inbox_.size() != before;) {
        before = inbox_.size();
        look_at_old(hear);
        alive = pump(0);
    }
    if (!alive) recover(hear);
    // What the console asks while a person types does not wait for inputs that are being replayed.
    if (!replaying_.empty() && op != "eval") return answered(true, nullptr);
    return answer(request, hear);
}

}  // namespace tegula_tool::repl
