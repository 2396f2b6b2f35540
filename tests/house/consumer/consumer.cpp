// The C++ wrapper on an installed copy: compile a kernel, run it on host arrays, compare. Exits 0 when the sum is right.
#include <vector>

#include "tegula/tegula.hpp"

int main() {
    auto engine = tegula::Engine::create().value();
    auto module = engine
                      .load(
                          "kernel add<B: int = 32>(x: tensor<f32>[N], y: tensor<f32>[N], out z: tensor<f32>[N]) grid [cdiv(N, B)] {\n"
                          "    let i = program_id(0) * B;\n    z[i +: B] = x[i +: B] + y[i +: B];\n}\n")
                      .value();
    std::vector<float> x(77), y(77), z(77, -1);
    for (int i = 0; i < 77; ++i) x[i] = float(i), y[i] = float(1000 * i);
    module.launch("add", {}, {tegula::Tensor(x.data(), {77}), tegula::Tensor(y.data(), {77}), tegula::Tensor(z.data(), {77})}).value();
    for (int i = 0; i < 77; ++i)
        if (z[i] != float(1001 * i)) return 1;
    return 0;
}
