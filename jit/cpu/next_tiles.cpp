// Loads and their next places (next_tiles.h): indices are evaluated once more with the loop's variable a step further.
#include "jit/cpu/next_tiles.h"

#include "jit/cpu/access.h"

namespace tegula::cpu {

using ir::Op;
using llvm::Value;

namespace {
constexpr int64_t kLineBytes = 64;
constexpr int64_t kMostLines = 9;                      ///< asked for at once
constexpr int64_t kFewBytes = 8 << 10;                 ///< what fits into the first-level cache comes quickly enough
constexpr uint64_t kCacheBytes = uint64_t{768} << 10;  ///< of a second-level cache, for one thread
}  // namespace

NextTiles::NextTiles(Codegen& g, ir::InstId user, std::span<const ir::ValueId> operands, uint64_t busy_bytes)
    : g_(g), b_(g.b()), fn_(g.fn()), body_(fn_.inst(user).parent) {
    const ir::InstId owner = fn_.block(body_).owner;
    if (!owner.valid() || fn_.inst(owner).op != Op::for_loop) return;
    for (ir::ValueId v : operands) find(v, 0);
    uint64_t bytes = busy_bytes;
    for (const Tile& t : tiles_) bytes += static_cast<uint64_t>(t.lines * t.runs * kLineBytes);
    if (bytes > kCacheBytes) tiles_.clear();
}

/// The loads that v is made of, through operations that change no shape but the order of dimensions.
void NextTiles::find(ir::ValueId v, int depth) {
    const ir::Inst* def = fn_.def(v);
    if (!def || depth > 16 || !(def->parent == body_) || fn_.type(v).shape.rank == 0) return;
    if (def->op != Op::load) {
        if (!ir::has_trait(def->op, ir::ELEMWISE) && def->op != Op::cast && def->op != Op::bitcast && def->op != Op::permute) return;
        for (ir::ValueId o : fn_.operands(*def)) find(o, depth + 1);
        return;
    }
    bool far = false;
    const ir::AccessOperands operands(fn_, *def);
    if (operands.access.gathers()) return;
    for (const auto& index : operands.index)
        if (index) far = moves(index.value) || far;
    const Shape& shape = fn_.type(v).shape;
    // A row that starts anywhere reaches into one line more.
    const int64_t row = shape[shape.rank - 1u], row_bytes = (row * fn_.elem(v).bits + 7) / 8, row_lines = row_bytes / kLineBytes + 1;
    const int64_t row_runs = (row_lines + kMostLines - 1) / kMostLines, lines = (row_lines + row_runs - 1) / row_runs;
    const int64_t rows = shape.elements() / std::max<int64_t>(1, row);
    const ir::InstId load = fn_.value(v).def;
    for (const Tile& t : tiles_) far = far && !(t.load == load);
    if (far && rows * row_bytes >= kFewBytes) tiles_.push_back({load, lines, row_runs, rows * row_runs});
}

/// Is this scalar another one in the next iteration, as far as `next` knows?
bool NextTiles::moves(ir::ValueId v) const {
    if (v == fn_.block(body_).args[0]) return true;
    const ir::Inst* def = fn_.def(v);
    if (!def || !(def->parent == body_) || !ir::has_trait(def->op, ir::ELEMWISE) || fn_.type(v).shape.rank) return false;
    for (ir::ValueId o : fn_.operands(*def))
        if (moves(o)) return true;
    return false;
}

Value* NextTiles::next(ir::ValueId v) {
    if (!moves(v)) return g_.scalar(v);
    if (v == fn_.block(body_).args[0]) return b_.CreateAdd(g_.scalar(v), g_.scalar(fn_.operands(fn_.inst(fn_.block(body_).owner))[2]));
    const ir::InstId def = fn_.value(v).def;
    std::vector<Value*> operands;
    for (ir::ValueId o : fn_.operands(fn_.inst(def))) operands.push_back(next(o));
    return g_.apply(def, operands, 0, nullptr);
}

void NextTiles::begin(int64_t times) {
    if (tiles_.empty()) return;
    for (Tile& t : tiles_) t.at_once = (t.runs + times - 1) / times;
    count_ = g_.local(b_.getInt64Ty());
    b_.CreateAlignedStore(g_.i64(0), count_, llvm::Align(8));
}

void NextTiles::fetch_some() {
    if (tiles_.empty()) return;
    Value* count = b_.CreateAlignedLoad(b_.getInt64Ty(), count_, llvm::Align(8));
    b_.CreateAlignedStore(b_.CreateAdd(count, g_.i64(1)), count_, llvm::Align(8));
    for (const Tile& t : tiles_) {
        Value* first = b_.CreateMul(count, g_.i64(t.at_once));
        g_.loop(0, t.at_once, 1, [&](Value* i) { fetch(t, b_.CreateAdd(first, i)); });
    }
}

void NextTiles::fetch(const Tile& tile, Value* run) {
    const ir::Inst& load = fn_.inst(tile.load);
    const ir::ValueId result = fn_.result(load);
    const Shape& shape = fn_.type(result).shape;
    const int64_t elements = tile.lines * kLineBytes * 8 / fn_.elem(result).bits;
    run = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, run, g_.i64(tile.runs - 1));
    Point p;
    p.rank = shape.rank;
    Value* row = b_.CreateUDiv(run, g_.i64(tile.row_runs));
    p.index[shape.rank - 1u] = g_.uniform(b_.CreateMul(b_.CreateURem(run, g_.i64(tile.row_runs)), g_.i64(elements)));
    for (size_t d = shape.rank - 1u; d-- > 0; row = b_.CreateUDiv(row, g_.i64(shape[d])))
        p.index[d] = g_.uniform(b_.CreateURem(row, g_.i64(shape[d])));
    // The indices' scalars are those of the next iteration while the address is made.
    struct Moved {
        ir::ValueId v;
        Value *now, *then;
    };
    std::vector<Moved> moved;
    for (ir::ValueId o : fn_.operands(load))
        if (moves(o)) moved.push_back({o, g_.scalar(o), next(o)});
    for (const Moved& m : moved) g_.define(m.v, m.then);
    AccessEmitter access(g_, tile.load);
    Place place = access.place(p);
    const Address a = access.address(place);
    for (const Moved& m : moved) g_.define(m.v, m.now);
    Value* at = b_.CreateGEP(b_.getInt8Ty(), a.base, a.bytes ? a.offset : b_.CreateLShr(a.offset, 3));
    for (int64_t l = 0; l < tile.lines; ++l) {  // for reading, into the second level, data
        Value* line = b_.CreateConstGEP1_64(b_.getInt8Ty(), at, static_cast<uint64_t>(l * kLineBytes));
        b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()}, {line, g_.i32(0), g_.i32(2), g_.i32(1)});
    }
}

}  // namespace tegula::cpu
