// reduce and contract. In registers, lanes and warps where the layout allows (emit_joined.cpp); otherwise the operand goes row-major through scratch,
// converted to the result's format, and the fixed tree runs there level by level.
#include <algorithm>

#include "jit/cuda/emitter.h"
#include "jit/cuda/lines.h"
#include "lang/gpu/scratch.h"
#include "lang/joining.h"

namespace tegula::cuda {

using ir::ReduceKind;

std::string Emitter::to_result(ir::ValueId result, ir::ValueId operand, const std::string& element) {
    if (fn_.type(result).elem == fn_.type(operand).elem) return element;
    return prelude_.cast(fn_.elem(result), fn_.elem(operand), element, Round::rne, Overflow::automatic);
}

void Emitter::cuda_reduce(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId from = fn_.operands(inst)[0], to = fn_.result(inst);
    const auto attrs = fn_.attrs(inst);
    const auto kind = static_cast<ReduceKind>(attrs[0]);
    if (is_scalar(from)) return assign(to, [&](Ex) { return to_result(to, from, name(from)); });
    const bool ordered = reduce_is_ordered(kind, fn_.elem(to)), chain = attrs[1] == 1 && ordered;
    if (scratch_plan(fn_, id).operand[0] >= 0) return chain ? reduce_chain(id) : reduce_tree(id);
    if (chain) return reduce_chain(id);
    reduce_direct(id, *plan_reduce(layout(from), static_cast<int>(attrs[2]), ordered, is_scalar(to) ? nullptr : &layout(to)));
}

void Emitter::reduce_direct(ir::InstId id, const ReducePlan& plan) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId from = fn_.operands(inst)[0], to = fn_.result(inst);
    const auto kind = static_cast<ReduceKind>(fn_.attrs(inst)[0]);
    const int64_t axis = fn_.attrs(inst)[2];
    const Format& f = fn_.elem(to);
    declare(to);
    open("");
    Joined joined;
    joined.names = {fresh("x")};
    joined.types = {type_of(to)};
    joined.join = [&](const std::vector<std::string>& a, const std::vector<std::string>& b) {
        line(a[0] + " = " + prelude_.combine(kind, f, a[0], b[0]) + ";");
    };
    line(joined.types[0] + " " + joined.names[0] + "[" + std::to_string(registers(from)) + "];");
    if (const std::string pairs = pair_joining(id, plan); !pairs.empty()) {
        reduce_joined(id, joined_pairs(id, plan, pairs, joined), joined);
    } else {
        const std::string identity = plan.fill ? prelude_.literal(f, *reduce_identity(kind, f)) : "";
        each_register(from, [&](Ex r) {
            std::string value = to_result(to, from, at(from, r));
            if (plan.fill) {
                value = chosen(is_element(layout(from), axis, r), value, identity);
            }
            line(joined.names[0] + "[" + r + "] = " + value + ";");
        });
        reduce_joined(id, plan, joined);
    }
    each_register(to,
                  [&](Ex r) { assign_to(to, r, joined.names[0] + "[" + (is_scalar(to) ? pool_.number(0) : rename(plan.results, r)).text() + "]"); });
    close();
}

std::string Emitter::line_start(const Axis& lines, ir::ValueId to, Ex r) {
    const std::string out = fresh("base");
    line("const int " + out + " = " + pool_.select(is_real(to, r), line_base(lines, number_at(to, r)), pool_.number(0)).text() + ";");
    return out;
}

Ex Emitter::is_element(const TileLayout& l, int64_t axis, Ex r) {
    return axis < 0 ? inside(l, r) : lt(coordinate(l, static_cast<int>(axis), r), l.shape[static_cast<size_t>(axis)]);
}

/// Ascending: over registers that one thread holds, or over scratch, by every thread that needs the result.
void Emitter::reduce_chain(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId from = fn_.operands(inst)[0], to = fn_.result(inst);
    const auto kind = static_cast<ReduceKind>(fn_.attrs(inst)[0]);
    const int64_t axis = fn_.attrs(inst)[2];
    const Format& f = fn_.elem(to);
    const ScratchPlan plan = scratch_plan(fn_, id);
    declare(to);
    if (plan.operand[0] < 0) {
        const AxisRegisters rows = *axis_registers(layout(from), static_cast<int>(axis));
        const std::vector<int> results = plan_reduce(layout(from), static_cast<int>(axis), false, is_scalar(to) ? nullptr : &layout(to))->results;
        for (size_t r = 0; r < results.size(); ++r) {
            const auto row = static_cast<size_t>(std::find(rows.first.begin(), rows.first.end(), results[r]) - rows.first.begin());
            TEGULA_CHECK(row < rows.along.size());
            const std::string acc = at(to, pool_.number(static_cast<int64_t>(r)));
            for (size_t k = 0; k < rows.along[row].size(); ++k) {
                const std::string x = to_result(to, from, at(from, pool_.number(rows.along[row][k])));
                line(acc + " = " + (k ? prelude_.combine(kind, f, acc, x) : x) + ";");
            }
        }
        return;
    }
    const Axis lines(fn_.type(from).shape, axis);
    open("");
    const std::string s = scratch_area(id, type_of(to), plan.operand[0]);
    stage(from, s, [&](const std::string& x) { return to_result(to, from, x); });
    sync();
    each_register(to, [&](Ex r) {
        const std::string acc = fresh("acc"), k = fresh("k"), base = line_start(lines, to, r);
        line(type_of(to) + " " + acc + " = " + s + "[" + base + "];");
        line("#pragma unroll 1");
        open("for (int " + k + " = 1; " + k + " < " + std::to_string(lines.n) + "; ++" + k + ")");
        line(acc + " = " + prelude_.combine(kind, f, acc, s + "[" + base + " + " + k + " * " + std::to_string(lines.inner) + "]") + ";");
        close();
        assign_to(to, r, acc);
    });
    close();
}

