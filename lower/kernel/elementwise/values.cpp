// Ops that make values from constants, single elements or the launch: constants, iota, conversions, choice, program
// numbers and extents.
#include <algorithm>

#include "lang/gpu/raster.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/packed/packed.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

void lower_constant(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId v = ctx.fn.result(inst);
    if (is_scalar(ctx, v) || !ctx.values.array_constant[v.v]) return;  // readers spell the literal
    const auto code = static_cast<uint64_t>(ctx.fn.attrs(inst)[0]);
    assign(ctx, v, [&](Ex) {
        return ctx.fn.type(v).pointer ? std::to_string(code) + "ull" : ctx.formats.literal(ctx.fn.elem(v), code);
    });
}

void lower_constant_tile(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId v = ctx.fn.result(inst);
    const auto codes = ctx.fn.attrs(inst);
    const Format& f = ctx.fn.elem(v);
    if (is_scalar(ctx, v))
        return assign(ctx, v, [&](Ex) { return ctx.formats.literal(f, static_cast<uint64_t>(codes[0])); });
    // Inf and NaN are no constant expressions: floats lie in the table as their bits.
    const bool wide = f.is_float() && f.bits >= 32;
    const Format stored = wide ? int_format(f.bits, false) : f;
    const std::string type = ctx.formats.type(stored);
    std::string list;
    for (size_t i = 0; i < codes.size(); ++i) {
        list += i == 0 ? "" : i % 16 ? ", " : ",\n    ";
        list += ctx.formats.literal(stored, static_cast<uint64_t>(codes[i]));
    }
    const std::string table =
        support(ctx, "table " + type + " " + list, "table",
                "__device__ const " + type + " $[" + std::to_string(codes.size()) + "] = {\n    " + list + "};\n");
    const TileLayout& l = layout(ctx, v);
    assign(ctx, v, [&](Ex r) {
        const std::string entry = table + "[" + logical_number(ctx, l, r).text() + "]";
        const std::string element = wide ? ctx.formats.bitcast(f, stored, entry) : entry;
        return chosen(inside(ctx, l, r), element, zero(ctx, v));
    });
}

void lower_iota(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId v = ctx.fn.result(inst);
    const auto axis = static_cast<int>(ctx.fn.attrs(inst)[0]);
    assign(ctx, v, [&](Ex r) {
        return ctx.formats.cast(ctx.fn.elem(v), int_format(32, true), coordinate(ctx, layout(ctx, v), axis, r).atom());
    });
}

/// Two integers of at most 8 bits as f16: 1024 + x has x in its low bits, and what was added is taken off exactly.
/// Conversions run at an eighth of the rate of these instructions and take a register each.
std::string two_halves(Lowering& ctx, const Format& from) {
    const std::string added = from.is_signed ? "0x64806480u" : "0x64006400u";
    return support(
        ctx, "two halves " + added, "two_halves",
        "__device__ __forceinline__ unsigned $(unsigned char low, unsigned char high) {\n"
        "    const unsigned short both = low | high << 8;\n    unsigned two = __byte_perm(both, 0, 0x4140) ^ " +
            added +
            ";\n"
            "    asm(\"sub.rn.f16x2 %0, %0, %1;\" : \"+r\"(two) : \"r\"(" +
            added + "));\n    return two;\n}\n");
}

