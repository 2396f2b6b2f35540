// Accesses through pointers become accesses to tensors (views.h).
#include "lower/gpu/views.h"

#include <algorithm>
#include <bit>

#include "lang/access_operands.h"
#include "lang/launch_value.h"
#include "lang/layout.h"
#include "lower/gpu/view_plan.h"
#include "lower/lower.h"
#include "lower/recognise.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

class ViewRewriter : public Rewriter {
public:
    ViewRewriter(Function& fn, std::vector<ViewPlan> plans, std::span<const GpuTensor> traits)
        : Rewriter(fn), plans_(std::move(plans)), traits_(traits) {
        add_views();
    }

private:
    void add_views() {
        for (size_t i = 0; i < plans_.size(); ++i) {
            tensors_.emplace_back();
            if (!plans_[i].why_not.empty()) continue;
            const auto same = std::find_if(plans_.begin(), plans_.begin() + static_cast<std::ptrdiff_t>(i),
                                           [&](const ViewPlan& p) { return p.why_not.empty() && p.is_same_view(plans_[i]); });
            tensors_[i] =
                same == plans_.begin() + static_cast<std::ptrdiff_t>(i) ? add_view(plans_[i]) : tensors_[static_cast<size_t>(same - plans_.begin())];
        }
    }
    ValueId orphan(Op op, std::initializer_list<ValueId> operands, std::initializer_list<int64_t> attrs = {}) {
        const TypeId type = fn_.types().tile(Fmt::i64);
        return fn_.result(fn_.make(op, std::vector<ValueId>(operands), {&type, 1}, std::vector<int64_t>(attrs)));
    }
    /// Instructions that only a launch evaluates: they stand in no block.
    ValueId launch_value(const OffsetSum& sum) {
        ValueId out;
        for (const auto& [term, coefficient] : sum) {
            ValueId product;
            for (const uint32_t f : term.factors) product = product.valid() ? orphan(Op::mul, {product, ValueId{f}}) : ValueId{f};
            if (!product.valid() || coefficient != 1) {
                const ValueId by = orphan(Op::constant, {}, {coefficient});
                product = product.valid() ? orphan(Op::mul, {product, by}) : by;
            }
            out = out.valid() ? orphan(Op::add, {out, product}) : product;
        }
        return out.valid() ? out : orphan(Op::constant, {}, {0});
    }
    bool written(const ViewPlan& plan) const {
        return std::any_of(plans_.begin(), plans_.end(),
                           [&](const ViewPlan& p) { return p.why_not.empty() && p.root == plan.root && fn_.inst(p.access).op == Op::ptr_store; });
    }
    ValueId add_view(const ViewPlan& plan) {
        auto view = std::make_shared<PointerView>();
        view->of = plan.root;
        if (!plan.offset.empty()) view->offset = launch_value(plan.offset);
        Type type;
        type.kind = Type::tensor;
        type.elem = fn_.type(fn_.operands(fn_.inst(plan.access))[0]).elem;
        type.mode = written(plan) ? Mode::inout : Mode::in;
        view->may_turn = plan.may_turn;
        const size_t number = fn_.params.size();
        const bool turned = plan.may_turn && number < traits_.size() && traits_[number].turned;
        if (plan.col || turned) type.layout = fn_.types().intern(Layout::col());
        for (const ViewAxis& axis : plan.axes) {
            type.shape.push(kDynamic);
            view->extents.push_back(axis.extent ? launch_value(*axis.extent) : ValueId{});
            view->strides.push_back(launch_value(axis.stride));
            for (const auto& [term, coefficient] : axis.start)
                for (const uint32_t f : term.factors) add_condition(*view, ValueId{f});
        }
        for (const ViewPlan& p : plans_)
            if (p.why_not.empty() && p.is_same_view(plan)) add_limits(*view, p);
        std::string name = fn_.params[plan.root].name + "_view";
        const auto taken = [&] { return std::any_of(fn_.params.begin(), fn_.params.end(), [&](const Param& p) { return p.name == name; }); };
        for (int n = 2; taken(); ++n) name = fn_.params[plan.root].name + "_view" + std::to_string(n);
        const ValueId value = fn_.add_arg(fn_.body, fn_.types().intern(type));
        fn_.params.push_back({std::move(name), value, Param::tensor, std::move(view)});
        return value;
    }
    /// What masks compare must not wrap: each term stays below 2^56, in equal shares for its factors.
    void add_limits(PointerView& view, const ViewPlan& plan) {
        for (const OffsetSum& sum : plan.compared)
            for (const auto& [term, coefficient] : sum) {
                const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(coefficient < 0 ? -coefficient : coefficient)));
                const int share = term.factors.empty() ? 0 : std::max(56 - bits, 0) / static_cast<int>(term.factors.size());
                for (const uint32_t factor : term.factors)
                    visit_magnitude(fn_, ValueId{factor}, [&](ValueId v) {
                        const ValueId most = orphan(Op::constant, {}, {int64_t{1} << share});
                        view.nonnegative.push_back(orphan(Op::sub, {most, v}));
                        view.nonnegative.push_back(orphan(Op::add, {most, v}));
                    });
            }
    }
    void add_condition(PointerView& view, ValueId v) {
        if (known_at_launch(fn_, v) && std::find(view.nonnegative.begin(), view.nonnegative.end(), v) == view.nonnegative.end())
            view.nonnegative.push_back(v);
    }

    bool replace(InstId id, BlockId into) override {
        const auto plan = std::find_if(plans_.begin(), plans_.end(), [&](const ViewPlan& p) { return p.access == id && p.why_not.empty(); });
        if (plan == plans_.end()) return false;
        const Inst inst = fn_.inst(id);
        Builder b(fn_, into);
        b.set_span(inst.span);
        const ValueId tensor = tensors_[static_cast<size_t>(plan - plans_.begin())];
        inst.op == Op::ptr_load ? load(b, inst, *plan, tensor) : store(b, inst, *plan, tensor);
        return true;
    }
    ValueId emitted(Builder& b, const OffsetSum& sum) {
        ValueId out;
        for (const auto& [term, coefficient] : sum) {
            ValueId product;
            for (const uint32_t f : term.factors) {
                const ValueId factor = replaced_.of(ValueId{f});
                product = product.valid() ? b.elementwise(Op::mul, {product, factor}) : factor;
            }
            if (!product.valid())
                product = b.index(coefficient);
            else if (coefficient != 1)
                product = b.elementwise(Op::mul, {product, b.index(coefficient)});
            out = out.valid() ? b.elementwise(Op::add, {out, product}) : product;
        }
        return out.valid() ? out : b.index(0);
    }
    /// The part's dimensions among the tile's, and its extents; operands and attributes of the access.
    struct Part {
        std::vector<int> dims;
        Shape shape;
        std::vector<ValueId> operands;
        std::vector<int64_t> attrs;
        bool bounded = false;
    };
    Part part_of(Builder& b, const Inst& inst, const ViewPlan& plan, ValueId tensor) {
        Part part;
        Access access;
        access.flags = fn_.attrs(inst)[0] & ~int64_t{Access::has_mask | Access::has_other};
        part.operands.push_back(tensor);
        const Shape& tile = fn_.type(fn_.operands(inst)[0]).shape;
        for (const ViewAxis& axis : plan.axes) {
            part.operands.push_back(emitted(b, axis.start));
            Access::Axis a{Access::index, 1, 1, !axis.extent};
            if (axis.dim >= 0) {
                a = {Access::range, tile[static_cast<size_t>(axis.dim)], 1, !axis.extent};
                part.dims.push_back(axis.dim);
                part.shape.push(a.extent);
                part.bounded = part.bounded || axis.extent;
            }
            access.axes.push_back(a);
        }
        part.attrs.push_back(access.flags);
        const auto axes = access.encode_axes();
        part.attrs.insert(part.attrs.end(), axes.begin(), axes.end());
        return part;
    }
    void load(Builder& b, const Inst& inst, const ViewPlan& plan, ValueId tensor) {
        Part part = part_of(b, inst, plan, tensor);
        const TypeId type = fn_.types().tile(fn_.type(fn_.result(inst)).elem, part.shape);
        uint64_t code = 0;
        const AccessOperands access(fn_, inst);
        if (access.other && part.bounded && splat_code(fn_, access.other.value, code) && code != 0) {
            part.operands.push_back(b.constant(type, code));
            part.attrs[0] |= Access::has_other;
        }
        const ValueId loaded = fn_.result(b.emit(Op::load, part.operands, {&type, 1}, part.attrs));
        replaced_.set(fn_.result(inst), spread(b, loaded, part.dims, fn_.type(fn_.result(inst)).shape));
    }
    void store(Builder& b, const Inst& inst, const ViewPlan& plan, ValueId tensor) {
        Part part = part_of(b, inst, plan, tensor);
        std::vector<int> ascending = part.dims;
        std::sort(ascending.begin(), ascending.end());
        ValueId value = fn_.operands(inst)[1];
        Shape narrow;
        for (const int d : ascending) narrow.push(fn_.type(value).shape[static_cast<size_t>(d)]);
        value = b.reshape(value, narrow);
        std::vector<int64_t> axes;
        for (const int d : part.dims) axes.push_back(std::find(ascending.begin(), ascending.end(), d) - ascending.begin());
        if (!std::is_sorted(axes.begin(), axes.end())) value = b.permute(value, axes);
        part.operands.push_back(value);
        b.emit(Op::store, part.operands, {}, part.attrs);
    }

    std::vector<ViewPlan> plans_;
    std::span<const GpuTensor> traits_;
    std::vector<ValueId> tensors_;
};

