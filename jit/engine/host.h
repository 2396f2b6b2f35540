// The host language: runs the statements of `test` and `bench` blocks (and of the REPL) one by one. Tensors live here; expressions over them
// are elaborated as small functions of tiles and run on a machine; kernel calls are launches.
#pragma once
#include <deque>
#include <functional>

#include "jit/engine/engine.h"

namespace tegula {

struct HostValue {
    enum Kind : uint8_t { unit, tensor, integer, real, boolean, text, tuple, layout, type } kind = unit;
    std::shared_ptr<HostTensor> t;
    int64_t i = 0;
    double r = 0;
    bool b = false;
    std::string s;
    LayoutId layout_id{};
    FormatId format{};
    std::vector<HostValue> items;
};

/// "a tensor", "an integer", .. for messages.
std::string host_kind_name(HostValue::Kind kind);

class HostRunner {
public:
    HostRunner(Engine& engine, LoadedModule& module, const LaunchOptions& options, DiagSink& diags)
        : engine_(engine), module_(module), options_(options), diags_(&diags) {}
    /// Runs a block in a new scope. `ok` unless a statement failed; what failed is in the diagnostics.
    Status run(const ast::Block& block);
    /// Binds a name in the outermost scope (cases of a bench, variables of a session).
    void define(std::string_view name, HostValue value) { scopes_.front()[std::string(name)] = std::move(value); }
    std::optional<HostValue> evaluate(const ast::Expr& expr);
    /// Values an iterable (range, set, list, tuple) goes through; nullopt is reported.
    std::optional<std::vector<HostValue>> iterate(const ast::Expr& expr);
    bool bind(const ast::Pattern& pattern, HostValue value);
    /// Wall seconds spent in kernel launches so far, compilation excluded.
    double launch_seconds() const { return launch_seconds_; }
    Status status() const { return status_; }

private:
    enum class Flow : uint8_t { next, break_, continue_, return_, failed };
    struct HostArgs {  ///< a call of a host function, matched to its signature
        Span span;
        FormatId format{};
        Shape shape;
        std::vector<const ast::Expr*> exprs;           ///< per parameter; null: default
        std::vector<std::optional<HostValue>> values;  ///< evaluated, but for parameters named `launch`
        double number(size_t i, double fallback) const {
            if (!values[i]) return fallback;
            return values[i]->kind == HostValue::integer ? static_cast<double>(values[i]->i) : values[i]->r;
        }
        bool whole(size_t i) const { return !values[i] || values[i]->kind == HostValue::integer; }
        int64_t integer(size_t i, int64_t fallback) const { return values[i] && values[i]->kind == HostValue::integer ? values[i]->i : fallback; }
    };
    Flow block(const ast::Block& block);
    Flow statement(const ast::Stmt& stmt);
    Flow loop(const ast::ForStmt& stmt);
    Flow loop(const ast::WhileStmt& stmt);
    Flow assign(const ast::AssignStmt& stmt);
    Flow fail(Status status) {
        if (status_ == Status::ok) status_ = status;
        return Flow::failed;
    }
    HostValue* find(std::string_view name);
    std::optional<bool> truth(const ast::Expr& condition);

    /// The host's own reading of an expression (a local, a host call, a launch, `x @ layout`); handled == false: the language's.
    std::optional<HostValue> own(const ast::Expr& expr, bool& handled);
    std::optional<HostValue> relayout(const ast::AnnotatedExpr& expr);
    std::optional<HostValue> launch(LoadedModule& home, const ast::KernelItem& kernel, const ast::InstantiateExpr* generics,
                                    const ast::CallExpr& call);
    std::optional<sema::StaticValues> kernel_generics(const ast::KernelItem& kernel, const ast::InstantiateExpr& expr);
    std::optional<HostValue> elaborated(const ast::Expr& expr);
    /// Runs an expression function on the machine under test too; false (reported) where its results differ from the interpreter's.
    bool compare_on_machine(const ir::Function& expression, const std::vector<TileData>& args, Span span);
    std::optional<HostValue> from_operand(const sema::HostOperand& shape, std::vector<TileData>& results, size_t& at);
    sema::HostOperand to_operand(const HostValue& value, Span span);
    void tensor_operand(const HostValue& value, Span span, sema::HostOperand& out);
    std::optional<std::vector<HostValue>> iterate_range(const ast::RangeExpr& range);
    std::optional<LaunchArgument> to_argument(HostValue& value, Span span);
    bool written(const HostValue& value, Span span);  ///< has every element of its tensors a value? Reported when not
    std::optional<TileData> as_tile(const HostValue& value, Span span);
    std::pair<LoadedModule*, const ast::KernelItem*> kernel_of(const ast::Expr& callee);
    sema::HostResolver resolver();

    std::optional<HostValue> print(const ast::CallExpr& call);
    std::optional<HostValue> assert_that(const ast::CallExpr& call);
    std::optional<HostValue> compare(const HostArgs& args, double atol, double rtol);
    std::optional<HostValue> load_array(const HostArgs& args, const std::string& name);
    /// The elements of a tensor, or a number, for comparing: as doubles, and where all are integers as exact codes too.
    struct Numbers {
        Shape shape;
        std::vector<double> values;
        std::vector<uint64_t> codes;  ///< empty unless `integral`
        bool integral = false, is_signed = true;
        bool negative(size_t i) const { return is_signed && codes[i] >> 63; }
        std::string text(size_t i) const;
    };
    std::optional<Numbers> numbers(const HostValue& value, Span span);
    std::string text_of(const HostValue& value);
    bool host_args(const char* signature, const ast::Expr& expr, HostArgs& args);
    std::optional<HostValue> make(const HostArgs& args, std::function<uint64_t(const Format&, uint64_t)> code);
#define HOST_CALL(name, signature, doc) std::optional<HostValue> host_##name(const HostArgs& args);
#include "lang/host_calls.def"

    Engine& engine_;
    LoadedModule& module_;
    const LaunchOptions& options_;
    DiagSink* diags_;  ///< assert_fails looks at the diagnostics of one launch alone
    std::deque<std::map<std::string, HostValue, std::less<>>> scopes_{1};
    std::deque<TileData> temporaries_;  ///< tiles that operands of the expression in progress point to
    double launch_seconds_ = 0;
    Status status_ = Status::ok;
    unsigned depth_ = 0;
};

struct TestResult {
    std::string name;
    Status status = Status::ok;
    double seconds = 0;
    std::string metrics;  ///< benches: JSON object
    std::vector<Diagnostic> diagnostics;
};
/// Runs the tests (or benches) of a module whose name contains `filter`, reporting each as it ends.
Status run_tests(Engine& engine, LoadedModule& module, std::string_view filter, const LaunchOptions& options,
                 const std::function<void(TestResult&)>& report);
Status run_benches(Engine& engine, LoadedModule& module, std::string_view filter, const LaunchOptions& options,
                   const std::function<void(TestResult&)>& report);

/// Copies `from` to `to`, converting type and layout with one rounding per element; block formats quantise and decode as `cast` does.
bool copy_converted(Engine& engine, LoadedModule& module, const TensorView& to, const TensorView& from, DiagSink& diags, std::string* why);
/// Evaluates an expression text over named tiles on the reference machine; one result.
std::optional<std::vector<TileData>> evaluate_text(Engine& engine, LoadedModule& module, const std::string& text,
                                                   const std::map<std::string, sema::HostOperand, std::less<>>& names, DiagSink& diags);

}  // namespace tegula
