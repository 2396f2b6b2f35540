// Which views a kernel's accesses through pointers become (private to view*.cpp).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lower/gpu/pointer_form.h"
#include "lower/gpu/views.h"

namespace tegula {

/// A dimension of a view, with where the access starts along it.
struct ViewAxis {
    int dim = -1;                     ///< of the tile; -1: a single index
    OffsetSum stride;                 ///< one term, of scalars that are known at launch
    OffsetSum start;                  ///< elements of the view
    std::optional<OffsetSum> extent;  ///< known at launch; nullopt: nothing says where it ends
    friend bool same_axis(const ViewAxis& a, const ViewAxis& b) { return a.stride == b.stride && a.extent == b.extent; }
};
struct ViewPlan {
    ir::InstId access;
    size_t root = 0;             ///< parameter
    bool col = false;            ///< the first dimension is the contiguous one, else the last
    bool may_turn = false;       ///< a matrix of which a launch says which dimension that is
    std::vector<ViewAxis> axes;  ///< in the order of the view's dimensions
    std::vector<OffsetSum> compared;  ///< what its mask compares: right as far as none of these wraps
    OffsetSum offset;  ///< of the view's first element
    std::string why_not;         ///< empty: it becomes one
    bool is_same_view(const ViewPlan& other) const;
};

/// Goes through what the launch knows and the magnitude of a scalar of the kernel follows from: it is no larger than the largest of that, the numbers of
/// programs and 2^32. False: it may be any number.
bool visit_magnitude(const ir::Function& fn, ir::ValueId v, const std::function<void(ir::ValueId)>& visit, int depth = 0);
/// Every load and store through pointers, in program order, with the decision.
std::vector<ViewPlan> plan_views(const ir::Function& fn, const LaunchFacts& facts);

}  // namespace tegula
