// `tegula reduce`: the smallest text that still does what a command looks for; `tegula bisect`: the compiler pass that makes the difference.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "files.h"
#include "terminal.h"
#include "tool.h"

extern char** environ;

namespace tegula_tool {

namespace {

constexpr double kPatience = 60;  ///< seconds that a command may take unless --patience says otherwise

/// `{}` in a command stands for `word`; without one it comes last.
std::string filled(const std::string& command, const std::string& word) {
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    quoted += "'";
    if (command.find("{}") == command.npos) return command + " " + quoted;
    std::string out = command;
    for (size_t at = 0; (at = out.find("{}", at)) != out.npos; at += quoted.size()) out.replace(at, 2, quoted);
    return out;
}

/// Runs a command of the shell without a word; nullopt: it was interrupted, else whether it ended with code 0 in time.
std::optional<bool> holds(const std::string& command, double patience) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;  // a group of its own, which ends as a whole
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    std::string text = command;
    char shell[] = "sh", flag[] = "-c";
    char* const arguments[] = {shell, flag, text.data(), nullptr};
    pid_t child = 0;
    const int failed = ::posix_spawnp(&child, "sh", &actions, &attributes, arguments, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    if (failed) return std::nullopt;
    const auto start = std::chrono::steady_clock::now();
    int status = 0;
    for (auto pause = std::chrono::microseconds(200);;) {
        const pid_t ended = ::waitpid(child, &status, WNOHANG);
        if (ended == child) break;
        const bool late = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > patience;
        if (late || stop_requested()) {
            ::kill(-child, SIGKILL);
            while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
            }
            return late ? std::optional(false) : std::nullopt;
        }
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, std::chrono::microseconds(5000));
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Words, numbers, gaps and single marks: what the language's scanner would hardly split.
std::vector<std::string> pieces(const std::string& text, bool lines) {
    const auto kind = [](char c) {
        const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (c & 0x80);
        return word ? 1 : c == ' ' || c == '\t' || c == '\n' ? 2 : 0;
    };
    std::vector<std::string> out;
    for (size_t at = 0; at < text.size();) {
        size_t end = at + 1;
        if (lines)
            end = std::min(text.find('\n', at), text.size() - 1) + 1;
        else
            while (end < text.size() && kind(text[at]) && kind(text[end]) == kind(text[at])) ++end;
        out.push_back(text.substr(at, end - at));
        at = end;
    }
    return out;
}

std::string joined(const std::vector<std::string>& parts) {
    std::string out;
    for (const std::string& part : parts) out += part;
    return out;
}

class Reducer {
public:
    explicit Reducer(Session& session) : session_(session), o_(session.options) {}
    int operator()();

private:
    /// Does the command still hold for this text? Texts that were tried are known.
    bool try_text(const std::string& text);
    bool drop_groups(std::string& text);
    void drop_pieces(std::string& text, bool lines);
    Session& session_;
    const Options& o_;
    std::string path_;
    size_t tried_ = 0;
    bool stopped_ = false;
};

bool Reducer::try_text(const std::string& text) {
    std::string error;
    if (stopped_ || !write_file(path_, text, error)) return false;
    ++tried_;
    const auto good = holds(filled(o_.condition, path_), o_.patience > 0 ? o_.patience : kPatience);
    stopped_ = !good;
    return good.value_or(false);
}

/// What stands between a bracket and its partner, with them or without, is one step that pieces would need many for.
bool Reducer::drop_groups(std::string& text) {
    bool any = false;
    for (size_t open = 0; open < text.size() && !stopped_; ++open) {
        if (text[open] != '{' && text[open] != '(' && text[open] != '[') continue;
        size_t close = open;
        for (int depth = 0; close < text.size(); ++close) {
            depth += text[close] == '{' || text[close] == '(' || text[close] == '[';
            depth -= text[close] == '}' || text[close] == ')' || text[close] == ']';
            if (depth == 0) break;
        }
        if (close >= text.size() || close == open + 1) continue;
        const std::string inside = text.substr(0, open + 1) + text.substr(close),
                          unwrapped = text.substr(0, open) + text.substr(open + 1, close - open - 1) + text.substr(close + 1);
        for (const std::string& shorter : {inside, unwrapped})
            if (try_text(shorter)) {
                text = shorter;
                any = true;
                break;
            }
    }
    return any;
}

/// Takes away as many neighbours at a time as can go, then half of them.
void Reducer::drop_pieces(std::string& text, bool lines) {
    std::vector<std::string> parts = pieces(text, lines);
    for (size_t step = std::max<size_t>(parts.size() / 2, 1); step >= 1 && !stopped_; step /= 2)
        for (size_t at = 0; at < parts.size() && !stopped_;) {
            std::vector<std::string> rest(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(at));
            rest.insert(rest.end(), parts.begin() + static_cast<ptrdiff_t>(std::min(at + step, parts.size())), parts.end());
            if (try_text(joined(rest)))
                parts = std::move(rest);
            else
                at += step;
            if (!o_.quiet && ::isatty(STDERR_FILENO))
                show_progress(std::to_string(joined(parts).size()) + " bytes after " + std::to_string(tried_) + " attempts");
        }
    text = joined(parts);
}

int Reducer::operator()() {
    std::string error;
    if (o_.condition.empty()) return session_.fail(usage, "--while COMMAND says what to keep");
    const auto source = read_file(o_.file, uint64_t{16} << 20, error);
    if (!source) return session_.fail(io, error);
    // Beside the file, so that its imports are found; the command may name it.
    const size_t slash = o_.file.rfind('/'), name = slash == std::string::npos ? 0 : slash + 1;
    path_ = o_.file.substr(0, name) + "reduced-" + std::to_string(::getpid()) + "-" + o_.file.substr(name);
    std::string text = *source;
    if (!try_text(text)) {
        ::unlink(path_.c_str());
        if (stopped_) return session_.exit_code(TEGULA_E_CANCELLED);
        return session_.fail(usage, "the command does not end with code 0 for " + o_.file + " as it is: " + filled(o_.condition, path_));
    }
    for (size_t before = text.size() + 1; text.size() < before && !stopped_;) {
        before = text.size();
        drop_pieces(text, true);
        drop_groups(text);
        drop_pieces(text, false);
    }
    ::unlink(path_.c_str());
    erase_progress();
    const std::string summary =
        std::to_string(source->size()) + " bytes became " + std::to_string(text.size()) + ", in " + std::to_string(tried_) + " attempts";
    if (o_.json)
        std::printf("{\"schema\":1,\"file\":%s,\"bytes\":%zu,\"attempts\":%zu,\"text\":%s}\n", json_text(o_.file).c_str(), text.size(), tried_,
                    json_text(text).c_str());
    else
        print_artifact(text), session_.note(summary);
    return stopped_ ? session_.exit_code(TEGULA_E_CANCELLED) : ok;
}

class Bisector {
public:
    explicit Bisector(Session& session) : session_(session), o_(session.options) {}
    int operator()();

private:
    /// Is what is looked for there with these passes off?
    bool bad(const std::vector<std::string>& off);
    Session& session_;
    const Options& o_;
    tegula::Module module_;
    bool stopped_ = false;
};

bool Bisector::bad(const std::vector<std::string>& off) {
    std::string list;
    for (const std::string& pass : off) list += (list.empty() ? "" : ",") + pass;
    if (stopped_) return false;
    if (!o_.condition.empty()) {
        const auto good = holds(filled(o_.condition, list), o_.patience > 0 ? o_.patience : kPatience);
        stopped_ = !good;
        return good.value_or(false);
    }
    tegula::RunOptions run = session_.run_options();
    run.print = nullptr;
    run.checked = true;
    run.step_budget = o_.steps.value_or(1'000'000'000);
    run.disable_passes = list.c_str();
    const tegula_status status = tegula_test(module_.c(), o_.filter.empty() ? nullptr : o_.filter.c_str(), &run, nullptr, nullptr, nullptr);
    stopped_ = status == TEGULA_E_CANCELLED;
    return status != TEGULA_OK && !stopped_;
}

int Bisector::operator()() {
    int code = ok;
    if (!session_.load(o_.file, module_, code)) return code;
    const auto library = nlohmann::json::parse(session_.engine.describe());
    const std::vector<std::string> passes = library["passes"].get<std::vector<std::string>>();
    const auto off_from = [&](size_t first) { return std::vector<std::string>(passes.begin() + static_cast<ptrdiff_t>(first), passes.end()); };
    const bool tests = o_.condition.empty();
    const std::string what = tests ? "the tests fail" : "the command ends with code 0";
    const bool with_all = bad({});
    const bool without = with_all && bad(passes);
    // With the passes up to `good` alone it is not there, with those up to `wrong` it is.
    size_t good = 0, wrong = passes.size();
    while (with_all && !without && wrong - good > 1 && !stopped_) {
        const size_t middle = (good + wrong) / 2;
        (bad(off_from(middle)) ? wrong : good) = middle;
    }
    const bool found = with_all && !without && !stopped_;
    const std::string pass = found ? passes[wrong - 1] : "";
    const bool alone = found && !bad({pass});
    erase_progress();
    if (stopped_) return session_.exit_code(TEGULA_E_CANCELLED);
    const std::string verdict =
        !with_all ? std::string(tests ? "the tests pass" : "the command does not end with code 0") + " with every pass: there is nothing to look for"
        : without ? what + " without any pass, too: no pass is the cause"
                  : what + " from the pass `" + pass + "` on" + (alone ? "; without it alone all is well" : "; others do the same without it");
    if (o_.json)
        std::printf("{\"schema\":1,\"file\":%s,\"pass\":%s,\"alone\":%s,\"verdict\":%s}\n", json_text(o_.file).c_str(),
                    found ? json_text(pass).c_str() : "null", alone ? "true" : "false", json_text(verdict).c_str());
    else
        std::printf("%s\n", verdict.c_str());
    return found ? ok : run_failed;
}

}  // namespace

int reduce_file(Session& session) { return Reducer(session)(); }
int bisect_file(Session& session) { return Bisector(session)(); }

}  // namespace tegula_tool
