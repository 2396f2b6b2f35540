// The part of the IR parser that reads a GpuForm (ir_gpu_text.h prints it). Numbers are held within what the form can mean, layouts must be valid
// and have their value's shape; whether the program is right in this form is proved by the GPU passes.
#include <bit>
#include <charconv>

#include "lang/ir_gpu_text.h"
#include "lang/ir_parser.h"

namespace tegula::ir {

namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 40;
constexpr int64_t kMaxMap = 4096;

}  // namespace

bool Parser::gpu_range(const char* what, int64_t least, int64_t most, int64_t& out) {
    const Span at = span();
    const std::string_view spelling = lexer_.token().text;
    if (!integer(out)) return false;
    if (out >= least && out <= most) return true;
    const std::string wanted = std::string(what) + " from " + std::to_string(least) + " to " + std::to_string(most);
    return diags_.report(Diag::ir_bad_literal, at, {printable(spelling), wanted}), false;
}

/// gpu {arch = 90, warps = 4, specialised, cluster = [2, 1, 1], persistent, shared = 1024, workspace = 0, p1 = registers [8, 8] "..",
/// p2 = shared [8, 8] "..", p3 = tensor [128, 8] column 0}
bool Parser::gpu_form() {
    lexer_.advance();
    fn_->gpu.emplace();
    fn_->gpu->placements.emplace_back();
    if (!expect("{")) return false;
    do {
        std::string_view name;
        if (!text_of(Token::word, "a field of the GPU form", name) || !gpu_field(name)) return false;
    } while (take(","));
    return expect("}");
}

bool Parser::gpu_field(std::string_view name) {
    GpuForm& g = *fn_->gpu;
    if (name == "specialised") return g.specialised = true;
    if (name == "persistent") return g.persistent = true;
    if (!expect("=")) return false;
    if (name == "cluster") return gpu_cluster();
    if (name == "shared") return gpu_range("bytes", 0, kMaxBytes, g.shared_bytes);
    if (name == "workspace") return gpu_range("bytes", 0, kMaxBytes, g.workspace_bytes);
    if (name == "p" + std::to_string(g.placements.size())) return gpu_layout();
    int64_t n = 0;
    if (name == "arch") {
        std::string_view text;
        if (!text_of(Token::word, "an architecture", text)) return false;
        const Arch* arch = find_arch(text);
        if (arch) g.arch = arch;
        return arch || fail_unknown("architecture", text);
    }
    if (name != "warps" || g.placements.size() > 1) return fail_unknown("field of the GPU form", name);
    if (!gpu_range("a power of two", 1, 32, n)) return false;
    g.warps = static_cast<int>(n);
    return std::has_single_bit(static_cast<uint64_t>(n)) || fail_expected("a power of two");
}

/// [2, 1, 1]: powers of two.
bool Parser::gpu_cluster() {
    Shape s;
    if (!shape(s)) return false;
    if (s.rank != fn_->gpu->cluster.size()) return fail_expected("the extents of a cluster along three axes");
    for (size_t d = 0; d < s.rank; ++d) {
        if (s[d] < 1 || s[d] > kMaxCluster || !std::has_single_bit(static_cast<uint64_t>(s[d]))) return fail_expected("1, 2, 4 or 8");
        fn_->gpu->cluster[d] = static_cast<int>(s[d]);
    }
    return fn_->gpu->cluster_size() <= kMaxCluster || fail_expected("at most 8 programs in a cluster");
}

bool Parser::gpu_shared(SharedLayout& out) {
    Shape s;
    std::string text;
    if (!shape(s) || !quoted(text)) return false;
    for (int64_t extent : s) {
        if (extent < 1 || extent > kMaxTileElements) return fail_expected("extents of a tile");
    }
    const std::optional<SharedLayout> layout = parse_shared_layout(text, s);
    if (!layout) return fail_unknown("layout", text);
    out = *layout;
    return true;
}

bool Parser::gpu_registers(const Shape& shape, TileLayout& out) {
    std::string text;
    if (!quoted(text)) return false;
    const std::optional<TileLayout> layout = parse_tile_layout(text, shape);
    if (!layout || layout->warps() != fn_->gpu->warps) return fail_unknown("layout", text);
    out = *layout;
    return true;
}

bool Parser::gpu_layout() {
    Placement p;
    if (take("shared")) {
        p.kind = Placement::shared;
        if (!gpu_shared(p.smem)) return false;
    } else if (take("tensor")) {
        int64_t column = 0;
        p.kind = Placement::tensor;
        if (!shape(p.tmem.shape) || !expect("column") || !gpu_range("a column", 0, kTensorColumns - 1, column)) return false;
        p.tmem.column = static_cast<int>(column);
        if (!fits_tensor_memory(p.tmem)) return fail_expected("extents of a tile in tensor memory");
    } else {
        Shape s;
        p.kind = Placement::registers;
        if (!expect("registers") || !shape(s) || !gpu_registers(s, p.regs)) return false;
    }
    fn_->gpu->placements.push_back(std::move(p));
    return true;
}

