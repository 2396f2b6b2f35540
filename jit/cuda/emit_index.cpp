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
std::string Emitter::place_in_tile(const TilePart& p, const std::string& r, std::string& condition) {
    constexpr int64_t kLargeStep = int64_t{1} << 38;
    const Shape& shape = fn_.type(p.tile).shape;
    const std::vector<std::string> own = coordinates_of(p.part, r);
    std::vector<std::string> c;
    for (size_t a = 0; a < p.axes.size(); ++a) {
        const Access::Axis& kind = p.access.axes[a];
        const TilePart::Axis& axis = p.axes[a];
        if (kind.kind == Access::all) {
            c.push_back(own[static_cast<size_t>(axis.dim)]);
            continue;
        }
        std::string value = name(axis.index);
        if (kind.kind == Access::gather && !is_scalar(axis.index)) {
            const Shape& joint = fn_.type(axis.index).shape;
            std::vector<std::string> at;
            for (size_t d = 0; d < joint.rank; ++d)
                at.push_back(joint[d] == 1 ? "0" : own[static_cast<size_t>(axis.dim + p.joint_rank - joint.rank) + d]);
            value = axis.pointer + "[" + number_of(joint, at) + "]";
        } else if (kind.kind == Access::range) {
            const std::string& at = own[static_cast<size_t>(axis.dim)];
            // Unsigned: it may wrap, and what wraps is outside, unless the product itself leaves 64 bits.
            value = "(long long)((unsigned long long)" + value + " + (unsigned long long)" + at + " * " +
                    std::to_string(static_cast<uint64_t>(kind.step)) + "ull)";
            if (kind.step >= kLargeStep || kind.step <= -kLargeStep) {
                const uint64_t magnitude = kind.step < 0 ? 0 - static_cast<uint64_t>(kind.step) : static_cast<uint64_t>(kind.step);
                condition += (condition.empty() ? "" : " && ") + (at + " <= " + std::to_string(static_cast<uint64_t>(INT64_MAX) / magnitude));
            }
        }
        const std::string i = fresh("i");
        line("const long long " + i + " = " + value + ";");
        c.push_back("(unsigned)" + i);
        if (!kind.in_bounds) condition += (condition.empty() ? "" : " && ") + ("(unsigned long long)" + i + " < " + std::to_string(shape[a]) + "ull");
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
    each_register(to, [&](const std::string& r) {
        const std::string ghost = is_scalar(to) ? "true" : inside(layout(to), r);
        if (ghost != "true") {
            assign_to(to, r, zero(to));
            open("if (" + ghost + ")");
        }
        std::string condition = in.mask ? staged(in.mask.value, pointers[in.mask.at], to, r, number_at(to, r)) : "";
        const std::string number = place_in_tile(p, r, condition);
        const std::string element = pointers[0].empty() ? name(p.tile) : pointers[0] + "[" + number + "]";
        const std::string otherwise = in.other ? staged(in.other.value, pointers[in.other.at], to, r, number_at(to, r)) : zero(to);
        assign_to(to, r, condition.empty() ? element : condition + " ? " + element + " : " + otherwise);
        if (ghost != "true") close();
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
    const auto each_element = [&](const std::function<void(const std::string& r, const std::string& place)>& body) {
        each_register(value, [&](const std::string& r) {
            std::string condition = is_scalar(value) ? "t == 0" : owns(layout(value), r);
            if (condition == "true") condition.clear();
            if (!condition.empty()) open("if (" + condition + ")");
            std::string holds = in.mask ? staged(in.mask.value, pointers[in.mask.at], value, r, number_at(value, r)) : "";
            const std::string place = place_in_tile(p, r, holds);
            if (!holds.empty()) open("if (" + holds + ")");
            body(r, place);
            if (!holds.empty()) close();
            if (!condition.empty()) close();
        });
    };
    if (collides) {
        each_element(
            [&](const std::string& r, const std::string& place) { line("atomicMax(&" + last + "[" + place + "], " + number_at(value, r) + ");"); });
        sync();
    }
    each_element([&](const std::string& r, const std::string& place) {
        const std::string wins = collides ? "if (" + last + "[" + place + "] == " + number_at(value, r) + ") " : "";
        line(wins + pointers[0] + "[" + place + "] = " + at(value, r) + ";");
    });
    sync();
    fill(to, [&](const std::string& r) { return pointers[0] + "[" + number_at(to, r) + "]"; });
    close();
}

}  // namespace tegula::cuda
