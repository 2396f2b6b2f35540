// The engine: loads modules, compiles kernel instances once, launches them. The only place that sees all phases; the C ABI (jit/api) is a thin
// face of it. Thread-safe: modules and executables are immutable, caches are locked.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jit/engine/machine.h"
#include "jit/engine/tensor.h"
#include "jit/engine/tune.h"
#include "jit/interp/interp.h"
#include "lang/arena.h"
#include "lang/cancel_flags.h"
#include "sema/sema.h"

namespace tegula::picture {
struct Picture;
struct KernelView;
}  // namespace tegula::picture
namespace tegula {

enum class Status : int { ok = 0, source = -1, arguments = -2, run = -3, unavailable = -4, io = -5, cancelled = -6, usage = -7, mismatch = -8 };

class LoadedModule;
struct StdlibFile;

struct EngineOptions {
    std::function<std::optional<std::string>(std::string_view path)> importer;  ///< asked before import_root
    std::string import_root;                                                    ///< empty: none
    /// load_npy / load_safetensors of host statements of `module`.
    std::function<Made<HostTensor>(LoadedModule& module, const std::string& path, const std::string& name)> load_array;
    /// load_npy and load_safetensors obey the rules of imports: paths below the directory of the module's file or import_root, no symbolic links.
    bool confine_loads = false;
    size_t max_errors = 100;
    std::function<std::unique_ptr<Machine>(const MachineContext&)> cuda = make_cuda_machine;  ///< what the machine `cuda` is
    cpu::PoolOptions pool;                                                                    ///< threads of the machine `cpu`
    CacheOptions cache;                                                                       ///< of compiled code
    std::string tuned;  ///< the file of measured choices (tuned.h); empty: the usual one, "off": none
    Log log;
    bool cpu_debug = false;                                  ///< machine `cpu`: kernels are shown to gdb and perf
    std::function<void(const ir::Function&)> on_elaborated;  ///< sees every kernel instance and host expression before its passes, on any thread
};

class Engine;
class Session;
class Workspace;

class LoadedModule;

using ItemFilter = std::function<bool(const ast::Item&)>;

/// One compiled instance. Owned by its module's cache and by handles.
struct Executable {
    LoadedModule* home = nullptr;  ///< that the kernel stands in; alive while a module is that imports it
    const ast::KernelItem* kernel = nullptr;
    sema::StaticValues generics;
    std::vector<std::string> disabled_passes;
    std::optional<sema::StaticValues> given;  ///< compile_named, where `tune` chose something or extents were named: what the host gave
    sema::Instance instance;
    std::unique_ptr<interp::Program> program;

