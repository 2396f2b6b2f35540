// The text of instructions (instruction.h), one line per fact, and what follows from their facts.
#include "lang/instruction.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "lang/plain_text.h"

namespace tegula {

namespace {

std::string shape_text(const Shape& shape) {
    std::string out;
    for (size_t d = 0; d < shape.rank; ++d) out += (d ? "x" : "") + std::to_string(shape[d]);
    return out;
}

std::optional<Shape> parse_shape(std::string_view text) {
    Shape out;
    while (true) {
        int64_t extent = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
        if (error != std::errc() || extent < 1 || out.rank == kMaxRank) return std::nullopt;
        out.push(extent);
        text.remove_prefix(static_cast<size_t>(end - text.data()));
        if (text.empty()) return out;
        if (text[0] != 'x') return std::nullopt;
        text.remove_prefix(1);
    }
}

std::string operand_text(const Instruction::Operand& o) {
    std::string out = o.name + " " + std::to_string(o.group);
    if (o.fragment) out += " " + shape_text(o.fragment->shape) + " " + o.fragment->text();
    return out + "\n";
}

/// Up to the next `separator`, which is taken off `rest` as well.
std::string_view next_field(std::string_view& rest, char separator) {
    const size_t at = std::min(rest.find(separator), rest.size());
    const std::string_view out = rest.substr(0, at);
    rest.remove_prefix(std::min(at + 1, rest.size()));
    return out;
}

bool parse_operand(std::string_view line, Instruction::Operand& out) {
    out.name = next_field(line, ' ');
    const std::string_view group = next_field(line, ' ');
    const auto [end, error] = std::from_chars(group.data(), group.data() + group.size(), out.group);
    if (error != std::errc() || end != group.data() + group.size() || out.name.empty() || out.group < 0 || out.group > 64) return false;
    if (line.empty()) return out.group > 0 && std::has_single_bit(static_cast<unsigned>(out.group));
    const auto shape = parse_shape(next_field(line, ' '));
    if (!shape || out.group != 0) return false;
    out.fragment = parse_tile_layout(line, *shape);
    return out.fragment.has_value();
}

}  // namespace

bool Instruction::grouped() const {
    return result.group > 1 || std::ranges::any_of(operands, [](const Instruction::Operand& o) { return o.group > 1; });
}

int form_number(std::string_view arch) {
    if (!arch.starts_with("sm_")) return 0;
    arch.remove_prefix(3);
    if (arch.ends_with('a')) arch.remove_suffix(1);
    int number = 0;
    const auto [end, error] = std::from_chars(arch.data(), arch.data() + arch.size(), number);
    return error == std::errc() && end == arch.data() + arch.size() && number >= 10 && number < 1000 ? number : 0;
}

const Instruction::Form* Instruction::form(const Arch& arch) const {
    const Form* best = nullptr;
    for (const Form& f : forms) {
        if (f.arch == arch.name) return &f;
        if (f.arch.ends_with('a') || form_number(f.arch) > arch.number) continue;
        if (!best || form_number(f.arch) > form_number(best->arch)) best = &f;
    }
    return best;
}

std::string Instruction::text() const {
    std::string out = name + "\n" + decimal_text(clocks, 17) + "\n" + operand_text(result);
    for (const Operand& o : operands) out += operand_text(o);
    for (const Form& f : forms) out += "ptx " + f.arch + " " + f.text + "\n";
    return out;
}

std::optional<Instruction> parse_instruction(std::string_view text) {
    Instruction out;
    out.name = next_field(text, '\n');
    const std::string_view clocks = next_field(text, '\n');
    const auto [end, error] = std::from_chars(clocks.data(), clocks.data() + clocks.size(), out.clocks);
    if (error != std::errc() || end != clocks.data() + clocks.size() || !(out.clocks >= 0)) return std::nullopt;
    if (!parse_operand(next_field(text, '\n'), out.result)) return std::nullopt;
    while (!text.empty()) {
        std::string_view line = next_field(text, '\n');
        if (line.starts_with("ptx ")) {
            line.remove_prefix(4);
            const std::string_view arch = next_field(line, ' ');
            if (form_number(arch) == 0) return std::nullopt;
            out.forms.push_back({std::string(arch), std::string(line)});
        } else if (!out.forms.empty() || !parse_operand(line, out.operands.emplace_back())) {
            return std::nullopt;
        }
    }
    if (out.forms.empty() || out.operands.empty()) return std::nullopt;
    for (const Instruction::Operand& o : out.operands)
        if ((o.group == 0) != out.on_tiles()) return std::nullopt;
    return out;
}

Instruction instruction_of(const ir::Function& fn, const ir::Inst& inst) {
    std::optional<Instruction> out = parse_instruction(fn.strings[static_cast<size_t>(fn.attrs(inst)[0])]);
    TEGULA_CHECK(out.has_value(), "the text of an instruction");
    return std::move(*out);
}

std::optional<ir::OwnRow> own_row(const Instruction& i, std::span<const FormatId, 3> formats, const TypeTable& types, std::string& why) {
    const auto refuse = [&](std::string text) {
        why = std::move(text);
        return std::nullopt;
    };
    if (!i.on_tiles() || i.operands.size() != 3) return refuse("products are of two tiles, added to a third one");
    if (!(i.clocks > 0)) return refuse("`@ cost(..)` is missing: clocks of an SM per instruction, by which instructions are chosen");
    const Shape &a = i.operands[0].fragment->shape, &b = i.operands[1].fragment->shape, &sum = i.operands[2].fragment->shape;
    if (a.rank != 2 || b.rank != 2 || sum.rank != 2 || a[1] != b[0] || a[0] != sum[0] || b[1] != sum[1])
        return refuse("its tiles are no factors and their sum");
    if (sum != Shape{16, 8}) return refuse("kernels divide products among warps by tiles of 16 x 8, its result has shape " + to_string(sum));
    for (const FormatId id : formats) {
        const Format& f = types.format(id);
        if (f.bits != f.container_bytes() * 8 || f.bits > 64 || id.v >= builtin_formats().size())
            return refuse("`" + f.name + "` is no element of fragments");
    }
    const auto bits = [&](size_t operand) { return static_cast<int>(types.format(formats[operand]).bits); };
    // Kernels keep factors as whole instructions of the table take them; one that takes less of K reads the first registers.
    const auto lies_in = [](const TileLayout& fragment, const TileLayout& kept) {
        for (int lane = 0; lane < 32; ++lane)
            for (int r = 0; r < fragment.registers(); ++r)
                if (r >= kept.registers() || fragment.point(r, lane, 0) != kept.point(r, lane, 0)) return false;
        return true;
    };
    if (!lies_in(*i.operands[0].fragment, mma_operand_a(a, bits(0), 1, 1)) || !lies_in(*i.operands[1].fragment, mma_operand_b(b, bits(1), 1, 1)) ||
        !lies_in(*i.operands[2].fragment, mma_accumulator(sum, 1, 1)) || !lies_in(*i.result.fragment, mma_accumulator(sum, 1, 1)))
        return refuse("its fragments are not those of mma.sync, in which kernels keep factors and sums");
    const auto format = [&](size_t operand) { return static_cast<Fmt>(formats[operand].v); };
    int first = 999;
    for (const Instruction::Form& f : i.forms) first = std::min(first, form_number(f.arch));
    const bool exact = types.format(formats[2]).is_int() || format(2) == Fmt::f64;
    const auto rate = static_cast<int>(std::max(1.0, static_cast<double>(16 * 8 * a[1]) / i.clocks + 0.5));
    MmaRow row{MmaRow::mma, "", format(0), format(1), format(2), 16, 8, static_cast<int>(a[1]), first, 999, rate, false, exact ? 0 : 25, 0};
    if (!exact) row.result_bits = types.format(formats[2]).man_bits;
    return ir::OwnRow{i.text(), i.name, row};
}

bool has_instructions(const ir::Function& fn) {
    bool found = false;
    fn.walk([&](ir::InstId i) { found = found || fn.inst(i).op == ir::Op::instruction; });
    return found;
}

void forget_instructions(ir::Function& fn) {
    std::vector<ir::ValueId> meaning(fn.value_count());
    std::vector<bool> dead(fn.inst_count());
    for (uint32_t i = 0; i < fn.inst_count(); ++i) {
        const ir::Inst& inst = fn.inst(ir::InstId{i});
        if (inst.op != ir::Op::instruction || !inst.parent.valid()) continue;
        meaning[fn.result(inst).v] = fn.operands(inst)[0];
        dead[i] = true;
    }
    for (uint32_t i = 0; i < fn.inst_count(); ++i)
        for (ir::ValueId& v : fn.operands(fn.inst(ir::InstId{i})))
            while (meaning[v.v].valid()) v = meaning[v.v];
    fn.remove_if(dead);
}

PtxRegisters ptx_registers(const Instruction::Operand& operand, const Format& f) {
    PtxRegisters out;
    const int single = f.is_bool() ? 32 : std::max(static_cast<int>(f.container_bytes()) * 8, 16);
    if (operand.group == 1) {
        out.whole = {0, 1, single};
        return out;
    }
    out.elements = operand.group ? operand.group : operand.fragment->registers();
    const bool words = operand.group == 0 && f.bits <= 16;
    const int per = words ? std::min(32 / f.bits, out.elements) : 1;
    for (int e = 0; e < out.elements; e += per) out.parts.push_back({e, per, words ? 32 : single});
    if (operand.group == 0 && out.parts.size() == 1) out.whole = out.parts[0];
    if (operand.group > 1 && f.bits * operand.group <= 64) out.whole = {0, operand.group, std::max(f.bits * operand.group, 16)};
    return out;
}

TileLayout in_every_warp(const TileLayout& fragment, int warps) {
    TileLayout out = fragment;
    for (int w = 1; w < warps; w *= 2) out.warp.push_back(0);
    return out;
}

}  // namespace tegula
