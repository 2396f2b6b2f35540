#include "tests/emulate/ptx_text.h"

#include <algorithm>
#include <cstdlib>

namespace tegula::on_cpu {

namespace {

std::string trimmed(const std::string& s) {
    const size_t a = s.find_first_not_of(" \t\n"), b = s.find_last_not_of(" \t\n");
    return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

/// At commas outside braces and brackets.
std::vector<std::string> split_operands(const std::string& s) {
    std::vector<std::string> out;
    int depth = 0;
    size_t from = 0;
    for (size_t i = 0; i <= s.size(); ++i) {
        if (i == s.size() || (s[i] == ',' && depth == 0)) {
            if (std::string part = trimmed(s.substr(from, i - from)); !part.empty()) out.push_back(part);
            from = i + 1;
        } else if (s[i] == '{' || s[i] == '[') {
            ++depth;
        } else if (s[i] == '}' || s[i] == ']') {
            --depth;
        }
    }
    return out;
}

/// ".reg .b32 sum<128>" outside of braces.
void declare_kept(Block& block, const std::string& text) {
    const size_t from = text.rfind(' ') + 1, less = text.find('<');
    const int count = less == std::string::npos ? 0 : std::atoi(text.c_str() + less + 1);
    for (int i = 0; i < count; ++i) block.kept.push_back(text.substr(from, less - from) + std::to_string(i));
    if (count == 0) block.problem = "a declaration that the CPU machine does not read: " + text;
}

/// ".reg .b32 a, b" inside of braces; "two<4>" are two0 to two3.
void declare(Block& block, const std::string& text) {
    if (text.compare(0, 6, ".reg .") != 0) return;
    const size_t end = std::min(text.find(' ', 6), text.size());
    const std::string type = text.substr(6, end - 6);
    for (const std::string& name : split_operands(text.substr(end))) {
        const size_t less = name.find('<');
        const int count = less == std::string::npos ? 0 : std::atoi(name.c_str() + less + 1);
        if (less == std::string::npos) block.registers.emplace_back(type, name);
        for (int i = 0; i < count; ++i) block.registers.emplace_back(type, name.substr(0, less) + std::to_string(i));
    }
}

void add_statement(Block& block, std::string text, bool braces) {
    text = trimmed(text);
    for (size_t colon; (colon = text.find(':')) != std::string::npos && text.find_first_of(" .[") > colon && text[colon + 1] != ':';) {
        block.labels[text.substr(0, colon)] = block.instructions.size();
        text = trimmed(text.substr(colon + 1));
    }
    if (text.empty()) return;
    if (text[0] == '.') return braces ? declare(block, text) : declare_kept(block, text);
    Instruction in;
    if (text[0] == '@') {
        const size_t end = text.find(' ');
        in.predicate = text.substr(1, end - 1);
        text = trimmed(text.substr(end));
    }
    const size_t end = text.find_first_of(" \t\n");
    in.name = text.substr(0, end);
    if (end != std::string::npos) in.operands = split_operands(text.substr(end));
    block.instructions.push_back(std::move(in));
}

}  // namespace

Block parse_ptx(const std::string& source) {
    Block block;
    std::string text = trimmed(source);
    const bool braces = !text.empty() && text[0] == '{';
    if (braces) text = text.substr(1, text.rfind('}') - 1);
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(';', at), text.size());
        add_statement(block, text.substr(at, end - at), braces);
        at = end + 1;
    }
    return block;
}

std::vector<std::string> list_of(const std::string& operand) {
    if (operand.empty() || (operand[0] != '{' && operand[0] != '[')) return {operand};
    return split_operands(operand.substr(1, operand.size() - 2));
}

}  // namespace tegula::on_cpu
