// Elements of tensors in memory (access.h): loads and stores of vectors and single elements, masked or not, and of tensors that the caches do not
// hold.
#include <algorithm>

#include "jit/cpu/access.h"
#include "jit/cpu/apart.h"

namespace tegula::cpu {

using llvm::Value;

/// Where each lane's element begins, in bits.
Value* AccessEmitter::lane_bits(const Address& a, unsigned lanes) {
    Value* bits = a.lanes ? b_.CreateAdd(g_.splat(a.offset, lanes), a.lanes) : g_.splat(a.offset, lanes);
    if (!a.contiguous) return bits;
    Value* number = b_.CreateZExt(g_.lane_numbers(lanes), bits->getType());
    return b_.CreateAdd(bits, b_.CreateMul(number, g_.splat(g_.i64(format_.bits), lanes)));
}

/// The first active lane and the one after the last, i64; 64 and 0 when none is: a run without elements has no byte, whatever bit it begins with.
static std::pair<Value*, Value*> active_lanes(llvm::IRBuilder<>& b, Value* mask, unsigned lanes) {
    Value* bits = b.CreateBitCast(mask, b.getIntNTy(lanes));
    if (lanes < 64) bits = b.CreateZExt(bits, b.getInt64Ty());
    Value* first = b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits, b.getFalse());
    Value* end = b.CreateSub(b.getInt64(64), b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, bits, b.getFalse()));
    return {first, end};
}

/// Both sides of Address::run.
static Address whole_run(Address a) {
    a.offset = a.first;
    a.lanes = a.run = nullptr;
    a.contiguous = true;
    return a;
}

static Address by_lanes(Address a) {
    a.run = nullptr;
    return a;
}

AccessEmitter::RunMask AccessEmitter::run_mask(const Place& place, Value* mask, const Point& p) {
    if (out_bytes_ || !place.row || place.inside || !p.lanes) return {nullptr, mask};
    Place rest = place;
    rest.row = nullptr;
    return {place.row, this->mask(rest, p)};
}

Value* AccessEmitter::load(const Address& a, Value* mask, Value* other, unsigned lanes, std::optional<RunMask> run) {
    Scalars& s = g_.scalars();
    llvm::Type* type = s.type(format_, lanes);
    if (!other) other = llvm::Constant::getNullValue(type);
    if (const auto* none = llvm::dyn_cast_or_null<llvm::Constant>(mask); none && none->isNullValue()) return other;
    if (a.run)
        return g_.choose(
            a.run, [&] { return load(whole_run(a), mask, other, lanes, run); }, [&] { return load(by_lanes(a), mask, other, lanes, run); });
    if (!lanes) {
        const auto read = [&]() -> Value* {
            if (!a.bytes) return s.load_at(format_, a.base, a.offset, nullptr, 0);
            llvm::Type* memory = s.memory_type(format_, 0);
            return s.from_memory(b_.CreateAlignedLoad(memory, b_.CreateGEP(b_.getInt8Ty(), a.base, a.offset), llvm::Align(1)), format_);
        };
        return mask ? g_.choose(mask, read, [&] { return other; }) : read();
    }
    if (!a.bytes && a.contiguous) {
        if (!mask) return s.load_run(format_, a.base, a.offset, nullptr, lanes);
        const RunMask parts = run.value_or(RunMask{nullptr, mask});
        std::pair<Value*, Value*> active{};
        if (parts.lanes) active = active_lanes(b_, parts.lanes, lanes);
        return s.select(mask, s.load_run(format_, a.base, a.offset, active.second, lanes, active.first, parts.row), other);
    }
    if (!a.bytes) {
        Value* v = in_bytes() ? load_in_bytes(a, mask, lanes) : s.load_at(format_, a.base, lane_bits(a, lanes), mask, lanes);
        return mask ? s.select(mask, v, other) : v;
    }
    llvm::Type* memory = s.memory_type(format_, lanes);
    Value* instead = s.to_memory(other, format_);
    Value* first = b_.CreateGEP(b_.getInt8Ty(), a.base, a.offset);
    if (a.contiguous) {
        if (streamed() && !g_.returns_heavier(fn_.result(fn_.inst(id_)))) ask_ahead(first);
        if (!mask) return s.from_memory(b_.CreateAlignedLoad(memory, first, llvm::Align(1)), format_);
        return s.from_memory(g_.masked_load(memory, first, mask, instead, llvm::Align(1)), format_);
    }
    if (!a.lanes) {  // one element for all lanes
        llvm::Type* element = s.memory_type(format_, 0);
        const auto read = [&]() -> Value* { return b_.CreateVectorSplat(lanes, b_.CreateAlignedLoad(element, first, llvm::Align(1))); };
        if (!mask) return s.from_memory(read(), format_);
        Value* any = b_.CreateOrReduce(mask);
        Value* v = g_.choose(any, read, [&]() -> Value* { return llvm::Constant::getNullValue(memory); });
        return s.from_memory(b_.CreateSelect(mask, v, instead), format_);
    }
    if (!mask && few_apart(a.step, lanes)) return s.from_memory(load_apart(b_, s.memory_type(format_, 0), first, lanes, a.step), format_);
    Value* pointers = b_.CreateGEP(b_.getInt8Ty(), first, a.lanes);
    if (format_.bits < 32) return s.from_memory(one_by_one(pointers, memory, mask, instead), format_);
    Value* on = mask ? mask : g_.splat(b_.getTrue(), lanes);
    return s.from_memory(b_.CreateMaskedGather(memory, pointers, llvm::Align(1), on, instead), format_);
}

