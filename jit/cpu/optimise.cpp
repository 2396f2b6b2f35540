// Passes and code generation (optimise.h).
#include "jit/cpu/optimise.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

#include <llvm/ADT/StringMap.h>
#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/BasicAliasAnalysis.h>
#include <llvm/Analysis/BlockFrequencyInfo.h>
#include <llvm/Analysis/BranchProbabilityInfo.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/MemorySSA.h>
#include <llvm/Analysis/OptimizationRemarkEmitter.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/Analysis/ProfileSummaryInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScopedNoAliasAA.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/PassManager.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include "jit/cpu/dot_probe.h"
#include "lang/check.h"

namespace tegula::cpu {

namespace {

constexpr const char* kAArch64Layout = "e-m:e-i8:8:32-i16:16:32-i64:64-i128:128-n32:64-S128-Fn32";  // of LLVM 19, on Linux

/// Where LLVM would end the process it throws instead, through frames of its own that have no clean-up: what they held is left to itself.
void throw_instead_of_exit() {
    llvm::install_bad_alloc_error_handler([](void*, const char*, bool) { throw std::bad_alloc(); });
    llvm::install_fatal_error_handler([](void*, const char* reason, bool) { throw InternalError(std::string("LLVM: ") + reason); });
}

void initialise_llvm() {
    static std::once_flag once;  // LLVM's own registry
    std::call_once(once, [] {
        throw_instead_of_exit();
        llvm::InitializeNativeTarget();
        llvm::InitializeNativeTargetAsmPrinter();
    });
}

/// Of a feature that the host has: does it also do what it is wanted for?
bool is_of_use(llvm::StringRef feature) {
    if (feature == "avx512bf16") return dot_bf16_is_two_fmas() && dot_bf16_is_quick();
    return feature != "amx-int8" || may_use_tiles();
}

/// Does what a kernel computes with differ by the feature? Virtual machines hide many others.
bool is_for_kernels(llvm::StringRef feature) {
    for (const char* family : {"sse", "ssse", "avx", "amx", "fma", "f16c", "bmi"})
        if (feature.starts_with(family)) return true;
    return false;
}

void append(std::string& list, const std::string& item) { list += (list.empty() ? "" : ",") + item; }

}  // namespace

TargetChoice choose_target(const CompileOptions& options) {
    TargetChoice out;
    out.triple = options.triple.empty() ? llvm::sys::getProcessTriple() : options.triple;
    out.cpu = options.cpu;
    out.features = options.features;
    out.llvm_version = LLVM_VERSION_STRING;
    if (!options.cpu.empty() || !options.features.empty() || !options.triple.empty()) {
        if (options.cpu.empty()) out.cpu = llvm::Triple(out.triple).isX86() ? "x86-64" : "generic";
        return out;
    }
    out.cpu = llvm::sys::getHostCPUName().str();
    std::vector<std::string> list;
    for (const auto& f : llvm::sys::getHostCPUFeatures()) list.push_back((f.second && is_of_use(f.first()) ? "+" : "-") + f.first().str());
    std::sort(list.begin(), list.end());
    for (const std::string& f : list) append(out.features, f);
    return out;
}

TargetChoice choose_lesser_target(const std::string& cpu, std::string& error) {
    TargetChoice out = choose_target({});
    const auto host = make_target_machine(out, error);
    if (!host) return out;
    if (!host->getMCSubtargetInfo()->isCPUStringValid(cpu)) return error = "LLVM " + out.llvm_version + " knows no processor `" + cpu + "`", out;
    out.cpu = cpu;
    out.features.clear();
    const auto machine = make_target_machine(out, error);
    const auto has = [&](llvm::StringRef feature) { return machine->getMCSubtargetInfo()->checkFeatures("+" + feature.str()); };
    if (llvm::Triple(out.triple).isX86() && !has("64bit")) return error = "`" + cpu + "` has no 64-bit mode", out;
    std::string missing;
    for (const auto& f : llvm::sys::getHostCPUFeatures()) {
        if (!has(f.first()) || (f.second && is_of_use(f.first()))) continue;
        append(out.features, "-" + f.first().str());
        if (!f.second && is_for_kernels(f.first())) append(missing, f.first().str());
    }
    if (!missing.empty()) error = "`" + cpu + "` has what this processor has not: " + missing;
    return out;
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(const TargetChoice& choice, std::string& error) {
    initialise_llvm();
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(choice.triple, error);
    if (!target) return nullptr;
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
    options.FunctionSections = false;
    std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(choice.triple, choice.cpu, choice.features, options, llvm::Reloc::PIC_,
                                                                             llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, true));
    if (!machine) error = "no code generator for " + choice.triple;
    return machine;
}

std::optional<TargetFacts> facts_of(const TargetChoice& choice, const llvm::TargetMachine* machine) {
    const llvm::Triple triple(choice.triple);
    if (!machine && !triple.isAArch64()) return std::nullopt;
    TargetFacts out;
    out.triple = choice.triple;
    out.cpu = choice.cpu;
    out.features = choice.features;
    out.data_layout = machine ? machine->createDataLayout() : llvm::DataLayout(kAArch64Layout);
    const auto has = [&](std::string_view name) {
        const std::string wanted = "+" + std::string(name);
        return machine ? machine->getMCSubtargetInfo()->checkFeatures(wanted)
                       : ("," + choice.features + ",").find("," + wanted + ",") != std::string::npos;
    };
    if (triple.isAArch64()) {
        out.vectors.isa = Isa::aarch64;
        out.vectors.registers = 32;
        out.f16c = out.fma = true;
        out.vector_reason = "of NEON";
    }
    if (triple.isX86()) {
        out.avx2 = has("avx2");
        out.f16c = has("f16c");
        out.fma = has("fma");
        out.bf16 = has("avx512bf16");
        std::string missing;
        for (const char* part : {"avx512f", "avx512bw", "avx512dq", "avx512vl"})
            if (!has(part)) missing += (missing.empty() ? "" : ", ") + std::string(part);
        out.avx512 = missing.empty();
        out.vector_reason = out.avx512 ? "the processor has avx512f, avx512bw, avx512dq, avx512vl"
                            : out.avx2 ? "the processor has avx2, but no " + missing
                                       : "the processor has no avx2";
        out.vectors.isa = Isa::x86;
        out.vectors.bytes = out.avx512 ? 64 : out.avx2 ? 32 : 16;
        out.vectors.registers = out.avx512 ? 32 : 16;
    }
    for (size_t r = 0; r < std::size(kDotRows); ++r)
        if (kDotRows[r].isa() == out.vectors.isa && has(kDotRows[r].feature)) out.vectors.dot_rows |= DotRows{1} << r;
    out.lanes = out.vectors.bytes / 4;
    return out;
}

/// What the passes below ask for. llvm::PassBuilder knows all passes there are, and so would add 15 MB of them to the library.
static void register_analyses(llvm::ModuleAnalysisManager& modules, llvm::FunctionAnalysisManager& functions, llvm::LoopAnalysisManager& loops,
                              llvm::TargetMachine& machine) {
    using namespace llvm;
    modules.registerPass([] { return PassInstrumentationAnalysis(); });
    modules.registerPass([] { return ProfileSummaryAnalysis(); });
    modules.registerPass([&] { return FunctionAnalysisManagerModuleProxy(functions); });
    functions.registerPass([] { return PassInstrumentationAnalysis(); });
    functions.registerPass([&] { return ModuleAnalysisManagerFunctionProxy(modules); });
    functions.registerPass([&] { return LoopAnalysisManagerFunctionProxy(loops); });
    functions.registerPass([&] { return machine.getTargetIRAnalysis(); });
    functions.registerPass([&] { return TargetLibraryAnalysis(TargetLibraryInfoImpl(machine.getTargetTriple())); });
    functions.registerPass([] { return BasicAA(); });
    functions.registerPass([] { return ScopedNoAliasAA(); });
    functions.registerPass([] {
        AAManager all;
        all.registerFunctionAnalysis<BasicAA>();
        all.registerFunctionAnalysis<ScopedNoAliasAA>();
        return all;
    });
    functions.registerPass([] { return AssumptionAnalysis(); });
    functions.registerPass([] { return BlockFrequencyAnalysis(); });
    functions.registerPass([] { return BranchProbabilityAnalysis(); });
    functions.registerPass([] { return DominatorTreeAnalysis(); });
    functions.registerPass([] { return PostDominatorTreeAnalysis(); });
    functions.registerPass([] { return LoopAnalysis(); });
    functions.registerPass([] { return MemorySSAAnalysis(); });
    functions.registerPass([] { return OptimizationRemarkEmitterAnalysis(); });
    functions.registerPass([] { return ScalarEvolutionAnalysis(); });
    loops.registerPass([] { return PassInstrumentationAnalysis(); });
    loops.registerPass([&] { return FunctionAnalysisManagerLoopProxy(functions); });
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine, Watch* watch) {
    struct Managers {  // in the order in which they may go
        llvm::LoopAnalysisManager loops;
        llvm::FunctionAnalysisManager functions;
        llvm::ModuleAnalysisManager modules;
        llvm::FunctionPassManager passes;
    };
    const Fragile<Managers> managers = std::make_unique<Managers>();
    auto& [loops, functions, modules, passes] = *managers;
    register_analyses(modules, functions, loops, machine);

    passes.addPass(llvm::EarlyCSEPass());
    passes.addPass(llvm::SimplifyCFGPass());
    passes.addPass(llvm::InstCombinePass(llvm::InstCombineOptions().setMaxIterations(1)));
    passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), true));
    passes.addPass(llvm::EarlyCSEPass(true));
    passes.addPass(llvm::ADCEPass());
    passes.addPass(llvm::SimplifyCFGPass());
    for (llvm::Function& f : module)
        if (!f.isDeclaration() && !is_over(watch)) passes.run(f, functions);
}

