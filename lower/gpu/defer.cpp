// Decoding beside products: threads that make operand A of wgmma in registers would otherwise take turns with the tensor cores, decode, ask for the
// product, wait. In a loop
//     for k in lo .. hi step s { a = decode(..); b = get; acc = dot(a, b, acc); release }
// the product becomes late: it is asked for, and then the one of the trip before is waited for and its stage given back, so that a trip decodes
// while the product of the trip before runs. The order of sums is the same. It takes a second set of A's registers, for which there must be room.
// Only annotations are made; prove_late.cpp shows that they suffice.
#include <algorithm>

#include "lang/gpu/hints.h"
#include "lang/gpu/packed_view.h"
#include "lang/gpu/split_loop.h"
#include "lower/gpu/channels.h"
#include "lower/gpu/late.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kBeside = 24;  ///< registers that ptxas wants beside tiles: addresses, counters, constants of decoding
/// Registers of sums up to which products of a trip take no longer than decoding does: what it loads for the next one must be asked for before.
constexpr int64_t kShort = 64;

class Deferrer {
public:
    explicit Deferrer(Function& fn) : fn_(fn), uses_(fn) {}

    bool run() {
        bool changed = false;
        std::vector<InstId> loops;
        fn_.walk([&](InstId i) {
            if (fn_.inst(i).op == Op::for_loop && !is_split_loop(fn_, fn_.inst(i))) loops.push_back(i);
        });
        for (const InstId loop : loops) changed = defer(loop) || changed;
        return changed;
    }

private:
    bool defer(InstId loop) {
        const LoopParts parts = parts_of(fn_, loop);
        if (!fn_.gpu->specialised || parts.step == 0) return false;
        const std::vector<InstId>& list = fn_.block(parts.body).insts;
        std::vector<InstId> products, releases;
        int all = 0;
        fn_.walk(parts.body, [&](InstId i) { all += is_product(fn_.inst(i).op); });
        bool decoded = false;
        for (const InstId i : list) {
            if (!is_product(fn_.inst(i).op)) continue;
            if (!may_be_late(fn_, uses_, i)) return false;
            decoded = decoded || fn_.placement(fn_.operands(fn_.inst(i))[0]).kind == Placement::registers;
            products.push_back(i);
        }
        if (!decoded || products.size() != static_cast<size_t>(all) || products.size() > kMostLate) return false;
        const Demand d = demand(loop, products);
        const bool loads_first = d.sums <= kShort && 4 * d.words <= d.factors && fit(d, true);
        if (!loads_first && !fit(d, false)) return false;
        for (const InstId product : products)
            for (const ValueId operand : {fn_.operands(fn_.inst(product))[0], fn_.operands(fn_.inst(product))[1]}) {
                if (fn_.placement(operand).kind == Placement::registers) continue;
                const InstId get = late_stage(fn_, operand);
                if (!get.valid()) return false;
                const InstId release = release_behind(list, get, products.back());
                if (!release.valid()) return false;
                releases.push_back(release);
            }
        if (!loads_first) load_behind_decoding(parts.body, products.front());
        for (const InstId i : products) fn_.gpu->of_inst[i.v].late = true;
        for (const InstId i : releases) fn_.gpu->of_inst[i.v].late = true;
        fn_.gpu->of_inst[products.back().v].wait = static_cast<int>(products.size());
        fn_.gpu->of_inst[loop.v].wait = 0;
        return true;
    }

    /// Loads for the next trip go in front of the first product, where this trip's tiles have been decoded: one set of registers does for both, and
    /// they have the time that the product of the trip before takes. None goes past a write or a meeting.
    void load_behind_decoding(BlockId body, InstId product) {
        std::vector<InstId>& list = fn_.block(body).insts;
        const auto values = fn_.operands(fn_.inst(list.back()));
        const auto for_next_trip = [&](InstId i) {
            const Inst& inst = fn_.inst(i);
            return inst.op == Op::load && uses_.count(fn_.result(inst)) == 1 &&
                   std::find(values.begin(), values.end(), fn_.result(inst)) != values.end();
        };
        const auto stays = [&](InstId i) {
            const Op op = fn_.inst(i).op;
            const bool writes = has_trait_within(fn_, i, WRITES | EFFECT) && op != Op::channel_get && op != Op::channel_release;
            return writes || fn_.gpu_inst(i).sync_before || fn_.gpu_inst(i).scratch_offset >= 0;
        };
        const auto end = std::find(list.begin(), list.end(), product);
        const auto last = std::find_if(std::reverse_iterator(end), list.rend(), stays);
        std::vector<InstId> moved;
        std::copy_if(last.base(), end, std::back_inserter(moved), for_next_trip);
        std::copy(moved.begin(), moved.end(), std::remove_if(last.base(), end, for_next_trip));
    }

