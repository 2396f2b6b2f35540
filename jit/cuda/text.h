// Pieces of emitted text.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace tegula::cuda {

inline std::string number(int64_t v) { return std::to_string(v); }

/// `v` as a literal of 64 bits.
inline std::string int64_text(int64_t v) {
    if (v == INT64_MIN) return "(-9223372036854775807ll - 1)";
    return v < 0 ? "(" + std::to_string(v) + "ll)" : std::to_string(v) + "ll";
}

/// An expression, and its code where it is a constant. Rewrites are decided by the code and the format that it is of, never by the text: the digits
/// of a literal do not tell their width.
struct Known {
    std::string text;
    std::optional<uint64_t> code;
    Known() = default;
    Known(std::string expression, std::optional<uint64_t> constant = std::nullopt) : text(std::move(expression)), code(constant) {}
    Known(const char* expression) : text(expression) {}
};
inline Known known_int64(int64_t v) { return {int64_text(v), static_cast<uint64_t>(v)}; }

/// Another factor of a product of 64 bits; nothing for 1.
inline std::string times(const Known& by) { return by.code == 1 ? "" : " * " + by.text; }

/// Both conditions, of which "true" says nothing.
inline std::string both(const std::string& a, const std::string& b) { return a == "true" ? b : b == "true" ? a : a + " && " + b; }

/// `text` with `by` for every `word`.
inline std::string replaced(std::string text, const std::string& word, const std::string& by) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size())) text.replace(at, word.size(), by);
    return text;
}

/// C type of 2, 4, 8 or 16 bytes.
inline const char* wide_type(size_t bytes) { return bytes == 16 ? "uint4" : bytes == 8 ? "uint2" : bytes == 4 ? "unsigned" : "unsigned short"; }

}  // namespace tegula::cuda
