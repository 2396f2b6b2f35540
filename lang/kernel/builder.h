// Builds the statements of a kernel, one behind the other.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lang/kernel/kernel.h"
#include "lang/source.h"

namespace tegula::kernel {

class Builder {
public:
    Builder(Kernel& kernel, Pool& pool) : kernel_(kernel), pool_(pool), open_{{nullptr, &kernel.body}} {}
    Builder(const Builder&) = delete;
    Builder& operator=(const Builder&) = delete;
    Pool& pool() { return pool_; }
    Kernel& kernel() { return kernel_; }

    // ---- text ----
    void line(std::string text);
    /// An identifier that is not used yet. A number at its end keeps clear of keywords and of device functions.
    std::string fresh(std::string_view stem);
    void reserve(std::string_view name) { taken_.emplace(name); }
    /// The next statement gets a #line, where that changes.
    void mark(const SourceMap* sources, Span span);

    std::string take_mark() { return std::exchange(mark_, {}); }
    void put_mark(std::string directive) { mark_ = std::move(directive); }

    // ---- statements ----
    void close();      ///< ends what has been opened last
    void otherwise();  ///< of an `if`
    /// "const int stem7 = value;"
    Ex constant(std::string_view stem, Ex value);
    /// "const type name = value;", "to* const name = value;" and "type name = value;"
    void let(const std::string& type, std::string name, Ex value, bool maybe_unused = false);
    void let_pointer(const std::string& to, std::string name, Ex value);
    void var(std::string type, std::string name, Ex value);
    void declare(std::string type, std::string name, int64_t size = 0, std::string initial = {}, bool uniform = false);
    void assign(Ex place, Ex value, AssignOp op = AssignOp::set) { assign(Assign{place, value, op}); }
    void assign(Assign assign);
    void call(KernelOp op, std::vector<Ex> operands = {});
    void break_if(Ex condition);
    void leave();  ///< "return;"
    /// The next statement stands under the condition, in one line.
    void when(Ex condition);
    void open_for(For loop);
    /// "for (int name = 0; name < count; ++name)"; the counter.
    Ex open_count(const std::string& name, int64_t count, int unroll = kNoPragma);
    /// `ring`: the condition says that more than `beyond` of its stages are taken and not given back.
    void open_if(Ex condition, std::string ring = {}, int beyond = 0);
    void open_block();
    void open_role(Roles::Part role);  ///< the first of a statement of roles
    void next_role(Roles::Part role);

    // ---- what has been built ----
    /// Runs before every statement and before every end of a block.
    void before_each(std::function<void()> hook) { hook_ = std::move(hook); }
    size_t position() const { return open_.back().body->size(); }  ///< in the innermost open block
    Body copy_since(size_t position) const;
    void append(const Body& copy);
    size_t depth() const { return open_.size() - 1; }

private:
    struct Open {
        Statement* owner;
        Body* body;
    };
    void flush();
    Statement& add(Statement statement);
    void add_let(Let let);
    void enter(Statement& owner, Body& body) { open_.push_back({&owner, &body}); }

    Kernel& kernel_;
    Pool& pool_;
    std::vector<Open> open_;
    std::function<void()> hook_;
    bool in_hook_ = false;
    Ex condition_;  ///< of `when`
    std::string mark_;
    uint32_t file_ = 0;
    uint32_t line_ = 0;
    std::unordered_set<std::string> taken_;
    int64_t counter_ = 0;
};

}  // namespace tegula::kernel
