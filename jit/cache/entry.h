// One cache entry as bytes: magic, sizes, the whole key, the blob, and a checksum of all of it. Self-contained: whoever reads it can prove that it is
// whole and meant for the key at hand.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace tegula::cache {

/// Raised whenever the form changes: entries of other versions are no entries.
constexpr std::string_view kMagic = "tegula cache 1\n";
constexpr size_t kEntryOverhead = 15 + 8 + 8 + 16;

std::string encode_entry(std::string_view key, std::string_view blob);
/// Bytes of an entry in front of the blob.
constexpr size_t entry_prefix(std::string_view key) { return kMagic.size() + 16 + key.size(); }
/// Could `prefix`, its first bytes, begin an entry for `key` of `size` bytes? What is not worth reading is told without reading it.
bool begins_entry(std::string_view prefix, std::string_view key, uint64_t size);
/// The blob, when `bytes` is a whole, undamaged entry for `key`.
std::optional<std::string> decode_entry(std::string_view bytes, std::string_view key);
/// The key of a whole, undamaged entry, whatever it is for.
std::optional<std::string> entry_key(std::string_view bytes);
/// 32 hexadecimal digits: the name of a key's file.
std::string key_name(std::string_view key);

}  // namespace tegula::cache
