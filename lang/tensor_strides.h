// What the strides of a launch's tensors mean, in bits, and which parameters a kernel writes: facts that choose the variant of a compiled kernel on
// every machine that compiles.
#pragma once
#include <span>
#include <vector>

#include "lang/layout.h"
#include "lang/runtime.h"

namespace tegula {

inline std::span<const int64_t> extents_of(const TensorArg& t) { return {t.extents.dims.data(), t.extents.rank}; }

/// The host's strides by dimension; those that leave 64 bits can only be right for an extent of one, which never multiplies them.
std::vector<int64_t> host_strides(const TensorArg& t, unsigned bits);
/// Pitches of the physical tuple: row-major over its extents, rows start on a byte.
std::vector<int64_t> bit_pitches(const Layout& layout, const TensorArg& t, unsigned bits);
/// By member of a layout's physical tuple: its extent in every tensor that is large enough; 0: it grows with the tensor.
std::vector<int64_t> bounded_extents(const Layout& layout, int rank);
/// GpuTensor::filled: the members behind the last one that grows have these extents.
bool fills_members(const Layout& layout, std::span<const int64_t> extents);

/// GpuTensor::grain of a dense tensor at an address: 16, 8 or 4 bytes that divide it and the innermost physical extent, or 0.
uint8_t word_grain(const Layout& layout, std::span<const int64_t> extents, unsigned bits, uint64_t address);
/// Does the host give strides that the layout does not say anyway?
bool is_strided(const Layout& layout, const TensorArg& t, unsigned bits);

/// By parameter: may the kernel write its memory, by name or through pointers?
std::vector<bool> written_params(const ir::Function& fn);
/// Does the function make pointers from addresses? They may lead to any tensor of the launch, and to memory that it names behind its arguments.
bool follows_addresses(const ir::Function& fn);

}  // namespace tegula
