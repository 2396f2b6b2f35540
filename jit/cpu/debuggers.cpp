// gdb and perf (debuggers.h).
#include "jit/cpu/debuggers.h"

#include <fcntl.h>
#include <unistd.h>

#include <llvm/ExecutionEngine/Orc/DebugObjectManagerPlugin.h>
#include <llvm/ExecutionEngine/Orc/EPCDebugObjectRegistrar.h>
#include <llvm/ExecutionEngine/Orc/TargetProcess/JITLoaderGDB.h>
#include <llvm/Object/ELFObjectFile.h>

namespace tegula::cpu {

std::unique_ptr<llvm::orc::ObjectLinkingLayer> linker_known_to_gdb(llvm::orc::ExecutionSession& session) {
    namespace orc = llvm::orc;
    auto linker = std::make_unique<orc::ObjectLinkingLayer>(session);
    auto gdb = std::make_unique<orc::EPCDebugObjectRegistrar>(session, orc::ExecutorAddr::fromPtr(&llvm_orc_registerJITLoaderGDBWrapper));
    linker->addPlugin(std::make_unique<orc::DebugObjectManagerPlugin>(session, std::move(gdb), true, true));
    return linker;
}

namespace {

uint64_t size_of_kernel(const std::string& object) {
    auto file = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "kernel"));
    if (!file) return llvm::consumeError(file.takeError()), 0;
    for (const llvm::object::ELFSymbolRef symbol : llvm::cast<llvm::object::ELFObjectFileBase>(**file).symbols()) {
        auto name = symbol.getName();
        if (!name)
            llvm::consumeError(name.takeError());
        else if (*name == "kernel")
            return symbol.getSize();
    }
    return 0;
}

}  // namespace

void tell_perf(const std::string& object, const void* code, const std::string& name) {
    const std::string path = "/tmp/perf-" + std::to_string(::getpid()) + ".map";
    const int map = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (map < 0) return;
    char line[48];
    std::snprintf(line, sizeof line, "%zx %zx ", reinterpret_cast<size_t>(code), static_cast<size_t>(size_of_kernel(object)));
    const std::string text = line + name + "\n";
    [[maybe_unused]] const ssize_t written = ::write(map, text.data(), text.size());
    ::close(map);
}

}  // namespace tegula::cpu
