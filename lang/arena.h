// A bump allocator for the AST: nodes are trivially destructible and freed all at once.
#pragma once
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tegula {

class Arena {
public:
    template <class T, class... Args>
    T* make(Args&&... args) {
        static_assert(std::is_trivially_destructible_v<T>);
        return new (allocate(sizeof(T), alignof(T))) T{std::forward<Args>(args)...};
    }
    template <class T>
    std::span<T> copy(const std::vector<T>& items) {
        static_assert(std::is_trivially_copyable_v<T>);
        if (items.empty()) return {};
        T* out = static_cast<T*>(allocate(sizeof(T) * items.size(), alignof(T)));
        std::memcpy(static_cast<void*>(out), items.data(), sizeof(T) * items.size());
        return {out, items.size()};
    }
    /// Room for `count` of them.
    template <class T>
    T* room(size_t count) {
        static_assert(std::is_trivially_copyable_v<T>);
        return static_cast<T*>(allocate(sizeof(T) * count, alignof(T)));
    }
    std::string_view copy(std::string_view text) {
        if (text.empty()) return {};
        char* out = static_cast<char*>(allocate(text.size(), 1));
        std::memcpy(out, text.data(), text.size());
        return {out, text.size()};
    }
    size_t bytes() const { return total_; }

private:
    void* allocate(size_t size, size_t align) {
        size_t at = (used_ + align - 1) / align * align;
        if (blocks_.empty() || at + size > capacity_) {
            capacity_ = size > kBlock ? size : kBlock;
            blocks_.emplace_back(new std::byte[capacity_]);
            at = 0;
        }
        used_ = at + size;
        total_ += size;
        return blocks_.back().get() + at;
    }
    static constexpr size_t kBlock = 32 * 1024;
    std::vector<std::unique_ptr<std::byte[]>> blocks_;
    size_t used_ = 0, capacity_ = 0, total_ = 0;
};

}  // namespace tegula
