// What a launch's arguments mean to a kernel on the CPU: the traits that choose a variant, and the argument block (abi.h).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "jit/cpu/cpu.h"

namespace tegula::cpu {

/// Traits, aliasing and bounds of these arguments; target and features are left empty.
CompileOptions variant_options(const ir::Function& fn, const std::vector<bool>& written, std::span<const Argument> args);

/// Marks those of `streamable` (plan.h) that alone are larger than the caches: `cache_bytes`. Nothing of what is read or written would be found there
/// again.
void mark_streamed(const ir::Function& fn, const std::vector<bool>& streamable, std::span<const Argument> args, uint64_t cache_bytes,
                   CompileOptions& options);

/// The 8-byte slots that Entry is given.
std::vector<uint64_t> argument_block(const ir::Function& fn, const CompileOptions& options, std::span<const Argument> args);

/// Everything that can change the object code of a variant, as bytes: the key of the cache.
std::string object_key(const ir::Function& fn, const CompileOptions& options, const TargetInfo& target);

}  // namespace tegula::cpu
