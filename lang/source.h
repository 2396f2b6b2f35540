// Source text and positions. A Span is a byte range in one file of a SourceMap; lines and columns are
// computed only when a diagnostic is printed. Texts belong to who shows them: the map finds them by the number in a span for as long
// as somebody owns them.
#pragma once
#include <cstdint>
#include <memory>
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

/// A text that spans lie in, immutable.
struct Source {
    uint32_t id = 0;  ///< Span::file
    std::string name, text;
    std::vector<uint32_t> line_starts;
};
using SourcePtr = std::shared_ptr<const Source>;

/// The source text of one engine. Thread-safe. What it returns of a file lives as long as the file's owners; of a file that is gone all is empty.
class SourceMap {
public:
    SourceMap();
    SourceMap(const SourceMap&) = delete;
    /// A file that its owners keep, the map does not; they may outlive the map. `name` is what diagnostics show.
    SourcePtr share(std::string name, std::string text);
    /// A file that lives as long as the map. Returns its id (>= 1).
    uint32_t add(std::string name, std::string text);
    SourcePtr find(uint32_t file) const;  ///< null: gone
    std::string_view name(uint32_t file) const;
    std::string_view text(uint32_t file) const;
    std::string_view text(Span span) const;
    LineCol line_col(uint32_t file, uint32_t offset) const;
    /// The whole line (without newline) that holds `offset`.
    std::string_view line_text(uint32_t file, uint32_t offset) const;

private:
    struct Index;
    std::shared_ptr<Index> index_;  ///< shared with every file, which takes itself out of it
    std::vector<SourcePtr> kept_;   ///< those of `add`, under the mutex of the index
};

}  // namespace tegula
