// Facts about single ops that plan.cpp and the emitters share: what can be evaluated at a point, what must lie in memory first.
#include <algorithm>
#include <bit>

#include "jit/cpu/plan.h"
#include "jit/cpu/product.h"

namespace tegula::cpu {

using ir::Op;

std::vector<ReshapeGroup> reshape_groups(const Shape& to, const Shape& from) {
    std::vector<ReshapeGroup> out;
    for (size_t i = 0, j = 0; i < to.rank || j < from.rank;) {
        ReshapeGroup group{i, i, j, j};
        int64_t x = i < to.rank ? to[i++] : 1, y = j < from.rank ? from[j++] : 1;
        while (x != y) (x < y ? x : y) *= x < y ? to[i++] : from[j++];
        group.to_end = i;
        group.from_end = j;
        out.push_back(group);
    }
    return out;
}

namespace {

/// What a value handed to a block or out of it comes from: loops' inits and what iterations yield, both sides of a branch.
std::vector<ir::ValueId> handed(const ir::Function& fn, ir::InstId owner, size_t block, size_t number) {
    const ir::Inst& inst = fn.inst(owner);
    const auto ends = [&](size_t k, size_t n) { return fn.operands(fn.inst(fn.block(fn.blocks(inst)[k]).insts.back()))[n]; };
    switch (inst.op) {
        case Op::for_loop:
            return {fn.operands(inst)[3 + number], ends(0, number)};
        case Op::while_loop:  // of its second block, and what it results in: what its first one passes on
            return block == 0 ? std::vector{fn.operands(inst)[number], ends(1, number)} : std::vector{ends(0, 1 + number)};
        case Op::if_else:
            return {ends(0, number), ends(1, number)};
        default:
            return {};
    }
}

/// The pointers that a tile of them is made from; none: not known.
std::vector<ir::ValueId> sources(const ir::Function& fn, ir::ValueId v) {
    const ir::Value& value = fn.value(v);
    const ir::Inst* inst = fn.def(v);
    if (!inst) {
        const ir::InstId owner = value.block.valid() ? fn.block(value.block).owner : ir::InstId{};
        if (!owner.valid()) return {};
        const auto blocks = fn.blocks(fn.inst(owner));
        const bool counter = fn.inst(owner).op == Op::for_loop;
        if (counter && value.index == 0) return {};
        return handed(fn, owner, static_cast<size_t>(std::find(blocks.begin(), blocks.end(), value.block) - blocks.begin()), value.index - counter);
    }
    switch (inst->op) {
        case Op::ptr_add:
        case Op::broadcast:
        case Op::reshape:
        case Op::permute:
        case Op::slice:
        case Op::tensor_ptr:
            return {fn.operands(*inst)[0]};
        case Op::select:
            return {fn.operands(*inst)[1], fn.operands(*inst)[2]};
        default:
            return handed(fn, value.def, SIZE_MAX, value.index);
    }
}

}  // namespace

int pointer_root(const ir::Function& fn, ir::ValueId v) {
    std::vector<ir::ValueId> all{v};
    int root = -1;
    for (size_t k = 0; k < all.size(); ++k) {
        const auto is_it = [&](const ir::Param& p) { return p.value == all[k]; };
        if (const auto p = std::find_if(fn.params.begin(), fn.params.end(), is_it); p != fn.params.end()) {
            const int number = static_cast<int>(p - fn.params.begin());
            if (root >= 0 && root != number) return -1;
            root = number;
            continue;
        }
        const std::vector<ir::ValueId> from = sources(fn, all[k]);
        if (from.empty()) return -1;
        for (ir::ValueId f : from)
            if (std::find(all.begin(), all.end(), f) == all.end()) all.push_back(f);
    }
    return root;
}

bool fusable(const ir::Function&, const ir::Inst& inst) { return inst.results.count == 1 && ir::has_trait(inst.op, ir::APART); }

namespace {

/// Is nothing but 1 behind this axis of operand 0?
bool runs_along(const ir::Function& fn, const ir::Inst& inst, int64_t axis) {
    const Shape& shape = fn.type(fn.operands(inst)[0]).shape;
    for (int64_t d = axis + 1; axis >= 0 && d < shape.rank; ++d)
        if (shape[static_cast<size_t>(d)] != 1) return false;
    return true;
}

/// What emit_tree.h needs at most, and copies of lines for regions that take single elements.
uint64_t tree_bytes(const ir::Function& fn, const ir::Inst& inst, int64_t axis) {
    constexpr uint64_t kSpare = 128;
    const uint64_t most_lanes = 16 * (inst.op == Op::reduce ? kMostTreeVectors : 1);
    const Shape& shape = fn.type(fn.operands(inst)[0]).shape;
    const auto n = static_cast<uint64_t>(axis < 0 ? shape.elements() : shape[static_cast<size_t>(axis)]);
    const uint64_t elements = std::bit_ceil(n) * (runs_along(fn, inst, axis) ? 1 : most_lanes / 2);
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < inst.results.count; ++k) {
        const ir::ValueId v = fn.result(inst, k);
        bytes += elements * (fn.type(v).pointer ? 8 : fn.elem(v).container_bytes()) + kSpare;
    }
    return bytes;
}

}  // namespace

