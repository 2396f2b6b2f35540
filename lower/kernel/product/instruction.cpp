// Instructions that programs declare (lang/instruction.h): their PTX in an asm statement of a function, called for each
// element or group of elements of a thread, or once for the fragments of a warp. Several narrow elements share a
// register as codes side by side, the first one lowest.
#include <algorithm>

#include "lower/kernel/control/control.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/formats/text.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/product/fragments.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using kernel::KernelOp;

/// How the asm statement sees a register.
struct AsmRegister : PtxRegister {
    std::string constraint, type;  ///< "r", "unsigned"
    bool native = false;           ///< a float or double as it is
};

/// The function around an asm statement: its parameters are the registers that the text names, results first.
struct AsmFunction {
    struct Use {
        size_t operand;
        int part;
        AsmRegister reg;
    };
    std::string name;
    std::vector<Use> uses;
    size_t results = 0;
};

namespace {

AsmRegister register_for(const PtxRegister& r, const Format& element) {
    if (r.count == 1 && text::is_native_float(element))
        return element.bits == 32 ? AsmRegister{r, "f", "float", true} : AsmRegister{r, "d", "double", true};
    if (r.bits <= 16) return {r, "h", "unsigned short"};
    return {r, r.bits <= 32 ? "r" : "l", r.bits <= 32 ? "unsigned" : "unsigned long long"};
}

/// The text of an asm statement on one line, in which `number` gives the place of an operand in its lists; registers of
/// the text end with it.
std::string asm_text(const PtxText& text, std::string_view ptx,
                     const std::function<std::ptrdiff_t(const PtxPiece&)>& number) {
    std::string out;
    for (const PtxPiece& p : text.pieces) {
        if (p.operand >= 0) out += "%" + std::to_string(number(p));
        for (size_t c = p.begin; p.operand < 0 && c < p.end; ++c)
            out += ptx[c] == '\n' || ptx[c] == '\r' || ptx[c] == '\t' ? ' ' : ptx[c];
    }
    return text.declares && out[out.find_first_not_of(' ')] != '{' ? "{ " + out + " }" : out;
}

}  // namespace

/// The register's value, of elements of `v`.
std::string to_asm(Lowering& ctx, const AsmRegister& r, ir::ValueId v, const std::function<std::string(int)>& element) {
    const Format& f = ctx.fn.elem(v);
    if (r.native) return element(r.first);
    if (r.count == 1 && f.container_bytes() * 8 == f.bits) return "(" + r.type + ")" + element(r.first);
    const std::string wide = r.bits > 32 ? "unsigned long long" : "unsigned";
    std::string out;
    for (int i = 0; i < r.count; ++i) {
        std::string x = element(r.first + i);
        if (text::is_native_float(f) && f.bits == 32) x = ctx.formats.to_bits(f, x);
        x = "(" + wide + ")" + x;
        if (r.count == 1) return "(" + r.type + ")" + x;  // extended as it lies
        if (f.bits < 64)
            x = "(" + x + " & " + std::to_string((uint64_t{1} << f.bits) - 1) + "u" + (f.bits > 32 ? "ll" : "") + ")";
        out += (i ? " | " : "") + x + (i ? " << " + std::to_string(i * f.bits) : "");
    }
    return "(" + r.type + ")(" + out + ")";
}

/// Element `i` of those in the register named `from`.
std::string from_asm(Lowering& ctx, const AsmRegister& r, ir::ValueId v, int i, const std::string& from) {
    const Format& f = ctx.fn.elem(v);
    if (r.native) return from;
    const std::string type = type_of(ctx, v), wide = r.bits > 32 ? "unsigned long long" : "unsigned";
    const std::string shifted =
        i == 0 ? "(" + wide + ")" + from : "(" + wide + ")" + from + " >> " + std::to_string(i * f.bits);
    if (f.is_bool() && r.count == 1) return "(" + from + " != 0)";
    if (text::is_native_float(f) && f.bits == 32) return ctx.formats.from_bits(f, shifted);
    if (f.bits == f.container_bytes() * 8) return "(" + type + ")(" + shifted + ")";
    const int rest = (r.bits > 32 ? 64 : 32) - f.bits;
    const std::string moved = "(" + shifted + ") << " + std::to_string(rest), n = std::to_string(rest);
    return "(" + type + ")(" +
           (text::extends_sign(f) ? "(" + std::string(r.bits > 32 ? "long long" : "int") + ")(" + moved + ")"
                                  : "(" + moved + ")") +
           " >> " + n + ")";
}

