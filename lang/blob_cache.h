// A store of compiled artefacts by content key: what a back end needs of a cache, whatever lies behind it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace tegula {

/// Thread-safe. A cache never fails: what cannot be read is missing, what cannot be written is dropped.
class BlobCache {
public:
    virtual ~BlobCache() = default;
    /// The blob that was put under exactly this key, or nothing. Keys are whole descriptions (source text and all that can change bytes), any bytes.
    virtual std::optional<std::string> find(std::string_view key) = 0;
    virtual void put(std::string_view key, std::string_view blob) = 0;
};

}  // namespace tegula