/// Two 8-bit floats as f16 or bf16, by the machine's conversion; empty: not these, or not where it is.
std::string fp8_function(Lowering& ctx, const ir::Inst& cast) {
    const ir::ValueId v = ctx.fn.result(cast);
    const Type &to = ctx.fn.type(v), &from = ctx.fn.type(ctx.fn.operands(cast)[0]);
    const bool brains = to.elem == Fmt::bf16, whole = from.elem == Fmt::f8e5m2;
    if ((!brains && to.elem != Fmt::f16) || (!whole && from.elem != Fmt::f8e4m3) || ctx.fn.gpu->arch->number < 89)
        return {};
    if (is_scalar(ctx, v) || registers(ctx, v) % 2 || !keeps_infinities(ctx, cast)) return {};
    const Format &half = ctx.fn.elem(v), &fp8 = ctx.fn.elem(ctx.fn.operands(cast)[0]);
    std::string body = "    unsigned two;\n    const unsigned short both = low | high << 8;\n    asm(\"cvt.rn.f16x2." +
                       std::string(whole ? "e5m2x2" : "e4m3x2") + " %0, %1;\" : \"=r\"(two) : \"h\"(both));\n";
    if (brains)
        body +=
            "    asm(\"{.reg .b16 l, h; .reg .f32 x, y; mov.b32 {l, h}, %0; cvt.f32.f16 x, l; cvt.f32.f16 y, h; \"\n"
            "        \"cvt.rn.bf16x2.f32 %0, y, x;}\" : \"+r\"(two));\n";
    return support(ctx, "two of " + fp8.name + " as " + half.name, "two_fp8",
                   "__device__ __forceinline__ unsigned $(unsigned char low, unsigned char high) {\n" + body +
                       "    return two;\n}\n");
}

namespace {

/// Two registers at a time: the function `pair` makes a word `two` of two elements, and `low` and `high` take it apart.
void each_pair(Lowering& ctx, ir::ValueId to, ir::ValueId from, const std::string& pair, const std::string& low,
               const std::string& high) {
    ctx.formats.need("pairs");
    declare(ctx, to);
    const int pairs = registers(ctx, to) / 2;
    const Ex first = ctx.out.open_count("r", pairs, unrolled(ctx, pairs)) * 2, second = first + 1;
    ctx.out.let("unsigned", "two",
                raw(ctx, pair + "(" + text_at(ctx, from, first) + ", " + text_at(ctx, from, second) + ")"));
    ctx.out.assign(element_at(ctx, to, first), raw(ctx, low));
    ctx.out.assign(element_at(ctx, to, second), raw(ctx, high));
    ctx.out.close();
}

}  // namespace

/// Two registers by one instruction: the pair is what fragments and wide stores want again. `function` makes a pair of
/// two elements.
void cast_pairs(Lowering& ctx, ir::ValueId to, ir::ValueId from, const std::string& function) {
    each_pair(ctx, to, from, function, "low_short(two)", "high_short(two)");
}

/// Two neighbours lie in one register, as they were loaded: both are decoded from there.
void decode_pairs(Lowering& ctx, ir::ValueId to, ir::ValueId from) {
    ctx.formats.need("bits");
    each_pair(ctx, to, from, "two_shorts", "as_float(two << 16)", "as_float(two & 0xffff0000u)");
}

bool keeps_infinities(const Lowering& ctx, const ir::Inst& cast) {
    const auto overflow = static_cast<Overflow>(ctx.fn.attrs(cast)[1]);
    return overflow == Overflow::automatic || overflow == Overflow::ieee;
}

std::string pair_function(const Lowering& ctx, const ir::Inst& cast) {
    if (cast.op != ir::Op::cast) return {};  // what has no operands, too
    const Type &to = ctx.fn.type(ctx.fn.result(cast)), &from = ctx.fn.type(ctx.fn.operands(cast)[0]);
    const auto attrs = ctx.fn.attrs(cast);
    if ((to.elem != Fmt::f16 && to.elem != Fmt::bf16) || from.elem != Fmt::f32 || ctx.fn.gpu->arch->number < 80)
        return {};
    if (static_cast<Round>(attrs[0]) != Round::rne || static_cast<Overflow>(attrs[1]) == Overflow::sat) return {};
    return to.elem == Fmt::f16 ? "encode_two_f16" : "encode_two_bf16";
}

