// Fixed device text of the prelude: named sections, each a few small functions. A section is emitted when something needs it, after the sections
// that it needs itself. Every asm statement or CUDA builtin sits in a named function with a host version beside it (`#ifdef __CUDACC__`), so
// that the same text compiles as plain C++ in tests. To add a section: a row in one of the tables.
#pragma once
#include <span>
#include <string_view>

namespace tegula::cuda {

struct Section {
    std::string_view name;
    std::string_view needs;  ///< names of other sections, separated by blanks
    std::string_view text;
};

std::span<const Section> scalar_sections();  ///< prelude_text.cpp, prelude_round.cpp
std::span<const Section> round_sections();
std::span<const Section> tensor_sections();  ///< prelude_tensor.cpp: mbarrier, tma, mma, wgmma, ..

}  // namespace tegula::cuda
