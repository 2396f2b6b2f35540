// Functions of host statements that make arrays, one per row of host_calls.def, and the arguments of all of them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "jit/engine/host.h"
#include "lang/print_text.h"
#include "sema/signature.h"

namespace tegula {

namespace {

constexpr __int128 kMostWhole = static_cast<__int128>(1) << 90;  ///< of numbers that count elements: sums and products stay exact

/// 64 random bits for element `index` under `seed`; the upper half of the block is a second, independent number.
uint64_t random_bits(uint64_t seed, uint64_t index, bool second) {
    const uint32_t counter[4] = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0x7e9u, 0};
    const uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
    uint32_t out[4];
    philox4x32(counter, key, out);
    return second ? (uint64_t{out[2]} << 32 | out[3]) : (uint64_t{out[0]} << 32 | out[1]);
}

/// 53 of them in [0, 1).
double uniform(uint64_t seed, uint64_t index, bool second) { return static_cast<double>(random_bits(seed, index, second) >> 11) * 0x1p-53; }

/// The code of an integer, rounded once.
uint64_t encode_whole(const Format& format, __int128 value, bool& outside) {
    if (format.is_bool()) return outside = value != 0 && value != 1, value != 0;
    return round_exact(exact_from_wide(value), format, {}, &outside);
}

/// The code of a real, rounded once; integers are not made from what lies between them.
uint64_t encode_real(const Format& format, double value, RoundSpec spec, bool& outside) {
    const uint64_t code = encode(format, value, spec, &outside);
    outside = outside || (!format.is_signed && format.is_float() && value < 0) || (format.is_bool() && value != 0 && value != 1);
    return code;
}

}  // namespace

bool HostRunner::host_args(const char* text, const ast::Expr& expr, HostArgs& args) {
    const sema::Signature signature = sema::parse_signature(text);
    args.span = expr.span;
    for (const auto& parameter : signature.parameters) args.names.push_back(parameter.name);
    const ast::Expr* head = &expr;
    std::span<const ast::Arg> given;
    if (head->kind == ast::ExprKind::call) {
        given = ast::as<ast::CallExpr>(head).args;
        head = ast::as<ast::CallExpr>(head).callee;
    }
    if (signature.has_shape) {
        if (head->kind != ast::ExprKind::index) return refuse(expr.span, "a shape is needed: name<type>[extents]");
        const auto& index = ast::as<ast::IndexExpr>(head);
        for (const ast::IndexItem& item : index.items) {
            if (item.kind != ast::IndexItem::value) return refuse(item.span, "extents are integers");
            auto extent = evaluate(*item.start);
            if (!extent) return false;
            const auto n = integer_in(*extent);
            if (!n || *n < 0 || *n > INT64_MAX) return refuse(item.span, "extents are integers >= 0, found " + described(*extent));
            if (args.shape.rank == kMaxRank) return refuse(item.span, "at most 8 dimensions");
            args.shape.push(static_cast<int64_t>(*n));
        }
        head = index.base;
    }
    if (!signature.generics.empty()) {
        if (head->kind != ast::ExprKind::instantiate || ast::as<ast::InstantiateExpr>(head).args.size() != 1)
            return refuse(expr.span, "an element type is needed: name<type>");
        auto format = sema::evaluate_format(module_, *ast::as<ast::InstantiateExpr>(head).args[0].value, resolver(), module_.types(), *diags_);
        if (!format) return false;
        args.format = *format;
        head = ast::as<ast::InstantiateExpr>(head).base;
    }
    if (head->kind != ast::ExprKind::name) return refuse(expr.span, "the call does not fit the signature " + std::string(text));
    args.exprs.assign(signature.parameters.size(), nullptr);
    args.values.resize(signature.parameters.size());
    size_t position = 0;
    for (const ast::Arg& arg : given) {
        size_t slot = position;
        if (arg.name.text.empty())
            ++position;
        else
            for (slot = 0; slot < signature.parameters.size() && signature.parameters[slot].name != arg.name.text;) ++slot;
        if (slot == args.exprs.size() && signature.variadic && arg.name.text.empty()) {
            args.names.push_back({});
            args.exprs.push_back(nullptr);
            args.values.emplace_back();
        }
        if (slot >= args.exprs.size()) return refuse(arg.value->span, "no such argument; the signature is " + std::string(text));
        if (args.exprs[slot]) return refuse(arg.value->span, "the argument is given twice");
        args.exprs[slot] = arg.value;
        if (args.names[slot] == "launch") continue;
        auto value = evaluate(*arg.value);
        if (!value) return false;
        args.values[slot] = std::move(*value);
    }
    for (size_t i = 0; i < signature.parameters.size(); ++i)
        if (!args.exprs[i] && !signature.parameters[i].optional)
            return refuse(expr.span, "argument `" + std::string(signature.parameters[i].name) + "` is missing");
    return true;
}

