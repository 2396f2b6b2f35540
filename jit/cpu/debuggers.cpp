// gdb and perf (debuggers.h).
#include "jit/cpu/debuggers.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

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

struct Part {
    std::string symbol;
    uint64_t at = 0, bytes = 0;  ///< in the object's code
};

/// The kernel and the functions that it calls, which lie in one section.
std::vector<Part> functions_of(const std::string& object) {
    std::vector<Part> out;
    auto file = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "kernel"));
    if (!file) return llvm::consumeError(file.takeError()), out;
    for (const llvm::object::ELFSymbolRef symbol : llvm::cast<llvm::object::ELFObjectFileBase>(**file).symbols()) {
        if (symbol.getELFType() != llvm::ELF::STT_FUNC || symbol.getSize() == 0) continue;
        auto name = symbol.getName();
        auto at = symbol.getValue();
        if (name && at) out.push_back({name->str(), *at, symbol.getSize()});
        if (!name) llvm::consumeError(name.takeError());
        if (!at) llvm::consumeError(at.takeError());
    }
    return out;
}

}  // namespace

void tell_perf(const std::string& object, const void* code, const std::string& name) {
    const std::vector<Part> parts = functions_of(object);
    const auto kernel = std::find_if(parts.begin(), parts.end(), [](const Part& p) { return p.symbol == "kernel"; });
    const std::string path = "/tmp/perf-" + std::to_string(::getpid()) + ".map";
    const int map = kernel == parts.end() ? -1 : ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (map < 0) return;
    std::string text;
    for (const Part& p : parts) {
        char line[48];
        std::snprintf(line, sizeof line, "%zx %zx ", reinterpret_cast<size_t>(code) + p.at - kernel->at, static_cast<size_t>(p.bytes));
        text += line + name + (p.symbol == "kernel" ? "" : ": " + p.symbol) + "\n";
    }
    [[maybe_unused]] const ssize_t written = ::write(map, text.data(), text.size());
    ::close(map);
}

}  // namespace tegula::cpu
