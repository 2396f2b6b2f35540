// Another LLVM in the process does no harm: this one is loaded with its symbols open to everybody, as hosts and plugins do, before and between uses
// of the library's own. Prints what it could not do and exits 77 where there is no other LLVM.
#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "tegula/tegula.hpp"

namespace {

int fail(const char* what, const std::string& text = {}) {
    std::fprintf(stderr, "%s\n%s\n", what, text.c_str());
    return 1;
}

constexpr const char* kSource = "kernel twice(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [1] { y[0 +: 8] = x[0 +: 8] * 2.0; }";

bool run(const char* name) {
    auto engine = tegula::Engine::create();
    auto module = engine.value().load(kSource, name);
    float x[8], y[8] = {};
    for (int i = 0; i < 8; ++i) x[i] = static_cast<float>(i);
    tegula::RunOptions options;
    options.machine = "cpu";
    auto ran = module.value().launch("twice", {}, {tegula::Tensor(x, {8}), tegula::Tensor(y, {8})}, options);
    std::fputs(ran.diagnostics().text().c_str(), stderr);
    bool good = static_cast<bool>(ran);
    for (int i = 0; i < 8; ++i) good = good && y[i] == 2 * x[i];
    return good;
}

}  // namespace

int main() {
    void* other = nullptr;
    for (const char* name : {"libLLVM.so.19.1", "libLLVM-19.so.1", "libLLVM-14.so.1", "libLLVM-15.so.1"})
        if (!other) other = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (!other) return fail("skipped: no shared LLVM here"), 77;
    auto create = reinterpret_cast<void* (*)()>(dlsym(other, "LLVMContextCreate"));
    auto dispose = reinterpret_cast<void (*)(void*)>(dlsym(other, "LLVMContextDispose"));
    if (!create || !dispose) return fail("the other LLVM has no C interface");
    void* context = create();
    if (!run("before.tile")) return fail("the library fails beside another LLVM");
    dispose(context);
    dispose(create());
    return run("after.tile") ? 0 : fail("the library fails after another LLVM was used");
}
