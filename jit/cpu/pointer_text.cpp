// How pointers move along a dimension, as far as that is known before a kernel runs (pointer_text.h): what LaneSteps makes code of.
#include "jit/cpu/pointer_text.h"

#include <algorithm>

#include "jit/cpu/abi.h"

namespace tegula::cpu {

using ir::Op;

namespace {

class PointerText {
public:
    PointerText(const ir::Function& fn, const Plan& plan) : fn_(fn), plan_(plan) {}

    std::string of(ir::ValueId pointers) {
        const Type& type = fn_.type(pointers);
        if (!has_byte_address(fn_.elem(pointers).bits)) return "followed one by one, as elements are no whole bytes";
        if (pointer_root(fn_, pointers) < 0) return "followed one by one, as they may belong to any argument";
        int along = type.shape.rank - 1;
        while (along >= 0 && type.shape[static_cast<size_t>(along)] == 1) --along;
        if (along < 0) return "followed one by one";
        const Step step = along_dimension(pointers, along);
        const std::string where = " along dimension " + std::to_string(along);
        if (step == one) return "side by side" + where + ": one access per vector, checked once per row";
        if (step == given)
            return "side by side" + where + " where the stride is 1, which each row tests; else each is checked, and vectors are gathered";
        return "each is checked, and vectors of others than neighbours are gathered, as " + (step == same ? "all are equal" + where : why_);
    }

private:
    enum Step { same, one, given, apart };  ///< from neighbour to neighbour; given: by a number that the run knows

    Step not_known(std::string why) {
        if (why_.empty()) why_ = std::move(why);
        return apart;
    }

    Step along_dimension(ir::ValueId v, int d) {
        const Type& type = fn_.type(v);
        if (d < 0 || type.shape.rank == 0 || type.shape[static_cast<size_t>(d)] == 1) return same;
        const ir::Inst* inst = fn_.def(v);
        if (!inst || plan_.values[v.v].kind != Home::fused)
            return not_known(type.pointer ? "the pointers lie in scratch memory" : "offsets lie in scratch memory");
        const auto operands = fn_.operands(*inst);
        const auto attrs = fn_.attrs(*inst);
        switch (inst->op) {
            case Op::constant:
                return same;
            case Op::iota:
                return attrs[0] == d ? one : same;
            case Op::broadcast:
                return along_dimension(operands[0], d - type.shape.rank + fn_.type(operands[0]).shape.rank);
            case Op::permute:
                return along_dimension(operands[0], static_cast<int>(attrs[static_cast<size_t>(d)]));
            case Op::slice:
                if (attrs[2 * static_cast<size_t>(d) + 1] != 1) break;
                return along_dimension(operands[0], d);
            case Op::reshape:
                return reshaped(*inst, d);
            case Op::cast:
                return along_dimension(operands[0], d);
            case Op::add:
            case Op::sub:
            case Op::ptr_add:
                return sum(along_dimension(operands[0], d), along_dimension(operands[1], d), inst->op == Op::sub);
            case Op::mul:
                return product(*inst, along_dimension(operands[0], d), along_dimension(operands[1], d));
            default:
                break;
        }
        return not_known("offsets are made by `" + std::string(ir::op_row(inst->op).name) + "`");
    }

    Step sum(Step x, Step y, bool minus) {
        if (x == apart || y == apart) return apart;
        if (y == same) return x;
        if (x == same && !minus) return y;
        return x == given || y == given ? given : not_known(minus ? "they go back from lane to lane" : "lanes are several elements apart");
    }

    Step product(const ir::Inst& inst, Step x, Step y) {
        if (x == apart || y == apart) return apart;
        if (x == same && y == same) return same;
        if (x != same && y != same) return not_known("offsets are no multiples of the lane's number");
        const auto by = number(fn_.operands(inst)[x == same ? 0 : 1]);
        if (!by) return given;
        return *by == 1 ? std::max(x, y) : not_known("lanes are " + std::to_string(*by) + " elements apart");
    }

    std::optional<int64_t> number(ir::ValueId v) const {
        const ir::Inst* inst = fn_.def(v);
        while (inst && inst->op == Op::broadcast) inst = fn_.def(fn_.operands(*inst)[0]);
        if (!inst || inst->op != Op::constant) return {};
        return fn_.attrs(*inst)[0];
    }

    Step reshaped(const ir::Inst& inst, int d) {
        const ir::ValueId from = fn_.operands(inst)[0];
        const Shape &to = fn_.type(fn_.result(inst)).shape, &own = fn_.type(from).shape;
        for (const ReshapeGroup& g : reshape_groups(to, own)) {
            if (static_cast<size_t>(d) < g.to || static_cast<size_t>(d) >= g.to_end) continue;
            const auto more_than_1 = [](int64_t extent) { return extent > 1; };
            const auto begin = own.begin() + g.from, end = own.begin() + g.from_end, found = std::find_if(begin, end, more_than_1);
            if (std::count_if(to.begin() + g.to, to.begin() + g.to_end, more_than_1) > 1 || std::count_if(begin, end, more_than_1) > 1) break;
            return along_dimension(from, static_cast<int>(found - own.begin()));
        }
        return not_known("rows are reshaped");
    }

    const ir::Function& fn_;
    const Plan& plan_;
    std::string why_;
};

}  // namespace

std::string pointer_text(const ir::Function& fn, const Plan& plan, ir::InstId access) {
    return PointerText(fn, plan).of(fn.operands(fn.inst(access))[0]);
}

}  // namespace tegula::cpu
