// Layout expressions taken apart (lang/layout_pieces.h): all but the register part of an address is computed once per access, and the register part
// is a constant after unrolling. Expressions that do not come apart are evaluated per element.
#include "jit/cuda/emit_access.h"
#include "lang/divisor.h"
#include "lang/layout_pieces.h"

namespace tegula::cuda {

using ir::Access;

bool Emitter::part_pieces(Part& part) {
    const size_t rank = part.axes.size();
    std::vector<std::array<uint64_t, 3>> bits(rank);
    std::vector<std::string> texts(3 * rank);
    for (size_t a = 0; a < rank; ++a) {
        const Access::Axis& kind = part.access.axes[a];
        const Part::Axis& axis = part.axes[a];
        if (kind.kind == Access::gather || (kind.kind == Access::range && kind.step != 1)) return false;
        texts[a] = axis.start.text;
        if (axis.index.valid()) bits[a][LayoutPieces::uniform] = ~static_cast<uint64_t>(power_of_two_divisor(fn_, axis.index) - 1);
        if (kind.kind == Access::index) continue;
        const TileLayout& l = layout(part.value);
        if (!additive(l, axis.dim)) return false;
        bits[a][LayoutPieces::thread] = thread_bits(l, axis.dim);
        bits[a][LayoutPieces::register_] = register_bits(l, axis.dim);
        const std::string name = layout_name(l) + "::", d = std::to_string(axis.dim);
        texts[rank + a] = name + "thread" + d + "(t)";
        texts[2 * rank + a] = name + "register" + d + "(R)";
    }
    std::string sum;
    std::vector<std::pair<std::string, std::string>> terms;
    const std::vector<LayoutExpr> members = fn_.types().layout(fn_.type(part.tensor).layout).physical(static_cast<int>(rank));
    for (size_t m = 0; m < members.size(); ++m) {
        const auto pieces = separate(members[m], bits);
        if (!pieces) return false;
        const std::string by = pitch(part.tensor, static_cast<int>(m), m + 1 == members.size()).text;
        const auto text = [&](LayoutPieces::Part k) { return layout_text(pieces->part[k], part.tensor, texts); };
        for (const auto k : {LayoutPieces::uniform, LayoutPieces::thread})
            if (!pieces->part[k].is_constant(0)) sum += (sum.empty() ? "" : " + ") + ("(unsigned long long)" + text(k)) + " * " + by;
        if (!pieces->part[LayoutPieces::register_].is_constant(0)) terms.emplace_back(text(LayoutPieces::register_), by);
    }
    part.base = fresh("base");
    line("const unsigned long long " + part.base + " = " + (sum.empty() ? "0" : sum) + ";");
    part.terms = std::move(terms);
    part.in_pieces = true;
    return true;
}

}  // namespace tegula::cuda
