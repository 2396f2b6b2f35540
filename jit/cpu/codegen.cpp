// The emitted function's frame, and values: scalars, constants of the launch, evaluation with memory (codegen.h).
#include "jit/cpu/codegen.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include <llvm/IR/MDBuilder.h>

namespace tegula::cpu {

using ir::Op;
using llvm::Value;

namespace {
ScalarFeatures features_of(const TargetFacts& t) {
    ScalarFeatures f;
    f.f16c = t.f16c;
    f.fma = t.fma;
    f.avx2 = t.avx2;
    f.avx512 = t.avx512;
    f.bf16 = t.bf16;
    return f;
}

/// By slot: the scope of what lies in it, and those of the others. Beyond a number of slots some share one, which is right for all: lists of the
/// others grow with the slots, and so does each question about two accesses.
std::pair<std::vector<llvm::MDNode*>, std::vector<llvm::MDNode*>> make_scopes(llvm::LLVMContext& context, size_t slots) {
    constexpr size_t kMostScopes = 64;
    llvm::MDBuilder md(context);
    llvm::MDNode* domain = md.createAnonymousAliasScopeDomain("tiles");
    std::vector<llvm::Metadata*> scopes;
    for (size_t s = 0; s < std::min(slots, kMostScopes); ++s) scopes.push_back(md.createAnonymousAliasScope(domain));
    std::vector<llvm::MDNode*> own, others, by_slot, others_by_slot;
    for (size_t s = 0; s < scopes.size(); ++s) {
        std::vector<llvm::Metadata*> rest = scopes;
        rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(s));
        own.push_back(llvm::MDNode::get(context, {scopes[s]}));
        others.push_back(llvm::MDNode::get(context, rest));
    }
    for (size_t s = 0; s < slots; ++s) by_slot.push_back(own[s % own.size()]), others_by_slot.push_back(others[s % own.size()]);
    return {by_slot, others_by_slot};
}
}  // namespace

Codegen::Codegen(llvm::Module& module, const ir::Function& fn, const Plan& plan, const CompileOptions& options, const TargetFacts& target)
    : module_(module),
      fn_(fn),
      plan_(plan),
      options_(options),
      target_(target),
      args_layout_(make_arg_layout(fn, options.tensors)),
      context_(module.getContext()),
      b_(context_),
      scalars_(b_, features_of(target)),
      parts_(b_) {
    scalar_of_.resize(fn.value_count());
    slot_of_.resize(args_layout_.slots);
    base_of_.resize(plan.slots.size());
    param_of_.resize(fn.value_count(), -1);
    for (size_t i = 0; i < fn.params.size(); ++i) param_of_[fn.params[i].value.v] = static_cast<int>(i);
    std::tie(scopes_, no_alias_) = make_scopes(context_, plan.slots.size());
}

void Codegen::run() {
    llvm::Type* ptr = b_.getPtrTy();
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr, ptr, ptr, ptr}, false);
    function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "kernel", module_);
    function_->setDoesNotThrow();
    function_->addFnAttr("no-trapping-math", "true");
    if (target_.vectors.bytes >= 64) function_->addFnAttr("prefer-vector-width", "512");
    if (target_.vectors.isa == Isa::aarch64 && !target_.features.empty()) function_->addFnAttr("target-features", target_.features);
    args_ = function_->getArg(0);
    program_ = function_->getArg(1);
    scratch_ = function_->getArg(2);
    state_ = function_->getArg(3);
    args_->setName("args");
    program_->setName("program");
    scratch_->setName("scratch");
    state_->setName("state");
    for (unsigned a = 0; a < 4; ++a) function_->addParamAttr(a, llvm::Attribute::NoAlias);
    function_->addParamAttr(2, llvm::Attribute::getWithAlignment(context_, llvm::Align(64)));
    if (options_.lines) lines_ = std::make_unique<LineTable>(module_, *function_, fn_, *options_.lines);
    entry_ = llvm::BasicBlock::Create(context_, "entry", function_);
    auto* start = llvm::BasicBlock::Create(context_, "start", function_);
    leave_ = llvm::BasicBlock::Create(context_, "leave", function_);
    llvm::BranchInst::Create(start, entry_);
    llvm::ReturnInst::Create(context_, leave_);
    b_.SetInsertPoint(start);
    bodies_.emplace_back();
    for (size_t i = 0; i < fn_.params.size(); ++i) {
        const ir::ValueId v = fn_.params[i].value;
        const ParamSlots& p = args_layout_.params[i];
        if (p.kind == ParamSlots::tensor) continue;
        if (p.kind == ParamSlots::pointer) {
            define(v, i64(static_cast<int64_t>((uint64_t{i} + 1) << 48 | kPointerBias)));
            continue;
        }
        const Format& f = fn_.elem(v);
        Value* slot = argument_slot(p.first);
        llvm::Type* t = scalars_.memory_type(f, 0);
        Value* bits = b_.CreateTrunc(slot, b_.getIntNTy(t->getScalarSizeInBits()));
        if (!t->isIntegerTy()) bits = b_.CreateBitCast(bits, t);
        define(v, scalars_.from_memory(bits, f));
    }
    emit_block(fn_.body);
    b_.CreateBr(leave_);
    parts_.outline(*function_, *leave_, lines_.get());
    if (lines_) lines_->finish();
}

