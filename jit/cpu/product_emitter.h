// What makes the code of one dot with native chains: operands are packed once into panels of the chain's type (product_pack.cpp), then a micro-kernel
// keeps a block of accumulators in registers while k ascends (product.cpp). The plan is product.h's.
#pragma once
#include <functional>

#include "jit/cpu/codegen.h"
#include "jit/cpu/next_tiles.h"
#include "jit/cpu/product.h"

namespace tegula::cpu {

class ProductEmitter {
public:
    /// `live`: rows from there on are seen by nobody; null: all are.
    ProductEmitter(Codegen& g, ir::InstId id, const Product& p, llvm::Value* live = nullptr);
    void run();

private:
    using Value = llvm::Value;
    using Values = std::vector<Value*>;

    /// Element (outer.., x, y) lies at base + x * row + y from the start of its panel; panels of b: one per block of columns.
    struct Operand {
        Value* base;
        int64_t batch, panel, row;
    };
    struct Panel {
        Value* base;
        int64_t row;
    };
    /// Where element (row, column) of matrix z of the batch lies in the packed operand.
    using Placing = std::function<Value*(Value* z, Value* row, Value* column)>;

    Value* at(Value* base, Value* elements) { return b_.CreateGEP(element_, base, elements); }
    Value* at(Value* base, int64_t elements) { return b_.CreateConstGEP1_64(element_, base, static_cast<uint64_t>(elements)); }

    // product_pack.cpp
    Operand left(ir::ValueId v);
    Operand right(ir::ValueId v);
    bool direct(ir::ValueId v) const;
    void pack(ir::ValueId v, bool is_left, const Buffer& to, const Placing& place);
    void pack_rows(ir::ValueId v, bool is_left, const Buffer& to, const Placing& place);
    void pack_squares(ir::ValueId v, bool is_left, const Buffer& to, const Placing& place);
    void each_vector(ir::ValueId v, bool is_left, bool lanes_along_k, Value* z, Value* line, const std::function<void(Value* at, Value* value)>& put);
    Value* across(ir::ValueId v, bool is_left, Point p, Value* group);
    Value* along(ir::ValueId v, bool is_left, Point p, const Index& group);
    Value* part(ir::ValueId v, bool is_left, const Point& p, Value* exists);
    Value* to_chain(Value* v, const Format& from, unsigned lanes);
    Point batch_point(Value* z, const Shape& shape);
    Value* below(Value* at, int64_t extent, unsigned lanes);
    void watch(bool is_left, Value* codes);
    Value* products_are_safe();

    // product.cpp
    void few(const Operand& a, std::span<const ir::ValueId> operands);
    Buffer accumulators(ir::ValueId acc);
    void put_accumulator(const Buffer& c, const Point& p);
    void put_accumulators(const Buffer& c, Point first, int64_t rows, int64_t width);
    void finish(const Buffer& c);
    void passes(Value* z, const Operand& a, const Operand& b, const Buffer& c);
    Values shifted_products(Panel b, Value* depth, int64_t vectors);
    using Start = std::function<void(Value* row, int64_t rows)>;  ///< called in front of each block
    Value* live(int64_t to);
    void rows(Panel a, Panel b, Value* c, Value* depth, int64_t width, const Values& less, const Start& start);
    void block(Panel a, Panel b, Value* c, Value* depth, int64_t rows, int64_t width, const Values& less);
    Values products(Panel a, Panel b, Value* depth, int64_t rows, Values sums);
    void each_sums(Value* c, int64_t rows, int64_t width, const std::function<void(size_t i, Value* at, Value* mask)>& body);
    Value* load_sums(Value* from, Value* mask);
    void store_sums(Value* sums, Value* to, Value* mask);
    Values chains(Panel a, Panel b, Value* depth, int64_t rows, Values sums, bool by_row);

    // product_step.cpp
    Value* step(Value* sum, Value* left, Value* right);
    Value* step_apart(Value* sum, Value* left, Value* right);
    Value* sums_are_safe(const Values& sums);

    // product_scaled.cpp
    void pack_scales();
    void scaled_block(Panel a, Panel b, Value* c, Value* depth, int64_t rows, int64_t width);
    void add_stretch(Value* k, Value* c, const Values& stretch, int64_t rows, int64_t width);
    Values add_scaled(Value* k, Value* row, Value* column, Values sums, const Values& stretch, int64_t rows);

    // product_tiles.cpp
    void configure_tiles(int64_t rows, int64_t width);
    void tiles(Panel a, Panel b, Value* c, Value* depth, int64_t rows, int64_t width);

    Codegen& g_;
    llvm::IRBuilder<>& b_;
    const ir::InstId id_;
    const Product p_;
    Value* const live_;
    const Format& chain_;
    llvm::Type *element_, *vector_;
    llvm::Value* least_[2] = {};  ///< watched: per lane the smallest magnitude above zero of what is packed, less one, of a and of b
    llvm::Value* safe_ = nullptr;
    Value* scales_[2] = {};
    struct {
        Value *k, *row, *column;
    } first_ = {};            ///< of the block at work
    bool in_blocks_ = false;  ///< the accumulators are put where the first pass works on them
    NextTiles next_;
};

/// Accumulators in a format of their own: rounded after every step, element by element along the rows.
void product_by_steps(Codegen& g, ir::InstId id);

}  // namespace tegula::cpu
