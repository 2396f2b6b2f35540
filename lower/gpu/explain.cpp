// What `explain` says of a kernel's GPU form: per product the instruction, and why nothing better was possible; per access to memory its width and
// coalescing; per change of layout what moves the tile.
#include <algorithm>

#include "lang/gpu/conversion.h"
#include "lang/gpu/packed_view.h"
#include "lang/gpu/scratch.h"
#include "lang/gpu/split_loop.h"
#include "lang/gpu/tensor_memory.h"
#include "lang/gpu/wide_access.h"
#include "lang/gpu/wide_tiles.h"
#include "lang/instruction.h"
#include "lang/meetings.h"
#include "lang/plain_text.h"
#include "lower/gpu/narrow.h"
#include "lower/gpu/place.h"
#include "lower/gpu/place_groups.h"
#include "lower/gpu/rows.h"
#include "lower/gpu/views.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

explain::Instruction instruction_of(const MmaRow& row, const std::string& name) {
    return {name, row.tensor_core(), row.m, row.from_shared() ? 0 : row.n, row.k, row.kind == MmaRow::fma};
}
explain::Instruction instruction_of(const MmaRow& row) { return instruction_of(row, row.name); }
explain::Instruction instruction_of(const Function& fn, int row) { return instruction_of(fn.row(row), fn.row_name(row)); }

/// The format of a product's operand before it was cast for the instruction.
FormatId given_format(const Function& fn, ValueId v) {
    const Inst* def = fn.def(v);
    while (def && (def->op == Op::convert || has_trait(def->op, VIEW))) def = fn.def(v = fn.operands(*def)[0]);
    return fn.type(def && def->op == Op::cast ? fn.operands(*def)[0] : v).elem;
}

explain::Product explain_dot(const Function& fn, InstId id, const GpuOptions& options) {
    const Inst& inst = fn.inst(id);
    const std::span<const MmaRow> rows = mma_rows();
    const int chosen = fn.gpu_inst(id).row;
    const MmaRow& row = fn.row(chosen);
    const auto operands = fn.operands(inst);
    RowContext context;
    context.arch = options.arch;
    context.warps = fn.gpu->warps;
    context.shared_left = options.arch->shared_bytes;
    explain::Product out;
    out.op = op_row(inst.op).name;
    out.a = fn.elem(operands[0]).name, out.b = fn.elem(operands[1]).name, out.accumulator = fn.elem(fn.result(inst)).name;
    const ProductShape shape = product_shape(fn, inst);
    out.batch = shape.batch, out.m = shape.m, out.n = shape.n, out.k = shape.k;
    out.row = instruction_of(fn, chosen);
    out.arch = options.arch->name;
    if (inst.op == Op::dot_scaled) out.scale_blocks = {fn.attrs(inst)[0], fn.attrs(inst)[1]};
    if (row.kind == MmaRow::tcgen05) out.tensor_columns = static_cast<int>(tensor_columns(fn.type(fn.result(inst)).shape));
    out.late = fn.gpu_inst(id).late;
    for (const MmaRow& other : rows) {
        const bool there = other.min_arch <= options.arch->number && options.arch->number <= other.max_arch && other.fraction_bits < 0;
        if (there && fn.type(fn.result(inst)).elem == other.acc && given_format(fn, operands[0]) == other.a &&
            given_format(fn, operands[1]) == other.b)
            out.rejected.insert(out.rejected.begin(), {instruction_of(other), explain::Rejected::unmeasured, kUnmeasured, {}});
    }
    const std::vector<RowVerdict> verdicts = judge_rows(fn, inst, context);
    const auto taken = std::find_if(verdicts.begin(), verdicts.end(), [&](const RowVerdict& v) { return v.row == chosen; });
    if (taken != verdicts.end()) out.clocks = taken->cost;
    for (const RowVerdict& v : verdicts) {
        if (v.row == chosen || v.row == 0) continue;
        const MmaRow& other = fn.row(v.row);
        // Cheaper and legal for this product alone: what it needs, other products have.
        const bool crowded = v.legal && other.from_shared() && taken != verdicts.end() && v.cost < taken->cost;
        if (v.legal)
            out.rejected.push_back({instruction_of(fn, v.row), crowded ? explain::Rejected::room : explain::Rejected::more_clocks,
                                    crowded ? "but no room beside the other products" : "", v.cost});
        else
            out.rejected.push_back({instruction_of(fn, v.row), v.refusal.code, v.refusal.text, {}});
    }
    return out;
}

