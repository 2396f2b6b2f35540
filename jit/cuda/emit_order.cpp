// sort and histogram through scratch. sort: a bitonic network over (key, index) pairs, which are all different, so that it is stable; lines are
// padded to a power of two with pairs that come last.
#include <bit>

#include "jit/cuda/emitter.h"
#include "jit/cuda/lines.h"
#include "lang/gpu/scratch.h"

namespace tegula::cuda {

void Emitter::cuda_sort(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId from = fn_.operands(inst)[0];
    const bool descending = fn_.attrs(inst)[1] != 0;
    const Format& f = fn_.elem(from);
    const Axis lines(fn_.type(from).shape, fn_.attrs(inst)[0]);
    const auto width = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(lines.n)));
    const ScratchPlan plan = scratch_plan(fn_, id);
    for (uint32_t n = 0; n < 2; ++n) declare(fn_.result(inst, n));
    open("");
    const std::string s = stage_operands(id)[0], type = key_type(f), key = order_key(f, false);
    const std::string keys = scratch_area(id, type, plan.work[0]), order = scratch_area(id, "int", plan.work[1]);
    sync();
    // Pairs of line c are [c * width, (c + 1) * width).
    const std::string e = fresh("e"), k = fresh("k");
    open_elements(e, width * lines.lines());
    line("const int " + k + " = " + e + " % " + std::to_string(width) + ";");
    const Ex place = line_base(lines, int32(e) / width) + int32(k) * lines.inner;
    const std::string element = s + "[" + place.text() + "]";
    line(keys + "[" + e + "] = " + k + " < " + std::to_string(lines.n) + " ? " + (descending ? "~" : "") + key + "(" + element + ") : ~(" + type +
         ")0;");
    line(order + "[" + e + "] = " + k + ";");
    close();
    sync();
    if (width > 1) sort_network(width, lines.lines(), keys, order, type);
    for (uint32_t n = 0; n < 2; ++n) {
        const ir::ValueId to = fn_.result(inst, n);
        fill(to, [&](Ex r) {
            const Ex i = number_at(to, r), column = i / (lines.n * lines.inner) * lines.inner + i % lines.inner;
            const Ex place = pool_.index(kernel::Type::i32, pool_.name(kernel::Type::other, order), column * width + i / lines.inner % lines.n);
            return n ? place.text() : s + "[" + (line_base(lines, column) + place * lines.inner).text() + "]";
        });
    }
    close();
}

/// Ascending by (key, index) in every line of `width` pairs.
void Emitter::sort_network(int64_t width, int64_t columns, const std::string& keys, const std::string& order, const std::string& type) {
    const std::string size = fresh("size"), step = fresh("step"), e = fresh("e");
    line("#pragma unroll 1");
    open("for (int " + size + " = 2; " + size + " <= " + std::to_string(width) + "; " + size + " *= 2)");
    line("#pragma unroll 1");
    open("for (int " + step + " = " + size + " / 2; " + step + " > 0; " + step + " /= 2)");
    open_elements(e, width / 2 * columns);
    // a: the pair whose bit `step` is clear.
    line("const int a = (" + e + " & ~(" + step + " - 1)) * 2 + (" + e + " & (" + step + " - 1)), b = a + " + step + ";");
    line("const " + type + " x = " + keys + "[a], y = " + keys + "[b];");
    line("const int i = " + order + "[a], j = " + order + "[b];");
    line("const bool up = (a & " + size + ") == 0 || " + size + " == " + std::to_string(width) + ", after = (x > y) | ((x == y) & (i > j));");
    open("if (up == after)");
    line(keys + "[a] = y;");
    line(keys + "[b] = x;");
    line(order + "[a] = j;");
    line(order + "[b] = i;");
    close();
    close();
    sync();
    close();
    close();
}

void Emitter::cuda_histogram(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto in = fn_.operands(inst);
    const ir::ValueId to = fn_.result(inst);
    const int64_t bins = fn_.type(to).shape.elements();
    declare(to);
    open("");
    const std::vector<std::string> pointers = stage_operands(id);
    const std::string counts = scratch_area(id, "int", scratch_plan(fn_, id).work[0]), e = fresh("e");
    open_elements(e, bins);
    line(counts + "[" + e + "] = 0;");
    close();
    sync();
    each_register(in[0], [&](Ex r) {
        Ex condition = stores(in[0], r);
        if (in.size() > 1) condition = both(condition, staged(in[1], pointers[1], in[0], r, number_at(in[0], r)));
        const std::string v = fresh("v");
        // Negative values are huge.
        const bool sign = fn_.elem(in[0]).is_signed;
        line("const unsigned long long " + v + " = (unsigned long long)" + (sign ? "(long long)" : "") + at(in[0], r) + ";");
        line_if(both(condition, lt(pool_.name(kernel::Type::u64, v), bins)), "atomicAdd(&" + counts + "[(unsigned)" + v + "], 1);");
    });
    sync();
    fill(to, [&](Ex r) { return counts + "[" + number_at(to, r).text() + "]"; });
    close();
}

}  // namespace tegula::cuda
