// How many programs of a kernel should live on a multiprocessor at once: reductions over rows wait at barriers and for
// memory while other rows go on. ptxas gets that number as a bound on registers, when what is kept across the
// reductions leaves it room; elementwise chains pass element by element and need few registers, whatever the tiles'
// size.
#include <algorithm>

#include "lang/gpu/hints.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Op;

namespace {

constexpr int kThreads = 1024;  ///< on a multiprocessor: all architectures hold them
constexpr int kSingleWarps =
    896;  ///< threads of programs of one warp, which waits for no other: most of what one does is arithmetic
constexpr int kManyLoads =
    768;  ///< where they load more than one tile, whose width the launch tells: conditions take registers, too
constexpr int kPart = 128;            ///< threads: warps get their registers from one of four parts of a multiprocessor
constexpr int kRegisterFile = 65536;  ///< of a multiprocessor
constexpr int64_t kLoaded =
    96 << 10;  ///< bytes that the programs of a multiprocessor load together to keep the memory busy
constexpr int kOtherRegisters =
    24;  ///< of a thread: addresses, partial results, elements of tiles that meet the kept ones
constexpr int kSingleRegisters =
    44;  ///< where tiles are loaded element by element: the next ones are under way while these are used
constexpr int kFewRegisters = 16;  ///< where only one tile is loaded

}  // namespace

bool has_constant_indices(const ir::Function& fn, const ir::Inst& load) {
    const auto indices = fn.operands(load).first(ir::AccessOperands(fn, load).first).subspan(1);
    return std::ranges::all_of(indices, [&](ir::ValueId v) { return fn.def(v) && fn.def(v)->op == Op::constant; });
}

namespace {

/// What a load brings whose elements differ between programs: 0 where all indices are constants.
int64_t loaded_bytes(const ir::Function& fn, const ir::Inst& load) {
    if (has_constant_indices(fn, load)) return 0;
    const ir::ValueId v = fn.result(load);
    return fn.type(v).shape.elements() * std::max<int>(fn.elem(v).bits, 8) / 8;
}

/// Is a range tested by an extent that is not known here?
bool has_any_width(const ir::Function& fn, const ir::Inst& load) {
    const ir::Access access = fn.access(load);
    for (size_t a = 0; a < access.axes.size(); ++a)
        if (access.axes[a].kind == ir::Access::range && !access.axes[a].in_bounds &&
            fn.type(fn.operands(load)[0]).shape[a] == kDynamic)
            return true;
    return false;
}

/// Registers of a loaded tile that hold elements of its tensor: of a row narrower than its tile, where that is known,
/// the last ones hold none.
int held_registers(const ir::Function& fn, const ir::Inst& load) {
    const TileLayout& l = fn.placement(fn.result(load)).regs;
    std::vector<bool> empty(static_cast<size_t>(l.registers()));
    const ir::AccessOperands operands(fn, load);
    if (operands.access.gathers()) return l.registers();
    const ir::AccessPart part(fn, operands);
    for (size_t a = 0; a < operands.access.axes.size(); ++a) {
        const ir::Access::Axis& axis = operands.access.axes[a];
        if (axis.kind != ir::Access::range || axis.step != 1) continue;
        const int64_t extent = fn.type(operands.object).shape[a];
        const ir::Inst* start = fn.def(operands.index[a].value);
        if (!start || start->op != Op::constant || fn.attrs(*start)[0] != 0 || extent == kDynamic) continue;
        const auto dim = static_cast<size_t>(part.dim[a]);
        for (int r = 0; r < l.registers(); ++r)
            empty[static_cast<size_t>(r)] = empty[static_cast<size_t>(r)] || l.point(r, 0, 0)[dim] >= extent;
    }
    return static_cast<int>(std::count(empty.begin(), empty.end(), false));
}

class Residency {
public:
    explicit Residency(const ir::Function& fn)
        : fn_(fn), last_(fn.value_count(), -1), first_(fn.value_count(), -1), free_(fn.value_count()) {
        for (uint32_t i = 0; i < fn.inst_count(); ++i) {
            const ir::Inst& inst = fn.inst(ir::InstId{i});
            if (inst.op == Op::load && inst.parent.valid() &&
                fn.placement(fn.result(inst)).kind == Placement::registers)
                held_.emplace_back(&fn.placement(fn.result(inst)).regs, held_registers(fn, inst));
        }
    }

    /// 32-bit registers per thread that tiles take across the worst meeting of all threads; -1: nowhere do they meet.
    int kept() {
        walk(fn_.body, -1);
        int most = -1;
        for (const int point : points_) {
            int bits = 0;
            for (uint32_t v = 0; v < fn_.value_count(); ++v)
                if (first_[v] >= 0 && first_[v] < point && last_[v] > point) bits += size(ir::ValueId{v});
            most = std::max(most, (bits + 31) / 32);
        }
        return most;
    }

private:
    int size(ir::ValueId v) const {
        const Type& t = fn_.type(v);
        if (free_[v.v] || t.kind != Type::tile || t.shape.rank == 0 || fn_.placement(v).kind != Placement::registers)
            return 0;
        return held(fn_.placement(v).regs) * (t.pointer ? 64 : std::max<int>(fn_.elem(v).bits, 8));
    }

