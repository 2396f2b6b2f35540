// Memory that runs along one dimension of a tile, for lanes that run along another: as many rows as there are lanes are read as they lie, and the
// square of their 32-bit words is turned. Elements of any width then come out of words by a shift, wherever they begin. No byte outside of the wanted
// elements is read.
#include "jit/cpu/turned.h"

#include <algorithm>
#include <numeric>

#include <llvm/IR/PatternMatch.h>

#include "jit/cpu/access.h"

namespace tegula::cpu {

using ir::Access;
using llvm::Value;

namespace {

constexpr size_t kBlock = 4;      ///< lanes within which any two vectors are shuffled by one quick instruction
constexpr int64_t kAhead = 1024;  ///< bytes of each row that are asked for ahead: no processor sees that many strands of memory coming

}  // namespace

void transpose(llvm::IRBuilder<>& b, std::vector<Value*>& lines) {
    const size_t side = lines.size();
    for (size_t d = side / 2; d >= (side < kBlock ? 1 : kBlock); d /= 2) {
        std::vector<int> low, high;
        for (size_t l = 0; l < side; ++l) {
            low.push_back(static_cast<int>(l & d ? side + l - d : l));
            high.push_back(static_cast<int>(l & d ? side + l : l + d));
        }
        for (size_t i = 0; i < side; ++i) {
            if (i & d) continue;
            Value *x = lines[i], *y = lines[i + d];
            lines[i] = b.CreateShuffleVector(x, y, low);
            lines[i + d] = b.CreateShuffleVector(x, y, high);
        }
    }
    if (side >= kBlock) transpose_blocks(b, lines);
}

void transpose_blocks(llvm::IRBuilder<>& b, std::vector<Value*>& lines) {
    const auto side = static_cast<int>(lines.size());
    // Lanes of two vectors by turns, of the lower or the upper half of each block; then pairs of lanes.
    std::vector<int> one[2], two[2];
    for (int l = 0; l < side; ++l)
        for (int upper : {0, 1}) {
            const int block = l / 4 * 4, lane = l % 4;
            one[upper].push_back(block + 2 * upper + lane / 2 + (lane % 2 ? side : 0));
            two[upper].push_back(block + 2 * upper + lane % 2 + (lane / 2 ? side : 0));
        }
    for (size_t i = 0; i < lines.size(); i += kBlock) {
        Value* pairs[4];  // of rows 0 and 1, lower and upper, and of rows 2 and 3
        for (size_t r = 0; r < kBlock; ++r) pairs[r] = b.CreateShuffleVector(lines[i + (r & 2)], lines[i + (r & 2) + 1], one[r & 1]);
        for (size_t r = 0; r < kBlock; ++r) lines[i + r] = b.CreateShuffleVector(pairs[r / 2], pairs[r / 2 + 2], two[r & 1]);
    }
}

Value* joined(llvm::IRBuilder<>& b, std::vector<Value*> parts) {
    while (parts.size() > 1) {
        std::vector<int> both(2 * llvm::cast<llvm::FixedVectorType>(parts[0]->getType())->getNumElements());
        std::iota(both.begin(), both.end(), 0);
        std::vector<Value*> halves;
        for (size_t i = 0; i < parts.size(); i += 2) halves.push_back(b.CreateShuffleVector(parts[i], parts[i + 1], both));
        parts = std::move(halves);
    }
    return parts[0];
}

size_t AccessEmitter::axis_of(size_t dim) const {
    for (size_t a = 0; a < in_.access.axes.size(); ++a)
        if (dim_of(a) == dim && (in_.access.axes[a].kind == Access::range || in_.access.axes[a].kind == Access::all)) return a;
    TEGULA_CHECK(false, "no axis runs along this dimension");
}

/// The bytes, from the first element's on, that hold elements in range: an integer with a bit for each of `bytes` and those that follow.
Value* AccessEmitter::row_mask(size_t k_axis, const Point& p, int64_t count, Value* phase, unsigned bytes) {
    const Access::Axis& axis = in_.access.axes[k_axis];
    Value *from = g_.i64(0), *to = g_.i64(count);
    if (axis.kind == Access::range && !axis.in_bounds && !g_.is_inside(id_)) {
        const auto [low, high] = limits(k_axis);
        Value* at = p.index[dim_of(k_axis)].value;
        const auto within = [&](Value* v) {
            v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateSub(v, at), g_.i64(0));
            return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, g_.i64(count));
        };
        from = within(low);
        to = within(high);
    }
    const auto byte = [&](Value* element, int64_t up) {
        Value* bit = b_.CreateAdd(b_.CreateMul(element, g_.i64(format_.bits)), phase);
        return b_.CreateLShr(b_.CreateAdd(bit, g_.i64(up)), 3);
    };
    llvm::Type* type = b_.getIntNTy(2 * bytes);
    const auto below = [&](Value* n) {
        Value* one = llvm::ConstantInt::get(type, 1);
        return b_.CreateSub(b_.CreateShl(one, b_.CreateZExtOrTrunc(n, type)), one);
    };
    // Without elements no byte is wanted, though their place may lie within one.
    Value* some = b_.CreateAnd(below(byte(to, 7)), b_.CreateNot(below(byte(from, 0))));
    return b_.CreateSelect(b_.CreateICmpSLT(from, to), some, llvm::Constant::getNullValue(type));
}

