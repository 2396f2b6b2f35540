// Arguments as views of memory, and the race shadows that checked mode lays over what several programs may touch.
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "jit/interp/run.h"
#include "lang/tensor_strides.h"

namespace tegula::interp {

namespace {

__extension__ using Wide = __int128;

/// Does every in-range index of an affine view lie inside the storage?
bool fits(const View& v) {
    Wide low = 0, high = v.bits;
    for (size_t d = 0; d < v.extents.rank; ++d) {
        if (v.extents[d] <= 0) return true;
        const Wide span = Wide(v.extents[d] - 1) * v.stride[d];
        (span < 0 ? low : high) += span;
    }
    return low >= 0 && high <= Wide(v.bytes) * 8;
}

View view_of(const Plan& plan, size_t param, const TensorArg& t) {
    const Tile& tile = plan.params[param].tile;
    View v;
    v.param = static_cast<int>(param);
    v.format = tile.format;
    v.bits = tile.format->bits;
    v.width = tile.format->container_bytes();
    v.data = static_cast<uint8_t*>(t.data);
    v.bytes = t.data ? t.bytes : 0;
    v.extents = t.extents;
    v.initialised = t.initialised;
    v.is_pointer = tile.pointer;
    if (tile.pointer) return v;
    const std::span<const int64_t> extents(t.extents.dims.data(), t.extents.rank);
    if (t.has_strides) {
        for (size_t d = 0; d < t.extents.rank; ++d) {
            // A stride whose bit count leaves 64 bits can only be right for an extent of one, which never multiplies it.
            if (__builtin_mul_overflow(t.strides[d], static_cast<int64_t>(v.bits), &v.stride[d])) v.stride[d] = t.extents[d] > 1 ? INT64_MAX : 0;
        }
        v.contained = fits(v);
        return v;
    }
    const Layout& layout = plan.fn->types().layout(t.layout);
    if (const auto strides = layout.bit_strides(extents, v.bits)) {
        std::copy(strides->begin(), strides->end(), v.stride);
        v.contained = fits(v);
        return v;
    }
    v.affine = false;
    v.bound = std::make_shared<BoundLayout>(layout, extents, v.bits);
    v.contained = v.bound->storage_bytes() >= 0 && static_cast<uint64_t>(v.bound->storage_bytes()) <= v.bytes;
    return v;
}

/// Memory that only addresses lead to.
View unnamed_view(const Plan& plan, size_t number, const TensorArg& t) {
    View v;
    v.param = static_cast<int>(number);
    v.format = &plan.fn->types().format(t.elem);
    v.bits = v.format->bits;
    v.width = v.format->container_bytes();
    v.data = static_cast<uint8_t*>(t.data);
    v.bytes = t.data ? t.bytes : 0;
    v.initialised = t.initialised;
    return v;
}

bool overlap(const View& a, const View& b) { return a.data < b.data + b.bytes && b.data < a.data + a.bytes; }

unsigned cell_bits(const View& v) { return v.bits % 8 == 0 ? v.bits : std::gcd(v.bits, 8u); }

}  // namespace

void make_views(Shared& shared, std::span<const Argument> args) {
    const Plan& plan = shared.plan;
    TEGULA_CHECK(args.size() >= plan.params.size(), "arguments do not match parameters");
    shared.views.resize(args.size());
    shared.scalars.resize(plan.params.size());
    for (size_t i = 0; i < plan.params.size(); ++i) {
        const Tile& tile = plan.params[i].tile;
        const bool memory = tile.param >= 0 || tile.pointer;
        TEGULA_CHECK(memory == (args[i].kind != Argument::scalar), "argument of the wrong kind");
        shared.scalars[i] = tile.pointer ? pointer_code(i, 0) : args[i].code;
        if (!memory) continue;
        shared.views[i] = view_of(plan, i, args[i].t);
        shared.views[i].locked = shared.parallel && plan.params[i].may_write && shared.views[i].bits % 8 != 0;
    }
    for (size_t i = plan.params.size(); i < args.size(); ++i) shared.views[i] = unnamed_view(plan, i, args[i].t);
    for (const View& v : shared.views) shared.objects.push_back({v.data, v.bytes});
}

void make_shadows(Shared& shared) {
    // Memory that is promised may not exist, and a process that takes all of it is ended: so a bound below that is an error.
    const uint64_t half =
        static_cast<uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 0L)) * static_cast<uint64_t>(std::max(::sysconf(_SC_PAGESIZE), 0L)) / 2;
    shared.shadow_limit = shared.options.memory_budget ? shared.options.memory_budget : half;
    std::vector<View>& views = shared.views;
    std::vector<bool> done(views.size(), false);
    for (size_t i = 0; i < views.size(); ++i) {
        if (done[i] || views[i].bytes == 0) continue;
        std::vector<size_t> group{i};
        for (size_t k = 0; k < group.size(); ++k)
            for (size_t j = i + 1; j < views.size(); ++j)
                if (views[j].bytes && std::find(group.begin(), group.end(), j) == group.end() && overlap(views[group[k]], views[j]))
                    group.push_back(j);
        auto shadow = std::make_unique<Shadow>();
        const uint8_t *low = views[i].data, *high = low;
        bool written = false;
        for (size_t j : group) {
            done[j] = true;
            low = std::min<const uint8_t*>(low, views[j].data);
            high = std::max<const uint8_t*>(high, views[j].data + views[j].bytes);
            written = written || j >= shared.plan.params.size() || shared.plan.params[j].may_write;
        }
        if (!written) continue;
        shadow->data = low;
        shadow->unit = cell_bits(views[i]);
        for (size_t j : group)
            shadow->unit = std::gcd(shadow->unit, std::gcd(cell_bits(views[j]), static_cast<unsigned>((views[j].data - low) % 8 * 8 | 64)));
        if (views.size() > shared.plan.params.size() || follows_addresses(*shared.plan.fn))
            shadow->unit = std::gcd(shadow->unit, 8u);  // pointers of another type may lead there
        shadow->cells = static_cast<uint64_t>(high - low) * 8 / shadow->unit + 1;
        const std::string name = i < shared.plan.params.size() ? shared.plan.params[i].name : unnamed_object(i, shared.plan.params.size());
        shared.ended.need = "the race shadow of `" + name + "` needs 12 bytes for each of " + std::to_string(shadow->cells) + " elements";
        shadow->pages.resize((shadow->cells + Shadow::kPage - 1) / Shadow::kPage);
        for (size_t j : group) views[j].shadow = shadow.get();
        shared.shadows.push_back(std::move(shadow));
        shared.ended.need.clear();
    }
    shared.history.emplace(shared.plan.order.orders);
}

}  // namespace tegula::interp