AsmFunction asm_function(Lowering& ctx, const Instruction& i, std::string_view ptx, std::span<const ir::ValueId> values,
                         std::span<const PtxRegisters> registers) {
    const size_t inputs = i.operands.size();
    std::vector<PtxOperand> names;
    for (size_t o = 0; o < inputs; ++o) names.push_back(registers[o].named(i.operands[o].name, false));
    names.push_back(registers[inputs].named(i.result.name, true));
    const PtxText text = read_ptx(ptx, names, i.on_tiles());
    TEGULA_CHECK(!text.problem, "the text of an instruction: " + (text.problem ? text.problem->what : ""));
    AsmFunction out;
    const auto find = [&](const PtxPiece& p) {
        return std::ranges::find_if(
            out.uses, [&](const auto& u) { return u.operand == static_cast<size_t>(p.operand) && u.part == p.part; });
    };
    for (const bool written : {true, false}) {
        for (const PtxPiece& p : text.pieces) {
            if (p.operand < 0 || (static_cast<size_t>(p.operand) == inputs) != written || find(p) != out.uses.end())
                continue;
            const auto o = static_cast<size_t>(p.operand);
            const PtxRegister& r = p.part < 0 ? *registers[o].whole : registers[o].parts[static_cast<size_t>(p.part)];
            out.uses.push_back({o, p.part, register_for(r, ctx.fn.elem(values[o]))});
        }
        if (written) out.results = out.uses.size();
    }
    const std::string body = asm_text(text, ptx, [&](const PtxPiece& p) { return find(p) - out.uses.begin(); });
    std::string parameters, lists[2], key = "instruction " + i.name + " " + std::string(ptx);
    for (size_t u = 0; u < out.uses.size(); ++u) {
        const AsmRegister& r = out.uses[u].reg;
        const bool written = u < out.results;
        const std::string name = "x" + std::to_string(u), early = text.statements > 1 ? "=&" : "=";
        parameters += (u ? ", " : "") + r.type + (written ? "& " : " ") + name;
        lists[!written] +=
            (u == 0 || u == out.results ? "\"" : ", \"") + (written ? early : "") + r.constraint + "\"(" + name + ")";
        key += " " + r.type;
    }
    note_instruction(ctx, i.name);
    out.name = support(ctx, key, "ptx",
                       "// " + i.name + "\n__device__ __forceinline__ void $(" + parameters + ") {\n    asm" +
                           (i.on_tiles() ? " volatile" : "") + "(\"" + body + "\"\n        : " + lists[0] + " : " +
                           lists[1] + ");\n}\n");
    return out;
}