    /// The instance on another machine, made on first use.
    const Program& on(Machine& machine) const;
    /// The interpreter with the sums of the form that is compiled under `options` (of this instance).
    const Program& model(const GpuOptions& options) const;
    /// True once per architecture: who asks tells the host of hints.
    bool first_use(const Arch& arch) const;

private:
    mutable std::mutex mutex_;
    mutable std::set<const Arch*> used_;
    mutable std::map<const Machine*, std::unique_ptr<Program>> programs_;
    mutable std::map<std::string, TensorCoreModel> models_;  ///< by architecture, tensors and overlap
};

/// A checked source file with the modules it imports. Everything that follows from its text goes with it: what it and its imports intern, too.
class LoadedModule : public sema::Module, public std::enable_shared_from_this<LoadedModule> {
public:
    LoadedModule(std::shared_ptr<Engine> engine, std::shared_ptr<TypeTable> types) : engine(std::move(engine)), types_(std::move(types)) {}
    const std::shared_ptr<Engine> engine;
    SourcePtr source;                                         ///< null: a module of the library
    std::string directory;                                    ///< that its paths are beneath; empty: none
    std::vector<std::shared_ptr<LoadedModule>> dependencies;  ///< keeps imports alive
    std::vector<std::shared_ptr<const void>> inputs;          ///< keeps the texts and trees of its items alive, where they are not its own
    Arena arena;
    const ast::KernelItem* kernel(std::string_view name) const;
    LoadedModule* imported(std::string_view alias) const;  ///< the module that is imported under this name, or null
    /// The kernel that a callee k, k<..>, module.k or module.k<..> launches, with the module that it stands in; null: it launches none.
    std::pair<LoadedModule*, const ast::KernelItem*> launched(const ast::Expr& callee);
    TypeTable& types() const { return *types_; }

private:
    friend class Engine;
    friend class Tuner;
    const std::shared_ptr<TypeTable> types_;  ///< of all modules of one load
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<const Executable>> instances_;
    TuneStore tuned_;
};
using ModulePtr = std::shared_ptr<LoadedModule>;

struct LaunchArgument {
    std::string name;  ///< empty: by position
    enum Kind : uint8_t { tensor, integer, real, boolean } kind = tensor;
    TensorView view;
    bool open_layout = false;  ///< plans: the layout that the parameter declares
    bool open_type = false;    ///< plans: the element type that the parameter declares
    __int128 i = 0;            ///< integer, boolean
    double r = 0;
    bool no_bools = false;  ///< integer: of a host whose bools are 0 and 1
    std::string problem;    ///< why the argument cannot be used as given; launches list it among their mismatches
};

struct LaunchOptions;

/// A launch of host statements that is about to be made.
struct LaunchStatement {
    LoadedModule& home;  ///< that the kernel stands in
    const ast::KernelItem& kernel;
    sema::StaticValues& generics;  ///< that the statement names; more may be added
    std::span<const LaunchArgument> args;
    const LaunchOptions& options;
    DiagSink& diags;
    Span at;
};

struct LaunchOptions : RunOptions {
    std::vector<std::string> disabled_passes;
    Machine* machine = nullptr;   ///< null: the interpreter
    const Arch* model = nullptr;  ///< interpreter: sum as the tensor cores of this GPU
    /// Runs the interpreter (with the model of the machine) on the same arguments first and reports where the machine differs. Checks of
    /// checked mode are the interpreter's.
    bool compare = false;
    bool compare_elaborated = false;  ///< with compare, on machines that are no GPU: the interpreter runs what was elaborated, before passes
    bool compare_expressions = true;  ///< with compare: expressions of host statements too
    bool order_free = false;          ///< with compare: no order of programs shows, so that old values of atomics are compared too
    bool native_checks = false;       ///< with checked: on the machine `cpu` its own checks alone, without the interpreter
    std::vector<TensorView> reachable;  ///< memory that addresses in arguments may lead to, beside the arguments
    bool unnamed = false;             ///< nobody chose the machine: run_tests goes through all of Engine::machines()
    std::function<bool(uint64_t done, uint64_t all)> keep_going;  ///< about every 0.1 s; false ends this run with `cancelled`
    double* run_seconds = nullptr;                                ///< where the host wants the time of the run
    double* copy_seconds = nullptr;                               ///< and that of copies to and from the device
    std::function<Status(LaunchStatement&)> before_launch;             ///< of host statements; not ok: the launch fails with it
    uint64_t* steps = nullptr;                                    ///< what launches take of tile instructions is added to it
};

/// A launch whose arguments fit: one value per parameter of the instance.
struct ReadyLaunch {
    std::shared_ptr<const Executable> exe;
    std::vector<Argument> values;
    uint64_t grid[3] = {1, 1, 1};
};

class Engine : public std::enable_shared_from_this<Engine> {
public:
    static std::shared_ptr<Engine> create(EngineOptions options);

