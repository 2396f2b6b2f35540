// Structured control flow. Conditions and bounds are scalars, equal in all threads. Carried values live in the registers of the loop's results:
// block arguments are other names of them, and the values that end a block are copied over, through temporaries where one copy would
// overwrite what another still needs.
#include <algorithm>

#include "jit/cuda/emitter.h"
#include "lang/gpu/hints.h"
#include "lang/gpu/tensor_memory.h"

namespace tegula::cuda {

using ir::Op;

namespace {

constexpr int kManyWords = 24;    ///< that a loop carries
constexpr int kMostBeside = 64;   ///< registers that it carries beside them
constexpr int kSafeBits = 60;     ///< bounds and step of this size cannot leave 64 bits
constexpr int kManyCarried = 32;  ///< registers

std::string unroll_pragma(const ir::Function& fn, const ir::Inst& loop) { return "#pragma unroll " + std::to_string(unrolling(fn, loop).copies); }

int products_in(const ir::Function& fn, ir::BlockId block) {
    int n = 0;
    for (ir::InstId id : fn.block(block).insts) {
        n += ir::is_product(fn.inst(id).op);
        for (ir::BlockId b : fn.blocks(fn.inst(id))) n += products_in(fn, b);
    }
    return n;
}

}  // namespace

void Emitter::copy(ir::ValueId from, const std::string& to) {
    if (sums_.count(from.v) || word_rings_.count(from.v) || in_tensor_memory(fn_, from)) return;  // stays where it is
    if (is_scalar(from)) {
        if (name(from) != to) line(to + " = " + name(from) + ";");
        return;
    }
    if (is_words(from) || is_pairs(from) || is_quads(from)) {
        if (const std::string source = name(from); source != to)
            each(array_size(from), [&](Ex r) { line(to + "[" + r + "] = " + source + "[" + r + "];"); });
        return;
    }
    const std::string source = at(from, pool_.number(0));
    if (source == to + "[0]") return;
    each_register(from, [&](Ex r) { line(to + "[" + r + "] = " + at(from, r) + ";"); });
}

void Emitter::copy_all(std::span<const ir::ValueId> from, const std::vector<std::string>& to) {
    TEGULA_CHECK(from.size() == to.size());
    std::vector<bool> held(from.size(), false);
    for (size_t i = 0; i < from.size(); ++i)
        for (size_t j = 0; j < i; ++j)
            if (name(from[i]) == to[j] && name(from[j]) != to[j]) held[i] = true;
    std::vector<std::string> names(from.size());
    for (size_t i = 0; i < from.size(); ++i) {
        if (!held[i]) continue;
        names[i] = fresh("held");
        line(array_type(from[i]) + " " + names[i] + (is_scalar(from[i]) ? "" : "[" + std::to_string(array_size(from[i])) + "]") + ";");
        copy(from[i], names[i]);
    }
    for (size_t i = 0; i < from.size(); ++i) {
        if (!held[i]) {
            copy(from[i], to[i]);
        } else if (is_scalar(from[i])) {
            line(to[i] + " = " + names[i] + ";");
        } else {
            each(array_size(from[i]), [&](Ex r) { line(to[i] + "[" + r + "] = " + names[i] + "[" + r + "];"); });
        }
    }
}

/// Declares values and gives their names.
std::vector<std::string> Emitter::declare_all(std::span<const ir::ValueId> values) {
    std::vector<std::string> out;
    for (ir::ValueId v : values) {
        declare(v);
        out.push_back(name(v));
    }
    return out;
}

void Emitter::cuda_for_loop(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    if (split_ && is_split_loop(fn_, inst)) return split_loop(id);
    const auto in = fn_.operands(inst);
    const ir::BlockId body = fn_.blocks(inst)[0];
    const auto& args = fn_.block(body).args;
    std::vector<ir::ValueId> results;
    for (uint32_t r = 0; r < inst.results.count; ++r) results.push_back(fn_.result(inst, r));
    std::vector<ir::ValueId> copied;
    std::vector<std::string> carried, targets;
    for (size_t i = 0; i < results.size(); ++i) {
        const bool kept = kept_sum(inst, i);
        if (!kept || !stored_as_sum(results[i])) declare(results[i]);
        carried.push_back(names_[args[i + 1].v] = name(results[i]));
        if (kept) {
            enter_sum(in[i + 3], args[i + 1], results[i]);
        } else {
            copied.push_back(in[i + 3]);
            targets.push_back(carried[i]);
        }
    }
    copy_all(copied, targets);
    set_targets(body, carried);
    for_loop_text(id);
    for (ir::ValueId v : results) leave_sum(v);
}

/// Does the loop carry many words to its next trip? Two trips at a time take them where they are instead of copying them, where registers allow.
bool Emitter::turns_words(const ir::Inst& loop) {
    int words = 0, others = 0;
    for (uint32_t r = 0; r < loop.results.count; ++r) {
        const auto it = words_.find(fn_.result(loop, r).v);
        if (word_rings_.count(fn_.operands(loop)[r + 3].v)) continue;  // taken anew in each trip
        if (it != words_.end())
            words += it->second.view.words();
        else
            others += registers(fn_.result(loop, r));
    }
    return words >= kManyWords && others <= kMostBeside && unrolling(fn_, loop).copies == 1;
}

/// How the trips of a loop are counted.
Emitter::LoopText Emitter::count_trips(const ir::Inst& inst) {
    const auto in = fn_.operands(inst);
    const std::string i = name(fn_.block(fn_.blocks(inst)[0]).args[0]), lo = name(in[0]), hi = name(in[1]), step = name(in[2]);
    const ir::Inst* by = fn_.def(in[2]);
    const bool positive = by && by->op == Op::constant && fn_.attrs(*by)[0] > 0;
    if (positive && reach(in[1]) <= kSafeBits && magnitude(in[2]) <= kSafeBits)
        return {"long long " + i + " = " + lo, i + " < " + hi, i + " += " + step, ""};
    // The distance left is counted, so that stepping beyond the end cannot overflow.
    const std::string left = fresh("left"), some = (positive ? "" : step + " > 0 && ") + lo + " < " + hi;
    return {
        "unsigned long long " + i + "_ = " + lo + ", " + left + " = " + some + " ? (unsigned long long)" + hi + " - (unsigned long long)" + lo +
            " : 0",
        left + " != 0",
        i + "_ += " + step + ", " + left + " = " + left + " > (unsigned long long)" + step + " ? " + left + " - (unsigned long long)" + step + " : 0",
        "const long long " + i + " = (long long)" + i + "_;"};
}

/// The loop itself, once the registers of what it carries are filled.
void Emitter::for_loop_text(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::BlockId body = fn_.blocks(inst)[0];
    const LoopText text = count_trips(inst);
    if (fn_.gpu_inst(id).wait >= 0) return late_loop(id, text);
    line(unroll_pragma(fn_, inst));
    int carried_registers = 0;
    for (uint32_t r = 0; r < inst.results.count; ++r) carried_registers += registers(fn_.result(inst, r));
    const bool counted = !text.counter.empty() || carried_registers < kManyCarried || products_in(fn_, body) != 1;
    const bool twice = text.counter.empty() && turns_words(inst);
    const auto leave = [&] {
        if (!counted) line("__syncwarp();");
        line("if (!(" + text.test + ")) break;");
    };
    if (counted && !twice) {
        open("for (" + text.start + "; " + text.test + "; " + text.next + ")");
    } else {
        // Compilers would test before the loop, too, and join both ways out of it: a second life of every sum. Not across a convergence. Where
        // several products share the registers, the copies would be in the loop.
        open("for (" + text.start + ";; " + text.next + ")");
        leave();
    }
    if (!text.counter.empty()) line(text.counter);
    const size_t start = body_.size();
    if (twice) open("");
    trip(body);
    if (twice) {
        close();
        const std::string again = body_.substr(start);
        line(text.next + ";");
        leave();
        body_ += again;
    }
    close();
}

/// A trip of a loop. Words of rings are taken when it begins, wherever the load of the next trip's stands.
void Emitter::trip(ir::BlockId body) {
    for (const ir::InstId id : fn_.block(body).insts) take_words(id);
    block(body);
}

void Emitter::cuda_while_loop(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::BlockId head = fn_.blocks(inst)[0], body = fn_.blocks(inst)[1];
    const auto &carried_args = fn_.block(head).args, &passed_args = fn_.block(body).args;
    const auto passed_values = fn_.operands(fn_.inst(fn_.block(head).insts.back())).subspan(1);
    const std::vector<std::string> carried = declare_all(carried_args);
    copy_all(fn_.operands(inst), carried);
    std::vector<std::string> passed;
    for (size_t i = 0; i < passed_args.size(); ++i) {
        // What the condition hands on unchanged needs no second place.
        if (passed_values[i] == carried_args[i])
            names_[passed_args[i].v] = carried[i];
        else
            declare(passed_args[i]);
        passed.push_back(name(passed_args[i]));
        names_[fn_.result(inst, static_cast<uint32_t>(i)).v] = passed.back();
    }
    set_targets(head, passed);
    set_targets(body, carried);
    line(unroll_pragma(fn_, inst));
    open("for (;;)");
    block(head);
    block(body);
    close();
}

void Emitter::cuda_if_else(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    std::vector<ir::ValueId> results;
    for (uint32_t r = 0; r < inst.results.count; ++r) results.push_back(fn_.result(inst, r));
    const std::vector<std::string> names = declare_all(results);
    const auto blocks = fn_.blocks(inst);
    set_targets(blocks[0], names);
    set_targets(blocks[1], names);
    open("if (" + name(fn_.operands(inst)[0]) + ")");
    block(blocks[0]);
    if (fn_.block(blocks[1]).insts.size() > 1 || !results.empty()) {
        close("} else {");
        ++depth_;
        block(blocks[1]);
    }
    close();
}

void Emitter::cuda_yield(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto it = targets_.find(inst.parent.v);
    if (it != targets_.end()) copy_all(fn_.operands(inst), it->second);
}

void Emitter::cuda_condition(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto values = fn_.operands(inst);
    const std::string go_on = fresh("go_on");
    line("const bool " + go_on + " = " + name(values[0]) + ";");  // before a copy overwrites what it is made of
    copy_all(values.subspan(1), targets_.at(inst.parent.v));
    line("if (!" + go_on + ") break;");
}

void Emitter::cuda_ret(ir::InstId) {}

}  // namespace tegula::cuda
