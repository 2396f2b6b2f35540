// Products on wgmma whose sums are made anew after every few steps (warp_groups.h): those kept in 13 bits (fp8) every 128 elements of K, batch by
// batch, added in f32; those of dot_scaled wherever scales change, with the next sum under way while one is scaled.
#include <algorithm>

#include "jit/cuda/warp_groups.h"
#include "lang/tensor_core.h"

namespace tegula::cuda {

namespace {

constexpr int kMostAhead = 64;  ///< registers of a sum, of which there are three with the next part's and the accumulator

}  // namespace

/// A new sum every `size` elements of k, batch by batch, for `add(sum, its registers, first element)` to add.
void Emitter::wgmma_parts(const WarpGroups& w, int64_t size,
                          const std::function<void(const std::string& sum, const std::vector<int>& registers, int64_t k)>& add) {
    const int per = static_cast<int>(size / w.row->k);
    const size_t tiles = w.tiles.size() / w.batches;
    for (size_t begin = 0; begin < w.tiles.size(); begin += tiles) {
        std::vector<int> sums;
        for (size_t t = begin; t < begin + tiles; ++t)
            for (const WarpGroups::Piece& piece : w.pieces)
                for (int64_t c = 0; c < piece.columns; c += 8)
                    for (int i = 0, r = w.sum_register(layout(w.result), w.tiles[t], piece.column + c); i < 4; ++i) sums.push_back(r + i);
        std::sort(sums.begin(), sums.end());
        for (int s = 0; s < w.steps(); s += per) {
            open("");
            const std::string part = fresh("part");
            line(w.type + " " + part + "[" + number(registers(w.result)) + "];");
            wgmma_run(w, part, {begin, begin + tiles, s, std::min(s + per, w.steps()), true, sums});
            add(part, sums, int64_t{s} * w.row->k);
            close();
        }
    }
}

/// As wgmma_parts, of one batch: while a part is added, the tensor cores are at the next one; what `meanwhile` emits runs beside the first. Two sums
/// take turns in registers that PTX knows by name, so that none is touched before it has been waited for.
void Emitter::wgmma_ahead(const WarpGroups& w, int64_t size, const std::function<void()>& meanwhile,
                          const std::function<void(const std::string& sum, int64_t k)>& add) {
    const int per = static_cast<int>(size / w.row->k), parts = w.steps() / per, count = registers(w.result);
    const std::string sums[] = {fresh("sum") + "_", fresh("sum") + "_"};
    for (const std::string& sum : sums) prologue_ += "    asm volatile(\".reg .b32 " + sum + "<" + number(count) + ">;\");\n";
    const auto issue = [&](int i) {
        WarpGroups one = w;
        one.sum = sums[i % 2];
        wgmma_run(one, "", {0, w.tiles.size(), i * per, (i + 1) * per, true, {}, true});
    };
    issue(0);
    meanwhile();
    for (int i = 0; i < parts; ++i) {
        if (i + 1 < parts) issue(i + 1);
        open("");
        const std::string part = fresh("part");
        line(w.type + " " + part + "[" + number(count) + "];");
        std::string moves = "wgmma.wait_group.sync.aligned " + number(i + 1 < parts) + "; ", operands;
        for (int r = 0; r < count; ++r) {
            moves += "mov.b32 %" + number(r) + ", " + sums[i % 2] + number(r) + "; ";
            operands += std::string(r ? ", \"=" : "\"=") + (w.type == "float" ? "f" : "r") + "\"(" + part + "[" + number(r) + "])";
        }
        line("asm volatile(\"" + moves + "\" : " + operands + " : : \"memory\");");
        add(part, int64_t{i} * size);
        close();
    }
}

/// Stretches between scales: one after the other where A, or two sums beside the accumulator, would be too many registers.
void Emitter::wgmma_scaled(const WarpGroups& w, ir::InstId id) {
    const int64_t stretch = scale_stretch(fn_, fn_.inst(id));
    BlockScales scales;
    const auto stage = [&] {
        scales = stage_scales(id);
        sync();
    };
    if (w.smem_a && w.batches == 1 && stretch < w.k && registers(w.result) <= kMostAhead)
        return wgmma_ahead(w, stretch, stage, [&](const std::string& part, int64_t k) { add_scaled(id, scales, number(k), part); });
    stage();
    wgmma_parts(w, stretch, [&](const std::string& part, const std::vector<int>&, int64_t k) { add_scaled(id, scales, number(k), part); });
}

/// fp8 in f32: a new sum every 128 elements, added with one rounding.
void Emitter::wgmma_promoted(const WarpGroups& w) {
    wgmma_parts(w, kPromotion, [&](const std::string& part, const std::vector<int>& sums, int64_t) {
        const std::string sum = name(w.result);
        each(static_cast<int>(sums.size()), [&](const std::string& i) {
            const std::string r = rename(sums, i);
            line(sum + "[" + r + "] = " + sum + "[" + r + "] + " + part + "[" + r + "];");
        });
    });
}

}  // namespace tegula::cuda
