// Pictures of tiles on a GPU: which thread holds which element in which register, and where an element lies in shared or tensor memory.
#include <algorithm>
#include <map>

#include "jit/picture/builders.h"
#include "jit/picture/tiles.h"
#include "lang/gpu/scratch.h"
#include "lang/instruction.h"
#include "lower/rewrite.h"

namespace tegula::picture {

namespace {

constexpr int64_t kMostSide = 32, kMostCells = 512, kSide = 16;  ///< of a tile, that are shown: all up to so many, else a square
constexpr size_t kMostTiles = 3, kMostProducts = 2;

std::string shape_text(const Shape& shape) { return to_string(shape); }

/// Rows and columns of a tile whose leading dimensions are at 0.
struct Window {
    int row_dim = -1, column_dim = -1;
    int64_t rows = 1, columns = 1;
    explicit Window(const Shape& shape) {
        if (shape.rank >= 1) column_dim = shape.rank - 1, columns = std::min(kMostSide, shape[static_cast<size_t>(column_dim)]);
        if (shape.rank >= 2) row_dim = shape.rank - 2, rows = std::min(kMostSide, shape[static_cast<size_t>(row_dim)]);
        if (rows * columns > kMostCells) rows = std::min(rows, kSide), columns = std::min(columns, kSide);
    }
    TileLayout::Point at(int64_t r, int64_t c) const {
        TileLayout::Point p{};
        if (row_dim >= 0) p[static_cast<size_t>(row_dim)] = r;
        if (column_dim >= 0) p[static_cast<size_t>(column_dim)] = c;
        return p;
    }
    std::string shown(const Shape& shape) const {
        if (shape.elements() == rows * columns) return "";
        std::string out = "rows 0 to " + std::to_string(rows - 1) + ", columns 0 to " + std::to_string(columns - 1) + " of " + shape_text(shape);
        return out + (shape.rank > 2 ? ", the other indices 0," : "") + " are shown";
    }
};

/// `cell` gives the text and the tone of each element.
template <class Cell>
Grid grid_of(const Window& w, Cell&& cell) {
    Grid grid{"row", "column", {}, {}, {}, {}};
    for (int64_t c = 0; c < w.columns; ++c) grid.column_names.push_back(std::to_string(c));
    for (int64_t r = 0; r < w.rows; ++r) {
        std::vector<std::string> cells;
        std::vector<int> tones;
        for (int64_t c = 0; c < w.columns; ++c) {
            auto [text, tone] = cell(w.at(r, c));
            cells.push_back(std::move(text));
            tones.push_back(tone);
        }
        grid.add_row(std::to_string(r), std::move(cells), std::move(tones));
    }
    return grid;
}

std::string index_text(const TileLayout::Point& p, int rank) {
    std::string out;
    for (int d = 0; d < rank; ++d) out += (d ? "," : "") + std::to_string(p[static_cast<size_t>(d)]);
    return out.empty() ? "the one" : out;
}

}  // namespace

int holders(const TileLayout& l) {
    return 1 << (__builtin_popcount(static_cast<unsigned>(l.lane_copies())) + __builtin_popcount(static_cast<unsigned>(l.warp_copies())));
}

std::optional<Holder> holder_of(const TileLayout& l, const TileLayout::Point& p) {
    for (int warp = 0; warp < l.warps(); ++warp)
        for (int lane = 0; lane < 32; ++lane)
            if (const int reg = l.find_register(p, lane, warp); reg >= 0) return Holder{warp * 32 + lane, reg};
    return std::nullopt;
}

Figure element_holders(const std::string& title, const TileLayout& l, Picture& out) {
    const Window w(l.shape);
    Grid grid = grid_of(w, [&](const auto& at) {
        const auto holder = holder_of(l, at);
        return holder ? std::pair(std::to_string(holder->thread) + ":" + std::to_string(holder->reg), tone_of(holder->thread))
                      : std::pair(std::string("!"), int{bad});
    });
    if (const std::string note = w.shown(l.shape); !note.empty()) out.notes.push_back(title + ": " + note);
    return {
        title,
        "thread:register that holds each element" + std::string(holders(l) > 1 ? ", the first of " + std::to_string(holders(l)) + " that do" : ""),
        std::move(grid),
        {{1, "cells of a colour are of one thread, or of threads 8 apart"}}};
}

Figure thread_contents(const std::string& title, const TileLayout& l) {
    Grid grid{"thread", "register", {}, {}, {}, {}};
    const int registers = std::min(l.registers(), 8), threads = std::min(l.warps() * 32, 32);
    for (int r = 0; r < registers; ++r) grid.column_names.push_back(std::to_string(r));
    for (int t = 0; t < threads; ++t) {
        std::vector<std::string> cells;
        std::vector<int> tones;
        for (int r = 0; r < registers; ++r) {
            const TileLayout::Point p = l.point(r, t % 32, t / 32);
            cells.push_back(l.inside(p) ? index_text(p, l.shape.rank) : ".");
            tones.push_back(l.inside(p) ? tone_of(t) : int{gap});
        }
        grid.add_row(std::to_string(t), std::move(cells), std::move(tones));
    }
    const std::string of = registers < l.registers() || threads < l.warps() * 32
                               ? "threads 0 to " + std::to_string(threads - 1) + " of " + std::to_string(l.warps() * 32) + ", registers 0 to " +
                                     std::to_string(registers - 1) + " of " + std::to_string(l.registers())
                               : "the element in each register";
    return {title, of + "; `.` is padding", std::move(grid), {}};
}

namespace {

Figure shared_places(const std::string& title, const SharedLayout& l, Picture& out) {
    const Window w(l.shape);
    Grid grid = grid_of(w, [&](const auto& at) {
        const int64_t address = l.address(at);
        return std::pair(std::to_string(address), tone_of(address % 128 / 16));
    });
    if (const std::string note = w.shown(l.shape); !note.empty()) out.notes.push_back(title + ": " + note);
    return {title,
            "the byte that each element begins at, " + (l.swizzle ? "swizzled by " + std::to_string(l.swizzle) + " bytes" : std::string("in rows")),
            std::move(grid),
            {{1, "cells of a colour lie in the same 16 of 128 bytes, four of the 32 banks"}}};
}

std::string where(const Placement& p) {
    switch (p.kind) {
        case Placement::registers:
            return std::to_string(p.regs.registers()) + " registers of " + std::to_string(p.regs.warps() * 32) + " threads" +
                   (holders(p.regs) > 1 ? ", " + std::to_string(holders(p.regs)) + " threads hold each element" : "") +
                   (p.regs.has_ghosts() ? ", with padding" : "");
        case Placement::shared:
            return std::to_string(p.smem.bytes()) + " bytes of shared memory";
        case Placement::tensor:
            return "tensor memory, columns from " + std::to_string(p.tmem.column);
        case Placement::none:
            break;
    }
    return "nowhere";
}

}  // namespace

std::string KernelView::place(Span span) const {
    if (!span.valid()) return "-";
    return std::string(sources->name(span.file)) + ":" + std::to_string(line(span));
}
int KernelView::line(Span span) const { return span.valid() ? static_cast<int>(sources->line_col(span.file, span.begin).line) : 0; }

bool KernelView::wants(Span span, std::string_view name) const {
    return of.empty() || of == name || (span.valid() && of == std::to_string(line(span)));
}

Picture place_picture(const KernelView& k) {
    const ir::Function& fn = *k.form;
    Picture out{"place", k.name + " on " + k.arch->name + ": who holds which element", {}, {}, {}};
    std::map<uint32_t, bool> shown;  // placements that have a figure
    Table table{{"line", "operation", "tile", "where"}, {}, {}};
    size_t left_out = 0;
    fn.walk([&](ir::InstId id) {
        const ir::Inst& inst = fn.inst(id);
        for (uint32_t r = 0; r < inst.results.count; ++r) {
            const ir::ValueId v = fn.result(inst, r);
            const Placement& p = fn.placement(v);
            if (p.kind == Placement::none || fn.type(v).shape.rank == 0) continue;
            const std::string op = ir::op_row(inst.op).name;
            if (!k.wants(inst.span, inst.op == ir::Op::load ? param_name(fn, fn.operands(inst)[0]) : op)) continue;
            const std::string line = k.place(inst.span);
            std::vector<std::string> row = {line.substr(line.rfind(':') + 1), op, fn.elem(v).name + shape_text(p.shape()), where(p)};
            if (std::ranges::find(table.rows, row) == table.rows.end()) table.rows.push_back(row);
            const auto [it, fresh] = shown.emplace(fn.gpu->of_value[v.v], false);
            if (!fresh || (inst.op == ir::Op::constant && k.of.empty())) {
                if (fresh) shown.erase(it);  // shown at an operation that says more
                continue;
            }
            if (out.figures.size() >= 2 * kMostTiles) {
                ++left_out;
                continue;
            }
            const std::string title = "line " + row[0] + ", `" + op + "`: " + row[2];
            if (p.kind == Placement::registers) {
                out.figures.push_back(element_holders(title, p.regs, out));
                out.figures.push_back(thread_contents(title, p.regs));
            } else if (p.kind == Placement::shared) {
                out.figures.push_back(shared_places(title, p.smem, out));
            }
        }
    });
    out.facts.push_back({"threads", std::to_string(32 * fn.gpu->warps) + " that hold tiles, in " + std::to_string(fn.gpu->warps) + " warps"});
    if (left_out) out.notes.push_back(std::to_string(left_out) + " more placements are in the table alone; --of LINE or --of PARAMETER shows them");
    constexpr size_t kMostRows = 60;
    if (table.rows.size() > kMostRows) {
        out.notes.push_back(std::to_string(table.rows.size() - kMostRows) + " more tiles are left out; --of LINE shows them");
        table.rows.resize(kMostRows);
    }
    if (table.rows.empty())
        out.notes.push_back(k.of.empty() ? "the kernel has no tiles in registers or shared memory" : "no tile is of `" + k.of + "`");
    else
        out.figures.push_back({"all tiles", "in the order of the program", std::move(table), {}});
    return out;
}

// ---- fragments of tensor-core instructions ----

namespace {

unsigned bits_of(Fmt f) { return builtin_formats()[static_cast<size_t>(f)].bits; }
const std::string& name_of(Fmt f) {
    static const std::vector<Format> all = builtin_formats();
    return all[static_cast<size_t>(f)].name;
}

/// The operands of one instruction, in registers as the machine wants them, or in shared memory.
void add_fragments(const MmaRow& row, Picture& out) {
    const int a_bits = static_cast<int>(bits_of(row.a)), b_bits = static_cast<int>(bits_of(row.b));
    const int n = row.from_shared() ? 16 : row.n, m = row.kind == MmaRow::mma ? std::max(row.m, 16) : row.m;
    const auto shape = [](int64_t rows, int64_t columns) { return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]"; };
    out.facts.push_back({std::string(row.name), "a " + name_of(row.a) + shape(row.m, row.k) + ", b " + name_of(row.b) + shape(row.k, row.n) +
                                                    ", sum " + name_of(row.acc) + shape(row.m, row.n) +
                                                    (row.from_shared() ? ", and multiples of its columns" : "")});
    if (m != row.m) out.notes.push_back(std::string(row.name) + ": tiles of 16 rows are shown, which are two instructions");
    if (row.kind == MmaRow::mma) {
        out.figures.push_back(element_holders("A, " + name_of(row.a) + shape(m, row.k), mma_operand_a({m, row.k}, a_bits, 1, 1), out));
        out.figures.push_back(element_holders("B, " + name_of(row.b) + shape(row.k, n), mma_operand_b({row.k, n}, b_bits, 1, 1), out));
        out.figures.push_back(element_holders("C and D, " + name_of(row.acc) + shape(m, n), mma_accumulator({m, n}, 1, 1), out));
        out.figures.push_back(thread_contents("C and D, by thread", mma_accumulator({m, n}, 1, 1)));
        return;
    }
    const int width = 1024 / a_bits;  // 128 bytes, the widest swizzle
    const std::string text = "in shared memory, as its descriptor says";
    if (row.a_in_registers)
        out.figures.push_back(element_holders("A in registers, " + name_of(row.a) + shape(m, row.k), mma_operand_a({m, row.k}, a_bits, 4, 1), out));
    const SharedLayout a = shared_layout({m, width}, 1, a_bits / 8), b = shared_layout({n, 1024 / b_bits}, 1, b_bits / 8);
    out.figures.push_back(shared_places("A " + text + ", " + name_of(row.a) + shape(m, width), a, out));
    out.figures.push_back(shared_places("B " + text + " (K is contiguous), " + name_of(row.b) + shape(n, 1024 / b_bits), b, out));
    if (row.kind == MmaRow::wgmma) {
        out.figures.push_back(element_holders("C and D, " + name_of(row.acc) + shape(m, n), mma_accumulator({m, n}, 4, 1), out));
        return;
    }
    out.facts.push_back({"sum in tensor memory", "element (m, n) is in lane m of column n, a cell of 32 bits"});
    out.figures.push_back(element_holders("C and D as tcgen05.ld brings them, " + shape(m, n), tensor_memory_rows({m, n}, 4), out));
}

void add_own(const Instruction& i, Picture& out) {
    out.facts.push_back({i.name, "an instruction of the program"});
    for (const Instruction::Operand& o : i.operands) {
        if (!o.fragment) continue;
        out.figures.push_back(element_holders(i.name + ": operand `" + o.name + "` " + shape_text(o.fragment->shape), *o.fragment, out));
    }
    if (i.result.fragment)
        out.figures.push_back(element_holders(i.name + ": result " + shape_text(i.result.fragment->shape), *i.result.fragment, out));
}

/// The scales of a product of blocks, where threads hold them.
void add_scales(const ir::Function& fn, const ir::Inst& dot, Picture& out) {
    const Placement& sums = fn.placement(fn.result(dot));
    for (const size_t operand : {size_t{3}, size_t{4}}) {
        if (operand >= fn.operands(dot).size()) return;
        const Shape& shape = fn.type(fn.operands(dot)[operand]).shape;
        const std::string title = std::string("scales of the ") + (operand == 3 ? "rows " : "columns ") + shape_text(shape);
        if (scale_place(fn, dot, operand) == ScalePlace::ones) out.facts.push_back({title, "all of them are one"});
        if (scale_place(fn, dot, operand) == ScalePlace::scratch) out.facts.push_back({title, "in shared memory, row-major"});
        if (scale_place(fn, dot, operand) != ScalePlace::registers || sums.kind != Placement::registers) continue;
        if (const auto l = scale_layout(sums.regs, shape, operand)) out.figures.push_back(element_holders(title, *l, out));
    }
}

}  // namespace

std::optional<Picture> instruction_picture(std::string_view name, const Arch& arch) {
    const auto is_here = [&](const MmaRow& row) { return row.min_arch <= arch.number && arch.number <= row.max_arch; };
    const MmaRow* found = nullptr;
    for (const MmaRow& row : mma_rows())
        if (row.name == name && row.tensor_core() && (!found || is_here(row))) found = &row;
    if (!found) return std::nullopt;
    Picture out{"fragment", std::string(name) + ": who holds which element", {}, {}, {}};
    add_fragments(*found, out);
    if (!is_here(*found))
        out.notes.push_back(std::string(arch.name) + " does not have it: it is an instruction of sm_" + std::to_string(found->min_arch) +
                            (found->max_arch >= 999              ? " and later ones"
                             : found->max_arch > found->min_arch ? " to sm_" + std::to_string(found->max_arch)
                                                                 : ""));
    return out;
}

std::vector<std::string_view> instruction_names() {
    std::vector<std::string_view> out;
    for (const MmaRow& row : mma_rows())
        if (row.tensor_core() && std::ranges::find(out, row.name) == out.end()) out.push_back(row.name);
    return out;
}

Picture fragment_picture(const KernelView& k) {
    const ir::Function& fn = *k.form;
    Picture out{"fragment", k.name + " on " + k.arch->name + ": operands of its instructions", {}, {}, {}};
    std::vector<std::string> done;
    size_t more = 0;
    fn.walk([&](ir::InstId id) {
        const ir::Inst& inst = fn.inst(id);
        const bool own = inst.op == ir::Op::ptx_tile || inst.op == ir::Op::ptx;
        if (!(own || ir::is_product(inst.op)) || !k.wants(inst.span, ir::op_row(inst.op).name)) return;
        const int row = own ? 0 : fn.gpu_inst(id).row;
        const std::string name = own ? instruction_of(fn, inst).name : fn.row_name(row);
        const std::string line = "line " + std::to_string(k.line(inst.span));
        if (!own && !fn.row(row).tensor_core()) {
            out.facts.push_back({line, "`" + name + "`: each thread multiplies elements of its own registers, there are no fragments"});
            return;
        }
        out.facts.push_back({line, "`" + name + "`"});
        if (std::ranges::find(done, name) != done.end()) return;
        if (done.size() >= kMostProducts) {
            ++more;
            return;
        }
        done.push_back(name);
        if (own)
            add_own(instruction_of(fn, inst), out);
        else if (fn.is_own_row(row)) {
            if (const auto i = parse_instruction(fn.own_row(row).text)) add_own(*i, out);
        } else
            add_fragments(fn.row(row), out);
        if (inst.op == ir::Op::dot_scaled) add_scales(fn, inst, out);
    });
    if (more) out.notes.push_back(std::to_string(more) + " more instructions are left out; --of LINE shows them");
    if (out.facts.empty())
        out.notes.push_back(k.of.empty() ? "the kernel has no products and no instructions of its own" : "no product is of `" + k.of + "`");
    return out;
}

}  // namespace tegula::picture
