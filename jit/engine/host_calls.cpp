// Functions of host statements: one per row of host_calls.def, and print and assert, which the language has too.
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "jit/engine/host.h"
#include "sema/signature.h"

namespace tegula {

namespace {

/// 53 random bits in [0, 1) for element `index` under `seed`; the upper half of the block is a second, independent number.
double uniform(uint64_t seed, uint64_t index, bool second) {
    const uint32_t counter[4] = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0x7e9u, 0};
    const uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
    uint32_t out[4];
    philox4x32(counter, key, out);
    uint64_t bits = second ? (uint64_t{out[2]} << 32 | out[3]) : (uint64_t{out[0]} << 32 | out[1]);
    return static_cast<double>(bits >> 11) * 0x1p-53;
}

/// The code of a + b, rounded once.
uint64_t encode_sum(const Format& format, int64_t a, __int128 b) {
    const __int128 sum = a + b;
    if (sum < INT64_MIN || sum > INT64_MAX) return encode(format, static_cast<double>(sum));
    return round_exact(exact_from_int(static_cast<uint64_t>(static_cast<int64_t>(sum)), true), format, {});
}

std::string index_text(int64_t at, const Shape& shape) {
    std::string text;
    for (int d = shape.rank - 1; d >= 0; --d) {
        text = std::to_string(at % shape[d]) + (text.empty() ? "" : ", ") + text;
        at /= shape[d];
    }
    return "[" + text + "]";
}

std::string number(double v) {
    char text[40];
    auto end = std::to_chars(text, text + sizeof text, v).ptr;
    return {text, end};
}

}  // namespace

bool HostRunner::host_args(const char* text, const ast::Expr& expr, HostArgs& args) {
    const sema::Signature signature = sema::parse_signature(text);
    args.span = expr.span;
    auto fail_with = [&](Span span, std::string message) {
        diags_->report(Diag::host_arguments, span, {std::move(message)});
        return false;
    };
    const ast::Expr* head = &expr;
    std::span<const ast::Arg> given;
    if (head->kind == ast::ExprKind::call) {
        given = ast::as<ast::CallExpr>(head).args;
        head = ast::as<ast::CallExpr>(head).callee;
    }
    if (signature.has_shape) {
        if (head->kind != ast::ExprKind::index) return fail_with(expr.span, "a shape is needed: name<type>[extents]");
        const auto& index = ast::as<ast::IndexExpr>(head);
        for (const ast::IndexItem& item : index.items) {
            if (item.kind != ast::IndexItem::value) return fail_with(item.span, "extents are integers");
            auto extent = evaluate(*item.start);
            if (!extent) return false;
            if (extent->kind != HostValue::integer || extent->i < 0) return fail_with(item.span, "extents are integers >= 0");
            if (args.shape.rank == kMaxRank) return fail_with(item.span, "at most 8 dimensions");
            args.shape.push(extent->i);
        }
        head = index.base;
    }
    if (!signature.generics.empty()) {
        if (head->kind != ast::ExprKind::instantiate || ast::as<ast::InstantiateExpr>(head).args.size() != 1)
            return fail_with(expr.span, "an element type is needed: name<type>");
        auto format = sema::evaluate_format(module_, *ast::as<ast::InstantiateExpr>(head).args[0].value, resolver(), module_.types(), *diags_);
        if (!format) return false;
        args.format = *format;
    }
    args.exprs.assign(signature.parameters.size(), nullptr);
    args.values.resize(signature.parameters.size());
    size_t position = 0;
    for (const ast::Arg& arg : given) {
        size_t slot = position;
        if (arg.name.text.empty())
            ++position;
        else
            for (slot = 0; slot < signature.parameters.size() && signature.parameters[slot].name != arg.name.text;) ++slot;
        if (slot >= args.exprs.size()) return fail_with(arg.value->span, "no such argument; the signature is " + std::string(text));
        if (args.exprs[slot]) return fail_with(arg.value->span, "the argument is given twice");
        args.exprs[slot] = arg.value;
        if (signature.parameters[slot].name == "launch") continue;
        auto value = evaluate(*arg.value);
        if (!value) return false;
        args.values[slot] = std::move(*value);
    }
    for (size_t i = 0; i < args.exprs.size(); ++i)
        if (!args.exprs[i] && !signature.parameters[i].optional)
            return fail_with(expr.span, "argument `" + std::string(signature.parameters[i].name) + "` is missing");
    return true;
}

