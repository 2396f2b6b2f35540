// Copies between host tensors with conversion. Block formats go through the language's own `cast`, so that a host quantises exactly as a
// kernel does; everything else is one rounding per element.
#include <algorithm>
#include <cstring>

#include "jit/engine/host.h"
#include "lower/lower.h"
#include "parser/parse.h"

namespace tegula {

namespace {

constexpr int64_t kChunkElements = int64_t{1} << 20;

/// `logical` with dimension `axis` last: blocks then lie along rows.
Shape axis_last(const Shape& logical, int axis) {
    Shape out;
    for (int d = 0; d < logical.rank; ++d)
        if (d != axis) out.push(logical[static_cast<size_t>(d)]);
    out.push(logical[static_cast<size_t>(axis)]);
    return out;
}

/// Reorders a tile of shape `logical` to axis_last, or (with `back`) the other way; the tile's shape is what it then is.
void move_axis(const TypeTable& types, TileData& tile, const Shape& logical, int axis, bool back) {
    tile.shape = back ? logical : axis_last(logical, axis);
    if (axis == logical.rank - 1) return;
    const unsigned width = types.format(tile.elem).container_bytes();
    // [outer, n, inner] against [outer, inner, n].
    size_t outer = 1, inner = 1;
    for (int d = 0; d < axis; ++d) outer *= static_cast<size_t>(logical[static_cast<size_t>(d)]);
    for (int d = axis + 1; d < logical.rank; ++d) inner *= static_cast<size_t>(logical[static_cast<size_t>(d)]);
    const size_t n = static_cast<size_t>(logical[static_cast<size_t>(axis)]);
    std::vector<uint8_t> moved(tile.bytes.size());
    for (size_t o = 0; o < outer; ++o)
        for (size_t i = 0; i < n; ++i)
            for (size_t k = 0; k < inner; ++k) {
                const size_t plain = ((o * n + i) * inner + k) * width, last = ((o * inner + k) * n + i) * width;
                std::memcpy(moved.data() + (back ? plain : last), tile.bytes.data() + (back ? last : plain), width);
            }
    tile.bytes = std::move(moved);
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
    const Snippet source(engine.sources(), "<conversion>", text, diags);
    const ast::Expr* e = parse_expression(engine.sources(), source.file(), arena, diags);
    if (!e || diags.has_errors()) return std::nullopt;
    auto resolver = [&](const ast::Expr& expr) -> std::optional<sema::HostOperand> {
        if (expr.kind != ast::ExprKind::name) return std::nullopt;
        auto it = names.find(ast::as<ast::NameExpr>(&expr).name);
        return it == names.end() ? std::nullopt : std::optional(it->second);
    };
    auto host = sema::elaborate_expression(module, *e, resolver, module.types(), {}, diags);
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

namespace {

/// Rows of f32 or wider, [rows, width], of a block tensor; blocks lie along `axis`.
bool decode_blocks(Engine& engine, LoadedModule& module, const TensorView& from, int axis, TileData& plain, DiagSink& diags) {
    TypeTable& types = module.types();
    const bool has_global = types.format(from.elem).tensor_scale.v != 0;
    const BlockParts parts = parts_of(types, from);
    TileData elements = read_tile(types, parts.elements), scales = read_tile(types, parts.scales), global;
    for (TileData* part : {&elements, &scales}) {
        move_axis(types, *part, Shape(part->shape), axis, false);
        flatten_rows(*part);
    }
    if (has_global) {
        global = read_tile(types, parts.tensor_scale);
        global.shape = Shape{};
    }
    plain = TileData{id_of(Fmt::f32), elements.shape, {}};
    const int64_t rows = elements.shape[0], chunk = std::max<int64_t>(1, kChunkElements / elements.shape[1]);
    for (int64_t row = 0; row < rows; row += chunk) {
        const int64_t count = std::min(chunk, rows - row);
        const TileData e = rows_of(types, elements, row, count), s = rows_of(types, scales, row, count);
        sema::HostOperand operand;
        operand.kind = sema::HostOperand::block_tile;
        operand.block = from.elem;
        operand.data = &e;
        operand.scales = &s;
        operand.tensor_scale = has_global ? &global : nullptr;
        auto result = evaluate_text(engine, module, "cast<f32>(x)", {{"x", operand}}, diags);
        if (!result || result->size() != 1) return false;
        append_rows(plain, result->front());
    }
    return true;
}

/// Quantises rows into a block tensor; nothing is written unless all of it could be.
bool encode_blocks(Engine& engine, LoadedModule& module, const TensorView& to, int axis, const TileData& plain, DiagSink& diags) {
    TypeTable& types = module.types();
    const Format& format = types.format(to.elem);
    const BlockParts parts = parts_of(types, to);
    TileData elements{parts.elements.elem, parts.elements.extents, {}}, scales{parts.scales.elem, parts.scales.extents, {}}, global;
    // A tensor scale depends on every element, so such formats are converted in one piece.
    const int64_t rows = plain.shape[0], chunk = format.tensor_scale.v ? rows : std::max<int64_t>(1, kChunkElements / plain.shape[1]);
    for (int64_t row = 0; row < rows; row += chunk) {
        const TileData part = rows_of(types, plain, row, std::min(chunk, rows - row));
        auto result = evaluate_text(engine, module, "cast<" + format.name + ">(x)", {{"x", tile_operand(part)}}, diags);
        if (!result || result->size() < 2) return false;
        append_rows(elements, (*result)[0]);
        append_rows(scales, (*result)[1]);
        if (result->size() == 3) global = std::move((*result)[2]);
    }
    const auto place = [&](const TensorView& view, TileData& tile) {
        move_axis(types, tile, view.extents, axis, true);
        write_tile(types, view, tile);
    };
    place(parts.elements, elements);
    place(parts.scales, scales);
    if (format.tensor_scale.v) {
        global.shape = Shape{1};
        write_tile(types, parts.tensor_scale, global);
    }
    return true;
}

}  // namespace

bool copy_converted(Engine& engine, LoadedModule& module, const TensorView& to, const TensorView& from, DiagSink& diags, std::string* why) {
    TypeTable& types = module.types();
    const bool decodes = types.format(from.elem).is_block(), encodes = types.format(to.elem).is_block();
    if (!decodes && !encodes) return copy_tensor(types, to, from, why);
    if (!(to.extents == from.extents)) {
        if (why) *why = "extents differ: " + to_string(to.extents) + " and " + to_string(from.extents);
        return false;
    }
    if (to.extents.elements() == 0) return true;
    const auto ran = [&](bool ok) {
        if (!ok && why) *why = "the conversion could not be run";
        return ok;
    };
    const int rank = to.extents.rank;
    TileData plain;
    if (decodes) {
        const int axis = block_axis(types, from.layout, rank);
        if (!ran(decode_blocks(engine, module, from, axis, plain, diags))) return false;
        move_axis(types, plain, to.extents, axis, true);
    } else {
        plain = read_tile(types, from);
    }
    if (encodes) {
        const int axis = block_axis(types, to.layout, rank);
        move_axis(types, plain, to.extents, axis, false);
        flatten_rows(plain);
        return ran(encode_blocks(engine, module, to, axis, plain, diags));
    }
    HostTensor holder;
    holder.elem = plain.elem;
    holder.extents = to.extents;
    holder.layout = types.intern(Layout::row());
    // Containers are the packed form of whole-byte types, and f32 is one.
    holder.data = std::move(plain.bytes);
    return copy_tensor(types, to, holder.view(), why);
}

}  // namespace tegula
