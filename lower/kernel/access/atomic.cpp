// Atomics: read-modify-write of single elements exactly once, old values handed to every thread that holds a copy of
// the result. Integers of 32 and 64 bits use the machine's operations; everything else, floats included (whose hardware
// sums flush subnormals), compares and swaps the word around the element. Elements that may lie across two words take
// one lock of the module.
#include <algorithm>

#include "lang/gpu/wide_access.h"
#include "lang/joining.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/access/part.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/formats/text.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::AtomicKind;
using kernel::KernelOp;

namespace {

/// The machine's function for integers of 32 and 64 bits.
const char* native_name(AtomicKind kind) {
    static constexpr const char* kNames[] = {"atomicAdd", "atomicMax", "atomicMin",  "atomicAnd",
                                             "atomicOr",  "atomicXor", "atomicExch", "atomicCAS"};
    return kNames[static_cast<size_t>(kind)];
}

struct Word {
    std::string type, word;  ///< of an element, and of what is swapped
    std::string native;      ///< "float" or "double" where the element is one
    /// Bits of an element expression as a word, and back (of bits already in the low end).
    std::string bits(const std::string& v) const {
        return native.empty() ? "(" + word + ")" + v : native + "_bits(" + v + ")";
    }
    std::string value(const std::string& b) const {
        return native.empty() ? "(" + type + ")" + b : "as_" + native + "(" + b + ")";
    }
};

/// The loop of a swap, of `next` from the old element `a`, until nobody has changed the word in between. Whole warps go
/// round until their last thread is done: from a loop that threads leave one by one, ptxas lets a warp go on in parts
/// (docs/internals/gpu.md). What is done stays as it was.
std::string swap_loop(const std::string& seen_type, const std::string& a, const std::string& desired,
                      const std::string& suffix, bool expected) {
    std::string out = "#pragma unroll 1\n    while (__any_sync(0xffffffffu, on)) {\n        const " + seen_type +
                      " old = seen;\n        a = " + a + ";\n";
    if (expected) out += "        on = on & (a == expected);\n";
    out += "        if (on) seen = atomicCAS" + suffix + "(word, old, " + desired +
           ");\n        on = on & (seen != old);\n";
    return out + "    }\n";
}

std::string swap_word(const Word& w, const std::string& next, const std::string& suffix) {
    return "    " + w.word + "* const word = (" + w.word + "*)at;\n    " + w.word + " seen = on ? *(volatile " +
           w.word + "*)word : 0;\n" + swap_loop(w.word, w.value("old"), w.bits("(" + next + ")"), suffix, false);
}

/// The loop of compare and swap for an element inside a 32-bit word.
std::string swap_inside(const Format& f, const Word& w, bool cas, const std::string& next, const std::string& suffix) {
    const std::string mask = std::to_string((1u << f.bits) - 1) + "u", spare = std::to_string(32 - f.bits);
    const std::string a = "(" + w.type + ")" +
                          (text::extends_sign(f) ? "((int)(old >> shift << " + spare + ") >> " + spare + ")"
                                                 : "(old >> shift & " + mask + ")");
    std::string out =
        is_bit_addressed(f)
            ? "    unsigned* const word = (unsigned*)(at >> 5 << 2);\n    const int shift = (int)(at & 31);\n"
            : "    unsigned* const word = (unsigned*)(at & ~3ull);\n    const int shift = (int)(at & 3) * 8;\n";
    out += "    unsigned seen = on ? *(volatile unsigned*)word : 0;\n";
    return out + swap_loop("unsigned", a,
                           "(old & ~(" + mask + " << shift)) | ((unsigned)(" + next + ") & " + mask + ") << shift",
                           suffix, cas);
}

}  // namespace

std::string atomic_function(Lowering& ctx, const Format& f, AtomicKind kind, ir::MemoryScope scope) {
    const std::string suffix = scope == ir::MemoryScope::sys ? "_system" : "";
    const bool cas = kind == AtomicKind::cas, whole = f.bits == 32 || f.bits == 64;
    const bool native = text::is_native_float(f);
    const Word w{ctx.formats.type(f), f.bits == 64 ? "unsigned long long" : "unsigned",
                 native ? ctx.formats.type(f) : ""};
    std::string next = "value";
    if (kind < AtomicKind::xchg) {
        const Known operands[] = {"a", "value"};
        next = ctx.formats.elementwise(ir::joining_op(kind), f, operands);
    }
    if (native) ctx.formats.need("bits");
    std::string body;
    if (whole && cas) {
        body = "    if (on) a = " +
               w.value("atomicCAS" + suffix + "((" + w.word + "*)at, " + w.bits("expected") + ", " + w.bits("value") +
                       ")") +
               ";\n";
    } else if (whole && (f.is_int() || kind == AtomicKind::xchg)) {
        const bool ordered = kind == AtomicKind::max || kind == AtomicKind::min;
        const std::string as = ordered ? w.type : w.word, value = ordered ? "value" : w.bits("value");
        body = "    if (on) a = " + w.value(native_name(kind) + suffix + "((" + as + "*)at, " + value + ")") + ";\n";
    } else if (whole) {
        body = swap_word(w, next, suffix);
    } else if (32 % f.bits == 0) {
        body = swap_inside(f, w, cas, next, suffix);
    } else {
        const std::string lock = support(ctx, "lock", "lock", "__device__ unsigned $;\n");
        const std::string base = "(unsigned char*)(at >> 3)", bit = "(long long)(at & 7)";
        std::string store = ctx.formats.store_bits(f, base, bit, "(" + next + ")");
        if (store.back() != ';') store += ';';
        body = "#pragma unroll 1\n    while (__any_sync(0xffffffffu, on)) {\n        if (on && atomicCAS(&" + lock +
               ", 0u, 1u) == 0) {\n";
        body +=
            "            __threadfence();\n            a = " + ctx.formats.load_bits(f, base, bit) + ";\n            ";
        body += (cas ? "if (a == expected) " : "") + store +
                "\n            __threadfence();\n            atomicExch(&" + lock + ", 0u);\n";
        body += "            on = false;\n        }\n    }\n";
    }
    const std::string head = "__device__ " + w.type + " $(bool on, unsigned long long at, " + w.type + " value" +
                             (cas ? ", " + w.type + " expected" : "") + ") {\n    " + w.type +
                             " a = " + ctx.formats.literal(f, 0) + ";\n";
    body += "    return a;\n";
    return support(ctx, "atomic " + f.name + " " + ir::to_string(kind) + suffix,
                   std::string("atomic_") + ir::to_string(kind), head + body + "}\n");
}