/// `@ p1` behind a type, if it is there.
bool Parser::gpu_placement(TypeId id, uint32_t& out) {
    if (!is("@") || gpu_inst_ahead()) return true;
    lexer_.advance();
    const std::string name(lexer_.token().text);
    if (!fn_->gpu) return fail_unknown("placement", name);
    if (lexer_.token().kind != Token::word || name[0] != 'p') return fail_unknown("placement", name);
    const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), out);
    if (error != std::errc{} || end != name.data() + name.size() || out == 0 || out >= fn_->gpu->placements.size()) {
        return fail_unknown("placement", name);
    }
    const Placement& p = fn_->gpu->placements[out];
    const Type& t = fn_->types().type(id);
    if (t.kind != Type::tile || t.shape != p.shape()) {
        return diags_.report(Diag::ir_bad_literal, span(), {name, "a placement of " + fn_->types().name(id)}), false;
    }
    lexer_.advance();
    return true;
}

bool Parser::gpu_inst_ahead() const {
    if (!is("@")) return false;
    IrLexer ahead = lexer_;
    ahead.advance();
    return ahead.token().kind == Token::punct && ahead.token().text == "{";
}

/// `@ {row = "wgmma.f16.f32", scratch = 0:512, global, bulk, sync, fence, late, wait = 1}`; of a channel also `ring = [8, 8] "..", stages = 4, offset
/// = 0, map = 0, multicast = 1, own = "..", fill = 0`.
bool Parser::gpu_inst(Op op, GpuInst& out, std::optional<GpuChannel>& channel) {
    if (!fn_->gpu) return fail_expected("a function with a GPU form");
    lexer_.advance();
    lexer_.advance();
    do {
        std::string_view name;
        if (!text_of(Token::word, "a field", name)) return false;
        if (name == "global")
            out.global_scratch = true;
        else if (name == "bulk" && (op == Op::store || op == Op::atomic))
            out.bulk = true;
        else if (name == "sync")
            out.sync_before = true;
        else if (name == "fence")
            out.fence_before = true;
        else if (name == "late" && (op == Op::dot || op == Op::channel_release))
            out.late = true;
        else if (!expect("=") || !gpu_inst_field(op, name, out, channel))
            return false;
    } while (take(","));
    return expect("}");
}

/// `"wgmma.f16.f32"`, or `"mine" 2`.
bool Parser::gpu_row(int& out) {
    std::string name;
    int64_t nth = 1;
    if (!quoted(name) || (lexer_.token().kind == Token::number && !gpu_range("a row of that name", 1, fn_->row_count(), nth))) return false;
    out = find_row(*fn_, name, nth);
    return out >= 0 || fail_unknown("instruction of the architecture that multiplies", name);
}

bool Parser::gpu_inst_field(Op op, std::string_view name, GpuInst& out, std::optional<GpuChannel>& channel) {
    const auto number = [&](const char* what, int64_t least, int64_t most, int& to) {
        int64_t n = 0;
        if (!gpu_range(what, least, most, n)) return false;
        to = static_cast<int>(n);
        return true;
    };
    if (name == "row" && is_product(op)) return gpu_row(out.row);
    if (name == "wait" && (op == Op::dot || op == Op::for_loop)) return number("products under way", 0, kMostLate, out.wait);
    if (name == "scratch") {
        return gpu_range("bytes", 0, kMaxBytes, out.scratch_offset) && expect(":") && gpu_range("bytes", 0, kMaxBytes, out.scratch_bytes);
    }
    if (name == "ring" && op == Op::channel) return gpu_shared(channel.emplace().layout);
    if (channel && name == "stages") return number("stages", 1, 64, channel->stages);
    if (channel && name == "offset") return gpu_range("bytes", 0, kMaxBytes, channel->offset);
    if (channel && name == "map") return number("a tensor map", 0, kMaxMap, channel->tensor_map);
    int64_t axes = 0;
    if (channel && name == "multicast" && !gpu_range("bits of grid axes", 1, 7, axes)) return false;
    if (axes) return channel->multicast = static_cast<unsigned>(axes), true;
    if (channel && name == "own") return gpu_registers(channel->layout.shape, channel->own.emplace());
    if (channel && name == "fill") {
        int64_t code = 0;
        if (!integer(code)) return false;
        channel->fill = static_cast<uint64_t>(code);
        return true;
    }
    return fail_unknown("field", name);
}

void Parser::gpu_place(ValueId value, uint32_t placement) {
    if (!fn_->gpu) return;
    if (fn_->gpu->of_value.size() <= value.v) fn_->gpu->of_value.resize(value.v + 1);
    fn_->gpu->of_value[value.v] = placement;
}

void Parser::gpu_record(InstId inst, const GpuInst& facts, const std::optional<GpuChannel>& channel) {
    if (!fn_->gpu) return;
    if (fn_->gpu->of_inst.size() <= inst.v) fn_->gpu->of_inst.resize(inst.v + 1);
    fn_->gpu->of_inst[inst.v] = facts;
    if (channel && fn_->inst(inst).results.count == 1) fn_->gpu->channels.emplace_back(fn_->result(inst).v, *channel);
}

bool Parser::gpu_finish() {
    if (!fn_->gpu) return true;
    fn_->gpu->of_value.resize(fn_->value_count());
    fn_->gpu->of_inst.resize(fn_->inst_count());
    return true;
}

}  // namespace tegula::ir
