/* A C host: loads a kernel from text, runs it on arrays of its own, checks the result, and shows what a mistake looks like. Only tegula.h is
 * used. Exits 0 when everything came out as expected. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tegula/tegula.h"

static const char kSoftmax[] =
    "kernel softmax<T: float, BLOCK: int>(x: tensor<T>[M, N], out y: tensor<T>[M, N])\n"
    "    grid [M]\n"
    "    where N <= BLOCK\n"
    "{\n"
    "    let row = program_id(0);\n"
    "    let v = x[row, 0 +: BLOCK] else -inf;\n"
    "    let e = exp(v - max(v));\n"
    "    y[row, 0 +: BLOCK] = e / sum(e);\n"
    "}\n";

static const char kWrong[] = "fn area(width: f32) -> f32 { return widht * 2.0; }\n";

enum { M = 3, N = 7 };

/* An f32 matrix in row order, as a launch argument takes it. */
static tegula_tensor matrix(float* data, const int64_t* extents) {
    tegula_tensor t;
    memset(&t, 0, sizeof t);
    t.data = data;
    t.bytes = (size_t)extents[0] * (size_t)extents[1] * sizeof *data;
    t.type = "f32";
    t.rank = 2;
    t.extents = extents;
    return t;
}

static tegula_status softmax(tegula_module* module, int64_t block, const tegula_tensor* x, const tegula_tensor* y, tegula_diags** diags) {
    tegula_value generic, args[2];
    memset(&generic, 0, sizeof generic);
    memset(args, 0, sizeof args);
    generic.name = "BLOCK";
    generic.kind = TEGULA_INT;
    generic.i = block;
    args[0].kind = args[1].kind = TEGULA_TENSOR;
    args[0].tensor = x;
    args[1].tensor = y;
    return tegula_launch(module, "softmax", &generic, 1, args, 2, NULL, diags);
}

/* Prints the diagnostics of a call and gives up the handle. */
static void show(const char* what, tegula_diags* diags) {
    printf("-- %s\n%s", what, diags ? tegula_diags_text(diags, 0) : "");
    tegula_release(diags);
}

int main(void) {
    tegula_engine* engine = NULL;
    tegula_module *module = NULL, *wrong = NULL;
    tegula_diags* diags = NULL;
    const int64_t extents[2] = {M, N};
    float x[M][N], y[M][N];
    tegula_tensor in = matrix(&x[0][0], extents), out = matrix(&y[0][0], extents);
    double worst = 0;
    int i, j, ok;

    if (tegula_abi_version() != TEGULA_ABI_VERSION || tegula_engine_new(NULL, &engine, NULL) != TEGULA_OK) return 2;
    if (tegula_module_from_source(engine, "softmax.tile", kSoftmax, strlen(kSoftmax), &module, &diags) != TEGULA_OK) {
        show("the kernel does not compile", diags);
        return 3;
    }

    /* x[i][j] = log(j + 1): the softmax of a row is (j + 1) / (1 + 2 + .. + N). */
    for (i = 0; i < M; ++i)
        for (j = 0; j < N; ++j) x[i][j] = logf((float)(j + 1));
    if (softmax(module, 8, &in, &out, &diags) != TEGULA_OK) {
        show("the launch failed", diags);
        return 4;
    }
    for (i = 0; i < M; ++i)
        for (j = 0; j < N; ++j) worst = fmax(worst, fabs(y[i][j] - (j + 1) / (N * (N + 1) / 2.0)));
    printf("softmax: largest error %.1e\n", worst);
    ok = worst < 1e-6;

    /* Arguments that do not fit are listed, and nothing is written. */
    y[0][0] = -1;
    ok = ok && softmax(module, 4, &in, &out, &diags) == TEGULA_E_ARGUMENTS && y[0][0] == -1 && tegula_diags_count(diags) == 1;
    show("a row longer than BLOCK", diags);

    /* A mistake in the text: the module is NULL, the diagnostics say where. */
    diags = NULL;
    ok = ok && tegula_module_from_source(engine, "area.tile", kWrong, strlen(kWrong), &wrong, &diags) == TEGULA_E_SOURCE;
    ok = ok && wrong == NULL && diags != NULL && strstr(tegula_diags_text(diags, 0), "area.tile:1:") != NULL;
    show("an unknown name", diags);

    tegula_release(module);
    tegula_release(engine);
    return ok ? 0 : 1;
}
