// The list of optional passes, in order, with their switches (passes.def).
#include "lower/kernel/pipeline.h"

#include <algorithm>

#include "lang/ir_text.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/packed/packed.h"
#include "lower/kernel/product/product.h"

namespace tegula::lower {

namespace {

struct Row {
    KernelPass pass;
    std::string_view name;
    void (*plan)(Lowering& ctx);
    std::string_view decision, doc;
};

constexpr Row kRows[] = {
#define KERNEL_PASS(name, plan, decision, doc) {KernelPass::name, #name, plan, decision, doc},
#include "lower/kernel/passes.def"
#undef KERNEL_PASS
};

bool is_off(const KernelOptions& options, std::string_view name) {
    return std::ranges::any_of(options.disabled, [&](const std::string& d) { return d == name || d == "all"; });
}

/// A line for each decision, under the names that the text of the form gives to its values.
std::string plan_text(const Lowering& ctx) {
    const std::vector<std::string> names = ir::value_names(ctx.fn);
    std::string out;
    for (const Row& row : kRows) {
        const std::string start = std::string(row.name) + ": ";
        if (!ctx.plan.runs(row.pass)) out += start + "off: " + std::string(row.doc) + "\n";
        for (uint32_t v = 0; v < names.size(); ++v)
            if (ctx.plan.has(row.pass, ir::ValueId{v}))
                out += start + names[v] + " " + std::string(row.decision) + "\n";
        if (row.pass == KernelPass::residency && ctx.kernel.resident_programs > 1)
            out += start + std::to_string(ctx.kernel.resident_programs) + " programs share a multiprocessor\n";
    }
    return out;
}

}  // namespace

void make_plan(Lowering& ctx, const KernelOptions& options) {
    for (const Row& row : kRows) {
        if (is_off(options, row.name))
            ctx.plan.turn_off(row.pass);
        else if (row.plan)
            row.plan(ctx);
        if (row.plan && options.after) options.after(row.name, plan_text(ctx));
    }
}

void finish_plan(const Lowering& ctx, const KernelOptions& options) {
    for (const Row& row : kRows)
        if (!row.plan && options.after) options.after(row.name, plan_text(ctx));
}

}  // namespace tegula::lower

namespace tegula {

std::vector<std::string_view> kernel_pass_names() {
    std::vector<std::string_view> names;
    for (const lower::Row& row : lower::kRows) names.push_back(row.name);
    return names;
}

}  // namespace tegula
