// The accesses of a nest, each with the dimension its memory runs along, and the order that costs them least (nest_order.h).
#include "jit/cpu/nest_order.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "jit/cpu/apart.h"
#include "jit/cpu/memory_order.h"
#include "lang/access_operands.h"

namespace tegula::cpu {

using ir::Access;
using ir::Op;

namespace {

// Of an access per vector, in instructions of about one element's work.
constexpr int kContiguous = 1, kTurned = 2, kStrided = 8;
constexpr int kStoreWeight = 2;
constexpr size_t kMostTurned = 4;      ///< loads
constexpr int64_t kLeastTurned = 4;    ///< elements along memory
constexpr unsigned kMostUnrolled = 8;  ///< elements of narrow formats that fill whole words

/// How the nest's dimensions move one coordinate of a value.
struct From {
    uint32_t moved = 0;  ///< by which, as bits
    int run = -1;        ///< by which from neighbour to neighbour
    bool same = true;    ///< it is that dimension's coordinate
    friend auto operator<=>(const From&, const From&) = default;
};
using Coordinates = std::vector<From>;

struct Use {
    std::string name;
    uint32_t moved = 0;
    int unit = -1;  ///< the nest's dimension along which memory runs
    int weight = 1;
    std::optional<TurnedLoad> turned;  ///< where it may be: `n` is still to be chosen
};

class NestPlanner {
public:
    NestPlanner(const ir::Function& fn, const Plan& plan, const CompileOptions& options, unsigned lanes)
        : fn_(fn), plan_(plan), options_(options), lanes_(lanes) {}

    NestOrder store(ir::InstId id) {
        const ir::Inst& inst = fn_.inst(id);
        const ir::AccessOperands operands(fn_, inst);
        const ir::Access& access = operands.access;
        shape_ = fn_.type(operands.value.value).shape;
        // Of several elements at one place the last stays, in the order of the program.
        if (access.gathers()) return row_major(shape_);
        const MemoryOrder order = memory_order(fn_, options_, operands.object);
        if (order.unit < 0 && is_strided(operands.object)) return row_major(shape_);
        dense_ = [this, access, order](int n, int k) { return lies_dense(access, order, n, k); };
        return planned(by_strides(inst, order), [&](const Coordinates& own) { this->access(id, own, kStoreWeight); });
    }

    /// Into a stored tile; `read(coordinates)`: what makes its elements.
    template <class Read>
    NestOrder tile(const Shape& shape, const Read& read) {
        shape_ = shape;
        dense_ = [](int, int) { return true; };
        return planned(row_major(shape).dims, [&](const Coordinates& own) {
            uses_.push_back({"scratch memory", moved_by(own), last_of(shape_), kStoreWeight, {}});
            read(own);
        });
    }

    void walk(ir::ValueId v, const Coordinates& given) {
        const Type& type = fn_.type(v);
        if (type.kind != Type::tile || type.shape.rank == 0 || type.shape.rank != given.size()) return;
        const Coordinates at = trimmed(given, type.shape);
        if (!seen_.insert({v.v, at}).second) return;
        const ir::Inst* def = fn_.def(v);
        if (plan_.values[v.v].kind == Home::fused && def && def->op != Op::constant_tile) return visit(fn_.value(v).def, at);
        stored(v, at);
    }

    /// What evaluating the instruction at a point reads.
    void visit(ir::InstId id, const Coordinates& at) {
        const ir::Inst& inst = fn_.inst(id);
        const auto operands = fn_.operands(inst);
        const auto attrs = fn_.attrs(inst);
        switch (inst.op) {
            case Op::load:
            case Op::extract:
                return access(id, at, 1);
            case Op::ptr_load:  // what it reports names the first lane
                ordered_ = true;
                return;
            case Op::permute: {
                Coordinates from(at.size());
                for (size_t d = 0; d < at.size(); ++d) from[static_cast<size_t>(attrs[d])] = at[d];
                return walk(operands[0], from);
            }
            case Op::broadcast: {
                const size_t rank = fn_.type(operands[0]).shape.rank;
                return walk(operands[0], {at.end() - static_cast<std::ptrdiff_t>(rank), at.end()});
            }
            case Op::slice: {
                Coordinates from = at;
                for (size_t d = 0; d < at.size(); ++d) {
                    if (attrs[2 * d] != 0 || attrs[2 * d + 1] != 1) from[d].same = false;
                    if (attrs[2 * d + 1] != 1) from[d].run = -1;
                }
                return walk(operands[0], from);
            }
            case Op::reshape:
                return walk(operands[0], reshaped(inst, at));
            case Op::gather: {
                walk(operands[1], at);
                Coordinates from = at;
                from[static_cast<size_t>(attrs[0])] = {moved_by(at), -1, false};
                return walk(operands[0], from);
            }
            default:
                for (ir::ValueId o : operands) walk(o, at);
        }
    }

private:
    template <class Accesses>
    NestOrder planned(std::vector<uint8_t> dims, const Accesses& accesses) {
        NestOrder out;
        out.dims = std::move(dims);
        if (out.dims.size() < 2 || options_.bounds) return row_major(shape_);
        Coordinates own;
        for (size_t d = 0; d < shape_.rank; ++d) own.push_back(shape_[d] == 1 ? From{} : From{1u << d, static_cast<int>(d), true});
        accesses(own);
        if (ordered_) return row_major(shape_);
        if (!takes_few(out)) choose(out);
        return out;
    }

