// `tegula new`: a directory with a kernel, its tests, and a program that launches it.
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "files.h"
#include "tool.h"

namespace tegula_tool {

namespace {

struct ProjectFile {
    const char *name, *text;
};

constexpr ProjectFile kProject[] = {
    {"kernel.tile", R"(edition 1;

/// y = a * x + y, BLOCK elements a program.
kernel axpy<T: float, BLOCK: int = 1024>(a: f32, x: tensor<T>[N], inout y: tensor<T>[N])
    grid [cdiv(N, BLOCK)]
{
    let i = program_id(0) * BLOCK;
    let sum = a * cast<f32>(x[i +: BLOCK]) + cast<f32>(y[i +: BLOCK]);
    y[i +: BLOCK] = cast<T>(sum);
}

test "axpy" {
    for n in {1, 1023, 5000} {
        let (x, y) = (randn<f32>[n](seed = 1), randn<f32>[n](seed = 2));
        let want = 2.0 * x + y;
        axpy(2.0, x, y);
        assert_close(y, want, atol = 1e-6);
    }
}

bench "axpy" for N in {65536, 1048576} bytes 12 * N {
    axpy(2.0, ones<f32>[N], ones<f32>[N]);
}
)"},
    {"host.cpp", R"(// Launches the kernel on arrays of this program.
#include <cstdio>
#include <vector>

#include "tegula/tegula.hpp"

int main() {
    try {
        auto engine = tegula::Engine::create().value();
        auto module = engine.load_file(KERNEL_FILE).value();
        std::vector<float> x(5000, 3.0f), y(5000, 1.0f);
        const auto n = static_cast<int64_t>(x.size());
        module.launch("axpy", {}, {2.0, tegula::Tensor(x.data(), {n}), tegula::Tensor(y.data(), {n})}).value();
        std::printf("y[0] = %g\n", static_cast<double>(y[0]));
        return y[0] == 7.0f ? 0 : 1;
    } catch (const tegula::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
)"},
    {"CMakeLists.txt", R"(cmake_minimum_required(VERSION 3.25)
project(kernels LANGUAGES C CXX)
find_package(tegula REQUIRED)
find_program(TEGULA tegula REQUIRED HINTS ${tegula_DIR}/../../../bin)

add_executable(host host.cpp)
target_compile_definitions(host PRIVATE KERNEL_FILE="${PROJECT_SOURCE_DIR}/kernel.tile")
target_link_libraries(host PRIVATE tegula::tegula)

enable_testing()
add_test(NAME kernel COMMAND ${TEGULA} test ${PROJECT_SOURCE_DIR}/kernel.tile)
add_test(NAME host COMMAND host)
)"},
    {".gitignore", "/build/\n"},
};

}  // namespace

int new_project(Session& session) {
    const std::string& directory = session.options.file;
    if (::mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) return session.fail(io, directory + ": " + std::strerror(errno));
    struct stat info {};
    for (const ProjectFile& file : kProject)
        if (::lstat((directory + "/" + file.name).c_str(), &info) == 0) return session.fail(io, directory + "/" + file.name + " is there already");
    std::string error, list;
    for (const ProjectFile& file : kProject) {
        if (!write_file(directory + "/" + file.name, file.text, error)) return session.fail(io, error);
        list += (list.empty() ? "" : ",") + json_text(directory + "/" + file.name);
    }
    if (session.options.json)
        std::printf("{\"schema\":1,\"directory\":%s,\"files\":[%s]}\n", json_text(directory).c_str(), list.c_str());
    else
        session.note(directory + " has a kernel and a program that launches it:\n  tegula test " + directory + "/kernel.tile\n  cmake -S " +
                     directory + " -B " + directory + "/build && cmake --build " + directory + "/build && " + directory + "/build/host");
    return ok;
}

}  // namespace tegula_tool
