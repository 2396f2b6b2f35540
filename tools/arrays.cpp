// Array files of every format, see arrays.h.
#include "arrays.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "array_files.h"

namespace tegula_tool {

namespace {

constexpr DtypeRow kDtypes[] = {
    {"f4", "F32", "f32", 32},
    {"f8", "F64", "f64", 64},
    {"f2", "F16", "f16", 16},
    {"i1", "I8", "i8", 8},
    {"i2", "I16", "i16", 16},
    {"i4", "I32", "i32", 32},
    {"i8", "I64", "i64", 64},
    {"u1", "U8", "u8", 8},
    {"u2", "U16", "u16", 16},
    {"u4", "U32", "u32", 32},
    {"u8", "U64", "u64", 64},
    {"b1", "BOOL", "bool", 8},
    {nullptr, "BF16", "bf16", 16},
    {nullptr, "F8_E4M3", "f8e4m3", 8},
    {nullptr, "F8_E5M2", "f8e5m2", 8},
    {nullptr, "F8_E8M0", "f8e8m0", 8},
    {nullptr, "F8_E4M3FNUZ", "f8e4m3fnuz", 8},
    {nullptr, "F8_E5M2FNUZ", "f8e5m2fnuz", 8},
    {nullptr, "F6_E2M3", "f6e2m3", 6},
    {nullptr, "F6_E3M2", "f6e3m2", 6},
    {nullptr, "F4", "f4e2m1", 4},
    {nullptr, "C64", "f32", 32, 2},  // real and imaginary parts, along one more extent
};

/// Why arrays are not read from such a file, that a name of such a kind leads to; null: they are. Opening a pipe with a name waits for its writer.
const char* unreadable(mode_t file, mode_t name, Access access) {
    if (S_ISREG(file)) return nullptr;
    if (S_ISDIR(file)) return "is a directory";
    if (!S_ISFIFO(file)) return "is a device or socket, not a file";
    return access == Access::line && !S_ISFIFO(name) ? nullptr : "is a pipe, not a file";
}

/// Could the bytes begin a file of any format?
bool begins_any(std::string_view text) { return begins_npy(text) || begins_zip(text) || begins_safetensors(text); }

enum class Kind { npy, npz, safetensors };

/// What a name says, or without an ending that is known what the bytes say.
Kind kind_of(const std::string& path, const Source& file) {
    if (is_safetensors(path)) return Kind::safetensors;
    if (ends_with(path, ".npz")) return Kind::npz;
    if (ends_with(path, ".npy")) return Kind::npy;
    std::string start, error;
    if (!file.read(0, std::min<uint64_t>(file.size(), 8), start, error) || begins_npy(start)) return Kind::npy;
    return begins_zip(start) ? Kind::npz : begins_safetensors(start) && file.size() > 8 ? Kind::safetensors : Kind::npy;
}

std::string copy_bits(const std::string& bytes, size_t from_row, size_t to_row, size_t row_bits, size_t rows) {
    std::string out((to_row * (rows ? rows - 1 : 0) + (rows ? row_bits : 0) + 7) / 8, '\0');
    for (size_t r = 0; r < rows; ++r)
        for (size_t i = 0; i < row_bits; ++i) {
            const size_t from = r * from_row + i, to = r * to_row + i;
            if (static_cast<unsigned char>(bytes[from / 8]) >> (from % 8) & 1) out[to / 8] = static_cast<char>(out[to / 8] | 1 << (to % 8));
        }
    return out;
}

}  // namespace

std::span<const DtypeRow> dtypes() { return kDtypes; }

std::string shown(std::string_view text, size_t limit) {
    std::string out;
    for (char c : text.substr(0, limit)) out += c >= ' ' && c < 127 ? c : '?';
    return out;
}

bool ends_with(std::string_view text, std::string_view tail) { return text.ends_with(tail); }

std::optional<uint64_t> array_bytes(const std::vector<int64_t>& extents, unsigned bits) {
    unsigned __int128 total = bits;
    for (int64_t e : extents) {
        if (e < 0) return std::nullopt;
        total *= static_cast<uint64_t>(e);
        if (total > static_cast<unsigned __int128>(kMaxData) * 8) return std::nullopt;
    }
    return total % 8 ? std::nullopt : std::optional(static_cast<uint64_t>(total / 8));
}

std::pair<int64_t, int64_t> rows_of(const std::vector<int64_t>& extents) {
    int64_t rows = 1;
    for (size_t d = 0; d + 1 < extents.size(); ++d) rows *= extents[d];
    return {extents.empty() ? 1 : extents.back(), rows};
}

std::string padded_rows(const std::string& bytes, int64_t row, int64_t rows, unsigned bits) {
    const size_t width = static_cast<size_t>(row) * bits;
    if (width % 8 == 0) return bytes;
    std::string out = copy_bits(bytes, width, (width + 7) / 8 * 8, width, static_cast<size_t>(rows));
    out.resize((width + 7) / 8 * static_cast<size_t>(rows));
    return out;
}

std::string dense_rows(const std::string& bytes, int64_t row, int64_t rows, unsigned bits) {
    const size_t width = static_cast<size_t>(row) * bits;
    return width % 8 == 0 ? bytes : copy_bits(bytes, (width + 7) / 8 * 8, width, width, static_cast<size_t>(rows));
}

/// Bools are one byte in both file formats and one bit, rows on bytes, in the language.
std::string pack_bools(const std::string& bytes, const std::vector<int64_t>& extents, bool column_major) {
    const int64_t row = extents.empty() ? 1 : column_major ? extents.front() : extents.back();
    std::string out;
    for (size_t at = 0; row > 0 && at < bytes.size(); at += static_cast<size_t>(row)) {
        std::string packed(static_cast<size_t>((row + 7) / 8), '\0');
        for (int64_t i = 0; i < row; ++i)
            if (bytes[at + static_cast<size_t>(i)])
                packed[static_cast<size_t>(i / 8)] = static_cast<char>(packed[static_cast<size_t>(i / 8)] | 1 << (i % 8));
        out += packed;
    }
    return out;
}

std::string unpack_bools(const std::string& data, const std::vector<int64_t>& extents, bool column_major) {
    const int64_t row = extents.empty() ? 1 : column_major ? extents.front() : extents.back();
    std::string out;
    const size_t stride = static_cast<size_t>((row + 7) / 8);
    for (size_t at = 0; stride > 0 && at + stride <= data.size(); at += stride)
        for (int64_t i = 0; i < row; ++i) out += static_cast<char>(data[at + static_cast<size_t>(i / 8)] >> (i % 8) & 1);
    return out;
}

bool Source::open(const std::string& path, bool (*begins)(std::string_view text), Access access, std::string& error) {
    struct stat info {
    }, name{};
    if (::lstat(path.c_str(), &name) != 0 || ::stat(path.c_str(), &info) != 0) return error = path + ": " + std::strerror(errno), false;
    if (access == Access::confined && S_ISLNK(name.st_mode)) return error = path + ": symbolic links are not followed", false;
    if (const char* what = unreadable(info.st_mode, name.st_mode, access)) return error = path + ": " + what, false;
    file_.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);  // another file may have the name by now
    if (file_.fd < 0 || ::fstat(file_.fd, &info) != 0) return error = path + ": " + std::strerror(errno), false;
    if (const char* what = unreadable(info.st_mode, name.st_mode, access)) return error = path + ": " + what, false;
    path_ = path;
    regular_ = S_ISREG(info.st_mode);
    size_ = static_cast<uint64_t>(info.st_size);
    if (regular_) return true;
    auto text = read_file(path, kMaxData, error, begins);
    if (text) whole_ = std::move(*text), size_ = whole_.size();
    return text.has_value();
}
void Source::hold(const std::string& path, std::string bytes) {
    path_ = path;
    whole_ = std::move(bytes);
    size_ = whole_.size();
    regular_ = false;
}

