// Failures that the `checked` variant finds (support_checks.h).
#include "jit/cpu/support_checks.h"

#include "lang/print_text.h"

namespace tegula::cpu {

void report_failure(Worker& worker, uint32_t inst, Failure failure, int64_t element, uint64_t code) {
    const ir::Function& fn = worker.launch().fn;
    const ir::Inst& i = fn.inst(ir::InstId{inst});
    const auto operands = fn.operands(i);
    const Shape* shape = i.results.count ? &fn.type(fn.result(i)).shape : nullptr;
    switch (failure) {
        case Failure::division_by_zero:
            return worker.report(inst, Diag::division_by_zero, {}, element, shape);
        case Failure::division_overflow:
            return worker.report(inst, Diag::division_overflow, {std::to_string(static_cast<int64_t>(code)), fn.elem(operands[0]).name}, element,
                                 shape);
        case Failure::gather_out_of_range: {
            const int64_t extent = fn.type(operands[0]).shape[static_cast<size_t>(fn.attrs(i)[0])];
            return worker.report(inst, Diag::gather_out_of_range, {number_text(fn.elem(operands[1]), code), std::to_string(extent)}, element, shape);
        }
        case Failure::assumption:
            return worker.report(inst, Diag::assumption_failed, {}, element, shape);
    }
}

void check_cast(Worker& worker, uint32_t inst, int64_t element, uint64_t code, uint64_t random) {
    const ir::Function& fn = worker.launch().fn;
    const ir::Inst& i = fn.inst(ir::InstId{inst});
    const Format &from = fn.elem(fn.operands(i)[0]), &to = fn.elem(fn.result(i));
    RoundSpec spec{static_cast<Round>(fn.attrs(i)[0]), Overflow::trap};
    if (spec.round == Round::stochastic) spec.random = stochastic_bits(random, static_cast<uint64_t>(element));
    if (spec.round == Round::bits) spec.random = given_bits(fn.elem(fn.operands(i)[1]), random);
    bool overflowed = false;
    convert(to, from, code, spec, &overflowed);
    if (overflowed) worker.report(inst, Diag::cast_overflow, {from.name, to.name}, element, &fn.type(fn.result(i)).shape);
}

}  // namespace tegula::cpu