std::optional<HostValue> HostRunner::make(const HostArgs& args, std::function<uint64_t(const Format&, uint64_t)> code) {
    TypeTable& types = module_.types();
    const Format& format = types.format(args.format);
    // Block formats are drawn in f32 and quantised; everything else takes one rounding of what was drawn.
    const FormatId drawn = format.is_block() ? id_of(Fmt::f32) : args.format;
    const Format& target = types.format(drawn);
    std::string why;
    const LayoutId row = types.intern(Layout::row());
    auto tensor = make_tensor(types, drawn, row, args.shape, true, &why);
    if (tensor) {
        const uint64_t count = static_cast<uint64_t>(args.shape.elements());
        TileData tile{drawn, args.shape, {}};
        const unsigned width = target.container_bytes();
        tile.bytes.resize(count * width);
        for (uint64_t i = 0; i < count; ++i) {
            if (i % 65536 == 0 && options_.cancel && options_.cancel->load()) {
                fail(Status::cancelled);
                return std::nullopt;
            }
            const uint64_t element = code(target, i);
            std::memcpy(tile.bytes.data() + i * width, &element, width);
        }
        write_tile(types, tensor->view(), tile);
        if (format.is_block()) {
            auto quantised = make_tensor(types, args.format, row, args.shape, true, &why);
            if (quantised && !copy_converted(engine_, module_, quantised->view(), tensor->view(), *diags_, &why)) quantised = nullptr;
            tensor = quantised;
        }
    }
    if (!tensor) {
        diags_->report(Diag::host_tensor, args.span, {why});
        return std::nullopt;
    }
    HostValue out;
    out.kind = HostValue::tensor;
    out.t = std::move(tensor);
    return out;
}

std::optional<HostValue> HostRunner::host_randn(const HostArgs& args) {
    const uint64_t seed = static_cast<uint64_t>(args.integer(0, 0));
    const double scale = args.number(1, 1.0);
    return make(args, [=](const Format& f, uint64_t i) {
        // Box-Muller; 1 - u keeps the logarithm finite.
        return encode(f, scale * std::sqrt(-2.0 * std::log(1.0 - uniform(seed, i, false))) * std::cos(2.0 * M_PI * uniform(seed, i, true)));
    });
}

std::optional<HostValue> HostRunner::host_rand(const HostArgs& args) {
    const uint64_t seed = static_cast<uint64_t>(args.integer(0, 0));
    const double lo = args.number(1, 0.0), hi = args.number(2, 1.0);
    return make(args, [=](const Format& f, uint64_t i) {
        const double v = lo + (hi - lo) * uniform(seed, i, false);
        const uint64_t code = encode(f, v);
        // What rounds up to `hi` is the number below it.
        if (!(lo < hi) || decode(f, code) < hi) return code;
        return encode(f, std::min(v, std::nextafter(hi, lo)), {Round::rd});
    });
}

std::optional<HostValue> HostRunner::host_randint(const HostArgs& args) {
    const bool whole = args.whole(0) && args.whole(1);
    const int64_t first = args.integer(0, 0);
    const double lo = args.number(0, 0);
    const double width = whole ? static_cast<double>(static_cast<__int128>(args.integer(1, 1)) - first) : args.number(1, 1) - lo;
    const uint64_t seed = static_cast<uint64_t>(args.integer(2, 0));
    if (!(width > 0)) {
        diags_->report(Diag::host_arguments, args.span, {"the range [lo, hi) is empty"});
        return std::nullopt;
    }
    return make(args, [=](const Format& f, uint64_t i) {
        const double offset = std::min(std::floor(width * uniform(seed, i, false)), width - 1);
        if (!whole) return encode(f, lo + offset);
        return encode_sum(f, first, static_cast<__int128>(offset));
    });
}

std::optional<HostValue> HostRunner::host_arange(const HostArgs& args) {
    const double start = args.number(0, 0), step = args.number(1, 1);
    const bool whole = args.whole(0) && args.whole(1);
    const int64_t first = args.integer(0, 0), by = args.integer(1, 1);
    return make(args, [=](const Format& f, uint64_t i) {
        return whole ? encode_sum(f, first, static_cast<__int128>(by) * static_cast<__int128>(i)) : encode(f, start + step * static_cast<double>(i));
    });
}

std::optional<HostValue> HostRunner::host_empty(const HostArgs& args) {
    std::string why;
    HostValue out;
    out.kind = HostValue::tensor;
    out.t = make_tensor(module_.types(), args.format, module_.types().intern(Layout::row()), args.shape, false, &why);
    if (out.t) return out;
    diags_->report(Diag::host_tensor, args.span, {why});
    return std::nullopt;
}

