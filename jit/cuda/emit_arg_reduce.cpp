// arg_reduce, and the order that it and sort see: unsigned keys, -0 below +0, NaN at one end. The lowest index wins among equals, so that parts may
// be joined in any order.
#include "jit/cuda/emitter.h"
#include "jit/cuda/lines.h"
#include "lang/gpu/scratch.h"
#include "lang/joining.h"

namespace tegula::cuda {

using ir::ReduceKind;

std::string Emitter::key_type(const Format& f) { return wide_key(f) ? "unsigned long long" : "unsigned"; }

std::string Emitter::order_key(const Format& f, bool nan_first) {
    const bool wide = wide_key(f);
    const std::string type = key_type(f), top = wide ? "0x8000000000000000ull" : "0x80000000u";
    std::string body;
    if (f.is_int() || f.is_bool() || f.kind == FormatKind::fixed) {
        const bool sign = f.is_signed && !f.is_bool();
        body = "return (" + type + ")" + (sign ? (wide ? "(long long)" : "(int)") : "") + "v" + (sign ? " ^ " + top : "") + ";";
    } else {
        prelude_.need("bits");
        const Format& real = fn_.types().format(id_of(wide ? Fmt::f64 : Fmt::f32));
        const std::string value = f == real ? "v" : prelude_.cast(real, f, "v", Round::rne, Overflow::automatic);
        body = std::string(wide ? "const double" : "const float") + " x = " + value + "; const " + type +
               " b = " + (wide ? "double_bits" : "float_bits") + "(x); return x != x ? " + (nan_first ? "0" : "~(" + type + ")0") + " : b & " + top +
               " ? ~b : b | " + top + ";";
    }
    return support("key " + f.name + (nan_first ? " first" : " last"), "key",
                   "__device__ __forceinline__ " + type + " $(" + prelude_.type(f) + " v) { " + body + " }\n");
}

void Emitter::cuda_arg_reduce(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId from = fn_.operands(inst)[0], value = fn_.result(inst), index = fn_.result(inst, 1);
    if (is_scalar(from)) {
        assign(value, [&](Ex) { return name(from); });
        return assign(index, [&](Ex) { return std::string("0"); });
    }
    if (scratch_plan(fn_, id).operand[0] >= 0) return arg_reduce_staged(id);
    arg_reduce_direct(id, *plan_reduce(layout(from), static_cast<int>(fn_.attrs(inst)[1]), false, is_scalar(value) ? nullptr : &layout(value)));
}

void Emitter::arg_reduce_direct(ir::InstId id, const ReducePlan& plan) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId from = fn_.operands(inst)[0], value = fn_.result(inst), index = fn_.result(inst, 1);
    const auto kind = static_cast<ReduceKind>(fn_.attrs(inst)[0]);
    const int64_t axis = fn_.attrs(inst)[1];
    const Format& f = fn_.elem(from);
    const TileLayout& l = layout(from);
    const bool is_min = kind == ReduceKind::min;
    const std::string key = order_key(f, is_min), type = key_type(f);
    declare(value);
    declare(index);
    open("");
    Joined joined;
    joined.names = {fresh("x"), fresh("at")};
    joined.types = {type_of(from), "int"};
    joined.join = [&](const std::vector<std::string>& a, const std::vector<std::string>& b) {
        open("");
        line("const " + type + " mine = " + key + "(" + a[0] + "), other = " + key + "(" + b[0] + ");");
        line(std::string("const bool take = (other ") + (is_min ? "<" : ">") + " mine) | ((other == mine) & (" + b[1] + " < " + a[1] + "));");
        line(a[0] + " = take ? " + b[0] + " : " + a[0] + ";");
        line(a[1] + " = take ? " + b[1] + " : " + a[1] + ";");
        close();
    };
    const std::string count = "[" + std::to_string(registers(from)) + "];";
    line(joined.types[0] + " " + joined.names[0] + count);
    line("int " + joined.names[1] + count);
    each_register(from, [&](Ex r) {
        const std::string i = (axis < 0 ? logical_number(l, r) : coordinate(l, static_cast<int>(axis), r)).text();
        if (!plan.fill) {
            line(joined.names[0] + "[" + r + "] = " + at(from, r) + ";");
            return line(joined.names[1] + "[" + r + "] = " + i + ";");
        }
        // A ghost may tie with an element, which then has the lower index.
        const Ex real = is_element(l, axis, r);
        line(joined.names[0] + "[" + r + "] = " + chosen(real, at(from, r), prelude_.literal(f, *reduce_identity(kind, f))) + ";");
        line(joined.names[1] + "[" + r + "] = " + chosen(real, i, "0x7fffffff") + ";");
    });
    reduce_joined(id, plan, joined);
    each_register(value, [&](Ex r) {
        const std::string from_register = "[" + (is_scalar(value) ? pool_.number(0) : rename(plan.results, r)).text() + "]";
        assign_to(value, r, joined.names[0] + from_register);
        assign_to(index, r, joined.names[1] + from_register);
    });
    close();
}

/// Every thread looks through the lines of its results.
void Emitter::arg_reduce_staged(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId from = fn_.operands(inst)[0];
    const bool is_min = static_cast<ReduceKind>(fn_.attrs(inst)[0]) == ReduceKind::min;
    const Axis lines(fn_.type(from).shape, fn_.attrs(inst)[1]);
    const std::string key = order_key(fn_.elem(from), is_min), type = key_type(fn_.elem(from));
    for (uint32_t n = 0; n < 2; ++n) declare(fn_.result(inst, n));
    open("");
    const std::string s = stage_operands(id)[0];
    sync();
    for (uint32_t n = 0; n < 2; ++n) {
        const ir::ValueId to = fn_.result(inst, n);
        each_register(to, [&](Ex r) {
            const std::string base = line_start(lines, to, r), best = fresh("best"), chosen = fresh("chosen"), k = fresh("k");
            line("int " + best + " = 0;");
            line(type + " " + chosen + " = " + key + "(" + s + "[" + base + "]);");
            line("#pragma unroll 1");
            open("for (int " + k + " = 1; " + k + " < " + std::to_string(lines.n) + "; ++" + k + ")");
            line("const " + type + " other = " + key + "(" + s + "[" + base + " + " + k + " * " + std::to_string(lines.inner) + "]);");
            open(std::string("if (other ") + (is_min ? "<" : ">") + " " + chosen + ")");
            line(chosen + " = other;");
            line(best + " = " + k + ";");
            close();
            close();
            assign_to(to, r, n ? best : s + "[" + base + " + " + best + " * " + std::to_string(lines.inner) + "]");
        });
    }
    close();
}

}  // namespace tegula::cuda
