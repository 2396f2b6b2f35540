// Tiles that go through scratch memory: each element written row-major by one of the threads that hold it, read by whoever needs it. What lies
// where is decided by scratch_plan (lang/gpu/scratch.h); loops over elements stay loops whatever the tile's size.

#include "jit/cuda/emitter.h"
#include "lang/gpu/scratch.h"

namespace tegula::cuda {

std::string Emitter::scratch_area(ir::InstId id, const std::string& type, int64_t offset) {
    const std::string base = scratch(id, "unsigned char", scratch_plan(fn_, id).bytes);
    const std::string name = fresh("s");
    line(type + "* const " + name + " = (" + type + "*)(" + base + (offset ? " + " + std::to_string(offset) : "") + ");");
    return name;
}

std::string Emitter::number_of(const Shape& shape, const std::vector<std::string>& coordinates) {
    std::string out;
    for (size_t d = 0; d < coordinates.size(); ++d)
        out = out.empty() ? coordinates[d] : "(" + out + ") * " + std::to_string(shape[d]) + " + " + coordinates[d];
    return out.empty() ? "0" : out;
}

std::vector<std::string> Emitter::coordinates_of(ir::ValueId v, const std::string& r) {
    std::vector<std::string> out;
    for (int d = 0; d < fn_.type(v).shape.rank; ++d) out.push_back(coordinate(layout(v), d, r));
    return out;
}

std::string Emitter::number_at(ir::ValueId v, const std::string& r) { return is_scalar(v) ? "0" : logical_number(layout(v), r); }

void Emitter::assign_to(ir::ValueId v, const std::string& r, const std::string& value) {
    line(name(v) + (is_scalar(v) ? "" : "[" + r + "]") + " = " + value + ";");
}

void Emitter::stage(ir::ValueId v, const std::string& pointer, const std::function<std::string(const std::string&)>& value) {
    each_register(v, [&](const std::string& r) {
        const std::string mine = is_scalar(v) ? "t == 0" : owns(layout(v), r);
        const std::string text = value ? value(at(v, r)) : at(v, r);
        line((mine == "true" ? "" : "if (" + mine + ") ") + pointer + "[" + number_at(v, r) + "] = " + text + ";");
    });
}

std::vector<std::string> Emitter::stage_operands(ir::InstId id) {
    const ScratchPlan plan = scratch_plan(fn_, id);
    const auto operands = fn_.operands(fn_.inst(id));
    std::vector<std::string> pointers(operands.size());
    for (size_t i = 0; i < operands.size(); ++i) {
        if (plan.operand[i] < 0) continue;
        pointers[i] = scratch_area(id, type_of(operands[i]), plan.operand[i]);
        stage(operands[i], pointers[i]);
    }
    return pointers;
}

std::string Emitter::staged(ir::ValueId v, const std::string& pointer, ir::ValueId of, const std::string& r, const std::string& number) {
    if (pointer.empty()) return at(v, r);
    // Ghosts have numbers beyond the staged elements: what they read counts for nothing, but is read.
    const bool beyond = !is_scalar(of) && layout(of).has_ghosts();
    return pointer + "[" + (beyond ? "min(" + number + ", " + std::to_string(fn_.type(v).shape.elements() - 1) + ")" : number) + "]";
}

void Emitter::fill(ir::ValueId result, const std::function<std::string(const std::string&)>& value) {
    each_register(result, [&](const std::string& r) {
        const std::string ok = is_scalar(result) ? "true" : inside(layout(result), r);
        assign_to(result, r, ok == "true" ? value(r) : ok + " ? " + value(r) + " : " + zero(result));
    });
}

void Emitter::open_elements(const std::string& e, int64_t n) {
    line("#pragma unroll 1");
    open("for (int " + e + " = t; " + e + " < " + std::to_string(n) + "; " + e + " += " + std::to_string(group_threads()) + ")");
}

void Emitter::each_of(const std::vector<int>& registers, const std::function<void(const std::string&)>& body) {
    constexpr size_t kLines = 4;
    if (registers.empty()) return;
    bool even = true;
    const int step = registers.size() > 1 ? registers[1] - registers[0] : 1;
    for (size_t i = 1; i < registers.size(); ++i) even = even && registers[i] - registers[i - 1] == step;
    if (registers.size() <= kLines && (!even || registers.size() == 1)) {
        for (int r : registers) {
            open("");
            body(std::to_string(r));
            close();
        }
        return;
    }
    const std::string i = fresh("i");
    unroll(static_cast<int64_t>(registers.size()));
    if (even) {
        open("for (int " + i + " = " + std::to_string(registers.front()) + "; " + i + " <= " + std::to_string(registers.back()) + "; " + i +
             " += " + std::to_string(step) + ")");
        body(i);
        return close();
    }
    open("for (int " + i + " = 0; " + i + " < " + std::to_string(registers.size()) + "; ++" + i + ")");
    const std::string r = fresh("r");
    std::vector<int> padded = registers;
    line("const int " + r + " = " + rename(padded, i) + ";");
    body(r);
    close();
}

}  // namespace tegula::cuda