bool HostRunner::refuse(Span span, std::string message) {
    diags_->report(Diag::host_arguments, span, {std::move(message)});
    return false;
}

bool HostRunner::refuse(const HostArgs& args, size_t i, const std::string& wanted) {
    return refuse(args.exprs[i]->span, "`" + std::string(args.names[i]) + "` takes " + wanted + ", found " + described(*args.values[i]));
}

bool HostRunner::take(const HostArgs& args, size_t i, double& out) {
    if (!args.values[i]) return true;
    const auto number = number_in(*args.values[i]);
    if (!number) return refuse(args, i, "a number");
    const Format f64 = float_format(11, 52);
    const uint64_t code = round_exact(*number, f64, {});
    if (number->cls != Exact::nan && tegula::compare(decode_exact(f64, code), *number) != 0) return refuse(args, i, "a number that f64 holds");
    out = decode(f64, code);
    return true;
}

bool HostRunner::take(const HostArgs& args, size_t i, __int128& out, __int128 least, __int128 most) {
    if (!args.values[i]) return true;
    const HostValue& value = *args.values[i];
    auto number = integer_in(value);
    // A real literal is an integer where it is whole, as for a kernel.
    if (!number && value.kind == HostValue::real && std::fabs(value.r) < 0x1p100 && value.r == std::trunc(value.r))
        number = static_cast<__int128>(value.r);
    if (!number || *number < least || *number > most)
        return refuse(args, i, "an integer of [" + sema::int_text(least) + ", " + sema::int_text(most) + "]");
    out = *number;
    return true;
}

bool HostRunner::take(const HostArgs& args, size_t i, std::string& out) {
    if (!args.values[i]) return true;
    if (args.values[i]->kind != HostValue::text) return refuse(args, i, "a text");
    out = args.values[i]->s;
    return true;
}

bool HostRunner::take_seed(const HostArgs& args, size_t i, uint64_t& seed) {
    __int128 number = 0;
    if (!take(args, i, number, 0, UINT64_MAX)) return false;
    seed = static_cast<uint64_t>(number);
    return true;
}

const Format& HostRunner::drawn(const HostArgs& args) {
    const Format& format = module_.types().format(args.format);
    return format.is_block() ? module_.types().format(id_of(Fmt::f32)) : format;
}

std::optional<HostValue> HostRunner::make(const HostArgs& args, const std::function<uint64_t(const Format&, uint64_t, bool& outside)>& code) {
    TypeTable& types = module_.types();
    const bool blocks = types.format(args.format).is_block();
    const FormatId elem = blocks ? id_of(Fmt::f32) : args.format;
    const Format& target = drawn(args);
    const LayoutId row = types.intern(Layout::row());
    HostValue out;
    out.kind = HostValue::tensor;
    if (!new_tensor(out.t, elem, row, args.shape, true, args.span)) return std::nullopt;
    constexpr uint64_t kBetweenLooks = 65536;
    const auto count = static_cast<uint64_t>(args.shape.elements());
    const unsigned width = target.container_bytes();
    step(args.span, 0);
    TileData tile{elem, args.shape, std::vector<uint8_t>(count * width)};
    for (uint64_t i = 0; i < count; ++i) {
        if (i % kBetweenLooks == 0) step(args.span, std::min(kBetweenLooks, count - i));
        bool outside = false;
        const uint64_t element = code(target, i, outside);
        if (outside) {
            refuse(args.span, "element " + point_text(static_cast<int64_t>(i), args.shape) + " lies outside of `" + target.name + "`, which holds " +
                                  tegula::number_text(target, lowest_code(target)) + " to " + tegula::number_text(target, max_code(target)));
            return std::nullopt;
        }
        std::memcpy(tile.bytes.data() + i * width, &element, width);
    }
    write_tile(types, out.t->view(), tile);
    if (!blocks) return out;
    HostValue quantised;
    quantised.kind = HostValue::tensor;
    if (!new_tensor(quantised.t, args.format, row, args.shape, true, args.span)) return std::nullopt;
    std::string why;
    if (copy_converted(engine_, module_, quantised.t->view(), out.t->view(), *diags_, &why)) return quantised;
    diags_->report(Diag::host_tensor, args.span, {why});
    return std::nullopt;
}

