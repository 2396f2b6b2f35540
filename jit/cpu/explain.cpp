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
#include "lang/meetings.h"
#include "lang/tensor_strides.h"

namespace tegula::cpu {

namespace {

bool writes_memory(ir::Op op) { return op == ir::Op::store || op == ir::Op::ptr_store || op == ir::Op::atomic || op == ir::Op::ptr_atomic; }

/// Names of the ops that are evaluated inside the loop nest of `inst`, each value's once.
void collect_fused(const ir::Function& fn, const Plan& plan, ir::ValueId v, std::map<uint32_t, bool>& seen, std::vector<std::string>& names) {
    if (plan.values[v.v].kind != Home::fused || !seen.emplace(v.v, true).second || seen.size() > 64) return;
    const ir::Inst* def = fn.def(v);
    if (!def) return;
    for (ir::ValueId operand : fn.operands(*def)) collect_fused(fn, plan, operand, seen, names);
    if (ir::has_trait(def->op, ir::FREE)) return;
    names.push_back(ir::op_row(def->op).name);
}

class Explainer {
public:
    Explainer(ir::Function fn, const LaunchFacts& facts, const TargetInfo& target, const PoolOptions& pool)
        : fn_(std::move(fn)),
          narrow_(transpose_narrow_products(fn_)),
          facts_(facts),
          target_(target),
          pool_(pool),
          plan_(make_plan(fn_, usual(fn_))),
          kept_rows_(fn_) {}

    std::vector<explain::Note> run() {
        notes_.push_back({{}, code()});
        notes_.push_back({{}, programs()});
        if (auto together = explain_cooperative(fn_)) notes_.push_back({{}, *together});
        if (explain::CpuStreams s = streams(); !s.read.empty() || !s.written.empty()) notes_.push_back({{}, std::move(s)});
        for (uint32_t b = 0; b < fn_.block_count(); ++b)
            for (ir::InstId id : fn_.block(ir::BlockId{b}).insts) explain_inst(id);
        return std::move(notes_);
    }

private:
    static CompileOptions usual(const ir::Function& fn) {
        CompileOptions options;
        options.tensors.resize(fn.params.size());
        return options;
    }

    /// Vectors, and the formats in their lanes, which are 32 bits wide whatever lies in them.
    explain::CpuCode code() const {
        explain::CpuCode out{target_.cpu_text(), target_.vector_reason, target_.vectors.bytes, {}, {}, false};
        FormatId narrowest{}, widest{};
        for (uint32_t v = 0; v < fn_.value_count(); ++v) {
            const Type& type = fn_.type(ir::ValueId{v});
            if (plan_.values[v].kind == Home::none || type.pointer || type.shape.rank == 0 || fn_.types().format(type.elem).is_bool()) continue;
            const auto bits = [&](FormatId id) { return fn_.types().format(id).bits; };
            if (narrowest.v == 0 || bits(type.elem) < bits(narrowest)) narrowest = type.elem;
            if (widest.v == 0 || bits(type.elem) > bits(widest)) widest = type.elem;
        }
        if (narrowest.v == 0) return out;
        const Format &low = fn_.types().format(narrowest), &high = fn_.types().format(widest);
        out.narrowest = low.name;
        if (!(low == high)) out.widest = high.name;
        out.two_registers = high.container_bytes() > 4;
        return out;
    }

    /// What the kernel says of its grid, "cdiv(N, 64)" x "4", and what follows from that for threads. How many programs there are is else known to
    /// who launches.
    explain::CpuPrograms programs() const {
        explain::CpuPrograms out;
        out.single = !facts_.grid.empty();  // axes that a kernel does not name have one program
        for (const auto& g : facts_.grid) {
            const bool known = g.at_most != INT64_MAX;
            out.single = out.single && known && g.at_most <= 0;
            out.grid.push_back(known              ? std::to_string(g.at_most + 1)
                               : g.extent.empty() ? "?"
                               : g.tile > 1       ? "cdiv(" + g.extent + ", " + std::to_string(g.tile) + ")"
                                                  : g.extent);
        }
        using Threads = explain::CpuPrograms;
        out.threads = ir::find_hint(fn_.hints, "cooperative") ? Threads::own : pool_.executor ? Threads::executor : Threads::pool;
        out.most_of_pool = static_cast<unsigned>(pool_.max_threads);
        out.pinned = pool_.pin;
        out.cores = std::max(1u, std::thread::hardware_concurrency());
        out.scratch_bytes = plan_.scratch_bytes;
        return out;
    }

