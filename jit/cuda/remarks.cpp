// What the host hears of a compiled kernel: figures and remarks of ptxas as diagnostics, in words that need no knowledge of it.
#include <algorithm>

#include "jit/cuda/nvrtc.h"
#include "lang/gpu/wide_tiles.h"
#include "lang/ir.h"

namespace tegula::cuda {

namespace {

/// Up to 16 registers stored once and loaded once. ptxas puts aside first what no loop uses; that many cost a warp 32 accesses to the first cache.
constexpr int64_t kFewBytes = 128;

/// Of a thread, from which on what lies in local memory is spoken of. Arrays of some elements that are indexed are no matter.
constexpr int64_t kFewStackBytes = 512;
constexpr size_t kMostTiles = 3;  ///< that are named

/// Part of a remark, and what it means. Its code (C7510 ..) differs between versions of ptxas.
struct Phrase {
    std::string_view part;
    Diag id;
    const char* meaning;
};
constexpr Phrase kPhrases[] = {
    {"serialized due to insufficient register resources", Diag::products_serialised, "their sums and operands do not fit in registers"},
    {"serialized due to non wgmma instructions defining input", Diag::products_serialised, "an operand in registers is written while they run"},
    {"serialized due to non wgmma instructions reading", Diag::products_serialised, "a sum is read while they run"},
    {"serialized due to non wgmma instructions defining accumulator", Diag::products_serialised, "a sum is written while they run"},
    {"serialized due to ill formed pipeline stage", Diag::products_serialised, "where a group of them ends hangs on the path that is taken"},
    {"serialized due to program dependence", Diag::products_serialised, "threads of a warp group take different paths around them"},
    {"serialized", Diag::products_serialised, "a function is called between them"},
    {"warpgroup.arrive is injected", Diag::products_serialised, "registers that they read are written shortly before"},
    {"warpgroup.wait is injected", Diag::products_serialised, "registers that they write are read shortly after"},
    {kNotOptimised, Diag::not_optimised, "it has more paths at a time than ptxas tells apart rightly where it optimises"},
    {"setmaxnreg", Diag::compiler_remark, "warps that only copy keep registers that those which compute should have"},
};

const Phrase* find_phrase(std::string_view remark) {
    const auto* found = std::find_if(std::begin(kPhrases), std::end(kPhrases), [&](const Phrase& p) { return remark.find(p.part) != remark.npos; });
    return found == std::end(kPhrases) ? nullptr : found;
}

/// Where the first product stands that is computed by wgmma; else the kernel.
Span product_span(const ir::Function& form) {
    for (uint32_t i = 0; form.gpu && i < form.gpu->of_inst.size(); ++i) {
        const GpuInst& inst = form.gpu->of_inst[i];
        const Span span = form.inst(ir::InstId{i}).span;
        if (inst.row > 0 && form.row(inst.row).kind == MmaRow::wgmma && span.valid()) return span;
    }
    return form.span;
}

/// Names the tiles that take most of a thread's registers.
void name_tiles(Diagnostic& d, const ir::Function& form) {
    const std::vector<WideTile> tiles = widest_tiles(form);
    for (size_t k = 0; k < std::min(tiles.size(), kMostTiles); ++k) {
        const std::string text = tiles[k].text(form) + (tiles[k].local ? ", in local memory" : "");
        if (tiles[k].span.valid())
            d.labels.push_back({tiles[k].span, text});
        else
            d.notes.push_back(text);
    }
}

}  // namespace

std::vector<Diagnostic> warnings_of(const CompiledKernel& kernel, const ir::Function& form, const Arch& arch) {
    DiagSink sink;
    const Resources& r = kernel.resources;
    const bool spills = r.spill_stores + r.spill_loads > kFewBytes;
    if (spills)
        name_tiles(
            sink.report(Diag::registers_spilled, form.span, {form.name, arch.name, std::to_string(r.spill_stores), std::to_string(r.spill_loads)}),
            form);
    if (!spills && r.stack_bytes > kFewStackBytes)
        name_tiles(sink.report(Diag::local_memory, form.span, {form.name, arch.name, std::to_string(r.stack_bytes)}), form);
    for (const std::string& remark : kernel.remarks) {
        const Phrase* phrase = find_phrase(remark);
        if (phrase)
            sink.report(phrase->id, phrase->id == Diag::products_serialised ? product_span(form) : form.span,
                        {form.name, arch.name, phrase->meaning});
        else
            sink.report(Diag::compiler_remark, form.span, {form.name, arch.name, "ptxas says: " + printable(remark)});
    }
    if (const BadCompiler* bad = find_bad_compiler(bad_compilers(), compiler_of(kernel.image), arch))
        sink.report(Diag::bad_compiler, form.span, {form.name, arch.name, bad->reason});
    return sink.take();
}

}  // namespace tegula::cuda
