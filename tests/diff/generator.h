// Random typed programs for differential tests: one kernel and one test that launches it, as source text. Every operation is defined for every
// input (numerics.md), so that all machines must agree to the bit. The same seed gives the same program, everywhere.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tegula::diff {

struct TileType {
    std::string elem;
    std::vector<int64_t> shape;
    bool operator==(const TileType&) const = default;
};
/// What a statement reads and writes besides values: a tensor `inout`, or a pointer.
struct Memory {
    TileType tile;
    bool pointer = false;
};
/// One `let`: `text` with "{k}" for operand k and "mem" for its memory; or statements in braces that leave `acc`.
struct Statement {
    TileType type;
    std::string text;
    std::vector<int> operands;  ///< values, earlier ones; the first `inputs` values are parts of input tensors
    std::optional<Memory> memory = {};
};
struct Input {
    TileType tile;
    std::vector<int64_t> tensor;  ///< extents of the tensor, which the tile may overlap
    std::string index;            ///< "pid * 3 + 1 +: 4, 0 +: 8"
    bool col = false;
    std::string names = "";  ///< of extents known at launch; else they are constants
};
struct Program {
    uint64_t seed = 0;
    std::vector<int64_t> grid;
    std::string schedule, attributes;
    std::vector<Input> inputs;
    std::vector<Statement> statements;
    std::vector<int> outputs;  ///< values
    const TileType& type(int value) const;
    std::string text() const;
};

Program generate(uint64_t seed);

/// Programs that are smaller by one statement (uses replaced by another value of the type, or zeros), one output or one input less.
std::vector<Program> smaller(const Program& program);

}  // namespace tegula::diff
