// load and store of parts of tensors (access/part.cpp). Where a thread's registers hold neighbours in aligned memory,
// wide accesses: under a condition each when vectors never straddle the tensor's edge, else in a tile that is wholly
// inside, with another path for tiles at the edge. Otherwise one element at a time, each with its own bounds. Only one
// of several threads with copies stores.
#include "lang/gpu/wide_access.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/access/part.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/packed/packed.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

std::string read(Lowering& ctx, const Format& f, const std::string& base, const std::string& offset,
                 const CachingText& caching) {
    if (!is_bit_addressed(f) && !caching.stem.empty())
        return access_function(ctx, ctx.formats.type(f), true, false, caching) + "(" + base + " + (" + offset + "))";
    if (!is_bit_addressed(f)) return base + "[" + offset + "]";
    return ctx.formats.load_bits(f, base, "(long long)(" + offset + ")");
}

std::string write(Lowering& ctx, const Format& f, const std::string& base, const std::string& offset,
                  const std::string& value, const CachingText& caching) {
    if (!is_bit_addressed(f) && !caching.stem.empty())
        return access_function(ctx, ctx.formats.type(f), false, false, caching) + "(" + base + " + (" + offset + "), " +
               value + ");";
    if (!is_bit_addressed(f)) return base + "[" + offset + "] = " + value + ";";
    std::string text = ctx.formats.store_bits(f, base, "(long long)(" + offset + ")", value);
    if (text.back() != ';') text += ';';
    return text;
}

std::string other_text(Lowering& ctx, const Part& part, Ex r) {
    const ir::ValueId v = part.value;
    if (!part.other) return zero(ctx, v);
    const std::string& pointer = part.pointers[part.other.at];
    const std::string rest = staged(ctx, part.other.value, pointer, v, r, number_at(ctx, v, r)).text();
    const Ex real =
        pointer.empty() ? ctx.pool.truth(true) : is_real(ctx, v, r);  // no element of ghosts lies in scratch
    return real.is_true() ? rest : "(" + chosen(real, rest, zero(ctx, v)) + ")";
}

/// Register r into `to`.
void load_element(Lowering& ctx, const Part& part, Ex r, const std::string& to, bool checked) {
    const ir::ValueId v = part.value;
    const Format& f = ctx.fn.elem(part.tensor);
    const Ex ok = part_condition(ctx, part, r, checked);
    const std::string base = name(ctx, part.tensor), offset = part_offset(ctx, part, r).text();
    if (ok.is_true()) return ctx.out.line(to + " = " + read(ctx, f, base, offset, part.caching) + ";");
    if (is_bit_addressed(f))
        return ctx.out.line(to + " = " + chosen(ok, read(ctx, f, base, offset), other_text(ctx, part, r)) + ";");
    ctx.out.line(to + " = " + access_function(ctx, type_of(ctx, v), true, true, part.caching) + "(" + base + " + (" +
                 offset + "), " + ok.text() + ", " + other_text(ctx, part, r) + ");");
}

/// Into the scalar or array `to`.
void load_elements(Lowering& ctx, const Part& part, const std::string& to, bool checked) {
    if (is_scalar(ctx, part.value)) return load_element(ctx, part, {}, to, checked);
    by_groups(ctx, part, checked,
              [&](Ex r, bool bounds) { load_element(ctx, part, r, to + "[" + r.text() + "]", bounds); });
}

void store_elements(Lowering& ctx, const Part& part, bool checked) {
    const ir::ValueId v = part.value;
    const Format& f = ctx.fn.elem(part.tensor);
    const std::string base = name(ctx, part.tensor);
    by_groups(ctx, part, checked, [&](Ex r, bool bounds) {
        const Ex ok = both(stores(ctx, v, r), part_condition(ctx, part, r, bounds));
        const std::string offset = part_offset(ctx, part, r).text();
        if (ok.is_true() || is_bit_addressed(f) || is_scalar(ctx, v))
            return line_if(ctx, ok, write(ctx, f, base, offset, at(ctx, v, r), part.caching));
        ctx.out.line(access_function(ctx, type_of(ctx, v), false, true, part.caching) + "(" + base + " + (" + offset +
                     "), " + at(ctx, v, r) + ", " + ok.text() + ");");
    });
}

/// The body gets the first register of each vector.
void by_vectors(Lowering& ctx, const Part& part, const std::function<void(Ex r)>& body) {
    const int count = registers(ctx, part.value) / part.vector;
    each(ctx, count, [&](Ex group) { body(group * part.vector); });
}

