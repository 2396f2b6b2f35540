// Own rings (lang/gpu_form.h): each thread starts cp.async copies of the vectors that it will itself read, and waits
// for nobody but them. A stage is an array of 16-byte slots, slot v of all threads side by side, so that neither copies
// nor reads meet in a bank; registers lie in their slots in order.
#include <algorithm>

#include "lower/kernel/access/access.h"
#include "lower/kernel/access/part.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Op;
using kernel::KernelOp;

namespace {

constexpr int kSlotBytes = 16;

}  // namespace

/// The address (unsigned char*) of register `r`, which is the first of a vector, in the stage at `stage`.
Ex own_slot(Lowering& ctx, ir::ValueId tile, Ex stage, Ex r) {
    const int bytes = static_cast<int>(ctx.fn.elem(tile).container_bytes()), in_slot = kSlotBytes / bytes;
    const Ex place = (r / in_slot * group_threads(ctx) + ctx.thread) * kSlotBytes + r % in_slot * bytes;
    return stage + place;
}

ir::ValueId taken_from(const Lowering& ctx, ir::ValueId channel) {
    for (uint32_t i = 0; i < ctx.fn.inst_count(); ++i)
        if (const ir::Inst& inst = ctx.fn.inst(ir::InstId{i});
            inst.parent.valid() && inst.op == Op::channel_get && ctx.fn.operands(inst)[0] == channel)
            return ctx.fn.result(inst);
    TEGULA_CHECK(false, "nobody takes from the channel");
    return {};
}

void own_put(Lowering& ctx, ir::InstId id, const Ring& r, Ex to) {
    Part part = part_of(ctx, id);
    const GpuChannel& form = *r.form;
    const std::string fill = ctx.formats.literal(ctx.fn.elem(part.value), form.fill);
    const auto elements = [&] {
        each_register(ctx, part.value, [&](Ex at) {
            const std::string offset = part_offset(ctx, part, at).text();
            const std::string from = read(ctx, ctx.fn.elem(part.tensor), name(ctx, part.tensor), offset, part.caching);
            store_to_shared(ctx, part.value, own_slot(ctx, part.value, to, at),
                            chosen(part_condition(ctx, part, at, true), from, fill));
        });
    };
    if (part.vectors.length * static_cast<int>(ctx.fn.elem(part.tensor).container_bytes()) < 4) return elements();
    const std::string other = form.fill ? fill : "";
    if (part.whole.is_true()) return own_vectors(ctx, part, true, to, other);
    ctx.out.open_if(part.whole);  // the usual case, for all threads alike: addresses are one and constants
    own_vectors(ctx, part, false, to, other);
    ctx.out.otherwise();
    part.vectors.inside == Vectors::whole ? own_vectors(ctx, part, true, to, other) : elements();
    ctx.out.close();
}

/// `fill`: text of what elements out of range are, "" for zero.
void own_vectors(Lowering& ctx, const Part& part, bool checked, Ex to, const std::string& fill) {
    ctx.formats.need("shared");
    const int size = static_cast<int>(ctx.fn.elem(part.tensor).container_bytes()), bytes = part.vectors.length * size;
    const Ex base = ctx.pool.name(kernel::Type::other, name(ctx, part.tensor)), all = ctx.pool.number(bytes),
             zero = ctx.pool.number(0);
    by_vectors(ctx, part, [&](Ex r) {
        const Ex ok = part_condition(ctx, part, r, checked);
        const Ex slot = own_slot(ctx, part.value, to, r), offset = part_offset(ctx, part, r);
        const auto copy = [&](Ex from, Ex count) {
            start_copy(ctx, part.inst, bytes, address_of(slot), base + from, count);
        };
        if (ok.is_true()) return copy(offset, all);
        const Ex inside = ctx.pool.name(kernel::Type::pred, ctx.out.fresh("inside"));
        ctx.out.let("bool", inside.text(), ok);
        if (fill.empty()) return copy(ctx.pool.select(inside, offset, zero), ctx.pool.select(inside, all, zero));
        ctx.out.open_if(inside);
        copy(offset, all);
        ctx.out.otherwise();
        each(ctx, part.vectors.length, [&](Ex i) { store_to_shared(ctx, part.value, slot + i * size, fill); });
        ctx.out.close();
    });
}

void own_get(Lowering& ctx, ir::InstId id, Ring& r) {
    using kernel::Type;
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId v = ctx.fn.result(inst);
    const int per = kSlotBytes / static_cast<int>(ctx.fn.elem(v).container_bytes()), count = registers(ctx, v) / per;
    declare(ctx, v);
    ctx.out.open_block();
    const Ex from = ctx.pool.name(Type::other, ctx.out.fresh("from")), tile = ctx.pool.name(Type::other, name(ctx, v));
    ctx.out.let_pointer("const unsigned char", from.text(), stage_address(r, r.get));
    each(ctx, count, [&](Ex slot) {
        const Ex first = slot * per;
        const std::string wide = ctx.out.fresh("wide");
        ctx.out.declare("alignas(16) " + type_of(ctx, v), wide, per);
        ctx.out.call(KernelOp::load_shared, {pointee("uint4", named(ctx, wide)),
                                             ctx.pool.text(Type::other, "uint4", true), own_slot(ctx, v, from, first)});
        each(ctx, per, [&](Ex i) {
            ctx.out.assign(ctx.pool.index(Type::other, tile, first + i),
                           ctx.pool.index(Type::other, ctx.pool.name(Type::other, wide), i));
        });
    });
    ctx.out.close();
}

}  // namespace tegula::lower
