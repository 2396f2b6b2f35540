// Views of tensors in launches of host statements: x[0 +: 8 step 2, :], trans(x) and permute(x, ..) of a variable are given to a kernel as they lie
// in memory, with strides, where strides say where their elements are. All else is a copy.
#include <algorithm>

#include "jit/engine/host.h"

namespace tegula {

namespace {

/// The dimensions of a view: extents, strides in elements, and where the first element is.
struct Steps {
    std::vector<int64_t> extents, strides;
    int64_t first = 0;
};

/// Elements of whole bytes that strides alone tell the places of.
bool plain_steps(const TypeTable& types, const HostTensor& t, Steps& out) {
    const Format& format = types.format(t.elem);
    if (format.is_block() || format.bits % 8 != 0 || t.extents.elements() == 0) return false;
    const auto strides = types.layout(t.layout).bit_strides({t.extents.begin(), t.extents.rank}, format.bits);
    if (!strides) return false;
    for (size_t d = 0; d < t.extents.rank; ++d) {
        out.extents.push_back(t.extents[d]);
        out.strides.push_back((*strides)[d] / format.bits);
    }
    return true;
}

bool is_dense(const Steps& steps) {
    int64_t row = 1;
    for (size_t d = steps.extents.size(); d-- > 0; row *= steps.extents[d])
        if (steps.extents[d] > 1 && steps.strides[d] != row) return false;
    return true;
}

std::string_view called(const ast::CallExpr& call) {
    return call.callee->kind == ast::ExprKind::name ? ast::as<ast::NameExpr>(call.callee).name : std::string_view();
}

}  // namespace

const ast::Expr* viewed_base(const ast::Expr& expr) {
    if (expr.kind == ast::ExprKind::index) return ast::as<ast::IndexExpr>(&expr).base;
    if (expr.kind != ast::ExprKind::call) return nullptr;
    const auto& call = ast::as<ast::CallExpr>(&expr);
    const std::string_view name = called(call);
    const size_t count = name == "trans" ? 1 : name == "permute" ? 2 : 0;
    const bool named = std::ranges::any_of(call.args, [](const ast::Arg& a) { return !a.name.text.empty(); });
    return count && call.args.size() == count && !named ? call.args[0].value : nullptr;
}

const std::shared_ptr<HostTensor>* HostRunner::rooted(const ast::Expr& expr) {
    HostValue* at = nullptr;
    if (!place(expr, at)) return nullptr;
    if (at) return at->kind == HostValue::tensor ? &at->t : nullptr;
    if (expr.kind == ast::ExprKind::call && (module_.find(called(ast::as<ast::CallExpr>(&expr))) || find(called(ast::as<ast::CallExpr>(&expr)))))
        return nullptr;
    if (const ast::Expr* seen = viewed(expr)) return rooted(*seen);
    const ast::Expr* base = viewed_base(expr);
    return base ? rooted(*base) : nullptr;
}

std::optional<int64_t> HostRunner::view_number(const ast::Expr* expr) {
    if (!expr) return 1;
    const auto value = evaluate(*expr);
    const auto number = value ? integer_in(*value) : std::nullopt;
    return number && *number >= INT32_MIN && *number <= (int64_t{1} << 56) ? std::optional(static_cast<int64_t>(*number)) : std::nullopt;
}

std::optional<TensorView> HostRunner::strided_part(const ast::Expr& expr) {
    const TypeTable& types = module_.types();
    std::vector<const ast::Expr*> path;  // from the view to the variable
    const ast::Expr* at = &expr;
    HostValue* variable = nullptr;
    for (;; at = path.back()->kind == ast::ExprKind::index || path.back()->kind == ast::ExprKind::call ? viewed_base(*path.back()) : nullptr) {
        if (!at || path.size() > kMaxDepth || !place(*at, variable)) return std::nullopt;
        if (variable) break;
        if (!viewed_base(*at)) return std::nullopt;
        path.push_back(at);
    }
    if (variable->kind != HostValue::tensor || path.empty()) return std::nullopt;
    HostTensor& whole = *variable->t;
    Steps steps;
    if (!plain_steps(types, whole, steps)) return std::nullopt;
    for (auto step = path.rbegin(); step != path.rend(); ++step) {
        Steps next;
        next.first = steps.first;
        const size_t rank = steps.extents.size();
        if ((*step)->kind == ast::ExprKind::call) {
            std::vector<int64_t> axes(rank);
            for (size_t d = 0; d < rank; ++d) axes[d] = static_cast<int64_t>(d);
            const auto& call = ast::as<ast::CallExpr>(*step);
            if (call.args.size() == 1) {
                if (rank < 2) return std::nullopt;
                std::swap(axes[rank - 1], axes[rank - 2]);
            } else {
                const auto order = evaluate(*call.args[1].value);
                if (!order || order->kind != HostValue::tuple || order->items.size() != rank) return std::nullopt;
                for (size_t d = 0; d < rank; ++d) {
                    const auto axis = integer_in(order->items[d]);
                    if (!axis || *axis < 0 || *axis >= static_cast<__int128>(rank)) return std::nullopt;
                    axes[d] = static_cast<int64_t>(*axis);
                }
                std::vector<int64_t> sorted = axes;
                std::ranges::sort(sorted);
                if (std::ranges::adjacent_find(sorted) != sorted.end()) return std::nullopt;
            }
            for (const int64_t axis : axes) {
                next.extents.push_back(steps.extents[static_cast<size_t>(axis)]);
                next.strides.push_back(steps.strides[static_cast<size_t>(axis)]);
            }
        } else {
            size_t d = 0;
            for (const ast::IndexItem& item : ast::as<ast::IndexExpr>(*step).items) {
                if (item.kind == ast::IndexItem::new_axis) {
                    next.extents.push_back(1);
                    next.strides.push_back(0);
                    continue;
                }
                if (d == rank) return std::nullopt;
                const int64_t extent = steps.extents[d], stride = steps.strides[d++];
                if (item.kind == ast::IndexItem::all) {
                    next.extents.push_back(extent);
                    next.strides.push_back(stride);
                    continue;
                }
                const bool slice = item.kind == ast::IndexItem::slice;
                const auto start = view_number(item.start), count = view_number(slice ? item.extent : nullptr),
                           by = view_number(slice ? item.step : nullptr);
                if (!start || !count || !by || *start < 0 || *count < 1 || *by < 1 || *by > extent || *count > extent) return std::nullopt;
                if (*start + (*count - 1) * *by >= extent) return std::nullopt;  // what lies outside is a copy's
                next.first += *start * stride;
                if (!slice) continue;
                next.extents.push_back(*count);
                next.strides.push_back(stride * *by);
            }
            if (d != rank) return std::nullopt;
        }
        if (next.extents.size() > kMaxRank) return std::nullopt;
        steps = std::move(next);
    }
    if (steps.extents.empty()) return std::nullopt;  // a number
    const auto width = static_cast<int64_t>(types.format(whole.elem).bits / 8);
    TensorView view = whole.view();
    view.layout = module_.types().intern(Layout::row());
    view.has_strides = !is_dense(steps);
    int64_t last = 0;
    view.extents = Shape{};
    for (size_t d = 0; d < steps.extents.size(); ++d) {
        view.extents.push(steps.extents[d]);
        view.strides[d] = steps.strides[d];
        last += (steps.extents[d] - 1) * steps.strides[d];
    }
    view.data += steps.first * width;
    view.bytes = static_cast<uint64_t>((last + 1) * width);
    if (view.initialised) view.initialised += steps.first * width;
    return view;
}

}  // namespace tegula
