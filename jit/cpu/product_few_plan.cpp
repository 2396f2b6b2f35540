// Which products have few rows, and how their right operand is read (product.h).
#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "jit/cpu/block_words.h"
#include "jit/cpu/memory_order.h"
#include "jit/cpu/plan.h"
#include "jit/cpu/product.h"

namespace tegula::cpu {

using ir::Access;
using ir::Op;

namespace {

constexpr size_t kMostTurnedLoads = 4;  ///< loads
constexpr int kMostDepth = 64;
constexpr unsigned kLeastWideBits = 16;                ///< of elements that little code decodes, and of which a square has few
constexpr unsigned kSpareRegisters = 4;                ///< beside squares and sums
constexpr int64_t kMostVectors = 4, kMostWide = 16;    ///< of columns in a block
constexpr int64_t kChains = 8;                         ///< of sums, which hide each other's latency
constexpr int64_t kMostSteps = 8, kMostUnrolled = 32;  ///< of k that are unrolled, and times vectors
constexpr unsigned kMostDeclaredBits = 16;
constexpr int64_t kMostBlock = 128, kLeastBlock = 8;  ///< of k, of declared layouts
constexpr int64_t kMostBlockStep = 32;                ///< of which so many are unrolled
constexpr int64_t kStretch = 64;                      ///< of k, where only masks end with it

/// Walks the fused tree of a right operand; `dims`: the operand's dimension that each one of the value's is, -1: none.
class RightOperand {
public:
    RightOperand(const ir::Function& fn, const Plan& plan, int k, int n) : fn_(fn), plan_(plan), k_(k), n_(n) {}
    std::vector<TurnedLoad> loads, turned;  ///< `k` and `n` of loads: the rank where the part has no such dimension
    std::vector<TurnedLoad> declared;       ///< of layouts by expressions
    int64_t run = 0;                        ///< divides the extents by which k is split; 0: none

    void look(ir::ValueId v, const std::vector<int>& dims) {
        walk(v, dims);
        std::erase_if(loads, [&](const TurnedLoad& l) { return elsewhere_.count(l.load.v) != 0; });
    }

private:
    bool is_fused(ir::ValueId v) const { return fn_.def(v) && plan_.values[v.v].kind == Home::fused; }

    void walk(ir::ValueId v, std::vector<int> dims, int depth = 0) {
        if (!is_fused(v) || !seen_.insert({v.v, dims}).second) return;
        if (depth > kMostDepth) return leave(v);
        const ir::Inst* def = fn_.def(v);
        const Shape& shape = fn_.type(v).shape;
        for (size_t d = 0; d < dims.size(); ++d)
            if (shape[d] == 1) dims[d] = -1;
        const auto operands = fn_.operands(*def);
        if (def->op == Op::load) return load(v, dims);
        if (def->op == Op::reshape) split(shape, fn_.type(operands[0]).shape, dims);
        if (def->op == Op::permute) {
            std::vector<int> from(dims.size());
            for (size_t d = 0; d < dims.size(); ++d) from[static_cast<size_t>(fn_.attrs(*def)[d])] = dims[d];
            return walk(operands[0], from, depth + 1);
        }
        if (def->op == Op::broadcast)
            return walk(operands[0], {dims.end() - static_cast<std::ptrdiff_t>(fn_.type(operands[0]).shape.rank), dims.end()}, depth + 1);
        for (ir::ValueId o : operands)
            if (ir::is_pointwise(def->op) && fn_.type(o).shape.rank == dims.size())
                walk(o, dims, depth + 1);
            else
                leave(o);
    }

    /// What is read below is read at places of its own.
    void leave(ir::ValueId v) {
        if (!is_fused(v) || !left_.insert(v.v).second) return;
        if (fn_.def(v)->op == Op::load) elsewhere_.insert(fn_.value(v).def.v);
        for (ir::ValueId o : fn_.operands(*fn_.def(v))) leave(o);
    }

