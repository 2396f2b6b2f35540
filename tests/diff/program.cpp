// What a program is as text, and what is smaller than it (generator.h).
#include <algorithm>

#include "tests/diff/generator.h"

namespace tegula::diff {

namespace {

struct Named {
    const char *name, *text;
};
constexpr Named kBlocks[] = {
    {"bmx", "block<f4e2m1, 8, scale = f8e8m0>"},
    {"bnv", "block<f4e2m1, 16, scale = f8e4m3, tensor_scale = f32>"},
    {"bceil", "block<f8e4m3, 5, scale = f32, rule = ceil>"},
    {"beven", "block<f6e2m3, 3, scale = float<5, 0>, rule = even>"},
    {"bint", "block<fixed<2, 6>, 32, scale = f8e8m0, rule = rceil>"},
};
constexpr Named kLayouts[] = {
    {"spread", "[i: M] = (i * 3,)"},
    {"panels", "<R: int>[i: M, j: N] = (i / R, j, i % R)"},
    {"skewed", "[i: M, j: N] = (i, (i + j) % N)"},
    {"turned", "[i: M, j: N, k: P] = (k, i, j * 2)"},
};

std::string colons(size_t rank) {
    std::string out;
    for (size_t d = 0; d < rank; ++d) out += d ? ", :" : ":";
    return out;
}

/// Replaces "{k}" by the name of operand k.
std::string fill(const std::string& text, const std::vector<int>& operands) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        const bool hole = text[i] == '{' && i + 2 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '9' && text[i + 2] == '}';
        if (!hole) {
            out += text[i];
            continue;
        }
        out += "v" + std::to_string(operands[static_cast<size_t>(text[i + 1] - '0')]);
        i += 2;
    }
    return out;
}

std::string memory_name(int value) { return "m" + std::to_string(value); }

std::string replaced(std::string text, const std::string& what, const std::string& by) {
    for (size_t at; (at = text.find(what)) != std::string::npos;) text.replace(at, what.size(), by);
    return text;
}

/// `let`, or for a text in braces (`{ var acc = ..; ..; acc }`) a variable written by its statements.
std::string statement_text(int value, const Statement& s) {
    const std::string name = "v" + std::to_string(value);
    const std::string text = replaced(fill(s.text, s.operands), "mem", memory_name(value));
    if (text[0] != '{') return "    let " + name + " = " + text + ";\n";
    return "    " + replaced(text.substr(2, text.size() - 4 - 4), "acc", name) + "\n";  // without "{ " and " acc }"
}

/// Host text that makes the data of a tensor: every bit pattern, or moderate numbers and some special ones.
std::string data_text(const std::string& t, const std::vector<int64_t>& extents, uint64_t seed, bool all_codes) {
    const Element e = element_of(t);
    const std::string shape = "[" + list(extents) + "]";
    const auto key = [&](uint64_t k) { return "seed = " + std::to_string(seed + k) + ")"; };
    const auto draw = [&](const char* most, uint64_t k) { return "rand<f32>" + shape + "(" + key(k) + " < " + most; };
    const auto integers = [&](const std::string& range, uint64_t k) { return "randint<i64>" + shape + "(" + range + ", " + key(k); };
    if (all_codes && e.bits < 63 && e.kind != Kind::boolean) {
        const std::string code = "u" + std::to_string(e.bits);
        return "bitcast<" + t + ">(cast<" + code + ">(" + integers("0, " + std::to_string(uint64_t{1} << e.bits), 0) + "))";
    }
    if (e.kind == Kind::integer && e.bits > 16)
        return "cast<" + t + ">(select(" + draw("0.9", 1) + ", " + integers("-300, 300", 0) + ", " + integers("-(1 << 62), 1 << 62", 2) + "))";
    if (e.kind == Kind::integer || e.kind == Kind::boolean) return "cast<" + t + ">(" + integers("-300, 300", 0) + ")";
    const std::string normal = std::string("randn<") + (t == "f64" ? "f64" : "f32") + ">" + shape + "(";
    return "cast<" + t + ">(select(" + draw("0.9", 1) + ", " + normal + key(0) + " * 4.0, " + normal + key(2) + " * 1e30 - select(" + draw("0.3", 3) +
           ", inf, 0.0)))";
}

/// Items of the file that `text` names.
std::string items(const std::string& text) {
    std::string out;
    for (const char* module : {"random", "formats"})
        if (text.find(std::string(module) + ".") != std::string::npos) out += "import std." + std::string(module) + " as " + module + ";\n";
    for (const Element& e : elements())
        if (*e.declared && text.find(e.name) != std::string::npos) out += "type " + e.name + " = " + e.declared + ";\n";
    for (const Named& n : kBlocks)
        if (text.find(n.name) != std::string::npos) out += std::string("type ") + n.name + " = " + n.text + ";\n";
    for (const Named& n : kLayouts)
        if (text.find(n.name) != std::string::npos) out += std::string("layout ") + n.name + n.text + ";\n";
    return out.empty() ? out : out + "\n";
}

}  // namespace

const TileType& Program::type(int value) const {
    const auto v = static_cast<size_t>(value);
    return v < inputs.size() ? inputs[v].tile : statements[v - inputs.size()].type;
}