bool AccessEmitter::runs_along(size_t k) {
    if (!g_.param(in_.object).affine || !(out_bytes_ || order_.whole_rows))
        return false;  // rows of packed elements begin with whole bytes only by themselves
    return order_.unit == static_cast<int>(axis_of(k));
}

void AccessEmitter::turn_rows(size_t k, size_t n, const Point& p, int64_t count, unsigned lanes, Value* to) {
    const size_t k_axis = axis_of(k);
    const unsigned bytes = lanes * 4, whole = static_cast<unsigned>(count * format_.bits + 7) / 8;
    llvm::Type *row = llvm::FixedVectorType::get(b_.getInt8Ty(), bytes), *line = llvm::FixedVectorType::get(b_.getInt32Ty(), lanes);
    Value *masks[2] = {}, *phase = g_.i64(0);  // masks of the bytes from the first one on, and from the second
    std::vector<Value*> lines;
    for (unsigned r = 0; r < lanes; ++r) {
        Point q = p;
        q.index[n] = g_.uniform(b_.CreateAdd(p.index[n].value, g_.i64(r)));
        Place place;
        for (size_t a = 0; a < in_.access.axes.size(); ++a) place.at.push_back(axis(a, q, place, a == k_axis));
        if (part_.shape[n] % lanes) both(place.row, b_.CreateICmpSLT(q.index[n].value, g_.i64(part_.shape[n])));
        const Address address = this->address(place);
        Value* first = address.offset;
        if (!out_bytes_) {  // rows begin with whole bytes
            if (!r) phase = b_.CreateAnd(first, g_.i64(7));
            first = b_.CreateAShr(first, 3);  // elements before the tensor count, too
        }
        for (uint64_t from = 0; !r && from < 2; ++from)
            masks[from] = b_.CreateTrunc(b_.CreateLShr(row_mask(k_axis, p, count, phase, bytes), from), b_.getIntNTy(bytes));
        const auto part = [&](uint64_t from) -> Value* {
            Value* some = masks[from];
            if (place.row) some = b_.CreateSelect(place.row, some, llvm::Constant::getNullValue(some->getType()));
            Value* at = b_.CreateGEP(b_.getInt8Ty(), address.base, b_.CreateAdd(first, g_.i64(static_cast<int64_t>(from))));
            const auto bytes_of = [&](unsigned wanted) -> Value* {
                if (wanted == bytes) return b_.CreateAlignedLoad(line, at, llvm::Align(1));
                Value* read = b_.CreateAlignedLoad(llvm::FixedVectorType::get(b_.getInt8Ty(), wanted), at, llvm::Align(1));
                llvm::SmallVector<int, 64> beside_zeros;
                for (unsigned i = 0; i < bytes; ++i) beside_zeros.push_back(static_cast<int>(std::min(i, wanted)));
                return b_.CreateBitCast(b_.CreateShuffleVector(read, llvm::Constant::getNullValue(read->getType()), beside_zeros), line);
            };
            const auto by_mask = [&] {
                Value* on = b_.CreateBitCast(some, llvm::FixedVectorType::get(b_.getInt1Ty(), bytes));
                return b_.CreateBitCast(g_.masked_load(row, at, on, llvm::Constant::getNullValue(row), llvm::Align(1)), line);
            };
            const unsigned wanted = g_.has_masks(row) ? bytes : whole - static_cast<unsigned>(from);  // slow masks: of rows that begin with bytes
            Value* all = b_.CreateICmpEQ(some, llvm::ConstantInt::get(some->getType(), llvm::APInt::getLowBitsSet(bytes, wanted)));
            if (llvm::PatternMatch::match(all, llvm::PatternMatch::m_One())) return bytes_of(wanted);
            if (g_.has_masks(row) || !wanted) return by_mask();
            return g_.choose(
                all, [&] { return bytes_of(wanted); }, by_mask);
        };
        // No processor sees that many strands of memory coming. The bytes of the chunk after the next are asked for, whoever wants them.
        Value* ahead = b_.CreateGEP(b_.getInt8Ty(), address.base, b_.CreateAdd(first, g_.i64(count * format_.bits / 4)));
        prefetch(ahead, false);
        Value* words = part(0);
        if (!out_bytes_) {
            Value *down = b_.CreateTrunc(phase, b_.getInt32Ty()), *up = b_.CreateSub(b_.getInt32(8), down);
            words = b_.CreateOr(b_.CreateLShr(words, g_.splat(down, lanes)), b_.CreateShl(part(1), g_.splat(up, lanes)));
        }
        lines.push_back(words);
    }
    transpose(b_, lines);
    const auto used = static_cast<size_t>((count * format_.bits + 31) / 32);
    for (size_t w = 0; w < used; ++w) b_.CreateAlignedStore(lines[w], b_.CreateConstGEP1_64(line, to, w), llvm::Align(4));
}

