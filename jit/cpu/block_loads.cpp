// Blocks of declared layouts in registers (block_words.h): pieces of memory are read as they lie, and constant shuffles give each lane its word. What
// is read lies in storage: by the analysis, or because the code has looked.
#include <algorithm>
#include <map>

#include "jit/cpu/access.h"
#include "jit/cpu/turned.h"

namespace tegula::cpu {

using ir::Access;
using llvm::Value;

namespace {

constexpr int64_t kPrefetched = 2;  ///< blocks ahead, where each lane's memory lies apart from the others'

/// Vectors of the words that lanes want, from pieces that are read once.
class WordVectors {
public:
    WordVectors(Codegen& g, const BlockWords& block, std::vector<Value*> lines)
        : g_(g), b_(g.b()), block_(block), lines_(std::move(lines)), per_source_(std::max(1u, block.lanes / block.piece)) {}

    /// Lane l is word `wanted[l].bit` of its line.
    Value* of(const std::vector<BlockPlace>& wanted) {
        Value*& known = vectors_[wanted];
        if (!known) known = make(wanted);
        return known;
    }

private:
    Value* make(const std::vector<BlockPlace>& wanted) {
        std::vector<BlockPlace> pieces;
        std::vector<int> from;  // by lane: the element of all sources
        for (const BlockPlace& w : wanted) {
            const BlockPlace piece{w.line, floor_div(w.bit, block_.piece)};
            auto at = std::find(pieces.begin(), pieces.end(), piece);
            if (at == pieces.end()) at = pieces.insert(at, piece);
            const auto element = static_cast<size_t>(w.bit - piece.bit * block_.piece);
            from.push_back(static_cast<int>(static_cast<size_t>(at - pieces.begin()) * block_.piece + element));
        }
        std::vector<Value*> sources;
        for (size_t p = 0; p < pieces.size(); p += per_source_)
            sources.push_back(source({pieces.begin() + static_cast<std::ptrdiff_t>(p),
                                      pieces.begin() + static_cast<std::ptrdiff_t>(std::min(p + per_source_, pieces.size()))}));
        return pick(sources, from, 0, sources.size());
    }

    /// Lane l is element `from[l]` of the sources, as far as it is of those from `low` on, before `high`.
    Value* pick(const std::vector<Value*>& sources, const std::vector<int>& from, size_t low, size_t high) {
        const auto width = static_cast<int>(per_source_ * block_.piece), lanes = static_cast<int>(from.size());
        const bool two = high - low <= 2;
        const size_t middle = two ? low + 1 : low + (high - low + 1) / 2;
        std::vector<int> mask;
        for (int l = 0; l < lanes; ++l) {
            const int at = from[static_cast<size_t>(l)], source = at / width;
            const bool here = source >= static_cast<int>(low) && source < static_cast<int>(high);
            mask.push_back(!here ? -1 : two ? at - static_cast<int>(low) * width : source < static_cast<int>(middle) ? l : lanes + l);
        }
        Value* first = two ? sources[low] : pick(sources, from, low, middle);
        Value* second = !two ? pick(sources, from, middle, high) : low + 1 < high ? sources[low + 1] : llvm::PoisonValue::get(first->getType());
        return b_.CreateShuffleVector(first, second, mask);
    }

    Value* source(const std::vector<BlockPlace>& pieces) {
        Value*& known = sources_[pieces];
        if (known) return known;
        std::vector<Value*> parts;
        for (size_t p = 0; p < per_source_; ++p) parts.push_back(piece(pieces[std::min(p, pieces.size() - 1)]));
        return known = joined(b_, std::move(parts));
    }

    Value* piece(const BlockPlace& at) {
        Value*& known = pieces_[at];
        if (known) return known;
        llvm::Type* type = llvm::FixedVectorType::get(b_.getInt32Ty(), block_.piece);
        Value* place = b_.CreateGEP(b_.getInt8Ty(), lines_[at.line], g_.i64(at.bit * block_.piece * 4));
        return known = b_.CreateAlignedLoad(type, place, llvm::Align(1));
    }

