// scan: ascending (or descending) chains along an axis, in a thread's registers where it holds whole lines, otherwise one thread per line in scratch.
#include <algorithm>

#include "jit/cuda/emitter.h"
#include "jit/cuda/lines.h"
#include "lang/gpu/scratch.h"

namespace tegula::cuda {

void Emitter::cuda_scan(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId from = fn_.operands(inst)[0], to = fn_.result(inst);
    const auto attrs = fn_.attrs(inst);
    const auto kind = static_cast<ir::ReduceKind>(attrs[0]);
    const bool reverse = attrs[2] != 0;
    const Format& f = fn_.elem(to);
    const ScratchPlan plan = scratch_plan(fn_, id);
    declare(to);
    if (plan.operand[0] < 0) {
        each_register(to, [&](Ex r) { assign_to(to, r, to_result(to, from, at(from, r))); });
        const AxisRegisters rows = *axis_registers(layout(from), static_cast<int>(attrs[1]));
        for (std::vector<int> row : rows.along) {
            if (reverse) std::reverse(row.begin(), row.end());
            for (size_t k = 1; k < row.size(); ++k) {
                const std::string x = at(to, pool_.number(row[k]));
                line(x + " = " + prelude_.combine(kind, f, at(to, pool_.number(row[k - 1])), x) + ";");
            }
        }
        return;
    }
    const Axis lines(fn_.type(from).shape, attrs[1]);
    open("");
    const std::string s = scratch_area(id, type_of(to), plan.operand[0]);
    stage(from, s, [&](const std::string& x) { return to_result(to, from, x); });
    sync();
    const std::string c = fresh("c"), base = fresh("base"), acc = fresh("acc"), k = fresh("k"), place = fresh("place");
    open_elements(c, lines.lines());
    line("const int " + base + " = " + line_base(lines, int32(c)).text() + ";");
    const std::string first = reverse ? std::to_string((lines.n - 1) * lines.inner) : "0";
    line(type_of(to) + " " + acc + " = " + s + "[" + base + " + " + first + "];");
    line("#pragma unroll 1");
    open("for (int " + k + " = 1; " + k + " < " + std::to_string(lines.n) + "; ++" + k + ")");
    const std::string number = reverse ? "(" + std::to_string(lines.n - 1) + " - " + k + ")" : k;
    line("const int " + place + " = " + base + " + " + number + " * " + std::to_string(lines.inner) + ";");
    line(acc + " = " + prelude_.combine(kind, f, acc, s + "[" + place + "]") + ";");
    line(s + "[" + place + "] = " + acc + ";");
    close();
    close();
    sync();
    fill(to, [&](Ex r) { return s + "[" + number_at(to, r).text() + "]"; });
    close();
}

}  // namespace tegula::cuda