std::vector<Value*> AccessEmitter::turned_rows(size_t n, const Point& p, unsigned lanes) {
    Place place = this->place(p);
    const Address address = this->address(place);
    const size_t n_axis = axis_of(n);
    int64_t known;
    Value* pitch = b_.CreateMul(stride(n_axis, known), g_.i64(in_.access.axes[n_axis].kind == Access::range ? in_.access.axes[n_axis].step : 1));
    llvm::Type *byte = b_.getInt8Ty(), *block = llvm::FixedVectorType::get(b_.getInt32Ty(), kBlock);
    std::vector<Value*> rows{b_.CreateGEP(byte, address.base, address.offset)};
    for (size_t r = 1; r < lanes; ++r)  // each one addition from another
        rows.push_back(b_.CreateGEP(byte, rows[r & (r - 1)], b_.CreateMul(pitch, g_.i64(static_cast<int64_t>(r & (~r + 1))))));
    for (Value* row : rows) prefetch(b_.CreateConstGEP1_64(byte, row, kAhead), false, 2);
    std::vector<Value*> lines;
    for (size_t l = 0; l < lanes; ++l) {
        std::vector<Value*> blocks;
        for (size_t r = l % kBlock; r < lanes; r += kBlock)
            blocks.push_back(b_.CreateAlignedLoad(block, b_.CreateConstGEP1_64(block, rows[r], l / kBlock), llvm::Align(1)));
        lines.push_back(joined(b_, std::move(blocks)));
    }
    transpose_blocks(b_, lines);
    return lines;
}

Value* AccessEmitter::from_words(const Point& p, size_t k, Value* words, bool rows) {
    Value* v = g_.scalars().from_words(format_, words);
    const Access::Axis& along = in_.access.axes[axis_of(k)];
    const bool zeros = rows && (out_bytes_ || along.kind == Access::all || along.in_bounds);  // where elements are outside
    if (!in_.mask && (g_.is_inside(id_) || (!in_.other && zeros))) return v;
    Point all = p;
    all.active = nullptr;
    Value* mask = this->mask(place(p), all);
    if (!mask) return v;
    return g_.scalars().select(mask, v, in_.other ? g_.lanes(in_.other.value, p) : llvm::Constant::getNullValue(v->getType()));
}

