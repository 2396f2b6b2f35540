// Recognition: index form becomes what hardware knows. Gathers by iota become ranges (recognise_access.cpp), contractions over broadcast
// operands become `dot` (recognise_products.cpp). The products keep the contraction's own chain of fmas, so no bit changes.
#include "lower/recognise.h"

#include <algorithm>
#include <numeric>

#include "lower/lower.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

ValueId spread(Builder& b, ValueId v, const std::vector<int>& dims, const Shape& shape) {
    std::vector<int64_t> order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return dims[static_cast<size_t>(x)] < dims[static_cast<size_t>(y)]; });
    if (!std::is_sorted(order.begin(), order.end())) v = b.permute(v, order);
    Shape widened;
    for (size_t d = 0; d < shape.rank; ++d) {
        const bool present = std::find(dims.begin(), dims.end(), static_cast<int>(d)) != dims.end();
        widened.push(present ? shape[d] : 1);
    }
    return b.broadcast(b.reshape(v, widened), shape);
}

namespace {

class Recogniser : public Rewriter {
public:
    using Rewriter::Rewriter;

private:
    bool replace(InstId id, BlockId into) override {
        const Inst inst = fn_.inst(id);
        Builder b(fn_, into);
        b.set_span(inst.span);
        const ValueId made = made_of(b, inst);
        if (made.valid()) replaced_.set(fn_.result(inst), made);
        return made.valid();
    }
    ValueId made_of(Builder& b, const Inst& inst) const {
        if (inst.op == Op::extract || inst.op == Op::load) return make_slices(b, inst);
        if (inst.op != Op::contract) return {};
        const ProductPlan plan = plan_product(fn_, inst);
        return plan.refusal.empty() ? make_product(b, inst, plan) : ValueId{};
    }
};

}  // namespace

bool recognise(Function& fn) { return Recogniser(fn).run(); }

std::vector<explain::Note> explain_products(const Function& fn) {
    std::vector<explain::Note> notes;
    fn.walk([&](InstId i) {
        const Inst& inst = fn.inst(i);
        if (is_product(inst.op)) notes.push_back({inst.span, explain::Recognition{.op = op_row(inst.op).name, .refusal = {}}});
        if (inst.op != Op::contract) return;
        const ProductPlan plan = plan_product(fn, inst);
        explain::Recognition found{.op = {}, .refusal = plan.refusal};
        const auto count = [](const std::vector<int>& dims) { return static_cast<int>(dims.size()); };
        if (found.recognised()) found.rows = count(plan.rows), found.columns = count(plan.columns), found.batch = count(plan.batch);
        notes.push_back({inst.span, std::move(found)});
    });
    return notes;
}

}  // namespace tegula
