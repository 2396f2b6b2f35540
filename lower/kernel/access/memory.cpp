// load and store of parts of tensors (access/part.cpp). Where a thread's registers hold neighbours in aligned memory,
// wide accesses: under a condition each when vectors never straddle the tensor's edge, else in a tile that is wholly
// inside, with another path for tiles at the edge. Otherwise one element at a time, each with its own bounds. Only one
// of several threads with copies stores.
#include "lang/gpu/wide_access.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/access/part.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/formats/text.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/packed/packed.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using kernel::KernelOp;

std::string read(Lowering& ctx, const Format& f, const std::string& base, const std::string& offset,
                 const CachingText& caching) {
    if (!is_bit_addressed(f) && !caching.stem.empty())
        return access_function(ctx, ctx.formats.type(f), true, false, caching) + "(" + base + " + (" + offset + "))";
    if (!is_bit_addressed(f)) return base + "[" + offset + "]";
    return ctx.formats.load_bits(f, base, "(long long)(" + offset + ")");
}

void write_bits(Lowering& ctx, Ex condition, const Format& f, const std::string& base, const std::string& offset,
                const std::string& value) {
    ctx.formats.need("store_bits");  // in front of what the value needs
    ctx.out.when(condition);
    ctx.out.call(KernelOp::store_bits,
                 {ctx.pool.number(f.bits), raw(ctx, base), raw(ctx, "(long long)(" + offset + ")"),
                  raw(ctx, "(unsigned long long)" + text::atom(ctx.formats.to_bits(f, value)))});
}

namespace {

/// The address of a part's element, or of the vector that begins there.
Ex address(Lowering& ctx, const Part& part, Ex r) {
    const std::string base = name(ctx, part.tensor), offset = part_offset(ctx, part, r).text();
    return raw(ctx, base + " + (" + offset + ")");
}

}  // namespace

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
void load_element(Lowering& ctx, const Part& part, Ex r, Ex to, bool checked) {
    const ir::ValueId v = part.value;
    const Format& f = ctx.fn.elem(part.tensor);
    const Ex ok = part_condition(ctx, part, r, checked);
    const bool always = ok.is_true(), bits = is_bit_addressed(f);
    if (bits || (always && part.caching.stem.empty())) {
        const std::string base = name(ctx, part.tensor), offset = part_offset(ctx, part, r).text();
        const std::string value = read(ctx, f, base, offset);
        return ctx.out.assign(to, raw(ctx, always ? value : chosen(ok, value, other_text(ctx, part, r))));
    }
    const Ex from = address(ctx, part, r),
             function = named(ctx, access_function(ctx, type_of(ctx, v), true, !always, part.caching));
    std::vector<Ex> operands = {to, function, from};
    if (!always) operands.insert(operands.end(), {ok, raw(ctx, other_text(ctx, part, r))});
    ctx.out.call(KernelOp::load, std::move(operands));
}

/// Into the scalar or array `to`.
void load_elements(Lowering& ctx, const Part& part, Ex to, bool checked) {
    if (is_scalar(ctx, part.value)) return load_element(ctx, part, {}, to, checked);
    by_groups(ctx, part, checked, [&](Ex r, bool bounds) { load_element(ctx, part, r, element(to, r), bounds); });
}

void store_elements(Lowering& ctx, const Part& part, bool checked) {
    const ir::ValueId v = part.value;
    const Format& f = ctx.fn.elem(part.tensor);
    const std::string base = name(ctx, part.tensor);
    by_groups(ctx, part, checked, [&](Ex r, bool bounds) {
        const Ex condition = part_condition(ctx, part, r, bounds), ok = both(stores(ctx, v, r), condition);
        const std::string offset = part_offset(ctx, part, r).text();
        if (is_bit_addressed(f)) return write_bits(ctx, ok, f, base, offset, text_at(ctx, v, r));
        const Ex value = element_at(ctx, v, r);
        const bool inside = !ok.is_true() && !is_scalar(ctx, v);  // the function has the condition
        if (!inside && part.caching.stem.empty()) return assign_if(ctx, ok, raw(ctx, base + "[" + offset + "]"), value);
        std::vector<Ex> operands = {named(ctx, access_function(ctx, type_of(ctx, v), false, inside, part.caching)),
                                    raw(ctx, base + " + (" + offset + ")"), value};
        if (inside) operands.push_back(ok);
        if (!inside) ctx.out.when(ok);
        ctx.out.call(KernelOp::store, std::move(operands));
    });
}

