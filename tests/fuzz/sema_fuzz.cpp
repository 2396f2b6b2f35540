// libFuzzer on sema alone: whatever parses is checked, and every kernel of what checks is bound without arguments and elaborated. A broken
// invariant (InternalError escapes) or IR that the verifier refuses is a finding.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "lang/ir_text.h"
#include "parser/parse.h"
#include "sema/sema.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace tegula;
    SourceMap sources;
    TypeTable types;
    DiagSink diags;
    Arena arena;
    sema::Module module;
    module.name = "fuzz";
    module.ast = parse_module(sources, sources.add("fuzz.tile", std::string(reinterpret_cast<const char*>(data), size)), arena, diags);
    if (!sema::check_module(module, types, diags)) return 0;
    sema::Limits limits;
    limits.const_steps = 200'000;
    limits.ir_ops = 20'000;
    for (const ast::Item* item : module.ast->items) {
        if (item->kind != ast::ItemKind::kernel) continue;
        const auto& kernel = static_cast<const ast::KernelItem&>(*item);
        const auto generics = sema::bind_static(module, kernel, {}, types, diags, true);
        if (!generics) continue;
        const auto instance = sema::elaborate_kernel(module, kernel, *generics, types, limits, diags);
        if (instance && !diags.has_errors() && !ir::verify(*instance->fn).empty()) std::abort();
    }
    return 0;
}
