// Pieces of emitted text.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "lang/kernel/expr.h"

namespace tegula::lower {

using kernel::Ex;

// Expressions within text: what is no name, number, call or element comes in parentheses; the empty expression, a
// scalar's register, is no text.
inline std::string operator+(const std::string& a, Ex b) { return b ? a + b.atom() : a; }
inline std::string operator+(Ex a, const std::string& b) { return a ? a.atom() + b : b; }
inline std::string operator+(const char* a, Ex b) { return std::string(a) + b; }
inline std::string operator+(Ex a, const char* b) { return a + std::string(b); }

inline std::string number(int64_t v) { return std::to_string(v); }

/// `v` as a literal of 64 bits.
inline std::string int64_text(int64_t v) {
    if (v == INT64_MIN) return "(-9223372036854775807ll - 1)";
    return v < 0 ? "(" + std::to_string(v) + "ll)" : std::to_string(v) + "ll";
}

/// An expression, and its code where it is a constant. Rewrites are decided by the code and the format that it is of,
/// never by the text: the digits of a literal do not tell their width.
struct Known {
    std::string text;
    std::optional<uint64_t> code;
    Known() = default;
    Known(std::string expression, std::optional<uint64_t> constant = std::nullopt)
        : text(std::move(expression)), code(constant) {}
    Known(const char* expression) : text(expression) {}
};

/// A number as one of 64 or 32 bits.
inline Ex u64(Ex e) { return kernel::cast(kernel::Type::u64, e); }
inline Ex u32(Ex e) { return kernel::cast(kernel::Type::u32, e); }
inline Ex i32(Ex e) { return kernel::cast(kernel::Type::i32, e); }
/// The address of what a pointer to shared memory points at, as instructions take it.
inline Ex address_of(Ex pointer) { return pointer->pool->call(kernel::Type::u32, "shared_address", {pointer}); }
/// Does 0 <= number < end hold, of numbers of 64 bits?
inline Ex within(Ex number, Ex end) { return lt(u64(number), u64(end)); }

/// `text` with `by` for every `word`.
inline std::string replaced(std::string text, const std::string& word, const std::string& by) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
        text.replace(at, word.size(), by);
    return text;
}

/// C type of 2, 4, 8 or 16 bytes.
inline const char* wide_type(size_t bytes) {
    return bytes == 16 ? "uint4" : bytes == 8 ? "uint2" : bytes == 4 ? "unsigned" : "unsigned short";
}

}  // namespace tegula::lower
