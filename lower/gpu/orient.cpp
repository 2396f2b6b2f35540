// Products whose second factor is decoded from narrower elements, and from narrower ones than the first, are turned: dot(a, b, c) =
// trans(dot(trans b, trans a, trans c)), so that what is decoded becomes operand A, which every instruction takes from registers; the few rows of the
// other factor are columns then, padded to 8 instead of 16 or 64. A sum that a loop carries is turned with its product. No bit of a result depends on
// it: order along K stays. Runs before rows are chosen.
#include <algorithm>

#include "lang/uses.h"
#include "lower/gpu/place.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

class Turner {
public:
    explicit Turner(Function& fn) : fn_(fn), uses_(fn) {}

    bool run() {
        std::vector<InstId> products;
        fn_.walk([&](InstId i) {
            if (is_product(fn_.inst(i).op)) products.push_back(i);
        });
        bool changed = false;
        for (const InstId id : products) changed = turn(id) || changed;
        return changed;
    }

private:
    TypeId turned_type(ValueId v) const {
        const Type& t = fn_.type(v);
        return fn_.types().tile(t.elem, Shape{t.shape[1], t.shape[0]});
    }
    ValueId made(Op op, ValueId from, TypeId type, std::span<const int64_t> attrs, InstId before, Span span) {
        const InstId id = fn_.make(op, {&from, 1}, {&type, 1}, attrs, span);
        fn_.insert_before(before, id);
        return fn_.result(id);
    }
    /// The transpose of a tile, in front of an instruction; of a transpose what it was made of.
    ValueId turned(ValueId v, InstId before) {
        static constexpr int64_t kSwap[] = {1, 0};
        const Inst* def = fn_.def(v);
        if (def && def->op == Op::permute && fn_.attrs(*def)[0] == 1) return fn_.operands(*def)[0];
        if (uint64_t code = 0; splat_code(fn_, v, code)) return insert_constant(fn_, before, turned_type(v), code);
        return made(Op::permute, v, turned_type(v), kSwap, before, fn_.inst(before).span);
    }

    /// The bits of what operand `which` is decoded from, or is to be for the product's instruction, as none takes elements of fewer than 8 bits beside wider
    /// ones; 0 of an operand that is not decoded.
    int narrow_bits(const Inst& dot, size_t which) const {
        if (const int bits = decoded_bits(fn_, dot, which)) return bits;
        const int bits = fn_.elem(fn_.operands(dot)[which]).bits, other = fn_.elem(fn_.operands(dot)[1 - which]).bits;
        return bits < 8 && bits < other ? bits : 0;
    }

    bool turn(InstId id) {
        const Inst inst = fn_.inst(id);
        const std::vector<ValueId> in(fn_.operands(inst).begin(), fn_.operands(inst).end());
        const ValueId result = fn_.result(inst);
        const int first = narrow_bits(inst, 0), second = narrow_bits(inst, 1);
        if (fn_.type(result).shape.rank != 2 || second == 0 || (first != 0 && first <= second)) return false;
        // The sum is carried by the loop around the product, and nothing else takes it on the way.
        const InstId loop = fn_.block(inst.parent).owner;
        if (!loop.valid() || fn_.inst(loop).op != Op::for_loop || fn_.def(in[2]) || !(fn_.value(in[2]).block == inst.parent)) return false;
        const uint32_t index = fn_.value(in[2]).index;
        const InstId yield = fn_.block(inst.parent).insts.back();
        if (index == 0 || uses_.count(in[2]) != 1 || uses_.count(result) != 1 || !(fn_.operands(fn_.inst(yield))[index - 1] == result)) return false;
        const ValueId sum = fn_.result(loop, index - 1);
        std::vector<ValueId> initial(fn_.operands(fn_.inst(loop)).begin(), fn_.operands(fn_.inst(loop)).end());
        initial[index + 2] = turned(initial[index + 2], loop);
        fn_.set_operands(loop, initial);
        std::vector<ValueId> operands = {turned(in[1], id), turned(in[0], id), in[2]};
        if (inst.op == Op::dot_scaled) {
            operands.insert(operands.end(), {turned(in[4], id), turned(in[3], id)});
            const int64_t blocks[] = {fn_.attrs(inst)[1], fn_.attrs(inst)[0]};
            fn_.set_attrs(id, blocks);
        }
        fn_.set_operands(id, operands);
        const TypeId before = fn_.type_of(result), after = turned_type(result);
        for (const ValueId v : {in[2], result, sum}) fn_.value(v).type = after;
        if (uses_.count(sum) == 0) return true;
        const std::vector<InstId>& list = fn_.block(fn_.inst(loop).parent).insts;
        const InstId next = *(std::find(list.begin(), list.end(), loop) + 1);
        static constexpr int64_t kSwap[] = {1, 0};
        const InstId back = fn_.make(Op::permute, {&sum, 1}, {&before, 1}, kSwap, fn_.inst(id).span);
        fn_.replace_uses(sum, fn_.result(back));
        fn_.set_operands(back, {&sum, 1});
        fn_.insert_before(next, back);
        return true;
    }

    Function& fn_;
    Uses uses_;
};

}  // namespace

bool orient_products(Function& fn) { return Turner(fn).run(); }

}  // namespace tegula