/// The body gets the first register of each vector.
void by_vectors(Lowering& ctx, const Part& part, const std::function<void(Ex r)>& body) {
    const int count = registers(ctx, part.value) / part.vectors.length;
    each(ctx, count, [&](Ex group) { body(group * part.vectors.length); });
}

/// Fills `to` with the vector that starts at register r; where it is not in the tensor with `otherwise`, or zeros if
/// that is empty. Of one that straddles the tensor's edge what lies inside.
void load_vector(Lowering& ctx, const Part& part, Ex r, Ex to, bool checked, Ex otherwise) {
    const size_t element = ctx.fn.elem(part.tensor).container_bytes(),
                 bytes = static_cast<size_t>(part.vectors.length) * element;
    const Ex from = address(ctx, part, r);
    if (checked && part.vectors.inside == Vectors::first)
        return ctx.out.call(KernelOp::load, {to, named(ctx, first_function(ctx, bytes, element, true, part.caching)),
                                             from, first_bytes(ctx, part, r)});
    const Ex ok = part_condition(ctx, part, r, checked);
    const bool always = ok.is_true();
    const std::string zeros = bytes == 16 ? "uint4{0, 0, 0, 0}" : bytes == 8 ? "uint2{0, 0}" : "0";
    std::vector<Ex> operands = {to, named(ctx, access_function(ctx, wide_type(bytes), true, !always, part.caching)),
                                from};
    if (!always) operands.insert(operands.end(), {ok, otherwise ? otherwise : raw(ctx, zeros)});
    ctx.out.call(KernelOp::load, std::move(operands));
}

/// Into `wide`, an array of all registers as they lie in memory.
void load_vectors(Lowering& ctx, const Part& part, Ex wide, bool checked) {
    const std::string type =
        wide_type(static_cast<size_t>(part.vectors.length) * ctx.fn.elem(part.tensor).container_bytes());
    by_vectors(ctx, part, [&](Ex r) {
        const Ex to = pointee(type, raw(ctx, wide.text() + " + " + r));
        const bool others = part.other && !part_condition(ctx, part, r, checked).is_true();
        if (others)
            each(ctx, part.vectors.length,
                 [&](Ex i) { ctx.out.assign(element(wide, r + i), raw(ctx, other_text(ctx, part, r + i))); });
        load_vector(ctx, part, r, to, checked, others ? to : Ex());
    });
}

/// The vector that starts at register r, from `wide`, or what of it lies inside.
void store_vector(Lowering& ctx, const Part& part, Ex r, Ex wide, bool checked) {
    const size_t element = ctx.fn.elem(part.tensor).container_bytes(),
                 bytes = static_cast<size_t>(part.vectors.length) * element;
    const std::string type = wide_type(bytes);
    const Ex to = address(ctx, part, r), value = pointee("const " + type, wide);
    if (checked && part.vectors.inside == Vectors::first)
        return ctx.out.call(KernelOp::store, {named(ctx, first_function(ctx, bytes, element, false, part.caching)), to,
                                              value, first_bytes(ctx, part, r)});
    const Ex condition = part_condition(ctx, part, r, checked);
    const Ex ok = both(owns(ctx, layout(ctx, part.value), r), condition);
    const bool always = ok.is_true();
    std::vector<Ex> operands = {named(ctx, access_function(ctx, type, false, !always, part.caching)), to, value};
    if (!always) operands.push_back(ok);
    ctx.out.call(KernelOp::store, std::move(operands));
}

/// An array of the elements that start at register r, as they lie in memory. A cast that is left to the store rounds
/// them in pairs.
Ex stored_vector(Lowering& ctx, const Part& part, Ex r) {
    const ir::ValueId v = part.value;
    if (!ctx.plan.has(KernelPass::round_in_store, v)) {
        const Ex wide = array(ctx, "alignas(16) " + type_of(ctx, v), "wide", part.vectors.length);
        each(ctx, part.vectors.length, [&](Ex i) { ctx.out.assign(element(wide, i), element_at(ctx, v, r + i)); });
        return wide;
    }
    ctx.formats.need("pairs");
    const ir::Inst& cast = *ctx.fn.def(v);
    const ir::ValueId from = ctx.fn.operands(cast)[0];
    const Ex wide = array(ctx, "alignas(16) unsigned", "wide", part.vectors.length / 2);
    each(ctx, part.vectors.length / 2, [&](Ex i) {
        const Ex low = r + i * 2;
        ctx.out.assign(element(wide, i), raw(ctx, pair_function(ctx, cast) + "(" + text_at(ctx, from, low) + ", " +
                                                      text_at(ctx, from, low + 1) + ")"));
    });
    return wide;
}

