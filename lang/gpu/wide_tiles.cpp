// Tiles by what a thread holds of them (wide_tiles.h).
#include "lang/gpu/wide_tiles.h"

#include <algorithm>

namespace tegula {

namespace {
constexpr int64_t kUnrolled = 256;  ///< elements of a thread, which is one register more than a thread has
}

std::string WideTile::type(const ir::Function& form) const {
    const Type& type = form.type(value);
    const std::string& element = form.elem(value).name;
    return "tile<" + (type.pointer ? "ptr<" + element + ">" : element) + ">" + to_string(type.shape);
}

std::string WideTile::text(const ir::Function& form) const {
    return "`" + type(form) + "`: " + std::to_string(elements) + " elements (" + std::to_string(bytes) + " bytes) of each thread";
}

std::vector<WideTile> widest_tiles(const ir::Function& form) {
    std::vector<WideTile> out;
    if (!form.gpu) return out;
    for (uint32_t b = 0; b < form.block_count(); ++b)
        for (const ir::InstId id : form.block(ir::BlockId{b}).insts)
            for (uint32_t n = 0; n < form.inst(id).results.count; ++n) {
                const ir::ValueId v = form.result(id, n);
                if (form.placement(v).kind != Placement::registers) continue;
                const int64_t elements = form.placement(v).regs.registers();
                const int64_t bytes = elements * (form.type(v).pointer ? 8 : form.elem(v).container_bytes());
                const Span span = form.inst(id).span;
                const auto same = [&](const WideTile& w) {
                    return w.span == span && w.bytes == bytes && form.type(w.value).elem == form.type(v).elem;
                };
                if (std::none_of(out.begin(), out.end(), same)) out.push_back({v, span, elements, bytes, elements > kUnrolled});
            }
    std::sort(out.begin(), out.end(), [](const WideTile& a, const WideTile& b) { return a.bytes != b.bytes ? a.bytes > b.bytes : a.value.v < b.value.v; });
    return out;
}

}  // namespace tegula