/// Which values something needs, where a loop's member counts as needed only when its result or its argument is.
class Needs {
public:
    explicit Needs(const Function& fn) : fn_(fn), needed_(fn.value_count()) {
        fn.walk([&](InstId i) {
            const Inst& inst = fn_.inst(i);
            const bool counted = inst.op == Op::for_loop;
            if (inst.op == Op::yield && fn_.block(inst.parent).owner.valid() && fn_.inst(fn_.block(inst.parent).owner).op == Op::for_loop) return;
            const bool kept = (op_row(inst.op).traits & (WRITES | EFFECT | REGIONS | TERMINATOR)) != 0;
            if (kept)
                for (const ValueId v : fn_.operands(inst).first(counted ? 3 : inst.operands.count)) want(v);
        });
        while (!work_.empty()) {
            const ValueId v = work_.back();
            work_.pop_back();
            spread(v);
        }
    }
    bool of(ValueId v) const { return needed_[v.v]; }

private:
    void want(ValueId v) {
        if (needed_[v.v]) return;
        needed_[v.v] = true;
        work_.push_back(v);
    }
    void want_member(const Inst& loop, uint32_t k) {
        const BlockId body = fn_.blocks(loop)[0];
        want(fn_.operands(loop)[3 + k]);
        want(fn_.operands(fn_.inst(fn_.block(body).insts.back()))[k]);
        want(fn_.block(body).args[1 + k]);
        want(fn_.result(loop, k));
    }
    void spread(ValueId v) {
        const Value& value = fn_.value(v);
        const InstId owner = value.def.valid() ? value.def : fn_.block(value.block).owner;
        if (!owner.valid()) return;
        const Inst& inst = fn_.inst(owner);
        if (inst.op == Op::for_loop) {
            if (value.def.valid() || value.index > 0) want_member(inst, value.def.valid() ? value.index : value.index - 1);
            return;
        }
        if (value.def.valid())
            for (const ValueId o : fn_.operands(inst)) want(o);
    }

