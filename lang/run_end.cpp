// The diagnostics of runs that end early (run_end.h).
#include "lang/run_end.h"

namespace tegula {

namespace {

bool is_loop(ir::Op op) { return op == ir::Op::for_loop || op == ir::Op::while_loop; }

/// The loops around an instruction, itself included, innermost first.
std::vector<ir::InstId> loops_around(const ir::Function& fn, ir::InstId at) {
    std::vector<ir::InstId> out;
    for (; at.valid(); at = fn.block(fn.inst(at).parent).owner) {
        if (is_loop(fn.inst(at).op) && fn.inst(at).span.valid()) out.push_back(at);
        if (!fn.inst(at).parent.valid()) break;
    }
    return out;
}

std::string trip_text(const RunEnd& end, ir::InstId loop) {
    const auto left = end.trips_left.find(loop.v);
    if (left == end.trips_left.end()) return "this loop was running";
    return "this loop was running, with " + std::to_string(left->second) + (left->second == 1 ? " trip to come" : " trips to come");
}

/// Points at the innermost loop, with the others as labels; at the instruction where there is none.
void add_place(Diagnostic& d, const ir::Function& fn, std::span<const uint64_t, 3> grid, const RunEnd& end) {
    if (end.at.valid()) {
        const std::vector<ir::InstId> loops = loops_around(fn, end.at);
        d.span = loops.empty() ? fn.inst(end.at).span : fn.inst(loops.front()).span;
        for (const ir::InstId loop : loops) d.labels.push_back({fn.inst(loop).span, trip_text(end, loop)});
    }
    if (!d.span.valid()) d.span = fn.span;
    if (!end.program || !fn.is_kernel) return;
    const auto& p = *end.program;
    const auto triple = [](uint64_t x, uint64_t y, uint64_t z) {
        return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
    };
    d.notes.push_back("in program " + triple(p[0], p[1], p[2]) + " of a grid of " + triple(grid[0], grid[1], grid[2]));
}

uint64_t bytes_of(const ir::Function& fn, ir::ValueId v) {
    const Type& type = fn.type(v);
    if (type.kind == Type::tensor) return 0;
    return static_cast<uint64_t>(type.shape.elements()) * (type.pointer ? 8 : fn.elem(v).container_bytes());
}

/// The largest tile that an instruction with a place in the source makes.
void add_largest_tile(Diagnostic& d, const ir::Function& fn) {
    ir::ValueId largest;
    for (uint32_t i = 0; i < fn.inst_count(); ++i) {
        const ir::Inst& inst = fn.inst(ir::InstId{i});
        for (uint32_t r = 0; inst.span.valid() && inst.parent.valid() && r < inst.results.count; ++r)
            if (const ir::ValueId v = fn.result(inst, r); !largest.valid() || bytes_of(fn, v) > bytes_of(fn, largest)) largest = v;
    }
    d.span = fn.span;
    if (!largest.valid() || fn.type(largest).shape.elements() == 1) return;
    d.span = fn.def(largest)->span;
    d.labels.push_back({d.span, "the largest tile: " + to_string(fn.type(largest).shape) + " of `" + fn.elem(largest).name + "`, " +
                                    std::to_string(bytes_of(fn, largest)) + " bytes"});
}

}  // namespace

void RunEnd::too_much_print() {
    need = "programs that run out of order print 1 GiB";
    have = "the text that is kept until it is their turn";
    help = "print less, or run with one thread and the programs in order";
}

std::optional<Diagnostic> end_of_run(const ir::Function& fn, std::span<const uint64_t, 3> grid, const RunOptions& options, RunResult::Status status,
                                     const RunEnd& end) {
    DiagSink sink(1);
    if (status == RunResult::out_of_steps) {
        Diagnostic& d = sink.report(Diag::step_budget_spent, {}, {std::to_string(options.step_budget)});
        add_place(d, fn, grid, end);
        return d;
    }
    if (status == RunResult::cancelled) {
        Diagnostic& d = sink.report(Diag::run_cancelled, {});
        add_place(d, fn, grid, end);
        return d;
    }
    if (status != RunResult::out_of_memory) return std::nullopt;
    const std::string need = end.need.empty() ? "a program needs " + std::to_string(end.tile_bytes) + " bytes of tiles" : end.need;
    const std::string budget = options.memory_budget ? "the budget of " + std::to_string(options.memory_budget) : "this machine has";
    Diagnostic& d = sink.report(Diag::memory_budget_spent, {}, {need, end.have.empty() ? budget : end.have});
    if (end.need.empty())
        add_largest_tile(d, fn);
    else
        add_place(d, fn, grid, end);
    if (!end.help.empty()) d.help("" + end.help);
    return d;
}

RunResult not_resident(const ir::Function& fn, uint64_t programs, uint64_t most) {
    DiagSink sink(1);
    RunResult result;
    result.status = RunResult::failed;
    result.diagnostics.push_back(sink.report(Diag::not_resident, fn.span, {std::to_string(programs), fn.name, std::to_string(most)}));
    return result;
}

}  // namespace tegula
