// The types of elements that random programs have, and what the language allows with them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tegula::diff {

/// As in language.md, 10.1; `table`: codebooks, which are moved and cast only.
enum class Kind : uint8_t { boolean, integer, floating, fixed, logarithm, table };
/// `declared`: the `type` item of a name that the language does not have.
struct Element {
    std::string name;
    Kind kind;
    int bits;
    const char* declared = "";
};
/// Those that are drawn as such; integers of any width are understood besides.
const std::vector<Element>& elements();
constexpr int kCommon = 25, kFloats = 8;  ///< rows that are drawn often, floats first
Element element_of(const std::string& name);

inline bool is_float(const std::string& t) { return element_of(t).kind == Kind::floating; }
inline bool is_int(const std::string& t) { return element_of(t).kind == Kind::integer; }
inline bool is_unsigned(const std::string& t) { return is_int(t) && t[0] == 'u'; }
inline int bits_of(const std::string& t) { return element_of(t).bits; }
/// In what sums, and sums of products, of t accumulate unless told otherwise.
std::string widened(const std::string& t);
std::string accumulator(const std::string& t);

}  // namespace tegula::diff
