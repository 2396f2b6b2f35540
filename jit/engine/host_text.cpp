// Values of host statements as text, and `print` and `assert`, which the language has too.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "jit/engine/host.h"
#include "lang/print_text.h"
#include "sema/suggest.h"

namespace tegula {

namespace {

constexpr size_t kMostText = 65536;  ///< bytes of a text that is built

constexpr int kEdge = 3;  ///< elements that are shown at the ends of long axes

}  // namespace

std::string HostRunner::number_text(double value) {
    char text[40];
    auto end = std::to_chars(text, text + sizeof text, value).ptr;
    return {text, end};
}

std::string HostRunner::found(const HostValue& value) {
    if (value.kind != HostValue::tensor) return host_kind_name(value.kind);
    const std::string of = " of `" + module_.types().format(value.t->elem).name + "`";
    return value.t->extents.rank ? "a tensor" + of + " " + to_string(value.t->extents) : "a number" + of;
}

std::string HostRunner::described(const HostValue& value) {
    const bool number = value.kind == HostValue::integer || value.kind == HostValue::real || value.kind == HostValue::boolean;
    const bool scalar = value.kind == HostValue::tensor && value.t->extents.rank == 0 && fully_written(module_.types(), value.t->view());
    return number ? text_of(value) : scalar ? text_of(value) + ", " + found(value) : found(value);
}

std::string HostRunner::json_number(const HostValue& value) {
    if (const auto i = integer_in(value)) return sema::int_text(*i);
    if (value.kind == HostValue::tensor && (value.t->extents.rank || module_.types().format(value.t->elem).is_bool())) return {};
    const auto number = number_in(value);
    if (!number) return {};
    const double nearest = value.kind == HostValue::real ? value.r : decode(float_format(11, 52), round_exact(*number, float_format(11, 52), {}));
    return std::isfinite(nearest) ? number_text(nearest) : "null";
}

std::string HostRunner::text_of(const HostValue& value, const PrintSpec& spec) {
    switch (value.kind) {
        case HostValue::unit:
            return "()";
        case HostValue::integer:
            if (spec.form >= PrintSpec::hex) return tegula::number_text(int_format(64, value.i <= INT64_MAX), static_cast<uint64_t>(value.i), spec);
            return sema::int_text(value.i);
        case HostValue::real:
            // A constant is f64 here as a decimal; its bits are those that it has where it is stored.
            if (spec.form == PrintSpec::fixed) return tegula::number_text(float_format(11, 52), encode(float_format(11, 52), value.r), spec);
            if (spec.form >= PrintSpec::hex) return tegula::number_text(float_format(8, 23), encode(float_format(8, 23), value.r), spec);
            return number_text(value.r);
        case HostValue::boolean:
            return value.b ? "true" : "false";
        case HostValue::text:
            return value.s;
        case HostValue::layout:
            return module_.types().layout(value.layout_id).name();
        case HostValue::type:
            return module_.types().format(value.format).name;
        case HostValue::choice:
            return value.choice_of.text;
        case HostValue::tuple: {
            std::string text(value.of ? value.of->name.text : "");
            text += "(";
            for (size_t i = 0; i < value.items.size(); ++i) {
                if (i) text += ", ";
                if (value.of) (text += value.of->fields[i].name.text) += " = ";
                text += text_of(value.items[i], spec);
            }
            return text + ")";
        }
        case HostValue::tensor: {
            const Format& format = module_.types().format(value.t->elem);
            std::string head = value.t->extents.rank ? "tensor<" + format.name + ">" + to_string(value.t->extents) + "\n" : std::string();
            const auto tile = elements_of(value);
            return head + (tile ? tile_text(module_.types(), *tile, kEdge, spec) : "(block format)");
        }
    }
    return {};
}

std::optional<TileData> HostRunner::elements_of(const HostValue& tensor) {
    TypeTable& types = module_.types();
    std::shared_ptr<HostTensor> shown = tensor.t;
    if (types.format(tensor.t->elem).is_block()) {
        std::string why;
        if (!new_tensor(shown, id_of(Fmt::f32), types.intern(Layout::row()), tensor.t->extents, true, {}) ||
            !copy_converted(engine_, module_, shown->view(), tensor.t->view(), *diags_, &why))
            return std::nullopt;
    }
    return read_tile(types, shown->view());
}

std::optional<std::string> HostRunner::filled(const std::string& text, std::span<const HostValue> values, Span literal) {
    if (const size_t holes = count_holes(text); holes != values.size()) {
        auto& d = diags_->report(Diag::bad_format_text, literal, {std::to_string(holes), std::to_string(values.size())});
        sema::suggest_format_text(d, &module_, literal);
        return std::nullopt;
    }
    return filled_text(text, values.size(), [&](size_t i, const PrintSpec& spec) { return text_of(values[i], spec); });
}

std::optional<HostValue> HostRunner::host_format(const HostArgs& args) {
    HostValue out;
    out.kind = HostValue::text;
    std::string text;
    if (!take(args, 0, text)) return std::nullopt;
    std::vector<HostValue> values;
    for (size_t i = 1; i < args.values.size(); ++i) {
        if (!written(*args.values[i], args.exprs[i]->span)) return std::nullopt;
        values.push_back(*args.values[i]);
    }
    auto made = filled(text, values, args.exprs[0]->span);
    if (!made) return std::nullopt;
    if (made->size() > kMostText) return refuse(args.span, "a text has at most " + std::to_string(kMostText) + " bytes"), std::nullopt;
    out.s = std::move(*made);
    return out;
}

std::optional<HostValue> HostRunner::print(const ast::CallExpr& call) {
    std::vector<HostValue> values;
    for (const ast::Arg& arg : call.args) {
        if (!arg.name.text.empty()) return refuse(arg.value->span, "print takes values by position"), std::nullopt;
        auto value = evaluate(*arg.value);
        if (!value || !written(*value, arg.value->span)) return std::nullopt;
        values.push_back(std::move(*value));
    }
    std::string line;
    if (!call.args.empty() && call.args[0].value->kind == ast::ExprKind::string_lit) {
        auto text = filled(values[0].s, std::span(values).subspan(1), call.args[0].value->span);
        if (!text) return std::nullopt;
        line = std::move(*text);
    } else {
        for (const HostValue& value : values) line += (line.empty() ? "" : " ") + text_of(value);
    }
    if (options_.print) options_.print(line + "\n");
    return HostValue{};
}

std::optional<HostValue> HostRunner::assert_that(const ast::CallExpr& call) {
    const auto named = [](const ast::Arg& arg) { return !arg.name.text.empty(); };
    if (call.args.empty() || call.args.size() > 2 || std::ranges::any_of(call.args, named))
        return refuse(call.span, "assert takes a condition and, optionally, a text"), std::nullopt;
    std::string text;
    if (call.args.size() == 2) {
        auto value = evaluate(*call.args[1].value);
        if (!value) return std::nullopt;
        text = ": " + printable(text_of(*value));
    }
    auto condition = evaluate(*call.args[0].value);
    if (!condition) return std::nullopt;
    const bool tensor = condition->kind == HostValue::tensor;
    if (tensor ? condition->t->elem != Fmt::boolean : condition->kind != HostValue::boolean) {
        diags_->report(Diag::host_kind, call.args[0].value->span, {"a bool", found(*condition)});
        return std::nullopt;
    }
    bool holds = condition->b;
    if (tensor) {
        auto tile = as_tile(*condition, call.span);
        if (!tile) return std::nullopt;
        step(call.span, tile->bytes.size());
        holds = true;
        for (uint8_t byte : tile->bytes) holds = holds && byte;
    }
    if (holds) return HostValue{};
    std::vector<std::string> notes = why_false(*call.args[0].value);
    auto& d = diags_->report(Diag::tile_assertion_failed, call.span, {text});
    d.notes.insert(d.notes.end(), std::make_move_iterator(notes.begin()), std::make_move_iterator(notes.end()));
    fail(Status::mismatch);
    return std::nullopt;
}

}  // namespace tegula
