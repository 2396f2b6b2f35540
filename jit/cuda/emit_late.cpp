// Late products (GpuInst::late) run on while the next trip of their loop decodes its first factor. Factors in registers are then in two sets that
// trips take in turns, and so the body is there twice: what one copy leaves to the next trip is where the other one looks for it, and nothing is
// moved.
#include "jit/cuda/warp_groups.h"
#include "lang/gpu/hints.h"

namespace tegula::cuda {

/// Registers of PTX for a product's first factor, those of the loop's present copy.
std::string Emitter::held_factor(const WarpGroups& w, ir::InstId product) {
    std::string& registers = held_factors_[{product.v, second_copy_}];
    if (!registers.empty()) return registers;
    registers = fresh("factor") + "_";
    prologue_ += "    asm volatile(\".reg .b32 " + registers + "<" + std::to_string(w.tiles.size() * static_cast<size_t>(w.steps()) * 4) + ">;\");\n";
    return registers;
}

/// The places that the second copy of the loop's body finds what it carries in: other ones, of tiles that nobody wants behind the loop.
std::vector<std::string> Emitter::other_places(const ir::Inst& loop, const std::vector<std::string>& places) {
    std::vector<std::string> out = places;
    for (uint32_t r = 0; r < loop.results.count; ++r) {
        const ir::ValueId result = fn_.result(loop, r);
        if (is_scalar(result) || !in_registers(result) || uses(result) || sums_.count(result.v)) continue;
        out[r] = fresh("v");
        line(array_type(result) + " " + out[r] + "[" + std::to_string(array_size(result)) + "];");
    }
    return out;
}

/// A loop with late products, in two copies of its body: what one leaves to the next trip is where the other looks for it.
void Emitter::late_loop(ir::InstId id, const LoopText& text) {
    const ir::Inst& loop = fn_.inst(id);
    const ir::BlockId body = fn_.blocks(loop)[0];
    const auto& args = fn_.block(body).args;
    const std::vector<std::string> places = targets_.at(body.v), others = other_places(loop, places);
    line(text.start + ";");
    line("#pragma unroll " + std::to_string(unrolling(fn_, loop).copies));
    open("for (;;)");
    for (const bool second : {false, true}) {
        second_copy_ = second;
        later_trip_ = second ? "" : name(args[0]) + " != " + name(fn_.operands(loop)[0]);
        line("__syncwarp();");
        line("if (!(" + text.test + ")) break;");
        open("");
        if (!text.counter.empty()) line(text.counter);
        for (size_t i = 0; i < places.size(); ++i) names_[args[i + 1].v] = (second ? others : places)[i];
        set_targets(body, second ? places : others);
        trip(body);
        close();
        line(text.next + ";");
    }
    close();
    second_copy_ = false;
    // Behind it the products have ended, and the stages that the last of them read are given back.
    line("asm volatile(\"wgmma.wait_group.sync.aligned " + std::to_string(fn_.gpu_inst(id).wait) + ";\" : : : \"memory\");");
    open("if (" + name(fn_.operands(loop)[0]) + " < " + name(fn_.operands(loop)[1]) + ")");
    for (const ir::InstId release : fn_.block(body).insts)
        if (fn_.inst(release).op == ir::Op::channel_release && fn_.gpu_inst(release).late) give_back(release);
    close();
}

}  // namespace tegula::cuda
