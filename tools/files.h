// Files of the command: read whole within a limit, and replaced whole or not at all.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tegula_tool {

struct Descriptor {
    int fd = -1;
    ~Descriptor() {
        if (fd >= 0) ::close(fd);
    }
};

/// What errno says.
std::string system_error(int code);

/// The whole of a file, at most `limit` bytes; no more than its first ones where `begins`, which sees 8 or all of them, says that they are not worth
/// it.
std::optional<std::string> read_file(const std::string& path, uint64_t limit, std::string& error, bool (*begins)(std::string_view text) = nullptr);

/// Writes through a file beside `path` that takes its place once complete. Devices and pipes are written into. `-`, which elsewhere means a standard
/// stream, is no file: an error that says what to write instead.
bool write_file(const std::string& path, const std::string& data, std::string& error);

/// The path of a temporary file or folder in $TMPDIR or /tmp. `name` has the six X that mkstemps and mkdtemp make a free name of.
std::string temporary_path(std::string_view name);

/// A file that only this user can read, gone when the object is.
class Temporary {
public:
    explicit Temporary(std::string_view bytes, std::string_view suffix = {});
    ~Temporary();
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;
    const std::string& path() const { return path_; }
    const std::string& error() const { return error_; }  ///< empty: it holds the bytes

private:
    std::string path_, error_;
};

}  // namespace tegula_tool
