// The text of an asm statement as PTX instructions: read by the interpreter (ptx.h), and by what translates statements to C++ (rewrite.h).
#pragma once
#include <map>
#include <string>
#include <vector>

namespace tegula::on_cpu {

struct Instruction {
    std::string predicate, name;
    std::vector<std::string> operands;
};
struct Block {
    std::vector<Instruction> instructions;
    std::map<std::string, size_t> labels;
    std::vector<std::string> kept;                               ///< registers declared for the rest of the kernel
    std::vector<std::pair<std::string, std::string>> registers;  ///< type and name of those declared in braces
    std::string problem;                                         ///< a declaration that cannot be read
};

Block parse_ptx(const std::string& text);
/// "{a, b}" or "[a, b]" -> a, b; anything else: itself.
std::vector<std::string> list_of(const std::string& operand);

}  // namespace tegula::on_cpu
