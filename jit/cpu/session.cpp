// Compiler (cpu.h): one LLVM context per kernel while it is compiled, one ORC session for the code of all. Each kernel has a JITDylib of its own,
// removed with the last user.
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>

#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/IR/DiagnosticHandler.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Target/TargetMachine.h>

#include "jit/cpu/debuggers.h"
#include "jit/cpu/narrow_products.h"
#include "jit/cpu/optimise.h"
#include "jit/cpu/perf.h"

namespace tegula::cpu {

namespace {

std::string text_of(llvm::Error error) { return llvm::toString(std::move(error)); }

/// C functions that code generation calls by itself.
std::vector<HostFunction> generated_calls() {
    const auto at = [](auto* f) { return reinterpret_cast<const void*>(f); };
    return {{"memcpy", at(&std::memcpy)},
            {"memset", at(&std::memset)},
            {"memmove", at(&std::memmove)},
            {"rint", at(static_cast<double (*)(double)>(&std::rint))},
            {"rintf", at(static_cast<float (*)(float)>(&std::rint))}};
}

/// Errors of LLVM go nowhere by themselves: what matters is checked by us.
struct Quiet : llvm::DiagnosticHandler {
    bool handleDiagnostics(const llvm::DiagnosticInfo&) override { return true; }
};

struct Unit {
    Fragile<llvm::LLVMContext> context;
    Fragile<llvm::Module> module;
    Fragile<llvm::TargetMachine> machine;
    uint64_t scratch_bytes = 0;
};

std::string module_text(const llvm::Module& module) {
    std::string out;
    llvm::raw_string_ostream stream(out);
    module.print(stream, nullptr);
    return out;
}

Unit emit(ir::Function fn, const CompileOptions& options, TargetFacts facts, Fragile<llvm::TargetMachine> machine) {
    Unit out;
    out.machine = std::move(machine);
    if (options.bounds) facts.lanes = 4;
    out.context = std::make_unique<llvm::LLVMContext>();
    out.context->setDiscardValueNames(true);
    out.context->setDiagnosticHandler(std::make_unique<Quiet>());
    out.module = std::make_unique<llvm::Module>(fn.name, *out.context);
    out.module->setTargetTriple(facts.triple);
    out.module->setDataLayout(facts.data_layout);
    transpose_narrow_products(fn);
    const Plan plan = make_plan(fn, options);
    out.scratch_bytes = plan.scratch_bytes;
    try {
        Codegen(*out.module, fn, plan, options, facts).run();
    } catch (const Cancelled&) {
        return {};
    }
    std::string problem;
    llvm::raw_string_ostream stream(problem);
    if (llvm::verifyModule(*out.module, &stream)) TEGULA_CHECK(false, "emitted code is malformed: " + problem + "\n" + module_text(*out.module));
    return out;
}

}  // namespace

struct Compiler::State {
    std::string problem;
    TargetChoice usual;
    std::optional<TargetFacts> facts;  ///< of `usual`
    TargetInfo info;
    std::mutex mutex;                                            ///< guards what follows
    std::vector<std::unique_ptr<llvm::TargetMachine>> machines;  ///< for `usual`, idle: making one takes a large part of the time of a small kernel
    std::unique_ptr<llvm::orc::ExecutionSession> session;
    std::unique_ptr<llvm::orc::ObjectLinkingLayer> linker, shown_linker;  ///< the second one, made when wanted, tells gdb
    std::unique_ptr<Perf> perf;                                           ///< made with it
    llvm::orc::JITDylib* functions = nullptr;
    uint64_t loaded = 0;
    bool memory_ended = false;  ///< while something was linked, as the session said

