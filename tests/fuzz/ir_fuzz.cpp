// libFuzzer entry for IR text: whatever parses must verify, print, parse back to the same text, and live through every pass.
#include <cstdint>
#include <cstdlib>

#include "lang/ir_text.h"
#include "lower/lower.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace tegula;
    TypeTable types;
    SourceMap sources;
    DiagSink diags;
    const auto parse = [&](std::string text) { return ir::parse_ir(sources, sources.add("fuzz.ir", std::move(text)), types, diags); };
    const auto fn = parse({reinterpret_cast<const char*>(data), size});
    if (!fn) return 0;
    const std::string text = print(*fn);
    const auto again = parse(text);
    if (!again || print(*again) != text) std::abort();
    run_passes(*fn, {});
    return 0;
}
