/* The public header is C99: this file is compiled with -std=c99 -pedantic -Werror, and used by api_test.cpp. */
#include "tegula/tegula.h"

uint32_t tegula_c99_abi(void);

uint32_t tegula_c99_abi(void) {
    tegula_engine_options engine;
    tegula_run_options run;
    tegula_value value;
    tegula_engine_options_init(&engine, sizeof engine);
    tegula_run_options_init(&run, sizeof run);
    value.kind = TEGULA_INT;
    return engine.struct_size == sizeof engine && run.struct_size == sizeof run && engine.max_errors == 100 && value.kind == TEGULA_INT &&
                   TEGULA_OK == 0
               ? tegula_abi_version()
               : 0;
}
