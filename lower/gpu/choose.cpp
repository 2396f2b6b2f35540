// First GPU pass: how many warps hold tiles, and which row of targets.def computes each product. Operands that a row takes only in another format
// are cast to it, exactly (narrow integers and floats), or to tf32 where the product's precision says so: the casts are what the interpreter
// does, so no bit of its result changes.
#include <algorithm>
#include <bit>

#include "lang/gpu/tensor_memory.h"
#include "lang/layout.h"
#include "lower/gpu/gpu.h"
#include "lower/gpu/place.h"
#include "lower/gpu/rows.h"
#include "lower/gpu/tensor_slots.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

constexpr int64_t kMostDecoded = 128;          ///< elements of a factor that a thread decodes in a trip: more do not fit beside those on their way
constexpr int64_t kScratchReserve = 16 << 10;  ///< of shared memory, kept for exchanges

int hinted_warps(const Function& fn) {
    const int64_t warps = hint_argument(fn.hints, "warps").value_or(0);
    return warps >= 1 ? static_cast<int>(std::bit_floor(static_cast<uint64_t>(std::min<int64_t>(warps, 32)))) : 0;
}

/// Computed from scalars wherever it is needed, or read by products from shared memory, where loads put it and views leave it.
bool takes_no_registers(Op op) { return has_trait(op, FREE | VIEW) || op == Op::load; }

/// Registers of a program for tiles in a loop around products.
struct LoopRegisters {
    int64_t kept = 0;  ///< all the time: what the loop carries and, where products read registers alone, their operands from outside
    int64_t most = 0;  ///< with the result of the worst product, and what is computed before it for later
};

LoopRegisters loop_registers(const Function& fn, const Arch& arch) {
    LoopRegisters most;
    fn.walk([&](InstId id) {
        const Inst& loop = fn.inst(id);
        if (loop.op != Op::for_loop && loop.op != Op::while_loop) return;
        std::vector<int> made(fn.value_count(), -1), used(fn.value_count(), -1), products;
        std::vector<bool> kept(fn.value_count()), carried(fn.value_count());
        int now = 0;
        for (const BlockId block : fn.blocks(loop))
            fn.walk(block, [&](InstId i) {
                const Inst& inst = fn.inst(i);
                ++now;
                for (const ValueId v : fn.operands(inst)) used[v.v] = now;
                for (uint32_t r = 0; r < inst.results.count; ++r) made[fn.result(inst, r).v] = now;
                if (inst.op == Op::yield)
                    for (const ValueId v : fn.operands(inst)) carried[v.v] = true;
                if (!is_product(inst.op)) return;
                products.push_back(now);
                for (const ValueId v : fn.operands(inst).first(2))
                    if (!arch.wgmma && made[v.v] < 0) kept[v.v] = true;
            });
        if (products.empty()) return;
        for (uint32_t r = 0; r < loop.results.count; ++r) kept[fn.result(loop, r).v] = true;
        const auto bits = [&](auto&& counts) {
            int64_t sum = 0;
            for (uint32_t v = 0; v < fn.value_count(); ++v)
                if (const Type& t = fn.type(ValueId{v}); t.kind == Type::tile && t.shape.rank > 0 && counts(ValueId{v}))
                    sum += t.shape.elements() * fn.elem(ValueId{v}).bits;
            return sum / 32;
        };
        const int64_t always = bits([&](ValueId v) { return kept[v.v]; });
        most.kept = std::max(most.kept, always);
        for (const int at : products)
            most.most = std::max(most.most, always + bits([&](ValueId v) {
                                                const Inst* def = fn.def(v);
                                                const bool lives = made[v.v] < 0 ? used[v.v] >= 0 : made[v.v] <= at && used[v.v] > at;
                                                return lives && def && !kept[v.v] && !carried[v.v] && !takes_no_registers(def->op);
                                            }));
    });
    return most;
}

