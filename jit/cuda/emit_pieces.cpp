// Layout expressions taken apart (lang/layout_pieces.h): all but the register part of an address is computed once per access, and the register part
// is a constant after unrolling. Expressions that do not come apart are evaluated per element.
#include "jit/cuda/emit_access.h"
#include "lang/packed_view.h"

namespace tegula::cuda {

using ir::Access;

/// Texts of the indices that access_pieces speaks of: starts, then what a thread adds, then what register "R" does.
std::vector<std::string> Emitter::piece_texts(const Part& part) {
    const size_t rank = part.axes.size();
    std::vector<std::string> texts(3 * rank);
    for (size_t a = 0; a < rank; ++a) {
        texts[a] = part.axes[a].start.text;
        if (part.access.axes[a].kind == Access::index) continue;
        const std::string name = layout_name(layout(part.value)) + "::", d = number(part.axes[a].dim);
        texts[rank + a] = name + "thread" + d + "(t)";
        texts[2 * rank + a] = name + "register" + d + "(R)";
    }
    return texts;
}

bool Emitter::part_pieces(Part& part) {
    const auto members = access_pieces(fn_, fn_.inst(part.inst), is_scalar(part.value) ? TileLayout{} : layout(part.value));
    if (!members) return false;
    const std::vector<std::string> texts = piece_texts(part);
    std::string sum;
    std::vector<std::pair<std::string, std::string>> terms;
    for (size_t m = 0; m < members->size(); ++m) {
        const LayoutPieces& pieces = (*members)[m];
        const std::string by = pitch(part.tensor, static_cast<int>(m), m + 1 == members->size()).text;
        const auto text = [&](LayoutPieces::Part k) { return layout_text(pieces.part[k], part.tensor, texts); };
        for (const auto k : {LayoutPieces::uniform, LayoutPieces::thread})
            if (!pieces.part[k].is_constant(0)) sum += (sum.empty() ? "" : " + ") + ("(unsigned long long)" + text(k)) + " * " + by;
        if (!pieces.part[LayoutPieces::register_].is_constant(0)) terms.emplace_back(text(LayoutPieces::register_), by);
    }
    part.base = fresh("base");
    line("const unsigned long long " + part.base + " = " + (sum.empty() ? "0" : sum) + ";");
    part.terms = std::move(terms);
    part.in_pieces = true;
    return true;
}

}  // namespace tegula::cuda
