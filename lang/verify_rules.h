// What the verifier's per-op rules see of one instruction (verify.cpp walks, verify_rules.cpp and verify_memory.cpp judge). Operands are
// known to be values of the function in scope, operand, result and fixed attribute counts to match the op's row.
#pragma once
#include <string>
#include <vector>

#include "lang/ir.h"

namespace tegula::ir {

/// What a problem was found in; spelled out only where there is one.
struct Where {
    const char* what;  ///< "inst", "block"
    uint32_t number;
    const char* op = nullptr;
};
/// "inst 12 (dot): " and the text.
std::string operator+(const Where& where, const std::string& text);

struct RuleContext {
    const Function& fn;
    const Inst& inst;
    std::vector<std::string>& problems;
    Where where;

    std::span<const ValueId> operands() const { return fn.operands(inst); }
    std::span<const int64_t> attrs() const { return fn.attrs(inst); }
    size_t operand_count() const { return inst.operands.count; }
    const Type& operand(size_t i) const { return fn.type(fn.operands(inst)[i]); }
    const Type& result(uint32_t i = 0) const { return fn.type(fn.result(inst, i)); }
    const Format& elem(const Type& t) const { return fn.types().format(t.elem); }
    std::string name(const Type& t) const { return fn.types().name(fn.types().intern(t)); }
    void fail(const std::string& text) { problems.push_back(where + text); }
    /// Reports `text` unless `holds`; gives `holds`.
    bool need(bool holds, const char* text) {
        if (!holds) fail(text);
        return holds;
    }
    /// Is attribute `i` in [low, high]?
    bool attr_in(size_t i, int64_t low, int64_t high, const char* text) { return need(attrs()[i] >= low && attrs()[i] <= high, text); }
    bool need_type(const Type& found, const Type& wanted, const char* what) {
        if (found == wanted) return true;
        fail(std::string(what) + " is " + name(found) + ", not " + name(wanted));
        return false;
    }
};

inline Type tile_type(FormatId elem, const Shape& shape, bool pointer = false) {
    Type t;
    t.kind = Type::tile;
    t.elem = elem;
    t.shape = shape;
    t.pointer = pointer;
    return t;
}
inline Type tile_type(Fmt elem, const Shape& shape) { return tile_type(id_of(elem), shape); }
inline bool is_scalar(const Type& t, Fmt elem) { return t.kind == Type::tile && !t.pointer && t.shape.rank == 0 && t.elem == elem; }
inline bool is_int_tile(const RuleContext& c, const Type& t) { return t.kind == Type::tile && !t.pointer && c.elem(t).is_int(); }
inline bool is_bool_tile(const Type& t) { return t.kind == Type::tile && !t.pointer && t.elem == Fmt::boolean; }
/// `shape` without dimension `axis`; rank 0 for axis -1.
Shape drop_axis(const Shape& shape, int64_t axis);

/// The rule of every structured op, declared from the table: a forgotten one fails to link by name.
#define STRUCTURED(name, ...) void verify_##name(RuleContext& c);
#include "lang/ops.def"
void verify_elementwise(RuleContext& c);

}  // namespace tegula::ir
