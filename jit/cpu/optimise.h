// A module of emitted code -> better code -> an object file or assembly text. Separate from session.cpp because the headers are slow.
#pragma once
#include <exception>
#include <memory>
#include <string>

#include <llvm/IR/Module.h>

#include "jit/cpu/codegen.h"

namespace llvm {
class TargetMachine;
}

namespace tegula::cpu {

/// LLVM has no clean-up of its own: what an exception went through may be half changed, and is left alone instead of destroyed.
struct UnlessThrown {
    UnlessThrown() = default;
    template <class T>
    UnlessThrown(std::default_delete<T>) {}
    template <class T>
    void operator()(T* object) const {
        if (std::uncaught_exceptions() == 0) delete object;
    }
};
template <class T>
using Fragile = std::unique_ptr<T, UnlessThrown>;

/// What the host is, or the named CPU with features ("+avx2,-avx512f") of the named triple; all empty: the host.
struct TargetChoice {
    std::string triple, cpu, features, llvm_version;
};
TargetChoice choose_target(const CompileOptions& options);
/// The host as if it were the named CPU; with a reason in `error` where LLVM knows none of that name or the host lacks instructions of it.
TargetChoice choose_lesser_target(const std::string& cpu, std::string& error);
/// Null with a reason when LLVM cannot compile for it.
std::unique_ptr<llvm::TargetMachine> make_target_machine(const TargetChoice& choice, std::string& error);
/// `machine` null: no code generator for it is linked; nothing then, but for AArch64.
std::optional<TargetFacts> facts_of(const TargetChoice& choice, const llvm::TargetMachine* machine);
/// A short list of passes: loops are laid out by the emitter, so that there is nothing to vectorise or unroll.
/// Once `watch` (may be null) is over, functions are left as they are here, and compiled as if they were empty there: both soon return, and nothing
/// of LLVM's is left behind.
void optimise(llvm::Module& module, llvm::TargetMachine& machine, Watch* watch);
std::string emit_code(llvm::Module& module, llvm::TargetMachine& machine, bool assembly, Watch* watch);

}  // namespace tegula::cpu
