// Layout expressions taken apart (lang/layout_pieces.h): all but the register part of an address is computed once per access, and the register part
// is a constant after unrolling. Expressions that do not come apart are evaluated per element.
#include "jit/cuda/emit_access.h"
#include "lang/gpu/carried_load.h"
#include "lang/gpu/packed_view.h"

namespace tegula::cuda {

using ir::Access;

std::vector<Ex> Emitter::piece_indices(const Part& part, Ex t, Ex r) {
    const size_t rank = part.axes.size();
    std::vector<Ex> out(3 * rank);
    for (size_t a = 0; a < rank; ++a) {
        out[a] = part.axes[a].start;
        if (part.access.axes[a].kind == Access::index) continue;
        const TileLayout& l = layout(part.value);
        out[rank + a] = thread_part(l, part.axes[a].dim, t);
        if (r) out[2 * rank + a] = register_part(l, part.axes[a].dim, r);
    }
    return out;
}

bool Emitter::part_pieces(Part& part) {
    const auto members = access_pieces(fn_, fn_.inst(part.inst), is_scalar(part.value) ? TileLayout{} : layout(part.value));
    if (!members) return false;
    const std::vector<Ex> indices = piece_indices(part, thread_), pitches = member_pitches(part.tensor, members->size());
    Ex sum = pool_.constant(kernel::Type::u64, 0);
    for (size_t m = 0; m < members->size(); ++m) {
        const LayoutPieces& pieces = (*members)[m];
        for (const auto k : {LayoutPieces::uniform, LayoutPieces::thread})
            if (!pieces.part[k].is_constant(0)) sum = sum + u64(layout_value(pieces.part[k], part.tensor, indices)) * pitches[m];
        if (!pieces.part[LayoutPieces::register_].is_constant(0)) part.terms.emplace_back(pieces.part[LayoutPieces::register_], pitches[m]);
    }
    part.base = declare_base(part.inst, sum, piece_growth(part.inst, *members, pitches));
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
Ex Emitter::declare_base(ir::InstId access, Ex sum, Ex grows) {
    const std::string base = fresh("base");
    const auto found = walks_.find(access.v);
    const bool walks = found != walks_.end() && grows && !found->second->name.empty();
    std::string text = sum.text();
    if (walks) {
        const Walk& walk = *found->second;
        const bool first = walk.load.first == access;
        text = walk.name + (first ? " = " + text : " += " + name(walk.load.more) + " ? " + grows.text() + " : 0");
    }
    line("const unsigned long long " + base + " = " + text + ";");
    return pool_.name(kernel::Type::u64, base);
}

/// By how much the sum of an access' pieces grows from trip to trip; empty: not by a constant multiple of pitches.
Ex Emitter::piece_growth(ir::InstId access, std::span<const LayoutPieces> members, std::span<const Ex> pitches) {
    const auto found = walks_.find(access.v);
    if (found == walks_.end()) return {};
    Ex out = int64(0);
    for (size_t m = 0; m < members.size(); ++m) {
        const auto by = growth(members[m].part[LayoutPieces::uniform], found->second->load.starts);
        if (!by) return {};
        out = out + int64(*by) * pitches[m];
    }
    return u64(out);
}

}  // namespace tegula::cuda
