// The statements of one thread of a GPU kernel, as a tree. Lowering builds it (builder.h), verify.h proves
// what it relies on, and a printer writes it as text of the machine. What is not converted yet is text.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "lang/kernel/expr.h"
#include "lang/kernel/ops.h"

namespace tegula::kernel {

struct Statement;
/// Statements, one behind the other. Its own functions are defined where a Statement is complete.
struct Body : std::vector<Statement> {
    using std::vector<Statement>::vector;
    Body();
    Body(const Body&);
    Body(Body&&) noexcept;
    Body& operator=(const Body&);
    Body& operator=(Body&&) noexcept;
    ~Body();
};

/// A line as it stands.
struct Text {
    std::string line;
};
/// The source line of what follows.
struct Mark {
    std::string directive;
};
/// `TYPE NAME = VALUE;`
struct Let {
    std::string type, name;
    Ex value;
    bool constant = false;  ///< as the type's text says, too
};
/// `TYPE NAME[SIZE];`, or a variable where the size is 0. `initial` is text behind it: " = {}".
struct Declare {
    std::string type, name;
    int64_t size = 0;
    std::string initial = {};
    bool uniform = false;  ///< whatever is assigned, all threads of the group assign the same: a reduction's result
};
enum class AssignOp : uint8_t { set, add, multiply, divide, shift_right, bit_and, bit_xor, increment };
/// `PLACE OPERATOR VALUE;`, or `++PLACE;`
struct Assign {
    Ex place, value = {};
    AssignOp op = AssignOp::set;
};
inline Assign increment(Ex place) { return {place, {}, AssignOp::increment}; }
constexpr int kNoPragma = 0, kUnrollAll = -1;
/// A loop. Without a counter and a test it is endless, without a counter alone `while`.
struct For {
    std::string type = {}, counter = {};
    Ex start = {}, test = {};
    std::vector<Assign> next = {};
    int unroll = kNoPragma;
    Body body = {};
};
struct If {
    Ex condition;
    Body yes = {}, no = {};
    bool has_else = false;
    bool brief = false;     ///< in one line
    std::string ring = {};  ///< the condition says that more than `beyond` stages of this ring are taken
    int beyond = 0;
};
struct Block {
    Body body = {};
};
/// Threads that go their own way, in one statement of all that do.
struct Roles {
    struct Part {
        std::string name;
        int first = 0, end = 0;  ///< threads
        int registers = 0;       ///< of each, once they have been exchanged; 0: they are not
        Ex condition = {};       ///< empty: the rest, which the last part is
        Body body = {};
    };
    std::vector<Part> parts;
};
struct Call {
    const Row* row;
    std::vector<Ex> operands;
};
/// `if (WHEN) break;`
struct Break {
    Ex when;
};
/// The thread is done.
struct Return {};

struct Statement {
    std::variant<Text, Mark, Let, Declare, Assign, For, If, Block, Roles, Call, Break, Return> is;
};

/// A ring of stages in shared memory, by the names of its variables; those that it has not are empty.
struct Ring {
    std::string name;
    int stages = 1;
    std::string full = {}, empty = {};     ///< addresses of the first barriers; a ring that threads fill has none
    std::string peer_empty = {};           ///< in the cluster: what is arrived at instead of `empty`
    std::string put = {}, put_phase = {};  ///< stage to be filled next
    std::string get = {}, get_phase = {};  ///< stage to be taken next
    std::string release = {};              ///< oldest stage that is taken, unless that is `get`
    std::string ahead = {};                ///< of a ring that threads fill: stages that are filled and not taken
    bool own = false;                      ///< of such a ring: each thread reads what it has written itself
};

/// Registers of 32 bits that PTX knows by name: STEM0, STEM1 ..
struct NamedRegisters {
    std::string stem;
    int64_t count = 0;
};

struct Kernel {
    std::string name;
    int threads = 128;
    int arch = 90;
    std::string thread = "t";  ///< the number of a thread
    std::vector<NamedRegisters> named;
    std::vector<Ring> rings;
    std::set<std::string> sections;  ///< of device text that its operations need
    Body body;
};

}  // namespace tegula::kernel
