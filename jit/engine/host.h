// The host language: runs the statements of `test` and `bench` blocks (and of the REPL) one by one. Tensors live here; expressions over them
// are elaborated as small functions of tiles and run on a machine; kernel calls are launches.
#pragma once
#include <chrono>
#include <deque>
#include <functional>
#include <new>
#include <set>

#include "jit/engine/engine.h"
#include "lang/exact.h"

namespace tegula {

constexpr unsigned kMaxDepth = 200;  ///< of expressions within one another, and of tuples

struct HostValue {
    enum Kind : uint8_t { unit, tensor, integer, real, boolean, text, tuple, layout, type, choice } kind = unit;
    std::shared_ptr<HostTensor> t;
    __int128 i = 0;
    double r = 0;
    bool b = false;
    std::string s;
    LayoutId layout_id{};
    FormatId format{};
    sema::Choice choice_of{};  ///< choice: a word or a function that has a name
    std::vector<HostValue> items;
    std::shared_ptr<const ast::StructItem> of;  ///< tuple: the struct whose fields the items are, with the tree that it stands in; null: none
};

/// The item of a tuple, or the field of a struct, of this name; null: there is none.
const HostValue* member_of(const HostValue& value, std::string_view name);
inline HostValue* member_of(HostValue& value, std::string_view name) { return const_cast<HostValue*>(member_of(std::as_const(value), name)); }
/// "a tensor", "an integer", .. for messages.
std::string host_kind_name(HostValue::Kind kind);
/// What a number, bool, type, text or layout is to an expression of the language; false: `value` is something else, and `out` as it was.
bool constant_operand(const HostValue& value, sema::HostOperand& out);
/// The `name` of name, name<..>, name<..>[shape], each possibly called; empty of anything else, and of a name alone.
std::string_view called_name(const ast::Expr& expr);
/// name<T>[extents], possibly called: an array made on the spot, whatever its extents and elements are computed from.
bool makes_array(const ast::Expr& expr);

/// The x of view<T>(x), also of a view of a view; null: `expr` is no view.
const ast::Expr* viewed(const ast::Expr& expr);
/// What a part x[..], trans(x) or permute(x, axes) is taken of; null: the expression is none of them.
const ast::Expr* viewed_base(const ast::Expr& expr);

/// Ends all statements of a block: it was cancelled, or its steps are spent. Reported by who throws it.
struct HostStopped {
    Status status;
};

/// Members throw HostStopped and std::bad_alloc.
class HostRunner {
public:
    /// `held` counts what tensors hold that other runs have made, under the same memory budget.
    HostRunner(Engine& engine, LoadedModule& module, const LaunchOptions& options, DiagSink& diags,
               std::shared_ptr<uint64_t> held = std::make_shared<uint64_t>(0));
    HostRunner(const HostRunner&) = delete;  // what runs points to steps_
    HostRunner& operator=(const HostRunner&) = delete;
    /// Runs a block in a new scope. `ok` unless a statement failed; what failed is in the diagnostics.
    Status run(const ast::Block& block);
    /// Binds a name in the outermost scope (cases of a bench, variables of a session).
    void define(std::string_view name, HostValue value) { scopes_.front()[std::string(name)] = std::move(value); }
    std::optional<HostValue> evaluate(const ast::Expr& expr);
    /// Runs statements in the outermost scope. `shown`, the last of them, gives its value.
    Status run_input(std::span<const ast::Stmt* const> statements, const ast::Expr* shown, HostValue& value);
    /// Of the outermost scope; null: there is none of that name.
    const HostValue* variable(std::string_view name) const;
    /// Variables of the outermost scope that statements gave another value.
    const std::set<std::string, std::less<>>& assigned() const { return assigned_; }
    /// Hears of each tensor before a launch writes to it.
    void set_before_write(std::function<void(const std::shared_ptr<HostTensor>&)> hear) { before_write_ = std::move(hear); }
    /// As `print` shows it.
    std::string text_of(const HostValue& value, const PrintSpec& spec = {});
    /// The elements of a tensor that is written; of blocks the values, which have scales in them. nullopt: there is no memory for them.
    std::optional<TileData> elements_of(const HostValue& tensor);
    static std::string number_text(double value);  ///< the shortest text that reads back
    /// Values an iterable (range, set, list, tuple) goes through; nullopt is reported.
    std::optional<std::vector<HostValue>> iterate(const ast::Expr& expr);
    bool bind(const ast::Pattern& pattern, HostValue value);
    /// A number as JSON writes it; empty: it is none.
    std::string json_number(const HostValue& value);
    /// Wall seconds spent in kernel launches so far, compilation excluded.
    double launch_seconds() const { return launch_seconds_; }
    Status status() const { return status_; }

private:
    enum class Flow : uint8_t { next, break_, continue_, return_, failed };
    struct HostArgs {  ///< a call of a host function, matched to its signature
        Span span;
        FormatId format{};
        Shape shape;
        std::vector<std::string_view> names;           ///< of the parameters
        std::vector<const ast::Expr*> exprs;           ///< per parameter; null: default
        std::vector<std::optional<HostValue>> values;  ///< evaluated, but for parameters named `launch`
    };
    /// The argument, exactly; `out` stays as it is where none was given. False (reported): it is of another kind, or lies outside of the range.
    [[nodiscard]] bool take(const HostArgs& args, size_t i, double& out);
    [[nodiscard]] bool take(const HostArgs& args, size_t i, __int128& out, __int128 least, __int128 most);
    [[nodiscard]] bool take(const HostArgs& args, size_t i, std::string& out);
    bool refuse(const HostArgs& args, size_t i, const std::string& wanted);  ///< reports what the argument is instead; false
    bool refuse(Span span, std::string message);                             ///< reports it as a wrong use of a host function; false
    [[nodiscard]] bool take_seed(const HostArgs& args, size_t i, uint64_t& seed);
    /// The number that a value is: also of a tensor of rank 0, which must be written. nullopt: it is none.
    std::optional<Exact> number_in(const HostValue& value);
    /// The integer that a value is, reals not among them. nullopt: it is none.
    std::optional<__int128> integer_in(const HostValue& value);
    std::string described(const HostValue& value);  ///< for messages: kind and, of numbers, value
    std::string found(const HostValue& value);      ///< for messages: the kind, of tensors with type and extents
    /// Counts the work of host statements, one step and one more per kElementsPerStep elements, and sees to cancelling, progress and the budget.
    void step(Span span, uint64_t elements = 0);
    bool bounded(const HostValue& tuple, Span span);  ///< tuples neither nest without end nor grow with every pass of a loop; false: reported
    void look_up();                                   ///< progress and cancelling alone
    [[noreturn]] void stop(Status status, Diag why, std::initializer_list<std::string> args = {});
    [[nodiscard]] bool new_tensor(std::shared_ptr<HostTensor>& out, FormatId elem, LayoutId layout, const Shape& extents, bool initialised,
                                  Span span);
    template <class Body>
    Status guarded(Body&& body);  ///< runs it; the status, also of what it throws
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
    /// The variable, member or element that an expression names; null where it names none. False: reported.
    [[nodiscard]] bool place(const ast::Expr& expr, HostValue*& at);
    /// A part of a tensor that a launch writes: a tensor of its own, from which the elements go back when the launch has ended.
    struct WrittenPart {
        std::shared_ptr<HostTensor> whole, part;
        std::vector<int64_t> elements;  ///< of the whole, in the order of the part's
    };
    /// The argument of a parameter that the kernel writes; values that nobody would see again are refused.
    std::optional<HostValue> output(const ast::Expr& expr, std::vector<WrittenPart>& parts);
    std::optional<HostValue> part_of(const ast::IndexExpr& expr, const std::shared_ptr<HostTensor>& whole, std::vector<WrittenPart>& parts);
    void put_back(const WrittenPart& part);
    /// The tensor of a variable that an expression names, or names a part or a transposition of; null: it names none.
    const std::shared_ptr<HostTensor>* rooted(const ast::Expr& expr);
    /// What such an expression names, in place; nothing where strides do not say where the elements lie, some lie outside, or it is the variable
    /// itself.
    std::optional<TensorView> strided_part(const ast::Expr& expr);
    std::optional<int64_t> view_number(const ast::Expr* expr);  ///< 1 where there is none
    bool holds_tensor(const ast::Expr& expr);
    std::optional<bool> truth(const ast::Expr& condition);