    /// The channel's only release in the block, if it stands behind the product that is waited at.
    InstId release_behind(const std::vector<InstId>& list, InstId get, InstId product) const {
        InstId found;
        bool behind = false;
        for (const InstId i : list) {
            behind = behind || i == product;
            const Inst& inst = fn_.inst(i);
            if (inst.op != Op::channel_release || !(fn_.operands(inst)[0] == fn_.operands(fn_.inst(get))[0])) continue;
            if (found.valid() || !behind) return {};
            found = i;
        }
        return found;
    }

    struct Demand {
        int64_t sums = 0, factors = 0;      ///< registers of all sums, and of one set of A
        int64_t carried = 0, decoding = 0;  ///< what the loop carries, and with it copies of words that decoding shifts
        int64_t codes = 0;                  ///< of the largest tile of codes that is made in the loop
        int64_t words = 0;                  ///< of what is carried, those that are decoded
    };

    /// Does the tile repeat another one's elements, which take no further registers?
    bool is_repeated(ValueId v) const {
        const Inst* def = fn_.def(v);
        while (def && has_trait(def->op, VIEW)) def = fn_.def(fn_.operands(*def)[0]);
        return def && def->op == Op::broadcast;
    }

    Demand demand(InstId loop, const std::vector<InstId>& products) const {
        Demand d;
        for (const InstId i : products) {
            const ValueId a = fn_.operands(fn_.inst(i))[0];
            d.sums += fn_.placement(fn_.result(i)).regs.registers();
            if (fn_.placement(a).kind == Placement::registers) d.factors += int64_t{fn_.placement(a).regs.registers()} * fn_.elem(a).bits / 32;
        }
        const std::vector<InstId>& list = fn_.block(fn_.blocks(fn_.inst(loop))[0]).insts;
        const auto next = fn_.operands(fn_.inst(list.back()));
        const auto registers = [&](ValueId v) {
            const Placement& p = fn_.placement(v);
            return p.kind == Placement::registers ? int64_t{p.regs.registers()} * std::max(fn_.elem(v).bits / 32, 1) : 0;
        };
        for (const ValueId v : next) {
            if (std::any_of(products.begin(), products.end(), [&](InstId i) { return fn_.result(i) == v; })) continue;
            const auto view = words_of(fn_, v);
            d.carried += view ? view->words() : registers(v);
            if (!view)
                d.decoding += registers(v);
            else if (!has_decoding(fn_.elem(v), product_row(fn_, products[0]).a))
                d.decoding += view->words() + registers(v);  // element by element
            else
                d.decoding += 32 % view->bits ? 2 * view->words() : view->words() * 3 / 2;
            d.words += view ? view->words() : 0;
        }
        for (const InstId i : list)
            for (uint32_t r = 0; r < fn_.inst(i).results.count; ++r) {
                const ValueId v = fn_.result(i, r);
                if (fn_.elem(v).bits > 8 || is_repeated(v) || std::find(next.begin(), next.end(), v) != next.end()) continue;
                d.codes = std::max(d.codes, registers(v));
            }
        return d;
    }

    /// Is there room for a second set of A's registers? `loads_first`: with what the next trip decodes loaded before this one decodes, instead of
    /// behind that.
    bool fit(const Demand& d, bool loads_first) const {
        const auto exchange = register_exchange(fn_, true);
        const int bound = register_bound(fn_).most, room = std::min(255, fn_.gpu->arch->registers / kernel_threads(fn_) / 8 * 8);
        const int64_t decoded = loads_first ? std::max(d.factors, d.decoding) + d.carried : d.factors + d.decoding;
        return kBeside + d.sums + d.factors + decoded + d.codes <= (exchange ? exchange->others : bound ? bound : room);
    }

    Function& fn_;
    const Uses uses_;  ///< no operand changes here
};

}  // namespace

bool defer_products(Function& fn) { return Deferrer(fn).run(); }

}  // namespace tegula
