// The text of `explain`, made of its facts alone (explanation.h). tests/explain/rebuild.py makes the same text of the JSON.
#include <algorithm>
#include <functional>
#include <map>

#include "lang/explanation.h"
#include "lang/plain_text.h"

namespace tegula::explain {

namespace {

constexpr size_t kMostRejected = 5;  ///< many rows refuse for one reason; five lines say enough

std::string fixed(double v, int places) { return decimal_text(v, places, std::chars_format::fixed); }
std::string time_text(double microseconds) { return fixed(microseconds, microseconds < 100 ? 1 : 0) + " us"; }
std::string number(int64_t n) { return std::to_string(n); }
std::string count_text(int64_t n, const std::string& one) { return number(n) + " " + one + (n == 1 ? "" : "s"); }
std::string size_text(int64_t bits) { return bits % 8 ? number(bits) + " bits" : count_text(bits / 8, "byte"); }
std::string large_text(uint64_t bytes) { return bytes >= 10240 ? std::to_string(bytes / 1024) + " KiB" : std::to_string(bytes) + " bytes"; }

/// "a, b, c".
template <class T, class Text>
std::string joined(const T& items, const char* separator, Text&& text) {
    std::string out;
    for (const auto& item : items) out += (out.empty() ? "" : separator) + text(item);
    return out;
}
template <class T>
std::string named(const T& values) {
    return joined(values, ", ", [](const auto& v) {
        if constexpr (requires { std::string(v.value); })
            return v.name + " = " + v.value;
        else
            return v.name + " = " + number(v.value);
    });
}
std::string at_text(const std::vector<Extent>& extents) { return extents.empty() ? "" : " at " + named(extents); }
std::string operations_text(const std::vector<Operations>& list) {
    return joined(list, ", ", [](const Operations& o) { return number(o.count) + " " + o.name; });
}

std::string decode_text(double operations) {
    return operations > 0 ? fixed(operations, 2) + " operations to decode a code" : "codes are decoded one by one";
}

struct Text {
    std::string operator()(const Tune& t) const {
        const auto told = [](const Candidate& c) { return time_text(c.estimate->microseconds) + " (" + c.estimate->text() + ")"; };
        const Candidate& best = t.candidates[t.chosen];
        std::string out = "tune: " + named(best.values) + at_text(t.extents) + ": estimated " + told(best) + ", the least of " +
                          std::to_string(t.candidates.size()) + " choices";
        if (const Candidate& first = t.candidates[0]; t.chosen != 0 && first.estimate) out += "; " + named(first.values) + ": " + told(first);
        return out;
    }
    std::string operator()(const Estimated& e) const {
        std::multimap<double, GpuEstimate::Part, std::greater<>> parts;  // which keeps the order of equal ones
        for (const GpuEstimate::Part& p : e.estimate.parts) parts.emplace(p.microseconds, p);
        return "estimate" + at_text(e.extents) + ": " + time_text(e.estimate.microseconds) + " (" + e.estimate.text() +
               "); each alone: " + joined(parts, ", ", [](const auto& p) { return std::string(p.second.name) + " " + time_text(p.first); });
    }
    std::string operator()(const NoProducts&) const { return "no products"; }
    std::string operator()(const Recognition& r) const { return (r.recognised() ? "matrix product: " : "not a matrix product: ") + r.reason(); }
    std::string operator()(const OwnInstruction& i) const {
        return "instruction `" + i.name + "`: by its text for " + i.form + ", " +
               (i.elements == 0   ? "on tiles in every warp"
                : i.elements == 1 ? "element by element"
                                  : number(i.elements) + " elements at a time");
    }
    std::string operator()(const Split& s) const {
        std::string out = "split sum: " + (s.parts ? number(s.parts) : std::string("as many")) + " stretches";
        if (s.step) out += " of " + number(*s.step) + " elements of K";
        if (s.parts == 0) out += " as the launch's K has, at least one";
        return out + "; a CTA each, of which the last one to end adds the sums, " + number(s.bytes) + " bytes of workspace per stretch" +
               (s.parts ? "" : "; launches that are quicker so run them one after the other in each program");
    }
    std::string operator()(const Persistent&) const {
        return "persistent: as many CTAs as the device holds at once, each running programs one after the other";
    }
    std::string operator()(const Cooperative& c) const {
        const std::string places = c.meetings == 1 ? "one place" : number(c.meetings) + " places";
        return "cooperative: all programs run at the same time, no more than there is room for at once" +
               (c.meetings == 0 ? ""
                                : "; they meet in " + places +
                                      (c.watched ? ", and whether they come there depends on memory, so that ends of programs are counted" : ""));
    }
    std::string operator()(const Product& p) const;
    std::string operator()(const Access& a) const;
    std::string operator()(const PointerAccess& a) const {
        return a.op + " of " + a.element + " " + to_string(a.tile) + ": each pointer is followed for itself, " + number(a.accesses) +
               (a.accesses == 1 ? " access of " : " accesses of ") + size_text(a.access_bits) + " to global memory per thread" +
               (a.masked ? " under its mask" : "") + (a.copies ? "; some threads hold copies" : "") +
               (a.why.empty() ? "" : "; not as a part of a tensor: " + a.why);
    }
    std::string operator()(const Decoding& d) const {
        return "codes of " + d.from + " become " + d.to + " in " + fixed(d.each(), 2) + " operations each, " +
               fixed(d.each("fma") + d.each("conversion"), 2) + " of them on floats: " + operations_text(d.recipe) + " for " +
               number(d.recipe_codes) + (d.shifted ? ", of words that are shifted into place" : "");
    }
    std::string operator()(const Conversion& c) const;
    std::string operator()(const LocalTile& t) const {
        return "`" + t.type + "`: " + number(t.elements) + " elements (" + number(t.bytes) +
               " bytes) of each thread do not fit in registers and lie in " + "local memory";
    }
    std::string operator()(const CopyAhead& c) const;
    std::string operator()(const Hint& h) const {
        return "hint `" + h.hint + "` " + (h.instead.empty() ? "has no effect on " : "counts as " + h.instead + " on ") + h.arch + ": " + h.why;
    }
    std::string operator()(const Resources& r) const;
    std::string operator()(const Stream& s) const {
        return "narrow `" + s.tensor + "`: " + large_text(static_cast<uint64_t>(s.bytes_in_flight)) + " on their way to an SM, where " +
               large_text(static_cast<uint64_t>(s.bytes_needed)) + " hide memory's latency; alone, memory takes " + time_text(s.memory_us) +
               ", loading and decoding " + time_text(s.decode_us) + " of issue slots (" + decode_text(s.operations) + "), tensor cores " +
               time_text(s.tensor_us) + "; estimated " + time_text(s.estimated_us) + ", bound by " + s.bound;
    }
    std::string operator()(const BetterLayout& b) const {
        const auto cost = [](const BetterLayout::Cost& c) {
            return (c.words ? count_text(c.words, "word") + " of a thread by " + number(c.accesses) + (c.accesses == 1 ? " access, " : " accesses, ")
                            : "copies, ") +
                   decode_text(c.operations);
        };
        return "`" + b.tensor + "` in the layout `" + b.layout + "` takes " + cost(b.now) + "; in `" + b.better + "`, " + cost(b.then) +
               ": declare the tensor `@ " + b.better + "` and pack it so (`tegula pack --layout " + b.better + "`)";
    }
    std::string operator()(const CpuCode& c) const;
    std::string operator()(const CpuPrograms& p) const;
    std::string operator()(const CpuStreams& s) const {
        const auto quoted = [](const std::string& name) { return "`" + name + "`"; };
        std::string reads = joined(s.read, ", ", quoted), writes = joined(s.written, ", ", quoted);
        if (!reads.empty()) reads = "read ahead: " + reads + (writes.empty() ? "" : "; ");
        if (!writes.empty()) writes = "written past the caches: " + writes;
        return "tensors larger than the last-level caches are streamed; " + reads + writes;
    }
    std::string operator()(const CpuOperation& o) const;
};

std::string Text::operator()(const Product& p) const {
    const std::string shape = number(p.m) + " x " + number(p.n) + " x " + number(p.k);
    std::string out = "product " + (p.batch == 1 ? shape : number(p.batch) + " times " + shape) + ": " + p.row.text();
    if (!p.scale_blocks.empty()) out += ", with scales of blocks of " + number(p.scale_blocks[0]) + " and " + number(p.scale_blocks[1]);
    if (p.tensor_columns) out += ", its sum in " + number(p.tensor_columns) + " columns of tensor memory";
    if (p.late) out += ", under way while the next trip makes its first factor";
    if (p.clocks) out += ", " + fixed(*p.clocks, 0) + " clocks";
    const std::vector<const Rejected*> others = p.told();
    if (p.row.fma && p.scale_blocks.empty() && others.empty()) out += ": no tensor core of " + p.arch + " accumulates in " + p.accumulator;
    for (size_t i = 0; i < std::min(others.size(), kMostRejected); ++i) {
        const Rejected& r = *others[i];
        out += "; not " + r.row.text() + ": " + (r.clocks ? fixed(*r.clocks, 0) + " clocks" : "") + (r.clocks && !r.why.empty() ? ", " : "") + r.why;
    }
    return out;
}

std::string Text::operator()(const Access& a) const {
    std::string out = a.op + (a.tensor.empty() ? "" : " of `" + a.tensor + "`") + " " + to_string(a.tile) + ": ";
    if (a.boxes)
        return out + "by TMA, each warp in boxes of " + number(a.boxes->lines) + " x " + number(a.boxes->columns) + " through " +
               number(a.boxes->shared_bytes) + " bytes of shared memory";
    if (a.words)
        out += number(a.words->words) + " words of a thread by " + number(a.words->accesses) + " accesses of " + size_text(a.words->access_bits);
    else if (!a.elements)
        out += "no dimension of the tile is contiguous in memory, single elements";
    else
        out += count_text(a.elements->elements, "element") + " (" + size_text(a.elements->access_bits) + ") per thread" +
               (a.elements->shifted ? ", words shifted into place, " : " and access, ") +
               (a.elements->whole_sectors ? "whole sectors" : "parts of 32-byte sectors");
    if (a.copies) out += "; some threads hold copies";
    return out + (a.not_tma.empty() ? "" : "; not by TMA: " + a.not_tma);
}

std::string Text::operator()(const Conversion& c) const {
    const auto side = [](const char* verb, const Conversion::Side& s) {
        return std::string(", ") + verb + " " + size_text(s.access_bits) + " at a time, " +
               (s.bank_accesses == 1 ? "no bank conflicts" : number(s.bank_accesses) + " accesses to a bank");
    };
    std::string out = "tile " + to_string(c.tile) + " ";
    if (c.way == Conversion::to_shared)
        out += "is put into shared memory (" + c.layout + ") for a product";
    else if (c.way == Conversion::no_zeros)
        out += "of zeros needs no place: its product overwrites tensor memory";
    else if (c.way == Conversion::to_tensor_memory)
        out += "is put into tensor memory for a product";
    else if (c.way == Conversion::from_tensor_memory)
        out += "is read from tensor memory into registers";
    else if (c.way == Conversion::from_shared)
        out += "is read from shared memory into registers";
    else if (c.way == Conversion::shuffled)
        out += "changes its layout: " + number(c.shuffles) + " shuffles per thread";
    else if (c.way == Conversion::through_scratch)
        out += "changes its layout: through " + number(c.scratch_bytes) + " bytes of scratch" + (c.written ? side("written", *c.written) : "") +
               (c.read ? side("read", *c.read) : "");
    else
        out += "changes its layout: registers are renamed";
    return out + (c.global_scratch ? ", in global memory: shared memory is too small" : "");
}

std::string Text::operator()(const CopyAhead& c) const {
    const std::string load = "load of " + (c.tensor.empty() ? "a tensor" : "`" + c.tensor + "`") + ": ";
    if (c.by == CopyAhead::nobody) return load + "not copied ahead, because " + c.refusal;
    const bool own = c.by == CopyAhead::own;
    std::string out = load + "copied ahead by " +
                      (own                      ? "each thread for itself"
                       : c.by == CopyAhead::tma ? "TMA"
                                                : "the threads that compute") +
                      " through a ring of " + count_text(c.stages, "stage") + (own ? "" : ", swizzle of " + number(c.swizzle) + " bytes");
    if (c.sharers > 1) out += ", by multicast to " + number(c.sharers) + " programs of a cluster, which copy a part each";
    if (!c.unshared.empty()) out += ", by every program of a cluster for itself: " + c.unshared;
    return out;
}

std::string Text::operator()(const Resources& r) const {
    std::string out = "resources of a program: " + count_text(r.threads, "thread");
    if (r.threads > 32 * r.warps) out += ", of which " + number(r.threads - 32 * r.warps) + " copy";
    out += ", ";
    if (r.registers_are == Resources::estimated) out += "about ";
    out += count_text(r.registers, "register") + " each, ";
    out += r.shared_bytes ? large_text(static_cast<uint64_t>(r.shared_bytes)) + " of shared memory" : "no shared memory";
    if (!r.buffers.empty()) {
        out += " (" +
               joined(r.buffers, ", ",
                      [](const Buffer& b) {
                          return (b.stages > 1 ? number(b.stages) + " x " : "") + number(b.bytes) + " bytes " +
                                 (b.use == Buffer::ring   ? "in a ring of "
                                  : b.use == Buffer::tile ? "of a tile of "
                                                          : "for ") +
                                 b.of + (b.where == Buffer::workspace ? " in global memory" : "");
                      }) +
               ")";
    }
    if (r.tensor_columns) out += ", " + number(r.tensor_columns) + " columns of tensor memory";
    return out + "; " + count_text(r.per_sm, "program") + " per SM at a time, limited by " + r.limit;
}

std::string Text::operator()(const CpuCode& c) const {
    std::string out = "code for " + c.cpu + ": vectors of " + std::to_string(c.vector_bytes) + " bytes, as " + c.reason + "; " +
                      std::to_string(c.vector_bytes / 4) + " lanes per step of an inner loop, of 32 bits";
    if (c.narrowest.empty()) return out;
    out += " whatever the elements, here `" + c.narrowest + "`" + (c.widest.empty() ? "" : " to `" + c.widest + "`");
    return out + (c.two_registers ? ", which takes two registers" : "");
}

std::string Text::operator()(const CpuPrograms& p) const {
    const std::string scratch = "; a thread has " + large_text(p.scratch_bytes) + " of scratch memory";
    if (p.single) return "the grid has one program, which runs on the calling thread" + scratch;
    std::string threads = "threads of the host's executor";
    if (p.threads == CpuPrograms::pool) {
        threads = p.most_of_pool ? "the calling thread and " + std::to_string(p.most_of_pool) + " of the pool" : "the threads of the pool";
        if (p.pinned) threads += ", each pinned to a core";
    }
    const std::string grid = joined(p.grid, " x ", [](const std::string& axis) { return axis; });
    const std::string programs = "programs of the grid" + (grid.empty() ? "" : " (" + grid + ")");
    if (p.threads == CpuPrograms::own) return programs + " get a thread each, which is made for the launch" + scratch;
    return programs + " run on " + threads + ", as many as there are programs and at most `threads` of the launch (all cores by default, " +
           std::to_string(p.cores) + " here)" + scratch;
}

std::string Text::operator()(const CpuOperation& o) const {
    const std::string stored = joined(o.stored, ", ", [](const CpuOperation::Stored& s) {
        return s.type + " is stored (" + large_text(s.bytes) + ")" + (s.why.empty() ? "" : ", " + s.why);
    });
    std::string out = o.op + ": " + (!stored.empty() ? stored : o.nest ? "one loop nest" : "fused into another's loops");
    if (!o.fused.empty()) out += "; fused into its loops: " + joined(o.fused, ", ", [](const std::string& name) { return name; });
    if (!o.order.empty()) out += "; " + o.order;
    if (!o.pointers.empty()) out += "; pointers: " + o.pointers;
    if (!o.product) return out;
    const CpuOperation::MatrixProduct& p = *o.product;
    if (p.transposed) out += "; computed as the transposed product, as there are few columns";
    out += "; " + p.way;
    if (p.kept_rows) out += "; rows that no store keeps are left out";
    if (p.few_kept) out += ", up to " + number(p.few_kept) + " kept ones are multiplied as few rows are";
    return out + "\n    why: " + p.why;
}

}  // namespace

std::string Recognition::reason() const {
    if (!refusal.empty()) return refusal;
    if (!op.empty()) return "computed as " + op;
    return number(rows) + " row, " + number(columns) + " column and " + number(batch) + " batch indices";
}

std::string Instruction::text() const {
    if (!tensor_core) return name + " (no tensor core)";
    return name + " m" + number(m) + (n ? "n" + number(n) : "nN") + "k" + number(k);
}

std::vector<const Rejected*> Product::told() const {
    std::vector<const Rejected*> out;
    for (const Rejected& r : rejected)
        if (r.clocks || (r.row.tensor_core && (r.code != Rejected::formats || row.fma))) out.push_back(&r);
    return out;
}

double Decoding::each(const char* pipe) const {
    int64_t n = 0;
    for (const Operations& o : operations)
        if (!pipe || o.pipe == pipe) n += o.count;
    return static_cast<double>(n) / static_cast<double>(codes);
}

std::string text(const Fact& fact) { return std::visit(Text{}, fact); }

}  // namespace tegula::explain

namespace tegula {

std::string GpuEstimate::text() const {
    std::string out = std::to_string(programs) + (programs == 1 ? " program, " : " programs, ") + std::to_string(per_sm) + " per SM at a time, ";
    if (!row.empty()) out += row + ", ";
    if (stages) out += std::to_string(stages) + " stages, ";
    if (!spread) out += "stretches one after the other, ";
    if (spills) out += "accumulators do not fit in registers, ";
    return out + "bound by " + bound;
}

std::string Explanation::text(const SourceMap& sources) const {
    std::string out;
    for (const explain::Note& note : notes) {
        if (note.span.valid()) {
            const LineCol at = sources.line_col(note.span.file, note.span.begin);
            out += std::string(sources.name(note.span.file)) + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": ";
        }
        out += explain::text(note.fact) + "\n";
    }
    return out;
}

}  // namespace tegula
