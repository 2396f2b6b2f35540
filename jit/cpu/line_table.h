// Source positions of emitted code as debug information: the kernel's name and a line table, so that gdb and perf speak of `.tile` files. Made only
// where a debugger was asked for (cpu.h, CompileOptions::lines).
#pragma once
#include <map>
#include <vector>

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/DebugLoc.h>

#include "lang/ir.h"
#include "lang/source.h"

namespace tegula::cpu {

class LineTable {
public:
    /// Makes `code` known as the kernel `fn.name`.
    LineTable(llvm::Module& module, llvm::Function& code, const ir::Function& fn, const SourceMap& sources);
    /// The position of what is emitted next; of an invalid span: the kernel's first.
    llvm::DebugLoc at(Span span);
    /// Instructions of the kernel's blocks that become a function of their own keep their lines, under the kernel's name.
    void move(llvm::Function& part, const std::vector<llvm::BasicBlock*>& blocks);
    /// After the last instruction.
    void finish() { builder_.finalize(); }

private:
    llvm::DIFile* file(uint32_t id);
    llvm::DISubprogram* subprogram(const std::string& name);

    const SourceMap& sources_;
    llvm::DIBuilder builder_;
    std::map<uint32_t, llvm::DIFile*> files_;
    llvm::DISubprogram* kernel_ = nullptr;
    Span first_;
};

}  // namespace tegula::cpu
