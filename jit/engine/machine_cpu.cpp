// The machine `cpu`: the CPU back end with the cache that it does not know of. A library without LLVM has the machine too, which then says what is
// missing.
#include "jit/engine/machine.h"
#ifdef TEGULA_HAVE_CPU
#include <cstdlib>
#include <mutex>
#include <thread>

#include "jit/cache/cache.h"
#include "jit/cpu/cpu.h"
#include "jit/cpu/executable_memory.h"
#include "jit/cpu/explain.h"
#include "lang/cancel.h"
#endif

namespace tegula {

namespace {

#ifdef TEGULA_HAVE_CPU

class CpuMachine : public Machine {
public:
    CpuMachine(const MachineContext& context, cpu::PoolOptions pool, bool debug)
        : sources_(context.sources),
          cache_(context.cache),
          log_(context.log),
          pool_(std::move(pool)),
          debug_(debug || asked_to_debug()),
          cpu_(asked("TEGULA_CPU")) {}
    std::string name() const override { return "cpu"; }
    std::string missing() override {
        std::call_once(tried_, [this] {
            refused_ = cpu::executable_memory_refused();
            if (refused_.empty() && !cpu_.empty()) refused_ = backend().compiler().problem();
        });
        return refused_;
    }
    bool present() override { return missing().empty() || !cpu_.empty(); }  // who asks for another processor shall not get the interpreter
    bool is_gpu() const override { return false; }
    std::string hardware(int, void*) override {
        return backend().compiler().target().cpu_text() + ", " + std::to_string(std::thread::hardware_concurrency()) + " threads";
    }
    std::unique_ptr<Program> prepare(const sema::Instance& instance, const std::vector<std::string>&) override {
        return backend().prepare(instance.without_instructions());
    }
    std::optional<std::vector<explain::Note>> explain(const sema::Instance& instance, DiagSink& diags) override {
        if (const std::string problem = backend().compiler().problem(); !problem.empty())
            return diags.report(Diag::machine_unavailable, {}, {"cpu", problem}), std::nullopt;
        return cpu::explain(instance.without_instructions(), instance.facts, backend().compiler().target(), pool_);
    }
    std::optional<std::string> artifact(const sema::Instance& instance, const std::vector<std::string>&, std::string_view kind, const Arch*,
                                        const std::atomic<bool>* cancel, DiagSink& diags) override {
        if (const std::string problem = backend().compiler().problem(); !problem.empty())
            return diags.report(Diag::machine_unavailable, {}, {"cpu", problem}), std::nullopt;
        cpu::Watch watch(cancel, 0, {});
        cpu::CompileOptions usual;
        usual.watch = &watch;
        usual.tensors.resize(instance.fn->params.size());
        if (kind == "llvm@armv8.6-a") usual.features = "+dotprod,+i8mm";
        if (kind.ends_with("-lines")) usual.lines = &sources_, kind = kind == "asm-lines" ? "asm" : "llvm-opt";
        if (kind.starts_with("llvm@")) usual.triple = "aarch64-linux-gnu", kind = "llvm";
        auto text = backend().compiler().text(instance.without_instructions(), usual, kind);
        if (text) return std::move(*text);
        poll(cancel);
        diags.report(Diag::machine_unavailable, {}, {"cpu", text.error});
        return std::nullopt;
    }
    std::string take_warning() override {
        std::lock_guard lock(warning_->mutex);
        return std::exchange(warning_->text, {});
    }
    std::string describe() override {
        const cpu::TargetInfo& t = backend().compiler().target();
        const std::string problem = missing();
        std::string vectors;  // of a processor that was refused there are none
        if (backend().compiler().problem().empty())
            vectors = ",\"cpu\":" + json_quote(t.cpu_text()) + ",\"vector_bytes\":" + std::to_string(t.vectors.bytes);
        return "{\"name\":\"cpu\",\"available\":" + std::string(problem.empty() ? "true" : "false") + ",\"doc\":\"native code through LLVM " +
               t.llvm_version + "\",\"compiler\":" + json_quote("LLVM " + t.llvm_version) + vectors + ",\"problem\":" + json_quote(problem) +
               ",\"looked_for\":[]}";
    }

private:
    static std::string asked(const char* variable) {
        const char* value = std::getenv(variable);
        return value ? value : "";
    }
    static bool asked_to_debug() {
        const std::string wanted = asked("TEGULA_CPU_DEBUG");
        return !wanted.empty() && wanted != "0";
    }
    struct Warning {
        std::mutex mutex;
        std::string text;
    };
    cpu::Backend& backend() {
        std::call_once(once_, [this] {
            CacheOptions cache = cache_;
            cache.warn = [warning = warning_, log = log_](const std::string& text) {
                if (log) log(LogLevel::warning, text);
                std::lock_guard lock(warning->mutex);
                warning->text = text;
            };
            backend_ = std::make_unique<cpu::Backend>(make_cache(std::move(cache)), pool_, debug_ ? &sources_ : nullptr, cpu_, log_);
        });
        return *backend_;
    }
    const SourceMap& sources_;
    const CacheOptions cache_;
    const Log log_;
    const cpu::PoolOptions pool_;
    const bool debug_;
    const std::string cpu_;                                           ///< what code is made for instead of the host
    std::shared_ptr<Warning> warning_ = std::make_shared<Warning>();  ///< the cache outlives the machine
    std::once_flag once_, tried_;
    std::string refused_;
    std::unique_ptr<cpu::Backend> backend_;
};

#else

constexpr const char* kProblem = "this library was built without LLVM 19 (TEGULA_WITH_LLVM)";

class CpuMachine : public Machine {
public:
    CpuMachine(const MachineContext&, const cpu::PoolOptions&, bool) {}
    std::string name() const override { return "cpu"; }
    std::string missing() override { return kProblem; }
    bool is_gpu() const override { return false; }
    std::unique_ptr<Program> prepare(const sema::Instance&, const std::vector<std::string>&) override { throw InternalError(kProblem); }
    std::optional<std::vector<explain::Note>> explain(const sema::Instance&, DiagSink& diags) override {
        diags.report(Diag::machine_unavailable, {}, {"cpu", kProblem});
        return std::nullopt;
    }
    std::optional<std::string> artifact(const sema::Instance&, const std::vector<std::string>&, std::string_view, const Arch*,
                                        const std::atomic<bool>*, DiagSink& diags) override {
        diags.report(Diag::machine_unavailable, {}, {"cpu", kProblem});
        return std::nullopt;
    }
    std::string describe() override {
        return std::string("{\"name\":\"cpu\",\"available\":false,\"doc\":\"native code through LLVM\",\"problem\":") + json_quote(kProblem) +
               ",\"looked_for\":[]}";
    }
};

#endif

}  // namespace

std::unique_ptr<Machine> make_cpu_machine(const MachineContext& context, cpu::PoolOptions pool, bool debug) {
    return std::make_unique<CpuMachine>(context, std::move(pool), debug);
}

}  // namespace tegula
