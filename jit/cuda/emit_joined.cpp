// Reductions without row-major scratch: the steps of a ReducePlan on arrays of registers. Joins commute, so both lanes of a shuffle compute the same
// bits.
#include "jit/cuda/emitter.h"
#include "lang/gpu_scratch.h"

namespace tegula::cuda {

namespace {

std::vector<std::string> elements(const std::vector<std::string>& arrays, const std::string& r) {
    std::vector<std::string> out;
    for (const std::string& a : arrays) out.push_back(a + "[" + r + "]");
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
                each_of(step.live, [&](const std::string& r) {
                    joined.join(elements(joined.names, r), elements(joined.names, r + " + " + std::to_string(step.a)));
                });
                break;
            case ReducePlan::Step::lane:
            case ReducePlan::Step::scatter:
                join_lanes(step, joined);
                break;
            case ReducePlan::Step::warps:
                join_warps(id, step, joined);
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
            each_of(step.live, [&](const std::string& r) {
                const std::string from = std::to_string((digit + half) * step.a);
                joined.join(elements(joined.names, digit ? r + " + " + std::to_string(digit * step.a) : r), elements(joined.names, r + " + " + from));
            });
}

void Emitter::join_lanes(const ReducePlan::Step& step, const Joined& joined) {
    const bool scatter = step.kind == ReducePlan::Step::scatter;
    const std::string lane = std::to_string(step.a), upper = fresh("upper");
    if (scatter) line("const bool " + upper + " = (t & " + lane + ") != 0;");
    each_of(step.live, [&](const std::string& r) {
        std::vector<std::string> other;
        for (size_t i = 0; i < joined.names.size(); ++i) {
            const std::string mine = joined.names[i] + "[" + r + "]", second = joined.names[i] + "[" + r + " + " + std::to_string(step.b) + "]";
            std::string sent = mine;
            if (scatter) {
                sent = fresh("sent");
                line("const " + joined.types[i] + " " + sent + " = " + upper + " ? " + mine + " : " + second + ";");
                line("if (" + upper + ") " + mine + " = " + second + ";");
            }
            other.push_back(fresh("o"));
            line("const " + joined.types[i] + " " + other.back() + " = (" + joined.types[i] + ")__shfl_xor_sync(0xffffffffu, " + sent + ", " + lane +
                 ");");
        }
        joined.join(elements(joined.names, r), other);
    });
}

/// Every thread writes its partial results; after the barrier it joins those of all warps that hold other parts, first mask first.
void Emitter::join_warps(ir::InstId id, const ReducePlan::Step& step, const Joined& joined) {
    const ScratchPlan plan = scratch_plan(fn_, id);
    const int warps = fn_.gpu->warps;
    std::vector<std::string> areas;
    for (size_t i = 0; i < joined.names.size(); ++i) areas.push_back(scratch_area(id, joined.types[i], plan.work[i]));
    // Live registers in order are rows of one element per thread of the group.
    const auto each_live = [&](const std::function<void(const std::string& r, const std::string& row)>& body) {
        std::vector<int> rows(step.live.size());
        for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int>(i);
        each_of(rows, [&](const std::string& row) { body(rename(step.live, row), row); });
    };
    each_live([&](const std::string& r, const std::string& row) {
        for (size_t i = 0; i < areas.size(); ++i)
            line(areas[i] + "[" + row + " * " + std::to_string(32 * warps) + " + t] = " + joined.names[i] + "[" + r + "];");
    });
    sync();
    int all = 0;
    for (int m : step.masks) all |= m;
    const std::string base = fresh("base");
    line("const int " + base + " = t & " + std::to_string(~(all * 32) & (32 * warps - 1)) + ";");
    const int parts = 1 << step.masks.size();
    each_live([&](const std::string& r, const std::string& row) {
        std::vector<std::vector<std::string>> part;
        for (int p = 0; p < parts; ++p) {
            int warp = 0;  // the first mask is the highest bit of the part number
            for (size_t m = 0; m < step.masks.size(); ++m)
                if (p >> (step.masks.size() - 1 - m) & 1) warp |= step.masks[m];
            std::vector<std::string>& names = part.emplace_back();
            for (size_t i = 0; i < areas.size(); ++i) {
                names.push_back(fresh("p"));
                line(joined.types[i] + " " + names[i] + " = " + areas[i] + "[" + row + " * " + std::to_string(32 * warps) + " + " + base + " + " +
                     std::to_string(warp * 32) + "];");
            }
        }
        for (int half = parts / 2; half > 0; half /= 2)
            for (int p = 0; p < half; ++p) joined.join(part[static_cast<size_t>(p)], part[static_cast<size_t>(p + half)]);
        for (size_t i = 0; i < areas.size(); ++i) line(joined.names[i] + "[" + r + "] = " + part[0][i] + ";");
    });
}

}  // namespace tegula::cuda
