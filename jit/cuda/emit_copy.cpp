// Channels that the threads which compute fill themselves: puts start cp.async copies of 16 bytes where the tensor's rows allow it (seen when the
// kernel runs), and move single elements otherwise; below sm_80 all is plain loads and stores. Neighbouring puts are one group of copies, so that
// a get knows how many newer groups may still be on their way: as many as its channel holds stages that nobody has asked for.
#include <algorithm>

#include "jit/cuda/emitter.h"

namespace tegula::cuda {

using ir::Op;

namespace {

struct Tile {
    size_t contiguous = 0, across = 0;  ///< tensor dimensions
    bool has_rows = false;
    int64_t rows = 1, columns = 1;
};

Tile tile_of(const SharedLayout& l, const ir::Access& access) {
    std::vector<size_t> axes;
    for (size_t d = 0; d < access.axes.size(); ++d)
        if (access.axes[d].kind != ir::Access::index) axes.push_back(d);
    TEGULA_CHECK(axes.size() == l.shape.rank && l.shape.rank >= 1 && l.shape.rank <= 2, "a copied tile of another rank");
    Tile t;
    t.contiguous = axes[static_cast<size_t>(l.contiguous)];
    t.columns = l.shape[static_cast<size_t>(l.contiguous)];
    if (l.shape.rank == 1) return t;
    t.has_rows = true;
    t.across = axes[static_cast<size_t>(1 - l.contiguous)];
    t.rows = l.shape[static_cast<size_t>(1 - l.contiguous)];
    return t;
}

/// Tile coordinates, for shared_address.
std::vector<Ex> in_tile(const SharedLayout& l, Ex row, Ex column) {
    if (l.shape.rank == 1) return {column};
    return l.contiguous == 1 ? std::vector<Ex>{row, column} : std::vector<Ex>{column, row};
}

}  // namespace

bool Emitter::continues(ir::InstId id, bool forward) const {
    const ir::Inst& inst = fn_.inst(id);
    const std::vector<ir::InstId>& list = fn_.block(inst.parent).insts;
    const auto here = std::find(list.begin(), list.end(), id);
    for (auto it = here;;) {
        if (forward ? ++it == list.end() : it-- == list.begin()) return false;
        const ir::Inst& other = fn_.inst(*it);
        if (other.op == inst.op) {
            const ir::ValueId channel = fn_.operands(other).back();
            return rings_.at(channel.v).form->tensor_map < 0;
        }
        const bool scalar =
            ir::has_trait(other.op, ir::PURE) && !ir::has_trait(other.op, ir::REGIONS) && other.results.count == 1 && is_scalar(fn_.result(other));
        if (!scalar || fn_.gpu_inst(*it).sync_before) return false;
    }
}

void Emitter::wait_for_copies(ir::InstId id) {
    if (fn_.gpu->arch->cp_async) {
        // The run of gets that starts here waits once, for the longest of its channels.
        std::string newer;
        const std::vector<ir::InstId>& list = fn_.block(fn_.inst(id).parent).insts;
        for (auto it = std::find(list.begin(), list.end(), id);; ++it) {
            if (fn_.inst(*it).op != Op::channel_get) continue;
            const std::string mine = "(int)" + ring(fn_.operands(fn_.inst(*it))[0]).ahead + " - 1";
            newer = newer.empty() ? mine : "min(" + newer + ", " + mine + ")";
            if (!continues(*it, true)) break;
        }
        prelude_.need("cp_async");
        line("copy_async_wait(" + newer + ");");
    }
    if (ring(fn_.operands(fn_.inst(id))[0]).form->own) return;  // nobody else reads
    if (fn_.gpu->arch->wgmma) {
        prelude_.need("fence_async");
        line("fence_async();");
    }
    sync();
}

void Emitter::thread_put(ir::InstId id, Ring& r) {
    open("");
    const std::string to = fresh("to");
    line("unsigned char* const " + to + " = " + stage_address(r, r.put) + ";");
    r.form->own ? own_put(id, r, to) : shared_put(id, r, to);
    close();
    line("++" + r.ahead + ";");
    if (fn_.gpu->arch->cp_async && !continues(id, true)) {
        prelude_.need("cp_async");
        line("copy_async_commit();");
    }
    advance(r.put, "", r.form->stages);
}

void Emitter::shared_put(ir::InstId id, const Ring& r, const std::string& to) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId tensor = fn_.operands(inst)[0];
    const Tile tile = tile_of(r.form->layout, fn_.access(inst));
    const bool whole = !bit_addressed(fn_.elem(tensor)) && tile.columns * r.form->layout.elem_bytes % 16 == 0 && fn_.gpu->arch->cp_async;
    if (whole && affine(tensor) && contiguous_dimension(tensor) == static_cast<int>(tile.contiguous)) {
        copy_chunks(id, r, to);
    } else {
        copy_elements(id, r, to);
    }
}