/// Products want 64 rows per group of 4 warps, no more than 96 registers of a thread kept for long and 144 at any of them (112 where operands pass
/// through registers, too: more spills); other tiles few registers per thread: 32 elements, which leaves room for several programs.
int default_warps(const Function& fn, const Arch& arch) {
    int64_t rows = 0, accumulators = 0, elements = 0, decoded = 0;
    int loads = 0;
    bool reduces = false, matrix = false, wide = false;
    fn.walk([&](InstId id) {
        const Inst& inst = fn.inst(id);
        for (uint32_t r = 0; r < inst.results.count; ++r)
            if (const Type& t = fn.type(fn.result(inst, r)); t.kind == Type::tile && t.shape.rank > 0) {
                elements = std::max(elements, t.shape.elements());
                matrix |= t.shape.rank > 1;
                wide |= !has_trait(inst.op, FREE) && (t.pointer || fn.types().format(t.elem).bits > 32);
            }
        reduces |= inst.op == Op::reduce || inst.op == Op::arg_reduce;
        loads += inst.op == Op::load && fn.type(fn.result(inst)).shape.rank > 0;
        if (!is_product(inst.op)) return;
        const ProductShape s = product_shape(fn, inst);
        rows = std::max(rows, s.m);
        if (is_decoded(fn, inst, 0)) decoded = std::max(decoded, s.m * s.k);
        accumulators = std::max(accumulators, s.batch * s.m * s.n);
    });
    if (rows) {
        const LoopRegisters registers = loop_registers(fn, arch);
        const bool many =
            registers.kept > 96 * 128 || registers.kept + shared_words(fn) > 180 * 128 || registers.most > (arch.wgmma ? 144 : 112) * 128;
        const int64_t wanted = (rows >= 128 && accumulators >= 128 * 64) || accumulators > 64 * 128 || many ? 8 : 4;
        // Elements that are decoded on their way pass through registers, each in one warp.
        const int64_t decoding = std::min({decoded / (32 * kMostDecoded), rows / 16, int64_t{16}});
        return static_cast<int>(std::max(wanted, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(decoding, 1))))));
    }
    // Reductions cost every warp the same, whatever its share of the tile is; rows of several programs overlap, so long ones take fewer warps. Tiles
    // that are loaded beside the row (factors, offsets) need registers, too.
    const auto padded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(elements)));
    const int64_t share = padded >= (loads > 1 ? 8192 : 4096) && !wide ? 2048 : 1024;
    if (reduces) return static_cast<int>(std::clamp<int64_t>(padded / share, matrix ? 4 : 1, 32));
    return elements > 65536 ? 32 : elements > 16384 ? 16 : elements > 4096 ? 8 : 4;
}

/// The operand in `format`, by a cast before the product: of packed codes before they are transposed, while they lie as they were loaded.
ValueId in_format(Function& fn, InstId dot, ValueId v, FormatId format) {
    if (fn.type(v).elem == format) return v;
    if (const Inst* def = fn.def(v); def && def->op == Op::permute && fn.elem(v).bits < 8) {
        const std::vector<int64_t> axes(fn.attrs(*def).begin(), fn.attrs(*def).end());
        const ValueId operands[] = {in_format(fn, dot, fn.operands(*def)[0], format)};
        const TypeId types[] = {fn.types().tile(format, fn.type(v).shape)};
        const InstId permute = fn.make(Op::permute, operands, types, axes, fn.inst(dot).span);
        fn.insert_before(dot, permute);
        return fn.result(permute);
    }
    const bool rounds = !exact_in(fn.elem(v), fn.types().format(format));
    const int64_t attrs[] = {static_cast<int64_t>(rounds ? Round::rna : Round::rne), static_cast<int64_t>(Overflow::automatic)};
    const ValueId operands[] = {v};
    const TypeId types[] = {fn.types().tile(format, fn.type(v).shape)};
    const InstId cast = fn.make(Op::cast, operands, types, attrs, fn.inst(dot).span);
    fn.insert_before(dot, cast);
    return fn.result(cast);
}

ValueId reshaped(Function& fn, InstId before, ValueId v, const Shape& shape) {
    const ValueId operands[] = {v};
    const TypeId types[] = {fn.types().tile(fn.type(v).elem, shape)};
    const InstId made = fn.make(Op::reshape, operands, types, {}, fn.inst(before).span);
    fn.insert_before(before, made);
    return fn.result(made);
}