/// The vector that starts at register r; where it is not in the tensor `otherwise`, or zeros if that is empty. Of one
/// that straddles the tensor's edge what lies inside.
std::string load_vector(Lowering& ctx, const Part& part, Ex r, bool checked, const std::string& otherwise) {
    const size_t element = ctx.fn.elem(part.tensor).container_bytes(),
                 bytes = static_cast<size_t>(part.vector) * element;
    const std::string from = "(" + name(ctx, part.tensor) + " + (" + part_offset(ctx, part, r).text() + ")";
    if (checked && part.inside == Part::first)
        return first_function(ctx, bytes, element, true, part.caching) + from + ", " +
               first_bytes(ctx, part, r).text() + ")";
    const Ex ok = part_condition(ctx, part, r, checked);
    const std::string zeros = bytes == 16 ? "uint4{0, 0, 0, 0}" : bytes == 8 ? "uint2{0, 0}" : "0";
    return access_function(ctx, wide_type(bytes), true, !ok.is_true(), part.caching) + from +
           (ok.is_true() ? "" : ", " + ok.text() + ", " + (otherwise.empty() ? zeros : otherwise)) + ")";
}

/// Into `wide`, an array of all registers as they lie in memory.
void load_vectors(Lowering& ctx, const Part& part, const std::string& wide, bool checked) {
    const std::string type = wide_type(static_cast<size_t>(part.vector) * ctx.fn.elem(part.tensor).container_bytes());
    by_vectors(ctx, part, [&](Ex r) {
        const std::string to = "*(" + type + "*)(" + wide + " + " + r + ")";
        const bool others = part.other && !part_condition(ctx, part, r, checked).is_true();
        if (others)
            each(ctx, part.vector, [&](Ex i) {
                ctx.out.line(wide + "[" + (r + i).text() + "] = " + other_text(ctx, part, r + i) + ";");
            });
        ctx.out.line(to + " = " + load_vector(ctx, part, r, checked, others ? to : "") + ";");
    });
}

/// The vector that starts at register r, from `wide`, or what of it lies inside.
void store_vector(Lowering& ctx, const Part& part, Ex r, const std::string& wide, bool checked) {
    const size_t element = ctx.fn.elem(part.tensor).container_bytes(),
                 bytes = static_cast<size_t>(part.vector) * element;
    const std::string type = wide_type(bytes), to = "(" + name(ctx, part.tensor) + " + (" +
                                                    part_offset(ctx, part, r).text() + "), *(const " + type + "*)" +
                                                    wide;
    if (checked && part.inside == Part::first)
        return ctx.out.line(first_function(ctx, bytes, element, false, part.caching) + to + ", " +
                            first_bytes(ctx, part, r).text() + ");");
    const Ex ok = both(owns(ctx, layout(ctx, part.value), r), part_condition(ctx, part, r, checked));
    ctx.out.line(access_function(ctx, type, false, !ok.is_true(), part.caching) + to +
                 (ok.is_true() ? "" : ", " + ok.text()) + ");");
}

/// An array of the elements that start at register r, as they lie in memory. A cast that is left to the store rounds
/// them in pairs.
std::string stored_vector(Lowering& ctx, const Part& part, Ex r) {
    const ir::ValueId v = part.value;
    const std::string wide = ctx.out.fresh("wide");
    if (!ctx.plan.has(KernelPass::round_in_store, v)) {
        ctx.out.line("alignas(16) " + type_of(ctx, v) + " " + wide + "[" + std::to_string(part.vector) + "];");
        each(ctx, part.vector, [&](Ex i) { ctx.out.line(wide + "[" + i + "] = " + at(ctx, v, r + i) + ";"); });
        return wide;
    }
    ctx.formats.need("pairs");
    const ir::Inst& cast = *ctx.fn.def(v);
    const ir::ValueId from = ctx.fn.operands(cast)[0];
    ctx.out.line("alignas(16) unsigned " + wide + "[" + std::to_string(part.vector / 2) + "];");
    each(ctx, part.vector / 2, [&](Ex i) {
        const Ex low = r + i * 2;
        ctx.out.line(wide + "[" + i + "] = " + pair_function(ctx, cast) + "(" + at(ctx, from, low) + ", " +
                     at(ctx, from, low + 1) + ");");
    });
    return wide;
}

void store_vectors(Lowering& ctx, const Part& part, bool checked) {
    by_vectors(ctx, part, [&](Ex r) { store_vector(ctx, part, r, stored_vector(ctx, part, r), checked); });
}

