// The scratch rule (scratch.h): whatever an op cannot read from its own thread's registers is written to scratch row-major first.
#include "lang/gpu/scratch.h"

#include <algorithm>
#include <bit>

#include "lang/access_operands.h"
#include "lang/gpu/register_moves.h"
#include "lang/joining.h"
#include "lang/layout.h"

namespace tegula {

namespace {

using ir::Op;

class Rule {
public:
    Rule(const ir::Function& fn, ir::InstId id, const ir::Uses* uses)
        : fn_(fn), id_(id), inst_(fn.inst(id)), operands_(fn.operands(inst_)), attrs_(fn.attrs(inst_)), uses_(uses) {
        plan_.operand.assign(operands_.size(), -1);
    }
    ScratchPlan plan() && {
        run();
        return std::move(plan_);
    }

private:
    bool scalar(ir::ValueId v) const { return fn_.type(v).kind != Type::tile || fn_.type(v).shape.rank == 0; }
    const TileLayout* layout(ir::ValueId v) const {
        return !scalar(v) && fn_.placement(v).kind == Placement::registers ? &fn_.placement(v).regs : nullptr;
    }
    int64_t size(ir::ValueId v) const { return fn_.type(v).pointer ? 8 : fn_.elem(v).container_bytes(); }
    ir::ValueId result() const { return fn_.result(inst_); }

    int64_t area(int64_t bytes) {
        const int64_t at = plan_.bytes;
        plan_.bytes = (plan_.bytes + bytes + 15) / 16 * 16;
        return at;
    }
    void stage(size_t operand, int64_t elem_bytes) { plan_.operand[operand] = area(fn_.type(operands_[operand]).shape.elements() * elem_bytes); }
    void stage(size_t operand) { stage(operand, size(operands_[operand])); }
    void work(int64_t bytes) { plan_.work.push_back(area(bytes)); }
    /// Operands that are read in the places of `like`.
    void stage_unless_like(size_t operand, ir::ValueId like) {
        const TileLayout *own = layout(operands_[operand]), *wanted = layout(like);
        if (!scalar(operands_[operand]) && !(own && wanted && *own == *wanted)) stage(operand);
    }
    bool same_layout(ir::ValueId a, ir::ValueId b) const { return layout(a) && layout(b) && *layout(a) == *layout(b); }

    void run();
    void move();
    void stage_indices(const ir::AccessOperands& access);
    void gather();
    void access();
    void bulk_store();
    void memory();
    void pass_on(ir::ValueId v);
    void pointers();
    void reduce();
    void arg_reduce();
    void exchange(const ReducePlan& plan, std::initializer_list<int64_t> bytes);
    void along_axis(size_t count, int axis);
    void sort();
    void region();
    void report();
    void histogram();
    void convert();
    void dot();

