// The frame of lowering: the kernel around its body, parameters, names and registers of values, dispatch by op,
// barriers and scratch memory. What single ops become is in the folders beside this file.
#include <algorithm>
#include <numeric>

#include "lang/gpu/hints.h"
#include "lang/gpu/tensor_memory.h"
#include "lang/gpu/wide_access.h"
#include "lang/gpu/wide_tiles.h"
#include "lang/kernel/verify.h"
#include "lang/meetings.h"
#include "lang/program_order.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/formats/text.h"
#include "lower/kernel/lower.h"
#include "lower/kernel/packed/packed.h"
#include "lower/kernel/pipeline.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Op;
using kernel::KernelOp;

namespace {

constexpr int kMaxDepth = 1000;  ///< nesting of blocks
/// Threads of a block, whatever the kernel: all that compilers know of `t`. A mask of fewer tells them which sums carry
/// nothing, so it stays in the text.
constexpr int kMostThreads = 1024;

/// Ops whose emission reads operands by element_at only, so that a constant tile needs no array for them.
bool reads_elements(Op op) {
    switch (op) {
        case Op::select:
        case Op::cast:
        case Op::bitcast:
        case Op::ptx:
        case Op::ptx_tile:
        case Op::store:
        case Op::load:
        case Op::atomic:
        case Op::ptr_add:
        case Op::ptr_at:
        case Op::ptr_address:
        case Op::ptr_load:
        case Op::ptr_store:
        case Op::ptr_atomic:
        case Op::print:
        case Op::assert:
        case Op::assume:
        case Op::yield:
        case Op::condition:
        case Op::for_loop:
        case Op::while_loop:
        case Op::if_else:
            return true;
        default:
            return ir::has_trait(op, ir::ELEMWISE);
    }
}

/// What an integer is computed from: kCounts, the index or a carried value of a loop or the positions in a tile;
/// kMasks, bits that were cleared; kDivides, a quotient or shift.
enum Origin : unsigned { kCounts = 1, kMasks = 2, kDivides = 4 };

unsigned origin(const ir::Function& fn, ir::ValueId v, int& budget) {
    if (--budget < 0) return kCounts | kMasks | kDivides;
    const ir::Inst* def = fn.def(v);
    if (!def) return std::ranges::find(fn.params, v, &ir::Param::value) == fn.params.end() ? unsigned{kCounts} : 0;
    if (def->op == Op::iota || def->blocks.count) return kCounts;
    const bool elementwise = ir::has_trait(def->op, ir::ELEMWISE);
    if (!ir::has_trait(def->op, ir::PURE)) return 0;
    unsigned out = 0;
    for (ir::ValueId operand : fn.operands(*def))
        if (fn.elem(operand).is_int()) out |= origin(fn, operand, budget);
    switch (def->op) {
        case Op::div:
        case Op::div_trunc:
        case Op::div_ceil:
        case Op::shr:
            out |= kDivides;
            break;
        case Op::mul:
        case Op::shl:
            if (out & kDivides) out |= kMasks;
            break;
        case Op::bit_and:
        case Op::rem:
        case Op::rem_trunc:
        case Op::cast:
            out |= kMasks;
            break;
        default:
            break;
    }
    const Format& f = fn.elem(v);
    if (elementwise && f.is_int() && !f.is_signed && f.bits != 32 && f.bits != 64) out |= kMasks;  // wraps
    return out;
}

/// May `v` be a count of which bits were cleared? What takes too long to find out may. See Formats::opaque.
bool counts_masked(const ir::Function& fn, ir::ValueId v) {
    constexpr int kMostValues = 256;
    int budget = kMostValues;
    constexpr unsigned both = kCounts | kMasks;
    return fn.elem(v).is_int() && (origin(fn, v, budget) & both) == both;
}

}  // namespace

Lowering::Lowering(const ir::Function& function, const SourceMap* source_map)
    : fn(function),
      sources(source_map),
      pool(*kernel.pool),
      thread(pool.counter("t", kMostThreads)),
      formats(fn.gpu ? fn.gpu->arch->number : 0),
      out(kernel.form, pool),
      plan(fn.value_count()),
      values(fn),
      late(fn) {
    TEGULA_CHECK(fn.gpu.has_value() && fn.is_kernel, "only kernels that passed the GPU passes are lowered");
    for (const char* word : {"t", "r", "shared", "program", "first", "workspace", "report"}) out.reserve(word);
    out.before_each([this] { end_fused(*this); });
}