bool has_product(const Function& fn) {
    bool found = false;
    fn.walk([&](InstId id) { found = found || is_product(fn.inst(id).op); });
    return found;
}

/// Why TMA does not do what it could do for products and atomics.
std::string not_in_bulk(const Function& fn, InstId id, const GpuOptions& options, const TileLayout& l) {
    const Op op = fn.inst(id).op;
    if (!options.arch->tma || (op != Op::atomic && (op != Op::store || !has_product(fn)))) return "";
    return bulk_refusal(fn, options, id, l);
}

/// Width and coalescing of an access to a tensor.
std::optional<explain::Access> explain_access(const Function& fn, InstId id, const GpuOptions& options) {
    const Inst& inst = fn.inst(id);
    const ValueId like = alike(fn, inst).like;
    if (fn.placement(like).kind != Placement::registers) return std::nullopt;
    const TileLayout& l = fn.placement(like).regs;
    const ValueId object = fn.operands(inst)[0];
    explain::Access out;
    out.op = op_row(inst.op).name;
    out.tensor = param_name(fn, object);
    out.tile = l.shape;
    const int d = contiguous_dimension(fn, inst);
    if (fn.gpu_inst(id).bulk) {
        const auto boxes = store_boxes(fn, inst);
        out.boxes = {boxes->lines(), boxes->row_bytes / static_cast<int>(fn.elem(like).container_bytes()), boxes->warp_bytes()};
        return out;
    }
    if (const auto view = packed_view(fn, inst, l)) {
        out.words = {view->words(), static_cast<int64_t>(view->loads.size()), int64_t{view->grain} * 8};
    } else if (d >= 0) {
        const WideAccess wide = wide_access(fn, id, like);
        out.elements = {wide.vector, int64_t{wide.vector} * fn.elem(object).bits, wide.shifted, whole_sectors(fn, inst, l)};
    }
    out.copies = l.lane_copies() || l.warp_copies();
    out.not_tma = not_in_bulk(fn, id, options, l);
    return out;
}

/// Pointers: every element is an access of its own.
std::optional<explain::PointerAccess> explain_pointers(const Function& fn, InstId id, const GpuOptions& options) {
    const Inst& inst = fn.inst(id);
    const ValueId pointers = fn.operands(inst)[0];
    explain::PointerAccess out;
    out.op = op_row(inst.op).name;
    out.element = fn.elem(pointers).name;
    out.access_bits = fn.elem(pointers).bits;
    out.masked = (fn.attrs(inst)[0] & Access::has_mask) != 0;
    out.why = inst.op == Op::ptr_atomic ? "it is an atomic" : view_refusal(fn, options, id);
    if (out.why.empty()) out.why = "the pass `" + std::string(kViewsPass) + "` is off";
    out.tile = fn.type(pointers).shape;
    out.accesses = 1;
    if (fn.placement(pointers).kind == Placement::registers) {
        const TileLayout& l = fn.placement(pointers).regs;
        out.accesses = l.registers();
        out.copies = l.lane_copies() || l.warp_copies();
    }
    return out;
}

/// What a cast of codes in words costs.
std::optional<explain::Decoding> explain_decoding(const Function& fn, const Inst& cast) {
    const ValueId from = fn.operands(cast)[0], to = fn.result(cast);
    const auto view = words_of(fn, from);
    const std::optional<Fmt> target = decode_target(fn.type(to).elem);
    if (!view || !target || !has_decoding(fn.elem(from), *target)) return std::nullopt;
    const std::optional<PairTable> table = pair_table(fn);
    const Decoding decoding = decode_view(*view, fn.elem(from), *target, true, table && table->is_of(fn, cast));
    if (decoding.calls.empty()) return std::nullopt;
    const DecodePlan& plan = *decoding.calls[0].plan;
    explain::Decoding out;
    const std::string codes = fn.elem(from).name;  // of a codebook without its values
    out.from = codes.substr(0, codes.find('['));
    out.to = fn.elem(to).name;
    out.codes = static_cast<int64_t>(view->bit.size());
    out.operations = decoding.operations(*view);
    out.recipe_codes = static_cast<int64_t>(static_cast<size_t>(codes_per_word(*target)) * plan.pairs.size());
    out.recipe = plan.operations();
    out.shifted = decoding.shifts;
    return out;
}

