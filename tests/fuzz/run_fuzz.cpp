// libFuzzer on the interpreter and the host statements: the `test` blocks of any text run in checked mode under small budgets, with and without
// passes. An internal error, a crash or a run that outlives its budget is a finding.
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/reused_engine.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    auto module = load_in_reused_engine(data, size);
    if (!module) return 0;
    tegula::RunOptions options;
    options.machine = "interp";
    options.checked = 1;
    options.threads = 1;
    options.step_budget = 5000;
    options.memory_budget = 1 << 22;
    for (const char* disabled : {static_cast<const char*>(nullptr), "all"}) {
        options.disable_passes = disabled;
        tegula::Ref<tegula_diags> diags;
        const auto result = [](void*, const tegula_test_result* r) {
            if (r->status == TEGULA_E_INTERNAL) std::abort();
        };
        if (tegula_test(module.value().c(), nullptr, &options, result, nullptr, diags.out()) == TEGULA_E_INTERNAL) std::abort();
    }
    return 0;
}