    /// Parses and checks `text`; imports of paths resolve through the importer, `directory` (when not empty) and import_root.
    ModulePtr load(const std::string& name, std::string text, const std::string& directory, DiagSink& diags);
    /// Elaborates every kernel with default or representative generics, and checks tests and benches; reports into `diags`, by position.
    void check_instances(LoadedModule& module, DiagSink& diags);
    /// A cached or new instance; null on errors. Throws Cancelled.
    std::shared_ptr<const Executable> compile(LoadedModule& module, const ast::KernelItem& kernel, const sema::StaticValues& generics,
                                              const std::vector<std::string>& disabled_passes, DiagSink& diags,
                                              const sema::StaticValues* given = nullptr, const std::atomic<bool>* cancel = nullptr);
    /// compile with the generics a host names; types and defaults complete them.
    std::shared_ptr<const Executable> compile_named(LoadedModule& module, std::string_view kernel, const sema::StaticValues& given,
                                                    const std::vector<std::string>& disabled_passes, DiagSink& diags, Status& status);
    /// The kernel `name`, or `alias.name` of a module that is imported, and the module that it stands in. Reports unknown names with a suggestion
    /// and the list of kernels.
    std::pair<LoadedModule*, const ast::KernelItem*> find_kernel(LoadedModule& module, std::string_view name, DiagSink& diags);
    /// `seconds`, if given, receives the time of the run itself, without compiling, where options.measure is on.
    Status launch(LoadedModule& module, const ast::KernelItem& kernel, const sema::StaticValues& generics, std::span<const LaunchArgument> args,
                  const LaunchOptions& options, DiagSink& diags, Span at = {}, double* seconds = nullptr);
    /// What `launch` would report before anything runs. `elaborated`: of the instance's body, too.
    void check_launch(LoadedModule& module, const ast::KernelItem& kernel, const sema::StaticValues& generics, std::span<const LaunchArgument> args,
                      bool elaborated, DiagSink& diags, Span at);
    /// The same launch made ready to be repeated many times: tensors stay where they are, for a GPU in device memory.
    Status prepare(LoadedModule& module, const ast::KernelItem& kernel, const sema::StaticValues& generics, std::span<const LaunchArgument> args,
                   const LaunchOptions& options, DiagSink& diags, std::shared_ptr<const PreparedLaunch>& prepared);
    /// What a launch would be, as JSON; `out` tensors may be missing. nullopt is reported.
    std::optional<std::string> plan(LoadedModule& module, const ast::KernelItem& kernel, const sema::StaticValues& generics,
                                    std::span<const LaunchArgument> args, DiagSink& diags);
    /// "ir", "ir:final", "ir:after=PASS", "explain", "explain-json", "json", "picture:KIND"; for a GPU "ir:gpu", "ir:gpu:after=PASS", "kernel",
    /// "kernel:after=PASS", "cuda", "ptx", "cubin", "resources", each (and explain) with "@ARCH" at its end or for sm_90a; for the CPU "llvm", "llvm-opt", "llvm-lines",
    /// "asm", "asm-lines", "explain@cpu", "llvm@aarch64",
    /// "llvm@armv8.6-a". nullopt (reported) for unknown kinds.
    std::optional<std::string> artifact(LoadedModule& module, const Executable& exe, std::string_view kind, DiagSink& diags);
    /// How two tensors of one type and extents differ, as a picture; false (reported): `json` is not set. (pictures.cpp)
    bool diff(LoadedModule& module, const TensorView& a, const TensorView& b, std::string& json, DiagSink& diags);
    /// The machines that are present, the one first that launches without a machine's name run on; null: the interpreter, where there is no other.
    std::vector<Machine*> machines();
    /// The machine of that name ("interp": null, "auto" and "": the first of machines()); false (reported) when it is unknown or missing.
    bool find_machine(std::string_view name, Machine*& machine, DiagSink& diags);
    Machine& cuda();
    Machine& cpu();
    /// Choices of tuned values that were measured; read when they are first asked for.
    TunedDatabase& tuned();
    /// The key of a kernel's launches on a machine, but for what is bound by each.
    TunedKey tuned_key(const ast::KernelItem& kernel, Machine& machine, std::span<const LaunchArgument> args, void* stream);
    /// "tokens", "ast", "fmt", "doc", "json", "picture:KIND:TYPE".
    std::optional<std::string> artifact(LoadedModule& module, std::string_view kind, DiagSink& diags);
    /// "tokens", "ast", "fmt" of a text that need only parse.
    std::optional<std::string> dump(const std::string& name, std::string text, std::string_view kind, DiagSink& diags);
    /// An array file for a host statement of `module`, through the host's reader.
    Made<HostTensor> load_array(LoadedModule& module, const std::string& path, const std::string& name);
    /// Reports names that are no pass ("all" is fine).
    bool check_passes(const std::vector<std::string>& names, DiagSink& diags);
    /// A type or layout written as text, seen from `module` ("mxfp4", "tiled<8, 8>"). nullopt is reported.
    std::optional<FormatId> parse_type(LoadedModule& module, const std::string& text, DiagSink& diags);
    std::optional<LayoutId> parse_layout(LoadedModule& module, const std::string& text, DiagSink& diags);

