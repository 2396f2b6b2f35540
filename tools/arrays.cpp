// .npy and .safetensors, see arrays.h. Formats: numpy.lib.format (NEP 1), huggingface/safetensors README.
#include "arrays.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace tegula_tool {

namespace {

constexpr uint64_t kMaxData = uint64_t{1} << 34;    ///< of one array
constexpr uint64_t kMaxHeader = uint64_t{8} << 20;  ///< parsed JSON takes many times its text

struct DtypeRow {
    const char* npy;          ///< without byte order; null: not in .npy
    const char* safetensors;  ///< null: not in .safetensors
    const char* type;         ///< the language's
    unsigned bytes;
};
// The first row that fits is used for reading and for writing.
constexpr DtypeRow kDtypes[] = {
    {"f4", "F32", "f32", 4},      {"f8", "F64", "f64", 8},           {"f2", "F16", "f16", 2},           {"i1", "I8", "i8", 1},
    {"i2", "I16", "i16", 2},      {"i4", "I32", "i32", 4},           {"i8", "I64", "i64", 8},           {"u1", "U8", "u8", 1},
    {"u2", "U16", "u16", 2},      {"u4", "U32", "u32", 4},           {"u8", "U64", "u64", 8},           {"b1", "BOOL", "bool", 1},
    {nullptr, "BF16", "bf16", 2}, {nullptr, "F8_E4M3", "f8e4m3", 1}, {nullptr, "F8_E5M2", "f8e5m2", 1},
};

/// Text out of a file for a message: nothing that a terminal would obey.
std::string shown(std::string_view text, size_t limit = 60) {
    std::string out;
    for (char c : text.substr(0, limit)) out += c >= ' ' && c < 127 ? c : '?';
    return out;
}

/// Why arrays are not read from such a file, that a name of such a kind leads to; null: they are. Opening a pipe with a name waits for its writer.
const char* unreadable(mode_t file, mode_t name, Pipes pipes) {
    if (S_ISREG(file)) return nullptr;
    if (S_ISDIR(file)) return "is a directory";
    if (!S_ISFIFO(file)) return "is a device or socket, not a file";
    return pipes == Pipes::allowed && !S_ISFIFO(name) ? nullptr : "is a pipe, not a file";
}

/// A file read piece by piece, so that a header decides what is worth reading. Pipes are read whole first.
class Source {
public:
    /// `begins`: could the bytes begin a file of the format?
    bool open(const std::string& path, bool (*begins)(std::string_view text), Pipes pipes, std::string& error) {
        struct stat info {
        }, name{};
        if (::lstat(path.c_str(), &name) != 0 || ::stat(path.c_str(), &info) != 0) return error = path + ": " + std::strerror(errno), false;
        if (const char* what = unreadable(info.st_mode, name.st_mode, pipes)) return error = path + ": " + what, false;
        file_.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);  // another file may have the name by now
        if (file_.fd < 0 || ::fstat(file_.fd, &info) != 0) return error = path + ": " + std::strerror(errno), false;
        if (const char* what = unreadable(info.st_mode, name.st_mode, pipes)) return error = path + ": " + what, false;
        path_ = path;
        regular_ = S_ISREG(info.st_mode);
        size_ = static_cast<uint64_t>(info.st_size);
        if (regular_) return true;
        auto text = read_file(path, kMaxData, error, begins);
        if (text) whole_ = std::move(*text), size_ = whole_.size();
        return text.has_value();
    }
    uint64_t size() const { return size_; }
    /// Bytes [offset, offset + n), which lie inside.
    bool read(uint64_t offset, uint64_t n, std::string& out, std::string& error) const {
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

private:
    Descriptor file_;
    std::string path_, whole_;
    bool regular_ = false;
    uint64_t size_ = 0;
};

constexpr std::string_view kNpyMagic = "\x93NUMPY";

bool begins_npy(std::string_view text) { return text.starts_with(kNpyMagic); }

/// Eight bytes: the header's length.
uint64_t safetensors_header(std::string_view text) {
    uint64_t length = 0;
    for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(text[i]);
    return length;
}

bool begins_safetensors(std::string_view text) { return text.size() >= 8 && safetensors_header(text) > 1 && safetensors_header(text) <= kMaxHeader; }

bool ends_with(std::string_view text, std::string_view tail) { return text.size() >= tail.size() && text.substr(text.size() - tail.size()) == tail; }

/// Bytes of an array, or nullopt on overflow or negative extents.
std::optional<uint64_t> array_bytes(const std::vector<int64_t>& extents, unsigned bytes) {
    unsigned __int128 total = bytes;
    for (int64_t e : extents) {
        if (e < 0) return std::nullopt;
        total *= static_cast<uint64_t>(e);
        if (total > kMaxData) return std::nullopt;
    }
    return static_cast<uint64_t>(total);
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

// ---- .npy ----

/// The header is a Python dict literal with three known keys; this reads exactly that and nothing else.
class NpyHeader {
public:
    explicit NpyHeader(std::string_view text) : text_(text) {}
    std::string descr;
    bool fortran = false;
    std::vector<int64_t> shape;

    bool parse(std::string& field) {
        bool seen[3] = {};
        field = "header";
        if (!eat('{')) return false;
        while (!eat('}')) {
            std::string key;
            if (!string(key) || !eat(':')) return false;
            field = key.size() < 40 ? key : "header";
            if (key == "descr") {
                if (!string(descr)) return false;
                seen[0] = true;
            } else if (key == "fortran_order") {
                if (word("True"))
                    fortran = true;
                else if (!word("False"))
                    return false;
                seen[1] = true;
            } else if (key == "shape") {
                if (!tuple()) return false;
                seen[2] = true;
            } else {
                return false;
            }
            if (!eat(',') && peek() != '}') return false;
        }
        field = !seen[0] ? "descr" : !seen[1] ? "fortran_order" : "shape";
        return seen[0] && seen[1] && seen[2];
    }

private:
    void skip() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    }
    char peek() {
        skip();
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool eat(char c) {
        if (peek() != c) return false;
        ++at_;
        return true;
    }
    bool word(std::string_view w) {
        skip();
        if (text_.substr(at_, w.size()) != w) return false;
        at_ += w.size();
        return true;
    }
    bool string(std::string& out) {
        char quote = peek();
        if (quote != '\'' && quote != '"') return false;
        size_t end = text_.find(quote, ++at_);
        if (end == std::string_view::npos) return false;
        out = text_.substr(at_, end - at_);
        at_ = end + 1;
        return true;
    }
    bool tuple() {
        if (!eat('(')) return false;
        while (!eat(')')) {
            skip();
            int64_t value = 0;
            auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
            if (error != std::errc() || value < 0 || shape.size() == 8) return false;
            at_ = static_cast<size_t>(end - text_.data());
            shape.push_back(value);
            if (!eat(',') && peek() != ')') return false;
        }
        return true;
    }
    std::string_view text_;
    size_t at_ = 0;
};

std::optional<Array> read_npy(const std::string& path, const Source& file, std::string& error) {
    auto fail = [&](const std::string& what) {
        error = path + ": " + what;
        return std::nullopt;
    };
    std::string start, text;
    if (!file.read(0, std::min<uint64_t>(file.size(), 12), start, error)) return std::nullopt;
    if (start.size() < 10 || !begins_npy(start)) return fail("not a .npy file (magic)");
    const auto byte = [&](size_t i) { return static_cast<uint64_t>(static_cast<unsigned char>(start[i])); };
    const uint64_t version = byte(6);
    if (version < 1 || version > 3) return fail("version " + std::to_string(version) + " is not supported (field `version`)");
    const size_t prefix = version == 1 ? 10 : 12;
    if (start.size() < prefix) return fail("truncated (field `header length`)");
    const uint64_t length = version == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
    if (length > kMaxHeader || length > file.size() - prefix) return fail("truncated (field `header length`)");
    if (!file.read(prefix, length, text, error)) return std::nullopt;
    NpyHeader header(text);
    std::string field;
    if (!header.parse(field)) return fail("the header cannot be read (field `" + shown(field) + "`)");
    const DtypeRow* row = nullptr;
    for (const DtypeRow& r : kDtypes)
        if (r.npy && header.descr.size() == 3 && header.descr.substr(1) == r.npy) row = &r;
    if (!row) return fail("type `" + shown(header.descr) + "` is not supported (field `descr`)");
    const char order = header.descr[0];
    if (order != '<' && order != '|' && order != '=') return fail("byte order `" + shown({&order, 1}) + "` is not little-endian (field `descr`)");
    const auto bytes = array_bytes(header.shape, row->bytes);
    if (!bytes) return fail("the shape is too large (field `shape`)");
    const uint64_t have = file.size() - prefix - length;
    if (have != *bytes)
        return fail("the data has " + std::to_string(have) + " bytes, shape and type need " + std::to_string(*bytes) + " (field `shape`)");
    Array array{row->type, header.shape, header.fortran && header.shape.size() > 1, {}};
    if (!file.read(prefix + length, *bytes, array.data, error)) return std::nullopt;
    if (array.type == "bool") array.data = pack_bools(array.data, array.extents, array.column_major);
    return array;
}

std::optional<std::string> npy_text(const Array& array, std::string& error) {
    const DtypeRow* row = nullptr;
    for (const DtypeRow& r : kDtypes)
        if (r.npy && array.type == r.type) row = &r;
    if (!array.layout.empty()) {
        error = "packed arrays are written to .safetensors";
        return std::nullopt;
    }
    if (!row) {
        error = "type " + array.type + " has no .npy type; write .safetensors, or convert it";
        return std::nullopt;
    }
    std::string shape;
    for (int64_t e : array.extents) shape += std::to_string(e) + ", ";
    if (!shape.empty()) shape.resize(shape.size() - (array.extents.size() > 1 ? 2 : 1));  // "(3,)", "(2, 3)": as NumPy writes them
    std::string header = "{'descr': '" + std::string(row->bytes == 1 ? "|" : "<") + row->npy +
                         "', 'fortran_order': " + (array.column_major ? "True" : "False") + ", 'shape': (" + shape + "), }";
    // Data starts at a multiple of 64; the header ends in a newline.
    header.append(63 - (10 + header.size()) % 64, ' ');
    header += '\n';
    std::string out("\x93NUMPY\x01\x00", 8);
    out += static_cast<char>(header.size() & 255);
    out += static_cast<char>(header.size() >> 8);
    return out + header + (array.type == "bool" ? unpack_bools(array.data, array.extents, array.column_major) : array.data);
}

// ---- .safetensors ----

/// A JSON object that nests at most `deepest` levels and names no member twice: readers differ in which of two they take. Else nothing, and why.
std::optional<nlohmann::json> read_object(const std::string& text, int deepest, std::string& why) {
    using Event = nlohmann::json::parse_event_t;
    int seen = 0;
    std::optional<std::string> twice;
    std::vector<std::set<std::string>> names(static_cast<size_t>(deepest) + 2);  // of the open objects, by depth
    const auto look = [&](int depth, Event event, const nlohmann::json& value) {
        seen = std::max(seen, depth);
        if (depth > deepest) return false;
        const auto at = static_cast<size_t>(depth);
        if (event == Event::object_start) names[at + 1].clear();
        if (event == Event::key && !names[at].insert(value.get<std::string>()).second && !twice) twice = value.get<std::string>();
        return true;
    };
    auto object = nlohmann::json::parse(text, look, false);
    if (object.is_discarded() || !object.is_object() || seen > deepest) return why = "is not a JSON object", std::nullopt;
    if (twice) return why = "has `" + shown(*twice) + "` twice", std::nullopt;
    return object;
}

/// Extents under `field`; a reason when they are not usable.
std::string read_extents(const nlohmann::json& object, const std::string& field, std::vector<int64_t>& extents) {
    const auto list = object.find(field);
    if (list == object.end() || !list->is_array() || list->size() > 8) return " has no usable " + field + " (field `" + field + "`)";
    extents.clear();
    for (const auto& e : *list) {
        if (!e.is_number_unsigned() || e.get<uint64_t>() > kMaxData) return " has a bad extent (field `" + field + "`)";
        extents.push_back(static_cast<int64_t>(e.get<uint64_t>()));
    }
    return {};
}

/// The range of a tensor's bytes in a file with `have` of them; nothing when it is none.
std::optional<std::pair<uint64_t, uint64_t>> byte_range(const nlohmann::json& entry, uint64_t have) {
    const auto offsets = entry.find("data_offsets");
    if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2) return std::nullopt;
    const nlohmann::json &begin = (*offsets)[0], &end = (*offsets)[1];
    if (!begin.is_number_unsigned() || !end.is_number_unsigned()) return std::nullopt;
    const std::pair range(begin.get<uint64_t>(), end.get<uint64_t>());
    return range.first <= range.second && range.second <= have ? std::optional(range) : std::nullopt;
}

/// The members of one tensor's header entry, whose range is usable; a reason when they are not.
std::string tensor_entry(const nlohmann::json& entry, uint64_t have, Array& array, uint64_t& begin, uint64_t& bytes) {
    const auto dtype = entry.find("dtype");
    if (dtype == entry.end() || !dtype->is_string()) return " has no type (field `dtype`)";
    const DtypeRow* row = nullptr;
    for (const DtypeRow& r : kDtypes)
        if (r.safetensors && dtype->get_ref<const std::string&>() == r.safetensors) row = &r;
    if (!row) return ": type `" + shown(dtype->get_ref<const std::string&>(), 40) + "` is not supported (field `dtype`)";
    array.type = row->type;
    if (const std::string why = read_extents(entry, "shape", array.extents); !why.empty()) return why;
    const auto need = array_bytes(array.extents, row->bytes);
    if (!need) return " has a shape that is too large (field `shape`)";
    const auto range = byte_range(entry, have);
    if (!range || range->second - range->first != *need) return " lies outside the file or has another size (field `data_offsets`)";
    begin = range->first;
    bytes = *need;
    return {};
}

/// What the format forbids, whichever tensor is wanted: others would see other data in such a file. Empty when all is well.
std::string header_problem(const nlohmann::json& header, uint64_t have) {
    std::vector<std::tuple<uint64_t, uint64_t, std::string>> ranges;
    for (const auto& [key, value] : header.items()) {
        if (!value.is_object())
            return key == "__metadata__" ? "the metadata is no JSON object (field `__metadata__`)"
                                         : "tensor `" + shown(key) + "` is not described by a JSON object (field `header`)";
        if (key == "__metadata__") {
            for (const auto& [name, text] : value.items())
                if (!text.is_string()) return "the metadata `" + shown(name) + "` is no string (field `__metadata__`)";
            continue;
        }
        const auto range = byte_range(value, have);
        if (!range) return "tensor `" + shown(key) + "` has no usable offsets inside the file (field `data_offsets`)";
        if (range->first < range->second) ranges.emplace_back(range->first, range->second, key);
    }
    std::sort(ranges.begin(), ranges.end());
    uint64_t until = 0;
    const std::string* other = nullptr;
    const std::string nobody = "bytes of the data belong to no tensor (field `data_offsets`)";
    for (const auto& [begin, end, name] : ranges) {
        if (begin < until) return "the bytes of the tensors `" + shown(*other) + "` and `" + shown(name) + "` overlap (field `data_offsets`)";
        if (begin > until) return nobody;
        until = end, other = &name;
    }
    return until == have ? "" : nobody;
}

/// What `__metadata__` says of a packed tensor.
std::optional<std::string> description(const nlohmann::json& header, const std::string& name) {
    const auto all = header.find("__metadata__");
    if (all == header.end() || !all->is_object()) return std::nullopt;
    const auto it = all->find("tegula." + name);
    return it != all->end() && it->is_string() ? std::optional(it->get<std::string>()) : std::nullopt;
}

/// Does `key` hold scales of a packed tensor?
bool is_part(const nlohmann::json& header, const std::string& key) {
    for (const std::string_view part : {".scales", ".tensor_scale"})
        if (ends_with(key, part) && description(header, key.substr(0, key.size() - part.size()))) return true;
    return false;
}

/// The description of a packed tensor; a reason when it is not usable. Whether its bytes fit is the library's to say.
std::string packed_entry(const std::string& text, Array& array) {
    std::string why;
    const auto object = read_object(text, 3, why);
    if (!object) return " has no usable description (field `__metadata__`): it " + why;
    const nlohmann::json& about = *object;
    const auto text_of = [&](const char* field) {
        const auto it = about.find(field);
        std::string found = it != about.end() && it->is_string() ? it->get<std::string>() : std::string();
        return found.find('\0') == std::string::npos ? found : std::string();  // a name ends there for others
    };
    array.type = text_of("type");
    array.layout = text_of("layout");
    if (array.type.empty()) return " has no type (field `type`)";
    if (array.layout.empty()) return " has no layout (field `layout`)";
    const std::string order = text_of("order");
    const auto [end, code] = std::from_chars(order.data(), order.data() + order.size(), array.order, 16);
    if (order.size() != 16 || code != std::errc() || end != order.data() + order.size() || !array.order) return " has no usable hash (field `order`)";
    return read_extents(about, "extents", array.extents);
}

std::optional<Array> read_safetensors(const std::string& path, const Source& file, const std::string& wanted, std::string& error) {
    auto fail = [&](const std::string& what) {
        error = path + ": " + what;
        return std::nullopt;
    };
    std::string text;
    if (file.size() < 8) return fail("truncated (field `header length`)");
    if (!file.read(0, 8, text, error)) return std::nullopt;
    const uint64_t length = safetensors_header(text);
    if (length > file.size() - 8) return fail("truncated (field `header length`)");
    if (length > kMaxHeader) return fail("the header is larger than 8 MiB (field `header length`)");
    if (!file.read(8, length, text, error)) return std::nullopt;
    std::string why;
    const auto object = read_object(text, 8, why);  // a header nests three levels
    if (!object) return fail("the header " + why + " (field `header`)");
    const nlohmann::json& header = *object;
    if (why = header_problem(header, file.size() - 8 - length); !why.empty()) return fail(why);
    std::string name = wanted, names;
    size_t count = 0;
    for (const auto& [key, value] : header.items()) {
        if (key == "__metadata__" || is_part(header, key)) continue;
        if (++count <= 10) names += (names.empty() ? "" : ", ") + shown(key);
        if (wanted.empty()) name = key;
    }
    if (count > 10) names += ", ..";
    if (wanted.empty() && count > 1) return fail("the file has several tensors, name one with #NAME: " + names);
    const auto it = header.find(name);
    if (count == 0 || name == "__metadata__" || it == header.end()) return fail("no tensor `" + shown(name) + "`; it has: " + names);
    const auto read = [&](const nlohmann::json& entry, const std::string& what, Array& array) {
        uint64_t begin = 0, bytes = 0;
        if (const std::string why = tensor_entry(entry, file.size() - 8 - length, array, begin, bytes); !why.empty())
            return error = path + ": tensor `" + shown(what) + "`" + why, false;
        return file.read(8 + length + begin, bytes, array.data, error);
    };
    Array array;
    if (!read(*it, name, array)) return std::nullopt;
    if (const auto about = description(header, name)) {
        if (array.type != "u8" || array.extents.size() != 1) return fail("packed tensor `" + shown(name) + "` is not a row of bytes (field `dtype`)");
        if (const std::string why = packed_entry(*about, array); !why.empty()) return fail("packed tensor `" + shown(name) + "`" + why);
        for (const auto& [part, to] : {std::pair(".scales", &array.scales), {".tensor_scale", &array.tensor_scale}}) {
            const auto at = header.find(name + part);
            Array bytes;
            if (at == header.end()) continue;
            if (!read(*at, name + part, bytes)) return std::nullopt;
            *to = std::move(bytes.data);
        }
        if (array.tensor_scale.size() != (array.scales.empty() ? 0 : 8))
            return fail("packed tensor `" + shown(name) + "` has no scale of 8 bytes (field `tensor_scale`)");
        return array;
    }
    if (array.type == "bool") array.data = pack_bools(array.data, array.extents, false);
    return array;
}

/// The file: a header, then the data.
std::string with_header(const nlohmann::json& header, const std::string& data) {
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    std::string out;
    for (int i = 0; i < 8; ++i) out += static_cast<char>(text.size() >> (8 * i) & 255);
    return out + text + data;
}

std::string packed_text(const std::string& name, const Array& array) {
    nlohmann::json header;
    std::string data;
    for (const auto& [part, bytes] : {std::pair("", &array.data), {".scales", &array.scales}, {".tensor_scale", &array.tensor_scale}}) {
        if (*part && bytes->empty()) continue;
        header[name + part] = {{"dtype", "U8"}, {"shape", {bytes->size()}}, {"data_offsets", {data.size(), data.size() + bytes->size()}}};
        data += *bytes;
    }
    char order[17];
    std::snprintf(order, sizeof order, "%016llx", static_cast<unsigned long long>(array.order));
    const nlohmann::json about = {{"type", array.type}, {"extents", array.extents}, {"layout", array.layout}, {"order", order}};
    header["__metadata__"]["tegula." + name] = about.dump();
    return with_header(header, data);
}

std::optional<std::string> safetensors_text(const std::string& name, const Array& array, std::string& error) {
    if (!array.layout.empty()) return packed_text(name.empty() ? "data" : name, array);
    const DtypeRow* row = nullptr;
    for (const DtypeRow& r : kDtypes)
        if (r.safetensors && array.type == r.type) row = &r;
    if (!row || array.column_major) {
        error = row ? "column-major arrays cannot be written to .safetensors" : "type " + array.type + " has no safetensors type";
        return std::nullopt;
    }
    std::string data = array.type == "bool" ? unpack_bools(array.data, array.extents, false) : array.data;
    nlohmann::json header;
    header[name.empty() ? "data" : name] = {{"dtype", row->safetensors}, {"shape", array.extents}, {"data_offsets", {0, data.size()}}};
    return with_header(header, data);
}

}  // namespace

bool has_dtype(const std::string& type) {
    return std::any_of(std::begin(kDtypes), std::end(kDtypes), [&](const DtypeRow& row) { return row.safetensors && type == row.type; });
}

bool is_safetensors(const std::string& path) { return ends_with(path, ".safetensors"); }

std::optional<Array> read_array(const std::string& path, const std::string& name, std::string& error, Pipes pipes) {
    try {
        Source file;
        const bool tensors = is_safetensors(path);
        if (!file.open(path, tensors ? begins_safetensors : begins_npy, pipes, error)) return std::nullopt;
        if (tensors) return read_safetensors(path, file, name, error);
        if (name.empty()) return read_npy(path, file, error);
        error = path + ": a .npy file holds one array, which has no name `" + shown(name) + "`";
        return std::nullopt;
    } catch (const std::bad_alloc&) {
        error = path + ": does not fit in memory";
        return std::nullopt;
    }
}

bool write_array(const std::string& path, const std::string& name, const Array& array, std::string& error) {
    std::string why;
    auto text = is_safetensors(path) ? safetensors_text(name, array, why) : npy_text(array, why);
    if (text) return write_file(path, *text, error);
    error = path + ": " + why;
    return false;
}

}  // namespace tegula_tool