/// How many bytes of the vector that starts at register r lie inside: none, all of them (or more), or the first few.
Ex first_bytes(Lowering& ctx, const Part& part, Ex r) {
    const Part::Axis& axis = part.axes[static_cast<size_t>(part.vector_axis)];
    Ex ok = part_condition(ctx, part, r, true, part.vector_axis);
    if (ctx.fn.inst(part.inst).op == ir::Op::store) ok = both(owns(ctx, layout(ctx, part.value), r), ok);
    const Ex at = coordinate(ctx, layout(ctx, part.value), axis.dim, r) - axis.low;
    const auto bytes = static_cast<int64_t>(ctx.fn.elem(part.tensor).container_bytes());
    return ctx.pool.select(both(ok, lt(u32(at), u32(axis.count))), (axis.count - at) * bytes, ctx.pool.number(0));
}

/// What the tile's registers are is known once, behind both paths: compilers would take words apart where paths that
/// hold elements join. Where each vector may have its own condition, narrow elements only get a path without: a tile of
/// wide ones would take its registers at once.
bool has_one_path(const Lowering& ctx, const Part& part) {
    return is_vectors(part) &&
           (is_whole(part) || (part.inside == Part::whole_vectors && ctx.fn.elem(part.tensor).bits >= 32));
}

/// Vectors without conditions, whatever the launch. Known before the bounds of ranges are, which are conditions.
bool is_whole(const Part& part) {
    bool bounded = false;
    for (size_t a = 0; a < part.axes.size(); ++a)
        bounded = bounded || (part.access.axes[a].kind == ir::Access::range && part.axes[a].size);
    return part.vector > 1 && !part.shifted && part.whole.is_true() && !bounded;
}

/// Can all of it be done by vectors, those at the tensor's edge under a condition or in part?
bool is_vectors(const Part& part) {
    return is_whole(part) || (part.vector > 1 && !part.shifted && part.inside != Part::any);
}

bool stores_vectors(Lowering& ctx, ir::InstId id) {
    return ctx.fn.inst(id).op == ir::Op::store && !ctx.fn.gpu_inst(id).bulk &&
           is_plain(ctx.fn.access(ctx.fn.inst(id))) && is_vectors(part_access(ctx, id));
}

void load_wide(Lowering& ctx, const Part& part) {
    const ir::ValueId v = part.value;
    if (has_one_path(ctx, part)) return load_vectors(ctx, part, name(ctx, v), true);
    const std::string wide = ctx.out.fresh("wide");
    ctx.out.line("alignas(16) " + type_of(ctx, v) + " " + wide + "[" + std::to_string(registers(ctx, v)) + "];");
    if (part.shifted) {
        load_shifted(ctx, part, wide);
    } else {
        ctx.out.open("if (" + part.whole.text() + ")");
        load_vectors(ctx, part, wide, false);
        ctx.out.otherwise();
        part.inside == Part::any ? load_elements(ctx, part, wide, true) : load_vectors(ctx, part, wide, true);
        ctx.out.close();
    }
    each_register(ctx, v, [&](Ex r) { ctx.out.line(at(ctx, v, r) + " = " + wide + "[" + r.text() + "];"); });
}

void lower_load(Lowering& ctx, ir::InstId id) {
    declare_walk(ctx, id);
    if (load_words(ctx, id) || join_load(ctx, id)) return;
    const ir::ValueId v = ctx.fn.result(id);
    declare(ctx, v, true);
    ctx.out.open("");
    const Part part = part_of(ctx, id);
    part.vector == 1 ? load_elements(ctx, part, name(ctx, part.value), true) : load_wide(ctx, part);
    ctx.out.close();
}

void lower_store(Lowering& ctx, ir::InstId id) {
    if (ctx.fn.gpu_inst(id).bulk) return bulk_store(ctx, id);
    if (join_store(ctx, id)) return;
    ctx.out.open("");
    Part part = part_of(ctx, id);
    if (store_collides(ctx.fn, id)) part_last(ctx, part);
    if (part.vector == 1) {
        store_elements(ctx, part, true);
    } else if (part.shifted) {
        store_shifted(ctx, part);
    } else if (part.inside == Part::whole_vectors || is_whole(part)) {
        store_vectors(ctx, part, true);
    } else {
        ctx.out.open("if (" + part.whole.text() + ")");
        store_vectors(ctx, part, false);
        ctx.out.otherwise();
        part.inside == Part::first ? store_vectors(ctx, part, true) : store_elements(ctx, part, true);
        ctx.out.close();
    }
    ctx.out.close();
}

}  // namespace tegula::lower
