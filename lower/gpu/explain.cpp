// What `explain` says of a kernel's GPU form: per product the instruction, and why nothing better was possible; per access to memory its width and
// coalescing; per change of layout what moves the tile.
#include <algorithm>

#include "lang/gpu_scratch.h"
#include "lang/packed_view.h"
#include "lang/plain_text.h"
#include "lang/split_loop.h"
#include "lang/tensor_memory.h"
#include "lang/wide_access.h"
#include "lang/wide_tiles.h"
#include "lower/gpu/place.h"
#include "lower/gpu/place_groups.h"
#include "lower/gpu/rows.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

std::string shape_text(const ProductShape& s) {
    std::string out = std::to_string(s.m) + " x " + std::to_string(s.n) + " x " + std::to_string(s.k);
    return s.batch == 1 ? out : std::to_string(s.batch) + " times " + out;
}

std::string row_text(const MmaRow& row) {
    std::string out = row.name;
    if (!row.tensor_core()) return out + " (no tensor core)";
    out += " m" + std::to_string(row.m) + (row.from_shared() ? "nN" : "n" + std::to_string(row.n)) + "k" + std::to_string(row.k);
    return out;
}

std::string clocks(double cost) { return decimal_text(cost, 0, std::chars_format::fixed); }

/// The format of a product's operand before it was cast for the instruction.
FormatId given_format(const Function& fn, ValueId v) {
    const Inst* def = fn.def(v);
    while (def && (def->op == Op::convert || def->op == Op::permute || def->op == Op::reshape)) def = fn.def(v = fn.operands(*def)[0]);
    return fn.type(def && def->op == Op::cast ? fn.operands(*def)[0] : v).elem;
}

void explain_dot(const Function& fn, InstId id, const GpuOptions& options, std::vector<GpuNote>& notes) {
    const Inst& inst = fn.inst(id);
    const std::span<const MmaRow> rows = mma_rows();
    const int chosen = fn.gpu_inst(id).row;
    RowContext context;
    context.arch = options.arch;
    context.warps = fn.gpu->warps;
    context.shared_left = options.arch->shared_bytes;
    std::string text = "product " + shape_text(product_shape(fn, inst)) + ": " + row_text(rows[static_cast<size_t>(chosen)]);
    if (inst.op == Op::dot_scaled)
        text += ", with scales of blocks of " + std::to_string(fn.attrs(inst)[0]) + " and " + std::to_string(fn.attrs(inst)[1]);
    if (rows[static_cast<size_t>(chosen)].kind == MmaRow::tcgen05)
        text += ", its sum in " + std::to_string(tensor_columns(fn.type(fn.result(inst)).shape)) + " columns of tensor memory";
    if (fn.gpu_inst(id).late) text += ", under way while the next trip makes its first factor";
    std::vector<std::string> others;
    bool fits_formats = false;
    const std::vector<RowVerdict> verdicts = judge_rows(fn, inst, context);
    const auto taken = std::find_if(verdicts.begin(), verdicts.end(), [&](const RowVerdict& v) { return v.row == chosen; });
    for (const RowVerdict& v : verdicts) {
        const MmaRow& row = rows[static_cast<size_t>(v.row)];
        if (v.row == chosen) text += ", " + clocks(v.cost) + " clocks";
        if (v.row == chosen || v.row == 0 || (row.kind == MmaRow::dp4a && !v.legal)) continue;
        const bool formats = v.legal || v.refusal.rfind("takes ", 0) != 0;
        fits_formats = fits_formats || formats;
        // Cheaper and legal for this product alone: what it needs, other products have.
        const bool crowded = v.legal && row.from_shared() && taken != verdicts.end() && v.cost < taken->cost;
        const std::string why = v.legal ? clocks(v.cost) + " clocks" + (crowded ? ", but no room beside the other products" : "") : v.refusal;
        if (formats || chosen == 0) others.push_back(row_text(row) + ": " + why);
    }
    for (const MmaRow& row : rows) {
        const bool there = row.min_arch <= options.arch->number && options.arch->number <= row.max_arch && row.fraction_bits < 0;
        if (there && fn.type(fn.result(inst)).elem == row.acc && given_format(fn, fn.operands(inst)[0]) == row.a &&
            given_format(fn, fn.operands(inst)[1]) == row.b)
            others.insert(others.begin(), row_text(row) + ": " + kUnmeasured);
    }
    if (chosen == 0 && inst.op == Op::dot && others.empty())
        text += ": no tensor core of " + std::string(options.arch->name) + " accumulates in " + fn.elem(fn.result(inst)).name;
    // Many rows refuse for one reason; five lines say enough.
    for (size_t i = 0; i < std::min<size_t>(others.size(), 5); ++i) text += "; not " + others[i];
    notes.push_back({inst.span, text});
}