/// Copies into shared memory know matrices best: leading extents of 1 are dropped around the product. Gives the product; the old one has no
/// uses any more.
InstId in_two_dimensions(Function& fn, InstId id) {
    const ValueId old = fn.result(fn.inst(id));
    std::vector<ValueId> operands(fn.operands(fn.inst(id)).begin(), fn.operands(fn.inst(id)).end());
    for (ValueId& v : operands) {
        const Shape& shape = fn.type(v).shape;
        v = reshaped(fn, id, v, Shape{shape[shape.rank - 2u], shape[shape.rank - 1u]});
    }
    const std::vector<int64_t> attrs(fn.attrs(fn.inst(id)).begin(), fn.attrs(fn.inst(id)).end());
    const TypeId types[] = {fn.type_of(operands[2])};
    const InstId made = fn.make(Op::dot, operands, types, attrs, fn.inst(id).span);
    fn.insert_before(id, made);
    const ValueId result = reshaped(fn, id, fn.result(made), fn.type(old).shape);
    for (uint32_t i = 0; i < fn.inst_count(); ++i) {
        if (!fn.inst(InstId{i}).parent.valid()) continue;
        for (ValueId& v : fn.operands(fn.inst(InstId{i})))
            if (v == old) v = result;
    }
    std::vector<bool> dead(fn.inst_count());
    dead[id.v] = true;
    fn.remove_if(dead);
    return made;
}

/// fp8 in wgmma keeps fewer bits of a sum than any other row.
bool own_sums(const MmaRow& row) { return row.kind == MmaRow::wgmma && row.fraction_bits > 0 && row.fraction_bits < 25; }

/// Is the product's row, when nothing but its formats and extents is looked at, one with sums of its own? Then it has that row whatever the hints
/// say: no hint may change a bit.
bool wants_own_sums(const Function& fn, InstId id, RowContext context) {
    context.warps = 4;
    return own_sums(fn.row(best_row(judge_rows(fn, fn.inst(id), context)).row));
}

/// The number of warps next to `warps` with which such products get their row.
int fitting_warps(const Function& fn, std::span<const InstId> dots, RowContext context, int warps) {
    if (dots.empty()) return warps;
    for (context.warps = std::max(warps, 4); context.warps > 4; context.warps /= 2)
        if (std::all_of(dots.begin(), dots.end(), [&](InstId id) { return own_sums(fn.row(best_row(judge_rows(fn, fn.inst(id), context)).row)); }))
            break;
    return context.warps;
}

void choose_row(Function& fn, InstId id, RowContext& context, std::vector<int>& chosen) {
    const std::vector<RowVerdict> verdicts = judge_rows(fn, fn.inst(id), context);
    const RowVerdict* best = &best_row(verdicts);
    if (best->row == 0) return;
    const MmaRow& row = fn.row(best->row);
    const ProductShape shape = product_shape(fn, fn.inst(id));
    if (row.from_shared()) context.shared_left -= shared_operand_bytes(shape, row);
    std::vector<ValueId> operands(fn.operands(fn.inst(id)).begin(), fn.operands(fn.inst(id)).end());
    operands[0] = in_format(fn, id, operands[0], best->a);
    operands[1] = in_format(fn, id, operands[1], best->b);
    fn.set_operands(id, operands);
    if (row.from_shared() && fn.type(operands[2]).shape.rank > 2 && shape.batch == 1) id = in_two_dimensions(fn, id);
    if (chosen.size() <= id.v) chosen.resize(size_t{id.v} + 1);
    chosen[id.v] = best->row;
}

/// Products whose sums find no columns in tensor memory, the last ones first, get other rows.
void fit_tensor_memory(Function& fn, RowContext context, std::vector<int>& chosen) {
    const auto row_of = [&](InstId id) { return id.v < chosen.size() ? chosen[id.v] : 0; };
    context.allow_tensor_memory = false;
    for (size_t i = chosen.size(); i-- > 0;) {
        if (fn.row(chosen[i]).kind != MmaRow::tcgen05) continue;
        if (TensorSlots(fn, row_of).columns() <= kTensorColumns) return;
        choose_row(fn, InstId{static_cast<uint32_t>(i)}, context, chosen);
    }
}

}  // namespace

