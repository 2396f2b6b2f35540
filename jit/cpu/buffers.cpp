// Reads and writes of stored tiles, and masked memory operations (codegen.h).
#include <llvm/Analysis/VectorUtils.h>

#include "jit/cpu/apart.h"
#include "jit/cpu/codegen.h"

namespace tegula::cpu {

using llvm::Align;
using llvm::Value;

namespace {

constexpr unsigned kOneByOne = 8;  ///< lanes

unsigned element_bytes(llvm::Type* type) { return type->getScalarSizeInBits() / 8; }

/// Has the target masked moves of these elements? Vectors below 16 bytes are moved as such of 16, and LLVM 19 may leave the mask's upper bits set
/// when all lanes have one condition, also where the mask is widened by hand: what lies behind the vector would be written.
bool native_mask(const TargetFacts& t, llvm::Type* type) {
    return type->getPrimitiveSizeInBits() >= 128 && (t.avx512 || (t.avx2 && element_bytes(type) >= 4));
}

/// Lanes of a mask. Of loads wider than a register (AVX2) LLVM 19 reads a whole half where a condition that all lanes share meets a constant that
/// is off all over the half: taken apart here, the half's own constant says so while it is still seen.
Value* mask_part(llvm::IRBuilderBase& b, Value* mask, unsigned from, unsigned lanes, int depth = 0) {
    const auto part = [&](Value* v) { return v->getType()->isVectorTy() ? mask_part(b, v, from, lanes, depth + 1) : v; };
    constexpr int kMostDepth = 8;
    if (auto* both = llvm::dyn_cast<llvm::BinaryOperator>(mask); both && depth < kMostDepth)
        return b.CreateBinOp(both->getOpcode(), part(both->getOperand(0)), part(both->getOperand(1)));
    if (auto* one = llvm::dyn_cast<llvm::SelectInst>(mask); one && depth < kMostDepth)
        return b.CreateSelect(part(one->getCondition()), part(one->getTrueValue()), part(one->getFalseValue()));
    return b.CreateExtractVector(llvm::FixedVectorType::get(b.getInt1Ty(), lanes), mask, b.getInt64(from));
}

template <class I>
I* tagged(I* access, const Buffer& buffer) {
    if (buffer.scope) {
        access->setMetadata(llvm::LLVMContext::MD_alias_scope, buffer.scope);
        access->setMetadata(llvm::LLVMContext::MD_noalias, buffer.no_alias);
    }
    return access;
}

}  // namespace

bool Codegen::has_masks(llvm::Type* vector) const { return target_.avx512 && native_mask(target_, vector); }

Value* Codegen::load_lanes(llvm::Type* type, const std::function<Value*(unsigned lane)>& place) {
    Value* v = llvm::PoisonValue::get(type);
    for (unsigned l = 0; l < llvm::cast<llvm::FixedVectorType>(type)->getNumElements(); ++l)
        v = b_.CreateInsertElement(v, b_.CreateAlignedLoad(type->getScalarType(), place(l), Align(1)), l);
    return v;
}

Value* Codegen::masked_load(llvm::Type* type, Value* pointer, Value* mask, Value* other, Align align) {
    const auto lanes = llvm::cast<llvm::FixedVectorType>(type)->getNumElements();
    if (const unsigned some = target_.vectors.bytes / element_bytes(type); !target_.avx512 && lanes > some && native_mask(target_, type)) {
        auto* part = llvm::FixedVectorType::get(type->getScalarType(), some);
        std::vector<Value*> parts;
        for (unsigned l = 0; l < lanes; l += some)
            parts.push_back(b_.CreateMaskedLoad(part, b_.CreateConstGEP1_64(type->getScalarType(), pointer, l), align, mask_part(b_, mask, l, some),
                                                b_.CreateExtractVector(part, other, b_.getInt64(l))));
        return llvm::concatenateVectors(b_, parts);
    }
    if (native_mask(target_, type)) return b_.CreateMaskedLoad(type, pointer, align, mask, other);
    Value* all = b_.CreateAndReduce(mask);
    return choose(
        all, [&] { return b_.CreateAlignedLoad(type, pointer, align); },
        [&]() -> Value* {
            llvm::Type* element = type->getScalarType();
            if (lanes <= kOneByOne) {  // without branches: lanes that are off read the arguments
                const auto place = [&](unsigned l) {
                    return b_.CreateSelect(b_.CreateExtractElement(mask, l), b_.CreateConstGEP1_64(element, pointer, l), args_);
                };
                return b_.CreateSelect(mask, load_lanes(type, place), other);
            }
            Value* from = local(type);
            b_.CreateStore(other, from);
            each_lane(mask, lanes, [&](Value* l) {
                Value* e = b_.CreateAlignedLoad(element, b_.CreateGEP(element, pointer, l), Align(1));
                b_.CreateStore(e, b_.CreateGEP(element, from, l));
            });
            return b_.CreateLoad(type, from);
        });
}

void Codegen::masked_store(Value* value, Value* pointer, Value* mask, Align align) {
    llvm::Type* type = value->getType();
    const auto lanes = llvm::cast<llvm::FixedVectorType>(type)->getNumElements();
    if (native_mask(target_, type)) {
        b_.CreateMaskedStore(value, pointer, align, mask);
        return;
    }
    choose(
        b_.CreateAndReduce(mask),
        [&]() -> Value* {
            b_.CreateAlignedStore(value, pointer, align);
            return b_.getTrue();
        },
        [&]() -> Value* {
            llvm::Type* element = type->getScalarType();
            Value* from = local(type);
            b_.CreateStore(value, from);
            each_lane(mask, lanes, [&](Value* l) {
                Value* e = b_.CreateLoad(element, b_.CreateGEP(element, from, l));
                b_.CreateAlignedStore(e, b_.CreateGEP(element, pointer, l), Align(1));
            });
            return b_.getTrue();
        });
}

Value* Codegen::read(const Buffer& buffer, const Point& p, bool guarded) {
    const Index at = linear(p, buffer.shape);
    llvm::Type* element = memory_type(*buffer.format, buffer.pointer, 0);
    const Align align(element_bytes(element));
    const auto finish = [&](Value* v) { return buffer.pointer ? v : scalars_.from_memory(v, *buffer.format); };
    Value* active = guarded ? p.active : nullptr;
    if (at.kind == Index::uniform) {
        Value* index = at.value;
        if (active && !p.lanes) index = b_.CreateSelect(active, index, i64(0));
        Value* v = finish(tagged(b_.CreateAlignedLoad(element, b_.CreateGEP(element, buffer.base, index), align), buffer));
        if (active && !p.lanes) v = b_.CreateSelect(active, v, llvm::Constant::getNullValue(v->getType()));
        return splat(v, p.lanes);
    }
    llvm::Type* type = llvm::FixedVectorType::get(element, p.lanes);
    if (at.kind == Index::consecutive) {
        Value* pointer = b_.CreateGEP(element, buffer.base, at.value);
        if (active) return finish(masked_load(type, pointer, active, llvm::Constant::getNullValue(type), align));
        return finish(tagged(b_.CreateAlignedLoad(type, pointer, align), buffer));
    }
    if (!p.active && at.first && few_apart(at.step, p.lanes)) {
        Value* first = b_.CreateGEP(element, buffer.base, at.first);
        return finish(load_apart(b_, element, first, p.lanes, at.step, [&](llvm::LoadInst* part) { tagged(part, buffer); }));
    }
    Value* pointers = b_.CreateGEP(element, buffer.base, at.value);
    Value* mask = p.active ? p.active : splat(b_.getTrue(), p.lanes);
    return finish(tagged(b_.CreateMaskedGather(type, pointers, align, mask, llvm::Constant::getNullValue(type)), buffer));
}

void Codegen::write(const Buffer& buffer, const Point& p, Value* value) {
    const Index at = linear(p, buffer.shape);
    llvm::Type* element = memory_type(*buffer.format, buffer.pointer, 0);
    const Align align(element_bytes(element));
    Value* v = buffer.pointer ? value : scalars_.to_memory(value, *buffer.format);
    if (!p.lanes) {
        const auto put = [&] { tagged(b_.CreateAlignedStore(v, b_.CreateGEP(element, buffer.base, at.value), align), buffer); };
        if (p.active)
            when(p.active, put);
        else
            put();
        return;
    }
    if (at.kind == Index::consecutive) {
        Value* pointer = b_.CreateGEP(element, buffer.base, at.value);
        if (p.active)
            masked_store(v, pointer, p.active, align);
        else
            tagged(b_.CreateAlignedStore(v, pointer, align), buffer);
        return;
    }
    Value* pointers = b_.CreateGEP(element, buffer.base, as_vector(at, p.lanes));
    Value* mask = p.active ? p.active : splat(b_.getTrue(), p.lanes);
    tagged(b_.CreateMaskedScatter(v, pointers, align, mask), buffer);
}

void Codegen::write(const Buffer& buffer, const std::vector<Point>& points, const std::vector<Value*>& values) {
    const auto few = static_cast<int64_t>(points.size());
    const Index at = few > 1 ? linear(points[0], buffer.shape) : Index{};
    if (few == 1 || points[0].active || !at.first || at.step != few || !few_apart(few, points[0].lanes)) {
        for (size_t i = 0; i < points.size(); ++i) write(buffer, points[i], values[i]);
        return;
    }
    llvm::Type* element = memory_type(*buffer.format, buffer.pointer, 0);
    std::vector<Value*> parts;
    for (Value* v : values) parts.push_back(buffer.pointer ? v : scalars_.to_memory(v, *buffer.format));
    store_together(b_, parts, b_.CreateGEP(element, buffer.base, at.first), Align(element_bytes(element)),
                   [&](llvm::StoreInst* line) { tagged(line, buffer); });
}

std::vector<Point> Codegen::points_of(const NestOrder& order, const Shape& shape, const Point& p) {
    if (order.few < 0) return {p};
    const auto d = static_cast<size_t>(order.few);
    std::vector<Point> out(static_cast<size_t>(shape[d]), p);
    for (size_t j = 0; j < out.size(); ++j) out[j].index[d] = uniform(static_cast<int64_t>(j));
    return out;
}

}  // namespace tegula::cpu
