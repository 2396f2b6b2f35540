// Device text as a library of this process: rewritten and compiled as the played GPU does it (tests/emulate/rewrite.h), without its machine.
#pragma once
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <string>

#define TEGULA_ON_CPU_MACHINE
#include "tests/emulate/cuda_on_cpu.h"
#include "tests/emulate/rewrite.h"
#include "tests/unit/host_compiler.h"

namespace tegula::test {

class DeviceOnHost {
public:
    /// Compiles device text and C++ that calls it; `name` tells libraries apart: a file that is loaded already would not be loaded again.
    bool build(const std::string& name, const std::string& device, const std::string& host) {
        if (!library_.build(name, "#include \"" + on_cpu::header_path() + "\"\n" + on_cpu::rewrite(device) + host, "-O1")) return false;
        static CpuMachine machine{};
        machine.directed = directed;
        machine.fail = [](const char* why) { ADD_FAILURE() << why; };
        *static_cast<CpuMachine**>(library_.symbol("cpu_machine")) = &machine;
        return true;
    }
    bool found() const { return library_.found(); }  ///< a compiler
    void* symbol(const std::string& name) const { return library_.symbol(name); }
    void close() { library_.close(); }

private:
    [[gnu::noinline]] static double directed(char op, double a, double b, double c, int up) {
        volatile double x = a, y = b, z = c;
        std::fesetround(up ? FE_UPWARD : FE_DOWNWARD);
        volatile double r = op == 'f' ? std::fma(x, y, z) : op == '/' ? x / y : std::sqrt(x);
        std::fesetround(FE_TONEAREST);
        return r;
    }

    HostLibrary library_;
};

}  // namespace tegula::test
