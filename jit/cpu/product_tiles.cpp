// Products of bytes on tiles of AMX: sums of 16 rows and 16 columns, to which one instruction adds 64 products each. Panels are those of the other
// instructions, with k filled up to whole tiles; edges of the sums are tiles of fewer rows and columns.
#include <llvm/IR/IntrinsicsX86.h>

#include "jit/cpu/product_emitter.h"

namespace tegula::cpu {

using llvm::Value;

namespace {

constexpr int64_t kSide = 16;  ///< rows of a tile, and 32-bit elements of a row

// Names of the eight tiles.
uint8_t sums_tile(int64_t row, int64_t column) { return static_cast<uint8_t>(2 * row + column); }
uint8_t left_tile(int64_t row) { return static_cast<uint8_t>(4 + row); }
uint8_t right_tile(int64_t column) { return static_cast<uint8_t>(6 + column); }

int64_t tiles_of(int64_t extent) { return (extent + kSide - 1) / kSide; }
int64_t part_of(int64_t extent, int64_t tile) { return std::min(extent - tile * kSide, kSide); }

llvm::Intrinsic::ID tile_intrinsic(const DotRow& row) {
    switch (row.instruction) {
        case DotRow::tdpbusd:
            return llvm::Intrinsic::x86_tdpbusd;
        case DotRow::tdpbuud:
            return llvm::Intrinsic::x86_tdpbuud;
        case DotRow::tdpbssd:
            return llvm::Intrinsic::x86_tdpbssd;
        default:
            return llvm::Intrinsic::x86_tdpbsud;
    }
}

}  // namespace

void Codegen::leave_without_tiles() {
    if (leave_->size() > 1) return;  // said before
    llvm::IRBuilder<>(leave_->getTerminator()).CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
}

/// The tiles' shapes for blocks of `rows` x `width` sums; their contents are lost.
void ProductEmitter::configure_tiles(int64_t rows, int64_t width) {
    std::array<uint8_t, 64> config{1};  // the palette; bytes of rows from 16 on, in 16 bits each, rows from 48 on
    const auto shape = [&](uint8_t tile, int64_t height, int64_t columns) {
        config[16u + 2u * tile] = static_cast<uint8_t>(4 * columns);
        config[48u + tile] = static_cast<uint8_t>(height);
    };
    for (int64_t c = 0; c < tiles_of(width); ++c) shape(right_tile(c), kSide, part_of(width, c));
    for (int64_t r = 0; r < tiles_of(rows); ++r) {
        shape(left_tile(r), part_of(rows, r), kSide);
        for (int64_t c = 0; c < tiles_of(width); ++c) shape(sums_tile(r, c), part_of(rows, r), part_of(width, c));
    }
    llvm::Constant* data = llvm::ConstantDataArray::get(b_.getContext(), config);
    auto* global =
        new llvm::GlobalVariable(*b_.GetInsertBlock()->getModule(), data->getType(), true, llvm::GlobalValue::PrivateLinkage, data, "tiles");
    b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {global});
    g_.leave_without_tiles();
}

/// The micro-kernel on configured tiles: at most 2 x 2 of sums.
void ProductEmitter::tiles(Panel a, Panel b, Value* c, Value* depth, int64_t rows, int64_t width) {
    const int64_t down = tiles_of(rows), across = tiles_of(width);
    const auto move = [&](llvm::Intrinsic::ID id, uint8_t tile, Value* from, int64_t row) {
        b_.CreateIntrinsic(id, {}, {b_.getInt8(tile), from, g_.i64(row * p_.bytes)});
    };
    const auto each_sum = [&](auto&& f) {
        for (int64_t r = 0; r < down; ++r)
            for (int64_t w = 0; w < across; ++w) f(r, w);
    };
    const auto move_sums = [&](llvm::Intrinsic::ID id) {
        each_sum([&](int64_t r, int64_t w) { move(id, sums_tile(r, w), at(c, kSide * (r * p_.n + w)), p_.n); });
    };
    move_sums(llvm::Intrinsic::x86_tileloadd64);
    g_.loop(g_.i64(0), depth, kSide, {}, [&](Value* k, Values) {
        Value* row = at(b.base, b_.CreateMul(k, g_.i64(b.row)));
        for (int64_t w = 0; w < across; ++w) move(llvm::Intrinsic::x86_tileloadd64, right_tile(w), at(row, w * kSide), b.row);
        for (int64_t r = 0; r < down; ++r) move(llvm::Intrinsic::x86_tileloadd64, left_tile(r), at(at(a.base, k), r * kSide * a.row), a.row);
        each_sum([&](int64_t r, int64_t w) {
            b_.CreateIntrinsic(tile_intrinsic(*p_.row), {}, {b_.getInt8(sums_tile(r, w)), b_.getInt8(left_tile(r)), b_.getInt8(right_tile(w))});
        });
        return Values{};
    });
    move_sums(llvm::Intrinsic::x86_tilestored64);
}

}  // namespace tegula::cpu
