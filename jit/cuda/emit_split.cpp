// Split sums: the stretches of a kernel program's loop over K are programs of the launch, neighbours in its order. Each puts its sums into global
// memory; the one that comes last adds them all, in ascending order as if the stretches had been run one after the other, and alone goes on.
// Nobody waits for anybody. How many stretches there are may be known at the launch only; where it is one, nothing is put anywhere.
#include <algorithm>

#include "jit/cuda/emitter.h"

namespace tegula::cuda {

using ir::Op;

namespace {

constexpr int64_t kSharedBytes = 16;        ///< for the number of those that came before
constexpr int kAhead = 64, kMostAhead = 8;  ///< registers and stretches that are fetched at the same time, small sums

}  // namespace

/// How many stretches there are, as text.
std::string Emitter::split_parts() {
    if (split_->parts) return std::to_string(split_->parts);
    return parameter(KernelParam::split, 0, 0, "const unsigned long long", "stretches");
}

/// Before anything is emitted: the launch's shape, and memory of the exchange.
void Emitter::prepare_split() {
    split_ = parallel_split(fn_);
    if (!split_) return;
    kernel_.split = std::max<int64_t>(split_->parts, 1);
    if (split_->parts == 0) kernel_.split_count = split_->count;
    kernel_.sum_bytes = split_->bytes;
    split_shared_ = take_shared("exchange", "stretches", kSharedBytes, 16);
    split_part_ = fresh("stretch");
    const std::string place = param_names_.at("first") + " + blockIdx.x", parts = split_parts();
    const std::string program = split_->parts ? "(" + place + ") / " + parts
                                              : quotient_by_reciprocal() + "(" + place + ", " + parts + ", " +
                                                    parameter(KernelParam::split_reciprocal, 0, 0, "const unsigned long long", "by_stretches") + ")";
    split_head_ = "    [[maybe_unused]] const unsigned long long program = " + program + ";\n    const unsigned " + split_part_ + " = " + place +
                  " - program * " + parts + ";\n";
}

/// The stretch of this program; the loop's body once.
void Emitter::split_loop(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::Block& body = fn_.block(fn_.blocks(inst)[0]);
    std::vector<ir::ValueId> results;
    for (uint32_t r = 0; r < inst.results.count; ++r) results.push_back(fn_.result(inst, r));
    const std::vector<std::string> totals = declare_all(results);
    open("");
    line("const long long " + name(body.args[0]) + " = " + split_part_ + ";");
    for (ir::InstId i : body.insts)
        if (fn_.inst(i).op != Op::yield && std::find(split_->tail.begin(), split_->tail.end(), i) == split_->tail.end()) instruction(i);
    if (id == split_->loop) {
        const bool several = split_->parts > 1;
        if (!several) open("if (" + split_parts() + " != 1)");
        split_publish();
        copy_all(fn_.operands(inst).subspan(3), totals);
        for (size_t k = 0; k < totals.size(); ++k) names_[body.args[k + 1].v] = totals[k];
        split_add(body, totals);
        if (!several) {
            close("} else {");
            ++depth_;
            copy_all(fn_.operands(inst).subspan(3), totals);
            split_tail(body, totals);
            close();
        }
    }
    close();
}

/// Where the threads' registers of a stretch's sum k lie, as text.
std::string Emitter::split_sums(size_t k, const std::string& stretch) {
    return "(stretches_of + " + stretch + " * " + std::to_string(split_->bytes) + "ull + " + std::to_string(split_->offsets[k]) + ")";
}

/// Every thread keeps its registers; whoever counts to the end goes on.
void Emitter::split_publish() {
    const std::string sums = parameter(KernelParam::sums, 0, 0, "unsigned char*", "sums");
    const std::string arrivals = parameter(KernelParam::arrivals, 0, 0, "unsigned*", "arrivals");
    const std::string threads = std::to_string(group_threads());
    line("unsigned char* const stretches_of = " + sums + " + (blockIdx.x - " + split_part_ + ") * " + std::to_string(split_->bytes) + "ull;");
    for (size_t k = 0; k < split_->partials.size(); ++k) {
        const ir::ValueId v = split_->partials[k];
        const std::string own = fresh("own"), type = type_of(v);
        line(type + "* const " + own + " = (" + type + "*)" + split_sums(k, split_part_) + ";");
        each_register(v, [&](Ex r) { line(own + "[" + r + " * " + threads + " + t] = " + at(v, r) + ";"); });
    }
    line("__threadfence();");
    sync();
    line("unsigned* const arrived = (unsigned*)(shared + " + std::to_string(split_shared_) + ");");
    line("unsigned* const counter = " + arrivals + " + (blockIdx.x - " + split_part_ + ");");
    line("if (t == 0) *arrived = atomicAdd(counter, 1u);");
    sync();
    open("if (*arrived != (unsigned)" + split_parts() + " - 1)");
    give_tensor_memory();  // what it held was read before the meeting
    line("return;");
    close();
    line("__threadfence();");
    line("if (t == 0) *counter = 0;  // for the next launch");
}

/// The next totals of the totals and a stretch's sums.
void Emitter::split_tail(const ir::Block& body, const std::vector<std::string>& totals) {
    for (const ir::InstId i : split_->tail) instruction(i);
    copy_all(fn_.operands(fn_.inst(body.insts.back())), totals);
}

/// Several stretches of few registers are on their way at the same time.
void Emitter::split_add(const ir::Block& body, const std::vector<std::string>& totals) {
    const std::string threads = std::to_string(group_threads()), s = fresh("s"), j = fresh("j"), parts = split_parts();
    int held = 0;
    for (ir::ValueId v : split_->partials) held += registers(v);
    const int ahead = std::clamp(kAhead / held, 1, kMostAhead);
    const std::string each = "for (unsigned " + j + " = 0; " + j + " < " + std::to_string(ahead) + "; ++" + j + ")",
                      is_one = "if (" + s + " + " + j + " < " + parts + ")";
    std::vector<std::string> own, fetched;
    line("#pragma unroll 1");
    open("for (unsigned " + s + " = 0; " + s + " < " + parts + "; " + s + " += " + std::to_string(ahead) + ")");
    for (ir::ValueId v : split_->partials) {
        fetched.push_back(fresh("partial"));
        line(type_of(v) + " " + fetched.back() + "[" + std::to_string(ahead) + "][" + std::to_string(registers(v)) + "];");
    }
    line("#pragma unroll");
    open(each);
    open(is_one);
    for (size_t k = 0; k < split_->partials.size(); ++k) {
        const ir::ValueId v = split_->partials[k];
        const std::string from = fresh("from"), type = type_of(v), to = fetched[k] + "[" + j + "]";
        line("const " + type + "* const " + from + " = (const " + type + "*)" + split_sums(k, "(" + s + " + " + j + ")") + ";");
        each_register(v, [&](Ex r) { line(to + "[" + r + "] = " + from + "[" + r + " * " + threads + " + t];"); });
        own.push_back(std::exchange(names_[v.v], to));
    }
    close();
    close();
    line("#pragma unroll");
    open(each);
    open(is_one);
    split_tail(body, totals);
    close();
    close();
    close();
    for (size_t k = 0; k < own.size(); ++k) names_[split_->partials[k].v] = own[k];
}

}  // namespace tegula::cuda