namespace {

void find_arrays(Lowering& ctx) {
    ctx.fn.walk([&](ir::InstId id) {
        if (reads_elements(ctx.fn.inst(id).op)) return;
        for (const ir::ValueId v : ctx.fn.operands(ctx.fn.inst(id))) ctx.values.array_constant[v.v] = true;
    });
}

/// Tiles beyond what compilers unroll lie in local memory, and a kernel with one of them is slow whatever its other
/// tiles do: it keeps its loops, so that compiling it takes no longer than its text is.
void find_unroll_limit(Lowering& ctx) {
    constexpr int64_t kUnrolled = 256, kRolled = 4;
    const std::vector<WideTile> tiles = widest_tiles(ctx.fn);
    ctx.values.unroll_limit =
        std::any_of(tiles.begin(), tiles.end(), [](const WideTile& t) { return t.local; }) ? kRolled : kUnrolled;
}

}  // namespace

void converge(Lowering& ctx) {
    if (ctx.control.diverges) ctx.out.call(KernelOp::meet_warp);
}

int64_t take_shared(Lowering& ctx, explain::Buffer::Use use, std::string of, int64_t bytes, int64_t align, int stages) {
    const int64_t at = (ctx.kernel.shared_bytes + align - 1) / align * align;
    ctx.kernel.shared_bytes = at + bytes * stages;
    ctx.kernel.areas.push_back({.use = use,
                                .where = explain::Buffer::shared_memory,
                                .of = std::move(of),
                                .param = -1,
                                .offset = at,
                                .bytes = bytes,
                                .stages = stages,
                                .live = {},
                                .first = {},
                                .last = {}});
    return at;
}

namespace {

// The two bounds exclude each other; NVRTC before 12.4 knows the first one only.
constexpr const char* kRegisterBound = R"(#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1204
#define TEGULA_BOUNDS(threads, registers) __launch_bounds__(threads, 1)
#else
#define TEGULA_BOUNDS(threads, registers) __maxnreg__(registers)
#endif
)";

std::string kernel_head(const Lowering& ctx) {
    const std::string threads = std::to_string(ctx.kernel.threads);
    const int most = register_bound(ctx.fn).most;
    std::string out = most ? kRegisterBound : "";
    out += "extern \"C\" __global__ void ";
    out += most ? "TEGULA_BOUNDS(" + threads + ", " + std::to_string(most) + ")"
                : "__launch_bounds__(" + threads + ", " + std::to_string(ctx.kernel.resident_programs) + ")";
    out += " " + ctx.kernel.entry + "(";
    for (size_t i = 0; i < ctx.parameters.texts.size(); ++i) out += (i ? ", " : "") + ctx.parameters.texts[i];
    return out + ")";
}

}  // namespace

// ---- parameters ----

std::string parameter(Lowering& ctx, KernelParam::Kind kind, int param, int dim, const std::string& type,
                      const std::string& stem) {
    const std::string key = kind == KernelParam::first
                                ? "first"
                                : std::to_string(kind) + " " + std::to_string(param) + " " + std::to_string(dim);
    auto [it, added] = ctx.parameters.names.emplace(key, "");
    if (!added) return it->second;
    it->second = ctx.out.fresh(stem);
    ctx.kernel.params.push_back({kind, param, dim});
    ctx.parameters.texts.push_back(type + (type.back() == '*' ? "" : " ") + it->second);
    return it->second;
}

int param_number(const Lowering& ctx, ir::ValueId v) {
    for (size_t i = 0; i < ctx.fn.params.size(); ++i)
        if (ctx.fn.params[i].value == v) return static_cast<int>(i);
    return -1;
}

std::string scalar_param(Lowering& ctx, int param) {
    const ir::Param& p = ctx.fn.params[static_cast<size_t>(param)];
    const Format& f = ctx.fn.elem(p.value);
    if (p.kind == ir::Param::pointer) {
        const std::string base = parameter(ctx, KernelParam::pointer, param, 0, "unsigned char*", p.name + "_");
        const std::string v = ctx.out.fresh(p.name + "_p");
        ctx.prologue += "    const unsigned long long " + v + " = (unsigned long long)" + base +
                        (is_bit_addressed(f) ? " << 3" : "") + ";\n";
        return v;
    }
    const std::string type = ctx.formats.type(f);
    const bool native = text::is_native_float(f);
    if (!native && f.container_bytes() == 8)
        return parameter(ctx, KernelParam::scalar, param, 0, "const " + type, p.name + "_");
    const std::string code =
        parameter(ctx, KernelParam::scalar, param, 0, "const unsigned long long", p.name + "_code");
    const std::string v = ctx.out.fresh(p.name + "_");
    const std::string value = native        ? ctx.formats.from_bits(f, code)
                              : f.is_bool() ? code + " != 0"
                                            : "(" + type + ")" + code;
    ctx.prologue += "    const " + type + " " + v + " = " + value + ";\n";
    return v;
}

