// Accesses through pointers that become accesses to tensors. `p + m[:, none] * stride + k[none, :]`, under masks such as `k < K`, says of the memory
// behind p what a tensor parameter says of its own: extents, strides, and which part is meant. Such a tensor becomes a further parameter, whose
// geometry a launch computes from its scalars (ir::PointerView), and what is made of tensors is made of it: wide accesses, bulk copies, rings.
//
// What a view may assume: coordinates are not negative and strides are positive, both proved or tested at launch; then an element outside of the
// pointer's argument is outside of the view or was an error before. No two views, nor a view and a pointer, reach what the kernel writes through one
// of them: then all accesses through that pointer are one view's, so that the order of accesses is decided as for tensors.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "lang/facts.h"
#include "lang/ir.h"

namespace tegula {

constexpr std::string_view kViewsPass = "views";
/// Does that to a kernel in tile IR; the facts hold at every launch. `traits`, by parameter and then by view, say which views are turned.
bool make_views(ir::Function& fn, const LaunchFacts& facts, std::span<const GpuTensor> traits = {});
/// Of an access through pointers that is still one: why it is none to a tensor.
std::string view_refusal(const ir::Function& fn, const LaunchFacts& facts, ir::InstId access);
/// Members that loops carry and nothing but their own next value needs.
bool drop_carried(ir::Function& fn);

}  // namespace tegula