namespace {

/// Empties functions once the compilation is over, so that the passes behind have nothing to do.
class EmptyOnceOver final : public llvm::FunctionPass {
public:
    explicit EmptyOnceOver(Watch* watch) : FunctionPass(id_), watch_(watch) {}
    bool runOnFunction(llvm::Function& f) override {
        if (!is_over(watch_)) return false;
        f.deleteBody();
        llvm::IRBuilder<>(llvm::BasicBlock::Create(f.getContext(), "", &f)).CreateUnreachable();
        return true;
    }

private:
    static char id_;
    Watch* const watch_;
};
char EmptyOnceOver::id_ = 0;  // its address is what LLVM wants

/// LLVM's passes of code generation but for some that take long. LLVM's own switches for them belong to the process, in which others may use LLVM.
class CodePasses final : public llvm::legacy::PassManager {
public:
    CodePasses(bool large, Watch* watch) : large_(large), watch_(watch) {}
    void add(llvm::Pass* pass) override {
        const llvm::StringRef name = pass->getPassName();
        // Moves logic of integers to masks of AVX-512, where nothing of ours lies: it only looks at everything.
        const bool idle = name == "X86 Domain Reassignment Pass";
        // Shares counters among the accesses of a loop: looks at the uses of all loops for each of them.
        const bool slow = large_ && (name == "Loop Strength Reduction" || name == "Canonicalize Freeze Instructions in Loops");
        if (watch_ && !watched_ && pass->getPassKind() == llvm::PT_Function) {  // all of them run on one function after the other
            watched_ = true;
            llvm::legacy::PassManager::add(new EmptyOnceOver(watch_));
        }
        idle || slow ? delete pass : llvm::legacy::PassManager::add(pass);
    }

private:
    const bool large_;
    Watch* const watch_;
    bool watched_ = false;
};

constexpr size_t kManyBlocks = 128;  ///< of a function: some 25 nests of loops

}  // namespace

std::string emit_code(llvm::Module& module, llvm::TargetMachine& machine, bool assembly, Watch* watch) {
    llvm::SmallVector<char, 0> bytes;
    llvm::raw_svector_ostream out(bytes);
    size_t blocks = 0;
    for (const llvm::Function& f : module) blocks = std::max(blocks, f.size());
    const Fragile<CodePasses> passes = std::make_unique<CodePasses>(blocks > kManyBlocks, watch);
    const auto kind = assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
    TEGULA_CHECK(!machine.addPassesToEmitFile(*passes, out, nullptr, kind), "the target emits no object files");
    passes->run(module);
    return std::string(bytes.data(), bytes.size());
}

}  // namespace tegula::cpu
