// Source text and positions (source.h). Files are immutable once added and live in a deque, so a reference taken under
// the lock stays valid without it.
#include "lang/source.h"

#include <algorithm>

#include "lang/check.h"

namespace tegula {

Span join(Span a, Span b) {
    if (!a.valid()) return b;
    if (!b.valid() || a.file != b.file) return a;
    return {a.file, std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

uint32_t SourceMap::add(std::string name, std::string text) {
    TEGULA_CHECK(text.size() < UINT32_MAX, "source text of 4 GiB or more");
    File file{std::move(name), std::move(text), {0}};
    for (size_t at = file.text.find('\n'); at != std::string::npos; at = file.text.find('\n', at + 1))
        file.line_starts.push_back(static_cast<uint32_t>(at + 1));
    std::lock_guard lock(mutex_);
    files_.push_back(std::move(file));
    return static_cast<uint32_t>(files_.size());
}

const SourceMap::File* SourceMap::file(uint32_t id) const {
    std::lock_guard lock(mutex_);
    return id == 0 || id > files_.size() ? nullptr : &files_[id - 1];
}

std::string_view SourceMap::name(uint32_t id) const {
    const File* f = file(id);
    return f ? std::string_view(f->name) : std::string_view();
}

std::string_view SourceMap::text(uint32_t id) const {
    const File* f = file(id);
    return f ? std::string_view(f->text) : std::string_view();
}

std::string_view SourceMap::text(Span span) const {
    std::string_view all = text(span.file);
    size_t begin = std::min<size_t>(span.begin, all.size());
    size_t end = std::clamp<size_t>(span.end, begin, all.size());
    return all.substr(begin, end - begin);
}

LineCol SourceMap::line_col(uint32_t id, uint32_t offset) const {
    const File* f = file(id);
    if (!f) return {};
    offset = std::min<uint32_t>(offset, static_cast<uint32_t>(f->text.size()));
    auto next = std::upper_bound(f->line_starts.begin(), f->line_starts.end(), offset);
    return {static_cast<uint32_t>(next - f->line_starts.begin()), offset - *(next - 1) + 1};
}

std::string_view SourceMap::line_text(uint32_t id, uint32_t offset) const {
    const File* f = file(id);
    if (!f) return {};
    offset = std::min<uint32_t>(offset, static_cast<uint32_t>(f->text.size()));
    uint32_t begin = *(std::upper_bound(f->line_starts.begin(), f->line_starts.end(), offset) - 1);
    std::string_view line = std::string_view(f->text).substr(begin);
    line = line.substr(0, line.find('\n'));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    return line;
}

}  // namespace tegula
