// reduce_region and scan_region: pointwise bodies run on vectors in the same tree as reduce; any other body runs on single elements, in a copy of the
// operands.
#include "jit/cpu/emit_tree.h"

namespace tegula::cpu {

using llvm::Value;

namespace {

class RegionReduction {
public:
    RegionReduction(Codegen& g, ir::InstId id)
        : g_(g),
          id_(id),
          inst_(g.fn().inst(id)),
          n_(inst_.results.count),
          body_(g.fn().blocks(inst_)[0]),
          pointwise_(g.batchable(body_)),
          view_(g.fn().type(g.fn().operands(inst_)[0]).shape, g.fn().attrs(inst_)[0]) {
        for (size_t k = 0; k < n_; ++k) parts_.push_back({&g.fn().elem(operand(k)), g.fn().type(operand(k)).pointer});
    }

    void run() {
        const Shape& shape = g_.fn().type(g_.fn().result(inst_)).shape;
        const auto each = [&](const Point& p) { finish(p, !pointwise_ ? single(p) : view_.along_lanes() ? along(p) : across(p)); };
        if (shape.rank == 0)
            each(Point{});
        else if (pointwise_ && !view_.along_lanes())
            g_.nest(shape, each);
        else
            g_.nest_elements(shape, each);
    }

private:
    ir::ValueId operand(size_t k) const { return g_.fn().operands(inst_)[k]; }

    Values combine(const Values& a, const Values& b, unsigned lanes) {
        Values all = a;
        all.insert(all.end(), b.begin(), b.end());
        return g_.region(body_, all, lanes);
    }

    Values elements(const Point& p) {
        Values out;
        for (size_t k = 0; k < n_; ++k) out.push_back(g_.lanes(operand(k), p));
        return out;
    }

    TreeEmitter tree(int64_t count, unsigned lanes) {
        TreeEmitter t(g_, id_, count, lanes);
        t.join = [this](const Values& a, const Values& b) {
            const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(a[0]->getType());
            return combine(a, b, vector ? vector->getNumElements() : 0);
        };
        t.parts = parts_;
        t.radix = 2;
        return t;
    }

    Values across(const Point& p) {
        TreeEmitter t = tree(view_.n, p.lanes);
        t.leaf = [&](Value* first, int64_t offset) {
            return Leaf{elements(view_.point(g_, p, g_.uniform(g_.b().CreateAdd(first, g_.i64(offset))), p.lanes)), nullptr};
        };
        return t.run();
    }

    Values along(const Point& p) {
        const unsigned lanes = view_.lanes(g_.width());
        if (lanes == 1) return elements(view_.point(g_, p, g_.uniform(0), 0));
        TreeEmitter t = tree((view_.n + lanes - 1) / lanes, lanes);
        t.counts = true;
        t.leaf = [&](Value* first, int64_t offset) {
            const Point at = view_.leaf(g_, p, first, offset, lanes);
            return Leaf{elements(at), at.active};
        };
        return join_lanes(g_, t.run(), lanes, std::min<int64_t>(view_.n, lanes), t.join);
    }

    /// Level by level over a copy of the line.
    Values single(const Point& p) {
        std::vector<Buffer> copy;
        uint64_t offset = 0;
        for (const TreeEmitter::Part& part : parts_) {
            copy.push_back(g_.work(id_, offset, *part.format, Shape{view_.n}));
            copy.back().pointer = part.pointer;
            offset += (static_cast<uint64_t>(view_.n) * (part.pointer ? 8 : part.format->container_bytes()) + 127) / 64 * 64;
        }
        const auto load = [&](Value* i) {
            Values out;
            for (const Buffer& c : copy) out.push_back(g_.read(c, g_.scalar_point({i})));
            return out;
        };
        const auto save = [&](Value* i, const Values& v) {
            for (size_t k = 0; k < n_; ++k) g_.write(copy[k], g_.scalar_point({i}), v[k]);
        };
        g_.loop(0, view_.n, 1, [&](Value* i) { save(i, elements(view_.point(g_, p, g_.uniform(i), 0))); });
        llvm::IRBuilder<>& b = g_.b();
        const auto levels = static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(view_.n - 1)));
        g_.loop(0, levels, 1, [&](Value* level) {
            Value* s = b.CreateShl(g_.i64(1), b.CreateSub(g_.i64(levels - 1), level));
            Value* pairs = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, s, b.CreateSub(g_.i64(view_.n), s));
            g_.loop(g_.i64(0), pairs, 1, {}, [&](Value* i, Values) {
                save(i, combine(load(i), load(b.CreateAdd(i, s)), 0));
                return Values{};
            });
        });
        return load(g_.i64(0));
    }

    /// combine(init, tree), for a point of the results.
    void finish(const Point& p, const Values& tree) {
        const unsigned lanes = pointwise_ ? p.lanes : 0;
        Values inits;
        for (size_t k = 0; k < n_; ++k) inits.push_back(g_.splat(g_.scalar(operand(n_ + k)), lanes));
        const Values out = combine(inits, tree, lanes);
        for (size_t k = 0; k < n_; ++k) {
            const ir::ValueId v = g_.fn().result(inst_, static_cast<uint32_t>(k));
            if (g_.is_scalar(v))
                g_.define(v, out[k]);
            else if (g_.wanted(v))
                g_.write(g_.buffer(v), p, out[k]);
        }
    }

    Codegen& g_;
    ir::InstId id_;
    const ir::Inst& inst_;
    size_t n_;
    ir::BlockId body_;
    bool pointwise_;
    AxisView view_;
    std::vector<TreeEmitter::Part> parts_;
};

}  // namespace

void Codegen::cpu_reduce_region(ir::InstId id) { RegionReduction(*this, id).run(); }

void Codegen::cpu_scan_region(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const size_t n = inst.results.count;
    const ir::BlockId body = fn_.blocks(inst)[0];
    const auto operands = fn_.operands(inst);
    const bool reverse = fn_.attrs(inst)[1] != 0;
    scan_lines(operands.subspan(0, n), fn_.result(inst), n, fn_.attrs(inst)[0], reverse, batchable(body), 1,
               [&](const Values& acc, const Values& x, unsigned lanes) {
                   Values all = acc;
                   all.insert(all.end(), x.begin(), x.end());
                   return region(body, all, lanes);
               });
}

}  // namespace tegula::cpu
