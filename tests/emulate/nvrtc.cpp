// NVRTC's interface over the system's C++ compiler: the text of a kernel becomes a shared library for this CPU (cuda_on_cpu.h). asm statements become
// calls with their text, so that what is checked is the PTX that a GPU would get.
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

namespace {

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

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

bool word_at(const std::string& s, size_t at, const char* word) {
    const size_t n = std::strlen(word);
    return s.compare(at, n, word) == 0 && (at == 0 || !is_word(s[at - 1])) && (at + n >= s.size() || !is_word(s[at + n]));
}

void skip_blanks(const std::string& s, size_t& at) {
    while (at < s.size() && std::strchr(" \t\n", s[at])) ++at;
}

/// A string literal with its quotes, or a balanced group in parentheses.
std::string take(const std::string& s, size_t& at) {
    const size_t from = at;
    if (s[at] == '"') {
        for (++at; at < s.size() && s[at] != '"'; ++at)
            if (s[at] == '\\') ++at;
        ++at;
        return s.substr(from, at - from);
    }
    int depth = 0;
    do {
        if (s[at] == '"') {
            take(s, at);
            continue;
        }
        depth += s[at] == '(' ? 1 : s[at] == ')' ? -1 : 0;
        ++at;
    } while (at < s.size() && depth > 0);
    return s.substr(from, at - from);
}

/// asm [volatile] (text : outputs : inputs : clobbers), `at` behind the opening parenthesis; leaves `at` behind the closing one.
std::string rewrite_asm(const std::string& s, size_t& at) {
    std::string text, operands;
    int section = 0;
    for (skip_blanks(s, at); at < s.size() && s[at] != ')'; skip_blanks(s, at)) {
        if (s[at] == ':') {
            ++section;
            ++at;
        } else if (s[at] == ',') {
            ++at;
        } else if (section == 0 || section == 3) {
            const std::string literal = take(s, at);
            if (section == 0) text += literal + " ";
        } else {
            const std::string constraint = take(s, at);
            skip_blanks(s, at);
            operands += std::string(", ") + (section == 1 ? "cpu_out(" : "cpu_in(") + constraint + ", " + take(s, at) + ")";
        }
    }
    ++at;
    return "CPU_ASM(" + text + operands + ")";
}

std::string rewrite(const std::string& s) {
    std::string out;
    for (size_t at = 0; at < s.size();) {
        if (s[at] == '"') {
            out += take(s, at);
        } else if (word_at(s, at, "asm")) {
            at += 3;
            skip_blanks(s, at);
            if (word_at(s, at, "volatile")) at += 8;
            skip_blanks(s, at);
            ++at;
            out += rewrite_asm(s, at);
        } else if (word_at(s, at, "extern") && s.compare(at, 17, "extern __shared__") == 0) {
            const size_t end = s.find(';', at), bracket = s.rfind('[', end);
            size_t name = bracket;
            while (name > at && is_word(s[name - 1])) --name;
            out += "unsigned char* const " + s.substr(name, bracket - name) + " = cpu_machine->shared";
            at = end;
        } else if (word_at(s, at, "__shared__")) {
            out += "static";
            at += 10;
        } else {
            out += s[at++];
        }
    }
    return out;
}

/// The name behind `extern "C" __global__ void ..`.
std::string entry_of(const std::string& s) {
    size_t at = s.find("extern \"C\" __global__");
    if (at == std::string::npos) return {};
    at = s.find("void", at) + 4;
    skip_blanks(s, at);
    for (const std::string bound : {"__launch_bounds__", "TEGULA_BOUNDS"})
        if (word_at(s, at, bound.c_str())) {
            at += bound.size();
            take(s, at);
        }
    skip_blanks(s, at);
    size_t end = at;
    while (end < s.size() && is_word(s[end])) ++end;
    return s.substr(at, end - at);
}

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
    const std::string header = std::string(TEGULA_EMULATE_DIR) + "/cuda_on_cpu.h";
    const char* level = std::getenv("TEGULA_ON_CPU_O");
    // Without the standard libraries, which this process has: a linker that reads them takes a third of the time. No exception passes a kernel, whose
    // tables for them would take another quarter.
    const std::string command = std::string(TEGULA_HOST_CXX) + " -std=c++17 -O" + (level ? level : "0") +
                                " -w -fwrapv -fno-strict-aliasing -ffp-contract=off -fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables"
                                " -fPIC -shared -nostdlib -fno-gnu-unique -include " +
                                header;
    const std::string text = command + slurp(header) + source, path = kept_path(text);
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
        rewrite(program->source) + "\nextern \"C\" void cpu_entry(void** p) { cpu_call(" + entry_of(program->source) + ", p); }\n", program->log);
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