std::string support(Lowering& ctx, const std::string& key, const std::string& stem, const std::string& text) {
    auto [it, added] = ctx.support.names.emplace(key, "");
    if (!added) return it->second;
    it->second = ctx.out.fresh(stem);
    ctx.support.text += replaced(text, "$", it->second);
    return it->second;
}

// ---- values ----

const TileLayout& layout(const Lowering& ctx, ir::ValueId v) {
    TEGULA_CHECK(in_registers(ctx, v), "the tile is not in registers");
    return ctx.fn.placement(v).regs;
}

bool in_registers(const Lowering& ctx, ir::ValueId v) { return ctx.fn.placement(v).kind == Placement::registers; }

bool is_scalar(const Lowering& ctx, ir::ValueId v) {
    return ctx.fn.type(v).kind == Type::tile && ctx.fn.type(v).shape.rank == 0;
}

std::vector<int> all_registers(const Lowering& ctx, ir::ValueId v) {
    std::vector<int> out(static_cast<size_t>(registers(ctx, v)));
    std::iota(out.begin(), out.end(), 0);
    return out;
}

int registers(const Lowering& ctx, ir::ValueId v) {
    return is_scalar(ctx, v) ? 1 : in_tensor_memory(ctx.fn, v) ? 0 : layout(ctx, v).registers();
}

int group_threads(const Lowering& ctx) { return 32 * ctx.fn.gpu->warps; }

std::string type_of(Lowering& ctx, ir::ValueId v) {
    return ctx.fn.type(v).pointer ? "unsigned long long" : ctx.formats.type(ctx.fn.elem(v));
}

std::string name(Lowering& ctx, ir::ValueId v) {
    if (fused(ctx, v)) end_fused(ctx);
    std::string& out = ctx.values.names[v.v];
    if (!out.empty()) return out;
    const ir::Inst* def = ctx.fn.def(v);
    if (def && def->op == Op::constant && is_scalar(ctx, v)) {
        const auto code = static_cast<uint64_t>(ctx.fn.attrs(*def)[0]);
        return out = ctx.fn.type(v).pointer ? std::to_string(code) + "ull" : ctx.formats.literal(ctx.fn.elem(v), code);
    }
    if (const int p = def ? -1 : param_number(ctx, v); p >= 0) {
        const ir::Param& param = ctx.fn.params[static_cast<size_t>(p)];
        if (param.kind != ir::Param::tensor) return out = scalar_param(ctx, p);
        const bool constant = ctx.fn.type(v).mode == Mode::in;
        const std::string element = is_bit_addressed(ctx.fn.elem(v)) ? "unsigned char" : type_of(ctx, v);
        return out = parameter(ctx, KernelParam::pointer, p, 0, (constant ? "const " : "") + element + "*",
                               param.name + "_");
    }
    return out = ctx.out.fresh("v");
}

namespace {

/// The type that the pool computes with; `other` for what it does not.
kernel::Type computed_type(const Lowering& ctx, ir::ValueId v) {
    using kernel::Type;
    const Format& f = ctx.fn.elem(v);
    if (ctx.fn.type(v).pointer) return Type::u64;
    if (f.is_bool()) return Type::pred;
    if (!f.is_int() || (f.bits != 32 && f.bits != 64)) return Type::other;
    if (f.bits == 32) return f.is_signed ? Type::i32 : Type::u32;
    return f.is_signed ? Type::i64 : Type::u64;
}

}  // namespace

