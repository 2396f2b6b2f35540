/* The C ABI from plain C: version, an engine, a module with an error and its diagnostics. Exits 0 when all is as documented. */
#include <string.h>

#include "tegula/tegula.h"

int main(void) {
    static const char kWrong[] = "kernel k(x: tensor<f32>[N]) grid [1] { let y = z; }";
    tegula_engine* engine = NULL;
    tegula_module* module = NULL;
    tegula_diags* diags = NULL;
    if (tegula_abi_version() != TEGULA_ABI_VERSION) return 1;
    if (tegula_engine_new(NULL, &engine, NULL) != TEGULA_OK) return 2;
    if (tegula_module_from_source(engine, "wrong.tile", kWrong, strlen(kWrong), &module, &diags) != TEGULA_E_SOURCE) return 3;
    tegula_release(engine);
    if (module != NULL || tegula_diags_count(diags) != 1 || strstr(tegula_diags_text(diags, 0), "wrong.tile:1:") == NULL) return 4;
    tegula_release(diags);
    return 0;
}