// ---- types and scalars ----

llvm::Type* Codegen::type_of(ir::ValueId v, unsigned lanes) {
    if (!fn_.type(v).pointer) return scalars_.type(fn_.elem(v), lanes);
    return lanes ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(b_.getInt64Ty(), lanes)) : b_.getInt64Ty();
}

llvm::Type* Codegen::memory_type(const Format& f, bool pointer, unsigned lanes) {
    if (!pointer) return scalars_.memory_type(f, lanes);
    return lanes ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(b_.getInt64Ty(), lanes)) : b_.getInt64Ty();
}

Value* Codegen::splat(Value* scalar, unsigned lanes) { return lanes ? b_.CreateVectorSplat(lanes, scalar) : scalar; }

Value* Codegen::lane_numbers(unsigned lanes) {
    if (!lanes) return i32(0);
    std::vector<llvm::Constant*> n;
    for (unsigned l = 0; l < lanes; ++l) n.push_back(b_.getInt32(l));
    return llvm::ConstantVector::get(n);
}

Value* Codegen::scalar(ir::ValueId v) {
    Value* s = scalar_of_[v.v];
    TEGULA_CHECK(s, "scalar read before it is made");
    return s;
}

void Codegen::define(ir::ValueId v, Value* scalar) { scalar_of_[v.v] = scalar; }

Value* Codegen::argument_slot(uint32_t slot) {
    Value*& known = slot_of_[slot];
    if (known) return known;
    llvm::IRBuilder<> at(entry_->getTerminator());
    auto* load = at.CreateAlignedLoad(at.getInt64Ty(), at.CreateConstInBoundsGEP1_64(at.getInt64Ty(), args_, slot), llvm::Align(8));
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    return known = load;
}

llvm::AllocaInst* Codegen::local(llvm::Type* type, unsigned count) {
    llvm::IRBuilder<> at(&entry_->front());
    return at.CreateAlloca(type, at.getInt32(count));
}

Value* Codegen::call_support(size_t field_offset, llvm::Type* result, std::vector<Value*> args) {
    if (!support_) {
        llvm::IRBuilder<> at(entry_->getTerminator());
        support_ =
            at.CreateAlignedLoad(at.getPtrTy(), at.CreateConstInBoundsGEP1_64(at.getInt8Ty(), state_, offsetof(State, support)), llvm::Align(8));
    }
    std::vector<llvm::Type*> types{b_.getPtrTy()};
    for (Value* a : args) types.push_back(a->getType());
    args.insert(args.begin(), state_);
    Value* fn = b_.CreateAlignedLoad(b_.getPtrTy(), b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), support_, field_offset), llvm::Align(8));
    return b_.CreateCall(llvm::FunctionType::get(result, types, false), fn, args);
}

// ---- buffers ----

