// Words of narrow codes on their way for several trips of a loop. Where a loop carries a tile of words because they are
// loaded a trip ahead (lower/gpu/prefetch.cpp), every warp has a ring of its own in shared memory instead: its lanes
// start bulk copies of what lies together, of later trips, and each thread takes its words from the oldest stage.
// Nobody else reads it, so that a barrier in shared memory per stage is all, and what is under way takes no registers.
#include <algorithm>
#include <set>

#include "lang/gpu/wide_access.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/access/part.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/packed/packed.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Op;

namespace {

constexpr int kMostStages = 3;      ///< more on its way is no quicker
constexpr int64_t kKept = 2 << 10;  ///< bytes of shared memory for barriers
constexpr int64_t kLine = 16;       ///< bytes of the smallest bulk copy

/// Does a block multiply by warp groups? One's words then wait for its products, and its issue slots are idle
/// meanwhile; where warps multiply alone, many of them hide each other's waits, and registers are the quicker place.
bool multiplies_in_groups(const ir::Function& fn, ir::BlockId block) {
    const std::vector<ir::InstId>& list = fn.block(block).insts;
    return std::any_of(list.begin(), list.end(), [&](ir::InstId i) {
        return ir::is_product(fn.inst(i).op) && product_row(fn, i).kind == MmaRow::wgmma;
    });
}

int64_t rounded(int64_t v, int64_t to) { return (v + to - 1) / to * to; }

}  // namespace

/// Stages of words in shared memory, of one warp each.
struct WordRing {
    CarriedLoad load;
    struct Member {
        int64_t bits = 0;  ///< its pitch, where that is a constant: it is part of the runs
        int64_t count = 1, stride = 1,
                pitch = 0;  ///< else: coordinates 0, stride, .. of a warp's part; bytes between them in a stage
        /// Bytes of a stage to the next coordinate where no pitch is known; 0: there is one coordinate.
        int64_t step() const { return bits || count == 1 ? 0 : pitch / stride; }
    };
    std::vector<Member> members = {};  ///< of the storage order
    int64_t run = 0, stage = 0;        ///< bytes that lie together in memory; of a warp's stage
    int copies = 0, stages = 0;        ///< runs of a stage
    std::string name = {};
};

/// The pitch of a member in bits, if it is a constant; else 0.
int64_t member_bits(Lowering& ctx, ir::ValueId tensor, size_t member, size_t members) {
    const bool innermost = member + 1 == members;
    if (affine(ctx, tensor) && !innermost) return 0;
    return pitch(ctx, tensor, static_cast<int>(member), innermost).constant().value_or(0) *
           (is_bit_addressed(ctx.fn.elem(tensor)) ? 1 : 8);
}

/// Where a warp's part of a tile lies in memory, and in a stage: runs of bytes at the points of a grid over the members
/// but the innermost.
bool plan_ring(Lowering& ctx, WordRing& ring) {
    const ir::Inst& next = ctx.fn.inst(ring.load.next);
    const ir::ValueId v = ctx.fn.result(next);
    const TileLayout& l = layout(ctx, v);
    const PackedView& view = ctx.packed.words.at(v.v).view;
    const std::vector<LayoutPieces> members = *access_pieces(ctx.fn, next, l);
    const std::vector<int> dims = part_dimensions(ctx.fn.access(next));
    if (!ring.load.from_zero) return false;  // runs would begin before the tensor
    ring.members.resize(members.size());
    for (size_t m = 0; m < members.size(); ++m)
        ring.members[m].bits = member_bits(ctx, ctx.fn.operands(next)[0], m, members.size());
    const auto thread = [&](size_t m, int lane, int warp) {
        const int64_t period =
            m + 1 == members.size() && view.most_shift ? view.period : 1;  // what is shifted away is rounded off
        return piece_value(members[m], LayoutPieces::thread, dims, l.point(0, lane, warp)) & -period;
    };
    for (size_t m = 0; m < members.size(); ++m)
        for (int warp = 0; warp < ctx.fn.gpu->warps; ++warp) {
            // A warp's stage begins where its part does, so that no bits of the warp are shifted away.
            if (piece_value(members[m], LayoutPieces::thread, dims, l.point(0, 0, warp)) != thread(m, 0, warp))
                return false;
            for (int lane = 0; lane < 32; ++lane)
                if (thread(m, lane, warp) != thread(m, lane, 0) + thread(m, 0, warp)) return false;
        }
    std::vector<std::set<int64_t>> points(members.size());
    std::set<std::vector<int64_t>> lines;  // of a stage: where in its run, behind the run
    for (int lane = 0; lane < 32; ++lane)
        for (const PackedView::Load& load : view.loads) {
            std::vector<int64_t> at(members.size());
            int64_t bits = 8 * load.offset;
            for (size_t m = 0; m < members.size(); ++m) {
                const bool inner = m + 1 == members.size();
                const int64_t place =
                    thread(m, lane, 0) +
                    (inner ? 0 : piece_value(members[m], LayoutPieces::register_, dims, l.point(load.reg, 0, 0)));
                if (const int64_t by = ring.members[m].bits)
                    bits += place * by;
                else
                    points[m].insert(at[m] = place);
            }
            if (bits < 0 || bits % (8 * kLine)) return false;
            at.push_back(bits / 8);
            ring.run = std::max(ring.run, bits / 8 + view.grain);
            lines.insert(std::move(at));
        }
    int64_t pitch = ring.run, copies = 1;
    for (size_t m = members.size(); m-- > 0;) {
        WordRing::Member& o = ring.members[m];
        if (o.bits) continue;
        o.count = static_cast<int64_t>(points[m].size());
        o.stride = o.count == 1 ? 1 : *std::next(points[m].begin());
        int64_t number = 0;
        for (const int64_t at : points[m])
            if (at != o.stride * number++) return false;
        if (o.count > 1) {
            // An odd number of lines apart, lanes that read one place in several runs meet in no bank.
            pitch = rounded(pitch % (8 * kLine) == 0 ? pitch + kLine : pitch, kLine * o.stride);
            o.pitch = pitch;
            pitch *= o.count;
        }
        copies *= o.count;
    }
    if (copies > 32 || static_cast<int64_t>(lines.size()) != copies * ring.run / kLine) return false;
    ring.copies = static_cast<int>(copies);
    ring.stage = rounded(pitch, 128);
    return true;
}