std::string bytes_text(int64_t bits) {
    return bits % 8 ? std::to_string(bits) + " bits" : std::to_string(bits / 8) + (bits == 8 ? " byte" : " bytes");
}

bool has_product(const Function& fn) {
    bool found = false;
    for_each_inst(fn, fn.body, [&](InstId id) { found = found || is_product(fn.inst(id).op); });
    return found;
}

/// Why TMA does not do what it could do for products and atomics.
std::string not_in_bulk(const Function& fn, InstId id, const GpuOptions& options, const TileLayout& l) {
    const Op op = fn.inst(id).op;
    if (!options.arch->tma || (op != Op::atomic && (op != Op::store || !has_product(fn)))) return "";
    const std::string why = bulk_refusal(fn, options, id, l);
    return why.empty() ? "" : "; not by TMA: " + why;
}

/// Width and coalescing of an access to a tensor.
void explain_access(const Function& fn, InstId id, const GpuOptions& options, std::vector<GpuNote>& notes) {
    const Inst& inst = fn.inst(id);
    const ValueId like = alike(fn, inst).like;
    if (fn.placement(like).kind != Placement::registers) return;
    const TileLayout& l = fn.placement(like).regs;
    const ValueId object = fn.operands(inst)[0];
    const auto param = std::find_if(fn.params.begin(), fn.params.end(), [&](const Param& p) { return p.value == object; });
    std::string text =
        op_row(inst.op).name + std::string(param == fn.params.end() ? "" : " of `" + param->name + "`") + " " + to_string(l.shape) + ": ";
    const int d = contiguous_dimension(fn, inst);
    if (fn.gpu_inst(id).bulk) {
        const auto boxes = store_boxes(fn, inst);
        notes.push_back({inst.span, text + "by TMA, each warp in boxes of " + std::to_string(boxes->lines()) + " x " +
                                        std::to_string(boxes->row_bytes / static_cast<int>(fn.elem(like).container_bytes())) + " through " +
                                        std::to_string(boxes->warp_bytes()) + " bytes of shared memory"});
        return;
    }
    if (const auto view = packed_view(fn, inst, l)) {
        text += std::to_string(view->words()) + " words of a thread by " + std::to_string(view->loads.size()) + " accesses of " +
                bytes_text(int64_t{view->grain} * 8);
    } else if (d < 0) {
        text += "no dimension of the tile is contiguous in memory, single elements";
    } else {
        const WideAccess wide = wide_access(fn, id, like);
        text += std::to_string(wide.vector) + (wide.vector == 1 ? " element (" : " elements (") +
                bytes_text(int64_t{wide.vector} * fn.elem(object).bits) + ") per thread" +
                (wide.shifted ? ", words shifted into place, " : " and access, ");
        text += whole_sectors(fn, inst, l) ? "whole sectors" : "parts of 32-byte sectors";
    }
    if (l.lane_copies() || l.warp_copies()) text += "; some threads hold copies";
    notes.push_back({inst.span, text + not_in_bulk(fn, id, options, l)});
}

/// What a cast of codes in words costs.
void explain_decoding(const Function& fn, const Inst& cast, std::vector<GpuNote>& notes) {
    const ValueId from = fn.operands(cast)[0], to = fn.result(cast);
    const auto view = words_of(fn, from);
    const std::optional<Fmt> target = decode_target(fn.type(to).elem);
    if (!view || !target || !has_decoding(fn.elem(from), *target)) return;
    const std::optional<PairTable> table = pair_table(fn);
    const Decoding decoding = decode_view(*view, fn.elem(from), *target, true, table && table->is_of(fn, cast));
    if (decoding.calls.empty()) return;
    const int64_t logic = decoding.logic(*view), arithmetic = decoding.arithmetic();
    const DecodePlan& plan = *decoding.calls[0].plan;
    const auto elements = static_cast<double>(view->bit.size());
    const auto share = [&](int64_t n) { return decimal_text(static_cast<double>(n) / elements, 2, std::chars_format::fixed); };
    const std::string codes = fn.elem(from).name;  // of a codebook without its values
    notes.push_back({cast.span, "codes of " + codes.substr(0, codes.find('[')) + " become " + fn.elem(to).name + " in " + share(logic + arithmetic) +
                                    " operations each, " + share(arithmetic) + " of them on floats: " + plan.text() + " for " +
                                    std::to_string(static_cast<size_t>(codes_per_word(*target)) * plan.pairs.size()) + (decoding.shifts ? ", of words that are shifted into place" : "")});
}

