// IR-level types: static tiles of elements (scalars are rank-0 tiles), tiles of pointers, and tensor views. Formats,
// types and layouts are interned in one TypeTable per engine; ids are stable and comparable.
#pragma once
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "lang/check.h"
#include "lang/format.h"

namespace tegula {

constexpr int kMaxRank = 8;
constexpr int64_t kMaxTileElements = int64_t{1} << 24;
constexpr int64_t kDynamic = -1;  ///< a tensor extent known only at launch

/// Up to 8 extents. For tiles every extent is >= 1; for tensors kDynamic is allowed.
struct Shape {
    uint8_t rank = 0;
    std::array<int64_t, kMaxRank> dims{};
    Shape() = default;
    Shape(std::initializer_list<int64_t> extents) {
        for (int64_t e : extents) push(e);
    }
    void push(int64_t extent) {
        TEGULA_CHECK(rank < kMaxRank);
        dims[rank++] = extent;
    }
    int64_t& operator[](size_t i) { return dims[i]; }
    int64_t operator[](size_t i) const { return dims[i]; }
    const int64_t* begin() const { return dims.data(); }
    const int64_t* end() const { return dims.data() + rank; }
    /// Product of extents (1 for rank 0). Callers keep it below kMaxTileElements for tiles.
    int64_t elements() const {
        int64_t n = 1;
        for (int64_t e : *this) n *= e;
        return n;
    }
    friend bool operator==(const Shape& a, const Shape& b) { return a.rank == b.rank && std::equal(a.begin(), a.end(), b.begin()); }
};
std::string to_string(const Shape& shape);  ///< "[7, 128]", "[]"
/// NumPy broadcasting of two shapes; nullopt when they do not broadcast.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

enum class Mode : uint8_t { in, out, inout };
struct LayoutId {
    uint32_t v = 0;  ///< 0: row-major
    friend bool operator==(LayoutId, LayoutId) = default;
};
struct TypeId {
    uint32_t v = 0;  ///< 0: no value
    friend bool operator==(TypeId, TypeId) = default;
};

struct Type {
    enum Kind : uint8_t { none, tile, tensor, channel } kind = none;  ///< channel: a ring of tiles in a GPU's shared memory
    bool pointer = false;  ///< tile: elements are ptr<elem>
    Mode mode = Mode::in;  ///< tensor
    FormatId elem{};       ///< never a block format: sema splits those into elements and scales
    Shape shape{};         ///< tile: static; tensor: kDynamic where unknown
    LayoutId layout{};     ///< tensor
    friend bool operator==(const Type&, const Type&) = default;
};

class Layout;  // lang/layout.h

/// Entries that are added under a lock and read without one: every phase asks for types all the time, on many threads. They never move.
template <class T>
class Entries {
public:
    uint32_t size() const { return size_.load(std::memory_order_acquire); }
    const T& operator[](uint32_t i) const {
        TEGULA_CHECK(i < size());
        return entry(i);
    }
    void push_back(T value) {
        const uint32_t i = size_.load(std::memory_order_relaxed), chunk = chunk_of(i);
        if (!chunks_[chunk]) chunks_[chunk] = std::make_unique<T[]>(size_t{kFirst} << chunk);
        entry(i) = std::move(value);
        size_.store(i + 1, std::memory_order_release);
    }

private:
    static constexpr uint32_t kFirst = 64;  ///< entries of chunk 0; each chunk has twice as many as the one before
    std::array<std::unique_ptr<T[]>, 26> chunks_;
    std::atomic<uint32_t> size_{0};

    static uint32_t chunk_of(uint32_t i) { return static_cast<uint32_t>(std::bit_width(i / kFirst + 1)) - 1; }
    T& entry(uint32_t i) const { return chunks_[chunk_of(i)][i - kFirst * ((1u << chunk_of(i)) - 1)]; }
};

/// Interns formats, types and layouts of one engine. Thread-safe; references stay valid for its lifetime.
class TypeTable {
public:
    TypeTable();
    ~TypeTable();
    FormatId intern(const Format& format);
    TypeId intern(const Type& type);
    LayoutId intern(const Layout& layout);
    const Format& format(FormatId id) const { return formats_[id.v]; }
    const Type& type(TypeId id) const { return types_[id.v]; }
    const Layout& layout(LayoutId id) const { return *layouts_[id.v]; }
    const Format& elem(TypeId id) const { return format(type(id).elem); }

    TypeId tile(FormatId elem, const Shape& shape = {});
    TypeId tile(Fmt elem, const Shape& shape = {}) { return tile(id_of(elem), shape); }
    TypeId pointer(FormatId elem, const Shape& shape = {});
    TypeId channel(FormatId elem, const Shape& shape);
    /// "f32", "tile<f32>[7, 128]", "ptr<f16>", "tile<ptr<f16>>[4]", "tensor<i4>[?, 128]".
    std::string name(TypeId id) const;
    /// Parses a built-in format name ("f16", "i3", "u1", "bool"); nullopt if it is none.
    std::optional<FormatId> builtin(std::string_view name);

private:
    std::mutex mutex_;  ///< for who adds
    Entries<Format> formats_;
    Entries<Type> types_;
    Entries<std::unique_ptr<Layout>> layouts_;
    std::unordered_map<std::string, uint32_t> format_index_, type_index_, layout_index_;
};

}  // namespace tegula