std::optional<HostValue> HostRunner::host_randn(const HostArgs& args) {
    uint64_t seed = 0;
    double scale = 1;
    if (!take_seed(args, 0, seed) || !take(args, 1, scale)) return std::nullopt;
    if (!std::isfinite(scale)) return refuse(args, 1, "a finite number"), std::nullopt;
    return make(args, [=](const Format& f, uint64_t i, bool& outside) {
        // Box-Muller; 1 - u keeps the logarithm finite.
        const double normal = std::sqrt(-2.0 * std::log(1.0 - uniform(seed, i, false))) * std::cos(2.0 * M_PI * uniform(seed, i, true));
        return encode_real(f, scale * normal, {}, outside);
    });
}

std::optional<HostValue> HostRunner::host_rand(const HostArgs& args) {
    uint64_t seed = 0;
    double lo = 0, hi = 1;
    if (!take_seed(args, 0, seed) || !take(args, 1, lo) || !take(args, 2, hi)) return std::nullopt;
    if (!(lo < hi) || !std::isfinite(hi - lo)) return refuse(args.span, "the range [lo, hi) is empty or endless"), std::nullopt;
    const Format& target = drawn(args);
    const double below = std::nextafter(hi, lo);
    bool low_outside = false, high_outside = false;
    encode_real(target, lo, {Round::ru}, low_outside);
    encode_real(target, below, {Round::rd}, high_outside);
    if (low_outside || high_outside) {
        const size_t i = low_outside ? 1 : 2;
        return refuse(args.exprs[i] ? args.exprs[i]->span : args.span, "`" + target.name + "` does not hold the range [lo, hi)"), std::nullopt;
    }
    return make(args, [=](const Format& f, uint64_t i, bool&) {
        const double v = lo + (hi - lo) * uniform(seed, i, false);
        const uint64_t code = encode(f, v);
        // What rounds up to `hi` is the number below it.
        return decode(f, code) < hi ? code : encode(f, std::min(v, below), {Round::rd});
    });
}

std::optional<HostValue> HostRunner::host_randint(const HostArgs& args) {
    __int128 lo = 0, hi = 0;
    uint64_t seed = 0;
    if (!take(args, 0, lo, -kMostWhole, kMostWhole) || !take(args, 1, hi, -kMostWhole, kMostWhole) || !take_seed(args, 2, seed)) return std::nullopt;
    if (lo >= hi) return refuse(args.span, "the range [lo, hi) is empty"), std::nullopt;
    const auto width = static_cast<unsigned __int128>(hi - lo);
    if (width > static_cast<unsigned __int128>(1) << 64) return refuse(args.span, "the range [lo, hi) has more than 2^64 numbers"), std::nullopt;
    const Format& target = drawn(args);
    for (const size_t i : {0, 1}) {
        bool outside = false;
        const __int128 end = i ? hi - 1 : lo;
        encode_whole(target, end, outside);
        if (outside) return refuse(args.exprs[i]->span, "`" + target.name + "` does not hold " + sema::int_text(end)), std::nullopt;
    }
    return make(args, [=](const Format& f, uint64_t i, bool& outside) {
        return encode_whole(f, lo + static_cast<__int128>(width * random_bits(seed, i, false) >> 64), outside);
    });
}

std::optional<HostValue> HostRunner::host_arange(const HostArgs& args) {
    __int128 first = 0, by = 1;
    const auto whole = [&](size_t i) {  // also of a real: 4.0 counts as 4 does
        return !args.values[i] || integer_in(*args.values[i]) ||
               (args.values[i]->kind == HostValue::real && args.values[i]->r == std::trunc(args.values[i]->r));
    };
    if (drawn(args).is_int() || drawn(args).is_bool() || (whole(0) && whole(1))) {
        if (!take(args, 0, first, -kMostWhole, kMostWhole) || !take(args, 1, by, -kMostWhole, kMostWhole)) return std::nullopt;
        return make(args,
                    [=](const Format& f, uint64_t i, bool& outside) { return encode_whole(f, first + by * static_cast<__int128>(i), outside); });
    }
    double start = 0, step = 1;
    if (!take(args, 0, start) || !take(args, 1, step)) return std::nullopt;
    return make(args, [=](const Format& f, uint64_t i, bool& outside) { return encode_real(f, start + step * static_cast<double>(i), {}, outside); });
}

