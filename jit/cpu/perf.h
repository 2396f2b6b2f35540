// What perf is told of emitted code, where the host asked for it (cpu.h, Compiler::load).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>


namespace tegula::cpu {

/// Two files: /tmp/perf-PID.map, where perf looks for the names of code that lies in no file, and jit-PID.dump, from which `perf inject --jit`
/// takes the code and its lines (jitdump-specification.txt of Linux' tools/perf). Files that cannot be written are left out; perf shows addresses
/// then.
class Perf {
public:
    Perf();
    ~Perf();
    Perf(const Perf&) = delete;
    Perf& operator=(const Perf&) = delete;
    /// The kernel at `code` and the functions that it calls, made from `object`. One call at a time.
    void tell(const std::string& object, const void* code, const std::string& name);

private:
    void write_record(uint32_t kind, std::string_view body);

    int dump_ = -1;
    void* marker_ = nullptr;  ///< a page of the file that is mapped executable: how `perf record` learns of it
    int process_;             ///< a forked child's code is its own
    uint64_t told_ = 0;
};

}  // namespace tegula::cpu
