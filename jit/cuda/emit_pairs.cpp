// Tiles of 16-bit floats as arrays of pairs: registers 2p and 2p + 1 are the halves of `unsigned v12[p]`; of bytes as arrays of four. Casts of packed codes make them, additions
// and multiplications take two elements at a time, and products of tensor cores take the words as they are.
#include <algorithm>

#include "jit/cuda/emitter.h"

namespace tegula::cuda {

using ir::Op;

namespace {

constexpr const char* kOperation = R"(__device__ __forceinline__ unsigned $(PARAMETERS) {
    unsigned two;
    asm(INSTRUCTION : "=r"(two) : INPUTS);
    return two;
}
)";

bool adds_or_multiplies(Op op) { return op == Op::add || op == Op::sub || op == Op::mul || op == Op::fma; }

/// The instruction of an operation on pairs. GPUs before sm_90 have but sums of products for bf16: a * 1 + b, b * -1 + a and a * b - 0 round alike.
std::string pair_instruction(Op op, bool bf16, int arch) {
    const std::string type = bf16 ? "bf16x2" : "f16x2";
    const auto with = [](const char* constant, const char* operands) {
        return std::string("\"{.reg .b32 c; mov.b32 c, ") + constant + "; fma.rn.bf16x2 %0, " + operands + ";}\"";
    };
    if (op == Op::fma) return "\"fma.rn." + type + " %0, %1, %2, %3;\"";
    if (!bf16 || arch >= 90) return std::string(op == Op::add ? "\"add" : op == Op::sub ? "\"sub" : "\"mul") + ".rn." + type + " %0, %1, %2;\"";
    if (op == Op::mul) return with("0x80008000", "%1, %2, c");
    return op == Op::add ? with("0x3f803f80", "%1, c, %2") : with("0xbf80bf80", "%2, c, %1");
}

}  // namespace

/// By pair of the result: the pair of the operand that it is; none where pairs are not kept.
std::vector<int> Emitter::moved_pairs(ir::InstId id) const {
    const ir::Inst& inst = fn_.inst(id);
    const bool converts = inst.op == Op::convert;
    if (!ir::has_trait(inst.op, ir::VIEW) && !converts) return {};
    const ir::ValueId from = fn_.operands(inst)[0];
    if (!in_registers(from) || is_scalar(from)) return {};
    std::vector<int> registers;
    if (converts) {
        const Conversion c = plan_conversion(layout(from), layout(fn_.result(inst)));
        if (c.kind != Conversion::registers) return {};
        registers = c.rename;
    } else if (const auto sources = register_sources(fn_, id)) {
        for (const RegisterSource& s : *sources) registers.push_back(s.reg);
    }
    std::vector<int> out;
    for (size_t r = 0; r + 1 < registers.size(); r += 2) {
        if (registers[r] % 2 || registers[r + 1] != registers[r] + 1) return {};
        out.push_back(registers[r] / 2);
    }
    return out;
}

void Emitter::find_pairs() {
    pairs_.assign(fn_.value_count(), false);
    quads_.assign(fn_.value_count(), false);
    const int arch = fn_.gpu->arch->number;
    std::vector<ir::InstId> made;
    std::vector<ir::ValueId> fours;
    const std::function<void(ir::BlockId)> walk = [&](ir::BlockId block) {
        for (const ir::InstId id : fn_.block(block).insts) {
            const ir::Inst& inst = fn_.inst(id);
            const auto operands = fn_.operands(inst);
            for (const ir::BlockId inner : fn_.blocks(inst)) walk(inner);
            if (inst.results.count != 1 || is_scalar(fn_.result(inst)) || !in_registers(fn_.result(inst))) continue;
            const ir::ValueId v = fn_.result(inst);
            if (can_decode(inst) && codes_per_word(*decode_target(fn_.type(v).elem)) == 4) fours.push_back(v);
            const bool bf16 = fn_.type(v).elem == Fmt::bf16;
            if ((!bf16 && fn_.type(v).elem != Fmt::f16) || registers(v) % 2 || (bf16 && arch < 80)) continue;
            const bool from_pairs = std::any_of(operands.begin(), operands.end(), [&](ir::ValueId o) { return pairs_[o.v]; });
            const bool computed = adds_or_multiplies(inst.op) && from_pairs;
            if (computed || can_decode(inst) || (from_pairs && !moved_pairs(id).empty())) {
                pairs_[v.v] = true;
                made.push_back(id);
            }
        }
    };
    walk(fn_.body);
    // What wants an array of elements gets one.
    const auto takes_pairs = [&](ir::InstId user, ir::ValueId v) {
        const ir::Inst& inst = fn_.inst(user);
        if (ir::is_product(inst.op)) {
            const MmaRow::Kind kind = product_row(fn_, user).kind;
            return kind == MmaRow::mma || (kind == MmaRow::wgmma && fn_.operands(inst)[0] == v);
        }
        if (inst.results.count == 1 && pairs_[fn_.result(inst).v]) return true;
        return ir::has_trait(inst.op, ir::ELEMWISE) || inst.op == Op::select || inst.op == Op::cast;
    };
    for (const ir::ValueId v : fours)
        quads_[v.v] = std::ranges::all_of(uses_.of(v), [&](const ir::Use& use) { return takes_pairs(use.inst, v); });
    for (bool changed = true; changed;) {
        changed = false;
        for (const ir::InstId id : made) {
            const ir::ValueId v = fn_.result(id);
            if (!pairs_[v.v] || std::ranges::all_of(uses_.of(v), [&](const ir::Use& use) { return takes_pairs(use.inst, v); })) continue;
            pairs_[v.v] = false;
            changed = true;
        }
        // What was computed of pairs is computed of elements where none of its operands is one any more.
        for (const ir::InstId id : made) {
            const ir::Inst& inst = fn_.inst(id);
            const auto operands = fn_.operands(inst);
            if (!pairs_[fn_.result(id).v] || inst.op == Op::cast) continue;
            if (std::any_of(operands.begin(), operands.end(), [&](ir::ValueId o) { return pairs_[o.v]; })) continue;
            pairs_[fn_.result(id).v] = false;
            changed = true;
        }
    }
}

