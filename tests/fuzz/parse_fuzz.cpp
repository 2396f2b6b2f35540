// libFuzzer on the scanner, parser and formatter: whatever parses must format to text with the same AST, and formatting is a fixed point.
#include <cstdint>
#include <cstdlib>

#include "parser/parse.h"

using namespace tegula;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    SourceMap sources;
    Arena arena;
    DiagSink diags;
    uint32_t file = sources.add("fuzz.tile", std::string(reinterpret_cast<const char*>(data), size));
    dump_tokens(sources, file, diags);
    std::string before = dump_ast(*parse_module(sources, file, arena, diags));
    if (diags.has_errors()) {
        for (const Diagnostic& d : diags.all()) render_text(d, sources, false);
        return 0;
    }
    std::optional<std::string> once = format_source(sources, file, diags);
    if (!once) std::abort();
    uint32_t formatted = sources.add("once.tile", *once);
    if (dump_ast(*parse_module(sources, formatted, arena, diags)) != before || diags.has_errors()) std::abort();
    std::optional<std::string> twice = format_source(sources, formatted, diags);
    if (twice != once) std::abort();
    return 0;
}
