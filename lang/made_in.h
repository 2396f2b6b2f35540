// Where values are made: in which loops and branches.
#pragma once
#include "lang/ir.h"

namespace tegula::ir {

/// Is the value an instruction's or an argument's of a block within `owner`, however deep?
inline bool made_in(const Function& fn, ValueId v, InstId owner) {
    const Value& value = fn.value(v);
    for (BlockId block = value.def.valid() ? fn.inst(value.def).parent : value.block; block.valid();) {
        const InstId around = fn.block(block).owner;
        if (around == owner) return true;
        block = around.valid() ? fn.inst(around).parent : BlockId{};
    }
    return false;
}

}  // namespace tegula::ir
