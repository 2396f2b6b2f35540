// Reductions without row-major scratch: the steps of a ReducePlan on arrays of registers. Joins commute, so both lanes of a shuffle compute the same
// bits.
#include <algorithm>

#include "jit/cuda/emitter.h"
#include "lang/gpu/scratch.h"

namespace tegula::cuda {

namespace {

std::vector<std::string> elements(const std::vector<std::string>& arrays, Ex r) {
    std::vector<std::string> out;
    for (const std::string& a : arrays) out.push_back(a + "[" + r.text() + "]");
    return out;
}

}  // namespace

void Emitter::reduce_joined(ir::InstId id, const ReducePlan& plan, const Joined& joined) {
    for (const ReducePlan::Step& step : plan.steps) {
        switch (step.kind) {
            case ReducePlan::Step::digits:
                join_digits(step, joined);
                break;
            case ReducePlan::Step::reg:
                each_of(step.live, [&](Ex r) { joined.join(elements(joined.names, r), elements(joined.names, r + step.a)); });
                break;
            case ReducePlan::Step::lane:
            case ReducePlan::Step::scatter:
                join_lanes(step, joined);
                break;
            case ReducePlan::Step::warps:
                join_warps(id, step, joined);
                break;
            case ReducePlan::Step::spread:
                join_spread(id, step, joined);
                break;
        }
    }
}

/// The tree over digits; registers of digit 0 are the live ones.
void Emitter::join_digits(const ReducePlan::Step& step, const Joined& joined) {
    int half = 1;
    while (half * 2 < step.b) half *= 2;
    for (; half > 0; half /= 2)
        for (int digit = 0; digit < half && digit + half < step.b; ++digit)
            each_of(step.live,
                    [&](Ex r) { joined.join(elements(joined.names, r + digit * step.a), elements(joined.names, r + (digit + half) * step.a)); });
}

void Emitter::join_lanes(const ReducePlan::Step& step, const Joined& joined) {
    const bool scatter = step.kind == ReducePlan::Step::scatter;
    const std::string upper = fresh("upper");
    if (scatter) line("const bool " + upper + " = (t & " + std::to_string(step.a) + ") != 0;");
    each_of(step.live, [&](Ex r) {
        std::vector<std::string> sent = elements(joined.names, r);
        for (size_t i = 0; i < sent.size() && scatter; ++i) {
            const std::string mine = sent[i], second = joined.names[i] + "[" + (r + step.b).text() + "]";
            sent[i] = fresh("sent");
            line("const " + joined.types[i] + " " + sent[i] + " = " + upper + " ? " + mine + " : " + second + ";");
            line("if (" + upper + ") " + mine + " = " + second + ";");
        }
        joined.join(elements(joined.names, r), from_lane(sent, step.a, joined));
    });
}

std::vector<std::string> Emitter::from_lane(const std::vector<std::string>& sent, int mask, const Joined& joined) {
    std::vector<std::string> other;
    converge();
    for (size_t i = 0; i < sent.size(); ++i) {
        const std::string& type = joined.types[i];
        other.push_back(fresh("o"));
        line("const " + type + " " + other.back() + " = (" + type + ")__shfl_xor_sync(0xffffffffu, " + sent[i] + ", " + std::to_string(mask) + ");");
    }
    return other;
}

/// Live registers in order are rows of one element per thread of the group.
void Emitter::each_row(const ReducePlan::Step& step, const std::function<void(Ex r, Ex row)>& body) {
    std::vector<int> rows(step.live.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int>(i);
    each_of(rows, [&](Ex row) { body(rename(step.live, row), row); });
}

/// Every thread writes its partial results; gives the areas, by array.
std::vector<std::string> Emitter::write_partials(ir::InstId id, const ReducePlan::Step& step, const Joined& joined) {
    const ScratchPlan plan = scratch_plan(fn_, id);
    std::vector<std::string> areas;
    for (size_t i = 0; i < joined.names.size(); ++i) areas.push_back(scratch_area(id, joined.types[i], plan.work[i]));
    each_row(step, [&](Ex r, Ex row) {
        for (size_t i = 0; i < areas.size(); ++i)
            line(areas[i] + "[" + (row * group_threads() + thread_).text() + "] = " + joined.names[i] + "[" + r.text() + "];");
    });
    sync();
    return areas;
}

/// Joins the partial results of all warps that hold other parts, first mask first; gives the variables, by array.
std::vector<std::string> Emitter::join_parts(const std::vector<std::string>& areas, const std::string& base, const ReducePlan::Step& step,
                                             const Joined& joined) {
    const int parts = 1 << step.masks.size();
    std::vector<std::vector<std::string>> part;
    for (int p = 0; p < parts; ++p) {
        int warp = 0;  // the first mask is the highest bit of the part number
        for (size_t m = 0; m < step.masks.size(); ++m)
            if (p >> (step.masks.size() - 1 - m) & 1) warp |= step.masks[m];
        std::vector<std::string>& names = part.emplace_back();
        for (size_t i = 0; i < areas.size(); ++i) {
            names.push_back(fresh("p"));
            line(joined.types[i] + " " + names[i] + " = " + areas[i] + "[" + base + " + " + std::to_string(warp * 32) + "];");
        }
    }
    for (int half = parts / 2; half > 0; half /= 2)
        for (int p = 0; p < half; ++p) joined.join(part[static_cast<size_t>(p)], part[static_cast<size_t>(p + half)]);
    return part[0];
}

/// Every thread joins the partial results of all warps in all of its registers.
void Emitter::join_warps(ir::InstId id, const ReducePlan::Step& step, const Joined& joined) {
    const std::vector<std::string> areas = write_partials(id, step, joined);
    int all = 0;
    for (int m : step.masks) all |= m;
    const std::string base = fresh("base");
    line("const int " + base + " = t & " + std::to_string(~(all * 32) & (group_threads() - 1)) + ";");
    each_row(step, [&](Ex r, Ex row) {
        const std::vector<std::string> part = join_parts(areas, (row * group_threads() + int32(base)).text(), step, joined);
        for (size_t i = 0; i < areas.size(); ++i) line(joined.names[i] + "[" + r.text() + "] = " + part[i] + ";");
    });
}

/// Each warp joins the rows of its share over warps and lanes; one lane then writes them for all threads. With fewer rows than warps, several warps
/// compute the same row.
void Emitter::join_spread(ir::InstId id, const ReducePlan::Step& step, const Joined& joined) {
    const ScratchPlan plan = scratch_plan(fn_, id);
    const int warps = fn_.gpu->warps, rows = static_cast<int>(step.live.size()), share = std::max(1, rows / warps);
    const std::vector<std::string> areas = write_partials(id, step, joined);
    std::vector<std::string> results, shares;
    for (size_t i = 0; i < joined.names.size(); ++i) {
        results.push_back(scratch_area(id, joined.types[i], plan.work[joined.names.size() + i]));
        shares.push_back(fresh("share"));
        line(joined.types[i] + " " + shares[i] + "[" + std::to_string(share) + "];");
    }
    const std::string first = fresh("first");
    const std::string warp = rows < warps ? "(t >> 5 & " + std::to_string(rows - 1) + ")" : "(t >> 5)";
    line("const int " + first + " = " + warp + (share > 1 ? " * " + std::to_string(share) : "") + ";");
    std::vector<int> own;
    for (int k = 0; k < share; ++k) own.push_back(k);
    each_of(own, [&](Ex k) {
        const Ex base = (int32(first) + k) * group_threads() + (thread_ & 31);
        const std::vector<std::string> part = join_parts(areas, base.text(), step, joined);
        for (size_t i = 0; i < part.size(); ++i) line(shares[i] + "[" + k + "] = " + part[i] + ";");
    });
    for (int lane : step.lanes) each_of(own, [&](Ex k) { joined.join(elements(shares, k), from_lane(elements(shares, k), lane, joined)); });
    open(rows < warps ? "if ((t & 31) == 0 && t < " + std::to_string(rows * 32) + ")" : "if ((t & 31) == 0)");
    each_of(own, [&](Ex k) {
        for (size_t i = 0; i < shares.size(); ++i) line(results[i] + "[" + (int32(first) + k).text() + "] = " + shares[i] + "[" + k + "];");
    });
    close();
    sync();
    each_row(step, [&](Ex r, Ex row) {
        for (size_t i = 0; i < results.size(); ++i) line(joined.names[i] + "[" + r.text() + "] = " + results[i] + "[" + row + "];");
    });
}

}  // namespace tegula::cuda
