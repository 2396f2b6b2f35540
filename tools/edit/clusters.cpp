// See clusters.h.
#include "clusters.h"

#include <utf8proc.h>

#include <algorithm>

namespace tegula_tool::edit {

namespace {

constexpr utf8proc_int32_t kJoiner = 0x200d, kEmojiStyle = 0xfe0f;

/// The code point at byte `at`, or -1: no UTF-8. `bytes`: its length.
utf8proc_int32_t point_at(std::string_view text, size_t at, size_t& bytes) {
    utf8proc_int32_t point = -1;
    const auto* begin = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at;
    const utf8proc_ssize_t length = utf8proc_iterate(begin, static_cast<utf8proc_ssize_t>(std::min<size_t>(text.size() - at, 4)), &point);
    bytes = length > 0 ? static_cast<size_t>(length) : 1;
    return length > 0 ? point : -1;
}

/// Is a mark that is drawn over what stands before it?
bool is_mark(utf8proc_int32_t point) {
    const auto category = utf8proc_category(point);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME;
}

}  // namespace

Cluster cluster_at(std::string_view text, size_t at) {
    const auto first = static_cast<uint8_t>(text[at]);
    if (first == '\n') return {1, 0, false, false};
    if (first < 0x80) {
        if ((first < 0x20 && first != '\t') || first == 0x7f) return {1, 4, true, false};
        if (first == '\t' || at + 1 >= text.size() || static_cast<uint8_t>(text[at + 1]) < 0x80) return {};
    }
    constexpr size_t kMostPoints = 32;
    Cluster out;
    utf8proc_int32_t point = point_at(text, at, out.bytes), state = 0;
    if (point < 0) return {1, 4, true, false};
    const auto category = utf8proc_category(point);
    const int width = utf8proc_charwidth(point);
    if (width < 1 || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_ZL ||
        category == UTF8PROC_CATEGORY_ZP)
        return {out.bytes, 4 * out.bytes, true, false};
    out.columns = static_cast<size_t>(width);
    for (size_t points = 1; at + out.bytes < text.size() && points < kMostPoints; ++points) {
        size_t bytes = 0;
        const utf8proc_int32_t next = point_at(text, at + out.bytes, bytes);
        if (next < 0 || utf8proc_grapheme_break_stateful(point, next, &state)) break;
        // Joined emoji, flags and skin tones: two columns on terminals that know them, the sum of the parts on others.
        if (!is_mark(next) || next == kEmojiStyle) out.uncertain = true;
        if (next == kJoiner || next == kEmojiStyle || utf8proc_charwidth(next) > 0) out.columns = 2;
        out.bytes += bytes;
        point = next;
    }
    return out;
}

size_t before(std::string_view text, size_t at) {
    if (at == 0) return 0;
    const auto ascii = [&](size_t i) { return static_cast<uint8_t>(text[i]) < 0x80; };
    if (text[at - 1] == '\n' || (at > 1 && ascii(at - 1) && ascii(at - 2))) return at - 1;
    size_t begin = line_begin(text, at);
    // Two neighbours in ASCII are a border between clusters; from the last one on all are counted.
    for (size_t i = at - 1; i > begin; --i)
        if (ascii(i) && ascii(i - 1)) begin = i;
    for (size_t next = begin; (next = behind(text, begin)) < at;) begin = next;
    return begin;
}

size_t columns_of(std::string_view text) {
    size_t columns = 0;
    for (size_t at = 0; at < text.size();) {
        const Cluster cluster = cluster_at(text, at);
        columns += cluster.columns;
        at += cluster.bytes;
    }
    return columns;
}

bool is_word_at(std::string_view text, size_t at) {
    if (at >= text.size()) return false;
    size_t bytes = 0;
    const utf8proc_int32_t point = point_at(text, at, bytes);
    if (point < 0) return false;
    if (point == '_') return true;
    const auto category = utf8proc_category(point);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO);
}

}  // namespace tegula_tool::edit
