// The tokens of a text that need not parse, for colouring it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tegula {

struct SourceToken {
    enum Kind : uint8_t {
        keyword,
        number,
        string,
        comment,
        operation,  ///< operators and punctuation
        bracket,    ///< also the angles of generic lists
        name,
        attribute,  ///< `@` and the word behind it, where they are an attribute
        invalid     ///< what belongs to no token
    } kind;
    uint32_t begin, end;
};
/// In order and disjoint; between them is blank space only. Texts of at most 16 MiB.
std::vector<SourceToken> source_tokens(std::string text);

}  // namespace tegula
