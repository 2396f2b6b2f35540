// Device text as a library of this process: rewritten and compiled as the played GPU does it (tests/emulate/rewrite.h), without its machine.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#define TEGULA_ON_CPU_MACHINE
#include "tests/emulate/cuda_on_cpu.h"
#include "tests/emulate/rewrite.h"

namespace tegula::test {

class DeviceOnHost {
public:
    /// Compiles device text and C++ that calls it; `name` tells libraries apart: a file that is loaded already would not be loaded again.
    bool build(const std::string& name, const std::string& device, const std::string& host) {
        const std::string file = std::string(TEGULA_BINARY_DIR) + "/" + name;
        std::ofstream(file + ".cpp") << "#include \"" + on_cpu::header_path() + "\"\n" + on_cpu::rewrite(device) + host;
        for (const char* compiler : {"g++", "clang++", "clang++-19", "c++"}) {
            if (std::system((std::string("command -v ") + compiler + " > /dev/null 2>&1").c_str()) != 0) continue;
            found_ = true;
            const std::string command =
                std::string(compiler) + " -std=c++17 -O1 -w -fno-strict-aliasing -ffp-contract=off -shared -fPIC -o " + file + ".so " + file + ".cpp";
            if (std::system(command.c_str()) != 0) return false;
            handle_ = dlopen((file + ".so").c_str(), RTLD_NOW);
            if (!handle_) return false;
            static CpuMachine machine{};
            machine.directed = directed;
            machine.fail = [](const char* why) { ADD_FAILURE() << why; };
            *static_cast<CpuMachine**>(dlsym(handle_, "cpu_machine")) = &machine;
            return true;
        }
        return false;
    }
    bool found() const { return found_; }  ///< a compiler
    void* symbol(const std::string& name) const { return dlsym(handle_, name.c_str()); }
    void close() {
        if (handle_) dlclose(handle_);
        handle_ = nullptr;
    }

private:
    [[gnu::noinline]] static double directed(char op, double a, double b, double c, int up) {
        volatile double x = a, y = b, z = c;
        std::fesetround(up ? FE_UPWARD : FE_DOWNWARD);
        volatile double r = op == 'f' ? std::fma(x, y, z) : op == '/' ? x / y : std::sqrt(x);
        std::fesetround(FE_TONEAREST);
        return r;
    }

    bool found_ = false;
    void* handle_ = nullptr;
};

}  // namespace tegula::test
