// ggml through its C interface (ggml.h): what little of it the products take is declared here, since its headers need not be installed.
#include "bench/ggml.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <sstream>

namespace cpu_bench {

namespace {

struct InitParams {
    size_t bytes;
    void* memory;
    bool no_alloc;
};

/// The folder of the package's libraries, empty where python3 has none.
std::string package_folder() {
    std::string out;
    char text[1024];
    if (FILE* pipe = ::popen("python3 -c 'import libggml, os; print(os.path.dirname(libggml.__file__))' 2>/dev/null", "r")) {
        if (std::fgets(text, sizeof text, pipe)) out.assign(text, std::strcspn(text, "\n"));
        ::pclose(pipe);
    }
    return out;
}

}  // namespace

struct Ggml::Impl {
    void* (*init)(InitParams) = nullptr;
    void (*free)(void*) = nullptr;
    void* (*new_tensor_2d)(void* context, int type, int64_t fastest, int64_t slowest) = nullptr;
    void* (*mul_mat)(void* context, void* weights, void* x) = nullptr;
    void* (*new_graph)(void* context) = nullptr;
    void (*build_forward_expand)(void* graph, void* tensor) = nullptr;
    void* (*get_data)(const void* tensor) = nullptr;
    size_t (*nbytes)(const void* tensor) = nullptr;
    const char* (*type_name)(int) = nullptr;
    int (*compute)(void* context, void* graph, int threads) = nullptr;

    bool open(const std::string& folder) {
        void *base = nullptr, *cpu = nullptr;
        for (const char* inner : {"/lib64/", "/lib/"})
            if (!base && (base = dlopen((folder + inner + "libggml-base.so").c_str(), RTLD_NOW | RTLD_GLOBAL)))
                cpu = dlopen((folder + inner + "libggml-cpu.so").c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!cpu) return false;
        bool all = true;
        const auto find = [&](void* library, auto& function, const char* name) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
            all = all && function;
        };
        find(base, init, "ggml_init");
        find(base, free, "ggml_free");
        find(base, new_tensor_2d, "ggml_new_tensor_2d");
        find(base, mul_mat, "ggml_mul_mat");
        find(base, new_graph, "ggml_new_graph");
        find(base, build_forward_expand, "ggml_build_forward_expand");
        find(base, get_data, "ggml_get_data");
        find(base, nbytes, "ggml_nbytes");
        find(base, type_name, "ggml_type_name");
        find(cpu, compute, "ggml_graph_compute_with_ctx");
        return all;
    }

    int type_of(const std::string& name) const {
        constexpr int kF16 = 1, kMost = 40;  // beyond its last type the library ends the program
        for (int t = kF16; t < kMost; ++t)
            if (const char* known = type_name(t); known && name == known) return t;
        return -1;
    }
};

Ggml::Ggml() {
    const std::string folder = package_folder();
    auto impl = std::make_unique<Impl>();
    if (!folder.empty() && impl->open(folder)) impl_ = std::move(impl);
}

Ggml::~Ggml() = default;

std::function<void()> Ggml::product(const std::string& types, int64_t m, int64_t n, int64_t k, int threads, std::string& type) const {
    if (!impl_) return {};
    std::istringstream names(types);
    int number = -1;
    while (number < 0 && names >> type) number = impl_->type_of(type);
    if (number < 0) return {};
    const Impl& g = *impl_;
    const size_t room = static_cast<size_t>(4 * n * k + 8 * m * (n + k)) + (size_t{64} << 20);
    std::shared_ptr<void> context(g.init({room, nullptr, false}), g.free);
    void *w = g.new_tensor_2d(context.get(), number, k, n), *x = g.new_tensor_2d(context.get(), 0, k, m);
    std::memset(g.get_data(w), 0x11, g.nbytes(w));  // codes and scales that are ordinary numbers
    auto* values = static_cast<float*>(g.get_data(x));
    for (int64_t i = 0; i < m * k; ++i) values[i] = static_cast<float>(i % 7) - 3;
    void *y = g.mul_mat(context.get(), w, x), *graph = g.new_graph(context.get());
    g.build_forward_expand(graph, y);
    return [context, graph, threads, compute = g.compute] { compute(context.get(), graph, threads); };
}

}  // namespace cpu_bench
