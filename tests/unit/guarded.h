// Memory between two pages that may not be touched: what reads or writes outside of it ends the process.
#pragma once
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace tegula::testing {

class Guarded {
public:
    explicit Guarded(size_t bytes = 1) : size_((bytes + kPage - 1) / kPage * kPage) {
        void* all = mmap(nullptr, size_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED) throw std::bad_alloc();
        base_ = static_cast<uint8_t*>(all);
        EXPECT_EQ(mprotect(begin(), size_, PROT_READ | PROT_WRITE), 0);
    }
    ~Guarded() { munmap(base_, size_ + 2 * kPage); }
    Guarded(const Guarded&) = delete;
    uint8_t* begin() { return base_ + kPage; }
    uint8_t* end() { return begin() + size_; }
    size_t size() const { return size_; }

private:
    static constexpr size_t kPage = 4096;
    size_t size_;  ///< whole pages
    uint8_t* base_;
};

}  // namespace tegula::testing