void note_instruction(Lowering& ctx, const std::string& name) {
    std::vector<std::string>& names = ctx.kernel.instructions;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

void call_instruction(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const Instruction i = instruction_of(ctx.fn, inst);
    const Instruction::Form* form = i.form(*ctx.fn.gpu->arch);
    TEGULA_CHECK(form, "an instruction without text for the architecture");
    std::vector<ir::ValueId> values(ctx.fn.operands(inst).begin(), ctx.fn.operands(inst).end());
    const ir::ValueId result = ctx.fn.result(inst);
    values.push_back(result);
    std::vector<PtxRegisters> registers_of;
    for (size_t o = 0; o < i.operands.size(); ++o)
        registers_of.push_back(ptx_registers(i.operands[o], ctx.fn.elem(values[o])));
    registers_of.push_back(ptx_registers(i.result, ctx.fn.elem(result)));
    const AsmFunction function = asm_function(ctx, i, form->text, values, registers_of);
    const auto element = [&](size_t operand, Ex q, int e) {
        const int n = registers_of[operand].elements;
        return n == 1 ? q : q * n + e;
    };
    const auto once = [&](Ex q) {
        ctx.out.open_block();
        std::vector<Ex> operands{named(ctx, function.name), ctx.pool.number(static_cast<int64_t>(function.results))};
        for (size_t u = 0; u < function.uses.size(); ++u) {
            const auto& [operand, part, reg] = function.uses[u];
            const std::string y = "y" + std::to_string(u);
            const auto source = [&, o = operand](int e) { return text_at(ctx, values[o], element(o, q, e)); };
            if (u < function.results) ctx.out.declare(reg.type, y);
            operands.push_back(spelled(ctx, u < function.results ? y : to_asm(ctx, reg, values[operand], source)));
        }
        ctx.out.call(i.on_tiles() ? KernelOp::ptx_warp : KernelOp::ptx_thread, std::move(operands));
        for (size_t u = 0; u < function.results; ++u) {
            const AsmRegister& reg = function.uses[u].reg;
            for (int e = 0; e < reg.count; ++e)
                assign_to(ctx, result, element(values.size() - 1, q, reg.first + e),
                          from_asm(ctx, reg, result, e, "y" + std::to_string(u)));
        }
        ctx.out.close();
    };
    declare(ctx, result);
    if (is_scalar(ctx, result)) return once({});
    if (i.on_tiles()) converge(ctx);
    each(ctx, registers(ctx, result) / registers_of.back().elements, once);
}

std::string own_statement(Lowering& ctx, const ir::OwnRow& own, int k, const std::string& indent) {
    const std::optional<Instruction> i = parse_instruction(own.text);
    const Fmt formats[] = {own.row.a, own.row.b, own.row.acc, own.row.acc};
    std::vector<PtxOperand> names;
    std::vector<PtxRegisters> registers_of;
    for (size_t o = 0; o < 4; ++o) {
        const Instruction::Operand& operand = o < 3 ? i->operands[o] : i->result;
        registers_of.push_back(ptx_registers(operand, ctx.fn.types().format(id_of(formats[o]))));
        names.push_back(registers_of.back().named(operand.name, o == 3));
    }
    const std::string_view ptx = i->form(*ctx.fn.gpu->arch)->text;
    note_instruction(ctx, i->name);
    const PtxText text = read_ptx(ptx, names, true);
    const bool packed = own.row.acc == Fmt::f16;
    // %result.0 .., then the registers of a, b and c.
    std::vector<int> first(4);
    std::string lists[2], declared, taken;
    int number = 0;
    for (const size_t o : {3, 0, 1, 2}) {
        first[o] = number;
        const RegisterKind kind = register_kind(formats[o]);
        for (size_t p = 0; p < registers_of[o].parts.size(); ++p, ++number) {
            const std::string at = std::to_string(p + static_cast<size_t>(o == 0 ? 2 * k : o == 1 ? k : 0));
            const std::string sum = packed ? "c" + at : "d[" + at + "]", made = "y" + at;
            if (o == 3)
                declared += indent + kind.type + " " + made + ";\n", taken += indent + sum + " = " + made + ";\n";
            const std::string value = o == 3 ? made : o == 2 ? sum : (o == 0 ? "a[" : "b[") + at + "]";
            std::string& list = lists[o != 3];
            list +=
                (list.empty() ? "\"" : ", \"") + std::string(o == 3 ? "=" : "") + kind.constraint + "\"(" + value + ")";
        }
    }
    const std::string body = asm_text(
        text, ptx, [&](const PtxPiece& p) { return first[static_cast<size_t>(p.operand)] + std::max(p.part, 0); });
    const std::string deeper = indent + "    ";
    return indent + "{\n" + declared + indent + "asm volatile(\"" + body + "\"\n" + deeper + ": " + lists[0] + "\n" +
           deeper + ": " + lists[1] + ");\n" + taken + indent + "}\n";
}

void lower_instruction(Lowering&, ir::InstId) { TEGULA_CHECK(false, "an instruction that no GPU pass has decided on"); }
void lower_ptx(Lowering& ctx, ir::InstId id) { call_instruction(ctx, id); }
void lower_ptx_tile(Lowering& ctx, ir::InstId id) { call_instruction(ctx, id); }

}  // namespace tegula::lower