    Codegen& g_;
    llvm::IRBuilder<>& b_;
    const BlockWords& block_;
    const std::vector<Value*> lines_;
    const size_t per_source_;
    std::map<BlockPlace, Value*> pieces_;
    std::map<std::vector<BlockPlace>, Value*> sources_, vectors_;
};

}  // namespace

Value* AccessEmitter::line_offset(const BlockWords& block, size_t line) {
    Value* out = g_.i64(0);
    const std::vector<int64_t>& times = block.lines[line];
    for (size_t m = 0; m < times.size(); ++m) {
        if (times[m] == 0) continue;
        Value* bytes = out_bytes_ ? pitch(m, times.size()) : b_.CreateAShr(pitch(m, times.size()), 3);
        out = b_.CreateAdd(out, b_.CreateMul(bytes, g_.i64(times[m])));
    }
    return out;
}

AccessEmitter::BlockBase AccessEmitter::block_base(const BlockWords& block, Place first) {
    const Address address = this->address(first);
    if (out_bytes_) return {b_.CreateSub(address.offset, g_.i64(block.origin / 8)), nullptr};
    Value* bit = b_.CreateSub(address.offset, g_.i64(block.origin));
    return {b_.CreateAShr(bit, 3), block.phase ? b_.CreateTrunc(b_.CreateAnd(bit, 7), b_.getInt32Ty()) : nullptr};
}

/// Of the block at p, wherever that is.
Place AccessEmitter::block_place(const Point& p) {
    Place place;
    for (size_t a = 0; a < in_.access.axes.size(); ++a) place.at.push_back(axis(a, p, place, true));
    return place;
}

Value* AccessEmitter::has_pitches(const BlockWords& block) {
    Value* out = b_.getTrue();
    for (size_t m = 0; m + 1 < block.pitches.size(); ++m) {
        if (!block.pitches[m]) continue;
        Value* same = b_.CreateICmpEQ(pitch(m, block.pitches.size()), g_.i64(block.pitches[m] / (out_bytes_ ? 8 : 1)));
        out = b_.CreateAnd(out, same);
    }
    return out;
}

Value* AccessEmitter::in_blocks(const TurnedLoad& at) {
    const BlockWords& block = *at.block;
    Value* out = has_pitches(block);
    for (const auto& [dim, multiple] : {std::pair{at.n, int64_t{block.lanes}}, {at.k, block.count}}) {
        const size_t a = axis_of(dim);
        if (in_.access.axes[a].kind != Access::range) continue;
        out = b_.CreateAnd(out, b_.CreateICmpEQ(b_.CreateAnd(g_.scalar(in_.index[a].value), g_.i64(multiple - 1)), g_.i64(0)));
    }
    return out;
}

Value* AccessEmitter::block_in_storage(const BlockWords& block, const BlockBase& base) {
    Value *low = nullptr, *high = nullptr;
    for (size_t l = 0; l < block.lines.size(); ++l) {
        Value* line = line_offset(block, l);
        low = low ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, low, line) : line;
        high = high ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, high, line) : line;
    }
    low = b_.CreateAdd(b_.CreateAdd(base.first, low), g_.i64(block.low));
    high = b_.CreateAdd(b_.CreateAdd(base.first, high), g_.i64(block.high));
    Value* bytes = g_.argument_slot(g_.param(in_.object).first + ParamSlots::bytes);
    return b_.CreateAnd(b_.CreateICmpSGE(low, g_.i64(0)), b_.CreateICmpSLE(high, bytes));
}

/// The words of a block, a vector each; `ahead`: those of later blocks are asked for.
void AccessEmitter::block_vectors(const BlockWords& block, const BlockBase& base, bool ahead, const std::function<void(size_t, Value*)>& put) {
    Value* data = b_.CreateGEP(b_.getInt8Ty(), g_.param_data(g_.param(in_.object)), base.first);
    std::vector<Value*> lines;
    for (size_t l = 0; l < block.lines.size(); ++l) lines.push_back(b_.CreateGEP(b_.getInt8Ty(), data, line_offset(block, l)));
    if (ahead && lines.size() > 1)
        for (Value* line : lines)
            prefetch(b_.CreateConstGEP1_64(b_.getInt8Ty(), line, static_cast<uint64_t>(kPrefetched * (block.high - block.low))), false);
    WordVectors words(g_, block, std::move(lines));
    llvm::Type* type = llvm::FixedVectorType::get(b_.getInt32Ty(), block.lanes);
    for (size_t v = 0; v < block.vectors(); ++v) {
        std::vector<BlockPlace> first, second;
        std::vector<uint32_t> shifts;
        bool two = false;
        for (size_t l = 0; l < block.lanes; ++l) {
            const BlockPlace& at = block.words[v * block.lanes + l];
            const WordRange range = words_at(block, at.bit, block.widths[v % block.slots()]);
            first.push_back({at.line, range.first});
            second.push_back({at.line, range.first + range.count - 1});
            shifts.push_back(static_cast<uint32_t>(at.bit - range.first * 32));
            two = two || range.count > 1;
        }
        Value *word = words.of(first), *shift = llvm::ConstantDataVector::get(b_.getContext(), shifts);
        if (two)
            word = b_.CreateIntrinsic(llvm::Intrinsic::fshr, {type}, {words.of(second), word, shift});
        else if (std::any_of(shifts.begin(), shifts.end(), [](uint32_t s) { return s != 0; }))
            word = b_.CreateLShr(word, shift);
        if (base.phase) word = b_.CreateLShr(word, g_.splat(base.phase, block.lanes));
        put(v, word);
    }
}

