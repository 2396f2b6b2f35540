// Pointers: 64-bit addresses of bytes, or of bits where elements are no whole bytes (bit_addressed). Every lane is its
// own access.
#include "lang/gpu/wide_access.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using kernel::KernelOp;

void lower_tensor_ptr(Lowering& ctx, ir::InstId id) {
    const ir::ValueId tensor = ctx.fn.operands(ctx.fn.inst(id))[0];
    const std::string bits = is_bit_addressed(ctx.fn.elem(tensor)) ? " << 3" : "", base = name(ctx, tensor);
    assign(ctx, ctx.fn.result(id), [&](Ex) { return "(unsigned long long)" + base + bits; });
}

void lower_ptr_add(Lowering& ctx, ir::InstId id) {
    const auto in = ctx.fn.operands(ctx.fn.inst(id));
    const Format& f = ctx.fn.elem(in[0]);
    const int scale = is_bit_addressed(f) ? f.bits : f.bits / 8;
    assign(ctx, ctx.fn.result(id), [&](Ex r) {
        const Ex elements = element_at(ctx, in[1], r);
        return (element_at(ctx, in[0], r) + u64(elements) * scale).text();
    });
}

void lower_ptr_at(Lowering& ctx, ir::InstId id) {
    const ir::ValueId from = ctx.fn.operands(ctx.fn.inst(id))[0];
    const std::string bits = is_bit_addressed(ctx.fn.elem(ctx.fn.result(id))) ? " << 3" : "";
    assign(ctx, ctx.fn.result(id), [&](Ex r) { return text_at(ctx, from, r) + bits; });
}

void lower_ptr_address(Lowering& ctx, ir::InstId id) {
    const ir::ValueId from = ctx.fn.operands(ctx.fn.inst(id))[0];
    const std::string bits = is_bit_addressed(ctx.fn.elem(from)) ? " >> 3" : "";
    assign(ctx, ctx.fn.result(id), [&](Ex r) { return text_at(ctx, from, r) + bits; });
}

/// An element of no whole bytes behind a pointer expression.
std::string pointee(Lowering& ctx, const Format& f, const std::string& pointer) {
    return ctx.formats.load_bits(f, "((const unsigned char*)(" + pointer + " >> 3))",
                                 "(long long)(" + pointer + " & 7)");
}

std::vector<std::string> stage_lanes(Lowering& ctx, ir::InstId id) {
    const std::vector<std::string> pointers = stage_operands(ctx, id);
    for (const std::string& p : pointers)
        if (!p.empty()) {
            sync(ctx);
            break;
        }
    return pointers;
}

void lower_ptr_load(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::AccessOperands in(ctx.fn, inst);
    const ir::ValueId v = ctx.fn.result(inst);
    const Format& f = ctx.fn.elem(v);
    declare(ctx, v);
    ctx.out.open_block();
    const std::vector<std::string> pointers = stage_lanes(ctx, id);
    each_register(ctx, v, [&](Ex r) {
        Ex ok = is_real(ctx, v, r);
        std::string rest = in.other
                               ? staged(ctx, in.other.value, pointers[in.other.at], v, r, number_at(ctx, v, r)).text()
                               : zero(ctx, v);
        if (!ok.is_true() && in.other && !pointers[in.other.at].empty())
            rest = "(" + chosen(ok, rest, zero(ctx, v)) + ")";
        if (in.mask) ok = both(ok, staged(ctx, in.mask.value, pointers[in.mask.at], v, r, number_at(ctx, v, r)));
        const Ex to = element_at(ctx, v, r);
        const std::string pointer = text_at(ctx, in.object, r);
        if (is_bit_addressed(f)) return ctx.out.assign(to, raw(ctx, chosen(ok, pointee(ctx, f, pointer), rest)));
        const bool always = ok.is_true();  // in global memory, which compilers do not see of numbers
        std::vector<Ex> operands = {
            to, named(ctx, access_function(ctx, type_of(ctx, v), true, !always, plain_caching(ctx, id))),
            raw(ctx, "(const void*)(" + pointer + ")")};
        if (!always) operands.insert(operands.end(), {ok, raw(ctx, rest)});
        ctx.out.call(KernelOp::load, std::move(operands));
    });
    ctx.out.close();
}

void lower_ptr_store(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::AccessOperands in(ctx.fn, inst);
    const Format& f = ctx.fn.elem(in.object);
    ctx.out.open_block();
    const std::vector<std::string> pointers = stage_lanes(ctx, id);
    const auto operand = [&](const ir::AccessOperands::Operand& o, Ex r) {
        return staged(ctx, o.value, pointers[o.at], in.object, r, number_at(ctx, in.object, r));
    };
    each_register(ctx, in.object, [&](Ex r) {
        Ex ok = stores(ctx, in.object, r);
        if (in.mask) ok = both(ok, operand(in.mask, r));
        const std::string pointer = text_at(ctx, in.object, r), value = operand(in.value, r).text();
        if (is_bit_addressed(f))
            return write_bits(ctx, ok, f, "((unsigned char*)(" + pointer + " >> 3))", pointer + " & 7", value);
        const bool always = ok.is_true();
        std::vector<Ex> operands = {
            named(ctx, access_function(ctx, type_of(ctx, in.value.value), false, !always, plain_caching(ctx, id))),
            raw(ctx, "(void*)(" + pointer + ")"), raw(ctx, value)};
        if (!always) operands.push_back(ok);
        ctx.out.call(KernelOp::store, std::move(operands));
    });
    ctx.out.close();
}

void lower_ptr_atomic(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::AccessOperands in(ctx.fn, inst);
    const auto attrs = ctx.fn.attrs(inst);
    const ir::ValueId v = ctx.fn.result(inst);
    const auto kind = static_cast<ir::AtomicKind>(attrs[1]);
    const std::string function =
        atomic_function(ctx, ctx.fn.elem(in.object), kind, static_cast<ir::MemoryScope>(attrs[3]));
    if (uses(ctx, v) > 0) declare(ctx, v);
    ctx.out.open_block();
    const std::vector<std::string> pointers = stage_lanes(ctx, id);
    const auto operand = [&](const ir::AccessOperands::Operand& o, Ex r) {
        return staged(ctx, o.value, pointers[o.at], in.object, r, number_at(ctx, in.object, r));
    };
    atomic_elements(
        ctx, id, function, [&](Ex r) { return in.mask ? operand(in.mask, r) : ctx.pool.truth(true); },
        [&](Ex r) {
            std::vector<std::string> operands = {text_at(ctx, in.object, r), operand(in.value, r).text()};
            if (in.expected) operands.push_back(operand(in.expected, r).text());
            return operands;
        });
    ctx.out.close();
}

}  // namespace tegula::lower