/// How wide the accesses to scratch are, and how many times as long as they need banks keep them.
void explain_exchange(const TileLayout& from, const TileLayout& to, int bits, explain::Conversion& out) {
    const Exchange e = plan_exchange(from, to, bits);
    out.written = {int64_t{e.write_vector} * bits, exchange_conflicts(e, from, e.write_vector, bits)};
    out.read = {int64_t{e.read_vector} * bits, exchange_conflicts(e, to, e.read_vector, bits)};
}

/// How a tile changes hands, and what it costs.
explain::Conversion explain_convert(const Function& fn, InstId id) {
    const Inst& inst = fn.inst(id);
    const Placement &from = fn.placement(fn.operands(inst)[0]), &to = fn.placement(fn.result(inst));
    using Way = explain::Conversion;
    explain::Conversion out;
    out.tile = fn.type(fn.result(inst)).shape;
    out.global_scratch = fn.gpu_inst(id).global_scratch;
    if (to.kind == Placement::shared) {
        out.way = Way::to_shared;
        out.layout = to.smem.text();
    } else if (to.kind == Placement::tensor) {
        out.way = is_skipped_zero(fn, Uses(fn), id) ? Way::no_zeros : Way::to_tensor_memory;
    } else if (from.kind != Placement::registers) {
        out.way = from.kind == Placement::tensor ? Way::from_tensor_memory : Way::from_shared;
    } else {
        const Conversion c = plan_conversion(from.regs, to.regs);
        out.way = c.kind == Conversion::shuffle ? Way::shuffled : c.kind == Conversion::shared ? Way::through_scratch : Way::renamed;
        out.shuffles = c.shuffles;
        out.scratch_bytes = fn.gpu_inst(id).scratch_bytes;
        if (c.kind == Conversion::shared)
            explain_exchange(from.regs, to.regs,
                             fn.type(fn.result(inst)).pointer ? 64 : 8 * static_cast<int>(fn.elem(fn.result(inst)).container_bytes()), out);
    }
    return out;
}

std::optional<explain::Note> explain_split(const Function& fn) {
    const auto split = parallel_split(fn);
    if (!split) return std::nullopt;
    const Inst& loop = fn.inst(split->loop);
    return explain::Note{loop.span, explain::Split{split->parts, hint_argument(fn.hints_of(loop), "split_k", "step"), split->bytes}};
}

constexpr double kByCode = 8;  ///< operations for a code without a recipe: its address, its bits, and a conversion

/// The load whose tile a value is, perhaps a trip later and in another form; or what takes it out of a ring. Invalid: something else.
InstId source_of(const Function& fn, ValueId v) {
    for (int steps = 0; steps < 64; ++steps) {
        const InstId id = fn.value(v).def;
        if (!id.valid()) {
            const Block& block = fn.block(fn.value(v).block);
            const bool carried = block.owner.valid() && fn.inst(block.owner).op == Op::for_loop && fn.value(v).index > 0;
            if (!carried) return {};
            v = fn.operands(fn.inst(block.owner))[2 + fn.value(v).index];
            continue;
        }
        const Op op = fn.inst(id).op;
        if (op == Op::load || op == Op::channel_get) return id;
        if (op != Op::convert && !has_trait(op, VIEW)) return {};
        v = fn.operands(fn.inst(id))[0];
    }
    return {};
}

/// The tensor that a load reads, or whose tiles a ring holds.
ValueId tensor_of(const Function& fn, InstId source) {
    const ValueId from = fn.operands(fn.inst(source))[0];
    if (fn.inst(source).op == Op::load) return from;
    ValueId tensor;
    fn.walk([&](InstId id) {
        if (fn.inst(id).op == Op::channel_put && fn.operands(fn.inst(id)).back() == from) tensor = fn.operands(fn.inst(id))[0];
    });
    return tensor;
}

/// Does a product take as many elements as a tile has?
bool feeds_product(const Function& fn, ValueId tile) {
    bool found = false;
    fn.walk([&](InstId id) {
        if (!is_product(fn.inst(id).op)) return;
        for (const ValueId v : fn.operands(fn.inst(id)).first(2)) found = found || fn.type(v).shape.elements() == fn.type(tile).shape.elements();
    });
    return found;
}

