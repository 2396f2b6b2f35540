// Own rings (lang/gpu_form.h): each thread starts cp.async copies of the vectors that it will itself read, and waits for nobody but them. A stage is
// an array of 16-byte slots, slot v of all threads side by side, so that neither copies nor reads meet in a bank; registers lie in their slots in
// order.
#include <algorithm>

#include "jit/cuda/emit_access.h"

namespace tegula::cuda {

using ir::Op;

namespace {

constexpr int kSlotBytes = 16;

}  // namespace

/// The address (unsigned char*) of register `r`, which is the first of a vector, in the stage at `stage`.
std::string Emitter::own_slot(ir::ValueId tile, const std::string& stage, Ex r) {
    const int bytes = static_cast<int>(fn_.elem(tile).container_bytes()), in_slot = kSlotBytes / bytes;
    const Ex place = (r / in_slot * group_threads() + thread_) * kSlotBytes + r % in_slot * bytes;
    return "(" + stage + " + " + place.atom() + ")";
}

ir::ValueId Emitter::taken_from(ir::ValueId channel) const {
    for (uint32_t i = 0; i < fn_.inst_count(); ++i)
        if (const ir::Inst& inst = fn_.inst(ir::InstId{i}); inst.parent.valid() && inst.op == Op::channel_get && fn_.operands(inst)[0] == channel)
            return fn_.result(inst);
    TEGULA_CHECK(false, "nobody takes from the channel");
    return {};
}

void Emitter::own_put(ir::InstId id, const Ring& r, const std::string& to) {
    Part part = part_of(id);
    const GpuChannel& form = *r.form;
    const std::string fill = prelude_.literal(fn_.elem(part.value), form.fill);
    const auto elements = [&] {
        each_register(part.value, [&](Ex at) {
            const std::string from = read(fn_.elem(part.tensor), name(part.tensor), part_offset(part, at).text(), part.caching);
            line("*(" + type_of(part.value) + "*)" + own_slot(part.value, to, at) + " = " + chosen(part_condition(part, at, true), from, fill) + ";");
        });
    };
    if (part.vector * static_cast<int>(fn_.elem(part.tensor).container_bytes()) < 4) return elements();
    const std::string other = form.fill ? fill : "";
    if (part.whole.is_true()) return own_vectors(part, true, to, other);
    open("if (" + part.whole.text() + ")");  // the usual case, for all threads alike: addresses are one and constants
    own_vectors(part, false, to, other);
    close("} else {");
    ++depth_;
    part.inside == Part::whole_vectors ? own_vectors(part, true, to, other) : elements();
    close();
}

/// `fill`: text of what elements out of range are, "" for zero.
void Emitter::own_vectors(const Part& part, bool checked, const std::string& to, const std::string& fill) {
    prelude_.need("shared");
    prelude_.need("cp_async");
    const std::string bytes = number(part.vector * static_cast<int>(fn_.elem(part.tensor).container_bytes())), base = name(part.tensor),
                      function = copy_function(part.inst);
    by_vectors(part, [&](Ex r) {
        const Ex ok = part_condition(part, r, checked);
        const std::string slot = own_slot(part.value, to, r), offset = part_offset(part, r).text();
        const auto copy = [&](const std::string& from, const std::string& count) {
            return function + "<" + bytes + ">(shared_address(" + slot + "), " + base + " + " + from + ", " + count + ");";
        };
        if (ok.is_true()) return line(copy("(" + offset + ")", bytes));
        const std::string inside = fresh("inside");
        line("const bool " + inside + " = " + ok.text() + ";");
        if (fill.empty()) return line(copy("(" + inside + " ? " + offset + " : 0)", inside + " ? " + bytes + " : 0"));
        line("if (" + inside + ") " + copy("(" + offset + ")", bytes));
        open("else");
        each(part.vector, [&](Ex i) { line("((" + type_of(part.value) + "*)" + slot + ")[" + i + "] = " + fill + ";"); });
        close();
    });
}

void Emitter::own_get(ir::InstId id, Ring& r) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId v = fn_.result(inst);
    const int per = kSlotBytes / static_cast<int>(fn_.elem(v).container_bytes()), count = registers(v) / per;
    declare(v);
    open("");
    const std::string from = fresh("from");
    line("const unsigned char* const " + from + " = " + stage_address(r, r.get) + ";");
    each(count, [&](Ex slot) {
        const Ex first = slot * per;
        const std::string wide = fresh("wide");
        line("alignas(16) " + type_of(v) + " " + wide + "[" + number(per) + "];");
        line("*(uint4*)" + wide + " = *(const uint4*)" + own_slot(v, from, first) + ";");
        each(per, [&](Ex i) { line(name(v) + "[" + (first + i).text() + "] = " + wide + "[" + i + "];"); });
    });
    close();
}

}  // namespace tegula::cuda
