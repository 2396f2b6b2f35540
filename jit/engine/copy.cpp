// Copies between host tensors with conversion. Block formats go through the language's own `cast`, so that a host quantises exactly as a
// kernel does; everything else is one rounding per element.
#include <algorithm>

#include "jit/engine/host.h"
#include "lower/lower.h"
#include "parser/parse.h"

namespace tegula {

namespace {

constexpr int64_t kChunkElements = int64_t{1} << 20;

/// The same storage seen row-major: a column-major tensor is the row-major one of reversed extents.
bool as_rows(const TypeTable& types, TensorView& view, bool reverse) {
    if (!reverse) return true;
    std::reverse(view.extents.dims.begin(), view.extents.dims.begin() + view.extents.rank);
    if (view.has_strides) {
        std::reverse(view.strides.begin(), view.strides.begin() + view.extents.rank);
        return true;
    }
    return types.layout(view.layout).kind() == Layout::Kind::col || types.layout(view.layout).kind() == Layout::Kind::row;
}

struct BlockParts {
    TensorView elements, scales, tensor_scale;
};

BlockParts parts_of(const TypeTable& types, const TensorView& view) {
    std::vector<Argument> args;
    append_arguments(types, view, args);
    BlockParts parts;
    TensorView* slots[] = {&parts.elements, &parts.scales, &parts.tensor_scale};
    for (size_t i = 0; i < args.size(); ++i) {
        slots[i]->elem = args[i].t.elem;
        slots[i]->extents = args[i].t.extents;
        slots[i]->layout = args[i].t.layout;
        slots[i]->data = static_cast<uint8_t*>(args[i].t.data);
        slots[i]->bytes = args[i].t.bytes;
        slots[i]->initialised = args[i].t.initialised;
    }
    return parts;
}

/// Rows [first, first + count) of a [rows, width] tile.
TileData rows_of(const TypeTable& types, const TileData& tile, int64_t first, int64_t count) {
    const unsigned bytes = types.format(tile.elem).container_bytes();
    const int64_t width = tile.shape[1];
    TileData out{tile.elem, Shape{count, width}, {}};
    const uint8_t* begin = tile.bytes.data() + static_cast<size_t>(first * width) * bytes;
    out.bytes.assign(begin, begin + static_cast<size_t>(count * width) * bytes);
    return out;
}

void flatten_rows(TileData& tile) {
    const int64_t width = tile.shape[tile.shape.rank - 1];
    tile.shape = Shape{width ? tile.shape.elements() / width : 0, width};
}

sema::HostOperand tile_operand(const TileData& tile) {
    sema::HostOperand operand;
    operand.data = &tile;
    return operand;
}

/// Appends the rows of `part` to `whole`.
void append_rows(TileData& whole, const TileData& part) {
    whole.elem = part.elem;
    whole.bytes.insert(whole.bytes.end(), part.bytes.begin(), part.bytes.end());
}

}  // namespace

std::optional<std::vector<TileData>> evaluate_text(Engine& engine, LoadedModule& module, const std::string& text,
                                                   const std::map<std::string, sema::HostOperand, std::less<>>& names, DiagSink& diags) {
    Arena arena;
    const ast::Expr* e = parse_expression(engine.sources(), engine.sources().add("<conversion>", text), arena, diags);
    if (!e || diags.has_errors()) return std::nullopt;
    auto resolver = [&](const ast::Expr& expr) -> std::optional<sema::HostOperand> {
        if (expr.kind != ast::ExprKind::name) return std::nullopt;
        auto it = names.find(ast::as<ast::NameExpr>(&expr).name);
        return it == names.end() ? std::nullopt : std::optional(it->second);
    };
    auto host = sema::elaborate_expression(module, *e, resolver, engine.types(), {}, diags);
    if (!host || !host->fn || diags.has_errors()) return std::nullopt;
    run_passes(*host->fn, {});
    std::vector<TileData> args, results;
    for (const TileData* tile : host->arguments) args.push_back(*tile);
    RunOptions options;
    options.cancel = &engine.cancelled();
    RunResult run = interp::Program::prepare(*host->fn)->evaluate(args, results, options);
    for (Diagnostic& d : run.diagnostics) diags.add(std::move(d));
    if (run.status != RunResult::ok) return std::nullopt;
    return results;
}

bool copy_converted(Engine& engine, LoadedModule& module, const TensorView& to_view, const TensorView& from_view, DiagSink& diags, std::string* why) {
    TypeTable& types = engine.types();
    const Format& to_format = types.format(to_view.elem);
    const Format& from_format = types.format(from_view.elem);
    if (!to_format.is_block() && !from_format.is_block()) return copy_tensor(types, to_view, from_view, why);
    if (!(to_view.extents == from_view.extents)) {
        if (why) *why = "extents differ: " + to_string(to_view.extents) + " and " + to_string(from_view.extents);
        return false;
    }
    TensorView to = to_view, from = from_view;
    const TensorView& block = to_format.is_block() ? to : from;
    const int rank = block.extents.rank;
    const int axis = block_axis(types, block.layout, rank);
    if (axis != rank - 1 && (axis != 0 || rank != 2)) {
        if (why) *why = "block formats are stored row-major, or column-major for rank 2";
        return false;
    }
    const bool reverse = axis != rank - 1;
    const BlockParts to_parts = parts_of(types, to_view), from_parts = parts_of(types, from_view);
    if (to_view.extents.elements() == 0) return true;

    // Decode to f32 row by row, then encode; both sides see blocks along the last axis.
    TileData plain{id_of(Fmt::f32), to.extents, {}};
    auto fail = [&] {
        if (why) *why = "the conversion could not be run";
        return false;
    };
    if (from_format.is_block()) {
        BlockParts p = from_parts;
        as_rows(types, p.elements, reverse);
        as_rows(types, p.scales, reverse);
        if (reverse) p.elements.layout = p.scales.layout = types.intern(Layout::row());
        TileData elements = read_tile(types, p.elements), scales = read_tile(types, p.scales);
        plain.shape = elements.shape;
        flatten_rows(elements);
        flatten_rows(scales);
        TileData global;
        if (from_format.tensor_scale.v) {
            global = read_tile(types, p.tensor_scale);
            global.shape = Shape{};
        }
        const int64_t chunk = std::max<int64_t>(1, kChunkElements / elements.shape[1]);
        for (int64_t row = 0; row < elements.shape[0]; row += chunk) {
            const int64_t count = std::min(chunk, elements.shape[0] - row);
            TileData e = rows_of(types, elements, row, count), s = rows_of(types, scales, row, count);
            sema::HostOperand operand;
            operand.kind = sema::HostOperand::block_tile;
            operand.block = from_view.elem;
            operand.data = &e;
            operand.scales = &s;
            operand.tensor_scale = from_format.tensor_scale.v ? &global : nullptr;
            auto result = evaluate_text(engine, module, "cast<f32>(x)", {{"x", operand}}, diags);
            if (!result || result->size() != 1) return fail();
            append_rows(plain, (*result)[0]);
        }
    } else {
        as_rows(types, from, reverse);
        if (reverse && !from.has_strides)
            from.layout = types.intern(types.layout(from.layout).kind() == Layout::Kind::col ? Layout::row() : Layout::col());
        plain = read_tile(types, from);
    }

    if (!to_format.is_block()) {
        TensorView target = to;
        if (reverse) {
            as_rows(types, target, true);
            if (!target.has_strides)
                target.layout = types.intern(types.layout(to.layout).kind() == Layout::Kind::col ? Layout::row() : Layout::col());
        }
        HostTensor holder;
        holder.elem = plain.elem;
        holder.extents = target.extents;
        holder.layout = types.intern(Layout::row());
        holder.data = std::move(plain.bytes);
        return copy_tensor(types, target, holder.view(), why);
    }
    BlockParts p = to_parts;
    as_rows(types, p.elements, reverse);
    as_rows(types, p.scales, reverse);
    if (reverse) p.elements.layout = p.scales.layout = types.intern(Layout::row());
    flatten_rows(plain);
    // A tensor scale depends on every element, so such formats are converted in one piece.
    const int64_t chunk = to_format.tensor_scale.v ? plain.shape[0] : std::max<int64_t>(1, kChunkElements / plain.shape[1]);
    TileData elements{p.elements.elem, p.elements.extents, {}}, scales{p.scales.elem, p.scales.extents, {}};
    for (int64_t row = 0; row < plain.shape[0]; row += chunk) {
        TileData part = rows_of(types, plain, row, std::min(chunk, plain.shape[0] - row));
        auto result = evaluate_text(engine, module, "cast<" + to_format.name + ">(x)", {{"x", tile_operand(part)}}, diags);
        if (!result || result->size() < 2) return fail();
        append_rows(elements, (*result)[0]);
        append_rows(scales, (*result)[1]);
        if (result->size() == 3) {
            (*result)[2].shape = Shape{1};
            write_tile(types, p.tensor_scale, (*result)[2]);
        }
    }
    write_tile(types, p.elements, elements);
    write_tile(types, p.scales, scales);
    return true;
}

}  // namespace tegula