    /// As many as of the tiles that are loaded in the layout: others are made of them.
    int held(const TileLayout& l) const {
        int most = 0;
        for (const auto& [loaded, registers] : held_)
            if (*loaded == l) most = std::max(most, registers);
        return most ? most : l.registers();
    }

    /// Numbers instructions in order; what a loop takes from outside lives to its end.
    void walk(ir::BlockId block, int start) {
        for (const ir::ValueId v : fn_.block(block).args) first_[v.v] = last_[v.v] = now_;
        for (const ir::InstId id : fn_.block(block).insts) {
            const ir::Inst inst = fn_.inst(id);
            ++now_;
            bool made_of_free =
                ir::is_pointwise(inst.op) || ir::has_trait(inst.op, ir::FREE | ir::VIEW) || inst.op == Op::convert;
            for (const ir::ValueId v : fn_.operands(inst)) {
                last_[v.v] = std::max(last_[v.v], now_);
                if (first_[v.v] <= start) outside_.push_back(v.v);
                made_of_free = made_of_free && (free_[v.v] || fn_.type(v).shape.rank == 0);
            }
            for (uint32_t r = 0; r < inst.results.count; ++r) {
                first_[fn_.result(inst, r).v] = now_;
                free_[fn_.result(inst, r).v] = made_of_free;
            }
            if (ir::has_trait(inst.op, ir::MEETS) && fn_.type(fn_.operands(inst)[0]).shape.rank > 0)
                points_.push_back(now_);
            for (uint32_t b = 0; b < inst.blocks.count; ++b) inner(fn_.blocks(inst)[b]);
        }
    }

    void inner(ir::BlockId block) {
        const size_t before = outside_.size();
        const int start = now_++;
        walk(block, start);
        ++now_;
        for (size_t i = before; i < outside_.size(); ++i) last_[outside_[i]] = now_;
        for (const ir::ValueId v : fn_.block(block).args) last_[v.v] = now_;
        std::erase_if(outside_, [&](uint32_t v) { return first_[v] > start; });
    }

    const ir::Function& fn_;
    std::vector<int> last_, first_;  ///< by value: position of its definition and last use
    std::vector<bool> free_;         ///< by value: made again from scalars wherever it is needed
    std::vector<int> points_;
    std::vector<std::pair<const TileLayout*, int>> held_;  ///< by load
    std::vector<uint32_t> outside_;  ///< values that the blocks being walked take from further out
    int now_ = 0;
};

}  // namespace

namespace {

int resident_programs(const Lowering& ctx) {
    if (ctx.fn.gpu->specialised) return shared_programs(ctx.fn);
    int64_t loaded = 1;  // bytes of the largest tile
    int loads = 0;
    bool single = false, any_width = false;
    for (uint32_t i = 0; i < ctx.fn.inst_count(); ++i) {
        const ir::Inst& inst = ctx.fn.inst(ir::InstId{i});
        if (!inst.parent.valid()) continue;
        if (ir::is_product(inst.op)) return 1;
        loads += inst.op == Op::load && !is_scalar(ctx, ctx.fn.result(inst));
        if (inst.op != Op::load) continue;
        loaded = std::max(loaded, loaded_bytes(ctx.fn, inst));
        any_width = any_width || has_any_width(ctx.fn, inst);
        const auto tensor = static_cast<size_t>(param_number(ctx, ctx.fn.operands(inst)[0]));
        single = single || (tensor < ctx.fn.gpu->tensors.size() && !ctx.fn.gpu->tensors[tensor].aligned);
    }
    const int kept = Residency(ctx.fn).kept();
    if (kept < 0) return 1;
    const Arch& arch = *ctx.fn.gpu->arch;
    const int most = group_threads(ctx) > 32 ? kThreads : loads <= 1 ? kSingleWarps : any_width ? kManyLoads : kThreads;
    const int others = loads <= 1 ? kFewRegisters : single ? kSingleRegisters : kOtherRegisters;
    const int threads = std::min(most, kRegisterFile / ((kept + others + 7) / 8 * 8) / kPart * kPart);
    // Of what ptxas takes (else it warns and drops the bound): half of the architectures hold 16 programs.
    const int programs = !arch.is_ptx() && (arch.number == 80 || arch.number == 90 || arch.number == 100) ? 32 : 16;
    const auto wanted = static_cast<int>(std::min<int64_t>(programs, (kLoaded + loaded - 1) / loaded));
    return std::clamp(threads / group_threads(ctx), 1, wanted);
}

}  // namespace

void find_residency(Lowering& ctx) { ctx.kernel.resident_programs = resident_programs(ctx); }

}  // namespace tegula::lower