Buffer Codegen::slot_buffer(uint32_t slot, const Format& format, bool pointer, const Shape& shape) {
    TEGULA_CHECK(slot < plan_.slots.size(), "tile without storage");
    Value*& base = base_of_[slot];
    if (!base) {
        llvm::IRBuilder<> at(entry_->getTerminator());
        base = at.CreateConstInBoundsGEP1_64(at.getInt8Ty(), scratch_, plan_.slots[slot]);
    }
    return {&format, pointer, shape, base, scopes_[slot], no_alias_[slot]};
}

Buffer Codegen::buffer(ir::ValueId v) { return slot_buffer(plan_.values[v.v].slot, fn_.elem(v), fn_.type(v).pointer, fn_.type(v).shape); }

Value* Codegen::work_pointer(ir::InstId inst, uint64_t offset) {
    return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), scratch_, plan_.work[inst.v] + offset);
}

Buffer Codegen::work(ir::InstId inst, uint64_t offset, const Format& format, const Shape& shape) {
    Buffer out{&format, false, shape, work_pointer(inst, offset), nullptr, nullptr};
    for (size_t s = 0; s < plan_.slots.size(); ++s)
        if (plan_.slots[s] == plan_.work[inst.v]) out.scope = scopes_[s], out.no_alias = no_alias_[s];
    return out;
}

// ---- instructions where they stand ----

void Codegen::emit_block(ir::BlockId block) {
    Parts::Sequence sequence(parts_);
    for (ir::InstId id : fn_.block(block).insts) {
        bodies_.emplace_back();
        if (lines_) b_.SetCurrentDebugLocation(lines_->at(fn_.inst(id).span));
        if (options_.checked && checks(fn_, fn_.inst(id))) check(id);
        emit_inst(id);
        bodies_.pop_back();
        sequence.step(whole_ == nullptr);
    }
}

void Codegen::emit_inst(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    emitted_ = id;
    if (is_over(options_.watch)) throw Cancelled();
    if (inst.results.count && !ir::has_trait(inst.op, ir::EFFECT) && !ir::has_trait(inst.op, ir::REGIONS)) {
        bool any = false;
        for (uint32_t r = 0; r < inst.results.count; ++r) {
            const Home::Kind kind = plan_.values[fn_.result(inst, r).v].kind;
            any = any || kind == Home::stored || kind == Home::scalar;
        }
        if (!any) return;
    }
    switch (inst.op) {
#define ELEMENTWISE(name, ...) case Op::name:
#include "lang/ops.def"
        return emit_root(id);
#define STRUCTURED(name, ...) \
    case Op::name:            \
        return cpu_##name(id);
#include "lang/ops.def"
        case Op::count_:
            return;
    }
}

/// A fusable value that is stored, or a scalar.
void Codegen::emit_root(ir::InstId id) {
    const ir::ValueId v = fn_.result(id);
    if (is_scalar(v)) return define(v, evaluate(v, Point{}));
    const Buffer to = buffer(v);
    const bool unsettled = plan_.values[v.v].unsettled;
    const NestOrder order = plan_nest(fn_, plan_, options_, id, width());
    const auto make = [&](const Point& p) {
        const std::vector<Point> points = points_of(order, to.shape, p);
        std::vector<Value*> values;
        for (const Point& q : points) {
            Value* value = evaluate(v, q);
            values.push_back(unsettled ? scalars_.raw(value) : value);
        }
        write(to, points, values);
    };
    NestOptions options;
    options.order = &order;
    options.unreached = NestOptions::apart;
    options.mixed = true;
    const auto operands = fn_.operands(fn_.inst(id));
    options.any_order = fn_.inst(id).op != Op::ptr_load && std::none_of(operands.begin(), operands.end(), [&](ir::ValueId o) { return reports(o); });
    nest(to.shape, make, options);
}

void Codegen::each_result(ir::ValueId v, const std::function<Value*(const Point& p)>& body, const NestOptions& options) {
    if (is_scalar(v)) return define(v, body(Point{}));
    if (!wanted(v)) return;
    const Buffer to = buffer(v);
    nest(
        to.shape, [&](const Point& p) { write(to, p, body(p)); }, options);
}

}  // namespace tegula::cpu