std::vector<Value*> Codegen::turned_rows(ir::InstId load, size_t n, const Point& p, unsigned lanes) {
    return AccessEmitter(*this, load).turned_rows(n, p, lanes);
}

bool Codegen::can_turn_rows(ir::InstId load, size_t k) { return !options_.bounds && AccessEmitter(*this, load).runs_along(k); }

void Codegen::turn_rows(ir::InstId load, size_t k, size_t n, const Point& p, int64_t count, unsigned lanes, Value* to) {
    AccessEmitter(*this, load).turn_rows(k, n, p, count, lanes, to);
}

void Codegen::with_turned(std::vector<TurnedRun> runs, const std::function<void()>& body) {
    std::swap(turned_, runs);
    body();
    std::swap(turned_, runs);
}

void Codegen::turn_tile(ir::ValueId tile, size_t n, const Point& p, int64_t count, unsigned lanes, Value* to) {
    const Buffer from = buffer(tile);
    llvm::Type *element = memory_type(*from.format, false, 0), *line = llvm::FixedVectorType::get(b_.getInt32Ty(), lanes);
    std::vector<Value*> lines;
    for (unsigned r = 0; r < lanes; ++r) {
        Point q = p;
        Value* row = b_.CreateAdd(p.index[n].value, i64(r));
        if (from.shape[n] % lanes) row = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, row, i64(from.shape[n] - 1));
        q.index[n] = uniform(row);
        lines.push_back(b_.CreateAlignedLoad(line, b_.CreateGEP(element, from.base, linear(q, from.shape).value), llvm::Align(1)));
    }
    transpose(b_, lines);
    const auto used = static_cast<size_t>((count * from.format->container_bytes() * 8 + 31) / 32);
    for (size_t w = 0; w < used; ++w) b_.CreateAlignedStore(lines[w], b_.CreateConstGEP1_64(line, to, w), llvm::Align(4));
}

Value* Codegen::at_turned(ir::ValueId v, const Point& p) {
    for (const TurnedRun& t : turned_) {
        if (!(t.value == v) || !p.lanes) continue;
        const auto step = std::find(t.steps.begin(), t.steps.end(), p.index[t.k].value);
        bool same = step != t.steps.end() && p.index[t.k].kind == Index::uniform;
        for (size_t d = 0; d < p.rank; ++d) same = same && (d == t.k || (p.index[d].kind == t.at[d].kind && p.index[d].value == t.at[d].value));
        if (!same) continue;
        const Format& f = fn_.elem(v);
        const unsigned bits = t.stored ? f.container_bytes() * 8 : f.bits;
        const auto number = static_cast<size_t>(step - t.steps.begin());
        const uint64_t bit = t.bits.empty() ? number * bits : t.bits[number], word = bit / 32, shift = bit % 32;
        Value* words = t.words[word];
        if (bits == 64) {
            llvm::Type* wide = llvm::FixedVectorType::get(b_.getInt64Ty(), p.lanes);
            words = b_.CreateOr(b_.CreateZExt(words, wide), b_.CreateShl(b_.CreateZExt(t.words[word + 1], wide), 32));
        } else if (shift + bits > 32) {
            Value* count = splat(i32(static_cast<int64_t>(shift)), p.lanes);
            words = b_.CreateIntrinsic(words->getType(), llvm::Intrinsic::fshr, {t.words[word + 1], words, count});
        } else if (shift) {
            words = b_.CreateLShr(words, shift);
        }
        if (!t.stored) return AccessEmitter(*this, fn_.value(v).def).from_words(p, t.k, words, t.bits.empty());
        llvm::Type* codes = llvm::FixedVectorType::get(b_.getIntNTy(bits), p.lanes);
        return scalars_.from_memory(b_.CreateBitCast(b_.CreateTrunc(words, codes), scalars_.memory_type(f, p.lanes)), f);
    }
    return nullptr;
}

}  // namespace tegula::cpu
