// Source text and positions (source.h). The map knows files by weak references, and a file's deleter takes it out of the map.
#include "lang/source.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "lang/check.h"

namespace tegula {

Span join(Span a, Span b) {
    if (!a.valid()) return b;
    if (!b.valid() || a.file != b.file) return a;
    return {a.file, std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

/// Files by id. Ids are taken in turn, so that none comes back before 2^32 others.
struct SourceMap::Index {
    std::mutex mutex;
    std::unordered_map<uint32_t, std::weak_ptr<const Source>> files;
    uint32_t last = 0;

    uint32_t unused() {
        while (++last == 0 || files.contains(last)) continue;
        return last;
    }
    void forget(uint32_t id) {
        const std::lock_guard lock(mutex);
        files.erase(id);
    }
};

SourceMap::SourceMap() : index_(std::make_shared<Index>()) {}

SourcePtr SourceMap::share(std::string name, std::string text) {
    TEGULA_CHECK(text.size() < UINT32_MAX, "source text of 4 GiB or more");
    auto made = std::make_unique<Source>(Source{0, std::move(name), std::move(text), {0}});
    for (size_t at = made->text.find('\n'); at != std::string::npos; at = made->text.find('\n', at + 1))
        made->line_starts.push_back(static_cast<uint32_t>(at + 1));
    Source& file = *made;
    const SourcePtr shared(made.release(), [index = index_](const Source* gone) {
        index->forget(gone->id);
        delete gone;
    });
    const std::lock_guard lock(index_->mutex);
    file.id = index_->unused();
    index_->files.emplace(file.id, shared);
    return shared;
}

uint32_t SourceMap::add(std::string name, std::string text) {
    SourcePtr file = share(std::move(name), std::move(text));
    const std::lock_guard lock(index_->mutex);
    return kept_.emplace_back(std::move(file))->id;
}

SourcePtr SourceMap::find(uint32_t id) const {
    const std::lock_guard lock(index_->mutex);
    const auto it = index_->files.find(id);
    return it == index_->files.end() ? nullptr : it->second.lock();
}

std::string_view SourceMap::name(uint32_t id) const {
    const SourcePtr f = find(id);
    return f ? std::string_view(f->name) : std::string_view();
}

std::string_view SourceMap::text(uint32_t id) const {
    const SourcePtr f = find(id);
    return f ? std::string_view(f->text) : std::string_view();
}

std::string_view SourceMap::text(Span span) const {
    std::string_view all = text(span.file);
    size_t begin = std::min<size_t>(span.begin, all.size());
    size_t end = std::clamp<size_t>(span.end, begin, all.size());
    return all.substr(begin, end - begin);
}

LineCol SourceMap::line_col(uint32_t id, uint32_t offset) const {
    const SourcePtr f = find(id);
    if (!f) return {};
    offset = std::min<uint32_t>(offset, static_cast<uint32_t>(f->text.size()));
    auto next = std::upper_bound(f->line_starts.begin(), f->line_starts.end(), offset);
    return {static_cast<uint32_t>(next - f->line_starts.begin()), offset - *(next - 1) + 1};
}

std::string_view SourceMap::line_text(uint32_t id, uint32_t offset) const {
    const SourcePtr f = find(id);
    if (!f) return {};
    offset = std::min<uint32_t>(offset, static_cast<uint32_t>(f->text.size()));
    uint32_t begin = *(std::upper_bound(f->line_starts.begin(), f->line_starts.end(), offset) - 1);
    std::string_view line = std::string_view(f->text).substr(begin);
    line = line.substr(0, line.find('\n'));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    return line;
}

}  // namespace tegula