    /// The host's own reading of an expression (a local, a host call, a launch, `x @ layout`); handled == false: the language's.
    std::optional<HostValue> own(const ast::Expr& expr, bool& handled);
    std::optional<HostValue> relayout(const ast::AnnotatedExpr& expr);
    std::optional<HostValue> view_of(const ast::Expr& call);  ///< view<T>(x): the memory of a tensor as elements of another type
    std::optional<HostValue> launch(LoadedModule& home, const ast::KernelItem& kernel, const ast::InstantiateExpr* generics,
                                    const ast::CallExpr& call);
    std::optional<sema::StaticValues> kernel_generics(const ast::KernelItem& kernel, const ast::InstantiateExpr& expr);
    std::optional<HostValue> elaborated(const ast::Expr& expr);
    /// The value of an expression of the language, as a description and the tiles that it speaks of. nullopt: reported.
    std::optional<sema::HostOperand> computed(const ast::Expr& expr, const sema::HostResolver& resolver, std::vector<TileData>& results);
    /// Runs an expression function on the machine under test too; false (reported) where its results differ from the interpreter's.
    bool compare_on_machine(const ir::Function& expression, const std::vector<TileData>& args, Span span);
    std::optional<HostValue> from_operand(const sema::HostOperand& shape, std::vector<TileData>& results, size_t& at, Span span);
    sema::HostOperand to_operand(const HostValue& value, Span span);
    void tensor_operand(const HostValue& value, Span span, sema::HostOperand& out);
    std::optional<std::vector<HostValue>> iterate_range(const ast::RangeExpr& range);
    std::optional<LaunchArgument> to_argument(HostValue& value, Span span);
    /// The memory that addresses of a launch may lead to, none of it named twice.
    std::vector<std::shared_ptr<HostTensor>> reachable(std::span<const HostValue> args);
    bool written(const HostValue& value, Span span);  ///< has every element of its tensors a value? Reported when not
    std::optional<TileData> as_tile(const HostValue& value, Span span);
    sema::HostResolver resolver();