    /// Vectors along the last dimension would have lanes for nothing: they run along the one before it.
    bool takes_few(NestOrder& out) const {
        const int k = out.dims.back(), n = out.dims[out.dims.size() - 2];
        if (extent(k) > kMostApart || 2 * extent(k) > lanes_ || extent(n) < lanes_ || !dense_(n, k)) return false;
        out.few = k;
        out.dims.pop_back();
        out.text = "vectors run along dimension " + std::to_string(n) + "; the " + std::to_string(extent(k)) + " elements along dimension " +
                   std::to_string(k) + " are put together in registers";
        return true;
    }

    /// Does the part hold all of memory's last dimension k, and dimension n follow?
    bool lies_dense(const Access& access, const MemoryOrder& order, int n, int k) const {
        int dim = 0;
        bool all = false, next = false;
        for (size_t a = 0; a < access.axes.size(); ++a) {
            const Access::Axis& axis = access.axes[a];
            if (axis.kind == Access::index) continue;
            all = all || (dim == k && axis.kind == Access::all && static_cast<int>(a) == order.unit);
            next = next || (dim == n && !order.steps.empty() && order.steps[a] * (axis.kind == Access::all ? 1 : axis.step) == extent(k));
            ++dim;
        }
        return all && next;
    }

    static int last_of(const Shape& shape) {
        int d = shape.rank - 1;
        while (d >= 0 && shape[static_cast<size_t>(d)] == 1) --d;
        return d;
    }

    static uint32_t moved_by(const Coordinates& at) {
        uint32_t out = 0;
        for (const From& f : at) out |= f.moved;
        return out;
    }

    bool is_strided(ir::ValueId tensor) const {
        for (size_t i = 0; i < fn_.params.size() && i < options_.tensors.size(); ++i)
            if (fn_.params[i].value == tensor) return options_.tensors[i].strided;
        return false;
    }

    std::string name_of(ir::ValueId object) const {
        for (const ir::Param& p : fn_.params)
            if (p.value == object) return "`" + p.name + "`";
        return "scratch memory";
    }

    /// The part's dimensions by the strides of their axes.
    std::vector<uint8_t> by_strides(const ir::Inst& inst, const MemoryOrder& order) const {
        std::vector<int> dim;
        int next = 0;
        for (const Access::Axis& axis : fn_.access(inst).axes) dim.push_back(axis.kind == Access::index ? -1 : next++);
        std::vector<uint8_t> out;
        for (uint8_t a : order.axes)
            if (dim[a] >= 0 && shape_[static_cast<size_t>(dim[a])] > 1) out.push_back(static_cast<uint8_t>(dim[a]));
        return out;
    }