/// How wide the accesses to scratch are, and how many times as long as they need banks keep them.
std::string exchange_text(const TileLayout& from, const TileLayout& to, int bits) {
    const Exchange e = plan_exchange(from, to, bits);
    const auto side = [&](const char* verb, const TileLayout& l, int vector) {
        const int conflicts = exchange_conflicts(e, l, vector, bits);
        return std::string(", ") + verb + " " + bytes_text(int64_t{vector} * bits) + " at a time, " +
               (conflicts == 1 ? "no bank conflicts" : std::to_string(conflicts) + " accesses to a bank");
    };
    return side("written", from, e.write_vector) + side("read", to, e.read_vector);
}

/// How a tile changes hands, and what it costs.
void explain_convert(const Function& fn, InstId id, std::vector<GpuNote>& notes) {
    const Inst& inst = fn.inst(id);
    const Placement &from = fn.placement(fn.operands(inst)[0]), &to = fn.placement(fn.result(inst));
    std::string text = "tile " + to_string(fn.type(fn.result(inst)).shape) + " ";
    if (to.kind == Placement::shared) {
        text += "is put into shared memory (" + to.smem.text() + ") for a product";
    } else if (to.kind == Placement::tensor) {
        text += is_skipped_zero(fn, id) ? "of zeros needs no place: its product overwrites tensor memory" : "is put into tensor memory for a product";
    } else if (from.kind == Placement::tensor) {
        text += "is read from tensor memory into registers";
    } else if (from.kind == Placement::shared) {
        text += "is read from shared memory into registers";
    } else {
        const Conversion c = plan_conversion(from.regs, to.regs);
        text += "changes its layout: ";
        if (c.kind == Conversion::shuffle)
            text += std::to_string(c.shuffles) + " shuffles per thread";
        else if (c.kind == Conversion::shared)
            text += "through " + std::to_string(fn.gpu_inst(id).scratch_bytes) + " bytes of scratch" +
                    exchange_text(from.regs, to.regs,
                                  fn.type(fn.result(inst)).pointer ? 64 : 8 * static_cast<int>(fn.elem(fn.result(inst)).container_bytes()));
        else
            text += "registers are renamed";
    }
    if (fn.gpu_inst(id).global_scratch) text += ", in global memory: shared memory is too small";
    notes.push_back({inst.span, text});
}

void explain_split(const Function& fn, std::vector<GpuNote>& notes) {
    const auto split = parallel_split(fn);
    if (!split) return;
    const Inst& loop = fn.inst(split->loop);
    const auto step = hint_argument(fn.hints_of(loop), "split_k", "step");
    std::string text = "split sum: " + (split->parts ? std::to_string(split->parts) : std::string("as many")) + " stretches";
    if (step) text += " of " + std::to_string(*step) + " elements of K";
    if (split->parts == 0) text += " as the launch's K has, at least one";
    notes.push_back({loop.span, text + "; a CTA each, of which the last one to end adds the sums, " + std::to_string(split->bytes) +
                                    " bytes of workspace per stretch" +
                                    (split->parts ? "" : "; launches that are quicker so run them one after the other in each program")});
}

}  // namespace

std::vector<GpuNote> explain_gpu(const ir::Function& fn, const GpuOptions& options) {
    std::vector<GpuNote> notes;
    explain_split(fn, notes);
    for_each_inst(fn, fn.body, [&](InstId id) {
        const Op op = fn.inst(id).op;
        if (op == Op::cta_id && notes.empty())
            notes.push_back({fn.inst(id).span, "persistent: as many CTAs as the device holds at once, each running programs one after the other"});
        if (is_product(op)) explain_dot(fn, id, options, notes);
        if (op == Op::load || op == Op::store || op == Op::atomic) explain_access(fn, id, options, notes);
        if (op == Op::convert) explain_convert(fn, id, notes);
        if (op == Op::cast && fn.type(fn.result(id)).shape.rank > 0) explain_decoding(fn, fn.inst(id), notes);
    });
    for (const WideTile& tile : widest_tiles(fn))
        if (tile.local) notes.push_back({tile.span, tile.text(fn) + " do not fit in registers and lie in local memory"});
    return notes;
}

}  // namespace tegula