Ex element_at(Lowering& ctx, ir::ValueId v, Ex r) {
    const kernel::Type type = computed_type(ctx, v);
    const auto spelt = [&](const std::string& text) { return ctx.pool.text(type, text, false); };
    const ir::Inst* def = ctx.fn.def(v);
    const bool constant = def && def->op == Op::constant;
    if (constant && type != kernel::Type::other) return ctx.pool.constant(type, ctx.fn.attrs(*def)[0]);
    if (is_scalar(ctx, v)) {
        const std::string& text = name(ctx, v);
        return ctx.pool.text(type, text, std::ranges::all_of(text, text::is_identifier));
    }
    if (constant) return spelt(ctx.formats.literal(ctx.fn.elem(v), static_cast<uint64_t>(ctx.fn.attrs(*def)[0])));
    if (const auto scalar = splat(ctx, v)) return spelt(name(ctx, *scalar));
    if (is_words(ctx, v)) return spelt(field(ctx, v, r));
    if (is_pairs(ctx, v) || is_quads(ctx, v))
        return spelt(part_of_word(ctx, name(ctx, v), is_pairs(ctx, v) ? 2 : 4, r, ctx.fn.elem(v)));
    if (const auto variable = fused_at(ctx, v, r)) return spelt(*variable);
    return ctx.pool.index(type, named(ctx, name(ctx, v)), r);
}

std::string text_at(Lowering& ctx, ir::ValueId v, Ex r) {
    const Ex element = element_at(ctx, v, r);
    return element.constant() ? element.atom() : element.text();
}

std::string zero(Lowering& ctx, ir::ValueId v) {
    return ctx.fn.type(v).pointer ? "0ull" : ctx.formats.literal(ctx.fn.elem(v), 0);
}

void declare(Lowering& ctx, ir::ValueId v, Declared as) {
    if (ctx.values.aliased[v.v] || in_tensor_memory(ctx.fn, v)) return;
    const int size = is_scalar(ctx, v) ? 0 : array_size(ctx, v);
    ctx.out.declare((as == Declared::aligned && size ? "alignas(16) " : "") + array_type(ctx, v), name(ctx, v), size,
                    {}, as == Declared::reduced && !size);
}

std::string array_type(Lowering& ctx, ir::ValueId v) {
    return is_words(ctx, v) || is_pairs(ctx, v) || is_quads(ctx, v) ? "unsigned" : type_of(ctx, v);
}

int array_size(const Lowering& ctx, ir::ValueId v) {
    return is_words(ctx, v) ? ctx.packed.words.at(v.v).view.words()
                            : registers(ctx, v) / (is_pairs(ctx, v)   ? 2
                                                   : is_quads(ctx, v) ? 4
                                                                      : 1);
}

bool take_over(Lowering& ctx, ir::ValueId result, ir::ValueId operand) {
    const ir::Value& from = ctx.fn.value(operand);
    const ir::Inst* maker = ctx.fn.def(result);
    const ir::BlockId at = from.def.valid() ? ctx.fn.inst(from.def).parent : from.block;
    if (uses(ctx, operand) != 1 || !maker || !(maker->parent == at) || param_number(ctx, operand) >= 0) return false;
    if (!in_registers(ctx, operand) || !in_registers(ctx, result) || !(layout(ctx, operand) == layout(ctx, result)) ||
        type_of(ctx, operand) != type_of(ctx, result))
        return false;
    ctx.values.names[result.v] = name(ctx, operand);
    ctx.values.aliased[result.v] = true;
    return true;
}

void each(Lowering& ctx, int count, const std::function<void(Ex r)>& body) {
    if (count == 1) {
        ctx.out.open_block();
        body(ctx.pool.number(0));
        return ctx.out.close();
    }
    const std::string name = "r" + (ctx.values.loops ? "_" + std::to_string(ctx.values.loops) : std::string());
    const Ex r = ctx.out.open_count(name, count, unrolled(ctx, count));
    ++ctx.values.loops;
    body(r);
    --ctx.values.loops;
    ctx.out.close();
}

void each_register(Lowering& ctx, ir::ValueId v, const std::function<void(Ex r)>& body) {
    if (is_scalar(ctx, v)) return body({});
    each(ctx, registers(ctx, v), body);
}

void assign(Lowering& ctx, ir::ValueId result, const std::function<std::string(Ex r)>& value) {
    if (is_scalar(ctx, result)) {
        const Ex scalar = raw(ctx, value({}));
        return ctx.out.let(type_of(ctx, result), name(ctx, result), scalar);
    }
    if (registers(ctx, result) > 1 && ctx.values.loops == 0) return fuse(ctx, result, value);
    declare(ctx, result);
    const auto one = [&](Ex r) { ctx.out.assign(element(ctx, name(ctx, result), r), raw(ctx, value(r))); };
    if (registers(ctx, result) == 1) return one(ctx.pool.number(0));
    each_register(ctx, result, one);
}

