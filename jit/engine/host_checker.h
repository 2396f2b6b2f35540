// Host statements over what is known of their values without a run (internal to host_check*.cpp): constants, and of tensors the type, the extents and
// the layout. A value of kind `unit` is one of which nothing is known; whatever is made of it is unknown too, and never reported.
#pragma once
#include <set>

#include "jit/engine/host.h"
#include "jit/engine/host_check.h"

namespace tegula {

/// Enough has been done for one block: the rest is left to its run.
struct Spent {};

class HostChecker {
public:
    HostChecker(Engine& engine, LoadedModule& module, DiagSink& diags, std::set<const ast::KernelItem*>& checked, const std::atomic<bool>* cancel);
    HostChecker(const HostChecker&) = delete;  // its budget is asked for in a function that points to it
    void run(const ast::Item& item);           ///< a test or bench
    void define(std::string_view name, HostValue value) { scopes_.front()[std::string(name)] = std::move(value); }
    /// Statements in the outermost scope, then what is known of the value of an expression (may be null) there.
    HostValue run(std::span<const ast::Stmt* const> statements, const ast::Expr* shown = nullptr);

private:
    enum class Flow : uint8_t { next, leaves };
    using Values = std::vector<HostValue>;

    void bench(const ast::BenchItem& item);
    Flow block(const ast::Block& body);
    Flow statement(const ast::Stmt& stmt);
    void branch(const ast::IfStmt& stmt, Flow& flow);
    void loop(const ast::ForStmt& stmt);
    void loop(const ast::WhileStmt& stmt);
    void bind(const ast::Pattern& pattern, const HostValue& value);
    Values iterate(const ast::Expr& expr);
    HostValue condition(const ast::Expr& expr);
    void forget(std::span<const ast::Stmt* const> stmts);

    HostValue* find(std::string_view name);
    HostValue* place(const ast::Expr& expr);
    HostValue value(const ast::Expr& expr);
    std::optional<HostValue> own(const ast::Expr& expr);
    HostValue elaborated(const ast::Expr& expr);
    HostValue relayout(const ast::AnnotatedExpr& expr);
    HostValue host_call(std::string_view name, const char* signature, const ast::Expr& expr);
    HostValue launch(LoadedModule& home, const ast::KernelItem& kernel, const ast::InstantiateExpr* generics, const ast::CallExpr& call);
    void output(const ast::Expr& expr);
    bool generic_values(const ast::KernelItem& kernel, const ast::InstantiateExpr& expr, sema::StaticValues& values);
    sema::HostResolver resolver();
    sema::HostOperand operand(const HostValue& value);
    HostValue result(const sema::HostOperand& shape, const ir::Function* fn, std::span<const ir::ValueId> leaves, size_t& at);
    HostValue tensor(FormatId elem, const Shape& extents, LayoutId layout = {});

    Engine& engine_;
    LoadedModule& module_;
    DiagSink& diags_;
    std::set<const ast::KernelItem*>& checked_;  ///< of which an instance has been elaborated
    sema::Limits limits_;
    uint64_t statements_ = 0, ticks_ = 0;
    const std::function<void()> tick_;
    std::deque<std::map<std::string, HostValue, std::less<>>> scopes_{1};
    std::deque<TileData> tiles_;
    unsigned depth_ = 0;
};

inline bool is_unknown(const HostValue& value) { return value.kind == HostValue::unit; }

}  // namespace tegula
