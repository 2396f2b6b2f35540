#include "buffers.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "tool.h"

namespace tegula_tool {

namespace {

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

/// `TYPE[EXTENTS]` in two; nullopt: there are no extents at the end, which are numbers from 0 up.
std::optional<std::vector<int64_t>> take_extents(std::string_view& text) {
    if (!text.ends_with(']')) return std::nullopt;
    const size_t open = text.rfind('[');
    if (open == text.npos || open == 0) return std::nullopt;
    std::vector<int64_t> extents;
    std::string_view list = trimmed(text.substr(open + 1, text.size() - open - 2));
    while (!list.empty()) {
        const size_t comma = std::min(list.find(','), list.size());
        const std::string_view word = trimmed(list.substr(0, comma));
        int64_t extent = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), extent);
        if (error != std::errc() || end != word.data() + word.size() || extent < 0) return std::nullopt;
        extents.push_back(extent);
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    text = trimmed(text.substr(0, open));
    return extents;
}

/// Reads nested brackets around numbers, or numbers alone.
class ListReader {
public:
    ListReader(std::string_view text, List& out) : text_(text), out_(out) {}
    std::string error;
    bool read() {
        const bool nested = peek() == '[';
        if (nested ? !bracket(0) : !row(0, '\0')) return false;
        if (peek() == ':') {
            out_.type = trimmed(text_.substr(at_ + 1));
            out_.typed = true;
            at_ = text_.size();
            if (out_.type.empty()) return fail("a type is missing after `:`");
        }
        return at_ == text_.size() || fail("`" + std::string(text_.substr(at_, 20)) + "` is in the way");
    }
    std::vector<double> reals;
    std::vector<int64_t> integers;
    bool whole = true, unsigned_ = false, negative = false, wide = false;

private:
    bool fail(std::string why) { return error = std::move(why), false; }
    char peek() {
        while (at_ < text_.size() && text_[at_] == ' ') ++at_;
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool bracket(size_t depth) {
        constexpr size_t kMaxRank = 8;
        if (depth == kMaxRank) return fail("brackets nest deeper than 8");
        ++at_;
        if (peek() != '[') return row(depth, ']');
        if (out_.values.extents.size() == depth) out_.values.extents.push_back(-1);
        int64_t n = 0;
        do {
            if (peek() != '[') return fail("numbers and rows are mixed");
            if (!bracket(depth + 1)) return false;
            ++n;
        } while (eat(','));
        return (eat(']') || fail("`]` is missing")) && settle(depth, n);
    }
    bool eat(char c) {
        if (peek() != c) return false;
        ++at_;
        return true;
    }
    bool settle(size_t depth, int64_t n) {
        std::vector<int64_t>& extents = out_.values.extents;
        if (extents.size() == depth) extents.push_back(-1);
        if (extents[depth] >= 0 && extents[depth] != n)
            return fail("rows differ in length: " + std::to_string(extents[depth]) + " and " + std::to_string(n));
        extents[depth] = n;
        return true;
    }
    /// Numbers up to `close`, 0: to the end.
    bool row(size_t depth, char close) {
        if (depth != row_depth_.value_or(depth)) return fail("numbers and rows are mixed");
        row_depth_ = depth;
        int64_t n = 0;
        bool more = !close || peek() != close;
        while (more) {
            if (peek() == '[') return fail("numbers and rows are mixed");
            if (!number()) return false;
            ++n;
            more = eat(',');
        }
        if (close && !eat(close)) return fail("`]` is missing");
        return settle(depth, n);
    }
    bool number() {
        peek();
        const size_t end = std::min(text_.find_first_of(",]: ", at_), text_.size());
        const std::string word(text_.substr(at_, end - at_));
        at_ = end;
        if (word == "true" || word == "false") return integers.push_back(word == "true"), reals.push_back(word == "true"), true;
        const auto reads = [&](auto& value) {
            const auto [last, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
            return problem == std::errc() && last == word.data() + word.size();
        };
        int64_t i = 0;
        uint64_t u = 0;
        double r = 0;
        if (reads(i)) {
            negative |= i < 0;
            wide |= i < INT32_MIN || i > INT32_MAX;
            r = static_cast<double>(i);
        } else if (reads(u)) {
            unsigned_ = true;
            i = static_cast<int64_t>(u);
            r = static_cast<double>(u);
        } else if (reads(r)) {
            whole = false;
        } else {
            return fail(word.empty() ? "a number is missing" : "`" + word + "` is no number");
        }
        integers.push_back(i);
        reals.push_back(r);
        return true;
    }
    std::string_view text_;
    size_t at_ = 0;
    List& out_;
    std::optional<size_t> row_depth_;
};

}  // namespace

std::string read_spec(const std::string& text, Spec& spec) {
    spec.path = text;
    if (const size_t as = text.find(" as "); as != text.npos) {
        spec.is_view = true;
        spec.path = trimmed(std::string_view(text).substr(0, as));
        std::string_view rest = trimmed(std::string_view(text).substr(as + 4));
        const size_t at = rest.rfind('@');
        spec.layout = at == rest.npos ? "row" : std::string(trimmed(rest.substr(at + 1)));
        std::string_view type = trimmed(rest.substr(0, at));
        spec.extents = take_extents(type);
        spec.type = type;
        if (!spec.extents || spec.type.empty() || spec.layout.empty())
            return "write FILE as TYPE[EXTENTS] @ LAYOUT, as in `w.npy as u4[256, 96] @ row`";
    }
    size_t from = 0;
    for (const char* ending : {".npy", ".npz", ".safetensors"})
        if (const size_t at = spec.path.find(ending); at != std::string::npos) from = std::max(from, at);
    if (const size_t colon = spec.path.find(':', from); colon != std::string::npos && !spec.is_view) {
        std::string_view type = trimmed(std::string_view(spec.path).substr(colon + 1));
        spec.extents = take_extents(type);
        spec.type = type;
        spec.path.resize(colon);
        if (spec.type.empty()) return "a type is missing after `:`";
    }
    if (const size_t hash = spec.path.find('#', from); hash != std::string::npos) {
        spec.tensor = spec.path.substr(hash + 1);
        spec.path.resize(hash);
    }
    return spec.path.empty() ? "the file's name is missing" : "";
}

Buffer buffer_of(const Array& array) {
    const auto bytes = [](const std::string& text) { return std::vector<uint8_t>(text.begin(), text.end()); };
    return {array.type, array.layout_name(), array.extents, array.order, bytes(array.data), bytes(array.scales), bytes(array.tensor_scale)};
}

std::string shape_text(const Buffer& buffer) {
    std::string shape;
    for (const int64_t e : buffer.extents) shape += (shape.empty() ? "" : ", ") + std::to_string(e);
    return shape;
}

tegula::Result<Array> array_of(const tegula::Module& module, const Buffer& buffer, bool packed, const std::string& path) {
    const auto text = [](const std::vector<uint8_t>& bytes) { return std::string(bytes.begin(), bytes.end()); };
    Array array;
    array.type = buffer.type;
    array.extents = buffer.extents;
    array.data = text(buffer.data);
    if (!packed && (has_dtype(buffer.type, buffer.extents, true) || !is_safetensors(path))) return {TEGULA_OK, {}, std::move(array)};
    auto hash = module.layout_hash(buffer.layout);
    if (!hash) return {hash.status(), hash.diagnostics(), std::move(array)};
    array.layout = buffer.layout;
    array.order = hash.value();
    array.scales = text(buffer.scales);
    array.tensor_scale = text(buffer.tensor_scale);
    return {TEGULA_OK, {}, std::move(array)};
}

tegula::Result<tegula::Unit> allocate(const tegula::Module& module, Buffer& buffer) {
    auto bytes = module.tensor_bytes(buffer.type, buffer.layout, buffer.extents);
    if (!bytes) return {bytes.status(), bytes.diagnostics()};
    buffer.data.assign(bytes.value().elements, 0);
    buffer.scales.assign(bytes.value().scales, 0);
    buffer.tensor_scale.assign(bytes.value().scales ? 8 : 0, 0);
    return {TEGULA_OK, {}};
}

tegula::Result<tegula::Unit> convert(const tegula::Module& module, Buffer& from, const std::string& type, const std::string& layout, Buffer& to) {
    to.type = type;
    to.layout = layout;
    to.extents = from.extents;
    if (auto room = allocate(module, to); !room) return room;
    return module.copy(to.tensor(), from.tensor());
}

tegula::Result<tegula::Unit> view(const tegula::Module& module, const Spec& spec, Buffer& read, std::string& error) {
    if (!spec.is_view) return {TEGULA_OK, {}};
    if (read.layout == "col" || read.type == "bool") {  // the bytes of the elements in the order of their rows
        Buffer rows;
        if (auto done = convert(module, read, read.type == "bool" ? "u8" : read.type, "row", rows); !done) return done;
        read = std::move(rows);
    }
    auto bytes = module.tensor_bytes(spec.type, spec.layout, *spec.extents);
    if (!bytes) return {bytes.status(), bytes.diagnostics()};
    Buffer out{spec.type, spec.layout, *spec.extents, 0, std::move(read.data), std::move(read.scales), std::move(read.tensor_scale)};
    const std::string form = spec.type + "[" + shape_text(out) + "] @ " + spec.layout;
    const std::string where = spec.path + (spec.tensor.empty() ? "" : "#" + spec.tensor);
    if (bytes.value().scales && out.scales.empty()) {
        error = where + ": " + form + " has scales, and the file has none";
        return {TEGULA_E_ARGUMENTS, {}};
    }
    if (out.data.size() != bytes.value().elements) {
        error = where + ": it has " + std::to_string(out.data.size()) + " bytes, " + form + " takes " + std::to_string(bytes.value().elements);
        return {TEGULA_E_ARGUMENTS, {}};
    }
    read = std::move(out);
    return {TEGULA_OK, {}};
}

std::optional<List> read_list(const std::string& text, std::string& error) {
    List out{{}, {}, false};
    ListReader reader(text, out);
    if (!reader.read()) return error = reader.error, std::nullopt;
    if (reader.whole && reader.unsigned_ && reader.negative) return error = "negative numbers and numbers from 2^63 on fit in no type", std::nullopt;
    const void* data = reader.whole ? static_cast<const void*>(reader.integers.data()) : reader.reals.data();
    out.values.type = !reader.whole ? "f64" : reader.unsigned_ ? "u64" : "i64";
    out.values.layout = "row";
    out.values.data.resize(reader.reals.size() * 8);
    if (!out.values.data.empty()) std::memcpy(out.values.data.data(), data, out.values.data.size());
    if (!out.typed) out.type = !reader.whole ? "f32" : reader.unsigned_ ? "u64" : reader.wide ? "i64" : "i32";
    return out;
}

bool is_integer(const std::string& type) {
    return type.size() > 1 && (type[0] == 'i' || type[0] == 'u') && type.find_first_not_of("0123456789", 1) == std::string::npos;
}

tegula::Result<std::string> elements_text(const tegula::Module& module, Buffer& buffer, size_t count, int digits) {
    const bool integers = is_integer(buffer.type);
    Buffer plain;
    const std::string type = !integers ? "f64" : buffer.type[0] == 'i' ? "i64" : "u64";
    if (auto done = convert(module, buffer, type, "row", plain); !done) return {done.status(), done.diagnostics()};
    const size_t all = plain.data.size() / 8, shown = count ? std::min(all, count) : all;
    std::string text;
    for (size_t i = 0; i < shown; ++i) {
        uint64_t bits = 0;
        double real = 0;
        std::memcpy(&bits, plain.data.data() + i * 8, 8);
        std::memcpy(&real, plain.data.data() + i * 8, 8);
        text += (i ? " " : "") + (!integers       ? decimal(real, digits)
                                  : type == "i64" ? std::to_string(static_cast<int64_t>(bits))
                                                  : std::to_string(bits));
    }
    return {TEGULA_OK, {}, text + (shown < all ? " .." : "")};
}

}  // namespace tegula_tool
