// Arguments of a launch (arguments.h).
#include "jit/cpu/arguments.h"

#include <algorithm>
#include <set>
#include <utility>

#include "jit/cpu/fingerprint.h"
#include "lang/ir_text.h"
#include "lang/layout.h"
#include "lang/tensor_strides.h"

namespace tegula::cpu {

namespace {

__extension__ using Wide = __int128;

int8_t unit_dimension(const TensorArg& t) {
    int8_t unit = -1;
    for (size_t d = 0; d < t.extents.rank; ++d)
        if (t.strides[d] == 1 && (t.extents[d] > 1 || unit < 0 || t.extents[static_cast<size_t>(unit)] <= 1)) unit = static_cast<int8_t>(d);
    return unit;
}

/// Could two indices mean one element?
bool may_share(const TensorArg& t) {
    std::vector<std::pair<Wide, Wide>> dims;  // stride, last index
    for (size_t d = 0; d < t.extents.rank; ++d)
        if (t.extents[d] > 1) dims.push_back({t.strides[d] < 0 ? -Wide(t.strides[d]) : Wide(t.strides[d]), t.extents[d] - 1});
    std::sort(dims.begin(), dims.end());
    Wide span = 0;
    for (const auto& [stride, last] : dims) {
        if (stride <= span) return true;
        span += stride * last;
    }
    return false;
}

/// Does every in-range index lie inside the storage?
bool contained(const Layout& layout, const TensorArg& t, unsigned bits, bool strided) {
    const uint64_t bytes = t.data ? t.bytes : 0;
    const auto extents = extents_of(t);
    if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return true;
    const auto strides = strided ? std::optional(host_strides(t, bits)) : layout.bit_strides(extents, bits);
    if (!strides) {
        const int64_t need = layout.storage_bytes(extents, bits);
        return need >= 0 && static_cast<uint64_t>(need) <= bytes;
    }
    Wide low = 0, high = bits;
    for (size_t d = 0; d < extents.size(); ++d) {
        const Wide span = Wide(extents[d] - 1) * (*strides)[d];
        (span < 0 ? low : high) += span;
    }
    return low >= 0 && high <= Wide(bytes) * 8;
}

bool overlap(const TensorArg& a, const TensorArg& b) {
    const auto *from = static_cast<const uint8_t*>(a.data), *other = static_cast<const uint8_t*>(b.data);
    return from && other && from < other + b.bytes && other < from + a.bytes;
}

bool is_memory(const Argument& a) { return a.kind != Argument::scalar; }

void append_tensor(const ir::Function& fn, ir::ValueId value, const ParamSlots& slots, bool strided, const TensorArg& t, uint64_t* out) {
    const unsigned bits = fn.elem(value).bits;
    const int64_t unit = has_byte_address(bits) ? 8 : 1;
    for (size_t d = 0; d < t.extents.rank; ++d) out[slots.extents + d] = static_cast<uint64_t>(t.extents[d]);
    const Layout& layout = fn.types().layout(fn.type(value).layout);
    std::vector<int64_t> strides;
    if (!slots.affine) {
        strides = bit_pitches(layout, t, bits);
    } else if (strided) {
        strides = host_strides(t, bits);
    } else if (auto natural = layout.bit_strides(extents_of(t), bits)) {
        strides = std::move(*natural);
    } else {
        TEGULA_CHECK(false, "a layout without strides where strides are wanted");
    }
    TEGULA_CHECK(strides.size() == slots.members, "the argument block has another number of strides");
    for (size_t m = 0; m < strides.size(); ++m) {
        const bool used = !slots.affine || t.extents[m] > 1;
        out[slots.strides + m] = used ? static_cast<uint64_t>(strides[m] / unit) : 0;
    }
}

template <class T>
void append_raw(std::string& key, const T& value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

CompileOptions variant_options(const ir::Function& fn, const std::vector<bool>& written, std::span<const Argument> args) {
    TEGULA_CHECK(args.size() >= fn.params.size(), "arguments do not match parameters");
    CompileOptions options;
    options.tensors.resize(fn.params.size());
    options.may_alias = follows_addresses(fn);
    for (size_t i = 0; i < fn.params.size(); ++i) {
        const ir::ValueId value = fn.params[i].value;
        const bool memory = fn.type(value).kind == Type::tensor || fn.type(value).pointer;
        TEGULA_CHECK(memory == is_memory(args[i]), "argument of the wrong kind");
        for (size_t j = 0; j < fn.params.size() && memory; ++j)
            if (j != i && written[i] && is_memory(args[j]) && overlap(args[i].t, args[j].t)) options.may_alias = true;
        if (fn.type(value).kind != Type::tensor) continue;
        const unsigned bits = fn.elem(value).bits;
        const Layout& layout = fn.types().layout(fn.type(value).layout);
        TensorTrait& trait = options.tensors[i];
        trait.strided = is_strided(layout, args[i].t, bits);
        // Of several values for one element the last one stays, in the order of rows, which loop nests without a unit stride keep.
        if (trait.strided && !(written[i] && may_share(args[i].t))) trait.unit = unit_dimension(args[i].t);
        options.bounds = options.bounds || !contained(layout, args[i].t, bits, trait.strided);
    }
    return options;
}

void mark_streamed(const ir::Function& fn, const std::vector<bool>& streamable, std::span<const Argument> args, uint64_t cache_bytes,
                   CompileOptions& options) {
    if (options.may_alias || options.bounds) return;
    for (size_t i = 0; i < fn.params.size(); ++i) {
        if (!streamable[i] || options.tensors[i].strided) continue;
        const TensorArg& t = args[i].t;
        const uint64_t element = fn.elem(fn.params[i].value).bits / 8;
        const bool aligned = reinterpret_cast<uintptr_t>(t.data) % element == 0;
        options.tensors[i].streamed = aligned && static_cast<uint64_t>(t.extents.elements()) > cache_bytes / element;
    }
}

std::vector<uint64_t> argument_block(const ir::Function& fn, const CompileOptions& options, std::span<const Argument> args) {
    const ArgLayout layout = make_arg_layout(fn, options.tensors);
    std::vector<uint64_t> out(layout.slots);
    if (follows_addresses(fn)) {
        out.push_back(args.size() - fn.params.size());
        for (const Argument& a : args.subspan(fn.params.size()))
            out.insert(out.end(), {reinterpret_cast<uint64_t>(a.t.data), a.t.data ? a.t.bytes : 0, static_cast<uint64_t>(INT64_MAX)});
    }
    for (size_t i = 0; i < fn.params.size(); ++i) {
        const ParamSlots& slots = layout.params[i];
        const Argument& a = args[i];
        uint64_t* at = out.data() + slots.first;
        if (slots.kind == ParamSlots::scalar) {
            *at = extend_code(fn.elem(fn.params[i].value), a.code);
            continue;
        }
        at[ParamSlots::data] = reinterpret_cast<uint64_t>(a.t.data);
        at[ParamSlots::bytes] = a.t.data ? a.t.bytes : 0;
        at[ParamSlots::limit] = slots.kind == ParamSlots::tensor ? INT64_MAX : static_cast<uint64_t>(a.t.extents.rank ? a.t.extents[0] : 0);
        if (slots.kind == ParamSlots::tensor) append_tensor(fn, fn.params[i].value, slots, options.tensors[i].strided, a.t, out.data());
    }
    return out;
}

std::string object_key(const ir::Function& fn, const CompileOptions& options, const TargetInfo& target) {
    std::string key = std::string("tegula cpu object ") + kFingerprint + "\n" + target.llvm_version + "\n" +
                      (options.cpu.empty() ? target.cpu : options.cpu) + "\n" + (options.features.empty() ? target.features : options.features) +
                      "\n" + (options.may_alias ? "alias " : "") + (options.bounds ? "bounds " : "") + (options.checked ? "checked " : "");
    for (const TensorTrait& t : options.tensors) key += std::to_string(t.strided) + "," + std::to_string(t.unit) + (t.streamed ? "streamed;" : ";");
    key += "\n" + ir::print(fn);
    // Behind the names of the text: layouts, codebooks, and the instruction numbers that code hands to the run-time side.
    for (const ir::Param& p : fn.params)
        if (fn.type(p.value).kind == Type::tensor) key += fn.types().layout(fn.type(p.value).layout).text() + "\n";
    std::set<uint32_t> formats;
    for (uint32_t v = 0; v < fn.value_count(); ++v) {
        const FormatId id = fn.type(ir::ValueId{v}).elem;
        if (id.v < static_cast<uint32_t>(Fmt::builtin_count_) || !formats.insert(id.v).second) continue;
        key += canonical_name(fn.types().format(id)) + "\n";
        for (double value : fn.types().format(id).table) append_raw(key, value);
    }
    for (uint32_t b = 0; b < fn.block_count(); ++b)
        for (ir::InstId id : fn.block(ir::BlockId{b}).insts) append_raw(key, id.v);
    return key;
}

}  // namespace tegula::cpu
