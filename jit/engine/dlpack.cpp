// Conversion between DLPack tensors and ours. Element types are rows of one table; everything else is checked arithmetic on strides.
#include "jit/engine/dlpack.h"

#include "lang/layout.h"

namespace tegula::dlpack {

namespace {

struct TypeRow {
    uint8_t code, bits;
    Fmt format;
};
/// DLDataTypeCode: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 .. 17 the formats of 8, 6 and 4 bits. tf32 has no code; the first row of a format is
/// the one that is written.
constexpr TypeRow kTypes[] = {
    {0, 8, Fmt::i8},      {0, 16, Fmt::i16},        {0, 32, Fmt::i32},    {0, 64, Fmt::i64},        {1, 8, Fmt::u8},      {1, 16, Fmt::u16},
    {1, 32, Fmt::u32},    {1, 64, Fmt::u64},        {2, 16, Fmt::f16},    {2, 32, Fmt::f32},        {2, 64, Fmt::f64},    {4, 16, Fmt::bf16},
    {10, 8, Fmt::f8e4m3}, {11, 8, Fmt::f8e4m3fnuz}, {12, 8, Fmt::f8e5m2}, {13, 8, Fmt::f8e5m2fnuz}, {14, 8, Fmt::f8e8m0}, {15, 6, Fmt::f6e2m3},
    {16, 6, Fmt::f6e3m2}, {17, 4, Fmt::f4e2m1},     {6, 8, Fmt::u8},
};

constexpr const char* kCodeNames[] = {"int",
                                      "uint",
                                      "float",
                                      "handle",
                                      "bfloat",
                                      "complex",
                                      "bool",
                                      "float8_e3m4",
                                      "float8_e4m3",
                                      "float8_e4m3b11fnuz",
                                      "float8_e4m3fn",
                                      "float8_e4m3fnuz",
                                      "float8_e5m2",
                                      "float8_e5m2fnuz",
                                      "float8_e8m0fnu",
                                      "float6_e2m3fn",
                                      "float6_e3m2fn",
                                      "float4_e2m1fn"};

std::string type_text(const DataType& type) {
    std::string out = type.code < std::size(kCodeNames) ? kCodeNames[type.code] : "type code " + std::to_string(type.code);
    out += " of " + std::to_string(type.bits) + " bits";
    return type.lanes == 1 ? out : out + " in " + std::to_string(type.lanes) + " lanes";
}

std::optional<FormatId> format_of(const DataType& type, TypeTable& types) {
    if (type.lanes != 1) return std::nullopt;
    for (const TypeRow& row : kTypes)
        if (row.code == type.code && row.bits == type.bits) return id_of(row.format);
    if (type.code <= 1 && type.bits >= 1 && type.bits < 8)  // i1 .. i7 and u1 .. u7 are interned by name
        return types.builtin((type.code == 0 ? "i" : "u") + std::to_string(type.bits));
    return std::nullopt;
}

std::optional<DataType> type_of(FormatId format, const TypeTable& types) {
    for (const TypeRow& row : kTypes)
        if (id_of(row.format) == format) return DataType{row.code, row.bits, 1};
    const Format& f = types.format(format);
    if (f.is_int() && f.bits < 8) return DataType{static_cast<uint8_t>(f.is_signed ? 0 : 1), f.bits, 1};
    return std::nullopt;
}

bool is_row_major(const Tensor& t) {
    if (!t.strides) return true;
    int64_t next = 1;
    for (int32_t d = t.ndim; d-- > 0;) {
        if (t.shape[d] > 1 && t.strides[d] != next) return false;
        if (__builtin_mul_overflow(next, t.shape[d], &next)) return false;
    }
    return true;
}

/// Elements from the first to the last one touched, plus one; -1 when that leaves 56 bits. Zero for empty tensors.
int64_t span_of(const Tensor& t) {
    __extension__ using Wide = __int128;
    Wide last = 0, next = 1;
    for (int32_t d = t.ndim; d-- > 0;) {
        if (t.shape[d] == 0) return 0;
        last += Wide(t.shape[d] - 1) * (t.strides ? Wide(t.strides[d]) : next);
        next *= t.shape[d];
        if (last >= kMaxLayoutElements || next > kMaxLayoutElements) return -1;
    }
    return static_cast<int64_t>(last) + 1;
}

std::string problem_of(const Tensor& t) {
    if (t.ndim < 0 || t.ndim > kMaxRank)
        return "it has " + std::to_string(t.ndim) + " dimensions, at most " + std::to_string(kMaxRank) + " are possible";
    if (t.ndim > 0 && !t.shape) return "it has no shape";
    for (int32_t d = 0; d < t.ndim; ++d) {
        if (t.shape[d] < 0) return "extent " + std::to_string(d) + " is negative";
        if (t.strides && t.strides[d] < 0 && t.shape[d] > 1) return "stride " + std::to_string(d) + " is negative";
    }
    if (t.device.type != kCpu && t.device.type != kCuda && t.device.type != kCudaHost && t.device.type != kCudaManaged)
        return "it lies on a device of type " + std::to_string(t.device.type) + ", which is neither the CPU nor CUDA";
    return {};
}

/// What both managed forms hold: the arrays that the tensor points to, and the owner of the memory.
template <class Managed>
struct Holder {
    Managed managed{};
    int64_t shape[kMaxRank], strides[kMaxRank];
    std::shared_ptr<void> owner;
    static void release(Managed* self) { delete static_cast<Holder*>(self->manager_ctx); }
};

template <class Managed>
Managed* make_managed(const TensorArg& t, const TypeTable& types, std::shared_ptr<void> owner, std::string& why) {
    const auto type = type_of(t.elem, types);
    const Format& f = types.format(t.elem);
    if (!type) return why = "DLPack has no type for `" + f.name + "`", nullptr;
    const std::span<const int64_t> extents(t.extents.dims.data(), t.extents.rank);
    auto strides = types.layout(t.layout).bit_strides(extents, f.bits);
    if (t.has_strides) strides.emplace(t.strides.begin(), t.strides.begin() + t.extents.rank);
    if (!strides) return why = "its layout is not linear in the indices", nullptr;
    auto holder = std::make_unique<Holder<Managed>>();
    for (size_t d = 0; d < t.extents.rank; ++d) {
        if (!t.has_strides && (*strides)[d] % f.bits != 0) return why = "its rows end within a byte", nullptr;
        holder->shape[d] = t.extents[d];
        holder->strides[d] = t.has_strides ? (*strides)[d] : (*strides)[d] / f.bits;
    }
    holder->owner = std::move(owner);
    Tensor& out = holder->managed.dl_tensor;
    out.data = t.data;
    out.device = t.memory == Memory::cuda ? Device{kCuda, t.device} : Device{kCpu, 0};
    out.ndim = t.extents.rank;
    out.dtype = *type;
    out.shape = holder->shape;
    out.strides = holder->strides;
    holder->managed.manager_ctx = holder.get();
    holder->managed.deleter = &Holder<Managed>::release;
    return &holder.release()->managed;
}

}  // namespace

std::optional<TensorArg> from_dlpack(const Tensor& t, TypeTable& types, std::string& why) {
    why = problem_of(t);
    if (!why.empty()) return std::nullopt;
    const auto format = format_of(t.dtype, types);
    if (!format) return why = "its elements are " + type_text(t.dtype), std::nullopt;
    const unsigned bits = types.format(*format).bits;
    const bool row_major = is_row_major(t);
    if (bits % 8 != 0) {
        if (!row_major) return why = "elements below a byte must lie in row-major order", std::nullopt;
        if (t.ndim > 1 && t.shape[t.ndim - 1] * static_cast<int64_t>(bits) % 8 != 0) return why = "its rows end within a byte", std::nullopt;
    }
    const int64_t elements = span_of(t);
    if (elements < 0) return why = "it spans more than 2^56 elements", std::nullopt;
    if (elements > 0 && !t.data) return why = "it has no data", std::nullopt;
    TensorArg out;
    out.elem = *format;
    out.data = t.data ? static_cast<uint8_t*>(t.data) + t.byte_offset : nullptr;
    out.bytes = (static_cast<uint64_t>(elements) * bits + 7) / 8;
    out.has_strides = !row_major;
    for (int32_t d = 0; d < t.ndim; ++d) {
        out.extents.push(t.shape[d]);
        if (out.has_strides) out.strides[static_cast<size_t>(d)] = t.strides[d];
    }
    const bool device = t.device.type == kCuda || t.device.type == kCudaManaged;
    out.memory = device ? Memory::cuda : Memory::host;
    out.device = device ? t.device.id : 0;
    return out;
}

std::optional<TensorArg> from_dlpack(const VersionedTensor& t, TypeTable& types, bool& read_only, std::string& why) {
    if (t.major != 1) return why = "it is of DLPack version " + std::to_string(t.major) + ", known is version 1", std::nullopt;
    read_only = t.flags & kReadOnly;
    if ((t.flags & kPadded) && t.dl_tensor.dtype.bits % 8 != 0) return why = "its elements below a byte are padded", std::nullopt;
    return from_dlpack(t.dl_tensor, types, why);
}

ManagedTensor* to_dlpack(const TensorArg& tensor, const TypeTable& types, std::shared_ptr<void> owner, std::string& why) {
    return make_managed<ManagedTensor>(tensor, types, std::move(owner), why);
}

VersionedTensor* to_dlpack_versioned(const TensorArg& tensor, const TypeTable& types, std::shared_ptr<void> owner, std::string& why) {
    VersionedTensor* out = make_managed<VersionedTensor>(tensor, types, std::move(owner), why);
    if (out) {
        out->major = 1;
        out->minor = 1;
    }
    return out;
}

}  // namespace tegula::dlpack
