// DLPack: tensors of other libraries without a copy, and ours for them. The structs are the ABI of dlpack.h 1.1, the unversioned and the versioned
// form, under names of our own, so that hosts may include the original beside the public headers.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lang/runtime.h"

namespace tegula::dlpack {

enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
struct Device {
    int32_t type;
    int32_t id;
};
struct DataType {
    uint8_t code, bits;
    uint16_t lanes;
};
struct Tensor {
    void* data;
    Device device;
    int32_t ndim;
    DataType dtype;
    int64_t* shape;
    int64_t* strides;  ///< in elements; null: row-major
    uint64_t byte_offset;
};
struct ManagedTensor {
    Tensor dl_tensor;
    void* manager_ctx;
    void (*deleter)(ManagedTensor* self);
};
constexpr uint64_t kReadOnly = 1, kPadded = 4;  ///< flags
struct VersionedTensor {
    uint32_t major, minor;
    void* manager_ctx;
    void (*deleter)(VersionedTensor* self);
    uint64_t flags;
    Tensor dl_tensor;
};

/// A borrowed view; the memory stays the producer's. nullopt and a reason (the end of a sentence) when type, rank, device or strides cannot be taken.
/// Bools of 8 bits come as u8: the language's bool is packed. Formats below a byte are taken where rows end on bytes.
std::optional<TensorArg> from_dlpack(const Tensor& tensor, TypeTable& types, std::string& why);
/// The same with the version and flags looked at; `read_only` says that a kernel must not write to it.
std::optional<TensorArg> from_dlpack(const VersionedTensor& tensor, TypeTable& types, bool& read_only, std::string& why);

/// A managed tensor over the same memory; `owner` lives until its deleter is called. Layouts go as strides where they are linear. Null and a reason
/// when DLPack has no words for the tensor (formats of our own, rows that end within a byte, layouts that are not linear).
ManagedTensor* to_dlpack(const TensorArg& tensor, const TypeTable& types, std::shared_ptr<void> owner, std::string& why);
VersionedTensor* to_dlpack_versioned(const TensorArg& tensor, const TypeTable& types, std::shared_ptr<void> owner, std::string& why);

}  // namespace tegula::dlpack