/// Words and accesses of a thread.
void count_accesses(const Function& fn, InstId load, explain::BetterLayout::Cost& cost) {
    const Placement& p = fn.placement(fn.result(fn.inst(load)));
    if (p.kind != Placement::registers) return;
    if (const auto view = packed_view(fn, fn.inst(load), p.regs)) {
        cost.words = view->words();
        cost.accesses = static_cast<int64_t>(view->loads.size());
    } else {
        cost.words = (int64_t{p.regs.registers()} * fn.elem(fn.result(fn.inst(load))).bits + 31) / 32;
        cost.accesses = p.regs.registers() / wide_access(fn, load, fn.result(fn.inst(load))).vector;
    }
}

}  // namespace

double NarrowStream::work(int threads) const {
    return (cost.operations > 0 ? cost.operations : kByCode) + double(cost.accesses) * threads / double(codes);
}

std::vector<NarrowStream> narrow_streams(const ir::Function& form) {
    std::vector<NarrowStream> out;
    form.walk([&](InstId id) {
        const Inst& cast = form.inst(id);
        if (cast.op != Op::cast) return;
        const ValueId from = form.operands(cast)[0];
        const Format& codes = form.elem(from);
        if (codes.bits > 8 || codes.is_bool() || form.elem(form.result(cast)).bits < codes.bits || !feeds_product(form, form.result(cast))) return;
        const InstId source = source_of(form, from);
        const ValueId tensor = source.valid() ? tensor_of(form, source) : ValueId{};
        const auto known = [&](const NarrowStream& s) { return s.tensor == tensor; };
        if (!tensor.valid() || std::ranges::any_of(out, known)) return;
        const int64_t elements = form.type(from).shape.elements();
        NarrowStream stream{tensor, form.inst(source).span, elements, elements * codes.bits / 8, {}};
        if (form.inst(source).op == Op::load) count_accesses(form, source, stream.cost);
        if (const auto decoding = explain_decoding(form, cast))
            stream.cost.operations = decoding->each() * double(decoding->codes) * 32 * form.gpu->warps / double(elements);
        out.push_back(stream);
    });
    return out;
}

int param_number(const ir::Function& fn, ir::ValueId v) {
    const auto param = std::ranges::find(fn.params, v, &Param::value);
    if (param == fn.params.end()) return -1;
    return static_cast<int>(param->view ? param->view->of : param - fn.params.begin());
}

std::string param_name(const ir::Function& fn, ir::ValueId v) {
    const int number = param_number(fn, v);
    return number < 0 ? "" : fn.params[static_cast<size_t>(number)].name;
}

std::vector<explain::Note> explain_gpu(const ir::Function& fn, const GpuOptions& options) {
    std::vector<explain::Note> notes;
    const auto put = [&](Span span, auto&& fact) {
        if constexpr (requires { fact.has_value(); }) {
            if (fact) notes.push_back({span, std::move(*fact)});
        } else {
            notes.push_back({span, std::move(fact)});
        }
    };
    if (auto together = explain_cooperative(fn)) notes.push_back({{}, *together});
    if (auto split = explain_split(fn)) notes.push_back(std::move(*split));
    fn.walk([&](InstId id) {
        const Inst& inst = fn.inst(id);
        const Op op = inst.op;
        if (op == Op::cta_id && notes.empty()) put(inst.span, explain::Persistent{});
        if (is_product(op)) put(inst.span, explain_dot(fn, id, options));
        if (op == Op::ptx || op == Op::ptx_tile) {
            const Instruction i = instruction_of(fn, inst);
            put(inst.span, explain::OwnInstruction{i.name, i.form(*options.arch)->arch, i.result.group});
        }
        if (op == Op::load || op == Op::store || op == Op::atomic) put(inst.span, explain_access(fn, id, options));
        if (op == Op::ptr_load || op == Op::ptr_store || op == Op::ptr_atomic) put(inst.span, explain_pointers(fn, id, options));
        if (op == Op::convert) put(inst.span, explain_convert(fn, id));
        if (op == Op::cast && fn.type(fn.result(id)).shape.rank > 0) put(inst.span, explain_decoding(fn, inst));
    });
    for (const WideTile& tile : widest_tiles(fn))
        if (tile.local) put(tile.span, explain::LocalTile{tile.type(fn), tile.elements, tile.bytes});
    return notes;
}

}  // namespace tegula