    const Function& fn_;
    std::vector<bool> needed_;
    std::vector<ValueId> work_;
};

/// The loop without the members that nothing needs.
bool narrow_loop(Function& fn, InstId id, const Needs& needs) {
    const Inst loop = fn.inst(id);
    const BlockId body = fn.blocks(loop)[0];
    const InstId last = fn.block(body).insts.back();
    const std::vector<ValueId> operands(fn.operands(loop).begin(), fn.operands(loop).end());
    const std::vector<ValueId> yielded(fn.operands(fn.inst(last)).begin(), fn.operands(fn.inst(last)).end());
    std::vector<ValueId> inits(operands.begin(), operands.begin() + 3), next, args{fn.block(body).args[0]}, old;
    std::vector<TypeId> types;
    for (uint32_t k = 0; k < loop.results.count; ++k) {
        if (!needs.of(fn.result(loop, k))) continue;
        inits.push_back(operands[3 + k]);
        next.push_back(yielded[k]);
        args.push_back(fn.block(body).args[1 + k]);
        old.push_back(fn.result(loop, k));
        types.push_back(fn.type_of(old.back()));
    }
    if (old.size() == loop.results.count) return false;
    const std::vector<int64_t> attrs(fn.attrs(loop).begin(), fn.attrs(loop).end());
    const InstId made = fn.make(Op::for_loop, inits, types, attrs, loop.span, std::vector<BlockId>{body});
    fn.set_operands(last, next);
    fn.block(body).args = args;
    for (uint32_t k = 0; k < args.size(); ++k) fn.value(args[k]).index = k;
    fn.insert_before(id, made);
    for (uint32_t k = 0; k < old.size(); ++k) fn.replace_uses(old[k], fn.result(made, k));
    std::vector<bool> dead(fn.inst_count());
    dead[id.v] = true;
    fn.remove_if(dead);
    fn.block(body).owner = made;
    return true;
}

}  // namespace

bool drop_carried(Function& fn) {
    const Needs needs(fn);
    std::vector<InstId> loops;
    fn.walk([&](InstId i) {
        if (fn.inst(i).op == Op::for_loop) loops.push_back(i);
    });
    bool changed = false;
    for (const InstId loop : loops) changed = narrow_loop(fn, loop, needs) || changed;
    return changed;
}

bool make_views(Function& fn, const LaunchFacts& facts, std::span<const GpuTensor> traits) {
    bool pointers = false;
    fn.walk([&](InstId i) { pointers = pointers || fn.inst(i).op == Op::ptr_load || fn.inst(i).op == Op::ptr_store; });
    if (!pointers || std::any_of(fn.params.begin(), fn.params.end(), [](const Param& p) { return p.view != nullptr; })) return false;
    std::vector<ViewPlan> plans = plan_views(fn, facts);
    if (std::none_of(plans.begin(), plans.end(), [](const ViewPlan& p) { return p.why_not.empty(); })) return false;
    ViewRewriter(fn, std::move(plans), traits).run();
    dce(fn);
    if (drop_carried(fn)) dce(fn);
    fold(fn);
    cse(fn);
    licm(fn);
    dce(fn);
    return true;
}

}  // namespace tegula
