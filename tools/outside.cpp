// See outside.h.
#include "outside.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "files.h"

namespace tegula_tool {

namespace {

/// Runs the program on the file as a shell's job in the foreground would run: keys that interrupt are for it alone. Why it failed, or empty.
std::string run_editor(const std::string& path) {
    const char* const words[] = {"sh", "-c", "${VISUAL:-${EDITOR:-vi}} \"$1\"", "sh", path.c_str(), nullptr};
    struct sigaction ignored {
    }, interrupt{}, quit{};
    ignored.sa_handler = SIG_IGN;
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t usual;
    ::sigemptyset(&usual);
    for (const int signal : {SIGINT, SIGQUIT, SIGTSTP, SIGWINCH, SIGCONT}) ::sigaddset(&usual, signal);
    ::posix_spawnattr_setsigdefault(&attributes, &usual);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    ::sigaction(SIGINT, &ignored, &interrupt);
    ::sigaction(SIGQUIT, &ignored, &quit);
    pid_t child = 0;
    int status = 0;
    const int failed = ::posix_spawn(&child, "/bin/sh", nullptr, &attributes, const_cast<char* const*>(words), environ);
    while (!failed && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    ::posix_spawnattr_destroy(&attributes);
    ::sigaction(SIGINT, &interrupt, nullptr);
    ::sigaction(SIGQUIT, &quit, nullptr);
    return failed ? "sh: " + system_error(failed) : status != 0 ? "the editor failed; the text is as it was" : "";
}

}  // namespace

std::string edit_outside(std::string& text) {
    constexpr uint64_t kMost = uint64_t{16} << 20;
    const Temporary file(text + "\n", ".tile");
    if (!file.error().empty()) return file.error();
    if (const std::string why = run_editor(file.path()); !why.empty()) return why;
    std::string error;
    auto changed = read_file(file.path(), kMost, error);
    if (!changed) return error;
    while (changed->ends_with('\n')) changed->pop_back();
    text = std::move(*changed);
    return {};
}

}  // namespace tegula_tool
