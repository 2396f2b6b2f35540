// Tiles of 16-bit floats as arrays of pairs: registers 2p and 2p + 1 are the halves of `unsigned v12[p]`; of bytes as
// arrays of four. Casts of packed codes make them, additions and multiplications take two elements at a time, and
// products of tensor cores take the words as they are.
#include <algorithm>

#include "lower/kernel/control/control.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/packed/packed.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Op;

namespace {

constexpr const char* kOperation = R"(__device__ __forceinline__ unsigned $(PARAMETERS) {
    unsigned two;
    asm(INSTRUCTION : "=r"(two) : INPUTS);
    return two;
}
)";

bool adds_or_multiplies(Op op) { return op == Op::add || op == Op::sub || op == Op::mul || op == Op::fma; }

/// The instruction of an operation on pairs. GPUs before sm_90 have but sums of products for bf16: a * 1 + b, b * -1 +
/// a and a * b - 0 round alike.
std::string pair_instruction(Op op, bool bf16, int arch) {
    const std::string type = bf16 ? "bf16x2" : "f16x2";
    const auto with = [](const char* constant, const char* operands) {
        return std::string("\"{.reg .b32 c; mov.b32 c, ") + constant + "; fma.rn.bf16x2 %0, " + operands + ";}\"";
    };
    if (op == Op::fma) return "\"fma.rn." + type + " %0, %1, %2, %3;\"";
    if (!bf16 || arch >= 90)
        return std::string(op == Op::add   ? "\"add"
                           : op == Op::sub ? "\"sub"
                                           : "\"mul") +
               ".rn." + type + " %0, %1, %2;\"";
    if (op == Op::mul) return with("0x80008000", "%1, %2, c");
    return op == Op::add ? with("0x3f803f80", "%1, c, %2") : with("0xbf80bf80", "%2, c, %1");
}

}  // namespace

/// For each pair of the result the pair of the operand that it is; none where pairs are not kept.
std::vector<int> moved_pairs(const Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const bool converts = inst.op == Op::convert;
    if (!ir::has_trait(inst.op, ir::VIEW) && !converts) return {};
    const ir::ValueId from = ctx.fn.operands(inst)[0];
    if (!in_registers(ctx, from) || is_scalar(ctx, from)) return {};
    std::vector<int> registers;
    if (converts) {
        const Conversion c = plan_conversion(layout(ctx, from), layout(ctx, ctx.fn.result(inst)));
        if (c.kind != Conversion::registers) return {};
        registers = c.rename;
    } else if (const auto sources = register_sources(ctx.fn, id)) {
        for (const RegisterSource& s : *sources) registers.push_back(s.reg);
    }
    std::vector<int> out;
    for (size_t r = 0; r + 1 < registers.size(); r += 2) {
        if (registers[r] % 2 || registers[r + 1] != registers[r] + 1) return {};
        out.push_back(registers[r] / 2);
    }
    return out;
}

namespace {

/// Does the instruction take the words of a tile as they are, or element by element? What wants an array of elements
/// gets one.
bool takes_words(const Lowering& ctx, ir::InstId user, ir::ValueId v) {
    const ir::Inst& inst = ctx.fn.inst(user);
    if (ir::is_product(inst.op)) {
        const MmaRow::Kind kind = product_row(ctx.fn, user).kind;
        return kind == MmaRow::mma || (kind == MmaRow::wgmma && ctx.fn.operands(inst)[0] == v);
    }
    if (inst.results.count == 1 && is_pairs(ctx, ctx.fn.result(inst))) return true;
    return ir::has_trait(inst.op, ir::ELEMWISE) || inst.op == Op::select || inst.op == Op::cast;
}

bool takes_words(const Lowering& ctx, ir::ValueId v) {
    return std::ranges::all_of(ctx.values.uses.of(v),
                               [&](const ir::Use& use) { return takes_words(ctx, use.inst, v); });
}

/// Every instruction that gives one tile in registers.
void each_tile(const Lowering& ctx, const std::function<void(ir::InstId id, ir::ValueId v)>& visit) {
    ctx.fn.walk([&](ir::InstId id) {
        const ir::Inst& inst = ctx.fn.inst(id);
        if (inst.results.count != 1) return;
        const ir::ValueId v = ctx.fn.result(inst);
        if (!is_scalar(ctx, v) && in_registers(ctx, v)) visit(id, v);
    });
}

}  // namespace

void find_quads(Lowering& ctx) {
    each_tile(ctx, [&](ir::InstId id, ir::ValueId v) {
        const bool fours = can_decode(ctx, ctx.fn.inst(id)) && codes_per_word(*decode_target(ctx.fn.type(v).elem)) == 4;
        if (fours && takes_words(ctx, v)) ctx.plan.decide(KernelPass::quads, v);
    });
}