bool Source::read(uint64_t offset, uint64_t n, std::string& out, std::string& error) const {
    out.clear();
    if (!regular_) return out = whole_.substr(offset, n), true;
    out.resize(n);
    for (uint64_t at = 0; at < n;) {
        const ssize_t got = ::pread(file_.fd, out.data() + at, n - at, static_cast<off_t>(offset + at));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return error = path_ + ": " + (got < 0 ? std::strerror(errno) : "truncated while it was read"), false;
        at += static_cast<uint64_t>(got);
    }
    return true;
}

bool has_dtype(const std::string& type, const std::vector<int64_t>& extents, bool safetensors) {
    return std::any_of(std::begin(kDtypes), std::end(kDtypes), [&](const DtypeRow& row) {
        return (safetensors ? row.safetensors : row.npy) && row.parts == 1 && type == row.type && array_bytes(extents, row.bits);
    });
}

bool is_safetensors(const std::string& path) { return ends_with(path, ".safetensors"); }

std::optional<Array> read_array(const std::string& path, const std::string& name, std::string& error, Access access) {
    const bool standard_input = path == "-" && access == Access::line;
    const std::string shown_path = standard_input ? "standard input" : path;
    try {
        struct stat info {};
        const bool directory = ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
        if ((directory && access != Access::confined) || is_index(path)) return read_sharded(path, name, access, error);
        Source file;
        if (standard_input) {
            auto text = read_file("/dev/stdin", kMaxData, error, begins_any);
            if (!text) return error = shown_path + error.substr(std::string_view("/dev/stdin").size()), std::nullopt;
            file.hold(shown_path, std::move(*text));
        } else {
            const bool npy = ends_with(path, ".npy");
            if (!file.open(path, is_safetensors(path) ? begins_safetensors : npy ? begins_npy : begins_any, access, error)) return std::nullopt;
        }
        switch (kind_of(path, file)) {
            case Kind::safetensors:
                return read_safetensors(shown_path, file, name, error);
            case Kind::npz:
                return read_npz(shown_path, file, name, error);
            case Kind::npy:
                break;
        }
        if (name.empty()) return read_npy(shown_path, file, error);
        error = shown_path + ": a .npy file holds one array, which has no name `" + shown(name) + "`";
        return std::nullopt;
    } catch (const std::bad_alloc&) {
        error = shown_path + ": does not fit in memory";
        return std::nullopt;
    }
}

