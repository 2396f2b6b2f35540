// The verifier: walks a function in program order and checks what every instruction must obey (ids, one home, scope, counts, types,
// terminators), then asks the op's own rule (verify_rules.h). It trusts nothing, so it also judges IR that came from text. A value is in
// scope from its definition to the end of the block that holds it, nested blocks included: with structured control flow that is dominance.
#include <algorithm>

#include "lang/ir_literal.h"
#include "lang/ir_text.h"
#include "lang/verify_rules.h"

namespace tegula::ir {

namespace {

constexpr int kMaxDepth = 256;
constexpr size_t kMaxProblems = 100;

void apply_rule(RuleContext& c) {
    switch (c.inst.op) {
#define ELEMENTWISE(name, ...) \
    case Op::name:             \
        return verify_elementwise(c);
#define STRUCTURED(name, ...) \
    case Op::name:            \
        return verify_##name(c);
#include "lang/ops.def"
        case Op::count_:
            return;
    }
}

class Verifier {
public:
    explicit Verifier(const Function& fn) : fn_(fn), in_scope_(fn.value_count()), seen_inst_(fn.inst_count()), seen_block_(fn.block_count()) {}

    std::vector<std::string> run() {
        if (fn_.body.v >= fn_.block_count()) return {"the function has no body"};
        check_params();
        if (fn_.block(fn_.body).owner.valid()) problems_.push_back("the body is owned by an instruction");
        walk(fn_.body, 0);
        return std::move(problems_);
    }

private:
    void check_params();
    void check_type(const Type& t, const Where& where);
    void walk(BlockId id, int depth);
    void check_inst(InstId id, BlockId block, bool last, int depth);
    bool check_shape_of_inst(const Inst& inst, const Where& where);
    bool enter_blocks(InstId id, const Where& where, int depth);

