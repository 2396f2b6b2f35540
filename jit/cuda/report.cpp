// Reading the report buffer: records back to texts and diagnostics, in program order.
#include "jit/cuda/report.h"

#include <algorithm>
#include <set>

#include "lang/gpu/wide_access.h"
#include "lang/kernel/kernel_text.h"
#include "lang/meetings.h"
#include "lang/print_text.h"

namespace tegula::cuda {

namespace {

struct Record {
    ir::InstId inst;
    uint64_t program;
    std::span<const uint64_t> words;  ///< behind the two of the head
};

/// The records of a buffer, sorted by program (those of one program stay in order).
std::vector<Record> records_of(const ir::Function& fn, std::span<const uint64_t> words) {
    std::vector<Record> out;
    const uint64_t end = words.size() < kReportHeader ? 0 : std::min<uint64_t>(words[0], words.size());
    for (uint64_t at = kReportHeader; at + 2 <= end;) {
        const uint64_t size = words[at] >> 32, inst = words[at] & 0xffffffffu;
        if (size < 2 || size > end - at || inst >= fn.inst_count()) break;
        out.push_back({ir::InstId{static_cast<uint32_t>(inst)}, words[at + 1], words.subspan(at + 2, size - 2)});
        at += size;
    }
    std::sort(out.begin(), out.end(),
              [](const Record& a, const Record& b) { return a.program != b.program ? a.program < b.program : a.words.data() < b.words.data(); });
    return out;
}

std::string pointer_text(const Format& f, uint64_t code, std::span<const PrintedRange> ranges) {
    if (code == 0) return "ptr(none)";
    const uint64_t address = is_bit_addressed(f) ? code >> 3 : code;
    for (const PrintedRange& r : ranges) {
        if (address < r.address || address - r.address > r.bytes) continue;
        const uint64_t bits = (is_bit_addressed(f) ? code - (r.address << 3) : (code - r.address) * 8);
        return "ptr(argument " + std::to_string(r.param) + ", element " + std::to_string(bits / f.bits) + ")";
    }
    return "ptr(outside)";
}

struct Printer {
    const ir::Function& fn;
    std::span<const PrintedRange> ranges;

    std::string element(ir::ValueId v, uint64_t word, const PrintSpec& spec) const {
        const Format& f = fn.elem(v);
        if (fn.type(v).pointer) return pointer_text(f, word, ranges);
        const uint64_t code = f.bits < 64 ? word & ((uint64_t{1} << f.bits) - 1) : word;
        return number_text(f, extend_code(f, code), spec);
    }

    /// The text of one record; nullopt when its words do not fit the instruction.
    std::optional<std::string> text(const Record& record) const {
        const ir::Inst& inst = fn.inst(record.inst);
        const std::string_view format = fn.strings[static_cast<size_t>(fn.attrs(inst)[0])];
        std::vector<std::span<const uint64_t>> values;
        size_t at = 0;
        for (ir::ValueId v : fn.operands(inst)) {
            const int64_t elements = fn.type(v).shape.elements();
            const size_t shown = static_cast<size_t>(std::min(elements, kPrintElements));
            if (shown > record.words.size() - at) return std::nullopt;
            values.push_back(record.words.subspan(at, shown));
            at += shown;
        }
        return filled_text(format, values.size(), [&](size_t value, const PrintSpec& spec) {
            const ir::ValueId v = fn.operands(inst)[value];
            return tile_text(fn.type(v).shape, [&](int64_t i) { return element(v, values[value][static_cast<size_t>(i)], spec); });
        });
    }
};

Diagnostic failure(const ir::Function& fn, const Record& record, std::span<const uint64_t, 3> grid) {
    const auto program_text = [&](uint64_t p) {
        const uint64_t x = std::max<uint64_t>(grid[0], 1), y = std::max<uint64_t>(grid[1], 1);
        return "(" + std::to_string(p % x) + ", " + std::to_string(p / x % y) + ", " + std::to_string(p / x / y) + ")";
    };
    const ir::Inst& inst = fn.inst(record.inst);
    const std::string program = program_text(record.program);
    DiagSink sink(1);
    if (inst.op == ir::Op::grid_barrier) {
        Diagnostic d = sink.report(Diag::meeting_missed, inst.span, {program, program_text(record.words.empty() ? 0 : record.words[0]), "has ended"});
        d.notes.push_back("in program " + program);
        return d;
    }
    const std::string& text = fn.strings[static_cast<size_t>(fn.attrs(inst)[0])];
    Diagnostic& d = sink.report(Diag::tile_assertion_failed, inst.span, {text.empty() ? text : ": " + text});
    d.notes.push_back("in program " + program);
    const Shape& shape = fn.type(fn.operands(inst)[0]).shape;
    if (shape.rank && !record.words.empty())
        d.notes.push_back("at element " + point_text(static_cast<int64_t>(record.words[0]), shape) + " of the tile");
    return d;
}

}  // namespace

Reports find_reports(const ir::Function& fn) {
    Reports out;
    out.asserts = ir::may_miss_meetings(fn);
    fn.walk([&](ir::InstId id) {
        out.prints = out.prints || fn.inst(id).op == ir::Op::print;
        out.asserts = out.asserts || fn.inst(id).op == ir::Op::assert;
    });
    return out;
}

void read_report(const ir::Function& fn, std::span<const uint64_t> words, std::span<const uint64_t, 3> grid, std::span<const PrintedRange> ranges,
                 const RunOptions& options, RunResult& result) {
    const Printer printer{fn, ranges};
    std::set<uint32_t> reported;
    uint64_t failed = UINT64_MAX;  // the first program that did
    for (const Record& record : records_of(fn, words)) {
        const ir::Op op = fn.inst(record.inst).op;
        if (op == ir::Op::print && options.print) {
            if (const auto text = printer.text(record)) options.print(*text);
        }
        if (op != ir::Op::assert && op != ir::Op::grid_barrier) continue;
        result.status = RunResult::failed;
        if (failed = std::min(failed, record.program); record.program != failed) continue;
        if (result.diagnostics.size() < options.max_errors && reported.insert(record.inst.v).second)
            result.diagnostics.push_back(failure(fn, record, grid));
    }
    if (words.size() >= kReportHeader && words[0] > words[1]) {
        DiagSink sink(1);
        result.diagnostics.push_back(sink.report(Diag::report_truncated, {}, {std::to_string(words[0] - words[1])}));
    }
}

}  // namespace tegula::cuda
