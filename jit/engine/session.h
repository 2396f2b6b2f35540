// A session: items and variables that grow with each text that a person types. A text is evaluated whole or not at all; what it changed can be
// undone.
#pragma once
#include <deque>

#include "jit/engine/host.h"
#include "parser/parse.h"

namespace tegula {

/// A text that was evaluated, with its tree. Items and variables keep theirs.
struct SessionInput {
    uint64_t number = 0;
    SourcePtr source;
    Arena arena;
    Input parsed;
};

/// One call at a time.
class Session {
public:
    /// Imports and array files are looked for below `directory` too; empty: none.
    Session(std::shared_ptr<Engine> engine, std::string directory);

    /// Evaluates items, statements and expressions; `json` says what came of it. Unless `ok` all is as it was before. An empty name is `<input N>`.
    /// Throws what launches throw.
    Status evaluate(const std::string& name, std::string text, LaunchOptions options, DiagSink& diags, std::string& json);
    /// Evaluates as `evaluate` does and tells more of the value, then puts everything back. `json` is made unless there is an error.
    Status show(const std::string& name, std::string text, LaunchOptions options, DiagSink& diags, std::string& json);
    /// What evaluating the text would show, as far as it is known without running anything. Changes nothing. Throws Cancelled.
    Status type_of(std::string text, const std::atomic<bool>* cancel, DiagSink& diags, std::string& json);
    /// Goes back by one evaluation, contents of tensors included; its number, or nullopt: there is none.
    std::optional<uint64_t> undo();
    void reset();
    /// The value of a variable; null: there is none of that name.
    const HostValue* find(std::string_view name) const;
    /// Gives a variable a value from outside; can be undone. False: it cannot have this name.
    bool set(std::string_view name, HostValue value);

    // JSON.
    std::string is_complete(const std::string& text);
    std::string tokens(const std::string& text) const;
    std::string variables();
    std::string items() const;
    std::string history() const;
    /// What may stand at byte `at`, and what the word there is.
    std::string complete(const std::string& text, size_t at);
    std::string inspect(const std::string& text, size_t at);

    const std::shared_ptr<Engine>& engine() const { return engine_; }
    const ModulePtr& module() const { return now_.module; }

private:
    using InputPtr = std::shared_ptr<SessionInput>;
    struct OwnItem {
        const ast::Item* item;
        InputPtr from;
        std::shared_ptr<const std::set<std::string_view>> words;  ///< in its text: it depends on nothing else
    };
    struct Variable {
        std::shared_ptr<const HostValue> value;
        bool is_var = true;
        ast::Name name{};  ///< as it was declared
        InputPtr from;     ///< null: set by the host
        bool automatic = false;
    };
    using Variables = std::map<std::string, Variable, std::less<>>;
    struct State {
        ModulePtr module;
        std::map<std::string, ModulePtr> imports;  ///< loaded ones, as in Engine::Loading
        std::vector<OwnItem> items;
        Variables variables;
    };
    /// What goes back with an evaluation: the state before it, and of tensors that it wrote to what they held.
    struct Step {
        uint64_t number = 0;
        State before;
        std::vector<std::pair<std::shared_ptr<HostTensor>, HostTensor>> contents;
        uint64_t bytes = 0;  ///< of the contents
    };
    /// A text that is parsed and checked, and what the session would be with its items.
    struct Prepared {
        InputPtr input;
        State state;
        std::map<const ast::Item*, uint64_t> replaced;  ///< items of the text, with the number of the input whose items they replace
    };
    struct Past {
        uint64_t number;
        std::string text;
        Status status;
    };

    class World;

    Prepared prepare(const std::string& name, std::string text, uint64_t number, const std::atomic<bool>* cancel, DiagSink& diags);
    void add_items(Prepared& prepared, const std::atomic<bool>* cancel, DiagSink& diags);
    HostValue check_statements(Prepared& prepared, bool values, const std::atomic<bool>* cancel, DiagSink& diags);
    void offer_changes(const Prepared& prepared, const std::atomic<bool>* cancel, DiagSink& diags, size_t first);
    /// `number` 0: everything is put back.
    Status attempt(const std::string& name, std::string text, uint64_t number, const LaunchOptions& options, DiagSink& diags, std::string& json);
    Status run(Prepared& prepared, const LaunchOptions& options, DiagSink& diags, Step& step, std::string& json);
    void keep(Prepared& prepared, const HostRunner& runner, const HostValue& value);
    std::string outcome(const Prepared& prepared, HostRunner& runner, const HostValue& value) const;
    /// How much is told of a value: what it is; its elements, or of many the ends; also their codes and places in storage, of more.
    enum class ShownAs : uint8_t { kind, value, codes };
    static size_t leaves(const HostValue& value);  ///< numbers and texts in it
    std::string value_json(HostRunner& runner, const HostValue& value, ShownAs as) const;
    std::string tensor_json(HostRunner& runner, const HostTensor& tensor, const HostValue& value, ShownAs as) const;
    std::string shown_json(HostRunner& runner, const HostValue& value, ShownAs as) const;  ///< with its text
    std::string value_text(HostRunner& runner, const HostValue& value, bool whole) const;
    std::string type_text(const HostValue& value) const;
    std::string type_json(const HostValue& value) const;  ///< the members of an object, without what it holds
    std::string place_json(Span span) const;
    void remember(Step step);
    static void put_back(Step& step);
    ModulePtr assemble(std::span<const OwnItem> items, const InputPtr& input, const std::atomic<bool>* cancel, DiagSink& diags);
    /// The items whose meaning may change with those of `input`, which are among them.
    std::set<const ast::Item*> affected(std::span<const OwnItem> items, const InputPtr& input) const;
    std::string item_text(const ast::Item& item) const;
    InputPtr parse(const std::string& name, std::string text, uint64_t number, DiagSink& diags);

    const std::shared_ptr<Engine> engine_;
    const std::string directory_;
    std::unique_ptr<Engine::Loading> imports_;
    State now_;
    std::deque<Step> steps_;
    std::deque<Past> past_;
    uint64_t count_ = 0, past_bytes_ = 0;
    std::shared_ptr<uint64_t> held_ = std::make_shared<uint64_t>(0);  ///< bytes of the tensors of all evaluations
};

}  // namespace tegula