std::optional<HostValue> HostRunner::load_array(const HostArgs& args, const std::string& name) {
    std::string path = args.values[0]->kind == HostValue::text ? args.values[0]->s : std::string();
    std::string error = "this host has no array reader";
    HostValue out;
    out.kind = HostValue::tensor;
    if (engine_.options().load_array) out.t = engine_.options().load_array(module_, path, name, error);
    if (out.t) return out;
    diags_->report(Diag::host_load, args.span, {printable(path), printable(error)});
    fail(Status::io);
    return std::nullopt;
}

std::optional<HostValue> HostRunner::host_load_npy(const HostArgs& args) { return load_array(args, {}); }

std::optional<HostValue> HostRunner::host_load_safetensors(const HostArgs& args) {
    return load_array(args, args.values[1]->kind == HostValue::text ? args.values[1]->s : std::string("?"));
}

std::string HostRunner::Numbers::text(size_t i) const {
    if (!integral) return number(values[i]);
    return is_signed ? std::to_string(static_cast<int64_t>(codes[i])) : std::to_string(codes[i]);
}

std::optional<HostRunner::Numbers> HostRunner::numbers(const HostValue& value, Span span) {
    switch (value.kind) {
        case HostValue::integer:
            return Numbers{{}, {static_cast<double>(value.i)}, {static_cast<uint64_t>(value.i)}, true, true};
        case HostValue::real:
            return Numbers{{}, {value.r}, {}, false, true};
        case HostValue::boolean:
            return Numbers{{}, {value.b ? 1.0 : 0.0}, {value.b}, true, false};
        case HostValue::tensor:
            break;
        default:
            diags_->report(Diag::host_kind, span, {"a tensor or a number", "something else"});
            return std::nullopt;
    }
    TypeTable& types = module_.types();
    HostValue plain = value;
    if (types.format(value.t->elem).is_block()) {
        std::string why;
        plain.t = make_tensor(types, id_of(Fmt::f32), types.intern(Layout::row()), value.t->extents, true, &why);
        if (!as_tile(value, span)) return std::nullopt;
        if (!plain.t || !copy_converted(engine_, module_, plain.t->view(), value.t->view(), *diags_, &why)) {
            diags_->report(Diag::host_tensor, span, {why});
            return std::nullopt;
        }
    }
    auto tile = as_tile(plain, span);
    if (!tile) return std::nullopt;
    const Format& format = types.format(tile->elem);
    const unsigned width = format.container_bytes();
    const size_t count = static_cast<size_t>(tile->shape.elements());
    Numbers out{tile->shape, std::vector<double>(count), {}, format.is_bool() || format.is_int(), format.is_int() && format.is_signed};
    if (!out.integral) {
        decode_many(format, tile->bytes.data(), count, out.values.data());
        return out;
    }
    out.codes.resize(count);
    for (size_t i = 0; i < count; ++i) {
        out.codes[i] = load_bits(format, tile->bytes.data() + i * width, 0);
        out.values[i] = format.is_bool() ? static_cast<double>(out.codes[i]) : decode(format, out.codes[i]);
    }
    return out;
}

std::optional<HostValue> HostRunner::compare(const HostArgs& args, double atol, double rtol) {
    auto got = numbers(*args.values[0], args.span);
    auto want = got ? numbers(*args.values[1], args.span) : std::nullopt;
    if (!want) return std::nullopt;
    if (!(got->shape == want->shape)) {
        diags_->report(Diag::shapes_differ, args.span, {to_string(got->shape), to_string(want->shape)});
        fail(Status::mismatch);
        return std::nullopt;
    }
    const bool exact = got->integral && want->integral;
    const size_t count = got->values.size();
    size_t first = count, bad = 0;
    double worst = 0, worst_relative = 0;
    for (size_t i = 0; i < count; ++i) {
        const double x = got->values[i], y = want->values[i];
        double difference = std::fabs(x - y);
        if (exact) {
            // Neighbours among large 64-bit integers are one double.
            if (got->codes[i] == want->codes[i] && got->negative(i) == want->negative(i)) continue;
            const auto wide = [](const Numbers& n, size_t at) {
                return n.negative(at) ? __int128{static_cast<int64_t>(n.codes[at])} : __int128{n.codes[at]};
            };
            difference = std::fabs(static_cast<double>(wide(*got, i) - wide(*want, i)));
        } else if (x == y || (std::isnan(x) && std::isnan(y))) {
            continue;
        }
        if (difference <= atol + rtol * std::fabs(y)) continue;  // false for NaN and Inf on one side
        if (bad++ == 0) first = i;
        worst = std::fmax(worst, difference);
        worst_relative = std::fmax(worst_relative, difference / std::fabs(y));
    }
    if (bad == 0) return HostValue{};
    diags_->report(Diag::values_differ, args.span,
                   {std::to_string(bad), std::to_string(count), index_text(static_cast<int64_t>(first), got->shape), got->text(first),
                    want->text(first), number(worst), number(worst_relative)});
    fail(Status::mismatch);
    return std::nullopt;
}

