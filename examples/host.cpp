// A C++ host: vector addition on arrays of its own, a narrow weight matrix packed by the library, and what a mistake looks like. Only
// tegula.hpp is used. Exits 0 when everything came out as expected.
#include "tegula/tegula.hpp"

#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

constexpr const char* kText = R"(
kernel vector_add<T: number, BLOCK: int = 256>(x: tensor<T>[N], y: tensor<T>[N], out z: tensor<T>[N])
    grid [cdiv(N, BLOCK)]
{
    let n = program_id(0) * BLOCK;
    z[n +: BLOCK] = x[n +: BLOCK] + y[n +: BLOCK];
}

/// y = w @ x with weights of any width.
kernel matvec<W: any, BN: int = 16, BK: int = 64>(w: tensor<W>[N, K], x: tensor<f32>[K], out y: tensor<f32>[N])
    grid [cdiv(N, BN)]
{
    let n = program_id(0) * BN;
    var acc = zeros<f32>[BN];
    for k in 0 .. K step BK {
        acc += sum(cast<f32>(w[n +: BN, k +: BK]) * x[k +: BK][none, :], axis = 1);
    }
    y[n +: BN] = acc;
}
)";

bool check(bool ok, const char* what) {
    std::printf("%s: %s\n", what, ok ? "ok" : "WRONG");
    return ok;
}

/// The element type follows from the array's.
bool add_vectors(const tegula::Module& module) {
    const int64_t n = 1000;
    std::vector<int32_t> x(n), y(n), z(n);
    for (int64_t i = 0; i < n; ++i) {
        x[i] = static_cast<int32_t>(i);
        y[i] = static_cast<int32_t>(1000 * i);
    }
    module.launch("vector_add", {{"BLOCK", 64}}, {tegula::Tensor(x.data(), {n}), tegula::Tensor(y.data(), {n}), tegula::Tensor(z.data(), {n})})
        .value();
    bool ok = true;
    for (int64_t i = 0; i < n; ++i) ok = ok && z[i] == 1001 * i;
    return check(ok, "vector_add");
}

/// 3-bit weights: the library says how many bytes they take, and packs them.
bool multiply_narrow(const tegula::Module& module) {
    const int64_t n = 17, k = 129, shape[] = {n, k};
    std::vector<float> wide(n * k), x(k, 1.0f), y(n);
    for (int64_t i = 0; i < n * k; ++i) wide[i] = static_cast<float>(i % 8 - 4);
    std::vector<uint8_t> packed(module.tensor_bytes("i3", "row", shape).value().elements);
    const tegula::Tensor w(packed.data(), packed.size(), "i3", {n, k});
    module.copy(w, tegula::Tensor(wide.data(), {n, k})).value();
    module.launch("matvec", {}, {w, tegula::Tensor(x.data(), {k}), tegula::Tensor(y.data(), {n})}).value();
    bool ok = packed.size() == static_cast<size_t>(n * ((k * 3 + 7) / 8));
    for (int64_t i = 0; i < n; ++i) {
        // 128 codes sum to -64; the one left over is the row's first.
        ok = ok && y[i] == static_cast<float>(-64 + i * k % 8 - 4);
    }
    return check(ok, "matvec with i3 weights");
}

/// One message lists every argument that does not fit; nothing is written.
bool refuse_arguments(const tegula::Module& module) {
    std::vector<float> x(7), y(8), z(7, -1.0f);
    const auto result =
        module.launch("vector_add", {}, {tegula::Tensor(x.data(), {7}), tegula::Tensor(y.data(), {8}), tegula::Tensor(z.data(), {7})});
    std::printf("%s", result.diagnostics().text().c_str());
    return check(!result && result.status() == TEGULA_E_ARGUMENTS && z[0] == -1.0f, "arguments that do not fit are refused");
}

/// A mistake in the text is data, with a code and a place, or an exception for those who ask for the value.
bool refuse_text(const tegula::Engine& engine) {
    const auto result = engine.load("fn area(width: f32) -> f32 { return widht * 2.0; }\n", "area.tile");
    const std::string json = result.diagnostics().json();
    std::printf("%s", json.c_str());
    return check(!result && result.status() == TEGULA_E_SOURCE && json.find("area.tile") != std::string::npos, "a mistake in the text is reported");
}

}  // namespace

int main() {
    try {
        const tegula::Engine engine = tegula::Engine::create().value();
        const tegula::Module module = engine.load(kText, "host.tile").value();
        const bool all[] = {add_vectors(module), multiply_narrow(module), refuse_arguments(module), refuse_text(engine)};
        for (const bool ok : all)
            if (!ok) return 1;
        return 0;
    } catch (const tegula::Error& error) {
        std::printf("%s\n", error.what());
        return 2;
    }
}