    /// What becomes of the tensors that are larger than the caches.
    explain::CpuStreams streams() const {
        const std::vector<bool> streamable = streamable_params(fn_), written = written_params(fn_);
        explain::CpuStreams out;
        for (size_t i = 0; i < streamable.size(); ++i)
            if (streamable[i]) (written[i] ? out.written : out.read).push_back(fn_.params[i].name);
        return out;
    }

    void explain_inst(ir::InstId id) {
        const ir::Inst& inst = fn_.inst(id);
        if (inst.blocks.count) return;
        explain::CpuOperation out;
        out.op = ir::op_row(inst.op).name;
        for (uint32_t r = 0; r < inst.results.count; ++r) {
            const ir::ValueId v = fn_.result(inst, r);
            if (plan_.values[v.v].kind != Home::stored) continue;
            const char* why = plan_.values[v.v].why;
            out.stored.push_back({fn_.types().name(fn_.type_of(v)),
                                  static_cast<uint64_t>(fn_.type(v).shape.elements()) * (fn_.type(v).pointer ? 8 : fn_.elem(v).container_bytes()),
                                  why && fusable(fn_, inst) ? why : ""});
        }
        const bool follows = inst.op == ir::Op::ptr_store || (inst.op == ir::Op::ptr_load && plan_.values[fn_.result(inst).v].kind != Home::scalar &&
                                                              plan_.values[fn_.result(inst).v].kind != Home::none);
        out.nest = !out.stored.empty() || writes_memory(inst.op);
        if (!out.nest && !follows) return;
        if (out.nest) {
            std::map<uint32_t, bool> seen;
            for (ir::ValueId operand : fn_.operands(inst)) collect_fused(fn_, plan_, operand, seen, out.fused);
        }
        if (inst.op == ir::Op::store || (out.nest && fusable(fn_, inst) && fn_.type(fn_.result(inst)).shape.rank))
            out.order = plan_nest(fn_, plan_, usual(fn_), id, target_.vectors.bytes / 4).text;
        if (follows) out.pointers = pointer_text(fn_, plan_, id);
        if (inst.op == ir::Op::dot || inst.op == ir::Op::dot_scaled) out.product = product(id);
        notes_.push_back({inst.span, std::move(out)});
    }

    explain::CpuOperation::MatrixProduct product(ir::InstId id) const {
        const ir::Inst& inst = fn_.inst(id);
        const Product p = plan_product(fn_, inst, target_.vectors, &plan_);
        explain::CpuOperation::MatrixProduct out;
        out.m = p.m, out.n = fn_.type(fn_.result(inst)).shape[fn_.type(fn_.result(inst)).shape.rank - 1u], out.k = p.k * p.group();
        if (p.row) out.instruction = p.row->name;
        if (p.chain != Product::steps) {
            out.rows = static_cast<unsigned>(p.few ? p.m : p.rows);
            out.columns = static_cast<unsigned>(p.block());
            if (!p.few) out.packed_bytes = static_cast<uint64_t>(p.a_bytes + p.b_bytes);
        }
        out.transposed = std::find(narrow_.begin(), narrow_.end(), id) != narrow_.end();
        out.way = p.text();
        out.why = product_reasons(p, fn_, inst, target_.vectors);
        out.kept_rows = kept_rows_.of(id, fn_.type(fn_.result(inst)).shape.rank - 2u).has_value();
        if (!out.kept_rows) return out;
        const std::vector<Product> smaller = smaller_products(p, fn_, inst, target_.vectors, &plan_);
        if (!smaller.empty()) out.few_kept = smaller.back().m;
        return out;
    }

    ir::Function fn_;  ///< as it is compiled
    const std::vector<ir::InstId> narrow_;
    const LaunchFacts& facts_;
    const TargetInfo& target_;
    const PoolOptions& pool_;
    const Plan plan_;
    const KeptRows kept_rows_;
    std::vector<explain::Note> notes_;
};

}  // namespace

std::vector<explain::Note> explain(const ir::Function& fn, const LaunchFacts& facts, const TargetInfo& target, const PoolOptions& pool) {
    return Explainer(fn, facts, target, pool).run();
}

}  // namespace tegula::cpu