    const EngineOptions& options() const { return options_; }
    SourceMap& sources() { return sources_; }
    std::atomic<bool>& cancelled() { return cancelled_; }
    /// Those of jobs, which are cancelled with the engine.
    CancelFlags& job_flags() { return job_flags_; }

private:
    friend class Session;
    friend class Tuner;
    friend class Workspace;
    explicit Engine(EngineOptions options) : options_(std::move(options)) {}
    struct Loading {
        std::shared_ptr<TypeTable> types = std::make_shared<TypeTable>();
        std::map<std::string, ModulePtr> done;  ///< by directory and import path; of the library by name; null: failed
        std::vector<std::string> stack;         ///< import chain, for cycles and depth
        SourcePtr first;                        ///< the file that was asked for
        /// A text that stands for that of the file, where it is asked for first; null: none do.
        std::function<std::optional<std::string>(const std::string& path)> texts;
        std::map<uint32_t, std::string> paths;  ///< of the files that were read, by their number
    };
    class Trials;
    class StdText;
    class StdPrelude;
    class StdModule;
    /// Tries the changes that the diagnostics from `first` on offer for `source`: those that do not check are taken back, and each says how sure it
    /// is; `every`: the other ways out that check stay, too. `check` checks a changed text as that of `source` was checked, and tells which source
    /// it has become.
    using CheckText = std::function<SourcePtr(const std::string& text, DiagSink& diags)>;
    void settle_changes(const SourcePtr& source, const CheckText& check, DiagSink& diags, size_t first, bool every = false);
    CheckText loading_of(const SourcePtr& source, const std::string& directory);  ///< of a file
    /// check_instances, also of a module with errors, or of the items that are `wanted` (empty: all); changes untried. Throws Cancelled.
    void check_bodies(LoadedModule& module, DiagSink& diags, const std::atomic<bool>* cancel = nullptr, const ItemFilter& wanted = {});
    /// The same of one function or kernel.
    void check_body(LoadedModule& module, const ast::Item& item, DiagSink& diags, const sema::Limits& limits);
    /// A checked module of items that several texts brought, the last of them `input`; `whole` is the text of all. With errors they
    /// are reported. Throws Cancelled.
    ModulePtr assemble(Loading& state, const SourcePtr& whole, const SourcePtr& input, std::span<const ast::Item* const> items,
                       const std::string& directory, const std::atomic<bool>* cancel, DiagSink& diags);
    /// A file with its imports, parsed and its names checked, whatever is wrong with it.
    ModulePtr read_module(Loading& state, const std::string& name, std::string text, const std::string& directory, DiagSink& diags,
                          const std::string& path, sema::Recorder* recorder = nullptr, const std::atomic<bool>* cancel = nullptr);
    ModulePtr load_file(Loading& state, const std::string& name, std::string text, const std::string& directory, DiagSink& diags,
                        const std::string& path = {});
    bool resolve_imports(Loading& state, LoadedModule& module, const std::string& directory, bool is_std, DiagSink& diags);
    ModulePtr std_module(Loading& state, std::string_view name, DiagSink& diags);
    std::shared_ptr<const StdText> std_text(const StdlibFile& file);
    std::optional<std::string> read_import(const Loading& state, std::string_view path, const std::string& directory, std::string& why,
                                           std::string& file);
    /// One `import` of a module; null is reported.
    ModulePtr resolve_import(Loading& state, const ast::ImportItem& import, const std::string& directory, bool is_std, DiagSink& diags);
    ModulePtr import_file(Loading& state, const ast::ImportItem& import, const std::string& directory, bool is_std, DiagSink& diags);
    /// Binds, compiles, and gives one value per parameter of the instance.
    Status ready(LoadedModule& module, const ast::KernelItem& kernel, const sema::StaticValues& generics, std::span<const LaunchArgument> args,
                 const LaunchOptions& options, DiagSink& diags, Span at, ReadyLaunch& out);
    /// The instance that a launch on `arch` would take, with the extents that the host named; `exe` where it leaves nothing open. `told`: becomes the
    /// choice of tuned values, if there was one. null: reported.
    std::shared_ptr<const Executable> tuned_for(LoadedModule& module, const Executable& exe, const Arch& arch, DiagSink& diags,
                                                std::optional<explain::Tune>* told = nullptr);
    /// `arch` null: for the machine `cpu`. nullopt: reported. (explain.cpp)
    std::optional<Explanation> explain(LoadedModule& module, const Executable& exe, const Arch* arch, DiagSink& diags);
    void explain_gpu_form(const Executable& exe, const Arch& arch, const std::optional<explain::Tune>& tune, std::vector<explain::Note>& notes);
    /// `exe` null: of a type. (pictures.cpp)
    std::optional<std::string> picture(LoadedModule& module, const Executable* exe, std::string_view request, DiagSink& diags);
    std::optional<picture::Picture> picture_of_kernel(LoadedModule& module, const Executable& exe, const Arch& arch, std::string_view of,
                                                      picture::Picture (*make)(const picture::KernelView&), DiagSink& diags);
    /// What was measured of the kernel's launches. (weighed.cpp)
    void add_measured(LoadedModule& module, const Executable& exe, const Arch& arch, picture::KernelView& view);
    std::optional<picture::Picture> picture_of_source(LoadedModule& module, const Executable& exe, const Arch& arch, const picture::KernelView& view,
                                                      DiagSink& diags);
    std::optional<std::string> gpu_artifact(const Executable& exe, std::string_view kind, const Arch& arch, DiagSink& diags);
    Status prepare_on_host(const ReadyLaunch& launch, const LaunchOptions& options, DiagSink& diags, std::shared_ptr<const PreparedLaunch>& prepared);
    Status run_compared(const Executable& exe, const Program& interpreted, std::span<const Argument> values, std::span<const uint64_t, 3> grid,
                        const LaunchOptions& options, double* seconds, DiagSink& diags);
    /// Arguments to parameters and an instance; every mismatch in one diagnostic.
    std::optional<sema::LaunchPlan> bind(LoadedModule& module, const ast::KernelItem& kernel, const sema::StaticValues& generics,
                                         std::span<const LaunchArgument> args, bool infer_outputs, std::vector<const LaunchArgument*>& ordered,
                                         DiagSink& diags, Span at, sema::TuneChooser* chooser = nullptr);

