// Function: pools of instructions, values and blocks behind typed ids. Ids are never reused; a removed instruction keeps its record but is
// in no block. Ranges point into append-only pools, so spans of operands are invalidated by `make` and by a growing `set_operands`.
#include "lang/ir.h"

#include <algorithm>

namespace tegula::ir {

std::vector<int64_t> Access::encode_axes() const {
    std::vector<int64_t> out;
    out.reserve(axes.size() * 4);
    for (const Axis& axis : axes) {
        out.push_back(axis.kind);
        out.push_back(axis.extent);
        out.push_back(axis.step);
        out.push_back(axis.in_bounds);
    }
    return out;
}

bool Access::gathers() const {
    return std::any_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.kind == gather; });
}

bool Access::steps() const {
    return std::any_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.kind == range && axis.step != 1; });
}

Access Function::access(const Inst& i) const {
    Access out;
    const std::span<const int64_t> a = attrs(i);
    const size_t first = i.op == Op::atomic ? 4 : 1;
    if (!a.empty()) out.flags = a[0];
    for (size_t at = first; at + 4 <= a.size(); at += 4) out.axes.push_back({static_cast<Access::Kind>(a[at]), a[at + 1], a[at + 2], a[at + 3] != 0});
    return out;
}

BlockId Function::add_block(InstId owner) {
    blocks_.emplace_back();
    blocks_.back().owner = owner;
    return {static_cast<uint32_t>(blocks_.size() - 1)};
}

ValueId Function::add_arg(BlockId block, TypeId type) {
    const ValueId id{static_cast<uint32_t>(values_.size())};
    Value v;
    v.type = type;
    v.block = block;
    v.index = static_cast<uint32_t>(blocks_[block.v].args.size());
    values_.push_back(v);
    blocks_[block.v].args.push_back(id);
    return id;
}

namespace {

/// Appends to a pool; `items` may point into the pool itself.
template <class T>
Range append_range(std::vector<T>& pool, std::span<const T> items) {
    const Range range{static_cast<uint32_t>(pool.size()), static_cast<uint32_t>(items.size())};
    const std::vector<T> copy(items.begin(), items.end());
    pool.insert(pool.end(), copy.begin(), copy.end());
    return range;
}

/// Overwrites in place when the count stays, else appends a new range.
template <class T>
void assign_range(std::vector<T>& pool, Range& range, std::span<const T> items) {
    if (items.size() != range.count) {
        range = append_range(pool, items);
        return;
    }
    const std::vector<T> copy(items.begin(), items.end());
    std::copy(copy.begin(), copy.end(), pool.begin() + range.begin);
}

}  // namespace

InstId Function::make(Op op, std::span<const ValueId> operands, std::span<const TypeId> results, std::span<const int64_t> attrs, Span span,
                      std::span<const BlockId> blocks) {
    const InstId id{static_cast<uint32_t>(insts_.size())};
    Inst inst;
    inst.op = op;
    inst.span = span;
    inst.operands = append_range(operand_pool, operands);
    inst.attrs = append_range(attr_pool, attrs);
    inst.blocks = append_range(block_pool, blocks);
    inst.results = {static_cast<uint32_t>(values_.size()), static_cast<uint32_t>(results.size())};
    for (uint32_t n = 0; n < results.size(); ++n) {
        Value v;
        v.type = results[n];
        v.def = id;
        v.index = n;
        values_.push_back(v);
    }
    insts_.push_back(inst);
    for (BlockId b : this->blocks(inst)) blocks_[b.v].owner = id;
    return id;
}

void Function::append(BlockId block, InstId inst) {
    blocks_[block.v].insts.push_back(inst);
    insts_[inst.v].parent = block;
}

void Function::insert_before(InstId where, InstId inst) {
    const BlockId parent = insts_[where.v].parent;
    TEGULA_CHECK(parent.valid());
    std::vector<InstId>& list = blocks_[parent.v].insts;
    const auto at = std::find(list.begin(), list.end(), where);
    TEGULA_CHECK(at != list.end());
    list.insert(at, inst);
    insts_[inst.v].parent = parent;
}

void Function::set_operands(InstId inst, std::span<const ValueId> operands) { assign_range(operand_pool, insts_[inst.v].operands, operands); }

void Function::set_attrs(InstId inst, std::span<const int64_t> attrs) { assign_range(attr_pool, insts_[inst.v].attrs, attrs); }

void Function::replace_uses(ValueId from, ValueId to) { std::replace(operand_pool.begin(), operand_pool.end(), from, to); }

void Function::remove_if(const std::vector<bool>& dead) {
    const auto is_dead = [&](InstId i) { return i.v < dead.size() && dead[i.v]; };
    for (Block& b : blocks_) {
        for (InstId i : b.insts)
            if (is_dead(i)) insts_[i.v].parent = {};
        std::erase_if(b.insts, is_dead);
    }
}

const Hint* find_hint(std::span<const Hint> hints, std::string_view name) {
    const auto at = std::find_if(hints.begin(), hints.end(), [&](const Hint& h) { return h.name == name; });
    return at == hints.end() ? nullptr : &*at;
}

std::optional<int64_t> hint_argument(std::span<const Hint> hints, std::string_view name, std::string_view key) {
    const Hint* hint = find_hint(hints, name);
    return hint && hint->key == key && hint->args.size() == 1 ? std::optional(hint->args[0]) : std::nullopt;
}

std::span<const Hint> Function::hints_of(const Inst& loop) const {
    const auto at = static_cast<size_t>(attrs(loop)[0]);
    return at < loop_hints.size() ? std::span<const Hint>(loop_hints[at]) : std::span<const Hint>();
}

uint32_t Function::add_string(std::string text) {
    const auto it = std::find(strings.begin(), strings.end(), text);
    if (it != strings.end()) return static_cast<uint32_t>(it - strings.begin());
    strings.push_back(std::move(text));
    return static_cast<uint32_t>(strings.size() - 1);
}

int64_t scale_stretch(const Function& fn, const Inst& dot_scaled) {
    const auto [shorter, longer] = std::minmax(fn.attrs(dot_scaled)[0], fn.attrs(dot_scaled)[1]);
    return longer % shorter ? 0 : shorter;
}

}  // namespace tegula::ir
