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

std::vector<Ex> Emitter::coordinates_in(const Shape& shape, Ex number) {
    std::vector<Ex> out(shape.rank);
    int64_t below = 1;
    for (size_t d = shape.rank; d-- > 0; below *= shape[d]) out[d] = number / below % shape[d];
    return out;
}

Ex Emitter::number_of(const Shape& shape, const std::vector<Ex>& coordinates) {
    Ex out = pool_.number(0);
    for (size_t d = 0; d < coordinates.size(); ++d) out = out * shape[d] + coordinates[d];
    return out;
}

std::vector<Ex> Emitter::coordinates_of(ir::ValueId v, Ex r) {
    std::vector<Ex> out;
    for (int d = 0; d < fn_.type(v).shape.rank; ++d) out.push_back(coordinate(layout(v), d, r));
    return out;
}

Ex Emitter::number_at(ir::ValueId v, Ex r) { return is_scalar(v) ? pool_.number(0) : logical_number(layout(v), r); }

Ex Emitter::stores(ir::ValueId v, Ex r) { return is_scalar(v) ? eq(thread_, 0) : owns(layout(v), r); }

Ex Emitter::is_real(ir::ValueId v, Ex r) { return is_scalar(v) ? pool_.truth(true) : inside(layout(v), r); }

void Emitter::line_if(Ex condition, const std::string& statement) {
    line(condition.is_true() ? statement : "if (" + condition.text() + ") " + statement);
}

std::string Emitter::chosen(Ex condition, const std::string& yes, const std::string& no) {
    return condition.is_true() ? yes : condition.is_false() ? no : condition.text() + " ? " + yes + " : " + no;
}

void Emitter::assign_to(ir::ValueId v, Ex r, const std::string& value) {
    line(name(v) + (is_scalar(v) ? "" : "[" + r.text() + "]") + " = " + value + ";");
}

void Emitter::stage(ir::ValueId v, const std::string& pointer, const std::function<std::string(const std::string&)>& value) {
    each_register(v, [&](Ex r) {
        const std::string text = value ? value(at(v, r)) : at(v, r);
        line_if(stores(v, r), pointer + "[" + number_at(v, r).text() + "] = " + text + ";");
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

Ex Emitter::staged(ir::ValueId v, const std::string& pointer, ir::ValueId of, Ex r, Ex number) {
    const Ex in_register = element_at(v, r);
    if (pointer.empty()) return in_register;
    // Ghosts have numbers beyond the staged elements: what they read counts for nothing, but is read.
    const bool beyond = !is_scalar(of) && layout(of).has_ghosts();
    const Ex last = pool_.number(fn_.type(v).shape.elements() - 1);
    return pool_.index(in_register.type(), pool_.name(kernel::Type::other, pointer),
                       beyond ? pool_.call(kernel::Type::i32, "min", {number, last}) : number);
}

void Emitter::fill(ir::ValueId result, const std::function<std::string(Ex)>& value) {
    each_register(result, [&](Ex r) { assign_to(result, r, chosen(is_real(result, r), value(r), zero(result))); });
}

void Emitter::open_elements(const std::string& e, int64_t n) {
    line("#pragma unroll 1");
    open("for (int " + e + " = t; " + e + " < " + std::to_string(n) + "; " + e + " += " + std::to_string(group_threads()) + ")");
}

void Emitter::each_of(const std::vector<int>& registers, const std::function<void(Ex)>& body) {
    constexpr size_t kLines = 4;
    if (registers.empty()) return;
    bool even = true;
    const int step = registers.size() > 1 ? registers[1] - registers[0] : 1;
    for (size_t i = 1; i < registers.size(); ++i) even = even && registers[i] - registers[i - 1] == step;
    if (registers.size() <= kLines && (!even || registers.size() == 1)) {
        for (int r : registers) {
            open("");
            body(pool_.number(r));
            close();
        }
        return;
    }
    const std::string i = fresh("i");
    unroll(static_cast<int64_t>(registers.size()));
    if (even) {
        open("for (int " + i + " = " + std::to_string(registers.front()) + "; " + i + " <= " + std::to_string(registers.back()) + "; " + i +
             " += " + std::to_string(step) + ")");
        body(pool_.counter(i, registers.back() + 1));
        return close();
    }
    open("for (int " + i + " = 0; " + i + " < " + std::to_string(registers.size()) + "; ++" + i + ")");
    const std::string r = fresh("r");
    std::vector<int> padded = registers;
    line("const int " + r + " = " + rename(padded, pool_.counter(i, static_cast<int64_t>(registers.size()))).text() + ";");
    body(pool_.name(kernel::Type::i32, r));
    close();
}

}  // namespace tegula::cuda
