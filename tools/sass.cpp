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

namespace {

/// A file that only this user can read, gone when the object is.
class PrivateFile {
public:
    explicit PrivateFile(const std::string& bytes) {
        const char* folder = std::getenv("TMPDIR");
        path_ = std::string(folder && *folder ? folder : "/tmp") + "/tegula_XXXXXX";
        const int fd = ::mkstemp(path_.data());
        if (fd < 0) {
            error_ = path_ + ": " + std::strerror(errno);
            path_.clear();
            return;
        }
        for (size_t at = 0; at < bytes.size() && error_.empty();) {
            const ssize_t n = ::write(fd, bytes.data() + at, bytes.size() - at);
            if (n < 0 && errno != EINTR) error_ = path_ + ": " + std::strerror(errno);
            at += n > 0 ? static_cast<size_t>(n) : 0;
        }
        ::close(fd);
    }
    ~PrivateFile() {
        if (!path_.empty()) ::unlink(path_.c_str());
    }
    PrivateFile(const PrivateFile&) = delete;
    PrivateFile& operator=(const PrivateFile&) = delete;
    const std::string& path() const { return path_; }
    const std::string& error() const { return error_; }

private:
    std::string path_, error_;
};

}  // namespace

int show_sass(const Session& session, const std::string& cubin, std::string* text) {
    constexpr const char* kTool = "nvdisasm";
    const PrivateFile file(cubin);
    if (!file.error().empty()) return session.fail(io, file.error());
    std::fflush(stdout);
    std::string path = file.path();
    char name[] = "nvdisasm", code_only[] = "--print-code";
    char* const arguments[] = {name, code_only, path.data(), nullptr};
    pid_t child = 0;
    int pipe[2] = {-1, -1};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    if (text) {
        if (::pipe2(pipe, O_CLOEXEC) != 0) return session.fail(internal, std::string("nvdisasm: ") + std::strerror(errno));
        ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
    }
    const int failed = ::posix_spawnp(&child, kTool, &actions, nullptr, arguments, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (text) ::close(pipe[1]);
    const Descriptor reader{pipe[0]};
    if (failed == ENOENT) return session.fail(unavailable, "nvdisasm (of the CUDA toolkit) is not on PATH");
    if (failed) return session.fail(unavailable, std::string("nvdisasm cannot be started: ") + std::strerror(failed));
    char buffer[1 << 14];
    for (ssize_t n = 1; text && n != 0;) {
        n = ::read(reader.fd, buffer, sizeof buffer);
        if (n > 0) text->append(buffer, static_cast<size_t>(n));
        if (n < 0 && errno != EINTR) break;
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return session.fail(internal, std::string("nvdisasm: ") + std::strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ok;
    return session.fail(unavailable, "nvdisasm failed");
}

}  // namespace tegula_tool