std::optional<HostValue> HostRunner::host_empty(const HostArgs& args) {
    HostValue out;
    out.kind = HostValue::tensor;
    if (!new_tensor(out.t, args.format, module_.types().intern(Layout::row()), args.shape, false, args.span)) return std::nullopt;
    return out;
}

std::optional<HostValue> HostRunner::load_array(const HostArgs& args, const std::string& path, const std::string& name) {
    std::string why;
    HostValue out;
    out.kind = HostValue::tensor;
    if (!engine_.load_array(module_, path, name).into(out.t, why)) {
        diags_->report(Diag::host_load, args.span, {printable(path), printable(why)});
        fail(Status::io);
        return std::nullopt;
    }
    const uint64_t bytes = out.t->data.size() + out.t->scales.size() + out.t->tensor_scale.size();
    step(args.span, bytes);
    if (budget_.take(bytes, out.t->charge, why)) return out;
    diags_->report(Diag::host_tensor, args.span, {"`" + printable(path) + "` takes " + why});
    return std::nullopt;
}

std::optional<HostValue> HostRunner::host_pointers(const HostArgs& args) {
    const HostValue& given = *args.values[0];
    const std::span<const HostValue> tensors = given.kind == HostValue::tuple ? std::span<const HostValue>(given.items) : std::span(&given, 1);
    HostValue out;
    out.kind = HostValue::tensor;
    const Shape shape{static_cast<int64_t>(tensors.size())};
    for (const HostValue& v : tensors) {
        const bool fits = v.kind == HostValue::tensor && !module_.types().format(v.t->elem).is_block() && v.t->elem == tensors[0].t->elem;
        if (!fits) return refuse(args, 0, "tensors of one type, no block format"), std::nullopt;
    }
    if (!new_tensor(out.t, id_of(Fmt::u64), module_.types().intern(Layout::row()), shape, true, args.span)) return std::nullopt;
    for (size_t i = 0; i < tensors.size(); ++i) {
        const auto address = reinterpret_cast<uint64_t>(tensors[i].t->data.data());
        std::memcpy(out.t->data.data() + i * sizeof address, &address, sizeof address);
        out.t->leads_to.push_back(tensors[i].t);
        out.t->pointee = tensors[0].t->elem;
    }
    return out;
}

std::optional<HostValue> HostRunner::host_address(const HostArgs& args) {
    const HostValue& given = *args.values[0];
    if (given.kind != HostValue::tensor) return refuse(args, 0, "a tensor"), std::nullopt;
    addressed_.push_back(given.t);
    HostValue out;
    out.kind = HostValue::integer;
    out.i = reinterpret_cast<uint64_t>(given.t->data.data());
    return out;
}

std::vector<std::shared_ptr<HostTensor>> HostRunner::reachable(std::span<const HostValue> args) {
    std::vector<std::shared_ptr<HostTensor>> out;
    const auto add = [&](const std::shared_ptr<HostTensor>& t) {
        const bool named = std::any_of(args.begin(), args.end(), [&](const HostValue& v) { return v.t == t; });
        if (t && !named && std::find(out.begin(), out.end(), t) == out.end()) out.push_back(t);
    };
    for (const HostValue& v : args)
        if (v.kind == HostValue::tensor)
            for (const std::shared_ptr<HostTensor>& t : v.t->leads_to) add(t);
    for (size_t i = 0; i < out.size(); ++i)  // addresses behind addresses
        for (const std::shared_ptr<HostTensor>& t : std::vector(out[i]->leads_to)) add(t);
    for (const std::weak_ptr<HostTensor>& t : addressed_) add(t.lock());
    return out;
}

std::optional<HostValue> HostRunner::host_load_npy(const HostArgs& args) {
    std::string path;
    if (!take(args, 0, path)) return std::nullopt;
    return load_array(args, path, {});
}

std::optional<HostValue> HostRunner::host_load_safetensors(const HostArgs& args) {
    std::string path, name;
    if (!take(args, 0, path) || !take(args, 1, name)) return std::nullopt;
    return load_array(args, path, name);
}

}  // namespace tegula