namespace {

/// The store that alone takes the cast's result, where it is able to round: a bulk store of the same block, or one
/// right behind the cast.
ir::InstId rounding_store(const Lowering& ctx, ir::InstId id) {
    const ir::Inst& cast = ctx.fn.inst(id);
    if (pair_function(ctx, cast).empty()) return {};
    const ir::ValueId v = ctx.fn.result(cast);
    const ir::InstId user = ctx.values.uses.only_user(v);
    if (!user.valid()) return {};
    const ir::Inst& store = ctx.fn.inst(user);
    if (store.op != ir::Op::store || !(store.parent == cast.parent) || !(ctx.fn.operands(store).back() == v)) return {};
    const std::vector<ir::InstId>& insts = ctx.fn.block(cast.parent).insts;
    return ctx.fn.gpu_inst(user).bulk || *(std::ranges::find(insts, id) + 1) == user ? user : ir::InstId{};
}

}  // namespace

void find_rounding_stores(Lowering& ctx) {
    std::optional<Lowering> asked;  // what an access looks like is known where it is emitted
    ctx.fn.walk([&](ir::InstId id) {
        const ir::InstId store = rounding_store(ctx, id);
        if (!store.valid()) return;
        if (!asked) asked.emplace(ctx.fn, nullptr);
        if (ctx.fn.gpu_inst(store).bulk || stores_vectors(*asked, store))
            ctx.plan.decide(KernelPass::round_in_store, ctx.fn.result(id));
    });
}

void lower_cast(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId v = ctx.fn.result(inst);
    if (ctx.plan.has(KernelPass::round_in_store, v)) return;
    const auto in = ctx.fn.operands(inst);
    const auto attrs = ctx.fn.attrs(inst);
    const Format &to = ctx.fn.elem(v), &from = ctx.fn.elem(in[0]);
    if (can_decode(ctx, inst)) {
        declare(ctx, v);
        const int per = codes_per_word(*decode_target(ctx.fn.type(v).elem));
        const Ex words = array(ctx, "unsigned", "codes", registers(ctx, v) / per);
        decode_words(ctx, inst, [&](int w) { return element(words, ctx.pool.number(w)); });
        return each_register(ctx, v, [&](Ex r) {
            ctx.out.assign(element(ctx, name(ctx, v), r), raw(ctx, part_of_word(ctx, words.text(), per, r, to)));
        });
    }
    if (const std::string two = fp8_function(ctx, inst); !two.empty()) return cast_pairs(ctx, v, in[0], two);
    const bool pairs = !is_scalar(ctx, v) && registers(ctx, v) % 2 == 0, f16 = ctx.fn.type(v).elem == Fmt::f16;
    if (pairs && f16 && from.is_int() && from.bits <= 8) return cast_pairs(ctx, v, in[0], two_halves(ctx, from));
    if (pairs && ctx.fn.type(v).elem == Fmt::f32 && ctx.fn.type(in[0]).elem == Fmt::bf16 && keeps_infinities(ctx, inst))
        return decode_pairs(ctx, v, in[0]);
    if (const std::string two = pair_function(ctx, inst); pairs && !two.empty()) return cast_pairs(ctx, v, in[0], two);
    assign(ctx, v, [&](Ex r) {
        Rounding rounding{static_cast<Round>(attrs[0]), static_cast<Overflow>(attrs[1])};
        if (rounding.round == Round::stochastic) {
            rounding.random = name(ctx, in[1]);
            rounding.index =
                is_scalar(ctx, v) ? "0ull" : "(unsigned long long)" + logical_number(ctx, layout(ctx, v), r);
        } else if (rounding.round == Round::bits) {
            rounding.random = "(unsigned long long)(" + text_at(ctx, in[1], r) + ") << " +
                              std::to_string(64 - ctx.fn.elem(in[1]).bits);
        }
        return ctx.formats.cast(to, from, text_at(ctx, in[0], r), rounding);
    });
}

