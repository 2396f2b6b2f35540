// Source text and positions. A Span is a byte range in one file of a SourceMap; lines and columns are
// computed only when a diagnostic is printed. The map is append-only; returned views live as long as it does.
#pragma once
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tegula {

struct Span {
    uint32_t file = 0;   ///< index into the SourceMap; 0 is "no file"
    uint32_t begin = 0;  ///< first byte
    uint32_t end = 0;    ///< one past the last byte
    bool valid() const { return file != 0; }
    friend bool operator==(const Span&, const Span&) = default;
};

/// The smallest span that covers both; both must be of one file (the other is ignored if invalid).
Span join(Span a, Span b);

struct LineCol {
    uint32_t line = 0;    ///< from 1
    uint32_t column = 0;  ///< from 1, in bytes
};

/// All source text of one engine. Thread-safe; file ids are never reused.
class SourceMap {
public:
    /// Copies `text`; `name` is what diagnostics show. Returns the file id (>= 1).
    uint32_t add(std::string name, std::string text);
    std::string_view name(uint32_t file) const;
    std::string_view text(uint32_t file) const;
    std::string_view text(Span span) const;
    LineCol line_col(uint32_t file, uint32_t offset) const;
    /// The whole line (without newline) that holds `offset`.
    std::string_view line_text(uint32_t file, uint32_t offset) const;

private:
    struct File {
        std::string name, text;
        std::vector<uint32_t> line_starts;
    };
    mutable std::mutex mutex_;
    std::deque<File> files_;
    const File* file(uint32_t id) const;
};

}  // namespace tegula
