// `tegula dump --emit=sass`: the machine code of a kernel, as the CUDA toolkit's nvdisasm shows it. The image goes to a private file and nvdisasm is
// started on it directly, without a shell.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "files.h"
#include "tool.h"

extern char** environ;

namespace tegula_tool {

std::optional<std::string> disassembly(const std::string& cubin, bool lines, Exit& code, std::string& error) {
    const auto failed = [&](Exit what, const std::string& why) {
        code = what, error = why;
        return std::nullopt;
    };
    const Temporary file(cubin);
    if (!file.error().empty()) return failed(io, file.error());
    std::string path = file.path();
    char name[] = "nvdisasm", code_only[] = "--print-code", with_lines[] = "--print-line-info-inline";
    char* const arguments[] = {name, code_only, path.data(), lines ? with_lines : nullptr, nullptr};
    pid_t child = 0;
    int pipe[2] = {-1, -1};
    if (::pipe2(pipe, O_CLOEXEC) != 0) return failed(internal, std::string("nvdisasm: ") + std::strerror(errno));
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
    const int started = ::posix_spawnp(&child, "nvdisasm", &actions, nullptr, arguments, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[1]);
    const Descriptor reader{pipe[0]};
    if (started == ENOENT) return failed(unavailable, "nvdisasm (of the CUDA toolkit) is not on PATH");
    if (started) return failed(unavailable, std::string("nvdisasm cannot be started: ") + std::strerror(started));
    std::string text;
    char buffer[1 << 14];
    for (ssize_t n = 1; n != 0;) {
        n = ::read(reader.fd, buffer, sizeof buffer);
        if (n > 0) text.append(buffer, static_cast<size_t>(n));
        if (n < 0 && errno != EINTR) break;
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return failed(internal, std::string("nvdisasm: ") + std::strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
    return failed(unavailable, "nvdisasm failed");
}

int show_sass(const Session& session, const std::string& cubin, std::string* text) {
    Exit code = ok;
    std::string error;
    auto shown = disassembly(cubin, false, code, error);
    if (!shown) return session.fail(code, error);
    if (text)
        *text = std::move(*shown);
    else
        std::fputs(shown->c_str(), stdout);
    return ok;
}

}  // namespace tegula_tool
