// A kernel's statements in a row, with their names resolved: what the parts of the verifier (verify.h) read.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lang/kernel/verify.h"

namespace tegula::kernel {

constexpr int kNone = -1;
constexpr int64_t kUnknown = INT64_MIN;
/// So many consecutive threads agree on a value or go the same way; kEverybody: all of them.
constexpr int kEverybody = 1 << 20;

struct Variable {
    std::string_view name;
    int number = kNone;  ///< of the name
    int64_t size = 0;    ///< registers of an array; 0: no array
    bool typed = false, constant = false;
    bool uniform = false;  ///< whatever is assigned to it
    bool named = false;    ///< registers that PTX knows by name
    Ex value = {};         ///< of a `let`
    int item = kNone;      ///< that declares it
    int agreement = kEverybody;
};

/// A name in an item, and its variable: kNone for what the kernel does not declare.
struct Touch {
    int name, variable;
    bool written;
    bool indexed;       ///< followed by an index in text: memory or a register is read or written
    bool ends = false;  ///< another variable has its name from here on
};

/// A place in memory, as far as it is known: a name, and what is added to it.
struct Area {
    int name = kNone, variable = kNone;
    int64_t constant = 0;  ///< of what is added
    const Node* offset = nullptr;
    bool somewhere = false;  ///< the offset is not known
};

struct Range {
    int first = 0, end = 0;
};

enum class Shape : uint8_t { plain, choice, loop, roles };

struct Item {
    const Statement* statement;
    int end = 0;  ///< behind its bodies
    std::vector<Touch> touches = {};
    std::vector<Range> bodies = {};
    std::vector<int> declared = {};  ///< variables of its bodies and of its own head that end with it
    bool asynchronous = false;       ///< it or its bodies move queues, barriers or rings
    bool leaves = false;             ///< `break`
    bool returns = false;            ///< `return`
    Shape shape = Shape::plain;
    int condition = kEverybody;  ///< threads that agree on which way it goes
};

/// What an expression or a text names.
struct Mention {
    int name;
    bool indexed = false, written = false, declared = false;
    int64_t index = kUnknown;
    bool anew = false;  ///< assigned to, whatever it has been
};

enum class Word : uint8_t { name, type, keyword };

class Program {
public:
    explicit Program(const Kernel& kernel);

    const Kernel& kernel;
    std::vector<Item> items;  ///< in order
    Range body;
    std::vector<Variable> variables;
    std::unordered_map<std::string_view, const Row*> functions;  ///< of devices, by the rows that call them
    std::vector<bool> text_queues;                               ///< queues that text moves, by number
    bool text_barriers = false;                                  ///< text initialises barriers, waits or arrives
    std::unordered_set<int> text_written;                        ///< names that text assigns to

    void problem(int item, std::string reason);
    std::vector<Problem> take() { return std::move(problems_); }

    int number(std::string_view name);
    Word word(int number);  ///< what the name is in C
    std::string_view name(int number) const { return names_[static_cast<size_t>(number)]; }
    const std::vector<Mention>& mentions(Ex e);
    int variable(const Item& item, int name) const;
    /// The variable of an expression that is a name, or the one that it begins with.
    int root(Ex e);
    Area area(const Item& item, Ex e);
    const Call* call(const Item& item) const { return std::get_if<Call>(&item.statement->is); }

private:
    std::unordered_map<std::string_view, int> numbers_;
    std::vector<std::string_view> names_;
    std::vector<std::optional<Word>> words_;  ///< by name
    std::unordered_map<const Node*, std::vector<Mention>> mentions_;
    std::unordered_set<std::string> seen_;
    std::vector<Problem> problems_;
};

/// What a text names. What its calls move is noted in the program, where `notes`.
std::vector<Mention> mentions_of(Program& program, std::string_view text, bool notes);

void check_names(Program& program);    ///< fills the program in
void check_threads(Program& program);  ///< fills Variable::agreement and Item::condition in
void check_flow(Program& program);

}  // namespace tegula::kernel
