// Which tiles are fused into their consumers (planner.h). A value is evaluated at its sites: the roots that reach it through fused values. It is
// stored where that would be too late (memory has changed), too often, or in another block.
#include "jit/cpu/planner.h"

#include <algorithm>

#include "lang/access_operands.h"
#include "lang/program_order.h"

namespace tegula::cpu {

using ir::Op;

namespace {
constexpr size_t kMaxSites = 8;
constexpr size_t kLongTree = 200;          ///< values of one loop body, from which on it is cut where nothing must be evaluated twice for it
constexpr size_t kMaxTree = 600;           ///< values of one loop body
constexpr size_t kTriedAgain = 32;         ///< values that a long tree gains before such a place is looked for again
constexpr size_t kGrownAgain = 1000;       ///< instructions, at most, whose trees are grown again where one is cut
constexpr uint32_t kCheapAgain = 4;        ///< cost up to which evaluating twice beats storing
constexpr uint32_t kCheapAnywhere = 3;     ///< also inside loops below
constexpr uint64_t kQuickBytes = 1 << 17;  ///< that a first or second-level cache has room for
constexpr uint32_t kHeavy = 16;            ///< cost from which on an element takes as long to compute as to read from memory
}  // namespace

bool Planner::is_tile(ir::ValueId v) const { return fn_.type(v).kind == Type::tile && fn_.type(v).shape.rank > 0; }

void Planner::number(ir::BlockId block) {
    struct Frame {
        ir::BlockId block;
        size_t next = 0, child = 0;
    };
    std::vector<Frame> stack{{block}};
    for (ir::ValueId arg : fn_.block(block).args) home_[arg.v] = block;
    while (!stack.empty()) {
        Frame& f = stack.back();
        const auto& insts = fn_.block(f.block).insts;
        if (f.next == insts.size()) {
            stack.pop_back();
            continue;
        }
        const ir::InstId id = insts[f.next];
        const ir::Inst& inst = fn_.inst(id);
        if (f.child == 0) {
            at_[id.v] = static_cast<uint32_t>(order_.size());
            order_.push_back(id);
            for (uint32_t r = 0; r < inst.results.count; ++r) home_[fn_.result(inst, r).v] = f.block;
        }
        const auto blocks = fn_.blocks(inst);
        if (f.child < blocks.size()) {
            const ir::BlockId inner = blocks[f.child++];
            for (ir::ValueId arg : fn_.block(inner).args) home_[arg.v] = inner;
            stack.push_back({inner});
            continue;
        }
        end_[id.v] = static_cast<uint32_t>(order_.size()) - 1;
        ++f.next;
        f.child = 0;
    }
}

/// Does the instruction do something where it stands?
bool Planner::is_root(ir::InstId id) const {
    const ir::Inst& inst = fn_.inst(id);
    if (inst.results.count != 1 || !fusable(fn_, inst)) return true;
    return plan_.values[fn_.result(inst).v].kind != Home::fused;
}

bool Planner::keeps_point(const ir::Function& fn, const ir::Inst& inst, uint32_t k) {
    if (ir::has_trait(inst.op, ir::ELEMWISE)) return true;
    switch (inst.op) {
        case Op::select:
        case Op::bitcast:
        case Op::ptr_add:
        case Op::ptr_load:
            return true;
        case Op::cast:
            return k == 0 || static_cast<Round>(fn.attrs(inst)[0]) == Round::bits;
        case Op::gather:
            return k == 1;
        case Op::load:
        case Op::store:
        case Op::extract:  // behind the indices: value, other and mask have the part's points
            return k >= ir::AccessOperands(fn, inst).first;
        default:
            return false;
    }
}

void Planner::find_cost(ir::ValueId v) {
    const ir::Inst* inst = fn_.def(v);
    if (!inst || !is_tile(v)) return;
    uint32_t cost = ir::op_row(inst->op).cost;
    bool cheap = cost == 0 || ir::is_pointwise(inst->op) || inst->op == Op::ptr_add;
    const Format& f = fn_.elem(v);
    if (!fn_.type(v).pointer && (f.is_float() ? f.bits < 32 : !f.is_int() && !f.is_bool()) && cost == 1) cost = inst->op == Op::cast ? 3 : 6;
    for (ir::ValueId o : fn_.operands(*inst)) {
        if (!is_tile(o)) continue;
        cost = std::min(cost + cost_[o.v], 1u << 20);
        cheap = cheap && cheap_[o.v] == 2;
    }
    cost_[v.v] = cost;
    cheap_[v.v] = cheap && cost <= kCheapAnywhere && fusable(fn_, *inst) ? 2 : 1;
}

void Planner::find_sites(ir::ValueId v) {
    std::vector<ir::InstId>& sites = sites_[v.v];
    const auto add = [&](ir::InstId id) {
        if (sites.size() <= kMaxSites && std::find(sites.begin(), sites.end(), id) == sites.end()) sites.push_back(id);
    };
    for (const Use& use : uses_.of(v)) {
        if (is_root(use.inst))
            add(use.inst);
        else
            for (ir::InstId s : sites_[fn_.result(use.inst).v]) add(s);
    }
}

/// The last instruction that evaluates v, if what it makes takes as long to compute as v to read from memory.
ir::InstId Planner::heavy_site(ir::ValueId v) const {
    const auto& sites = sites_[v.v];
    if (sites.empty() || sites.size() > kMaxSites) return {};
    const ir::InstId last = *std::max_element(sites.begin(), sites.end(), [&](ir::InstId a, ir::InstId b) { return at_[a.v] < at_[b.v]; });
    const ir::Inst& inst = fn_.inst(last);
    return inst.results.count == 1 && cost_[fn_.result(inst).v] >= kHeavy ? last : ir::InstId{};
}

int Planner::param_of(ir::ValueId tensor) const {
    for (size_t i = 0; i < fn_.params.size(); ++i)
        if (fn_.params[i].value == tensor) return static_cast<int>(i);
    return -1;
}

/// One and the same access: each element is read before it is written, and never again.
bool Planner::updates_in_place(ir::InstId load, ir::InstId store) const {
    const ir::Inst &l = fn_.inst(load), &s = fn_.inst(store);
    if (l.op != Op::load || s.op != Op::store) return false;
    const ir::AccessOperands from(fn_, l), to(fn_, s);
    if (!(from.object == to.object)) return false;
    const int param = param_of(from.object);
    if (param < 0 || options_.bounds) return false;
    if (static_cast<size_t>(param) < options_.tensors.size() && options_.tensors[static_cast<size_t>(param)].strided) return false;
    const auto la = fn_.attrs(l), sa = fn_.attrs(s);
    if (!std::equal(la.begin() + 1, la.end(), sa.begin() + 1, sa.end())) return false;
    if (from.access.gathers()) return false;
    for (size_t a = 0; a < from.access.axes.size(); ++a)
        if (!(from.index[a].value == to.index[a].value)) return false;
    // Through point maps another element would be read.
    const uint32_t wanted = fn_.result(load).v;
    for (const ir::ValueId o : fn_.operands(s).subspan(to.first))
        for (const Leaf& leaf : trees_[o.v])
            if (leaf.first == wanted && leaf.second != 0) return false;
    return true;
}

bool Planner::may_touch_same(ir::InstId load, ir::InstId writer) const {
    const auto parameter = [&](const ir::Inst& inst) {
        const ir::ValueId object = fn_.operands(inst)[0];
        if (inst.op == Op::load || inst.op == Op::store || inst.op == Op::atomic) return param_of(object);
        return inst.op == Op::ptr_load || inst.op == Op::ptr_store || inst.op == Op::ptr_atomic ? pointer_root(fn_, object) : -1;
    };
    if (ir::orders_accesses(fn_, fn_.inst(writer))) return true;
    const int from = parameter(fn_.inst(load)), to = parameter(fn_.inst(writer));
    return options_.may_alias || from < 0 || to < 0 || from == to;
}

bool Planner::load_may_move(ir::ValueId v) const {
    const ir::InstId load = fn_.value(v).def;
    for (ir::InstId site : sites_[v.v]) {
        auto w = std::upper_bound(writers_.begin(), writers_.end(), at_[load.v]);
        for (; w != writers_.end() && *w <= end_[site.v]; ++w) {
            const ir::InstId writer = order_[*w];
            if (!may_touch_same(load, writer)) continue;
            if (writer == site && updates_in_place(load, writer)) continue;
            return false;
        }
    }
    return true;
}

/// Trees of reductions join leaves that lie far apart, of which few are made at a time, and the masked ones together with others.
bool Planner::is_better_stored(ir::ValueId v) const {
    const auto by_tree = [&](const Use& use) {
        const ir::Inst& inst = fn_.inst(use.inst);
        return inst.op == Op::reduce && fn_.attrs(inst)[1] == 0 && !joins_in_any_order(fn_, inst);
    };
    if (fn_.type(v).pointer || cost_[v.v] < kHeavy) return false;
    const uint64_t bytes = static_cast<uint64_t>(fn_.type(v).shape.elements()) * fn_.elem(v).container_bytes();
    return bytes <= kQuickBytes && std::ranges::any_of(uses_.of(v), by_tree);
}

/// Null: it need not be.
const char* Planner::why_stored(ir::ValueId v) {
    const ir::Inst& inst = *fn_.def(v);
    if (!fusable(fn_, inst)) return "made as a whole";
    if (options_.bounds && inst.op == Op::load) return "read where it stands, as what it reports comes in the program's order";
    if (options_.checked && checks(fn_, inst)) return "made where it stands, as what it reports comes in the program's order";
    for (const Use& use : uses_.of(v))
        if (wants_stored(fn_, fn_.inst(use.inst), use.operand)) return "used by what takes it from memory";
    if (cheap_[v.v] == 2) return nullptr;
    if (sites_[v.v].size() > kMaxSites) return "used in more loops than would make it again";
    for (ir::InstId site : sites_[v.v])
        if (!(fn_.inst(site).parent == home_[v.v]) || !fn_.blocks(fn_.inst(site)).empty())
            return "used inside of a loop or branch, which would make it again";
    if (sites_[v.v].size() > 1 && cost_[v.v] > kCheapAgain) return "used in several loops, and dearer to make again than to read";
    if (is_better_stored(v)) return "dearer to make than to read, which loops of its own do several vectors at a time";
    return (inst.op == Op::load || inst.op == Op::ptr_load) && !load_may_move(v) ? "read where it stands, as memory changes before its use" : nullptr;
}

void Planner::decide() {
    for (ir::InstId id : order_) {
        const ir::Inst& inst = fn_.inst(id);
        for (uint32_t r = 0; r < inst.results.count; ++r) {
            const ir::ValueId v = fn_.result(inst, r);
            if (is_tile(v) && fusable(fn_, inst)) plan_.values[v.v].kind = Home::fused;
            find_cost(v);
        }
    }
    grow_trees();
    for (size_t i = order_.size(); i-- > 0;) {
        const ir::Inst& inst = fn_.inst(order_[i]);
        for (uint32_t r = 0; r < inst.results.count; ++r) {
            const ir::ValueId v = fn_.result(inst, r);
            if (!is_tile(v)) continue;
            find_sites(v);
            Home& home = plan_.values[v.v];
            if (inst.op == Op::load) home.heaviest = heavy_site(v);
            if (uses_.of(v).empty())
                home.kind = Home::none;
            else if (home.kind != Home::stored && (home.why = why_stored(v)))
                home.kind = Home::stored;
        }
    }
    grow_trees();  // what is stored by now is a leaf
}

/// A chain of point maps by number: the same instruction after the same chain is the same one.
uint32_t Planner::point_map(ir::InstId id, uint32_t k, uint32_t inner) {
    const uint64_t key = uint64_t{id.v} << 16 | std::min(k, 0xffffu);
    return maps_.emplace(std::pair{key, inner}, static_cast<uint32_t>(maps_.size() + 1)).first->second;
}

void Planner::add_tree(Tree& tree, ir::InstId user, uint32_t k) {
    const ir::ValueId v = fn_.operands(fn_.inst(user))[k];
    if (!is_tile(v)) return;
    const bool same = keeps_point(fn_, fn_.inst(user), k);
    Tree more{{v.v, 0}};
    if (plan_.values[v.v].kind == Home::fused) more.insert(more.end(), trees_[v.v].begin(), trees_[v.v].end());
    if (!same)
        for (Leaf& leaf : more) leaf.second = point_map(user, k, leaf.second);
    tree.insert(tree.end(), more.begin(), more.end());
    std::sort(tree.begin(), tree.end());
    tree.erase(std::unique(tree.begin(), tree.end()), tree.end());
}

/// What evaluating each value reads, without what is stored on the way. Trees that make a body too large are cut: something in them is stored, and
/// what was grown from it is grown again, else all that is alive beside it would be stored, too.
void Planner::grow_trees() {
    for (size_t i = 0; i < order_.size(); ++i) {
        const ir::Inst& inst = fn_.inst(order_[i]);
        if (inst.results.count != 1 || !is_tile(fn_.result(inst))) continue;
        const auto operands = fn_.operands(inst);
        Tree& tree = trees_[fn_.result(inst).v];
        tree.clear();
        size_t before = 0;
        for (uint32_t k = 0; k < operands.size() && tree.size() <= 2 * kMaxTree; ++k) {
            add_tree(tree, order_[i], k);
            before = std::max(before, trees_[operands[k].v].size());
        }
        if (tree.size() <= kLongTree || (tree.size() <= kMaxTree && before > kLongTree && tree.size() / kTriedAgain == before / kTriedAgain))
            continue;
        const ir::ValueId cut = cut_tree(order_[i], tree);
        if (!cut.valid()) continue;
        plan_.values[cut.v].kind = Home::stored;
        plan_.values[cut.v].why = "the body of the loop that uses it would be too long";
        i = std::max<size_t>(at_[fn_.value(cut).def.v], i - std::min(i, kGrownAgain));
    }
}

/// The fused value to store so that the tree of an instruction becomes smaller: of those that take a good part away, the one below which others than
/// itself read least, which must be nothing as long as the tree is not too large; else the operand with the largest tree.
ir::ValueId Planner::cut_tree(ir::InstId user, const Tree& tree) {
    const auto fused = [&](uint32_t v) { return plan_.values[v].kind == Home::fused; };
    std::vector<uint32_t> below(fn_.value_count());  // by the number of the candidate that was tried
    uint32_t number = 0, last = UINT32_MAX;
    size_t least = tree.size() <= kMaxTree ? 1 : SIZE_MAX, most = 0;
    ir::ValueId best;
    for (const auto& [c, map] : tree) {
        const Tree& part = trees_[c];
        if (c == last || !fused(c) || part.size() < tree.size() / 4) continue;
        last = c;
        below[c] = ++number;
        for (const auto& [v, inner] : part) below[v] = number;
        const auto outside = [&](const Use& use) {
            const ir::Inst& inst = fn_.inst(use.inst);
            return inst.results.count != 1 || below[fn_.result(inst).v] != number;
        };
        size_t shared = 0;
        for (const auto& [v, inner] : part) shared += cost_[v] > kCheapAgain && std::ranges::any_of(uses_.of(ir::ValueId{v}), outside);
        if (shared < least || (shared == least && best.valid() && part.size() > most)) least = shared, most = part.size(), best = ir::ValueId{c};
    }
    if (best.valid() || tree.size() <= kMaxTree) return best;
    for (ir::ValueId o : fn_.operands(fn_.inst(user)))
        if (is_tile(o) && fused(o.v) && (!best.valid() || trees_[o.v].size() > trees_[best.v].size())) best = o;
    return best;
}

Plan Planner::run() {
    plan_.options = options_;
    const size_t values = fn_.value_count(), insts = fn_.inst_count();
    plan_.values.resize(values);
    plan_.work.resize(insts);
    plan_.held.resize(insts);
    at_.resize(insts);
    end_.resize(insts);
    home_.resize(values);
    cost_.resize(values);
    cheap_.resize(values, 1);
    sites_.resize(values);
    trees_.resize(values);
    number(fn_.body);
    for (const ir::InstId id : order_)
        if (ir::has_trait(fn_.inst(id).op, ir::WRITES)) writers_.push_back(at_[id.v]);
    for (uint32_t v = 0; v < values; ++v) {
        const ir::ValueId id{v};
        const Type& t = fn_.type(id);
        if (t.kind != Type::tile) continue;
        if (t.shape.rank == 0)
            plan_.values[v].kind = Home::scalar;
        else if (!fn_.def(id))
            plan_.values[v].kind = Home::stored;
    }
    find_unseen_nans();
    decide();
    store_all();
    return std::move(plan_);
}

Plan make_plan(const ir::Function& fn, const CompileOptions& options) { return Planner(fn, options).run(); }

}  // namespace tegula::cpu
