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

namespace {

constexpr const char* kTakeRecord =
    R"(// A place for a record of that many words, filled in up to the program's number; null: no room, or nobody listens.
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

void lower_print(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const auto in = ctx.fn.operands(inst);
    int64_t words = 2;
    for (ir::ValueId v : in) words += std::min(ctx.fn.type(v).shape.elements(), kPrintElements);
    const std::string take = support(ctx, "take_record", "take_record", kTakeRecord), to = ctx.out.fresh("record");
    const std::string call =
        take + "(" + report(ctx) + ", " + std::to_string(id.v) + ", " + std::to_string(words) + ", program)";
    const ScratchPlan plan = scratch_plan(ctx.fn, id);
    ctx.out.open("");
    if (plan.work.empty()) {
        ctx.out.line("unsigned long long* " + to + " = t == 0 ? " + call + " : nullptr;");
    } else {
        const std::string shared = scratch_area(ctx, id, "unsigned long long", plan.work[0]);
        ctx.out.line("if (t == 0) " + shared + "[0] = (unsigned long long)" + call + ";");
        sync(ctx);
        ctx.out.line("unsigned long long* " + to + " = (unsigned long long*)" + shared + "[0];");
    }
    ctx.out.open("if (" + to + ")");
    int64_t at_word = 0;
    for (ir::ValueId v : in) {
        const int64_t n = std::min(ctx.fn.type(v).shape.elements(), kPrintElements);
        const std::string start = to + "[" + std::to_string(at_word);
        at_word += n;
        if (is_scalar(ctx, v)) {
            ctx.out.line("if (t == 0) " + start + "] = " + code_text(ctx, v, at(ctx, v, {})) + ";");
            continue;
        }
        each_register(ctx, v, [&](Ex r) {
            const Ex number = logical_number(ctx, layout(ctx, v), r),
                     shown = n < ctx.fn.type(v).shape.elements() ? lt(number, n) : ctx.pool.truth(true);
            line_if(ctx, both(owns(ctx, layout(ctx, v), r), shown),
                    start + " + " + number + "] = " + code_text(ctx, v, at(ctx, v, r)) + ";");
        });
    }
    ctx.out.close();
    ctx.out.close();
}

void lower_assert(Lowering& ctx, ir::InstId id) {
    const ir::ValueId v = ctx.fn.operands(ctx.fn.inst(id))[0];
    const std::string take = support(ctx, "take_record", "take_record", kTakeRecord), to = ctx.out.fresh("record");
    const std::string call = take + "(" + report(ctx) + ", " + std::to_string(id.v) + ", 3, program)";
    const auto tell = [&](const std::string& condition, const std::string& element) {
        ctx.out.open("if (" + condition + ")");
        ctx.out.line("unsigned long long* " + to + " = " + call + ";");
        ctx.out.line("if (" + to + ") " + to + "[0] = " + element + ";");
        ctx.out.close();
    };
    ctx.out.open("");
    if (is_scalar(ctx, v)) {
        tell((combines(ctx.fn, ctx.fn.inst(id)) ? "!" : "t == 0 && !") + name(ctx, v), "0");
        return ctx.out.close();
    }
    const std::string first = ctx.out.fresh("first"),
                      shared = scratch_area(ctx, id, "unsigned", scratch_plan(ctx.fn, id).work.at(0));
    ctx.out.line("if (t == 0) " + shared + "[0] = ~0u;");
    ctx.out.line("unsigned " + first + " = ~0u;");
    each_register(ctx, v, [&](Ex r) {
        const Ex number = u32(logical_number(ctx, layout(ctx, v), r)),
                 earlier = lt(number, ctx.pool.name(kernel::Type::u32, first));
        line_if(ctx, both(both(inside(ctx, layout(ctx, v), r), negation(element_at(ctx, v, r))), earlier),
                first + " = " + number.text() + ";");
    });
    sync(ctx);
    ctx.out.line("if (" + first + " != ~0u) atomicMin(" + shared + ", " + first + ");");
    sync(ctx);
    tell("t == 0 && " + shared + "[0] != ~0u", shared + "[0]");
    ctx.out.close();
}

/// Checked mode verifies assumptions; here they hold.
void lower_assume(Lowering&, ir::InstId) {}

/// All programs: one thread of each counts at a word whose highest bit turns when all are there; the CTA with number 0
/// makes up for the others, so that the lower bits are zero again. The fences and the meetings of threads around them
/// make one order of it for whole programs.
void lower_grid_barrier(Lowering& ctx, ir::InstId id) {
    const std::string words = parameter(ctx, KernelParam::meeting, 0, 0, "unsigned*", "meeting");
    sync(ctx);
    if (ctx.kernel.meeting_words != kWatchedMeeting) {
        ctx.out.line("if (t == 0) " +
                     support(ctx, "grid meeting", "meet",
                                     std::string("__device__ void $(unsigned* words) {\n") + kArrive + kAllCome) +
                     "(" + words + ");");
        return sync(ctx);
    }
    const std::string meet = support(ctx, 
        "grid meeting", "meet", std::string("__device__ unsigned $(unsigned* words) {\n") + kArrive + kSomeEnd);
    const std::string missing = ctx.out.fresh("missing"), to = ctx.out.fresh("record");
    ctx.out.open("if (t == 0)");
    ctx.out.line("const unsigned " + missing + " = " + meet + "(" + words + ");");
    ctx.out.line("unsigned long long* " + to + " = " + missing + " ? " +
                 support(ctx, "take_record", "take_record", kTakeRecord) + "(" + report(ctx) + ", " +
                 std::to_string(id.v) + ", 3, program) : nullptr;");
    ctx.out.line("if (" + to + ") " + to + "[0] = " + missing + " - 1;");
    ctx.out.close();
    sync(ctx);
}

/// Behind everything else: whoever waits for this program at a meeting waits in vain.
void end_meetings(Lowering& ctx) {
    if (ctx.kernel.meeting_words != kWatchedMeeting) return;
    const std::string words = parameter(ctx, KernelParam::meeting, 0, 0, "unsigned*", "meeting");
    ctx.out.line("if (t == 0) " + support(ctx, "grid end", "end_meetings", kEndMeetings) + "(" + words +
                 ", (unsigned)program);");
}

}  // namespace tegula::lower