/// Register r of a tile whose words hold `per` of them each.
std::string Emitter::part_of_word(const std::string& words, int per, Ex r, const Format& f) {
    if (per == 2) {
        prelude_.need("pairs");
        const std::string two = "(" + words + "[" + (r >> 1).text() + "])";
        return "(" + chosen(ne(r & 1, 0), "high_short" + two, "low_short" + two) + ")";
    }
    return "(" + std::string(prelude_.type(f)) + ")(" + words + "[" + (r >> 2).text() + "] >> " + ((r & 3) * 8) + ")";
}

std::string Emitter::pair_at(ir::ValueId v, Ex first) {
    if (is_pairs(v)) return name(v) + "[" + (first >> 1).text() + "]";
    prelude_.need("pairs");
    return "two_shorts(" + at(v, first) + ", " + at(v, first + 1) + ")";
}

/// A cast of packed codes whose result is wanted element by element, for shared memory above all. false: it is none.
bool Emitter::decode_elements(const ir::Inst& cast) {
    if (!can_decode(cast)) return false;
    const ir::ValueId v = fn_.result(cast);
    const Format& f = fn_.elem(v);
    const int per = codes_per_word(*decode_target(fn_.type(v).elem));
    const std::string words = fresh("decoded");
    declare(v);
    line("unsigned " + words + "[" + number(registers(v) / per) + "];");
    decode_words(cast, [&](int w) { return words + "[" + number(w) + "]"; });
    each_register(v, [&](Ex r) { line(name(v) + "[" + r.text() + "] = " + part_of_word(words, per, r, f) + ";"); });
    return true;
}

/// A tile of pairs from a cast, an operation or a move. false: it is none.
bool Emitter::make_pairs(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    if (inst.results.count != 1) return false;
    const ir::ValueId v = fn_.result(inst);
    if (!is_pairs(v) && !is_quads(v)) return decode_elements(inst);
    const auto operands = fn_.operands(inst);
    const int pairs = registers(v) / 2;
    declare(v);
    if (inst.op == Op::cast) {
        decode_words(inst, [&](int p) { return name(v) + "[" + number(p) + "]"; });
        return true;
    }
    if (const std::vector<int> moved = moved_pairs(id); !moved.empty()) {
        each(pairs, [&](Ex p) { line(name(v) + "[" + p + "] = " + name(operands[0]) + "[" + rename(moved, p).text() + "];"); });
        return true;
    }
    const bool bf16 = fn_.type(v).elem == Fmt::bf16;
    const std::string stem = std::string(ir::op_row(inst.op).name) + (bf16 ? "_two_bf16" : "_two_f16");
    std::string parameters, inputs;
    for (size_t i = 0; i < operands.size(); ++i) {
        const std::string x(1, static_cast<char>('a' + i));
        parameters += (i ? ", unsigned " : "unsigned ") + x;
        inputs += (i ? ", \"r\"(" : "\"r\"(") + x + ")";
    }
    const std::string function = support(
        stem, stem,
        replaced(replaced(replaced(kOperation, "PARAMETERS", parameters), "INSTRUCTION", pair_instruction(inst.op, bf16, fn_.gpu->arch->number)),
                 "INPUTS", inputs));
    each(pairs, [&](Ex p) {
        std::string arguments;
        for (const ir::ValueId o : operands) arguments += (arguments.empty() ? "" : ", ") + pair_at(o, p * 2);
        line(name(v) + "[" + p + "] = " + function + "(" + arguments + ");");
    });
    return true;
}

}  // namespace tegula::cuda