std::string Program::text() const {
    const auto number = [](auto v) { return std::to_string(v); };
    const uint64_t key = seed % 1000000 * 10;
    std::string out = "kernel k(", data, arguments, where;
    for (size_t i = 0; i < inputs.size(); ++i) {
        const Input& in = inputs[i];
        const std::string name = "x" + number(i);
        out += name + ": tensor<" + in.tile.elem + ">[" + (in.names.empty() ? list(in.tensor) : in.names) + "]" + in.layout + ", ";
        data += "    let " + name + " = " + data_text(in.tile.elem, in.tensor, key + i, in.all_codes) + in.layout + ";\n";
        arguments += name + ", ";
    }
    out += "shift: i64";
    arguments += number(seed % 4);
    for (size_t s = 0; s < statements.size(); ++s) {
        if (!statements[s].memory) continue;
        const Memory& memory = *statements[s].memory;
        const TileType& tile = memory.tile;
        const std::string name = memory_name(static_cast<int>(inputs.size() + s)),
                          layout = memory.input ? inputs[*memory.input].layout : memory.layout;
        std::string shape = list(tile.shape);
        if (!memory.where.empty()) {
            shape = shape.substr(0, shape.rfind(' ') + 1) + name + "n";
            where += (where.empty() ? "\n    where " : ", ") + replaced(memory.where, "mem", name);
        }
        out += memory.pointer ? ", " + name + ": ptr<" + tile.elem + ">" : ", inout " + name + ": tensor<" + tile.elem + ">[" + shape + "]" + layout;
        if (!memory.input) data += "    let " + name + " = " + data_text(tile.elem, tile.shape, key + 5 + s, false) + layout + ";\n";
        arguments += ", " + (memory.input ? "x" + number(*memory.input) : name);
    }
    std::string stores;
    for (size_t o = 0; o < outputs.size(); ++o) {
        const TileType& t = type(outputs[o]);
        std::vector<int64_t> shape = grid;
        shape.insert(shape.end(), t.shape.begin(), t.shape.end());
        const std::string name = "y" + number(o), storage = "<" + t.elem + ">[" + list(shape) + "]" + output_layout;
        out += ", out " + name + ": tensor" + storage;
        data += "    let " + name + " = empty" + storage + ";\n";
        arguments += ", " + name;
        stores +=
            "    " + name + "[pid, " + (grid.size() > 1 ? "program_id(1), " : "") + colons(t.shape.size()) + "] = v" + number(outputs[o]) + ";\n";
    }
    out += ")" + where + "\n    grid [" + list(grid) + "]" + (schedule.empty() ? "" : "\n    schedule " + schedule) + attributes +
           "\n{\n    let pid = program_id(0);\n";
    for (size_t i = 0; i < inputs.size(); ++i)
        out += "    let v" + number(i) + " = x" + number(i) + "[" + inputs[i].index + "]" + inputs[i].otherwise + ";\n";
    for (size_t s = 0; s < statements.size(); ++s) out += statement_text(static_cast<int>(inputs.size() + s), statements[s]);
    out += stores + "}\n\ntest \"program " + number(seed) + "\" {\n" + data + "    k(" + arguments + ");\n}\n";
    return "// Program " + number(seed) + " of the differential fuzzer.\n\n" + items(out) + out;
}

namespace {

/// Without statement `s`, whose uses become `other`; nullopt when other comes later.
Program without(const Program& p, size_t s, int other) {
    Program q = p;
    const int gone = static_cast<int>(p.inputs.size() + s);
    q.statements.erase(q.statements.begin() + static_cast<long>(s));
    const auto moved = [&](int v) { return v == gone ? other : v > gone ? v - 1 : v; };
    for (Statement& t : q.statements)
        for (int& o : t.operands) o = moved(o);
    for (int& o : q.outputs) o = moved(o);
    return q;
}

}  // namespace

std::vector<Program> smaller(const Program& p) {
    std::vector<Program> out;
    for (size_t o = 0; p.outputs.size() > 1 && o < p.outputs.size(); ++o) {
        out.push_back(p);
        out.back().outputs.erase(out.back().outputs.begin() + static_cast<long>(o));
    }
    for (size_t s = p.statements.size(); s-- > 0;) {
        const int value = static_cast<int>(p.inputs.size() + s);
        bool used = std::count(p.outputs.begin(), p.outputs.end(), value) != 0;
        for (const Statement& t : p.statements) used |= std::count(t.operands.begin(), t.operands.end(), value) != 0;
        if (!used) {
            out.push_back(without(p, s, 0));
            continue;
        }
        for (int v = 0; v < value; ++v)
            if (p.type(v) == p.type(value)) {
                out.push_back(without(p, s, v));
                break;
            }
        const TileType& t = p.type(value);
        const std::string zeros = "zeros<" + t.elem + ">[" + list(t.shape) + "]";
        if (p.statements[s].text != zeros && t.elem != "bool") {
            out.push_back(p);
            out.back().statements[s].text = zeros;
            out.back().statements[s].operands.clear();
            out.back().statements[s].memory.reset();
        }
    }
    for (size_t axis = 0; axis < p.grid.size(); ++axis) {
        if (p.grid[axis] == 1) continue;
        out.push_back(p);
        out.back().grid[axis] = 1;
    }
    const auto clear = [&](const auto& member) {  // of a copy
        if (member(p).empty()) return;
        out.push_back(p);
        member(out.back()).clear();
    };
    for (size_t i = 0; i < p.inputs.size(); ++i) {
        clear([i](auto& q) -> auto& { return q.inputs[i].layout; });
        clear([i](auto& q) -> auto& { return q.inputs[i].otherwise; });
    }
    for (size_t s = 0; s < p.statements.size(); ++s)
        if (p.statements[s].memory) clear([s](auto& q) -> auto& { return q.statements[s].memory->layout; });
    for (std::string Program::*clause : {&Program::schedule, &Program::attributes, &Program::output_layout})
        clear([clause](auto& q) -> auto& { return q.*clause; });
    return out;
}

}  // namespace tegula::diff
