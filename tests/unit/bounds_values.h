// What a function of index arithmetic computes, for one launch's extents, scalars and program: an evaluator of its own, written after the table of
// operations, so that nothing in it comes from the passes or the interpreter. Of long loops some trips are visited, the first and last among them.
#pragma once
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lang/ir.h"
#include "lang/layout.h"
#include "tests/unit/bounds_programs.h"

namespace tegula::testing {

/// The numbers of one launch.
struct Launch {
    std::map<std::string, int64_t> numbers;               ///< extents and scalars
    std::map<std::string, std::vector<int64_t>> extents;  ///< of tensors
    std::array<int64_t, 3> grid{}, program{};
};

/// One that the facts allow. `small`: no numbers that loops could take too long for.
inline Launch draw_launch(Draw& r, const ir::Function& fn, const LaunchFacts& facts, bool small) {
    Launch l;
    for (const char* name : {"M", "N", "K"}) {
        LaunchFacts::Fact f;
        for (const auto& known : facts.facts)
            if (known.extent == name) f = known;
        const int64_t first = (f.at_least + f.divisor - 1) / f.divisor, last = std::min(f.at_most, kMaxLayoutElements) / f.divisor;
        const int64_t near_last = last - std::min<int64_t>(r.below(2), last - first);
        const int64_t often = f.at_most != INT64_MAX ? 5 : !small;
        const int64_t which = r.below(20) < often ? near_last : std::min(first + r.below(7), last);
        l.numbers[name] = which * f.divisor;
    }
    for (const char* name : {"n", "m"})
        l.numbers[name] = small || r.chance(60)
                              ? r.between(-40, 40)
                              : r.of<int64_t>({INT64_MIN, INT64_MAX, int64_t{1} << 62, -(int64_t{1} << 61), INT64_MAX / 3 + 1, int64_t{1} << 31});
    for (size_t axis = 0; axis < 3; ++axis) {
        int64_t programs = small ? r.between(1, 3) : r.of<int64_t>({1, 2, 5, (int64_t{1} << 31) - 1});
        for (const auto& g : facts.grid) {
            if (g.axis != static_cast<int>(axis)) continue;
            if (!g.extent.empty()) programs = std::min((l.numbers[g.extent] + g.tile - 1) / g.tile, (int64_t{1} << 31) - 1);
            if (g.at_most != INT64_MAX) programs = g.extent.empty() ? g.at_most + 1 - r.below(g.at_most + 1) / 2 : std::min(programs, g.at_most + 1);
        }
        l.grid[axis] = programs;
        if (programs > 0) l.program[axis] = r.chance(50) ? programs - 1 : r.below(std::min<int64_t>(programs, 8));
    }
    for (const ir::Param& p : fn.params) {
        if (p.kind != ir::Param::tensor) continue;
        for (int d = 0; d < fn.type(p.value).shape.rank; ++d) {
            int64_t extent = r.between(0, 40);
            for (const auto& known : facts.dims)
                if (known.tensor == p.name && known.axis == d) extent = l.numbers[known.extent];
            l.extents[p.name].push_back(extent);
        }
    }
    return l;
}

class Evaluator {
public:
    using Visit = std::function<void(ir::InstId)>;
    Evaluator(const ir::Function& fn, const Launch& launch, uint64_t seed) : fn_(fn), launch_(launch), memory_(seed), values_(fn.value_count()) {
        for (const ir::Param& p : fn.params)
            if (p.kind == ir::Param::scalar || p.kind == ir::Param::extent) values_[p.value.v] = {launch.numbers.at(p.name)};
    }
    /// Calls `visit` for every instruction that runs, once its results are known. Did all of them run?
    bool run(const Visit& visit) { return block(fn_.body, visit) && !skipped_; }
    /// Elements of a tile in row-major order; truths are 0 and 1.
    const std::vector<int64_t>& value(ir::ValueId v) const { return values_[v.v]; }
    bool has(ir::ValueId v) const { return !values_[v.v].empty(); }
    int64_t extent(ir::ValueId tensor, size_t axis) const {
        const int64_t known = fn_.type(tensor).shape[axis];
        if (known != kDynamic) return known;
        for (const ir::Param& p : fn_.params)
            if (p.value == tensor) return launch_.extents.at(p.name)[axis];
        return 0;
    }

private:
    static constexpr int kVisits = 400;  ///< of loops in all
    static int64_t floor_quotient(int64_t a, int64_t b) {
        if (b == 0) return 0;
        if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
        return a / b - (a % b != 0 && (a < 0) != (b < 0));
    }
    static int64_t wrapped(ir::Op op, int64_t a, int64_t b) {
        const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
        switch (op) {
            case ir::Op::add:
                return static_cast<int64_t>(x + y);
            case ir::Op::sub:
                return static_cast<int64_t>(x - y);
            case ir::Op::mul:
                return static_cast<int64_t>(x * y);
            case ir::Op::shl:
                return y > 63 ? 0 : static_cast<int64_t>(x << y);
            case ir::Op::div:
                return floor_quotient(a, b);
            case ir::Op::rem:
                return b == 0 ? a : static_cast<int64_t>(x - y * static_cast<uint64_t>(floor_quotient(a, b)));
            case ir::Op::div_trunc:
                return b == 0 ? 0 : b == -1 ? static_cast<int64_t>(0 - x) : a / b;
            case ir::Op::rem_trunc:
                return b == 0 ? a : b == -1 ? 0 : a % b;
            case ir::Op::div_ceil:
                return b == 0 ? 0 : b == -1 ? static_cast<int64_t>(0 - x) : a / b + (a % b != 0 && (a < 0) == (b < 0));
            case ir::Op::min:
                return std::min(a, b);
            case ir::Op::max:
                return std::max(a, b);
            case ir::Op::bit_and:
                return a & b;
            case ir::Op::lt:
                return a < b;
            case ir::Op::le:
                return a <= b;
            case ir::Op::gt:
                return a > b;
            case ir::Op::ge:
                return a >= b;
            default:
                throw std::runtime_error(std::string("the evaluator knows no ") + ir::op_row(op).name);
        }
    }
    bool block(ir::BlockId b, const Visit& visit) {
        for (const ir::InstId i : fn_.block(b).insts) {
            if (fn_.inst(i).op == ir::Op::for_loop ? !loop(i, visit) : !inst(i)) return false;
            visit(i);
        }
        return true;
    }
    bool loop(ir::InstId id, const Visit& visit) {
        const ir::Inst& inst = fn_.inst(id);
        const auto operands = fn_.operands(inst);
        const ir::BlockId body = fn_.blocks(inst)[0];
        const auto& args = fn_.block(body).args;
        const int64_t lo = value(operands[0])[0], hi = value(operands[1])[0], step = value(operands[2])[0];
        for (size_t c = 3; c < operands.size(); ++c) values_[args[c - 2].v] = value(operands[c]);
        const __int128 trips = step > 0 && lo < hi ? (static_cast<__int128>(hi) - lo + step - 1) / step : 0;
        if (operands.size() > 3 && trips > 64) return false;  // what it carries is not known without every trip
        for (__int128 t = 0; t < trips; ++t) {
            if (trips > 64 && t == 3) t = trips - 3, skipped_ = true;
            if (++visits_ > kVisits) return false;
            values_[args[0].v] = {static_cast<int64_t>(lo + t * step)};
            if (!block(body, visit)) return false;
            const ir::Inst& yield = fn_.inst(fn_.block(body).insts.back());
            for (size_t c = 3; c < operands.size(); ++c) values_[args[c - 2].v] = value(fn_.operands(yield)[c - 3]);
        }
        for (size_t c = 3; c < operands.size(); ++c) values_[fn_.result(inst, static_cast<uint32_t>(c - 3)).v] = values_[args[c - 2].v];
        return true;
    }
    /// The element of a tile that stands at `at` of a larger one.
    static size_t place(const Shape& shape, const Shape& from, size_t at) {
        size_t place = 0, stride = 1;
        for (size_t d = from.rank; d-- > 0;) {
            const size_t big = d + shape.rank - from.rank;
            size_t below = 1;
            for (size_t e = big + 1; e < shape.rank; ++e) below *= static_cast<size_t>(shape[e]);
            const size_t index = at / below % static_cast<size_t>(shape[big]);
            if (from[d] != 1) place += index * stride;
            stride *= static_cast<size_t>(from[d]);
        }
        return place;
    }
    bool inst(ir::InstId id) {
        const ir::Inst& i = fn_.inst(id);
        const auto operands = fn_.operands(i);
        const auto attrs = fn_.attrs(i);
        if (i.results.count == 0) return true;
        std::vector<int64_t>& out = values_[fn_.result(i).v];
        const Type& type = fn_.type(fn_.result(i));
        const auto n = static_cast<size_t>(type.shape.elements());
        if (type.pointer) return true;
        switch (i.op) {
            case ir::Op::constant:
                out.assign(n, attrs[0]);
                return true;
            case ir::Op::program_id:
                out = {launch_.program[static_cast<size_t>(attrs[0])]};
                return true;
            case ir::Op::num_programs:
                out = {launch_.grid[static_cast<size_t>(attrs[0])]};
                return true;
            case ir::Op::dim:
                out = {extent(operands[0], static_cast<size_t>(attrs[0]))};
                return true;
            case ir::Op::load:
            case ir::Op::ptr_load: {
                static constexpr int64_t kWords[] = {0, 1, -1, 5, 17, INT64_MAX, INT64_MIN, int64_t{1} << 40};
                out.assign(n, kWords[memory_.below(8)]);
                return true;
            }
            case ir::Op::iota:
                out.resize(n);
                for (size_t e = 0; e < n; ++e) {
                    size_t below = 1;
                    for (size_t d = static_cast<size_t>(attrs[0]) + 1; d < type.shape.rank; ++d) below *= static_cast<size_t>(type.shape[d]);
                    out[e] = static_cast<int64_t>(e / below % static_cast<size_t>(type.shape[static_cast<size_t>(attrs[0])]));
                }
                return true;
            case ir::Op::broadcast:
                out.resize(n);
                for (size_t e = 0; e < n; ++e) out[e] = value(operands[0])[place(type.shape, fn_.type(operands[0]).shape, e)];
                return true;
            case ir::Op::select: {
                std::vector<int64_t> chosen(n);
                for (size_t e = 0; e < n; ++e) chosen[e] = value(operands[value(operands[0])[e] ? 1 : 2])[e];
                out = chosen;
                return true;
            }
            default:
                out.resize(n);
                for (size_t e = 0; e < n; ++e) out[e] = wrapped(i.op, value(operands[0])[e], value(operands[1])[e]);
                return true;
        }
    }

    const ir::Function& fn_;
    const Launch& launch_;
    Draw memory_;
    std::vector<std::vector<int64_t>> values_;
    int visits_ = 0;
    bool skipped_ = false;
};

}  // namespace tegula::testing