// ---- statements ----

Ex constant(Lowering& ctx, const std::string& type, std::string_view stem, Ex value) {
    const std::string name = ctx.out.fresh(stem);
    ctx.out.let(type, name, value);
    return named(ctx, name);
}

Ex variable(Lowering& ctx, const std::string& type, std::string_view stem, Ex value) {
    const std::string name = ctx.out.fresh(stem);
    ctx.out.var(type, name, value);
    return named(ctx, name);
}

Ex pointer(Lowering& ctx, const std::string& to, std::string_view stem, Ex value) {
    const std::string name = ctx.out.fresh(stem);
    ctx.out.let_pointer(to, name, value);
    return named(ctx, name);
}

Ex array(Lowering& ctx, const std::string& type, std::string_view stem, int64_t size, const std::string& initial) {
    const std::string name = ctx.out.fresh(stem);
    ctx.out.declare(type, name, size, initial);
    return named(ctx, name);
}

void assign_if(Lowering& ctx, Ex condition, Ex place, Ex value) {
    ctx.out.when(condition);
    ctx.out.assign(place, value);
}

Ex open_rolled(Lowering& ctx, const std::string& name, Ex first, Ex end) {
    const Ex counter = ctx.pool.name(kernel::Type::i32, name);
    ctx.out.open_for({"int", name, first, lt(counter, end), {kernel::increment(counter)}, 1});
    return counter;
}

// ---- barriers and scratch ----

void sync(Lowering& ctx) {
    if (!ctx.fn.gpu->specialised) return ctx.out.call(KernelOp::meet_cta);
    ctx.out.call(KernelOp::meet_group, {ctx.pool.number(group_threads(ctx))});
}

std::string scratch(Lowering& ctx, ir::InstId inst, const std::string& type, int64_t bytes) {
    const GpuInst& gpu = ctx.fn.gpu_inst(inst);
    TEGULA_CHECK(gpu.scratch_offset >= 0 && bytes <= gpu.scratch_bytes,
                 std::string("scratch of ") + ir::op_row(ctx.fn.inst(inst).op).name + ": " + std::to_string(bytes) +
                     " bytes wanted, " + std::to_string(gpu.scratch_bytes) + " assigned");
    const std::string pointer = "((" + type + "*)(";
    if (!gpu.global_scratch) return pointer + "shared + " + std::to_string(gpu.scratch_offset) + "))";
    const std::string base = parameter(ctx, KernelParam::workspace, 0, 0, "unsigned char*", "workspace");
    return pointer + base + " + blockIdx.x * " + std::to_string(ctx.kernel.workspace_bytes) + "ull + " +
           std::to_string(gpu.scratch_offset) + "))";
}

// ---- blocks and instructions ----

void block(Lowering& ctx, ir::BlockId id) {
    TEGULA_CHECK(ctx.out.depth() < kMaxDepth, "blocks nested too deeply");
    for (ir::InstId inst : ctx.fn.block(id).insts) instruction(ctx, inst);
}

void instruction(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    ctx.out.mark(ctx.sources, inst.span);
    const GpuInst& gpu = ctx.fn.gpu_inst(id);
    if (gpu.fence_before) ctx.out.call(KernelOp::fence_async);
    if (gpu.sync_before) sync(ctx);
    if (make_pairs(ctx, id)) return;
    switch (inst.op) {
#define ELEMENTWISE(name, ...) case Op::name:
#include "lang/ops.def"
        return elementwise(ctx, id);
#define STRUCTURED(op, ...)  \
    case Op::op:             \
        lower_##op(ctx, id); \
        break;
#include "lang/ops.def"
        case Op::count_:
            return;
    }
    if (inst.op != Op::cast && parts(ctx, id))
        ctx.out.call(KernelOp::meet_warp);  // right behind its loops: further on ptxas leaves it out
}

/// `v` at register r, and the constant that every element of it is, seen through broadcasts: what Formats must know
/// to spell negations safely.
Known known_at(Lowering& ctx, ir::ValueId v, Ex r) {
    const std::string text = text_at(ctx, v, r);
    const ir::Inst* def = ctx.fn.def(v);
    while (def && (def->op == Op::broadcast || def->op == Op::convert || def->op == Op::reshape))
        def = ctx.fn.def(ctx.fn.operands(*def)[0]);
    if (!def || def->op != Op::constant || ctx.fn.type(v).pointer) return text;
    const auto code = static_cast<uint64_t>(ctx.fn.attrs(*def)[0]);
    return {ctx.fn.elem(v).is_int() ? ctx.formats.literal(ctx.fn.elem(v), code) : text, code};
}

