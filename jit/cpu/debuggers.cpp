// gdb (debuggers.h).
#include "jit/cpu/debuggers.h"

#include <llvm/ExecutionEngine/Orc/DebugObjectManagerPlugin.h>
#include <llvm/ExecutionEngine/Orc/EPCDebugObjectRegistrar.h>
#include <llvm/ExecutionEngine/Orc/TargetProcess/JITLoaderGDB.h>

namespace tegula::cpu {

std::unique_ptr<llvm::orc::ObjectLinkingLayer> linker_known_to_gdb(llvm::orc::ExecutionSession& session) {
    namespace orc = llvm::orc;
    auto linker = std::make_unique<orc::ObjectLinkingLayer>(session);
    auto gdb = std::make_unique<orc::EPCDebugObjectRegistrar>(session, orc::ExecutorAddr::fromPtr(&llvm_orc_registerJITLoaderGDBWrapper));
    linker->addPlugin(std::make_unique<orc::DebugObjectManagerPlugin>(session, std::move(gdb), true, true));
    return linker;
}

}  // namespace tegula::cpu
