// print and assert: records in the report buffer (report.h). One thread takes the place, so that records of one program stay in order. All threads
// meet whether somebody listens or not: later accesses to scratch rely on it. And grid_barrier, which has a record where it is missed.
#include <algorithm>

#include "jit/cuda/emitter.h"
#include "jit/cuda/prelude_text.h"
#include "jit/cuda/report.h"
#include "lang/print_text.h"

namespace tegula::cuda {

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
/// Whoever has ended has seen the bit turn at all meetings it came to: when it is seen to have ended before the bit is looked at, it does not come.
/// The result is its number and 1 more.
constexpr const char* kSomeEnd = R"(    for (unsigned ended = 0; ((before ^ now[0]) & 0x80000000u) == 0; __nanosleep(20)) {
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

std::string Emitter::report() { return parameter(KernelParam::report, 0, 0, "unsigned long long*", "report"); }

/// Code of an element, extended to 64 bits.
std::string Emitter::code_text(ir::ValueId v, const std::string& element) {
    const Format& f = fn_.elem(v);
    if (!fn_.type(v).pointer && text::is_native_float(f)) return prelude_.to_bits(f, element);
    const bool sign = !fn_.type(v).pointer && text::extends_sign(f);
    return sign ? "(unsigned long long)(long long)" + element : "(unsigned long long)" + element;
}

void Emitter::cuda_print(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto in = fn_.operands(inst);
    int64_t words = 2;
    for (ir::ValueId v : in) words += std::min(fn_.type(v).shape.elements(), kPrintElements);
    const std::string take = support("take_record", "take_record", kTakeRecord), to = fresh("record");
    const std::string call = take + "(" + report() + ", " + std::to_string(id.v) + ", " + std::to_string(words) + ", program)";
    const ScratchPlan plan = scratch_plan(fn_, id);
    open("");
    if (plan.work.empty()) {
        line("unsigned long long* " + to + " = t == 0 ? " + call + " : nullptr;");
    } else {
        const std::string shared = scratch_area(id, "unsigned long long", plan.work[0]);
        line("if (t == 0) " + shared + "[0] = (unsigned long long)" + call + ";");
        sync();
        line("unsigned long long* " + to + " = (unsigned long long*)" + shared + "[0];");
    }
    open("if (" + to + ")");
    int64_t at_word = 0;
    for (ir::ValueId v : in) {
        const int64_t n = std::min(fn_.type(v).shape.elements(), kPrintElements);
        const std::string start = to + "[" + std::to_string(at_word);
        at_word += n;
        if (is_scalar(v)) {
            line("if (t == 0) " + start + "] = " + code_text(v, at(v, {})) + ";");
            continue;
        }
        each_register(v, [&](Ex r) {
            const Ex number = logical_number(layout(v), r), shown = n < fn_.type(v).shape.elements() ? lt(number, n) : pool_.truth(true);
            line_if(both(owns(layout(v), r), shown), start + " + " + number + "] = " + code_text(v, at(v, r)) + ";");
        });
    }
    close();
    close();
}

void Emitter::cuda_assert(ir::InstId id) {
    const ir::ValueId v = fn_.operands(fn_.inst(id))[0];
    const std::string take = support("take_record", "take_record", kTakeRecord), to = fresh("record");
    const std::string call = take + "(" + report() + ", " + std::to_string(id.v) + ", 3, program)";
    const auto tell = [&](const std::string& condition, const std::string& element) {
        open("if (" + condition + ")");
        line("unsigned long long* " + to + " = " + call + ";");
        line("if (" + to + ") " + to + "[0] = " + element + ";");
        close();
    };
    open("");
    if (is_scalar(v)) {
        tell((combines(fn_, fn_.inst(id)) ? "!" : "t == 0 && !") + name(v), "0");
        return close();
    }
    const std::string first = fresh("first"), shared = scratch_area(id, "unsigned", scratch_plan(fn_, id).work.at(0));
    line("if (t == 0) " + shared + "[0] = ~0u;");
    line("unsigned " + first + " = ~0u;");
    each_register(v, [&](Ex r) {
        const Ex number = u32(logical_number(layout(v), r)), earlier = lt(number, pool_.name(kernel::Type::u32, first));
        line_if(both(both(inside(layout(v), r), negation(element_at(v, r))), earlier), first + " = " + number.text() + ";");
    });
    sync();
    line("if (" + first + " != ~0u) atomicMin(" + shared + ", " + first + ");");
    sync();
    tell("t == 0 && " + shared + "[0] != ~0u", shared + "[0]");
    close();
}

/// Checked mode verifies assumptions; here they hold.
void Emitter::cuda_assume(ir::InstId) {}

/// All programs: one thread of each counts at a word whose highest bit turns when all are there; the CTA with number 0 makes up for the others, so
/// that the lower bits are zero again. The fences and the meetings of threads around them make one order of it for whole programs.
void Emitter::cuda_grid_barrier(ir::InstId id) {
    const std::string words = parameter(KernelParam::meeting, 0, 0, "unsigned*", "meeting");
    sync();
    if (kernel_.meeting_words != kWatchedMeeting) {
        line("if (t == 0) " + support("grid meeting", "meet", std::string("__device__ void $(unsigned* words) {\n") + kArrive + kAllCome) + "(" +
             words + ");");
        return sync();
    }
    const std::string meet = support("grid meeting", "meet", std::string("__device__ unsigned $(unsigned* words) {\n") + kArrive + kSomeEnd);
    const std::string missing = fresh("missing"), to = fresh("record");
    open("if (t == 0)");
    line("const unsigned " + missing + " = " + meet + "(" + words + ");");
    line("unsigned long long* " + to + " = " + missing + " ? " + support("take_record", "take_record", kTakeRecord) + "(" + report() + ", " +
         std::to_string(id.v) + ", 3, program) : nullptr;");
    line("if (" + to + ") " + to + "[0] = " + missing + " - 1;");
    close();
    sync();
}

/// Behind everything else: whoever waits for this program at a meeting waits in vain.
void Emitter::end_meetings() {
    if (kernel_.meeting_words != kWatchedMeeting) return;
    const std::string words = parameter(KernelParam::meeting, 0, 0, "unsigned*", "meeting");
    line("if (t == 0) " + support("grid end", "end_meetings", kEndMeetings) + "(" + words + ", (unsigned)program);");
}

}  // namespace tegula::cuda
