// Texts that are being edited, with the files that they import: what is wrong with them, and what their words are. A text is parsed and its names are
// checked whenever it has changed; bodies are elaborated where their text, or that of an item which they mention, has changed.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "jit/engine/engine.h"
#include "sema/recorder.h"
#include "sema/vocabulary.h"

namespace tegula {

/// One call at a time.
class Workspace {
public:
    explicit Workspace(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

    /// The text of a file counts from now on, instead of what is on disk.
    void set(const std::string& path, std::string text);
    /// The file is looked at on disk; it is among those in which uses of an item are looked for.
    void add(const std::string& path);
    struct Question {
        std::string_view verb;
        std::string path;
        size_t begin = 0, end = 0;
        std::string text;
    };
    /// Throws Cancelled.
    Status ask(const Question& question, const std::atomic<bool>* cancel, DiagSink& diags, std::string& json);
    /// The text as a module, loaded as files are; null: it has errors, which are reported.
    ModulePtr module(const std::string& path, DiagSink& diags);

    const std::shared_ptr<Engine>& engine() const { return engine_; }

private:
    struct Use {
        Span at, declared;
        friend bool operator==(const Use&, const Use&) = default;
    };
    struct Fact {
        uint32_t begin = 0, end = 0;  ///< from the beginning of the item
        std::string name;
        sema::NameFact is;
    };
    /// A place that moves with its item.
    struct Anchor {
        uint64_t item = 0;  ///< 0: `span` as it is
        Span span;
    };
    struct ItemPlace {
        uint32_t begin = 0, end = 0;
        uint64_t id = 0;     ///< of kind, name, and the number among those
        uint64_t state = 0;  ///< of its text and of what is known to be wrong with it
        const ast::Item* item = nullptr;
    };
    /// What elaborating an item said.
    struct Result {
        std::vector<Diagnostic> diags;
        std::vector<Fact> facts;
        std::vector<std::pair<Anchor, Anchor>> uses;         ///< of fields
        std::map<uint64_t, std::shared_ptr<Result>> called;  ///< what calls and launches said of other items
    };
    class Listener;
    /// A text that is parsed and whose names are checked.
    struct Tree {
        ModulePtr module;
        std::unique_ptr<Listener> listener;
        std::vector<ItemPlace> items;                                            ///< in order
        std::vector<Use> uses;                                                   ///< in order of `at`
        std::vector<Fact> facts;                                                 ///< of constants and types, from the beginning of the text
        DiagSink names;                                                          ///< what was reported so far
        std::unordered_map<const ast::Item*, std::shared_ptr<DiagSink>> blocks;  ///< the same of tests and benches
        bool lacks_imports = false;
        uint64_t generation = 0;
        const ItemPlace* at(uint32_t offset) const;
    };
    using TreePtr = std::shared_ptr<Tree>;
    using Words = std::unordered_set<size_t>;
    struct Document {
        std::string path, directory, text;
        bool open = false;     ///< the text is given
        std::string stamp;     ///< of the file on disk
        uint64_t version = 0;  ///< of the text
        std::shared_ptr<TypeTable> types = std::make_shared<TypeTable>();
        std::map<std::string, ModulePtr> imports;
        std::map<uint32_t, std::string> paths;      ///< of imported files by number
        std::map<std::string, std::string> stamps;  ///< of imported files as they were read
        TreePtr tree;
        uint64_t tree_version = 0;
        /// called: what the first call or launch said of a function or kernel. lost: of items that the tree lacks.
        std::unordered_map<uint64_t, std::shared_ptr<const Result>> results, called, lost;
        std::unordered_map<uint64_t, std::shared_ptr<const Words>> words;  ///< by the hash of a text
        std::unordered_set<uint64_t> dirty;
        std::shared_ptr<DiagSink> checked;  ///< all that was reported; null: not checked yet
    };
    struct Place {  ///< in a file by its path
        std::string file;
        uint32_t begin = 0, end = 0;
        friend auto operator<=>(const Place&, const Place&) = default;
    };

    // workspace.cpp
    Document* find(const std::string& path);
    std::string stamp_of(const std::string& path) const;
    bool refresh(Document& d);
    Tree& tree(Document& d, const std::atomic<bool>* cancel);
    TreePtr read(Document& d, const std::atomic<bool>* cancel);
    using Places = std::unordered_map<uint64_t, const ItemPlace*>;
    static uint64_t state_of(const Tree& tree, const ItemPlace& place, uint64_t hash);
    static void move_result(std::shared_ptr<const Result>& result, const Tree& old, const Tree& fresh, const Places& now);
    void rebase(Document& d, const Tree* old, Tree& fresh, bool imports_changed);
    DiagSink& check(Document& d, const std::atomic<bool>* cancel);
    std::shared_ptr<const Result> check_item(Document& d, const ItemPlace& place, const std::atomic<bool>* cancel);
    void listen_to_instance(Document& d, const ast::KernelItem& kernel, const sema::Limits& limits);
    DiagSink settled(Document& d, const std::atomic<bool>* cancel);
    Place place_of(const Document& d, Span span) const;
    std::string diagnostics(Document& d, bool settle, const std::atomic<bool>* cancel);

    // workspace_names.cpp
    struct Found {                          ///< what a word is
        Span at;                            ///< the word
        std::optional<Span> declared;       ///< where; none: it is built in, or nobody knows
        const ast::Item* item = nullptr;    ///< that is declared there
        const ast::Item* within = nullptr;  ///< the item that a local name is declared in
        sema::NameKind kind = sema::NameKind::name;
        std::string name, type, doc, module, instance;
        std::string layout;  ///< that it names, or has, arguments included
        size_t rank = 0;     ///< of what has the layout; 0: any
        uint64_t bits = 0;   ///< that a tile takes
    };
    Span word_at(const Document& d, size_t at) const;
    std::optional<Use> use_at(Document& d, size_t at, const std::atomic<bool>* cancel);
    std::vector<Use> uses_of(Document& d, const std::atomic<bool>* cancel);
    const Result* facts_of(const Document& d, uint64_t item) const;
    sema::NameFact fact_at(const Document& d, Span at) const;
    sema::NameFact fact_near(const Document& d, std::string_view name, size_t at) const;
    std::optional<Found> look_up(Document& d, size_t at, const std::atomic<bool>* cancel);
    bool find_metric(const Document& d, Found& found) const;
    bool find_library(const Document& d, Found& found) const;
    std::string named_layout(const Document& d, const Found& found) const;
    Found declared_at(Document& d, const Use& use);
    void describe(Document& d, Found& found);
    void describe_local(Document& d, Found& found);
    void describe_type(Found& found, const ast::Expr& type) const;
    void describe_item(const Document& d, Found& found) const;
    std::string instance_of(const Document& d, const ast::Item& item) const;
    std::vector<Place> references(Document& d, const Place& target, std::string_view name, bool everywhere, const std::atomic<bool>* cancel);
    bool is_local(Document& d, const Place& target) const;
    std::string hover(Document& d, size_t at, const std::atomic<bool>* cancel);
    std::string definition(Document& d, size_t at, const std::atomic<bool>* cancel);
    std::string occurrences(Document& d, size_t at, bool everywhere, const std::atomic<bool>* cancel);
    std::string calls(Document& d, size_t at, const std::atomic<bool>* cancel);
    std::string hints(Document& d, size_t begin, size_t end, const std::atomic<bool>* cancel);

    // workspace_rename.cpp
    class Renaming;
    std::string rename_problem(const Found& found, const Place& target, const std::string& name) const;
    std::string unknown_member(std::string_view name, const std::atomic<bool>* cancel);
    std::string rename(Document& d, size_t at, const std::string& name, const std::atomic<bool>* cancel);

    // workspace_typing.cpp
    class World;
    static std::pair<size_t, size_t> stretch_at(const Document& d, size_t at);
    std::string complete(Document& d, size_t at, const std::atomic<bool>* cancel);
    std::string signature(Document& d, size_t at, const std::atomic<bool>* cancel);
    bool find_argument(Document& d, Found& found) const;

    // workspace_shape.cpp
    std::string symbols(Document& d, const std::atomic<bool>* cancel);
    std::string folds(Document& d) const;
    std::string selections(Document& d, size_t at, const std::atomic<bool>* cancel);
    std::string links(Document& d, const std::atomic<bool>* cancel);
    std::string tokens(Document& d, const std::atomic<bool>* cancel);
    std::string library_text(std::string_view name) const;

    const std::shared_ptr<Engine> engine_;
    std::map<std::string, Document> documents_;
    uint64_t generation_ = 0;  ///< of all texts
};

}  // namespace tegula
