// Random typed programs for differential tests: one kernel and one test that launches it, as source text. Every operation is defined for every
// input (numerics.md), so that all machines must agree to the bit. The same seed gives the same program, everywhere.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tegula::diff {

struct TileType {
    std::string elem;
    std::vector<int64_t> shape;
    bool operator==(const TileType&) const = default;
};
/// One `let`: `text` with "{k}" for operand k.
struct Statement {
    TileType type;
    std::string text;
    std::vector<int> operands;  ///< values, earlier ones; the first `inputs` values are parts of input tensors
};
struct Input {
    TileType tile;
    std::vector<int64_t> tensor;  ///< extents of the tensor, which the tile may overlap
    std::string index;            ///< "pid * 3 + 1 +: 4, 0 +: 8"
    bool col = false;
};
struct Program {
    uint64_t seed = 0;
    int64_t grid = 1;
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