    explicit State(const std::string& cpu) : usual(cpu.empty() ? choose_target({}) : choose_lesser_target(cpu, problem)) {
        if (!problem.empty()) problem = "TEGULA_CPU: " + problem;
        std::string error;
        info.cpu = usual.cpu;
        info.features = usual.features;
        info.llvm_version = usual.llvm_version;
        info.host = cpu.empty() ? usual.cpu : choose_target({}).cpu;
        auto machine = problem.empty() ? make_target_machine(usual, error) : nullptr;
        if (!machine) return;
        facts = facts_of(usual, machine.get());
        machines.push_back(std::move(machine));
        info.vectors = facts->vectors;
        info.vector_reason = facts->vector_reason;
    }
    ~State() {
        if (!session) return;
        if (shown_linker) {  // LLVM 19 takes nothing back from gdb, which may look at it any time
            (void)session.release(), (void)linker.release(), (void)shown_linker.release();
            return;
        }
        if (llvm::Error e = session->endSession()) llvm::consumeError(std::move(e));
    }
    Unit unit(const ir::Function& fn, const CompileOptions& options, std::string& error) {
        if (!is_usual(options)) {
            const TargetChoice choice = choose_target(options);
            Fragile<llvm::TargetMachine> machine = make_target_machine(choice, error);
            const auto known = facts_of(choice, machine.get());
            return known ? emit(fn, options, *known, std::move(machine)) : Unit{};
        }
        if (!problem.empty()) return error = problem, Unit{};
        if (!facts) return make_target_machine(usual, error), Unit{};  // says why there is none
        Fragile<llvm::TargetMachine> machine = idle_machine(error);
        return machine ? emit(fn, options, *facts, std::move(machine)) : Unit{};
    }
    static bool is_usual(const CompileOptions& options) { return options.cpu.empty() && options.features.empty() && options.triple.empty(); }
    std::unique_ptr<llvm::TargetMachine> idle_machine(std::string& error) {
        std::unique_lock lock(mutex);
        if (machines.empty()) return lock.unlock(), make_target_machine(usual, error);
        auto machine = std::move(machines.back());
        machines.pop_back();
        return machine;
    }
    /// Of a compilation that came to its end: others leave their machine to itself.
    void give_back(Fragile<llvm::TargetMachine> machine) {
        std::lock_guard guard(mutex);
        machines.emplace_back(machine.release());
    }
    std::string open();
    /// Called under the mutex. `keep` holds the code, and this as long as any code is held.
    static Result<LoadedCode> link(const std::shared_ptr<State>& state, const ObjectCode& code, const std::string& shown_as,
                                   std::shared_ptr<void>& keep);
    void remove(const llvm::orc::ExecutionSession& of, llvm::orc::JITDylib& dylib);
    /// After something was thrown through the session, which may still hold locks of its own: it and its code stay for good.
    void abandon() { (void)session.release(), (void)linker.release(), (void)shown_linker.release(); }
};

/// Starts the ORC session; called under the mutex. An error, or empty.
std::string Compiler::State::open() {
    namespace orc = llvm::orc;
    if (session) return {};
    auto process = orc::SelfExecutorProcessControl::Create(nullptr, std::make_unique<orc::InPlaceTaskDispatcher>());
    if (!process) return text_of(process.takeError());
    auto fresh = std::make_unique<orc::ExecutionSession>(std::move(*process));
    fresh->setErrorReporter([this](llvm::Error e) {
        llvm::handleAllErrors(std::move(e),
                              [&](const llvm::ErrorInfoBase& one) { memory_ended |= one.convertToErrorCode() == std::errc::not_enough_memory; });
    });
    auto layer = std::make_unique<orc::ObjectLinkingLayer>(*fresh);
    orc::JITDylib& dylib = fresh->createBareJITDylib("functions");
    orc::SymbolMap symbols;
    const auto add = [&](const HostFunction& f) {
        symbols[fresh->intern(f.name)] = {orc::ExecutorAddr::fromPtr(f.address), llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    };
    for (const HostFunction& f : generated_calls()) add(f);
    for (const HostFunction& f : host_functions()) add(f);
    if (llvm::Error e = dylib.define(orc::absoluteSymbols(std::move(symbols)))) {
        std::string text = text_of(std::move(e));
        llvm::consumeError(fresh->endSession());
        return text;
    }
    session = std::move(fresh);
    linker = std::move(layer);
    functions = &dylib;
    return {};
}

Compiler::Compiler(const std::string& cpu) : state_(std::make_shared<State>(cpu)) {}
Compiler::~Compiler() = default;

const TargetInfo& Compiler::target() const { return state_->info; }
const std::string& Compiler::problem() const { return state_->problem; }

Result<ObjectCode> Compiler::compile(const ir::Function& fn, const CompileOptions& options) {
    Result<ObjectCode> out;
    Unit unit = state_->unit(fn, options, out.error);
    if (!unit.machine) return out;
    optimise(*unit.module, *unit.machine, options.watch);
    ObjectCode code{emit_code(*unit.module, *unit.machine, false, options.watch), unit.scratch_bytes};
    if (is_over(options.watch)) return out;
    out.value = std::move(code);
    if (State::is_usual(options)) state_->give_back(std::move(unit.machine));
    return out;
}

Result<std::string> Compiler::text(const ir::Function& fn, const CompileOptions& options, std::string_view kind) {
    Result<std::string> out;
    Unit unit = state_->unit(fn, options, out.error);
    if (!unit.module || (!unit.machine && kind != "llvm")) return out;
    for (llvm::Function& f : *unit.module) f.removeFnAttr("frame-pointer");  // line tables bring it for call chains; launches do without
    if (kind != "llvm") optimise(*unit.module, *unit.machine, options.watch);
    std::string text = kind == "asm" ? emit_code(*unit.module, *unit.machine, true, options.watch) : module_text(*unit.module);
    if (!is_over(options.watch)) out.value = std::move(text);
    return out;
}

/// Removes the code, in whatever thread lets go last.
void Compiler::State::remove(const llvm::orc::ExecutionSession& of, llvm::orc::JITDylib& dylib) {
    std::lock_guard guard(mutex);
    if (session.get() != &of) return;
    try {
        if (llvm::Error e = session->removeJITDylib(dylib)) llvm::consumeError(std::move(e));
    } catch (...) {
        abandon();
    }
}

Result<LoadedCode> Compiler::State::link(const std::shared_ptr<State>& state, const ObjectCode& code, const std::string& shown_as,
                                         std::shared_ptr<void>& keep) {
    namespace orc = llvm::orc;
    Result<LoadedCode> out;
    out.error = state->open();
    if (!out.error.empty()) return out;
    orc::ExecutionSession& session = *state->session;
    orc::JITDylib& dylib = session.createBareJITDylib("kernel" + std::to_string(state->loaded++));
    dylib.addToLinkOrder(*state->functions);
    keep = std::shared_ptr<void>(&dylib, [state, &session, shown = !shown_as.empty()](void* d) {
        if (!shown) state->remove(session, *static_cast<orc::JITDylib*>(d));
    });
    if (!shown_as.empty() && !state->shown_linker) state->shown_linker = linker_known_to_gdb(session), state->perf = std::make_unique<Perf>();
    orc::ObjectLinkingLayer& linker = shown_as.empty() ? *state->linker : *state->shown_linker;
    llvm::Error failure = linker.add(dylib, llvm::MemoryBuffer::getMemBufferCopy(code.object, "kernel"));
    if (!failure) {
        auto symbol = session.lookup({&dylib}, session.intern("kernel"));
        if (symbol) {
            out.value = LoadedCode{symbol->getAddress().toPtr<Entry>(), code.scratch_bytes, keep};
            if (!shown_as.empty()) state->perf->tell(code.object, symbol->getAddress().toPtr<void*>(), shown_as);
            return out;
        }
        failure = symbol.takeError();
    }
    out.error = text_of(std::move(failure));
    return out;
}

Result<LoadedCode> Compiler::load(const ObjectCode& code, const std::string& shown_as) {
    std::shared_ptr<void> keep;  // let go after the lock
    std::lock_guard lock(state_->mutex);
    Result<LoadedCode> out;
    state_->memory_ended = false;
    try {
        out = State::link(state_, code, shown_as, keep);
    } catch (...) {
        state_->abandon();
        throw;
    }
    if (!out && state_->memory_ended) throw std::bad_alloc();  // the session's own words are of symbols
    return out;
}

}  // namespace tegula::cpu
