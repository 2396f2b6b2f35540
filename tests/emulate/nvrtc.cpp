// NVRTC's interface over the system's C++ compiler: the text of a kernel becomes C++ (rewrite.h), and that a shared library for this CPU
// (cuda_on_cpu.h).
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/emulate/rewrite.h"

namespace {

using namespace tegula;

struct Program {
    std::string source, log, image, target;
};

/// What this NVRTC compiles for: all that version 13.0 does, or up to $TEGULA_ON_CPU_NVRTC.
std::vector<int> known() {
    const char* newest = std::getenv("TEGULA_ON_CPU_NVRTC");
    std::vector<int> out;
    for (const int arch : {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121})
        if (!newest || !*newest || arch <= std::atoi(newest)) out.push_back(arch);
    return out;
}

bool is_ptx(const Program& program) { return program.target.rfind("compute_", 0) == 0; }

std::string slurp(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

/// Where $TEGULA_ON_CPU_KEPT, a folder, keeps what `text` became; empty without one. Architectures share most texts.
std::string kept_path(const std::string& text) {
    const char* folder = std::getenv("TEGULA_ON_CPU_KEPT");
    if (!folder || !*folder) return {};
    std::error_code none;
    std::filesystem::create_directories(folder, none);
    return std::string(folder) + "/" + std::to_string(std::hash<std::string>{}(text));
}

/// The library that was kept for just this text, or empty.
std::string kept(const std::string& path, const std::string& text) {
    std::string all = path.empty() ? "" : slurp(path);
    return all.size() > text.size() && all.compare(0, text.size(), text) == 0 ? all.substr(text.size()) : "";
}

/// Whole or not at all, whoever reads or writes the same.
void keep(const std::string& path, const std::string& text, const std::string& library) {
    if (path.empty()) return;
    const std::string part = path + "." + std::to_string(getpid()) + "." + std::to_string(gettid());
    const bool written = static_cast<bool>(std::ofstream(part, std::ios::binary) << text << library << std::flush);
    if (!written || std::rename(part.c_str(), path.c_str()) != 0) unlink(part.c_str());
}

/// `source` as a shared library; empty, with the compiler's words in `log`, where it does not compile.
std::string compile(const std::string& source, std::string& log) {
    const char* level = std::getenv("TEGULA_ON_CPU_O");
    // Without the standard libraries, which this process has: a linker that reads them takes a third of the time. No exception passes a kernel, whose
    // tables for them would take another quarter.
    const std::string command = std::string(TEGULA_HOST_CXX) + " -std=c++17 -O" + (level ? level : "0") +
                                " -w -fwrapv -fno-strict-aliasing -ffp-contract=off -fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables"
                                " -fPIC -shared -nostdlib -fno-gnu-unique -include " +
                                on_cpu::header_path();
    const std::string text = command + on_cpu::header_text() + source, path = kept_path(text);
    if (std::string library = kept(path, text); !library.empty()) return library;
    char folder[] = "/tmp/tegula_on_cpu_XXXXXX";
    if (!mkdtemp(folder)) return log = "no folder for a kernel", "";
    const std::string base = std::string(folder) + "/kernel";
    std::ofstream(base + ".cpp") << source;
    const int status = std::system((command + " -o " + base + ".so " + base + ".cpp -lgcc > " + base + ".log 2>&1").c_str());
    log = slurp(base + ".log");
    const std::string library = status == 0 ? slurp(base + ".so") : "";
    for (const char* end : {".cpp", ".so", ".log"}) unlink((base + end).c_str());
    rmdir(folder);
    if (!library.empty()) keep(path, text, library);
    return library;
}

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
int nvrtcGetNumSupportedArchs(int* count) { return *count = static_cast<int>(known().size()), 0; }
int nvrtcGetSupportedArchs(int* archs) {
    for (const int arch : known()) *archs++ = arch;
    return 0;
}
const char* nvrtcGetErrorString(int code) { return code ? "the text does not compile on the CPU" : "success"; }
int nvrtcCreateProgram(Program** program, const char* source, const char*, int, const char* const*, const char* const*) {
    *program = new Program{source, "", "", ""};
    return 0;
}
int nvrtcDestroyProgram(Program** program) {
    delete *program;
    *program = nullptr;
    return 0;
}
int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
    constexpr const char* kTarget = "--gpu-architecture=";
    for (int i = 0; i < count; ++i)
        if (std::strncmp(options[i], kTarget, std::strlen(kTarget)) == 0) program->target = options[i] + std::strlen(kTarget);
    const std::vector<int> archs = known();
    if (std::find(archs.begin(), archs.end(), std::atoi(program->target.c_str() + program->target.find('_') + 1)) == archs.end())
        return program->log = "invalid value for --gpu-architecture: " + program->target, 5;
    program->image = compile(
        on_cpu::rewrite(program->source) + "\nextern \"C\" void cpu_entry(void** p) { cpu_call(" + on_cpu::entry_of(program->source) + ", p); }\n",
        program->log);
    const bool compiled = !program->image.empty();
    if (const char* remarks = std::getenv("TEGULA_ON_CPU_LOG")) program->log += remarks;
    // The driver is not told how long an image is: the length stands in front, with what it was compiled for.
    char head[64];
    std::snprintf(head, sizeof head, "TEGULA_ON_CPU %-12s %016zx ", program->target.c_str(), program->image.size());
    program->image.insert(0, head);
    return compiled ? 0 : 6;
}
int nvrtcGetProgramLogSize(Program* program, size_t* size) { return *size = program->log.size() + 1, 0; }
int nvrtcGetProgramLog(Program* program, char* log) { return std::memcpy(log, program->log.c_str(), program->log.size() + 1), 0; }
int nvrtcGetCUBINSize(Program* program, size_t* size) { return *size = is_ptx(*program) ? 0 : program->image.size(), 0; }
int nvrtcGetCUBIN(Program* program, char* image) { return std::memcpy(image, program->image.data(), program->image.size()), 0; }
int nvrtcGetPTXSize(Program* program, size_t* size) { return *size = is_ptx(*program) ? program->image.size() : 0, 0; }
int nvrtcGetPTX(Program* program, char* image) { return nvrtcGetCUBIN(program, image); }
}
