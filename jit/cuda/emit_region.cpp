// reduce_region and scan_region: the author's function as inlined statements in loops over scratch. Its joins neither commute nor associate, so the
// fixed tree and the chains are followed as they are.
#include "jit/cuda/emitter.h"
#include "jit/cuda/lines.h"
#include "lang/gpu/scratch.h"

namespace tegula::cuda {

namespace {

/// Does the body use scratch or barriers of its own? Then all threads must run it together.
bool meets_inside(const ir::Function& fn, ir::BlockId block) {
    for (ir::InstId id : fn.block(block).insts) {
        const GpuInst& gpu = fn.gpu_inst(id);
        if (gpu.scratch_offset >= 0 || gpu.sync_before) return true;
        for (ir::BlockId b : fn.blocks(fn.inst(id)))
            if (meets_inside(fn, b)) return true;
    }
    return false;
}

}  // namespace

/// The block's statements with its arguments standing for variables; its yields go to `results`.
void Emitter::region_body(ir::BlockId id, const std::vector<std::string>& arguments, const std::vector<std::string>& results) {
    const ir::Block& body = fn_.block(id);
    TEGULA_CHECK(body.args.size() == arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) names_[body.args[i].v] = arguments[i];
    block(id);
    const auto yields = fn_.operands(fn_.inst(body.insts.back()));
    for (size_t i = 0; i < results.size(); ++i) line(results[i] + " = " + name(yields[i]) + ";");
}

/// A strided loop over `count` (text) elements; in a region that meets, threads beyond the end repeat element 0 and keep nothing.
void Emitter::region_loop(const std::string& count, bool together, const std::function<void(const std::string& e, const std::string& keeps)>& body) {
    const std::string e = fresh("e"), threads = std::to_string(group_threads());
    line("#pragma unroll 1");
    if (!together) {
        open("for (int " + e + " = t; " + e + " < " + count + "; " + e + " += " + threads + ")");
        body(e, "");
        return close();
    }
    const std::string first = fresh("first"), on = fresh("on");
    open("for (int " + first + " = 0; " + first + " < " + count + "; " + first + " += " + threads + ")");
    line("const bool " + on + " = " + first + " + t < " + count + ";");
    line("const int " + e + " = " + on + " ? " + first + " + t : 0;");
    body(e, on);
    close();
}

/// One application: arguments from these texts, results through temporaries to these places.
void Emitter::region_step(ir::BlockId body, std::span<const ir::ValueId> tiles, const std::vector<std::string>& left,
                          const std::vector<std::string>& right, const std::vector<std::string>& to, const std::string& keeps) {
    std::vector<std::string> arguments, values;
    for (const auto* side : {&left, &right})
        for (size_t i = 0; i < tiles.size(); ++i) {
            arguments.push_back(fresh("a"));
            line("const " + type_of(tiles[i]) + " " + arguments.back() + " = " + (*side)[i] + ";");
        }
    for (size_t i = 0; i < tiles.size(); ++i) {
        values.push_back(fresh("y"));
        line(type_of(tiles[i]) + " " + values[i] + ";");
    }
    region_body(body, arguments, values);
    if (!keeps.empty()) open("if (" + keeps + ")");
    for (size_t i = 0; i < tiles.size(); ++i) line(to[i] + " = " + values[i] + ";");
    if (!keeps.empty()) close();
}

void Emitter::cuda_reduce_region(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const size_t n = inst.results.count;
    const auto tiles = fn_.operands(inst).subspan(0, n), inits = fn_.operands(inst).subspan(n);
    const ir::BlockId body = fn_.blocks(inst)[0];
    std::vector<std::string> init, scalar, results;
    for (size_t i = 0; i < n; ++i) {
        declare(fn_.result(inst, static_cast<uint32_t>(i)));
        init.push_back(name(inits[i]));
        scalar.push_back(name(tiles[i]));
        results.push_back(name(fn_.result(inst, static_cast<uint32_t>(i))));
    }
    open("");
    if (is_scalar(tiles[0])) {
        region_step(body, tiles, init, scalar, results, "");
        return close();
    }
    const bool together = meets_inside(fn_, body);
    const Axis lines(fn_.type(tiles[0]).shape, fn_.attrs(inst)[0]);
    const std::vector<std::string> s = stage_operands(id);
    const auto places = [&](const std::string& number) {
        std::vector<std::string> out;
        for (size_t i = 0; i < n; ++i) out.push_back(s[i] + "[" + number + "]");
        return out;
    };
    sync();
    int64_t half = 1;
    while (half * 2 < lines.n) half *= 2;
    if (lines.n > 1) {
        const std::string h = fresh("half"), pairs = fresh("pairs"), inner = std::to_string(lines.inner);
        line("#pragma unroll 1");
        open("for (int " + h + " = " + std::to_string(half) + "; " + h + " > 0; " + h + " >>= 1)");
        line("const int " + pairs + " = " + h + " < " + std::to_string(lines.n) + " - " + h + " ? " + h + " : " + std::to_string(lines.n) + " - " +
             h + ";");
        region_loop(pairs + " * " + std::to_string(lines.lines()), together, [&](const std::string& e, const std::string& keeps) {
            const std::string a = fresh("at"), row = "(" + pairs + " * " + inner + ")";
            line("const int " + a + " = " + e + " / " + row + " * " + std::to_string(lines.n * lines.inner) + " + " + e + " % " + row + ";");
            region_step(body, tiles, places(a), places(a + " + " + h + " * " + inner), places(a), keeps);
        });
        sync();
        close();
    }
    region_loop(std::to_string(lines.lines()), together, [&](const std::string& e, const std::string& keeps) {
        const std::string a = fresh("at");
        line("const int " + a + " = " + line_base(lines, int32(e)).text() + ";");
        region_step(body, tiles, init, places(a), places(a), keeps);
    });
    sync();
    for (uint32_t i = 0; i < n; ++i) {
        const ir::ValueId to = fn_.result(inst, i);
        fill(to, [&](Ex r) { return s[i] + "[" + line_base(lines, number_at(to, r)).text() + "]"; });
    }
    close();
}

void Emitter::cuda_scan_region(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const size_t n = inst.results.count;
    const auto tiles = fn_.operands(inst);
    const ir::BlockId body = fn_.blocks(inst)[0];
    const bool reverse = fn_.attrs(inst)[1] != 0, together = meets_inside(fn_, body);
    const Axis lines(fn_.type(tiles[0]).shape, fn_.attrs(inst)[0]);
    for (uint32_t i = 0; i < n; ++i) declare(fn_.result(inst, i));
    open("");
    const std::vector<std::string> s = stage_operands(id);
    const auto places = [&](const std::string& number) {
        std::vector<std::string> out;
        for (size_t i = 0; i < n; ++i) out.push_back(s[i] + "[" + number + "]");
        return out;
    };
    sync();
    region_loop(std::to_string(lines.lines()), together, [&](const std::string& e, const std::string& keeps) {
        const std::string base = fresh("base"), k = fresh("k"), at = fresh("at"), stride = std::to_string(lines.inner);
        line("const int " + base + " = " + line_base(lines, int32(e)).text() + ";");
        line("#pragma unroll 1");
        open("for (int " + k + " = 1; " + k + " < " + std::to_string(lines.n) + "; ++" + k + ")");
        line("const int " + at + " = " + base + " + " + (reverse ? "(" + std::to_string(lines.n - 1) + " - " + k + ")" : k) + " * " + stride + ";");
        region_step(body, tiles, places(at + (reverse ? " + " : " - ") + stride), places(at), places(at), keeps);
        close();
    });
    sync();
    for (uint32_t i = 0; i < n; ++i) {
        const ir::ValueId to = fn_.result(inst, i);
        fill(to, [&](Ex r) { return s[i] + "[" + number_at(to, r).text() + "]"; });
    }
    close();
}

}  // namespace tegula::cuda