void atomic_fences(Lowering& ctx, ir::InstId id, bool before) {
    const auto attrs = ctx.fn.attrs(ctx.fn.inst(id));
    const auto order = static_cast<ir::MemoryOrder>(attrs[2]);
    if (order == ir::MemoryOrder::relaxed || order == (before ? ir::MemoryOrder::acquire : ir::MemoryOrder::release))
        return;
    switch (static_cast<ir::MemoryScope>(attrs[3])) {
        case ir::MemoryScope::cta:
            return ctx.out.call(KernelOp::fence_cta);
        case ir::MemoryScope::sys:
            return ctx.out.call(KernelOp::fence_system);
        default:
            return ctx.out.call(KernelOp::fence_gpu);
    }
}

void atomic_elements(Lowering& ctx, ir::InstId id, const std::string& function, const std::function<Ex(Ex)>& condition,
                     const std::function<std::vector<std::string>(Ex)>& operands) {
    const ir::ValueId result = ctx.fn.result(id);
    atomic_fences(ctx, id, true);
    each_register(ctx, result, [&](Ex r) {
        Ex on = condition(r);
        on = both(stores(ctx, result, r), on);
        if (!on.is_true()) on = ctx.out.constant("on", on);
        std::vector<Ex> all;
        if (uses(ctx, result) > 0) all.push_back(element_at(ctx, result, r));
        all.insert(all.end(), {named(ctx, function), on});
        for (const std::string& operand : operands(r)) all.push_back(raw(ctx, chosen(on, operand, "0")));
        ctx.out.call(uses(ctx, result) > 0 ? KernelOp::atomic_get : KernelOp::atomic, std::move(all));
    });
    atomic_fences(ctx, id, false);
    const ScratchPlan plan = scratch_plan(ctx.fn, id);
    if (plan.work.empty()) return;
    const std::string old = scratch_area(ctx, id, type_of(ctx, result), plan.work[0]);
    if (is_scalar(ctx, result)) {
        const Ex shared = element(ctx, old, ctx.pool.number(0)), own = named(ctx, name(ctx, result));
        assign_if(ctx, eq(ctx.thread, 0), shared, own);
        sync(ctx);
        return ctx.out.assign(own, shared);
    }
    stage(ctx, result, old);
    sync(ctx);
    fill(ctx, result, [&](Ex r) { return old + "[" + logical_number(ctx, layout(ctx, result), r).text() + "]"; });
}

void lower_atomic(Lowering& ctx, ir::InstId id) {
    if (ctx.fn.gpu_inst(id).bulk) return bulk_store(ctx, id);
    const auto attrs = ctx.fn.attrs(ctx.fn.inst(id));
    const ir::ValueId result = ctx.fn.result(id), value = ctx.fn.operands(ctx.fn.inst(id))[0];
    const Format& f = ctx.fn.elem(value);
    const std::string function =
        atomic_function(ctx, f, static_cast<AtomicKind>(attrs[1]), static_cast<ir::MemoryScope>(attrs[3]));
    if (uses(ctx, result) > 0) declare(ctx, result);
    ctx.out.open_block();
    const Part part = part_of(ctx, id);
    const ir::AccessOperands in(ctx.fn, ctx.fn.inst(id));
    const std::string base = name(ctx, part.tensor);
    const auto operand = [&](const ir::AccessOperands::Operand& o, Ex r) {
        return staged(ctx, o.value, part.pointers[o.at], result, r, number_at(ctx, result, r)).text();
    };
    atomic_elements(
        ctx, id, function, [&](Ex r) { return part_condition(ctx, part, r, true); },
        [&](Ex r) {
            const std::string offset = "(" + part_offset(ctx, part, r).text() + ")";
            std::vector<std::string> operands = {is_bit_addressed(f)
                                                     ? "((unsigned long long)" + base + " << 3) + " + offset
                                                     : "(unsigned long long)(" + base + " + " + offset + ")",
                                                 operand(in.value, r)};
            if (in.expected) operands.push_back(operand(in.expected, r));
            return operands;
        });
    ctx.out.close();
}

}  // namespace tegula::lower
