// The stages of a kernel line by line, each with its place in the source.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "jit/picture/builders.h"

namespace tegula::picture {

/// A text of the IR; `spans` are those of its lines.
Listing ir_listing(const std::string& text, std::span<const Span> spans, const SourceMap& sources, std::string_view file);
/// CUDA text: `#line` directives become places.
Listing cuda_listing(std::string_view text, std::string_view file);
/// PTX with `.loc`, whose lines are those of the CUDA text without its directives: helpers of the compiler stand where they are called from.
Listing ptx_listing(std::string_view text, const Listing& cuda);
/// Assembly with `.loc` and `.file`, whose debug sections, debug labels and directives of unwinding are left out.
Listing asm_listing(std::string_view text, std::string_view file);
/// LLVM IR with debug locations, which become places; metadata is left out.
Listing llvm_listing(std::string_view text, std::string_view file);

/// What is shown: the source with what `explain` says of its lines, the counts of instructions by line in its gutter (of PTX, else of assembly), and
/// the listings.
Picture source_picture(const KernelView& k, std::string_view file, std::string_view source, std::vector<Figure> stages);

}  // namespace tegula::picture
