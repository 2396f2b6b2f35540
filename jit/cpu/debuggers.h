// What gdb and perf are told of emitted code, where the host asked for it (cpu.h, Compiler::load).
#pragma once
#include <memory>
#include <string>

#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>

namespace tegula::cpu {

/// A linker that registers what it links through gdb's interface for JIT compilers. LLVM 19 never takes it back: session and linker live as long as
/// the process.
std::unique_ptr<llvm::orc::ObjectLinkingLayer> linker_known_to_gdb(llvm::orc::ExecutionSession& session);
/// Adds the kernel at `code` and the functions that it calls, made from `object`, to /tmp/perf-PID.map, where perf looks for code that lies in no file. Without that file perf shows addresses.
void tell_perf(const std::string& object, const void* code, const std::string& name);

}  // namespace tegula::cpu
