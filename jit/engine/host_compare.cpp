// Comparisons of host statements: exact in any two types, within a tolerance, what made a condition false, and failures that are expected.
#include <cmath>
#include <utility>

#include "jit/engine/host.h"
#include "sema/walk.h"

namespace tegula {

namespace {

std::string index_text(int64_t at, const Shape& shape) {
    std::string text;
    for (int d = shape.rank - 1; d >= 0; --d) {
        text = std::to_string(at % shape[d]) + (text.empty() ? "" : ", ") + text;
        at /= shape[d];
    }
    return "[" + text + "]";
}

/// The element of a value of shape `from` that broadcasting puts at element `at` of one of shape `to`.
size_t broadcast_from(int64_t at, const Shape& to, const Shape& from) {
    int64_t out = 0, stride = 1;
    for (int d = from.rank - 1, e = to.rank - 1; d >= 0; --d, --e) {
        if (from[d] != 1) out += at % to[e] * stride;
        at /= to[e];
        stride *= from[d];
    }
    return static_cast<size_t>(out);
}

/// |x - y| of what differs, and whether it is at most `tolerance`. Infinity is far from everything else, and so is NaN.
struct Distance {
    double value;
    bool within;
};
Distance distance(const Exact& a, const Exact& b, double x, double y, double tolerance) {
    if (!std::isfinite(x) || !std::isfinite(y)) return {std::fabs(x - y), false};
    const auto p = whole_value(a), q = whole_value(b);
    __int128 between = 0;
    if (!p || !q || __builtin_sub_overflow(*p, *q, &between)) return {std::fabs(x - y), std::fabs(x - y) <= tolerance};
    if (between < 0) between = -between;
    // Integers are apart by an integer, which the tolerance reaches where its whole part does.
    return {static_cast<double>(between), tolerance >= 0x1p126 || between <= static_cast<__int128>(tolerance)};
}

}  // namespace

/// The elements of a tensor, or a number, for comparing: as the nearest doubles, and exactly.
struct HostRunner::Numbers {
    Shape shape;
    const Format* format = nullptr;  ///< of `tile`; null: the number `one`
    TileData tile;
    Exact one;
    std::vector<double> values;
    bool are_doubles = true;  ///< `values` are exact
    Exact exact(size_t i) const {
        if (are_doubles) return exact_from_double(values[i]);
        if (!format) return one;
        return decode_exact(*format, load_bits(*format, tile.bytes.data() + i * format->container_bytes(), 0));
    }
    std::string text(size_t i) const {
        const auto whole = are_doubles ? std::nullopt : whole_value(exact(i));
        return whole ? sema::int_text(*whole) : number_text(values[i]);
    }
};

bool HostRunner::numbers(const HostValue& value, Span span, Numbers& out) {
    switch (value.kind) {
        case HostValue::integer:
            out.one = exact_from_wide(value.i);
            out.values = {static_cast<double>(value.i)};
            out.are_doubles = false;
            return true;
        case HostValue::real:
            out.values = {value.r};
            return true;
        case HostValue::boolean:
            out.values = {value.b ? 1.0 : 0.0};
            return true;
        case HostValue::tensor:
            break;
        default:
            diags_->report(Diag::host_kind, span, {"a tensor or a number", found(value)});
            return false;
    }
    TypeTable& types = module_.types();
    HostValue plain = value;
    if (types.format(value.t->elem).is_block()) {
        if (!written(value, span) || !new_tensor(plain.t, id_of(Fmt::f32), types.intern(Layout::row()), value.t->extents, true, span)) return false;
        std::string why;
        if (!copy_converted(engine_, module_, plain.t->view(), value.t->view(), *diags_, &why)) {
            diags_->report(Diag::host_tensor, span, {why});
            return false;
        }
    }
    auto tile = as_tile(plain, span);
    if (!tile) return false;
    const Format& format = types.format(tile->elem);
    out.shape = tile->shape;
    out.format = &format;
    out.tile = std::move(*tile);
    out.values.resize(static_cast<size_t>(out.shape.elements()));
    decode_many(format, out.tile.bytes.data(), out.values.size(), out.values.data());
    // The value of a logarithm is a double by definition: its exact one has no end.
    out.are_doubles = format.bits <= 32 || format.kind == FormatKind::lns || tile->elem == Fmt::f64;
    return true;
}

/// What is found of elements that differ.
struct HostRunner::Differences {
    size_t bad = 0, first = 0, nan_got = 0, nan_wanted = 0;
    double worst = 0, worst_relative = 0;
    void add(size_t at, double x, double y, double apart) {
        if (bad++ == 0) first = at;
        nan_got += std::isnan(x);
        nan_wanted += std::isnan(y);
        worst = std::fmax(worst, apart);
        worst_relative = std::fmax(worst_relative, apart / std::fabs(y));
    }
    bool have_distance() const { return bad > nan_got + nan_wanted; }
    std::string absolute() const { return have_distance() ? number_text(worst) : "none"; }
    std::string relative() const { return have_distance() ? number_text(worst_relative) : "none"; }
};

std::optional<HostValue> HostRunner::compare(const HostArgs& args, double atol, double rtol) {
    Numbers got, want;
    if (!numbers(*args.values[0], args.span, got) || !numbers(*args.values[1], args.span, want)) return std::nullopt;
    if (!(got.shape == want.shape)) {
        diags_->report(Diag::shapes_differ, args.span, {to_string(got.shape), to_string(want.shape)});
        fail(Status::mismatch);
        return std::nullopt;
    }
    constexpr size_t kBetweenLooks = 65536;
    const bool doubles = got.are_doubles && want.are_doubles;
    const size_t count = got.values.size();
    Differences found;
    for (size_t i = 0; i < count; ++i) {
        if (i % kBetweenLooks == 0) step(args.span, std::min(kBetweenLooks, count - i));
        const double x = got.values[i], y = want.values[i];
        if (std::isnan(x) && std::isnan(y)) continue;
        if (doubles && x == y) continue;
        const Exact a = got.exact(i), b = want.exact(i);
        if (!doubles && !std::isnan(x) && !std::isnan(y) && tegula::compare(a, b) == 0) continue;
        const Distance apart = distance(a, b, x, y, atol + rtol * std::fabs(y));
        if (!apart.within) found.add(i, x, y, apart.value);
    }
    if (found.bad == 0) return HostValue{};
    auto& d = diags_->report(Diag::values_differ, args.span,
                             {std::to_string(found.bad), std::to_string(count), index_text(static_cast<int64_t>(found.first), got.shape),
                              got.text(found.first), want.text(found.first), found.absolute(), found.relative()});
    const auto count_text = [](size_t n) { return std::to_string(n) + (n == 1 ? " value is" : " values are"); };
    if (found.nan_got) d.notes.push_back(count_text(found.nan_got) + " NaN where a number was expected");
    if (found.nan_wanted)
        d.notes.push_back(count_text(found.nan_wanted) +
                          (found.nan_wanted == 1 ? " a number where NaN was expected" : " numbers where NaN was expected"));
    fail(Status::mismatch);
    return std::nullopt;
}

namespace {

/// The argument of `name(x)`, where that is a function of the language; null of anything else.
const ast::Expr* argument_of(const ast::Expr& expr, std::string_view name) {
    if (expr.kind != ast::ExprKind::call) return nullptr;
    const auto& call = ast::as<ast::CallExpr>(&expr);
    const bool is = call.callee->kind == ast::ExprKind::name && ast::as<ast::NameExpr>(call.callee).name == name;
    return is && call.args.size() == 1 && call.args[0].name.text.empty() ? call.args[0].value : nullptr;
}

bool is_literal(const ast::Expr& e) {
    if (e.kind == ast::ExprKind::unary) return is_literal(*ast::as<ast::UnaryExpr>(&e).operand);
    return e.kind == ast::ExprKind::int_lit || e.kind == ast::ExprKind::float_lit || e.kind == ast::ExprKind::bool_lit;
}

/// The truth of a value that is one bool.
std::optional<bool> one_truth(const HostValue& value) {
    if (value.kind == HostValue::boolean) return value.b;
    const bool scalar = value.kind == HostValue::tensor && value.t->extents.rank == 0 && value.t->elem == Fmt::boolean;
    return scalar ? std::optional(value.t->data[0] != 0) : std::nullopt;
}

bool is_comparison(ast::BinaryOp op) { return op >= ast::BinaryOp::eq && op <= ast::BinaryOp::ge; }

}  // namespace

/// Notes of the values that made a condition other than `wanted`: of both sides of a comparison, of the part of `&&` and `||` that decided.
void HostRunner::why_not(const ast::Expr& expr, bool wanted, std::vector<std::string>& notes) {
    if (expr.kind == ast::ExprKind::unary && ast::as<ast::UnaryExpr>(&expr).op == ast::UnaryOp::logical_not)
        return why_not(*ast::as<ast::UnaryExpr>(&expr).operand, !wanted, notes);
    for (const std::string_view name : {"all", "any"})
        if (const ast::Expr* inner = argument_of(expr, name); inner && !module_.find(name)) return why_not(*inner, wanted, notes);
    if (expr.kind != ast::ExprKind::binary) return;
    const auto& binary = ast::as<ast::BinaryExpr>(&expr);
    if (binary.op == ast::BinaryOp::logical_and || binary.op == ast::BinaryOp::logical_or) {
        for (const ast::Expr* side : {binary.lhs, binary.rhs}) {
            const auto value = evaluate(*side);
            const auto is = value ? one_truth(*value) : std::nullopt;
            if (is == wanted) continue;
            why_not(*side, wanted, notes);
            if (is && wanted == (binary.op == ast::BinaryOp::logical_and)) return;  // the other side changes nothing
        }
        return;
    }
    if (is_comparison(binary.op)) compared(binary, wanted, notes);
}

/// An expression as the file has it, where that is short.
std::string HostRunner::written_text(const ast::Expr& e) {
    constexpr size_t kLongest = 60;
    const bool here = module_.ast && module_.ast->file == e.span.file && e.span.end <= module_.text.size();
    const std::string_view text = here ? module_.text.substr(e.span.begin, e.span.end - e.span.begin) : std::string_view();
    return text.empty() || text.size() > kLongest || text.find('\n') != text.npos ? sema::source_text(e) : std::string(text);
}

void HostRunner::compared(const ast::BinaryExpr& expr, bool wanted, std::vector<std::string>& notes) {
    const auto result = evaluate(expr), left = evaluate(*expr.lhs), right = evaluate(*expr.rhs);
    if (!result || !left || !right) return;
    const auto one = one_truth(*result);
    if (one == wanted) return;
    const bool equality = expr.op == (wanted ? ast::BinaryOp::eq : ast::BinaryOp::ne);
    Numbers sides[2];
    const auto number = [](const HostValue& v) { return v.kind == HostValue::integer || v.kind == HostValue::real || v.kind == HostValue::tensor; };
    const bool numeric = number(*left) && number(*right) && numbers(*left, expr.lhs->span, sides[0]) && numbers(*right, expr.rhs->span, sides[1]);
    const auto value_text = [&](int side, size_t at) {
        const HostValue& v = side ? *right : *left;
        const bool truth = sides[side].format && sides[side].format->is_bool();
        return truth ? (sides[side].values[at] != 0 ? "true" : "false") : numeric ? sides[side].text(at) : text_of(v);
    };
    // "`x` is 3"; of a constant its value is what is written.
    const auto told = [&](size_t x, size_t y) {
        std::string text;
        for (const int side : {0, 1}) {
            const ast::Expr& e = side ? *expr.rhs : *expr.lhs;
            const std::string name = written_text(e), value = value_text(side, side ? y : x);
            if (!is_literal(e) && name != value) text += (text.empty() ? "`" : ", `") + name + "` is " + value;
        }
        return text;
    };
    bool nan = false;
    if (one) {
        if (numeric && (sides[0].values.size() != 1 || sides[1].values.size() != 1)) return;
        notes.push_back(told(0, 0));
        nan = numeric && (std::isnan(sides[0].values[0]) || std::isnan(sides[1].values[0]));
    } else {
        const auto truth = numeric ? as_tile(*result, expr.span) : std::nullopt;
        if (!truth) return;
        const Shape& shape = truth->shape;
        Differences found;
        size_t first[2] = {};
        for (size_t i = 0; i < truth->bytes.size(); ++i) {
            if ((truth->bytes[i] != 0) == wanted) continue;
            size_t at[2];
            for (const int side : {0, 1}) at[side] = broadcast_from(static_cast<int64_t>(i), shape, sides[side].shape);
            if (found.bad == 0) std::copy(at, at + 2, first);
            const double x = sides[0].values[at[0]], y = sides[1].values[at[1]];
            found.add(i, x, y, distance(sides[0].exact(at[0]), sides[1].exact(at[1]), x, y, 0).value);
        }
        if (found.bad == 0) return;
        notes.push_back("`" + written_text(expr) + "` is " + (wanted ? "false" : "true") + " for " + std::to_string(found.bad) + " of " +
                        std::to_string(truth->bytes.size()) + " elements, first at " + index_text(static_cast<int64_t>(found.first), shape) + ": " +
                        told(first[0], first[1]));
        if (equality && found.have_distance()) notes.back() += "; largest absolute difference " + found.absolute() + ", relative " + found.relative();
        nan = found.nan_got + found.nan_wanted > 0;
    }
    if (equality && nan) notes.emplace_back("NaN equals nothing, not even NaN: `assert_equal` takes it as equal to itself");
}

/// why_not() of a condition that is false for some element. What it evaluates anew has been evaluated before: only cancelling and budgets end it.
std::vector<std::string> HostRunner::why_false(const ast::Expr& condition) {
    std::vector<std::string> notes;
    DiagSink own;
    struct Exchange {
        DiagSink*& at;
        DiagSink* outer;
        ~Exchange() { at = outer; }
    };
    const Exchange exchange{diags_, std::exchange(diags_, &own)};
    const Status before = status_;
    const unsigned depth = depth_;
    const auto print = std::exchange(options_.print, nullptr);  // what functions print has been printed
    try {
        why_not(condition, true, notes);
    } catch (const HostStopped& stopped) {
        for (Diagnostic& d : own.take())
            if (stopped.status == Status::cancelled) exchange.outer->add(std::move(d));
        if (stopped.status == Status::cancelled) throw;
    }
    options_.print = print;
    depth_ = depth;
    status_ = before;
    std::vector<std::string> out;
    for (std::string& note : notes)
        if (!note.empty() && std::ranges::find(out, note) == out.end()) out.push_back(std::move(note));
    return out;
}

std::optional<HostValue> HostRunner::host_assert_close(const HostArgs& args) {
    double tolerances[2] = {0, 0};
    for (const size_t i : {2, 3}) {
        double& tolerance = tolerances[i - 2];
        if (!take(args, i, tolerance)) return std::nullopt;
        if (!std::isfinite(tolerance) || tolerance < 0) return refuse(args, i, "a finite number >= 0"), std::nullopt;
    }
    return compare(args, tolerances[0], tolerances[1]);
}

std::optional<HostValue> HostRunner::host_assert_equal(const HostArgs& args) { return compare(args, 0.0, 0.0); }

std::optional<HostValue> HostRunner::host_assert_fails(const HostArgs& args) {
    std::string wanted;
    if (!take(args, 1, wanted)) return std::nullopt;
    DiagSink own;
    const Status before = status_;
    struct Exchange {  // what ends the statements ends this one, too, and is told
        DiagSink*& at;
        DiagSink* outer;
        ~Exchange() { at = outer; }
    };
    bool failed = false;
    try {
        const Exchange exchange{diags_, std::exchange(diags_, &own)};
        failed = !evaluate(*args.exprs[0]);
    } catch (const HostStopped&) {
        for (Diagnostic& d : own.take()) diags_->add(std::move(d));
        throw;
    }
    status_ = before;
    std::string messages;
    for (const Diagnostic& d : own.all()) {
        messages += std::string(diag_row(d.id).code) + " " + d.message + "\n";
        for (const DiagNote& note : d.notes) messages += note.whole() + "\n";
    }
    if (failed && messages.find(wanted) != std::string::npos) return HostValue{};
    auto& d = diags_->report(Diag::expected_failure, args.span, {wanted.empty() ? "" : " with `" + printable(wanted) + "`"});
    if (!failed) d.notes.push_back("it succeeded");
    for (size_t at = 0, end; failed && at < messages.size(); at = end + 1) {
        end = messages.find('\n', at);
        d.notes.push_back((at ? "" : "it said: ") + messages.substr(at, end - at));
    }
    fail(Status::mismatch);
    return std::nullopt;
}

}  // namespace tegula
