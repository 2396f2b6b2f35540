// libFuzzer on sema and everything below it, through the C++ header: any text loads or is refused with diagnostics; what loads is checked, so
// that every kernel compiles with default generics. An internal error, or a refusal without a diagnostic, is a finding.
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/reused_engine.h"

namespace {

void expect_told(tegula_status status, const tegula::Diagnostics& diagnostics) {
    if (status == TEGULA_E_INTERNAL || (status != TEGULA_OK && diagnostics.empty())) std::abort();
    diagnostics.text();
    diagnostics.json();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    auto module = load_in_reused_engine(data, size);
    expect_told(module.status(), module.diagnostics());
    if (!module) return 0;
    auto checked = module.value().check();
    expect_told(checked.status(), checked.diagnostics());
    for (const char* kind : {"json", "doc"})
        if (!module.value().artifact(kind)) std::abort();
    return 0;
}