    /// A load, store or extract, the part at `at`.
    void access(ir::InstId id, const Coordinates& at, int weight) {
        const ir::Inst& inst = fn_.inst(id);
        const ir::AccessOperands operands(fn_, inst);
        const ir::AccessPart part(fn_, operands);
        const Access& access = operands.access;
        const ir::ValueId object = operands.object;
        const MemoryOrder order = memory_order(fn_, options_, object);
        Use use{name_of(object), 0, -1, weight, {}};
        TurnedLoad turned{id, {}, at.size(), 0, fn_.elem(object).bits, {}};
        for (size_t a = 0; a < access.axes.size(); ++a) {
            const Access::Axis& axis = access.axes[a];
            if (axis.kind == Access::index) continue;
            const auto dim = static_cast<size_t>(part.dim[a]);
            if (axis.kind == Access::gather) {
                const ir::ValueId index = operands.index[a].value;
                const size_t rank = fn_.type(index).shape.rank, first = dim + part.joint.rank - rank;
                const Coordinates own(at.begin() + static_cast<std::ptrdiff_t>(first), at.begin() + static_cast<std::ptrdiff_t>(first + rank));
                use.moved |= moved_by(trimmed(own, fn_.type(index).shape));
                walk(index, own);
                continue;
            }
            const From& from = at[dim];
            use.moved |= from.moved;
            if (static_cast<int>(a) == order.unit && (axis.kind == Access::all || axis.step == 1) && from.run >= 0) {
                use.unit = from.run;
                turned.k = dim;
            }
        }
        turned.dims = dims_of(at);
        if (inst.op == Op::load && use.unit >= 0 && !access.gathers() && turnable(object, order, turned)) use.turned = std::move(turned);
        uses_.push_back(std::move(use));
        for (const ir::ValueId o : fn_.operands(inst).subspan(operands.first)) walk(o, at);
    }

    /// TurnedLoad::dims; -2: no dimension's own coordinate.
    static std::vector<int> dims_of(const Coordinates& at) {
        std::vector<int> out;
        for (const From& f : at) out.push_back(f.same ? f.run : -2);
        return out;
    }

    bool turnable(ir::ValueId tensor, const MemoryOrder& order, const TurnedLoad& load) const {
        const bool bytes = has_byte_address(load.bits);
        const bool whole_rows = !is_strided(tensor) && permutation(fn_.types().layout(fn_.type(tensor).layout), fn_.type(tensor).shape.rank);
        if (fn_.type(tensor).pointer || order.runs || !(bytes || whole_rows)) return false;
        if (load.bits > 32 ? load.bits != 64 : 32 / std::gcd(32u, load.bits) > kMostUnrolled) return false;
        return std::count(load.dims.begin(), load.dims.end(), -2) == 0;
    }

    static Coordinates trimmed(Coordinates at, const Shape& shape) {
        for (size_t d = 0; d < at.size(); ++d)
            if (shape[d] == 1) at[d] = {};
        return at;
    }

    void stored(ir::ValueId v, const Coordinates& at) {
        const int last = last_of(fn_.type(v).shape);
        Use use{"scratch memory", moved_by(at), last < 0 ? -1 : at[static_cast<size_t>(last)].run, 1, {}};
        if (use.unit >= 0 && plan_.values[v.v].kind == Home::stored && !fn_.type(v).pointer) {
            TurnedLoad turned{{}, dims_of(at), static_cast<size_t>(last), 0, fn_.elem(v).container_bytes() * 8, v};
            if (std::count(turned.dims.begin(), turned.dims.end(), -2) == 0) use.turned = std::move(turned);
        }
        uses_.push_back(std::move(use));
    }

    /// Groups of dimensions with equal products, as they are renumbered among themselves.
    Coordinates reshaped(const ir::Inst& inst, const Coordinates& at) const {
        const ir::ValueId from = fn_.operands(inst)[0];
        const Shape &to = fn_.type(fn_.result(inst)).shape, &own = fn_.type(from).shape;
        const bool stored = plan_.values[from.v].kind == Home::stored;  // read by the result's shape
        Coordinates out(own.rank);
        for (const ReshapeGroup& g : reshape_groups(to, own)) {
            From all, last;
            size_t many = 0;
            for (size_t d = g.to; d < g.to_end; ++d)
                if (to[d] > 1) all.moved |= at[d].moved, last = at[d], ++many;
            size_t own_many = 0;
            for (size_t d = g.from; d < g.from_end; ++d) own_many += own[d] > 1;
            all.same = false;
            last.same = last.same && many == 1 && own_many == 1 && !stored;
            last.moved = all.moved;
            size_t left = own_many;
            for (size_t d = g.from; d < g.from_end; ++d)
                if (own[d] > 1) out[d] = --left ? all : last;
        }
        return out;
    }

    /// Of all accesses, where vectors run along `n` and memory along `k` (-1: none) is turned.
    int cost(int n, int k) const {
        int sum = 0;
        size_t squares = 0;
        for (const Use& u : uses_) {
            if (!(u.moved >> n & 1)) continue;
            const bool turned = u.unit == k && k != n && u.turned && squares < kMostTurned && turned_along(*u.turned, n);
            squares += turned;
            sum += u.weight * (u.unit == n ? kContiguous : turned ? kTurned : kStrided);
        }
        return sum;
    }

    static bool turned_along(const TurnedLoad& load, int n) { return std::find(load.dims.begin(), load.dims.end(), n) != load.dims.end(); }

