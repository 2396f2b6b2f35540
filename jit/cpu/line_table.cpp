// Line tables (line_table.h).
#include "jit/cpu/line_table.h"

#include <filesystem>

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/IR/Module.h>

namespace tegula::cpu {

LineTable::LineTable(llvm::Module& module, llvm::Function& code, const ir::Function& fn, const SourceMap& sources)
    : sources_(sources), builder_(module) {
    module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
    module.addModuleFlag(llvm::Module::Warning, "Dwarf Version", 4);
    for (ir::InstId id : fn.block(fn.body).insts)
        if (!first_.valid()) first_ = fn.inst(id).span;
    llvm::DIFile* home = file(first_.file);
    builder_.createCompileUnit(llvm::dwarf::DW_LANG_C99, home, "tegula", true, "", 0);
    kernel_ = subprogram(fn.name);
    code.setSubprogram(kernel_);
    code.addFnAttr("frame-pointer", "all");  // call chains of perf
}

llvm::DISubprogram* LineTable::subprogram(const std::string& name) {
    llvm::DIFile* home = file(first_.file);
    const unsigned line = first_.valid() ? sources_.line_col(first_.file, first_.begin).line : 0;
    auto* type = builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
    // Without the symbol's name, which is that of every kernel and which gdb would prefer.
    return builder_.createFunction(home, name, "", home, line, type, line, llvm::DINode::FlagPrototyped,
                                   llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagOptimized);
}

void LineTable::move(llvm::Function& part, const std::vector<llvm::BasicBlock*>& blocks) {
    llvm::DISubprogram* own = subprogram(kernel_->getName().str());
    part.setSubprogram(own);
    std::map<llvm::DIFile*, llvm::DIScope*> scopes{{own->getFile(), own}};
    for (llvm::BasicBlock* block : blocks)
        for (llvm::Instruction& i : *block) {
            const llvm::DebugLoc& at = i.getDebugLoc();
            if (!at) continue;
            llvm::DIFile* of = at->getFile();
            llvm::DIScope*& scope = scopes[of];
            if (!scope) scope = builder_.createLexicalBlockFile(own, of);
            i.setDebugLoc(llvm::DILocation::get(own->getContext(), at.getLine(), at.getCol(), scope));
        }
}

llvm::DIFile* LineTable::file(uint32_t id) {
    llvm::DIFile*& known = files_[id];
    if (known) return known;
    std::error_code none;
    const std::string name = id ? std::string(sources_.name(id)) : "?";
    return known = builder_.createFile(name, std::filesystem::current_path(none).string());
}

llvm::DebugLoc LineTable::at(Span span) {
    if (!span.valid()) span = first_;
    if (!span.valid()) return llvm::DILocation::get(kernel_->getContext(), 0, 0, kernel_);
    const LineCol at = sources_.line_col(span.file, span.begin);
    llvm::DIScope* scope = kernel_;
    if (span.file != first_.file) scope = builder_.createLexicalBlockFile(kernel_, file(span.file));
    return llvm::DILocation::get(kernel_->getContext(), at.line, at.column, scope);
}

}  // namespace tegula::cpu