/// No processor gathers elements this small: without branches, lanes that are off read the arguments.
Value* AccessEmitter::one_by_one(Value* pointers, llvm::Type* type, Value* mask, Value* instead) {
    if (mask) pointers = b_.CreateSelect(mask, pointers, g_.splat(g_.args_, llvm::cast<llvm::FixedVectorType>(type)->getNumElements()));
    Value* v = g_.load_lanes(type, [&](unsigned l) { return b_.CreateExtractElement(pointers, l); });
    return mask ? b_.CreateSelect(mask, v, instead) : v;
}

/// Each element of 1, 2 or 4 bits lies inside of one byte.
Value* AccessEmitter::load_in_bytes(const Address& a, Value* mask, unsigned lanes) {
    llvm::Type *bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), lanes), *words = llvm::FixedVectorType::get(b_.getInt32Ty(), lanes);
    Value *bits = lane_bits(a, lanes), *places = b_.CreateGEP(b_.getInt8Ty(), a.base, b_.CreateAShr(bits, 3));
    Value* read = one_by_one(places, bytes, mask, llvm::Constant::getNullValue(bytes));
    return g_.scalars().from_words(format_, b_.CreateLShr(b_.CreateZExt(read, words), b_.CreateTrunc(b_.CreateAnd(bits, 7), words)));
}

void AccessEmitter::store(const Address& a, Value* mask, Value* value, unsigned lanes) {
    Scalars& s = g_.scalars();
    if (a.run) {
        const auto put = [&](const Address& one) -> Value* {
            store(one, mask, value, lanes);
            return b_.getTrue();
        };
        g_.choose(
            a.run, [&] { return put(whole_run(a)); }, [&] { return put(by_lanes(a)); });
        return;
    }
    if (!lanes) {
        const auto put = [&] {
            if (!a.bytes) return s.store_at(format_, value, a.base, a.offset, nullptr);
            b_.CreateAlignedStore(s.to_memory(value, format_), b_.CreateGEP(b_.getInt8Ty(), a.base, a.offset), llvm::Align(1));
        };
        return mask ? g_.when(mask, put) : put();
    }
    if (!a.bytes) {
        if (!a.contiguous) return s.store_at(format_, value, a.base, lane_bits(a, lanes), mask);
        const auto some = [&]() -> Value* { return s.store_run(format_, value, a.base, a.offset, mask), b_.getTrue(); };
        if (lanes * format_.bits % 8) return (void)some();
        Value* whole = b_.CreateICmpEQ(b_.CreateAnd(a.offset, 7), g_.i64(0));
        if (mask) whole = b_.CreateAnd(whole, b_.CreateAndReduce(mask));
        g_.choose(
            whole, [&]() -> Value* { return s.store_bytes(format_, value, a.base, a.offset), b_.getTrue(); }, some);
        return;
    }
    Value* v = s.to_memory(value, format_);
    Value* first = b_.CreateGEP(b_.getInt8Ty(), a.base, a.offset);
    if (a.contiguous) {
        if (mask)
            g_.masked_store(v, first, mask, llvm::Align(1));
        else if (streamed() && g_.in_whole_vectors())
            b_.CreateAlignedStore(v, first, llvm::Align(streamed_bytes(lanes)))
                ->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(b_.getContext(), llvm::ConstantAsMetadata::get(b_.getInt32(1))));
        else
            b_.CreateAlignedStore(v, first, llvm::Align(1));
        return;
    }
    if (!mask && few_apart(a.step, lanes) && g_.has_masks(v->getType())) return store_apart(b_, v, first, a.step);
    // Lanes are written in order: of several to one place the last stays.
    Value* pointers = a.lanes ? b_.CreateGEP(b_.getInt8Ty(), first, a.lanes) : g_.splat(first, lanes);
    b_.CreateMaskedScatter(v, pointers, llvm::Align(1), mask ? mask : g_.splat(b_.getTrue(), lanes));
}