    void load(ir::ValueId v, const std::vector<int>& dims) {
        const ir::Inst& inst = *fn_.def(v);
        const ir::ValueId tensor = fn_.operands(inst)[0];
        const Format& f = fn_.elem(v);
        for (ir::ValueId o : fn_.operands(inst)) leave(o);
        if (fn_.access(inst).gathers()) return;  // these have places of their own
        const auto find = [&](int d) { return static_cast<size_t>(std::find(dims.begin(), dims.end(), d) - dims.begin()); };
        const TurnedLoad out{fn_.value(v).def, dims, find(k_), find(n_), f.bits, {}};
        loads.push_back(out);
        if (out.k == dims.size() || out.n == dims.size() || f.bits > 32 || fn_.type(v).pointer || turned.size() + declared.size() == kMostTurnedLoads)
            return;
        for (const auto* list : {&turned, &declared})
            for (const TurnedLoad& known : *list)
                if (known.load == out.load) return;
        const MemoryOrder order = memory_order(fn_, plan_.options, tensor);
        if (!order.runs && unit_dimension(fn_.access(inst), order) == static_cast<int>(out.k)) turned.push_back(out);
        if (f.bits <= kMostDeclaredBits && by_expressions(tensor)) declared.push_back(out);
    }

    bool by_expressions(ir::ValueId tensor) const {
        if (plan_.options.bounds) return false;
        const ArgLayout arguments = make_arg_layout(fn_, plan_.options.tensors);
        for (size_t i = 0; i < fn_.params.size(); ++i)
            if (fn_.params[i].value == tensor) return !arguments.params[i].affine;
        return false;
    }

    /// A dimension that is split is numbered by quotients with the last of its parts.
    void split(const Shape& to, const Shape& from, const std::vector<int>& dims) {
        for (const ReshapeGroup& g : reshape_groups(to, from))
            if (g.to_end == g.to + 1 && dims[g.to] == k_ && from[g.from_end - 1] > 1) run = std::gcd(run, from[g.from_end - 1]);
    }

