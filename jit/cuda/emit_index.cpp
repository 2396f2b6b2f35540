// extract and deposit: parts of tiles at run-time indices (ir::Access). The tile lies row-major in scratch; each element of the part finds its place
// there, or that it has none. Where elements of a deposit may meet, the last in row-major order wins.
#include "jit/cuda/emitter.h"
#include "lang/gpu/scratch.h"

namespace tegula::cuda {

using ir::Access;

/// The accessed part while it is emitted. `part` has the part's shape and layout.
struct Emitter::TilePart {
    ir::ValueId tile, part;
    Access access;
    struct Axis {
        ir::ValueId index;    ///< invalid for `all`
        std::string pointer;  ///< staged index tile
        int dim = -1;         ///< of the part; gather: the first joint dimension
    };
    std::vector<Axis> axes;
    int joint_rank = 0;
};

Emitter::TilePart Emitter::tile_part(const ir::AccessOperands& in, ir::ValueId part, const std::vector<std::string>& pointers) {
    const ir::AccessPart where(fn_, in);
    TilePart p{in.object, part, in.access, {}, where.joint.rank};
    for (size_t a = 0; a < in.access.axes.size(); ++a)
        p.axes.push_back({in.index[a].value, in.index[a] ? pointers[in.index[a].at] : "", where.dim[a]});
    return p;
}

/// Emits the index variables of element r of the part; gives the element's number in the tile, and adds to `condition` what must hold for it.
Ex Emitter::place_in_tile(const TilePart& p, Ex r, Ex& condition) {
    constexpr int64_t kLargeStep = int64_t{1} << 38;
    const Shape& shape = fn_.type(p.tile).shape;
    const std::vector<Ex> own = coordinates_of(p.part, r);
    std::vector<Ex> c;
    for (size_t a = 0; a < p.axes.size(); ++a) {
        const Access::Axis& kind = p.access.axes[a];
        const TilePart::Axis& axis = p.axes[a];
        if (kind.kind == Access::all) {
            c.push_back(own[static_cast<size_t>(axis.dim)]);
            continue;
        }
        Ex value;
        if (kind.kind == Access::gather && !is_scalar(axis.index)) {
            const Shape& joint = fn_.type(axis.index).shape;
            std::vector<Ex> at;
            for (size_t d = 0; d < joint.rank; ++d)
                at.push_back(joint[d] == 1 ? pool_.number(0) : own[static_cast<size_t>(axis.dim + p.joint_rank - joint.rank) + d]);
            value = pool_.index(kernel::Type::i64, pool_.name(kernel::Type::other, axis.pointer), number_of(joint, at));
        } else if (kind.kind == Access::range) {
            const Ex at = own[static_cast<size_t>(axis.dim)];
            // Unsigned: it may wrap, and what wraps is outside, unless the product itself leaves 64 bits.
            value = kernel::cast(kernel::Type::i64, u64(element_at(axis.index, {})) + u64(at) * kind.step);
            if (kind.step >= kLargeStep || kind.step <= -kLargeStep) {
                const uint64_t magnitude = kind.step < 0 ? 0 - static_cast<uint64_t>(kind.step) : static_cast<uint64_t>(kind.step);
                condition = both(condition, le(at, static_cast<int64_t>(static_cast<uint64_t>(INT64_MAX) / magnitude)));
            }
        } else {
            value = element_at(axis.index, {});
        }
        const std::string i = fresh("i");
        line("const long long " + i + " = " + value.text() + ";");
        const Ex variable = pool_.name(kernel::Type::i64, i);
        c.push_back(u32(variable));  // ptxas takes one of several like sums of sign extensions for another
        if (!kind.in_bounds) condition = both(condition, within(variable, int64(shape[a])));
    }
    return number_of(shape, c);
}

void Emitter::cuda_extract(ir::InstId id) {
    const ir::AccessOperands in(fn_, fn_.inst(id));
    const ir::ValueId to = fn_.result(id);
    declare(to);
    open("");
    const std::vector<std::string> pointers = stage_operands(id);
    if (!pointers[0].empty()) sync();
    const TilePart p = tile_part(in, to, pointers);
    each_register(to, [&](Ex r) {
        const Ex real = is_real(to, r);
        if (!real.is_true()) {
            assign_to(to, r, zero(to));
            open("if (" + real.text() + ")");
        }
        Ex condition = in.mask ? staged(in.mask.value, pointers[in.mask.at], to, r, number_at(to, r)) : pool_.truth(true);
        const Ex number = place_in_tile(p, r, condition);
        const std::string element = pointers[0].empty() ? name(p.tile) : pointers[0] + "[" + number.text() + "]";
        const std::string otherwise = in.other ? staged(in.other.value, pointers[in.other.at], to, r, number_at(to, r)).text() : zero(to);
        assign_to(to, r, chosen(condition, element, otherwise));
        if (!real.is_true()) close();
    });
    close();
}

void Emitter::cuda_deposit(ir::InstId id) {
    const ir::AccessOperands in(fn_, fn_.inst(id));
    const ir::ValueId to = fn_.result(id), value = in.value.value;
    declare(to);
    open("");
    const std::vector<std::string> pointers = stage_operands(id);
    const TilePart p = tile_part(in, value, pointers);
    if (pointers[0].empty()) {  // a scalar tile: no axes, one element
        const std::string mask = in.mask ? name(in.mask.value) : "true";
        line(name(to) + " = " + mask + " ? " + name(value) + " : " + name(in.object) + ";");
        return close();
    }
    const bool collides = deposit_collides(fn_, id);
    const int64_t n = fn_.type(to).shape.elements();
    std::string last;
    if (collides) {
        last = scratch_area(id, "int", scratch_plan(fn_, id).work[0]);
        const std::string e = fresh("e");
        open_elements(e, n);
        line(last + "[" + e + "] = -1;");
        close();
    }
    sync();
    const auto each_element = [&](const std::function<void(Ex r, const std::string& place)>& body) {
        each_register(value, [&](Ex r) {
            const Ex mine = stores(value, r);
            if (!mine.is_true()) open("if (" + mine.text() + ")");
            Ex holds = in.mask ? staged(in.mask.value, pointers[in.mask.at], value, r, number_at(value, r)) : pool_.truth(true);
            const Ex place = place_in_tile(p, r, holds);
            if (!holds.is_true()) open("if (" + holds.text() + ")");
            body(r, place.text());
            if (!holds.is_true()) close();
            if (!mine.is_true()) close();
        });
    };
    if (collides) {
        each_element([&](Ex r, const std::string& place) { line("atomicMax(&" + last + "[" + place + "], " + number_at(value, r).text() + ");"); });
        sync();
    }
    each_element([&](Ex r, const std::string& place) {
        const std::string wins = collides ? "if (" + last + "[" + place + "] == " + number_at(value, r) + ") " : "";
        line(wins + pointers[0] + "[" + place + "] = " + at(value, r) + ";");
    });
    sync();
    fill(to, [&](Ex r) { return pointers[0] + "[" + number_at(to, r).text() + "]"; });
    close();
}

}  // namespace tegula::cuda
