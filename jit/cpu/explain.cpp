// `explain` for the CPU (explain.h), read off the plan that code is made from.
#include "jit/cpu/explain.h"

#include <algorithm>
#include <map>
#include <thread>
#include <vector>

#include "jit/cpu/kept_rows.h"
#include "jit/cpu/narrow_products.h"
#include "jit/cpu/nest_order.h"
#include "jit/cpu/plan.h"
#include "jit/cpu/pointer_text.h"
#include "jit/cpu/product.h"
#include "lang/tensor_strides.h"

namespace tegula::cpu {

namespace {

std::string bytes_text(uint64_t bytes) { return bytes >= 10240 ? std::to_string(bytes / 1024) + " KiB" : std::to_string(bytes) + " bytes"; }

struct Note {
    Span span;
    std::string text;
};

std::string place_text(const SourceMap& sources, Span span) {
    const LineCol at = sources.line_col(span.file, span.begin);
    return std::string(sources.name(span.file)) + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": ";
}

bool writes_memory(ir::Op op) { return op == ir::Op::store || op == ir::Op::ptr_store || op == ir::Op::atomic || op == ir::Op::ptr_atomic; }

/// Names of the ops that are evaluated inside the loop nest of `inst`, each once, "mul, add, load".
void collect_fused(const ir::Function& fn, const Plan& plan, ir::ValueId v, std::map<uint32_t, bool>& seen, std::string& names) {
    if (plan.values[v.v].kind != Home::fused || !seen.emplace(v.v, true).second || seen.size() > 64) return;
    const ir::Inst* def = fn.def(v);
    if (!def) return;
    for (ir::ValueId operand : fn.operands(*def)) collect_fused(fn, plan, operand, seen, names);
    if (def->op == ir::Op::constant || def->op == ir::Op::iota || def->op == ir::Op::broadcast) return;
    names += (names.empty() ? "" : ", ") + std::string(ir::op_row(def->op).name);
}

class Explainer {
public:
    Explainer(ir::Function fn, const LaunchFacts& facts, const TargetInfo& target, const SourceMap& sources, const PoolOptions& pool)
        : fn_(std::move(fn)),
          narrow_(transpose_narrow_products(fn_)),
          facts_(facts),
          target_(target),
          sources_(sources),
          pool_(pool),
          plan_(make_plan(fn_, usual(fn_))),
          kept_rows_(fn_) {}

    std::string run() {
        std::string out = "code for " + target_.cpu_text() + ": vectors of " + std::to_string(target_.vectors.bytes) + " bytes, as " +
                          target_.vector_reason + "; " + std::to_string(target_.vectors.bytes / 4) + " lanes per step of an inner loop, " +
                          widths_text() + "\n";
        out += programs_text() + "; a thread has " + bytes_text(plan_.scratch_bytes) + " of scratch memory\n";
        out += streams_text();
        for (uint32_t b = 0; b < fn_.block_count(); ++b)
            for (ir::InstId id : fn_.block(ir::BlockId{b}).insts) explain_inst(id);
        for (const Note& n : notes_) out += place_text(sources_, n.span) + n.text + "\n";
        return out;
    }

private:
    static CompileOptions usual(const ir::Function& fn) {
        CompileOptions options;
        options.tensors.resize(fn.params.size());
        return options;
    }

    /// Lanes are 32 bits wide, whatever lies in them.
    std::string widths_text() const {
        FormatId narrowest{}, widest{};
        for (uint32_t v = 0; v < fn_.value_count(); ++v) {
            const Type& type = fn_.type(ir::ValueId{v});
            if (plan_.values[v].kind == Home::none || type.pointer || type.shape.rank == 0 || fn_.types().format(type.elem).is_bool()) continue;
            const auto bits = [&](FormatId id) { return fn_.types().format(id).bits; };
            if (narrowest.v == 0 || bits(type.elem) < bits(narrowest)) narrowest = type.elem;
            if (widest.v == 0 || bits(type.elem) > bits(widest)) widest = type.elem;
        }
        if (narrowest.v == 0) return "of 32 bits";
        const Format &low = fn_.types().format(narrowest), &high = fn_.types().format(widest);
        std::string out = "of 32 bits whatever the elements, here `" + low.name + "`" + (low == high ? "" : " to `" + high.name + "`");
        return high.container_bytes() > 4 ? out + ", which takes two registers" : out;
    }

    /// What the kernel says of its grid, "cdiv(N, 64) x 4", and what follows from that for threads. How many programs there are is else known to who
    /// launches.
    std::string programs_text() const {
        std::string grid;
        bool single = !facts_.grid.empty();  // axes that a kernel does not name have one program
        for (const auto& g : facts_.grid) {
            const bool known = g.at_most != INT64_MAX;
            single = single && known && g.at_most <= 0;
            grid += (grid.empty() ? "" : " x ") + (known              ? std::to_string(g.at_most + 1)
                                                   : g.extent.empty() ? "?"
                                                   : g.tile > 1       ? "cdiv(" + g.extent + ", " + std::to_string(g.tile) + ")"
                                                                      : g.extent);
        }
        if (single) return "the grid has one program, which runs on the calling thread";
        return "programs of the grid" + (grid.empty() ? "" : " (" + grid + ")") + " run on " + threads_text() +
               ", as many as there are programs and at most `threads` of the launch (all cores by default, " +
               std::to_string(std::max(1u, std::thread::hardware_concurrency())) + " here)";
    }

