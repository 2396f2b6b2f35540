// print and assert: records in the report buffer (report.h). One thread takes the place, so that records of one program
// stay in order. All threads meet whether somebody listens or not: later accesses to scratch rely on it. And
// grid_barrier, which has a record where it is missed.
#include <algorithm>

#include "lang/print_text.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/formats/text.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using kernel::KernelOp;

namespace {

constexpr const char* kTakeRecord =
    R"(// A place for a record of that many words, filled in up to the program's number; null: no room, or no listener.
__device__ unsigned long long* $(unsigned long long* report, int instruction, int words, unsigned long long program) {
    if (!report) return nullptr;
    const unsigned long long at = atomicAdd(report, (unsigned long long)words);
    if (at + words > report[1]) return nullptr;
    report[at] = (unsigned long long)instruction | (unsigned long long)words << 32;
    report[at + 1] = program;
    return report + at + 2;
}
)";

constexpr const char* kArrive = R"(    volatile unsigned* const now = words;
    __threadfence();
    const unsigned before = atomicAdd(words, blockIdx.x == 0 ? 0x80000001u - gridDim.x : 1u);
)";
constexpr const char* kAllCome = R"(    while (((before ^ now[0]) & 0x80000000u) == 0) __nanosleep(20);
    __threadfence();
}
)";
/// Whoever has ended has seen the bit turn at all meetings it came to: when it is seen to have ended before the bit is
/// looked at, it does not come. The result is its number and 1 more.
constexpr const char* kSomeEnd =
    R"(    for (unsigned ended = 0; ((before ^ now[0]) & 0x80000000u) == 0; __nanosleep(20)) {
        if (ended) return ended;
        ended = now[2];
        __threadfence();
    }
    __threadfence();
    return 0;
}
)";
/// The last one leaves the words as the next launch wants them.
constexpr const char* kEndMeetings = R"(__device__ void $(unsigned* words, unsigned program) {
    __threadfence();
    *(volatile unsigned*)(words + 2) = program + 1;
    __threadfence();
    if (atomicAdd(words + 1, 1u) + 1 != gridDim.x) return;
    __threadfence();
    words[0] = words[1] = words[2] = 0;
}
)";

/// Is the instruction in a function that combines? Each thread runs that on elements of its own.
bool combines(const ir::Function& fn, const ir::Inst& inst) {
    for (ir::InstId owner = fn.block(inst.parent).owner; owner.valid(); owner = fn.block(fn.inst(owner).parent).owner)
        if (const ir::Op op = fn.inst(owner).op; op == ir::Op::reduce_region || op == ir::Op::scan_region) return true;
    return false;
}

}  // namespace

std::string report(Lowering& ctx) { return parameter(ctx, KernelParam::report, 0, 0, "unsigned long long*", "report"); }

/// Code of an element, extended to 64 bits.
std::string code_text(Lowering& ctx, ir::ValueId v, const std::string& element) {
    const Format& f = ctx.fn.elem(v);
    if (!ctx.fn.type(v).pointer && text::is_native_float(f)) return ctx.formats.to_bits(f, element);
    const bool sign = !ctx.fn.type(v).pointer && text::extends_sign(f);
    return sign ? "(unsigned long long)(long long)" + element : "(unsigned long long)" + element;
}

namespace {

/// A place for a record of so many words (kTakeRecord).
Ex take_record(Lowering& ctx, ir::InstId id, int64_t words) {
    const std::string take = support(ctx, "take_record", "take_record", kTakeRecord);
    return ctx.pool.call(kernel::Type::other, take,
                         {ctx.pool.name(kernel::Type::other, report(ctx)), ctx.pool.number(id.v),
                          ctx.pool.number(words), ctx.pool.name(kernel::Type::u64, "program")});
}

Ex null(Lowering& ctx) { return ctx.pool.text(kernel::Type::other, "nullptr", true); }

/// A variable that points at a record.
Ex declare_record(Lowering& ctx, const std::string& name, Ex value) {
    ctx.out.var("unsigned long long*", name, value);
    return ctx.pool.name(kernel::Type::other, name);
}

/// Element `at` of an array, as a place.
Ex word(Lowering& ctx, Ex array, Ex at) { return ctx.pool.index(kernel::Type::other, array, at); }
Ex word(Lowering& ctx, Ex array, int64_t at) { return word(ctx, array, ctx.pool.number(at)); }

Ex area(Lowering& ctx, ir::InstId id, const std::string& type, int64_t offset) {
    return ctx.pool.text(kernel::Type::other, scratch_area(ctx, id, type, offset), true);
}

}  // namespace

