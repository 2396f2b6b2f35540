// The part of `prove` about late products of wgmma, which threads ask for and do not wait for in the same trip of a loop. While one is under way its
// sum is not touched (may_be_late: the loop hands it from trip to trip), the stages that it reads are not given back, and the registers of its
// operand A are not written. Of these emission has two sets that trips take in turns, and a product moves A to its trip's set when it is asked for.
//
// A loop is walked for three trips, after which nothing new can come: what is under way is known exactly, since products end in the order in which
// they are asked for, and each wait says how many may be left.
#include <algorithm>
#include <deque>

#include "lower/gpu/channels.h"
#include "lower/gpu/late.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kTrips = 3, kSets = 2;

class LateProof {
public:
    LateProof(const Function& fn, const std::function<void(InstId, const std::string&)>& problem) : fn_(fn), uses_(fn), problem_(problem) {}

    void run() {
        fn_.walk([&](InstId i) {
            const Inst& inst = fn_.inst(i);
            if (fn_.gpu_inst(i).late) inst.op == Op::dot ? check_product(i) : check_release(i);
            if (inst.op == Op::for_loop && has_late(fn_.blocks(inst)[0])) walk(i);
        });
    }

private:
    struct UnderWay {
        InstId product;
        int trip;
    };

    bool has_late(BlockId body) const {
        const std::vector<InstId>& list = fn_.block(body).insts;
        return std::any_of(list.begin(), list.end(), [&](InstId i) { return fn_.gpu_inst(i).late; });
    }
    void check_product(InstId i) {
        if (!may_be_late(fn_, uses_, i)) return problem_(i, "is not waited for, and its sum is not only handed from trip to trip");
        for (size_t k = 0; k < 2; ++k) {
            const ValueId operand = fn_.operands(fn_.inst(i))[k];
            if (fn_.placement(operand).kind == Placement::registers) continue;
            const InstId get = late_stage(fn_, operand);
            if (!get.valid() || !(fn_.inst(get).parent == fn_.inst(i).parent))
                problem_(i, "is not waited for, and reads shared memory that is not a stage of its trip");
        }
    }
    /// A late release gives back what the trip before took: in every trip one stage is taken, and one given back.
    void check_release(InstId i) {
        const Inst& release = fn_.inst(i);
        const InstId loop = fn_.block(release.parent).owner;
        int gets = 0, releases = 0, inside = 0;
        fn_.walk(release.parent, [&](InstId other) {
            const Inst& inst = fn_.inst(other);
            if ((inst.op != Op::channel_get && inst.op != Op::channel_release) || !(fn_.operands(inst)[0] == fn_.operands(release)[0])) return;
            (inst.op == Op::channel_get ? gets : releases) += 1;
            inside += !(inst.parent == release.parent);
        });
        if (!loop.valid() || fn_.inst(loop).op != Op::for_loop || gets != 1 || releases != 1 || inside != 0)
            problem_(i, "gives back a stage of the trip before, which is not one and the same in every trip");
    }
    bool reads(InstId product, ValueId channel) const {
        for (size_t k = 0; k < 2; ++k) {
            const InstId get = late_stage(fn_, fn_.operands(fn_.inst(product))[k]);
            if (get.valid() && fn_.operands(fn_.inst(get))[0] == channel) return true;
        }
        return false;
    }
    void walk(InstId loop) {
        std::deque<UnderWay> under_way;
        for (int trip = 0; trip < kTrips; ++trip)
            for (const InstId i : fn_.block(fn_.blocks(fn_.inst(loop))[0]).insts) step(i, trip, under_way);
        wait(fn_.gpu_inst(loop).wait, under_way);
        if (!under_way.empty()) problem_(under_way.front().product, "is not waited for behind its loop");
    }
    static void wait(int left, std::deque<UnderWay>& under_way) {
        while (left >= 0 && under_way.size() > static_cast<size_t>(left)) under_way.pop_front();
    }
    void step(InstId i, int trip, std::deque<UnderWay>& under_way) {
        const Inst& inst = fn_.inst(i);
        const GpuInst& gpu = fn_.gpu_inst(i);
        if (inst.op == Op::dot && gpu.late) {
            const bool in_registers = fn_.placement(fn_.operands(inst)[0]).kind == Placement::registers;
            for (const UnderWay& u : under_way)
                if (in_registers && u.product == i && u.trip <= trip - kSets)
                    problem_(i, "writes registers that it still reads, asked for two trips before");
            under_way.push_back({i, trip});
        }
        wait(gpu.wait, under_way);
        if (inst.op != Op::channel_release) return;
        for (const UnderWay& u : under_way)
            if (u.trip == trip - gpu.late && reads(u.product, fn_.operands(inst)[0]))
                problem_(i, "gives back a stage that a product reads, not waited for");
    }

    const Function& fn_;
    const Uses uses_;
    const std::function<void(InstId, const std::string&)>& problem_;
};

}  // namespace

void prove_late(const Function& fn, const std::function<void(InstId, const std::string&)>& problem) { LateProof(fn, problem).run(); }

}  // namespace tegula