std::optional<HostValue> HostRunner::host_assert_close(const HostArgs& args) { return compare(args, args.number(2, 0.0), args.number(3, 0.0)); }

std::optional<HostValue> HostRunner::host_assert_equal(const HostArgs& args) { return compare(args, 0.0, 0.0); }

std::optional<HostValue> HostRunner::host_assert_fails(const HostArgs& args) {
    const std::string wanted = args.values[1] ? args.values[1]->s : std::string();
    DiagSink own;
    DiagSink* outer = std::exchange(diags_, &own);
    const Status before = status_;
    bool failed = !evaluate(*args.exprs[0]);
    const bool cancelled = status_ == Status::cancelled;
    diags_ = outer;
    if (cancelled) {
        for (Diagnostic& d : own.take()) diags_->add(std::move(d));
        return std::nullopt;
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

std::string HostRunner::text_of(const HostValue& value) {
    switch (value.kind) {
        case HostValue::unit:
            return "()";
        case HostValue::integer:
            return std::to_string(value.i);
        case HostValue::real:
            return number(value.r);
        case HostValue::boolean:
            return value.b ? "true" : "false";
        case HostValue::text:
            return value.s;
        case HostValue::layout:
            return module_.types().layout(value.layout_id).name();
        case HostValue::type:
            return module_.types().format(value.format).name;
        case HostValue::tuple: {
            std::string text;
            for (const HostValue& item : value.items) text += (text.empty() ? "" : ", ") + text_of(item);
            return "(" + text + ")";
        }
        case HostValue::tensor: {
            const Format& format = module_.types().format(value.t->elem);
            std::string head = value.t->extents.rank ? "tensor<" + format.name + ">" + to_string(value.t->extents) + "\n" : std::string();
            if (format.is_block()) return head + "(block format)";
            return head + tile_text(module_.types(), read_tile(module_.types(), value.t->view()));
        }
    }
    return {};
}

std::optional<HostValue> HostRunner::print(const ast::CallExpr& call) {
    std::string line;
    std::vector<std::string> parts;
    for (const ast::Arg& arg : call.args) {
        auto value = evaluate(*arg.value);
        if (!value || !written(*value, arg.value->span)) return std::nullopt;
        parts.push_back(text_of(*value));
    }
    size_t used = 0, holes = 0;
    if (!call.args.empty() && call.args[0].value->kind == ast::ExprKind::string_lit) {
        const std::string& format = parts[0];
        used = 1;
        for (size_t i = 0; i < format.size(); ++i) {
            if (format.compare(i, 2, "{}") == 0) {
                if (++holes < parts.size()) line += parts[used++];
                ++i;
            } else {
                line += format[i];
                i += format.compare(i, 2, "{{") == 0;
            }
        }
        if (holes != parts.size() - 1) {
            diags_->report(Diag::bad_format_text, call.args[0].value->span, {std::to_string(holes), std::to_string(parts.size() - 1)});
            return std::nullopt;
        }
    }
    for (; used < parts.size(); ++used) line += (line.empty() ? "" : " ") + parts[used];
    if (options_.print) options_.print(line + "\n");
    return HostValue{};
}

std::optional<HostValue> HostRunner::assert_that(const ast::CallExpr& call) {
    if (call.args.empty() || call.args.size() > 2) {
        diags_->report(Diag::host_arguments, call.span, {"assert takes a condition and, optionally, a text"});
        return std::nullopt;
    }
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
        const std::string found = tensor ? "a tensor of " + module_.types().format(condition->t->elem).name : host_kind_name(condition->kind);
        diags_->report(Diag::host_kind, call.args[0].value->span, {"a bool", found});
        return std::nullopt;
    }
    bool holds = condition->b;
    if (tensor) {
        auto tile = as_tile(*condition, call.span);
        if (!tile) return std::nullopt;
        holds = true;
        for (uint8_t byte : tile->bytes) holds = holds && byte;
    }
    if (holds) return HostValue{};
    diags_->report(Diag::tile_assertion_failed, call.span, {text});
    fail(Status::mismatch);
    return std::nullopt;
}

}  // namespace tegula