void store_vectors(Lowering& ctx, const Part& part, bool checked) {
    by_vectors(ctx, part, [&](Ex r) { store_vector(ctx, part, r, stored_vector(ctx, part, r), checked); });
}

/// How many bytes of the vector that starts at register r lie inside: none, all of them (or more), or the first few.
Ex first_bytes(Lowering& ctx, const Part& part, Ex r) {
    const Part::Axis& axis = part.axes[static_cast<size_t>(part.vectors.axis)];
    Ex ok = part_condition(ctx, part, r, true, part.vectors.axis);
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
           (is_whole(part) || (part.vectors.inside == Vectors::whole && ctx.fn.elem(part.tensor).bits >= 32));
}

/// Vectors without conditions, whatever the launch. Known before the bounds of ranges are, which are conditions.
bool is_whole(const Part& part) {
    bool bounded = false;
    for (size_t a = 0; a < part.axes.size(); ++a)
        bounded = bounded || (part.access.axes[a].kind == ir::Access::range && part.axes[a].size);
    return part.vectors.length > 1 && !part.vectors.shifted && part.whole.is_true() && !bounded;
}

/// Can all of it be done by vectors, those at the tensor's edge under a condition or in part?
bool is_vectors(const Part& part) {
    return is_whole(part) || (part.vectors.length > 1 && !part.vectors.shifted && part.vectors.inside != Vectors::any);
}

bool stores_vectors(Lowering& ctx, ir::InstId id) {
    return ctx.fn.inst(id).op == ir::Op::store && !ctx.fn.gpu_inst(id).bulk &&
           is_plain(ctx.fn.access(ctx.fn.inst(id))) && is_vectors(part_access(ctx, id));
}

void load_wide(Lowering& ctx, const Part& part) {
    const ir::ValueId v = part.value;
    if (has_one_path(ctx, part)) return load_vectors(ctx, part, named(ctx, name(ctx, v)), true);
    const Ex wide = array(ctx, "alignas(16) " + type_of(ctx, v), "wide", registers(ctx, v));
    if (part.vectors.shifted) {
        load_shifted(ctx, part, wide);
    } else {
        ctx.out.open_if(part.whole);
        load_vectors(ctx, part, wide, false);
        ctx.out.otherwise();
        part.vectors.inside == Vectors::any ? load_elements(ctx, part, wide, true)
                                            : load_vectors(ctx, part, wide, true);
        ctx.out.close();
    }
    each_register(ctx, v, [&](Ex r) { ctx.out.assign(element_at(ctx, v, r), element(wide, r)); });
}

void lower_load(Lowering& ctx, ir::InstId id) {
    declare_walk(ctx, id);
    if (load_words(ctx, id) || join_load(ctx, id)) return;
    declare(ctx, ctx.fn.result(id), Declared::aligned);
    ctx.out.open_block();
    const Part part = part_of(ctx, id);
    if (part.vectors.length == 1)
        load_elements(ctx, part, named(ctx, name(ctx, part.value)), true);
    else
        load_wide(ctx, part);
    ctx.out.close();
}

void lower_store(Lowering& ctx, ir::InstId id) {
    if (ctx.fn.gpu_inst(id).bulk) return bulk_store(ctx, id);
    if (join_store(ctx, id)) return;
    ctx.out.open_block();
    Part part = part_of(ctx, id);
    if (store_collides(ctx.fn, id)) part_last(ctx, part);
    if (part.vectors.length == 1) {
        store_elements(ctx, part, true);
    } else if (part.vectors.shifted) {
        store_shifted(ctx, part);
    } else if (part.vectors.inside == Vectors::whole || is_whole(part)) {
        store_vectors(ctx, part, true);
    } else {
        ctx.out.open_if(part.whole);
        store_vectors(ctx, part, false);
        ctx.out.otherwise();
        part.vectors.inside == Vectors::first ? store_vectors(ctx, part, true) : store_elements(ctx, part, true);
        ctx.out.close();
    }
    ctx.out.close();
}

}  // namespace tegula::lower