/// Which carried words get a ring, and where it lies.
void find_word_rings(Lowering& ctx) {
    if (!ctx.fn.gpu->arch->tma) return;
    const int64_t room = ctx.fn.gpu->arch->shared_bytes - kKept;
    for (const auto& [inst, walk] : ctx.packed.walks) {
        if (walk->load.first.v != inst || ctx.packed.rings.count(ctx.fn.result(walk->load.next).v)) continue;
        if (!multiplies_in_groups(ctx.fn, ctx.fn.inst(walk->load.next).parent)) continue;
        auto ring = std::make_shared<WordRing>(WordRing{.load = walk->load});
        const ir::ValueId first = ctx.fn.result(ring->load.first), next = ctx.fn.result(ring->load.next);
        const auto words = ctx.packed.words.find(next.v);
        if (words == ctx.packed.words.end() || words->second.view.grain != kLine || !is_words(ctx, first) ||
            !is_words(ctx, next) || !is_words(ctx, ring->load.carried))
            continue;
        // The loop's counter is the start along one dimension, from 0 or a later place on; the others stay.
        const auto before = ctx.fn.operands(ctx.fn.inst(ring->load.first)),
                   after = ctx.fn.operands(ctx.fn.inst(ring->load.next));
        int moving = 0;
        for (size_t i = 1; i < after.size(); ++i)
            if (!(before[i] == after[i])) moving += after[i] == ring->load.following ? 1 : 2;
        if (moving != 1 || !plan_ring(ctx, *ring)) continue;
        const int64_t at = rounded(ctx.kernel.shared_bytes, 128), warps = ctx.fn.gpu->warps;
        for (ring->stages = kMostStages; ring->stages > 1; --ring->stages)
            if (at + warps * ring->stages * (ring->stage + 8) <= room) break;
        if (ring->stages == 1) continue;
        const ir::ValueId tensor = after[0];
        const auto param = std::ranges::find(ctx.fn.params, tensor, &ir::Param::value);
        take_shared(ctx, explain::Buffer::ring, param == ctx.fn.params.end() ? "a tensor" : "`" + param->name + "`",
                    warps * (ring->stage + 8), 128, ring->stages);
        if (param != ctx.fn.params.end())
            ctx.kernel.areas.back().param =
                static_cast<int>(param->view ? param->view->of : param - ctx.fn.params.begin());
        for (const char* section : {"shared", "mbarrier", "bulk"}) ctx.formats.need(section);
        for (const ir::ValueId v : {first, next}) {
            ctx.packed.rings[v.v] = ring;
            ctx.plan.decide(KernelPass::word_rings, v);
        }
        ring->name = ctx.out.fresh("ring");
        const std::string stages = number(ring->stages), own = ring->name,
                          barriers = number(warps * ring->stages * ring->stage);
        const auto put = [&](const std::string& text) { ctx.prologue += "    " + text + "\n"; };
        put("unsigned char* const " + own + "_area = shared + " + number(at) + ";");
        put("const unsigned " + own + " = shared_address(" + own + "_area) + (t >> 5) * " +
            number(ring->stages * ring->stage) + ", " + own + "_full = shared_address(" + own + "_area) + " + barriers +
            " + (t >> 5) * " + number(8 * ring->stages) + ";");
        put("[[maybe_unused]] unsigned " + own + "_get = 0, " + own + "_phase = 0;");
        put("if (t < " + number(group_threads(ctx)) + " && (t & 31) == 0) {");
        put("    for (int s = 0; s < " + stages + "; ++s) mbarrier_init(" + own + "_full + 8 * s, " +
            number(ring->copies) + ");");
        put("    mbarrier_init_fence();");
        put("}");
        put("__syncwarp();");
    }
}

