// The fixed tree of reductions (lang/ops.def reduce) over vectors: with P the smallest power of two >= n, for s = P/2 .. 1, x[i] = join(x[i], x[i +
// s]) for i < s where i + s < n. Several levels are joined at once in registers: a column is every (P / radix)-th leaf. Values may be tuples
// (regions).
#pragma once
#include <bit>
#include <functional>

#include "jit/cpu/codegen.h"

namespace tegula::cpu {

using Values = std::vector<llvm::Value*>;

struct Leaf {
    Values values;
    llvm::Value* active = nullptr;  ///< lanes that exist; null: all. Only the last leaf may lack some.
};

class TreeEmitter {
public:
    struct Part {
        const Format* format;
        bool pointer;
    };
    std::function<Leaf(llvm::Value* first, int64_t offset)> leaf;  ///< leaf first + offset; called once or twice per column of radix leaves
    std::function<Values(const Values& a, const Values& b)> join;
    std::vector<Part> parts;  ///< of a tuple
    unsigned first_radix = 2, radix = 8;
    bool counts = false;     ///< leaves tell what their positions are counted by (Codegen::counts)
    bool any_order = false;  ///< columns are of neighbours: those that are inside of all tensors come first
    bool ragged = false;     ///< the last leaf may lack lanes; looked at for any order

    /// Leaves are vectors of `lanes` (0: scalars); the work area of `inst` from `offset` on holds bytes(..).
    TreeEmitter(Codegen& g, ir::InstId inst, int64_t count, unsigned lanes) : g_(g), inst_(inst), count_(count), lanes_(lanes) {}
    /// Emits the tree; what all leaves give.
    Values run();
    static uint64_t bytes(int64_t count, unsigned lanes, unsigned element_bytes);

private:
    Values by_neighbours();
    Values column(llvm::Value* number, int64_t distance, int64_t present, const std::function<Leaf(llvm::Value*, int64_t)>& get);
    Leaf joined(const Leaf& a, const Leaf& b);
    Buffer area(size_t part);
    Point at(llvm::Value* number);
    Leaf load(llvm::Value* number);
    void save(llvm::Value* number, const Values& values);
    Codegen& g_;
    ir::InstId inst_;
    int64_t count_;
    unsigned lanes_;
};

/// Joins the lanes of vectors, of which the first `count` hold elements (count > lanes / 2), by the same tree; scalars.
Values join_lanes(Codegen& g, Values v, unsigned lanes, int64_t count, const std::function<Values(const Values& a, const Values& b)>& join);

/// A tile seen along one axis, [outer, n, inner]; axis -1 is the whole tile.
struct AxisView {
    Shape shape;
    int64_t axis, n = 1, inner = 1;
    AxisView(const Shape& s, int64_t a) : shape(s), axis(a) {
        if (a < 0) n = s.elements();
        for (int64_t d = a; d >= 0 && d < s.rank; ++d) (d == a ? n : inner) *= s[static_cast<size_t>(d)];
    }
    bool along_lanes() const { return inner == 1; }  ///< else lanes run across, along the inner dimensions
    unsigned lanes(unsigned width) const {
        return static_cast<unsigned>(std::min<int64_t>(width, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)))));
    }
    /// The point of the tile at coordinate `index` of the axis; `p` is a point of the tile without it.
    Point point(Codegen& g, const Point& p, const Index& index, unsigned lanes) const;
    /// Lanes `from` .. along the axis, with a mask where some lie beyond it.
    Point run(Codegen& g, const Point& p, llvm::Value* from, unsigned lanes) const;
    /// Those of leaf first + offset of a tree whose loop counts `first`.
    Point leaf(Codegen& g, const Point& p, llvm::Value* first, int64_t offset, unsigned lanes) const;
};

}  // namespace tegula::cpu