    std::string threads_text() const {
        if (pool_.executor) return "threads of the host's executor";
        std::string out = "the threads of the pool";
        if (pool_.max_threads) out = "the calling thread and " + std::to_string(pool_.max_threads) + " of the pool";
        return pool_.pin ? out + ", each pinned to a core" : out;
    }

    /// What becomes of the tensors that are larger than the caches.
    std::string streams_text() const {
        const std::vector<bool> streamable = streamable_params(fn_), written = written_params(fn_);
        std::string reads, writes;
        for (size_t i = 0; i < streamable.size(); ++i) {
            std::string& names = written[i] ? writes : reads;
            if (streamable[i]) names += (names.empty() ? "`" : ", `") + fn_.params[i].name + "`";
        }
        if (reads.empty() && writes.empty()) return {};
        if (!reads.empty()) reads = "read ahead: " + reads + (writes.empty() ? "" : "; ");
        if (!writes.empty()) writes = "written past the caches: " + writes;
        return "tensors larger than the last-level caches are streamed; " + reads + writes + "\n";
    }

    void explain_inst(ir::InstId id) {
        const ir::Inst& inst = fn_.inst(id);
        if (inst.blocks.count) return;
        std::string text;
        for (uint32_t r = 0; r < inst.results.count; ++r) {
            const ir::ValueId v = fn_.result(inst, r);
            if (plan_.values[v.v].kind != Home::stored) continue;
            text += (text.empty() ? "" : ", ") + fn_.types().name(fn_.type_of(v)) + " is stored (" +
                    bytes_text(static_cast<uint64_t>(fn_.type(v).shape.elements()) * (fn_.type(v).pointer ? 8 : fn_.elem(v).container_bytes())) + ")";
            if (const char* why = plan_.values[v.v].why; why && fusable(fn_, inst)) text += std::string(", ") + why;
        }
        const bool follows = inst.op == ir::Op::ptr_store || (inst.op == ir::Op::ptr_load && plan_.values[fn_.result(inst).v].kind != Home::scalar &&
                                                              plan_.values[fn_.result(inst).v].kind != Home::none);
        if (text.empty() && !writes_memory(inst.op) && !follows) return;
        const bool apart = !text.empty() || writes_memory(inst.op);
        text = std::string(ir::op_row(inst.op).name) + ": " + (!text.empty() ? text : apart ? "one loop nest" : "fused into another's loops");
        std::map<uint32_t, bool> seen;
        std::string fused;
        for (ir::ValueId operand : fn_.operands(inst)) collect_fused(fn_, plan_, operand, seen, fused);
        if (!fused.empty() && apart) text += "; fused into its loops: " + fused;
        if (inst.op == ir::Op::store || (apart && fusable(fn_, inst) && fn_.type(fn_.result(inst)).shape.rank))
            if (const std::string way = plan_nest(fn_, plan_, usual(fn_), id, target_.vectors.bytes / 4).text; !way.empty()) text += "; " + way;
        if (follows) text += "; " + pointer_text(fn_, plan_, id);
        if (inst.op == ir::Op::dot || inst.op == ir::Op::dot_scaled) {
            const Product product = plan_product(fn_, inst, target_.vectors, &plan_);
            if (std::find(narrow_.begin(), narrow_.end(), id) != narrow_.end())
                text += "; computed as the transposed product, as there are few columns";
            text += "; " + product.text();
            if (kept_rows_.of(id, fn_.type(fn_.result(inst)).shape.rank - 2u)) {
                const std::vector<Product> smaller = smaller_products(product, fn_, inst, target_.vectors, &plan_);
                text += "; rows that no store keeps are left out";
                if (!smaller.empty()) text += ", up to " + std::to_string(smaller.back().m) + " kept ones are multiplied as few rows are";
            }
            text += "\n    why: " + product_reasons(product, fn_, inst, target_.vectors);
        }
        notes_.push_back({inst.span, text});
    }

    ir::Function fn_;  ///< as it is compiled
    const std::vector<ir::InstId> narrow_;
    const LaunchFacts& facts_;
    const TargetInfo& target_;
    const SourceMap& sources_;
    const PoolOptions& pool_;
    const Plan plan_;
    const KeptRows kept_rows_;
    std::vector<Note> notes_;
};

}  // namespace

std::string explain(const ir::Function& fn, const LaunchFacts& facts, const TargetInfo& target, const SourceMap& sources, const PoolOptions& pool) {
    return Explainer(fn, facts, target, sources, pool).run();
}

}  // namespace tegula::cpu
