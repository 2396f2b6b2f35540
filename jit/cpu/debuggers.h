// What gdb is told of emitted code, where the host asked for it (cpu.h, Compiler::load).
#pragma once
#include <memory>

#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>

namespace tegula::cpu {

/// A linker that registers what it links through gdb's interface for JIT compilers. LLVM 19 never takes it back: session and linker live as long as
/// the process.
std::unique_ptr<llvm::orc::ObjectLinkingLayer> linker_known_to_gdb(llvm::orc::ExecutionSession& session);

}  // namespace tegula::cpu
