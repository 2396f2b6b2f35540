// The emitter's frame: the kernel around its body, parameters, names and registers of values, dispatch by op, barriers and scratch memory. What
// single ops become is in the other emit_*.cpp files.
#include <algorithm>
#include <numeric>

#include "jit/cuda/emitter.h"
#include "jit/cuda/prelude_text.h"
#include "lang/gpu/hints.h"
#include "lang/gpu/tensor_memory.h"
#include "lang/gpu/wide_tiles.h"
#include "lang/meetings.h"
#include "lang/program_order.h"

namespace tegula::cuda {

using ir::Op;

namespace {

constexpr int kMaxDepth = 1000;  ///< nesting of blocks
/// Of a block, whatever the kernel: all that compilers know of `t`. A mask of fewer tells them which sums carry nothing, so it stays in the text.
constexpr int kMostThreads = 1024;

/// Ops whose emission reads operands by `at` only, so that a constant tile needs no array for them.
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

/// What an integer is computed from: kCounts, the index or a carried value of a loop or the positions in a tile; kMasks, bits that were cleared;
/// kDivides, a quotient or shift.
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

/// May `v` be a count of which bits were cleared? What takes too long to find out may. See Prelude::opaque.
bool counts_masked(const ir::Function& fn, ir::ValueId v) {
    constexpr int kMostValues = 256;
    int budget = kMostValues;
    constexpr unsigned both = kCounts | kMasks;
    return fn.elem(v).is_int() && (origin(fn, v, budget) & both) == both;
}

}  // namespace

KernelText emit(const ir::Function& fn, const SourceMap* sources) { return Emitter(fn, sources).run(); }

Emitter::Emitter(const ir::Function& fn, const SourceMap* sources)
    : fn_(fn),
      sources_(sources),
      thread_(pool_.counter("t", kMostThreads)),
      prelude_(fn.gpu ? fn.gpu->arch->number : 0),
      overlapped_(fn),
      uses_(fn) {
    TEGULA_CHECK(fn.gpu.has_value() && fn.is_kernel, "only kernels that passed the GPU passes are emitted");
    names_.resize(fn.value_count());
    aliased_.resize(fn.value_count());
    array_constant_.resize(fn.value_count());
    for (const char* word : {"t", "r", "shared", "program", "first", "workspace", "report"}) taken_.insert(word);
}

void Emitter::find_arrays() {
    fn_.walk([&](ir::InstId id) {
        if (reads_elements(fn_.inst(id).op)) return;
        for (const ir::ValueId v : fn_.operands(fn_.inst(id))) array_constant_[v.v] = true;
    });
}

/// Tiles beyond what compilers unroll lie in local memory, and a kernel with one of them is slow whatever its other tiles do: it keeps its loops, so
/// that compiling it takes no longer than its text is.
void Emitter::find_unroll_limit() {
    constexpr int64_t kUnrolled = 256, kRolled = 4;
    const std::vector<WideTile> tiles = widest_tiles(fn_);
    unroll_limit_ = std::any_of(tiles.begin(), tiles.end(), [](const WideTile& t) { return t.local; }) ? kRolled : kUnrolled;
}

void Emitter::converge() {
    if (parts_) line("__syncwarp();");
}

KernelText Emitter::run() {
    find_arrays();
    find_unroll_limit();
    find_words();
    find_pairs();
    find_carried_loads();
    find_parting();
    kernel_.resident_programs = resident_programs_ = find_resident_programs();
    kernel_.entry = "tegula_" + fresh(fn_.name);
    kernel_.threads = kernel_threads(fn_);
    kernel_.shared_bytes = fn_.gpu->shared_bytes;
    place_pair_table();
    kernel_.workspace_bytes = fn_.gpu->workspace_bytes;
    kernel_.cluster = fn_.gpu->cluster_size();
    if (clustered()) prelude_.need("cluster");
    kernel_.persistent = fn_.gpu->persistent;
    const ir::ProgramOrder order = ir::program_order(fn_);
    kernel_.together = order.together;
    if (order.meets) kernel_.meeting_words = ir::may_miss_meetings(fn_) ? kWatchedMeeting : kPlainMeeting;
    kernel_.options = {"--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"};
    parameter(KernelParam::first, 0, 0, "unsigned long long", "first");
    prepare_split();
    find_word_rings();
    take_tensor_memory();
    fill_pair_table();
    block(fn_.body);
    end_tensor_memory();
    end_meetings();
    end_fused();

    std::string& out = kernel_.source;
    out = prelude_.text();
    if (!out.empty() && out.back() != '\n') out += '\n';
    out += layouts_ + kernel_head() + " {\n";
    if (kernel_.shared_bytes > 0) out += "    extern __shared__ __align__(1024) unsigned char shared[];\n";
    out += "    [[maybe_unused]] const int t = threadIdx.x;\n";
    out += split_ ? split_head_ : "    [[maybe_unused]] const unsigned long long program = " + param_names_.at("first") + " + blockIdx.x;\n";
    out += prologue_ + body_ + "}\n";
    return std::move(kernel_);
}

int64_t Emitter::take_shared(const char* use, std::string of, int64_t bytes, int64_t align, int stages) {
    const int64_t at = (kernel_.shared_bytes + align - 1) / align * align;
    kernel_.shared_bytes = at + bytes * stages;
    kernel_.areas.push_back({.use = use,
                             .where = "shared memory",
                             .of = std::move(of),
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

}  // namespace

std::string Emitter::kernel_head() const {
    const std::string threads = std::to_string(kernel_.threads);
    const int most = register_bound(fn_).most;
    std::string out = most ? kRegisterBound : "";
    out += "extern \"C\" __global__ void ";
    out += most ? "TEGULA_BOUNDS(" + threads + ", " + std::to_string(most) + ")"
                : "__launch_bounds__(" + threads + ", " + std::to_string(resident_programs_) + ")";
    out += " " + kernel_.entry + "(";
    for (size_t i = 0; i < param_texts_.size(); ++i) out += (i ? ", " : "") + param_texts_[i];
    return out + ")";
}

// ---- parameters ----

std::string Emitter::parameter(KernelParam::Kind kind, int param, int dim, const std::string& type, const std::string& stem) {
    const std::string key = kind == KernelParam::first ? "first" : std::to_string(kind) + " " + std::to_string(param) + " " + std::to_string(dim);
    auto [it, added] = param_names_.emplace(key, "");
    if (!added) return it->second;
    it->second = fresh(stem);
    kernel_.params.push_back({kind, param, dim});
    param_texts_.push_back(type + (type.back() == '*' ? "" : " ") + it->second);
    return it->second;
}

int Emitter::param_number(ir::ValueId v) const {
    for (size_t i = 0; i < fn_.params.size(); ++i)
        if (fn_.params[i].value == v) return static_cast<int>(i);
    return -1;
}

std::string Emitter::scalar_param(int param) {
    const ir::Param& p = fn_.params[static_cast<size_t>(param)];
    const Format& f = fn_.elem(p.value);
    if (p.kind == ir::Param::pointer) {
        const std::string base = parameter(KernelParam::pointer, param, 0, "unsigned char*", p.name + "_");
        const std::string v = fresh(p.name + "_p");
        prologue_ += "    const unsigned long long " + v + " = (unsigned long long)" + base + (bit_addressed(f) ? " << 3" : "") + ";\n";
        return v;
    }
    const std::string type = prelude_.type(f);
    const bool native = text::is_native_float(f);
    if (!native && f.container_bytes() == 8) return parameter(KernelParam::scalar, param, 0, "const " + type, p.name + "_");
    const std::string code = parameter(KernelParam::scalar, param, 0, "const unsigned long long", p.name + "_code");
    const std::string v = fresh(p.name + "_");
    const std::string value = native ? prelude_.from_bits(f, code) : f.is_bool() ? code + " != 0" : "(" + type + ")" + code;
    prologue_ += "    const " + type + " " + v + " = " + value + ";\n";
    return v;
}

// ---- values ----

const TileLayout& Emitter::layout(ir::ValueId v) const {
    TEGULA_CHECK(in_registers(v), "the tile is not in registers");
    return fn_.placement(v).regs;
}

bool Emitter::in_registers(ir::ValueId v) const { return fn_.placement(v).kind == Placement::registers; }

bool Emitter::is_scalar(ir::ValueId v) const { return fn_.type(v).kind == Type::tile && fn_.type(v).shape.rank == 0; }

std::vector<int> Emitter::all_registers(ir::ValueId v) const {
    std::vector<int> out(static_cast<size_t>(registers(v)));
    std::iota(out.begin(), out.end(), 0);
    return out;
}

int Emitter::registers(ir::ValueId v) const { return is_scalar(v) ? 1 : in_tensor_memory(fn_, v) ? 0 : layout(v).registers(); }

int Emitter::group_threads() const { return 32 * fn_.gpu->warps; }

std::string Emitter::type_of(ir::ValueId v) { return fn_.type(v).pointer ? "unsigned long long" : prelude_.type(fn_.elem(v)); }

std::string Emitter::name(ir::ValueId v) {
    if (fused(v)) end_fused();
    std::string& out = names_[v.v];
    if (!out.empty()) return out;
    const ir::Inst* def = fn_.def(v);
    if (def && def->op == Op::constant && is_scalar(v)) {
        const auto code = static_cast<uint64_t>(fn_.attrs(*def)[0]);
        return out = fn_.type(v).pointer ? std::to_string(code) + "ull" : prelude_.literal(fn_.elem(v), code);
    }
    if (const int p = def ? -1 : param_number(v); p >= 0) {
        const ir::Param& param = fn_.params[static_cast<size_t>(p)];
        if (param.kind != ir::Param::tensor) return out = scalar_param(p);
        const bool constant = fn_.type(v).mode == Mode::in;
        const std::string element = bit_addressed(fn_.elem(v)) ? "unsigned char" : type_of(v);
        return out = parameter(KernelParam::pointer, p, 0, (constant ? "const " : "") + element + "*", param.name + "_");
    }
    return out = fresh("v");
}

std::string Emitter::at(ir::ValueId v, Ex r) {
    if (is_scalar(v)) return name(v);
    const ir::Inst* def = fn_.def(v);
    if (def && def->op == Op::constant && !aliased_[v.v]) {
        const auto code = static_cast<uint64_t>(fn_.attrs(*def)[0]);
        return fn_.type(v).pointer ? std::to_string(code) + "ull" : prelude_.literal(fn_.elem(v), code);
    }
    if (const auto scalar = splat(v)) return name(*scalar);
    if (is_words(v)) return field(v, r);
    if (is_pairs(v) || is_quads(v)) return part_of_word(name(v), is_pairs(v) ? 2 : 4, r, fn_.elem(v));
    if (const auto variable = fused_at(v, r)) return *variable;
    return name(v) + "[" + r.text() + "]";
}

Ex Emitter::element_at(ir::ValueId v, Ex r) {
    using kernel::Type;
    const Format& f = fn_.elem(v);
    const bool wide = f.is_int() && (f.bits == 32 || f.bits == 64);
    const Type type = fn_.type(v).pointer ? Type::u64
                      : f.is_bool()       ? Type::pred
                      : !wide             ? Type::other
                      : f.bits == 32      ? (f.is_signed ? Type::i32 : Type::u32)
                      : f.is_signed       ? Type::i64
                                          : Type::u64;
    const ir::Inst* def = fn_.def(v);
    if (def && def->op == Op::constant && type != Type::other) return pool_.constant(type, fn_.attrs(*def)[0]);
    if (is_scalar(v)) {
        const std::string& text = name(v);
        return pool_.text(type, text, std::ranges::all_of(text, text::is_identifier));
    }
    if ((def && def->op == Op::constant) || splat(v) || is_words(v) || is_pairs(v) || is_quads(v) || fused(v))
        return pool_.text(type, at(v, r), false);
    return pool_.index(type, pool_.name(Type::other, name(v)), r);
}

std::string Emitter::zero(ir::ValueId v) { return fn_.type(v).pointer ? "0ull" : prelude_.literal(fn_.elem(v), 0); }

void Emitter::declare(ir::ValueId v) {
    if (aliased_[v.v] || in_tensor_memory(fn_, v)) return;
    line(declaration(v));
}

std::string Emitter::declaration(ir::ValueId v) {
    return array_type(v) + " " + name(v) + (is_scalar(v) ? "" : "[" + std::to_string(array_size(v)) + "]") + ";";
}

std::string Emitter::array_type(ir::ValueId v) { return is_words(v) || is_pairs(v) || is_quads(v) ? "unsigned" : type_of(v); }

int Emitter::array_size(ir::ValueId v) const {
    return is_words(v) ? words_.at(v.v).view.words() : registers(v) / (is_pairs(v) ? 2 : is_quads(v) ? 4 : 1);
}

bool Emitter::take_over(ir::ValueId result, ir::ValueId operand) {
    const ir::Value& from = fn_.value(operand);
    const ir::Inst* maker = fn_.def(result);
    const ir::BlockId at = from.def.valid() ? fn_.inst(from.def).parent : from.block;
    if (uses(operand) != 1 || !maker || !(maker->parent == at) || param_number(operand) >= 0) return false;
    if (!in_registers(operand) || !in_registers(result) || !(layout(operand) == layout(result)) || type_of(operand) != type_of(result)) return false;
    names_[result.v] = name(operand);
    aliased_[result.v] = true;
    return true;
}

void Emitter::each(int count, const std::function<void(Ex r)>& body) {
    if (count == 1) {
        open("");
        body(pool_.number(0));
        return close();
    }
    const std::string r = "r" + (loops_ ? "_" + std::to_string(loops_) : std::string());
    unroll(count);
    open("for (int " + r + " = 0; " + r + " < " + std::to_string(count) + "; ++" + r + ")");
    ++loops_;
    body(pool_.counter(r, count));
    --loops_;
    close();
}

void Emitter::each_register(ir::ValueId v, const std::function<void(Ex r)>& body) {
    if (is_scalar(v)) return body({});
    each(registers(v), body);
}

void Emitter::assign(ir::ValueId result, const std::function<std::string(Ex r)>& value) {
    if (is_scalar(result)) {
        const std::string text = value({});
        return line("const " + type_of(result) + " " + name(result) + " = " + text + ";");
    }
    if (registers(result) > 1 && loops_ == 0) return fuse(result, value);
    declare(result);
    if (registers(result) == 1) return line(name(result) + "[0] = " + value(pool_.number(0)) + ";");
    each_register(result, [&](Ex r) { line(name(result) + "[" + r.text() + "] = " + value(r) + ";"); });
}

// ---- barriers and scratch ----

void Emitter::sync() {
    if (!fn_.gpu->specialised) return line("__syncthreads();");
    prelude_.need("barrier");
    line("group_barrier(" + std::to_string(group_threads()) + ");");
}

std::string Emitter::scratch(ir::InstId inst, const std::string& type, int64_t bytes) {
    const GpuInst& gpu = fn_.gpu_inst(inst);
    TEGULA_CHECK(gpu.scratch_offset >= 0 && bytes <= gpu.scratch_bytes, std::string("scratch of ") + ir::op_row(fn_.inst(inst).op).name + ": " +
                                                                            std::to_string(bytes) + " bytes wanted, " +
                                                                            std::to_string(gpu.scratch_bytes) + " assigned");
    const std::string pointer = "((" + type + "*)(";
    if (!gpu.global_scratch) return pointer + "shared + " + std::to_string(gpu.scratch_offset) + "))";
    const std::string base = parameter(KernelParam::workspace, 0, 0, "unsigned char*", "workspace");
    return pointer + base + " + blockIdx.x * " + std::to_string(kernel_.workspace_bytes) + "ull + " + std::to_string(gpu.scratch_offset) + "))";
}

// ---- blocks and instructions ----

void Emitter::block(ir::BlockId id) {
    TEGULA_CHECK(depth_ < kMaxDepth, "blocks nested too deeply");
    for (ir::InstId inst : fn_.block(id).insts) instruction(inst);
}

void Emitter::instruction(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    mark(inst.span);
    const GpuInst& gpu = fn_.gpu_inst(id);
    if (gpu.fence_before) {
        prelude_.need("fence_async");
        line("fence_async();");
    }
    if (gpu.sync_before) sync();
    if (make_pairs(id)) return;
    switch (inst.op) {
#define ELEMENTWISE(name, ...) case Op::name:
#include "lang/ops.def"
        return elementwise(id);
#define STRUCTURED(op, ...) \
    case Op::op:            \
        cuda_##op(id);      \
        break;
#include "lang/ops.def"
        case Op::count_:
            return;
    }
    if (inst.op != Op::cast && parts(id)) line("__syncwarp();");  // right behind its loops: further on ptxas leaves it out
}

/// `v` at register r, and the constant that every element of it is, seen through broadcasts: what the prelude must know to spell negations safely.
Known Emitter::known_at(ir::ValueId v, Ex r) {
    const std::string text = at(v, r);
    const ir::Inst* def = fn_.def(v);
    while (def && (def->op == Op::broadcast || def->op == Op::convert || def->op == Op::reshape)) def = fn_.def(fn_.operands(*def)[0]);
    if (!def || def->op != Op::constant || fn_.type(v).pointer) return text;
    const auto code = static_cast<uint64_t>(fn_.attrs(*def)[0]);
    return {fn_.elem(v).is_int() ? prelude_.literal(fn_.elem(v), code) : text, code};
}

void Emitter::elementwise(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    if (compare_counts(id)) return;
    const auto in = fn_.operands(inst);
    const ir::Inst* divisor = inst.op == Op::div && fn_.type(in[0]).elem == Fmt::f32 ? fn_.def(in[1]) : nullptr;
    const bool shared = divisor && divisor->op == Op::broadcast;  // registers of a thread are divided by the same number
    if (shared && !is_scalar(fn_.result(inst))) return divide_by_shared(id);
    const bool drops_bits = inst.op == Op::shr || inst.op == Op::div || inst.op == Op::div_trunc || inst.op == Op::div_ceil;
    const bool opaque = drops_bits && counts_masked(fn_, in[0]);
    assign(fn_.result(inst), [&](Ex r) {
        std::vector<Known> operands;
        for (ir::ValueId v : in) operands.push_back(known_at(v, r));
        if (opaque) operands[0].text = prelude_.opaque(operands[0].text);
        if (fn_.type(in[0]).pointer) return "(" + operands[0].text + (inst.op == Op::eq ? " == " : " != ") + operands[1].text + ")";
        return prelude_.elementwise(inst.op, fn_.elem(in[0]), operands);
    });
}

}  // namespace tegula::cuda
