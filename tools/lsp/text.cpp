#include "text.h"

#include <algorithm>

#include "tools/report.h"

namespace tegula_tool::lsp {

namespace {

/// Bytes of the character that begins with `c`; stray bytes count as one each.
size_t width(unsigned char c) { return c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1; }

}  // namespace

Text::Text(std::string text, Encoding encoding) : text_(std::move(text)), encoding_(encoding) { index(); }

void Text::index() {
    starts_.assign(1, 0);
    for (size_t i = 0; i < text_.size(); ++i)
        if (text_[i] == '\n' || (text_[i] == '\r' && (i + 1 == text_.size() || text_[i + 1] != '\n'))) starts_.push_back(i + 1);
}

size_t Text::line_of(size_t offset) const {
    return static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), offset) - starts_.begin()) - 1;
}

size_t Text::line_end(size_t line) const {
    size_t end = line + 1 < starts_.size() ? starts_[line + 1] : text_.size();
    while (end > starts_[line] && (text_[end - 1] == '\n' || text_[end - 1] == '\r')) --end;
    return end;
}

std::optional<size_t> Text::offset(const json& position) const {
    if (!position.is_object()) return std::nullopt;
    const auto number = [&](const char* name) -> std::optional<uint64_t> {
        const auto it = position.find(name);
        if (it == position.end() || !it->is_number_integer() || (!it->is_number_unsigned() && it->get<int64_t>() < 0)) return std::nullopt;
        return it->get<uint64_t>();
    };
    const auto line = number("line"), character = number("character");
    if (!line || !character) return std::nullopt;
    if (*line == starts_.size()) return text_.size();  // the line behind the last one, where it begins
    if (*line > starts_.size()) return std::nullopt;
    const size_t begin = starts_[*line], end = line_end(*line);
    if (encoding_ == Encoding::utf8) {
        size_t at = begin + static_cast<size_t>(std::min<uint64_t>(*character, end - begin));
        while (at > begin && at < end && (static_cast<unsigned char>(text_[at]) & 0xC0) == 0x80) --at;  // the beginning of a character
        return at;
    }
    size_t at = begin;
    for (uint64_t units = 0; at < end && units < *character;) {
        const size_t bytes = width(static_cast<unsigned char>(text_[at]));
        units += bytes == 4 ? 2 : 1;
        if (units > *character) break;  // within a pair
        at = std::min(at + bytes, end);
    }
    return at;
}

size_t Text::characters(size_t begin, size_t end) const {
    if (encoding_ == Encoding::utf8) return end - begin;
    size_t units = 0;
    for (size_t i = begin; i < end;) {
        const size_t bytes = width(static_cast<unsigned char>(text_[i]));
        units += bytes == 4 ? 2 : 1;
        i += bytes;
    }
    return units;
}

json Text::position(size_t offset) const {
    offset = std::min(offset, text_.size());
    const size_t line = line_of(offset);
    return {{"line", line}, {"character", characters(starts_[line], offset)}};
}

bool Text::edit(const json& range, std::string_view replacement) {
    if (!range.is_object() || !range.contains("start") || !range.contains("end")) return false;
    const auto begin = offset(range["start"]), end = offset(range["end"]);
    if (!begin || !end || *begin > *end) return false;
    text_.replace(*begin, *end - *begin, replacement);
    index();
    return true;
}

std::string path_of(const std::string& uri) {
    constexpr std::string_view kScheme = "file://";
    if (!uri.starts_with(kScheme)) return uri;
    const auto digit = [](char c) {
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    };
    std::string out;
    for (size_t i = uri.find('/', kScheme.size()); i < uri.size(); ++i) {
        const int high = uri[i] == '%' && i + 2 < uri.size() ? digit(uri[i + 1]) : -1, low = high >= 0 ? digit(uri[i + 2]) : -1;
        if (low < 0) {
            out += uri[i];
        } else {
            out += static_cast<char>(high * 16 + low);
            i += 2;
        }
    }
    return out;
}

std::string uri_of(const std::string& path) { return path.starts_with('/') ? tegula_tool::uri_of(path) : path; }

}  // namespace tegula_tool::lsp
