// The printing side of a GpuForm (ir_gpu_text.h). What is absent or has its usual value is left out.
#include "lang/ir_gpu_text.h"

#include <array>
#include <charconv>

#include "lang/ir_literal.h"
#include "lang/target.h"

namespace tegula::ir {

namespace {

std::string shared_text(const SharedLayout& l) { return to_string(l.shape) + " " + quote_text(l.text()); }

std::string placement_text(const Placement& p) {
    if (p.kind == Placement::shared) return "shared " + shared_text(p.smem);
    if (p.kind == Placement::tensor) return "tensor " + to_string(p.tmem.shape) + " column " + std::to_string(p.tmem.column);
    return "registers " + to_string(p.regs.shape) + " " + quote_text(p.regs.text());
}

/// `"wgmma.f16.f32"`, or `"mine" 2` for the second row of that name.
std::string row_text(const Function& fn, int row) {
    const std::string name = fn.row_name(row);
    int64_t nth = 1;
    for (int found = find_row(fn, name, nth); found >= 0 && found != row;) found = find_row(fn, name, ++nth);
    return quote_text(name) + (nth > 1 ? " " + std::to_string(nth) : "");
}

}  // namespace

int find_row(const Function& fn, std::string_view name, int64_t nth) {
    for (int row = 0; row < fn.row_count(); ++row)
        if ((fn.is_own_row(row) || has_row(*fn.gpu->arch, fn.row(row))) && fn.row_name(row) == name && --nth == 0) return row;
    return -1;
}

GpuPrinter::GpuPrinter(const Function& fn) : fn_(fn) {
    if (!fn.gpu) return;
    for (const auto& [value, channel] : fn.gpu->channels) rings_[value] = &channel;
}

std::string GpuPrinter::placement(ValueId v) {
    if (!fn_.gpu || v.v >= fn_.gpu->of_value.size()) return {};
    const Placement& p = fn_.placement(v);
    if (p.kind == Placement::none) return {};
    const std::string text = placement_text(p);
    const auto [it, fresh] = numbers_.emplace(text, texts_.size() + 1);
    if (fresh) texts_.push_back(text);
    return " @ p" + std::to_string(it->second);
}

std::string GpuPrinter::facts(InstId id) const {
    if (!fn_.gpu || id.v >= fn_.gpu->of_inst.size()) return {};
    const GpuInst& i = fn_.gpu_inst(id);
    std::string out;
    const auto field = [&](const std::string& text) { out += (out.empty() ? " @ {" : ", ") + text; };
    if (fn_.inst(id).op == Op::channel && rings_.contains(fn_.result(id).v)) {
        const GpuChannel& channel = *rings_.at(fn_.result(id).v);
        field("ring = " + shared_text(channel.layout));
        field("stages = " + std::to_string(channel.stages));
        field("offset = " + std::to_string(channel.offset));
        if (channel.tensor_map >= 0) field("map = " + std::to_string(channel.tensor_map));
        if (channel.multicast) field("multicast = " + std::to_string(channel.multicast));
        if (channel.own) field("own = " + quote_text(channel.own->text()));
        if (channel.fill) field("fill = " + std::to_string(static_cast<int64_t>(channel.fill)));
    }
    if (i.row != 0) field("row = " + row_text(fn_, i.row));
    if (i.scratch_offset >= 0) field("scratch = " + std::to_string(i.scratch_offset) + ":" + std::to_string(i.scratch_bytes));
    if (i.global_scratch) field("global");
    if (i.bulk) field("bulk");
    if (i.sync_before) field("sync");
    if (i.fence_before) field("fence");
    if (i.late) field("late");
    if (i.wait >= 0) field("wait = " + std::to_string(i.wait));
    return out.empty() ? out : out + "}";
}

std::string GpuPrinter::header() const {
    if (!fn_.gpu) return {};
    const GpuForm& g = *fn_.gpu;
    std::string out = " gpu {\n  arch = " + std::string(g.arch->name) + ", warps = " + std::to_string(g.warps);
    if (g.specialised) out += ", specialised";
    if (g.cluster_size() > 1) out += ", cluster = " + to_string(Shape{g.cluster[0], g.cluster[1], g.cluster[2]});
    if (g.persistent) out += ", persistent";
    if (g.shared_bytes) out += ", shared = " + std::to_string(g.shared_bytes);
    if (g.workspace_bytes) out += ", workspace = " + std::to_string(g.workspace_bytes);
    for (size_t n = 0; n < texts_.size(); ++n) out += ",\n  p" + std::to_string(n + 1) + " = " + texts_[n];
    return out + "\n}";
}

std::optional<SharedLayout> parse_shared_layout(std::string_view text, const Shape& shape) {
    std::array<int, 3> field{};
    size_t n = 0;
    for (std::string_view name : {"contiguous ", " swizzle ", " bytes "}) {
        if (!text.starts_with(name)) return std::nullopt;
        text.remove_prefix(name.size());
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), field[n++]);
        if (error != std::errc{}) return std::nullopt;
        text.remove_prefix(static_cast<size_t>(end - text.data()));
    }
    const SharedLayout l{shape, field[0], field[1], field[2]};
    const bool swizzle = l.swizzle == 0 || l.swizzle == 32 || l.swizzle == 64 || l.swizzle == 128;
    const bool bytes = l.elem_bytes == 1 || l.elem_bytes == 2 || l.elem_bytes == 4 || l.elem_bytes == 8;
    if (!text.empty() || !swizzle || !bytes || l.contiguous < std::max(0, shape.rank - 2) || l.contiguous >= std::max<int>(1, shape.rank))
        return std::nullopt;
    return l;
}

}  // namespace tegula::ir
