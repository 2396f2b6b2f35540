// The formats of array files behind arrays.h, each in a file of its own, and the bytes that they are read from.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arrays.h"

namespace tegula_tool {

constexpr uint64_t kMaxData = uint64_t{1} << 34;    ///< of one array
constexpr uint64_t kMaxHeader = uint64_t{8} << 20;  ///< parsed JSON takes many times its text

struct DtypeRow {
    const char* npy;          ///< without byte order; null: not in .npy
    const char* safetensors;  ///< null: not in .safetensors
    const char* type;         ///< the language's
    unsigned bits;
    int64_t parts = 1;  ///< elements of `type` that one element of the file is
};
/// The first row that fits is used for reading and for writing.
std::span<const DtypeRow> dtypes();

/// Text out of a file for a message: nothing that a terminal would obey.
std::string shown(std::string_view text, size_t limit = 60);
bool ends_with(std::string_view text, std::string_view tail);

/// Bytes of an array whose elements follow one another bit by bit; nullopt on overflow, negative extents, or where they do not fill bytes.
std::optional<uint64_t> array_bytes(const std::vector<int64_t>& extents, unsigned bits);
/// Elements of `bits` bits of which each row starts on a byte, out of ones that follow one another without gaps, and back. `row` elements a row.
std::string padded_rows(const std::string& bytes, int64_t row, int64_t rows, unsigned bits);
std::string dense_rows(const std::string& bytes, int64_t row, int64_t rows, unsigned bits);
/// Bools are one byte in files and one bit, rows on bytes, in the language.
std::string pack_bools(const std::string& bytes, const std::vector<int64_t>& extents, bool column_major);
std::string unpack_bools(const std::string& data, const std::vector<int64_t>& extents, bool column_major);
/// Elements of a row, and rows: the last extent, and the product of the others.
std::pair<int64_t, int64_t> rows_of(const std::vector<int64_t>& extents);

/// A file read piece by piece, so that a header decides what is worth reading. Pipes are read whole first.
class Source {
public:
    /// `begins`: could the bytes begin a file of the format?
    bool open(const std::string& path, bool (*begins)(std::string_view text), Access access, std::string& error);
    /// Bytes that are here already, of what `path` names.
    void hold(const std::string& path, std::string bytes);
    uint64_t size() const { return size_; }
    /// Bytes [offset, offset + n), which lie inside.
    bool read(uint64_t offset, uint64_t n, std::string& out, std::string& error) const;

private:
    Descriptor file_;
    std::string path_, whole_;
    bool regular_ = false;
    uint64_t size_ = 0;
};

bool begins_npy(std::string_view text);
std::optional<Array> read_npy(const std::string& path, const Source& file, std::string& error);
std::optional<std::string> npy_text(const Array& array, std::string& error);

bool begins_zip(std::string_view text);
std::optional<Array> read_npz(const std::string& path, const Source& file, const std::string& name, std::string& error);

bool begins_safetensors(std::string_view text);
std::optional<Array> read_safetensors(const std::string& path, const Source& file, const std::string& wanted, std::string& error);
std::optional<std::string> safetensors_text(const NamedArrays& arrays, std::string& error);
/// The names of the tensors of a file.
std::optional<std::vector<std::string>> safetensors_names(const std::string& path, const Source& file, std::string& error);
/// A tensor of a model in several files: `path` is its index, or a directory of .safetensors files.
std::optional<Array> read_sharded(const std::string& path, const std::string& name, Access access, std::string& error);
bool is_index(std::string_view path);

}  // namespace tegula_tool
