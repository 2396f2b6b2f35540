// The form of an entry. Numbers are little-endian, the checksum is XXH3-128 in its canonical form.
#include "jit/cache/entry.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <cstring>

namespace tegula::cache {

namespace {

static_assert(kEntryOverhead == kMagic.size() + 32);

std::string digest(std::string_view bytes) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
    return {reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest};
}

void put(std::string& out, uint64_t v) {
    for (int i = 0; i < 8; ++i) out += static_cast<char>(v >> 8 * i);
}

uint64_t get(std::string_view bytes) {
    uint64_t v = 0;
    for (size_t i = 0; i < 8; ++i) v |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << 8 * i;
    return v;
}

}  // namespace

std::string encode_entry(std::string_view key, std::string_view blob) {
    std::string out;
    out.reserve(kEntryOverhead + key.size() + blob.size());
    out += kMagic;
    put(out, key.size());
    put(out, blob.size());
    out.append(key).append(blob);
    return out + digest(out);
}

bool begins_entry(std::string_view prefix, std::string_view key, uint64_t size) {
    const size_t head = kMagic.size() + 16;
    if (prefix.size() < head || size < kEntryOverhead || !prefix.starts_with(kMagic)) return false;
    const uint64_t key_size = get(prefix.substr(kMagic.size())), blob_size = get(prefix.substr(kMagic.size() + 8));
    const uint64_t content = size - kEntryOverhead;
    return key_size == key.size() && key_size <= content && blob_size == content - key_size && prefix.substr(head, key_size) == key;
}

std::optional<std::string> decode_entry(std::string_view bytes, std::string_view key) {
    if (!begins_entry(bytes, key, bytes.size())) return std::nullopt;
    const std::string_view body = bytes.substr(0, bytes.size() - 16);
    if (digest(body) != bytes.substr(body.size())) return std::nullopt;
    return std::string(body.substr(entry_prefix(key)));
}

std::optional<std::string> entry_key(std::string_view bytes) {
    const size_t head = kMagic.size() + 16;
    if (bytes.size() < kEntryOverhead) return std::nullopt;
    const uint64_t size = get(bytes.substr(kMagic.size()));
    if (size > bytes.size() - kEntryOverhead) return std::nullopt;
    const std::string key(bytes.substr(head, size));
    return decode_entry(bytes, key) ? std::optional(key) : std::nullopt;
}

std::string key_name(std::string_view key) {
    static constexpr char kHex[] = "0123456789abcdef";
    std::string out;
    for (char c : digest(key)) (out += kHex[static_cast<uint8_t>(c) >> 4]) += kHex[c & 15];
    return out;
}

}  // namespace tegula::cache