/// Index of every tensor dimension, with the given ones of the tile's dimensions.
std::vector<Ex> Emitter::put_coordinates(ir::InstId id, const SharedLayout& l, Ex row, Ex column) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::Access access = fn_.access(inst);
    const Tile tile = tile_of(l, access);
    std::vector<Ex> out;
    size_t operand = 1;
    for (size_t d = 0; d < access.axes.size(); ++d) {
        Ex at = access.axes[d].kind == ir::Access::all ? int64(0) : element_at(fn_.operands(inst)[operand++], {});
        if (d == tile.contiguous) at = at + column;
        if (d != tile.contiguous && tile.has_rows && d == tile.across) at = at + row;
        out.push_back(at);
    }
    return out;
}

/// All indices but dimension `except` lie in the tensor.
Ex Emitter::put_condition(ir::InstId id, const std::vector<Ex>& coordinates, int except) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::Access access = fn_.access(inst);
    Ex out = pool_.truth(true);
    for (size_t d = 0; d < access.axes.size(); ++d)
        if (static_cast<int>(d) != except && !access.axes[d].in_bounds && access.axes[d].kind != ir::Access::all)
            out = both(out, within(coordinates[d], extent(fn_.operands(inst)[0], static_cast<int>(d))));
    return out;
}

void Emitter::copy_chunks(ir::InstId id, const Ring& r, const std::string& to) {
    const ir::ValueId tensor = fn_.operands(fn_.inst(id))[0];
    const SharedLayout& l = r.form->layout;
    const Tile tile = tile_of(l, fn_.access(fn_.inst(id)));
    const int64_t bytes = l.elem_bytes, per = 16 / bytes, in_row = tile.columns / per, chunks = tile.rows * in_row;
    prelude_.need("shared");
    prelude_.need("cp_async");
    // Rows begin on 16 bytes, and so does the tile: then every chunk does.
    const std::vector<Ex> first = put_coordinates(id, l, pool_.number(0), pool_.number(0));
    Ex odd = u64(pool_.name(kernel::Type::other, name(tensor))) | u64(first[tile.contiguous] * bytes);
    for (size_t d = 0; d < first.size(); ++d)
        if (d != tile.contiguous) odd = odd | u64(stride(tensor, static_cast<int>(d)) * bytes);
    open("if (" + eq(odd & 15, 0).text() + ")");
    const int64_t trips = (chunks + group_threads() - 1) / group_threads();
    line(trips <= 16 ? "#pragma unroll" : "#pragma unroll 1");
    open("for (int i = t; i < " + number(chunks) + "; i += " + number(group_threads()) + ")");
    line("const int row = i / " + number(in_row) + ", column = i % " + number(in_row) + " * " + number(per) + ";");
    const Ex row = pool_.counter("row", tile.rows), column = pool_.counter("column", tile.columns);
    const std::vector<Ex> at = put_coordinates(id, l, row, column);
    const Ex x = at[tile.contiguous];
    line("const long long left = " + (extent(tensor, static_cast<int>(tile.contiguous)) - x).text() + ";");
    const Ex some = both(ge(x, 0), gt(pool_.name(kernel::Type::i64, "left"), 0));
    line("const bool some = " + both(some, put_condition(id, at, static_cast<int>(tile.contiguous))).text() + ";");
    line("const int count = !some ? 0 : left < " + number(per) + " ? (int)left : " + number(per) + ";");
    const std::string function = copy_function(id);
    line((function == "copy_async" ? "copy_async_16" : function + "<16>") + "(shared_address(" + to + " + " +
         shared_address(l, in_tile(l, row, column)).atom() + "), " + name(tensor) + " + (some ? " + offset(tensor, at).text() + " : 0), count * " +
         number(bytes) + ");");
    close();
    --depth_;
    line("} else {");
    ++depth_;
    copy_elements(id, r, to);
    close();
}

void Emitter::copy_elements(ir::InstId id, const Ring& r, const std::string& to) {
    const ir::ValueId tensor = fn_.operands(fn_.inst(id))[0];
    const SharedLayout& l = r.form->layout;
    const Tile tile = tile_of(l, fn_.access(fn_.inst(id)));
    line("#pragma unroll 1");
    open("for (int i = t; i < " + number(tile.rows * tile.columns) + "; i += " + number(group_threads()) + ")");
    line("const int row = i / " + number(tile.columns) + ", column = i % " + number(tile.columns) + ";");
    const Ex row = pool_.counter("row", tile.rows), column = pool_.counter("column", tile.columns);
    const std::vector<Ex> at = put_coordinates(id, l, row, column);
    line("*(" + type_of(tensor) + "*)(" + to + " + " + shared_address(l, in_tile(l, row, column)).atom() + ") = " +
         chosen(put_condition(id, at, -1), read(fn_.elem(tensor), name(tensor), offset(tensor, at).text(), plain_caching(id)), zero(tensor)) + ";");
    close();
}

}  // namespace tegula::cuda