    const ir::Function& fn_;
    const Plan& plan_;
    const int k_, n_;
    std::set<std::pair<uint32_t, std::vector<int>>> seen_;  ///< values, and the dimensions that they were reached with
    std::set<uint32_t> left_, elsewhere_;                   ///< values; load instructions
};

/// The dimension of the tensor that is the part's, which goes over neighbours.
std::optional<size_t> dimension_of(const ir::Access& access, size_t part) {
    for (size_t a = 0; a < access.axes.size(); ++a) {
        const Access::Axis& axis = access.axes[a];
        if ((axis.kind == Access::range || axis.kind == Access::all) && part-- == 0)
            return axis.kind == Access::all || axis.step == 1 ? std::optional(a) : std::nullopt;
    }
    return {};
}

/// Reads of declared layouts join the turned loads, all in blocks and steps of the same length.
void take_declared(std::vector<TurnedLoad>& turned, const std::vector<TurnedLoad>& declared, const ir::Function& fn, const Plan& plan, unsigned lanes,
                   int64_t most, int64_t most_step) {
    if (most < kLeastBlock) return;
    int64_t least = kLeastBlock, least_step = std::min(kLeastBlock, most_step);
    std::vector<TurnedLoad> taken;
    for (size_t i = 0; i < declared.size(); ++i) {
        TurnedLoad load = declared[i];
        const auto n = dimension_of(fn.access(fn.inst(load.load)), load.n), k = dimension_of(fn.access(fn.inst(load.load)), load.k);
        if (!n || !k) continue;
        load.block = known_block(fn, plan, load.load, {*n, *k, lanes, least, most, least_step, most_step});
        if (!load.block) continue;
        least = most = load.block->count;
        least_step = most_step = load.block->step;
        taken.push_back(std::move(load));
    }
    turned.insert(turned.end(), taken.begin(), taken.end());
}

}  // namespace

std::shared_ptr<const BlockWords> known_block(const ir::Function& fn, const Plan& plan, ir::InstId load, const BlockShape& shape) {
    const std::array<int64_t, 8> key{
        load.v,         static_cast<int64_t>(shape.n), static_cast<int64_t>(shape.k), shape.lanes, shape.least, shape.most, shape.least_step,
        shape.most_step};
    if (const auto at = plan.blocks.find(key); at != plan.blocks.end()) return at->second;
    const ir::ValueId tensor = fn.operands(fn.inst(load))[0];
    const Type& type = fn.type(tensor);
    auto block = block_words(fn.types().layout(type.layout), std::vector<int64_t>(type.shape.begin(), type.shape.end()), fn.elem(tensor).bits, shape);
    return plan.blocks[key] = block ? std::make_shared<const BlockWords>(std::move(*block)) : nullptr;
}

unsigned most_few_rows(const Product& p, const VectorUnit& vectors) {
    const unsigned sums = p.stretch() ? 2 : 1;  // those of a stretch, and all
    return vectors.registers / 2 / sums / std::max(1u, p.lanes * p.bytes / vectors.bytes);
}

void choose_few(Product& p, const ir::Function& fn, const ir::Inst& dot, const Plan& plan, const VectorUnit& vectors) {
    const unsigned room = most_few_rows(p, vectors);
    if (p.m > static_cast<int64_t>(room) || p.lanes < 4) return;
    const ir::ValueId right = fn.operands(dot)[1];
    RightOperand operand(fn, plan, p.rank - 2, p.rank - 1);
    std::vector<int> dims(static_cast<size_t>(p.rank));
    std::iota(dims.begin(), dims.end(), 0);
    operand.look(right, dims);
    std::vector<TurnedLoad>& turned = operand.turned;
    auto chunk = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(p.k)));
    for (const TurnedLoad& t : turned) chunk = std::min(chunk, static_cast<int64_t>(std::bit_floor(p.lanes * 32 / t.bits)));
    if (!operand.declared.empty()) {
        const auto whole = static_cast<int64_t>(p.k & -p.k);  // blocks are whole where there is a choice
        const int64_t most = std::min({chunk, kMostBlock, whole >= kLeastBlock ? whole : chunk});
        take_declared(turned, operand.declared, fn, plan, p.lanes, most, std::min(kMostBlockStep, p.stretch() ? p.stretch() & -p.stretch() : most));
    }
    const BlockWords* block = !turned.empty() ? turned.back().block.get() : nullptr;
    if (block) chunk = block->count;
    if (turned.empty() && fast_dimension(fn, plan.options, right) == p.rank - 2) return;  // packing turns it
    const int64_t run = std::gcd(chunk, operand.run);
    if (p.stretch() && (!p.every_stretch() || run % p.stretch() != 0)) return;
    p.few = true;
    p.rows = static_cast<unsigned>(p.m);
    const int64_t steps = (p.n + p.lanes - 1) / p.lanes;
    const bool wide = std::all_of(operand.loads.begin(), operand.loads.end(), [](const TurnedLoad& l) { return l.bits >= kLeastWideBits; });
    const bool plain = wide && !p.stretch() && !p.rounded && run == chunk;
    // Strands of memory should be wide where they run along n, and as few as can be where they run along k: a chain's latency hides behind what turns
    // the next square.
    p.kept = plain && turned.size() == 1 && !block && chunk * turned[0].bits == 32 * p.lanes &&
             p.rows * std::max(1u, p.lanes * p.bytes / vectors.bytes) + p.lanes + kSpareRegisters <= vectors.registers;
    const int64_t chains = (kChains + p.rows - 1) / p.rows;
    const int64_t most = p.kept ? 1 : !plain ? std::min(kMostVectors, chains) : plain && turned.empty() ? kMostWide : kMostVectors;
    p.steps_n = static_cast<unsigned>(std::clamp<int64_t>(room / p.rows, 1, std::min(steps, most)));
    if (plain && turned.empty()) chunk = std::min(chunk, kStretch);
    p.chunk = chunk;
    p.square_words = p.lanes;
    for (const TurnedLoad& t : turned) p.square_words = std::max<uint64_t>(p.square_words, t.block ? t.block->vectors() : 0);
    p.step =
        block ? block->step : std::min<int64_t>(std::clamp<int64_t>(kMostUnrolled / p.steps_n, 1, kMostSteps), p.stretch() ? p.stretch() : chunk);
    p.run = p.stretch() ? p.stretch() : plain || run < p.step ? chunk : run;
    p.turned = turned;
    p.loads = std::move(operand.loads);
}

}  // namespace tegula::cpu