/// Starts the copies of one trip, which `walk` of the lane points at, and moves it on to the next.
void issue_words(Lowering& ctx, const WordRing& ring, const std::string& stage) {
    const ir::ValueId tensor = ctx.fn.operands(ctx.fn.inst(ring.load.next))[0];
    std::string to;
    int64_t below = 1;
    for (size_t m = ring.members.size(); m-- > 0;) {
        const WordRing::Member& o = ring.members[m];
        if (o.count == 1) continue;
        to += " + (t & 31) / " + number(below) + " % " + number(o.count) + " * " + number(o.pitch);
        below *= o.count;
    }
    ctx.out.open_if(lt(ctx.thread & 31, ring.copies));
    const std::string bytes = storage_bytes(ctx, tensor);
    ctx.out.line("bulk_load(" + ring.name + " + " + stage + " * " + number(ring.stage) + to + ", " + name(ctx, tensor) +
                 ", " + ring.name + "_walk, " + bytes + ", " + number(ring.run) + ", " + ring.name + "_full + 8 * " +
                 stage + ");");
    ctx.out.close();
    ctx.out.assign(named(ctx, ring.name + "_walk"), named(ctx, ring.name + "_step"), kernel::AssignOp::add);
}

/// In front of the loop: the first trips' copies, all but one stage of them. False: the load has no ring.
bool start_ring(Lowering& ctx, ir::InstId id) {
    const auto found = ctx.packed.rings.find(ctx.fn.result(ctx.fn.inst(id)).v);
    if (found == ctx.packed.rings.end()) return false;
    const WordRing& ring = *found->second;
    if (!(ring.load.first == id)) return true;  // its words are taken at the head of the trip
    const Part part = part_access(ctx, id);
    ctx.values.names[part.value.v] = ring.name + "_stages";
    const std::vector<LayoutPieces> members = *access_pieces(ctx.fn, ctx.fn.inst(id), layout(ctx, part.value));
    const std::vector<Ex> indices = piece_indices(ctx, part, ctx.thread & ~31),
                          pitches = member_pitches(ctx, part.tensor, members.size());
    Ex sum = ctx.pool.constant(kernel::Type::u64, 0);
    int64_t below = 1;
    for (size_t m = members.size(); m-- > 0;) {
        for (const auto k : {LayoutPieces::uniform, LayoutPieces::thread})
            if (!members[m].part[k].is_constant(0))
                sum = sum + u64(layout_value(ctx, members[m].part[k], part.tensor, indices)) * pitches[m];
        if (ring.members[m].count == 1) continue;
        sum = sum + u64((ctx.thread & 31) / below % ring.members[m].count * ring.members[m].stride) * pitches[m];
        below *= ring.members[m].count;
    }
    const int to_bytes = is_bit_addressed(ctx.fn.elem(part.tensor)) ? 3 : 0;
    const std::string lo = name(ctx, ring.load.lo), hi = name(ctx, ring.load.hi);
    ctx.out.var("unsigned long long", ring.name + "_walk", sum >> to_bytes);
    ctx.out.let("unsigned long long", ring.name + "_step", piece_growth(ctx, id, members, pitches) >> to_bytes);
    ctx.out.call(kernel::KernelOp::meet_warp);
    for (int ahead = 0; ahead + 1 < ring.stages; ++ahead) {
        const std::string far = "(unsigned long long)" + hi + " - (unsigned long long)" + lo + " > " +
                                number(ahead * ring.load.step) + "ull";
        ctx.out.open_if(raw(ctx, lo + " < " + hi + (ahead ? " && " + far : "")));
        const Ex get = ctx.pool.name(kernel::Type::u32, ring.name + "_get");
        issue_words(ctx, ring, ctx.out.constant("stage", (get + ahead) % ring.stages).text());
        ctx.out.close();
    }
    return true;
}