const RowVerdict& best_row(const std::vector<RowVerdict>& verdicts) {
    const RowVerdict* best = nullptr;
    for (const RowVerdict& v : verdicts)
        if (v.legal && (!best || v.row == 0 || v.cost < best->cost || best->row == 0)) best = &v;
    return *best;
}

int64_t shared_words(const ir::Function& fn) {
    int64_t most = 0;
    fn.walk([&](InstId id) {
        const Inst& dot = fn.inst(id);
        if (!is_product(dot.op) || !is_decoded(fn, dot, 0)) return;
        const int64_t elements = fn.type(fn.operands(dot)[0]).shape.elements();
        for (const InstId i : fn.block(dot.parent).insts) {
            const Inst& load = fn.inst(i);
            if (load.op != Op::load || fn.type(fn.result(load)).shape.elements() != elements || fn.elem(fn.result(load)).bits >= 8) continue;
            const Layout::Kind kind = fn.types().layout(fn.type(fn.operands(load)[0]).layout).kind();
            if (kind == Layout::Kind::row || kind == Layout::Kind::col)
                most = std::max(most, 2 * 4 * elements * static_cast<int64_t>(fn.elem(fn.result(load)).bits) / 32);
        }
    });
    return most;
}

int chosen_warps(const ir::Function& fn, const RowContext& context) {
    const int hinted = hinted_warps(fn);
    std::vector<InstId> dots;
    fn.walk([&](InstId id) {
        if (is_product(fn.inst(id).op) && wants_own_sums(fn, id, context)) dots.push_back(id);
    });
    return fitting_warps(fn, dots, context, hinted ? hinted : default_warps(fn, *context.arch));
}

const GpuTensor* tensor_fact(const ir::Function& fn, std::span<const GpuTensor> facts, ir::ValueId tensor) {
    for (size_t i = 0; i < fn.params.size() && i < facts.size(); ++i)
        if (fn.params[i].value == tensor) return &facts[i];
    return nullptr;
}

void choose_instructions(ir::Function& fn, const GpuOptions& options) {
    TEGULA_CHECK(options.arch != nullptr);
    const auto is_off = [&](std::string_view name) {
        return std::find(options.disabled.begin(), options.disabled.end(), name) != options.disabled.end();
    };
    fn.gpu.emplace();
    fn.gpu->arch = options.arch;
    if (!options.grid.empty()) fn.gpu->grid_axes = static_cast<int>(options.grid.size());
    fn.gpu->placements.resize(1);
    fn.gpu->tensors = options.tensors;
    std::vector<InstId> dots;
    fn.walk([&](InstId id) {
        if (is_product(fn.inst(id).op)) dots.push_back(id);
    });
    RowContext context;
    context.arch = options.arch;
    context.shared_left = options.arch->shared_bytes - kScratchReserve;
    context.allow_shared = !is_off("wgmma");
    context.allow_own = !is_off("instructions") && !is_off("all");
    std::vector<InstId> first, rest;
    for (const InstId id : dots) (wants_own_sums(fn, id, context) ? first : rest).push_back(id);
    fn.gpu->warps = context.warps = chosen_warps(fn, context);
    std::vector<int> chosen;
    for (const auto* products : {&first, &rest})
        for (const InstId id : *products) choose_row(fn, id, context, chosen);
    fit_tensor_memory(fn, context, chosen);
    fn.gpu->of_value.assign(fn.value_count(), 0);
    fn.gpu->of_inst.assign(fn.inst_count(), {});
    for (size_t i = 0; i < chosen.size(); ++i) fn.gpu->of_inst[i].row = chosen[i];
}

bool has_own_sums(const ir::Function& fn) {
    return std::any_of(fn.gpu->of_inst.begin(), fn.gpu->of_inst.end(), [&](const GpuInst& inst) { return own_sums(fn.row(inst.row)); });
}

}  // namespace tegula