    void choose(NestOrder& out) {
        int n = out.dims.back(), k = -1, least = INT32_MAX;
        for (auto d = out.dims.rbegin(); d != out.dims.rend(); ++d) {
            std::set<int> others{-1};
            for (const Use& u : uses_)
                if (u.turned && u.unit != *d && fills_squares(*d, u.unit)) others.insert(u.unit);
            for (const int other : others)
                if (const int now = cost(*d, other); now < least) least = now, n = *d, k = other;
        }
        for (const Use& u : uses_)
            if (k < 0 && u.unit >= 0 && u.unit != n && (u.moved >> n & 1)) k = u.unit;  // not turned, yet lines of the caches are used as a whole
        if (k >= 0) {
            out.blocks = true;
            for (const Use& u : uses_)
                if (u.turned && u.unit == k && turned_along(*u.turned, n)) add_square(out, *u.turned, n);
        }
        for (const int d : {k, n}) {
            if (d < 0) continue;
            out.dims.erase(std::find(out.dims.begin(), out.dims.end(), d));
            out.dims.push_back(static_cast<uint8_t>(d));
        }
        say(out, n, k);
    }

    void add_square(NestOrder& out, TurnedLoad load, int n) const {
        for (const TurnedLoad& known : out.turned)
            if (known.load == load.load && known.tile == load.tile) return;
        const int64_t step = std::max<int64_t>(out.step, 32 / std::gcd(32u, load.bits));
        int64_t side = lanes_ * 32 / load.bits / step * step;
        if (!out.turned.empty()) side = std::min(side, out.side / step * step);
        if (side == 0 || out.turned.size() == kMostTurned || !fills_squares(n, load.dims[load.k])) return;
        load.n = static_cast<size_t>(std::find(load.dims.begin(), load.dims.end(), n) - load.dims.begin());
        out.step = step;
        out.side = side;
        out.turned.push_back(std::move(load));
    }

    /// Are vectors along n whole ones, and worth turning for what they find along k?
    bool fills_squares(int n, int k) const { return 2 * extent(n) > lanes_ && extent(k) >= kLeastTurned; }
    int64_t extent(int d) const { return shape_[static_cast<size_t>(d)]; }

    void say(NestOrder& out, int n, int k) const {
        const auto names = [&](int d) {
            std::set<std::string> all;
            for (const Use& u : uses_)
                if (u.unit == d && (u.moved >> n & 1)) all.insert(u.name);
            std::string text;
            for (const std::string& s : all) text += (text.empty() ? "" : ", ") + s;
            return text;
        };
        out.text = "vectors run along dimension " + std::to_string(n);
        if (const std::string along = names(n); !along.empty()) out.text += ", as memory of " + along;
        if (k < 0) return;
        out.text += "; memory of " + names(k) + " runs along dimension " + std::to_string(k) + " and is read in ";
        out.text += out.turned.empty() ? "strips of " + std::to_string(lanes_) + " rows"
                                       : "squares of " + std::to_string(lanes_) + " rows x " + std::to_string(out.side) + ", which are turned";
    }

    const ir::Function& fn_;
    const Plan& plan_;
    const CompileOptions& options_;
    const unsigned lanes_;
    Shape shape_;
    std::vector<Use> uses_;
    std::set<std::pair<uint32_t, Coordinates>> seen_;
    std::function<bool(int n, int k)> dense_;  ///< do elements along k, which lie side by side, and then those along n fill what the root writes?
    bool ordered_ = false;
};

}  // namespace

NestOrder row_major(const Shape& shape) {
    NestOrder out;
    for (size_t d = 0; d < shape.rank; ++d)
        if (shape[d] > 1) out.dims.push_back(static_cast<uint8_t>(d));
    return out;
}

NestOrder plan_nest(const ir::Function& fn, const Plan& plan, const CompileOptions& options, ir::InstId root, unsigned lanes) {
    NestPlanner planner(fn, plan, options, lanes);
    if (fn.inst(root).op == Op::store) return planner.store(root);
    return planner.tile(fn.type(fn.result(root)).shape, [&](const Coordinates& own) { planner.visit(root, own); });
}

NestOrder plan_copy(const ir::Function& fn, const Plan& plan, const CompileOptions& options, ir::ValueId from, unsigned lanes) {
    NestPlanner planner(fn, plan, options, lanes);
    return planner.tile(fn.type(from).shape, [&](const Coordinates& own) { planner.walk(from, own); });
}

}  // namespace tegula::cpu
