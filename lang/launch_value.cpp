#include "lang/launch_value.h"

#include <vector>

#include "lang/evaluate.h"
#include "lang/scalar.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kMaxDepth = 100;  ///< of expressions

bool is_number(const Function& fn, ValueId v) {
    const Type& type = fn.type(v);
    return type.kind == Type::tile && !type.pointer && type.shape.rank == 0 && (fn.elem(v).is_int() || fn.elem(v).is_bool());
}

}  // namespace

std::optional<uint64_t> ScalarValues::code(ValueId v) {
    if (const auto it = known_.find(v.v); it != known_.end()) return it->second;
    if (depth_ == kMaxDepth || !is_number(fn_, v)) return std::nullopt;
    ++depth_;
    const std::optional<uint64_t> out = known_[v.v] = compute(v);
    --depth_;
    return out;
}

std::optional<uint64_t> ScalarValues::compute(ValueId v) {
    if (const auto known = scalar_constant(fn_, v)) return known;
    const Inst* def = fn_.def(v);
    const bool elementwise = def && has_trait(def->op, ELEMWISE);
    if (!elementwise && (!def || (def->op != Op::cast && def->op != Op::bitcast && def->op != Op::select))) return given_(v);
    std::vector<uint64_t> codes;
    for (ValueId operand : fn_.operands(*def)) {
        const auto known = code(operand);
        if (!known) return std::nullopt;
        codes.push_back(*known);
    }
    const Format& from = fn_.elem(fn_.operands(*def)[0]);
    if (elementwise) return scalar::eval_elementwise(def->op, from, codes);  // quotients by zero are 0, whoever reports them
    return evaluate_scalar(def->op, fn_.attrs(*def), from, fn_.elem(v), codes);
}

std::optional<LaunchScalar> launch_scalar(const Function& fn, ValueId v) {
    const auto numbered = [&](ValueId wanted) -> std::optional<size_t> {
        for (size_t i = 0; i < fn.params.size(); ++i)
            if (fn.params[i].value == wanted) return i;
        return std::nullopt;
    };
    const Inst* def = fn.def(v);
    if (!def) {
        const auto param = numbered(v);
        return param && is_number(fn, v) ? std::optional(LaunchScalar{LaunchScalar::parameter, *param}) : std::nullopt;
    }
    if (def->op == Op::num_programs) return LaunchScalar{LaunchScalar::programs, 0, static_cast<int>(fn.attrs(*def)[0])};
    if (def->op != Op::dim) return std::nullopt;
    const auto param = numbered(fn.operands(*def)[0]);
    return param ? std::optional(LaunchScalar{LaunchScalar::extent, *param, static_cast<int>(fn.attrs(*def)[0])}) : std::nullopt;
}

bool known_at_launch(const Function& fn, ValueId v) {
    return ScalarValues(fn, [&](ValueId given) { return launch_scalar(fn, given) ? std::optional<uint64_t>(1) : std::nullopt; }).code(v).has_value();
}

}  // namespace tegula