    std::optional<HostValue> print(const ast::CallExpr& call);
    /// The text with its holes filled, `literal` where it is written; nullopt: reported.
    std::optional<std::string> filled(const std::string& text, std::span<const HostValue> values, Span literal);
    std::optional<HostValue> assert_that(const ast::CallExpr& call);
    std::optional<HostValue> compare(const HostArgs& args, double atol, double rtol);
    std::optional<HostValue> load_array(const HostArgs& args, const std::string& path, const std::string& name);
    struct Differences;
    std::vector<std::string> why_false(const ast::Expr& condition);  ///< notes for the message
    void why_not(const ast::Expr& expr, bool wanted, std::vector<std::string>& notes);
    std::string written_text(const ast::Expr& e);
    void compared(const ast::BinaryExpr& expr, bool wanted, std::vector<std::string>& notes);
    struct Numbers;
    bool numbers(const HostValue& value, Span span, Numbers& out);  ///< false: reported
    bool host_args(const char* signature, const ast::Expr& expr, HostArgs& args);
    /// A tensor of what `code` gives for each element; it sets `outside` where the type does not hold the value.
    std::optional<HostValue> make(const HostArgs& args, const std::function<uint64_t(const Format&, uint64_t, bool& outside)>& code);
    const Format& drawn(const HostArgs& args);  ///< the type that elements are made in: blocks are quantised from f32
#define HOST_CALL(name, signature, doc) std::optional<HostValue> host_##name(const HostArgs& args);
#include "lang/host_calls.def"

    Engine& engine_;
    LoadedModule& module_;
    LaunchOptions options_;
    DiagSink* diags_;  ///< assert_fails looks at the diagnostics of one launch alone
    std::deque<std::map<std::string, HostValue, std::less<>>> scopes_{1};
    std::deque<TileData> temporaries_;                  ///< tiles that operands of the expression in progress point to
    std::vector<std::weak_ptr<HostTensor>> addressed_;  ///< tensors whose addresses statements have as numbers
    const TensorBudget budget_;
    std::set<std::string, std::less<>> assigned_;
    std::function<void(const std::shared_ptr<HostTensor>&)> before_write_;
    uint64_t steps_ = 0;
    Span at_;                                                                        ///< of the statement or expression in progress
    std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();  ///< when the host last heard of progress
    const std::function<void()> tick_ = [this] { look_up(); };
    double launch_seconds_ = 0;
    Status status_ = Status::ok;
    unsigned depth_ = 0;
};

struct TestResult {
    std::string name;
    Status status = Status::ok;
    double seconds = 0;
    std::string metrics;   ///< benches: JSON object
    std::string machines;  ///< that it ran on, between commas
    std::vector<Diagnostic> diagnostics;
};
/// Runs the tests (or benches) of a module whose name contains `filter`, reporting each as it ends.
Status run_tests(Engine& engine, LoadedModule& module, std::string_view filter, const LaunchOptions& options,
                 const std::function<void(TestResult&)>& report);
Status run_benches(Engine& engine, LoadedModule& module, std::string_view filter, const LaunchOptions& options,
                   const std::function<void(TestResult&)>& report);

/// The body of each case of the benches, once; reports those that fail.
Status run_benches_once(Engine& engine, LoadedModule& module, std::string_view filter, const LaunchOptions& options,
                        const std::function<void(TestResult&)>& failed);
/// The tests in whose text `word` stands, up to the first that fails.
Status run_tests_naming(Engine& engine, LoadedModule& module, std::string_view word, const LaunchOptions& options,
                        const std::function<void(TestResult&)>& report);

/// Copies `from` to `to`, converting type and layout with one rounding per element; block formats quantise and decode as `cast` does.
bool copy_converted(Engine& engine, LoadedModule& module, const TensorView& to, const TensorView& from, DiagSink& diags, std::string* why);
/// Evaluates an expression text over named tiles on the reference machine; one result.
std::optional<std::vector<TileData>> evaluate_text(Engine& engine, LoadedModule& module, const std::string& text,
                                                   const std::map<std::string, sema::HostOperand, std::less<>>& names, DiagSink& diags);

}  // namespace tegula