    EngineOptions options_;
    SourceMap sources_;
    std::atomic<bool> cancelled_{false};
    CancelFlags job_flags_;
    std::once_flag cuda_once_, cpu_once_, tuned_once_;
    std::unique_ptr<TunedDatabase> tuned_;
    std::unique_ptr<Machine> cuda_, cpu_;
    std::mutex std_mutex_;
    std::map<std::string, std::weak_ptr<const StdText>, std::less<>> std_texts_;
};

/// The items of a module in the order of its text; a module of the library parses those that it has not parsed yet.
std::vector<const ast::Item*> items_of(const sema::Module& module);
const char* item_kind_name(ast::ItemKind kind);  ///< "kernel", "fn", ..
/// The declaration without its body: source text up to the block, whitespace collapsed.
std::string item_signature(const ast::Item& item, const SourceMap& sources);
/// Markdown of a module's documented items, and the JSON description of its interface.
std::string document_module(const sema::Module& module, const SourceMap& sources);
std::string describe_module(const sema::Module& module, const SourceMap& sources);
/// JSON: machines, formats, operations, passes, diagnostics and functions of this build.
std::string describe_library(Engine& engine);

/// The word or the function of `module` that `text` names, for a generic parameter that takes one; nullopt: it takes something else.
std::optional<sema::Choice> choice_for(LoadedModule& module, const ast::KernelItem& kernel, std::string_view generic, std::string text);

}  // namespace tegula