bool wants_stored(const ir::Function& fn, const ir::Inst& inst, size_t k) {
    switch (inst.op) {
        case Op::dot:  // packs its operands
            return k < 2 && plan_product(fn, inst, {}).chain == Product::steps;
        case Op::gather:
            return k == 0;
        case Op::extract:
            return k == 0 && fn.type(fn.result(inst)).shape.rank > 0;
        case Op::reduce:  // a chain along the last dimension takes single elements
            return fn.attrs(inst)[1] == 1 && runs_along(fn, inst, fn.attrs(inst)[2]);
        case Op::scan:
            return runs_along(fn, inst, fn.attrs(inst)[1]);
        case Op::scan_region:
            return runs_along(fn, inst, fn.attrs(inst)[0]);
        default:
            return ir::has_trait(inst.op, ir::WHOLE);
    }
}

bool joins_in_any_order(const ir::Function& fn, const ir::Inst& inst) {
    if (inst.op != Op::reduce || fn.attrs(inst)[1] == 1) return false;
    const auto kind = static_cast<ir::ReduceKind>(fn.attrs(inst)[0]);
    using enum ir::ReduceKind;
    return kind == any || kind == all || kind == bit_and || kind == bit_or || kind == bit_xor || (kind == sum && fn.elem(fn.result(inst)).is_int());
}

uint64_t work_bytes(const ir::Function& fn, const ir::Inst& inst, const Plan& plan) {
    switch (inst.op) {
        case Op::dot:
        case Op::dot_scaled:
            return product_bytes(fn, inst, &plan);
        case Op::reduce:
            return joins_in_any_order(fn, inst) ? 0 : tree_bytes(fn, inst, fn.attrs(inst)[2]);
        case Op::reduce_region:
            return tree_bytes(fn, inst, fn.attrs(inst)[0]);
        case Op::sort: {  // results that nobody wants
            const Type& t = fn.type(fn.operands(inst)[0]);
            return static_cast<uint64_t>(t.shape.elements()) * (4 + (t.pointer ? 8 : fn.types().format(t.elem).container_bytes())) + 64;
        }
        default:
            return 0;
    }
}

bool checks(const ir::Function& fn, const ir::Inst& inst) {
    switch (inst.op) {
        case Op::div:
        case Op::rem:
        case Op::div_trunc:
        case Op::rem_trunc:
        case Op::div_ceil:
            return fn.elem(fn.operands(inst)[0]).is_int();
        case Op::cast:
            return static_cast<Overflow>(fn.attrs(inst)[1]) == Overflow::trap;
        default:
            return inst.op == Op::gather || inst.op == Op::assume;
    }
}

bool in_place(const ir::Function& fn, const ir::Inst& inst, size_t k) {
    if (inst.op == Op::dot || inst.op == Op::dot_scaled)
        return k == 2 && fn.operands(inst)[0] != fn.operands(inst)[2] && fn.operands(inst)[1] != fn.operands(inst)[2];
    return inst.op == Op::deposit && k == 0;
}

std::vector<bool> streamable_params(const ir::Function& fn) {
    std::vector<uint32_t> loads(fn.value_count()), stores(fn.value_count());
    bool products = false, other_writers = false;
    fn.walk([&](ir::InstId id) {
        const ir::Inst& inst = fn.inst(id);
        products = products || ir::is_product(inst.op);
        if (inst.op == Op::store)
            ++stores[fn.operands(inst)[0].v];
        else if (inst.op == Op::load)
            ++loads[fn.operands(inst)[0].v];
        else
            other_writers = other_writers || ir::has_trait(inst.op, ir::WRITES) || inst.op == Op::tensor_ptr;
    });
    const ArgLayout layout = make_arg_layout(fn, {});
    std::vector<bool> out;
    for (const ir::Param& p : fn.params) {
        const Type& type = fn.type(p.value);
        const bool read = loads[p.value.v], written = stores[p.value.v];
        const bool plain = type.kind == Type::tensor && has_byte_address(fn.elem(p.value).bits) && layout.params[out.size()].affine;
        out.push_back(plain && (written ? !read && stores[p.value.v] == 1 && !other_writers : read && !products));
    }
    return out;
}

}  // namespace tegula::cpu