void lower_print(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const auto in = ctx.fn.operands(inst);
    int64_t words = 2;
    for (ir::ValueId v : in) words += std::min(ctx.fn.type(v).shape.elements(), kPrintElements);
    const Ex first = eq(ctx.thread, 0);
    const std::string name = ctx.out.fresh("record");
    const Ex taken = take_record(ctx, id, words);
    const ScratchPlan plan = scratch_plan(ctx.fn, id);
    ctx.out.open_block();
    Ex to;
    if (plan.work.empty()) {
        to = declare_record(ctx, name, ctx.pool.select(first, taken, null(ctx)));
    } else {
        const Ex shared = word(ctx, area(ctx, id, "unsigned long long", plan.work[0]), 0);
        ctx.out.when(first);
        ctx.out.assign(shared, u64(taken));
        sync(ctx);
        to = declare_record(ctx, name,
                            ctx.pool.text(kernel::Type::other, "(unsigned long long*)" + shared.text(), false));
    }
    ctx.out.open_if(to);
    int64_t at_word = 0;
    for (ir::ValueId v : in) {
        const int64_t n = std::min(ctx.fn.type(v).shape.elements(), kPrintElements), start = at_word;
        const auto code = [&](Ex r) {
            return ctx.pool.text(kernel::Type::other, code_text(ctx, v, text_at(ctx, v, r)), false);
        };
        at_word += n;
        if (is_scalar(ctx, v)) {
            const Ex value = code({});
            ctx.out.when(first);
            ctx.out.assign(word(ctx, to, start), value);
            continue;
        }
        each_register(ctx, v, [&](Ex r) {
            const Ex number = logical_number(ctx, layout(ctx, v), r),
                     shown = n < ctx.fn.type(v).shape.elements() ? lt(number, n) : ctx.pool.truth(true);
            const Ex place = word(ctx, to, number + start), value = code(r);
            ctx.out.when(both(owns(ctx, layout(ctx, v), r), shown));
            ctx.out.assign(place, value);
        });
    }
    ctx.out.close();
    ctx.out.close();
}

void lower_assert(Lowering& ctx, ir::InstId id) {
    const ir::ValueId v = ctx.fn.operands(ctx.fn.inst(id))[0];
    const std::string name = ctx.out.fresh("record");
    const Ex leads = eq(ctx.thread, 0), taken = take_record(ctx, id, 3);
    const auto tell = [&](Ex condition, Ex element) {
        ctx.out.open_if(condition);
        const Ex to = declare_record(ctx, name, taken);
        ctx.out.when(to);
        ctx.out.assign(word(ctx, to, 0), element);
        ctx.out.close();
    };
    ctx.out.open_block();
    if (is_scalar(ctx, v)) {
        const Ex fails = negation(element_at(ctx, v, {}));
        tell(combines(ctx.fn, ctx.fn.inst(id)) ? fails : both(leads, fails), ctx.pool.number(0));
        return ctx.out.close();
    }
    const Ex first = ctx.pool.name(kernel::Type::u32, ctx.out.fresh("first")),
             none = ctx.pool.text(kernel::Type::u32, "~0u", true),
             shared = area(ctx, id, "unsigned", scratch_plan(ctx.fn, id).work.at(0)),
             found = ctx.pool.index(kernel::Type::u32, shared, ctx.pool.number(0));
    ctx.out.when(leads);
    ctx.out.assign(found, none);
    ctx.out.var("unsigned", first.text(), none);
    each_register(ctx, v, [&](Ex r) {
        const Ex number = u32(logical_number(ctx, layout(ctx, v), r)), fails = negation(element_at(ctx, v, r));
        ctx.out.when(both(both(inside(ctx, layout(ctx, v), r), fails), lt(number, first)));
        ctx.out.assign(first, number);
    });
    sync(ctx);
    ctx.out.when(ne(first, none));
    ctx.out.call(KernelOp::atomic, {ctx.pool.name(kernel::Type::other, "atomicMin"), shared, first});
    sync(ctx);
    tell(both(leads, ne(found, none)), found);
    ctx.out.close();
}

/// Checked mode verifies assumptions; here they hold.
void lower_assume(Lowering&, ir::InstId) {}

/// All programs: one thread of each counts at a word whose highest bit turns when all are there; the CTA with number 0
/// makes up for the others, so that the lower bits are zero again. The fences and the meetings of threads around them
/// make one order of it for whole programs.
void lower_grid_barrier(Lowering& ctx, ir::InstId id) {
    const Ex words =
                 ctx.pool.name(kernel::Type::other, parameter(ctx, KernelParam::meeting, 0, 0, "unsigned*", "meeting")),
             leads = eq(ctx.thread, 0);
    sync(ctx);
    if (ctx.kernel.meeting_words != kWatchedMeeting) {
        const std::string text = std::string("__device__ void $(unsigned* words) {\n") + kArrive + kAllCome;
        const Ex meet = ctx.pool.name(kernel::Type::other, support(ctx, "grid meeting", "meet", text));
        ctx.out.when(leads);
        ctx.out.call(KernelOp::meet_grid, {meet, words});
        return sync(ctx);
    }
    const std::string meet = support(ctx, "grid meeting", "meet",
                                     std::string("__device__ unsigned $(unsigned* words) {\n") + kArrive + kSomeEnd);
    const Ex missing = ctx.pool.name(kernel::Type::u32, ctx.out.fresh("missing"));
    const std::string name = ctx.out.fresh("record");
    ctx.out.open_if(leads);
    ctx.out.let("unsigned", missing.text(), ctx.pool.call(kernel::Type::u32, meet, {words}));
    const Ex to = declare_record(ctx, name, ctx.pool.select(ne(missing, 0), take_record(ctx, id, 3), null(ctx)));
    ctx.out.when(to);
    ctx.out.assign(word(ctx, to, 0), missing - 1);
    ctx.out.close();
    sync(ctx);
}

/// Behind everything else: whoever waits for this program at a meeting waits in vain.
void end_meetings(Lowering& ctx) {
    if (ctx.kernel.meeting_words != kWatchedMeeting) return;
    const std::string words = parameter(ctx, KernelParam::meeting, 0, 0, "unsigned*", "meeting");
    const Ex end = ctx.pool.name(kernel::Type::other, support(ctx, "grid end", "end_meetings", kEndMeetings)),
             program = ctx.pool.name(kernel::Type::u64, "program");
    ctx.out.when(eq(ctx.thread, 0));
    ctx.out.call(KernelOp::meet_grid, {end, ctx.pool.name(kernel::Type::other, words), u32(program)});
}

}  // namespace tegula::lower
