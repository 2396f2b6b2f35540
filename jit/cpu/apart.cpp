// Shuffles of elements that lie a few apart (apart.h).
#include "jit/cpu/apart.h"

#include <algorithm>

namespace tegula::cpu {

using llvm::Align;
using llvm::Value;

namespace {

unsigned lanes_of(Value* v) { return llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements(); }

/// A vector made from lanes of several, one shuffle for each of them.
class Mixed {
public:
    Mixed(llvm::IRBuilderBase& b, unsigned lanes) : b_(b), lanes_(static_cast<int>(lanes)) {}
    /// Lane l becomes lane from(l) of the source, where that is not negative.
    template <class From>
    void take(Value* source, const From& from) {
        std::vector<int> lanes;
        bool any = false;
        for (int l = 0; l < lanes_; ++l) {
            const int k = from(l);
            lanes.push_back(k < 0 ? l : lanes_ + k);
            any = any || k >= 0;
        }
        if (any) value_ = b_.CreateShuffleVector(value_ ? value_ : llvm::PoisonValue::get(source->getType()), source, lanes);
    }
    Value* value() const { return value_; }

private:
    llvm::IRBuilderBase& b_;
    const int lanes_;
    Value* value_ = nullptr;
};

}  // namespace

Value* load_apart(llvm::IRBuilderBase& b, llvm::Type* element, Value* first, unsigned lanes, int64_t step,
                  const std::function<void(llvm::LoadInst*)>& tag) {
    auto* type = llvm::FixedVectorType::get(element, lanes);
    const auto n = static_cast<int64_t>(lanes), end = (n - 1) * step + 1;
    Mixed out(b, lanes);
    for (int64_t k = 0, before = 0; k < step; ++k) {
        const int64_t from = std::min(k * n, end - n), to = from + n;  // the last one ends with the last lane's element
        llvm::LoadInst* part = b.CreateAlignedLoad(type, b.CreateConstGEP1_64(element, first, static_cast<uint64_t>(from)), Align(1));
        if (tag) tag(part);
        out.take(part, [&](int l) { return l * step >= before && l * step < to ? static_cast<int>(l * step - from) : -1; });
        before = to;
    }
    return out.value();
}

void store_together(llvm::IRBuilderBase& b, const std::vector<Value*>& parts, Value* first, Align align,
                    const std::function<void(llvm::StoreInst*)>& tag) {
    const auto lanes = static_cast<int>(lanes_of(parts[0])), count = static_cast<int>(parts.size());
    llvm::Type* element = parts[0]->getType()->getScalarType();
    for (int t = 0; t < count; ++t) {
        Mixed line(b, static_cast<unsigned>(lanes));
        for (int j = 0; j < count; ++j)
            line.take(parts[static_cast<size_t>(j)], [&](int l) { return (t * lanes + l) % count == j ? (t * lanes + l) / count : -1; });
        llvm::StoreInst* store = b.CreateAlignedStore(line.value(), b.CreateConstGEP1_64(element, first, static_cast<uint64_t>(t * lanes)), align);
        if (tag) tag(store);
    }
}

void store_apart(llvm::IRBuilderBase& b, Value* value, Value* first, int64_t step) {
    const auto lanes = static_cast<int>(lanes_of(value)), apart = static_cast<int>(step);
    llvm::Type* element = value->getType()->getScalarType();
    for (int t = 0; t < apart; ++t) {
        Mixed line(b, static_cast<unsigned>(lanes));
        std::vector<llvm::Constant*> on;
        for (int l = 0; l < lanes; ++l) on.push_back(b.getInt1((t * lanes + l) % apart == 0));
        line.take(value, [&](int l) { return (t * lanes + l) % apart == 0 ? (t * lanes + l) / apart : -1; });
        b.CreateMaskedStore(line.value(), b.CreateConstGEP1_64(element, first, static_cast<uint64_t>(t * lanes)), Align(1),
                            llvm::ConstantVector::get(on));
    }
}

}  // namespace tegula::cpu
