// Sorting that keeps the order of equals. std::stable_sort of libstdc++ 12 calls a function that clang warns of as deprecated.
#pragma once
#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace tegula {

/// By `key` of each element.
template <class T, class Key, class Less = std::less<>>
void stable_sort(std::vector<T>& values, const Key& key, const Less& less = {}) {
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        const auto& x = std::invoke(key, values[a]);
        const auto& y = std::invoke(key, values[b]);
        return less(x, y) || (!less(y, x) && a < b);
    });
    std::vector<T> sorted;
    sorted.reserve(values.size());
    for (const size_t i : order) sorted.push_back(std::move(values[i]));
    values = std::move(sorted);
}

}  // namespace tegula