    const ir::Function& fn_;
    ir::InstId id_;
    const ir::Inst& inst_;
    std::span<const ir::ValueId> operands_;
    std::span<const int64_t> attrs_;
    const ir::Uses* uses_;  ///< null: not known
    ScratchPlan plan_;
};

/// broadcast, reshape, permute, slice and cat. The parts of a cat share one area, in the result's order.
void Rule::move() {
    const bool views = std::any_of(operands_.begin(), operands_.end(), [&](ir::ValueId v) { return fn_.placement(v).kind == Placement::shared; });
    if (views && fn_.placement(result()).kind == Placement::shared) return;
    if (scalar(operands_[0])) return;
    const TileLayout* from = layout(operands_[0]);
    if (scalar(result()) && from && from->registers() == 1 && from->total_bits() == 0) return;
    if (register_sources(fn_, id_)) return;
    const int64_t at = area(fn_.type(inst_.op == Op::cat ? result() : operands_[0]).shape.elements() * size(result()));
    std::fill(plan_.operand.begin(), plan_.operand.end(), at);
}

void Rule::stage_indices(const ir::AccessOperands& access) {
    for (size_t i = 1; i < access.first; ++i)
        if (!scalar(operands_[i])) stage(i);
}

/// extract and deposit: the tile, index tiles, then other and mask where the part lies.
void Rule::access() {
    if (scalar(operands_[0])) return;
    const ir::AccessOperands access(fn_, inst_);
    stage(0);
    stage_indices(access);
    const ir::ValueId part = access.value ? access.value.value : result();
    for (const ir::AccessOperands::Operand& o : {access.other, access.mask})
        if (o) stage_unless_like(o.at, part);
    if (access.value && deposit_collides(fn_, id_)) work(fn_.type(operands_[0]).shape.elements() * 4);
}

void Rule::bulk_store() {
    const auto boxes = store_boxes(fn_, inst_);
    TEGULA_CHECK(boxes, "a tile that cannot be stored in bulk");
    work(boxes->warp_bytes() * fn_.gpu->warps);
}

/// load, store and atomic of a tensor: index tiles, and operands that do not lie as the part does. A work area passes old values of an atomic on to
/// threads that hold copies.
void Rule::memory() {
    if (fn_.gpu_inst(id_).bulk) return bulk_store();
    const ir::AccessOperands access(fn_, inst_);
    stage_indices(access);
    const bool stores = inst_.op == Op::store, collides = stores && store_collides(fn_, id_);
    const ir::ValueId like = stores ? access.value.value : result();
    for (size_t i = access.first; i < operands_.size(); ++i) {
        if (collides && i == access.mask.at)
            stage(i);  // every element looks at the mask of others
        else
            stage_unless_like(i, like);
    }
    if (inst_.op == Op::atomic) pass_on(result());
    if (collides) work(fn_.type(like).shape.elements());
}

void Rule::pointers() {
    const ir::ValueId like = operands_[0];
    for (size_t i = 1; i < operands_.size(); ++i) stage_unless_like(i, like);
    if (inst_.op == Op::ptr_atomic) pass_on(result());
}

void Rule::pass_on(ir::ValueId v) {
    if (!(uses_ ? uses_->count(v) : ir::Uses(fn_).count(v))) return;
    const TileLayout* l = layout(v);
    const bool copies = l && (l->lane_copies() || l->warp_copies() || std::count(l->reg.begin(), l->reg.end(), uint64_t{0}));
    if (scalar(v) || copies) work(fn_.type(v).shape.elements() * size(v));
}

void Rule::exchange(const ReducePlan& plan, std::initializer_list<int64_t> bytes) {
    for (const ReducePlan::Step& s : plan.steps) {
        if (s.kind != ReducePlan::Step::warps && s.kind != ReducePlan::Step::spread) continue;
        const auto live = static_cast<int64_t>(s.live.size());
        for (int64_t b : bytes) work(live * 32 * fn_.gpu->warps * b);
        if (s.kind == ReducePlan::Step::spread)
            for (int64_t b : bytes) work(live * b);
    }
}

void Rule::reduce() {
    if (scalar(operands_[0])) return;
    const auto kind = static_cast<ir::ReduceKind>(attrs_[0]);
    const Format& f = fn_.elem(result());
    const TileLayout* l = layout(operands_[0]);
    const int axis = static_cast<int>(attrs_[2]);
    if (l && (scalar(result()) || layout(result()))) {
        if (attrs_[1] == 1 && reduce_is_ordered(kind, f)) {
            if (axis_registers(*l, axis) && plan_reduce(*l, axis, false, layout(result()))) return;
        } else if (const auto plan = plan_reduce(*l, axis, reduce_is_ordered(kind, f), layout(result()));
                   plan && (!plan->fill || reduce_identity(kind, f))) {
            return exchange(*plan, {size(result())});
        }
    }
    stage(0, size(result()));
}

void Rule::arg_reduce() {
    if (scalar(operands_[0])) return;
    const TileLayout* l = layout(operands_[0]);
    const bool same = scalar(result()) || same_layout(result(), fn_.result(inst_, 1));
    if (l && same) {
        const auto plan = plan_reduce(*l, static_cast<int>(attrs_[1]), false, layout(result()));
        if (plan && (!plan->fill || reduce_identity(static_cast<ir::ReduceKind>(attrs_[0]), fn_.elem(operands_[0]))))
            return exchange(*plan, {size(operands_[0]), 4});
    }
    stage(0);
}

/// scan and contract: in registers when a thread holds whole lines of all operands alike.
void Rule::along_axis(size_t count, int axis) {
    const TileLayout* l = layout(operands_[0]);
    bool direct = l && axis_registers(*l, axis);
    for (size_t i = 1; i < count; ++i) direct = direct && same_layout(operands_[0], operands_[i]);
    if (inst_.op == Op::scan)
        direct = direct && same_layout(operands_[0], result());
    else
        direct = direct && (scalar(result()) || layout(result())) && plan_reduce(*l, axis, false, layout(result()));
    for (size_t i = 0; i < count && !direct; ++i) stage(i, size(result()));
}

void Rule::sort() {
    const Shape& shape = fn_.type(operands_[0]).shape;
    const auto n = static_cast<uint64_t>(shape[static_cast<size_t>(attrs_[0])]);
    const int64_t places = static_cast<int64_t>(std::bit_ceil(n)) * (shape.elements() / static_cast<int64_t>(n));
    stage(0);
    work(places * (wide_key(fn_.elem(operands_[0])) ? 8 : 4));
    work(places * 4);
}

void Rule::convert() {
    const TileLayout *from = layout(operands_[0]), *to = layout(result());
    if (!from || !to) return;
    if (!convert_exchanges(plan_conversion(*from, *to), *to)) return;
    const int64_t bytes = size(result());
    work(plan_exchange(*from, *to, static_cast<int>(bytes * 8)).elements * bytes);
}

void Rule::dot() {
    const MmaRow& row = product_row(fn_, id_);
    if (inst_.op == Op::dot_scaled) {
        for (size_t i : {0u, 1u, 3u, 4u})
            if (i > 1 ? scale_place(fn_, inst_, i) == ScalePlace::scratch : !row.tensor_core()) stage(i, 4);
        return;
    }
    if (row.tensor_core()) return;
    const Shape& a = fn_.type(operands_[0]).shape;
    const int64_t k = a[a.rank - 1u], slab = (dot_slab(fn_, id_) + row.k - 1) / row.k * row.k;
    const int64_t bytes = row.kind == MmaRow::dp4a ? 1 : size(result());
    for (const size_t i : {0u, 1u}) work(reads_words(fn_, id_, i) ? 0 : fn_.type(operands_[i]).shape.elements() / k * slab * bytes);
}

void Rule::gather() {
    if (scalar(operands_[0])) return;
    stage(0);
    stage_unless_like(1, result());
}

void Rule::histogram() {
    if (operands_.size() > 1) stage_unless_like(1, operands_[0]);
    work(fn_.type(result()).shape.elements() * 4);
}

void Rule::region() {
    for (size_t i = 0; i < operands_.size() && !scalar(operands_[i]); ++i) stage(i);
}

/// print and assert of tiles: one thread speaks for all.
void Rule::report() {
    if (!std::all_of(operands_.begin(), operands_.end(), [&](ir::ValueId v) { return scalar(v); })) work(8);
}

void Rule::run() {
    switch (inst_.op) {
        case Op::broadcast:
        case Op::reshape:
        case Op::permute:
        case Op::slice:
        case Op::cat:
            return move();
        case Op::gather:
            return gather();
        case Op::extract:
        case Op::deposit:
            return access();
        case Op::load:
        case Op::atomic:
        case Op::store:
            return memory();
        case Op::ptr_load:
        case Op::ptr_store:
        case Op::ptr_atomic:
            return pointers();
        case Op::print:
        case Op::assert:
            return report();
        case Op::reduce:
            return reduce();
        case Op::arg_reduce:
            return arg_reduce();
        case Op::contract:
            return along_axis(2, static_cast<int>(attrs_[0]));
        case Op::scan:
            return along_axis(1, static_cast<int>(attrs_[1]));
        case Op::reduce_region:
        case Op::scan_region:
            return region();
        case Op::sort:
            return sort();
        case Op::histogram:
            return histogram();
        case Op::convert:
            return convert();
        case Op::dot:
        case Op::dot_scaled:
            return dot();
            // What threads compute of their own registers, scalars, control flow, and rings, which have memory of their own.
#define ELEMENTWISE(name, ...) case Op::name:
#include "lang/ops.def"
        case Op::select:
        case Op::cast:
        case Op::bitcast:
        case Op::instruction:
        case Op::ptx:
        case Op::ptx_tile:
        case Op::ptr_add:
        case Op::ptr_at:
        case Op::ptr_address:
        case Op::tensor_ptr:
        case Op::constant:
        case Op::constant_tile:
        case Op::iota:
        case Op::program_id:
        case Op::num_programs:
        case Op::cta_id:
        case Op::num_ctas:
        case Op::dim:
        case Op::assume:
        case Op::grid_barrier:
        case Op::for_loop:
        case Op::while_loop:
        case Op::if_else:
        case Op::specialise:
        case Op::yield:
        case Op::condition:
        case Op::ret:
        case Op::channel:
        case Op::channel_put:
        case Op::channel_get:
        case Op::channel_release:
        case Op::count_:
            return;
    }
}

}  // namespace

bool is_ones(const ir::Function& fn, ir::ValueId v) {
    const ir::Inst* def = fn.def(v);
    while (def && (def->op == Op::broadcast || ir::has_trait(def->op, ir::VIEW) || def->op == Op::convert)) def = fn.def(fn.operands(*def)[0]);
    return def && def->op == Op::constant && !fn.type(v).pointer && decode(fn.elem(v), static_cast<uint64_t>(fn.attrs(*def)[0])) == 1;
}

std::optional<TileLayout> scale_layout(const TileLayout& sums, const Shape& scales, size_t operand) {
    constexpr int kMost = 8;  ///< registers; more are not worth those that sums and factors want
    const size_t along = operand - 3, k = 1 - along;
    Shape one = scales;
    one[k] = 1;
    const auto blocks = static_cast<uint64_t>(scales[k]);
    auto l = broadcast_source_layout(sums, one);
    if (!l || !std::has_single_bit(blocks)) return std::nullopt;
    // Blocks are counted by the lowest bits of the register's number: they are neighbours in memory, mostly.
    const auto bits = static_cast<unsigned>(std::countr_zero(blocks));
    const auto place = [&](uint64_t v) { return k == 1 ? v << bits : v; };
    for (auto* basis : {&l->reg, &l->warp})
        for (uint64_t& v : *basis) v = place(v);
    for (uint64_t& v : l->lane) v = place(v);
    for (unsigned b = 0; b < bits; ++b) l->reg.insert(l->reg.begin() + b, uint64_t{1} << (b + (k == 1 ? 0u : l->bits[1])));
    l->shape = scales;
    l->bits[k] = static_cast<uint8_t>(bits);
    if (l->odd[along] != 1 || l->registers() > kMost || !l->valid()) return std::nullopt;
    return l;
}

ScalePlace scale_place(const ir::Function& fn, const ir::Inst& dot, size_t operand) {
    const ir::ValueId v = fn.operands(dot)[operand], sums = fn.result(dot);
    if (!product_row(fn, fn.value(sums).def).tensor_core()) return ScalePlace::scratch;  // its loop over K is none of constants
    if (is_ones(fn, v)) return ScalePlace::ones;
    const Placement &own = fn.placement(v), &of = fn.placement(sums);
    if (own.kind != Placement::registers || of.kind != Placement::registers) return ScalePlace::scratch;
    const auto wanted = scale_layout(of.regs, fn.type(v).shape, operand);
    return wanted && *wanted == own.regs ? ScalePlace::registers : ScalePlace::scratch;
}

ScratchPlan scratch_plan(const ir::Function& fn, ir::InstId inst, const ir::Uses* uses) { return Rule(fn, inst, uses).plan(); }

int64_t scratch_bytes(const ir::Function& fn, ir::InstId inst, const ir::Uses& uses) { return scratch_plan(fn, inst, &uses).bytes; }

bool wide_key(const Format& f) {
    if (!f.is_float()) return f.kind == FormatKind::lns || f.kind == FormatKind::codebook || f.bits > 32;
    // f32 holds every value when its exponents and subnormals reach as far.
    const int top = (1 << f.exp_bits) - 1 - f.bias, last = 1 - f.bias - f.man_bits;
    const bool special = f.has_inf || f.nan == NanCode::ieee || (f.nan == NanCode::all_ones && f.man_bits == 0);
    return f.exp_bits > 8 || f.man_bits > 23 || last < -149 || top > 128 || (top == 128 && !special);
}

bool convert_exchanges(const Conversion& c, const TileLayout& to) {
    constexpr int kUnrolled = 256;
    return c.kind == Conversion::shared || (c.kind == Conversion::shuffle && to.registers() > kUnrolled);
}

int64_t dot_slab(const ir::Function& fn, ir::InstId id) {
    constexpr int64_t kSlabBytes = 48 << 10;
    const ir::Inst& inst = fn.inst(id);
    const Shape &a = fn.type(fn.operands(inst)[0]).shape, &b = fn.type(fn.operands(inst)[1]).shape;
    const int64_t k = a[a.rank - 1u];
    const MmaRow& row = product_row(fn, id);
    const int64_t bytes = row.kind == MmaRow::dp4a ? 1 : fn.elem(fn.result(inst)).container_bytes();
    const int64_t slab = std::max<int64_t>(kSlabBytes / ((a.elements() + b.elements()) / k * bytes), row.k);
    return slab >= k ? k : slab > 8 ? slab / 8 * 8 : slab / row.k * row.k;
}

bool reads_words(const ir::Function& fn, ir::InstId id, size_t operand) {
    if (product_row(fn, id).kind != MmaRow::dp4a || operand > 1) return false;
    const ir::ValueId v = fn.operands(fn.inst(id))[operand];
    const int k = fn.type(v).shape.rank - (operand == 0 ? 1 : 2);
    const Placement& p = fn.placement(v);
    return p.kind == Placement::shared && p.smem.contiguous == k && p.smem.shape[static_cast<size_t>(k)] % 4 == 0;
}

std::optional<StoreBoxes> store_boxes(const TileLayout& l, int elem_bytes, int contiguous) {
    constexpr int64_t kBytes = 32 << 10;  ///< of all warps
    constexpr int64_t kSwap[] = {1, 0}, kMostLines = 256, kLeastLines = 8;
    if (l.shape.rank != 2 || (elem_bytes != 1 && elem_bytes != 2 && elem_bytes != 4)) return std::nullopt;
    for (const bool turned : {false, true}) {
        const TileLayout sums = turned ? permute_layout(l, kSwap) : l;
        const auto boxes = [&](int m, int rows, int least_bytes) -> std::optional<StoreBoxes> {
            const int n = l.warps() / m;
            StoreBoxes out{m, n, (int64_t{1} << sums.bits[1]) / n, 128, 1, rows, 0, turned, contiguous == (turned ? 1 : 0)};
            const auto fits = [&] { return out.warp_bytes() * l.warps() <= kBytes; };
            if (out.transposed) {
                out.row_bytes = rows * elem_bytes;
                out.columns = std::min(out.run, kMostLines);
                while (out.columns > kLeastLines && !fits()) out.columns /= 2;
                if (out.columns < kLeastLines || out.row_bytes < 32 || !fits()) return std::nullopt;
            } else {
                const int64_t bytes = out.run * elem_bytes;
                while (out.row_bytes > 16 && (bytes % out.row_bytes || !fits())) out.row_bytes /= 2;
                if (bytes % out.row_bytes || out.row_bytes < least_bytes) return std::nullopt;
                out.columns = out.row_bytes / elem_bytes;
            }
            const bool several = sums.shape[1] > n * out.columns || sums.shape[0] > int64_t{rows} * m;
            if (several && 2 * out.warp_bytes() * l.warps() <= kBytes) out.slabs = 2;
            return out;
        };
        for (int m = 1; m <= l.warps(); m *= 2) {
            const int n = l.warps() / m;
            if (sums.shape[0] % (16 * m) == 0 && sums.shape[1] % (8 * n) == 0 && sums == mma_accumulator(sums.shape, m, n))
                return boxes(m, 16, 8 * elem_bytes);
        }
        const bool rows = l.warps() >= 4 && sums.shape[0] % 128 == 0 && !sums.has_ghosts() && sums == tensor_memory_rows(sums.shape, l.warps());
        if (rows) return boxes(std::min(l.warps(), 1 << (sums.bits[0] - 5)), 32, 16);
    }
    return std::nullopt;
}

std::optional<StoreBoxes> store_boxes(const ir::Function& fn, const ir::Inst& store) {
    const ir::Access access = fn.access(store);
    const auto operands = fn.operands(store);
    const int innermost = fn.types().layout(fn.type(operands[0]).layout).innermost_dimension(static_cast<int>(access.axes.size()));
    const auto kept = [](const ir::Access::Axis& axis) { return axis.kind != ir::Access::index; };
    const auto contiguous = std::count_if(access.axes.begin(), access.axes.begin() + innermost, kept);
    const int bytes = static_cast<int>(fn.elem(operands.back()).container_bytes());
    return store_boxes(fn.placement(operands.back()).regs, bytes, static_cast<int>(contiguous));
}

namespace {

/// The same in all elements?
bool uniform(const ir::Function& fn, ir::ValueId v) {
    const ir::Inst* def = fn.def(v);
    if (fn.type(v).shape.elements() == 1 || (def && def->op == Op::constant)) return true;
    return def && def->op == Op::broadcast && fn.type(fn.operands(*def)[0]).shape.elements() == 1;
}

/// Surely no two elements alike?
bool distinct(const ir::Function& fn, ir::ValueId v, int depth = 0) {
    constexpr int kMaxDepth = 20;
    const ir::Inst* def = fn.def(v);
    const int64_t n = fn.type(v).shape.elements();
    if (n == 1) return true;
    if (!def || depth > kMaxDepth) return false;
    const auto in = [&](size_t k) { return fn.operands(*def)[k]; };
    switch (def->op) {
        case Op::iota:
            return fn.type(v).shape[static_cast<size_t>(fn.attrs(*def)[0])] == n && (fn.elem(v).bits > 24 || n <= int64_t{1} << fn.elem(v).bits);
        case Op::cast:
            return fn.elem(in(0)).is_int() && fn.elem(v).bits >= fn.elem(in(0)).bits && distinct(fn, in(0), depth + 1);
        case Op::add:
            if (uniform(fn, in(0)) && distinct(fn, in(1), depth + 1)) return true;
            [[fallthrough]];
        case Op::sub:
            return uniform(fn, in(1)) && distinct(fn, in(0), depth + 1);
        case Op::broadcast:
        case Op::reshape:
        case Op::permute:
        case Op::convert:
            return fn.type(in(0)).shape.elements() == n && distinct(fn, in(0), depth + 1);
        default:
            return false;
    }
}

}  // namespace

bool store_collides(const ir::Function& fn, ir::InstId id) {
    const ir::AccessOperands operands(fn, fn.inst(id));
    if (!operands.access.gathers()) return false;
    uint64_t covered = 0;  // dimensions, from the last one, along which an index tile tells elements apart
    for (size_t a = 0; a < operands.access.axes.size(); ++a) {
        if (operands.access.axes[a].kind != ir::Access::gather) continue;
        const ir::ValueId index = operands.index[a].value;
        const Shape& own = fn.type(index).shape;
        for (size_t d = 0; d < own.rank && distinct(fn, index); ++d)
            if (own[d] > 1) covered |= uint64_t{1} << (own.rank - 1 - d);
    }
    const Shape joint = ir::AccessPart(fn, operands).joint;
    for (size_t d = 0; d < joint.rank; ++d)
        if (joint[d] > 1 && !(covered >> (joint.rank - 1 - d) & 1)) return true;
    return false;
}

bool deposit_collides(const ir::Function& fn, ir::InstId id) {
    const ir::AccessOperands operands(fn, fn.inst(id));
    for (size_t a = 0; a < operands.access.axes.size(); ++a) {
        const ir::Access::Axis& axis = operands.access.axes[a];
        if (axis.kind == ir::Access::range && axis.step == 0 && axis.extent > 1) return true;
        if (axis.kind == ir::Access::gather && fn.type(operands.index[a].value).shape.elements() > 1) return true;
    }
    return false;
}

}  // namespace tegula
