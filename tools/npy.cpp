// .npy, versions 1 to 3. Format: numpy.lib.format (NEP 1).
#include <algorithm>
#include <charconv>

#include "array_files.h"

namespace tegula_tool {

namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

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

}  // namespace

bool begins_npy(std::string_view text) { return text.starts_with(kNpyMagic); }

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
    for (const DtypeRow& r : dtypes())
        if (r.npy && header.descr.size() == 3 && header.descr.substr(1) == r.npy) row = &r;
    if (!row) return fail("type `" + shown(header.descr) + "` is not supported (field `descr`)");
    const char order = header.descr[0];
    if (order != '<' && order != '|' && order != '=') return fail("byte order `" + shown({&order, 1}) + "` is not little-endian (field `descr`)");
    const auto bytes = array_bytes(header.shape, row->bits);
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
    for (const DtypeRow& r : dtypes())
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
    std::string header = "{'descr': '" + std::string(row->bits == 8 ? "|" : "<") + row->npy +
                         "', 'fortran_order': " + (array.column_major ? "True" : "False") + ", 'shape': (" + shape + "), }";
    // Data starts at a multiple of 64; the header ends in a newline.
    header.append(63 - (10 + header.size()) % 64, ' ');
    header += '\n';
    std::string out("\x93NUMPY\x01\x00", 8);
    out += static_cast<char>(header.size() & 255);
    out += static_cast<char>(header.size() >> 8);
    return out + header + (array.type == "bool" ? unpack_bools(array.data, array.extents, array.column_major) : array.data);
}

}  // namespace tegula_tool