void AccessEmitter::load_block(const BlockWords& block, const Point& p, Value* to) {
    llvm::Type* type = llvm::FixedVectorType::get(b_.getInt32Ty(), block.lanes);
    block_vectors(block, block_base(block, block_place(p)), true,
                  [&](size_t v, Value* word) { b_.CreateAlignedStore(word, b_.CreateConstGEP1_64(type, to, v), llvm::Align(4)); });
}

/// Lanes that run along one dimension of a declared layout, but not along memory: a block of one element each. Null: they do not, or no block is
/// known.
std::shared_ptr<const BlockWords> AccessEmitter::lane_block(const Place& place) {
    constexpr unsigned kMostBits = 16;
    if (!tensor_ || g_.param(in_.object).affine || g_.options_.bounds || format_.bits > kMostBits || place.nowhere) return nullptr;
    if (place.lanes != 4 && place.lanes != 8 && place.lanes != 16) return nullptr;
    size_t along = SIZE_MAX;
    for (size_t a = 0; a < place.at.size(); ++a) {
        if (place.at[a].kind == Index::uniform) continue;
        if (along != SIZE_MAX || place.at[a].kind != Index::consecutive || place.at[a].step != 1) return nullptr;
        along = a;
    }
    if (along == SIZE_MAX || (order_.runs && order_.unit == static_cast<int>(along))) return nullptr;
    return known_block(fn_, g_.plan_, id_, {along, SIZE_MAX, place.lanes, 1, 1, 1, 1});
}

Value* AccessEmitter::load_lanes(const Place& place, const Point& p, Value* other) {
    const std::shared_ptr<const BlockWords> block = lane_block(place);
    if (!block) return nullptr;
    Value* mask = this->mask(place, p);
    Place first = place;
    first.lanes = 0;
    Value* fits = has_pitches(*block);
    for (Coordinate& c : first.at) {
        if (c.kind == Index::consecutive) fits = b_.CreateAnd(fits, b_.CreateICmpEQ(b_.CreateAnd(c.value, g_.i64(place.lanes - 1)), g_.i64(0)));
        c.kind = Index::uniform;
    }
    const BlockBase base = block_base(*block, first);
    if (mask || !block->covered) fits = b_.CreateAnd(fits, block_in_storage(*block, base));
    const auto by_words = [&] {
        Value* v = nullptr;
        block_vectors(*block, base, false, [&](size_t, Value* word) { v = g_.scalars().from_words(format_, word); });
        if (mask) v = g_.scalars().select(mask, v, other ? other : llvm::Constant::getNullValue(v->getType()));
        return v;
    };
    const auto by_elements = [&] {
        Place lanes = place;
        return load(address(lanes), mask, other, p.lanes, run_mask(place, mask, p));
    };
    return g_.choose(fits, by_words, by_elements);
}

Value* Codegen::in_blocks(ir::InstId load, const TurnedLoad& at) { return AccessEmitter(*this, load).in_blocks(at); }

Value* Codegen::block_in_storage(ir::InstId load, const BlockWords& block, const Point& p) {
    AccessEmitter access(*this, load);
    return access.block_in_storage(block, access.block_base(block, access.block_place(p)));
}

void Codegen::load_block(ir::InstId load, const BlockWords& block, const Point& p, Value* to) { AccessEmitter(*this, load).load_block(block, p, to); }

}  // namespace tegula::cpu
