// `tegula dump --emit=sass`: the machine code of a kernel, as the CUDA toolkit's nvdisasm shows it. The image goes to a private file and nvdisasm is
// started on it directly, without a shell.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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

int show_sass(const Session& session, const std::string& cubin) {
    constexpr const char* kTool = "nvdisasm";
    const PrivateFile file(cubin);
    if (!file.error().empty()) return session.fail(io, file.error());
    std::fflush(stdout);
    std::string path = file.path();
    char name[] = "nvdisasm", code_only[] = "--print-code";
    char* const arguments[] = {name, code_only, path.data(), nullptr};
    pid_t child = 0;
    const int failed = ::posix_spawnp(&child, kTool, nullptr, nullptr, arguments, environ);
    if (failed == ENOENT) return session.fail(unavailable, "nvdisasm (of the CUDA toolkit) is not on PATH");
    if (failed) return session.fail(unavailable, std::string("nvdisasm cannot be started: ") + std::strerror(failed));
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return session.fail(internal, std::string("nvdisasm: ") + std::strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ok;
    return session.fail(unavailable, "nvdisasm failed");
}

}  // namespace tegula_tool
