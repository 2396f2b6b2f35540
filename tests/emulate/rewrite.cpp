#include "tests/emulate/rewrite.h"

#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "tests/emulate/ptx_text.h"

namespace tegula::on_cpu {

namespace {

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

bool word_at(const std::string& s, size_t at, const char* word) {
    const size_t n = std::strlen(word);
    return s.compare(at, n, word) == 0 && (at == 0 || !is_word(s[at - 1])) && (at + n >= s.size() || !is_word(s[at + n]));
}

void skip_blanks(const std::string& s, size_t& at) {
    while (at < s.size() && std::strchr(" \t\n", s[at])) ++at;
}

/// A string literal with its quotes, or a balanced group in parentheses.
std::string take(const std::string& s, size_t& at) {
    const size_t from = at;
    if (s[at] == '"') {
        for (++at; at < s.size() && s[at] != '"'; ++at)
            if (s[at] == '\\') ++at;
        ++at;
        return s.substr(from, at - from);
    }
    int depth = 0;
    do {
        if (s[at] == '"') {
            take(s, at);
            continue;
        }
        depth += s[at] == '(' ? 1 : s[at] == ')' ? -1 : 0;
        ++at;
    } while (at < s.size() && depth > 0);
    return s.substr(from, at - from);
}

std::string file_text(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

std::string in_folder(const char* name) { return std::string(TEGULA_EMULATE_DIR) + "/" + name; }

// ---- asm statements ----

struct AsmOperand {
    std::string constraint;  ///< "=r", in quotes
    std::string expression;  ///< in parentheses
    bool output;
    char kind() const { return constraint[constraint.size() - 2]; }
    /// The C++ type of such a register.
    const char* type() const {
        switch (kind()) {
            case 'h':
                return "unsigned short";
            case 'l':
                return "unsigned long long";
            case 'f':
                return "float";
            case 'd':
                return "double";
            default:
                return "unsigned";
        }
    }
};

struct AsmStatement {
    std::string literals;  ///< as C++ has them, side by side
    std::string ptx;
    std::vector<AsmOperand> operands;
};

std::string unquoted(const std::string& literal) {
    std::string out;
    for (size_t i = 1; i + 1 < literal.size(); ++i) {
        const bool escaped = literal[i] == '\\';
        i += escaped;
        out += !escaped ? literal[i] : literal[i] == 'n' ? '\n' : literal[i] == 't' ? '\t' : literal[i];
    }
    return out;
}

/// asm [volatile] (text : outputs : inputs : clobbers), `at` behind the opening parenthesis; leaves `at` behind the closing one.
AsmStatement read_asm(const std::string& s, size_t& at) {
    AsmStatement out;
    int section = 0;
    for (skip_blanks(s, at); at < s.size() && s[at] != ')'; skip_blanks(s, at)) {
        if (s[at] == ':') {
            ++section;
            ++at;
        } else if (s[at] == ',') {
            ++at;
        } else if (section == 0 || section == 3) {
            const std::string literal = take(s, at);
            if (section == 0) out.literals += literal + " ", out.ptx += unquoted(literal);
        } else {
            const std::string constraint = take(s, at);
            skip_blanks(s, at);
            out.operands.push_back({constraint, take(s, at), section == 1});
        }
    }
    ++at;
    return out;
}

/// For the interpreter.
std::string called(const AsmStatement& a) {
    std::string operands;
    for (const AsmOperand& o : a.operands)
        operands += std::string(", ") + (o.output ? "cpu_out(" : "cpu_in(") + o.constraint + ", " + o.expression + ")";
    return "CPU_ASM(" + a.literals + operands + ")";
}

/// The names of the functions in instructions.h.
bool is_compiled(const std::string& function) {
    static const std::set<std::string> names = [] {
        std::set<std::string> out;
        const std::string text = file_text(in_folder("instructions.h"));
        for (size_t at = text.find("ptx_"); at != std::string::npos; at = text.find("ptx_", at)) {
            const size_t from = at;
            while (at < text.size() && is_word(text[at])) ++at;
            out.insert(text.substr(from, at - from));
        }
        return out;
    }();
    return names.count(function) != 0;
}

/// C++ statements for the PTX of an asm statement whose instructions are all functions of instructions.h; empty for any other.
class Compiler {
public:
    explicit Compiler(const AsmStatement& a) : asm_(a), block_(parse_ptx(a.ptx)) {}
    std::string text() {
        known_ = block_.kept.empty() && block_.labels.empty() && block_.problem.empty();
        for (const auto& [type, name] : block_.registers) declare(type, name);
        for (size_t i = 0; i < asm_.operands.size(); ++i) {
            const AsmOperand& o = asm_.operands[i];
            out_ += std::string(o.type()) + " cpu_" + std::to_string(i);
            out_ += o.output && o.constraint[1] != '+' ? "{}; " : " = (" + std::string(o.type()) + ")" + o.expression + "; ";
        }
        for (const Instruction& in : block_.instructions) add(in);
        for (size_t i = 0; i < asm_.operands.size(); ++i)
            if (asm_.operands[i].output) out_ += asm_.operands[i].expression + " = cpu_" + std::to_string(i) + "; ";
        return known_ ? "do { " + out_ + "} while (0)" : "";
    }

private:
    void declare(const std::string& type, const std::string& name) {
        const char* bits = type == "pred" ? "bool" : type == "f32" ? "float" : type == "f64" ? "double" : nullptr;
        if (!bits) bits = type.substr(1) == "16" ? "unsigned short" : type.substr(1) == "64" ? "unsigned long long" : "unsigned";
        out_ += std::string(bits) + " cpu_r_" + name + "{}; ";
        declared_.insert(name);
    }
    std::string argument(const std::string& operand) {
        if (operand[0] == '!') return "!" + argument(operand.substr(1));
        if (operand[0] == '%' && operand.size() > 1 && operand[1] >= '0' && operand[1] <= '9') return "cpu_" + operand.substr(1);
        if (operand.compare(0, 2, "0f") == 0) return "cpu_float(0x" + operand.substr(2) + "u)";
        if (operand[0] == '-' || (operand[0] >= '0' && operand[0] <= '9')) return operand;
        known_ = known_ && declared_.count(operand);
        return "cpu_r_" + operand;
    }
    void add(const Instruction& in) {
        std::string name = "ptx_", arguments;
        bool hinted = false;
        const bool global = in.name.compare(0, 9, "ld.global") == 0 || in.name.compare(0, 9, "st.global") == 0;
        std::istringstream parts(in.name);
        for (std::string part; std::getline(parts, part, '.');) {
            static const std::set<std::string> caching = {"ca", "cg", "cs", "lu", "cv", "wb", "wt"};
            hinted |= part == "L2::cache_hint";
            if (!global || (!caching.count(part) && part.compare(0, 4, "L1::") != 0 && part.compare(0, 4, "L2::") != 0)) name += part + "_";
        }
        std::vector<std::string> operands = in.operands;
        if (hinted && !operands.empty()) {
            arguments = argument(operands.back());
            out_ += "cpu_policy(" + arguments + "); ";
            operands.pop_back();
        }
        arguments.clear();
        for (size_t i = 0; i < operands.size(); ++i) {
            if (operands[i][0] == '{' && in.name.compare(0, 4, "mov.") == 0) name += i ? "pack_" : "unpack_";
            for (const std::string& operand : list_of(operands[i])) arguments += (arguments.empty() ? "" : ", ") + argument(operand);
        }
        name.pop_back();
        known_ = known_ && is_compiled(name);
        if (!in.predicate.empty()) out_ += "if (" + argument(in.predicate) + ") ";
        out_ += name + "(" + arguments + "); ";
    }

    const AsmStatement& asm_;
    const Block block_;
    std::set<std::string> declared_;
    std::string out_;
    bool known_ = true;
};

}  // namespace

std::string rewrite(const std::string& s) {
    std::string out;
    for (size_t at = 0; at < s.size();) {
        if (s[at] == '"') {
            out += take(s, at);
        } else if (word_at(s, at, "asm")) {
            at += 3;
            skip_blanks(s, at);
            if (word_at(s, at, "volatile")) at += 8;
            skip_blanks(s, at);
            ++at;
            const AsmStatement statement = read_asm(s, at);
            const std::string compiled = Compiler(statement).text();
            out += compiled.empty() ? called(statement) : compiled;
        } else if (word_at(s, at, "extern") && s.compare(at, 17, "extern __shared__") == 0) {
            const size_t end = s.find(';', at), bracket = s.rfind('[', end);
            size_t name = bracket;
            while (name > at && is_word(s[name - 1])) --name;
            out += "unsigned char* const " + s.substr(name, bracket - name) + " = cpu_machine->shared";
            at = end;
        } else if (word_at(s, at, "__shared__")) {
            out += "static";
            at += 10;
        } else {
            out += s[at++];
        }
    }
    return out;
}

std::string entry_of(const std::string& s) {
    size_t at = s.find("extern \"C\" __global__");
    if (at == std::string::npos) return {};
    at = s.find("void", at) + 4;
    skip_blanks(s, at);
    for (const std::string bound : {"__launch_bounds__", "TEGULA_BOUNDS"})
        if (word_at(s, at, bound.c_str())) {
            at += bound.size();
            take(s, at);
        }
    skip_blanks(s, at);
    size_t end = at;
    while (end < s.size() && is_word(s[end])) ++end;
    return s.substr(at, end - at);
}

std::string header_path() { return in_folder("cuda_on_cpu.h"); }
std::string header_text() { return file_text(header_path()) + file_text(in_folder("instructions.h")); }

}  // namespace tegula::on_cpu