void lower_bitcast(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId v = ctx.fn.result(inst), from = ctx.fn.operands(inst)[0];
    assign(ctx, v, [&](Ex r) {
        if (ctx.fn.type(v).pointer || ctx.fn.type(from).pointer)
            return "(" + type_of(ctx, v) + ")" + text_at(ctx, from, r);
        return ctx.formats.bitcast(ctx.fn.elem(v), ctx.fn.elem(from), text_at(ctx, from, r));
    });
}

std::string select_text(Lowering& ctx, std::span<const ir::ValueId> in, Ex r) {
    const std::string no = text_at(ctx, in[2], r), yes = text_at(ctx, in[1], r);
    return text_at(ctx, in[0], r) + " ? " + yes + " : " + no;
}

void lower_select(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const auto in = ctx.fn.operands(inst);
    if (select_by_counts(ctx, id)) return;
    assign(ctx, ctx.fn.result(inst), [&](Ex r) { return select_text(ctx, in, r); });
}

std::string index_of_program(Lowering& ctx, const std::string& place, int axis, const Put& put) {
    std::string above = place;
    for (int below = 0; below < axis; ++below) above = over_clusters(ctx, above, below);
    const std::string v = ctx.out.fresh("program_id");
    const std::string whole = ctx.out.fresh("whole");
    put("unsigned long long", whole, above);
    std::string index = whole;
    if (axis != ctx.fn.gpu->grid_axes - 1)
        index = "(" + whole + " - " + over_clusters(ctx, whole, axis) + " * " + clusters_along(ctx, axis) + ")";
    const int cluster = ctx.fn.gpu->cluster[static_cast<size_t>(axis)];
    if (cluster > 1) index = "(" + index + " * " + std::to_string(cluster) + " + " + cluster_place(ctx, axis) + ")";
    put("long long", v, "(long long)" + index);
    return v;
}

std::string program_axis(Lowering& ctx, int axis) {
    const std::string key = "program axis " + std::to_string(axis);
    if (const auto it = ctx.parameters.names.find(key); it != ctx.parameters.names.end()) return it->second;
    const Put put = [&](const std::string& type, const std::string& v, const std::string& value) {
        ctx.prologue += "    const " + type + " " + v + " = " + value + ";\n";
    };
    return ctx.parameters.names[key] =
               index_of_program(ctx, in_groups(ctx, cluster_number(ctx), "program", put), axis, put);
}

void lower_program_id(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const int axis = static_cast<int>(ctx.fn.attrs(inst)[0]);
    const bool numbered = inst.operands.count > 0;
    const std::string number = numbered ? name(ctx, ctx.fn.operands(inst)[0]) : "program";
    std::string& index = ctx.values.names[ctx.fn.result(inst).v];
    if (ctx.fn.gpu->grid_axes == 1) {
        index = axis == 0 ? "(long long)" + number : "0ll";
    } else if (!numbered) {
        index = program_axis(ctx, axis);
    } else {
        const Put put = [&](const std::string& type, const std::string& v, const std::string& value) {
            ctx.out.let(type, v, raw(ctx, value));
        };
        const std::string scope = number + " in block " + std::to_string(inst.parent.v);
        index = index_of_program(ctx, in_groups(ctx, "(unsigned long long)" + number, scope, put), axis, put);
    }
}

void lower_cta_id(Lowering& ctx, ir::InstId id) { ctx.values.names[ctx.fn.result(id).v] = "(long long)blockIdx.x"; }

void lower_num_ctas(Lowering& ctx, ir::InstId id) { ctx.values.names[ctx.fn.result(id).v] = "(long long)gridDim.x"; }

void lower_num_programs(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    ctx.values.names[ctx.fn.result(inst).v] =
        "(long long)" + parameter(ctx, KernelParam::grid, 0, static_cast<int>(ctx.fn.attrs(inst)[0]),
                                  "const unsigned long long", "programs");
}

void lower_dim(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    ctx.values.names[ctx.fn.result(inst).v] =
        extent(ctx, ctx.fn.operands(inst)[0], static_cast<int>(ctx.fn.attrs(inst)[0])).text();
}

}  // namespace tegula::lower
