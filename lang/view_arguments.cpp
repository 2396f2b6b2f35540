// Views of what pointers reach, for one launch (view_arguments.h).
#include "lang/view_arguments.h"

#include <algorithm>

#include "lang/launch_value.h"

namespace tegula {

namespace {

constexpr int64_t kMost = int64_t{1} << 48;  ///< of offsets and strides: nothing that is reached lies further apart

/// Elements that the parameter's pointer reaches.
int64_t reach_of(const Argument& a, unsigned bits) {
    const uint64_t whole = a.t.data ? a.t.bytes / (bits / 8) : 0;
    const uint64_t named = a.kind == Argument::pointer && a.t.extents.rank ? static_cast<uint64_t>(a.t.extents[0]) : whole;
    return static_cast<int64_t>(std::min<uint64_t>({whole, named, uint64_t{1} << 56}));
}

class Launch {
public:
    Launch(const ir::Function& fn, std::span<const Argument> args, std::span<const uint64_t, 3> grid)
        : fn_(fn), args_(args), values_(fn, [this, grid](ir::ValueId v) { return given(v, grid); }) {}

    /// False: there is no such view.
    bool view(const ir::Param& param, Argument& out) {
        const ir::PointerView& view = *param.view;
        const Argument& of = args_[view.of];
        const unsigned bits = fn_.elem(param.value).bits;
        int64_t offset = 0;
        if (view.offset.valid() && !number(view.offset, -kMost, kMost, offset)) return false;
        int64_t ignored = 0;
        for (const ir::ValueId v : view.nonnegative)
            if (!number(v, 0, INT64_MAX, ignored)) return false;
        out = of;
        out.kind = Argument::tensor;
        const int64_t bytes = int64_t{bits / 8}, left = std::max<int64_t>(reach_of(of, bits) - offset, 0);
        if (of.t.data) out.t.data = reinterpret_cast<void*>(reinterpret_cast<uint64_t>(of.t.data) + static_cast<uint64_t>(offset * bytes));
        out.t.bytes = static_cast<uint64_t>(left * bytes);
        out.t.layout = fn_.type(param.value).layout;
        out.t.elem = fn_.type(param.value).elem;
        out.t.extents = {};
        out.t.has_strides = true;
        for (size_t d = 0; d < view.strides.size(); ++d) {
            int64_t stride = 0, extent = 0;
            if (!number(view.strides[d], 1, kMost, stride)) return false;
            if (!view.extents[d].valid())
                extent = (left + stride - 1) / stride;
            else if (!number(view.extents[d], -kMost, int64_t{1} << 62, extent))
                return false;
            out.t.extents.push(std::clamp<int64_t>(extent, 0, int64_t{1} << 56));
            out.t.strides[d] = stride;
        }
        return true;
    }

private:
    std::optional<uint64_t> given(ir::ValueId v, std::span<const uint64_t, 3> grid) const {
        const auto scalar = launch_scalar(fn_, v);
        if (!scalar) return std::nullopt;
        const auto dim = static_cast<size_t>(scalar->dim);
        if (scalar->kind == LaunchScalar::programs) return grid[dim];
        if (scalar->kind == LaunchScalar::extent) return static_cast<uint64_t>(args_[scalar->param].t.extents[dim]);
        return extend_code(fn_.elem(v), args_[scalar->param].code);
    }
    bool number(ir::ValueId v, int64_t least, int64_t most, int64_t& out) {
        const auto code = values_.code(v);
        if (!code) return false;
        out = static_cast<int64_t>(*code);
        return out >= least && out <= most;
    }

    const ir::Function& fn_;
    std::span<const Argument> args_;
    ScalarValues values_;
};

}  // namespace

std::optional<std::vector<Argument>> with_views(const ir::Function& fn, std::span<const Argument> args, std::span<const uint64_t, 3> grid) {
    std::vector<Argument> out(args.begin(), args.end());
    Launch launch(fn, args, grid);
    for (const ir::Param& p : fn.params) {
        if (!p.view) continue;
        Argument a;
        if (!launch.view(p, a)) return std::nullopt;
        out.push_back(std::move(a));
    }
    return out;
}

}  // namespace tegula
