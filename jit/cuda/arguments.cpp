// What a launch's arguments mean to a kernel: traits that choose the variant, and the value of every kernel parameter.
#include <utility>

#include "jit/cuda/program.h"
#include "lang/gpu/wide_access.h"
#include "lang/layout.h"
#include "lang/tensor_strides.h"

namespace tegula::cuda {

namespace {

// Limits of tensor maps: boxes begin at 32-bit signed coordinates, which tma_coordinate (device/tma.cuh) holds below kMapExtent; strides are
// those of cuTensorMapEncodeTiled (CUDA driver API).
constexpr int64_t kMapExtent = 0x7fff0000;
constexpr uint64_t kMapStride = uint64_t{1} << 40;

/// What KernelParam::stride means, in bits: the host's strides when `strided`, else those of a row or col layout by logical dimension, or of any
/// other layout by member of its physical tuple.
std::vector<int64_t> pitches(const Layout& layout, const TensorArg& t, unsigned bits, bool strided) {
    if (strided) return host_strides(t, bits);
    if (layout.kind() == Layout::Kind::row || layout.kind() == Layout::Kind::col) {
        auto strides = layout.bit_strides(extents_of(t), bits);
        return strides ? std::move(*strides) : std::vector<int64_t>(t.extents.rank);
    }
    return bit_pitches(layout, t, bits);
}

/// Are all pitches but the contiguous one multiples of 16 bytes (and such as tensor maps can hold)?
bool rows_aligned(const Layout& layout, const TensorArg& t, unsigned bits, bool strided, bool pitched) {
    const std::vector<int64_t> strides = pitches(layout, t, bits, strided || pitched);
    const bool logical = strided || layout.kind() == Layout::Kind::row || layout.kind() == Layout::Kind::col;
    size_t contiguous = strided || strides.empty() ? strides.size() : layout.kind() == Layout::Kind::col ? 0 : strides.size() - 1;
    for (size_t d = 0; d < strides.size(); ++d) {
        if (contiguous == strides.size() && strides[d] == static_cast<int64_t>(bits)) contiguous = d;
        if (d == contiguous || (logical && t.extents[d] == 1)) continue;
        if (strides[d] <= 0 || strides[d] % 128 != 0 || static_cast<uint64_t>(strides[d]) / 8 >= kMapStride) return false;
    }
    return true;
}

bool has_own_strides(const GpuTensor& trait) { return trait.strided || trait.pitched; }

TensorMapType map_type(FormatId elem, const Format& f) {
    const bool is_signed = f.is_int() && f.is_signed;
    switch (f.bits) {
        case 16:
            return elem == Fmt::f16 ? kMapF16 : elem == Fmt::bf16 ? kMapBF16 : kMapU16;
        case 32:
            return elem == Fmt::f32 ? kMapF32 : is_signed ? kMapI32 : kMapU32;
        case 64:
            return elem == Fmt::f64 ? kMapF64 : is_signed ? kMapI64 : kMapU64;
        default:
            return kMapU8;
    }
}

/// Parameters that pointers are made from, through arithmetic or loads.
void find_addresses(const ir::Function& fn, ParamFacts& out) {
    std::vector<ir::ValueId> work;
    for (uint32_t b = 0; b < fn.block_count(); ++b)
        for (ir::InstId id : fn.block(ir::BlockId{b}).insts)
            if (fn.inst(id).op == ir::Op::ptr_at) work.push_back(fn.operands(fn.inst(id))[0]);
    std::vector<bool> seen(fn.value_count());
    while (!work.empty()) {
        const ir::ValueId v = work.back();
        work.pop_back();
        if (seen[v.v]) continue;
        seen[v.v] = true;
        for (size_t i = 0; i < fn.params.size(); ++i) {
            const Type& type = fn.type(v);
            if (fn.params[i].value != v || type.pointer || !fn.elem(v).is_int() || fn.elem(v).bits != 64) continue;
            if (type.kind == Type::tensor && type.mode == Mode::in) out.tables.push_back(i);
            if (fn.params[i].kind == ir::Param::scalar) out.addresses.push_back(i);
        }
        const ir::Inst* def = fn.def(v);
        if (!def || (!ir::has_trait(def->op, ir::PURE) && def->op != ir::Op::load)) continue;
        const auto operands = fn.operands(*def);
        for (const ir::ValueId o : def->op == ir::Op::load ? operands.first(1) : operands) work.push_back(o);
    }
}

}  // namespace

ParamFacts find_param_facts(const ir::Function& fn) {
    ParamFacts out;
    out.written = written_params(fn);
    out.reports = find_reports(fn);
    out.writes_anywhere = follows_addresses(fn);
    find_addresses(fn, out);
    for (const ir::Param& p : fn.params)
        out.alignment.push_back(p.kind == ir::Param::tensor || p.kind == ir::Param::pointer ? element_alignment(fn.elem(p.value)) : 1);
    return out;
}

GpuTensor tensor_trait(const ir::Function& fn, size_t param, const TensorArg& t, uint64_t address) {
    const unsigned bits = fn.elem(fn.params[param].value).bits;
    const ir::PointerView* view = fn.params[param].view.get();
    GpuTensor out;
    out.turned = view && view->may_turn && t.strides[0] == 1 && t.strides[1] != 1;
    const Layout by_columns = Layout::col();
    const Layout& layout = out.turned ? by_columns : fn.types().layout(fn.type(fn.params[param].value).layout);
    out.strided = is_strided(layout, t, bits);
    if (out.turned) {
        out.pitched = true;
        out.strided = false;
    } else if (out.strided && t.extents.rank > 0 && (layout.kind() == Layout::Kind::row || layout.kind() == Layout::Kind::col)) {
        const size_t contiguous = layout.kind() == Layout::Kind::col ? 0 : t.extents.rank - size_t{1};
        out.pitched = t.strides[contiguous] == 1;
        out.strided = !out.pitched;
    }
    out.aligned = address % 16 == 0;
    for (int64_t e : t.extents) out.aligned = out.aligned && e > 0 && e < kMapExtent;
    out.aligned = out.aligned && rows_aligned(layout, t, bits, out.strided, out.pitched);
    if (out.aligned && !out.strided && t.extents.rank > 0) {
        const auto contiguous = static_cast<uint64_t>(t.extents[layout.kind() == Layout::Kind::col ? 0 : t.extents.rank - 1]);
        out.whole = contiguous * bits % 128 == 0;  // extents are below kMapExtent: no overflow
    }
    if (!out.strided && !out.pitched && t.extents.rank > 0 && bits <= 8) {
        out.grain = word_grain(layout, extents_of(t), bits, address);
        out.filled = out.grain && fills_members(layout, extents_of(t));
    }
    return out;
}

bool find_alias(const ParamFacts& facts, std::span<const Argument> args, const Addresses& addresses) {
    for (size_t i = 0; i < args.size(); ++i) {
        if (args[i].kind == Argument::scalar || !facts.written[i] || args[i].t.bytes == 0) continue;
        for (size_t j = 0; j < args.size(); ++j) {
            if (j == i || args[j].kind == Argument::scalar) continue;
            if (addresses[i] < addresses[j] + args[j].t.bytes && addresses[j] < addresses[i] + args[i].t.bytes) return true;
        }
    }
    return false;
}

void BoundLaunch::bind_value(const KernelParam& p, std::span<const Argument> args, const Addresses& addresses, uint64_t& value) const {
    const ir::Function& fn = *setup_.variant->fn;
    const size_t param = static_cast<size_t>(p.param), dim = static_cast<size_t>(p.dim);
    switch (p.kind) {
        case KernelParam::pointer:
            value = addresses[param];
            break;
        case KernelParam::extent:
            value = static_cast<uint64_t>(args[param].t.extents[dim]);
            break;
        case KernelParam::stride: {
            const ir::ValueId v = fn.params[param].value;
            const Format& f = fn.elem(v);
            const auto strides = pitches(fn.types().layout(fn.type(v).layout), args[param].t, f.bits, has_own_strides(setup_.variant->traits[param]));
            TEGULA_CHECK(dim < strides.size(), "a stride of a dimension that is none");
            value = static_cast<uint64_t>(is_bit_addressed(f) ? strides[dim] : strides[dim] / f.bits);
            break;
        }
        case KernelParam::bytes:
            value = addresses[param] ? args[param].t.bytes : 0;
            break;
        case KernelParam::scalar:
            value = args[param].code;
            break;
        case KernelParam::grid:
            value = grid_[dim];
            break;
        case KernelParam::grid_reciprocal:
            value = UINT64_MAX / std::max<uint64_t>(grid_[dim] / param, 1);
            break;
        case KernelParam::workspace:
            value = workspace_.address();
            break;
        case KernelParam::split:
            value = split_;
            break;
        case KernelParam::split_reciprocal:
            value = UINT64_MAX / split_;
            break;
        case KernelParam::sums:
            value = sums_;
            break;
        case KernelParam::arrivals:
            value = arrivals_;
            break;
        case KernelParam::meeting:
            value = meeting_;
            break;
        case KernelParam::report:
            value = report_.address();
            break;
        case KernelParam::first:
        case KernelParam::tensor_map:
            break;
    }
}

std::string BoundLaunch::bind_map(const TensorMap& map, std::span<const Argument> args, const Addresses& addresses, CUtensorMap& out) const {
    if (!driver_->cuTensorMapEncodeTiled) return "the CUDA driver is too old for tensor maps";
    const ir::Function& fn = *setup_.variant->fn;
    const size_t param = static_cast<size_t>(map.param);
    const TensorArg& t = args[param].t;
    const FormatId elem = fn.type(fn.params[param].value).elem;
    const Format& f = fn.types().format(elem);
    const bool strided = has_own_strides(setup_.variant->traits[param]);
    const Layout& layout = fn.types().layout(fn.type(fn.params[param].value).layout);
    const auto strides = strided ? std::optional(host_strides(t, f.bits)) : layout.bit_strides(extents_of(t), f.bits);
    const size_t rank = map.order.size();
    const bool packed = is_bit_addressed(f);  // such elements travel as bytes
    TEGULA_CHECK(strides && rank >= 1 && rank <= 5 && map.box.size() == rank, "a tensor map that cannot be");
    uint64_t extents[5], steps[5], size = 0;
    uint32_t box[5];
    const uint32_t ones[5] = {1, 1, 1, 1, 1};
    for (size_t i = 0; i < rank; ++i) {
        const size_t d = static_cast<size_t>(map.order[i]);
        extents[i] = static_cast<uint64_t>(t.extents[d]);
        box[i] = map.box[i];
        if (i == 0 && packed) {
            extents[0] = (extents[0] * f.bits + 7) / 8;
            TEGULA_CHECK(box[0] * f.bits % 8 == 0, "a box that ends within a byte");
            box[0] = box[0] * f.bits / 8;
        }
        // The stride of a single element is never used, but has to look like one.
        const uint64_t stride = extents[i] == 1 ? (size + 15) & ~uint64_t{15} : static_cast<uint64_t>((*strides)[d]) / 8;
        if (i > 0) steps[i - 1] = stride;
        size = i == 0 ? extents[0] * (packed ? 1 : f.bits / 8) : stride * extents[i];
    }
    const int swizzle = map.swizzle == 128 ? 3 : map.swizzle == 64 ? 2 : map.swizzle == 32 ? 1 : 0;
    constexpr int kPromote128 = 2;
    const CUresult code = driver_->cuTensorMapEncodeTiled(&out, map_type(elem, f), static_cast<uint32_t>(rank), reinterpret_cast<void*>(addresses[param]),
                                                          extents, steps, box, ones, 0, swizzle, kPromote128, 0);
    return driver_->error("cuTensorMapEncodeTiled", code);
}

}  // namespace tegula::cuda