namespace {

/// Why an array is not written under such a name; empty: it is. Devices and pipes have any name.
std::string unwritable(const std::string& path) {
    struct stat info {};
    if (path == "-" || ends_with(path, ".npy") || (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))) return {};
    return path + ": arrays are written as .npy or .safetensors; name the file " + path.substr(0, path.find('.', path.rfind('/') + 1)) + ".npy";
}

bool write_bytes(const std::string& path, const std::string& text, std::string& error) {
    if (path != "-") return write_file(path, text, error);
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ||
           (error = "standard output: " + std::string(std::strerror(errno)), false);
}

}  // namespace

bool write_array(const std::string& path, const std::string& name, const Array& array, std::string& error) {
    if (is_safetensors(path)) return write_arrays(path, {{name, array}}, error);
    if (error = unwritable(path); !error.empty()) return false;
    std::string why;
    const auto text = npy_text(array, why);
    if (text) return write_bytes(path, *text, error);
    error = (path == "-" ? "standard output" : path) + ": " + why;
    return false;
}

bool write_arrays(const std::string& path, const NamedArrays& arrays, std::string& error) {
    std::string why;
    const auto text = safetensors_text(arrays, why);
    if (text) return write_bytes(path, *text, error);
    error = path + ": " + why;
    return false;
}

}  // namespace tegula_tool
