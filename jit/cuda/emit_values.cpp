// Ops that make values from constants, single elements or the launch: constants, iota, conversions, choice, program numbers and extents.
#include <algorithm>

#include "jit/cuda/emitter.h"
#include "lang/gpu/raster.h"

namespace tegula::cuda {

void Emitter::cuda_constant(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId v = fn_.result(inst);
    if (is_scalar(v) || !array_constant_[v.v]) return;  // readers spell the literal
    const auto code = static_cast<uint64_t>(fn_.attrs(inst)[0]);
    assign(v, [&](Ex) { return fn_.type(v).pointer ? std::to_string(code) + "ull" : prelude_.literal(fn_.elem(v), code); });
}

void Emitter::cuda_constant_tile(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId v = fn_.result(inst);
    const auto codes = fn_.attrs(inst);
    const Format& f = fn_.elem(v);
    if (is_scalar(v)) return assign(v, [&](Ex) { return prelude_.literal(f, static_cast<uint64_t>(codes[0])); });
    // Inf and NaN are no constant expressions: floats lie in the table as their bits.
    const bool wide = f.is_float() && f.bits >= 32;
    const Format stored = wide ? int_format(f.bits, false) : f;
    const std::string type = prelude_.type(stored);
    std::string list;
    for (size_t i = 0; i < codes.size(); ++i) {
        list += i == 0 ? "" : i % 16 ? ", " : ",\n    ";
        list += prelude_.literal(stored, static_cast<uint64_t>(codes[i]));
    }
    const std::string table = support("table " + type + " " + list, "table",
                                      "__device__ const " + type + " $[" + std::to_string(codes.size()) + "] = {\n    " + list + "};\n");
    const TileLayout& l = layout(v);
    assign(v, [&](Ex r) {
        const std::string entry = table + "[" + logical_number(l, r).text() + "]";
        const std::string element = wide ? prelude_.bitcast(f, stored, entry) : entry;
        return chosen(inside(l, r), element, zero(v));
    });
}

void Emitter::cuda_iota(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId v = fn_.result(inst);
    const auto axis = static_cast<int>(fn_.attrs(inst)[0]);
    assign(v, [&](Ex r) {
        return prelude_.cast(fn_.elem(v), int_format(32, true), coordinate(layout(v), axis, r).atom(), Round::rne, Overflow::automatic);
    });
}

/// Two integers of at most 8 bits as f16: 1024 + x has x in its low bits, and what was added is taken off exactly. Conversions run at an eighth of
/// the rate of these instructions and take a register each.
std::string Emitter::two_halves(const Format& from) {
    const std::string added = from.is_signed ? "0x64806480u" : "0x64006400u";
    return support("two halves " + added, "two_halves",
                   "__device__ __forceinline__ unsigned $(unsigned char low, unsigned char high) {\n"
                   "    const unsigned short both = low | high << 8;\n    unsigned two = __byte_perm(both, 0, 0x4140) ^ " +
                       added +
                       ";\n"
                       "    asm(\"sub.rn.f16x2 %0, %0, %1;\" : \"+r\"(two) : \"r\"(" +
                       added + "));\n    return two;\n}\n");
}

/// Two 8-bit floats as f16 or bf16, by the machine's conversion; empty: not these, or not where it is.
std::string Emitter::fp8_function(const ir::Inst& cast) {
    const ir::ValueId v = fn_.result(cast);
    const Type &to = fn_.type(v), &from = fn_.type(fn_.operands(cast)[0]);
    const bool brains = to.elem == Fmt::bf16, whole = from.elem == Fmt::f8e5m2;
    if ((!brains && to.elem != Fmt::f16) || (!whole && from.elem != Fmt::f8e4m3) || fn_.gpu->arch->number < 89) return {};
    if (is_scalar(v) || registers(v) % 2 || !keeps_infinities(cast)) return {};
    const Format &half = fn_.elem(v), &fp8 = fn_.elem(fn_.operands(cast)[0]);
    std::string body = "    unsigned two;\n    const unsigned short both = low | high << 8;\n    asm(\"cvt.rn.f16x2." +
                       std::string(whole ? "e5m2x2" : "e4m3x2") + " %0, %1;\" : \"=r\"(two) : \"h\"(both));\n";
    if (brains)
        body +=
            "    asm(\"{.reg .b16 l, h; .reg .f32 x, y; mov.b32 {l, h}, %0; cvt.f32.f16 x, l; cvt.f32.f16 y, h; \"\n"
            "        \"cvt.rn.bf16x2.f32 %0, y, x;}\" : \"+r\"(two));\n";
    return support("two of " + fp8.name + " as " + half.name, "two_fp8",
                   "__device__ __forceinline__ unsigned $(unsigned char low, unsigned char high) {\n" + body + "    return two;\n}\n");
}

/// Two registers by one instruction: the pair is what fragments and wide stores want again. `function` makes a pair of two elements.
void Emitter::cast_pairs(ir::ValueId to, ir::ValueId from, const std::string& function) {
    prelude_.need("pairs");
    declare(to);
    const int pairs = registers(to) / 2;
    unroll(pairs);
    open("for (int r = 0; r < " + std::to_string(pairs) + "; ++r)");
    const Ex low = pool_.counter("r", pairs) * 2, high = low + 1;
    line("const unsigned two = " + function + "(" + at(from, low) + ", " + at(from, high) + ");");
    line(at(to, low) + " = low_short(two);");
    line(at(to, high) + " = high_short(two);");
    close();
}

/// Two neighbours lie in one register, as they were loaded: both are decoded from there.
void Emitter::decode_pairs(ir::ValueId to, ir::ValueId from) {
    prelude_.need("bits");
    prelude_.need("pairs");
    declare(to);
    const int pairs = registers(to) / 2;
    unroll(pairs);
    open("for (int r = 0; r < " + std::to_string(pairs) + "; ++r)");
    const Ex low = pool_.counter("r", pairs) * 2, high = low + 1;
    line("const unsigned two = two_shorts(" + at(from, low) + ", " + at(from, high) + ");");
    line(at(to, low) + " = as_float(two << 16);");
    line(at(to, high) + " = as_float(two & 0xffff0000u);");
    close();
}

bool Emitter::keeps_infinities(const ir::Inst& cast) const {
    const auto overflow = static_cast<Overflow>(fn_.attrs(cast)[1]);
    return overflow == Overflow::automatic || overflow == Overflow::ieee;
}

std::string Emitter::pair_function(const ir::Inst& cast) const {
    if (cast.op != ir::Op::cast) return {};  // what has no operands, too
    const Type &to = fn_.type(fn_.result(cast)), &from = fn_.type(fn_.operands(cast)[0]);
    const auto attrs = fn_.attrs(cast);
    if ((to.elem != Fmt::f16 && to.elem != Fmt::bf16) || from.elem != Fmt::f32 || fn_.gpu->arch->number < 80) return {};
    if (static_cast<Round>(attrs[0]) != Round::rne || static_cast<Overflow>(attrs[1]) == Overflow::sat) return {};
    return to.elem == Fmt::f16 ? "encode_two_f16" : "encode_two_bf16";
}

bool Emitter::rounded_by_store(const ir::Inst& cast) const {
    const ir::ValueId v = fn_.result(cast);
    if (uses(v) != 1 || pair_function(cast).empty()) return false;
    for (const ir::InstId id : fn_.block(cast.parent).insts)
        if (fn_.inst(id).op == ir::Op::store && fn_.operands(fn_.inst(id)).back() == v) return fn_.gpu_inst(id).bulk;
    return false;
}

bool Emitter::encoded_by_store(ir::ValueId v) {
    const ir::Inst* cast = fn_.def(v);
    if (!cast || uses(v) != 1 || pair_function(*cast).empty()) return false;
    const std::vector<ir::InstId>& insts = fn_.block(cast->parent).insts;
    const auto next = std::find(insts.begin(), insts.end(), fn_.value(v).def) + 1;
    return next != insts.end() && stores_vectors(*next) && fn_.operands(fn_.inst(*next)).back() == v;
}

void Emitter::cuda_cast(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId v = fn_.result(inst);
    if (rounded_by_store(inst) || encoded_by_store(v)) return;
    const auto in = fn_.operands(inst);
    const auto attrs = fn_.attrs(inst);
    const auto round = static_cast<Round>(attrs[0]);
    const Format &to = fn_.elem(v), &from = fn_.elem(in[0]);
    if (can_decode(inst)) {
        declare(v);
        const std::string word = fresh("codes");
        const int per = codes_per_word(*decode_target(fn_.type(v).elem));
        line("unsigned " + word + "[" + std::to_string(registers(v) / per) + "];");
        decode_words(inst, [&](int p) { return word + "[" + std::to_string(p) + "]"; });
        return each_register(v, [&](Ex r) { line(name(v) + "[" + r.text() + "] = " + part_of_word(word, per, r, to) + ";"); });
    }
    if (const std::string two = fp8_function(inst); !two.empty()) return cast_pairs(v, in[0], two);
    const bool pairs = !is_scalar(v) && registers(v) % 2 == 0, f16 = fn_.type(v).elem == Fmt::f16;
    if (pairs && f16 && from.is_int() && from.bits <= 8) return cast_pairs(v, in[0], two_halves(from));
    if (pairs && fn_.type(v).elem == Fmt::f32 && fn_.type(in[0]).elem == Fmt::bf16 && keeps_infinities(inst)) return decode_pairs(v, in[0]);
    if (const std::string two = pair_function(inst); pairs && !two.empty()) return cast_pairs(v, in[0], two);
    assign(v, [&](Ex r) {
        std::string random, index;
        if (round == Round::stochastic) {
            random = name(in[1]);
            index = is_scalar(v) ? "0ull" : "(unsigned long long)" + logical_number(layout(v), r);
        } else if (round == Round::bits) {
            random = "(unsigned long long)(" + at(in[1], r) + ") << " + std::to_string(64 - fn_.elem(in[1]).bits);
        }
        return prelude_.cast(to, from, at(in[0], r), round, static_cast<Overflow>(attrs[1]), random, index);
    });
}

void Emitter::cuda_bitcast(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId v = fn_.result(inst), from = fn_.operands(inst)[0];
    assign(v, [&](Ex r) {
        if (fn_.type(v).pointer || fn_.type(from).pointer) return "(" + type_of(v) + ")" + at(from, r);
        return prelude_.bitcast(fn_.elem(v), fn_.elem(from), at(from, r));
    });
}

void Emitter::cuda_select(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto in = fn_.operands(inst);
    if (select_by_counts(id)) return;
    assign(fn_.result(inst), [&](Ex r) { return at(in[0], r) + " ? " + at(in[1], r) + " : " + at(in[2], r); });
}

std::string Emitter::index_of_program(const std::string& place, int axis, const std::function<void(const std::string&)>& put) {
    std::string above = place;
    for (int below = 0; below < axis; ++below) above = over_clusters(above, below);
    const std::string v = fresh("program_id");
    const std::string whole = fresh("whole");
    put("const unsigned long long " + whole + " = " + above + ";");
    std::string index = whole;
    if (axis != fn_.gpu->grid_axes - 1) index = "(" + whole + " - " + over_clusters(whole, axis) + " * " + clusters_along(axis) + ")";
    const int cluster = fn_.gpu->cluster[static_cast<size_t>(axis)];
    if (cluster > 1) index = "(" + index + " * " + std::to_string(cluster) + " + " + cluster_place(axis) + ")";
    put("const long long " + v + " = (long long)" + index + ";");
    return v;
}

std::string Emitter::program_axis(int axis) {
    const std::string key = "program axis " + std::to_string(axis);
    if (const auto it = param_names_.find(key); it != param_names_.end()) return it->second;
    const auto put = [&](const std::string& text) { prologue_ += "    " + text + "\n"; };
    return param_names_[key] = index_of_program(in_groups(cluster_number(), "program", put), axis, put);
}

void Emitter::cuda_program_id(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const int axis = static_cast<int>(fn_.attrs(inst)[0]);
    const bool numbered = inst.operands.count > 0;
    const std::string number = numbered ? name(fn_.operands(inst)[0]) : "program";
    std::string& index = names_[fn_.result(inst).v];
    if (fn_.gpu->grid_axes == 1) {
        index = axis == 0 ? "(long long)" + number : "0ll";
    } else if (!numbered) {
        index = program_axis(axis);
    } else {
        const auto put = [&](const std::string& text) { line(text); };
        const std::string scope = number + " in block " + std::to_string(inst.parent.v);
        index = index_of_program(in_groups("(unsigned long long)" + number, scope, put), axis, put);
    }
}

void Emitter::cuda_cta_id(ir::InstId id) { names_[fn_.result(id).v] = "(long long)blockIdx.x"; }

void Emitter::cuda_num_ctas(ir::InstId id) { names_[fn_.result(id).v] = "(long long)gridDim.x"; }

void Emitter::cuda_num_programs(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    names_[fn_.result(inst).v] =
        "(long long)" + parameter(KernelParam::grid, 0, static_cast<int>(fn_.attrs(inst)[0]), "const unsigned long long", "programs");
}

void Emitter::cuda_dim(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    names_[fn_.result(inst).v] = extent(fn_.operands(inst)[0], static_cast<int>(fn_.attrs(inst)[0])).text();
}

}  // namespace tegula::cuda
