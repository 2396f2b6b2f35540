// Persistent forms: as many CTAs as the device holds, each running programs one after the other in a loop around the whole body. Copies of the next
// program then run ahead like those of any other loop (channels.h): a producer goes on while the others still store, and rows are on their way
// while the row before is reduced. Where the kernel's schedule asks for it, and where tiles are reduced that are so wide that few programs fill a
// multiprocessor: loading, reducing and storing would take turns there.
#include <algorithm>

#include "lang/gpu/split_loop.h"
#include "lang/program_order.h"
#include "lower/gpu/channels.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int64_t kWide = 32768;  ///< elements of a tile from which one program fills a multiprocessor; below it plain kernels are faster

/// Emits i64 scalars at the end of a block.
class EndScalars {
public:
    EndScalars(Function& fn, BlockId at, Span span) : fn_(fn), at_(at), span_(span) {}
    ValueId operator()(Op op, const std::vector<ValueId>& operands, const std::vector<int64_t>& attrs = {}) {
        const TypeId type = fn_.types().tile(Fmt::i64);
        const InstId made = fn_.make(op, operands, {&type, 1}, attrs, span_);
        fn_.append(at_, made);
        return fn_.result(made);
    }

private:
    Function& fn_;
    BlockId at_;
    Span span_;
};

/// for trip in 0 .. div_ceil(programs - cta_id, num_ctas) { number = cta_id + trip * num_ctas; the body, of the program with that number }
void wrap(Function& fn) {
    std::vector<InstId> old = std::move(fn.block(fn.body).insts);
    fn.block(fn.body).insts.clear();
    const InstId end = old.back();
    old.pop_back();
    const Span span = fn.inst(old.empty() ? end : old.front()).span;
    EndScalars outer(fn, fn.body, span);
    const ValueId cta = outer(Op::cta_id, {}), ctas = outer(Op::num_ctas, {});
    ValueId programs = outer(Op::num_programs, {}, {0});
    for (int d = 1; d < fn.gpu->grid_axes; ++d) programs = outer(Op::mul, {programs, outer(Op::num_programs, {}, {d})});
    const ValueId trips = outer(Op::div_ceil, {outer(Op::sub, {programs, cta}), ctas});
    const ValueId zero = outer(Op::constant, {}, {0}), one = outer(Op::constant, {}, {1});

    const BlockId body = fn.add_block();
    const ValueId trip = fn.add_arg(body, fn.types().tile(Fmt::i64));
    EndScalars inner(fn, body, span);
    const ValueId number = inner(Op::add, {cta, inner(Op::mul, {trip, ctas})});
    for (InstId i : old) fn.append(body, i);
    fn.append(body, fn.make(Op::yield, {}, {}, {}, span));
    fn.walk(body, [&](InstId i) {
        if (fn.inst(i).op == Op::program_id) fn.set_operands(i, {&number, 1});
    });
    const ValueId bounds[] = {zero, trips, one};
    const int64_t no_hints[] = {0};
    fn.append(fn.body, fn.make(Op::for_loop, bounds, {}, no_hints, span, {&body, 1}));
    fn.append(fn.body, end);
    fn.gpu->persistent = true;
    grow_form(fn);
}

std::vector<ChannelPlan> accepted(const Function& fn, const GpuOptions& options) {
    std::vector<ChannelPlan> plans = plan_channels(fn, options);
    std::erase_if(plans, [](const ChannelPlan& p) { return !p.why_not.empty(); });
    return plans;
}

/// Loads whose copies run ahead within one program must do so across programs: then no store of another program may reach them.
bool keeps(const std::vector<ChannelPlan>& before, const std::vector<ChannelPlan>& after) {
    return std::all_of(before.begin(), before.end(), [&](const ChannelPlan& p) {
        return std::any_of(after.begin(), after.end(), [&](const ChannelPlan& q) { return q.load == p.load && q.tma == p.tma; });
    });
}

bool is_wide(const Function& fn, InstId load) { return fn.type(fn.result(load)).shape.elements() >= kWide; }

/// Is a wide tile loaded, and do the threads that hold it meet, so that few of them go on by themselves?
bool reduces_wide(const Function& fn) {
    bool wide = false, meets = false;
    fn.walk([&](InstId i) {
        const Op op = fn.inst(i).op;
        wide = wide || (op == Op::load && is_wide(fn, i));
        meets = meets || has_trait(op, MEETS);
    });
    return wide && meets;
}

/// Only copies that run ahead pay.
bool pays(const Function& fn, const GpuOptions& options, const std::vector<ChannelPlan>& plans) {
    const bool off = std::find(options.disabled.begin(), options.disabled.end(), "channels") != options.disabled.end();
    return !off && std::any_of(plans.begin(), plans.end(), [&](const ChannelPlan& p) { return p.own && is_wide(fn, p.load); });
}

}  // namespace

std::string persist_problem(const ir::Function& fn) {
    std::string why;
    if (program_order(fn).together) why = "its programs run at the same time, each in a CTA of its own";
    fn.walk([&](InstId i) {
        const Inst& inst = fn.inst(i);
        if (is_split_loop(fn, inst)) why = "the stretches of its split sum are programs of their own";
        if (inst.op == Op::print || inst.op == Op::assert) why = "what it prints or asserts belongs to one program of the launch";
    });
    return why;
}

bool make_persistent(ir::Function& fn, const GpuOptions& options) {
    const bool asked = find_hint(fn.hints, "persistent") != nullptr;
    if (!fn.is_kernel || fn.gpu->persistent || (!asked && !reduces_wide(fn)) || !persist_problem(fn).empty()) return false;
    Function made = fn;
    wrap(made);
    const std::vector<ChannelPlan> plans = accepted(made, options);
    if (!keeps(accepted(fn, options), plans) || (!asked && !pays(made, options, plans))) return false;
    fn = std::move(made);
    return true;
}

}  // namespace tegula
