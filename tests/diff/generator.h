// Random typed programs for differential tests: one kernel and one test that launches it, as source text. Every operation is defined for every
// input (numerics.md), so that all machines must agree to the bit. The same seed and machine give the same program, everywhere.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/diff/elements.h"

namespace tegula::diff {

/// "3, 4"
std::string list(const std::vector<int64_t>& extents);

struct TileType {
    std::string elem;
    std::vector<int64_t> shape;
    bool operator==(const TileType&) const = default;
};
/// What a statement reads and writes besides values: a tensor `inout`, or a pointer.
struct Memory {
    TileType tile;
    bool pointer = false;
    std::string layout = "";
    std::optional<size_t> input = {};  ///< the storage of this input tensor, instead of its own
    std::string where = "";            ///< conditions on the last extent, which then has the name `memn`
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
    std::string index;            ///< "pid * 3 + 1 +: 4, 0 +: 8 step 2"
    std::string layout = "";      ///< " @ col"
    std::string names = "";       ///< of extents known at launch; else they are constants
    std::string otherwise = "";   ///< " else .."
    bool all_codes = false;       ///< every bit pattern, instead of moderate numbers and some special ones
};
struct Program {
    uint64_t seed = 0;
    std::vector<int64_t> grid;
    std::string schedule, attributes;
    std::vector<Input> inputs;
    std::vector<Statement> statements;
    std::vector<int> outputs;   ///< values
    std::string output_layout;  ///< " @ col": programs share bytes of packed elements
    const TileType& type(int value) const;
    std::string text() const;
};

/// `nan_bits`: for machines on which the bits of NaN are promised (numerics.md, Floats), programs look at them, too.
Program generate(uint64_t seed, bool nan_bits);

/// Programs that are smaller by one statement (uses replaced by another value of the type, or zeros), one output, layout or clause less.
std::vector<Program> smaller(const Program& program);

}  // namespace tegula::diff