/// Level by level in place: x[i] = op(x[i], x[i + s]) where i + s < n.
void Emitter::reduce_tree(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId from = fn_.operands(inst)[0], to = fn_.result(inst);
    const auto kind = static_cast<ReduceKind>(fn_.attrs(inst)[0]);
    const Format& f = fn_.elem(to);
    const Axis lines(fn_.type(from).shape, fn_.attrs(inst)[2]);
    declare(to);
    open("");
    const std::string s = scratch_area(id, type_of(to), scratch_plan(fn_, id).operand[0]);
    stage(from, s, [&](const std::string& x) { return to_result(to, from, x); });
    sync();
    int64_t half = 1;
    while (half * 2 < lines.n) half *= 2;
    if (lines.n > 1) {
        const std::string h = fresh("half"), pairs = fresh("pairs"), e = fresh("e"), a = fresh("a");
        const std::string columns = std::to_string(lines.lines());
        line("#pragma unroll 1");
        open("for (int " + h + " = " + std::to_string(half) + "; " + h + " > 0; " + h + " >>= 1)");
        line("const int " + pairs + " = " + h + " < " + std::to_string(lines.n) + " - " + h + " ? " + h + " : " + std::to_string(lines.n) + " - " +
             h + ";");
        line("#pragma unroll 1");
        open("for (int " + e + " = t; " + e + " < " + pairs + " * " + columns + "; " + e + " += " + std::to_string(group_threads()) + ")");
        // Neighbouring threads take neighbouring elements: the inner dimension first, then the axis.
        const std::string inner = std::to_string(lines.inner);
        line("const int " + a + " = " + e + " / (" + pairs + " * " + inner + ") * " + std::to_string(lines.n * lines.inner) + " + " + e + " % (" +
             pairs + " * " + inner + ");");
        const std::string x = s + "[" + a + "]";
        line(x + " = " + prelude_.combine(kind, f, x, s + "[" + a + " + " + h + " * " + inner + "]") + ";");
        close();
        sync();
        close();
    }
    fill(to, [&](Ex r) { return s + "[" + line_base(lines, number_at(to, r)).text() + "]"; });
    close();
}

void Emitter::contract_direct(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto in = fn_.operands(inst);
    const ir::ValueId to = fn_.result(inst);
    const int axis = static_cast<int>(fn_.attrs(inst)[0]);
    const AxisRegisters rows = *axis_registers(layout(in[0]), axis);
    const std::vector<int> results = plan_reduce(layout(in[0]), axis, false, is_scalar(to) ? nullptr : &layout(to))->results;
    const std::string zero = prelude_.literal(fn_.elem(to), encode(fn_.elem(to), 0.0));
    declare(to);
    for (size_t r = 0; r < results.size(); ++r) {
        const auto row = static_cast<size_t>(std::find(rows.first.begin(), rows.first.end(), results[r]) - rows.first.begin());
        TEGULA_CHECK(row < rows.along.size());
        const std::string acc = at(to, pool_.number(static_cast<int64_t>(r)));
        line(acc + " = " + zero + ";");
        for (int k : rows.along[row]) {
            const std::string a = to_result(to, in[0], at(in[0], pool_.number(k))), b = to_result(to, in[1], at(in[1], pool_.number(k)));
            line(acc + " = " + prelude_.fma(fn_.elem(to), a, b, acc) + ";");
        }
    }
}

void Emitter::cuda_contract(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto in = fn_.operands(inst);
    const ir::ValueId to = fn_.result(inst);
    const ScratchPlan plan = scratch_plan(fn_, id);
    if (plan.operand[0] < 0) return contract_direct(id);
    const Axis lines(fn_.type(in[0]).shape, fn_.attrs(inst)[0]);
    declare(to);
    open("");
    std::string s[2];
    for (size_t i = 0; i < 2; ++i) {
        s[i] = scratch_area(id, type_of(to), plan.operand[i]);
        stage(in[i], s[i], [&](const std::string& x) { return to_result(to, in[i], x); });
    }
    sync();
    each_register(to, [&](Ex r) {
        const std::string acc = fresh("acc"), k = fresh("k"), base = line_start(lines, to, r);
        line(type_of(to) + " " + acc + " = " + prelude_.literal(fn_.elem(to), encode(fn_.elem(to), 0.0)) + ";");
        line("#pragma unroll 1");
        open("for (int " + k + " = 0; " + k + " < " + std::to_string(lines.n) + "; ++" + k + ")");
        const std::string at = "[" + base + " + " + k + " * " + std::to_string(lines.inner) + "]";
        line(acc + " = " + prelude_.fma(fn_.elem(to), s[0] + at, s[1] + at, acc) + ";");
        close();
        assign_to(to, r, acc);
    });
    close();
}

}  // namespace tegula::cuda