void AccessEmitter::store(const std::vector<Point>& points, const std::vector<Value*>& values) {
    const auto few = static_cast<int64_t>(points.size());
    const unsigned lanes = points[0].lanes;
    std::vector<Address> at;
    std::vector<Value*> masks;
    for (const Point& p : points) {
        Place place = this->place(p);
        at.push_back(address(place));
        masks.push_back(mask(place, p));
    }
    const bool whole = few > 1 && at[0].step == few && few_apart(few, lanes) && std::count(masks.begin(), masks.end(), nullptr) == few;
    if (!whole) {
        for (size_t i = 0; i < points.size(); ++i) store(at[i], masks[i], values[i], lanes);
        return;
    }
    std::vector<Value*> parts;
    for (Value* v : values) parts.push_back(g_.scalars().to_memory(v, format_));
    store_together(b_, parts, b_.CreateGEP(b_.getInt8Ty(), at[0].base, at[0].offset), llvm::Align(1));
}

// ---- tensors that the caches do not hold ----

bool AccessEmitter::streamed() const {
    // Gathered elements lie side by side under conditions that only a row knows: no line of the caches is known to be theirs.
    if (in_.access.gathers()) return false;
    const auto number = tensor_ ? static_cast<size_t>(g_.param_of_[in_.object.v]) : SIZE_MAX;
    return number < g_.options_.tensors.size() && g_.options_.tensors[number].streamed;
}

/// Asks for what the next programs read where this one reads now, one part further or more: processors look ahead by themselves only within a page,
/// and not while a row is worked on. What is read several times is asked for where most is computed, so that memory works meanwhile: reductions in
/// front of that wait for memory themselves. A part of many pages is best asked for whole before its program starts, since reductions do not read it
/// in order.
void AccessEmitter::ask_ahead(Value* now) {
    constexpr int64_t kLeast = 8 << 10, kMost = 128 << 10;
    prefetch(b_.CreateConstGEP1_64(b_.getInt8Ty(), now, static_cast<uint64_t>(std::clamp(part_.shape.elements() * unit(), kLeast, kMost))), false);
}

void AccessEmitter::ask_for(size_t n, const Point& p) {
    if (!out_bytes_ || !runs_along(n)) return;
    Place place = this->place(p);
    const Address a = address(place);
    if (a.contiguous) prefetch(b_.CreateGEP(b_.getInt8Ty(), a.base, a.offset), false, 2);
}

void AccessEmitter::prefetch(Value* pointer, bool to_write, int locality) {
    b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {pointer->getType()}, {pointer, b_.getInt32(to_write), g_.i32(locality), b_.getInt32(1)});
}

unsigned AccessEmitter::streamed_bytes(unsigned lanes) const { return std::min(lanes * format_.bits / 8, g_.target().vectors.bytes); }

namespace {
constexpr int64_t kLine = 64;  ///< of the caches: halves of a line that are stored in two ways are slow
}

/// How many vectors fill a line, so that no part of one is left to ordinary stores, for which it would be read.
int64_t AccessEmitter::vectors_of_line() const { return std::max<int64_t>(1, kLine / (g_.width() * unit())); }

/// Elements from the one at `p` to the first of a line of the caches, from where on whole vectors may be stored past them.
Value* AccessEmitter::before_aligned(const Point& p) {
    Place place = this->place(p);
    const Address a = address(place);
    Value* first = b_.CreateGEP(b_.getInt8Ty(), a.base, a.offset);
    Value* bytes = b_.CreateAnd(b_.CreateNeg(b_.CreatePtrToInt(first, b_.getInt64Ty())), g_.i64(kLine - 1));
    // Two rows share the line where they meet, which is in the caches by the time the one after the next begins.
    g_.when(b_.CreateICmpNE(bytes, g_.i64(0)), [&] {
        const size_t rank = order_.axes.size();
        int64_t known;
        Value* pitch = rank > 1 ? stride(order_.axes[rank - 2], known) : g_.i64(part_.shape.elements() * unit());
        prefetch(b_.CreateGEP(b_.getInt8Ty(), first, b_.CreateMul(pitch, g_.i64(2))), true);
    });
    return b_.CreateUDiv(bytes, g_.i64(unit()));
}

}  // namespace tegula::cpu
