// convert to and from tiles in shared memory (SharedLayout): 16-byte accesses where a thread's registers are neighbours in a swizzle chunk.
#include "jit/cuda/emitter.h"
#include "lang/gpu/scratch.h"

namespace tegula::cuda {

namespace {

/// Bytes of the widest access: consecutive registers along the unit stride, at most a 16-byte chunk, all inside or all ghosts.
int access_elements(const TileLayout& l, const SharedLayout& s) {
    int vector = std::min(vector_width(l, s.contiguous), 16 / s.elem_bytes);
    while (l.shape[static_cast<size_t>(s.contiguous)] % vector != 0) vector /= 2;
    return vector;
}

/// Addresses as (that of a thread's first register ^ crossing[i]) + above[i], for every `vector` registers: few sums are left, which several of them
/// share, where the whole address of each would be computed. Empty: not of this tile.
struct SplitAddresses {
    std::vector<int> crossing, above;
};

SplitAddresses split_addresses(const TileLayout& l, const SharedLayout& s, int vector) {
    const int registers = l.registers(), threads = 32 * l.warps();
    if (l.has_ghosts() || registers <= vector) return {};
    std::vector<int64_t> of_thread;
    int64_t moved = 0;
    for (int t = 0; t < threads; ++t) moved |= of_thread.emplace_back(s.address(l.point(0, t % 32, t / 32)));
    SplitAddresses out;
    for (int r = 0; r < registers; r += vector) {
        const int64_t first = s.address(l.point(r, 0, 0)), crossing = first & moved, above = first - crossing;
        for (int t = 0; t < threads; ++t)
            if (s.address(l.point(r, t % 32, t / 32)) != (of_thread[static_cast<size_t>(t)] ^ crossing) + above) return {};
        out.crossing.push_back(static_cast<int>(crossing));
        out.above.push_back(static_cast<int>(above));
    }
    return out;
}

}  // namespace

std::string Emitter::shared_address(const SharedLayout& l, const std::vector<std::string>& c) {
    const size_t rank = l.shape.rank;
    if (rank == 0) return "0";
    const auto contiguous = static_cast<size_t>(l.contiguous);
    std::string batch;
    for (size_t d = 0; d + 2 < rank; ++d) batch = batch.empty() ? c[d] : "(" + batch + ") * " + std::to_string(l.shape[d]) + " + " + c[d];
    const int64_t batches = [&] {
        int64_t n = 1;
        for (size_t d = 0; d + 2 < rank; ++d) n *= l.shape[d];
        return n;
    }();
    const std::string byte = "(" + c[contiguous] + ") * " + std::to_string(l.elem_bytes), row_bytes = std::to_string(l.row_bytes());
    std::string plain = byte;
    if (l.shape[contiguous] * l.elem_bytes > l.row_bytes())
        plain = byte + " / " + row_bytes + " * " + std::to_string(l.panel_bytes()) + " + " + byte + " % " + row_bytes;
    if (rank >= 2) plain += " + (" + c[static_cast<size_t>(l.across())] + ") * " + row_bytes;
    if (!batch.empty()) plain += " + (" + batch + ") * " + std::to_string(l.bytes() / batches);
    if (!l.swizzle) return plain;
    const std::string name =
        support("swizzle " + std::to_string(l.swizzle), "swizzle",
                "__device__ __forceinline__ int $(int a) { return a ^ (a >> 3 & " + std::to_string((l.swizzle - 1) & ~15) + "); }\n");
    return name + "(" + plain + ")";
}

void Emitter::to_shared(ir::InstId id) {
    const ir::ValueId from = fn_.operands(fn_.inst(id))[0], to = fn_.result(id);
    const SharedLayout& s = fn_.placement(to).smem;
    const TileLayout& l = layout(from);
    line("unsigned char* const " + name(to) + " = " + scratch(id, "unsigned char", s.bytes()) + ";");
    const int vector = access_elements(l, s), bytes = vector * s.elem_bytes;
    const std::string type = type_of(from), word = vector == 1 ? type : wide_type(static_cast<size_t>(bytes));
    each(registers(from) / vector, [&](const std::string& i) {
        const std::string r = vector == 1 ? i : i + " * " + std::to_string(vector), mine = owns(l, r);
        if (mine != "true") open("if (" + mine + ")");
        std::string value = name(from) + "[" + r + "]";
        if (vector > 1) {
            std::string list;
            for (int k = 0; k < vector; ++k) list += (k ? ", " : "") + name(from) + "[" + r + " + " + std::to_string(k) + "]";
            line("alignas(16) " + type + " p[" + std::to_string(vector) + "] = {" + list + "};");
            value = "*(const " + word + "*)p";
        }
        line("*(" + word + "*)(" + name(to) + " + " + shared_address(s, coordinates_of(from, r)) + ") = " + value + ";");
        if (mine != "true") close();
    });
}

void Emitter::from_shared(ir::InstId id) {
    const ir::ValueId from = fn_.operands(fn_.inst(id))[0], to = fn_.result(id);
    const SharedLayout& s = fn_.placement(from).smem;
    const TileLayout& l = layout(to);
    const int vector = access_elements(l, s), bytes = vector * s.elem_bytes;
    const std::string type = type_of(to), word = wide_type(static_cast<size_t>(bytes));
    declare(to);
    const SplitAddresses split = split_addresses(l, s, vector);
    const std::string start = split.above.empty() ? std::string() : fresh("start");
    if (!start.empty()) line("const int " + start + " = " + shared_address(s, coordinates_of(to, "0")) + ";");
    each(registers(to) / vector, [&](const std::string& i) {
        const std::string r = vector == 1 ? i : i + " * " + std::to_string(vector), ok = inside(l, r);
        const std::string place = name(from) + " + " +
                                  (start.empty() ? shared_address(s, coordinates_of(to, r))
                                                 : "(" + start + " ^ " + rename(split.crossing, i) + ") + " + rename(split.above, i));
        if (vector == 1)
            return assign_to(to, r,
                             (ok == "true" ? "" : ok + " ? ") + ("*(const " + type + "*)(" + place + ")") + (ok == "true" ? "" : " : " + zero(to)));
        line("alignas(16) " + type + " p[" + std::to_string(vector) + "]" + (ok == "true" ? ";" : " = {};"));
        line((ok == "true" ? "" : "if (" + ok + ") ") + "*(" + word + "*)p = *(const " + word + "*)(" + place + ");");
        for (int k = 0; k < vector; ++k) assign_to(to, r + " + " + std::to_string(k), "p[" + std::to_string(k) + "]");
    });
}

/// Element by element: another swizzle or another dimension of unit stride.
void Emitter::between_shared(ir::InstId id) {
    const ir::ValueId from = fn_.operands(fn_.inst(id))[0], to = fn_.result(id);
    const SharedLayout &a = fn_.placement(from).smem, &b = fn_.placement(to).smem;
    line("unsigned char* const " + name(to) + " = " + scratch(id, "unsigned char", b.bytes()) + ";");
    const std::string e = fresh("e"), type = type_of(to);
    open_elements(e, a.shape.elements());
    std::vector<std::string> c(a.shape.rank);
    int64_t below = 1;
    for (size_t d = a.shape.rank; d-- > 0; below *= a.shape[d])
        c[d] = "(" + e + " / " + std::to_string(below) + " % " + std::to_string(a.shape[d]) + ")";
    line("*(" + type + "*)(" + name(to) + " + " + shared_address(b, c) + ") = *(const " + type + "*)(" + name(from) + " + " + shared_address(a, c) +
         ");");
    close();
}

}  // namespace tegula::cuda
