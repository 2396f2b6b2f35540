// libFuzzer on sema and everything below it, through the C++ header: any text loads or is refused with diagnostics; what loads is checked, so
// that every kernel compiles with default generics. An internal error, or a refusal without a diagnostic, is a finding.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tegula/tegula.hpp"

namespace {

void expect_told(tegula_status status, const tegula::Diagnostics& diagnostics) {
    if (status == TEGULA_E_INTERNAL || (status != TEGULA_OK && diagnostics.empty())) std::abort();
    diagnostics.text();
    diagnostics.json();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    // One engine for many inputs, and a module that keeps the standard library loaded: both cost more than most inputs.
    static auto engine = tegula::Engine::create().value();
    static auto library = engine.load("", "library.tile");
    static unsigned uses = 0;
    if (++uses % 200 == 0) {
        engine = tegula::Engine::create().value();
        library = engine.load("", "library.tile");
    }
    auto module = engine.load(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.tile");
    expect_told(module.status(), module.diagnostics());
    if (!module) return 0;
    auto checked = module.value().check();
    expect_told(checked.status(), checked.diagnostics());
    for (const char* kind : {"json", "doc"})
        if (!module.value().artifact(kind)) std::abort();
    return 0;
}
