// AST + bindings -> checked, fully shaped tile IR. Three entry points: check_module (once per file: names, arity, everything that does not
// depend on an instance), bind_launch / bind_static (which instance, which extents, which grid), elaborate (one instance -> IR).
// Checking a body and building its IR is one walk, because `if const`, `for const` and generics make types depend on evaluation.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "lang/ast.h"
#include "lang/cancel.h"
#include "lang/diag.h"
#include "lang/facts.h"
#include "lang/ir.h"
#include "lang/layout.h"
#include "lang/runtime.h"

namespace tegula::sema {

struct Module;
class Recorder;

/// A module that others see without importing it. Its names are known before it is loaded: only who needs an item loads it.
class Prelude {
public:
    virtual ~Prelude() = default;
    virtual std::span<const std::string_view> names() const = 0;  ///< of its items, sorted
    virtual const Module& module() const = 0;                     ///< checked; loaded when first asked for, on whatever thread
    bool has(std::string_view name) const { return std::ranges::binary_search(names(), name); }
};

/// A module of the library that any file may import, and the names of its items. For suggestions.
struct LibraryModule {
    std::string_view name;  ///< "nn" of std.nn
    std::span<const std::string_view> names;
};

/// What the errors of a module leave for the phases that follow, which go on and say nothing a second time.
struct Recovery {
    bool has_errors = false;  ///< the names are checked, and not all are known
    std::unordered_map<const ast::AssignStmt*, bool>
        declarations;                                       ///< reported assignments to undeclared names, as if `var` (true) or `let` stood there
    std::unordered_set<const ast::Item*> broken;            ///< lack text, or have a wrong signature: calls and launches of them have no type
    std::unordered_set<const ast::Item*> without_instance;  ///< kernels whose generic parameters have errors
};

/// A parsed file with its imports resolved by the engine. `names` is filled by check_module.
struct Module {
    Module();
    virtual ~Module() = default;
    const uint64_t serial;  ///< no two modules of a process have the same
    std::string name;       ///< "std.quant", "gemm.tile"
    const ast::Module* ast = nullptr;
    std::string_view text;                   ///< what `ast` was parsed from; empty where nobody would change it (the library)
    std::span<const LibraryModule> library;  ///< what could be imported
    struct Import {
        std::string_view alias;
        const Module* module = nullptr;  ///< null: it could not be loaded, which has been reported
        const ast::ImportItem* item = nullptr;
    };
    std::vector<Import> imports;
    std::vector<std::unique_ptr<const Prelude>> prelude;  ///< searched last: std.math and friends, visible without import
    std::unordered_map<std::string_view, const ast::Item*> names;
    Recovery recovery;
    Recorder* recorder = nullptr;  ///< hears of the names of its text while it is checked; null: nobody does
    /// Null where there is no such item. May parse it first (modules of the library).
    virtual const ast::Item* find(std::string_view item) const {
        auto it = names.find(item);
        return it == names.end() ? nullptr : it->second;
    }
    virtual std::vector<std::string_view> item_names() const {
        std::vector<std::string_view> out;
        for (const auto& [name, item] : names) out.push_back(name);
        return out;
    }
};

/// Indexes names and reports everything that needs no instance: duplicates, unknown names (with suggestions), arity and argument names of
/// calls to builtins and functions, assignment to `let` and to `in` parameters, break outside loops, unknown attributes and clauses,
/// unused-label style hints. Imports must have been checked before. False when there were errors: `module.recovery` and `diags` let later phases go
/// on without repeating them. `cancel`, when set, ends it: throws Cancelled. Bodies of tests and benches are left to check_host_block.
bool check_module(Module& module, TypeTable& types, DiagSink& diags, const std::atomic<bool>* cancel = nullptr);
/// The same of the body of one `test` or `bench` of a module that check_module has seen.
bool check_host_block(const Module& module, const ast::Item& item, DiagSink& diags);

/// A word such as `rtz`, or a function, that a generic parameter takes (words.h).
struct Choice {
    std::string text;  ///< the word; the name of the function, `relu` or `nn.relu`, or the text of `expr`
    bool is_function = false;
    std::string_view kind{};          ///< words: the kind, "round", where it is known
    const Module* scope = nullptr;    ///< functions: where names are looked up; null: in the kernel's own module
    const ast::Expr* expr = nullptr;  ///< functions without a name: the expression; it lives until the instance is made
    friend bool operator==(const Choice& a, const Choice& b) {
        return a.text == b.text && a.is_function == b.is_function && a.scope == b.scope && a.expr == b.expr;
    }
};

/// A compile-time value that a host can give or receive: integer, float, bool, a type, or a word or function.
struct StaticValue {
    std::variant<__int128, double, bool, FormatId, Choice> v;  ///< integers: wide enough for signed and unsigned ones of 64 bits
    friend bool operator==(const StaticValue&, const StaticValue&) = default;
};
using StaticValues = std::map<std::string, StaticValue, std::less<>>;  ///< generic parameter -> value
std::string to_string(const StaticValue& value, const TypeTable& types);
/// As to_string, and another text for each function: what instances are kept by.
std::string key_text(const StaticValue& value, const TypeTable& types);
std::string int_text(__int128 v);

/// What is known of one launch argument.
struct ArgumentType {
    enum Kind : uint8_t { absent, tensor, pointer, scalar, inferred } kind = absent;  ///< inferred: an `out` tensor to be described by the plan
    FormatId pointee{};  ///< tensor of u64: what its addresses are known to lead to, else none
    FormatId elem{};  ///< tensor, pointer; may be a block format (elements and scales are one argument here). scalar: of a typed number, else 0
    Shape extents{};  ///< tensor, logical
    LayoutId layout{};
    bool has_strides = false;
    std::array<int64_t, kMaxRank> strides{};  ///< in elements, where they are given
    bool open_layout = false;  ///< plans: takes the layout that the parameter declares
    bool open_type = false;    ///< plans: takes the element type that the parameter declares; `elem` is none
    StaticValue value{};       ///< scalar
};

/// An instance (generics), and what this launch makes of it.
struct LaunchPlan {
    StaticValues generics;                                ///< complete, in canonical form: the instance key
    std::map<std::string, int64_t, std::less<>> extents;  ///< M, N, K ..
    uint64_t grid[3] = {1, 1, 1};
    std::vector<ArgumentType> arguments;  ///< one per parameter, as given or as inferred
    std::vector<Argument> scalars;        ///< converted codes, one per scalar parameter in order, then nothing
    std::vector<std::string> warnings;
};

/// Tuned values that satisfy `where` together, with what the launch would be.
struct TuneCandidate {
    StaticValues generics;  ///< all that have a value
    StaticValues chosen;    ///< of these the ones that `tune` chose
    uint64_t grid[3] = {1, 1, 1};
};
/// Chooses tuned values; hosts that know the machine give one, without it the first candidate is taken. `plan` holds the generics, extents and
/// scalars of the launch that are bound so far.
class TuneChooser {
public:
    virtual ~TuneChooser() = default;
    /// What was chosen before for such a launch.
    virtual std::optional<StaticValues> known(const LaunchPlan& plan) = 0;
    /// One of at least two candidates.
    virtual size_t choose(std::span<const TuneCandidate> candidates, const LaunchPlan& plan) = 0;
};

/// Deduces generics from `given` (--set, <BLOCK = 1024>) and the arguments (by parameter order; absent ones are reported), binds extents,
/// evaluates `where` and `grid`, lets `chooser` (may be null) pick tuned values that satisfy `where`. Every mismatch of the launch goes
/// into ONE diagnostic (T08), each on a note line with parameter name, expected and given value. nullopt on error.
std::optional<LaunchPlan> bind_launch(const Module& module, const ast::KernelItem& kernel, const StaticValues& given,
                                      std::span<const ArgumentType> arguments, TypeTable& types, DiagSink& diags, Span at = {},
                                      TuneChooser* chooser = nullptr);

/// Generics only (no arguments): what `dump`, `check` and compile-ahead use. Type parameters without value get a representative of their
/// trait (float: f32, int/sint: i32, uint: u32, number/any: f32); integer ones without default or deduction are reported when `require`.
/// `given` may name extents: `where` and `chooser` see them. Extents without a value are `nominal_extent` to the chooser and its grids.
std::optional<StaticValues> bind_static(const Module& module, const ast::KernelItem& kernel, const StaticValues& given, TypeTable& types,
                                        DiagSink& diags, bool require, TuneChooser* chooser = nullptr, int64_t nominal_extent = 1);

/// A launch without arguments: these generics and extents, further extents nominal; what the grid would be. nullopt on error.
std::optional<LaunchPlan> nominal_launch(const Module& module, const ast::KernelItem& kernel, const StaticValues& given, TypeTable& types,
                                         DiagSink& diags, int64_t nominal_extent);

struct KernelParam {  ///< for hosts: the source-level signature of an instance
    std::string name;
    ast::ParamMode mode;
    ArgumentType::Kind kind;
    FormatId elem{};
    FormatId pointee{};  ///< of a tensor of pointers, whose elements are addresses (u64); else none
    LayoutId layout{};
    int rank = 0;
    std::vector<int64_t> extents;  ///< constant ones; kDynamic otherwise
    std::vector<int> ir_params;    ///< indices of ir::Function::params (block tensors: elements, scales, tensor scale)
};
/// A tensor parameter that the body reads or writes as elements of another type (`view<T>(x)`): a parameter of the instance's function of its own.
struct KernelView {
    size_t of = 0;     ///< index in Instance::params
    FormatId elem{};
    int ir_param = -1;  ///< index in ir::Function::params: behind the extents, or the tensor's own where only the view is used; -1: it is not used
};
struct Instance {
    std::unique_ptr<ir::Function> fn;
    std::unique_ptr<ir::Function> plain;  ///< without the program's own instructions, for machines that have none; null: `fn` has none
    LaunchFacts facts;                  ///< for the mask pass
    std::vector<KernelParam> params;
    std::vector<std::string> extents;   ///< names of the extent parameters of `fn` behind those of `params`, in order
    const ir::Function& without_instructions() const { return plain ? *plain : *fn; }
    std::map<std::string, int64_t, std::less<>> named_extents;  ///< values that a host gave for artefacts, which show what launches with them take
    std::vector<KernelView> views;
};
struct Limits {  ///< budgets of compile-time work, each with its own diagnostic
    uint64_t const_steps = 10'000'000;
    uint64_t ir_ops = 1'000'000;
    uint64_t call_depth = 64;
    uint64_t instances = 10'000;
    const std::atomic<bool>* cancel = nullptr;    ///< polled at every step: throws Cancelled
    const std::function<void()>* tick = nullptr;  ///< called every thousand steps or so; what it throws ends the work
};
/// Elaborates one kernel instance. Null on errors (in `diags`, each with "while instantiating .." notes).
std::optional<Instance> elaborate_kernel(const Module& module, const ast::KernelItem& kernel, const StaticValues& generics, TypeTable& types,
                                         const Limits& limits, DiagSink& diags);

// ---- host statements (tests, benches, REPL): expressions over values that the host holds ----

/// What a host name or call means to an expression: a tile by value, a compile-time value, text, a layout, or a tuple of these.
struct HostOperand {
    enum Kind : uint8_t { tile, block_tile, constant, text, layout, tuple, unknown } kind = tile;  ///< unknown: what is made of it is never reported
    const TileData* data = nullptr;          ///< tile; block_tile: elements, which only a run needs
    const TileData* scales = nullptr;        ///< block_tile
    const TileData* tensor_scale = nullptr;  ///< block_tile, optional
    FormatId block{};                        ///< block_tile
    int block_axis = -1;                     ///< block_tile: the dimension its blocks lie along; -1: the last
    StaticValue value{};
    std::string string;
    LayoutId layout_id{};
    std::vector<HostOperand> items;
    /// tuple: the struct whose fields the items are, else null. It owns the tree that the struct stands in, or nothing: that of the module at hand.
    std::shared_ptr<const ast::StructItem> of;
};
/// Called for every free name and every call whose callee names no language function; nullopt: not the host's either.
using HostResolver = std::function<std::optional<HostOperand>(const ast::Expr& name_or_call)>;

struct HostExpression {
    std::unique_ptr<ir::Function> fn;  ///< parameters in the order of `arguments`; null when the value is fully static
    std::vector<const TileData*> arguments;
    /// Shape of the result: leaves are results of `fn` in order (tile: type; block tiles: elements, scales[, tensor scale]) or static values.
    HostOperand result;  ///< tiles have data == nullptr
};
std::optional<HostExpression> elaborate_expression(const Module& module, const ast::Expr& expr, const HostResolver& resolver, TypeTable& types,
                                                   const Limits& limits, DiagSink& diags);
/// A type expression such as f32, mxfp4, codebook<4>[..]; a layout expression such as col, tiled<8, 8>.
std::optional<FormatId> evaluate_format(const Module& module, const ast::Expr& expr, const HostResolver& resolver, TypeTable& types, DiagSink& diags);
/// A word of the kind `bound`, or with the bound `fn` a function: what a generic parameter of a kernel is given.
std::optional<Choice> evaluate_choice(const Module& module, const ast::Expr& expr, std::string_view bound, const HostResolver& resolver,
                                      TypeTable& types, DiagSink& diags);
std::optional<LayoutId> evaluate_layout(const Module& module, const ast::Expr& expr, const HostResolver& resolver, TypeTable& types, DiagSink& diags);

/// Names callable without import, for completion and "did you mean": builtins with their one-line signature and documentation.
struct BuiltinDoc {
    std::string_view name, signature, doc;
};
std::vector<BuiltinDoc> builtin_docs();

}  // namespace tegula::sema