/// At the head of a trip: a later trip's copies, and this one's words, where the instruction loads those of a ring's
/// next trip.
void take_words(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const auto found = inst.op == Op::load ? ctx.packed.rings.find(ctx.fn.result(inst).v) : ctx.packed.rings.end();
    if (found == ctx.packed.rings.end() || !(found->second->load.next == id)) return;
    const WordRing& ring = *found->second;
    ctx.out.mark(ctx.sources, inst.span);
    const ir::ValueId v = ctx.fn.result(ctx.fn.inst(id)), carried = ring.load.carried;
    ctx.values.names[v.v] = ring.name + "_stages";
    const PackedView& view = ctx.packed.words.at(v.v).view;
    const Ex get = ctx.pool.name(kernel::Type::u32, ring.name + "_get");
    const std::string counter = name(ctx, ring.load.counter), array = name(ctx, carried), stages = number(ring.stages);
    ctx.out.open_block();
    ctx.out.call(kernel::KernelOp::meet_warp);
    ctx.out.open_if(raw(ctx, "(unsigned long long)" + name(ctx, ring.load.hi) + " - (unsigned long long)" + counter +
                                 " > " + number((ring.stages - 1) * ring.load.step) + "ull"));
    const Ex before = ctx.pool.select(eq(get, 0), ctx.pool.number(ring.stages - 1), get - 1);
    issue_words(ctx, ring, ctx.out.constant("stage", before).text());
    ctx.out.close();
    ctx.out.line("mbarrier_wait(" + ring.name + "_full + 8 * " + get + ", " + ring.name + "_phase);");
    Part part = part_access(ctx, id);
    for (size_t a = 0; a < part.axes.size(); ++a) {
        if (part.axes[a].index == ring.load.following) part.axes[a].start = ctx.pool.name(kernel::Type::i64, counter);
        part_bounds(ctx, part, a);
    }
    part.whole = both(part.fixed, part.whole);
    const std::vector<LayoutPieces> members = *access_pieces(ctx.fn, ctx.fn.inst(id), layout(ctx, v));
    const std::vector<Ex> indices = piece_indices(ctx, part, ctx.thread & 31);
    Ex shift, bits = ctx.pool.number(0), bytes = bits;
    for (size_t m = 0; m < members.size(); ++m) {
        const LayoutExpr& thread = members[m].part[LayoutPieces::thread];
        if (thread.is_constant(0)) continue;
        Ex term = layout_value(ctx, thread, part.tensor, indices);
        if (m + 1 == members.size()) term = whole_periods(view, term, shift);
        if (const int64_t by = ring.members[m].bits)
            bits = bits + i32(term) * by;
        else
            bytes = bytes + i32(term) * ring.members[m].step();
    }
    const std::string at = ring.name + "_area + ((t >> 5) * " + stages + " + " + get + ") * " + number(ring.stage) +
                           " + " + (bytes + (bits >> 3));
    const std::string from = ctx.out.fresh("from");
    ctx.out.let_pointer("const unsigned char", from, raw(ctx, at));
    const std::vector<int> dims = part_dimensions(part.access);
    for (size_t k = 0; k < view.loads.size(); ++k) {
        int64_t offset = view.loads[k].offset;
        for (size_t m = 0; m + 1 < members.size(); ++m) {
            const int64_t by = ring.members[m].bits ? ring.members[m].bits / 8 : ring.members[m].step();
            offset +=
                piece_value(members[m], LayoutPieces::register_, dims, layout(ctx, v).point(view.loads[k].reg, 0, 0)) *
                by;
        }
        const std::string word = ctx.out.fresh("word");
        ctx.out.let("uint4", word, pointee("const uint4", raw(ctx, from + " + " + number(offset))));
        for (int i = 0; i < 4; ++i)
            ctx.out.assign(element(ctx, array, ctx.pool.number(static_cast<int64_t>(4 * k) + i)),
                           raw(ctx, word + "." + "xyzw"[i]));
    }
    const bool loaded = ctx.packed.words.at(v.v).loaded;
    ctx.packed.words.at(ctx.fn.result(ctx.fn.inst(ring.load.first)).v).moved = shift;
    if (!loaded && view.most_shift) shift_words(ctx, view, array, array, shift);
    if (!part.whole.is_true()) {
        ctx.out.open_if(negation(part.whole));
        clear_outside(ctx, part, view, array, loaded ? shift : Ex());
        ctx.out.close();
    }
    ctx.out.line("if (++" + get + " == " + stages + ") " + get + " = 0, " + ring.name + "_phase ^= 1;");
    ctx.out.close();
}

}  // namespace tegula::lower
