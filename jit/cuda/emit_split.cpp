// Split sums: S programs of the launch, neighbours in its order, each run one stretch of a kernel program's loop over K. They put their sums into
// the workspace; the one that comes last adds them all, in ascending order as if the stretches had been run one after the other, and alone goes
// on. Nobody waits for anybody.
#include <algorithm>

#include "jit/cuda/emitter.h"

namespace tegula::cuda {

using ir::Op;

namespace {

constexpr int64_t kCounterBytes = 16;

int64_t rounded(int64_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

/// Before anything is emitted: the launch's shape, and memory of the exchange.
void Emitter::prepare_split() {
    split_ = parallel_split(fn_);
    if (!split_) return;
    split_area_ = rounded(kernel_.workspace_bytes);
    kernel_.split = split_->parts;
    kernel_.workspace_bytes = split_area_ + split_->bytes + kCounterBytes;
    split_shared_ = rounded(kernel_.shared_bytes);
    kernel_.shared_bytes = split_shared_ + kCounterBytes;
    split_part_ = fresh("stretch");
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
        if (fn_.inst(i).op != Op::yield && std::find(split_->sums.begin(), split_->sums.end(), i) == split_->sums.end()) instruction(i);
    if (id == split_->loop) {
        split_publish();
        copy_all(fn_.operands(inst).subspan(3), totals);
        for (size_t k = 0; k < totals.size(); ++k) names_[body.args[k + 1].v] = totals[k];
        split_add(body, totals);
    }
    close();
}

/// Every thread keeps its registers; whoever counts to the end goes on.
void Emitter::split_publish() {
    const std::string workspace = parameter(KernelParam::workspace, 0, 0, "unsigned char*", "workspace");
    const std::string pitch = std::to_string(kernel_.workspace_bytes) + "ull", threads = std::to_string(group_threads());
    line("unsigned char* const stretches = " + workspace + " + (blockIdx.x - " + split_part_ + ") * " + pitch + " + " + std::to_string(split_area_) +
         ";");
    for (size_t k = 0; k < split_->partials.size(); ++k) {
        const ir::ValueId v = split_->partials[k];
        const std::string own = fresh("own");
        line(type_of(v) + "* const " + own + " = (" + type_of(v) + "*)(stretches + " + split_part_ + " * " + pitch + " + " +
             std::to_string(split_->offsets[k]) + ");");
        each_register(v, [&](const std::string& r) { line(own + "[" + r + " * " + threads + " + t] = " + at(v, r) + ";"); });
    }
    line("__threadfence();");
    sync();
    line("unsigned* const arrived = (unsigned*)(shared + " + std::to_string(split_shared_) + ");");
    line("unsigned* const counter = (unsigned*)(stretches + " + std::to_string(split_->bytes) + ");");
    line("if (t == 0) *arrived = atomicAdd(counter, 1u);");
    sync();
    open("if (*arrived != " + std::to_string(split_->parts - 1) + "u)");
    give_tensor_memory();  // what it held was read before the meeting
    line("return;");
    close();
    line("__threadfence();");
    line("if (t == 0) *counter = 0;  // for the next launch");
}

void Emitter::split_add(const ir::Block& body, const std::vector<std::string>& totals) {
    const std::string pitch = std::to_string(kernel_.workspace_bytes) + "ull", threads = std::to_string(group_threads()), s = fresh("s");
    line("#pragma unroll 1");
    open("for (int " + s + " = 0; " + s + " < " + std::to_string(split_->parts) + "; ++" + s + ")");
    for (size_t k = 0; k < split_->partials.size(); ++k) {
        const ir::ValueId v = split_->partials[k];
        const std::string partial = fresh("partial"), from = fresh("from");
        line("const " + type_of(v) + "* const " + from + " = (const " + type_of(v) + "*)(stretches + " + s + " * " + pitch + " + " +
             std::to_string(split_->offsets[k]) + ");");
        line(type_of(v) + " " + partial + "[" + std::to_string(registers(v)) + "];");
        each_register(v, [&](const std::string& r) { line(partial + "[" + r + "] = " + from + "[" + r + " * " + threads + " + t];"); });
        names_[v.v] = partial;
        instruction(split_->sums[k]);
    }
    copy_all(fn_.operands(fn_.inst(body.insts.back())), totals);
    close();
}

}  // namespace tegula::cuda