void find_pairs(Lowering& ctx) {
    const int arch = ctx.fn.gpu->arch->number;
    std::vector<ir::InstId> made;
    const auto of_pairs = [&](const ir::Inst& inst) {
        return std::ranges::any_of(ctx.fn.operands(inst), [&](ir::ValueId o) { return is_pairs(ctx, o); });
    };
    each_tile(ctx, [&](ir::InstId id, ir::ValueId v) {
        const ir::Inst& inst = ctx.fn.inst(id);
        const bool bf16 = ctx.fn.type(v).elem == Fmt::bf16;
        if ((!bf16 && ctx.fn.type(v).elem != Fmt::f16) || registers(ctx, v) % 2 || (bf16 && arch < 80)) return;
        const bool from_pairs = of_pairs(inst), computed = adds_or_multiplies(inst.op) && from_pairs;
        if (computed || can_decode(ctx, inst) || (from_pairs && !moved_pairs(ctx, id).empty())) {
            ctx.plan.decide(KernelPass::pairs, v);
            made.push_back(id);
        }
    });
    for (bool changed = true; changed;) {
        changed = false;
        for (const ir::InstId id : made) {
            const ir::ValueId v = ctx.fn.result(id);
            if (!is_pairs(ctx, v) || takes_words(ctx, v)) continue;
            ctx.plan.decide(KernelPass::pairs, v, false);
            changed = true;
        }
        // What was computed of pairs is computed of elements where none of its operands is one any more.
        for (const ir::InstId id : made) {
            const ir::Inst& inst = ctx.fn.inst(id);
            if (!is_pairs(ctx, ctx.fn.result(id)) || inst.op == Op::cast || of_pairs(inst)) continue;
            ctx.plan.decide(KernelPass::pairs, ctx.fn.result(id), false);
            changed = true;
        }
    }
}

/// Register r of a tile whose words hold `per` of them each.
std::string part_of_word(Lowering& ctx, const std::string& words, int per, Ex r, const Format& f) {
    if (per == 2) {
        ctx.formats.need("pairs");
        const std::string two = "(" + words + "[" + (r >> 1).text() + "])";
        return "(" + chosen(ne(r & 1, 0), "high_short" + two, "low_short" + two) + ")";
    }
    return "(" + std::string(ctx.formats.type(f)) + ")(" + words + "[" + (r >> 2).text() + "] >> " + ((r & 3) * 8) +
           ")";
}

Ex pair_at(Lowering& ctx, ir::ValueId v, Ex first) {
    if (is_pairs(ctx, v)) return element(ctx, name(ctx, v), first >> 1);
    ctx.formats.need("pairs");
    const std::string low = text_at(ctx, v, first), high = text_at(ctx, v, first + 1);
    return ctx.pool.text(kernel::Type::other, "two_shorts(" + low + ", " + high + ")", true);
}

/// A cast of packed codes whose result is wanted element by element, for shared memory above all. false: it is none.
bool decode_elements(Lowering& ctx, const ir::Inst& cast) {
    if (!can_decode(ctx, cast)) return false;
    const ir::ValueId v = ctx.fn.result(cast);
    const Format& f = ctx.fn.elem(v);
    const int per = codes_per_word(*decode_target(ctx.fn.type(v).elem));
    const std::string words = ctx.out.fresh("decoded");
    declare(ctx, v);
    ctx.out.declare("unsigned", words, registers(ctx, v) / per);
    decode_words(ctx, cast, [&](int w) { return element(ctx, words, ctx.pool.number(w)); });
    each_register(ctx, v, [&](Ex r) {
        ctx.out.assign(element(ctx, name(ctx, v), r), raw(ctx, part_of_word(ctx, words, per, r, f)));
    });
    return true;
}

/// A tile of pairs from a cast, an operation or a move. false: it is none.
bool make_pairs(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    if (inst.results.count != 1) return false;
    const ir::ValueId v = ctx.fn.result(inst);
    if (!is_pairs(ctx, v) && !is_quads(ctx, v)) return decode_elements(ctx, inst);
    const auto operands = ctx.fn.operands(inst);
    const int pairs = registers(ctx, v) / 2;
    declare(ctx, v);
    if (inst.op == Op::cast) {
        decode_words(ctx, inst, [&](int p) { return element(ctx, name(ctx, v), ctx.pool.number(p)); });
        return true;
    }
    if (const std::vector<int> moved = moved_pairs(ctx, id); !moved.empty()) {
        each(ctx, pairs, [&](Ex p) {
            ctx.out.assign(element(ctx, name(ctx, v), p), element(ctx, name(ctx, operands[0]), rename(ctx, moved, p)));
        });
        return true;
    }
    const bool bf16 = ctx.fn.type(v).elem == Fmt::bf16;
    const std::string stem = std::string(ir::op_row(inst.op).name) + (bf16 ? "_two_bf16" : "_two_f16");
    std::string parameters, inputs;
    for (size_t i = 0; i < operands.size(); ++i) {
        const std::string x(1, static_cast<char>('a' + i));
        parameters += (i ? ", unsigned " : "unsigned ") + x;
        inputs += (i ? ", \"r\"(" : "\"r\"(") + x + ")";
    }
    const std::string function =
        support(ctx, stem, stem,
                replaced(replaced(replaced(kOperation, "PARAMETERS", parameters), "INSTRUCTION",
                                  pair_instruction(inst.op, bf16, ctx.fn.gpu->arch->number)),
                         "INPUTS", inputs));
    each(ctx, pairs, [&](Ex p) {
        std::vector<Ex> arguments;
        for (const ir::ValueId o : operands) arguments.push_back(pair_at(ctx, o, p * 2));
        ctx.out.assign(element(ctx, name(ctx, v), p), ctx.pool.call(kernel::Type::u32, function, arguments));
    });
    return true;
}

}  // namespace tegula::lower
