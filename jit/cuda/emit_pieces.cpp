// Layout expressions taken apart (lang/layout_pieces.h): all but the register part of an address is computed once per access, and the register part
// is a constant after unrolling. Expressions that do not come apart are evaluated per element.
#include "jit/cuda/emit_access.h"
#include "lang/gpu/carried_load.h"
#include "lang/gpu/packed_view.h"

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
    const std::vector<std::string> pitches = member_pitches(part.tensor, members->size());
    std::string sum;
    std::vector<std::pair<std::string, std::string>> terms;
    for (size_t m = 0; m < members->size(); ++m) {
        const LayoutPieces& pieces = (*members)[m];
        const std::string& by = pitches[m];
        const auto text = [&](LayoutPieces::Part k) { return layout_text(pieces.part[k], part.tensor, texts); };
        for (const auto k : {LayoutPieces::uniform, LayoutPieces::thread})
            if (!pieces.part[k].is_constant(0)) sum += (sum.empty() ? "" : " + ") + ("(unsigned long long)" + text(k)) + " * " + by;
        if (!pieces.part[LayoutPieces::register_].is_constant(0)) terms.emplace_back(text(LayoutPieces::register_), by);
    }
    part.base = base_text(part.inst, sum.empty() ? "0" : sum, piece_growth(part.inst, *members, pitches));
    part.terms = std::move(terms);
    part.in_pieces = true;
    return true;
}

// ---- loads of the next trip (lang/carried_load.h) ----

void Emitter::find_carried_loads() {
    for (uint32_t b = 0; b < fn_.block_count(); ++b)
        for (const ir::InstId id : fn_.block(ir::BlockId{b}).insts) {
            if (fn_.inst(id).op != ir::Op::for_loop) continue;
            for (CarriedLoad& load : carried_loads(fn_, id)) {
                const auto shared = std::make_shared<Walk>(Walk{std::move(load), {}});
                walks_[shared->load.first.v] = walks_[shared->load.next.v] = shared;
            }
        }
}

/// The variable that both loads of a tile see has the scope of the first one.
void Emitter::declare_walk(ir::InstId load) {
    const auto walk = walks_.find(load.v);
    if (walk == walks_.end() || walk->second->load.first != load || word_rings_.count(fn_.result(fn_.inst(load)).v)) return;
    walk->second->name = fresh("walk");
    line("unsigned long long " + walk->second->name + ";");
}

/// The variable of an access' uniform and thread parts. `grows`: from trip to trip; empty: it is not known by how much.
std::string Emitter::base_text(ir::InstId access, const std::string& sum, const std::string& grows) {
    const std::string base = fresh("base");
    const auto found = walks_.find(access.v);
    const bool walks = found != walks_.end() && !grows.empty() && !found->second->name.empty();
    const bool first = walks && found->second->load.first == access;
    std::string text = sum;
    if (walks) {
        const Walk& walk = *found->second;
        text = walk.name + (first ? " = " + sum : " += " + name(walk.load.more) + " ? " + grows + " : 0");
    }
    line("const unsigned long long " + base + " = " + text + ";");
    return base;
}

/// By how much the sum of an access' pieces grows from trip to trip; empty: not by a constant multiple of pitches.
std::string Emitter::piece_growth(ir::InstId access, std::span<const LayoutPieces> members, std::span<const std::string> pitches) {
    const auto found = walks_.find(access.v);
    if (found == walks_.end()) return {};
    std::string out;
    for (size_t m = 0; m < members.size(); ++m) {
        const auto by = growth(members[m].part[LayoutPieces::uniform], found->second->load.starts);
        if (!by) return {};
        if (*by) out += (out.empty() ? "" : " + ") + int64_text(*by) + " * " + pitches[m];
    }
    return out.empty() ? "0ull" : "(unsigned long long)(" + out + ")";
}

}  // namespace tegula::cuda
