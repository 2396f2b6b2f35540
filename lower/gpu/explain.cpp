// What `explain` says of a kernel's GPU form: per product the instruction, and why nothing better was possible.
#include <algorithm>
#include <cstdio>

#include "lower/gpu/gpu.h"
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
    if (row.kind == MmaRow::fma) return out + " (no tensor core)";
    out += " m" + std::to_string(row.m) + (row.kind == MmaRow::wgmma ? "nN" : "n" + std::to_string(row.n)) + "k" + std::to_string(row.k);
    return out;
}

std::string clocks(double cost) {
    char text[32];
    std::snprintf(text, sizeof text, "%.0f", cost);
    return text;
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
    if (inst.op == Op::dot_scaled) text += "; block scales are applied by fma";
    std::vector<std::string> others;
    bool fits_formats = false;
    for (const RowVerdict& v : judge_rows(fn, inst, context)) {
        const MmaRow& row = rows[static_cast<size_t>(v.row)];
        if (v.row == chosen) text += ", " + clocks(v.cost) + " clocks";
        if (v.row == chosen || v.row == 0) continue;
        const bool formats = v.legal || v.refusal.rfind("takes ", 0) != 0;
        fits_formats = fits_formats || formats;
        if (formats || chosen == 0) others.push_back(row_text(row) + ": " + (v.legal ? clocks(v.cost) + " clocks" : v.refusal));
    }
    if (chosen == 0 && inst.op == Op::dot && others.empty())
        text += ": no tensor core of " + std::string(options.arch->name) + " accumulates in " + fn.elem(fn.result(inst)).name;
    // Many rows refuse for one reason; five lines say enough.
    for (size_t i = 0; i < std::min<size_t>(others.size(), 5); ++i) text += "; not " + others[i];
    notes.push_back({inst.span, text});
}

}  // namespace

std::vector<GpuNote> explain_gpu(const ir::Function& fn, const GpuOptions& options) {
    std::vector<GpuNote> notes;
    for_each_inst(fn, fn.body, [&](InstId id) {
        const Op op = fn.inst(id).op;
        if (op == Op::dot || op == Op::dot_scaled) explain_dot(fn, id, options, notes);
    });
    return notes;
}

}  // namespace tegula
