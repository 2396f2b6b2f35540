// A text and its positions: lines and characters as the protocol counts them, bytes as the library does.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tegula_tool::lsp {

using nlohmann::json;

/// What a character of a position is.
enum class Encoding : uint8_t { utf8, utf16 };

class Text {
public:
    Text() : Text(std::string(), Encoding::utf16) {}
    Text(std::string text, Encoding encoding);
    const std::string& text() const { return text_; }
    size_t lines() const { return starts_.size(); }
    /// The byte at a position; characters behind a line's end are its end. nullopt: no such line.
    std::optional<size_t> offset(const json& position) const;
    json position(size_t offset) const;
    json range(size_t begin, size_t end) const { return {{"start", position(begin)}, {"end", position(end)}}; }
    /// Replaces a range. False: it is none of this text.
    bool edit(const json& range, std::string_view replacement);
    /// The length of a stretch of one line, in characters.
    size_t characters(size_t begin, size_t end) const;
    size_t line_of(size_t offset) const;
    size_t line_begin(size_t line) const { return starts_[line]; }
    size_t line_end(size_t line) const;  ///< without its line break

private:
    std::string text_;
    Encoding encoding_;
    std::vector<size_t> starts_;
    void index();
};

/// "file:///a/b%20c.tile" as a path; another URI as it is.
std::string path_of(const std::string& uri);
std::string uri_of(const std::string& path);

}  // namespace tegula_tool::lsp
