// Instructions that programs declare: where the architecture has PTX for one, `ptx` or `ptx_tile` computes it, and what its body computed falls away;
// elsewhere, and where the pass is off, the body does. No bit of a result depends on it, as far as the text computes what the body says.
#include <algorithm>

#include "lang/instruction.h"
#include "lower/gpu/gpu.h"
#include "lower/lower.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

bool take_instructions(Function& fn, const GpuOptions& options, bool off) {
    std::vector<InstId> found;
    fn.walk([&](InstId id) {
        if (fn.inst(id).op == Op::instruction) found.push_back(id);
    });
    if (found.empty()) return false;
    for (const InstId id : found) {
        const Inst inst = fn.inst(id);
        const Instruction i = instruction_of(fn, inst);
        if (off || !i.form(*options.arch)) continue;
        const std::vector<ValueId> operands(fn.operands(inst).begin() + 1, fn.operands(inst).end());
        const std::vector<int64_t> attrs(fn.attrs(inst).begin(), fn.attrs(inst).end());
        const TypeId types[] = {fn.type_of(fn.result(inst))};
        const InstId made = fn.make(i.on_tiles() || i.grouped() ? Op::ptx_tile : Op::ptx, operands, types, attrs, inst.span);
        fn.insert_before(id, made);
        fn.operands(fn.inst(id))[0] = fn.result(made);
    }
    forget_instructions(fn);
    dce(fn);
    return true;
}

}  // namespace tegula
