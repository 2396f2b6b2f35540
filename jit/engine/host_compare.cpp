// Comparisons of host statements: exact in any two types, within a tolerance, and failures that are expected.
#include <cmath>
#include <utility>

#include "jit/engine/host.h"

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
    size_t first = count, bad = 0;
    size_t nan_got = 0, nan_wanted = 0;
    double worst = 0, worst_relative = 0;
    for (size_t i = 0; i < count; ++i) {
        if (i % kBetweenLooks == 0) step(args.span, std::min(kBetweenLooks, count - i));
        const double x = got.values[i], y = want.values[i];
        if (std::isnan(x) && std::isnan(y)) continue;
        if (doubles && x == y) continue;
        const Exact a = got.exact(i), b = want.exact(i);
        if (!doubles && !std::isnan(x) && !std::isnan(y) && tegula::compare(a, b) == 0) continue;
        const Distance apart = distance(a, b, x, y, atol + rtol * std::fabs(y));
        if (apart.within) continue;
        if (bad++ == 0) first = i;
        nan_got += std::isnan(x);
        nan_wanted += std::isnan(y);
        worst = std::fmax(worst, apart.value);
        worst_relative = std::fmax(worst_relative, apart.value / std::fabs(y));
    }
    if (bad == 0) return HostValue{};
    const bool numbers_differ = bad > nan_got + nan_wanted;  // else there is no distance
    auto& d = diags_->report(Diag::values_differ, args.span,
                             {std::to_string(bad), std::to_string(count), index_text(static_cast<int64_t>(first), got.shape), got.text(first),
                              want.text(first), numbers_differ ? number_text(worst) : "none", numbers_differ ? number_text(worst_relative) : "none"});
    const auto count_text = [](size_t n) { return std::to_string(n) + (n == 1 ? " value is" : " values are"); };
    if (nan_got) d.notes.push_back(count_text(nan_got) + " NaN where a number was expected");
    if (nan_wanted)
        d.notes.push_back(count_text(nan_wanted) + (nan_wanted == 1 ? " a number where NaN was expected" : " numbers where NaN was expected"));
    fail(Status::mismatch);
    return std::nullopt;
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
        for (const std::string& note : d.notes) messages += note + "\n";
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