    const Function& fn_;
    std::vector<bool> in_scope_, seen_inst_, seen_block_;
    std::vector<ValueId> scope_;
    std::vector<std::string> problems_;
    int pure_depth_ = 0;  ///< how many enclosing ops promise to be pure
};

void Verifier::check_type(const Type& t, const Where& where) {
    const auto fail = [&](const char* text) { problems_.push_back(where + text); };
    if (t.kind == Type::none) return fail("value has no type");
    if (t.elem.v == 0 || fn_.types().format(t.elem).is_block()) return fail("value has no element format");
    int64_t elements = 1;
    for (int64_t extent : t.shape) {
        if (t.kind == Type::tensor && (extent == kDynamic || extent >= 0)) continue;
        if (t.kind == Type::tensor || extent < 1 || extent > kMaxTileElements) return fail("extent is out of range");
        elements *= extent;
        if (elements > kMaxTileElements) return fail("tile has too many elements");
    }
}

void Verifier::check_params() {
    const std::vector<ValueId>& args = fn_.block(fn_.body).args;
    if (args.size() != fn_.params.size())
        problems_.push_back("the body has " + std::to_string(args.size()) + " arguments for " + std::to_string(fn_.params.size()) + " parameters");
    for (size_t i = 0; i < std::min(args.size(), fn_.params.size()); ++i) {
        const Param& p = fn_.params[i];
        const std::string where = "parameter " + p.name + ": ";
        const auto fail = [&](const char* text) { problems_.push_back(where + text); };
        if (!is_identifier(p.name)) fail("name is not an identifier");
        for (size_t j = 0; j < i; ++j)
            if (fn_.params[j].name == p.name) fail("name is used twice");
        if (p.value != args[i] || p.value.v >= fn_.value_count()) {
            fail("value is not the body's argument");
            continue;
        }
        const Type& t = fn_.type(p.value);
        switch (p.kind) {
            case Param::tensor:
                if (t.kind != Type::tensor) fail("is not a tensor");
                break;
            case Param::pointer:
                if (t.kind != Type::tile || !t.pointer || t.shape.rank != 0) fail("is not a pointer");
                break;
            case Param::extent:
                if (!is_scalar(t, Fmt::i64)) fail("an extent is i64");
                break;
            case Param::scalar:
                if (t.kind != Type::tile || t.pointer || (fn_.is_kernel && t.shape.rank != 0)) fail("is not a scalar");
                break;
        }
    }
}

void Verifier::walk(BlockId id, int depth) {
    const Block& block = fn_.block(id);
    seen_block_[id.v] = true;
    const size_t mark = scope_.size();
    const Where where{"block", id.v};
    for (uint32_t i = 0; i < block.args.size(); ++i) {
        const ValueId v = block.args[i];
        if (v.v >= fn_.value_count() || fn_.value(v).block != id || fn_.value(v).index != i || fn_.value(v).def.valid()) {
            problems_.push_back(where + "argument is not a value of this block");
            continue;
        }
        check_type(fn_.type(v), where);
        if (fn_.type(v).kind == Type::tensor && id != fn_.body) problems_.push_back(where + "tensors are parameters only");
        in_scope_[v.v] = true;
        scope_.push_back(v);
    }
    if (block.insts.empty()) problems_.push_back(where + "is empty");
    for (size_t i = 0; i < block.insts.size() && problems_.size() < kMaxProblems; ++i)
        check_inst(block.insts[i], id, i + 1 == block.insts.size(), depth);
    for (; scope_.size() > mark; scope_.pop_back()) in_scope_[scope_.back().v] = false;
}

void Verifier::check_inst(InstId id, BlockId block, bool last, int depth) {
    if (id.v >= fn_.inst_count()) return problems_.push_back("block holds an instruction that does not exist");
    const Inst& inst = fn_.inst(id);
    if (inst.op >= Op::count_) return problems_.push_back("inst " + std::to_string(id.v) + ": unknown op");
    const Where where{"inst", id.v, op_row(inst.op).name};
    if (seen_inst_[id.v]) return problems_.push_back(where + "stands in two places");
    seen_inst_[id.v] = true;
    if (inst.parent != block) problems_.push_back(where + "does not know its block");
    if (last != has_trait(inst.op, TERMINATOR))
        problems_.push_back(where + (last ? "the last instruction of a block is a terminator" : "a terminator stands before the end of the block"));
    bool sound = check_shape_of_inst(inst, where);
    sound = enter_blocks(id, where, depth) && sound;
    for (uint32_t n = 0; sound && n < inst.results.count; ++n) {
        const ValueId v = fn_.result(inst, n);
        in_scope_[v.v] = true;
        scope_.push_back(v);
    }
    if (!sound || inst.parent != block) return;
    RuleContext context{fn_, inst, problems_, where};
    apply_rule(context);
}

/// Pools, counts, operands in scope, result types: what rules rely on.
bool Verifier::check_shape_of_inst(const Inst& inst, const Where& where) {
    const OpRow& row = op_row(inst.op);
    const size_t before = problems_.size();
    const auto fail = [&](const char* text) { problems_.push_back(where + text); };
    const auto inside = [](Range r, size_t size) { return r.begin <= size && r.count <= size - r.begin; };
    if (!inside(inst.operands, fn_.operand_pool.size()) || !inside(inst.attrs, fn_.attr_pool.size()) || !inside(inst.blocks, fn_.block_pool.size()) ||
        !inside(inst.results, fn_.value_count())) {
        fail("ranges lie outside the pools");
        return false;
    }
    if (row.operands >= 0 && inst.operands.count != static_cast<uint32_t>(row.operands)) fail("wrong number of operands");
    if (row.results >= 0 && inst.results.count != static_cast<uint32_t>(row.results)) fail("wrong number of results");
    if (!row.attrs.fits(inst.attrs.count)) fail("wrong number of attributes");
    if (!(row.traits & REGIONS) && inst.blocks.count) fail("owns blocks");
    if (pure_depth_ && inst.op != Op::assert && (row.traits & (READS | WRITES | EFFECT))) fail("touches memory inside a pure op");
    const bool takes_tensor = inst.op == Op::load || inst.op == Op::store || inst.op == Op::atomic || inst.op == Op::channel_put ||
                              inst.op == Op::dim || inst.op == Op::tensor_ptr;
    for (size_t i = 0; i < inst.operands.count; ++i) {
        const ValueId v = fn_.operands(inst)[i];
        if (v.v >= fn_.value_count() || !in_scope_[v.v])
            fail("operand is not defined here");
        else if (fn_.type(v).kind == Type::tensor && !(takes_tensor && i == 0))
            fail("operand is a tensor");
    }
    for (uint32_t n = 0; n < inst.results.count; ++n) {
        const ValueId v = fn_.result(inst, n);
        const Value& value = fn_.value(v);
        if (!value.def.valid() || &fn_.inst(value.def) != &inst || value.index != n) fail("result belongs to another instruction");
        if (fn_.type(v).kind == Type::tensor) fail("result is a tensor");
        check_type(fn_.type(v), where);
    }
    return problems_.size() == before;
}

bool Verifier::enter_blocks(InstId id, const Where& where, int depth) {
    const Inst& inst = fn_.inst(id);
    const size_t before = problems_.size();
    if (inst.blocks.begin > fn_.block_pool.size() || inst.blocks.count > fn_.block_pool.size() - inst.blocks.begin) return false;
    for (BlockId b : fn_.blocks(inst)) {
        if (b.v >= fn_.block_count() || seen_block_[b.v] || fn_.block(b).owner != id)
            problems_.push_back(where + "block is missing or has another owner");
        else if (depth >= kMaxDepth)
            problems_.push_back(where + "blocks are nested too deeply");
        else {
            pure_depth_ += has_trait(inst.op, PURE);
            walk(b, depth + 1);
            pure_depth_ -= has_trait(inst.op, PURE);
        }
    }
    return problems_.size() == before;
}

}  // namespace

std::string operator+(const Where& where, const std::string& text) {
    std::string out = std::string(where.what) + " " + std::to_string(where.number);
    if (where.op) out += std::string(" (") + where.op + ")";
    return out + ": " + text;
}

std::vector<std::string> verify(const Function& fn) { return Verifier(fn).run(); }

}  // namespace tegula::ir