void elementwise(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    if (compare_counts(ctx, id)) return;
    const auto in = ctx.fn.operands(inst);
    if (ctx.plan.has(KernelPass::shared_division, ctx.fn.result(inst))) return divide_by_shared(ctx, id);
    const bool drops_bits =
        inst.op == Op::shr || inst.op == Op::div || inst.op == Op::div_trunc || inst.op == Op::div_ceil;
    const bool opaque = drops_bits && counts_masked(ctx.fn, in[0]);
    assign(ctx, ctx.fn.result(inst), [&](Ex r) {
        std::vector<Known> operands;
        for (ir::ValueId v : in) operands.push_back(known_at(ctx, v, r));
        if (opaque) operands[0].text = ctx.formats.opaque(operands[0].text);
        if (ctx.fn.type(in[0]).pointer)
            return "(" + operands[0].text + (inst.op == Op::eq ? " == " : " != ") + operands[1].text + ")";
        return ctx.formats.elementwise(inst.op, ctx.fn.elem(in[0]), operands);
    });
}

namespace {

/// No kernel is handed out that the verifier refuses.
void check_form(const kernel::Kernel& form) {
    const std::vector<kernel::Problem> problems = kernel::verify(form);
    TEGULA_CHECK(problems.empty(), form.name + ": `" + problems[0].statement + "`: " + problems[0].reason);
}

}  // namespace

}  // namespace tegula::lower

namespace tegula {

KernelText lower_to_kernel(const ir::Function& fn, const SourceMap* sources, const KernelOptions& options) {
    using namespace lower;
    Lowering ctx(fn, sources);
    find_arrays(ctx);
    find_unroll_limit(ctx);
    find_parting(ctx);
    ctx.kernel.entry = "tegula_" + ctx.out.fresh(ctx.fn.name);
    ctx.kernel.threads = kernel_threads(ctx.fn);
    ctx.kernel.shared_bytes = ctx.fn.gpu->shared_bytes;
    ctx.kernel.workspace_bytes = ctx.fn.gpu->workspace_bytes;
    ctx.kernel.cluster = ctx.fn.gpu->cluster_size();
    if (clustered(ctx)) ctx.formats.need("cluster");
    ctx.kernel.persistent = ctx.fn.gpu->persistent;
    const ir::ProgramOrder order = ir::program_order(ctx.fn);
    ctx.kernel.together = order.together;
    if (order.meets) ctx.kernel.meeting_words = ir::may_miss_meetings(ctx.fn) ? kWatchedMeeting : kPlainMeeting;
    ctx.kernel.options = {"--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"};
    parameter(ctx, KernelParam::first, 0, 0, "unsigned long long", "first");
    prepare_split(ctx);
    find_late_sums(ctx);
    make_plan(ctx, options);
    take_tensor_memory(ctx);
    fill_pair_table(ctx);
    block(ctx, ctx.fn.body);
    end_tensor_memory(ctx);
    end_meetings(ctx);
    end_fused(ctx);
    finish_plan(ctx, options);

    kernel::Kernel& form = ctx.kernel.form;
    form.name = ctx.kernel.entry;
    form.threads = ctx.kernel.threads;
    form.arch = ctx.kernel.arch = ctx.fn.gpu->arch->number;
    check_form(form);
    for (const std::string& section : form.sections) ctx.formats.need(section);
    ctx.kernel.sections = ctx.formats.sections();
    std::string& out = ctx.kernel.head;
    out = ctx.formats.functions();
    if (!out.empty() && out.back() != '\n') out += '\n';
    out += ctx.support.text + kernel_head(ctx) + " {\n";
    if (ctx.kernel.shared_bytes > 0) out += "    extern __shared__ __align__(1024) unsigned char shared[];\n";
    out += "    [[maybe_unused]] const int t = threadIdx.x;\n";
    out += ctx.split.sum
               ? ctx.split.head
               : "    [[maybe_unused]] const unsigned long long program = " + ctx.parameters.names.at("first") +
                     " + blockIdx.x;\n";
    out += ctx.prologue;
    return std::move(ctx.kernel);
}

}  // namespace tegula
